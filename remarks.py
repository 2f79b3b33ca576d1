"""What there is to say of data or of a result, as data: a code and its values. `report.words` puts it into words."""

from __future__ import annotations

from collections.abc import Hashable, Mapping
from dataclasses import dataclass
from typing import Any


@dataclass(frozen=True, slots=True)
class Remark:
    """One remark, reason or finding; equal ones are equal and can be counted.

    Attributes
    ----------
    code : str
        Stable name, e.g. ``"above-trained-range"``: what code compares, never the words.
    items : tuple of (str, value)
        The figures and names of this case, each hashable.

    Examples
    --------
    >>> remark("above-trained-range", feature="m", value=4096.0).values
    {'feature': 'm', 'value': 4096.0}
    """

    code: str
    items: tuple[tuple[str, Hashable], ...] = ()

    @property
    def values(self) -> Mapping[str, Any]:
        """The figures and names of this case by their key."""
        return dict(self.items)

    def to_dict(self) -> dict[str, Any]:
        """Return the code and the values, for JSON."""
        return {"code": self.code, **dict(self.items)}


def remark(code: str, **values: Hashable) -> Remark:
    """Return the remark of a code and its values."""
    return Remark(code, tuple(values.items()))

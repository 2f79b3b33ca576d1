"""What there is to say of data or of a result, as data: a code and its values. `report.words` puts it into words."""

from __future__ import annotations

from collections.abc import Hashable, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Self

from .arrays import BoolArray

if TYPE_CHECKING:  # errors hold remarks, and what refuses a wrong option need not wait for NumPy
    import numpy as np
    from numpy.typing import NDArray


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


@dataclass(frozen=True, slots=True)
class Alike:
    """Remarks of one code that differ in some values only: a million of them take little time and memory.

    Attributes
    ----------
    code : str
    shared : tuple of (str, value)
        What is the same in all of them.
    own : mapping of str to sequence
        What each has of its own: lists of one length.
    """

    code: str
    shared: tuple[tuple[str, Hashable], ...]
    own: Mapping[str, Sequence[Hashable]]

    def each(self) -> list[Remark]:
        """Return them one by one."""
        names = tuple(self.own)
        rows = zip(*self.own.values(), strict=True)
        return [Remark(self.code, (*self.shared, *zip(names, row, strict=True))) for row in rows]

    def take(self, places: NDArray[np.intp]) -> Alike:
        """Return some of them."""
        return Alike(self.code, self.shared, {name: [own[at] for at in places] for name, own in self.own.items()})


class Reasons:
    """What is said of each of many rows, in order, kept by what is said and not by row.

    Attributes
    ----------
    rows : int
        Number of rows.
    parts : list of (ndarray of int, Remark or Alike)
        Positions of rows, each once, and what is said of all of them, or of each.

    Examples
    --------
    >>> found = Reasons(3)
    >>> found.add([0, 2], remark("missing-value", feature="m"))
    >>> [len(said) for said in found.of_rows()], found.any().tolist()
    ([1, 0, 1], [True, False, True])
    """

    def __init__(self, rows: int) -> None:
        self.rows = rows
        self.parts: list[tuple[NDArray[np.intp], Remark | Alike]] = []

    @classmethod
    def of(cls, said: Sequence[Sequence[Remark]]) -> Self:
        """Return what is said of each row."""
        found = cls(len(said))
        told = [(row, ways) for row, ways in enumerate(said) if ways]
        for place in range(max((len(ways) for _, ways in told), default=0)):
            same: dict[int, tuple[Remark, list[int]]] = {}
            for row, ways in told:
                if place < len(ways):
                    same.setdefault(id(ways[place]), (ways[place], []))[1].append(row)
            for one, rows in same.values():
                found.add(rows, one)
        return found

    def add(self, rows: Sequence[int] | NDArray[np.intp], what: Remark | Alike) -> None:
        """Say of some rows something more."""
        if len(rows):
            import numpy as np

            self.parts.append((np.asarray(rows, dtype=np.intp), what))

    def extend(self, others: Reasons, at: NDArray[np.intp]) -> None:
        """Say what is said of other rows of those at these positions."""
        self.parts += [(at[rows], what) for rows, what in others.parts]

    def where(self, kept: BoolArray) -> Reasons:
        """Return what is said of the rows of a mask."""
        import numpy as np

        found, places = Reasons(int(kept.sum())), np.cumsum(kept) - 1
        for rows, what in self.parts:
            here = kept[rows]
            found.add(places[rows[here]], what.take(np.flatnonzero(here)) if isinstance(what, Alike) else what)
        return found

    def any(self) -> BoolArray:
        """Return of which rows anything is said."""
        import numpy as np

        told = np.zeros(self.rows, dtype=bool)
        for rows, _ in self.parts:
            told[rows] = True
        return told

    def of_rows(self) -> list[tuple[Remark, ...]]:
        """Return what is said of each row."""
        said: list[list[Remark]] = [[] for _ in range(self.rows)]
        for rows, what in self.parts:
            each = what.each() if isinstance(what, Alike) else [what] * len(rows)
            for row, one in zip(rows.tolist(), each, strict=True):
                said[row].append(one)
        return [tuple(why) for why in said]

"""Constants that were measured, or judged, as data: a TOML table each, with unit, device and source.

`constant` gives those of hardware/constants.toml, by their name there; `read_constants` reads
another such file.
"""

from __future__ import annotations

import tomllib
from collections.abc import Mapping
from dataclasses import dataclass, field
from functools import cache
from importlib import resources
from typing import Any


@dataclass(frozen=True)
class Constant:
    """A number that was measured or judged."""

    value: float  # in `unit`; NaN where there is none but of one device (`by`)
    # unit ("" for a share or a ratio), what it is, what it was measured on, and by whom, or
    # ``judgement``
    unit: str
    what: str
    device: str
    source: str
    spread: float = float("nan")  # standard deviation of its logarithm; NaN where it is unknown
    # where it was measured of one device: by gfx id, vendor, ...
    by: Mapping[str, float] = field(default_factory=dict)

    def of(self, key: str | None) -> float:
        """Return the value of what was measured of this device, else the one for all."""
        return self.by.get(key or "", self.value)


def constant(name: str) -> Constant:
    """Return a constant of hardware/constants.toml.

    >>> found = constant("launch.before_work")
    >>> found.value, found.unit
    (2.0, 'µs')
    """
    return _constants()[name]


def constants_of(table: str) -> list[str]:
    """Return the names of the constants of a table of hardware/constants.toml, without the table's."""
    start = f"{table}."
    return [name.removeprefix(start) for name in _constants() if name.startswith(start)]


def read_constants(text: str) -> dict[str, Constant]:
    """Return the constants of a TOML file by their names, ``table.name``, in the order of the file."""
    constants: dict[str, Constant] = {}
    for name, table in tomllib.loads(text).items():
        alone = "unit" in table or "same" in table
        if alone:
            constants |= {name: _read(table)}
        else:
            constants |= {f"{name}.{key}": _read(one) for key, one in table.items()}
    return constants


@cache
def _constants() -> dict[str, Constant]:
    return read_constants(
        (resources.files("flopcast.hardware") / "constants.toml").read_text(encoding="utf-8")
    )


def _read(table: Mapping[str, Any]) -> Constant:
    if "same" in table:
        return constant(table["same"])
    return Constant(
        value=_number(table.get("value", float("nan"))),
        unit=table["unit"],
        what=table["what"],
        device=table["device"],
        source=table["source"],
        spread=float(table.get("spread", "nan")),
        by={key: _number(value) for key, value in table.get("by", {}).items()},
    )


def _number(value: float | Mapping[str, float]) -> float:
    """Return a number, or the share of what was reached."""
    if isinstance(value, Mapping):
        return float(value["reached"] / value["of"])
    return float(value)

"""Units of time, energy and power in column names: "latency_ms", "duration (us)", "energy_mj", "power (mW)"."""

from __future__ import annotations

import re

from ...errors import DataError

#: Microseconds in one of each unit, joules in one of each, watts in one of each.
TIME_UNITS = {"ns": 1e-3, "us": 1.0, "µs": 1.0, "μs": 1.0, "ms": 1e3, "s": 1e6}
ENERGY_UNITS = {"nj": 1e-9, "uj": 1e-6, "µj": 1e-6, "mj": 1e-3, "j": 1.0, "kj": 1e3}
POWER_UNITS = {"mw": 1e-3, "w": 1.0, "kw": 1e3}
POWER = "power"

_LONG = {
    "nanosecond": "ns", "nanoseconds": "ns", "microsecond": "us", "microseconds": "us", "usec": "us",
    "millisecond": "ms", "milliseconds": "ms", "msec": "ms", "second": "s", "seconds": "s", "sec": "s",
    "joule": "j", "joules": "j", "watt": "w", "watts": "w",
}  # fmt: skip
_SUFFIX = re.compile(r"^(?P<base>.*?)[\s_.]*[(\[]?(?<![A-Za-zµμ])(?P<unit>[A-Za-zµμ]+)[)\]]?$")


def canonical_unit(word: str) -> str | None:
    """Return the unit as the tables of this module spell it; None if it is no unit of time, energy or power."""
    plain = _LONG.get(word.strip().lower(), word.strip().lower())
    return plain if any(plain in units for units in (TIME_UNITS, ENERGY_UNITS, POWER_UNITS)) else None


def split_unit(column: str) -> tuple[str, str | None]:
    """Return the lower-case name of a column without its unit, and the unit ("Latency (ms)" -> "latency", "ms").

    A lone unit is a name of its own: "us" -> "", "us"; but "s" and "j" are too short to be read as one. Watts are units
    of a power alone: "pad_w" is a width.
    """
    match = _SUFFIX.match(column.strip())
    base, unit = (match["base"].lower(), canonical_unit(match["unit"])) if match else ("", None)
    if unit is None or (not base and unit in {"s", "j"}) or (unit in POWER_UNITS and base != POWER):
        return column.strip().lower(), None
    return base, unit


def stated_unit(column: str, word: str) -> str:
    """Return the unit that the user states for a column.

    Raises
    ------
    DataError
        It is no unit of time, energy or power.
    """
    unit = canonical_unit(word)
    if unit is None:
        known = ", ".join(("ns", "us", "ms", "s", "uj", "mj", "j", "kj", "mw", "w", "kw"))
        raise DataError(f"unit of column {column!r} must be one of {known}, got {word!r}")
    return unit

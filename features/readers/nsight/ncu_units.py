"""Units that Nsight Compute prints: scaled to the value ("usecond", "Kbyte/block", "Ghz"), as its release spells them.

Base units here: ns for times, byte, hz (also for "cycle/nsecond"), and "per second" for rates ("byte/second"). Prefixes
are decimal: 49 152 bytes of shared memory are printed as 49.15 Kbyte.
"""

from __future__ import annotations

import re

_TIMES = {
    "nsecond": 1.0, "ns": 1.0, "nanosecond": 1.0, "usecond": 1e3, "us": 1e3, "microsecond": 1e3,
    "msecond": 1e6, "ms": 1e6, "millisecond": 1e6, "second": 1e9, "s": 1e9, "sec": 1e9,
}  # fmt: skip
_PREFIXES = {"": 1.0, "K": 1e3, "k": 1e3, "M": 1e6, "G": 1e9, "T": 1e12, "P": 1e15}
_SCALED = re.compile(
    r"^(?P<prefix>[KkMGTP]?)(?P<unit>byte|B|bit|b|hz|Hz|cycle|inst|sector|request|thread|warp|block|flop|FLOP)s?$"
)
_NAMES = {"B": "byte", "b": "bit", "Hz": "hz", "FLOP": "flop"}
_SECOND_NS = 1e9


def base_unit(unit: str) -> tuple[str, float]:
    """Return the base unit of a printed unit, and how many of it one of the printed is.

    Units that are not known to be scaled stay as they are.

    Examples
    --------
    >>> base_unit("usecond")
    ('ns', 1000.0)
    >>> base_unit("Gbyte/second")
    ('byte/second', 1000000000.0)
    >>> base_unit("cycle/nsecond")
    ('hz', 1000000000.0)
    """
    above, slash, below = unit.strip().partition("/")
    name, factor = _part(above.strip())
    if not slash:
        return name, factor
    if below.strip() in _TIMES:
        rate = "hz" if name == "cycle" else f"{name}/second"
        return rate, factor * _SECOND_NS / _TIMES[below.strip()]
    under, divisor = _part(below.strip())
    return f"{name}/{under}", factor / divisor


def _part(unit: str) -> tuple[str, float]:
    """Return the base unit of a unit that is no quotient."""
    if unit in _TIMES:
        return "ns", _TIMES[unit]
    if match := _SCALED.match(unit):
        return _NAMES.get(match["unit"], match["unit"]), _PREFIXES[match["prefix"]]
    return unit, 1.0

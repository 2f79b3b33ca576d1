"""Words of the verdicts on a law of scaling in one kernel class."""

from __future__ import annotations

from collections.abc import Callable
from typing import Final

from ...evaluation.verdicts import MIN_GROUPS, MIN_ROWS, Interval


def _too_few(rows: int, groups: int) -> str:
    needed = (("rows", rows, MIN_ROWS), ("groups", groups, MIN_GROUPS))
    missing = [f"{count} of the {least} {name}" for name, count, least in needed if count < least]
    return f"too few data ({' and '.join(missing)} needed)"


def _scatters(scatter: float, deviation: Interval) -> str:
    return f"fails: scatters by {100 * scatter:.1f} % around {deviation}"


WORDS: Final[dict[str, str | Callable[..., str]]] = {
    "law-too-few-data": _too_few,
    "law-not-published": "not known: the law needs a figure that is not published",
    "law-depends-on-size": "fails: depends on size (slope {slope})",
    "law-scatters": _scatters,
    "law-slope-undecided": "undecided (slope {slope})",
    "law-holds": "holds ({deviation})",
    "law-holds-corrected": "holds with a correction of {deviation}",
    "law-median-undecided": "undecided (median {deviation})",
}

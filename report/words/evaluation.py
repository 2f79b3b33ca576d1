"""Words of what evaluation says: of a competition of models, and of a law of scaling in one kernel class."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any, Final

from ...evaluation.verdicts import MIN_GROUPS, MIN_ROWS, Interval


def _few_groups(groups: int) -> str:
    only = f"{groups} group{'s' * (groups > 1)} only"
    return f"{only}: no folds by group, so nothing is known of new groups (--group chooses others)"


def _quick(ran: Sequence[str], left_out: Sequence[str]) -> str:
    return f"a quick answer: only {', '.join(ran)} ran; left out: {', '.join(left_out)}"


def _too_few(rows: int, groups: int) -> str:
    needed = (("rows", rows, MIN_ROWS), ("groups", groups, MIN_GROUPS))
    missing = [f"{count} of the {least} {name}" for name, count, least in needed if count < least]
    return f"too few data ({' and '.join(missing)} needed)"


def _scatters(scatter: float, deviation: Interval) -> str:
    return f"fails: scatters by {100 * scatter:.1f} % around {deviation}"


WORDS: Final[dict[str, str | Callable[..., str]]] = {
    "few-groups": _few_groups,
    "baseline-wins": "under the scheme {scheme} the baseline {baseline!r} beats every model",
    "cannot-win": "left after {folds} of {of} folds, as it could not win any more: its figures are of these folds",
    "quick": _quick,
    "law-too-few-data": _too_few,
    "law-not-published": "not known: the law needs a figure that is not published",
    "law-depends-on-size": "fails: depends on size (slope {slope})",
    "law-scatters": _scatters,
    "law-slope-undecided": "undecided (slope {slope})",
    "law-holds": "holds ({deviation})",
    "law-holds-corrected": "holds with a correction of {deviation}",
    "law-median-undecided": "undecided (median {deviation})",
}


def selection(entry: Mapping[str, Any]) -> str:
    """Return the statement of a selection (``selected`` of ``metrics.json``): the model, its error, who else might be.

    Examples
    --------
    >>> selection({"name": "OLS", "e_out": 4, "interval": [3, 6], "level": 0.95, "tied": ["OLS"], "baseline": False})
    'OLS: 4.0 % [3.0, 6.0] at 95 % confidence'
    """
    low, high = entry["interval"]
    text = f"{entry['name']}: {entry['e_out']:.1f} % [{low:.1f}, {high:.1f}] at {100 * entry['level']:g} % confidence"
    if entry["baseline"]:
        text += "; an analytic baseline beats every fitted model"
    if len(tied := entry["tied"]) > 1:
        text += f"; a coin toss between {', '.join(tied[:-1])} and {tied[-1]}"
    return text

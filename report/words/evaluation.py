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


def _shift(shift: Interval) -> str:
    return f"observed / predicted is {shift} in the median ({100 * shift.level:.1f} % interval)"


def _coverage(coverage: float, level: float, rows: float, p_value: float, corrected: bool) -> str:
    once = "once corrected, " if corrected else ""
    return (
        f"{once}{100 * coverage:.1f} % of the rows lie inside their {100 * level:g} % intervals (binomial test with "
        f"{rows:.0f} independent rows: p = {p_value:.2g})"
    )


def _host(
    host: str, trained: str, e_out: float, expected: float, rows: int, other: float | None, own: float | None
) -> str:
    replaced = f"from {host} in place of {trained} the error is"
    if other is not None and own is not None:
        return f"{replaced} {other:.1f} % instead of {own:.1f} % on {rows} workloads of both"
    return f"{replaced} {e_out:.1f} %; out of sample the run promised {expected:.1f} %"


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
    "advice-expected": "error expected of the candidates: {now} now, {after} once the batch is trained too",
    "check-valid": "still valid",
    "check-shifted": "shifted by {shift}: correct it",
    "check-retrain": "no longer valid: retrain",
    "check-too-few": f"too few data: {MIN_ROWS} rows and {MIN_GROUPS} groups within the trained range are needed",
    "check-shift": _shift,
    "check-coverage": _coverage,
    "check-growth": "{growth.value:.2f} times the error out of sample (at least {growth.lower:.2f})",
    "check-host": _host,
    "check-beyond": "{rows} of {of} rows lie outside the trained range (error {e_out:.1f} %): no verdict rests on them",
    "check-all-trained": "the run was trained on all of these rows: that says nothing of new ones",
    "corrected": (
        "corrected later by {factor:.3f} [{lower:.3f}, {upper:.3f}], measured on {rows} rows of {groups} groups"
    ),
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

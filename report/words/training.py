"""Words of what is said of a competition of models."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any, Final


def _few_groups(groups: int) -> str:
    only = f"{groups} group{'s' * (groups > 1)} only"
    return f"{only}: no folds by group, so nothing is known of new groups (--group chooses others)"


WORDS: Final[dict[str, str | Callable[..., str]]] = {
    "few-groups": _few_groups,
    "baseline-wins": "under the scheme {scheme} the baseline {baseline!r} beats every model",
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

"""Which of the profiler's steps to believe: the first and last, partial and outlying ones are left out."""

from __future__ import annotations

import re
from dataclasses import dataclass

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from ...errors import DataError
from .mad import THRESHOLD, mad_filter

PROTOCOL = 50
"""Steps that a measurement should have, outliers left out."""
FEWEST = 5
"""Steps from which the first and the last are left out whatever they look like."""
COMPLETE = 0.9
"""Share of the usual number of activities from which a step is whole."""
STABLE, ALL = "stable", "all"
OUTSIDE, FIRST, LAST, PARTIAL, OUTLIER, NOT_ASKED = (
    "outside the steps",
    "first step",
    "last step",
    "partial step",
    "outlying step",
    "step not asked for",
)

_RANGE = re.compile(r"(\d{0,9}):(\d{0,9})")


@dataclass(frozen=True)
class StepSelection:
    """The steps of a run and which of them are kept.

    Attributes
    ----------
    steps : DataFrame
        `step`, `activities`, `span_us` (first start to last end on the GPU), `reason` ("" where it is kept).
    reason : ndarray of str of shape (n_dispatches,)
        Why each activity is left out, "" where it is not.
    notes : tuple of str
        What the user should know: no steps, or fewer than `PROTOCOL`.
    """

    steps: pd.DataFrame
    reason: NDArray[np.object_]
    notes: tuple[str, ...]


def select_steps(
    dispatches: pd.DataFrame, steps: pd.DataFrame, rule: str = STABLE, *, threshold: float = THRESHOLD
) -> StepSelection:
    """Return which steps of one run are kept.

    "stable" leaves out the activities outside of every step, the first and the last step (of five or more), steps with
    fewer than 90 % of the median number of activities, and steps whose span on the GPU is an outlier (`mad_filter`).
    "all" keeps everything. "A:B" keeps the steps from number A to number B, both included; either may be left out.

    Parameters
    ----------
    dispatches : DataFrame
        Dispatch table of one run.
    steps : DataFrame
        Its steps (`Annotated.steps`).
    rule : str, default="stable"
    threshold : float, default=7
        MAD of the spans that are accepted.

    Raises
    ------
    DataError
        The rule is none of the three; or it names steps of a run that has none, or other ones.
    """
    wanted = parse_rule(rule)
    keep_all = np.full(len(dispatches), "", dtype=object)
    if steps.empty:
        if wanted is not None:
            raise DataError(f"--steps {rule}: no steps are recorded: leave it out, or record with torch's schedule")
        return StepSelection(_summary(dispatches, steps), keep_all, ())
    table = _summary(dispatches, steps)
    if table.empty and wanted is None:
        return StepSelection(table, keep_all, ("no activity was launched in a recorded step: all are kept",))
    if rule == ALL:
        return StepSelection(table, keep_all, _notes(table, rule))
    reason = _stable(table, threshold) if wanted is None else _range(table, wanted, rule)
    table = table.assign(reason=reason)
    of_step = dict(zip(table["step"], table["reason"], strict=True))
    number = dispatches["step"].astype("Int64")
    reasons = number.astype(object).map(of_step).fillna(OUTSIDE)
    return StepSelection(table, reasons.to_numpy(dtype=object), _notes(table, rule))


def parse_rule(rule: str) -> tuple[int, int] | None:
    """Return the range that "A:B" means, None for "stable" and "all".

    Raises
    ------
    DataError
        It is none of these.
    """
    if rule in (STABLE, ALL):
        return None
    match = _RANGE.fullmatch(rule.strip())
    first, last = (int(match[1] or 0), int(match[2] or 10**9)) if match else (1, 0)
    if first > last:
        raise DataError(f"--steps must be stable, all or A:B, got {rule!r}: write e.g. --steps 10:60")
    return first, last


def _summary(dispatches: pd.DataFrame, steps: pd.DataFrame) -> pd.DataFrame:
    """Return the steps that have activities, in the order of the profiler."""
    inside = dispatches[dispatches["step"].notna()]
    numbers = inside["step"].astype(np.int64)
    starts, ends = inside["start_ns"], inside["start_ns"] + inside["duration_ns"].clip(lower=0)
    span = ends.groupby(numbers).max() - starts.groupby(numbers).min()
    count = numbers.groupby(numbers).size()
    order = [step for step in dict.fromkeys(steps["step"].tolist()) if step in count.index]
    return pd.DataFrame(
        {
            "step": np.array(order, dtype=np.int64),
            "activities": count.reindex(order).to_numpy(dtype=np.int64),
            "span_us": span.reindex(order).to_numpy(dtype=np.float64) / 1e3,
            "reason": "",
        }
    )


def _stable(table: pd.DataFrame, threshold: float) -> NDArray[np.object_]:
    reason = np.full(len(table), "", dtype=object)
    if len(table) >= FEWEST:
        reason[0], reason[-1] = FIRST, LAST
    whole = reason == ""
    count = table["activities"].to_numpy(dtype=np.float64)
    if whole.any():
        partial = whole & (count < COMPLETE * np.median(count[whole]))
        reason[partial] = PARTIAL
    rest = np.flatnonzero(reason == "")
    found = mad_filter(table["span_us"].to_numpy()[rest], threshold)
    reason[rest[found.removed]] = OUTLIER
    return reason


def _range(table: pd.DataFrame, wanted: tuple[int, int], rule: str) -> NDArray[np.object_]:
    number = table["step"].to_numpy()
    inside = (number >= wanted[0]) & (number <= wanted[1])
    if not inside.any():
        have = f"{number.min()} to {number.max()}" if len(number) else "none with activities"
        raise DataError(f"--steps {rule}: the run has no such step: it has {have}")
    return np.where(inside, "", NOT_ASKED).astype(object)


def _notes(table: pd.DataFrame, rule: str) -> tuple[str, ...]:
    kept = int((table["reason"] == "").sum())
    notes = [f"{kept} {_steps(kept)} kept: repeat the run for {PROTOCOL} or more"] if kept < PROTOCOL else []
    if rule == STABLE and len(table) < FEWEST:
        notes.append(f"{len(table)} {_steps(len(table))}: too few to leave out the first and the last")
    return tuple(notes)


def _steps(count: int) -> str:
    return "step" if count == 1 else "steps"

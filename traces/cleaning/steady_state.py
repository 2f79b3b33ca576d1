"""The steady state of a run: the profiler's steps that are whole and usual, and the repeats after the warm-up.

`select_steps` chooses among the steps of one run: the first and the last, partial and outlying ones
are left out. `warm_up` says how many of the first repeats of a series were measured before it had
settled. A reason for leaving something out is a code of this module (`OUTSIDE` and those after it).
"""

from __future__ import annotations

import re
from dataclasses import dataclass

import numpy as np
import pandas as pd
from numpy.typing import ArrayLike
from scipy.ndimage import median_filter
from scipy.stats import mannwhitneyu

from ...arrays import FloatArray, ObjectArray
from ...errors import ParameterError, counted
from ...remarks import Remark, remark
from .robust import THRESHOLD, mad_filter

PROTOCOL = 50  # steps that a measurement should have, outliers left out
FEWEST = 5  # steps from which the first and the last are left out whatever they look like
COMPLETE = 0.9  # share of the usual number of activities from which a step is whole
STABLE = "stable"
ALL = "all"
OUTSIDE = "outside-steps"
FIRST = "first-step"
LAST = "last-step"
PARTIAL = "partial-step"
OUTLIER = "outlying-step"
NOT_ASKED = "step-not-asked-for"
_RANGE = re.compile(r"(\d{0,9}):(\d{0,9})")


@dataclass(frozen=True)
class StepSelection:
    """The steps of a run and which of them are kept.

    Notes are ``few-steps-kept`` (fewer than `PROTOCOL`), ``too-few-steps-to-trim``,
    ``no-activity-in-steps``.
    """

    # `step`, `activities`, `span_us` (first start to last end on the GPU), `reason` ("": kept)
    steps: pd.DataFrame
    reason: ObjectArray  # why each activity is left out, "" where it is not; shape (n_dispatches,)
    notes: tuple[Remark, ...]


def select_steps(
    dispatches: pd.DataFrame,
    steps: pd.DataFrame,
    rule: str = STABLE,
    *,
    threshold: float = THRESHOLD,
) -> StepSelection:
    """Return which steps of one run are kept.

    "stable" leaves out the activities outside of every step, the first and the last step (of five
    or more), steps with fewer than 90 % of the median number of activities, and steps whose span on
    the GPU is an outlier (`mad_filter`). "all" keeps everything. "A:B" keeps the steps from number
    A to number B, both included; either may be left out.

    ``steps`` are `Annotated.steps`. A ParameterError (``steps``) says that the rule is none of the
    three, or names steps of a run that has none, or other ones.
    """
    wanted = step_range(rule)
    keep_all = np.full(len(dispatches), "", dtype=object)
    if steps.empty:
        if wanted is not None:
            raise ParameterError(
                "steps", f"{rule}: no steps are recorded: keep all, or record with torch's schedule"
            )
        return StepSelection(_summary(dispatches, steps), keep_all, ())
    table = _summary(dispatches, steps)
    if table.empty and wanted is None:
        note = remark(
            "no-activity-in-steps", "no activity was launched in a recorded step: all are kept"
        )
        return StepSelection(table, keep_all, (note,))
    if rule == ALL:
        return StepSelection(table, keep_all, _notes(table, rule))
    if wanted is None:
        reason = _stable(table, threshold)
    else:
        reason = _range(table, wanted, rule)
    table = table.assign(reason=reason)
    of_step = dict(zip(table["step"], table["reason"], strict=True))
    number = dispatches["step"].astype("Int64")
    reasons = number.astype(object).map(of_step).fillna(OUTSIDE)
    return StepSelection(table, reasons.to_numpy(dtype=object), _notes(table, rule))


def step_range(rule: str) -> tuple[int, int] | None:
    """Return the range of "A:B", None for "stable" and "all"; a ParameterError for anything else."""
    if rule in (STABLE, ALL):
        return None
    match = _RANGE.fullmatch(rule.strip())
    first = 1
    last = 0
    if match:
        first = int(match[1] or 0)
        last = int(match[2] or 10**9)
    if first > last:
        raise ParameterError("steps", f"must be stable, all or A:B, got {rule!r}: write e.g. 10:60")
    return first, last


def _summary(dispatches: pd.DataFrame, steps: pd.DataFrame) -> pd.DataFrame:
    """Return the steps that have activities, in the order of the profiler."""
    inside = dispatches[dispatches["step"].notna()]
    numbers = inside["step"].astype(np.int64)
    starts = inside["start_ns"]
    ends = inside["start_ns"] + inside["duration_ns"].clip(lower=0)
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


def _stable(table: pd.DataFrame, threshold: float) -> ObjectArray:
    reason = np.full(len(table), "", dtype=object)
    if len(table) >= FEWEST:
        reason[0] = FIRST
        reason[-1] = LAST
    whole = reason == ""
    count = table["activities"].to_numpy(dtype=np.float64)
    if whole.any():
        partial = whole & (count < COMPLETE * np.median(count[whole]))
        reason[partial] = PARTIAL
    rest = np.flatnonzero(reason == "")
    filtered = mad_filter(table["span_us"].to_numpy()[rest], threshold)
    reason[rest[filtered.removed]] = OUTLIER
    return reason


def _range(table: pd.DataFrame, wanted: tuple[int, int], rule: str) -> ObjectArray:
    number = table["step"].to_numpy()
    inside = (number >= wanted[0]) & (number <= wanted[1])
    if not inside.any():
        have = "none with activities"
        if len(number):
            have = f"{number.min()} to {number.max()}"
        raise ParameterError("steps", f"{rule}: the run has no such step: it has {have}")
    return np.where(inside, "", NOT_ASKED).astype(object)


def _notes(table: pd.DataFrame, rule: str) -> tuple[Remark, ...]:
    kept = int((table["reason"] == "").sum())
    notes = []
    if kept < PROTOCOL:
        text = f"{counted(kept, 'step')} kept: repeat the run for {PROTOCOL} or more"
        notes.append(
            remark(
                "few-steps-kept",
                text,
                steps=kept,
                wanted=PROTOCOL,
            )
        )
    if rule == STABLE and len(table) < FEWEST:
        text = f"{counted(len(table), 'step')}: too few to leave out the first and the last"
        notes.append(remark("too-few-steps-to-trim", text, steps=len(table)))
    return tuple(notes)


BATCH = 5
LEAST_KEPT = 10  # repeats that must be left
TOLERANCE = (
    0.02  # change of the median, relative to it, that counts: less is not worth losing repeats for
)
_SIGNIFICANCE = 1e-3
_SLACK = 2.0


@dataclass(frozen=True)
class WarmUp:
    """The point at which a series settles.

    Where what is left still changes from its first half to its second, nothing is left out, because
    no part of the series can be said to be the steady state.
    """

    count: int  # repeats at the beginning to leave out
    settled: bool  # whether what is left has stopped changing


def warm_up(values: ArrayLike, *, floor: float = 0.0, least_kept: int = LEAST_KEPT) -> WarmUp:
    """Return how many of the first values, durations in the order they were measured, are warm-up.

    MSER-5 (White, *An effective truncation heuristic for bias reduction in simulation output*,
    Simulation 69, 1997; White, Cobb & Spratt, WSC 2000): of k batches of five values, the first d
    <= k / 2 are cut so that ``sum over j > d of (z_j - mean)^2 / (k - d)^2`` is smallest. Three
    changes make it fit for measured times:

    - z is the median of a batch, not its mean, and a batch that stands out from both its neighbours
      has the median of the three (Hampel), so that outliers do not move it. A single slow first
      call is no warm-up for this rule: it is an outlier (`robust.mad_filter`).
    - MSER cuts a little too much by chance. The first d within twice the minimum is taken, and a
      cut counts only if what it removes differs from what it keeps: by a rank test (Mann-Whitney,
      0.1 %), and in the median by more than `floor`, the resolution of the clock, and by more than
      `TOLERANCE`.
    - A series whose kept part differs in the same way between its first and its second half has not
      settled at all.

    ``least_kept`` values must be left; of fewer than twice as many nothing is said (0, settled).
    """
    data = np.asarray(values, dtype=np.float64)
    batches = len(data) // BATCH
    if len(data) < 2 * least_kept or batches < 2:
        return WarmUp(0, True)
    medians = np.median(data[: batches * BATCH].reshape(batches, BATCH), axis=1)
    half = min(batches // 2, (len(data) - least_kept) // BATCH)
    smooth = median_filter(medians, 3, mode="nearest")
    statistic = _mser(np.where(mad_filter(medians - smooth).kept, medians, smooth))[: half + 1]
    cut = BATCH * int(np.argmax(statistic <= _SLACK * statistic.min()))
    if cut and not _differ(data[:cut], data[cut:], floor):
        cut = 0
    middle = (cut + len(data)) // 2
    if _differ(data[cut:middle], data[middle:], floor):
        return WarmUp(0, False)
    return WarmUp(cut, True)


def _mser(medians: FloatArray) -> FloatArray:
    """Return the statistic for every number of batches cut, 0 to k - 1."""
    centred = (medians - np.median(medians))[::-1]
    left = np.arange(1, len(medians) + 1)
    squares = np.cumsum(centred**2) - np.cumsum(centred) ** 2 / left
    return (np.maximum(squares, 0.0) / left**2)[::-1]


def _differ(before: FloatArray, after: FloatArray, floor: float) -> bool:
    median = float(np.median(after))
    if abs(float(np.median(before)) - median) <= max(floor, TOLERANCE * abs(median)):
        return False
    return bool(mannwhitneyu(before, after, method="asymptotic").pvalue < _SIGNIFICANCE)

"""Two traces of a workload: calls that were added, removed, became faster or slower, and what that does to the total.

Calls are matched by operator, shape and formats; where the operator is not known, kernels by their name. What a call
runs on the GPU may be another kernel in the other trace. The difference of the end-to-end times is taken apart without
rest: calls that only one trace has, calls that one has more often, time per call, and what does not add up in time
(gaps between activities, activities that overlap).
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Final

import numpy as np
import pandas as pd
from scipy import stats

from ..errors import DataError
from ..operators.operators import OPS
from ..remarks import Remark
from ..traces.activity_work import UNKNOWN, WORDS
from ..traces.dispatches import KERNEL
from ..traces.quality import busy_ns, span_ns
from ..traces.summary import Annotated, errors_of, measurements
from .kernel_matching import common_spelling
from .split import DEVICE

MARGIN: Final = 0.02
"""Relative change of the time per call below which a call counts as the same."""
LEVEL: Final = 0.95
ADDED, REMOVED, FASTER, SLOWER, SAME = "added", "removed", "faster", "slower", "same"
PARTS: Final = ("added", "removed", "more-calls", "fewer-calls", "faster", "slower", "gaps", "overlap")
"""What the difference is made of."""
_REPEATS: Final = 3  # calls from which the spread tells a change from noise


@dataclass(frozen=True)
class Side:
    """One of two traces: the GPU with the longest time of it.

    Attributes
    ----------
    label : str
        What it is called.
    steps : int or None
        Steps recorded, all times then being those of a step, on average; None where it records none.
    kernels_us, busy_us, total_us : float
        Sum of the activities, time with at least one, first start to last end.
    """

    label: str
    steps: int | None
    kernels_us: float
    busy_us: float
    total_us: float


@dataclass(frozen=True)
class TraceChanges:
    """What differs between two traces.

    Attributes
    ----------
    before, after : Side
        The two.
    parts : dict of str to float
        Part of the difference (`PARTS`) -> µs; they add up to it.
    calls : DataFrame
        One row per kind of call, the largest difference first: ``op``, ``variant``, formats and dimensions; ``kernel``
        and ``kernel_after``, the longest kernels; ``count`` and ``count_after``, ``time_us`` and ``time_us_after`` (of
        all of them, per step where both record steps), ``change_us``, ``ratio`` of the times per call, ``outcome``.
    interval_us : tuple of float or None
        Where the difference of the time of all activities in a step lies, at `LEVEL`; None of fewer than three steps.
    notes : tuple of Remark
        What is wrong with a trace (``trace-finding``).
    """

    before: Side
    after: Side
    parts: dict[str, float]
    calls: pd.DataFrame
    interval_us: tuple[float, float] | None
    notes: tuple[Remark, ...]

    @property
    def change_us(self) -> float:
        """Total after minus total before."""
        return self.after.total_us - self.before.total_us


def trace_changes(traces: Sequence[tuple[str, Annotated]]) -> TraceChanges:
    """Compare two traces, each with its label.

    Raises
    ------
    DataError
        One has no kernels.
    """
    per_step = all(_recorded(trace.dispatches).any() for _, trace in traces)
    rows = [_counted(label, trace.dispatches, per_step) for label, trace in traces]
    labels = [label for label, _ in traces]
    sides = [_side(label, table, per_step) for label, table in zip(labels, rows, strict=True)]
    calls = [
        measurements(replace(trace, dispatches=table), label, each=True)
        for (label, trace), table in zip(traces, rows, strict=True)
    ]
    kinds = _kinds(calls, [side.steps or 1 for side in sides])
    before, after = sides
    parts = _parts(kinds, before, after)
    each = [table.groupby("step")["duration_ns"].sum().to_numpy() / 1e3 for table in rows] if per_step else []
    notes = tuple(note for label, trace in traces for note in errors_of(trace, label))
    return TraceChanges(before, after, parts, kinds, _interval(*each) if each else None, notes)


def _recorded(rows: pd.DataFrame) -> pd.Series:
    return rows["step"].notna()


def _counted(label: str, rows: pd.DataFrame, per_step: bool) -> pd.DataFrame:
    """Return the activities of the GPU with the longest time, those of steps where both traces have some."""
    rows = rows[_recorded(rows)] if per_step else rows
    gpus = [
        part for _, part in rows.groupby(list(DEVICE), dropna=False, observed=True) if part["kind"].eq(KERNEL).any()
    ]
    if not gpus:
        raise DataError("no kernels in this trace: give one that has them", source=label)
    return max(gpus, key=span_ns).assign(duration_ns=lambda of: of["duration_ns"].clip(lower=0)).reset_index(drop=True)


def _side(label: str, rows: pd.DataFrame, per_step: bool) -> Side:
    """Return the times of a trace; of steps the mean of each one's own, without what lies between them."""
    steps = int(rows["step"].nunique()) if per_step else None
    parts = [part for _, part in rows.groupby("step")] if per_step else [rows]
    sums = (
        sum(float(part["duration_ns"].sum()) for part in parts),
        sum(float(busy_ns(part)) for part in parts),
        sum(float(span_ns(part)) for part in parts),
    )
    kernels, busy, total = (value / 1e3 / len(parts) for value in sums)
    return Side(label, steps, kernels, busy, total)


def _kinds(calls: Sequence[pd.DataFrame], steps: Sequence[int]) -> pd.DataFrame:
    """Return one row per kind of call, with what it takes in either trace."""
    spelt, _ = common_spelling([table["kernel"] for table in calls])
    dims = [name for op in OPS.values() if op.name != UNKNOWN for name in op.dims if name not in WORDS]
    keys = [*WORDS, *(name for name in dict.fromkeys(dims) if any(name in table for table in calls))]
    sides = []
    for table, names, count in zip(calls, spelt, steps, strict=True):
        unknown = table["op"].isin(["", UNKNOWN]).to_numpy()
        own = table.reindex(columns=[*keys, "kernel", "duration_us"])
        own.loc[unknown, [name for name in keys if name not in WORDS]] = np.nan
        own = own.assign(named=np.where(unknown, names, ""), steps=count)
        sides.append(own)
    every = pd.concat(sides, keys=[0, 1], names=["side"]).reset_index("side").reset_index(drop=True)
    texts = [*WORDS, "named"]
    every[texts] = every[texts].astype(object).fillna("").astype(str)
    every["code"] = every.groupby([*keys, "named"], dropna=False, sort=False).ngroup()
    every["per_step_us"] = every["duration_us"] / every["steps"]
    first = every.drop_duplicates("code").set_index("code")[keys]
    found = every.groupby(["code", "side"]).agg(
        count=("duration_us", "size"), time_us=("per_step_us", "sum"), mean=("duration_us", "mean"),
        spread=("duration_us", "std"), steps=("steps", "first"),
    )  # fmt: skip
    longest = every.sort_values("duration_us", kind="stable").drop_duplicates(["code", "side"], keep="last")
    found["kernel"] = longest.set_index(["code", "side"])["kernel"]
    found["count"] = found["count"] / found.pop("steps")
    halves = (found.xs(side, level="side").add_suffix(end) for side, end in ((0, ""), (1, "_after")))
    table = first.join(list(halves))
    return _judged(table.fillna(dict.fromkeys(("count", "count_after", "time_us", "time_us_after"), 0.0)), every)


def _judged(table: pd.DataFrame, every: pd.DataFrame) -> pd.DataFrame:
    """Say of each kind of call what became of it."""
    table["change_us"] = table["time_us_after"] - table["time_us"]
    table["ratio"] = table["mean_after"] / table["mean"]
    sizes = every.groupby(["code", "side"]).size().unstack("side").reindex(table.index)  # noqa: PD010
    error = np.sqrt(table["spread"] ** 2 / sizes[0] + table["spread_after"] ** 2 / sizes[1])
    many = (sizes >= _REPEATS).all(axis=1)
    noise = many & ((table["mean_after"] - table["mean"]).abs() <= 2 * error)
    same = noise | ((table["ratio"] - 1).abs() <= MARGIN)
    table["outcome"] = np.select(
        [table["count"].eq(0), table["count_after"].eq(0), same, table["ratio"] < 1],
        [ADDED, REMOVED, SAME, FASTER],
        SLOWER,
    )
    order = table["change_us"].abs().sort_values(ascending=False, kind="stable").index
    return table.loc[order].drop(columns=["spread", "spread_after"]).reset_index(drop=True)


def _parts(kinds: pd.DataFrame, before: Side, after: Side) -> dict[str, float]:
    """Return what the difference of the totals is made of; the calls' part is exact, call by call."""
    both = ~kinds["outcome"].isin([ADDED, REMOVED])
    more = ((kinds["count_after"] - kinds["count"]) * kinds["mean"])[both]
    each = ((kinds["mean_after"] - kinds["mean"]) * kinds["count_after"])[both]
    return {
        "added": float(kinds.loc[kinds["outcome"] == ADDED, "time_us_after"].sum()),
        "removed": -float(kinds.loc[kinds["outcome"] == REMOVED, "time_us"].sum()),
        "more-calls": float(more.clip(lower=0).sum()),
        "fewer-calls": float(more.clip(upper=0).sum()),
        "faster": float(each.clip(upper=0).sum()),
        "slower": float(each.clip(lower=0).sum()),
        "gaps": (after.total_us - after.busy_us) - (before.total_us - before.busy_us),
        "overlap": (after.busy_us - after.kernels_us) - (before.busy_us - before.kernels_us),
    }


def _interval(before: np.ndarray, after: np.ndarray) -> tuple[float, float] | None:
    """Return Welch's interval of the difference of the means of steps."""
    if min(len(before), len(after)) < _REPEATS or not (np.ptp(before) or np.ptp(after)):
        return None
    found = stats.ttest_ind(after, before, equal_var=False).confidence_interval(LEVEL)
    return float(found.low), float(found.high)

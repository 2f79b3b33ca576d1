"""Cleaning from end to end: impossible times, steps, warm-up, outliers, and what hangs on them."""

from __future__ import annotations

from dataclasses import dataclass, field

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from ...errors import DataError
from ...operators.operators import OPS
from ...table.problems import codes_of
from ..activity_work import SAME_CALL, UNKNOWN, WORDS
from ..quality import LONGEST_NS, resolution_ns
from .binning import MARGINS, golden_runs, margin_of
from .outliers import LEAST, MAD_TO_SIGMA, THRESHOLD, drift_of_medians, mad_filter, repeat_intervals
from .steps import BATCH, LEAST_KEPT, STABLE, select_steps, warm_up

# Which activities repeat each other: the same kernel, launched the same way, for the same problem, on the same GPU.

IntArray = NDArray[np.int64]

OF_RUN = "run"
"""Column that numbers the runs of a program where several are put together; one run where it is absent. It is not
`ops.RUN`, which numbers the repeats of a problem."""
LAUNCH = ("grid_x", "grid_y", "grid_z", "block_x", "block_y", "block_z")
_WHAT = ("device", "kind", "name", *LAUNCH, "collective", "collective_bytes", "group_size", "bytes")
_SIZES = tuple(dict.fromkeys(size for op in OPS.values() for size in op.dims if size not in WORDS))
_ALONE = ("", UNKNOWN, "collective")


def pool(tables: list[pd.DataFrame]) -> pd.DataFrame:
    """Return the tables of several runs as one, `run` their number from 0 on."""
    return pd.concat([table.assign(**{OF_RUN: number}) for number, table in enumerate(tables)], ignore_index=True)


def runs_of(table: pd.DataFrame) -> IntArray:
    """Return the run of each row."""
    return table[OF_RUN].to_numpy(dtype=np.int64) if OF_RUN in table else np.zeros(len(table), dtype=np.int64)


def repeat_codes(table: pd.DataFrame) -> IntArray:
    """Return a number for each row, equal for repeats.

    Repeats agree in device, kind, name, grid, block, message or bytes, and in operator, variant, formats and
    dimensions where these are known. Runs, processes and queues do not tell repeats apart.

    Parameters
    ----------
    table : DataFrame
        Dispatch table, with or without the operators that `dispatches.annotate` adds.
    """
    names = [name for name in dict.fromkeys((*_WHAT, *WORDS, *_SIZES)) if name in table]
    return codes_of(table[name] for name in names)


def series_codes(table: pd.DataFrame, repeats: IntArray) -> IntArray:
    """Return a number for each row, equal for the repeats of one kernel on one GPU in one run: what has a warm-up."""
    return codes_of([pd.Series(repeats), pd.Series(runs_of(table)), table["process"], table["gpu"]])


def resolutions_ns(table: pd.DataFrame) -> IntArray:
    """Return the step of the clock behind each row's duration (`timeline.resolution_ns` of its device and run)."""
    duration = table["duration_ns"].to_numpy(dtype=np.int64)
    codes = codes_of([table["device"], pd.Series(runs_of(table))]) if len(table) else np.zeros(0, dtype=np.int64)
    steps = np.zeros(len(table), dtype=np.int64)
    for code in np.unique(codes):
        own = codes == code
        steps[own] = resolution_ns(duration[own & (duration > 0)])
    return steps


def rest_of_calls(table: pd.DataFrame, removed: NDArray[np.bool_]) -> NDArray[np.bool_]:
    """Return the rows not removed whose operator's call has lost a kernel: its time would no longer be the call's."""
    if not removed.any():
        return np.zeros(len(table), dtype=bool)
    called = table["op_id"].notna().to_numpy()
    if "op" in table:
        called = called & ~table["op"].isin(_ALONE).to_numpy()
    code = codes_of([*(table[name] for name in SAME_CALL), pd.Series(runs_of(table))])
    hit = np.zeros(int(code.max()) + 1, dtype=bool)
    hit[code[removed & called]] = True
    return hit[code] & called & ~removed


# How far the repeats of each kernel spread once cleaned, and what was left out of them.

REMOVED = "removed."
"""Prefix of the columns that count what was left out, by reason."""
_ROUNDING_US = 1e-6  # a thousandth of a nanosecond: one tick must not be more than one tick
_TEXT = ("device", "kind", "kernel_class", "op_class", "op", "variant", "dtype_a", "name")


def spread_report(
    table: pd.DataFrame,
    repeats: IntArray,
    reason: NDArray[np.object_],
    *,
    resolution_ns: IntArray,
    unsettled: IntArray,
    level: float = 0.95,
) -> pd.DataFrame:
    """Return one row per kernel, the one that takes most time first.

    Parameters
    ----------
    table : DataFrame
        Every activity, dispatch table.
    repeats : ndarray of int of shape (n,)
        Number of each activity's kernel (`repeats.repeat_codes`).
    reason : ndarray of str of shape (n,)
        Why an activity was left out, "" where it is kept.
    resolution_ns : ndarray of int of shape (n,)
        Step of the clock behind each duration. Intervals reach at least half a step on either side of the median.
    unsettled : ndarray of int
        Kernels of which a series has not settled.
    level : float, default=0.95
        Of the intervals of the medians.

    Returns
    -------
    DataFrame
        Index: the kernel's number. `device`, `kind`, `kernel_class`, `op_class`, `op`, `variant`, `dtype_a`, `name`
        where the table has them, `grid`, `block` ("8x1x1"); `measured`, `n` (kept), `median_us`, `mad_us`, `robust_cv`
        (1.4826 MAD / median), `lower_us`, `upper_us`, `level` (see `median.repeat_intervals`; NaN for too few
        repeats), `drift_us` and `drifts` (second half in time against the first: `median.drift_of_medians`, more than
        a step of the clock), `resolution_us`, `total_us` (of those kept), `settled`; ``removed.REASON`` counts what was
        left out.
    """
    first = table.iloc[np.unique(repeats, return_index=True)[1]] if len(table) else table
    words = {name: first[name].astype(str).to_numpy() for name in _TEXT if name in table}
    launch = {stem: _sides(first, stem) for stem in ("grid", "block")}
    kept = reason == ""
    duration_us = table["duration_ns"].to_numpy(dtype=np.float64) / 1e3
    codes = pd.RangeIndex(len(first))
    count = np.bincount(repeats[kept], minlength=len(first))
    runs = runs_of(table)
    in_time = np.lexsort((table["start_ns"].to_numpy(), runs))
    in_time = in_time[kept[in_time]]
    series = series_codes(table, repeats)
    values, groups = duration_us[in_time], repeats[in_time]
    found = repeat_intervals(values, groups, series[in_time], runs[in_time], level).reindex(codes)
    drift = drift_of_medians(values, groups, level).reindex(codes)
    half_us = np.zeros(len(first))
    np.maximum.at(half_us, repeats, resolution_ns / 2e3)
    numbers = {
        "measured": np.bincount(repeats, minlength=len(first)),
        "n": count,
        "median_us": found["median"],
        "mad_us": found["mad"].where(count > 1),
        "robust_cv": (MAD_TO_SIGMA * found["mad"] / found["median"]).where(count > 1),
        "lower_us": found["lower"].clip(upper=found["median"] - half_us),
        "upper_us": found["upper"].clip(lower=found["median"] + half_us),
        "level": found["level"],
        "drift_us": drift["drift"],
        "drifts": drift["drifts"] * (drift["drift"].abs() > 2 * half_us + _ROUNDING_US),  # missing stays missing
        "resolution_us": 2 * half_us,
        "total_us": np.bincount(repeats[kept], weights=duration_us[kept], minlength=len(first)),
        "settled": ~np.isin(np.arange(len(first)), unsettled),
    }
    removed = {
        f"{REMOVED}{why}": np.bincount(repeats[reason == why], minlength=len(first))
        for why in dict.fromkeys(reason[~kept].tolist())
    }
    report = pd.DataFrame({**words, **launch, **numbers, **removed}, index=codes)
    return report.sort_values("total_us", ascending=False, kind="stable")


def _sides(first: pd.DataFrame, stem: str) -> NDArray[np.object_]:
    """Return grids or blocks as words, "" where they are not recorded."""
    columns = [first[name].astype("Int64") for name in LAUNCH if name.startswith(stem)]
    rows = zip(*(column.tolist() for column in columns), strict=True)
    return np.array(["x".join(str(side) for side in row if side is not pd.NA) for row in rows], dtype=object)


IMPOSSIBLE = "impossible time"
WARM_UP = "warm-up"
OUTLIER = "outlier"
NOT_GOLDEN = "not in the fullest bin"
OF_CALL = "rest of its call"
_MUCH = 0.05  # share of the time from which outliers are worth a word
_MANY, _LEAST_MANY = 0.1, 3  # share of a kernel's repeats, and number, from which outliers are a second way of running


@dataclass(frozen=True)
class CleanOptions:
    """What to leave out.

    Attributes
    ----------
    mad : float or None, default=7
        MAD that repeats may lie from their median; None: no outlier filter.
    steps : str, default="stable"
        "stable", "all" or "A:B" (see `steps.select_steps`).
    warm_up : bool, default=True
        Whether the first repeats of a series that has not settled yet are left out.
    golden : bool, default=False
        Whether only the fullest execution-time bin of each kernel is kept (`binning`); kernels under 25 us, for which
        no margin is published, keep all.
    level : float, default=0.95
        Of the intervals reported.
    """

    mad: float | None = THRESHOLD
    steps: str = STABLE
    warm_up: bool = True
    golden: bool = False
    level: float = 0.95


@dataclass(frozen=True)
class Cleaned:
    """What is left, and what is not.

    Attributes
    ----------
    dispatches : DataFrame
        The activities kept, columns, index and order as given.
    removed : DataFrame
        The others, in the order given, same index: `reason`, `detail`, `source`, `device`, `kind`, `name`, `run`,
        `step`, `duration_us`.
    report : DataFrame
        One row per kernel (see `report.spread_report`).
    steps : DataFrame
        The steps of every run and why they are left out (see `steps.StepSelection`), `run` before them.
    notes : tuple of str
    """

    dispatches: pd.DataFrame
    removed: pd.DataFrame
    report: pd.DataFrame
    steps: pd.DataFrame
    notes: tuple[str, ...]

    @property
    def removed_by_reason(self) -> dict[str, int]:
        """Number of activities left out for each reason, most frequent first."""
        return {str(reason): int(count) for reason, count in self.removed["reason"].value_counts().items()}


@dataclass
class _Verdict:
    """Why each row is left out: the first reason counts."""

    reason: NDArray[np.object_]
    detail: NDArray[np.object_]
    notes: list[str] = field(default_factory=list)

    @property
    def kept(self) -> NDArray[np.bool_]:
        return np.asarray(self.reason == "", dtype=bool)

    def remove(self, rows: NDArray[np.bool_], reason: str, detail: NDArray[np.object_] | str = "") -> None:
        new = rows & self.kept
        self.reason[new] = reason
        self.detail[new] = detail if isinstance(detail, str) else detail[new]


def clean(dispatches: pd.DataFrame, steps: pd.DataFrame, options: CleanOptions | None = None) -> Cleaned:
    """Return the activities that can be trusted, the others with their reason, and the spread of each kernel.

    In this order: activities of no, negative or impossible time; steps (run by run); the warm-up of each kernel on
    each GPU in each run; outliers among the repeats of a kernel, all runs together; on demand all but the fullest bin;
    and the other kernels of an operator's call that has lost one, whose time would not be the call's any more.

    Parameters
    ----------
    dispatches : DataFrame
        Dispatch table, best with the operators of `dispatches.annotate`; of several runs if it has the column `run`
        (`repeats.pool`).
    steps : DataFrame
        `Annotated.steps`; with the column `run` where the dispatches have it.
    options : CleanOptions, optional

    Raises
    ------
    DataError
        An option is impossible, or nothing is left.
    """
    options = options or CleanOptions()
    count = len(dispatches)
    if not count:
        raise DataError("nothing to clean: no activity of a GPU is recorded")
    verdict = _Verdict(np.full(count, "", dtype=object), np.full(count, "", dtype=object))
    duration = dispatches["duration_ns"].to_numpy(dtype=np.int64)
    verdict.remove((duration <= 0) | (duration > LONGEST_NS), IMPOSSIBLE)
    chosen = _steps(dispatches, steps, options, verdict)
    repeats, resolution = repeat_codes(dispatches), resolutions_ns(dispatches)
    unsettled = _warm_up(dispatches, repeats, resolution, verdict) if options.warm_up else np.zeros(0, dtype=np.int64)
    if options.mad is not None:
        _outliers(dispatches, repeats, resolution, options.mad, verdict)
    if options.golden:
        _golden(duration, repeats, verdict)
    verdict.remove(rest_of_calls(dispatches, ~verdict.kept), OF_CALL)
    if not verdict.kept.any():
        why = ", ".join(f"{reason}: {n}" for reason, n in pd.Series(verdict.reason).value_counts().items())
        raise DataError(f"cleaning leaves nothing ({why}): relax --steps or --mad")
    report = spread_report(
        dispatches, repeats, verdict.reason, resolution_ns=resolution, unsettled=unsettled, level=options.level
    )
    removed = _removed(dispatches, verdict)
    return Cleaned(dispatches[verdict.kept], removed, report, chosen, tuple(dict.fromkeys(verdict.notes)))


def _steps(dispatches: pd.DataFrame, steps: pd.DataFrame, options: CleanOptions, verdict: _Verdict) -> pd.DataFrame:
    """Choose the steps of every run; return them."""
    runs, of_steps = runs_of(dispatches), runs_of(steps)
    parts = []
    for run in np.unique(runs):
        own = np.flatnonzero(runs == run)
        found = select_steps(dispatches.iloc[own], steps[of_steps == run], options.steps)
        for reason in dict.fromkeys(found.reason[found.reason != ""].tolist()):
            rows = np.zeros(len(runs), dtype=bool)
            rows[own[found.reason == reason]] = True
            verdict.remove(rows, reason)
        parts.append(found.steps.assign(**{OF_RUN: run}))
        verdict.notes += found.notes
    return pd.concat(parts, ignore_index=True)[[OF_RUN, "step", "activities", "span_us", "reason"]]


def _warm_up(
    dispatches: pd.DataFrame, repeats: NDArray[np.int64], resolution: NDArray[np.int64], verdict: _Verdict
) -> NDArray[np.int64]:
    """Leave out the warm-up of each series; return the kernels with a series that has not settled."""
    rows = np.flatnonzero(verdict.kept)
    series = series_codes(dispatches, repeats)[rows]
    order = rows[np.lexsort((dispatches["start_ns"].to_numpy()[rows], series))]
    starts = np.flatnonzero(np.diff(np.sort(series), prepend=-1))
    duration = dispatches["duration_ns"].to_numpy(dtype=np.float64)
    cold = np.zeros(len(dispatches), dtype=bool)
    unsettled = []
    for own in np.split(order, starts[1:]):
        if len(own) < 2 * LEAST_KEPT:
            continue
        found = warm_up(duration[own], floor=float(resolution[own[0]]))
        cold[own[: found.count]] = True
        if not found.settled:
            unsettled.append(repeats[own[0]])
    verdict.remove(cold, WARM_UP, f"MSER-{BATCH}")
    if unsettled:
        who = _kernels(len(set(unsettled)), "has", "have")
        verdict.notes.append(f"{who} not settled when the recording ends: record longer")
    return np.unique(np.array(unsettled, dtype=np.int64))


def _outliers(
    dispatches: pd.DataFrame,
    repeats: NDArray[np.int64],
    resolution: NDArray[np.int64],
    threshold: float,
    verdict: _Verdict,
) -> None:
    duration, names = dispatches["duration_ns"].to_numpy(dtype=np.int64), dispatches["name"].to_numpy()
    rows = np.flatnonzero(verdict.kept)
    found = mad_filter(duration[rows], threshold, floor=resolution[rows], groups=repeats[rows], least=LEAST)
    outlier = np.zeros(len(duration), dtype=bool)
    outlier[rows[found.removed]] = True
    detail = np.full(len(duration), "", dtype=object)
    median_us, limit_us = found.median[found.removed] / 1e3, found.limit[found.removed] / 1e3
    detail[outlier] = [f"beyond {m:.3f} ± {d:.3f} µs" for m, d in zip(median_us, limit_us, strict=True)]
    verdict.remove(outlier, OUTLIER, detail)
    lost, count = (np.bincount(repeats[of], minlength=1) for of in (np.flatnonzero(outlier), rows))
    if twofold := int(((lost > _MANY * count[: len(lost)]) & (lost >= _LEAST_MANY)).sum()):
        verdict.notes.append(
            f"{_kernels(twofold, 'loses', 'lose')} over {100 * _MANY:.0f} % of the repeats as outliers: these are no "
            "accidents but a second way of running, look at them before you believe the median"
        )
    share = duration[outlier].sum() / max(int(duration[rows].sum()), 1)
    if share > _MUCH:
        worst = names[np.argmax(np.bincount(repeats, weights=duration * outlier)[repeats])]
        verdict.notes.append(f"outliers take {100 * share:.0f} % of the time, {str(worst)[:60]} most of it: look at it")


def _golden(duration: NDArray[np.int64], repeats: NDArray[np.int64], verdict: _Verdict) -> None:
    rows = np.flatnonzero(verdict.kept)
    order = rows[np.argsort(repeats[rows], kind="stable")]
    starts = np.flatnonzero(np.diff(repeats[order], prepend=-1))
    other = np.zeros(len(duration), dtype=bool)
    short = 0
    for own in np.split(order, starts[1:]):
        times = duration[own] / 1e3
        if margin_of(float(np.median(times))) is None:
            short += 1
        else:
            other[own[~golden_runs(times).kept]] = True
    verdict.remove(other, NOT_GOLDEN)
    if short:
        who = _kernels(short, "keeps", "keep")
        verdict.notes.append(f"{who} all runs: no binning margin is published below {MARGINS[0][0]:g} µs")


def _kernels(count: int, one: str, several: str) -> str:
    return f"1 kernel {one}" if count == 1 else f"{count:,} kernels {several}"


def _removed(dispatches: pd.DataFrame, verdict: _Verdict) -> pd.DataFrame:
    gone = ~verdict.kept
    own = dispatches[gone]
    return pd.DataFrame(
        {
            "reason": verdict.reason[gone],
            "detail": verdict.detail[gone],
            "source": own["source"].astype(str),
            "device": own["device"].astype(str),
            "kind": own["kind"].astype(str),
            "name": own["name"].astype(str),
            OF_RUN: runs_of(own),
            "step": own["step"],
            "duration_us": own["duration_ns"] / 1e3,
        },
        index=own.index,
    )

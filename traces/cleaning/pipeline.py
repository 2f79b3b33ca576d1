"""Cleaning from end to end: impossible times, steps, warm-up, outliers, and what hangs on them.

Activities of one run or of several (`repeats.pool`) enter `clean`; those that can be trusted leave
it, and the others with the reason why they were left out: a code of this module, of
`quality.IMPOSSIBLE` or of `steady_state`. Annotated traces of repeated runs, or of runs of one
program to be joined, enter `CleanedTraces.of`; rows of the measurement table leave it, one per
kernel and problem or one per epoch, with what the runs cover and how far their counters differ.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Self

import numpy as np
import pandas as pd

from ...arrays import BoolArray, FloatArray, IntArray, ObjectArray
from ...errors import DataError, ParameterError, counted
from ...remarks import Remark, remark
from ...settings import configured
from ...table.measurements import clean as usable
from ...table.measurements import count_reasons, fill_text, in_order
from ...table.problems import merge_duplicates
from ..dispatches import counters_of
from ..doubts import doubts_of
from ..epochs import EpochRule, epochs, matching
from ..quality import IMPOSSIBLE, impossible
from ..summary import Annotated, measurements
from .binning import MARGINS, golden_runs, margin_of
from .joining import Coverage, Joined, join_passes, merge_coverage
from .repeats import (
    OF_RUN,
    pool,
    repeat_codes,
    resolutions_ns,
    rest_of_calls,
    runs_of,
    series_codes,
    spread_report,
)
from .robust import LEAST, THRESHOLD, mad_filter
from .steady_state import LEAST_KEPT, STABLE, select_steps, step_range, warm_up

WARM_UP = "warm-up"
OUTLIER = "outlier"
NOT_GOLDEN = "not-in-fullest-bin"
OF_CALL = "rest-of-call"
_MUCH = 0.05  # share of the time from which outliers are worth a word
# share of a kernel's repeats, and number, from which outliers are a second way of running
_MANY = 0.1
_LEAST_MANY = 3


@dataclass(frozen=True)
class CleanOptions:
    """The options of cleaning.

    `golden` keeps only the fullest execution-time bin of each kernel (`binning`); kernels under 25
    us, for which no margin is published, keep all.
    """

    mad: float | None = (
        THRESHOLD  # MAD that repeats may lie from their median; None: no outlier filter
    )
    steps: str = STABLE  # "stable", "all" or "A:B" (`steady_state.select_steps`)
    warm_up: bool = (
        True  # whether the first repeats of a series that has not settled yet are left out
    )
    golden: bool = False
    level: float = 0.95  # of the intervals reported

    def check(self) -> None:
        """Refuse impossible options, before anything is read: a ParameterError names ``mad`` or ``steps``."""
        if self.mad is not None and not 0 < self.mad < np.inf:
            raise ParameterError(
                "mad", f"must be 0 or more, got {self.mad:g}: {THRESHOLD:g} is usual"
            )
        step_range(self.steps)


@dataclass(frozen=True)
class Cleaned:
    """The kept activities, and the others."""

    dispatches: pd.DataFrame  # the activities kept, columns, index and order as given
    # the others, in the order given, same index: `reason` (a code), `source`, `device`, `kind`,
    # `name`, `run`, `step`, `duration_us`; of outliers `median_us` of their kernel and `limit_us`,
    # the distance from it that was accepted
    removed: pd.DataFrame
    report: pd.DataFrame  # one row per kernel (see `repeats.spread_report`)
    # the steps of every run and why they are left out (see `steady_state.StepSelection`), `run`
    # before them
    steps: pd.DataFrame
    # those of `steady_state.StepSelection`, and ``kernels-not-settled``, ``kernels-run-two-ways``,
    # ``outliers-take-time``, ``kernels-below-binning``
    notes: tuple[Remark, ...]

    @property
    def removed_by_reason(self) -> dict[str, int]:
        """Number of activities left out for each reason, most frequent first."""
        return count_reasons(self.removed)


@dataclass
class _Verdict:
    """The reason for leaving out each row: the first one counts."""

    reason: ObjectArray
    median_us: FloatArray
    limit_us: FloatArray
    notes: list[Remark] = field(default_factory=list)

    @property
    def kept(self) -> BoolArray:
        return np.asarray(self.reason == "", dtype=bool)

    def remove(self, rows: BoolArray, reason: str) -> None:
        self.reason[rows & self.kept] = reason


def clean(
    dispatches: pd.DataFrame, steps: pd.DataFrame, options: CleanOptions | None = None
) -> Cleaned:
    """Return the trusted activities, the others with their reason, and the spread of each kernel.

    In this order: activities of no, negative or impossible time; steps (run by run); the warm-up of
    each kernel on each GPU in each run; outliers among the repeats of a kernel, all runs together;
    on demand all but the fullest bin; and the other kernels of an operator's call that has lost
    one, whose time would not be the call's any more.

    The dispatch table has best the operators of `summary.annotate`; it, and ``steps``
    (`Annotated.steps`), are of several runs if they have the column `run` (`repeats.pool`). A
    ParameterError says that an option is impossible, a DataError that there is nothing to clean, or
    nothing left.
    """
    options = options or CleanOptions()
    options.check()
    count = len(dispatches)
    if not count:
        raise DataError("nothing to clean: no activity of a GPU is recorded")
    verdict = _Verdict(
        np.full(count, "", dtype=object), np.full(count, np.nan), np.full(count, np.nan)
    )
    duration = dispatches["duration_ns"].to_numpy(dtype=np.int64)
    damage = impossible(dispatches)
    for code in IMPOSSIBLE:
        verdict.remove(damage == code, code)
    chosen = _steps(dispatches, steps, options, verdict)
    repeats = repeat_codes(dispatches)
    resolution = resolutions_ns(dispatches)
    if options.warm_up:
        unsettled = _warm_up(dispatches, repeats, resolution, verdict)
    else:
        unsettled = np.zeros(0, dtype=np.int64)
    if options.mad is not None:
        _outliers(dispatches, repeats, resolution, options.mad, verdict)
    if options.golden:
        _golden(duration, repeats, verdict)
    verdict.remove(rest_of_calls(dispatches, ~verdict.kept), OF_CALL)
    if not verdict.kept.any():
        why = ", ".join(
            f"{reason}: {n}" for reason, n in pd.Series(verdict.reason).value_counts().items()
        )
        raise DataError(f"cleaning leaves nothing ({why}): choose other steps or a larger MAD")
    report = spread_report(
        dispatches,
        repeats,
        verdict.reason,
        resolution_ns=resolution,
        unsettled=unsettled,
        level=options.level,
    )
    removed = _removed(dispatches, verdict)
    return Cleaned(
        dispatches[verdict.kept], removed, report, chosen, tuple(dict.fromkeys(verdict.notes))
    )


def _steps(
    dispatches: pd.DataFrame, steps: pd.DataFrame, options: CleanOptions, verdict: _Verdict
) -> pd.DataFrame:
    """Choose the steps of every run; return them."""
    runs = runs_of(dispatches)
    of_steps = runs_of(steps)
    parts = []
    for run in np.unique(runs):
        of_run_rows = np.flatnonzero(runs == run)
        selected = select_steps(dispatches.iloc[of_run_rows], steps[of_steps == run], options.steps)
        for reason in dict.fromkeys(selected.reason[selected.reason != ""].tolist()):
            rows = np.zeros(len(runs), dtype=bool)
            rows[of_run_rows[selected.reason == reason]] = True
            verdict.remove(rows, reason)
        parts.append(selected.steps.assign(**{OF_RUN: run}))
        verdict.notes += selected.notes
    return pd.concat(parts, ignore_index=True)[[OF_RUN, "step", "activities", "span_us", "reason"]]


def _warm_up(
    dispatches: pd.DataFrame, repeats: IntArray, resolution: IntArray, verdict: _Verdict
) -> IntArray:
    """Leave out the warm-up of each series; return the kernels with a series that has not settled."""
    rows = np.flatnonzero(verdict.kept)
    series = series_codes(dispatches, repeats)[rows]
    order = rows[np.lexsort((dispatches["start_ns"].to_numpy()[rows], series))]
    starts = np.flatnonzero(np.diff(np.sort(series), prepend=-1))
    duration = dispatches["duration_ns"].to_numpy(dtype=np.float64)
    cold = np.zeros(len(dispatches), dtype=bool)
    unsettled = []
    for series_rows in np.split(order, starts[1:]):
        if len(series_rows) < 2 * LEAST_KEPT:
            continue
        cold_start = warm_up(duration[series_rows], floor=float(resolution[series_rows[0]]))
        cold[series_rows[: cold_start.count]] = True
        if not cold_start.settled:
            unsettled.append(repeats[series_rows[0]])
    verdict.remove(cold, WARM_UP)
    if unsettled:
        count = len(set(unsettled))
        which = counted(count, "kernel has", "kernels have")
        text = f"{which} not settled when the recording ends: record longer"
        verdict.notes.append(remark("kernels-not-settled", text, kernels=count))
    return np.unique(np.array(unsettled, dtype=np.int64))


def _outliers(
    dispatches: pd.DataFrame,
    repeats: IntArray,
    resolution: IntArray,
    threshold: float,
    verdict: _Verdict,
) -> None:
    duration = dispatches["duration_ns"].to_numpy(dtype=np.int64)
    rows = np.flatnonzero(verdict.kept)
    filtered = mad_filter(
        duration[rows], threshold, floor=resolution[rows], groups=repeats[rows], least=LEAST
    )
    outlier = np.zeros(len(duration), dtype=bool)
    outlier[rows[filtered.removed]] = True
    verdict.median_us[outlier] = filtered.median[filtered.removed] / 1e3
    verdict.limit_us[outlier] = filtered.limit[filtered.removed] / 1e3
    verdict.remove(outlier, OUTLIER)
    lost, count = (np.bincount(repeats[of], minlength=1) for of in (np.flatnonzero(outlier), rows))
    twofold = int(((lost > _MANY * count[: len(lost)]) & (lost >= _LEAST_MANY)).sum())
    if twofold:
        text = (
            f"{counted(twofold, 'kernel loses', 'kernels lose')} over {100 * _MANY:.0f} % of the "
            "repeats as outliers: "
            "these are no accidents but a second mode, look at them before you trust the median"
        )
        verdict.notes.append(
            remark(
                "kernels-run-two-ways",
                text,
                kernels=twofold,
                share=_MANY,
            )
        )
    share = duration[outlier].sum() / max(int(duration[rows].sum()), 1)
    if share > _MUCH:
        most = np.argmax(np.bincount(repeats, weights=duration * outlier)[repeats])
        worst = str(dispatches["name"].iloc[most])
        share = float(share)
        text = f"outliers take {100 * share:.0f} % of the time, {worst[:60]} most of it: look at it"
        verdict.notes.append(
            remark(
                "outliers-take-time",
                text,
                share=share,
                kernel=worst,
            )
        )


def _golden(duration: IntArray, repeats: IntArray, verdict: _Verdict) -> None:
    rows = np.flatnonzero(verdict.kept)
    order = rows[np.argsort(repeats[rows], kind="stable")]
    starts = np.flatnonzero(np.diff(repeats[order], prepend=-1))
    other = np.zeros(len(duration), dtype=bool)
    short = 0
    for series in np.split(order, starts[1:]):
        times = duration[series] / 1e3
        if margin_of(float(np.median(times))) is None:
            short += 1
        else:
            other[series[~golden_runs(times).kept]] = True
    verdict.remove(other, NOT_GOLDEN)
    if short:
        least_us = MARGINS[0][0]
        which = counted(short, "kernel keeps", "kernels keep")
        text = f"{which} all runs: no binning margin is published below {least_us:g} µs"
        verdict.notes.append(
            remark("kernels-below-binning", text, kernels=short, least_us=least_us)
        )


def _removed(dispatches: pd.DataFrame, verdict: _Verdict) -> pd.DataFrame:
    gone = ~verdict.kept
    removed = dispatches[gone]
    return pd.DataFrame(
        {
            "reason": verdict.reason[gone],
            "source": removed["source"].astype(str),
            "device": removed["device"].astype(str),
            "kind": removed["kind"].astype(str),
            "name": removed["name"].astype(str),
            OF_RUN: runs_of(removed),
            "step": removed["step"],
            "duration_us": removed["duration_ns"] / 1e3,
            "median_us": verdict.median_us[gone],
            "limit_us": verdict.limit_us[gone],
        },
        index=removed.index,
    )


@dataclass(frozen=True)
class CleanedTraces:
    """The cleaned activities of several traces.

    `coverage` is there where a full list was given to prove it against, or runs were joined;
    `joined`, the counters of several passes, where these were joined.
    """

    sources: tuple[str, ...]
    cleaned: Cleaned  # all of them together; column `run` numbers them
    level: float  # of the intervals
    frame: pd.DataFrame  # the measurement table of what is left, or of its epochs
    rejected: pd.DataFrame  # its rows that are no measurements
    coverage: Coverage | None
    joined: Joined | None
    # ``cut-by-ranges``, what the readers remark, and what `joined` does
    remarks: tuple[Remark, ...]
    unreadable: tuple[str, ...] = ()  # what was no trace, and why
    doubts: tuple[Remark, ...] = ()  # the findings on the traces (``trace-finding``)

    @classmethod
    @configured
    def of(
        cls,
        traces: Mapping[str, Annotated],
        options: CleanOptions,
        *,
        join: bool = False,
        full: pd.DataFrame | None = None,
        rule: EpochRule | None = None,
        campaigns: Mapping[str, str] | None = None,
        unreadable: tuple[str, ...] = (),
    ) -> Self:
        """Clean traces, by label, together (several are repeated runs), and summarise the rest as measurements.

        With ``join`` they are runs of one program that profile different kernels or counters: they
        are matched kernel by kernel, must not contradict each other, and counters go to every run
        with times; ``full`` then has every kernel of the program (`joining.merge_coverage`). A
        ``rule`` gives a row for each epoch instead of each operator and shape; only the steps
        count: an epoch without some of its kernels is none, so outliers and warm-up stay in.
        ``campaigns`` are names in the table by label, ``unreadable`` goes along.
        """
        if rule is not None:
            options = CleanOptions(
                None,
                options.steps,
                False,
                False,
                options.level,
            )
        tables = {label: trace.dispatches for label, trace in traces.items()}
        coverage = joined = None
        if join or full is not None:
            coverage = merge_coverage(tables, full)
        if join and any(counters_of(table) for table in tables.values()):
            joined = join_passes(tables)
            tables = joined.dispatches
        steps = pool([traces[label].steps for label in tables])
        cleaned = clean(pool(list(tables.values())), steps, options)
        parts = []
        remarks = list[Remark]()
        for number, label in enumerate(tables):
            of_run = cleaned.dispatches[cleaned.dispatches[OF_RUN] == number]
            table = of_run.drop(columns=OF_RUN).reset_index(drop=True)
            if table.empty:
                continue
            campaign = (campaigns or {}).get(label, "")
            ranges = traces[label].ranges
            if rule is None:
                parts.append(
                    measurements(
                        Annotated(
                            table,
                            traces[label].steps,
                            (),
                            (),
                        ),
                        campaign,
                    )
                )
                continue
            parts.append(
                epochs(
                    table,
                    rule,
                    campaign,
                    ranges=ranges,
                )
            )
            count = len(matching(ranges, rule))
            if count:
                of = f"{count} of {len(ranges)}"
                text = f"{label}: cut by the user's ranges that {rule} matches, {of}"
                counts = {"matched": count, "ranges": len(ranges)}
                remarks.append(
                    remark(
                        "cut-by-ranges",
                        text,
                        label=label,
                        rule=str(rule),
                        **counts,
                    )
                )
        rows = usable(pd.concat(parts, ignore_index=True))
        frame = fill_text(rows.frame)
        # one row for each kernel on each problem, as `ingest` writes them
        if rule is None and len(frame):
            frame = fill_text(merge_duplicates(frame))
        frame = in_order(frame)
        for label in tables:
            remarks += traces[label].notes
        if joined is not None:
            remarks += joined.notes
        doubts = list[Remark]()
        for label, trace in traces.items():
            named = ""
            if len(traces) > 1:
                named = label
            doubts += doubts_of(trace, named).remarks
        if coverage is not None:  # which says it
            doubts = [one for one in doubts if one.values["finding"].code != "dropped-dispatches"]
        return cls(
            sources=tuple(traces),
            cleaned=cleaned,
            level=options.level,
            frame=frame,
            rejected=rows.rejected,
            coverage=coverage,
            joined=joined,
            remarks=tuple(dict.fromkeys(remarks)),
            unreadable=unreadable,
            doubts=tuple(doubts),
        )

    @property
    def rejected_by_reason(self) -> dict[str, int]:
        """Number of rows that are no measurements, for each reason."""
        return count_reasons(self.rejected)

"""What a careful engineer checks in a trace before training on it.

Row by row in :func:`flags`, for the whole trace in :func:`check`; when the GPU was busy at all in :func:`busy_ns`,
:func:`span_ns` and :func:`gaps_ns`. A row keeps the time the profiler gave it, and carries what is wrong with it;
only an end that cannot be is cut off, where :func:`without_overruns` is asked to.

=====================  ==========  ====================================================================================
code                   severity    meaning
=====================  ==========  ====================================================================================
zero-duration          error       the activity took no time: lost or rounded timestamps
negative-duration      error       it ends before it starts
impossible-duration    error       over an hour, under 10 ns, or its end overflows 63 bits: damaged timestamps
overrun                error       it ends after a later activity of its stream has ended: the end is wrong
days-apart             error       all before it ended a day earlier, or an hour and in other files: not of one run
overlap                warning     it starts before the end of another on the same queue; the sum of times counts both
orphan                 warning     the file has no launch of it (started before the trace, or the record was lost)
before-first-step      info        it was running before the profiler's first step: warm-up
coarse-timer           warning     fewer than ten steps of the clock: the duration is uncertain by more than 5 %
repeated-dispatch      warning     its number occurs again in the same process: replay passes of counters
dropped-dispatches     warning     holes in the numbers of the dispatches of a process: activities are missing
zero-counter           info        the counter is zero in every activity
back-to-back           info        most activities start as the one before ends: durations contain the dispatch gap
=====================  ==========  ====================================================================================
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

import numpy as np
import pandas as pd

from ..arrays import BoolArray, IntArray, ObjectArray
from ..errors import few
from ..table.physics import LONGEST_US, SHORTEST_US
from ..table.problems import codes_of
from .dispatches import KERNEL, SEVERITIES, Finding, Severity, counters_of, findings_on

QUEUE = ("device", "process", "gpu", "stream")
"""Columns that make a queue: activities of one queue run one after the other."""
# time without any activity beyond which a trace is not of one run
DAY_NS = 86_400e9
HOUR_NS = 3_600e9
_OFTEN = 6  # values from which only two different ones among them are no accident


def busy_ns(table: pd.DataFrame) -> int:
    """Return how long at least one activity was running: the length of the union of all intervals.

    Negative durations count as none.
    """
    starts, ends = _sorted(table)
    if not len(starts):
        return 0
    before = np.r_[starts[0], np.maximum.accumulate(ends)[:-1]]
    return int(np.maximum(ends - np.maximum(starts, before), 0).sum())


def span_ns(table: pd.DataFrame) -> int:
    """Return the time from the first start to the last end."""
    starts, ends = _sorted(table)
    if len(starts):
        return int(ends.max() - starts.min())
    return 0


def queue_codes(table: pd.DataFrame) -> IntArray:
    """Return a number per queue (`QUEUE`) for every row, missing values equal to each other."""
    return codes_of(table[name] for name in QUEUE)


JITTER_NS = 5_000
"""Stamps of activities that follow each other on one queue may overlap by some microseconds: at
most 2.4 µs in traces of MI300X, 0.6 µs of MI350X."""


def overruns(table: pd.DataFrame) -> BoolArray:
    """Return which activities overlap a later one of their stream, shape (n_rows,).

    A stream runs one activity after the other, so that none ends after a later one has ended, by
    more than `JITTER_NS`. The one that does has a wrong end (ROCm: seconds for a kernel of
    microseconds); those that follow are sound.

    Ends that reach into the next activity, but not beyond it, are no overruns: dependent launches
    of CUDA begin early. Not judged are activities without a stream, those of one launch among each
    other (branches of a graph), and copies and fills beside kernels, which some profilers put on a
    stream that they did not run on.
    """
    room = _room_ns(table)
    return np.asarray(room < table["duration_ns"].to_numpy(dtype=np.int64), dtype=bool)


def without_overruns(table: pd.DataFrame) -> pd.DataFrame:
    """Return the table in which an overrun (`overruns`) ends where the next launch on its stream starts.

    That is the longest that it can have taken.
    """
    duration_ns = table["duration_ns"].to_numpy(dtype=np.int64)
    return table.assign(duration_ns=np.minimum(duration_ns, _room_ns(table)))


def _room_ns(table: pd.DataFrame) -> IntArray:
    """Return the longest possible time of each activity; the largest integer without a bound."""
    room = np.full(len(table), np.iinfo(np.int64).max, dtype=np.int64)
    judged = table["stream"].notna().to_numpy() & table["duration_ns"].ge(SHORTEST_NS).to_numpy()
    rows = np.flatnonzero(judged)
    kernels = table["kind"].astype(str).eq(KERNEL)
    queues = codes_of([*(table[name] for name in QUEUE), kernels])[rows]
    start_ns = table["start_ns"].to_numpy(dtype=np.int64)[rows]
    duration_ns = table["duration_ns"].to_numpy(dtype=np.int64)[rows]
    order = np.lexsort((start_ns, queues))
    rows = rows[order]
    queues = queues[order]
    start_ns = start_ns[order]
    farthest = np.iinfo(np.int64).max - np.maximum(start_ns, 0) - JITTER_NS
    end_ns = start_ns + np.minimum(duration_ns[order], farthest)
    after_launch = _after_launch(table["correlation"].iloc[rows], queues)
    for queue in np.split(np.arange(len(rows)), np.flatnonzero(np.diff(queues)) + 1):
        if len(queue) < 2:
            continue
        # of each and all that start later
        first_end_ns = np.minimum.accumulate(end_ns[queue][::-1])[::-1]
        has_later = queue[after_launch[queue] <= queue[-1]]
        later = after_launch[has_later]
        covers = end_ns[has_later] > first_end_ns[later - queue[0]] + JITTER_NS
        culprits = has_later[covers]
        room[rows[culprits]] = start_ns[after_launch[culprits]] - start_ns[culprits]
    return room


def _after_launch(correlation: pd.Series, queues: IntArray) -> IntArray:
    """Return for each activity, in the order of queue and start, the place after the last of its launch on its queue.

    An activity without a launch number is alone.
    """
    place = np.arange(len(queues))
    if not len(place):
        return place
    numbered = correlation.notna().to_numpy()
    alone = np.where(numbered, 0, place + 1)
    launch = codes_of([pd.Series(queues), pd.Series(alone), correlation.reset_index(drop=True)])
    return pd.Series(place).groupby(launch).transform("max").to_numpy() + 1


def gaps_ns(table: pd.DataFrame) -> pd.Series:
    """Return the idle time of the queue before each row: <NA> for its first, negative where the row overlaps."""
    codes = queue_codes(table)
    starts = table["start_ns"].to_numpy(dtype=np.int64)
    order = np.lexsort((starts, codes))
    codes = codes[order]
    starts = starts[order]
    ends = starts + np.maximum(table["duration_ns"].to_numpy(dtype=np.int64)[order], 0)
    running = pd.Series(ends).groupby(codes).cummax().to_numpy()
    gaps = np.zeros(len(table), dtype=np.int64)
    first = np.ones(len(table), dtype=bool)
    gaps[order[1:]] = starts[1:] - running[:-1]
    first[order[1:]] = codes[1:] != codes[:-1]
    return pd.Series(pd.arrays.IntegerArray(gaps, first), index=table.index)


def resolution_ns(values: IntArray) -> int:
    """Return the step of a clock: the greatest common divisor of the differences between the values it has given.

    Differences, not values: some producers subtract a nanosecond from every duration (MI300X under
    Kineto: 40 k - 1). Two different values have one difference, which may be many steps; seen often
    enough (`_OFTEN`) they are of a coarse clock, and the step is what divides both, with or without
    that nanosecond. Returns 0 where the values say nothing about the clock: there is one, or there
    are two that were not seen that often.
    """
    every = np.asarray(values, dtype=np.int64)
    distinct = np.unique(every)
    if len(distinct) == 2 and len(every) >= _OFTEN:
        return int(max(np.gcd.reduce(distinct), np.gcd.reduce(distinct + 1)))
    if len(distinct) >= 3:
        return int(np.gcd.reduce(np.diff(distinct)))
    return 0


def _sorted(table: pd.DataFrame) -> tuple[IntArray, IntArray]:
    starts = table["start_ns"].to_numpy(dtype=np.int64)
    durations = np.maximum(table["duration_ns"].to_numpy(dtype=np.int64), 0)
    order = np.argsort(starts, kind="stable")
    return starts[order], (starts + durations)[order]


IMPOSSIBLE = {
    "zero-duration": "activities that took no time: rows refused",
    "negative-duration": "activities that end before they start: rows refused",
    "impossible-duration": "activities of over an hour or under 10 ns: damaged timestamps, rows refused",
}
"""Code of a time that no activity can take -> what it is."""
OVERRUN: Final = "overrun"  # code of a time that runs over the next activities of its stream
LONGEST_NS = int(LONGEST_US * 1e3)
SHORTEST_NS = int(SHORTEST_US * 1e3)
LEAST_TICKS = (
    10  # steps of the clock that make a duration precise within 5 % (half a step at either end)
)
TOUCHING_NS = 1  # a gap this small is none: Kineto stores ends one nanosecond short
_MOST = 0.8  # share of activities without a gap from which a queue counts as back to back
_ERROR: Final[Severity] = "error"
ROWS: Final[dict[str, tuple[Severity, str]]] = {
    **{code: (_ERROR, text) for code, text in IMPOSSIBLE.items()},
    OVERRUN: (
        _ERROR,
        "activities that end after later ones of their stream have ended: their end is wrong, cut "
        "off where the next "
        "starts, rows refused",
    ),
    "days-apart": ("error", "activities hours or days after all others: not of one run"),
    "overlap": (
        "warning",
        "activities that overlap on one queue: their times add up to more than the time",
    ),
    "orphan": ("warning", "activities without a launch in the file: no shapes, no step"),
    "before-first-step": ("info", "activities before the first step: warm-up"),
    "coarse-timer": (
        "warning",
        "durations of under ten steps of the clock: uncertain by more than 5 %",
    ),
    "repeated-dispatch": (
        "warning",
        "dispatch numbers that occur again in a process: replay passes",
    ),
}
"""Code of what is wrong with single rows (`flags`) -> how grave it is, and what it is."""


def flags(table: pd.DataFrame, steps: pd.DataFrame) -> pd.DataFrame:
    """Return which rows of a dispatch table each code of `ROWS` concerns: a column of bool per code."""
    damage = impossible(table)
    linked = table["linked"].to_numpy()
    overrun = overruns(table)
    table = without_overruns(table)
    if steps.empty:
        first_step_ns = -np.inf
    else:
        first_step_ns = steps["start_ns"].min()
    numbered = table["dispatch_id"].notna()
    again = table.duplicated(["process", "gpu", "dispatch_id"])
    flagged = {
        **{code: (damage == code) & ~overrun for code in IMPOSSIBLE},
        OVERRUN: overrun,
        "days-apart": days_apart(table),
        "overlap": (gaps_ns(table) < -TOUCHING_NS).fillna(False).to_numpy(dtype=bool),
        "orphan": ~linked & linked.any(),  # if launches are recorded at all
        "before-first-step": table["start_ns"].to_numpy() < first_step_ns,
        "coarse-timer": _coarse(table, ~overrun),
        "repeated-dispatch": (again & numbered).to_numpy(),
    }
    return pd.DataFrame({code: flagged[code] for code in ROWS}, index=table.index)


def words(flagged: pd.DataFrame) -> pd.Series:
    """Return the codes of each row joined by ";" as a category, "" for rows without any."""
    text = np.full(len(flagged), "", dtype=object)
    for code in flagged.columns:
        rows = flagged[code].to_numpy()
        text[rows] = [f"{before};{code}" if before else code for before in text[rows]]
    return pd.Series(pd.Categorical(text), index=flagged.index)


def check(
    table: pd.DataFrame, steps: pd.DataFrame, flagged: pd.DataFrame | None = None
) -> list[Finding]:
    """Return the oddities of a trace, the gravest first; `flagged` is the result of `flags`, if at hand."""
    if flagged is None:
        flagged = flags(table, steps)
    findings = list[Finding]()
    for code, (severity, text) in ROWS.items():
        rows = flagged[code].to_numpy()
        if rows.any():
            first = str(table["source"].iloc[int(np.argmax(rows))])
            part = share_of_time(table, rows)
            findings += findings_on(
                int(rows.sum()),
                code,
                text,
                severity,
                first,
                part,
            )
    findings += [*_dropped(table), *_zero_counters(table), *_back_to_back(table)]
    return by_severity(findings)


def by_severity(findings: Sequence[Finding]) -> list[Finding]:
    """Return the findings, errors first, in the order given within a severity."""
    return sorted(findings, key=lambda finding: SEVERITIES.index(finding.severity))


def share_of_time(table: pd.DataFrame, rows: BoolArray) -> float | None:
    """Return the share of some rows in the GPU time; None if the trace has no time."""
    time = np.clip(table["duration_ns"].to_numpy(dtype=np.float64), 0, LONGEST_NS)
    if time.sum() > 0:
        return float(time[rows].sum() / time.sum())
    return None


def impossible(table: pd.DataFrame) -> ObjectArray:
    """Return why each row's time is impossible: one of `IMPOSSIBLE`, "" if it is possible."""
    start = table["start_ns"].to_numpy()
    duration = table["duration_ns"].to_numpy()
    overflows = (duration > 0) & (start > np.iinfo(np.int64).max - np.maximum(duration, 0))
    damaged = (duration > LONGEST_NS) | (duration < SHORTEST_NS) | overflows
    return np.select([duration == 0, duration < 0, damaged], list(IMPOSSIBLE), "").astype(object)


def days_apart(table: pd.DataFrame) -> BoolArray:
    """Return which activities start more than a day after the end of all before them, shape (n_rows,).

    Or more than an hour, where no file has activities on both sides.
    """
    order = np.argsort(table["start_ns"].to_numpy(), kind="stable")
    starts = table["start_ns"].to_numpy(dtype=float)
    durations = np.maximum(table["duration_ns"].to_numpy(dtype=float), 0.0)
    ends = np.maximum.accumulate((starts + durations)[order])
    is_later = np.zeros(len(table), dtype=bool)
    gaps = starts[order[1:]] - ends[:-1]
    is_later[order[1:]] = gaps > DAY_NS
    if gaps.max(initial=0) > HOUR_NS and not is_later.any():
        place = int(gaps.argmax()) + 1
        files = table["source"].astype(str).str.rpartition(":")[0].to_numpy()[order]
        is_later[order[place]] = set(files[:place]).isdisjoint(files[place:])
    return is_later


def _coarse(table: pd.DataFrame, measured: BoolArray) -> BoolArray:
    """Rows short against the step of their device's clock, among those with a `measured` duration."""
    duration = table["duration_ns"].to_numpy()
    rows = np.zeros(len(table), dtype=bool)
    codes = pd.factorize(table["device"], use_na_sentinel=False)[0]
    for code in np.unique(codes):
        of_device = (codes == code) & (duration > 0) & measured
        rows |= of_device & (duration < LEAST_TICKS * resolution_ns(duration[of_device]))
    return rows


def _dropped(table: pd.DataFrame) -> list[Finding]:
    """Count the holes in the numbers of the kernels of each process."""
    numbered = table[table["dispatch_id"].notna()]
    if numbered.empty:
        return []
    numbers = numbered["dispatch_id"].astype("int64").groupby(numbered["process"].fillna(-1))
    missing = int((numbers.max() - numbers.min() + 1 - numbers.nunique()).sum())
    text = "dispatches missing between the first and the last number: dropped records, or a filter"
    first = str(numbered["source"].iloc[0])
    return findings_on(missing, "dropped-dispatches", text, "warning", first)


def _zero_counters(table: pd.DataFrame) -> list[Finding]:
    counters = table[counters_of(table)]
    zero = tuple(counters.columns[(counters.fillna(0.0) == 0).all() & counters.notna().any()])
    text = f"counters that are zero in every activity ({few(zero)})"
    return findings_on(
        len(zero),
        "zero-counter",
        text,
        "info",
        counters=zero,
    )


def _back_to_back(table: pd.DataFrame) -> list[Finding]:
    """Report durations that include the gaps between kernels."""
    gaps = gaps_ns(table)
    has_gap = gaps.notna()
    touching = (gaps.abs() <= TOUCHING_NS).fillna(False) & has_gap
    if has_gap.sum() < 10 or touching.sum() < _MOST * has_gap.sum():
        return []
    text = (
        "activities that start as the one before ends: durations contain the dispatch gap of a "
        "busy queue"
    )
    first = str(table["source"].iloc[0])
    return findings_on(
        int(touching.sum()),
        "back-to-back",
        text,
        "info",
        first,
    )

"""What a trace holds that one should know before training on it, and what cleaning left out and remarks, in words.

A finding (`traces.dispatches.Finding`) counts activities (or files, counters), so that its words begin with what is
counted, in the plural.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Final

from ...errors import few

NAMED: Final = 3
"""Names listed in a remark."""

REASONS: Final = {
    "warm-up": "warm-up",
    "outlier": "outlier",
    "not-in-fullest-bin": "not in the fullest bin",
    "rest-of-call": "rest of its call",
    "outside-steps": "outside the steps",
    "first-step": "first step",
    "last-step": "last step",
    "partial-step": "partial step",
    "outlying-step": "outlying step",
    "step-not-asked-for": "step not asked for",
}
"""Why an activity or a step was left out, by its code."""

_OTHER_RUN: Final = "give the execution trace recorded with this trace"
_BROKEN_LINES: Final = {
    "rocprof": "lines with another number of fields than the header, left out: was the file cut short?",
    "rocprofv3": "lines with more or fewer fields than the header (cut off?): left out",
}


def _orphan(launched: str = "") -> str:
    if launched:
        return f"activities launched {launched} began: no operator, no step; leave them out of totals"
    return "activities without a launch in the file: no shapes, no step"


def _clipped_time(clipped: str) -> str:
    if clipped == "times":
        return "times beyond what an integer holds, cut off there: damaged timestamps"
    return "activities whose timestamps do not fit 63 bits: kept at the last one possible, rows of no use"


def _other_run(why: str, agreeing: int = 0, calls: int = 0) -> str:
    return {
        "process": f"the execution trace is of another process and was not used: {_OTHER_RUN}",
        "no calls": f"the execution trace has none of this trace's operator calls and was not used: {_OTHER_RUN}",
        "names": f"only {agreeing} of {calls} operator calls have the same name in the execution trace, and it was not "
        f"used: it is of another run, or the profiler wrote no 'Record function id' (seen in 2023); {_OTHER_RUN}",
    }[why]


def _spoiled_timestamps(written: str, remedy: str = "", other: str = "") -> str:
    if written == "fraction":
        return "timestamps that are not whole nanoseconds, as a spreadsheet saves them: durations are wrong"
    advice = {
        "export": "export the data again",
        "profile": "durations cannot be trusted, profile again or take the file as it was written",
        "other": f"the times of {other} are used instead",
    }[remedy]
    return f"timestamps written with an exponent, as a spreadsheet saves them: their last digits are lost; {advice}"


def _unreadable_times(rows: str) -> str:
    if rows == "dispatches":
        return "dispatches whose start or end is no number: left out"
    return "rows without a start or an end that is a number: left out"


def _counters_without_times(lacking: str, counted: str = "") -> str:
    if lacking == "timing run":
        return "dispatches with counters but no times: give the timing run of the same program with them"
    if counted == "rows":
        return (
            "rows of counters without times: they are no activities; add the kernel trace (--kernel-trace) of the run"
        )
    return "dispatches with counters but no times: left out; add the kernel trace (--kernel-trace) of the run"


def _unmatched_pass(why: str, missing: int = 0, only_here: int = 0) -> str:
    return {
        "not shared": f"dispatches that the passes do not share ({missing} not in this file, {only_here} only here): "
        "no counters there",
        "not timed": "dispatches of a counter pass that are not among those timed (another number of launches of the "
        "kernel, or another grid): their counters are left out",
        "values not timed": "counter values of dispatches that are not among those timed: left out",
        "no number": "counter values without the number of a dispatch: left out",
    }[why]


def _replay_spread(spreads: Sequence[tuple[str, float]] = (), counters: Sequence[str] = ()) -> str:
    if counters:
        names = ", ".join(counters)
        return f"values of a counter for one dispatch that differ between passes ({names}): the median is taken"
    listed = few((f"{name} {spread:.1%}" for name, spread in spreads), NAMED)
    return f"quantities that differ between replay passes of a dispatch, by at most: {listed}; the first is used"


def _channels_missing(counters: Sequence[tuple[str, int, int]]) -> str:
    listed = few((f"{name} {recorded} of {there}" for name, recorded, there in counters), NAMED)
    return f"counters recorded on some channels only ({listed}): their sums are of these channels"


def _zero_counter(counters: Sequence[str]) -> str:
    return f"counters that are zero in every activity ({few(counters)})"


def _counted(count: int, noun: str, one: str = "", several: str = "") -> str:
    verb = one if count == 1 else several
    return f"{count:,} {noun}{'' if count == 1 else 's'}{f' {verb}' if verb else ''}"


def _not_settled(kernels: int) -> str:
    return f"{_counted(kernels, 'kernel', 'has', 'have')} not settled when the recording ends: record longer"


def _two_ways(kernels: int, share: float) -> str:
    return (
        f"{_counted(kernels, 'kernel', 'loses', 'lose')} over {100 * share:.0f} % of the repeats as outliers: these "
        "are no accidents but a second way of running, look at them before you believe the median"
    )


def _below_binning(kernels: int, least_us: float) -> str:
    who = _counted(kernels, "kernel", "keeps", "keep")
    return f"{who} all runs: no binning margin is published below {least_us:g} µs"


def _few_steps(steps: int, wanted: int) -> str:
    return f"{_counted(steps, 'step')} kept: repeat the run for {wanted} or more"


def _incomplete(missing: int, kernels: int, first: Sequence[str]) -> str:
    names = ", ".join(name[:40] for name in first)
    return f"coverage incomplete: {missing} of {kernels} kernels of the full list are not measured ({names})"


def _uneven(first: Sequence[str]) -> str:
    names = ", ".join(name[:40] for name in first)
    return f"coverage not proved: no full list, and runs differ in how often they have {names}"


WORDS: Final[dict[str, str | Callable[..., str]]] = {
    # by the quality gate, of any trace
    "zero-duration": "activities that took no time: rows refused",
    "negative-duration": "activities that end before they start: rows refused",
    "impossible-duration": "activities of over an hour or under 10 ns: damaged timestamps, rows refused",
    "long-name": "activities with a name as no profiler writes it (up to {letters:,} letters): left out",
    "overlap": "activities that overlap on one queue: their times add up to more than the time",
    "orphan": _orphan,
    "before-first-step": "activities before the first step: warm-up",
    "coarse-timer": "durations of under ten steps of the clock: uncertain by more than 5 %",
    "repeated-dispatch": "dispatch numbers that occur again in a process: replay passes",
    "dropped-dispatches": "dispatches missing between the first and the last number: dropped records, or a filter",
    "zero-counter": _zero_counter,
    "back-to-back": "activities that start as the one before ends: durations contain the dispatch gap of a busy queue",
    # PyTorch
    "graph-replay": "kernels of replayed graphs: their operator, if any, is the one that launched the whole graph; "
    "their own operators and shapes are in a trace of the capture",
    "no-operator": "activities launched outside of any operator that the file has: no shapes",
    "operator-by-time": "activities whose operator the file does not name rightly: the one running at their launch is "
    "taken",
    "unresolved-device": "activities of a GPU that the file does not name: state it with --set device=NAME",
    "grid-unit": "activities whose grid may be in workgroups or work-items, as only their launch would tell: left out",
    "coarse-start": "starts that the file's numbers do not resolve to the nanosecond: gaps are not exact",
    "clipped-time": _clipped_time,
    "execution-trace-other-run": _other_run,
    "unreadable-execution-trace": "{problem}",
    # databases
    "no-time": "have no start or no end in the database and are left out: the recording was interrupted",
    "unsaved-database": "beside the database lies {log} with activities not yet saved, which are not read: let the "
    'program end, then run `sqlite3 {database} "PRAGMA wal_checkpoint(TRUNCATE)"`',
    "dropped-by-view": "kept, though the database's own view `kernels` leaves them out (no thread or no region "
    "recorded): sums taken from that view are too small",
    "counter-instances": "more than one value of a counter for one dispatch: summed, as those of the instances of a "
    "block",
    # Nsight
    "truncated": "the file ends within a line, which is left out",
    "locked-clocks": "durations by ncu: clocks locked to base and caches flushed (unless --clock-control none, "
    "--cache-control none): do not mix them with the times of a trace",
    "no-duration": "launches without a duration are left out",
    "foreign-lines": "lines within the table that are of no launch are passed over",
    "unreadable-values": "values that are no numbers in this locale are left out",
    "repeated-metrics": "metrics that a launch has twice with different values: the first is kept",
    "device-order": "GPUs of different names, numbered in two ways: the names in this trace may be exchanged",
    "graph-as-a-whole": "launches of CUDA graphs were traced as a whole: the kernels inside are not listed; profile "
    "with --cuda-graph-trace=node",
    "unreadable-lines": "lines of the trace without a start and a duration, or with too many fields, are left out",
    # ROCm
    "broken-lines": lambda by: _BROKEN_LINES[by],
    "spoiled-timestamps": _spoiled_timestamps,
    "unreadable-times": _unreadable_times,
    "unreadable-field": "fields of {column} that are no number: missing",
    "duration-mismatch": "DurationNs is not EndNs - BeginNs: durations are taken from the stamps",
    "counters-without-times": _counters_without_times,
    "unmatched-pass": _unmatched_pass,
    "replay-spread": _replay_spread,
    "channels-missing": _channels_missing,
    "unnamed-kernel": "dispatches of a kernel that the file does not name",
    # cleaning
    "kernels-not-settled": _not_settled,
    "kernels-run-two-ways": _two_ways,
    "outliers-take-time": lambda share, kernel: (
        f"outliers take {100 * share:.0f} % of the time, {kernel[:60]} most of it: look at it"
    ),
    "kernels-below-binning": _below_binning,
    "no-activity-in-steps": "no activity was launched in a recorded step: all are kept",
    "few-steps-kept": _few_steps,
    "too-few-steps-to-trim": lambda steps: f"{_counted(steps, 'step')}: too few to leave out the first and the last",
    "passes-joined": "counters of {passes} passes joined by kernel and order: they were never true together",
    "times-of-runs-without-counters": "times are those of {runs} runs without counters",
    "cut-by-ranges": "{label}: cut by the user's ranges that {rule} matches, {matched} of {ranges}",
    "coverage-complete": "coverage complete: all {kernels} kernels of the full list are measured",
    "coverage-incomplete": _incomplete,
    "coverage-uneven": _uneven,
    "coverage-unproved": (
        "coverage not proved: no full list; the runs have {kernels} kernels together and agree on them"
    ),
}

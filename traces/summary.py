"""From dispatches to measurements: a trace looked at, put in numbers, and as rows of the measurement table.

`annotate` gives the dispatch table everything that follows from it: kernel classes, operators,
work, quality flags. `overview` says in a few numbers what a trace holds. `measurements` makes a row
of the calls of one operator on one shape, whatever kernels they ran.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from itertools import chain
from typing import Any

import numpy as np
import pandas as pd

from ..errors import DataError
from ..operators.operators import OPS
from ..remarks import Remark, remark
from ..table.measurements import COUNTER, DEFECT, DEFECT_DETAIL
from ..table.problems import codes_of
from . import quality
from .activity_work import SAME_CALL, UNKNOWN, WORDS, work_of_dispatches
from .classes import classify, unclassified
from .dispatches import KERNEL, Finding, Trace, counters_of, empty_calls, empty_ranges
from .quality import IMPOSSIBLE, OVERRUN, busy_ns, span_ns

FLAGS = "flags"  # column of the quality codes that concern a row, joined by ";"


@dataclass(frozen=True)
class Annotated:
    """A trace with classes, work and findings.

    `dispatches` is the dispatch table, then `kernel_class` and `op_class` (`classes`), `op`,
    `variant`, dimensions, precisions, `flops`, `bytes_moved` (`activity_work`), and `flags`
    (`quality`). `findings` are the reader's and those of the quality gate, the gravest first. An
    activity that runs over later ones of its stream (`quality.overruns`) ends where the next
    starts. `calls` (the CPU's, of the runtime) and `ranges` (the user's annotations) are there
    where they were asked for.
    """

    dispatches: pd.DataFrame
    steps: pd.DataFrame
    findings: tuple[Finding, ...]
    notes: tuple[Remark, ...]
    calls: pd.DataFrame = field(default_factory=empty_calls)
    ranges: pd.DataFrame = field(default_factory=empty_ranges)


def annotate(trace: Trace) -> Annotated:
    """Return the trace with kernel classes, operators, work and quality findings.

    A reader with a finding is believed: the gate does not report the same code
    again.
    """
    table = trace.dispatches
    flagged = quality.flags(table, trace.steps)
    table = quality.without_overruns(table)
    stated = {finding.code for finding in trace.findings}
    findings = list(trace.findings)
    for finding in quality.check(table, trace.steps, flagged):
        if finding.code not in stated:
            findings.append(finding)
    findings = quality.by_severity(findings)
    flags = quality.words(flagged).rename(FLAGS)
    parts = [table, classify(table), work_of_dispatches(table), flags]
    dispatches = pd.concat(parts, axis=1)
    notes = tuple(trace.notes)
    return Annotated(dispatches, trace.steps, tuple(findings), notes, trace.calls, trace.ranges)


def check_one_run(trace: Annotated, label: str) -> None:
    """Raise `DataError` where activities with a possible time lie hours or days apart (`quality.days_apart`)."""
    table = trace.dispatches
    if (apart := quality.days_apart(table) & (quality.impossible(table) == "")).any():
        place = table["source"].iloc[int(np.argmax(apart))]
        raise DataError(
            f"is not of one run: {place} starts hours or days after all before it", source=label
        )


def with_possible_times(trace: Annotated, label: str) -> Annotated:
    """Return the trace without activities of impossible time (`quality.IMPOSSIBLE`); its findings count them.

    Raises DataError: no activity is left, or they lie hours or days apart (`check_one_run`).
    """
    check_one_run(trace, label)
    table = trace.dispatches
    wrong = quality.impossible(table) != ""
    if not wrong.any():
        return trace
    if wrong.all():
        first = f"{table['duration_ns'].iloc[0] / 1e3:g} µs at {table['source'].iloc[0]}"
        raise DataError(
            f"none of the {len(table)} activities has a duration that can be, first: {first}",
            source=label,
        )
    return replace(trace, dispatches=table[~wrong].reset_index(drop=True))


def trace_finding(trace: str, finding: Finding) -> Remark:
    """Return a finding as a remark on the trace of that label, "" for a single trace."""
    text = f"{finding.remark} ({finding.count}) [{finding.code}]"
    if trace:
        text = f"{trace}: {text}"
    values = {"trace": trace, "finding": finding.remark, "count": finding.count}
    return remark("trace-finding", text, **values)


UNCLASSIFIED = "unclassified"  # how activities without an operator class are called in tables


@dataclass(frozen=True)
class Overview:
    """A trace in numbers.

    `devices` are those of the activities, "" where the file does not say; `activities` the number
    of kernels, copies and fills; `linked` how many have their launch in the file. In microseconds,
    `kernel_us` is the sum of the kernels' durations, `busy_us` time with at least one activity,
    `span_us` first start to last end; activities with a time that none can take
    (`quality.IMPOSSIBLE`) are in none of them, nor in the times of classes. `classes` has
    `kernel_class`, `op_class`, `count`, `time_us`, `share` (of the sum of all durations),
    `unclassified` the kernels without an operator class (see `classes.unclassified`), both the
    largest first; `findings` the gravest first.
    """

    label: str
    devices: tuple[str, ...]
    activities: dict[str, int]
    linked: int
    kernel_us: float
    busy_us: float
    span_us: float
    classes: pd.DataFrame
    unclassified: pd.DataFrame
    findings: tuple[Finding, ...]
    notes: tuple[Remark, ...]

    @property
    def errors(self) -> list[Finding]:
        """Findings that make a strict reading refuse the file."""
        return [finding for finding in self.findings if finding.severity == "error"]


def overview(annotated: Annotated, label: str) -> Overview:
    """Return the numbers of a trace."""
    table = annotated.dispatches
    possible = quality.impossible(table) == ""
    timed = table[possible]
    kernels = table[table["kind"] == KERNEL]
    keys = {
        "kernel_class": table["kernel_class"].astype(str),
        "op_class": table["op_class"].astype(str).replace("", UNCLASSIFIED),
    }
    times = pd.DataFrame({**keys, "time_us": (table["duration_ns"] / 1e3).where(possible, 0.0)})
    by_class = times.groupby(list(keys), sort=False)["time_us"].agg(["size", "sum"]).reset_index()
    by_class.columns = pd.Index([*keys, "count", "time_us"])
    total = max(float(by_class["time_us"].sum()), 1e-9)
    by_class["share"] = by_class["time_us"] / total
    kinds = table["kind"].astype(str).value_counts()
    kernel_ns = float(timed.loc[timed["kind"] == KERNEL, "duration_ns"].sum())
    return Overview(
        label=label,
        devices=tuple(sorted(map(str, table["device"].unique()))),
        activities={str(kind): int(count) for kind, count in kinds.items()},
        linked=int(table["linked"].sum()),
        kernel_us=kernel_ns / 1e3,
        busy_us=busy_ns(timed) / 1e3,
        span_us=span_ns(timed) / 1e3,
        classes=by_class.sort_values("time_us", ascending=False, ignore_index=True),
        unclassified=unclassified(kernels, kernels[["kernel_class", "op_class"]]),
        findings=annotated.findings,
        notes=annotated.notes,
    )


STATED = ("vgpr", "accum_vgpr", "sgpr", "lds_bytes", "scratch_bytes")
"""Columns of a launch that give a kernel of unknown work its features."""
LAUNCH = f"{COUNTER}launch."  # prefix of their columns in the measurement table
_DIMENSIONS = dict.fromkeys(chain.from_iterable(op.dims for op in OPS.values()))
_SIZES = tuple(name for name in _DIMENSIONS if name not in WORDS)


def measurements(annotated: Annotated, campaign: str, *, each: bool = False) -> pd.DataFrame:
    """Return a trace's raw rows of the measurement table; `campaign` is its name in that column.

    A call is one call of an operator; its time is the sum of its activities on the GPU, its kernel
    the names of them (sorted, joined by " + "): which of them was the longest may change from call
    to call. Activities without a call (collectives, copies, kernels of unknown operators) count as
    a call each. Calls that agree in device, operator, variant, dimensions, precisions and kernel
    are repeats: one row, unless `each` call is to be one.

    Kernels known by their launch alone carry what it states besides as counters,
    ``counter.launch.NAME`` (`STATED`). Columns are `device`, `op`, `variant`, dimensions,
    precisions, `kernel`, `op_class`; `duration_us`, the median of the repeats, `spread_us`, their
    median absolute deviation, `repeats`; `kernels`, activities per call; `share`, of the GPU time
    of the trace; counters as medians over the repeats (sums over a call); `source` of the first
    call. Each call with an impossible time, and each kernel whose launch is unknown, is a row of
    its own with a `_defect`.
    """
    table = annotated.dispatches
    if table.empty:
        return pd.DataFrame()
    calls = _calls(table)
    if each:
        codes = np.arange(len(calls))
    else:
        codes = _repeats(calls)
    repeats = calls.groupby(codes, sort=True)
    first = calls.loc[~pd.Series(codes).duplicated().to_numpy()].reset_index(drop=True)
    duration = calls["duration_us"]
    median = repeats["duration_us"].median()
    deviation = (duration - median.to_numpy()[codes]).abs().groupby(codes, sort=True).median()
    count = repeats.size()
    total = max(float(duration.clip(lower=0).sum()), 1e-9)
    share = repeats["duration_us"].sum() / total
    rows = first.drop(columns=["duration_us"]).assign(
        kernel=first["kernel"].astype("str"),
        duration_us=median.to_numpy(),
        spread_us=np.where(count > 1, deviation, np.nan),
        repeats=count.to_numpy(dtype=float),
        share=share.to_numpy(),
        campaign=campaign,
    )
    counters = counters_of(calls)
    if not counters:
        return rows
    medians = repeats[counters].median().reset_index(drop=True)
    return pd.concat([rows.drop(columns=counters), medians], axis=1)


def _repeats(calls: pd.DataFrame) -> np.ndarray:
    """Return a number per call, in order of appearance, the same for repeats; a call with a defect is no repeat."""
    keys = ["device", *WORDS, "kernel", *_present(calls, _SIZES)]
    grouped = calls.groupby(keys, sort=False, dropna=False, observed=True).ngroup().to_numpy()
    alone = np.where(calls[DEFECT].ne(""), np.arange(1, len(calls) + 1), 0)
    return codes_of([grouped, alone])


def _calls(table: pd.DataFrame) -> pd.DataFrame:
    """Return one row per call, in the order of the first activity of each."""
    code = call_codes(table)
    # within a call the longest activity first
    order = np.lexsort((-table["duration_ns"].to_numpy(), code))
    main = order[np.r_[True, code[order][1:] != code[order][:-1]]]
    grouped = table.groupby(code, sort=True)
    calls = table.iloc[main].reset_index(drop=True)
    # the quality codes of each call: those of any of its activities
    flags = np.full(int(code.max()) + 1, "", dtype=object)
    pairs = pd.DataFrame({"call": code, "flags": table[FLAGS].astype("str")}).drop_duplicates()
    for call, text in pairs[pairs["flags"] != ""].itertuples(index=False):
        earlier = filter(None, flags[call].split(";"))
        flags[call] = ";".join(dict.fromkeys([*earlier, *text.split(";")]))
    columns: dict[str, Any] = {}
    for name in ("device", *WORDS, "op_class", "kernel_class"):
        columns[name] = calls[name].astype(str)
    for name in _present(calls, _SIZES):
        columns[name] = calls[name].astype("Float64").astype(float)
    columns |= {
        "kernel": _kernels(table["name"], code),
        "duration_us": grouped["duration_ns"].sum().to_numpy() / 1e3,
        "kernels": grouped.size().to_numpy(),
        "flops": grouped["flops"].sum(min_count=1).to_numpy(),
        "bytes": grouped["bytes_moved"].sum(min_count=1).to_numpy(),
        "flags": flags,
        "source": grouped["source"].first().astype(str).to_numpy(),
    }
    alone = calls["op"].eq(UNKNOWN)
    stated = calls.loc[alone, [*STATED]].astype("Float64").astype(float).dropna(axis=1, how="all")
    for name in stated:
        columns[f"{LAUNCH}{name}"] = stated[name].reindex(calls.index)
    rows = pd.DataFrame(columns, index=calls.index)
    counters = counters_of(table)
    if counters:
        counted = grouped[counters].sum(min_count=1).reset_index(drop=True)
        rows = pd.concat([rows, counted], axis=1)
    return _with_defects(rows, calls)


def _kernels(names: pd.Series, code: np.ndarray) -> pd.Categorical:
    """Return the kernels of each call, by the number of the call of each activity: the names, sorted, each once.

    Names of kernels are long: none is made anew for each call.
    """
    words = names.astype("category").cat
    levels = [str(level) for level in words.categories]
    texts: dict[str, int] = {}
    numbers = np.array([texts.setdefault(level, len(texts)) for level in levels], dtype=np.int64)
    launched = pd.DataFrame({"call": code, "name": words.codes.to_numpy()}).drop_duplicates()
    several = launched["call"].duplicated(keep=False).to_numpy()
    calls = launched["call"].to_numpy()
    places = launched["name"].to_numpy()
    kernels = np.zeros(int(code.max()) + 1, dtype=np.int64)
    kernels[calls[~several]] = numbers[places[~several]]
    for call, members in pd.Series(places[several]).groupby(calls[several]):
        text = " + ".join(sorted(levels[int(place)] for place in members))
        kernels[int(str(call))] = texts.setdefault(text, len(texts))
    labels = pd.Index(list(texts))
    return pd.Categorical.from_codes(kernels.tolist(), categories=labels)  # pyrefly: ignore[bad-return]


def call_codes(table: pd.DataFrame) -> np.ndarray:
    """Return the number of each row's call, in order of appearance; rows without a call have one each."""
    named = (table["op_id"].notna() & ~table["op"].isin(["", UNKNOWN, "collective"])).to_numpy()
    alone = np.where(named, 0, np.arange(1, len(table) + 1))
    levels = [
        pd.factorize(table[name], use_na_sentinel=False)[0] * named for name in (*SAME_CALL, "op")
    ]
    return pd.MultiIndex.from_arrays([alone, *levels]).factorize()[0].astype(np.int64)


def _with_defects(calls: pd.DataFrame, main: pd.DataFrame) -> pd.DataFrame:
    """Mark the calls that cannot be measurements."""
    defect = np.full(len(calls), "", dtype=object)
    detail = np.full(len(calls), "", dtype=object)
    unknown = (calls["op"].eq(UNKNOWN) & main["grid_x"].isna()).to_numpy()
    defect[unknown] = "launch-not-recorded"
    detail[unknown] = calls["kernel"][unknown]
    flags = calls["flags"].astype(str).str.split(";")
    for code in reversed([*IMPOSSIBLE, OVERRUN]):
        rows = flags.map(lambda codes_of_call, code=code: code in codes_of_call).to_numpy(
            dtype=bool
        )
        defect[rows] = code
        detail[rows] = ""
    return calls.assign(**{DEFECT: defect, DEFECT_DETAIL: detail})


def _present(frame: pd.DataFrame, names: Sequence[str]) -> list[str]:
    return [name for name in names if name in frame.columns and frame[name].notna().any()]

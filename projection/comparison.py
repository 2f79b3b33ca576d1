"""Traces of one workload compared: which profiler to believe, and what changed from one trace to the next.

Every profiler slows what it watches, and each in its way (`fidelity`). The times of one
workload under several profilers, or settings of one, are held against the time it takes when nobody
watches. Kernels and the gaps between them add up to the end-to-end time of the trace, first start
to last end on the GPU; that of the profiler to believe is nearest to the unprofiled time. The sum
of the kernels alone cannot decide: a profiler that runs kernels one by one (to read counters) may
leave each of them unharmed and still stretch the step. Kernels are matched by name and order
(`match_kernels`).

Times that a program took of its modules (`measuring.inline_times`) name no kernels: with them
calls are matched by operator, dimensions and format instead (`match_calls`).

What was added, removed, became faster or slower from one trace to another (`trace_changes`) is said
of calls, matched by operator, shape and formats; where the operator is not recognised, of kernels by
their name. What a call runs on the GPU may be another kernel in the other trace. The difference of
the end-to-end times is taken apart without rest: calls that only one trace has, calls that one has
more often, time per call, and what does not add up in time (gaps between activities, activities
that overlap).
"""

from __future__ import annotations

import math
import re
from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from enum import StrEnum
from typing import Final

import numpy as np
import pandas as pd
from scipy import stats

from ..arrays import IntArray, ObjectArray
from ..errors import DataError, ParameterError
from ..operators.operators import OPS
from ..remarks import Remark, remark
from ..table.problems import codes_of
from ..traces.activity_work import UNKNOWN, WORDS
from ..traces.classes import bare_name
from ..traces.dispatches import KERNEL, empty_steps
from ..traces.doubts import doubts_of
from ..traces.quality import busy_ns, span_ns
from ..traces.summary import Annotated, measurements
from .split import DEVICE, STREAM


@dataclass(frozen=True)
class Matching:
    """Kernels that every trace has."""

    names: ObjectArray  # kernel names, without what profilers put around them; shape (n_matched,)
    # how long each took in each trace, 0 for negative durations; in the order of the first trace;
    # shape (n_matched, n_traces)
    durations_ns: IntArray
    # whether order is that on a queue; else on a GPU, because the traces have different numbers of
    # queues (a profiler may record streams, another the hardware queues they share)
    by_queue: bool
    cut: bool  # whether names were cut to the function, because a trace has no more than that
    # share of the kernel time of all traces that is of kernels which do not occur equally often in
    # all of them, 0 to 1. Of these, the order may be shifted by what only one trace recorded.
    uneven_share: float


def match_kernels(traces: Sequence[pd.DataFrame]) -> Matching:
    """Return the kernels that all traces have: the nth of a name on a queue of one is the nth of it in the others.

    Queues have other numbers in every profiler: they correspond by their GPU, then by how many
    kernels they run, then by their first start. GPUs correspond by number. Each trace gives its
    kernels as rows of a dispatch table, at least one; the matching is of no kernel where no name is
    common to all.
    """
    names, cut = common_spelling([rows["name"] for rows in traces])
    by_queue = (
        len({len(rows.groupby(list(STREAM), dropna=False, observed=True)) for rows in traces}) == 1
    )
    columns = DEVICE
    if by_queue:
        columns = STREAM
    rows = pd.concat(
        [
            _keyed(table.assign(name=spelt), columns)
            for table, spelt in zip(traces, names, strict=True)
        ]
    )
    trace = np.repeat(np.arange(len(traces)), [len(table) for table in traces])
    kind = codes_of([rows["place"], rows["name"]])
    nth = rows.groupby([trace, kind]).cumcount().to_numpy()
    key = codes_of([kind, nth])
    matched = np.flatnonzero(np.bincount(key)[key] == len(traces))
    order = matched[np.lexsort((trace[matched], key[matched]))].reshape(-1, len(traces))
    durations = rows["duration_ns"].to_numpy()
    codes = kind * len(traces) + trace
    counts = np.bincount(codes, minlength=(int(kind.max()) + 1) * len(traces)).reshape(
        -1, len(traces)
    )
    uneven = (counts.min(axis=1) < counts.max(axis=1))[kind]
    return Matching(
        names=rows["name"].to_numpy(dtype=object)[order[:, 0]],
        durations_ns=durations[order],
        by_queue=by_queue,
        cut=cut,
        uneven_share=float(durations[uneven].sum() / max(durations.sum(), 1)),
    )


def match_calls(traces: Sequence[pd.DataFrame]) -> Matching:
    """Return the calls that all have: of each problem as many as the fewest have, at the median time of each.

    Each gives its calls as `Profiled.calls` does.
    """
    every = (
        pd.concat(traces, keys=range(len(traces)), names=["trace"])
        .reset_index("trace")
        .reset_index(drop=True)
    )
    every = every.astype(dict.fromkeys(SIGNATURE[2:], float))
    every["code"] = every.groupby(list(SIGNATURE), dropna=False, sort=False).ngroup()
    pairs = every.groupby(["code", "trace"])["duration_us"].agg(["median", "size"])
    medians, sizes = (
        pairs[name].unstack("trace").reindex(columns=range(len(traces))).dropna()  # noqa: PD010
        for name in ("median", "size")
    )
    first = every.drop_duplicates("code").set_index("code")
    names = []
    for row in first.loc[medians.index].astype({"op": str, "dtype_a": str}).to_dict("records"):
        names.append(
            " ".join(
                [
                    row["op"],
                    *(f"{name}={row[name]:g}" for name in SIGNATURE[2:] if pd.notna(row[name])),
                    row["dtype_a"],
                ]
            )
        )
    count = sizes.min(axis=1).astype(int).to_numpy()
    return Matching(
        names=np.repeat(np.array(names, dtype=object), count),
        durations_ns=np.repeat((1e3 * medians.to_numpy()).round().astype(np.int64), count, axis=0),
        by_queue=True,
        cut=False,
        uneven_share=0.0,
    )


def common_spelling(traces: Sequence[pd.Series]) -> tuple[list[ObjectArray], bool]:
    """Return the names of each trace's kernels as all of the traces spell them, and whether that cut any.

    One profiler writes "void ns::function<float>(float*)", another "function" alone.
    """
    spelt = [pd.factorize(names.astype(object)) for names in traces]
    bare = []
    for _, names in spelt:
        bare.append([bare_name(name) for name in names])
    whole = []
    for names in bare:
        whole.append(any(function_name(name) != name for name in names))
    cut = any(whole) and not all(whole)
    if cut:
        common = []
        for names in bare:
            common.append([function_name(name) for name in names])
    else:
        common = bare
    return [
        np.array(names, dtype=object)[codes]
        for (codes, _), names in zip(spelt, common, strict=True)
    ], cut


def function_name(name: str) -> str:
    """Return a kernel's name without namespaces, template arguments and parameters.

    >>> function_name("at::native::(anonymous namespace)::softmax<float, 4>(float*, int)")
    'softmax'
    """
    whole = name.replace("(anonymous namespace)", "")
    return re.sub(r"[<(].*$", "", whole).rsplit("::", 1)[-1].strip()


def _keyed(rows: pd.DataFrame, columns: Sequence[str]) -> pd.DataFrame:
    """Return `place` (number of queue or GPU), `name` and `duration_ns` of each kernel, in the order of the starts."""
    ordered = rows.iloc[np.argsort(rows["start_ns"].to_numpy(), kind="stable")]
    # in order of appearance, which is that of the first start
    codes = codes_of(ordered[name] for name in columns)
    parts = ordered["gpu"].groupby(codes).agg(["first", "size"])
    ranked = parts.assign(size=-parts["size"]).sort_values(["first", "size"], kind="stable").index
    numbers = np.empty(len(parts), dtype=np.int64)
    numbers[ranked] = np.arange(len(parts))
    return pd.DataFrame(
        {
            "place": numbers[codes],
            "name": ordered["name"].to_numpy(dtype=object),
            "duration_ns": np.maximum(ordered["duration_ns"].to_numpy(dtype=np.int64), 0),
        }
    )


_COLUMNS = [
    "kind",
    "name",
    "start_ns",
    "duration_ns",
    "device",
    "rank",
    "process",
    "gpu",
    "stream",
    "step",
]
"""Columns that times and the matching of kernels need."""
APPLICATION: Final = "application"  # the operator of in-line times that are no operator's
SIGNATURE: Final = (
    "op",
    "dtype_a",
    *dict.fromkeys(
        name
        for op in OPS.values()
        if op.name not in (UNKNOWN, APPLICATION)
        for name in op.dims
        if name not in WORDS
    ),
)
"""What distinguishes calls without names of kernels."""


@dataclass(frozen=True)
class Profiled:
    """One workload as one profiler, or one setting of it, recorded it."""

    label: str
    activities: pd.DataFrame  # dispatch table; of `of_inline` one row for each call of an operator
    steps: pd.DataFrame = field(default_factory=empty_steps)  # the profiler's (`Trace.steps`)
    # of the whole trace, where the user says so; None: those that it records
    step_count: int | None = None
    end_to_end_us: float | None = None  # of `of_inline`: over all steps
    doubts: tuple[Remark, ...] = ()  # what reading found (``trace-finding``)

    @classmethod
    def of(cls, label: str, trace: Annotated, step_count: int | None = None) -> Profiled:
        """Return the same of a trace as it was read."""
        doubts = doubts_of(trace, label).remarks
        return cls(label, trace.dispatches, trace.steps, step_count, doubts=doubts)

    @classmethod
    def of_inline(cls, label: str, table: pd.DataFrame, step_count: int | None = None) -> Profiled:
        """Return the same of a program's times of its modules (`measuring.inline_times.InlineTimes.table`).

        A step is a call of what takes longest of all that nothing encloses, unless the user says
        how many there are. A DataError says that the table is none, or times no operator.
        """
        if not {"op", "duration_us", "repeats", "outer"} <= set(table):
            raise DataError(
                "no in-line times: they need the columns op, duration_us, repeats, outer",
                source=label,
            )
        whole = table["duration_us"] * table["repeats"]
        outer = table["outer"].astype(bool)
        calls = table[table["op"].ne(APPLICATION)]
        if calls.empty or not outer.any():
            raise DataError(
                "no operator among the in-line times: time a model whose layers are some",
                source=label,
            )
        rows = calls.loc[calls.index.repeat(calls["repeats"].astype(int))]
        rows = rows.assign(
            kind=KERNEL,
            name=rows["op"],
            duration_ns=(1e3 * rows["duration_us"]).round().astype("int64"),
        )
        rows = rows.reindex(columns=list(dict.fromkeys([*rows, *_COLUMNS]))).reset_index(drop=True)
        steps = step_count or int(
            table["repeats"].to_numpy()[int(whole.where(outer, -1.0).to_numpy().argmax())]
        )
        return cls(label, rows, step_count=steps, end_to_end_us=float(whole[outer].sum()))

    def calls(self) -> pd.DataFrame:
        """Return one row for each recognised call: what tells it apart, `SIGNATURE`, and `duration_us`."""
        if self.end_to_end_us is not None:
            return self.activities.reindex(columns=[*SIGNATURE, "duration_us"])
        rows = self.activities
        if self.step_count is None and rows["step"].notna().any():
            rows = rows[rows["step"].notna()]
        measured = measurements(
            Annotated(rows.reset_index(drop=True), empty_steps(), (), ()), self.label, each=True
        )
        recognised = measured
        if len(measured):
            recognised = measured[~measured["op"].isin(["", UNKNOWN, "collective"])]
        return recognised.reindex(columns=[*SIGNATURE, "duration_us"])

    def counted(self) -> pd.DataFrame:
        """Return the activities that count: those of the steps recorded, all where the user says how many there are.

        Only what times and the matching of kernels need is kept of them: traces have many columns.
        A DataError says that there are no kernels, none with a duration, or that `step_count` is
        not positive.
        """
        if self.step_count is not None and self.step_count < 1:
            raise ParameterError("steps_per_trace", f"must be at least 1, got {self.step_count}")
        rows = self.activities[_COLUMNS]
        if self.step_count is None and rows["step"].notna().any():
            rows = rows[rows["step"].notna()]
        kernels = kernels_of(rows)
        if kernels.empty:
            raise DataError("no kernels in this trace: give one that has them", source=self.label)
        if kernels["duration_ns"].max() <= 0:
            raise DataError(
                "no kernel of this trace has a duration: give a run that was timed",
                source=self.label,
            )
        return rows


@dataclass(frozen=True)
class TraceTimes:
    """The times of one trace, in microseconds over all its steps.

    Where the trace records steps, what was launched outside them is left out. Of several GPUs the
    one with the longest end-to-end time counts.
    """

    label: str  # what the trace is called
    # GPUs with kernels; kernels of the one that counts
    gpus: int
    kernels: int
    steps: int | None  # number of steps; None where nobody knows
    kernel_us: float  # sum of the kernels' durations, overlapping or not
    # time with at least one kernel, copy or fill; time without; their sum: first start to last end
    busy_us: float
    gaps_us: float
    end_to_end_us: float
    # median duration of the steps as the CPU saw them; None where the trace records none
    cpu_step_us: float | None

    @property
    def end_to_end_per_step_us(self) -> float | None:
        """End-to-end time of a step, the mean over all; None where nobody knows how many there are."""
        if self.steps:
            return self.end_to_end_us / self.steps
        return None


def _gpus(rows: pd.DataFrame) -> list[pd.DataFrame]:
    parts = (part for _, part in rows.groupby(list(DEVICE), dropna=False, observed=True))
    return [part for part in parts if part["kind"].eq(KERNEL).any()]


def kernels_of(activities: pd.DataFrame) -> pd.DataFrame:
    """Return the kernels among the activities."""
    return activities[activities["kind"] == KERNEL]


def kernel_us(kernels: pd.DataFrame) -> float:
    """Return the sum of the kernels' durations in microseconds; negative ones count as none."""
    return float(kernels["duration_ns"].clip(lower=0).sum()) / 1e3


def trace_times(trace: Profiled) -> TraceTimes:
    """Return the times of a trace; a DataError as for `Profiled.counted`."""
    rows = trace.counted()
    if trace.end_to_end_us is not None:
        busy_us = kernel_us(rows)
        return TraceTimes(
            label=trace.label,
            gpus=1,
            kernels=len(rows),
            steps=trace.step_count,
            kernel_us=busy_us,
            busy_us=busy_us,
            gaps_us=max(trace.end_to_end_us - busy_us, 0.0),
            end_to_end_us=trace.end_to_end_us,
            cpu_step_us=None,
        )
    gpus = _gpus(rows)
    longest = max(gpus, key=span_ns)
    kernels = kernels_of(longest)
    busy = busy_ns(longest)
    total = span_ns(longest)
    cpu = trace.steps.loc[trace.steps["step"].isin(rows["step"].dropna()), "duration_ns"]
    return TraceTimes(
        label=trace.label,
        gpus=len(gpus),
        kernels=len(kernels),
        steps=trace.step_count or int(rows["step"].nunique()) or None,
        kernel_us=kernel_us(kernels),
        busy_us=busy / 1e3,
        gaps_us=(total - busy) / 1e3,
        end_to_end_us=total / 1e3,
        cpu_step_us=float(cpu.median()) / 1e3 if len(cpu) else None,
    )


_LEAST = 0.01  # share of the kernel time that one workload has in common; any two programs share fills and copies
_UNEVEN = 0.01  # share of the kernel time from which kernels that do not occur equally often are worth a note
_KERNELS = {
    "label": "str",
    "kernel": "str",
    "count": "int64",
    "time_us": "float64",
    "ratio": "float64",
    "spread": "float64",
}


class Basis(StrEnum):
    """What the choice of a profiler rests on: the time nearest to the unprofiled one, or the shortest kernels."""

    UNPROFILED = "nearest-to-unprofiled"
    SHORTEST = "shortest-kernels"


@dataclass(frozen=True)
class KernelAgreement:
    """The kernels of a trace that all traces have, against those of the trace that is believed."""

    matched: int  # number of kernels
    matched_us: float  # sum of their durations in this trace
    matched_share: float  # their share of the time of all its kernels, 0 to 1
    # median of duration / duration in the trace that is believed; None where no matched kernel has
    # a duration in every trace
    ratio: float | None


@dataclass(frozen=True)
class TraceFidelity:
    """What is said of one trace."""

    times: TraceTimes  # its kernels, gaps, and time end to end
    # how much longer a step takes than unprofiled, in percent: end to end on the GPU, and as the
    # CPU saw it. None where either time is unknown.
    overhead: float | None
    cpu_overhead: float | None
    # sum of the kernels' durations of a step / unprofiled time of a step. Above 1 kernels overlap,
    # or the profiler stretches them; far below 1 is time without kernels, or kernels that were not
    # recorded.
    kernel_ratio: float | None
    # its kernels against those of the trace that is believed; None for a trace alone
    agreement: KernelAgreement | None = None


@dataclass(frozen=True)
class Fidelity:
    """The comparison of several profilers on one workload.

    Attributes
    ----------
    unprofiled_us : float or None
        End-to-end time of a step that nobody watched, where it was measured.
    traces : tuple of TraceFidelity
        In the order given.
    believed : int
        Place among them of the trace to believe.
    basis : Basis
        What that rests on.
    kernels : DataFrame
        `label`, `kernel`, `count` and `time_us` of the matched kernels by name, `ratio` and
        `spread` as in `KernelAgreement` (NaN where unknown); by the time in the believed trace, the
        longest first. Empty for a trace alone.
    notes : tuple of Remark
        What limits the comparison: ``queues-differ``, ``names-cut``, ``kernels-uneven``,
        ``gpus-differ``.
    doubts : tuple of Remark
        What reading found of the traces (``trace-finding``).
    """

    unprofiled_us: float | None
    traces: tuple[TraceFidelity, ...]
    believed: int
    basis: Basis
    kernels: pd.DataFrame
    notes: tuple[Remark, ...]
    doubts: tuple[Remark, ...] = ()

    @property
    def best(self) -> str:
        """Label of the trace to believe."""
        return self.traces[self.believed].times.label

    @property
    def verdict(self) -> Remark:
        """The outcome, no stronger than its evidence; its code is that of `basis`."""
        trace = self.traces[self.believed]
        if trace.overhead is None:
            assert trace.agreement is not None
            matched_us = trace.agreement.matched_us
            matched = trace.agreement.matched
            text = (
                f"{self.best} has the shortest kernels ({matched_us:.1f} µs for the {matched} "
                "that all traces have): a "
                "weaker sign than agreement with the unprofiled time, which was not given"
            )
            return remark(
                Basis.SHORTEST.value, text, label=self.best, matched_us=matched_us, matched=matched
            )
        step_us = trace.times.end_to_end_per_step_us
        alone = len(self.traces) == 1
        assert step_us is not None and self.unprofiled_us is not None  # noqa: PT018
        text = (
            f"{self.best if alone else f'{self.best} agrees best'}: {step_us / 1e3:.3f} ms per "
            "step, "
            f"{self.unprofiled_us / 1e3:.3f} ms unprofiled ({trace.overhead:+.1f} %); its kernels "
            "add up to "
            f"{trace.kernel_ratio:.3f} of the unprofiled time"
        )
        return remark(
            Basis.UNPROFILED.value,
            text,
            label=self.best,
            alone=alone,
            step_us=step_us,
            unprofiled_us=self.unprofiled_us,
            overhead=trace.overhead,
            kernel_ratio=trace.kernel_ratio,
        )


def fidelity(traces: Sequence[Profiled], unprofiled_us: float | None = None) -> Fidelity:
    """Return how far traces of one workload agree with each other and with its unprofiled time.

    Parameters
    ----------
    traces : sequence of Profiled
        At least two, or one with an unprofiled time.
    unprofiled_us : float, optional
        End-to-end time of a step without any profiler, in microseconds. The trace to believe is the
        one whose end-to-end time per step is nearest. Without it, the one whose matched kernels are
        shortest in all, which is a weaker statement.

    Raises
    ------
    DataError
        Nothing to compare, equal labels, different GPUs, an impossible unprofiled time or number of
        steps, an unknown number of steps where it matters, a trace without kernels or times, or
        traces with no kernels in common.
    """
    labels = [trace.label for trace in traces]
    if not labels or (len(labels) == 1 and unprofiled_us is None):
        raise DataError(
            "nothing to compare: give a second trace of the workload, or its unprofiled time"
        )
    twice = [label for label in labels if labels.count(label) > 1]
    if twice:
        raise DataError(f"{twice[0]} is given {len(twice)} times: give each trace once")
    if unprofiled_us is not None and not (math.isfinite(unprofiled_us) and unprofiled_us > 0):
        raise ParameterError(
            "unprofiled_us", f"must be above 0, got {unprofiled_us:g}: give the time of one step"
        )
    devices = {
        trace.label: ", ".join(sorted(set(map(str, trace.activities["device"].unique())) - {""}))
        for trace in traces
    }
    named = {label: device for label, device in devices.items() if device}
    if len(set(named.values())) > 1:
        stated = "; ".join(f"{label} on {device}" for label, device in named.items())
        raise DataError(
            f"profilers can be compared on one GPU only, got {stated}: give traces of one GPU"
        )
    traces_of = []
    for times in map(trace_times, traces):
        if unprofiled_us is None:
            traces_of.append(TraceFidelity(times, None, None, None))
            continue
        if times.steps is None or times.end_to_end_per_step_us is None:
            raise DataError(
                "this trace records no steps: say how many it holds", source=times.label
            )
        cpu = None
        if times.cpu_step_us is not None:
            cpu = (times.cpu_step_us / unprofiled_us - 1) * 100
        overhead = (times.end_to_end_per_step_us / unprofiled_us - 1) * 100
        traces_of.append(
            TraceFidelity(times, overhead, cpu, times.kernel_us / times.steps / unprofiled_us)
        )
    doubts = tuple(one for trace in traces for one in trace.doubts)
    if len(traces) == 1:
        nothing = pd.DataFrame(columns=list(_KERNELS)).astype(_KERNELS)
        return Fidelity(unprofiled_us, tuple(traces_of), 0, Basis.UNPROFILED, nothing, (), doubts)
    kernels = [kernels_of(trace.counted()) for trace in traces]
    inline = [trace.label for trace in traces if trace.end_to_end_us is not None]
    if inline:
        matching = match_calls([trace.calls() for trace in traces])
    else:
        matching = match_kernels(kernels)
    shares = (
        matching.durations_ns.sum(axis=0) / 1e3 / np.array([kernel_us(rows) for rows in kernels])
    )
    if shares.max() < _LEAST:
        names = f"{', '.join(labels[:-1])} and {labels[-1]}"
        few = f"the kernels common to {names} take under {_LEAST:.0%} of the time"
        if inline:
            raise DataError(
                f"no operator of one shape is common to {names}: give the same workload, with "
                "shapes recorded"
            )
        raise DataError(
            f"{few if len(matching.names) else f'no kernel is common to {names}'}: not the same "
            "workload, or a "
            "profiler shortened the names; give traces of one workload with full kernel names"
        )
    if unprofiled_us is None:
        believed = int(np.argmin(matching.durations_ns.sum(axis=0)))
    else:
        believed = int(
            np.argmin([abs(trace.overhead) for trace in traces_of if trace.overhead is not None])
        )
    durations = matching.durations_ns.astype(np.float64)
    durations[(durations <= 0).any(axis=1)] = np.nan
    ratios = durations / durations[:, [believed]]  # NaN where any duration is zero
    agreements = []
    for place, share in enumerate(shares.tolist()):
        finite = ratios[~np.isnan(ratios[:, place]), place]
        median = None
        if len(finite):
            median = float(np.median(finite))
        matched_us = float(matching.durations_ns[:, place].sum()) / 1e3
        agreements.append(KernelAgreement(len(matching.names), matched_us, share, median))
    return Fidelity(
        unprofiled_us=unprofiled_us,
        traces=tuple(
            replace(one, agreement=agrees)
            for one, agrees in zip(traces_of, agreements, strict=True)
        ),
        believed=believed,
        basis=Basis.SHORTEST if unprofiled_us is None else Basis.UNPROFILED,
        kernels=_by_kernel(matching, ratios, labels, believed),
        notes=(*_notes(matching, traces_of), *map(_by_calls, inline)),
        doubts=doubts,
    )


def _by_calls(label: str) -> Remark:
    text = (
        f"{label} has times of modules: calls are matched by operator and shape, and its gaps are "
        "all but operators"
    )
    return remark("matched-by-calls", text, label=label)


def _by_kernel(
    matching: Matching, ratios: np.ndarray, labels: Sequence[str], believed: int
) -> pd.DataFrame:
    """Return the matched kernels of each trace by name, the longest in the believed trace first."""
    codes, names = pd.factorize(matching.names)
    times_ns = [
        np.bincount(codes, weights=matching.durations_ns[:, place]) for place in range(len(labels))
    ]
    parts = []
    for place, label in enumerate(labels):
        ratio = pd.Series(ratios[:, place])
        median = ratio.groupby(codes).median().to_numpy()
        spread = (ratio - median[codes]).abs().groupby(codes).median().to_numpy()
        columns = (label, names, np.bincount(codes), times_ns[place] / 1e3, median, spread)
        parts.append(pd.DataFrame(dict(zip(_KERNELS, columns, strict=True))))
    table = pd.concat(parts, ignore_index=True)
    order = np.argsort(np.tile(-times_ns[believed], len(labels)), kind="stable")
    return table.iloc[order].reset_index(drop=True)


def _notes(matching: Matching, traces_of: Sequence[TraceFidelity]) -> list[Remark]:
    notes = []
    if not matching.by_queue:
        text = (
            "the traces have different numbers of queues: kernels were matched by their order on "
            "the GPU"
        )
        notes.append(remark("queues-differ", text))
    if matching.cut:
        notes.append(
            remark(
                "names-cut",
                "one trace has function names only: kernels were matched without their template "
                "arguments",
            )
        )
    if matching.uneven_share > _UNEVEN:
        text = (
            f"kernels with {matching.uneven_share:.0%} of the kernel time do not occur equally "
            "often in all traces: "
            "their order may be shifted; give the same steps of each"
        )
        notes.append(remark("kernels-uneven", text, share=matching.uneven_share))
    if len({trace.times.gpus for trace in traces_of}) > 1:
        notes.append(
            remark(
                "gpus-differ",
                "the traces have different numbers of GPUs: give the same ranks of each",
            )
        )
    return notes


MARGIN: Final = 0.02  # relative change of the time per call below which a call counts as the same
LEVEL: Final = 0.95
ADDED = "added"
REMOVED = "removed"
FASTER = "faster"
SLOWER = "slower"
SAME = "same"
PARTS: Final = (
    "added",
    "removed",
    "more-calls",
    "fewer-calls",
    "faster",
    "slower",
    "gaps",
    "overlap",
)
"""What the difference is made of."""
_REPEATS: Final = 3  # calls from which the spread tells a change from noise


@dataclass(frozen=True)
class Side:
    """One of two traces: the GPU with the longest time of it."""

    label: str  # what it is called
    # steps recorded, all times then being those of a step, on average; None where it records none
    steps: int | None
    # sum of the activities, time with at least one, first start to last end
    kernels_us: float
    busy_us: float
    total_us: float


@dataclass(frozen=True)
class TraceChanges:
    """What differs between two traces."""

    # the two
    before: Side
    after: Side
    parts: dict[str, float]  # part of the difference (`PARTS`) -> µs; they add up to it
    # one row per kind of call, the largest difference first: ``op``, ``variant``, formats and
    # dimensions; ``kernel`` and ``kernel_after``, the longest kernels; ``count`` and
    # ``count_after``, ``time_us`` and ``time_us_after`` (of all of them, per step where both record
    # steps), ``change_us``, ``ratio`` of the times per call, ``outcome``
    calls: pd.DataFrame
    # where the difference of the time of all activities in a step lies, at `LEVEL`; None of fewer
    # than three steps or where activities of a trace are missing or not to be trusted
    interval_us: tuple[float, float] | None
    notes: tuple[Remark, ...]  # what reading found of either trace (``trace-finding``)

    @property
    def change_us(self) -> float:
        """Total after minus total before."""
        return self.after.total_us - self.before.total_us


def trace_changes(traces: Sequence[tuple[str, Annotated]], *, steps: bool = True) -> TraceChanges:
    """Compare two traces, each with its label: step by step where both record steps, unless ``steps`` is False.

    Raises DataError: one has no kernels.
    """
    per_step = steps and all(trace.dispatches["step"].notna().any() for _, trace in traces)
    sides = []
    calls = []
    sums = []
    # of steps where both traces have some; of the GPU with the longest time
    for label, trace in traces:
        rows = trace.dispatches
        gpus = _gpus(rows[rows["step"].notna()] if per_step else rows)
        if not gpus:
            raise DataError("no kernels in this trace: give one that has them", source=label)
        table = max(gpus, key=span_ns)
        table = table.assign(duration_ns=table["duration_ns"].clip(lower=0)).reset_index(drop=True)
        # of steps the mean of each one's times, without what lies between them
        if per_step:
            parts = [part for _, part in table.groupby("step")]
        else:
            parts = [table]
        each_ns = [
            (float(part["duration_ns"].sum()), float(busy_ns(part)), float(span_ns(part)))
            for part in parts
        ]
        times = (sum(values) / 1e3 / len(parts) for values in zip(*each_ns, strict=True))
        sides.append(Side(label, len(parts) if per_step else None, *times))
        calls.append(measurements(replace(trace, dispatches=table), label, each=True))
        sums.append(np.array([kernels_ns for kernels_ns, _, _ in each_ns]) / 1e3)
    kinds = _kinds(calls, [side.steps or 1 for side in sides])
    before, after = sides
    doubts = [doubts_of(trace, label) for label, trace in traces]
    interval = None
    whole = not any(each.reach for each in doubts)
    # Welch's, of the means of steps
    if whole and per_step and min(map(len, sums)) >= _REPEATS and any(map(np.ptp, sums)):
        welch = stats.ttest_ind(sums[1], sums[0], equal_var=False).confidence_interval(LEVEL)
        interval = float(welch.low), float(welch.high)
    notes = tuple(note for each in doubts for note in each.remarks)
    return TraceChanges(before, after, _parts(kinds, before, after), kinds, interval, notes)


def _kinds(calls: Sequence[pd.DataFrame], steps: Sequence[int]) -> pd.DataFrame:
    """Return one row per kind of call, with its times in both traces and its change."""
    spelt, _ = common_spelling([table["kernel"] for table in calls])
    dims = []
    for op in OPS.values():
        if op.name != UNKNOWN:
            for name in op.dims:
                if name not in WORDS:
                    dims.append(name)
    keys = [*WORDS]
    for name in dict.fromkeys(dims):
        if any(name in table for table in calls):
            keys.append(name)
    sides = []
    for table, names, count in zip(calls, spelt, steps, strict=True):
        unknown = table["op"].isin(["", UNKNOWN]).to_numpy()
        side = table.reindex(columns=[*keys, "kernel", "duration_us"])
        side.loc[unknown, [name for name in keys if name not in WORDS]] = np.nan
        side = side.assign(named=np.where(unknown, names, ""), steps=count)
        sides.append(side)
    every = pd.concat(sides, keys=[0, 1], names=["side"]).reset_index("side").reset_index(drop=True)
    texts = [*WORDS, "named"]
    every[texts] = every[texts].astype(object).fillna("").astype(str)
    every["code"] = every.groupby([*keys, "named"], dropna=False, sort=False).ngroup()
    every["per_step_us"] = every["duration_us"] / every["steps"]
    first = every.drop_duplicates("code").set_index("code")[keys]
    kinds = every.groupby(["code", "side"]).agg(
        count=("duration_us", "size"),
        time_us=("per_step_us", "sum"),
        mean=("duration_us", "mean"),
        spread=("duration_us", "std"),
        steps=("steps", "first"),
    )
    longest = every.sort_values("duration_us", kind="stable").drop_duplicates(
        ["code", "side"], keep="last"
    )
    kinds["kernel"] = longest.set_index(["code", "side"])["kernel"]
    kinds["count"] = kinds["count"] / kinds.pop("steps")
    halves = (
        kinds.xs(side, level="side").add_suffix(end) for side, end in ((0, ""), (1, "_after"))
    )
    table = first.join(list(halves))
    table = table.fillna(dict.fromkeys(("count", "count_after", "time_us", "time_us_after"), 0.0))
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
    """Return the parts of the difference of the totals; the calls' part is exact, call by call."""
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

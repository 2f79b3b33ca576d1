"""Which profiler to believe: every profiler slows what it watches, and each in its own way.

The times of one workload under several profilers, or settings of one, are held against the time it takes when nobody
watches. Kernels and the gaps between them add up to the end-to-end time of the trace, first start to last end on the
GPU; that of the profiler to believe is nearest to the unprofiled time. The sum of the kernels alone cannot decide: a
profiler that runs kernels one by one (to read counters) may leave each of them unharmed and still stretch the step.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from enum import StrEnum

import numpy as np
import pandas as pd

from ..arrays import FloatArray
from ..errors import DataError, ParameterError
from ..remarks import Remark, remark
from ..traces.dispatches import KERNEL, empty_steps
from ..traces.quality import busy_ns, span_ns
from ..traces.summary import Annotated
from .kernel_matching import Matching, match_kernels
from .split import DEVICE

_COLUMNS = ["kind", "name", "start_ns", "duration_ns", "device", "rank", "process", "gpu", "stream", "step"]
"""Columns that times and the matching of kernels need."""


@dataclass(frozen=True)
class Profiled:
    """One workload as one profiler, or one setting of it, recorded it."""

    label: str
    activities: pd.DataFrame  # dispatch table
    steps: pd.DataFrame = field(default_factory=empty_steps)  # the profiler's (`Trace.steps`)
    step_count: int | None = None  # of the whole trace, where the user says so; None: those that it records

    @classmethod
    def of(cls, label: str, trace: Annotated, step_count: int | None = None) -> Profiled:
        """Return the same of a trace as it was read."""
        return cls(label, trace.dispatches, trace.steps, step_count)

    def counted(self) -> pd.DataFrame:
        """Return the activities that count: those of the steps recorded, all where the user says how many there are.

        Only what times and the matching of kernels need is kept of them: traces have many columns. A DataError says
        that there are no kernels, none with a duration, or that `step_count` is not positive.
        """
        if self.step_count is not None and self.step_count < 1:
            raise ParameterError("steps", f"must be at least 1, got {self.step_count}")
        rows = self.activities[_COLUMNS]
        if self.step_count is None and rows["step"].notna().any():
            rows = rows[rows["step"].notna()]
        kernels = kernels_of(rows)
        if kernels.empty:
            raise DataError("no kernels in this trace: give one that has them", source=self.label)
        if kernels["duration_ns"].max() <= 0:
            raise DataError("no kernel of this trace has a duration: give a run that was timed", source=self.label)
        return rows


@dataclass(frozen=True)
class TraceTimes:
    """The times of one trace, in microseconds over all its steps.

    Where the trace records steps, what was launched outside them is left out. Of several GPUs the one with the longest
    end-to-end time counts.

    Attributes
    ----------
    label : str
        What the trace is called.
    gpus, kernels : int
        GPUs with kernels; kernels of the one that counts.
    steps : int or None
        Number of steps; None where nobody knows.
    kernel_us : float
        Sum of the kernels' durations, overlapping or not.
    busy_us, gaps_us, end_to_end_us : float
        Time with at least one kernel, copy or fill; time without; their sum: first start to last end.
    cpu_step_us : float or None
        Median duration of the steps as the CPU saw them; None where the trace records none.
    """

    label: str
    gpus: int
    kernels: int
    steps: int | None
    kernel_us: float
    busy_us: float
    gaps_us: float
    end_to_end_us: float
    cpu_step_us: float | None

    @property
    def end_to_end_per_step_us(self) -> float | None:
        """End-to-end time of a step, the mean over all; None where nobody knows how many there are."""
        return self.end_to_end_us / self.steps if self.steps else None


def kernels_of(activities: pd.DataFrame) -> pd.DataFrame:
    """Return the kernels among the activities."""
    return activities[activities["kind"] == KERNEL]


def kernel_us(kernels: pd.DataFrame) -> float:
    """Return the sum of the kernels' durations in microseconds; negative ones count as none."""
    return float(kernels["duration_ns"].clip(lower=0).sum()) / 1e3


def trace_times(trace: Profiled) -> TraceTimes:
    """Return the times of a trace; a DataError as for `Profiled.counted`."""
    rows = trace.counted()
    parts = [part for _, part in rows.groupby(list(DEVICE), dropna=False, observed=True)]
    gpus = [part for part in parts if len(kernels_of(part))]
    longest = max(gpus, key=span_ns)
    kernels, busy, total = kernels_of(longest), busy_ns(longest), span_ns(longest)
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
    "label": "str", "kernel": "str", "count": "int64", "time_us": "float64", "ratio": "float64", "spread": "float64",
}  # fmt: skip


class Basis(StrEnum):
    """What the choice of a profiler rests on: the time nearest to the unprofiled one, or the shortest kernels."""

    UNPROFILED = "nearest-to-unprofiled"
    SHORTEST = "shortest-kernels"


@dataclass(frozen=True)
class KernelAgreement:
    """The kernels of a trace that all traces have, against those of the trace that is believed.

    Attributes
    ----------
    matched : int
        Number of kernels.
    matched_us : float
        Sum of their durations in this trace.
    matched_share : float
        Their share of the time of all its kernels, 0 to 1.
    ratio, ratio_spread : float or None
        Median of duration / duration in the trace that is believed, and its median absolute deviation; None where no
        matched kernel has a duration in every trace.
    """

    matched: int
    matched_us: float
    matched_share: float
    ratio: float | None
    ratio_spread: float | None


@dataclass(frozen=True)
class TraceFidelity:
    """What is said of one trace.

    Attributes
    ----------
    times : TraceTimes
        Its kernels, gaps, and time end to end.
    overhead, cpu_overhead : float or None
        How much longer a step takes than unprofiled, in percent: end to end on the GPU, and as the CPU saw it. None
        where either time is unknown.
    kernel_ratio : float or None
        Sum of the kernels' durations of a step / unprofiled time of a step. Above 1 kernels overlap, or the profiler
        stretches them; far below 1 is time without kernels, or kernels that were not recorded.
    agreement : KernelAgreement or None
        Its kernels against those of the trace that is believed; None for a trace alone.
    """

    times: TraceTimes
    overhead: float | None
    cpu_overhead: float | None
    kernel_ratio: float | None
    agreement: KernelAgreement | None = None


@dataclass(frozen=True)
class Fidelity:
    """What several profilers say of one workload.

    Attributes
    ----------
    unprofiled_us : float or None
        End-to-end time of a step that nobody watched, where it is known.
    traces : tuple of TraceFidelity
        In the order given.
    believed : int
        Place among them of the trace to believe.
    basis : Basis
        What that rests on.
    kernels : DataFrame
        `label`, `kernel`, `count` and `time_us` of the matched kernels by name, `ratio` and `spread` as in
        `KernelAgreement` (NaN where unknown); by the time in the believed trace, the longest first. Empty for a trace
        alone.
    notes : tuple of Remark
        What limits the comparison: ``queues-differ``, ``names-cut``, ``kernels-uneven``, ``gpus-differ``.
    """

    unprofiled_us: float | None
    traces: tuple[TraceFidelity, ...]
    believed: int
    basis: Basis
    kernels: pd.DataFrame
    notes: tuple[Remark, ...]

    @property
    def best(self) -> str:
        """Label of the trace to believe."""
        return self.traces[self.believed].times.label

    @property
    def verdict(self) -> Remark:
        """The outcome, no stronger than what it rests on; its code is that of `basis`."""
        trace = self.traces[self.believed]
        if trace.overhead is None:
            assert trace.agreement is not None
            matched_us, matched = trace.agreement.matched_us, trace.agreement.matched
            text = (
                f"{self.best} has the shortest kernels ({matched_us:.1f} µs for the {matched} that all traces have): a "
                "weaker sign than agreement with the unprofiled time, which was not given"
            )
            return remark(Basis.SHORTEST.value, text, label=self.best, matched_us=matched_us, matched=matched)
        step_us, alone = trace.times.end_to_end_per_step_us, len(self.traces) == 1
        assert step_us is not None and self.unprofiled_us is not None  # noqa: PT018
        text = (
            f"{self.best if alone else f'{self.best} agrees best'}: {step_us / 1e3:.3f} ms per step, "
            f"{self.unprofiled_us / 1e3:.3f} ms unprofiled ({trace.overhead:+.1f} %); its kernels add up to "
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
        End-to-end time of a step without any profiler, in microseconds. The trace to believe is the one whose
        end-to-end time per step is nearest. Without it, the one whose matched kernels are shortest in all, which is a
        weaker statement.

    Raises
    ------
    DataError
        Nothing to compare, equal labels, different GPUs, an impossible unprofiled time or number of steps, an unknown
        number of steps where it matters, a trace without kernels or times, or traces with no kernels in common.
    """
    _check(traces, unprofiled_us)
    found = [_against(trace_times(trace), unprofiled_us) for trace in traces]
    if len(traces) == 1:
        nothing = pd.DataFrame(columns=list(_KERNELS)).astype(_KERNELS)
        return Fidelity(unprofiled_us, tuple(found), 0, Basis.UNPROFILED, nothing, ())
    labels = [trace.label for trace in traces]
    kernels = [kernels_of(trace.counted()) for trace in traces]
    matching = match_kernels(kernels)
    shares = matching.durations_ns.sum(axis=0) / 1e3 / np.array([kernel_us(rows) for rows in kernels])
    if shares.max() < _LEAST:
        raise DataError(_nothing_in_common(len(matching.names), labels))
    believed = _shortest(matching) if unprofiled_us is None else _nearest(found)
    ratios = _ratios(matching, believed)
    return Fidelity(
        unprofiled_us=unprofiled_us,
        traces=tuple(
            replace(one, agreement=_agreement(matching, ratios, shares, place)) for place, one in enumerate(found)
        ),
        believed=believed,
        basis=Basis.SHORTEST if unprofiled_us is None else Basis.UNPROFILED,
        kernels=_by_kernel(matching, ratios, labels, believed),
        notes=tuple(_notes(matching, found)),
    )


def _check(traces: Sequence[Profiled], unprofiled_us: float | None) -> None:
    labels = [trace.label for trace in traces]
    if not labels or (len(labels) == 1 and unprofiled_us is None):
        raise DataError("nothing to compare: give a second trace of the workload, or its unprofiled time")
    if twice := [label for label in labels if labels.count(label) > 1]:
        raise DataError(f"{twice[0]} is given {len(twice)} times: give each trace once")
    if unprofiled_us is not None and not (math.isfinite(unprofiled_us) and unprofiled_us > 0):
        raise ParameterError("unprofiled_us", f"must be above 0, got {unprofiled_us:g}: give the time of one step")
    devices = {
        trace.label: ", ".join(sorted(set(map(str, trace.activities["device"].unique())) - {""})) for trace in traces
    }
    known = {label: device for label, device in devices.items() if device}
    if len(set(known.values())) > 1:
        told = "; ".join(f"{label} on {device}" for label, device in known.items())
        raise DataError(f"profilers can be compared on one GPU only, got {told}: give traces of one GPU")


def _against(times: TraceTimes, unprofiled_us: float | None) -> TraceFidelity:
    """Return the times with their overheads."""
    if unprofiled_us is None:
        return TraceFidelity(times, None, None, None)
    if times.steps is None or times.end_to_end_per_step_us is None:
        raise DataError("this trace records no steps: say how many it holds", source=times.label)
    cpu = None if times.cpu_step_us is None else _excess(times.cpu_step_us, unprofiled_us)
    overhead = _excess(times.end_to_end_per_step_us, unprofiled_us)
    return TraceFidelity(times, overhead, cpu, times.kernel_us / times.steps / unprofiled_us)


def _excess(time_us: float, unprofiled_us: float) -> float:
    return (time_us / unprofiled_us - 1) * 100


def _nothing_in_common(matched: int, labels: Sequence[str]) -> str:
    names = f"{', '.join(labels[:-1])} and {labels[-1]}"
    few = f"the kernels common to {names} take under {_LEAST:.0%} of the time"
    return (
        f"{few if matched else f'no kernel is common to {names}'}: not the same workload, or a profiler shortened the "
        "names; give traces of one workload with full kernel names"
    )


def _shortest(matching: Matching) -> int:
    return int(np.argmin(matching.durations_ns.sum(axis=0)))


def _nearest(found: Sequence[TraceFidelity]) -> int:
    """Return which trace's end-to-end time is nearest to the unprofiled time, the first of equals."""
    return int(np.argmin([abs(trace.overhead) for trace in found if trace.overhead is not None]))


def _ratios(matching: Matching, believed: int) -> FloatArray:
    """Return duration / duration in the believed trace, shape (n_matched, n_traces); NaN where any duration is zero."""
    durations = matching.durations_ns.astype(np.float64)
    durations[(durations <= 0).any(axis=1)] = np.nan
    return durations / durations[:, [believed]]


def _agreement(matching: Matching, ratios: FloatArray, shares: FloatArray, place: int) -> KernelAgreement:
    known = ratios[~np.isnan(ratios[:, place]), place]
    median = float(np.median(known)) if len(known) else None
    return KernelAgreement(
        matched=len(matching.names),
        matched_us=float(matching.durations_ns[:, place].sum()) / 1e3,
        matched_share=float(shares[place]),
        ratio=median,
        ratio_spread=None if median is None else float(np.median(np.abs(known - median))),
    )


def _by_kernel(matching: Matching, ratios: FloatArray, labels: Sequence[str], believed: int) -> pd.DataFrame:
    """Return the matched kernels of each trace by name, the longest in the believed trace first."""
    codes, names = pd.factorize(matching.names)
    times_ns = [np.bincount(codes, weights=matching.durations_ns[:, place]) for place in range(len(labels))]
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


def _notes(matching: Matching, found: Sequence[TraceFidelity]) -> list[Remark]:
    notes = []
    if not matching.by_queue:
        notes.append(
            remark(
                "queues-differ",
                "the traces have different numbers of queues: kernels were matched by their order on the GPU",
            )
        )
    if matching.cut:
        notes.append(
            remark(
                "names-cut", "one trace has function names only: kernels were matched without their template arguments"
            )
        )
    if matching.uneven_share > _UNEVEN:
        text = (
            f"kernels with {matching.uneven_share:.0%} of the kernel time do not occur equally often in all traces: "
            "their order may be shifted; give the same steps of each"
        )
        notes.append(remark("kernels-uneven", text, share=matching.uneven_share))
    if len({trace.times.gpus for trace in found}) > 1:
        notes.append(remark("gpus-differ", "the traces have different numbers of GPUs: give the same ranks of each"))
    return notes

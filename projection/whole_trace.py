"""A whole trace on another GPU: laws for its activities, the target's gaps, and what the end-to-end time becomes."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from functools import cached_property
from numbers import Real
from typing import Final, Literal

import numpy as np
import pandas as pd

from ..arrays import BoolArray, FloatArray
from ..errors import DataError, ParameterError
from ..evaluation.trained_model import TrainedModel
from ..hardware import GPU
from ..laws.applied import check_law
from ..laws.base import overheads_of
from ..remarks import Remark
from ..traces.dispatches import call_table, empty_calls
from ..traces.doubts import NO_DOUBTS, Doubts, doubts_of
from ..traces.summary import Annotated
from .collective_laws import (
    ALPHA_BETA,
    CommunicationLaw,
    NodeBandwidths,
    World,
    collectives_of,
    communication_factors,
    law_errors,
    world_factors,
)
from .collective_laws import check_law as check_communication_law
from .graph import DEPENDENCY, LAUNCH, Graph, build
from .kernel_laws import DEFAULT_LAW, MODEL, PAIRED, SPLITS, Correction, compute_factors, is_queued
from .phases import PIECE, Folded, counted_of, edges_ns, weights_of
from .replay import Times, attributed_time, critical_path, replay, totals_us
from .split import CATEGORIES, COMMUNICATION, categories

Gaps = Literal["kept", "scaled", "modelled"]
GAPS: tuple[Gaps, ...] = ("kept", "scaled", "modelled")
"""What becomes of the time between activities:

- kept: as measured.
- scaled: shrunk like the activities.
- modelled: as the target has it, and the CPU's work as long as ever. Where one of the devices
  counts the dispatch of a waiting kernel in its duration and the other leaves a gap
  (`laws.base.Overhead`), the gap before each kernel changes whose law moves the dispatch
  (`kernel_laws.SPLITS`): once it is time of the kernel, once of the gap. All other laws, and a
  trained model, speak of whole durations: their gaps stay.
"""
UNMEASURED: Final = 0.25
"""Relative standard deviation of the time of activities whose law was never measured between such
GPUs, or was measured where their work is stated, and it is not."""
CATEGORY = "category"
FACTOR = "factor"
LAW = "law"
WHY = "why"
BOUND = "bound"
SIGMA = "sigma"
QUEUED = "queued"


@dataclass(frozen=True)
class Unprofiled:
    """What of the CPU's work of a trace is not the profiler's (`unprofiled.without_profiler`)."""

    profiler: str  # the profiler, or the trace of which it was measured
    source: str
    kept: float  # time of the CPU's work without the profiler over that with it
    sigma: float  # standard deviation of its logarithm
    host_us: float  # end-to-end time on the host without the profiler
    profiled_us: float  # on the target, with the CPU's work as profiled
    note: Remark | None = None  # why the statement does not fit the trace


@dataclass(frozen=True)
class Laws:
    """How a trace is projected."""

    compute: str = DEFAULT_LAW  # law of computation and copies (`kernel_laws.compute_factors`)
    communication: CommunicationLaw = "alpha-beta"  # law of collectives (`collective_laws`)
    gaps: Gaps = "modelled"  # see `GAPS`
    # of the target's CPU relative to the one measured; None where unknown: as fast
    cpu_speed: float | None = None
    run: TrainedModel | None = None  # goes before the law of computation
    network: NodeBandwidths | None = None  # what the user says of the network between nodes
    keep_waiting: bool = False  # as for `communication_factors`
    # per op class, for `compute_factors`
    corrections: Mapping[str, Correction] = field(default_factory=dict)
    # other ranks, another network: collectives go by `collective_laws.world_factors`
    world: World | None = None
    unprofiled: Unprofiled | None = None  # the CPU works without the profiler; None: as profiled

    def __post_init__(self) -> None:
        check_law(self.compute)
        check_communication_law(self.communication)
        if self.world is not None and self.communication != ALPHA_BETA:
            raise ParameterError(
                "comm_law",
                f"must be {ALPHA_BETA} for other ranks or links, got {self.communication}",
            )
        if self.gaps not in GAPS:
            raise ParameterError("gaps", f"must be one of {', '.join(GAPS)}, got {self.gaps!r}")
        if self.cpu_speed is not None and not (
            isinstance(self.cpu_speed, Real) and 0 < self.cpu_speed < np.inf
        ):
            raise ParameterError(
                "cpu_speed", f"must be above 0, got {self.cpu_speed!r}: 1.2 means 20 % faster"
            )


PUBLISHED = Laws(compute="flops-uniform", communication="bandwidth", gaps="kept")
"""The published methodology: every kernel by the ratio of the peaks of one format, every collective
by the ratio of the bandwidths, gaps as they are."""


@dataclass(frozen=True)
class Projection:
    """A trace on another GPU."""

    host: GPU
    target: GPU
    laws: Laws
    # the dispatch table with `category`, `factor`, `law`, `why`, `bound`, `sigma`, `queued`
    # (whether it was waiting when the one before it ended), `measured_us`, `projected_us`. Of a
    # folded trace the last two are the times of all repeats that the activity stands for
    # (`phases.REPEATS`).
    activities: pd.DataFrame
    graph: Graph  # of the measured trace
    target_graph: Graph  # the same with the target's gaps
    # activities, in the order of the graph, that make the end-to-end time: those launched within
    # the trace, if it has any; all others only hold them up; shape (n,)
    counted: BoolArray
    cpu: float  # time of the CPU's work, relative to the measured
    idle: float = 1.0  # time in which nothing runs, relative to the measured; for sums
    # the phases of the trace, if activities, graph and replay are of a few repeats of each: all
    # times are those of the whole trace even so
    folded: Folded | None = None
    doubts: Doubts = NO_DOUBTS  # what is missing of the trace, or must not be trusted

    @property
    def communication(self) -> pd.DataFrame:
        """The activities that communicate."""
        return self.activities[(self.activities[CATEGORY] == COMMUNICATION).to_numpy()]

    @cached_property
    def projected_ns(self) -> FloatArray:
        """Projected durations in the order of the graph, shape (n,)."""
        return self.graph.duration_ns * self.activities[FACTOR].to_numpy()[self.graph.rows]

    @cached_property
    def attributed_ns(self) -> FloatArray:
        """What of the measured time is put down to each activity that counts (`replay.attributed_time`).

        Computation hides communication, and both hide copies.
        """
        rank = pd.Categorical(self.activities[CATEGORY], categories=list(CATEGORIES)).codes.astype(
            np.int64
        )
        graph = self.graph
        counted = self.counted
        return attributed_time(
            graph.start_ns[counted], graph.duration_ns[counted], rank[graph.rows][counted]
        )

    @cached_property
    def weights(self) -> FloatArray:
        """Time of the trace that each activity that counts stands for, over its own."""
        return weights_of(self.activities)[self.graph.rows][self.counted]

    def edges_ns(self, start_ns: FloatArray, end_ns: FloatArray) -> FloatArray:
        """Return the latest end up to each piece of the trace (`phases.edges_ns`), shape (n_samples, n_pieces + 1).

        Starts and ends are of the activities in the order of the graph, shape (n_samples, n).
        """
        counted = self.counted
        rows = self.graph.rows
        if self.folded:
            piece = self.activities[PIECE].to_numpy()[rows]
        else:
            piece = np.zeros(len(rows), dtype=np.int64)
        return edges_ns(piece[counted], start_ns[:, counted], end_ns[:, counted], len(self.stretch))

    @property
    def stretch(self) -> FloatArray:
        """Measured time that each piece of the trace stands for, over its own: 1 but in a folded trace."""
        if self.folded:
            return self.folded.stretch
        return np.ones(1)

    def spans_us(self, times: Times) -> FloatArray:
        """Return the end-to-end times of a replay of the trace, shape (n_samples,)."""
        return np.diff(self.edges_ns(times.start_ns, times.end_ns), axis=1) @ self.stretch / 1000.0

    @property
    def measured_us(self) -> float:
        """Measured end-to-end time, from the first start to the last end of the activities that count."""
        edges = self.edges_ns(self.graph.start_ns[None], self.graph.end_ns[None])
        return float(np.diff(edges[0]) @ self.stretch) / 1000.0

    @property
    def host_us(self) -> float:
        """End-to-end time on the host: as measured, or without the profiler, where that is stated."""
        if self.laws.unprofiled is None:
            return self.measured_us
        return self.laws.unprofiled.host_us

    @property
    def busy_us(self) -> float:
        """Measured time in which an activity that counts ran."""
        return float((self.attributed_ns * self.weights).sum()) / 1000.0

    @property
    def overlap_us(self) -> float:
        """Projected overlap of the activities that count: their sum less the time in which any ran."""
        projected = self.projected_ns[self.counted]
        start = self.times.start_ns[0][self.counted]
        rank = np.zeros(len(projected), dtype=np.int64)
        alone = attributed_time(start, projected, rank)
        return float(((projected - alone) * self.weights).sum()) / 1000.0

    @cached_property
    def times(self) -> Times:
        """The replay on the target."""
        return replay(self.target_graph, self.projected_ns, self.cpu)

    @cached_property
    def totals(self) -> dict[str, float]:
        """Projected end-to-end time by every way of adding up (`replay.AGGREGATIONS`), µs."""
        return totals_us(
            self.graph.duration_ns[self.counted],
            self.projected_ns[self.counted],
            self.attributed_ns,
            self.weights,
            self.measured_us,
            self.projected_us,
            idle=self.idle,
        )

    @property
    def projected_us(self) -> float:
        """The projected end-to-end time: that of the replay."""
        return float(self.spans_us(self.times)[0])

    @cached_property
    def path(self) -> pd.DataFrame:
        """The critical path on the target (`replay.critical_path`), with `length_ns` of the whole trace."""
        return self._path(self.target_graph, self.times)

    @cached_property
    def measured_path(self) -> pd.DataFrame:
        """The critical path as measured."""
        return self._path(self.graph, replay(self.graph, self.graph.duration_ns))

    def _path(self, graph: Graph, times: Times) -> pd.DataFrame:
        path = critical_path(graph, times, counted=self.counted)
        edges = self.edges_ns(times.start_ns, times.end_ns)[0]
        along = np.r_[0.0, np.cumsum(np.diff(edges) * self.stretch)]
        begin, end = (np.interp(path[name], edges, along) for name in ("begin_ns", "end_ns"))
        return path.assign(length_ns=end - begin)


def host_of(trace: Annotated) -> str:
    """Return the one device of a trace; a DataError says that it has no activity, no listed device, or several."""
    if trace.dispatches.empty:
        raise DataError("no activity of a GPU in the trace")
    names = sorted(set(trace.dispatches["device"].astype(str).unique()))
    if names == [""]:
        raise ParameterError(
            "host", "must be given: the trace does not say which GPU it was made on"
        )
    if len(names) > 1:
        raise DataError(
            f"the trace has activities of {', '.join(names)}: project the trace of one device"
        )
    return names[0]


def project_trace(
    trace: Annotated,
    host: GPU,
    target: GPU,
    laws: Laws | None = None,
    *,
    graph: Graph | None = None,
    trained_for: GPU | None = None,
    folded: Folded | None = None,
) -> Projection:
    """Project a trace to another GPU.

    The trace has the CPU's calls (`Options(calls=True)`), if the causes of gaps are asked for;
    ``graph`` is that of the trace, where it has been built already; ``trained_for`` as for
    `kernel_laws.compute_factors`; ``folded`` are the phases of which the trace has a few repeats. A
    DataError says that the trace has no activity, or none with a duration, or that a law cannot be
    used.
    """
    if trace.dispatches.empty:
        raise DataError("no activity of a GPU in the trace")
    laws = laws or Laws()
    graph = graph or build(trace.dispatches, trace.calls)
    activities = project_activities(trace.dispatches, host, target, laws, trained_for=trained_for)
    counted = counted_of(activities)[graph.rows]
    if not graph.duration_ns[counted].any():
        raise DataError("no activity of the trace has a duration: there is nothing to project")
    cpu = 1.0 / (laws.cpu_speed or 1.0)
    if laws.unprofiled is not None:
        cpu *= laws.unprofiled.kept
    projection = Projection(
        host,
        target,
        laws,
        activities,
        graph,
        graph,
        counted,
        cpu,
        folded=folded,
        doubts=doubts_of(trace),
    )
    if laws.gaps == "modelled":
        return replace(projection, target_graph=_with_gaps_of(graph, activities, host, target))
    if laws.gaps == "scaled":
        # by how much the time in which anything runs changes
        duration = graph.duration_ns[counted]
        projected = projection.projected_ns[counted]
        alone_ns = projection.attributed_ns * projection.weights
        ratio = np.divide(projected, duration, out=np.ones_like(alone_ns), where=duration > 0)
        stretch = float((alone_ns * ratio).sum() / alone_ns.sum())
        return replace(
            projection, target_graph=graph.stretched(stretch), cpu=cpu * stretch, idle=stretch
        )
    return projection


def with_collectives(projection: Projection, target: GPU, laws: Laws) -> Projection:
    """Return a projection to a target that differs in its links or network only: the collectives are done anew."""
    rows = projection.activities
    communicates = (rows[CATEGORY] == COMMUNICATION).to_numpy()
    factors = collective_factors(rows[communicates], projection.host, target, laws)
    changed = {name: rows[name].to_numpy(copy=True) for name in (FACTOR, LAW, WHY, BOUND, SIGMA)}
    for name, values in changed.items():
        values[communicates] = factors[name].to_numpy()
    projected_us = rows["measured_us"].to_numpy() * changed[FACTOR]
    return replace(
        projection,
        target=target,
        laws=laws,
        activities=rows.assign(**changed, projected_us=projected_us),
    )


def project_activities(
    activities: pd.DataFrame, host: GPU, target: GPU, laws: Laws, *, trained_for: GPU | None = None
) -> pd.DataFrame:
    """Return the dispatch table of a trace with the laws' columns (`Projection.activities`)."""
    category = categories(activities)
    communicates = (category == COMMUNICATION).to_numpy()
    queued = is_queued(activities, overheads_of(host, target)[0])
    parts = [
        compute_factors(
            activities[~communicates],
            host,
            target,
            laws.compute,
            run=laws.run,
            corrections=laws.corrections,
            queued=queued[~communicates],
            trained_for=trained_for,
        )
    ]
    if communicates.any():
        parts.append(collective_factors(activities[communicates], host, target, laws))
    factors = pd.concat(parts).reindex(activities.index)
    usual = (
        activities["flops"].notna()
        | activities["bytes_moved"].notna()
        | communicates
        | factors[LAW].eq(MODEL)
    )
    guessed = ~usual & ~factors[LAW].astype(str).str.endswith(PAIRED) & (host != target)
    factors[SIGMA] = factors[SIGMA].mask(guessed & ~(factors[SIGMA] > UNMEASURED))
    measured_us = (
        np.maximum(activities["duration_ns"].to_numpy(), 0) / 1000.0 * weights_of(activities)
    )
    return activities.assign(
        category=category,
        **{name: factors[name] for name in (FACTOR, LAW, WHY, BOUND, SIGMA)},
        queued=queued,
        measured_us=measured_us,
        projected_us=measured_us * factors[FACTOR].to_numpy(),
    )


def collective_factors(
    activities: pd.DataFrame, host: GPU, target: GPU, laws: Laws
) -> pd.DataFrame:
    """Return what the laws say of collectives: by the world they are projected to, where there is another.

    One whose name, message or group is not in the trace, or whose law nobody measured, is never
    surer than one of which the whole is stated, whatever that spent its time on.
    """
    if laws.world is not None:
        factors = world_factors(activities, host, target, laws.world)
    else:
        factors = communication_factors(
            activities,
            host,
            target,
            laws.communication,
            network=laws.network,
            keep_waiting=laws.keep_waiting,
        )
    if laws.communication != ALPHA_BETA:
        return factors
    sizes = activities[["collective_bytes", "group_size"]].isna().any(axis=1)
    lacks = (collectives_of(activities) == "").to_numpy(dtype=bool) | sizes.to_numpy(dtype=bool)
    changes = (factors[SIGMA] != 0).to_numpy(dtype=bool)
    widest = factors[SIGMA].fillna(0.0).clip(lower=law_errors().widest)
    unknown = changes & (lacks | factors[SIGMA].isna().to_numpy(dtype=bool))
    return factors.assign(**{SIGMA: factors[SIGMA].mask(unknown, widest)})


def _with_gaps_of(graph: Graph, activities: pd.DataFrame, host: GPU, target: GPU) -> Graph:
    """Return the graph with the target's gaps, where the host's are of another kind.

    The dispatch of an activity that was waiting is in its projected duration, if that is where the
    target counts it. One that its launch or another queue held back was not waiting, and has none
    in its duration: should it have to wait on the target, the dispatch is a gap.
    """
    host_gaps, others = overheads_of(host, target)
    if host_gaps.inside == others.inside:
        return graph
    splits = activities[LAW].isin(SPLITS).to_numpy()[graph.rows]
    queued = activities[QUEUED].to_numpy()[graph.rows]
    late = np.isin(graph.cause, (LAUNCH, DEPENDENCY))
    dispatch_ns = 1000.0 * others.dispatch_us
    gap = np.where(
        queued, 0.0 if others.inside else dispatch_ns, np.where(late, dispatch_ns, np.nan)
    )
    return graph.with_gaps(np.where(splits, gap, np.nan))


def projected_times(projection: Projection) -> tuple[pd.Series, pd.DataFrame]:
    """Return when each activity starts on the target, in ns on the trace's clock, and the calls as replayed."""
    return replayed(projection.graph, projection.times, projection.activities.index, projection.cpu)


def replayed(
    graph: Graph, times: Times, index: pd.Index, cpu: float = 1.0
) -> tuple[pd.Series, pd.DataFrame]:
    """Return when each activity starts in a replay, in ns on the trace's clock, and the calls as replayed.

    `index` is that of the activities, `cpu` the time of the CPU's work, relative to the measured. A
    call that waits for the GPU lasts until its wait is over, all others as the CPU's work does.
    """
    starts = pd.Series(0, index=index, dtype="int64")
    starts.iloc[graph.rows] = times.start_ns[0].round().astype("int64") + graph.origin_ns
    calls = graph.calls
    if not len(calls):
        return starts, empty_calls()
    begin = times.call_ns(graph)[0]
    duration = calls.duration_ns * cpu
    returns = np.flatnonzero(graph.runs.wait >= 0)
    waits = graph.runs.wait[returns]
    duration[waits] = np.maximum(times.run_ns[0, returns] - begin[waits], 0.0)
    start = begin.round().astype("int64")
    columns = {
        "name": calls.names,
        "start_ns": start + graph.origin_ns,
        "duration_ns": (begin + duration).round().astype("int64") - start,
        "process": pd.array(calls.process, dtype="Int64"),
        "thread": pd.array(calls.thread, dtype="Int64"),
        "correlation": pd.array(calls.correlation, dtype="Int64"),
    }
    return starts, call_table(columns)

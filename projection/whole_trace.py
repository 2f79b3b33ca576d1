"""A whole trace on another GPU: laws for its activities, the target's gaps, and what the end-to-end time becomes."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from functools import cached_property
from typing import Literal

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from ..errors import DataError
from ..features.dispatches.annotate import Annotated
from ..hardware import GPU
from .aggregate import REPLAY, own_time, totals_us
from .communication.bandwidth import Network
from .communication.laws import LAWS as COMMUNICATION_LAWS
from .communication.laws import CommunicationLaw, communication_factors
from .corrections import Correction
from .critical import critical_path
from .graph import Graph, build
from .laws import DEFAULT_LAW, compute_factors
from .overhead import overheads_of
from .replay import Times, replay
from .scalings import LAWS
from .split import CATEGORIES, COMMUNICATION, categories
from .trained import Trained

FloatArray = NDArray[np.float64]
Gaps = Literal["kept", "scaled", "modelled"]
GAPS: tuple[Gaps, ...] = ("kept", "scaled", "modelled")
"""What becomes of the time between activities: as measured; shrunk like the activities; or as the target has it, with
its own gap between kernels, and the CPU's work as long as ever."""

CATEGORY, FACTOR, LAW, WHY, BOUND, SIGMA = "category", "factor", "law", "why", "bound", "sigma"


@dataclass(frozen=True)
class Laws:
    """How a trace is projected.

    Attributes
    ----------
    compute : str
        Law of computation and copies (`laws.compute_factors`).
    communication : {"alpha-beta", "bandwidth", "kept"}
        Law of collectives (`communication.laws`).
    gaps : {"kept", "scaled", "modelled"}
        See `GAPS`.
    cpu_speed : float or None
        Speed of the target's CPU relative to the one measured; None where nobody knows: as fast, and uncertain.
    run : Trained or None
        A trained run folder that goes before the law of computation.
    network : Network or None
        What the user says of the network between nodes.
    keep_waiting : bool
        As for `communication_factors`.
    corrections : mapping of str to Correction
        Per op class, for `compute_factors`.
    """

    compute: str = DEFAULT_LAW
    communication: CommunicationLaw = "alpha-beta"
    gaps: Gaps = "modelled"
    cpu_speed: float | None = None
    run: Trained | None = None
    network: Network | None = None
    keep_waiting: bool = False
    corrections: Mapping[str, Correction] = field(default_factory=dict)

    def __post_init__(self) -> None:
        if self.communication not in COMMUNICATION_LAWS:
            raise DataError(
                f"there is no communication law {self.communication!r}: choose from {', '.join(COMMUNICATION_LAWS)}"
            )
        if self.compute not in LAWS:
            raise DataError(f"there is no law {self.compute!r} of computation: choose from {', '.join(LAWS)}")
        if self.gaps not in GAPS:
            raise DataError(f"there is no way {self.gaps!r} to treat gaps: choose from {', '.join(GAPS)}")
        if self.cpu_speed is not None and not (np.isfinite(self.cpu_speed) and self.cpu_speed > 0):
            raise DataError(f"the speed of the CPU must be above 0, got {self.cpu_speed:g}: 1.2 means 20 % faster")


PUBLISHED = Laws(compute="flops-uniform", communication="bandwidth", gaps="kept")
"""The published methodology: every kernel by the ratio of the peaks of one format, every collective by the ratio of the
bandwidths, gaps as they are."""


@dataclass(frozen=True)
class Projection:
    """A trace on another GPU.

    Attributes
    ----------
    host, target : GPU
    laws : Laws
    activities : DataFrame
        The dispatch table with `category`, `factor`, `law`, `why`, `bound`, `sigma`, `measured_us`, `projected_us`.
    graph : Graph
        Of the measured trace.
    target_graph : Graph
        The same with the target's gaps.
    counted : ndarray of bool of shape (n,)
        Activities, in the order of the graph, that make the end-to-end time: those launched within the trace, if it has
        any; all others only hold them up.
    cpu : float
        Time of the CPU's work, relative to the measured.
    steps : DataFrame
        Of the trace.
    """

    host: GPU
    target: GPU
    laws: Laws
    activities: pd.DataFrame
    graph: Graph
    target_graph: Graph
    counted: NDArray[np.bool_]
    cpu: float
    steps: pd.DataFrame

    @property
    def projected_ns(self) -> FloatArray:
        """Projected durations in the order of the graph, shape (n,)."""
        return self.graph.duration_ns * self.activities[FACTOR].to_numpy()[self.graph.rows]

    @property
    def rank(self) -> NDArray[np.int64]:
        """What hides what: 0 for computation, then communication, then copies; shape (n,), in the graph's order."""
        return _rank(self.activities, self.graph)

    @property
    def measured_us(self) -> float:
        """Measured end-to-end time, from the first start to the last end of what counts."""
        graph = self.graph
        return float(graph.end_ns[self.counted].max() - graph.start_ns[self.counted].min()) / 1000.0

    @property
    def busy_us(self) -> float:
        """Measured time in which anything that counts ran."""
        start, duration = self.graph.start_ns[self.counted], self.graph.duration_ns[self.counted]
        return float(own_time(start, duration, np.zeros(len(start), dtype=np.int64)).sum()) / 1000.0

    @cached_property
    def times(self) -> Times:
        """The replay on the target."""
        return replay(self.target_graph, self.projected_ns, self.cpu)

    @cached_property
    def totals(self) -> dict[str, float]:
        """Projected end-to-end time by every way of adding up (`aggregate.AGGREGATIONS`), µs."""
        idle = _stretch(self.graph, self.projected_ns, self.rank, self.counted) if self.laws.gaps == "scaled" else 1.0
        return totals_us(
            self.graph, self.projected_ns, self.rank, self.counted, idle=idle, cpu=self.cpu, target=self.target_graph
        )

    @property
    def projected_us(self) -> float:
        """The projected end-to-end time: that of the replay."""
        return self.totals[REPLAY]

    @cached_property
    def path(self) -> pd.DataFrame:
        """The critical path on the target (`critical.critical_path`)."""
        return critical_path(self.target_graph, self.times, counted=self.counted)

    @cached_property
    def measured_path(self) -> pd.DataFrame:
        """The critical path as measured."""
        return critical_path(self.graph, replay(self.graph, self.graph.duration_ns), counted=self.counted)


def host_of(trace: Annotated) -> str:
    """Return the one device of a trace.

    Raises
    ------
    DataError
        The trace has no activity, none of a known device, or several devices.
    """
    if trace.dispatches.empty:
        raise DataError("no activity of a GPU in the trace")
    names = sorted(set(trace.dispatches["device"].astype(str).unique()))
    if names == [""]:
        raise DataError("the trace does not say which GPU it was made on: say it with --from")
    if len(names) > 1:
        raise DataError(f"the trace has activities of {', '.join(names)}: project the trace of one device")
    return names[0]


def project_trace(
    trace: Annotated, host: GPU, target: GPU, laws: Laws | None = None, *, graph: Graph | None = None
) -> Projection:
    """Project a trace to another GPU.

    Parameters
    ----------
    trace : Annotated
        With the CPU's calls (`Options(calls=True)`), if gaps are to be told apart.
    host, target : GPU
        Where it was measured, and where it is to run.
    laws : Laws, optional
        `Laws()` by default.
    graph : Graph, optional
        That of the trace, where it has been built already.

    Raises
    ------
    DataError
        The trace has no activity, or a law cannot be used.
    """
    if trace.dispatches.empty:
        raise DataError("no activity of a GPU in the trace")
    laws = laws or Laws()
    graph = graph or build(trace.dispatches, trace.calls)
    activities = _projected(trace.dispatches, host, target, laws)
    linked = activities["linked"].to_numpy(dtype=bool)[graph.rows]
    counted = linked if linked.any() else np.ones(len(graph), dtype=bool)
    projected_ns = graph.duration_ns * activities[FACTOR].to_numpy()[graph.rows]
    cpu = 1.0 / (laws.cpu_speed or 1.0)
    target_graph = graph
    if laws.gaps == "modelled":
        target_graph = _with_gaps_of(graph, host, target)
    elif laws.gaps == "scaled":
        stretch = _stretch(graph, projected_ns, _rank(activities, graph), counted)
        target_graph, cpu = graph.stretched(stretch), cpu * stretch
    return Projection(host, target, laws, activities, graph, target_graph, counted, cpu, trace.steps)


def _projected(activities: pd.DataFrame, host: GPU, target: GPU, laws: Laws) -> pd.DataFrame:
    category = categories(activities)
    communicates = (category == COMMUNICATION).to_numpy()
    computed = compute_factors(
        activities[~communicates], host, target, laws.compute, run=laws.run, corrections=laws.corrections
    )
    parts = [computed]
    if communicates.any():
        parts.append(
            communication_factors(
                activities[communicates], host, target, laws.communication, network=laws.network,
                keep_waiting=laws.keep_waiting,
            )
        )  # fmt: skip
    factors = pd.concat(parts).reindex(activities.index)
    measured_us = np.maximum(activities["duration_ns"].to_numpy(), 0) / 1000.0
    return activities.assign(
        category=category,
        **{name: factors[name] for name in (FACTOR, LAW, WHY, BOUND, SIGMA)},
        measured_us=measured_us,
        projected_us=measured_us * factors[FACTOR].to_numpy(),
    )


def _rank(activities: pd.DataFrame, graph: Graph) -> NDArray[np.int64]:
    codes = pd.Categorical(activities[CATEGORY], categories=list(CATEGORIES)).codes
    return codes.astype(np.int64)[graph.rows]


def _stretch(graph: Graph, projected_ns: FloatArray, rank: NDArray[np.int64], counted: NDArray[np.bool_]) -> float:
    """Return by how much the time in which anything runs changes."""
    duration = graph.duration_ns[counted]
    own = own_time(graph.start_ns[counted], duration, rank[counted])
    ratio = np.divide(projected_ns[counted], duration, out=np.ones_like(own), where=duration > 0)
    return float((own * ratio).sum() / own.sum()) if own.sum() else 1.0


def _with_gaps_of(graph: Graph, host: GPU, target: GPU) -> Graph:
    """Return the graph with the target's gaps, where the host's are of another kind."""
    own, others = overheads_of(host, target)
    if own.inside == others.inside:
        return graph
    return graph.with_gaps(0.0 if others.inside else 1000.0 * others.dispatch_us)

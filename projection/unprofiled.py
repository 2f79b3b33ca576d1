"""A trace as it would run without the profiler: what of the CPU's work is the profiler's.

A profiler writes down every operator and every call, and the CPU does that itself: where the CPU
sets the pace, much of the time of a trace is the profiler's. `without_profiler` takes it out of the
CPU's work of a projection, by one of two statements (`Profiling`):

- what `projection.comparison.fidelity` measured of this workload: the time of a step without the
  profiler over that with it. The CPU's work is shortened until the trace, replayed on the GPU that
  it was made on, takes that share of its measured time;
- what a profiler usually adds to the CPU's work (`usual`), with its spread.

Three things are uncertain, and widen the interval: the spread of the statement; how far the work
may be shortened before it shows, where the GPU sets the pace as measured; and whether the profiler
takes its time in proportion to the CPU's work, or the same at each call. The two are played both,
and the distance between them on the target counts.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, replace
from typing import Final

import numpy as np
from scipy.special import ndtri

from ..arrays import FloatArray
from ..errors import DataError, ParameterError, nearest
from ..hardware.constants import constant, constants_of
from ..remarks import Remark, remark
from .graph import Graph
from .replay import replay
from .whole_trace import Projection, Unprofiled

LEAST: Final = 0.1  # the CPU's work is shortened to a tenth at most: a profiler adds nine parts
POINTS: Final = 49  # of the curve of the time over what is left of the CPU's work
TOLERANCE: Final = 0.02  # of the time of a step without a profiler, from run to run
LEVEL: Final = 0.9  # of the range that a statement leaves open
SAME: Final = 0.002  # relative difference of two times that is none
HALVINGS: Final = 20  # of the time taken from every call, which is searched
TABLE: Final = "profiler"  # of hardware/constants.toml


@dataclass(frozen=True)
class Profiling:
    """What is stated of a profiler: one of ``share`` and ``slowdown``."""

    profiler: str  # the profiler, or the trace of which it was measured
    source: str
    share: float | None = None  # time of a step without the profiler over that with it
    slowdown: float | None = None  # time of the CPU's work with the profiler over that without it
    spread: float = 0.0  # standard deviation of the logarithm of ``slowdown``

    def __post_init__(self) -> None:
        if self.share is not None and not (math.isfinite(self.share) and self.share > 0):
            raise ParameterError(
                "fidelity", f"must have a positive time of {self.profiler}, got {self.share}"
            )


def usual(name: str) -> Profiling:
    """Return the usual overhead of a profiler on the CPU's work (hardware/constants.toml).

    >>> usual("torch").slowdown > 1
    True
    """
    names = constants_of(TABLE)
    if name not in names:
        raise ParameterError(
            "fidelity",
            f"must be the JSON of fidelity or one of {', '.join(names)}, got {name!r}: "
            f"{nearest(name, names)}",
        )
    factor = constant(f"{TABLE}.{name}")
    return Profiling(name, factor.source, slowdown=factor.value, spread=factor.spread)


def without_profiler(projection: Projection, profiling: Profiling) -> Projection:
    """Return a projection whose CPU works without the profiler.

    A DataError says that the trace has no calls of the CPU: what of its gaps is the profiler's is
    not known.
    """
    if not len(projection.graph.calls):
        raise DataError(
            "the trace has no calls of the CPU: what of its gaps is the profiler's is unknown; "
            "give a trace with calls, or no fidelity"
        )
    graph = projection.graph
    curve = _Curve.of(projection, graph, graph.duration_ns, 1.0)
    if profiling.share is not None:
        kept, spread, note = _by_share(curve, profiling.share)
    else:
        assert profiling.slowdown is not None
        kept = 1 / profiling.slowdown
        spread = profiling.spread
        note = None
    shortened = replace(projection, cpu=projection.cpu * kept)
    unprofiled = Unprofiled(
        profiler=profiling.profiler,
        source=profiling.source,
        kept=kept,
        sigma=math.hypot(spread, _by_call(shortened, curve, kept)),
        host_us=curve.at(kept),
        profiled_us=projection.projected_us,
        note=note,
    )
    still = projection.measured_us - projection.busy_us
    idle = 1.0
    if still > 0:
        idle = max(unprofiled.host_us - projection.busy_us, 0.0) / still
    laws = replace(projection.laws, unprofiled=unprofiled)
    return replace(shortened, laws=laws, idle=projection.idle * min(idle, 1.0))


@dataclass(frozen=True)
class _Curve:
    """The end-to-end time over what is left of the CPU's work, never falling."""

    kept: FloatArray  # shape (n_points,), from `LEAST` to 1
    spans_us: FloatArray

    @classmethod
    def of(
        cls, projection: Projection, graph: Graph, duration_ns: FloatArray, cpu: float
    ) -> _Curve:
        """Return the curve of a graph with its durations; ``cpu`` is the time of the CPU's work as profiled."""
        kept = np.geomspace(LEAST, 1.0, POINTS)
        spans_us = []
        for share in kept.tolist():
            times = replay(graph, duration_ns, cpu * share)
            spans_us.append(float(projection.spans_us(times)[0]))
        return cls(kept, np.maximum.accumulate(np.array(spans_us)))

    def at(self, kept: float) -> float:
        """Return the end-to-end time with so much left of the CPU's work, µs."""
        return float(np.interp(kept, self.kept, self.spans_us))

    def longest(self, span_us: float) -> float:
        """Return the most that may be left of the CPU's work for the trace to take no longer."""
        return self._kept(span_us, int(np.searchsorted(self.spans_us, span_us, side="right")))

    def shortest(self, span_us: float) -> float:
        """Return the least that may be left of it for the trace to take as long."""
        return self._kept(span_us, int(np.searchsorted(self.spans_us, span_us, side="left")))

    def _kept(self, span_us: float, place: int) -> float:
        """Return what is left where the curve crosses a time, before one of its points."""
        if place == 0:
            return LEAST
        if place == len(self.kept):
            return 1.0
        points = slice(place - 1, place + 1)
        return float(np.interp(span_us, self.spans_us[points], self.kept[points]))


def _by_share(curve: _Curve, share: float) -> tuple[float, float, Remark | None]:
    """Return what is left of the CPU's work, how sure that is, and what cannot be the CPU's.

    The host's time is to be ``share`` of the measured, within `TOLERANCE`. Where no work of the CPU
    is short enough, the profiler lengthens kernels too: their time stays.
    """
    measured = float(curve.spans_us[-1])
    least = float(curve.spans_us[0])
    wanted = share * measured
    note = None
    if wanted < least * (1 - TOLERANCE):
        text = (
            f"without the profiler a step takes {100 * share:.1f} % of its time, but "
            f"{100 * least / measured:.1f} % is kernels and their order, which stay: the profiler "
            "lengthens kernels too (durations of passes say how much)"
        )
        note = remark("profiler-lengthens-kernels", text, share=share, least=least / measured)
        wanted = least
    if wanted > measured * (1 + TOLERANCE):
        text = (
            f"a step takes {100 * share:.1f} % of its profiled time without the profiler: it adds "
            "nothing, and the CPU's work stays"
        )
        note = remark("profiler-adds-nothing", text, share=share)
    low = curve.shortest(wanted * (1 - TOLERANCE))
    high = curve.longest(wanted * (1 + TOLERANCE))
    reach = float(ndtri((1 + LEVEL) / 2))
    return math.sqrt(low * high), math.log(high / low) / (2 * reach), note


def _by_call(projection: Projection, host: _Curve, kept: float) -> float:
    """Return how far off the CPU's work is if the profiler takes the same time at each call.

    The time taken from each call is such that the host takes as long as with ``kept`` of its work.
    On the target the two differ; what is left of the work would have to be other by the factor whose
    logarithm is returned, for the target to take as long. ``projection`` is that with ``kept``.
    """
    graph = projection.graph
    wanted = host.at(kept)
    offset_ns = _between(graph)
    low = 0.0
    high = float(offset_ns.max(initial=0.0))
    for _ in range(HALVINGS):
        taken = (low + high) / 2
        spans = projection.spans_us(replay(_shortened(graph, taken), graph.duration_ns))
        if float(spans[0]) > wanted:
            low = taken
        else:
            high = taken
    cpu = projection.cpu / kept
    other = _shortened(projection.target_graph, (low + high) / 2)
    without_us = float(projection.spans_us(replay(other, projection.projected_ns, cpu))[0])
    curve = _Curve.of(projection, projection.target_graph, projection.projected_ns, cpu)
    if without_us < curve.at(kept):
        equal = curve.longest(without_us)
    else:
        equal = curve.shortest(without_us)
    if abs(without_us / curve.at(kept) - 1) <= SAME:
        return 0.0
    return abs(math.log(equal / kept))


def _between(graph: Graph) -> FloatArray:
    """Return the CPU's time before each call since the one before it in its run, shape (n_calls,)."""
    calls = graph.calls
    order = np.lexsort((calls.offset_ns, calls.run))
    offset = calls.offset_ns[order]
    run = calls.run[order]
    first = np.r_[True, run[1:] != run[:-1]]
    before = np.where(first, 0.0, np.r_[0.0, offset[:-1]])
    between = np.empty(len(offset))
    between[order] = offset - before
    return between


def _shortened(graph: Graph, taken_ns: float) -> Graph:
    """Return the graph with this much less work of the CPU before each call, where it has as much."""
    calls = graph.calls
    order = np.lexsort((calls.offset_ns, calls.run))
    run = calls.run[order]
    left = np.maximum(_between(graph)[order] - taken_ns, 0.0)
    total = np.cumsum(left)
    first = np.flatnonzero(np.r_[True, run[1:] != run[:-1]])
    begun = np.repeat(total[first] - left[first], np.diff(np.r_[first, len(run)]))
    offset = np.empty(len(run))
    offset[order] = total - begun
    return replace(graph, calls=replace(calls, offset_ns=offset))

"""Phases of a long trace that repeat: found, and folded so that a few of each are projected for all of them.

A phase is a stretch of a GPU's activities, in the order of their launch, that repeats with a
period: the same kernels follow each other, on the same shapes and launches but for a few, and each
repeat has separate launches (parts of a graph have none: no CPU's time goes with theirs). The
period is one at which many activities of a kind recur; stretches in which nearly every name recurs
at it are repeats, which are compared with each other in what they compute and how long they take.
Repeats unlike their neighbours or far from the median time, the first of each phase, and what lies
before, between and behind the phases, are projected as they are.

`fold` keeps a few repeats of each phase, evenly spaced, and closes the holes. The trace is then cut
into *pieces*: a repeat, or what lies between. With E_p the latest end of all up to piece p, the
periods E_p - E_(p-1) add up to the end-to-end time, measured or projected. What a phase takes in
all is the projected time of its kept repeats times the ratio of its measured time to theirs: a
ratio estimator [1]_, exact where the target is the host.

References
----------
.. [1] W. G. Cochran, Sampling Techniques, 3rd edition, 1977, section 6.2: the estimate and its standard error.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace
from typing import Final

import numpy as np
import pandas as pd
from scipy.special import ndtr, stdtrit

from ..arrays import BoolArray, FloatArray, IntArray
from ..operators.work import as_numbers
from ..remarks import Remark, remark
from ..table.problems import codes_of
from ..traces.quality import queue_codes
from ..traces.summary import Annotated

KEPT: Final = 3
"""Repeats of a phase that stand for others, at least: two for a spread, and one for what drifts along the trace."""
# share of the activities of a repeat that are as in a neighbour: name, work, launch
SIMILAR: Final = 0.9
LEAST: Final = 0.02  # share of a GPU's activities that a phase must save
_NAMED = ("kind", "name", "collective")
_ALIKE = (
    "op",
    "flops",
    "bytes_moved",
    "grid_x",
    "grid_y",
    "grid_z",
    "block_x",
    "block_y",
    "bytes",
    "collective_bytes",
)
_CANDIDATES = 24  # periods that are tried
_NEIGHBOURS = 4  # occurrences of a kind after each from which periods are taken
_ENOUGH = 300  # activities that are kept of a short phase, of one repeat in `_MANY` at most
_MANY = 20
_TIE_NS = 1e-3  # between launches of which only the order is recorded
# with so few repeats the quantile of Student's t is wider than the normal one
_ONE_SIGMA = float(ndtr(1.0))
_PAUSE_NS = 1_000.0  # what a pause must be longer than that before the first activity for phases to begin there
_ODD = 5.0  # median absolute deviations from the median time at which a repeat is odd, if it is `_FAR` from it too
_FAR = 0.1
CUT = "cut"
"""Column of a dispatch table whose idle ends were cut: whether the activity lies beyond one."""
PIECE = "piece"
REPEATS = "repeats"
WEIGHT = "weight"
"""Columns of a folded dispatch table: the piece, how many activities of the trace the row stands
for, and their time over its own."""


@dataclass(frozen=True)
class Phase:
    """Repeats of one stretch of a trace."""

    repeats: int
    activities: int  # of one repeat, on all GPUs
    similarity: float  # share of activities that are as in a neighbour, mean over the repeats
    alone: IntArray  # numbers, among the kept pieces, of the repeats that stand for themselves: the first and odd ones
    chosen: IntArray  # of those that stand for all others


@dataclass(frozen=True)
class Folded:
    """A trace of which a few repeats of each phase are left."""

    trace: Annotated  # with the columns `PIECE`, `REPEATS`, `WEIGHT`
    phases: tuple[Phase, ...]
    stretch: FloatArray  # of each piece: the time it stands for over its own, measured; shape (n_pieces,)
    activities: int  # of the whole trace


def edges_ns(piece: IntArray, start_ns: FloatArray, end_ns: FloatArray, pieces: int) -> FloatArray:
    """Return the first start, and the latest end up to each piece, shape (n_samples, n_pieces + 1).

    ``piece`` is that of each activity, shape (n,); starts and ends have shape (n_samples, n).
    """
    order = np.argsort(piece, kind="stable")
    present, first = np.unique(piece[order], return_index=True)
    edges = np.full((len(end_ns), pieces + 1), -np.inf)
    edges[:, present + 1] = np.maximum.reduceat(end_ns[:, order], first, axis=1)
    edges[:, 0] = start_ns.min(axis=1)
    return np.maximum.accumulate(edges, axis=1)


def repeats_of(activities: pd.DataFrame) -> FloatArray:
    """Return how many activities of the trace each row stands for, shape (n,): 1 but in a folded trace."""
    return np.asarray(
        activities[REPEATS] if REPEATS in activities else np.ones(len(activities)), dtype=np.float64
    )


def weights_of(activities: pd.DataFrame) -> FloatArray:
    """Return the measured time that each row stands for over its own, shape (n,): 1 but in a folded trace."""
    return np.asarray(
        activities[WEIGHT] if WEIGHT in activities else np.ones(len(activities)), dtype=np.float64
    )


def counted_of(activities: pd.DataFrame) -> BoolArray:
    """Return which activities make the end-to-end time: those launched within the trace, if it has any.

    Those beyond an idle end (`CUT`) do not.
    """
    linked = activities["linked"].to_numpy(dtype=bool)
    if linked.any():
        counted = linked
    else:
        counted = np.ones(len(activities), dtype=bool)
    if CUT in activities:
        return counted & ~activities[CUT].to_numpy(dtype=bool)
    return counted


@dataclass(frozen=True)
class Repeated:
    """Phases of a trace of which a few repeats were projected for all."""

    table: pd.DataFrame  # of `repeated`
    activities: int  # of the trace
    projected_activities: int
    error: float  # standard error of the end-to-end time, relative to it

    @property
    def share(self) -> float:
        """Share of the trace's activities that was projected."""
        return self.projected_activities / self.activities

    @property
    def note(self) -> Remark:
        """What that means for the projection (``phases-folded``)."""
        repeats = tuple(self.table["repeats"])
        count = len(repeats)
        some = ", ".join(map(str, repeats[:5])) + (", ..." if len(repeats) > 5 else "")
        if count > 1:
            phases = f"{count} phases repeat {some} times"
        else:
            phases = f"one phase repeats {some} times"
        if self.error < 1e-4:
            off = "less than 0.01 %"
        else:
            off = f"{100 * self.error:.2g} %"
        text = (
            f"{phases}: {100 * self.share:.3g} % of the activities were projected for all of "
            "them, which shifts the "
            f"time by {off} (1 σ, from how the repeats differ)"
        )
        return remark("phases-folded", text, repeats=repeats, share=self.share, error=self.error)


def repeated(folded: Folded, measured_us: FloatArray, projected_us: FloatArray) -> Repeated:
    """Return what is to be said of the phases of a folded trace, from what its pieces take, shape (n_pieces,).

    The columns are `activities` of one repeat, `repeats`, `projected_repeats`, `similarity`,
    `measured_us` and `projected_us` of all repeats, and `error`, the standard error of the last
    relative to it: from how the ratio of projected to measured time differs between the repeats
    that stand for others.
    """
    rows = []
    for one in folded.phases:
        before = measured_us[one.chosen]
        after = projected_us[one.chosen]
        kept = len(one.chosen)
        expected = after.sum() / before.sum() * before
        spread = np.sqrt(((after - expected) ** 2).sum() / (kept - 1))
        others = one.repeats - len(one.alone)
        error_us = (
            others
            * spread
            * np.sqrt((1 / kept) * (1 - kept / others))
            * stdtrit(kept - 1, _ONE_SIGMA)
        )
        all_ = np.r_[one.alone, one.chosen]
        measured, projected = (
            float(us[all_] @ folded.stretch[all_]) for us in (measured_us, projected_us)
        )
        rows.append(
            {
                "activities": one.activities,
                "repeats": one.repeats,
                "projected_repeats": len(all_),
                "similarity": one.similarity,
                "measured_us": measured,
                "projected_us": projected,
                "error": error_us / projected if projected > 0 else 0.0,
            }
        )
    table = pd.DataFrame(rows)
    error_us = float(np.hypot.reduce(table["error"] * table["projected_us"]))
    left = len(folded.trace.dispatches)
    return Repeated(table, folded.activities, left, error_us / float(projected_us @ folded.stretch))


@dataclass(frozen=True)
class _Run:
    """A stretch of a GPU's activities that repeats with a period, from `first` on."""

    first: int
    period: int
    similar: FloatArray  # share of the activities of each repeat that are as in a neighbour
    # which repeats others may stand for: similar, of usual time, and not the first
    usual: BoolArray

    @property
    def repeats(self) -> int:
        return len(self.usual)

    @property
    def saved(self) -> int:
        """How many activities need not be projected."""
        return max(int(self.usual.sum()) - KEPT, 0) * self.period


def fold(trace: Annotated) -> Folded | None:
    """Return the trace with a few repeats of each phase; None where nothing repeats, or too little is left out.

    Of a trace of several GPUs every one must repeat equally often.
    """
    table = trace.dispatches
    if table.empty:
        return None
    launched_ns = _launched_ns(table, trace.calls)
    queue = queue_codes(table)
    gpu = codes_of([table[name] for name in ("rank", "process", "gpu")])
    parts = []
    for number in range(int(gpu.max()) + 1):
        of_gpu = np.flatnonzero(gpu == number)
        order = of_gpu[
            np.lexsort((table["start_ns"].to_numpy()[of_gpu], queue[of_gpu], launched_ns[of_gpu]))
        ]
        parts.append((order, _Sequence.of(table, order, launched_ns).phases()))
    repeats = set()
    for _, runs in parts:
        repeats.add(tuple(run.repeats for run in runs))
    if len(repeats) != 1 or not parts[0][1]:
        return None
    piece = np.zeros(len(table), dtype=np.int64)
    for order, runs in parts:
        bounds = [
            run.first + run.period * place for run in runs for place in range(run.repeats + 1)
        ]
        piece[order] = np.searchsorted(bounds, np.arange(len(order)), side="right")
    runs = parts[0][1]
    pieces = 1 + sum(run.repeats + 1 for run in runs)
    start = (table["start_ns"] - table["start_ns"].min()).to_numpy(dtype=float)
    duration = table["duration_ns"].clip(lower=0).to_numpy(dtype=float)
    counted = counted_of(table)
    period = np.diff(
        edges_ns(piece[counted], start[None, counted], (start + duration)[None, counted], pieces)[0]
    )
    kept = np.ones(pieces, dtype=bool)
    stretch = np.ones(pieces)
    repeats = np.ones(len(table))
    weight = np.ones(len(table))
    phases = []
    first = 1
    for number, run in enumerate(runs):
        similar = np.min([its[number].similar for _, its in parts], axis=0)
        usual = np.all([its[number].usual for _, its in parts], axis=0)
        all_ = np.arange(first, first + run.repeats)
        first += run.repeats + 1
        count = int(usual.sum())
        if count <= KEPT:
            continue
        few = max(KEPT, min(_ENOUGH // run.period, count // _MANY))
        chosen = np.flatnonzero(usual)[np.linspace(0, count - 1, few).round().astype(int)]
        if not period[all_[chosen]].sum():  # other queues hide them
            continue
        kept[all_[usual]] = False
        kept[all_[chosen]] = True
        stretch[all_[chosen]] = period[all_[usual]].sum() / period[all_[chosen]].sum()
        for order, its in parts:
            rows = order[its[number].first :][: run.repeats * its[number].period].reshape(
                run.repeats, -1
            )
            stand = duration[rows[chosen]].sum(axis=0)
            every = duration[rows[usual]].sum(axis=0)
            repeats[rows[chosen]] = count / few
            weight[rows[chosen]] = np.divide(
                every, stand, out=np.full(len(stand), count / few), where=stand > 0
            )
        phase = Phase(
            run.repeats,
            sum(its[number].period for _, its in parts),
            float(similar.mean()),
            all_[~usual],
            all_[chosen],
        )
        phases.append(phase)
    left = kept[piece]
    if left.mean() > 1 - LEAST:
        return None
    place = np.cumsum(kept) - 1
    gone = np.r_[0.0, np.cumsum(np.where(kept, 0.0, period))[:-1]]
    columns = {PIECE: place[piece], REPEATS: repeats, WEIGHT: weight}
    moved = table["start_ns"] - gone[piece].round().astype(np.int64)
    rest = table.assign(start_ns=moved, **columns)[left].reset_index(drop=True)
    calls = _calls(trace.calls, table["start_ns"].min(), piece, launched_ns, kept, gone)
    phases = [replace(one, alone=place[one.alone], chosen=place[one.chosen]) for one in phases]
    return Folded(
        replace(trace, dispatches=rest, calls=calls), tuple(phases), stretch[kept], len(table)
    )


def _launched_ns(table: pd.DataFrame, calls: pd.DataFrame) -> FloatArray:
    """Return when each activity was launched, from the first start of an activity on.

    One without a launch is taken for launched with the one before it on its queue, the first of a
    queue before all others. In a trace without calls it is the start; where dispatches are
    numbered, not later than that of the next.
    """
    start = table["start_ns"].to_numpy()
    if not len(calls):
        begun = np.asarray(start - start.min(), dtype=np.float64)
        number = as_numbers(table, "dispatch_id")
        order = np.argsort(number, kind="stable")[: int((~np.isnan(number)).sum())]
        begun[order] = (
            np.minimum.accumulate(begun[order][::-1])[::-1] + np.arange(len(order)) * _TIE_NS
        )
        return begun
    linked_calls = (
        calls.dropna(subset=["correlation"]).drop_duplicates("correlation").set_index("correlation")
    )
    at_ns = table["correlation"].map(linked_calls["start_ns"] - start.min()).astype("float64")
    order = np.argsort(start, kind="stable")
    in_order = (
        at_ns.where(table["linked"].to_numpy(dtype=bool))
        .iloc[order]
        .groupby(queue_codes(table)[order])
    )
    return np.asarray(in_order.ffill().reindex(table.index).fillna(-np.inf), dtype=np.float64)


@dataclass(frozen=True)
class _Sequence:
    """The activities of a GPU in the order of their launch; arrays of shape (n,) but for the last."""

    named: IntArray  # number of each activity's name
    alike: IntArray  # and of all that says what it does
    pause_ns: FloatArray  # how long the GPU was idle before it; -inf where it shares its launch with the one before
    over_ns: FloatArray  # latest end of those before it, and of all; shape (n + 1,)

    @classmethod
    def of(cls, table: pd.DataFrame, order: IntArray, launched_ns: FloatArray) -> _Sequence:
        """Return the sequence of rows of a dispatch table."""
        named = codes_of(table[name].iloc[order] for name in _NAMED)
        alike = codes_of(table[name].iloc[order] for name in (*_NAMED, *_ALIKE))
        start = (table["start_ns"] - table["start_ns"].min()).to_numpy(dtype=float)[order]
        over = np.maximum.accumulate(
            np.r_[start[0], start + table["duration_ns"].to_numpy()[order]]
        )
        launched = launched_ns[order]
        later = launched[1:] > launched[:-1]
        pause = np.where(later, start[1:] - over[1:-1], -np.inf)
        return cls(named, alike, np.r_[np.nan, pause], over)

    def phases(self) -> list[_Run]:
        """Return the runs in their order: those of the period that saves most, then of what lies between them."""
        open_ = [(0, len(self.named))]
        periodic = []
        while open_:
            low, high = open_.pop()
            best: list[_Run] = []
            for period in _periods(self.alike[low:high]):
                runs = list(self._runs(low, high, period))
                best = max(best, runs, key=lambda some: sum(run.saved for run in some))
            periodic += best
            edges = [
                low,
                *(
                    edge
                    for run in best
                    for edge in (run.first, run.first + run.period * run.repeats)
                ),
                high,
            ]
            if best:
                open_ += list(zip(edges[::2], edges[1::2], strict=True))
        return sorted(periodic, key=lambda run: run.first)

    @property
    def _least(self) -> float:
        return LEAST * len(self.named)

    def _runs(self, low: int, high: int, period: int) -> Iterator[_Run]:
        """Yield the runs of a period between two places that save enough, cut where the GPU pauses longest."""
        recurs = self.named[low : high - period] == self.named[low + period : high]
        count = np.r_[0, np.cumsum(recurs)]
        # of a period from each place on
        alike = count[period:] - count[:-period] >= SIMILAR * period
        changes = np.flatnonzero(np.diff(np.r_[False, alike, False].astype(np.int8)))
        over = low  # end of the run before
        for first, last in changes.reshape(-1, 2).tolist():
            first = max(low + first, over)
            end = low + last - 1 + 2 * period
            if end - first < max(self._least, (KEPT + 2) * period):
                continue
            first += int(np.argmax(recurs[first - low :]))
            end -= int(np.argmax(recurs[end - period - low - 1 :: -1]))
            # from any place of the first repeat on, these fit
            whole = period * ((end - first) // period - 1)
            pauses = self.pause_ns[first : first + whole].reshape(-1, period)
            no_pause = np.isneginf(pauses).any(axis=0)
            usual = np.where(no_pause, -np.inf, np.nanmedian(pauses, axis=0))
            if not np.isneginf(usual.max()):
                begin = first + (int(np.argmax(usual)) if usual.max() > usual[0] + _PAUSE_NS else 0)
                run = self._run(begin, period, (end - begin) // period)
                if run.saved >= self._least:
                    over = begin + period * run.repeats
                    yield run

    def _run(self, first: int, period: int, repeats: int) -> _Run:
        rows = self.alike[first : first + repeats * period].reshape(repeats, period)
        same = (rows[1:] == rows[:-1]).mean(axis=1)
        similar = np.maximum(np.r_[same, same[-1]], np.r_[same[0], same])
        took = np.diff(self.over_ns[first : first + repeats * period + 1 : period])
        away = np.abs(took - np.median(took))
        near = away <= max(_ODD * float(np.median(away)), _FAR * float(np.median(took)))
        # what came before the first holds it up, or lets it start early
        return _Run(first, period, similar, (similar >= SIMILAR) & near & (np.arange(repeats) > 0))


def _periods(codes: IntArray) -> list[int]:
    """Return the distances at which most activities recur, weighted by the distance."""
    order = np.argsort(codes, kind="stable")
    steps: list[IntArray] = []
    for step in range(1, min(_NEIGHBOURS, len(codes) - 1) + 1):
        same = codes[order][step:] == codes[order][:-step]
        steps.append((order[step:] - order[:-step])[same])
    if steps:
        count = np.bincount(np.concatenate(steps))
    else:
        count = np.zeros(1, dtype=np.int64)
    weight = count * np.arange(len(count))
    best = np.argsort(-weight, kind="stable")[:_CANDIDATES]
    return [int(period) for period in best if weight[period]]


def _calls(
    calls: pd.DataFrame,
    origin_ns: int,
    piece: IntArray,
    launched_ns: FloatArray,
    kept: BoolArray,
    gone_ns: FloatArray,
) -> pd.DataFrame:
    """Return the calls of the pieces that are kept, moved with their activities; launches are from the origin on.

    Where the CPU was so far ahead that the calls of a piece would come before those of the one now
    before it, they follow these as they followed those of the piece that is gone.
    """
    if not len(calls):
        return calls
    first = np.full(len(kept), np.inf)
    np.minimum.at(first, piece, np.where(np.isfinite(launched_ns), launched_ns, np.inf))
    first = np.minimum.accumulate(first[::-1])[::-1]
    start = (calls["start_ns"] - origin_ns).to_numpy(dtype=float)
    of = np.maximum(np.searchsorted(first, start, side="right") - 1, 0)
    end = np.full(len(kept), -np.inf)  # of the last call of each piece, on the clock of the trace
    end[of] = start + calls["duration_ns"].to_numpy()
    end = np.where(np.isfinite(end), end, first)
    shift = 0.0
    shifts = np.zeros(len(kept))
    before = -np.inf
    for number in np.flatnonzero(kept & np.isin(np.arange(len(kept)), of)).tolist():
        if number and not kept[number - 1]:
            shift = float(gone_ns[number])
            if first[number] - shift < before:
                shift = float(first[number] - before - max(first[number] - end[number - 1], 0.0))
        shifts[number] = shift
        before = end[number] - shift
    moved = calls["start_ns"] - shifts[of].round().astype(np.int64)
    return calls.assign(start_ns=moved)[kept[of]].sort_values(
        "start_ns", kind="stable", ignore_index=True
    )

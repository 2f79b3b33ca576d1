"""What every rank of a replayed MPI program does until it ends: it computes, is in messages, or waits, and for whom.

The steps of the ranks (`graph_files.mpi_layers`) and the time of each layer (`critical_path`)
enter. Spans leave, which follow each other without a gap from 0 to the end of a rank, their sums,
and what all ranks do in bins of time. A wait has a cause, as Scalasca's patterns name it:

late sender
    The rank wants a message that its partner has not begun to send. From then on the rank is in the
    message.
collective
    The rank is in a collective before the last one has come. From then on all are in the message.

late receiver
    The rank sends a message that waits for its receiver (rendezvous), and the partner does not want
    it yet. Other messages (eager) wait for nobody.

Times are those of the medians.
"""

from __future__ import annotations

import math
from collections import defaultdict
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Final

import numpy as np

from ..arrays import FloatArray
from ..errors import ParameterError

MOST_BINS: Final = 100_000
_ROUNDING: Final = 1e-12
COMPUTES = "computes"
SENDS = "sends"
RECEIVES = "receives"
MEETS = "meets"
"""Kinds of steps; a wait for messages of either direction is `RECEIVES`."""
COMPUTING, MESSAGES, LATE_SENDER, LATE_RECEIVER, COLLECTIVE = KINDS = (
    "computing",
    "messages",
    "late_sender",
    "late_receiver",
    "collective",
)
"""Kinds of spans; the last three are waits."""


@dataclass(frozen=True)
class RankStep:
    """A step of a rank, and the names of the layers that it computes, sends, or wants the end of."""

    kind: str
    layers: tuple[str, ...]


@dataclass(frozen=True)
class LayerSpan:
    """When a layer runs, in seconds, the rank that it runs on, and the bytes of its message."""

    rank: int
    start_s: float
    end_s: float
    message_bytes: float = 0.0
    rendezvous: bool = False


@dataclass(frozen=True)
class Span:
    """What a rank does from one time to another, in seconds; ``kind`` is one of `KINDS`."""

    rank: int
    kind: str
    start_s: float
    end_s: float


@dataclass(frozen=True, kw_only=True)
class RankTimes:
    """The seconds of one rank: their sum is the end of the job.

    ``behind_s`` is how much later than the first rank it comes to a collective of all, in the mean;
    None where there is none.
    """

    rank: int
    computing_s: float
    messages_s: float
    late_sender_s: float
    late_receiver_s: float
    collective_s: float
    done_early_s: float
    behind_s: float | None


@dataclass(frozen=True, kw_only=True)
class Bin:
    """A bin of time: shares of the time of all ranks, which sum up to 1, and bytes of messages under way.

    A message between two counts once, one of a collective for every rank in it.
    """

    start_s: float
    end_s: float
    computing: float
    messages: float
    waiting: float
    done: float
    message_bytes: float


class Course:
    """The spans of all ranks.

    ``steps`` are those of each rank in order, ``layers`` the times of the layers that they name.

    >>> steps = {0: [RankStep("computes", ("a",)), RankStep("sends", ("b",))], 1: [RankStep("receives", ("b",))]}
    >>> layers = {"a": LayerSpan(0, 0.0, 2.0), "b": LayerSpan(0, 2.0, 3.0)}
    >>> [(one.kind, one.start_s, one.end_s) for one in Course(steps, layers).spans if one.rank == 1]
    [('late_sender', 0.0, 2.0), ('messages', 2.0, 3.0)]
    """

    def __init__(
        self, steps: Mapping[int, Sequence[RankStep]], layers: Mapping[str, LayerSpan]
    ) -> None:
        self._layers = layers
        self._came: dict[str, dict[int, float]] = defaultdict(dict)  # collective, rank -> arrival
        for rank, of_rank in steps.items():
            now = 0.0
            for step in of_rank:
                if step.kind == MEETS:
                    self._came[step.layers[0]][rank] = now
                for name in step.layers:
                    now = max(now, layers[name].end_s)
        self._ranks = list(steps)
        self.spans: list[Span] = []
        for rank, of_rank in steps.items():
            self.spans.extend(self._of_rank(rank, of_rank))

    def _of_rank(self, rank: int, steps: Sequence[RankStep]) -> Iterator[Span]:
        now = 0.0
        for step in steps:
            if not step.layers:
                continue
            last = max(step.layers, key=lambda name: self._layers[name].end_s)
            layer = self._layers[last]
            end = max(now, layer.end_s)
            begun = now
            cause = MESSAGES
            if step.kind == MEETS:
                begun = max(self._came[last].values())
                cause = COLLECTIVE
            elif step.kind == RECEIVES and layer.rank != rank:
                begun = min(max(layer.start_s, now), end)
                cause = LATE_SENDER
            elif layer.rendezvous:
                begun = min(max(layer.start_s, now), end)
                cause = LATE_RECEIVER
            if begun > now:
                yield Span(rank, cause, now, begun)
            does = MESSAGES
            if step.kind == COMPUTES:
                does = COMPUTING
            if end > begun:
                yield Span(rank, does, begun, end)
            now = end

    def sums(self, end_s: float) -> tuple[RankTimes, ...]:
        """Return the seconds of every rank of a job that ends at ``end_s``."""
        seconds: dict[int, dict[str, float]] = {}
        for rank in self._ranks:
            seconds[rank] = dict.fromkeys(KINDS, 0.0)
        for span in self.spans:
            seconds[span.rank][span.kind] += span.end_s - span.start_s
        behind: dict[int, list[float]] = defaultdict(list)
        for came in self._came.values():
            if len(came) < 2:
                continue
            first = min(came.values())
            for rank, when in came.items():
                behind[rank].append(when - first)
        times = []
        for rank, of_rank in seconds.items():
            skew = None
            if behind[rank]:
                skew = sum(behind[rank]) / len(behind[rank])
            times.append(
                RankTimes(
                    rank=rank,
                    computing_s=of_rank[COMPUTING],
                    messages_s=of_rank[MESSAGES],
                    late_sender_s=of_rank[LATE_SENDER],
                    late_receiver_s=of_rank[LATE_RECEIVER],
                    collective_s=of_rank[COLLECTIVE],
                    done_early_s=max(end_s - sum(of_rank.values()), 0.0),
                    behind_s=skew,
                )
            )
        return tuple(times)

    def bins(self, end_s: float, width_s: float) -> tuple[Bin, ...]:
        """Return what all ranks do in bins of ``width_s``, the last up to ``end_s``.

        The bytes of a message are spread evenly over its time. Raises ParameterError: the bins
        would be more than `MOST_BINS`.
        """
        count = max(math.ceil(end_s / width_s * (1 - _ROUNDING)), 1)
        if count > MOST_BINS:
            raise ParameterError(
                "bins", f"must be at most {MOST_BINS:,}, and {count:,} of this width make the job"
            )
        edges = np.minimum(np.arange(count + 1) * width_s, end_s)
        edges[-1] = end_s
        seconds = {kind: np.zeros(count) for kind in KINDS}
        for span in self.spans:
            places, overlap = _overlaps(edges, span.start_s, span.end_s)
            seconds[span.kind][places] += overlap
        moved = np.zeros(count)
        for name, layer in self._layers.items():
            if not layer.message_bytes:
                continue
            places, overlap = _overlaps(edges, layer.start_s, layer.end_s)
            share = np.full(len(overlap), 1 / len(overlap))  # of one that takes no time
            if overlap.sum() > 0:
                share = overlap / overlap.sum()
            moved[places] += layer.message_bytes * max(len(self._came.get(name, {})), 1) * share
        of_all = np.diff(edges) * len(self._ranks)
        computing = seconds[COMPUTING] / of_all
        messages = seconds[MESSAGES] / of_all
        waits = seconds[LATE_SENDER] + seconds[LATE_RECEIVER] + seconds[COLLECTIVE]
        waiting = waits / of_all
        done = np.maximum(1 - computing - messages - waiting, 0)
        told = []
        for place in range(count):
            told.append(
                Bin(
                    start_s=float(edges[place]),
                    end_s=float(edges[place + 1]),
                    computing=float(computing[place]),
                    messages=float(messages[place]),
                    waiting=float(waiting[place]),
                    done=float(done[place]),
                    message_bytes=float(moved[place]),
                )
            )
        return tuple(told)


def _overlaps(edges: FloatArray, start: float, end: float) -> tuple[slice, FloatArray]:
    """Return the bins that a time lies in, and its seconds in each."""
    last = len(edges) - 1
    first = min(int(np.searchsorted(edges, start, side="right")) - 1, last - 1)
    past = min(max(int(np.searchsorted(edges, end, side="left")), first + 1), last)
    upper = np.minimum(edges[first + 1 : past + 1], end)
    lower = np.maximum(edges[first:past], start)
    return slice(first, past), np.maximum(upper - lower, 0.0)

"""What every rank of a replayed MPI program does until it ends: it computes, is in messages, or waits, and for whom.

The steps of the ranks (`graph_files.mpi_layers`) and the time of each layer (`critical_path`)
enter. Spans leave, which follow each other without a gap from 0 to the end of a rank, and their
sums. A wait has a cause, as Scalasca's patterns name it:

late sender
    The rank wants a message that its partner has not begun to send. From then on the rank is in the
    message.
collective
    The rank is in a collective before the last one has come. From then on all are in the message.

A send does not wait for its receiver, as MPI's eager messages do not, so nobody waits for a late
receiver. Times are those of the medians.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass

COMPUTES, SENDS, RECEIVES, MEETS = "computes", "sends", "receives", "meets"
"""Kinds of steps; a wait for messages of either direction is `RECEIVES`."""
COMPUTING, MESSAGES, LATE_SENDER, COLLECTIVE = KINDS = (
    "computing",
    "messages",
    "late_sender",
    "collective",
)
"""Kinds of spans; the last two are waits."""


@dataclass(frozen=True)
class RankStep:
    """A step of a rank, and the names of the layers that it computes, sends, or wants the end of."""

    kind: str
    layers: tuple[str, ...]


@dataclass(frozen=True)
class LayerSpan:
    """When a layer runs, in seconds, and the rank that it runs on."""

    rank: int
    start_s: float
    end_s: float


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
    collective_s: float
    done_early_s: float
    behind_s: float | None


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
            begun, cause = now, MESSAGES
            if step.kind == MEETS:
                begun, cause = max(self._came[last].values()), COLLECTIVE
            elif step.kind == RECEIVES and layer.rank != rank:
                begun, cause = min(max(layer.start_s, now), end), LATE_SENDER
            if begun > now:
                yield Span(rank, cause, now, begun)
            does = COMPUTING if step.kind == COMPUTES else MESSAGES
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
                    collective_s=of_rank[COLLECTIVE],
                    done_early_s=max(end_s - sum(of_rank.values()), 0.0),
                    behind_s=skew,
                )
            )
        return tuple(times)

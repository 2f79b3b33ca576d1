"""Several ranks of one job on another GPU, replayed together: waiting for peers is a separate cause.

A collective starts when the last of its ranks arrives; until then its kernels wait on all others.
So its time on a rank is what it waits, which follows from when the others arrive, and the transfer
from there to its end, which alone is projected (`collective_laws`). A faster network shortens
transfers, a faster straggler what the others wait.

`project_job` matches the collectives (`match`), projects every rank's trace (`whole_trace`) and
plays them together (`Together`): with the measured times that gives the measurement.

A collective is identified by its group of ranks (by the group's size, where the trace has neither name
nor members) and its number in that group: the one that the producer counted (`group_number`) where
every trace has it, else its place in the order of the trace. Where traces of a group have not as
many, those they begin with are matched. Kernels of a collective end together, whenever they began:
the median distance of the ends of common collectives is that of the clocks.

The volume that is sent is what the collective needs, whatever algorithm moves it: with n ranks a
rank sends each of its n - 1 peers the same part of what the direct algorithm sends
(`collective_laws.cost_terms`). A ring moves as much in all, through neighbours. Who meets whom in
messages between two ranks is not recorded: they have no pair.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Final

import numpy as np
import pandas as pd

from ..arrays import FloatArray, IntArray
from ..errors import DataError, few
from ..evaluation.intervals import LEVEL
from ..hardware import GPU
from ..operators.work import as_numbers
from ..traces.classes import COMPUTE
from ..traces.summary import Annotated
from .collective_laws import (
    ALL_GATHER,
    ALL_REDUCE,
    ALL_TO_ALL,
    BROADCAST,
    DIRECT,
    GATHER,
    ONE_NODE,
    REDUCE,
    REDUCE_SCATTER,
    SCATTER,
    SEND_RECV,
    collectives_of,
    cost_terms,
    model_us,
    stride_of,
)
from .graph import Graph
from .phases import repeats_of
from .replay import Pace, Player, Times, attributed_time, covered
from .split import COMMUNICATION, COPY, categories, longest_first
from .uncertainty import (
    CPU,
    GAPS,
    PROFILER,
    Factor,
    Uncertainty,
    class_of,
    pace_of,
    propagate,
    sources_of,
    with_doubts,
)
from .whole_trace import (
    CATEGORY,
    FACTOR,
    PUBLISHED,
    Laws,
    Projection,
    collective_factors,
    project_trace,
)


@dataclass(frozen=True)
class Matched:
    """The collectives that several ranks' traces share."""

    # one row per rank and collective, in the order of `meeting`: `meeting` (number of the
    # collective), `rank` (place of the trace), `row` (place in its table), `group`, `collective`,
    # `ranks` and `size_bytes` (NaN where unknown), `start_ns` and `end_ns`, on the clock of the
    # first trace from its first activity on
    members: pd.DataFrame
    # what to add to the times of each trace, from its first activity on, to have them on the clock
    # of the first; shape (n_ranks,)
    offset_ns: FloatArray
    # median distance of the ends of one collective, so aligned; the largest of the ranks
    clock_error_ns: float
    # collectives that only some traces of their group have, and messages between two ranks
    unmatched: int


def match(tables: Sequence[pd.DataFrame], labels: Sequence[str]) -> Matched:
    """Match the collectives of the dispatch tables of several ranks.

    Raises DataError: the traces have no collective in common, or differ in the name or size of one.
    """
    every = pd.concat(
        [_collectives(table).assign(rank=place) for place, table in enumerate(tables)]
    )
    between_two = int(every["collective"].eq(SEND_RECV).sum())
    every = every[~every["collective"].isin(["", SEND_RECV])].reset_index(drop=True)
    numbered = (
        every["number"].notna().all() and not every.duplicated(["rank", "group", "number"]).any()
    )
    if numbered:
        every["place"] = every["number"]
    else:
        every["place"] = every.groupby(["rank", "group"]).cumcount().astype(float)
    meeting = every.groupby(["group", "place"], sort=False)
    together = every[meeting["rank"].transform("size") > 1]
    unmatched = len(every) - len(together) + between_two
    if together.empty:
        raise DataError(
            f"no collective in common: {few(labels)} must be ranks of one job, recorded in the "
            "same steps"
        )
    traces = meeting["rank"].transform("size").reindex(together.index)
    if (many := traces > together["ranks"]).any():  # two groups that the traces do not tell apart
        row = together[many].iloc[0]
        raise DataError(
            f"{traces[many].iloc[0]} traces have a collective of {row['ranks']:g} ranks, and do "
            "not say of which: "
            "give the traces of one group"
        )
    # all else has one size on every rank
    sizes = together["size_bytes"].where(together["collective"] != ALL_TO_ALL)
    first = together.assign(size_bytes=sizes).groupby(["group", "place"], sort=False)
    other = together["collective"].ne(first["collective"].transform("first"))
    other |= sizes.notna() & sizes.ne(first["size_bytes"].transform("first"))
    if other.any():
        row = together[other].iloc[0]
        same = together["group"].eq(row["group"]) & together["place"].eq(row["place"])
        differ = " and ".join(
            f"{each['collective']} of {each['size_bytes']:,.0f} bytes in "
            f"{labels[int(each['rank'])]}"
            for each in (together[same].iloc[0], row)
        )
        group = ""
        if row["group"]:
            group = f" of group {row['group']}"
        raise DataError(
            f"collective {row['place']:.0f}{group} is {differ}: give the same steps of ranks of "
            "one job"
        )
    members = together.assign(meeting=together.groupby(["group", "place"], sort=False).ngroup())
    offset = _offsets(members, labels)
    for name in ("start_ns", "end_ns"):
        members[name] = members[name] + offset[members["rank"].to_numpy()]
    ends = members.groupby("meeting")["end_ns"]
    error = (
        (members["end_ns"] - ends.transform("median")).abs().groupby(members["rank"]).median().max()
    )
    order = [
        "meeting",
        "rank",
        "row",
        "group",
        "collective",
        "ranks",
        "size_bytes",
        "start_ns",
        "end_ns",
    ]
    members = members[order].sort_values(["meeting", "rank"], ignore_index=True)
    return Matched(members, offset, float(error), unmatched)


def _collectives(table: pd.DataFrame) -> pd.DataFrame:
    """Return the collectives of one trace in the order of their start, times from its first activity on."""
    first = 0
    if len(table):
        first = int(table["start_ns"].min())
    rows = np.flatnonzero((categories(table) == COMMUNICATION).to_numpy())
    part = table.iloc[rows]
    group = (
        part["group_name"].astype(object) + " " + part["group_ranks"].astype(object)
    ).str.strip()
    of_size = "of " + part["group_size"].astype("string").fillna("unknown size")
    collectives = pd.DataFrame(
        {
            "row": rows,
            "group": group.where(group != "", of_size).to_numpy(dtype=object),
            "number": as_numbers(part, "group_number"),
            "collective": collectives_of(part).to_numpy(dtype=object),
            "ranks": as_numbers(part, "group_size"),
            "size_bytes": as_numbers(part, "collective_bytes"),
            "start_ns": (part["start_ns"] - first).to_numpy(dtype=float),
            "end_ns": (part["start_ns"] - first + part["duration_ns"].clip(lower=0)).to_numpy(
                dtype=float
            ),
        }
    )
    return collectives.sort_values("start_ns", kind="stable", ignore_index=True)


def _offsets(members: pd.DataFrame, labels: Sequence[str]) -> FloatArray:
    """Return the offset of each trace's clock, from the ends of the collectives shared with traces that have one."""
    ends = members.pivot_table(index="meeting", columns="rank", values="end_ns").reindex(
        columns=range(len(labels))
    )
    ends_ns = ends.to_numpy()
    offset = np.full(len(labels), np.nan)
    offset[0] = 0.0
    while np.isnan(offset).any():
        placed = ~np.isnan(offset)
        common = (~np.isnan(ends_ns[:, placed])).any(axis=1)
        shared = np.where(placed, -1, (~np.isnan(ends_ns[common])).sum(axis=0))
        new = int(np.argmax(shared))
        if shared[new] < 1:
            others = few(
                label for label, is_placed in zip(labels, placed.tolist(), strict=True) if is_placed
            )
            raise DataError(f"shares no collective with {others}", source=labels[new])
        rows = common & ~np.isnan(ends_ns[:, new])
        aligned = np.nanmedian(ends_ns[rows][:, placed] + offset[placed], axis=1)
        offset[new] = float(np.median(aligned - ends_ns[rows, new]))
    return offset


KIND = ("collective", "group", "ranks", "message_bytes")
"""Columns that make one kind of message: `group` is the group's name, "" where the trace has none."""


def communication_table(activities: pd.DataFrame) -> pd.DataFrame:
    """Return the data that each kind of collective sends, the longest time first.

    ``activities`` are rows of a projection (`Projection.activities`), communication only. The
    columns are `KIND`; `count`; `sent_bytes`, of one rank in all of them, NaN where size, ranks or
    collective are not recorded; `measured_us`, `projected_us`.
    """
    rows = pd.DataFrame(
        {
            "collective": collectives_of(activities).to_numpy(dtype=object),
            "group": activities["group_name"].astype(object).to_numpy(),
            "ranks": as_numbers(activities, "group_size"),
            "message_bytes": as_numbers(activities, "collective_bytes"),
            "measured_us": activities["measured_us"].to_numpy(),
            "projected_us": activities["projected_us"].to_numpy(),
            "count": repeats_of(activities),
        }
    )
    sums = ["measured_us", "projected_us", "count"]
    table = rows.groupby(list(KIND), dropna=False, sort=True)[sums].sum().reset_index()
    table["count"] = table["count"].round().astype(np.int64)
    table["sent_bytes"] = table["count"] * sent_bytes(table)
    order = [*KIND, "count", "sent_bytes", "measured_us", "projected_us"]
    return longest_first(table[order], "measured_us")


def sent_bytes(kinds: pd.DataFrame) -> FloatArray:
    """Return the bytes that one rank sends in one collective of each kind, NaN where that is not recorded."""
    sent = np.full(len(kinds), np.nan)
    for name, rows in kinds.reset_index(drop=True).groupby("collective", sort=False):
        if name:
            ranks = rows["ranks"].to_numpy(dtype=float)
            _, volume = cost_terms(DIRECT, str(name), np.where(ranks >= 1, ranks, np.nan))
            sent[rows.index] = volume * rows["message_bytes"].to_numpy(dtype=float)
    return sent


def pair_volumes(traces: Sequence[tuple[int, pd.DataFrame]]) -> pd.DataFrame:
    """Return the data that each traced rank sends to each other: `rank`, `peer`, `collective`, `sent_bytes`.

    ``traces`` are pairs of a rank and its communication activities. Collectives whose group, size
    or name is not recorded, and messages between two ranks, are left out.
    """
    volumes = []
    for rank, activities in traces:
        members = activities["group_ranks"].astype(object).to_numpy()
        table = communication_table(activities.assign(group_name=members))
        for row in table[table["sent_bytes"].notna() & table["group"].ne("")].itertuples():
            peers = [int(peer) for peer in str(row.group).split(",") if int(peer) != rank]
            if row.collective != SEND_RECV and peers:
                each = float(row.sent_bytes) / len(peers)  # pyrefly: ignore[bad-argument-type]
                volumes += [(rank, peer, str(row.collective), each) for peer in peers]
    table = pd.DataFrame(volumes, columns=["rank", "peer", "collective", "sent_bytes"])
    return table.groupby(["rank", "peer", "collective"])["sent_bytes"].sum().reset_index()


def bus_factor(collective: str, ranks: FloatArray) -> FloatArray:
    """Return the factor from the bandwidth of a message to that of the bus, as nccl-tests define it.

    The message is the larger of what a rank gives and gets. It is independent of the number of
    ranks where a link is what bounds the collective; NaN where the collective is not recognised.

    >>> bus_factor("all_reduce", np.array([8.0])).tolist()
    [1.75]

    Source: nccl-tests, doc/PERFORMANCE.md, "Bus bandwidth".
    """
    parts = (ranks - 1) / ranks
    if collective == ALL_REDUCE:
        return 2 * parts
    if collective in (ALL_GATHER, REDUCE_SCATTER, ALL_TO_ALL, GATHER, SCATTER):
        return parts
    if collective in (BROADCAST, REDUCE, SEND_RECV):
        return np.ones_like(ranks)
    return np.full_like(ranks, np.nan)


SAMPLES: Final = 64  # draws for the interval of a job: each is a replay of all ranks together
# kind of an event at which ranks meet, before those of `Player.cuts` of the same time
MEETING: Final = -1
PARTS: Final = {
    "computation_us": "computation",
    "communication_us": "communication",
    "waiting_us": "waiting for peers",
    "copy_us": "copies",
    "idle_us": "idle",
}
"""What the time of a rank is made of -> its name: a moment counts for the first of them that is going on."""


class Together:
    """Replays of several ranks under way: each goes on until it needs the end of a collective.

    ``durations``, of shape (n,) each, are those of the activities, of collectives that meet their
    transfers: from the arrival of the last rank on. ``cpu`` is the time of each CPU's work,
    relative to the measured; ``paces`` are times of unknown cause of each graph, which ``drawn``
    multiplies.
    """

    def __init__(
        self,
        graphs: Sequence[Graph],
        durations: Sequence[FloatArray],
        meetings: Meetings,
        cpu: Sequence[float],
        paces: Sequence[Pace] | None = None,
        drawn: float = 1.0,
    ) -> None:
        self.players = []
        for place, graph in enumerate(graphs):
            times = durations[place][None].copy()
            ratio = np.full((1, 1), cpu[place])
            pace = None
            if paces is not None:
                pace = paces[place]
            self.players.append(Player(graph, times, ratio, pace, np.full((1, 1), drawn)))
        self.meetings = meetings
        # 1 while the ranks are on their way, 2 when it is over
        self.done = np.zeros(len(meetings), dtype=np.int64)
        self.at = [0] * len(graphs)
        self.events = []
        for rank, player in enumerate(self.players):
            events = [
                (float(player.graph.end_ns[row]), MEETING, number)
                for number, row in meetings.of_rank(rank)
            ]
            self.events.append(sorted(events + player.cuts()))

    def play(self) -> list[Times]:
        """Return when everything happens on every rank.

        Raises DataError: the ranks' orders of collectives contradict each other.
        """
        for number in self.meetings.order:
            self._meet(int(number))
        for rank in range(len(self.players)):
            self._advance(rank, np.inf)
        return [player.finish() for player in self.players]

    def _advance(self, rank: int, until: float, but: int = -1) -> None:
        """Go on with a rank through what was measured by then, up to the meeting that it is on its way to."""
        events = self.events[rank]
        while self.at[rank] < len(events) and events[self.at[rank]][0] <= until:
            _, kind, number = events[self.at[rank]]
            if kind == MEETING and number == but:
                return
            self.at[rank] += 1
            if kind == MEETING:
                self._meet(number)
            else:
                self.players[rank].cut(kind, number)

    def _meet(self, number: int) -> None:
        """Let all ranks of a collective arrive; it starts with the last."""
        if self.done[number] == 2:
            return
        if self.done[number] == 1:
            raise DataError(
                "collectives happen in another order on each rank: give the same steps of ranks "
                "of one job"
            )
        self.done[number] = 1
        members = self.meetings.members(number)
        for rank, row in members:
            player = self.players[rank]
            self._advance(rank, float(player.graph.start_ns[row]), number)
            player.through(row)
        shift = self.meetings.shift_ns
        last = max(self.players[rank].start[0, row] + shift[rank] for rank, row in members)
        for rank, row in members:
            player = self.players[rank]
            player.end[0, row] = (
                max(last - shift[rank], player.start[0, row]) + player.durations[0, row]
            )
            player.durations[0, row] = player.end[0, row] - player.start[0, row]
        self.done[number] = 2


@dataclass(frozen=True)
class Meetings:
    """Collectives of several graphs: places of graph (`rank`) and activity (`row`), sorted by `meeting` (0, 1, ...)."""

    meeting: IntArray
    rank: IntArray
    row: IntArray
    order: IntArray  # the meetings as they were measured
    shift_ns: FloatArray  # to a common clock, from the origin of each graph

    def __len__(self) -> int:
        return len(self.order)

    def members(self, number: int) -> list[tuple[int, int]]:
        """Return graph and activity of each rank of a meeting."""
        part = slice(*np.searchsorted(self.meeting, [number, number + 1]))
        return list(zip(self.rank[part].tolist(), self.row[part].tolist(), strict=True))

    def of_rank(self, rank: int) -> list[tuple[int, int]]:
        """Return meeting and activity of all meetings of a graph."""
        mine = self.rank == rank
        return list(zip(self.meeting[mine].tolist(), self.row[mine].tolist(), strict=True))


@dataclass(frozen=True)
class Job:
    """Several ranks of a job on another GPU."""

    ranks: tuple[int, ...]  # their numbers, ascending
    projections: tuple[Projection, ...]  # of each rank's trace alone
    matched: Matched  # the collectives they share
    meetings: Meetings  # the same as places in the graphs
    # what `projected_us` is by the published methodology, replayed in the same way
    published_us: float = np.nan

    @cached_property
    def waits(self) -> pd.DataFrame:
        """What each rank waits in each collective: the rows of `Matched.members`.

        `measured_wait_us`, `measured_transfer_us`; `wait_us`, `transfer_us` on the target;
        `late_us`, how much later than the one before the last rank arrives, on its row (0 on
        others'), and `last`, whether it is that one (none where several come last together): both
        as measured.
        """
        table = self.matched.members.copy()
        by = table.groupby("meeting")["start_ns"]
        last = by.transform("max")
        table["measured_wait_us"] = self._measured_wait / 1e3
        table["measured_transfer_us"] = self._transfer / 1e3
        shift = self.meetings.shift_ns
        places = list(zip(self.meetings.rank, self.meetings.row, strict=True))
        start = np.array([self.times[one].start_ns[0, at] + shift[one] for one, at in places])
        end = np.array([self.times[one].end_ns[0, at] + shift[one] for one, at in places])
        begins = pd.Series(start).groupby(self.meetings.meeting).transform("max").to_numpy()
        table["wait_us"] = (begins - start) / 1e3
        table["transfer_us"] = (end - begins) / 1e3
        latest = table["start_ns"].eq(last)
        second = table["start_ns"].where(~latest).groupby(table["meeting"]).transform("max")
        table["last"] = latest & (latest.groupby(table["meeting"]).transform("sum") == 1)
        table["late_us"] = np.where(table["last"], (last - second) / 1e3, 0.0)
        return table

    @property
    def _measured_wait(self) -> FloatArray:
        members = self.matched.members
        last = members.groupby("meeting")["start_ns"].transform("max")
        return np.asarray(
            np.minimum(last, members["end_ns"]) - members["start_ns"], dtype=np.float64
        )

    @property
    def _transfer(self) -> FloatArray:
        members = self.matched.members
        return (
            np.asarray(members["end_ns"] - members["start_ns"], dtype=np.float64)
            - self._measured_wait
        )

    @property
    def _factor(self) -> FloatArray:
        """The factor of each transfer: the laws are applied to it alone, without the waiting."""
        members = self.matched.members
        transfer_ns = self._transfer
        factor = np.ones(len(members))
        for place, one in enumerate(self.projections):
            of_rank = (members["rank"] == place).to_numpy()
            rows = one.activities.iloc[members["row"].to_numpy()[of_rank]]
            rows = rows.assign(
                duration_ns=pd.array(transfer_ns[of_rank].round().astype(np.int64), dtype="Int64")
            )
            factor[of_rank] = collective_factors(rows, one.host, one.target, one.laws)[
                FACTOR
            ].to_numpy()
        return factor

    @cached_property
    def _durations(self) -> list[FloatArray]:
        """The time of each rank's activities on the target, in the order of its graph; of collectives the transfer."""
        durations = [one.projected_ns.copy() for one in self.projections]
        projected = self._transfer * self._factor
        for rank in range(len(self.projections)):
            of_rank = self.meetings.rank == rank
            durations[rank][self.meetings.row[of_rank]] = projected[of_rank]
        return durations

    @cached_property
    def times(self) -> list[Times]:
        """The replay of all ranks together on the target."""
        graphs = [one.target_graph for one in self.projections]
        cpu = [one.cpu for one in self.projections]
        return Together(graphs, self._durations, self.meetings, cpu).play()

    @property
    def measured_us(self) -> float:
        """Measured time from the first start to the last end of all ranks."""
        return self._span([(one.graph.start_ns, one.graph.end_ns) for one in self.projections])

    @property
    def projected_us(self) -> float:
        """The same on the target."""
        return self._span([(times.start_ns[0], times.end_ns[0]) for times in self.times])

    def _span(self, times: Sequence[tuple[FloatArray, FloatArray]]) -> float:
        parts = zip(times, self.projections, self.meetings.shift_ns, strict=True)
        spans = [
            (start[one.counted].min() + by, end[one.counted].max() + by)
            for (start, end), one, by in parts
        ]
        return float(max(end for _, end in spans) - min(start for start, _ in spans)) / 1e3

    @cached_property
    def split(self) -> pd.DataFrame:
        """Where each rank's time goes, as measured and on the target.

        One row per rank: `rank`; `PARTS` and `total_us` on the target, as measured with
        ``measured_`` before; `last`, to how many collectives it came last, and `late_us`, how much
        later than the one before in all of them; `overlap` and `measured_overlap`, the share of
        the time of communication in which it computes too (`overlap`).
        """
        rows = []
        for place, (rank, one, times) in enumerate(
            zip(self.ranks, self.projections, self.times, strict=True)
        ):
            of_rank = self.waits[self.waits["rank"] == place]
            at = self.meetings.row[self.meetings.rank == place]
            now = _parts(
                one, times.start_ns[0], times.end_ns[0], at, of_rank["wait_us"].to_numpy() * 1e3
            )
            wait = of_rank["measured_wait_us"].to_numpy() * 1e3
            was = _parts(one, one.graph.start_ns, one.graph.end_ns, at, wait)
            before = {f"measured_{name}": value for name, value in was.items()}
            category = one.activities[CATEGORY].astype(object).to_numpy()[one.graph.rows]
            rows.append(
                {
                    "rank": rank,
                    **now,
                    **before,
                    "last": int(of_rank["last"].sum()),
                    "late_us": of_rank["late_us"].sum(),
                    "overlap": overlap(category, times.start_ns[0], times.end_ns[0]),
                    "measured_overlap": overlap(category, one.graph.start_ns, one.graph.end_ns),
                }
            )
        return pd.DataFrame(rows)

    @cached_property
    def collectives(self) -> pd.DataFrame:
        """What is sent and waited in each kind of collective, the longest time first.

        `collective`, `group`, `ranks`, `message_bytes`; `count` of collectives, `members` (traces
        that have it); `kernel_us`, `wait_us`, `transfer_us`, as measured, and `projected_wait_us`,
        `projected_transfer_us`: means of a rank and collective; `model_us`, what the model of the
        host's links says (NaN where it says nothing); `start_skew_us` and `end_skew_us`, by how
        much the first rank starts and ends before the last, as measured; `algorithm_gbs`, GB/s of
        the message over the transfer, and `bus_gbs`, the bandwidth of the bus (`bus_factor`), as
        measured, `projected_bus_gbs` on the target.
        """
        table = self.waits.rename(columns={"size_bytes": "message_bytes"})
        table["kernel_us"] = table["measured_wait_us"] + table["measured_transfer_us"]
        means = {
            "kernel_us": "kernel_us",
            "measured_wait_us": "wait_us",
            "measured_transfer_us": "transfer_us",
            "wait_us": "projected_wait_us",
            "transfer_us": "projected_transfer_us",
        }
        by = table.groupby(
            ["collective", "group", "ranks", "message_bytes"], dropna=False, sort=True
        )
        kinds = by[list(means)].mean().rename(columns=means)
        kinds.insert(0, "members", by["rank"].nunique())
        kinds.insert(0, "count", by["meeting"].nunique())
        order = (
            (kinds["count"] * kinds["kernel_us"]).sort_values(ascending=False, kind="stable").index
        )
        kinds = kinds.loc[order].reset_index()
        one = self.projections[0]
        network = ONE_NODE
        if one.laws.world is not None:
            network = one.laws.world.host
        members = kinds["group"].map(lambda group: str(group).rpartition(" ")[2])
        messages = kinds.rename(columns={"message_bytes": "bytes"}).assign(
            stride=members.map(stride_of)
        )
        kinds = kinds.assign(model_us=model_us(messages, one.host, network))
        return kinds.assign(**_bandwidths(kinds)).merge(
            _skews(table), on=list(_SAME), how="left", validate="one_to_one"
        )

    @cached_property
    def causes(self) -> pd.DataFrame:
        """What the last rank did while the others waited for it, as measured, by rank that came last.

        `rank`; `waited_us`, what all others waited for it; `CAUSES` (µs), the parts of that: the
        last rank computed, communicated in another collective, copied, or ran nothing on its GPU
        (the CPU and its launches); a moment counts for the first of them that was going on.
        """
        table = self.waits
        by_meeting = []
        covered = [_Covered.of(one) for one in self.projections]
        for _, of_meeting in table.groupby("meeting", sort=False):
            last = of_meeting["start_ns"].to_numpy().argmax()
            place = int(of_meeting["rank"].iloc[last])
            until = float(of_meeting["start_ns"].iloc[last]) - self.meetings.shift_ns[place]
            begin = until - 1e3 * of_meeting["measured_wait_us"].to_numpy(dtype=float)
            parts = covered[place].parts_us(begin, np.full(len(begin), until))
            by_meeting.append({"rank": self.ranks[place], **parts})
        by_rank = pd.DataFrame(by_meeting).groupby("rank", sort=True)[list(CAUSES)].sum()
        by_rank.insert(0, "waited_us", by_rank.sum(axis=1))
        return by_rank.reset_index()

    def uncertainty(
        self, *, level: float = LEVEL, samples: int = SAMPLES, seed: int = 0
    ) -> Uncertainty:
        """Return how sure the time of the job is: the sources of error of all ranks, each common to all of them.

        A class of kernels is as unsure as on the rank where it is least sure. What is drawn is
        replayed together; the part of a collective that waits for peers follows from it.
        """
        factors = _common_factors([sources_of(one) for one in self.projections])
        names = [factor.name for factor in factors]

        def simulate(draws: FloatArray) -> FloatArray:
            return np.array([self._drawn_us(dict(zip(names, row, strict=True))) for row in draws])

        unsure = propagate(simulate, factors, level=level, samples=samples, seed=seed)
        gravest = max(self.projections, key=lambda one: one.doubts.reach)
        if gravest.doubts.reach:
            return with_doubts(unsure, gravest.doubts)
        return unsure

    def _drawn_us(self, draw: Mapping[str, float]) -> float:
        """Return the time of the job with each source of error at a factor."""
        durations = []
        cpu = []
        for one, rank_ns in zip(self.projections, self._durations, strict=True):
            classes = class_of(one.activities)[one.graph.rows]
            scale = np.array([draw.get(str(name), 1.0) for name in classes])
            durations.append(rank_ns * scale)
            cpu.append(one.cpu * draw.get(CPU, 1.0) * draw.get(PROFILER, 1.0))
        graphs = [one.target_graph for one in self.projections]
        paces = [pace_of(one) for one in self.projections]
        together = Together(graphs, durations, self.meetings, cpu, paces, draw.get(GAPS, 1.0))
        times = together.play()
        return self._span([(one.start_ns[0], one.end_ns[0]) for one in times])

    @cached_property
    def activities(self) -> pd.DataFrame:
        """The activities of all ranks (`Projection.activities`), on the clock of the first.

        `projected_start_ns`, `projected_us`, as replayed together, and `wait_us`, the part of it
        that waits for peers.
        """
        parts = []
        for place, (rank, one, times) in enumerate(
            zip(self.ranks, self.projections, self.times, strict=True)
        ):
            graph = one.graph
            shift = float(self.meetings.shift_ns[place])
            columns = {
                name: np.zeros(len(graph))
                for name in ("projected_start_ns", "projected_us", "wait_us")
            }
            columns["projected_start_ns"][graph.rows] = (times.start_ns[0] + shift).round()
            columns["projected_us"][graph.rows] = (times.end_ns[0] - times.start_ns[0]) / 1e3
            of_rank = self.waits[self.waits["rank"] == place]
            columns["wait_us"][of_rank["row"].to_numpy()] = of_rank["wait_us"].to_numpy()
            start = one.activities["start_ns"].to_numpy() - graph.origin_ns + round(shift)
            parts.append(one.activities.assign(rank=rank, **columns).assign(start_ns=start))
        table = pd.concat(parts, ignore_index=True)
        return table.assign(projected_start_ns=table["projected_start_ns"].astype("int64"))

    @cached_property
    def sent(self) -> pd.DataFrame:
        """What all traced ranks send, by kind of collective (`communication_table`)."""
        return communication_table(pd.concat([one.communication for one in self.projections]))

    @cached_property
    def pairs(self) -> pd.DataFrame:
        """What every traced rank sends every other (`pair_volumes`)."""
        parts = zip(self.ranks, self.projections, strict=True)
        return pair_volumes([(rank, one.communication) for rank, one in parts])


_SAME: Final = ("collective", "group", "ranks", "message_bytes")
"""Columns that make one kind of collective of a job."""


def _bandwidths(kinds: pd.DataFrame) -> dict[str, FloatArray]:
    """Return the bandwidths of kinds of collectives, GB/s, as columns of `Job.collectives`."""
    factor = np.full(len(kinds), np.nan)
    ranks = kinds["ranks"].to_numpy(dtype=float)
    for name in kinds["collective"].unique():
        of_kind = kinds["collective"].eq(name).to_numpy()
        factor[of_kind] = bus_factor(str(name), ranks[of_kind])
    message = kinds["message_bytes"].to_numpy(dtype=float)
    with np.errstate(divide="ignore", invalid="ignore"):
        measured = message / kinds["transfer_us"].to_numpy(dtype=float) / 1e3
        projected = message / kinds["projected_transfer_us"].to_numpy(dtype=float) / 1e3
    return {
        "algorithm_gbs": measured,
        "bus_gbs": measured * factor,
        "projected_bus_gbs": projected * factor,
    }


def _skews(members: pd.DataFrame) -> pd.DataFrame:
    """Return by how much the ranks of a kind of collective start, and end, apart: means, µs."""
    by = members.groupby("meeting")
    spans = pd.DataFrame(
        {
            "start_skew_us": (by["start_ns"].max() - by["start_ns"].min()) / 1e3,
            "end_skew_us": (by["end_ns"].max() - by["end_ns"].min()) / 1e3,
        }
    )
    kinds = members.drop_duplicates("meeting").set_index("meeting")[list(_SAME)]
    joined = kinds.join(spans)
    means = joined.groupby(list(_SAME), dropna=False)[["start_skew_us", "end_skew_us"]].mean()
    return means.reset_index()


CAUSES: Final = {
    "computation_us": "computes",
    "communication_us": "communicates",
    "copy_us": "copies",
    "idle_us": "runs nothing",
}
"""What a rank does while others wait for it -> what tables say."""


@dataclass(frozen=True)
class _Covered:
    """Stretches of a rank's measured time in which it computed; or communicated; or copied: each with those before."""

    unions: tuple[tuple[FloatArray, FloatArray], ...]

    @classmethod
    def of(cls, one: Projection) -> _Covered:
        """Return the stretches of a trace, in the order of `CAUSES`."""
        category = one.activities[CATEGORY].astype(object).to_numpy()[one.graph.rows]
        level = np.where(category == COPY, 2, np.where(category == COMMUNICATION, 1, 0))
        unions = []
        for number in range(len(CAUSES) - 1):
            within = level <= number
            unions.append(_union(one.graph.start_ns[within], one.graph.end_ns[within]))
        return cls(tuple(unions))

    def parts_us(self, begin: FloatArray, end: FloatArray) -> dict[str, float]:
        """Return the time of each of `CAUSES` within some stretches, µs."""
        so_far = 0.0
        parts = {}
        for name, union in zip(CAUSES, self.unions, strict=False):
            length = float((covered(union, end) - covered(union, begin)).sum()) / 1e3
            parts[name] = length - so_far
            so_far = length
        parts["idle_us"] = float((end - begin).sum()) / 1e3 - so_far
        return parts


def _union(start: FloatArray, end: FloatArray) -> tuple[FloatArray, FloatArray]:
    """Return the disjoint stretches that some cover together, in order."""
    order = np.argsort(start, kind="stable")
    starts = start[order]
    reach = np.maximum.accumulate(end[order])
    first = np.r_[True, starts[1:] > reach[:-1]][: len(starts)]
    return starts[first], reach[np.r_[first[1:], True][: len(starts)]]


def _length(stretches: tuple[FloatArray, FloatArray]) -> float:
    return float((stretches[1] - stretches[0]).sum())


def overlap(category: np.ndarray, start: FloatArray, end: FloatArray) -> float:
    """Return the share of the time of communication in which a rank computes too; NaN where it does not communicate.

    HTA's "communication computation overlap": both are unions, so that streams count once. Arrays
    are of shape (n_activities,).

    >>> kinds = np.array(["communication", "compute"])
    >>> overlap(kinds, np.array([0.0, 5.0]), np.array([10.0, 8.0]))
    0.3
    """
    communicates = category == COMMUNICATION
    both = communicates | (category == COMPUTE)
    sent = _length(_union(start[communicates], end[communicates]))
    if not sent:
        return float("nan")
    computed = _length(_union(start[category == COMPUTE], end[category == COMPUTE]))
    return (sent + computed - _length(_union(start[both], end[both]))) / sent


def _common_factors(ranks: Sequence[Sequence[Factor]]) -> list[Factor]:
    """Return the sources of error of all ranks, each once: as unsure as where it is least sure."""
    factors: dict[str, Factor] = {}
    for factor in (one for of_rank in ranks for one in of_rank):
        if factor.name not in factors or factor.sigma > factors[factor.name].sigma:
            factors[factor.name] = factor
    return list(factors.values())


def _parts(
    one: Projection, start: FloatArray, end: FloatArray, at: IntArray, wait_ns: FloatArray
) -> dict[str, float]:
    """Return the parts of a rank's time (`PARTS`), and the total; waiting is split off its collectives."""
    category = one.activities[CATEGORY].astype(object).to_numpy()[one.graph.rows]
    level = np.where(category == COPY, 3, np.where(category == COMMUNICATION, 1, 0)).astype(
        np.int64
    )
    begin = start.copy()
    begin[at] += wait_ns
    counted = one.counted
    waits = counted[at]
    starts = np.r_[begin[counted], start[at][waits]]
    lengths = np.r_[(end - begin)[counted], wait_ns[waits]]
    levels = np.r_[level[counted], np.full(int(waits.sum()), 2)]
    split_ns = attributed_time(starts, np.maximum(lengths, 0.0), levels)
    total = float(end[counted].max() - start[counted].min())
    parts = [float(split_ns[levels == number].sum()) for number in range(4)]
    values = [*parts, max(0.0, total - sum(parts)), total]
    return {
        name: round(value / 1e3, 6)
        for name, value in zip((*PARTS, "total_us"), values, strict=True)
    }


def project_job(
    traces: Sequence[tuple[str, Annotated]], host: GPU, target: GPU, laws: Laws | None = None
) -> Job:
    """Project the traces of several ranks of one job together, at least two, each with its label.

    ``laws`` are those of `project_trace`; what collectives wait for peers is measured here, so that
    `keep_waiting` does nothing. Raises DataError: there are fewer than two, two of one rank, their
    collectives do not match (`match`), or a trace cannot be projected.
    """
    if len(traces) < 2:
        raise DataError("a job replayed together needs the traces of at least two ranks")
    stated = [trace.dispatches["rank"].dropna() for _, trace in traces]
    numbers = [int(rank.iloc[0]) if len(rank) else place for place, rank in enumerate(stated)]
    order = sorted(range(len(traces)), key=lambda place: numbers[place])
    ranks = tuple(numbers[place] for place in order)
    twice = [rank for rank in ranks if ranks.count(rank) > 1]
    if twice:
        raise DataError(
            f"two traces are of rank {twice[0]}: give one of each", source=traces[-1][0]
        )
    labels = [traces[place][0] for place in order]
    ordered = [traces[place][1] for place in order]
    matched = match([trace.dispatches for trace in ordered], labels)
    laws = replace(laws or Laws(), keep_waiting=False)
    projections = tuple(project_trace(trace, host, target, laws) for trace in ordered)
    members = matched.members
    rank, activity, meeting = (
        members[name].to_numpy(dtype=np.int64) for name in ("rank", "row", "meeting")
    )
    row = np.zeros(len(members), dtype=np.int64)
    for place, one in enumerate(projections):
        row[rank == place] = np.argsort(one.graph.rows)[activity[rank == place]]
    ends = members.groupby("meeting")["end_ns"].min().to_numpy()
    meetings = Meetings(meeting, rank, row, np.argsort(ends, kind="stable"), matched.offset_ns)
    simple = replace(PUBLISHED, network=laws.network, keep_waiting=False)
    rule = tuple(
        project_trace(trace, host, target, simple, graph=one.graph)
        for trace, one in zip(ordered, projections, strict=True)
    )
    return Job(
        ranks, projections, matched, meetings, Job(ranks, rule, matched, meetings).projected_us
    )

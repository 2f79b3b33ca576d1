"""Ranks of one job: which collectives of their traces are the same, how far apart the clocks are, and what is sent.

A collective is known by its group of ranks (by the group's size, where the trace has neither name nor members) and its
number in that group: the one that the producer counted (`group_number`) where every trace has it, else its place in the
order of the trace. Where traces of a group have not as many, those they begin with are matched. Kernels of a collective
end together, whenever they began: the median distance of the ends of common collectives is that of the clocks.

The volume that is sent is what the collective needs, whatever algorithm moves it: with n ranks a rank sends each of its
n - 1 peers the same part of what the direct algorithm sends (`alpha_beta.cost_terms`). A ring moves as much in all,
through neighbours. Who meets whom in messages between two ranks is not recorded: they have no pair.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import pandas as pd

from ..arrays import FloatArray
from ..errors import DataError, few
from .alpha_beta import ALL_TO_ALL, DIRECT, SEND_RECV, collectives_of, cost_terms
from .phases import repeats_of
from .split import COMMUNICATION, categories


@dataclass(frozen=True)
class Matched:
    """The collectives that several ranks' traces share.

    Attributes
    ----------
    members : DataFrame
        One row per rank and collective, in the order of `meeting`: `meeting` (number of the collective), `rank` (place
        of the trace), `row` (place in its table), `group`, `collective`, `ranks` and `size_bytes` (NaN where unknown),
        `start_ns` and `end_ns`, on the clock of the first trace from its first activity on.
    offset_ns : ndarray of shape (n_ranks,)
        What to add to the times of each trace, from its first activity on, to have them on the clock of the first.
    clock_error_ns : float
        Median distance of the ends of one collective, so aligned; the largest of the ranks.
    unmatched : int
        Collectives that only some traces of their group have, and messages between two ranks.
    """

    members: pd.DataFrame
    offset_ns: FloatArray
    clock_error_ns: float
    unmatched: int


def match(tables: Sequence[pd.DataFrame], labels: Sequence[str]) -> Matched:
    """Match the collectives of the dispatch tables of several ranks.

    Raises
    ------
    DataError
        The traces have no collective in common, or differ in the name or size of one.
    """
    found = [_collectives(table).assign(rank=place) for place, table in enumerate(tables)]
    every = pd.concat(found, ignore_index=True)
    numbered = every["number"].notna().all() and not every.duplicated(["rank", "group", "number"]).any()
    every["place"] = every["number"] if numbered else every.groupby(["rank", "group"]).cumcount().astype(float)
    meeting = every.groupby(["group", "place"], sort=False)
    together = every[meeting["rank"].transform("size") > 1]
    between_two = sum(int(collectives_of(_communication(table)).eq(SEND_RECV).sum()) for table in tables)
    unmatched = len(every) - len(together) + between_two
    if together.empty:
        raise DataError(f"no collective in common: {few(labels)} must be ranks of one job, recorded in the same steps")
    _check_members(together)
    _check_alike(together, labels)
    members = together.assign(meeting=together.groupby(["group", "place"], sort=False).ngroup())
    offset = _offsets(members, labels)
    for name in ("start_ns", "end_ns"):
        members[name] = members[name] + offset[members["rank"].to_numpy()]
    ends = members.groupby("meeting")["end_ns"]
    error = (members["end_ns"] - ends.transform("median")).abs().groupby(members["rank"]).median().max()
    order = ["meeting", "rank", "row", "group", "collective", "ranks", "size_bytes", "start_ns", "end_ns"]
    members = members[order].sort_values(["meeting", "rank"], ignore_index=True)
    return Matched(members, offset, float(error), unmatched)


def _communication(table: pd.DataFrame) -> pd.DataFrame:
    return table[(categories(table) == COMMUNICATION).to_numpy()]


def _collectives(table: pd.DataFrame) -> pd.DataFrame:
    """Return the collectives of one trace in the order of their start, times from its first activity on."""
    first = int(table["start_ns"].min()) if len(table) else 0
    rows = np.flatnonzero((categories(table) == COMMUNICATION).to_numpy())
    part = table.iloc[rows]
    group = (part["group_name"].astype(object) + " " + part["group_ranks"].astype(object)).str.strip()
    of_size = "of " + part["group_size"].astype("string").fillna("unknown size")
    found = pd.DataFrame(
        {
            "row": rows,
            "group": group.where(group != "", of_size).to_numpy(dtype=object),
            "number": part["group_number"].astype("Float64").to_numpy(dtype=float, na_value=np.nan),
            "collective": collectives_of(part).to_numpy(dtype=object),
            "ranks": part["group_size"].astype("Float64").to_numpy(dtype=float, na_value=np.nan),
            "size_bytes": part["collective_bytes"].astype("Float64").to_numpy(dtype=float, na_value=np.nan),
            "start_ns": (part["start_ns"] - first).to_numpy(dtype=float),
            "end_ns": (part["start_ns"] - first + part["duration_ns"].clip(lower=0)).to_numpy(dtype=float),
        }
    )
    known = ~found["collective"].isin(["", SEND_RECV])
    return found[known].sort_values("start_ns", kind="stable", ignore_index=True)


def _check_members(together: pd.DataFrame) -> None:
    """Raise where more traces have a collective than there are ranks: two groups that the traces do not tell apart."""
    traces = together.groupby(["group", "place"], sort=False)["rank"].transform("size")
    if (many := traces > together["ranks"]).any():
        row = together[many].iloc[0]
        raise DataError(
            f"{traces[many].iloc[0]} traces have a collective of {row['ranks']:g} ranks, and do not say of which: "
            "give the traces of one group"
        )


def _check_alike(together: pd.DataFrame, labels: Sequence[str]) -> None:
    """Raise where the ranks of one collective call it differently, or differ in the size of what all must share."""
    sizes = together["size_bytes"].where(together["collective"] != ALL_TO_ALL)
    first = together.assign(size_bytes=sizes).groupby(["group", "place"], sort=False)
    other = together["collective"].ne(first["collective"].transform("first"))
    other |= sizes.notna() & sizes.ne(first["size_bytes"].transform("first"))
    if not other.any():
        return
    row = together[other].iloc[0]
    same = together["group"].eq(row["group"]) & together["place"].eq(row["place"])
    told = [
        f"{each['collective']} of {each['size_bytes']:,.0f} bytes in {labels[int(each['rank'])]}"
        for each in (together[same].iloc[0], row)
    ]
    group = f" of group {row['group']}" if row["group"] else ""
    raise DataError(
        f"collective {row['place']:.0f}{group} is {' and '.join(told)}: give the same steps of ranks of one job"
    )


def _offsets(members: pd.DataFrame, labels: Sequence[str]) -> FloatArray:
    """Return the offset of each trace's clock, from the ends of what it shares with traces that have one already."""
    ends = members.pivot_table(index="meeting", columns="rank", values="end_ns").reindex(columns=range(len(labels)))
    known = ends.to_numpy()
    offset = np.full(len(labels), np.nan)
    offset[0] = 0.0
    while np.isnan(offset).any():
        there = ~np.isnan(offset)
        common = (~np.isnan(known[:, there])).any(axis=1)
        shared = np.where(there, -1, (~np.isnan(known[common])).sum(axis=0))
        new = int(np.argmax(shared))
        if shared[new] < 1:
            others = few(label for label, known_too in zip(labels, there.tolist(), strict=True) if known_too)
            raise DataError(f"shares no collective with {others}", source=labels[new])
        rows = common & ~np.isnan(known[:, new])
        aligned = np.nanmedian(known[rows][:, there] + offset[there], axis=1)
        offset[new] = float(np.median(aligned - known[rows, new]))
    return offset


KIND = ("collective", "group", "ranks", "message_bytes")
"""Columns that make one kind of message: `group` is the group's name, "" where the trace has none."""


def communication_table(activities: pd.DataFrame) -> pd.DataFrame:
    """Return what is sent by each kind of collective, the longest time first.

    ``activities`` are rows of a projection (`Projection.activities`), communication only. The columns are `KIND`;
    `count`; `sent_bytes`, of one rank in all of them, NaN where size, ranks or collective are not known; `measured_us`,
    `projected_us`.
    """
    numbers = {
        name: activities[column].astype("Float64").to_numpy(dtype=np.float64, na_value=np.nan)
        for name, column in (("ranks", "group_size"), ("message_bytes", "collective_bytes"))
    }
    rows = pd.DataFrame(
        {
            "collective": collectives_of(activities).to_numpy(dtype=object),
            "group": activities["group_name"].astype(object).to_numpy(),
            **numbers,
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
    return table[order].sort_values("measured_us", ascending=False, kind="stable", ignore_index=True)


def sent_bytes(kinds: pd.DataFrame) -> FloatArray:
    """Return what one rank sends in one collective of each kind, NaN where that is not known."""
    found = np.full(len(kinds), np.nan)
    for name, rows in kinds.reset_index(drop=True).groupby("collective", sort=False):
        if name:
            ranks = rows["ranks"].to_numpy(dtype=float)
            _, volume = cost_terms(DIRECT, str(name), np.where(ranks >= 1, ranks, np.nan))
            found[rows.index] = volume * rows["message_bytes"].to_numpy(dtype=float)
    return found


def pair_volumes(traces: Sequence[tuple[int, pd.DataFrame]]) -> pd.DataFrame:
    """Return what every rank that was traced sends every other: `rank`, `peer`, `collective`, `sent_bytes`.

    ``traces`` are pairs of a rank and its communication activities. Collectives whose group, size or name is not
    recorded, and messages between two ranks, are left out.
    """
    found = []
    for rank, activities in traces:
        members = activities["group_ranks"].astype(object).to_numpy()
        table = communication_table(activities.assign(group_name=members))
        for row in table[table["sent_bytes"].notna() & table["group"].ne("")].itertuples():
            peers = [int(peer) for peer in str(row.group).split(",") if int(peer) != rank]
            if row.collective != SEND_RECV and peers:
                each = float(row.sent_bytes) / len(peers)  # type: ignore[arg-type]
                found += [(rank, peer, str(row.collective), each) for peer in peers]
    table = pd.DataFrame(found, columns=["rank", "peer", "collective", "sent_bytes"])
    return table.groupby(["rank", "peer", "collective"])["sent_bytes"].sum().reset_index()

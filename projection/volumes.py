"""What a job's ranks send each other: bytes by collective, and between every pair of ranks.

The volume is what the collective needs, whatever algorithm moves it: with n ranks a rank sends each of its n - 1 peers
the same part of what the direct algorithm sends (`alpha_beta.cost_terms`). A ring moves as much in all, through
neighbours. Who meets whom in messages between two ranks is not recorded: they have no pair.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from .alpha_beta import DIRECT, SEND_RECV, collectives_of, cost_terms
from .phases import repeats_of

FloatArray = NDArray[np.float64]
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

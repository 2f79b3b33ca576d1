"""The place of a kernel in a program: its name and the number of its occurrence, the same in every run.

Runs that each profile a part of the kernels, or collect other counters, have nothing else in common: times differ, and
the numbers of dispatches count what a run leaves out.
"""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np
import pandas as pd

from ...errors import DataError
from ..codes import codes_of
from ..dispatches.table import KERNEL
from ..dispatches.work import launch_product

PLACE = ("rank", "device_number", "name", "occurrence")
"""Columns that make a place."""


def places_of(table: pd.DataFrame) -> pd.DataFrame:
    """Return the place of every kernel of a run.

    Parameters
    ----------
    table : DataFrame
        Dispatch table of one run.

    Returns
    -------
    DataFrame
        One row per kernel, indexed as in `table`, in the order of their start: `rank` (-1 where there is none),
        `device_number` (GPUs counted from 0 in the order of their numbers, per rank), `name`, `occurrence` (from 1 on),
        `workgroups` and `threads` of the launch (NaN where not recorded), `duration_us`, `source`.
    """
    kernels = table[table["kind"].astype(str) == KERNEL]
    kernels = kernels.iloc[np.argsort(kernels["start_ns"].to_numpy(), kind="stable")]
    rank = kernels["rank"].fillna(-1).astype(np.int64)
    device = kernels["gpu"].fillna(-1).astype(np.int64).groupby(rank).rank(method="dense").astype(np.int64) - 1
    name = kernels["name"].astype(str)
    occurrence = name.groupby(codes_of([rank, device, name])).cumcount() + 1 if len(name) else name.astype(np.int64)
    launch = {stem: launch_product(kernels, stem) for stem in ("grid", "block")}
    return pd.DataFrame(
        {
            "rank": rank,
            "device_number": device,
            "name": name,
            "occurrence": occurrence,
            "workgroups": launch["grid"],
            "threads": launch["block"],
            "duration_us": kernels["duration_ns"] / 1e3,
            "source": kernels["source"].astype(str),
        },
        index=kernels.index,
    )


def every_place(runs: Mapping[str, pd.DataFrame]) -> pd.DataFrame:
    """Return the places of several runs of one program below each other, `run` the name of each.

    Raises
    ------
    DataError
        Two runs launch the kernel of one place differently: they are not the same program, or not the same input.
    """
    every = pd.concat([places_of(table).assign(run=run) for run, table in runs.items()], ignore_index=True)
    check_launches(every)
    return every


def check_launches(every: pd.DataFrame) -> None:
    """Refuse runs that launch the kernel of one place differently.

    Parameters
    ----------
    every : DataFrame
        Places of several runs (`places_of`), `run` the name of each.

    Raises
    ------
    DataError
        Two runs differ in the workgroups or threads of a place where both have recorded them.
    """
    place = every.groupby(list(PLACE), sort=False)
    for column in ("workgroups", "threads"):
        differs = every[column].notna() & (every[column] != place[column].transform("first"))
        if not differs.any():
            continue
        row = every[differs].iloc[0]
        same = every[(every[list(PLACE)] == row[list(PLACE)]).all(axis=1) & every[column].notna()].iloc[0]
        raise DataError(
            f"kernel {row['name']!r}, occurrence {row['occurrence']}: {column} {same[column]:g} in {same['run']} "
            f"({same['source']}), {row[column]:g} in {row['run']} ({row['source']}): give runs of one program on the "
            "same input"
        )

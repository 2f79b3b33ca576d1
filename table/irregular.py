"""Rows that do not go with their like: repeats of a problem that disagree, and times off both neighbours in size.

The rule, by the time t of a row:

- Repeats (one kernel, problem, device and state of the cache) *disagree* where the greatest time is
  over `OFF` times the least. The median is kept. A repeat over √`FAR` times off it is refused: of
  two repeats 50 times apart both are.
- A row is a *spike* where t is over `OFF` times slower, or faster, than both the next smaller and
  the next larger size along one dimension, all else being equal, and these two agree: the larger
  takes no less than 1 / `OFF` of the time of the smaller, and no more than `OFF` times what its
  size explains. A row is judged by the first dimension in which it has two neighbours, by the
  fastest kernel of its problem. It stays in table and evidence, beside which errors without such
  rows are given. A row over `FAR` times off is refused, unless another kernel of its problem
  confirms it.

Of 560,000 rows of public tables 2.5 % are spikes, and none is refused. Time grows with n log n.
"""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import dataclass
from typing import Final

import numpy as np
import pandas as pd

from ..operators.operators import each_op
from ..remarks import Remark, remark
from .measurements import REFUSED, REFUSED_DETAIL
from .physics import KEEP
from .problems import codes_of, comparable, merged_by, number_runs, problem_columns, problem_ids

OFF: Final = 1.3
FAR: Final = 30.0
COLUMNS: Final = ("source", "row", "device", "op", "duration_us", "factor", "beside")
"""Of a table of such rows: where it was read, and under which `source` the row stands in the table
(repeats are one row); how many times slower it is than its like, below 1 where it is faster, and
beside what."""


def off_neighbours(
    key: np.ndarray, size: np.ndarray, time: np.ndarray
) -> tuple[np.ndarray, np.ndarray]:
    """Return the factor by which each row is a spike, 1 for others, and its neighbours in size.

    Rows of one ``key`` differ in their ``size`` alone, and each size occurs once; all are (n,), the
    neighbours (2, n): places of the next smaller and the next larger, -1 of a row that has not
    both.

    >>> off_neighbours(np.zeros(4), np.array([1, 2, 4, 8]), np.array([10.0, 90.0, 15.0, 16.0]))[0].tolist()
    [1.0, 6.0, 1.0, 1.0]
    """
    factor = np.ones(len(time))
    beside = np.full((2, len(time)), -1)
    order = np.lexsort((size, key))
    keys = key[order]
    place = 1 + np.flatnonzero(keys[:-2] == keys[2:])
    before, row, after = (order[place + step] for step in (-1, 0, 1))
    with np.errstate(divide="ignore", invalid="ignore"):
        slower = time[row] / np.maximum(time[before], time[after])
        faster = time[row] / np.minimum(time[before], time[after])
        growth = time[after] / time[before]
        agree = (
            (growth >= 1 / OFF)
            & (growth <= OFF * np.maximum(size[after] / size[before], 1))
            & (time[row] > 0)
        )
    factor[row] = np.where(
        agree & (slower > OFF), slower, np.where(agree & (faster < 1 / OFF), faster, 1.0)
    )
    beside[:, row] = before, after
    return factor, beside


@dataclass(frozen=True)
class Settled:
    """A table without its repeats, or without its spikes."""

    frame: pd.DataFrame
    # which row of the table before each is, of repeats the first; shape (len(frame),)
    places: np.ndarray
    repeats: int  # rows that were merged into others, or numbered
    odd: pd.DataFrame  # rows that do not go with their like and stay, as `COLUMNS`
    # rows of the table before that are refused, with `REFUSED` and `REFUSED_DETAIL`; the index has
    # their places
    refused: pd.DataFrame


def without_repeats(frame: pd.DataFrame, each: bool = False, keep: Collection[str] = ()) -> Settled:
    """Return the table with repeats merged, or numbered if ``each`` is to stay a row; contradicting ones apart."""
    frame = frame.reset_index(drop=True)
    ids = problem_ids(frame, kernel=True)
    odd, far = _contradictions(frame, ids)
    far &= KEEP not in keep
    places = np.flatnonzero(~far)
    refused = frame.iloc[:0]
    kept = frame
    if far.any():
        detail = [f"{time:.4g} µs" for time in frame["duration_us"][far]]
        refused = frame[far].copy()  # a copy holds wide tables of counters together
        refused[REFUSED] = "contradicting-repeats"
        refused[REFUSED_DETAIL] = detail
        kept = frame.iloc[places].reset_index(drop=True)
        ids = ids[places]
        odd = odd[odd["row"].isin(kept["source"]) & odd["source"].isin(kept["source"])].reset_index(
            drop=True
        )
    once = merged_by(kept, ids)
    if not each:
        places = places[~pd.Series(ids).duplicated().to_numpy()]
    return Settled(number_runs(kept) if each else once, places, len(kept) - len(once), odd, refused)


def without_spikes(frame: pd.DataFrame, keep: Collection[str] = ()) -> Settled:
    """Return the table, repeats merged, without rows too far off their neighbours; other spikes stay."""
    odd = spikes(frame)
    if odd.empty:
        return Settled(frame, np.arange(len(frame)), 0, odd.drop(columns="alone"), frame.iloc[:0])
    far = np.abs(np.log(odd["factor"].to_numpy(dtype=float))) > np.log(FAR)
    far &= odd.pop("alone").to_numpy(dtype=bool) & (KEEP not in keep)
    removed = odd[far].sort_index()
    detail = [f"{times(row.factor)} than {row.beside}" for row in removed.itertuples()]
    refused = frame.loc[removed.index].copy()  # a copy holds wide tables of counters together
    refused[REFUSED] = "far-off-neighbours"
    refused[REFUSED_DETAIL] = detail
    if far.any():
        kept = frame.drop(index=removed.index).reset_index(drop=True)
    else:
        kept = frame
    places = np.delete(np.arange(len(frame)), removed.index)
    return Settled(kept, places, 0, odd[~far].reset_index(drop=True), refused)


def _contradictions(frame: pd.DataFrame, ids: np.ndarray) -> tuple[pd.DataFrame, np.ndarray]:
    """Return the problems whose repeats disagree, a row of `COLUMNS` for the slowest, and the rows to refuse.

    Repeats have equal `ids` (n_rows,). Rows without a time contradict none.
    """
    time = pd.Series(np.log(frame["duration_us"].to_numpy(dtype=float)))
    several = pd.Series(ids).duplicated(keep=False).to_numpy() & time.notna().to_numpy()
    far = np.zeros(len(frame), dtype=bool)
    by_id = time[several].groupby(ids[several], sort=False)
    if several.any():
        apart = by_id.max() - by_id.min()
    else:
        apart = time[several]
    if not (apart > np.log(OFF)).any():
        return pd.DataFrame(columns=list(COLUMNS)), far
    far[several] = (time[several] - by_id.transform("median")).abs() > np.log(FAR) / 2
    odd = (apart > np.log(OFF)).to_numpy()
    slow, fast = (
        frame.iloc[places[odd]] for places in (by_id.idxmax().to_numpy(), by_id.idxmin().to_numpy())
    )
    beside = [
        f"its repeat {source} ({time:.4g} µs)"
        for source, time in zip(fast["source"], fast["duration_us"], strict=True)
    ]
    slower = slow[["source", "device", "op", "duration_us"]].reset_index(drop=True)
    return slower.assign(
        row=fast["source"].to_numpy(), factor=np.exp(apart[odd].to_numpy()), beside=beside
    ), far


def spikes(frame: pd.DataFrame) -> pd.DataFrame:
    """Return the spikes among clean rows, repeats merged, as `COLUMNS`; the index has their places in the table.

    Also in ``alone`` whether no other kernel of the same problem is as slow, or nearly as fast.
    """
    time = frame["duration_us"].to_numpy(dtype=float)
    parts = [pd.DataFrame({"factor": [], "beside": [], "alone": []}, index=np.zeros(0, dtype=int))]
    for op, rows in each_op(frame):
        part = frame
        if len(rows) < len(frame):
            part = frame.iloc[rows]
        names = problem_columns(frame, op.name)
        sizes = [
            dim.name
            for dim in op.dimensions
            if dim.kind == "size" and dim.least > 0 and dim.name in names
        ]
        axes = [axis for axis in sizes if part[axis].nunique(dropna=False) > 2]
        if not axes:
            continue
        codes = {name: codes_of([comparable(part, name)]) for name in names} | {
            "device": codes_of([part["device"]])
        }
        problem = codes_of(codes.values())
        order = np.lexsort((time[rows], problem))
        first = np.flatnonzero(np.r_[True, np.diff(problem[order]) > 0])
        fastest = order[first]
        second = order[np.minimum(first + 1, len(order) - 1)]
        another = np.where(
            problem[second] == problem[fastest], time[rows[second]] / time[rows[fastest]], np.inf
        )
        another[second == fastest] = np.inf  # the last row of all
        here = rows[fastest]
        judged = np.zeros(len(fastest), dtype=bool)
        for axis in axes:
            if judged.all():
                break
            key = codes_of(codes[name][fastest] for name in codes if name != axis)
            size = part[axis].to_numpy(dtype=float)[fastest]
            factor, neighbours = off_neighbours(key, size, time[here])
            odd = np.flatnonzero((factor != 1) & ~judged)
            beside = []
            for two in neighbours[:, odd].T:
                beside.append(
                    f"at {axis} "
                    f"{' and '.join(f'{size[one]:.12g} ({time[here[one]]:.4g} µs)' for one in two)}"
                )
            alone = np.where(factor[odd] > 1, np.isinf(another[odd]), another[odd] > OFF)
            parts.append(
                pd.DataFrame(
                    {"factor": factor[odd], "beside": beside, "alone": alone}, index=here[odd]
                )
            )
            judged |= neighbours[0] >= 0
    spiking = pd.concat(parts)
    described = (
        frame[["source", "device", "op", "duration_us"]].iloc[spiking.index].set_axis(spiking.index)
    )
    return pd.concat([described.assign(row=described["source"]), spiking], axis=1)[
        [*COLUMNS, "alone"]
    ]


def remarks(odd: pd.DataFrame, repeats: pd.DataFrame) -> list[tuple[Remark, int]]:
    """Return the remarks on spikes and on repeats that disagree, with the number of rows of each."""
    remarks_of = []
    if len(odd):
        worst, far = _worst(odd)
        text = (
            f"spikes, over {OFF:g} times slower or faster than both neighbours in size: they stay "
            "in the evidence; "
            f"farthest off {worst['source']} ({times(far)} than {worst['beside']})"
        )
        remarks_of.append((remark("spikes", text, source=worst["source"], factor=far), len(odd)))
    if len(repeats):
        worst, far = _worst(repeats)
        text = (
            f"problems whose repeats lie over {OFF:g} times apart, the median kept: farthest "
            f"{worst['source']} "
            f"({worst['duration_us']:.4g} µs) beside {worst['beside']}"
        )
        remarks_of.append(
            (remark("repeats-disagree", text, source=worst["source"], factor=far), len(repeats))
        )
    return remarks_of


def _worst(odd: pd.DataFrame) -> tuple[pd.Series, float]:
    logs = np.log(odd["factor"].to_numpy(dtype=float))
    worst = odd.iloc[int(np.argmax(np.abs(logs)))]
    return worst, float(worst["factor"])


def times(factor: float) -> str:
    """Say how many times slower or faster: "50 times slower"."""
    return f"{max(factor, 1 / factor):,.3g} times {'slower' if factor > 1 else 'faster'}"

"""Durations measured in passes, a few kernels at a time, in the place of those of a full trace.

A profiler that records every kernel slows every kernel; one that records a few slows less, but knows no whole. The full
trace says what waits for what, the passes (`traces.cleaning.joining`) how long it takes: kernels meet by their name and
the number of their occurrence. The trace is then played again (`replay`) with the durations of the passes, so that what
followed a kernel follows it still. What no pass measured keeps its time, and is told.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Final

import numpy as np
import pandas as pd

from ..errors import DataError
from ..remarks import Remark, remark
from ..traces.cleaning.joining import check_launches, places_of
from ..traces.summary import Annotated
from .graph import build
from .kernel_matching import common_spelling
from .replay import replay
from .whole_trace import replayed

NEEDED: Final = ("name", "occurrence", "duration_us")
"""Columns of a table of durations; those of `joining.places_of` beside them are used where they are there."""
_GPU: Final = ["rank", "device_number"]
_LAUNCH: Final = ["workgroups", "threads"]
_NAMED: Final = 3


@dataclass(frozen=True)
class Retimed:
    """A trace with durations of passes.

    Attributes
    ----------
    trace : Annotated
        The trace, its starts and the CPU's calls as they are with these durations.
    kernels : DataFrame
        One row per kernel of the trace, the longest recorded first: `name`, `launches`, `measured` (of these, in
        passes), `recorded_us` (in the full trace), `unmeasured_us` (of that, not measured in passes), `retimed_us`.
    """

    trace: Annotated
    kernels: pd.DataFrame

    @property
    def note(self) -> Remark:
        """What was measured: ``durations-of-passes``, with shares of kernels and time, 0 to 1, and names left out."""
        table = self.kernels
        left = table[table["measured"] < table["launches"]]
        total, total_us = int(table["launches"].sum()), float(table["recorded_us"].sum())
        return remark(
            "durations-of-passes",
            kernels=int(table["measured"].sum()),
            of=total,
            time_share=1.0 - float(table["unmeasured_us"].sum()) / total_us if total_us else 0.0,
            ratio=float(table["retimed_us"].sum()) / total_us if total_us else 1.0,
            unmeasured=len(left),
            first=tuple(left["name"].head(_NAMED)),
        )


def with_durations(trace: Annotated, durations: pd.DataFrame) -> Retimed:
    """Return a trace whose kernels take as long as passes measured.

    Parameters
    ----------
    trace : Annotated
        A full trace, with the CPU's calls if the file has them.
    durations : DataFrame
        One row per execution of a kernel: `NEEDED`, in microseconds, occurrences counted from 1 for each name, and
        where known `rank`, `device_number`, `workgroups`, `threads`, `source`; the places of `joining.merge_coverage`
        are such a table. Occurrences count from where a recording begins: let passes and trace begin at one place.
        Several rows of one occurrence count as their median. Passes that ran a kernel more often than the trace are
        several executions of it: of the whole trace, else of a step. The durations of one GPU are taken for every GPU
        of the trace.

    Returns
    -------
    Retimed

    Raises
    ------
    DataError
        Columns are missing or no durations; no kernel is common; the durations contradict the trace: another launch
        at a place, another number of GPUs, a number of executions that is not whole, or names that are not told apart.
    """
    wanted = places_of(trace.dispatches)
    given = _checked(durations)
    if wanted.empty:
        raise DataError("the trace has no kernel whose duration could be replaced")
    (wanted["spelt"], given["spelt"]), cut = common_spelling([wanted["name"], given["name"]])
    if cut:
        wanted["occurrence"] = wanted.groupby([*_GPU, "spelt"], sort=False).cumcount() + 1
        _check_names(given)
    given = given[given["spelt"].isin(wanted["spelt"])]
    if given.empty:
        raise DataError("no kernel of the durations is in the trace: give passes of the program that it records")
    keys, given = _on_gpus(given, wanted)
    wanted["place"] = _folded(wanted, given, keys, trace.dispatches["step"])
    given["place"] = _within(given, wanted, keys)
    by = given.groupby([*keys, "place"], sort=False)
    medians = by.agg(duration_us=("duration_us", "median"), **{name: (name, "first") for name in _LAUNCH}).reset_index()
    found = wanted[[*keys, "place"]].merge(medians, on=[*keys, "place"], how="left").set_index(wanted.index)
    _check_launches(wanted, found)
    return Retimed(_retimed(trace, found["duration_us"]), _by_name(wanted, found["duration_us"]))


def _checked(durations: pd.DataFrame) -> pd.DataFrame:
    """Return the durations with all columns of places."""
    if lacking := [name for name in NEEDED if name not in durations]:
        raise DataError(f"durations need the columns {', '.join(NEEDED)}: {', '.join(lacking)} missing")
    rows = durations.reindex(columns=[*NEEDED, *_GPU, *_LAUNCH, "source"]).reset_index(drop=True)
    for name in ("occurrence", "duration_us"):
        rows[name] = pd.to_numeric(rows[name], errors="coerce")
    known = rows["occurrence"].ge(1) & rows["occurrence"].mod(1).eq(0) & rows["duration_us"].between(0, np.inf, "left")
    if rows.empty or not known.all():
        where = "they are empty" if rows.empty else f"row {int(np.argmin(known)) + 1} is not"
        raise DataError(f"durations must be numbers from 0 on, occurrences from 1 on: {where}")
    whole = {"occurrence": np.int64, "name": str, **dict.fromkeys(_LAUNCH, np.float64)}
    return rows.assign(rank=rows["rank"].fillna(-1), device_number=rows["device_number"].fillna(0)).astype(whole)


def _check_names(given: pd.DataFrame) -> None:
    """Refuse kernels that only their template arguments tell apart, where the trace has none."""
    kinds = given.drop_duplicates(["spelt", "name"])
    if (double := kinds[kinds.duplicated("spelt", keep=False)]).empty:
        return
    first = double[double["spelt"] == double["spelt"].iloc[0]]["name"].iloc[:2]
    raise DataError(
        f"{first.iloc[0]!r} and {first.iloc[1]!r} are one name in the trace: give a trace with full kernel names"
    )


def _on_gpus(given: pd.DataFrame, wanted: pd.DataFrame) -> tuple[list[str], pd.DataFrame]:
    """Return what a kernel is found by, and the durations with the GPUs numbered as those of the trace."""
    own, others = (rows[_GPU].drop_duplicates().sort_values(_GPU, ignore_index=True) for rows in (given, wanted))
    if len(own) == 1:
        return ["spelt"], given.copy()
    if len(own) != len(others):
        raise DataError(
            f"durations of {len(own)} GPUs for a trace of {len(others)}: give those of one GPU, or of the same ones"
        )
    own[["rank_there", "device_there"]] = others[_GPU]
    paired = given.merge(own, on=_GPU, how="left")
    there = paired[["rank_there", "device_there"]].to_numpy()
    return [*_GPU, "spelt"], paired.assign(rank=there[:, 0], device_number=there[:, 1])


def _folded(wanted: pd.DataFrame, given: pd.DataFrame, keys: list[str], steps: pd.Series) -> pd.Series:
    """Return the place of each kernel within what the passes executed: the whole trace, or one step.

    It is the number of the occurrence, unless the passes have a kernel more often than the trace, in whole steps but
    not in whole traces: then it is the number within the step.
    """
    most = given.groupby(keys, sort=False)["occurrence"].max().rename("given").reset_index()
    count = wanted.groupby([*_GPU, "spelt"], sort=False)["occurrence"].transform("max")
    known = wanted[keys].merge(most, on=keys, how="left")["given"].set_axis(wanted.index)
    kinds = [wanted[name] for name in (*_GPU, "spelt")]
    of_step = wanted.groupby([*kinds, steps.reindex(wanted.index)])["occurrence"].transform("size")
    per_step = of_step.where(of_step.groupby(kinds).transform("nunique", dropna=False) == 1).fillna(count)
    whole = known.isna() | (known <= count) | (known % count == 0)
    in_steps = ~whole & (known % per_step == 0)
    if (odd := ~whole & ~in_steps).any():
        row = wanted[odd].iloc[0]
        raise DataError(
            f"kernel {row['name']!r} runs {int(known[odd].iloc[0])} times in the durations, {count[odd].iloc[0]} times "
            "in the trace: give passes of whole executions"
        )
    return (wanted["occurrence"] - 1) % per_step.where(in_steps, count) + 1


def _within(given: pd.DataFrame, wanted: pd.DataFrame, keys: list[str]) -> pd.Series:
    """Return the place of each duration: its occurrence, counted anew in every execution."""
    unit = wanted.groupby(keys, sort=False)["place"].max().rename("unit").reset_index()
    return (given["occurrence"] - 1) % given[keys].merge(unit, on=keys, how="left")["unit"].to_numpy() + 1


def _check_launches(wanted: pd.DataFrame, found: pd.DataFrame) -> None:
    """Refuse durations of other launches than the trace's."""
    own = wanted.assign(run="the trace")
    other = own.assign(run="the durations", source="passes", **{name: found[name] for name in _LAUNCH})
    check_launches(pd.concat([own, other], ignore_index=True))


def _retimed(trace: Annotated, duration_us: pd.Series) -> Annotated:
    """Return the trace as it runs with other durations of kernels, NaN where they stay."""
    table = trace.dispatches
    own = (1e3 * duration_us).round().reindex(table.index)
    duration_ns = own.where(own.notna(), table["duration_ns"]).astype(np.int64)
    graph = build(table, trace.calls)
    times = replay(graph, np.maximum(duration_ns.to_numpy(), 0)[graph.rows].astype(float))
    start_ns, calls = replayed(graph, times, table.index)
    return replace(trace, dispatches=table.assign(start_ns=start_ns, duration_ns=duration_ns), calls=calls)


def _by_name(wanted: pd.DataFrame, duration_us: pd.Series) -> pd.DataFrame:
    measured = duration_us.notna()
    recorded = wanted["duration_us"].clip(lower=0)
    rows = pd.DataFrame(
        {
            "name": wanted["name"],
            "launches": 1,
            "measured": measured.astype(np.int64),
            "recorded_us": recorded,
            "unmeasured_us": recorded.where(~measured, 0.0),
            "retimed_us": duration_us.where(measured, recorded),
        }
    )
    table = rows.groupby("name", sort=False).sum().reset_index()
    return table.sort_values("recorded_us", ascending=False, kind="stable", ignore_index=True)

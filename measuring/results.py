"""From the samples of all visits to the measurement table, how far its passes agree, and which times are hardly known.

Besides the columns of ``table.measurements`` each row has

===========================  ==========================================================================================
column                       meaning
===========================  ==========================================================================================
kernel                       of a user's function: its name, and its parameters that are no dimensions (columns too)
duration_us                  median of the visits' medians, outliers left out (`protocol.row_statistics`)
outliers                     samples removed, further than so many MAD from the median of their visit
interval_low_us, ..._high_   interval of the time (95 %): how far samples and visits lie apart, microseconds
rounds                       visits behind the row
calls_per_sample             calls that one sample is the mean of
warmed_up                    whether the times were stable after the warm-up of every visit
cache                        ``warm``, or ``cold``: filled with other data before each sample
clock_share                  part of a sample that the clock itself takes, more with a cold cache: there a sample is one
                             call
late_share                   part of the samples on a GPU that may hold some of the time it takes to launch a call: the
                             host had not enqueued them in time
stopped_by                   ``unfinished``: rounds are missing; ``interval``: the time is known as well as asked for;
                             if not, what ended a visit: ``time`` or ``repeats``; or ``rounds differ``: each visit was
                             steady, but not the same as the others
clock_mhz, power_w,          as the platform tells, median of the readings; missing where there are none
temperature_c
===========================  ==========================================================================================
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pyarrow as pa

from .. import output
from ..errors import DataError
from ..output import READABLE, check_file, whole_file
from ..remarks import Remark, remark
from .machine import STATE
from .protocol import DIFFER, INTERVAL, REPEATS, TIME, UNFINISHED, half_widths, row_statistics
from .rows import parameters
from .session import Entry, Plan

MEASURED = (
    "duration_us", "spread_us", "repeats", "outliers", "interval_low_us", "interval_high_us", "rounds",
    "calls_per_sample", "warmed_up", "clock_share", "late_share", "stopped_by", "campaign", *STATE,
)  # fmt: skip
"""The columns that say how a row ran; the others say which one it was, and on which device."""

VAGUE = 0.5
"""Half width of the interval, relative to the time, from which a row is worth a word."""
LATE, CLOCK = 0.1, 0.02
"""Shares of late samples, and of the clock in a sample, from which a row is worth a word."""


def measurement_table(plan: Plan, visits: Sequence[Entry]) -> pd.DataFrame:
    """Return one row for each workload, device and pass that has a visit, in the order of the grid.

    Raises
    ------
    DataError
        There is no visit.
    """
    if not visits:
        raise DataError("nothing was measured")
    frame = pd.DataFrame([_head(entry) for entry in visits])
    place = {device.name: number for number, device in enumerate(plan.devices)}
    frame["place"] = frame["device"].map(place)
    keys = ["pass", "row", "place"]
    order = frame.groupby(keys, sort=True).ngroup().to_numpy()
    samples, rule = [entry["samples_us"] for entry in visits], plan.rule
    numbers = row_statistics(samples, order, level=rule.level, threshold=rule.threshold)
    firsts = frame.groupby(order)[[*keys, "device"]].first()
    rows = pd.DataFrame([plan.rows[int(index)] for index in firsts["row"]])
    named = {"kernel": [_kernel(plan, int(index)) for index in firsts["row"]]} if plan.function else {}
    by_row = frame.groupby(order)
    calls, late = by_row["calls"].median(), by_row["late"].sum() / by_row["taken"].sum()
    state = frame.reindex(columns=list(STATE)).groupby(order).median().dropna(axis="columns", how="all")
    return pd.DataFrame(
        {
            "device": firsts["device"].to_numpy(),
            **{str(name): rows[name] for name in rows},
            **named,
            **{str(name): numbers[name].to_numpy() for name in numbers},
            "rounds": by_row["round"].nunique().to_numpy(),
            "calls_per_sample": calls.to_numpy(),
            "warmed_up": by_row["warm"].all().to_numpy(),
            "cache": "cold" if plan.cold else "warm",
            "clock_share": _clock_share(by_row["clock_us"].median(), calls * numbers["duration_us"]),
            "late_share": late.to_numpy().round(4),
            "stopped_by": _stopped_by(numbers, by_row, plan),
            "campaign": [f"pass {number}" for number in firsts["pass"]],
            **{str(name): state[name].to_numpy() for name in state},
        }
    )


def _kernel(plan: Plan, index: int) -> str:
    """Return the name of the user's function with the parameters it had: another block size is another kernel."""
    return " ".join([plan.function, *(f"{name}={value}" for name, value in parameters(plan.rows[index]).items())])


def _head(entry: Entry) -> Entry:
    return {**{name: value for name, value in entry.items() if name != "samples_us"}, "taken": len(entry["samples_us"])}


def _clock_share(clock_us: pd.Series, sample_us: pd.Series) -> np.ndarray:
    return (clock_us / sample_us.where(sample_us > 0)).to_numpy().round(4)


def _stopped_by(numbers: pd.DataFrame, visits: Any, plan: Plan) -> np.ndarray:
    ended = visits["ended"].agg(lambda words: TIME if TIME in set(words) else REPEATS if REPEATS in set(words) else "")
    unfinished = visits["round"].nunique().to_numpy() < plan.rule.rounds
    cases = [unfinished, (half_widths(numbers) <= plan.rule.interval).to_numpy(), ended.ne("").to_numpy()]
    return np.select(cases, [UNFINISHED, INTERVAL, ended.to_numpy(dtype=object)], default=DIFFER)


def pass_differences(table: pd.DataFrame) -> pd.Series:
    """Return, for each workload and device, how far the last pass is from the first: ``100 |t2 - t1| / t1``, percent.

    It is the floor under every prediction error: a second measurement does no better. What was not measured in both is
    not counted.
    """
    number = table["campaign"].str.removeprefix("pass ").astype(int)
    if number.max() == 1:
        return pd.Series(dtype=np.float64)
    identity = [column for column in table if column not in MEASURED]
    passes = {"first": number == 1, "last": number == number.max()}
    times = table.assign(**{name: table["duration_us"].where(rows) for name, rows in passes.items()})
    pairs = times.groupby(identity, dropna=False, sort=False)[list(passes)].median().dropna()
    return (100 * (pairs["last"] - pairs["first"]).abs() / pairs["first"]).reset_index(drop=True)


def doubts(table: pd.DataFrame) -> list[Remark]:
    """Return how many times are hardly known, and how many may hold more than the kernel."""
    cases = (
        (
            "times-hardly-known",
            half_widths(table),
            VAGUE,
            f"are uncertain by more than ±{100 * VAGUE:.0f} %: measure them again with nothing else running, or with a "
            "larger budget, before anything learns from them",
        ),
        (
            "launches-late",
            table["late_share"],
            LATE,
            f"have over {100 * LATE:.0f} % of samples for which the host launched too slowly: these may hold part of "
            "the launch (late_share)",
        ),
        (
            "clock-in-samples",
            table["clock_share"],
            CLOCK,
            f"spend over {100 * CLOCK:.0f} % of a sample on the clock itself (clock_share)",
        ),
    )
    found = []
    for code, values, limit, text in cases:
        if rows := int(values.gt(limit).sum()):
            found.append(remark(code, f"{rows} of {len(table)} rows {text}", rows=rows, of=len(table), limit=limit))
    return found


def check_table_path(out: Path, *, resume: bool = False) -> None:
    """Refuse, before minutes of measuring, a file that could not be written or would replace another.

    Raises
    ------
    DataError
        Its suffix is neither .parquet nor .csv; or it, or the JSON that is written beside it, exists, and is not that
        of the measurement to resume.
    """
    check_file(out, READABLE)
    if out.exists() and not resume:
        raise DataError("exists: choose another file, or delete it", source=str(out))
    beside = provenance_path(out)
    if beside.exists() and not out.exists():
        raise DataError(
            f"exists, and the provenance of {out.name} would replace it: choose another file, or delete it",
            source=str(beside),
        )


def provenance_path(out: Path) -> Path:
    """Return where the provenance of a table stands, as JSON."""
    return out.with_suffix(".json")


def write_table(table: pd.DataFrame, provenance: Mapping[str, Any], out: Path) -> None:
    """Write the table, and its provenance beside it (Parquet: in its metadata as well), each whole or not at all.

    Raises
    ------
    DataError
        A file cannot be written.
    """
    output.write_table(pa.Table.from_pandas(table, preserve_index=False), out, json.dumps(provenance))
    with whole_file(provenance_path(out)) as path:  # second: without a table it would count as another's
        path.write_text(json.dumps(provenance, indent=1) + "\n", encoding="utf-8")

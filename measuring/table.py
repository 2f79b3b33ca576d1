"""From the samples of all visits to the measurement table, and how far its passes agree.

Besides the columns of ``features.table`` each row has

===========================  ==========================================================================================
column                       meaning
===========================  ==========================================================================================
outliers                     samples removed, further than so many MAD from the median
interval_low_us, ..._high_   interval of the median (order statistics, 95 %), microseconds
rounds                       visits behind the row
calls_per_sample             calls that one sample is the mean of
warmed_up                    whether the times were stable after the warm-up of every visit
cache                        ``warm``, or ``cold``: overwritten before each sample
stopped_by                   ``interval``: the median is known as well as asked for; if not, what ended the row:
                             ``time``, ``repeats``, ``unfinished`` (rounds are missing), or ``rounds differ``: each
                             visit was steady, but not the same as the others
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
import pyarrow.parquet as pq

from ..errors import DataError
from ..features.cleaning.mad import mad_filter
from ..features.cleaning.median import median_intervals
from ..output import whole_file
from .journal import Entry
from .monitor import STATE
from .protocol import REPEATS, TIME
from .session import Plan

FORMATS = (".parquet", ".csv")
METADATA = b"flopcast"
"""Key of the Parquet file's metadata under which the provenance stands, as JSON."""
MEASURED = (
    "duration_us", "spread_us", "repeats", "outliers", "interval_low_us", "interval_high_us", "rounds",
    "calls_per_sample", "warmed_up", "cache", "stopped_by", "campaign", *STATE,
)  # fmt: skip
"""The columns that say how a row ran; the others say which one it was, and on which device."""


def measurement_table(plan: Plan, visits: Sequence[Entry]) -> pd.DataFrame:
    """Return one row for each workload, device and pass that has a visit, in the order of the grid.

    Parameters
    ----------
    plan : Plan
    visits : sequence of dict
        As `session.Session` keeps them.

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
    numbers = _statistics(visits, order, plan)
    firsts = frame.groupby(order)[[*keys, "device"]].first()
    rows = pd.DataFrame([plan.rows[int(index)] for index in firsts["row"]])
    named = {"kernel": plan.function} if plan.function else {}
    state = frame.reindex(columns=list(STATE)).groupby(order).median().dropna(axis="columns", how="all")
    return pd.DataFrame(
        {
            "device": firsts["device"].to_numpy(),
            **{str(name): rows[name] for name in rows},
            **named,
            **{str(name): numbers[name].to_numpy() for name in numbers},
            "rounds": frame.groupby(order)["round"].nunique().to_numpy(),
            "calls_per_sample": frame.groupby(order)["calls"].median().to_numpy(),
            "warmed_up": frame.groupby(order)["warm"].all().to_numpy(),
            "cache": "cold" if plan.cold else "warm",
            "stopped_by": _stopped_by(numbers, frame.groupby(order), plan),
            "campaign": [f"pass {number}" for number in firsts["pass"]],
            **{str(name): state[name].to_numpy() for name in state},
        }
    )


def _head(entry: Entry) -> Entry:
    return {name: value for name, value in entry.items() if name != "samples_us"}


def _statistics(visits: Sequence[Entry], order: np.ndarray, plan: Plan) -> pd.DataFrame:
    """Return duration, spread, counts and interval of each row, outliers left out."""
    samples = np.concatenate([np.asarray(entry["samples_us"], dtype=np.float64) for entry in visits])
    groups = np.repeat(order, [len(entry["samples_us"]) for entry in visits])
    kept = mad_filter(samples, plan.rule.threshold, groups=groups).kept
    found = median_intervals(samples[kept], groups[kept], plan.rule.level)
    counts = np.bincount(groups)
    return pd.DataFrame(
        {
            "duration_us": found["median"].round(4),
            "spread_us": found["mad"].round(4),
            "repeats": found["n"],
            "outliers": counts - found["n"].to_numpy(),
            "interval_low_us": found["lower"].round(4),
            "interval_high_us": found["upper"].round(4),
        }
    )


def _stopped_by(numbers: pd.DataFrame, visits: Any, plan: Plan) -> np.ndarray:
    middle = numbers["duration_us"]
    width = np.maximum(numbers["interval_high_us"] - middle, middle - numbers["interval_low_us"]) / middle
    ended = visits["ended"].agg(lambda words: TIME if TIME in set(words) else REPEATS if REPEATS in set(words) else "")
    unfinished = visits["round"].nunique().to_numpy() < plan.rule.rounds
    cases = [(width <= plan.rule.interval).to_numpy(), unfinished, ended.ne("").to_numpy()]
    return np.select(cases, ["interval", "unfinished", ended.to_numpy(dtype=object)], default="rounds differ")


def pass_differences(table: pd.DataFrame) -> pd.Series:
    """Return, for each workload and device, how far the last pass is from the first: ``100 |t2 - t1| / t1``, percent.

    It is the floor under every prediction error: a second measurement does no better. What was measured once is not
    counted.
    """
    identity = [column for column in table if column not in MEASURED]
    times = table.groupby(identity, dropna=False, sort=False)["duration_us"].agg(["first", "last", "size"])
    times = times[times["size"] > 1]
    return (100 * (times["last"] - times["first"]).abs() / times["first"]).reset_index(drop=True)


def check_table_path(out: Path, *, resume: bool = False) -> None:
    """Refuse, before minutes of measuring, a file that could not be written or would replace another.

    Raises
    ------
    DataError
        Its suffix is neither .parquet nor .csv, or it exists and nothing is resumed.
    """
    if out.suffix.lower() not in FORMATS:
        raise DataError(f"--out must end in {' or '.join(FORMATS)}, got {str(out)!r}")
    if out.exists() and not resume:
        raise DataError("exists: choose another file with --out, or delete it", source=str(out))


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
    with whole_file(provenance_path(out)) as path:
        path.write_text(json.dumps(provenance, indent=1) + "\n", encoding="utf-8")
    with whole_file(out) as path:
        if out.suffix.lower() == ".csv":
            table.to_csv(path, index=False)
            return
        arrow = pa.Table.from_pandas(table, preserve_index=False)
        metadata = {**(arrow.schema.metadata or {}), METADATA: json.dumps(provenance).encode()}
        pq.write_table(arrow.replace_schema_metadata(metadata), path, compression="zstd")

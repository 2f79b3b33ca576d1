"""When dispatches ran, from the stamps that rocprof and rocprofiler-compute write as text, and what is odd there.

Nanoseconds since boot have 15 to 17 digits: as floating-point numbers they would be wrong by up to a few nanoseconds,
so whole numbers and fractions (rocprofiler-compute 3 writes means over passes) are kept apart.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np
import pandas as pd
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import NDArray

from ...remarks import remark
from ...table.counters import FloatArray
from ...traces.dispatches import Finding, Severity
from .results_csv import DispatchTable, IntArray

_WHOLE = r"^\s*(\d{1,18})(\.\d*)?\s*$"
_MOST_NS = 2**62 - 2**10  # stamps beyond it are cut there, so that differences fit 64 bits


@dataclass(frozen=True)
class Times:
    """Start and duration of every row (0 where not `known`: both stamps are numbers), arrays of shape (n_rows,).

    `rounded_ns` is the largest fraction of a nanosecond by which a duration was rounded. A row is `spoiled` where a
    stamp is written with an exponent ("8.1097E+14"): a spreadsheet has cut its digits.
    """

    start_ns: IntArray
    duration_ns: IntArray
    known: NDArray[np.bool_]
    rounded_ns: float
    spoiled: NDArray[np.bool_]

    @property
    def sound(self) -> bool:
        """Whether every row has a time and none is spoiled."""
        return bool(self.known.all()) and not self.spoiled.any()


def times_of(table: DispatchTable) -> Times | None:
    """Return when the dispatches ran; None if the file has no times."""
    begin, end = table.column("begin"), table.column("end")
    if begin is None or end is None:
        return None
    first, last = _stamps(begin), _stamps(end)
    known, spoiled = first.known & last.known, first.spoiled | last.spoiled
    rest = last.fraction - first.fraction
    duration = last.whole - first.whole + np.rint(rest).astype(np.int64)
    start = first.whole + np.rint(first.fraction).astype(np.int64)
    off = np.abs(rest - np.rint(rest))
    return Times(np.where(known, start, 0), np.where(known, duration, 0), known, float(off.max(initial=0.0)), spoiled)


def dispatch_columns(table: DispatchTable, times: Times) -> dict[str, Any]:
    """Return the columns of the dispatch table, counters aside, for every row.

    The files give the grid as one number of work-items, x, y and z multiplied, and the workgroup alike: `grid_x` is
    the number of workgroups of all three dimensions and `block_x` that of work-items in one; y and z stay missing.
    """
    work_items, block = table.integers("grid"), table.integers("block")
    possible = block.gt(0) & work_items.ge(0)
    block = block.where(possible.fillna(False))
    correlation = table.integers("correlation")
    recorded = correlation.ne(0).fillna(False).any()  # rocprof v2 writes 0 everywhere
    plain = ("process", "gpu", "stream", "lds_bytes", "scratch_bytes", "vgpr", "accum_vgpr", "sgpr", "dispatch_id")
    lines = pd.Series(table.lines).astype("str")
    return {
        "kind": "kernel",
        "name": table.names(),
        "start_ns": times.start_ns,
        "duration_ns": times.duration_ns,
        "grid_x": -(-work_items // block),
        "block_x": block,
        "correlation": correlation if recorded else None,
        "source": f"{table.label}:" + lines,
        **{meaning: table.integers(meaning) for meaning in plain},
    }


@dataclass(frozen=True)
class _Stamps:
    whole: IntArray
    fraction: FloatArray
    known: NDArray[np.bool_]
    spoiled: NDArray[np.bool_]


def _stamps(column: Any) -> _Stamps:
    """Return a column of nanoseconds in whole numbers and fractions: as one float they would lose digits."""
    none = np.zeros(len(column), dtype=bool)
    try:
        whole = pc.cast(column, pa.int64())
        known = whole.is_valid().to_numpy()
        values = np.clip(whole.fill_null(0).to_numpy(), -_MOST_NS, _MOST_NS)
        return _Stamps(values, np.zeros(len(column)), known, none)
    except pa.ArrowInvalid:
        return _odd_stamps(pd.Series(column.to_pylist(), dtype=object).fillna("").astype("str"))


def _odd_stamps(text: pd.Series) -> _Stamps:
    parts = text.str.extract(_WHOLE)
    plain = parts[0].notna().to_numpy()
    numbers = pd.to_numeric(text, errors="coerce").to_numpy(np.float64)
    known = plain | np.isfinite(numbers)
    cut = np.rint(np.clip(np.where(known & ~plain, numbers, 0.0), -_MOST_NS, _MOST_NS)).astype(np.int64)
    whole = parts[0].fillna("0").astype(np.int64).to_numpy()
    fraction = ("0" + parts[1].fillna("")).astype(np.float64).to_numpy()
    spoiled = known & text.str.contains("e", case=False, regex=False).to_numpy(dtype=bool)
    return _Stamps(np.where(plain, whole, cut), np.where(plain, fraction, 0.0), known, spoiled)


_WIDE = 0.1  # spread between passes from which counters of one row hardly describe one execution


def spoiled_timestamps(times: Times, table: DispatchTable, remedy: str = "export", other: str = "") -> list[Finding]:
    """Return a finding if stamps have lost their digits to a spreadsheet.

    `remedy` says what to do: "export" the table again, "profile" again, or nothing, as the times of the file `other`
    are used instead ("other").
    """
    if not times.spoiled.any():
        return []
    where = f"{table.label}:{table.lines[int(times.spoiled.argmax())]}"
    spoiled = remark("spoiled-timestamps", written="exponent", remedy=remedy, other=other)
    return [Finding(spoiled, "error", int(times.spoiled.sum()), source=where)]


def left_out(times: Times, table: DispatchTable) -> list[Finding]:
    """Return a finding if rows have no time."""
    if times.known.all():
        return []
    where = f"{table.label}:{table.lines[int(times.known.argmin())]}"
    return [Finding(remark("unreadable-times", rows="dispatches"), "error", int((~times.known).sum()), source=where)]


def without_times(count: int, label: str) -> Finding:
    """Return the finding that a file has counters and no times."""
    return Finding(remark("counters-without-times", lacking="timing run"), "warning", count, source=label)


def unmatched(rows: np.ndarray, others: int, label: str) -> list[Finding]:
    """Return a finding if dispatches of one pass are not those of the other, the file `label`.

    `rows` has for each dispatch the row of the other file, which has `others` rows, -1 for none.
    """
    here, there = int((rows < 0).sum()), others - int((rows >= 0).sum())
    if not here and not there:
        return []
    unshared = remark("unmatched-pass", why="not shared", missing=here, only_here=there)
    return [Finding(unshared, "warning", here + there, source=label)]


def replay_spread(spread: Mapping[str, float], label: str) -> list[Finding]:
    """Return a finding if passes that recorded the same thing disagree."""
    differ = {name: value for name, value in spread.items() if value > 0}
    if not differ:
        return []
    worst = sorted(differ, key=lambda name: -differ[name])
    severity: Severity = "warning" if differ[worst[0]] > _WIDE else "info"
    spreads = tuple((name, differ[name]) for name in worst)
    return [Finding(remark("replay-spread", spreads=spreads), severity, len(differ), source=label)]


def channels_missing(found: Mapping[str, tuple[int, int]], label: str) -> list[Finding]:
    """Return a finding if sums are not over all channels; `found`: counter -> channels recorded, channels there are."""
    short = {name: numbers for name, numbers in found.items() if numbers[0] < numbers[1]}
    if not short:
        return []
    counters = tuple((name, have, all_) for name, (have, all_) in short.items())
    return [Finding(remark("channels-missing", counters=counters), "warning", len(short), source=label)]

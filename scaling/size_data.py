"""Performance against size, benchmark by benchmark: read from a table, or stated value by value.

=================  ===================================================================================================
column             meaning
=================  ===================================================================================================
benchmark          name of the workload
size               SMs, compute units, chiplets or threads, > 0; the rows of a benchmark stand by increasing size
performance        work per time, > 0, e.g. instructions per cycle; also called ``ipc``. Empty where not measured
mpki               misses of the last-level cache per thousand instructions; also ``llc_mpki``
f_mem              share of the time that waits for memory, 0 to 1, in any row of the benchmark; or ``f_mem_percent``
scenario           ``strong``, ``weak`` or ``chiplets``
unit               what the size counts, e.g. ``SM``
simulation_time_s  seconds the simulation of that size took
=================  ===================================================================================================

Only the first three are needed. A row without performance may still give the miss rate at its size: a miss-rate curve
is cheap to obtain at sizes that are too large to simulate.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path

import numpy as np
import pandas as pd

from ..errors import DataError
from ..readers.base import LINE
from ..readers.files import read_plain_table
from ..table.measurements import select

SCENARIOS = ("strong", "weak", "chiplets")
DEFAULT_UNIT = "size"

_ALIASES = {
    "performance": ("ipc", "perf"),
    "mpki": ("llc_mpki",),
    "size": ("sms", "cus"),
}
_SCENARIO_ALIASES = {"weak-multi-chiplet": "chiplets", "multi-chiplet": "chiplets", "chiplet": "chiplets"}
_NEEDED = ("benchmark", "size", "performance")
_NUMBERS = ("size", "performance", "mpki", "f_mem", "f_mem_percent", "simulation_time_s")
_KNOWN = (*_NEEDED, *_NUMBERS, "scenario", "unit", LINE)


@dataclass(frozen=True)
class SizeSeries:
    """What is known of one benchmark at several sizes.

    Attributes
    ----------
    benchmark, scenario, unit : str
        Its name, one of `SCENARIOS`, and what the sizes count.
    sizes, performance : ndarray of shape (k,)
        The measured sizes, increasing, and the performance at each.
    mpki, mpki_sizes : ndarray of shape (m,) or None
        Misses per thousand instructions, and the sizes they belong to, which may go beyond the measured ones.
    f_mem : float or None
        Share of the time that waits for memory, 0 to 1.
    simulation_time_s : dict of float to float
        Seconds by size, where stated.
    """

    benchmark: str
    scenario: str
    unit: str
    sizes: np.ndarray
    performance: np.ndarray
    mpki: np.ndarray | None = None
    mpki_sizes: np.ndarray | None = None
    f_mem: float | None = None
    simulation_time_s: Mapping[float, float] = field(default_factory=dict)

    @property
    def name(self) -> str:
        """The benchmark and its scenario in words."""
        return f"{self.benchmark} ({self.scenario})"

    def measured_at(self, size: float) -> float | None:
        """Return the performance at a size; None where it was not measured."""
        found = self.performance[self.sizes == size]
        return float(found[0]) if found.size else None


@dataclass(frozen=True)
class SizeTable:
    """The benchmarks of one table, and remarks for the user."""

    series: tuple[SizeSeries, ...]
    notes: tuple[str, ...] = ()


def read_sizes(path: Path, where: Mapping[str, Sequence[str]] | None = None, scenario: str = "strong") -> SizeTable:
    """Read a CSV or Parquet table of benchmark, size and performance.

    Parameters
    ----------
    path : Path
        The file; CSV may be compressed.
    where : mapping of str to sequence of str, optional
        Column -> accepted values.
    scenario : str
        Of benchmarks whose rows state none.

    Raises
    ------
    DataError
        The file cannot be read, a column is missing, a value is no number or out of its range, or the sizes of a
        benchmark do not increase.
    """
    return sizes_of(read_plain_table(path), where, scenario, source=str(path))


def sizes_of(
    frame: pd.DataFrame,
    where: Mapping[str, Sequence[str]] | None = None,
    scenario: str = "strong",
    *,
    source: str | None = None,
) -> SizeTable:
    """Return the benchmarks of a table that is already in memory; see `read_sizes`."""
    rows = _renamed(frame)
    if missing := [name for name in _NEEDED if name not in rows]:
        known = ", ".join(str(name) for name in frame.columns if name != LINE)
        raise DataError(f"no column {' and no column '.join(missing)}: the table has {known}", source=source)
    if rows.empty:
        raise DataError("the table has no rows", source=source)
    for name in _NUMBERS:
        if name in rows:
            rows[name] = _as_numbers(rows, name, source)
    rows = _with_scenario(rows, scenario, source)
    chosen = select(rows, where or {})
    groups = chosen.groupby(["scenario", "benchmark"], sort=False, dropna=False)
    series = tuple(_series(part.reset_index(drop=True), source) for _, part in groups)
    ignored = [str(name) for name in rows if name not in _KNOWN]
    return SizeTable(series, (f"columns not used: {', '.join(ignored)}",) if ignored else ())


def stated(
    sizes: Sequence[float],
    performance: Sequence[float],
    targets: Sequence[float] = (),
    *,
    mpki: Sequence[float] | None = None,
    f_mem: float | None = None,
    scenario: str = "strong",
) -> SizeTable:
    """Return the one benchmark whose values were stated one by one.

    Parameters
    ----------
    sizes, performance : sequence of float
        Of the same length.
    targets : sequence of float
        Sizes to predict; the miss rates may go on to them.
    mpki : sequence of float, optional
        One for each size, or one for each size and each target.
    f_mem : float, optional
        Share of the time that waits for memory, 0 to 1.
    scenario : str
        One of `SCENARIOS`.

    Raises
    ------
    DataError
        The lengths do not agree, or a value is out of its range.
    """
    if len(performance) != len(sizes):
        raise DataError(f"performance must have a value for each of the {len(sizes)} sizes, got {len(performance)}")
    every = [*sizes, *targets]
    if mpki is not None and len(mpki) not in {len(sizes), len(every)}:
        wanted = f"{len(sizes)} sizes" + (f", or {len(every)} with the targets" if targets else "")
        raise DataError(f"MPKI must have a value for each of the {wanted}, got {len(mpki)}")
    pad = [np.nan] * len(every)
    frame = pd.DataFrame(
        {
            "benchmark": "stated",
            "size": every,
            "performance": [*performance, *pad][: len(every)],
            "mpki": [*(mpki or ()), *pad][: len(every)],
            "f_mem": pad if f_mem is None else f_mem,
        }
    )
    return sizes_of(frame if mpki else frame.head(len(sizes)), scenario=scenario)


def _renamed(frame: pd.DataFrame) -> pd.DataFrame:
    """Return a copy under this module's names; a column of that very name comes before its aliases."""
    rows = frame.rename(columns={name: str(name).strip().lower() for name in frame.columns if name != LINE})
    for name, others in _ALIASES.items():
        other = next((one for one in others if one in rows), None)
        if name not in rows and other is not None:
            rows = rows.rename(columns={other: name})
    if LINE not in rows:
        rows[LINE] = np.arange(1, len(rows) + 1)
    return rows


def _as_numbers(rows: pd.DataFrame, name: str, source: str | None) -> pd.Series:
    """Return the column as numbers, NaN where it is empty."""
    given = rows[name]
    empty = given.isna() | given.astype(str).str.strip().eq("")
    numbers = pd.to_numeric(given.where(~empty), errors="coerce").astype(float)
    wrong = (numbers.isna() & ~empty) | np.isinf(numbers)
    if wrong.any():
        first = rows[wrong].iloc[0]
        raise DataError(f"{name} must be a number, got {first[name]!r}", source=_place(source, first[LINE]))
    return numbers


def _with_scenario(rows: pd.DataFrame, default: str, source: str | None) -> pd.DataFrame:
    given = rows["scenario"] if "scenario" in rows else pd.Series("", index=rows.index)
    named = given.fillna("").astype(str).str.strip().str.lower().replace(_SCENARIO_ALIASES)
    named = named.where(named.ne(""), default)
    unknown = ~named.isin(SCENARIOS)
    if unknown.any():
        line = _place(source, rows[LINE][unknown].iloc[0])
        raise DataError(f"scenario must be one of {', '.join(SCENARIOS)}, got {named[unknown].iloc[0]!r}", source=line)
    return rows.assign(scenario=named, benchmark=rows["benchmark"].fillna("").astype(str).str.strip())


def _series(rows: pd.DataFrame, source: str | None) -> SizeSeries:
    """Check the rows of one benchmark, by increasing size, and return them as arrays."""
    name = str(rows["benchmark"].iloc[0])
    _refuse(rows, rows["benchmark"].eq(""), "benchmark", "have a name", source)
    _refuse(rows, ~(rows["size"] > 0), "size", "be above 0", source, name)
    if (falls := rows["size"].diff() <= 0).any():
        after = float(rows["size"].shift()[falls].iloc[0])
        _refuse(rows, falls, "size", f"increase from row to row (before it stands {after:g})", source, name)
    _refuse(rows, rows["performance"] <= 0, "performance", "be above 0", source, name)
    measured = rows[rows["performance"].notna()]
    if measured.empty:
        raise DataError(f"performance of {name} is not given at any size", source=source)
    mpki = _column(rows, "mpki")
    _refuse(rows, mpki < 0, "mpki", "not be negative", source, name)
    holes = mpki.isna() & rows["performance"].notna()
    if mpki.notna().any() and holes.any():
        sizes = ", ".join(f"{size:g}" for size in rows.loc[holes, "size"])
        raise DataError(
            f"MPKI of {name} must be given at every measured size or at none: missing at {sizes}", source=source
        )
    known = rows[mpki.notna()]
    seconds = _column(rows, "simulation_time_s")
    _refuse(rows, seconds <= 0, "simulation_time_s", "be above 0", source, name)
    timed = seconds.notna()
    return SizeSeries(
        benchmark=name,
        scenario=str(rows["scenario"].iloc[0]),
        unit=_unit(rows),
        sizes=measured["size"].to_numpy(dtype=float),
        performance=measured["performance"].to_numpy(dtype=float),
        mpki=known["mpki"].to_numpy(dtype=float) if len(known) else None,
        mpki_sizes=known["size"].to_numpy(dtype=float) if len(known) else None,
        f_mem=_f_mem(rows, name, source),
        simulation_time_s=dict(zip(rows["size"][timed].tolist(), seconds[timed].tolist(), strict=True)),
    )


def _f_mem(rows: pd.DataFrame, name: str, source: str | None) -> float | None:
    """Return the first share stated, as a fraction; the paper states it at the smallest size."""
    for column, most in (("f_mem", 1.0), ("f_mem_percent", 100.0)):
        shares = _column(rows, column)
        _refuse(rows, ~shares.between(0, most, inclusive="left") & shares.notna(), column,
                f"lie between 0 and {most:g}", source, name)  # fmt: skip
        if shares.notna().any():
            return float(shares.dropna().iloc[0]) / most
    return None


def _unit(rows: pd.DataFrame) -> str:
    given = rows["unit"].dropna().astype(str).str.strip() if "unit" in rows else pd.Series(dtype=str)
    return next(iter(given[given.ne("")]), DEFAULT_UNIT)


def _column(rows: pd.DataFrame, name: str) -> pd.Series:
    return rows[name] if name in rows else pd.Series(np.nan, index=rows.index)


def _refuse(
    rows: pd.DataFrame, wrong: pd.Series, column: str, must: str, source: str | None, name: str | None = None
) -> None:
    """Raise for the first row that is wrong."""
    if not wrong.any():
        return
    row = rows[wrong].iloc[0]
    value = f"{row[column]:g}" if isinstance(row[column], float) else repr(row[column])
    of = f" of {name}" if name else ""
    raise DataError(f"{column}{of} must {must}, got {value}", source=_place(source, row[LINE]))


def _place(source: str | None, line: object) -> str | None:
    return f"{source}:{line}" if source else None


def curve_targets(series: Sequence[SizeSeries], fit: Sequence[float]) -> Iterator[float]:
    """Yield the measured sizes beyond those to fit, each once, increasing: what can be predicted and compared."""
    beyond = {float(size) for one in series for size in one.sizes if size > max(fit)}
    yield from sorted(beyond)

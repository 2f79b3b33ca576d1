"""Curves of performance against size, one per benchmark: what every law of scaling takes.

A curve is made in memory (`Curve`), read from a table (`read_curves`), stated value by value (`stated`) or published
(`published_curves`). Tables have

=================  ===================================================================================================
column             meaning
=================  ===================================================================================================
benchmark          name of the workload
size               SMs, compute units, chiplets or threads, > 0; the rows of a benchmark stand by increasing size
performance        work per time, > 0, e.g. instructions per cycle; also called ``ipc``. Empty where not measured
mpki               misses of the last-level cache per thousand instructions; also ``llc_mpki``
l2_mpki            misses of the L2, where another cache is behind it; in the rows that have ``mpki``
f_mem              share of the time that waits for memory, 0 to 1, in any row of the benchmark; or ``f_mem_percent``
f_l2               share of the time that waits until that cache answers, 0 to 1, as ``f_mem``; or ``f_l2_percent``
scenario           ``strong``, ``weak`` or ``chiplets``
unit               what the size counts, e.g. ``SM``
simulation_time_s  seconds the simulation of that size took
=================  ===================================================================================================

Only the first three are needed. A row without performance may still give the miss rate at its size: a miss-rate curve
is cheap to obtain at sizes that are too large to simulate. Inputs of Extra-P are read, too
(`scaling.extrap`), and folders of Caliper's profiles (`scaling.caliper`).
"""

from __future__ import annotations

import csv
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cache
from importlib import resources
from os.path import isdir, isfile  # False of a name too long to be one, where those of Path raise
from pathlib import Path
from typing import Self

import numpy as np
import pandas as pd
from numpy.typing import ArrayLike

from .. import datasets, values
from ..arrays import BoolArray, FloatArray
from ..errors import DataError, ParameterError
from ..readers.base import LINE
from ..readers.files import decimal_commas, head, read_plain_table, with_points
from ..readers.reading import check_renames
from ..remarks import Remark, remark
from ..table.conditions import Where, select
from .caliper import caliper_rows
from .extrap import extrap_rows, is_extrap

STRONG, WEAK, CHIPLETS = SCENARIOS = ("strong", "weak", "chiplets")
"""The same work on larger GPUs; work that grows with the GPU; the same, where the GPU grows by whole chiplets."""
DEFAULT_UNIT = "size"
_ALIASES = {"performance": ("ipc", "perf"), "mpki": ("llc_mpki",), "size": ("sms", "cus")}
_SCENARIO_ALIASES = {
    "weak-multi-chiplet": "chiplets",
    "multi-chiplet": "chiplets",
    "chiplet": "chiplets",
}
_NEEDED = ("benchmark", "size", "performance")
_SHARES = ("f_mem", "f_mem_percent", "f_l2", "f_l2_percent")
_NUMBERS = ("size", "performance", "mpki", "l2_mpki", *_SHARES, "simulation_time_s")
_KNOWN = (*_NEEDED, *_NUMBERS, "scenario", "unit", LINE)


class CurveError(DataError):
    """A law cannot be fitted to a curve, or the curve itself cannot be used: whose it is, and what is wrong with it."""

    def __init__(self, benchmark: str, problem: str) -> None:
        super().__init__(problem, source=benchmark)
        self.benchmark = benchmark
        self.problem = problem


@dataclass(frozen=True)
class Curve:
    """The performance of one benchmark at several sizes of the GPU.

    Curves of the same benchmark never teach a law that predicts it. `mpki_sizes` may go beyond
    `sizes`.
    """

    benchmark: str
    scenario: str  # how the work grows with the GPU: one of `SCENARIOS`
    unit: str  # what the sizes count: ``"SM"``, ``"CU"``, ``"chiplet"``, ``"thread"``
    sizes: FloatArray  # shape (k,), increasing, > 0
    performance: FloatArray  # shape (k,), work per time at each size, > 0: instructions per cycle, or any throughput
    # shape (m,), misses of the last-level cache per thousand instructions
    mpki: FloatArray | None = None
    # shape (m,), the sizes of `mpki`, increasing; None: they are `sizes`
    mpki_sizes: FloatArray | None = None
    # share of the time that waits for memory in the largest scale model, 0 to < 1
    f_mem: float | None = None
    simulation_time_s: Mapping[float, float] = field(default_factory=dict)  # by size, if given
    l2_mpki: FloatArray | None = None  # shape (m,), of the L2, where another cache is behind it
    f_l2: float | None = None  # share of the time that waits until that cache answers

    def __post_init__(self) -> None:
        for name in ("sizes", "performance", "mpki", "mpki_sizes", "l2_mpki"):
            values = getattr(self, name)
            if values is not None:
                object.__setattr__(self, name, np.asarray(values, dtype=np.float64))

    @property
    def name(self) -> str:
        """The benchmark and its scenario, e.g. ``"bfs (strong)"``."""
        return f"{self.benchmark} ({self.scenario})"

    @property
    def miss_sizes(self) -> FloatArray:
        """The sizes of the miss-rate curve."""
        if self.mpki_sizes is None:
            return self.sizes
        return self.mpki_sizes

    def measured_at(self, size: float) -> float | None:
        """Return the performance at a size; None where it was not measured."""
        measured = self.performance[self.sizes == size]
        if measured.size:
            return float(measured[0])
        return None

    def check(self) -> Self:
        """Return the curve if laws can be fitted to it; a CurveError says in a line what is wrong with it."""
        problems = (
            *_size_problems(self.sizes, self.performance),
            *_miss_problems(self.mpki, self.miss_sizes),
            *_miss_problems(self.l2_mpki, self.miss_sizes),
        )
        if self.scenario not in SCENARIOS:
            problems = (
                *problems,
                f"scenario must be one of {', '.join(SCENARIOS)}, got {self.scenario!r}",
            )
        for name, share in (("f_mem", self.f_mem), ("f_l2", self.f_l2)):
            if share is not None and not 0 <= share < 1:
                text = f"{name} must be a share of the time from 0 to below 1, got {share:g}"
                problems = (*problems, text)
        waiting = (self.f_mem or 0.0) + (self.f_l2 or 0.0)
        if not problems and not waiting < 1:
            problems = (f"f_mem and f_l2 must leave time to compute, got {waiting:g} together",)
        if problems:
            raise CurveError(self.benchmark, problems[0])
        return self

    def cut(self, sizes: ArrayLike) -> Self:
        """Return the curve with the performance at some of its sizes only; its miss rates stay at all of theirs."""
        kept = among(self.sizes, np.asarray(sizes, dtype=np.float64))
        misses = None
        if self.mpki is not None:
            misses = self.miss_sizes
        return replace(
            self, sizes=self.sizes[kept], performance=self.performance[kept], mpki_sizes=misses
        )


def among(sizes: FloatArray, others: FloatArray) -> BoolArray:
    """Say of each of a few sizes whether it is one of the others; `numpy.isin` sorts, which takes far longer."""
    return (sizes[:, None] == others).any(axis=1)


@dataclass(frozen=True)
class CurveTable:
    """The curves of one table; ``notes`` are of ``decimal-commas`` and ``columns-not-used``."""

    curves: tuple[Curve, ...]
    notes: tuple[Remark, ...] = ()


def read_curves(
    path: Path,
    where: Where = None,
    scenario: str = "strong",
    rename: Mapping[str, str] | None = None,
) -> CurveTable:
    """Read a CSV (which may be compressed) or Parquet table of benchmark, size and performance, or Extra-P's input.

    ``where`` says which rows (`table.conditions`); ``scenario`` is that of benchmarks whose rows
    state none; ``rename`` is the file's name of a column -> that of this module. A DataError says
    that the file cannot be read, a column is missing, a value is no number or out of its range, or
    the sizes of a benchmark do not increase.
    """
    renames = values.assigned("rename", rename)
    if isdir(path):
        rows, notes = caliper_rows(path, scenario, renames)
    elif isfile(path) and is_extrap(head(path)):
        rows, notes = extrap_rows(path, scenario, renames)
    else:
        return curves_of(read_plain_table(path), where, scenario, rename, source=str(path))
    table = curves_of(rows, where, scenario, source=str(path))
    return replace(table, notes=(*notes, *table.notes))


def curves_of(
    frame: pd.DataFrame,
    where: Where = None,
    scenario: str = "strong",
    rename: Mapping[str, str] | None = None,
    *,
    source: str | None = None,
) -> CurveTable:
    """Return the benchmarks of a table that is already in memory; see `read_curves`."""
    rename = values.assigned("rename", rename)
    check_renames((), rename, [frame.drop(columns=LINE, errors="ignore")], columns_used=_KNOWN)
    rows = _renamed(frame.rename(columns=rename))
    missing = [name for name in _NEEDED if name not in rows]
    if missing:
        names = ", ".join(str(name) for name in frame.columns if name != LINE)
        raise DataError(
            f"no column {' and no column '.join(missing)}: the table has {names}; give rename "
            f"NAME={missing[0]}",
            source=source,
        )
    if rows.empty:
        raise DataError("the table has no rows", source=source)
    numbers = [name for name in _NUMBERS if name in rows]
    rows, commas = with_points(rows, numbers, source)
    for name in numbers:
        rows[name] = _as_numbers(rows, name, source)
    if "scenario" in rows:
        given = rows["scenario"]
    else:
        given = pd.Series("", index=rows.index)
    named = given.fillna("").astype(str).str.strip().str.lower().replace(_SCENARIO_ALIASES)
    named = named.where(named.ne(""), scenario)
    unknown = ~named.isin(SCENARIOS)
    if unknown.any():
        line = _place(source, rows[LINE][unknown].iloc[0])
        raise DataError(
            f"scenario must be one of {', '.join(SCENARIOS)}, got {named[unknown].iloc[0]!r}",
            source=line,
        )
    rows = rows.assign(
        scenario=named, benchmark=rows["benchmark"].fillna("").astype(str).str.strip()
    )
    chosen = select(rows, where)
    groups = chosen.groupby(["scenario", "benchmark"], sort=False, dropna=False)
    curves = tuple(_curve(part.reset_index(drop=True), source) for _, part in groups)
    ignored = tuple(str(name) for name in rows if name not in _KNOWN)
    if commas:
        notes = [decimal_commas(commas)]
    else:
        notes = []
    if ignored:
        notes.append(
            remark("columns-not-used", f"columns not used: {', '.join(ignored)}", columns=ignored)
        )
    return CurveTable(curves, tuple(notes))


@cache
def published_curves() -> tuple[Curve, ...]:
    """Return published curves: 21 with strong, 6 with weak scaling, 5 of multi-chiplet GPUs.

    From the artifact of SeyyedAghaei, Naderan-Tahan, Eeckhout, GPU Scale-Model Simulation, HPCA
    2024.
    """
    text = (resources.files(datasets) / "scale_model.csv").read_text(encoding="utf-8")
    rows: dict[tuple[str, str], list[dict[str, str]]] = {}
    for row in csv.DictReader(text.splitlines()):
        rows.setdefault((row["scenario"], row["benchmark"]), []).append(row)
    curves = []
    for group in rows.values():
        f_mem = None
        times = {}
        for row in group:
            if row["f_mem"] and f_mem is None:
                f_mem = float(row["f_mem"])
            if row["simulation_time_s"]:
                times[float(row["size"])] = float(row["simulation_time_s"])
        curve = Curve(
            benchmark=group[0]["benchmark"],
            scenario=group[0]["scenario"],
            unit=group[0]["unit"],
            sizes=np.array([float(row["size"]) for row in group]),
            performance=np.array([float(row["ipc"]) for row in group]),
            mpki=np.array([float(row["llc_mpki"]) for row in group]),
            f_mem=f_mem,
            simulation_time_s=times,
        )
        curves.append(curve.check())
    return tuple(curves)


def stated(
    sizes: Sequence[float],
    performance: Sequence[float],
    targets: Sequence[float] = (),
    *,
    mpki: Sequence[float] | None = None,
    f_mem: float | None = None,
    scenario: str = "strong",
) -> CurveTable:
    """Return the one benchmark whose values were stated one by one.

    There is a performance for each size, and an MPKI for each size, or for each size and each
    target to predict. ``f_mem`` is the share of the time that waits for memory, 0 to 1. A
    ParameterError says that the lengths do not agree, a DataError that a value is out of its range.
    """
    if len(performance) != len(sizes):
        raise ParameterError(
            "performance",
            f"must have a value for each of the {len(sizes)} sizes, got {len(performance)}",
        )
    every = [*sizes, *targets]
    if mpki is not None and len(mpki) not in {len(sizes), len(every)}:
        wanted = f"{len(sizes)} sizes"
        if targets:
            wanted += f", or {len(every)} with the targets"
        raise ParameterError("mpki", f"must have a value for each of the {wanted}, got {len(mpki)}")
    pad = [np.nan] * len(every)
    if f_mem is None:
        f_mem = np.nan
    frame = pd.DataFrame(
        {
            "benchmark": "stated",
            "size": every,
            "performance": [*performance, *pad][: len(every)],
            "mpki": [*(mpki or ()), *pad][: len(every)],
            "f_mem": f_mem,
        }
    )
    if not mpki:
        frame = frame.head(len(sizes))
    return curves_of(frame, scenario=scenario)


def _renamed(frame: pd.DataFrame) -> pd.DataFrame:
    """Return a copy under this module's names; a column of that very name comes before its aliases."""
    rows = frame.rename(
        columns={name: str(name).strip().lower() for name in frame.columns if name != LINE}
    )
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
        raise DataError(
            f"{name} must be a number, got {first[name]!r}", source=_place(source, first[LINE])
        )
    return numbers


def _curve(rows: pd.DataFrame, source: str | None) -> Curve:
    """Check the rows of one benchmark, by increasing size, and return its curve."""
    name = str(rows["benchmark"].iloc[0])
    _refuse(rows, rows["benchmark"].eq(""), "benchmark", "have a name", source)
    _refuse(rows, ~(rows["size"] > 0), "size", "be above 0", source, name)
    if (falls := rows["size"].diff() <= 0).any():
        after = float(rows["size"].shift()[falls].iloc[0])
        _refuse(
            rows,
            falls,
            "size",
            f"increase from row to row (before it stands {after:g})",
            source,
            name,
        )
    _refuse(rows, rows["performance"] <= 0, "performance", "be above 0", source, name)
    measured = rows[rows["performance"].notna()]
    if measured.empty:
        raise DataError(f"performance of {name} is not given at any size", source=source)
    mpki = _column(rows, "mpki")
    inner = _column(rows, "l2_mpki")
    _refuse(rows, mpki < 0, "mpki", "not be negative", source, name)
    _refuse(rows, inner < mpki, "l2_mpki", "be at least mpki", source, name)
    needed = rows["performance"].notna()
    for column, given, wanted in (("MPKI", mpki, needed), ("l2_mpki", inner, mpki.notna())):
        holes = given.isna() & wanted
        if given.notna().any() and holes.any():
            sizes = ", ".join(f"{size:g}" for size in rows.loc[holes, "size"])
            raise DataError(
                f"{column} of {name} must be given at every measured size or at none: missing at "
                f"{sizes}",
                source=source,
            )
    _refuse(rows, inner.notna() & mpki.isna(), "l2_mpki", "have mpki beside it", source, name)
    with_mpki = rows[mpki.notna()]
    seconds = _column(rows, "simulation_time_s")
    _refuse(rows, seconds <= 0, "simulation_time_s", "be above 0", source, name)
    timed = seconds.notna()
    if "unit" in rows:
        given = rows["unit"].dropna().astype(str).str.strip()
    else:
        given = pd.Series(dtype=str)
    return Curve(
        benchmark=name,
        scenario=str(rows["scenario"].iloc[0]),
        unit=next(iter(given[given.ne("")]), DEFAULT_UNIT),
        sizes=measured["size"].to_numpy(dtype=float),
        performance=measured["performance"].to_numpy(dtype=float),
        mpki=with_mpki["mpki"].to_numpy(dtype=float) if len(with_mpki) else None,
        mpki_sizes=with_mpki["size"].to_numpy(dtype=float) if len(with_mpki) else None,
        f_mem=_share(rows, "f_mem", name, source),
        l2_mpki=with_mpki["l2_mpki"].to_numpy(dtype=float) if inner.notna().any() else None,
        f_l2=_share(rows, "f_l2", name, source),
        simulation_time_s=dict(
            zip(rows["size"][timed].tolist(), seconds[timed].tolist(), strict=True)
        ),
    )


def _share(rows: pd.DataFrame, share: str, name: str, source: str | None) -> float | None:
    """Return the first share stated, as a fraction; the paper states f_mem at the smallest size."""
    for column, largest in ((share, 1.0), (f"{share}_percent", 100.0)):
        shares = _column(rows, column)
        _refuse(
            rows,
            ~shares.between(0, largest, inclusive="left") & shares.notna(),
            column,
            f"lie between 0 and {largest:g}",
            source,
            name,
        )
        if shares.notna().any():
            return float(shares.dropna().iloc[0]) / largest
    return None


def _column(rows: pd.DataFrame, name: str) -> pd.Series:
    if name in rows:
        return rows[name]
    return pd.Series(np.nan, index=rows.index)


def _refuse(
    rows: pd.DataFrame,
    wrong: pd.Series,
    column: str,
    must: str,
    source: str | None,
    name: str | None = None,
) -> None:
    """Raise for the first row that is wrong."""
    if not wrong.any():
        return
    row = rows[wrong].iloc[0]
    if isinstance(row[column], float):
        value = f"{row[column]:g}"
    else:
        value = repr(row[column])
    of = ""
    if name:
        of = f" of {name}"
    raise DataError(f"{column}{of} must {must}, got {value}", source=_place(source, row[LINE]))


def _place(source: str | None, line: object) -> str | None:
    if source:
        return f"{source}:{line}"
    return None


def sizes_beyond(curves: Sequence[Curve], fit: Sequence[float]) -> Iterator[float]:
    """Yield the measured sizes beyond those to fit, each once, increasing: what can be predicted and compared."""
    beyond = set()
    for curve in curves:
        for size in curve.sizes:
            if size > max(fit):
                beyond.add(float(size))
    yield from sorted(beyond)


# What is wrong with a curve, and the arithmetic of sizes that laws share.


def _size_problems(sizes: FloatArray, performance: FloatArray) -> tuple[str, ...]:
    if sizes.ndim != 1 or sizes.shape != performance.shape:
        return (f"each size needs one performance, got {sizes.size} and {performance.size}",)
    if sizes.size < 2:
        return (f"a curve needs two sizes or more, got {listed(sizes)}",)
    if not _increasing(sizes):
        return (f"sizes must be above 0 and increase, got {listed(sizes)}",)
    if bad := [
        f"{p:g} at {s:g}" for s, p in zip(sizes, performance, strict=True) if not 0 < p < np.inf
    ]:
        return (f"performance must be above 0, got {bad[0]}",)
    return ()


def _miss_problems(mpki: FloatArray | None, sizes: FloatArray) -> tuple[str, ...]:
    if mpki is None:
        return ()
    if mpki.shape != sizes.shape:
        return (f"each MPKI needs a size, got {mpki.size} and {sizes.size}",)
    if not _increasing(sizes):
        return (f"sizes of the MPKI must be above 0 and increase, got {listed(sizes)}",)
    if not np.all((mpki >= 0) & np.isfinite(mpki)):
        return (f"MPKI must be 0 or more, got {listed(mpki)}",)
    return ()


def _increasing(sizes: FloatArray) -> bool:
    rising = np.all(np.diff(sizes, prepend=0.0) > 0)
    return bool(rising and np.all(np.isfinite(sizes)))


def listed(values: FloatArray | Sequence[float]) -> str:
    """Return the values separated by commas, for messages."""
    return ", ".join(f"{value:g}" for value in values) or "none"


def positive(sizes: ArrayLike) -> FloatArray:
    """Return the sizes as an array of shape (n,); a DataError says that one of them is not above 0."""
    values = np.atleast_1d(np.asarray(sizes, dtype=np.float64))
    if not np.all((values > 0) & np.isfinite(values)):
        raise DataError(f"sizes to predict must be above 0, got {listed(values)}")
    return values


def doublings_away(trained: FloatArray, sizes: FloatArray) -> FloatArray:
    """Return how many doublings each size lies from the nearest trained one."""
    return np.abs(np.log2(sizes[:, None] / trained[None, :])).min(axis=1)


def log_ratio(observed: FloatArray, predicted: FloatArray) -> FloatArray:
    """Return log(observed / predicted), infinite where the prediction is not a positive number."""
    usable = np.isfinite(predicted) & (predicted > 0)
    return np.where(usable, np.log(observed / np.where(usable, predicted, 1.0)), np.inf)


def within(curve: Curve, sizes: FloatArray) -> FloatArray:
    """Return the performance up to the largest size of the curve: power laws from each size to the next.

    The published forms of the scale models speak of larger sizes only.
    """
    u = np.log(curve.sizes)
    v = np.log(curve.performance)
    at = np.log(sizes)
    first_rise = v[1] - v[0]
    below = v[0] + (at - u[0]) * first_rise / (u[1] - u[0])
    return np.exp(np.where(at < u[0], below, np.interp(at, u, v)))

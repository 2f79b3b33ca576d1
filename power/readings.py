"""The three tables that kernel power is made from, read and checked; every time is in nanoseconds, whole numbers.

A power log comes from a file in any supported form (`read_log`); all three may be tables of this form:

=============  =============  =========================================================================================
table          column         meaning
=============  =============  =========================================================================================
power log      gpu_ns         time stamp of the reading on the GPU's clock; an averaging logger stamps the window's end
power log      component      what drew the power: ``total``, ``xcd``, ``iod``, ``hbm``; without the column: ``total``
power log      power_w        watts, each component at every time stamp; where the total is 0, or one is over 20,000 (a
                              register that could not be read is 65535), all of that time stamp are left out
power log      limit_w        optional: the board's limit, watts: power with the window removed stays below
executions     start_ns       start of a kernel's execution on the CPU's clock
executions     end_ns         its end, on the same clock
executions     kernel         name of the kernel
executions     run            optional: the run it belongs to; without it runs are distinguished by the gaps
executions     execution      optional: its number in the run, from 1; without it the order of time counts
executions     steady_from    optional: number of the kernel's first execution of steady power, where the window's fill
                              does not tell it: of a kernel that throttles
executions     class          optional: ``compute-bound``, ``memory-bound`` or ``communication``, by op-to-byte ratio
executions     flops          optional, one for a kernel, as are the following: operations of one launch
executions     bytes          optional: what one launch moves; of a collective its message
executions     balance        optional: FLOP per byte of the GPU's peaks; with flops and bytes it tells the class
executions     launches       optional: launches back to back that count as one execution; without it 1
executions     collective     optional: name of the collective, the same for each of its messages
clock pairs    gpu_ns         the GPU's counter, as it was read
clock pairs    cpu_ns         the CPU's clock when the read was issued
clock pairs    delay_ns       how long the read took: the counter was sampled between cpu_ns and cpu_ns + delay_ns
=============  =============  =========================================================================================
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

import numpy as np
import pandas as pd

from ..errors import DataError, ParameterError, check_plain_file
from ..readers.base import LINE
from ..readers.files import decimal_commas, head, plain_rows, read_plain_table, text, with_points
from ..remarks import Remark, remark
from .logs import MEASURED, TOTAL, csv_cells, read_power_log, whole_lines

POWER_LOG: Final = ("gpu_ns", "component", "power_w")
EXECUTIONS: Final = ("start_ns", "end_ns", "kernel")
CLOCK_PAIRS: Final = ("gpu_ns", "cpu_ns", "delay_ns")
COMPUTE, MEMORY, COMMUNICATION = CLASSES = ("compute-bound", "memory-bound", "communication")
FACTS: Final = ("flops", "bytes", "balance", "launches")
"""Optional columns of executions that are numbers, one for a kernel."""
GPU_CLOCK = "gpu"
CPU_CLOCK = "epoch"
NO_CLOCK = "none"
"""What the times of a log are: of the GPU's counter, of the CPU since 1970, or absent."""
COLUMNS: Final = frozenset(
    {*POWER_LOG, *EXECUTIONS, *CLOCK_PAIRS, *FACTS, *MEASURED, "limit_w", "gpu", "timestamp", "run"}
    | {"execution", "steady_from", "class", "collective", "time_ns", "time_us", "time_ms", "time_s"}
)
"""Names that columns of the three tables may be given."""
LEAST_STEP_NS = 5_000
LEAST_KERNEL_NS = 200
"""No power logger is faster than the first, and no kernel shorter than the second: below, the unit is another."""
# between these lies the typical power of any GPU, and far beyond
LEAST_W = 5.0
MOST_W = 20_000.0


@dataclass(frozen=True)
class Facts:
    """The facts of a kernel besides its times; NaN and "" where they are missing."""

    label: str = ""  # its class, as given
    flops: float = math.nan  # of one launch
    bytes: float = math.nan  # of one launch; of a collective its message
    balance: float = math.nan  # FLOP per byte of the GPU's peaks
    launches: float = 1.0  # that count as one execution
    collective: str = ""  # which collective, whatever its message
    isolated: str = ""  # of a kernel among others (`runs.apart`): the name of the same kernel alone

    @property
    def flops_per_byte(self) -> float:
        """Operations per byte."""
        if self.bytes > 0:
            return self.flops / self.bytes
        return math.nan

    @property
    def bound(self) -> str:
        """The class: as given, or by operations per byte against the balance of the GPU; "" without both."""
        if self.label or self.collective:
            return self.label or COMMUNICATION
        if math.isnan(self.flops_per_byte) or math.isnan(self.balance):
            return ""
        if self.flops_per_byte >= self.balance:
            return COMPUTE
        return MEMORY


def facts_of(rows: pd.DataFrame) -> Facts:
    """Return the facts in the checked executions of one kernel. Raises DataError: they contradict each other."""
    facts: dict[str, Any] = {}
    for column in ("class", "collective", "isolated", *FACTS):
        stated = rows.get(column, pd.Series(dtype=object)).dropna().unique()
        given = [value for value in stated if value != ""]
        if len(given) > 1:
            one, other = (value if isinstance(value, str) else f"{value:g}" for value in given[:2])
            raise DataError(
                f"{column} of kernel {rows['kernel'].iloc[0]} is both {one} and {other}: give it "
                "one"
            )
        if given:
            if isinstance(given[0], str):
                facts[column] = given[0]
            else:
                facts[column] = float(given[0])
    if "class" in facts:
        facts["label"] = facts.pop("class")
    return Facts(**facts)


@dataclass(frozen=True)
class PowerLog:
    """A power log of one GPU."""

    readings: pd.DataFrame  # as `check_power_log` returns them; ``gpu_ns`` is the log's clock
    clock: str  # what that clock is: "gpu", "epoch" (the CPU's) or "local time"
    notes: tuple[Remark, ...]  # what of the file is left out
    limit_w: float | None = None  # that the board keeps to, where the log states it


def read_log(
    path: Path, gpu: int | None = None, rename: Mapping[str, str] | None = None
) -> PowerLog:
    """Read a power log: a table with gpu_ns and power_w, or a log of nvidia-smi, amd-smi or rocm-smi.

    `rename` says what columns of a table are called here: the file's name -> ours. `gpu` says which
    GPU's readings count, and may be left out where the log has one only. A table of this package's
    own form says which in a column ``gpu``. Raises DataError: the file cannot be
    read, has no times, is of several GPUs of which none was chosen, or not of the one chosen.
    """
    check_plain_file(path)
    if not path.is_file():
        raise DataError("no such file", source=str(path))
    beginning = head(path)
    names = [str(name) for name in (rename or {}).values()]
    names += csv_cells(beginning.split(b"\n", 1)[0].decode(errors="replace").lower())
    timed = any(name == "timestamp" or name.startswith("time_") for name in names)
    if beginning.startswith(b"PAR1") or ("power_w" in names and not timed):
        return _read_log(path, gpu, rename or {})
    table = read_power_log(path, rename)
    clock = str(table.attrs["clock"])
    if clock == NO_CLOCK:
        raise DataError(
            "the log states no times: record them (amd-smi metric: with -w)", source=str(path)
        )
    chosen = _of_gpu(
        table,
        table["gpu"],
        gpu,
        str(path),
    ).rename(columns={"time_ns": "gpu_ns"})
    if not (chosen["gpu_ns"] % 10**9).any() and chosen.duplicated(["gpu_ns", "component"]).any():
        raise DataError(
            "several readings have the same timestamp, whose step is a whole second: log at most "
            "one a second, or with "
            "finer stamps",
            source=str(path),
        )
    notes = list[Remark]()
    missing = table.attrs["left_out"]
    if missing:
        text_of_missing = f"{missing} readings of the log have no power and are left out"
        notes.append(remark("power-log-readings-without-power", text_of_missing, readings=missing))
    readings, failed = _read_ones(check_power_log(chosen, str(path)))
    notes += [*failed, *_of_file(table.attrs["cut"], table.attrs["decimal_commas"])]
    return PowerLog(readings, clock, tuple(notes))


def _read_log(path: Path, gpu: int | None, rename: Mapping[str, str]) -> PowerLog:
    """Read a log with gpu_ns and power_w."""
    cut = 0
    if head(path).startswith(b"PAR1"):
        rows = read_plain_table(path)
    else:
        lines, cut = whole_lines(text(path))
        rows = plain_rows("\n".join(lines), str(path))
    rows = rows.rename(columns=rename)
    rows, commas = with_points(rows, rows.columns, str(path))
    column = next((name for name in rows if str(name).strip().lower() == "gpu"), None)
    if column is None and gpu is not None:
        raise ParameterError(
            "gpu_index",
            f"cannot be chosen, {path} does not say of which GPU it is: give it a column gpu",
        )
    if column is not None:
        numbers = pd.to_numeric(rows[column], errors="coerce")
        if numbers.isna().any():
            given = rows[column][numbers.isna()].iloc[0]
            raise DataError(
                f"gpu must be the number of a GPU, got {str(given)!r}", source=str(path)
            )
        rows = _of_gpu(rows, numbers, gpu, str(path))
    limit = None
    if "limit_w" in rows:
        limit = float(_number(rows, "limit_w", str(path)).max())
    readings, failed = _read_ones(check_power_log(rows, str(path)))
    return PowerLog(
        readings,
        GPU_CLOCK,
        (*failed, *_of_file(cut, commas)),
        limit,
    )


def _read_ones(readings: pd.DataFrame) -> tuple[pd.DataFrame, tuple[Remark, ...]]:
    """Drop time stamps at which a logger could not read: it writes 0, or its largest number (65535)."""
    failed = (readings["component"].eq(TOTAL) & readings["power_w"].eq(0)) | (
        readings["power_w"] > MOST_W
    )
    if not failed.any():
        return readings, ()
    stamps = readings.loc[failed, "gpu_ns"].unique()
    first = readings["power_w"][failed].iloc[0]
    text = f"{len(stamps)} readings of the log are none (the first is {first:g} W) and are left out"
    kept = readings[~readings["gpu_ns"].isin(stamps)].reset_index(drop=True)
    return kept, (
        remark(
            "power-log-failed-readings",
            text,
            readings=len(stamps),
            first_w=float(first),
        ),
    )


def _of_gpu(rows: pd.DataFrame, numbers: pd.Series, gpu: int | None, source: str) -> pd.DataFrame:
    """Return the readings of the GPU that was chosen, or of the only one."""
    numbers_seen = numbers.unique().tolist()
    named = ", ".join(f"{number:g}" for number in numbers_seen)
    if gpu is None and len(numbers_seen) > 1:
        raise ParameterError(
            "gpu_index", f"must be one of {named}, the GPUs of {source}: choose one"
        )
    if gpu is not None and gpu not in numbers_seen:
        raise ParameterError(
            "gpu_index", f"must be one of {named}, the GPUs of {source}, got {gpu}"
        )
    if gpu is None:
        return rows
    return rows[numbers == gpu].reset_index(drop=True)


def _of_file(cut: int, commas: tuple[str, ...]) -> tuple[Remark, ...]:
    """Return the remarks on how a log was written: it breaks off, or columns have decimal commas."""
    notes = list[Remark]()
    if cut:
        text = "the log breaks off within its last line, which is left out"
        notes.append(remark("power-log-cut-off", text))
    if commas:
        notes.append(decimal_commas(commas))
    return tuple(notes)


def check_power_log(frame: pd.DataFrame, source: str = "power log") -> pd.DataFrame:
    """Return the power log typed, or raise the first fault; messages call it `source`.

    Raises DataError: a column is missing or of another unit, a value is no number, the readings of
    a component are out of order or given twice, or a component lacks readings that others have.
    """
    rows = _columns(frame, ("gpu_ns", "power_w"), source)
    rows["gpu_ns"] = _whole(rows, "gpu_ns", source)
    rows["power_w"] = _number(rows, "power_w", source)
    rows["component"] = _words(rows, "component", TOTAL).str.lower()
    _refuse(rows, rows["power_w"] < 0, "power_w is negative", source)
    step = rows.groupby("component", sort=False)["gpu_ns"].diff()
    _refuse(
        rows, step < 0, "gpu_ns is earlier than the reading before: sort the log by time", source
    )
    _refuse(
        rows,
        step == 0,
        "a second reading of the component at the same gpu_ns: logs overlap, keep one",
        source,
    )
    step_ns = float(step.median())
    if step_ns < LEAST_STEP_NS:
        raise DataError(
            f"readings are {step_ns:g} ns apart (median): gpu_ns must be nanoseconds", source=source
        )
    typical = float(rows.groupby("component")["power_w"].median().max())
    if not LEAST_W <= typical <= MOST_W:
        raise DataError(
            f"power_w is {typical:g} (median): it must be watts, {LEAST_W:g} to {MOST_W:g}",
            source=source,
        )
    _check_components(rows, source)
    return rows[list(POWER_LOG)].reset_index(drop=True)


def check_executions(frame: pd.DataFrame, source: str = "executions") -> pd.DataFrame:
    """Return the executions typed, or raise the first fault; given optional columns stay.

    Raises DataError: a column is missing or of another unit, an execution ends before it starts,
    starts before the one before has ended, or its class is unknown.
    """
    rows = _columns(frame, EXECUTIONS, source)
    for name in ("start_ns", "end_ns"):
        rows[name] = _whole(rows, name, source)
    rows["kernel"] = _words(rows, "kernel", "")
    _refuse(
        rows,
        rows["kernel"].eq(""),
        "kernel has no name",
        source,
    )
    _refuse(
        rows,
        rows["end_ns"] <= rows["start_ns"],
        "the execution ends before it starts",
        source,
    )
    _refuse(
        rows,
        rows["start_ns"].diff() < 0,
        "start_ns is earlier than the row before: sort them by time",
        source,
    )
    overlap = rows["start_ns"] < rows["end_ns"].shift()
    _refuse(
        rows,
        overlap,
        "the execution starts before the one before has ended: power cannot be told apart",
        source,
    )
    typical = float((rows["end_ns"] - rows["start_ns"]).median())
    if typical < LEAST_KERNEL_NS:
        raise DataError(
            f"executions last {typical:g} ns (median): start_ns and end_ns must be nanoseconds",
            source=source,
        )
    names = ("run", "execution", "steady_from", "class", *FACTS, "collective")
    optional = [name for name in names if name in rows]
    for name in ("execution", "steady_from"):
        if name in optional:
            rows[name] = _whole(rows, name, source)
            _refuse(rows, rows[name] < 1, f"{name} is counted from 1", source)
    if "class" in optional:
        rows["class"] = _words(rows, "class", "").str.lower()
        wrong = ~rows["class"].isin(["", *CLASSES])
        _refuse(rows, wrong, f"class must be one of {', '.join(CLASSES)}", source)
    for name in [name for name in FACTS if name in optional]:
        stated = rows[name].notna() & rows[name].ne("")
        rows[name] = _number(rows[stated], name, source).reindex(rows.index)
        least = 0
        if name == "launches":
            least = 1
        _refuse(rows, rows[name] < least, f"{name} must be {least} or more", source)
    if "collective" in optional:
        rows["collective"] = _words(rows, "collective", "")
    return rows[[*EXECUTIONS, *optional]].reset_index(drop=True)


def check_clock_pairs(frame: pd.DataFrame, source: str = "clock pairs") -> pd.DataFrame:
    """Return the clock pairs typed, or raise the first fault.

    Raises DataError: there is no pair, a column is missing, or the pairs do not advance on both
    clocks.
    """
    rows = _columns(frame, CLOCK_PAIRS, source)
    for name in CLOCK_PAIRS:
        rows[name] = _whole(rows, name, source)
    _refuse(rows, rows["delay_ns"] < 0, "delay_ns is negative", source)
    for name in ("gpu_ns", "cpu_ns"):
        _refuse(
            rows,
            rows[name].diff() <= 0,
            f"{name} does not advance from the pair before: sort them by time",
            source,
        )
    return rows[list(CLOCK_PAIRS)].reset_index(drop=True)


def _columns(frame: pd.DataFrame, needed: Iterable[str], source: str) -> pd.DataFrame:
    """Return a copy with the columns under their names, or raise the missing ones."""
    rows = frame.rename(
        columns={name: str(name).strip().lower() for name in frame.columns if name != LINE}
    )
    for name in needed:
        if name not in rows:
            base = name.rpartition("_")[0]
            names = [str(one) for one in rows if one != LINE]
            others = [one for one in names if base and one.rpartition("_")[0] == base]
            unit = f"the table has {', '.join(names)}"
            if others:
                unit = f"{others[0]} is of another unit"
            raise DataError(f"no column {name}: {unit}", source=source)
    if rows.empty:
        raise DataError("the table has no rows", source=source)
    return rows.reset_index(drop=True)


def _number(rows: pd.DataFrame, name: str, source: str) -> pd.Series:
    numbers = pd.to_numeric(rows[name], errors="coerce").astype(float)
    wrong = ~np.isfinite(numbers)
    if wrong.any():
        given = rows.loc[wrong, name].iloc[0]
        _refuse(rows, wrong, f"{name} must be a number, got {str(given)!r}", source)
    return numbers


def _whole(rows: pd.DataFrame, name: str, source: str) -> pd.Series:
    """Return a column as int64: nanoseconds since 1970 do not fit into a float."""
    numbers = pd.to_numeric(rows[name], errors="coerce")
    wrong = ~np.isfinite(numbers.astype(float)) | (numbers.astype(float).abs() >= 2.0**63)
    if wrong.any():
        given = rows.loc[wrong, name].iloc[0]
        _refuse(rows, wrong, f"{name} must be a whole number, got {str(given)!r}", source)
    if numbers.dtype.kind in "iu":
        return numbers.astype("int64")
    return numbers.round().astype("int64")


def _words(rows: pd.DataFrame, name: str, default: str) -> pd.Series:
    if name not in rows:
        return pd.Series(default, index=rows.index, dtype="str")
    words = rows[name].astype(object).where(rows[name].notna(), "")
    return words.astype("str").str.strip()


def _check_components(rows: pd.DataFrame, source: str) -> None:
    """Refuse a log in which a component lacks readings."""
    _refuse(
        rows,
        rows["component"].eq(""),
        "component has no name",
        source,
    )
    stamps = rows["gpu_ns"].nunique()
    counts = rows["component"].value_counts(sort=False)
    short = counts[counts < stamps]
    if short.empty:
        return
    name = str(short.index[0])
    missing = sorted(set(rows["gpu_ns"]) - set(rows.loc[rows["component"].eq(name), "gpu_ns"]))
    raise DataError(
        f"component {name} has no reading at {len(missing)} of {stamps} time stamps, first at "
        f"gpu_ns {missing[0]}: "
        "give every component at each, or leave it out",
        source=source,
    )


def _refuse(rows: pd.DataFrame, wrong: pd.Series | np.ndarray, message: str, source: str) -> None:
    """Raise for the first wrong row, naming its line."""
    if wrong.any():
        row = int(np.argmax(np.asarray(wrong, dtype=bool)))
        place = f"{source}, row {row + 1}"
        if LINE in rows:
            place = f"{source}:{rows[LINE].iloc[row]}"
        raise DataError(message, source=place)

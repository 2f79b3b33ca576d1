"""Nsight Compute's CSV (`ncu --csv`, page `raw` or `details`; releases 2020 to 2025, as documented by NVIDIA).

It was also tried on a page `raw` that release 2025.3 wrote on an H100.

Lines that begin with "==", and whatever the program itself printed, may stand around the table::

    ==PROF== Connected to process 4242 (/home/user/app)
    "ID","Process ID","Process Name","Host Name","Kernel Name","Context","Stream","Block Size","Grid
    Size","Device",... "0","4242","app","127.0.0.1","axpy(int, float *)","1","7","(256, 1,
    1)","(4096, 1, 1)","0","9.0",...

No start of a launch is recorded. By default its duration is measured with clocks locked to their
base and caches flushed before each of several replays, so that it is not the time that a trace of
the same program shows.

Page `raw` is wide, a row of units below its header and then a row for each launch; page `details`
is long, a row for each metric (and rule) of each launch with its unit. Values are printed for
people, in the numbers of a locale and in scaled units: `launches` makes one table of either, in
base units.
"""

from __future__ import annotations

import codecs
import re
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from itertools import product
from pathlib import Path

import numpy as np
import pandas as pd

from ..errors import DataError
from ..remarks import Remark, remark
from ..table.measurements import COUNTER
from ..traces.dispatches import KERNEL, Finding, Trace, dispatch_table, findings_on, in_order
from .base import GRID_NOT_RECORDED, LINE, DataFile, Options, TraceReader, register
from .files import Csv, content, parse_csv
from .labels import device_named, device_of, microseconds

# Numbers as programs print them for people: "1,234.56", "1.234,56", "1 234,56", "1'234.56".
#
# What a comma or a point means is a matter of the locale, one for a whole file. "1,234" alone can
# be 1234 or 1.234: other numbers of the file decide, and where none does, nobody can.

_SPACES = " \u00a0\u2009\u202f'’"
#: A number by its decimal mark: digits, or groups of three with another mark or a space between them.
_NUMBERS = {
    mark: re.compile(
        rf"^[+-]?(?:(?:\d+(?:[{mark}]\d*)?|[{mark}]\d+)(?:[eE][+-]?\d+)?"
        rf"|[1-9]\d{{0,2}}(?P<group>[{other}{_SPACES}])\d{{3}}(?:(?P=group)\d{{3}})*(?:[{mark}]\d*)?)$"
    )
    for mark, other in ((".", ","), (",", "."))
}


class AmbiguousNumbersError(ValueError):
    """Numbers contradict each other or are ambiguous; `examples` are some of them."""

    def __init__(self, message: str, examples: tuple[str, ...]) -> None:
        super().__init__(message)
        self.examples = examples


def decimal_mark(words: Iterable[str]) -> str:
    """Return the decimal mark, "." or ",", that all printed values of a file agree on; "." where no word has any.

    Raises AmbiguousNumbersError: some words need the one and some the other, or every word can be
    read either way.

    >>> decimal_mark(["1,234", "56.7"]), decimal_mark(["1.234", "56,7"])
    ('.', ',')
    """
    witnesses: dict[str, str] = {}
    open_to_both = ""
    for word in words:
        readings = [mark for mark in ".," if parsed(word, mark) is not None]
        if not readings or not ("." in word or "," in word):
            continue
        if len(readings) > 1:
            open_to_both = open_to_both or word
        else:
            witnesses.setdefault(readings[0], word)
    if len(witnesses) > 1:
        examples = tuple(sorted(witnesses.values()))
        raise AmbiguousNumbersError(
            f"numbers of different locales ({' and '.join(map(repr, examples))})", examples
        )
    if open_to_both and not witnesses:
        raise AmbiguousNumbersError(
            f"{open_to_both!r} may be a whole number or a fraction, and no other number shows "
            "which",
            (open_to_both,),
        )
    return next(iter(witnesses), ".")


def parsed(word: str, mark: str) -> float | None:
    """Return the number that a word denotes under a decimal mark; None if it is not a number.

    >>> parsed("1.234,5", ",")
    1234.5
    """
    if not _NUMBERS[mark].match(word):
        return None
    digits = word.replace("." if mark == "," else ",", "")
    for space in _SPACES:
        digits = digits.replace(space, "")
    return float(digits.replace(mark, "."))


# Units that Nsight Compute prints: scaled to the value ("usecond", "Kbyte/block", "Ghz"), as its
# release spells them.
#
# Base units here: ns for times, byte, hz (also for "cycle/nsecond"), and "per second" for rates
# ("byte/second"). Prefixes are decimal: 49 152 bytes of shared memory are printed as 49.15 Kbyte.

_PREFIXES = {
    "": 1.0,
    "K": 1e3,
    "k": 1e3,
    "M": 1e6,
    "G": 1e9,
    "T": 1e12,
    "P": 1e15,
}
_SCALED = re.compile(
    r"^(?P<prefix>[KkMGTP]?)(?P<unit>byte|B|bit|b|hz|Hz|cycle|inst|sector|request|thread|warp|block|flop|FLOP)s?$"
)
_NAMES = {
    "B": "byte",
    "b": "bit",
    "Hz": "hz",
    "FLOP": "flop",
}
_SECOND_NS = 1e9


def base_unit(unit: str) -> tuple[str, float]:
    """Return the base unit of a printed unit and the factor to it; other units stay as they are.

    >>> base_unit("usecond"), base_unit("cycle/nsecond")
    (('ns', 1000.0), ('hz', 1000000000.0))
    """
    above, slash, below = unit.strip().partition("/")
    name, factor = _part(above.strip())
    if not slash:
        return name, factor
    time = _nanoseconds(below.strip())
    if time:
        rate = "hz"
        if name != "cycle":
            rate = f"{name}/second"
        return rate, factor * _SECOND_NS / time
    under, divisor = _part(below.strip())
    return f"{name}/{under}", factor / divisor


def _nanoseconds(unit: str) -> float | None:
    factor = microseconds(unit)
    return factor and factor * 1e3


def _part(unit: str) -> tuple[str, float]:
    """Return the base unit of a simple unit."""
    time = _nanoseconds(unit)
    if time:
        return "ns", time
    match = _SCALED.match(unit)
    if match:
        return _NAMES.get(match["unit"], match["unit"]), _PREFIXES[match["prefix"]]
    return unit, 1.0


IDENTITY = (
    "ID",
    "Process ID",
    "Process Name",
    "Host Name",
    "Kernel Name",
    "Kernel Time",
    "Context",
    "Stream",
    "Block Size",
    "Grid Size",
    "Device",
    "CC",
)
"""Columns that say which launch a row is of."""
DISPLAY_NAME = "device__attribute_display_name"
_METRIC = ("Metric Name", "Metric Unit", "Metric Value")
_NVTX = "Domain:"  # columns of NVTX ranges
_LOOKS_LIKE_A_NUMBER = re.compile(r"^[+-]?\d")


@dataclass(frozen=True)
class Launches:
    """The launches of one file, one row each, in the order of the file.

    `identity` has `IDENTITY` as text, "" where the file does not say, the device's name in
    `DISPLAY_NAME`, and the 1-based line (LINE) within the CSV; `metrics` the values in base units,
    NaN where a launch has none; `units` the base unit of each metric, and the largest factor by
    which a printed unit was scaled to it. Counted are lines of no launch (`foreign`), values that
    look like numbers and are none (`unreadable`), and those of a metric that a launch has already
    (`repeated`).
    """

    identity: pd.DataFrame
    metrics: dict[str, np.ndarray] = field(default_factory=dict)
    units: dict[str, tuple[str, float]] = field(default_factory=dict)
    foreign: int = 0
    unreadable: int = 0
    repeated: int = 0


def launches(csv: Csv, source: str) -> Launches:
    """Return the launches of either page.

    Raises DataError for a summary over launches, a column that is missing, or numbers whose decimal
    mark nobody can tell.
    """
    table = pd.DataFrame(csv.columns, dtype=object)
    if "ID" not in table and "Process ID" in table:
        raise DataError(
            "a summary without single launches: export it without --print-summary", source=source
        )
    long = "Metric Name" in table
    lacking = [
        name for name in ("ID", "Kernel Name", *(_METRIC if long else ())) if name not in table
    ]
    if lacking:
        raise DataError(f"no column {lacking[0]!r}: not as ncu --csv writes it", source=source)
    table[LINE] = csv.lines
    table = table[table["ID"].ne("ID")]  # the header again, where several processes wrote one file
    try:
        if long:
            return _details(table, len(csv.overlong))
        return _raw(table, len(csv.overlong), source)
    except AmbiguousNumbersError as error:
        hint = "export it once more under LC_ALL=C"
        raise DataError(
            f"cannot tell decimal marks from thousands: {error}; {hint}", source=source
        ) from error


def _details(table: pd.DataFrame, foreign: int) -> Launches:
    numbered = table["ID"].str.fullmatch(r"\d+").astype(bool)
    foreign += int((~numbered).sum())
    table = table[numbered]
    key = _column(table, "Process ID") + " " + table["ID"]
    codes, _ = pd.factorize(key)
    identity = _identity(table[~pd.Series(codes, index=table.index).duplicated()])
    values, unreadable = _numbers(table["Metric Value"].to_numpy())
    rows = pd.DataFrame(
        {
            "launch": codes,
            "name": table["Metric Name"].to_numpy(),
            "value": values,
        }
    )
    rows["section"] = _column(table, "Section Name").to_numpy()
    rows["unit"], rows["factor"] = _units(table["Metric Unit"])
    rows = rows[rows["name"].ne("") & rows["value"].notna()]
    rows["value"] *= rows["factor"]
    # One label for two things gets its unit, else its section: "Memory Throughput" is a share here
    # and a rate there.
    by_unit = rows.groupby("name", sort=False)["unit"].transform("nunique").gt(1)
    rows = rows.assign(name=rows["name"].mask(by_unit, rows["name"] + " [" + rows["unit"] + "]"))
    rows = rows.drop_duplicates(["launch", "name", "value"])
    clashing = rows["name"].isin(rows.loc[rows.duplicated(["launch", "name"]), "name"])
    rows = rows.assign(name=rows["name"].mask(clashing, rows["section"] + ": " + rows["name"]))
    again = rows.duplicated(["launch", "name"])
    repeated = int(again.sum())
    rows = rows[~again]
    metrics: dict[str, np.ndarray] = {}
    units: dict[str, tuple[str, float]] = {}
    for name, rows_of_name in rows.groupby("name", sort=False):
        column = np.full(len(identity), np.nan)
        column[rows_of_name["launch"].to_numpy()] = rows_of_name["value"].to_numpy()
        metrics[str(name)] = column
        units[str(name)] = (str(rows_of_name["unit"].iloc[0]), float(rows_of_name["factor"].max()))
    return Launches(identity, metrics, units, foreign, unreadable, repeated)


def _raw(table: pd.DataFrame, foreign: int, source: str) -> Launches:
    numbered = table["ID"].str.fullmatch(r"\d+").astype(bool)
    below = table["ID"].eq("") & table["Kernel Name"].eq("")
    foreign += int((~numbered & ~below).sum())
    names = [
        name
        for name in map(str, table.columns)
        if name not in (*IDENTITY, LINE) and _NVTX not in name
    ]
    printed = table.loc[below, names].drop_duplicates()
    if len(printed) > 1:
        raise DataError(
            "units that change within the file: cut it into one file for each export", source=source
        )
    table = table[numbered]
    values, unreadable = _numbers(table[names].to_numpy().ravel())
    matrix = values.reshape(len(table), len(names))
    if len(printed):
        units, factors = _units(printed.iloc[0])
    else:
        units = [""] * len(names)
        factors = np.ones(len(names))
    metrics: dict[str, np.ndarray] = {}
    units_of: dict[str, tuple[str, float]] = {}
    for position, name in enumerate(names):
        if not np.isnan(matrix[:, position]).all():
            with np.errstate(over="ignore"):
                metrics[name] = matrix[:, position] * factors[position]
            units_of[name] = (units[position], float(factors[position]))
    return Launches(
        _identity(table),
        metrics,
        units_of,
        foreign,
        unreadable,
    )


def _identity(table: pd.DataFrame) -> pd.DataFrame:
    columns = {name: _column(table, name) for name in (*IDENTITY, DISPLAY_NAME)}
    return pd.DataFrame({**columns, LINE: table[LINE]}).reset_index(drop=True)


def _column(table: pd.DataFrame, name: str) -> pd.Series:
    if name in table:
        return table[name]
    return pd.Series("", index=table.index, dtype=object)


def _units(printed: pd.Series) -> tuple[list[str], np.ndarray]:
    """Return the base unit of each printed unit, and the factor to it."""
    units = {word: base_unit(str(word)) for word in printed.unique()}
    bases = [units[word] for word in printed]
    return [base for base, _ in bases], np.array([factor for _, factor in bases], dtype=float)


def _numbers(words: np.ndarray) -> tuple[np.ndarray, int]:
    """Return the number of each word, NaN for others, and how many of these look like numbers."""
    codes, distinct = pd.factorize(words)
    stripped = [str(word).strip() for word in distinct]
    # Without the values of single units: "12 (4; 8)", of `--print-metric-instances values`.
    plain = [word.partition(" (")[0].rstrip() if word.endswith(")") else word for word in stripped]
    mark = decimal_mark(plain)
    values = np.array([parsed(word, mark) for word in plain], dtype=float)[codes]
    looks = np.array([bool(_LOOKS_LIKE_A_NUMBER.match(word)) for word in plain], dtype=bool)[codes]
    return values, int((np.isnan(values) & looks).sum())


_HEADER = re.compile(
    r'^"?(?:ID"?[,;\t]"?)?Process ID"?[,;\t]"?Process Name"?[,;\t].*Kernel Name.*$', re.MULTILINE
)
_OWN_LINE = re.compile(r"^==.*$", re.MULTILINE)
_UTF16 = (codecs.BOM_UTF16_LE, codecs.BOM_UTF16_BE)
_DURATIONS = (
    "gpu__time_duration.sum",
    "Duration",
    "gpu__time_duration.avg",
    "gpu__time_duration.max",
)
_REGISTERS = ("launch__registers_per_thread", "Registers Per Thread")
_SHARED = (
    ("launch__shared_mem_per_block_static", "launch__shared_mem_per_block_dynamic"),
    ("Static Shared Memory Per Block", "Dynamic Shared Memory Per Block"),
)
_MULTIPROCESSORS = ("device__attribute_multiprocessor_count", "launch__sm_count", "# SMs")
_SIZE = r"^\(?\s*(\d{1,9})\s*,\s*(\d{1,9})\s*,\s*(\d{1,9})\s*\)?$"
_LONGEST_NS = 2.0**62  # beyond it a time does not fit 63 bits


@register
class NcuReader(TraceReader):
    """Launches that Nsight Compute profiled, their metrics as counters."""

    name = "Nsight Compute CSV"

    def sniff(self, path: Path, head: bytes) -> bool:
        """Recognise the header, at whichever line it stands."""
        return _HEADER.search(_decoded(head)) is not None

    def trace(self, files: Sequence[DataFile], options: Options) -> Trace:
        """Return one row for each launch of a file; launches without a measured duration are left out and counted."""
        (file,) = files
        text = _decoded(content(file.path, max_bytes=options.table_bytes))
        header = _HEADER.search(text)
        if header is None:
            raise DataError(
                'no header "ID","Process ID",...: not as ncu --csv writes it', source=file.label
            )
        before = text.count("\n", 0, header.start())
        body = _OWN_LINE.sub("", text[header.start() :]).rstrip()
        findings: list[Finding] = []
        last = body.rpartition("\n")[2]
        if header[0].rstrip().endswith('"') and last.startswith('"') and not last.endswith('"'):
            body = body.removesuffix(last)
            place = f"{file.label}:{before + body.count(chr(10)) + 1}"
            why = "the file ends within a line, which is left out"
            findings += findings_on(1, "truncated", why, "error", place)
        launches_read = launches(parse_csv(body, file.label, before), file.label)
        duration, notes = _durations(launches_read, file.label)
        findings += _findings(launches_read, duration, file.label)
        device, remarks = _devices(launches_read)
        timed = ~np.isnan(duration)
        identity = launches_read.identity[timed].reset_index(drop=True)
        metrics = {name: values[timed] for name, values in launches_read.metrics.items()}
        nanoseconds = np.rint(duration[timed]).astype(np.int64)
        if float(np.abs(duration[timed]).sum()) >= _LONGEST_NS:
            raise DataError("durations of centuries: the file is damaged", source=file.label)
        registers = next((name for name in _REGISTERS if name in metrics), "")
        vgpr = None
        if registers:
            vgpr = _integers(metrics[registers])
        columns = {
            "kind": KERNEL,
            "device": pd.Categorical(device[timed]),
            "name": pd.Categorical(identity["Kernel Name"]),
            "process": _whole(identity["Process ID"]),
            "gpu": _whole(identity["Device"]),
            "stream": _whole(identity["Stream"]),
            "dispatch_id": _whole(identity["ID"]),
            "duration_ns": nanoseconds,
            "start_ns": np.cumsum(np.maximum(nanoseconds, 0)) - np.maximum(nanoseconds, 0),
            "vgpr": vgpr,
            "lds_bytes": _shared_memory(launches_read, metrics),
            "source": f"{file.label}:" + identity[LINE].astype(str),
        }
        grids = _sizes("grid", identity["Grid Size"], metrics)
        columns |= grids | _sizes("block", identity["Block Size"], metrics)
        if len(identity) and pd.DataFrame(grids).isna().all(axis=None):
            text = "no launch has its grid: profile with --section LaunchStats, or --set full"
            findings += findings_on(len(identity), GRID_NOT_RECORDED, text, by="ncu")
        counters = {
            COUNTER + name: values
            for name, values in metrics.items()
            if name not in (*_DURATIONS, registers)
        }
        dispatches = in_order(dispatch_table({**columns, **counters}))
        return Trace(dispatches, findings=findings, notes=[*notes, *remarks])


def _decoded(raw: bytes) -> str:
    """Return text; PowerShell redirects output as UTF-16."""
    if raw.startswith(_UTF16):
        return raw.decode("utf-16", errors="replace")
    return raw.decode("utf-8-sig", errors="backslashreplace")


def _durations(launched: Launches, source: str) -> tuple[np.ndarray, list[Remark]]:
    """Return the nanoseconds of each launch, NaN where none were measured, and remarks."""
    headings = product(_DURATIONS, ("", " [ns]"))
    present = [name for name in map("".join, headings) if name in launched.metrics]
    timed = [name for name in present if launched.units[name][0] == "ns"]
    if not len(launched.identity):
        return np.empty(0), [
            remark("no-launches", "no launches: the application ran no kernel under the profiler")
        ]
    if not timed:
        wrong = ""
        if present:
            wrong = f" (unit of {present[0]}: {launched.units[present[0]][0] or 'none'})"
        text = (
            f"no duration{wrong}: profile with --section SpeedOfLight or --metrics "
            "gpu__time_duration.sum"
        )
        raise DataError(text, source=source)
    duration = np.full(len(launched.identity), np.nan)
    for name in timed:
        duration = np.where(np.isnan(duration), launched.metrics[name], duration)
    text = (
        "no start times are recorded: launches are placed one after another in the order of the "
        "file"
    )
    notes = [remark("no-start-times", text)]
    if launched.units[timed[0]][1] > 1:
        text = "durations are rounded to the digits printed: --print-units base gives nanoseconds"
        notes.append(remark("durations-rounded-by-ncu", text))
    return np.where(np.abs(duration) < _LONGEST_NS, duration, np.nan), notes


def _findings(launched: Launches, duration: np.ndarray, source: str) -> list[Finding]:
    untimed = np.isnan(duration)
    kept = int((~untimed).sum())
    locked = (
        "durations by ncu: clocks locked to base and caches flushed (unless --clock-control none, "
        "--cache-control none): do not mix them with the times of a trace"
    )
    untold = "launches without a duration are left out"
    foreign = "lines within the table that belong to no launch are skipped"
    unreadable = "values that are no numbers in this locale are left out"
    repeated = "metrics that a launch has twice with different values: the first is kept"
    return [
        *findings_on(kept, "locked-clocks", locked, "warning", source, 1.0),
        *findings_on(
            int(untimed.sum()),
            "no-duration",
            untold,
            "warning",
            source,
        ),
        *findings_on(launched.foreign, "foreign-lines", foreign, "info", source),
        *findings_on(launched.unreadable, "unreadable-values", unreadable, "warning", source),
        *findings_on(launched.repeated, "repeated-metrics", repeated, "warning", source),
    ]


def _devices(launched: Launches) -> tuple[np.ndarray, list[Remark]]:
    """Return the device of each launch, by its name or by its compute capability and multiprocessors, and remarks."""
    identity = launched.identity[[DISPLAY_NAME, "CC"]].assign(sizes=0)
    for name in _MULTIPROCESSORS:
        if name in launched.metrics:
            identity["sizes"] = _integers(launched.metrics[name]).fillna(0)
            break
    keys = list(identity.itertuples(index=False, name=None))
    devices = {key: _device(*key) for key in dict.fromkeys(keys)}
    notes = dict.fromkeys(assumption for _, assumption in devices.values() if assumption)
    return np.array([devices[key][0] for key in keys], dtype=object), list(notes)


def _device(word: str, capability: str, multiprocessors: int) -> tuple[str, Remark | None]:
    """Return the device by its name, else by compute capability and multiprocessors (0 if unknown)."""
    if word:
        return device_named(word, "", multiprocessors or None)
    if not capability:
        return "", remark(
            "device-not-recorded", "the device is not named: give default device=NAME", by="ncu"
        )
    name, assumption = device_of(capability, multiprocessors or None)
    if name.startswith(capability):
        text = f"several devices have compute capability {capability}: give default device=NAME"
        return "", remark("device-ambiguous", text, capability=capability)
    return name, assumption


def _sizes(side: str, cells: pd.Series, metrics: dict[str, np.ndarray]) -> dict[str, pd.Series]:
    """Return the three columns of a grid or block, from its cell "(x, y, z)", else from the metrics of the launch."""
    parts = cells.str.extract(_SIZE)
    columns = {}
    for position, axis in enumerate("xyz"):
        column = _whole(parts[position])
        measured = metrics.get(f"launch__{side}_dim_{axis}")
        if measured is not None:
            column = column.fillna(_integers(measured))
        columns[f"{side}_{axis}"] = column
    return columns


def _shared_memory(launched: Launches, metrics: dict[str, np.ndarray]) -> pd.Series | None:
    """Return the bytes of a block's static and dynamic memory; none where they were rounded to a scaled unit."""
    for names in _SHARED:
        if all(launched.units.get(name) == ("byte/block", 1.0) for name in names):
            return _integers(metrics[names[0]]) + _integers(metrics[names[1]])
    return None


def _whole(words: pd.Series) -> pd.Series:
    """Return the integers among words, missing for others."""
    digits = words.astype("str").str.extract(r"^\s*(\d{1,18})\s*$")[0]
    return pd.to_numeric(digits, errors="coerce").astype("Int64")


def _integers(values: np.ndarray) -> pd.Series:
    """Return whole numbers of a reasonable size, missing for others."""
    whole = (np.abs(values) < 2.0**53) & (values == np.floor(values))
    return pd.Series(values).where(whole).astype("Int64")

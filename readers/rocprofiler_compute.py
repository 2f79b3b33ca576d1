"""rocprofiler-compute and Omniperf: the folder of one workload on one GPU is one run.

=====================  =================================================================================================
pmc_perf.csv           every dispatch with its counters, joined from all passes: one line per dispatch ("wide", up to
                       2 700 columns), or since ROCm 7 one per dispatch and counter ("long", with Counter_Name)
pmc_perf_N.csv         one pass, in the columns of rocprof v2
SQ_*.csv               passes that count occupancies ("levels")
timestamps.csv         a pass without counters
sysinfo.csv            the machine: the device comes from here
others                 roofline.csv, pmc_dispatch_info.csv, pmc_kernel_top.csv, perfmon/, profiling_config.yaml and
                       log.txt hold nothing of single dispatches
=====================  =================================================================================================

Grids are one number of work-items, so `grid_x` counts the workgroups of all dimensions. Files in the columns of rocprof
v2 under other names are read too, each as a separate run. Seen: Omniperf 2.0 (rocprof v1 and v2), rocprofiler-compute
3 (ROCm 6.5 and 7.0), on MI210, MI300A, MI300X, MI350X.
"""

from __future__ import annotations

import csv
import re
from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Literal

import numpy as np
import pandas as pd

from ..arrays import FloatArray, IntArray
from ..errors import DataError, few
from ..remarks import Remark, remark
from ..table.counters import channels_of, merge_passes
from ..traces.dispatches import Finding, Trace, dispatch_table, in_order
from .base import SQLITE, DataFile, Options, TraceReader, by_folder, of_file, register
from .files import by_number, head, parse_csv, text
from .labels import device_of, gpu_of_word
from .rocprof import (
    DispatchTable,
    Times,
    at,
    channels_missing,
    columns_left_out,
    counter_columns,
    counters,
    dispatch_columns,
    header_of,
    left_out,
    parsed,
    positions,
    read_table,
    replay_spread,
    spoiled_timestamps,
    times_of,
    unmatched,
    without_times,
)

# Which device a rocprofiler-compute run was measured on: ``sysinfo.csv``, one line about the
# machine.
#
# `gpu_model` is the tool's name, with the stepping ("MI300X_A1") or of a whole series
# ("MI200"); `gpu_arch` and `cu_per_gpu` are what the runtime reports, of the partition where the
# card is split. They do not always agree: an early MI350 reports 128 compute units.

_STEPPING = re.compile(r"_[A-Z]\d$")
_WHOLE = frozenset(("", "SPX", "NA", "N/A"))  # compute_partition of a card that is not split


@dataclass(frozen=True)
class System:
    """The machine: its device, the channels of its L2 where stated, and what was assumed.

    The device is the catalogue's name; the file's word where it has none; "" if the file does
    not say.
    """

    device: str = ""
    channels: int | None = None
    notes: tuple[Remark, ...] = ()


def read_system(file: DataFile, options: Options) -> System:
    """Return what ``sysinfo.csv`` says; a DataError if it cannot be read."""
    try:
        columns = parse_csv(text(file.path, max_bytes=options.table_bytes), str(file.path)).columns
    except (ValueError, OverflowError, csv.Error) as error:
        raise DataError(f"is not a table that can be read ({error})", source=file.label) from error
    row = {name: str(values[0]).strip() for name, values in columns.items() if len(values)}
    device, notes = device_in(row)
    channels = _number(row.get("total_l2_chan", ""))
    return System(device, channels, tuple(of_file(file.label, note) for note in notes))


def device_in(row: dict[str, str]) -> tuple[str, list[Remark]]:
    """Return the device that a line of ``sysinfo.csv`` describes, and what was assumed.

    It is identified by `gpu_model` where the catalogue has it, else by architecture and compute units
    (`gpu_arch`, `cu_per_gpu`), else it is the model as it stands. A split card
    (`compute_partition`) is another device: "MI300X (CPX)". There are notes where the two disagree,
    or one is not enough.
    """
    model = _STEPPING.sub("", row.get("gpu_model", ""))
    arch = row.get("gpu_arch", "")
    cus = _number(row.get("cu_per_gpu", ""))
    partition = row.get("compute_partition", "").upper()
    gpu = gpu_of_word(model)
    split = partition not in _WHOLE
    if gpu is None:
        if not arch:
            return model, []
        name, assumption = device_of(arch, cus)
        is_gpu = gpu_of_word(name) is not None
        if split:
            divided = remark("card-split", f"the card is split ({partition})", partition=partition)
            return f"{name if is_gpu else model or name} ({partition})", [divided]
        if not is_gpu:
            return model or name, []
        said = f"{arch} with {cus} compute units is read as {name}"
        same = ()
        if assumption:
            said = assumption.text
            same = assumption.values["same"]
        if model:
            said = f"gpu_model {model} is a series: {said}"
        read = {
            "model": model,
            "arch": arch,
            "units": cus,
            "device": name,
            "same": same,
        }
        return name, [remark("gpu-model-series", said, **read)]
    device = gpu.name
    if split:
        text = f"the card is split ({partition}): its device is called {device} ({partition})"
        note = remark(
            "card-split",
            text,
            partition=partition,
            device=device,
        )
        return f"{device} ({partition})", [note]
    if (arch and arch != gpu.gfx) or cus not in (None, gpu.cus, gpu.reported_cus):
        said = row["gpu_model"]
        described = f"{arch or 'unknown architecture'} with {cus} compute units"
        text = f"gpu_model says {said}, which is no {described}: read as {device}"
        values = {
            "model": said,
            "arch": arch,
            "units": cus,
            "device": device,
        }
        return device, [remark("gpu-model-contradicted", text, **values)]
    if model != device:
        text = f"gpu_model {model} is read as {device}"
        return device, [
            remark(
                "gpu-model-read-as",
                text,
                model=model,
                device=device,
            )
        ]
    return device, []


def _number(text: str) -> int | None:
    if text.isdecimal() and len(text) < 9:
        return int(text)
    return None


# The passes of a run, brought to the same dispatches.
#
# The hardware counts a handful of events at a time, so the tool runs the program again and again;
# every run is a pass with a separate file, and ``pmc_perf.csv`` is their join. Dispatch_ID starts
# from 0 or from 1 as it likes, so passes are joined by the order within kernel, grid and workgroup.

_CELLS = 10_000_000  # a long table may need this many cells when made wide, or
_CELLS_PER_LINE = 16  # this many for each of its lines
_ON_EVERY_CHANNEL = "TCC_"  # counters of the L2, whose channels sysinfo.csv counts


@dataclass(frozen=True)
class Pass:
    """One file: its dispatches, one row each, and their counters under the counters' names.

    Each counter is an array of shape (n_dispatches,); `words` are columns left out, which hold no
    numbers. `times` is None if the file has none, `spread` by how much the durations of one
    dispatch differ between the passes in the file, relative to the longest.
    """

    table: DispatchTable
    counters: list[tuple[str, FloatArray]]
    words: list[str]
    times: Times | None
    spread: float = 0.0

    @property
    def label(self) -> str:
        """The file."""
        return self.table.label


@dataclass(frozen=True)
class Joined:
    """The counters of all passes for the dispatches of the first, and the findings on the way."""

    counters: dict[str, FloatArray]
    findings: list[Finding]
    notes: list[Remark]


def read_pass(file: DataFile, options: Options) -> Pass:
    """Return the dispatches and counters of one file, of either layout.

    Raises DataError where it cannot be read, or is too ragged a long table.
    """
    table = read_table(file, options)
    if table.has("counter_name", "counter_value"):
        keys = [table.integers("gpu"), table.integers("dispatch_id")]
        dispatch = pd.DataFrame(dict(enumerate(keys))).groupby([0, 1], sort=False, dropna=False)
        rows: IntArray = np.asarray(dispatch.ngroup(), dtype=np.int64)
        first = np.sort(np.unique(rows, return_index=True)[1])
        words = table.column("counter_name").fill_null("").to_pylist()
        labels, names = pd.factorize(np.array(words, dtype=object))
        if first.size * len(names) > max(_CELLS, _CELLS_PER_LINE * len(table)):
            raise DataError(
                f"has {len(table)} lines for {first.size} dispatches x {len(names)} counters: not "
                "a table of counters",
                source=table.label,
            )
        values = parsed(table.column("counter_value"))
        wide = _wide(
            rows,
            labels,
            values,
            [*names],
            first.size,
        )
        times = times_of(table)
        spread = 0.0
        if times:
            spread = _spread_of(times, rows)
        dispatches = table.take(first.astype(np.int64))
        return Pass(
            dispatches,
            wide,
            [],
            times_of(dispatches),
            spread,
        )
    columns, words = counters(table)
    return Pass(table, columns, words, times_of(table))


def rows_of(base: DispatchTable, other: DispatchTable) -> IntArray:
    """Return for each dispatch of `base` the row of the same dispatch in `other`, -1 where there is none.

    The n-th dispatch of a kernel with a grid and workgroup is the n-th of the other file, in the
    order of Dispatch_ID (of the lines, where it is no number). GPUs are distinguished where both files
    know the same ones.
    """
    same_gpus = set(base.integers("gpu").dropna()) == set(other.integers("gpu").dropna())
    mine = _order(base)
    theirs = _order(other)
    matched = positions(_keys(base, same_gpus).iloc[mine], _keys(other, same_gpus).iloc[theirs])
    rows = np.full(len(base), -1, dtype=np.int64)
    rows[mine] = np.where(matched >= 0, theirs[matched] if len(theirs) else -1, -1)
    return rows


def join(base: Pass, others: Sequence[Pass], channels: int | None) -> Joined:
    """Return the counters of `base` and `others` for the dispatches of `base`.

    Values of a pass are preferred to those of the passes after it. `channels` are those of the
    device's L2, where stated.
    """
    findings = [*base.table.findings]
    columns = list(base.counters)
    durations = [_durations(base)]
    words = list(base.words)
    for other in others:
        rows = rows_of(base.table, other.table)
        findings += [*other.table.findings, *unmatched(rows, len(other.table), other.label)]
        columns += [(name, at(values, rows)) for name, values in other.counters]
        durations.append(at(_durations(other), rows))
        words += other.words
    merged = merge_passes(columns)
    of_time = max(
        base.spread, merge_passes(("", numbers) for numbers in durations).spread.get("", 0.0)
    )
    findings += replay_spread({"duration": of_time, **merged.spread}, base.label)
    recorded = {}
    for name, numbers in channels_of(merged.columns).items():
        expected = 0
        if name.startswith(_ON_EVERY_CHANNEL):
            expected = channels or 0
        recorded[name] = len(numbers), max(max(numbers) + 1, expected)
    findings += channels_missing(recorded, base.label)
    notes = []
    if words:
        notes.append(columns_left_out(base.label, dict.fromkeys(words)))
    if merged.columns:
        text = (
            "counters of a dispatch come from several runs of the program, one for each set of "
            "counters: "
            "they were not measured together"
        )
        notes.append(of_file(base.label, remark("counters-of-several-runs", text)))
    return Joined(merged.columns, findings, notes)


def _durations(base: Pass) -> FloatArray:
    """Return durations as numbers, NaN where there are none to trust."""
    if base.times is None:
        return np.full(len(base.table), np.nan)
    return np.where(
        base.times.readable & ~base.times.spoiled, base.times.duration_ns.astype(np.float64), np.nan
    )


def _keys(table: DispatchTable, gpus: bool) -> pd.DataFrame:
    if gpus:
        meanings = ("grid", "block", "gpu")
    else:
        meanings = ("grid", "block")
    columns = {meaning: table.integers(meaning) for meaning in meanings}
    return pd.DataFrame({"name": table.names().astype(object), **columns})


def _order(table: DispatchTable) -> IntArray:
    ids = table.integers("dispatch_id")
    if ids.isna().any():
        return np.arange(len(table), dtype=np.int64)
    return np.argsort(ids.to_numpy(dtype=np.int64), kind="stable").astype(np.int64)


def _wide(
    rows: IntArray,
    labels: IntArray,
    values: FloatArray,
    names: Sequence[str],
    count: int,
) -> list[tuple[str, FloatArray]]:
    """Return one column per counter; a counter recorded again for a dispatch is a further column of its name."""
    times = pd.Series(values).groupby([pd.Series(rows), pd.Series(labels)]).cumcount().to_numpy()
    columns: list[tuple[str, FloatArray]] = []
    for time in range(int(times.max(initial=-1)) + 1):
        now = times == time
        table = np.full((len(names), count), np.nan)
        table[labels[now], rows[now]] = values[now]
        present = np.zeros(len(names), dtype=bool)
        present[labels[now]] = True
        columns += [(name, table[i]) for i, name in enumerate(names) if present[i]]
    return columns


def _spread_of(times: Times, rows: IntArray) -> float:
    durations = pd.Series(times.duration_ns.astype(np.float64)).where(times.readable)
    by_dispatch = durations.groupby(rows)
    low = by_dispatch.min()
    high = by_dispatch.max()
    if len(low):
        return float(((high - low) / high.where(high > 0)).max(skipna=True) or 0.0)
    return 0.0


Role = Literal["merged", "timestamps", "pass", "other table", "system", "companion", "analysis"]
_DISPATCH = frozenset(
    ("Dispatch_ID", "GPU_ID", "Grid_Size", "Workgroup_Size", "LDS_Per_Workgroup", "Kernel_Name")
)
_PASS = re.compile(r"^(pmc_perf_.*|SQC?_\w+)\.csv$")
_ROLE_OF_NAME: dict[str, Role] = {"pmc_perf.csv": "merged", "timestamps.csv": "timestamps"}
_INFO = ["Dispatch_ID", "Kernel_Name", "GPU_ID"]
_TOP = ["Kernel_Name", "Count", "Sum(ns)"]
_ANALYSIS = (SQLITE, b"compute_workload", b"compute_metric_definition")
_PERFMON = re.compile(rb"^\s*(pmc:|rocprofiler-sdk:)")
_CONFIG = (b"join_type:", b"filter_blocks:")


def _is_companion(file: DataFile) -> bool:
    """Whether a file stands beside the table that a workload is called after."""
    return not (file.path.name.startswith("pmc_perf") and file.path.suffix == ".csv")


@register
class RocprofilerComputeReader(TraceReader):
    """Workload folders of rocprofiler-compute (Omniperf)."""

    name = "rocprofiler-compute"
    containers = (SQLITE, b"")

    def sniff(self, path: Path, head: bytes) -> bool:
        """Recognise a table of dispatches, or a file that accompanies it."""
        return role_of(path, head) is not None

    def gather(self, files: Sequence[DataFile]) -> list[tuple[DataFile, ...]]:
        """Return the files of each workload folder together, and others one by one."""
        alone = dict.fromkeys(file for file in files if _role(file) in ("other table", "analysis"))
        folders = by_folder([file for file in files if file not in alone], ("perfmon",))
        return [
            *(tuple(sorted(files_of_folder, key=_is_companion)) for files_of_folder in folders),
            *((file,) for file in alone),
        ]

    def trace(self, files: Sequence[DataFile], options: Options) -> Trace:
        """Return the dispatches of one workload with the counters of all passes; a DataError if a file is damaged."""
        roles = {file: _role(file) for file in files}
        systems = [read_system(file, options) for file in files if roles[file] == "system"]
        # pmc_perf.csv, timestamps.csv, then the passes by number
        places: dict[str | None, int] = {
            "merged": 0,
            "timestamps": 1,
            "pass": 2,
            "other table": 2,
        }
        tables = sorted(
            (file for file in files if roles[file] in places),
            key=lambda file: (places[roles[file]], by_number(file.path.name)),
        )
        passes = [read_pass(file, options) for file in tables]
        if not passes:
            return Trace(dispatch_table({}, rows=0), notes=_nothing(files, roles))
        base = passes[0]
        if "merged" not in roles.values():
            base = next((one for one in passes if one.times), base)
        others = [one for one in passes if one is not base]
        if systems:
            system = systems[0]
        else:
            system = System()
        timed = _timed(base, others)
        joined = join(base, others, system.channels)
        findings = [*timed.findings, *joined.findings]
        notes = [*timed.notes, *joined.notes, *system.notes]
        if not systems and "device" not in options.defaults:
            text = "no sysinfo.csv beside it: give default device=NAME"
            notes.append(
                of_file(base.label, remark("device-not-recorded", text, by="rocprofiler-compute"))
            )
        if timed.times is None:
            return Trace(dispatch_table({}, rows=0), findings=findings, notes=notes)
        columns = {
            **dispatch_columns(base.table, timed.times),
            **_place(base, timed),
            **counter_columns(joined.counters, options),
            "device": system.device,
        }
        table = dispatch_table(columns, rows=len(base.table))[timed.times.readable]
        findings += left_out(timed.times, base.table)
        return Trace(in_order(table.reset_index(drop=True)), findings=findings, notes=notes)


def role_of(path: Path, beginning: bytes) -> Role | None:
    """Return what a file of a workload folder holds; None if it is none."""
    if all(word in beginning for word in _ANALYSIS) and beginning.startswith(_ANALYSIS[0]):
        return "analysis"
    names = header_of(beginning)
    if set(names) >= _DISPATCH:
        plain = path.name.removesuffix(".gz").removesuffix(".bz2")
        return _ROLE_OF_NAME.get(plain, "pass" if _PASS.match(plain) else "other table")
    if {"workload_name", "command"} <= set(names) and {"gpu_model", "gpu_arch"} & set(names):
        return "system"
    if names == _INFO or names[:3] == _TOP or (names[:1] == ["device"] and "HBMBw" in names):
        return "companion"
    if _is_text_of_ours(path, beginning):
        return "companion"
    return None


def _is_text_of_ours(path: Path, beginning: bytes) -> bool:
    if path.parent.name == "perfmon":
        return _PERFMON.match(beginning) is not None
    if path.name == "profiling_config.yaml":
        return all(word in beginning for word in _CONFIG)
    return path.name == "log.txt" and any(
        word in beginning.lower() for word in (b"omniperf", b"rocprof")
    )


def _role(file: DataFile) -> Role | None:
    return role_of(file.path, head(file.path))


def _nothing(files: Sequence[DataFile], roles: dict[DataFile, Role | None]) -> list[Remark]:
    """Return why files without dispatches give no rows."""
    derived = [file.label for file in files if roles[file] == "analysis"]
    rest = [file.label for file in files if roles[file] != "analysis"]
    text = (
        "the analysis database of rocprofiler-compute holds derived metrics only: give the "
        "workload "
        "folder it was made from (pmc_perf.csv, sysinfo.csv)"
    )
    notes = [of_file(label, remark("derived-metrics-only", text)) for label in derived]
    none = "no dispatches, give the whole workload folder"
    if len(rest) == 1:
        notes.append(of_file(rest[0], remark("no-dispatches", none)))
    elif rest:
        notes.append(remark("no-dispatches", f"{few(rest, 3)}: {none}", among=tuple(rest)))
    return notes


@dataclass(frozen=True)
class _Timed:
    """When the dispatches ran, by which pass, and what was odd about it."""

    times: Times | None
    of: Pass | None
    rows: IntArray
    findings: list[Finding]
    notes: list[Remark]


def _timed(base: Pass, others: Sequence[Pass]) -> _Timed:
    """Return the times of the base, or of another pass where those of the base are missing or spoiled."""
    for other in others:
        rows = rows_of(base.table, other.table)
        if base.times is not None and base.times.sound:
            if _equal(base.times, other.times, rows):
                return _Timed(
                    base.times,
                    other,
                    rows,
                    [],
                    _rounded(base.times, base.label),
                )
        elif other.times is not None and other.times.sound and len(rows) and (rows >= 0).all():
            times = other.times.take(rows)
            text = f"times are those of {other.label}"
            taken = remark("times-of-other-file", text, other=other.label)
            notes = [of_file(base.label, taken), *_rounded(times, other.label)]
            findings: list[Finding] = []
            if base.times is not None:
                spoiled = spoiled_timestamps(
                    base.times,
                    base.table,
                    "other",
                    other.label,
                )
                findings = [replace(finding, severity="warning") for finding in spoiled]
            return _Timed(times, other, rows, findings, notes)
    none = np.full(len(base.table), -1, dtype=np.int64)
    if base.times is None:
        return _Timed(
            None,
            None,
            none,
            without_times(base.table),
            [],
        )
    findings = spoiled_timestamps(base.times, base.table, "profile")
    return _Timed(
        base.times,
        None,
        none,
        findings,
        _rounded(base.times, base.label),
    )


def _equal(times: Times, others: Times | None, rows: IntArray) -> bool:
    """Return whether the other pass has the very same times, as Omniperf 2 copies them into every file."""
    if others is None or not len(rows) or (rows < 0).any():
        return False
    return np.array_equal(times.start_ns, others.start_ns[rows])


def _rounded(times: Times, label: str) -> list[Remark]:
    if not times.rounded_ns:
        return []
    text = (
        "times have fractions of a nanosecond, so they are means over the passes: durations are "
        "rounded by at most "
        f"{times.rounded_ns:g} ns, and the time between two dispatches is not a gap of any run"
    )
    return [of_file(label, remark("times-are-means", text, rounded_ns=times.rounded_ns))]


def _place(base: Pass, timed: _Timed) -> dict[str, pd.Series]:
    """Return process and queue from the pass that was timed, where the base leaves them out."""
    if timed.of is None:
        return {}
    other = timed.of.table
    wanted = [
        name for name in ("process", "stream") if not base.table.has(name) and other.has(name)
    ]
    return {name: other.integers(name).iloc[timed.rows].reset_index(drop=True) for name in wanted}

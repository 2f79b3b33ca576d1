"""Nsight Systems: its SQLite export (`NsysReader`), and the CSV that `nsys stats` writes (`NsysStatsReader`).

The export (``nsys export --type sqlite``), schemas 2.9 (2022.2) to 3.13 (2024.5): tables are
written only if they have rows ("lazy"), so that any of them may be missing. Times are integer
nanoseconds since the start of the session, grids are in blocks, names are ids in ``StringIds``.

An activity and the API call that caused it have the same ``correlationId`` within a process.
``globalPid`` and ``globalTid`` carry the process in their bits 24 to 47 (and the host above); a
call may be recorded twice (as ``cudaLaunchKernel`` and as ``cudaLaunchKernel_v7000``), so that a
plain join doubles the kernels. A CUDA graph is either traced by its nodes, as kernels, or as a
whole in ``CUPTI_ACTIVITY_KIND_GRAPH_TRACE``, which says nothing of its kernels.

The CSV (Nsight Systems 2021 to 2025, as documented by NVIDIA): report `cuda_gpu_trace`.

::

    Processing [report1.sqlite] with [.../cuda_gpu_trace.py]...
    Start (ns),Duration (ns),CorrId,GrdX,GrdY,GrdZ,BlkX,BlkY,BlkZ,Reg/Trd,StcSMem (MB),DymSMem
    (MB),Bytes (MB),...,Name 1074503,2368,137,4096,1,1,256,1,1,16,0.000,0.000,,,,,NVIDIA H100 80GB
    HBM3 (0),1,7,axpy(int, float *)

Messages of nsys and other reports may stand before and behind it. Names before 2022 are `gputrace`
and "Start(nsec)". The other reports are sums over launches or of the host's calls: they hold no
launch. Grids are in blocks.
"""

from __future__ import annotations

import math
import re
from collections.abc import Sequence
from itertools import chain, product
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd

from ..errors import DataError
from ..remarks import Remark, remark
from ..traces.dispatches import (
    KERNEL,
    MEMCPY,
    MEMSET,
    Finding,
    Trace,
    columns_of,
    dispatch_table,
    findings_on,
    in_order,
)
from .base import SQLITE, DataFile, Options, Reader, TraceReader, register
from .files import head, parse_csv, text
from .kernel_sums import tables_of
from .labels import canonical_device, device_named, microseconds
from .sqlite import ROW, Database, joined, names_of, opened, timed, unfinished
from .words import vocabulary

_ACTIVITY = "CUPTI_ACTIVITY_KIND_"
_CALLS = (f"{_ACTIVITY}RUNTIME", f"{_ACTIVITY}DRIVER")
_METADATA = frozenset({"EXPORT_META_DATA", "META_DATA_EXPORT", "ANALYSIS_FILE"})
_PROCESS = 1 << 24  # globalPid and globalTid: bits below are the thread
_WHERE = ("deviceId", "streamId", "correlationId", "globalPid")
_DIMENSIONS = tuple(f"{what}{axis}" for what in ("grid", "block") for axis in ("X", "Y", "Z"))
_NAMES = ("demangledName", "shortName", "mangledName")
#: The enumeration CUpti_ActivityMemcpyKind, which exports since 2024 repeat in ENUM_CUDA_MEMCPY_OPER.
_DIRECTIONS = {int(kind): way for kind, way in vocabulary("nsys_copies").items()}


@register
class NsysReader(TraceReader):
    """Exports of Nsight Systems."""

    name = "Nsight Systems SQLite"
    containers = (SQLITE,)

    def sniff(self, path: Path, head: bytes) -> bool:
        """Recognise the table of strings beside one of the target, of the export or of activities.

        nvprof's databases have tables of activities too, but keep their strings in ``StringTable``.
        """
        if not head.startswith(SQLITE):
            return False
        names = names_of(path, head)
        return "StringIds" in names and any(
            name in _METADATA or name.startswith((_ACTIVITY, "TARGET_INFO_")) for name in names
        )

    def trace(self, files: Sequence[DataFile], options: Options) -> Trace:
        """Return the kernels, copies and fills; `source` numbers the rows of the table of their kind."""
        [file] = files
        with opened(file, options) as database:
            parts = [_kernels(database), *_moves(database)]
            parts = [part for part in parts if len(part)] or parts[:1]
            activities = _with_calls(pd.concat(parts, ignore_index=True), database)
            findings = unfinished(file)
            notes: list[Remark] = []
            activities, untimed = timed(activities, file.label)
            activities["device"] = _devices(
                database,
                activities["deviceId"],
                file,
                findings,
                notes,
            )
            findings += [*untimed, *_graphs(database, activities, file)]
            if activities.empty:
                text = (
                    "the export has no GPU activity (no rows in the tables of kernels, copies and "
                    "fills, which Nsight leaves out when they are empty): profile with --trace=cuda"
                )
                notes.append(remark("no-activities", text, by="nsys"))
            elif not database.tables & set(_CALLS):
                text = "the export has no CUDA API calls: no activity is linked to a launch"
                notes.append(remark("no-api-calls", text, by="nsys"))
            if activities["device"].eq("").any():
                text = "the export does not name every GPU (TARGET_INFO_GPU)"
                notes.append(remark("unnamed-gpus", text))
        named = {"deviceId": "gpu", "streamId": "stream", "correlationId": "correlation"}
        named |= {name: f"{name[:-1]}_{name[-1].lower()}" for name in _DIMENSIONS}
        columns = columns_of(activities.rename(columns=named))
        columns["source"] = f"{file.label}:" + activities[ROW].astype("str")
        return Trace(in_order(dispatch_table(columns)), findings=findings, notes=notes)


def _moves(database: Database) -> tuple[pd.DataFrame, pd.DataFrame]:
    """Return copies and fills."""
    columns = ("start", "end", *_WHERE, "bytes")
    needed = ("start", "end", "deviceId")
    copies = database.read(
        f"{_ACTIVITY}MEMCPY",
        integers=(*columns, "copyKind"),
        required=needed,
    )
    ways = copies["copyKind"].map(_DIRECTIONS).fillna("unknown").astype(object)
    fills = database.read(f"{_ACTIVITY}MEMSET", integers=columns, required=needed)
    return copies.assign(kind=MEMCPY, name=ways), fills.assign(kind=MEMSET, name="memset")


def _with_calls(activities: pd.DataFrame, database: Database) -> pd.DataFrame:
    """Return the activities with the process of each, and whether the API call that caused it is recorded."""
    read = [database.read(table, integers=("globalTid", "correlationId")) for table in _CALLS]
    calls = pd.concat(read)
    calls["owner"] = calls["globalTid"] // _PROCESS
    activities = activities.assign(owner=activities["globalPid"] // _PROCESS)
    by_owner = calls["owner"].notna().any() and activities["owner"].notna().any()
    if by_owner:
        key = ["owner", "correlationId"]
    else:
        key = ["correlationId"]
    called = joined(activities[key], calls[key].assign(called=True), key)["called"]
    return activities.assign(
        linked=called.notna().to_numpy(),
        process=activities["owner"] % _PROCESS,
    )


def _kernels(database: Database) -> pd.DataFrame:
    shared = ("staticSharedMemory", "dynamicSharedMemory")
    of_kernels = (*_NAMES, *_DIMENSIONS, *shared, "localMemoryPerThread", "registersPerThread")
    kernels = database.read(
        f"{_ACTIVITY}KERNEL",
        integers=("start", "end", *_WHERE, *of_kernels),
        required=("start", "end", "deviceId", "demangledName"),
    )
    strings = database.read(
        "StringIds", integers=("id",), words=("value",), required=("id", "value")
    )
    names = pd.Series("", index=kernels.index, dtype=object)
    for column in _NAMES:
        numbered = strings.rename(columns={"id": column})
        words = joined(kernels[[column]], numbered, [column])["value"]
        names = names.where(names != "", words.fillna(""))
    return kernels.assign(
        kind=KERNEL,
        name=names,
        lds_bytes=kernels[shared[0]] + kernels[shared[1]],
        scratch_bytes=kernels["localMemoryPerThread"],
        vgpr=kernels["registersPerThread"],
    )


def _devices(
    database: Database,
    ids: pd.Series,
    file: DataFile,
    findings: list[Finding],
    notes: list[Remark],
) -> pd.Series:
    """Return the device of each activity under the catalogue's name."""
    gpus = database.read("TARGET_INFO_GPU", integers=("id", "cuDevice", "smCount"), words=("name",))
    by_id = _column_of(gpus, "id", "name")
    by_ordinal = _column_of(gpus, "cuDevice", "name")
    used = ids.dropna().unique()
    unsure = sum(by_ordinal.get(number, by_id.get(number)) != by_id.get(number) for number in used)
    text = "GPUs of different names, numbered in two ways: the names in this trace may be swapped"
    where = f"{file.label}, TARGET_INFO_GPU"
    findings += findings_on(unsure, "device-order", text, "warning", where)
    units = _column_of(gpus, "id", "smCount")
    names = {number: device_named(by_id.get(number, ""), "", units.get(number)) for number in used}
    notes.extend(dict.fromkeys(unknown for _, unknown in names.values() if unknown))
    return ids.map({number: name for number, (name, _) in names.items()}).fillna("").astype(object)


def _column_of(gpus: pd.DataFrame, key: str, value: str) -> dict[int, Any]:
    stated = gpus.dropna(subset=[key, value]).drop_duplicates(key)
    return dict(zip(stated[key].tolist(), stated[value].tolist(), strict=True))


def _graphs(database: Database, activities: pd.DataFrame, file: DataFile) -> list[Finding]:
    """Return a finding on CUDA graphs that were traced as one activity."""
    graphs = database.read(f"{_ACTIVITY}GRAPH_TRACE", integers=("start", "end"))
    inside = float((graphs["end"] - graphs["start"]).clip(lower=0).astype("Float64").sum())
    outside = float(activities["duration_ns"].clip(lower=0).astype("float64").sum())
    share = None
    if inside > 0:
        share = inside / (inside + outside)
    text = (
        "launches of CUDA graphs were traced as a whole: the kernels inside are not listed; "
        "profile with --cuda-graph-trace=node"
    )
    return findings_on(
        len(graphs),
        "graph-as-a-whole",
        text,
        "warning",
        f"{file.label}, {_ACTIVITY}GRAPH_TRACE",
        share,
    )


# The CSV of `nsys stats`.

_TRACE = re.compile(
    r"^Start ?\([num]?s(?:ec)?\),Duration ?\([num]?s(?:ec)?\),CorrId,GrdX,.*$", re.MULTILINE
)
_OTHER = re.compile(
    r"^(?:Time ?\(%\),Total Time ?\(|Total ?\(\w+\),(?:Count|Operations),Avg ?\(|Start ?\([num]?s(?:ec)?\),Duration"
    r" ?\([num]?s(?:ec)?\),Name,|API Start ?\([num]?s(?:ec)?\),API Dur)",
    re.MULTILINE,
)
_AFTER = re.compile(
    r"^\s*$|^(?:Processing|Generating|Exporting|SKIPPED:|NOTICE:| \*\* )", re.MULTILINE
)
#: Names of reports, which `nsys stats --output` puts behind that of the recording.
_REPORT = re.compile(
    r"_(?:cuda_(?:api|gpu|kern_exec)\w*_(?:sum|trace)|(?:nvtx|um|openmp|openacc|opengl|mpi|vulkan|dx\d+)\w*_(?:sum|trace)"
    r"|osrt_sum|gputrace|gpu\w*sum|kernexec(?:sum|trace)|cudaapi(?:sum|trace)|osrtsum|nvtx\w*sum)$"
)
_MEMORY = {
    "B": 1.0,
    "KB": 1e3,
    "MB": 1e6,
    "GB": 1e9,
}
_DEVICE = re.compile(r"^(?P<name>(?:.*\S)?)\s*+\((?P<ordinal>\d{1,9})\)$")
_COPY = re.compile(r"^\[CUDA mem(?P<kind>cpy|set)\s*+(?P<way>.*)\]$")
_WAYS = vocabulary("nsys_ways")
_INTEGER = re.compile(r"[ \t\r]*-?[0-9]{1,18}[ \t\r]*")
_LIMIT_NS = 2.0**62


@register
class NsysStatsReader(TraceReader):
    """Kernels, copies and fills in the GPU trace of `nsys stats`."""

    name = "nsys stats CSV"

    def sniff(self, path: Path, head: bytes) -> bool:
        """Recognise the header of any report on the GPU or on times, at whichever line it stands."""
        words = head.decode("utf-8-sig", errors="replace")
        return _TRACE.search(words) is not None or _OTHER.search(words) is not None

    def gather(self, files: Sequence[DataFile]) -> list[tuple[DataFile, ...]]:
        """Return the reports that `nsys stats` wrote of one recording together: `run_cuda_gpu_trace.csv`, ..."""
        groups: dict[tuple[Path, str], list[DataFile]] = {}
        for file in files:
            name = file.path.name.partition(".csv")[0]
            groups.setdefault((file.path.parent, _REPORT.sub("", name)), []).append(file)
        return [tuple(group) for group in groups.values()]

    def tables(self, files: Sequence[DataFile]) -> Sequence[tuple[Reader, DataFile]]:
        """Return the sums of kernels where no report is the GPU trace."""
        beginnings = [head(file.path).decode("utf-8-sig", errors="replace") for file in files]
        if any(_TRACE.search(words) for words in beginnings):
            return ()
        return tables_of(files)

    def trace(self, files: Sequence[DataFile], options: Options) -> Trace:
        """Return one row for each kernel, copy and fill; a DataError if none of the reports is the GPU trace."""
        texts = {file: text(file.path, max_bytes=options.table_bytes) for file in files}
        traces = [file for file, words in texts.items() if _TRACE.search(words)]
        if not traces:
            hint = (
                "a report of sums, without single launches: export nsys stats --report "
                "cuda_gpu_trace --format csv"
            )
            raise DataError(hint, source=files[0].label)
        parts = [_dispatches(texts[file], file.label) for file in traces]
        table = in_order(pd.concat([part for part, _ in parts], ignore_index=True))
        findings = list(chain.from_iterable(of_part for _, of_part in parts))
        notes = []
        for file in files:
            if file not in traces:
                said = f"{file.label} holds no launches: not read"
                notes.append(remark("report-without-launches", said, report=file.label))
        if table["bytes"].notna().any():
            said = "bytes of copies are rounded to the digits that nsys stats prints"
            notes.append(remark("bytes-rounded-by-nsys", said))
        return Trace(table, findings=findings, notes=notes)


def _bare(name: str) -> str:
    """Return the name of a column without its unit."""
    if name.endswith(")"):
        return name.partition("(")[0].rstrip()
    return name


def _dispatches(report: str, source: str) -> tuple[pd.DataFrame, list[Finding]]:
    """Return the dispatch table of a GPU trace, and the findings on its rows.

    They stand below its first header, and end at the next empty line or message.
    """
    header = _TRACE.search(report)
    assert header is not None
    end = _AFTER.search(report, header.end() + 1)
    body = report[header.start() : end.start() if end else len(report)]
    cut = parse_csv(body, source, report.count("\n", 0, header.start()))
    given = pd.DataFrame(cut.columns, dtype=object)
    columns = {_bare(name): given[name] for name in given.columns}
    units = {_bare(name): name.rpartition("(")[2].rstrip(")") for name in given.columns}
    lacking = [name for name in ("Start", "Duration", "Name", "Device") if name not in columns]
    if lacking:
        raise DataError(f"no column {lacking[0]!r}: not as nsys stats writes it", source=source)
    start, duration = (
        _times(columns[name], 1e3 * (microseconds(units[name]) or math.nan))
        for name in ("Start", "Duration")
    )
    timed = (start.notna() & duration.notna()).to_numpy(dtype=bool)
    timed_columns = {name: column[timed].reset_index(drop=True) for name, column in columns.items()}
    codes, distinct = pd.factorize(timed_columns["Name"])
    named = [_kind_and_name(str(word)) for word in distinct]
    kinds, names = np.array(named, dtype=object).reshape(-1, 2)[codes].T
    shared = None  # printed in MB it is too coarse
    if units.get("StcSMem") == units.get("DymSMem") == "B":
        shared = _whole(timed_columns["StcSMem"]).add(_whole(timed_columns["DymSMem"]))
    devices = timed_columns["Device"].str.extract(_DEVICE)
    words = devices["name"].fillna(timed_columns["Device"])
    table = dispatch_table(
        {
            "kind": pd.Categorical(kinds),
            "device": pd.Categorical(
                words.map({word: canonical_device(word)[0] for word in words.unique()})
            ),
            "gpu": _whole(devices["ordinal"]),
            "stream": _column(timed_columns, "Strm"),
            "correlation": _column(timed_columns, "CorrId"),
            "name": pd.Categorical(names),
            "start_ns": start[timed].to_numpy(dtype=np.int64),
            "duration_ns": duration[timed].to_numpy(dtype=np.int64),
            "vgpr": _column(timed_columns, "Reg/Trd"),
            "lds_bytes": shared,
            "bytes": _bytes(timed_columns, units),
            "source": f"{source}:" + pd.Series(cut.lines[timed]).astype(str),
        }
        | {
            f"{what}_{axis}": _column(timed_columns, f"{short}{axis.upper()}")
            for (what, short), axis in product((("grid", "Grd"), ("block", "Blk")), "xyz")
        }
    )
    unfit = len(cut.overlong) + int((~timed).sum())
    text = (
        "lines of the trace without a start and a duration, or with too many fields, are left out"
    )
    return table, findings_on(unfit, "unreadable-lines", text, "warning", source)


def _kind_and_name(word: str) -> tuple[str, str]:
    """Return the kind of an activity, and its name: of a copy its direction."""
    match = _COPY.match(word)
    if match is None:
        return KERNEL, word
    kind = MEMSET
    if match["kind"] == "cpy":
        kind = MEMCPY
    return kind, _WAYS.get(match["way"], match["way"])


def _times(column: pd.Series, scale: float) -> pd.Series:
    """Return nanoseconds, missing for invalid times and those beyond 63 bits; whole nanoseconds are not rounded."""
    nanoseconds = pd.to_numeric(column.str.strip(), errors="coerce").astype(float) * scale
    rounded = nanoseconds.where(nanoseconds.abs().lt(_LIMIT_NS)).round().astype("Int64")
    if scale == 1:
        return _whole(column).fillna(rounded)
    return rounded


def _bytes(columns: dict[str, pd.Series], units: dict[str, str]) -> pd.Series | None:
    """Return the bytes copied or filled; less than the last digit printed is unknown."""
    if "Bytes" not in columns or units["Bytes"] not in _MEMORY:
        return None
    number = (
        pd.to_numeric(columns["Bytes"].str.strip(), errors="coerce").astype(float)
        * _MEMORY[units["Bytes"]]
    )
    return number.where(number.gt(0) & number.lt(2.0**53)).round().astype("Int64")


def _column(columns: dict[str, pd.Series], name: str) -> pd.Series | None:
    """Return a column's integers, None if the report lacks it."""
    if name in columns:
        return _whole(columns[name])
    return None


def _whole(words: pd.Series) -> pd.Series:
    """Return the integers among words, missing for others."""
    codes, distinct = pd.factorize(words)
    numbers = [int(word) if _INTEGER.fullmatch(word) else None for word in map(str, distinct)]
    return pd.Series(pd.array([*numbers, None], dtype="Int64")).take(codes).reset_index(drop=True)

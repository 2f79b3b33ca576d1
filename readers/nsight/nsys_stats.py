"""CSV that `nsys stats` writes (Nsight Systems 2021 to 2025, as documented by NVIDIA): report `cuda_gpu_trace`.

::

    Processing [report1.sqlite] with [.../cuda_gpu_trace.py]...
    Start (ns),Duration (ns),CorrId,GrdX,GrdY,GrdZ,BlkX,BlkY,BlkZ,Reg/Trd,StcSMem (MB),DymSMem (MB),Bytes (MB),...,Name
    1074503,2368,137,4096,1,1,256,1,1,16,0.000,0.000,,,,,NVIDIA H100 80GB HBM3 (0),1,7,axpy(int, float *)

Messages of nsys and other reports may stand before and behind it. Names before 2022 are `gputrace` and "Start(nsec)".
The other reports are sums over launches or of the host's calls: they hold no launch. Grids are in blocks.
"""

from __future__ import annotations

import csv
import re
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import pandas as pd

from ...errors import DataError
from ...remarks import remark
from ...traces.dispatches import KERNEL, MEMCPY, MEMSET, Finding, Trace, dispatch_table, in_order
from ..base import DataFile, Options, TraceReader, register
from ..files import content, parse_csv
from ..labels import canonical_device

_TRACE = re.compile(r"^Start ?\((?P<unit>[num]?s(?:ec)?)\),Duration ?\([num]?s(?:ec)?\),CorrId,GrdX,.*$", re.MULTILINE)
_OTHER = re.compile(
    r"^(?:Time ?\(%\),Total Time ?\(|Total ?\(\w+\),(?:Count|Operations),Avg ?\(|Start ?\([num]?s(?:ec)?\),Duration"
    r" ?\([num]?s(?:ec)?\),Name,|API Start ?\([num]?s(?:ec)?\),API Dur)",
    re.MULTILINE,
)
_AFTER = re.compile(r"^\s*$|^(?:Processing|Generating|Exporting|SKIPPED:|NOTICE:| \*\* )", re.MULTILINE)
#: Names of reports, which `nsys stats --output` puts behind that of the recording.
_REPORT = re.compile(
    r"_(?:cuda_(?:api|gpu|kern_exec)\w*_(?:sum|trace)|(?:nvtx|um|openmp|openacc|opengl|mpi|vulkan|dx\d+)\w*_(?:sum|trace)"
    r"|osrt_sum|gputrace|gpu\w*sum|kernexec(?:sum|trace)|cudaapi(?:sum|trace)|osrtsum|nvtx\w*sum)$"
)
_NANOSECONDS = {"ns": 1.0, "nsec": 1.0, "us": 1e3, "usec": 1e3, "ms": 1e6, "msec": 1e6, "s": 1e9, "sec": 1e9}
_MEMORY = {"B": 1.0, "KB": 1e3, "MB": 1e6, "GB": 1e9}
_DEVICE = re.compile(r"^(?P<name>.*?)\s*\((?P<ordinal>\d{1,9})\)$")
_COPY = re.compile(r"^\[CUDA mem(?P<kind>cpy|set)\s*(?P<way>.*)\]$")
_WAYS = {"Host-to-Device": "HtoD", "Device-to-Host": "DtoH", "Device-to-Device": "DtoD", "Peer-to-Peer": "PtoP"}
_INTEGER = re.compile(r"^\s*-?\d{1,18}\s*$")
_LIMIT_NS = 2.0**62


@dataclass(frozen=True)
class _Rows:
    """The rows of the trace as text, their places in the file, and the lines that do not fit the header."""

    table: pd.DataFrame
    lines: np.ndarray
    unfit: int


@register
class NsysStatsReader(TraceReader):
    """Kernels, copies and fills in the GPU trace of `nsys stats`."""

    name = "nsys stats CSV"
    describes = "nsys stats --report cuda_gpu_trace --format csv: Start (ns),Duration (ns),CorrId,GrdX,..."

    def sniff(self, path: Path, head: bytes) -> bool:
        """Recognise the header of any report on the GPU or on times, at whichever line it stands."""
        text = head.decode("utf-8-sig", errors="replace")
        return _TRACE.search(text) is not None or _OTHER.search(text) is not None

    def gather(self, files: Sequence[DataFile]) -> list[tuple[DataFile, ...]]:
        """Return the reports that `nsys stats` wrote of one recording together: `run_cuda_gpu_trace.csv`, ..."""
        groups: dict[tuple[Path, str], list[DataFile]] = {}
        for file in files:
            name = file.path.name.partition(".csv")[0]
            groups.setdefault((file.path.parent, _REPORT.sub("", name)), []).append(file)
        return [tuple(group) for group in groups.values()]

    def trace(self, files: Sequence[DataFile], options: Options) -> Trace:
        """Return one row for each kernel, copy and fill.

        Raises
        ------
        DataError
            None of the reports is the GPU trace.
        """
        texts = {file: _text(file, options) for file in files}
        traces = [file for file, text in texts.items() if _TRACE.search(text)]
        if not traces:
            hint = "a report of sums, without single launches: export nsys stats --report cuda_gpu_trace --format csv"
            raise DataError(hint, source=files[0].label)
        parts = [_dispatches(_rows(texts[file], file.label), texts[file], file.label) for file in traces]
        table = in_order(pd.concat([part for part, _ in parts], ignore_index=True))
        findings = [finding for _, own in parts for finding in own]
        notes = [remark("report-without-launches", report=file.label) for file in files if file not in traces]
        if table["bytes"].notna().any():
            notes.append(remark("bytes-rounded-by-nsys"))
        return Trace(table, findings=findings, notes=notes)


def _text(file: DataFile, options: Options) -> str:
    return content(file.path, max_bytes=options.max_bytes).decode("utf-8-sig", errors="backslashreplace")


def _rows(text: str, source: str) -> _Rows:
    """Return the rows below the first header of a GPU trace, to the next empty line or message."""
    header = _TRACE.search(text)
    assert header is not None
    end = _AFTER.search(text, header.end() + 1)
    body = text[header.start() : end.start() if end else len(text)]
    try:
        cut = parse_csv(body)
    except csv.Error as error:
        raise DataError(f"is not readable CSV ({error})", source=source) from error
    table = pd.DataFrame(cut.columns, dtype=object)
    return _Rows(table, cut.lines + text.count("\n", 0, header.start()), len(cut.overlong))


def _dispatches(rows: _Rows, text: str, source: str) -> tuple[pd.DataFrame, list[Finding]]:
    """Return the dispatch table, and what is odd about the rows."""
    header = _TRACE.search(text)
    assert header is not None
    scale = _NANOSECONDS[header["unit"]]
    columns = {re.sub(r"\s*\(.*\)$", "", name): rows.table[name] for name in rows.table.columns}
    units = {re.sub(r"\s*\(.*\)$", "", name): name.rpartition("(")[2].rstrip(")") for name in rows.table.columns}
    lacking = [name for name in ("Start", "Duration", "Name", "Device") if name not in columns]
    if lacking:
        raise DataError(f"no column {lacking[0]!r}: not as nsys stats writes it", source=source)
    start, duration = (_times(columns[name], scale) for name in ("Start", "Duration"))
    timed = (start.notna() & duration.notna()).to_numpy(dtype=bool)
    own = {name: column[timed].reset_index(drop=True) for name, column in columns.items()}
    kinds, names = _kinds(own["Name"])
    devices = own["Device"].str.extract(_DEVICE)
    words = devices["name"].fillna(own["Device"])
    table = dispatch_table(
        {
            "kind": pd.Categorical(kinds),
            "device": pd.Categorical(words.map({word: canonical_device(word)[0] for word in words.unique()})),
            "gpu": _whole(devices["ordinal"]),
            "stream": _column(own, "Strm"),
            "correlation": _column(own, "CorrId"),
            "name": pd.Categorical(names),
            "start_ns": start[timed].to_numpy(dtype=np.int64),
            "duration_ns": duration[timed].to_numpy(dtype=np.int64),
            "vgpr": _column(own, "Reg/Trd"),
            "lds_bytes": _shared_memory(own, units),
            "bytes": _bytes(own, units),
            "source": f"{source}:" + pd.Series(rows.lines[timed]).astype(str),
        }
        | {f"grid_{axis}": _column(own, f"Grd{axis.upper()}") for axis in "xyz"}
        | {f"block_{axis}": _column(own, f"Blk{axis.upper()}") for axis in "xyz"}
    )
    unfit = rows.unfit + int((~timed).sum())
    return table, [Finding(remark("unreadable-lines"), "warning", unfit, source=source)] if unfit else []


def _times(column: pd.Series, scale: float) -> pd.Series:
    """Return nanoseconds, missing for what is no time or does not fit 63 bits; whole nanoseconds are not rounded."""
    nanoseconds = pd.to_numeric(column.str.strip(), errors="coerce").astype(float) * scale
    rounded = nanoseconds.where(nanoseconds.abs().lt(_LIMIT_NS)).round().astype("Int64")
    return _whole(column).fillna(rounded) if scale == 1 else rounded


def _kinds(names: pd.Series) -> tuple[np.ndarray, pd.Series]:
    """Return kernel, memcpy or memset for each name, and the name: of a copy its direction."""
    codes, words = pd.factorize(names)
    found = [(_COPY.match(str(word)), str(word)) for word in words]
    kinds = [KERNEL if match is None else MEMCPY if match["kind"] == "cpy" else MEMSET for match, _ in found]
    plain = [word if match is None else _WAYS.get(match["way"], match["way"]) for match, word in found]
    return np.array(kinds, dtype=object)[codes], pd.Series(np.array(plain, dtype=object)[codes])


def _shared_memory(own: dict[str, pd.Series], units: dict[str, str]) -> pd.Series | None:
    """Return the bytes of a block's shared memory where they are printed in bytes; MB are too coarse."""
    if units.get("StcSMem") != "B" or units.get("DymSMem") != "B":
        return None
    return _whole(own["StcSMem"]).add(_whole(own["DymSMem"]))


def _bytes(own: dict[str, pd.Series], units: dict[str, str]) -> pd.Series | None:
    """Return the bytes copied or filled; less than the last digit printed is not known."""
    if "Bytes" not in own or units["Bytes"] not in _MEMORY:
        return None
    number = pd.to_numeric(own["Bytes"].str.strip(), errors="coerce").astype(float) * _MEMORY[units["Bytes"]]
    return number.where(number.gt(0) & number.lt(2.0**53)).round().astype("Int64")


def _column(own: dict[str, pd.Series], name: str) -> pd.Series | None:
    """Return a column's integers, None if the report does not have it."""
    return _whole(own[name]) if name in own else None


def _whole(words: pd.Series) -> pd.Series:
    """Return the integers among words, missing for what is none."""
    codes, distinct = pd.factorize(words)
    numbers = [int(word) if _INTEGER.match(word) else None for word in map(str, distinct)]
    return pd.Series(pd.array([*numbers, None], dtype="Int64")).take(codes).reset_index(drop=True)

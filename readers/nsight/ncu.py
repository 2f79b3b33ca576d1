"""Nsight Compute's CSV (`ncu --csv`, page `raw` or `details`; releases 2020 to 2025, as documented by NVIDIA).

Lines that begin with "==", and whatever the program itself printed, may stand around the table::

    ==PROF== Connected to process 4242 (/home/user/app)
    "ID","Process ID","Process Name","Host Name","Kernel Name","Context","Stream","Block Size","Grid Size","Device",...
    "0","4242","app","127.0.0.1","axpy(int, float *)","1","7","(256, 1, 1)","(4096, 1, 1)","0","9.0",...

No start of a launch is recorded. By default its duration is measured with clocks locked to their base and caches
flushed before each of several replays, so that it is not the time that a trace of the same program shows.
"""

from __future__ import annotations

import codecs
import re
from collections.abc import Sequence
from pathlib import Path

import numpy as np
import pandas as pd

from ...errors import DataError
from ...remarks import Remark, remark
from ...table.measurements import COUNTER
from ...traces.dispatches import KERNEL, Finding, Severity, Trace, dispatch_table, in_order
from ..base import LINE, DataFile, Options, TraceReader, register
from ..files import Csv, content, parse_csv
from ..labels import canonical_device, device_of
from .ncu_pages import DISPLAY_NAME, Launches, launches

_HEADER = re.compile(r'^"?(?:ID"?[,;\t]"?)?Process ID"?[,;\t]"?Process Name"?[,;\t].*Kernel Name.*$', re.MULTILINE)
_OWN_LINE = re.compile(r"^==.*$", re.MULTILINE)
_UTF16 = (codecs.BOM_UTF16_LE, codecs.BOM_UTF16_BE)
_DURATIONS = ("gpu__time_duration.sum", "Duration", "gpu__time_duration.avg", "gpu__time_duration.max")
_REGISTERS = ("launch__registers_per_thread", "Registers Per Thread")
_SHARED = (
    ("launch__shared_mem_per_block_static", "launch__shared_mem_per_block_dynamic"),
    ("Static Shared Memory Per Block", "Dynamic Shared Memory Per Block"),
)
_MULTIPROCESSORS = ("device__attribute_multiprocessor_count", "launch__sm_count", "# SMs")
_SIZE = r"^\(?\s*(\d{1,9})\s*,\s*(\d{1,9})\s*,\s*(\d{1,9})\s*\)?$"
_LONGEST_NS = 2.0**62
"""Beyond it a time does not fit 63 bits."""


@register
class NcuReader(TraceReader):
    """Launches that Nsight Compute profiled, their metrics as counters."""

    name = "Nsight Compute CSV"
    describes = 'ncu --csv, page raw or details: "ID","Process ID",...,"Kernel Name",...'

    def sniff(self, path: Path, head: bytes) -> bool:
        """Recognise the header, at whichever line it stands."""
        return _HEADER.search(_decoded(head)) is not None

    def trace(self, files: Sequence[DataFile], options: Options) -> Trace:
        """Return one row for each launch of a file; those whose duration was not measured are left out and counted."""
        (file,) = files
        table, findings = _table(_decoded(content(file.path, max_bytes=options.table_bytes)), file.label)
        found = launches(table, file.label)
        duration, notes = _durations(found, file.label)
        findings += _findings(found, duration, file.label)
        device, remarks = _devices(found)
        dispatches = _dispatches(found, duration, device, file.label)
        return Trace(dispatches, findings=findings, notes=[*notes, *remarks])


def _decoded(raw: bytes) -> str:
    """Return text; PowerShell redirects output as UTF-16."""
    if raw.startswith(_UTF16):
        return raw.decode("utf-16", errors="replace")
    return raw.decode("utf-8-sig", errors="backslashreplace")


def _table(text: str, source: str) -> tuple[Csv, list[Finding]]:
    """Return the table without the lines around it, at its lines of the file."""
    header = _HEADER.search(text)
    if header is None:
        raise DataError('no header "ID","Process ID",...: not as ncu --csv writes it', source=source)
    before = text.count("\n", 0, header.start())
    body = _OWN_LINE.sub("", text[header.start() :]).rstrip()
    findings = []
    last = body.rpartition("\n")[2]
    if header[0].rstrip().endswith('"') and last.startswith('"') and not last.endswith('"'):
        body = body.removesuffix(last)
        place = f"{source}:{before + body.count(chr(10)) + 1}"
        findings.append(Finding(remark("truncated"), "error", 1, source=place))
    return parse_csv(body, source, before), findings


def _durations(found: Launches, source: str) -> tuple[np.ndarray, list[Remark]]:
    """Return the nanoseconds of each launch, NaN where none were measured, and what to know of them."""
    present = [name for plain in _DURATIONS for name in (plain, f"{plain} [ns]") if name in found.metrics]
    timed = [name for name in present if found.units[name][0] == "ns"]
    if not len(found.identity):
        return np.empty(0), [remark("no-launches")]
    if not timed:
        wrong = f" (unit of {present[0]}: {found.units[present[0]][0] or 'none'})" if present else ""
        raise DataError(
            f"no duration{wrong}: profile with --section SpeedOfLight or --metrics gpu__time_duration.sum",
            source=source,
        )
    duration = np.full(len(found.identity), np.nan)
    for name in timed:
        duration = np.where(np.isnan(duration), found.metrics[name], duration)
    notes = [remark("no-start-times")]
    if found.units[timed[0]][1] > 1:
        notes.append(remark("durations-rounded-by-ncu"))
    return np.where(np.abs(duration) < _LONGEST_NS, duration, np.nan), notes


def _findings(found: Launches, duration: np.ndarray, source: str) -> list[Finding]:
    """Return what is odd about the file."""
    untimed = np.isnan(duration)
    kept = int((~untimed).sum())
    findings = []
    if kept:
        findings.append(Finding(remark("locked-clocks"), "warning", kept, 1.0, source))
    counts: tuple[tuple[str, Severity, int], ...] = (
        ("no-duration", "warning", int(untimed.sum())),
        ("foreign-lines", "info", found.foreign),
        ("unreadable-values", "warning", found.unreadable),
        ("repeated-metrics", "warning", found.repeated),
    )
    findings += [Finding(remark(code), severity, count, source=source) for code, severity, count in counts if count]
    return findings


def _devices(found: Launches) -> tuple[np.ndarray, list[Remark]]:
    """Return the device of each launch, by its name or by its compute capability and multiprocessors, and remarks."""
    counted = next((found.metrics[name] for name in _MULTIPROCESSORS if name in found.metrics), None)
    sizes = [0] * len(found.identity) if counted is None else _integers(counted).fillna(0)
    keys = list(zip(found.identity[DISPLAY_NAME], found.identity["CC"], sizes, strict=True))
    names: dict[tuple[str, str, int], str] = {}
    notes: dict[Remark, None] = {}
    for key in dict.fromkeys(keys):
        names[key], assumption = _device(*key)
        notes.update({assumption: None} if assumption else {})
    return np.array([names[key] for key in keys], dtype=object), list(notes)


def _device(word: str, capability: str, multiprocessors: int) -> tuple[str, Remark | None]:
    """Return the device by its own name, else by compute capability and multiprocessors (0 if not known)."""
    if word:
        return canonical_device(word)[0], None
    if not capability:
        return "", remark("device-not-recorded", by="ncu")
    name, assumption = device_of(capability, multiprocessors or None)
    if name.startswith(capability):
        return "", remark("device-ambiguous", capability=capability)
    return name, assumption


def _dispatches(found: Launches, duration: np.ndarray, device: np.ndarray, source: str) -> pd.DataFrame:
    """Return the dispatch table of the launches that have a duration."""
    timed = ~np.isnan(duration)
    identity = found.identity[timed].reset_index(drop=True)
    metrics = {name: values[timed] for name, values in found.metrics.items()}
    nanoseconds = np.rint(duration[timed]).astype(np.int64)
    if float(np.abs(duration[timed]).sum()) >= _LONGEST_NS:
        raise DataError("durations of centuries: the file is damaged", source=source)
    registers = next((name for name in _REGISTERS if name in metrics), None)
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
        "vgpr": _integers(metrics[registers]) if registers else None,
        "lds_bytes": _shared_memory(found, metrics),
        "source": f"{source}:" + identity[LINE].astype(str),
    }
    for side, cells, metric in (("grid", "Grid Size", "grid_dim"), ("block", "Block Size", "block_dim")):
        columns |= _sizes(side, identity[cells], metrics, metric)
    counters = {COUNTER + name: values for name, values in metrics.items() if name not in (*_DURATIONS, registers)}
    return in_order(dispatch_table({**columns, **counters}))


def _sizes(side: str, cells: pd.Series, metrics: dict[str, np.ndarray], metric: str) -> dict[str, pd.Series]:
    """Return the three columns of a grid or block, from its cell "(x, y, z)", else from the metrics of the launch."""
    parts = cells.str.extract(_SIZE)
    columns = {}
    for axis, position in zip("xyz", range(3), strict=True):
        measured = metrics.get(f"launch__{metric}_{axis}")
        column = _whole(parts[position])
        columns[f"{side}_{axis}"] = column if measured is None else column.fillna(_integers(measured))
    return columns


def _shared_memory(found: Launches, metrics: dict[str, np.ndarray]) -> pd.Series | None:
    """Return the bytes of a block's static and dynamic memory; none where they are rounded to a scaled unit."""
    for names in _SHARED:
        if all(found.units.get(name) == ("byte/block", 1.0) for name in names):
            return _integers(metrics[names[0]]) + _integers(metrics[names[1]])
    return None


def _whole(words: pd.Series) -> pd.Series:
    """Return the integers among words, missing for what is none."""
    digits = words.astype("str").str.extract(r"^\s*(\d{1,18})\s*$")[0]
    return pd.to_numeric(digits, errors="coerce").astype("Int64")


def _integers(values: np.ndarray) -> pd.Series:
    """Return whole numbers of a reasonable size, missing for all else."""
    whole = (np.abs(values) < 2.0**53) & (values == np.floor(values))
    return pd.Series(values).where(whole).astype("Int64")

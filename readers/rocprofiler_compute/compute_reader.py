"""rocprofiler-compute and Omniperf: the folder of one workload on one GPU is one run.

=====================  =================================================================================================
pmc_perf.csv           every dispatch with its counters, joined from all passes: one line per dispatch ("wide", up to
                       2 700 columns), or one per dispatch and counter ("long", with Counter_Name)
pmc_perf_N.csv         one pass, in the columns of rocprof v2
SQ_*.csv               passes that count occupancies ("levels")
timestamps.csv         a pass without counters
sysinfo.csv            the machine: the device comes from here
others                 roofline.csv, pmc_dispatch_info.csv, pmc_kernel_top.csv, perfmon/*, profiling_config.yaml and
                       log.txt hold nothing of single dispatches
=====================  =================================================================================================

Grids are one number of work-items, so `grid_x` counts the workgroups of all dimensions. Files in the columns of rocprof
v2 under other names are read too, each as a run of its own. Seen: Omniperf 2.0 (rocprof v1 and v2), rocprofiler-compute
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

from ...errors import DataError
from ...remarks import Remark, remark
from ...traces.dispatches import Finding, Trace, dispatch_table, in_order
from ..base import DataFile, Options, TraceReader, register
from ..files import content, head, parse_csv
from ..labels import device_of, known_gpu
from ..rocprof.results_csv import IntArray, counter_columns, header_of
from ..rocprof.times import Times, dispatch_columns, left_out, spoiled_timestamps, without_times
from .passes import Pass, join, read_pass, rows_of

# Which device a rocprofiler-compute run was measured on: ``sysinfo.csv``, one line about the machine.
#
# `gpu_model` is the tool's own name, with the stepping ("MI300X_A1") or of a whole series ("MI200"); `gpu_arch` and
# `cu_per_gpu` are what the runtime reports, of the partition where the card is split. They do not always agree: an
# early MI350 reports 128 compute units.

_STEPPING = re.compile(r"_[A-Z]\d$")
_WHOLE = frozenset(("", "SPX", "NA", "N/A"))  # compute_partition of a card that is not split


@dataclass(frozen=True)
class System:
    """The machine: its device, the channels of its L2 if known, and what was assumed.

    The device is the catalogue's name; the file's own word where it has none; "" if the file does not say.
    """

    device: str = ""
    channels: int | None = None
    notes: tuple[Remark, ...] = ()


def read_system(file: DataFile, options: Options) -> System:
    """Return what ``sysinfo.csv`` says; a DataError if it cannot be read."""
    try:
        text = content(file.path, max_bytes=options.max_bytes).decode("utf-8-sig", errors="backslashreplace")
        columns = parse_csv(text).columns
    except (ValueError, OverflowError, csv.Error) as error:
        raise DataError(f"is not a table that can be read ({error})", source=file.label) from error
    row = {name: str(values[0]).strip() for name, values in columns.items() if len(values)}
    device, notes = device_in(row)
    channels = _number(row.get("total_l2_chan", ""))
    of_file = {"file": file.label}
    return System(device, channels, tuple(remark(note.code, **of_file, **note.values) for note in notes))


def device_in(row: dict[str, str]) -> tuple[str, list[Remark]]:
    """Return the device that a line of ``sysinfo.csv`` describes, and what was assumed.

    It is found by `gpu_model` where the catalogue knows it, else by architecture and compute units (`gpu_arch`,
    `cu_per_gpu`), else it is the model as it stands. A split card (`compute_partition`) is another device: "MI300X
    (CPX)". There are notes where the two disagree, or one is not enough.
    """
    model = _STEPPING.sub("", row.get("gpu_model", ""))
    arch, cus = row.get("gpu_arch", ""), _number(row.get("cu_per_gpu", ""))
    partition = row.get("compute_partition", "").upper()
    gpu = known_gpu(model)
    if gpu is None:
        return _by_architecture(model, arch, cus, partition)
    split = partition not in _WHOLE
    notes = []
    if split:
        notes.append(remark("card-split", partition=partition, device=gpu.name))
    elif (arch and arch != gpu.gfx) or (cus is not None and cus not in (gpu.cus, gpu.reported_cus)):
        notes.append(remark("gpu-model-contradicted", model=row["gpu_model"], arch=arch, units=cus, device=gpu.name))
    elif model != gpu.name:
        notes.append(remark("gpu-model-read-as", model=model, device=gpu.name))
    return (f"{gpu.name} ({partition})" if split else gpu.name), notes


def _by_architecture(model: str, arch: str, cus: int | None, partition: str) -> tuple[str, list[Remark]]:
    if not arch:
        return model, []
    name, assumption = device_of(arch, cus)
    known = known_gpu(name) is not None
    if partition not in _WHOLE:
        return f"{name if known else model or name} ({partition})", [remark("card-split", partition=partition)]
    if not known:
        return model or name, []
    same = dict(assumption.items)["same"] if assumption else ()
    return name, [remark("gpu-model-series", model=model, arch=arch, units=cus, device=name, same=same)]


def _number(text: str) -> int | None:
    return int(text) if text.isdecimal() and len(text) < 9 else None


Role = Literal["merged", "timestamps", "pass", "other table", "system", "companion", "analysis"]

_DISPATCH = frozenset(
    ("Dispatch_ID", "GPU_ID", "Grid_Size", "Workgroup_Size", "LDS_Per_Workgroup", "Kernel_Name"),
)
_PASS = re.compile(r"^(pmc_perf_.*|SQC?_\w+)\.csv$")
_ROLE_OF_NAME: dict[str, Role] = {"pmc_perf.csv": "merged", "timestamps.csv": "timestamps"}
_INFO = ["Dispatch_ID", "Kernel_Name", "GPU_ID"]
_TOP = ["Kernel_Name", "Count", "Sum(ns)"]
_ANALYSIS = (b"SQLite format 3\x00", b"compute_workload", b"compute_metric_definition")
_PERFMON = re.compile(rb"^\s*(pmc:|rocprofiler-sdk:)")
_CONFIG = (b"join_type:", b"filter_blocks:")
_DIGITS = re.compile(r"(\d+)")


def _is_companion(file: DataFile) -> bool:
    """Whether a file stands beside the table that a workload is called after."""
    return not (file.path.name.startswith("pmc_perf") and file.path.suffix == ".csv")


@register
class RocprofilerComputeReader(TraceReader):
    """Workload folders of rocprofiler-compute (Omniperf)."""

    name = "rocprofiler-compute"
    describes = "a workload folder with pmc_perf.csv and sysinfo.csv; CSV with Dispatch_ID, Grid_Size, Kernel_Name"

    def sniff(self, path: Path, head: bytes) -> bool:
        """Recognise a table of dispatches, or a file that accompanies it."""
        return role_of(path, head) is not None

    def gather(self, files: Sequence[DataFile]) -> list[tuple[DataFile, ...]]:
        """Return the files of each workload folder together, and others one by one."""
        folders: dict[Path, list[DataFile]] = {}
        alone: list[tuple[DataFile, ...]] = []
        for file in files:
            if _role(file) in ("other table", "analysis"):
                alone.append((file,))
            else:
                folder = file.path.parent
                folders.setdefault(folder.parent if folder.name == "perfmon" else folder, []).append(file)
        return [*(tuple(sorted(own, key=_is_companion)) for own in folders.values()), *alone]

    def trace(self, files: Sequence[DataFile], options: Options) -> Trace:
        """Return the dispatches of one workload with the counters of all passes; a DataError if a file is damaged."""
        roles = {file: _role(file) for file in files}
        systems = [read_system(file, options) for file in files if roles[file] == "system"]
        passes = [read_pass(file, options) for file in _ordered(files, roles)]
        if not passes:
            return Trace(dispatch_table({}, rows=0), notes=_nothing(files, roles))
        base = passes[0] if "merged" in roles.values() else next((own for own in passes if own.times), passes[0])
        others = [own for own in passes if own is not base]
        return _trace(base, others, systems[0] if systems else None, options)


def role_of(path: Path, beginning: bytes) -> Role | None:
    """Return what a file of a workload folder holds; None if it is none."""
    if all(word in beginning for word in _ANALYSIS) and beginning.startswith(_ANALYSIS[0]):
        return "analysis"
    names = header_of(beginning)
    if set(names) >= _DISPATCH:
        known = path.name.removesuffix(".gz").removesuffix(".bz2")
        return _ROLE_OF_NAME.get(known, "pass" if _PASS.match(known) else "other table")
    if {"workload_name", "command"} <= set(names) and {"gpu_model", "gpu_arch"} & set(names):
        return "system"
    if names == _INFO or names[:3] == _TOP or (names[:1] == ["device"] and "HBMBw" in names):
        return "companion"
    return "companion" if _is_text_of_ours(path, beginning) else None


def _is_text_of_ours(path: Path, beginning: bytes) -> bool:
    if path.parent.name == "perfmon":
        return _PERFMON.match(beginning) is not None
    if path.name == "profiling_config.yaml":
        return all(word in beginning for word in _CONFIG)
    return path.name == "log.txt" and any(word in beginning.lower() for word in (b"omniperf", b"rocprof"))


def _role(file: DataFile) -> Role | None:
    return role_of(file.path, head(file.path))


def _ordered(files: Sequence[DataFile], roles: dict[DataFile, Role | None]) -> list[DataFile]:
    """Return the files with dispatches: the merged one, the timestamps, then the passes by number."""
    places = {"merged": 0, "timestamps": 1, "pass": 2, "other table": 2}
    own = [(places[role], _natural(file.path.name), file) for file in files if (role := roles[file]) in places]
    return [file for *_, file in sorted(own, key=lambda item: item[:2])]


def _natural(name: str) -> tuple[tuple[int, str], ...]:
    """Return a key that sorts pmc_perf_10 after pmc_perf_9."""
    return tuple((int(part), "") if part.isdecimal() else (-1, part) for part in _DIGITS.split(name))


def _nothing(files: Sequence[DataFile], roles: dict[DataFile, Role | None]) -> list[Remark]:
    """Return why files without dispatches give no rows."""
    derived = [file.label for file in files if roles[file] == "analysis"]
    rest = [file.label for file in files if roles[file] != "analysis"]
    notes = [remark("derived-metrics-only", file=label) for label in derived]
    if len(rest) == 1:
        return [*notes, remark("no-dispatches", file=rest[0])]
    return [*notes, remark("no-dispatches", among=tuple(rest))] if rest else notes


def _trace(base: Pass, others: Sequence[Pass], system: System | None, options: Options) -> Trace:
    timed = _timed(base, others)
    joined = join(base, others, system.channels if system else None)
    findings, notes = [*timed.findings, *joined.findings], [*timed.notes, *joined.notes]
    if system:
        notes += system.notes
    elif "device" not in options.defaults:
        notes.append(remark("device-not-recorded", file=base.label, by="rocprofiler-compute"))
    if timed.times is None:
        return Trace(dispatch_table({}, rows=0), findings=findings, notes=notes)
    columns = {
        **dispatch_columns(base.table, timed.times),
        **_place(base, timed),
        **counter_columns(joined.counters, options),
        "device": system.device if system else "",
    }
    table = dispatch_table(columns, rows=len(base.table))
    findings += left_out(timed.times, base.table)
    return Trace(in_order(table[timed.times.known].reset_index(drop=True)), findings=findings, notes=notes)


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
                return _Timed(base.times, other, rows, [], _rounded(base.times, base.label))
        elif other.times is not None and other.times.sound and len(rows) and (rows >= 0).all():
            return _substituted(base, other, other.times, rows)
    none = np.full(len(base.table), -1, dtype=np.int64)
    if base.times is None:
        return _Timed(None, None, none, [without_times(len(base.table), base.label)], [])
    findings = spoiled_timestamps(base.times, base.table, "profile")
    return _Timed(base.times, None, none, findings, _rounded(base.times, base.label))


def _substituted(base: Pass, other: Pass, times: Times, rows: IntArray) -> _Timed:
    own = Times(times.start_ns[rows], times.duration_ns[rows], times.known[rows], times.rounded_ns, times.spoiled[rows])
    notes = [remark("times-of-other-file", file=base.label, other=other.label), *_rounded(own, other.label)]
    findings: list[Finding] = []
    if base.times is not None:
        spoiled = spoiled_timestamps(base.times, base.table, "other", other.label)
        findings = [replace(finding, severity="warning") for finding in spoiled]
    return _Timed(own, other, rows, findings, notes)


def _equal(times: Times, others: Times | None, rows: IntArray) -> bool:
    """Return whether the other pass has the very same times, as Omniperf 2 copies them into every file."""
    if others is None or not len(rows) or (rows < 0).any():
        return False
    return np.array_equal(times.start_ns, others.start_ns[rows])


def _rounded(times: Times, label: str) -> list[Remark]:
    if not times.rounded_ns:
        return []
    return [remark("times-are-means", file=label, rounded_ns=times.rounded_ns)]


def _place(base: Pass, timed: _Timed) -> dict[str, pd.Series]:
    """Return process and queue from the pass that was timed, where the base leaves them out."""
    if timed.of is None:
        return {}
    other = timed.of.table
    wanted = [name for name in ("process", "stream") if not base.table.has(name) and other.has(name)]
    return {name: other.integers(name).iloc[timed.rows].reset_index(drop=True) for name in wanted}

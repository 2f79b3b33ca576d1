"""Nsight Systems' SQLite export (``nsys export --type sqlite``), schemas 2.9 (2022.2) to 3.13 (2024.5).

Tables are written only if they have rows ("lazy"), so that any of them may be missing. Times are integer nanoseconds
since the start of the session, grids are in blocks, names are ids in ``StringIds``.

An activity and the API call that caused it have the same ``correlationId`` within a process. ``globalPid`` and
``globalTid`` carry the process in their bits 24 to 47 (and the host above); a call may be recorded twice (as
``cudaLaunchKernel`` and as ``cudaLaunchKernel_v7000``), so that a plain join doubles the kernels. A CUDA graph is
either traced by its nodes, as kernels, or as a whole in ``CUPTI_ACTIVITY_KIND_GRAPH_TRACE``, which says nothing of its
kernels.
"""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

import pandas as pd

from ...remarks import Remark, remark
from ...traces.dispatches import KERNEL, MEMCPY, MEMSET, Finding, Trace, dispatch_table, in_order
from ..base import DataFile, Options, TraceReader, register
from ..labels import canonical_device
from ..sqlite import MAGIC, ROW, Database, joined, names_of, opened, timed, unfinished

_ACTIVITY = "CUPTI_ACTIVITY_KIND_"
_CALLS = (f"{_ACTIVITY}RUNTIME", f"{_ACTIVITY}DRIVER")
_METADATA = frozenset({"EXPORT_META_DATA", "META_DATA_EXPORT", "ANALYSIS_FILE"})
_PROCESS = 1 << 24  # globalPid and globalTid: bits below are the thread
_WHERE = ("deviceId", "streamId", "correlationId", "globalPid")
_DIMENSIONS = tuple(f"{what}{axis}" for what in ("grid", "block") for axis in ("X", "Y", "Z"))
_NAMES = ("demangledName", "shortName", "mangledName")
#: The enumeration CUpti_ActivityMemcpyKind, which exports since 2024 repeat in ENUM_CUDA_MEMCPY_OPER.
_DIRECTIONS = {
    1: "HtoD", 2: "DtoH", 3: "HtoA", 4: "AtoH", 5: "AtoA", 6: "AtoD", 7: "DtoA", 8: "DtoD", 9: "HtoH", 10: "PtoP",
    11: "HtoD (unified)", 12: "DtoH (unified)", 13: "DtoD (unified)",
}  # fmt: skip


@register
class NsysReader(TraceReader):
    """Exports of Nsight Systems."""

    name = "Nsight Systems SQLite"
    describes = "nsys export --type sqlite: tables StringIds, TARGET_INFO_GPU, CUPTI_ACTIVITY_KIND_KERNEL, ..."

    def sniff(self, path: Path, head: bytes) -> bool:
        """Recognise the table of strings beside one of the target, of the export or of activities.

        nvprof's databases have tables of activities too, but keep their strings in ``StringTable``.
        """
        if not head.startswith(MAGIC):
            return False
        names = names_of(path, head)
        return "StringIds" in names and any(
            name in _METADATA or name.startswith((_ACTIVITY, "TARGET_INFO_")) for name in names
        )

    def trace(self, files: Sequence[DataFile], options: Options) -> Trace:
        """Return the kernels, copies and fills; `source` numbers the rows of the table of their kind."""
        [file] = files
        with opened(file, options) as database:
            parts = [_kernels(database), _copies(database), _fills(database)]
            parts = [part for part in parts if len(part)] or parts[:1]
            activities = _linked(database, pd.concat(parts, ignore_index=True))
            findings = unfinished(file)
            notes: list[Remark] = []
            activities, untimed = timed(activities, file.label)
            activities["device"] = _devices(database, activities["deviceId"], file, findings, notes)
            findings += [*untimed, *_graphs(database, activities, file)]
            _remark(database, activities, notes)
        return Trace(_table(activities, file), findings=findings, notes=notes)


def _kernels(database: Database) -> pd.DataFrame:
    shared = ("staticSharedMemory", "dynamicSharedMemory")
    kernels = database.read(
        f"{_ACTIVITY}KERNEL",
        integers=(
            "start",
            "end",
            *_WHERE,
            *_NAMES,
            *_DIMENSIONS,
            *shared,
            "localMemoryPerThread",
            "registersPerThread",
        ),
        required=("start", "end", "deviceId", "demangledName"),
    )
    return kernels.assign(
        kind=KERNEL,
        name=_kernel_names(database, kernels),
        lds_bytes=kernels[shared[0]] + kernels[shared[1]],
        scratch_bytes=kernels["localMemoryPerThread"],
        vgpr=kernels["registersPerThread"],
    )


def _kernel_names(database: Database, kernels: pd.DataFrame) -> pd.Series:
    """Return the demangled name of each kernel; where the file lacks it the short, else the mangled one."""
    strings = database.read("StringIds", integers=("id",), words=("value",), required=("id", "value"))
    names = pd.Series("", index=kernels.index, dtype=object)
    for column in _NAMES:
        found = joined(kernels[[column]], strings.rename(columns={"id": column}), [column])["value"]
        names = names.where(names != "", found.fillna(""))
    return names


def _copies(database: Database) -> pd.DataFrame:
    integers = ("start", "end", *_WHERE, "bytes", "copyKind")
    copies = database.read(f"{_ACTIVITY}MEMCPY", integers=integers, required=("start", "end", "deviceId"))
    return copies.assign(kind=MEMCPY, name=copies["copyKind"].map(_DIRECTIONS).fillna("unknown").astype(object))


def _fills(database: Database) -> pd.DataFrame:
    integers = ("start", "end", *_WHERE, "bytes")
    fills = database.read(f"{_ACTIVITY}MEMSET", integers=integers, required=("start", "end", "deviceId"))
    return fills.assign(kind=MEMSET, name="memset")


def _linked(database: Database, activities: pd.DataFrame) -> pd.DataFrame:
    """Return the activities with their process, and whether the API call that caused each is recorded."""
    calls = pd.concat([database.read(table, integers=("globalTid", "correlationId")) for table in _CALLS])
    calls = pd.DataFrame({"owner": calls["globalTid"] // _PROCESS, "correlationId": calls["correlationId"]})
    activities = activities.assign(owner=activities["globalPid"] // _PROCESS)
    known = calls["owner"].notna().any() and activities["owner"].notna().any()
    key = ["owner", "correlationId"] if known else ["correlationId"]
    found = joined(activities[key], calls[key].assign(found=True), key)["found"].notna()
    return activities.assign(linked=found.to_numpy(), process=activities["owner"] % _PROCESS)


def _devices(
    database: Database, ids: pd.Series, file: DataFile, findings: list[Finding], notes: list[Remark]
) -> pd.Series:
    """Return the device of each activity under the catalogue's name."""
    gpus = database.read("TARGET_INFO_GPU", integers=("id", "cuDevice"), words=("name",))
    by_id = _named(gpus, "id")
    by_ordinal = _named(gpus, "cuDevice")
    used = ids.dropna().unique()
    if unsure := [number for number in used if by_ordinal.get(number, by_id.get(number)) != by_id.get(number)]:
        findings.append(
            Finding(remark("device-order"), "warning", len(unsure), source=f"{file.label}, TARGET_INFO_GPU")
        )
    names = {number: canonical_device(by_id.get(number, "")) for number in used}
    notes.extend(dict.fromkeys(unknown for _, unknown in names.values() if unknown))
    return ids.map({number: name for number, (name, _) in names.items()}).fillna("").astype(object)


def _named(gpus: pd.DataFrame, key: str) -> dict[int, str]:
    known = gpus.dropna(subset=[key]).drop_duplicates(key)
    return dict(zip(known[key], known["name"], strict=True))


def _graphs(database: Database, activities: pd.DataFrame, file: DataFile) -> list[Finding]:
    """Return a finding on the CUDA graphs that were traced as a whole."""
    graphs = database.read(f"{_ACTIVITY}GRAPH_TRACE", integers=("start", "end"))
    if graphs.empty:
        return []
    inside = float((graphs["end"] - graphs["start"]).clip(lower=0).astype("Float64").sum())
    outside = float(activities["duration_ns"].clip(lower=0).astype("float64").sum())
    share = inside / (inside + outside) if inside > 0 else None
    where = f"{file.label}, {_ACTIVITY}GRAPH_TRACE"
    return [Finding(remark("graph-as-a-whole"), "warning", len(graphs), share, where)]


def _remark(database: Database, activities: pd.DataFrame, notes: list[Remark]) -> None:
    """Say what the export has not."""
    if activities.empty:
        notes.append(remark("no-activities", by="nsys"))
    elif not database.tables & set(_CALLS):
        notes.append(remark("no-api-calls", by="nsys"))
    if len(activities) and activities["device"].eq("").any():
        notes.append(remark("unnamed-gpus"))


def _table(activities: pd.DataFrame, file: DataFile) -> pd.DataFrame:
    same = (
        "kind",
        "device",
        "process",
        "name",
        "start_ns",
        "duration_ns",
        "lds_bytes",
        "scratch_bytes",
        "vgpr",
        "bytes",
        "linked",
    )
    named = {"gpu": "deviceId", "stream": "streamId", "correlation": "correlationId"} | {name: name for name in same}
    named |= {f"{name[:-1]}_{name[-1].lower()}": name for name in _DIMENSIONS}
    columns = {column: activities[name] for column, name in named.items() if name in activities}
    columns["source"] = f"{file.label}:" + activities[ROW].astype("str")
    return in_order(dispatch_table(columns))

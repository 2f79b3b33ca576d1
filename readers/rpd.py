"""ROCmProfileData's databases (``.rpd``, schema 2): every operation of the GPU and every API call, tables ``rocpd_*``.

Seen: files of rpd_tracer on roctracer, 2022 to 2025, with and without the extensions for operators
(autograd) and call stacks. ``rocpd_op`` has every operation; the view ``kernel`` only those with a
launch of their own in ``rocpd_kernelapi``, so that the kernels a graph replays (type "Task", many
to one hipGraphLaunch) are missing from it. The operations are read from ``rocpd_op``; a replayed
kernel has no grid, as its launch is not recorded. Of local memory only the part asked for at
launch is (0 for kernels that do use it), so that it is left missing.

Times are integer nanoseconds. **The unit of the grid depends on the API call**, as the tracer
copies its arguments: ``hipLaunchKernel`` takes workgroups, ``hipExtModuleLaunchKernel`` (Tensile's
``Cijk_*``) work-items. The published example files leave no doubt: all 1000 kernels of the former
have grids as small as one with groups of 32 to 1024, which as work-items would be a fraction of a
group; all 257 of the latter are multiples of the group, and the one of a known problem (a matrix of
800 x 50000 in tiles of 128 x 64) has 1792 / 256 = 7 by 782 groups, the number of its tiles.

``rpd2tracing`` exports such a database as a Chrome trace. The export has less (whole microseconds,
no grids): it is recognised, so that nothing else takes it for a separate trace, and not read.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from itertools import chain, product
from pathlib import Path

import numpy as np
import pandas as pd

from ..remarks import Remark, remark
from ..traces.dispatches import KERNEL, MEMCPY, MEMSET, Finding, Trace, dispatch_table, in_order
from .base import SQLITE, DataFile, Options, TraceReader, register
from .files import content
from .rocpd import IN_WORK_ITEMS, direction, schema_of, workgroups
from .sqlite import ROW, Database, joined, opened, timed, unfinished

SCHEMA = "2"
#: API calls that take the grid in work-items; all others take workgroups.
_AXES = ("X", "Y", "Z")
_EXPORT = re.compile(rb'\s*(?:\{\s*"traceEvents":\s*)?\[\s*\{\}')
_EXPORTED_GPU = re.compile(
    rb'"ph":\s*"M",\s*"pid":\s*"-?\d+",\s*"args":\s*\{"name":\s*"GPU-?\d+"\}'
)
_NO_GPU_WORK = r"(?i)marker|barrier"
_FILL = r"(?i)fill|memset"
_COPY = r"(?i)copy|read ?buffer|write ?buffer"


@register
class RpdReader(TraceReader):
    """Databases of ROCmProfileData, and the Chrome traces exported from them."""

    name = "RPD"
    containers = (SQLITE, b"")

    def sniff(self, path: Path, head: bytes) -> bool:
        """Recognise a database of schema 2, or the export of one."""
        return schema_of(path, head) == SCHEMA or bool(
            _EXPORT.match(head) and _EXPORTED_GPU.search(head)
        )

    def gather(self, files: Sequence[DataFile]) -> list[tuple[DataFile, ...]]:
        """Return each database with the export of the same name beside it; other exports stand alone."""
        groups: dict[Path, list[DataFile]] = {}
        for file in files:
            # Without compression and suffix: "run.rpd.gz" and "run.json" are of one run.
            name = re.sub(r"(?i)\.(gz|bz2)$", "", file.path.name)
            groups.setdefault(file.path.with_name(name).with_suffix(""), []).append(file)
        return list(chain.from_iterable(map(_split, groups.values())))

    def trace(self, files: Sequence[DataFile], options: Options) -> Trace:
        """Return the operations of the database; `source` numbers the rows of ``rocpd_op``, `stream` is the queue."""
        databases = [file for file in files if _is_database(file)]
        notes = list[Remark]()
        findings = list[Finding]()
        for file in files:
            if file not in databases:
                text = (
                    f"{file.label} is a Chrome trace exported from a .rpd database, which holds "
                    "more: not read; give the .rpd"
                )
                notes.append(remark("exported-trace", text, trace=file.label))
        traces = [_read(file, options) for file in databases]
        tables = [trace.dispatches for trace in traces if len(trace.dispatches)]
        table = dispatch_table({}, rows=0)
        if tables:
            table = in_order(pd.concat(tables, ignore_index=True))
        for trace in traces:
            findings += trace.findings
            notes += trace.notes
        return Trace(table, findings=findings, notes=notes)


def _is_database(file: DataFile) -> bool:
    return content(file.path, len(SQLITE)) == SQLITE


def _split(same: Sequence[DataFile]) -> list[tuple[DataFile, ...]]:
    """Return one group for each database, the exports with the first of them; or all exports together."""
    databases = [file for file in same if _is_database(file)]
    exports = [file for file in same if file not in databases]
    return [(*databases[:1], *exports), *((file,) for file in databases[1:])]


def _read(file: DataFile, options: Options) -> Trace:
    with opened(file, options) as database:
        strings = database.read("rocpd_string", integers=("id",), words=("string",))
        needed = ("start", "end", "description_id", "opType_id")
        ops = database.read(
            "rocpd_op", integers=("id", "gpuId", "queueId", *needed), required=needed
        )
        links = database.read("rocpd_api_ops", integers=("op_id", "api_id"))
        links = links.rename(columns={"op_id": "id", "api_id": "correlation"})
        for key, text in (("opType_id", "type"), ("description_id", "description")):
            ops = _named(ops, strings, key, text)
            ops[text] = ops[text].fillna("")
        ops = joined(ops, links, ["id"])
        launches = _launches(database, strings)
        operators = _operators(database, strings)
    findings = unfinished(file)
    notes = []
    kind_word = ops["type"].astype("str")
    nameless = ops["description"] == ""
    fill = kind_word.str.contains(_FILL)
    copy = kind_word.str.contains(_COPY)
    idle = nameless & kind_word.str.contains(_NO_GPU_WORK)
    ops = ops.assign(
        kind=np.select([fill, copy], [MEMSET, MEMCPY], KERNEL),
        name=np.select([fill, copy], ["memset", direction(ops["type"])], ops["description"]),
    )
    ops = ops[~idle].reset_index(drop=True)
    skipped = int(idle.sum())
    if skipped:
        text = f"{skipped} operations are markers and barriers of the queue, no work: left out"
        notes.append(remark("markers-left-out", text, operations=skipped))
    ops = joined(joined(ops, launches, ["correlation"]), operators, ["correlation"])
    ops, untimed = timed(ops, file.label)
    if ops.empty:
        text = "the database has no operations of a GPU (rocpd_op is empty)"
        notes.append(remark("no-activities", text, by="rpd"))
    else:
        text = "the GPU is not named: give default device=NAME"
        notes.append(remark("device-not-recorded", text, by="rpd"))
    replayed = int((ops["kind"].eq(KERNEL) & ops["grid_x"].isna()).sum())
    if replayed:
        text = (
            f"{replayed} kernels have no grid: they were replayed by a graph, or their launch is "
            "not recorded"
        )
        notes.append(remark("kernels-without-grid", text, kernels=replayed))
    return Trace(_table(ops, file), findings=findings + untimed, notes=notes)


def _named(
    rows: pd.DataFrame,
    strings: pd.DataFrame,
    key: str,
    name: str,
) -> pd.DataFrame:
    """Return the rows with the string that their column `key` numbers, as the column `name`."""
    return joined(rows, strings.rename(columns={"id": key, "string": name}), [key])


def _launches(database: Database, strings: pd.DataFrame) -> pd.DataFrame:
    """Return the API calls with what they launched: the grid in workgroups, or the bytes copied."""
    calls = database.read("rocpd_api", integers=("id", "pid", "apiName_id"))
    calls = _named(
        calls.rename(columns={"id": "correlation"}),
        strings,
        "apiName_id",
        "api",
    )
    sizes = [f"{what}{side}" for what, side in product(("grid", "workgroup"), _AXES)]
    kernels = database.read(
        "rocpd_kernelapi",
        integers=("api_ptr_id", "kernelName_id", *sizes),
        required=("gridX", "workgroupX"),
    )
    copies = database.read("rocpd_copyapi", integers=("api_ptr_id", "size"))
    for launched in (kernels, copies):
        calls = joined(
            calls, launched.rename(columns={"api_ptr_id": "correlation"}), ["correlation"]
        )
    calls = _named(calls, strings, "kernelName_id", "launched")
    in_items = calls["api"].isin(IN_WORK_ITEMS)
    for axis in _AXES:
        grid = calls[f"grid{axis}"]
        group = calls[f"workgroup{axis}"]
        calls[f"grid_{axis.lower()}"] = workgroups(grid, group).where(
            in_items, grid.where(grid > 0)
        )
        calls[f"block_{axis.lower()}"] = group.where(group > 0)
    return calls.drop(columns=[ROW, *sizes])


def _operators(database: Database, strings: pd.DataFrame) -> pd.DataFrame:
    """Return for each API call the framework's operators around it, where the extensions recorded them."""
    named = database.read("ext_autogradapi", integers=("api_ptr_id", "autogradName_id"))
    named = _named(named, strings, "autogradName_id", "op_name")
    named = named.rename(columns={"api_ptr_id": "op_id"})[["op_id", "op_name"]]
    stack = database.read("ext_callstack", integers=("parent_id", "child_id", "depth"))
    stack = stack.rename(columns={"parent_id": "op_id", "child_id": "correlation"}).drop(
        columns=ROW
    )
    around = joined(stack, named, ["op_id"]).dropna(subset=["correlation", "op_name", "depth"])
    around = around.sort_values(["correlation", "depth"], kind="stable")
    innermost = around.drop_duplicates("correlation").drop(columns="depth")
    levels = around.groupby("correlation").cumcount()
    # Outermost first, one level of nesting at a time.
    stacks = innermost["op_name"].astype(object)
    for level in range(1, int(levels.max()) + 1 if len(levels) else 0):
        outer = around[levels == level].set_index("correlation")["op_name"]
        names = innermost["correlation"].map(outer)
        stacks = (names + ";" + stacks).where(names.notna(), stacks)
    return innermost.assign(op_stack=stacks)


def _table(ops: pd.DataFrame, file: DataFile) -> pd.DataFrame:
    kernel = ops["kind"] == KERNEL
    columns = {
        "kind": ops["kind"],
        "process": ops["pid"],
        "gpu": ops["gpuId"],
        "stream": ops["queueId"],
        "name": ops["name"].where(ops["name"] != "", ops["launched"]),
        "start_ns": ops["start_ns"],
        "duration_ns": ops["duration_ns"],
        "bytes": ops["size"].where(~kernel & (ops["size"] > 0)),
        "correlation": ops["correlation"],
        "linked": ops["api"].notna(),
        "op_name": ops["op_name"],
        "op_id": ops["op_id"],
        "op_stack": ops["op_stack"],
        "source": f"{file.label}:" + ops[ROW].astype("str"),
    }
    for what, axis in product(("grid", "block"), "xyz"):
        columns[f"{what}_{axis}"] = ops[f"{what}_{axis}"]
    return in_order(dispatch_table(columns))

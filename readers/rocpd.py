"""rocprofiler-sdk's rocpd databases (schema 3; what rocprofv3 of ROCm 7 writes by default).

Each process has a set of tables, named after its guid
(``rocpd_kernel_dispatch_00003fdc_92cb_...``); a merged file has several sets. Views under the plain
names unite them, and the view ``kernels`` joins everything, but as an inner join: it leaves out
every dispatch whose thread or region was not recorded. The tables themselves are therefore read and
joined here, always on the guid as well as the id, because ids start at 1 in each process.

Times are integer nanoseconds. Grids are in work-items. A dispatch belongs to the API call of the
same ``stack_id`` (``correlation_id`` is the user's external id, 0 for all where there is none).

What the readers of ROCm's profilers share stands here too: units of grids, directions of copies,
and streams.
"""

from __future__ import annotations

import json
from collections.abc import Sequence
from functools import cached_property
from itertools import product
from pathlib import Path

import numpy as np
import pandas as pd

from ..remarks import Remark, remark
from ..table.measurements import COUNTER
from ..traces.dispatches import (
    KERNEL,
    MEMCPY,
    Finding,
    Trace,
    columns_of,
    dispatch_table,
    findings_on,
    in_order,
)
from .base import SQLITE, DataFile, Options, TraceReader, register
from .labels import device_named
from .sqlite import ROW, Database, joined, names_of, opened, peek, timed, unfinished

IN_WORK_ITEMS = frozenset({"hipExtModuleLaunchKernel", "hipHccModuleLaunchKernel"})
"""Launches of the HIP runtime whose grid is in work-items, HSA's unit, in which hipBLASLt, rocBLAS
and MIOpen launch their assembly kernels; all others count workgroups."""
_DIRECTION = r"(?i)(H|D|P)(?:ost|evice|eer)[_ ]?to[_ ]?(H|D|P)(?:ost|evice|eer)"


def direction(words: pd.Series) -> pd.Series:
    """Return the direction of copies, "HtoD" for MEMORY_COPY_HOST_TO_DEVICE or CopyHostToDevice2D; else the word."""
    ends = words.astype("str").str.extract(_DIRECTION)
    return (ends[0].str.upper() + "to" + ends[1].str.upper()).fillna(words)


def workgroups(items: pd.Series, group: pd.Series) -> pd.Series:
    """Return the number of workgroups that cover a grid of work-items; missing where a size is."""
    size = group.where(group > 0)
    return (items.where(items > 0) - 1) // size + 1


def launch_size(axis: str, items: pd.Series, group: pd.Series) -> dict[str, pd.Series]:
    """Return grid (in workgroups) and workgroup along an axis, of a launch in work-items; missing where no size is."""
    return {f"grid_{axis}": workgroups(items, group), f"block_{axis}": group.where(group > 0)}


def streams_recorded(stream: pd.Series, queue: pd.Series) -> bool:
    """Return whether streams are meaningful: not if all kernels have stream 0 but ran on several queues."""
    if stream.empty:
        return True
    return bool(stream.notna().any() and (stream.fillna(0).ne(0).any() or queue.nunique() < 2))


STREAM_IS_QUEUE = remark(
    "stream-is-queue", "`stream` is the hardware queue: no streams were recorded"
)


SCHEMA = "3"
_AXES = ("x", "y", "z")
#: Columns of dispatches and copies alike.
_OF_EVERY = ("pid", "queue_id", "stream_id", "event_id", "start", "end")


@register
class RocpdReader(TraceReader):
    """Databases of rocprofv3: kernel dispatches, memory copies, counters and the API calls behind them."""

    name = "rocpd database"
    containers = (SQLITE,)

    def sniff(self, path: Path, head: bytes) -> bool:
        """Recognise a database of schema 3."""
        return schema_of(path, head) == SCHEMA

    def trace(self, files: Sequence[DataFile], options: Options) -> Trace:
        """Return the dispatches and copies of every process in the database.

        `source` numbers the rows of ``rocpd_kernel_dispatch`` (of ``rocpd_memory_copy`` for a
        copy), the processes one after the other. `stream` is the HIP stream where it is recorded,
        else the queue.
        """
        [file] = files
        with opened(file, options) as database:
            tables = _Tables(database)
            findings = unfinished(file)
            notes: list[Remark] = []
            agents = _agents(tables, notes)
            regions = tables.read("rocpd_region", integers=("event_id",))
            stacks = joined(regions, tables.stacks, ("guid", "event_id"))[["guid", "stack_id"]]
            launches = (
                stacks[stacks["stack_id"] > 0]
                .rename(columns={"stack_id": "correlation"})
                .assign(linked=True)
            )
            kernels = _kernels(tables, file, findings)
            counters = _counters(tables, kernels, file, findings, notes)
            copies = _copies(tables)
        if launches.empty:
            text = (
                "the database has no API calls (record them with --hip-trace): no kernel is "
                "linked to a launch"
            )
            notes.append(remark("no-api-calls", text, by="rocpd"))
        parts = [part for part in (pd.concat([kernels, counters], axis=1), copies) if len(part)]
        activities = pd.concat(parts or [kernels], ignore_index=True)
        if not streams_recorded(kernels["stream"], kernels["queue"]):
            activities["stream"] = activities["queue"]
            notes.append(STREAM_IS_QUEUE)
        activities, untimed = timed(activities, file.label)
        if activities.empty:
            text = "the database has no kernel dispatches and no memory copies"
            notes.append(remark("no-activities", text, by="rocpd"))
        activities = joined(activities, agents, ("guid", "agent"))
        activities = joined(activities, launches, ("guid", "correlation"))
        columns = columns_of(activities)
        columns["linked"] = activities["linked"].notna()
        columns["source"] = f"{file.label}:" + activities[ROW].astype("str")
        return Trace(in_order(dispatch_table(columns)), findings=findings + untimed, notes=notes)


def schema_of(path: Path, head: bytes) -> str:
    """Return the major schema version of a database whose tables are called ``rocpd_*``; "" of anything else.

    Schema 2 is the older ROCmProfileData, 3 rocprofiler-sdk's; both use the prefix. Where the
    version cannot be read (a compressed or damaged file) the tables that only one of them has
    decide.
    """
    if not head.startswith(SQLITE):
        return ""
    names = names_of(path, head)
    if not any(name.startswith("rocpd_") for name in names):
        return ""
    stated = peek(path, _stated_version)
    if stated:
        return stated.partition(".")[0]
    if any(name.startswith(("rocpd_kernel_dispatch", "rocpd_info_")) for name in names):
        return SCHEMA
    if {"rocpd_op", "rocpd_api"} & names:
        return "2"
    return ""


def _stated_version(database: Database) -> str:
    for name in sorted(database.tables):
        if name.startswith("rocpd_metadata"):
            tags = database.read(name, words=("tag", "value"))
            versions = tags.loc[tags["tag"] == "schema_version", "value"]
            if len(versions):
                return str(versions.iloc[0])
    return ""


class _Tables:
    """The tables of all processes, each under its plain name."""

    def __init__(self, database: Database) -> None:
        self._database = database
        base = "rocpd_metadata"
        self._codes: dict[str, int] = {}
        self._suffixes = sorted(
            {"", *(name.removeprefix(base) for name in database.tables if name.startswith(base))}
        )

    def read(self, name: str, **columns: Sequence[str]) -> pd.DataFrame:
        """Return the rows of all processes; `guid` numbers them, from the table's name where it has no such column.

        The views that unite the tables are not asked where there are tables: a view made by the
        first of several processes shows only its tables.
        """
        held = [suffix for suffix in self._suffixes if name + suffix in self._database.tables]
        parts = [self._part(name, suffix, columns) for suffix in held or [""]]
        table = pd.concat([part for part in parts if len(part)] or parts[:1], ignore_index=True)
        table[ROW] = np.arange(1, len(table) + 1)
        return table

    def _part(
        self,
        name: str,
        suffix: str,
        columns: dict[str, Sequence[str]],
    ) -> pd.DataFrame:
        """Return the rows of one table, `guid` as a number: numbers join faster than text."""
        table = name + suffix
        only = self._database.only(table, "guid")
        if only is not None:
            return self._database.read(table, **columns).assign(guid=self._code(only))
        columns = columns | {"words": ("guid", *columns.get("words", ()))}
        part = self._database.read(table, **columns)
        codes = {guid: self._code(guid or suffix[1:]) for guid in part["guid"].unique()}
        return part.assign(guid=part["guid"].map(codes).astype(np.int64))

    def _code(self, guid: str) -> int:
        return self._codes.setdefault(guid.replace("-", "_"), len(self._codes))

    @cached_property
    def stacks(self) -> pd.DataFrame:
        """The stack id of each event, `event_id`."""
        read = self.read("rocpd_event", integers=("id", "stack_id"))
        return read.rename(columns={"id": "event_id"})

    def strings(self, key: str, text: str) -> pd.DataFrame:
        """Return the strings as column `text`, their ids as column `key`."""
        read = self.read("rocpd_string", integers=("id",), words=("string",))
        return read.rename(columns={"id": key, "string": text})


def _kernels(tables: _Tables, file: DataFile, findings: list[Finding]) -> pd.DataFrame:
    """Return the dispatches under the names of the dispatch table, `agent` and `event` their ids."""
    kernels = tables.read(
        "rocpd_kernel_dispatch",
        integers=(
            *_OF_EVERY,
            "tid",
            "agent_id",
            "kernel_id",
            "dispatch_id",
            "region_name_id",
            "private_segment_size",
            "group_segment_size",
            *(f"{what}_size_{axis}" for what, axis in product(("workgroup", "grid"), _AXES)),
        ),
        required=("agent_id", "kernel_id", "start", "end"),
    )
    findings += _dropped(tables, kernels, file)
    counts = ("sgpr_count", "arch_vgpr_count", "accum_vgpr_count")
    read = tables.read(
        "rocpd_info_kernel_symbol", integers=("id", *counts), words=("kernel_name", "display_name")
    )
    kernels = joined(kernels, read.rename(columns={"id": "kernel_id"}), ("guid", "kernel_id"))
    grids = {}
    for axis in _AXES:
        items = kernels[f"grid_size_{axis}"]
        group = kernels[f"workgroup_size_{axis}"]
        grids |= launch_size(axis, items, group)
    shown = kernels["display_name"]
    return _common(tables, kernels).assign(
        kind=KERNEL,
        agent=kernels["agent_id"],
        name=shown.where(shown.fillna("") != "", kernels["kernel_name"]),
        dispatch_id=kernels["dispatch_id"],
        lds_bytes=kernels["group_segment_size"],
        scratch_bytes=kernels["private_segment_size"],
        vgpr=kernels["arch_vgpr_count"],
        accum_vgpr=kernels["accum_vgpr_count"],
        sgpr=kernels["sgpr_count"],
        **grids,
    )


def _dropped(tables: _Tables, kernels: pd.DataFrame, file: DataFile) -> list[Finding]:
    """Return a finding on the dispatches that the database's view leaves out."""
    threads = tables.read("rocpd_info_thread", integers=("id",)).rename(columns={"id": "tid"})
    regions = tables.strings("region_name_id", "region")[["guid", "region_name_id", "region"]]
    of_thread = joined(kernels[["guid", "tid"]], threads.assign(thread=True), ("guid", "tid"))
    named = joined(kernels[["guid", "region_name_id"]], regions, ("guid", "region_name_id"))
    dropped = of_thread["thread"].isna() | named["region"].isna()
    times = (kernels["end"] - kernels["start"]).clip(lower=0).astype("Float64")
    total = times.sum()
    share = None
    if total > 0:
        share = float(times[dropped].sum() / total)
    text = (
        "kept, though the database's own view `kernels` leaves them out (no thread or no region "
        "recorded): sums taken from that view are too small"
    )
    return findings_on(
        int(dropped.sum()),
        "dropped-by-view",
        text,
        "info",
        file.label,
        share,
    )


def _common(tables: _Tables, rows: pd.DataFrame) -> pd.DataFrame:
    """Return the columns common to dispatches and copies."""
    processes = tables.read("rocpd_info_process", integers=("id", "pid")).rename(
        columns={"id": "pid", "pid": "process"}
    )
    process = joined(rows[["guid", "pid"]], processes, ("guid", "pid"))["process"]
    stack = joined(rows[["guid", "event_id"]], tables.stacks, ("guid", "event_id"))["stack_id"]
    return pd.DataFrame(
        {
            "guid": rows["guid"],
            ROW: rows[ROW],
            "event": rows["event_id"],
            "process": process.fillna(rows["pid"]),
            "queue": rows["queue_id"],
            "stream": rows["stream_id"],
            "correlation": stack.where(stack > 0),
            "start": rows["start"],
            "end": rows["end"],
        }
    )


def _copies(tables: _Tables) -> pd.DataFrame:
    """Return the memory copies; their agent is the GPU they end on, else the one they start from."""
    numbers = (*_OF_EVERY, "name_id", "dst_agent_id", "src_agent_id", "size")
    copies = tables.read("rocpd_memory_copy", integers=numbers, required=("start", "end"))
    copies = joined(copies, tables.strings("name_id", "direction"), ("guid", "name_id"))
    kinds = tables.read("rocpd_info_agent", integers=("id",), words=("type",))
    key = ["guid", "dst_agent_id"]
    on_gpu = joined(copies[key], kinds.rename(columns={"id": key[1]}), key)["type"] == "GPU"
    return _common(tables, copies).assign(
        kind=MEMCPY,
        agent=copies["dst_agent_id"].where(on_gpu, copies["src_agent_id"]),
        name=direction(copies["direction"]),
        bytes=copies["size"],
    )


def _counters(
    tables: _Tables,
    kernels: pd.DataFrame,
    file: DataFile,
    findings: list[Finding],
    notes: list[Remark],
) -> pd.DataFrame:
    """Return the counters of each dispatch, one column each, summed over the instances of the block."""
    values = tables.read("rocpd_pmc_event", integers=("event_id", "pmc_id"), reals=("value",))
    if values.empty:
        return pd.DataFrame(index=kernels.index)
    info = tables.read("rocpd_info_pmc", integers=("id",), words=("symbol", "name"))
    info["counter"] = info["symbol"].where(info["symbol"] != "", info["name"])
    info = info[["guid", "id", "counter"]].rename(columns={"id": "pmc_id"})
    values = joined(values, info, ("guid", "pmc_id"))
    place = kernels[["guid", "event"]].assign(kernel=np.arange(len(kernels)))
    values = joined(values, place.rename(columns={"event": "event_id"}), ("guid", "event_id"))
    of_kernels = values["kernel"].notna() & values["counter"].notna()
    apart = int((~of_kernels).sum())
    if apart:
        text = (
            f"{apart} counter values belong to no kernel dispatch (samples of the whole device): "
            "left out"
        )
        notes.append(remark("values-of-no-dispatch", text, values=apart))
    values = values[of_kernels]
    repeats = int(values.duplicated(["kernel", "counter"]).sum())
    text = (
        "more than one value of a counter for one dispatch: summed, as those of the instances of a "
        "block"
    )
    findings += findings_on(repeats, "counter-instances", text, "info", file.label)
    stated = values.dropna(subset=["value"]).astype({"kernel": np.int64})
    sums = stated.pivot_table("value", "kernel", "counter", "sum")
    return sums.reindex(kernels.index).rename(columns=lambda name: f"{COUNTER}{name}")


def _agents(tables: _Tables, notes: list[Remark]) -> pd.DataFrame:
    """Return the number and the device of each agent."""
    read = tables.read(
        "rocpd_info_agent",
        integers=("id", "absolute_index"),
        words=("type", "name", "product_name", "model_name", "extdata"),
    )
    devices = []
    for agent in read.itertuples():
        cus = _field(str(agent.extdata), "cu_count")
        product_name = str(agent.product_name or agent.model_name)
        device, assumption = device_named(product_name, str(agent.name), cus)
        devices.append(device)
        if assumption and agent.type == "GPU" and assumption not in notes:
            notes.append(assumption)
    return read.assign(agent=read["id"], gpu=read["absolute_index"], device=devices)[
        ["guid", "agent", "gpu", "device"]
    ]


def _field(text: str, name: str) -> int | None:
    """Return a whole number of a JSON object; None without one."""
    try:
        fields = json.loads(text)
    except (ValueError, RecursionError):
        return None
    value = None
    if isinstance(fields, dict):
        value = fields.get(name)
    if type(value) is int and value > 0:
        return value
    return None

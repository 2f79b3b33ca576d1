"""CSV files of rocprofv3 (rocprofiler-sdk): kernel traces, counters, memory copies, agents, API calls.

Written by default until ROCm 7.0, since then with ``--output-format csv`` or by ``rocpd convert``. Seen: the versions
of October 2024 (agents as integers, no streams, no registers) and of 2025 (agents as "Agent 4"; every field quoted, or
only words), and the spelling of ``rocpd convert`` (a column Guid, other capitals). Columns are therefore found by name
in any case, and may be missing. Rows are in no order. Times are integer nanoseconds, grids in work-items.

``*_kernel_trace.csv`` has one row per dispatch; ``*_counter_collection.csv`` one row per dispatch and counter, of the
grid only the total (`grid_x` then counts the workgroups of all dimensions), and times in newer versions only.
``*_memory_copy_trace.csv`` does not say how much was copied. Only ``*_agent_info.csv`` says what a device is.
`Run` has the files of one run together: whose times count, which devices the agents are, what launched what.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd

from ...arrays import BoolArray, IntArray, ObjectArray
from ...remarks import Remark, remark
from ...table.measurements import COUNTER
from ...traces.dispatches import COLUMNS, KERNEL, MEMCPY, Finding, Trace, dispatch_table, in_order
from ..base import DataFile, Options, TraceReader, register
from ..files import by_number, head
from ..rocpd import direction, workgroups
from .common import (
    NO_ACTIVITY,
    NO_DEVICE,
    UNLINKED,
    Agent,
    Agents,
    Content,
    agent_device,
    agent_number,
    content_of,
    durations,
    place_of,
    runs,
    stacked,
    streams,
)
from .csv_table import CsvTable, Pass, counters, dispatch_key

_READ = (Content.KERNELS, Content.COUNTERS, Content.COPIES, Content.AGENTS, Content.API)
_LAUNCHING = ("HIP", "HSA")  # domains of the API calls that launch kernels and copies


class Run:
    """The tables of a run, by what they hold, in the order of the passes; files without GPU activity are passed over.

    `passes` are the folders of the passes, "" for files outside of any. `timed` is the table whose rows are the
    dispatches: the kernel trace of the first pass that has one, else the first counters that have times, or None.
    """

    def __init__(self, files: Sequence[DataFile], options: Options) -> None:
        replays = {file: place_of(file.path).replay for file in files}
        self.passes = sorted(set(replays.values()), key=by_number)
        self._tables: list[tuple[Content, str, CsvTable]] = []
        for file in sorted(files, key=lambda file: self.passes.index(replays[file])):
            content = content_of(head(file.path))
            if content in _READ:
                self._tables.append((content, replays[file], CsvTable(file, options)))
        traces = [table for table in self.of(Content.KERNELS) if len(table)]
        counted = [table for table in self.of(Content.COUNTERS) if len(table) and table.timed]
        self.timed = next(iter([*traces, *counted]), None)

    def of(self, content: Content) -> list[CsvTable]:
        """Return the tables of all passes."""
        return [table for what, _, table in self._tables if what is content]

    def of_pass(self, content: Content) -> list[CsvTable]:
        """Return the tables of the pass that the times are from; of the first that has some, if there are no times."""
        found = [(replay, table) for what, replay, table in self._tables if what is content]
        first = found[0][0] if found else ""
        own = next((replay for _, replay, table in self._tables if table is self.timed), first)
        return [table for replay, table in found if replay == own]

    def findings(self) -> list[Finding]:
        """Return what was odd about the lines and about the fields read so far."""
        return list(dict.fromkeys(finding for *_, table in self._tables for finding in table.findings))


def agents(run: Run) -> tuple[Agents, list[Remark]]:
    """Return the GPUs that the lists of agents name, and remarks on what they are called."""
    gpus: list[Agent] = []
    remarks: dict[Remark, None] = {}
    for table in run.of(Content.AGENTS):
        numbers = ("node_id", "logical_node_id", "logical_node_type_id", "gfx_target_version", "cu_count")
        node, logical, of_type, version, cus = (_numbers(table, name) for name in numbers)
        kind, name, product = (list(table.words(word)) for word in ("agent_type", "name", "product_name"))
        for row in range(len(table)):
            if kind[row].casefold().endswith("gpu"):
                device, assumption = agent_device(product[row], name[row], version[row], cus[row])
                gpus.append(Agent(node[row], logical[row], of_type[row], device))
                remarks |= {assumption: None} if assumption else {}
    return Agents(gpus), list(remarks)


def launches(run: Run) -> pd.DataFrame:
    """Return the API calls that may have launched something: `guid`, `correlation`, `process`."""
    parts = [pd.DataFrame({"guid": [], "correlation": [], "process": []}, dtype="Int64")]
    for table in run.of_pass(Content.API):
        calls = pd.DataFrame(
            {
                "guid": np.asarray(table.words("guid"), dtype=object),
                "correlation": table.integers("correlation_id"),
                "process": table.integers("process_id"),
            }
        )
        launching = each(table.words("domain"), lambda word: word.upper().startswith(_LAUNCHING))
        parts.append(calls[launching.astype(bool)])
    return pd.concat(parts[1:] or parts, ignore_index=True)


def linked(rows: pd.DataFrame, calls: pd.DataFrame) -> BoolArray:
    """Return which rows have the correlation id of a call of their process."""
    known = calls[calls["correlation"].notna()]
    found = rows["correlation"].isin(known["correlation"]).to_numpy(dtype=bool)
    if not (found.any() and rows["guid"].ne("").all() and known["guid"].ne("").all()):
        return found
    pairs = pd.MultiIndex.from_frame(known[["guid", "correlation"]].astype({"correlation": np.int64}))
    own = rows.loc[found, ["guid", "correlation"]].astype({"guid": object, "correlation": np.int64})
    found[found] = pd.MultiIndex.from_frame(own).isin(pairs)
    return found


def processes(rows: pd.DataFrame, calls: pd.DataFrame, run: Run) -> pd.Series:
    """Return the process of each row.

    As the row itself says; else that of all API calls of its run, if they are of one; else the number that the file is
    named by.
    """
    ids = calls.groupby("guid", sort=False)["process"].agg(["min", "max"])
    single = ids.loc[ids["min"] == ids["max"], "min"]
    process = rows["process"].fillna(rows["guid"].astype(object).map(single).astype("Int64"))
    tables = [table for table in (run.timed, *run.of_pass(Content.COPIES)) if table is not None]
    prefix = place_of(tables[0].file.path).prefix
    return process.fillna(int(prefix)) if re.fullmatch(r"[0-9]{1,18}", prefix) else process


def each(words: pd.Categorical, function: Callable[[str], Any]) -> ObjectArray:
    """Return what a function makes of each word, called once for each different one."""
    made = np.empty(len(words.categories), dtype=object)
    made[:] = [function(str(word)) for word in words.categories]
    return made[words.codes]


def _numbers(table: CsvTable, name: str) -> list[int | None]:
    """Return a column as Python numbers."""
    return [None if number is pd.NA else int(number) for number in table.integers(name)]


@register
class Rocprofv3CsvReader(TraceReader):
    """Runs of rocprofv3: dispatches and copies, with the counters of all passes."""

    name = "rocprofv3 CSV"

    def sniff(self, path: Path, head: bytes) -> bool:
        """Recognise the header of any of the files, those without GPU activity too."""
        return content_of(head) is not None

    def gather(self, files: Sequence[DataFile]) -> list[tuple[DataFile, ...]]:
        """Return the files of each run: those of one process, and of all passes over its counters."""
        return runs(files)

    def trace(self, files: Sequence[DataFile], options: Options) -> Trace:
        """Return the dispatches and copies of a run.

        Times are those of the kernel trace of the first pass that has one, else of the first counter collection that
        has times. `source` is the line of the file that the times are from; `gpu` is the number in Agent_Id; `stream`
        is the HIP stream, or the queue where no streams were recorded. `linked`: a HIP or HSA call has the row's
        correlation id.
        """
        run = Run(files, options)
        notes, findings = _remarks(run), _untimed(run)
        parts = [_copies(table) for table in run.of_pass(Content.COPIES)]
        if run.timed is not None:
            kernels, streamed = _kernels(run.timed, run, notes)
            values, odd = _counters(kernels, run)
            parts = [part if streamed else part.drop(columns="stream") for part in parts]
            parts.insert(0, pd.concat([kernels, values], axis=1))
            findings += odd
        table = _table(stacked(parts), run, notes)
        return Trace(table, findings=[*findings, *run.findings()], notes=notes)


def _remarks(run: Run) -> list[Remark]:
    """Return where the times are from, if that is not as usual."""
    notes: list[Remark] = []
    timed = run.timed
    if timed in run.of(Content.COUNTERS):
        text = (
            "no kernel trace: times were taken while counters were collected, one kernel at a time; of grids only the "
        )
        text += "total is recorded (grid_x, block_x)"
        notes.append(remark("no-kernel-trace", text, grids="total only"))
    repeated = [table for table in run.of(Content.KERNELS) if table is not timed and len(table)]
    if timed is not None and repeated:
        notes.append(
            remark(
                "kernel-traces-repeat",
                f"{len(repeated)} more kernel traces repeat the run: times are those of {timed.file.label}",
                traces=len(repeated),
                timed=timed.file.label,
            )
        )
    if len(run.passes) > 1:
        notes.append(
            remark(
                "kernel-passes-joined",
                f"{len(run.passes)} passes joined by kernel and the order of its dispatches",
                passes=len(run.passes),
            )
        )
    return notes


def _untimed(run: Run) -> list[Finding]:
    """Return the finding that there are counters and nothing that says how long the kernels ran."""
    tables = [table for table in run.of(Content.COUNTERS) if len(table)]
    if run.timed is not None or not tables:
        return []
    untimed = remark(
        "counters-without-times",
        "rows of counters without times: they are no activities; add the kernel trace (--kernel-trace) of the run",
        lacking="kernel trace",
        counted="rows",
    )
    return [Finding(untimed, "warning", sum(map(len, tables)), source=tables[0].file.label)]


def _kernels(table: CsvTable, run: Run, notes: list[Remark]) -> tuple[pd.DataFrame, bool]:
    """Return the dispatches, RangeIndex, and whether `stream` is the stream (else the queue)."""
    rows = _common(table, table.words("agent_id")).assign(
        kind=KERNEL,
        name=table.words("kernel_name"),
        queue=table.integers("queue_id"),
        lds_bytes=table.integers("lds_block_size", "group_segment_size"),
        scratch_bytes=table.integers("scratch_size", "private_segment_size"),
        vgpr=table.integers("vgpr_count"),
        accum_vgpr=table.integers("accum_vgpr_count"),
        sgpr=table.integers("sgpr_count"),
        dispatch_id=table.integers("dispatch_id"),
        items=_items(table),
        run=_process_codes(table),
        **_sizes(table),
    )
    rows = rows[rows["known"]]
    if table in run.of(Content.COUNTERS):
        rows = rows[~rows.duplicated(["run", "dispatch_id"])]
    rows = rows.reset_index(drop=True)
    stream, streamed = streams(rows["stream"], rows["queue"], notes)
    return rows.assign(stream=stream).drop(columns="queue"), streamed


def _sizes(table: CsvTable) -> dict[str, pd.Series]:
    """Return grid (in workgroups) and block; of a counter file the totals only."""
    sizes = {}
    for axis, suffix in [("x", "")] if "grid_size" in table.names else [(axis, f"_{axis}") for axis in "xyz"]:
        items, group = table.integers(f"grid_size{suffix}"), table.integers(f"workgroup_size{suffix}")
        sizes[f"grid_{axis}"], sizes[f"block_{axis}"] = workgroups(items, group), group.where(group > 0)
    return sizes


def _items(table: CsvTable) -> pd.Series:
    """Return the work-items of the whole grid."""
    if "grid_size" in table.names:
        return table.integers("grid_size")
    x, y, z = (table.integers(f"grid_size_{axis}") for axis in "xyz")
    return x * y * z


def _process_codes(table: CsvTable) -> IntArray:
    """Return a number for the process of each row, in the order in which the processes appear."""
    process = table.words("guid") if "guid" in table.names else table.integers("process_id")
    return np.asarray(pd.factorize(process, use_na_sentinel=False)[0], dtype=np.int64)


def _copies(table: CsvTable) -> pd.DataFrame:
    """Return the memory copies; their agent is the GPU they end on, else the one they start from."""
    words = table.words("direction")
    names = direction(pd.Series(words.categories, dtype="str"))
    to_gpu, from_gpu = (
        getattr(names.str, end)("D").to_numpy(dtype=bool)[words.codes] for end in ("endswith", "startswith")
    )
    origin, target = (np.asarray(table.words(f"{end}_agent_id"), dtype=object) for end in ("source", "destination"))
    agent = pd.Categorical(np.where(to_gpu, target, np.where(from_gpu, origin, "")))
    name = pd.Categorical(names.to_numpy(dtype=object)[words.codes])
    rows = _common(table, agent).assign(kind=MEMCPY, name=name)
    return rows[rows["known"]].reset_index(drop=True)


def _common(table: CsvTable, agent: pd.Categorical[Any]) -> pd.DataFrame:
    """Return what dispatches and copies have in common; rows that are not `known` have no time."""
    times = table.times()
    correlation = table.integers("correlation_id")
    return pd.DataFrame(
        {
            "guid": table.words("guid"),
            "agent": agent,
            "process": table.integers("process_id"),
            "stream": table.integers("stream_id"),
            "start_ns": times.start,
            "duration_ns": durations(times.start, times.end),
            "correlation": correlation.where(correlation > 0),
            "source": f"{table.file.label}:" + pd.Series(table.lines).astype("str"),
            "known": times.known,
        }
    )


def _counters(kernels: pd.DataFrame, run: Run) -> tuple[pd.DataFrame, list[Finding]]:
    """Return the counters of the dispatches, and what was odd about them."""
    findings, passes = [], []
    for table in run.of(Content.COUNTERS):
        numbers = table.integers("dispatch_id")
        key = dispatch_key(_process_codes(table), table.words("kernel_name"), numbers, _items(table))
        values = key.assign(counter=table.words("counter_name"), value=table.numbers("counter_value"))
        if numbers.isna().any():
            unnumbered = remark(
                "unmatched-pass", "counter values without the number of a dispatch: left out", why="no number"
            )
            findings.append(Finding(unnumbered, "warning", int(numbers.isna().sum()), source=table.file.label))
        passes.append(Pass(values[numbers.notna()].reset_index(drop=True), table.file.label))
    timed = dispatch_key(kernels["run"].to_numpy(), kernels["name"].array, kernels["dispatch_id"], kernels["items"])
    columns, odd = counters(timed, passes)
    return columns, [*findings, *odd]


def _table(rows: pd.DataFrame, run: Run, notes: list[Remark]) -> pd.DataFrame:
    """Return the dispatch table."""
    if rows.empty:
        notes.append(NO_ACTIVITY)
        return dispatch_table({"start_ns": [], "duration_ns": []})
    gpus, remarks = agents(run)
    calls = launches(run)
    words = rows["agent"].array
    device = each(words, gpus.device)
    if ((device == "") & (words != "")).any():
        notes.append(NO_DEVICE)
    if calls.empty:
        notes.append(UNLINKED)
    notes.extend(remarks)
    columns: dict[str, Any] = {
        str(name): rows[name] for name in rows if name in COLUMNS or str(name).startswith(COUNTER)
    }
    columns |= {
        "device": pd.Categorical(device),
        "gpu": pd.Series(each(words, agent_number)).astype("Int64"),
        "process": processes(rows, calls, run),
        "linked": linked(rows, calls),
    }
    return in_order(dispatch_table(columns))

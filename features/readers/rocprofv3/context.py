"""The CSV files of one rocprofv3 run together: whose times count, which devices the agents are, what launched what."""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from ...dispatches.table import Finding
from ..base import DataFile, Options
from ..files import head
from .common import Agent, Agents, agent_device
from .csv_table import CsvTable
from .runs import Content, content_of, in_order_of_number, place_of

_READ = (Content.KERNELS, Content.COUNTERS, Content.COPIES, Content.AGENTS, Content.API)
_LAUNCHING = ("HIP", "HSA")  # domains of the API calls that launch kernels and copies


class Run:
    """The tables of a run, by what they hold, in the order of the passes.

    Parameters
    ----------
    files : sequence of DataFile
        Files without GPU activity are passed over.
    options : Options

    Attributes
    ----------
    passes : list of str
        Folders of the passes, "" for files outside of any.
    timed : CsvTable or None
        The table whose rows are the dispatches: the kernel trace of the first pass that has one, else the first
        counters that have times.
    """

    def __init__(self, files: Sequence[DataFile], options: Options) -> None:
        replays = {file: place_of(file.path).replay for file in files}
        self.passes = in_order_of_number(set(replays.values()))
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


def agents(run: Run) -> tuple[Agents, list[str]]:
    """Return the GPUs that the lists of agents name, and remarks on what they are called."""
    gpus: list[Agent] = []
    remarks: dict[str, None] = {}
    for table in run.of(Content.AGENTS):
        numbers = ("node_id", "logical_node_id", "logical_node_type_id", "gfx_target_version", "cu_count")
        node, logical, of_type, version, cus = (_numbers(table, name) for name in numbers)
        kind, name, product = (list(table.words(word)) for word in ("agent_type", "name", "product_name"))
        for row in range(len(table)):
            if kind[row].casefold().endswith("gpu"):
                device, remark = agent_device(product[row], name[row], version[row], cus[row])
                gpus.append(Agent(node[row], logical[row], of_type[row], device))
                remarks |= {remark: None} if remark else {}
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


def linked(rows: pd.DataFrame, calls: pd.DataFrame) -> NDArray[np.bool_]:
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


def each(words: pd.Categorical, function: Callable[[str], Any]) -> NDArray[np.object_]:
    """Return what a function makes of each word, called once for each different one."""
    made = np.empty(len(words.categories), dtype=object)
    made[:] = [function(str(word)) for word in words.categories]
    return made[words.codes]


def _numbers(table: CsvTable, name: str) -> list[int | None]:
    """Return a column as Python numbers."""
    return [None if number is pd.NA else int(number) for number in table.integers(name)]

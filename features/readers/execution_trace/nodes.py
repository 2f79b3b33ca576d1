"""What an execution trace holds, whichever file it came from: the calls of operators, with arguments, without times."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field

import numpy as np
import pandas as pd

from ...dtypes import canonical_dtypes
from ...work.columns import BITS

_RECORD = "record_param_comms"
_LAUNCH = "nccl:"
_LIMIT = 2**63 - 1


@dataclass(frozen=True)
class ExecutionTrace:
    """The operators one process ran, in the order in which they ended, as PyTorch's observer recorded them.

    Attributes
    ----------
    schema : str
        Version of the layout, "1.0.1" or "1.1.0-chakra.0.0.4".
    pid : int or None
        Process.
    time : str
        When it was recorded, in the local time of that machine.
    nodes : DataFrame
        One row per node: `id`; `rf_id`, the number under which PyTorch counted the call (missing for threads, for the
        process and for kernels); `parent`, the `id` of the enclosing node (a root is its own parent; no promise is
        made that the links end); `name`; `inputs`, the JSON text of the dispatch table's `op_inputs`, "" where there
        are none; `collective`, `collective_bytes` and `group_size` as in the dispatch table; `kernel_backend` and
        `kernel_file` of a call of a compiled kernel ("triton"); `duration_us`, whole microseconds, and `on_cpu`, both
        missing except in Chakra files.
    source : str
        The file.
    notes : sequence of str
        What was left out.
    """

    schema: str
    pid: int | None
    time: str
    nodes: pd.DataFrame
    source: str
    notes: Sequence[str] = ()


@dataclass
class NodeColumns:
    """Columns of nodes, filled row by row."""

    id: list[int | None] = field(default_factory=list)
    rf_id: list[int | None] = field(default_factory=list)
    parent: list[int | None] = field(default_factory=list)
    name: list[str] = field(default_factory=list)
    inputs: list[str | None] = field(default_factory=list)
    collective: list[str] = field(default_factory=list)
    collective_bytes: list[int | None] = field(default_factory=list)
    elements: list[int | None] = field(default_factory=list)
    dtype: list[str] = field(default_factory=list)
    group_size: list[int | None] = field(default_factory=list)
    kernel_backend: list[str] = field(default_factory=list)
    kernel_file: list[str] = field(default_factory=list)
    duration_us: list[int | None] = field(default_factory=list)
    on_cpu: list[bool | None] = field(default_factory=list)


def trace_of(schema: str, pid: int | None, time: str, columns: NodeColumns, source: str) -> ExecutionTrace:
    """Return the execution trace of these nodes.

    Parameters
    ----------
    schema, pid, time, source
        As in `ExecutionTrace`.
    columns : NodeColumns
        `inputs` is None where they cannot be read, `elements` with `dtype` may stand for `collective_bytes`.
    """
    table = _typed(columns)
    unread = int(sum(inputs is None for inputs in columns.inputs))
    notes = [f"{source}: arguments that do not fit their types are left out (nodes: {unread})"] if unread else []
    return ExecutionTrace(schema, pid, time, _with_collectives(table), source, tuple(notes))


def int64(value: object) -> int | None:
    """Return an integer that a column can hold, None for anything else."""
    return value if isinstance(value, int) and not isinstance(value, bool) and abs(value) <= _LIMIT else None


def _typed(columns: NodeColumns) -> pd.DataFrame:
    numbers = ("id", "rf_id", "parent", "group_size", "duration_us")
    words = ("name", "inputs", "collective", "kernel_backend", "kernel_file")
    table = pd.DataFrame({name: pd.Series(getattr(columns, name), dtype="Int64") for name in numbers})
    for name in words:
        table[name] = pd.Series([word or "" for word in getattr(columns, name)], dtype="str")
    table["rf_id"] = table["rf_id"].mask((table["rf_id"] <= 0).fillna(False))
    table["collective_bytes"] = _bytes(columns)
    table["on_cpu"] = pd.Series(columns.on_cpu, dtype="boolean")
    return table


def _bytes(columns: NodeColumns) -> pd.Series:
    """Return the bytes of each message: as stated, else elements times the size of one, where both are known."""
    stated = pd.Series(columns.collective_bytes, dtype="Int64")
    bits = canonical_dtypes(pd.Series(columns.dtype, dtype="str")).map(BITS).astype("Float64")
    elements = pd.Series(columns.elements, dtype="Float64")
    counted = pd.Series(np.ceil((elements * bits / 8).to_numpy(dtype=float, na_value=np.nan)))
    return stated.fillna(counted.where(counted < 2.0**53).astype("Int64"))


def _with_collectives(table: pd.DataFrame) -> pd.DataFrame:
    """Return the nodes with the collective also on the calls that launch it.

    PyTorch describes a collective on `record_param_comms` and launches it in that node's child "nccl:...".
    """
    described = table[(table["name"] == _RECORD) & (table["collective"] != "") & table["id"].notna()]
    described = described.drop_duplicates("id").set_index("id")
    launches = table["name"].str.startswith(_LAUNCH) & (table["collective"] == "") & table["parent"].notna()
    rows = launches & table["parent"].isin(described.index)
    found = described.loc[table["parent"][rows].to_numpy(dtype=np.int64)]
    for name in ("collective", "collective_bytes", "group_size"):
        table.loc[rows, name] = found[name].array
    return table

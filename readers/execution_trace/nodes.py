"""What an execution trace holds, whichever file it came from: the calls of operators, with arguments, without times.

`op_inputs` gives the arguments of a call in the words of PyTorch's profiler.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass, field
from functools import lru_cache
from typing import Any

import msgspec
import numpy as np
import pandas as pd

from ...operators.dtypes import canonical_dtypes
from ...operators.work import BITS
from ...remarks import Remark, remark

_RECORD = "record_param_comms"
_LAUNCH = "nccl:"
_LIMIT = 2**63 - 1


@dataclass(frozen=True)
class ExecutionTrace:
    """The operators one process ran, in the order in which they ended, as PyTorch's observer recorded them.

    `schema` is the version of the layout ("1.0.1", "1.1.0-chakra.0.0.4"), `time` when it was recorded, in the local
    time of that machine, `notes` what was left out. `nodes` has one row per node: `id`; `rf_id`, the number under which
    PyTorch counted the call (missing for threads, for the process and for kernels); `parent`, the `id` of the enclosing
    node (a root is its own parent; no promise is made that the links end); `name`; `inputs`, the JSON text of the
    dispatch table's `op_inputs`, "" where there are none; `collective`, `collective_bytes` and `group_size` as in the
    dispatch table; `kernel_backend` and `kernel_file` of a call of a compiled kernel ("triton"); `duration_us`, whole
    microseconds, and `on_cpu`, both missing except in Chakra files; `storages`, what tells apart the memory that the
    tensors among the arguments lie in, and `waits`, the `id` of nodes whose data it needs (Chakra): tuples of integers.
    """

    schema: str
    pid: int | None
    time: str
    nodes: pd.DataFrame
    source: str
    notes: Sequence[Remark] = ()


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
    storages: list[tuple[int, ...]] = field(default_factory=list)
    waits: list[tuple[int, ...]] = field(default_factory=list)


def trace_of(schema: str, pid: int | None, time: str, columns: NodeColumns, source: str) -> ExecutionTrace:
    """Return the execution trace of these nodes.

    `inputs` is None where they cannot be read; `elements` with `dtype` may stand for `collective_bytes`.
    """
    table = _typed(columns)
    unread = int(sum(inputs is None for inputs in columns.inputs))
    notes = (
        [
            remark(
                "arguments-left-out",
                f"{source}: arguments that do not fit their types are left out (nodes: {unread})",
                trace=source,
                nodes=unread,
            )
        ]
        if unread
        else []
    )
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
    table["storages"] = pd.Series(columns.storages, dtype=object)
    table["waits"] = pd.Series(columns.waits, dtype=object)
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


# Arguments: the observer names types by TorchScript ("Tensor(float)", "GenericList[Int,Int]", "None") and gives every
# argument a value: a tensor's is its identity `[tensor_id, storage_id, offset, numel, itemsize, device]`, None is
# "<None>". The profiler of the same PyTorch says the type of a tensor's elements, "Scalar", "ScalarList",
# "TensorList" or "", has sizes for tensors only, and values, as text, for numbers and lists of numbers only. The
# latter is what the dispatch table holds, so that one reader of operator calls serves both. The observer rounds
# floats to six decimals: an epsilon of 1e-12 is recorded as 0.

_TENSOR = re.compile(r"Tensor\((.*)\)")
_LIST = re.compile(r"GenericList\[(.*)\]", re.DOTALL)
_NUMBERS = frozenset({"Int", "Double", "Bool", "SymInt", "SymFloat", "SymBool", "Scalar"})
_UNDEFINED = "nullptr (uninitialized)"
_NONE = "<None>"


def op_inputs(
    values: Sequence[Any], shapes: Sequence[Any], types: Sequence[Any], strides: Sequence[Any] = ()
) -> str | None:
    """Return the JSON text of the dispatch table's `op_inputs`: lists "dims", "types", "strides" and "values".

    One entry per argument, as the observer writes them; strides since schema 1.1.1, before they are empty, and they may
    be shorter. "" for a call without arguments, None where the lists do not fit each other.
    """
    if not len(values) == len(shapes) == len(types):
        return None
    if not types:
        return ""
    kinds = [_kind(kind) if isinstance(kind, str) else "" for kind in types]
    padded = [*strides, *[[]] * (len(kinds) - len(strides))][: len(kinds)] if strides else []
    call = {
        "dims": [_sizes(kind, shape) for kind, shape in zip(kinds, shapes, strict=True)],
        "types": kinds,
        "strides": [_sizes(kind, stride) for kind, stride in zip(kinds, padded, strict=False)],
        "values": [_value(kind, value) for kind, value in zip(kinds, values, strict=True)],
    }
    return msgspec.json.encode(call).decode()


def storages(values: Sequence[Any], types: Sequence[Any]) -> tuple[int, ...]:
    """Return what tells apart the memory of the tensors among the arguments, lists of tensors included."""
    tensors = [value for value, kind in zip(values, types, strict=False) if isinstance(kind, str) and "Tensor(" in kind]
    members: list[Any] = []
    for value in tensors:
        nested = isinstance(value, list) and any(isinstance(part, list) for part in value)
        members += _members(value) if nested else [value]
    known = (one[1] for one in members if isinstance(one, list) and len(one) > 1)
    return tuple(dict.fromkeys(one for one in known if int64(one) is not None))


@lru_cache(maxsize=4096)
def _kind(written: str) -> str:
    """Return the profiler's word for a type of the observer."""
    if tensor := _TENSOR.fullmatch(written):
        return "" if tensor[1] == _UNDEFINED else tensor[1]
    if "Tensor(" in written:
        return "TensorList"
    if members := _LIST.fullmatch(written):
        return "ScalarList" if not members[1] or set(members[1].split(",")) <= _NUMBERS else ""
    return "Scalar" if written in _NUMBERS else ""


def _sizes(kind: str, shape: Any) -> list[Any]:
    """Return the sizes (or strides) of a tensor, those of the members of a list of tensors, else nothing."""
    if kind in ("", "Scalar", "ScalarList") or not isinstance(shape, list):
        return []
    return _members(shape) if kind == "TensorList" else shape


def _members(shape: list[Any]) -> list[Any]:
    """Return one list per tensor: lists of lists of tensors are laid end to end."""
    while any(isinstance(size, list) for member in shape if isinstance(member, list) for size in member):
        shape = [size for member in shape if isinstance(member, list) for size in member]
    return shape


def _value(kind: str, value: Any) -> str:
    if kind == "ScalarList" and isinstance(value, list):
        return f"[{', '.join(map(_scalar, value))}]"
    return _scalar(value) if kind == "Scalar" else ""


def _scalar(value: Any) -> str:
    """Return a number as the profiler writes it; only words that stand for numbers ("inf") are text."""
    return str(value) if value != _NONE and isinstance(value, bool | int | float | str) else ""

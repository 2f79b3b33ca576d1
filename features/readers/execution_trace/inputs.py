"""Arguments of an operator call in an execution trace, in the words of PyTorch's profiler.

The observer names types by TorchScript ("Tensor(float)", "GenericList[Int,Int]", "None") and gives every argument a
value: a tensor's is its identity `[tensor_id, storage_id, offset, numel, itemsize, device]`, None is "<None>". The
profiler of the same PyTorch says the type of a tensor's elements, "Scalar", "ScalarList", "TensorList" or "", has sizes
for tensors only, and values, as text, for numbers and lists of numbers only. The latter is what the dispatch table
holds, so that one reader of operator calls serves both. The observer rounds floats to six decimals: an epsilon of 1e-12
is recorded as 0.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from functools import lru_cache
from typing import Any

import msgspec

_TENSOR = re.compile(r"Tensor\((.*)\)")
_LIST = re.compile(r"GenericList\[(.*)\]", re.DOTALL)
_NUMBERS = frozenset({"Int", "Double", "Bool", "SymInt", "SymFloat", "SymBool", "Scalar"})
_UNDEFINED = "nullptr (uninitialized)"
_NONE = "<None>"


def op_inputs(
    values: Sequence[Any], shapes: Sequence[Any], types: Sequence[Any], strides: Sequence[Any] = ()
) -> str | None:
    """Return the JSON text of the dispatch table's `op_inputs`.

    Parameters
    ----------
    values, shapes, types : sequence
        One entry per argument, as the observer writes them.
    strides : sequence, optional
        As written since schema 1.1.1; may be shorter, and is empty before.

    Returns
    -------
    str or None
        ``{"dims": [...], "types": [...], "strides": [...], "values": [...]}``; "" for a call without arguments; None
        where the lists do not fit each other.
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

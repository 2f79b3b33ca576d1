"""A call of a framework's operator as it was recorded: tensors with sizes, formats and strides, and other arguments.

PyTorch's profiler (1.13 to 2.9 seen) writes four parallel lists per call: sizes, types, strides
and, since 2.1, the values of arguments that are no tensors, as text (``"[1, 1]"``, ``"False"``,
``"0.125"``). An optional argument that was left out has the type ``""``; a list of tensors has the
type ``TensorList`` and a list of sizes, without the formats of its members; operators' overloads
share a name, so only the arguments tell them apart.

A module of `kinds` says in its ``ATEN`` which calls are its operators': argument positions are
those of the schemas (PyTorch 2.13, ``native_functions.yaml``), names are without the mark of the
in-place form.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import lru_cache
from math import prod
from typing import Any

import msgspec

from ..errors import DataError
from .work import BITS, CATALOGUE, canonical_dtype

Described = dict[str, Any]
"""What a call computes: `op`, `variant`, `layout`..., dimensions, `dtype_a`, `dtype_b`, `dtype_out`."""

#: `c10::ScalarType` as an integer, as ``Concrete Inputs`` writes an argument ``dtype`` (PyTorch 2.13, c10/core).
SCALAR_TYPES: dict[str, str] = CATALOGUE["scalar_types"]
_NO_TENSOR = frozenset({"", "Scalar", "ScalarList", "TensorList"})
_LARGEST = 2**62


class NotToldError(Exception):
    """The arguments of the call do not tell its operator or size."""


NO_FIT = (NotToldError, IndexError, ZeroDivisionError, ValueError)
"""Arguments of another operator of that name, or spoiled ones: too few dimensions, sizes of 0, shapes that differ."""


@dataclass(frozen=True)
class Tensor:
    """A tensor argument: its sizes (() for one element), number format ("" where not recorded) and strides in elements.

    `strides` is () where they are not recorded; `packed` counts the elements in one stored unit: 2
    for ``float4_e2m1fn_x2``.
    """

    dims: tuple[int, ...]
    dtype: str = ""
    strides: tuple[int, ...] = ()
    packed: int = 1

    @property
    def numel(self) -> int:
        """Number of elements, repeats included."""
        return prod(self.dims)

    @property
    def elements(self) -> int:
        """Number of different elements in memory: an expanded dimension (stride 0) holds one."""
        if len(self.strides) != len(self.dims):
            return self.numel
        return prod(
            size
            for size, stride in zip(self.dims, self.strides, strict=True)
            if stride != 0 or size == 0
        )

    def innermost(self, axes: Sequence[int]) -> bool:
        """Return whether these axes vary fastest in memory (assumed where strides are not recorded)."""
        if len(self.strides) == len(self.dims):
            strides = self.strides
        else:
            strides = row_major(self.dims)
        inner = [strides[axis] for axis in axes if self.dims[axis] > 1]
        outer = [
            strides[axis]
            for axis in range(len(self.dims))
            if axis not in axes and self.dims[axis] > 1
        ]
        return not inner or not outer or max(inner) < min(outer)


@dataclass(frozen=True)
class Call:
    """The arguments of one call, as recorded; shorter lists stand for arguments that are not recorded."""

    name: str
    dims: list[Any]
    types: list[Any]
    strides: list[Any]
    values: list[Any]

    def __len__(self) -> int:
        return len(self.dims)

    @property
    def kind(self) -> str:
        """Name without its namespace and the mark of the in-place form: "add" for "aten::add_"."""
        return self.name.rpartition("::")[2].rstrip("_").lstrip("_")

    def has(self, position: int) -> bool:
        """Return whether this argument is a tensor."""
        word = _at(self.types, position)
        return position < len(self) and isinstance(word, str) and word not in _NO_TENSOR

    def tensor(self, position: int) -> Tensor:
        """Return a tensor argument.

        Raises NotToldError where it is no tensor, or its elements have no size here (complex
        numbers).
        """
        if not self.has(position):
            raise NotToldError
        tensor = _tensor(
            self.dims[position], _at(self.types, position), _at(self.strides, position)
        )
        require(tensor.dtype != "")
        return tensor

    def tensors(self, position: int) -> list[Tensor]:
        """Return the members of a list of tensors; their format is "" where it is not recorded."""
        dims, types, strides = (
            _at(side, position) for side in (self.dims, self.types, self.strides)
        )
        if not isinstance(dims, list) or not (types == "TensorList" or isinstance(types, list)):
            raise NotToldError
        if isinstance(types, list):
            words = types
        else:
            words = [""] * len(dims)
        return [_tensor(size, _at(words, i), _at(strides, i)) for i, size in enumerate(dims)]

    def word(self, position: int) -> str:
        """Return an argument that is no tensor as text, "" for None; a NotToldError if values are not recorded."""
        value = _at(self.values, position)
        if not isinstance(value, str) or self.has(position):
            raise NotToldError
        return value

    def text(self, position: int) -> str:
        """Return an argument that is no tensor as text; "" where it is None, absent or not recorded."""
        value = _at(self.values, position)
        if isinstance(value, str):
            return value
        return ""

    def flag(self, position: int) -> bool:
        """Return a truth value."""
        word = self.word(position)
        if word not in ("True", "False"):
            raise NotToldError
        return word == "True"

    def integers(self, position: int) -> list[int]:
        """Return a list of integers, written ``[1, 1]`` or ``1``."""
        parsed = _literal(self.word(position))
        if not isinstance(parsed, list):
            listed = [parsed]
        else:
            listed = parsed
        if not all(isinstance(value, int) and not isinstance(value, bool) for value in listed):
            raise NotToldError
        return listed

    def integer(self, position: int) -> int:
        """Return one integer."""
        listed = self.integers(position)
        if len(listed) != 1:
            raise NotToldError
        return listed[0]

    def flags(self, position: int) -> list[bool]:
        """Return a list of truth values, written ``[True, False]``."""
        parsed = _literal(self.word(position).replace("True", "true").replace("False", "false"))
        if not isinstance(parsed, list) or not all(isinstance(value, bool) for value in parsed):
            raise NotToldError
        return parsed

    def dtype(self, position: int, default: str) -> str:
        """Return the format an argument ``dtype`` asks for, the default where it is None, absent or not recorded."""
        word = self.text(position)
        if word.isdecimal() and len(word) < 4:
            return SCALAR_TYPES.get(str(int(word)), default)
        return default


CallReader = Callable[[Call], Described]
"""What makes a call's arguments an operator's dimensions; an error of `NO_FIT` where they tell none."""


def row_major(dims: Sequence[int]) -> tuple[int, ...]:
    """Return the strides of a contiguous tensor."""
    return tuple(prod(dims[axis + 1 :]) for axis in range(len(dims)))


def broadcast(*shapes: Sequence[int]) -> tuple[int, ...]:
    """Return the shape that these shapes are broadcast to; a NotToldError if they do not fit each other."""
    rank = max(map(len, shapes), default=0)
    padded = [(1,) * (rank - len(shape)) + tuple(shape) for shape in shapes]
    sizes = []
    for along in zip(*padded, strict=True):
        different = set(along) - {1}
        if len(different) > 1:
            raise NotToldError
        sizes.append(different.pop() if different else 1)
    return tuple(sizes)


def promote(*dtypes: str) -> str:
    """Return the format of a result of operands with dimensions: floating before integer before bool, then the wider.

    PyTorch's type promotion; fp16 with bf16 gives fp32. Unknown formats make the result unknown.
    """
    if "" in dtypes:
        return ""
    kinds = [
        0 if dtype == "bool" else 2 if dtype.startswith(("fp", "bf")) else 1 for dtype in dtypes
    ]
    ranked = [(kind, BITS[dtype], dtype) for kind, dtype in zip(kinds, dtypes, strict=True)]
    if {"fp16", "bf16"} <= set(dtypes) and max(ranked)[1] == 16:
        return "fp32"
    return max(ranked)[2]


def require(condition: bool) -> None:
    """Raise NotToldError where the arguments are not those of the operator."""
    if not condition:
        raise NotToldError


def readers_of(kind: str, readers: Mapping[str, CallReader]) -> dict[str, CallReader]:
    """Return the reader of each call of a kind of operators, as the catalogue groups their names."""
    found = {}
    for group, read in readers.items():
        found |= dict.fromkeys(CATALOGUE[kind][group], read)
    return found


def _at(values: Any, position: int) -> Any:
    if isinstance(values, list) and position < len(values):
        return values[position]
    return None


def _tensor(dims: Any, word: Any, strides: Any) -> Tensor:
    if not _sizes(dims) or not isinstance(word, str):
        raise NotToldError
    strides_given = ()
    if _sizes(strides) and len(strides) == len(dims):
        strides_given = tuple(strides)
    return Tensor(tuple(dims), _format(word), strides_given, 2 if word.endswith("_x2") else 1)


def _sizes(values: Any) -> bool:
    return isinstance(values, list) and all(
        type(value) is int and 0 <= value < _LARGEST for value in values
    )


@lru_cache(maxsize=256)
def _format(word: str) -> str:
    """Return the canonical format, looked up once per spelling."""
    try:
        return canonical_dtype(word)
    except DataError:
        return ""


def _literal(word: str) -> Any:
    try:
        return msgspec.json.decode(word)
    except (msgspec.DecodeError, RecursionError):
        raise NotToldError from None

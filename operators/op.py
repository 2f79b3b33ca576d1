"""The record of one operator: dimensions, work, class of kernels, features, how it is measured.

It is measured from a row of the measurement table by a call of PyTorch, which the caller imports. A
row has the dimensions of its operator and the variants that readers of profiles give it, so that
measured and profiled rows are the same problems.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, fields
from functools import cached_property
from typing import Any, Literal, Protocol

import numpy as np
import pandas as pd

from ..errors import DataError
from .work import BITS, as_arrow, as_numbers, coded, texts, with_columns, with_default

Row = Mapping[str, Any]


class Operands(Protocol):
    """PyTorch (`torch`), the device (`backend`), and what makes random tensors for one row there."""

    torch: Any
    backend: Any

    def dtype(self, name: str) -> Any:
        """Return PyTorch's type for a number format."""
        ...

    def tensor(self, dtype: str, *size: int) -> Any:
        """Return a tensor: standard normal numbers, or integers from 0 to 99."""
        ...

    def integers(self, limit: int, *size: int) -> Any:
        """Return int64 numbers from 0 to ``limit - 1``."""
        ...


Run = Callable[[], Any]  # the call that is timed
Builder = Callable[[Operands, Row], Run]


@dataclass(frozen=True)
class Measured:
    """How an operator is measured.

    `build` makes the call of a row; a DataError where its variant or number format cannot be
    measured, or dimensions contradict each other. `family` is the name by which its kernels are
    chosen; "" for the operator's. `formats` are those the call has where a list of rows does
    not state them, given ``dtype_a``.
    """

    build: Builder
    family: str = ""
    formats: Callable[[str], Mapping[str, str]] = lambda dtype: {}


def word(row: Mapping[str, Any], name: str) -> str:
    """Return a text cell, "" where it is missing."""
    value = row.get(name, "")
    if value is None or (isinstance(value, float) and math.isnan(value)):
        return ""
    return str(value)


def sizes(row: Mapping[str, Any], *names: str, default: int | None = None) -> list[int]:
    """Return dimensions as integers.

    Raises DataError: one is missing and there is no default, or is not a whole number.
    """
    dimensions = []
    for name in names:
        value = row.get(name, default)
        if value is None or (isinstance(value, float) and math.isnan(value)):
            value = default
        if value is None or isinstance(value, str) or float(value) != int(value):
            raise DataError(
                f"{word(row, 'op')} needs {name} as a whole number, got {row.get(name, 'nothing')}"
            )
        dimensions.append(int(value))
    return dimensions


def unknown(row: Mapping[str, Any], name: str, possible: str) -> DataError:
    """Return the error for a word that no call of the row's operator has."""
    said = word(row, name) or "none"
    return DataError(
        f"{word(row, 'op')} with {name} {said} cannot be measured: known here is {possible}"
    )


def matrix(make: Operands, row: Row, written: str | None = None) -> Any:
    """Return a tensor of rows x cols of the row's format."""
    return make.tensor(only_format(row, written), *sizes(row, "rows", "cols"))


def only_format(row: Row, written: str | None = None) -> str:
    """Return ``dtype_a``; a DataError for formats the call does not compute with: it writes `written`, or the same."""
    dtype = word(row, "dtype_a")
    for name, expected in {"dtype_b": dtype, "dtype_out": written or dtype}.items():
        if word(row, name) not in ("", expected):
            raise unknown(row, name, expected)
    return dtype


def of_variant(row: Row, possible: Mapping[str, Any]) -> Any:
    """Return what belongs to the row's variant; a DataError for another."""
    variant = word(row, "variant")
    if variant not in possible:
        raise unknown(row, "variant", ", ".join(name or "none" for name in possible))
    return possible[variant]


Unit = Literal["matrix", "vector"]
Formula = Callable[[pd.DataFrame], np.ndarray]
RUN = "run"  # column that numbers the repeats of a problem where each is to be a separate row
CACHE = "cache"
COLD = "cold"
"""Column that says whether the cache held other data before each call (`COLD`); a call from memory
is another problem than one from the cache. Whatever else stands there, and nothing, means a warm
cache."""
COMMON = ("op", "family", "variant", "layout", "dtype_a", "dtype_b", "dtype_out", CACHE, RUN)
"""Columns that tell problems apart whatever the operator."""
_AS_INT8 = ["int4", "uint4", "uint8"]


@dataclass(frozen=True)
class Work:
    """What each row has to do, as arrays of shape (n_rows,).

    Operations and compulsory memory traffic (float), the row as matrix products (see
    `Op.gemm_view`), the precision the arithmetic runs at, and the unit that does it (str).
    """

    flops: np.ndarray
    bytes: np.ndarray
    batch: np.ndarray
    m: np.ndarray
    n: np.ndarray
    k: np.ndarray
    dtype: np.ndarray
    unit: np.ndarray

    def __len__(self) -> int:
        return len(self.flops)

    def kinds(self) -> tuple[np.ndarray, list[tuple[str, str]]]:
        """Return the kind of arithmetic of each row, as positions in the list of (dtype, unit) that occur."""
        return self._kinds

    @cached_property
    def _kinds(self) -> tuple[np.ndarray, list[tuple[str, str]]]:
        dtypes, dtype_names = pd.factorize(self.dtype)
        units, unit_names = pd.factorize(self.unit)
        codes, pairs = pd.factorize(dtypes * max(len(unit_names), 1) + units)
        return codes, [
            (str(dtype_names[p // len(unit_names)]), str(unit_names[p % len(unit_names)]))
            for p in pairs
        ]

    def take(self, rows: np.ndarray) -> Work:
        """Return the work of some rows (positions or a mask); of all of them, in order, itself."""
        if _are_all(rows, len(self)):
            return self
        return Work(**{side.name: getattr(self, side.name)[rows] for side in fields(self)})


def _are_all(rows: np.ndarray, count: int) -> bool:
    """Say whether positions, or a mask, are those of so many rows in order."""
    if len(rows) != count:
        return False
    if rows.dtype == bool:
        return bool(rows.all())
    return bool((rows == np.arange(count)).all())


class Dimensions(Protocol):
    """The rows that a feature is computed of, and the device they are to run on (`features.context.Context`)."""

    @property
    def target(self) -> Any:
        """The device, under `cus` the compute units that each row has."""
        ...

    def dim(self, name: str, minimum: float = 1.0) -> np.ndarray:
        """Return a dimension as numbers of at least `minimum`."""
        ...


@dataclass(frozen=True)
class OwnFeature:
    """A numerical feature that rows of this operator alone have; fields are those of `features.catalogue.Feature`."""

    name: str
    unit: str
    role: Literal["additive", "shape"]
    formula: str
    compute: Callable[[Dimensions], np.ndarray]


def log_dims(*names: str) -> tuple[OwnFeature, ...]:
    """Return dimensions as features, by their binary logarithm."""
    return tuple(log_feature(f"log2.{name}", f"log2({name})", name) for name in names)


def log_feature(name: str, formula: str, dimension: str) -> OwnFeature:
    """Return the binary logarithm of a dimension as a feature."""
    return OwnFeature(name, "log2", "shape", formula, lambda rows: np.log2(rows.dim(dimension)))


@dataclass(frozen=True)
class Dim:
    """One dimension of an operator."""

    name: str  # its column
    meaning: str  # what it is, for the page of the columns
    # a value that one could have on an MI300X; without a default there must be one
    example: float | str | None = None
    # its value where it is absent (those of PyTorch's functions: stride 1, padding 0, one group, no
    # mask); ``"=column"`` copies another column, NaN stays missing. Without a default it must be
    # there.
    default: float | str | None = None
    kind: Literal["size", "flag", "word"] = (
        "size"  # a whole number, yes or no (1.0 or 0.0), or text
    )
    least: int = 1  # smallest size


@dataclass(frozen=True)
class Op:
    """One operator."""

    name: str  # as in column ``op``
    unit: Unit  # arithmetic unit whose peak bounds it
    dimensions: tuple[Dim, ...]  # its dimensions, in the order users know them
    # columns of the default group, whose rows are never split between training and validation
    group: tuple[str, ...]
    label: str  # format of the group's name over the columns of `group`
    _flops: Formula = field(repr=False)
    _bytes: Formula = field(repr=False)
    _view: Callable[[pd.DataFrame], pd.DataFrame] = field(repr=False)
    needs_dtype: bool = True  # whether a row must state the number format of its input
    _least_flops: Formula | None = field(default=None, repr=False)
    _least_bytes: Formula | None = field(default=None, repr=False)
    _sent_bytes: Formula | None = field(default=None, repr=False)
    # its other names in files and on the command line: PyTorch's
    # (``aten/src/ATen/native/native_functions.yaml`` of PyTorch 2.9, and what
    # ``torch.nn.functional`` calls them), those of data sets and libraries
    aliases: tuple[str, ...] = ()
    kernels: str = ""  # class of its kernels (`traces.classes`), "" for the operator's name
    # whether its kernels go over each row several times, or keep sums of it: they reach less of the
    # bandwidth
    row_wise: bool = False
    # standard deviation of the logarithm of a kernel's time about that of its work, where nothing
    # was fitted
    spread: float = 0.5
    # features of its dimensions, in models of this operator alone
    features: tuple[OwnFeature, ...] = ()
    # columns that its rows may measure beside the time, each a metric to predict
    metrics: tuple[str, ...] = ()
    # how it is measured; None where it cannot be
    measured: Measured | None = field(default=None, repr=False)

    @cached_property
    def dims(self) -> tuple[str, ...]:
        """Names of its dimensions."""
        return tuple(dim.name for dim in self.dimensions)

    @cached_property
    def defaults(self) -> dict[str, float | str]:
        """Dimensions that may be absent, with the value they then have (see `Dim`); every other must be there."""
        return {dim.name: dim.default for dim in self.dimensions if dim.default is not None}

    @property
    def op_class(self) -> str:
        """Class of its kernels (`traces.classes`)."""
        return self.kernels or self.name

    @property
    def identity(self) -> tuple[str, ...]:
        """Columns that make two rows the same problem."""
        return tuple(dict.fromkeys((*COMMON, *self.dims)))

    def flops(self, frame: pd.DataFrame) -> np.ndarray:
        """Return the FLOPs of each row of this operator, of shape (n_rows,); a DataError if a dimension is missing."""
        return self._flops(self.complete(frame))

    def bytes(self, frame: pd.DataFrame) -> np.ndarray:
        """Return the bytes each row must move between memory and chip, as `flops` does."""
        return self._bytes(self.complete(frame))

    def amounts(self, frame: pd.DataFrame) -> tuple[np.ndarray, np.ndarray]:
        """Return `flops` and `bytes` of each row."""
        whole = self.complete(frame)
        return self._flops(whole), self._bytes(whole)

    def gemm_view(self, frame: pd.DataFrame) -> pd.DataFrame:
        """Return each row as ``batch`` products of m x k and k x n, the common shape of all operators; RangeIndex."""
        return self._view(self.complete(frame)).reset_index(drop=True)

    def complete(self, frame: pd.DataFrame) -> pd.DataFrame:
        """Return the rows with absent optional columns at their defaults and every precision stated.

        Absent precisions: ``dtype_b`` is ``dtype_a``; ``dtype_out`` is ``dtype_a``, but bf16 for
        matrix operators on 8 bits and fewer (as AITER and hipBLASLt write by default).
        """
        return with_columns(frame, self.completed(frame))

    @property
    def asked(self) -> tuple[str, ...]:
        """Columns that `completed` looks at."""
        others = [
            value[1:]
            for value in self.defaults.values()
            if isinstance(value, str) and value.startswith("=")
        ]
        return (*self.defaults, *others, "dtype_a", "dtype_b", "dtype_out", "source")

    def completed(self, frame: pd.DataFrame) -> dict[str, np.ndarray]:
        """Return the columns that `complete` fills: of a table that is complete, none."""
        lacking = {
            name: default
            for name, default in self.defaults.items()
            if not _is_stated(frame, name, default)
        }
        columns = {name: _filled(frame, name, default) for name, default in lacking.items()}
        widen = self.unit == "matrix"
        if not _is_stated(frame, "dtype_b", "dtype_a"):
            columns["dtype_b"] = _of_both(frame, "dtype_b", lambda a, b: b or a)
        if not _is_stated(frame, "dtype_out", "dtype_a"):
            columns["dtype_out"] = _of_both(
                frame,
                "dtype_out",
                lambda a, out: out or ("bf16" if widen and BITS.get(a, 32) <= 8 else a),
            )
        return columns

    def least(self, frame: pd.DataFrame) -> tuple[np.ndarray, np.ndarray]:
        """Return the FLOPs and bytes that no kernel gets below, of complete rows.

        They are less than `flops` and `bytes` where those are an estimate: of convolutions, which
        Winograd's algorithm shortens, of experts and rows that many tokens may share.
        """
        return (self._least_flops or self._flops)(frame), (self._least_bytes or self._bytes)(frame)

    def sent(self, frame: pd.DataFrame) -> tuple[np.ndarray, np.ndarray] | None:
        """Return of complete rows the bytes that one GPU's links carry one way, and its peers; None for none."""
        if self._sent_bytes is None:
            return None
        return self._sent_bytes(frame), np.maximum(as_numbers(frame, "ranks") - 1, 1.0)

    def work(self, frame: pd.DataFrame) -> Work:
        """Return the work of these rows (see `work_of`)."""
        whole = self.complete(frame)
        sides = {
            str(side): values.to_numpy(dtype=float) for side, values in self._view(whole).items()
        }
        unit = np.full(len(frame), self.unit, dtype=object)
        return Work(
            self._flops(whole),
            self._bytes(whole),
            **sides,
            dtype=self.compute_dtype(whole),
            unit=unit,
        )

    def compute_dtype(self, frame: pd.DataFrame) -> np.ndarray:
        """Return the precision the arithmetic runs at.

        Matrix operators: the wider of the two operands (int4 or fp4 weights under bf16 activations
        are widened and multiplied as bf16; fp4 with fp8 runs at the fp8 rate: AMD CDNA 4 white
        paper, 2025); two operands of 4-bit or unsigned integers are multiplied as int8. Vector
        operators: fp32, or fp64 for fp64 (PyTorch's ``at::opmath_type``: half precisions are
        computed in float).
        """
        if self.unit == "vector":
            return _of_both(frame, "dtype_b", lambda a, b: "fp64" if a == "fp64" else "fp32")
        return _of_both(frame, "dtype_b", _multiplied)


def _multiplied(a: str, b: str) -> str:
    wider = a
    if BITS.get(b, 0) > BITS.get(a, 0):
        wider = b
    if wider in _AS_INT8:
        return "int8"
    return wider


def _of_both(frame: pd.DataFrame, name: str, make: Callable[[str, str], str]) -> np.ndarray:
    """Return what is made of ``dtype_a`` and another precision of each row; asked once for those that are equal."""
    (codes, words) = coded(frame, "dtype_a")
    (others, second) = coded(frame, name)
    made = []
    for a in words:
        made.append([make(str(a), str(b)) for b in second])
    return np.array(made, dtype=object)[codes, others]


def _is_word(default: float | str) -> bool:
    return isinstance(default, str) and not default.startswith("=")


def _is_stated(frame: pd.DataFrame, name: str, default: float | str) -> bool:
    """Say whether a column has the type of its default and no row lacks a value."""
    if name not in frame:
        return False
    if not _is_word(default):
        return frame[name].dtype == np.float64 and not np.isnan(frame[name].to_numpy()).any()
    column = frame[name]
    if isinstance(column.dtype, pd.CategoricalDtype):
        if (column.cat.codes < 0).any():
            return False
        return default == "" or "" not in column.cat.categories
    if column.dtype != "str" or as_arrow(column).null_count:
        return False
    return default == "" or "" not in coded(frame, name)[1]


def _filled(frame: pd.DataFrame, name: str, default: float | str) -> np.ndarray:
    """Return a column with its default where it is absent or empty; ``"=other"`` stands for another column."""
    if _is_word(default):
        values = texts(frame, name)
        return np.where(values == "", default, values).astype(object)
    return with_default(
        frame, name, as_numbers(frame, default[1:]) if isinstance(default, str) else default
    )

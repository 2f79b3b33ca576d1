"""The operators: their dimensions, what makes two rows the same problem, their default group and their work."""

from __future__ import annotations

import difflib
import re
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field, fields
from functools import cached_property
from typing import Literal

import numpy as np
import pandas as pd

from ..errors import DataError
from . import attention, elementwise, gemm, moe
from . import convolution as conv
from . import elementwise as vector
from . import work as launched
from .work import BITS, as_numbers, coded, texts, with_default

Unit = Literal["matrix", "vector"]
Formula = Callable[[pd.DataFrame], np.ndarray]

RUN = "run"
"""Column that numbers the repeats of a problem where each is to be a row of its own."""
CACHE, COLD = "cache", "cold"
"""Column that says whether the cache held other data before each call (`COLD`); a call from memory is another problem
than one from the cache. Whatever else stands there, and nothing, means a warm cache."""
COMMON = ("op", "family", "variant", "layout", "dtype_a", "dtype_b", "dtype_out", CACHE, RUN)
"""Columns that tell problems apart whatever the operator."""
_AS_INT8 = ["int4", "uint4", "uint8"]


@dataclass(frozen=True)
class Work:
    """What each row has to do, as arrays of shape (n_rows,).

    Operations and compulsory memory traffic (float), the row as matrix products (see `Op.gemm_view`), the precision the
    arithmetic runs at, and the unit that does it (str).
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
        return codes, [(str(dtype_names[p // len(unit_names)]), str(unit_names[p % len(unit_names)])) for p in pairs]

    def take(self, rows: np.ndarray) -> Work:
        """Return the work of some rows (positions or a mask)."""
        return Work(**{side.name: getattr(self, side.name)[rows] for side in fields(self)})


@dataclass(frozen=True)
class Op:
    """One operator.

    Attributes
    ----------
    name : str
        As in column ``op``.
    unit : {"matrix", "vector"}
        Arithmetic unit whose peak bounds it.
    dims : tuple of str
        Dimensions, in the order users know them.
    group : tuple of str
        Columns of the default group: what must not be split between training and validation.
    label : str
        Format of the group's name over the columns of `group`.
    defaults : mapping of str to float or str
        Dimensions that may be absent, with the value they then have (those of PyTorch's functions: stride 1, padding
        0, one group, no mask); ``"=column"`` copies another column, NaN stays missing. Every other dimension must be
        there.
    needs_dtype : bool
        Whether a row must state the number format of its input.
    """

    name: str
    unit: Unit
    dims: tuple[str, ...]
    group: tuple[str, ...]
    label: str
    _flops: Formula = field(repr=False)
    _bytes: Formula = field(repr=False)
    _view: Callable[[pd.DataFrame], pd.DataFrame] = field(repr=False)
    defaults: Mapping[str, float | str] = field(default_factory=dict)
    needs_dtype: bool = True
    _least_flops: Formula | None = field(default=None, repr=False)
    _least_bytes: Formula | None = field(default=None, repr=False)
    _sent_bytes: Formula | None = field(default=None, repr=False)

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

    def gemm_view(self, frame: pd.DataFrame) -> pd.DataFrame:
        """Return each row as ``batch`` products of m x k and k x n, the common shape of all operators; RangeIndex."""
        return self._view(self.complete(frame)).reset_index(drop=True)

    def complete(self, frame: pd.DataFrame) -> pd.DataFrame:
        """Return the rows with absent optional columns at their defaults and every precision stated.

        Absent precisions: ``dtype_b`` is ``dtype_a``; ``dtype_out`` is ``dtype_a``, but bf16 for matrix operators on
        8 bits and fewer (as AITER and hipBLASLt write by default).
        """
        return frame.assign(**self.completed(frame))

    @property
    def asked(self) -> tuple[str, ...]:
        """Columns that `completed` looks at."""
        others = [value[1:] for value in self.defaults.values() if isinstance(value, str) and value.startswith("=")]
        return (*self.defaults, *others, "dtype_a", "dtype_b", "dtype_out", "source")

    def completed(self, frame: pd.DataFrame) -> dict[str, np.ndarray]:
        """Return the columns that `complete` fills."""
        columns = {name: _filled(frame, name, default) for name, default in self.defaults.items()}
        widen = self.unit == "matrix"
        columns["dtype_b"] = _of_both(frame, "dtype_b", lambda a, b: b or a)
        columns["dtype_out"] = _of_both(
            frame, "dtype_out", lambda a, out: out or ("bf16" if widen and BITS.get(a, 32) <= 8 else a)
        )
        return columns

    def least(self, frame: pd.DataFrame) -> tuple[np.ndarray, np.ndarray]:
        """Return the FLOPs and bytes that no kernel gets below, of complete rows.

        They are less than `flops` and `bytes` where those are an estimate: of convolutions, which Winograd's algorithm
        shortens, of experts and rows that many tokens may share.
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
        sides = {str(side): values.to_numpy(dtype=float) for side, values in self._view(whole).items()}
        unit = np.full(len(frame), self.unit, dtype=object)
        return Work(self._flops(whole), self._bytes(whole), **sides, dtype=self.compute_dtype(whole), unit=unit)

    def compute_dtype(self, frame: pd.DataFrame) -> np.ndarray:
        """Return the precision the arithmetic runs at.

        Matrix operators: the wider of the two operands (int4 or fp4 weights under bf16 activations are widened and
        multiplied as bf16; fp4 with fp8 runs at the fp8 rate: AMD CDNA 4 white paper, 2025); two operands of 4-bit
        or unsigned integers are multiplied as int8. Vector operators: fp32, or fp64 for fp64 (PyTorch's
        ``at::opmath_type``: half precisions are computed in float).
        """
        if self.unit == "vector":
            return _of_both(frame, "dtype_b", lambda a, b: "fp64" if a == "fp64" else "fp32")
        return _of_both(frame, "dtype_b", _multiplied)


def _multiplied(a: str, b: str) -> str:
    wider = b if BITS.get(b, 0) > BITS.get(a, 0) else a
    return "int8" if wider in _AS_INT8 else wider


def _of_both(frame: pd.DataFrame, name: str, make: Callable[[str, str], str]) -> np.ndarray:
    """Return what is made of ``dtype_a`` and another precision of each row; asked once for those that are equal."""
    (codes, words), (others, second) = coded(frame, "dtype_a"), coded(frame, name)
    made = [[make(str(a), str(b)) for b in second] for a in words]
    return np.array(made, dtype=object)[codes, others]


def _filled(frame: pd.DataFrame, name: str, default: float | str) -> np.ndarray:
    """Return a column with its default where it is absent or empty; ``"=other"`` stands for another column."""
    if isinstance(default, str) and not default.startswith("="):
        return _filled_text(frame, name, default)
    return with_default(frame, name, as_numbers(frame, default[1:]) if isinstance(default, str) else default)


def _filled_text(frame: pd.DataFrame, name: str, default: str | np.ndarray) -> np.ndarray:
    values = texts(frame, name)
    return np.where(values == "", default, values).astype(object)


_CONV_DEFAULTS: dict[str, float | str] = {
    "layout": "",
    "groups": 1.0, "in_d": 1.0, "out_d": 1.0, "fil_d": 1.0,
    "pad_d": 0.0, "pad_h": 0.0, "pad_w": 0.0,
    "stride_d": 1.0, "stride_h": 1.0, "stride_w": 1.0,
    "dil_d": 1.0, "dil_h": 1.0, "dil_w": 1.0,
}  # fmt: skip
_CONV_SHAPE = (
    "groups", "in_channels", "in_d", "in_h", "in_w", "out_channels", "out_d", "out_h", "out_w",
    "fil_d", "fil_h", "fil_w", "pad_d", "pad_h", "pad_w", "stride_d", "stride_h", "stride_w", "dil_d", "dil_h", "dil_w",
)  # fmt: skip
_CONV_LABEL = (
    "conv {in_channels}x{in_d}x{in_h}x{in_w} to {out_channels}x{out_d}x{out_h}x{out_w} filter {fil_d}x{fil_h}x{fil_w}"
    " stride {stride_d}x{stride_h}x{stride_w} pad {pad_d}x{pad_h}x{pad_w} dilation {dil_d}x{dil_h}x{dil_w}"
    " groups {groups}"
)
_ATTENTION = ("batch", "heads", "kv_heads", "seq_q", "seq_kv", "head_dim", "head_dim_v", "causal")
_ATTENTION_DEFAULTS: dict[str, float | str] = {"kv_heads": "=heads", "head_dim_v": "=head_dim", "causal": 0.0}
_MATRIX = (
    Op("gemm", "matrix", ("m", "n", "k", "batch", "scale_block"), ("n", "k"), "gemm {n}x{k}",
       gemm.flops, gemm.bytes_moved, gemm.view, {"batch": 1.0, "scale_block": ""}),
    Op("batched_gemm", "matrix", ("m", "n", "k", "batch", "scale_block"), ("n", "k"), "batched_gemm {n}x{k}",
       gemm.flops, gemm.bytes_moved, gemm.view, {"scale_block": ""}),
    Op("grouped_gemm", "matrix", ("m", "n", "k", "batch", "scale_block"), ("n", "k"), "grouped_gemm {n}x{k}",
       gemm.grouped_flops, gemm.grouped_bytes, gemm.grouped_view, {"scale_block": ""}),
    Op("moe", "matrix", ("tokens", "model_dim", "inter_dim", "experts", "topk", "gated", "scale_block"),
       ("model_dim", "inter_dim", "experts"), "moe {model_dim}x{inter_dim}x{experts}",
       moe.flops, moe.bytes_moved, moe.view, {"scale_block": ""}, _least_bytes=moe.least_bytes),
    Op("conv", "matrix", ("direction", "layout", "batch", *_CONV_SHAPE), _CONV_SHAPE, _CONV_LABEL,
       conv.flops, conv.bytes_moved, conv.view, _CONV_DEFAULTS,
       _least_flops=conv.least_flops, _least_bytes=conv.least_bytes),
    Op("attention", "matrix", _ATTENTION, ("heads", "head_dim"), "attention {heads}x{head_dim}",
       attention.flops, attention.bytes_moved, attention.view, _ATTENTION_DEFAULTS),
    Op("attention_backward", "matrix", _ATTENTION, ("heads", "head_dim"), "attention_backward {heads}x{head_dim}",
       attention.backward_flops, attention.backward_bytes, attention.backward_view, _ATTENTION_DEFAULTS),
)  # fmt: skip
_OPERANDS = {"elements_a": np.nan, "elements_b": np.nan}
_FRAMEWORK = (
    Op("elementwise", "vector", ("rows", "cols", "inputs", *_OPERANDS), ("cols",), "elementwise {cols}",
       elementwise.flops, elementwise.bytes_moved, vector.VectorWork.view, _OPERANDS),
    Op("gather", "vector", ("rows", "cols"), ("cols",), "gather {cols}",
       elementwise.gather_flops, elementwise.gather_bytes, vector.VectorWork.view,
       _least_bytes=elementwise.gather_least_bytes),
    Op("collective", "vector", ("variant", "message_bytes", "ranks"), ("variant", "ranks"),
       "collective {variant} of {ranks}", launched.collective_flops, launched.collective_bytes,
       launched.collective_view, {"variant": ""}, needs_dtype=False,
       _least_bytes=launched.collective_least_bytes, _sent_bytes=launched.collective_sent_bytes),
    Op("kernel", "vector", ("variant", "workgroups", "threads", "lds_bytes"), ("variant",), "kernel {variant}",
       launched.unknown, launched.unknown, launched.kernel_view, {"variant": "", "lds_bytes": np.nan},
       needs_dtype=False),
)  # fmt: skip
WHOLE = ("application", "frame", "epoch")
"""Workloads that are no kernel: known by a name (column ``variant``, read as ``name`` too) and an index, their work
unknown. Every other column of numbers is what was counted of them."""
_WHOLE = (
    Op(name, "vector", ("variant", "index"), ("variant",), name + " {variant}", launched.unknown, launched.unknown,
       launched.whole_view, {"index": np.nan}, needs_dtype=False)
    for name in WHOLE
)  # fmt: skip
OPS: dict[str, Op] = {op.name: op for op in (*_MATRIX, *_FRAMEWORK, *_WHOLE)} | {
    name: Op(name, "vector", ("rows", "cols"), ("cols",), name + " {cols}", work.flops, work.bytes_moved, work.view)
    for name, work in (vector.ROW_WISE | vector.TRAINED | vector.ELEMENT_WISE).items()
}
"""Every operator by its name in column ``op``."""


_SPELLINGS = {
    "gemm": ("linear", "mm", "addmm", "matmul", "_addmm_activation", "_scaled_mm", "_int_mm"),
    "batched_gemm": ("bmm", "baddbmm"),
    "grouped_gemm": ("_grouped_mm",),
    "conv": (
        "conv1d", "conv2d", "conv3d", "convolution", "_convolution", "cudnn_convolution", "miopen_convolution",
    ),
    "attention": (
        "sdpa", "flash_attention", "scaled_dot_product_attention", "_scaled_dot_product_flash_attention",
        "_scaled_dot_product_efficient_attention", "_scaled_dot_product_cudnn_attention",
    ),
    "softmax": ("_softmax", "log_softmax", "_log_softmax"),
    "softmax_backward": ("_softmax_backward_data", "_log_softmax_backward_data"),
    "layer_norm": ("ln", "layernorm", "native_layer_norm"),
    "layer_norm_backward": ("native_layer_norm_backward",),
    "rms_norm": ("rmsnorm", "_fused_rms_norm"),
    "rms_norm_backward": ("_fused_rms_norm_backward",),
    "add_rms_norm": ("fused_add_rms_norm", "fused_add_rmsnorm", "add_rmsnorm"),
    "group_norm": ("native_group_norm",),
    "group_norm_backward": ("native_group_norm_backward",),
    "batch_norm": ("native_batch_norm", "cudnn_batch_norm", "miopen_batch_norm"),
    "batch_norm_backward": ("native_batch_norm_backward", "cudnn_batch_norm_backward", "miopen_batch_norm_backward"),
    "gather": ("embedding", "index_select"),
}  # fmt: skip
ALIASES: dict[str, str] = {word: name for name, words in _SPELLINGS.items() for word in words}
"""Other names of operators: PyTorch's (``aten/src/ATen/native/native_functions.yaml`` of PyTorch 2.9, and what
``torch.nn.functional`` calls them), NeuSight's ("ln"), vLLM's and AITER's of the normalisations."""
_NAMESPACE = re.compile(r"(?:torch\.ops\.)?(?:aten(?:::|\.)|torch\.nn\.functional\.|nn\.functional\.|torch\.|f\.)")


def without_namespace(word: str) -> str:
    """Return an operator's name as written without its library, overload and mark of the in-place form, lower case.

    Examples
    --------
    >>> without_namespace("aten::addmm"), without_namespace("torch.ops.aten.relu_.default")
    ('addmm', 'relu')
    """
    plain = word.strip().lower()
    library = _NAMESPACE.match(plain)
    return (plain[library.end() :].partition(".")[0] if library else plain).rstrip("_")


def canonical_op(word: str) -> str:
    """Return the name in `OPS` of an operator that a file or a user names in words; the words where there is none.

    Examples
    --------
    >>> canonical_op("aten::mm"), canonical_op("GEMM"), canonical_op("fft")
    ('gemm', 'gemm', 'fft')
    """
    plain = without_namespace(word)
    name = ALIASES.get(plain, plain)
    return name if name in OPS else word


def nearest_op(word: str) -> str:
    """Say which operators are called most like a word that is none."""
    close = difflib.get_close_matches(without_namespace(word), [*OPS, *ALIASES], n=2)
    alike = list(dict.fromkeys(ALIASES.get(name, name) for name in close))
    return f"did you mean {' or '.join(alike)}?" if alike else f"known are {', '.join(OPS)}"


def op_of(name: str) -> Op:
    """Return the operator of that name; a DataError with the closest ones if there is none."""
    if name in OPS:
        return OPS[name]
    raise DataError(f"unknown operator {name!r}: {nearest_op(str(name))}")


_EXAMPLE: dict[str, float | str] = {
    "m": 128, "n": 4096, "k": 7168, "batch": 8, "tokens": 64, "model_dim": 4096, "inter_dim": 1024, "experts": 8,
    "topk": 2, "gated": 1, "direction": "F", "in_channels": 64, "in_h": 56, "in_w": 56, "out_channels": 64,
    "out_h": 54, "out_w": 54, "fil_h": 3, "fil_w": 3, "heads": 32, "seq_q": 512, "seq_kv": 512, "head_dim": 128,
    "rows": 4096, "cols": 8192, "inputs": 2, "variant": "hpcg",
    "message_bytes": 1048576, "ranks": 8, "workgroups": 1024, "threads": 256,
}  # fmt: skip


def example_of(op: Op) -> dict[str, float | str]:
    """Return what a measurement of an operator must state, with values that one could have on an MI300X."""
    dtype: dict[str, float | str] = {"dtype_a": "bf16"} if op.needs_dtype else {}
    sizes = {name: _EXAMPLE[name] for name in op.dims if name not in op.defaults}
    return {"device": "MI300X", "op": op.name, **dtype, "duration_us": 150.0, **sizes}


def each_op(frame: pd.DataFrame) -> Iterator[tuple[Op, np.ndarray]]:
    """Yield each operator of the table with the positions of its rows."""
    codes, names = coded(frame, "op")
    for code in pd.unique(codes):
        yield op_of(str(names[code])), np.flatnonzero(codes == code)


def complete(frame: pd.DataFrame) -> pd.DataFrame:
    """Return a table of any operators with each row completed as its operator says (see `Op.complete`).

    Raises DataError for an unknown operator.
    """
    ops = list(each_op(frame))
    if len(ops) < 2:
        return (ops[0][0].complete(frame) if ops else frame).reset_index(drop=True)
    filled: dict[str, np.ndarray] = {}
    for op, rows in ops:
        for name, values in op.completed(frame.loc[:, frame.columns.isin(op.asked)].iloc[rows]).items():
            if name not in filled:
                filled[name] = frame[name].to_numpy(copy=True) if name in frame else np.full(len(frame), np.nan)
            if filled[name].dtype != values.dtype:
                filled[name] = filled[name].astype(object)
            filled[name][rows] = values
    return frame.assign(**filled).reset_index(drop=True)


def work_of(frame: pd.DataFrame) -> Work:
    """Return the work of every row of a table of any operators.

    Raises DataError for an unknown operator, or rows that lack a dimension it needs.
    """
    columns: dict[str, np.ndarray] = {}
    for side in fields(Work):
        columns[side.name] = np.empty(len(frame), dtype=object if side.name in ("dtype", "unit") else float)
    for op, rows in each_op(frame):
        part = op.work(frame if len(rows) == len(frame) else frame.iloc[rows])
        for name, column in columns.items():
            column[rows] = getattr(part, name)
    return Work(**columns)


def group_labels(frame: pd.DataFrame) -> np.ndarray:
    """Return the default group of every row, such as ``gemm 4096x7168`` (n x k) or ``softmax 1024`` (cols)."""
    labels = np.empty(len(frame), dtype=object)
    for op, rows in each_op(frame):
        part = op.complete(frame.iloc[rows])[list(op.group)]
        code = part.groupby(list(op.group), sort=False, dropna=False).ngroup().to_numpy()
        first = part.iloc[np.unique(code, return_index=True)[1]]
        names = [op.label.format(**{str(c): _shown(v) for c, v in row.items()}) for row in first.to_dict("records")]
        labels[rows] = np.array(names, dtype=object)[code]
    return labels


def _shown(value: object) -> str:
    """Write 4096.0 as 4096."""
    return f"{value:g}" if isinstance(value, float) and abs(value) < 1e6 else str(value).removesuffix(".0")

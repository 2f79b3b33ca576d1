"""The kernels that can be measured: from a row of the measurement table to a call of PyTorch.

A row has the dimensions of its operator (`operators.operators`) and the variants that readers of profiles give them, so
that measured and profiled rows are the same problems:

=================  =========================================================================================
operator           call
=================  =========================================================================================
gemm               ``linear`` (weights n x k), ``mm`` where ``layout`` says otherwise; variant ``bias``;
                   fp8 with one scale per tensor (``_scaled_mm``), int8 (``_int_mm``, writes int32)
batched_gemm       ``bmm``
attention          ``scaled_dot_product_attention``, grouped heads included
conv               ``conv2d``, ``conv3d`` (direction F), ``convolution_backward`` (B, W, BW), NCHW and NHWC
softmax            over the last dimension; variant ``log``
layer_norm ...     with scale (and shift); variant ``plain`` without; ``batch_norm``: one image, rows are channels
reduction          over the last dimension; the variant names it (``sum`` by default)
gather             ``embedding`` in a table of `VOCABULARY` rows
loss               variant ``cross_entropy`` (mean), variant ``mse_loss``
add, gelu ...      ``torch``'s function of that name; ``elementwise``: the variant names it
copy               ``copy_`` on the device; variants ``DtoD``, ``HtoD``, ``DtoH``: the copy engine, pinned memory
fill               ``fill_``
=================  =========================================================================================
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from typing import Any

from ..errors import DataError
from .backend import Operands
from .rows import sizes, unknown, word
from .timing import Call

Row = Mapping[str, Any]
Builder = Callable[[Operands, Row], Call]

VOCABULARY = 32_768
"""Rows of the table that embeddings are taken from: the dimensions of a gather do not tell it."""
_DEFAULT_OUT = {"int8": "int32", "fp8": "bf16"}
_PASSES = {"B": (True, False), "W": (False, True), "BW": (True, True)}
"""Gradients that a convolution of each direction makes: of data, of weights."""
_CHANNELS_LAST = ("NHWC", "NDHWC")
_AXES = "dhw"


def build(operands: Operands, row: Row) -> Call:
    """Return the call of a row.

    Raises
    ------
    DataError
        The operator, the variant or the number format cannot be measured, or dimensions contradict each other.
    """
    op = word(row, "op")
    if op not in BUILDERS:
        raise DataError(f"{op} cannot be measured: give a function of your own, or leave the rows out")
    return BUILDERS[op](operands, row)


def _gemm(make: Operands, row: Row) -> Call:
    m, n, k = sizes(row, "m", "n", "k")
    if sizes(row, "batch", default=1) != [1]:
        raise DataError("a gemm of several products is a batched_gemm: change op, or set batch to 1")
    dtype, variant = word(row, "dtype_a"), word(row, "variant")
    _same_formats(row, written=_DEFAULT_OUT.get(dtype, dtype))
    a_letter, b_letter = _letters(row)
    if dtype in ("fp8", "int8"):
        return _narrow_gemm(make, row, dtype, (m, n, k))
    a = make.tensor(dtype, m, k) if a_letter == "N" else make.tensor(dtype, k, m).t()
    b = make.tensor(dtype, k, n) if b_letter == "N" else make.tensor(dtype, n, k).t()
    torch = make.torch
    if variant not in ("", "bias"):
        raise unknown(row, "variant", "bias")
    bias = make.tensor(dtype, n) if variant else None
    if (a_letter, b_letter) == ("N", "T"):
        linear, weight = torch.nn.functional.linear, b.t()
        return lambda: linear(a, weight, bias)
    return (lambda: torch.mm(a, b)) if bias is None else lambda: torch.addmm(bias, a, b)


def _narrow_gemm(make: Operands, row: Row, dtype: str, shape: tuple[int, int, int]) -> Call:
    """Return a product of 8-bit operands, B in columns as the libraries want it."""
    torch, (m, n, k) = make.torch, shape
    if word(row, "variant"):
        raise unknown(row, "variant", "none for 8-bit operands")
    if _letters(row) != ("N", "T"):
        raise unknown(row, "layout", "NT for 8-bit operands")
    a, b = make.tensor(dtype, m, k), make.tensor(dtype, n, k).t()
    if dtype == "int8":
        return lambda: torch._int_mm(a, b)
    if word(row, "scale_block") not in ("", "tensor"):
        raise unknown(row, "scale_block", "tensor")
    one = torch.ones((), device=make.backend.word)
    return lambda: torch._scaled_mm(a, b, scale_a=one, scale_b=one, out_dtype=torch.bfloat16)


def _letters(row: Row) -> tuple[str, str]:
    layout = word(row, "layout") or "NT"
    if layout not in ("NN", "NT", "TN", "TT"):
        raise unknown(row, "layout", "NN, NT, TN, TT")
    return layout[0], layout[1]


def _batched_gemm(make: Operands, row: Row) -> Call:
    batch, m, n, k = sizes(row, "batch", "m", "n", "k")
    dtype = _only_format(row)
    a_letter, b_letter = _letters({**row, "layout": word(row, "layout") or "NN"})
    a = make.tensor(dtype, batch, m, k) if a_letter == "N" else make.tensor(dtype, batch, k, m).mT
    b = make.tensor(dtype, batch, k, n) if b_letter == "N" else make.tensor(dtype, batch, n, k).mT
    bmm = make.torch.bmm
    return lambda: bmm(a, b)


def _attention(make: Operands, row: Row) -> Call:
    batch, heads, seq_q, seq_kv, dim = sizes(row, "batch", "heads", "seq_q", "seq_kv", "head_dim")
    (kv_heads,), (dim_v,) = sizes(row, "kv_heads", default=heads), sizes(row, "head_dim_v", default=dim)
    dtype, causal = _only_format(row), bool(row.get("causal", False))
    if causal and seq_q != seq_kv:
        raise DataError("PyTorch aligns a causal mask at the first key, rows here at the last: seq_q must be seq_kv")
    if heads % kv_heads:
        raise DataError(f"heads must be a multiple of kv_heads, got {heads} and {kv_heads}")
    q = make.tensor(dtype, batch, heads, seq_q, dim)
    k, v = make.tensor(dtype, batch, kv_heads, seq_kv, dim), make.tensor(dtype, batch, kv_heads, seq_kv, dim_v)
    attend, grouped = make.torch.nn.functional.scaled_dot_product_attention, {"enable_gqa": True}
    options = grouped if kv_heads < heads else {}
    return lambda: attend(q, k, v, is_causal=causal, **options)


def _convolution(make: Operands, row: Row) -> Call:
    """Return the call of a convolution, two-dimensional unless depth counts."""
    axes = _AXES if any(_axis(row, "d", name) > 1 for name in ("in", "fil")) else _AXES[1:]
    batch, c_in, c_out = sizes(row, "batch", "in_channels", "out_channels")
    (groups,) = sizes(row, "groups", default=1)
    if c_in % groups or c_out % groups:
        raise DataError(f"groups must divide in_channels and out_channels, got {groups}, {c_in} and {c_out}")
    _check_output(row, axes)
    dtype = word(row, "dtype_a")
    for name in ("dtype_b", "dtype_out"):
        if word(row, name) not in ("", dtype):
            raise unknown(row, name, dtype)
    x = make.tensor(dtype, batch, c_in, *(_axis(row, axis, "in") for axis in axes))
    w = make.tensor(dtype, c_out, c_in // groups, *(_axis(row, axis, "fil") for axis in axes))
    x, w = (_laid_out(make, row, tensor) for tensor in (x, w))
    stride, pad, dilation = ([_axis(row, axis, side) for axis in axes] for side in ("stride", "pad", "dil"))
    return _convolved(make, row, x, w, (stride, pad, dilation, groups))


def _convolved(make: Operands, row: Row, x: Any, w: Any, how: tuple[list[int], list[int], list[int], int]) -> Call:
    torch, (stride, pad, dilation, groups), direction = make.torch, how, word(row, "direction")
    variant = word(row, "variant")
    if variant not in ("", "bias") or (variant and direction != "F"):
        raise unknown(row, "variant", "bias, of direction F")
    bias = make.tensor(word(row, "dtype_a"), w.shape[0]) if variant else None
    if direction == "F":
        forward = torch.nn.functional.conv2d if len(stride) == 2 else torch.nn.functional.conv3d
        return lambda: forward(x, w, bias, stride, pad, dilation, groups)
    if direction not in _PASSES:
        raise unknown(row, "direction", "F, B, W, BW")
    data, weights = _PASSES[direction]
    size = [x.shape[0], w.shape[0], *(_axis(row, axis, "out") for axis in _AXES[-len(stride) :])]
    gradient = _laid_out(make, row, make.tensor(word(row, "dtype_a"), *size))
    backward, none = torch.ops.aten.convolution_backward, [0] * len(stride)
    mask = [data, weights, False]
    return lambda: backward(gradient, x, w, None, stride, pad, dilation, False, none, groups, mask)


def _axis(row: Row, axis: str, side: str) -> int:
    default = {"in": None, "out": None, "fil": None, "pad": 0}.get(side, 1)
    return sizes(row, f"{side}_{axis}", default=1 if axis == "d" and default is None else default)[0]


def _check_output(row: Row, axes: str) -> None:
    for axis in axes:
        side, fil, stride, pad, dil, out = (
            _axis(row, axis, name) for name in ("in", "fil", "stride", "pad", "dil", "out")
        )
        expected = (side + 2 * pad - dil * (fil - 1) - 1) // stride + 1
        if out != expected:
            raise DataError(f"out_{axis} must be {expected}, which follows from input and filter, got {out}")


def _laid_out(make: Operands, row: Row, tensor: Any) -> Any:
    """Return the tensor with channels first, or last where the row's layout says so."""
    layout = word(row, "layout")
    if layout in ("", "NCHW", "NCDHW"):
        return tensor
    if layout not in _CHANNELS_LAST:
        raise unknown(row, "layout", "NCHW, NHWC, NCDHW, NDHWC")
    torch = make.torch
    return tensor.contiguous(memory_format=torch.channels_last if tensor.dim() == 4 else torch.channels_last_3d)


def _softmax(make: Operands, row: Row) -> Call:
    x, torch = _matrix(make, row), make.torch
    call = _variant(row, {"": torch.softmax, "log": torch.log_softmax})
    return lambda: call(x, dim=1)


def _norm(make: Operands, row: Row) -> Call:
    """Return layer and RMS normalisation; the latter has no shift."""
    (cols,), x = sizes(row, "cols"), _matrix(make, row)
    nn, dtype, affine = make.torch.nn.functional, _only_format(row), _affine(row)
    weight = make.tensor(dtype, cols) if affine else None
    if word(row, "op") == "rms_norm":
        return lambda: nn.rms_norm(x, (cols,), weight)
    bias = make.tensor(dtype, cols) if affine else None
    return lambda: nn.layer_norm(x, (cols,), weight, bias)


def _batch_norm(make: Operands, row: Row) -> Call:
    (rows, cols), dtype, training = sizes(row, "rows", "cols"), _only_format(row), word(row, "op") == "batch_norm"
    if training and cols < 2:
        raise DataError("batch_norm needs two values per channel: cols >= 2")
    norm, x = make.torch.nn.functional.batch_norm, make.tensor(dtype, 1, rows, cols)
    mean, variance = make.tensor(dtype, rows), make.tensor(dtype, rows).abs()
    weight, bias = (make.tensor(dtype, rows) if _affine(row) else None for _ in range(2))
    return lambda: norm(x, mean, variance, weight, bias, training=training)


def _affine(row: Row) -> bool:
    return _variant(row, {"": True, "plain": False})


def _reduction(make: Operands, row: Row) -> Call:
    torch, x = make.torch, _matrix(make, row, written=word(row, "dtype_out") or word(row, "dtype_a"))
    names = ("sum", "mean", "amax", "amin", "argmax", "argmin", "prod", "std", "var", "logsumexp")
    call = _variant(row, {"": torch.sum, **{name: getattr(torch, name) for name in names}})
    return lambda: call(x, dim=1)


def _gather(make: Operands, row: Row) -> Call:
    _variant(row, {"": None, "embedding": None})
    if word(row, "dtype_b") not in ("", "int64", "int32"):
        raise unknown(row, "dtype_b", "int64, int32")
    rows, cols = sizes(row, "rows", "cols")
    table = make.tensor(word(row, "dtype_a"), VOCABULARY, cols)
    indices = make.integers(VOCABULARY, rows).to(make.dtype(word(row, "dtype_b") or "int64"))
    embedding = make.torch.nn.functional.embedding
    return lambda: embedding(indices, table)


def _loss(make: Operands, row: Row) -> Call:
    (rows, cols), x, nn = sizes(row, "rows", "cols"), _matrix(make, row), make.torch.nn.functional
    call = _variant(row, {"cross_entropy": nn.cross_entropy, "mse_loss": nn.mse_loss})
    crossed = word(row, "variant") == "cross_entropy"
    target = make.integers(cols, rows) if crossed else make.tensor(_only_format(row), rows, cols)
    return lambda: call(x, target)


def _one_operand(make: Operands, row: Row) -> Call:
    _variant(row, {"": None})
    torch, x = make.torch, _matrix(make, row)
    scalar = {"addu": torch.add, "mulu": torch.mul, "divu": torch.div, "powu": torch.pow}
    if (op := word(row, "op")) in scalar:
        call = scalar[op]
        base = x.abs() if op == "powu" else x
        return lambda: call(base, 1.5)
    apply = {"relu": torch.relu, "tanh": torch.tanh, "gelu": torch.nn.functional.gelu}[op]
    return lambda: apply(x)


def _two_operands(make: Operands, row: Row) -> Call:
    torch, op, x = make.torch, word(row, "op"), _matrix(make, row)
    other = make.tensor(_only_format(row), *x.shape)
    if op == "add":
        call = _variant(row, {"": torch.add, "sub": torch.sub})
    else:
        _variant(row, {"": None})
        call = {"mul": torch.mul, "div": torch.div, "pow": torch.pow}[op]
    left = x.abs() if op == "pow" else x
    return lambda: call(left, other)


def _elementwise(make: Operands, row: Row) -> Call:
    """Return an operator that has no name of its own among ours, on whole operands."""
    torch, x = make.torch, _matrix(make, row)
    one = {name: getattr(torch, name) for name in ("exp", "sigmoid", "sin", "abs", "neg", "erf")}
    one["silu"] = torch.nn.functional.silu
    two = {"maximum": torch.maximum, "minimum": torch.minimum, "atan2": torch.atan2}
    (inputs,) = sizes(row, "inputs")
    if inputs not in (1, 2):
        raise DataError(f"elementwise rows can be measured with 1 or 2 inputs, got {inputs}")
    others = [make.tensor(_only_format(row), *x.shape) for _ in range(inputs - 1)]
    whole = [row.get(name) for name in ("elements_a", "elements_b")[:inputs]]
    if any(given is not None and not math.isnan(given) and given != x.numel() for given in whole):
        raise DataError("elementwise rows can be measured with operands of the size of the result only")
    call = _variant(row, one if inputs == 1 else two)
    return lambda: call(x, *others)


def _copy(make: Operands, row: Row) -> Call:
    (rows, cols), variant, dtype = sizes(row, "rows", "cols"), word(row, "variant"), word(row, "dtype_a")
    written = word(row, "dtype_out") or dtype
    if variant not in ("", "DtoD", "HtoD", "DtoH"):
        raise unknown(row, "variant", "DtoD, HtoD, DtoH")
    source, target = make.tensor(dtype, rows, cols), make.tensor(written, rows, cols)
    if variant in ("HtoD", "DtoH") and not make.backend.is_gpu:
        raise DataError(f"a copy {variant} needs a GPU: leave these rows out on a CPU")
    if variant == "HtoD":
        source = source.cpu().pin_memory()
    if variant == "DtoH":
        target = target.cpu().pin_memory()
    return lambda: target.copy_(source, non_blocking=True)


def _fill(make: Operands, row: Row) -> Call:
    _variant(row, {"": None})
    x = _matrix(make, row)
    return lambda: x.fill_(1)


def _matrix(make: Operands, row: Row, written: str | None = None) -> Any:
    """Return a tensor of rows x cols of the row's format."""
    return make.tensor(_only_format(row, written), *sizes(row, "rows", "cols"))


def _only_format(row: Row, written: str | None = None) -> str:
    dtype = word(row, "dtype_a")
    _same_formats(row, written=written or dtype)
    return dtype


def _same_formats(row: Row, written: str) -> None:
    """Refuse formats that the call would not compute with."""
    expected = {"dtype_b": word(row, "dtype_a"), "dtype_out": written}
    for name, dtype in expected.items():
        if word(row, name) not in ("", dtype):
            raise unknown(row, name, dtype)


def _variant(row: Row, known: Mapping[str, Any]) -> Any:
    """Return what belongs to the row's variant."""
    if (variant := word(row, "variant")) not in known:
        raise unknown(row, "variant", ", ".join(name or "none" for name in known))
    return known[variant]


BUILDERS: dict[str, Builder] = {
    "gemm": _gemm,
    "batched_gemm": _batched_gemm,
    "conv": _convolution,
    "attention": _attention,
    "softmax": _softmax,
    "layer_norm": _norm,
    "rms_norm": _norm,
    "batch_norm": _batch_norm,
    "batch_norm_inference": _batch_norm,
    "reduction": _reduction,
    "gather": _gather,
    "loss": _loss,
    **dict.fromkeys(("addu", "mulu", "divu", "powu", "relu", "tanh", "gelu"), _one_operand),
    **dict.fromkeys(("add", "mul", "div", "pow"), _two_operands),
    "elementwise": _elementwise,
    "copy": _copy,
    "fill": _fill,
}
"""What makes the call of each operator; collectives take several processes (`collectives`)."""

"""Softmax, normalisations and reductions of PyTorch and of libraries called from it: operators on rows x cols.

A row is what is normalised or reduced together; its elements are the columns. Variants tell apart what shares an
operator: the reduction's name, the logarithm of a softmax, and ``strided`` where a row's elements lie further apart in
memory than the rows. A layer's parameters are counted though it may have none (variant ``plain``).
"""

from __future__ import annotations

from collections.abc import Callable
from math import prod

from .aten_call import Call, Tensor, promote, require
from .aten_matrix import Described

_WHOLE = frozenset({"", "None", "[]"})
_INDICES = frozenset({"argmax", "argmin"})
_TRUTHS = frozenset({"any", "all"})


def _rows(op: str, variant: str, x: Tensor, cols: int, out: str = "") -> Described:
    """Return an operator on an input that is read once; an expanded input is smaller in memory than its size tells."""
    require(cols > 0 and x.numel % cols == 0 and x.elements == x.numel)
    formats = {"dtype_a": x.dtype, "dtype_b": x.dtype, "dtype_out": out or x.dtype}
    return {"op": op, "variant": variant, "rows": x.numel // cols, "cols": cols, **formats}


def _axes(listed: list[int], rank: int) -> list[int]:
    require(all(-max(rank, 1) <= axis < max(rank, 1) for axis in listed))
    return sorted({axis % rank for axis in listed}) if rank else []


def softmax(call: Call) -> Described:
    """``_softmax(x, dim, half_to_float)`` and ``softmax(x, dim, dtype)``, and their logarithms."""
    x = call.tensor(0)
    axes = _axes(call.integers(1), len(x.dims))
    words = ["log"] if "log" in call.kind else []
    out = "fp32" if call.text(2) == "True" else call.dtype(2, x.dtype)
    return _along("softmax", words, x, axes, out)


def softmax_backward(call: Call) -> Described:
    """``_softmax_backward_data(grad, output, dim, input_dtype)``."""
    x = call.tensor(1)
    words = ["log"] if "log" in call.kind else []
    return _along("softmax_backward", words, x, _axes(call.integers(2), len(x.dims)), call.dtype(3, x.dtype))


def _along(op: str, words: list[str], x: Tensor, axes: list[int], out: str) -> Described:
    strided = [] if x.innermost(axes) else ["strided"]
    return _rows(op, " ".join(words + strided), x, prod(x.dims[axis] for axis in axes), out)


def layer_norm(call: Call) -> Described:
    """``native_layer_norm(x, normalized_shape, weight, ...)``, ``rms_norm``; the weight has the shape if need be."""
    x, weight = call.tensor(0), call.tensor(2) if call.has(2) else None
    return _normalised("rms_norm" if "rms" in call.kind else "layer_norm", call, x, weight, 1)


def layer_norm_backward(call: Call) -> Described:
    """``native_layer_norm_backward(dy, x, normalized_shape, mean, rstd, weight, ...)``; RMS norms have no mean."""
    rms = "rms" in call.kind
    at = 4 if rms else 5
    weight = call.tensor(at) if call.has(at) else None
    return _normalised("rms_norm_backward" if rms else "layer_norm_backward", call, call.tensor(1), weight, 2)


def _normalised(op: str, call: Call, x: Tensor, weight: Tensor | None, shape: int) -> Described:
    cols = prod(call.integers(shape)) if weight is None or call.text(shape) else weight.numel
    return _rows(op, "" if weight is not None else "plain", x, cols)


def library_rms_norm(x: int, weight: int, op: str = "rms_norm") -> Callable[[Call], Described]:
    """Return what reads a library's RMS norm over the last dimension, given the positions of input and weight."""

    def read(call: Call) -> Described:
        found, width = call.tensor(x), call.tensor(weight).numel
        require(bool(found.dims) and found.dims[-1] == width)
        return _rows(op, "", found, width)

    return read


def group_norm(call: Call) -> Described:
    """``native_group_norm(x, weight, bias, N, C, HxW, group, eps)``."""
    return _grouped("group_norm", call.tensor(0), call.integer(6), affine=call.has(1))


def group_norm_of_groups(call: Call) -> Described:
    """``group_norm(x, groups, weight, bias, ...)`` and AITER's."""
    return _grouped("group_norm", call.tensor(0), call.integer(1), affine=call.has(2))


def group_norm_backward(call: Call) -> Described:
    """``native_group_norm_backward(dy, x, mean, rstd, weight, N, C, HxW, group, mask)``."""
    return _grouped("group_norm_backward", call.tensor(1), call.integer(8), affine=call.has(4))


def _grouped(op: str, x: Tensor, groups: int, *, affine: bool) -> Described:
    require(len(x.dims) > 1 and groups > 0 and x.dims[1] % groups == 0)
    return _rows(op, "" if affine else "plain", x, x.dims[1] // groups * prod(x.dims[2:]))


def batch_norm(call: Call) -> Described:
    """``native_batch_norm(x, weight, bias, mean, variance, training, ...)``: a row per channel."""
    op = "batch_norm" if "with_update" in call.kind or call.flag(5) else "batch_norm_inference"
    return _per_channel(op, call.tensor(0), affine=call.has(1))


def batch_norm_backward(call: Call) -> Described:
    """``native_batch_norm_backward(dy, x, weight, ...)``; MIOpen and cuDNN have x before dy."""
    return _per_channel("batch_norm_backward", call.tensor(1), affine=call.has(2))


def _per_channel(op: str, x: Tensor, *, affine: bool) -> Described:
    require(len(x.dims) > 1 and x.dims[1] > 0)
    return _rows(op, "" if affine else "plain", x, x.numel // x.dims[1])


def reduction(axes: int = 1, dtype: int = -1) -> Callable[[Call], Described]:
    """Return what reads a reduction with its axes (none, one or a list) and its argument `dtype` at these positions."""

    def read(call: Call) -> Described:
        x, kind = call.tensor(0), call.kind
        typed = dtype >= 0 and len(call) == axes + 1 and call.types[axes] != "ScalarList"  # sum(x, dtype)
        reduced = list(range(len(x.dims))) if typed else _reduced(call, axes, x)
        special = "int64" if kind in _INDICES else "bool" if kind in _TRUTHS else x.dtype
        out = call.dtype(axes if typed else dtype, special) if dtype >= 0 else special
        return _along("reduction", [kind], x, reduced, out)

    return read


def _reduced(call: Call, position: int, x: Tensor) -> list[int]:
    """Return the axes reduced: all where the argument is absent, None, an empty list or no axis (``var(x, True)``)."""
    everything = list(range(len(x.dims)))
    if position >= len(call):
        return everything
    require(not call.has(position))  # max(x, other) is element-wise
    word = call.word(position)
    return everything if word in _WHOLE or word in ("True", "False") else _axes(call.integers(position), len(x.dims))


def loss(call: Call) -> Described:
    """``mse_loss(x, target, reduction)``: one number from two tensors, or element-wise without reduction."""
    x, target = call.tensor(0), call.tensor(1)
    require(x.dims == target.dims and call.integer(_REDUCTION.get(call.kind, 2)) in (1, 2))
    whole = Tensor((x.numel,), promote(x.dtype, target.dtype))
    return _rows("loss", call.kind, whole, x.numel)


#: Position of the argument `reduction` where it is not the third.
_REDUCTION = {"binary_cross_entropy": 3, "binary_cross_entropy_with_logits": 4}
_LOSSES = ("mse_loss", "l1_loss", "smooth_l1_loss", "huber_loss", *_REDUCTION)
_REDUCTIONS = {
    "sum": reduction(dtype=3), "mean": reduction(dtype=3), "nansum": reduction(dtype=3), "prod": reduction(dtype=3),
    "norm": reduction(2, dtype=4), "linalg_vector_norm": reduction(2, dtype=4), "logsumexp": reduction(),
    **{name: reduction() for name in ("amax", "amin", "max", "min", "argmax", "argmin", "any", "all")},
    **{name: reduction() for name in ("var", "std", "var_mean", "std_mean", "aminmax", "count_nonzero")},
}  # fmt: skip

ROWS: dict[str, Callable[[Call], Described]] = {
    **{f"aten::{name}": softmax for name in ("softmax", "_softmax", "log_softmax", "_log_softmax")},
    "aten::_softmax_backward_data": softmax_backward,
    "aten::_log_softmax_backward_data": softmax_backward,
    **{f"aten::{name}": layer_norm for name in ("layer_norm", "native_layer_norm", "rms_norm", "_fused_rms_norm")},
    "aten::native_layer_norm_backward": layer_norm_backward,
    "aten::_fused_rms_norm_backward": layer_norm_backward,
    "aiter::rmsnorm": library_rms_norm(1, 2),
    "sgl_kernel::rmsnorm": library_rms_norm(1, 2),
    "_C::rms_norm": library_rms_norm(1, 2),
    "aiter::add_rmsnorm": library_rms_norm(1, 4, "add_rms_norm"),
    "sgl_kernel::fused_add_rmsnorm": library_rms_norm(0, 2, "add_rms_norm"),
    "_C::fused_add_rms_norm": library_rms_norm(0, 2, "add_rms_norm"),
    "aten::native_group_norm": group_norm,
    "aten::group_norm": group_norm_of_groups,
    "aiter::_groupnorm_run": group_norm_of_groups,
    "aten::native_group_norm_backward": group_norm_backward,
    **{f"aten::{name}": batch_norm for name in (
        "batch_norm", "native_batch_norm", "_native_batch_norm_legit", "_batch_norm_with_update", "cudnn_batch_norm",
        "miopen_batch_norm", "_batch_norm_impl_index",
    )},
    "aten::native_batch_norm_backward": batch_norm_backward,
    "aten::cudnn_batch_norm_backward": batch_norm_backward,
    "aten::miopen_batch_norm_backward": batch_norm_backward,
    **{f"aten::{name}": read for name, read in _REDUCTIONS.items()},
    **{f"aten::{name}": loss for name in _LOSSES},
}  # fmt: skip
"""What reads the arguments of each operator; names without the mark of the in-place form."""

"""Operators of PyTorch, and of libraries called from it, that go over elements or rows: what each call had to do.

Element-wise operators, copies, fills, gathers and optimizers (`ELEMENTS`): what fits one of the plain operators
(``add``, ``mul``, ``relu``, ``copy``...: operands of the result's size and format) is named so; everything else is
``elementwise`` with the operator's name as its variant, the number of its operands, and the elements each of them has
in memory. Rows and columns are the result's last dimension and the product of the others.

Softmax, normalisations and reductions (`ROWS`): a row is what is normalised or reduced together; its elements are the
columns. Variants tell apart what shares an operator: the reduction's name, the logarithm of a softmax, and ``strided``
where a row's elements lie further apart in memory than the rows. A layer's parameters are counted though it may have
none (variant ``plain``).
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from math import ceil, prod

from ..operators.work import BITS
from .aten_call import Call, Tensor, broadcast, promote, require
from .aten_matrix import Described

#: Operators with one tensor; those with a name of their own, and those that give truth values.
_UNARY = (
    "exp", "exp2", "expm1", "log", "log2", "log10", "log1p", "sqrt", "rsqrt", "neg", "abs", "sigmoid", "silu", "mish",
    "sin", "cos", "tan", "atan", "asin", "acos", "sinh", "cosh", "erf", "erfc", "erfinv", "floor", "ceil", "round",
    "trunc", "frac", "sign", "sgn", "reciprocal", "square", "hardtanh", "hardswish", "hardsigmoid", "elu", "leaky_relu",
    "softplus", "selu", "celu", "relu6", "threshold", "clamp", "clamp_min", "clamp_max", "nan_to_num", "logit",
    "bitwise_not", "dropout", "tril", "triu", "cumsum", "flip", "roll", "relu", "tanh", "gelu", "log_sigmoid_forward",
)  # fmt: skip
_TESTS = (
    "eq", "ne", "lt", "le", "gt", "ge", "logical_and", "logical_or", "logical_xor", "logical_not", "isnan", "isinf",
    "isfinite", "isneginf", "isposinf",
)  # fmt: skip
_BINARY = (
    "add", "sub", "mul", "div", "pow", "rsub", "maximum", "minimum", "max", "min", "fmod", "remainder", "floor_divide",
    "atan2", "hypot", "xlogy", "bitwise_and", "bitwise_or", "bitwise_xor", "masked_fill", "prelu",
    "__and__", "__or__", "__xor__", "native_dropout_backward",
    *(f"{name}_backward" for name in (
        "threshold", "sigmoid", "tanh", "gelu", "silu", "hardtanh", "hardswish", "hardsigmoid", "leaky_relu", "elu",
        "softplus", "mish",
    )),
)  # fmt: skip
_TERNARY = (
    "addcmul",
    "addcdiv",
    "where",
    "lerp",
    "mse_loss_backward",
    "smooth_l1_loss_backward",
    "huber_loss_backward",
)
_FLOATING = frozenset(
    {
        "div",
        "exp",
        "log",
        "sqrt",
        "rsqrt",
        "sigmoid",
        "sin",
        "cos",
        "tanh",
        "erf",
        "reciprocal",
        "log2",
        "log1p",
        "atan2",
    }
)
_PLAIN = {"relu": "relu", "tanh": "tanh", "gelu": "gelu"}
_WITH_SCALAR = {"add": "addu", "sub": "addu", "mul": "mulu", "div": "divu", "pow": "powu"}
_WITH_TENSOR = {"add": "add", "sub": "add", "mul": "mul", "div": "div", "pow": "pow"}


def as_rows(dims: Sequence[int]) -> Described:
    """Return a shape as rows x cols: the last dimension, and the product of the others."""
    return {"rows": prod(dims[:-1]), "cols": dims[-1] if dims else 1}


def elementwise(kind: str, operands: list[Tensor], dims: Sequence[int], out: str) -> Described:
    """Return the generic operator: every different element of the operands is read, every one of the result written."""
    first, others = operands[0], operands[1:]
    size = prod(dims)
    found = {"op": "elementwise", "variant": kind, **as_rows(dims), "inputs": len(operands)}
    formats = {"dtype_a": first.dtype, "dtype_b": others[0].dtype if others else first.dtype, "dtype_out": out}
    if first.elements != size:
        found["elements_a"] = first.elements
    if any(other.elements != size or other.dtype != others[0].dtype for other in others):
        widest = max(others, key=lambda other: other.elements)
        formats["dtype_b"] = widest.dtype
        require(all(other.dtype in BITS for other in others))
        found["elements_b"] = ceil(sum(other.elements * BITS[other.dtype] for other in others) / BITS[widest.dtype])
    return found | formats


def pointwise(most: int, *, truth: bool = False) -> Callable[[Call], Described]:
    """Return what reads an element-wise operator with at most this many tensors; a further one is where to write."""

    def read(call: Call) -> Described:
        tensors = [call.tensor(at) for at in range(len(call)) if call.has(at)][:most]
        require(bool(tensors))
        operands = [t for t in tensors if t.dims] or tensors  # a tensor of no dimension is a scalar
        dims = broadcast(*(t.dims for t in operands))
        out = "bool" if truth else _result(call, promote(*(t.dtype for t in operands)))
        return _named(call.kind, operands, dims, out)

    return read


def _result(call: Call, promoted: str) -> str:
    """Return the format of the result: in place that of the first operand; a masked fill and a choice are no sums."""
    kind = call.kind
    if call.name.endswith("_") or kind in ("masked_fill", "native_dropout_backward"):
        return call.tensor(0).dtype
    if kind == "where":
        return promote(*(call.tensor(at).dtype for at in (1, 2) if call.has(at))) if call.has(1) else promoted
    return "fp32" if kind in _FLOATING and promoted.startswith(("int", "uint", "bool")) else promoted


def _named(kind: str, operands: list[Tensor], dims: Sequence[int], out: str) -> Described:
    """Return a plain operator where its formula fits: whole operands of one format, that of the result."""
    fits = all(t.elements == prod(dims) and t.dtype == out for t in operands)
    names = {1: _PLAIN | _WITH_SCALAR, 2: _WITH_TENSOR}.get(len(operands), {})
    if not fits or kind not in names:
        return elementwise(kind, operands, dims, out)
    variant = kind if kind == "sub" else ""
    formats = {"dtype_a": out, "dtype_b": out, "dtype_out": out}
    return {"op": names[kind], "variant": variant, **as_rows(dims), **formats}


def _copied(source: Tensor, dims: Sequence[int], out: str, variant: str = "") -> Described:
    if source.elements != prod(dims):
        return elementwise("copy", [source], dims, out)
    formats = {"dtype_a": source.dtype, "dtype_b": source.dtype, "dtype_out": out}
    return {"op": "copy", "variant": variant, **as_rows(dims), **formats}


def copy_into(call: Call) -> Described:
    """``copy_(self, source)``: the source may be expanded, the formats may differ."""
    target, source = call.tensor(0), call.tensor(1)
    broadcast(target.dims, source.dims)
    return _copied(source, target.dims, target.dtype)


def copy_of(call: Call) -> Described:
    """``clone(x)``, ``contiguous(x)``, ``_to_copy(x, dtype)``."""
    x = call.tensor(0)
    return _copied(x, x.dims, call.dtype(1, x.dtype) if call.kind == "to_copy" else x.dtype)


def cat(call: Call) -> Described:
    """``cat(tensors, dim)``: a copy of all of them."""
    tensors = [tensor for tensor in call.tensors(0) if tensor.dims != (0,)]
    require(bool(tensors) and all(len(tensor.dims) == len(tensors[0].dims) > 0 for tensor in tensors))
    axis, rank = call.integer(1), len(tensors[0].dims)
    require(-rank <= axis < rank)
    dims = list(tensors[0].dims)
    dims[axis] = sum(tensor.dims[axis] for tensor in tensors)
    require(prod(dims) == sum(tensor.numel for tensor in tensors))
    return _copied(Tensor(tuple(dims), tensors[0].dtype), dims, tensors[0].dtype, "cat")


def cache_write(call: Call) -> Described:
    """``reshape_and_cache_flash(key, value, key_cache, value_cache, ...)``, ``store_cache``: keys and values copied."""
    key, value, cache = (call.tensor(position) for position in range(3))
    require(bool(key.dims) and key.dims[0] == value.dims[0] > 0)
    dims = (key.dims[0], (key.numel + value.numel) // key.dims[0])
    return _copied(Tensor(dims, key.dtype), dims, cache.dtype, call.kind)


def fill(call: Call) -> Described:
    """``fill_``, ``zero_`` and random numbers: only written."""
    x = call.tensor(0)
    formats = {"dtype_a": x.dtype, "dtype_b": x.dtype, "dtype_out": x.dtype}
    return {"op": "fill", "variant": "" if call.kind in ("fill", "zero") else call.kind, **as_rows(x.dims), **formats}


def _gathered(kind: str, source: Tensor, index: Tensor, cols: int, rows: int = 0) -> Described:
    formats = {"dtype_a": source.dtype, "dtype_b": index.dtype, "dtype_out": source.dtype}
    return {"op": "gather", "variant": kind, "rows": rows or index.numel, "cols": cols, **formats}


def embedding(call: Call) -> Described:
    """``embedding(weight, indices)``."""
    weight = call.tensor(0)
    require(len(weight.dims) == 2)
    return _gathered("embedding", weight, call.tensor(1), weight.dims[1])


def embedding_backward(call: Call) -> Described:
    """``embedding_dense_backward(grad, indices, ...)``: the gradients' rows are added to those of the table."""
    grad = call.tensor(0)
    require(bool(grad.dims))
    return _gathered("embedding_backward", grad, call.tensor(1), grad.dims[-1])


def index_select(call: Call) -> Described:
    """``index_select(x, dim, index)``: slices of x across one dimension."""
    x, axis, index = call.tensor(0), call.integer(1), call.tensor(2)
    require(bool(x.dims) and -len(x.dims) <= axis < len(x.dims) and x.dims[axis] > 0)
    return _gathered(call.kind, x, index, x.numel // x.dims[axis])


def index_add(call: Call) -> Described:
    """``index_add(x, dim, index, source)`` and ``index_copy``: slices of the source across one dimension."""
    index, source = call.tensor(2), call.tensor(3)
    require(index.numel > 0 and source.numel % index.numel == 0)
    return _gathered(call.kind, source, index, source.numel // index.numel)


def gather(call: Call) -> Described:
    """``gather(x, dim, index)``, ``scatter``, ``scatter_add``: an index per element, unless the index is expanded."""
    index = call.tensor(2)
    require(index.elements > 0 and index.numel % index.elements == 0)
    return _gathered(call.kind, call.tensor(0), index, index.numel // index.elements, index.elements)


def gated(call: Call) -> Described:
    """``silu_and_mul(out, x)``: x holds gate and value side by side, each of the result's size."""
    out, x = call.tensor(0), call.tensor(1)
    require(x.numel == 2 * out.numel)
    half = Tensor(out.dims, x.dtype)
    return elementwise(call.kind, [half, half], out.dims, out.dtype)


def rotary(call: Call) -> Described:
    """``rotary_embedding(positions, query, key, head_size, cos_sin_cache, ...)``: query and key turned in place."""
    positions, q, k, cache = (call.tensor(position) for position in (0, 1, 2, 4))
    require(positions.numel > 0 and (q.numel + k.numel) % positions.numel == 0 and bool(cache.dims))
    dims = (positions.numel, (q.numel + k.numel) // positions.numel)
    angles = Tensor((positions.numel, cache.dims[-1]), cache.dtype)
    return elementwise(call.kind, [Tensor(dims, q.dtype), angles], dims, q.dtype)


def upsample(call: Call) -> Described:
    """``upsample_nearest2d(x, output_size, ...)``: every element read, those of the new size written."""
    x = call.tensor(0)
    size = call.integers(1)
    require(len(x.dims) == 2 + len(size))
    return elementwise(call.kind, [x], (*x.dims[:2], *size), x.dtype)


def foreach(call: Call) -> Described:
    """``_foreach_add_(tensors, tensors, ...)``: one element-wise operator on all members of its lists together."""
    lists = [
        call.tensors(at) for at in range(len(call)) if call.types[at] == "TensorList" or type(call.types[at]) is list
    ]
    require(bool(lists))
    total = sum(tensor.numel for tensor in lists[0])
    require(all(sum(tensor.numel for tensor in other) == total for other in lists))
    whole = Tensor((total,), lists[0][0].dtype if lists[0] else "")
    if call.kind == "foreach_zero":
        formats = {"dtype_a": whole.dtype, "dtype_b": whole.dtype, "dtype_out": whole.dtype}
        return {"op": "fill", "variant": call.kind, "rows": 1, "cols": total, **formats}
    operands = lists[1:] if call.kind == "foreach_copy" else lists
    return elementwise(call.kind, [whole] * max(len(operands), 1), (total,), whole.dtype)


def fused_adam(call: Call) -> Described:
    """``_fused_adam_(params, grads, moments, squares, max_squares, steps, ...)``; with AMSGrad it is not described."""
    params, extra = call.tensors(0), call.tensors(4)
    require(not extra)
    return _stepped("adam", call, params)


def fused_sgd(call: Call) -> Described:
    """``_fused_sgd_(params, grads, momenta, ...)``."""
    params = call.tensors(0)
    if call.tensors(2):
        return _stepped("sgd_momentum", call, params)
    whole = Tensor((sum(tensor.numel for tensor in params),), params[0].dtype if params else "")
    return elementwise(call.kind, [whole, whole], whole.dims, whole.dtype)


def _stepped(op: str, call: Call, params: list[Tensor]) -> Described:
    require(bool(params))
    dtype = params[0].dtype
    total = sum(tensor.numel for tensor in params)
    formats = {"dtype_a": dtype, "dtype_b": dtype, "dtype_out": dtype}
    return {"op": op, "variant": call.kind, "rows": 1, "cols": total, **formats}


_FILLS = ("fill", "zero", "normal", "uniform", "random", "bernoulli", "exponential", "log_normal")
_FOREACH = (
    "add", "sub", "mul", "div", "pow", "lerp", "addcmul", "addcdiv", "sqrt", "neg", "exp", "abs", "sigmoid",
    "reciprocal", "maximum", "minimum", "clamp_min", "clamp_max", "copy", "zero",
)  # fmt: skip
_GATED = ("silu_and_mul", "gelu_and_mul", "gelu_tanh_and_mul")
ELEMENTS: dict[str, Callable[[Call], Described]] = {
    **{f"aten::{name}": pointwise(1) for name in _UNARY},
    **{f"aten::{name}": pointwise(2) for name in _BINARY},
    **{f"aten::{name}": pointwise(3) for name in _TERNARY},
    **{f"aten::{name}": pointwise(2, truth=True) for name in _TESTS},
    "aten::copy": copy_into,
    **{f"aten::{name}": copy_of for name in ("clone", "contiguous", "_to_copy")},
    "aten::cat": cat,
    "aten::_cat": cat,
    "_C_cache_ops::reshape_and_cache_flash": cache_write,
    "sglang::store_cache": cache_write,
    **{f"aten::{name}": fill for name in _FILLS},
    "aten::embedding": embedding,
    "aten::embedding_dense_backward": embedding_backward,
    "aten::index_select": index_select,
    "aten::index_add": index_add,
    "aten::index_copy": index_add,
    **{f"aten::{name}": gather for name in ("gather", "scatter", "scatter_add")},
    **{f"{space}::{name}": gated for space in ("sgl_kernel", "_C", "aiter") for name in _GATED},
    **{f"{space}::rotary_embedding": rotary for space in ("sgl_kernel", "_C")},
    **{
        f"aten::upsample_{name}": upsample
        for name in ("nearest1d", "nearest2d", "nearest3d", "bilinear2d", "bicubic2d")
    },
    **{f"aten::_foreach_{name}": foreach for name in _FOREACH},
    "aten::_fused_adam": fused_adam,
    "aten::_fused_adamw": fused_adam,
    "aten::_fused_sgd": fused_sgd,
}
"""What reads the arguments of each operator; names without the mark of the in-place form."""


# Softmax, normalisations and reductions: operators on rows x cols.

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

"""Matrix products, convolutions and attention of PyTorch and of libraries called from it: operators with dimensions.

Argument positions are those of the operators' schemas (PyTorch 2.13, ``native_functions.yaml``). M, N and K are of the
row-major product C[M, N] = A[M, K] B[K, N], whatever the library is told. ``layout`` has a letter for A and one for B:
N where its rows lie one after the other in memory, T where its columns do (a linear layer's weight).
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from math import prod
from typing import Any

from .aten_call import Call, Tensor, broadcast, promote, require

Described = dict[str, Any]
_AXES = ("d", "h", "w")


def _letter(matrix: Tensor) -> str:
    """Return T for a matrix whose columns lie one after the other in memory, else N."""
    down, along = matrix.strides[-2:] if len(matrix.strides) > 1 else (0, 1)
    return "T" if down == 1 and along != 1 else "N"


def _product(a: Tensor, b: Tensor, variant: str = "", out: str = "") -> Described:
    """Return the product of two tensors by the rules of ``matmul``.

    A stack times one matrix, be it expanded (stride 0), is one gemm of tall A; stacks otherwise are batched, and an A
    that the members of the stack share counts for each of them.
    """
    rows = a.dims[-2] if len(a.dims) > 1 else 1
    k, n = (b.dims[-2], b.dims[-1]) if len(b.dims) > 1 else (b.dims[-1] if b.dims else 0, 1)
    require(bool(a.dims) and bool(b.dims) and a.dims[-1] == k)
    batch = prod(broadcast(a.dims[:-2], b.dims[:-2]))
    layout = _letter(a) + _letter(b) if len(a.dims) > 1 and len(b.dims) > 1 else ""
    found = {"variant": variant, "n": n, "k": k * max(a.packed, b.packed), "layout": layout}
    found |= {"dtype_a": a.dtype, "dtype_b": b.dtype, "dtype_out": out or promote(a.dtype, b.dtype)}
    if Tensor(b.dims[:-2], "", b.strides[:-2]).elements == 1:
        return {"op": "gemm", "m": batch * rows, **found}
    return {"op": "batched_gemm", "m": rows, "batch": batch, **found}


def mm(call: Call) -> Described:
    """``mm(a, b)``, ``bmm`` (both with an optional ``out_dtype``), ``mv``, ``dot`` and ``matmul``."""
    return _product(call.tensor(0), call.tensor(1), out=call.dtype(2, ""))


def int_mm(call: Call) -> Described:
    """``_int_mm(a, b)``: int8 to int32."""
    return _product(call.tensor(0), call.tensor(1), out="int32")


def addmm(call: Call) -> Described:
    """``addmm(bias, a, b, beta, alpha)``, ``baddbmm``, ``addmv``; with beta = 0 the first is not read.

    Six arguments are those of the overload with ``out_dtype`` before beta.

    Variant ``bias`` reads a value per column, ``addend`` a matrix of the size of the result.
    """
    first, a, b = (call.tensor(position) for position in range(3))
    variant = "bias" if first.elements <= b.dims[-1] else "addend"
    typed = len(call) == 6 and call.kind != "addmm_activation"
    beta = call.text(4 if typed else 3)
    return _product(a, b, "" if beta in ("0", "0.") else variant, call.dtype(3, "") if typed else "")


def linear(call: Call) -> Described:
    """``linear(x, weight, bias)`` and library products with the weight as n x k."""
    x, weight = call.tensor(0), call.tensor(1)
    require(len(weight.dims) == 2)
    return _product(x, _transposed(weight), "bias" if call.has(2) else "")


def _transposed(matrix: Tensor) -> Tensor:
    return Tensor(matrix.dims[::-1], matrix.dtype, matrix.strides[::-1], matrix.packed)


def scaled_mm(call: Call) -> Described:
    """``_scaled_mm(a, b, scale_a, scale_b, bias, scale_result, out_dtype)``; before 2.5 bias, out_dtype came first."""
    a, b = call.tensor(0), call.tensor(1)
    new = call.has(2) and call.tensor(2).dtype in ("fp32", "fp8")
    scale, bias, out = (call.tensor(2), 4, 6) if new else (call.tensor(4), 2, 3)
    dtype = call.dtype(out, a.dtype)
    block = _scale_block(a, scale)
    return {**_product(a, b, "bias" if call.has(bias) else "", dtype), "scale_block": block}


def _scale_block(a: Tensor, scale: Tensor) -> str:
    """Return the layout of the scales of A[m, k], by their number."""
    m, k = a.dims[-2], a.dims[-1] * a.packed
    if scale.numel == 1:
        return "tensor"
    by_size = {m: "token", m * -(-k // 128): "1x128", m * -(-k // 32): "1x32", m * -(-k // 16): "1x16"}
    if scale.dtype == "fp8":  # padded to whole tiles of 128 rows and 4 columns
        return "1x16" if a.dtype == "fp4" and scale.numel >= m * -(-k // 16) else "1x32"
    require(scale.numel in by_size)
    return by_size[scale.numel]


def cutlass_scaled_mm(call: Call) -> Described:
    """``_C::cutlass_scaled_mm(out, a, b, a_scales, b_scales, bias)`` of vLLM."""
    a = call.tensor(1)
    variant = "bias" if call.has(5) else ""
    return {
        **_product(a, call.tensor(2), variant, call.tensor(0).dtype),
        "scale_block": _scale_block(a, call.tensor(3)),
    }


def grouped_mm(call: Call) -> Described:
    """``_grouped_mm(a, b, offsets)`` with a[rows, k] shared out among the matrices of b[groups, k, n]."""
    a, b = call.tensor(0), call.tensor(1)
    require(len(a.dims) == 2 and len(b.dims) == 3 and a.dims[1] == b.dims[1])
    sizes = {"m": a.dims[0], "n": b.dims[2], "k": a.dims[1], "batch": b.dims[0]}
    formats = {"dtype_a": a.dtype, "dtype_b": b.dtype, "dtype_out": promote(a.dtype, b.dtype)}
    return {"op": "grouped_gemm", "variant": "", "layout": _letter(a) + _letter(b), **sizes, **formats}


def convolution(
    stride: int, padding: int, dilation: int, groups: int, *, bias: int = 2, transposed: int | bool = False
) -> Callable[[Call], Described]:
    """Return what reads a forward convolution with its arguments at these positions.

    A negative `bias` stands for none, a negative `groups` for as many as channels (depthwise). `transposed` is the
    position of the flag, or what the operator always is: a transposed convolution is the backward pass by data
    (direction B) of the convolution that would undo it.
    """

    def read(call: Call) -> Described:
        x, w = call.tensor(0), call.tensor(1)
        turned = transposed if isinstance(transposed, bool) else call.flag(transposed)
        group_count = call.integer(groups) if groups >= 0 else x.dims[1]
        variant = "bias" if bias >= 0 and call.has(bias) else ""
        window = [_per_axis(call, at, len(w.dims) - 2) for at in (stride, padding, dilation)]
        y = _transposed_output(call, x, w, window, group_count) if turned else _output(x, w, window)
        near, far = (y, x.dims) if turned else (x.dims, y)
        shape = _conv(near, far, w, window, group_count, _conv_layout(x))
        return {**shape, "variant": variant, "direction": "B" if turned else "F", **_formats(x, w)}

    return read


def convolution_backward(call: Call, window_at: int = 4) -> Described:
    """``convolution_backward(dy, x, w, bias_sizes, stride, padding, dilation, transposed, extra, groups, mask)``.

    The mask tells which gradients are asked for: of x (direction B), of w (W) or both (BW, two passes). Backwards of a
    transposed convolution the gradient of x is a forward pass (F, FW).
    """
    dy, x, w = (call.tensor(position) for position in range(3))
    turned, wanted = call.flag(window_at + 3), call.flags(window_at + 6)
    window = [_per_axis(call, window_at + which, len(w.dims) - 2) for which in range(3)]
    near, far = (dy.dims, x.dims) if turned else (x.dims, dy.dims)
    passes = ("F" if turned else "B") * wanted[0] + "W" * wanted[1]
    require(passes != "" and len(near) == len(far) == len(w.dims))
    shape = _conv(near, far, w, window, call.integer(window_at + 5), _conv_layout(x))
    return {**shape, "variant": "", "direction": passes, **_formats(x, w)}


def _conv(
    near: tuple[int, ...], far: tuple[int, ...], w: Tensor, window: list[list[int]], groups: int, layout: str
) -> Described:
    """Return a convolution from `near` (x of the forward problem) to `far` (y) with channels checked."""
    require(near[0] == far[0] and groups > 0 and w.dims[0] == far[1] and w.dims[1] * groups == near[1])
    axes = _AXES[3 - (len(w.dims) - 2) :]
    found = {"op": "conv", "layout": layout, "batch": near[0], "groups": groups}
    found |= {"in_channels": near[1], "out_channels": far[1], "in_h": 1, "out_h": 1, "fil_h": 1}
    sides = {"in": near[2:], "out": far[2:], "fil": w.dims[2:]} | dict(
        zip(("stride", "pad", "dil"), window, strict=True)
    )
    return found | {
        f"{side}_{axis}": size for side, sizes in sides.items() for axis, size in zip(axes, sizes, strict=True)
    }


def _formats(x: Tensor, w: Tensor) -> Described:
    return {"dtype_a": x.dtype, "dtype_b": w.dtype, "dtype_out": promote(x.dtype, w.dtype)}


def _per_axis(call: Call, position: int, axes: int) -> list[int]:
    """Return a value per axis; one value stands for all."""
    listed = call.integers(position)
    require(1 <= axes <= 3 and len(listed) in (1, axes))
    return listed * axes if len(listed) == 1 else listed


def _output(x: Tensor, w: Tensor, window: list[list[int]]) -> tuple[int, ...]:
    """Return the size of y: ``(in + 2 pad - dil (fil - 1) - 1) / stride + 1`` along each axis."""
    require(len(x.dims) == len(w.dims))
    axes = zip(x.dims[2:], w.dims[2:], *window, strict=True)
    require(all(stride > 0 for stride in window[0]))
    sizes = [(side + 2 * pad - dil * (fil - 1) - 1) // stride + 1 for side, fil, stride, pad, dil in axes]
    return (x.dims[0], w.dims[0], *sizes)


def _transposed_output(call: Call, x: Tensor, w: Tensor, window: list[list[int]], groups: int) -> tuple[int, ...]:
    """Return the size of a transposed convolution's result: ``(in - 1) stride - 2 pad + dil (fil - 1) + extra + 1``."""
    require(len(x.dims) == len(w.dims))
    extra = _per_axis(call, _EXTRA.get(call.name.rstrip("_"), 7), len(w.dims) - 2)
    axes = zip(x.dims[2:], w.dims[2:], *window, extra, strict=True)
    sizes = [(side - 1) * stride - 2 * pad + dil * (fil - 1) + more + 1 for side, fil, stride, pad, dil, more in axes]
    return (x.dims[0], w.dims[1] * groups, *sizes)


def _conv_layout(x: Tensor) -> str:
    """Return the layout of the activations; a 1-D convolution is a 2-D one of height 1."""
    channels_last = len(x.strides) > 2 and x.strides[1] == 1 and x.dims[1] > 1
    plain = "NCDHW" if len(x.dims) == 5 else "NCHW"
    return plain.replace("C", "") + "C" if channels_last else plain


#: Position of ``output_padding``; 7 in ``convolution`` and ``_convolution``.
_EXTRA = {
    "aten::cudnn_convolution_transpose": 3, "aten::miopen_convolution_transpose": 4,
    "aten::conv_transpose1d": 5, "aten::conv_transpose2d": 5, "aten::conv_transpose3d": 5,
}  # fmt: skip

_conv_nd = convolution(3, 4, 5, 6)
_conv_transpose = convolution(3, 4, 7, 6, transposed=True)
_miopen = convolution(4, 3, 5, 6)
MATRIX: dict[str, Callable[[Call], Described]] = {
    "aten::mm": mm,
    "aten::bmm": mm,
    "aten::matmul": mm,
    "aten::mv": mm,
    "aten::dot": mm,
    "aten::_int_mm": int_mm,
    "aten::addmm": addmm,
    "aten::baddbmm": addmm,
    "aten::addmv": addmm,
    "aten::_addmm_activation": addmm,
    "aten::linear": linear,
    "aten::_scaled_mm": scaled_mm,
    "aten::_grouped_mm": grouped_mm,
    "aiter::gemm_a16w16": linear,
    "vllm::rocm_unquantized_gemm": linear,
    "_C::cutlass_scaled_mm": cutlass_scaled_mm,
    "aten::convolution": convolution(3, 4, 5, 8, transposed=6),
    "aten::_convolution": convolution(3, 4, 5, 8, transposed=6),
    "aten::convolution_overrideable": convolution(3, 4, 5, 8, transposed=6),
    "aten::conv1d": _conv_nd,
    "aten::conv2d": _conv_nd,
    "aten::conv3d": _conv_nd,
    "aten::cudnn_convolution_relu": _conv_nd,
    "aten::cudnn_convolution": convolution(3, 2, 4, 5, bias=-1),
    "aten::miopen_convolution": _miopen,
    "aten::miopen_depthwise_convolution": _miopen,
    "aten::miopen_convolution_relu": _conv_nd,
    "aten::_conv_depthwise2d": convolution(4, 5, 6, -1, bias=3),
    "aten::cudnn_convolution_transpose": convolution(4, 2, 5, 6, bias=-1, transposed=True),
    "aten::miopen_convolution_transpose": convolution(5, 3, 6, 7, transposed=True),
    "aten::conv_transpose1d": _conv_transpose,
    "aten::conv_transpose2d": _conv_transpose,
    "aten::conv_transpose3d": _conv_transpose,
    "aten::convolution_backward": convolution_backward,
    "aten::convolution_backward_overrideable": partial(convolution_backward, window_at=3),
}
"""What reads the arguments of each operator; names without the mark of the in-place form."""


# Attention, as the operator ``attention`` with its dimensions.
#
# Argument positions are those of the schemas (PyTorch 2.13; flash-attn 2.7; AITER of ROCm 7). Sizes of sequences packed
# into one tensor are numbers in device memory, which no profiler records: such calls are described only where the
# totals show that every sequence has the greatest length. A window narrower than the keys is not described either.

#: Values of ``custom_mask_type``: none, causal from the top left, causal from the bottom right.
_MASKS = {"0": 0.0, "1": 1.0, "2": 1.0}


@dataclass(frozen=True)
class Signature:
    """Where an operator has its arguments: q at the position `query`, k and v after it.

    `causal` is the position of the flag (or of ``custom_mask_type``: `mask_type`, whether it is a number). Tensors are
    [batch, heads, sequence, dim] if `heads_first`, else [batch, sequence, heads, dim]. `packed` are the positions of
    the sequences' offsets for q and k and of their greatest lengths, () where there is no packed form; `window` those
    of the window's sides; `untold` those of tensors that would overrule the sizes (lengths, tables of pages). `paged`:
    k and v are pages of a cache.
    """

    causal: int
    query: int = 0
    heads_first: bool = False
    packed: tuple[int, ...] = ()
    backward: bool = False
    mask_type: bool = False
    paged: bool = False
    window: tuple[int, ...] = ()
    untold: tuple[int, ...] = ()

    def __call__(self, call: Call) -> Described:
        """Return the operator of a call."""
        q, k, v = (call.tensor(self.query + i) for i in range(3))
        causal = _MASKS.get(call.word(self.causal), -1.0) if self.mask_type else float(call.flag(self.causal))
        require(causal >= 0)
        require(len(q.dims) > 1 and q.dims[-1] == k.dims[-1] and len(k.dims) == len(v.dims) == len(q.dims))
        sizes = self._packed(call, q, k) if self._is_packed(call, q) else self._sizes(q, k)
        require(not any(call.has(position) for position in (*self.untold, *self.window)))
        self._check_window(call, sizes["seq_kv"])
        return {
            "op": "attention_backward" if self.backward else "attention",
            "variant": "",
            **sizes,
            "head_dim": q.dims[-1],
            "head_dim_v": v.dims[-1],
            "causal": causal,
            "dtype_a": q.dtype,
            "dtype_b": k.dtype,
            "dtype_out": promote(q.dtype),
        }

    def _sizes(self, q: Tensor, k: Tensor) -> dict[str, int]:
        require(len(q.dims) == len(k.dims) == 4 and q.dims[0] == k.dims[0])
        heads, seq = (1, 2) if self.heads_first else (2, 1)
        sizes = {"batch": q.dims[0], "heads": q.dims[heads], "kv_heads": k.dims[heads]}
        return sizes | {"seq_q": q.dims[seq], "seq_kv": k.dims[seq]}

    def _is_packed(self, call: Call, q: Tensor) -> bool:
        return bool(self.packed) and call.has(self.packed[0]) and (len(q.dims) == 3 or q.dims[0] == 1)

    def _packed(self, call: Call, q: Tensor, k: Tensor) -> dict[str, int]:
        """Return the sizes of sequences that all have the greatest length.

        Of pages only q can be counted: there every sequence must be whole, its keys as many as its queries.
        """
        offsets, _, longest_q, longest_k = self.packed
        batch, seq_q, seq_kv = call.tensor(offsets).numel - 1, call.integer(longest_q), call.integer(longest_k)
        require(len(q.dims) > 2 and q.dims[-3] == batch * seq_q)
        require(seq_kv == seq_q if self.paged else k.dims[-3] == batch * seq_kv)
        return {"batch": batch, "heads": q.dims[-2], "kv_heads": k.dims[-2], "seq_q": seq_q, "seq_kv": seq_kv}

    def _check_window(self, call: Call, seq_kv: int) -> None:
        """Refuse a window that hides keys; the causal side is told by the flag."""
        words = [call.text(position) for position in self.window]
        require(all(word in ("", "-1", "0") or (word.isdecimal() and int(word) >= seq_kv) for word in words))
        require(words[:1] != ["0"])  # each query would see its own key alone


_FLASH_ATTN = Signature(causal=5, window=(6, 7))
ATTENTION: dict[str, Callable[[Call], Described]] = {
    "aten::scaled_dot_product_attention": Signature(causal=5, heads_first=True),
    "aten::_scaled_dot_product_flash_attention": Signature(causal=4, heads_first=True),
    "aten::_scaled_dot_product_efficient_attention": Signature(causal=6, heads_first=True),
    "aten::_scaled_dot_product_cudnn_attention": Signature(causal=6, heads_first=True),
    "aten::_scaled_dot_product_fused_attention_overrideable": Signature(causal=5, heads_first=True),
    "aten::_flash_attention_forward": Signature(causal=8, packed=(3, 4, 5, 6), window=(11, 12), untold=(13, 15)),
    "aten::_efficient_attention_forward": Signature(
        causal=9, packed=(4, 5, 6, 7), mask_type=True, window=(13,), untold=(12,)
    ),
    "aten::_scaled_dot_product_flash_attention_backward": Signature(11, 1, heads_first=True, backward=True),
    "aten::_scaled_dot_product_efficient_attention_backward": Signature(11, 1, heads_first=True, backward=True),
    "aten::_scaled_dot_product_cudnn_attention_backward": Signature(14, 1, heads_first=True, backward=True),
    "aten::_scaled_dot_product_fused_attention_overrideable_backward": Signature(
        13, 1, heads_first=True, backward=True
    ),
    "aten::_flash_attention_backward": Signature(11, 1, packed=(6, 7, 8, 9), backward=True, window=(15, 16)),
    "aten::_efficient_attention_backward": Signature(
        14, 1, packed=(6, 7, 8, 9), backward=True, mask_type=True, window=(18,)
    ),
    "flash_attn::_flash_attn_forward": _FLASH_ATTN,
    "flash_attn::_flash_attn_varlen_forward": Signature(causal=9, packed=(3, 4, 5, 6), window=(10, 11)),
    "flash_attn::_flash_attn_backward": Signature(causal=11, query=1, backward=True, window=(12, 13)),
    "flash_attn::_flash_attn_varlen_backward": Signature(15, 1, packed=(9, 10, 11, 12), backward=True, window=(16, 17)),
    "aiter::mha_fwd": _FLASH_ATTN,
    "aiter::fmha_v3_fwd": _FLASH_ATTN,
    "aiter::mha_batch_prefill": Signature(causal=12, packed=(3, 4, 6, 7), paged=True, window=(13, 14)),
}
"""What reads the arguments of each operator."""

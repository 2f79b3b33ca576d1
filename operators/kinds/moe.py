"""A fused mixture-of-experts layer: route, up (and gate) projection, activation, down projection.

One GPU's part of it, where it is cut: with the experts shared out among ``ep`` GPUs, each meets
``tokens topk / ep`` pairs of a token and an expert on average, and holds ``experts / ep``; with
each expert cut into ``tp`` slices, its matrices are ``model_dim x inter_dim / tp``.
"""

from __future__ import annotations

import numpy as np
import pandas as pd

from ..call import Call, CallReader, Described, Tensor, require
from ..op import Dim, Op, OwnFeature, log_dims
from ..work import element_bytes, numbers, with_default
from .gemm import SCALE_BLOCK, scale_bytes


def experts_touched(frame: pd.DataFrame) -> np.ndarray:
    """Return the expected number of distinct experts of this GPU ``E (1 - (1 - topk/E)^tokens) / ep``.

    Tokens choose topk of E experts uniformly and independently of each other (occupancy problem;
    Feller, "An Introduction to Probability Theory", vol. 1, IV.2). Real routers are skewed, so this
    is an upper estimate.
    """
    tokens, experts, topk = numbers(frame, "tokens", "experts", "topk")
    ep = with_default(frame, "ep", 1.0)
    missed = 1 - np.minimum(topk / experts, 1)
    return experts * (1 - missed**tokens) / ep


def projections(frame: pd.DataFrame) -> np.ndarray:
    """Return the number of model_dim x inter_dim matrices of an expert: 3 with a gate (up, gate, down), else 2."""
    (gated,) = numbers(frame, "gated", minimum=0)
    return np.where(gated > 0, 3.0, 2.0)


def flops(frame: pd.DataFrame) -> np.ndarray:
    """Return ``2 tokens topk model_dim inter_dim p / (ep tp)``, p = 3 projections with a gate, else 2.

    Shazeer, "GLU Variants Improve Transformer", arXiv:2002.05202.
    """
    _, routed, model_dim, inter_dim = _part(frame)
    return 2 * routed * model_dim * inter_dim * projections(frame)


def _part(frame: pd.DataFrame) -> tuple[np.ndarray, np.ndarray, np.ndarray, np.ndarray]:
    """Return of one GPU the tokens that enter, pairs of token and expert, and the sizes of its matrices."""
    tokens, topk, model_dim, inter_dim, ep, tp = numbers(
        frame, "tokens", "topk", "model_dim", "inter_dim", "ep", "tp"
    )
    return (
        np.where(ep > 1, np.minimum(tokens, tokens * topk / ep), tokens),
        tokens * topk / ep,
        model_dim,
        inter_dim / tp,
    )


def least_bytes(frame: pd.DataFrame) -> np.ndarray:
    """Return `bytes_moved` where all tokens choose the same experts, none of them here if there are other GPUs."""
    experts, topk, ep = numbers(frame, "experts", "topk", "ep")
    return bytes_moved(frame, np.where(ep > 1, 0.0, np.minimum(experts, topk)))


def bytes_moved(frame: pd.DataFrame, touched: np.ndarray | None = None) -> np.ndarray:
    """Return the bytes of the weights of the experts touched, of the activations and of the result.

    ``touched p model_dim inter_dim b`` with their scales, tokens read (``tokens model_dim a``) and
    written (``tokens model_dim c``), and the hidden layer written and read once (``2 tokens topk
    inter_dim a``). `touched` is by default what `experts_touched` expects.
    """
    tokens, routed, model_dim, inter_dim = _part(frame)
    a, b, out = (element_bytes(frame, name) for name in ("dtype_a", "dtype_b", "dtype_out"))
    matrix = model_dim * inter_dim * b + scale_bytes(frame, "dtype_b", inter_dim, model_dim)
    weights = (experts_touched(frame) if touched is None else touched) * projections(frame) * matrix
    activations = tokens * model_dim * (a + out) + scale_bytes(frame, "dtype_a", tokens, model_dim)
    return weights + activations + 2 * routed * inter_dim * a


def view(frame: pd.DataFrame) -> pd.DataFrame:
    """Return one product per touched expert: m = its average tokens, n = p inter_dim, k = model_dim (FLOPs kept)."""
    _, routed, model_dim, inter_dim = _part(frame)
    touched = np.maximum(experts_touched(frame), 1e-9)
    rows = routed / touched
    return pd.DataFrame(
        {"batch": touched, "m": rows, "n": projections(frame) * inter_dim, "k": model_dim}
    )


def fused_experts(call: Call) -> Described:
    """``fused_experts(x, w1, w2, weights, ids, ...)``: w1 of the gate and up projections, w2 of the down projection.

    ``w1[experts, inter_dim or twice that, model_dim]``, ``w2[experts, model_dim, inter_dim]``,
    ``ids[tokens, topk]``. Weights in FP8 have activations in FP8. Bytes are FP4, two elements each,
    where a row of them is half a token's. Where a map of all experts to those of this GPU is among the
    arguments, the experts are shared out.

    Source: the schemas of vLLM (``fused_moe.py``, ``_aiter_ops.py``), SGLang (``fused_moe_triton``)
    and AITER (``fused_moe.py``), 2025 and 2026.
    """
    x, first, second, ids = (call.tensor(position) for position in (0, 1, 2, 4))
    require(len(x.dims) == 2 and len(first.dims) == 3 and len(second.dims) == 3)
    tokens, model_dim = x.dims
    packed = first.packed
    if packed == 1 and first.dtype == "uint8" and 2 * first.dims[2] == model_dim:
        packed = 2
    experts = second.dims[0]
    inter_dim = second.dims[2] * packed
    require(first.dims[0] == experts and first.dims[2] * packed == model_dim)
    require(second.dims[1] == model_dim and first.dims[1] in (inter_dim, 2 * inter_dim))
    require(len(ids.dims) == 2 and ids.dims[0] == tokens)
    weights = first.dtype
    if packed == 2:
        weights = "fp4"
    others = [call.tensor(position) for position in range(5, len(call)) if call.has(position)]
    shared = _shared_out(experts, others)
    dtype_a = x.dtype
    if weights == "fp8":
        dtype_a = "fp8"
    return {
        "op": "moe",
        "variant": "",
        "tokens": tokens,
        "model_dim": model_dim,
        "inter_dim": inter_dim,
        "experts": experts * shared,
        "topk": ids.dims[1],
        "gated": int(first.dims[1] == 2 * inter_dim),
        "ep": shared,
        "scale_block": _expert_scales(weights, first, others),
        "dtype_a": dtype_a,
        "dtype_b": weights,
        "dtype_out": x.dtype,
    }


def _shared_out(experts: int, others: list[Tensor]) -> int:
    """Return how many GPUs share the experts: by the map of all of them, 1 without one."""
    for tensor in others:
        whole = tensor.numel // experts
        if tensor.dtype in ("int32", "int64") and tensor.dims == (whole * experts,) and whole > 1:
            return whole
    return 1


def _expert_scales(weights: str, first: Tensor, others: list[Tensor]) -> str:
    """Return how the scales of the weights lie, "" where they are not recorded."""
    if weights == "fp4":
        return "1x32"
    experts, rows, columns = first.dims
    blocks = (experts, -(-rows // 128), -(-columns // 128))
    for tensor in others:
        if tensor.dims == blocks:
            return "1x128"
        if tensor.dims in ((experts, rows), (experts, rows, 1), (experts, 1, rows)):
            return "token"
        if tensor.dims in ((experts,), (experts, 1), (experts, 1, 1)) and tensor.dtype == "fp32":
            return "tensor"
    return ""


ATEN: dict[str, CallReader] = dict.fromkeys(
    (
        "vllm::fused_moe",
        "vllm::inplace_fused_experts",
        "vllm::outplace_fused_experts",
        "vllm::rocm_aiter_fused_moe",
        "sglang::inplace_fused_experts",
        "sglang::outplace_fused_experts",
        "aiter::fused_moe",
    ),
    fused_experts,
)
OPERATORS = (
    Op(
        "moe",
        "matrix",
        (
            Dim("tokens", "tokens that enter the layer", 64),
            Dim("model_dim", "size of a token", 4096),
            Dim("inter_dim", "size between the projections of an expert", 1024),
            Dim("experts", "experts there are", 8),
            Dim("topk", "experts that each token goes to", 2),
            Dim("gated", "1 with a gate projection, else 0", 1, kind="flag"),
            SCALE_BLOCK,
            Dim("ep", "GPUs that the experts are shared out among", default=1.0),
            Dim("tp", "GPUs that each expert is cut into slices for", default=1.0),
        ),
        ("model_dim", "inter_dim", "experts"),
        "moe {model_dim}x{inter_dim}x{experts}",
        flops,
        bytes_moved,
        view,
        _least_bytes=least_bytes,
        spread=0.5,
        features=(
            *log_dims("tokens", "model_dim", "inter_dim", "experts", "topk"),
            *log_dims("ep", "tp"),
            OwnFeature(
                "gated", "0/1", "shape", "gate projection", lambda rows: rows.dim("gated", 0)
            ),
        ),
    ),
)

"""A fused mixture-of-experts layer: route, up (and gate) projection, activation, down projection.

One GPU's part of it, where it is cut: with the experts shared out among ``ep`` GPUs, each meets
``tokens topk / ep`` pairs of a token and an expert on average, and holds ``experts / ep``; with
each expert cut into ``tp`` slices, its matrices are ``model_dim x inter_dim / tp``.
"""

from __future__ import annotations

import numpy as np
import pandas as pd

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

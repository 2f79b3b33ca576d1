"""Work of scaled dot-product attention, with grouped key/value heads and causal masks."""

from __future__ import annotations

import numpy as np
import pandas as pd

from .work import element_bytes, numbers


def kept_fraction(frame: pd.DataFrame) -> np.ndarray:
    """Return the part of the seq_q x seq_kv scores that a mask keeps.

    Without a mask 1; causal, aligned at the end of the keys, ``1 - seq_q / (2 seq_kv)`` for seq_q <= seq_kv: the
    usual half for square problems, nearly everything when one new token looks back. For seq_q > seq_kv (queries
    without keys) ``seq_kv / (2 seq_q)``.
    """
    seq_q, seq_kv = numbers(frame, "seq_q", "seq_kv")
    (causal,) = numbers(frame, "causal", minimum=0)
    kept = np.where(seq_q <= seq_kv, 1 - seq_q / (2 * seq_kv), seq_kv / (2 * seq_q))
    return np.where(causal > 0, kept, 1.0)


def flops(frame: pd.DataFrame) -> np.ndarray:
    """Return ``2 batch heads seq_q seq_kv (head_dim + head_dim_v)`` x the kept fraction: the products Q K' and P V.

    Dao, "FlashAttention-2", arXiv:2307.08691, section 4.1 (which halves it for causal masks); softmax not counted.
    ``head_dim_v``, the size of a value, is mostly ``head_dim`` (not in DeepSeek's latent attention).
    """
    qk, pv = _products(frame)
    return 2 * (qk + pv)


def backward_flops(frame: pd.DataFrame) -> np.ndarray:
    """Return the FLOPs of the backward pass: Q K' once more, dO V', dS K, dS' Q and P' dO, 2.5 times the forward's.

    Dao, "FlashAttention-2", arXiv:2307.08691, section 4.1.
    """
    qk, pv = _products(frame)
    return 2 * (3 * qk + 2 * pv)


def bytes_moved(frame: pd.DataFrame) -> np.ndarray:
    """Return the bytes of q, k, v read and of the result written once (the scores stay on the chip).

    Dao et al., "FlashAttention", arXiv:2205.14135: q and the result have ``heads`` heads, k and v ``kv_heads``.
    """
    q, k, v, result = _tensors(frame)
    a, b, out = (element_bytes(frame, name) for name in ("dtype_a", "dtype_b", "dtype_out"))
    return q * a + (k + v) * b + result * out


def backward_bytes(frame: pd.DataFrame) -> np.ndarray:
    """Return the bytes of q, k, v, the result and its gradient read, and of the gradients of q, k, v written once."""
    q, k, v, result = _tensors(frame)
    a, b, out = (element_bytes(frame, name) for name in ("dtype_a", "dtype_b", "dtype_out"))
    return 2 * (q * a + (k + v) * b + result * out)


def view(frame: pd.DataFrame) -> pd.DataFrame:
    """Return one product per head whose result is the output tile: m = seq_q, n = head_dim_v, k = seq_kv (1 + d/d_v).

    A fused kernel keeps a tile of the result and walks over the keys, so seq_kv is the inner dimension; the factor, 2
    where d = d_v, stands for the two products and keeps the FLOPs.
    """
    batch, heads, seq_q, seq_kv, d, d_v = _sizes(frame)
    return pd.DataFrame({"batch": batch * heads, "m": seq_q, "n": d_v, "k": seq_kv * (1 + d / d_v)})


def backward_view(frame: pd.DataFrame) -> pd.DataFrame:
    """Return `view` with the five products of the backward pass in k."""
    batch, heads, seq_q, seq_kv, d, d_v = _sizes(frame)
    return pd.DataFrame({"batch": batch * heads, "m": seq_q, "n": d_v, "k": seq_kv * (2 + 3 * d / d_v)})


def _sizes(frame: pd.DataFrame) -> list[np.ndarray]:
    return numbers(frame, "batch", "heads", "seq_q", "seq_kv", "head_dim", "head_dim_v")


def _products(frame: pd.DataFrame) -> tuple[np.ndarray, np.ndarray]:
    """Return the multiplications of Q K' and of P V that a mask keeps."""
    batch, heads, seq_q, seq_kv, d, d_v = _sizes(frame)
    scores = batch * heads * seq_q * seq_kv * kept_fraction(frame)
    return scores * d, scores * d_v


def _tensors(frame: pd.DataFrame) -> tuple[np.ndarray, np.ndarray, np.ndarray, np.ndarray]:
    """Return the elements of q, k, v and the result."""
    batch, heads, seq_q, seq_kv, d, d_v = _sizes(frame)
    (kv_heads,) = numbers(frame, "kv_heads")
    queries, keys = batch * heads * seq_q, batch * kv_heads * seq_kv
    return queries * d, keys * d, keys * d_v, queries * d_v

"""Work of scaled dot-product attention, with grouped key/value heads and causal masks."""

from __future__ import annotations

import numpy as np
import pandas as pd

from .columns import element_bytes, numbers


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
    """Return ``4 batch heads seq_q seq_kv head_dim`` x the kept fraction: the products Q K' and P V.

    Dao, "FlashAttention-2", arXiv:2307.08691, section 4.1 (which halves it for causal masks); softmax not counted.
    """
    batch, heads, seq_q, seq_kv, head_dim = numbers(frame, "batch", "heads", "seq_q", "seq_kv", "head_dim")
    return 4 * batch * heads * seq_q * seq_kv * head_dim * kept_fraction(frame)


def bytes_moved(frame: pd.DataFrame) -> np.ndarray:
    """Return the bytes of q, k, v read and of the result written once (the scores stay on the chip).

    Dao et al., "FlashAttention", arXiv:2205.14135: q and the result have ``heads`` heads, k and v ``kv_heads``.
    """
    batch, heads, kv_heads, seq_q, seq_kv, head_dim = numbers(
        frame, "batch", "heads", "kv_heads", "seq_q", "seq_kv", "head_dim"
    )
    a, b, out = (element_bytes(frame, name) for name in ("dtype_a", "dtype_b", "dtype_out"))
    return batch * head_dim * (heads * seq_q * (a + out) + 2 * kv_heads * seq_kv * b)


def view(frame: pd.DataFrame) -> pd.DataFrame:
    """Return one product per head whose result is the output tile: m = seq_q, n = head_dim, k = 2 seq_kv.

    A fused kernel keeps a tile of the result and walks over the keys, so seq_kv is the inner dimension; the factor 2
    stands for the two products and keeps the FLOPs.
    """
    batch, heads, seq_q, seq_kv, head_dim = numbers(frame, "batch", "heads", "seq_q", "seq_kv", "head_dim")
    return pd.DataFrame({"batch": batch * heads, "m": seq_q, "n": head_dim, "k": 2 * seq_kv})

"""Scaled dot-product attention, with grouped key/value heads and causal masks.

Of calls, positions are those of flash-attn 2.7 and AITER of ROCm 7, too. Sizes of sequences packed
into one tensor are numbers in device memory, which no profiler records: such calls are described
only where the totals show that every sequence has the greatest length. Of calls a window narrower
than the keys is not described either.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import pandas as pd

from ...errors import DataError
from ..call import Call, CallReader, Described, Tensor, promote, require
from ..op import (
    Dim,
    Dimensions,
    Measured,
    Op,
    Operands,
    OwnFeature,
    Row,
    Run,
    log_dims,
    log_feature,
    only_format,
    sizes,
)
from ..work import CATALOGUE, element_bytes, numbers, texts
from .gemm import BATCH


def kept_fraction(frame: pd.DataFrame) -> np.ndarray:
    """Return the part of the seq_q x seq_kv scores that a mask keeps.

    Without a mask 1; causal, aligned at the end of the keys, ``1 - seq_q / (2 seq_kv)`` for seq_q
    <= seq_kv: the usual half for square problems, nearly everything when one new token looks back.
    For seq_q > seq_kv (queries without keys) ``seq_kv / (2 seq_q)``. Of a window of w keys a query
    that looks back on x of them keeps min(x, w): the mean of that over the queries, as a part of
    seq_kv.
    """
    seq_q, seq_kv = numbers(frame, "seq_q", "seq_kv")
    causal, window = numbers(frame, "causal", "window", minimum=0)
    kept = np.where(seq_q <= seq_kv, 1 - seq_q / (2 * seq_kv), seq_kv / (2 * seq_q))
    kept = np.where(causal > 0, kept, 1.0)
    # Queries look back on x = first ... seq_kv keys; those beyond the window keep w of them.
    first = np.maximum(seq_kv - seq_q, 0)
    edge = np.clip(window, first, seq_kv)
    seen = ((edge**2 - first**2) / 2 + window * (seq_kv - edge)) / (
        np.maximum(seq_q, seq_kv - first) * seq_kv
    )
    narrow = (window > 0) & (window < seq_kv)
    return np.where(narrow, np.minimum(np.where(causal > 0, seen, window / seq_kv), kept), kept)


def flops(frame: pd.DataFrame) -> np.ndarray:
    """Return ``2 batch heads seq_q seq_kv (head_dim + head_dim_v)`` x the kept fraction: the products Q K' and P V.

    Dao, "FlashAttention-2", arXiv:2307.08691, section 4.1 (which halves it for causal masks);
    softmax not counted. ``head_dim_v``, the size of a value, is mostly ``head_dim`` (not in
    DeepSeek's latent attention).
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

    Dao et al., "FlashAttention", arXiv:2205.14135: q and the result have ``heads`` heads, k and v
    ``kv_heads``.
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

    A fused kernel keeps a tile of the result and walks over the keys, so seq_kv is the inner
    dimension; the factor, 2 where d = d_v, stands for the two products and keeps the FLOPs.
    """
    batch, heads, seq_q, seq_kv, d, d_v = _sizes(frame)
    return pd.DataFrame({"batch": batch * heads, "m": seq_q, "n": d_v, "k": seq_kv * (1 + d / d_v)})


def backward_view(frame: pd.DataFrame) -> pd.DataFrame:
    """Return `view` with the five products of the backward pass in k."""
    batch, heads, seq_q, seq_kv, d, d_v = _sizes(frame)
    return pd.DataFrame(
        {"batch": batch * heads, "m": seq_q, "n": d_v, "k": seq_kv * (2 + 3 * d / d_v)}
    )


def _sizes(frame: pd.DataFrame) -> list[np.ndarray]:
    return numbers(frame, "batch", "heads", "seq_q", "seq_kv", "head_dim", "head_dim_v")


def _products(frame: pd.DataFrame) -> tuple[np.ndarray, np.ndarray]:
    """Return the multiplications of Q K' and of P V that a mask keeps."""
    batch, heads, seq_q, seq_kv, d, d_v = _sizes(frame)
    scores = batch * heads * seq_q * seq_kv * kept_fraction(frame)
    return scores * d, scores * d_v


def _tensors(frame: pd.DataFrame) -> tuple[np.ndarray, np.ndarray, np.ndarray, np.ndarray]:
    """Return the elements of q, k, v and the result; keys that no window reaches are not read.

    With the variant ``latent`` the values are a part of the keys, read with them (DeepSeek-V2,
    arXiv:2405.04434, 2.1).
    """
    batch, heads, seq_q, seq_kv, d, d_v = _sizes(frame)
    (kv_heads,) = numbers(frame, "kv_heads")
    (window,) = numbers(frame, "window", minimum=0)
    read = np.where(window > 0, np.minimum(seq_kv, seq_q + window), seq_kv)
    queries = batch * heads * seq_q
    keys = batch * kv_heads * read
    values = np.where(texts(frame, "variant") == "latent", 0.0, keys * d_v)
    return queries * d, keys * d, values, queries * d_v


#: Values of ``custom_mask_type``: none, causal from the top left, causal from the bottom right.
_MASKS = {"0": 0.0, "1": 1.0, "2": 1.0}


@dataclass(frozen=True)
class Signature:
    """Where an operator has its arguments: q at the position `query`, k and v after it.

    `causal` is the position of the flag (or of ``custom_mask_type``: `mask_type`, whether it is a
    number). Tensors are [batch, heads, sequence, dim] if `heads_first`, else [batch, sequence,
    heads, dim]. `packed` are the positions of the sequences' offsets for q and k and of their
    greatest lengths, () where there is no packed form; `window` those of the window's sides;
    `untold` those of tensors that would overrule the sizes (lengths, tables of pages). `paged`: k
    and v are pages of a cache.
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
        if self.mask_type:
            causal = _MASKS.get(call.word(self.causal), -1.0)
        else:
            causal = float(call.flag(self.causal))
        require(causal >= 0)
        require(
            len(q.dims) > 1
            and q.dims[-1] == k.dims[-1]
            and len(k.dims) == len(v.dims) == len(q.dims)
        )
        packed = (
            bool(self.packed) and call.has(self.packed[0]) and (len(q.dims) == 3 or q.dims[0] == 1)
        )
        if packed:
            sizes = self._packed(call, q, k)
        else:
            sizes = self._sizes(q, k)
        require(not any(call.has(position) for position in (*self.untold, *self.window)))
        self._check_window(call, sizes["seq_kv"])
        op = "attention"
        if self.backward:
            op = "attention_backward"
        return {
            "op": op,
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

    def _packed(self, call: Call, q: Tensor, k: Tensor) -> dict[str, int]:
        """Return the sizes of sequences that all have the greatest length.

        Of pages only q can be counted: there every sequence must be whole, its keys as many as its
        queries.
        """
        offsets, _, longest_q, longest_k = self.packed
        batch = call.tensor(offsets).numel - 1
        seq_q = call.integer(longest_q)
        seq_kv = call.integer(longest_k)
        require(len(q.dims) > 2 and q.dims[-3] == batch * seq_q)
        require(seq_kv == seq_q if self.paged else k.dims[-3] == batch * seq_kv)
        return {
            "batch": batch,
            "heads": q.dims[-2],
            "kv_heads": k.dims[-2],
            "seq_q": seq_q,
            "seq_kv": seq_kv,
        }

    def _check_window(self, call: Call, seq_kv: int) -> None:
        """Refuse a window that hides keys; the flag says which side is causal."""
        words = [call.text(position) for position in self.window]
        require(
            all(
                word in ("", "-1", "0") or (word.isdecimal() and int(word) >= seq_kv)
                for word in words
            )
        )
        require(words[:1] != ["0"])  # each query would see its key alone


_VARLEN_OF_2024 = Signature(causal=10, packed=(3, 4, 5, 6), window=(11, 12))
_VARLEN = Signature(causal=12, packed=(3, 4, 5, 6), window=(13, 14))


def varlen(call: Call) -> Described:
    """``aiter::mha_varlen_fwd`` and ``fmha_v3_varlen_fwd``: a least length and a cap of logits came between in 2025.

    Without them the causal flag is the argument at 10, where they have the cap. A cache in pages has
    another number of dimensions than the queries, and is not described.

    Source: ``aiter/ops/mha.py`` of 2024 to 2026.
    """
    if call.text(10).lower() in ("true", "false"):
        return _VARLEN_OF_2024(call)
    return _VARLEN(call)


ATEN: dict[str, CallReader] = {
    "aiter::mha_varlen_fwd": varlen,
    "aiter::fmha_v3_varlen_fwd": varlen,
}
ATEN |= {name: Signature(**places) for name, places in CATALOGUE["attention"].items()}


def _attention(make: Operands, row: Row) -> Run:
    """Return ``scaled_dot_product_attention``, grouped heads included."""
    batch, heads, seq_q, seq_kv, dim = sizes(row, "batch", "heads", "seq_q", "seq_kv", "head_dim")
    (kv_heads,) = sizes(row, "kv_heads", default=heads)
    (dim_v,) = sizes(row, "head_dim_v", default=dim)
    dtype = only_format(row)
    causal = bool(row.get("causal", False))
    if causal and seq_q != seq_kv:
        raise DataError(
            "PyTorch aligns a causal mask at the first key, rows here at the last: seq_q must be "
            "seq_kv"
        )
    if heads % kv_heads:
        raise DataError(f"heads must be a multiple of kv_heads, got {heads} and {kv_heads}")
    q = make.tensor(dtype, batch, heads, seq_q, dim)
    k = make.tensor(dtype, batch, kv_heads, seq_kv, dim)
    v = make.tensor(dtype, batch, kv_heads, seq_kv, dim_v)
    attend = make.torch.nn.functional.scaled_dot_product_attention
    grouped = {"enable_gqa": True}
    if kv_heads < heads:
        options = grouped
    else:
        options = {}
    return lambda: attend(q, k, v, is_causal=causal, **options)


def _keys(rows: Dimensions) -> np.ndarray:
    window = rows.dim("window", 0)
    keys = rows.dim("seq_kv")
    return np.log2(np.where(window > 0, np.minimum(window, keys), keys))


_DIMS = (
    BATCH,
    Dim("heads", "heads of the queries", 32),
    Dim("kv_heads", "heads of keys and values", default="=heads"),
    Dim("seq_q", "length of the queries", 512),
    Dim("seq_kv", "length of keys and values", 512),
    Dim("head_dim", "size of a head", 128),
    Dim("head_dim_v", "size of a value", default="=head_dim"),
    Dim("causal", "1 with a causal mask, else 0", default=0.0, kind="flag"),
    Dim("window", "keys that a query looks back on at most, 0 for all", default=0.0, least=0),
)
_SPREAD = 0.15
OPERATORS = (
    Op(
        "attention",
        "matrix",
        _DIMS,
        ("heads", "head_dim"),
        "attention {heads}x{head_dim}",
        flops,
        bytes_moved,
        view,
        spread=_SPREAD,
        aliases=(
            "sdpa",
            "flash_attention",
            "scaled_dot_product_attention",
            "_scaled_dot_product_flash_attention",
            "_scaled_dot_product_efficient_attention",
            "_scaled_dot_product_cudnn_attention",
        ),
        features=(
            log_feature("log2.sequences", "log2(batch) of attention", "batch"),
            *log_dims("heads", "kv_heads", "seq_q", "seq_kv", "head_dim"),
            OwnFeature("causal", "0/1", "shape", "causal mask", lambda rows: rows.dim("causal", 0)),
            OwnFeature(
                "log2.keys", "log2", "shape", "log2(keys that a query looks back on at most)", _keys
            ),
            OwnFeature(
                "log2.heads_per_key",
                "log2",
                "shape",
                "log2(heads / kv_heads)",
                lambda rows: np.log2(rows.dim("heads") / rows.dim("kv_heads")),
            ),
            OwnFeature(
                "log2.cached_heads",
                "log2",
                "shape",
                "log2(batch kv_heads), what keys can be split by",
                lambda rows: np.log2(rows.dim("batch") * rows.dim("kv_heads")),
            ),
        ),
        measured=Measured(_attention),
    ),
    Op(
        "attention_backward",
        "matrix",
        _DIMS,
        ("heads", "head_dim"),
        "attention_backward {heads}x{head_dim}",
        backward_flops,
        backward_bytes,
        backward_view,
        spread=_SPREAD,
        kernels="attention",
    ),
)

"""Attention whose state does not grow with the sequence, and the short convolutions before it.

Gated DeltaNet, Kimi Delta Attention, Mamba 2: each head keeps a matrix of head_dim x head_dim_v, to
which every token adds and from which it reads.
"""

from __future__ import annotations

import numpy as np
import pandas as pd

from ..op import Dim, Op, log_dims, log_feature
from ..work import element_bytes, numbers
from .gemm import BATCH

STATE_BYTES = 4.0  # of an element of a recurrent state, which is kept in 32 bits


def flops(frame: pd.DataFrame) -> np.ndarray:
    """Return ``6 batch seq heads head_dim head_dim_v``: the state read by the key, added to, and read by the query.

    The recurrent form of the delta rule (Yang et al., "Gated Delta Networks", arXiv:2412.06464,
    equation 10), which counts what must be done; forms in chunks do more, on matrix units.
    """
    batch, seq, heads, dim, dim_v = _sizes(frame)
    return 6 * batch * seq * heads * dim * dim_v


def bytes_moved(frame: pd.DataFrame) -> np.ndarray:
    """Return the bytes of q, k, v and the result, and of the state of every sequence read and written once."""
    batch, seq, heads, dim, dim_v = _sizes(frame)
    (key_heads,) = numbers(frame, "key_heads")
    a = element_bytes(frame, "dtype_a")
    out = element_bytes(frame, "dtype_out")
    moved = batch * seq * (2 * key_heads * dim * a + heads * dim_v * (a + out))
    return moved + 2 * batch * heads * dim * dim_v * STATE_BYTES


def view(frame: pd.DataFrame) -> pd.DataFrame:
    """Return one product per head and sequence: m = seq, n = head_dim_v, k = 3 head_dim (FLOPs kept)."""
    batch, seq, heads, dim, dim_v = _sizes(frame)
    return pd.DataFrame({"batch": batch * heads, "m": seq, "n": dim_v, "k": 3 * dim})


def state_flops(frame: pd.DataFrame) -> np.ndarray:
    """Return ``4 batch seq heads head_dim head_dim_v``: each token corrects its value by the state and adds to it.

    Two products a chunk: ``w h`` of chunk x head_dim x head_dim_v, and the keys by the corrected values
    (Yang et al., arXiv:2412.06464, section 3.3). What the chunks make of their queries is not in it.
    """
    batch, seq, heads, dim, dim_v = _sizes(frame)
    return 4 * batch * seq * heads * dim * dim_v


def state_bytes(frame: pd.DataFrame) -> np.ndarray:
    """Return the bytes of keys, corrections and values read, of values written, and of a state for every chunk."""
    batch, seq, heads, dim, dim_v = _sizes(frame)
    key_heads, chunk = numbers(frame, "key_heads", "chunk")
    a = element_bytes(frame, "dtype_a")
    out = element_bytes(frame, "dtype_out")
    tokens = batch * seq * (key_heads * dim + heads * dim + 2 * heads * dim_v) * a
    chunks = batch * np.ceil(seq / chunk)
    return tokens + chunks * heads * dim * dim_v * out


def state_view(frame: pd.DataFrame) -> pd.DataFrame:
    """Return one product per head and sequence: m = seq, n = head_dim_v, k = 2 head_dim (FLOPs kept)."""
    batch, seq, heads, dim, dim_v = _sizes(frame)
    return pd.DataFrame({"batch": batch * heads, "m": seq, "n": dim_v, "k": 2 * dim})


def conv_flops(frame: pd.DataFrame) -> np.ndarray:
    """Return ``2 batch seq channels width``: a multiply and an add for each tap of each channel's filter."""
    batch, seq, channels, width = numbers(frame, "batch", "seq", "channels", "width")
    return 2 * batch * seq * channels * width


def conv_bytes(frame: pd.DataFrame) -> np.ndarray:
    """Return the bytes of the input and the result, the filters, and the last taps of every sequence kept."""
    batch, seq, channels, width = numbers(frame, "batch", "seq", "channels", "width")
    a = element_bytes(frame, "dtype_a")
    out = element_bytes(frame, "dtype_out")
    return channels * (batch * seq * (a + out) + width * a + 2 * batch * (width - 1) * a)


def conv_view(frame: pd.DataFrame) -> pd.DataFrame:
    """Return m = tokens, n = channels, k = width."""
    batch, seq, channels, width = numbers(frame, "batch", "seq", "channels", "width")
    return pd.DataFrame({"batch": np.ones(len(frame)), "m": batch * seq, "n": channels, "k": width})


def _sizes(frame: pd.DataFrame) -> list[np.ndarray]:
    return numbers(frame, "batch", "seq", "heads", "head_dim", "head_dim_v")


_SEQ = Dim("seq", "tokens of a sequence", 512)
OPERATORS = (
    Op(
        "linear_attention",
        "matrix",
        (
            BATCH,
            _SEQ,
            Dim("heads", "heads of the queries", 32),
            Dim("key_heads", "heads of queries and keys before they are shared", default="=heads"),
            Dim("head_dim", "size of a head", 128),
            Dim("head_dim_v", "size of a value", default="=head_dim"),
        ),
        ("heads", "head_dim"),
        "linear_attention {heads}x{head_dim}",
        flops,
        bytes_moved,
        view,
        spread=0.5,
        kernels="attention",
        features=(
            log_feature("log2.recurrent_sequences", "log2(batch) of linear attention", "batch"),
            log_feature("log2.recurrent_heads", "log2(heads) of linear attention", "heads"),
            log_feature("log2.recurrent_dim", "log2(head_dim) of linear attention", "head_dim"),
            *log_dims("seq", "key_heads", "head_dim_v"),
        ),
    ),
    Op(
        "chunk_state",
        "matrix",
        (
            BATCH,
            _SEQ,
            Dim("heads", "heads of the values", 32),
            Dim("key_heads", "heads of the keys before they are shared", default="=heads"),
            Dim("head_dim", "size of a head", 128),
            Dim("head_dim_v", "size of a value", default="=head_dim"),
            Dim("chunk", "tokens of a chunk", 64),
        ),
        ("heads", "head_dim"),
        "chunk_state {heads}x{head_dim}",
        state_flops,
        state_bytes,
        state_view,
        spread=0.5,
        kernels="attention",
        features=(
            log_feature("log2.state_sequences", "log2(batch) of states by chunks", "batch"),
            log_feature("log2.state_seq", "log2(seq) of states by chunks", "seq"),
            log_feature("log2.state_heads", "log2(heads) of states by chunks", "heads"),
            log_feature("log2.state_dim", "log2(head_dim) of states by chunks", "head_dim"),
        ),
    ),
    Op(
        "causal_conv",
        "vector",
        (
            BATCH,
            _SEQ,
            Dim("channels", "channels, each with a separate filter", 4096),
            Dim("width", "taps of a filter", 4),
        ),
        ("channels",),
        "causal_conv {channels}",
        conv_flops,
        conv_bytes,
        conv_view,
        spread=0.5,
        kernels="conv",
        features=(
            log_feature("log2.conv_seq", "log2(seq) of a short convolution", "seq"),
            *log_dims("channels"),
        ),
    ),
)

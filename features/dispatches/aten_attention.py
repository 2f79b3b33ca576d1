"""Attention of PyTorch and of libraries called from it, as the operator ``attention`` with its dimensions.

Argument positions are those of the schemas (PyTorch 2.13; flash-attn 2.7; AITER of ROCm 7). Sizes of sequences packed
into one tensor are numbers in device memory, which no profiler records: such calls are described only where the totals
show that every sequence has the greatest length. A window narrower than the keys is not described either.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from .aten_call import Call, Tensor, promote, require
from .aten_matrix import Described

#: Values of ``custom_mask_type``: none, causal from the top left, causal from the bottom right.
_MASKS = {"0": 0.0, "1": 1.0, "2": 1.0}


@dataclass(frozen=True)
class Signature:
    """Where an operator has its arguments.

    Attributes
    ----------
    causal : int
        Position of the flag (or of ``custom_mask_type``: `mask_type`).
    query : int
        Position of q; k and v follow.
    heads_first : bool
        Whether tensors are [batch, heads, sequence, dim] rather than [batch, sequence, heads, dim].
    packed : tuple of int
        Positions of the sequences' offsets for q and k and of their greatest lengths, () where there is no packed form.
    backward, mask_type, paged : bool
        Whether it is the backward pass; whether `causal` is a number; whether k and v are pages of a cache.
    window, untold : tuple of int
        Positions of the window's sides; of tensors that would overrule the sizes (lengths, tables of pages).
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

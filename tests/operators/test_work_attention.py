"""FLOPs and bytes of attention."""

from __future__ import annotations

import numpy as np
import pandas as pd
import pytest

from flopcast.operators.operators import op_of

SDPA = op_of("attention")


def sdpa(**columns: object) -> pd.DataFrame:
    row = {
        "op": "attention",
        "dtype_a": "fp16",
        "batch": 2,
        "heads": 32,
        "seq_q": 512,
        "seq_kv": 512,
        "head_dim": 128,
    }
    return pd.DataFrame([row | columns])


def test_two_products_of_every_query_with_every_key():
    assert SDPA.flops(sdpa()) == 4 * 2 * 32 * 512 * 512 * 128


def test_causal_halves_the_square_and_spares_nothing_of_one_token():
    assert SDPA.flops(sdpa(causal=True)) == SDPA.flops(sdpa()) / 2
    decode = SDPA.flops(sdpa(seq_q=1, causal=True)) / SDPA.flops(sdpa(seq_q=1))
    assert decode == pytest.approx(1 - 1 / 1024)


@pytest.mark.parametrize(("seq_q", "seq_kv"), [(64, 64), (16, 256), (100, 130), (300, 200)])
def test_causal_fraction_is_the_area_below_the_diagonal(seq_q: int, seq_kv: int):
    query, key = np.mgrid[:seq_q, :seq_kv] + 0.5
    # the diagonal is half
    kept = ((key - seq_kv <= query - seq_q).mean() + (key - seq_kv < query - seq_q).mean()) / 2
    fraction = SDPA.flops(sdpa(seq_q=seq_q, seq_kv=seq_kv, causal=1)) / SDPA.flops(
        sdpa(seq_q=seq_q, seq_kv=seq_kv)
    )
    assert fraction == pytest.approx(kept, abs=1e-12)


def test_bytes_share_key_and_value_heads():
    q = 2 * 32 * 512 * 128
    assert SDPA.bytes(sdpa()) == 2 * 4 * q
    assert SDPA.bytes(sdpa(kv_heads=8)) == 2 * (2 * q + 2 * q / 4)


def test_the_view_keeps_the_flops():
    frame = sdpa(seq_kv=2048)
    assert 2 * np.prod(SDPA.gemm_view(frame).to_numpy()) == SDPA.flops(frame)[0]
    assert SDPA.gemm_view(frame).iloc[0].tolist() == [64, 512, 128, 4096]


def test_values_may_have_another_size_than_keys():
    assert SDPA.flops(sdpa(head_dim=192, head_dim_v=128)) == SDPA.flops(sdpa(head_dim=160))
    assert SDPA.bytes(sdpa(head_dim=192, head_dim_v=128)) == SDPA.bytes(sdpa(head_dim=160))
    frame = sdpa(head_dim=192, head_dim_v=128)
    assert 2 * np.prod(SDPA.gemm_view(frame).to_numpy()) == SDPA.flops(frame)[0]


def test_the_backward_pass_has_five_products_and_reads_and_writes_every_tensor():
    back = op_of("attention_backward")
    assert back.flops(sdpa(causal=True)) == 2.5 * SDPA.flops(sdpa(causal=True))
    assert back.bytes(sdpa(kv_heads=8)) == 2 * SDPA.bytes(sdpa(kv_heads=8))
    assert 2 * np.prod(back.gemm_view(sdpa()).to_numpy()) == back.flops(sdpa())[0]

"""FLOPs and bytes of mixture-of-experts layers."""

from __future__ import annotations

import numpy as np
import pandas as pd
import pytest

from flopcast.operators.kinds.moe import experts_touched
from flopcast.operators.operators import op_of

MOE = op_of("moe")


def moe(**columns: object) -> pd.DataFrame:
    row = {
        "op": "moe",
        "dtype_a": "bf16",
        "tokens": 5,
        "model_dim": 256,
        "inter_dim": 128,
        "experts": 8,
        "topk": 2,
    }
    return pd.DataFrame([row | {"gated": 1} | columns])


def test_three_projections_with_a_gate_two_without():
    assert MOE.flops(moe()) == 2 * 5 * 2 * 3 * 256 * 128
    assert MOE.flops(moe(gated=False)) == 2 * 5 * 2 * 2 * 256 * 128


def test_one_token_touches_topk_experts_and_many_touch_all():
    assert experts_touched(moe(tokens=1)) == pytest.approx(2)
    assert experts_touched(moe(tokens=10_000)) == pytest.approx(8)
    assert experts_touched(moe(tokens=3, topk=8)) == pytest.approx(8)


def test_expected_experts_agree_with_a_simulation():
    draw = np.random.default_rng(0)
    counts = [
        len({e for _ in range(5) for e in draw.choice(8, 2, replace=False)}) for _ in range(4000)
    ]
    assert experts_touched(moe()) == pytest.approx(np.mean(counts), abs=0.05)


def test_bytes_are_weights_of_the_touched_experts_and_activations():
    touched = 8 * (1 - 0.75**5)
    weights, tokens, hidden = touched * 3 * 256 * 128, 2 * 5 * 256, 2 * 5 * 2 * 128
    assert MOE.bytes(moe()) == pytest.approx(2 * (weights + tokens + hidden))
    narrow = MOE.bytes(moe(dtype_b="fp4", scale_block="1x32"))
    assert narrow == pytest.approx(weights / 2 + touched * 3 * 128 * 8 + 2 * (tokens + hidden))


def test_the_view_keeps_the_flops():
    view = MOE.gemm_view(moe())
    assert 2 * np.prod(view.to_numpy()) == pytest.approx(MOE.flops(moe())[0])
    assert view["n"].tolist() == [3 * 128]

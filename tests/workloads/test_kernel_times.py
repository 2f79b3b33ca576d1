"""Measured kernels as sources of a forecast: what is interpolated, how far it errs, and what is left to the laws."""

from collections.abc import Mapping
from itertools import product

import numpy as np
import pandas as pd
import pytest

import flopcast as fc
from flopcast.workloads.kernel_times import REPEATED, measured_times

GEMM = {"device": "H200 SXM", "op": "gemm", "dtype_a": "bf16"}
SIZES = 2.0 ** np.arange(5, 11)


def grid(same: Mapping[str, object], **sizes: object) -> pd.DataFrame:
    """Return rows of all combinations of sizes."""
    rows = pd.DataFrame(
        list(product(*(np.atleast_1d(values) for values in sizes.values()))), columns=list(sizes)
    )
    return rows.assign(**same)


def asked(**sizes: float) -> pd.DataFrame:
    return pd.DataFrame([{**GEMM, **sizes}])


def test_between_measured_sizes_times_are_powers_of_them() -> None:
    rows = grid(GEMM, m=SIZES, n=SIZES, k=SIZES)
    rows["duration_us"] = 1e-3 * rows["m"] ** 0.5 * rows["n"] ** 0.7 * rows["k"]
    times = measured_times(rows)
    for sizes in (
        (100.0, 300.0, 700.0),
        (64.0, 300.0, 700.0),
        (2000.0, 64.0, 64.0),
        (64.0, 64.0, 1500.0),
    ):
        m, n, k = sizes
        found = times(asked(m=m, n=n, k=k)).iloc[0]
        assert found["predicted_us"] == pytest.approx(1e-3 * m**0.5 * n**0.7 * k)
        assert np.log(found["upper_us"] / found["predicted_us"]) == pytest.approx(
            1.645 * REPEATED, rel=1e-3
        )


@pytest.mark.parametrize(
    "other",
    [
        {"m": 2100.0},
        {"m": 20.0},
        {"dtype_a": "fp8"},
        {"device": "B200 (HGX)"},
        {"op": "batched_gemm"},
    ],
)
def test_beyond_what_was_measured_nothing_is_said(other: dict[str, object]) -> None:
    rows = grid(GEMM, m=SIZES, n=SIZES, k=SIZES).assign(duration_us=5.0)
    found = measured_times(rows)(asked(m=100.0, n=64.0, k=64.0).assign(**{"batch": 1.0, **other}))
    assert found["extrapolated"].all()
    assert found["predicted_us"].isna().all()


def test_neighbours_may_not_lie_far_apart() -> None:
    rows = grid(GEMM, m=[*SIZES, 8192.0], n=SIZES, k=SIZES).assign(duration_us=5.0)
    assert measured_times(rows)(asked(m=5000.0, n=64.0, k=64.0))["extrapolated"].all()


def test_the_interval_is_how_far_rows_left_out_are_missed() -> None:
    rows = grid(GEMM, m=SIZES, n=SIZES, k=SIZES)
    up = np.log2(rows["m"]) % 2 == 0
    rows["duration_us"] = np.where(up, 11.0, 10.0)  # every row is missed by 10 %
    times = measured_times(rows)
    width = np.log(1.1)
    between = times(asked(m=100.0, n=64.0, k=64.0)).iloc[0]
    assert np.log(between["upper_us"] / between["predicted_us"]) == pytest.approx(
        np.hypot(width, 1.645 * REPEATED), rel=1e-3
    )
    exact = times(asked(m=64.0, n=64.0, k=64.0)).iloc[0]
    assert np.log(exact["upper_us"] / exact["predicted_us"]) == pytest.approx(
        1.645 * REPEATED, rel=1e-3
    )
    assert times(asked(m=64.0, n=64.0, k=100.0)).iloc[0]["upper_us"] == pytest.approx(
        exact["upper_us"]
    )


def test_too_few_rows_to_leave_out_promise_nothing_between_them() -> None:
    times = measured_times(grid(GEMM, m=SIZES, n=64.0, k=64.0).assign(duration_us=5.0))
    assert times(asked(m=64.0, n=64.0, k=64.0))["predicted_us"][0] == pytest.approx(5.0)
    assert times(asked(m=100.0, n=64.0, k=64.0))["extrapolated"][0]


def test_the_least_of_several_times_counts_and_collectives_are_told_apart() -> None:
    same = {
        "device": "H200 SXM",
        "op": "collective",
        "dtype_a": "bf16",
        "ranks": 8.0,
        "message_bytes": 1e6,
    }
    words = {
        "all_reduce vllm_graph": 9.0,
        "all_reduce": 12.0,
        "alltoall": 7.0,
        "all_to_all_v dispatch": 3.0,
    }
    rows = pd.DataFrame(
        [{**same, "variant": word, "duration_us": us} for word, us in words.items()]
    )
    names = ["all_reduce", "all_to_all", "broadcast"]
    found = measured_times(rows)(pd.DataFrame([{**same, "variant": name} for name in names]))[
        "predicted_us"
    ]
    assert found.tolist()[:2] == pytest.approx([9.0, 7.0])
    assert np.isnan(found[2])


MESSAGES = 2.0 ** np.arange(10, 28)
TOKENS = 2.0 ** np.arange(0, 15)


@pytest.fixture(scope="module")
def measured() -> pd.DataFrame:
    """Return kernels of Llama-3.1-8B on 2 H200: products of 10 ms, attention of 20 and 30, sums of 40."""
    same = {"device": "H200 SXM", "dtype_a": "bf16", "dtype_b": "bf16"}
    heads = {
        "heads": 16.0,
        "kv_heads": 4.0,
        "head_dim": 128.0,
        "causal": 1.0,
        "op": "attention",
        **same,
    }
    products = [(3072, 4096), (4096, 2048), (14336, 4096), (4096, 7168), (64128, 4096)]
    lengths, batches = TOKENS[5:12], TOKENS[:8]
    prompts = grid(heads, batch=batches, seq_kv=lengths).assign(duration_us=20_000.0)
    return pd.concat(
        [
            *(
                grid({**same, "op": "gemm"}, m=TOKENS, n=n, k=k).assign(duration_us=10_000.0)
                for n, k in products
            ),
            prompts.assign(seq_q=prompts["seq_kv"]),
            grid({**heads, "seq_q": 1.0}, batch=batches, seq_kv=lengths).assign(
                duration_us=30_000.0
            ),
            grid(
                {**same, "op": "collective", "variant": "all_reduce", "ranks": 2.0},
                message_bytes=MESSAGES,
            ).assign(duration_us=40_000.0),
        ],
        ignore_index=True,
    )


ASKED = {
    "gpu": "H200",
    "gpus": 2,
    "dtype": "bf16",
    "batch": 16,
    "input_len": 500,
    "output_len": 256,
}


def test_a_forecast_is_the_sum_of_measured_kernels(measured: pd.DataFrame) -> None:
    found = fc.forecast("llama-3.1-8b", **ASKED, data=measured).answers[0]
    layers, steps = 32, 256
    by_hand = {
        "products": (steps + 1) * layers * 4 * 10.0 + steps * 10.0,
        "attention": layers * 20.0,
        "cache": steps * layers * 30.0,
        "collectives": (steps + 1) * layers * 2 * 40.0,
    }
    for name, ms in by_hand.items():
        assert found.parts[name][0] == pytest.approx(ms * 1e-3, rel=0.02), name
    told = {note.code: note.values for note in found.remarks}["kernels-by-source"]
    assert dict(told) == dict.fromkeys(by_hand, 1.0)


def test_what_is_not_measured_stands_on_the_law(measured: pd.DataFrame) -> None:
    law = fc.forecast("llama-3.1-8b", **ASKED).answers[0]
    found = fc.forecast("llama-3.1-8b", **ASKED, data=measured, where="op=gemm,attention").answers[
        0
    ]
    assert found.parts["collectives"] == law.parts["collectives"]
    assert {note.code: note.values for note in found.remarks}["kernels-by-source"][
        "collectives"
    ] == 0.0
    with pytest.raises(fc.FlopcastError, match="where"):
        fc.forecast("llama-3.1-8b", **ASKED, where="op=gemm")


def test_experts_are_measured_as_one_layer() -> None:
    same = {"device": "H200 SXM", "op": "moe", "dtype_a": "bf16", "dtype_b": "bf16", "gated": 1.0}
    sizes = {
        "model_dim": 2048.0,
        "inter_dim": 768.0,
        "experts": 128.0,
        "topk": 8.0,
        "tp": 2.0,
        "ep": 1.0,
    }
    rows = grid({**same, **sizes}, tokens=TOKENS).assign(duration_us=10_000.0)
    asked = {**ASKED, "prefix_cache": True}
    law, found = (
        fc.forecast("qwen3-30b-a3b", **asked, data=data).answers[0] for data in (None, rows)
    )
    told = {note.code: note.values for note in found.remarks}["kernels-by-source"]
    experts = 256 * 48 * 10e-3
    assert told["products"] * found.parts["products"][0] == pytest.approx(experts, rel=0.02)
    assert found.parts["products"][0] != law.parts["products"][0]

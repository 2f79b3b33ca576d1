"""Parts of serving: solved by hand for a model of round figures, and how they move with the setting."""

from __future__ import annotations

from typing import Any

import numpy as np
import pandas as pd
import pytest

from flopcast.hardware import GPU
from flopcast.laws.serving_steps import steps
from flopcast.operators.operators import complete

ROUND = GPU(
    name="round",
    memory_gb=100.0,
    memory_bw_gbs=1000.0,
    link_bw_gbs=100.0,
    peaks={"bf16_matrix": 100.0, "fp8_matrix": 200.0},
)
DENSE: dict[str, Any] = {
    "op": "serving", "device": "round", "model": "m", "engine": "vllm", "dtype_a": "fp8", "input_len": 1000,
    "output_len": 500, "concurrency": 4, "tp": 2, "parameters": 11e9, "active_parameters": 11e9, "routed_parameters": 0,
    "attention_parameters": 2e9, "embedding_parameters": 1e9, "layers": 40, "width": 5000, "routed_experts": 1,
    "visited_experts": 1, "cached_elements": 100_000, "cache_heads": 8, "attention_width": 400_000,
}  # fmt: skip


def parts(**other: Any) -> Any:
    """Return the parts of one run."""
    return steps(complete(pd.DataFrame([DENSE | other])), ROUND)


def test_parts_are_those_solved_by_hand() -> None:
    found = parts()
    tpot = {name: float(values[0]) for name, values in found.tpot.items()}
    assert found.running[0] == pytest.approx(4, rel=1e-6)
    # (2e9 + 8e9) bytes and half of the embedding in 16 bits, on two GPUs of 1e12 B/s
    assert tpot["weights"] == pytest.approx((10e9 + 1e9) / 2e12 * 1e3)
    assert tpot["cache"] == pytest.approx(4 * 1250 * 100_000 / 2 / 1e12 * 1e3, rel=1e-6)
    # two tokens of the prompts of the three others
    assert tpot["prompts"] == pytest.approx(3 * 2 * 2 * 10e9 / (2 * 200e12) * 1e3, rel=1e-6)
    assert tpot["messages"] == pytest.approx(
        (4 + 3 * 2) * 4 * 40 * 5000 * 0.5 / 100e9 * 1e3, rel=1e-6
    )
    assert tpot["experts"] == tpot["routes"] == 0
    ttft = {name: float(values[0]) for name, values in found.ttft.items()}
    assert ttft["products"] == pytest.approx(1000 * 2 * 10e9 / (2 * 200e12) * 1e3)
    assert ttft["scores"] == pytest.approx(1e6 * 400_000 / (2 * 100e12) * 1e3)
    assert ttft["queue_weights"] == pytest.approx(0, abs=1e-3)


def test_parts_take_longer_where_their_kernels_reach_less_of_the_peak() -> None:
    frame = complete(pd.DataFrame([DENSE]))
    plain, slow = (
        steps(frame, ROUND),
        steps(frame, ROUND, {"few": np.array([2.0]), "many": np.array([3.0])}),
    )
    for before, after, longer in (
        (plain.tpot, slow.tpot, {"weights": 2, "products": 3, "prompts": 3}),
        (plain.ttft, slow.ttft, {"weights": 2, "products": 3, "queue_weights": 2}),
    ):
        for name in set(before) - {"crowd", "step", "queue_products"}:
            assert after[name] == pytest.approx(longer.get(name, 1) * before[name])
    # attention takes no longer
    assert plain.ttft["crowd"] < slow.ttft["crowd"] < 3 * plain.ttft["crowd"]


def test_requests_that_find_no_room_wait_for_those_that_do() -> None:
    crowded = parts(concurrency=100_000)
    assert crowded.running[0] < 100_000 / 2
    waits = float(crowded.ttft["queue_weights"][0])
    assert waits == pytest.approx(
        (100_000 / crowded.running[0] - 1) * 500 * crowded.tpot["weights"][0]
    )
    assert waits > 10 * crowded.ttft["products"][0]


def test_a_server_that_runs_fewer_requests_or_fills_less_memory_has_others_wait() -> None:
    free, limited, as_many = (
        parts(concurrency=64),
        parts(concurrency=64, running_limit=16),
        parts(running_limit=4),
    )
    assert limited.running[0] == 16
    assert limited.ttft["queue_weights"][0] == pytest.approx(3 * 500 * limited.tpot["weights"][0])
    # a limit nobody meets
    assert as_many.ttft["queue_weights"][0] == pytest.approx(parts().ttft["queue_weights"][0])
    # 100 GiB, of which weights take 5e9 and half of an embedding of 2e9 bytes, and the runtime 3e9
    roomy = parts(concurrency=64, memory_percent=50)
    assert roomy.room[0] == pytest.approx((50 * 2**30 - 5e9 - 1e9 - 3e9) / (100_000 / 2 * 1250))
    assert roomy.room[0] < free.room[0]
    assert np.isnan(parts(memory_percent=900).room[0])


def test_a_server_that_looks_for_requests_every_so_many_steps_has_them_wait_for_half_of_these() -> (
    None
):
    often, seldom = parts(), parts(receive_interval=31)
    step = sum(float(values[0]) for values in often.tpot.values())
    assert often.ttft["polls"][0] == 0
    assert seldom.ttft["polls"][0] == pytest.approx(15 * step)


def test_experts_are_read_as_far_as_they_are_visited() -> None:
    mixture = {
        "parameters": 101e9,
        "routed_parameters": 90e9,
        "routed_experts": 64,
        "visited_experts": 2,
    }
    one, many = (
        parts(**mixture, concurrency=1),
        parts(**mixture, concurrency=4096, input_len=8, output_len=8),
    )
    whole = 90e9 / (2 * 1e12) * 1e3
    assert one.tpot["experts"][0] == pytest.approx(whole * 2 / 64, rel=1e-3)
    assert many.tpot["experts"][0] == pytest.approx(whole, rel=1e-3)


def test_products_of_experts_are_apart_and_none_is_lost() -> None:
    mixture = {
        "parameters": 101e9,
        "routed_parameters": 95e9,
        "routed_experts": 64,
        "visited_experts": 2,
    }
    dense, mixed = parts(), parts(**mixture)
    # of 11e9 parameters that a token meets, 6e9 are not routed and 1e9 is the embedding
    assert mixed.ttft["experts"][0] == pytest.approx(1000 * 2 * 5e9 / (2 * 200e12) * 1e3)
    for name, beside in (("products", "experts"), ("crowd", "crowd_experts")):
        assert dense.ttft[beside][0] == 0
        assert mixed.ttft[name][0] + mixed.ttft[beside][0] == pytest.approx(
            dense.ttft[name][0], rel=1e-6
        )


def test_other_gpus_for_the_prompts_leave_the_steps_alone() -> None:
    assert parts(apart="yes").tpot["prompts"][0] == 0
    assert parts(apart="no").tpot["prompts"][0] > 0


def test_what_is_not_known_is_not_guessed() -> None:
    assert np.isnan(parts(parameters=np.nan).tpot["weights"][0])
    assert np.isnan(parts(device="some sample").tpot["weights"][0])


def test_laws_are_sums_of_the_parts() -> None:
    found = parts()
    tpot, ttft = (
        float(sum(values[0] for values in kind.values())) for kind in (found.tpot, found.ttft)
    )
    answer = np.array([500.0])
    laws = {
        name: found.law(name, answer)
        for name in ("tpot_ms", "ttft_ms", "duration_us", "output_tokens_per_s")
    }
    whole = ttft + 499 * tpot
    expected = [tpot, ttft, whole * 1e3, 4 * 500 / whole * 1e3]
    assert [float(law[0]) for law in laws.values() if law is not None] == pytest.approx(expected)
    assert found.law("power_w", answer) is None

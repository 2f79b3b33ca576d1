"""The simulated GPU: its times, its power and its two clocks."""

from __future__ import annotations

import numpy as np
import pytest

from flopcast.measuring.power_rigs import DRIFT, IDLE_OF_W, IDLE_W, OFFSET_NS, SimulatedGPU

GEMM = {"op": "gemm", "dtype_a": "bf16", "m": 4096, "n": 4096, "k": 4096}


def test_power_rises_to_its_level_and_is_idle_before() -> None:
    gpu = SimulatedGPU(1000.0, 0)
    gpu.use((GEMM, 1))
    train = gpu.train(60, 20_000.0, (0, 0))
    begin, end = (
        moment + OFFSET_NS for moment in (train.executions[0][0], train.executions[-1][1])
    )
    stamps, watts = (np.array(column) for column in zip(*train.readings, strict=True))
    assert watts[stamps < begin] == pytest.approx(IDLE_W, rel=0.05)
    late = (stamps > begin + 5e6) & (stamps < end)
    assert np.median(watts[late]) == pytest.approx(gpu.steady_w, rel=0.01)
    assert np.diff(stamps) == pytest.approx(1e6, rel=0.05)


def test_the_same_seed_and_key_give_the_same_train() -> None:
    one, other = SimulatedGPU(1000.0, 0), SimulatedGPU(1000.0, 0)
    for gpu in (one, other):
        gpu.use((GEMM, 1))
    first = one.train(5, 5000.0, (0, 1))
    assert first == other.train(5, 5000.0, (0, 1))
    second = one.train(5, 5000.0, (0, 2))
    other.after(first.executions[-1][1])
    again = other.train(5, 5000.0, (0, 2))
    assert again == second
    assert second.executions[0][0] - first.executions[-1][1] > 5e6


def test_the_clocks_differ_by_offset_and_drift() -> None:
    gpu = SimulatedGPU(1000.0, 0)
    gpu.use((GEMM, 1))
    pairs = [pair for run in range(50) for pair in gpu.train(5, 5000.0, (run,)).pairs]
    gpu_ns, cpu_ns, delay_ns = (np.array(column) for column in zip(*pairs, strict=True))
    apart = gpu_ns - cpu_ns - OFFSET_NS - DRIFT * (cpu_ns - cpu_ns[0])
    assert (apart > -1000).all()
    assert (apart < delay_ns + 1000).all()


def test_a_kernel_that_moves_data_draws_less_than_one_that_computes() -> None:
    gpu = SimulatedGPU(1000.0, 0)
    gpu.use((GEMM, 1))
    computing_w = gpu.steady_w
    gpu.use(({"op": "add", "dtype_a": "fp32", "rows": 2**14, "cols": 2**14}, 1))
    assert IDLE_W < gpu.steady_w < computing_w <= gpu.limit_w


def test_what_computes_loads_the_compute_dies_and_what_moves_data_memory_and_the_io_dies() -> None:
    gpu = SimulatedGPU(1000.0, 0)
    assert sum(IDLE_OF_W.values()) == IDLE_W
    largest = []
    for row in (
        GEMM,
        {"op": "add", "dtype_a": "fp32", "rows": 2**14, "cols": 2**14},
        collective("all_reduce", 2**29),
    ):
        gpu.use((row, 1))
        above_w = dict(gpu.loads[0].above_w)
        assert sum(above_w.values()) == pytest.approx(2 * above_w["total"])
        largest.append(max(IDLE_OF_W, key=lambda name: gpu.loads[0].above_w[name]))
    assert largest == ["xcd", "hbm", "iod"]


def collective(variant: str, message_bytes: int) -> dict[str, object]:
    return {
        "op": "collective",
        "variant": variant,
        "dtype_a": "bf16",
        "message_bytes": message_bytes,
        "ranks": 8,
    }


def test_small_collectives_take_their_latency_and_large_ones_the_links() -> None:
    gpu, times = SimulatedGPU(1000.0, 0), []
    for message in (2**16, 2**17, 2**29, 2**30):
        gpu.use((collective("all_gather", message), 1))
        times.append(gpu.loads[0].us)
    assert times[1] == pytest.approx(times[0], rel=0.05)
    assert times[3] == pytest.approx(2 * times[2], rel=0.05)

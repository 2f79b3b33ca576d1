from __future__ import annotations

import numpy as np
import pandas as pd
import pytest

from flopcast.evaluation.linear_scaling import median_efficiency
from flopcast.hardware import GPU

HOST = GPU(name="host", peaks={"fp16_matrix": 100.0, "fp32_vector": 10.0}, memory_bw_gbs=1000.0)
TARGET = GPU(name="target", peaks={"fp16_matrix": 200.0})
GEMM = {
    "op": "gemm",
    "m": 1000.0,
    "n": 1000.0,
    "k": 1000.0,
    "batch": 1.0,
    "dtype_a": "fp16",
    "dtype_b": "fp16",
}


def test_hand_solved() -> None:
    # 2 GFLOP in 40 µs are 50 TFLOPS; 3 matrices of 2 MB in 40 µs are 150 GB/s
    rows = pd.DataFrame([{**GEMM, "dtype_out": "fp16"}])
    found = median_efficiency(
        rows, host=HOST, host_us=np.array([40.0]), target=TARGET, target_us=np.array([20.0])
    )
    assert found.host_flops == pytest.approx(0.5)
    assert found.target_flops == pytest.approx(0.5)
    assert found.host_bandwidth == pytest.approx(0.15)
    assert np.isnan(found.target_bandwidth)  # not published, so not zero

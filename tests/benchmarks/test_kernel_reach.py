"""What kernels reach of the peak on one GPU with one engine against others, from tables whose shares are known."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pandas as pd
import pytest

from flopcast.benchmarks.kernel_reach import slower
from flopcast.hardware import find


def products(folder: Path, few: float, many: float) -> None:
    """Write products of AIConfigurator that reach such shares of the H100's bandwidth and of its rate."""
    gpu = find("H100 SXM5")
    assert gpu.memory_bw_gbs is not None
    few_s, many_s = (
        4096 * 8192 / (1e9 * gpu.memory_bw_gbs * few),
        2 * 4096**3 / (1e12 * gpu.peaks["fp8_matrix"] * many),
    )
    rows = pd.DataFrame(
        {
            "gemm_dtype": ["fp8", "fp8_block", "fp8", "other"],  # the fastest of a shape counts
            "m": [1, 1, 4096, 4096], "n": 4096, "k": [8192, 8192, 4096, 4096],
            "latency": [1e3 * few_s, 2e3 * few_s, 1e3 * many_s, 1e-9],
        }
    )  # fmt: skip
    folder.mkdir(parents=True)
    rows.to_parquet(folder / "gemm_perf.parquet")


def test_kernels_are_held_against_those_of_other_engines_and_of_amd(tmp_path: Path) -> None:
    products(tmp_path / "data" / "h100_sxm" / "gemm" / "vllm" / "0.24.0", 0.8, 0.5)
    products(tmp_path / "data" / "h100_sxm" / "gemm" / "sglang" / "0.5.9", 0.4, 0.5)
    # an older version does not count
    products(tmp_path / "data" / "h100_sxm" / "gemm" / "vllm" / "0.20.0", 0.1, 0.1)
    amd = find("MI300X")
    assert amd.memory_bw_gbs is not None
    us = [
        1e6 * 4096 * 8192 / (1e9 * amd.memory_bw_gbs * 0.4),
        1e6 * 2 * 4096**3 / (1e12 * amd.peaks["fp8_matrix"] / 4),
    ]
    (tmp_path / "a8w8_blockscale_tuned_gemm.csv").write_text(
        "gfx,cu_num,M,N,K,libtype,kernelId,splitK,us,kernelName,tflops,bw,errRatio\n"
        f"gfx942,304,1,4096,8192,ck,1,0,{us[0]},few,1,1,0.0\n"
        f"gfx942,304,4096,4096,4096,ck,1,0,{us[1]},many,1,1,0.0\n"
        "gfx950,256,1,4096,8192,ck,1,0,10,few,1,1,0.0\n"
        "gfx950,256,4096,4096,4096,ck,1,0,100,many,1,1,0.0\n"
    )
    found = slower(tmp_path / "data", tmp_path / "a8w8_blockscale_tuned_gemm.csv")
    ours, theirs, amds = (
        found[f"few|{name}|fp8"] for name in ("H100 SXM5|vllm", "H100 SXM5|sglang", "MI300X|")
    )
    # of few rows the ratio counts as its square root, of many as it is
    assert theirs - ours == pytest.approx(np.log(2) / 2, abs=1e-3)
    assert amds == pytest.approx(theirs, abs=1e-3)
    assert found["many|MI300X||fp8"] - found["many|H100 SXM5|vllm|fp8"] == pytest.approx(
        np.log(2), abs=1e-3
    )
    # an engine that has none
    assert found["few|H100 SXM5||fp8"] == pytest.approx((ours + theirs) / 2, abs=1e-3)
    assert found["few|MI300X||"] == amds  # a format that has none

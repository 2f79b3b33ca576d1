"""Logs of MIOpenDriver against sums by hand."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

import flopcast as fc
from flopcast.errors import DataError
from flopcast.operators.operators import op_of

SHAPE = "-n 4 -c 8 -H 16 -W 12 -k 32 -y 3 -x 3 -p 1 -q 1 -u 2 -v 1 -l 1 -j 1 -m conv -g 2"
FLOPS = 2 * 4 * 32 * (8 // 2) * 3 * 3 * 8 * 12
STATS = "stats: name, n, c, ho, wo, y, x, k, flopCnt, bytesRead, bytesWritten, GFLOPs, GB/s, timeMs"
LOG = f"""$ ./bin/MIOpenDriver convfp16 {SHAPE} -F 0 -t 1
MIOpenDriver convfp16 {SHAPE} -F 0 -t 1
PRNG seed: 12345678
Host Name: any; GPU Model: 8 x AMD Instinct MI300X; AMDGPU Driver: 6.16.13
MIOpen Forward Conv. Algorithm: 1, Solution: 85/ConvDirectNaiveConvFwd
GPU Kernel Time Forward Conv. Elapsed: 0.012500 ms (average)
{STATS}
stats: fwd-conv3x3u2, 4, 8, 8, 12, 3, 3, 32, {FLOPS}, 1, 1, 1, 1, 0.012500
Forward Convolution Verifies OK on GPU reference (1e-07 < 0.0082)
MIOpen Backward Data Conv. Algorithm: 0, Solution: 86/GemmBwdRest
GPU Kernel Time Backward Data Conv. Elapsed: 0.025000 ms (average)
GPU Kernel Time Backward Weights Conv. Elapsed: 0.050000 ms (average)
MIOpenDriver conv -n 1 -c 16 --in_d 5 -H 10 -W 6 -k 16 --fil_d 3 -y 1 -x 1 --pad_d=1 --spatial_dim 3 \
--in_layout NDHWC -F 1
GPU Kernel Time Forward Conv. Elapsed: 0.100000 ms (average)
MIOpenDriver conv {SHAPE} -F 1
GPU Kernel Time Forward Conv. Elapsed: 0.100000 ms (average)
{STATS}
stats: fwd-conv3x3u2, 4, 8, 8, 12, 3, 3, 32, {2 * FLOPS}, 1, 1, 1, 1, 0.1
MIOpenDriver conv {SHAPE.replace("-m conv", "-m trans")} -F 1
GPU Kernel Time Forward Conv. Elapsed: 0.100000 ms (average)
MIOpenDriver bnorm -n 4 -c 8 -H 16 -W 12 -F 1 -t 1
GPU Kernel Time Forward Batch Normalization Elapsed: 0.100000 ms (average)
"""


@pytest.fixture
def table(tmp_path: Path) -> Any:
    file = tmp_path / "driver.log"
    file.write_text(LOG)
    return fc.read(file)


def test_each_direction_of_a_convolution_is_a_row(table: Any) -> None:
    rows = table.frame
    assert rows["duration_us"].tolist() == [12.5, 25.0, 50.0, 100.0]
    assert rows["direction"].tolist() == ["F", "B", "W", "F"]
    assert rows["dtype_a"].tolist() == ["fp16"] * 3 + ["fp32"]
    assert set(rows["device"]) == {"MI300X"}
    assert rows["kernel"].tolist()[:2] == ["ConvDirectNaiveConvFwd", "GemmBwdRest"]
    assert rows.loc[0, ["out_d", "out_h", "out_w", "groups"]].tolist() == [1, 8, 12, 2]
    assert rows.loc[3, ["in_d", "out_d", "out_h", "layout"]].tolist() == [5, 5, 10, "NDHWC"]
    flops = [FLOPS] * 3 + [2 * 16 * 16 * 3 * 5 * 10 * 6]
    assert op_of("conv").flops(rows).tolist() == flops


def test_a_time_that_is_no_number_is_refused(tmp_path: Path) -> None:
    file = tmp_path / "driver.log"
    command = f"MIOpenDriver convfp16 {SHAPE} -F 1\n"
    file.write_text(f"{command}GPU Kernel Time Forward Conv. Elapsed: 1.2.3 ms (average)\n")
    with pytest.raises(DataError, match="no-duration: 1"):
        fc.read(file, default={"device": "MI300X"})


def test_what_is_no_convolution_or_contradicts_itself_is_refused(table: Any) -> None:
    assert table.rejected["reason"].tolist() == [
        "figures-contradict",
        "unknown-parameters",
        "not-a-convolution",
    ]
    assert table.rejected["detail"].tolist()[2] == "bnorm"

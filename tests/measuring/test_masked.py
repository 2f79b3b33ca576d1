"""A GPU as its own scale models: a simulated one, whose time is work over the units of its mask and a fixed part."""

from __future__ import annotations

import re
from collections.abc import Mapping
from pathlib import Path

import pandas as pd
import pytest

import flopcast as fc
from flopcast.errors import FlopcastError, ParameterError
from flopcast.measuring.backend import SMS
from flopcast.measuring.measure import MASK, measure_sizes

WORK = {4096: 30400.0, 64: 30.4}
"""Microseconds of one unit, by m."""


def simulated(name: str, out: Path, environment: Mapping[str, str]) -> int:
    """Measure two products as a GPU would, of which the mask leaves the first units."""
    last = re.fullmatch(r"1:0-([0-9]+)", environment.get(MASK, ""))
    units = int(last[1]) + 1 if last else int(environment[SMS])
    rows = [{"op": "gemm", "m": m, "duration_us": 2.0 + work / units} for m, work in WORK.items()]
    table = pd.DataFrame(rows).assign(device=name, n=64.0, k=64, dtype_a="bf16")
    table.to_parquet(out)
    return 0


def test_every_size_is_measured_and_read_by_scale(tmp_path: Path) -> None:
    table = measure_sizes([152, 38, 76], "MI300X", simulated, 1)
    assert table["device"].unique().tolist() == [f"MI300X, {size} CUs" for size in (38, 76, 152)]
    table.to_csv(tmp_path / "sizes.csv", index=False)
    found = fc.scale(tmp_path / "sizes.csv", fit=[38, 76], sizes=[152], law="proportional").table
    errors = found.set_index("benchmark")["error_percent"].abs()
    assert errors["gemm bf16 4096 64 64"] < 1  # almost all of it is work that the units share
    assert errors["gemm bf16 64 64 64"] > 50  # almost all of it is launch


@pytest.mark.parametrize("cus", [[], [0], [38, 38], [305]])
def test_sizes_are_those_of_the_gpu(cus: list[int]) -> None:
    with pytest.raises(ParameterError):
        measure_sizes(cus, "MI300X", simulated)


def test_parts_of_an_nvidia_gpu_are_whole_groups_of_its_sms() -> None:
    table = measure_sizes([132, 64], "H100", simulated)
    assert table["device"].unique().tolist() == ["H100, 64 SMs", "H100, 132 SMs"]
    assert set(table["unit"]) == {"SM"}
    with pytest.raises(ParameterError, match="multiples of 8"):
        measure_sizes([60], "H100", simulated)


def test_a_size_that_fails_ends_it() -> None:
    with pytest.raises(FlopcastError, match="38"):
        measure_sizes([38], "MI300X", lambda *_: 1)

"""The embedded measurements: what the commands find when no DATA is given, and what their page says of them."""

from __future__ import annotations

import json
import re
import tomllib
from importlib import resources
from pathlib import Path

import numpy as np
import pandas as pd
import pytest

from flopcast.datasets import DEFAULT_HOST, DEFAULT_TARGET, default_paths
from flopcast.features.matrix import Dataset, build_dataset
from flopcast.hardware import find
from flopcast.measuring.results import MEASURED, pass_differences
from flopcast.measuring.rows import shapes
from flopcast.readers import read


@pytest.fixture(scope="module")
def table() -> pd.DataFrame:
    return pd.read_parquet(default_paths()[0])


@pytest.fixture(scope="module")
def pairs() -> Dataset:
    return build_dataset(read(default_paths()).frame, host=find(DEFAULT_HOST), target=find(DEFAULT_TARGET))


@pytest.fixture(scope="module")
def page() -> str:
    return " ".join(resources.files("flopcast.datasets").joinpath("README.md").read_text(encoding="utf-8").split())


def test_the_table_holds_every_workload_on_both_devices_twice(table: pd.DataFrame) -> None:
    assert len(table) == 2080 == 4 * len(list(shapes()))
    assert table.groupby(["device", "campaign"]).size().to_dict() == {
        (device, campaign): 520 for device in ("CPU-1T", "CPU-2T") for campaign in ("pass 1", "pass 2")
    }
    for _, measured in table.groupby(["device", "campaign"]):
        rows = measured.drop(columns=["device", "cache", *MEASURED], errors="ignore").to_dict("records")
        assert [{k: v for k, v in row.items() if pd.notna(v)} for row in rows] == list(shapes())


def test_every_measurement_followed_the_protocol(table: pd.DataFrame) -> None:
    assert (table["duration_us"] > 0).all()
    assert (table["repeats"] + table["outliers"]).min() >= 50
    assert (table["spread_us"] < table["duration_us"]).all()
    assert table["duration_us"].between(table["interval_low_us"], table["interval_high_us"]).all()
    assert set(table["stopped_by"]) <= {"interval", "repeats", "time", "rounds differ"}
    assert (table["rounds"] == 3).all()
    assert (table["cache"] == "warm").all()


def test_the_reader_merges_the_passes_and_refuses_nothing() -> None:
    measured = read(default_paths())
    assert len(measured.frame) == 1040
    assert measured.rejected.empty
    assert set(measured.frame["device"]) == {find(DEFAULT_HOST).name, find(DEFAULT_TARGET).name}


@pytest.mark.no_cover
def test_host_and_target_pair_completely(pairs: Dataset) -> None:
    assert len(pairs) == 520
    assert pairs.unpaired is None
    assert set(pairs.rows["bound"]) == {"launch", "memory", "compute"}


def test_the_page_states_the_baselines(pairs: Dataset, page: str) -> None:
    for law in ("FLOPS scaling", "bandwidth scaling", "roofline scaling"):
        error = 100 * np.mean(np.abs(pairs.laws[law] - pairs.y) / pairs.y)
        assert f"{law} {error:.1f} %" in page


def test_the_page_states_the_noise_floor(table: pd.DataFrame, page: str) -> None:
    found = re.search(r"median of ([\d.]+) %, 90th percentile ([\d.]+) %", page)
    assert found is not None
    assert [float(number) for number in found.groups()] == pass_differences(table).quantile([0.5, 0.9]).round(
        1
    ).tolist()


def test_the_page_states_what_the_measurement_was_made_with(page: str) -> None:
    made_with = json.loads(default_paths()[0].with_suffix(".json").read_text(encoding="utf-8"))
    assert f"Measured on {made_with['date']}" in page
    assert f"Python {made_with['python']} and PyTorch {made_with['torch'].removesuffix('+cpu')} (CPU build)" in page


def test_two_cores_are_two_times_one() -> None:
    one, two = find(DEFAULT_HOST), find(DEFAULT_TARGET)
    assert (one.cus, two.cus) == (1, 2)
    for dtype in ("fp32", "bf16"):
        assert two.peak_tflops(dtype) == pytest.approx(2 * one.peak_tflops(dtype))
    assert one.peak_tflops("fp32", "vector") == pytest.approx(2 * 16 * 2 * 3.6e9 / 1e12)
    assert one.peak_tflops("bf16", "matrix") == pytest.approx(1024 * 3.6e9 / 1e12)


@pytest.mark.parametrize("path", [DEFAULT_HOST, DEFAULT_TARGET])
def test_the_bandwidth_is_the_best_copy_and_no_kernel_beats_a_peak(path: str, table: pd.DataFrame) -> None:
    device = find(path)
    copies = table[(table["op"] == "copy") & (table["device"] == device.name)]
    size = copies["dtype_a"].map({"fp32": 4, "bf16": 2})
    rate = 2 * copies["rows"] * copies["cols"] * size / copies["duration_us"] / 1e3
    assert device.memory_bw_gbs == pytest.approx(rate.max(), abs=0.1)
    gemms = table[(table["op"] == "gemm") & (table["device"] == device.name)]
    achieved = (2 * gemms["m"] * gemms["n"] * gemms["k"] / gemms["duration_us"] / 1e6).groupby(gemms["dtype_a"]).max()
    for dtype, tflops in achieved.items():
        assert 0.25 < tflops / device.peak_tflops(str(dtype)) < 1


@pytest.mark.parametrize("path", [DEFAULT_HOST, DEFAULT_TARGET])
def test_the_device_says_that_its_figures_are_measured(path: str) -> None:
    described = tomllib.loads(Path(path).read_text(encoding="utf-8"))
    assert any(source.startswith("measured: ") for source in described["sources"])
    assert "out of the cache" in find(path).note

"""The law that knows tiles: by hand, at its limits, and on measured pairs."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pandas as pd
import pytest

import flopcast as fc
from flopcast.features.matrix import build_dataset
from flopcast.hardware import GPU, find
from flopcast.hardware.constants import constant
from flopcast.laws import law
from flopcast.laws.bounds import memory_shares
from flopcast.operators.operators import Work, work_of

TILES = law("tiles")
GPU_10 = GPU(
    name="ten units",
    peaks={"bf16_matrix": 100.0, "fp32_vector": 10.0},
    memory_bw_gbs=1000.0,
    cus=10,
    boost_mhz=1000,
)


def product(m: float, n: float, k: float) -> Work:
    return work_of(pd.DataFrame({"op": ["gemm"], "dtype_a": "bf16", "m": m, "n": n, "k": k}))


def joined(one: float, other: float) -> float:
    norm = constant("product.norm").value
    return float((one**norm + other**norm) ** (1 / norm))


def test_a_large_product_by_hand() -> None:
    work = product(16384, 16384, 16384)
    waves = np.ceil(64 * 64 / 10)  # of 256 x 256 tiles
    loads = (256 + 256) * 2 / (64 * 1000)  # µs for a unit of k: 64 bytes a clock
    assert loads > 2 * 256 * 256 / (100e6 / 10)  # longer than to compute
    moving = work.bytes[0] / 1e6 / memory_shares(GPU_10, GPU_10)[0]
    expected = joined(waves * 16384 * loads, moving)
    assert TILES(work, GPU_10)[0] == pytest.approx(expected)


def test_k_is_split_where_one_tile_would_leave_the_units_idle() -> None:
    work = product(256, 256, 2**18)
    alone = 2**18 * max((256 + 256) * 2 / (64 * 1000), 2 * 256 * 256 / 10e6)
    assert TILES(work, GPU_10)[0] < 0.5 * alone
    assert TILES(work, replace(GPU_10, cus=1, peaks={"bf16_matrix": 10.0}))[0] >= alone


def test_what_is_no_product_takes_its_traffic_and_arithmetic() -> None:
    work = work_of(pd.DataFrame({"op": ["add"], "dtype_a": "bf16", "rows": 1e3, "cols": 1e3}))
    moving = work.bytes[0] / 1e6 / memory_shares(GPU_10, GPU_10)[0]
    assert TILES(work, GPU_10)[0] == pytest.approx(joined(work.flops[0] / 10e6, moving))


def test_no_kernel_is_shorter_than_its_fixed_time_and_unknown_work_is_unknown() -> None:
    gpu = find("MI300X")
    assert TILES(product(1, 16, 16), gpu)[0] > constant("launch.dispatch").by["AMD"]
    unknown = replace(product(64, 64, 64), m=np.array([np.nan]), bytes=np.array([np.nan]))
    assert np.isnan(TILES(unknown, gpu)).all()


def test_measured_pairs_scale_by_it_more_closely_than_by_roofline_bandwidth_or_peak() -> None:
    host, target = find("MI300X"), find("MI355X")
    dataset = build_dataset(fc.read().frame, host=host, target=target)
    errors = (dataset.laws.div(dataset.y, axis=0) - 1).abs().mean()
    assert errors.idxmin() == "tiles scaling"
    assert errors["tiles scaling"] < 0.13

"""Tile and wave quantisation."""

from __future__ import annotations

import numpy as np
import pandas as pd
import pytest
from hypothesis import given
from hypothesis import strategies as st

from flopcast.laws.bounds import SPLITS, TILES, best_tile, quantise
from flopcast.operators.operators import Work, work_of


def products(**columns: object) -> Work:
    return work_of(pd.DataFrame({"op": "batched_gemm", "dtype_a": "bf16"} | columns))


def test_one_tile_too_many_costs_a_wave():
    work = products(m=[1024.0, 1025.0], n=1024.0, k=512.0, batch=1.0)
    fit = quantise(work, cus=64)
    assert fit.waves.tolist() == [1, 2]
    assert fit.wave_efficiency.tolist() == [1, 72 / 128]
    assert fit.tile_efficiency == pytest.approx([1, 1025 / 1152])
    assert fit.stretch == pytest.approx([1, 2 * 1024 / 1025])


def test_small_tiles_run_at_a_part_of_the_rate():
    work = products(m=[128.0], n=128.0, k=64.0, batch=1.0)
    assert quantise(work, 1).stretch == pytest.approx([1])
    assert quantise(work, 1, tile=(64, 64)).stretch == pytest.approx([2])
    assert quantise(work, 1, tile=(256, 256)).stretch == pytest.approx([4])


def test_splitting_k_fills_the_device_but_not_below_its_smallest_part():
    work = products(m=[128.0], n=128.0, k=[4096.0], batch=1.0)
    assert quantise(work, 8).stretch == pytest.approx([8])
    assert quantise(work, 8, split=8).stretch == pytest.approx([1])
    short = products(m=[128.0], n=128.0, k=[64.0], batch=1.0)
    assert quantise(short, 8, split=8).stretch == pytest.approx([4])


@given(st.lists(st.integers(1, 5000), min_size=4, max_size=4), st.integers(1, 304))
def test_nothing_is_faster_than_without_losses_and_the_best_tile_is_the_best(
    sides: list[int], cus: int
):
    m, n, k, batch = map(float, sides)
    work = products(m=[m], n=[n], k=[k], batch=[batch])
    best = best_tile(work, cus)
    every = [quantise(work, cus, tile, split).stretch[0] for tile in TILES for split in SPLITS]
    assert best.stretch[0] == min(every)
    assert min(every) >= 1 - 1e-12
    fit = quantise(work, cus)
    assert (fit.waves - 1) * cus < np.ceil(m / 128) * np.ceil(n / 128) * batch <= fit.waves * cus
    assert 0 < fit.tile_efficiency[0] <= 1
    assert 0 < fit.wave_efficiency[0] <= 1

"""What measurements of one workload leave open, where a table shows it."""

from __future__ import annotations

import numpy as np
import pandas as pd
import pytest

import flopcast as fc
from flopcast.table.noise import REPEATS, TUNINGS, noise_of


def products(rows: int = 40) -> pd.DataFrame:
    return pd.DataFrame(
        {
            "op": "gemm",
            "m": np.arange(1.0, rows + 1),
            "n": 512.0,
            "k": 1024.0,
            "dtype_a": "bf16",
            "device": "MI300X",
            "duration_us": 10.0 + np.arange(rows),
        }
    )


def repeated(noise: float, times: int, seed: int = 0) -> pd.DataFrame:
    """Return each product several times, with normal noise on the logarithm."""
    rows = pd.concat([products()] * times, ignore_index=True)
    draws = np.random.default_rng(seed).normal(0, noise, len(rows))
    return rows.assign(duration_us=rows["duration_us"] * np.exp(draws))


def test_repeats_that_were_merged_show_their_spread_and_how_sure_their_median_is() -> None:
    frame = fc.read(repeated(0.05, 9)).frame
    found = noise_of(frame)
    assert found is not None
    assert (found.kind, found.workloads) == (REPEATS, 40)
    assert found.spread == pytest.approx(5 * 0.6745, rel=0.2)
    assert found.floor == pytest.approx(found.spread / 3)


def test_repeats_that_stay_rows_are_each_as_unsure_as_they_lie_apart() -> None:
    found = noise_of(fc.read(repeated(0.05, 9), each=True).frame)
    assert found is not None
    assert found.floor == found.spread == pytest.approx(5 * 0.6745, rel=0.2)


def test_problems_that_several_campaigns_tuned_show_how_far_tunings_lie_apart() -> None:
    rows = fc.read(products()).frame
    tables = []
    for name, times in (("first", 1.0), ("second", 1.2)):
        own = rows.assign(campaign=name, duration_us=rows["duration_us"] * times)
        tables += [own.assign(kernel="best"), own.assign(kernel="slower", duration_us=99.0)]
    found = noise_of(pd.concat(tables, ignore_index=True))
    assert found is not None
    assert (found.kind, found.workloads) == (TUNINGS, 40)
    assert found.floor == pytest.approx(100 * 0.1 / 1.1)


def test_single_measurements_and_a_few_repeats_show_nothing() -> None:
    assert noise_of(fc.read().frame) is None
    few = pd.concat([products(40), products(9)], ignore_index=True)
    assert noise_of(fc.read(few, each=True).frame) is None


def test_a_run_says_what_no_model_can_be_better_than() -> None:
    run = fc.train(repeated(0.05, 4), target="MI300X", models=["OLS"], group="m", jobs=1)
    shown = fc.show(run).document()
    told = [line for line in str(shown).split("'") if "no model can be better" in line]
    assert told
    noise = shown.data["data"]["noise"]
    assert noise["floor"] == pytest.approx(noise["spread"] / 2)

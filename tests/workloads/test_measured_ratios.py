"""Ratios of measured over forecast times: a process over what runs share, solved by hand."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pandas as pd
import pytest

from flopcast.hardware import find
from flopcast.workloads import model_catalogue
from flopcast.workloads.measured_ratios import LEVELS, Ratios, load, places_of, save
from flopcast.workloads.serving import figures

RUN = {
    "device": "MI355X", "model": "deepseek-r1", "engine": "sglang", "dtype_b": "fp8",
    "tp": 8.0, "dp": 1.0, "ep": 1.0, "input_len": 1024.0, "output_len": 1024.0, "concurrency": 4.0,
}  # fmt: skip


def places(*runs: dict[str, object]) -> pd.DataFrame:
    return places_of(pd.DataFrame([RUN | run for run in runs]))


def ratios(runs: pd.DataFrame, **variances: tuple[float, float]) -> Ratios:
    of_levels = dict.fromkeys(LEVELS, (0.0, 0.0)) | variances
    return Ratios(runs, of_levels, noise=0.01, centre=-0.4)


def test_one_run_moves_what_shares_its_model_and_nothing_else() -> None:
    learnt = ratios(places({}).assign(log=-0.8), model=(0.03, 0.0))
    mean, spread = learnt.of(places({"tp": 4.0}, {"model": "another"}))
    # k / (k + noise) of what it missed, and k - k² / (k + noise), with the noise of a run
    assert mean == pytest.approx([-0.4 - 0.4 * 0.03 / 0.04, -0.4])
    assert np.square(spread) == pytest.approx([0.04 - 0.03**2 / 0.04, 0.04])


def test_what_fades_is_shared_less_with_more_requests() -> None:
    learnt = ratios(places({}).assign(log=-0.8), all=(0.0, 0.03))
    mean, spread = learnt.of(places(*({"concurrency": users} for users in (4, 8, 64, 4096))))
    assert (np.diff(mean) > 0).all()
    assert (np.diff(spread) > 0).all()
    assert mean[-1] == pytest.approx(-0.4, abs=0.02)


def test_a_model_is_known_by_its_figures_under_any_name() -> None:
    of = figures(model_catalogue.find("deepseek-r1"))
    one, two = (
        places_of(pd.DataFrame([RUN | of | {"model": name}])) for name in ("deepseek-r1", "mine")
    )
    assert one["model"].tolist() == two["model"].tolist()
    learnt = ratios(one.assign(log=0.0))
    assert learnt.measured(two).tolist() == [True]
    assert learnt.measured(places({}), "model").tolist() == [False]


def test_a_gpu_of_ones_own_stands_for_the_one_that_was_measured() -> None:
    own = find("MI355X")
    rows = pd.DataFrame([RUN])
    assert places_of(rows, user_gpu=own)["gpu"].tolist() == ["MI355X"]
    assert places_of(rows.assign(device="B200 (HGX)"))["gpu"].tolist() == ["B200"]


def test_what_is_saved_answers_the_same(tmp_path: Path) -> None:
    learnt = ratios(places({}, {"tp": 4.0}).assign(log=[-0.8, -0.2]), setting=(0.02, 0.01))
    save(tmp_path / "ratios.parquet", {"one": learnt, "two": learnt}, "made up")
    again = load(tmp_path / "ratios.parquet")
    asked = places({}, {"tp": 2.0}, {"concurrency": 9.0})
    for name in ("one", "two"):
        assert np.array(again[name].of(asked)) == pytest.approx(np.array(learnt.of(asked)))

"""A GPU stands for its name wherever data, or the defaults of what they lack, name a device."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest

import flopcast as fc
from flopcast.tests.evaluation.test_corrected_error import products

HOST, TARGET = fc.gpu("MI300X"), fc.gpu("MI355X")
OWN = replace(fc.gpu("MI300X"), name="Sample 7")
ROWS = products(0, 0.02)
TIMES = ROWS[ROWS["device"] == TARGET.name].drop(columns="device")  # rows that name no device


@pytest.fixture(scope="module")
def run() -> fc.Run:
    return fc.train(TIMES, target=TARGET, default={"device": TARGET}, models=["OLS"], jobs=1)


def as_read(default: Any) -> list[str]:
    return fc.read(TIMES, default={"device": default}).frame["device"].unique().tolist()


def test_read_takes_a_gpu_of_the_catalogue_and_ones_own() -> None:
    assert as_read(HOST) == ["MI300X"]
    assert as_read(OWN) == ["Sample 7"]
    assert as_read(replace(HOST, memory_bw_gbs=1.0)) == ["MI300X (your own)"]


@pytest.mark.parametrize("own", [TARGET, replace(TARGET, name="Sample 8")])
def test_a_run_of_a_gpu_is_asked_and_checked_by_it(own: fc.GPU, tmp_path: Path) -> None:
    default = {"device": own}
    run = fc.train(TIMES, target=own, default=default, models=["OLS"], jobs=1)
    later = TIMES.assign(duration_us=1.01 * TIMES["duration_us"])
    new = later.assign(n=3 * later["n"])
    doors: dict[str, Callable[[], Any]] = {
        "predict": lambda: run.predict(later, default=default),
        "explain": lambda: run.explain(later, default=default),
        "check": lambda: run.check(later, default=default),
        "advise": lambda: fc.advise(run, new, rows=3, default=default),
        "needed": lambda: fc.needed(run, 0.001, new, default=default),
        "validate": lambda: fc.validate(
            ROWS[ROWS["device"] == "MI300X"].assign(device="MI308X"),
            TIMES,
            host="MI308X",
            target=own,
            default=default,
        ),
        "curve": lambda: fc.curve(
            TIMES, target=own, default=default, rows=[20], draws=1, models=["OLS"]
        ),
    }
    for name, door in doors.items():
        assert door() is not None, name
    for name in ("one", "two"):
        TIMES.to_csv(tmp_path / f"{name}.csv", index=False)
    files = [tmp_path / "one.csv", tmp_path / "two.csv"]
    assert fc.ingest(files[0], default=default, jobs=1).rows == len(TIMES)
    assert len(fc.compare(*files, default=default).table)


def test_cells_of_a_column_may_be_gpus(run: fc.Run) -> None:
    sides = ROWS.assign(device=ROWS["device"].map({"MI300X": HOST, "MI355X": TARGET}))
    assert set(fc.read(sides).frame["device"]) == {"MI300X", "MI355X"}
    found = run.predict(sides[sides["device"] == TARGET])
    assert found["predicted_us"].notna().all()
    assert isinstance(sides["device"].iloc[0], fc.GPU)  # the caller's table is as it was


def test_a_run_over_many_gpus_says_of_ones_own_in_a_column_how_to_state_it() -> None:
    many = fc.train(ROWS, target="all", models=["OLS"], jobs=1)
    asked = TIMES.head(6)
    stated = many.predict(asked, default={"device": OWN})
    assert stated["predicted_us"].notna().all()
    columns = many.predict(asked.assign(device=[OWN, HOST] * 3))
    assert columns["predicted_us"].notna().tolist() == [False, True] * 3
    assert "as the default of device" in columns["reason"].iloc[0]
    assert many.check(asked, default={"device": OWN}).found.score.n == 6


def test_a_gpu_stands_in_conditions_and_as_the_key_of_a_price() -> None:
    every = fc.read(ROWS, where={"device": HOST}).frame
    assert set(every["device"]) == {HOST.name}
    both = fc.read(ROWS, where={"device": [HOST, TARGET]}).frame
    assert set(both["device"]) == {HOST.name, TARGET.name}
    asked: dict[str, Any] = {"batch": 8, "input_len": 128, "output_len": 64}
    named = fc.forecast("llama-3.1-8b", gpu=HOST, price={"MI300X": 2.5}, **asked).table
    priced = fc.forecast("llama-3.1-8b", gpu=HOST, price={HOST: 2.5}, **asked).table
    assert priced["cost"].tolist() == named["cost"].tolist()


@pytest.mark.parametrize("odd", [[2], [3.5], [], [None], {}, 2])
def test_what_names_no_gpu_is_refused(odd: Any) -> None:
    doors: list[Callable[[], Any]] = [
        lambda: fc.forecast("llama-3.1-8b", gpu=odd, batch=1, input_len=8, output_len=8),
        lambda: fc.forecast("llama-3.1-8b", device=odd, batch=1, input_len=8, output_len=8),
        lambda: fc.forecast("llama-3.1-8b", gpu=odd, isl=8, osl=8, rate=1),
        lambda: fc.train(ROWS, target=odd),
        lambda: fc.project_each("trace.json", target=odd),
    ]
    for door in doors:
        with pytest.raises(fc.FlopcastError):
            door()


def test_a_column_of_values_is_a_list_of_conditions() -> None:
    sizes = sorted(ROWS["n"].unique())[:2]
    asked = fc.read(ROWS, where={"n": sizes}).frame
    for given in (np.array(sizes), pd.Series(sizes), set(sizes)):
        assert len(fc.read(ROWS, where={"n": given}).frame) == len(asked)

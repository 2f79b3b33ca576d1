"""A user's own models, features and laws compete on the same folds, are predicted with, and are saved where they can be."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest
from sklearn.compose import TransformedTargetRegressor
from sklearn.linear_model import LinearRegression, Ridge
from sklearn.model_selection import cross_val_predict

import flopcast as fc
from flopcast.errors import ArtifactError, DataError, ParameterError
from flopcast.hardware import GPU
from flopcast.operators.operators import Work

SMALL = {"m": (None, 64)}
PAIR: dict[str, Any] = {"host": "MI300X", "target": "MI355X", "jobs": 1}
ALONE: dict[str, Any] = {"target": "MI300X", "jobs": 1}


@pytest.fixture(scope="module")
def rows() -> pd.DataFrame:
    return fc.read(where=SMALL).frame


def oracle(frame: pd.DataFrame) -> dict[tuple[float, ...], float]:
    """Return the time on MI355X of each problem."""
    target = frame[frame["device"] == "MI355X"]
    sizes = target[["m", "n", "k"]].astype(float)
    return dict(zip(sizes.itertuples(index=False, name=None), target["duration_us"], strict=True))


def test_a_regressor_competes_on_the_folds_of_the_suite(rows: pd.DataFrame) -> None:
    run = fc.train(rows, models=["OLS", LinearRegression()], **PAIR)
    table = run.table[run.table["scheme"] == "grouped"].set_index("name")
    expected = cross_val_predict(
        LinearRegression(), run.X, run.y, groups=run.groups, cv=run.cv("grouped")
    )
    error = float(np.mean(np.abs(expected - run.y) / run.y) * 100)
    assert table.loc["LinearRegression", "e_out"] == pytest.approx(error)
    assert "OLS" in table.index


@pytest.mark.parametrize("scheme", ["grouped", "kfold"])
def test_the_folds_leave_each_row_out_once_and_no_group_on_both_sides(
    rows: pd.DataFrame, scheme: str
) -> None:
    run = fc.train(rows, models=[Ridge()], **PAIR)
    left_out = np.concatenate([held for _, held in run.cv(scheme)])
    assert sorted(left_out) == [*range(len(run.y))]
    for training, held in run.cv(scheme):
        assert not {*training} & {*held}
        if scheme == "grouped":
            assert not {*run.groups[training]} & {*run.groups[held]}


def test_a_model_that_cannot_be_stored_predicts_in_memory_and_is_not_saved(
    rows: pd.DataFrame, tmp_path: Path
) -> None:
    known = oracle(rows)
    best = TransformedTargetRegressor(LinearRegression(), func=np.log, inverse_func=np.exp)
    told = rows.assign(
        answer=[
            np.log(known.get(key, 1.0))
            for key in rows[["m", "n", "k"]].astype(float).itertuples(index=False, name=None)
        ]
    )
    run = fc.train(told, models=[("mine", best)], features=["answer"], **PAIR)
    assert run.selected["name"] == "mine"
    assert any("kept-in-memory" in note for note in run.metrics["data"]["notes"])
    predicted = run.predict(told[told["device"] == "MI300X"])
    assert predicted["predicted_us"].notna().all()
    with pytest.raises(ArtifactError, match="mine"):
        run.save(tmp_path / "run")
    assert not (tmp_path / "run").exists()


def test_a_column_and_a_function_are_features_of_a_saved_run(
    rows: pd.DataFrame, tmp_path: Path
) -> None:
    def aspect(table: pd.DataFrame) -> pd.Series:
        return table["k"] / table["n"]

    told = rows.assign(blocks=rows["m"].astype(float) ** 1.5)
    run = fc.train(told, models=["OLS"], features=["blocks", aspect], **PAIR)
    assert {"own.blocks", "own.aspect"} <= {*run.X}
    new = told[told["device"] == "MI300X"].head(20)
    run.save(tmp_path / "run")
    loaded = fc.load(tmp_path / "run")
    with_columns = new.assign(aspect=aspect(new))
    np.testing.assert_allclose(
        loaded.predict(with_columns)["predicted_us"], run.predict(new)["predicted_us"]
    )
    with pytest.raises(DataError, match="aspect"):
        loaded.predict(new)


def test_what_the_target_measured_is_no_feature_from_a_host(rows: pd.DataFrame) -> None:
    times = rows["duration_us"].to_numpy()
    run = fc.train(rows.assign(leak=times), models=["OLS"], features=["leak"], **PAIR)
    host = run.dataset.rows["host_duration_us"].to_numpy()
    proportional = "own.leak" in run.dataset.recipe.redundant
    assert proportional or np.allclose(run.X["own.leak"], host)


def test_what_is_measured_is_not_shown_where_there_is_no_host(rows: pd.DataFrame) -> None:
    with pytest.raises(ParameterError, match="duration_us"):
        fc.train(rows, models=["OLS"], features=["duration_us"], **ALONE)

    def cheat(table: pd.DataFrame) -> pd.Series:
        return table["duration_us"]

    with pytest.raises(ParameterError, match="cheat"):
        fc.train(rows, models=["OLS"], features=cheat, **ALONE)


@pytest.mark.parametrize(
    "features",
    [
        ["nothing"],
        ["dtype_a"],
        [3],
        [lambda table: table["m"]],
        {"short": lambda table: [1.0]},
        {"text": lambda table: ["a"] * len(table)},
        {"broken": lambda table: table["nothing"]},
    ],
)
def test_what_is_no_column_of_numbers_is_refused(rows: pd.DataFrame, features: Any) -> None:
    with pytest.raises(ParameterError) as refused:
        fc.train(rows, models=["OLS"], features=features, **PAIR)
    assert refused.value.parameter == "features"


@pytest.mark.parametrize(
    ("devices", "name"), [(PAIR, "traffic scaling"), (ALONE, "traffic")], ids=["pair", "alone"]
)
def test_a_law_is_a_baseline_of_the_same_table(
    rows: pd.DataFrame, devices: dict[str, Any], name: str
) -> None:
    def traffic(work: Work, gpu: GPU) -> np.ndarray:
        return work.bytes / gpu.require("memory_bw_gbs")

    run = fc.train(rows, models=["OLS"], laws=[traffic], **devices)
    table = run.table[run.table["kind"] == "baseline"]
    assert set(table.loc[table["name"] == name, "scheme"]) == {"kfold", "grouped"}
    twin = "bandwidth scaling" if devices is PAIR else "roofline"
    errors = table[table["scheme"] == "grouped"].set_index("name")["e_out"]
    if devices is PAIR:
        assert errors[name] == pytest.approx(errors[twin])


def test_a_law_that_wins_predicts_in_memory_and_is_not_saved(
    rows: pd.DataFrame, tmp_path: Path
) -> None:
    alone = rows[rows["device"] == "MI300X"]
    exact = alone.set_index(["m", "n", "k"])["duration_us"].groupby(level=[0, 1, 2]).median()
    known = {tuple(map(float, key)): float(value) for key, value in exact.items()}

    def truth(work: Work, gpu: GPU) -> np.ndarray:
        sizes = np.column_stack([work.m, work.n, work.k])
        return np.array([known[tuple(map(float, size))] for size in sizes])

    run = fc.train(alone, models=["OLS"], laws=[truth], **ALONE)
    assert run.selected["name"] == "truth"
    predicted = run.predict(alone.head(9))
    np.testing.assert_allclose(predicted["predicted_us"], truth_of(alone.head(9), known), rtol=1e-9)
    with pytest.raises(ArtifactError, match="truth"):
        run.save(tmp_path / "run")


def truth_of(frame: pd.DataFrame, known: dict[tuple[float, ...], float]) -> list[float]:
    sizes = frame[["m", "n", "k"]].astype(float)
    return [known[key] for key in sizes.itertuples(index=False, name=None)]


def test_a_law_that_only_competes_does_not_keep_a_run_from_being_saved(
    rows: pd.DataFrame, tmp_path: Path
) -> None:
    def wrong(work: Work, gpu: GPU) -> np.ndarray:
        return np.full(len(work), 1e6 * gpu.require("cus")) * work.m

    run = fc.train(rows, models=["OLS"], laws=[wrong], **PAIR)
    run.save(tmp_path / "run")
    new = rows[rows["device"] == "MI300X"].head(5)
    loaded = fc.load(tmp_path / "run").predict(new)
    assert "wrong scaling" not in loaded
    np.testing.assert_allclose(loaded["predicted_us"], run.predict(new)["predicted_us"])


@pytest.mark.parametrize(
    "law",
    [
        lambda work, gpu: 1.0,
        lambda work, gpu: 1 / 0,
    ],
)
def test_a_law_that_is_not_a_number_a_row_is_refused(
    rows: pd.DataFrame, law: Callable[[Work, GPU], Any]
) -> None:
    with pytest.raises(ParameterError) as refused:
        fc.train(rows, models=["OLS"], laws={"mine": law}, **PAIR)
    assert refused.value.parameter == "laws"

"""A prior: what a run over other devices predicts, corrected by a few parameters, as a model and as a feature."""

from __future__ import annotations

from collections.abc import Generator, Iterator
from contextlib import contextmanager
from itertools import product
from pathlib import Path

import numpy as np
import pandas as pd
import pytest
from scipy.stats import multivariate_normal, norm

import flopcast as fc
from flopcast.api import learning
from flopcast.errors import ArtifactError, DataError, ParameterError
from flopcast.evaluation import competition
from flopcast.models import ensembles
from flopcast.models.baselines import AnalyticLaw
from flopcast.models.prior import Corrected, Pooled, Smooth


def products(device: str, rows: int, factor: float, seed: int) -> pd.DataFrame:
    """Return products whose time has a law that no line through a roofline has, times a factor of the device."""
    random = np.random.default_rng(seed)
    m, n, k = (2.0 ** random.integers(low, 13, rows) for low in (4, 8, 8))
    bend = np.exp(0.8 * np.sin(2 * np.log2(m)) + 0.5 * np.sin(np.log2(n)))
    time = factor * bend * (20 + m * n * k / 2e8) * np.exp(random.normal(0, 0.01, rows))
    return pd.DataFrame(
        {
            "op": "gemm",
            "dtype_a": "bf16",
            "device": device,
            "m": m,
            "n": n,
            "k": k,
            "duration_us": time,
        }
    )


@contextmanager
def two_folds() -> Generator[None]:
    """Let trainings, whose models are many fits each here, have two folds."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(competition, "FOLDS", ((0, 2),))
        yield


@pytest.fixture(autouse=True)
def in_a_hurry() -> Iterator[None]:
    with two_folds():
        yield


@pytest.fixture(scope="session")
def prior(tmp_path_factory: pytest.TempPathFactory) -> Path:
    seen = pd.concat(
        [products(name, 100, 1.0, i) for i, name in enumerate(("H100 SXM5", "B300", "L40S"))]
    )
    place = tmp_path_factory.mktemp("prior") / "run"
    with two_folds():
        fc.train(seen, target="all", models="ExtraTrees/Residual", jobs=1).save(place)
    return place


@pytest.fixture(scope="session")
def run(prior: Path) -> fc.Run:
    own = products("MI300X", 24, 1.6, 9)
    with two_folds():
        return fc.train(own, target="MI300X", prior_run=prior, models=["Additive", "Prior"], jobs=1)


def test_corrected_finds_offset_and_slope() -> None:
    random = np.random.default_rng(0)
    X = pd.DataFrame({"p": np.exp(random.normal(3, 1, 400)), "z": random.normal(5, 2, 400)})
    y = 2.0 * X["p"] * np.exp(0.1 * X["z"])
    model = Corrected("p", ["z"]).fit(X, y)
    assert model.predict(X) == pytest.approx(y, rel=0.01)
    one = pd.DataFrame({"p": [8.0, 8.0], "z": [5.0, 5.0]})
    shrunk = Corrected("p", ["z"], penalty=1e9).fit(X, y)
    assert shrunk.predict(one) == pytest.approx(16 * np.exp(0.1 * X["z"].mean()), rel=0.01)


def test_smooth_follows_a_curve_through_noise_and_goes_on_flat() -> None:
    random = np.random.default_rng(0)
    x = random.uniform(0, 14, (80, 1))
    noise = random.normal(0, 0.05, 80)
    model = Smooth().fit(x, 3 + 0.3 * np.sin(x[:, 0] / 2) + noise)
    new = np.linspace(1, 13, 50)[:, None]
    assert np.abs(model.predict(new) - 3 - 0.3 * np.sin(new[:, 0] / 2)).max() < 0.06
    assert model.predict([[200.0]]) == pytest.approx(model.predict([[400.0]]), abs=0.05)
    flat = Smooth().fit(x, np.full(80, 2.0))
    assert flat.predict(new) == pytest.approx(np.full(50, 2.0))


def test_smooth_is_the_most_probable_of_its_grid_written_out() -> None:
    random = np.random.default_rng(3)
    x = random.uniform(0, 14, (12, 2))
    y = 1 + 0.2 * np.sin(x[:, 0]) + random.normal(0, 0.05, 12)
    z, new = x - x.mean(axis=0), np.array([[3.0, 7.0]]) - x.mean(axis=0)

    def covariance(one: np.ndarray, length: float, slope: float) -> np.ndarray:
        squares = ((one[:, None] - z) ** 2).sum(axis=2)
        return 4 + np.exp(-squares / (2 * length**2)) + slope * one @ z.T

    found = []
    for length, slope, spread, noise in product(
        Smooth.LENGTHS, Smooth.SLOPES, Smooth.SPREADS, Smooth.NOISES
    ):
        known = spread**2 * covariance(z, length, slope) + noise**2 * np.eye(12)
        prior = sum(
            norm.logpdf(np.log(value / middle), scale=width)
            for value, middle, width in ((length, 6.0, 0.7), (spread, 0.3, 0.8), (noise, 0.07, 0.7))
        )
        probable = multivariate_normal.logpdf(y - np.median(y), cov=known) + prior
        weights = np.linalg.solve(known, y - np.median(y))
        found.append(
            (
                probable,
                length,
                slope,
                np.median(y) + spread**2 * covariance(new, length, slope) @ weights,
            )
        )
    _, length, slope, predicted = max(found, key=lambda one: one[0])
    model = Smooth().fit(x, y)
    assert (model.length_, model.slope_) == (length, slope)
    assert model.predict([[3.0, 7.0]]) == pytest.approx(predicted)


def test_pooled_weights_fade_from_equal_to_the_better() -> None:
    for count in (4, 40):
        X = pd.DataFrame({"a": np.full(count, np.exp(0.1)), "b": np.full(count, np.exp(-0.4))})
        model = Pooled([(name, AnalyticLaw(name)) for name in X], cv=2).fit(X, np.ones(count))
        # v is (0.6 + 0.1 n) / (6 + n) of a, and (0.6 + 0.4 n) / (6 + n) of b
        ratio = ((0.6 + 0.4 * count) / (0.6 + 0.1 * count)) ** (count / 4)
        assert model.weights_["a"] == pytest.approx(ratio / (1 + ratio))
        assert model.predict(X) == pytest.approx(
            np.exp(0.1 * model.weights_["a"] - 0.4 * model.weights_["b"])
        )


def test_a_prior_and_few_rows_are_pooled_and_it_may_know_nothing_of_them(
    prior: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    # a pool is fitted many times here, and its parts as often
    monkeypatch.setattr(ensembles, "ENOUGH_ROWS", 4)
    own = products("MI300X", 12, 1.6, 4)
    found = fc.train(
        own,
        target="MI300X",
        prior_run=prior,
        models=["Additive", "Pooled/Prior"],
        scheme="kfold",
        jobs=1,
    )
    assert found.selected["name"] == "Pooled/Prior"
    strange = pd.DataFrame(
        {"op": "softmax", "dtype_a": "bf16", "device": "MI300X", "rows": [8.0, 16.0], "cols": 64.0}
    )
    told = fc.load(prior).trained.with_predictions(strange, fc.gpu("MI300X"))
    assert told["prior_duration_us"].isna().all()


def test_few_rows_and_a_prior_beat_few_rows(run: fc.Run, tmp_path: Path) -> None:
    errors = run.table.query("scheme == 'kfold'").set_index("name")["e_out"]
    assert errors["Prior"] < 0.6 * errors["Additive"]
    assert run.selected["name"] == "Prior"
    new = products("MI300X", 200, 1.6, 77)
    found = run.predict(new.drop(columns="duration_us"))
    assert np.abs(found["predicted_us"] / new["duration_us"] - 1).mean() < 0.2
    run.save(tmp_path / "run")
    pd.testing.assert_frame_equal(
        fc.load(tmp_path / "run").predict(new.drop(columns="duration_us")), found
    )
    again = tmp_path / "again"
    fc.load(tmp_path / "run").save(again)
    (again / "model" / "prior" / "estimator.zip").unlink()
    with pytest.raises(ArtifactError):
        fc.load(again)


def test_a_prior_that_was_just_trained_is_saved_with_the_run(tmp_path: Path) -> None:
    prior = fc.train(products("H100 SXM5", 20, 1.0, 1), target="H100 SXM5", models="OLS", jobs=1)
    new = products("MI300X", 20, 1.6, 9)
    run = fc.train(new, target="MI300X", prior_run=prior, models="Prior", jobs=1)
    run.save(tmp_path / "run")
    pd.testing.assert_frame_equal(fc.load(tmp_path / "run").predict(new), run.predict(new))


def test_rows_of_which_a_prior_knows_nothing_are_refused(run: fc.Run) -> None:
    with pytest.raises(DataError, match="no row can be predicted"):
        run.predict(
            pd.DataFrame({"op": ["softmax"], "dtype_a": ["fp32"], "rows": [8], "cols": [512]})
        )


def test_a_prior_of_nothing_alike_can_lose(prior: Path) -> None:
    own = products("MI300X", 60, 1.0, 5)
    strange = own.assign(duration_us=5 + own["m"] * own["n"] * own["k"] / 1e8)
    found = fc.train(
        strange, target="MI300X", prior_run=prior, models=["Additive", "Prior"], jobs=1
    )
    assert found.selected["name"] != "Prior"


def test_a_prior_must_be_of_others(prior: Path, run: fc.Run) -> None:
    for target, given, why in (
        ("B300", prior, "B300"),
        ("MI355X", run, "has a prior itself: train .* without a prior"),
        ("all", prior, "all of them"),
    ):
        with pytest.raises(ParameterError, match=why):
            fc.train(products("B300", 30, 1.0, 1), target=target, prior_run=given)
    sides = pd.concat(
        [products(name, 30, factor, 1) for name, factor in (("MI300X", 1.0), ("MI355X", 0.6))]
    )
    paired = fc.train(sides, host="MI300X", target="MI355X", models=["OLS"], jobs=1)
    with pytest.raises(
        ParameterError, match=r"MI300X measured: train one over other devices .* without a host"
    ):
        fc.train(products("B200", 30, 1.0, 1), target="B200", prior_run=paired)


def test_a_curve_says_what_a_prior_is_worth(prior: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(learning, "of_prior", lambda rows: ("Prior",))
    own = products("MI300X", 120, 1.6, 3)
    found = fc.curve(
        own, target="MI300X", prior_run=prior, rows=[20], draws=1, models="Additive"
    ).table.set_index("way")
    assert found.index.tolist() == ["target alone", "with a prior"]
    assert found["e_out"]["with a prior"] < found["e_out"]["target alone"] / 2
    with pytest.raises(ParameterError, match="one device"):
        fc.curve(own, target="all")

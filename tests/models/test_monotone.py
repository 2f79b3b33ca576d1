"""A workload that takes longer on the host takes no less on the target, by the models that hold it."""

from __future__ import annotations

from functools import cache

import numpy as np
import pandas as pd
import pytest

import flopcast as fc
from flopcast.arrays import FloatArray
from flopcast.evaluation.competition import columnar, fit_all
from flopcast.features.matrix import Dataset, build_dataset
from flopcast.models.suite import NON_DECREASING, suite
from flopcast.tests.evaluation.test_corrected_error import products

NOISE = 0.15
LONGER = (1.02, 1.1, 1.5, 4.0)
"""Times as long as measured the host takes."""
UNPAIRED = (1.5, 2.5)  # widths that the target alone has measured


def measured(longer: float = 1.0) -> pd.DataFrame:
    """Return products on a host and a target that scatter, the host's times so many times as long."""
    pairs = products(0, NOISE)
    of_host = pairs["device"] == "MI300X"
    rng = np.random.default_rng(3)
    pairs.loc[of_host, "duration_us"] *= np.exp(rng.normal(0, NOISE, int(of_host.sum())))
    pairs.loc[of_host, "duration_us"] *= longer
    alone = products(1, NOISE, widths=UNPAIRED).query("device == 'MI355X'")
    return pd.concat([pairs, alone], ignore_index=True)


@cache
def dataset(longer: float = 1.0) -> Dataset:
    rows = fc.read(measured(longer)).frame
    return build_dataset(rows, host=fc.gpu("MI300X"), target=fc.gpu("MI355X"))


def least_change(name: str, longer: float) -> float:
    """Return the least ratio of what a model predicts where the host takes longer to what it did before."""
    (candidate,) = suite("default", columnar(dataset()), names=[name])
    model = fit_all(dataset(), candidate, "kfold")
    before: FloatArray = model.predict(dataset().X)
    return float((model.predict(dataset(longer).X) / before).min())


@pytest.mark.parametrize("name", sorted(NON_DECREASING))
def test_more_time_on_the_host_never_gives_less_on_the_target(name: str) -> None:
    for longer in LONGER:
        assert least_change(name, longer) >= 1 - 1e-9


def test_laws_and_lines_never_give_less_either() -> None:
    run = fc.train(measured(), host="MI300X", target="MI355X", models=["Additive"], jobs=1)
    laws = [row["name"] for row in run.metrics["cv"][0]["baselines"] if row["error"] is None]
    assert len(laws) > 3
    before = fc.predict(run, measured()).frame
    for longer in LONGER:
        after = fc.predict(run, measured(longer)).frame
        for name in {"predicted_us", *laws} & {*before}:
            assert (after[name] / before[name]).min() >= 1 - 1e-9, name


def test_models_that_are_free_to_fall_do() -> None:
    """Otherwise the test above would show nothing."""
    names = {candidate.name for candidate in suite("default", columnar(dataset()))}
    assert names > NON_DECREASING
    falls = [least_change(name, LONGER[1]) for name in ("OLS", "BoostedTrees")]
    assert min(falls) < 1 - 1e-3

"""A saved model asks for the features that it reads, and for no others."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

import flopcast as fc
from flopcast.errors import DataError
from flopcast.tests.evaluation.test_corrected_error import products

COUNTER = "counter.SQ_WAVES"


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Return a run in which a line through the host's times was chosen, of rows with a counter that says nothing."""
    place = tmp_path_factory.mktemp("runs") / "law"
    rows = products(0, 0.02)
    chance = np.random.default_rng(0).integers(1, 1000, len(rows)).astype(float)
    rows = rows.assign(**{COUNTER: chance})
    fc.train(rows, host="MI300X", target="MI355X", models=["OLS"], jobs=1).save(place)
    return place


def test_a_law_needs_no_counter_that_it_does_not_read(folder: Path) -> None:
    run = fc.load(folder)
    assert run.trained.name == "affine"
    assert COUNTER in run.trained.recipe.columns
    assert COUNTER not in run.trained.used
    without = products(1, 0.02).query("device == 'MI300X'")
    counted = without.assign(**{COUNTER: 500.0})
    found = run.predict(without)
    assert found["predicted_us"].tolist() == run.predict(counted)["predicted_us"].tolist()
    assert found["basis"].eq("known group").all()
    assert not found["extrapolated"].any()
    half = counted.assign(**{COUNTER: [500.0, np.nan] * (len(counted) // 2)})
    assert run.predict(half)["predicted_us"].tolist() == found["predicted_us"].tolist()
    why = run.explain(without, row=2)
    assert why.found.alone == pytest.approx(found["predicted_us"].iloc[1])
    assert run.check(products(1, 0.02)).found.score.n == len(without)
    assert len(fc.advise(run, without.assign(n=3 * without["n"]), rows=2).batch) == 2


def test_a_model_that_reads_a_counter_asks_for_it() -> None:
    rows = products(0, 0.02)
    counts = np.random.default_rng(0).uniform(1e3, 1e5, len(rows) // 2)
    host = rows["device"].eq("MI300X").to_numpy()
    rows.loc[host, COUNTER] = counts
    rows.loc[~host, "duration_us"] = counts / 100  # the target goes by the counter alone
    run = fc.train(rows, host="MI300X", target="MI355X", models=["RandomForest"], jobs=1)
    assert COUNTER in run.trained.used
    with pytest.raises(DataError, match="SQ_WAVES"):
        run.predict(products(1, 0.02).query("device == 'MI300X'"))

"""A forest's error against the number of its trees."""

from __future__ import annotations

import numpy as np
import pytest
from sklearn.ensemble import RandomForestRegressor

from flopcast.benchmarks.made_up_counters import counters
from flopcast.evaluation import competition
from flopcast.evaluation.competition import FirstTrees, by_trees
from flopcast.models.base import Memo


def test_the_first_trees_of_one_forest_are_the_smaller_forest() -> None:
    data, memo = counters(40, 6), Memo()
    grown = [FirstTrees(size, 8).fit(data.X, data.y, memo=memo) for size in (2, 4, 8)]
    assert grown[0].forest_ is grown[2].forest_
    small = RandomForestRegressor(4, max_features=1 / 3, random_state=0).fit(data.X, np.log(data.y))
    expected = np.exp(
        [tree.predict(data.X.to_numpy(dtype=np.float32)) for tree in small.estimators_]
    )
    np.testing.assert_allclose(
        grown[1].predict(data.X), np.exp(np.log(expected).mean(axis=0)), rtol=1e-6
    )


def test_more_trees_err_less_under_both_schemes(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(competition, "SIZES", (2, 16))
    found = by_trees(counters(60, 6))
    assert set(found) == {"kfold", "grouped"}
    for rows in found.values():
        assert [row["trees"] for row in rows] == [2, 16]
        assert rows[1]["e_out"] < rows[0]["e_out"]
        assert set(rows[0]) == {"trees", "e_out", "e_in", "ir"}

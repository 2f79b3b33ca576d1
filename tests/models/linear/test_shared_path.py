"""Paths that searches by several criteria on the same rows share."""

from __future__ import annotations

import numpy as np
import pytest
from sklearn.pipeline import make_pipeline

from flopcast.models.base import Paths, fit
from flopcast.models.linear import stepwise
from flopcast.models.linear.stepwise import Stepwise, new_path
from flopcast.models.target_space import RelativeError


def test_equal_rows_have_the_same_path_and_others_another() -> None:
    paths = Paths()
    rows = (np.arange(3.0), np.eye(3))
    path = paths.of("kind", rows, list)
    assert paths.of("kind", (np.arange(3.0), np.eye(3)), list) is path
    assert paths.of("other", rows, list) is not path
    assert paths.of("kind", (np.arange(3.0) + 1, np.eye(3)), list) is not path
    assert paths.of("kind", (np.arange(4.0), np.eye(3)), list) is not path
    assert Paths().of("kind", rows, list) is not path


def test_paths_reach_the_search_through_wrappers_and_pipelines(monkeypatch: pytest.MonkeyPatch) -> None:
    X = np.random.default_rng(0).uniform(1, 2, (30, 4))
    y, made, paths = X[:, 0] + 2 * X[:, 1], list[str](), Paths()
    monkeypatch.setattr(stepwise, "new_path", lambda *rest: made.append(rest[3]) or new_path(*rest))
    for criterion in ("aic", "bic"):
        fit(RelativeError(make_pipeline(Stepwise(criterion=criterion))), X, y, paths=paths)
    assert made == ["ols"]
    fit(RelativeError(make_pipeline(Stepwise())), X, y)
    assert made == ["ols", "ols"]

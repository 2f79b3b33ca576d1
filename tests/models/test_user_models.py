"""Models that a user brings: their names, what is refused, and whether they can be stored."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from sklearn.cluster import KMeans
from sklearn.ensemble import HistGradientBoostingRegressor
from sklearn.linear_model import LinearRegression, LogisticRegression, Ridge

from flopcast.errors import ParameterError
from flopcast.models.suite import kept_in_memory, names_and_candidates


@pytest.mark.parametrize(
    ("given", "names", "brought"),
    [
        (None, None, []),
        ("OLS,NNLS", ["OLS", "NNLS"], []),
        (Ridge(), [], ["Ridge"]),
        ([Ridge(), Ridge(alpha=2)], [], ["Ridge", "Ridge 2"]),
        (["OLS", ("mine", Ridge())], ["OLS"], ["mine"]),
        (["all", Ridge()], None, ["Ridge"]),
    ],
)
def test_names_of_the_suite_and_own_models_are_told_apart(
    given: Any, names: list[str] | None, brought: list[str]
) -> None:
    found, candidates = names_and_candidates(given)
    assert found == names
    assert [candidate.name for candidate in candidates] == brought


@pytest.mark.parametrize(
    "wrong",
    [Ridge, LogisticRegression(), KMeans(), 3, ("mine", "OLS"), [("a", Ridge()), ("a", Ridge())]],
)
def test_what_is_no_regressor_is_refused(wrong: Any) -> None:
    given = wrong if isinstance(wrong, list) else [wrong]
    with pytest.raises(ParameterError) as refused:
        names_and_candidates(given)
    assert refused.value.parameter == "models"


def test_a_fitted_model_that_is_no_plain_arrays_is_kept_in_memory() -> None:
    X, y = np.arange(40.0)[:, None], np.arange(1.0, 41.0)
    assert kept_in_memory("line", LinearRegression().fit(X, y)) is None
    remark = kept_in_memory("boosted", HistGradientBoostingRegressor().fit(X, y))
    assert remark is not None
    assert remark.code == "kept-in-memory"


@pytest.mark.parametrize("given", [None, "all", ["all"], "OLS,all"])
def test_all_models_go_by_a_word_too(given: str | list[str] | None) -> None:
    assert names_and_candidates(given) == (None, [])

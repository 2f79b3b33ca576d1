"""Columns that can add nothing."""

from __future__ import annotations

import pickle

import numpy as np
import pandas as pd
import pytest

from flopcast.models.base import DroppedColumns
from flopcast.models.linear.least_squares import NNLS, OLS, constant_columns, copied_columns
from flopcast.models.linear.stepwise import Stepwise


def test_constants_are_found_up_to_rounding() -> None:
    x = np.arange(10.0)
    X = np.column_stack([x, 0 * x, 0 * x - 3, 1e12 + 1e-4 * x, 1e12 + x])
    assert constant_columns(X).tolist() == [1, 2, 3]


def test_copies_are_found_but_not_multiples_nor_other_columns_of_equal_sum() -> None:
    x = np.array([1.0, 2.0, 0.0, 4.0])
    X = np.column_stack([x, x[::-1], 2 * x, x, x[::-1], np.where(x == 0, -0.0, x)])
    assert copied_columns(X).tolist() == [3, 4, 5]
    assert copied_columns(np.asfortranarray(X)).tolist() == [3, 4, 5]


@pytest.fixture
def rows() -> tuple[pd.DataFrame, np.ndarray]:
    rng = np.random.default_rng(0)
    X = pd.DataFrame(rng.uniform(size=(30, 3)), columns=["a", "b", "c"])
    return X.assign(seven=7.0, again=X["a"], zero=0.0), 1 + X["a"].to_numpy() + 0.1 * rng.normal(
        size=30
    )


MODELS = (OLS(), NNLS(), Stepwise(), Stepwise(base="nnls", direction="backward"))


@pytest.mark.parametrize("model", MODELS, ids=str)
def test_they_are_dropped_by_name_with_a_warning(model: OLS, rows: tuple) -> None:
    X, y = rows
    with pytest.warns(DroppedColumns, match=r"nothing: seven \(constant\)") as caught:
        model.fit(X, y)
    assert len(caught) == 1
    told = caught[0].message
    assert (told.constant, told.copies) == (["seven"], ["again"])
    assert str(pickle.loads(pickle.dumps(told))) == str(told)
    assert model.dropped_features_ == ["seven", "again", "zero"]
    assert not model.coef_[3:].any()
    without = type(model)(**model.get_params()).fit(X[["a", "b", "c"]], y)
    np.testing.assert_allclose(model.coef_[:3], without.coef_)


def test_columns_of_zeros_go_without_a_word(rows: tuple) -> None:
    X, y = rows
    model = OLS().fit(X[["a", "zero"]], y)
    assert model.dropped_features_ == ["zero"]
    assert model.coef_[1] == 0
    assert np.isnan(model.p_values_[1])


def test_five_names_at_most() -> None:
    X = np.column_stack([np.arange(9.0), np.ones((9, 8))])
    with pytest.warns(DroppedColumns, match=r"x1.*x2.*x3.*x4.*x5"):
        OLS().fit(X, np.arange(9.0))


def test_only_rows_of_positive_weight_count(rows: tuple) -> None:
    X, y = rows
    weights = np.ones(30)
    weights[0] = 0.0
    first = X[["a"]].assign(rare=[5.0] + [1.0] * 29)
    with pytest.warns(DroppedColumns, match="rare"):
        OLS().fit(first, y, sample_weight=weights)

"""What every model promises: scikit-learn's own checks, and the mathematics they share."""

from __future__ import annotations

import pickle
from typing import Any

import numpy as np
import pandas as pd
import pytest
from sklearn.base import clone
from sklearn.tree import DecisionTreeRegressor
from sklearn.utils.estimator_checks import check_estimator

from flopcast.models.base import fit, inner_folds, selected_features
from flopcast.models.baselines import AdditiveTime, Affine, AnalyticLaw, ConstantRatio
from flopcast.models.ensembles import (
    CrossFitted,
    GeometricStack,
    LogResidual,
    PrecisionTransfer,
    Transfer,
)
from flopcast.models.learners import MLP, Boosted, Forest
from flopcast.models.linear.least_squares import NNLS, OLS
from flopcast.models.linear.regularised import ElasticNet, Lasso
from flopcast.models.linear.rfecv import RFECV
from flopcast.models.linear.stepwise import Stepwise
from flopcast.models.persistence import from_bytes, to_bytes
from flopcast.models.prior import Corrected, Pooled, Smooth
from flopcast.models.target_space import Columns, LogTarget, RelativeError

STEPWISE: dict[str, Any] = {
    f"{base.upper()}/{direction.title()}/{criterion.upper()}": Stepwise(
        base=base, direction=direction, criterion=criterion
    )
    for base in ("ols", "nnls")
    for direction in ("forward", "backward")
    for criterion in ("aic", "bic")
}
NON_NEGATIVE: dict[str, Any] = {
    "NNLS": NNLS(),
    **{name: model for name, model in STEPWISE.items() if name.startswith("NNLS")},
    "NNLS/RFECV": RFECV(base="nnls"),
    "Lasso/NNLS": Lasso(positive=True, n_alphas=8, cv=3),
    "ElasticNet/NNLS": ElasticNet(positive=True, n_alphas=8, cv=3),
    "RelativeError(NNLS)": RelativeError(NNLS()),
}
ONE_COLUMN: dict[str, Any] = {
    "AnalyticLaw": AnalyticLaw(),
    "ConstantRatio": ConstantRatio(),
    "Affine": Affine(),
}
LINEAR: dict[str, Any] = {
    "OLS": OLS(),
    **STEPWISE,
    **NON_NEGATIVE,
    "OLS/RFECV": RFECV(),
    "Lasso": Lasso(n_alphas=8, cv=3),
    "ElasticNet": ElasticNet(n_alphas=8, cv=3),
    "ElasticNet/searched": ElasticNet(l1_ratio=(0.2, 0.8), n_alphas=8, cv=3),
    "RelativeError": RelativeError(),
    "LogTarget": LogTarget(),
    "LogTarget/smearing": LogTarget(smearing=True),
}
SMALL = LogResidual(learner=DecisionTreeRegressor(random_state=0))
COMPOSED: dict[str, Any] = {
    "Additive": AdditiveTime(),
    "LogResidual": SMALL,
    "Corrected": Corrected(),
    "GeometricStack": GeometricStack([("additive", AdditiveTime()), ("residual", SMALL)], cv=2),
    "Pooled": Pooled(
        [("additive", AdditiveTime()), ("smooth", LogResidual(learner=Smooth()))], cv=2
    ),
    "CrossFitted": CrossFitted(SMALL, cv=2),
    "Transfer": Transfer(CrossFitted(SMALL, cv=2), SMALL),
    "PrecisionTransfer": PrecisionTransfer(CrossFitted(SMALL, cv=2), SMALL),
}
ALL: dict[str, Any] = {
    **ONE_COLUMN,
    **LINEAR,
    **COMPOSED,
    "RandomForest": Forest(max_trees=8),
    "Boosted": Boosted(n_trees=20),
    "MLP": MLP(max_epochs=10, learning_rate=1e-2),
}
VARIANTS = {
    *(name for name in STEPWISE if name.endswith("BIC")),
    "NNLS/RFECV",
    "Lasso/NNLS",
    "ElasticNet/NNLS",
    "ElasticNet/searched",
    "RelativeError(NNLS)",
    "LogTarget/smearing",
    "PrecisionTransfer",  # a Transfer
    "Pooled",  # a GeometricStack
}
"""Other parameters of a class whose contract with scikit-learn another one shows."""
CLASSES = {name: model for name, model in ALL.items() if name not in VARIANTS}
SEEDED = (
    "RFECV",
    "Lasso",
    "ElasticNet",
    "RandomForest",
    "Boosted",
    "MLP",
    "GeometricStack",
    "Pooled",
    "CrossFitted",
    "Transfer",
    "PrecisionTransfer",
)


def over(models: dict[str, Any]) -> pytest.MarkDecorator:
    return pytest.mark.parametrize(
        "model", [pytest.param(clone(m), id=name) for name, m in models.items()]
    )


@pytest.fixture
def rows() -> tuple[pd.DataFrame, np.ndarray]:
    """Return 60 rows whose first column is close to y, of six named columns in very different units."""
    rng = np.random.default_rng(0)
    X = rng.lognormal(size=(60, 6)) * [1, 1e3, 1e-3, 1, 10, 1]
    y = (1 + X @ [2, 1e-3, 0, 0.5, 0, 0]) * rng.lognormal(0, 0.05, size=60)
    return pd.DataFrame(X, columns=["host_us", "flops", "dtype=fp8", "waves", "log_m", "noise"]), y


CHECKED = {
    **{type(model).__name__: model for model in CLASSES.values()},
    "Columns": Columns(),
    "Forest": Forest(max_trees=2),
    "MLP": MLP(max_epochs=3, learning_rate=1e-2),
    "GeometricStack": GeometricStack([("additive", AdditiveTime()), ("law", AnalyticLaw())], cv=2),
    "CrossFitted": CrossFitted(AdditiveTime(), cv=2),
    "Transfer": Transfer(CrossFitted(AdditiveTime(), cv=2), AdditiveTime()),
}
"""One of each class, as small as can be: what `check_estimator` asks does not depend on parameters."""
del CHECKED["Lasso"]  # an ElasticNet


@pytest.mark.no_cover
@over(CHECKED)
def test_passes_the_checks_of_scikit_learn(model: Any) -> None:
    check_estimator(model, on_skip=None)


@over({name: model for name, model in ALL.items() if name != "AnalyticLaw"})
def test_predictions_scale_with_the_unit_of_time(model: Any, rows: tuple) -> None:
    X, y = rows
    in_ns = clone(model).fit(X, 1024.0 * y).predict(X)
    np.testing.assert_allclose(in_ns, 1024.0 * model.fit(X, y).predict(X), rtol=1e-8)


@over(
    {name: model for name, model in ALL.items() if name not in ("AnalyticLaw", "Pooled")}
)  # in time, in octaves
def test_predictions_do_not_depend_on_the_units_of_columns(model: Any, rows: tuple) -> None:
    X, y = rows
    other = X * 2.0 ** np.array([10, -20, 3, 0, 30, -7])
    np.testing.assert_allclose(
        clone(model).fit(other, y).predict(other), model.fit(X, y).predict(X), rtol=1e-8
    )


@over({name: model for name, model in ALL.items() if not any(seeded in name for seeded in SEEDED)})
def test_predictions_do_not_depend_on_the_order_of_rows(model: Any, rows: tuple) -> None:
    X, y = rows
    order = np.random.default_rng(1).permutation(len(y))
    np.testing.assert_allclose(
        clone(model).fit(X.iloc[order], y[order]).predict(X), model.fit(X, y).predict(X)
    )


@over({name: model for name, model in ALL.items() if name not in ("MLP", "Pooled")})
def test_a_row_is_predicted_the_same_beside_any_others(model: Any, rows: tuple) -> None:
    """To the last bit; products of matrices, as networks and Gaussian processes are, round otherwise."""
    X, y = rows
    fit(model, X, y, np.arange(60) % 6)
    together = model.predict(X)
    for number in (1, 7, 13):
        parts = [model.predict(X.iloc[at : at + number]) for at in range(0, len(X), number)]
        assert np.concatenate(parts).tolist() == together.tolist()


@over(NON_NEGATIVE)
@pytest.mark.parametrize("seed", range(3))
def test_non_negative_models_never_predict_negative_times(model: Any, seed: int) -> None:
    """Not even where time falls with every column and the line of least squares crosses zero."""
    rng = np.random.default_rng(seed)
    X = rng.lognormal(size=(40, 5))
    y = 0.1 + np.maximum(8 - X @ [1, 2, 0.5, 0, 1], 0) + rng.uniform(size=40) + X[:, 4] * seed
    model.fit(X, y)
    inner = getattr(model, "regressor_", model)
    assert inner.coef_.min() >= 0
    assert inner.intercept_ >= 0
    assert model.predict(100 * rng.lognormal(size=(200, 5))).min() >= 0
    assert model.predict(np.zeros((1, 5)))[0] >= 0


def test_plain_least_squares_does_predict_negative_times() -> None:
    X = np.arange(1.0, 6.0)[:, None]
    assert OLS().fit(X, [9.0, 7.0, 5.0, 3.0, 1.0]).predict([[10.0]])[0] == pytest.approx(-9)


@over(CLASSES)
def test_names_do_not_change_the_fit_and_are_reported(model: Any, rows: tuple) -> None:
    X, y = rows
    named = clone(model).fit(X, y)
    plain = model.fit(X.to_numpy(), y)
    np.testing.assert_array_equal(named.predict(X), plain.predict(X.to_numpy()))
    names, numbered = selected_features(named), selected_features(plain)
    assert names
    assert numbered == [f"x{X.columns.get_loc(name)}" for name in names]
    assert "host_us" in names


@over(CLASSES)
def test_fits_are_repeatable_and_survive_storage(model: Any, rows: tuple) -> None:
    X, y = rows
    expected = model.fit(X, y).predict(X)
    np.testing.assert_array_equal(clone(model).fit(X, y).predict(X), expected)
    np.testing.assert_array_equal(pickle.loads(pickle.dumps(model)).predict(X), expected)
    np.testing.assert_array_equal(from_bytes(to_bytes(model), "file").predict(X), expected)


@over(LINEAR)
def test_many_more_columns_than_rows(model: Any) -> None:
    rng = np.random.default_rng(2)
    X, y = rng.lognormal(size=(12, 30)), rng.lognormal(size=12)
    assert np.isfinite(model.fit(X, y).predict(rng.lognormal(size=(20, 30)))).all()


@over(CLASSES)
def test_groups_may_be_given_to_any_model(model: Any, rows: tuple) -> None:
    X, y = rows
    groups = np.repeat(np.arange(6), 10)
    once = fit(clone(model), X, y, groups).predict(X)
    np.testing.assert_array_equal(fit(model, X, y, groups).predict(X), once)


def test_inner_folds_hold_out_whole_groups() -> None:
    groups = np.array(["a", "b", "c"])[np.random.default_rng(3).integers(3, size=40)]
    folds = inner_folds(5, 40, groups)
    assert len(folds) == 3
    for train, valid in folds:
        assert not set(groups[train]) & set(groups[valid])
    one_group = inner_folds(5, 40, np.full(40, "a"))
    assert [valid.tolist() for _, valid in one_group] == [
        valid.tolist() for _, valid in inner_folds(5, 40)
    ]
    assert len(inner_folds(5, 3)) == 3


def test_weights_are_not_dropped_in_silence() -> None:
    with pytest.raises(ValueError, match="Forest"):
        fit(Forest(), np.eye(3), np.ones(3), sample_weight=np.ones(3))

"""Parts of a prediction: mixed as the model mixes them, they give what it predicts."""

from __future__ import annotations

import numpy as np
import pandas as pd
import pytest
from sklearn.linear_model import LinearRegression
from sklearn.pipeline import make_pipeline
from sklearn.tree import DecisionTreeRegressor

from flopcast.models.baselines import AdditiveTime
from flopcast.models.ensembles import (
    CrossFitted,
    GeometricStack,
    LogResidual,
    PrecisionTransfer,
    Transfer,
)
from flopcast.models.explanation import parts_of
from flopcast.models.linear.least_squares import OLS
from flopcast.models.target_space import Columns, LogTarget, RelativeError

RNG = np.random.default_rng(0)
X = pd.DataFrame(
    {
        "host_us": RNG.uniform(1, 50, 80),
        "work": RNG.uniform(1, 9, 80),
        "op=gemm": np.arange(80) % 2.0,
    }
)
Y = (3 + 0.5 * X["host_us"] + X["work"] ** 1.5 + 2 * X["op=gemm"]).to_numpy()
ONE = X.iloc[[5]]


def test_terms_add_up_also_where_a_class_has_its_own() -> None:
    model = AdditiveTime(["host_us", "work"], by="op=").fit(X, Y)
    parts = parts_of(model, ONE)
    assert {part.kind for part in parts} == {"term"}
    assert sum(part.value for part in parts) == pytest.approx(model.predict(ONE)[0])


@pytest.mark.parametrize(
    "inner", [OLS(), make_pipeline(Columns(["host_us", "work"]), OLS()), LinearRegression()]
)
def test_coefficients_are_the_explanation_of_a_linear_model(inner: object) -> None:
    model = RelativeError(inner).fit(X, Y)
    intercept, *terms = parts_of(model, ONE)
    assert (intercept.kind, intercept.name) == ("term", "intercept")
    assert {"host_us", "work"} <= {part.name for part in terms}
    whole = intercept.value + sum(part.value for part in terms)
    assert whole == pytest.approx(model.predict(ONE)[0])
    linear = model.regressor_[-1] if hasattr(model.regressor_, "steps") else model.regressor_
    (host,) = [part for part in terms if part.name == "host_us"]
    assert host.value == pytest.approx(linear.coef_[0] * ONE["host_us"].iloc[0])


def test_coefficients_of_logarithms_are_factors() -> None:
    model = LogTarget(OLS()).fit(np.log(X[["host_us", "work"]]), Y)
    one = np.log(ONE[["host_us", "work"]])
    base, *factors = parts_of(model, one)
    assert [base.kind, *(part.kind for part in factors)] == ["base", "coefficient", "coefficient"]
    assert base.value * np.prod([part.factor for part in factors]) == pytest.approx(
        model.predict(one)[0]
    )
    assert factors[-1].value == pytest.approx(model.predict(one)[0])


def test_a_residual_is_a_factor_on_its_base() -> None:
    model = LogResidual(AdditiveTime(["host_us"])).fit(X, Y)
    base, *terms, residual = parts_of(model, ONE)
    assert (base.kind, residual.kind, {part.depth for part in terms}) == ("base", "residual", {1})
    assert sum(part.value for part in terms) == pytest.approx(base.value)
    assert base.value * residual.factor == pytest.approx(model.predict(ONE)[0])


def test_members_mix_by_their_weights() -> None:
    model = GeometricStack(cv=3).fit(X, Y)
    members = [part for part in parts_of(model, ONE) if part.kind == "member" and part.depth == 0]
    assert sum(part.weight for part in members) == pytest.approx(1)
    mixed = np.exp(sum(part.weight * np.log(part.value) for part in members))
    assert mixed == pytest.approx(model.predict(ONE)[0])
    folds = CrossFitted(AdditiveTime(), cv=3).fit(X, Y)
    parts = parts_of(folds, ONE)
    assert np.exp(np.mean([np.log(part.value) for part in parts])) == pytest.approx(
        folds.predict(ONE)[0]
    )


def test_the_shape_model_comes_before_what_uses_it() -> None:
    model = Transfer(
        CrossFitted(AdditiveTime(), cv=3),
        AdditiveTime(["host_us", "shape_us"]),
        shape_columns=["work"],
    ).fit(X, Y)
    shape, *terms = parts_of(model, ONE)
    assert shape.kind == "shape"
    assert shape.value == pytest.approx(model.shape_model_.predict(ONE[["work"]])[0])
    assert sum(part.value for part in terms) == pytest.approx(model.predict(ONE)[0])


def test_a_shape_model_mixed_by_precision_has_its_weight_at_the_row() -> None:
    model = PrecisionTransfer(
        CrossFitted(AdditiveTime(), cv=3), AdditiveTime(["host_us"]), shape_columns=["work"]
    )
    shape, second, *terms = parts_of(model.fit(X, Y), ONE)
    assert (shape.kind, second.kind, shape.weight + second.weight) == (
        "shape",
        "member",
        pytest.approx(1),
    )
    mixed = np.exp(shape.weight * np.log(shape.value) + second.weight * np.log(second.value))
    assert mixed == pytest.approx(model.predict(ONE)[0])
    assert sum(part.value for part in terms) == pytest.approx(second.value)


def test_another_model_is_one_part() -> None:
    model = DecisionTreeRegressor(max_depth=3).fit(X, Y)
    (part,) = parts_of(model, ONE)
    assert (part.kind, part.value) == ("model", pytest.approx(model.predict(ONE)[0]))

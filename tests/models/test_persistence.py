from __future__ import annotations

import functools
import importlib.util
import io
import json
import operator
import os
import pickle
import zipfile
from pathlib import Path

import numpy as np
import pandas as pd
import pytest
import sklearn
import skops.io
from sklearn.base import BaseEstimator, RegressorMixin
from sklearn.compose import ColumnTransformer, TransformedTargetRegressor
from sklearn.ensemble import (
    ExtraTreesRegressor,
    GradientBoostingRegressor,
    HistGradientBoostingRegressor,
    RandomForestRegressor,
    StackingRegressor,
    VotingRegressor,
)
from sklearn.feature_selection import RFECV
from sklearn.gaussian_process import GaussianProcessRegressor
from sklearn.gaussian_process.kernels import RBF, ConstantKernel, Matern, WhiteKernel
from sklearn.kernel_ridge import KernelRidge
from sklearn.linear_model import ElasticNetCV, LassoCV, LinearRegression, Ridge
from sklearn.model_selection import GridSearchCV, KFold
from sklearn.neighbors import KNeighborsRegressor
from sklearn.neural_network import MLPRegressor
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import FunctionTransformer, OneHotEncoder, QuantileTransformer, StandardScaler
from sklearn.svm import SVR

from flopcast.errors import ArtifactError
from flopcast.models import (
    OLS,
    AdditiveTime,
    Affine,
    Forest,
    GeometricStack,
    LogResidual,
    LogTarget,
    Stepwise,
    artifact,
)
from flopcast.models.persistence import MOVED, NODES, from_bytes, is_allowed, to_bytes

rng = np.random.default_rng(0)
X = pd.DataFrame(rng.uniform(1, 9, (80, 4)), columns=["a", "b", "c", "d"])
y = (X["a"] + X["b"] * X["c"]).to_numpy()


class Foreign(RegressorMixin, BaseEstimator):
    """An estimator that flopcast does not define."""

    def fit(self, X, y):
        self.mean_ = float(np.mean(y))
        return self

    def predict(self, X):
        return np.full(len(X), self.mean_)


def mlp(solver: str) -> MLPRegressor:
    return MLPRegressor(hidden_layer_sizes=(4,), solver=solver, learning_rate_init=1e-4, tol=1.0, random_state=0)


NEW_REQUESTS = not sklearn.__version__.startswith("1.7.")
"""Up to 1.7 a search holds requests for metadata, of which skops knows nothing."""
HOLDING = {
    **{
        f"histogram boosting, {loss}": HistGradientBoostingRegressor(
            loss=loss, quantile=0.5 if loss == "quantile" else None, max_iter=4, random_state=0
        )
        for loss in ("squared_error", "absolute_error", "gamma", "poisson", "quantile")
    },
    **{
        f"gradient boosting, {loss}": GradientBoostingRegressor(loss=loss, n_estimators=3, random_state=0)
        for loss in ("squared_error", "absolute_error", "huber", "quantile")
    },
    "extra trees": ExtraTreesRegressor(4, random_state=0),
    "random forest": RandomForestRegressor(4, criterion="absolute_error", random_state=0),
    "support vectors": SVR(),
    **{f"network, {solver}": mlp(solver) for solver in ("adam", "sgd", "lbfgs")},
    "kernel ridge": KernelRidge(kernel="rbf"),
    "Gaussian process": GaussianProcessRegressor(ConstantKernel() * RBF() + Matern() + WhiteKernel(), optimizer=None),
    "columns": make_pipeline(
        ColumnTransformer(
            [("scale", StandardScaler(), ["a"]), ("hot", OneHotEncoder(handle_unknown="ignore"), ["b"])],
            sparse_threshold=0,
        ),
        Ridge(),
    ),
    "quantiles": make_pipeline(QuantileTransformer(n_quantiles=20), LinearRegression()),
    "log target": TransformedTargetRegressor(Ridge(), func=np.log, inverse_func=np.exp),
    "elimination": RFECV(LinearRegression(), cv=KFold(3)),
    "Lasso": LassoCV(cv=3),
    "elastic net": ElasticNetCV(cv=3),
    "stack": StackingRegressor([("r", Ridge()), ("t", ExtraTreesRegressor(2, random_state=0))], LinearRegression()),
    "vote": VotingRegressor([("r", Ridge()), ("t", ExtraTreesRegressor(2, random_state=0))]),
    "grid": GridSearchCV(Ridge(), {"alpha": [0.1, 1.0]}, cv=KFold(3, shuffle=True, random_state=0)),
}


@functools.cache
def fitted(name: str) -> BaseEstimator:
    return HOLDING[name].fit(X, y)


def rewritten(data: bytes, change) -> bytes:
    """Return a skops file whose schema went through ``change``."""
    out = io.BytesIO()
    with zipfile.ZipFile(io.BytesIO(data)) as source, zipfile.ZipFile(out, "w") as target:
        for name in source.namelist():
            content = source.read(name)
            target.writestr(name, json.dumps(change(json.loads(content))) if name == "schema.json" else content)
    return out.getvalue()


@pytest.mark.parametrize("name", [name for name in HOLDING if name != "grid" or NEW_REQUESTS])
def test_an_estimator_comes_back_predicting_exactly_the_same(name):
    model = fitted(name)
    np.testing.assert_array_equal(from_bytes(to_bytes(model), "file").predict(X), model.predict(X))


@pytest.mark.parametrize("name", ["extra trees", "histogram boosting, gamma", "columns"])
def test_the_bytes_depend_on_the_estimator_alone(name):
    again = pickle.loads(pickle.dumps(fitted(name)))  # the same values at other addresses
    assert to_bytes(again) == to_bytes(fitted(name))


def test_a_set_gives_the_same_bytes_in_any_order():
    orders = [{8, 0}, {0, 8}]
    assert list(orders[0]) != list(orders[1])
    models = [Ridge().fit(X, y) for _ in orders]
    for model, numbers in zip(models, orders, strict=True):
        model.numbers_ = numbers
    assert to_bytes(models[0]) == to_bytes(models[1])


def test_what_loading_would_refuse_is_not_saved():
    with pytest.raises(ArtifactError, match="Foreign"):
        to_bytes(Foreign().fit(X, y))
    with pytest.raises(ArtifactError, match="KNeighborsRegressor"):
        to_bytes(KNeighborsRegressor().fit(X, y))


@pytest.mark.parametrize(
    "function", [os.system, artifact.load, print, functools.partial(np.power, 2), operator.methodcaller("clear")]
)
def test_functions_are_refused_even_our_own(function):
    harmful = FunctionTransformer(function)
    with pytest.raises(ArtifactError, match=r"^evil\.skops is refused: it holds"):
        from_bytes(skops.io.dumps(harmful), "evil.skops")


def test_a_pickle_is_refused_without_running_it(tmp_path: Path):
    marker = tmp_path / "marker"

    class Harmful:
        def __reduce__(self):
            return Path.touch, (marker,)

    harmful = pickle.dumps(Harmful())
    with pytest.raises(ArtifactError, match=r"^evil\.skops.*pickle"):
        from_bytes(harmful, "evil.skops")
    assert not marker.exists()
    pickle.loads(harmful)
    assert marker.exists(), "the pickle would have done it"


def test_a_pickle_inside_an_array_is_refused_without_running_it(tmp_path: Path):
    marker = tmp_path / "marker"

    class Harmful:
        def __reduce__(self):
            return Path.touch, (marker,)

    hidden = io.BytesIO()
    np.save(hidden, np.array([Harmful()], dtype=object), allow_pickle=True)
    out = io.BytesIO()
    with (
        zipfile.ZipFile(io.BytesIO(skops.io.dumps(fitted("extra trees")))) as source,
        zipfile.ZipFile(out, "w") as target,
    ):
        for name in source.namelist():
            target.writestr(name, source.read(name) if name == "schema.json" else hidden.getvalue())
    with pytest.raises(ArtifactError, match=r"^evil\.skops.*ValueError.*Object"):
        from_bytes(out.getvalue(), "evil.skops")
    assert not marker.exists()


def test_a_call_smuggled_in_as_a_constructor_is_refused(tmp_path: Path):
    """A node that would call ``os.mkdir(path)`` while the file is read."""
    target = tmp_path / "made"
    path = {"__class__": "str", "__module__": "builtins", "__loader__": "JsonNode", "content": json.dumps(str(target))}
    call = {
        "__class__": "mkdir",
        "__module__": "posix",
        "__loader__": "ConstructorFromReduceNode",
        "content": {"__class__": "tuple", "__module__": "builtins", "__loader__": "TupleNode", "content": [path]},
    }

    def smuggle(schema):
        schema["content"]["content"]["alpha"] = call
        return schema

    harmful = rewritten(to_bytes(Ridge().fit(X, y)), smuggle)
    with pytest.raises(ArtifactError, match=r"posix\.mkdir.*ConstructorFromReduceNode"):
        from_bytes(harmful, "evil.skops")
    assert not target.exists()
    skops.io.loads(harmful, trusted=["posix.mkdir"])
    assert target.exists(), "skops would have done it if told to trust the file"


def test_a_tree_that_would_read_foreign_memory_is_refused():
    model = pickle.loads(pickle.dumps(fitted("histogram boosting, gamma")))
    model._predictors[0][0].nodes["left"][0] = 10**9
    with pytest.raises(ArtifactError, match=r"^x\.skops.*tree"):
        from_bytes(skops.io.dumps(model), "x.skops")


@pytest.mark.parametrize("content", [b"", b"PK\x03\x04", b"not a zip", "model,\n".encode("utf-16")])
def test_foreign_bytes_are_refused_in_one_line(content):
    said = r"^x\.skops is not a saved flopcast model \(foreign or cut short\)"
    with pytest.raises(ArtifactError, match=said) as info:
        from_bytes(content, "x.skops")
    assert "\n" not in str(info.value)


def test_a_foreign_zip_and_an_object_that_is_no_model_are_refused():
    out = io.BytesIO()
    with zipfile.ZipFile(out, "w") as archive:
        archive.writestr("readme.txt", "hello")
    with pytest.raises(ArtifactError, match=r"x\.zip cannot be read: KeyError.*schema\.json"):
        from_bytes(out.getvalue(), "x.zip")
    with pytest.raises(ArtifactError, match="holds a dict"):
        from_bytes(skops.io.dumps({"a": 1}), "x.skops")


def test_a_deeply_nested_file_is_refused_not_crashed_on():
    out = io.BytesIO()
    with zipfile.ZipFile(out, "w") as archive:
        archive.writestr("schema.json", "[" * 100_000)
    with pytest.raises(ArtifactError, match="cannot be read: RecursionError"):
        from_bytes(out.getvalue(), "x.skops")


@pytest.mark.parametrize(
    ("name", "allowed"),
    [
        ("sklearn.tree._tree.Tree", True),
        ("flopcast.models.base.Candidate", True),
        ("flopcast.models.artifact.Artifact", True),
        ("flopcast.models.artifact.load", False),
        ("flopcast.models.artifact.Path", False),
        ("flopcast.models.artifact.BaseEstimator", False),
        ("flopcast.models.nowhere.Model", False),
        ("flopcast.models.base.Nothing", False),
        ("flopcast.errors.DataError", False),
        ("flopcast.modelsque.Model", False),
        ("posix.system", False),
        ("builtins.eval", False),
    ],
)
def test_only_classes_that_hold_data_are_allowed(name, allowed):
    assert is_allowed(name) is allowed


def test_node_kinds_that_call_or_look_up_are_not_on_the_list():
    assert not NODES & {"MethodNode", "PartialNode", "OperatorFuncNode", "ConstructorFromReduceNode"}


def earlier(model: BaseEstimator, homes: dict[str, str]) -> bytes:
    """Return the file that a version wrote in which these classes had other homes."""

    def move(node):
        if isinstance(node, dict):
            home = homes.get(node.get("__class__")) if str(node.get("__module__")).startswith("flopcast.") else None
            moved = {"__module__": f"flopcast.models.{home}"} if home else {}
            return {key: move(value) for key, value in node.items()} | moved
        return [move(item) for item in node] if isinstance(node, list) else node

    return rewritten(skops.io.dumps(model), move)


@pytest.mark.parametrize(
    ("model", "homes"),
    [
        (
            GeometricStack([("line", Affine("a")), ("rest", LogResidual(AdditiveTime(["a", "b"])))], cv=2),
            {
                "GeometricStack": "geometric",
                "Affine": "analytic",
                "LogResidual": "residual",
                "AdditiveTime": "additive",
            },
        ),
        (LogTarget(Forest(max_trees=4)), {"Forest": "forest"}),
        (Stepwise(), {"Stepwise": "stepwise"}),
        (OLS(), {"OLS": "least_squares"}),
    ],
)
def test_a_model_whose_classes_have_moved_since_is_read(model: BaseEstimator, homes: dict[str, str]):
    model.fit(X, y)
    old = earlier(model, homes)
    assert all(
        f"flopcast.models.{home}".encode() in zipfile.ZipFile(io.BytesIO(old)).read("schema.json")
        for home in homes.values()
    )
    np.testing.assert_array_equal(from_bytes(old, "old").predict(X), model.predict(X))


def test_no_module_is_both_moved_and_there():
    for old, new in MOVED.items():
        assert old == new or importlib.util.find_spec(old) is None
        assert importlib.util.find_spec(new) is not None

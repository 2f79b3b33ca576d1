from __future__ import annotations

import io
import json
import pickle
import zipfile
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from sklearn.base import BaseEstimator, RegressorMixin
from sklearn.ensemble import ExtraTreesRegressor, RandomForestRegressor
from sklearn.linear_model import LinearRegression
from sklearn.neighbors import KNeighborsRegressor
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import FunctionTransformer
from sklearn.tree import DecisionTreeRegressor

from flopcast.errors import ArtifactError
from flopcast.models import (
    Boosted,
    Forest,
    GeometricStack,
    LogResidual,
    Stepwise,
    Transfer,
    persistence,
)
from flopcast.models.persistence import BLOCK, STATE, from_bytes, to_bytes

rng = np.random.default_rng(0)
X = rng.uniform(1, 9, (60, 4))
y = X[:, 0] + X[:, 1] * X[:, 2]

MODELS = {
    "extra trees": ExtraTreesRegressor(3, random_state=0),
    "random forest": RandomForestRegressor(3, random_state=0),
    "forest": Forest(max_trees=4),
    "boosted": Boosted(n_trees=3),
    "stack": GeometricStack(
        [("residual", LogResidual(learner=Boosted(n_trees=2))), ("line", LogResidual())], cv=2
    ),
    "transfer": Transfer(regressor=LogResidual(learner=ExtraTreesRegressor(2, random_state=0))),
    "stepwise": Stepwise(),
}


@pytest.mark.no_cover
@pytest.mark.parametrize("name", MODELS)
def test_models_of_the_suite_come_back_whole(name: str) -> None:
    model = MODELS[name].fit(X, y)
    data = to_bytes(model)
    again = from_bytes(data, "file")
    np.testing.assert_array_equal(again.predict(X), model.predict(X))
    assert to_bytes(again) == data


def test_a_forest_keeps_all_of_its_trees() -> None:
    rows = X.copy()
    rows[3, 1] = np.nan
    model = MODELS["extra trees"].fit(rows, y)
    again = from_bytes(to_bytes(model), "file")
    np.testing.assert_array_equal(again.feature_importances_, model.feature_importances_)
    np.testing.assert_array_equal(again.predict(rows), model.predict(rows))


def test_values_come_back_as_they_were() -> None:
    model = LinearRegression().fit(X, y)
    model.kept_ = {
        "none": None, 1: True, "inf": float("inf"), "tuple": (1, [2.5]), "set": {3, 1}, "scalar": np.float32(0.1),
        "words": np.array(["a", None], dtype=object), "text": np.array(["ab", "c"]), "empty": np.empty((0, 2)),
        "columns": np.asfortranarray(np.arange(6.0).reshape(2, 3)), "none of them": np.bool_(False),
    }  # fmt: skip
    found = from_bytes(to_bytes(model), "file").kept_
    assert list(found) == list(model.kept_)
    for name, value in model.kept_.items():
        assert type(found[name]) is type(value)
        assert repr(found[name]) == repr(value)
    assert found["columns"].flags.f_contiguous
    assert found["scalar"].dtype == np.float32


def changed(data: bytes, change: Callable[[Any, bytearray], None]) -> bytes:
    """Return a file whose state and block went through ``change``."""
    with zipfile.ZipFile(io.BytesIO(data)) as source:
        state, block = json.loads(source.read(STATE)), bytearray(source.read(BLOCK))
    change(state, block)
    out = io.BytesIO()
    with zipfile.ZipFile(out, "w") as target:
        target.writestr(STATE, json.dumps(state))
        target.writestr(BLOCK, bytes(block))
    return out.getvalue()


def put(field: str, value: float, node: int = 0) -> Callable[[Any, bytearray], None]:
    """Return the change of one figure of a tree's node."""

    def change(state: Any, block: bytearray) -> None:
        tree = state["state"]["tree_"]
        array = tree["values"] if field == "values" else tree["nodes"][field]
        dtype = np.dtype(array["dtype"])
        start = array["at"] + node * dtype.itemsize
        block[start : start + dtype.itemsize] = np.array(value, dtype).tobytes()

    return change


@pytest.mark.parametrize(
    ("field", "value", "node", "said"),
    [
        ("left_child", 10**6, 0, "points outside itself"),
        ("left_child", -5, 0, "points outside itself"),
        ("right_child", 0, 0, "points outside itself"),
        ("right_child", -1, 0, "points outside itself"),
        ("left_child", 1, 1, "points outside itself"),
        ("feature", 4, 0, "feature"),
        ("feature", -1, 0, "feature"),
        ("threshold", np.nan, 0, "no number"),
        ("values", np.inf, 0, "no number"),
    ],
)
def test_a_tree_that_leads_astray_is_never_made(
    field: str, value: float, node: int, said: str
) -> None:
    data = to_bytes(DecisionTreeRegressor(random_state=0).fit(X, y))
    with pytest.raises(ArtifactError, match=said):
        from_bytes(changed(data, put(field, value, node)), "file")


def set_in(*path: Any, to: Any) -> Callable[[Any, bytearray], None]:
    def change(state: Any, block: bytearray) -> None:
        for key in path[:-1]:
            state = state[key]
        state[path[-1]] = to

    return change


TREE = ("state", "tree_")


@pytest.mark.parametrize(
    "change",
    [
        set_in(*TREE, "values", "at", to=10**9),
        set_in(*TREE, "values", "at", to=-8),
        set_in(*TREE, "values", "at", to=0.5),
        set_in(*TREE, "values", "shape", to=[10**12, 1, 1]),
        set_in(*TREE, "values", "shape", to=[-1, 1, 1]),
        set_in(*TREE, "values", "dtype", to="O"),
        set_in(*TREE, "values", "dtype", to="f8,f8"),
        set_in(*TREE, "values", "order", to="K"),
        set_in(*TREE, "nodes", "feature", "shape", to=[1]),
        set_in(*TREE, "features", to=1),
        set_in(*TREE, "features", to="four"),
        *(
            set_in("class", to=name)
            for name in (
                "subprocess.Popen",
                "posix.system",
                "builtins.eval",
                "flopcast.models.artifact.load",
                "flopcast.models.artifact.Path",
                "flopcast.models.artifact.BaseEstimator",
                "flopcast.models.nowhere.Model",
                "flopcast.models.base.Nothing",
                "flopcast.errors.DataError",
                "flopcast.modelsque.Model",
            )
        ),
        set_in("~", to="eval"),
        set_in("~", to=[1]),
        set_in("state", to=[]),
    ],
)
def test_a_file_that_lies_about_itself_is_refused_in_one_line(
    change: Callable[[Any, bytearray], None],
) -> None:
    data = to_bytes(DecisionTreeRegressor(random_state=0).fit(X, y))
    with pytest.raises(ArtifactError) as info:
        from_bytes(changed(data, change), "file")
    assert "\n" not in str(info.value)


@pytest.mark.parametrize(
    "change",
    [
        set_in("state", "n_features_in_", to=1),
        set_in("state", "estimators_", 1, "state", "n_features_in_", to=5),
        set_in(
            "state",
            "estimators_",
            1,
            to={"~": "object", "class": "flopcast.models.baselines.Affine", "state": {}},
        ),
    ],
)
def test_a_forest_whose_trees_are_of_other_rows_is_refused(
    change: Callable[[Any, bytearray], None],
) -> None:
    data = to_bytes(MODELS["extra trees"].fit(X, y))
    with pytest.raises(ArtifactError, match=r"a tree is of other features|no tree"):
        from_bytes(changed(data, change), "file")


def test_a_booster_whose_text_leads_astray_is_refused() -> None:
    model = Boosted(n_trees=2).fit(X, y)
    model.text_ = model.text_.replace("split_feature=", "split_feature=9", 1)
    with pytest.raises(ArtifactError, match="a tree splits on a feature that there is not"):
        from_bytes(to_bytes(model), "file")


def test_a_file_that_would_fill_the_memory_is_not_decompressed(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    data = to_bytes(DecisionTreeRegressor(random_state=0).fit(X, y))
    monkeypatch.setattr(persistence, "MOST_BYTES", 1000)
    with pytest.raises(ArtifactError, match=r"[0-9,]+ bytes"):
        from_bytes(data, "file")


class Foreign(RegressorMixin, BaseEstimator):
    """An estimator that flopcast does not define."""


@pytest.mark.parametrize(
    ("model", "holds"),
    [
        (Foreign(), "Foreign"),
        (KNeighborsRegressor(), "KNeighborsRegressor"),
        (LogResidual(learner=KNeighborsRegressor()), "KNeighborsRegressor"),
        (make_pipeline(FunctionTransformer(np.log), LinearRegression()), "FunctionTransformer"),
    ],
)
def test_what_loading_would_refuse_is_not_saved(model: Any, holds: str) -> None:
    said = (
        rf"^{type(model).__name__} cannot be saved: it holds \S+\.{holds}, which is not on the list"
    )
    with pytest.raises(ArtifactError, match=said) as info:
        to_bytes(model)
    assert "\n" not in str(info.value)


def test_equal_estimators_give_equal_bytes() -> None:
    model = MODELS["extra trees"].fit(X, y)
    # the same values at other addresses
    assert to_bytes(pickle.loads(pickle.dumps(model))) == to_bytes(model)
    orders = [{8, 0}, {0, 8}]
    assert list(orders[0]) != list(orders[1])
    lines = [LinearRegression().fit(X, y) for _ in orders]
    for line, numbers in zip(lines, orders, strict=True):
        line.numbers_ = numbers
    assert to_bytes(lines[0]) == to_bytes(lines[1])


def test_a_pickle_is_refused_without_running_it(tmp_path: Path) -> None:
    marker = tmp_path / "marker"

    class Harmful:
        def __reduce__(self) -> Any:
            return Path.touch, (marker,)

    harmful = pickle.dumps(Harmful())
    with pytest.raises(ArtifactError, match=r"^evil\.zip.*pickle"):
        from_bytes(harmful, "evil.zip")
    assert not marker.exists()
    pickle.loads(harmful)
    assert marker.exists(), "the pickle would have done it"


@pytest.mark.parametrize("content", [b"", b"PK\x03\x04", b"not a zip", "model,\n".encode("utf-16")])
def test_foreign_bytes_are_refused_in_one_line(content: bytes) -> None:
    said = r"^x\.zip is not a saved flopcast model \(foreign or cut short\)"
    with pytest.raises(ArtifactError, match=said) as info:
        from_bytes(content, "x.zip")
    assert "\n" not in str(info.value)


@pytest.mark.parametrize(
    ("state", "said"),
    [
        (None, r"cannot be read: KeyError.*state\.json"),
        ("[" * 100_000, "cannot be read: RecursionError"),
        ('{"~": "dict", "items": [["a", 1]]}', "holds a dict"),
    ],
)
def test_a_zip_without_a_model_is_refused(state: str | None, said: str) -> None:
    out = io.BytesIO()
    with zipfile.ZipFile(out, "w") as archive:
        archive.writestr("readme.txt", "hello")
        if state is not None:
            archive.writestr(STATE, state)
            archive.writestr(BLOCK, b"")
    with pytest.raises(ArtifactError, match=said):
        from_bytes(out.getvalue(), "x.zip")

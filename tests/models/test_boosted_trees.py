from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor

import lightgbm
import numpy as np
import pytest

from flopcast.models import Boosted, learners
from flopcast.models.learners import checked

rng = np.random.default_rng(0)
X = rng.uniform(1, 9, (200, 3))
TEXT = Boosted(n_trees=4, max_leaves=5).fit(X, X[:, 0] * X[:, 1]).text_


def test_the_text_written_anew_predicts_the_same() -> None:
    ours, theirs = (lightgbm.Booster(model_str=text) for text in (checked(TEXT, 3), TEXT))
    rows = np.vstack([X, [[np.nan, 1.0, 2.0], [0.0, np.inf, -1.0]]])
    np.testing.assert_array_equal(ours.predict(rows), theirs.predict(rows))
    assert checked(checked(TEXT, 3), 3) == checked(TEXT, 3)
    assert len(checked(TEXT, 3)) < len(TEXT)


def test_hubers_loss_is_the_mean_of_what_lies_close_and_counts_what_does_not_by_its_side() -> None:
    rows = np.repeat([[0.0], [1.0]], 200, axis=0)
    y = np.r_[np.full(100, 1.0), np.full(80, 1.04), np.full(20, 9.0), np.full(200, 5.0)]
    found = (
        Boosted(loss="huber", max_leaves=2, n_trees=400, learning_rate=0.5)
        .fit(rows, y)
        .predict([[0.0]])[0]
    )
    # zero of 100 (c - 1) + 80 (c - 1.04) - 20 * 0.1
    assert found == pytest.approx((100 + 80 * 1.04 + 2) / 180, abs=1e-3)
    with pytest.raises(ValueError, match="loss"):
        Boosted(loss="square").fit(rows, y)  # type: ignore[arg-type]


def test_hubers_loss_reaches_targets_that_lie_far_apart() -> None:
    rows, y = np.repeat([[0.0], [1.0]], 200, axis=0), np.repeat([0.0, 4.0], 200)
    found = Boosted(loss="huber", max_leaves=2, n_trees=100).fit(rows, y).predict([[0.0], [1.0]])
    # by steps of 0.007 at most it would move by 0.7
    np.testing.assert_allclose(found, [0.0, 4.0], atol=0.05)


def test_a_prediction_by_blocks_of_trees_is_that_of_all(monkeypatch: pytest.MonkeyPatch) -> None:
    whole = Boosted(n_trees=20).fit(X, X[:, 0] * X[:, 1])
    monkeypatch.setattr(learners, "TREES_AT_ONCE", 7)
    parts = Boosted(n_trees=20).fit(X, X[:, 0] * X[:, 1])
    np.testing.assert_allclose(parts.predict(X), whole.predict(X), rtol=1e-14)
    np.testing.assert_allclose(parts.predict(X), whole.native().predict(X), rtol=1e-14)


def test_rows_and_columns_give_the_same_trees(monkeypatch: pytest.MonkeyPatch) -> None:
    y = X[:, 0] * X[:, 1]
    by_columns = Boosted(n_trees=20, tree_features=0.7).fit(X, y).predict(X)
    monkeypatch.setattr(learners, "BY_ROWS", 10)
    np.testing.assert_allclose(
        Boosted(n_trees=20, tree_features=0.7).fit(X, y).predict(X), by_columns, rtol=1e-12
    )


def test_a_tree_that_is_a_single_leaf_is_fine() -> None:
    text = Boosted(n_trees=2).fit(X, np.ones(200)).text_
    np.testing.assert_array_equal(
        lightgbm.Booster(model_str=checked(text, 3)).predict(X[:2]), [1.0, 1.0]
    )


def line(name: str) -> str:
    """Return the first line of that name."""
    return next(one for one in TEXT.splitlines() if one.startswith(f"{name}="))


@pytest.mark.parametrize(
    ("old", "new"),
    [
        (line("left_child"), "left_child=0 -1 -2 -3"),
        (line("left_child"), "left_child=99 -1 -2 -3"),
        (line("right_child"), "right_child=-99 -1 -2 -3"),
        (line("right_child"), "right_child=1"),
        (line("split_feature"), "split_feature=0 1 2 3"),
        (line("split_feature"), "split_feature=-1 1 2 0"),
        (line("split_feature"), "split_feature=0x1 1 2 0"),
        (line("threshold"), "threshold=nan 1 2 3"),
        (line("threshold"), "threshold=1e999 1 2 3"),
        (line("threshold"), "threshold=1 2 3"),
        (line("decision_type"), "decision_type=1 2 2 2"),
        (line("leaf_value"), "leaf_value=1 2 3 4 inf"),
        (line("num_leaves"), "num_leaves=999999999"),
        (line("num_leaves"), "num_leaves=0"),
        (line("num_leaves"), "num_leaves="),
        (line("num_cat"), "num_cat=1"),
        (line("is_linear"), "is_linear=1"),
        (line("shrinkage"), ""),
        (line("max_feature_idx"), "max_feature_idx=7"),
        (line("num_class"), "num_class=2"),
        ("Tree=1", "Tree=x"),
        ("objective", "average_output\nobjective"),
        ("Tree=", "Wood="),
    ],
)
def test_what_the_library_would_follow_astray_is_refused(old: str, new: str) -> None:
    assert old in TEXT
    with pytest.raises(ValueError):  # noqa: PT011  (whatever of it is wrong)
        checked(TEXT.replace(old, new), 3)


def test_threads_that_ask_at_once_each_get_their_own_answer() -> None:
    """A booster asked for some of its trees keeps which: two threads that shared one answered with others' trees."""
    random = np.random.default_rng(0)
    X = random.normal(size=(6000, 8))
    model = Boosted(n_trees=400).fit(X, X[:, 0] + np.sin(3 * X[:, 1]))
    parts = [X[first::4] for first in range(4)] * 6
    alone = [model.predict(part) for part in parts[:4]] * 6
    with ThreadPoolExecutor(4) as pool:
        together = list(pool.map(model.predict, parts))
    assert all(np.array_equal(one, other) for one, other in zip(alone, together, strict=True))

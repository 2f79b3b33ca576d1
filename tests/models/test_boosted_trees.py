from __future__ import annotations

import lightgbm
import numpy as np
import pytest

from flopcast.models import Boosted
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


def test_a_tree_that_is_a_single_leaf_is_fine() -> None:
    text = Boosted(n_trees=2).fit(X, np.ones(200)).text_
    np.testing.assert_array_equal(lightgbm.Booster(model_str=checked(text, 3)).predict(X[:2]), [1.0, 1.0])


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

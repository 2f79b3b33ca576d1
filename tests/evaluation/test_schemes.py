"""Folds: a partition of the rows, balanced, that never splits a group where it must not."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from flopcast.errors import DataError
from flopcast.evaluation.crossval import make_folds

SIZES = st.lists(st.integers(1, 30), min_size=2, max_size=40)


@given(n=st.integers(5, 200), folds=st.integers(2, 5), seed=st.integers(0, 99))
@settings(deadline=None, derandomize=True, max_examples=50)
def test_shuffled_folds_differ_by_at_most_one_row(n: int, folds: int, seed: int) -> None:
    sizes = np.bincount(make_folds("kfold", None, n, folds, seed))
    assert len(sizes) == folds
    assert sizes.sum() == n
    assert sizes.max() - sizes.min() <= 1


@given(sizes=SIZES, folds=st.integers(2, 10), seed=st.integers(0, 99))
@settings(deadline=None, derandomize=True, max_examples=50)
def test_grouped_folds_keep_groups_whole_and_are_balanced(sizes: list[int], folds: int, seed: int) -> None:
    groups = np.random.default_rng(seed).permutation(np.repeat(np.arange(len(sizes)), sizes)).astype(str)
    found = make_folds("grouped", groups, len(groups), folds, seed)
    for group in np.unique(groups):
        assert len(np.unique(found[groups == group])) == 1
    rows = np.bincount(found)
    assert len(rows) == min(folds, len(sizes))
    assert rows.min() > 0
    if len(sizes) > folds:  # the guarantee of longest-processing-time-first, Graham 1969
        assert rows.max() <= 4 / 3 * max(max(sizes), len(groups) / folds) + max(sizes) / 3


def test_groups_fewer_than_folds_are_left_out_one_by_one() -> None:
    groups = np.array(["a", "b", "a", "c", "b"])
    assert make_folds("grouped", groups, 5, folds=10).tolist() == [0, 1, 0, 2, 1]


def test_the_seed_decides() -> None:
    first, again, other = (make_folds("kfold", None, 50, seed=seed) for seed in (1, 1, 2))
    assert (first == again).all()
    assert (first != other).any()
    groups = np.repeat(np.arange(30), 2)
    assert (make_folds("grouped", groups, 60, seed=1) != make_folds("grouped", groups, 60, seed=2)).any()


def test_largest_groups_go_first() -> None:
    groups = np.repeat(["a", "b", "c", "d", "e"], [10, 7, 4, 3, 2])
    assert sorted(np.bincount(make_folds("grouped", groups, 26, folds=2))) == [13, 13]


def test_too_few_rows_or_groups_say_so() -> None:
    with pytest.raises(DataError, match="10-fold cross-validation needs at least 10 rows, there are 4"):
        make_folds("kfold", None, 4)
    with pytest.raises(DataError, match=r"at least 2 groups, all rows are of group 'a': choose another column"):
        make_folds("grouped", np.array(["a", "a"]), 2)
    with pytest.raises(DataError, match="there are no rows"):
        make_folds("grouped", np.array([]), 0)


def test_wrong_parameters_are_named() -> None:
    with pytest.raises(ValueError, match="scheme of make_folds must be one of kfold, grouped, got 'random'"):
        make_folds("random", None, 20)
    with pytest.raises(ValueError, match="folds of make_folds must be at least 2, got 1"):
        make_folds("kfold", None, 20, folds=1)
    with pytest.raises(ValueError, match="must have 3 entries, got 2"):
        make_folds("grouped", np.array(["a", "b"]), 3)
    with pytest.raises(ValueError, match="groups of make_folds must be given"):
        make_folds("grouped", None, 3)

"""What a model is to the rest: threads, weights, inner folds."""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor
from threading import Barrier, Event

import numpy as np
import pytest
from threadpoolctl import threadpool_info, threadpool_limits

from flopcast.models.base import check_weights, inner_folds, one_blas_thread, weighted_folds
from flopcast.models.linear.regularised import ElasticNet, Lasso
from flopcast.models.linear.rfecv import RFECV

HANGS = 3600
"""Seconds after which a thread that is never let go is an error."""


def blas_threads() -> set[int]:
    return {
        library["num_threads"] for library in threadpool_info() if library["user_api"] == "blas"
    }


def test_the_last_of_overlapping_calls_lifts_the_limit() -> None:
    inside, first_left = Barrier(2, timeout=HANGS), Event()

    @one_blas_thread
    def enter() -> None:
        inside.wait()

    @one_blas_thread
    def enter_and_stay() -> set[int]:
        inside.wait()
        assert first_left.wait(timeout=HANGS)
        return blas_threads()

    with threadpool_limits(2, user_api="blas"), ThreadPoolExecutor(2) as pool:
        assert blas_threads() == {2}
        first, second = pool.submit(enter), pool.submit(enter_and_stay)
        first.result()
        first_left.set()
        assert second.result() == {1}
        assert blas_threads() == {2}


def test_a_call_within_a_call_leaves_the_limit_and_an_error_lifts_it() -> None:
    @one_blas_thread
    def inner() -> None:
        return None

    @one_blas_thread
    def outer() -> None:
        inner()
        assert blas_threads() == {1}
        raise ArithmeticError("within")

    with threadpool_limits(2, user_api="blas"):
        with pytest.raises(ArithmeticError, match="within"):
            outer()
        assert blas_threads() == {2}


@pytest.mark.parametrize("weight", [0, -1.0, [0.0, 0.0], [1.0, -1.0]])
def test_weights_that_are_negative_or_all_zero_are_an_error(weight: object) -> None:
    with pytest.raises(ValueError, match="non-negative"):
        check_weights(weight, 2)


def test_one_weight_is_that_of_every_row() -> None:
    np.testing.assert_array_equal(check_weights(3, 2), [3.0, 3.0])
    np.testing.assert_array_equal(check_weights(None, 2), [1.0, 1.0])
    with pytest.raises(ValueError, match="sample_weight contains NaN"):
        check_weights(float("nan"), 2)


def test_rows_without_weight_are_left_out_and_the_others_numbered_anew() -> None:
    folds = [(np.array([0, 1, 2]), np.array([3, 4])), (np.array([2, 3, 4]), np.array([0, 1]))]
    found = weighted_folds(folds, [1.0, 0.0, 2.0, 0.5, 0.0], 3, None, 0)
    assert [(train.tolist(), valid.tolist()) for train, valid in found] == [
        ([0, 1], [2]),
        ([1, 2], [0]),
    ]


@pytest.mark.parametrize("weight", [None, 3.0, np.ones(10)])
def test_equal_weights_leave_the_folds_alone(weight: object) -> None:
    expected = inner_folds(3, 10, None, 1)
    for (train, valid), (a, b) in zip(
        weighted_folds(3, weight, 10, None, 1), expected, strict=True
    ):
        np.testing.assert_array_equal(train, a)
        np.testing.assert_array_equal(valid, b)


def test_a_model_with_rows_of_no_weight_is_one_without_them() -> None:
    rng = np.random.default_rng(0)
    X, y, w = rng.normal(size=(40, 5)), rng.normal(size=40), np.repeat([1.0, 0.0], 20)
    folds = [(np.arange(0, 40, 2), np.arange(1, 40, 2))]
    some = RFECV(cv=[(train[:10], valid[:10]) for train, valid in folds]).fit(X[:20], y[:20])
    np.testing.assert_array_equal(RFECV(cv=folds).fit(X, y, sample_weight=w).coef_, some.coef_)


def test_a_fold_without_training_or_validation_rows_is_left_out() -> None:
    groups, weight = np.repeat([0, 1, 2], 4), np.repeat([1.0, 0.0, 1.0], 4)
    found = {
        tuple(valid.tolist()): train.tolist()
        for train, valid in weighted_folds(3, weight, 8, groups, 0)
    }
    assert found == {(0, 1, 2, 3): [4, 5, 6, 7], (4, 5, 6, 7): [0, 1, 2, 3]}


@pytest.mark.parametrize("model", [RFECV(), Lasso(), ElasticNet()])
def test_weights_on_one_group_alone_are_an_error(model: RFECV | Lasso | ElasticNet) -> None:
    rng = np.random.default_rng(0)
    X, y, weight = rng.random((20, 3)), rng.random(20), np.repeat([1.0, 0.0], 10)
    with pytest.raises(ValueError, match="inner folds"):
        model.fit(X, y, weight, groups=np.repeat([0, 1], 10))

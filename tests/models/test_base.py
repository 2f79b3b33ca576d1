"""What the models share: weights, and one BLAS thread for whoever is inside a method."""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor
from threading import Barrier, Event

import numpy as np
import pytest
from threadpoolctl import threadpool_info, threadpool_limits

from flopcast.models.base import check_weights, one_blas_thread


def blas_threads() -> set[int]:
    return {library["num_threads"] for library in threadpool_info() if library["user_api"] == "blas"}


def test_the_last_of_overlapping_calls_lifts_the_limit() -> None:
    inside, first_left = Barrier(2, timeout=60), Event()

    @one_blas_thread
    def enter() -> None:
        inside.wait()

    @one_blas_thread
    def enter_and_stay() -> set[int]:
        inside.wait()
        assert first_left.wait(timeout=60)
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
    with pytest.raises(ValueError, match="non-negative and not all zero"):
        check_weights(weight, 2)


def test_one_weight_is_that_of_every_row() -> None:
    np.testing.assert_array_equal(check_weights(3, 2), [3.0, 3.0])
    np.testing.assert_array_equal(check_weights(None, 2), [1.0, 1.0])
    with pytest.raises(ValueError, match="sample_weight contains NaN"):
        check_weights(float("nan"), 2)

"""Schedules: every token is made once, the cache never overflows, what does not fit waits."""

from __future__ import annotations

import numpy as np
import pytest

from flopcast.errors import DataError
from flopcast.workloads.inference import batch, serve


@pytest.mark.parametrize("room", [1e9, 9_000, 700])
@pytest.mark.parametrize("most", [16, 1000])
def test_every_token_is_made_once_and_fits(room: float, most: int) -> None:
    found = serve(50, 100, 500, most=most, cache_tokens=room)
    assert (found.steps * found.running).sum() == pytest.approx(50 * 500)
    assert found.most <= most
    assert found.cached.max() <= room + found.most
    assert found.prompts.sum() >= 50 * 100


def test_without_limits_requests_run_as_one_batch() -> None:
    whole, served = batch(50, 100, 500), serve(50, 100, 500, most=50, cache_tokens=1e9)
    assert served.steps.sum() == whole.steps.sum() == 500
    assert (served.steps * served.cached).sum() == pytest.approx((whole.steps * whole.cached).sum())


def test_half_the_room_takes_twice_the_steps() -> None:
    steps = [serve(100, 100, 400, most=most, cache_tokens=1e9).steps.sum() for most in (100, 50, 25)]
    assert steps == [400, 800, 1600]


def test_what_is_put_back_is_read_again() -> None:
    roomy, tight = (serve(20, 100, 400, most=20, cache_tokens=room) for room in (1e6, 5_000))
    assert roomy.prompts.sum() == 2000
    assert tight.prompts.sum() > 2000
    assert np.isfinite(tight.cached).all()


def test_a_request_that_never_fits_is_refused() -> None:
    with pytest.raises(DataError, match="600"):
        serve(1, 100, 500, most=1, cache_tokens=599)

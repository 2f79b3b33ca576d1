from __future__ import annotations

import numpy as np
import pytest

from flopcast.power.profile import detect_throttling


def readings(level: list[float], noise: float = 10.0) -> tuple[np.ndarray, np.ndarray]:
    execution = np.tile(np.arange(1, len(level) + 1), 30)
    return execution, np.array(level)[execution - 1] + np.random.default_rng(0).normal(
        0, noise, len(execution)
    )


def test_a_rise_and_then_a_fall_is_throttling() -> None:
    found = detect_throttling(*readings([300, 400, 500, 600, 600, 550, 520, 520]))
    assert found.found
    assert found.peak_execution in (4, 5)
    assert found.fall_percent == pytest.approx(13, abs=2)


@pytest.mark.parametrize(
    "level", [[300, 400, 500, 600, 600], [600, 550, 500, 450], [500] * 8, [300, 500, 495, 490]]
)
def test_a_rise_a_fall_or_neither_is_not(level: list[float]) -> None:
    assert not detect_throttling(*readings(level)).found


def test_noise_is_not() -> None:
    assert not detect_throttling(*readings([500] * 8, noise=200)).found


def test_many_executions_are_taken_together() -> None:
    found = detect_throttling(*readings([500] * 10 + [600] * 10 + [540] * 20))
    assert (found.found, found.peak_execution) == (True, 11)


def test_few_readings_do_not_tell() -> None:
    found = detect_throttling(np.array([1, 2, 3]), np.array([1.0, 3, 2]))
    assert (found.found, found.peak_execution) == (False, 0)
    assert np.isnan(found.fall_percent)

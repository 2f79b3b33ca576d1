from __future__ import annotations

import numpy as np
import pytest

from flopcast.power.readings import gpus_in_bursts

MS = 1_000_000


@pytest.mark.parametrize("gpus", [2, 3, 8])
@pytest.mark.parametrize("apart_ms", [0, 3])
def test_bursts_are_of_several_gpus(gpus: int, apart_ms: int) -> None:
    rng = np.random.default_rng(0)
    starts = np.cumsum(rng.integers(90, 140, 200)) * MS
    times = (starts[:, None] + apart_ms * MS * np.arange(gpus)).ravel()
    assert gpus_in_bursts(times) == gpus
    assert gpus_in_bursts(times[: 3 * gpus]) == gpus
    assert gpus_in_bursts(times[:-1]) == gpus  # stopped within a burst
    late = times.copy()
    late[gpus * 50 + 1 :] += 5000 * MS  # stalled once within a burst
    assert gpus_in_bursts(late) == gpus


@pytest.mark.parametrize("seed", range(10))
def test_one_gpu_may_jitter(seed: int) -> None:
    rng = np.random.default_rng(seed)
    assert gpus_in_bursts(np.cumsum(rng.exponential(100 * MS, 500)).astype(int)) == 1
    assert gpus_in_bursts(np.arange(500) * 100 * MS + rng.integers(-40, 40, 500) * MS) == 1
    assert gpus_in_bursts(np.cumsum(rng.choice([0, 1, 1, 1, 2], 500)) * MS) == 1  # faster than its stamps
    assert gpus_in_bursts(np.cumsum(rng.choice([20, 100], 500)) * MS) == 1


def test_few_readings_do_not_tell() -> None:
    assert gpus_in_bursts(np.array([], dtype=int)) == 1
    assert gpus_in_bursts(np.array([5])) == 1
    assert gpus_in_bursts(np.array([0, 1, 50]) * MS) == 1
    assert gpus_in_bursts(np.array([5, 5]) * MS) == 2

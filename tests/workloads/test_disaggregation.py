"""First tokens with prompts on GPUs of their own: limits of the queue, solved by hand."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from flopcast.workloads.disaggregation import waits_ms

NOTHING: dict[str, Any] = {"each_ms": 0.0, "alone": 1.0, "first_ms": 0.0}


def waits(work: float, answer: float, users: float, workers: float = 1.0, **of: Any) -> float:
    arrays = (np.array([value]) for value in (work, answer, users, workers))
    return float(waits_ms(*arrays, **{**NOTHING, **of})[0])


def test_one_request_waits_for_none() -> None:
    assert waits(50.0, 1000.0, 1) == pytest.approx(50.0)
    assert waits(50.0, 1000.0, 1, workers=4) == pytest.approx(200.0)  # an instance has a quarter
    own = waits(50.0, 1000.0, 1, each_ms=10.0, alone=2.0, first_ms=100.0)
    assert own == pytest.approx(2 * 60.0 + 100.0)


def test_at_many_requests_the_server_decides() -> None:
    # each of 10,000 comes back after all prompts were read once
    assert waits(50.0, 1000.0, 10_000) == pytest.approx(10_000 * 50.0 - 1000.0, rel=1e-3)


def test_by_schweitzers_approximation() -> None:
    # r = s (1 + (n - 1) r / (r + z)), of which one's own time is left out once
    rest, at_server = 100.0 + 10.0, waits(10.0, 100.0, 5)
    assert at_server == pytest.approx(10.0 * (1 + 4 * at_server / (at_server + rest)))

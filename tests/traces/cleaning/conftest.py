"""Dispatch tables for the tests of cleaning."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pandas as pd
import pytest

from flopcast.traces.dispatches import dispatch_table

Table = Callable[..., pd.DataFrame]


@pytest.fixture
def kernels() -> Table:
    """Return a function that makes kernels one after the other from their durations; what is not given is missing."""

    def make(duration_us: list[float] | np.ndarray, **columns: Any) -> pd.DataFrame:
        duration = np.rint(np.asarray(duration_us) * 1e3).astype(np.int64)
        common = {
            "kind": "kernel",
            "device": "MI300X",
            "process": 1,
            "gpu": 0,
            "stream": 0,
            "name": "k",
            "linked": True,
        }
        start = np.cumsum(duration + 1000) - duration
        source = [f"t.json:{place}" for place in range(1, len(duration) + 1)]
        known = {
            **common,
            "name": "k",
            "start_ns": start,
            "duration_ns": duration,
            "source": source,
            **columns,
        }
        return dispatch_table(known)

    return make

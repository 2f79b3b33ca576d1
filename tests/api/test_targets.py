"""Trainings for several targets: how long all of them will still take."""

from __future__ import annotations

from typing import Any

import pandas as pd
import pytest

from flopcast.api import targets


def test_the_time_left_holds_the_targets_that_are_to_come(monkeypatch: pytest.MonkeyPatch) -> None:
    now, told = [0.0], list[tuple[float, float]]()
    lasts = iter([10.0, 14.0, 12.0])

    def train(*_: object, progress: Any, **__: object) -> None:
        last = next(lasts)
        for part in range(1, 5):
            now[0] += last / 4
            progress(part, 4, "a model", last * (1 - part / 4))

    monkeypatch.setattr(targets, "perf_counter", lambda: now[0])
    monkeypatch.setattr(targets, "train", train)
    gpus = ["MI300X", "MI325X", "MI355X", "MI350X"]
    rows = pd.DataFrame(
        {"device": gpus, "op": "gemm", "dtype_a": "fp8", "m": 1, "n": 2, "k": 3, "duration_us": 9.0}
    )
    targets.train_each(
        rows,
        host=gpus[0],
        targets=gpus[1:],
        progress=lambda *call: told.append((call[3], 36.0 - now[0])),
    )
    assert len(told) == 12
    assert all(1 / 1.5 < said / true < 1.5 for said, true in told[:-1])
    assert told[-1] == (0.0, 0.0)

"""Rows that repeat others are predicted once, and answered like them."""

from __future__ import annotations

from typing import Any

import numpy as np
import pandas as pd
import pytest

import flopcast as fc
from flopcast.evaluation.trained_model import TrainedModel

SMALL = {"m": (None, 64)}


@pytest.fixture(scope="module")
def run() -> Any:
    return fc.train(where=SMALL, models=["Additive"], jobs=1)


def test_each_of_repeated_rows_has_the_answer_and_source_of_its_own(
    run: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    asked = list[int]()
    answer = TrainedModel.answer

    def counted(self: TrainedModel, rows: pd.DataFrame, *rest: Any) -> Any:
        asked.append(len(rows))
        return answer(self, rows, *rest)

    monkeypatch.setattr(TrainedModel, "answer", counted)
    every = fc.read().frame  # some lie far outside: their reasons have figures
    every = every[every["device"] == "MI300X"]
    rows = every.iloc[:: len(every) // 40].reset_index(drop=True)
    once = fc.predict(run, rows).frame
    assert asked == [len(once)]
    order = np.random.default_rng(0).integers(0, len(rows), 200)
    repeated = rows.iloc[order].reset_index(drop=True)
    repeated["source"] = [f"many:{row}" for row in range(len(repeated))]
    many = fc.predict(run, repeated).frame
    assert asked[1:] == [len(np.unique(order))]
    assert (many["reason"] != "").any()
    names = [name for name in once if name != "source"]
    expected = once[names].iloc[order].reset_index(drop=True)
    pd.testing.assert_frame_equal(many[names], expected, check_exact=True)
    assert many["source"].is_unique

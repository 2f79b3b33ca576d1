"""What ships of kernels is asked without any run: in predictions and in forecasts."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pandas as pd
import pytest

import flopcast as fc

ROWS = pd.DataFrame(
    {"op": ["gemm", "gemm", "softmax"], "dtype_a": "bf16", "m": [6144, 12288, 4], "n": 4096, "k": 5120},
    index=[3, 1, 2],
)  # fmt: skip


def test_shipped_kernels_are_predicted_on_a_fresh_machine(tmp_path: Path) -> None:
    out = tmp_path / "answer.csv"
    found = fc.predict("shipped", ROWS, target="MI300X", out=out)
    assert found.frame.index.tolist() == [3, 1, 2]
    assert found.summary["predicted"] == 2
    assert (
        found.frame["predicted_us"][:2]
        .between(found.frame["lower_us"][:2], found.frame["upper_us"][:2])
        .all()
    )
    assert found.frame["reason"][2]
    assert any("shipped-errors" in note for note in found.summary["notes"])
    again = fc.read_predictions(out)
    assert np.allclose(again.frame["upper_us"][:2], found.frame["upper_us"][:2])


def test_rows_name_their_gpu_or_a_target_does() -> None:
    both = ROWS[:2].assign(device=["MI300X", "MI355X"])
    found = fc.predict("shipped", both).frame
    assert found["target"].tolist() == ["MI300X", "MI355X"]
    assert found["predicted_us"].notna().all()
    with pytest.raises(fc.DataError, match="device"):
        fc.predict("shipped", ROWS[:2])


@pytest.mark.parametrize("option", [{"fallback": "law"}, {"target_cost": "cost"}])
def test_what_needs_a_run_of_ones_own_is_refused(option: dict[str, str]) -> None:
    with pytest.raises(fc.ParameterError):
        fc.predict("shipped", ROWS, target="MI300X", **option)  # type: ignore[arg-type]


def test_a_training_step_takes_its_products_from_what_ships() -> None:
    step = {"kind": "training", "gpu": "MI300X", "gpus": 8, "global_batch": 64, "seq_len": 4096}
    law, shipped = (
        fc.forecast("llama-3.1-8b", micro_batch=2, run=run, **step).answers[0]  # type: ignore[union-attr]
        for run in ((), "shipped")
    )
    assert law.parts["products"] != shipped.parts["products"]
    assert shipped.predicted == pytest.approx(law.predicted, rel=0.15)


def test_sizes_beyond_the_measured_ones_are_counted_as_one_cause() -> None:
    small = ROWS[:2].assign(m=[64, 128])
    found = fc.predict("shipped", small, target="MI300X")
    assert found.summary["causes"] == {"beyond the measured sizes": 2}
    assert found.frame["reason"].str.contains("m is ").all()

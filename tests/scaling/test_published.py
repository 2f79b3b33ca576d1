from __future__ import annotations

import csv
from collections import Counter
from pathlib import Path

import pytest

from flopcast.scaling.curves import published_curves
from flopcast.scaling.trials import simulation_speedups


def test_the_curves_are_complete() -> None:
    curves = published_curves()
    assert Counter(curve.scenario for curve in curves) == {"strong": 21, "weak": 6, "chiplets": 5}
    for curve in curves:
        expected = (
            ("chiplet", [4, 8, 16])
            if curve.scenario == "chiplets"
            else ("SM", [8, 16, 32, 64, 128])
        )
        assert (curve.unit, curve.sizes.tolist()) == expected
    assert {curve.benchmark: curve.f_mem for curve in curves if curve.f_mem} == {
        "dct": 0.52,
        "fwt": 0.53,
    }


def test_every_fact_has_arrived_unchanged(shared_data: Path) -> None:
    path = shared_data.parent / "facts" / "scale_model.csv"
    curves = {(curve.scenario, curve.benchmark): curve for curve in published_curves()}
    rows = list(csv.DictReader(path.read_text(encoding="utf-8").splitlines()))
    assert len(rows) == sum(len(curve.sizes) for curve in curves.values())
    for row in rows:
        curve = curves[row["scenario"].replace("weak-multi-chiplet", "chiplets"), row["benchmark"]]
        (i,) = (curve.sizes == float(row["size"])).nonzero()[0]
        assert (curve.performance[i], curve.mpki[i]) == (float(row["ipc"]), float(row["llc_mpki"]))
        if row["f_mem_percent"]:
            assert curve.f_mem == pytest.approx(float(row["f_mem_percent"]) / 100)


def test_the_seconds_published_say_how_many_times_faster_scale_models_are() -> None:
    found = simulation_speedups()
    assert found["mean"].round(2).tolist() == [1.52, 3.89, 9.29, 2.17]
    assert (found["mean"] - found["published_mean"]).abs().max() < 0.05
    assert (found["least"] < found["mean"]).all()
    assert found["most"].iloc[-1] == pytest.approx(2.73, abs=0.01)

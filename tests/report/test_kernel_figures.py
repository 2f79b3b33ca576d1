"""Figures of kernels: the timeline of a projected trace, its kernels on their roofs, efficiency over shapes."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pandas as pd
import pytest

import flopcast as fc
from flopcast.api.projecting import ProjectedTrace
from flopcast.errors import DataError, ParameterError
from flopcast.tests.readers.kineto.made_up import write_trace


@pytest.fixture(scope="module")
def found(tmp_path_factory: pytest.TempPathFactory) -> ProjectedTrace:
    trace: Path = write_trace(tmp_path_factory.mktemp("trace") / "t.json")
    return fc.project(trace, target="MI355X")


def test_the_timeline_has_the_measured_trace_above_the_projected_one(found: ProjectedTrace) -> None:
    drawn = found.plot_timeline()
    rows = {str(name) for trace in drawn.data for name in trace.y}
    assert rows == {"MI300X, measured", "MI355X, projected"}
    lasts: dict[str, float] = dict.fromkeys(rows, 0.0)
    for trace in drawn.data:
        lasts[str(trace.y[0])] += float(np.sum(trace.x))
    kernels = found.kernels
    assert lasts["MI300X, measured"] == pytest.approx(kernels["measured_us"].sum() / 1e3)
    assert lasts["MI355X, projected"] == pytest.approx(kernels["projected_us"].sum() / 1e3)


def test_kernels_lie_on_the_roofs_of_both_gpus(found: ProjectedTrace) -> None:
    drawn = found.plot_roofline()
    assert drawn is not None
    roofs = [trace for trace in drawn.data if trace.mode == "lines"]
    points = [trace for trace in drawn.data if trace.mode == "markers"]
    assert [len(roofs), len(points)] == [2, 2]
    highest = [max(trace.y) for trace in roofs]
    assert highest[0] < highest[1]
    for roof, point in zip(highest, points, strict=True):
        assert max(point.y) <= roof


def shares(m: int, times: float) -> dict[str, object]:
    sizes = {"m": m, "n": 4096, "k": 4096}
    return {"device": "MI300X", "op": "gemm", "dtype_a": "bf16", **sizes, "duration_us": times}


def test_the_heat_map_has_the_share_of_the_roofline() -> None:
    peak, bandwidth = 1307.4, 5325.0
    flops, moved = 2 * 4096**3, 2 * 3 * 4096**2
    bound = max(flops / peak / 1e6, moved / bandwidth / 1e3)
    data = fc.read(pd.DataFrame([shares(4096, 2 * bound), shares(16, 40.0)]))
    (heat,) = data.plot_efficiency().data
    assert list(heat.x) == ["16", "4096"]
    assert heat.z[0][1] == pytest.approx(50.0)


def test_a_heat_map_is_of_one_device_and_of_products() -> None:
    with pytest.raises(ParameterError, match="MI355X"):
        fc.read().plot_efficiency()
    copies = {"device": "MI300X", "op": "softmax", "dtype_a": "bf16", "rows": 4096, "cols": 8192}
    data = fc.read(pd.DataFrame([copies | {"duration_us": 150.0}]))
    with pytest.raises(DataError, match="matrix product"):
        data.plot_efficiency()


def test_the_band_of_parity_holds_nine_in_ten() -> None:
    run = fc.train(where={"m": (None, 64)}, models="OLS", jobs=1)
    band, equal, points = run.plot_parity().data
    assert list(equal.x) == list(equal.y)
    low, high = (np.asarray(band.y)[[0, -1]] / np.asarray(band.x)[[0, -1]]).tolist()
    ratio = np.asarray(points.y, dtype=float) / np.asarray(points.x, dtype=float)
    assert np.mean((ratio >= low * 0.999) & (ratio <= high * 1.001)) == pytest.approx(0.9, abs=0.03)

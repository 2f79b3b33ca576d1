from __future__ import annotations

from html.parser import HTMLParser

import numpy as np
import pandas as pd
import pytest

from flopcast.hardware import GPU
from flopcast.report.scaling_page import (
    devices_html,
    family_figure,
    leading,
    prediction_figure,
    predictions_html,
    problem_figure,
)
from flopcast.scaling.curves import curves_of
from flopcast.scaling.devices import DeviceScaling, assess_devices
from flopcast.scaling.prediction import SizePredictions, predict_sizes
from flopcast.table.measurements import clean


@pytest.fixture(scope="module")
def result() -> SizePredictions:
    """Four benchmarks of growing curvature; the last is not measured at the target."""
    sizes = np.array([8, 16, 32, 64])
    names = ("<b>a</b>", "b", "c", "d")
    parts = [
        pd.DataFrame({"benchmark": name, "size": sizes, "ipc": sizes ** (1 - 0.05 * i)}) for i, name in enumerate(names)
    ]
    table = curves_of(pd.concat([*parts[:3], parts[3].head(2)], ignore_index=True))
    return predict_sizes(table, [8, 16], [64])


@pytest.fixture(scope="module")
def devices() -> DeviceScaling:
    """Copies on two devices; the larger one takes half the time."""
    gpus = [GPU(name=f"<i>{cus}</i>", arch="A", cus=cus) for cus in (8, 16)]
    cells = [(rows, cols) for cols in (1024, 2048, 4096, 8192) for rows in (16, 64, 256)]
    shapes = pd.DataFrame(cells, columns=["rows", "cols"]).assign(op="copy", dtype_a="fp32")
    times = (shapes["rows"] * shapes["cols"] * np.exp(np.random.default_rng(0).normal(0, 0.01, 12))).to_numpy()
    raw = pd.concat(
        [shapes.assign(device=gpu.name, duration_us=times / (gpu.cus or 1)) for gpu in gpus], ignore_index=True
    )
    frame = clean(raw.assign(source=[f"a<b>.csv:{row + 2}" for row in range(len(raw))])).frame
    return assess_devices(frame, gpus, replicates=100)


class _Links(HTMLParser):
    """Collects everything a browser would fetch, and the tags."""

    def __init__(self) -> None:
        super().__init__()
        self.fetched: list[str] = []
        self.tags: list[str] = []

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.tags.append(tag)
        self.fetched += [
            value or "" for name, value in attrs if name in {"src", "href"} and not (value or "").startswith("#")
        ]


def test_each_benchmark_has_a_panel_with_what_was_measured(result: SizePredictions) -> None:
    figure = prediction_figure(result, leading(result))
    measured = [trace for trace in figure.data if trace.name == "measured"]
    assert [len(trace.x) for trace in measured] == [4, 4, 4, 2]
    assert list(measured[0].marker.symbol) == ["circle", "circle", "circle-open", "circle-open"]
    assert figure.layout.annotations[0].text == "&lt;b&gt;a&lt;/b&gt; (strong)"


def test_the_leading_law_is_shown_with_its_interval_and_the_others_wait_in_the_legend(result: SizePredictions) -> None:
    lead = leading(result)
    figure = prediction_figure(result, lead)
    drawn = {trace.name for trace in figure.data if trace.mode == "lines" and trace.visible is True and trace.name}
    assert drawn == {lead}
    shown = [trace.name for trace in figure.data if trace.showlegend]
    assert len(shown) == len(set(shown))
    assert {"measured", lead} < set(shown)


def test_the_learned_law_leads_and_where_it_is_not_asked_for_one_with_an_interval(result: SizePredictions) -> None:
    assert leading(result) == "scale model (learned)"
    table = curves_of(pd.DataFrame({"benchmark": "a", "size": [8, 16], "ipc": [1.0, 1.9]}))
    assert leading(predict_sizes(table, [8, 16], [64], laws=["USL", "linear", "power"])) == "linear"
    assert leading(predict_sizes(table, [8, 16], [64], laws=["USL"])) == "USL"


def test_per_unit_the_smallest_size_is_one(result: SizePredictions) -> None:
    figure = prediction_figure(result, leading(result), per_unit=True)
    measured = [trace for trace in figure.data if trace.name == "measured"]
    assert [trace.y[0] for trace in measured] == [1] * 4
    np.testing.assert_allclose(measured[0].y, 1)
    assert measured[2].y[3] == pytest.approx(8**-0.1)


def test_problems_and_families_are_drawn(devices: DeviceScaling) -> None:
    curves, linear = problem_figure(devices.measured).data
    assert curves.name == "copy"
    assert len(curves.x) == 12 * 3
    assert (list(linear.x), list(linear.y)) == ([8, 16], [1, 2])
    points, median = family_figure(devices).data
    assert len(points.x) == 12
    exponent = devices.families[0].exponent
    assert median.x[0] + median.error_x.array[0] == pytest.approx(exponent.upper)


@pytest.mark.parametrize("kind", ["predictions", "devices"])
def test_the_page_fetches_nothing_and_escapes_names(result: SizePredictions, devices: DeviceScaling, kind: str) -> None:
    page = predictions_html(result) if kind == "predictions" else devices_html(devices)
    links = _Links()
    links.feed(page)
    assert links.fetched == []
    assert not {"b", "i"} & set(links.tags)
    assert page == (predictions_html(result) if kind == "predictions" else devices_html(devices))


def test_the_page_has_the_errors_and_the_remarks(result: SizePredictions) -> None:
    page = predictions_html(result)
    for words in ("Errors of the laws", "Benchmark by benchmark", "no miss rates given"):
        assert words in page


def test_a_page_without_a_measured_target_says_so() -> None:
    table = curves_of(pd.DataFrame({"benchmark": "a", "size": [8, 16], "ipc": [1.0, 1.9]}))
    page = predictions_html(predict_sizes(table, [8, 16], [64]))
    assert "No target was measured" in page

from __future__ import annotations

import html
import re
from dataclasses import replace
from html.parser import HTMLParser

import numpy as np
import pandas as pd
import pytest

from flopcast.evaluation.linear_scaling import ValidationResult, assess_scaling
from flopcast.features.matrix import build_dataset
from flopcast.hardware import find
from flopcast.report.validation import summary
from flopcast.report.validation_page import validation_figure, validation_html
from flopcast.table.measurements import clean


@pytest.fixture(scope="module")
def result() -> ValidationResult:
    """Copies that take 0.8 of the host's time, in one class; and one lone softmax."""
    host, target = find("MI300X"), find("MI355X")
    cells = [("copy", rows, cols) for cols in (2048, 4096, 8192, 16384) for rows in (4096, 16384, 65536)]
    shapes = pd.DataFrame([*cells, ("softmax", 8192, 4096)], columns=["op", "rows", "cols"]).assign(dtype_a="bf16")
    host_us = (shapes["rows"] * shapes["cols"]).to_numpy() / 1e6 * np.exp(np.random.default_rng(0).normal(0, 0.02, 13))
    sides = ((host.name, host_us), (target.name, 0.8 * host_us))
    raw = pd.concat([shapes.assign(device=name, duration_us=times) for name, times in sides], ignore_index=True)
    frame = clean(raw.assign(source=[f"a<b>.csv:{row + 2}" for row in range(len(raw))])).frame
    dataset = build_dataset(frame, host=host, target=target)
    return ValidationResult(dataset, assess_scaling(dataset, replicates=100), 0.10, 10, 100, 0, {}, ())


class _Links(HTMLParser):
    """Collects everything a browser would fetch."""

    def __init__(self) -> None:
        super().__init__()
        self.fetched: list[str] = []

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.fetched += [
            value or "" for name, value in attrs if name in {"src", "href"} and not (value or "").startswith("#")
        ]


def test_the_figure_shows_every_pair_and_the_medians(result: ValidationResult) -> None:
    figure = validation_figure(result)
    visible = [trace for trace in figure.data if trace.visible]
    points = [trace for trace in visible if trace.type == "scattergl"]
    assert sum(len(trace.x) for trace in points) == 13
    copies = next(trace for trace in points if trace.name.startswith("copy"))
    np.testing.assert_allclose(copies.y, 0.8 / (163.4 / 157.3), rtol=0.01)  # fp32 vector peaks
    median = next(trace for trace in visible if trace.type == "scatter")
    assert median.name == copies.name  # the lone softmax has no interval
    evidence = result.classes[1].law("FLOPS scaling").evidence
    assert evidence is not None
    assert median.y[0] + median.error_y.array[0] == pytest.approx(evidence.deviation.upper)
    band = next(shape for shape in figure.layout.shapes if shape.type == "rect")
    assert (band.y0, band.y1) == pytest.approx((1 / 1.1, 1.1))


def test_each_button_shows_one_law(result: ValidationResult) -> None:
    figure = validation_figure(result)
    shares = [button.args[0]["visible"] for button in figure.layout.updatemenus[0].buttons]
    assert [button.label for button in figure.layout.updatemenus[0].buttons] == list(result.dataset.laws)
    assert np.array(shares).sum(axis=0).tolist() == [1] * len(figure.data)


def test_the_page_needs_no_network_and_repeats_itself(result: ValidationResult) -> None:
    page = validation_html(result)
    links = _Links()
    links.feed(re.sub(r"<script.*?</script>", "", page, flags=re.DOTALL))
    assert links.fetched == []
    assert not re.search(r"<script[^>]*\ssrc=", page)
    assert "Plotly.newPlot" in page
    assert page == validation_html(result)


def test_the_page_is_that_of_the_other_commands(result: ValidationResult) -> None:
    page = validation_html(result)
    assert '<meta name="viewport"' in page
    assert "prefers-color-scheme: dark" in page
    assert '<a href="#evidence">' in page
    assert '<section id="evidence">' in page


def test_the_page_tells_the_classes_apart(result: ValidationResult) -> None:
    body = re.sub(r"<script.*?</script>", "", validation_html(result), flags=re.DOTALL)
    assert body.count('<tr class="title">') == len(result.classes)
    assert '<tr class="title"><td class="text">copy bf16 memory-bound</td><td>12 rows</td>' in body
    assert '<th scope="col" class="text">verdict</th>' in body
    assert "<h1>Does linear scaling hold?</h1>" in body
    assert f"<p>{html.escape(summary(result)[0])}</p>" in body
    assert "a<b>" not in body


def test_the_page_says_what_was_rejected_and_assumed(result: ValidationResult) -> None:
    assert "Rows rejected" not in validation_html(result)
    page = validation_html(replace(result, rejected={"duration is zero": 1217}, notes=("gfx942 is read as <MI300X>",)))
    assert "<li>1,217 rows rejected: duration is zero</li>" in page
    assert "<li>gfx942 is read as &lt;MI300X&gt;</li>" in page

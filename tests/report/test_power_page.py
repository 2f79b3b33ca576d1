from __future__ import annotations

from dataclasses import replace
from html.parser import HTMLParser

import pytest

from flopcast.benchmarks.power_simulator import Scenario, simulate
from flopcast.power.clocks import Clocks, synchronise
from flopcast.power.profile import KernelPower, profile_kernel
from flopcast.report.power_page import power_figure, power_html


@pytest.fixture(scope="module")
def kernel() -> tuple[KernelPower, Clocks]:
    found = simulate(Scenario(runs=120))
    measured = synchronise(found.log, found.executions.assign(kernel="<b>gemm</b>"), found.pairs)
    return profile_kernel(measured, components=["total", "hbm"], window_us=1000, replicates=50), measured.clocks


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


def test_each_component_has_a_panel(kernel: tuple[KernelPower, Clocks]) -> None:
    one, _ = kernel
    figure = power_figure(one)
    names = [trace.name for trace in figure.data]
    panel = ["SSE readings", "SSE polynomial", "SSP readings", "SSP polynomial", "SSP spline", "window removed"]
    assert names == panel * 2
    assert [trace.name for trace in figure.data if trace.showlegend] == panel
    assert [note.text for note in figure.layout.annotations] == ["total", "hbm"]
    ssp = figure.data[2]
    assert len(ssp.x) == len(one.components["total"].ssp.readings)
    assert max(ssp.x) <= one.kernel_us


def test_what_there_is_not_is_not_drawn(kernel: tuple[KernelPower, Clocks]) -> None:
    one, _ = kernel
    bare = replace(one.components["total"], sse=None, deconvolved=None)
    names = [trace.name for trace in power_figure(replace(one, components={"total": bare})).data]
    assert names == ["SSP readings", "SSP polynomial", "SSP spline"]


def test_the_page_fetches_nothing_and_escapes_names(kernel: tuple[KernelPower, Clocks]) -> None:
    one, clocks = kernel
    page = power_html([one], clocks, 0.9)
    assert power_html([one], clocks, 0.9) == page
    body = page.split("<script>")[0]
    found = _Links()
    found.feed(body)
    assert found.fetched == []
    assert "b" not in found.tags
    assert "&lt;b&gt;gemm&lt;/b&gt;" in body
    for words in ("FinGraV", "Energies with 90 % intervals", "golden runs of", "drift"):
        assert words in body

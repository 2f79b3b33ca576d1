"""Figures without a script have their points where their axes put them, and notebooks have them beside plotly's."""

from __future__ import annotations

import re
from xml.etree import ElementTree

import plotly.graph_objects as go
import pytest

from flopcast.report.static_figures import HEIGHT, LINE, WIDTH, Drawing, picture


def _figure() -> go.Figure:
    figure = go.Figure(
        [
            go.Scatter(x=[1, 10, 100], y=[1, 2, 3], mode="lines+markers", name="a < b"),
            go.Bar(x=[1, 10, 100], y=[1, 2, 2], name="bars"),
        ]
    )
    return figure.update_xaxes(type="log", title_text="rows").update_yaxes(range=[0, 4])


def test_a_small_picture_of_a_figure_has_its_points_where_its_axes_put_them() -> None:
    figure = _figure()
    figure.data = figure.data[:1]
    drawn = ElementTree.fromstring(picture(figure, "made up"))
    points = [*drawn.iter("{http://www.w3.org/2000/svg}circle")]
    across = [float(point.get("cx", 0)) for point in points]
    up = [float(point.get("cy", 0)) for point in points]
    assert across[1] - across[0] == pytest.approx(across[2] - across[1], abs=0.2)
    assert up[0] - up[1] == pytest.approx(up[1] - up[2], abs=0.2)
    assert "a < b" in {text.text for text in drawn.iter("{http://www.w3.org/2000/svg}text")}


def test_an_exported_notebook_has_a_picture_of_a_figure() -> None:
    bundle = Drawing(_figure())._repr_mimebundle_()
    drawn = ElementTree.fromstring(bundle["image/svg+xml"])
    assert [*drawn.iter("{http://www.w3.org/2000/svg}circle")]


def test_a_legend_names_every_trace_in_as_many_lines_as_it_takes() -> None:
    names = [f"trace number {place}" for place in range(6)]
    bars = [go.Bar(x=[1.0], y=["gemm"], orientation="h", name=name) for name in names]
    drawn = picture(go.Figure(bars), "bars")
    assert all(f">{name}<" in drawn for name in names)
    _, top, _, height = map(int, re.findall(r'viewBox="(.*?)"', drawn)[0].split())
    assert (top, height) == (-LINE, HEIGHT + LINE)
    single = picture(go.Figure(bars[:1]), "bar")
    assert f'viewBox="0 0 {WIDTH} {HEIGHT}"' in single


@pytest.mark.parametrize("turned", [False, True])
def test_bars_beside_each_other_follow_the_way_of_their_axis(turned: bool) -> None:
    bars = [
        go.Bar(x=[1.0], y=["gemm"], orientation="h", marker={"color": colour})
        for colour in ("#111111", "#222222")
    ]
    figure = go.Figure(bars)
    if turned:
        figure.update_yaxes(autorange="reversed")
    first, second = (
        float(
            re.findall(rf'y="([\d.]+)"[^>]*fill="{colour}" fill-opacity', picture(figure, "bars"))[
                0
            ]
        )
        for colour in ("#111111", "#222222")
    )
    assert (first < second) == turned


def test_dashes_tell_lines_of_one_colour_apart_in_the_legend_too() -> None:
    lines = [
        go.Scatter(
            x=[0, 1], y=[0, 1], name=dash, mode="lines", line={"dash": dash, "color": "#111111"}
        )
        for dash in ("solid", "dash", "dot")
    ]
    drawn = picture(go.Figure(lines), "lines")
    patterns = re.findall(r'stroke-dasharray="([\d ]+)"', drawn)
    assert len(patterns) == 4
    assert len(set(patterns)) == 2

"""Figures without a script have their points where their axes put them, and notebooks have them beside plotly's."""

from __future__ import annotations

from xml.etree import ElementTree

import plotly.graph_objects as go
import pytest

from flopcast.report.static_figures import Drawing, picture


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

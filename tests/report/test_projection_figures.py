from __future__ import annotations

import pandas as pd
import plotly.graph_objects as go
import pytest

from flopcast.report.projection_figures import BOUND_COLOURS, Mark, sweep_figure


@pytest.fixture
def frame() -> pd.DataFrame:
    """Memory-bound up to 7 TB/s, then launch-bound."""
    return pd.DataFrame(
        {
            "figure": "memory_bw_gbs",
            "value": [4000.0, 6000.0, 8000.0],
            "current": [False, False, True],
            "end_to_end_us": [3000.0, 2200.0, 2000.0],
            "time_us.copy": [2900.0, 2000.0, 1500.0],
            "share.launch": [0.2, 0.4, 0.6],
            "share.memory": [0.8, 0.6, 0.4],
            "share.link": [0.0, 0.0, 0.0],
        }
    )


def traces_of(figure: go.Figure) -> dict[str, go.Scatter]:
    return {trace.name: trace for trace in figure.data}


def test_the_curve_is_the_time_over_the_figure(frame: pd.DataFrame) -> None:
    figure = sweep_figure(frame, target="<MI355X>", marks=[Mark("MI300X & measured", 5325, 2500)])
    traces = traces_of(figure)
    assert list(traces) == [
        "projected",
        "&lt;MI355X&gt; as it is",
        "MI300X &amp; measured",
        "memory",
        "launch",
    ]
    assert (traces["projected"].x, traces["projected"].y) == ((4000, 6000, 8000), (3.0, 2.2, 2.0))
    assert (traces["&lt;MI355X&gt; as it is"].x, traces["&lt;MI355X&gt; as it is"].y) == (
        (8000,),
        (2.0,),
    )
    assert (traces["MI300X &amp; measured"].x, traces["MI300X &amp; measured"].y) == (
        (5325,),
        (2.5,),
    )
    assert traces["projected"].hovertemplate == "%{y:.4~g} ms at %{x} GB/s<extra>projected</extra>"
    assert figure.layout.xaxis2.title.text == "memory bandwidth, GB/s"
    assert figure.layout.yaxis.title.text == "end to end, ms"


def test_the_shares_are_stacked_in_percent(frame: pd.DataFrame) -> None:
    traces = traces_of(sweep_figure(frame, target="MI355X"))
    assert traces["memory"].y == pytest.approx((80, 60, 40))
    assert traces["launch"].y == pytest.approx((20, 40, 60))
    assert traces["memory"].stackgroup == traces["launch"].stackgroup
    assert traces["memory"].line.color == BOUND_COLOURS["memory"]


def test_a_change_of_bound_is_marked_in_both_panels(frame: pd.DataFrame) -> None:
    figure = sweep_figure(frame, target="MI355X")
    assert [(line.x0, line.xref) for line in figure.layout.shapes] == [(7000, "x"), (7000, "x2")]
    ((x, text, side),) = [(note.x, note.text, note.xanchor) for note in figure.layout.annotations]
    assert (x, text, side) == (7000, "memory → launch", "right")


def test_an_unpublished_figure_has_no_point_of_its_own(frame: pd.DataFrame) -> None:
    assert list(traces_of(sweep_figure(frame.assign(current=False), target="MI355X"))) == [
        "projected", "memory", "launch",
    ]  # fmt: skip


def test_one_figure_shows_one_sweep(frame: pd.DataFrame) -> None:
    with pytest.raises(ValueError, match=r"memory_bw_gbs.*llc_mb"):
        sweep_figure(pd.concat([frame, frame.assign(figure="llc_mb")]), target="MI355X")

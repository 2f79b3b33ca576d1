from __future__ import annotations

import copy

import numpy as np
import pandas as pd
import plotly.graph_objects as go
import pytest

from flopcast.report import figures


@pytest.fixture
def cv(run):
    return copy.deepcopy(run[0]["cv"][1])


def values(trace, axis: str = "y") -> np.ndarray:
    return np.asarray(getattr(trace, axis), dtype=float)


def test_workloads_are_in_order_of_size_with_the_errors_below(run, cv):
    figure = figures.workloads(run[1], cv, "time, µs")
    traces = {(trace.name, trace.yaxis): trace for trace in figure.data}
    name = cv["selected"]["name"]
    assert set(traces) == {
        ("FLOPS scaling", "y"), ("FLOPS scaling", "y2"), ("observed", "y"), (name, "y"), (name, "y2")
    }  # fmt: skip
    observed = values(traces["observed", "y"])
    assert (np.diff(observed) >= 0).all()
    assert observed.size == 429
    for label in (name, "FLOPS scaling"):
        ape = 100 * np.abs(values(traces[label, "y"]) / observed - 1)
        np.testing.assert_allclose(
            values(traces[label, "y2"]), np.maximum(ape, 0.01), rtol=1e-2, atol=1e-3
        )
    rows = next(row for row in cv["models"] if row["name"] == name)
    assert values(traces[name, "y2"]).mean() == pytest.approx(rows["e_out"], rel=1e-4)
    assert figure.layout.yaxis.type == figure.layout.yaxis2.type == "log"


def test_negative_predictions_are_no_points_but_errors(run, cv):
    predictions = run[1].copy()
    chosen = (predictions["model"] == cv["selected"]["name"]) & (predictions["scheme"] == "grouped")
    predictions.loc[predictions.index[chosen][0], "predicted"] = -5.0
    figure = figures.workloads(predictions, cv, "time, µs")
    assert np.isnan(values(figure.data[-2])).sum() == 1
    assert np.isfinite(values(figure.data[-1])).all()


def test_there_is_no_figure_without_a_selected_model(run, cv):
    assert figures.workloads(run[1], {**cv, "selected": None}, "") is None
    assert figures.workloads(run[1].iloc[:0], cv, "") is None


def test_the_selected_model_stands_out_among_thirty(run, cv):
    figure = figures.inliers(run[1], cv)
    assert len(figure.data) == 30 + 3, "the failed model has no curve"
    legend = [trace.name for trace in figure.data if trace.showlegend is not False]
    assert len(legend) == 1 + 4 + 3 + 1
    assert "25 other models" in legend
    widths = {trace.name: trace.line.width for trace in figure.data}
    assert max(widths, key=widths.__getitem__) == cv["selected"]["name"]
    dashed = {trace.name for trace in figure.data if trace.line.dash}
    assert dashed == {"FLOPS scaling", "bandwidth scaling", "roofline scaling"}


@pytest.mark.parametrize("with_predictions", [True, False])
def test_the_curves_pass_through_the_inlier_ratios_of_the_table(run, cv, with_predictions):
    predictions = run[1] if with_predictions else run[1].iloc[:0]
    curves = {trace.name: trace for trace in figures.inliers(predictions, cv).data}
    for row in (cv["models"][0], cv["baselines"][0]):
        curve = curves[row["name"]]
        for threshold, share in row["ir"].items():
            drawn = values(curve)[values(curve, "x") == float(threshold)]
            assert drawn == pytest.approx([share], rel=1e-5)


def test_markup_in_names_is_text(run, cv):
    names = [trace.name for trace in figures.inliers(run[1], cv).data]
    assert "&lt;b&gt;" in "".join(names)
    assert "<b>" not in "".join(names)
    shown = figures.workloads(run[1], cv, "")
    assert "<" not in "".join(shown.data[0].text)


def test_many_workloads_are_drawn_by_webgl_and_of_very_many_some_from_the_first_to_the_last(cv):
    rows = 25_000
    table = pd.DataFrame(
        {"row": np.arange(rows), "scheme": "grouped", "model": cv["selected"]["name"]}
    )
    table = table.assign(
        observed=1.0 + np.arange(rows), predicted=2.0 + np.arange(rows), ape=1.0, group="g"
    )
    figure = figures.workloads(table, cv, "")
    assert [trace.type for trace in figure.data] == ["scatter", "scattergl", "scattergl"]
    observed = values(next(trace for trace in figure.data if trace.name == "observed"))
    assert (len(observed), observed[0], observed[-1]) == (figures.SHOWN, 1, rows)
    assert np.ptp(np.diff(observed)) <= 1
    assert len(values(figures.order(table, cv).data[0])) == figures.SHOWN


def test_rankings_are_bars_from_the_first_down_and_p_values_exponents():
    figure = figures.ranking([("a", 0.5), ("b" * 60, -0.1)], "importance")
    np.testing.assert_allclose(values(figure.data[0], "x"), [0.5, -0.1], rtol=1e-6)
    assert figure.layout.yaxis.autorange == "reversed"
    assert len(figure.layout.yaxis.ticktext[1]) < 40
    assert figure.data[0].customdata[1] == "b" * 60
    figure = figures.ranking([("a", 1e-12), ("b", 0.0)], "p-value")
    np.testing.assert_allclose(values(figure.data[0], "x"), [12, 300])


def test_a_feature_far_above_the_others_does_not_flatten_them() -> None:
    figure = figures.ranking([("a", 488.0), ("b", 1.5), ("c", 0.5)], "importance")
    assert figure.layout.xaxis.type == "log"
    assert figure.data[0].mode == "markers+text"
    assert 10 ** figure.layout.xaxis.range[0] < 0.5 < 488 < 10 ** figure.layout.xaxis.range[1]
    assert (
        figures.ranking([("a", 4.0), ("b", 1.5), ("c", 0.5)], "importance").layout.xaxis.type
        != "log"
    )
    assert (
        figures.ranking([("a", 488.0), ("b", 1.5), ("c", -0.5)], "importance").layout.xaxis.type
        != "log"
    )


def test_groups_have_a_bar_and_their_baselines_mark(run):
    rows = run[0]["groups"][:4]
    bars, marks = figures.groups(rows, [20, 21, None, 23], "affine").data
    assert values(bars, "x").tolist() == [4, 5, 6, 7]
    assert list(marks.x) == [20, 21, None, 23]
    assert marks.name == "affine"
    assert figures.groups([{"group": "g", "n": 1, "e_out": 3.0}], [None], "x").data[1:] == ()


def test_of_each_kind_of_the_literature_the_best_is_drawn(run, cv):
    curves = figures.families(run[1], cv).data
    names = [trace.name.partition(",")[0] for trace in curves]
    best = {
        kind: min(
            (
                row
                for row in cv["models"]
                if row["name"].startswith(kind) and row["e_out"] is not None
            ),
            key=lambda row: row["e_out"],
        )["name"]
        for kind in ("OLS", "NNLS")
    }
    assert set(names) <= {"RandomForest", "Lasso", "Lasso/NNLS", *best.values()}
    assert {best["OLS"], best["NNLS"]} <= set(names)


def test_the_order_is_of_places(run, cv):
    points = figures.order(run[1], cv).data[0]
    assert sorted(values(points)) == list(range(1, 430))
    exact = run[1].assign(predicted=run[1]["observed"] * 3)
    steps = np.diff(values(figures.order(exact, cv).data[0]))
    assert (steps >= 0).all()


def test_errors_over_the_number_of_trees():
    rows = [
        {"trees": n, "e_out": 30 / n, "e_in": 10 / n, "ir": {"5": n, "10": 2 * n, "20": 3 * n}}
        for n in (2, 4)
    ]
    drawn = {trace.name: values(trace).tolist() for trace in figures.trees(rows).data}
    assert drawn["E_out"] == [15.0, 7.5]
    assert drawn["within 20 %"] == [6.0, 12.0]


@pytest.mark.parametrize(("last", "dtick"), [(1.5, None), (100.0, "D2"), (1e6, 1)])
def test_ticks_of_logarithms_are_written_in_full(last: float, dtick: object) -> None:
    figure = go.Figure(go.Scatter(x=[0.0, 1.0, last], y=[1, 2, 3])).update_xaxes(type="log")
    axis = figures.styled(figure, 400, legend={}).layout.xaxis
    assert (axis.dtick, axis.tickformat) == (dtick, ",~g")
    assert figure.layout.yaxis.tickformat is None


def test_bars_reach_from_the_lower_to_the_upper_limit_and_what_is_unlike_training_is_apart() -> (
    None
):
    frame = pd.DataFrame(
        {
            "predicted_us": [8.0, 2.0, np.nan],
            "lower_us": [6.0, 1.5, np.nan],
            "upper_us": [12.0, 3.0, np.nan],
        }
    )
    like, unlike = figures.intervals(
        frame.assign(extrapolated=[True, False, False]), "duration_us"
    ).data
    for trace, place, bars in ((like, 1, (2.0, 1.5, 3.0)), (unlike, 2, (8.0, 6.0, 12.0))):
        (predicted,) = values(trace)
        (up,), (down,) = trace.error_y.array, trace.error_y.arrayminus
        assert (*trace.x, predicted, predicted - down, predicted + up) == (place, *bars)


def test_predictions_and_flops_scaling_stand_relative_to_what_was_measured() -> None:
    frame = pd.DataFrame(
        {
            "duration_us": [4.0, 20.0, 0.0, 5.0],
            "predicted_us": [2.0, 15.0, 1.0, np.nan],
            "lower_us": [1.0, 10.0, 1.0, np.nan],
            "upper_us": [3.0, 30.0, 1.0, np.nan],
            "FLOPS scaling": [2.0, 10.0, 1.0, 1.0],
            "extrapolated": False,
        }
    )
    drawn = figures.over_measured(frame, "duration_us", "MI300X")
    like, law = drawn.data
    assert (*like.x, *like.y) == (4.0, 20.0, 0.5, 0.75)
    assert (*like.error_y.array, *like.error_y.arrayminus) == (0.25, 0.75, 0.25, 0.25)
    assert [*law.y] == [0.5, 0.5]
    assert figures.over_measured(frame.iloc[2:], "duration_us", "MI300X") is None


def test_a_figure_keeps_what_it_says_and_takes_the_look_of_the_page():
    drawn = go.Figure(
        go.Scatter(x=[1, 2], y=[3, 4]),
        {"plot_bgcolor": "red", "xaxis": {"title": {"text": "rows"}}},
    )
    look = figures.styled(drawn, 321, {"x": 0.5}, yaxis={"title": {"text": "µs"}}).layout
    assert (look.height, look.plot_bgcolor, look.legend.x, look.legend.font.size) == (
        321,
        "rgba(0,0,0,0)",
        0.5,
        13,
    )
    assert [(axis.title.text, axis.title.font.size) for axis in (look.xaxis, look.yaxis)] == [
        ("rows", 14),
        ("µs", 14),
    ]
    shown = figures.styled(
        go.Figure(layout={"legend": {"title": {"text": "was"}}}), 99, {"title": "is"}
    ).layout
    assert shown.legend.title.text == "is"


def test_the_farthest_off_of_each_third_are_named() -> None:
    off = np.array([1.0, 9.0, 2.0, 3.0, np.nan, 8.0, 1.0, 1.0, 7.0])
    named = figures.farthest(np.arange(9), off, list("abcdefghi"))
    assert [(one["text"], one["x"]) for one in named] == [("b", 1), ("f", 5), ("i", 8)]
    # as plotly wants it on such an axis
    assert [one["y"] for one in named] == np.log10([9.0, 8.0, 7.0]).tolist()


def test_each_way_of_a_learning_curve_is_named_once() -> None:
    rows = [
        {
            "rows": count,
            "way": way,
            "e_out": error,
            "least": error,
            "greatest": error,
            "coverage": 0.9,
            "affine": 9.0,
        }
        for way, error in (("target alone", 17.0), ("from the host", 7.0))
        for count in (10, 30)
    ]
    drawn = figures.learning(pd.DataFrame(rows), 0.9).data
    names = [trace.name for trace in drawn if trace.showlegend is not False]
    assert sorted(names) == ["affine", "from the host", "target alone"]


def test_one_large_error_leaves_the_others_to_be_seen() -> None:
    rows = [{"group": f"g{place}", "e_out": error} for place, error in enumerate((924.0, 9.0, 8.0))]
    drawn = figures.groups(rows, [None] * 3, "rule")
    assert drawn.layout.xaxis.type == "log"
    alike = [{"group": f"g{place}", "e_out": error} for place, error in enumerate((12.0, 9.0, 8.0))]
    assert figures.groups(alike, [None] * 3, "rule").layout.xaxis.type != "log"


def test_labels_that_differ_in_their_middle_are_cut_so_that_they_differ() -> None:
    groups = [f"{'a' * 30}{size}{'z' * 30}" for size in ("16x16", "32x16")]
    drawn = figures.groups([{"group": one, "e_out": 5.0} for one in groups], [None] * 2, "rule")
    assert len({*drawn.layout.yaxis.ticktext}) == 2


def test_gains_and_losses_go_to_different_sides() -> None:
    drawn = figures.changes(["a", "b"], [-2.0, 1.0], [(-3.0, -1.5), (np.nan, np.nan)], "ms")
    (bars,) = drawn.data
    assert list(bars.x) == [-2.0, 1.0]
    assert bars.error_x.array[0] == pytest.approx(0.5)
    assert bars.error_x.arrayminus[0] == pytest.approx(1.0)
    assert len(set(bars.marker.color)) == 2


def test_rows_of_bars_have_names_that_differ_and_the_first_on_top() -> None:
    long = "a kernel whose name is longer than any label, of variant"
    names = [f"{long} {place}" for place in range(3)]
    drawn = figures.changes(names, [1.0, -2.0, 0.5], [(np.nan, np.nan)] * 3, "change, ms")
    axis = drawn.layout.yaxis
    assert axis.autorange == "reversed"
    assert [*axis.tickvals] == [*drawn.data[0].y] == [0, 1, 2]
    assert len(set(axis.ticktext)) == 3
    assert [*drawn.data[0].customdata] == names
    assert drawn.layout.xaxis.title.text == "change, ms"

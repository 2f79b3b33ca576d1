"""Charts of terminals: what they show, and that the commands draw them."""

from __future__ import annotations

import numpy as np

from flopcast.report.document import Document
from flopcast.report.figures import agreement_chart, inlier_chart
from flopcast.report.html import page
from flopcast.report.terminal import drawn
from flopcast.report.training import training_document

from .pages import printed


def test_the_inlier_curve_counts_errors_within_each_threshold_and_leaves_out_what_has_none() -> (
    None
):
    chart = inlier_chart({"a": [0.0, 4.0, 4.1, np.nan, 80.0], "none": [np.nan]})
    ((name, limits, share),) = chart.curves
    assert (name, limits[2], share[0], share[2], share[-1]) == ("a", 4.0, 25.0, 50.0, 75.0)


def test_points_lie_at_the_logarithms_of_what_is_positive() -> None:
    chart = agreement_chart([1.0, 100.0, 10.0], [10.0, 100.0, -1.0], "OLS", "time, µs")
    _, (name, x, y) = chart.curves
    assert (name, x.tolist(), y.tolist()) == ("OLS", [0.0, 2.0], [1.0, 2.0])
    assert not agreement_chart([1.0], [0.0], "OLS", "time, µs").curves


def test_a_chart_fits_and_its_curves_are_told_apart_without_colour() -> None:
    chart = inlier_chart({"a": [1.0, 30.0], "b": [20.0]})
    for width in (50, 80, 140):
        text = drawn(chart, width)
        assert max(map(len, text.splitlines()[:-2])) <= width
        assert "\x1b" not in text
        assert {"⠤o⠤ a", "⠤x⠤ b"} <= set(text.splitlines()[-1].split("   "))


def test_a_chart_is_for_terminals_and_only_on_demand(run) -> None:
    metrics = {**run[0], "model": {"name": "Stack", "scheme": "grouped"}}
    without, drawn_too = (
        printed(training_document(metrics, run[1], plot=plot)) for plot in (False, True)
    )
    assert "⠤o⠤" not in without
    assert "⠤o⠤" in drawn_too
    assert drawn_too.splitlines()[-1] == without.splitlines()[-1]
    assert "⠤" not in page(Document("t", opening=[inlier_chart({"a": [1.0]})]))

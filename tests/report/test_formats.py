"""Figures as they are printed."""

from __future__ import annotations

import pytest

from flopcast.report.formats import NONE, figure


@pytest.mark.parametrize("value", [float("nan"), float("inf"), -float("inf"), None])
def test_a_figure_that_is_not_finite_is_a_dash(value: float | None) -> None:
    assert figure(value) == NONE

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

from flopcast.errors import ParameterError
from flopcast.power.runs import MISSED, executions_published, plan, read_share, steady_after_us
from flopcast.remarks import remark


@pytest.mark.parametrize(
    ("kernel_us", "runs", "margin", "logs"),
    [(25, 400, 0.05, 5), (49.9, 400, 0.05, 10), (50, 200, 0.05, 5), (120, 200, 0.05, 12), (200, 200, 0.02, 20),
     (999, 200, 0.02, 100), (1000, 200, 0.02, 100), (2500, 200, 0.02, 250)],
)  # fmt: skip
def test_the_published_table(kernel_us: float, runs: int, margin: float, logs: int) -> None:
    chosen = plan(kernel_us, 1000)
    assert chosen.row is not None
    assert (chosen.row.runs, chosen.row.margin, chosen.logs, chosen.repeats) == (
        runs,
        margin,
        logs,
        1,
    )


@pytest.mark.parametrize(
    ("kernel_us", "interval_us", "executions", "filled"),
    [
        (40, 1000, 25, 26),
        (120, 1000, 9, 10),
        (250, 1000, 4, 5),
        (0.1 * 3, 0.9, 4, 4),
        (600, 1000, 4, 4),
        (80, 0, 4, 4),
    ],
)
def test_executions_per_run(
    kernel_us: float, interval_us: float, executions: int, filled: int
) -> None:
    chosen = plan(kernel_us, interval_us)
    assert (chosen.published, chosen.executions_filled) == (executions, filled)
    assert (chosen.steady_from, chosen.executions) == (filled, filled)  # of a lag that is not known
    assert executions_published(kernel_us, interval_us) == executions


def test_below_the_table_no_row_is_invented() -> None:
    chosen = plan(10, 1000)
    assert (chosen.row, chosen.logs, chosen.repeats) == (None, None, 3)
    assert chosen.advice[0] == remark("power-plan-below-table", shortest_us=25, repeats=3)


def test_what_the_figures_do_not_say_is_said() -> None:
    assert plan(120, 1000).advice == [remark("power-plan-lag-unknown", executions=10)]
    assert plan(600, 1000, lag_us=0).advice == []
    slow = plan(120, 5000).advice
    assert slow[0].code == "power-plan-more-runs"
    assert {"runs": 200, "wanted": 12, "needed": 500}.items() <= slow[0].values.items()


@pytest.mark.parametrize(
    ("kernel_us", "interval_us"),
    [
        (0, 1),
        (-1, 1),
        (float("nan"), 1),
        (1e-300, 1),
        (1e300, 1),
        (1, -1),
        (1, float("inf")),
        (1, 1e300),
        (1, 1e-300),
    ],
)
def test_times_out_of_range(kernel_us: float, interval_us: float) -> None:
    with pytest.raises(ParameterError, match="must") as told:
        plan(kernel_us, interval_us)
    assert len(str(told.value)) < 120


@pytest.mark.parametrize(
    ("window_us", "lag_us"), [(1000, 400), (1000, 3000), (20_000, 50), (100, 100)]
)
def test_power_is_steady_when_all_but_little_of_its_rise_is_read(
    window_us: float, lag_us: float
) -> None:
    after_us = steady_after_us(window_us, lag_us)
    assert read_share(np.array([after_us]), window_us, lag_us) >= 1 - MISSED - 1e-9
    if lag_us > MISSED * window_us:
        assert read_share(np.array([after_us]), window_us, lag_us) == pytest.approx(1 - MISSED)
    # the mean over the window of what rises exponentially
    steps = (np.arange(200_000) + 0.5) / 200_000
    read = 1 - np.exp(-(after_us - window_us * steps) / lag_us)
    assert read_share(np.array([after_us]), window_us, lag_us) == pytest.approx(
        read.mean(), abs=1e-6
    )


def test_executions_go_on_until_lag_and_board_have_settled() -> None:
    lagging = plan(32, 1000, lag_us=400)
    assert (lagging.published, lagging.steady_from, lagging.executions) == (32, 86, 89)
    late = plan(1900, 1000, lag_us=400, settling_us=9500)
    assert (late.steady_from, late.executions) == (8, 11)
    seldom = plan(50, 20_000, lag_us=0)
    assert (seldom.steady_from, seldom.executions) == (401, 801)  # for one more window
    assert plan(50, 20_000, lag_us=0, settling_us=1e5).executions == 2401 + 4000  # for a swing
    assert plan(100, 0, lag_us=400).steady_from == 23
    assert plan(32, 1000, lag_us=1e-320) == replace(plan(32, 1000, lag_us=0), lag_us=1e-320)


@pytest.mark.parametrize(
    "times",
    [
        {"lag_us": -1},
        {"lag_us": float("inf")},
        {"settling_us": float("nan")},
        {"settling_us": 1e300},
    ],
)
def test_lags_out_of_range(times: dict[str, float]) -> None:
    with pytest.raises(ParameterError, match=next(iter(times))):
        plan(32, 1000, **times)

from __future__ import annotations

import pytest

from flopcast.errors import ParameterError
from flopcast.power.runs import executions_published, plan
from flopcast.remarks import remark


@pytest.mark.parametrize(
    ("kernel_us", "runs", "margin", "logs"),
    [(25, 400, 0.05, 5), (49.9, 400, 0.05, 10), (50, 200, 0.05, 5), (120, 200, 0.05, 12), (200, 200, 0.02, 20),
     (999, 200, 0.02, 100), (1000, 200, 0.02, 100), (2500, 200, 0.02, 250)],
)  # fmt: skip
def test_the_published_table(kernel_us: float, runs: int, margin: float, logs: int) -> None:
    chosen = plan(kernel_us, 1000)
    assert chosen.row is not None
    assert (chosen.row.runs, chosen.row.margin, chosen.logs, chosen.repeats) == (runs, margin, logs, 1)


@pytest.mark.parametrize(
    ("kernel_us", "interval_us", "executions", "filled"),
    [(40, 1000, 25, 26), (120, 1000, 9, 10), (250, 1000, 4, 5), (0.1 * 3, 0.9, 4, 4), (600, 1000, 4, 4), (80, 0, 4, 4)],
)
def test_executions_per_run(kernel_us: float, interval_us: float, executions: int, filled: int) -> None:
    chosen = plan(kernel_us, interval_us)
    assert (chosen.executions, chosen.executions_filled) == (executions, filled)
    assert executions_published(kernel_us, interval_us) == executions


def test_below_the_table_no_row_is_invented() -> None:
    chosen = plan(10, 1000)
    assert (chosen.row, chosen.logs, chosen.repeats) == (None, None, 3)
    assert chosen.advice[0] == remark("power-plan-below-table", shortest_us=25, repeats=3)


def test_what_the_figures_do_not_say_is_said() -> None:
    (late,) = plan(120, 1000).advice
    assert late == remark("power-plan-window-not-filled", execution=9, missing_us=40, filled_from=10)
    assert plan(600, 1000).advice == []
    slow = plan(120, 5000).advice
    assert slow[0].code == "power-plan-more-runs"
    assert {"runs": 200, "wanted": 12, "needed": 500}.items() <= slow[0].values.items()


@pytest.mark.parametrize(("kernel_us", "interval_us"), [(0, 1), (-1, 1), (float("nan"), 1), (1, -1), (1, float("inf"))])
def test_times_out_of_range(kernel_us: float, interval_us: float) -> None:
    with pytest.raises(ParameterError, match="must"):
        plan(kernel_us, interval_us)

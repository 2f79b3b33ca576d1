from __future__ import annotations

import pytest

from flopcast.errors import DataError
from flopcast.power.recording import executions_published, plan


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
    assert chosen.advice[0].startswith("no row is published below 25 µs: launch the kernel 3 times back to back")


def test_what_the_figures_do_not_say_is_said() -> None:
    assert plan(120, 1000).advice == [
        "execution 9 starts 40 µs before the logger's window has filled: append executions up to 10 or later"
    ]
    assert plan(600, 1000).advice == []
    slow = plan(120, 5000).advice
    assert slow[0].startswith("200 runs give about 5 readings in one execution, 12 are wanted: make 500 runs")


@pytest.mark.parametrize(("kernel_us", "interval_us"), [(0, 1), (-1, 1), (float("nan"), 1), (1, -1), (1, float("inf"))])
def test_times_out_of_range(kernel_us: float, interval_us: float) -> None:
    with pytest.raises(DataError, match="must"):
        plan(kernel_us, interval_us)

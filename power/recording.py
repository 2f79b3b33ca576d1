"""How to measure a kernel's power: the published table of runs, margins and readings, and a plan made from it."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Final

from ..errors import ParameterError
from ..remarks import Remark, remark
from ..traces.cleaning.binning import MARGINS, margin_of

LEAST_EXECUTIONS: Final = 4
"""The fourth execution is the first that is steady: earlier ones warm up clocks and caches."""
SHORTEST_US: Final = MARGINS[0][0]
"""Where the published table begins."""
ADVICE: Final = "see `flopcast power plan`"
"""What to do about a log that says too little."""


@dataclass(frozen=True)
class Row:
    """One row of the published table."""

    from_us: float  # kernel times from this on, and below the next, are those the row is for
    to_us: float
    runs: int  # how often to run
    log_every_us: float  # readings of interest to gather: one for each such part of the kernel's time

    @property
    def margin(self) -> float:
        """Of the execution-time bin: 0.05 is ±5 %."""
        margin = margin_of(self.from_us)
        assert margin is not None
        return margin


TABLE: Final = (
    Row(SHORTEST_US, 50, 400, 5),
    Row(50, 200, 200, 10),
    Row(200, 1000, 200, 10),
    Row(1000, math.inf, 200, 10),
)
"""Singhania, Aga and Ibrahim, ISPASS 2025, table of profiling guidance."""


@dataclass(frozen=True)
class Plan:
    """How to measure one kernel."""

    kernel_us: float  # time of the kernel
    interval_us: float  # the logger's averaging interval; 0 of an instantaneous one
    row: Row | None  # of the published table; None below `SHORTEST_US`
    executions: int  # per run, for the steady-state power: max(⌈interval / kernel time⌉, 4), as published
    # The first execution that starts with the whole interval inside the run. The published number may fall short of
    # it by up to one kernel time, and its reading is then too low.
    executions_filled: int
    logs: int | None  # readings of interest to gather
    expected_logs: float  # readings that fall into one execution, over all runs of the row; NaN without a row
    repeats: int  # back-to-back launches to time as one, so that the table applies; 1 where the kernel is long enough
    random_delay_us: float  # wait before each run for a random time up to this, so that readings fall everywhere

    @property
    def advice(self) -> list[Remark]:
        """What the figures do not say by themselves."""
        said = []
        if self.row is None:
            said.append(
                remark(
                    "power-plan-below-table",
                    f"no row is published below {SHORTEST_US:g} µs: launch the kernel {self.repeats} times back "
                    "to back, timed as one execution, or interleave it as the application does; either way the "
                    "power is that of the sequence, not of one launch",
                    shortest_us=SHORTEST_US,
                    repeats=self.repeats,
                )
            )
        elif self.logs is not None and self.expected_logs < self.logs:
            needed = math.ceil(self.logs * self.row.runs / self.expected_logs)
            text = (
                f"{self.row.runs} runs give about {self.expected_logs:.0f} readings in one execution, {self.logs} are "
                f"wanted: make {needed} runs, or append executions to each run"
            )
            figures = {"runs": self.row.runs, "expected": self.expected_logs, "wanted": self.logs, "needed": needed}
            said.append(remark("power-plan-more-runs", text, **figures))
        if self.executions_filled > self.executions:
            missing_us = self.interval_us - (self.executions - 1) * self.kernel_us
            text = (
                f"execution {self.executions} starts {missing_us:g} µs before the logger's window has filled: append "
                f"executions up to {self.executions_filled} or later"
            )
            figures = {"execution": self.executions, "missing_us": missing_us, "filled_from": self.executions_filled}
            said.append(remark("power-plan-window-not-filled", text, **figures))
        return said


def plan(kernel_us: float, interval_us: float) -> Plan:
    """Return the recommended protocol for a kernel's time and the power logger's averaging interval, both in µs.

    An interval of 0 is that of a logger of instantaneous power; one reading per ms is assumed then.

    Raises
    ------
    ParameterError
        A time is out of its range.

    Examples
    --------
    >>> chosen = plan(120, 1000)
    >>> chosen.row.runs, chosen.row.margin, chosen.executions, chosen.logs
    (200, 0.05, 9, 12)
    """
    if not 0 < kernel_us < math.inf:
        raise ParameterError("kernel_us", f"must be above 0, got {kernel_us:g}")
    if not 0 <= interval_us < math.inf:
        raise ParameterError("interval_us", f"must not be negative, got {interval_us:g}")
    row = next((row for row in TABLE if row.from_us <= kernel_us < row.to_us), None)
    period_us = interval_us or 1000.0
    return Plan(
        kernel_us=kernel_us,
        interval_us=interval_us,
        row=row,
        executions=executions_published(kernel_us, interval_us),
        executions_filled=max(_ceil(interval_us / kernel_us) + 1, LEAST_EXECUTIONS),
        logs=None if row is None else _ceil(kernel_us / row.log_every_us),
        expected_logs=math.nan if row is None else row.runs * kernel_us / period_us,
        repeats=1 if row else _ceil(SHORTEST_US / kernel_us),
        random_delay_us=period_us,
    )


def executions_published(kernel_us: float, interval_us: float) -> int:
    """Return max(⌈interval / kernel time⌉, 4)."""
    return max(_ceil(interval_us / kernel_us), LEAST_EXECUTIONS)


def _ceil(ratio: float) -> int:
    """Return the ceiling; a ratio that is whole but for rounding stays."""
    return math.ceil(ratio - 1e-9)

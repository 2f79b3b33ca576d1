"""Tells how far a cross-validation is, and how long it will still take."""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence

from ...settings import Report
from ..crossval import Course, Observer, Outcome
from .budget import Budget


class Progress(Observer):
    """Reports each fit: the time left is the time so far per fit, times the fits left, or what the budget has left."""

    def __init__(
        self,
        report: Report,
        budget: Budget | None = None,
        clock: Callable[[], float] = time.perf_counter,
    ) -> None:
        self._report = report
        self._budget = budget
        self._clock = clock
        self._start = clock()
        self._fitted = 0

    def after(self, outcomes: Sequence[Outcome], course: Course) -> None:
        """Report the fits of a task."""
        self._fitted += len(outcomes)
        seconds = (self._clock() - self._start) * course.left / self._fitted
        if self._budget is not None:
            seconds = min(seconds, self._budget.left)
        names = ", ".join(outcome.name for outcome in outcomes)
        done = course.done
        self._report(done, done + course.left, f"{names} ({outcomes[0].scheme})", seconds)

"""A budget of seconds, after which no further fit starts."""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import replace
from typing import Final

from ...remarks import remark
from ..crossval import Course, Observer, Task

SPENT: Final = "budget-spent"
"""The code of the remark on a candidate that was left out: it did not fail, and nothing was shown of it."""


class Budget(Observer):
    """Lets no fit start once so many ``seconds`` of ``clock`` have gone by since it was made."""

    def __init__(self, seconds: float, clock: Callable[[], float] = time.perf_counter) -> None:
        self.seconds = seconds
        self._clock = clock
        self._start = clock()

    @property
    def left(self) -> float:
        """Seconds left."""
        return max(self.seconds - (self._clock() - self._start), 0.0)

    def before(self, task: Task, course: Course) -> Task:
        """Leave the candidates of the task out of its scheme where the budget is spent."""
        if self.left > 0:
            return task
        text = f"left out: the budget of {self.seconds:g} s was spent"
        why = remark(SPENT, text, seconds=self.seconds)
        left_out = {candidate.name: why for candidate in task.candidates}
        return replace(task, candidates=(), stopped={**task.stopped, **left_out})

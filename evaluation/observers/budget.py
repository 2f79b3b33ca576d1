"""A budget of seconds, after which no further fit starts."""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import replace

import numpy as np

from ..crossval import Course, Observer, Outcome, Task


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
        """Count the fits of the task as failed where the budget is spent."""
        if self.left > 0:
            return task
        why = f"left out: the budget of {self.seconds:g} s was spent"
        spent = [
            Outcome(candidate.name, task.scheme, task.fold, None, np.nan, 0.0, None, [], why)
            for candidate in task.candidates
        ]
        return replace(task, candidates=(), outcomes=(*task.outcomes, *spent))

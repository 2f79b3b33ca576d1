"""Expensive candidates that cannot win any more are not fitted for the other folds."""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import replace
from typing import Final, Protocol

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from ...arrays import FloatArray
from ...remarks import Remark, remark
from ..crossval import Course, Observer, Task
from ..metrics import ape, finite

LOOKS: Final = {2: 0.5, 4: 0.0}
"""Folds after which candidates may be stopped, where there are at least twice as many as the last
of them -> the margin: how much worse than the best, as a share of its error, a candidate that is
stopped then must be."""


class Hopeless(Protocol):
    """Names the candidates that cannot win, by ``predictions`` of the ``rows`` (numbers) of the first folds.

    They must be worse than the best by more than the ``margin``, a share of its error.
    """

    def __call__(  # noqa: D102
        self, scheme: str, rows: NDArray[np.intp], predictions: pd.DataFrame, margin: float
    ) -> Collection[str]: ...


class EarlyStopping(Observer):
    """Stops the expensive candidates that ``hopeless`` names after the first folds of a scheme (`LOOKS`)."""

    pauses = tuple(LOOKS)

    def __init__(self, hopeless: Hopeless) -> None:
        self._hopeless = hopeless
        self._stopped: dict[str, dict[str, Remark]] = {}  # scheme -> name -> why
        self._looked = 0  # folds after which all schemes were last looked at

    def before(self, task: Task, course: Course) -> Task:
        """Take out of the task who was stopped before its fold."""
        for look in LOOKS:
            if self._looked < look <= task.fold:
                self._look(course, look)
                self._looked = look
        stopped = self._stopped.get(task.scheme, {})
        named = {}
        staying = []
        for candidate in task.candidates:
            if candidate.name in stopped:
                named[candidate.name] = stopped[candidate.name]
            else:
                staying.append(candidate)
        return replace(task, candidates=tuple(staying), stopped={**task.stopped, **named})

    def _look(self, course: Course, look: int) -> None:
        """Stop candidates after so many folds, under every scheme with enough of them."""
        expensive = {candidate.name for candidate in course.candidates if candidate.expensive}
        for scheme, count in course.counts.items():
            if not expensive or count < 2 * max(LOOKS):
                continue
            rows, predictions = course.first_folds(scheme, look)
            if predictions.shape[1] < 2:
                continue
            for name in self._hopeless(scheme, rows, predictions, LOOKS[look]):
                if name in expensive:
                    why = _cannot_win(course.observed[rows], predictions, name, look, count)
                    self._stopped.setdefault(scheme, {})[name] = why


def _cannot_win(
    observed: FloatArray, predictions: pd.DataFrame, name: str, look: int, count: int
) -> Remark:
    errors = {str(rival): float(ape(observed, predictions[rival]).mean()) for rival in predictions}
    best = min(errors, key=lambda rival: (errors[rival], rival))
    times = finite(errors[name] / errors[best])
    text = f"stopped after {look} of {count} folds (could no longer win)"
    if times is not None:
        text += f": {times:.3g} times the error of {best} on the same folds"
    return remark("cannot-win", text, folds=look, of=count, times=times, best=best)

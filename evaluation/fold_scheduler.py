"""The course of a cross-validation: which fits are to be done, who leaves early, and how long it will still take."""

from __future__ import annotations

from collections.abc import Callable, Collection, Hashable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from math import isnan, nan
from typing import Final, Protocol

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from ..arrays import FloatArray, IntArray
from ..models.base import Candidate

LOOKS: Final = {2: 0.5, 4: 0.0}
"""Folds after which candidates may leave, where there are at least twice as many as the last of them -> the margin:
how much worse than the best, as a share of its error, who leaves then must be."""
Left = Mapping[str, Mapping[str, tuple[int, int]]]
"""Scheme -> who leaves it -> how many folds they were fitted without, of how many."""
Then = Callable[[Mapping[str, float], Mapping[str, float], Left], Sequence[float]]
"""Called as ``then(seconds, errors)``, of a fit of each model: seconds of each of the steps that follow the folds."""


class Leave(Protocol):
    """Says who leaves under a scheme: ``predictions`` are those of the ``rows`` (numbers) of the first folds.

    They must be worse than the best by more than the ``margin``, a share of its error.
    """

    def __call__(  # noqa: D102
        self, scheme: str, rows: NDArray[np.intp], predictions: pd.DataFrame, margin: float
    ) -> Collection[str]: ...


@dataclass(frozen=True)
class Task:
    """One fold of one scheme for candidates that are fitted together: one, or those of one family."""

    candidates: tuple[Candidate, ...]
    scheme: str
    fold: int


@dataclass(frozen=True)
class Outcome:
    """One fit: its predictions of the held-out rows, or its error."""

    name: str
    scheme: str
    fold: int
    predicted: FloatArray | None
    e_in: float
    seconds: float
    took: float  # seconds with its predictions
    selected: int | None
    warned: list[str]
    error: str | None


class TimeLeft:
    """The time left of so many ``fits`` of each (name, scheme) that differ in cost by orders of magnitude.

    A fit that is still to come is taken to cost what the last three of the same model have, under the same scheme where
    it has been fitted there: what a family shares is paid by the others once one has left. What is left costs as many
    seconds of ``clock`` as it has until now: on several processes less than the sum of the fits.
    """

    def __init__(self, fits: Mapping[tuple[str, str], int], clock: Callable[[], float]) -> None:
        self._left = dict(fits)
        self._taken: dict[Hashable, list[float]] = {}
        self._spent = 0.0  # seconds of the fits that were done since the start
        self._clock, self._start = clock, clock()

    @property
    def fits(self) -> int:
        """Fits to do."""
        return sum(self._left.values())

    def done(self, name: str, scheme: str, seconds: float, *, again: bool = False) -> None:
        """Count a fit that took so long, its predictions included; with ``again`` it took that before the start."""
        self._spent += 0.0 if again else seconds
        self._left[name, scheme] -= 1
        for key in ((name, scheme), name):
            self._taken.setdefault(key, []).append(seconds)

    def drop(self, name: str, scheme: str, heir: str | None = None) -> None:
        """Count the fits of a model under a scheme as not to be done; what they took its heir's take from now on."""
        del self._left[name, scheme]
        if heir is not None:
            more = self.mean(name, scheme)
            self._taken[heir, scheme] = [each + more for each in self._taken[heir, scheme]]

    def mean(self, name: str, scheme: str) -> float:
        """Return the mean seconds of the last three fits of a model, under the scheme if there are any; NaN of none."""
        taken = (self._taken.get((name, scheme)) or self._taken.get(name) or [nan])[-3:]
        return sum(taken) / len(taken)

    def elapsed(self) -> float:
        """Return the seconds since the beginning."""
        return self._clock() - self._start

    def seconds(self, dropped: Mapping[tuple[str, str], int], then: Sequence[float] = ()) -> float:
        """Return the seconds left; NaN while some model has not been fitted yet.

        ``dropped`` is how many of the fits of (name, scheme) are thought not to be done in the end, and ``then`` are
        the seconds of the steps that follow, of which none is faster on several processes.
        """
        fits = [(count - dropped.get(key, 0)) * self.mean(*key) for key, count in self._left.items() if count]
        rate = self.elapsed() / self._spent if self._spent > 0 else nan
        return sum(fits) * rate + max(sum(then) * rate, max(then, default=0.0))


class Course:
    """The fits of an evaluation: which are to be done, what those done have found, who has left, how long it takes.

    Under a budget there is one part, candidate by candidate, so that those worked through are whole when it is spent.
    Otherwise fold by fold, so that the time left can be told from the first one on, the last candidates first: they
    take longest, and no process waits for them at the end. Where candidates may leave (those that are ``expensive``
    alone), the folds before each of `LOOKS` are a part of their own.
    """

    def __init__(
        self,
        candidates: Sequence[Candidate],
        fold_of: Mapping[str, IntArray],
        *,
        clock: Callable[[], float],
        budget: float | None = None,
        leave: Leave | None = None,
        then: Then | None = None,
        observed: FloatArray | None = None,
    ) -> None:
        self.fold_of, self.budget = fold_of, budget
        self._then, self._observed = then, observed
        self._errors: dict[tuple[str, str], list[float]] = {}
        self.leave = leave if budget is None else None
        self.names = [candidate.name for candidate in candidates]
        self._expensive = {candidate.name for candidate in candidates if candidate.expensive}
        self.outcomes: dict[tuple[str, str], list[Outcome]] = {}
        self.left: dict[str, dict[str, int]] = {scheme: {} for scheme in fold_of}  # who has left -> its folds
        self._doubtful: dict[str, tuple[int, dict[str, int]]] = {}  # after how many folds, and who would leave when
        self.counts = {scheme: len(np.unique(folds)) for scheme, folds in fold_of.items()}
        fits = {(name, scheme): count for name in self.names for scheme, count in self.counts.items()}
        self.time = TimeLeft(fits, clock)
        self._families = [[each.name for each in family] for family in families(candidates)]
        self._tasks = [
            Task(members, scheme, fold)
            for members in families(candidates)
            for scheme, count in self.counts.items()
            for fold in range(count)
        ]
        if budget is None:
            schemes = list(fold_of)
            self._tasks.reverse()
            self._tasks.sort(key=lambda task: (task.fold, schemes.index(task.scheme)))

    def parts(self) -> Iterator[list[Task]]:
        """Yield the tasks in parts, each of them to be worked through before the next is asked for.

        Before each task `goes_on` is asked.
        """
        begin = 0
        for look, margin in LOOKS.items():
            yield self._part(begin, look)
            for scheme in filter(self._looked_at, self.left):
                for name in self._leaving(scheme, look, margin):
                    self.left[scheme][name] = look
                    self.time.drop(name, scheme, self._heir(name, scheme))
            begin = look
        self._doubtful = {}
        yield self._part(begin, None)

    def goes_on(self, _: Task) -> bool:
        """Whether the budget allows for another task."""
        return self.budget is None or self.time.elapsed() < self.budget

    def _part(self, begin: int, end: int | None) -> list[Task]:
        """Return the tasks of the folds of a part without those who have left.

        All folds of a scheme under which nobody is asked are in the last part (``end`` is None).
        """
        tasks = []
        for task in self._tasks:
            own = begin <= task.fold and (end is None or task.fold < end)
            if not (own if self._looked_at(task.scheme) else end is None):
                continue
            staying = tuple(each for each in task.candidates if each.name not in self.left[task.scheme])
            if staying:
                tasks.append(replace(task, candidates=staying))
        return tasks

    def take(self, outcome: Outcome, *, again: bool = False) -> None:
        """Count a fit, one of before if taken ``again``; after each of the first folds ask who would leave."""
        self.outcomes.setdefault((outcome.scheme, outcome.name), []).append(outcome)
        self.time.done(outcome.name, outcome.scheme, outcome.took, again=again)
        scheme, left = outcome.scheme, self.left[outcome.scheme]
        if self._then is not None and self._observed is not None and outcome.predicted is not None:
            known = self._observed[self.fold_of[scheme] == outcome.fold]
            error = float(np.mean(np.abs(outcome.predicted / known - 1)))
            self._errors.setdefault((outcome.name, scheme), []).append(error)
        through = min(len(self.outcomes.get((scheme, name), ())) for name in self.names if name not in left)
        known, _ = self._doubtful.get(scheme, (0, {}))
        if known < through < max(LOOKS) and self._looked_at(scheme):
            when: dict[str, int] = {}
            for look in sorted((one for one in LOOKS if one > through), reverse=True):
                when |= dict.fromkeys(self._leaving(scheme, through, LOOKS[look]), look)
            self._doubtful[scheme] = through, when

    def seconds(self) -> float:
        """Return the seconds left, without the fits of those who would leave, under one scheme as under another."""
        elsewhere = next(iter(self._doubtful.values()), (0, {}))
        doubtful = {
            (name, scheme): self.counts[scheme] - look
            for scheme in filter(self._looked_at, self.left)
            for who in [self._doubtful.get(scheme, elsewhere)[1]]
            for name, look in who.items()
            if name not in self.left[scheme] and self._heir(name, scheme, who) is None
        }
        left = self.time.seconds(doubtful, self._following(doubtful))
        if self.budget is None:
            return left
        limit = max(self.budget - self.time.elapsed(), 0.0)
        return limit if isnan(left) else min(left, limit)

    def _following(self, doubtful: Mapping[tuple[str, str], int]) -> Sequence[float]:
        """Return the seconds of the steps that follow, by the scheme given last, which has to do with unseen groups."""
        *_, scheme = self.fold_of
        found = {name: errors for (name, of), errors in self._errors.items() if of == scheme}
        found = found or {name: errors for (name, _), errors in self._errors.items()}
        staying = {name: sum(each) / len(each) for name, each in found.items() if (name, scheme) not in doubtful}
        if self._then is None or not staying:
            return ()
        left = {of: {name: (look, self.counts[of]) for name, look in gone.items()} for of, gone in self.left.items()}
        for (name, of), undone in doubtful.items():
            left[of][name] = self.counts[of] - undone, self.counts[of]
        return self._then({name: self.time.mean(name, scheme) for name in self.names}, staying, left)

    def _heir(self, name: str, scheme: str, leaving: Collection[str] = ()) -> str | None:
        """Return who of its family goes on to be fitted, and pays then for what the two have shared."""
        family = next(each for each in self._families if name in each)
        later = family[family.index(name) + 1 :]
        return next((each for each in later if each not in self.left[scheme] and each not in leaving), None)

    def _looked_at(self, scheme: str) -> bool:
        return self.leave is not None and bool(self._expensive) and self.counts[scheme] >= 2 * max(LOOKS)

    def _leaving(self, scheme: str, folds: int, margin: float) -> list[str]:
        """Return who leaves after so many folds; a candidate that failed in one of them does not take part."""
        rows = np.flatnonzero(self.fold_of[scheme] < folds)
        predictions = {}
        for name in self.names:
            found = [outcome for outcome in self.outcomes[scheme, name] if outcome.fold < folds]
            if len(found) == folds and all(outcome.predicted is not None for outcome in found):
                predicted = placed(found, self.fold_of[scheme])[rows]
                if np.isfinite(predicted).all():
                    predictions[name] = predicted
        if self.leave is None or len(predictions) < 2:
            return []
        named = self.leave(scheme, rows, pd.DataFrame(predictions), margin)
        return [name for name in named if name in self._expensive]


def families(candidates: Sequence[Candidate]) -> list[tuple[Candidate, ...]]:
    """Return the candidates, those of one family together, in the order of the last of them."""
    found: dict[str, tuple[Candidate, ...]] = {}
    for candidate in candidates:
        key = candidate.name if candidate.family is None else f"family {candidate.family}"
        found[key] = (*found.pop(key, ()), candidate)
    return list(found.values())


def placed(found: list[Outcome], folds: IntArray) -> FloatArray:
    """Return what was predicted in each fold in its rows; NaN elsewhere."""
    predicted = np.full(len(folds), np.nan)
    for outcome in found:
        predicted[folds == outcome.fold] = outcome.predicted
    return predicted

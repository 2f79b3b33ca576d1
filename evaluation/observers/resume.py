"""Fits of a training that is not done yet, kept in a file: an interrupted training goes on from them.

The first line says of what the fits are: data, settings and versions. Each further line is a fit,
behind the SHA-256 of the first line and itself. A fit is data alone (`_Fit`, checked against its
types and ranges when it is read), so that reading runs no code; predictions are little-endian
doubles, so that a training that goes on ends in the same metrics. A fit that predicts what lies far
from every measured value is fitted again: it costs time, and whoever edited the file gains nothing.
"""

from __future__ import annotations

import hashlib
import os
from collections.abc import Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Annotated, Final

import msgspec
import numpy as np

from ...errors import ArtifactError, DataError, check_plain_file
from ...output import check_replaceable, check_unread
from ...sealing import plain_content
from ..crossval import Course, Observer, Outcome, Task
from ..folds import NEW_CAMPAIGN, SCHEMES

SUFFIX: Final = ".fits"  # what ends the name of the file, which begins with that of the run
_MOST: Final = 2**34  # bytes
_FIRST: Final = 2**20  # bytes of a first line
_FARTHEST: Final = 1000.0  # times the largest measured value, and parts of the least
_HINT: Final = "delete it, and train without resume"

_Count = Annotated[int, msgspec.Meta(ge=0, lt=2**31)]
_Positive = Annotated[float, msgspec.Meta(ge=0)]


class _Fit(msgspec.Struct, array_like=True, forbid_unknown_fields=True):
    name: str
    scheme: str
    fold: _Count
    predicted: bytes | None
    e_in: _Positive | None
    seconds: _Positive
    selected: _Count | None
    warned: list[str]
    error: str | None


class KeptFits(Observer):
    """Keeps each fit in a file, and has those that it holds not done again.

    ``of`` is what the fits depend on; those of something else are refused. The first fits replace
    those of an earlier training unless they are to ``resume``. Raises DataError: there is nothing
    to resume, the fits are of other data or settings, the file is damaged, or it is no file of fits
    (`output.check_replaceable`).
    """

    def __init__(self, path: Path, of: Mapping[str, str], *, resume: bool = False) -> None:
        self.path = path
        self._of = msgspec.json.encode(dict(of))
        self._kept: dict[tuple[str, str, int], _Fit] = {}
        self._begun = resume
        self._checked = set[str]()  # schemes whose fits have been
        if resume and not path.exists():
            raise DataError("there is nothing to resume: train without it", source=str(path))
        if resume:
            os.truncate(path, self._read())
        else:
            self._check_replaceable()

    def before(self, task: Task, course: Course) -> Task:
        """Answer a task from the file if all of its candidates were fitted before."""
        if not self._checked >= course.folds.keys():
            self._check(course)
        kept = []
        for candidate in task.candidates:
            fit = self._kept.get((candidate.name, task.scheme, task.fold))
            if fit is None:
                return task
            kept.append(_outcome(fit))
        return replace(task, candidates=(), outcomes=(*task.outcomes, *kept))

    def after(self, outcomes: Sequence[Outcome], course: Course) -> None:
        """Write fits to the file, which the first ones begin; where they cannot be, a DataError says why."""
        if self._begun:
            lines = []
        else:
            lines = [self._of]
        for outcome in outcomes:
            line = msgspec.json.encode(
                _Fit(
                    name=outcome.name,
                    scheme=outcome.scheme,
                    fold=int(outcome.fold),
                    predicted=None
                    if outcome.predicted is None
                    else outcome.predicted.astype("<f8").tobytes(),
                    e_in=None if np.isnan(outcome.e_in) else float(outcome.e_in),
                    seconds=outcome.seconds,
                    selected=outcome.selected,
                    warned=outcome.warned,
                    error=outcome.error,
                )
            )
            lines.append(self._digest(line) + b" " + line)
        try:
            self.path.parent.mkdir(parents=True, exist_ok=True)
            with self.path.open("ab" if self._begun else "wb", buffering=0) as file:
                self._begun = True
                file.write(b"".join(line + b"\n" for line in lines))
        except OSError as error:
            self.remove()
            raise DataError(
                f"cannot be written: {error.strerror or error}", source=str(self.path)
            ) from error

    def remove(self) -> None:
        """Delete the file: the run is saved."""
        if self._begun:
            self.path.unlink(missing_ok=True)

    def _check_replaceable(self) -> None:
        """Refuse a file that holds something else than the fits of a training, or is read."""
        check_plain_file(self.path)
        try:
            with self.path.open("rb") as file:
                theirs = msgspec.json.decode(file.readline(_FIRST), type=dict[str, str])
        except (OSError, msgspec.MsgspecError, UnicodeDecodeError):
            theirs = {}
        if msgspec.json.decode(self._of, type=dict[str, str]).keys() <= theirs.keys():
            check_unread(self.path)
        else:
            check_replaceable(self.path)

    def _digest(self, line: bytes) -> bytes:
        return hashlib.sha256(self._of + b"\n" + line).hexdigest().encode()

    def _read(self) -> int:
        """Read the fits; return the bytes of whole lines: the last may be cut short by what stopped the training."""
        try:
            first, *lines = plain_content(self.path, _MOST, _HINT).splitlines(keepends=True)
            theirs = msgspec.json.decode(first, type=dict[str, str])
        except (ValueError, ArtifactError, msgspec.MsgspecError) as error:
            raise DataError(
                f"does not hold the fits of a training: {_HINT}", source=str(self.path)
            ) from error
        ours = msgspec.json.decode(self._of, type=dict[str, str])
        changed = [name for name in ours if ours[name] != theirs.get(name)]
        if changed:
            what = " and of other ".join(changed)
            problem = (
                f"is of other {what}: give the same command, or train without resume, from the "
                "beginning"
            )
            raise DataError(problem, source=str(self.path))
        length = len(first)
        for number, line in enumerate(lines, 2):
            if not line.endswith(b"\n"):
                break
            digest, _, text = line.strip().partition(b" ")
            try:
                if digest != self._digest(text):
                    raise ValueError
                fit = msgspec.json.decode(text, type=_Fit)
            except (ValueError, msgspec.MsgspecError) as error:
                raise DataError(f"is damaged: {_HINT}", source=f"{self.path}:{number}") from error
            self._kept[fit.name, fit.scheme, fit.fold] = fit
            length += len(line)
        return length

    def _check(self, course: Course) -> None:
        """Refuse fits without a prediction of each row of their fold; forget those that predict what lies far off."""
        self._checked |= course.folds.keys()
        least = course.observed.min() / _FARTHEST
        largest = course.observed.max() * _FARTHEST
        for key, fit in list(self._kept.items()):
            if fit.scheme in (*SCHEMES, NEW_CAMPAIGN) and fit.scheme not in course.folds:
                continue  # a new campaign is asked for after the other questions
            rows = int(np.sum(course.folds.get(fit.scheme, np.empty(0)) == fit.fold))
            if fit.predicted is None:
                size = -1
            else:
                size = len(fit.predicted)
            if (size == 8 * rows) == (fit.error is not None):
                raise DataError(f"is damaged: {_HINT}", source=str(self.path))
            predicted = _outcome(fit).predicted
            if predicted is None:
                continue
            near = (predicted >= least) & (predicted <= largest)
            if not near.all():
                del self._kept[key]


def _outcome(fit: _Fit) -> Outcome:
    predicted = None
    if fit.predicted is not None:
        predicted = np.frombuffer(fit.predicted, "<f8").astype(np.float64)
    return Outcome(
        name=fit.name,
        scheme=fit.scheme,
        fold=fit.fold,
        predicted=predicted,
        e_in=np.nan if fit.e_in is None else fit.e_in,
        seconds=fit.seconds,
        selected=fit.selected,
        warned=fit.warned,
        error=fit.error,
    )

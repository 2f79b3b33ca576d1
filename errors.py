"""What the user got wrong: exceptions that carry their data and end as one line and exit code 2."""

from __future__ import annotations

import difflib
import math
import os
import re
from collections.abc import Callable, Iterable, Sequence
from numbers import Integral, Real
from pathlib import Path
from typing import Any, Final, cast

from .remarks import Remark, remark, visible


def nearest(name: str, possible: Iterable[str], otherwise: str = "") -> str:
    """Suggest the possible names most like an unknown one; without a similar one `otherwise`, or all names.

    >>> nearest("Rooflin", ["affine", "roofline"]), nearest("x", ["affine", "roofline"])
    ('did you mean roofline?', 'there are affine, roofline')
    """
    names = list(possible)
    folded = {one.casefold(): one for one in names}
    close = [
        folded[one] for one in difflib.get_close_matches(name.casefold(), folded, n=2, cutoff=0.6)
    ]
    if close:
        return f"did you mean {' or '.join(close)}?"
    return otherwise or f"there are {few(names, 40)}"


def few(names: Iterable[object], limit: int = 5) -> str:
    """Return the first names, and how many more there are.

    >>> few("abc"), few("abcdefg"), few("abc", limit=2)
    ('a, b, c', 'a, b, c, d, e and 2 more', 'a, b and 1 more')
    """
    shown = [str(name) for name in names]
    more = len(shown) - limit
    return ", ".join(shown[:limit]) + (f" and {more} more" if more > 0 else "")


def counted(count: int, noun: str, plural: str | None = None) -> str:
    """Return a number and its noun.

    >>> counted(1, "row"), counted(2000, "row"), counted(2, "activity", "activities")
    ('1 row', '2,000 rows', '2 activities')
    """
    return f"{count:,} {noun if count == 1 else plural or noun + 's'}"


def one_line(error: BaseException) -> str:
    r"""Return what happened in one line; frameworks add pages to theirs.

    >>> one_line(RuntimeError("no memory\nat 0x1")), one_line(KeyError())
    ('RuntimeError: no memory', 'KeyError')
    """
    lines = str(error).strip().splitlines()
    if lines:
        return f"{type(error).__name__}: {lines[0]}"
    return type(error).__name__


class FlopcastError(Exception):
    """A mistake in what the user gave; its message says what, where, and what to do next.

    The message is one line. Names in it are data of others: what cannot be seen of them is escaped.

    Examples
    --------
    >>> import flopcast as fc
    >>> try:
    ...     fc.gpu("MI300Y")
    ... except fc.FlopcastError as error:
    ...     "MI300X" in str(error)
    True
    """

    def __init__(self, message: str = "") -> None:
        super().__init__(visible(" ".join(message.splitlines())))

    def _render_traceback_(self) -> list[str]:
        """Return what a notebook shows of it: the line that says what to do, not the calls that led there."""
        return [f"{type(self).__name__}: {self}"]


class DataError(FlopcastError):
    """The measured data cannot be used as they are; ``source`` is the file (and row) at fault.

    Examples
    --------
    >>> import flopcast as fc
    >>> try:
    ...     fc.read("nowhere.csv")
    ... except fc.DataError as error:
    ...     error.source
    'nowhere.csv'
    """

    def __init__(self, message: str, *, source: str | None = None) -> None:
        if source:
            message = f"{source}: {message}"
        super().__init__(message)
        self.source = source

    def within(self, source: str) -> DataError:
        """Return the error with the file that it is of, where it names none."""
        if self.source:
            return self
        return DataError(str(self), source=source)


class TooFewRowsError(DataError):
    """The usable rows are fewer than what was asked for needs."""


class NoMeasurementsError(DataError):
    """The files are readable and hold nothing that was timed; ``notes`` say what was passed over."""

    def __init__(self, notes: Sequence[Remark], *, source: str) -> None:
        reasons = "; ".join(map(repr, notes)) or "the files have no rows"
        super().__init__(f"no measurements: {reasons}", source=source)
        self.notes = tuple(notes)


class NoDurationError(DataError):
    """No column of a table holds the duration of its rows."""


class ParameterError(DataError):
    """A parameter of a call cannot be used.

    Attributes
    ----------
    parameter : str
        Its name in the Python API (``cpu_speed``); the command line says which of its options that
        is.
    problem : str
        What it must be, what it is, and what to do: the line goes on after the name. Another
        parameter in it stands in backticks, for whoever spells it.
    others : tuple of str
        Parameters of which the same is true.

    Examples
    --------
    >>> import flopcast as fc
    >>> try:
    ...     fc.train(where={"op": "gemm"}, suite="best")
    ... except fc.ParameterError as error:
    ...     error.parameter
    'suite'
    """

    def __init__(self, parameter: str, problem: str, *others: str) -> None:
        self.parameter = parameter
        self.problem = problem
        self.others = others
        super().__init__(self.message(str))

    def within(self, source: str) -> DataError:
        """Return the error with the file that it is of; the parameter stays first, for whoever spells it."""
        return type(self)(self.parameter, f"{self.problem} ({source})", *self.others)

    def message(self, spelt: Callable[[str], str]) -> str:
        """Return the message with the parameters spelt as the reader writes them."""
        names = ", ".join(map(spelt, self.others))
        if names:
            beside = f", as {'is' if len(self.others) == 1 else 'are'} {names}"
        else:
            beside = ""
        problem = _PARAMETER.sub(lambda match: spelt(match[1]), self.problem)
        return f"{spelt(self.parameter)} {problem}{beside}"


_PARAMETER: Final = re.compile(r"`([a-z]\w*)`")


def check_number(
    parameter: str, value: Any, least: float, largest: float = math.inf, *, whole: bool = True
) -> None:
    """Refuse a value that is no (whole) number from `least` to `largest`: a ParameterError says so."""
    fits = (
        isinstance(value, Real)
        and not isinstance(value, bool)
        and least <= (number := cast(float, value)) <= largest
        and (not whole or number % 1 == 0)
    )
    if not fits:
        if largest == math.inf:
            reach = f"of at least {least:,g}"
        else:
            reach = f"from {least:,g} to {largest:,g}"
        raise ParameterError(
            parameter, f"must be a {'whole ' if whole else ''}number {reach}, got {value!r:.40}"
        )


def check_plain_file(path: Path) -> None:
    """Refuse a folder, and a pipe, socket or device, which may have no end: a DataError says so."""
    if os.path.isdir(path):
        raise DataError("is a folder: give a file", source=str(path))
    if os.path.exists(path) and not os.path.isfile(path):
        problem = "is a pipe or a device, no file: save what it gives in a file, and give that"
        raise DataError(problem, source=str(path))


_MOST_JOBS: Final = 100_000  # processes, more than any machine runs


def check_jobs(jobs: int) -> None:
    """Refuse what is no number of processes, or one that starts none: a ParameterError says so."""
    whole = isinstance(jobs, Integral) and not isinstance(jobs, bool)
    if not whole or jobs == 0 or abs(int(jobs)) > _MOST_JOBS:
        problem = f"must be a number of processes, or -1 for one per core, got {jobs!r:.40}"
        raise ParameterError("jobs", problem)


def check_progress(progress: object) -> None:
    """Refuse what cannot be told of long work, as nothing that is called: a ParameterError says so."""
    if not callable(progress):
        problem = "must be called as progress(done, total, label, eta_seconds)"
        raise ParameterError("progress", f"{problem}, got {progress!r:.40}")


LEAST_LEVEL: Final = 0.005
MOST_LEVEL: Final = 0.995
"""Levels of intervals that are answered: those of runs are learnt at these and between them."""


def check_level(level: float) -> None:
    """Refuse a level of intervals that is not from `LEAST_LEVEL` to `MOST_LEVEL`.

    Raises ParameterError: of ``interval``, the parameter that states it.
    """
    if not (isinstance(level, Real) and LEAST_LEVEL <= level <= MOST_LEVEL):
        limits = f"{LEAST_LEVEL:g} and {MOST_LEVEL:g}"
        raise ParameterError(
            "interval", f"must lie between {limits}, got {level!r:.40}: 0.9 means 90 %"
        )


def check_margin(margin: float) -> float:
    """Return what counts as the same (0.1: within ±10 %) if it is a share.

    Raises ParameterError: it is not above 0 and below 1.
    """
    if not (isinstance(margin, Real) and 0 < margin < 1):
        raise ParameterError(
            "margin", f"must lie between 0 and 1, got {margin!r:.40}: 0.1 means ±10 %"
        )
    return margin


def check_quick(quick: bool, models: object, without: object, suite: str) -> None:
    """Refuse a quick training of models that the user chooses: a ParameterError says so."""
    if quick and (models is not None or without or suite != "default"):
        raise ParameterError(
            "quick", "chooses the models itself: give no suite, and no models, beside it"
        )


LEAST_DRAWN: Final = 10  # rows: fewer are not divided into folds


def check_drawn(rows: Iterable[int]) -> list[int]:
    """Return the numbers of rows that are drawn, each once and in order.

    Raises ParameterError: there is none, or one is less than `LEAST_DRAWN`.
    """
    given = list(rows)
    if not all(isinstance(one, Integral) for one in given):
        raise ParameterError("rows", f"must be whole numbers, got {rows!r:.40}")
    wanted = sorted(set(given))
    if not wanted or wanted[0] < LEAST_DRAWN:
        raise ParameterError(
            "rows", f"must be {LEAST_DRAWN} or more each, got {', '.join(map(str, wanted))}"
        )
    return wanted


class UnknownGPUError(FlopcastError):
    """No GPU answers to ``name``, or ``several`` do; ``matches`` are these, or the closest names."""

    def __init__(self, name: str, matches: Sequence[str], *, several: bool = False) -> None:
        if matches:
            hint = f"did you mean {' or '.join(matches)}?"
        else:
            hint = "see `flopcast gpus` for the known ones"
        if name.strip().isdecimal():
            hint = f"how many there are says gpus, which ones gpu; {hint}"
        hint_of_file = "(your own: a TOML file, see `flopcast gpus --help`)"
        if several:
            message = f"{name!r} is several GPUs: say which of {', '.join(map(repr, matches))}"
        else:
            message = ""
        super().__init__(message or f"unknown GPU {name!r}: {hint} {hint_of_file}")
        self.name = name
        self.matches = tuple(matches)


class NotPublishedError(FlopcastError):
    """A calculation needs a figure of a GPU that its maker has not published."""

    def __init__(self, gpu: str, figure: str) -> None:
        advice = f"give it in a TOML file of your own (`based_on = {gpu!r}`)"
        self.gpu = gpu
        self.figure = figure
        super().__init__(f"{self.remark!r}: {advice}")

    @property
    def remark(self) -> Remark:
        """The same as a remark on one of many rows."""
        text = f"{self.figure} of {self.gpu} is not published"
        return remark("figure-not-published", text, figure=self.figure, gpu=self.gpu)


class ArtifactError(FlopcastError):
    """A run folder is missing, foreign, damaged, or does not fit the data it is applied to."""

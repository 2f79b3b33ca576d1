"""What a user adds to a training: columns of the table, functions of it, and laws of work and GPU.

A column is a feature ``own.NAME``. From a host it is what stands in the host's rows, as counters are, so that what the
target measured cannot enter; without a host what is measured in a row is not shown to a function. Functions and laws
are code: a saved run keeps the names alone, and asks new rows for the column.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping
from dataclasses import dataclass, field
from typing import Any, Self

import numpy as np
import pandas as pd

from .. import values
from ..errors import DataError, ParameterError, few, one_line
from ..laws.user_law import OwnLaw, named_functions, user_laws_of
from ..table.measurements import OWN
from ..table.problems import HOST, is_measured

Function = Callable[[pd.DataFrame], Any]


@dataclass(frozen=True)
class Additions:
    """Features and laws of the user."""

    columns: tuple[str, ...] = ()  # columns of the table
    functions: Mapping[str, Function] = field(default_factory=dict, hash=False)
    laws: tuple[OwnLaw, ...] = ()

    @classmethod
    def of(cls, features: object, laws: object, metric: str) -> Self:
        """Take the arguments of `train`; ParameterError if a feature is neither a column nor a function."""
        if features is None and laws is None:
            return cls()
        if isinstance(features, str):
            features = values.columns("features", features)
        columns = []
        functions = {}
        for name, given in named_functions("features", features):
            if isinstance(given, str):
                columns.append(given)
            elif callable(given):
                functions[name] = given
            else:
                problem = f"must be columns or functions of the table, got {given!r}"
                raise ParameterError("features", problem)
        return cls(tuple(columns), functions, user_laws_of(laws, metric))

    @property
    def names(self) -> tuple[str, ...]:
        """All features."""
        return (*self.columns, *self.functions)

    def added_to(self, frame: pd.DataFrame, *, host: bool) -> pd.DataFrame:
        """Return the measurements with a column ``own.NAME`` each.

        Raises ParameterError (``features``): there is no such column, it is the time to be
        predicted, it holds words, or a function fails.
        """
        added = {}
        for name in self.columns:
            if name not in frame:
                problem = f"no column {name!r} in the measurements: there are {few(frame.columns)}"
                raise ParameterError("features", problem)
            if is_measured(name) and not host:
                problem = f"{name!r} is measured in the run that is to be predicted: leave it out"
                raise ParameterError("features", problem)
            added[OWN + name] = _numbers(name, frame[name], len(frame))
        for name in self.functions:
            added[OWN + name] = self._computed(name, frame, host=host)
        return frame.assign(**added)

    def completed(self, rows: pd.DataFrame, names: Collection[str], *, host: bool) -> pd.DataFrame:
        """Return rows to predict with the user's columns of these names added where missing.

        A function is called again where it is given; else the rows must have a column of the name.
        Raises DataError where they have none.
        """
        added = {}
        for name in names:
            if OWN + name in rows or HOST + OWN + name in rows:
                continue
            if name in self.functions:
                added[OWN + name] = self._computed(name, rows, host=host)
            elif name in rows:
                added[OWN + name] = _numbers(name, rows[name], len(rows))
            else:
                problem = f"the rows lack {name}, which the model was trained with"
                raise DataError(f"{problem}: give a column of that name")
        if not added:
            return rows
        return rows.assign(**added)

    def _computed(self, name: str, frame: pd.DataFrame, *, host: bool) -> pd.Series:
        shown = frame
        if not host:
            shown = frame.drop(columns=[column for column in frame if is_measured(str(column))])
        try:
            given = self.functions[name](shown)
        except Exception as error:
            problem = f"{name} failed on {len(frame)} rows: {one_line(error)}"
            raise ParameterError("features", problem) from error
        return _numbers(name, given, len(frame)).set_axis(frame.index)


def _numbers(name: str, given: Any, rows: int) -> pd.Series:
    """Return one number a row; truth values are 0 and 1."""
    if np.ndim(given) != 1 or len(given) != rows:
        problem = f"{name} must be one number a row ({rows}), got {type(given).__name__}"
        raise ParameterError("features", problem)
    column = pd.Series(given)
    numbers = pd.to_numeric(column, errors="coerce").astype(np.float64)
    words = column[numbers.isna() & column.notna() & (column.astype(str) != "")]
    if len(words):
        problem = f"{name} must hold numbers, got {str(words.iloc[0])!r} in {len(words)} rows"
        raise ParameterError("features", f"{problem}: give a function that returns numbers")
    return numbers

"""A law that a user writes: a function of work and GPU, as an object among the others."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import TypeAlias

import numpy as np

from ..arrays import FloatArray
from ..errors import FlopcastError, ParameterError, one_line
from ..hardware import GPU
from ..operators.operators import Work
from .base import DeviceLaw

Formula: TypeAlias = Callable[[Work, GPU], FloatArray]


class OwnLaw(DeviceLaw):
    """A law by the user's function of work and GPU; from host to target the host's value times the ratio of both.

    ``formula`` returns a value per row, of shape (n_rows,), in the unit of the metric. It is code,
    which no saved run holds.
    """

    source = "the user"
    alone = True
    scales = True

    def __init__(self, name: str, formula: Formula, metric: str) -> None:
        self.name = name
        self.title = name
        self.metric = metric
        self.formula = formula

    def __call__(self, work: Work, gpu: GPU) -> FloatArray:
        """Return the formula's values; ParameterError (``laws``) if it fails or does not give one number a row."""
        try:
            values = np.asarray(self.formula(work, gpu), dtype=np.float64)
        except FlopcastError:
            raise
        except Exception as error:
            problem = f"{self.name} failed on {len(work)} rows of {gpu.name}: {one_line(error)}"
            raise ParameterError("laws", problem) from error
        if values.shape != (len(work),):
            problem = f"{self.name} must return {len(work)} numbers, one a row of {gpu.name}"
            raise ParameterError("laws", f"{problem}; its shape is {values.shape}")
        return values


def titled(law: DeviceLaw, *, scaling: bool) -> str:
    """Return a law's name in tables, from host to target or of one device."""
    if scaling:
        return f"{law.title} scaling"
    return law.title


def user_laws_of(given: object, metric: str) -> tuple[OwnLaw, ...]:
    """Return the laws of functions: one, several, or a mapping of name to function.

    Raises ParameterError (``laws``): something is no function, or two have one name.
    """
    laws = []
    for name, formula in named_functions("laws", given):
        if not callable(formula):
            raise ParameterError("laws", f"must be functions of work and GPU, got {formula!r}")
        laws.append(OwnLaw(name, formula, metric))
    return tuple(laws)


def named_functions(parameter: str, given: object) -> list[tuple[str, object]]:
    """Return the given laws with names: of a mapping the key, of a text itself, of a function its name.

    Raises ParameterError: a lambda has no name, or a name comes twice.
    """
    if given is None:
        return []
    if isinstance(given, Mapping):
        named = [(str(name), value) for name, value in given.items()]
    else:
        if isinstance(given, Sequence) and not isinstance(given, str):
            several = given
        else:
            several = [given]
        named = [(_name_of(parameter, value), value) for value in several]
    names = [name for name, _ in named]
    for name in names:
        if names.count(name) > 1:
            raise ParameterError(parameter, f"must have different names, got {name!r} twice")
    return named


def _name_of(parameter: str, value: object) -> str:
    if isinstance(value, str):
        return value
    name = str(getattr(value, "__name__", ""))
    if not name.isidentifier():
        problem = f"needs a name for {value!r}: give a mapping {{'name': function}}"
        raise ParameterError(parameter, problem)
    return name

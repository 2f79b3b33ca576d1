"""Models that a user brings: any scikit-learn regressor competes beside the suite, as it is."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import TypeAlias

from sklearn.base import BaseEstimator, clone, is_regressor

from .. import values
from ..errors import ArtifactError, ParameterError, one_line
from ..remarks import Remark, remark
from . import persistence
from .base import Candidate

Model: TypeAlias = str | BaseEstimator | tuple[str, BaseEstimator]
EVERY = "all"  # stands for all models of the suite, where others are named beside it


def names_and_candidates(
    given: str | Iterable[Model] | None,
) -> tuple[list[str] | None, list[Candidate]]:
    """Return the names of models of the suite, None for all of them, and the user's models.

    An estimator is called after its class, numbered where two have one; a pair of name and
    estimator by that name. Raises ParameterError (``models``): an estimator is no regressor, or a
    class in place of an instance.

    >>> from sklearn.linear_model import Ridge
    >>> names, added = names_and_candidates(["OLS", Ridge(), ("stiff", Ridge(alpha=9))])
    >>> names, [candidate.name for candidate in added]
    (['OLS'], ['Ridge', 'stiff'])
    """
    if given is None or isinstance(given, str):
        return values.names("models", given), []
    if isinstance(given, BaseEstimator):
        given = [given]
    names: list[str] = []
    candidates: list[Candidate] = []
    for model in given:
        if isinstance(model, str):
            names.append(model)
        else:
            candidates.append(_candidate(model, [one.name for one in candidates]))
    if candidates and EVERY in names:
        return None, candidates
    return values.names("models", names), candidates


def _candidate(given: object, taken: Sequence[str]) -> Candidate:
    name = ""
    estimator = given
    if isinstance(given, tuple) and len(given) == 2 and isinstance(given[0], str):
        name, estimator = given
    if isinstance(estimator, type):
        problem = f"must be instances, got the class {estimator.__name__}: write its parentheses"
        raise ParameterError("models", problem)
    if not isinstance(estimator, BaseEstimator) or not is_regressor(estimator):
        problem = f"must be names or scikit-learn regressors, got {type(estimator).__name__}"
        raise ParameterError("models", problem)
    if not name:
        name = type(estimator).__name__
        number = 2
        while name in taken:
            name = f"{type(estimator).__name__} {number}"
            number += 1
    if name in taken:
        raise ParameterError("models", f"must have different names, got {name!r} twice")
    return Candidate(name, clone(estimator), "its own", of_user=True)


def check_names(candidates: Sequence[Candidate], others: Iterable[str]) -> None:
    """Refuse a model of the user that is called as another one: ParameterError."""
    taken = set(others)
    for candidate in candidates:
        if candidate.name in taken:
            problem = f"has a model {candidate.name!r} already: give a pair of a name and yours"
            raise ParameterError("models", problem)


def kept_in_memory(name: str, estimator: BaseEstimator) -> Remark | None:
    """Return why a fitted model is not saved; None where it can be."""
    try:
        persistence.to_bytes(estimator)
    except ArtifactError as error:
        text = (
            f"{name} was chosen and is in memory only, as it cannot be stored as plain arrays: "
            "this run predicts, and cannot be saved"
        )
        return remark("kept-in-memory", text, model=name, problem=one_line(error))
    return None

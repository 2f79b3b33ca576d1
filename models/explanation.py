"""What each part of a fitted model adds to its prediction of one row: base, residual, shape model, members, terms.

Parts are listed in the order of computation, each with its value, so that the last
one is the prediction. A model that is none of the composed ones is one part.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace
from typing import Any, Final

import numpy as np
import pandas as pd
from sklearn.pipeline import Pipeline

from .baselines import AdditiveTime
from .ensembles import CrossFitted, GeometricStack, LogResidual, PrecisionTransfer, Transfer
from .target_space import LARGEST_LOG, LogTarget, RelativeError


@dataclass(frozen=True)
class Part:
    """A part of a prediction.

    ``kind`` is what it is: a model of the ``shape`` alone, a ``member`` of a mean or stack, what a
    residual stands on (``base``), the factor that a learner puts on it (``residual``), a ``term``
    of a sum of times (of a linear model a coefficient times its column), the ``coefficient`` of a
    linear model of logarithms, which is a factor on what stands before it, or a ``model`` that is
    not taken apart.
    """

    kind: str
    name: str  # of the member or column, or the class of the model
    # what the part says, in the unit of the prediction; of a residual what base and residual say
    # together
    value: float
    weight: float | None = None  # of a member, and of a shape model that is one
    factor: float | None = None  # of a residual: together over base; of a coefficient
    depth: int = 0  # how deep it lies in what it is a part of


def parts_of(model: Any, X: pd.DataFrame) -> list[Part]:
    """Return the parts of a fitted model's prediction of one row.

    >>> X = pd.DataFrame({"work": [1.0, 2.0, 4.0]})
    >>> model = AdditiveTime().fit(X, [5, 7, 11])
    >>> [(part.kind, part.name, round(part.value, 3)) for part in parts_of(model, X.iloc[[1]])]
    [('term', '', 3.0), ('term', 'work', 4.0)]
    """
    return list(_parts(model, X))


def _parts(model: Any, X: pd.DataFrame) -> Iterator[Part]:
    if isinstance(model, PrecisionTransfer):
        yield from _of_precision_transfer(model, X)
    elif isinstance(model, Transfer):
        values = X.to_numpy(dtype=np.float64)
        shapes = model.shapes(values)
        shape_time = np.asarray(model.shape_model_.predict(shapes))
        yield Part("shape", _class(model.shape_model_), float(shape_time[0]))
        yield from _parts(model.regressor_, model.with_shape(values, shape_time))
    elif isinstance(model, GeometricStack):
        members = iter(model.parts_)
        for name, weight in model.weights_.items():
            if weight <= 0:
                continue
            member = next(members)
            yield Part("member", name, _value(member, X), weight=weight)
            yield from _inner(member, X)
    elif isinstance(model, LogResidual):
        base = _value(model.base_, X)
        together = _value(model, X)
        yield Part("base", _class(model.base_), base)
        yield from _inner(model.base_, X)
        yield Part("residual", _class(model.learner_), together, factor=together / base)
    elif isinstance(model, AdditiveTime):
        names, terms = model.contributions(X)
        for name, value in zip(names, terms[0].tolist(), strict=True):
            if value:
                yield Part("term", name, value)
    elif isinstance(model, CrossFitted):
        weight = 1 / len(model.members_)
        for fold, member in enumerate(model.members_, 1):
            yield Part("member", f"without fold {fold}", _value(member, X), weight)
    else:
        yield from _linear_parts(model, X)


def _of_precision_transfer(model: PrecisionTransfer, X: pd.DataFrame) -> Iterator[Part]:
    weights, logs_of_shape, logs_of_regressor = model.mixed(X)
    weight = float(weights[0])
    shape_time = np.exp(logs_of_shape[:1])
    other_time = np.exp(logs_of_regressor[:1])
    yield Part("shape", _class(model.shape_model_), float(shape_time[0]), weight=weight)
    yield Part("member", _class(model.regressor_), float(other_time[0]), weight=1 - weight)
    values = X.to_numpy(dtype=np.float64)
    yield from _inner(model.regressor_, model.with_shape(values, shape_time))


_INTERCEPT: Final = "intercept"


def _linear(model: Any, X: pd.DataFrame) -> list[tuple[str, float]]:
    """Return the terms of a linear model by their columns, the intercept first; nothing of another model."""
    seen = X
    if isinstance(model, Pipeline):
        seen = model[:-1].transform(X)
        model = model[-1]
    coefficients = np.asarray(getattr(model, "coef_", None), dtype=object)
    intercept = np.asarray(getattr(model, "intercept_", None), dtype=object)
    values = np.asarray(seen, dtype=np.float64)
    if coefficients.shape != (values.shape[1],) or intercept.size != 1:
        return []
    names = [f"column {place}" for place in range(1, values.shape[1] + 1)]
    if isinstance(seen, pd.DataFrame):
        names = [str(name) for name in seen.columns]
    elif values.shape[1] == X.shape[1]:
        names = [str(name) for name in X.columns]
    terms = (coefficients * values[0]).astype(np.float64)
    listed = [(_INTERCEPT, float(intercept.item()))]
    for place in np.argsort(-np.abs(terms), kind="stable"):
        if terms[place]:
            listed.append((names[place], float(terms[place])))
    return listed


def _linear_parts(model: Any, X: pd.DataFrame) -> Iterator[Part]:
    """Yield the terms of a linear model, of its time or the logarithm of it; the whole of any other model."""
    regressor = model
    if isinstance(model, RelativeError | LogTarget):
        regressor = model.regressor_
    terms = _linear(regressor, X)
    if not terms:
        yield Part("model", _class(model), _value(model, X))
    elif isinstance(model, LogTarget):
        yield from _product_of(model, terms)
    else:
        for name, value in terms:
            yield Part("term", name, value)


def _product_of(model: LogTarget, terms: list[tuple[str, float]]) -> Iterator[Part]:
    """Yield the intercept, as a time, and what each coefficient makes of what stands before it."""
    logarithm = float(np.log(model.smearing_))
    for name, term in terms:
        logarithm += term
        together = float(np.exp(np.clip(logarithm, -LARGEST_LOG, LARGEST_LOG)))
        if name != _INTERCEPT:
            factor = float(np.exp(np.clip(term, -LARGEST_LOG, LARGEST_LOG)))
            yield Part("coefficient", name, together, factor=factor)
        else:
            yield Part("base", name, together)


def _inner(model: Any, X: pd.DataFrame) -> Iterator[Part]:
    """Yield the parts of a model that is a part itself, one deeper; none of a model that is not taken apart."""
    kinds = Transfer | GeometricStack | LogResidual | AdditiveTime | RelativeError | LogTarget
    if isinstance(model, kinds):
        for part in _parts(model, X):
            yield replace(part, depth=part.depth + 1)


def _class(model: Any) -> str:
    return type(model).__name__


def _value(model: Any, X: pd.DataFrame) -> float:
    return float(np.asarray(model.predict(X))[0])

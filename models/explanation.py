"""What each part of a fitted model adds to its prediction of one row: base, residual, shape model, members, terms.

Parts are listed in the order of computation, each with its value, so that the last
one is the prediction. A model that is none of the composed ones is one part.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import pandas as pd

from .baselines import AdditiveTime
from .ensembles import CrossFitted, GeometricStack, LogResidual, PrecisionTransfer, Transfer


@dataclass(frozen=True)
class Part:
    """A part of a prediction.

    ``kind`` is what it is: a model of the ``shape`` alone, a ``member`` of a mean or stack, what a
    residual stands on (``base``), the factor that a learner puts on it (``residual``), a ``term``
    of a sum of times, or a ``model`` that is not taken apart.
    """

    kind: str
    name: str  # of the member or column, or the class of the model
    value: float  # what the part says, in the unit of the prediction; of a residual what base and residual say together
    weight: float | None = None  # of a member, and of a shape model that is one
    factor: float | None = None  # of a residual: together over base
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
        weight, shape, second = (float(one[0]) for one in model.mixed(X))
        yield Part("shape", type(model.shape_model_).__name__, float(np.exp(shape)), weight=weight)
        yield Part(
            "member", type(model.regressor_).__name__, float(np.exp(second)), weight=1 - weight
        )
        seen = model.with_shape(X.to_numpy(dtype=np.float64), np.exp([shape]))
        yield from _deeper(_parts(model.regressor_, seen) if _composed(model.regressor_) else ())
    elif isinstance(model, Transfer):
        values = X.to_numpy(dtype=np.float64)
        shape_time = np.asarray(model.shape_model_.predict(model.shapes(values)))
        yield Part("shape", type(model.shape_model_).__name__, float(shape_time[0]))
        yield from _parts(model.regressor_, model.with_shape(values, shape_time))
    elif isinstance(model, GeometricStack):
        shares = {name: weight for name, weight in model.weights_.items() if weight > 0}
        for (name, weight), inner in zip(shares.items(), model.parts_, strict=True):
            yield Part("member", name, _value(inner, X), weight=weight)
            yield from _deeper(_parts(inner, X) if _composed(inner) else ())
    elif isinstance(model, LogResidual):
        base = _value(model.base_, X)
        together = _value(model, X)
        yield Part("base", type(model.base_).__name__, base)
        yield from _deeper(_parts(model.base_, X) if _composed(model.base_) else ())
        yield Part("residual", type(model.learner_).__name__, together, factor=together / base)
    elif isinstance(model, AdditiveTime):
        names, terms = model.contributions(X)
        yield from (
            Part("term", name, value)
            for name, value in zip(names, terms[0].tolist(), strict=True)
            if value
        )
    elif isinstance(model, CrossFitted):
        yield from (
            Part("member", f"without fold {fold}", _value(one, X), 1 / len(model.members_))
            for fold, one in enumerate(model.members_, 1)
        )
    else:
        yield Part("model", type(model).__name__, _value(model, X))


def _composed(model: Any) -> bool:
    return isinstance(model, Transfer | GeometricStack | LogResidual | AdditiveTime)


def _deeper(parts: Any) -> Iterator[Part]:
    yield from (replace(part, depth=part.depth + 1) for part in parts)


def _value(model: Any, X: pd.DataFrame) -> float:
    return float(np.asarray(model.predict(X))[0])

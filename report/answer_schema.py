"""What saved answers must be that are compared again, whoever wrote them: types and ranges of what is read of them."""

from __future__ import annotations

from typing import Annotated, Any, Final

import msgspec
from msgspec import Meta, Struct

from ..errors import DataError
from .run_schema import Level, Text

Positive = Annotated[float, Meta(gt=0, lt=1e300)]
AtLeastZero = Annotated[float, Meta(ge=0, lt=1e300)]
Sigma = Annotated[float, Meta(ge=0, le=100)]
Plain = str | int | float | bool | None


class Source(Struct):
    """An entry of ``tornado``: what a projection is unsure of."""

    name: Text
    sigma: Sigma
    low_us: Positive
    high_us: Positive


class Interval(Struct):
    """``interval`` of a projection."""

    level: Level
    lower_us: Positive
    upper_us: Positive
    tornado: list[Source]


class Class(Struct):
    """An entry of ``classes`` of a projection."""

    op_class: Text
    projected_us: AtLeastZero
    lower_us: AtLeastZero | None
    upper_us: AtLeastZero | None
    sigma: Sigma | None
    law: Text | None


class Projection(Struct):
    """``project.json``."""

    host: Text | None
    target: Text | None
    projected_us: Positive
    interval: Interval
    classes: list[Class]


class Forecast(Struct):
    """An entry of ``forecasts``; without an answer it has a reason."""

    asked: dict[Text, Plain]
    predicted: Positive | None
    lower: Positive | None
    upper: Positive | None
    unit: Text
    spreads: dict[Text, Sigma]
    reason: Any = None

    def __post_init__(self) -> None:
        if self.predicted is None or self.reason:
            return
        if self.lower is None or self.upper is None or self.lower > self.upper:
            raise ValueError("an answer has no interval")


class Forecasts(Struct):
    """``forecast.json``."""

    level: Level
    forecasts: list[Forecast]


class Question(Struct):
    """``question`` of ways to serve."""

    model: Text


class Way(Struct):
    """An entry of ``best``: how the model is served, and its figures."""

    gpu: Text
    gpus: Positive
    engine: Text
    dtype: Text
    kv_dtype: Text | None
    replicas: Plain
    tp: Positive
    dp: Plain
    ep: Plain
    ttft_ms: Positive | None
    ttft_ms_lower: Positive | None
    ttft_ms_upper: Positive | None
    tpot_ms: Positive | None
    tpot_ms_lower: Positive | None
    tpot_ms_upper: Positive | None
    tokens_per_s_per_gpu: Positive | None
    tokens_per_s_per_gpu_lower: Positive | None
    tokens_per_s_per_gpu_upper: Positive | None
    cost_per_million: Positive | None
    cost_per_million_lower: Positive | None
    cost_per_million_upper: Positive | None


class Ways(Struct):
    """JSON of the ways to serve a model."""

    question: Question
    level: Level
    best: Annotated[list[Way], Meta(min_length=1)]


class Rows(Struct):
    """JSON of predictions."""

    rows: list[dict[Text, Plain]]


KINDS: Final[dict[str, type[Struct]]] = {
    "classes": Projection,
    "forecasts": Forecasts,
    "best": Ways,
    "rows": Rows,
}
"""A key of the JSON of each kind -> what it must be."""


def check_answer(answer: Any, key: str, source: str) -> None:
    """Raise a DataError if a value of a saved answer has the wrong type; ``key`` names the kind of answer."""
    try:
        msgspec.convert(answer, KINDS[key])
    except msgspec.ValidationError as error:
        raise DataError(
            f"is no answer that flopcast saved ({error}): make it anew", source=source
        ) from error

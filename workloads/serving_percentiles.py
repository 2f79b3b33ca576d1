"""Percentiles of the times of serving: how far they lie from the times that the model of serving says.

Of a percentile over that time the logarithm is linear in the octaves of the requests under way and
of the lengths, with a width. The constants are learnt from published runs that state both, 1,193 of
them, of clients that keep so many requests under way from the start: no run that is public states
other percentiles, or some of requests that come at a rate (`benchmarks.serving_percentiles`).
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Final

import numpy as np
import pandas as pd

from ..arrays import FloatArray
from ..errors import ParameterError
from ..hardware import GPU
from ..operators.work import as_numbers
from ..remarks import Remark, remark
from .quantities import MILLISECONDS, quantity
from .serving_model import vendors

PERCENTILES: Final = ("p50", "p99")
AMD_STATES: Final = "p50"
"""What runs on AMD's GPUs state where those of others state the mean: the model has learnt it of them."""
_LIMIT: Final = re.compile(r"\s*(p\d+(?:\.\d+)?)\s*<=?\s*(.+)", re.IGNORECASE)
_FROM: Final = {"concurrency": 1.0, "input_len": 1024.0, "output_len": 1024.0}
"""From which octaves are counted."""
MEASURED: Final[Mapping[str, tuple[float, float]]] = {
    "concurrency": (4.0, 128.0),
    "input_len": (1024.0, 8192.0),
    "output_len": (1024.0, 8192.0),
}
"""What the runs reach from and to."""


@dataclass(frozen=True)
class Percentile:
    """The ratio of a percentile to the forecast time.

    Attributes
    ----------
    start : float
        Logarithm of that ratio, of one request under way, with prompts and answers of 1,024 tokens.
    requests, prompt, answer : float
        What each octave of the requests under way and of the lengths adds.
    amd : float
        What AMD's GPUs add, of which forecasts say the median.
    spread : float
        Standard deviation of the logarithm.
    """

    start: float
    requests: float
    prompt: float
    answer: float
    amd: float
    spread: float

    def of(self, rows: pd.DataFrame, user_gpu: GPU | None = None) -> tuple[FloatArray, FloatArray]:
        """Return the logarithm of the ratio and its deviation, shape (n,) each.

        ``rows`` are of the operator ``serving``; ``user_gpu`` is a GPU that the catalogue does not have.
        Outside of `MEASURED` the deviation holds that the ratio grows no further.
        """
        slopes = np.array([self.start, self.requests, self.prompt, self.answer, self.amd])
        traits_of = traits(rows, user_gpu)
        variance = np.full(len(rows), self.spread**2)
        for name, column, slope in zip(MEASURED, traits_of.T[1:], slopes[1:], strict=False):
            least, limit = np.log2(np.array(MEASURED[name]) / _FROM[name])
            variance += np.square(slope * (column - np.clip(column, least, limit)))
        return traits_of @ slopes, np.sqrt(variance)


@dataclass(frozen=True)
class _OfMeans(Percentile):
    """The ratio of a percentile that the forecast already is on AMD's GPUs: 1 there."""

    def of(self, rows: pd.DataFrame, user_gpu: GPU | None = None) -> tuple[FloatArray, FloatArray]:
        logs, spread = super().of(rows, user_gpu)
        means = 1.0 - traits(rows, user_gpu)[:, -1]
        return logs * means, spread * means


LEARNT: Final[Mapping[tuple[str, str], Percentile]] = {
    ("tpot_ms", "p50"): _OfMeans(-0.005, 0.002, 0.002, -0.001, 0.0, 0.007),
    ("tpot_ms", "p99"): Percentile(0.023, 0.006, 0.023, -0.008, 0.006, 0.057),
    ("ttft_ms", "p50"): _OfMeans(0.223, -0.154, -0.07, 0.002, 0.0, 0.433),
    ("ttft_ms", "p99"): Percentile(0.512, 0.258, 0.033, -0.014, 1.353, 0.788),
}
"""By time and percentile; printed by `benchmarks.serving_percentiles`."""


def traits(rows: pd.DataFrame, user_gpu: GPU | None = None) -> FloatArray:
    """Return one, the octaves of requests, prompts and answers, and whether the GPU is AMD's, shape (n, 5)."""
    octaves = []
    for name, least in _FROM.items():
        octaves.append(np.log2(as_numbers(rows, name) / least))
    amd = np.array(vendors(rows, user_gpu)) == "AMD"
    return np.column_stack([np.ones(len(rows)), *octaves, amd.astype(np.float64)])


def limit(parameter: str, given: object) -> tuple[float, str]:
    """Return a limit in milliseconds and its percentile; "" is the time that forecasts give.

    Raises ParameterError: it is no time above 0, or of a percentile that no public run states.

    >>> limit("ttft", "p99<2s"), limit("tpot", 50)
    ((2000.0, 'p99'), (50.0, ''))
    """
    stated = _LIMIT.fullmatch(str(given))
    if stated is None:
        return quantity(parameter, given, MILLISECONDS), ""
    percentile = stated[1].lower()
    if percentile not in PERCENTILES:
        raise ParameterError(
            parameter,
            f"can be asked of {' and '.join(PERCENTILES)}, which public runs state beside the mean, "
            f"not of {percentile}: give `{parameter}`='{PERCENTILES[-1]}<{stated[2]}'",
        )
    return quantity(parameter, stated[2], MILLISECONDS), percentile


def column(time: str, percentile: str) -> str:
    """Return the column of a time, or of a percentile of it: ``ttft_p99_ms``."""
    if not percentile:
        return time
    return f"{time.removesuffix('_ms')}_{percentile}_ms"


def rests_on(percentile: str, *, conditioned: bool = False) -> Remark:
    """Say what a percentile rests on; ``conditioned`` is with speculation or prompts on GPUs of their own."""
    text = (
        f"{percentile} is the time that is forecast, times a ratio learnt from 1,193 published runs "
        "of DeepSeek-R1 and gpt-oss-120b, with 4 to 128 requests under way from the start"
    )
    if conditioned:
        text += (
            ", without speculation: under the condition asked for the ratio was not measured, and "
            "its variance counts twice (a judgement)"
        )
    return remark("percentile", text, percentile=percentile)

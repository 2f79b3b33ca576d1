"""Serving with speculation: several tokens of an answer are drafted, and one step says which of them stay.

What a step then takes and how many drafts stay is not modelled: runs with speculation say how many
times longer a token takes than without it (`measured_ratios`). The gain is large with few requests
under way and shrinks with more, as drafts take products that a small batch leaves idle (Leviathan et
al., "Fast Inference from Transformers via Speculative Decoding", arXiv:2211.17192). The runs do not
say how many tokens are drafted: the width of the answers has it.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Final

import numpy as np
import pandas as pd

from ..arrays import BoolArray, FloatArray
from ..errors import ParameterError
from ..hardware import GPU
from ..operators.kinds.serving_run import drafts_as_mtp
from ..operators.work import as_numbers, texts
from .measured_ratios import NONE, Ratios, places_of, process

MTP: Final = "mtp"
SPECULATIONS: Final = (NONE, MTP)
"""How tokens are drafted: not at all, or by the model's layers for it (multi-token prediction)."""
OWN: Final = "speculation"
"""Of `ServingModel.about`: how the own runs draft tokens."""


def check_speculation(word: object) -> str:
    """Return how tokens are drafted; a ParameterError names the measured ways."""
    lower = str(word).lower()
    if lower not in SPECULATIONS:
        raise ParameterError(
            "speculation",
            f"must be one of {', '.join(SPECULATIONS)}, of which runs are known, got {word!r}",
        )
    return lower


def drafted(rows: pd.DataFrame) -> BoolArray:
    """Return which measured runs had tokens drafted as `MTP` does, by their ``variant``."""
    named = [drafts_as_mtp(str(word)) for word in texts(rows, "variant")]
    return np.array(named, dtype=bool)


def check_same_drafts(about: Mapping[str, Any], drafts: str) -> None:
    """Refuse the user's runs that draft tokens otherwise than those that a model has learnt from already."""
    before = about.get(OWN, NONE)
    if "own_from" in about and before != drafts:
        raise ParameterError(
            "prior",
            f"has learnt from own runs with speculation {before}, these have {drafts}: "
            "calibrate each from the model that ships",
        )


@dataclass(frozen=True)
class Gain:
    """How many times longer a time takes with speculation than without it."""

    log: FloatArray  # logarithms; shape (n_settings,)
    spread: FloatArray  # their standard deviations
    measured: BoolArray  # whether runs with speculation were cut so, with such lengths


def ratios(time: str) -> Ratios:
    """Return the ratios learnt from runs with speculation of a time: ``tpot_ms`` or ``ttft_ms``."""
    learnt = process(f"speculation|{time}")
    assert learnt is not None
    return learnt


def gain(rows: pd.DataFrame, time: str, user_gpu: GPU | None = None) -> Gain:
    """Return the gain of speculation in a time of settings.

    ``rows`` are of the operator ``serving``, with the figures of their models; ``user_gpu`` is a GPU that
    the catalogue does not have, or has otherwise.
    """
    learnt = ratios(time)
    places = places_of(rows, MTP, user_gpu)
    mean, spread = learnt.of(places)
    return Gain(mean, spread, learnt.measured(places))


def without(runs: pd.DataFrame) -> pd.DataFrame:
    """Return measured runs with speculation as they would have been without it.

    Their times are divided by what speculation changes, so that a forecast of such a setting with
    speculation is what was measured.
    """
    times = {}
    for time in ("tpot_ms", "ttft_ms"):
        times[time] = as_numbers(runs, time) / np.exp(gain(runs, time).log)
    return runs.assign(**times)

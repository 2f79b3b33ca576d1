"""What the law of serving says of settings, and how wide it misses: times to the first token and per further one.

The parts of `laws.serving_steps` are summed and multiplied by the median of measured over forecast of published runs;
the spread is that of their logarithm, of models whose own runs were left out (`constants.toml`).
"""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np
import pandas as pd

from ..arrays import FloatArray
from ..evaluation.metrics import NINETY_PERCENT as Z90
from ..hardware import GPU
from ..laws.serving_steps import steps
from ..operators.work import as_numbers
from ..remarks import Remark, remark
from .releases import PRIORS


@dataclass(frozen=True)
class Served:
    """Times of settings of serving, a value of each, as logarithmic normal distributions independent of each other.

    Attributes
    ----------
    ttft_ms, tpot_ms : ndarray of shape (n_settings,)
        Medians; NaN where a figure is not known.
    ttft_spread, tpot_spread : ndarray of shape (n_settings,)
        Standard deviations of the logarithm.
    remarks : tuple of Remark
        What they rest on.
    """

    ttft_ms: FloatArray
    tpot_ms: FloatArray
    ttft_spread: FloatArray
    tpot_spread: FloatArray
    remarks: tuple[Remark, ...] = ()


def by_law(rows: pd.DataFrame, gpu: GPU) -> Served:
    """Return what the law says of rows of the operator ``serving``, with the figures of their models, on one GPU."""
    found = steps(rows, gpu)
    answer = as_numbers(rows, "output_len")
    kind = "mixture" if (as_numbers(rows, "routed_parameters") > 0).any() else "dense"
    ttft, tpot = PRIORS[f"asked.ttft_{kind}"], PRIORS[f"asked.tpot_{kind}"]
    notes = [
        remark(
            "serving-law",
            "times are those of a law that was set to 2,900 published runs on NVIDIA's GPUs; of models left out it "
            f"misses nine in ten times per token by less than a factor of {math.exp(Z90 * tpot.spread):.2g}, to the "
            f"first token of {math.exp(Z90 * ttft.spread):.2g}",
        )
    ]
    other = PRIORS["asked.vendor"].value if gpu.vendor != "NVIDIA" else 0.0
    if other:
        text = f"none of these runs was on GPUs of {gpu.vendor}: their intervals are wider"
        notes.append(remark("other-vendor", text, vendor=gpu.vendor))
    if len(rows["engine"].unique()) > 1:
        notes.append(remark("engines-alike", "the law does not tell engines apart"))
    same = np.ones(len(rows))
    return Served(
        ttft_ms=np.asarray(found.law("ttft_ms", answer)) * ttft.value,
        tpot_ms=np.asarray(found.law("tpot_ms", answer)) * tpot.value,
        ttft_spread=same * math.hypot(ttft.spread, other),
        tpot_spread=same * math.hypot(tpot.spread, other),
        remarks=tuple(notes),
    )

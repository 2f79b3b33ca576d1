"""Serving with prompts on other GPUs than answers: what its first tokens wait for.

GPUs that only read prompts are one server for the requests under way, each of which then has its
answer written elsewhere: a closed queue with a delay. With ``n`` requests under way, ``s`` seconds
for each prompt and ``z`` for each answer the time at the server is that of Schweitzer's approximation
of mean value analysis (Lazowska et al., "Quantitative System Performance", Prentice-Hall 1984,
chapter 6): ``r = s (1 + (n - 1) r / (r + z))``. At many requests the server decides, and a first
token comes after ``n s - z``; at few a prompt waits for none.

A prompt is read at a share of the peak, and takes a moment of a server besides; these constants are
``apart.*`` of workloads/constants.toml, which `benchmarks.serving_conditions` fits.
"""

from __future__ import annotations

from typing import Final

import numpy as np
import pandas as pd

from ..arrays import FloatArray
from ..hardware import GPU
from ..hardware.networks import NODE_GPUS
from ..laws.serving_steps import Steps, steps
from ..operators.kinds.serving_run import gpus
from ..operators.operators import complete
from ..operators.work import as_numbers
from .releases import PRIORS

APART: Final = "yes"
"""Of the dimension `apart` of the operator ``serving``."""
SHARE, EACH, ALONE, FIRST, SPREAD = (
    PRIORS[f"apart.{name}"] for name in ("share", "prompt", "alone", "first", "spread")
)


def prompt_gpu_ms(rows: pd.DataFrame, steps_of: Steps) -> FloatArray:
    """Return the milliseconds for which reading one prompt would take one GPU, at its peak."""
    one = steps_of.ttft["products"] + steps_of.ttft["experts"] + steps_of.ttft["scores"]
    return one * gpus(rows)


def waits_ms(
    work_ms: FloatArray,
    answer_ms: FloatArray,
    users: FloatArray,
    workers: FloatArray,
    *,
    each_ms: FloatArray | float,
    alone: float,
    first_ms: float,
) -> FloatArray:
    """Return the times to the first token.

    Parameters
    ----------
    work_ms : ndarray
        Of reading one prompt, on all GPUs that do.
    answer_ms : ndarray
        Of writing its answer.
    users, workers : ndarray
        Requests under way, and instances that read prompts.
    each_ms, alone, first_ms : float
        Of a prompt at an instance whatever its length; how many times longer one takes there than
        its share of the work; and of its first token, wherever it is.
    """
    service = work_ms + each_ms / workers
    alone_ms = alone * service * workers + first_ms
    rest = answer_ms + alone_ms
    half = service * users - rest
    at_server = (half + np.sqrt(np.square(half) + 4.0 * service * rest)) / 2.0
    return alone_ms + np.maximum(at_server - service, 0.0)


def first_token_ms(
    rows: pd.DataFrame, gpu: GPU, prefill_gpus: int, tpot_ms: FloatArray
) -> FloatArray:
    """Return the time to the first token of settings whose prompts so many GPUs of their own read.

    ``rows`` are of the operator ``serving``, with the figures of their models, ``tpot_ms`` their times
    per further token.
    """
    rows = complete(rows)
    work = prompt_gpu_ms(rows, steps(rows, gpu)) / prefill_gpus
    return waits_ms(
        work / SHARE.of(gpu.vendor),
        (as_numbers(rows, "output_len") - 1.0) * tpot_ms,
        as_numbers(rows, "concurrency"),
        np.full(len(rows), max(1.0, prefill_gpus / NODE_GPUS)),
        each_ms=EACH.of(gpu.vendor),
        alone=ALONE.value,
        first_ms=FIRST.value,
    )

"""What bounds times of serving: peaks, other requests, and a step.

All requests under way share the GPUs, so a request takes at least the work of all of them at the peaks
(`request_at_peak`): a first token what further tokens leave of it (`first_token_left`), a further token
what the first one leaves (`further_token_left`).
Prompts and answers of other requests hold a first token up. How much is learnt where runs were left
out (`serving_model.BEYOND`), and is `CONTENDED` at most: however short an answer is, one request waits
for what the others take alone (`contention`), and one that is alone waits for none. A prompt that is
shorter than any that was measured takes one step at least, and no longer than the shortest measured
(`towards_a_step`).
"""

from __future__ import annotations

from typing import Final

import numpy as np
import pandas as pd

from ..arrays import FloatArray
from ..evaluation.metrics import NINETY_PERCENT
from ..hardware import GPU
from ..laws.serving_steps import steps
from ..operators.kinds.serving_run import together
from ..operators.work import as_numbers
from .serving import least

CONTENDED: Final = 1.0
"""Most that answers shorter than measured, or more of prompts beside them, add to the deviation of the logarithm.

With answers of 1,000 tokens or more left out, first tokens of answers down to 100 tokens, six octaves
beyond, missed by no more than those one octave beyond (`benchmarks.serving_beyond`)."""
SATURATED: Final = 1.4
"""Times the peak that prompts take where a server does little else.

Of 22 runs with prompts more than 32 times as long as their answers, 95 % took so long or longer."""


def request_at_peak(rows: pd.DataFrame, user_gpu: GPU | None = None) -> FloatArray:
    """Return the least time of a request beside all others under way, ms; 0 where a peak is unknown; shape (n,).

    While one of ``c`` requests is under way, the GPUs do the work of ``c`` requests (Little,
    Operations Research 9(3), 1961): the products of all prompts and answers at the peak. Each token
    of an answer takes a step, which reads the weights that it meets, and each reads its own cache.
    """
    answer = as_numbers(rows, "output_len")
    parts = steps(rows, user_gpu)
    cache = as_numbers(rows, "concurrency") * parts.tpot["cache"] / parts.running
    reading = answer * (least(rows, "tpot_ms", user_gpu) + cache)
    products = least(rows, "duration_us", user_gpu) / 1e3
    whole = np.nan_to_num(np.fmax(products, reading))
    return np.where(together(rows), whole, 0.0)


def first_token_left(
    request: FloatArray, answer: FloatArray | float, tpot: FloatArray
) -> FloatArray:
    """Return what is left for the first token of a request, ms; below 0 where further tokens take it all.

    >>> first_token_left(np.array([100.0]), np.array([11.0]), np.array([4.0])).tolist()
    [60.0]
    """
    return request - (answer - 1.0) * tpot


def further_token_left(request: FloatArray, answer: FloatArray, ttft: FloatArray) -> FloatArray:
    """Return what is left for each further token of a request, ms; 0 where there is none.

    >>> further_token_left(np.array([100.0, 100.0]), np.array([11.0, 1.0]), np.array([60.0, 60.0])).tolist()
    [4.0, 0.0]
    """
    further = answer - 1.0
    left = (request - ttft) / np.maximum(further, 1.0)
    return np.where(further > 0.0, left, 0.0)


def contention(
    users: FloatArray, first_alone: FloatArray, request_alone: FloatArray, prompts: FloatArray
) -> FloatArray:
    """Return the deviation of the logarithm of a first token that other requests can make, shape (n,).

    The least is a request alone (``first_alone``, ms), or half of what all ``prompts`` take at the peak.
    The most is a server that answers the other requests one by one first, each as long as alone
    (``request_alone``). Nine in ten are between both.
    """
    longest = first_alone + (users - 1.0) * request_alone
    shortest = np.maximum(first_alone, prompts / 2.0)
    with np.errstate(invalid="ignore", divide="ignore"):
        room = np.log(np.maximum(longest / shortest, 1.0)) / (2.0 * NINETY_PERCENT)
    return np.fmin(room, CONTENDED)


def towards_a_step(
    logs: FloatArray, step: FloatArray, tokens: FloatArray, measured: FloatArray
) -> tuple[FloatArray, FloatArray]:
    """Return logarithms of first tokens of prompts shorter than ``measured`` tokens, and their deviations on top.

    With one token a prompt takes at least a step of the running answers (``step``, a logarithm) and
    at most what is forecast as for longer prompts (``logs``). The median goes from the latter to the
    mean of both, in octaves of the tokens, and nine in ten are between both there.

    >>> logs, wider = towards_a_step(np.log([100.0]), np.log([4.0]), np.array([1.0]), np.array([1024.0]))
    >>> np.exp(logs).round(6).tolist(), np.exp(NINETY_PERCENT * wider).round(6).tolist()
    ([20.0], [5.0])
    """
    shorter = 1.0 - np.log2(tokens) / np.log2(measured)
    gap = np.maximum(logs - step, 0.0) * shorter
    return logs - gap / 2.0, gap / (2.0 * NINETY_PERCENT)

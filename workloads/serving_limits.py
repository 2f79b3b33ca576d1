"""What bounds times of serving beyond what was measured: peaks, other requests, and a step.

Prompts and answers of other requests hold a first token up. How much is learnt where runs were left
out (`serving_model.BEYOND`), and is `CONTENDED` at most: however short an answer is, one request waits
for what the others take alone (`contention`), and one that is alone waits for none. A prompt that is
shorter than any that was measured takes one step at least, and no longer than the shortest measured
(`towards_a_step`).
"""

from __future__ import annotations

from typing import Final

import numpy as np

from ..arrays import FloatArray
from ..evaluation.metrics import NINETY_PERCENT

CONTENDED: Final = 1.0
"""Most that answers shorter than measured, or more of prompts beside them, add to the deviation of the logarithm.

With answers of 1,000 tokens or more left out, first tokens of answers down to 100 tokens, six octaves
beyond, missed by no more than those one octave beyond (`benchmarks.serving_beyond`)."""
SATURATED: Final = 1.4
"""Times the peak that prompts take where a server does little else.

Of 22 runs with prompts more than 32 times as long as their answers, 95 % took so long or longer."""


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

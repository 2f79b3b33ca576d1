"""Why a row of a table, or an activity or a step of a trace, is kept out: codes, and their text.

Codes are counted and stored. What several readers, the table and cleaning refuse for the same
reason has one code.
"""

from __future__ import annotations

from typing import Final

from ..remarks import Remark, remark

REASONS: Final = {
    "no-device": "no device",
    "unknown-operator": "unknown operator",
    "no-number-format": "no number format",
    "unknown-number-format": "unknown number format",
    "long-text": "text of over 131072 letters",
    # times
    "no-duration": "duration is not a number",
    "infinite-duration": "duration is infinite",
    "zero-duration": "duration is zero",
    "negative-duration": "duration is negative",
    "overrun": "its end is after that of later kernels of its stream",
    "impossible-duration": "duration of over an hour or under 10 ns",
    "above-peak": "over 150 % of a peak of its device",
    "other-unit": "time in another unit than stated",
    "other-unit-than-others": "time in another unit than the others of its operator",
    "far-off-forecast": "time of a token far from any forecast of such a run, as in another unit",
    "stray-time": "time over 300 times off all others of its operator",
    "contradicting-repeats": "repeats of one problem that contradict each other",
    "far-off-neighbours": "over 30 times slower or faster than both neighbours in size",
    "impossible-spread": "spread is negative or infinite",
    # dimensions
    "missing-dimension": "dimension is missing",
    "dimension-not-a-number": "dimension is not a number",
    "infinite-dimension": "dimension is infinite",
    "dimension-not-positive": "dimension is not positive",
    "unknown-scale-block": "unknown block of scales",
    "huge-dimension": "dimension is beyond what a GPU can address",
    "dimension-not-whole": "dimension is not whole",
    # lines of single formats
    "line-unlike-header": "the line has more or fewer fields than its header",
    "not-a-gemm": "not a GEMM of TunableOp",
    "unknown-parameters": "parameters are not of a known form",
    "transpositions-disagree": "operator and parameters disagree in their transpositions",
    "unknown-model": "figures of the model are unknown",
    "not-a-run": "no record of a run",
    "figures-contradict": "figures of the row contradict each other",
    "nothing-completed": "no request was completed",
    "prompts-cached": "tokens of the prompts that stood in the prefix cache, so that they were not computed",
    "other-conditions": "run with speculation, or other conditions that no forecast asks about",
    "several-turns": "turns of conversations: how much of their prompts was computed is not recorded",
    "no-token-times": "no mean time above zero to the first token, or none per further one",
    "not-verified": "the tool found the result wrong, or ran the kernel without success",
    "not-tuned": "no tuned solution: the line has no time",
    "default-kept": "no tuned solution: the library's default was kept",
    "group-sizes-not-given": "grouped GEMM: the line does not give the sizes of its groups",
    "not-a-convolution": "not a convolution's key",
    "not-a-solver": "not solver:ms,workspace,algorithm",
    "output-size-mismatch": "output size does not follow from the input",
    "wrong-result": "the collective's result was wrong",
    "launch-not-recorded": "launch not recorded",
    # activities and steps left out by cleaning
    "warm-up": "warm-up",
    "outlier": "outlier",
    "not-in-fullest-bin": "not in the fullest bin",
    "rest-of-call": "rest of its call",
    "outside-steps": "outside the steps",
    "first-step": "first step",
    "last-step": "last step",
    "partial-step": "partial step",
    "outlying-step": "outlying step",
    "step-not-asked-for": "step not asked for",
}


def reason_of(code: str) -> str:
    """Return the text of a reason; the reason of a user's function (``flopcast measure``) stays as it is."""
    return REASONS.get(code, code)


def coded(code: str) -> str:
    """Return a reason for counting: its code and its text, ``[zero-duration] duration is zero``."""
    if code in REASONS:
        return f"[{code}] {REASONS[code]}"
    return code


def row_refused(code: str, detail: str = "") -> Remark:
    """Return the remark that a row was refused."""
    reason = reason_of(code)
    text = reason
    if detail:
        text = f"{reason} ({detail})"
    return remark("row-refused", text, reason, reason=code, detail=detail)

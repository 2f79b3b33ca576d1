"""What cleaning left out and what it remarks, in words."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Final

REASONS: Final = {
    "impossible-time": "impossible time",
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
"""Why an activity or a step was left out, by its code."""


def _counted(count: int, noun: str, one: str = "", several: str = "") -> str:
    verb = one if count == 1 else several
    return f"{count:,} {noun}{'' if count == 1 else 's'}{f' {verb}' if verb else ''}"


def _not_settled(kernels: int) -> str:
    return f"{_counted(kernels, 'kernel', 'has', 'have')} not settled when the recording ends: record longer"


def _two_ways(kernels: int, share: float) -> str:
    return (
        f"{_counted(kernels, 'kernel', 'loses', 'lose')} over {100 * share:.0f} % of the repeats as outliers: these "
        "are no accidents but a second way of running, look at them before you believe the median"
    )


def _below_binning(kernels: int, least_us: float) -> str:
    who = _counted(kernels, "kernel", "keeps", "keep")
    return f"{who} all runs: no binning margin is published below {least_us:g} µs"


def _few_steps(steps: int, wanted: int) -> str:
    return f"{_counted(steps, 'step')} kept: repeat the run for {wanted} or more"


def _incomplete(missing: int, kernels: int, first: Sequence[str]) -> str:
    names = ", ".join(name[:40] for name in first)
    return f"coverage incomplete: {missing} of {kernels} kernels of the full list are not measured ({names})"


def _uneven(first: Sequence[str]) -> str:
    names = ", ".join(name[:40] for name in first)
    return f"coverage not proved: no full list, and runs differ in how often they have {names}"


WORDS: Mapping[str, str | Callable[..., str]] = {
    "kernels-not-settled": _not_settled,
    "kernels-run-two-ways": _two_ways,
    "outliers-take-time": lambda share, kernel: (
        f"outliers take {100 * share:.0f} % of the time, {kernel[:60]} most of it: look at it"
    ),
    "kernels-below-binning": _below_binning,
    "no-activity-in-steps": "no activity was launched in a recorded step: all are kept",
    "few-steps-kept": _few_steps,
    "too-few-steps-to-trim": lambda steps: f"{_counted(steps, 'step')}: too few to leave out the first and the last",
    "passes-joined": "counters of {passes} passes joined by kernel and order: they were never true together",
    "times-of-runs-without-counters": "times are those of {runs} runs without counters",
    "cut-by-ranges": "{label}: cut by the user's ranges that {rule} matches, {matched} of {ranges}",
    "coverage-complete": "coverage complete: all {kernels} kernels of the full list are measured",
    "coverage-incomplete": _incomplete,
    "coverage-uneven": _uneven,
    "coverage-unproved": (
        "coverage not proved: no full list; the runs have {kernels} kernels together and agree on them"
    ),
}

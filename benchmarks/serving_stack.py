"""Two own runs of a stack: ``python -m flopcast.benchmarks.serving_stack SAMPLE [--data FOLDER]``.

SAMPLE is ``systems/silicon_sample.csv`` of AIConfigurator's wheel. Each model on AMD's GPUs is left
out whole and all is learnt anew; of each model, GPU, engine and format of the weights two runs are
then given, those with the fewest and the most requests under way of the setting that was measured
most, and all its other runs are asked. Prints how far the times per token are off, and how many are
within the interval of a new setting, as which such answers are stated: by the process, by one factor
for the stack, by the process with a level and a slope of the stack on top, whose sizes err least on
the other models, and by the process with the two runs that narrow the others most.
"""

from __future__ import annotations

import argparse
import itertools
import sys
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from typing import Final

import numpy as np
import pandas as pd
from scipy.linalg import cho_solve

from ..arrays import FloatArray
from ..evaluation.metrics import NINETY_PERCENT
from ..workloads.serving_model import FAR, NEW_SETTING, Points, of_vendor, points_of, shipped
from .serving_model import VENDOR, Pairs, amd, first_fit, learn, moves, percent, published, relearnt
from .shared_data import run_on_data

TIME: Final = "tpot_ms"
LEAST: Final = 4
"""Runs of a stack of which two are given."""
LEVELS: Final = (0.0, 0.1, 0.2, 0.3, 0.5)
SLOPES: Final = (0.0, 0.03, 0.06, 0.1, 0.2)
"""Deviations of a stack's level and of its slope for each octave of the requests under way."""
MIDDLE: Final = 4.0
"""Octaves of the requests at which a slope changes nothing."""


@dataclass(frozen=True)
class Stack:
    """A stack whose model was left out: two runs are given, the others asked."""

    model: str
    missed: FloatArray  # logarithms of measured over predicted of all its runs; shape (n,)
    covariance: FloatArray  # that the learnt runs leave, noise included; shape (n, n)
    octaves: FloatArray  # of the requests under way; shape (n,)
    given: tuple[int, int]

    def left(self, level: float, slope: float) -> FloatArray:
        """Return the residuals of the other runs after two, with a level and a slope of the stack."""
        pair = np.array(self.given)
        rest = np.setdiff1d(np.arange(len(self.missed)), pair)
        moved = self.octaves - MIDDLE
        whole = self.covariance + level**2 + slope**2 * np.outer(moved, moved)
        spread = np.linalg.solve(whole[np.ix_(pair, pair)], self.missed[pair])
        return self.missed[rest] - whole[np.ix_(rest, pair)] @ spread

    def factor(self) -> FloatArray:
        """Return the residuals of the other runs with one factor for the stack."""
        rest = np.delete(self.missed, list(self.given))
        return rest - self.missed[list(self.given)].mean()


def narrowest(stack: Stack) -> Stack:
    """Return the stack with those two runs given that leave the others the least variance in sum."""
    alone = np.diag(stack.covariance)
    shared = stack.covariance @ stack.covariance
    squares = np.diag(shared)
    crossed = np.outer(alone, squares)
    saved = crossed + crossed.T - 2.0 * stack.covariance * shared
    saved /= np.outer(alone, alone) - np.square(stack.covariance) + np.eye(len(alone))
    np.fill_diagonal(saved, -np.inf)
    first, last = np.unravel_index(saved.argmax(), saved.shape)
    return replace(stack, given=(int(first), int(last)))


def stacks(runs: pd.DataFrame) -> Iterator[Stack]:
    """Yield the stacks of all models on AMD's GPUs, everything learnt anew without the model."""
    points = points_of(runs, slower=shipped().slower)
    times = runs[TIME].to_numpy(dtype=float)
    asked = amd(runs) & (runs["apart"] != "yes").to_numpy()
    pairs = Pairs.of(points, first_fit(TIME, 0))
    every = learn(points, pairs, times, TIME, (runs["apart"] != "yes").to_numpy() | amd(runs))
    inverse = cho_solve(every.factor, np.eye(len(every.places)), overwrite_b=True)
    model = points.names["model"][every.places]
    for code in np.unique(points.names["model"][asked]):
        hidden = np.flatnonzero(model == code)
        rest = np.delete(every.places, hidden)
        learnt = relearnt(every, points, times, TIME, rest)
        clipped = np.clip(learnt.missing[every.places] - learnt.fit.centre, -FAR, FAR)
        left = np.asarray(np.linalg.inv(inverse[np.ix_(hidden, hidden)]), dtype=np.float64)
        rows = every.places[hidden]
        missed = learnt.missing[rows] - learnt.fit.centre - clipped[hidden]
        missed += left @ (inverse[hidden] @ clipped)
        yield from _stacks_of(runs, points, rows, missed, left, asked[rows])


def _stacks_of(
    runs: pd.DataFrame,
    points: Points,
    rows: np.ndarray,
    missed: FloatArray,
    left: FloatArray,
    asked: np.ndarray,
) -> Iterator[Stack]:
    octaves = np.log2(runs["concurrency"].to_numpy(dtype=float)[rows])
    combination = points.names["combination"][rows]
    for code in np.unique(combination[asked]):
        at = np.flatnonzero(asked & (combination == code))
        settings, counts = np.unique(points.names["run"][rows][at], return_counts=True)
        usual = np.flatnonzero(points.names["run"][rows][at] == settings[counts.argmax()])
        usual = usual[np.argsort(octaves[at][usual], kind="stable")]
        first, last = int(usual[0]), int(usual[-1])
        if len(at) < LEAST or octaves[at][first] == octaves[at][last]:
            continue
        model = str(points.names["model"][rows[at[0]]])  # of all names that it goes by
        yield Stack(model, missed[at], left[np.ix_(at, at)], octaves[at], (first, last))


def chosen(stacks: Sequence[Stack]) -> list[FloatArray]:
    """Return the residuals of each stack with the level and the slope that err least on other models."""
    sizes = [*itertools.product(LEVELS, SLOPES)]
    left = {}
    for size in sizes:
        left[size] = [stack.left(*size) for stack in stacks]
    result = []
    for place, stack in enumerate(stacks):
        totals = {}
        for size in sizes:
            others = []
            for one, errors in zip(stacks, left[size], strict=True):
                if one.model != stack.model:
                    others.append(errors)
            totals[size] = sum(percent(np.concatenate(others)))
        result.append(left[min(sizes, key=totals.__getitem__)][place])
    return result


def main(arguments: Sequence[str] | None = None) -> int:
    """Print the errors; return the exit code."""
    return run_on_data(
        "serving_stack", __doc__, _show, arguments, paths={"sample": "silicon_sample.csv"}
    )


def _show(options: argparse.Namespace) -> None:
    every_stack = list(stacks(published(options.sample, options.data)))
    ways = {
        "the process": [stack.left(0.0, 0.0) for stack in every_stack],
        "one factor": [stack.factor() for stack in every_stack],
        "the process, with a level and a slope": chosen(every_stack),
        "the process, the two that narrow most": [
            narrowest(stack).left(0.0, 0.0) for stack in every_stack
        ],
    }
    spread, _ = of_vendor(shipped().fits[TIME].spreads, VENDOR)[NEW_SETTING]
    print("| two own runs of a stack, by | runs | stacks | models | ms a token | bias | inside |")
    print("|---|---|---|---|---|---|---|")
    for name, errors in ways.items():
        models = np.repeat([stack.model for stack in every_stack], [len(one) for one in errors])
        every = np.concatenate(errors)
        moved = moves(np.abs(np.expm1(-every)), models)
        errors_stated = []
        for error, beside in zip(percent(every), moved, strict=True):
            errors_stated.append(f"{error:.1f} ± {100 * beside:.1f}")
        bias = 100 * np.expm1(-np.median(every))
        cells = (f"{len(every):,}", len(every_stack), len(set(models)), " / ".join(errors_stated))
        inside = 100 * np.mean(np.abs(every) <= NINETY_PERCENT * spread)
        print("|", name, "|", " | ".join(map(str, cells)), f"| {bias:+.0f} % | {inside:.0f} % |")


if __name__ == "__main__":
    sys.exit(main())

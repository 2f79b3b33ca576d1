"""The kernel's power curve from readings averaged over a window of known length: non-negative least squares.

A reading at time t of a logger with window W is the mean power over [t − W, t]. Where the window
touches only one run, that is a sum over the kernel's curve in K cells, a level for each execution
that warms up, and the idle power, each times the share of the window it fills:

    y = A_cells p + A_warm d + A_idle · idle + noise.

Nothing is assumed of windows and kernel times: jitter makes the equations differ from run to run,
which is what tells apart the parts of the curve that a window of whole kernel times would hide.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

import numpy as np
import pandas as pd
from scipy.optimize import lsq_linear

from .runs import covered_share

CELLS: Final = 40  # of the kernel's time
FOLDS: Final = 10
# of the penalty on the curve's roughness, relative to the number of readings
STRENGTHS: Final = np.logspace(-6, 4, 31)
CLEAR_GAIN: Final = 2.26
"""Standard errors by which the best strength must beat the strongest, which leaves the level alone,
for more than the level to be called resolved; without anything to resolve, ten folds exceed it by
chance in one of forty."""
SLOPE: Final = 0.02
"""Penalty on first differences, for one of 1 on second ones: where the readings do not tell, the curve is level."""
WARM_PRIOR: Final = 0.2
"""Executions that warm up are taken to differ by some 10 % where readings scatter by 2 %: the ratio of the two."""
_LEAST_RUNS: Final = 2 * FOLDS
_NONE: Final = 1e-9  # shares of a window below this are rounding


@dataclass(frozen=True)
class Deconvolved:
    """The curve and its fit."""

    phase: np.ndarray  # (cells,), middle of each cell, as a share of the kernel's time
    power_w: np.ndarray  # (cells,), its power
    idle_w: float  # power outside the executions of the run
    warm_w: np.ndarray  # (warm,), by how much each execution that warms up differs
    strength: float  # of the smoothness penalty, chosen by cross-validation over runs
    parameters: float  # effective number left to the curve: near 1, only its level is resolved
    readings: int  # that were used, of so many runs
    runs: int
    residual_w: float  # root mean square of what the model leaves


@dataclass(frozen=True)
class Windows:
    """The equations: one row per reading."""

    reading: np.ndarray  # (n,), place of each among the time stamps
    run: np.ndarray  # (n,), its run, numbered
    # (n, cells + warm + 1), of the window: in cells, executions that warm up, outside all
    shares: np.ndarray
    cells: int  # how many of the columns are cells


def windows(
    times_ns: np.ndarray,
    executions: pd.DataFrame,
    others: pd.DataFrame,
    window_ns: float,
    *,
    warm: int = 3,
    cells: int = CELLS,
) -> Windows:
    """Return the equations of the readings whose windows contain only one golden run of the kernel.

    `times_ns` are on the CPU's clock; `executions` are those of the kernel in golden runs, in order
    of time, `others` all other executions. A window that touches one of the others is left out, and
    so is one that ends after its run, since power falls to idle at its pace. The first
    `warm` executions of a run warm up.
    """
    start = executions["start_ns"].to_numpy()
    end = executions["end_ns"].to_numpy()
    place = np.searchsorted(start, times_ns, side="right") - 1
    inside = (place >= 0) & (times_ns <= end[place])
    reading = np.flatnonzero(inside)
    place = place[inside]
    touched = covered_share(times_ns[reading], others, window_ns) > _NONE
    began = executions["run_start_ns"].to_numpy()[place]
    earlier = np.searchsorted(end, times_ns[reading] - window_ns, side="right")
    alone = executions["run_start_ns"].to_numpy()[earlier] == began
    reading, place, earlier = (array[~touched & alone] for array in (reading, place, earlier))
    run = pd.factorize(executions["run"])[0][place]
    number = executions["execution"].to_numpy()
    shares = np.zeros((len(reading), cells + warm + 1))
    farthest = int((place - earlier).max(initial=-1))
    # the execution of the reading, the one before, ...
    for back in range(farthest + 1):
        rows = np.flatnonzero(place - back >= earlier)
        execution = place[rows] - back
        until = (times_ns[reading[rows]] - start[execution]).astype(float)
        length = (end[execution] - start[execution]).astype(float)
        part = _cell_shares(until, length, window_ns, cells)
        shares[rows, :cells] += part
        nth = number[execution]
        is_warm = nth <= warm
        shares[rows[is_warm], cells + nth[is_warm] - 1] += part[is_warm].sum(axis=1)
    shares[:, -1] = 1 - shares[:, :cells].sum(axis=1)
    return Windows(reading, run, shares, cells)


def _cell_shares(until: np.ndarray, length: np.ndarray, window: float, cells: int) -> np.ndarray:
    """Return the share of the window in each cell of one execution.

    ``until`` is the end of the window since the execution's start; (n,) -> (n, cells).
    """
    edges = np.linspace(0, 1, cells + 1) * length[:, None]
    low = np.maximum(edges[:, :-1], (until - window)[:, None])
    high = np.minimum(edges[:, 1:], until[:, None])
    return np.clip(high - low, 0, None) / window


def deconvolve(
    equations: Windows, power_w: np.ndarray, *, cap_w: float | None = None, seed: int = 0
) -> Deconvolved | None:
    """Solve for the kernel's curve, given the power at every time stamp, and the power cap of the board, W, if any.

    Returns None where fewer than twenty runs have readings: the penalty cannot be chosen.

    Notes
    -----
    Minimises ‖y − A x‖² + n s (‖D₂ p‖² + c ‖D₁ p‖²) + w² ‖d‖² over 0 ≤ p ≤ cap, idle ≥ 0, where D₂
    p and D₁ p are second and first differences, c is `SLOPE` and w `WARM_PRIOR`; s is the largest
    whose error on runs left out, in ten folds drawn with the seed, is within one standard error of
    the smallest. Where the smallest is not clearly below that of a level curve, the curve is level:
    a window much longer than the kernel leaves so little of its shape that noise would be taken for
    it.
    """
    runs = np.unique(equations.run)
    if len(runs) < _LEAST_RUNS:
        return None
    A = equations.shares
    scale = float(np.mean(power_w[equations.reading]))
    y = power_w[equations.reading] / scale
    n = len(equations.reading)
    smooth, prior = _penalties(A.shape[1], equations.cells)
    fold = np.random.default_rng(seed).permutation(len(runs)) % FOLDS
    of_reading = fold[np.searchsorted(runs, equations.run)]
    errors = []
    for left_out in range(FOLDS):
        errors.append(_errors_left_out(A, y, of_reading == left_out, n * smooth, prior))
    strength = _strongest(np.array(errors))
    P = strength * n * smooth + prior
    # the penalised solution with a non-negative curve, nowhere above the most, and non-negative
    # idle power
    root = np.linalg.cholesky(A.T @ A + P)  # as many equations as unknowns, with the same solution
    lowest = np.zeros(A.shape[1])
    lowest[equations.cells : -1] = -np.inf
    highest = np.full(A.shape[1], np.inf)
    if cap_w is not None:
        highest[: equations.cells] = cap_w / scale
    right = np.linalg.solve(root, A.T @ y)
    x = lsq_linear(root.T, right, bounds=(lowest, highest), method="bvls").x
    hat = np.linalg.solve(A.T @ A + P, A.T @ A)
    middle = (np.arange(equations.cells) + 0.5) / equations.cells
    return Deconvolved(
        phase=middle,
        power_w=scale * x[: equations.cells],
        idle_w=scale * float(x[-1]),
        warm_w=scale * x[equations.cells : -1],
        strength=strength,
        parameters=float(np.trace(hat[: equations.cells, : equations.cells])),
        readings=n,
        runs=len(runs),
        residual_w=scale * float(np.sqrt(np.mean((y - A @ x) ** 2))),
    )


def _penalties(columns: int, cells: int) -> tuple[np.ndarray, np.ndarray]:
    """Return the quadratic forms of roughness and of the prior on executions that warm up, each (columns, columns)."""
    # (cells - order, cells)
    first, second = (np.diff(np.eye(cells), n=order, axis=0) for order in (1, 2))
    smooth = np.zeros((columns, columns))
    prior = np.zeros((columns, columns))
    smooth[:cells, :cells] = second.T @ second + SLOPE * first.T @ first
    warm = np.arange(cells, columns - 1)
    prior[warm, warm] = WARM_PRIOR**2
    # no cell and no idle window seen at all: still solvable
    return smooth, prior + 1e-10 * np.eye(columns)


def _errors_left_out(
    A: np.ndarray, y: np.ndarray, left_out: np.ndarray, smooth: np.ndarray, prior: np.ndarray
) -> np.ndarray:
    """Return the mean squared error on the readings left out, for each strength."""
    gram = A[~left_out].T @ A[~left_out] + prior
    right = A[~left_out].T @ y[~left_out]
    solutions = (np.linalg.solve(gram + strength * smooth, right) for strength in STRENGTHS)
    return np.array([np.mean((y[left_out] - A[left_out] @ x) ** 2) for x in solutions])


def _strongest(errors: np.ndarray) -> float:
    """Return the strongest penalty within one standard error of the best, or of all; errors of (folds, strengths)."""
    mean = errors.mean(axis=0)
    best = int(np.argmin(mean))
    excess = errors - errors[:, [best]]  # fold by fold: what all strengths leave over cancels
    allowed = excess.std(axis=0, ddof=1) / np.sqrt(len(errors))
    if excess[:, -1].mean() <= CLEAR_GAIN * allowed[-1]:
        return float(STRENGTHS[-1])
    return float(STRENGTHS[np.flatnonzero(excess.mean(axis=0) <= allowed)[-1]])

"""The kernel's own power curve from readings that average over a known window: regularised, non-negative least squares.

A reading at time t of a logger with window W is the mean power over [t − W, t]. Where the window touches only one run,
that is a sum over the kernel's curve in K cells, a level for each execution that warms up, and the idle power, each
times the share of the window it fills:

    y = A_cells p + A_warm d + A_idle · idle + noise.

Nothing is assumed of windows and kernel times: jitter makes the equations differ from run to run, which is what tells
apart the parts of the curve that a window of whole kernel times would hide.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Final

import numpy as np
import pandas as pd
from scipy.optimize import lsq_linear

from .runs import covered_share

CELLS: Final = 40
"""Of the kernel's time."""
FOLDS: Final = 10
STRENGTHS: Final = np.logspace(-6, 4, 31)
"""Of the penalty on the curve's roughness, relative to the number of readings."""
CLEAR_GAIN: Final = 2.26
"""Standard errors by which the best strength must beat the strongest, which leaves the level alone, for more than the
level to be called resolved; without anything to resolve, ten folds exceed it by chance in one of forty."""
SLOPE: Final = 0.02
"""Penalty on first differences, for one of 1 on second ones: where the readings do not tell, the curve is level."""
WARM_PRIOR: Final = 0.2
"""Executions that warm up are taken to differ by some 10 % where readings scatter by 2 %: the ratio of the two."""

ALL, STEADY, LEVEL = "all", "steady", "level"
"""Made from all readings of the runs; from those whose windows see executions of steady power alone; or only the level
of the readings that fall into executions of steady power, as the curve cannot be known."""
_LEAST_RUNS: Final = 2 * FOLDS
_NONE: Final = 1e-9
"""Shares of a window below this are rounding."""


@dataclass(frozen=True)
class Deconvolved:
    """The curve and how it was found."""

    phase: np.ndarray  # (cells,), middle of each cell, as a share of the kernel's time
    power_w: np.ndarray  # (cells,), its power
    idle_w: float  # power outside the executions of the run; NaN where no reading tells
    warm_w: np.ndarray  # (warm,), by how much each execution that warms up differs
    strength: float  # of the smoothness penalty, chosen by cross-validation over runs
    parameters: float  # effective number left to the curve: near 1, only its level is resolved
    readings: int  # that were used, of so many runs
    runs: int
    residual_w: float  # root mean square of what the model leaves
    seen: str = ALL  # readings it was made from, `ALL`, `STEADY` or `LEVEL`
    bounded: bool = False  # whether the power limit or the idle power holds some of it


@dataclass(frozen=True)
class Windows:
    """The equations: one row per reading."""

    reading: np.ndarray  # (n,), place of each among the time stamps
    run: np.ndarray  # (n,), its run, numbered
    shares: np.ndarray  # (n, cells + warm + 1), of the window: in cells, executions that warm up, outside all
    cells: int  # how many of the columns are cells
    late: np.ndarray  # (n,), whether the reading falls into an execution of steady power
    steady: np.ndarray  # (n,), whether its window sees such executions alone

    def take(self, rows: np.ndarray) -> Windows:
        """Return some of the readings."""
        return replace(
            self,
            reading=self.reading[rows], run=self.run[rows], shares=self.shares[rows], late=self.late[rows],
            steady=self.steady[rows],
        )  # fmt: skip


def windows(
    times_ns: np.ndarray,
    executions: pd.DataFrame,
    others: pd.DataFrame,
    window_ns: float,
    *,
    warm: int = 3,
    steady_from: int = 1,
    cells: int = CELLS,
) -> Windows:
    """Return the equations of the readings whose windows see one golden run of the kernel and nothing else.

    `times_ns` are on the CPU's clock; `executions` are those of the kernel in golden runs, in order of time, `others`
    all other executions. A window that touches one of the others is left out, and so is one that ends after its run,
    since power falls to idle at a pace of its own. The first `warm` executions of a run warm up; power is steady from
    number `steady_from` on.
    """
    start, end = executions["start_ns"].to_numpy(), executions["end_ns"].to_numpy()
    place = np.searchsorted(start, times_ns, side="right") - 1
    inside = (place >= 0) & (times_ns <= end[place])
    reading, place = np.flatnonzero(inside), place[inside]
    touched = covered_share(times_ns[reading], others, window_ns) > _NONE
    began = executions["run_start_ns"].to_numpy()[place]
    earlier = np.searchsorted(end, times_ns[reading] - window_ns, side="right")
    alone = executions["run_start_ns"].to_numpy()[earlier] == began
    reading, place, earlier = (array[~touched & alone] for array in (reading, place, earlier))
    run = pd.factorize(executions["run"])[0][place]
    number = executions["execution"].to_numpy()
    shares = np.zeros((len(reading), cells + warm + 1))
    for back in range(int((place - earlier).max(initial=-1)) + 1):  # the execution of the reading, the one before, ...
        rows = np.flatnonzero(place - back >= earlier)
        one = place[rows] - back
        until = (times_ns[reading[rows]] - start[one]).astype(float)
        part = _cell_shares(until, (end[one] - start[one]).astype(float), window_ns, cells)
        shares[rows, :cells] += part
        is_warm = number[one] <= warm
        shares[rows[is_warm], cells + number[one][is_warm] - 1] += part[is_warm].sum(axis=1)
    shares[:, -1] = 1 - shares[:, :cells].sum(axis=1)
    late = number[place] >= steady_from
    return Windows(reading, run, shares, cells, late, late & (number[earlier] >= steady_from))


def _cell_shares(until: np.ndarray, length: np.ndarray, window: float, cells: int) -> np.ndarray:
    """Return the share of the window in each cell of one execution.

    ``until`` is the end of the window since the execution's start; (n,) -> (n, cells).
    """
    edges = np.linspace(0, 1, cells + 1) * length[:, None]
    low, high = np.maximum(edges[:, :-1], (until - window)[:, None]), np.minimum(edges[:, 1:], until[:, None])
    return np.clip(high - low, 0, None) / window


def deconvolve(
    equations: Windows, power_w: np.ndarray, *, idle_w: float = 0.0, limit_w: float = np.inf, seed: int = 0
) -> Deconvolved | None:
    """Solve for the kernel's curve, given the power at every time stamp.

    Parameters
    ----------
    equations : Windows
    power_w : ndarray
        At every time stamp.
    idle_w, limit_w : float
        The power of the idle GPU, and its limit: the curve lies between.
    seed : int
        Of the folds.

    Returns None where fewer than twenty runs have readings: the penalty cannot be chosen.

    Notes
    -----
    Minimises ‖y − A x‖² + n s (‖D₂ p‖² + c ‖D₁ p‖²) + w² ‖d‖² over idle ≤ p ≤ limit, where D₂ p and D₁ p are second and
    first differences, c is `SLOPE` and w `WARM_PRIOR`; s is the largest whose error on runs left out, in ten folds
    drawn with the seed, is within one standard error of the smallest. Where the smallest is not clearly below that of a
    level curve, the curve is level: a window much longer than the kernel leaves so little of its shape that noise would
    be taken for it.

    The equations take power to reach its level at once, but it may rise over the first executions of a run, and that
    rise would be taken for a part of the curve. So the curve from all readings is held against that from windows which
    see executions of steady power alone, and against the mere level of readings that fall into such executions; one
    that errs clearly less on these readings, of runs left out, is taken.
    """
    runs = np.unique(equations.run)
    if len(runs) < _LEAST_RUNS:
        return None
    fold = np.random.default_rng(seed).permutation(len(runs)) % FOLDS
    of_reading = fold[np.searchsorted(runs, equations.run)]
    scale = float(np.mean(power_w[equations.reading]))
    late, steady = equations.late, equations.steady
    some = {ALL: np.ones(len(late), dtype=bool)}
    if not late.all() and min(np.bincount(of_reading[late], minlength=FOLDS)) > 1:
        some |= {STEADY: steady} if len(np.unique(equations.run[steady])) >= _LEAST_RUNS else {}
        some[LEVEL] = late
    strengths, left = dict[str, float](), dict[str, np.ndarray]()
    for name, rows in some.items():
        own, folds = equations.take(rows), of_reading[rows]
        y = power_w[own.reading] / scale
        errors, of_late = (np.zeros((FOLDS, len(STRENGTHS))) for _ in range(2))
        smooth, prior = _penalties(own.shares.shape[1], own.cells)
        for one in range(FOLDS):
            solutions = _solutions(own.shares[folds != one], y[folds != one], len(own.reading) * smooth, prior)
            out = (of_reading == one) & late
            if len(some) > 1:
                of_late[one] = _squares(equations.shares[out], power_w[equations.reading[out]] / scale, solutions)
            if (folds == one).any():
                errors[one] = _squares(own.shares[folds == one], y[folds == one], solutions)
        strengths[name] = float(STRENGTHS[-1]) if name == LEVEL else _strongest(errors)
        left[name] = of_late[:, np.flatnonzero(strengths[name] == STRENGTHS)[0]]
    best = min(left, key=lambda name: float(left[name].mean()))
    more = left[ALL] - left[best]
    seen = best if more.mean() > CLEAR_GAIN * more.std(ddof=1) / np.sqrt(FOLDS) else ALL
    return _solved(equations.take(some[seen]), power_w, scale, strengths[seen], idle_w, limit_w, seen)


def _solved(
    equations: Windows, power_w: np.ndarray, scale: float, strength: float, idle_w: float, limit_w: float, seen: str
) -> Deconvolved:
    A, y, n, cells = equations.shares, power_w[equations.reading] / scale, len(equations.reading), equations.cells
    smooth, prior = _penalties(A.shape[1], cells)
    P = strength * n * smooth + prior
    x = _bounded(A, y, P, cells, idle_w / scale, limit_w / scale)
    hat = np.linalg.solve(A.T @ A + P, A.T @ A)
    curve = scale * x[:cells]
    return Deconvolved(
        phase=(np.arange(cells) + 0.5) / cells,
        power_w=curve,
        idle_w=scale * float(x[-1]) if A[:, -1].max() > _NONE else np.nan,
        warm_w=scale * x[cells:-1],
        strength=strength,
        parameters=float(np.trace(hat[:cells, :cells])),
        readings=n,
        runs=len(np.unique(equations.run)),
        residual_w=scale * float(np.sqrt(np.mean((y - A @ x) ** 2))),
        seen=seen,
        bounded=bool(((curve <= idle_w * (1 + 1e-6)) | (curve >= limit_w * (1 - 1e-6))).any()),
    )


def _penalties(columns: int, cells: int) -> tuple[np.ndarray, np.ndarray]:
    """Return the quadratic forms of roughness and of the prior on executions that warm up, each (columns, columns)."""
    first, second = (np.diff(np.eye(cells), n=order, axis=0) for order in (1, 2))  # (cells - order, cells)
    smooth, prior = np.zeros((columns, columns)), np.zeros((columns, columns))
    smooth[:cells, :cells] = second.T @ second + SLOPE * first.T @ first
    warm = np.arange(cells, columns - 1)
    prior[warm, warm] = WARM_PRIOR**2
    return smooth, prior + 1e-10 * np.eye(columns)  # no cell and no idle window seen at all: still solvable


def _solutions(A: np.ndarray, y: np.ndarray, smooth: np.ndarray, prior: np.ndarray) -> np.ndarray:
    """Return the solution for each strength, (strengths, columns)."""
    gram, right = A.T @ A + prior, A.T @ y
    return np.array([np.linalg.solve(gram + strength * smooth, right) for strength in STRENGTHS])


def _squares(A: np.ndarray, y: np.ndarray, solutions: np.ndarray) -> np.ndarray:
    """Return the mean squared error of each solution on some readings, (strengths,)."""
    return np.mean((y[:, None] - A @ solutions.T) ** 2, axis=0)


def _strongest(errors: np.ndarray) -> float:
    """Return the strongest penalty within one standard error of the best, or of all; errors of (folds, strengths)."""
    mean = errors.mean(axis=0)
    best = int(np.argmin(mean))
    excess = errors - errors[:, [best]]  # fold by fold: what all strengths leave over cancels
    allowed = excess.std(axis=0, ddof=1) / np.sqrt(len(errors))
    if excess[:, -1].mean() <= CLEAR_GAIN * allowed[-1]:
        return float(STRENGTHS[-1])
    return float(STRENGTHS[np.flatnonzero(excess.mean(axis=0) <= allowed)[-1]])


def _bounded(
    A: np.ndarray, y: np.ndarray, penalty: np.ndarray, cells: int, lowest: float, highest: float
) -> np.ndarray:
    """Return the penalised solution with a curve between two levels and an idle power that is not negative."""
    root = np.linalg.cholesky(A.T @ A + penalty)  # as many equations as unknowns, with the same solution
    low, high = np.full(A.shape[1], -np.inf), np.full(A.shape[1], np.inf)
    low[:cells], high[:cells], low[-1] = lowest, highest, 0
    return lsq_linear(root.T, np.linalg.solve(root, A.T @ y), bounds=(low, high), method="bvls").x

"""Energy of one execution with an interval: mean power over the kernel's time, times that time, of golden runs.

Readings of all golden runs enter with their phase, their position in the kernel's time. Curves
through them are the published polynomial of degree 4 and a smoothing spline. A reading over a
window of which the share s was filled by executions is s times their power plus 1 − s times the
idle power, which the readings between runs show: `find_pauses` frees readings of it, as if power
fell to idle at once. `kernel_energy` makes the energy of what is left.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

import numpy as np
import pandas as pd
from scipy.interpolate import make_smoothing_spline

from ..evaluation.cluster_bootstrap import percentile_interval
from ..traces.cleaning.binning import fullest_bins
from .runs import covered_share

DEGREE: Final = 4  # of the published polynomial
RIDGE: Final = 0.05
"""Readings' worth of a prior that the curve is level. It holds the ends of the curve where readings
leave part of the kernel's time empty, and cannot be seen where they are as many as recommended."""
PHASES: Final = (np.arange(100) + 0.5) / 100
"""Where curves are evaluated: the middles of hundredths of the kernel's time."""
_CELLS: Final = 200  # readings of one cell of the kernel's time enter the spline as their mean
_LEAST_SPLINE: Final = 5  # points that a smoothing spline needs
LEAST_IDLE: Final = 6
"""Below so many readings between runs those before and after all runs count too; below so many of these none do."""
# windows less filled than this part of the mean one say too little of executions
LEAST_FILLED: Final = 0.5
_NO_PAUSE: Final = 1e-9  # shares of a window below this are rounding


def design(phase: np.ndarray) -> np.ndarray:
    """Return the Legendre polynomials over [0, 1] at each phase, shape (n, DEGREE + 1).

    They are orthogonal there and all but the first have mean 0, so the first coefficient is the
    curve's mean.
    """
    return np.polynomial.legendre.legvander(2 * np.asarray(phase) - 1, DEGREE)


def polynomial(phase: np.ndarray, power_w: np.ndarray, at: np.ndarray = PHASES) -> np.ndarray:
    """Return the least-squares polynomial through the readings (phase, power), evaluated at the phases `at`.

    Phases lie between 0 and 1; there must be more readings than the degree.
    """
    A = design(phase)
    return design(at) @ np.linalg.solve(A.T @ A + level_prior(), A.T @ power_w)


def level_prior() -> np.ndarray:
    """Return the quadratic form of the prior, shape (DEGREE + 1, DEGREE + 1): all coefficients but the mean."""
    return RIDGE * np.diag(np.minimum(np.arange(DEGREE + 1.0), 1))


def spline(phase: np.ndarray, power_w: np.ndarray, at: np.ndarray = PHASES) -> np.ndarray:
    """Return the cubic smoothing spline, its smoothness chosen by generalised cross-validation, at the phases ``at``.

    Beyond the first and the last reading the curve keeps its value there. Fewer than 5 distinct
    cells of readings give their mean.
    """
    cell = np.minimum((phase * _CELLS).astype(int), _CELLS - 1)
    count = np.bincount(cell, minlength=_CELLS)
    filled = count > 0
    x, y = (
        np.bincount(cell, values, _CELLS)[filled] / count[filled] for values in (phase, power_w)
    )
    if filled.sum() < _LEAST_SPLINE:
        return np.full(len(at), float(np.mean(power_w)))
    scale = float(filled.sum())  # unit spacing keeps the equations well conditioned
    level = float(np.mean(y))
    curve = make_smoothing_spline(scale * x, y - level, w=count[filled].astype(float))
    return level + curve(scale * np.clip(at, x[0], x[-1]))


@dataclass(frozen=True)
class Pauses:
    """The share of pauses in the windows of readings."""

    # (n,), share of each window in which an execution ran; 1 of an instantaneous logger
    filled: np.ndarray
    # places, among all time stamps, of the readings whose windows see no execution
    idle: np.ndarray

    @property
    def share(self) -> float:
        """Mean share of the windows outside executions."""
        return float(1 - self.filled.mean())

    @property
    def usable(self) -> np.ndarray:
        """Which readings contain enough of executions to be freed of pauses."""
        return self.filled >= LEAST_FILLED * self.filled.mean()

    @property
    def correctable(self) -> bool:
        """Whether the idle power is stated, as far as it is needed."""
        return self.share <= _NO_PAUSE or len(self.idle) >= LEAST_IDLE

    def running_w(self, power_w: np.ndarray, read_w: np.ndarray) -> tuple[np.ndarray, float]:
        """Return the power while executions ran, and the standard error that the idle power gives its mean.

        `power_w` is that at every time stamp, `read_w` (n,) that of the readings, which is returned
        as it is where the idle power is unknown. What is returned for readings that are not
        `usable` is of no use.
        """
        if self.share <= _NO_PAUSE or not self.correctable:
            return read_w, 0.0
        idle = power_w[self.idle]
        filled = np.maximum(self.filled, LEAST_FILLED * self.filled.mean())
        pause = (1 - filled) / filled
        error = float(pause.mean() * idle.std(ddof=1) / np.sqrt(len(idle)))
        return read_w / filled - pause * idle.mean(), error


def find_pauses(
    times_ns: np.ndarray, reading: np.ndarray, executions: pd.DataFrame, window_ns: float
) -> Pauses:
    """Return the pauses in the windows of some readings.

    `times_ns` are all time stamps on the CPU's clock; `reading` holds the places of the readings,
    which fall into executions; `executions` are all of them, in order of time. A `window_ns` of 0
    is that of an instantaneous logger.
    """
    if not window_ns:
        return Pauses(np.ones(len(reading)), np.array([], dtype=int))
    share = covered_share(times_ns, executions, window_ns)
    first = executions["start_ns"].iloc[0]
    last = executions["end_ns"].iloc[-1]
    outside = share <= _NO_PAUSE
    between = outside & (times_ns > first) & (times_ns < last)
    return Pauses(
        share[reading], np.flatnonzero(between if between.sum() >= LEAST_IDLE else outside)
    )


@dataclass(frozen=True)
class Energy:
    """Energy of one execution in joules, its interval, and the mean power it is made of."""

    energy_j: float
    lower_j: float
    upper_j: float
    mean_w: float


def kernel_energy(
    run: np.ndarray,
    phase: np.ndarray,
    power_w: np.ndarray,
    times_us: np.ndarray,
    ratio: float,
    *,
    error_w: float = 0.0,
    replicates: int = 1000,
    seed: int = 0,
    level: float = 0.9,
) -> Energy:
    """Return the kernel's energy: the mean of the fitted polynomial times the median execution time of golden runs.

    The readings (n,) have steady-state power and are of all runs: the place of each one's ``run``
    in ``times_us`` (runs,), its ``phase``, its power. ``ratio`` is that of the longest to the
    shortest time of the execution-time bin (`traces.cleaning.binning`), ``error_w`` the standard
    error of what all readings have in common, by which the interval is wider.

    For the interval whole runs are drawn with replacement and the golden ones chosen anew each
    time, since the fullest bin is a guess too; it is the expanded percentile interval of
    `evaluation.cluster_bootstrap`. Replicates whose golden runs have no reading say nothing and are
    left out; are they more than half, the interval is NaN.

    The mean is that of the polynomial, not of the readings: these may crowd where the kernel draws
    more. With A the Legendre design, each run enters a replicate through AᵀA and Aᵀy times its
    weight, so no replicate looks at a reading.
    """
    A = design(phase)
    runs = len(times_us)
    terms = A.shape[1]
    gram = np.zeros((runs, terms, terms))
    right = np.zeros((runs, terms))
    np.add.at(gram, run, A[:, :, None] * A[:, None, :])
    np.add.at(right, run, A * power_w[:, None])

    def estimate(weights: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        low, high = fullest_bins(times_us, weights, ratio)
        golden = weights * ((times_us >= low[:, None]) & (times_us <= high[:, None]))
        mean_w = _means(golden, gram, right)
        return mean_w, mean_w * _medians(golden, times_us) * 1e-6

    mean_w, energy_j = (float(one[0]) for one in estimate(np.ones((1, runs))))
    if runs < 2:
        return Energy(energy_j, np.nan, np.nan, mean_w)
    rng = np.random.default_rng(seed)
    drawn = rng.multinomial(runs, np.full(runs, 1 / runs), replicates).astype(float)
    energies = estimate(drawn)[1] + rng.normal(0, error_w, replicates) * energy_j / mean_w
    finite = energies[np.isfinite(energies)]
    if 2 * len(finite) < replicates:
        return Energy(energy_j, np.nan, np.nan, mean_w)
    lower, upper = percentile_interval(finite, runs, level=level)
    return Energy(
        energy_j,
        float(lower),
        float(upper),
        mean_w,
    )


def _means(weights: np.ndarray, gram: np.ndarray, right: np.ndarray) -> np.ndarray:
    """Return the mean of the curve for each weighting of the runs, its first coefficient: weights (b, runs) -> (b,)."""
    runs, terms = right.shape
    grams = (weights @ gram.reshape(runs, -1)).reshape(-1, terms, terms) + level_prior()
    seen = grams[:, 0, 0] > 0  # a replicate whose golden runs have no reading says nothing
    means = np.full(len(weights), np.nan)
    products = (weights[seen] @ right)[..., None]
    means[seen] = np.linalg.solve(grams[seen], products)[:, 0, 0]
    return means


def _medians(weights: np.ndarray, times: np.ndarray) -> np.ndarray:
    """Return the weighted median time of each weighting, the mean of the two middle ones where they tie."""
    order = np.argsort(times, kind="stable")
    reached = np.cumsum(weights[:, order], axis=1)
    ordered = times[order]
    half = weights.sum(axis=1, keepdims=True) / 2
    lower = (reached >= half).argmax(axis=1)
    upper = (reached > half).argmax(axis=1)
    return (ordered[lower] + ordered[upper]) / 2

"""Times of one kind of kernel on one GPU, learnt from some dozens to hundreds of measured shapes: a Gaussian process.

The logarithm of the time over the work is a linear law of the logarithms of the sizes and a smooth
departure from it (Matérn 5/2, a length for each size; Rasmussen and Williams, "Gaussian Processes
for Machine Learning", MIT Press 2006, sections 2.2, 2.7 and 5.4.1). Its deviation grows away from
the measured shapes; how often it held is measured by folds, and makes the interval.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

import numpy as np

from ..arrays import FloatArray, IntArray

LEVELS: Final = (0.5, 0.6, 0.7, 0.8, 0.9, 0.95, 0.99)
"""Of intervals, at which the errors of the folds are kept."""
_LAW_VARIANCE: Final = 1.0  # of each coefficient of the law, sizes standardised: as good as free
_SAMPLE: Final = 200  # shapes by which the lengths are chosen
_ROUNDS: Final = 25  # of the search for them
_LENGTH = 0.7
_LENGTH_SPREAD = 1.0
_NOISE = -4.0
"""Of the priors of the logarithms: lengths over the deviation of a size, and the noise."""


@dataclass(frozen=True)
class KernelProcess:
    """A process, fitted.

    Attributes
    ----------
    settings : ndarray, shape (p + 2,)
        Logarithms of the p lengths, of the departure's deviation and of the noise's.
    means, scales : ndarray, shape (p,)
        Of the inputs.
    inputs : ndarray, shape (n, p)
        The measured shapes, standardised.
    middle : float
        Median of the outputs.
    root, weights : ndarray, shapes (n, n), (n,)
        Root of the covariance, and the covariance's inverse times the outputs.
    """

    settings: FloatArray
    means: FloatArray
    scales: FloatArray
    inputs: FloatArray
    middle: float
    root: FloatArray
    weights: FloatArray

    def predict(self, inputs: FloatArray) -> tuple[FloatArray, FloatArray]:
        """Return mean and deviation of the outputs at inputs, shape (rows, p)."""
        standard = (inputs - self.means) / self.scales
        between = _covariance(standard, self.inputs, self.settings)
        solved = np.linalg.solve(self.root, between.T)
        variance = np.exp(2 * self.settings[-2]) + np.exp(2 * self.settings[-1])
        of_law = _LAW_VARIANCE * (1.0 + (standard**2).sum(axis=1))
        learnt = (solved**2).sum(axis=0)
        left = np.maximum(variance + of_law - learnt, 1e-9)
        mean = between @ self.weights + self.middle
        return mean, np.sqrt(left)


def fit_process(
    inputs: FloatArray, outputs: FloatArray, settings: FloatArray | None = None
) -> KernelProcess:
    """Fit a process to outputs, shape (n,), at inputs, shape (n, p).

    ``settings`` are searched for where none are given: they maximise the likelihood times their
    priors, of at most 200 shapes drawn.
    """
    means = inputs.mean(axis=0)
    scales = inputs.std(axis=0) + 1e-9
    standard = (inputs - means) / scales
    middle = float(np.median(outputs))
    rest = outputs - middle
    if settings is None:
        settings = _searched(standard, rest)
    root = np.linalg.cholesky(_noisy(standard, settings)).astype(np.float64)
    whitened = np.linalg.solve(root, rest)
    weights = np.linalg.solve(root.T, whitened).astype(np.float64)
    return KernelProcess(settings, means, scales, standard, middle, root, weights)


def out_of_fold(
    inputs: FloatArray, outputs: FloatArray, groups: IntArray, folds: int = 10
) -> tuple[FloatArray, FloatArray]:
    """Return errors of outputs that were left out, and these over their deviations, shape (n,) each.

    Whole groups are left out, numbers of shape (n,); the settings are searched for without them.
    """
    names = np.random.default_rng(1).permutation(np.unique(groups))
    errors = np.zeros(len(outputs))
    over = np.zeros(len(outputs))
    for fold in range(min(folds, len(names))):
        left_out = np.isin(groups, names[fold::folds])
        process = fit_process(inputs[~left_out], outputs[~left_out])
        mean, deviation = process.predict(inputs[left_out])
        errors[left_out] = mean - outputs[left_out]
        over[left_out] = errors[left_out] / deviation
    return errors, over


def _searched(inputs: FloatArray, outputs: FloatArray) -> FloatArray:
    from scipy.optimize import minimize  # here: who predicts needs no search

    if len(outputs) > _SAMPLE:
        sample = np.random.default_rng(0).permutation(len(outputs))[:_SAMPLE]
        inputs = inputs[sample]
        outputs = outputs[sample]

    def loss(settings: FloatArray) -> float:
        try:
            root = np.linalg.cholesky(_noisy(inputs, settings))
        except np.linalg.LinAlgError:
            return 1e9
        solved = np.linalg.solve(root, outputs)
        log_root = np.log(np.diag(root)).sum()
        lengths_off = (settings[:-2] - _LENGTH) / _LENGTH_SPREAD
        prior = (lengths_off**2).sum()
        prior += (settings[-1] - _NOISE) ** 2
        return float(0.5 * solved @ solved + log_root + 0.5 * prior)

    lengths = np.full(inputs.shape[1], _LENGTH)
    start = np.r_[lengths, np.log(0.15), np.log(0.02)]
    optimum = minimize(loss, start, method="L-BFGS-B", options={"maxiter": _ROUNDS})
    return np.asarray(optimum.x, dtype=np.float64)


def _noisy(inputs: FloatArray, settings: FloatArray) -> FloatArray:
    noise = np.exp(2 * settings[-1]) * np.eye(len(inputs))
    return _covariance(inputs, inputs, settings) + noise


def _covariance(one: FloatArray, other: FloatArray, settings: FloatArray) -> FloatArray:
    """Return the covariances of outputs without noise, shape (rows of one, rows of the other)."""
    lengths = np.exp(settings[:-2])
    squares = np.zeros((len(one), len(other)))
    for column, length in enumerate(lengths):
        apart = one[:, column, None] - other[None, :, column]
        squares += (apart / length) ** 2
    distance = np.sqrt(5.0 * squares)
    smooth = (1.0 + distance + distance**2 / 3.0) * np.exp(-distance)
    law = _LAW_VARIANCE * (1.0 + one @ other.T)
    return np.exp(2 * settings[-2]) * smooth + law

"""Constants from measured runs: the most probable ones given the priors, and how far they may lie from there.

With parts p_i of a run (seconds at the medians) the forecast is Σ p_i · exp(z_i). The z have the normal prior of
`constants`, the logarithm of measured over forecast a normal error of `RESIDUAL`; the maximum of the posterior is found
by least squares, and its covariance taken from the curvature there (Laplace's approximation).
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

import numpy as np
from numpy.typing import NDArray

from ..errors import DataError
from .constants import BY_KIND, Release, unknown_release

FloatArray = NDArray[np.float64]

RESIDUAL: Final = 0.04
"""Standard deviation of the logarithm of measured over forecast within one release, as the published runs scatter."""


def calibrate(
    parts: FloatArray,
    seconds: FloatArray,
    *,
    name: str,
    gpu: str,
    models: Sequence[str],
    source: str,
    largest: float = 0.0,
    kind: str = "serving",
    prior: Release | None = None,
) -> Release:
    """Return the constants of a release from its measured runs.

    Parameters
    ----------
    parts : ndarray, shape (runs, n)
        Seconds of each part of each run, in the order of the constants of its kind (`constants.BY_KIND`).
    seconds : ndarray, shape (runs,)
        Measured.
    name, gpu, models, source, largest, kind
        Of the release (`constants.Release`).
    prior : Release, optional
        Where to start: another release, which one or two runs of a new setting then sharpen. By default the priors.

    Raises
    ------
    DataError
        No runs, or a time that is not above zero.
    """
    from scipy.optimize import least_squares  # here: forecasts read what was fitted, and need not wait for it

    seconds = np.asarray(seconds, dtype=np.float64)
    if not len(seconds) or not (np.isfinite(seconds).all() and (seconds > 0).all()):
        raise DataError("runs to calibrate with must have measured times above zero")
    start = prior or unknown_release(kind)
    precision = np.linalg.pinv(start.root)

    def misfit(z: FloatArray) -> FloatArray:
        logs = np.log(parts @ np.exp(z) / seconds)
        return np.concatenate([logs / RESIDUAL, precision @ (z - start.mean)])

    found = least_squares(misfit, start.mean)
    slopes = np.asarray(found.jac, dtype=np.float64)
    root = np.linalg.cholesky(np.linalg.inv(slopes.T @ slopes))
    return Release(
        name=name,
        gpu=gpu,
        models=tuple(dict.fromkeys(models)),
        mean=found.x,
        root=root,
        runs=len(seconds) + (prior.runs if prior else 0),
        source=source,
        largest=max(largest, prior.largest if prior else 0.0),
        kind=kind,
    )


def as_rows(parts: Sequence[dict[str, float]], kind: str = "serving") -> FloatArray:
    """Return parts as an array, shape (runs, n), in the order of the constants of a kind."""
    names = BY_KIND[kind]
    return np.array([[one[name] for name in names] for one in parts], dtype=np.float64).reshape(-1, len(names))

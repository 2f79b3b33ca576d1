"""How much of the variance of a result each factor explains by itself: first-order Sobol' indices from a sample.

The estimator reuses the sample that the interval comes from, so that it costs no further run of the model. The result
is regressed on Hermite polynomials of each factor's standard normal score, which are orthogonal under it: an additive
polynomial chaos expansion, in which the variance of each factor's terms is its part of the whole [1]_.

References
----------
.. [1] B. Sudret, "Global sensitivity analysis using polynomial chaos expansions", Reliability Engineering & System
   Safety 93(7), 2008, equations 36 to 41.
"""

from __future__ import annotations

from typing import Final

import numpy as np
from numpy.typing import NDArray
from threadpoolctl import threadpool_limits

from ..errors import DataError

FloatArray = NDArray[np.float64]

DEGREE: Final = 3
"""Highest degree of the polynomials: 97 % of the variance of exp(z), over 99.9 % of that of exp(z / 2)."""

ROWS_PER_TERM: Final = 4
"""Least number of rows for each term of the regression."""


def first_order_shares(scores: FloatArray, values: FloatArray) -> FloatArray:
    """Return each factor's first-order share of the variance of a result.

    Parameters
    ----------
    scores : ndarray of shape (n_samples, n_factors)
        Independent standard normal scores of the factors.
    values : ndarray of shape (n_samples,)
        The result.

    Returns
    -------
    ndarray of shape (n_factors,)
        From 0 to 1; their sum is 1 less what comes from factors acting together. All 0 where the result does not vary.

    Raises
    ------
    DataError
        If the sample has fewer than `ROWS_PER_TERM` rows per term of a linear regression on all factors.

    Notes
    -----
    The degree is the highest up to `DEGREE` that leaves `ROWS_PER_TERM` rows for each term.
    """
    rows, factors = scores.shape
    if not factors:
        return np.zeros(0)
    degree = min(DEGREE, (rows // ROWS_PER_TERM - 1) // factors)
    if degree < 1:
        least = ROWS_PER_TERM * (factors + 1)
        raise DataError(f"{rows} samples are too few for {factors} factors: take at least {least}", source="--samples")
    centred = values - values.mean()
    variance = float(np.mean(centred**2))
    if variance <= (1e-12 * float(np.abs(values).max())) ** 2:
        return np.zeros(factors)
    terms = _hermite(scores, degree)
    design = np.column_stack([np.ones(rows), terms.reshape(rows, -1)])
    with threadpool_limits(limits=1):  # the same last digit on any number of cores
        coefficients = np.linalg.lstsq(design, centred, rcond=None)[0][1:]
    parts = np.einsum("rfd,fd->rf", terms, coefficients.reshape(factors, degree)).var(axis=0) / variance
    return parts / max(1.0, float(parts.sum()))


def _hermite(scores: FloatArray, degree: int) -> FloatArray:
    """Return the polynomials of degree 1 to `degree`, of unit variance: shape (n_samples, n_factors, degree)."""
    first = [scores, (scores**2 - 1) / np.sqrt(2), (scores**3 - 3 * scores) / np.sqrt(6)]
    return np.stack(first[:degree], axis=2)

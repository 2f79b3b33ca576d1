"""What a selection of features minimises: AIC, its small-sample form AICc, or BIC of a Gaussian model."""

from __future__ import annotations

from dataclasses import dataclass
from math import inf, log
from typing import Literal, Self, get_args

import numpy as np

CriterionName = Literal["aic", "aicc", "bic"]
CRITERIA: tuple[CriterionName, ...] = get_args(CriterionName)


@dataclass(frozen=True)
class Criterion:
    """``n log(RSS / n)`` plus a penalty: -2 log-likelihood of a Gaussian model, up to a constant, plus its penalty.

    The likelihood is at its maximum over sigma² (RSS / n); the constant ``n (1 + log 2 pi)`` and the parameter sigma²,
    the same for every model, are left out, as in R's ``extractAIC``.

    - AIC and BIC: ``k edf`` with k = 2 and k = log(n).
    - AICc: ``2 n (edf + 1) / (n - edf - 2) - 2``, which is ``n (n + edf) / (n - edf - 2)`` of Hurvich and Tsai less
      n + 2, so that it tends to AIC where n is large.

    Attributes
    ----------
    n : int
        The number of observations.
    k : float
        The penalty per effective degree of freedom.
    corrected : bool, default=False
        Whether the penalty is that of AICc; ``k`` is then not used.

    References
    ----------
    C. M. Hurvich and C.-L. Tsai, Regression and time series model selection in small samples, Biometrika 76 (1989) 297.
    """

    n: int
    k: float
    corrected: bool = False

    @classmethod
    def named(cls, name: CriterionName, n: int) -> Self:
        """Return ``"aic"``, ``"aicc"`` or ``"bic"`` for n observations."""
        return cls(n, log(n) if name == "bic" else 2.0, corrected=name == "aicc")

    @property
    def largest(self) -> int:
        """The most degrees of freedom with a value: one must be left for the residuals, three for AICc."""
        return self.n - 3 if self.corrected else self.n - 1

    def __call__(self, rss: float, edf: int) -> float:
        """Return the criterion; infinite where too few residual degrees of freedom would be left."""
        if edf > self.largest:
            return inf
        return self.n * log(rss / self.n) + float(self._penalty(edf)) if rss > 0 else -inf

    def each(self, rss: np.ndarray, edf: np.ndarray) -> np.ndarray:
        """Return the criterion of several models."""
        values = np.full(np.shape(rss), inf)
        defined = edf <= self.largest
        with np.errstate(divide="ignore"):
            values[defined] = self.n * np.log(rss[defined] / self.n) + self._penalty(edf[defined])
        return values

    def _penalty(self, edf: int | np.ndarray) -> float | np.ndarray:
        if self.corrected:
            return 2.0 * self.n * (edf + 1) / (self.n - edf - 2) - 2.0
        return self.k * edf


def distinct_rows(X: np.ndarray, y: np.ndarray) -> int:
    """Return how many rows of (X, y) there are, exact copies counted once."""
    ordered = np.sort(y)
    if (ordered[1:] != ordered[:-1]).all():
        return len(y)
    _, of_row, counts = np.unique(y, return_inverse=True, return_counts=True)
    shared = np.flatnonzero(counts[of_row] > 1)  # a row with a target of its own has no copy
    rows = {(float(y[i]), (X[i] + 0.0).tobytes()) for i in shared}  # + 0.0: -0 is 0
    return int(np.sum(counts == 1)) + len(rows)

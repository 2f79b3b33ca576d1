"""What may be said of workloads that a model knows nothing of: an analytic law at the rates that training reached.

The law is the roofline (with a host, its measured time scaled by the ratio of the rooflines: the row keeps the rate
that it reached there), stretched to what was measured: ``t = a + b law``, a and b >= 0. How far other operators and
number formats lie from such a line is measured by leaving each kind out; where training has fewer than three kinds, by
a factor that was measured elsewhere.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Final, Self

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from ..features.matrix import Dataset
from ..models.baselines import Affine
from .intervals import ConformalIntervals

WIDER: Final = {True: 4.0, False: 10.0}
"""Factor of the half-width (log scale) where fewer than three kinds were trained, with a host and without.

The line fitted to each one of 15 PyTorch operators (MI100 -> MI210) and of 6 kinds of MIOpen convolutions (MI210 ->
MI300X) covered 90 and 99 % of the rows of the others within so many times its own 90 % quantile; without a host 91 and
over 99 %."""
LEAST_KINDS: Final = 3
LEAST_ROWS: Final = 10
MOST_ROWS: Final = 2000
"""Rows that one line is fitted to, evenly spread over the table."""

FloatArray = NDArray[np.float64]


@dataclass(frozen=True)
class FallbackLaw:
    """A law at the rates of the training rows.

    Attributes
    ----------
    law : str
        Its name (`features.roofline`).
    intercept, ratio : float
        a, in the unit of the metric, and b.
    intervals : ConformalIntervals
        For rows of kinds that were never trained.
    """

    law: str
    intercept: float
    ratio: float
    intervals: ConformalIntervals

    def predict(self, laws: pd.DataFrame) -> FloatArray:
        """Return what it says, (n,), from the laws' own columns; NaN where the law has no value."""
        return self.intercept + self.ratio * laws[self.law].to_numpy(dtype=float)

    def to_dict(self) -> dict[str, Any]:
        """Return what JSON holds."""
        return {**vars(self), "intervals": self.intervals.to_dict()}

    @classmethod
    def from_dict(cls, saved: Mapping[str, Any]) -> Self:
        """Return what `to_dict` described; a KeyError, TypeError or ValueError where it is damaged."""
        intercept, ratio = float(saved["intercept"]), float(saved["ratio"])
        if not (0 <= intercept < np.inf and 0 <= ratio < np.inf):
            raise ValueError("intercept and ratio of the law must be 0 or more")
        return cls(str(saved["law"]), intercept, ratio, ConformalIntervals.from_dict(saved["intervals"]))


def learn_law(dataset: Dataset) -> FallbackLaw | None:
    """Return the law at the rates of the training rows; None for metrics without laws, or too few rows that have it."""
    if not len(dataset.laws.columns):
        return None
    name = str(dataset.laws.columns[-1])
    values = dataset.laws[name].to_numpy(dtype=float)
    known = np.isfinite(values)
    if known.sum() < LEAST_ROWS:
        return None
    x, y = values[known], dataset.y[known]
    kinds = (dataset.rows["op"].astype(str) + " " + dataset.rows["compute_dtype"].astype(str)).to_numpy()[known]
    line = _line(x, y)
    if len(np.unique(kinds)) >= LEAST_KINDS:
        predicted = np.empty(len(y))
        for kind in np.unique(kinds):
            a, b = _line(x[kinds != kind], y[kinds != kind])
            predicted[kinds == kind] = a + b * x[kinds == kind]
        intervals = ConformalIntervals("grouped").fit(y, predicted, kinds)
    else:
        intervals = ConformalIntervals("kfold").fit(y, line[0] + line[1] * x, np.arange(len(y)))
        intervals.radii_ = intervals.radii_ * WIDER[dataset.host is not None]
    return FallbackLaw(name, *line, intervals)


def _line(x: FloatArray, y: FloatArray) -> tuple[float, float]:
    """Return a and b of ``y = a + b x``, fitted to relative error."""
    some = np.unique(np.linspace(0, len(x) - 1, min(len(x), MOST_ROWS)).astype(int))
    line = Affine().fit(x[some, None], y[some])
    return line.intercept_, line.ratio_

"""What every law of scaling shares: fit to the small sizes of one benchmark, predict any size, with an interval."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Sequence
from functools import cached_property
from typing import ClassVar, Self

import numpy as np
from numpy.typing import ArrayLike

from ...errors import DataError
from .calibration import Calibration, Case, cases_for
from .curve import Curve, FloatArray, doublings_away, listed, log_ratio, positive

__all__ = ["Curve", "ScalingLaw"]


class ScalingLaw(ABC):
    """A law of scaling: fitted to the small sizes of one benchmark, it predicts any size, with an interval.

    Parameters
    ----------
    training : sequence of Curve, optional
        Curves of other benchmarks with the sizes to predict: what the errors (and the learned law) are learned from.
        Without them, and where they are fewer than `calibration.MIN_BENCHMARKS`, the published ones serve
        (`published.published_curves`). Curves of the benchmark that is predicted are left out in any case.

    Attributes
    ----------
    name : str
        The name in every table.
    needs : int
        Number of sizes it needs at least.
    curve_ : Curve
        What it was fitted to.
    notes : list of str
        Remarks on the fit, and where its interval comes from.
    """

    name: ClassVar[str]
    needs: ClassVar[int] = 2

    def __init__(self, training: Sequence[Curve] | None = None) -> None:
        self.training = training
        self.notes: list[str] = []

    def fit(self, curve: Curve) -> Self:
        """Fit the law to all sizes of the curve.

        Raises
        ------
        DataError
            The curve cannot be used, has too few sizes for the law, or breaks it.
        """
        self._check(curve)
        self.__dict__.pop("_calibration", None)
        self.curve_, self.notes = curve, []
        self._fit(curve)
        self.notes += self._interval_notes()
        return self

    def predict(self, sizes: ArrayLike) -> FloatArray:
        """Return the performance at each size, ndarray of shape (n,)."""
        return self._predict(positive(sizes))

    def interval(self, sizes: ArrayLike, level: float = 0.9) -> tuple[FloatArray, FloatArray]:
        """Return the lower and upper bound of the performance at each size; NaN where the prediction is not positive.

        Raises
        ------
        ValueError
            If the level does not lie between 0 and 1.
        """
        if not 0 < level < 1:
            raise ValueError(f"parameter level of interval must lie between 0 and 1, got {level}")
        return self._interval(positive(sizes), level)

    def _check(self, curve: Curve) -> None:
        curve.check()
        if curve.sizes.size < self.needs:
            raise DataError(f"{curve.benchmark}: {self.name} needs {self.needs} sizes, got {listed(curve.sizes)}")

    def _interval(self, sizes: FloatArray, level: float) -> tuple[FloatArray, FloatArray]:
        """Multiply and divide the prediction by what others' errors reach, and widen it by what the law leaves open."""
        radius = self._calibration.radius(doublings_away(self.curve_.sizes, sizes), level)
        centre = self._predict(sizes)
        centre = np.where(centre > 0, centre, np.nan)
        low, high = self._open(sizes)
        with np.errstate(over="ignore"):
            return centre * low * np.exp(-radius), centre * high * np.exp(radius)

    @cached_property
    def _calibration(self) -> Calibration:
        cases, _ = cases_for(self.curve_, self.training)
        return Calibration.of(cases, self._case_errors(cases))

    def _case_errors(self, cases: Sequence[Case]) -> list[FloatArray]:
        """Return log(observed / predicted) at the larger sizes of each training case.

        Infinite where the law has no positive prediction.
        """
        return [self._case_error(case) for case in cases]

    def _case_error(self, case: Case) -> FloatArray:
        law = type(self)(training=())
        try:
            law._check(case.known)
            law.curve_ = case.known
            law._fit(case.known)
        except DataError:
            return np.full(len(case.sizes), np.inf)
        return log_ratio(case.observed, law._predict(case.sizes))

    def _interval_notes(self) -> list[str]:
        return [f"interval from the errors of {cases_for(self.curve_, self.training)[1]}"]

    def _open(self, sizes: FloatArray) -> tuple[FloatArray, FloatArray]:
        """Return the factors below and above 1 between which the law does not know the performance."""
        return np.ones(len(sizes)), np.ones(len(sizes))

    @abstractmethod
    def _fit(self, curve: Curve) -> None: ...

    @abstractmethod
    def _predict(self, sizes: FloatArray) -> FloatArray: ...

"""The performance of one benchmark at several sizes of the GPU, as every law of scaling takes it."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Self

import numpy as np
from numpy.typing import ArrayLike, NDArray
from scipy import stats
from scipy.optimize import nnls

from ..errors import DataError

FloatArray = NDArray[np.float64]

STRONG, WEAK, CHIPLETS = SCENARIOS = ("strong", "weak", "chiplets")
"""The same work on larger GPUs; work that grows with the GPU; the same, where the GPU grows by whole chiplets."""


@dataclass(frozen=True)
class Curve:
    """The performance of one benchmark at several sizes of the GPU.

    Attributes
    ----------
    benchmark : str
        Its name. Curves of the same benchmark never teach a law that predicts it.
    scenario : {"strong", "weak", "chiplets"}
        How the work grows with the GPU.
    unit : str
        What the sizes count: ``"SM"``, ``"CU"``, ``"chiplet"``, ``"thread"``.
    sizes : ndarray of shape (k,)
        Increasing, > 0.
    performance : ndarray of shape (k,)
        Work per time at each size, > 0: instructions per cycle, or any throughput.
    mpki : ndarray of shape (m,) or None
        Misses of the last-level cache per thousand instructions.
    mpki_sizes : ndarray of shape (m,) or None
        The sizes of `mpki`, increasing; they may go beyond `sizes`. None: they are `sizes`.
    f_mem : float or None
        Share of the time that waits for memory in the largest scale model, 0 to less than 1.
    """

    benchmark: str
    scenario: str
    unit: str
    sizes: FloatArray
    performance: FloatArray
    mpki: FloatArray | None = None
    mpki_sizes: FloatArray | None = None
    f_mem: float | None = None

    def __post_init__(self) -> None:
        for field in ("sizes", "performance", "mpki", "mpki_sizes"):
            if (values := getattr(self, field)) is not None:
                object.__setattr__(self, field, np.asarray(values, dtype=np.float64))

    @property
    def miss_sizes(self) -> FloatArray:
        """The sizes of the miss-rate curve."""
        return self.sizes if self.mpki_sizes is None else self.mpki_sizes

    def check(self) -> Self:
        """Return the curve if laws can be fitted to it.

        Raises
        ------
        DataError
            One line naming the benchmark and what is wrong with it.
        """
        problems = (*_size_problems(self.sizes, self.performance), *_miss_problems(self.mpki, self.miss_sizes))
        if self.scenario not in SCENARIOS:
            problems = (*problems, f"scenario must be one of {', '.join(SCENARIOS)}, got {self.scenario!r}")
        if self.f_mem is not None and not 0 <= self.f_mem < 1:
            problems = (*problems, f"f_mem must be a share of the time from 0 to below 1, got {self.f_mem:g}")
        if problems:
            raise DataError(f"{self.benchmark}: {problems[0]}")
        return self

    def cut(self, sizes: ArrayLike) -> Self:
        """Return the curve with the performance at some of its sizes only; its miss rates stay at all of theirs."""
        kept = np.isin(self.sizes, np.asarray(sizes, dtype=np.float64))
        misses = None if self.mpki is None else self.miss_sizes
        return replace(self, sizes=self.sizes[kept], performance=self.performance[kept], mpki_sizes=misses)


def _size_problems(sizes: FloatArray, performance: FloatArray) -> tuple[str, ...]:
    if sizes.ndim != 1 or sizes.shape != performance.shape:
        return (f"each size needs one performance, got {sizes.size} and {performance.size}",)
    if sizes.size < 2:
        return (f"a curve needs two sizes or more, got {listed(sizes)}",)
    if not _increasing(sizes):
        return (f"sizes must be above 0 and increase, got {listed(sizes)}",)
    if bad := [f"{p:g} at {s:g}" for s, p in zip(sizes, performance, strict=True) if not 0 < p < np.inf]:
        return (f"performance must be above 0, got {bad[0]}",)
    return ()


def _miss_problems(mpki: FloatArray | None, sizes: FloatArray) -> tuple[str, ...]:
    if mpki is None:
        return ()
    if mpki.shape != sizes.shape:
        return (f"each MPKI needs a size, got {mpki.size} and {sizes.size}",)
    if not _increasing(sizes):
        return (f"sizes of the MPKI must be above 0 and increase, got {listed(sizes)}",)
    if not np.all((mpki >= 0) & np.isfinite(mpki)):
        return (f"MPKI must be 0 or more, got {listed(mpki)}",)
    return ()


def _increasing(sizes: FloatArray) -> bool:
    return bool(np.all(np.diff(sizes, prepend=0.0) > 0) and np.all(np.isfinite(sizes)))


def listed(values: FloatArray) -> str:
    """Return the values separated by commas, for messages."""
    return ", ".join(f"{value:g}" for value in values) or "none"


def positive(sizes: ArrayLike) -> FloatArray:
    """Return the sizes as an array of shape (n,).

    Raises
    ------
    DataError
        If one of them is not above 0.
    """
    values = np.atleast_1d(np.asarray(sizes, dtype=np.float64))
    if not np.all((values > 0) & np.isfinite(values)):
        raise DataError(f"sizes to predict must be above 0, got {listed(values)}")
    return values


def doublings_away(known: FloatArray, sizes: FloatArray) -> FloatArray:
    """Return how many doublings each size lies from the nearest of the known ones."""
    return np.abs(np.log2(sizes[:, None] / known[None, :])).min(axis=1)


def log_ratio(observed: FloatArray, predicted: FloatArray) -> FloatArray:
    """Return log(observed / predicted), infinite where the prediction is not a positive number."""
    usable = np.isfinite(predicted) & (predicted > 0)
    return np.where(usable, np.log(observed / np.where(usable, predicted, 1.0)), np.inf)


def within(curve: Curve, sizes: FloatArray) -> FloatArray:
    """Return the performance up to the largest size of the curve: power laws from each size to the next.

    The published forms of the scale models speak of larger sizes only.
    """
    u, v, at = np.log(curve.sizes), np.log(curve.performance), np.log(sizes)
    below = v[0] + (at - u[0]) * (v[1] - v[0]) / (u[1] - u[0])
    return np.exp(np.where(at < u[0], below, np.interp(at, u, v)))


# Least squares of relative errors for laws that are linear in their parameters.

ROUNDING = 1e-12
"""Residuals below are those of arithmetic: the fit is exact."""


@dataclass(frozen=True)
class RelativeFit:
    """A fitted vector of parameters and what its residuals say of its uncertainty.

    Attributes
    ----------
    coefficients : ndarray of shape (p,)
        Estimates.
    covariance : ndarray of shape (p, p)
        (A'A)^-1 of the parameters that are not held at 0; 0 for those that are.
    noise : float
        Root of the residual variance, NaN without degrees of freedom.
    freedom : int
        Rows less free parameters.
    """

    coefficients: FloatArray
    covariance: FloatArray
    noise: float
    freedom: int

    def spread(self, rows: FloatArray, scale: FloatArray) -> FloatArray:
        """Return the standard deviation of a new observation at each row, its noise multiplied by ``scale``.

        sd² = noise² (a' (A'A)^-1 a + scale²)
        """
        of_mean = np.einsum("ij,jk,ik->i", rows, self.covariance, rows)
        return self.noise * np.sqrt(of_mean + scale**2)

    def reach(self, level: float) -> float:
        """Return how many standard deviations an interval of the level spans to either side: Student's t."""
        return float(stats.t.ppf((1 + level) / 2, self.freedom))


def relative_fit(design: FloatArray, target: FloatArray, *, bounded: bool = False) -> RelativeFit:
    """Minimise ``|design · b - target|²``, with b ≥ 0 where ``bounded``.

    Parameters
    ----------
    design : ndarray of shape (k, p)
        Rows scaled so that a residual is a relative error.
    target : ndarray of shape (k,)
        Ones, or logarithms.
    bounded : bool
        Whether parameters must not be negative.
    """
    b = nnls(design, target)[0] if bounded else np.linalg.lstsq(design, target, rcond=None)[0]
    free = b > 0 if bounded else np.ones(len(b), dtype=bool)
    covariance = np.zeros((len(b), len(b)))
    covariance[np.ix_(free, free)] = np.linalg.pinv(design[:, free].T @ design[:, free])
    freedom = len(target) - int(free.sum())
    residual = target - design @ b
    residual = np.where(np.abs(residual) < ROUNDING, 0.0, residual)
    noise = float(np.sqrt(residual @ residual / freedom)) if freedom else float("nan")
    return RelativeFit(np.asarray(b, dtype=np.float64), covariance, noise, freedom)

"""Sources of uncertainty: independent log-normal factors, one per source, and what a user says of them.

All kernels of a class share the draw of its factor: a law that is wrong about one of them is wrong about its siblings
too. What each kernel has of its own averages out over many; `sigma_of_sum` says how much of it is left.

References
----------
.. [1] L. F. Fenton, "The sum of log-normal probability distributions in scatter transmission systems", IRE Transactions
   on Communications Systems 8(1), 1960.
"""

from __future__ import annotations

import difflib
import math
from collections.abc import Collection
from dataclasses import dataclass
from typing import Final

import numpy as np
from numpy.typing import NDArray

from ..errors import DataError

FloatArray = NDArray[np.float64]

LARGEST: Final = 2.0
"""Largest relative standard deviation taken from a user: more is a percentage meant as a fraction."""


@dataclass(frozen=True)
class Factor:
    """A source of uncertainty, log-normal with median 1.

    Attributes
    ----------
    name : str
        What it is ("gemm", "memory_bw_gbs"); no two factors of one propagation share it.
    group : str
        What kind of source it is ("efficiency", "spec", "law", "cpu", "communication"), for tables.
    sigma : float
        Standard deviation of its logarithm; 0 for a factor that is known.
    """

    name: str
    group: str
    sigma: float

    def __post_init__(self) -> None:
        if not (math.isfinite(self.sigma) and self.sigma >= 0):
            raise ValueError(f"sigma of factor {self.name} must be at least 0 and finite, got {self.sigma}")


def sigma_of_sum(sigma: float, own_sigma: float, durations_us: FloatArray) -> float:
    """Return the sigma of a class whose kernels share one factor and have one of their own each.

    The own factors are independent, log-normal, with mean 1 and standard deviation `own_sigma` of the logarithm. Their
    weighted mean has the relative variance ``(exp(own_sigma²) - 1) / n`` with ``n = (sum t)² / sum t²`` kernels in
    effect; it is taken as log-normal with the same mean and variance [1]_ and multiplied by the shared factor.

    Parameters
    ----------
    sigma, own_sigma : float
        Standard deviation of the logarithm, shared and each kernel's own.
    durations_us : ndarray of shape (n_kernels,)
        Projected times of the kernels of the class; only their proportions matter.

    Returns
    -------
    float
        Standard deviation of the logarithm of the factor of the class's total.

    Notes
    -----
    Right for the class's total. In a replay where streams wait for each other, single long kernels on the critical path
    average out less than their total does.

    Examples
    --------
    >>> round(sigma_of_sum(0.0, 0.2, np.ones(100)), 4), round(sigma_of_sum(0.1, 0.2, np.ones(1)), 4)
    (0.0202, 0.2236)
    """
    total, squares = float(np.sum(durations_us)), float(np.sum(np.square(durations_us)))
    effective = total**2 / squares if squares else 1.0
    return math.sqrt(sigma**2 + math.log1p(math.expm1(own_sigma**2) / effective))


def parse_sigmas(text: str, known: Collection[str]) -> dict[str, float]:
    """Read the uncertainties that a user gives: "gemm=0.1,memory_bw_gbs=0.05".

    Parameters
    ----------
    text : str
        Relative standard deviations (1 sigma) by factor, as fractions: 0.1 for 10 %.
    known : collection of str
        The names that exist.

    Returns
    -------
    dict of str to float
        The sigma of `Factor`: the standard deviation of the logarithm, ``sqrt(ln(1 + r²))``.

    Raises
    ------
    DataError
        If a part is not ``name=number``, a name unknown or given twice, or a number below 0 or above `LARGEST`.
    """
    sigmas: dict[str, float] = {}
    for part in text.split(","):
        name, equals, number = (piece.strip() for piece in part.partition("="))
        if not (name and equals):
            raise DataError(f"an uncertainty is written name=number, such as gemm=0.1, got {part.strip()!r}")
        if name not in known:
            raise DataError(f"no uncertainty is called {name!r}: {_known_words(name, known)}")
        if name in sigmas:
            raise DataError(f"the uncertainty of {name} is given twice")
        sigmas[name] = math.sqrt(math.log1p(_relative(name, number) ** 2))
    return sigmas


def _relative(name: str, number: str) -> float:
    try:
        value = float(number)
    except ValueError:
        raise DataError(f"the uncertainty of {name} must be a fraction such as 0.1, got {number!r}") from None
    if not 0 <= value <= LARGEST:
        raise DataError(f"the uncertainty of {name} must be from 0 to {LARGEST:g} (0.1 is 10 %), got {number}")
    return value


def _known_words(name: str, known: Collection[str]) -> str:
    close = difflib.get_close_matches(name, sorted(known), n=2, cutoff=0.6)
    return f"did you mean {' or '.join(close)}?" if close else f"there are {', '.join(sorted(known))}"

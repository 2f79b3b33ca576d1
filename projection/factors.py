"""Sources of uncertainty: independent log-normal factors, one per source, and what a user says of them.

All kernels of a class share the draw of its factor: a law that is wrong about one of them is wrong about its siblings
too. So the whole spread of single kernels counts as common to their class, although what each has of its own would
average out over many: intervals are rather too wide than too narrow.
"""

from __future__ import annotations

import math
from collections.abc import Collection
from dataclasses import dataclass
from typing import Final

import numpy as np
from numpy.typing import NDArray

from ..errors import DataError, nearest

FloatArray = NDArray[np.float64]

LARGEST: Final = 2.0
"""Largest relative standard deviation taken from a user: more is a percentage meant as a fraction."""

_WHERE: Final = "--uncertainty"


@dataclass(frozen=True)
class Factor:
    """A source of uncertainty, log-normal with median 1.

    Attributes
    ----------
    name : str
        What it is ("gemm", "memory_bw_gbs"); no two factors of one propagation share it.
    group : str
        What kind of source it is ("spec", "law", "cpu", "communication"), for tables.
    sigma : float
        Standard deviation of its logarithm; 0 for a factor that is known.
    """

    name: str
    group: str
    sigma: float

    def __post_init__(self) -> None:
        if not (math.isfinite(self.sigma) and self.sigma >= 0):
            raise ValueError(f"sigma of factor {self.name} must be at least 0 and finite, got {self.sigma}")


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
            raise DataError(f"is written name=number, such as gemm=0.1, got {part.strip()!r}", source=_WHERE)
        if name not in known:
            raise DataError(f"no uncertainty is called {name!r}: {nearest(name, sorted(known))}", source=_WHERE)
        if name in sigmas:
            raise DataError(f"{name} is given twice: keep one", source=_WHERE)
        sigmas[name] = math.sqrt(math.log1p(_relative(name, number) ** 2))
    return sigmas


def _relative(name: str, number: str) -> float:
    try:
        value = float(number)
    except ValueError:
        raise DataError(f"{name} must be a fraction such as 0.1, got {number!r}", source=_WHERE) from None
    if not 0 <= value <= LARGEST:
        raise DataError(f"{name} must be from 0 to {LARGEST:g} (0.1 is 10 %), got {number}", source=_WHERE)
    return value

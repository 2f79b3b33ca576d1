"""How far measured ratios lie from a law, by op class: a factor that corrects it and the spread that remains."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np
import pandas as pd

from ..features.cleaning.mad import MAD_TO_SIGMA
from ..features.pairing import pair as pair_rows
from ..hardware import GPU
from .activity_work import of_pairs
from .fallback import by_law
from .overhead import Overhead
from .scalings import Pair

FEWEST = 3
"""Pairs from which a spread can be told."""


@dataclass(frozen=True)
class Correction:
    """What measured pairs say of a law in one op class.

    Attributes
    ----------
    factor : float
        Median of measured over projected time.
    sigma : float
        Standard deviation of its logarithm, robust; NaN for fewer than `FEWEST` pairs.
    n : int
        Pairs.
    """

    factor: float
    sigma: float
    n: int

    @property
    def error(self) -> float:
        """Standard deviation of ln(factor) of the law without the correction: its bias and its spread together."""
        return float(np.hypot(np.log(self.factor), self.sigma))


def learn_corrections(
    measured: pd.DataFrame,
    host: GPU,
    target: GPU,
    law: str,
    *,
    overhead: Mapping[str, Overhead] | None = None,
) -> dict[str, Correction]:
    """Return by op class how the times measured on the target lie to those that a law projects from the host.

    Parameters
    ----------
    measured : DataFrame
        Measurement table with rows of both devices; problems measured on both count, the fastest kernel of each (see
        `features.pairing`).
    host, target : GPU
        The devices, under the names of column `device`.
    law : str
        A name of `scalings.LAWS`.
    overhead : mapping of str to Overhead, optional
        As for `laws.compute_factors`.

    Returns
    -------
    dict of str to Correction
        In the order of the classes' names.

    Raises
    ------
    DataError
        The law is unknown, a device has no rows, or no problem was measured on both.
    """
    paired = pair_rows(measured, host.name, target.name).paired
    rows = of_pairs(paired)
    projected = rows.host_us * by_law(rows, Pair.of(host, target, overhead), law)["factor"].to_numpy()
    return corrections_of(paired["duration_us"].to_numpy(dtype=float), projected, rows.op_class)


def corrections_of(measured_us: np.ndarray, projected_us: np.ndarray, op_class: np.ndarray) -> dict[str, Correction]:
    """Return the correction of each class from measured and projected times, arrays of shape (n_rows,)."""
    error = np.log(measured_us / projected_us)
    return {name: _correction(error[op_class == name]) for name in sorted(set(op_class.tolist()))}


def _correction(error: np.ndarray) -> Correction:
    centre = float(np.median(error))
    spread = MAD_TO_SIGMA * float(np.median(np.abs(error - centre))) if len(error) >= FEWEST else np.nan
    return Correction(float(np.exp(centre)), spread, len(error))

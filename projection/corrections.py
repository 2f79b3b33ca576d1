"""How far measured ratios lie from a law, by op class: a factor that corrects it and the spread that remains."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np
import pandas as pd

from ..hardware import GPU
from ..table.pairing import pair as pair_rows
from ..traces.cleaning.robust import MAD_TO_SIGMA
from .kernel_work import Overhead, Rows, of_pairs
from .scalings import HOST_LINK, LAWS, Pair, bandwidth, check_law

# A law with what stands in for it where it does not apply: memory bandwidth, and where that is not known nothing.

BANDWIDTH, KEPT = "bandwidth", "kept"
OVER_PCIE = "a copy between host and GPU: by the generations of PCIe"


def by_law(rows: Rows, pair: Pair, law: str) -> pd.DataFrame:
    """Return what a law says of each row, or what says it in its place.

    Parameters
    ----------
    rows : Rows
        Activities or measured rows.
    pair : Pair
        The devices.
    law : str
        A name of `scalings.LAWS`.

    Returns
    -------
    DataFrame with a RangeIndex
        `factor`, projected over measured duration (> 0, finite); `law`, the one used; `why`; `bound`. Rows that the law
        says nothing of, and copies between host and GPU, go by bandwidth; where its figures are not published the
        duration is kept. Between equal devices every factor is 1.

    Raises
    ------
    DataError
        The law is unknown.
    """
    check_law(law)
    asked, wide = LAWS[law](rows, pair), bandwidth(rows, pair)
    linked = np.isin(rows.direction, HOST_LINK) & (law not in (KEPT, BANDWIDTH))
    usable, fallback = np.isfinite(asked.factor) & ~linked, np.isfinite(wide.factor)
    reasons = np.where(linked, OVER_PCIE, asked.why).astype(object)
    factor = np.select([usable, fallback], [asked.factor, wide.factor], 1.0)
    return pd.DataFrame(
        {
            "factor": np.ones(len(rows)) if pair.host == pair.target else factor,
            "law": np.select([usable, fallback], [law, BANDWIDTH], KEPT).astype(object),
            "why": np.where(usable | fallback, reasons, _both(reasons, wide.why)).astype(object),
            "bound": np.select([usable, fallback], [asked.bound, wide.bound], "").astype(object),
        }
    )


def _both(first: np.ndarray, second: np.ndarray) -> np.ndarray:
    """Join the reasons of each row, once where they are the same."""
    joined = ["; ".join(dict.fromkeys(filter(None, pair))) for pair in zip(first, second, strict=True)]
    return np.array(joined, dtype=object)


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
        `table.pairing`).
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

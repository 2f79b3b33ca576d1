"""A law with what stands in for it where it does not apply: memory bandwidth, and where that is not known nothing."""

from __future__ import annotations

import numpy as np
import pandas as pd

from .activity_work import Rows
from .scalings import HOST_LINK, LAWS, Pair, bandwidth, check_law

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

"""Kernels and components side by side: power, shares of the whole, energy, and classes by op-to-byte ratio."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import pandas as pd

from .profile import KernelPower
from .readings import TOTAL


def compare(kernels: Sequence[KernelPower]) -> pd.DataFrame:
    """Return one row per kernel and component.

    Returns
    -------
    DataFrame
        ``kernel``, ``class``, ``component``, ``kernel_us``, ``sse_w`` and ``ssp_w`` (means over the kernel's time),
        ``sse_error_percent``, ``peak_w`` (of the steady-power polynomial), ``share`` (of the component ``total``; NaN
        without one), ``energy_j``, ``lower_j``, ``upper_j``, ``throttling`` and ``readings``.
    """
    rows = []
    for one in kernels:
        whole = one.components[TOTAL].ssp.mean_w if TOTAL in one.components else np.nan
        rows += [
            {
                "kernel": one.kernel,
                "class": one.label,
                "component": name,
                "kernel_us": one.kernel_us,
                "sse_w": np.nan if part.sse is None else part.sse.mean_w,
                "ssp_w": part.ssp.mean_w,
                "sse_error_percent": part.sse_error_percent,
                "peak_w": float(part.ssp.polynomial_w.max()),
                "share": part.ssp.mean_w / whole,
                "energy_j": part.energy.energy_j,
                "lower_j": part.energy.lower_j,
                "upper_j": part.energy.upper_j,
                "throttling": part.throttling.found,
                "readings": len(part.ssp.readings),
            }
            for name, part in one.components.items()
        ]
    return pd.DataFrame(rows)


def compare_classes(compared: pd.DataFrame) -> pd.DataFrame:
    """Return the mean power and share of each component over the kernels of a class.

    Parameters
    ----------
    compared : DataFrame
        As `compare` returns it; kernels without a class are left out.

    Returns
    -------
    DataFrame
        ``class``, ``component``, ``kernels``, ``ssp_w`` and ``share``.
    """
    known = compared[compared["class"].ne("")]
    groups = known.groupby(["class", "component"], sort=False)
    return groups.agg(kernels=("kernel", "count"), ssp_w=("ssp_w", "mean"), share=("share", "mean")).reset_index()

"""The analytic laws of each metric: time by the roofline, power by the board's power limit, energy by both.

A GPU under load is taken to draw a fixed share of its board power (TDP) on either device, so power scales by the ratio
of the TDPs, and energy, which is power times time, by that ratio times the one of the times.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from functools import partial

import numpy as np
import pandas as pd

from ..hardware import GPU
from ..operators.operators import Work
from . import roofline

Law = Callable[..., np.ndarray]
"""From rows and one device, or host and target by those names, to a value or a ratio per row."""

_J_PER_W_US = 1e-6


def tdp_w(work: Work, gpu: GPU) -> np.ndarray:
    """Return the board power in every row.

    Raises
    ------
    NotPublishedError
        The GPU's maker has not published it.
    """
    return np.full(len(work), gpu.require("tdp_w"))


def tdp_ratio(work: Work, host: GPU, target: GPU) -> np.ndarray:
    """Return ``tdp_target / tdp_host``."""
    return tdp_w(work, target) / tdp_w(work, host)


def roofline_j(work: Work, gpu: GPU) -> np.ndarray:
    """Return ``tdp max(compute, memory)``: the energy (J) of the roofline's time (µs) at full board power."""
    return tdp_w(work, gpu) * roofline.roofline_us(work, gpu) * _J_PER_W_US


def _energy_ratio(time_ratio: Law, work: Work, host: GPU, target: GPU) -> np.ndarray:
    return tdp_ratio(work, host, target) * time_ratio(work, host, target)


SCALING: Mapping[str, Mapping[str, Law]] = {
    "duration_us": roofline.RATIOS,
    "power_w": {"TDP scaling": tdp_ratio},
    "energy_j": {f"TDP x {name}": partial(_energy_ratio, ratio) for name, ratio in roofline.RATIOS.items()},
}
"""For each metric the laws from host to target by the name the user sees: what the host's value is multiplied by."""
OF_ONE: Mapping[str, Mapping[str, Law]] = {
    "duration_us": {"roofline": roofline.roofline_us},
    "power_w": {"TDP": tdp_w},
    "energy_j": {"TDP x roofline": roofline_j},
}
"""For each metric the laws of one device: its value, in the unit of the metric."""


def scaling_laws(
    metric: str, work: Work, host_values: np.ndarray, host: GPU, target: GPU
) -> tuple[pd.DataFrame, dict[str, str]]:
    """Return what each scaling law of a metric predicts for the target.

    Parameters
    ----------
    metric : str
        Column that is predicted; one without laws gives no column.
    work : Work
        The rows.
    host_values : ndarray of shape (n_rows,)
        The metric measured on the host.
    host, target : GPU
        The devices.

    Returns
    -------
    frame : DataFrame
        One column per law, in the unit of the metric; NaN in rows whose law needs a figure that is not published.
    notes : dict
        For each law with such rows, which figures are missing.
    """
    laws = SCALING.get(metric, {})
    ratios, notes = _table(work, {name: partial(ratio, host=host, target=target) for name, ratio in laws.items()})
    return ratios.mul(host_values, axis=0), notes


def own_laws(metric: str, work: Work, gpu: GPU) -> tuple[pd.DataFrame, dict[str, str]]:
    """Return what the laws of one device say of a metric; as `scaling_laws`, without a host."""
    return _table(work, {name: partial(law, gpu=gpu) for name, law in OF_ONE.get(metric, {}).items()})


def _table(work: Work, laws: Mapping[str, Callable[[Work], np.ndarray]]) -> tuple[pd.DataFrame, dict[str, str]]:
    found = {name: roofline.where_published(work, law) for name, law in laws.items()}
    columns = {name: values for name, (values, _) in found.items()}
    notes = {name: "; ".join(missing) for name, (_, missing) in found.items() if missing}
    return pd.DataFrame(columns, index=pd.RangeIndex(len(work)), dtype=float), notes

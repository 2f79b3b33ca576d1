"""The analytic laws of each metric: time by the roofline, power by the board's power limit, energy by both.

The roofline gives a time on one device (microseconds), scaling laws bring a measured one from host to target. A GPU
under load is taken to draw a fixed share of its board power (TDP) on either device, so power scales by the ratio of the
TDPs, and energy, which is power times time, by that ratio times the one of the times.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from functools import partial
from typing import Final

import numpy as np
import pandas as pd

from ..errors import NotPublishedError
from ..hardware import GPU
from ..hardware.constants import constant
from ..operators.operators import Work

LAUNCH_FLOOR_US: Final = constant("launch.before_work").value
"""Rows whose roofline time is below this are launch-bound."""


def peaks(work: Work, gpu: GPU) -> np.ndarray:
    """Return the peak (TFLOPS) of the unit and precision of each row; a NotPublishedError if one is not published.

    Matrix operators use the matrix peak where the GPU has one for that precision, else the vector peak.
    """
    codes, kinds = work.kinds()
    figures = [gpu.peak_tflops(dtype, "vector" if unit == "vector" else None) for dtype, unit in kinds]
    return np.array(figures, dtype=float)[codes]


def compute_us(work: Work, gpu: GPU) -> np.ndarray:
    """Return ``flops / peak``: the time of the arithmetic alone."""
    return work.flops / (peaks(work, gpu) * 1e6)


def memory_us(work: Work, gpu: GPU) -> np.ndarray:
    """Return ``bytes / bandwidth``: the time of the compulsory memory traffic alone."""
    return work.bytes / (gpu.require("memory_bw_gbs") * 1e3)


def roofline_us(work: Work, gpu: GPU) -> np.ndarray:
    """Return ``max(compute, memory)``, a lower bound (Williams et al., "Roofline", CACM 52(4), 2009)."""
    return np.maximum(compute_us(work, gpu), memory_us(work, gpu))


def machine_balance(work: Work, gpu: GPU) -> np.ndarray:
    """Return ``peak / bandwidth``, FLOP per byte: rows of fewer are bound by memory, of more by arithmetic."""
    return peaks(work, gpu) * 1e3 / gpu.require("memory_bw_gbs")


def size(measure: str, work: Work, gpu: GPU) -> np.ndarray:
    """Return what stands for the size of each row where there is no time to scale.

    That is `roofline_us`; `memory_us`, which needs no peak; ``work-items``: ``batch m n``, for kernels known by their
    launch alone; or 1 (``constant``), for what does not grow with the work.
    """
    if measure == "work-items":
        return work.batch * work.m * work.n
    if measure == "constant":
        return np.ones(len(work))
    return {"roofline": roofline_us, "memory": memory_us}[measure](work, gpu)


def bound(work: Work, gpu: GPU, *, floor_us: float = LAUNCH_FLOOR_US) -> np.ndarray:
    """Return what bounds each row on a GPU by the roofline: ``launch``, ``memory`` or ``compute``.

    Rows with a roofline time below `floor_us` (microseconds) are launch-bound; ``unknown`` where the needed figure is
    not published.
    """
    memory = _or_nan(lambda: memory_us(work, gpu), len(work))
    compute = work.flops / (_published_peaks(work, gpu) * 1e6)
    limit = np.maximum(memory, compute)
    cases = [np.isnan(limit), limit < floor_us, memory >= compute]
    return np.select(cases, ["unknown", "launch", "memory"], "compute").astype(object)


def flops_ratio(work: Work, host: GPU, target: GPU) -> np.ndarray:
    """Return ``peak_host / peak_target`` at the precision of each row."""
    return peaks(work, host) / peaks(work, target)


def bandwidth_ratio(work: Work, host: GPU, target: GPU) -> np.ndarray:
    """Return ``bandwidth_host / bandwidth_target``."""
    return np.full(len(work), host.require("memory_bw_gbs") / target.require("memory_bw_gbs"))


def roofline_ratio(work: Work, host: GPU, target: GPU) -> np.ndarray:
    """Return ``roofline_target / roofline_host``."""
    return roofline_us(work, target) / roofline_us(work, host)


RATIOS: dict[str, Callable[..., np.ndarray]] = {
    "FLOPS scaling": flops_ratio,
    "bandwidth scaling": bandwidth_ratio,
    "roofline scaling": roofline_ratio,
}
"""The scaling laws by the name the user sees: what the host's time is multiplied by."""


def where_published(work: Work, formula: Callable[[Work], np.ndarray]) -> tuple[np.ndarray, list[str]]:
    """Apply a formula to each kind of arithmetic in turn; NaN, and the reason, where a figure is not published."""
    values = np.full(len(work), np.nan)
    missing: dict[str, None] = {}
    codes, kinds = work.kinds()
    for code in range(len(kinds)):
        rows = codes == code
        try:
            values[rows] = formula(work.take(rows))
        except NotPublishedError as error:
            missing[f"{error.figure} of {error.gpu} is not published"] = None
    return values, list(missing)


def _published_peaks(work: Work, gpu: GPU) -> np.ndarray:
    return where_published(work, lambda w: peaks(w, gpu))[0]


def _or_nan(formula: Callable[[], np.ndarray], rows: int) -> np.ndarray:
    try:
        return formula()
    except NotPublishedError:
        return np.full(rows, np.nan)


# The laws of time, power and energy, by the name the user sees.

Law = Callable[..., np.ndarray]
"""From rows and one device, or host and target by those names, to a value or a ratio per row."""

_J_PER_W_US = 1e-6


def tdp_w(work: Work, gpu: GPU) -> np.ndarray:
    """Return the board power in every row; a NotPublishedError if it is not published."""
    return np.full(len(work), gpu.require("tdp_w"))


def tdp_ratio(work: Work, host: GPU, target: GPU) -> np.ndarray:
    """Return ``tdp_target / tdp_host``."""
    return tdp_w(work, target) / tdp_w(work, host)


def roofline_j(work: Work, gpu: GPU) -> np.ndarray:
    """Return ``tdp max(compute, memory)``: the energy (J) of the roofline's time (µs) at full board power."""
    return tdp_w(work, gpu) * roofline_us(work, gpu) * _J_PER_W_US


def _energy_ratio(time_ratio: Law, work: Work, host: GPU, target: GPU) -> np.ndarray:
    return tdp_ratio(work, host, target) * time_ratio(work, host, target)


SCALING: Mapping[str, Mapping[str, Law]] = {
    "duration_us": RATIOS,
    "power_w": {"TDP scaling": tdp_ratio},
    "energy_j": {f"TDP x {name}": partial(_energy_ratio, ratio) for name, ratio in RATIOS.items()},
}
"""For each metric the laws from host to target by the name the user sees: what the host's value is multiplied by."""
OF_ONE: Mapping[str, Mapping[str, Law]] = {
    "duration_us": {"roofline": roofline_us},
    "power_w": {"TDP": tdp_w},
    "energy_j": {"TDP x roofline": roofline_j},
}
"""For each metric the laws of one device: its value, in the unit of the metric."""


def scaling_laws(
    metric: str, work: Work, host_values: np.ndarray, host: GPU, target: GPU
) -> tuple[pd.DataFrame, dict[str, str]]:
    """Return what each scaling law of a metric predicts for the target, and which figures are missing for it.

    `host_values` is the metric measured on the host, of shape (n_rows,). One column per law, in the unit of the metric;
    none for a metric without laws; NaN in rows whose law needs a figure that is not published. The notes say for each
    law with such rows, which figures those are.
    """
    laws = SCALING.get(metric, {})
    ratios, notes = _table(work, {name: partial(ratio, host=host, target=target) for name, ratio in laws.items()})
    return ratios.mul(host_values, axis=0), notes


def own_laws(metric: str, work: Work, gpu: GPU) -> tuple[pd.DataFrame, dict[str, str]]:
    """Return what the laws of one device say of a metric; as `scaling_laws`, without a host."""
    return _table(work, {name: partial(law, gpu=gpu) for name, law in OF_ONE.get(metric, {}).items()})


def _table(work: Work, laws: Mapping[str, Callable[[Work], np.ndarray]]) -> tuple[pd.DataFrame, dict[str, str]]:
    found = {name: where_published(work, law) for name, law in laws.items()}
    columns = {name: values for name, (values, _) in found.items()}
    notes = {name: "; ".join(missing) for name, (_, missing) in found.items() if missing}
    return pd.DataFrame(columns, index=pd.RangeIndex(len(work)), dtype=float), notes

"""How sure a projection is: which sources of error it has, and what they make of the end-to-end time."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Final

import numpy as np
import pandas as pd

from ..errors import NotPublishedError
from ..hardware import GPU, peak_path
from .replay import spans_us
from .split import COMMUNICATION
from .sweep import UNKNOWN, own_value, swept
from .uncertainty import Factor, FloatArray, Uncertainty, propagate
from .whole_trace import BOUND, CATEGORY, SIGMA, Projection, project_activities

CPU: Final = "cpu_speed"
CPU_SIGMA: Final = 0.10
"""Relative standard deviation of the time of the CPU's work where nobody states the speed of the target's CPU."""
CPU_STATED_SIGMA: Final = 0.02
"""The same where it is stated: one figure does not hold for all work. (By two launch-bound models on MI300X and H100,
bert-small and Falconsai, one CPU is 1.12 and 1.10 times as fast as the other.)"""
UNMEASURED: Final = 0.25
"""The same of the time of a class whose law was never measured between such GPUs."""

BASES = STATED, MEASURED, PARTLY, ASSUMED = "stated", "measured", "partly assumed", "assumed"
"""What the sigma of a class rests on: the user's word; measurements of its laws; those for a part of its activities,
`UNMEASURED` for the others; `UNMEASURED` alone."""

PEAK: Final = "peak_tflops"
SPECS: Final = ("memory_bw_gbs", PEAK, "link_bw_gbs")
"""Figures of the target whose uncertainty may be stated: `PEAK` stands for the peaks of all precisions together."""
STEP: Final = 0.05
"""Relative change of a figure, up and down, from which its effect on each time is taken."""


def sources_of(projection: Projection, stated: Mapping[str, float] | None = None) -> list[Factor]:
    """Return the sources of error of a projection.

    - One for each class of kernels, correlated within it: what is known of the error of its law, weighted by time;
      `UNMEASURED` where nothing is. None where durations are kept for want of a change of device.
    - The CPU's speed, unless the trace has no calls of the CPU: `CPU_SIGMA`, `CPU_STATED_SIGMA` where the user states
      it.
    - What the user states: a class, `cpu_speed`, or a figure of the target (`SPECS`).

    Parameters
    ----------
    projection : Projection
    stated : mapping of str to float, optional
        Standard deviations of ln, by class, `CPU` or figure; they go before those known.
    """
    stated = stated or {}
    classes = class_sigmas(projection, stated)
    columns = (classes[name].tolist() for name in ("op_class", "kind", "sigma"))
    factors = [Factor(*row) for row in zip(*columns, strict=True)]
    if len(projection.graph.calls):
        unstated = 0.0 if projection.host == projection.target else CPU_SIGMA
        known = unstated if projection.laws.cpu_speed is None else CPU_STATED_SIGMA
        factors.append(Factor(CPU, "cpu", stated.get(CPU, known)))
    factors += [Factor(name, "spec", stated[name]) for name in SPECS if name in stated]
    return [factor for factor in factors if factor.sigma > 0]


def class_sigmas(projection: Projection, stated: Mapping[str, float] | None = None) -> pd.DataFrame:
    """Return how sure the law of each class is.

    Parameters
    ----------
    projection : Projection
    stated : mapping of str to float, optional
        As for `sources_of`.

    Returns
    -------
    DataFrame
        `op_class`, in the order of the names; `kind`, "communication" or "law"; `sigma`, standard deviation of the
        logarithm of the class's time, the root mean square of its activities' weighted by their projected time;
        `basis`, one of `BASES`.
    """
    stated, rows = stated or {}, projection.activities
    found = []
    for name, part in rows.groupby(class_of(rows), sort=True):
        kind = "communication" if (part[CATEGORY] == COMMUNICATION).any() else "law"
        sigma, basis = (stated[str(name)], STATED) if str(name) in stated else _sigma(part)
        found.append((str(name), kind, sigma, basis))
    return pd.DataFrame(found, columns=["op_class", "kind", "sigma", "basis"])


def names_of(projection: Projection) -> list[str]:
    """Return the names under which a user may state uncertainties."""
    return [*sorted(set(class_of(projection.activities))), CPU, *SPECS]


def uncertainty_of(
    projection: Projection, stated: Mapping[str, float] | None = None, *, level: float = 0.9, samples: int = 256,
    seed: int = 0,
) -> Uncertainty:  # fmt: skip
    """Propagate the sources of error of a projection to its end-to-end time, through the replay.

    Parameters
    ----------
    projection : Projection
    stated : mapping of str to float, optional
        As for `sources_of`.
    level, samples, seed
        As for `uncertainty.propagate`.

    Raises
    ------
    DataError
        As `uncertainty.propagate`.
    NotPublishedError
        The uncertainty of a figure is stated that the target does not publish.

    Notes
    -----
    A figure multiplies the time of all activities of a class with one bound by itself to the power of
    `exponents`: how steeply the laws let that time fall or rise with the figure.
    """
    factors = sources_of(projection, stated)
    place = {factor.name: number for number, factor in enumerate(factors)}
    rows = projection.activities
    keys = pd.MultiIndex.from_arrays([class_of(rows), rows[BOUND]])
    codes, cases = keys.factorize()
    groups = codes[projection.graph.rows].astype(np.int64)
    powers = np.zeros((len(factors), len(cases)))
    for number, factor in enumerate(factors):
        if factor.group == "spec":
            powers[number] = exponents(projection, factor.name, codes)
        elif factor.name != CPU:
            powers[number] = [name == factor.name for name, _ in cases]

    def simulate(draws: FloatArray) -> FloatArray:
        scale = np.exp(np.einsum("rf,fg->rg", np.log(draws), powers))
        cpu = draws[:, place[CPU]] if CPU in place else np.ones(len(draws))
        return spans_us(
            projection.target_graph, projection.projected_ns, scale, groups, projection.cpu * cpu, projection.counted
        )

    return propagate(simulate, factors, level=level, samples=samples, seed=seed)


def exponents(projection: Projection, figure: str, groups: np.ndarray) -> FloatArray:
    """Return d ln(time) / d ln(figure) of groups of activities, from the laws at the figure times 1 ± `STEP`.

    Parameters
    ----------
    projection : Projection
    figure : str
        One of `SPECS`.
    groups : ndarray of int of shape (n_activities,)
        Group of each activity, 0, 1, ...; the times of a group are added up.

    Returns
    -------
    ndarray of float of shape (n_groups,)
        -1 where the time is inverse to the figure, 0 where it does not matter.

    Raises
    ------
    NotPublishedError
        The target does not publish the figure.
    """
    times = []
    for change in (1 - STEP, 1 + STEP):
        gpu = _changed(projection.target, figure, change)
        rows = project_activities(
            projection.activities, projection.host, gpu, projection.laws, trained_for=projection.target
        )
        times.append(np.bincount(groups, weights=rows["projected_us"].to_numpy()))
    ratio = np.divide(times[1], times[0], out=np.ones_like(times[0]), where=times[0] > 0)
    return np.asarray(np.log(ratio) / np.log((1 + STEP) / (1 - STEP)), dtype=np.float64)


def _changed(gpu: GPU, figure: str, change: float) -> GPU:
    """Return the GPU with a figure, or all its peaks, times a number."""
    names: Sequence[str] = [peak_path(name) for name in gpu.peaks] if figure == PEAK else [figure]
    if not names:
        raise NotPublishedError(gpu.name, figure)
    for name in names:
        value = own_value(gpu, name)
        if value is None:
            raise NotPublishedError(gpu.name, name)
        gpu = swept(gpu, name, value * change)
    return gpu


def class_of(activities: pd.DataFrame) -> np.ndarray:
    """Return the class under which the error of each activity counts: its op class, `UNKNOWN` where it has none."""
    op_class = activities["op_class"].astype(str).to_numpy(dtype=object)
    return np.where(op_class == "", UNKNOWN, op_class)


def _sigma(part: pd.DataFrame) -> tuple[float, str]:
    """Return the sigma of a class, and what it rests on."""
    sigma, weight = (part[name].to_numpy(dtype=float) for name in (SIGMA, "projected_us"))
    measured = ~np.isnan(sigma)
    basis = MEASURED if measured.all() else PARTLY if measured.any() else ASSUMED
    sigma = np.where(measured, sigma, UNMEASURED)
    if not weight.sum():
        return float(sigma.max()), basis
    return float(np.sqrt(np.average(sigma**2, weights=weight))), basis

"""How sure a projection is: which sources of error it has, and what they make of the end-to-end time."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

import numpy as np
import pandas as pd

from .factors import Factor, FloatArray
from .replay import spans_us
from .split import COMMUNICATION
from .uncertainty import Uncertainty, propagate
from .whole_trace import BOUND, CATEGORY, FACTOR, SIGMA, Projection

CPU: Final = "cpu_speed"
CPU_SIGMA: Final = 0.10
"""Relative standard deviation of the time of the CPU's work where nobody states the speed of the target's CPU."""
UNMEASURED: Final = 0.25
"""The same of the time of a class whose law was never measured between such GPUs."""

SPECS: Final[dict[str, tuple[str, int]]] = {
    "memory_bw_gbs": ("memory", -1),
    "peak_tflops": ("compute", -1),
    "link_bw_gbs": ("link", -1),
}
"""Figures of the target whose uncertainty may be stated: the bound of the activities they concern, and the exponent."""


def sources_of(projection: Projection, stated: Mapping[str, float] | None = None) -> list[Factor]:
    """Return the sources of error of a projection.

    - One for each class of kernels, correlated within it: what is known of the error of its law, weighted by time;
      `UNMEASURED` where nothing is. None where durations are kept for want of a change of device.
    - The CPU's speed, unless the user states it.
    - What the user states: a class, `cpu_speed`, or a figure of the target (`SPECS`).

    Parameters
    ----------
    projection : Projection
    stated : mapping of str to float, optional
        Standard deviations of ln, by class, `CPU` or figure; they go before those known.
    """
    stated = stated or {}
    rows = projection.activities
    factors = []
    for name, part in rows.groupby(class_of(rows), sort=True):
        sigma = stated.get(str(name), _sigma(part))
        kind = "communication" if (part[CATEGORY] == COMMUNICATION).any() else "law"
        factors.append(Factor(str(name), kind, sigma))
    same = projection.host == projection.target
    known = same or projection.laws.cpu_speed is not None
    factors.append(Factor(CPU, "cpu", stated.get(CPU, 0.0 if known else CPU_SIGMA)))
    factors += [Factor(name, "spec", stated[name]) for name in SPECS if name in stated]
    return [factor for factor in factors if factor.sigma > 0]


def names_of(projection: Projection) -> list[str]:
    """Return the names under which a user may state uncertainties."""
    return [*sorted(set(class_of(projection.activities))), CPU, *SPECS]


def forecast(
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
    """
    factors = sources_of(projection, stated)
    place = {factor.name: number for number, factor in enumerate(factors)}
    rows = projection.activities
    keys = pd.MultiIndex.from_arrays([class_of(rows), rows[BOUND]])
    codes, cases = keys.factorize()
    groups = codes[projection.graph.rows].astype(np.int64)
    terms = [_terms(str(name), str(bound), place) for name, bound in cases]

    def simulate(draws: FloatArray) -> FloatArray:
        scale = np.ones((len(draws), len(terms)))
        for group, parts in enumerate(terms):
            for column, exponent in parts:
                scale[:, group] *= draws[:, column] ** exponent
        cpu = draws[:, place[CPU]] if CPU in place else np.ones(len(draws))
        return spans_us(
            projection.target_graph, projection.projected_ns, scale, groups, projection.cpu * cpu, projection.counted
        )

    return propagate(simulate, factors, level=level, samples=samples, seed=seed)


def class_of(activities: pd.DataFrame) -> np.ndarray:
    """Return the class under which the error of each activity counts: its op class, or the collective it is."""
    return activities["op_class"].astype(str).to_numpy()


def _sigma(part: pd.DataFrame) -> float:
    """Return the sigma of a class: root mean square of its activities', weighted by their projected time."""
    sigma = part[SIGMA].to_numpy(dtype=float)
    sigma = np.where(np.isnan(sigma), UNMEASURED, sigma)
    weight = part["measured_us"].to_numpy() * part[FACTOR].to_numpy()
    if not weight.sum():
        return float(sigma.max())
    return float(np.sqrt(np.average(sigma**2, weights=weight)))


def _terms(name: str, bound: str, place: Mapping[str, int]) -> list[tuple[int, int]]:
    """Return the columns of the draws that concern a class with a bound, with their exponents."""
    found = [(place[name], 1)] if name in place else []
    return found + [(place[key], power) for key, (of, power) in SPECS.items() if key in place and of == bound]

"""What the profiles of several kernels teach: what bounds each, which component draws, who leaves room for whom.

After Singhania, Aga and Ibrahim (ISPASS 2025), who read their profiles so: by operations per byte
and by how a collective's time grows, by component, by watts against throughput, alone against
interleaved with other kernels.
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final

import numpy as np
import pandas as pd
from scipy.optimize import nnls
from scipy.stats import linregress

from .logs import TOTAL
from .profile import KernelPower

LATENCY = "latency-bound"
BANDWIDTH = "bandwidth-bound"
# a collective whose time grows with less than this power of its size is bound by latency
LEAST_GROWTH: Final = 0.5
LEAST_CORRELATION = 0.9
MOST_P = 0.05
"""A component's power follows throughput where they correlate by the first or more, by chance at most in the second."""
LEAST_PEAK: Final = 0.5
"""Kernels complement each other only where each draws so much of the most that any draws, of a separate component."""
# and where no component would draw more than this together, its most of any kernel being 1
MOST_TOGETHER: Final = 1.5


@dataclass(frozen=True)
class Lessons:
    """Tables of what several kernels teach; NaN and "" where it is unknown."""

    # ``kernel``, ``bound`` (its class; of a collective of several sizes whether latency or
    # bandwidth), ``class``, ``flops_per_byte``, ``balance`` (of the GPU), ``growth`` (of the time
    # of a collective: the power of its size), ``dominant`` (the component that draws most),
    # ``dominant_share`` (of the total), ``tflops`` (achieved) and ``ssp_w`` (of the total)
    kernels: pd.DataFrame
    # ``collective``, ``sizes``, ``latency_us``, ``bandwidth_gbs`` and ``half_bytes``, the message
    # whose time is half latency: from ``time = latency + bytes / bandwidth`` through its sizes
    collectives: pd.DataFrame
    # ``component``, ``kernels``, ``slope_w`` (per TFLOP/s), ``rest_w`` (at none), ``correlation``,
    # ``p`` and ``follows``: the line of steady power over achieved throughput
    throughput: pd.DataFrame
    # ``kernel``, ``other``, ``peak``, ``other_peak`` (the component each loads most), ``busiest``,
    # ``together``: of the shares that the two draw of the most of any kernel, the largest sum, and
    # of which component
    complements: pd.DataFrame
    # ``kernel``, ``other``, ``power_w`` (of the two side by side: both steady totals less the idle
    # power once), ``headroom_w`` (the cap less that) and ``below``: whether the pair stays below
    # the cap. Those that do first, the fullest of them first; no row where no cap was given.
    overlaps: pd.DataFrame
    # ``kernel``, ``how`` (``interleaved``, or ``after`` which kernel), and of that over isolated
    # ``time_ratio``, ``power_ratio`` and ``energy_ratio`` (NaN where the power is that of a
    # mixture)
    interleaved: pd.DataFrame


def learn(
    kernels: Sequence[KernelPower], cap_w: float | None = None, idle_w: float = 0.0
) -> Lessons:
    """Return the lessons of the kernels, each alone and beside the others.

    With a power cap of the board, W, pairs are held against it; without its idle power that counts
    in both of a pair.
    """
    collectives = _collectives(kernels)
    watts = pd.DataFrame([_watts(kernel) for kernel in kernels])
    rows = pd.DataFrame([_kernel(one, collectives) for one in kernels])
    alone = np.array([_alone(one) for one in kernels])
    return Lessons(
        kernels=rows,
        collectives=collectives,
        throughput=_throughput(rows["tflops"].to_numpy()[alone], watts[alone]),
        complements=_complements(
            rows["kernel"][alone].tolist(), watts[alone].drop(columns=TOTAL, errors="ignore")
        ),
        overlaps=_overlaps(rows[alone], cap_w, idle_w),
        interleaved=_interleaved(kernels),
    )


def _overlaps(rows: pd.DataFrame, cap_w: float | None, idle_w: float) -> pd.DataFrame:
    """Return the pairs of kernels compared with a cap; see `Lessons`."""
    if cap_w is None:
        steady = rows[:0]
    else:
        steady = rows[rows["ssp_w"].notna()]
    drawn = itertools.combinations(zip(steady["kernel"], steady["ssp_w"], strict=True), 2)
    pairs = [(one, other, first + second - idle_w) for (one, first), (other, second) in drawn]
    pairs_below = pd.DataFrame(pairs, columns=["kernel", "other", "power_w"])
    pairs_below["headroom_w"] = (math.nan if cap_w is None else cap_w) - pairs_below["power_w"]
    pairs_below["below"] = pairs_below["headroom_w"] >= 0
    order = np.lexsort((pairs_below["headroom_w"].abs(), ~pairs_below["below"]))
    return pairs_below.iloc[order].reset_index(drop=True)


def _alone(one: KernelPower) -> bool:
    """Return whether the kernel's power is undisturbed by others."""
    return one.isolation != "interleaved" and not one.facts.isolated


def _watts(one: KernelPower) -> dict[str, float]:
    """Return the steady power of each component."""
    return {name: part.ssp.mean_w for name, part in one.components.items()}


def _kernel(one: KernelPower, collectives: pd.DataFrame) -> dict[str, object]:
    facts = one.facts
    parts = _watts(one)
    whole = parts.pop(TOTAL, math.nan)
    dominant = max(parts, key=lambda name: parts[name], default="")
    bound = facts.bound
    growth = math.nan
    fitted = collectives[collectives["collective"].eq(facts.collective)]
    if facts.bytes > 0 and len(fitted):
        growth = facts.bytes / (facts.bytes + float(fitted["half_bytes"].iloc[0]))
        bound = LATENCY
        if growth >= LEAST_GROWTH:
            bound = BANDWIDTH
    return {
        "kernel": one.kernel,
        "bound": bound,
        "class": facts.bound,
        "flops_per_byte": facts.flops_per_byte,
        "balance": facts.balance,
        "growth": growth,
        "dominant": dominant,
        "dominant_share": parts.get(dominant, math.nan) / whole,
        "tflops": facts.launches * facts.flops / one.kernel_us / 1e6,
        "ssp_w": whole,
    }


def _collectives(kernels: Sequence[KernelPower]) -> pd.DataFrame:
    """Return latency and bandwidth of each collective of several sizes, by the least relative squares."""
    rows = []
    timed = [one for one in kernels if one.facts.collective and one.facts.bytes > 0]
    for name in dict.fromkeys(one.facts.collective for one in timed):
        same = [one for one in timed if one.facts.collective == name and _alone(one)]
        size = np.array([one.facts.bytes for one in same])
        time_us = np.array([one.kernel_us / one.facts.launches for one in same])
        if len(np.unique(size)) < 2:
            continue
        latency_us, per_byte_us = nnls(
            np.column_stack([1 / time_us, size / time_us]), np.ones(len(size))
        )[0]
        bandwidth_gbs = math.inf
        if per_byte_us:
            bandwidth_gbs = 1 / (1e3 * per_byte_us)
        rows.append((name, len(size), latency_us, bandwidth_gbs, 1e3 * latency_us * bandwidth_gbs))
    return pd.DataFrame(
        rows, columns=["collective", "sizes", "latency_us", "bandwidth_gbs", "half_bytes"]
    )


def _throughput(tflops: np.ndarray, watts: pd.DataFrame) -> pd.DataFrame:
    """Return the line of each component's power over throughput; kernels without operations are left out."""
    rows = []
    computing = tflops > 0
    for name in watts:
        x = tflops[computing]
        y = watts[name].to_numpy()[computing]
        if len(x) < 3 or np.ptp(x) == 0:
            continue
        line = linregress(x, y)
        follows = line.rvalue >= LEAST_CORRELATION and line.pvalue <= MOST_P
        rows.append(
            (name, len(x), line.slope, line.intercept, line.rvalue, line.pvalue, bool(follows))
        )
    return pd.DataFrame(
        rows, columns=["component", "kernels", "slope_w", "rest_w", "correlation", "p", "follows"]
    )


def _complements(names: Sequence[str], watts: pd.DataFrame) -> pd.DataFrame:
    """Return the pairs of kernels that load different components, those with the least joint power first."""
    # (kernels, components)
    rows = []
    share = (watts / watts.max()).fillna(0.0).to_numpy()
    for one, other in itertools.combinations(range(len(names) if watts.shape[1] > 1 else 0), 2):
        peaks = share[[one, other]].argmax(axis=1)
        together = share[one] + share[other]
        high = share[[one, other]].max(axis=1) >= LEAST_PEAK
        if peaks[0] != peaks[1] and high.all() and together.max() <= MOST_TOGETHER:
            said = [str(watts.columns[place]) for place in (*peaks, together.argmax())]
            rows.append((names[one], names[other], *said, together.max()))
    pairs_together = pd.DataFrame(
        rows, columns=["kernel", "other", "peak", "other_peak", "busiest", "together"]
    )
    return pairs_together.sort_values("together", kind="stable", ignore_index=True)


def _interleaved(kernels: Sequence[KernelPower]) -> pd.DataFrame:
    """Return how kernels that ran alone in some runs changed among others in the rest."""
    by_name = {one.kernel: one for one in kernels}
    rows = []
    for one in kernels:
        alone = by_name.get(one.facts.isolated)
        if alone is not None:
            name = TOTAL
            if TOTAL not in one.components:
                name = next(iter(one.components))
            part = one.components[name]
            of_alone = alone.components[name]
            ratios = (
                part.ssp.mean_w / of_alone.ssp.mean_w,
                part.energy.energy_j / of_alone.energy.energy_j,
            )
            how = one.kernel.removeprefix(f"{alone.kernel}, ")
            rows.append((alone.kernel, how, one.kernel_us / alone.kernel_us, *ratios))
    return pd.DataFrame(
        rows, columns=["kernel", "how", "time_ratio", "power_ratio", "energy_ratio"]
    )

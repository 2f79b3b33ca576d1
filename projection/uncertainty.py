"""How sure a projection is: its sources of error, and what they make of the end-to-end time.

`sources_of` says which there are, and `uncertainty_of` propagates them through the replay by
quasi-Monte-Carlo (`propagate`).

Each source of uncertainty is a `Factor`: a number with median 1 that multiplies something (the
times of all kernels of a class, a figure of the target's specification, the speed of the CPU). Its
draws come from a scrambled Sobol' sequence [1]_, whose error falls nearly as fast as 1/n for the
smooth results of sums and maxima, and which is the same for the same seed on any machine.

All kernels of a class share the draw of its factor: a law that is wrong about one of them is wrong
about its siblings too. So the whole spread of single kernels counts as common to their class,
although what each has of its own would average out over many: intervals are rather too wide than
too narrow.

How much of the variance each factor explains by itself (first-order Sobol' indices) is estimated
from the sample that the interval comes from, so that it costs no further run of the model. The
result is regressed on Hermite polynomials of each factor's standard normal score, which are
orthogonal under it: an additive polynomial chaos expansion, in which the variance of each factor's
terms is its part of the whole [2]_.

References
----------
.. [1] A. B. Owen, "Scrambling Sobol' and Niederreiter-Xing points", Journal of Complexity 14(4), 1998.
.. [2] B. Sudret, "Global sensitivity analysis using polynomial chaos expansions", Reliability Engineering & System
   Safety 93(7), 2008, equations 36 to 41.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass, replace
from numbers import Integral
from typing import Final

import numpy as np
import pandas as pd
from scipy.special import ndtri
from scipy.stats import qmc

from ..arrays import FloatArray
from ..errors import NotPublishedError, ParameterError, check_level, nearest
from ..evaluation.advising import Need
from ..evaluation.intervals import LEVEL
from ..hardware import peak_path
from ..laws.base import overheads_of
from ..remarks import Remark, remark
from ..traces.doubts import Doubts
from ..traces.quality import TOUCHING_NS
from ..workers import one_thread
from .graph import OTHER
from .kernel_laws import ERRORS, MODEL, PAIRED
from .replay import Pace, spans_us
from .split import COMMUNICATION, longest_first
from .sweep import UNKNOWN, published_value, swept
from .whole_trace import BOUND, CATEGORY, SIGMA, UNMEASURED, Projection, project_activities

LARGEST: Final = 2.0  # largest relative standard deviation taken from a user: more is a percentage meant as a fraction


@dataclass(frozen=True)
class Factor:
    """A source of uncertainty, log-normal with median 1."""

    name: str  # what it is ("gemm", "memory_bw_gbs"); no two factors of one propagation share it
    group: str  # what kind of source it is ("spec", "law", "cpu", "communication"), for tables
    sigma: float  # standard deviation of its logarithm; 0 for a factor that is certain

    def __post_init__(self) -> None:
        if not (math.isfinite(self.sigma) and self.sigma >= 0):
            raise ValueError(
                f"sigma of factor {self.name} must be at least 0 and finite, got {self.sigma}"
            )


def parse_sigmas(text: str, names: Collection[str]) -> dict[str, float]:
    """Read the uncertainties that a user gives: "gemm=0.1,memory_bw_gbs=0.05".

    They are relative standard deviations r (1 sigma) by factor, as fractions: 0.1 for 10 %. What is
    returned is the sigma of `Factor`: the standard deviation of the logarithm, ``sqrt(ln(1 +
    r²))``. A ParameterError says that a part is not ``name=number``, that a name is not
    one of ``names`` or is given twice, or a number below 0 or above `LARGEST`.
    """
    sigmas: dict[str, float] = {}
    for part in text.split(","):
        name, equals, number = (piece.strip() for piece in part.partition("="))
        if not (name and equals):
            raise ParameterError(
                "uncertainty", f"is written name=number, such as gemm=0.1, got {part.strip()!r}"
            )
        if name not in names:
            raise ParameterError(
                "uncertainty",
                f"must name what may err, got {name!r}: {nearest(name, sorted(names))}",
            )
        if name in sigmas:
            raise ParameterError("uncertainty", f"gives {name} twice: keep one")
        try:
            value = float(number)
        except ValueError:
            raise ParameterError(
                "uncertainty", f"of {name} must be a fraction such as 0.1, got {number!r}"
            ) from None
        if not 0 <= value <= LARGEST:
            raise ParameterError(
                "uncertainty",
                f"of {name} must be from 0 to {LARGEST:g} (0.1 is 10 %), got {number}",
            )
        sigmas[name] = math.sqrt(math.log1p(value**2))
    return sigmas


DEGREE: Final = 3
"""Highest degree of the polynomials: 97 % of the variance of exp(z), over 99.9 % of that of exp(z / 2)."""
ROWS_PER_TERM: Final = 4  # least number of rows for each term of the regression


def first_order_shares(scores: FloatArray, values: FloatArray) -> FloatArray:
    """Return each factor's first-order share of the variance of a result, shape (n_factors,).

    ``scores``, of shape (n_samples, n_factors), are independent standard normal scores of the
    factors, ``values`` the result, of shape (n_samples,). Shares are from 0 to 1; their sum is 1
    less what comes from factors acting together. All are 0 where the result does not vary.

    The degree is the highest up to `DEGREE` that leaves `ROWS_PER_TERM` rows for each term; a
    ParameterError says that the sample is too small for a linear regression on all factors.
    """
    rows, factors = scores.shape
    if not factors:
        return np.zeros(0)
    degree = min(DEGREE, (rows // ROWS_PER_TERM - 1) // factors)
    if degree < 1:
        least = ROWS_PER_TERM * (factors + 1)
        raise ParameterError(
            "samples", f"must be at least {least} for {factors} sources of error, got {rows}"
        )
    centred = values - values.mean()
    variance = float(np.mean(centred**2))
    if variance <= (1e-12 * float(np.abs(values).max())) ** 2:
        return np.zeros(factors)
    # of unit variance
    polynomials = [
        scores,
        (scores**2 - 1) / np.sqrt(2),
        (scores**3 - 3 * scores) / np.sqrt(6),
    ]
    terms = np.stack(polynomials[:degree], axis=2)
    design = np.column_stack([np.ones(rows), terms.reshape(rows, -1)])
    with one_thread():  # the same last digit on any number of cores
        coefficients = np.linalg.lstsq(design, centred, rcond=None)[0][1:]
    parts = (
        np.einsum("rfd,fd->rf", terms, coefficients.reshape(factors, degree)).var(axis=0) / variance
    )
    return parts / max(1.0, float(parts.sum()))


Simulate = Callable[[FloatArray], FloatArray]
"""From multiplicative factors (n_samples, n_factors) to end-to-end times (n_samples,), us."""
BANDS: Final = (5.0, 10.0, 20.0, 50.0, 100.0)  # upper ends of the accuracy bands, %
_BITS: Final = 30


@dataclass(frozen=True)
class Uncertainty:
    """The interval of an end-to-end time, and what it is made of."""

    level: float  # of the interval, 0 to 1
    # with every factor at 1, which is the projection itself; of the draws
    nominal_us: float
    median_us: float
    # the interval: quantiles of the draws, widened to hold the nominal time where they do not
    lower_us: float
    upper_us: float
    # one row per factor, the largest swing first: `name`, `group`, `sigma`, `low_us` and `high_us`
    # (the end-to-end time with this factor at its quantiles of the level and every other at 1),
    # `swing_us` (their distance), `share` (first-order share of the variance, 0 to 1)
    tornado: pd.DataFrame
    # of the Sobol' sequence
    samples: int
    seed: int
    # how far median and bounds of the two halves of the sample lie apart, the largest of the three,
    # relative to the nominal time
    convergence: float

    @property
    def half_width(self) -> float:
        """Half the interval, relative to the nominal time."""
        return (self.upper_us - self.lower_us) / (2 * self.nominal_us)

    @property
    def band(self) -> str:
        """The accuracy band that the half-width falls in: "<5 %", "5-10 %", ..., ">100 %"."""
        return accuracy_band(self.half_width)

    @property
    def note(self) -> Remark:
        """How many samples, and how well they have converged (``samples-converged``)."""
        text = (
            f"{self.samples} scrambled Sobol' samples, seed {self.seed}: median and bounds of the "
            "two halves differ by "
            f"at most {100 * self.convergence:.2g} % of the projection"
        )
        return remark(
            "samples-converged",
            text,
            samples=self.samples,
            seed=self.seed,
            convergence=self.convergence,
        )


def accuracy_band(relative: float) -> str:
    """Return the accuracy band of a relative half-width or error; a bound belongs to the band above it.

    >>> accuracy_band(0.07), accuracy_band(0.2), accuracy_band(3.0)
    ('5-10 %', '20-50 %', '>100 %')
    """
    place = int(np.searchsorted(BANDS, 100 * relative, side="right"))
    if place == 0:
        return f"<{BANDS[0]:g} %"
    if place == len(BANDS):
        return f">{BANDS[-1]:g} %"
    return f"{BANDS[place - 1]:g}-{BANDS[place]:g} %"


def propagate(
    simulate: Simulate,
    factors: Sequence[Factor],
    *,
    level: float = LEVEL,
    samples: int = 256,
    seed: int = 0,
) -> Uncertainty:
    """Propagate the uncertainty of factors to the end-to-end time.

    ``simulate`` takes multiplicative factors (n_rows, n_factors), independent and in the order of
    ``factors``, and returns end-to-end times in µs, (n_rows,). What a factor multiplies is up to
    it, and so is the memory it takes for all rows at once: it is run for ``samples + 2 *
    len(factors) + 1`` of them. ``samples`` is a power of two from 16 on, ``seed`` that of the
    scrambling.

    Raises ParameterError: level or samples are out of range, or the samples too few for so many
    factors; ValueError: two factors share a name, or `simulate` returns anything but positive
    finite times.
    """
    check_sample(level, samples)
    names = [factor.name for factor in factors]
    if len(set(names)) < len(names):
        raise ValueError(f"two factors share a name: {', '.join(sorted(names))}")
    sigmas = np.array([factor.sigma for factor in factors], dtype=np.float64)
    scores = np.zeros((samples, len(factors)))
    if factors:  # the points stand for cells of width 2^-30 and are moved from their lower ends to their middles
        points = qmc.Sobol(len(factors), bits=_BITS, seed=np.random.default_rng(seed)).random(
            samples
        )
        scores = np.asarray(ndtri(points + 0.5 ** (_BITS + 1)), dtype=np.float64)
    reach = float(ndtri((1 + level) / 2))
    steps = np.diag(np.exp(reach * sigmas) - 1)
    lowered = np.diag(np.exp(-reach * sigmas) - 1)
    alone = 1 + np.vstack([np.zeros_like(sigmas), lowered, steps])
    rows = np.vstack([alone, np.exp(scores * sigmas)])
    times = np.asarray(simulate(rows), dtype=np.float64)
    if times.shape != (len(rows),) or not (np.isfinite(times) & (times > 0)).all():
        raise ValueError(
            f"simulate must return one positive finite time for each of {len(rows)} rows"
        )
    nominal = float(times[0])
    drawn = times[len(alone) :]
    low, high = times[1 : len(alone)].reshape(2, -1)
    bounds = _bounds(drawn, level)
    halves = np.abs(_bounds(drawn[: samples // 2], level) - _bounds(drawn[samples // 2 :], level))
    shares = np.zeros(len(factors))
    shares[sigmas > 0] = first_order_shares(scores[:, sigmas > 0], drawn)
    tornado = pd.DataFrame(
        {
            "name": names,
            "group": [factor.group for factor in factors],
            "sigma": [factor.sigma for factor in factors],
            "low_us": low,
            "high_us": high,
            "swing_us": np.abs(high - low),
            "share": shares,
        }
    )
    return Uncertainty(
        level=level,
        nominal_us=nominal,
        median_us=float(bounds[1]),
        lower_us=min(float(bounds[0]), nominal),
        upper_us=max(float(bounds[2]), nominal),
        tornado=longest_first(tornado, "swing_us"),
        samples=samples,
        seed=seed,
        convergence=float(halves.max()) / nominal,
    )


def check_sample(level: float, samples: int) -> None:
    """Raise a ParameterError if the level of an interval or the number of samples is out of range (`propagate`)."""
    check_level(level)
    if not isinstance(samples, Integral) or samples < 16 or samples & (samples - 1):
        raise ParameterError("samples", f"must be a power of two from 16 on, got {samples}")


def _bounds(times: FloatArray, level: float) -> FloatArray:
    """Return lower bound, median and upper bound; the k-th smallest of n stratified draws stands for (k - 1/2) / n."""
    return np.quantile(times, [(1 - level) / 2, 0.5, (1 + level) / 2], method="hazen")


CPU: Final = "cpu_speed"


GAPS: Final = "gaps"
PROFILER: Final = "profiler"
DOUBT: Final = "trace"
_NAMES: Final = {
    CPU: "CPU speed",
    PROFILER: "what the profiler adds",
    GAPS: "gaps of unknown cause",
    DOUBT: "what the trace lacks",
}


def source_name(source: str) -> str:
    """Return the name of a source of error: a class of operators, the CPU's speed, gaps, or the trace itself."""
    return _NAMES.get(source, source)


CPU_SIGMA: Final = 0.10
"""Relative standard deviation of the time of the CPU's work where nobody states the speed of the target's CPU."""
CPU_STATED_SIGMA: Final = 0.02
"""The same where it is stated: one figure does not hold for all work. (By two launch-bound models
on MI300X and H100, bert-small and Falconsai, one CPU is 1.12 and 1.10 times as fast as the
other.)"""
GAP_SIGMA: Final = 0.15
"""Relative standard deviation of the time before activities where the trace does not say what it
was spent on. The time in which nothing ran changed by 1.23, 0.88, 1.10 and 1.16 from MI300X to H100
(four models traced on both, `benchmarks.projection_traces`): root mean square of the logarithms."""
BASES = STATED, MEASURED, PARTLY, ASSUMED = "stated", "measured", "partly assumed", "assumed"
"""What the sigma of a class rests on: the user's word; measurements of its laws; those for a part
of its activities, `UNMEASURED` for the others; `UNMEASURED` alone."""
PEAK: Final = "peak_tflops"
SPECS: Final = ("memory_bw_gbs", PEAK, "link_bw_gbs")
"""Figures of the target whose uncertainty may be stated: `PEAK` stands for the peaks of all precisions together."""
# relative change of a figure, up and down, from which its effect on each time is taken
STEP: Final = 0.05


def sources_of(projection: Projection, stated: Mapping[str, float] | None = None) -> list[Factor]:
    """Return the sources of error of a projection.

    - One for each class of kernels, correlated within it: the measured error of its law,
      weighted by time; `UNMEASURED` where nothing is. None where durations are kept for want of a
      change of device.
    - The CPU's speed, unless the trace has no calls of the CPU: `CPU_SIGMA`, `CPU_STATED_SIGMA`
      where the user states it.
    - What the profiler adds to the CPU's work, where that is taken out (`unprofiled`).
    - The time before activities whose cause the trace does not say (`pace_of`): `GAP_SIGMA`. None
      where the device stays.
    - What the user states: a class, `cpu_speed`, `profiler`, `gaps`, or a figure of the target (`SPECS`).

    ``stated`` are standard deviations of ln, by class, `CPU` or figure; they replace the measured ones.
    """
    stated = stated or {}
    classes = class_sigmas(projection, stated)
    columns = (classes[name].tolist() for name in ("op_class", "kind", "sigma"))
    factors = [Factor(*row) for row in zip(*columns, strict=True)]
    if len(projection.graph.calls):
        unstated = CPU_SIGMA
        if projection.host == projection.target:
            unstated = 0.0
        sigma = CPU_STATED_SIGMA
        if projection.laws.cpu_speed is None:
            sigma = unstated
        factors.append(Factor(CPU, "cpu", stated.get(CPU, sigma)))
    unprofiled = projection.laws.unprofiled
    if unprofiled is not None:
        factors.append(Factor(PROFILER, "cpu", stated.get(PROFILER, unprofiled.sigma)))
    if pace_of(projection):
        unstated = GAP_SIGMA
        if projection.host == projection.target:
            unstated = 0.0
        factors.append(Factor(GAPS, "cpu", stated.get(GAPS, unstated)))
    factors += [Factor(name, "spec", stated[name]) for name in SPECS if name in stated]
    return [factor for factor in factors if factor.sigma > 0]


def pace_of(projection: Projection) -> Pace:
    """Return what of the time before activities has no recorded cause.

    - Of an activity without a call in the trace the whole time from the start of the one before it
      on its queue: the queue was idle, so the CPU may have set the pace there, and then it does so
      on the target. Where the queue was busy that holds too if the target is, or may be, faster: by
      how much the CPU was ahead is not in the trace.
    - Of the others what is longer than their queue and launch explain (`graph.OTHER`).
    """
    graph = projection.graph
    target = projection.target_graph
    measured = graph.duration_ns
    projected = projection.projected_ns
    before = graph.before
    behind = (before >= 0) & projection.counted & projection.counted[before]
    alone = graph.call < 0
    dispatch = overheads_of(projection.host, projection.target)[0]
    if dispatch.inside:
        dispatch_ns = TOUCHING_NS
    else:
        dispatch_ns = 1000.0 * dispatch.dispatch_us
    idle = alone & behind & (graph.gap_ns > dispatch_ns)
    unsure = np.isnan(projection.activities[SIGMA].to_numpy(dtype=float))[graph.rows]
    may_be_faster = (projected < measured) | unsure
    busy = alone & behind & ~idle & may_be_faster[before]
    between = np.where(
        behind, target.passed * projected[before] + np.maximum(target.gap_ns, 0.0), 0.0
    )
    strange = (graph.cause == OTHER) & ~alone & behind
    late_ns = graph.latency_ns - graph.usual_latency_ns
    latency = np.where(strange, np.maximum(late_ns, 0.0), 0.0)
    held = strange & (graph.gap_ns - graph.usual_gap_ns > late_ns)
    gap = np.where(idle | busy, between, np.where(held, graph.gap_ns, 0.0))
    delay = np.where(alone & ~behind & (graph.other >= 0), np.maximum(graph.delay_ns, 0.0), 0.0)
    return Pace(gap, latency, delay)


def class_sigmas(projection: Projection, stated: Mapping[str, float] | None = None) -> pd.DataFrame:
    """Return how sure the law of each class is; ``stated`` as for `sources_of`.

    The columns are `op_class`, in the order of the names; `kind`, "communication" or "law";
    `sigma`, standard deviation of the logarithm of the class's time, the root mean square of its
    activities' weighted by their projected time; `basis`, one of `BASES`.
    """
    stated = stated or {}
    rows = projection.activities
    lines = []
    for name, part in rows[[CATEGORY, SIGMA, "projected_us"]].groupby(class_of(rows), sort=True):
        kind = "law"
        if (part[CATEGORY] == COMMUNICATION).any():
            kind = "communication"
        if str(name) in stated:
            lines.append((str(name), kind, stated[str(name)], STATED))
            continue
        sigma, weight = (part[column].to_numpy(dtype=float) for column in (SIGMA, "projected_us"))
        measured = ~np.isnan(sigma)
        if measured.all():
            basis = MEASURED
        elif measured.any():
            basis = PARTLY
        else:
            basis = ASSUMED
        sigma = np.where(measured, sigma, UNMEASURED)
        if weight.sum():
            mean = np.sqrt(np.average(sigma**2, weights=weight))
        else:
            mean = sigma.max()
        lines.append((str(name), kind, float(mean), basis))
    return pd.DataFrame(lines, columns=["op_class", "kind", "sigma", "basis"])


def names_of(projection: Projection) -> list[str]:
    """Return the names under which a user may state uncertainties."""
    names = [*sorted(set(class_of(projection.activities))), CPU, GAPS, *SPECS]
    if projection.laws.unprofiled is not None:
        names.append(PROFILER)
    return names


def uncertainty_of(
    projection: Projection,
    stated: Mapping[str, float] | None = None,
    *,
    level: float = LEVEL,
    samples: int = 256,
    seed: int = 0,
) -> Uncertainty:
    """Propagate the sources of error of a projection to its end-to-end time, through the replay.

    ``stated`` as for `sources_of`; the others, and what is raised, as for `uncertainty.propagate`.
    A NotPublishedError is raised where the uncertainty of a figure is stated that the target does
    not publish.

    A figure multiplies the time of all activities of a class with one bound by itself to the power
    of `exponents`: how steeply the laws let that time fall or rise with the figure.
    """
    factors = sources_of(projection, stated)
    place = {factor.name: number for number, factor in enumerate(factors)}
    rows = projection.activities
    keys = pd.MultiIndex.from_arrays([class_of(rows), rows[BOUND]])
    codes, cases = keys.factorize()
    groups = codes[projection.graph.rows].astype(np.int64)
    powers = np.zeros((len(factors), len(cases)))
    pace = pace_of(projection)
    for number, factor in enumerate(factors):
        if factor.group == "spec":
            powers[number] = exponents(projection, factor.name, codes)
        elif factor.name not in (CPU, PROFILER, GAPS):
            powers[number] = [name == factor.name for name, _ in cases]

    def simulate(draws: FloatArray) -> FloatArray:
        scale = np.exp(np.einsum("rf,fg->rg", np.log(draws), powers))
        cpu, profiler, gaps = (
            draws[:, place[name]] if name in place else np.ones(len(draws))
            for name in (CPU, PROFILER, GAPS)
        )
        spans = spans_us(
            projection.target_graph,
            projection.projected_ns,
            scale,
            groups,
            projection.cpu * cpu * profiler,
            projection.spans_us,
            pace,
            gaps,
        )
        return spans

    unsure = propagate(simulate, factors, level=level, samples=samples, seed=seed)
    if projection.doubts.reach:
        return with_doubts(unsure, projection.doubts)
    return unsure


def with_doubts(unsure: Uncertainty, doubts: Doubts) -> Uncertainty:
    """Return an interval widened on both sides by what is missing of the trace, or must not be trusted.

    That is no error of laws, which may lie on either side and average out: it is added to them, not
    to their variance.
    """
    times = math.exp(doubts.reach)
    low_us = unsure.nominal_us / times
    high_us = unsure.nominal_us * times
    row = {
        "name": DOUBT,
        "group": "trace",
        "sigma": doubts.reach,
        "low_us": low_us,
        "high_us": high_us,
    }
    row |= {"swing_us": high_us - low_us, "share": 0.0}
    tornado = pd.concat([unsure.tornado, pd.DataFrame([row])], ignore_index=True)
    tornado = longest_first(tornado, "swing_us")
    return replace(
        unsure, lower_us=unsure.lower_us / times, upper_us=unsure.upper_us * times, tornado=tornado
    )


_WAYS: Final = {CPU: "the CPU's speed (cpu_speed)", GAPS: "a trace with the calls of the CPU"}


def need_of(projection: Projection, unsure: Uncertainty, need: float) -> Need:
    """Return whether the end-to-end time is known within ``need``, and which measurements would narrow it.

    Those are pairs of both GPUs for a class (``correct``), which leave the spread of its law where
    it was measured in that class, else the median spread of all laws and classes; and the speed of
    the CPU (``cpu_speed``). Sources err independently, and the half-width follows their variance:
    it is scaled from the interval as it is.
    """
    reach = float(ndtri((1 + unsure.level) / 2))
    table = unsure.tornado.sort_values("share", ascending=False, kind="stable")
    part = np.log(table["high_us"].to_numpy() / table["low_us"].to_numpy()) / (2 * reach)
    rows = projection.activities
    times = (
        rows["projected_us"]
        .groupby([class_of(rows), rows["law"].astype(str)])
        .sum()
        .sort_values(kind="stable")
    )
    # the last is that of most of a class's time
    law_of = {str(name): str(law) for name, law in times.index}
    usual = float(np.median([error.spread for error in ERRORS]))
    between = {projection.host.arch, projection.target.arch}
    whole = float(np.hypot.reduce(part))
    ways = list[tuple[str, float]]()
    for place, (name, sigma) in enumerate(
        zip(table["name"].astype(str), table["sigma"], strict=True)
    ):
        law, _, corrected = law_of.get(name, "").partition("+")
        if name in (*SPECS, PROFILER, DOUBT) or law == MODEL or f"+{corrected}" == PAIRED:
            continue  # a correction is not asked where a run answers, nor needed where the very problem was measured
        errors = [error for error in ERRORS if (error.law, error.op_class) == (law, name)]
        of_pair = [error for error in errors if {error.host, error.target} == between]
        spreads = [error.spread for error in of_pair or errors]
        if name == CPU:
            left = CPU_STATED_SIGMA
        elif name == GAPS:
            left = CPU_SIGMA
        else:
            left = usual
            if spreads:
                left = float(np.mean(spreads))
        if left >= sigma:
            continue
        part[place] *= left / sigma
        after = unsure.half_width * float(
            np.sinh(reach * np.hypot.reduce(part)) / np.sinh(reach * whole)
        )
        way = _WAYS.get(name, f"pairs of {name} on both GPUs (correct)")
        ways.append((way, after))
    return Need(need, unsure.half_width, ways)


def exponents(projection: Projection, figure: str, groups: np.ndarray) -> FloatArray:
    """Return d ln(time) / d ln(figure) of groups of activities, from the laws at the figure times 1 ± `STEP`.

    ``groups`` numbers the group of each activity, 0, 1, ...; the times of a group are added up. The
    result, of shape (n_groups,), is -1 where the time is inverse to the figure (of `SPECS`), 0
    where it does not matter. A NotPublishedError is raised where the target does not publish it.
    """
    times = []
    for change in (1 - STEP, 1 + STEP):
        # the GPU with a figure, or all its peaks, times a number
        gpu = projection.target
        names: Sequence[str] = (
            [peak_path(name) for name in gpu.peaks] if figure == PEAK else [figure]
        )
        if not names:
            raise NotPublishedError(gpu.name, figure)
        for name in names:
            value = published_value(gpu, name)
            if value is None:
                raise NotPublishedError(gpu.name, name)
            gpu = swept(gpu, name, value * change)
        rows = project_activities(
            projection.activities,
            projection.host,
            gpu,
            projection.laws,
            trained_for=projection.target,
        )
        times.append(np.bincount(groups, weights=rows["projected_us"].to_numpy()))
    ratio = np.divide(times[1], times[0], out=np.ones_like(times[0]), where=times[0] > 0)
    change = np.log((1 + STEP) / (1 - STEP))
    return np.asarray(np.log(ratio) / change, dtype=np.float64)


def class_of(activities: pd.DataFrame) -> np.ndarray:
    """Return the class under which the error of each activity counts: its op class, `UNKNOWN` where it has none."""
    op_class = activities["op_class"].astype(str).to_numpy(dtype=object)
    return np.where(op_class == "", UNKNOWN, op_class)

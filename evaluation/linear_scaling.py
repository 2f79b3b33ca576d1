"""Does linear scaling hold? The evidence per kernel class (op × dtype × bound) and over all rows."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass, field, replace
from functools import partial

import numpy as np
import pandas as pd
from scipy import stats

from ..errors import DataError, ParameterError
from ..features.matrix import Dataset
from ..hardware import GPU
from ..laws.applied import SCALING
from ..laws.rates import compute_us, memory_us, where_published
from ..operators.operators import Work, work_of
from ..remarks import Remark
from ..table.measurements import quantity
from .campaigns import Campaigns
from .cluster_bootstrap import bootstrap, effective_groups, percentile_interval
from .law_comparison import Explanation, compare_laws, group_quantile, scatter_test, slope_test
from .ties import holm
from .verdicts import ALPHA, MOST_ROWS, UNKNOWN, Evidence, Interval, Verdict, judge, too_few


@dataclass(frozen=True)
class Efficiency:
    """Median share of the published peaks, 0 to 1; NaN where a peak is not published.

    ``*_flops`` is HE: achieved FLOPS / dense peak FLOPS of the precision the kernel computes in;
    ``*_bandwidth`` the bytes that the kernel must move per second / peak memory bandwidth: above 1
    where a cache delivers them.
    """

    host_flops: float
    target_flops: float
    host_bandwidth: float
    target_bandwidth: float


def median_efficiency(
    rows: pd.DataFrame, *, host: GPU, host_us: np.ndarray, target: GPU, target_us: np.ndarray
) -> Efficiency:
    """Return the median efficiency of workloads (``op``, dimensions, precisions) from the times on both sides (µs)."""
    work = work_of(rows)
    sides = ((host, host_us), (target, target_us))
    return Efficiency(
        *(
            _median_share(work, at_peak, gpu, us)
            for at_peak in (compute_us, memory_us)
            for gpu, us in sides
        )
    )


def _median_share(
    work: Work, at_peak: Callable[..., np.ndarray], gpu: GPU, measured_us: np.ndarray
) -> float:
    """Return the median of time at peak / time measured: the share of that peak."""
    times, _ = where_published(work, partial(at_peak, gpu=gpu))
    return float(np.median(times / measured_us))


ALL = "all"
CLASS_COLUMNS = ["op", "dtype_a", "bound"]
HOST_DURATION = "host_duration_us"  # column of ``Dataset.rows``: the time measured on the host (µs)


@dataclass(frozen=True)
class LawFinding:
    """The evidence on one law in one class, and the verdict on it.

    ``ratio`` is the median of law / host, NaN where the law needs a figure that is not published;
    ``evidence`` is None there, and where there are too few rows or groups.
    """

    law: str
    ratio: float
    evidence: Evidence | None
    verdict: Verdict


@dataclass(frozen=True)
class ClassFinding:
    """All that is said of one kernel class.

    Attributes
    ----------
    op, dtype, bound : str
        The class; each is ``"all"`` in the finding over all rows.
    rows, groups : int
        Pairs of host and target values, and the groups they fall into.
    host_us : tuple of float
        Range of the host's times (µs), 5th to 95th percentile.
    efficiency : Efficiency
        Median share of the peaks reached on both sides.
    laws : tuple of LawFinding
        One per column of ``Dataset.laws``.
    explanations : tuple of Explanation
        The laws, fitted ones included, by their error out of sample; empty where there are too few
        rows or groups.
    members : ndarray of int
        Row numbers of the class in the dataset.
    metric : str
        What scales.
    campaigns : int or None
        That the groups come in; None where they come in none.
    """

    op: str
    dtype: str
    bound: str
    rows: int
    groups: int
    host_us: tuple[float, float]
    efficiency: Efficiency
    laws: tuple[LawFinding, ...]
    explanations: tuple[Explanation, ...]
    members: np.ndarray = field(repr=False, compare=False)
    metric: str = "duration_us"
    campaigns: int | None = None

    @property
    def name(self) -> str:
        """The class in words, e.g. ``"gemm fp8 memory-bound"``."""
        if self.op == ALL:
            return "all rows"
        return f"{self.op} {self.dtype} " + (
            f"{self.bound}-bound" if self.bound != "unknown" else "of unknown bound"
        )

    @property
    def judged(self) -> bool:
        """Whether there are enough rows and groups for a verdict on any law."""
        return any(law.evidence is not None for law in self.laws)

    def law(self, name: str) -> LawFinding:
        """Return the finding on the law of this name."""
        return next(finding for finding in self.laws if finding.law == name)


@dataclass(frozen=True)
class ValidationResult:
    """The answer to 'does linear scaling hold?', with its evidence.

    Attributes
    ----------
    dataset : Dataset
        The pairs that were judged.
    classes : tuple of ClassFinding
        The first is over all rows, the others by falling number of rows.
    margin : float
        What counts as the same: deviations target / law within [1 / (1 + margin), 1 + margin].
    folds, replicates, seed : int
        Grouped folds, bootstrap samples and the seed of both.
    rejected : dict of str to int
        Rows kept out, by reason: in reading, and for want of the metric.
    notes : tuple of Remark
        Remarks of the readers.
    rejected_at : dict of str to str
        Where the first row kept out for a reason was read.
    """

    dataset: Dataset
    classes: tuple[ClassFinding, ...]
    margin: float
    folds: int
    replicates: int
    seed: int
    rejected: dict[str, int]
    notes: tuple[Remark, ...]
    rejected_at: dict[str, str] = field(default_factory=dict)


def assess_scaling(
    dataset: Dataset,
    *,
    margin: float = 0.10,
    folds: int = 10,
    replicates: int = 2000,
    seed: int = 0,
) -> tuple[ClassFinding, ...]:
    """Judge every analytic law, over all rows (first) and per kernel class, by falling number of rows.

    The paired ``rows`` of the data set have the columns op, dtype_a, bound, duration_us and
    host_duration_us and the metric as host_*, its ``laws`` a column of target values per law, NaN
    where a figure it needs is not published. The other parameters are those of `ValidationResult`.
    Raises DataError: there is no host, or no law for the metric.

    The tests of slopes and of scatter are each adjusted by Holm over the classes, law by law; those
    over all rows stand alone. Of a metric that does not grow with the work (power) a slope would
    say nothing about size: it is not tested, and the verdict rests on median and scatter.

    Where groups come in campaigns (`campaigns`), these are the units of all tests and intervals.
    """
    _check(dataset)
    families = Campaigns.of_data(dataset)
    campaigns = None
    if families is not None:
        campaigns = families[1].paired
    members = [((ALL, ALL, ALL), np.arange(len(dataset.y))), *_classes(dataset)]
    evidence = []
    for _, rows in members:
        evidence.append(_evidence(dataset, rows, campaigns, margin, replicates, seed))
    evidence[1:] = adjusted(evidence[1:])
    return tuple(
        _finding(
            dataset,
            key,
            rows,
            of_class,
            margin,
            campaigns,
            folds=folds,
            replicates=replicates,
            seed=seed,
        )
        for (key, rows), of_class in zip(members, evidence, strict=True)
    )


def _check(dataset: Dataset) -> None:
    """Raise a ParameterError or DataError if no law can be judged on the data."""
    if dataset.host is None:
        raise ParameterError("host", "is missing: linear scaling is from one device to another")
    if dataset.laws.shape[1] == 0:
        names = ", ".join(SCALING)
        raise DataError(
            f"no law says how {dataset.metric} scales from device to device: the laws speak of "
            f"{names}"
        )
    if not np.isfinite(dataset.laws.to_numpy()).any():
        why = "; ".join(dataset.report.get("laws", {}).values())
        raise DataError(
            f"no law can be computed: {why or 'the figures they need are not published'}"
        )


def _classes(dataset: Dataset) -> Iterator[tuple[tuple[str, str, str], np.ndarray]]:
    """Yield each kernel class and its row numbers, the largest class first."""
    keys = dataset.rows[CLASS_COLUMNS].astype(str).reset_index(drop=True)
    groups = keys.groupby(CLASS_COLUMNS, sort=True)
    members = [
        ((str(op), str(dtype), str(bound)), rows.index.to_numpy())
        for (op, dtype, bound), rows in groups
    ]
    yield from sorted(members, key=lambda member: -len(member[1]))


def _of(campaigns: np.ndarray | None, rows: np.ndarray) -> np.ndarray | None:
    """Return the campaigns of some rows; None where groups come in none."""
    return None if campaigns is None else campaigns[rows]


def _evidence(
    dataset: Dataset,
    members: np.ndarray,
    campaigns: np.ndarray | None,
    margin: float,
    replicates: int,
    seed: int,
) -> list[Evidence | Verdict]:
    """Return the evidence on each law in one class, or why there is none; the tests are not yet adjusted.

    A law is judged on the rows it has a prediction for (a peak may not be published for some
    precisions).
    """
    laws = dataset.laws.to_numpy()[members]
    sized = quantity(dataset.metric).grows
    verdicts: list[Evidence | Verdict] = [UNKNOWN] * laws.shape[1]
    patterns, pattern_of = np.unique(np.isfinite(laws), axis=1, return_inverse=True)
    for p, defined in enumerate(patterns.T):
        columns = np.flatnonzero(pattern_of == p)
        rows = members[defined]
        if len(rows):
            predicted = laws[np.ix_(defined, columns)]
            evidence = gathered(
                dataset.y[rows],
                predicted,
                dataset.groups[rows],
                margin,
                replicates,
                seed,
                sized=sized,
                campaigns=_of(campaigns, rows),
            )
            for j, column in enumerate(columns.tolist()):
                verdicts[column] = evidence[j]
    return verdicts


def gathered(
    target: np.ndarray,
    laws: np.ndarray,
    groups: np.ndarray,
    margin: float,
    replicates: int,
    seed: int,
    *,
    sized: bool,
    campaigns: np.ndarray | None = None,
) -> list[Evidence] | list[Verdict]:
    """Return the evidence on each column of ``laws``, (n, laws) predictions, from the same rows.

    There is a slope where the values are ``sized``: larger for more work. ``campaigns`` (n,) are
    those that the ``groups`` (n,) come in: where given, they are the units that err together.
    """
    count = len(np.unique(groups))
    level = 1 - 2 * ALPHA
    units = groups
    of_campaigns = None
    if campaigns is not None:
        units = campaigns
        of_campaigns = len(np.unique(campaigns))
    few = too_few(len(target), count, of_campaigns)
    if few:
        return [few] * laws.shape[1]
    deviations = target[:, None] / laws
    median = np.median(deviations, axis=0)
    draws = bootstrap(
        lambda sample: np.median(deviations[sample], axis=0),
        units,
        replicates=replicates,
        seed=seed,
    )
    lower, upper = percentile_interval(draws, effective_groups(units), level=level)
    distance = np.abs(np.log(deviations / median))
    scatter = np.expm1(np.quantile(distance, MOST_ROWS, axis=0))
    evidence = []
    for j, law in enumerate(laws.T):
        test = None
        if sized:
            test = slope_test(law, target, units)
        excess, freedom, scatter_p = _scatter(deviations[:, j], groups, campaigns, margin)
        evidence.append(
            Evidence(
                rows=len(target),
                groups=count,
                deviation=Interval(float(median[j]), float(lower[j]), float(upper[j]), level),
                slope=test.slope if test else None,
                slope_p=test.p_value if test else float("nan"),
                attenuated_slope=test.attenuated if test else float("nan"),
                size_p=test.p_size if test else 1.0,
                drift=_drift(law, test.slope.value) if test else 0.0,
                scatter=float(scatter[j]),
                group_scatter=float(np.expm1(group_quantile(distance[:, j], MOST_ROWS, groups))),
                excess=excess,
                freedom=freedom,
                scatter_p=scatter_p,
                campaigns=of_campaigns,
            )
        )
    return evidence


def _scatter(
    deviations: np.ndarray, groups: np.ndarray, campaigns: np.ndarray | None, margin: float
) -> tuple[float, float, float]:
    """Return the excess of `scatter_test`, its degrees of freedom and its p-value.

    Where groups come in campaigns, both must show it: rows of one group err together within a
    campaign, and groups of one campaign do. The test with the larger p-value counts.
    """
    tests = []
    for units in (groups, campaigns):
        if units is not None:
            excess, freedom = scatter_test(deviations, units, margin)
            tests.append((excess, freedom, float(stats.chi2.sf(freedom * excess, freedom))))
    return max(tests, key=lambda test: test[2])


def _drift(law: np.ndarray, slope: float) -> float:
    """Return by how much the deviation changes from the middle of the class's range to its ends; 0.1 = 10 %."""
    low, high = np.quantile(np.log(law), [0.05, 0.95])
    return float(np.expm1(abs(slope - 1) * (high - low) / 2))


def adjusted(classes: list[list[Evidence | Verdict]]) -> list[list[Evidence | Verdict]]:
    """Adjust the tests of slopes, and those of scatter, by Holm over the classes that have them, law by law."""
    adjusted = [list(one_class) for one_class in classes]
    for law in range(len(classes[0])):
        tested = [
            (i, one)
            for i, one_class in enumerate(classes)
            if isinstance(one := one_class[law], Evidence)
        ]
        if tested:
            size = holm([one.size_p for _, one in tested])
            scatter = holm([one.scatter_p for _, one in tested])
            for (i, one), p, q in zip(tested, size, scatter, strict=True):
                adjusted[i][law] = replace(one, size_p=float(p), scatter_p=float(q))
    return adjusted


def _finding(
    dataset: Dataset,
    key: tuple[str, str, str],
    members: np.ndarray,
    evidence: list[Evidence | Verdict],
    margin: float,
    campaigns: np.ndarray | None,
    **comparison: int,
) -> ClassFinding:
    """Judge the laws of one class and compare them out of sample."""
    assert dataset.host is not None
    families = _of(campaigns, members)
    rows = dataset.rows.iloc[members]
    target = dataset.y[members]
    host = dataset.host_values[members]
    host_us, target_us = (
        rows[name].to_numpy(dtype=float) for name in (HOST_DURATION, "duration_us")
    )
    laws = dataset.laws.iloc[members]
    low, high = np.quantile(host_us, [0.05, 0.95])
    judged = []
    for name, outcome in zip(laws, evidence, strict=True):
        # NaN where the law has no prediction at all
        ratio = float((laws[name] / host).dropna().median())
        if isinstance(outcome, Verdict):
            judged.append(LawFinding(str(name), ratio, None, outcome))
        else:
            judged.append(LawFinding(str(name), ratio, outcome, judge(outcome, margin)))
    return ClassFinding(
        *key,
        rows=len(members),
        groups=len(np.unique(dataset.groups[members])),
        host_us=(float(low), float(high)),
        efficiency=median_efficiency(
            rows, host=dataset.host, host_us=host_us, target=dataset.target, target_us=target_us
        ),
        laws=tuple(judged),
        explanations=_explained(
            laws, target, host, dataset.groups[members], families, dataset.metric, **comparison
        ),
        members=members,
        metric=dataset.metric,
        campaigns=None if families is None else len(np.unique(families)),
    )


def _explained(
    laws: pd.DataFrame,
    target: np.ndarray,
    host: np.ndarray,
    groups: np.ndarray,
    campaigns: np.ndarray | None,
    metric: str,
    **comparison: int,
) -> tuple[Explanation, ...]:
    """Compare the laws that have predictions, on the rows where they all have one; empty where these are too few."""
    computed = laws.dropna(axis=1, how="all")
    rows = computed.notna().all(axis=1).to_numpy()
    families = _of(campaigns, rows)
    if too_few(
        int(rows.sum()),
        len(np.unique(groups[rows])),
        None if families is None else len(np.unique(families)),
    ):
        return ()
    return compare_laws(
        target[rows],
        host[rows],
        computed[rows],
        groups[rows],
        campaigns=families,
        metric=metric,
        **comparison,
    )

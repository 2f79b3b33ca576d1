"""Scaling over size from measured runs: the same problems on devices of one architecture with more and more units.

The size of a device is its number of compute units (SMs, cores), the performance of a problem is 1
/ time. Linear scaling over size is one more analytic law, ``t_target = t_host · size_host /
size_target``, judged like those over generations (`linear_scaling`). How steeply the problems of a
kernel family scale is the exponent b of ``performance ∝ size^b``, 1 where twice the units take half
the time.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from itertools import pairwise
from typing import cast

import numpy as np
import pandas as pd

from ..errors import DataError, ParameterError
from ..evaluation.cluster_bootstrap import bootstrap, effective_groups, percentile_interval
from ..evaluation.linear_scaling import HOST_DURATION, ValidationResult, assess_scaling
from ..evaluation.verdicts import Interval, too_few
from ..features.matrix import Dataset, build_dataset, groups_of
from ..hardware import GPU
from ..operators.operators import OPS
from ..remarks import Remark, remark
from ..table.problems import one_per_problem, problem_ids, rows_of
from .scaling_class import MARGIN, Growth, growth_of

CU_LAW = "CU scaling"
"""The law ``t_target = t_host · size_host / size_target``, by the name the user sees; beside it
'size' in a verdict is that of the problem."""
FAMILY = ["op", "family", "dtype_a"]
FOLDS = 10
LEVEL = 0.95


@dataclass(frozen=True)
class DeviceSizes:
    """The problems that every device has solved."""

    devices: tuple[GPU, ...]  # by increasing size
    sizes: np.ndarray  # their units, shape (d,)
    rows: pd.DataFrame  # the n problems, as measured on the smallest device
    times_us: np.ndarray  # of each problem on each device, shape (n, d)
    groups: np.ndarray  # problems that err together (GEMM: of one weight shape), shape (n,)

    @property
    def exponents(self) -> np.ndarray:
        """The exponent of each problem: the slope of log(1 / time) on log(size), by least squares."""
        x = np.log(self.sizes) - np.log(self.sizes).mean()  # (d,), centred
        return -np.log(self.times_us) @ x / (x @ x)


@dataclass(frozen=True)
class FamilyScaling:
    """How the problems of one kernel family scale over size.

    ``exponent`` is the median over problems with its cluster-bootstrap interval, not a number where
    there are too few problems or groups; ``spread`` the 5th and 95th percentile of the problems'
    exponents.
    """

    op: str
    family: str
    dtype: str
    problems: int
    groups: int
    exponent: Interval
    spread: tuple[float, float]
    growth: Growth

    @property
    def name(self) -> str:
        """The family in words, e.g. ``"gemm a8w8_blockscale fp8"``."""
        return " ".join(part for part in (self.op, self.family, self.dtype) if part)


@dataclass(frozen=True)
class DeviceScaling:
    """What runs on devices of several sizes say."""

    measured: DeviceSizes  # the problems that every device solved
    families: tuple[FamilyScaling, ...]  # how each kernel family scales, the largest first
    # linear scaling over size, from the smallest device to each larger one
    verdicts: tuple[ValidationResult, ...]
    limits: tuple[Remark, ...]  # what the devices cannot show (`limits`)
    notes: tuple[Remark, ...] = ()  # what the readers remark


def assess_devices(
    frame: pd.DataFrame,
    devices: Sequence[GPU],
    *,
    group: Sequence[str] | None = None,
    margin: float = 0.10,
    replicates: int = 2000,
    seed: int = 0,
    notes: Sequence[Remark] = (),
) -> DeviceScaling:
    """Say how measured problems scale from the smallest device to larger ones.

    Frame, devices and groups are those of `common_problems`. The same time is t_target / t_law
    within [1/(1 + margin), 1 + margin]; ``replicates`` and ``seed`` are those of the cluster
    bootstrap, ``notes`` go along.
    """
    measured = common_problems(frame, devices, group)
    first, *others = measured.devices
    verdicts = tuple(
        size_verdict(
            frame, first, other, group=group, margin=margin, replicates=replicates, seed=seed
        )
        for other in others
    )
    grown = families(measured, replicates=replicates, seed=seed)
    return DeviceScaling(measured, tuple(grown), verdicts, tuple(limits(measured)), tuple(notes))


def common_problems(
    frame: pd.DataFrame, devices: Sequence[GPU], group: Sequence[str] | None = None
) -> DeviceSizes:
    """Return what was measured on every one of the devices.

    ``frame`` is a measurement table (`table.measurements`), ``devices`` are two or more of
    different sizes, ``group`` the columns that make a group, by default what each operator says. A
    ParameterError says that there are fewer than two ``devices``, a DataError that two are of one
    size, or that there is no problem that all have solved.
    """
    ordered = by_size(devices)
    measured = frame[frame["op"].isin(OPS)].reset_index(drop=True)
    parts = [one_per_problem(rows_of(measured, device.name))[0] for device in ordered]
    ids = problem_ids(pd.concat(parts, ignore_index=True), device=False)
    ends = np.cumsum([len(part) for part in parts])
    split = np.split(np.asarray(ids), ends[:-1])
    others = [set(ids_of_device.tolist()) for ids_of_device in split[1:]]
    common = []
    for one in split[0].tolist():
        if all(one in solved for solved in others):
            common.append(one)
    if not common:
        raise DataError(
            f"no problem was measured on all of {', '.join(device.name for device in ordered)}"
        )
    times = [
        pd.Series(part["duration_us"].to_numpy(dtype=float), index=ids_of_device)
        .loc[common]
        .to_numpy()
        for part, ids_of_device in zip(parts, split, strict=True)
    ]
    rows = parts[0][np.isin(split[0], common)].reset_index(drop=True)
    sizes = np.array([float(device.require("cus")) for device in ordered])
    return DeviceSizes(tuple(ordered), sizes, rows, np.stack(times, axis=1), groups_of(rows, group))


def families(
    measured: DeviceSizes, *, replicates: int = 2000, seed: int = 0
) -> list[FamilyScaling]:
    """Return how each kernel family scales, the largest first."""
    keys = measured.rows.reindex(columns=FAMILY).fillna("").astype(str)
    exponents = measured.exponents
    grown = []
    for key, at in keys.groupby(FAMILY, sort=True).indices.items():
        op, family, dtype = cast("tuple[str, str, str]", key)
        grown.append(
            _family((op, family, dtype), exponents[at], measured.groups[at], replicates, seed)
        )
    return sorted(grown, key=lambda one: -one.problems)


def size_verdict(
    frame: pd.DataFrame,
    host: GPU,
    target: GPU,
    *,
    group: Sequence[str] | None = None,
    margin: float = 0.10,
    replicates: int = 2000,
    seed: int = 0,
) -> ValidationResult:
    """Judge linear scaling over size from one device to a larger one, as `linear_scaling` judges other laws.

    The laws over generations that can be computed, and say something else, stand beside it.
    """
    dataset = build_dataset(frame, host=host, target=target, group=group)
    linear = _cu_law(dataset, host)
    others = {
        str(name): law
        for name, law in dataset.laws.items()
        if law.notna().any() and not _same(law, linear)
    }
    dataset = replace(dataset, laws=pd.DataFrame({CU_LAW: linear, **others}))
    classes = assess_scaling(dataset, margin=margin, folds=FOLDS, replicates=replicates, seed=seed)
    return ValidationResult(dataset, classes, margin, FOLDS, replicates, seed, {}, ())


def with_cu_law(dataset: Dataset) -> Dataset:
    """Return the data set with linear scaling over size as one more law, where size is what its devices differ in.

    That is between devices of one architecture with different numbers of units. Where a law already
    says the same (FLOPS scaling between devices of one clock) the data set is returned as it is.
    """
    host = dataset.host
    target = dataset.target
    if host is None or dataset.metric != "duration_us" or not host.arch or host.arch != target.arch:
        return dataset
    if host.cus is None or target.cus is None or host.cus == target.cus:
        return dataset
    linear = _cu_law(dataset, host)
    if any(_same(law, linear) for _, law in dataset.laws.items()):
        return dataset
    return replace(dataset, laws=dataset.laws.assign(**{CU_LAW: linear}))


def _cu_law(dataset: Dataset, host: GPU) -> np.ndarray:
    """Return ``t_host · units_host / units_target`` (µs)."""
    ratio = host.require("cus") / dataset.target.require("cus")
    return dataset.rows[HOST_DURATION].to_numpy(dtype=float) * ratio


def _same(law: pd.Series, linear: np.ndarray) -> bool:
    return bool(np.allclose(law.to_numpy(dtype=float), linear))


def limits(measured: DeviceSizes) -> list[Remark]:
    """Return what these devices cannot show: curvature from two sizes, and what does not grow with the units.

    Codes: ``two-sizes-only``, ``scaling-figure-not-published``, ``figure-out-of-proportion``,
    ``architectures-differ``.
    """
    first = measured.devices[0]
    last = measured.devices[-1]
    shown = []
    if len(measured.devices) == 2:
        text = (
            "two sizes give an exponent but no curvature: they cannot show where scaling bends or "
            "ends"
        )
        shown.append(remark("two-sizes-only", text))
    ratio = measured.sizes[-1] / measured.sizes[0]
    for figure, name, expected in (
        ("memory_bw_gbs", "memory bandwidth", ratio),
        ("boost_mhz", "clock", 1.0),
    ):
        small = getattr(first, figure)
        large = getattr(last, figure)
        if small is None or large is None:
            device = (first if small is None else last).name
            text = f"{name} of {device} is not published"
            shown.append(remark("scaling-figure-not-published", text, figure=figure, device=device))
        elif abs(large / small / expected - 1) > MARGIN:
            grown = {"figure": figure, "ratio": large / small, "units_ratio": float(ratio)}
            text = (
                f"{name} grows × {large / small:.2f} from {first.name} to {last.name}, the units "
                f"× {ratio:.2f}: not a "
                "scale model"
            )
            shown.append(
                remark("figure-out-of-proportion", text, first=first.name, last=last.name, **grown)
            )
    if len({device.arch for device in measured.devices}) > 1:
        shown.append(
            remark(
                "architectures-differ",
                "the devices are not of one architecture: they differ in more than size",
            )
        )
    return shown


def by_size(devices: Sequence[GPU]) -> list[GPU]:
    """Return devices by increasing number of units.

    A ParameterError says that there are fewer than two ``devices``, a DataError that two are of one
    size.
    """
    if len(devices) < 2:
        raise ParameterError(
            "devices", "needs two devices or more of different sizes, e.g. MI308X,MI300X"
        )
    ordered = sorted(devices, key=lambda device: device.require("cus"))
    for small, large in pairwise(ordered):
        if small.require("cus") == large.require("cus"):
            raise DataError(
                f"{small.name} and {large.name} both have {small.cus} units: scaling needs two "
                "sizes"
            )
    return ordered


def _family(
    key: tuple[str, str, str], exponents: np.ndarray, groups: np.ndarray, replicates: int, seed: int
) -> FamilyScaling:
    count = len(np.unique(groups))
    median = float(np.median(exponents))
    few = too_few(len(exponents), count)
    interval = equal = Interval(median, np.nan, np.nan, LEVEL)
    if few is None:
        draws = bootstrap(
            lambda rows: np.median(exponents[rows]), groups, replicates=replicates, seed=seed
        )
        interval, equal = (
            _interval(median, draws, groups, level) for level in (LEVEL, 2 * LEVEL - 1)
        )
    low, high = np.quantile(exponents, [0.05, 0.95])
    if few:
        growth = Growth.TOO_FEW
    else:
        growth = growth_of((interval.lower, interval.upper), (equal.lower, equal.upper))
    return FamilyScaling(*key, len(exponents), count, interval, (float(low), float(high)), growth)


def _interval(median: float, draws: np.ndarray, groups: np.ndarray, level: float) -> Interval:
    lower, upper = percentile_interval(draws, effective_groups(groups), level=level)
    return Interval(median, float(lower), float(upper), level)

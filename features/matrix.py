"""From the measurement table to a data set: feature matrix, observed values, groups, and the laws to beat."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import partial
from typing import Any, Self

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from ..arrays import BoolArray
from ..errors import DataError, counted, few
from ..hardware import GPU, Comparison, all_gpus
from ..laws.applied import SUM_OF_PARTS, laws_of_one, scaling_laws, size, sum_of_parts
from ..laws.bounds import bound
from ..laws.computation import ROOFLINE
from ..laws.rates import HOST_DEVICE, on_each, published
from ..operators.operators import Work, group_labels, work_of
from ..operators.work import positive
from ..remarks import remark
from ..table.measurements import measured_column, quantity
from ..table.problems import (
    HOST,
    Pairs,
    by_content,
    one_per_problem,
    pair,
    pair_each,
    rows_of,
)
from .additions import Additions
from .catalogue import APART
from .recipe import FeatureRecipe, learn_matrix


@dataclass(frozen=True)
class Dataset:
    """The data of models; row i of every part is the same workload.

    Attributes
    ----------
    X : DataFrame of shape (n, p)
        Features, float64, RangeIndex.
    y : ndarray of shape (n,)
        The metric observed on the target, > 0 (microseconds for ``duration_us``).
    groups : ndarray of str of shape (n,)
        Rows of one group are never split between training and validation.
    rows : DataFrame of n rows
        The measured columns (dimensions, precisions, kernel, source, and the host's as ``host_*``),
        and by our formulas ``flops``, ``bytes``, ``compute_dtype`` and ``bound`` (on the host;
        if there is none or many, on the target).
    laws : DataFrame of n rows
        What the laws of the metric predict (`laws.applied.SCALING`; with one device `OF_ONE`), in
        its unit; no column for a metric without laws. NaN where a figure is not published.
    reference : Series of n rows
        What the fitted baselines scale, its name saying what that is: ``host``, the metric measured
        there; of many targets `BETWEEN_MANY`; without a host a measure of `laws.applied.size`. NaN
        for unpaired rows.
    unpaired : Dataset or None
        The target's rows that the host has not measured: NaN in the columns that need its
        measurement.
    host : GPU or None
        None for one device; `hardware.Comparison.MANY` where each row names one
        (`laws.rates.HOST_DEVICE`).
    target : GPU
        The device to predict.
    metric : str
        Name of y.
    recipe : FeatureRecipe
        How X was made, for new rows.
    report : dict
        Counts and remarks for the user, fit for JSON.
    group_by : tuple of str or None
        Columns that make a group; none of them: the column ``group`` itself; None: those of each
        operator.
    """

    X: pd.DataFrame
    y: np.ndarray
    groups: np.ndarray
    rows: pd.DataFrame
    laws: pd.DataFrame
    reference: pd.Series
    unpaired: Dataset | None
    host: GPU | None
    target: GPU
    metric: str
    recipe: FeatureRecipe
    report: dict[str, Any] = field(default_factory=dict)
    group_by: tuple[str, ...] | None = None

    def __len__(self) -> int:
        return len(self.y)

    def __repr__(self) -> str:
        groups = counted(len(np.unique(self.groups.astype(str))), "group")
        rows = counted(len(self), "row")
        return f"<Dataset {self.metric} of {self.target.name}: {rows}, {groups}, {self.X.shape[1]} features>"

    @property
    def comparison(self) -> Comparison:
        """The devices of the rows."""
        return Comparison(self.host, self.target)

    @property
    def host_groups(self) -> np.ndarray | None:
        """The group of each row on its host, shape (n,); None where all rows have one host, or none."""
        if not self.comparison.has_many_hosts:
            return None
        measured = {}
        for name in self.rows:
            if str(name).startswith(HOST):
                measured[str(name).removeprefix(HOST)] = self.rows[name]
        hosts = self.rows.assign(**measured)
        return groups_of(hosts, self.group_by or None, self.group_by == ()).astype(str)

    def taken(self, rows: BoolArray) -> Self:
        """Return the data set of some rows, (n,); of unpaired rows all."""
        frames = {
            name: getattr(self, name)[rows].reset_index(drop=True)
            for name in ("X", "rows", "laws", "reference")
        }
        return replace(self, **frames, y=self.y[rows], groups=self.groups[rows])

    @property
    def host_values(self) -> np.ndarray:
        """The metric measured on the host, shape (n,); there must be one."""
        return self.rows[HOST + self.metric].to_numpy(dtype=np.float64)


def build_dataset(
    frame: pd.DataFrame,
    *,
    host: GPU | None,
    target: GPU,
    metric: str = "duration_us",
    group: Sequence[str] | None = None,
    without: Sequence[str] = (),
    additions: Additions | None = None,
) -> Dataset:
    """Pair the measurements of two devices, or take those of one, and build the feature matrix.

    Without a ``host``, the device the features are measured on, the target is predicted from shapes
    alone. Where the target is `hardware.Comparison.MANY`, host and target differ from row to row
    (`table.problems.pair_each`). Rows are ordered by their content (`table.problems.by_content`).
    By default a ``group`` is the column of that name where every row
    has it, else that of each operator. Features that match a shell pattern of ``without`` are left
    out (`recipe.learn_matrix`); ``additions`` are the user's features and laws. Raises
    DataError: a device has no rows, or none with the metric; no problem is common; or a column is
    missing.
    """
    frame, without_work = _with_operators(by_content(frame))
    metric = measured_column(frame, metric)
    comparison = Comparison(host, target)
    additions = additions or Additions()
    frame = additions.added_to(frame, host=host is not None)
    if host is None:
        rows, counts = _target_rows(frame, comparison, metric)
        recipe, X = learn_matrix(rows, None, target, metric, without, additions)
        report = {"target_rows": len(rows), **counts, **without_work}
        return _one_device(rows, recipe, X, group, report)
    if comparison.is_many:
        pairs = _pairs_of_many(frame, comparison, metric)
    else:
        pairs = pair(frame, host.name, target.name, metric=metric)
    y = positive(pairs.paired, metric)
    recipe, X = learn_matrix(pairs.paired, host, target, metric, without, additions)
    work = work_of(pairs.paired)
    host_values = positive(pairs.paired, HOST + metric)
    laws, notes = scaling_laws(
        metric, work, host_values, host, target, pairs.paired, additions.laws
    )
    grouped = has_groups(pairs.paired) and has_groups(pairs.target_only)
    unpaired = None
    unlike = 0
    if not comparison.is_many:
        unpaired, unlike = _unpaired(pairs.target_only, recipe, group, grouped)
    reference = pd.Series(host_values, name="host")
    if comparison.is_many and BETWEEN_MANY in laws:
        reference = laws[BETWEEN_MANY]
    return Dataset(
        X=X,
        y=y,
        groups=groups_of(pairs.paired, group, grouped),
        rows=_described(pairs.paired, work, host),
        laws=laws,
        reference=reference,
        unpaired=unpaired,
        host=host,
        target=target,
        metric=metric,
        recipe=recipe,
        report={
            **pairs.report,
            **without_work,
            "unpaired_unlike_pairs": unlike,
            "laws": notes,
            "features": _features(recipe),
        },
        group_by=_group_by(group, grouped),
    )


def _with_operators(frame: pd.DataFrame) -> tuple[pd.DataFrame, dict[str, int]]:
    """Return the rows with stated work, and the number of others.

    Kernels known by name and launch alone, whole applications and runs of serving share no feature
    of work with operators: they are a separate data set (``where={"op": "kernel"}``), and stay
    where there is nothing else.
    """
    without_work = frame["op"].isin(APART)
    if without_work.all() or not without_work.any():
        return frame, {}
    counts = {"without_operator": int(without_work.sum())}
    return frame[~without_work].reset_index(drop=True), counts


def _target_rows(
    frame: pd.DataFrame, comparison: Comparison, metric: str
) -> tuple[pd.DataFrame, dict[str, Any]]:
    """Return a row for each problem that was measured on the target, or on each of many, and the counts left out."""
    rows, counts = one_per_problem(rows_of(frame, comparison.target.name), metric)
    if not comparison.is_many:
        return rows, counts
    rows, left_out = _with_published_devices(rows)
    return rows, {**counts, **left_out}


def _pairs_of_many(frame: pd.DataFrame, comparison: Comparison, metric: str) -> Pairs:
    """Return the rows of many targets, each beside what the host, or one of many, measured."""
    rows, counts = _target_rows(frame, comparison, metric)
    hosts = None
    if comparison.one_host is not None:
        _check_rows_left(rows, frame, comparison.one_host.name)
        hosts = {comparison.one_host.name}
    pairs = pair_each(rows, hosts, metric=metric)
    remarks = [*pairs.report["remarks"], *counts.get("remarks", ())]
    return replace(pairs, report={**pairs.report, **counts, "remarks": remarks})


BETWEEN_MANY = "roofline scaling"
"""The law that stands for the host's time where rows have many targets: a ratio is not the same for all of them."""


def _check_rows_left(rows: pd.DataFrame, frame: pd.DataFrame, host: str) -> None:
    if not rows["device"].eq(host).any():
        rows_of(frame, host)  # says so where it has no rows at all
        raise DataError(f"no row of {host} is left: its peak at their precision is not published")


def _with_published_devices(rows: pd.DataFrame) -> tuple[pd.DataFrame, dict[str, Any]]:
    """Return the rows of GPUs with published figures, and the others by device."""
    works = work_of(rows)
    times = on_each(works, rows, Comparison.MANY, published(ROOFLINE))
    usable = np.isfinite(times) | rows["op"].isin(APART).to_numpy()
    if usable.all():
        return rows, {}
    lost = rows["device"][~usable].value_counts()
    which = ", ".join(f"{name} ({counted(count, 'row')})" for name, count in lost.items())
    if not usable.any():
        raise DataError(f"no GPU of the rows has the figures that features need: {which}")
    text = (
        f"left out: {which}: no such GPU is known, or its peak at the precision of these rows is "
        "not published"
    )
    left_out = remark("devices-left-out", text, devices=tuple(lost.index), rows=int(lost.sum()))
    return rows[usable].reset_index(drop=True), {"remarks": [left_out]}


def _one_device(
    rows: pd.DataFrame,
    recipe: FeatureRecipe,
    X: pd.DataFrame,
    group: Sequence[str] | None,
    report: dict[str, Any],
) -> Dataset:
    work = work_of(rows)
    target = recipe.target
    metric = recipe.metric
    grouped = has_groups(rows)
    laws, notes = laws_of_one(metric, work, target, rows, recipe.additions.laws)
    return Dataset(
        X=X,
        y=positive(rows, metric),
        groups=groups_of(rows, group, grouped),
        rows=_described(rows, work, target),
        laws=laws,
        reference=_size(metric, work, target, rows),
        unpaired=None,
        host=None,
        target=target,
        metric=metric,
        recipe=recipe,
        report={**report, "laws": notes, "features": _features(recipe)},
        group_by=_group_by(group, grouped),
    )


def _size(metric: str, work: Work, target: GPU, rows: pd.DataFrame) -> pd.Series:
    """Return the measure that fitted baselines scale without a host, and its name.

    That is the ``sum of parts`` of runs of serving, else
    ``roofline``, ``memory`` where a peak is not published, ``flops`` or ``bytes`` where no figure
    of the target is, ``work-items`` where the work of a row is unknown, and ``constant`` for a
    metric that does not grow with the work.
    """
    parts = sum_of_parts(metric, rows, target)
    if parts is not None:
        return pd.Series(parts, name=SUM_OF_PARTS)
    measure = "constant"
    if quantity(metric).grows:
        measure = _measure_of_size(work, target, rows)
    values = on_each(work, rows, target, partial(size, measure))
    return pd.Series(values, name=measure)


def _measure_of_size(work: Work, target: GPU, rows: pd.DataFrame) -> str:
    for measure in ("roofline", "memory"):
        values = on_each(work, rows, target, published(partial(size, measure)))
        if np.isfinite(values).all():
            return measure
    if not np.isfinite(work.bytes).all():
        return "work-items"
    if (work.flops > 0).all():
        return "flops"
    return "bytes"


def _unpaired(
    rows: pd.DataFrame, recipe: FeatureRecipe, group: Sequence[str] | None, grouped: bool
) -> tuple[Dataset | None, int]:
    """Return the data set of the rows without partner, and the number of kinds that no pair has."""
    usable = recipe.knows(rows)
    like = rows[usable].reset_index(drop=True)
    if like.empty:
        return None, len(rows)
    dataset = Dataset(
        X=recipe.without_host(like),
        y=positive(like, recipe.metric),
        groups=groups_of(like, group, grouped),
        rows=_described(like, work_of(like), recipe.host or recipe.target),
        laws=pd.DataFrame(index=like.index),
        reference=pd.Series(np.nan, index=like.index),
        unpaired=None,
        host=recipe.host,
        target=recipe.target,
        metric=recipe.metric,
        recipe=recipe,
    )
    return dataset, int((~usable).sum())


def _group_by(group: Sequence[str] | None, grouped: bool) -> tuple[str, ...] | None:
    if group is not None:
        return tuple(group)
    if grouped:
        return ()
    return None


@dataclass(frozen=True)
class KnownGroups:
    """The trained groups, by which new rows are recognised as members."""

    by: tuple[str, ...] | None  # as `Dataset.group_by`
    rows_of: Mapping[str, int] = field(hash=False)  # the trained rows of each group
    # of a run over all devices those that were trained, and from whose measurements; else none
    devices: frozenset[str] = frozenset()
    hosts: frozenset[str] = frozenset()

    @classmethod
    def of(cls, dataset: Dataset) -> Self:
        """Return the groups of a data set."""
        if dataset.comparison.is_many:
            devices = dataset.rows["device"].unique()
        else:
            devices = ()
        if dataset.comparison.has_many_hosts:
            hosts = dataset.rows[HOST_DEVICE].unique()
        else:
            hosts = ()
        counts = pd.Series(dataset.groups.astype(str)).value_counts(sort=False)
        rows_of = {str(name): int(count) for name, count in counts.items()}
        return cls(
            dataset.group_by, rows_of, frozenset(map(str, devices)), frozenset(map(str, hosts))
        )

    def nearness(self, rows: pd.DataFrame, target: GPU = Comparison.MANY) -> np.ndarray:
        """Return how near each row's device is to those trained: `SIBLING`, `STRANGER`, `FOREIGN`, or "" of them.

        A sibling is of the family of one of them (`hardware.GPU.family`), a stranger of the maker
        of one; `OTHER_HOST` is that of a row whose host was none. A ``target`` is a GPU of the
        user, never trained whatever its name, that all rows are asked of.
        """
        if not self.devices:
            return np.full(len(rows), "", dtype=object)
        catalogue = {gpu.name: gpu for gpu in all_gpus()}
        trained = [catalogue[name] for name in self.devices if name in catalogue]
        families = {gpu.family for gpu in trained}
        vendors = {gpu.vendor for gpu in trained}

        def near(gpu: GPU | None) -> str:
            if gpu is None or gpu.vendor not in vendors:
                return FOREIGN
            if gpu.family in families:
                return SIBLING
            return STRANGER

        if not Comparison.of_target(target).is_many:
            nearest = np.full(len(rows), near(target), dtype=object)
        else:
            near_by_name = dict.fromkeys(self.devices, "")
            for name in rows["device"].unique():
                near_by_name.setdefault(name, near(catalogue.get(name)))
            nearest = rows["device"].map(near_by_name).to_numpy(dtype=object, copy=True)
        if self.hosts:
            nearest[~rows[HOST_DEVICE].isin(self.hosts).to_numpy()] = OTHER_HOST
        return nearest

    def trained_rows(self, rows: pd.DataFrame) -> NDArray[np.int64]:
        """Return the number of trained rows in each row's group, (n,); 0 without a stated group.

        The rows are of operators of `OPS`.
        """
        counts = np.zeros(len(rows), dtype=np.int64)
        if self.by == ():
            needed = ["group"]
        else:
            needed = ["device" if name == DEVICE_FAMILY else name for name in self.by or ()]
        complete = np.full(len(rows), all(name in rows for name in needed))
        if complete.any() and needed:
            filled = rows[needed].notna() & (rows[needed] != "")
            complete = filled.all(axis=1).to_numpy(copy=True)
        if complete.any():
            if not complete.all():
                rows = rows[complete]
            codes, names = pd.factorize(groups_of(rows, self.by or None, self.by == ()))
            trained = [self.rows_of.get(str(name), 0) for name in names]
            counts[complete] = np.array(trained, dtype=np.int64)[codes]
        return counts

    def to_dict(self) -> dict[str, Any]:
        """Return the JSON types."""
        saved: dict[str, Any] = {"by": None, "rows_of": dict(sorted(self.rows_of.items()))}
        if self.by is not None:
            saved["by"] = list(self.by)
        if self.devices:
            saved["devices"] = sorted(self.devices)
        if self.hosts:
            saved["hosts"] = sorted(self.hosts)
        return saved

    @classmethod
    def from_dict(cls, saved: Mapping[str, Any]) -> Self:
        """Return the object of `to_dict`; a KeyError, TypeError or ValueError if it is damaged."""
        by = saved["by"]
        rows_of = {str(name): int(count) for name, count in saved["rows_of"].items()}
        if not all(count > 0 for count in rows_of.values()):
            raise ValueError("a trained group must have rows")
        if by is not None:
            by = tuple(map(str, by))
        devices = frozenset(map(str, saved.get("devices", ())))
        hosts = frozenset(map(str, saved.get("hosts", ())))
        return cls(by, rows_of, devices, hosts)


def has_groups(rows: pd.DataFrame) -> bool:
    """Whether every row states its group."""
    return "group" in rows and bool((rows["group"].notna() & (rows["group"] != "")).all())


DEVICE_FAMILY = "device_family"
"""Column that rows can be grouped by without having it: the family of the device that each names."""
BY_DEVICE = (("device",), (DEVICE_FAMILY,))  # columns that make a group of all rows of a device
SIBLING = "sibling"
STRANGER = "stranger"
FOREIGN = "foreign"
"""A device that was not trained: one of its family was; none of its family, but one of its maker; none of its maker."""
OTHER_HOST = "other host"  # a row of a run with many hosts that was measured on none of them


def with_device_family(rows: pd.DataFrame) -> pd.DataFrame:
    """Return the rows with the family of the device that each names (`hardware.GPU.family`), or its name if unknown."""
    families = {gpu.name: gpu.family for gpu in all_gpus()}
    return rows.assign(**{DEVICE_FAMILY: [families.get(name, name) for name in rows["device"]]})


def groups_of(
    rows: pd.DataFrame, group: Sequence[str] | None = None, grouped: bool | None = None
) -> np.ndarray:
    """Return the group of every completed row, as words.

    It is made of the columns `group`. By default it is the column ``group`` where every row has it
    (`grouped`; decided by these rows alone where None), else the operators'
    (`operators.group_labels`). Paired and unpaired rows of one data set must be asked together, or
    held-out groups would have another name among the unpaired. Raises DataError for a column that
    is missing, or empty in some rows.
    """
    if group is None:
        if grouped is None:
            grouped = has_groups(rows)
        if grouped:
            return rows["group"].astype(str).to_numpy(dtype=object)
        return group_labels(rows)
    if DEVICE_FAMILY in group:
        rows = with_device_family(rows)
    missing = [name for name in group if name not in rows]
    if missing:
        available = [str(name) for name in rows.columns if rows[name].notna().any()]
        raise DataError(f"no column {few(missing)} to group by: there are {', '.join(available)}")
    empty = [name for name in group if (rows[name].isna() | (rows[name] == "")).any()]
    if empty:
        raise DataError(f"cannot group by {few(empty)}: empty in some rows")
    words = [name + " " + rows[name].astype(str).str.removesuffix(".0") for name in group]
    labels = [" ".join(of_row) for of_row in zip(*words, strict=True)]
    return np.array(labels, dtype=object)


def _described(rows: pd.DataFrame, work: Work, gpu: GPU) -> pd.DataFrame:
    """Return the rows with figures of their work, without empty columns."""
    bounds = on_each(work, rows, gpu, bound, "unknown")
    columns = {
        "flops": work.flops,
        "bytes": work.bytes,
        "compute_dtype": work.dtype,
        "bound": bounds,
    }
    return rows.dropna(axis=1, how="all").assign(**columns)


def _features(recipe: FeatureRecipe) -> dict[str, Any]:
    return {
        "used": len(recipe.columns),
        "constant": list(recipe.constant),
        "proportional": list(recipe.redundant),
        "not_published": dict(recipe.skipped),
    }

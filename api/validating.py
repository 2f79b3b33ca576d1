"""Validating: measurements of two devices to the classes of kernels in which linear scaling holds."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path

from ..datasets import DEFAULT_HOST, DEFAULT_TARGET
from ..errors import ParameterError
from ..evaluation.linear_scaling import ValidationResult, assess_scaling
from ..features.matrix import Dataset, build_dataset
from ..hardware import find
from ..output import dumps, write_texts
from ..report.html import page
from ..report.validation import validation_document
from ..scaling.devices import with_cu_law
from .tables import load_measurements

FILES = ("validation.json", "validation.html")


def validate(
    data: Sequence[Path | str] | None = None,
    *,
    host: str | None = None,
    target: str | None = None,
    where: Mapping[str, Sequence[str]] | None = None,
    group: Sequence[str] | None = None,
    margin: float = 0.10,
    metric: str = "duration_us",
    units: Mapping[str, str] | None = None,
    defaults: Mapping[str, str] | None = None,
    folds: int = 10,
    replicates: int = 2000,
    seed: int = 0,
) -> ValidationResult:
    """Judge FLOPS, bandwidth and roofline scaling from host to target, over all rows and per kernel class.

    Of energy the same laws times the ratio of the TDPs are judged, of power that ratio alone.

    Parameters
    ----------
    data : sequence of path, optional
        Measured files and folders; None: the embedded measurements.
    host, target : str
        Names or TOML files of the devices; with the embedded measurements they have defaults.
    where : mapping of str to sequence of str, optional
        Column -> accepted values; only these rows count.
    group : sequence of str, optional
        Columns that make a group; by default what each operator says (GEMM: the weight shape).
    margin : float, default=0.10
        What counts as the same: target / law within [1 / (1 + margin), 1 + margin].
    metric : str, default="duration_us"
        The measured column that is scaled.
    units, defaults : mapping of str to str, optional
        Units, and values, of columns whose files do not state them.
    folds, replicates, seed : int
        Grouped folds, bootstrap samples, and the seed of both.

    Returns
    -------
    ValidationResult
        Findings per class; `report.validation` turns it into a table, JSON and a page.

    Raises
    ------
    FlopcastError
        If the data, the devices or an option cannot be used.

    Examples
    --------
    >>> result = validate(where={"op": ["gemm"]}, replicates=200)
    >>> result.classes[0].name
    'all rows'
    """
    if not 0 < margin < 1:
        raise ParameterError("margin", f"must lie between 0 and 1, got {margin:g}: 0.1 means ±10 %")
    if not data:
        host, target = host or DEFAULT_HOST, target or DEFAULT_TARGET
    if host is None or target is None:
        missing = "host" if host is None else "target"
        raise ParameterError(missing, "is missing: which devices? a host and a target, e.g. MI300X and MI355X")
    devices = find(host), find(target)
    if devices[0] == devices[1]:
        raise ParameterError("host", f"and the target are both {devices[0].name}: scaling needs two devices")
    measured = load_measurements(data, where, units, defaults, [device.name for device in devices])
    dataset = build_dataset(measured.frame, host=devices[0], target=devices[1], metric=metric, group=group)
    dataset = with_cu_law(dataset)
    classes = assess_scaling(dataset, margin=margin, folds=folds, replicates=replicates, seed=seed)
    rejected = measured.rejected_by_reason | _without_metric(dataset)
    return ValidationResult(dataset, classes, margin, folds, replicates, seed, rejected, measured.notes)


def _without_metric(dataset: Dataset) -> dict[str, int]:
    """Return how many rows were kept out because of the metric, by reason."""
    reasons = {f"no {dataset.metric}": "without_metric", f"{dataset.metric} is not positive": "metric_not_positive"}
    return {words: dataset.report[key] for words, key in reasons.items() if dataset.report[key]}


def write_validation(result: ValidationResult, out: Path) -> None:
    """Write validation.json and validation.html into the folder ``out``, whole or not at all.

    Raises
    ------
    DataError
        If ``out`` holds other files or cannot be written.
    """
    found = validation_document(result)
    write_texts(out, {FILES[0]: dumps(found.data, missing=True), FILES[1]: page(found)})

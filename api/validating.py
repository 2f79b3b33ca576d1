"""Validating: measurements of two devices to the classes of kernels in which linear scaling holds."""

from __future__ import annotations

from typing import Unpack

import pandas as pd
import plotly.graph_objects as go

from .. import values
from ..datasets import DEFAULT_HOST, DEFAULT_TARGET
from ..errors import ParameterError, check_margin, check_number
from ..evaluation.linear_scaling import ValidationResult, assess_scaling
from ..features.matrix import build_dataset
from ..output import FILES
from ..report.document import Document
from ..report.formats import counted
from ..report.result import Result, saving
from ..report.validation import efficiency_figure, roofline_figure, validation_document
from ..scaling.devices import with_cu_law
from ..settings import configured, spelt_out
from ..table.conditions import MeasuredReading
from ..values import Columns, Margin
from .devices import Device, device
from .tables import Data, check_devices, items_or_embedded, load_measurements


class Validation(Result, ValidationResult):
    """What the measurements say of linear scaling, class by class: `ValidationResult` with its table and its page.

    Examples
    --------
    >>> import flopcast as fc
    >>> found = fc.validate(where={"m": (None, 64)}, replicates=200)
    >>> found.table.loc[0, ["class", "law", "verdict"]].tolist()
    ['all rows', 'FLOPS scaling', 'cannot tell']
    """

    saved_as = FILES["validate"]

    @property
    def table(self) -> pd.DataFrame:
        """One row per class and analytic law: the evidence and the verdict."""
        rows = []
        for one in self.classes:
            for law in one.laws:
                rows.append(
                    {
                        "class": one.name,
                        "law": law.law,
                        "rows": one.rows,
                        "groups": one.groups,
                        "verdict": str(law.verdict.outcome),
                        "median": law.evidence.deviation.value if law.evidence else None,
                        "lower": law.evidence.deviation.lower if law.evidence else None,
                        "upper": law.evidence.deviation.upper if law.evidence else None,
                    }
                )
        return pd.DataFrame(rows)

    def document(self, *, plot: bool = False) -> Document:
        """Return the findings as `report` shows them on terminals, which ``plot`` them too, and pages."""
        return validation_document(self, plot=plot)

    def plot_roofline(self) -> go.Figure | None:
        """Draw the rate of each workload on both GPUs under their roofs; None without work or peaks."""
        return roofline_figure(self)

    def plot_efficiency(self) -> go.Figure | None:
        """Draw how much of its roofline each GPU reaches, by group and work, as heat maps; None as above."""
        return efficiency_figure(self)

    def __repr__(self) -> str:
        data = self.dataset
        devices = " → ".join(gpu.name for gpu in (data.host, data.target) if gpu)
        return (
            f"<Validation {devices}, {data.metric}: "
            f"{counted(len(self.classes) - 1, 'class', 'classes')}>"
        )


@saving
@spelt_out
@configured
def validate(
    *data: Data,
    host: Device | None = None,
    target: Device | None = None,
    group: Columns | None = None,
    margin: Margin = 0.10,
    metric: str = "duration_us",
    folds: int = 10,
    replicates: int = 2000,
    seed: int = 0,
    **reading: Unpack[MeasuredReading],
) -> Validation:
    """Test whether times (or energy, power) scale linearly from device to device, per class (op × dtype × bound).

    Judged are FLOPS, bandwidth, roofline and tiles scaling from host to target, over all rows and per
    class. Of energy the same laws times the ratio of the TDPs are judged, of power that ratio alone.

    Parameters
    ----------
    *data : path, DataFrame, Measurements, or a sequence of them, optional
        Measured files and folders, any mix. None: the embedded measurements.
    host, target : str, Path or GPU
        As for `train`. With the embedded measurements they have defaults.
    where : mapping, or sequence of str, optional
        As for `read`.
    group : str or sequence of str, optional
        As for `train`.
    margin : float, default=0.10
        What is shown to lie within it counts as the same: 0.1 = ±10 %. That is target / law within
        [1 / (1 + margin), 1 + margin].
    metric : str, default="duration_us"
        As for `train`.
    unit, default, rename : mapping of str to str, optional
        As for `read`.
    keep : collection of str
        As for `read`.
    folds : int
        Folds by group, for the errors of the laws that are fitted.
    replicates : int
        Bootstrap samples.
    seed : int
        As for `train`.

    Returns
    -------
    Validation
        Findings per class, over all rows first; with a table, JSON and a page.

    Raises
    ------
    FlopcastError
        If the data, the devices or an option cannot be used.

    Examples
    --------
    >>> import flopcast as fc
    >>> result = fc.validate(where={"m": (None, 64)}, replicates=200)
    >>> result.classes[0].name
    'all rows'
    """
    check_margin(margin)
    check_number("seed", seed, 0)
    given = items_or_embedded(data or None)
    if not data:
        host = host or DEFAULT_HOST
        target = target or DEFAULT_TARGET
    if host is None or target is None:
        missing = "target"
        if host is None:
            missing = "host"
        raise ParameterError(
            missing, "is missing: which devices? a host and a target, e.g. MI300X and MI355X"
        )
    check_number("replicates", replicates, 1)
    check_number("folds", folds, 2)
    devices = device(host, "host"), device(target, "target")
    if devices[0] == devices[1]:
        raise ParameterError(
            "host", f"and the target are both {devices[0].name}: scaling needs two devices"
        )
    names = [gpu.name for gpu in devices]
    measured = load_measurements(given, devices=names, only=names, **reading)
    check_devices(measured, names)
    columns = values.columns("group", group)
    dataset = build_dataset(
        measured.frame, host=devices[0], target=devices[1], metric=metric, group=columns
    )
    dataset = with_cu_law(dataset)
    classes = assess_scaling(dataset, margin=margin, folds=folds, replicates=replicates, seed=seed)
    reasons = {f"no {metric}": "without_metric", f"{metric} is not positive": "metric_not_positive"}
    lost = {words: dataset.report[key] for words, key in reasons.items() if dataset.report[key]}
    rejected = measured.rejected_by_reason | lost
    return Validation(
        dataset,
        classes,
        margin,
        folds,
        replicates,
        seed,
        rejected,
        (*measured.notes, *dataset.report["remarks"]),
        measured.rejected_at,
    )

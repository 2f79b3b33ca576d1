"""What a trace holds in a few numbers: activities, busy time, gaps, classes, what has no class, findings."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import pandas as pd

from .annotate import Annotated
from .classes import unclassified
from .table import KERNEL, Finding
from .timeline import busy_ns, span_ns

UNCLASSIFIED = "unclassified"
"""How activities without an operator class are called in tables."""


@dataclass(frozen=True)
class Overview:
    """A trace in numbers.

    Attributes
    ----------
    label : str
        The file (or the first of several) as messages call it.
    devices : tuple of str
        Devices of the activities, "" where the file does not say.
    activities : dict of str to int
        Number of kernels, copies and fills.
    linked : int
        Activities whose launch is in the file.
    kernel_us, busy_us, span_us : float
        Sum of the kernels' durations; time with at least one activity; first start to last end. Microseconds.
    classes : DataFrame
        `kernel_class`, `op_class`, `count`, `time_us`, `share` (of the sum of all durations), the largest first.
    unclassified : DataFrame
        `name`, `op_name`, `count`, `duration_us`, `share` of kernels without an operator class, the largest first.
    findings : tuple of Finding
        The gravest first.
    notes : tuple of str
        Assumptions made.
    """

    label: str
    devices: tuple[str, ...]
    activities: dict[str, int]
    linked: int
    kernel_us: float
    busy_us: float
    span_us: float
    classes: pd.DataFrame
    unclassified: pd.DataFrame
    findings: tuple[Finding, ...]
    notes: tuple[str, ...]

    @property
    def errors(self) -> list[Finding]:
        """Findings for which ``--strict`` refuses the file."""
        return [finding for finding in self.findings if finding.severity == "error"]

    def to_dict(self) -> dict[str, Any]:
        """Return the overview as JSON types."""
        return {
            "source": self.label,
            "devices": list(self.devices),
            "activities": self.activities,
            "linked": self.linked,
            "kernel_us": self.kernel_us,
            "busy_us": self.busy_us,
            "span_us": self.span_us,
            "classes": self.classes.to_dict("records"),
            "unclassified": self.unclassified.to_dict("records"),
            "findings": [vars(finding) for finding in self.findings],
            "notes": list(self.notes),
        }


def overview(annotated: Annotated, label: str) -> Overview:
    """Return the numbers of a trace."""
    table = annotated.dispatches
    kernels = table[table["kind"] == KERNEL]
    return Overview(
        label=label,
        devices=tuple(sorted(map(str, table["device"].unique()))),
        activities={str(kind): int(count) for kind, count in table["kind"].astype(str).value_counts().items()},
        linked=int(table["linked"].sum()),
        kernel_us=float(kernels["duration_ns"].sum()) / 1e3,
        busy_us=busy_ns(table) / 1e3,
        span_us=span_ns(table) / 1e3,
        classes=_by_class(table),
        unclassified=unclassified(kernels, kernels[["kernel_class", "op_class"]]),
        findings=annotated.findings,
        notes=annotated.notes,
    )


def _by_class(table: pd.DataFrame) -> pd.DataFrame:
    keys = {
        "kernel_class": table["kernel_class"].astype(str),
        "op_class": table["op_class"].astype(str).replace("", UNCLASSIFIED),
    }
    times = pd.DataFrame({**keys, "time_us": table["duration_ns"] / 1e3})
    found = times.groupby(list(keys), sort=False)["time_us"].agg(["size", "sum"]).reset_index()
    found.columns = pd.Index([*keys, "count", "time_us"])
    total = max(float(found["time_us"].sum()), 1e-9)
    return found.assign(share=found["time_us"] / total).sort_values("time_us", ascending=False, ignore_index=True)

"""What a reader of PyTorch traces should be told of one."""

from __future__ import annotations

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from ...dispatches.table import Finding, Severity
from .columns import in_unknown_unit
from .decode import Document
from .link import Links

_GRAPH = ("hipGraphLaunch", "cudaGraphLaunch", "cuGraphLaunch")


def findings_of(document: Document, links: Links, table: pd.DataFrame, rocm: bool, label: str) -> tuple[Finding, ...]:
    """Return what is missing or odd in a trace.

    Parameters
    ----------
    document : Document
    links : Links
    table : DataFrame
        The dispatch table in the order of the file.
    rocm : bool
        The GPUs are AMD's.
    label : str
        Name of the file in messages.
    """
    linked = links.launch >= 0
    replayed = _replayed(document, links)
    without = linked & (links.operator < 0)
    cases: list[tuple[str, Severity, str, NDArray[np.bool_]]] = [
        (
            "orphan",
            "warning",
            "activities launched before the recording began: no operator, no step; leave them out of totals",
            ~linked,
        ),
        (
            "graph-replay",
            "info",
            "kernels of replayed graphs: their operator, if any, is the one that launched the whole graph; their own "
            "operators and shapes are in a trace of the capture",
            replayed,
        ),
        (
            "no-operator",
            "info",
            "activities launched outside of any operator that the file has: no shapes",
            without & ~replayed,
        ),
        (
            "operator-by-time",
            "info",
            "activities whose operator the file does not name rightly: the one running at their launch is taken",
            links.by_time & ~replayed,
        ),
        (
            "unresolved-device",
            "warning",
            "activities of a GPU that the file does not name: state it with --set device=NAME",
            table["device"].eq("").to_numpy(dtype=bool),
        ),
        (
            "grid-unit",
            "info",
            "activities whose grid may be in workgroups or work-items, as only their launch would tell: left out",
            in_unknown_unit(document, links, rocm),
        ),
    ]
    durations = table["duration_ns"].clip(lower=0).to_numpy(dtype=np.float64)
    found = [_finding(*case, table, durations) for case in cases if case[3].any()]
    return (*found, *_of_times(document, label))


def _finding(
    code: str,
    severity: Severity,
    message: str,
    rows: NDArray[np.bool_],
    table: pd.DataFrame,
    durations: NDArray[np.float64],
) -> Finding:
    total = durations.sum()
    share = float(durations[rows].sum() / total) if total else None
    return Finding(code, severity, message, int(rows.sum()), share, str(table["source"].iloc[int(rows.argmax())]))


def _replayed(document: Document, links: Links) -> NDArray[np.bool_]:
    calls = [name in _GRAPH for name in document.launches.names]
    return np.array([*calls, False], dtype=bool)[links.launch]


def _of_times(document: Document, label: str) -> list[Finding]:
    found: list[Finding] = []
    if document.coarse:
        message = "starts that the file's numbers do not resolve to the nanosecond: gaps are not exact"
        found.append(Finding("coarse-start", "warning", message, document.coarse, source=label))
    if document.clipped:
        message = "times beyond what an integer holds, cut off there: damaged timestamps"
        found.append(Finding("clipped-time", "error", message, document.clipped, source=label))
    return found

"""Comparing: two runs, two traces or two tables, to what differs between them and where it comes from."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Protocol

import pandas as pd

from ..errors import DataError, ParameterError
from ..evaluation.drift import drift
from ..evaluation.intervals import LEVELS
from ..evaluation.metrics import check_level
from ..evaluation.paired import SchemeComparison, common_rows, compare_scheme
from ..projection.comparison import TraceChanges, trace_changes
from ..readers import Options, TraceFailure, read_traces
from ..report.comparing import runs_document, tables_document, traces_document
from ..report.document import Document
from ..report.html import Shown
from ..report.run_folder import METRICS, read_run
from ..table.conditions import Where
from ..traces.summary import Annotated, with_possible_times
from .tables import load_measurements

FILES = ("compare.json", "compare.html")


class Evidence(Protocol):
    """A run (`training.Run`)."""

    metrics: dict[str, Any]
    predictions: pd.DataFrame
    folder: Path | None


@dataclass(frozen=True)
class RunComparison(Shown):
    """Two runs side by side.

    Attributes
    ----------
    names : tuple of str
        What they are called.
    metrics : tuple of dict
        Their ``metrics.json``.
    schemes : tuple of SchemeComparison
        The schemes of cross-validation that both have: paired test, errors by model and group.
    common : int
        Rows that both predicted.
    """

    files = FILES
    names: tuple[str, str]
    metrics: tuple[dict[str, Any], dict[str, Any]]
    schemes: tuple[SchemeComparison, ...]
    common: int

    @property
    def table(self) -> pd.DataFrame:
        """One row per scheme and model: E_out of each run on the common rows, %, and the second minus the first."""
        return pd.concat([one.by_model.assign(scheme=one.scheme) for one in self.schemes], ignore_index=True)

    def document(self) -> Document:
        """Return the comparison as `report` shows it on terminals and pages."""
        return runs_document(self.names, self.metrics, self.schemes, self.common)


@dataclass(frozen=True)
class TraceComparison(Shown):
    """Two traces side by side.

    Attributes
    ----------
    found : TraceChanges
        What the difference is made of, part by part and call by call (`projection.comparison`).
    """

    files = FILES
    found: TraceChanges

    @property
    def table(self) -> pd.DataFrame:
        """One row per kind of call, the largest difference first (`TraceChanges.calls`)."""
        return self.found.calls

    def document(self) -> Document:
        """Return the comparison as `report` shows it on terminals and pages."""
        return traces_document(self.found)


@dataclass(frozen=True)
class TableComparison(Shown):
    """Two tables of measurements side by side.

    Attributes
    ----------
    names : tuple of str
        What they are called.
    table : DataFrame
        How the times of the problems that both hold changed, by operator (`evaluation.drift`).
    level : float
        Of the intervals.
    """

    files = FILES
    names: tuple[str, str]
    table: pd.DataFrame
    level: float

    def document(self) -> Document:
        """Return the comparison as `report` shows it on terminals and pages."""
        return tables_document(self.names, self.table, self.level)


def compare(
    first: str | Path | Evidence,
    second: str | Path | Evidence,
    *,
    interval: float = 0.95,
    where: Where = None,
    default: Mapping[str, str] | None = None,
    seed: int = 0,
) -> RunComparison | TraceComparison | TableComparison:
    """Compare two runs, two profilers' traces of a workload, or two tables of measurements.

    Parameters
    ----------
    first, second : path or Run
        Run folders that `train` wrote, or runs; or files or folders with one trace each, or with measurements: of
        another release, driver or day.
    interval : float, default=0.95
        Of the intervals of differences between runs and of ratios between tables.
    where : mapping or sequence of str, optional
        Rows of measurements to keep, as in `read`.
    default : mapping of str to str, optional
        Values of columns that traces and measurements lack.
    seed : int
        Of the bootstrap, and of the randomisation test of runs.

    Returns
    -------
    RunComparison, TraceComparison or TableComparison
        With ``table``, a page and JSON.

    Raises
    ------
    FlopcastError
        One is neither, the other is of another kind, or the runs share no scheme of cross-validation.

    Examples
    --------
    >>> import flopcast as fc
    >>> small = {"m": (None, 64)}
    >>> one, other = (fc.train(where=small, models=[name], jobs=1) for name in ("OLS", "Additive"))
    >>> found = fc.compare(one, other)
    >>> found.common == one.metrics["data"]["n"]
    True
    """
    check_level(interval, LEVELS[0], LEVELS[-1])
    runs_of = [not isinstance(one, str | Path) or (Path(one) / METRICS).exists() for one in (first, second)]
    if not any(runs_of):
        options = Options(defaults=dict(default or {}))
        paths = Path(str(first)), Path(str(second))
        names, held = _names(*paths), [_traces(path, options) for path in paths]
        if not any(held):
            tables = [load_measurements(path, where, default=default).frame for path in paths]
            return TableComparison(names, drift(*tables, level=interval, seed=seed), interval)
        traces = [(name, _one(each, path)) for name, each, path in zip(names, held, paths, strict=True)]
        return TraceComparison(trace_changes(traces))
    runs = [_evidence(run, name) for run, name in ((first, "first"), (second, "second"))]
    metrics, predictions = (runs[0][1], runs[1][1]), (runs[0][2], runs[1][2])
    units = {one["data"]["metric"] for one in metrics}
    if len(units) > 1:
        raise DataError(f"the runs predict different figures, {' and '.join(sorted(units))}: compare runs of one")
    common = common_rows(*predictions)
    schemes = [{cv["scheme"]: cv for cv in one["cv"]} for one in metrics]
    both = [name for name in schemes[0] if name in schemes[1]]
    if not both:
        raise DataError("the runs share no scheme of cross-validation: compare runs that have one in common")
    found = (
        compare_scheme((schemes[0][name], schemes[1][name]), predictions, common, level=interval, seed=seed)
        for name in both
    )
    return RunComparison(_names(runs[0][0], runs[1][0]), metrics, tuple(found), len(common))


def _traces(path: Path, options: Options) -> list[Annotated]:
    """Return the traces of a file or folder."""
    found = []
    for label, trace in read_traces([path], options=options):
        if isinstance(trace, TraceFailure):
            raise trace.error
        found.append(with_possible_times(trace, label))
    return found


def _one(found: list[Annotated], path: Path) -> Annotated:
    if len(found) != 1:
        count = f"{len(found)} traces" if found else "neither a run nor a trace"
        raise DataError(f"holds {count}: give two runs, or two paths with one trace each", source=str(path))
    return found[0]


def _evidence(run: str | Path | Evidence, parameter: str) -> tuple[Path, dict[str, Any], pd.DataFrame]:
    """Return what a run is called, its metrics and its predictions."""
    if isinstance(run, str | Path):
        return Path(run), *read_run(Path(run))
    if not isinstance(getattr(run, "predictions", None), pd.DataFrame):
        raise ParameterError(parameter, f"must be a run or the folder of one, got {type(run).__name__}")
    return run.folder or Path(parameter), run.metrics, run.predictions


def _names(first: Path, second: Path) -> tuple[str, str]:
    """Return the last parts of two paths that differ, as what they are called."""
    for one, other in zip(reversed(first.resolve().parts), reversed(second.resolve().parts), strict=False):
        if one != other:
            return one, other
    return f"{first.name} (1)", f"{second.name} (2)"

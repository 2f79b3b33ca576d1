"""Time and memory of every model of the suite over the folds of a cross-validation, and the sum against its forests.

The forests of a suite are its models that grow ensembles of trees: in the literature's suite the
random forest alone; in the default suite, which is the same list and what goes beyond it, also
boosted trees, both models of the residual, and the stacks, which mix both models of the residual
with an additive and an affine time.
"""

from __future__ import annotations

import time
import warnings
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from pathlib import Path

import numpy as np
from rich.table import Table
from sklearn.base import clone
from threadpoolctl import threadpool_limits

from ..evaluation.folds import make_folds
from ..models.base import Candidate, fit
from ..models.suite import suite
from .harness import Row
from .made_up_counters import Counters

FOLDS = 10
FOREST = "RandomForest"
FORESTS = (
    FOREST,
    "BoostedTrees",
    "BoostedTrees/Residual",
    "ExtraTrees/Residual",
    "Stack",
    "Stack/Transfer",
)
"""The models that grow ensembles of trees: what a whole suite is measured by."""
_STATUS, _RESET = Path("/proc/self/status"), Path("/proc/self/clear_refs")


@dataclass
class Measured:
    """What one model took.

    Attributes
    ----------
    seconds : float
        Fits and predictions of the folds.
    peak_mb : float or None
        The most memory the process held meanwhile, its libraries included; None where the system
        does not tell.
    predicted : ndarray of shape (n,)
        Out-of-fold predictions; NaN in folds that were left out.
    """

    predicted: np.ndarray
    seconds: float = 0.0
    peak_mb: float | None = None


@dataclass(frozen=True)
class SuiteTime:
    """What each model of a suite took, by name, in the order of the suite.

    Attributes
    ----------
    task : str
        Which suite on what.
    models : dict of str to Measured
    observed : ndarray of shape (n,)
    """

    task: str
    observed: np.ndarray
    models: dict[str, Measured] = field(default_factory=dict)

    def total(self, names: Sequence[str] | None = None) -> float:
        """Return the seconds of the models of these names (all by default)."""
        return sum(
            model.seconds for name, model in self.models.items() if names is None or name in names
        )

    @property
    def forests(self) -> list[str]:
        """The models of this suite that grow ensembles of trees."""
        return [name for name in self.models if name in FORESTS]

    @property
    def ratio(self) -> float:
        """The time of all models over that of the forests."""
        return self.total() / self.total(self.forests)

    @property
    def peak_mb(self) -> float | None:
        """The most memory during any of them."""
        measured = [model.peak_mb for model in self.models.values() if model.peak_mb is not None]
        return max(measured, default=None)

    def error(self, name: str) -> float:
        """Return the median relative error of a model out of fold."""
        return float(np.nanmedian(np.abs(self.models[name].predicted / self.observed - 1)))

    def rows(self) -> Iterator[Row]:
        """Yield a row a model, then the sum, with its ratio to the forests."""
        for name, model in self.models.items():
            yield Row(
                self.task,
                name,
                model.seconds,
                peak_mb=model.peak_mb,
                note=f"error {100 * self.error(name):.1f} %",
            )
        note = f"{self.ratio:.2f} times its forests: {', '.join(self.forests)}"
        yield Row(
            self.task, "whole suite", self.total(), self.ratio, peak_mb=self.peak_mb, note=note
        )


def suite_time(
    form: str, data: Counters, count: int = FOLDS, names: Sequence[str] | None = None
) -> SuiteTime:
    """Fit every model without each of the first ``count`` of ten folds, as `evaluation.crossval.evaluate` does.

    Fold by fold, single-threaded, with the groups told.

    Parameters
    ----------
    form : {"default", "literature"}
    data : Counters
    count : int, default=10
    names : sequence of str, optional
        These models only.
    """
    n, p = data.X.shape
    fold_of = make_folds("kfold", data.groups, n, FOLDS)
    result = SuiteTime(f"{form} suite, {n} x {p}, {count} of {FOLDS} folds", data.y)
    with warnings.catch_warnings(), threadpool_limits(1):
        warnings.simplefilter("ignore")
        for fold in range(count):
            for candidate in suite(form, data.columnar, names=names):
                measured = result.models.setdefault(candidate.name, Measured(np.full(n, np.nan)))
                _measure(candidate, data, fold_of == fold, measured)
    return result


def _measure(
    candidate: Candidate, data: Counters, held_out: np.ndarray, measured: Measured
) -> None:
    """Add one fold to what a model took."""
    train, groups = data.X[~held_out], data.groups[~held_out]
    reset_peak()
    started = time.perf_counter()
    fitted = fit(clone(candidate.estimator), train, data.y[~held_out], groups)
    measured.predicted[held_out] = fitted.predict(data.X[held_out])
    measured.seconds += time.perf_counter() - started
    if (peak := peak_mb()) is not None:
        measured.peak_mb = max(peak, measured.peak_mb or 0.0)


def reset_peak() -> None:
    """Let the system forget the most memory this process has held (Linux)."""
    if _RESET.exists():
        _RESET.write_text("5", encoding="ascii")


def peak_mb() -> float | None:
    """Return the most memory this process has held since `reset_peak`, MB; None where the system does not tell."""
    if not _STATUS.exists():
        return None
    line = next(
        (
            line
            for line in _STATUS.read_text(encoding="ascii").splitlines()
            if line.startswith("VmHWM:")
        ),
        None,
    )
    return None if line is None else int(line.split()[1]) * 1024 / 1e6


def suite_table(results: Sequence[SuiteTime]) -> Table:
    """Return the times as a table: a row a model, a pair of columns a task."""
    shown = Table(
        title="Fits and predictions, one thread; peak: memory of the process, its libraries included"
    )
    shown.add_column("model")
    for result in results:
        shown.add_column(f"{result.task}\ns", justify="right")
        shown.add_column("peak\nMB", justify="right")
        shown.add_column("error\n%", justify="right")
    for name in dict.fromkeys(name for result in results for name in result.models):
        shown.add_row(name, *(cell for result in results for cell in _cells(result, name)))
    shown.add_section()
    for label, alone in (("whole suite", False), ("of it the forests", True)):
        shown.add_row(label, *(cell for result in results for cell in _sum(result, alone)))
    shown.add_row(
        "whole / forests", *(cell for result in results for cell in (f"{result.ratio:.2f}", "", ""))
    )
    shown.caption = "\n".join(
        f"{result.task}: its forests are {', '.join(result.forests)}" for result in results
    )
    return shown


def _cells(result: SuiteTime, name: str) -> tuple[str, str, str]:
    if (model := result.models.get(name)) is None:
        return "", "", ""
    peak = "" if model.peak_mb is None else f"{model.peak_mb:.0f}"
    return f"{model.seconds:.2f}", peak, f"{100 * result.error(name):.1f}"


def _sum(result: SuiteTime, forests: bool) -> tuple[str, str, str]:
    peak = "" if result.peak_mb is None or forests else f"{result.peak_mb:.0f}"
    return f"{result.total(result.forests if forests else None):.2f}", peak, ""

"""Durations of computation and copies on another GPU: a factor for each activity, with the law it comes from.

`compute_factors` applies a law of `scalings`, corrects it or puts the predictions of a trained model in its place
(`measured_factors`), and adds how wrong each law was where both GPUs have been measured (`ERRORS`).
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Final

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from ..evaluation.trained_model import TrainedModel
from ..hardware import GPU
from ..remarks import Remark, remark
from .kernel_work import Overhead, Rows, of_activities
from .measured_factors import Correction, predicted_factors
from .scalings import KEPT, Pair, by_law


@dataclass(frozen=True)
class LawError:
    """What was measured of a law in one class from one architecture to another.

    Attributes
    ----------
    law, op_class : str
        As in `compute_factors`.
    host, target : str
        Architectures.
    bias : float
        Median of ln(measured / projected).
    spread : float
        Its standard deviation, robust.
    n : int
        Problems measured on both.
    """

    law: str
    op_class: str
    host: str
    target: str
    bias: float
    spread: float
    n: int

    @property
    def sigma(self) -> float:
        """Standard deviation of ln(factor): bias and spread together."""
        return float(np.hypot(self.bias, self.spread))


ERRORS: Final = (
    LawError("affine", "conv", "CDNA1", "CDNA2", 0.08, 0.24, 21037),
    LawError("affine", "conv", "CDNA2", "CDNA3", 0.95, 0.55, 5172),
    LawError("affine", "elementwise", "CDNA1", "CDNA2", 0.04, 0.07, 15461),
    LawError("affine", "gemm", "CDNA1", "CDNA2", -0.02, 0.21, 2525),
    LawError("affine", "gemm", "CDNA3", "CDNA4", 0.25, 0.11, 429),
    LawError("affine", "moe", "CDNA3", "CDNA4", -0.02, 0.20, 29),
    LawError("affine", "norm", "CDNA1", "CDNA2", 0.08, 0.10, 1095),
    LawError("affine", "softmax", "CDNA1", "CDNA2", 0.13, 0.10, 1373),
    LawError("bandwidth", "conv", "CDNA1", "CDNA2", 0.28, 0.19, 21037),
    LawError("bandwidth", "conv", "CDNA2", "CDNA3", 0.82, 0.48, 5172),
    LawError("bandwidth", "elementwise", "CDNA1", "CDNA2", 0.10, 0.07, 15461),
    LawError("bandwidth", "gemm", "CDNA1", "CDNA2", 0.22, 0.20, 2525),
    LawError("bandwidth", "gemm", "CDNA3", "CDNA4", 0.07, 0.15, 429),
    LawError("bandwidth", "moe", "CDNA3", "CDNA4", -0.03, 0.15, 29),
    LawError("bandwidth", "norm", "CDNA1", "CDNA2", 0.11, 0.07, 1095),
    LawError("bandwidth", "softmax", "CDNA1", "CDNA2", 0.19, 0.07, 1373),
    LawError("flops", "conv", "CDNA1", "CDNA2", 0.01, 0.21, 21037),
    LawError("flops", "conv", "CDNA2", "CDNA3", 1.31, 0.67, 5172),
    LawError("flops", "gemm", "CDNA1", "CDNA2", -0.08, 0.20, 2525),
    LawError("flops", "gemm", "CDNA3", "CDNA4", 0.32, 0.15, 429),
    LawError("flops", "moe", "CDNA3", "CDNA4", 0.22, 0.15, 29),
    LawError("flops", "norm", "CDNA1", "CDNA2", 0.50, 0.07, 1095),
    LawError("flops", "softmax", "CDNA1", "CDNA2", 0.58, 0.07, 1373),
    LawError("roofline", "conv", "CDNA1", "CDNA2", 0.13, 0.29, 21037),
    LawError("roofline", "conv", "CDNA2", "CDNA3", 0.99, 0.51, 5172),
    LawError("roofline", "elementwise", "CDNA1", "CDNA2", 0.10, 0.07, 15461),
    LawError("roofline", "gemm", "CDNA1", "CDNA2", -0.02, 0.20, 2525),
    LawError("roofline", "gemm", "CDNA3", "CDNA4", 0.26, 0.11, 429),
    LawError("roofline", "moe", "CDNA3", "CDNA4", -0.02, 0.14, 29),
    LawError("roofline", "norm", "CDNA1", "CDNA2", 0.11, 0.07, 1095),
    LawError("roofline", "softmax", "CDNA1", "CDNA2", 0.19, 0.07, 1373),
    LawError("roofline-achieved", "conv", "CDNA1", "CDNA2", 0.09, 0.25, 21037),
    LawError("roofline-achieved", "conv", "CDNA2", "CDNA3", 1.02, 0.63, 5172),
    LawError("roofline-achieved", "elementwise", "CDNA1", "CDNA2", 0.10, 0.07, 15461),
    LawError("roofline-achieved", "gemm", "CDNA1", "CDNA2", -0.02, 0.21, 2525),
    LawError("roofline-achieved", "gemm", "CDNA3", "CDNA4", 0.30, 0.12, 429),
    LawError("roofline-achieved", "moe", "CDNA3", "CDNA4", -0.02, 0.20, 29),
    LawError("roofline-achieved", "norm", "CDNA1", "CDNA2", 0.11, 0.07, 1095),
    LawError("roofline-achieved", "softmax", "CDNA1", "CDNA2", 0.19, 0.07, 1373),
)  # fmt: skip
"""From public measurements of single kernels: AITER's tuned FP8 and BF16 kernels (MI300X, MI355X), MIOpen's find-db
(MI100, MI210, MI300X; kernels chosen by a search on each), NeuSight's operators in FP32 (MI100, MI210).
`benchmarks.projection_laws` prints them."""


def sigmas(op_class: np.ndarray, law: np.ndarray, host: GPU, target: GPU) -> np.ndarray:
    """Return the standard deviation of ln(factor) of each row, NaN where its law was never measured in its class.

    Parameters
    ----------
    op_class, law : ndarray of str of shape (n_rows,)
        Class and law of each row.
    host, target : GPU
        The devices. Between their architectures, if that was measured, else the root mean square over all pairs of
        architectures that were.

    Returns
    -------
    ndarray of shape (n_rows,)
        0 between equal devices.
    """
    if host == target:
        return np.zeros(len(law))
    codes, cases = pd.MultiIndex.from_arrays([law, op_class]).factorize()
    levels = np.zeros(len(cases))
    for position, (used, name) in enumerate(cases):
        levels[position] = _sigma(str(used), str(name), {host.arch, target.arch})
    return levels[codes]


def _sigma(law: str, op_class: str, architectures: set[str]) -> float:
    """Return the sigma of one law and class; an error from one architecture to another is that of the way back."""
    errors = [error for error in ERRORS if (error.law, error.op_class) == (law, op_class)]
    own = [error for error in errors if {error.host, error.target} == architectures] or errors
    return float(np.sqrt(np.mean([error.sigma**2 for error in own]))) if own else np.nan


Reasons = tuple[Remark, ...]

DEFAULT_LAW = "affine"
MODEL = "model"
CORRECTED = "+correction"
"""What the name of a law ends in where a correction was applied."""
SPLITS = ("affine", f"affine{CORRECTED}")
"""Laws that tell the dispatch of a kernel from its work, and put it into the duration only where the target does so."""
COLUMNS = ("factor", "law", "why", "bound", "sigma")


def compute_factors(
    activities: pd.DataFrame,
    host: GPU,
    target: GPU,
    law: str = DEFAULT_LAW,
    *,
    run: TrainedModel | None = None,
    overhead: Mapping[str, Overhead] | None = None,
    corrections: Mapping[str, Correction] | None = None,
    queued: NDArray[np.bool_] | None = None,
    trained_for: GPU | None = None,
) -> pd.DataFrame:
    """Return by what the duration of each activity is multiplied on the target.

    Parameters
    ----------
    activities : DataFrame
        Dispatch table with classes and work (`traces.summary`): kernels that compute, copies and fills.
    host, target : GPU
        Where it was measured, and where it is to run.
    law : str, default="affine"
        A name of `scalings.LAWS`.
    run : TrainedModel, optional
        A loaded run folder of `train` for this host and target (or for the target alone). Its predictions go before the
        law wherever they apply.
    overhead : mapping of str to Overhead, optional
        Fixed times of kernels by vendor, for the law "affine"; `kernel_work.OVERHEADS` by default.
    corrections : mapping of str to Correction, optional
        Op class -> what the law's factor is multiplied by (`measured_factors.learn_corrections`).
    queued : ndarray of bool of shape (n_activities,), optional
        Which were waiting when the one before them ended, where the activities are a part of a trace
        (`kernel_work.is_queued` of the whole); by default what the activities given tell.
    trained_for : GPU, optional
        Where the target is this one with other figures, the target of the run: its predictions go on to the target by
        the law.

    Returns
    -------
    DataFrame with the index of ``activities``
        `factor` (> 0, finite); `law`, the one used: where the one asked for does not apply, "bandwidth", and where that
        does not, "kept"; `why`, a tuple of `Remark`, where another law was used or the work is not known, else ();
        `bound`, of the target: compute, memory, latency, link or ""; `sigma`, the standard deviation of ln(factor), NaN
        where nobody measured it.

    Raises
    ------
    DataError
        The law is unknown, or the run was trained for other devices.
    """
    pair = Pair.of(host, target, overhead)
    rows = of_activities(activities, pair.fixed[0], queued)
    found = by_law(rows, pair, law)
    found["sigma"] = sigmas(rows.op_class, found["law"].to_numpy(dtype=object), host, target)
    if corrections:
        found = _corrected(found, rows, corrections)
    if run is not None:
        model = predicted_factors(activities, host, trained_for or target, run)
        if trained_for not in (None, target):
            model = _carried_on(model, rows, pair, trained_for, law)
        found = _predicted(found, model)
    return found[list(COLUMNS)].set_axis(activities.index)


def _corrected(found: pd.DataFrame, rows: Rows, corrections: Mapping[str, Correction]) -> pd.DataFrame:
    """Return the table with the corrections of the classes that have one; kept durations stay."""
    factor, sigma, law = (found[name].to_numpy(copy=True) for name in ("factor", "sigma", "law"))
    for name, correction in corrections.items():
        own = (rows.op_class == name) & (found["law"] != KEPT).to_numpy()
        factor[own] *= correction.factor
        sigma[own] = correction.sigma
        law[own] += CORRECTED
    return found.assign(factor=factor, sigma=sigma, law=law)


def _carried_on(model: pd.DataFrame, rows: Rows, pair: Pair, trained_for: GPU, law: str) -> pd.DataFrame:
    """Return the run's factors times what a law says of the way from the target of the run to another one."""
    first, whole = (by_law(rows, one, law)["factor"] for one in (replace(pair, target=trained_for), pair))
    carried = (remark("carried-on-by-law", gpu=trained_for.name, law=law),)
    why = [carried if has else own for has, own in zip(model["factor"].notna(), model["why"], strict=True)]
    return model.assign(factor=model["factor"] * whole / first, why=pd.Series(why, model.index, dtype=object))


def _predicted(found: pd.DataFrame, model: pd.DataFrame) -> pd.DataFrame:
    """Return the table with the run's factors where it has them, and why it has none elsewhere."""
    has = model["factor"].notna().to_numpy()
    why = [
        own if predicted else _neither(own, law)
        for predicted, own, law in zip(has, model["why"], found["why"], strict=True)
    ]
    return pd.DataFrame(
        {
            "factor": np.where(has, model["factor"], found["factor"]),
            "law": np.where(has, MODEL, found["law"]).astype(object),
            "why": np.fromiter(why, dtype=object, count=len(why)),
            "bound": found["bound"],
            "sigma": np.where(has, model["sigma"], found["sigma"]),
        }
    )


def _neither(model: Reasons, law: Reasons) -> Reasons:
    """Return why a model has no factor, and with it what the law says that stands in."""
    return (remark("model-then-law", model=model, law=law),) if model and law else model or law

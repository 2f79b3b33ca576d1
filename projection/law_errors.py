"""How wrong the laws of computation were where both GPUs have been measured."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

import numpy as np
import pandas as pd

from ..hardware import GPU


@dataclass(frozen=True)
class LawError:
    """What was measured of a law in one class from one architecture to another.

    Attributes
    ----------
    law, op_class : str
        As in `laws.compute_factors`.
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
``python -m flopcast.benchmarks.projection_laws --errors`` prints them."""


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

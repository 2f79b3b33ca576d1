"""Matrix products by trained runs: what a run predicts within its range, the law for all else.

A run that learnt time from shape (no host) of the GPU and precision asked for is a better source than the law, where
it has seen such shapes; a prediction that is flagged is not a source.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import pandas as pd
from numpy.typing import ArrayLike, NDArray

from ..hardware import GPU
from .kernel_times import LAUNCH_US, ProductLaw, product_law

FloatArray = NDArray[np.float64]
Times = Callable[[pd.DataFrame], pd.DataFrame]
"""Rows with device, op, m, n, k, dtype_a to rows with predicted_us and extrapolated (NaN where there is no answer)."""


@dataclass
class LearnedProducts:
    """Times of products on one GPU by runs, in the order given, else by its law.

    Attributes
    ----------
    law : ProductLaw
        For what no run answers.
    gpu, dtype : str
        As in the rows that the runs are asked for.
    sources : sequence of Times
        The runs.
    learned, asked : int
        Products answered by runs, and all; told with the forecast.
    """

    law: ProductLaw
    gpu: str
    dtype: str
    sources: Sequence[Times]
    learned: int = 0
    asked: int = 0
    _known: dict[tuple[float, float, float], float] = field(default_factory=dict)

    def time_us(self, n: ArrayLike, tokens: ArrayLike, k: ArrayLike, copies: ArrayLike = 1.0) -> FloatArray:
        """Return the time of products as `ProductLaw.time_us` does; products of several weights are the law's."""
        by_law = self.law.time_us(n, tokens, k, copies)
        n, tokens, k, copies = np.broadcast_arrays(*(np.asarray(one, dtype=float) for one in (n, tokens, k, copies)))
        shapes = list(zip(np.rint(tokens).ravel(), np.rint(n).ravel(), np.rint(k).ravel(), strict=True))
        self._learn([shape for shape in dict.fromkeys(shapes) if shape not in self._known])
        found = np.array([self._known[shape] for shape in shapes]).reshape(by_law.shape)
        learnt = np.isfinite(found) & (copies == 1.0)
        self.learned, self.asked = self.learned + int(learnt.sum()), self.asked + int(learnt.size)
        return np.where(learnt, found, by_law)

    def _learn(self, shapes: list[tuple[float, float, float]]) -> None:
        """Ask the runs for shapes (m, n, k) that were not asked for yet; what none answers is NaN."""
        self._known |= dict.fromkeys(shapes, float("nan"))
        left = shapes
        for source in self.sources:
            if not left:
                return
            rows: Any = pd.DataFrame(left, columns=["m", "n", "k"]).clip(lower=1.0)
            answer = source(rows.assign(device=self.gpu, op="gemm", dtype_a=self.dtype, dtype_b=self.dtype))
            time = np.where(answer["extrapolated"].to_numpy(dtype=bool), np.nan, answer["predicted_us"])
            bare = np.maximum(time - LAUNCH_US, 0.5 * time)  # a graph does not pay the launch in each
            self._known |= {shape: value for shape, value in zip(left, bare.tolist(), strict=True) if value == value}
            left = [shape for shape in left if self._known[shape] != self._known[shape]]


@dataclass
class Sources:
    """Where the times of products come from: runs, then the law; one `LearnedProducts` per GPU and precision."""

    runs: Sequence[Times] = ()
    used: dict[tuple[str, str], LearnedProducts] = field(default_factory=dict)

    def __call__(self, gpu: GPU, dtype: str) -> ProductLaw | LearnedProducts:
        """Return the times of products of a GPU and precision."""
        law = product_law(gpu, dtype)
        if not self.runs:
            return law
        return self.used.setdefault((gpu.name, dtype), LearnedProducts(law, gpu.name, dtype, self.runs))

    @property
    def share(self) -> float:
        """Part of the products asked for that runs answered; NaN where none was asked for."""
        asked = sum(one.asked for one in self.used.values())
        return sum(one.learned for one in self.used.values()) / asked if asked else float("nan")

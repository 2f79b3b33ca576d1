"""Matrix products, and attention, by trained runs: what a run predicts within its range, the law for all else.

A run that learnt time from shape (no host) of the GPU and precision asked for is a better source than the law, where
it has seen such shapes; a prediction that is flagged is not a source.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Final

import numpy as np
import pandas as pd
from numpy.typing import ArrayLike, NDArray

from ..hardware import GPU
from .architecture import Architecture
from .kernel_times import LAUNCH_US, ProductLaw, attention_us, product_law
from .layers import attention_flop

FloatArray = NDArray[np.float64]
Z: Final = 1.645
"""Of a side of the intervals that runs give, 90 %."""
BACKWARD_WORK: Final = 2.5
"""Work of the backward pass of fused attention over the forward one: five products instead of two."""
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
        if not shapes:
            return
        rows = pd.DataFrame(shapes, columns=["m", "n", "k"]).clip(lower=1.0)
        time, _ = by_runs(self.sources, rows.assign(device=self.gpu, op="gemm", dtype_a=self.dtype, dtype_b=self.dtype))
        self._known |= dict(zip(shapes, np.maximum(time - LAUNCH_US, 0.5 * time).tolist(), strict=True))


def by_runs(runs: Sequence[Times], rows: pd.DataFrame) -> tuple[FloatArray, FloatArray]:
    """Return the µs of rows by the first run that knows each in its range, and the spread of their logarithm.

    Both are NaN where no run does; the times have the launch that the runs were trained with.
    """
    time, spread = np.full(len(rows), np.nan), np.full(len(rows), np.nan)
    for run in runs:
        left = np.flatnonzero(np.isnan(time))
        if not len(left):
            break
        answer = run(rows.iloc[left].reset_index(drop=True))
        known = ~answer["extrapolated"].to_numpy(dtype=bool)
        time[left] = np.where(known, answer["predicted_us"].to_numpy(dtype=float), np.nan)
        if "upper_us" in answer:
            width = np.log((answer["upper_us"] / answer["lower_us"]).to_numpy(dtype=float)) / (2 * Z)
            spread[left] = np.where(known, width, np.nan)
    return time, spread


@dataclass
class Sources:
    """Where the times of products and of attention come from: runs, then the law.

    There is one `LearnedProducts` per GPU and precision.
    """

    runs: Sequence[Times] = ()
    used: dict[tuple[str, str], LearnedProducts] = field(default_factory=dict)

    def __call__(self, gpu: GPU, dtype: str) -> ProductLaw | LearnedProducts:
        """Return the times of products of a GPU and precision."""
        law = product_law(gpu, dtype)
        if not self.runs:
            return law
        return self.used.setdefault((gpu.name, dtype), LearnedProducts(law, gpu.name, dtype, self.runs))

    def attention_us(
        self, gpu: GPU, model: Architecture, sequences: ArrayLike, tokens: ArrayLike, tp: int, *, backward: bool = False
    ) -> FloatArray:
        """Return the time of attention among the tokens of so many sequences in one layer on one of ``tp`` GPUs."""
        sequences, tokens = np.broadcast_arrays(*(np.asarray(one, dtype=float) for one in (sequences, tokens)))
        flop = (BACKWARD_WORK if backward else 1.0) * sequences * attention_flop(model, tokens, tokens, tp)
        width = model.head_dim
        by_law = attention_us(gpu, flop, tokens, head_dim=width, causal=model.causal, backward=backward)
        if not self.runs:
            return by_law
        rows = pd.DataFrame({"batch": np.maximum(np.rint(sequences), 1.0).ravel(), "seq_q": tokens.ravel()})
        heads = {"heads": model.heads / tp, "kv_heads": max(model.kv_heads / tp, 1.0), "head_dim": float(width)}
        op = "attention_backward" if backward else "attention"
        rows = rows.assign(seq_kv=rows["seq_q"], **heads, causal=float(model.causal), dtype_a="bf16")
        time, _ = by_runs(self.runs, rows.assign(op=op, device=gpu.name))
        known = np.isfinite(time).reshape(by_law.shape)
        return np.where(known, time.reshape(by_law.shape), by_law)

    @property
    def share(self) -> float:
        """Part of the products asked for that runs answered; NaN where none was asked for."""
        asked = sum(one.asked for one in self.used.values())
        return sum(one.learned for one in self.used.values()) / asked if asked else float("nan")

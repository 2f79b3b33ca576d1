"""How long kernels take on one GPU: the laws of products and attention, or better sources.

A run that learnt time from shape (no host) of the GPU and precision asked for is a better source than the law
(`laws.product`, `laws.fused_attention`), where it has seen such shapes, and so are measured rows; a prediction that is
flagged is not a source.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace
from typing import Any, Final

import numpy as np
import pandas as pd
from numpy.typing import ArrayLike

from ..arrays import FloatArray, ObjectArray
from ..evaluation.metrics import NINETY_PERCENT
from ..hardware import GPU
from ..hardware.constants import constant
from ..laws.fused_attention import Attention
from ..laws.product import ProductLaw, product_law
from ..operators.operators import each_op
from ..operators.work import BITS, as_numbers, texts
from .architecture import Architecture, attention_flop

LAUNCH_US: Final = constant("launch.by_cpu").value


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
        if new := [shape for shape in dict.fromkeys(shapes) if shape not in self._known]:
            rows = pd.DataFrame(new, columns=["m", "n", "k"]).clip(lower=1.0)
            rows = rows.assign(device=self.gpu, op="gemm", dtype_a=self.dtype, dtype_b=self.dtype)
            time = by_runs(self.sources, rows).us  # NaN of what no run answers
            self._known |= dict(zip(new, np.maximum(time - LAUNCH_US, 0.5 * time).tolist(), strict=True))
        found = np.array([self._known[shape] for shape in shapes]).reshape(by_law.shape)
        learnt = np.isfinite(found) & (copies == 1.0)
        self.learned, self.asked = self.learned + int(learnt.sum()), self.asked + int(learnt.size)
        return np.where(learnt, found, by_law)


@dataclass(frozen=True)
class Found:
    """What sources say of rows, shape (n_rows,) each: µs, spread of their logarithm, and which kind of source says so.

    µs are NaN where no source does; ``source`` is ``run``, ``measured`` or "".
    """

    us: FloatArray
    spread: FloatArray
    source: ObjectArray


def by_runs(runs: Sequence[Times], rows: pd.DataFrame) -> Found:
    """Return the times of rows by the first source that knows each, with the launch that was measured with them."""
    us, spread = np.full(len(rows), np.nan), np.full(len(rows), np.nan)
    source = np.full(len(rows), "", dtype=object)
    for run in runs:
        left = np.flatnonzero(np.isnan(us))
        if not len(left):
            break
        answer = run(rows.iloc[left].reset_index(drop=True))
        known = ~answer["extrapolated"].to_numpy(dtype=bool) & answer["predicted_us"].notna().to_numpy()
        us[left] = np.where(known, answer["predicted_us"].to_numpy(dtype=float), np.nan)
        source[left[known]] = answer.attrs.get("source", "run")
        if "upper_us" in answer:
            width = np.log((answer["upper_us"] / answer["lower_us"]).to_numpy(dtype=float)) / (2 * NINETY_PERCENT)
            spread[left] = np.where(known, width, np.nan)
    return Found(us, spread, source)


REPEATED: Final = constant("repeated").value


def measured_times(rows: pd.DataFrame) -> Times:
    """Return what measured rows (``device``, ``op``, its dimensions, number formats, ``duration_us``) say of others.

    A row of the same operator, formats and dimensions on the same device takes the least time measured, whatever the
    kernel's family or variant; nothing is said of any other.
    """
    known: dict[tuple[Any, ...], float] = {}
    for key, us in zip(_problems(rows), rows["duration_us"], strict=True):
        known[key] = min(float(us), known.get(key, float("inf")))

    def times(asked: pd.DataFrame) -> pd.DataFrame:
        us = np.array([known.get(key, np.nan) for key in _problems(asked)])
        found = pd.DataFrame({"predicted_us": us, "extrapolated": np.isnan(us)})
        found["lower_us"] = us * np.exp(-NINETY_PERCENT * REPEATED)
        found["upper_us"] = us * np.exp(NINETY_PERCENT * REPEATED)
        found.attrs["source"] = "measured"
        return found

    return times


def _problems(rows: pd.DataFrame) -> list[tuple[Any, ...]]:
    """Return what makes each row the problem it is: device, operator, formats of the operands, sizes."""
    found: list[tuple[Any, ...]] = [()] * len(rows)
    for op, places in each_op(rows):
        whole = op.complete(rows.iloc[places].reset_index(drop=True))
        names = [name for name in op.dims if name not in TEXTS]
        sizes = np.column_stack([as_numbers(whole, name) for name in names])
        words = zip(*(texts(whole, name) for name in ("device", "dtype_a", "dtype_b")), strict=True)
        for place, word, size in zip(places, words, np.nan_to_num(sizes, nan=-1.0).tolist(), strict=True):
            found[place] = (op.name, *word, *size)
    return found


TEXTS: Final = ("scale_block", "variant", "layout", "direction")
"""Dimensions that are words."""


@dataclass
class Sources:
    """Where the times of products and of attention come from: runs, then the law.

    There is one `LearnedProducts` per GPU and precision.
    """

    runs: Sequence[Times] = ()
    used: dict[tuple[str, str], LearnedProducts] = field(default_factory=dict)

    def __call__(self, gpu: GPU, dtype: str, weights: str = "") -> ProductLaw | LearnedProducts:
        """Return the times of products of a GPU and precision; of ``weights`` in another format by law."""
        law = product_law(gpu, dtype)
        if weights not in ("", dtype):
            return replace(law, weight_bytes=BITS[weights] / 8)
        if not self.runs:
            return law
        return self.used.setdefault((gpu.name, dtype), LearnedProducts(law, gpu.name, dtype, self.runs))

    def attention_us(
        self, gpu: GPU, model: Architecture, sequences: ArrayLike, tokens: ArrayLike, tp: int, *, backward: bool = False
    ) -> FloatArray:
        """Return the time of attention among the tokens of so many sequences in one layer on one of ``tp`` GPUs."""
        sequences, tokens = np.broadcast_arrays(*(np.asarray(one, dtype=float) for one in (sequences, tokens)))
        flop = (BACKWARD_WORK if backward else 1.0) * sequences * attention_flop(model, tokens, tokens, tp)
        width = (
            model.head_dim or 128
        )  # of a model without any attention: its recurrent layers go at the rate of wide heads
        law = Attention(keys=tokens, head_dim=width, causal=model.causal, backward=backward)
        by_law = law.us(flop, gpu)
        alike = len(model.attention) == 1 and model.attention[0].layers == model.layers
        if not self.runs or not alike or model.attention[0].window:
            return by_law
        rows = pd.DataFrame({"batch": np.maximum(np.rint(sequences), 1.0).ravel(), "seq_q": tokens.ravel()})
        heads = {"heads": model.heads / tp, "kv_heads": max(model.kv_heads / tp, 1.0), "head_dim": float(width)}
        op = "attention_backward" if backward else "attention"
        rows = rows.assign(seq_kv=rows["seq_q"], **heads, causal=float(model.causal), dtype_a="bf16")
        time = by_runs(self.runs, rows.assign(op=op, device=gpu.name)).us
        known = np.isfinite(time).reshape(by_law.shape)
        return np.where(known, time.reshape(by_law.shape), by_law)

    @property
    def share(self) -> float:
        """Part of the products asked for that runs answered; NaN where none was asked for."""
        asked = sum(one.asked for one in self.used.values())
        return sum(one.learned for one in self.used.values()) / asked if asked else float("nan")

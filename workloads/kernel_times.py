"""How long kernels take on one GPU: the laws of products, attention and messages, or better sources.

A run that learnt time from shape (no host) of the GPU and precision asked for is a better source
than the law (`laws.kernels`, `projection.collective_laws`), where it has seen such shapes, and so
are measured rows (`measured_times`); a prediction that is flagged is not a source.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace
from typing import Any, Final, Literal

import numpy as np
import pandas as pd
from numpy.typing import ArrayLike

from ..arrays import FloatArray, ObjectArray
from ..evaluation.metrics import NINETY_PERCENT
from ..hardware import GPU, Network
from ..hardware.constants import constant
from ..laws.kernels import Attention, ProductLaw, product_law
from ..operators.op import Op
from ..operators.operators import each_op
from ..operators.work import BITS, as_numbers, texts
from ..projection.collective_laws import collective_us, lent_us
from .architecture import Architecture, attention_flop

OWN_ALL_REDUCE: Final = ("CDNA4 HBM", "Blackwell HBM")
"""Families on which engines are faster than the library's short all-reduces, as fast as MI300X's links would be.

Llama-3.3-70B of InferenceX on 2, 4 and 8 MI355X, FP8 and FP4, up to 8 requests, 24 settings:
measured over forecast 0.97 to 1.23 in this way, 0.68 to 0.93 by RCCL's latencies. The constants of
Hopper, Ampere and CDNA3 were fitted with the library's."""
LAUNCH_US: Final = constant("launch.by_cpu").value
BACKWARD_WORK: Final = 2.5
"""Work of the backward pass of fused attention over the forward one: five products instead of two."""
Times = Callable[[pd.DataFrame], pd.DataFrame]
"""Rows with device, op, m, n, k, dtype_a to rows with predicted_us and extrapolated (NaN where there is no answer)."""


@dataclass(frozen=True)
class KernelAnswers:
    """The sources' answers for rows, shape (n_rows,) each: µs, spread of their logarithm, and kind of source.

    µs are NaN where no source does; ``source`` is ``run``, ``measured`` or "".
    """

    us: FloatArray
    spread: FloatArray
    source: ObjectArray


def by_runs(runs: Sequence[Times], rows: pd.DataFrame) -> KernelAnswers:
    """Return the times of rows by the first source that knows each, including the measured launch."""
    us = np.full(len(rows), np.nan)
    spread = np.full(len(rows), np.nan)
    source = np.full(len(rows), "", dtype=object)
    for run in runs:
        left = np.flatnonzero(np.isnan(us))
        if not len(left):
            break
        answer = run(rows.iloc[left].reset_index(drop=True))
        answered = (
            ~answer["extrapolated"].to_numpy(dtype=bool) & answer["predicted_us"].notna().to_numpy()
        )
        us[left] = np.where(answered, answer["predicted_us"].to_numpy(dtype=float), np.nan)
        source[left[answered]] = answer.attrs.get("source", "run")
        if "upper_us" in answer:
            width = np.log((answer["upper_us"] / answer["lower_us"]).to_numpy(dtype=float)) / (
                2 * NINETY_PERCENT
            )
            spread[left] = np.where(answered, width, np.nan)
    return KernelAnswers(us, spread, source)


REPEATED: Final = constant("repeated").value
ALONG: Final = {
    "gemm": ("n", "k", "m"),
    "attention": ("heads", "batch", "seq_kv"),
    "moe": ("tokens",),
    "collective": ("message_bytes",),
}
"""Sizes between which measured times are interpolated: those first for which the others were
measured. All else that makes a problem must be equal, and of other operators all sizes."""
APART: Final = float(np.log(4.0))
BEYOND: Final = float(np.log(2.0))
"""Logarithms of how far two measured sizes may lie apart, and how far beyond the largest one may be asked."""
LEAST: Final = 10  # rows left out that an interval of interpolation needs


def measured_times(rows: pd.DataFrame) -> Times:
    """Return what measured rows (``device``, ``op``, its dimensions, number formats, ``duration_us``) say of others.

    A row of the same problem takes the least time measured, whatever the kernel's family or
    variant. Between the nearest measured sizes (`ALONG`) the logarithm of the time is linear in the
    logarithm of each size, one size after the other; up to twice the largest it goes on as between
    the last two. How far that errs is measured: each row is left out, and interpolated between its
    neighbours in one size, which lie twice as far apart as those of a row that is asked for. The 90
    % quantile of the error in each size, over the rows of an operator on the device, gives the
    interval. Where fewer than ten rows can be left out, and beyond the sizes, nothing is said.
    """
    tables: dict[tuple[str, str], _Measured] = {}

    def times(asked: pd.DataFrame) -> pd.DataFrame:
        log_us = np.full(len(asked), np.nan)
        variance = np.full(len(asked), np.nan)
        for op, places in each_op(asked):
            op_rows = asked.iloc[places].reset_index(drop=True)
            for device in op_rows["device"].unique():
                if (device, op.name) not in tables:
                    measured_rows = rows[(rows["op"] == op.name) & (rows["device"] == device)]
                    tables[device, op.name] = _Measured(op, measured_rows.reset_index(drop=True))
                here = np.flatnonzero(op_rows["device"] == device)
                answer = tables[device, op.name].at(op_rows.iloc[here].reset_index(drop=True))
                log_us[places[here]], variance[places[here]] = answer.T
        # what has no interval is no answer
        us = np.where(np.isnan(variance), np.nan, np.exp(log_us))
        width = NINETY_PERCENT * np.sqrt(variance + REPEATED**2)
        answer = pd.DataFrame({"predicted_us": us, "extrapolated": np.isnan(us)})
        answer["lower_us"] = us * np.exp(-width)
        answer["upper_us"] = us * np.exp(width)
        answer.attrs["source"] = "measured"
        return answer

    return times


class _Measured:
    """Measured times of one operator on one device, sorted by what must be equal and then by the sizes in `ALONG`."""

    def __init__(self, op: Op, rows: pd.DataFrame) -> None:
        self.op, keys, sizes = op, *_problems(op, rows)
        log_us = np.log(rows["duration_us"].to_numpy(dtype=float))
        codes, self.keys = _codes(keys)
        order = np.lexsort((log_us, *sizes.T[::-1], codes))
        whole = np.column_stack([codes, sizes])[order]
        differs = (whole[1:] != whole[:-1]).any(axis=1)
        first = np.r_[True, differs][: len(whole)]
        self.sizes = sizes[order][first]
        self.log_us = log_us[order][first]
        self.codes = codes[order][first]
        self.ends = np.searchsorted(self.codes, np.arange(len(self.keys) + 1))
        self.spread = [self._left_out(dim) for dim in range(sizes.shape[1])]

    def _left_out(self, dim: int) -> tuple[float, float]:
        """Return the spread of times interpolated, and continued, in one size; NaN where too few rows tell."""
        others = [self.codes, *np.delete(self.sizes, dim, axis=1).T]
        order = np.lexsort((self.sizes[:, dim], *others[::-1]))
        size = self.sizes[order, dim]
        log_us = self.log_us[order]
        same = np.all([one[order][1:] == one[order][:-1] for one in others], axis=0)
        a, b, c = (np.flatnonzero(same[:-1] & same[1:]) + step for step in range(3))
        slope = (log_us[c] - log_us[a]) / (size[c] - size[a])
        inside = log_us[a] + slope * (size[b] - size[a]) - log_us[b]
        slope = (log_us[b] - log_us[a]) / (size[b] - size[a])
        beyond = log_us[b] + slope * (size[c] - size[b]) - log_us[c]
        near = size[c] - size[a] <= APART + 1e-9
        after = (size[c] - size[b] <= BEYOND + 1e-9) & (
            size[c] - size[b] <= size[b] - size[a] + 1e-9
        )
        errors = (np.abs(inside[near]), np.abs(beyond[after & near]))
        within, past = (
            np.quantile(one, 0.9) / NINETY_PERCENT if len(one) >= LEAST else np.nan
            for one in errors
        )
        return float(within), float(past)

    def at(self, rows: pd.DataFrame) -> FloatArray:
        """Return the logarithm of the µs of rows and its variance, shape (n_rows, 2); NaN outside the measurements."""
        keys, sizes = _problems(self.op, rows)
        times = np.full((len(rows), 2), np.nan)
        for place, (key, size) in enumerate(zip(zip(*keys, strict=True), sizes, strict=True)):
            code = self.keys.get(key)
            if code is not None:
                times[place] = self._between(self.ends[code], self.ends[code + 1], 0, size)
        return times

    def _between(self, first: int, last: int, dim: int, at: FloatArray) -> tuple[float, float]:
        """Return the logarithm of the µs and its variance among rows that agree in the sizes before ``dim``."""
        if dim == len(at):
            return self.log_us[first], 0.0
        size = self.sizes[first:last, dim]
        asked = at[dim]

        def block(value: float) -> tuple[float, float]:
            low, high = np.searchsorted(size, [value - 1e-9, value + 1e-9])
            return self._between(first + low, first + high, dim + 1, at)

        low, high = np.searchsorted(size, [asked - 1e-9, asked + 1e-9])
        if low < high:
            return block(asked)
        beyond = low == len(size)
        if beyond:
            # as far as it is continued
            below = np.searchsorted(size, size[-1] - (asked - size[-1]) + 1e-9) - 1
            pair = (size[max(below, 0)], size[-1])
        else:
            pair = (size[max(low - 1, 0)], size[low])
        apart = pair[1] - pair[0]
        if (
            not 0 < apart <= APART + 1e-9
            or asked < pair[0]
            or (beyond and asked - pair[1] > BEYOND + 1e-9)
        ):
            return np.nan, np.nan
        part = (asked - pair[0]) / apart
        (before, left), (after, right) = (block(value) for value in pair)
        spread = self.spread[dim][int(beyond)] ** 2
        return (1 - part) * before + part * after, (1 - part) ** 2 * left + part**2 * right + spread


def _codes(keys: Sequence[np.ndarray]) -> tuple[np.ndarray, dict[tuple[Any, ...], int]]:
    """Return the number of each row's key, and the number of every key."""
    numbers: dict[tuple[Any, ...], int] = {}
    return np.array(
        [numbers.setdefault(key, len(numbers)) for key in zip(*keys, strict=True)], dtype=int
    ), numbers


def _problems(op: Op, rows: pd.DataFrame) -> tuple[list[np.ndarray], FloatArray]:
    """Return what must be equal of rows, a column each, and the logarithms of the sizes in `ALONG`, (n_rows, n)."""
    whole = op.complete(rows)
    along = ALONG.get(op.name, ())
    numbers = {
        name: np.nan_to_num(as_numbers(whole, name), nan=-1.0)
        for name in op.dims
        if name not in TEXTS
    }
    # a collective is identified by its bytes
    if op.name == "collective":
        words = []
    else:
        words = ["dtype_a", "dtype_b"]
    if op.name == "attention":
        # Of a decoding step one query; else the tokens before the first one. Shared keys are as
        # many as they are.
        numbers["seq_q"] = np.where(
            numbers["seq_q"] == 1, -1.0, numbers["seq_kv"] - numbers["seq_q"]
        )
        numbers["kv_heads"] = np.where(
            numbers["kv_heads"] == numbers["heads"], -1.0, numbers["kv_heads"]
        )
    keys = [texts(whole, name).astype(object) for name in words]
    keys += [values for name, values in numbers.items() if name not in along]
    # "all_reduce vllm_graph" is an all-reduce; "all_to_all_v dispatch" is one of a kind
    if op.name == "collective":
        first = [
            str(word).lower().split(" ")[0].replace("_", "") for word in texts(whole, "variant")
        ]
        keys.append(np.array(first, dtype=object))
    sizes = [np.log(np.maximum(numbers[name], 1e-9)) for name in along]
    return keys, np.column_stack(sizes) if sizes else np.empty((len(rows), 0))


TEXTS: Final = ("scale_block", "variant", "layout", "direction")  # dimensions that are words
View = Literal["times", "known", "spread"]
"""What is returned of a kernel: its time; the time that sources know, else 0; that time times its spread, else 0."""


@dataclass(frozen=True)
class LearnedProducts:
    """Times of products on one GPU in a number format by sources, else by its law."""

    law: ProductLaw
    gpu: str
    dtype: str
    sources: Sources

    def time_us(
        self, n: ArrayLike, tokens: ArrayLike, k: ArrayLike, copies: ArrayLike = 1.0
    ) -> FloatArray:
        """Return the time of products as `ProductLaw.time_us` does; products of several weights are the law's."""
        by_law = self.law.time_us(n, tokens, k, copies)
        sides = {"m": tokens, "n": n, "k": k}
        sizes = {
            name: np.maximum(np.rint(np.asarray(side, dtype=float)), 1.0)
            for name, side in sides.items()
        }
        measured = self.sources.ask(
            "gemm", by_law.shape, device=self.gpu, dtype_a=self.dtype, dtype_b=self.dtype, **sizes
        )
        # runs learn from products timed with their launch
        by_run = np.maximum(measured.us - LAUNCH_US, 0.5 * measured.us)
        us = np.where((measured.source == "run"), by_run, measured.us)
        alone = np.broadcast_to(np.asarray(copies, dtype=float) == 1.0, by_law.shape)
        return self.sources.pick(replace(measured, us=np.where(alone, us, np.nan)), by_law)


@dataclass(frozen=True)
class Sources:
    """Where the times of kernels come from: runs and measurements, in the order given, then the law.

    ``known`` keeps what they said.
    """

    runs: Sequence[Times] = ()
    view: View = "times"
    cached: dict[tuple[Any, ...], tuple[float, float, str]] = field(default_factory=dict)

    def ask(self, op: str, shape: tuple[int, ...], **columns: Any) -> KernelAnswers:
        """Return the sources' times of kernels of an operator, in arrays of a shape that the columns broadcast to."""
        cells = [
            np.broadcast_to(np.asarray(value), shape).ravel().tolist() for value in columns.values()
        ]
        keys = [(op, *columns, *row) for row in zip(*cells, strict=True)]
        new = [key for key in dict.fromkeys(keys) if key not in self.cached]
        if new:
            rows = pd.DataFrame(
                [key[1 + len(columns) :] for key in new], columns=list(columns)
            ).assign(op=op)
            answer = by_runs(self.runs, rows)
            self.cached.update(
                zip(new, zip(answer.us, answer.spread, answer.source, strict=True), strict=True)
            )
        if keys:
            us, spread, source = zip(*(self.cached[key] for key in keys), strict=True)
        else:
            us = ()
            spread = ()
            source = ()
        return KernelAnswers(
            np.array(us, dtype=float).reshape(shape),
            np.nan_to_num(np.array(spread, dtype=float)).reshape(shape),
            np.array(source, dtype=object).reshape(shape),
        )

    def pick(self, times: KernelAnswers, by_law: FloatArray, over: float = 1.0) -> FloatArray:
        """Return the view's times; sources' times are divided by the kernels' factor ``over`` their law."""
        is_timed = np.isfinite(times.us)
        us = times.us / over
        if self.view == "times":
            return np.where(is_timed, us, by_law)
        return np.where(is_timed, us * (times.spread if self.view == "spread" else 1.0), 0.0)

    def __call__(self, gpu: GPU, dtype: str, weights: str = "") -> ProductLaw | LearnedProducts:
        """Return the times of products of a GPU and precision; of ``weights`` in another format by law."""
        law = product_law(gpu, dtype)
        if weights not in ("", dtype):
            # in no format that a source knows
            law = replace(law, weight_bytes=BITS[weights] / 8)
            dtype = ""
        if self.runs:
            return LearnedProducts(law, gpu.name, dtype, self)
        return law

    def attention_us(
        self,
        gpu: GPU,
        model: Architecture,
        sequences: ArrayLike,
        tokens: ArrayLike,
        tp: int,
        *,
        backward: bool = False,
        over: float = 1.0,
    ) -> FloatArray:
        """Return the time of attention among the tokens of so many sequences in one layer on one of ``tp`` GPUs.

        ``over`` is as in `pick`.
        """
        sequences, tokens = np.broadcast_arrays(
            *(np.asarray(one, dtype=float) for one in (sequences, tokens))
        )
        flop = (
            (BACKWARD_WORK if backward else 1.0)
            * sequences
            * attention_flop(model, tokens, tokens, tp)
        )
        # of a model without any attention: its recurrent layers go at the rate of wide heads
        width = model.head_dim or 128
        law = Attention(keys=tokens, head_dim=width, causal=model.causal, backward=backward)
        by_law = law.us(flop, gpu)
        heads = self._heads(model, tp)
        if heads is None:
            return self.pick(_nothing(by_law.shape), by_law)
        sizes = {"batch": np.maximum(np.rint(sequences), 1.0), "seq_q": tokens, "seq_kv": tokens}
        op = "attention"
        if backward:
            op = "attention_backward"
        times = self.ask(op, by_law.shape, device=gpu.name, dtype_a="bf16", **sizes, **heads)
        return self.pick(times, by_law, over)

    def _heads(
        self, model: Architecture, tp: int, *, decoding: bool = False
    ) -> dict[str, float] | None:
        """Return the heads of a layer's attention on one GPU; None without runs, or if not all layers have the same."""
        if not self.runs or len(model.attention) != 1 or model.attention[0].layers != model.layers:
            return None
        one = model.attention[0]
        if one.window or one.picked:
            return None
        heads = {"heads": one.heads / tp, "causal": float(model.causal)}
        kept = max(one.kv_heads / tp, 1.0)
        latent = one.latent
        if latent is None:
            return {
                **heads,
                "kv_heads": kept,
                "head_dim": float(one.head_dim),
                "head_dim_v": float(one.value),
            }
        if decoding:  # one latent key for all heads, whose first part is the value
            widths = {
                "head_dim": float(latent.cache_rank + latent.rotary),
                "head_dim_v": float(latent.cache_rank),
            }
            return {**heads, "kv_heads": 1.0, **widths}
        widths = {
            "head_dim": float(latent.plain + latent.rotary),
            "head_dim_v": float(latent.value),
        }
        return {**heads, "kv_heads": one.heads / tp, **widths}

    def decoding(
        self,
        gpu: GPU,
        model: Architecture,
        sequences: FloatArray,
        cached: FloatArray,
        tp: int,
        dtype: str,
    ) -> KernelAnswers:
        """Return what sources say of a new token of each sequence that attends to so many cached, in all layers."""
        heads = self._heads(model, tp, decoding=True)
        if heads is None:
            return _nothing(np.shape(cached))
        sizes = {
            "batch": np.maximum(np.rint(sequences), 1.0),
            "seq_q": 1.0,
            "seq_kv": np.rint(cached),
        }
        formats = {"dtype_a": "bf16", "dtype_b": dtype}
        times = self.ask(
            "attention", np.shape(cached), device=gpu.name, **formats, **sizes, **heads
        )
        return replace(times, us=times.us * model.layers)

    def experts(
        self,
        gpu: GPU,
        model: Architecture,
        tokens: FloatArray,
        cut: tuple[int, int],
        formats: tuple[str, str],
    ) -> KernelAnswers:
        """Return the sources' times of the experts of a layer, split (tp, ep), for so many tokens of a GPU.

        ``formats`` are those of the products and of the weights.
        """
        (tp, ep) = cut
        mixture = model.mixture
        if mixture is None or not self.runs:
            return _nothing(np.shape(tokens))
        # of all GPUs that share the experts
        sent = np.maximum(np.rint(tokens * (ep / tp if ep > 1 else 1.0)), 1.0)
        sizes = {
            "model_dim": mixture.inputs or model.hidden,
            "inter_dim": mixture.width,
            "experts": mixture.experts,
        }
        ways = {
            "topk": mixture.visited,
            "gated": float(model.gated),
            "tp": 1.0 if ep > 1 else tp,
            "ep": ep,
        }
        words = {"device": gpu.name, "dtype_a": formats[0], "dtype_b": formats[1]}
        return self.ask("moe", np.shape(tokens), **words, tokens=sent, **sizes, **ways)

    def collective_us(
        self,
        gpu: GPU,
        collective: str,
        message_bytes: ArrayLike,
        ranks: int,
        network: Network,
        over: float = 1.0,
        *,
        engine: bool = False,
    ) -> FloatArray:
        """Return the times of collectives, one per message: by the law between nodes and without a source.

        ``over`` is as in `pick`. With ``engine`` they are those of a serving engine, whose
        all-reduce within a node is a separate kernel that the library does not delay
        (`OWN_ALL_REDUCE`).
        """
        by_law = collective_us(gpu, collective, message_bytes, ranks, network)
        if (
            engine
            and collective == "all_reduce"
            and gpu.family in OWN_ALL_REDUCE
            and network.nodes(ranks) == 1
        ):
            by_law = np.minimum(by_law, lent_us(gpu, collective, message_bytes, ranks))
        times = _nothing(by_law.shape)
        if self.runs and ranks > 1 and network.nodes(ranks) == 1:
            words = {"device": gpu.name, "variant": collective, "dtype_a": "bf16", "ranks": ranks}
            times = self.ask("collective", by_law.shape, **words, message_bytes=message_bytes)
        return self.pick(times, by_law, over)


def _nothing(shape: tuple[int, ...]) -> KernelAnswers:
    return KernelAnswers(np.full(shape, np.nan), np.zeros(shape), np.full(shape, "", dtype=object))

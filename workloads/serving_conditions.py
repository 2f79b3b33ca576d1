"""Times of serving under conditions that may be asked for: speculation, and prompts on GPUs of their own.

A source of times (`serving_model.served`) says how long a setting takes; `Conditions.times` returns
a source that says it under the conditions. A setting that was measured under them is as sure as such
runs, or as the answer without them where that is less; any other has both widths.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Final

import numpy as np
import pandas as pd

from ..arrays import BoolArray, FloatArray
from ..evaluation.metrics import NINETY_PERCENT
from ..hardware import GPU
from ..operators.kinds.serving_run import gpus
from ..remarks import Remark, remark
from .disaggregation import APART, SPREAD, first_token_ms
from .measured_ratios import NONE, Ratios, places_of, process
from .serving import DRAFTED
from .serving_model import TIMES, Served
from .speculation import gain, ratios

Times = Callable[[pd.DataFrame, GPU], Served]
"""Rows of the operator ``serving`` with the figures of their models, all on one GPU, to their times."""
_LEVELS: Final = {
    "setting": "setting",
    "combination": "model, format, GPU and engine, not with such parallelism or lengths,",
    "model": "model, not in this format on this GPU and engine,",
}
"""What a run under the conditions shared with the setting, the nearest first, and how that is said."""


@dataclass(frozen=True)
class Conditions:
    """What may be asked of serving beside its setting.

    Attributes
    ----------
    speculation : str
        How tokens are drafted: one of `speculation.SPECULATIONS`.
    prefill_gpus : int
        GPUs of each replica that only read prompts, beside those that write answers; 0 where all do
        both.
    runs_speculation : str
        How the user's runs drafted tokens that the source of times has learnt from.
    """

    speculation: str = NONE
    prefill_gpus: int = 0
    runs_speculation: str = NONE

    def times(self, plain: Times) -> Times:
        """Return a source of times under the conditions; ``plain`` itself where there are none."""
        if self == Conditions():
            return plain

        def times(rows: pd.DataFrame, gpu: GPU) -> Served:
            return self._served(plain, rows, gpu)

        return times

    def _served(self, plain: Times, rows: pd.DataFrame, gpu: GPU) -> Served:
        if self.prefill_gpus:
            rows = rows.assign(apart=APART)
        said = plain(rows, gpu)
        from_runs = np.zeros(len(rows), dtype=bool)
        if said.from_runs:
            from_runs = np.array(said.from_runs, dtype=bool)
        kept = from_runs & (self.runs_speculation == self.speculation)
        served = self._drafted(said, rows, gpu, from_runs)
        if self.prefill_gpus:
            served = self._apart(said, served, rows, gpu, kept)
        return served

    def _drafted(self, said: Served, rows: pd.DataFrame, gpu: GPU, from_runs: BoolArray) -> Served:
        """Return times with speculation, or without it as the user's runs with speculation imply."""
        asked = self.speculation != NONE
        if not asked and self.runs_speculation == NONE:
            return said
        values, spreads, notes = dict[str, FloatArray](), dict[str, FloatArray](), list[Remark]()
        for time in TIMES:
            change = gain(rows, time, gpu)
            value: FloatArray = getattr(said, time)
            spread: FloatArray = getattr(said, time.replace("_ms", "_spread"))
            wider = np.hypot(spread, change.spread)
            if not asked:
                values[time], spreads[time] = value, np.where(from_runs, wider, spread)
                continue
            wide = np.where(change.measured & ~from_runs, np.maximum(spread, change.spread), wider)
            if self.runs_speculation == self.speculation:
                wide = np.where(from_runs, spread, wide)
            values[time], spreads[time] = value * np.exp(change.log), wide
            if time == "tpot_ms":
                text = f"with speculation ({self.speculation})", "forecast without it"
                places = places_of(rows, self.speculation, gpu)
                learnt = ratios(time)
                notes.append(
                    _remark("speculation", text, learnt, places, change.log, change.spread)
                )
        return replace(
            said,
            tpot_ms=values["tpot_ms"],
            ttft_ms=values["ttft_ms"],
            tpot_least=said.tpot_least / DRAFTED,
            request_least=said.request_least / DRAFTED,
            tpot_spread=spreads["tpot_ms"],
            ttft_spread=spreads["ttft_ms"],
            remarks=(*said.remarks, *notes),
        )

    def _apart(
        self, said: Served, before: Served, rows: pd.DataFrame, gpu: GPU, kept: BoolArray
    ) -> Served:
        """Return times with prompts on GPUs of their own; those before are of the law of such steps alone."""
        learnt = process(f"apart {gpu.vendor}|tpot_ms")
        assert learnt is not None  # of every vendor that an engine runs on
        places = places_of(rows, self.speculation, gpu)
        log, spread = learnt.of(places)
        tpot = np.where(kept, before.tpot_ms, before.tpot_ms * np.exp(log))
        wide = np.where(
            learnt.measured(places),
            np.maximum(said.tpot_spread, spread),
            np.hypot(before.tpot_spread, spread),
        )
        text = (
            f"prompts on {self.prefill_gpus} GPUs of their own",
            "steps without prompts are forecast",
        )
        note = _remark("prefill-gpus", text, learnt, places, log, spread)
        first = first_token_ms(rows, gpu, self.prefill_gpus, tpot)
        # what is less sure without the condition is no surer with it
        first_wide = np.maximum(before.ttft_spread, SPREAD.of(gpu.vendor))
        return replace(
            before,
            tpot_ms=tpot,
            tpot_spread=np.where(kept, before.tpot_spread, wide),
            ttft_ms=np.where(kept, before.ttft_ms, first),
            ttft_spread=np.where(kept, before.ttft_spread, first_wide),
            ttft_least=before.ttft_least * np.where(kept, 1.0, gpus(rows) / self.prefill_gpus),
            remarks=(*before.remarks, note),
        )


def _remark(
    code: str,
    condition: tuple[str, str],
    learnt: Ratios,
    places: pd.DataFrame,
    log: FloatArray,
    spread: FloatArray,
) -> Remark:
    """Say what the times under a condition rest on; ``condition`` is it, and what it is beside."""
    what, beside = condition
    basis = "new"
    said = "model was not measured so"
    for level, words in _LEVELS.items():
        if learnt.measured(places, level).any():
            basis, said = level, f"{words} was measured so"
            break
    times = float(np.exp(np.median(log)))
    factor = float(np.exp(NINETY_PERCENT * np.median(spread)))
    if basis == "new" and code == "speculation":
        said += (
            " (it needs layers that draft, or a drafter of its own; the factor is that of other "
            "models)"
        )
    text = (
        f"{what}: learnt from {len(learnt.runs):,} published settings; this {said}: a token "
        f"takes {times:.2f} times as long as {beside}, 9 in 10 within a factor of {factor:.2f} of that"
    )
    return remark(code, text, basis=basis, runs=len(learnt.runs), times=times, factor=factor)

"""Percentiles of serving, learnt: ``python -m flopcast.benchmarks.serving_percentiles [--data FOLDER]``.

Prints the constants of `workloads.serving_percentiles`, and how often what published runs state lay
within the intervals, each model, GPU and engine left out in turn: of the percentile over what the
model of serving has learnt of a run, and of the percentile over what it says of it.
"""

from __future__ import annotations

import argparse
import itertools
import sys
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Final

import numpy as np
import pandas as pd

from ..arrays import BoolArray, FloatArray
from ..evaluation.metrics import NINETY_PERCENT
from ..operators.kinds.serving_run import SERVING
from ..operators.operators import complete
from ..workloads import serving_model as process
from ..workloads.serving import described
from ..workloads.serving_percentiles import AMD_STATES, PERCENTILES, traits
from .instinct_runs import runs_of, table_of
from .shared_data import run_on_data

STATED: Final = {"p50": "median", "p99": "p99"}
"""Percentiles that public runs state -> the end of their columns."""
LEFT_OUT: Final = ("model", "device", "engine")
PULL: Final = 1.0
"""How many runs draw each slope to 0."""
FAR: Final = 1.5
"""Median errors from which on an error weighs as its distance."""


def stated(data: Path) -> pd.DataFrame:
    """Return the runs that state mean and percentiles of both times, with the figures of their models."""
    table = table_of(data)
    columns = []
    for time in process.TIMES:
        for ending in ("mean", *STATED.values()):
            columns.append(f"{time}_{ending}")
    table = table[table[columns].notna().all(axis=1)]
    rows = runs_of(table)
    rows = rows[rows["tuned"]].assign(op=SERVING)
    rows = rows.join(table[columns])
    every, why = described(rows.reset_index(drop=True))
    return complete(every[why == ""].reset_index(drop=True))


def learnt(traits_of: FloatArray, logs: FloatArray, weights: FloatArray) -> FloatArray:
    """Return the coefficients of logarithms: least squares, where far errors weigh as their distance."""
    pull = np.full(traits_of.shape[1], PULL)
    pull[0] = 1e-6
    slopes = np.zeros(traits_of.shape[1])
    near = np.ones(len(logs))
    for _ in range(20):
        weighed = traits_of * (weights * near)[:, None]
        slopes = np.linalg.solve(weighed.T @ traits_of + np.diag(pull), weighed.T @ logs)
        missed = np.abs(logs - traits_of @ slopes)
        near = 1.0 / np.maximum(1.0, missed / (FAR * np.median(missed) + 1e-9))
    return slopes


def without_each(
    runs: pd.DataFrame, traits_of: FloatArray, logs: FloatArray, weights: FloatArray, by: str
) -> FloatArray:
    """Return the error of each run when those that share its ``by`` are left out."""
    groups = runs[by].to_numpy()
    missed = np.empty(len(logs))
    for group in np.unique(groups):
        rest = groups != group
        slopes = learnt(traits_of[rest], logs[rest], weights[rest])
        missed[~rest] = logs[~rest] - traits_of[~rest] @ slopes
    return missed


def nine_in_ten(missed: FloatArray, groups: np.ndarray) -> float:
    """Return the error that nine in ten are within, each group weighing the same."""
    weight = 1.0 / pd.Series(groups).groupby(groups).transform("size").to_numpy()
    order = np.argsort(np.abs(missed))
    level = np.cumsum(weight[order]) / weight.sum()
    place = min(int(np.searchsorted(level, 0.9)), len(missed) - 1)
    return float(np.abs(missed)[order][place])


def taught(runs: pd.DataFrame, time: str) -> FloatArray:
    """Return the times of runs that the model of serving learnt: AMD's medians, the means of others."""
    amd = np.array(process.vendors(runs)) == "AMD"
    return np.where(amd, runs[f"{time}_{STATED[AMD_STATES]}"], runs[f"{time}_mean"])


def asked_rows(runs: pd.DataFrame, percentile: str) -> BoolArray:
    """Return the runs that tell of a percentile: AMD's tell nothing of that which was taught."""
    amd = np.array(process.vendors(runs)) == "AMD"
    return ~amd | (percentile != AMD_STATES)


@dataclass(frozen=True)
class Learnt:
    """The fit of one percentile."""

    rows: BoolArray  # which of the runs tell of it; shape (n_runs,)
    base: FloatArray  # what the model of serving was taught of these, ms
    constants: list[float]
    limit: float  # of the logarithm, that nine in ten left-out errors are within
    missed: dict[str, FloatArray]  # by `LEFT_OUT`, errors of the logarithm


def percentile_of(runs: pd.DataFrame, time: str, percentile: str) -> Learnt:
    """Return the fit of a percentile of a time to runs of `stated`."""
    rows = asked_rows(runs, percentile)
    stating = runs[rows].reset_index(drop=True)
    base = taught(stating, time)
    logs = np.log(stating[f"{time}_{STATED[percentile]}"].to_numpy(dtype=float) / base)
    kinds = stating["device"] + stating["engine"] + stating["model"]
    weights = 1.0 / kinds.map(kinds.value_counts()).to_numpy(dtype=float)
    weights /= weights.mean()
    traits_of = traits(stating)
    if percentile == AMD_STATES:
        traits_of = traits_of[:, :-1]
    missed = {}
    groups = []
    for by in LEFT_OUT:
        missed[by] = without_each(stating, traits_of, logs, weights, by)
        groups.append(by + "|" + stating[by].to_numpy(dtype=object))
    limit = nine_in_ten(np.concatenate([*missed.values()]), np.concatenate(groups))
    constants = np.round(learnt(traits_of, logs, weights), 3).tolist()
    return Learnt(rows, base, constants, limit, missed)


def main(arguments: Sequence[str] | None = None) -> int:
    """Print the constants and their coverage; return the exit code."""
    return run_on_data("serving_percentiles", __doc__, _show, arguments)


def _show(options: argparse.Namespace) -> None:
    runs = stated(options.data)
    served = process.shipped().served(runs)
    print("| time | percentile | left out | runs | median error | inside | of the forecast |")
    print("|---|---|---|---|---|---|---|")
    constants = []
    for time, percentile in itertools.product(process.TIMES, PERCENTILES):
        percentile_fit = percentile_of(runs, time, percentile)
        answer = getattr(served, time)[percentile_fit.rows]
        wide = getattr(served, time.replace("_ms", "_spread"))[percentile_fit.rows]
        spread = percentile_fit.limit / NINETY_PERCENT
        both = NINETY_PERCENT * np.hypot(wide, spread)
        for by, missed in percentile_fit.missed.items():
            whole = np.log(percentile_fit.base / answer) + missed
            inside = 100 * np.mean(np.abs(missed) <= percentile_fit.limit)
            beside = 100 * np.mean(np.abs(whole) <= both)
            error = 100 * np.expm1(np.median(np.abs(missed)))
            cells = (time, percentile, by, len(missed), f"{error:.0f} %", f"{inside:.0f} %")
            print("|", " | ".join(map(str, cells)), f"| {beside:.0f} % |")
        constants.append(
            f'("{time}", "{percentile}"): {percentile_fit.constants}, spread {spread:.3f}'
        )
    print("\n".join(constants))


if __name__ == "__main__":
    sys.exit(main())

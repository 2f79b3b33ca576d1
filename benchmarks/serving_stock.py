"""Engines as they come: ``python -m flopcast.benchmarks.serving_stock [--data FOLDER]``.

FOLDER holds AMD's and others' published runs. Those of engines that no vendor tuned are asked, each
model left out of how much longer such engines take: as stock, as either, and as the user's stack
whose other models were measured. Prints how the times are off, and how many are within nine in ten.
"""

from __future__ import annotations

import argparse
import sys
from collections.abc import Iterator, Sequence
from dataclasses import replace

import numpy as np
import pandas as pd

from ..workloads import serving_model as process
from ..workloads.serving_law import ENDS
from ..workloads.serving_model import EITHER, TIMES, TUNINGS, Served, ServingModel
from .serving_model import percent, stock_law, stock_runs
from .shared_data import run_on_data

ASKED = {
    "own": "runs of other models of the stack measured",
    EITHER: "neither said",
    TUNINGS[0]: "as the vendor tunes it (`--tuning tuned`)",
    TUNINGS[1]: "as it comes (`--tuning stock`)",
}


def errors(model: ServingModel, runs: pd.DataFrame) -> pd.DataFrame:
    """Return a row for each run, way to ask and time: error of the logarithm, and whether it was within."""
    codes = process.points_of(runs, slower=model.slower).names["model"]
    vendor = pd.Series(process.vendors(runs), index=runs.index)
    stacks = vendor + "|" + runs["source"] + "|" + runs["engine"]
    runs = runs.assign(vendor=vendor, stack=stacks, code=codes)
    missed = []
    for code in np.unique(codes):
        asked = runs[runs["code"] == code].reset_index(drop=True)
        others = runs[runs["code"] != code].reset_index(drop=True)
        fits = {}
        for time in TIMES:
            fits[time] = replace(model.fits[time], stock=stock_law(model, others, time))
        without = replace(model, fits=fits)
        for tuning in (*TUNINGS, EITHER):
            missed += _missed(without.served(asked.assign(tuning=tuning)), asked, tuning)
        for stack, of_stack in asked.groupby("stack"):
            same = others[others["stack"] == stack]
            if len(same):
                of_stack = of_stack.reset_index(drop=True)
                served = without.calibrated(same).served(of_stack)
                missed += _missed(served, of_stack, "own")
    return pd.concat(missed, ignore_index=True)


def _missed(served: Served, runs: pd.DataFrame, asked: str) -> Iterator[pd.DataFrame]:
    for time in TIMES:
        lower, middle, upper = served.law(time).quantiles([ENDS[0], 0.0, ENDS[1]]).T
        measured = runs[time].to_numpy(dtype=float)
        table = pd.DataFrame({"vendor": runs["vendor"], "asked": asked, "time": time})
        table["missed"] = np.log(measured / middle)
        table["inside"] = (lower <= measured) & (measured <= upper)
        yield table[np.isfinite(table["missed"])].assign(code=runs["code"])


def main(arguments: Sequence[str] | None = None) -> int:
    """Print the table; return the exit code."""
    return run_on_data("serving_stock", __doc__, _show, arguments)


def _show(options: argparse.Namespace) -> None:
    model, runs = process.shipped(), stock_runs(options.data)
    for time in TIMES:
        print(f"{time}: {stock_law(model, runs, time)}")
    missed = errors(model, runs)
    print("| time | GPUs | asked | runs | models | error | bias | inside |")
    print("|---|---|---|---|---|---|---|---|")
    for (time, vendor, asked), rows in missed.groupby(["time", "vendor", "asked"]):
        bias = 100.0 * np.expm1(-rows["missed"].median())
        models = rows["code"].nunique()
        error = "{:.0f} / {:.0f}".format(*percent(rows["missed"]))
        cells = (time, vendor, ASKED[str(asked)], len(rows), models, f"{error} %")
        inside = f"{100.0 * rows['inside'].mean():.0f} %"
        print("|", " | ".join(map(str, cells)), f"| {bias:+.0f} % | {inside} |")


if __name__ == "__main__":
    sys.exit(main())

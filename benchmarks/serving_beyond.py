"""How runs beyond those learnt from are forecast: ``python -m flopcast.benchmarks.serving_beyond SAMPLE``.

SAMPLE is ``systems/silicon_sample.csv`` of AIConfigurator's wheel. The runs that go further in a
direction than each of `LEFT_OUT` (more requests under way, longer prompts, longer or shorter
answers, more of the prompt beside the answer) are left out one after the other, all that is learnt
is learnt anew, and the runs are held against the intervals, which widen with each
doubling (`workloads.serving_model.BEYOND`). No release is named, as in a search.
"""

from __future__ import annotations

import argparse
import sys
from collections.abc import Sequence
from dataclasses import replace
from typing import Final

import numpy as np
import pandas as pd

from ..arrays import FloatArray
from ..evaluation.metrics import NINETY_PERCENT
from ..workloads.serving_model import (
    TIMES,
    ServingModel,
    extents,
    kept,
    points_of,
    shipped,
    vendors,
)
from .instinct_runs import INSTINCT
from .serving_model import Pairs, first_fit, grown, learn, published
from .shared_data import run_on_data

LEFT_OUT: Final = {
    "concurrency": (32, 64, 128),
    "input_len": (1024, 2048, 4096),
    "output_len": (512, 1024),
    "shortness": (1 / 512, 1 / 1024),
    "prompt_ratio": (1, 4),
}


def of_fewer(runs: pd.DataFrame, hidden: np.ndarray) -> ServingModel:
    """Return a model that did not learn from the hidden runs, with the widths of the one that ships."""
    shipped_model, points = shipped(), points_of(runs, slower=shipped().slower)
    usable = ((runs["apart"] != "yes") | runs["device"].isin(INSTINCT)).to_numpy() & ~hidden
    fits = {}
    for time in TIMES:
        times = runs[time].to_numpy(dtype=float)
        learnt = learn(points, Pairs.of(points, first_fit(time, 0)), times, time, usable)
        fits[time] = replace(
            learnt.fit,
            spreads=shipped_model.fits[time].spreads,
            trust=shipped_model.fits[time].trust,
            trees=grown(learnt, points, runs)
            if shipped_model.fits[time].trees is not None
            else None,
        )
    return ServingModel(kept(runs), fits, shipped_model.about, shipped_model.slower)


def errors(runs: pd.DataFrame) -> pd.DataFrame:
    """Return a row for each run left out and time that it measured.

    Columns: beyond what, the vendor of its GPU, doublings, error and deviation in logarithms. Runs
    whose vendor has none left with lengths of their kind, equal or drawn, are not asked.
    """
    errors_of = []
    together = (runs["apart"] != "yes").to_numpy()
    kind = pd.Series(vendors(runs)).str.cat(runs["lengths"], sep="|").to_numpy()
    for beyond, limit in ((name, limit) for name, limits in LEFT_OUT.items() for limit in limits):
        values: FloatArray = extents(runs)[beyond]
        hidden = (values > limit) & together
        left = hidden & np.isin(kind, kind[together & ~hidden])
        asked = runs[left].assign(engine_version="")
        served = of_fewer(runs, hidden).served(asked)
        for time in TIMES:
            spread = getattr(served, time.replace("_ms", "_spread"))
            missed = np.log(getattr(served, time) / asked[time].to_numpy(dtype=float))
            of_time = pd.DataFrame({"beyond": beyond, "time": time, "missed": missed})
            of_time["spread"] = spread
            of_time["doublings"] = np.log2(values[left] / limit)
            of_time["vendor"] = vendors(asked)
            errors_of.append(of_time[of_time["missed"].notna()])
    return pd.concat(errors_of, ignore_index=True)


def main(arguments: Sequence[str] | None = None) -> int:
    """Print how the runs left out were forecast, by the doublings; return the exit code."""
    return run_on_data(
        "serving_beyond", __doc__, _show, arguments, paths={"sample": "silicon_sample.csv"}
    )


def _show(options: argparse.Namespace) -> None:
    missed = errors(published(options.sample, options.data))
    missed["covered"] = missed["missed"].abs() <= NINETY_PERCENT * missed["spread"]
    missed["error"] = np.abs(np.expm1(missed["missed"]))
    missed["doublings"] = pd.cut(missed["doublings"], [0, 1, 2, np.inf], labels=["1", "2", "more"])
    by = missed.groupby(["beyond", "vendor", "time", "doublings"], observed=True)
    table = by.agg(
        runs=("error", "size"),
        mean=("error", "mean"),
        median=("error", "median"),
        covered=("covered", "mean"),
    )
    print(table.round(3).to_string())


if __name__ == "__main__":
    sys.exit(main())

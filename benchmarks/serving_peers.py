"""Plain trees on published serving runs: ``python -m flopcast.benchmarks.serving_peers SAMPLE``.

SAMPLE is ``systems/silicon_sample.csv`` of AIConfigurator's wheel. Boosted and extremely randomised
trees with scikit-learn's defaults, but for the number of trees and the size of a leaf, learn the
logarithm of measured over naive roofline from traits and parts of a run and from its words. They
are asked the rows of `benchmarks.serving_model`'s table, the same groups left out, one by one, but
for configurations, which are left out in `BATCHES`.
"""

from __future__ import annotations

import argparse
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Final

import numpy as np
import pandas as pd
from sklearn.ensemble import ExtraTreesRegressor, HistGradientBoostingRegressor

from ..arrays import FloatArray
from ..errors import FlopcastError
from ..workloads.serving_model import (
    NEW_COMBINATION,
    NEW_SETTING,
    NEW_VENDOR,
    TIMES,
    Points,
    points_of,
)
from ..workloads.serving_trees import WORDS, columns
from .kernel_reach import slower
from .serving_model import BETWEEN, percent, published, questions, roofline
from .shared_data import SHARED_DATA

LEARNERS: Final = {
    "boosted": HistGradientBoostingRegressor(
        max_iter=400, learning_rate=0.05, min_samples_leaf=8, random_state=0
    ),
    "extremely randomised": ExtraTreesRegressor(
        300, min_samples_leaf=2, max_features=0.5, random_state=0
    ),
}
MEAN: Final = "mean of both"
BATCHES: Final = 15


def missed(points: Points, runs: pd.DataFrame, time: str) -> pd.DataFrame:
    """Return logarithms of measured over predicted, a column a learner, and the ``question``; pairs are not asked."""
    part, whole = time.removesuffix("_ms"), runs[time].to_numpy(dtype=float)
    words = tuple(
        (name, word) for name in WORDS for word in sorted({*runs[name].fillna("")}) if word
    )
    parts = np.log(np.column_stack([*getattr(points.steps, part).values()]) + 1e-9)
    X, naive = columns(runs, points.steps, parts, words), roofline(points, time)
    y: FloatArray = np.log(whole / naive)
    usable = (runs["apart"] != "yes").to_numpy() & np.isfinite(y)
    left_out: dict[tuple[str, int], list[np.ndarray]] = {}
    for number, (question, rows, _) in enumerate(questions(points, runs)):
        if question not in (NEW_COMBINATION, NEW_VENDOR, BETWEEN):
            batch = number % BATCHES if question == NEW_SETTING else number
            left_out.setdefault((question, batch), []).append(rows)
    tables = list[pd.DataFrame]()
    for (question, _), groups in left_out.items():
        hidden = np.concatenate(groups)
        seen = usable.copy()
        seen[hidden] = False
        asked = hidden[np.isfinite(y[hidden])]
        errors_of = {
            name: y[asked] - model.fit(X[seen], y[seen]).predict(X[asked])
            for name, model in LEARNERS.items()
        }
        tables.append(
            pd.DataFrame({"question": question, **errors_of, MEAN: sum(errors_of.values()) / 2})
        )
    return pd.concat(tables, ignore_index=True)


def main(arguments: Sequence[str] | None = None) -> int:
    """Print mean and median errors in percent by what was left out; return the exit code."""
    parser = argparse.ArgumentParser(
        prog="python -m flopcast.benchmarks.serving_peers", description=__doc__
    )
    parser.add_argument("sample", type=Path, help="silicon_sample.csv")
    parser.add_argument("--data", type=Path, default=SHARED_DATA, help="folder of measured data")
    options = parser.parse_args(arguments)
    try:
        runs = published(options.sample, options.data)
        points = points_of(
            runs, slower=slower(options.sample.parent / "data", options.data / "aiter")
        )
    except FlopcastError as error:
        print(error, file=sys.stderr)
        return 2
    for time in TIMES:
        for question, of_question in missed(points, runs, time).groupby("question", sort=False):
            cells = (
                "{} {:.1f} / {:.1f}".format(name, *percent(of_question[name]))
                for name in of_question.columns[1:]
            )
            print(f"{time} {question}, {len(of_question)} runs:", ", ".join(cells), flush=True)
    return 0


if __name__ == "__main__":
    sys.exit(main())

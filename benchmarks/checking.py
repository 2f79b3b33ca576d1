"""How often `check` is wrong: verdicts on tables drawn like the training rows, and on shifted and scattered ones.

Made up: groups that differ by a normal deviate, rows of a group by another (heavy-tailed in half of
the settings), 12 or 40 groups trained, 8 or 40 new ones of unequal size; as trained, 8 % slower,
and half of the groups 40 % slower. Measured, where the data are on this machine: AITER's FP8 pairs,
of which half the groups train a line of the host's time and the others are checked. ``python -m
flopcast.benchmarks.checking [--data FOLDER]``.
"""

from __future__ import annotations

import argparse
import sys
import warnings
from collections import Counter
from collections.abc import Iterator
from itertools import product
from pathlib import Path

import numpy as np
import pandas as pd

from ..api.devices import device
from ..api.tables import load_measurements
from ..evaluation.checking import assess
from ..evaluation.intervals import ConformalIntervals
from ..features.matrix import build_dataset
from ..models.baselines import Affine
from .shared_data import run_on_data

TABLES = 50
"""Tables per setting."""
SETTINGS = ((12, 8, 0.05), (12, 40, 0.15), (40, 8, 0.15), (40, 40, 0.05))
"""Groups trained, new groups, and by how much groups differ (standard deviation of the logarithm)."""


def drawn(
    rng: np.random.Generator, groups: int, between: float, heavy: bool, name: str
) -> pd.DataFrame:
    """Return rows of so many groups of 3 to 40 rows whose log ratio is a group's deviate plus a row's."""
    sizes = rng.integers(3, 41, groups)
    noise = rng.standard_t(3, sizes.sum()) / np.sqrt(3) if heavy else rng.normal(size=sizes.sum())
    errors = np.repeat(rng.normal(0, between, groups), sizes) + 0.05 * noise
    labels = np.repeat([f"{name}{group}" for group in range(groups)], sizes)
    predicted = np.exp(rng.normal(4, 1, sizes.sum()))
    return pd.DataFrame(
        {"observed": predicted * np.exp(errors), "predicted": predicted, "group": labels}
    )


def asked(rows: pd.DataFrame, intervals: ConformalIntervals) -> pd.DataFrame:
    """Return rows as `assess` takes them."""
    lower, upper = intervals.bounds(rows["predicted"], 0.9)
    rows = rows.assign(lower=lower, upper=upper, within=True)
    rows["class"] = "one"
    return rows


def changed(rng: np.random.Generator, rows: pd.DataFrame) -> Iterator[tuple[str, pd.DataFrame]]:
    """Yield the rows as they are, 8 % slower, and half of their groups 40 % slower."""
    yield "as trained", rows
    yield "8 % slower", rows.assign(observed=1.08 * rows["observed"])
    names = rows["group"].unique()
    half = rows["group"].isin(rng.choice(names, len(names) // 2, replace=False))
    yield (
        "half 40 % slower",
        rows.assign(observed=rows["observed"].where(~half, 1.4 * rows["observed"])),
    )


def made_up() -> None:
    """Print how often each verdict is given, by setting, and in all settings together."""
    total: dict[str, Counter[str]] = {}
    for (trained, new, between), heavy in product(SETTINGS, (False, True)):
        counts: dict[str, Counter[str]] = {}
        for seed in range(TABLES):
            rng = np.random.default_rng([seed, trained, new, int(100 * between), heavy])
            old = drawn(rng, trained, between, heavy, "old")
            intervals = ConformalIntervals("grouped").fit(
                old["observed"], old["predicted"], old["group"]
            )
            for name, rows in changed(rng, drawn(rng, new, between, heavy, "new")):
                checked = assess(asked(rows, intervals), {"grouped": old}, seed=seed)
                for tally in (counts, total):
                    tally.setdefault(name, Counter())[checked.outcome] += 1
        setting = (
            f"{trained} trained, {new} new, groups differ by "
            f"{between:g}{', heavy tails' if heavy else ''}"
        )
        _say(setting, counts)
    _say("all of them", total)


def measured(data: Path) -> None:
    """Print the verdicts on halves of the pairs, whose groups are drawn anew each time."""
    host, target = device("MI300X", "host"), device("MI355X", "target")
    where = {"op": "gemm", "family": "a8w8_blockscale"}
    dataset = build_dataset(
        load_measurements([data / "aiter"], where).frame, host=host, target=target
    )
    rows = pd.DataFrame(
        {"host": dataset.host_values, "observed": dataset.y, "group": dataset.groups.astype(str)}
    )
    names, counts = rows["group"].unique(), dict[str, Counter[str]]()
    for seed in range(2 * TABLES):
        rng = np.random.default_rng(seed)
        old = rows["group"].isin(rng.permutation(names)[: len(names) // 2])
        trained, new = rows[old], rows[~old]
        parts = list(trained.groupby("group"))
        reference = pd.concat(_line(trained.drop(index=part.index), part) for _, part in parts)
        intervals = ConformalIntervals("grouped").fit(
            reference["observed"], reference["predicted"], reference["group"]
        )
        for name, table in changed(rng, _line(trained, new)):
            checked = assess(asked(table, intervals), {"grouped": reference}, seed=seed)
            counts.setdefault(name, Counter())[checked.outcome] += 1
    _say(f"AITER pairs, {len(names)} groups halved {2 * TABLES} times", counts)


def _line(trained: pd.DataFrame, new: pd.DataFrame) -> pd.DataFrame:
    """Return new rows with what a line of the host's time predicts."""
    line = Affine().fit(trained[["host"]].to_numpy(), trained["observed"])
    return new.assign(predicted=line.predict(new[["host"]].to_numpy()))


def _say(setting: str, counts: dict[str, Counter[str]]) -> None:
    said = [
        f"{name}: " + ", ".join(f"{word} {n}" for word, n in sorted(one.items()))
        for name, one in counts.items()
    ]
    print(" | ".join([setting, *said]), flush=True)


def show(options: argparse.Namespace) -> None:
    """Print both."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        made_up()
        measured(options.data)


if __name__ == "__main__":
    sys.exit(run_on_data("checking", __doc__, show))

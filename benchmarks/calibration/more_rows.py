"""What `advise` and `--need` expect of further rows, beside what happens when they are measured and trained on.

A run is trained on some rows of three groups in four, and says what `MORE` further rows, chosen by
`advise` from the rest of these groups, would leave of its error of new groups. Then it is trained
on them too: the true fall is that of the mean error of the other groups, whatever a run stated.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Any, Final

import numpy as np
import pandas as pd

import flopcast as fc

from ...api.checking import MOST_ROWS, needed_as_stated
from ...evaluation.metrics import ape
from .rows import Row, Rows, products
from .whole_runs import HOST, TARGET, menu_us, roofline_us, split_k_us

MORE: Final = MOST_ROWS
FIRST: Final = (120, 400)
"""Rows that are trained at first."""
LITTLE: Final = 1e-4
"""An error that no run reaches, so that all rows are asked for."""
PROBLEM: Final = ["m", "n", "k"]


def more_rows(
    sets: int,
    seed: int = 0,
    laws: Iterable[str] = ("roofline", "split-K", "menu of tiles"),
    devices: Iterable[str] = (HOST, TARGET),
) -> Rows:
    """Yield the expected fall of the error of new groups over the true one, of made-up laws and AITER's products."""
    for first in FIRST:
        ratios: list[tuple[float, float]] = []
        for name in laws:
            made = [made_up(LAWS[name], [seed, first, number]) for number in range(sets)]
            yield from averages(
                name, first, [falls(rows, HOST, first, seed) for rows in made], ratios
            )
        embedded = fc.read().frame
        for device in devices:
            rows = embedded[embedded["device"].eq(device)].drop_duplicates(PROBLEM)
            draws = [falls(rows, device, first, seed + number) for number in range(sets)]
            yield from averages(device, first, draws, ratios)
        yield from averages("all of these", first, ratios, [])


LAWS: Final[dict[str, Callable[[pd.DataFrame], Any]]] = {
    "roofline": roofline_us,
    "split-K": split_k_us,
    "menu of tiles": menu_us,
}


def made_up(law: Callable[[pd.DataFrame], Any], seed: list[int]) -> pd.DataFrame:
    """Return products of 24 weight shapes, 50 of each, whose groups differ by 5 % and rows by 3 %."""
    rng = np.random.default_rng(seed)
    rows = products(rng, [50] * 24)
    shifts = rng.normal(0, 0.05, 24)[rows["shape"]]
    us = law(rows) * np.exp(shifts + rng.normal(0, 0.03, len(rows)))
    return rows.drop(columns="shape").assign(device=HOST, duration_us=us)


def falls(rows: pd.DataFrame, device: str, first: int, seed: int) -> tuple[float, float]:
    """Return by how many points of error `MORE` rows are expected to lower it, and by how many they do."""
    draw = np.random.default_rng([seed, first])
    groups = rows.groupby(["n", "k"]).ngroup().to_numpy()
    order = draw.permutation(np.unique(groups))
    out = np.isin(groups, order[: len(order) // 4])
    pool = draw.permutation(np.flatnonzero(~out))
    trained, rest, asked = rows.iloc[pool[:first]], rows.iloc[pool[first:]], rows[out]
    options: dict[str, Any] = {"target": device, "quick": True, "seed": seed, "jobs": 1}
    run = fc.train(trained, **options)
    batch = fc.advise(run, rest, rows=MORE).batch
    answer = needed_as_stated(run, LITTLE, rest)
    if answer.ways:
        expected = answer.now - answer.ways[-1][1]
    else:
        expected = 0.0
    chosen = rest.merge(batch[PROBLEM].astype(float).drop_duplicates(), on=PROBLEM)
    again = fc.train(pd.concat([trained, chosen]), **options)
    before, after = (_error(one, asked) for one in (run, again))
    return 100 * expected, before - after


def _error(run: fc.Run, rows: pd.DataFrame) -> float:
    answers = run.predict(rows)
    return float(np.mean(ape(answers["duration_us"], answers["predicted_us"])))


def averages(
    name: str, first: int, falls: list[tuple[float, float]], together: list[tuple[float, float]]
) -> Rows:
    together += falls
    expected, true = np.mean(falls, axis=0)
    where = f"{MORE} rows beside {first}, {name}"
    yield Row(f"{where}: expected fall of the error, mean", float(expected), len(falls), " points")
    yield Row(f"{where}: true fall, mean", float(true), len(falls), " points")
    yield Row(f"{where}: expected / true fall", float(expected / true), len(falls), "")

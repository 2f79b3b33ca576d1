"""How the time of a fit grows with the columns and with the rows, model by model."""

from __future__ import annotations

import time
import warnings
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import count

import numpy as np
from rich.table import Table
from sklearn.base import clone
from threadpoolctl import threadpool_limits

from ..models.base import Candidate, fit
from ..models.suite import suite
from .harness import Row
from .made_up_counters import Counters, counters
from .suite_time import FOREST

COLUMNS, ROWS = (50, 100, 200, 500, 1000, 2000), (300, 1000, 3000, 10_000)
FEW_ROWS, FEW_COLUMNS = 300, 75
SLOW = 60.0
"""A model that would take longer than this many seconds at the next size, were its growth cubic, is not run there."""
REPEATS = 3
_BRIEF = 0.5
_UNITS = count(1)


@dataclass(frozen=True)
class Growth:
    """Seconds of one fit at rising sizes.

    Attributes
    ----------
    what : str
        What rises, and what stays.
    sizes : tuple of int
    seconds : dict of str to list of float
        By model; shorter than ``sizes`` where the next size would have taken too long.
    """

    what: str
    sizes: tuple[int, ...]
    seconds: dict[str, list[float]]

    def power(self, name: str) -> float:
        """Return the b of time = a size^b between the last size and the last one of at most a quarter of it."""
        times = self.seconds[name]
        last = len(times) - 1
        first = max((i for i in range(last) if 4 * self.sizes[i] <= self.sizes[last]), default=0)
        if last == first:
            return float("nan")
        return float(
            np.log(times[last] / times[first]) / np.log(self.sizes[last] / self.sizes[first])
        )

    def rows(self) -> Iterator[Row]:
        """Yield a row a model and size."""
        for name, times in self.seconds.items():
            for size, seconds in zip(self.sizes, times, strict=False):
                yield Row(
                    f"growth, {self.what}: {size}",
                    name,
                    seconds,
                    note=f"power {self.power(name):.2f} in the end",
                )


def growths(
    columns: Sequence[int], rows: Sequence[int], trees: bool = False, repeats: int = REPEATS
) -> Iterator[Growth]:
    """Yield the growth with the columns (300 rows), then with the rows (75 columns), of the literature's models.

    Parameters
    ----------
    columns, rows : sequence of int
        The sizes, rising.
    trees : bool, default=False
        The random forest as well, which takes longer than all others together.
    repeats : int, default=3
        How often a brief fit is timed; the shortest counts.
    """
    without = () if trees else (FOREST,)
    yield _growth(
        f"{FEW_ROWS} rows, columns",
        columns,
        [counters(FEW_ROWS, p) for p in columns],
        without,
        repeats,
    )
    yield _growth(
        f"{FEW_COLUMNS} columns, rows",
        rows,
        [counters(n, FEW_COLUMNS) for n in rows],
        without,
        repeats,
    )


def _growth(
    what: str, sizes: Sequence[int], data: Sequence[Counters], without: Sequence[str], repeats: int
) -> Growth:
    seconds: dict[str, list[float]] = {}
    for candidate in suite("literature", data[0].columnar, without=without):
        times = seconds.setdefault(candidate.name, [])
        for size, rows in zip(sizes, data, strict=True):
            if times and times[-1] * (size / sizes[len(times) - 1]) ** 3 > SLOW:
                break
            times.append(_fit_seconds(candidate, rows, repeats))
    return Growth(what, tuple(sizes), seconds)


def _fit_seconds(candidate: Candidate, data: Counters, repeats: int) -> float:
    """Return the time of a fit, the shortest of several where it is brief; each in another unit of time.

    Searches that share a path over the same rows so do not find that of another fit.
    """
    best = np.inf
    with warnings.catch_warnings(), threadpool_limits(1):
        warnings.simplefilter("ignore")
        for _ in range(repeats):
            y = data.y * next(_UNITS)
            started = time.perf_counter()
            fit(clone(candidate.estimator), data.X, y, data.groups)
            best = min(best, time.perf_counter() - started)
            if best > _BRIEF:
                break
    return best


def growth_table(growth: Growth) -> Table:
    """Return the seconds of each model and size, and the power of the size that they grow with in the end."""
    shown = Table(title=f"Seconds of one fit, one thread: {growth.what}")
    shown.add_column("model")
    for size in growth.sizes:
        shown.add_column(str(size), justify="right")
    shown.add_column("power", justify="right")
    for name, times in growth.seconds.items():
        cells = [f"{seconds:.3f}" for seconds in times] + [f"> {SLOW:.0f}"] * (
            len(growth.sizes) - len(times)
        )
        shown.add_row(name, *cells, f"{growth.power(name):.2f}")
    return shown

"""Which rows to measure next: a batch that stands for all candidates, weighted by what is unknown of each.

A batch is chosen so that it lies among the candidates as their weights do: greedily, the row that
lessens the energy distance most (Székely & Rizzo 2013; support points, Mak & Joseph 2018).
Distances are Euclidean between standardised logarithms of what tells workloads apart. Unlike rows
that lie furthest from each other, such a batch holds few outliers, and unlike a random draw no
clusters: its error is that of a larger random batch (``benchmarks.advising``). A candidate weighs
what its workload says, times the error expected of it (of unseen groups, or of known ones), times
its distance from what is measured already, over the root of its group's size: groups count, and
large ones more.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from numbers import Real
from typing import Any, Final

import numpy as np
import pandas as pd
from numpy.typing import ArrayLike, NDArray

from ..arrays import FloatArray
from ..errors import ParameterError
from ..remarks import Remark, remark

# candidates that distances are taken between; of more, a random sample of so many
MOST: Final = 3000
HALF: Final = 6.0
"""Rows of a new group that halve what its rows err by beyond those of a known group: 1, 2, 4 and 8
rows left 80, 71, 60 and 55 % of it, on average of 14 weight shapes of AITER's FP8 pairs and 25
convolutions of MIOpen's."""
CURVE_UNSEEN: Final = 0.15
CURVE_KNOWN: Final = 0.3
"""The error of groups that were not trained, and of those that were, falls as rows to minus this power.

So it did where 256 rows of `choose` joined 120 or 400, 18 draws of six tables of AITER and of two
made-up laws: the falls expected of new groups were 1.08 times the true ones, all together
(``benchmarks.calibration``, cell ``more_rows``, measures it on others)."""
MOST_GROWTH: Final = 10.0
"""Times the trained rows that are said to reach an error, at most: a judgement."""
APART: Final = 1.0  # standard deviations between rows of equal coordinates and different groups
_LEFT_OUT: Final = ("waves", "tiles", "ridge")
"""Logarithms that say of a device how work is cut, not of the work how large it is."""


def coordinates(X: pd.DataFrame) -> FloatArray:
    """Return what tells the rows of a feature matrix apart, (n, d): its logarithms, standardised, or all of it."""
    varied = [str(name) for name in X if np.ptp(X[name].to_numpy()) > 0]
    sizes = []
    for name in varied:
        if name.startswith("log2.") and not any(word in name for word in _LEFT_OUT):
            sizes.append(name)
    values = X[sizes or varied].to_numpy(dtype=np.float64)
    return (values - values.mean(axis=0)) / values.std(axis=0)


def importance(
    groups: ArrayLike, errors: ArrayLike, *, weights: ArrayLike | float = 1.0
) -> FloatArray:
    """Return how much each candidate weighs, (n,), of sum 1.

    ``errors`` (n,) are those expected of the candidates now, percent; ``weights`` (n,) say how
    often, or how long, each of ``groups`` (n,) runs in the user's workload.
    """
    names = np.asarray(groups, dtype=str)
    _, code, sizes = np.unique(names, return_inverse=True, return_counts=True)
    shares = np.asarray(weights, dtype=np.float64) * np.asarray(errors) / np.sqrt(sizes[code])
    return shares / shares.sum()


def choose(
    points: FloatArray,
    weights: FloatArray,
    *,
    budget: float,
    groups: ArrayLike | None = None,
    cost: ArrayLike = 1.0,
    measured: ArrayLike = (),
    seed: int = 0,
) -> NDArray[np.intp]:
    """Return the rows to measure, the most useful first, for a ``budget`` in the unit of each row's ``cost`` (n,).

    ``points`` (n, d) are the candidates, those ``measured`` (row numbers) included, with the
    ``weights`` of `importance`. Rows of different ``groups`` lie `APART` apart or more; a row that
    no longer fits the budget is passed over. ``seed`` is that of the sample where there are more
    than `MOST`.
    """
    before = np.asarray(measured, dtype=np.intp)
    kept = np.arange(len(points))
    if len(points) > MOST:
        drawn = np.random.default_rng(seed).choice(len(points), MOST, replace=False)
        kept = np.union1d(drawn, before)
    place = np.searchsorted(kept, before)
    points = points[kept]
    weights = weights[kept] / weights[kept].sum()
    prices = np.asarray(cost, dtype=np.float64)
    price = np.broadcast_to(prices, (int(kept.max()) + 1,))[kept]
    squares = (points**2).sum(axis=1)
    distances = np.maximum(squares[:, None] + squares - 2 * points @ points.T, 0.0)
    if groups is not None:
        code = np.unique(np.asarray(groups, dtype=str)[kept], return_inverse=True)[1]
        distances += APART**2 * (code[:, None] != code)
    distances = np.sqrt(distances)
    if len(place) and (near := distances[:, place].min(axis=1)).any():
        weights = weights * near / (weights @ near)
    far = distances @ weights
    among = np.zeros(len(points))
    taken = np.isin(kept, before)
    batch = list[int]()
    while (able := ~taken & (price <= budget)).any():
        row = int(np.argmin(np.where(able, far - among / (len(batch) + 1), np.inf)))
        batch.append(row)
        taken[row] = True
        budget = budget - price[row]
        among = among + distances[:, row]
    return kept[np.array(batch, dtype=np.intp)]


def expected_error(
    groups: ArrayLike,
    is_trained: ArrayLike,
    batch: NDArray[np.intp],
    *,
    errors: ArrayLike,
    unseen_error: float,
    trained_error: float,
    trained: int,
    weights: ArrayLike | float = 1.0,
) -> dict[str, Any]:
    """Return the mean error expected of the candidates ``now`` and ``after`` the batch is trained too, percent.

    ``errors`` (n,) are those of the candidates now. One of a group that is not ``is_trained`` (n,)
    errs less once the batch has rows of it: of what it errs by beyond ``trained_error``, the error
    of known groups, ``1 / (1 + r / HALF)`` is left of r rows.
    All errors fall as rows are added to those ``trained`` (`CURVE_UNSEEN`, `CURVE_KNOWN`);
    ``unseen`` is then that of groups that the batch has no rows of either, which is
    ``unseen_error`` now.
    """
    names = np.asarray(groups, dtype=str)
    old = np.asarray(is_trained, dtype=bool)
    now = np.asarray(errors, dtype=np.float64)
    share = np.broadcast_to(np.asarray(weights, dtype=np.float64), old.shape)
    rows = (
        pd.Series(names).map(pd.Series(names[batch]).value_counts()).fillna(0).to_numpy(dtype=float)
    )
    growth = (trained + len(batch)) / trained
    least = np.where(old, now, np.minimum(now, trained_error)) * growth**-CURVE_KNOWN
    beyond = np.where(old, 0.0, now * growth**-CURVE_UNSEEN - least)
    after = least + beyond / (1 + rows / HALF)
    return {
        "now": float(np.average(now, weights=share)),
        "after": float(np.average(after, weights=share)),
        "unseen": unseen_error * growth**-CURVE_UNSEEN,
        "new_groups": len(set(names[batch]) - set(names[old])),
    }


def rows_to_reach(error: float, need: float, trained: int, *, of_new_groups: bool) -> int | None:
    """Return how many rows beside those ``trained`` are expected to lower an error to what is needed.

    Both are in the same unit. It falls as `CURVE_UNSEEN` or `CURVE_KNOWN` says; None where that takes
    more than `MOST_GROWTH` times the rows trained, so far that no table has shown it.

    >>> rows_to_reach(0.10, 0.09, 400, of_new_groups=True), rows_to_reach(0.10, 0.05, 400, of_new_groups=True)
    (408, None)
    """
    power = CURVE_KNOWN
    if of_new_groups:
        power = CURVE_UNSEEN
    growth = (error / need) ** (1.0 / power)
    if growth > 1.0 + MOST_GROWTH:
        return None
    return int(np.ceil(trained * (growth - 1.0)))


def check_need(need: float | None) -> None:
    """Raise a ParameterError for a half-width that is not above 0 and below 10."""
    if need is None:
        return
    if isinstance(need, bool) or not isinstance(need, Real) or not 0 < need < 10:
        raise ParameterError("need", f"must be above 0 and below 10, got {need!r}: 0.1 means ±10 %")


@dataclass(frozen=True)
class Need:
    """How sure an answer is to be, how sure it is, and what would make it so.

    Attributes
    ----------
    need, now : float
        What is asked for and what is reached now, as shares of the answer: half-widths of an interval, or
        errors.
    ways : sequence of (str, float)
        Further measurements, each with those before it, and what would then be reached: expected, not
        promised.
    what : str
        What both figures are.
    """

    need: float
    now: float
    ways: Sequence[tuple[str, float]] = ()
    what: str = "half-width"

    @property
    def reached(self) -> bool:
        """Whether the answer is narrow enough."""
        return self.now <= self.need

    @property
    def told(self) -> Remark:
        """The answer: ``need-reached``; else ``need-not-reached`` with the measurements that would reach it, if any."""
        asked = f"{100 * self.need:g} %"
        reached = f"{100 * self.now:.3g} %"
        values: dict[str, Any] = {"need": self.need, "now": self.now, "what": self.what}
        if self.reached:
            return remark(
                "need-reached", f"needed {asked}: reached, the {self.what} is {reached}", **values
            )
        enough = next(
            (place for place, (_, after) in enumerate(self.ways) if after <= self.need), None
        )
        if enough is None:
            taken = self.ways
        else:
            taken = self.ways[: enough + 1]
        text = f"needed {asked}: not reached, the {self.what} is {reached}"
        if taken:
            what = " and ".join(way for way, _ in taken)
            after = taken[-1][1]
            text += (
                f"; {what} would {'leave' if enough is None else 'reach it, with'} "
                f"{100 * after:.3g} %, as expected"
            )
        else:
            text += "; no further measurement is known that would reach it"
        values |= {"ways": [way for way, _ in taken], "after": taken[-1][1] if taken else None}
        return remark("need-not-reached", text, **values, enough=enough is not None)

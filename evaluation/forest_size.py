"""How many trees a forest needs: its error out of sample with the first 2, 4, ... 1024 trees of one forest a fold."""

from __future__ import annotations

from typing import Any, Final, Self

import numpy as np
from sklearn.ensemble import RandomForestRegressor

from ..models.base import Candidate, Memo, PositiveRegressor
from ..models.learners import Forest
from ..workers import Jobs
from .competition import usable_schemes
from .crossval import LearningData, Progress, evaluate

SIZES: Final = tuple(2**power for power in range(1, 11))
"""Numbers of trees."""


class FirstTrees(PositiveRegressor):
    """The first trees of a forest grown on the logarithm of y, all of which a memo keeps for the other sizes.

    Parameters
    ----------
    trees, grown : int
        How many count, and how many are grown.
    random_state : int, default=0
        Of the forest, whose other parameters are those of `models.learners.Forest`.
    """

    def __init__(self, trees: int, grown: int, random_state: int = 0) -> None:
        self.trees, self.grown, self.random_state = trees, grown, random_state

    def fit(self, X: Any, y: Any, memo: Memo | None = None) -> Self:
        """Grow the forest on X of shape (n, p) and positive y of shape (n,), or take it from the memo."""
        rows = (np.asarray(X, dtype=np.float64), np.asarray(y, dtype=np.float64))
        forest = RandomForestRegressor(
            self.grown, max_features=Forest().max_features, random_state=self.random_state, n_jobs=1
        )
        self.forest_ = (memo or Memo()).of("first trees", rows, lambda: forest.fit(rows[0], np.log(rows[1])))
        return self

    def predict(self, X: Any) -> np.ndarray:
        """Return the exponential of the mean over the trees, shape (n,)."""
        rows = np.asarray(X, dtype=np.float32)
        found = [tree.tree_.predict(rows)[:, 0] for tree in self.forest_.estimators_[: self.trees]]
        return np.exp(np.mean(found, axis=0))


def by_trees(
    dataset: LearningData, *, seed: int = 0, jobs: Jobs = 1, progress: Progress | None = None
) -> dict[str, list[dict[str, Any]]]:
    """Return, per scheme, the row of each size as tables of models have it (``e_out``, ``ir``, ...), with ``trees``.

    Up to 2048 rows 1024 trees are grown, of more rows fewer, as `models.learners.Forest` does.
    """
    most = Forest().max_work or max(SIZES)
    sizes = [size for size in SIZES if size * len(dataset.y) <= max(most, 2 * len(dataset.y))]
    candidates = [
        Candidate(str(size), FirstTrees(size, sizes[-1], seed), "log time", family="first trees") for size in sizes
    ]
    schemes = usable_schemes(dataset)[0]
    found = evaluate(dataset, candidates, schemes=schemes, seed=seed, jobs=jobs, progress=progress)
    return {
        scheme: [
            {"trees": int(row["name"])} | {key: row[key] for key in ("e_out", "e_in", "ir")} for row in result.rows
        ]
        for scheme, result in found.schemes.items()
    }

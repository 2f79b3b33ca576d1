"""Which rows are held out together: shuffled folds, and folds that never split a group."""

from __future__ import annotations

from typing import Final

import numpy as np
from numpy.typing import ArrayLike, NDArray

from ..errors import DataError

SCHEMES: Final = ("kfold", "grouped")


def make_folds(scheme: str, groups: ArrayLike | None, n: int, folds: int = 10, seed: int = 0) -> NDArray[np.int64]:
    """Return the fold in which each row is held out.

    Parameters
    ----------
    scheme : {"kfold", "grouped"}
        ``"kfold"`` shuffles the rows into folds whose sizes differ by at most one. ``"grouped"`` keeps every group in
        one fold: groups go, largest first, to the fold with the fewest rows; with at most as many groups as folds each
        group is a fold of its own (leave one group out).
    groups : array-like of shape (n,) or None
        Group of each row; needed by ``"grouped"`` only.
    n : int
        Number of rows.
    folds : int
        Number of folds wanted, at least 2.
    seed : int
        Seed of the shuffle (of the rows, or of groups of equal size).

    Returns
    -------
    ndarray of shape (n,)
        Fold numbers 0, 1, ...; every fold holds at least one row.

    Raises
    ------
    DataError
        Fewer rows than folds, or fewer than two groups.
    """
    if folds < 2:
        raise ValueError(f"parameter folds of make_folds must be at least 2, got {folds}")
    if scheme == "kfold":
        return _shuffled(n, folds, seed)
    if scheme == "grouped":
        if groups is None:
            raise ValueError("parameter groups of make_folds must be given for the scheme 'grouped', got None")
        return _grouped(np.asarray(groups), n, folds, seed)
    raise ValueError(f"parameter scheme of make_folds must be one of {', '.join(SCHEMES)}, got {scheme!r}")


def _shuffled(n: int, folds: int, seed: int) -> NDArray[np.int64]:
    if n < folds:
        raise DataError(
            f"{folds}-fold cross-validation needs at least {folds} rows, there are {n}: "
            "measure more, or select fewer conditions"
        )
    return np.random.default_rng(seed).permutation(n) % folds


def _grouped(groups: NDArray, n: int, folds: int, seed: int) -> NDArray[np.int64]:
    if len(groups) != n:
        raise ValueError(f"parameter groups of make_folds must have {n} entries, got {len(groups)}")
    names, code, sizes = np.unique(groups, return_inverse=True, return_counts=True)
    if len(names) < 2:
        found = f"all rows are of group {str(names[0])!r}" if len(names) else "there are no rows"
        raise DataError(
            f"grouped cross-validation needs at least 2 groups, {found}: "
            "choose another column with --group, or measure more groups"
        )
    if len(names) <= folds:
        return code.astype(np.int64)
    return _balanced(sizes, folds, seed)[code]


def _balanced(sizes: NDArray, folds: int, seed: int) -> NDArray[np.int64]:
    """Fold of each group: the largest group first, each to the fold with the fewest rows so far."""
    shuffled = np.random.default_rng(seed).permutation(len(sizes))
    order = shuffled[np.argsort(-sizes[shuffled], kind="stable")]
    rows = np.zeros(folds, dtype=np.int64)
    fold = np.empty(len(sizes), dtype=np.int64)
    for group in order:
        fold[group] = np.argmin(rows)
        rows[fold[group]] += sizes[group]
    return fold

"""Stepwise selection the plain way, every trial fitted anew: slow, and the oracle of the fast paths."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from math import inf

import numpy as np
from scipy.linalg import solve_triangular

ALIASED = 1e-7
OPTIMAL = 1e-12
TIES = 1e-10


@dataclass(frozen=True)
class SlowPath:
    """The columns moved, the RSS before the first and after each move, and those of the move's competitors."""

    start: list[int]
    order: list[int]
    rss: list[float]
    trials: list[dict[int, float]]


def design(X: np.ndarray, y: np.ndarray, w: np.ndarray, base: str) -> tuple[np.ndarray, np.ndarray]:
    """Return the weighted columns of length 1 and the target: centred for free coefficients, else after a column of 1.

    A column whose variation is rounding error is 0.
    """
    root = np.sqrt(w)
    if base == "nnls":
        M, v = root[:, None] * np.column_stack([np.ones(len(y)), X]), root * y
    else:
        M, v = (
            root[:, None] * (X - np.average(X, axis=0, weights=w)),
            root * (y - np.average(y, weights=w)),
        )
        length = np.linalg.norm(root[:, None] * X, axis=0)
        M[:, np.linalg.norm(M, axis=0) <= len(y) * np.finfo(float).eps * length] = 0.0
    scale = np.linalg.norm(M, axis=0)
    return M / np.where(scale == 0, 1.0, scale), v


def slow_path(
    X: np.ndarray, y: np.ndarray, w: np.ndarray, base: str, direction: str, most: int
) -> SlowPath:
    """Return the whole path; backwards from ``most`` columns with a coefficient at most."""
    A, b = design(X, y, w, base)
    if base == "ols":
        return _free_forward(A, b) if direction == "forward" else _free_backward(A, b, most)
    rss, rounding = _bounded_rss(A, b), 1e-14 * float(b @ b)
    if direction == "forward":
        return _forward(range(X.shape[1]), rss, rounding)
    start = np.flatnonzero(A[:, 1:].any(axis=0)).tolist()
    if np.count_nonzero(lawson_hanson(A, b)[1:]) > most:
        start = sorted(_forward(range(X.shape[1]), rss, rounding).order[:most])
    return _backward(start, rss, rounding)


def _bounded_rss(A: np.ndarray, b: np.ndarray) -> Callable[[list[int]], float]:
    def rss(columns: list[int]) -> float:
        chosen = A[:, [0, *(j + 1 for j in columns)]]
        return float(np.sum((b - chosen @ lawson_hanson(chosen, b)) ** 2))

    return rss


def _first(trials: dict[int, float], before: float, rounding: float) -> int:
    """Return the first column whose RSS is the least, but for 1e-10 of the change from the RSS before and rounding."""
    least = min(trials.values())
    return next(
        j for j, rss in trials.items() if rss <= least + TIES * abs(before - least) + rounding
    )


def _forward(columns: range, rss: Callable[[list[int]], float], rounding: float) -> SlowPath:
    """Add the column with the least RSS while it falls."""
    order, values, trials = list[int](), [rss([])], list[dict[int, float]]()
    while True:
        found = {j: rss(sorted([*order, j])) for j in columns if j not in order}
        if not found or min(found.values()) >= values[-1] - 10 * rounding:
            return SlowPath([], order, values, trials)
        order.append(_first(found, values[-1], rounding))
        values.append(found[order[-1]])
        trials.append(found)


def _backward(start: list[int], rss: Callable[[list[int]], float], rounding: float) -> SlowPath:
    """Remove the column with the least RSS until none is left."""
    left, order, values, trials = list(start), list[int](), [rss(start)], list[dict[int, float]]()
    while left:
        found = {j: rss([c for c in left if c != j]) for j in left}
        order.append(_first(found, values[-1], rounding))
        left.remove(order[-1])
        values.append(found[order[-1]])
        trials.append(found)
    return SlowPath(start, order, values, trials)


def _free_forward(A: np.ndarray, b: np.ndarray) -> SlowPath:
    """Add columns by their gain, all columns and the target being orthogonalised at once (modified Gram-Schmidt)."""
    Z, r = A.copy(), b.copy()
    order, values, trials = list[int](), [float(r @ r)], list[dict[int, float]]()
    while True:
        lengths = np.linalg.norm(Z, axis=0)
        found = {
            j: values[-1] - float(Z[:, j] @ r / lengths[j]) ** 2
            for j in range(A.shape[1])
            if lengths[j] > ALIASED and j not in order
        }
        if not found:
            return SlowPath([], order, values, trials)
        best = _first(found, values[-1], 0.0)
        q = Z[:, best] / lengths[best]
        Z -= np.outer(q, q @ Z)
        r -= q * (q @ r)
        order.append(best)
        values.append(float(r @ r))
        trials.append(found)


def _free_backward(A: np.ndarray, b: np.ndarray, most: int) -> SlowPath:
    """Remove columns by their rise, from a factorisation made anew for every model: t_j² / (R^-1 R^-T)_jj."""
    left = independent(A)
    if len(left) > most:
        left = sorted(_free_forward(A, b).order[:most])
    start, order, values, trials = list(left), list[int](), list[float](), list[dict[int, float]]()
    while True:
        Q, R = np.linalg.qr(A[:, left])
        inverse = np.linalg.solve(R, np.eye(len(left)))
        t = inverse @ (Q.T @ b)
        values.append(float(np.sum((b - A[:, left] @ t) ** 2)))
        if not left:
            return SlowPath(start, order, values, trials)
        rises = t**2 / np.einsum("jk,jk->j", inverse, inverse)
        trials.append(dict(zip(left, (values[-1] + rises).tolist(), strict=True)))
        order.append(left.pop(int(np.argmax(rises <= (1 + TIES) * rises.min()))))


def independent(A: np.ndarray) -> list[int]:
    """Return the columns, in their order, that are not combinations of those before them."""
    Z, kept = A.copy(), list[int]()
    for j in range(A.shape[1]):
        if (length := float(np.linalg.norm(Z[:, j]))) > ALIASED:
            q = Z[:, j] / length
            Z[:, j + 1 :] -= np.outer(q, q @ Z[:, j + 1 :])
            kept.append(j)
    return kept


def lawson_hanson(A: np.ndarray, b: np.ndarray) -> np.ndarray:
    """Minimise ``|A t - b|²`` over t >= 0, from zero, each step by a factorisation made anew."""
    t, rejected = np.zeros(A.shape[1]), np.zeros(A.shape[1], dtype=bool)
    while True:
        gradient = np.where((t == 0) & ~rejected, A.T @ (b - A @ t), 0.0)
        best = int(np.argmax(gradient))
        if gradient[best] <= OPTIMAL * float(np.linalg.norm(b)):
            return t
        trial = _towards(A, b, t, np.append(np.flatnonzero(t > 0), best))
        if trial[best] > 0:
            t, rejected = trial, np.zeros_like(rejected)
        else:
            rejected[best] = True


def _towards(A: np.ndarray, b: np.ndarray, t: np.ndarray, passive: np.ndarray) -> np.ndarray:
    """Move t to the least-squares point of its passive columns (the last is new), dropping those that reach zero."""
    entering = True
    while len(passive):
        Q, R = np.linalg.qr(A[:, passive])
        if entering and (R.shape[0] < R.shape[1] or abs(R[-1, -1]) <= ALIASED):
            return t
        goal, here, entering = solve_triangular(R, Q.T @ b), t[passive], False
        t = np.zeros_like(t)
        if goal.min() > 0:
            t[passive] = goal
            return t
        steps = np.where(goal > 0, inf, 0.0)
        np.divide(here, here - goal, out=steps, where=(goal <= 0) & (here > 0))
        first = int(np.argmin(steps))
        moved = np.maximum(here + steps[first] * (goal - here), 0.0)
        moved[first] = 0.0
        t[passive] = moved
        passive = passive[t[passive] > 0]
    return t


def parts_at(order: list[int], slow: SlowPath, close: float, rounding: float) -> int:
    """Return the number of steps that another path has in common with a slow one, up to ties.

    Where they part, the RSS of the two columns must be equal up to ``close`` times the RSS there and ``rounding``:
    after such a tie the paths may go different ways, and the comparison ends.

    Raises
    ------
    AssertionError
        Where they part without a tie, or one goes on where the other has ended.
    """
    for step, trials in enumerate(slow.trials):
        same = close * min(slow.rss[step : step + 2]) + rounding
        if step == len(order):
            gain = abs(slow.rss[step + 1] - slow.rss[step])
            assert gain <= same, f"the path ends after {step} steps, where {gain} was to be gained"
            return step
        if order[step] != slow.order[step]:
            assert order[step] in trials, f"step {step} takes {order[step]}, which is no choice"
            gap = trials[order[step]] - slow.rss[step + 1]
            assert abs(gap) <= same, (
                f"step {step} takes {order[step]}, worse by {gap} than {slow.order[step]}"
            )
            return step
    assert len(order) == len(slow.order), f"{len(order)} steps, not {len(slow.order)}"
    return len(order)

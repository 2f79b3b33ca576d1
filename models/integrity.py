"""A check that the arrays of a loaded model stay inside themselves.

Trees and support vector machines predict in compiled code that follows indices without checking them. A file whose
types are all harmless can still hold a child index of 10^9, and predicting would then read foreign memory or crash.
Everything else in a model is NumPy arithmetic, which checks its shapes.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Iterator
from typing import Any

import numpy as np
from sklearn.base import BaseEstimator
from sklearn.ensemble import HistGradientBoostingClassifier, HistGradientBoostingRegressor
from sklearn.ensemble._base import BaseEnsemble
from sklearn.ensemble._hist_gradient_boosting.predictor import TreePredictor
from sklearn.tree import BaseDecisionTree
from sklearn.tree._tree import Tree

_HOLDS_TREES = (BaseEnsemble, BaseDecisionTree, HistGradientBoostingRegressor, HistGradientBoostingClassifier)


def misfits(model: Any) -> Iterator[str]:
    """Yield, in words, each array inside ``model`` that compiled code would follow out of bounds.

    Parameters
    ----------
    model : object
        A fitted estimator; its attributes, lists, tuples, dicts and object arrays are searched.
    """
    pending: list[tuple[Any, int | None]] = [(model, None)]  # an object, and how many features reach the trees in it
    seen: set[tuple[int, int | None]] = set()
    while pending:
        item, width = pending.pop()
        if (id(item), width) in seen:
            continue
        seen.add((id(item), width))
        if isinstance(item, Tree):
            links = np.stack([item.children_left, item.children_right, item.feature])
            if not _links_fit(links, item.children_left < 0, item.n_features if width is None else width):
                yield "a tree points outside itself"
        elif isinstance(item, TreePredictor):
            if not _predictor_fits(item.nodes, width or 0):
                yield "a boosted tree points outside itself"
        elif isinstance(item, BaseEstimator):
            if hasattr(item, "support_vectors_") and not _support_vectors_fit(item):
                yield "support vectors and their coefficients differ in number"
            inside = _width(item, width)
            pending.extend((value, inside) for value in vars(item).values())
        else:
            pending.extend((value, width) for value in _parts(item))


def _width(estimator: BaseEstimator, outer: int | None) -> int | None:
    """Return how many features the trees of an estimator may use: never more than the ensemble around it was given."""
    if not isinstance(estimator, _HOLDS_TREES):
        return None
    own = int(vars(estimator).get("n_features_in_", 0))
    return own if outer is None else min(own, outer)


def _links_fit(links: np.ndarray, leaf: np.ndarray, width: int) -> bool:
    """Whether every inner node points to later nodes of its own tree and to a feature that exists.

    ``links`` is (3, n_nodes): left child, right child, feature. Children lie behind their parents, so that no walk
    can go in circles.
    """
    left, right, feature = links[:, ~leaf]
    parents, last = np.flatnonzero(~leaf), leaf.size
    inside = (left > parents) & (left < last) & (right > parents) & (right < last) & (feature >= 0) & (feature < width)
    return leaf.size > 0 and bool(inside.all())


def _predictor_fits(nodes: np.ndarray, width: int) -> bool:
    """As :func:`_links_fit` for a histogram-boosted tree; categorical splits, which index more arrays, do not fit."""
    links = np.stack([nodes[name].astype(np.int64) for name in ("left", "right", "feature_idx")])
    return _links_fit(links, nodes["is_leaf"].astype(bool), width) and not nodes["is_categorical"].any()


def _support_vectors_fit(machine: Any) -> bool:
    """Whether support vector regression has one index and one coefficient per vector, and vectors as wide as X."""
    count, width = machine.support_vectors_.shape
    coefficients = {machine.dual_coef_.shape, machine._dual_coef_.shape}
    regresses = machine._n_support.size == 2 and machine._intercept_.size == 1 and coefficients == {(1, count)}
    return regresses and machine.support_.shape == (count,) and width == machine.n_features_in_


def _parts(item: Any) -> list[Any]:
    if isinstance(item, dict):
        return list(item.values())
    if isinstance(item, list | tuple | set):
        return list(item)
    if isinstance(item, np.ndarray):
        return item.ravel().tolist() if item.dtype == object else []
    return list(vars(item).values()) if dataclasses.is_dataclass(item) and not isinstance(item, type) else []

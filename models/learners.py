"""The literature's learners that are no sums: a random forest, and a multilayer perceptron kept as plain arrays.

X and y enter, a fitted scikit-learn regressor leaves. Both choose their size by rows they have not
learnt from: the forest its number of trees by the out-of-bag error of its prefixes, the network
its number of epochs by rows that are held out. LightGBM follows whatever indices the text of a
model holds, so no text of a file reaches it: `checked` takes the few lines that predictions need,
holds every index against its array, and writes a new text.
"""

from __future__ import annotations

import re
import sys
from collections.abc import Sequence
from typing import Any, Final, Literal, Self

import numpy as np
from sklearn.base import BaseEstimator, RegressorMixin
from sklearn.ensemble import RandomForestRegressor
from sklearn.model_selection import GroupShuffleSplit, ShuffleSplit
from sklearn.neural_network import MLPRegressor
from sklearn.utils.validation import check_is_fitted

from ..errors import FlopcastError
from .base import check_rows, feature_names, one_blas_thread, rows_to_predict
from .forests import predicted_by

try:
    import lightgbm
except AttributeError as error:  # it parses its docstrings
    if sys.flags.optimize < 2:
        raise
    raise FlopcastError(
        "LightGBM needs docstrings, which PYTHONOPTIMIZE=2 (python -OO) removes: set it to 1, or unset it"
    ) from error

_TREE: Final = re.compile(r"^Tree=[0-9]+\n((?:[a-z_]+=[^\n]*\n)+)", re.MULTILINE)
_WHOLE: Final = re.compile(r"(?:-?[0-9]{1,9}(?: -?[0-9]{1,9})*)?")
_REAL: Final = re.compile(
    r"(?:-?[0-9.]{1,30}(?:e[+-]?[0-9]{1,3})?(?: -?[0-9.]{1,30}(?:e[+-]?[0-9]{1,3})?)*)?"
)
_NODES: Final = ("split_feature", "threshold", "decision_type", "left_child", "right_child")
# kinds of decision: of a number, and where a missing one goes
_NUMERICAL: Final = (
    0,
    2,
    4,
    6,
    8,
    10,
)


def checked(text: str, width: int) -> str:
    """Return a text of the same trees, for LightGBM, made of nothing but numbers that were checked.

    The text is a regression model as `lightgbm.Booster.model_to_string` returns it, no categories,
    no linear leaves, on ``width`` features, whose names and ranges are left out. Raises ValueError:
    a line is missing or malformed; an index leads outside its array, or back; a value is not
    finite.
    """
    if (
        not isinstance(text, str)
        or f"\nmax_feature_idx={width - 1}\n" not in text
        or "\nnum_class=1\n" not in text
    ):
        raise ValueError(f"not a regression on {width} features")
    if re.search(r"^average_output$", text, re.MULTILINE):
        raise ValueError("a forest, not a sum of trees")
    names = " ".join(f"Column_{place}" for place in range(width))
    head = ["tree", "version=v4", "num_class=1", "num_tree_per_iteration=1", "label_index=0"]
    head += [f"max_feature_idx={width - 1}", "objective=regression_l1", f"feature_names={names}"]
    head += [f"feature_infos={' '.join(['none'] * width)}", "", ""]
    blocks = []
    for number, tree in enumerate(_TREE.finditer(text)):
        blocks.append(
            f"Tree={number}\n{_tree(dict(line.split('=', 1) for line in tree[1].splitlines()), width)}\n\n\n"
        )
    if not blocks or len(blocks) != text.count("\nTree="):
        raise ValueError("no trees, or trees of another form")
    return "\n".join(head) + "".join(blocks) + "end of trees\n\n"


def _tree(lines: dict[str, str], width: int) -> str:
    """Return the lines of one tree after checking them."""
    if lines.get("num_cat") != "0" or lines.get("is_linear", "0") != "0":
        raise ValueError("categories or linear leaves")
    leaves = int(_numbers(lines, "num_leaves", 1)[0])
    inner = leaves - 1
    columns = {name: _numbers(lines, name, inner, whole=name != "threshold") for name in _NODES}
    nodes = np.arange(inner)
    for side in ("left_child", "right_child"):
        child = columns[side]
        if not (((child > nodes) & (child < inner)) | ((child < 0) & (~child < leaves))).all():
            raise ValueError("a tree points outside itself")
    if not ((columns["split_feature"] >= 0) & (columns["split_feature"] < width)).all():
        raise ValueError("a tree splits on a feature that there is not")
    if not np.isin(columns["decision_type"], _NUMERICAL).all():
        raise ValueError("a decision of an unknown kind")
    _numbers(lines, "leaf_value", leaves, whole=False)
    _numbers(lines, "shrinkage", 1, whole=False)
    written = ("num_leaves", "num_cat", *_NODES, "leaf_value")
    return (
        "".join(f"{name}={lines[name]}\n" for name in written)
        + f"is_linear=0\nshrinkage={lines['shrinkage']}\n"
    )


def _numbers(lines: dict[str, str], name: str, count: int, *, whole: bool = True) -> np.ndarray:
    """Return the finite numbers of a line, so many of them."""
    said = lines.get(name, "")
    if not (_WHOLE if whole else _REAL).fullmatch(said):
        raise ValueError(f"{name} is not a list of numbers")
    if whole:
        dtype = np.int64
    else:
        dtype = np.float64
    numbers = np.array(said.split(), dtype=dtype)
    if numbers.shape != (count,) or not np.isfinite(numbers).all():
        raise ValueError(f"{name} has {numbers.size} numbers, not {count}")
    return numbers


class Forest(RegressorMixin, BaseEstimator):
    """Random forest of 2, 4, 8, ... or 1024 trees, as many as minimise the out-of-bag error.

    One forest is grown; its first 2, 4, 8, ... trees are the candidates, so the choice costs no
    further fit. The out-of-bag error is the mean squared error over the rows that at least one of
    the trees has not seen. A prediction is a mean of training targets: it never leaves their range,
    whatever the query.

    Parameters
    ----------
    max_trees : int, default=1024
        The largest candidate (the largest power of two up to it).
    max_work : int or None, default=2_097_152
        At most this many rows times trees are grown, to bound the time: 1024 trees up to 2048 rows,
        128 trees with 13 000 rows. None: no bound.
    max_features : float, int or None, default=1/3
        The share of features each split looks at (Breiman's p / 3 for regression).
    min_samples_leaf : int, default=1
        The fewest rows in a leaf.
    random_state : int, default=0
        The seed of bootstrap samples and splits.

    Attributes
    ----------
    n_trees_ : int
        The number of trees chosen.
    oob_path_ : dict of int to float
        The out-of-bag mean squared error of each number of trees; NaN where every row was seen.
    feature_importances_ : ndarray of shape (n_features,)
        The decrease of the residual sum of squares over all splits on a feature, averaged over the
        trees, as a share of the total (all 0 when no tree splits).
    selected_features_ : list of str
        The features that some tree splits on.
    forest_ : RandomForestRegressor

    References
    ----------
    L. Breiman, Random forests, Machine Learning 45 (2001) 5.
    """

    def __init__(
        self,
        *,
        max_trees: int = 1024,
        max_work: int | None = 2**21,
        max_features: float | int | None = 1 / 3,
        min_samples_leaf: int = 1,
        random_state: int | None = 0,
    ) -> None:
        self.max_trees = max_trees
        self.max_work = max_work
        self.max_features = max_features
        self.min_samples_leaf = min_samples_leaf
        self.random_state = random_state

    def fit(self, X: Any, y: Any) -> Self:
        """Grow and choose on X of shape (n_samples, n_features) and y of shape (n_samples,)."""
        X, y, _ = check_rows(self, X, y)
        self.forest_ = RandomForestRegressor(
            n_estimators=self._most_trees(len(y)),
            max_features=self.max_features,
            min_samples_leaf=self.min_samples_leaf,
            n_jobs=1,
            random_state=self.random_state,
        ).fit(X, y)
        self.oob_path_ = _oob_path(self.forest_, X, y)
        finite = {trees: error for trees, error in self.oob_path_.items() if np.isfinite(error)}
        if finite:
            self.n_trees_ = min(finite, key=finite.__getitem__)
        else:
            self.n_trees_ = max(self.oob_path_)
        self.forest_.estimators_ = self.forest_.estimators_[: self.n_trees_]
        self.forest_.set_params(n_estimators=self.n_trees_)
        decreases = (
            tree.tree_.compute_feature_importances(normalize=False)
            for tree in self.forest_.estimators_
        )
        decrease = sum(decreases, np.zeros(X.shape[1]))
        if decrease.sum() > 0:
            self.feature_importances_ = decrease / decrease.sum()
        else:
            self.feature_importances_ = decrease
        self.selected_features_ = [
            name
            for name, share in zip(feature_names(self), self.feature_importances_, strict=True)
            if share > 0
        ]
        return self

    def _most_trees(self, n_rows: int) -> int:
        """Return the largest power of two within ``max_trees`` and ``max_work``, at least 2."""
        if self.max_trees < 2:
            raise ValueError(
                f"parameter max_trees of Forest must be at least 2, got {self.max_trees}"
            )
        if self.max_work is None:
            trees = self.max_trees
        else:
            trees = min(self.max_trees, self.max_work // n_rows)
        if trees >= 2:
            return max(2, 1 << (int(trees).bit_length() - 1))
        return 2

    def predict(self, X: Any) -> np.ndarray:
        """Return the mean over the trees, shape (n_samples,)."""
        check_is_fitted(self, "forest_")
        return predicted_by(self.forest_, rows_to_predict(self, X))


def _oob_path(forest: RandomForestRegressor, X: np.ndarray, y: np.ndarray) -> dict[int, float]:
    """Return the out-of-bag mean squared error of the first 2, 4, 8, ... trees."""
    rows = X.astype(np.float32)
    total = np.zeros(len(y))
    votes = np.zeros(len(y))
    path = {}
    for count, (tree, seen) in enumerate(
        zip(forest.estimators_, forest.estimators_samples_, strict=True), start=1
    ):
        unseen = np.ones(len(y), dtype=bool)
        unseen[seen] = False
        if unseen.any():
            total[unseen] += tree.tree_.predict(rows[unseen])[:, 0]
            votes[unseen] += 1
        if count >= 2 and count & (count - 1) == 0:
            voted = votes > 0
            if voted.any():
                path[count] = float(np.mean((total[voted] / votes[voted] - y[voted]) ** 2))
            else:
                path[count] = float("nan")
    return path


HUBER: Final = 0.1  # residual from which on Huber's loss grows linearly: of a logarithm, 10 %
REACHED: Final = 1.5
"""How many times as far as 99 % of the targets lie from their median all trees together must be
able to go: one goes no farther than the learning rate times that residual, which is larger where
they could not."""
TREES_AT_ONCE: Final = 50
"""Trees that many rows are predicted by at a time: they stay in the processor's caches, in 0.65 of the time."""
BY_ROWS: Final = (
    20_000  # rows from which on LightGBM counts row by row: of 64 000 rows in 0.6 of the time
)
BINNED: Final = 20_000
"""Rows, drawn at random, by whose values bins are chosen: 5.64 and 5.93 % of 71 484 pairs in three folds, as by all."""


class Boosted(RegressorMixin, BaseEstimator):
    """Gradient-boosted trees of robust loss, by LightGBM: one thread, no dependence on the machine.

    Parameters
    ----------
    n_trees : int, default=300
    learning_rate : float, default=0.07
        The share of each tree's prediction that is added.
    max_leaves : int, default=31
        The most leaves of a tree.
    min_samples_leaf : int, default=8
        The fewest rows in a leaf.
    max_features : float, default=0.5
        The share of features each split looks at.
    tree_features : float, default=1.0
        The share of features each tree looks at: that of a split is a share of these.
    loss : {"absolute", "huber"}, default="absolute"
        The absolute error, or Huber's loss: squares up to ``HUBER`` (more where targets lie far
        apart: ``REACHED``), beyond them the absolute error.
    max_bins : int, default=63
        The most intervals that a feature's values are sorted into before splits are sought.
    weigh_groups : bool, default=False
        Whether a row weighs 1 / sqrt(rows of its group), where `fit` is given groups: a large group
        then counts for more than a small one, but not for as much more as it has rows.
    random_state : int, default=0
        The seed of the features that splits look at; None counts as 0.

    Attributes
    ----------
    text_ : str
        The trees in LightGBM's text format: all that `predict` needs, and all that is stored of
        them.
    feature_importances_ : ndarray of shape (n_features,)
        The decrease of the loss over all splits on a feature, as a share of the total (all 0 when
        no tree splits).
    selected_features_ : list of str
        The features that some tree splits on.

    References
    ----------
    G. Ke et al., LightGBM: a highly efficient gradient boosting decision tree, NeurIPS 2017.

    Examples
    --------
    >>> X = np.arange(40.0)[:, None]
    >>> Boosted().fit(X, np.where(X[:, 0] < 20, 1.0, 5.0)).predict([[3.0], [33.0]]).round(2).tolist()
    [1.0, 5.0]
    """

    def __init__(
        self,
        *,
        n_trees: int = 300,
        learning_rate: float = 0.07,
        max_leaves: int = 31,
        min_samples_leaf: int = 8,
        max_features: float = 0.5,
        tree_features: float = 1.0,
        loss: Literal["absolute", "huber"] = "absolute",
        max_bins: int = 63,
        weigh_groups: bool = False,
        random_state: int | None = 0,
    ) -> None:
        self.n_trees = n_trees
        self.learning_rate = learning_rate
        self.max_leaves = max_leaves
        self.tree_features = tree_features
        self.loss = loss
        self.weigh_groups = weigh_groups
        self.min_samples_leaf = min_samples_leaf
        self.max_features = max_features
        self.max_bins = max_bins
        self.random_state = random_state

    def fit(self, X: Any, y: Any, groups: Any = None) -> Self:
        """Grow trees on X of shape (n_samples, n_features) and y of shape (n_samples,).

        ``groups`` (n_samples,) have a say with ``weigh_groups`` alone.
        """
        X, y, _ = check_rows(self, X, y)
        weights = None
        if self.weigh_groups and groups is not None:
            code = np.unique(np.asarray(groups), return_inverse=True)[1]
            weights = 1.0 / np.sqrt(np.bincount(code))[code]
        if self.loss not in ("absolute", "huber"):
            raise ValueError(
                f"parameter loss of Boosted must be 'absolute' or 'huber', got {self.loss!r}"
            )
        many = len(y) >= BY_ROWS
        if self.loss == "huber":
            objective = "huber"
        else:
            objective = "l1"
        settings = {
            "objective": objective,
            "alpha": self._alpha(y),
            "feature_fraction": self.tree_features,
            "learning_rate": self.learning_rate,
            "num_leaves": self.max_leaves,
            "min_data_in_leaf": self.min_samples_leaf,
            "feature_fraction_bynode": self.max_features,
            "max_bin": self.max_bins,
            "bin_construct_sample_cnt": BINNED,
            "seed": self.random_state or 0,
            "deterministic": True,
            "force_row_wise": many,  # the same trees: which is faster depends on the number of rows
            "force_col_wise": not many,
            "num_threads": 1,
            "verbosity": -1,
        }
        booster = lightgbm.Booster(
            settings, lightgbm.Dataset(X, y, weight=weights, params=settings)
        )
        for _ in range(self.n_trees):
            booster.update()
        self.text_ = booster.model_to_string()
        self._take(self.text_)
        gain = booster.feature_importance("gain")
        if gain.sum() > 0:
            self.feature_importances_ = gain / gain.sum()
        else:
            self.feature_importances_ = gain
        shares = zip(feature_names(self), self.feature_importances_, strict=True)
        self.selected_features_ = [name for name, share in shares if share > 0]
        return self

    def predict(self, X: Any) -> np.ndarray:
        """Return the sum over the trees, shape (n_samples,)."""
        check_is_fitted(self, "text_")
        X = rows_to_predict(self, X)
        self.native()
        sums = np.zeros(len(X))
        for part in self._parts:
            sums += part.predict(X, num_threads=1)
        return sums

    def _alpha(self, y: np.ndarray) -> float:
        """Return the residual from which on Huber's loss grows linearly."""
        far = float(np.quantile(np.abs(y - np.median(y)), 0.99))
        return max(HUBER, round(REACHED * far / (self.n_trees * self.learning_rate), 3))

    def native(self) -> Any:
        """Return LightGBM's booster, made of the text where it is not there yet.

        Raises
        ------
        ValueError
            The text is not one that LightGBM writes of these features (see `checked`).
        """
        if not hasattr(self, "_booster"):
            self._take(checked(self.text_, int(self.n_features_in_)))
        return self._booster

    def _take(self, text: str) -> None:
        """Make the booster of a text, and boosters of `TREES_AT_ONCE` of its trees each, for `predict`.

        These are asked for all of their trees. A booster that is asked for some keeps in itself
        which: of two threads one would get the other's.
        """
        whole = lightgbm.Booster(model_str=text)
        firsts = range(0, whole.num_trees(), TREES_AT_ONCE)
        texts = [
            whole.model_to_string(start_iteration=first, num_iteration=TREES_AT_ONCE)
            for first in firsts
        ]
        self._parts = [lightgbm.Booster(model_str=part) for part in texts]
        self._booster = whole

    def __getstate__(self) -> dict[str, Any]:
        """Return what is stored: the text stands for the boosters, which hold memory of a library."""
        state: Any = super().__getstate__()
        return {name: value for name, value in state.items() if name not in ("_booster", "_parts")}


class MLP(RegressorMixin, BaseEstimator):
    """A network of rectified linear layers, trained by Adam on squared error until unseen rows stop improving.

    Columns and target are standardised by the training rows. A share of the rows (whole groups
    where `fit` gets at least three) is held out; training ends when their error has not improved
    for ``patience`` epochs, and the weights of the best epoch are kept. Below 10 rows nothing is
    held out and the training error takes its place.

    Parameters
    ----------
    hidden : sequence of int, default=(64, 32)
        The width of each hidden layer.
    alpha : float, default=1e-3
        The weight of the l2 penalty.
    learning_rate : float, default=1e-3
        The first step size of Adam.
    batch_size : int, optional
        Rows per step (at most all). None: a fiftieth of the training rows, between 32 and 256.
    max_epochs : int, default=300
    patience : int, default=20
    holdout : float, default=0.1
        The share of rows (or groups) held out.
    random_state : int, default=0
        The seed of initial weights, batches and held-out rows.

    Attributes
    ----------
    weights_ : list of ndarray of shape (n_inputs, n_outputs), one per layer
    biases_ : list of ndarray of shape (n_outputs,), one per layer
    centre_, scale_ : ndarray of shape (n_features,)
        Mean and standard deviation (1 for constant columns) of the training columns.
    target_centre_, target_scale_ : float
    holdout_path_ : list of float
        The mean squared error of the standardised target on the held-out rows after each epoch.
    n_iter_ : int
        Epochs run.
    converged_ : bool
        Whether training ended because the held-out error stopped improving, rather than at
        ``max_epochs``.
    selected_features_ : list of str
        The columns that are not constant: a network uses all it is given.
    """

    def __init__(
        self,
        *,
        hidden: Sequence[int] = (64, 32),
        alpha: float = 1e-3,
        learning_rate: float = 1e-3,
        batch_size: int | None = None,
        max_epochs: int = 300,
        patience: int = 20,
        holdout: float = 0.1,
        random_state: int | None = 0,
    ) -> None:
        self.hidden = hidden
        self.alpha = alpha
        self.learning_rate = learning_rate
        self.batch_size = batch_size
        self.max_epochs = max_epochs
        self.patience = patience
        self.holdout = holdout
        self.random_state = random_state

    @one_blas_thread
    def fit(self, X: Any, y: Any, groups: Any = None) -> Self:
        """Train on X of shape (n_samples, n_features) and y of shape (n_samples,).

        ``groups`` of shape (n_samples,), where given, are held out whole.
        """
        if min(self.max_epochs, self.patience) < 1:
            raise ValueError("parameters max_epochs and patience of MLP must be at least 1")
        X, y, _ = check_rows(self, X, y)
        self.centre_ = X.mean(axis=0)
        self.target_centre_ = float(y.mean())
        self.scale_ = np.where(constant := _constant(X), 1.0, X.std(axis=0))
        self.target_scale_ = float(y.std()) or 1.0
        self.selected_features_ = [
            name for name, flat in zip(feature_names(self), constant, strict=True) if not flat
        ]
        train, valid = self._split(len(y), groups)
        self._train(
            (X - self.centre_) / self.scale_,
            (y - self.target_centre_) / self.target_scale_,
            train,
            valid,
        )
        return self

    def _split(self, n_rows: int, groups: Any) -> tuple[np.ndarray, np.ndarray]:
        """Return the rows to train on and the rows that decide when to stop."""
        rows = np.arange(n_rows)
        if n_rows < 10:
            return rows, rows
        if groups is not None and len(np.unique(groups)) >= 3:
            splitter: Any = GroupShuffleSplit(
                1, test_size=self.holdout, random_state=self.random_state
            )
        else:
            splitter = ShuffleSplit(1, test_size=self.holdout, random_state=self.random_state)
        train, valid = next(splitter.split(rows[:, None], groups=groups))
        return train, valid

    def _train(self, X: np.ndarray, y: np.ndarray, train: np.ndarray, valid: np.ndarray) -> None:
        """Run epochs on standardised rows; keep the weights of the epoch with the least held-out error."""
        network = MLPRegressor(
            hidden_layer_sizes=tuple(self.hidden),
            alpha=self.alpha,
            batch_size=min(self.batch_size or min(max(len(train) // 50, 32), 256), len(train)),
            learning_rate_init=self.learning_rate,
            random_state=self.random_state,
        )
        path: list[float] = []
        best = 0
        while len(path) < self.max_epochs and len(path) - best < self.patience:
            network.partial_fit(X[train], y[train])
            path.append(
                float(
                    np.mean(
                        (_forward(X[valid], network.coefs_, network.intercepts_) - y[valid]) ** 2
                    )
                )
            )
            if path[-1] <= min(path):
                best = len(path)
                self.weights_ = [layer.copy() for layer in network.coefs_]
                self.biases_ = [layer.copy() for layer in network.intercepts_]
        self.holdout_path_ = path
        self.n_iter_ = len(path)
        self.converged_ = len(path) - best >= self.patience

    @one_blas_thread
    def predict(self, X: Any) -> np.ndarray:
        """Return the network's output in the unit of y, shape (n_samples,)."""
        check_is_fitted(self, "weights_")
        X = rows_to_predict(self, X)
        output = _forward((X - self.centre_) / self.scale_, self.weights_, self.biases_)
        return output * self.target_scale_ + self.target_centre_


def _constant(X: np.ndarray) -> np.ndarray:
    """Return which columns vary no more than rounding error."""
    return X.std(axis=0) <= len(X) * np.finfo(np.float64).eps * np.abs(X).max(axis=0)


def _forward(
    X: np.ndarray, weights: Sequence[np.ndarray], biases: Sequence[np.ndarray]
) -> np.ndarray:
    """Return the output of rectified linear layers and a linear last one, shape (n_samples,)."""
    for layer, bias in zip(weights[:-1], biases[:-1], strict=True):
        X = np.maximum(X @ layer + bias, 0.0)
    return (X @ weights[-1] + biases[-1])[:, 0]

"""A multilayer perceptron with early stopping, kept as plain arrays."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Self

import numpy as np
from sklearn.base import BaseEstimator, RegressorMixin
from sklearn.model_selection import GroupShuffleSplit, ShuffleSplit
from sklearn.neural_network import MLPRegressor
from sklearn.utils.validation import check_is_fitted, validate_data

from .base import check_rows, feature_names, one_blas_thread


class MLP(RegressorMixin, BaseEstimator):
    """A network of rectified linear layers, trained by Adam on squared error until unseen rows stop improving.

    Columns and target are standardised by the training rows. A share of the rows (whole groups where `fit` gets at
    least three) is held out; training ends when their error has not improved for ``patience`` epochs, and the weights
    of the best epoch are kept. Below 10 rows nothing is held out and the training error takes its place.

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
        Whether training ended because the held-out error stopped improving, rather than at ``max_epochs``.
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
        self.hidden, self.alpha, self.learning_rate, self.batch_size = hidden, alpha, learning_rate, batch_size
        self.max_epochs, self.patience, self.holdout, self.random_state = max_epochs, patience, holdout, random_state

    @one_blas_thread
    def fit(self, X: Any, y: Any, groups: Any = None) -> Self:
        """Train on X of shape (n_samples, n_features) and y of shape (n_samples,).

        ``groups`` of shape (n_samples,), where given, are held out whole.
        """
        if min(self.max_epochs, self.patience) < 1:
            raise ValueError("parameters max_epochs and patience of MLP must be at least 1")
        X, y, _ = check_rows(self, X, y)
        self.centre_, self.target_centre_ = X.mean(axis=0), float(y.mean())
        self.scale_ = np.where(constant := _constant(X), 1.0, X.std(axis=0))
        self.target_scale_ = float(y.std()) or 1.0
        self.selected_features_ = [name for name, flat in zip(feature_names(self), constant, strict=True) if not flat]
        train, valid = self._split(len(y), groups)
        self._train((X - self.centre_) / self.scale_, (y - self.target_centre_) / self.target_scale_, train, valid)
        return self

    def _split(self, n_rows: int, groups: Any) -> tuple[np.ndarray, np.ndarray]:
        """Return the rows to train on and the rows that decide when to stop."""
        rows = np.arange(n_rows)
        if n_rows < 10:
            return rows, rows
        if groups is not None and len(np.unique(groups)) >= 3:
            splitter: Any = GroupShuffleSplit(1, test_size=self.holdout, random_state=self.random_state)
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
            path.append(float(np.mean((_forward(X[valid], network.coefs_, network.intercepts_) - y[valid]) ** 2)))
            if path[-1] <= min(path):
                best = len(path)
                self.weights_ = [layer.copy() for layer in network.coefs_]
                self.biases_ = [layer.copy() for layer in network.intercepts_]
        self.holdout_path_, self.n_iter_ = path, len(path)
        self.converged_ = len(path) - best >= self.patience

    @one_blas_thread
    def predict(self, X: Any) -> np.ndarray:
        """Return the network's output in the unit of y, shape (n_samples,)."""
        check_is_fitted(self, "weights_")
        X = validate_data(self, X, dtype=np.float64, reset=False)
        output = _forward((X - self.centre_) / self.scale_, self.weights_, self.biases_)
        return output * self.target_scale_ + self.target_centre_


def _constant(X: np.ndarray) -> np.ndarray:
    """Return which columns vary no more than rounding error."""
    return X.std(axis=0) <= len(X) * np.finfo(np.float64).eps * np.abs(X).max(axis=0)


def _forward(X: np.ndarray, weights: Sequence[np.ndarray], biases: Sequence[np.ndarray]) -> np.ndarray:
    """Return the output of rectified linear layers and a linear last one, shape (n_samples,)."""
    for layer, bias in zip(weights[:-1], biases[:-1], strict=True):
        X = np.maximum(X @ layer + bias, 0.0)
    return (X @ weights[-1] + biases[-1])[:, 0]

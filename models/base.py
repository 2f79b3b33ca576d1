"""What a model of the suite is to the rest of flopcast: a named estimator and the space it is fitted in."""

from __future__ import annotations

import contextlib
import functools
import inspect
import threading
from collections.abc import Callable, Hashable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from numbers import Real
from typing import Any, ParamSpec, Self, TypeVar

import joblib
import numpy as np
import pandas as pd
from sklearn.base import BaseEstimator, RegressorMixin
from sklearn.model_selection import GroupKFold, KFold
from sklearn.utils import Tags, check_array, check_consistent_length, column_or_1d
from sklearn.utils.validation import validate_data
from threadpoolctl import ThreadpoolController

from ..arrays import FloatArray
from ..errors import few
from ..remarks import visible

Parameters = ParamSpec("Parameters")
Result = TypeVar("Result")
Folds = list[tuple[np.ndarray, np.ndarray]]


@dataclass(frozen=True)
class Candidate:
    """An unfitted model under the name users see.

    Attributes
    ----------
    name : str
        The name in every table and file, e.g. ``"OLS/Forward/AIC"``.
    estimator : scikit-learn regressor
        Cloned before each fit; every preprocessing step and search is inside it.
    space : str
        What the fit minimises, in words: ``"relative error"``, ``"log time"``, ``"measured time"``,
        ``"no fitting"``.
    uses_unpaired : bool
        Whether the model also learns from target rows without a host time (their host columns are
        NaN).
    preference : int, optional
        Place in the order of caution, 0 the most cautious: what grows with the work beyond the
        trained range, the least fitted first. It decides between models that few groups do not tell
        apart; those without one come after.
    selects_features : bool
        Whether the fit leaves out columns that do not pay.
    tests_features : bool
        Whether the fit gives each column that it keeps a p-value.
    is_forest : bool
        Whether it is the literature's forest, which ranks features by the decrease of the residual
        sum of squares.
    family : str, optional
        Candidates of one family need the same searches or fits, and are fitted together on the same
        rows: stepwise searches that differ in the criterion alone, a mean and the models that it
        mixes.
    expensive : bool
        Whether its fits take so long that it leaves a cross-validation where it cannot win any
        more. All others see all folds, so that their errors can be compared.
    most_rows : int, optional
        Paired rows, drawn at random, that a fit is made to at most; None for all.
    of_user : bool
        Whether it is a model that the user brought: it may be chosen whatever the question.
    """

    name: str
    estimator: BaseEstimator
    space: str
    uses_unpaired: bool = False
    preference: int | None = None
    selects_features: bool = False
    tests_features: bool = False
    is_forest: bool = False
    family: str | None = None
    expensive: bool = False
    most_rows: int | None = None
    of_user: bool = False


class DroppedColumns(UserWarning):
    """A linear model leaves columns out from the start, as they can add nothing to it.

    ``constant`` ones do not vary in the training rows, ``copies`` equal an earlier one in each of
    them. Columns of zeros are left out without a word: their coefficient is 0 in any least-squares
    fit.
    """

    def __init__(self, model: str, constant: list[str], copies: list[str]) -> None:
        self.model = model
        self.constant = constant
        self.copies = copies
        kinds = (("constant", constant), ("a copy of an earlier one", copies))
        said = " and ".join(f"{few(names)} ({kind})" for kind, names in kinds if names)
        super().__init__(visible(f"{model} leaves out columns that add nothing: {said}"))

    def __reduce__(self) -> tuple[type[Self], tuple[str, list[str], list[str]]]:
        return type(self), (self.model, self.constant, self.copies)


class PositiveRegressor(RegressorMixin, BaseEstimator):
    """A regressor of positive targets; one that looks at relative errors or at few columns may score poorly in R²."""

    def __sklearn_tags__(self) -> Tags:
        """Say so."""
        tags = super().__sklearn_tags__()
        tags.target_tags.positive_only = True
        tags.regressor_tags.poor_score = True
        return tags


class Memo:
    """Results for some training rows, kept for the next fit on equal rows.

    Forward/AIC and Forward/BIC walk along one path; a stack fits the models it mixes as they are
    fitted alone. Whoever fits several models on the same rows makes this, hands it to each `fit`,
    and lets go of it: nothing is kept beyond. Of each kind the last one is kept. What is found
    again is the same object: a fitted model must not be changed; a path may have grown, and that
    must not show in results. Not for several threads at once.
    """

    def __init__(self) -> None:
        self._kept: dict[Hashable, tuple[tuple[np.ndarray, ...], Any]] = {}

    def of(
        self, kind: Hashable, rows: tuple[np.ndarray, ...], make: Callable[[], Result]
    ) -> Result:
        """Return the kept result of this kind on equal rows, or make it; the rows must stay unchanged afterwards."""
        rows_kept, result = self._kept.get(kind, ((), None))
        if not rows_kept or not all(_same(a, b) for a, b in zip(rows_kept, rows, strict=True)):
            result = make()
            self._kept[kind] = rows, result
        return result

    def of_fit(
        self, estimator: BaseEstimator, X: Any, y: Any, groups: Any, make: Callable[[], Result]
    ) -> Result:
        """Return the kept fit of an estimator with equal parameters on equal rows, columns and groups."""
        names = None
        if hasattr(X, "columns"):
            names = tuple(X.columns)
        rows = [np.asarray(X), np.asarray(y)]
        if groups is not None:
            rows.append(np.asarray(groups))
        return self.of((_parameters(estimator), names, len(rows)), tuple(rows), make)


def _parameters(value: Any) -> Hashable:
    """Return a key of an estimator's parameters, those of wrapped estimators included."""
    if isinstance(value, BaseEstimator):
        return type(value), tuple(
            (name, _parameters(each)) for name, each in value.get_params(deep=False).items()
        )
    if isinstance(value, list | tuple):
        return type(value), tuple(map(_parameters, value))
    return type(value), value if isinstance(value, Hashable) else joblib.hash(value)


def _same(a: np.ndarray, b: np.ndarray) -> bool:
    """Return whether two arrays hold the same bytes, NaN included."""
    if a is b or a.__array_interface__ == b.__array_interface__:  # the same memory, seen twice
        return True
    if a.shape != b.shape or a.dtype != b.dtype:
        return False
    if a.dtype == np.float64:  # bit by bit, without a copy of either
        return bool((a.view(np.int64) == b.view(np.int64)).all())
    return a.tobytes() == b.tobytes()


def fit(
    estimator: BaseEstimator,
    X: Any,
    y: np.ndarray,
    groups: np.ndarray | None = None,
    sample_weight: np.ndarray | None = None,
    memo: Memo | None = None,
    campaigns: np.ndarray | None = None,
) -> BaseEstimator:
    """Fit ``estimator``, handing it the groups where its inner folds can respect them, and return it.

    All reach the last step of a pipeline. Groups are for inner folds only, the memo saves time only
    and campaigns tell rows apart for some models, so a model without any does not get them; weights
    change what is minimised, so a model that cannot take them is an error (ValueError). Where the
    memo has the same model fitted to the same rows without weights, that one is returned; all fits
    with one memo have the same campaigns.
    """
    prefix, last = _last_step(estimator)
    parameters = inspect.signature(last.fit).parameters
    if sample_weight is not None and "sample_weight" not in parameters:
        raise ValueError(
            f"{type(last).__name__} cannot weight its rows: use a model whose fit takes "
            "sample_weight"
        )
    given = {"groups": groups, "sample_weight": sample_weight, "memo": memo, "campaigns": campaigns}
    extra = {
        prefix + key: value
        for key, value in given.items()
        if value is not None and key in parameters
    }
    if memo is None or sample_weight is not None:
        return estimator.fit(X, y, **extra)
    return memo.of_fit(estimator, X, y, groups, lambda: estimator.fit(X, y, **extra))


def _last_step(estimator: Any) -> tuple[str, Any]:
    """Return the last step of (nested) pipelines and the prefix its fit arguments carry."""
    prefix = ""
    while steps := getattr(estimator, "steps", None):
        name, estimator = steps[-1]
        prefix += f"{name}__"
    return prefix, estimator


def inner_folds(
    cv: Any, n_rows: int, groups: np.ndarray | None = None, random_state: int | None = 0
) -> Folds:
    """Return the (training, validation) rows of the folds in which a model searches its parameters.

    ``cv`` is a splitter, an iterable of index arrays, or a number of folds: whole groups are then
    held out together where ``groups`` (n_rows,) has at least two of them (`GroupKFold`, at most one
    fold per group); otherwise rows are shuffled by ``random_state`` (`KFold`, at most one fold a
    row).
    """
    rows = np.zeros((n_rows, 1))
    if hasattr(cv, "split"):
        return list(cv.split(rows, groups=groups))
    if isinstance(cv, Iterable):
        return [(np.asarray(train), np.asarray(valid)) for train, valid in cv]
    n_groups = 0
    if groups is not None:
        n_groups = len(np.unique(groups))
    if n_groups >= 2:
        return list(GroupKFold(min(int(cv), n_groups)).split(rows, groups=groups))
    return list(KFold(min(int(cv), n_rows), shuffle=True, random_state=random_state).split(rows))


def weighted_folds(
    cv: Any, sample_weight: Any, n_used: int, groups: Any, random_state: int | None
) -> Folds:
    """Return `inner_folds` of all rows, without the rows of weight 0, the others numbered anew.

    A fold left without a training or a validation row is left out; a ValueError says that none is
    left. ``sample_weight`` is one number or has the shape (n_samples,); ``n_used`` rows have a
    positive weight.
    """
    equal = sample_weight is None or isinstance(sample_weight, Real)
    n_rows = n_used
    if not equal:
        n_rows = len(np.asarray(sample_weight))
    used = check_weights(sample_weight, n_rows) > 0
    position = np.cumsum(used) - 1
    folds = inner_folds(cv, n_rows, groups, random_state)
    weighted = [
        (position[train[used[train]]], position[valid[used[valid]]]) for train, valid in folds
    ]
    left = [(train, valid) for train, valid in weighted if len(train) and len(valid)]
    if not left:
        raise ValueError(
            f"sample_weight leaves none of the {len(folds)} inner folds a training and a "
            "validation row: give weight to"
            " rows of at least two groups, or other folds (cv)"
        )
    return left


class _BlasOfProcess:
    """One thread in the BLAS libraries that have one number of threads for the whole process.

    The first call to enter sets it and the last to leave restores it. Were each call to restore
    what it found, one that entered while another was inside would find 1 and leave the process with
    it.
    """

    def __init__(self, libraries: Sequence[Any]) -> None:
        self._libraries = libraries
        self._before = list[int]()
        self._lock = threading.Lock()
        self._inside = 0

    def __enter__(self) -> None:
        with self._lock:
            if not self._inside:
                self._before = [library.get_num_threads() for library in self._libraries]
                self._apply([1] * len(self._before))
            self._inside += 1

    def __exit__(self, *error: object) -> None:
        with self._lock:
            self._inside -= 1
            if not self._inside:
                self._apply(self._before)

    def _apply(self, numbers: Sequence[int]) -> None:
        for library, number in zip(self._libraries, numbers, strict=True):
            # threadpoolctl 3.8 lets one thread set numbers and ignores all others: here any may be
            # first or last, and whoever limits threads around these calls must be able to set them
            # again.
            free = getattr(library, "clear_controlling_thread", lambda **_: None)
            free(force=True)
            library.set_num_threads(number)
            free(force=True)


_FINDING = threading.Lock()


@functools.cache
def _blas() -> tuple[_BlasOfProcess, ThreadpoolController]:
    """Return the BLAS libraries limited for the whole process, and those limited for each thread (OpenMP)."""
    libraries = ThreadpoolController().select(user_api="blas")
    of_thread = [
        each
        for each in libraries.lib_controllers
        if getattr(each, "threading_layer", "") == "openmp"
    ]
    of_process = [each for each in libraries.lib_controllers if each not in of_thread]
    return _BlasOfProcess(of_process), libraries.select(
        filepath=[each.filepath for each in of_thread]
    )


def one_blas_thread(method: Callable[Parameters, Result]) -> Callable[Parameters, Result]:
    """Run a method on one BLAS thread: its sums then do not depend on the number of cores, nor wait for busy ones."""

    @functools.wraps(method)
    def limited(*args: Parameters.args, **kwargs: Parameters.kwargs) -> Result:
        with _FINDING:
            of_process, of_thread = _blas()
        with of_process, of_thread.limit(limits=1):
            return method(*args, **kwargs)

    return limited


def check_rows(
    estimator: BaseEstimator, X: Any, y: Any, sample_weight: Any = None
) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Validate training rows for ``estimator``; return X, y and the weights (all 1 by default) as float64 arrays.

    Raises
    ------
    ValueError
        For what scikit-learn refuses (NaN, wrong shapes), and weights that are negative or all
        zero.
    """
    X, y = validate_data(estimator, X, y, dtype=np.float64, y_numeric=True, ensure_min_samples=2)
    y = np.asarray(y, dtype=np.float64)
    return X, y, check_weights(sample_weight, len(y))


def rows_to_predict(estimator: BaseEstimator, X: Any) -> np.ndarray:
    """Return X as a float64 array, as `validate_data` does; that is asked only where something may be wrong."""
    if (
        isinstance(X, pd.DataFrame)
        and len(X)
        and list(X.columns) == list(getattr(estimator, "feature_names_in_", ()))
    ):
        with contextlib.suppress(TypeError, ValueError):
            if np.isfinite(values := X.to_numpy(dtype=np.float64)).all():
                return values
    return validate_data(estimator, X, dtype=np.float64, reset=False)


def check_weights(sample_weight: Any, n_rows: int) -> np.ndarray:
    """Return the weights as a float64 array of shape (n_rows,); all 1 when there are none."""
    if sample_weight is None:
        return np.ones(n_rows)
    if isinstance(sample_weight, Real):
        sample_weight = np.full(n_rows, float(sample_weight))
    weights = check_array(
        sample_weight, ensure_2d=False, dtype=np.float64, input_name="sample_weight"
    )
    if weights.shape != (n_rows,):
        raise ValueError(
            f"sample_weight must be a 1D array of shape ({n_rows},), got {weights.shape}"
        )
    if weights.min() < 0 or weights.max() == 0:
        raise ValueError("sample_weight must be non-negative and not all zero")
    return weights


def check_target(estimator: BaseEstimator, X: Any, y: Any) -> np.ndarray:
    """Return y as a finite float64 array with one value per row of X, for models that leave X to what they wrap."""
    if y is None:
        raise ValueError(
            f"{type(estimator).__name__} requires y to be passed, but the target y is None"
        )
    plain = isinstance(y, np.ndarray) and y.dtype == np.float64 and y.ndim == 1 and len(y)
    if not plain or not np.isfinite(y).all():
        y = check_array(
            column_or_1d(y, warn=True), ensure_2d=False, dtype=np.float64, input_name="y"
        )
    check_consistent_length(X, y)
    return y


def check_positive_target(estimator: BaseEstimator, y: np.ndarray) -> np.ndarray:
    """Return y if every value is above zero.

    Raises
    ------
    ValueError
        Naming the number of rows at fault: a relative error or a logarithm needs positive times.
    """
    bad = int(np.sum(~(y > 0)))
    if bad:
        raise ValueError(
            f"{type(estimator).__name__} needs positive targets: {bad} of {len(y)} are zero or "
            "negative"
        )
    return y


def check_table(estimator: BaseEstimator, X: Any, *, reset: bool) -> Any:
    """Return X for models that hand it on: a DataFrame as it is (its names checked), anything else as a float64 array.

    Raises
    ------
    ValueError
        For fewer than two training rows, and for what scikit-learn refuses of an array.
    """
    if not hasattr(X, "iloc"):
        if reset:
            ensure_min_samples = 2
        else:
            ensure_min_samples = 1
        return validate_data(
            estimator, X, dtype=np.float64, reset=reset, ensure_min_samples=ensure_min_samples
        )
    validate_data(estimator, X, skip_check_array=True, reset=reset)
    if reset and len(X) < 2:
        raise ValueError(
            f"{type(estimator).__name__} needs at least 2 rows, got n_samples = {len(X)}"
        )
    return X


def feature_names(estimator: BaseEstimator) -> list[str]:
    """Return the names of the columns an estimator was fitted on; ``x0``, ``x1``, ... where X had none."""
    names = getattr(estimator, "feature_names_in_", None)
    if names is None:
        return [f"x{j}" for j in range(estimator.n_features_in_)]
    return [str(name) for name in names]


def nested(fitted: Any) -> Iterator[Any]:
    """Yield a fitted model and the models it wraps, from the outside in."""
    seen: set[int] = set()
    while fitted is not None and id(fitted) not in seen:
        seen.add(id(fitted))
        yield fitted
        steps = getattr(fitted, "steps", None)
        inner = [
            getattr(fitted, name, None) for name in ("regressor_", "estimator_", "best_estimator_")
        ]
        if steps:
            fitted = steps[-1][1]
        else:
            fitted = next((part for part in inner if part is not None), None)


def selected_features(fitted: Any) -> list[str] | None:
    """Return the features a fitted model uses, looked up through pipelines and wrappers; None if unknown."""
    for model in nested(fitted):
        names = getattr(model, "selected_features_", None)
        if names is not None:
            return [str(name) for name in names]
    return None


def all_selected(models: Iterable[Any], names: Iterable[str]) -> list[str]:
    """Return those of ``names``, in their order, that any of the fitted models uses."""
    used = set()
    for model in models:
        for name in selected_features(model) or ():
            used.add(name)
    return [name for name in names if name in used]


def weighted_sums(values: FloatArray, weights: FloatArray) -> FloatArray:
    """Return the sum of each row (n × p), each column times its weight (p,).

    A row's sum is the same to the last bit whatever rows stand beside it. In a product of matrices
    it is not: a library adds up the last rows of a block in another order.

    >>> weighted_sums(np.array([[1.0, 2.0], [3.0, 4.0]]), np.array([10.0, 0.5])).tolist()
    [11.0, 32.0]
    """
    sums = np.zeros(len(values))
    for column, weight in zip(values.T, weights, strict=True):
        if weight != 0:
            sums += weight * column
    return sums

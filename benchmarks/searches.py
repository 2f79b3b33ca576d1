"""Models that search their size, against peers: recursive elimination, penalties, forests.

Each peer has to come to the same selection, or to the same penalty and an objective as good.
Solvers of a penalty are compared at an equal gap to the least objective, each at the loosest
tolerance that comes to it, not at their defaults.
"""

from __future__ import annotations

import warnings
from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace

import numpy as np
from sklearn import feature_selection
from sklearn.ensemble import RandomForestRegressor
from sklearn.exceptions import ConvergenceWarning
from sklearn.linear_model import ElasticNetCV, LassoCV, LinearRegression, lars_path_gram
from sklearn.model_selection import KFold
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler

from ..models.base import Folds
from ..models.learners import Forest
from ..models.linear.regularised import ElasticNet, Lasso
from ..models.linear.rfecv import RFECV
from .harness import Comparison, Contender
from .made_up_counters import counters
from .r_session import RSession, r_lacks

GAP = 1e-6
"""How far an objective may lie above the least one, in units of the target's variance."""
TOLERANCES = tuple(10.0**-k for k in range(1, 13))
_GLMNET = """
suppressPackageStartupMessages(library(glmnet))
task <- function() {{
  fit <- cv.glmnet(X, y, foldid = foldid, lambda = lambda, alpha = {mix}, thresh = given, maxit = 1e6)
  c(fit$lambda.min, as.numeric(coef(fit, s = fit$lambda.min))[-1])
}}
foldid <- c({foldid})
lambda <- c({alphas})
"""
_FOREST = """
suppressPackageStartupMessages(library(randomForest))
task <- function() {{
  fit <- randomForest(X, y, ntree = {trees}, mtry = max(1, floor(ncol(X) / 3)), nodesize = 1)
  c(min(fit$mse[2^(1:log2({trees}))]), length(fit$mse))
}}
"""


@dataclass(frozen=True)
class Penalised:
    """A penalty and the coefficients it led to, all in standard deviations of the columns and of the target."""

    alpha: float
    u: np.ndarray


def searches(quick: bool = False, full: bool = False) -> Iterator[Comparison]:
    """Yield the comparisons: ``quick`` on the smallest sizes, ``full`` also those that take minutes."""
    n, p, trees = (60, 8, 8) if quick else (369, 174, 1024) if full else (200, 100, 64)
    eliminated = _data(*((60, 8) if quick else (369, 174)))
    yield elimination(*eliminated)
    yield bounded_elimination(*eliminated)
    for mix in (1.0, 0.5) if full else (1.0,):
        yield from penalties(*_data(n, p), mix)
    yield from forests(*_data(n, p)[:2], trees)


def _data(n: int, p: int) -> tuple[np.ndarray, np.ndarray, Folds]:
    """Return X, y and five folds."""
    data = counters(n, p)
    X = data.X.to_numpy()
    return X, data.y, list(KFold(5, shuffle=True, random_state=0).split(X))


def skipped() -> list[str]:
    """Return a line for each peer in R that is not there."""
    return [
        f"{name} skipped: {why}" for name in ("glmnet", "randomForest") if (why := r_lacks(name))
    ]


def elimination(X: np.ndarray, y: np.ndarray, folds: Folds) -> Comparison:
    """Return RFECV of least squares, against scikit-learn's on columns standardised within each fold."""
    return Comparison(
        task=f"RFECV(OLS), {X.shape[0]} x {X.shape[1]}, 5 folds",
        ours=Contender(
            "flopcast RFECV", lambda: np.flatnonzero(RFECV(cv=folds).fit(X, y).coef_).tolist()
        ),
        peers=(
            Contender(
                "sklearn RFECV(LinearRegression)",
                lambda: np.flatnonzero(
                    _eliminated(LinearRegression(), X, y, folds).support_
                ).tolist(),
            ),
        ),
        nothing=Contender("do nothing (every column)", lambda: list(range(X.shape[1]))),
        differs=lambda a, b: "" if a == b else f"columns {sorted(set(a) ^ set(b))} in one only",
    )


def bounded_elimination(X: np.ndarray, y: np.ndarray, folds: Folds) -> Comparison:
    """Return RFECV of non-negative least squares; the answer is the coefficients that the search ends with.

    scikit-learn leaves the intercept free. It is positive here, where the bound of ours does not
    matter. Columns whose coefficient is 0 leave in another order, which changes no fit: they may be
    among those that scikit-learn supports.
    """

    def peer() -> np.ndarray:
        search = _eliminated(LinearRegression(positive=True), X, y, folds)
        coef = np.zeros(X.shape[1])
        scaler, model = search.estimator_
        coef[search.support_] = model.coef_ / scaler.scale_
        return coef * X.std(axis=0)

    return Comparison(
        task=f"RFECV(NNLS), {X.shape[0]} x {X.shape[1]}, 5 folds",
        ours=Contender(
            "flopcast RFECV", lambda: RFECV(base="nnls", cv=folds).fit(X, y).coef_ * X.std(axis=0)
        ),
        peers=(Contender("sklearn RFECV(LinearRegression(positive=True))", peer),),
        nothing=Contender("do nothing (no column)", lambda: np.zeros(X.shape[1])),
        differs=different_coefficients,
    )


def different_coefficients(a: np.ndarray, b: np.ndarray) -> str:
    """Return how many coefficients differ, by 1e-9 of the largest."""
    far = int(np.sum(np.abs(a - b) > 1e-9 * np.abs(a).max()))
    return f"{far} coefficients" if far else ""


def _eliminated(
    model: LinearRegression, X: np.ndarray, y: np.ndarray, folds: Folds
) -> feature_selection.RFECV:
    """Return scikit-learn's search with a linear model on columns standardised within each fold."""
    return feature_selection.RFECV(
        make_pipeline(StandardScaler(), model),
        importance_getter="named_steps.linearregression.coef_",
        scoring=lambda model, X, y: -float(np.sum((y - model.predict(X)) ** 2)),
        cv=folds,
    ).fit(X, y)


def penalties(X: np.ndarray, y: np.ndarray, folds: Folds, mix: float) -> Iterator[Comparison]:
    """Yield the search of a penalty, against coordinate descent over the same penalties and folds.

    scikit-learn alone does not standardise within each fold: its errors of the folds are those of
    other units, and the penalty it chooses may be the next one of the grid.
    """
    Z, v = StandardScaler().fit_transform(X), (y - y.mean()) / y.std()
    model = Lasso(cv=folds) if mix == 1 else ElasticNet(l1_ratio=mix, cv=folds)
    alphas = model.fit(X, y).alphas_

    def ours(tol: float) -> Penalised:
        model.set_params(tol=tol).fit(X, y)
        return Penalised(model.alpha_, model.coef_ * X.std(axis=0) / y.std())

    def peer(tol: float) -> Penalised:
        options = {"alphas": alphas, "cv": folds, "max_iter": 100_000, "tol": tol}
        search = LassoCV(**options) if mix == 1 else ElasticNetCV(l1_ratio=mix, **options)
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", ConvergenceWarning)
            search.fit(Z, v)
        return Penalised(float(search.alpha_), search.coef_)

    def differs(a: Penalised, b: Penalised) -> str:
        if wrong := worse(Z, v, mix, a):
            return f"ours has an {wrong}"
        if (
            not alphas[1] / alphas[0] * (1 - 1e-9)
            <= a.alpha / b.alpha
            <= alphas[0] / alphas[1] * (1 + 1e-9)
        ):
            return f"penalty {b.alpha:.3g} instead of {a.alpha:.3g}"
        return worse(Z, v, mix, b)

    exact = ours(TOLERANCES[-1])

    def contender(
        name: str, call: Callable[[float], Penalised], elsewhere: bool = False
    ) -> Contender:
        tol = loosest(call, lambda answer: not differs(exact, answer))
        return Contender(f"{name}, tol {tol:.0e}", lambda: call(tol), elsewhere=elsewhere)

    name, what = ("LassoCV", "Lasso") if mix == 1 else ("ElasticNetCV", f"elastic net, mix {mix}")
    comparison = Comparison(
        task=f"{what}, {len(alphas)} penalties, {X.shape[0]} x {X.shape[1]}, 5 folds, objective to {GAP:.0e}",
        ours=contender(f"flopcast {type(model).__name__}", ours),
        peers=(contender(f"sklearn {name}", peer),),
        nothing=Contender(
            "do nothing (no column)", lambda: Penalised(float(alphas[0]), np.zeros(X.shape[1]))
        ),
        differs=differs,
        says=lambda answer: f"gap {gap(Z, v, mix, answer):.0e}",
    )
    if r_lacks("glmnet"):
        yield comparison
        return
    with RSession(glmnet_code(folds, alphas, mix), Z, v) as session:

        def in_r(tol: float) -> Penalised:
            answer = session(tol)
            return Penalised(float(answer[0]), answer[1:])

        yield replace(
            comparison, peers=(*comparison.peers, contender("R cv.glmnet", in_r, elsewhere=True))
        )


def loosest(call: Callable[[float], Penalised], meets: Callable[[Penalised], bool]) -> float:
    """Return the first of `TOLERANCES` at which an answer meets what is asked, the last where none does."""
    return next((tol for tol in TOLERANCES if meets(call(tol))), TOLERANCES[-1])


def glmnet_code(folds: Folds, alphas: np.ndarray, mix: float) -> str:
    """Return the search by cv.glmnet over the same folds and penalties."""
    fold_of = np.empty(sum(len(valid) for _, valid in folds), dtype=int)
    for number, (_, valid) in enumerate(folds, start=1):
        fold_of[valid] = number
    listed = ",".join(f"{alpha!r}" for alpha in alphas.tolist())
    return _GLMNET.format(mix=mix, foldid=",".join(map(str, fold_of.tolist())), alphas=listed)


def worse(Z: np.ndarray, v: np.ndarray, mix: float, penalised: Penalised) -> str:
    """Return how far the objective of a solution is above the least one for its penalty, "" if within `GAP`."""
    above = gap(Z, v, mix, penalised)
    return "" if above <= GAP else f"objective {above:.1e} above the least"


def gap(Z: np.ndarray, v: np.ndarray, mix: float, penalised: Penalised) -> float:
    """Return an upper bound of what the objective of a solution is above the least one for its penalty.

    The objective is ``|v - Z u|² / 2n + l1 |u|_1 + ridge |u|² / 2``; the target v is standardised,
    so that without a column it is 1/2. No dual objective is above the least one: the larger of two
    is subtracted, at the residuals of the solution and of scikit-learn's path by least angles. The
    latter is as good as exact, and were it wrong, the bound would be too large, not too small.
    """
    n, l1, ridge = len(v), penalised.alpha * mix, penalised.alpha * (1 - mix)

    def dual(u: np.ndarray) -> float:
        pull = Z.T @ (v - Z @ u) / n - ridge * u
        share = min(1.0, l1 / float(np.abs(pull).max(initial=l1)))
        point, rest = share * (v - Z @ u), share * u
        return float(point @ v / n - point @ point / (2 * n) - ridge / 2 * (rest @ rest))

    u = penalised.u
    residual = v - Z @ u
    objective = float(residual @ residual / (2 * n) + l1 * np.abs(u).sum() + ridge / 2 * (u @ u))
    return objective - max(dual(u), dual(least_angles(Z, v, l1, ridge)))


def least_angles(Z: np.ndarray, v: np.ndarray, l1: float, ridge: float) -> np.ndarray:
    """Return scikit-learn's solution for a penalty, at the end of the path by least angles."""
    n, p = Z.shape
    gram = Z.T @ Z + n * ridge * np.eye(p)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", ConvergenceWarning)
        *_, u = lars_path_gram(
            Z.T @ v,
            gram,
            n_samples=n,
            alpha_min=l1,
            method="lasso",
            max_iter=10_000,
            return_path=False,
        )
    return np.asarray(u)


@dataclass(frozen=True)
class Grown:
    """The least out-of-bag error over the numbers of trees, and the share by which ours may differ from it."""

    error: float
    share: float = 1e-9


def oob_share(trees: int) -> float:
    """Return the share by which the out-of-bag errors of two forests of other seeds may differ, 25 % at most.

    Twelve seeds of ours have a standard deviation of 15 % with 8 trees (60 x 8) and of 6 % with 64
    (200 x 100), and less with more: 0.45 / sqrt(trees). Three standard deviations of a difference
    are 2 / sqrt(trees): 6 % with 1024.
    """
    return float(min(0.25, 2 / np.sqrt(trees)))


def forests(X: np.ndarray, y: np.ndarray, trees: int) -> Iterator[Comparison]:
    """Yield the choice of the number of trees, against a forest of each size.

    scikit-learn's forests of the same seed are our prefixes: the errors are equal. R's are grown
    from other numbers.
    """
    sizes = [2**k for k in range(1, trees.bit_length())]

    def ours() -> Grown:
        model = Forest(max_trees=trees, random_state=0).fit(X, y)
        return Grown(float(np.nanmin(list(model.oob_path_.values()))))

    def separate() -> Grown:
        errors = []
        for size in sizes:
            forest = RandomForestRegressor(size, max_features=1 / 3, oob_score=True, random_state=0)
            with warnings.catch_warnings():
                # rows that every tree of a small forest has seen
                warnings.simplefilter("ignore", UserWarning)
                forest.fit(X, y)
            voted = forest.oob_prediction_ != 0
            errors.append(float(np.mean((forest.oob_prediction_ - y)[voted] ** 2)))
        return Grown(min(errors))

    def differs(a: Grown, b: Grown) -> str:
        near = abs(b.error / a.error - 1) <= b.share
        return "" if near else f"out-of-bag error {b.error:.4g} instead of {a.error:.4g}"

    comparison = Comparison(
        task=f"forest of 2, 4, ... {trees} trees, {X.shape[0]} x {X.shape[1]}",
        ours=Contender("flopcast Forest", ours),
        peers=(Contender(f"sklearn, {len(sizes)} forests", separate),),
        nothing=Contender("do nothing (the mean)", lambda: Grown(float(y.var()))),
        differs=differs,
        says=lambda answer: f"out-of-bag error {answer.error:.4g}",
    )
    if r_lacks("randomForest"):
        yield comparison
        return
    share = oob_share(trees)
    with RSession(_FOREST.format(trees=trees), X, y) as session:
        in_r = Contender(
            "R randomForest, one forest",
            lambda: Grown(float(session()[0]), share),
            elsewhere=True,
            same=f"within {100 * share:.0f} %",
        )
        yield replace(comparison, peers=(*comparison.peers, in_r))

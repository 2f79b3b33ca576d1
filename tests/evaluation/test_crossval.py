"""Folds, and the cross-validation of candidates on them."""

from __future__ import annotations

import warnings
from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import pandas as pd
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from sklearn.base import BaseEstimator, RegressorMixin, clone
from sklearn.ensemble import ExtraTreesRegressor, RandomForestRegressor
from sklearn.exceptions import ConvergenceWarning
from sklearn.linear_model import LinearRegression
from sklearn.neighbors import KNeighborsRegressor

from flopcast.errors import DataError
from flopcast.evaluation.crossval import SchemeResult, cross_validate
from flopcast.evaluation.folds import make_folds
from flopcast.evaluation.metrics import by_group
from flopcast.evaluation.observers.budget import SPENT, Budget
from flopcast.evaluation.observers.early_stopping import EarlyStopping
from flopcast.evaluation.observers.progress import Progress
from flopcast.models.base import Candidate
from flopcast.models.baselines import AdditiveTime
from flopcast.models.ensembles import CrossFitted, GeometricStack, LogResidual, Transfer
from flopcast.workers import workers


@dataclass(frozen=True)
class Data:
    X: pd.DataFrame
    y: np.ndarray
    groups: np.ndarray
    rows: pd.DataFrame
    unpaired: Data | None = None


class Spy(RegressorMixin, BaseEstimator):
    """Predicts 1 and calls ``seen(X, y, groups)`` at each fit."""

    def __init__(
        self,
        seen: Callable[..., None] | None = None,
        then: Callable[[int], np.ndarray] | None = None,
    ) -> None:
        self.seen = seen
        self.then = then

    def __sklearn_clone__(self) -> Spy:
        return self

    def fit(self, X: Any, y: Any, groups: Any = None) -> Spy:
        if self.seen is not None:
            self.seen(X, y, groups)
        return self

    def predict(self, X: Any) -> np.ndarray:
        return np.ones(len(X)) if self.then is None else self.then(len(X))


def make_data(n: int = 60, groups: int = 12, seed: int = 0) -> Data:
    rng = np.random.default_rng(seed)
    X = pd.DataFrame(
        {
            "work": rng.uniform(1, 10, n),
            "size": rng.uniform(1, 5, n),
            "row": np.arange(n, dtype=float),
        }
    )
    y = 2.0 + 3.0 * X["work"].to_numpy() + rng.uniform(0, 0.5, n)
    names = np.array([f"g{i % groups:02d}" for i in range(n)])
    return Data(X, y, names, pd.DataFrame({"source": [f"a.csv:{i + 2}" for i in range(n)]}))


def spy(
    seen: Callable[..., None] | None = None, then: Callable[[int], np.ndarray] | None = None
) -> Candidate:
    return Candidate("Spy", Spy(seen, then), "no fitting")


def test_predictions_are_those_of_the_other_folds() -> None:
    data = make_data()
    result = cross_validate(data, [Candidate("OLS", LinearRegression(), "measured time")])
    for scheme in ("kfold", "grouped"):
        folds, predictions = result[scheme].folds, result[scheme].predictions["OLS"].to_numpy()
        for fold in range(10):
            train = folds != fold
            expected = LinearRegression().fit(data.X[train], data.y[train]).predict(data.X[~train])
            assert predictions[~train] == pytest.approx(expected)
        row = result[scheme].rows[0]
        assert row["e_out"] == pytest.approx(np.mean(100 * np.abs(predictions - data.y) / data.y))
        assert 0 < row["e_in"] < row["e_out"] < 5
        assert (row["error"], row["note"], row["features_available"]) == (None, None, 3)
        assert result[scheme].errors == {}
    table = by_group(result.observed, result["grouped"].predictions["OLS"], result.groups)
    assert table["rows"].sum() == 60
    assert set(table["group"]) == set(data.groups)


def test_a_nearest_neighbour_has_no_training_error() -> None:
    row = cross_validate(make_data(), [Candidate("kNN", KNeighborsRegressor(1), "measured time")])[
        "kfold"
    ].rows[0]
    assert row["e_in"] == 0.0
    assert row["e_out"] > 1.0


def test_jobs_change_nothing() -> None:
    data = make_data(n=4000, groups=40)  # large enough for joblib to map the arrays into memory
    data = Data(
        data.X.assign(**{f"x{i}": data.X["work"] ** (i / 10) for i in range(40)}),
        data.y,
        data.groups,
        data.rows,
    )
    candidates = [
        Candidate(
            "RandomForest", RandomForestRegressor(2, max_depth=3, random_state=0), "measured time"
        ),
        Candidate("OLS", LinearRegression(), "measured time"),
    ]
    found = []
    for jobs in (1, 2):
        with workers(jobs):
            found.append(cross_validate(data, candidates, schemes=["grouped"], folds=3)["grouped"])
    one, two = found
    assert one.predictions.columns.tolist() == ["RandomForest", "OLS"]
    assert one.predictions.to_numpy().tobytes() == two.predictions.to_numpy().tobytes()
    for first, second in zip(one.rows, two.rows, strict=True):
        assert first | {"fit_seconds": 0} == second | {"fit_seconds": 0}


@pytest.fixture
def relatives() -> tuple[Data, list[Candidate]]:
    """Return data with rows of the target alone, and candidates that need the same fits."""
    data, extra = make_data(groups=6), make_data(n=20, groups=4, seed=1)
    alone = Data(extra.X.assign(work=np.nan), extra.y, extra.groups, extra.rows)
    trees = LogResidual(AdditiveTime(["work"]), ExtraTreesRegressor(3, random_state=0))
    stack = GeometricStack([("base", AdditiveTime(["work"])), ("trees", clone(trees))], cv=2)
    shapes = CrossFitted(
        LogResidual(AdditiveTime(["size"]), ExtraTreesRegressor(2, random_state=0)), cv=2
    )
    means = {
        name: Transfer(shapes, GeometricStack(parts, learn_weights=False), shape_columns=["size"])
        for name, parts in {
            "one": [("trees", trees)],
            "two": [("base", AdditiveTime(["work"])), ("t", trees)],
        }.items()
    }
    models = {"base": AdditiveTime(["work"]), "trees": trees, "stack": stack}
    found = [
        Candidate(name, model, "log time", family="residual") for name, model in models.items()
    ]
    return Data(data.X, data.y, data.groups, data.rows, alone), [
        *found,
        *(
            Candidate(name, model, "log time", uses_unpaired=True, family="means")
            for name, model in means.items()
        ),
    ]


@pytest.mark.long
def test_fits_that_are_shared_predict_what_each_model_fitted_alone_predicts(
    relatives: tuple[Data, list[Candidate]], monkeypatch: pytest.MonkeyPatch
) -> None:
    data, candidates = relatives
    fits: list[str] = []
    grow, base = ExtraTreesRegressor.fit, AdditiveTime.fit
    monkeypatch.setattr(
        ExtraTreesRegressor, "fit", lambda self, X, y: fits.append("trees") or grow(self, X, y)
    )
    monkeypatch.setattr(
        AdditiveTime, "fit", lambda self, X, y: fits.append("base") or base(self, X, y)
    )
    together = cross_validate(data, candidates, folds=3)
    # a fold needs both on all rows, on two inner folds, for two members of the shape model, and beside its prediction
    assert (fits.count("trees"), fits.count("base")) == (6 * 6, 6 * 6)
    for candidate in candidates:
        alone = cross_validate(data, [candidate], folds=3, schemes=["grouped"])[
            "grouped"
        ].predictions[candidate.name]
        predicted = together["grouped"].predictions[candidate.name].to_numpy().tobytes()
        assert predicted == alone.to_numpy().tobytes(), candidate.name


def test_no_fit_is_shared_between_folds_or_schemes() -> None:
    data, seen = make_data(groups=10), []

    class Rows(RegressorMixin, BaseEstimator):
        def fit(self, X: Any, y: Any) -> Rows:
            self.rows_ = set(X["row"])
            seen.append(frozenset(self.rows_))
            return self

        def predict(self, X: Any) -> np.ndarray:
            return np.where(X["row"].isin(self.rows_), 1.0, 2.0)

    found = cross_validate(
        data, [Candidate(name, Rows(), "no fitting", family="rows") for name in ("first", "second")]
    )
    assert len(seen) == len(set(seen)) == 20
    for result in found.schemes.values():
        assert (result.predictions == 2.0).all(axis=None)


def test_a_model_that_fails_is_a_row_with_its_reason() -> None:
    calls = []

    def fail_once(X: Any, y: Any, groups: Any) -> None:
        calls.append(1)
        if len(calls) == 3:
            raise ArithmeticError("singular matrix\nin detail")

    good = Candidate("OLS", LinearRegression(), "measured time")
    result = cross_validate(make_data(), [spy(fail_once), good], schemes=["kfold"])["kfold"]
    assert result.errors == {"Spy": "ArithmeticError: singular matrix (in 1 of 10 folds)"}
    assert [row["name"] for row in result.rows] == ["Spy", "OLS"]
    assert result.rows[0]["e_out"] is None
    assert list(result.predictions) == ["OLS"]


def test_nan_predictions_are_an_error_and_negative_ones_are_counted() -> None:
    def one_nan(n: int) -> np.ndarray:
        return np.where(np.arange(n) == 0, np.nan, 1.0)

    result = cross_validate(make_data(), [spy(then=one_nan)], schemes=["kfold"])["kfold"]
    assert result.errors["Spy"].startswith("predicted nan for 10 of 60 rows (first: a.csv:")
    row = cross_validate(make_data(), [spy(then=lambda n: np.full(n, -1.0))], schemes=["kfold"])[
        "kfold"
    ].rows[0]
    assert row["nonpositive"] == 60
    assert row["e_out"] > 100
    assert row["error"] is None
    wrong = cross_validate(make_data(), [spy(then=lambda n: np.ones((n, 2)))], schemes=["kfold"])[
        "kfold"
    ]
    assert "(6, 2) for 6" in wrong.errors["Spy"]


def test_warnings_of_fits_become_a_note() -> None:
    def warn(X: Any, y: Any, groups: Any) -> None:
        warnings.warn("did not converge\nat all", ConvergenceWarning, stacklevel=1)
        warnings.warn("did not converge again", ConvergenceWarning, stacklevel=1)

    row = cross_validate(make_data(), [spy(warn)], schemes=["kfold"])["kfold"].rows[0]
    assert row["note"] == "ConvergenceWarning: did not converge (in 10 of 10 folds)"


def test_models_are_told_the_groups_where_asked() -> None:
    told = {"kfold": [], "grouped": []}
    data = make_data()
    for scheme, found in told.items():
        cross_validate(
            data,
            [spy(lambda X, y, g, f=found: f.append(g))],
            schemes=[scheme],
            tell_groups=["grouped"],
        )
    assert all(groups is None for groups in told["kfold"])
    assert all(len(groups) < 60 for groups in told["grouped"])


@pytest.mark.parametrize("scheme", ["kfold", "grouped"])
def test_a_candidate_learns_from_so_many_rows_at_most_and_predicts_all(scheme: str) -> None:
    fits: list[tuple[pd.DataFrame, np.ndarray, np.ndarray]] = []
    capped = replace(spy(lambda X, y, g: fits.append((X, y, g))), most_rows=20)
    data = make_data()
    found = cross_validate(data, [capped], schemes=[scheme])[scheme]
    assert found.predictions.notna().all(axis=None)
    for X, y, groups in fits:
        rows = X["row"].to_numpy(dtype=int)
        assert len(np.unique(rows)) == 20
        np.testing.assert_array_equal(y, data.y[rows])
        np.testing.assert_array_equal(groups, data.groups[rows])


@pytest.mark.parametrize("scheme", ["kfold", "grouped"])
def test_unpaired_rows_join_the_training_rows_unless_their_group_is_held_out(scheme: str) -> None:
    data = make_data(n=40, groups=4)
    extra = Data(
        pd.DataFrame({"row": [100.0, 101.0], "size": [1.0, 2.0]}),
        np.array([5.0, 6.0]),
        np.array(["g00", "other"]),
        pd.DataFrame({"source": ["b.csv:2", "b.csv:3"]}),
    )
    data = Data(data.X, data.y, data.groups, data.rows, extra)
    fits: list[tuple[pd.DataFrame, np.ndarray, np.ndarray]] = []
    plain: list[int] = []
    candidates = [
        Candidate("paired", Spy(lambda X, y, g: plain.append(len(X))), "no fitting"),
        Candidate(
            "all", Spy(lambda X, y, g: fits.append((X, y, g))), "no fitting", uses_unpaired=True
        ),
    ]
    cross_validate(data, candidates, schemes=[scheme])
    assert set(plain) == {36 if scheme == "kfold" else 30}
    for X, y, groups in fits:
        assert list(X.columns) == ["work", "size", "row"]
        assert len(X) == len(y) == len(groups)
        held_out = set(data.groups) - set(groups[X["row"] < 100])
        present = X.loc[X["row"] >= 100]
        assert present["work"].isna().all()
        assert present["row"].tolist() == (
            [101.0] if scheme == "grouped" and "g00" in held_out else [100.0, 101.0]
        )
        assert y[-1] == 6.0
    assert len(fits) == (10 if scheme == "kfold" else 4)


def test_the_budget_leaves_out_what_comes_last_and_says_so() -> None:
    """Each fit of the first takes a minute."""
    minutes: list[int] = []
    slow = spy(lambda X, y, g: minutes.append(1))
    last = Candidate("OLS", LinearRegression(), "measured time")

    def within(seconds: float) -> SchemeResult:
        minutes.clear()
        budget = Budget(seconds, clock=lambda: 60.0 * len(minutes))
        return cross_validate(
            make_data(),
            [slow, last],
            schemes=["kfold"],
            folds=2,
            observers=[budget],
            by_candidate=True,
        )["kfold"]

    result = within(60.0)
    assert list(result.left(SPENT)) == ["Spy", "OLS"]
    assert not result.errors  # nothing failed
    assert list(result.partial) == ["Spy"]
    assert len(minutes) == 1
    result = within(120.0)
    assert list(result.left(SPENT)) == ["OLS"]
    assert list(result.predictions) == ["Spy"]
    result = within(121.0)
    assert not result.left(SPENT)
    assert not result.errors


def test_the_time_left_is_told_from_the_fits_so_far_and_the_budget() -> None:
    minutes: list[int] = []
    left: list[float] = []
    clock = lambda: 60.0 * len(minutes)  # noqa: E731
    for seconds in (None, 150.0):
        minutes.clear()
        budget = None if seconds is None else Budget(seconds, clock)
        progress = Progress(lambda *call: left.append(call[3]), budget, clock)
        observers = [progress] if budget is None else [budget, progress]
        cross_validate(
            make_data(),
            [spy(lambda X, y, g: minutes.append(1))],
            schemes=["kfold"],
            folds=4,
            observers=observers,
            by_candidate=budget is not None,
        )
    assert left == pytest.approx([180.0, 120.0, 60.0, 0.0, 90.0, 30.0, 0.0])


def test_who_leaves_is_asked_after_the_first_folds_and_fitted_no_more() -> None:
    asked: list[tuple[str, int, list[str]]] = []
    fits: list[int] = []
    told: list[tuple[int, int, str, float]] = []

    def leave(scheme: str, rows: np.ndarray, predictions: pd.DataFrame, margin: float) -> list[str]:
        asked.append((scheme, len(rows), list(predictions)))
        # OLS costs nothing: it stays
        return ["Spy", "OLS"] if scheme == "kfold" and margin <= allowed else []

    allowed = 0.0
    data, good = make_data(), Candidate("OLS", LinearRegression(), "measured time")
    bad = Candidate("bad", Spy(then=lambda n: np.full(n, np.nan)), "no fitting")
    watched = [replace(spy(lambda X, y, g: fits.append(1)), expensive=True), good, bad]
    result = cross_validate(
        data, watched, observers=[EarlyStopping(leave), Progress(lambda *call: told.append(call))]
    )
    looked = [rows for _, rows, _ in asked]
    assert asked[looked.index(24)][2] == ["Spy", "OLS"]
    assert (len(fits), told[0][1], told[-1][1]) == (14, 60, 54)
    row, full = result["kfold"].rows[0], result["grouped"].rows[0]
    assert (row["left"]["folds"], row["left"]["of"], row["left"]["best"], full["left"]) == (
        4,
        10,
        "OLS",
        None,
    )
    partial, early = result["kfold"].partial["Spy"], result["kfold"].folds < 4
    assert partial.notna().tolist() == early.tolist()
    assert (row["e_out"], row["ir"]["10"], row["error"]) == (None, None, None)
    best = np.abs(result["kfold"].predictions["OLS"] / data.y - 1)[early].mean()
    assert row["left"]["times"] == pytest.approx(np.mean(1 - 1 / data.y[early]) / best)
    assert result["kfold"].predictions["OLS"].notna().all()
    assert (list(result["kfold"].predictions), list(result["grouped"].predictions)) == (
        ["OLS"],
        ["Spy", "OLS"],
    )
    few = cross_validate(
        data, watched, folds=7, observers=[EarlyStopping(leave)], schemes=["kfold"]
    )["kfold"]
    assert few.rows[0]["left"] is None
    allowed = 0.5  # a clear loser leaves after two folds
    sooner = cross_validate(data, watched, observers=[EarlyStopping(leave)], schemes=["kfold"])[
        "kfold"
    ]
    assert (sooner.rows[0]["left"]["folds"], sooner.rows[0]["e_out"]) == (2, None)
    assert sooner.partial["Spy"].notna().tolist() == (sooner.folds < 2).tolist()


def test_progress_counts_every_fit() -> None:
    seen: list[tuple[int, int, str, float]] = []
    cross_validate(
        make_data(), [spy()], folds=5, observers=[Progress(lambda *call: seen.append(call))]
    )
    assert [call[:2] for call in seen] == [(i, 10) for i in range(1, 11)]
    assert {call[2] for call in seen} == {"Spy (kfold)", "Spy (grouped)"}
    assert seen[-1][3] == 0.0
    assert all(call[3] >= 0 for call in seen)


def test_what_cannot_be_evaluated_is_refused() -> None:
    data = make_data()
    data.y[3] = 0.0
    with pytest.raises(DataError, match=r"a.csv:5"):
        cross_validate(data, [spy()])
    with pytest.raises(ValueError, match="different names, got 'Spy' twice"):
        cross_validate(make_data(), [spy(), spy()])


def _repeated(rows: pd.DataFrame, **columns: Any) -> pd.DataFrame:
    return rows.assign(op="gemm", n=256, k=512, dtype_a="fp8", **columns)


def test_repeats_of_a_problem_are_never_split_nor_learnt_from_where_it_is_held_out() -> None:
    """12 problems by 5 runs, of which two more runs have no partner; models are told the problems."""
    data = make_data()
    m = np.arange(60) // 5
    X = data.X.assign(m=m, size=1.0)
    rows = _repeated(data.rows, m=64.0 * (1 + m), run=np.arange(60) % 5 + 1.0)
    more = _repeated(data.rows[:24], m=64.0 * (1 + np.arange(24) // 2), run=np.arange(24) % 2 + 6.0)
    extra = Data(X[:24].assign(m=np.arange(24) // 2), data.y[:24], data.groups[:24], more)
    seen: list[tuple[set[float], list[int]]] = []
    watched = spy(
        lambda X, y, g: seen.append(
            (set(X["m"]), pd.crosstab(X["m"], g).gt(0).sum(axis=1).tolist())
        )
    )
    whole = Data(X, data.y, data.groups, rows, extra)
    found = cross_validate(
        whole, [replace(watched, uses_unpaired=True)], schemes=["kfold"], tell_groups=()
    )
    folds = found["kfold"].folds
    assert pd.Series(folds).groupby(m).nunique().eq(1).all()
    assert sorted(np.bincount(folds)) == [5] * 8 + [10] * 2
    for fold, (learnt_from, told) in enumerate(seen):
        assert not learnt_from & set(m[folds == fold])
        assert told == [1] * len(learnt_from)
    assert found.problems is not None
    assert len(np.unique(found.problems)) == 12
    once = Data(X, data.y, data.groups, rows.assign(m=np.arange(60.0)))
    assert cross_validate(once, [spy()], schemes=["kfold"]).problems is None
    with pytest.raises(DataError, match="12"):
        cross_validate(whole, [spy()], schemes=["kfold"], folds=13)


SIZES = st.lists(st.integers(1, 30), min_size=2, max_size=40)


@given(n=st.integers(5, 200), folds=st.integers(2, 5), seed=st.integers(0, 99))
@settings(deadline=None, derandomize=True, max_examples=30)
def test_shuffled_folds_differ_by_at_most_one_row(n: int, folds: int, seed: int) -> None:
    sizes = np.bincount(make_folds("kfold", None, n, folds, seed))
    assert len(sizes) == folds
    assert sizes.sum() == n
    assert sizes.max() - sizes.min() <= 1


@given(sizes=SIZES, folds=st.integers(2, 10), seed=st.integers(0, 99))
@settings(deadline=None, derandomize=True, max_examples=30)
def test_grouped_folds_keep_groups_whole_and_are_balanced(
    sizes: list[int], folds: int, seed: int
) -> None:
    groups = (
        np.random.default_rng(seed).permutation(np.repeat(np.arange(len(sizes)), sizes)).astype(str)
    )
    found = make_folds("grouped", groups, len(groups), folds, seed)
    for group in np.unique(groups):
        assert len(np.unique(found[groups == group])) == 1
    rows = np.bincount(found)
    assert len(rows) == min(folds, len(sizes))
    assert rows.min() > 0
    if len(sizes) > folds:  # the guarantee of longest-processing-time-first, Graham 1969
        assert rows.max() <= 4 / 3 * max(max(sizes), len(groups) / folds) + max(sizes) / 3


def test_groups_fewer_than_folds_are_left_out_one_by_one() -> None:
    groups = np.array(["a", "b", "a", "c", "b"])
    assert make_folds("grouped", groups, 5, folds=10).tolist() == [0, 1, 0, 2, 1]


def test_the_seed_decides() -> None:
    first, again, other = (make_folds("kfold", None, 50, seed=seed) for seed in (1, 1, 2))
    assert (first == again).all()
    assert (first != other).any()
    groups = np.repeat(np.arange(30), 2)
    assert (
        make_folds("grouped", groups, 60, seed=1) != make_folds("grouped", groups, 60, seed=2)
    ).any()


def test_largest_groups_go_first() -> None:
    groups = np.repeat(["a", "b", "c", "d", "e"], [10, 7, 4, 3, 2])
    assert sorted(np.bincount(make_folds("grouped", groups, 26, folds=2))) == [13, 13]


def test_too_few_rows_or_groups_say_so() -> None:
    with pytest.raises(DataError, match=r"10-fold.*there are 4"):
        make_folds("kfold", None, 4)
    with pytest.raises(DataError, match="'a': choose another column"):
        make_folds("grouped", np.array(["a", "a"]), 2)
    with pytest.raises(DataError, match="no rows"):
        make_folds("grouped", np.array([]), 0)


def test_wrong_parameters_are_named() -> None:
    with pytest.raises(ValueError, match=r"make_folds.*'random'"):
        make_folds("random", None, 20)
    with pytest.raises(ValueError, match=r"make_folds.*1"):
        make_folds("kfold", None, 20, folds=1)
    with pytest.raises(ValueError, match="entries, got 2"):
        make_folds("grouped", np.array(["a", "b"]), 3)
    with pytest.raises(ValueError, match="make_folds"):
        make_folds("grouped", None, 3)


@pytest.mark.parametrize("scheme", ["kfold", "grouped"])
def test_the_campaign_of_a_held_out_row_plays_no_part_in_its_prediction(scheme: str) -> None:
    rng = np.random.default_rng(0)
    work, found = rng.uniform(5, 50, 120), rng.choice(["a", "b"], 120)
    measured = {f"host_campaign={name}": (found == name) * 1.0 for name in ("a", "b")}
    X = pd.DataFrame({"host_us": work, "work": work, **(measured if scheme == "grouped" else {})})
    y, groups = work * np.where(found == "b", 2.0, 1.0), (np.arange(120) % 12).astype(str)
    unmeasured = X[60:].assign(**dict.fromkeys(X.columns.drop("work"), np.nan))
    rest = Data(unmeasured, y[60:], groups[60:], pd.DataFrame({"campaign": found[60:]}))
    model = Transfer(CrossFitted(LogResidual(learner=ExtraTreesRegressor(5, random_state=0)), cv=2), AdditiveTime(),
                     shape_columns=["work"])  # fmt: skip
    candidates = [Candidate("Transfer", model, "log time", uses_unpaired=True)]

    def predictions(campaigns: np.ndarray) -> np.ndarray:
        data = Data(X[:60], y[:60], groups[:60], pd.DataFrame({"campaign": campaigns}), rest)
        found = cross_validate(data, candidates, schemes=[scheme], folds=3, tell_groups=["grouped"])
        return found[scheme].predictions.to_numpy()

    held_out = make_folds(scheme, groups[:60], 60, 3) == 0
    plain, planted = found[:60], np.where(held_out, "planted", found[:60])
    one, other = predictions(plain), predictions(planted)
    np.testing.assert_array_equal(one[held_out], other[held_out])
    assert (one[~held_out] != other[~held_out]).any()  # but it does train the others

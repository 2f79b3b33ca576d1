"""Log residuals, means and stacks, learning from unpaired rows."""

from __future__ import annotations

import numpy as np
import pandas as pd
import pytest
from sklearn.dummy import DummyRegressor
from sklearn.ensemble import ExtraTreesRegressor
from sklearn.neighbors import KNeighborsRegressor

from flopcast.models.baselines import AdditiveTime, Affine, AnalyticLaw
from flopcast.models.ensembles import (
    SHAPE_TIME,
    CrossFitted,
    GeometricStack,
    LogResidual,
    PrecisionTransfer,
    Transfer,
    simplex_weights,
)
from flopcast.models.learners import Forest
from flopcast.models.persistence import from_bytes, to_bytes
from flopcast.models.target_space import LogTarget


def _wavy(n: int, seed: int) -> tuple[pd.DataFrame, np.ndarray]:
    rng = np.random.default_rng(seed)
    frame = pd.DataFrame(
        {"work": rng.uniform(5, 100, n), "kind": rng.integers(0, 3, n).astype(float)}
    )
    return frame, (2 + 0.5 * frame["work"].to_numpy()) * np.array([0.8, 1.0, 1.3])[
        frame["kind"].astype(int)
    ]


def test_a_learner_of_nothing_leaves_the_base() -> None:
    X, y = _wavy(60, 0)
    base = AdditiveTime(["work"])
    model = LogResidual(base, DummyRegressor(strategy="constant", constant=0.0)).fit(X, y)
    assert model.predict(X) == pytest.approx(base.fit(X, y).predict(X))


def test_the_residual_is_learnt() -> None:
    X, y = _wavy(300, 0)
    new, truth = _wavy(100, 1)
    model = LogResidual(AdditiveTime(["work"]), ExtraTreesRegressor(50, random_state=0)).fit(X, y)
    base_error = np.mean(np.abs(AdditiveTime(["work"]).fit(X, y).predict(new) / truth - 1))
    assert np.mean(np.abs(model.predict(new) / truth - 1)) < base_error / 5


@pytest.mark.parametrize(
    "model",
    [LogResidual(learner=ExtraTreesRegressor(20, random_state=0)), LogTarget(Forest(max_trees=64))],
)
def test_the_last_digits_of_times_do_not_choose_between_equal_splits(
    model: LogResidual | LogTarget,
) -> None:
    rng = np.random.default_rng(0)
    m, n = 2.0 ** rng.integers(0, 12, 120), 2.0 ** rng.integers(8, 13, 120)

    def sizes(m: np.ndarray, n: np.ndarray) -> pd.DataFrame:
        return pd.DataFrame(
            {"work": m * n, "m": m, "log_m": np.log2(m), "n": n, "log_n": np.log2(n)}
        )

    y = (3 + 1e-3 * m * n) * rng.lognormal(0, 0.2, 120)
    nudged = y * (1 + 1e-14 * rng.integers(-3, 4, 120))
    one, other = (
        model.fit(sizes(m, n), times).predict(sizes(1.5 * m, 1.5 * n)) for times in (y, nudged)
    )
    np.testing.assert_array_equal(one, other)


def test_it_does_not_saturate_beyond_the_trained_range() -> None:
    X, y = _wavy(300, 0)
    model = LogResidual(AdditiveTime(["work"]), ExtraTreesRegressor(50, random_state=0)).fit(X, y)
    far = pd.DataFrame({"work": [1000.0], "kind": [1.0]})
    assert model.predict(far)[0] == pytest.approx(502, rel=0.3)
    forest = ExtraTreesRegressor(50, random_state=0).fit(X, y)
    assert forest.predict(far)[0] < 70


def test_a_ratio_column_enters_as_logarithm_over_the_base() -> None:
    X, y = _wavy(300, 0)
    X["other_us"] = y * 1.01
    with_ratio = LogResidual(
        AdditiveTime(["work"]),
        ExtraTreesRegressor(50, random_state=0),
        columns=["work"],
        ratios=["other_us"],
    )
    new, truth = _wavy(100, 1)
    new["other_us"] = truth * 1.01
    assert np.mean(np.abs(with_ratio.fit(X, y).predict(new) / truth - 1)) < 0.02


@pytest.mark.parametrize(
    ("n", "groups", "fits"),
    [
        (1000, None, 6),
        (9001, None, 2),
        (9001, np.arange(9001) % 900, 2),
        (9001, np.arange(9001) % 150, 3),
    ],
)
def test_weights_are_learnt_from_as_many_rows_and_groups_as_are_enough(
    n: int, groups: np.ndarray | None, fits: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    seen = []
    fit = AnalyticLaw.fit
    monkeypatch.setattr(
        AnalyticLaw, "fit", lambda self, X, y: seen.append(len(y)) or fit(self, X, y)
    )
    y = np.random.default_rng(0).uniform(1, 9, n)
    stack = GeometricStack([("law", AnalyticLaw())], cv=5 if n < 2000 else 3)
    assert stack.fit(y[:, None], y, groups).weights_ == {"law": 1.0}
    assert len(seen) == fits


def test_weights_of_hand_made_predictions() -> None:
    log_y = np.log(np.linspace(1, 50, 60))
    off = np.where(np.arange(60) % 2, 0.3, -0.3)
    logs = np.column_stack([log_y + off, log_y - off, log_y + 5])
    assert simplex_weights(logs, log_y) == pytest.approx([0.5, 0.5, 0.0], abs=1e-6)


def test_a_few_wild_predictions_do_not_take_the_weight_of_a_model() -> None:
    log_y = np.log(np.linspace(1, 50, 60))
    mostly_right, always_off = (
        np.where(np.arange(60) % 20, 0.0, 3.0),
        np.where(np.arange(60) % 2, 0.4, -0.4),
    )
    assert simplex_weights(log_y[:, None] + np.c_[mostly_right, always_off], log_y)[0] > 0.95


def test_weights_are_on_the_simplex_whatever_the_predictions() -> None:
    rng = np.random.default_rng(0)
    logs = rng.normal(size=(40, 4)) * [1, 10, 1e-9, 1e6]
    weights = simplex_weights(logs, rng.normal(size=40))
    assert (weights >= 0).all()
    assert weights.sum() == pytest.approx(1)


def test_equal_weights_give_the_geometric_mean() -> None:
    X, y = np.array([[1.0, 4.0], [4.0, 9.0], [3.0, 27.0]]), np.array([1.0, 2.0, 3.0])
    model = GeometricStack([("a", AnalyticLaw(0)), ("b", AnalyticLaw(1))], learn_weights=False).fit(
        X, y
    )
    assert model.predict(X) == pytest.approx([2.0, 6.0, 9.0])


def test_groups_take_weight_from_a_learner_that_only_knows_their_rows() -> None:
    """A nearest neighbour knows each group's factor, so it wins under shuffled inner folds and loses under grouped."""
    rng = np.random.default_rng(1)
    groups = np.repeat(np.arange(20), 10)
    work = rng.uniform(5, 50, 200)
    y = work * np.exp(0.5 * rng.normal(size=20))[groups]
    X = np.column_stack([work, 1000.0 * groups])
    neighbour = LogResidual(AnalyticLaw(0), KNeighborsRegressor(3))
    stack = GeometricStack([("law", AnalyticLaw(0)), ("neighbour", neighbour)])
    shuffled, grouped = (
        stack.fit(X, y).weights_["neighbour"],
        stack.fit(X, y, groups=groups).weights_["neighbour"],
    )
    assert shuffled > 0.9
    assert grouped < 0.5


def test_models_without_weight_are_dropped() -> None:
    y = np.linspace(1, 60, 60)
    X = np.column_stack([y * 1.01, y + 3000])
    model = GeometricStack([("good", AnalyticLaw(0)), ("bad", AnalyticLaw(1))]).fit(X, y)
    assert len(model.parts_) == 1
    assert model.weights_["bad"] == 0


def test_cross_fitted_values_come_from_the_member_that_has_not_seen_the_row() -> None:
    rng = np.random.default_rng(2)
    X, y = rng.uniform(1, 9, (60, 2)), rng.lognormal(size=60)
    trees = LogResidual(AdditiveTime(), ExtraTreesRegressor(20, bootstrap=False, random_state=0))
    model = CrossFitted(trees, cv=4)
    left_out = model.fit_out_of_fold(X, y)
    assert len(model.members_) == 4
    seen = np.abs(np.log(model.predict(X) / y)).mean()
    unseen = np.abs(np.log(left_out / y)).mean()
    assert unseen > 1.5 * seen  # members that knew the row would reproduce it


def test_cross_fitted_folds_keep_groups_together() -> None:
    groups = np.repeat([0, 1, 2, 3], 10)
    X = groups[:, None].astype(float)
    y = np.array([1.0, 10.0, 100.0, 1000.0])[groups]
    neighbour = LogResidual(AnalyticLaw(0), KNeighborsRegressor(1))
    left_out = CrossFitted(neighbour, cv=4).fit_out_of_fold(X + 1, y, groups)
    assert (np.abs(np.log(left_out / y)) > 0.5).all()


def _rows(n: int, paired: int, seed: int) -> tuple[pd.DataFrame, np.ndarray]:
    """Target time depends on the shape alone, in a way that the host does not show."""
    rng = np.random.default_rng(seed)
    work, step = rng.uniform(5, 50, n), rng.integers(0, 5, n).astype(float)
    y = work * np.array([0.5, 0.8, 1.0, 1.5, 2.0])[step.astype(int)]
    host = np.where(np.arange(n) < paired, work, np.nan)
    return pd.DataFrame({"host_us": host, "work": work, "step": step}), y


def _model() -> Transfer:
    shape = CrossFitted(
        LogResidual(AdditiveTime(["work"]), ExtraTreesRegressor(10, random_state=0)), cv=3
    )
    second = LogResidual(
        AdditiveTime(["host_us"]),
        ExtraTreesRegressor(20, random_state=0),
        columns=["host_us"],
        ratios=[SHAPE_TIME],
    )
    return Transfer(shape, second, shape_columns=["work", "step"])


def test_unpaired_rows_teach_what_pairs_cannot() -> None:
    X, y = _rows(400, 30, 0)
    new, truth = _rows(100, 100, 1)
    taught = np.mean(np.abs(_model().fit(X, y).predict(new) / truth - 1))
    alone = np.mean(np.abs(_model().fit(X[:30], y[:30]).predict(new) / truth - 1))
    assert taught < 0.5 * alone


def test_shape_time_of_training_rows_is_out_of_fold() -> None:
    """Were it not, noise in y would pass for knowledge and the second model would repeat it."""
    rng = np.random.default_rng(0)
    X, _ = _rows(120, 60, 0)
    y = np.exp(rng.normal(size=120))
    model = _model().fit(X, y)
    assert np.mean(np.abs(np.log(model.shape_model_.predict(X[["work", "step"]]) / y))) < 0.6
    new, _ = _rows(60, 60, 5)
    assert np.abs(np.log(model.predict(new))).mean() < 1.2


def test_rows_to_predict_need_a_host_time_and_some_rows_must_be_paired() -> None:
    X, y = _rows(40, 20, 0)
    model = _model().fit(X, y)
    with pytest.raises(ValueError, match="NaN"):
        model.predict(X)
    with pytest.raises(ValueError, match="NaN"):
        _model().fit(X[20:], y[20:])


def _campaigns(n: int, paired: int, seed: int) -> tuple[pd.DataFrame, np.ndarray, np.ndarray]:
    """Two searches found kernels, one of them twice as slow; pairs have each step from one of them."""
    X, y = _rows(n, paired, seed)
    pairs_are = np.where(X["step"] < 2, "a", "b")
    found = np.where(
        np.arange(n) < paired, pairs_are, np.random.default_rng(seed).choice(["a", "b"], n)
    )
    return X, y * np.where(found == "b", 2.0, 1.0), found


def test_a_campaign_that_the_shape_tells_is_told_apart() -> None:
    X, y, campaigns = _campaigns(400, 60, 0)
    new, truth, _ = _campaigns(100, 100, 1)
    told = _model().fit(X, y, campaigns=campaigns)
    untold, grouped = (
        _model().fit(X, y),
        _model().fit(X, y, groups=X["step"].to_numpy(), campaigns=campaigns),
    )
    assert told.campaigns_ == ["a", "b"]
    assert untold.campaigns_ == grouped.campaigns_ == []  # the shape of a new group does not tell
    error, without = (np.abs(np.log(model.shape_model_.predict(model.shapes(new.to_numpy())) / truth)).mean()
                      for model in (told, untold))  # fmt: skip
    assert error < 0.25 * without
    np.testing.assert_array_equal(
        from_bytes(to_bytes(told), "file").predict(new), told.predict(new)
    )


def test_the_campaign_of_a_new_group_is_that_of_most_groups_of_its_hosts_campaign() -> None:
    X, y, campaigns = _campaigns(400, 60, 0)
    paired, first, told = np.arange(400) < 60, campaigns == "a", X.copy()
    for name, rows in (("x", first), ("y", ~first)):  # the host's campaigns go with the target's
        told[f"host_campaign={name}"] = np.where(paired, rows, np.nan)
    groups = (X["step"] * 100 + np.arange(400) % 8).to_numpy()
    model = _model().fit(told, y, groups=groups, campaigns=campaigns)
    counted = [
        [len(np.unique(groups[paired & first])), 0],
        [0, len(np.unique(groups[paired & ~first]))],
    ]
    assert model.host_campaigns_ == pytest.approx(np.array(counted))
    new = pd.DataFrame(
        [[9.0, 9.0, 7.0, 1, 0], [9.0, 9.0, 7.0, 0, 1], [9.0, 9.0, 7.0, 0, 0]], columns=told.columns
    )
    seen = model.shapes(new.to_numpy())
    # the last: as most are
    assert seen[["campaign=a", "campaign=b"]].to_numpy().tolist() == [[1, 0], [0, 1], [0, 1]]
    np.testing.assert_array_equal(
        from_bytes(to_bytes(model), "file").predict(new), model.predict(new)
    )


def test_rare_campaigns_have_no_column() -> None:
    X, y, campaigns = _campaigns(400, 200, 0)
    assert _model().fit(
        X, y, campaigns=np.where(np.arange(400) == 3, "rare", campaigns)
    ).campaigns_ == ["a", "b"]


def test_nan_is_refused_where_no_column_is_said_to_be_shape() -> None:
    X, y = _rows(40, 20, 0)
    with pytest.raises(ValueError, match="NaN"):
        Transfer().fit(X, y)


def _precision(n_members: int = 4) -> PrecisionTransfer:
    shape = CrossFitted(AdditiveTime(["work"]), cv=n_members)
    return PrecisionTransfer(shape, Affine("host_us"), shape_columns=["work"])


@pytest.mark.parametrize("exact", ["work", "host_us"])
def test_what_errs_less_has_the_weight(exact: str) -> None:
    rng = np.random.default_rng(0)
    X = pd.DataFrame(rng.uniform(10, 100, size=(80, 2)), columns=["host_us", "work"])
    y = 2.0 * X[exact].to_numpy()
    model = _precision().fit(X, y)
    assert model.predict(X) == pytest.approx(y, rel=1e-3)
    line, shape = model.variances_
    assert (line > 100 * shape) == (exact == "work")


def test_every_group_has_the_same_say_in_what_errs_less() -> None:
    y = np.geomspace(10, 100, 84)
    # the host is right in the large group alone
    groups = np.r_[np.zeros(60), np.repeat([1.0, 2.0, 3.0], 8)]
    off = np.where(groups > 0, np.where(np.arange(84) % 2, 1.5, 1 / 1.5), 1.0)
    X = pd.DataFrame({"host_us": y * off, "work": y * np.where(groups > 0, 1.0, 1.3)})
    (line, _), (grouped_line, _) = (
        _precision().fit(X, y).variances_,
        _precision().fit(X, y, groups=groups).variances_,
    )
    assert grouped_line > 4 * line


def test_weights_are_the_inverse_of_squared_errors_and_the_jackknife() -> None:
    rng = np.random.default_rng(1)
    work = np.geomspace(1, 100, 60)
    noise = np.exp(rng.normal(0, 0.2, size=(2, 60)))
    X, y = pd.DataFrame({"host_us": work * noise[0], "work": work}), 3 * work * noise[1]
    model = _precision().fit(X, y)
    new = pd.DataFrame({"host_us": [5.0, 5.0], "work": [5.0, 50.0]})
    members = np.log([member.predict(new[["work"]]) for member in model.shape_model_.members_])
    known, average = model.variances_
    weight = known / (known + average + 3 * members.var(axis=0))
    line = np.log(model.regressor_.predict(new.assign(**{SHAPE_TIME: 1.0})))
    assert np.log(model.predict(new)) == pytest.approx(
        weight * members.mean(axis=0) + (1 - weight) * line
    )


def test_the_second_model_is_by_default_one_whose_own_rows_tell_its_error() -> None:
    X, y = _rows(60, 40, 0)
    assert isinstance(
        PrecisionTransfer(shape_columns=["work", "step"]).fit(X, y).regressor_, AdditiveTime
    )
    assert isinstance(Transfer(shape_columns=["work", "step"]).fit(X, y).regressor_, GeometricStack)

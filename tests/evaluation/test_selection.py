"""The error of the selected model: unbiased for one model, corrected for many, honest about ties."""

from __future__ import annotations

import json

import numpy as np
import pandas as pd
import pytest
from scipy import stats

from flopcast.errors import FlopcastError
from flopcast.evaluation.selection import hopeless, select
from flopcast.evaluation.selection import statement as statement


def noisy(
    models: int, spread: float, n: int = 200, seed: int = 0
) -> tuple[np.ndarray, pd.DataFrame]:
    """Models whose errors are alike: half-normal with a mean of ``spread * 0.798``."""
    rng = np.random.default_rng(seed)
    observed = rng.uniform(1, 100, n)
    return observed, pd.DataFrame(
        {f"m{i}": observed * np.exp(spread * rng.standard_normal(n)) for i in range(models)}
    )


def test_one_model_keeps_its_error() -> None:
    observed, predictions = noisy(1, 0.1)
    found = select(observed, predictions, np.arange(200) // 20, scheme="grouped", replicates=4000)
    assert found["name"] == "m0"
    assert found["e_out"] == pytest.approx(found["e_out_table"], rel=0.01)
    assert found["interval"][0] < found["e_out"] < found["interval"][1]
    assert found["tied"] == ["m0"]
    assert found["e_out_groups"] == pytest.approx(found["e_out"])  # groups of one size
    assert found["picked"] == {"m0": 100.0}
    assert (found["resampled"], found["units"]) == ("groups", 10)
    inside = 100 * np.mean(np.abs(predictions["m0"] / observed - 1) <= 0.1)
    assert found["ir"]["10"] == pytest.approx(inside, abs=1.0)


def test_the_interval_is_student_s_of_one_group_less() -> None:
    """Four groups err by 9.4 ... 10.6 %: the logarithm of their mean scatters by s / 2 over that mean, s of three."""
    means = np.array([9.4, 9.8, 10.2, 10.6])
    groups = np.repeat(np.arange(4), 5)
    found = select(
        np.full(20, 100.0), pd.DataFrame({"m": 100 + means[groups]}), groups, scheme="grouped"
    )
    reach = stats.t.ppf((1 + found["level"]) / 2, 3) * means.std(ddof=1) / 2 / means.mean()
    assert np.log(np.divide(found["interval"], found["e_out"])) == pytest.approx(
        [-reach, reach], rel=0.05
    )


def test_the_interval_is_at_least_that_of_models_which_err_about_as_much() -> None:
    """The selected model errs by 10 % in every group by chance; the next two scatter as the test before says."""
    means, groups = np.array([9.4, 9.8, 10.2, 10.6]), np.repeat(np.arange(4), 5)
    errors = {
        "even": np.full(4, 9.9),
        "a": means + 1,
        "b": means[::-1] + 1,
        "far": np.array([20.0, 80.0, 20.0, 80.0]),
    }
    predictions = pd.DataFrame({name: 100 + of[groups] for name, of in errors.items()})
    found = select(np.full(20, 100.0), predictions, groups, scheme="grouped")
    reach = stats.t.ppf((1 + found["level"]) / 2, 3) * means.std(ddof=1) / 2 / (means.mean() + 1)
    assert found["name"] == "even"
    assert np.log(found["interval"][1] / found["e_out"]) == pytest.approx(reach, rel=0.1)


def test_the_smallest_of_many_like_errors_is_corrected() -> None:
    truth = 100 * np.mean(
        np.abs(np.exp(0.3 * np.random.default_rng(9).standard_normal(100_000)) - 1)
    )
    table, honest, tied = [], [], []
    for seed in range(15):
        observed, predictions = noisy(30, 0.3, n=80, seed=seed)
        found = select(observed, predictions, observed, scheme="kfold", replicates=300, seed=seed)
        table.append(found["e_out_table"])
        honest.append(found["e_out"])
        tied.append(len(found["tied"]))
    assert np.median(tied) > 15
    assert np.mean(table) < 0.85 * truth
    assert np.mean(honest) == pytest.approx(truth, rel=0.06)


def test_agrees_with_bbc_cv_written_out() -> None:
    """Algorithm 3 of the paper, with whole groups resampled, which count alike, and the left-out rows pooled."""
    observed, predictions = noisy(4, 0.2, n=90)
    groups = np.repeat(np.arange(9), [2, 3, 5, 10, 10, 10, 15, 15, 20])
    errors = (100 * np.abs(predictions.to_numpy() - observed[:, None])) / observed[:, None]
    rng, total, rows = np.random.default_rng(5), 0.0, 0
    for _ in range(3000):
        drawn = rng.integers(9, size=9)
        best = np.argmin(np.mean([errors[groups == group].mean(axis=0) for group in drawn], axis=0))
        out = errors[~np.isin(groups, drawn), best]
        total, rows = total + out.sum(), rows + len(out)
    found = select(observed, predictions, groups, scheme="grouped", replicates=3000)
    assert found["e_out"] == pytest.approx(total / rows, rel=0.01)


def test_groups_count_alike_where_they_are_left_out_and_rows_where_these_are() -> None:
    """One group has most rows, and there alone the second model errs less."""
    groups = np.repeat(np.arange(9), [100, 10, 10, 10, 10, 10, 10, 10, 10])
    y = np.full(len(groups), 100.0)
    predictions = pd.DataFrame(
        {"few": np.where(groups == 0, 120.0, 110.0), "one": np.where(groups == 0, 105.0, 120.0)}
    )
    assert select(y, predictions, groups, scheme="grouped")["name"] == "few"
    assert select(y, predictions, groups, scheme="kfold")["name"] == "one"


def test_only_contenders_are_chosen_and_all_models_are_compared() -> None:
    observed, predictions = noisy(5, 0.2, n=90)
    groups = np.repeat(np.arange(9), 10)
    all_of_them = select(observed, predictions, groups, scheme="grouped")
    alone = select(
        observed, predictions, groups, scheme="grouped", contenders=[str(predictions.columns[3])]
    )
    assert alone["name"] == predictions.columns[3]
    # nothing was chosen: no price
    assert alone["e_out"] == pytest.approx(alone["e_out_table"], rel=0.05)
    assert {*all_of_them["tied"]} <= {*map(str, predictions)}
    nobody = select(observed, predictions, groups, scheme="grouped", contenders=["absent"])
    assert nobody["name"] == all_of_them["name"]


def test_a_clear_winner_is_no_coin_toss_and_a_baseline_may_win() -> None:
    observed, predictions = noisy(2, 0.3)
    predictions["roofline"] = observed * 1.02
    found = select(
        observed, predictions, np.arange(200) // 10, scheme="grouped", baselines=["roofline"]
    )
    assert (found["name"], found["baseline"], found["tied"]) == ("roofline", True, ["roofline"])
    assert found["e_out"] == pytest.approx(2.0)


def test_ties_are_told_by_the_paired_difference() -> None:
    """Groups differ far more than models: all lie in the interval, yet one is worse in every group."""
    groups = np.repeat(np.arange(12), 5)
    level = np.exp(np.random.default_rng(0).standard_normal(12))[groups] * 0.1
    observed = np.ones(60)
    predictions = pd.DataFrame({"good": 1 + level, "worse": 1 + 1.2 * level, "same": 1 - level})
    found = select(observed, predictions, groups, scheme="grouped")
    assert found["interval"][1] > 100 * np.mean(predictions["worse"] - 1)
    assert found["tied"] == ["good", "same"]
    assert all(name in statement(found) for name in found["tied"])


def test_groups_make_the_interval_wider_and_the_seed_decides() -> None:
    groups = np.repeat(np.arange(10), 20)
    observed = np.ones(200)
    predictions = pd.DataFrame(
        {"m": 1 + 0.1 * np.random.default_rng(1).exponential(size=10)[groups]}
    )
    grouped, kfold = (
        select(observed, predictions, groups, scheme=scheme) for scheme in ("grouped", "kfold")
    )
    assert np.diff(grouped["interval"])[0] > 2 * np.diff(kfold["interval"])[0]
    assert select(observed, predictions, groups, scheme="grouped") == grouped
    assert (
        select(observed, predictions, groups, scheme="grouped", seed=1)["interval"]
        != grouped["interval"]
    )
    json.dumps(grouped, allow_nan=False)


def test_a_model_that_exploded_is_not_selected() -> None:
    observed, predictions = noisy(2, 0.1)
    predictions["OLS"] = np.where(np.arange(200) == 3, 1e308, observed)
    found = select(observed / 100, predictions / 100, np.arange(200) // 20, scheme="grouped")
    assert found["name"] != "OLS"
    json.dumps(found, allow_nan=False)


def test_nothing_to_select_from_says_so() -> None:
    with pytest.raises(FlopcastError, match="no model ran"):
        select([1.0, 2.0], pd.DataFrame(index=range(2)), ["a", "b"], scheme="kfold")
    with pytest.raises(FlopcastError, match="least 2 groups"):
        select([1.0, 2.0], pd.DataFrame({"m": [1.0, 2.0]}), ["a", "a"], scheme="grouped")


def _close(n: int = 400, groups: int = 20) -> tuple[np.ndarray, pd.DataFrame, np.ndarray]:
    """Return errors of a best model, one that is 0.1 points worse with scatter over groups, and one much worse."""
    rng = np.random.default_rng(4)
    group = np.arange(n) % groups
    y = np.full(n, 100.0)
    wave = 2.0 * rng.normal(size=groups)[group]
    wave -= wave.mean()
    frame = pd.DataFrame({"best": y + 10.0, "liked": y + 10.1 + wave, "worse": y + 13.0})
    return y, frame, np.char.add("g", group.astype(str))


def test_within_one_standard_error_the_preferred_model_is_taken() -> None:
    y, predictions, groups = _close()
    assert select(y, predictions, groups, scheme="grouped")["name"] == "best"
    assert select(y, predictions, groups, scheme="grouped", preference=["liked"])["name"] == "liked"
    assert (
        select(y, predictions, groups, scheme="grouped", preference=["worse", "best"])["name"]
        == "best"
    )


def test_a_simple_law_that_errs_no_more_than_the_chosen_model_is_taken() -> None:
    y, predictions, groups = _close()
    liked = {"groups": groups, "scheme": "grouped", "preference": ["liked"]}
    for laws, name in ((["best"], "best"), (["worse"], "liked"), (["worse", "best"], "best")):
        found = select(y, predictions, baselines=laws, **liked)
        assert (found["name"], found["baseline"]) == (name, name in laws)
    equal = predictions.assign(law=predictions["liked"])
    assert select(y, equal, baselines=["law"], **liked)["name"] == "law"


@pytest.mark.parametrize(("count", "reach"), [(4, 1.0), (8, 1.0), (32, 0.5)])
def test_the_standard_error_is_that_of_the_difference_over_groups_and_counts_for_less_where_they_are_many(
    count: int, reach: float
) -> None:
    y, predictions, groups = _close(n=12 * count, groups=count)
    difference = (predictions["liked"] - predictions["best"]).to_numpy()
    by_group = pd.Series(difference).groupby(groups).mean()
    error = np.sqrt(((by_group - difference.mean()) ** 2).sum()) / len(by_group)
    for above, name in ((0.99 * reach * error, "liked"), (1.01 * reach * error, "best")):
        shifted = predictions.assign(liked=predictions["liked"] - difference.mean() + above)
        assert select(y, shifted, groups, scheme="grouped", preference=["liked"])["name"] == name


def _worse(
    factors: dict[str, float], seed: int = 0, n: int = 80
) -> tuple[np.ndarray, pd.DataFrame, np.ndarray]:
    """Return 80 rows of 16 groups, and models whose errors are 5 % on average times a factor, noise of their own."""
    rng = np.random.default_rng(seed)
    y, groups = rng.uniform(1, 2, n), np.array([f"g{i % 16}" for i in range(n)])
    errors = {name: 0.05 * factor * rng.uniform(0.5, 1.5, n) for name, factor in factors.items()}
    return y, pd.DataFrame({name: y * (1 + error) for name, error in errors.items()}), groups


def test_only_models_that_cannot_win_are_given_up() -> None:
    y, predictions, groups = _worse({"best": 1.0, "near": 1.02, "far": 3.0, "wrong": 40.0})
    for scheme in ("kfold", "grouped"):
        assert hopeless(y, predictions, groups, scheme=scheme) == ["far", "wrong"]
        assert hopeless(y, predictions, groups, scheme=scheme, preference=["far"]) == [
            "far",
            "wrong",
        ]
        assert hopeless(y, predictions, groups, scheme=scheme, margin=4.0) == ["wrong"]
    assert hopeless(y, predictions[["best"]], groups, scheme="grouped") == []
    assert hopeless(y, predictions, np.full(len(y), "one"), scheme="grouped") == []


def test_a_liked_model_within_a_standard_error_stays() -> None:
    y, groups = np.ones(64), np.repeat(np.arange(8), 8)
    above = np.repeat([-0.01, -0.008, -0.005, -0.001, 0.002, 0.006, 0.01, 0.012], 8)
    predictions = pd.DataFrame({"best": np.full(64, 1.05), "liked": 1.05 + above})
    chosen = select(y, predictions, groups, scheme="grouped", preference=["liked"])["name"]
    assert chosen == "liked"
    assert hopeless(y, predictions, groups, scheme="grouped", preference=["liked"]) == []


def test_a_default_stays_unless_another_or_a_law_is_clearly_better() -> None:
    y, groups = np.ones(64), np.repeat(np.arange(8), 8)
    apart = np.repeat([-0.01, 0.03, -0.005, 0.02, 0.002, 0.006, -0.01, 0.012], 8)
    for lead, kept in ((0.0, True), (0.05, False)):
        predictions = pd.DataFrame({"other": np.full(64, 1.05), "default": 1.05 + apart + lead})
        for laws in ([], ["other"]):
            chosen = select(
                y,
                predictions,
                groups,
                scheme="grouped",
                preference=[],
                default="default",
                baselines=laws,
            )
            assert (chosen["name"] == "default") is kept
    assert (
        select(y, predictions, groups, scheme="grouped", preference=[], default="absent")["name"]
        == "other"
    )


@pytest.mark.parametrize("scheme", ["kfold", "grouped"])
def test_models_that_left_are_never_chosen_and_do_not_flatter_the_honest_error(scheme: str) -> None:
    factors = {f"m{i}": 1.0 + 0.08 * i for i in range(8)}
    for seed in range(5):
        y, predictions, groups = _worse(factors, seed)
        full = select(y, predictions, groups, scheme=scheme)
        early = np.arange(len(y)) < 32
        gone = hopeless(y[early], predictions[early], groups[early], scheme=scheme)
        assert gone
        partial = predictions[gone].where(pd.Series(early), axis=0)
        left = select(y, predictions.drop(columns=gone), groups, scheme=scheme, partial=partial)
        assert left["name"] == full["name"]
        assert not set(left["tied"]) & set(gone)
        assert left["e_out"] == pytest.approx(full["e_out"], rel=0.01)


def test_a_model_that_left_counts_elsewhere_as_much_worse_as_where_it_was_fitted() -> None:
    y, early = np.full(8, 100.0), pd.DataFrame({"left": [102.0, 103, 103, 105] + 4 * [np.nan]})
    whole = pd.DataFrame({"best": [101.0, 102, 103, 104, 101, 102, 103, 104]})
    found = select(y, whole, np.arange(8), scheme="kfold", partial=early)
    same = select(
        y,
        whole.assign(left=[102.0, 103, 103, 105, 101.75, 102.75, 103.75, 104.75]),
        np.arange(8),
        scheme="kfold",
    )
    assert found["picked"] == same["picked"]
    assert found["e_out"] == pytest.approx(same["e_out"])


def _rarely_far(n: int = 400) -> tuple[np.ndarray, pd.DataFrame]:
    """Return data on which one model errs by 12 % everywhere, the other by 2 %, but by 150 % on one row of ten."""
    observed = np.linspace(1, 9, n)
    far = np.where(np.arange(n) % 10 == 3, 2.5, 1.02)
    return observed, pd.DataFrame({"even": 1.12 * observed, "rarely far": far * observed})


@pytest.mark.parametrize(
    ("criterion", "chosen", "e_out", "ir10"),
    [("e_out", "even", 12.0, 0.0), ("ir10", "rarely far", 16.8, 90.0), ("ir20", "even", 12.0, 0.0)],
)
def test_what_is_chosen_by_decides_and_the_error_is_that_of_the_choice(
    criterion: str, chosen: str, e_out: float, ir10: float
) -> None:
    observed, predictions = _rarely_far()
    found = select(observed, predictions, np.arange(400), scheme="kfold", criterion=criterion)
    assert (found["name"], found["criterion"]) == (chosen, criterion)
    assert found["e_out"] == pytest.approx(e_out, abs=0.5)
    assert found["ir"]["10"] == pytest.approx(ir10, abs=4)
    given_up = hopeless(observed, predictions, np.arange(400), scheme="kfold", criterion=criterion)
    assert chosen not in given_up
    assert len(given_up) == (criterion != "e_out")  # 12 and 17 % are apart by luck now and then


@pytest.mark.parametrize("criterion", ["e_out", "ir10"])
def test_who_left_takes_part_in_any_choice(criterion: str) -> None:
    observed, predictions = _rarely_far()
    left = pd.DataFrame({"left": np.where(np.arange(400) < 160, 3 * observed, np.nan)})
    options = {"groups": np.arange(400), "scheme": "kfold", "criterion": criterion}
    with_left = select(observed, predictions, partial=left, **options)
    assert with_left["e_out"] == select(observed, predictions, **options)["e_out"]
    assert "left" not in with_left["picked"]

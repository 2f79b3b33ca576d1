"""Rows that are more difficult get wider intervals, where that can be told from what was not looked at."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import pandas as pd
import pytest

import flopcast
from flopcast.evaluation import competition
from flopcast.evaluation.folds import make_folds
from flopcast.evaluation.interval_scale import Difficulty, held_out_limits, learn_difficulty
from flopcast.evaluation.intervals import cross_bounds, interval_score

N, GROUPS = 1200, 60


def rows(spread: float, seed: int = 0) -> tuple[pd.DataFrame, np.ndarray, np.ndarray, np.ndarray]:
    """Return features, observed, predicted and groups; errors grow with log2.m by ``spread`` per doubling."""
    rng = np.random.default_rng(seed)
    X = pd.DataFrame(
        {"log2.m": rng.uniform(0, 8, N), "log2.n": rng.uniform(0, 8, N), "tile": rng.random(N)}
    )
    predicted = np.exp(rng.uniform(0, 5, N))
    observed = predicted * np.exp(
        0.02 * 2 ** (spread * X["log2.m"].to_numpy()) * rng.standard_normal(N)
    )
    return X, observed, predicted, rng.permutation(np.arange(N) % GROUPS)


def limits(
    X: pd.DataFrame, y: np.ndarray, p: np.ndarray, groups: np.ndarray
) -> tuple[np.ndarray, np.ndarray]:
    folds = make_folds("grouped", groups, len(y), 5)
    return held_out_limits(X, y, p, groups, folds, 0.9, "grouped")


def test_width_follows_the_errors_where_these_follow_a_feature() -> None:
    X, y, p, groups = rows(0.5)
    learnt = learn_difficulty(X, y, p, groups, "grouped")
    assert learnt is not None
    assert learnt.summary()["features"][0] == "log2.m"
    true = 2 ** (0.5 * X["log2.m"].to_numpy())
    assert np.corrcoef(np.log(learnt.difficulty.scale(X, p)), np.log(true))[0, 1] > 0.95
    lower, upper = limits(X, y, p, groups)
    inside = (lower <= y) & (y <= upper)
    assert inside.mean() == pytest.approx(0.9, abs=0.03)
    hard = true > np.median(true)
    assert inside[hard].mean() == pytest.approx(inside[~hard].mean(), abs=0.06)
    plain = cross_bounds(y, p, groups, make_folds("grouped", groups, N, 5), 0.9, "grouped")
    assert (
        interval_score(y, lower, upper, 0.9).mean() < 0.85 * interval_score(y, *plain, 0.9).mean()
    )
    assert np.median(np.log(upper / lower)) < 0.8 * np.median(np.log(plain[1] / plain[0]))


def test_few_groups_are_enough_to_tell_difficulty_from_the_prediction() -> None:
    rng = np.random.default_rng(3)
    groups, p = np.repeat(np.arange(24), 20), np.exp(rng.uniform(0, 5, 480))
    X = pd.DataFrame(rng.normal(size=(24, 40))[groups], columns=[f"noise{j}" for j in range(40)])
    y = p * np.exp(0.2 / np.sqrt(p) * rng.standard_normal(480))
    learnt = learn_difficulty(X, y, p, groups, "grouped")
    assert learnt is not None
    assert learnt.difficulty.names == ()
    assert learnt.summary()["features"] == ["predicted"]
    again = Difficulty.from_dict(json.loads(json.dumps(learnt.difficulty.to_dict())))
    short, long = again.scale(X[:2], [2.0, 128.0])
    assert 3 < short / long < 9  # the standard deviations are 8 times apart
    lower, upper = limits(X, y, p, groups)
    plain = cross_bounds(y, p, groups, make_folds("grouped", groups, len(y), 5), 0.9, "grouped")
    assert interval_score(y, lower, upper, 0.9).mean() < 0.8 * interval_score(y, *plain, 0.9).mean()


@pytest.mark.parametrize("seed", range(5))
def test_rows_of_one_difficulty_keep_one_radius(seed: int) -> None:
    X, y, p, groups = rows(0.0, seed)
    assert learn_difficulty(X, y, p, groups, "grouped") is None


def test_the_search_of_the_hosts_kernel_makes_no_row_difficult() -> None:
    X, y, p, groups = rows(0.5)
    searched = X.assign(**{"host_campaign=a": (X["log2.m"] > 4).astype(float)})
    learnt = learn_difficulty(X, y, p, groups, "grouped")
    assert learnt is not None
    again = learn_difficulty(searched, y, p, groups, "grouped")
    assert again is not None
    np.testing.assert_array_equal(again.scale, learnt.scale)
    np.testing.assert_array_equal(limits(searched, y, p, groups), limits(X, y, p, groups))


def test_few_groups_tell_nothing() -> None:
    X, y, p, groups = rows(0.5)
    assert learn_difficulty(X, y, p, groups % 9, "grouped") is None


@pytest.mark.parametrize("seed", [1, 5])
def test_features_that_lie_far_apart_tell_nothing_that_overflows(seed: int) -> None:
    rng = np.random.default_rng(seed)
    X = pd.DataFrame(rng.standard_t(1, (30, 5)), columns=[f"log2.{letter}" for letter in "abcde"])
    p = np.exp(rng.normal(size=30))
    y = p * np.exp(0.3 * rng.normal(size=30) * np.exp(2 * rng.standard_normal(30)))
    assert learn_difficulty(X, y, p, np.arange(30) % 10, "grouped") is None


def test_errors_of_rounding_tell_nothing() -> None:
    X, _, p, groups = rows(0.5)
    y = np.where(X["log2.m"] > 4, p, np.nextafter(p, np.inf))
    assert learn_difficulty(X, y, p, groups, "grouped") is None


def test_a_prediction_of_nothing_has_no_difficulty() -> None:
    X, y, p, groups = rows(0.5)
    p[3] = -1.0
    assert learn_difficulty(X, y, p, groups, "grouped") is None
    learnt = learn_difficulty(X[4:], y[4:], p[4:], groups[4:], "grouped")
    assert learnt is not None
    assert np.isfinite(learnt.difficulty.scale(X, p)).all()


def test_what_a_fold_measured_has_no_say_in_its_limits() -> None:
    X, y, p, groups = rows(0.5)
    folds = make_folds("grouped", groups, N, 5)
    before = held_out_limits(X, y, p, groups, folds, 0.9, "grouped")
    planted = np.where(folds == 2, 50 * y, y)
    after = held_out_limits(X, planted, p, groups, folds, 0.9, "grouped")
    for then, now in zip(before, after, strict=True):
        np.testing.assert_array_equal(then[folds == 2], now[folds == 2])
        assert (then[folds != 2] != now[folds != 2]).any()


def test_no_row_is_believed_to_be_more_difficult_than_those_seen() -> None:
    X, y, p, groups = rows(0.5)
    learnt = learn_difficulty(X, y, p, groups, "grouped")
    assert learnt is not None
    far = X.assign(**{"log2.m": 400.0})
    assert (learnt.difficulty.scale(far, p) == learnt.difficulty.high).all()
    assert learnt.scale.max() <= learnt.difficulty.high
    assert learnt.scale.min() >= learnt.difficulty.low


def test_json_holds_it_exactly() -> None:
    X, y, p, groups = rows(0.5)
    learnt = learn_difficulty(X, y, p, groups, "grouped")
    assert learnt is not None
    again = Difficulty.from_dict(json.loads(json.dumps(learnt.difficulty.to_dict())))
    np.testing.assert_array_equal(again.scale(X, p), learnt.difficulty.scale(X, p))


@pytest.mark.parametrize(
    "damage",
    [
        {"spread": [0.0] * 4},
        {"weights": [1.0]},
        {"low": 0.0},
        {"low": 9.0, "high": 1.0},
        {"power": float("nan")},
    ],
)
def test_damaged_figures_are_refused(damage: dict[str, object]) -> None:
    X, y, p, groups = rows(0.5)
    learnt = learn_difficulty(X, y, p, groups, "grouped")
    assert learnt is not None
    with pytest.raises(ValueError, match="difficulty"):
        Difficulty.from_dict({**learnt.difficulty.to_dict(), **damage})


def test_the_interval_score_is_width_and_what_is_missed() -> None:
    e = np.e
    found = interval_score(
        np.array([1.0, e**3, 1.0]), np.array([1 / e] * 3), np.array([e, e, np.nan]), 0.9
    )
    np.testing.assert_allclose(found, [2.0, 2.0 + 20 * 2.0, np.inf])


def test_a_group_beyond_the_range_does_not_widen_the_intervals_of_groups_within(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """Of 16 weight shapes the one of largest k is twice as slow: only predicted from smaller ones, so beyond them."""
    monkeypatch.setattr(competition, "FOLDS", ((0, 3),))
    rng = np.random.default_rng(0)
    m, shapes = (
        2.0 ** np.arange(4, 12),
        [(n, k) for n in (1024, 2048, 4096) for k in (512, 1024, 2048, 4096, 8192)],
    )
    rows = [(size, *shape) for shape in [*shapes, (2048, 65536)] for size in m]
    frame = pd.DataFrame(rows, columns=["m", "n", "k"]).assign(
        op="gemm", dtype_a="bf16", device="MI300X"
    )
    times = 3 + 2 * frame["m"] * frame["n"] * frame["k"] / 4e8 + frame["n"] * frame["k"] / 2e6
    slow = np.where(frame["k"] == 65536, 2.0, 1.0)
    run = flopcast.train(
        frame.assign(duration_us=times * slow * np.exp(0.02 * rng.standard_normal(len(frame)))),
        target="MI300X",
        models=["Additive"],
        jobs=1,
    )
    asked = pd.DataFrame(
        {"m": 256.0, "n": [3072.0, 2048.0], "k": [3072.0, 65536.0], "op": "gemm", "dtype_a": "bf16"}
    )
    found = run.predict(asked.assign(device="MI300X"))
    assert found["basis"].tolist() == ["new group", "known group"]
    assert np.log(found["upper_us"] / found["lower_us"])[0] < 0.25
    held = run.metrics["intervals"]["schemes"]["grouped"]
    assert held["coverage"] > 0.8
    assert not any("65536" in row["group"] for row in held["worst_groups"])


@pytest.mark.long
def test_a_saved_run_widens_the_intervals_of_difficult_rows(tmp_path: Path) -> None:
    draw = np.random.default_rng(0)
    shapes = pd.DataFrame(
        [(n, k) for n in range(1024, 9217, 2048) for k in range(1024, 6145, 2048)],
        columns=["n", "k"],
    )
    shapes = shapes.loc[shapes.index.repeat(10)].assign(m=2.0 ** np.tile(range(10), len(shapes)))
    host = 3 + 2 * shapes["m"] * shapes["n"] * shapes["k"] / 3e8
    noise = np.where(shapes["m"] < 32, 0.01, 0.2) * draw.standard_normal(len(shapes))
    kernels = shapes.assign(op="gemm", dtype_a="bf16")
    times = {"MI300X": host, "MI355X": (4 + 0.4 * host) * np.exp(noise)}
    frame = pd.concat(
        [kernels.assign(device=gpu, duration_us=us) for gpu, us in times.items()], ignore_index=True
    )
    run = flopcast.train(frame, host="MI300X", target="MI355X", models=["Additive"], jobs=1)
    run.save(tmp_path / "run")
    assert run.metrics["intervals"]["difficulty"]["power"] > 0
    assert len(run.metrics["intervals"]["schemes"]["grouped"]["worst_groups"]) == 5
    asked = frame[frame["device"] == "MI300X"]
    found = flopcast.load(tmp_path / "run").predict(asked)
    width = np.log(found["upper_us"] / found["lower_us"]).to_numpy()
    hard = (asked["m"] >= 32).to_numpy()
    assert np.median(width[hard]) > 4 * np.median(width[~hard])


def test_a_device_whose_rows_are_harder_has_wider_intervals() -> None:
    """No feature tells it: what is asked of one GPU is to be held by its own intervals, not by those of all."""
    random = np.random.default_rng(0)
    n = 3000
    X, devices = (
        pd.DataFrame({"log2.m": random.normal(size=n)}),
        np.where(np.arange(n) % 60 > 40, "hard", "easy"),
    )
    devices[:: n // 50] = "rare"
    p, groups = np.exp(random.normal(size=n)), np.arange(n) // 10
    y = p * np.exp(random.normal(size=n) * np.where(devices == "hard", 0.4, 0.1))
    folds = np.arange(n) % 5
    held = {}
    for named in (None, devices):
        lower, upper = held_out_limits(X, y, p, groups, folds, 0.9, "kfold", devices=named)
        held[named is None] = [
            ((lower <= y) & (y <= upper))[devices == one].mean() for one in ("easy", "hard")
        ]
    assert held[True][1] < 0.75
    assert min(held[False]) > 0.85
    learnt = learn_difficulty(X, y, p, groups, "kfold", devices=devices)
    assert learnt is not None
    assert [name for name in learnt.difficulty.names if name.startswith("on device=")] == [
        "on device=easy", "on device=hard",
    ]  # fmt: skip
    again = Difficulty.from_dict(json.loads(json.dumps(learnt.difficulty.to_dict())))
    easy, hard = again.scale(X[:2].iloc[[0, 0]], p[[0, 0]], np.array(["easy", "hard"]))
    assert hard > 2 * easy

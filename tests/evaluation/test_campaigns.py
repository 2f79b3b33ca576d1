"""Groups that come in campaigns: what counts groups counts campaigns, and a new campaign is a question of its own."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pandas as pd
import pytest

import flopcast as fc
from flopcast.benchmarks.calibration.verdicts import _STEPWISE, _Features
from flopcast.evaluation.campaigns import Campaigns
from flopcast.evaluation.checking import Outcome, assess, between_campaigns
from flopcast.evaluation.folds import PairedAndUnpaired, TrainingRows
from flopcast.evaluation.paired import paired_difference
from flopcast.evaluation.ranking import split_p_values
from flopcast.evaluation.selection import select
from flopcast.features.matrix import build_dataset

CAMPAIGNS, SHAPES, SIZES = 6, 4, 10  # of the made-up table: shapes in a campaign, sizes of a shape


def table(effect: float, seed: int = 0, campaigns: int = CAMPAIGNS, first: int = 0) -> pd.DataFrame:
    """Return products whose campaigns differ by ``effect`` (log), their shapes by 2 %, the rows by 3 %."""
    rng = np.random.default_rng(seed)
    parts = []
    for campaign in range(first, first + campaigns):
        slower = rng.normal(0, effect)
        for shape in range(SHAPES):
            n, k = 1024 + 256 * campaign, 2048 + 512 * shape
            m = 16 * 2 ** np.arange(SIZES)
            flops = 2.0 * m * n * k
            own = slower + rng.normal(0, 0.02)
            times = (3 + flops / 4e8) * np.exp(own + rng.normal(0, 0.03, SIZES))
            parts.append(
                pd.DataFrame(
                    {
                        "op": "gemm",
                        "m": m,
                        "n": n,
                        "k": k,
                        "dtype_a": "bf16",
                        "device": "MI300X",
                        "campaign": f"model {campaign}",
                        "duration_us": times,
                    }
                )
            )
    return pd.concat(parts, ignore_index=True)


@pytest.fixture(scope="module")
def run() -> fc.Run:
    return fc.train(table(0.2), target="MI300X", quick=True, jobs=1)


def test_a_group_is_of_the_campaign_that_most_of_its_rows_are_of() -> None:
    rows = pd.DataFrame({"campaign": ["a"] * 9 + ["b"] + ["b"] * 5, "source": "x.csv:1"})
    groups = ["1x1"] * 5 + ["2x2"] * 5 + ["3x3"] * 5
    campaigns = Campaigns.of_rows(rows, groups)
    assert campaigns is not None
    assert campaigns.of_groups == {"1x1": "a", "2x2": "a", "3x3": "b"}
    assert campaigns.labels(["3x3", "1x1", "9x9"]).tolist() == ["b", "a", ""]


def test_campaigns_that_measure_the_same_groups_again_are_no_families() -> None:
    rows = pd.DataFrame({"campaign": ["pass 1", "pass 2"] * 6})
    assert Campaigns.of_rows(rows, ["1x1"] * 4 + ["2x2"] * 4 + ["3x3"] * 4) is None


def test_where_the_campaign_is_empty_the_file_is_it() -> None:
    rows = pd.DataFrame({"source": ["a.csv:2", "a.csv:3", "b.csv:2", "b.csv:3"]})
    campaigns = Campaigns.of_rows(rows, ["1x1", "2x2", "3x3", "3x3"])
    assert campaigns is not None
    assert campaigns.names == ["a.csv", "b.csv"]


def test_campaigns_of_one_group_each_or_hardly_stated_say_nothing() -> None:
    apart = pd.DataFrame({"campaign": ["a", "b", "c"]})
    assert Campaigns.of_rows(apart, ["1x1", "2x2", "3x3"]) is None
    hardly = pd.DataFrame({"campaign": ["a", "b", "", "", "", None]})
    assert Campaigns.of_rows(hardly, ["1x1", "2x2", "3x3", "4x4", "5x5", "6x6"]) is None


@pytest.mark.parametrize(
    ("sizes", "enough"), [([4] * 5, True), ([4] * 4, False), ([20, 1, 1, 1, 1], False)]
)
def test_five_campaigns_are_enough_unless_one_has_nearly_all_groups(
    sizes: list[int], enough: bool
) -> None:
    of_groups = {}
    for campaign, size in enumerate(sizes):
        for group in range(size):
            of_groups[f"{campaign} {group}"] = str(campaign)
    assert Campaigns(of_groups).enough is enough


def test_a_fold_without_a_campaign_learns_from_none_of_its_rows() -> None:
    pairs = build_dataset(fc.read().frame, host=fc.gpu("MI300X"), target=fc.gpu("MI355X"))
    families = Campaigns.of_data(pairs)
    assert families is not None
    assert pairs.unpaired is not None
    _, origins = families
    fold_of_row = pd.factorize(origins.paired, sort=True)[0]
    own = pairs.unpaired.rows["campaign"].astype(str).to_numpy()
    rows = TrainingRows.of(pairs, {"campaign": fold_of_row}, frozenset(), None, origins)
    for fold in np.unique(fold_of_row):
        held_out = fold_of_row == fold
        name = origins.paired[held_out][0]
        kept = rows._unpaired_without("campaign", held_out)
        assert not (origins.unpaired[kept] == name).any()
        assert (own[kept] == name).sum() <= 1  # of a shape that another campaign has most rows of
        learnt = rows.without_fold("campaign", fold, None, uses_unpaired=True)
        assert len(learnt.y) == (~held_out).sum() + kept.sum()


def test_a_run_states_the_error_of_a_new_campaign_and_rows_of_one_get_its_interval(
    run: fc.Run, tmp_path: Path
) -> None:
    campaigns = run.metrics["campaigns"]
    stated = campaigns["new"]["selected"]
    of_groups = next(cv for cv in run.metrics["cv"] if cv["scheme"] == "grouped")["selected"]
    assert campaigns["resampled"] is True
    assert (run.metrics["data"]["campaigns"], of_groups["units"]) == (CAMPAIGNS, CAMPAIGNS)
    assert (stated["resampled"], stated["name"]) == ("campaigns", of_groups["name"])
    assert stated["e_out"] > of_groups["e_out"]
    asked = table(0.2).query("n == 1024").assign(k=2304)
    elsewhere = asked.assign(campaign="another model")
    run.save(tmp_path / "run")
    for model in (run.trained, fc.load(tmp_path / "run").trained):
        known, new = model.predict(asked, 0.9), model.predict(elsewhere, 0.9)
        assert set(known["basis"]) == {"new group"}
        assert set(new["basis"]) == {"new campaign"}
        width = np.log(new["upper"] / new["lower"]) / np.log(known["upper"] / known["lower"])
        assert (width > 1.2).all()


def test_intervals_of_new_campaigns_hold_their_rows(run: fc.Run) -> None:
    held = []
    for seed in range(1, 7):
        new = table(0.2, seed, campaigns=1, first=2).assign(
            k=lambda of: of["k"] + 128, campaign="x"
        )
        answers = run.trained.predict(new, 0.9)
        held.append(new["duration_us"].between(answers["lower"], answers["upper"]).mean())
    assert np.mean(held) >= 0.8


def test_too_few_campaigns_are_said_to_be_and_groups_are_counted() -> None:
    few = fc.train(table(0.2, campaigns=4), target="MI300X", quick=True, jobs=1)
    assert few.metrics["campaigns"]["resampled"] is False
    assert few.metrics["campaigns"]["new"]["selected"]["units"] == 4
    assert any(note.startswith("[few-campaigns]") for note in few.metrics["data"]["notes"])
    answers = few.trained.predict(table(0.2, campaigns=1, first=9), 0.9)
    assert "new campaign" not in set(answers["basis"])


def test_an_interrupted_training_goes_on_from_the_folds_of_campaigns_too(tmp_path: Path) -> None:
    rows, kept = table(0.2, campaigns=3), tmp_path / "fits"
    asked = {"target": "MI300X", "models": ["BoostedTrees/Residual"], "jobs": 1}
    first = fc.train(rows, fits=kept, **asked)
    assert b'"campaign"' in kept.read_bytes()
    again = fc.train(rows, fits=kept, resume=True, **asked)
    seconds = [
        [row["fit_seconds"] for row in run.metrics["campaigns"]["new"]["models"]]
        for run in (first, again)
    ]
    assert seconds[0] == seconds[1]


def scored(effect: float, seed: int, campaigns: int, name: str, shift: float = 0.0) -> pd.DataFrame:
    """Return rows as a check scores them; campaigns of four groups differ by ``effect``."""
    rng = np.random.default_rng(seed)
    campaign = np.repeat(np.arange(campaigns), 80)
    group = np.repeat(np.arange(4 * campaigns), 20)
    errors = rng.normal(0, effect, campaigns)[campaign] + rng.normal(0, 0.02, 4 * campaigns)[group]
    errors = errors + shift + rng.normal(0, 0.03, len(group))
    frame = pd.DataFrame({"predicted": 10.0, "observed": 10 * np.exp(errors)})
    frame["group"] = [f"{name} {number}" for number in group]
    frame["campaign"] = [f"{name} {number}" for number in campaign]
    return frame.assign(lower=4.0, upper=25.0, within=True, **{"class": "all"})


def test_one_campaign_that_is_off_by_what_campaigns_differ_by_is_no_alarm() -> None:
    outcomes, blind = [], []
    for seed in range(6):
        before = scored(0.1, seed, 6, "old")
        new = scored(0.0, 100 + seed, 1, "new", shift=0.1)
        outcomes.append(assess(new, {"grouped": before}, seed=seed).outcome)
        without = {"grouped": before.drop(columns="campaign")}
        blind.append(assess(new, without, seed=seed).outcome)
    assert outcomes.count(Outcome.UNDECIDED) >= 5
    assert Outcome.SHIFTED in blind


def test_campaigns_that_do_not_differ_leave_a_shift_as_sure_as_it_was() -> None:
    before, new = scored(0.0, 0, 6, "old"), scored(0.0, 1, 2, "new", shift=0.1)
    found = assess(new, {"grouped": before})
    assert found.outcome == Outcome.SHIFTED
    assert (found.campaigns, found.trained_campaigns) == (2, 6)


def test_what_a_campaign_adds_is_the_variance_that_it_was_drawn_with() -> None:
    rng = np.random.default_rng(0)
    campaign, group = np.repeat(np.arange(200), 40), np.repeat(np.arange(800), 10)
    noise = rng.normal(0, 0.03, 800)[group] + rng.normal(0, 0.05, 8000)
    values = rng.normal(0, 0.1, 200)[campaign] + noise
    added = between_campaigns(np.mean, values, group.astype(str), campaign.astype(str))
    assert added == pytest.approx(0.1**2, rel=0.15)
    none = between_campaigns(np.mean, noise, group.astype(str), campaign.astype(str))
    assert none < 0.02**2


def test_a_choice_over_campaigns_has_the_interval_of_as_many_units() -> None:
    rng = np.random.default_rng(3)
    campaign, group = np.repeat(np.arange(6), 80), np.repeat(np.arange(24), 20)
    errors = np.exp(rng.normal(0, 0.15, 6)[campaign] + rng.normal(0, 0.02, len(group)))
    predictions = pd.DataFrame({"one": errors})
    reach = []
    for campaigns in (None, campaign):
        found = select(
            np.ones(len(group)), predictions, group, scheme="grouped", campaigns=campaigns
        )
        reach.append(np.log(found["interval"][1] / found["interval"][0]))
    assert found["units"] == 6
    assert reach[1] > 1.5 * reach[0]


def test_two_models_are_compared_by_campaigns() -> None:
    campaign, group = np.repeat(np.arange(5), 40), np.repeat(np.arange(20), 10)
    first = np.full(200, 5.0)
    second = first + np.array([2.0, -1.5, 1.0, 2.5, -1.0])[campaign]
    by_groups = paired_difference(first, second, group)
    by_campaigns = paired_difference(first, second, group, campaigns=campaign)
    assert (by_campaigns.groups, by_campaigns.campaigns) == (20, 5)
    assert by_groups.p_value is not None
    assert by_campaigns.p_value is not None
    assert by_campaigns.p_value > by_groups.p_value


def test_p_values_of_features_count_campaigns() -> None:
    rng = np.random.default_rng(0)
    campaign, group = np.repeat(np.arange(10), 48), np.repeat(np.arange(40), 12)
    host = np.exp(rng.normal(4, 1, len(group)))
    X = pd.DataFrame({"host_us": host, "noise": rng.uniform(1, 2, 10)[campaign]})
    y = (2 + 0.6 * host) * np.exp(rng.normal(0, 0.05, 10)[campaign])
    rows = pd.DataFrame({"campaign": campaign.astype(str)})
    values = split_p_values(_Features(X, y, group.astype(str), rows), _STEPWISE, "grouped", 0)
    assert values["host_us"] < 0.05
    few = _Features(X[:240], y[:240], group[:240].astype(str), rows[:240])
    assert split_p_values(few, _STEPWISE, "grouped", 0) == {}


def test_campaigns_of_unpaired_rows_are_told_with_those_of_pairs() -> None:
    pairs = build_dataset(fc.read().frame, host=fc.gpu("MI300X"), target=fc.gpu("MI355X"))
    families = Campaigns.of_data(pairs)
    assert families is not None
    campaigns, origins = families
    assert isinstance(origins, PairedAndUnpaired)
    assert len(origins.unpaired) == len(pairs.unpaired or ())
    assert set(campaigns.of_groups) == set(pairs.groups)

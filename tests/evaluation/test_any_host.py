"""One run from any GPU to any other: rows paired, hosts left out with their devices, new GPUs told by others' times.

Problems have luck of their own, which all devices share: who knows what the host took errs far less.
"""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pandas as pd
import pytest

import flopcast as fc
from flopcast.errors import DataError, FlopcastError, ParameterError
from flopcast.evaluation import ranking
from flopcast.evaluation.competition import compete, with_rule
from flopcast.evaluation.final_model import fit_final
from flopcast.evaluation.folds import repeats_of
from flopcast.features.matrix import Dataset, KnownGroups, build_dataset
from flopcast.hardware import Comparison, find
from flopcast.models.base import Candidate
from flopcast.table.problems import one_per_problem, pair_each, problem_ids
from flopcast.tests.commands.running import call
from flopcast.tests.evaluation.test_many_devices import roofline_us
from flopcast.tests.report.pages import printed
from flopcast.tests.table.test_epoch_pairs import epochs

MODEL = "BoostedTrees/Residual"
TRAINED = ("MI300X", "MI325X", "MI350X", "MI355X", "H100 SXM5", "H200 SXM", "L40S")


def measured(*devices: str, rows: int = 40, seed: int = 0) -> pd.DataFrame:
    """Return the same products on each device: a multiple of its roofline, times their luck, with noise."""
    random = np.random.default_rng(seed)
    m, n, k = (2.0 ** random.integers(low, 14, rows) for low in (4, 8, 8))
    luck, found = random.normal(0, 0.4, rows), []
    for device in devices:
        own = np.random.default_rng(sum(map(ord, device))).normal(1.2, 0.05)
        time = (3 + roofline_us(device, m, n, k)) * np.exp(
            own + luck + random.normal(0, 0.02, rows)
        )
        sizes = {"m": m, "n": n, "k": k, "duration_us": time}
        found.append(
            pd.DataFrame({"op": "gemm", "dtype_a": "bf16", "device": find(device).name, **sizes})
        )
    return pd.concat(found, ignore_index=True)


@pytest.fixture(scope="module")
def run() -> fc.Run:
    return fc.train(
        measured(*TRAINED), host="all", target="all", group="device", models=MODEL, jobs=1
    )


@pytest.fixture(scope="module")
def saved(run: fc.Run, tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("any_host") / "run"
    run.save(folder)
    return folder


def test_each_row_is_paired_with_another_device_that_measured_its_problem() -> None:
    table = one_per_problem(fc.read(measured(*TRAINED)).frame)[0]
    found = pair_each(table, None)
    assert len(found.paired) == len(table)
    assert (found.paired["host_device"] != found.paired["device"]).all()
    times = table.assign(problem=problem_ids(table, device=False)).set_index(["problem", "device"])[
        "duration_us"
    ]
    mates = zip(problem_ids(found.paired, device=False), found.paired["host_device"], strict=True)
    assert found.paired["host_duration_us"].tolist() == times.loc[list(mates)].tolist()
    every = found.paired.groupby(["host_device", "device"]).size()
    assert len(every) == len(TRAINED) * (len(TRAINED) - 1)
    pd.testing.assert_frame_equal(pair_each(table, None).paired, found.paired)


def test_pairs_are_of_one_host_where_that_is_asked() -> None:
    table = one_per_problem(fc.read(measured(*TRAINED)).frame)[0]
    one = pair_each(table, {"L40S"})
    assert set(one.paired["host_device"]) == {"L40S"}
    assert "L40S" not in set(one.paired["device"])
    lone = table[table["device"].ne("L40S") | table["m"].lt(100)].reset_index(drop=True)
    found = pair_each(lone, {"L40S"})
    assert set(found.target_only["m"]) >= set(table.query("m > 100")["m"])
    assert len(found.paired) + len(found.target_only) == lone["device"].ne("L40S").sum()
    with pytest.raises(DataError, match="two devices"):
        pair_each(table[table["device"].eq("L40S")].reset_index(drop=True), None)


def test_features_and_laws_are_those_of_the_two_devices_of_each_row() -> None:
    table = fc.read(measured("MI300X", "H100 SXM5", "L40S", rows=12)).frame
    whole = build_dataset(table, host=Comparison.MANY, target=Comparison.MANY)
    for host, target in (("MI300X", "L40S"), ("L40S", "H100 SXM5")):
        here = (whole.rows["host_device"].eq(host) & whole.rows["device"].eq(target)).to_numpy()
        alone = build_dataset(table, host=find(host), target=find(target))
        own = alone.recipe.transform(whole.rows[here].drop(columns="host_device"))
        common = [name for name in own if name in whole.X]
        assert {"host_us", "log2.slowdown.host", "law.roofline_us", "compute.target_us"} <= set(
            common
        )
        pd.testing.assert_frame_equal(whole.X[here].reset_index(drop=True)[common], own[common])
        times = alone.rows.set_index("source")["duration_us"]
        laws = alone.laws.set_axis(times.index)
        pd.testing.assert_frame_equal(
            whole.laws[here].reset_index(drop=True),
            laws.loc[whole.rows["source"][here]].reset_index(drop=True),
        )
    assert whole.reference.tolist() == whole.laws["roofline scaling"].tolist()


def test_who_leaves_a_device_out_leaves_it_out_as_a_host_too() -> None:
    table = fc.read(measured(*TRAINED)).frame
    by_device = build_dataset(table, host=Comparison.MANY, target=Comparison.MANY, group=["device"])
    assert by_device.host_groups is not None
    assert by_device.host_groups.tolist() == ("device " + by_device.rows["host_device"]).tolist()
    by_weights = build_dataset(table, host=Comparison.MANY, target=Comparison.MANY)
    assert by_weights.host_groups is not None
    # with a problem go all its pairs
    assert by_weights.host_groups.tolist() == by_weights.groups.tolist()
    both = build_dataset(table, host=Comparison.MANY, target=Comparison.MANY, group=["device", "k"])
    assert both.host_groups is not None
    there = zip(both.rows["host_device"], both.rows["k"], strict=True)
    assert both.host_groups.tolist() == [f"device {name} k {k:.0f}" for name, k in there]
    spoilt = table["device"].eq("L40S") & table["m"].ge(64)
    odd = table.assign(duration_us=table["duration_us"].where(~spoilt, table["duration_us"] * 7))
    other = build_dataset(odd, host=Comparison.MANY, target=Comparison.MANY, group=["device"])
    predicted = [
        compete(one, models=["OLS"]).evaluation["grouped"].predictions["OLS"]
        for one in (by_device, other)
    ]
    asked = by_device.rows["device"].eq("L40S") & by_device.rows["m"].lt(64)
    np.testing.assert_allclose(predicted[0][asked], predicted[1][asked])
    kept = by_device.rows["device"].ne("L40S")
    assert not np.allclose(predicted[0][kept], predicted[1][kept])


def test_what_features_contribute_is_asked_of_devices_that_were_no_hosts_either(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    dataset = build_dataset(
        fc.read(measured(*TRAINED)).frame,
        host=Comparison.MANY,
        target=Comparison.MANY,
        group=["device"],
    )
    competition, learnt = compete(dataset, models=["Additive"]), []
    fit_all = ranking.fit_all

    def noted(
        data: Dataset, model: Candidate, scheme: str, rows: np.ndarray, unpaired: object
    ) -> object:
        learnt.append(rows)
        return fit_all(data, model, scheme, rows, unpaired)

    monkeypatch.setattr(ranking, "fit_all", noted)
    best = competition.best_model("grouped")
    ranking.held_out_importance(with_rule(dataset, best), best, "grouped", 0)
    for rows in learnt:
        out = set(dataset.rows["device"]) - set(dataset.rows["device"][rows])
        assert out
        assert not out & set(dataset.rows["host_device"][rows])


def test_epochs_that_do_other_work_are_no_pairs_of_any_devices() -> None:
    """They are paired by their numbers, which say nothing of what ran."""
    devices = {"MI300X": 100.0, "MI355X": 100.0, "L40S": 300.0}
    parts = [epochs(device, [work] * 30) for device, work in devices.items()]
    table = one_per_problem(fc.read(pd.concat(parts)).frame)[0]
    found = pair_each(table, None)
    assert found.report["target_only"] > 0
    assert not {"L40S"} & ({*found.paired["device"]} | {*found.paired["host_device"]})
    assert [note.code for note in found.report["remarks"]] == [
        "unlike-epochs",
        "devices-without-pairs",
    ]
    with pytest.raises(DataError, match="cut both runs at the same places"):
        pair_each(table[table["device"].ne("MI355X")].reset_index(drop=True), None)


def test_all_pairs_of_a_problem_are_in_one_shuffled_fold(run: fc.Run) -> None:
    found = repeats_of(run.dataset)
    assert found is not None
    own = run.predictions.query("scheme == 'kfold' and model == @MODEL")
    assert own.groupby(found[0][own["row"]])["fold"].nunique().eq(1).all()
    grouped = run.predictions.query("scheme == 'grouped' and model == @MODEL")
    assert grouped.groupby("group", observed=True)["fold"].nunique().eq(1).all()


def test_what_a_host_took_tells_of_a_gpu_that_nobody_measured(run: fc.Run) -> None:
    """The luck of each problem is in the host's time: shapes alone cannot know it."""
    new = measured("H100 SXM5", "B200", rows=60, seed=5)
    host, there = (
        new[new["device"].eq("H100 SXM5")],
        new[new["device"].ne("H100 SXM5")]["duration_us"].to_numpy(),
    )
    found = run.predict(host, target="B200")
    errors = np.abs(found["predicted_us"].to_numpy() / there - 1)
    shapes = fc.train(measured(*TRAINED), target="all", group="device", models=MODEL, jobs=1)
    alone = shapes.predict(host.assign(device="B200"))["predicted_us"].to_numpy()
    assert errors.mean() < 0.7 * np.abs(alone / there - 1).mean()
    assert found["target"].eq("B200 (HGX)").all()
    assert found["device"].eq("H100 SXM5").all()
    assert found["basis"].isin(["new device", "blend", "rule"]).all()
    inside = (found["lower_us"].to_numpy() <= there) & (there <= found["upper_us"].to_numpy())
    assert inside.mean() > 0.7


def test_a_saved_run_predicts_the_same_and_says_what_each_pair_erred_by(
    run: fc.Run, saved: Path
) -> None:
    rows = measured("MI300X", "L40S", rows=15, seed=3)
    for target in ("MI355X", "B300"):
        pd.testing.assert_frame_equal(
            fc.load(saved).predict(rows, target=target), run.predict(rows, target=target)
        )
    pairs = pd.DataFrame(run.metrics["pairs"])
    assert pairs["n"].sum() == len(run.dataset)
    grouped = run.predictions.query("scheme == 'grouped' and model == @MODEL")
    named = run.dataset.rows.loc[grouped["row"], ["host_device", "device"]].to_numpy()
    errors = grouped["ape"].groupby([named[:, 0], named[:, 1]]).mean()
    worst = pairs.iloc[0]
    assert worst["e_out"] == pytest.approx(errors.max())
    assert errors.loc[(worst["host"], worst["target"])] == pytest.approx(worst["e_out"])
    told = printed(fc.show(saved, every=True).document())
    assert "every GPU → every other" in told
    assert worst["target"] in told


def test_a_run_from_one_host_to_all_takes_its_rows_alone() -> None:
    table = measured(*TRAINED)
    found = fc.train(table, host="H100", target="all", group="device", models="Additive", jobs=1)
    assert set(found.dataset.rows["host_device"]) == {"H100 SXM5"}
    assert "H100 SXM5" not in set(found.dataset.rows["device"])
    assert found.dataset.host_groups is None  # it is known, whatever is left out
    assert [cv["scheme"] for cv in found.metrics["cv"]] == ["kfold", "grouped"]
    rows = measured("H100 SXM5", "L40S", rows=8, seed=2)
    answers = fc.predict(found, rows, target="MI355X")
    assert (len(answers.frame), answers.summary["other_devices"]) == (8, {"L40S": 8})
    listed = fc.train(
        table, host="all", target=["MI300X", "L40S", "H200"], models="Additive", jobs=1
    )
    assert set(listed.dataset.rows["host_device"]) == {"MI300X", "L40S", "H200 SXM"}


def test_rows_that_nothing_can_be_promised_of_say_why(run: fc.Run) -> None:
    foreign = run.predict(measured("MI300X", rows=3), target="Arc Pro B60")
    assert foreign["lower_us"].isna().all()
    assert foreign["reason"].str.contains("no device of this maker").all()
    host = run.predict(measured("B300", rows=3), target="MI300X")
    assert host["predicted_us"].notna().all()
    assert host["lower_us"].isna().all()
    assert host["reason"].str.contains("was no host in training").all()
    assert set(host["basis"]) <= {"new host", "blend", "rule"}
    itself = run.predict(measured("L40S", "MI300X", rows=3), target="L40S")
    assert itself["predicted_us"].isna().tolist() == [True] * 3 + [False] * 3
    assert "measured on L40S itself" in itself["reason"].iloc[0]
    unknown = run.predict(
        measured("L40S", rows=2).assign(device=["Foo 9", "L40S"]), target="MI300X"
    )
    assert (
        "'Foo 9' is known: what measured a row must be one of the catalogue"
        in unknown["reason"].iloc[0]
    )
    with pytest.raises(DataError, match="no device"):
        run.predict(measured("L40S", rows=2).drop(columns="device"), target="MI300X")


def test_a_gpu_of_ones_own_is_predicted_from_what_others_took(run: fc.Run, tmp_path: Path) -> None:
    own = tmp_path / "own.toml"
    own.write_text('name = "B300"\nbased_on = "B300"\nmemory_bw_gbs = 16000\n', encoding="utf-8")
    rows = measured("H200 SXM", rows=20, seed=4)
    mine, base = (fc.predict(run, rows, target=one).frame for one in (own, "B300"))
    assert mine["target"].eq(str(own)).all()
    assert mine["predicted_us"].median() < base["predicted_us"].median()
    why = run.explain(rows, row=2, target=own)
    assert why.found.answer["predicted"] == pytest.approx(mine["predicted_us"].iloc[1])
    assert why.found.answer["host"] == pytest.approx(mine["duration_us"].iloc[1])
    like = tmp_path / "like.toml"
    like.write_text('based_on = "B300"\n', encoding="utf-8")
    same = fc.predict(run, rows, target=like).frame
    assert same["predicted_us"].tolist() == base["predicted_us"].tolist()


def test_a_run_from_any_gpu_is_held_against_new_measurements(run: fc.Run) -> None:
    new = measured("MI300X", "B200", rows=60, seed=6)
    found = fc.check(run, new, target="B200", group=["n", "k"])
    rows = len(found.rows) + found.facts.trained_rows
    assert rows == one_per_problem(fc.read(new).frame)[0]["device"].eq("B200 (HGX)").sum()
    assert found.found.score.e_out < 40
    every = fc.check(run, new, group=["n", "k"])
    # the B200 was no host in training: nobody is asked of its rows
    assert len(every.rows) == len(found.rows)
    with pytest.raises(DataError, match=r"no row was measured on H200 SXM: the data have"):
        fc.check(run, new, target="H200")
    with pytest.raises(DataError, match="would still say so"):
        found.correct(Path("nowhere"))


def test_rows_that_were_promised_no_interval_count_for_no_coverage(run: fc.Run) -> None:
    """A GPU of another maker has none: that it is off by a factor is no reason to say that intervals failed."""
    new = measured("MI300X", "Arc Pro B60", rows=60, seed=7)
    found = fc.check(run, new, target="Arc Pro B60")
    assert found.found.without_interval == len(found.rows)
    assert (found.found.score.coverage, found.found.coverage) == (None, None)
    assert found.table["coverage"].isna().all()
    assert "nothing was promised" in " ".join(printed(found.document()).split())
    both = fc.check(run, pd.concat([new, measured("B200", rows=60, seed=7)]))
    assert 0 < both.found.without_interval < len(both.rows)
    assert both.found.score.coverage is not None
    assert both.found.score.coverage > 0.5


def test_one_target_of_many_is_checked_by_the_groups_of_its_operator(run: fc.Run) -> None:
    """All its rows are one group of the training: of one group nothing can be told."""
    new = measured("MI300X", "B200", rows=80, seed=8)
    found = fc.check(run, new, target="B200", host="MI300X")
    assert found.found.groups > 10
    assert found.verdict != "too few data"
    told = printed(found.document())
    assert "in place of" not in told
    assert "--corrected" not in told
    # its very rows are known, however they are grouped
    again = fc.check(run, measured(*TRAINED), target="L40S")
    assert again.facts.all_trained


def test_a_hub_that_all_pairs_need_is_named() -> None:
    table = measured(*TRAINED, rows=60)
    others = [name for name in TRAINED if name != "H100 SXM5"]
    own = pd.Series(np.arange(len(table)) % 60 % len(others)).map(dict(enumerate(others)))
    star = table[table["device"].eq("H100 SXM5") | table["device"].eq(own)]
    found = fc.train(star, host="all", target="all", group="device", models="Additive", jobs=1)
    assert [cv["scheme"] for cv in found.metrics["cv"]] == ["kfold"]
    assert any(
        "without device H100 SXM5 hardly a pair is left" in note
        for note in found.metrics["data"]["notes"]
    )


def test_what_has_no_partner_is_counted_and_named() -> None:
    alone = measured("B200", rows=5, seed=11)
    alone["m"] += 3  # problems of its own
    found = fc.train(
        pd.concat([measured("MI300X", "L40S"), alone]),
        host="all",
        target="all",
        models="OLS",
        jobs=1,
    )
    assert 0 < found.metrics["data"]["unpaired_target"] <= 5
    assert any(
        "devices-without-pairs" in note and "B200" in note
        for note in found.metrics["data"]["notes"]
    )
    assert set(found.predictions["target"]) == {"MI300X", "L40S"}
    assert (found.predictions["host"].astype(str) != found.predictions["target"].astype(str)).all()
    old = measured("MI300X").assign(device="V100 SXM2")  # whose peak in bf16 is not published
    with pytest.raises(DataError, match="no row of V100 SXM2 is left: its peak"):
        fc.train(
            pd.concat([measured("MI300X", "L40S"), old]),
            host="V100 SXM2",
            target="all",
            models="OLS",
            jobs=1,
        )


def test_the_law_makes_up_no_time_that_was_measured(run: fc.Run) -> None:
    rows = measured("L40S", "MI300X", rows=4, seed=3)
    found = run.predict(rows, target="L40S", fallback="law")
    assert found["predicted_us"].isna().tolist() == [True] * 4 + [False] * 4


def test_what_needs_one_target_says_so(run: fc.Run) -> None:
    rows = measured("MI300X", rows=5)
    with pytest.raises(ParameterError, match="for one target"):
        fc.advise(run, rows, rows=2)
    assert not fc.needed(run, 0.001, rows, target="L40S").ways
    with pytest.raises(ParameterError, match="target is missing"):
        fc.needed(run, 0.001, rows)
    with pytest.raises(ParameterError, match="target is missing"):
        run.predict(rows)
    shapes = fc.train(measured("MI300X", "L40S", rows=30), target="all", models="Additive", jobs=1)
    asked = shapes.predict(rows, target="L40S")
    named = shapes.predict(rows.assign(device="L40S"))
    assert asked["predicted_us"].tolist() == named["predicted_us"].tolist()
    pair = fc.train(
        measured("MI300X", "L40S"), host="MI300X", target="L40S", models="Additive", jobs=1
    )
    with pytest.raises(ParameterError, match="must be L40S, which this run is for"):
        pair.predict(rows, target="B200")
    pd.testing.assert_frame_equal(pair.predict(rows, target="L40S"), pair.predict(rows))
    for wrong in (
        {"host": "all", "target": "L40S"},
        {"host": "L40S", "target": ["MI300X", "H100"]},
        {"target": []},
    ):
        with pytest.raises(ParameterError, match=r"host|empty"):
            fc.train(measured("MI300X", "L40S"), **wrong)
    for both in (("all", "MI300X"), ("MI300X", "all")):
        with pytest.raises(FlopcastError, match="unknown GPU 'all'"):
            fc.validate(measured("MI300X", "L40S"), host=both[0], target=both[1])


def test_hosts_are_kept_with_the_groups() -> None:
    known = KnownGroups(("device",), {"a": 3}, frozenset({"MI300X", "L40S"}), frozenset({"MI300X"}))
    assert KnownGroups.from_dict(known.to_dict()) == known
    rows = pd.DataFrame(
        {"device": ["MI300X", "B300", "L40S"], "host_device": ["L40S", "MI300X", "MI300X"]}
    )
    assert known.nearness(rows).tolist() == ["other host", "stranger", ""]


@pytest.mark.parametrize("group", ["device", "device_family"])
def test_strangers_are_calibrated_on_pairs_of_two_families(group: str) -> None:
    """From a sibling a family that is left out would be told by a host that was left out with it."""
    dataset = build_dataset(
        fc.read(measured(*TRAINED)).frame,
        host=Comparison.MANY,
        target=Comparison.MANY,
        group=[group],
    )
    held = fit_final(dataset, compete(dataset, models=["Additive"]), rank=False)[0].coverage(
        "grouped"
    )["schemes"]
    family = {name: find(name).family for name in TRAINED}
    apart = dataset.rows["host_device"].map(family) != dataset.rows["device"].map(family)
    assert held["stranger"]["rows"] == apart.sum() < len(dataset)
    if group == "device":
        assert held["sibling"]["rows"] == len(dataset) - dataset.rows["device"].eq("L40S").sum()


def test_the_commands_take_any_host(saved: Path, tmp_path: Path) -> None:
    table, new, out, own = (tmp_path / name for name in ("table.csv", "new.csv", "out.csv", "own"))
    measured("MI300X", "MI355X", "L40S").to_csv(table, index=False)
    measured("MI300X", rows=4, seed=9).to_csv(new, index=False)
    told = call(
        "train",
        table,
        "--host",
        "all",
        "--target",
        "all",
        "--models",
        "Additive",
        "--jobs",
        1,
        "--out",
        own,
    )
    assert "--target GPU" in told.stdout
    told = call("predict", saved, new, "--target", "B300", "--out", out)
    assert "every GPU → B300" in told.stdout
    assert pd.read_csv(out)["predicted_us"].gt(0).all()
    assert call("explain", saved, new, "--target", "B300", "--row", 2).exit_code == 0
    assert "missing" in call("predict", saved, new).stderr
    assert call("check", saved, table, "--target", "MI355X").exit_code == 0

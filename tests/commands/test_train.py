"""Training end to end, on measurements made up from a known law."""

from __future__ import annotations

import hashlib
import json
import re
import shlex
import shutil
from collections.abc import Callable, Sequence
from contextlib import AbstractContextManager
from pathlib import Path

import numpy as np
import pandas as pd
import pytest

import flopcast as fc
from flopcast.api import training as job
from flopcast.api.predicting import predict as predict_rows
from flopcast.api.provenance import data_hash
from flopcast.errors import DataError, FlopcastError
from flopcast.evaluation import competition
from flopcast.evaluation.competition import columnar, fit_all
from flopcast.evaluation.crossval import Course, Outcome, cross_validate
from flopcast.evaluation.domain import TrainedRange
from flopcast.evaluation.extrapolation import fixed_widening
from flopcast.evaluation.intervals import ConformalIntervals
from flopcast.evaluation.observers.resume import KeptFits
from flopcast.features.matrix import build_dataset
from flopcast.features.recipe import FeatureRecipe
from flopcast.hardware import find
from flopcast.models import artifact
from flopcast.models import suite as suites
from flopcast.models.suite import suite
from flopcast.readers import read
from flopcast.report import training as report
from flopcast.report.run_folder import read_metrics
from flopcast.tests.commands.running import call

QUICK = ["Additive", "NNLS", "OLS/Forward/BIC"]
HOST, TARGET = find("MI300X"), find("MI355X")


def law(m: np.ndarray, n: np.ndarray, k: np.ndarray, device: str) -> np.ndarray:
    """Return overhead + work / rate in microseconds, at 60 % of the peak and 70 % of the bandwidth."""
    gpu = find(device)
    compute = 2 * m * n * k / (0.6 * gpu.peak_tflops("bf16") * 1e6)
    memory = 2 * (m * k + n * k + m * n) / (0.7 * gpu.require("memory_bw_gbs") * 1e3)
    return {"MI300X": 6.0, "MI355X": 4.0}[device] + compute + memory


def measurements(path: Path, seed: int = 0, unpaired: int = 0) -> Path:
    """Write GEMMs of 12 weight shapes measured on both devices with 3 % noise, some of them on the target only."""
    rng = np.random.default_rng(seed)
    weights = [(n, k) for n in (1024, 2048, 4096, 8192) for k in (1024, 2048, 4096)]
    rows = []
    for i, (n, k) in enumerate(weights):
        for j, m in enumerate((16, 64, 256, 512, 1024, 2048, 4096)):
            for device in ("MI300X", "MI355X"):
                if device == "MI300X" and (i + j) % 12 < unpaired:
                    continue
                time = law(*map(np.float64, (m, n, k)), device) * np.exp(0.03 * rng.normal())
                rows.append(
                    {
                        "device": device,
                        "op": "gemm",
                        "dtype_a": "bf16",
                        "m": m,
                        "n": n,
                        "k": k,
                        "t_us": time,
                    }
                )
    pd.DataFrame(rows).to_csv(path, index=False)
    return path


@pytest.fixture(scope="module")
def data(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return measurements(tmp_path_factory.mktemp("data") / "gemm.csv")


Told = list[tuple[int, int, str, float]]


@pytest.fixture(scope="module")
def told() -> Told:
    """Progress of `run`."""
    return []


@pytest.fixture(scope="module")
def run(data: Path, told: Told, all_folds: Callable[[], AbstractContextManager[None]]) -> fc.Run:
    options = {"models": QUICK, "jobs": 1, "progress": lambda *call: told.append(call)}
    with all_folds():
        return job.train([data], host="MI300X", target="MI355X", **options)


@pytest.fixture(scope="module")
def saved(run: fc.Run, tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("saved") / "run"
    run.save(folder)
    return folder


def test_pairs_groups_baselines_and_models_are_counted(run: fc.Run) -> None:
    described = run.metrics["data"]
    assert run.metrics["intervals"]["outside"] is None
    assert (described["n"], described["groups"]) == (84, 12)
    assert (described["host"], described["target"], described["metric"]) == (
        "MI300X",
        "MI355X",
        "duration_us",
    )
    for cv, scheme in zip(run.metrics["cv"], ("kfold", "grouped"), strict=True):
        assert cv["scheme"] == scheme
        names = [row["name"] for row in cv["baselines"]]
        assert names == [
            "FLOPS scaling",
            "bandwidth scaling",
            "roofline scaling",
            "tiles scaling",
            "constant ratio",
            "affine",
        ]
        assert [row["name"] for row in cv["models"]] == QUICK
        assert all(row["error"] is None for row in cv["models"])


def test_the_law_of_the_baseline_is_scored_by_hand(run: fc.Run) -> None:
    rows, ratio = run.dataset.rows, HOST.peak_tflops("bf16") / TARGET.peak_tflops("bf16")
    expected = 100 * np.mean(
        np.abs(rows["host_duration_us"] * ratio - run.dataset.y) / run.dataset.y
    )
    for cv in run.metrics["cv"]:
        assert cv["baselines"][0]["e_out"] == pytest.approx(expected)


def test_the_selected_model_comes_close_to_the_noise(run: fc.Run) -> None:
    for cv in run.metrics["cv"]:
        assert cv["selected"]["e_out"] < 6
        assert cv["selected"]["e_out"] >= 0.8 * min(row["e_out"] for row in cv["models"])


def test_out_of_fold_predictions_hold_every_row_scheme_and_model(run: fc.Run) -> None:
    table = run.predictions
    assert len(table) == 84 * 2 * (6 + len(QUICK))
    one = table[(table["scheme"] == "grouped") & (table["model"] == "Additive")]
    assert one.groupby("group", observed=True)["fold"].nunique().eq(1).all()
    error = next(
        row["e_out"] for row in run.metrics["cv"][1]["models"] if row["name"] == "Additive"
    )
    assert one["ape"].mean() == pytest.approx(error)
    law = table[(table["scheme"] == "grouped") & (table["model"] == "FLOPS scaling")]
    assert law["predicted"].to_numpy() == pytest.approx(
        run.dataset.laws["FLOPS scaling"].to_numpy()
    )


def test_the_run_folder_is_whole_and_its_model_says_how_to_predict(
    run: fc.Run, saved: Path
) -> None:
    assert sorted(item.name for item in saved.iterdir()) == [
        "manifest.json", "metrics.json", "model", "predictions.parquet", "report.html",
    ]  # fmt: skip
    assert read_metrics(saved)["data"]["sha256"] == data_hash(run.dataset)
    loaded = artifact.load(saved / "model")
    recipe = FeatureRecipe.from_dict(loaded.manifest["recipe"])
    X = recipe.transform(run.dataset.rows)
    pd.testing.assert_frame_equal(X, run.dataset.X)
    assert loaded.predict(X) == pytest.approx(run.model.estimator.predict(run.dataset.X))
    assert loaded.manifest["selected"] == run.metrics["model"]["name"]
    assert loaded.manifest["baselines"]["reference"] == "host"
    ConformalIntervals.from_dict(loaded.manifest["intervals"])
    assert not TrainedRange.from_dict(loaded.manifest["domain"]).check(X).extrapolated.any()
    assert "FLOPS scaling" in (saved / "report.html").read_text(encoding="utf-8")


def _far(run: fc.Run, factor: float) -> tuple[pd.DataFrame, np.ndarray, np.ndarray]:
    """Return features, truth and predictions of problems with ``factor`` times the largest trained m, and work."""
    shapes = pd.DataFrame({"n": [2048.0, 8192.0, 8192.0], "k": [2048.0, 1024.0, 4096.0]})
    shapes["m"] = 4096.0 * factor
    sides = (shapes["m"].to_numpy(), shapes["n"].to_numpy(), shapes["k"].to_numpy())
    rows = shapes.assign(
        op="gemm", dtype_a="bf16", device="MI300X", duration_us=law(*sides, "MI300X")
    )
    X = run.dataset.recipe.transform(rows)
    return X, law(*sides, "MI355X"), run.model.estimator.predict(X)


def test_ten_times_the_trained_work_is_predicted_and_its_interval_widens(run: fc.Run) -> None:
    X, truth, predicted = _far(run, 10)
    assert np.abs(predicted / truth - 1).max() < 0.3
    check = run.model.domain.check(X)
    assert check.extrapolated.all()
    intervals = run.model.spreads["grouped"].intervals
    lower, upper = intervals.bounds(predicted, 0.9, widen=check.widening)
    near_lower, near_upper = intervals.bounds(predicted, 0.9)
    assert ((upper - lower) > 1.2 * (near_upper - near_lower)).all()


@pytest.mark.long
def test_every_model_liked_in_doubt_extrapolates_from_shapes_alone(data: Path) -> None:
    dataset = build_dataset(read([data]).frame, host=None, target=TARGET)
    shapes = pd.DataFrame(
        {"op": "gemm", "dtype_a": "bf16", "m": [40960.0], "n": [8192.0], "k": [4096.0]}
    )
    truth = law(*(shapes[side].to_numpy() for side in "mnk"), "MI355X")
    liked = [
        candidate
        for candidate in suite("default", columnar(dataset))
        if candidate.preference is not None
    ]
    assert len(liked) == 4
    for candidate in liked:
        predicted = fit_all(dataset, candidate, "grouped").predict(dataset.recipe.transform(shapes))
        assert predicted == pytest.approx(truth, rel=0.3), candidate.name


@pytest.mark.long
def test_unpaired_rows_are_learnt_from(tmp_path: Path) -> None:
    path = measurements(tmp_path / "partly.csv", unpaired=6)
    dataset = build_dataset(read([path]).frame, host=HOST, target=TARGET)
    assert dataset.unpaired is not None
    assert (len(dataset.y), len(dataset.unpaired.y)) == (42, 42)
    learning = suite("default", columnar(dataset), names=["Mean/Transfer"])
    predicted = cross_validate(dataset, learning, schemes=("grouped",))["grouped"].predictions[
        "Mean/Transfer"
    ]
    assert 100 * np.mean(np.abs(predicted / dataset.y - 1)) < 12


@pytest.mark.long
def test_literature_mode_shows_its_failures(data: Path) -> None:
    """With about as many columns as rows, least squares in measured space fits the training rows only."""
    dataset = build_dataset(
        read([data], where={"n": ["1024", "2048"]}).frame, host=HOST, target=TARGET
    )
    published, ours = (
        cross_validate(
            dataset, suite(form, columnar(dataset), names=["OLS"]), schemes=("grouped",)
        )["grouped"].rows[0]
        for form in ("literature", "default")
    )
    assert (published["space"], ours["space"]) == ("measured time", "relative error")
    assert published["e_in"] < ours["e_in"]
    assert published["e_out"] > 3 * ours["e_out"]


@pytest.mark.no_cover
def test_two_groups_mean_shuffled_folds_only_and_a_note(data: Path) -> None:
    found = job.train(
        [data],
        host="MI300X",
        target="MI355X",
        where={"n": ["1024"], "k": ["1024", "2048"]},
        models=["NNLS"],
        jobs=1,
    )
    assert [cv["scheme"] for cv in found.metrics["cv"]] == ["kfold"]
    assert any("2 groups" in note for note in found.metrics["data"]["notes"])
    assert found.metrics["intervals"]["outside"] == fixed_widening().to_dict()
    assert fixed_widening().text in found.report()


def test_progress_tells_what_follows_the_folds_to_its_end(run: fc.Run, told: Told) -> None:
    last = told[-1][1]
    *folds, ended = told[: -last - 1]
    assert ended[0] == ended[1] == len(folds) + 1
    assert [(done, total) for done, total, *_ in told[-last - 1 :]] == [
        (done, last) for done in range(last + 1)
    ]
    # seconds left, which may rise between where a step takes longer
    assert told[-1][-1] == pytest.approx(0, abs=1e-9)


def test_a_run_says_what_it_was_made_from_and_old_runs_load_without(
    run: fc.Run, saved: Path, data: Path, tmp_path: Path
) -> None:
    known = dict(run.provenance)
    assert set(known) == {"command", "files", "where", "seed", "date", "machine", "versions"}
    assert known["files"] == [{"name": data.name, **_size_and_hash(data)}]
    assert (
        known["command"]
        == f"fc.train([{str(data)!r}], host='MI300X', target='MI355X', models={QUICK})"
    )
    shutil.copytree(saved, tmp_path / "run")
    assert fc.load(tmp_path / "run").provenance == known
    assert known["files"][0]["sha256"] in (tmp_path / "run" / "report.html").read_text(
        encoding="utf-8"
    )
    loaded = fc.load(tmp_path / "run")
    assert repr(loaded).startswith("<Run MI300X → MI355X, duration_us: ")
    assert f"E_out {loaded.selected['e_out']:.1f} %" in repr(loaded)


def test_interrupted_on_two_cores_a_folder_differs_from_its_twin_by_date_and_machine_alone(
    data: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    asked = f"train {data} --target MI355X --where device=MI355X --where m=..512 --where n=..2048 --models OLS".split()
    folders, add, count = [], KeptFits.after, iter(range(7))

    def stopped(self: KeptFits, outcomes: Sequence[Outcome], course: Course) -> None:
        add(self, outcomes, course)
        if next(count, None) is None:
            raise KeyboardInterrupt

    with monkeypatch.context() as patch:
        patch.setattr(KeptFits, "after", stopped)
        ended = call(*asked, "--out", tmp_path / "b", "--jobs", 1)
    assert ended.exit_code == 130
    assert "b.fits" in ended.stderr
    assert "--resume" in ended.stderr
    other = call(*asked, "--out", tmp_path / "b", "--resume", "--seed", 1)
    assert other.exit_code == 2
    assert "other seed" in other.stderr
    for out, *more in (("a", "--jobs", 1), ("b", "--jobs", 2, "--resume")):
        done = call(*asked, "--out", tmp_path / out, *more)
        assert done.exit_code == 0, done.output
        metrics = json.loads((tmp_path / out / "metrics.json").read_text(encoding="utf-8"))
        page = (tmp_path / out / "report.html").read_text(encoding="utf-8")
        # fit s
        page = re.sub(
            r"<td>[^<]*</td>(?=</tr>)", "", page.replace(metrics["provenance"].pop("date"), "")
        )
        for row in [row for cv in metrics["cv"] for row in cv["baselines"] + cv["models"]]:
            row.pop("fit_seconds")
        assert metrics["provenance"].pop("machine")["cores"] > 0
        files = {path.name: path.read_bytes() for path in (tmp_path / out / "model").rglob("*.*")}
        folders.append(
            (metrics, page, files, (tmp_path / out / "predictions.parquet").read_bytes())
        )
    assert folders[0] == folders[1]
    assert {path.name for path in tmp_path.iterdir()} == {"a", "b"}
    assert folders[0][0]["provenance"]["command"].endswith(shlex.join(asked))
    assert folders[0][0]["provenance"]["where"] == ["device=MI355X", "m=..512", "n=..2048"]


def _size_and_hash(path: Path) -> dict[str, object]:
    content = path.read_bytes()
    return {"bytes": len(content), "sha256": hashlib.sha256(content).hexdigest()}


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["--host", "MI300X", "--target", "MI355Z"], "'MI355Z'"),
        (["--host", "MI300X"], "--target"),
        (["--host", "MI355X", "--target", "MI355X"], "--host"),
        (["--target", "MI355X", "--models", "Lass"], "'Lass'"),
        (["--target", "MI355X", "--without", "OLS,"], "--without"),
        (["--target", "MI355X", "--suite", "all"], "--suite"),
        (["--target", "MI355X", "--scheme", "none"], "--scheme"),
        (["--target", "MI355X", "--select", "none"], "--select"),
        (["--target", "MI355X", "--budget", "10"], "--budget"),
        (["--target", "MI355X", "--where", "op=conv"], "op"),
        (["--target", "MI210"], "MI210"),
        (["--target", "MI355X", "--group", "colour"], "colour"),
    ],
)
def test_what_the_user_got_wrong_is_one_line_and_exit_code_2(
    data: Path, arguments: list[str], message: str
) -> None:
    result = call("train", data, *arguments)
    assert result.exit_code == 2
    last = result.stderr.strip().splitlines()[-1]
    assert last.startswith("error: ")
    assert message in last


def test_a_budget_leaves_models_out_by_name(data: Path) -> None:
    with pytest.raises(FlopcastError, match=r"the budget of 1e-09 s was spent .NNLS."):
        job.train([data], host="MI300X", target="MI355X", models=["NNLS"], jobs=1, budget=1e-9)


def test_same_devices_are_refused(data: Path) -> None:
    with pytest.raises(DataError, match="host"):
        job.train([data], host="MI300X", target="AMD Instinct MI300X VF", models=QUICK)


def test_predict_takes_what_train_wrote(run: fc.Run, saved: Path, data: Path) -> None:
    found = predict_rows(saved, [data])
    assert len(found.frame) == 84  # the host's rows of the file
    assert found.frame["predicted_us"].notna().all()
    assert (found.frame["lower_us"] < found.frame["predicted_us"]).all()
    assert run.model.of_trained_groups is not None
    # rows of groups that were trained
    fitted = run.model.of_trained_groups.estimator.predict(run.model.of_trained_groups.fitted.X)
    assert np.sort(found.frame["predicted_us"]) == pytest.approx(np.sort(fitted))


@pytest.mark.long
def test_where_a_baseline_wins_it_is_saved_and_the_best_model_has_an_honest_error(
    data: Path, tmp_path: Path
) -> None:
    """Times that are exactly proportional, and a fit that is drawn towards none as one number is not."""
    table = pd.read_csv(data)
    host = table[table["device"] == "MI300X"]
    pd.concat([host, host.assign(device="MI355X", t_us=0.6 * host["t_us"])]).to_csv(
        tmp_path / "g.csv", index=False
    )
    found = job.train(
        [tmp_path / "g.csv"], host="MI300X", target="MI355X", models=["Lasso"], jobs=1
    )
    for cv in found.metrics["cv"]:
        assert cv["selected"]["baseline"]
        assert cv["selected"]["best_model"]["name"] == "Lasso"
        assert found.model.name == cv["selected"]["name"] in ("constant ratio", "affine")
        lower, upper = cv["selected"]["best_model"]["interval"]
        assert lower < cv["selected"]["best_model"]["e_out"] < upper
        assert any("Lasso" in line and f"{lower:.1f}" in line for line in report.verdict(cv))


@pytest.mark.parametrize(
    ("metric", "devices", "rule"),
    [
        ("power_w", {"target": "MI355X"}, ("constant ratio", "constant")),
        ("duration_us", {"host": "MI300X", "target": "MI355X"}, ("FLOPS scaling", "FLOPS scaling")),
    ],
)
def test_a_rule_that_is_no_feature_is_saved_with_what_it_scales(
    metric: str, devices: dict[str, str], rule: tuple[str, str], tmp_path: Path
) -> None:
    """Power that is the same for all, and times that the peaks scale: of one format a multiple of the host's time."""
    table = pd.read_csv(measurements(tmp_path / "g.csv")).drop_duplicates(["device", "m", "n", "k"])
    ratio = HOST.peak_tflops("bf16") / TARGET.peak_tflops("bf16")
    host = table[table["device"] == HOST.name]
    noise = np.exp(0.02 * np.random.default_rng(0).standard_normal(len(host)))
    target = host.assign(device=TARGET.name, t_us=ratio * noise * host["t_us"], power_w=800 * noise)
    pd.concat([host.assign(power_w=500.0), target]).to_csv(tmp_path / "g.csv", index=False)
    found = job.train([tmp_path / "g.csv"], **devices, metric=metric, models=["OLS"], jobs=1)
    name = found.selected["name"]
    assert name == found.model.name == rule[0]
    assert found.model.estimator.column == f"rule.{rule[1]}"
    found.save(tmp_path / "run")
    rows = predict_rows(
        tmp_path / "run", [tmp_path / "g.csv"], where={"device": devices.get("host", TARGET.name)}
    )
    unit = metric.rpartition("_")[2]
    assert (rows.frame[f"predicted_{unit}"] / rows.frame[name]).to_numpy() == pytest.approx(
        1, abs=0.01
    )
    assert (rows.frame[f"lower_{unit}"] < rows.frame[f"predicted_{unit}"]).all()


@pytest.mark.long
def test_a_device_without_published_peaks_is_scaled_by_its_memory(
    data: Path, tmp_path: Path
) -> None:
    table = pd.read_csv(data)
    table[table["device"] == "MI300X"].assign(device="MI308X").to_csv(
        tmp_path / "mi308x.csv", index=False
    )
    found = job.train([tmp_path / "mi308x.csv"], target="MI308X", models=["NNLS"], jobs=1)
    assert found.model.fitted_baselines["reference"] == "memory"
    rows = predict_rows(found, [tmp_path / "mi308x.csv"]).frame
    assert (rows["constant ratio"] > 0).all()
    assert "not published" in found.metrics["cv"][0]["baselines"][0]["error"]


def test_held_out_groups_are_held_out_of_the_unpaired_rows_too(tmp_path: Path) -> None:
    """Pairs that state a group and unpaired rows that do not must still agree on what a group is."""
    table = pd.read_csv(measurements(tmp_path / "partly.csv", unpaired=6))
    paired = table.duplicated(["m", "n", "k"], keep=False)
    table.assign(group=np.where(paired, "mine " + table["n"].astype(str), "")).to_csv(
        tmp_path / "g.csv", index=False
    )
    dataset = build_dataset(read([tmp_path / "g.csv"]).frame, host=HOST, target=TARGET)
    assert dataset.unpaired is not None
    assert set(dataset.groups) & set(dataset.unpaired.groups)


@pytest.mark.parametrize("arguments", [["--jobs", "0"], ["--seed", "-1"], ["--out", "{data}/run"]])
def test_bad_numbers_and_places_are_refused_before_the_work(
    data: Path, arguments: list[str]
) -> None:
    given = [word.format(data=data) for word in arguments]
    result = call("train", data, "--target", "MI355X", *given)
    assert result.exit_code == 2
    assert "Traceback" not in result.stderr


def test_the_folder_of_several_targets_is_refused_before_the_work(
    data: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("flopcast.api.targets.train_each", pytest.fail)
    (tmp_path / "MI325X").mkdir()
    (tmp_path / "MI325X" / "mine.txt").touch()
    words = ("--host", HOST.name, "--target", f"{TARGET.name},MI325X", "--out", tmp_path)
    result = call("train", data, *words)
    assert (result.exit_code, result.stderr.count("\n")) == (2, 1)
    assert "mine.txt" in result.stderr


def test_several_targets_of_one_host_have_a_run_each_and_a_table_beside_each_other(
    data: Path, tmp_path: Path
) -> None:
    table = pd.read_csv(data)
    third = table[table["device"] == TARGET.name].assign(device="MI325X")
    table = pd.concat([table, third.assign(t_us=1.5 * third["t_us"])])
    table.to_csv(tmp_path / "three.csv", index=False)
    words = shlex.split(
        f"--host {HOST.name} --target {TARGET.name},MI325X --models OLS --jobs 1 --quiet --json"
    )
    code, out, _ = call(
        "train", tmp_path / "three.csv", *words, "--need", "0.001", "--out", tmp_path / "runs"
    )
    assert code == 0
    assert {name: one["code"] for name, one in json.loads(out)["need"].items()} == dict.fromkeys(
        (TARGET.name, "MI325X"), "need-not-reached"
    )
    stated = {(row["target"], row["scheme"]): row["e_out"] for row in json.loads(out)["targets"]}
    for target in (TARGET.name, "MI325X"):
        run = fc.load(tmp_path / "runs" / target)
        assert run.metrics["data"]["target"] == target
        assert {cv["scheme"]: cv["selected"]["e_out"] for cv in run.metrics["cv"]} == pytest.approx(
            {scheme: error for (name, scheme), error in stated.items() if name == target}
        )
    refused = call("predict", tmp_path / "runs", tmp_path / "three.csv")
    assert (refused.exit_code, len(refused.stderr.strip().splitlines())) == (2, 1)
    assert "runs/MI325X" in refused.stderr.replace("\n", "")
    missing = call("train", data, *words)
    assert missing.exit_code == 2


def test_quick_runs_two_models_and_says_which_it_left_out(
    data: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    paired = build_dataset(read([data]).frame, host=HOST, target=TARGET)
    assert set(suites.QUICK) <= {candidate.name for candidate in suite("default", columnar(paired))}
    monkeypatch.setattr(competition, "QUICK", ("Additive", "NNLS"))
    where = {"host": HOST, "target": TARGET, "jobs": 1}
    run = job.train(data, quick=True, **where)
    models = run.table.query("kind == 'model'")
    assert set(models["name"]) == {"Additive", "NNLS"}
    assert run.selected["e_out"] > 0
    (note,) = (note for note in run.metrics["data"]["notes"] if "left out" in note)
    assert f"{len(suite('default', columnar(paired))) - 2} models" in note
    for chosen in ({"models": ["OLS"]}, {"without": ["OLS"]}, {"suite": "literature"}):
        with pytest.raises(DataError, match="quick"):  # before anything is read
            job.train("nowhere.csv", quick=True, **where, **chosen)


def test_a_run_to_start_from_is_refused_before_anything_is_read_by_the_option_that_was_typed(
    data: Path, tmp_path: Path
) -> None:
    job.train(data, host=HOST, target=TARGET, models=["OLS"], jobs=1).save(tmp_path / "paired")
    for option in ("--from", "--prior-run"):
        refused = call("train", data, "--target", "MI325X", option, tmp_path / "paired")
        assert refused.exit_code == 2
        told = refused.stderr.replace("\n", " ")
        assert told.startswith("error: --from must be a run of shapes alone")
        assert "train one over other devices than the target, without a host" in told


def test_a_run_of_too_few_groups_names_columns_that_make_more(data: Path) -> None:
    table = read([data]).frame
    rows = table[table["device"] == TARGET.name].assign(
        group=lambda own: np.where(own["m"] > 64, "a", "b")
    )
    run = job.train(rows, target=TARGET, models=["OLS"], jobs=1)
    (note,) = (note for note in run.metrics["data"]["notes"] if "few-groups" in note)
    named = note.partition("group by other columns, such as ")[2].split(", ")
    assert named
    assert all(rows[name].nunique() >= 5 for name in named)

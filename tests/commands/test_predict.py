"""Predictions from a run folder: order, the host's rows only, what is unlike training, files, and damaged runs."""

from __future__ import annotations

import json
import shutil
import subprocess
import sys
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pyarrow as pa
import pytest
import typer
from sklearn.dummy import DummyRegressor
from typer.testing import CliRunner

from flopcast.api.predicting import Prediction, predict
from flopcast.commands.options import run_command
from flopcast.commands.predict import command
from flopcast.errors import ArtifactError, DataError
from flopcast.evaluation.domain import TrainedRange
from flopcast.evaluation.fallback import learn_law
from flopcast.evaluation.intervals import ConformalIntervals
from flopcast.evaluation.trained_model import TrainedModel
from flopcast.features.matrix import Dataset, build_dataset
from flopcast.hardware import GPU, find
from flopcast.models import artifact
from flopcast.models.artifact import sealed
from flopcast.models.baselines import AdditiveTime
from flopcast.output import dumps
from flopcast.readers import read

ROOT = Path(__file__).parents[2]
HEADER = "device,op,dtype_a,m,n,k,duration_us"
HOST = GPU(name="LabChip", cus=304, peaks={"bf16_matrix": 1000.0, "fp16_matrix": 1000.0}, memory_bw_gbs=5000.0)
TARGET = GPU(name="MI375X", cus=256, peaks={"bf16_matrix": 2000.0, "fp16_matrix": 4000.0}, memory_bw_gbs=8000.0)
BASELINES = {"reference": "host", "constant ratio": {"ratio": 0.5}, "affine": {"intercept": 3.0, "ratio": 0.4}}


def law(m: Any, n: Any, k: Any, gpu: GPU) -> Any:
    """Overhead + work / rate, µs: half of the peak is reached."""
    return 2.0 + 2.0 * m * n * k / (0.5 * gpu.peaks["bf16_matrix"] * 1e6)


def shapes(largest_m: int = 4096) -> pd.DataFrame:
    sizes = [2**i for i in range(4, 13) if 2**i <= largest_m]
    cells = [(m, n, k) for m in sizes for n in (1024, 4096) for k in (1024, 2048, 8192)]
    return pd.DataFrame(cells, columns=["m", "n", "k"]).assign(op="gemm", dtype_a="bf16")


def measured(folder: Path, host: GPU, target: GPU, **columns: Any) -> Path:
    """Write what both devices measured, and return the file."""
    table = shapes().assign(**columns)
    size = [table[name] for name in ("m", "n", "k")]
    both = [table.assign(device=gpu.name, duration_us=law(*size, gpu)) for gpu in (host, target)]
    pd.concat(both).to_csv(folder / "measured.csv", index=False)
    return folder / "measured.csv"


def law_of(dataset: Dataset) -> dict[str, Any] | None:
    found = learn_law(dataset)
    return found and found.to_dict()


def save_run(folder: Path, data: Path, host: GPU | None, target: GPU, model: Any = None, **options: Any) -> Path:
    """Train a small model on all rows and save it as `train` does."""
    dataset = build_dataset(read([data]).frame, host=host, target=target, **options)
    terms = ["host_us", "compute.target_us", "memory.target_us"] if host else ["compute.target_us", "memory.target_us"]
    terms = [name for name in terms if name in dataset.X]
    fitted = (model or AdditiveTime(terms or None)).fit(dataset.X, dataset.y)
    error = np.exp(np.random.default_rng(0).normal(0, 0.05, len(dataset)))
    intervals = ConformalIntervals("grouped").fit(dataset.y, dataset.y * error, dataset.groups)
    manifest = {
        "features": artifact.describe_features(dataset.X, dataset.recipe.units),
        "data_sha256": "0" * 64,
        "recipe": dataset.recipe.to_dict(),
        "domain": TrainedRange.of(dataset.X).to_dict(),
        "intervals": intervals.to_dict(),
        "scheme": "grouped",
        "selected": "Additive",
        "space": "relative error",
        "host": host.name if host else None,
        "target": target.name,
        "metric": dataset.metric,
        "baselines": BASELINES | {"reference": "host" if host else "roofline"},
        "law": law_of(dataset),
    }
    known = TrainedModel.of(artifact.Artifact(fitted, json.loads(dumps(manifest))))
    artifact.save(folder / "model", fitted, manifest | {"answers": known.answers(dataset.rows)}, dataset.X)
    return folder


@pytest.fixture(scope="module")
def run(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A run from one GPU that no catalogue has to another, bf16 GEMMs."""
    folder = tmp_path_factory.mktemp("pairs")
    return save_run(folder / "run", measured(folder, HOST, TARGET), HOST, TARGET)


@pytest.fixture(scope="module")
def alone(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A run of one device: times from shapes."""
    folder = tmp_path_factory.mktemp("alone")
    return save_run(folder / "run", measured(folder, HOST, TARGET), None, TARGET)


def csv(folder: Path, *lines: str, header: str = HEADER) -> Path:
    path = folder / "queries.csv"
    path.write_text("\n".join([header, *lines, ""]), encoding="utf-8")
    return path


def invoke(*arguments: object) -> tuple[int, str, str]:
    app = typer.Typer()
    app.command()(run_command(command))
    result = CliRunner().invoke(app, [str(argument) for argument in arguments], env={"COLUMNS": "120"})
    if result.exception and not isinstance(result.exception, SystemExit):
        raise result.exception
    return result.exit_code, result.stdout, result.stderr


def test_one_row_per_input_row_in_order_refused_ones_included(run: Path, tmp_path: Path) -> None:
    other = tmp_path / "more.csv"
    other.write_text(f"{HEADER}\nlabchip,gemm,bf16,64,1024,1024,2.3\n", encoding="utf-8")
    good = "LabChip,gemm,bf16,512,1024,2048,9"
    data = csv(
        tmp_path, good, "LabChip,gemm,bf16,64,1024,2048,0", good, "LabChip,gemm,bf16,x,1024,2048,9",
        "LabChip,gemm,bf16,1,2,3,4,5", "", "LabChip,gemm,bf16,64,4096,1024,5", ",gemm,bf16,64,4096,1024,5",
    )  # fmt: skip
    frame = predict(run, [data, other]).frame
    lines = [2, 3, 4, 5, 6, 8, 9]
    assert frame["source"].tolist() == [*(f"queries.csv:{line}" for line in lines), "more.csv:2"]
    assert frame["predicted_us"].isna().tolist() == [False, True, False, True, True, False, True, False]
    assert frame["reason"].tolist() == [
        "",
        "duration is zero (0.0)",
        "",
        "dimension is not a number (m = x)",
        "the line has more or fewer fields than its header (LabChip,gemm,bf16,1,2,3,4,5)",
        "",
        "no device (set device=NAME)",
        "",
    ]
    assert frame.loc[0, "predicted_us"] == frame.loc[2, "predicted_us"]
    assert frame["device"].iloc[-1] == "LabChip"
    assert not frame["extrapolated"].any()
    assert predict(run, [other, data]).frame["source"].iloc[0] == "more.csv:2"


def test_predictions_are_the_estimators_and_the_columns_are_as_documented(run: Path, tmp_path: Path) -> None:
    data = csv(tmp_path, "LabChip,gemm,bf16,512,1024,2048,9", "LabChip,gemm,bf16,64,4096,1024,5")
    found = predict(run, [data]).frame
    model = TrainedModel.load(run)
    rows = read([data]).frame
    np.testing.assert_array_equal(found["predicted_us"], model.saved.predict(model.recipe.transform(rows)))
    assert found.columns.tolist() == [
        "op", "dtype_a", "dtype_b", "dtype_out", "m", "n", "k", "batch", "device", "campaign", "source", "duration_us",
        "predicted_us", "lower_us", "upper_us", "basis", "extrapolated", "reason",
        "FLOPS scaling", "bandwidth scaling", "roofline scaling", "constant ratio", "affine",
    ]  # fmt: skip
    assert found[["m", "n", "k", "batch"]].to_numpy().tolist() == [[512, 1024, 2048, 1], [64, 4096, 1024, 1]]
    assert (found["lower_us"] < found["predicted_us"]).all()
    assert (found["predicted_us"] < found["upper_us"]).all()
    np.testing.assert_allclose(found["FLOPS scaling"], [4.5, 2.5])
    np.testing.assert_allclose(found["bandwidth scaling"], [9 * 5 / 8, 5 * 5 / 8])
    np.testing.assert_allclose(found["constant ratio"], [4.5, 2.5])
    np.testing.assert_allclose(found["affine"], [6.6, 5.0])


def test_only_rows_of_the_host_are_read_and_the_others_counted(run: Path, tmp_path: Path) -> None:
    size = "gemm,bf16,512,1024,2048"
    data = csv(tmp_path, f"MI375X,{size},5", f"LabChip,{size},9", f"MI210,{size},50", f"MI375X,{size},5")
    found = predict(run, [data])
    assert found.frame["source"].tolist() == ["queries.csv:3"]
    assert found.report["other_devices"] == {"MI375X": 2, "MI210": 1}
    without = csv(tmp_path, f"MI375X,{size},5", f"MI210,{size},50")
    with pytest.raises(DataError, match=r"LabChip.*MI375X.*MI210"):
        predict(run, [without])


def test_a_precision_that_was_never_trained_is_not_predicted_and_costs_no_other_row(run: Path, tmp_path: Path) -> None:
    data = csv(tmp_path, "LabChip,gemm,bf16,512,1024,2048,9", "LabChip,gemm,fp16,512,1024,2048,9")
    found = predict(run, [data])
    assert found.frame[["predicted_us", "lower_us", "upper_us"]].isna().all(axis=1).tolist() == [False, True]
    assert not found.frame["extrapolated"].any()
    model, rows = TrainedModel.load(run), read([data]).frame
    assert [[one.code for one in why] for why in model.predict(rows, 0.9)["reasons"]] == [[], ["never-trained"]]
    assert (found.report["predicted"], sum(found.report["not_predicted"].values())) == (1, 1)
    code, text, error = invoke(run, data, "--where", "dtype_a=fp16")
    assert (code, text, error.count("\n")) == (2, "", 1)


def test_a_precision_without_published_peak_is_not_predicted_and_costs_no_other_row(run: Path, tmp_path: Path) -> None:
    data = csv(tmp_path, "LabChip,gemm,fp8,512,1024,2048,9", "LabChip,gemm,bf16,512,1024,2048,9")
    found = predict(run, [data])
    assert found.frame["predicted_us"].isna().tolist() == [True, False]
    assert "fp8" in found.frame["reason"][0]
    assert found.frame["FLOPS scaling"].isna().tolist() == [True, False]
    assert found.report["predicted"] == 1
    with pytest.raises(DataError, match=r"queries.csv:2.*fp8"):
        predict(run, [data], where={"dtype_a": ["fp8"]})


def test_the_law_answers_where_nothing_was_trained_and_is_marked(run: Path, tmp_path: Path) -> None:
    data = csv(tmp_path, "LabChip,gemm,bf16,512,1024,2048,9", "LabChip,gemm,fp16,512,1024,2048,9")
    found = predict(run, [data], fallback="law")
    assert found.frame["basis"].tolist() == ["model", "law"]
    assert found.frame["extrapolated"].tolist() == [False, True]
    assert found.frame["reason"][1].startswith("dtype fp16 was never trained")
    width = np.log(found.frame["upper_us"] / found.frame["lower_us"])
    assert found.frame["lower_us"][1] < 0.5 * 9 < found.frame["upper_us"][1]
    assert width[1] > width[0]
    assert found.report["basis"] == {"model": 1, "law": 1}
    assert predict(run, [data]).frame["basis"].tolist() == ["model", ""]
    code, _, error = invoke(run, data, "--fallback", "guess")
    assert (code, error.count("--fallback")) == (2, 1)


def test_ten_times_the_trained_work_is_flagged_wider_and_near_the_law(run: Path, tmp_path: Path) -> None:
    size = (40960, 4096, 8192)
    data = csv(
        tmp_path, *(f"LabChip,gemm,bf16,{m},4096,8192,{law(m, 4096, 8192, HOST)}" for m in (4096, 40960)),
    )  # fmt: skip
    frame = predict(run, [data]).frame
    assert frame["extrapolated"].tolist() == [False, True]
    assert "trained to" in frame["reason"][1]
    assert "10.0x beyond" in frame["reason"][1]
    assert frame["predicted_us"][1] == pytest.approx(law(*size, TARGET), rel=0.3)
    width = np.log(frame["upper_us"] / frame["lower_us"])
    assert width[1] > 1.9 * width[0]


def test_columns_are_found_by_name_and_missing_ones_are_named(run: Path, tmp_path: Path) -> None:
    straight = predict(run, [csv(tmp_path, "LabChip,gemm,bf16,512,1024,2048,9")]).frame
    turned = csv(tmp_path, "9,2048,1024,512,bf16,gemm,LabChip", header=",".join(reversed(HEADER.split(","))))
    pd.testing.assert_frame_equal(predict(run, [turned]).frame, straight)
    short = csv(tmp_path, "LabChip,gemm,bf16,512,1024,9", header="device,op,dtype_a,m,n,duration_us")
    with pytest.raises(DataError, match=r"used \(missing-dimension: 1\); first"):
        predict(run, [short])
    untimed = csv(tmp_path, "LabChip,gemm,bf16,512,1024,2048", header="device,op,dtype_a,m,n,k")
    with pytest.raises(DataError, match="column is a duration"):
        predict(run, [untimed])


def test_units_values_and_conditions_are_passed_on(run: Path, tmp_path: Path) -> None:
    data = csv(tmp_path, "gemm,16,1024,1024,0.009", "gemm,512,1024,2048,0.009", header="op,m,n,k,time")
    found = predict(
        run, [data], units={"time": "ms"}, defaults={"device": "LabChip", "dtype_a": "bf16"}, where={"m": ["512"]}
    )
    assert found.frame[["m", "duration_us"]].to_numpy().tolist() == [[512, 9.0]]
    assert found.frame["dtype_a"].tolist() == ["bf16"]


def test_intervals_follow_the_level(run: Path, tmp_path: Path) -> None:
    data = csv(tmp_path, "LabChip,gemm,bf16,512,1024,2048,9")
    narrow, wide = (predict(run, [data], level=level).frame for level in (0.5, 0.95))
    assert wide["lower_us"][0] < narrow["lower_us"][0] < narrow["upper_us"][0] < wide["upper_us"][0]
    for level in (0.0, 1.0, 90, float("nan")):
        with pytest.raises(DataError, match=r"level.*0.005.*0.995.*0.9.*90"):
            predict(run, [data], level=level)


def test_slower_kernels_of_a_problem_are_flagged(run: Path, tmp_path: Path) -> None:
    size = "LabChip,gemm,bf16,512,1024,2048"
    data = csv(tmp_path, f"{size},9,fast", f"{size},12,slow", f"{size},9.5,fast", header=f"{HEADER},kernel")
    frame = predict(run, [data]).frame
    reasons = frame["reason"].str.contains("another kernel solves this problem faster on LabChip")
    assert reasons.tolist() == [False, True, False]
    assert frame["extrapolated"][1]


def test_without_a_host_shapes_are_enough(alone: Path, tmp_path: Path) -> None:
    data = csv(tmp_path, "gemm,bf16,512,1024,2048", "gemm,bf16,0,1,1", header="op,dtype_a,m,n,k")
    found = predict(alone, [data])
    frame = found.frame
    assert frame["predicted_us"][0] == pytest.approx(law(512, 1024, 2048, TARGET), rel=0.05)
    assert frame["reason"].tolist() == ["", "dimension is not positive (m = 0)"]
    assert frame.columns[-3:].tolist() == ["roofline", "constant ratio", "affine"]
    roofline = 2 * 512 * 1024 * 2048 / 2e9
    np.testing.assert_allclose(frame["roofline"][0], roofline)
    np.testing.assert_allclose(frame["affine"][0], 3 + 0.4 * roofline)
    assert found.report["host"] is None
    assert "duration_us" not in frame
    assert "device" not in frame


def test_without_a_host_times_and_devices_of_the_rows_do_not_matter(alone: Path, tmp_path: Path) -> None:
    size = "gemm,bf16,512,1024,2048"
    data = csv(tmp_path, f"MI210,{size},50", f"MI375X,{size},-1", f",{size},")
    found = predict(alone, [data])
    assert len(set(found.frame["predicted_us"].tolist())) == 1
    assert found.frame["predicted_us"].notna().all()
    assert any(note.startswith("1 rows name another device") for note in found.report["notes"])


def test_another_metric_must_be_there(tmp_path: Path) -> None:
    data = measured(tmp_path, HOST, TARGET, energy_j=shapes()["m"] ** 1.1 * 1e-3)
    run = save_run(tmp_path / "run", data, HOST, TARGET, AdditiveTime(["host_energy_j"]), metric="energy_j")
    queries = csv(
        tmp_path, "LabChip,gemm,bf16,512,1024,2048,9,0.5", "LabChip,gemm,bf16,512,1024,2048,9,",
        header=f"{HEADER},energy_j",
    )  # fmt: skip
    frame = predict(run, [queries]).frame
    assert frame["reason"].tolist() == ["", "no positive energy_j"]
    assert frame["predicted_j"][0] == pytest.approx(0.5, rel=0.1)
    laws = ["TDP x FLOPS scaling", "TDP x bandwidth scaling", "TDP x roofline scaling"]
    assert frame.columns[-6:].tolist() == ["reason", *laws, "constant ratio", "affine"]
    np.testing.assert_allclose(frame["constant ratio"][0], 0.25)
    with pytest.raises(DataError, match="energy_j"):
        predict(run, [csv(tmp_path, "LabChip,gemm,bf16,512,1024,2048,9")])


def test_a_prediction_that_is_not_positive_has_no_interval(tmp_path: Path) -> None:
    data = measured(tmp_path, HOST, TARGET)
    run = save_run(tmp_path / "run", data, HOST, TARGET, DummyRegressor(strategy="constant", constant=-1.0))
    frame = predict(run, [csv(tmp_path, "LabChip,gemm,bf16,512,1024,2048,9")]).frame
    assert frame["predicted_us"].tolist() == [-1.0]
    assert frame["upper_us"].isna().all()
    assert frame["reason"].tolist() == ["not a positive prediction: no interval"]


def test_what_no_row_states_but_training_always_had_is_a_remark(tmp_path: Path) -> None:
    run = save_run(tmp_path / "run", measured(tmp_path, HOST, TARGET, family="a16w16"), HOST, TARGET)
    data = csv(tmp_path, "LabChip,gemm,bf16,512,1024,2048,9")
    found = predict(run, [data])
    assert found.frame["reason"].tolist() == ["family none was not in training (a16w16)"]
    assert any("no row states its family" in note and "state family=a16w16" in note for note in found.report["notes"])
    stated = predict(run, [data], defaults={"family": "a16w16"})
    assert not stated.frame["extrapolated"].any()
    assert not any("family" in note for note in stated.report["notes"])


def test_operators_that_the_features_cannot_describe_are_not_predicted(tmp_path: Path) -> None:
    table = pd.DataFrame({"batch": [1, 2, 4, 8, 16, 32, 64, 128]}).assign(seq_q=128, seq_kv=[128, 256] * 4)
    table = table.assign(op="attention", dtype_a="bf16", heads=[8, 16, 32, 8] * 2, head_dim=64, device="MI375X")
    table.assign(duration_us=table["batch"] * 2.0 + 1).to_csv(tmp_path / "measured.csv", index=False)
    run = save_run(tmp_path / "run", tmp_path / "measured.csv", None, TARGET)
    rows = "gemm,bf16,512,1024,2048,,,,,", "attention,bf16,,,,4,8,128,128,64"
    data = csv(tmp_path, *rows, header="op,dtype_a,m,n,k,batch,heads,seq_q,seq_kv,head_dim")
    frame = predict(run, [data]).frame
    assert frame["predicted_us"].isna().tolist() == [True, False]
    assert frame["reason"][0].startswith("op gemm was never trained")


def test_kernels_whose_work_is_unknown_are_not_predicted_and_cost_no_other_row(tmp_path: Path) -> None:
    host, target = (replace(gpu, peaks={**gpu.peaks, "fp32_vector": 100.0}) for gpu in (HOST, TARGET))
    run = save_run(tmp_path / "run", measured(tmp_path, host, target), host, target)
    rows = "LabChip,gemm,bf16,512,1024,2048,,,9", "LabChip,kernel,,,,,16,256,9"
    data = csv(tmp_path, *rows, header="device,op,dtype,m,n,k,workgroups,threads,us")
    frame = predict(run, [data]).frame
    assert frame["predicted_us"].isna().tolist() == [False, True]
    assert frame["reason"][1].startswith("op kernel was never trained")


@pytest.fixture(scope="module")
def found(run: Path, tmp_path_factory: pytest.TempPathFactory) -> Prediction:
    lines = ["LabChip,gemm,bf16,512,1024,2048,9", "LabChip,gemm,bf16,64,1024,2048,0"]
    return predict(run, [csv(tmp_path_factory.mktemp("data"), *lines)])


@pytest.mark.parametrize("suffix", [".csv", ".parquet", ".json"])
def test_files_hold_the_rows(found: Prediction, tmp_path: Path, suffix: str) -> None:
    out = tmp_path / "new" / f"out{suffix}"
    found.save(out)
    found.save(out)
    assert [path.name for path in out.parent.iterdir()] == [out.name]
    if suffix == ".parquet":
        again = pd.read_parquet(out)
    elif suffix == ".csv":
        again = pd.read_csv(out, keep_default_na=False, na_values={"predicted_us": [""]})
    else:
        again = pd.DataFrame(json.loads(out.read_text())["rows"])
    assert again.columns.tolist() == found.frame.columns.tolist()
    assert again["m"].tolist() == [512, 64]
    assert again["predicted_us"].tolist()[0] == found.frame["predicted_us"][0]
    assert np.isnan(again["predicted_us"][1])
    assert again["extrapolated"].tolist() == [False, False]
    assert again["reason"].tolist() == ["", "duration is zero (0.0)"]


def many_rows() -> pd.DataFrame:
    """Return rows of two devices and operators: kernels of one problem far apart, some refused, some far outside."""
    rng = np.random.default_rng(0)
    sizes = {name: rng.choice([512.0, 1024, 3000, 2**20], 90) for name in ("m", "n", "k")}
    rows = pd.DataFrame(sizes).assign(device="LabChip", op="gemm", dtype_a="bf16", kernel=rng.choice(["a", "b"], 90))
    rows["duration_us"] = law(rows["m"], rows["n"], rows["k"], HOST) * rng.uniform(1, 2, 90)
    rows.loc[::9, "device"], rows.loc[4::17, "duration_us"] = "MI210", 0.0
    rows.loc[70:, "op"], rows.loc[70:, "rows"], rows.loc[70:, "cols"] = "softmax", 64.0, 1024.0
    rows.loc[80:, "variant"], rows.loc[85:, "duration_us"] = "late", 1e-3
    return rows


@pytest.mark.parametrize("suffix", ["csv", "parquet"])
def test_batches_are_predicted_as_the_whole(
    run: Path, alone: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, suffix: str
) -> None:
    monkeypatch.setattr("flopcast.api.predicting.BATCH", 16)
    data = tmp_path / "rows.parquet"
    many_rows().to_parquet(data)
    whole, out = tmp_path / f"whole.{suffix}", tmp_path / f"out.{suffix}"
    for model in (run, alone):
        at_once = predict(model, data, out=whole)
        with monkeypatch.context() as patch:
            patch.setattr("flopcast.readers.batches.LARGE", 1)
            patch.setattr("flopcast.readers.batches.ROWS", 7)
            in_batches = predict(model, data, out=out)
        read_table = pd.read_csv if suffix == "csv" else pd.read_parquet
        pd.testing.assert_frame_equal(read_table(out), read_table(whole), check_exact=True)
        assert (len(in_batches.frame), len(at_once.frame)) == (10, at_once.report["n"])
        assert in_batches.report == at_once.report
    assert at_once.report["n"] == 90


def test_rows_in_another_unit_are_not_judged_in_batches(
    run: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Only all times of a file tell."""
    rows = many_rows()
    rows["duration_us"] /= 1e3
    rows.to_parquet(tmp_path / "rows.parquet")
    monkeypatch.setattr("flopcast.readers.batches.LARGE", 1)
    with pytest.raises(DataError, match="no row can be"):
        predict(run, tmp_path / "rows.parquet", out=tmp_path / "out.csv")
    assert [path.name for path in tmp_path.iterdir()] == ["rows.parquet"]


def test_nothing_half_written_stays(found: Prediction, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    out = tmp_path / "out.csv"
    out.write_text("earlier", encoding="utf-8")

    def stop(path: Path, schema: pa.Schema) -> None:
        Path(path).write_text("op,m\n1", encoding="utf-8")
        raise OSError(28, "No space left on device")

    monkeypatch.setattr("pyarrow.csv.CSVWriter", stop)
    with pytest.raises(DataError, match=r"out\.csv"):
        found.save(out)
    assert out.read_text(encoding="utf-8") == "earlier"
    assert [path.name for path in tmp_path.iterdir()] == ["out.csv"]


def test_a_file_that_cannot_be_written_is_refused_before_the_work(run: Path, tmp_path: Path) -> None:
    data = csv(tmp_path, "LabChip,gemm,bf16,512,1024,2048,9")
    code, _, error = invoke("no-such-run", data, "--out", "x.xlsx")
    assert (code, error) == (2, "error: --out must end in .csv, .parquet or .json, got 'x.xlsx'\n")
    code, _, error = invoke(run, data, "--out", data)
    assert code == 2
    assert "file that is read" in error
    assert data.read_text(encoding="utf-8").startswith(HEADER)


def test_the_command_prints_a_summary_and_writes(run: Path, tmp_path: Path) -> None:
    data = csv(
        tmp_path, "LabChip,gemm,bf16,512,1024,2048,9", "LabChip,gemm,fp16,512,1024,2048,9", "MI210,gemm,bf16,1,1,1,9",
    )  # fmt: skip
    code, text, _ = invoke(run, data, "--out", tmp_path / "out.csv", "--interval", "0.8")
    assert code == 0
    assert "LabChip → MI375X: time" in text
    assert "1  of 2 workloads predicted" in text
    assert "rows of MI210 left" in text
    assert "predicted: dtype fp16" in text
    assert "80 % intervals" in text
    assert "gemm bf16 m=512 n=1024 k=2048" in text
    assert len(pd.read_csv(tmp_path / "out.csv")) == 2


def test_the_command_prints_json(run: Path, tmp_path: Path) -> None:
    data = csv(tmp_path, "LabChip,gemm,bf16,512,1024,2048,9", "LabChip,gemm,bf16,512,1024,2048,0")
    code, text, _ = invoke(run, data, "--json", "--out", tmp_path / "out.json")
    told = json.loads(text)
    assert (code, told["host"], told["target"], told["n"], told["predicted"]) == (0, "LabChip", "MI375X", 2, 1)
    assert told["not_predicted"] == {"duration is zero": 1}
    assert [row["predicted_us"] is None for row in told["rows"]] == [False, True]
    assert (tmp_path / "out.json").read_text(encoding="utf-8") == text


def damaged(run: Path, folder: Path) -> Path:
    return Path(shutil.copytree(run, folder / "damaged"))


def test_a_tampered_model_is_refused_with_one_line(run: Path, tmp_path: Path) -> None:
    data, copy = csv(tmp_path, "LabChip,gemm,bf16,512,1024,2048,9"), damaged(run, tmp_path)
    estimator = copy / "model" / "estimator.zip"
    estimator.write_bytes(estimator.read_bytes()[:-1] + b"x")
    code, text, error = invoke(copy, data, "--out", tmp_path / "out.csv")
    assert (code, text) == (2, "")
    assert "file that was saved" in error
    assert error.count("\n") == 1
    assert not (tmp_path / "out.csv").exists()


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"recipe": None}, r"manifest.json is damaged \(AttributeError"),
        ({"domain": {"m": {}}}, r"manifest.json is damaged \(KeyError"),
        ({"intervals": {}}, r"manifest.json.*KeyError.*'scheme'"),
        ({"baselines": {"affine": {}}}, r"manifest.json.*KeyError.*'constant ratio'"),
    ],
)
def test_a_manifest_that_lacks_something_is_refused(
    run: Path, tmp_path: Path, change: dict[str, Any], message: str
) -> None:
    copy = damaged(run, tmp_path)
    path = copy / "model" / "manifest.json"
    path.write_text(json.dumps(sealed(json.loads(path.read_text()) | change)), encoding="utf-8")
    with pytest.raises(ArtifactError, match=message):
        TrainedModel.load(copy)


def test_features_in_another_order_than_the_model_knows_are_refused(run: Path, tmp_path: Path) -> None:
    copy = damaged(run, tmp_path)
    path = copy / "model" / "manifest.json"
    manifest = json.loads(path.read_text())
    manifest["recipe"]["columns"].reverse()
    path.write_text(json.dumps(sealed(manifest)), encoding="utf-8")
    with pytest.raises(ArtifactError, match="another order"):
        TrainedModel.load(copy)


@pytest.mark.parametrize(
    ("part", "key", "value", "said"),
    [
        ("intervals", "up", -5.0, "damaged"),
        ("intervals", "down", 1e999, "damaged|SHA-256|not a number"),
        ("intervals", "radii", [-1.0] * 199, "damaged"),
        ("intervals", "rows", 0, "damaged"),
        ("intervals", "up", 1.5, "answers"),
        ("baselines", "constant ratio", {"ratio": 0.123}, "answers"),
        ("recipe", "constant", {"log2.k": None}, "damaged"),
        ("answers", "level", "x", "answers"),
        ("answers", "rows", {}, "answers"),
    ],
)
def test_figures_of_the_manifest_are_held_to_what_it_answered(
    run: Path, tmp_path: Path, part: str, key: str, value: Any, said: str
) -> None:
    copy = damaged(run, tmp_path)
    path = copy / "model" / "manifest.json"
    manifest = json.loads(path.read_text())
    manifest[part][key] = value
    path.write_text(json.dumps(sealed(manifest) if value != 1e999 else manifest), encoding="utf-8")
    with pytest.raises(ArtifactError, match=said) as info:
        TrainedModel.load(copy)
    assert "\n" not in str(info.value)


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["{data}", "{data}"], "`train` wrote"),
        (["{run}", "missing.csv"], "missing.csv"),
        (["{run}", "{data}", "--where", "m=3"], "no row has m=3"),
        (["{run}", "{data}", "--interval", "95"], "--interval must lie between"),
        (["{run}", "{data}", "--unit", "time"], "--unit must be COLUMN=VALUE"),
    ],
)
def test_what_the_user_got_wrong_is_one_line(run: Path, tmp_path: Path, arguments: list[str], message: str) -> None:
    data = csv(tmp_path, "LabChip,gemm,bf16,512,1024,2048,9")
    code, text, error = invoke(*(word.format(run=run, data=data) for word in arguments))
    assert (code, text) == (2, "")
    assert all(word in error for word in message.split())
    assert error.count("\n") == 1


def test_data_are_needed(run: Path) -> None:
    assert invoke(run)[0] == 2
    with pytest.raises(DataError, match="data is missing"):
        predict(run, [])


def test_the_script_runs_from_the_root(run: Path, tmp_path: Path) -> None:
    data = csv(tmp_path, "LabChip,gemm,bf16,512,1024,2048,9")
    ran = subprocess.run(
        [sys.executable, "predict.py", run, data, "--json"], cwd=ROOT, capture_output=True, text=True, check=True
    )
    assert json.loads(ran.stdout)["predicted"] == 1
    assert ran.stderr == ""


def test_devices_of_the_catalogue_are_known_by_any_name(tmp_path: Path) -> None:
    host, target = find("MI300X"), find("MI355X")
    run = save_run(tmp_path / "run", measured(tmp_path, host, target), host, target)
    data = csv(tmp_path, "AMD Instinct MI300X VF,gemm,bf16,512,1024,2048,9")
    assert predict(run, [data]).frame["device"].tolist() == ["MI300X"]

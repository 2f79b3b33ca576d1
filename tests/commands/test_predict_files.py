"""Files of predictions, whole and in batches, and runs that were damaged."""

from __future__ import annotations

import json
import shutil
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pyarrow as pa
import pytest

from flopcast.api.predicting import Prediction, predict
from flopcast.errors import ArtifactError, DataError
from flopcast.evaluation.trained_model import TrainedModel
from flopcast.sealing import seal
from flopcast.table.refusals import row_refused
from flopcast.tests.commands.predicted_runs import HEADER, HOST, csv, invoke, law


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
    assert again["reason"].tolist() == ["", row_refused("zero-duration", "0.0").text]


def test_a_page_says_what_it_was_made_of(run: Path, tmp_path: Path) -> None:
    data = csv(tmp_path, "LabChip,gemm,bf16,512,1024,2048,9")
    out = tmp_path / "page.html"
    for more in ((), ("--json",)):
        told = invoke(run, data, "--out", out, *more)
        assert told.exit_code == 0, told.output
        page = out.read_text()
        assert "made by flopcast" in page
        assert f"flopcast predict {run} {data}<" in page
        assert data.name in page
        out.unlink()
    out.write_text("mine")
    told = invoke(run, data, "--out", out)
    assert told.exit_code == 2
    assert out.read_text() == "mine"


def many_rows() -> pd.DataFrame:
    """Return rows of two devices and operators: kernels of one problem far apart, some refused, some far outside."""
    rng = np.random.default_rng(0)
    sizes = {name: rng.choice([512.0, 1024, 3000, 2**20], 90) for name in ("m", "n", "k")}
    rows = pd.DataFrame(sizes).assign(
        device="LabChip", op="gemm", dtype_a="bf16", kernel=rng.choice(["a", "b"], 90)
    )
    rows["duration_us"] = law(rows["m"], rows["n"], rows["k"], HOST) * rng.uniform(1, 2, 90)
    rows.loc[::9, "device"], rows.loc[4::17, "duration_us"] = "MI210", 0.0
    rows.loc[70:, "op"], rows.loc[70:, "rows"], rows.loc[70:, "cols"] = "softmax", 64.0, 1024.0
    rows.loc[80:, "variant"], rows.loc[85:, "duration_us"] = "late", 1e-3
    return rows


@pytest.mark.long
def test_batches_are_predicted_as_the_whole(
    run: Path, alone: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("flopcast.api.predicting.BATCH", 32)
    data = tmp_path / "rows.parquet"
    many_rows().to_parquet(data)
    for model, suffix in ((run, "csv"), (alone, "parquet")):
        whole, out = tmp_path / f"whole.{suffix}", tmp_path / f"out.{suffix}"
        at_once = predict(model, data, out=whole)
        with monkeypatch.context() as patch:
            patch.setattr("flopcast.readers.parts.LARGE", 1)
            patch.setattr("flopcast.readers.parts.ROWS", 35)
            in_batches = predict(model, data, out=out)
        read_table = pd.read_csv if suffix == "csv" else pd.read_parquet
        pd.testing.assert_frame_equal(read_table(out), read_table(whole), check_exact=True)
        assert (len(in_batches.frame), len(at_once.frame)) == (10, at_once.summary["n"])
        assert in_batches.summary == at_once.summary
    assert at_once.summary["n"] == 90


def test_rows_in_another_unit_are_not_judged_in_batches(
    run: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Only all times of a file tell."""
    rows = many_rows()
    rows["duration_us"] /= 1e3
    rows.to_parquet(tmp_path / "rows.parquet")
    monkeypatch.setattr("flopcast.readers.parts.LARGE", 1)
    with pytest.raises(DataError, match="no row"):
        predict(run, tmp_path / "rows.parquet", out=tmp_path / "out.csv")
    assert [path.name for path in tmp_path.iterdir()] == ["rows.parquet"]


def test_nothing_half_written_stays(
    found: Prediction, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
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


def test_a_file_that_cannot_be_written_is_refused_before_the_work(
    run: Path, tmp_path: Path
) -> None:
    data = csv(tmp_path, "LabChip,gemm,bf16,512,1024,2048,9")
    code, _, error = invoke("no-such-run", data, "--out", "x.ods")
    assert (code, error.count("\n")) == (2, 1)
    assert all(word in error for word in ("--out", ".json, .xlsx or .html", "'x.ods'"))
    code, _, error = invoke(run, data, "--out", data)
    assert code == 2
    assert data.name in error
    assert data.read_text(encoding="utf-8").startswith(HEADER)


def damaged(run: Path, folder: Path) -> Path:
    return Path(shutil.copytree(run, folder / "damaged"))


def test_a_tampered_model_is_refused_with_one_line(run: Path, tmp_path: Path) -> None:
    data, copy = csv(tmp_path, "LabChip,gemm,bf16,512,1024,2048,9"), damaged(run, tmp_path)
    estimator = copy / "model" / "estimator.zip"
    estimator.write_bytes(estimator.read_bytes()[:-1] + b"x")
    code, text, error = invoke(copy, data, "--out", tmp_path / "out.csv")
    assert (code, text) == (2, "")
    assert "estimator.zip" in error
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
    path.write_text(json.dumps(json.loads(path.read_text()) | change), encoding="utf-8")
    seal(copy)
    with pytest.raises(ArtifactError, match=message):
        TrainedModel.load(copy)


def test_features_in_another_order_than_the_model_knows_are_refused(
    run: Path, tmp_path: Path
) -> None:
    copy = damaged(run, tmp_path)
    path = copy / "model" / "manifest.json"
    manifest = json.loads(path.read_text())
    manifest["recipe"]["columns"].reverse()
    path.write_text(json.dumps(manifest), encoding="utf-8")
    seal(copy)
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
    path.write_text(json.dumps(manifest), encoding="utf-8")
    seal(copy)
    with pytest.raises(ArtifactError, match=said) as info:
        TrainedModel.load(copy)
    assert "\n" not in str(info.value)

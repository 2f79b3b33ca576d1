"""Runs whose parts were changed, swapped or made anew: every command and the API refuse them in one line."""

from __future__ import annotations

import json
import shutil
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest

import flopcast as fc
from flopcast.errors import ArtifactError
from flopcast.sealing import seal
from flopcast.tests.commands.running import call

KNOWN = ("model/known/manifest.json", "model/known/estimator.zip")
PARTS = (
    "metrics.json",
    "predictions.parquet",
    "model/manifest.json",
    "model/estimator.zip",
    *KNOWN,
    "report.html",
)


@pytest.fixture(scope="module")
def data(tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("data") / "rows.csv"
    path.write_text("device,op,dtype_a,m,n,k,duration_us\nMI300X,gemm,fp8,32,3072,6144,9\n")
    return path


@pytest.fixture
def copy(trained: Path, tmp_path: Path) -> Path:
    return Path(shutil.copytree(trained, tmp_path / "run"))


def commands(run: Path, other: Path, data: Path) -> Iterator[tuple[object, ...]]:
    yield "show", run
    yield "show", run, "--verify"
    yield "compare", run, other
    yield "check", run, data
    yield "predict", run, data
    yield "explain", run, data


def refused(run: Path, other: Path, data: Path) -> None:
    for line in commands(run, other, data):
        done = call(*line)
        assert (done.exit_code, done.stdout, done.stderr.count("\n")) == (2, "", 1), (
            line,
            done.output,
        )
    for read in (fc.load, lambda run: fc.predict(run, data), lambda run: fc.compare(run, other)):
        with pytest.raises(ArtifactError):
            read(run)


def test_what_a_run_holds_can_be_verified(trained: Path) -> None:
    done = call("show", trained, "--verify", "--json")
    assert set(json.loads(done.stdout)["files"]) == set(PARTS)
    assert call("show", trained, "--verify", "--signers", trained / "metrics.json").exit_code == 2
    assert call("show", trained, "--signers", trained / "metrics.json").exit_code == 2


@pytest.mark.parametrize("name", PARTS)
def test_no_command_takes_a_file_that_was_edited(
    copy: Path, trained: Path, data: Path, name: str
) -> None:
    content = bytearray((copy / name).read_bytes())
    content[len(content) // 2] ^= 1
    (copy / name).write_bytes(content)
    refused(copy, trained, data)


def test_no_command_takes_a_file_added_or_lost(copy: Path, trained: Path, data: Path) -> None:
    (copy / "model" / "more.bin").write_bytes(b"x")
    refused(copy, trained, data)
    (copy / "model" / "more.bin").unlink()
    (copy / "report.html").unlink()
    refused(copy, trained, data)


def test_no_command_takes_a_run_without_its_manifest(copy: Path, trained: Path, data: Path) -> None:
    (copy / "manifest.json").unlink()
    refused(copy, trained, data)


def _replaced(metrics: dict[str, Any], path: str, value: Any) -> None:
    *places, last = [int(word) if word.isdigit() else word for word in path.split(".")]
    at: Any = metrics
    for place in places:
        at = at[place]
    if value is None:
        del at[last]
    else:
        at[last] = value


@pytest.mark.parametrize(
    ("path", "value"),
    [
        ("data", None), ("cv", None), ("model", None), ("cv", {}), ("cv.0", 7), ("cv.0.scheme", None),
        ("cv.0.scheme", "grouped"), ("cv.0.models.0.name", None), ("cv.0.models.0.e_out", "small"),
        ("cv.0.models.0.e_out", 10**400), ("cv.0.models.0.left", {}), ("cv.0.baselines.0.ir", [1]),
        ("cv.0.selected", "OLS"), ("cv.0.selected.interval", [1.0]), ("cv.0.selected.tied", 3),
        ("cv.0.selected.name", "nobody"),
        ("data.n", -1), ("data.n", 1.5), ("data.notes", "none"), ("model.scheme", "other"), ("intervals.level", 2),
        ("intervals.schemes.range", {"fade": 1e9}), ("ranking.0.feature", None), ("groups.0", []),
        ("provenance.machine", None), ("provenance.files", [{}]), ("versions", ["numpy"]),
    ],
)  # fmt: skip
def test_metrics_sealed_anew_must_still_be_metrics(
    copy: Path, trained: Path, data: Path, path: str, value: Any
) -> None:
    metrics = json.loads((copy / "metrics.json").read_text(encoding="utf-8"))
    _replaced(metrics, path, value)
    (copy / "metrics.json").write_text(json.dumps(metrics), encoding="utf-8")
    seal(copy)
    for line in (("show", copy), ("compare", copy, trained)):
        done = call(*line)
        assert (done.exit_code, done.stderr.count("\n")) == (2, 1), done.output
    with pytest.raises(ArtifactError, match=r"metrics\.json"):
        fc.load(copy)


@pytest.mark.parametrize(
    "change",
    [
        lambda table: table.drop(columns="ape"),
        lambda table: table.assign(ape="large"),
        lambda table: table.assign(row=np.nan),
        lambda table: table.assign(group=table["fold"].map(lambda fold: [fold])),
        lambda table: table.assign(**{"FLOPS scaling": "x"}),
        lambda table: table.iloc[:0],
        lambda table: pd.concat([table] * 20),
        lambda table: table.assign(predicted=np.nan),
        lambda table: table.assign(observed=-table["observed"]),
        lambda table: table.assign(row=10**9),
        lambda table: table.assign(model="of another run"),
        lambda table: table[table["model"] == "FLOPS scaling"],
        lambda table: pd.concat([table.iloc[1:], table.iloc[1:2]]),
    ],
)
def test_predictions_sealed_anew_must_still_be_those_of_the_metrics(
    copy: Path, trained: Path, change: Callable[[pd.DataFrame], pd.DataFrame]
) -> None:
    path = copy / "predictions.parquet"
    change(pd.read_parquet(path)).to_parquet(path, index=False)
    seal(copy)
    for line in (("show", copy, "--plot"), ("compare", copy, trained)):
        done = call(*line)
        assert (done.exit_code, done.stderr.count("\n")) == (2, 1), done.output
    with pytest.raises(ArtifactError, match=r"predictions\.parquet"):
        fc.load(copy)


@pytest.mark.parametrize("index", ["row", "model", "source"])
def test_an_index_that_pandas_wrote_beside_the_predictions_is_a_column(
    copy: Path, trained: Path, index: str
) -> None:
    path = copy / "predictions.parquet"
    pd.read_parquet(path).set_index(index).to_parquet(path)
    seal(copy)
    for line in (("show", copy, "--plot"), ("compare", copy, trained)):
        done = call(*line)
        assert done.exit_code == 0, done.output
    assert index in fc.load(copy).predictions


def test_a_run_of_many_workloads_is_loaded_each_text_once(copy: Path) -> None:
    metrics, path = json.loads((copy / "metrics.json").read_text()), copy / "predictions.parquet"
    few = pd.read_parquet(path)
    many = few.take(np.arange(300_000) % len(few)).assign(row=np.arange(300_000))
    # 0.6 GB, were each row's made
    places = [f"{'folder/' * 300}{place}.csv" for place in range(100)]
    many["source"] = pd.Categorical.from_codes(np.arange(300_000) % 100, places)
    many.to_parquet(path, index=False)
    metrics["data"]["n"] = 300_000
    (copy / "metrics.json").write_text(json.dumps(metrics))
    seal(copy)
    assert fc.load(copy).predictions["source"].memory_usage() < 1e7


def test_nothing_is_written_into_a_run(copy: Path, data: Path) -> None:
    done = call("predict", copy, data, "--out", copy / "predicted.csv")
    assert (done.exit_code, done.stderr.count("\n")) == (2, 1)
    assert "lies in a run" in done.stderr
    assert call("show", copy, "--verify").exit_code == 0

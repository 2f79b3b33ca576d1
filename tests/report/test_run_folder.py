from __future__ import annotations

import json
import os
from pathlib import Path

import numpy as np
import pandas as pd
import pyarrow.parquet as pq
import pytest

from flopcast import staging
from flopcast.errors import ArtifactError, DataError
from flopcast.output import replacing
from flopcast.report.run_folder import check_run_folder, ordered, read_metrics, reference, write_run

PREDICTIONS = pd.DataFrame({"row": [0, 1], "model": ["OLS", "OLS"], "predicted": [1.0, 1 / 3]})
MODELS = [{"name": "OLS", "ir": {"10": 1.0, "5": np.float64(1 / 3)}, "e_in": float("nan")}]
CV = [{"scheme": "kfold", "models": MODELS, "selected": {"name": "OLS"}}]
METRICS = {"data": {"n": 2}, "cv": CV, "model": {"name": "OLS", "scheme": "kfold"}}


def save_model(path: Path) -> None:
    path.mkdir()
    (path / "manifest.json").write_text("{}")


def write(folder: Path, html: str = "<p>", **changes) -> None:
    parts = {"metrics": METRICS, "predictions": PREDICTIONS, "save_model": save_model, **changes}
    write_run(folder, html=html, **parts)


def contents(folder: Path) -> dict[str, bytes]:
    return {
        str(path.relative_to(folder)): path.read_bytes()
        for path in sorted(folder.rglob("*"))
        if path.is_file()
    }


def test_a_run_has_its_parts_and_reads_back(tmp_path):
    write(tmp_path / "runs" / "a", "<p>é")
    parts = {
        "metrics.json",
        "predictions.parquet",
        "model/manifest.json",
        "report.html",
        "manifest.json",
    }
    assert set(contents(tmp_path / "runs" / "a")) == parts
    assert os.listdir(tmp_path / "runs") == ["a"]
    assert (tmp_path / "runs" / "a" / "report.html").read_text(encoding="utf-8") == "<p>é"
    pd.testing.assert_frame_equal(
        pd.read_parquet(tmp_path / "runs" / "a" / "predictions.parquet"), PREDICTIONS
    )
    assert read_metrics(tmp_path / "runs" / "a")["data"] == {"n": 2}


def test_a_text_of_many_predictions_stands_once_in_their_file(tmp_path):
    texts, codes = [f"{number:0100}" for number in range(15_000)], np.tile(np.arange(15_000), 80)
    many = pd.DataFrame(
        {"row": codes, "predicted": 1.0, "source": pd.Categorical.from_codes(codes, texts)}
    )
    write(tmp_path / "a", predictions=many)
    with pq.ParquetFile(tmp_path / "a" / "predictions.parquet") as file:
        groups = [file.metadata.row_group(number) for number in range(file.num_row_groups)]
        assert sum(
            group.column(2).total_uncompressed_size for group in groups
        ) < 1.5 * 1.5e6 + 2 * len(many)
        assert file.read(["source"]).to_pandas()["source"].equals(many["source"])


def test_metrics_are_rounded_sorted_and_without_nan(tmp_path):
    write(tmp_path / "a")
    metrics = json.loads((tmp_path / "a" / "metrics.json").read_text())
    assert list(metrics) == ["cv", "data", "model", "schema"]
    assert metrics["schema"] == 1
    assert metrics["cv"][0]["models"] == [
        {"e_in": None, "ir": {"5": 0.333333333, "10": 1.0}, "name": "OLS"}
    ]
    assert list(metrics["cv"][0]["models"][0]["ir"]) == ["5", "10"]


def test_the_same_input_gives_the_same_bytes_in_any_order_of_keys(tmp_path):
    write(tmp_path / "a")
    write(tmp_path / "b", metrics=dict(reversed(METRICS.items())))
    assert contents(tmp_path / "a") == contents(tmp_path / "b")


def test_the_folder_is_as_readable_as_any_other(tmp_path):
    (tmp_path / "plain").mkdir()
    write(tmp_path / "a")
    assert (tmp_path / "a").stat().st_mode == (tmp_path / "plain").stat().st_mode


@pytest.mark.parametrize("error", [ValueError, KeyboardInterrupt, SystemExit])
@pytest.mark.parametrize("existing", [False, True])
def test_nothing_is_left_and_nothing_lost_when_writing_fails(tmp_path, error, existing):
    if existing:
        write(tmp_path / "a", "<p>old")
    before = contents(tmp_path)

    def fail(path: Path) -> None:
        save_model(path)
        raise error

    with pytest.raises(error):
        write(tmp_path / "a", "<p>new", save_model=fail)
    assert contents(tmp_path) == before
    assert os.listdir(tmp_path) == (["a"] if existing else [])


def test_the_previous_run_returns_when_the_swap_is_interrupted(tmp_path, monkeypatch):
    write(tmp_path / "a", "<p>old")
    rename = Path.rename

    def interrupted(self: Path, target: Path) -> Path:
        if self.name == "new":
            raise KeyboardInterrupt
        return rename(self, target)

    monkeypatch.setattr(staging, "_exchanged", lambda *_: False)
    monkeypatch.setattr(Path, "rename", interrupted)
    with pytest.raises(KeyboardInterrupt):
        write(tmp_path / "a", "<p>new")
    assert (tmp_path / "a" / "report.html").read_text() == "<p>old"
    assert os.listdir(tmp_path) == ["a"]


def test_a_previous_run_that_cannot_return_is_not_removed(tmp_path, monkeypatch):
    write(tmp_path / "a", "<p>old")
    rename = Path.rename

    def broken(self: Path, target: Path) -> Path:
        if self.name in ("new", "previous"):
            raise OSError("disk gone")
        return rename(self, target)

    monkeypatch.setattr(staging, "_exchanged", lambda *_: False)
    monkeypatch.setattr(Path, "rename", broken)
    with pytest.raises(DataError, match="disk gone"):
        write(tmp_path / "a", "<p>new")
    assert [path.read_text() for path in tmp_path.glob(".a.*/previous/report.html")] == ["<p>old"]


def test_a_run_is_replaced_and_its_signature_removed(tmp_path):
    write(tmp_path / "a", "<p>old")
    (tmp_path / "a" / "manifest.json.sig").write_text("of the old one")
    (tmp_path / "a" / "model" / "stale").write_text("old")
    write(tmp_path / "a", "<p>new")
    assert (tmp_path / "a" / "report.html").read_text() == "<p>new"
    assert not (tmp_path / "a" / "model" / "stale").exists()
    assert not (tmp_path / "a" / "manifest.json.sig").exists()
    assert os.listdir(tmp_path) == ["a"]
    read_metrics(tmp_path / "a")


def test_what_the_user_put_into_a_run_is_not_touched(tmp_path):
    write(tmp_path / "a", "<p>old")
    (tmp_path / "a" / "notes.txt").write_text("mine")
    before = contents(tmp_path)
    with pytest.raises(ArtifactError, match=r"notes\.txt"):
        write(tmp_path / "a", "<p>new")
    assert contents(tmp_path) == before


def test_an_empty_folder_and_a_link_to_a_run_are_filled(tmp_path):
    (tmp_path / "a").mkdir()
    write(tmp_path / "a", "<p>1")
    (tmp_path / "link").symlink_to(tmp_path / "a")
    write(tmp_path / "link", "<p>2")
    assert (tmp_path / "link").is_symlink()
    assert (tmp_path / "a" / "report.html").read_text() == "<p>2"


@pytest.mark.parametrize(
    "text", [None, "{}", "[1]", "not json", '{"schema": "1"}', '{"schema": 5}', '{"schema": true}']
)
def test_a_foreign_folder_is_not_touched(tmp_path, text):
    (tmp_path / "a").mkdir()
    (tmp_path / "a" / "thesis.tex").write_text("years of work")
    if text is not None:
        (tmp_path / "a" / "metrics.json").write_text(text)
    before = contents(tmp_path)
    with pytest.raises(ArtifactError, match=r"holds what is not of a run \(thesis.tex"):
        write(tmp_path / "a")
    assert contents(tmp_path) == before


def test_a_file_in_the_way_is_not_touched(tmp_path):
    (tmp_path / "a").write_text("x")
    with pytest.raises(ArtifactError, match="another folder"):
        write(tmp_path / "a")
    assert (tmp_path / "a").read_text() == "x"


@pytest.mark.parametrize(
    ("text", "said"),
    [
        (None, r"metrics\.json"),
        ("{", "JSON"),
        ("[" * 100_000, "JSON"),
        ("[]", "was not written by flopcast"),
        ('{"schema": 0}', "was not written by flopcast"),
        ('{"schema": 5}', "schema 5"),
    ],
)
def test_what_is_not_a_run_is_refused_in_one_line(tmp_path, text, said):
    if text is not None:
        (tmp_path / "metrics.json").write_text(text)
    with pytest.raises(ArtifactError, match=said) as info:
        read_metrics(tmp_path)
    assert "\n" not in str(info.value)


def test_a_missing_folder_says_so(tmp_path):
    with pytest.raises(ArtifactError, match="`train`"):
        read_metrics(tmp_path / "nowhere")


BASELINES = [
    {"name": "affine", "e_out": 12.0, "space": "relative error"},
    {"name": "roofline scaling", "e_out": 24.0, "space": "no fitting"},
    {"name": "FLOPS scaling", "e_out": 31.72, "space": "no fitting"},
]


def test_models_are_ordered_by_error_then_name_with_failures_last() -> None:
    models = [("b", 9.5, None), ("gp", None, "singular"), ("a", 9.0, None), ("c", 9.0, None)]
    rows = [{"name": name, "e_out": error, "error": why} for name, error, why in models]
    chosen = {"name": "a", "tied": ["c", "b"]}
    found = [
        (row["name"], kind)
        for row, kind in ordered({"baselines": BASELINES, "models": rows, "selected": chosen})
    ]
    laws = [(row["name"], "baseline") for row in BASELINES]
    assert found == [*laws, ("a", "selected"), ("c", "tied"), ("b", "tied"), ("gp", "")]


def test_who_left_early_stands_last_by_how_much_worse_and_a_baseline_can_be_selected() -> None:
    left = {"e_out": None, "error": None}
    rows = [
        {"name": "forest", **left, "left": {"code": "cannot-win", "folds": 4, "times": 2.0}},
        {"name": "network", **left, "left": {"code": "cannot-win", "folds": 2, "times": 1.5}},
        {"name": "bad", "e_out": 90.0, "left": None, "error": None},
    ]
    found = ordered(
        {
            "baselines": BASELINES[:2],
            "models": rows,
            "selected": {"name": "affine", "tied": ["affine"]},
        }
    )
    kinds = ["selected", "baseline", "", "left", "left"]
    assert [(row["name"], kind) for row, kind in found] == list(
        zip(["affine", "roofline scaling", "bad", "network", "forest"], kinds, strict=True)
    )


@pytest.mark.parametrize(
    ("rows", "name"),
    [
        (BASELINES, "FLOPS scaling"),
        (BASELINES[:2], "roofline scaling"),
        (BASELINES[:1], "affine"),
        ([], None),
    ],
)
def test_the_reference_is_flops_scaling_then_an_unfitted_law_then_any(
    rows: list, name: str | None
) -> None:
    found = reference({"baselines": [*rows, {"name": "FLOPS scaling", "e_out": None}]})
    assert found == next((row for row in BASELINES if row["name"] == name), None)


@pytest.mark.parametrize("overwrite", [False, True])
def test_files_that_overwriting_does_not_replace_are_not_said_to_be_by_it(
    tmp_path: Path, overwrite: bool
) -> None:
    (tmp_path / "notes.txt").write_text("mine")
    with (
        replacing(overwrite=overwrite),
        pytest.raises(ArtifactError, match=r"notes\.txt") as refused,
    ):
        check_run_folder(tmp_path)
    assert "overwrite" not in str(refused.value)
    (tmp_path / "notes.txt").rename(tmp_path / "report.html")
    with replacing(overwrite=True):
        check_run_folder(tmp_path)
    with pytest.raises(ArtifactError, match="give overwrite=True"):
        check_run_folder(tmp_path)

"""What results may replace, by command and by call: flopcast's own files, others to ``--force``, inputs never."""

from __future__ import annotations

import inspect
import json
import os
from pathlib import Path
from typing import Any

import pandas as pd
import pytest

import flopcast as fc
from flopcast.commands.app import COMMANDS, load
from flopcast.errors import FlopcastError
from flopcast.tests.commands.running import call

MINE = "m,n,k\n1,2,3\n"
GEMM = {"op": "gemm", "dtype_a": "bf16", "n": 512, "k": 512, "device": "MI300X"}


def measured(folder: Path, name: str, count: int = 3) -> Path:
    rows = [GEMM | {"m": 64 * size, "duration_us": 40.0 * size} for size in range(1, count + 1)]
    file = folder / name
    pd.DataFrame(rows).to_csv(file, index=False)
    return file


@pytest.fixture(scope="module")
def run(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("runs") / "run"
    fc.train(where={"m": (None, 64)}, models=["OLS"], jobs=1).save(folder)
    return folder


@pytest.fixture(scope="module")
def rows(tmp_path_factory: pytest.TempPathFactory) -> Path:
    file = tmp_path_factory.mktemp("rows") / "rows.csv"
    fc.read(where={"m": (None, 2)}).frame.to_csv(file, index=False)
    return file


def test_data_given_one_after_the_other_are_all_read_and_none_is_written(tmp_path: Path) -> None:
    one, other = measured(tmp_path, "a.csv"), measured(tmp_path, "b.csv", 5)
    before = other.read_bytes()
    assert fc.ingest(one, other, jobs=1).rows == fc.read(one, other).frame.shape[0] == 5
    assert other.read_bytes() == before


def test_no_function_takes_where_to_write_by_its_place() -> None:
    writes = {"out", "folder", "cache", "fits"}
    for name in fc.__all__:
        called = getattr(fc, name)
        if inspect.isfunction(called):
            for parameter in inspect.signature(called).parameters.values():
                told = (name, parameter.name)
                assert (
                    parameter.name not in writes
                    or parameter.kind == parameter.KEYWORD_ONLY
                    or name == "load"
                ), told


def test_every_command_that_writes_can_be_forced() -> None:
    for name in COMMANDS:
        command = load(name)
        for inner in getattr(command, "commands", {"": command}).values():
            names = {one.name for one in inner.params}
            writes = bool(names & {"out", "removed", "script", "corrected", "chakra"})
            assert ("force" in names) == writes, (name, inner.name)


@pytest.mark.parametrize("suffix", [".csv", ".parquet", ".json", ".xlsx"])
def test_predictions_replace_those_of_before_and_no_file_of_the_user(
    run: Path, rows: Path, tmp_path: Path, suffix: str
) -> None:
    if suffix == ".xlsx":
        pytest.importorskip("openpyxl")
    out = tmp_path / f"out{suffix}"
    for _ in range(2):
        assert call("predict", run, rows, "--out", out).exit_code == 0
        fc.predict(run, rows, out=out)
        fc.predict(run, rows).save(out)
    out.write_text(MINE)
    done = call("predict", run, rows, "--out", out)
    assert (done.exit_code, done.stderr.count("\n")) == (2, 1)
    assert "--force" in done.stderr
    for refused in (
        lambda: fc.predict(run, rows, out=out),
        lambda: fc.predict(run, rows).save(out),
    ):
        with pytest.raises(FlopcastError, match="overwrite=True"):
            refused()
    assert out.read_text() == MINE
    fc.predict(run, rows, out=out, overwrite=True)
    assert len(fc.read_predictions(out).frame) == len(pd.read_csv(rows).query("device == 'MI300X'"))
    out.write_text(MINE)
    assert call("predict", run, rows, "--out", out, "--force").exit_code == 0
    assert len(fc.read_predictions(out).frame)


def test_a_spreadsheet_or_table_that_was_saved_again_is_the_users(
    run: Path, rows: Path, tmp_path: Path
) -> None:
    out = tmp_path / "out.csv"
    fc.predict(run, rows, out=out)
    pd.read_csv(out).assign(note="mine").to_csv(out, index=False)
    with pytest.raises(FlopcastError, match="overwrite=True"):
        fc.predict(run, rows, out=out)
    parquet = tmp_path / "out.parquet"
    fc.predict(run, rows, out=parquet)
    pd.read_parquet(parquet).assign(note="mine").to_parquet(parquet)
    with pytest.raises(FlopcastError, match="overwrite=True"):
        fc.predict(run, rows, out=parquet)


@pytest.mark.parametrize("suffix", [".csv", ".parquet"])
def test_a_table_to_fill_in_is_replaced_where_nobody_has_filled_it_in(
    tmp_path: Path, suffix: str
) -> None:
    out = tmp_path / f"gemm{suffix}"
    codes = [call("schema", "gemm", "--out", out).exit_code for _ in range(2)]
    assert codes == [0, 0]
    assert call("schema", "conv", "--out", out).exit_code == (2 if suffix == ".csv" else 0)


def test_a_table_that_is_filled_in_is_never_replaced_unasked(tmp_path: Path) -> None:
    out = tmp_path / "gemm.csv"
    assert call("schema", "gemm", "--out", out).exit_code == 0
    out.write_text(out.read_text().replace("150", "140"))
    assert call("schema", "gemm", "--out", out).exit_code == 2
    out.write_text(f"{out.read_text()}filled in\n")
    assert call("schema", "gemm", "--out", out).exit_code == 2
    assert "filled in" in out.read_text()
    assert call("schema", "gemm", "--out", out, "--force").exit_code == 0


def spellings(file: Path) -> dict[str, Path]:
    folder = file.parent
    (folder / "symbolic.csv").symlink_to(file)
    os.link(file, folder / "hard.csv")
    return {
        "itself": file,
        "dotted": folder / "." / "x" / ".." / file.name,
        "symbolic": folder / "symbolic.csv",
        "hard": folder / "hard.csv",
    }


@pytest.mark.parametrize("how", ["itself", "dotted", "symbolic", "hard"])
@pytest.mark.parametrize("force", [False, True])
def test_what_is_read_is_never_replaced_however_it_is_called(
    tmp_path: Path, how: str, force: bool
) -> None:
    (tmp_path / "x").mkdir()
    file = measured(tmp_path, "a.csv")
    out, before = spellings(file)[how], file.read_bytes()
    done = call("ingest", file, "-o", out, *(["--force"] if force else []))
    assert (done.exit_code, done.stderr.count("\n")) == (2, 1)
    assert "is read" in done.stderr
    with pytest.raises(FlopcastError, match="is read"):
        fc.ingest(file, out=out, overwrite=force, jobs=1)
    with pytest.raises(FlopcastError, match="is read"):
        fc.ingest(tmp_path, out=out, overwrite=force, jobs=1)
    assert file.read_bytes() == before


def test_a_prior_release_is_no_place_for_the_new_one(tmp_path: Path) -> None:
    cases = tmp_path / "runs.csv"
    one = {"model": "llama-3.1-8b", "gpu": "MI300X", "input_len": 128, "output_len": 512}
    pd.DataFrame([one | {"batch": 1, "measured": 2.1}, one | {"batch": 8, "measured": 2.4}]).to_csv(
        cases, index=False
    )
    mine = tmp_path / "mine.toml"
    assert call("calibrate", cases, "-o", mine).exit_code == 0
    assert call("calibrate", cases, "-o", mine).exit_code == 0
    done = call("calibrate", cases, "--prior", mine, "-o", mine, "--force")
    assert (done.exit_code, "is read" in done.stderr) == (2, True)
    mine.write_text("[tool]\n")
    assert call("calibrate", cases, "-o", mine).exit_code == 2
    assert mine.read_text() == "[tool]\n"


FOLDERS: list[tuple[str, tuple[str, ...]]] = [
    ("forecast.json", ("forecast", "hpl", "--gpu", "MI300X", "--gpus", "8")),
    ("scale.json", ("scale", "predict", "--fit", "8,16", "--sizes", "32", "--performance", "1,2")),
]


@pytest.mark.parametrize(("name", "words"), FOLDERS)
def test_a_folder_is_replaced_where_its_files_are_flopcasts(
    tmp_path: Path, name: str, words: tuple[str, ...]
) -> None:
    out = tmp_path / "out"
    assert [call(*words, "--out", out).exit_code for _ in range(2)] == [0, 0]
    theirs = tmp_path / "theirs"
    theirs.mkdir()
    (theirs / name).write_text("{}")
    done = call(*words, "--out", theirs)
    assert (done.exit_code, "--force" in done.stderr) == (2, True)
    assert (theirs / name).read_text() == "{}"
    assert call(*words, "--out", theirs, "--force").exit_code == 0
    assert json.loads((theirs / name).read_text())


def test_a_run_is_replaced_by_a_run_but_not_by_one_that_reads_it(run: Path, tmp_path: Path) -> None:
    saved = fc.load(run)
    saved.save(tmp_path / "run")
    saved.save(tmp_path / "run")
    train = (
        "train",
        "--target",
        "MI300X",
        "--where",
        "m=..64",
        "--models",
        "OLS",
        "--jobs",
        "1",
        "--quiet",
    )
    done = call(*train, tmp_path, "--out", tmp_path / "run", "--force")
    assert (done.exit_code, "is read" in done.stderr) == (2, True)
    done = call(*train, "--from", tmp_path / "run", "--out", tmp_path / "run", "--force")
    assert (done.exit_code, "is read" in done.stderr) == (2, True)
    theirs = tmp_path / "theirs"
    theirs.mkdir()
    (theirs / "metrics.json").write_text("{}")
    with pytest.raises(FlopcastError, match="overwrite=True"):
        saved.save(theirs)
    saved.save(theirs, overwrite=True)
    assert fc.load(theirs).selected == saved.selected


def test_fits_replace_fits_alone(tmp_path: Path) -> None:
    fits = tmp_path / "sky.fits"
    fits.write_bytes(b"SIMPLE  =                    T")
    asked: dict[str, Any] = {"where": {"m": (None, 64)}, "models": ["OLS"], "jobs": 1, "fits": fits}
    with pytest.raises(FlopcastError, match="overwrite=True"):
        fc.train(**asked)
    assert fits.read_bytes().startswith(b"SIMPLE")
    fc.train(**asked, overwrite=True)
    fc.train(**asked)


MISSES = (
    "scale",
    "misses",
    "addresses.txt",
    "--sizes",
    "8,16",
    "--cache-mb",
    "1,2",
    "--instructions",
    "1000",
)


def test_miss_rates_are_replaced_until_somebody_fills_in_the_performance(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    Path("addresses.txt").write_text("0\n128\n0\n128\n")
    assert [call(*MISSES).exit_code for _ in range(2)] == [0, 0]
    written = Path("runs.csv").read_text()
    filled_in = written.replace(",16,,", ",16,7.5,")
    assert filled_in != written
    Path("runs.csv").write_text(filled_in)
    assert call(*MISSES).exit_code == 2
    assert Path("runs.csv").read_text() == filled_in


def test_what_was_measured_for_scaling_does_not_replace_the_table_it_is_called_like(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    Path("runs.csv").write_text(MINE)
    Path("addresses.txt").write_text("0\n128\n0\n128\n")
    assert call(*MISSES).exit_code == 2
    assert Path("runs.csv").read_text() == MINE
    assert call(*MISSES, "--force").exit_code == 0

"""What is no file of its kind ends in one line and exit code 2, and nothing is written."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

import flopcast as fc
from flopcast.errors import DataError

from .running import call

MEASURED = "op,device,dtype,m,n,k,duration_us\ngemm,MI300X,bf16,64,64,64,5\n"


def refused(line: str, words: dict[str, Path]) -> str:
    """Run a command that must be refused, and return its line."""
    result = call(*(words.get(word, word) for word in line.split()))
    assert (result.exit_code, result.stderr.count("\n")) == (2, 1), result.output
    return result.stderr


READ = (
    "forecast cases FILE",
    "scale predict FILE --fit 8,16",
    "scale terms FILE --at x=100",
    "forecast llama-3.1-8b --gpu MI300X --batch 8 --input-len 8 --output-len 8 --release FILE",
    "power profile FILE --executions FILE --clocks FILE",
)


@pytest.mark.parametrize("line", [READ[0], READ[2]])
def test_a_folder_is_no_file(line: str, tmp_path: Path) -> None:
    folder = tmp_path / "folder.csv"
    folder.mkdir()
    assert "folder.csv: is a folder: give a file" in refused(line, {"FILE": folder})


SERVED = "forecast llama-3.1-8b --gpu MI300X --concurrency 8 --release FILE"


def test_a_folder_is_no_model_of_serving(tmp_path: Path) -> None:
    folder = tmp_path / "own.parquet"
    folder.mkdir()
    assert "own.parquet: is a folder: give a file" in refused(SERVED, {"FILE": folder})


@pytest.mark.parametrize("line", [SERVED, READ[3]])
def test_runs_are_no_release_until_they_are_calibrated(line: str, tmp_path: Path) -> None:
    runs = tmp_path / "runs.csv"
    runs.write_text(MEASURED)
    assert "flopcast calibrate takes runs" in refused(line, {"FILE": runs})


@pytest.mark.parametrize(
    "line",
    [
        "ingest FILE",
        "calibrate FILE --out own.parquet",
        SERVED,
        "power profile FILE --executions FILE",
    ],
)
def test_a_pipe_is_to_be_saved_first(line: str, tmp_path: Path) -> None:
    pipe = tmp_path / "pipe"
    os.mkfifo(pipe)
    assert "pipe: is a pipe or a device, no file: save what" in refused(line, {"FILE": pipe})


@pytest.mark.parametrize("line", READ[:2])
def test_a_file_of_nothing_is_empty_and_lacks_no_column(line: str, tmp_path: Path) -> None:
    file = tmp_path / "empty.csv"
    file.touch()
    assert "empty.csv: is empty" in refused(line, {"FILE": file})


@pytest.mark.parametrize("line", READ)
@pytest.mark.parametrize("kind", ["folder", "empty", "missing", "loop"])
def test_what_is_no_file_is_one_line(line: str, kind: str, tmp_path: Path) -> None:
    path = tmp_path / "given.toml"
    if kind == "folder":
        path.mkdir()
    if kind == "empty":
        path.touch()
    if kind == "loop":
        path.symlink_to(path)
    assert "given.toml" in refused(line, {"FILE": path})


def test_measurements_are_no_runs_to_calibrate_with(tmp_path: Path) -> None:
    file, out = tmp_path / "measured.csv", tmp_path / "own.parquet"
    file.write_text(MEASURED)
    assert "is a run of serving" in refused("calibrate FILE --out OUT", {"FILE": file, "OUT": out})
    assert not out.exists()


@pytest.mark.parametrize("out", ["-", "~", "~/predicted.csv", "~me/predicted.csv"])
def test_a_name_that_means_something_else_to_a_shell_is_no_output(
    out: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    (tmp_path / "measured.csv").write_text(MEASURED)
    refused(f"ingest measured.csv --out {out}", {})
    with pytest.raises(DataError, match=r"choose another|give the whole path"):
        fc.ingest("measured.csv", out=out)
    assert [path.name for path in tmp_path.iterdir()] == ["measured.csv"]
    assert call("ingest", "measured.csv", "--out", "~measured.csv").exit_code == 0

"""The frame that benchmarks on measured data share."""

from __future__ import annotations

import argparse
from pathlib import Path

import pytest

from flopcast.benchmarks.shared_data import run_on_data
from flopcast.errors import DataError

PATHS = {"out": "the file to write", "--sample": "a sample"}


def test_files_are_arguments_or_options_that_may_be_left_out(tmp_path: Path) -> None:
    asked = list[argparse.Namespace]()
    arguments = ["made.parquet", "--data", str(tmp_path)]
    assert run_on_data("any", None, asked.append, arguments, paths=PATHS) == 0
    assert (
        run_on_data("any", None, asked.append, [*arguments, "--sample", "a.csv"], paths=PATHS) == 0
    )
    assert [options.out for options in asked] == [Path("made.parquet")] * 2
    assert [options.sample for options in asked] == [None, Path("a.csv")]


def test_nothing_is_run_without_the_data(tmp_path: Path) -> None:
    asked = list[argparse.Namespace]()
    arguments = ["made.parquet", "--data", str(tmp_path / "nowhere")]
    assert run_on_data("any", None, asked.append, arguments, paths=PATHS) == 0
    assert not asked


@pytest.mark.parametrize("error", [DataError("no such column"), FileNotFoundError("runs.csv")])
def test_data_that_cannot_be_used_are_refused_in_a_line(
    tmp_path: Path, error: Exception, capsys: pytest.CaptureFixture[str]
) -> None:
    def show(options: argparse.Namespace) -> None:
        raise error

    assert run_on_data("any", None, show, ["--data", str(tmp_path)]) == 2
    assert str(error) in capsys.readouterr().err

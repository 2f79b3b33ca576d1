"""The command counters: passes against error, and an input file for the profiler."""

from __future__ import annotations

import json
from functools import partial
from pathlib import Path

import pytest

from flopcast.benchmarks.made_up_counters import workloads
from flopcast.evaluation import counter_choice
from flopcast.tests.commands import running

run = partial(running.call, "counters", "--jobs", "1")


@pytest.fixture
def made_up(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setattr(counter_choice, "CATEGORIES", {"NNLS": ("NNLS",)})
    path = tmp_path / "made_up.parquet"
    workloads(60, 24).to_parquet(path)
    return path


def test_it_writes_what_to_record_in_each_pass(made_up: Path, tmp_path: Path) -> None:
    options = [
        "--host",
        "MI300X",
        "--target",
        "MI355X",
        "--max-passes",
        "1",
        "--without-features",
        "counter.TA*",
    ]
    result = run(made_up, *options, "-o", tmp_path / "pmc.txt", "--json")
    assert result.exit_code == 0, result.output
    found = json.loads(result.stdout)
    assert [one["columns"] for one in found["trials"]] == [
        "0 passes",
        "1 pass",
        "all",
        "without counter.TA*",
    ]
    assert (found["counters"], found["advised"]["passes"], len(found["passes"])) == (24, 1, 1)
    comment, *lines = (tmp_path / "pmc.txt").read_text().splitlines()
    assert (comment[0], lines) == ("#", [f"pmc: {' '.join(found['passes'][0])}"])


def test_limits_of_ones_own_are_taken(made_up: Path) -> None:
    result = run(
        made_up,
        "--host",
        "MI300X",
        "--target",
        "MI355X",
        "--per-pass",
        "TA=9",
        "--json",
        "--max-passes",
        "0",
    )
    assert json.loads(result.stdout)["per_pass"]["TA"] == 9


@pytest.mark.parametrize(
    ("options", "said"),
    [
        (["--max-passes", "-1"], "--max-passes must be 0 or more, got -1"),
        (["--per-pass", "L9=2"], "--per-pass must be BLOCK=N"),
        (["--per-pass", "SQ=x"], "--per-pass must be NAME=N with a whole number N"),
        (["--without-features", "nothing*"], "nothing* matches no feature"),
        (["-o", "pmc.csv"], "--out must end in .txt"),
        (["--where", "device=MI355X"], "no row was measured on MI300X"),
    ],
)
def test_what_the_user_got_wrong_is_one_line(made_up: Path, options: list[str], said: str) -> None:
    result = run(made_up, "--host", "MI300X", "--target", "MI355X", *options)
    assert result.exit_code == 2
    assert said in result.stderr
    assert len(result.stderr.splitlines()) == 1

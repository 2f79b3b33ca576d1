"""`flopcast plan`: from a trace to passes, their proof, and durations for a projection."""

from __future__ import annotations

import json
from functools import partial
from pathlib import Path

import pytest

from flopcast.projection.passes import COUNTER, KERNELS_PER_PASS, STEPS
from flopcast.tests.commands import running
from flopcast.tests.readers.kineto.made_up import write_trace

invoke = partial(running.call, "plan")


def test_planned_recorded_proved_and_projected(tmp_path: Path) -> None:
    full = write_trace(tmp_path / "t.json", kernels=10)
    plan = json.loads(invoke("rocprofv3", full, "--json").output)
    assert (plan["passes"], plan["steps"], plan["kernels"][0]["launches"]) == (1, 50, 500)
    assert "'[1-500]'" in plan["commands"][0]
    script = invoke("rocprofv3", full, "--script", tmp_path / "p.sh")
    assert script.exit_code == 0, script.output
    assert (tmp_path / "p.sh").read_text().endswith('-- "$@"\n')
    (tmp_path / "passes").mkdir()
    write_trace(tmp_path / "passes" / "one.json", kernels=10, duration=150)
    checked = ["torch", full, "--check", tmp_path / "passes"]
    assert (
        json.loads(invoke(*checked, "--steps-per-pass", "2", "--json").output)["coverage"][
            "missing"
        ][0]["covered"]
        == 10
    )
    words = invoke(
        *checked,
        "--steps-per-pass",
        "1",
        "--out",
        tmp_path / "m.parquet",
        "--script",
        tmp_path / "p.py",
    )
    assert "coverage complete" in words.output
    compile((tmp_path / "p.py").read_text(), "p", "exec")
    words = (*checked, "--steps-per-pass", "1", "--out", tmp_path / "m.csv")
    assert [invoke(*words).exit_code for _ in range(2)] == [0, 0]
    arguments = [
        "project",
        full,
        "--target",
        "MI300X",
        "--durations",
        tmp_path / "m.parquet",
        "--json",
    ]
    [projected] = json.loads(running.call(*arguments).stdout)
    assert projected["measured_us"] == pytest.approx(1500)


def test_names_are_enough(tmp_path: Path) -> None:
    (tmp_path / "names.txt").write_text("a\nb\na\n")
    found = json.loads(
        invoke("rocprofv3", tmp_path / "names.txt", "--kernels-per-pass", "1", "--json").output
    )
    assert [(row["pass"], row["name"], row["launches"]) for row in found["kernels"]] == [
        (1, "a", 100),
        (2, "b", 50),
    ]
    assert f"--pmc {COUNTER} " in found["commands"][0]
    assert (KERNELS_PER_PASS, STEPS) == (20, 50)


@pytest.mark.parametrize(
    ("arguments", "says"),
    [
        (["perf", "names.txt"], "PROFILER"),
        (["rocprofv3", "names.txt", "--steps-per-pass", "0"], "--steps-per-pass"),
        (["rocprofv3", "names.txt", "--counters", " "], "--counters"),
        (["rocprofv3", "names.txt", "--out", "m.parquet"], "--out"),
        (["rocprofv3", "names.txt", "--script", "p.py"], "--script"),
        (["rocprofv3", "names.txt", "--check", "."], "no trace"),
    ],
)
def test_mistakes_end_as_one_line(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, arguments: list[str], says: str
) -> None:
    monkeypatch.chdir(tmp_path)
    (tmp_path / "names.txt").write_text("a\n")
    result = invoke(*arguments)
    assert result.exit_code == 2
    assert says in result.output
    assert len(result.output.strip().splitlines()) == 1

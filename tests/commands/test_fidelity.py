"""`flopcast fidelity`: traces of one workload against each other and its unprofiled time."""

from __future__ import annotations

import json
from functools import partial
from pathlib import Path

import pytest

from flopcast.tests.commands import running
from flopcast.tests.readers.kineto.made_up import write_trace

invoke = partial(running.call, "fidelity")


def test_the_trace_nearest_to_the_unprofiled_time_is_believed(tmp_path: Path) -> None:
    fast = write_trace(tmp_path / "fast.json", duration=300)
    slow = write_trace(tmp_path / "slow.json", duration=360)
    result = invoke(slow, fast, "--unprofiled-us", "8900", "--json")
    assert result.exit_code == 0, result.output
    found = json.loads(result.stdout)
    assert found["best"] == "fast.json"
    assert [trace["end_to_end_per_step_us"] for trace in found["traces"]] == pytest.approx(
        [10_800, 9000]
    )
    assert [trace["overhead"] for trace in found["traces"]] == pytest.approx([21.3, 1.1], abs=0.1)
    assert [row["ratio"] for row in found["kernels"] if row["label"] == "slow.json"] == [
        pytest.approx(1.2)
    ]
    shown = invoke(slow, fast, "--unprofiled-us", "8900").stdout
    assert all(figure in shown for figure in ("9.000", "+1.1 %", "+21.3 %", "1.200"))


def test_without_it_the_sign_is_weaker(tmp_path: Path) -> None:
    paths = [
        write_trace(tmp_path / f"{name}.json", duration=time)
        for name, time in (("a", 300.0), ("b", 310.0))
    ]
    result = invoke(*paths, "--json")
    found = json.loads(result.output)
    assert (found["best"], found["basis"]) == ("a.json", "shortest kernels")
    assert "weaker sign" in found["statement"]


def test_equal_names_are_told_by_their_folders(tmp_path: Path) -> None:
    for name in ("one", "two"):
        (tmp_path / name).mkdir()
        write_trace(tmp_path / name / "t.json")
    found = json.loads(
        invoke(tmp_path / "one" / "t.json", tmp_path / "two" / "t.json", "--json").output
    )
    assert [trace["label"] for trace in found["traces"]] == [
        str(tmp_path / name / "t.json") for name in ("one", "two")
    ]


@pytest.mark.parametrize(
    ("names", "arguments", "says"),
    [
        (["a"], [], "nothing to compare"),
        (["a"], ["--unprofiled-us", "fast"], "--unprofiled-us"),
        (["a", "b"], ["--steps-per-trace", "0"], "--steps-per-trace"),
        (["."], [], "holds 2 traces"),
        (["empty"], [], "holds no trace"),
    ],
)
def test_mistakes_end_as_one_line(
    tmp_path: Path, names: list[str], arguments: list[str], says: str
) -> None:
    for name in ("a", "b"):
        write_trace(tmp_path / f"{name}.json")
    (tmp_path / "empty.csv").write_text("device,op,dtype,m,n,k,us\nMI300X,gemm,fp16,1,2,3,4\n")
    files = {".": tmp_path, "empty": tmp_path / "empty.csv"}
    paths = [files.get(name, tmp_path / f"{name}.json") for name in names]
    result = invoke(*paths, *arguments)
    assert result.exit_code == 2
    assert all(word in result.output for word in says.split())
    assert len(result.output.strip().splitlines()) == 1

"""Measuring from the command line: suites, lists and functions, stopped and resumed, and training on the result."""

from __future__ import annotations

import json
import sys
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pyarrow as pa
import pytest

from flopcast.api.training import train
from flopcast.errors import FlopcastError
from flopcast.hardware import find
from flopcast.measuring import measure as module
from flopcast.measuring.backend import Backend
from flopcast.measuring.measure import Bench, measure
from flopcast.measuring.session import Session, journal_folder
from flopcast.measuring.timing import Rule
from flopcast.output import write_table
from flopcast.readers import read
from flopcast.tests.commands import running

run = partial(running.call, "measure")
ROOT = Path(__file__).parents[2]


class Hasty(Rule):
    """The quick rule, whatever is asked for."""

    def __new__(cls, **_: Any) -> Any:
        return QUICK


QUICK = Rule(precision=0.9, least=6, least_seconds=0.0, seconds=2.0, rounds=2)
SHAPES = "op,dtype,m,n,k,rows,cols\ngemm,fp32,4,8,16,,\nsoftmax,fp32,,,,4,16\nadd,bf16,,,,4,16\n"


@pytest.fixture
def torch() -> Any:
    return pytest.importorskip(
        "torch", reason="PyTorch is not installed (pip install flopcast[measure])"
    )


@pytest.fixture
def shapes(tmp_path: Path) -> Path:
    path = tmp_path / "shapes.csv"
    path.write_text(SHAPES, encoding="utf-8")
    return path


class MadeUpTime:
    """A timer that makes every call and lets it take the same time, whatever it takes, and the clock that shows it."""

    def __init__(self, call_s: float = 0.02) -> None:
        self.call_s, self.now = call_s, 0.0
        self.cost_us, self.cold, self.most_calls, self.late = 0.04, False, 1000, 0

    def samples(self, call: Any, count: int, calls: int = 1) -> Any:
        for _ in range(count * calls):
            call()
        self.now += self.call_s * count * calls
        return np.full(count, 1e6 * self.call_s)


@pytest.fixture
def made_up(monkeypatch: pytest.MonkeyPatch) -> MadeUpTime:
    """Let the command measure in a made-up time."""
    timer = MadeUpTime()
    monkeypatch.setattr(Backend, "timer", lambda self, cold: timer)
    monkeypatch.setattr(module, "Session", partial(Session, clock=lambda: timer.now))
    return timer


@pytest.fixture
def quick(monkeypatch: pytest.MonkeyPatch, made_up: MadeUpTime) -> None:
    """Let it measure by a rule that ends at once, too."""
    monkeypatch.setattr("flopcast.measuring.measure.Rule", Hasty)


def stop_after(monkeypatch: pytest.MonkeyPatch, builds: int) -> None:
    """Press Ctrl-C when so many rows have been made ready."""
    honest, count = Bench.build, [0]

    def build(self: Bench, row: Any, seed: int) -> Any:
        count[0] += 1
        if count[0] > builds:
            raise KeyboardInterrupt
        return honest(self, row, seed)

    monkeypatch.setattr(Bench, "build", build)


@pytest.mark.usefixtures("torch", "quick")
def test_a_list_is_measured_and_written_with_its_provenance(shapes: Path, tmp_path: Path) -> None:
    out = tmp_path / "runs.csv"
    code, text, error = run(
        shapes, "--device", "cpu", "--threads", "1,2", "--passes", "2", "--out", out
    )
    assert (code, error) == (0, "")  # progress is silent off a terminal
    assert f"Wrote {out} and {out.with_suffix('.json')} (12 rows)" in text
    table = pd.read_csv(out)
    assert table.groupby(["device", "campaign"])["op"].agg(list).map(tuple).unique().tolist() == [
        ("gemm", "softmax", "add")
    ]
    assert (table["repeats"] + table["outliers"] >= QUICK.least).all()
    made_with = json.loads(out.with_suffix(".json").read_text(encoding="utf-8"))
    assert made_with["protocol"] == QUICK.to_dict()
    assert made_with["devices"] == ["CPU-1T", "CPU-2T"]
    assert made_with["pass_difference_percent"]["median"] >= 0
    assert made_with["ended"] == "done"
    (part,) = made_with["parts"]
    assert (part["budget_seconds"], part["visit_limit_seconds"], part["seconds"]) == (
        None,
        None,
        made_with["seconds"],
    )
    assert not journal_folder(out).exists()


@pytest.mark.parametrize("suffix", [".csv", ".parquet"])
def test_measured_parts_of_a_gpu_are_kept(tmp_path: Path, suffix: str) -> None:
    out = tmp_path / f"parts{suffix}"
    rows = pa.table({"benchmark": ["gemm"], "size": [8.0], "performance": [1e4], "unit": ["CU"]})
    write_table(rows, out, "{}")
    before = out.read_bytes()
    code, _, error = run("--cus", "8,16", "-o", out)
    assert (code, out.read_bytes()) == (2, before)
    assert "--force" in error


@pytest.mark.usefixtures("torch", "quick")
def test_parts_of_a_gpu_need_one(tmp_path: Path) -> None:
    code, _, error = run("--cus", "8,16", "--device", "cpu", "-o", tmp_path / "parts.csv")
    assert (code, list(tmp_path.iterdir())) == (2, [])
    assert "--cus" in error


@pytest.mark.usefixtures("torch", "quick")
def test_a_suite_by_kernel_and_json(tmp_path: Path) -> None:
    out = tmp_path / "runs.parquet"
    code, text, error = run(
        "--device", "cpu", "--threads", 1, "--op", "softmax", "--json", "-o", out
    )
    found = json.loads(text)
    assert (code, error) == (0, "")
    assert {row["op"] for row in found["rows"]} == {"softmax"}
    assert found["notes"] == []
    assert len(read([out]).frame) == len(found["rows"]) == found["workloads"]


@pytest.mark.usefixtures("torch", "quick")
def test_ctrl_c_keeps_what_is_measured_and_resume_continues(
    shapes: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    out = tmp_path / "runs.parquet"
    arguments = (shapes, "--device", "cpu", "--threads", 1, "--seed", 3, "-o", out)
    with monkeypatch.context() as patched:
        stop_after(patched, 2)
        code, text, error = run(*arguments)
    assert code == 130
    assert f"Wrote {out} and {out.with_suffix('.json')} (2 rows)" in text
    assert "1 of 3" in error
    assert set(pd.read_parquet(out)["stopped_by"]) <= {"unfinished", "interval"}
    code, _, error = run(*arguments)
    assert (code, out.name in error) == (2, True)
    code, _, error = run(*arguments[:-4], "--seed", 4, "-o", out, "--resume")
    assert (code, "seed" in error) == (2, True)
    assert run(*arguments, "--resume", "--budget", "12s")[0] == 0
    made_with = json.loads(out.with_suffix(".json").read_text(encoding="utf-8"))
    assert [part["ended"] for part in made_with["parts"]] == ["interrupted", "done"]
    assert [part["budget_seconds"] for part in made_with["parts"]] == [None, 12.0]
    # two of six visits were there
    assert 0 < made_with["parts"][1]["visit_limit_seconds"][0] <= 12 / 4
    assert made_with["seconds"] == pytest.approx(
        sum(part["seconds"] for part in made_with["parts"])
    )
    table = pd.read_parquet(out)
    assert table["op"].tolist() == ["gemm", "softmax", "add"]
    assert table["rounds"].ge(2).all()  # a budget may buy more
    assert not journal_folder(out).exists()


@pytest.mark.usefixtures("torch", "quick")
def test_a_lost_device_keeps_what_is_measured_and_ends_as_one_line(
    shapes: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    honest = Bench.build

    def build(self: Bench, row: Any, seed: int) -> Any:
        if row["op"] == "add":
            raise RuntimeError("CUDA error: an illegal memory access was encountered")
        return honest(self, row, seed)

    monkeypatch.setattr(Bench, "build", build)
    monkeypatch.setattr(
        Bench, "recover", lambda self: (_ for _ in ()).throw(RuntimeError("still lost"))
    )
    out = tmp_path / "runs.csv"
    code, text, error = run(shapes, "--device", "cpu", "--threads", 1, "--seed", 1, "-o", out)
    assert code == 2
    assert f"Wrote {out}" in text
    last = error.splitlines()[-1]
    assert all(
        words in last for words in ("add bf16 rows=4 cols=16: RuntimeError: CUDA", "--resume")
    )
    assert "add" not in set(pd.read_csv(out)["op"])
    assert journal_folder(out).is_dir()


@pytest.mark.usefixtures("torch", "quick")
def test_ctrl_c_before_the_first_row_leaves_nothing(
    shapes: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    stop_after(monkeypatch, 0)
    code, _, error = run(shapes, "--device", "cpu", "-o", tmp_path / "runs.parquet")
    assert (code, error.splitlines()[-1]) == (130, "interrupted")
    assert [path.name for path in tmp_path.iterdir()] == ["shapes.csv"]


@pytest.mark.usefixtures("torch")
def test_the_end_of_the_budget_says_how_to_go_on(
    shapes: Path, tmp_path: Path, made_up: MadeUpTime
) -> None:
    made_up.call_s = 1.2
    out = tmp_path / "runs.csv"
    code, text, _ = run(shapes, "--device", "cpu", "--threads", 1, "--budget", "2s", "-o", out)
    assert code == 0
    assert all(words in text for words in ("2 of 3", "--resume"))
    assert journal_folder(out).is_dir()


@pytest.mark.usefixtures("torch", "quick")
def test_rows_that_cannot_be_measured_are_told_and_the_others_measured(tmp_path: Path) -> None:
    path = tmp_path / "shapes.csv"
    lines = ["softmax,strided,fp32,4,16", "softmax,,fp32,4,16", "softmax,,fp32,4,0"]
    path.write_text("\n".join(["op,variant,dtype,rows,cols", *lines]) + "\n", encoding="utf-8")
    out = tmp_path / "runs.csv"
    code, text, _ = run(path, "--device", "cpu", "-o", out)
    assert code == 0
    assert "fp32 rows=4 cols=16: DataError" in text
    assert "shapes.csv:4: " in text
    made_with = json.loads(out.with_suffix(".json").read_text(encoding="utf-8"))
    assert (len(made_with["failed"]), len(made_with["refused"]), len(pd.read_csv(out))) == (1, 1, 1)


@pytest.mark.usefixtures("torch")
@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (("--op", "gem"), "--op gemm"),
        (("--op", ""), "--op NAME[,NAME] ''"),
        (("--op", " , "), "--op NAME[,NAME] ' , '"),
        (("--function", "math:hypot"), "math:hypot"),
        (("--threads", "many"), "--threads"),
        (("--threads", "100000"), "machine's CPUs 100000"),
        (("--date", "yesterday"), "--date YYYY-MM-DD 'yesterday'"),
        (("--date", "20260102"), "--date YYYY-MM-DD"),
        (("--precision", "2"), "--precision"),
        (("--device", "gpu"), "--device cuda:0"),
        (("-o", "runs.txt"), ".parquet or .csv"),
        (("--resume",), "resume"),
        (("--budget", "soon"), "--budget"),
        (("--function", "os:getcwd", "--preset", "small"), "--preset"),
        (("--function", "os:getcwd", "--op", "gemm"), "or give shapes"),
        (("--function", "os:nothing"), "has no 'nothing'"),
        (("--op", "collective", "--device", "cpu"), "two GPUs or more"),
        (("missing.csv",), "missing.csv"),
    ],
)
def test_mistakes_end_as_one_line(
    arguments: tuple[str, ...], message: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    code, out, error = run(*arguments)
    assert (code, out) == (2, "")
    assert error.startswith("error: ")
    assert error.count("\n") == 1
    assert all(word in error for word in message.split())
    assert not list(tmp_path.iterdir())


def test_without_torch_the_command_ends_in_one_line(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.setitem(sys.modules, "torch", None)
    code, _, error = run("-o", tmp_path / "runs.parquet")
    assert (code, error.count("\n"), 'pip install "flopcast[measure]"' in error) == (2, 1, True)
    with pytest.raises(FlopcastError, match="PyTorch"):
        measure()


@pytest.mark.usefixtures("torch", "made_up")
def test_train_learns_from_what_was_measured(tmp_path: Path) -> None:
    path, out = tmp_path / "shapes.csv", tmp_path / "runs.parquet"
    lines = [f"gemm,fp32,{m},{n},{n}" for m in (1, 4, 16, 32, 64) for n in (16, 32, 64, 128)]
    path.write_text("\n".join(["op,dtype,m,n,k", *lines]) + "\n", encoding="utf-8")
    measure(path, out=out, device="cpu", threads=[1, 2], rule=QUICK)
    one, two = (replace(find("MI300X"), name=f"CPU-{threads}T", cus=threads) for threads in (1, 2))
    learnt = train([out], host=one, target=two, models=["Additive"], jobs=1)
    assert learnt.metrics["data"]["n"] == 20
    assert learnt.metrics["data"]["rejected"] == {}

"""The benchmarks: no time without the same answer, and the smallest configuration runs through."""

from __future__ import annotations

import bz2
import io
import json
from collections.abc import Callable
from importlib.util import find_spec
from pathlib import Path

import numpy as np
import pytest
from rich.console import Console

from flopcast.api.training import train
from flopcast.benchmarks import harness
from flopcast.benchmarks.__main__ import main, table
from flopcast.benchmarks.features import different_work, gemms, two_columns
from flopcast.benchmarks.harness import Comparison, Contender, compare
from flopcast.benchmarks.readers import different_solvers, different_tables, plain_lines, readers
from flopcast.benchmarks.start_up import TASK as START_UP
from flopcast.benchmarks.stepwise_peers import (
    backward,
    bounded_fit,
    different_columns,
    different_rss,
    few_causes,
    forward,
    nnls_aic,
    ours,
    selection,
)
from flopcast.benchmarks.stepwise_peers import counters as workloads
from flopcast.readers import read

AITER = "gfx,cu_num,M,N,K,us,kernelName\ngfx942,304,16,256,512,6.5,k\ngfx942,304,32,256,512,0,k\n"
MIOPEN = (
    "4-8-8-1x1-4-8-8-2-0x0-1x1-1x1-0-NCHW-FP16-F=One:0.5,0,x;Two:0.25,64,x\n"
    "8-8-8-1x1-4-8-8-2-0x0-1x1-1x1-0-NCHW-FP16-F=One:0.75,0,x\n"
)


FEW = {"models": ["OLS"]}
"""What is trained where predictions are only timed."""


@pytest.fixture
def data(tmp_path: Path) -> Path:
    """Make a folder laid out as the measured data are."""
    for name in ("aiter", "miopen"):
        (tmp_path / name).mkdir()
    (tmp_path / "aiter" / "bf16_tuned_gemm.csv").write_text(AITER, encoding="utf-8")
    (tmp_path / "miopen" / "gfx942130.HIP.fdb.txt.bz2").write_bytes(bz2.compress(MIOPEN.encode()))
    return tmp_path


@pytest.fixture
def no_start_up(monkeypatch: pytest.MonkeyPatch) -> None:
    """Time no process of its own: `test_the_smallest_configuration_runs_through` does."""
    monkeypatch.setattr("flopcast.benchmarks.__main__.start_up", lambda runs: [])


def sums(*peers: Contender) -> Comparison:
    return Comparison(
        task="sum of 1000 numbers",
        ours=Contender("ours", lambda: sum(range(1000))),
        peers=peers,
        nothing=Contender("nothing", lambda: 0),
        differs=lambda a, b: "" if a == b else f"{a} and {b}",
        items=1000,
    )


def test_a_peer_with_another_answer_gets_no_time() -> None:
    right, wrong = Contender("right", lambda: 499500), Contender("wrong", lambda: 1)
    ours, *others = compare(sums(right, wrong), repeats=1, turn_seconds=0)
    assert (ours.name, ours.ratio) == ("ours", 1.0)
    assert ours.seconds is not None
    assert ours.us_per_item == pytest.approx(1e6 * ours.seconds / 1000)
    assert [(row.name, row.note, row.seconds is None) for row in others] == [
        ("right", "same answer", False),
        ("wrong", "differs: 499500 and 1", True),
        ("nothing", "does nothing", False),
    ]
    assert others[1].ratio is others[1].peak_mb is None


def test_peak_memory_is_what_was_allocated_at_once() -> None:
    big = Contender("big", lambda: len(np.ones(1_000_000)))
    comparison = Comparison("allocate", big, (), Contender("nothing", lambda: 0), lambda a, b: "")
    ours, nothing = compare(comparison, repeats=1, turn_seconds=0)
    assert ours.peak_mb == pytest.approx(8.0, rel=0.01)
    assert nothing.peak_mb is not None
    assert nothing.peak_mb < 0.1


def test_the_smallest_configuration_runs_through(
    data: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    calls = {"flopcast --version": ("-m", "flopcast", "--version"), "python alone": ("-c", "pass")}
    monkeypatch.setattr("flopcast.benchmarks.start_up.CALLS", calls)
    monkeypatch.setattr(
        "flopcast.benchmarks.predicting.train", lambda rows, **asked: train(rows, **asked | FEW)
    )
    # traced, each call takes several times as long
    monkeypatch.setattr(harness, "_peak_mb", lambda call: 1.0)
    assert main(["--quick", "--part", "tasks", "--json", "--data", str(data)]) == 0
    rows = json.loads(capsys.readouterr().out)
    assert len({row["task"] for row in rows}) == 17
    notes = {
        row["note"].split(", residual")[0]
        for row in rows
        if not row["note"].startswith(("skipped: ", "residual"))
    }
    assert notes == {"", "same answer", "same answer, one run", "does nothing"}
    assert all(row["seconds"] > 0 for row in rows if not row["note"].startswith("skipped: "))
    traced = [row for row in rows if "skipped" not in row["note"] and "one run" not in row["note"]]
    elsewhere = {
        row["name"] for row in traced if row["name"].startswith("R ") or row["task"] == START_UP
    }
    assert all((row["peak_mb"] is None) == (row["name"] in elsewhere) for row in traced)
    assert {row["name"] for row in rows} >= {
        "statsmodels OLS in a loop",
        "sklearn SequentialFeatureSelector",
        "scipy.optimize.nnls in a loop",
        "pandas.read_csv alone",
        "plain Python lines",
        "numpy, FLOPs and bytes only",
    }


@pytest.mark.usefixtures("no_start_up")
def test_without_measured_data_the_readers_are_skipped(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(
        "flopcast.benchmarks.__main__.selection", lambda quick, full: iter([sums()])
    )
    monkeypatch.setattr(
        "flopcast.benchmarks.__main__.predicting", lambda *sizes, **trained: iter([])
    )
    assert main(["--quick", "--part", "tasks", "--data", str(tmp_path / "nowhere")]) == 0
    printed = capsys.readouterr().out
    assert "Readers skipped" in printed
    assert "sum of 1000 numbers" in printed
    assert "features of 100 GEMMs" in printed


@pytest.mark.usefixtures("no_start_up")
def test_a_difference_is_the_exit_code(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    wrong = sums(Contender("wrong", lambda: 1))
    monkeypatch.setattr(
        "flopcast.benchmarks.__main__.comparisons", lambda quick, full, data: [wrong]
    )
    assert main(["--quick", "--part", "tasks"]) == 1
    assert "differs: 499500 and 1" in capsys.readouterr().out


def test_the_table_names_a_task_once() -> None:
    console = Console(width=160, file=io.StringIO())
    console.print(table(list(compare(sums(), repeats=1, turn_seconds=0))))
    assert console.file.getvalue().count("sum of 1000 numbers") == 1


def test_non_negative_fits_are_told_apart() -> None:
    X, y = workloads(40, 6)
    for comparison in bounded_fit(X, y):
        found = comparison.ours.call()
        for peer in comparison.peers:
            assert peer.missing or comparison.differs(found, peer.call()) == ""
        assert comparison.differs(found, found - found.max()) == "negative coefficients"
        assert comparison.differs(found, 0 * found).startswith(
            f"residual of length {np.linalg.norm(y):.10g} instead"
        )


def test_the_textbook_loop_takes_what_lowers_the_criterion_most() -> None:
    worth = {0: 3.0, 1: 0.5, 2: 5.0}  # each column costs 1
    assert forward(3, lambda columns: sum(1 - worth[j] for j in columns)) == [0, 2]


def test_the_textbook_loop_removes_what_lowers_the_criterion_most() -> None:
    worth = {0: 3.0, 1: 0.5, 2: 5.0}
    assert backward(3, lambda columns: sum(1 - worth[j] for j in columns)) == [0, 2]


def test_more_than_one_column_is_selected() -> None:
    X, y = workloads(120, 12)
    for base in ("ols", "nnls"):
        for direction in ("forward", "backward"):
            assert 1 < len(ours(X, y, direction, base=base)) < 12


@pytest.mark.parametrize("data", [workloads, few_causes])
def test_our_answers_are_those_of_the_loops(
    data: Callable[[int, int], tuple[np.ndarray, np.ndarray]],
) -> None:
    for n, p in ((60, 12), (40, 50)):
        X, y = data(n, p)
        criterion = nnls_aic(X, y)
        assert 1 < len(ours(X, y, base="nnls")) < p
        assert ours(X, y, base="nnls") == forward(p, criterion)
        if n > p + 2:
            assert ours(X, y, "backward", base="nnls") == backward(p, criterion)


def test_a_slow_peer_runs_once_and_a_missing_one_not_at_all() -> None:
    calls: list[str] = []
    slow = Contender("slow", lambda: (calls.append("slow"), 499500)[1], once=True)
    absent = Contender("absent", lambda: calls.append("absent"), missing="not installed")
    _, *rows = compare(sums(slow, absent), repeats=3, turn_seconds=0)
    assert calls == ["slow"]
    assert [(row.name, row.note, row.seconds is None, row.peak_mb) for row in rows[:2]] == [
        ("slow", "same answer, one run", False, None),
        ("absent", "skipped: not installed", True, None),
    ]


@pytest.mark.usefixtures("no_start_up")
def test_a_peer_that_fails_is_a_row_and_the_exit_code(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    def fail() -> int:
        raise RuntimeError("R ended with code 3\nand more")

    failing = sums(Contender("failing", fail), Contender("right", lambda: 499500))
    _, failed, right, _ = compare(failing, repeats=1, turn_seconds=0)
    assert (failed.note, failed.seconds) == ("failed: RuntimeError: R ended with code 3", None)
    assert right.note == "same answer"
    monkeypatch.setattr(
        "flopcast.benchmarks.__main__.comparisons", lambda quick, full, data: [failing]
    )
    assert main(["--quick", "--part", "tasks"]) == 1
    assert "failed: RuntimeError" in capsys.readouterr().out


def test_a_peer_that_fails_in_its_turn_has_no_time() -> None:
    answers = iter([499500])
    dying = Contender("dying", lambda: next(answers), elsewhere=True)
    _, failed, _ = compare(sums(dying), repeats=2, turn_seconds=0)
    assert (failed.note, failed.seconds, failed.ratio) == ("failed: StopIteration", None, None)


def test_memory_of_another_process_is_not_told() -> None:
    _, peer, _ = compare(
        sums(Contender("right", lambda: 499500, elsewhere=True)), repeats=1, turn_seconds=0
    )
    assert (peer.note, peer.peak_mb) == ("same answer", None)
    assert peer.seconds is not None


def test_peers_in_r_run_elsewhere() -> None:
    for comparison in selection(quick=True):
        assert all(peer.elsewhere == peer.name.startswith("R ") for peer in comparison.peers)


def test_paths_of_other_lengths_differ() -> None:
    path = np.array([3.0, 2.0, 1.0])
    assert different_rss(path, path * (1 + 1e-7)) == ""
    assert different_rss(path, path[:2]) == "RSS of 2 sizes instead of 3"
    assert different_rss(path, np.array([3.0, 2.0, 1.1])) == "RSS of 1 sizes"


def test_without_r_its_peers_are_skipped_with_a_line(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(
        "flopcast.benchmarks.stepwise_peers.r_lacks", lambda package: f"R has no {package}"
    )
    missing = {
        peer.name: peer.missing for comparison in selection(quick=True) for peer in comparison.peers
    }
    assert missing["R leaps, regsubsets (Fortran)"] == "R has no leaps"
    assert missing["R step"] == "R has no stats"
    assert missing["R nnls (Fortran)"] == "R has no nnls"
    assert (missing["mlxtend SequentialFeatureSelector"] == "") == (
        find_spec("mlxtend") is not None
    )


def test_differences_are_found(data: Path) -> None:
    assert different_columns([1, 2], [2, 3]) == "columns [1, 3] in one only"
    tables, solvers = (comparison.peers[0].call() for comparison in readers(data))
    assert not different_tables(read([data / "aiter"]), tables)
    assert different_tables(read([data / "aiter"]), tables * 2) == "2 rows, not 4"
    tables[0]["us"] += 1
    assert different_tables(read([data / "aiter"]), tables) == "times that are in no table"
    assert not different_solvers(read([data / "miopen"]), solvers)
    assert (
        different_solvers(read([data / "miopen"]), dict.fromkeys(solvers, 1.0))
        == "times of some solvers"
    )


def test_the_plain_parser_by_hand(data: Path) -> None:
    (path,) = (data / "miopen").iterdir()
    assert plain_lines(path) == {(1, "One"): 500.0, (1, "Two"): 250.0, (2, "One"): 750.0}


def test_work_that_differs_is_named() -> None:
    rows = gemms(5, 0, "MI300X")
    work = two_columns(rows)
    matrix = rows.assign(
        **{"log2.flops": np.log2(work[:, 0]), "log2.bytes": np.log2(work[:, 1]) + 1}
    )
    assert different_work(matrix, work) == "bytes"

"""The command clean: traces in, a table of measurements out, everything left out told."""

from __future__ import annotations

import json
from functools import partial
from pathlib import Path

import numpy as np
import pandas as pd
import pyarrow.parquet as pq
import pytest

import flopcast as fc
from flopcast.api.cleaning import clean
from flopcast.api.ingesting import ingest_measurements
from flopcast.output import METADATA
from flopcast.readers import read
from flopcast.table.problems import pair
from flopcast.tests.commands import running
from flopcast.tests.readers.kineto.made_up import event, product, write

run = partial(running.call, "clean")


def trace(
    path: Path, times: list[float], *, steps: int = 0, name: str = "Cijk_A", height: int = 16
) -> Path:
    """Write a trace of products that repeat each other, a kernel each 100 us, in so many steps of equal length."""
    events = [
        one for i, us in enumerate(times, 1) for one in product(i, us, 100.0 * i, name, height)
    ]
    length = 100.0 * len(times) / max(steps, 1)
    starts = [(step, 99.0 + step * length) for step in range(steps)]
    events += [
        event("user_annotation", f"ProfilerStep#{step}", start, length - 1.0)
        for step, start in starts
    ]
    return write(path, events)


def repeats(count: int = 60, *outliers: float) -> list[float]:
    times = np.random.default_rng(0).normal(10.0, 0.1, count)
    return [*times.round(3).tolist(), *outliers]


def test_the_cleaned_table_is_what_ingest_writes_without_the_outliers(tmp_path: Path) -> None:
    clean([trace(tmp_path / "good.json", repeats())])
    path = trace(tmp_path / "t.json", repeats(60, 50.0, 60.0))
    result = run(
        path, "-o", tmp_path / "out" / "c.parquet", "--removed", tmp_path / "out" / "r.csv"
    )
    assert result.exit_code == 0, result.output
    cleaned = pd.read_parquet(tmp_path / "out" / "c.parquet")
    ingest_measurements([tmp_path / "good.json"], tmp_path / "out" / "i.parquet")
    expected = pd.read_parquet(tmp_path / "out" / "i.parquet").assign(campaign="t")
    pd.testing.assert_frame_equal(cleaned.drop(columns="source"), expected.drop(columns="source"))
    again = run(path, "-o", tmp_path / "out" / "c.parquet", "--removed", tmp_path / "out" / "r.csv")
    assert again.exit_code == 0, again.output
    removed = pd.read_csv(tmp_path / "out" / "r.csv")
    assert removed[["reason", "duration_us"]].to_numpy().tolist() == [
        ["outlier", 50.0],
        ["outlier", 60.0],
    ]
    assert f"Wrote {tmp_path / 'out' / 'c.parquet'} (1 row)" in result.output
    beside = json.loads(pq.read_schema(tmp_path / "out" / "c.parquet").metadata[METADATA])
    assert beside["removed"] == {"outlier": 2}
    assert read([tmp_path / "out" / "c.parquet"]).frame["repeats"].tolist() == [60.0]


def test_json_has_every_kernel_and_everything_removed(tmp_path: Path) -> None:
    result = run(trace(tmp_path / "t.json", repeats(60, 50.0)), "--json")
    found = json.loads(result.stdout)
    assert (found["measured"], found["kept"], found["removed"], found["rows"]) == (
        61,
        60,
        {"outlier": 1},
        1,
    )
    [kernel] = found["kernels"]
    assert (kernel["name"], kernel["n"], kernel["removed.outlier"]) == ("Cijk_A", 60, 1)
    assert kernel["lower_us"] < kernel["median_us"] < kernel["upper_us"]
    assert (found["coverage"], found["counters"]) == (None, None)


@pytest.mark.no_cover
def test_the_filter_can_be_widened_and_switched_off(tmp_path: Path) -> None:
    path = trace(tmp_path / "t.json", repeats(60, 50.0))
    for mad, kept in (("7", 60), ("10000", 61), ("0", 61)):
        assert json.loads(run(path, "--mad", mad, "--json").stdout)["kept"] == kept


def test_steps_are_chosen_and_shown(tmp_path: Path) -> None:
    path = trace(tmp_path / "t.json", repeats(60), steps=6)
    found = json.loads(run(path, "--json").stdout)
    assert [step["reason"] for step in found["steps"]].count("") == 4
    found = json.loads(run(path, "--steps", "2:3", "--json").stdout)
    assert (found["kept"], found["removed"]) == (20, {"step-not-asked-for": 40})
    assert [step["reason"] for step in found["steps"]][1:4] == ["step-not-asked-for", "", ""]


@pytest.mark.no_cover
def test_repeated_runs_are_cleaned_together(tmp_path: Path) -> None:
    paths = [trace(tmp_path / f"{i}.json", [time]) for i, time in enumerate([*repeats(9), 50.0])]
    found = clean(paths)
    assert found.cleaned.removed_by_reason == {"outlier": 1}
    assert found.frame["repeats"].tolist() == [9.0]


@pytest.mark.no_cover
def test_runs_of_a_part_each_are_joined_and_proved_complete(tmp_path: Path) -> None:
    one = trace(tmp_path / "1.json", repeats(2), name="Cijk_A")
    two = trace(tmp_path / "2.json", repeats(1), name="Cijk_B", height=32)
    (tmp_path / "all.txt").write_text("Cijk_A\nCijk_B\n\nCijk_A\n")
    whole, part = (
        json.loads(run(*asked, "--cover", tmp_path / "all.txt", "--json").stdout)["coverage"]
        for asked in ((one, two, "--join"), (one,))
    )
    assert (whole["complete"], whole["proved"], whole["missing"]) == (True, True, [])
    assert (part["complete"], len(part["missing"])) == (False, 1)
    assert json.loads(run(one, two, "--join", "--json").stdout)["coverage"]["proved"] is False
    full = trace(tmp_path / "full.json", repeats(2), name="Cijk_A")
    assert json.loads(run(one, "--cover", full, "--json").stdout)["coverage"]["complete"] is True


def counted(folder: Path, counter: str, values: list[float]) -> Path:
    """Write a counter collection of rocprofv3."""
    folder.mkdir()
    head = "Correlation_Id,Dispatch_Id,Agent_Id,Queue_Id,Process_Id,Thread_Id,Grid_Size,Kernel_Id,Kernel_Name,"
    head += "Workgroup_Size,LDS_Block_Size,Scratch_Size,VGPR_Count,Accum_VGPR_Count,SGPR_Count,Counter_Name,"
    head += "Counter_Value,Start_Timestamp,End_Timestamp"
    rows = [
        f"{i},{i},Agent 4,1,9,9,2048,1,Cijk_A,256,0,0,8,0,16,{counter},{value},{1000 * i},{1000 * i + 500}"
        for i, value in enumerate(values, 1)
    ]
    (folder / f"{folder.name}_counter_collection.csv").write_text("\n".join([head, *rows]) + "\n")
    return folder


def test_counters_of_passes_are_joined_with_their_variance(tmp_path: Path) -> None:
    first = counted(tmp_path / "a", "SQ_WAVES", [10.0, 20.0])
    second = counted(tmp_path / "b", "SQ_WAVES", [10.0, 22.0])
    result = run(first, second, "--join", "--default", "device=MI300X", "--json")
    assert result.exit_code == 0, result.output
    [counter] = json.loads(result.stdout)["counters"]
    assert (counter["counter"], counter["passes"], counter["compared"]) == ("SQ_WAVES", 2, 2)
    assert counter["max_cv"] == pytest.approx(2**0.5 / 21)
    text = run(first, second, "--join", "--default", "device=MI300X", "--all").output
    assert "counters joined" in text
    assert "give default device=NAME" not in text


def test_a_device_is_asked_for_until_it_is_stated(tmp_path: Path) -> None:
    runs = [counted(tmp_path / name, "SQ_WAVES", [10.0, 20.0]) for name in "ab"]
    asked, told = (
        json.loads(run(*runs, *stated, "--json").stdout)
        for stated in ([], ["--default", "device=MI300X"])
    )
    assert any(note.endswith("give default device=NAME") for note in asked["notes"])
    assert not any("set device" in note for note in told["notes"])
    shown = run(*runs, "--out", tmp_path / "clean.parquet").output
    assert "No measurement is left for flopcast train" in shown
    assert "Next:" not in shown


def test_epochs_are_rows_with_their_outliers(tmp_path: Path) -> None:
    path = trace(tmp_path / "t.json", repeats(59, 50.0))
    result = run(path, "--epochs", "kernels:20", "-o", tmp_path / "e.csv")
    assert result.exit_code == 0, result.output
    table = pd.read_csv(tmp_path / "e.csv")
    assert table["kernels"].tolist() == [20, 20, 20]
    assert table["flops"].tolist() == [20 * 2 * 16 * 64 * 32] * 3
    assert table["variant"].unique().tolist() == ["kernels:20"]
    assert run(path, "--epochs", "kernels:20", "--mad", "0", "--no-warm-up").exit_code == 0


def test_the_users_annotations_are_markers(tmp_path: Path) -> None:
    path = trace(tmp_path / "t.json", repeats(60), steps=6)
    content = json.loads(path.read_text())
    kernels = [event for event in content["traceEvents"] if event["cat"] == "kernel"]
    for number in (1, 2):  # 20 kernels each, and the 1 ns at both ends that the profiler adds
        first, last = kernels[20 * number - 10], kernels[20 * number + 9]
        at = {
            "ts": first["ts"] - 0.001,
            "dur": round(last["ts"] + last["dur"] - first["ts"] + 0.002, 3),
        }
        mark = {
            "ph": "X",
            "cat": "gpu_user_annotation",
            "name": f"decode {number}",
            "pid": 0,
            "tid": 0,
        }
        content["traceEvents"].append({**mark, **at, "args": {"External id": 1000 + number}})
    path.write_text(json.dumps(content))
    result = run(path, "--steps", "all", "--epochs", "marker:^decode", "-o", tmp_path / "e.csv")
    assert result.exit_code == 0, result.output
    assert pd.read_csv(tmp_path / "e.csv")["kernels"].tolist() == [20, 20]
    assert "matches, 2 of 8" in " ".join(result.output.split())
    assert len(clean([path], steps="all", epochs="marker:Step#[345]").frame) == 3
    assert len(clean([path], steps="all", epochs="marker:^Cijk").frame) == 1
    assert "range, no kernel" in run(path, "--epochs", "marker:never").stderr


def test_epochs_of_two_gpus_pair_by_name_and_number_whatever_each_launched(tmp_path: Path) -> None:
    trace(tmp_path / "a.json", np.repeat(np.arange(10.0, 16.0), 20).tolist(), steps=6)
    trace(
        tmp_path / "b.json", np.repeat(np.arange(5.0, 8.0, 0.6), 21).tolist(), steps=5, name="other"
    )
    frames = []
    for name, device in (("a", "MI300X"), ("b", "MI355X")):
        options = [
            "--steps",
            "all",
            "--epochs",
            "step",
            "--default",
            "name=training",
            "-o",
            tmp_path / f"{name}.csv",
        ]
        assert run(tmp_path / f"{name}.json", *options).exit_code == 0
        frames.append(pd.read_csv(tmp_path / f"{name}.csv").assign(device=device))
    assert [len(frame) for frame in frames] == [6, 5]
    assert {(op, name) for frame in frames for op, name in frame[["op", "variant"]].to_numpy()} == {
        ("epoch", "training")
    }
    pairs = pair(fc.read(pd.concat(frames)).frame, "MI300X", "MI355X")
    assert pairs.paired["index"].tolist() == [0, 1, 2, 3, 4]
    assert pairs.paired["host_counter.epoch.kernels"].tolist() == [20] * 5
    assert pairs.report["merged_repeats"] == 0


def test_the_options_of_the_function_are_those_of_the_command(tmp_path: Path) -> None:
    path = trace(tmp_path / "t.json", [time * 10 for time in repeats(60, 12.0)])
    found = clean([path], mad=0, golden=True)
    assert found.cleaned.removed_by_reason["not-in-fullest-bin"] >= 1
    assert (
        json.loads(run(path, "--mad", 0, "--golden", "--json").stdout)["removed"]
        == found.cleaned.removed_by_reason
    )


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        (["-o", "t.docx"], "--out"),
        (["--removed", "t.txt"], "--removed"),
        (["--jobs", "0"], "--jobs -1 0"),
        (["--mad", "-1"], "--mad -1"),
        (["--steps", "some"], "--steps"),
        (["--steps", "1:2"], "no steps are recorded"),
        (["--epochs", "step", "--mad", "3"], "--mad"),
        (["--epochs", "step", "--golden", "--warm-up"], "--warm-up"),
        (["--epochs", "hours:1"], "--epochs must be step, kernels:N"),
    ],
)
def test_bad_options_are_refused_in_one_line(
    tmp_path: Path, arguments: list[str], said: str
) -> None:
    result = run(trace(tmp_path / "t.json", [10.0]), *arguments)
    assert result.exit_code == 2
    assert all(word in result.stderr for word in said.split())
    assert len(result.stderr.splitlines()) == 1


def test_files_that_hold_no_trace_are_told(tmp_path: Path) -> None:
    (tmp_path / "t.csv").write_text("device,op,dtype,m,n,k,us\nMI300X,gemm,fp16,1,2,3,4\n")
    assert (run(tmp_path / "t.csv").exit_code, "t.csv" in run(tmp_path / "t.csv").stderr) == (
        2,
        True,
    )
    (tmp_path / "bad.json").write_text(trace(tmp_path / "t.json", [10.0]).read_text()[:-40])
    result = run(tmp_path / "t.json", tmp_path / "bad.json")
    assert (result.exit_code, "unreadable: " in result.output) == (0, True)
    (tmp_path / "none.txt").write_text("\n")
    (tmp_path / "word.txt").write_bytes(b"\xff\xfek\x00")
    result = run(tmp_path / "t.json", "--cover", tmp_path / "word.txt")
    assert (result.exit_code, len(result.stderr.splitlines())) == (2, 1)
    assert "word.txt: is no UTF-8" in result.stderr
    for wrong in (tmp_path / "none.txt", folder_of_two(tmp_path)):
        result = run(tmp_path / "t.json", "--cover", wrong)
        assert (result.exit_code, len(result.stderr.splitlines()), wrong.name in result.stderr) == (
            2,
            1,
            True,
        )


def test_a_trace_whose_parts_lie_days_apart_is_left_out(tmp_path: Path) -> None:
    whole = trace(tmp_path / "whole.json", repeats())
    events = [
        one
        for at in (100.0, 200.0, 3 * 86_400e6, 3 * 86_400e6 + 100)
        for one in product(int(at), 10.0, at, "Cijk_A", 16)
    ]
    mixed = write(tmp_path / "mixed.json", events)
    alone, beside = run(mixed), run(whole, mixed)
    assert (alone.exit_code, beside.exit_code) == (2, 0)
    for ended in (alone, beside):
        assert "mixed.json" in ended.output
        assert "days after all before it" in " ".join(ended.output.split())


def folder_of_two(tmp_path: Path) -> Path:
    folder = tmp_path / "two"
    folder.mkdir()
    for name in "ab":
        trace(folder / f"{name}.json", [10.0])
    return folder

"""The user's ranges in PyTorch traces: what the GPU's side of the file says, and what was launched inside them."""

from __future__ import annotations

import gzip
import json
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest

from flopcast.readers.base import DataFile, Options
from flopcast.readers.kineto import KinetoReader
from flopcast.traces.dispatches import Trace
from flopcast.traces.epochs import OUTSIDE, epoch_numbers, parse_rule

Event = dict[str, Any]


def event(
    cat: str, name: str, ts: float, dur: float, tid: int = 7, pid: int = 5, **args: Any
) -> Event:
    return {
        "ph": "X",
        "cat": cat,
        "name": name,
        "pid": pid,
        "tid": tid,
        "ts": ts,
        "dur": dur,
        "args": args,
    }


def asked(name: str, ts: float, dur: float, tid: int = 7, **args: Any) -> Event:
    return event("user_annotation", name, ts, dur, tid, **args)


def told(
    name: str,
    ts: float,
    dur: float,
    stream: int = 3,
    stretch_us: tuple[float, float] = (0.001, 0.001),
    **args: Any,
) -> Event:
    """Return a range of the GPU as the profiler writes it: stretched."""
    early, late = stretch_us
    return event("gpu_user_annotation", name, ts - early, dur + early + late, stream, 0, **args)


def work(number: int, launched: float, ts: float, dur: float, tid: int = 7) -> list[Event]:
    """Return a launch and its kernel."""
    return [
        event("cuda_runtime", "hipLaunchKernel", launched, 1.0, tid, correlation=number),
        event("kernel", f"k{number}", ts, dur, 3, 0, device=0, stream=3, correlation=number),
    ]


def read(folder: Path, events: list[Event], ranges: bool = True) -> Trace:
    path = folder / "trace.json"
    path.write_text(json.dumps({"baseTimeNanoseconds": 1_000, "traceEvents": events}))
    return KinetoReader().trace([DataFile(path, "t", True)], Options(ranges=ranges))


def listed(trace: Trace) -> list[tuple[str, int, int]]:
    return [
        (str(name), int(start), int(ns)) for name, start, ns in trace.ranges.itertuples(index=False)
    ]


@pytest.mark.parametrize("stretch_us", [(0.001, 0.001), (1.0, 0.5)])
def test_the_stretch_is_taken_off_so_that_the_next_kernel_is_not_inside(
    tmp_path: Path, stretch_us: tuple[float, float]
) -> None:
    mark = told("one", 10.0, 2.5, stretch_us=stretch_us, **{"External id": 4})
    events = [*work(1, 1.0, 10.0, 2.5), *work(2, 3.0, 12.5, 1.0), mark]
    trace = read(tmp_path, events)
    assert listed(trace) == [("one", 11_000, 2_500)]
    assert epoch_numbers(trace.dispatches, parse_rule("marker:one"), trace.ranges).tolist() == [
        0,
        OUTSIDE,
    ]
    assert read(tmp_path, events, ranges=False).ranges.empty


def test_a_call_on_several_streams_is_one_range_and_two_calls_are_two(tmp_path: Path) -> None:
    numbered = [
        told("step", 10.0, 5.0, 3, **{"External id": 4}),
        told("step", 12.0, 9.0, 8, **{"External id": 4}),
        told("step", 30.0, 1.0, 3, **{"External id": 5}),
        told("step", 40.0, 1.0, 3),
        told("step", 50.0, 0.0, 3),
    ]
    found = listed(read(tmp_path, [*work(1, 1.0, 10.0, 2.5), *numbered]))
    assert [(start, ns) for _, start, ns in found] == [
        (11_000, 11_000),
        (31_000, 1_000),
        (41_000, 1_000),
        (51_000, 0),
    ]


def test_ranges_the_gpu_does_not_have_are_those_of_what_their_thread_launched(
    tmp_path: Path,
) -> None:
    events = [
        asked("outer", 0.0, 100.0, **{"External id": 1}),
        asked("inner", 10.0, 20.0, **{"External id": 2}),
        asked("other thread", 0.0, 100.0, tid=9, **{"External id": 3}),
        asked("empty", 60.0, 10.0, **{"External id": 4}),
        *work(1, 5.0, 200.0, 10.0),
        *work(2, 10.0, 300.0, 50.0),
        *work(3, 29.9, 320.0, 10.0),
        *work(4, 30.0, 500.0, 10.0),
        *work(5, 50.0, 700.0, 10.0, tid=9),
        event("kernel", "orphan", 900.0, 5.0, 3, 0, device=0, stream=3, correlation=99),
    ]
    assert listed(read(tmp_path, events)) == [
        ("outer", 201_000, 310_000),
        ("inner", 301_000, 50_000),
        ("other thread", 701_000, 10_000),
    ]


def test_a_range_holds_what_ran_in_ranges_inside_it(tmp_path: Path) -> None:
    events = [
        asked("outer", 0.0, 100.0, **{"External id": 1}),
        asked("inner", 10.0, 20.0, **{"External id": 2}),
        *work(1, 5.0, 200.0, 10.0),
        *work(2, 12.0, 300.0, 50.0),
        told("outer", 200.0, 10.0, **{"External id": 1}),
        told("inner", 300.0, 50.0, **{"External id": 2}),
    ]
    assert listed(read(tmp_path, events)) == [
        ("outer", 201_000, 150_000),
        ("inner", 301_000, 50_000),
    ]
    on_gpu_alone = [
        event for event in events if event["cat"] not in ("user_annotation", "cuda_runtime")
    ]
    assert listed(read(tmp_path, on_gpu_alone)) == [
        ("outer", 201_000, 10_000),
        ("inner", 301_000, 50_000),
    ]


def test_what_the_gpu_has_is_not_taken_twice(tmp_path: Path) -> None:
    events = [
        asked("both", 0.0, 10.0, **{"External id": 1}),
        asked("both", 10.0, 10.0, **{"External id": 2}),
        *work(1, 1.0, 20.0, 5.0),
        *work(2, 11.0, 40.0, 5.0),
        told("both", 20.0, 6.0, **{"External id": 1}),
    ]
    assert listed(read(tmp_path, events)) == [("both", 21_000, 6_000), ("both", 41_000, 5_000)]
    assert read(tmp_path, work(1, 1.0, 20.0, 5.0)).ranges.empty


def stripped(path: Path, folder: Path) -> Path:
    """Return a copy of a trace without the GPU's side of its ranges."""
    content = json.loads(gzip.decompress(path.read_bytes()))
    content["traceEvents"] = [
        e for e in content["traceEvents"] if e.get("cat") != "gpu_user_annotation"
    ]
    (folder / "stripped.json").write_text(json.dumps(content))
    return folder / "stripped.json"


def of(path: Path) -> Trace:
    return KinetoReader().trace([DataFile(path, path.name, True)], Options(ranges=True))


@pytest.mark.parametrize(
    ("name", "count"),
    [("normalization_layer_test", 30), ("hta_nccl_data", 39), ("mi300_resnet_act_checkpoint", 21)],
)
def test_both_sides_of_a_recorded_run_say_the_same(
    name: str, count: int, shared_data: Path, tmp_path: Path
) -> None:
    """The ranges begin and end with activities, and are those that the launches alone give."""
    path = shared_data / "profiles" / "kineto" / "other" / f"{name}.json.gz"
    if not path.exists():
        pytest.skip(f"{path.name} is not among the measured data")
    found = of(path)
    starts = found.dispatches["start_ns"].to_numpy()
    ends = starts + found.dispatches["duration_ns"].to_numpy()
    assert len(found.ranges) == count
    assert np.isin(found.ranges["start_ns"], starts).all()
    assert np.isin(found.ranges["start_ns"] + found.ranges["duration_ns"], ends).all()
    pd.testing.assert_frame_equal(found.ranges, of(stripped(path, tmp_path)).ranges)

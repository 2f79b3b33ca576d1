from __future__ import annotations

import gzip
import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest
from hypothesis import given
from hypothesis import strategies as st

from flopcast.errors import DataError
from flopcast.projection.chrome import CHUNK, cpu_tracks, gpu_tracks, lanes, launches, write_chrome
from flopcast.readers import read_traces
from flopcast.readers.reading import TraceFailure
from flopcast.traces.dispatches import call_table, dispatch_table
from flopcast.traces.summary import Annotated

BASE_NS = 1_750_000_000_123_456_000
START_NS, DURATION_NS = np.array([12_001, 30_000, 15_500]) + BASE_NS, np.array([2_000, 999, 1])


def table(**columns: Any) -> pd.DataFrame:
    """Two kernels of one launch on stream 7, the second first, and a copy without a launch."""
    return dispatch_table(
        {
            "kind": ["kernel", "kernel", "memcpy"],
            "process": [6240, 6240, pd.NA],
            "gpu": 2,
            "stream": [7, 7, 3],
            "name": ["void gemm<float>()", 'reduce "é"', "HtoD"],
            "start_ns": np.array([20_000, 40_000, 15_000]) + BASE_NS,
            "duration_ns": [4_000, 1_000, 2],
            "correlation": [11, 11, 12],
            **columns,
        }
    )


def projected() -> pd.DataFrame:
    return table().assign(
        op=["gemm", "", "copy"],
        op_class=["gemm", "reduction", "memcpy"],
        factor=[0.5, 0.999, np.nan],
        law=["roofline", "flops", "kept"],
        why=["", "no bytes known", ""],
        bound=["compute", "memory", ""],
    )


def calls() -> pd.DataFrame:
    return call_table(
        {
            "name": ["hipGraphLaunch", "hipStreamSynchronize", "hipInner"],
            "start_ns": np.array([10_000, 31_000, 10_000]) + BASE_NS,
            "duration_ns": [1_000, 5_000, 400],
            "process": [6240, 6240, 6240],
            "thread": [0, 1, 0],
            "correlation": [11, 13, pd.NA],
        }
    )


def write(
    path: Path, activities: pd.DataFrame, *times: np.ndarray, **options: Any
) -> dict[str, Any]:
    write_chrome(path, activities, *times, host="MI300X", target="MI355X", **options)
    raw = path.read_bytes()
    return json.loads(gzip.decompress(raw) if path.suffix == ".gz" else raw)


@pytest.fixture
def document(tmp_path: Path) -> dict[str, Any]:
    times = START_NS, DURATION_NS
    return write(tmp_path / "out.json", projected(), *times, calls=calls(), notes=["gaps are kept"])


def events_of(document: dict[str, Any], phase: str) -> list[dict[str, Any]]:
    return [event for event in document["traceEvents"] if event["ph"] == phase]


def named(document: dict[str, Any], kind: str) -> dict[int, str]:
    """Return the name of each process or thread by its number."""
    number = "pid" if kind == "process_name" else "tid"
    return {
        event[number]: event["args"]["name"]
        for event in events_of(document, "M")
        if event["name"] == kind
    }


def test_the_file_says_what_it_is(document: dict[str, Any]) -> None:
    assert document["otherData"]["what"] == "projection from MI300X to MI355X, not a measurement"
    assert document["otherData"]["notes"] == ["gaps are kept"]
    assert document["baseTimeNanoseconds"] == BASE_NS + 10_000
    assert document["traceName"] == "out.json"


def test_activities_have_projected_times_and_say_why(document: dict[str, Any]) -> None:
    gemm, copy, reduction = (
        event for event in events_of(document, "X") if event["cat"] != "projected call"
    )
    assert gemm == {
        "ph": "X", "name": "void gemm<float>()", "cat": "projected kernel", "pid": gemm["pid"], "tid": gemm["tid"],
        "ts": 2.001, "dur": 2.0,
        "args": {
            "measured_start_us": 10.0, "measured_duration_us": 4.0, "factor": 0.5, "correlation": 11,
            "law": "roofline", "bound": "compute", "op": "gemm", "op_class": "gemm",
        },
    }  # fmt: skip
    assert (copy["cat"], copy["ts"], copy["dur"]) == ("projected memcpy", 5.5, 0.001)
    assert "factor" not in copy["args"]
    assert (reduction["name"], reduction["args"]["why"]) == ('reduce "é"', "no bytes known")


def test_devices_and_streams_have_names(document: dict[str, Any]) -> None:
    assert list(named(document, "process_name").values()) == [
        "CPU process 6240 (projected)", "MI355X (projected), GPU 2",
    ]  # fmt: skip
    assert list(named(document, "thread_name").values()) == [
        "CPU thread 0", "CPU thread 1", "MI355X (projected) stream 3", "MI355X (projected) stream 7",
    ]  # fmt: skip
    labels = {
        event["args"]["labels"]
        for event in events_of(document, "M")
        if event["name"] == "process_labels"
    }
    assert labels == {"projected from MI300X", "projected from the host of MI300X"}


def test_every_event_is_drawn_in_a_named_row(document: dict[str, Any]) -> None:
    threads = {
        (event["pid"], event["tid"])
        for event in events_of(document, "M")
        if event["name"] == "thread_name"
    }
    drawn = [event for event in document["traceEvents"] if event["ph"] != "M"]
    assert {(event["pid"], event["tid"]) for event in drawn} == threads
    assert not {pid for pid, _ in threads} & {tid for _, tid in threads}


def test_a_call_points_at_each_activity_it_launched(document: dict[str, Any]) -> None:
    starts, ends = events_of(document, "s"), events_of(document, "f")
    assert [event["id"] for event in starts] == [event["id"] for event in ends] == [1, 2]
    places = named(document, "thread_name")
    assert [(event["ts"], places[event["tid"]]) for event in starts] == [(0.0, "CPU thread 0")] * 2
    assert [(event["ts"], places[event["tid"]]) for event in ends] == [
        (2.001, "MI355X (projected) stream 7"), (20.0, "MI355X (projected) stream 7"),
    ]  # fmt: skip
    assert {(event["cat"], event["name"]) for event in starts + ends} == {("ac2g", "ac2g")}
    assert {event["bp"] for event in ends} == {"e"}


def test_of_calls_that_begin_together_the_enclosing_one_is_first(document: dict[str, Any]) -> None:
    found = [
        event["name"] for event in events_of(document, "X") if event["cat"] == "projected call"
    ]
    assert found == ["hipGraphLaunch", "hipInner", "hipStreamSynchronize"]


def test_without_calls_there_are_no_arrows_and_no_cpu(tmp_path: Path) -> None:
    document = write(tmp_path / "out.json", projected(), START_NS, DURATION_NS)
    assert {event["ph"] for event in document["traceEvents"]} == {"M", "X"}
    assert list(named(document, "process_name").values()) == ["MI355X (projected), GPU 2"]


def test_a_table_without_laws_has_measured_times_alone(tmp_path: Path) -> None:
    bare = table(correlation=[pd.NA] * 3)
    document = write(tmp_path / "out.json", bare, START_NS, DURATION_NS)
    assert {tuple(event["args"]) for event in events_of(document, "X")} == {
        ("measured_start_us", "measured_duration_us")
    }


def test_activities_that_overlap_on_one_stream_get_rows_of_their_own(tmp_path: Path) -> None:
    times = BASE_NS + np.array([0, 500, 1_000]), np.array([1_000, 1_000, 200])
    document = write(tmp_path / "out.json", table(stream=[7, 7, 7]), *times)
    places = named(document, "thread_name")
    assert [places[event["tid"]] for event in events_of(document, "X")] == [
        "MI355X (projected) stream 7", "MI355X (projected) stream 7 (2)", "MI355X (projected) stream 7",
    ]  # fmt: skip


def test_what_is_unknown_of_a_device_is_called_so(tmp_path: Path) -> None:
    document = write(
        tmp_path / "out.json",
        table(gpu=pd.NA, stream=[pd.NA] * 3, rank=[0, 0, 1]),
        START_NS,
        DURATION_NS,
    )
    assert list(named(document, "process_name").values()) == [
        "MI355X (projected), GPU unknown, rank 0", "MI355X (projected), GPU unknown, rank 1",
    ]  # fmt: skip
    assert (
        list(named(document, "thread_name").values()) == ["MI355X (projected) stream unknown"] * 2
    )


def test_compressed_files_hold_the_same_and_are_the_same_each_time(tmp_path: Path) -> None:
    plain = write(tmp_path / "out.json", projected(), START_NS, DURATION_NS, calls=calls())
    packed = write(tmp_path / "out.json.gz", projected(), START_NS, DURATION_NS, calls=calls())
    first = (tmp_path / "out.json.gz").read_bytes()
    assert packed == plain | {"traceName": "out.json.gz"}
    write(tmp_path / "out.json.gz", projected(), START_NS, DURATION_NS, calls=calls())
    assert (tmp_path / "out.json.gz").read_bytes() == first


@pytest.mark.no_cover
def test_many_chunks_make_one_ordered_list(tmp_path: Path) -> None:
    rows = 2 * CHUNK + 7
    rng = np.random.default_rng(0)
    start = BASE_NS + rng.permutation(rows) * 1_000
    columns = {
        "kind": "kernel",
        "name": "k",
        "stream": 0,
        "start_ns": start,
        "duration_ns": np.full(rows, 900),
    }
    document = write(
        tmp_path / "out.json", dispatch_table(columns, rows), start, np.full(rows, 1_000)
    )
    stamps = [event["ts"] for event in events_of(document, "X")]
    assert stamps == [float(i) for i in range(rows)]


def test_times_keep_their_nanoseconds(tmp_path: Path) -> None:
    """A day into the trace, where single precision or a sum of floats would lose them."""
    start = BASE_NS + np.array([0, 86_400_000_000_001, 86_400_000_000_999])
    document = write(tmp_path / "out.json", table(start_ns=start), start, np.array([1, 998, 1]))
    found = [(event["ts"], event["dur"]) for event in events_of(document, "X")]
    assert found == [(0.0, 0.001), (86_400_000_000.001, 0.998), (86_400_000_000.999, 0.001)]


def test_a_trace_without_activities_is_an_empty_list(tmp_path: Path) -> None:
    none = np.zeros(0, dtype=np.int64)
    assert write(tmp_path / "out.json", table().head(0), none, none)["traceEvents"] == []


def test_calls_of_another_process_launched_nothing() -> None:
    mine = calls().assign(
        process=pd.array([6240, 1, pd.NA], dtype="Int64"), correlation=[12, 11, 12]
    )
    activity, call = launches(table(), mine)
    assert (activity.tolist(), call.tolist()) == ([2], [2])


def test_the_first_of_two_calls_with_one_correlation_counts() -> None:
    activity, call = launches(table(), pd.concat([calls(), calls()], ignore_index=True))
    assert (activity.tolist(), call.tolist()) == ([0, 1], [0, 0])


def test_the_path_must_say_json(tmp_path: Path) -> None:
    with pytest.raises(DataError, match=r"out.trace.*.json.gz"):
        write(tmp_path / "out.trace", projected(), START_NS, DURATION_NS)


def test_a_failure_leaves_the_previous_file(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    before = write(tmp_path / "out.json", projected(), START_NS, DURATION_NS)

    def fail(*_: object, **__: object) -> None:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr("flopcast.projection.chrome.gpu_tracks", fail)
    with pytest.raises(DataError, match=r"out.json"):
        write(tmp_path / "out.json", projected(), START_NS, DURATION_NS)
    assert json.loads((tmp_path / "out.json").read_text(encoding="utf-8")) == before
    assert [item.name for item in tmp_path.iterdir()] == ["out.json"]


@pytest.mark.parametrize(
    ("times", "message"),
    [
        ((START_NS[:2], DURATION_NS), r"start_ns.*int64"),
        ((START_NS, DURATION_NS / 1.0), r"duration_ns.*float64"),
        ((START_NS, -DURATION_NS), "a projected duration is negative"),
    ],
)
def test_times_are_integers_one_per_activity(
    tmp_path: Path, times: tuple[np.ndarray, ...], message: str
) -> None:
    with pytest.raises(ValueError, match=message):
        write(tmp_path / "out.json", projected(), *times)


@pytest.mark.parametrize("rows", [3, 3000])
def test_a_projection_is_never_read_as_a_measurement(tmp_path: Path, rows: int) -> None:
    """Short files hold an arrow in what is looked at to recognise them, long ones do not."""
    many = pd.concat([projected()] * (rows // 3), ignore_index=True)
    write(
        tmp_path / "out.json",
        many,
        np.resize(START_NS, rows),
        np.resize(DURATION_NS, rows),
        calls=calls(),
    )
    found = [result for _, result in read_traces([tmp_path])]
    assert all(isinstance(result, TraceFailure) or result.dispatches.empty for result in found)


def test_a_real_trace_keeps_every_activity_and_launch(
    kineto: Callable[[str], Annotated], tmp_path: Path
) -> None:
    annotated = kineto("pairs_mi300/gaunernst_bert-small-uncased__1016001")
    activities = annotated.dispatches
    times = activities["start_ns"].to_numpy(), activities["duration_ns"].to_numpy()
    document = write(tmp_path / "out.json.gz", activities, *times, calls=annotated.calls)
    slices = events_of(document, "X")
    assert len(slices) == len(activities) + len(annotated.calls)
    assert (
        len(events_of(document, "s")) == len(events_of(document, "f")) == activities["linked"].sum()
    )
    gpu = [event for event in slices if event["cat"] != "projected call"]
    assert all(event["args"]["measured_duration_us"] == event["dur"] for event in gpu)


EVENTS = st.lists(st.tuples(st.integers(0, 2), st.integers(0, 40), st.integers(0, 10)), max_size=40)


@given(events=EVENTS)
def test_no_two_events_of_a_row_overlap(events: list[tuple[int, int, int]]) -> None:
    queues, starts, lengths = np.array(events, dtype=np.int64).reshape(-1, 3).T
    ends = starts + lengths
    found = lanes(queues, starts, ends)
    for place in np.unique(np.column_stack([queues, found]), axis=0):
        rows = np.flatnonzero((queues == place[0]) & (found == place[1]))
        rows = rows[np.lexsort((ends[rows], starts[rows]))]
        assert (starts[rows][1:] >= ends[rows][:-1]).all()


@given(events=EVENTS)
def test_there_are_no_more_rows_than_events_at_once(events: list[tuple[int, int, int]]) -> None:
    queues, starts, lengths = np.array(events, dtype=np.int64).reshape(-1, 3).T
    ends = starts + lengths
    found = lanes(queues, starts, ends)
    for queue in np.unique(queues):
        own = queues == queue
        running = [
            int((own & (starts <= now) & ((ends > now) | (starts == now))).sum())
            for now in starts[own]
        ]
        assert found[own].max() < max(running)


def test_back_to_back_is_no_overlap() -> None:
    assert lanes(np.zeros(3, int), np.array([0, 5, 5]), np.array([5, 5, 9])).tolist() == [0, 0, 0]


def test_numbers_follow_the_keys_whatever_the_order_of_the_rows() -> None:
    keys = {"rank": [1, 0, 0, 1], "gpu": [2, 2, 2, 2], "stream": [0, 9, 7, pd.NA]}
    activities = pd.DataFrame(keys, dtype="Int64")
    times = np.arange(4), np.arange(4) + 1
    tracks = gpu_tracks(activities, *times, target="B", host="A", used=10)
    assert tracks.pids.tolist() == [12, 11, 11, 12]
    assert tracks.tids.tolist() == [15, 14, 13, 16]
    assert [event.args["name"] for event in tracks.names if event.name == "thread_name"] == [
        "B (projected) stream 7", "B (projected) stream 9", "B (projected) stream 0", "B (projected) stream unknown",
    ]  # fmt: skip


def test_a_thread_of_two_processes_is_two_threads() -> None:
    calls = pd.DataFrame({"process": [5, 4, pd.NA], "thread": [0, 0, 0]}, dtype="Int64")
    tracks = cpu_tracks(calls, "A")
    assert (tracks.pids.tolist(), tracks.tids.tolist()) == ([2, 1, 3], [5, 4, 6])
    assert [event.args["name"] for event in tracks.names if event.name == "process_name"] == [
        "CPU process 4 (projected)", "CPU process 5 (projected)", "CPU process unknown (projected)",
    ]  # fmt: skip


def test_no_calls_no_tracks() -> None:
    assert cpu_tracks(pd.DataFrame({"process": [], "thread": []}, dtype="Int64"), "A").names == []

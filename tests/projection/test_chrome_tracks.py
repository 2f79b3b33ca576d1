from __future__ import annotations

import numpy as np
import pandas as pd
from hypothesis import given
from hypothesis import strategies as st

from flopcast.projection.chrome import cpu_tracks, gpu_tracks, lanes

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
        running = [int((own & (starts <= now) & ((ends > now) | (starts == now))).sum()) for now in starts[own]]
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

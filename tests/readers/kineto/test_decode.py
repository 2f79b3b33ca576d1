"""Events in columns: exact times, phases, what is decoded and what is passed over."""

from __future__ import annotations

import contextlib
import gc
import json
from typing import Any

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from flopcast.readers.kineto_decode import decode, inputs_of, uncollected
from flopcast.readers.kineto_events import MISSING


def kernels(*times: tuple[float, float]) -> bytes:
    return json.dumps(
        [{"ph": "X", "cat": "kernel", "ts": ts, "dur": dur} for ts, dur in times]
    ).encode()


@given(st.lists(st.tuples(st.integers(0, 2**43 * 1000), st.integers(0, 10**12)), min_size=1))
def test_times_are_exact_to_the_nanosecond(times: list[tuple[int, int]]) -> None:
    written = ",".join(
        f'{{"ph": "X", "cat": "kernel", "ts": {start // 1000}.{start % 1000:03}, "dur": {ns // 1000}.{ns % 1000:03}}}'
        for start, ns in times
    )
    gpu = decode([f"[{written}]".encode()]).gpu
    assert list(zip(gpu.start_ns.tolist(), gpu.duration_ns.tolist(), strict=True)) == times


def test_whole_microseconds_since_1970_are_exact() -> None:
    found = decode([kernels((1689180447559961, 3))])
    assert found.gpu.start_ns.tolist() == [1689180447559961000]
    assert (found.coarse, found.clipped) == (0, 0)


@pytest.mark.parametrize("phase", list("BEiCbnesft(M"))
def test_events_of_other_phases_are_counted_and_passed_over(phase: str) -> None:
    content = [
        {"name": "x", "ph": phase, "cat": "kernel", "ts": "not a time", "args": 5},
        {"cat": "cpu_op", "ph": phase},
    ]
    found = decode([json.dumps(content).encode()])
    assert (found.count, len(found.gpu), len(found.operators)) == (2, 0, 0)


def test_numbers_written_as_words_are_numbers_and_what_is_absent_is_missing() -> None:
    event: dict[str, Any] = {
        "ph": "X",
        "cat": "kernel",
        "ts": "5",
        "dur": "1.5",
        "args": {"bytes": "60", "stream": 2},
    }
    gpu = decode([json.dumps([event]).encode()]).gpu
    assert (
        gpu.start_ns[0],
        gpu.duration_ns[0],
        gpu.integers["bytes"][0],
        gpu.integers["stream"][0],
    ) == (
        5000,
        1500,
        60,
        2,
    )
    assert gpu.integers["device"][0] == MISSING
    assert gpu.sizes["grid"].tolist() == [[MISSING] * 3]


def test_threads_are_numbered_over_all_groups() -> None:
    events = [
        {"ph": "X", "cat": "cpu_op", "pid": 3, "tid": 4, "ts": 0, "dur": 1},
        {"ph": "X", "cat": "cuda_runtime", "pid": 3, "tid": 4, "ts": 0, "dur": 1},
        {"ph": "X", "cat": "cuda_runtime", "pid": "Spans", "tid": 4, "ts": 0, "dur": 1},
    ]
    found = decode([json.dumps(events).encode()])
    assert found.operators.threads[0] == found.launches.threads[0]
    assert found.processes(found.launches).tolist() == [3, MISSING]


def test_inputs_are_those_the_file_has_without_white_space() -> None:
    raw = [
        msgspec.Raw(text)
        for text in (b'{"Input Dims": [ [2,\n 3] ], "a": 1}', b'{"Input type": ["float"]}', b"{}")
    ]
    assert inputs_of(raw) == ['{"dims":[[2,3]]}', '{"types":["float"]}', ""]


def test_the_collector_is_left_as_it_was() -> None:
    assert gc.isenabled()
    with contextlib.suppress(ValueError), uncollected():
        assert not gc.isenabled()
        raise ValueError("x")
    assert gc.isenabled()

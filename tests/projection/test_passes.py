"""Durations of passes in the place of those of a full trace."""

from __future__ import annotations

from typing import Any

import pandas as pd
import pytest

from flopcast.errors import DataError
from flopcast.projection.passes import with_durations
from flopcast.tests.projection.oracles import traces as oracles
from flopcast.traces.dispatches import Trace, dispatch_table
from flopcast.traces.summary import Annotated, annotate

US = 1000


def trace(*launches: tuple[str, int, int], **columns: Any) -> Annotated:
    """Return a trace of kernels of (name, start, duration), times in µs."""
    names, starts, durations = zip(*launches, strict=True)
    times = {
        "start_ns": [start * US for start in starts],
        "duration_ns": [duration * US for duration in durations],
    }
    kernels = {"kind": "kernel", "name": list(names), "source": "t:1", "gpu": 0, **times, **columns}
    return annotate(Trace(dispatch_table(kernels)))


def passes(*measured: tuple[str, int, float], **columns: Any) -> pd.DataFrame:
    return pd.DataFrame(measured, columns=["name", "occurrence", "duration_us"]).assign(**columns)


FULL = trace(("a", 0, 40), ("b", 50, 10), ("a", 70, 40))


def times_us(found: Annotated) -> list[list[float]]:
    return (found.dispatches[["start_ns", "duration_ns"]] / US).to_numpy().tolist()


def test_what_follows_a_kernel_follows_it_still() -> None:
    """Gaps of 10 µs stay: b starts at 30 + 10, and the second a at 40 + 10 + 10."""
    found = with_durations(FULL, passes(("a", 1, 30.0), ("a", 2, 20.0)))
    assert times_us(found.trace) == [[0, 30], [40, 10], [60, 20]]
    assert found.kernels.to_numpy().tolist() == [["a", 2, 2, 80, 0, 50], ["b", 1, 0, 10, 10, 10]]
    told = found.note.values
    assert (found.note.code, told["kernels"], told["of"], told["unmeasured"]) == (
        "durations-of-passes",
        2,
        3,
        1,
    )
    assert (told["first"], told["time_share"], told["ratio"]) == (
        ("b",),
        pytest.approx(8 / 9),
        pytest.approx(6 / 9),
    )


def test_the_durations_of_the_trace_itself_change_nothing() -> None:
    found = with_durations(FULL, passes(("a", 1, 40.0), ("b", 1, 10.0), ("a", 2, 40.0)))
    assert times_us(found.trace) == times_us(FULL)
    assert found.note.values["unmeasured"] == 0


def test_several_executions_count_as_their_median() -> None:
    """Three runs of the trace in one pass, a at 1, 2 and 6 µs first, 4, 5 and 9 µs then; b by two passes."""
    runs = [("a", place, time) for place, time in enumerate([1.0, 4.0, 2.0, 5.0, 6.0, 9.0], 1)]
    found = with_durations(FULL, passes(*runs, ("b", 1, 7.0), ("b", 1, 9.0)))
    assert found.trace.dispatches["duration_ns"].tolist() == [2 * US, 8 * US, 5 * US]


def test_executions_of_a_step_serve_every_step() -> None:
    """Two steps with one a each, three executions of a: no whole number of traces, but of steps."""
    steps = trace(("a", 0, 40), ("a", 50, 44), step=[1, 2])
    found = with_durations(steps, passes(("a", 1, 1.0), ("a", 2, 2.0), ("a", 3, 6.0)))
    assert found.trace.dispatches["duration_ns"].tolist() == [2 * US, 2 * US]


def test_steps_that_differ_are_no_executions_of_one_another() -> None:
    steps = trace(("a", 0, 40), ("a", 50, 44), ("a", 100, 44), step=[1, 2, 2])
    with pytest.raises(DataError, match=r"4 times.* 3 times"):
        with_durations(steps, passes(*(("a", place, 1.0) for place in range(1, 5))))


def test_times_of_modules_go_to_the_calls_of_their_operator_and_shape() -> None:
    """Products that took 300 µs took 240 in line, with a helper kernel of the same call in proportion."""
    whole = oracles.trace(
        [oracles.gemm(0, 300, called=-9), oracles.add(400, 20), oracles.gemm(500, 300, called=490)]
    )
    row = {
        "device": "MI300X",
        "op": "gemm",
        "m": 4096,
        "n": 4096,
        "k": 4096,
        "dtype_a": "bf16",
        "repeats": 9,
    }
    inline = pd.DataFrame([row | {"duration_us": time} for time in (230.0, 240.0, 260.0)])
    found = with_durations(whole, inline)
    assert found.trace.dispatches["duration_ns"].tolist() == [240 * US, 20 * US, 240 * US]
    assert (found.note.values["kernels"], found.note.values["of"]) == (2, 3)
    with pytest.raises(DataError, match="timed in line"):
        with_durations(whole, inline.assign(m=17))


def test_one_gpu_serves_all_and_several_go_by_their_order() -> None:
    two = trace(("a", 0, 40), ("a", 0, 50), gpu=[3, 5])
    one = with_durations(two, passes(("a", 1, 7.0)))
    assert one.trace.dispatches["duration_ns"].tolist() == [7 * US] * 2
    own = with_durations(two, passes(("a", 1, 7.0), ("a", 1, 8.0), device_number=[0, 1]))
    assert own.trace.dispatches["duration_ns"].tolist() == [7 * US, 8 * US]


def test_names_meet_however_the_profilers_spell_them() -> None:
    short = with_durations(
        trace(("ns::f<1>()", 0, 40), ("ns::f<2>()", 50, 40)), passes(("f", 1, 1.0), ("f", 2, 2.0))
    )
    assert short.trace.dispatches["duration_ns"].tolist() == [US, 2 * US]
    with pytest.raises(DataError, match=r"'f<1>' and 'f<2>'"):
        with_durations(trace(("f", 0, 40)), passes(("f<1>", 1, 1.0), ("f<2>", 1, 2.0)))


@pytest.mark.parametrize(
    ("durations", "message"),
    [
        (pd.DataFrame({"name": ["a"]}), "occurrence, duration_us missing"),
        (passes(), "empty"),
        (passes(("a", 0, 1.0)), "row 1"),
        (passes(("a", 1, 1.0), ("a", 2, -1.0)), "row 2"),
        (passes(("c", 1, 1.0)), "no kernel of the durations"),
        (
            passes(*(("a", place, 1.0) for place in range(1, 4))),
            "'a' runs 3 times in the durations, 2 times",
        ),
        (passes(("a", 1, 1.0), ("a", 1, 1.0), device_number=[0, 1]), "2 GPUs for a trace of 1"),
    ],
)
def test_what_contradicts_the_trace_is_refused(durations: pd.DataFrame, message: str) -> None:
    with pytest.raises(DataError, match=message):
        with_durations(FULL, durations)


def test_another_launch_is_another_program() -> None:
    full = trace(("a", 0, 40), grid_x=8, grid_y=1, grid_z=1, block_x=64, block_y=1, block_z=1)
    assert (
        with_durations(full, passes(("a", 1, 1.0), workgroups=8.0, threads=64.0)).note.values[
            "kernels"
        ]
        == 1
    )
    with pytest.raises(DataError, match=r"'a'.*8.*9"):
        with_durations(full, passes(("a", 1, 1.0), workgroups=9.0))

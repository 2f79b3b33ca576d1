from __future__ import annotations

from typing import Any

import pandas as pd
import pytest

from flopcast.errors import DataError
from flopcast.projection.trace_times import Profiled, trace_times
from flopcast.traces.dispatches import Trace, dispatch_table
from flopcast.traces.summary import annotate

US = 1000


def table(*activities: tuple[int, int], **columns: Any) -> pd.DataFrame:
    """Return activities of (start, duration) in us."""
    starts, durations = zip(*activities, strict=True)
    times = {"start_ns": [start * US for start in starts], "duration_ns": [duration * US for duration in durations]}
    return dispatch_table({"kind": "kernel", "name": "k", **times, **columns})


def test_kernels_gaps_and_end_to_end() -> None:
    """Two kernels overlap by 2 us, a copy counts as busy but is no kernel."""
    rows = table((10, 5), (13, 5), (30, 4), kind=["kernel", "kernel", "memcpy"], stream=[1, 2, 1])
    times = trace_times(Profiled("t", rows))
    assert (times.kernels, times.kernel_us) == (2, 10)
    assert (times.busy_us, times.gaps_us, times.end_to_end_us) == (12, 12, 24)
    assert (times.gpus, times.steps, times.cpu_step_us, times.end_to_end_per_step_us) == (1, None, None, None)


def test_steps_are_those_with_activities_and_what_is_outside_them_is_left_out() -> None:
    steps = pd.DataFrame({"step": [3, 4, 5], "start_ns": [0, 1, 2], "duration_ns": [7 * US, 9 * US, 100 * US]})
    rows = table((-50, 5), (0, 4), (10, 4), step=[None, 3, 4])
    times = trace_times(Profiled("t", rows, steps))
    assert (times.kernels, times.steps, times.end_to_end_us, times.end_to_end_per_step_us) == (2, 2, 14, 7)
    assert times.cpu_step_us == 8


def test_the_number_of_steps_given_is_for_the_whole_trace() -> None:
    times = trace_times(Profiled("t", table((0, 4), (10, 4), (20, 4), step=[None, 3, 3]), step_count=3))
    assert (times.kernels, times.steps, times.end_to_end_per_step_us) == (3, 3, 8)


def test_of_several_gpus_the_longest_counts_and_idle_ones_do_not() -> None:
    rows = table((0, 10), (0, 4), (16, 4), (0, 99), gpu=[0, 1, 1, 2], kind=["kernel"] * 3 + ["memcpy"])
    times = trace_times(Profiled("t", rows))
    assert (times.gpus, times.kernels, times.kernel_us, times.gaps_us, times.end_to_end_us) == (2, 2, 8, 12, 20)


def test_negative_durations_count_as_none() -> None:
    times = trace_times(Profiled("t", table((0, 10), (5, -4))))
    assert (times.kernel_us, times.busy_us) == (10, 10)


def test_a_trace_as_it_was_read() -> None:
    steps = pd.DataFrame({"step": [1], "start_ns": [0], "duration_ns": [5 * US]})
    annotated = annotate(Trace(table((0, 4), step=1), steps))
    assert trace_times(Profiled.of("t", annotated)).cpu_step_us == 5
    assert trace_times(Profiled.of("t", annotated, step_count=4)).end_to_end_per_step_us == 1


@pytest.mark.parametrize(
    ("trace", "message"),
    [
        (Profiled("t", table((0, 1), kind="memcpy")), "^t: no kernels in this trace"),
        (Profiled("t", table((0, 0), (1, -2))), "^t: no kernel of this trace has a duration"),
        (Profiled("t", table((0, 1)), step_count=0), "^t: the number of steps must be at least 1, got 0"),
    ],
)
def test_traces_without_kernels_times_or_steps_are_refused(trace: Profiled, message: str) -> None:
    with pytest.raises(DataError, match=message):
        trace_times(trace)

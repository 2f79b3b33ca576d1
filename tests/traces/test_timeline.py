from __future__ import annotations

import numpy as np
import pandas as pd

from flopcast.traces.dispatches import dispatch_table
from flopcast.traces.quality import busy_ns, gaps_ns, queue_codes, resolution_ns, span_ns


def table(*intervals: tuple[int, int], stream: list[int] | int = 0) -> pd.DataFrame:
    """Return kernels of (start, duration)."""
    starts, durations = zip(*intervals, strict=True)
    return dispatch_table(
        {
            "kind": "kernel",
            "name": "k",
            "start_ns": list(starts),
            "duration_ns": list(durations),
            "stream": stream,
        }
    )


def test_busy_is_the_union_and_span_the_hull() -> None:
    found = table((10, 5), (12, 1), (14, 6), (100, 10))  # 10-20 and 100-110
    assert (busy_ns(found), span_ns(found)) == (20, 100)


def test_busy_does_not_depend_on_the_order_of_the_rows_nor_count_negative_times() -> None:
    found = table((100, 10), (10, 5), (12, -4), (14, 6))
    assert busy_ns(found) == 20
    assert busy_ns(found.iloc[:0]) == span_ns(found.iloc[:0]) == 0


def test_gaps_are_told_for_each_queue_and_overlaps_are_negative() -> None:
    found = table((0, 10), (13, 10), (5, 1), (20, 5), (40, 1), stream=[1, 1, 2, 1, 2])
    assert gaps_ns(found).astype(object).where(lambda gap: gap.notna(), None).tolist() == [
        None,
        3,
        None,
        -3,
        34,
    ]


def test_a_long_activity_covers_all_that_start_before_its_end() -> None:
    assert gaps_ns(table((0, 100), (10, 5), (50, 5), (101, 1))).tolist()[1:] == [-90, -50, 1]


def test_a_nanosecond_is_told_at_absolute_times() -> None:
    now = 1_763_000_000_000_000_001
    assert gaps_ns(table((now, 639), (now + 640, 679))).tolist()[1] == 1


def test_queues_differ_by_device_process_and_stream() -> None:
    found = table((0, 1), (1, 1), (2, 1), (3, 1), stream=[1, 1, 2, 1])
    found = found.assign(process=pd.array([1, 1, 1, None], dtype="Int64"))
    assert queue_codes(found).tolist() == [0, 0, 1, 2]


def test_the_step_of_a_clock_is_seen_through_a_constant_offset() -> None:
    assert resolution_ns(np.array([639, 679, 1359, 679])) == 40
    assert resolution_ns(np.array([639, 679])) == 0
    assert resolution_ns(np.repeat([639, 679], 3)) == 40
    assert resolution_ns(np.repeat([20_000, 21_000], 3)) == 1_000
    assert resolution_ns(np.repeat([20_000, 25_000], 3)) == 5_000  # at most: what divides both
    assert resolution_ns(np.full(9, 20_000)) == 0

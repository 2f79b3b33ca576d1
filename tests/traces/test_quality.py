from __future__ import annotations

from typing import Any

import numpy as np
import pandas as pd
import pytest

from flopcast.errors import DataError
from flopcast.remarks import remark
from flopcast.traces.dispatches import Finding, dispatch_table, empty_steps
from flopcast.traces.quality import check, flags, overruns, share_of_time, without_overruns, words
from flopcast.traces.summary import Annotated, with_possible_times

NO_STEPS = empty_steps()


def table(starts: list[int], durations: list[int], **columns: Any) -> pd.DataFrame:
    names = {
        "kind": "kernel",
        "name": "k",
        "source": [f"t.json:{i}" for i in range(1, len(starts) + 1)],
    }
    return dispatch_table({**names, "start_ns": starts, "duration_ns": durations, **columns})


def found(rows: pd.DataFrame, code: str, steps: pd.DataFrame = NO_STEPS) -> Finding:
    [finding] = [finding for finding in check(rows, steps) if finding.code == code]
    return finding


def codes(rows: pd.DataFrame, steps: pd.DataFrame = NO_STEPS) -> set[str]:
    return {finding.code for finding in check(rows, steps)}


def test_a_sound_trace_has_no_findings() -> None:
    rows = table([0, 2000, 4100], [1000, 1004, 1013], linked=True, dispatch_id=[1, 2, 3])
    assert codes(rows) == set()
    assert words(flags(rows, NO_STEPS)).tolist() == ["", "", ""]


@pytest.mark.parametrize(
    ("duration", "code"),
    [(0, "zero-duration"), (-5, "negative-duration"), (2 * 3600 * 10**9, "impossible-duration")],
)
def test_impossible_times_are_errors_with_their_row(duration: int, code: str) -> None:
    rows = table([0, 10**14, 2 * 10**14], [1000, duration, 1013], stream=[1, 2, 3])
    finding = found(rows, code)
    assert (finding.severity, finding.count, finding.source) == ("error", 1, "t.json:2")
    assert words(flags(rows, NO_STEPS)).tolist()[1].split(";")[0] == code


def test_an_end_beyond_63_bits_is_impossible() -> None:
    assert found(table([2**63 - 10, 0], [100, 70]), "impossible-duration").count == 1


def test_overlap_counts_only_within_a_queue_and_not_a_nanosecond() -> None:
    rows = table([0, 50, 99, 200], [100, 100, 60, 10], stream=[1, 1, 2, 1])
    assert found(rows, "overlap").count == 1
    assert "overlap" not in codes(table([0, 99], [100, 100], stream=1))


def overrun(durations: list[int], **columns: Any) -> list[int]:
    """Return which of activities 60 µs apart overrun."""
    starts = [60_000 * place for place in range(len(durations))]
    columns = {"stream": 0, "correlation": range(len(durations)), **columns}
    return np.flatnonzero(overruns(table(starts, durations, **columns))).tolist()


def test_an_end_after_that_of_a_later_activity_of_the_stream_is_wrong() -> None:
    assert overrun([50_000, 1_600_000_000, 50_000, 50_000]) == [1]
    assert overrun([50_000, 116_000, 50_000, 50_000]) == [1]
    assert overrun([10**9, 50_000, 10**9, 50_000]) == [0, 2]
    assert overrun([5 * 3600 * 10**9, 50_000, 50_000]) == [0]
    assert overrun([2**62, 50_000, 50_000]) == [0]
    assert overrun([10**9, 50_000, 50_000], correlation=None) == [0]


def test_what_may_run_at_once_is_no_overrun() -> None:
    assert overrun([80_000] * 5) == []  # dependent launches begin early
    assert overrun([112_000, 50_000]) == []  # jitter of the stamps
    assert overrun([10**9, 50_000, 50_000], stream=[1, 2, 2]) == []
    assert overrun([10**9, 50_000, 50_000], stream=None) == []
    assert overrun([10**9, 50_000, 50_000], process=[1, 2, 2]) == []
    assert overrun([10**9, 50_000, 50_000], kind=["memcpy", "kernel", "kernel"]) == []
    assert overrun([200_000, 50_000, 50_000], correlation=[7, 7, 7]) == []  # branches of a graph
    assert overrun([10**9, -5, 0, 5]) == []  # the times beside it are wrong themselves


def test_an_overrun_of_a_graph_ends_where_the_next_launch_starts() -> None:
    rows = table(
        [0, 60_000, 120_000, 180_000],
        [10**9, 50_000, 50_000, 50_000],
        stream=0,
        correlation=[7, 7, 8, 8],
    )
    assert without_overruns(rows)["duration_ns"].tolist() == [120_000, 50_000, 50_000, 50_000]


def test_only_the_overrun_is_flagged_not_what_follows() -> None:
    rows = table([0, 60_000, 120_000], [10**9, 50_000, 50_003], stream=0)
    assert words(flags(rows, NO_STEPS)).tolist() == ["overrun", "", ""]
    assert found(rows, "overrun").source == "t.json:1"


def test_orphans_count_only_where_launches_are_recorded_and_with_their_share() -> None:
    rows = table([0, 1000, 3000], [1000, 1000, 2000], linked=[True, False, True])
    assert found(rows, "orphan").share == pytest.approx(0.25)
    assert "orphan" not in codes(table([0, 1000], [1000, 1000]))


def test_activities_before_the_first_step_are_warm_up() -> None:
    steps = pd.DataFrame({"step": [3, 4], "start_ns": [500, 900], "duration_ns": [400, 400]})
    assert found(table([0, 600], [10, 20]), "before-first-step", steps).count == 1


def test_short_durations_against_the_clock_are_coarse_for_each_device() -> None:
    """Steps of 40 ns on one device and of 1 ns on the other: 200 ns are five steps on the first only."""
    rows = table(
        [0, 10**4, 2 * 10**4, 3 * 10**4, 4 * 10**4, 5 * 10**4],
        [200, 4000, 8040, 200, 4001, 8043],
        device=["A", "A", "A", "B", "B", "B"],
    )
    finding = found(rows, "coarse-timer")
    assert (finding.count, finding.source) == (1, "t.json:1")


def test_repeated_and_missing_numbers_of_dispatches_are_told_for_each_process() -> None:
    rows = table(
        [0, 2000, 4000, 6000, 8000],
        [1000, 1003, 1001, 1007, 1002],
        dispatch_id=[1, 1, 4, 7, 8],
        process=[1, 1, 1, 2, 2],
    )
    assert found(rows, "repeated-dispatch").count == 1
    assert found(rows, "dropped-dispatches").count == 2


def test_counters_that_are_always_zero_are_named() -> None:
    rows = table(
        [0, 2000],
        [1000, 1003],
        **{"counter.A": [0.0, 0.0], "counter.B": [0.0, 1.0], "counter.C": np.nan},
    )
    assert found(rows, "zero-counter").remark == remark("zero-counter", counters=("counter.A",))


def test_queues_without_gaps_are_remarked() -> None:
    starts = list(range(0, 20000, 1000))
    assert found(table(starts, [999] * 20), "back-to-back").count == 19
    assert "back-to-back" not in codes(table(starts, [700] * 20))


def test_errors_come_first() -> None:
    rows = table([0, 500, 3000], [1000, 0, 50], stream=1, linked=[True, False, True])
    severities = [finding.severity for finding in check(rows, NO_STEPS)]
    assert severities == sorted(severities, key=["error", "warning", "info"].index)
    assert severities[0] == "error"


def test_parts_that_lie_days_apart_are_not_of_one_run() -> None:
    day = 86_400 * 10**9
    whole = table([0, 100, day], [50, day - 200, 50])
    assert "days-apart" not in codes(whole)
    parts = table([0, 100, 2 * day, 2 * day + 100], [50, 50, 50, 50])
    assert (found(parts, "days-apart").severity, found(parts, "days-apart").count) == ("error", 1)
    trace = Annotated(
        parts.assign(source=["a.csv:2", "a.csv:3", "b.csv:2", "b.csv:3"]), empty_steps(), (), ()
    )
    with pytest.raises(DataError, match=r"b\.csv:2"):
        with_possible_times(trace, "run")
    hours = table([0, 100, day / 4, day / 4 + 100], [50, 50, 50, 50])
    assert "days-apart" not in codes(
        hours.assign(source=["a.csv:2", "b.csv:2", "a.csv:3", "b.csv:3"])
    )
    assert (
        found(hours.assign(source=["a.csv:2", "a.csv:3", "b.csv:2", "b.csv:3"]), "days-apart").count
        == 1
    )


def test_a_trace_without_time_has_no_shares() -> None:
    assert share_of_time(table([0], [0]), np.array([True])) is None
    assert check(table([], []), NO_STEPS) == []

"""What differs between two traces: cases counted by hand, and that the parts add up."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import flopcast as fc
from flopcast.errors import DataError
from flopcast.projection.comparison import TraceChanges, trace_changes
from flopcast.report.comparing import traces_document
from flopcast.report.document import Headline
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
    return annotate(
        Trace(dispatch_table({"kind": "kernel", "name": list(names), **times, **columns}))
    )


def changes(before: Annotated, after: Annotated) -> TraceChanges:
    return trace_changes([("before", before), ("after", after)])


BEFORE = (("gemm_a", 0, 40), ("norm", 50, 10), ("gemm_a", 70, 40), ("old", 110, 5))


def test_every_call_is_added_removed_faster_slower_or_the_same_and_the_parts_add_up() -> None:
    after = trace(
        ("gemm_a", 0, 30), ("norm", 30, 12), ("gemm_a", 45, 30), ("new", 80, 7), ("norm", 90, 12)
    )
    found = changes(trace(*BEFORE), after)
    names = found.calls["kernel"].fillna(found.calls["kernel_after"])
    assert dict(zip(names, found.calls["outcome"], strict=True)) == {
        "gemm_a": "faster", "norm": "slower", "old": "removed", "new": "added",
    }  # fmt: skip
    assert found.change_us == pytest.approx(102 - 115)
    assert {name: pytest.approx(value) for name, value in found.parts.items()} == {
        "added": 7, "removed": -5, "more-calls": 10, "fewer-calls": 0, "faster": -20, "slower": 4, "gaps": -9,
        "overlap": 0,
    }  # fmt: skip


def test_the_same_trace_has_not_changed() -> None:
    found = changes(trace(*BEFORE), trace(*BEFORE))
    assert set(found.calls["outcome"]) == {"same"}
    assert not any(found.parts.values())
    assert found.change_us == 0


def test_what_repeats_do_not_tell_apart_is_the_same() -> None:
    noisy = [trace(*(("k", 100 * i, 10 + (i * step) % 7) for i in range(8))) for step in (1, 3)]
    assert changes(*noisy).calls["outcome"].tolist() == ["same"]


def test_steps_are_compared_by_their_mean_and_have_an_interval() -> None:
    def steps(durations: Sequence[int]) -> Annotated:
        launches = [("k", 1000 * i, duration) for i, duration in enumerate(durations)]
        return trace(*launches, step=list(range(len(durations))))

    found = changes(steps([10, 11, 12]), steps([20, 21, 22, 21]))
    assert (found.before.steps, found.after.steps) == (3, 4)
    assert found.change_us == pytest.approx(10)
    assert found.calls.loc[0, ["count", "count_after"]].tolist() == [1, 1]
    assert found.interval_us is not None
    assert found.interval_us[0] < 10 < found.interval_us[1]


def test_parts_add_up_where_activities_overlap_on_several_streams() -> None:
    rng = np.random.default_rng(0)

    def random_trace() -> Annotated:
        launches = [
            (f"k{rng.integers(6)}", int(rng.integers(500)), int(rng.integers(1, 60)))
            for _ in range(40)
        ]
        return trace(*launches, stream=rng.integers(3, size=40).astype(str).tolist())

    for _ in range(5):
        found = changes(random_trace(), random_trace())
        assert sum(found.parts.values()) == pytest.approx(found.change_us)


def test_a_trace_without_kernels_is_refused() -> None:
    copies = annotate(
        Trace(
            dispatch_table({"kind": ["copy"], "name": ["c"], "start_ns": [0], "duration_ns": [5]})
        )
    )
    with pytest.raises(DataError, match="no kernels"):
        changes(trace(*BEFORE), copies)


def test_the_document_says_how_much_and_where_from() -> None:
    document = traces_document(changes(trace(*BEFORE), trace(*BEFORE[:3])))
    (head,) = (part for part in document.opening if isinstance(part, Headline))
    assert head.rival == "before: 115 µs"
    assert document.data["parts_us"]["removed"] == -5
    assert [row["outcome"] for row in document.data["calls"]].count("removed") == 1


def test_calls_of_real_traces_are_matched_by_shape(shared_data: Path) -> None:
    name = "facebook_timesformer-base-finetuned-k400__1016002.json.gz"
    found = fc.compare(
        *(shared_data / "profiles" / "kineto" / f"pairs_{gpu}" / name for gpu in ("mi300", "h100"))
    )
    assert sum(found.found.parts.values()) == pytest.approx(found.found.change_us)
    by_outcome = found.table.groupby("outcome")["time_us"].sum()
    assert by_outcome["removed"] < 0.01 * by_outcome.sum()

"""What the findings on a trace mean for answers made of it."""

from __future__ import annotations

import math
from dataclasses import replace

import pytest

from flopcast.errors import DataError
from flopcast.remarks import remark
from flopcast.tests.projection.oracles.traces import busy
from flopcast.traces.dispatches import Finding, Severity
from flopcast.traces.doubts import check_whole, doubts_of
from flopcast.traces.summary import Annotated


def with_finding(
    code: str, count: int, severity: Severity = "warning", share: float | None = None
) -> Annotated:
    """Return a trace of twenty kernels of which reading found one thing."""
    return replace(
        busy(20), findings=(Finding(remark(code, "activities"), severity, count, share),)
    )


@pytest.mark.parametrize(
    ("code", "count", "share", "missing"),
    [
        ("dropped-dispatches", 5, None, 0.2),
        ("graph-as-a-whole", 1, 0.3, 0.3),
        ("graph-as-a-whole", 100, 0.1, 0.1),  # a hundred short ones
        ("no-time", 20, None, 0.5),
        ("impossible-duration", 5, 0.99, 0.2),  # a damaged time has no share of the time
    ],
)
def test_missing_work_is_a_share_of_what_ran(
    code: str, count: int, share: float | None, missing: float
) -> None:
    doubts = doubts_of(with_finding(code, count, share=share))
    assert doubts.missing == pytest.approx(missing)
    assert doubts.untrusted == 0
    assert doubts.reach == pytest.approx(-math.log(1 - missing))
    assert [one.values["finding"].code for one in doubts.remarks] == [code]


def test_an_error_concerns_the_times_unless_it_is_of_something_else() -> None:
    assert doubts_of(with_finding("spoiled-timestamps", 5, "error")).untrusted == pytest.approx(
        0.25
    )
    assert doubts_of(with_finding("unreadable-execution-trace", 1, "error")).reach == 0


def test_what_is_worth_knowing_only_is_no_doubt() -> None:
    doubts = doubts_of(with_finding("back-to-back", 20, "info"))
    assert doubts.remarks == ()
    assert doubts.reach == 0


def test_a_trace_of_which_most_is_missing_is_refused_and_one_of_which_less_is_not() -> None:
    check_whole(with_finding("dropped-dispatches", 19), "a.csv")
    with pytest.raises(DataError, match="% of what ran is not in the trace") as refused:
        check_whole(with_finding("dropped-dispatches", 30), "a.csv")
    assert refused.value.source == "a.csv"

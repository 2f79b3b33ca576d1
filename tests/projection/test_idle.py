"""Idle ends are cut, and long gaps are named with the times without them."""

from __future__ import annotations

import pytest

from flopcast.hardware import find
from flopcast.projection.result import result_of
from flopcast.remarks import Remark
from flopcast.tests.projection.oracles.traces import add, gemm, trace
from flopcast.traces.summary import Annotated

HOST, TARGET = find("MI300X"), find("MI355X")
WORK = [gemm(10_000 + 300 * number, 300, called=9_000.0 + number) for number in range(30)]  # 9 ms


def first_of(traced: Annotated) -> dict[str, Remark]:
    """Return what stands above the answer, by its code."""
    found = result_of("t", traced, HOST, TARGET, samples=16)
    return {one.code: one for one in found.first}


def test_an_idle_head_is_cut_and_said() -> None:
    found = result_of("t", trace([add(0, 4, called=-10.0), *WORK]), HOST, TARGET, samples=16)
    assert found.projection.measured_us == pytest.approx(9000)
    assert found.split["total_us"].iloc[0] == pytest.approx(9000)
    (head,) = (one for one in found.first if one.code == "idle-head")
    assert head.values == {"idle_us": 9996, "activities": 1, "time_us": 4}
    alone = result_of("t", trace(WORK), HOST, TARGET, samples=16)
    assert found.uncertainty.nominal_us == pytest.approx(alone.uncertainty.nominal_us, rel=1e-6)


def test_an_idle_tail_is_cut_and_said() -> None:
    found = result_of(
        "t", trace([*WORK, add(40_000, 4, called=39_990.0)]), HOST, TARGET, samples=16
    )
    assert found.projection.measured_us == pytest.approx(9000)
    (tail,) = (one for one in found.first if one.code == "idle-tail")
    assert tail.values["idle_us"] == 21_000


def test_a_gap_between_work_stays_and_is_named_with_the_times_without_it() -> None:
    later = [gemm(30_000 + 300 * number, 300, called=29_000.0 + number) for number in range(30)]
    traced = trace([*WORK, *later])
    named = first_of(traced)["long-gap"]
    assert named.values["gaps"] == 1
    assert named.values["gap_us"] == pytest.approx(11_000)
    assert named.values["measured_us"] == pytest.approx(18_000)
    found = result_of("t", traced, HOST, TARGET, samples=16)
    work = found.projection.activities["projected_us"].sum()
    assert named.values["projected_us"] == pytest.approx(work, rel=1e-3)
    assert named.values["ratio"] == pytest.approx(work / 18_000, rel=1e-3)


def test_a_trace_without_long_gaps_has_nothing_to_say_of_them() -> None:
    assert not {"idle-head", "idle-tail", "long-gap"} & set(first_of(trace(WORK)))

"""What sets the pace: the critical path by kinds and by kernels, and the sentence that says so."""

from __future__ import annotations

from dataclasses import replace

import pytest

from flopcast.hardware import find
from flopcast.projection.account import cpu_share, critical_us, path_kernels, path_shares, verdict
from flopcast.projection.whole_trace import Laws, Projection, project_trace
from flopcast.tests.projection.oracles.traces import add, all_reduce, busy, gemm, idle, trace
from flopcast.traces.dispatches import empty_calls
from flopcast.traces.summary import Annotated

HOST, TARGET = find("MI300X"), find("MI355X")


def projected(found: Annotated, laws: Laws | None = None) -> Projection:
    return project_trace(found, HOST, TARGET, laws)


def test_shares_of_the_path_add_up_and_name_the_pace() -> None:
    full = projected(busy())
    assert sum(path_shares(full.path).values()) == pytest.approx(1)
    assert path_shares(full.measured_path)["activity"] == pytest.approx(1)
    assert verdict(full).startswith("on MI355X the GPU sets the pace: the CPU's work and launches are 0 %")
    empty = projected(idle())
    assert cpu_share(empty.path) > 0.9
    assert "stays launch-bound" in verdict(empty)


def test_a_faster_gpu_may_become_launch_bound() -> None:
    rows = [gemm(1000.0 + 310 * number, 300, called=900 + 250 * number) for number in range(40)]
    assert "becomes launch-bound" in verdict(projected(trace(rows), Laws(compute="flops")))


def test_without_calls_the_pace_is_not_known() -> None:
    words = verdict(projected(replace(idle(), calls=empty_calls())))
    assert words.startswith("what sets the pace on MI355X is not known, the trace has no calls of the CPU")
    assert "activities of the GPU are 5 % of the critical path" in words


def test_the_path_is_that_of_its_kernels() -> None:
    """A collective that a product hides is not on it; the table is out of order."""
    rows = [add(600, 20, called=30), gemm(0, 500, called=-20), all_reduce(100, 300, stream=1, called=-10)]
    projection = projected(trace(rows), Laws(compute="kept", communication="kept"))
    on_path = critical_us(projection)
    assert on_path.tolist() == [20, 500, 0]
    table = path_kernels(projection)
    assert table["name"].tolist() == ["Cijk_Ailk_BBS", projection.activities["name"].iloc[0]]
    assert table["op_class"].tolist() == ["gemm", "elementwise"]
    assert (table["count"].tolist(), table["path_us"].tolist()) == ([1, 1], [500, 20])
    assert table["share"].tolist() == pytest.approx([500 / 620, 20 / 620])


def test_kernels_of_one_name_add_up() -> None:
    projection = projected(busy(21))
    table = path_kernels(projection)
    assert table["count"].tolist() == [11, 10]
    assert table["path_us"].sum() == pytest.approx(critical_us(projection).sum())
    assert table["share"].sum() == pytest.approx(path_shares(projection.path)["activity"])

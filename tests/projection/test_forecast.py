"""Sources of error and what they make of the end-to-end time."""

from __future__ import annotations

import math

import pytest

from flopcast.hardware import find
from flopcast.projection.forecast import CPU, UNMEASURED, forecast, names_of, sources_of
from flopcast.projection.whole_trace import Laws, project_trace
from flopcast.tests.projection.oracles.traces import all_reduce, busy, gemm, idle, trace

HOST, TARGET = find("MI300X"), find("MI355X")


def test_classes_and_the_cpu_are_sources_unless_they_are_known() -> None:
    projection = project_trace(busy(), HOST, TARGET)
    names = [factor.name for factor in sources_of(projection)]
    assert names == ["elementwise", "gemm", CPU]
    stated = project_trace(busy(), HOST, TARGET, Laws(cpu_speed=1.0))
    assert CPU not in [factor.name for factor in sources_of(stated)]
    assert sources_of(project_trace(busy(), HOST, HOST)) == []


def test_what_the_user_states_goes_first() -> None:
    projection = project_trace(busy(), HOST, TARGET)
    found = {factor.name: factor for factor in sources_of(projection, {"gemm": 0.5, CPU: 0.0, "memory_bw_gbs": 0.05})}
    assert found["gemm"].sigma == 0.5
    assert CPU not in found
    assert found["memory_bw_gbs"].group == "spec"
    assert set(names_of(projection)) >= {"gemm", "elementwise", CPU, "memory_bw_gbs", "link_bw_gbs"}


def test_a_law_nobody_measured_is_uncertain() -> None:
    projection = project_trace(trace([gemm(0, 10), all_reduce(20, 10, message=2**20)]), HOST, TARGET)
    projection.activities["sigma"] = float("nan")
    assert {factor.sigma for factor in sources_of(projection) if factor.name != CPU} == {UNMEASURED}


def test_one_class_on_a_busy_queue_spreads_the_end_as_itself() -> None:
    rows = [gemm(1000 + 300 * number, 300, called=10.0 * number) for number in range(20)]
    projection = project_trace(trace(rows), HOST, TARGET, Laws(compute="flops", cpu_speed=1.0))
    found = forecast(projection, {"gemm": 0.1}, samples=1024)
    assert found.nominal_us == pytest.approx(projection.projected_us)
    reach = math.exp(0.1 * 1.6449)
    assert found.upper_us / found.nominal_us == pytest.approx(reach, rel=0.01)
    assert found.lower_us / found.nominal_us == pytest.approx(1 / reach, rel=0.01)


def test_an_idle_queue_spreads_with_the_cpu() -> None:
    found = forecast(project_trace(idle(), HOST, TARGET))
    assert found.tornado["name"].iloc[0] == CPU
    assert found.tornado["share"].iloc[0] > 0.9


def test_the_memory_bandwidth_concerns_what_it_bounds() -> None:
    projection = project_trace(busy(), HOST, TARGET, Laws(compute="roofline", cpu_speed=1.0))
    found = forecast(projection, {"gemm": 0.0, "elementwise": 0.0, "memory_bw_gbs": 0.1})
    (row,) = found.tornado.to_dict("records")
    adds = projection.activities.loc[projection.activities["op_class"] == "elementwise", "projected_us"].sum()
    assert row["name"] == "memory_bw_gbs"
    assert row["low_us"] - found.nominal_us == pytest.approx(adds * (math.exp(0.1 * 1.6449) - 1), rel=1e-3)


def test_the_same_seed_gives_the_same_interval() -> None:
    projection = project_trace(busy(), HOST, TARGET)
    first, again = forecast(projection, seed=3), forecast(projection, seed=3)
    assert (first.lower_us, first.upper_us) == (again.lower_us, again.upper_us)
    assert forecast(projection, seed=4).lower_us != first.lower_us

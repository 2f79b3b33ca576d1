"""Sources of error and what they make of the end-to-end time."""

from __future__ import annotations

import math
from dataclasses import replace

import numpy as np
import pytest

from flopcast.errors import NotPublishedError
from flopcast.hardware import find
from flopcast.projection.sweep import swept
from flopcast.projection.uncertainty import (
    CPU,
    CPU_SIGMA,
    CPU_STATED_SIGMA,
    GAP_SIGMA,
    GAPS,
    UNMEASURED,
    class_sigmas,
    exponents,
    names_of,
    sources_of,
    uncertainty_of,
)
from flopcast.projection.whole_trace import Laws, project_trace
from flopcast.tests.projection.oracles.traces import add, all_reduce, busy, gemm, idle, trace
from flopcast.traces.dispatches import empty_calls
from flopcast.traces.doubts import Doubts

HOST, TARGET = find("MI300X"), find("MI355X")


def test_classes_and_the_cpu_are_sources_unless_they_are_known() -> None:
    projection = project_trace(busy(), HOST, TARGET)
    names = [factor.name for factor in sources_of(projection)]
    assert names == ["elementwise", "gemm", CPU]
    assert sources_of(project_trace(busy(), HOST, HOST)) == []


def test_a_stated_speed_of_the_cpu_is_known_better_but_not_exactly() -> None:
    sigmas = {}
    for stated in (None, 1.1):
        projection = project_trace(idle(), HOST, TARGET, Laws(cpu_speed=stated))
        (sigmas[stated],) = (
            factor.sigma for factor in sources_of(projection) if factor.name == CPU
        )
    assert sigmas == {None: CPU_SIGMA, 1.1: CPU_STATED_SIGMA}


def test_what_the_user_states_goes_first() -> None:
    projection = project_trace(busy(), HOST, TARGET)
    found = {
        factor.name: factor
        for factor in sources_of(projection, {"gemm": 0.5, CPU: 0.0, "memory_bw_gbs": 0.05})
    }
    assert found["gemm"].sigma == 0.5
    assert CPU not in found
    assert found["memory_bw_gbs"].group == "spec"
    assert set(names_of(projection)) >= {"gemm", "elementwise", CPU, "memory_bw_gbs", "link_bw_gbs"}


def test_a_law_nobody_measured_is_uncertain() -> None:
    projection = project_trace(
        trace([gemm(0, 10), all_reduce(20, 10, message=2**20)]), HOST, TARGET
    )
    projection.activities["sigma"] = float("nan")
    assert {factor.sigma for factor in sources_of(projection) if factor.name != CPU} == {UNMEASURED}


def test_one_class_on_a_busy_queue_spreads_the_end_as_itself() -> None:
    rows = [gemm(1000 + 300 * number, 300, called=10.0 * number) for number in range(20)]
    projection = project_trace(trace(rows), HOST, TARGET, Laws(compute="flops"))
    found = uncertainty_of(projection, {"gemm": 0.1, CPU: 0.0}, samples=1024)
    assert found.nominal_us == pytest.approx(projection.projected_us)
    reach = math.exp(0.1 * 1.6449)
    assert found.upper_us / found.nominal_us == pytest.approx(reach, rel=0.01)
    assert found.lower_us / found.nominal_us == pytest.approx(1 / reach, rel=0.01)


def test_an_idle_queue_spreads_with_the_cpu() -> None:
    found = uncertainty_of(project_trace(idle(), HOST, TARGET))
    assert found.tornado["name"].iloc[0] == CPU
    assert found.tornado["share"].iloc[0] > 0.9


def test_the_memory_bandwidth_concerns_what_it_bounds() -> None:
    projection = project_trace(busy(), HOST, TARGET, Laws(compute="roofline"))
    found = uncertainty_of(
        projection, {"gemm": 0.0, "elementwise": 0.0, CPU: 0.0, "memory_bw_gbs": 0.1}
    )
    (row,) = found.tornado.to_dict("records")
    adds = projection.activities.loc[
        projection.activities["op_class"] == "elementwise", "projected_us"
    ].sum()
    assert row["name"] == "memory_bw_gbs"
    assert row["low_us"] - found.nominal_us == pytest.approx(
        adds * (math.exp(0.1 * 1.6449) - 1), rel=1e-3
    )


def test_a_figure_moves_times_as_the_law_lets_it() -> None:
    """Affine: only what is above the fixed time goes by the bandwidth; that of the links concerns collectives alone."""
    copied = {"start": 900, "duration": 500, "kind": "memcpy", "name": "HtoD", "bytes": 10**8}
    rows = [add(0, 6, size=6_000_000), all_reduce(100, 700, message=2**28), copied]
    projection = project_trace(trace(rows), HOST, TARGET)
    groups = np.arange(3)
    faster = project_trace(
        trace(rows), HOST, swept(TARGET, "memory_bw_gbs", 8000 * 1.01)
    ).activities["projected_us"]
    slope = np.log(faster / projection.activities["projected_us"]).to_numpy() / np.log(1.01)
    found = exponents(projection, "memory_bw_gbs", groups)
    assert found == pytest.approx(slope, abs=0.01)
    assert -0.7 < found[0] < -0.4
    assert found[1:].tolist() == [0, 0]
    linked = exponents(projection, "link_bw_gbs", groups)
    assert linked[[0, 2]].tolist() == [0, 0]
    assert -1 < linked[1] < -0.9
    peaks = project_trace(trace([gemm(0, 300), *rows[1:]]), HOST, TARGET, Laws(compute="roofline"))
    assert exponents(peaks, "peak_tflops", groups) == pytest.approx([-1, 0, 0])


def test_a_group_has_the_exponent_of_its_time() -> None:
    projection = project_trace(
        trace([gemm(0, 300), add(400, 100)]), HOST, TARGET, Laws(compute="roofline")
    )
    adds = (
        projection.activities["projected_us"].iloc[1] / projection.activities["projected_us"].sum()
    )
    assert exponents(projection, "memory_bw_gbs", np.zeros(2, dtype=int)) == pytest.approx(
        [-adds], rel=0.01
    )


def test_the_uncertainty_of_a_figure_that_is_not_published_cannot_be_propagated() -> None:
    bare = replace(TARGET, name="Bare", link_bw_gbs=None, peaks={})
    projection = project_trace(busy(), HOST, bare)
    for figure in ("link_bw_gbs", "peak_tflops"):
        with pytest.raises(NotPublishedError, match=f"{figure} of Bare is not published"):
            uncertainty_of(projection, {figure: 0.1})


def test_without_calls_the_gaps_are_a_source_in_the_place_of_the_cpu() -> None:
    bare = replace(idle(), calls=empty_calls())
    projection = project_trace(bare, HOST, TARGET)
    found = {factor.name: factor.sigma for factor in sources_of(projection, {CPU: 0.3})}
    assert list(found) == ["elementwise", GAPS]
    assert found[GAPS] == GAP_SIGMA > CPU_SIGMA
    assert sources_of(project_trace(bare, HOST, HOST)) == []
    assert GAPS not in {factor.name for factor in sources_of(projection, {GAPS: 0.0})}


def test_a_share_that_is_missing_widens_the_interval_in_proportion() -> None:
    whole = project_trace(busy(), HOST, TARGET)
    before = uncertainty_of(whole)
    for missing in (0.1, 0.3):
        found = uncertainty_of(replace(whole, doubts=Doubts(missing)))
        assert found.nominal_us == before.nominal_us
        assert found.upper_us == pytest.approx(before.upper_us / (1 - missing))
        assert found.lower_us == pytest.approx(before.lower_us * (1 - missing))
        assert found.tornado["name"].tolist().count("trace") == 1


def test_gaps_of_unknown_cause_spread_the_end_and_never_vanish_below_nothing() -> None:
    projection = project_trace(replace(idle(), calls=empty_calls()), HOST, TARGET)
    found = uncertainty_of(projection, {"elementwise": 0.0}, samples=1024)
    assert found.upper_us / found.nominal_us == pytest.approx(
        math.exp(GAP_SIGMA * 1.6449), rel=0.02
    )
    assert found.tornado["name"].tolist() == [GAPS]


def test_kernels_without_a_class_have_a_name() -> None:
    projection = project_trace(
        trace([gemm(0, 50), {"start": 99, "duration": 50, "name": "mystery"}]), HOST, TARGET
    )
    assert names_of(projection)[:2] == ["gemm", "unknown"]
    (found,) = (
        factor for factor in sources_of(projection, {"unknown": 0.4}) if factor.name == "unknown"
    )
    assert found.sigma == 0.4


def test_what_a_sigma_rests_on_is_told() -> None:
    projection = project_trace(
        trace([gemm(0, 10), gemm(20, 10), add(40, 10), all_reduce(60, 10)]), HOST, TARGET
    )
    projection.activities["sigma"] = [0.1, float("nan"), float("nan"), 0.2]
    found = class_sigmas(projection, {"elementwise": 0.3}).set_index("op_class")
    assert found["basis"].to_dict() == {
        "collective": "measured",
        "elementwise": "stated",
        "gemm": "partly assumed",
    }
    assert found.loc["gemm", "sigma"] == pytest.approx(math.hypot(0.1, UNMEASURED) / math.sqrt(2))
    assert found["kind"].tolist() == ["communication", "law", "law"]
    assert class_sigmas(projection).set_index("op_class").loc["elementwise"].tolist() == [
        "law",
        UNMEASURED,
        "assumed",
    ]


def test_the_same_seed_gives_the_same_interval() -> None:
    projection = project_trace(busy(), HOST, TARGET)
    first, again = uncertainty_of(projection, seed=3), uncertainty_of(projection, seed=3)
    assert (first.lower_us, first.upper_us) == (again.lower_us, again.upper_us)
    assert uncertainty_of(projection, seed=4).lower_us != first.lower_us

"""A trace on another GPU: what is projected by which law, and what becomes of gaps."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

from flopcast.errors import DataError
from flopcast.features.dispatches.annotate import Annotated
from flopcast.hardware import find
from flopcast.projection.sweep import own_value, swept
from flopcast.projection.whole_trace import PUBLISHED, Laws, host_of, project_trace
from flopcast.tests.projection.oracles.traces import add, all_reduce, busy, gemm, idle, trace

HOST, TARGET = find("MI300X"), find("MI355X")
OTHER = find("H100 SXM5")


@pytest.mark.parametrize("laws", [Laws(), PUBLISHED, Laws(compute="roofline", gaps="scaled")])
@pytest.mark.parametrize("make", [busy, idle])
def test_on_the_same_gpu_nothing_changes(make: object, laws: Laws) -> None:
    found: Annotated = make()  # type: ignore[operator]
    projection = project_trace(found, HOST, HOST, laws)
    assert (projection.activities["factor"] == 1).all()
    assert projection.totals == pytest.approx(dict.fromkeys(("sum", "overlap", "replay"), projection.measured_us))


def test_the_published_methodology_scales_kernels_by_peaks_and_keeps_gaps() -> None:
    projection = project_trace(idle(), HOST, TARGET, PUBLISHED)
    ratio = HOST.peak_tflops("bf16") / TARGET.peak_tflops("bf16")
    kernels = projection.activities["duration_ns"].sum() / 1000
    assert projection.totals["sum"] == pytest.approx(projection.measured_us - kernels * (1 - ratio))


def test_a_busy_queue_follows_the_kernels_and_an_idle_one_the_cpu() -> None:
    full = project_trace(busy(), HOST, TARGET, Laws(compute="flops"))
    factor = full.projected_us / full.measured_us
    assert 0.4 < factor < 0.75
    empty = project_trace(idle(), HOST, TARGET, Laws(compute="flops"))
    assert empty.projected_us / empty.measured_us > 0.99
    fast = project_trace(idle(), HOST, TARGET, Laws(compute="flops", cpu_speed=2.0))
    assert fast.projected_us / fast.measured_us == pytest.approx(0.5, abs=0.05)


def test_gaps_are_the_targets_where_only_one_vendor_counts_them_as_duration() -> None:
    found = busy(21)
    with_gaps = project_trace(found, HOST, OTHER, Laws(compute="kept")).projected_us
    without = project_trace(found, HOST, OTHER, Laws(compute="kept", gaps="kept")).projected_us
    assert with_gaps - without == pytest.approx(20 * 1.3)
    assert project_trace(found, HOST, TARGET, Laws(compute="kept")).projected_us == pytest.approx(without)


def test_scaled_gaps_shrink_as_the_activities_do() -> None:
    projection = project_trace(idle(), HOST, TARGET, Laws(compute="flops-uniform", gaps="scaled"))
    ratio = HOST.peak_tflops("bf16") / TARGET.peak_tflops("bf16")
    for total in projection.totals.values():
        assert total == pytest.approx(projection.measured_us * ratio)


def test_collectives_have_their_own_law() -> None:
    found = trace([gemm(0, 300), all_reduce(400, 500, stream=1), add(1000, 20)])
    projection = project_trace(found, HOST, TARGET)
    assert projection.activities["law"].tolist()[1] == "alpha-beta"
    assert projection.activities["category"].tolist() == ["compute", "communication", "compute"]
    kept = project_trace(found, HOST, TARGET, Laws(communication="kept"))
    assert kept.activities["factor"].tolist()[1] == 1


def test_what_was_launched_before_the_trace_does_not_count_but_holds_up() -> None:
    rows = [gemm(0, 300, linked=False), gemm(300, 300, called=50), gemm(600, 300, called=60)]
    projection = project_trace(trace(rows), HOST, TARGET, Laws(compute="flops"))
    assert projection.counted.tolist() == [False, True, True]
    assert projection.measured_us == 600
    assert projection.totals["sum"] == pytest.approx(2 * 300 * HOST.peak_tflops("bf16") / TARGET.peak_tflops("bf16"))


@pytest.mark.parametrize("figure", ["memory_bw_gbs", "peak_tflops.bf16_matrix", "link_bw_gbs"])
def test_a_figure_changed_a_little_changes_the_projection_a_little(figure: str) -> None:
    found = trace([gemm(0, 300), add(300, 50, called=10), all_reduce(400, 500, called=20)])
    for host, target in ((HOST, OTHER), (OTHER, HOST), (HOST, TARGET)):
        value = own_value(target, figure)
        assert value is not None
        there = project_trace(found, host, target).projected_us
        near = project_trace(found, host, swept(target, figure, value * (1 + 1e-6))).projected_us
        assert near == pytest.approx(there, rel=1e-5)


def test_the_host_is_what_the_trace_says() -> None:
    assert host_of(busy()) == "MI300X"
    with pytest.raises(DataError, match="does not say which GPU it was made on: say it with --from"):
        host_of(trace([gemm(0, 1)], device=""))
    with pytest.raises(DataError, match="no activity of a GPU"):
        host_of(replace(busy(), dispatches=busy().dispatches.iloc[:0]))
    two = busy()
    two.dispatches["device"] = np.where(np.arange(len(two.dispatches)) % 2, "MI300X", "MI355X")
    with pytest.raises(DataError, match="activities of MI300X, MI355X: project the trace of one device"):
        host_of(two)


def test_settings_that_make_no_sense_are_refused() -> None:
    with pytest.raises(DataError, match="no way 'gone' to treat gaps: choose from kept, scaled, modelled"):
        Laws(gaps="gone")  # type: ignore[arg-type]
    with pytest.raises(DataError, match="speed of the CPU must be above 0, got 0"):
        Laws(cpu_speed=0.0)
    with pytest.raises(DataError, match="no activity"):
        project_trace(replace(busy(), dispatches=busy().dispatches.iloc[:0]), HOST, TARGET)

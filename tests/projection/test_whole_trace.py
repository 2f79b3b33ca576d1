"""A trace on another GPU: what is projected by which law, and what becomes of gaps."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np
import pytest

from flopcast.errors import DataError
from flopcast.hardware import GPU, find
from flopcast.projection.kernel_laws import Correction
from flopcast.projection.sweep import published_value, swept
from flopcast.projection.whole_trace import PUBLISHED, Laws, host_of, project_trace
from flopcast.tests.projection.oracles.traces import add, all_reduce, busy, gemm, idle, trace
from flopcast.traces.summary import Annotated

HOST, TARGET = find("MI300X"), find("MI355X")
OTHER = find("H100 SXM5")


@pytest.mark.parametrize("laws", [Laws(), PUBLISHED, Laws(compute="roofline", gaps="scaled")])
@pytest.mark.parametrize("make", [busy, idle])
def test_on_the_same_gpu_nothing_changes(make: object, laws: Laws) -> None:
    found: Annotated = make()  # type: ignore[operator]
    projection = project_trace(found, HOST, HOST, laws)
    assert (projection.activities["factor"] == 1).all()
    assert projection.totals == pytest.approx(
        dict.fromkeys(("sum", "overlap", "replay"), projection.measured_us)
    )


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


def by_gaps(found: Annotated, host: GPU, target: GPU, **laws: Any) -> tuple[float, float]:
    """Return the end-to-end time with the target's gaps and with those of the trace."""
    made = [Laws(gaps=gaps, **laws) for gaps in ("modelled", "kept")]
    modelled, kept = (project_trace(found, host, target, one).projected_us for one in made)
    return modelled, kept


def test_a_law_that_takes_the_dispatch_out_of_durations_puts_it_into_the_gaps() -> None:
    modelled, kept = by_gaps(busy(21), HOST, OTHER)
    assert modelled - kept == pytest.approx(20 * 1.3)
    half = {"gemm": Correction(0.5, 0.1, 9)}
    modelled, kept = by_gaps(busy(21), HOST, OTHER, corrections=half)
    assert modelled - kept == pytest.approx(20 * 1.3)
    modelled, kept = by_gaps(busy(21), HOST, TARGET)
    assert modelled == kept


@pytest.mark.parametrize("law", ["roofline", "flops", "bandwidth", "kept"])
def test_laws_of_whole_durations_keep_the_gaps(law: str) -> None:
    for host, target in ((HOST, OTHER), (OTHER, HOST)):
        modelled, kept = by_gaps(busy(21), host, target, compute=law)
        assert modelled == kept


@pytest.mark.parametrize(("gap", "waited"), [(2.0, 29), (4.0, 0)])
def test_gaps_go_where_durations_get_the_dispatch(gap: float, waited: int) -> None:
    """On AMD the dispatch (2.3 µs) is in the duration: of as many kernels as lose their gap."""
    rows = [add((20 + gap) * number, 20, called=-1000 + number) for number in range(30)]
    projection = project_trace(trace(rows, device=OTHER.name), OTHER, HOST)
    factor = projection.activities["factor"].to_numpy()
    assert (projection.target_graph.gap_ns[1:] == 0).sum() == waited
    assert (factor > factor[0] + 2.2 / 20).sum() == waited


def test_one_that_was_late_waits_for_its_dispatch_where_it_has_to_wait() -> None:
    rows = [add(40.0 * number, 20, called=40.0 * number - 7) for number in range(30)]
    for host, target, dispatch_ns in ((HOST, OTHER, 1300.0), (OTHER, HOST, 2300.0)):
        projection = project_trace(trace(rows, device=host.name), host, target)
        assert not projection.activities["queued"].any()
        assert projection.target_graph.gap_ns[1:].tolist() == [dispatch_ns] * 29


def test_a_kernel_that_waited_for_a_collective_of_its_queue_was_waiting() -> None:
    rows: list[dict[str, object]] = []
    for number in range(10):
        now = 50.0 * number
        rows += [
            all_reduce(now, 20, called=number - 500.5),
            add(now + 20, 30, called=number - 500.0),
        ]
    alone = [row for row in rows if "collective" not in row]
    found = project_trace(trace(rows), HOST, OTHER)
    computes = found.activities["category"] == "compute"
    assert found.activities.loc[computes, "queued"].all()
    apart = project_trace(trace(alone), HOST, OTHER).activities["factor"].iloc[1]
    assert found.activities.loc[computes, "factor"].to_numpy() == pytest.approx(
        apart - 2.3 / 30, rel=0.03
    )


def test_without_durations_there_is_nothing_to_project() -> None:
    with pytest.raises(DataError, match="activity"):
        project_trace(trace([gemm(0, 0.0), add(50, 0.0)]), HOST, TARGET)


def test_a_precision_that_no_gpu_has_a_peak_for_is_said() -> None:
    inputs = {"dims": [[64, 64], [64, 64]], "types": ["long int", "long int"]}
    found = trace([{"start": 0, "duration": 100, "op": "aten::mm", "inputs": inputs, "name": "k"}])
    (row,) = project_trace(found, HOST, TARGET, PUBLISHED).activities.to_dict("records")
    assert row["law"] == "bandwidth"
    (why,) = row["why"]
    assert why.code == "no-such-unit"


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
    assert projection.totals["sum"] == pytest.approx(
        2 * 300 * HOST.peak_tflops("bf16") / TARGET.peak_tflops("bf16")
    )


@pytest.mark.parametrize("figure", ["memory_bw_gbs", "peak_tflops.bf16_matrix", "link_bw_gbs"])
def test_a_figure_changed_a_little_changes_the_projection_a_little(figure: str) -> None:
    found = trace([gemm(0, 300), add(300, 50, called=10), all_reduce(400, 500, called=20)])
    for host, target in ((HOST, OTHER), (OTHER, HOST), (HOST, TARGET)):
        value = published_value(target, figure)
        assert value is not None
        there = project_trace(found, host, target).projected_us
        near = project_trace(found, host, swept(target, figure, value * (1 + 1e-6))).projected_us
        assert near == pytest.approx(there, rel=1e-5)


def test_the_host_is_what_the_trace_says() -> None:
    assert host_of(busy()) == "MI300X"
    with pytest.raises(DataError, match="GPU"):
        host_of(trace([gemm(0, 1)], device=""))
    with pytest.raises(DataError, match="no activity"):
        host_of(replace(busy(), dispatches=busy().dispatches.iloc[:0]))
    two = busy()
    two.dispatches["device"] = np.where(np.arange(len(two.dispatches)) % 2, "MI300X", "MI355X")
    with pytest.raises(DataError, match=r"MI300X.*MI355X"):
        host_of(two)


def test_settings_that_make_no_sense_are_refused() -> None:
    with pytest.raises(DataError, match=r"gaps.*'gone'"):
        Laws(gaps="gone")  # type: ignore[arg-type]
    with pytest.raises(DataError, match=r"^compute_law.*'rooflin'"):
        Laws(compute="rooflin")
    with pytest.raises(DataError, match=r"^comm_law.*'alphabeta'"):
        Laws(communication="alphabeta")  # type: ignore[arg-type]
    with pytest.raises(DataError, match=r"cpu_speed.*0"):
        Laws(cpu_speed=0.0)
    with pytest.raises(DataError, match="no activity"):
        project_trace(replace(busy(), dispatches=busy().dispatches.iloc[:0]), HOST, TARGET)

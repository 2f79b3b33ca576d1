from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pandas as pd
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from flopcast.errors import DataError
from flopcast.projection.comparison import Basis, Fidelity, Profiled, fidelity, trace_times
from flopcast.readers import TraceFailure, read_traces
from flopcast.remarks import remark
from flopcast.report.profilers import fidelity_json
from flopcast.tests.projection.oracles.traces import add, gemm, trace
from flopcast.traces.dispatches import Trace, dispatch_table
from flopcast.traces.summary import annotate

US = 1000


def profiled(
    label: str, *launches: tuple[str, int, int], step_count: int | None = 1, **columns: Any
) -> Profiled:
    """Return a trace of kernels of (name, start, duration), times in us."""
    names, starts, durations = zip(*launches, strict=True)
    times = {
        "start_ns": [start * US for start in starts],
        "duration_ns": [duration * US for duration in durations],
    }
    table = dispatch_table({"kind": "kernel", "name": list(names), **times, **columns})
    return Profiled(label, table, step_count=step_count)


LIGHT = profiled("light", ("gemm", 0, 40), ("norm", 50, 10), ("gemm", 70, 40))
"""110 us, of which 20 are gaps."""
SERIAL = profiled("serial", ("gemm", 0, 36), ("norm", 100, 9), ("gemm", 200, 38))
"""Shorter kernels, but 238 us."""


def test_the_trace_nearest_to_the_unprofiled_time_is_believed() -> None:
    found = fidelity([SERIAL, LIGHT], unprofiled_us=100)
    assert (found.best, found.basis) == ("light", Basis.UNPROFILED)
    assert [trace.overhead for trace in found.traces] == pytest.approx([138, 10])
    assert [trace.kernel_ratio for trace in found.traces] == pytest.approx([0.83, 0.9])
    assert (found.verdict.code, found.verdict.values["alone"]) == (Basis.UNPROFILED, False)
    assert (found.verdict.values["step_us"], found.verdict.values["unprofiled_us"]) == (110, 100)


def test_too_short_is_no_better_than_too_long() -> None:
    found = fidelity([SERIAL, LIGHT], unprofiled_us=230)
    assert found.best == "serial"
    assert found.traces[1].overhead == pytest.approx(-52.17, abs=0.01)


def test_without_the_unprofiled_time_the_shortest_kernels_are_a_weaker_sign() -> None:
    found = fidelity([LIGHT, SERIAL])
    assert (found.best, found.basis, found.traces[0].overhead) == ("serial", Basis.SHORTEST, None)
    assert found.traces[0].kernel_ratio is None
    assert found.verdict == remark("shortest-kernels", label="serial", matched_us=83.0, matched=3)


def test_times_of_modules_are_compared_call_by_call() -> None:
    """Two steps of a product and a sum; in line the product takes 240 µs of 280, the sum is none of the modules."""
    rows = [
        make(500 * step + start, us)
        for step in range(2)
        for make, start, us in ((gemm, 0, 300), (add, 310, 20))
    ]
    whole = Profiled.of("trace", trace(rows), 2)
    product = {
        "device": "MI300X",
        "op": "gemm",
        "m": 4096,
        "n": 4096,
        "k": 4096,
        "dtype_a": "bf16",
        "outer": False,
    }
    model = {"device": "MI300X", "op": "application", "variant": "Model", "outer": True}
    table = pd.DataFrame([model | {"duration_us": 280.0}, product | {"duration_us": 240.0}]).assign(
        repeats=2
    )
    inline = Profiled.of_inline("times.csv", table)
    found = fidelity([whole, inline], unprofiled_us=290)
    assert found.best == "times.csv"
    assert [one.times.end_to_end_per_step_us for one in found.traces] == [415.0, 280.0]
    assert [one.times.steps for one in found.traces] == [2, 2]
    assert [one.agreement.ratio for one in found.traces if one.agreement] == [
        pytest.approx(300 / 240),
        1,
    ]
    assert [one.agreement.matched for one in found.traces if one.agreement] == [2, 2]
    assert [note.code for note in found.notes] == ["matched-by-calls"]
    with pytest.raises(DataError, match="no operator of one shape"):
        fidelity([whole, Profiled.of_inline("other", table.assign(m=8))])
    with pytest.raises(DataError, match="no operator among"):
        Profiled.of_inline("other", table[:1])


def test_kernels_are_held_against_those_of_the_believed_trace() -> None:
    """gemm 36/40 and 38/40, norm 9/10: the median is 0.9."""
    found = fidelity([SERIAL, LIGHT], unprofiled_us=100)
    serial, light = (trace.agreement for trace in found.traces)
    assert serial is not None
    assert (serial.matched, serial.matched_us, serial.matched_share) == (3, 83, 1)
    assert serial.ratio == pytest.approx(0.9)
    assert light is not None
    assert light.ratio == 1
    expected = [
        ["serial", "gemm", 2, 74.0],
        ["light", "gemm", 2, 80.0],
        ["serial", "norm", 1, 9.0],
        ["light", "norm", 1, 10.0],
    ]
    assert found.kernels[["label", "kernel", "count", "time_us"]].to_numpy().tolist() == expected
    assert found.kernels["ratio"].tolist() == pytest.approx([0.925, 1, 0.9, 1])
    assert found.kernels["spread"].tolist() == pytest.approx([0.025, 0, 0, 0])


def test_overhead_is_told_per_step_and_as_the_cpu_saw_it() -> None:
    steps = pd.DataFrame(
        {"step": [1, 2], "start_ns": [0, 60 * US], "duration_ns": [66 * US, 66 * US]}
    )
    rows = profiled("t", ("gemm", 0, 40), ("gemm", 70, 40), step=[1, 2]).activities
    [trace] = fidelity([Profiled("t", rows, steps)], unprofiled_us=50).traces
    assert (trace.overhead, trace.cpu_overhead) == pytest.approx((10, 32))
    assert trace.agreement is None


def test_one_trace_alone_is_held_against_the_unprofiled_time() -> None:
    found = fidelity([LIGHT], unprofiled_us=100)
    assert (found.verdict.code, found.verdict.values["alone"]) == (Basis.UNPROFILED, True)
    assert found.kernels.empty


def test_kernels_without_a_duration_have_no_ratio() -> None:
    lost = profiled("lost", ("gemm", 0, 0), ("norm", 50, 10), ("gemm", 70, 40))
    found = fidelity([LIGHT, lost], unprofiled_us=100)
    agreement = found.traces[1].agreement
    assert agreement is not None
    assert (agreement.matched, agreement.ratio) == (3, 1)
    nothing = fidelity(
        [profiled("a", ("f", 0, 1), ("g", 1, 0)), profiled("b", ("f", 0, 0), ("g", 1, 1))], 1
    )
    assert [trace.agreement and trace.agreement.ratio for trace in nothing.traces] == [None, None]
    assert {row["ratio"] for row in fidelity_json(nothing)["kernels"]} == {None}


def test_what_limits_the_comparison_is_noted() -> None:
    assert fidelity([LIGHT, SERIAL]).notes == ()
    two = profiled(
        "two",
        ("ns::gemm<1>()", 0, 40),
        ("norm", 5, 10),
        ("ns::gemm<2>()", 50, 40),
        stream=[1, 2, 1],
        gpu=[0, 1, 0],
    )
    once = profiled("once", ("gemm", 0, 40), ("norm", 50, 10))
    notes = fidelity([once, two]).notes
    assert notes == (
        remark("queues-differ"), remark("names-cut"), remark("kernels-uneven", share=1.0), remark("gpus-differ"),
    )  # fmt: skip


def test_everything_is_json() -> None:
    found = fidelity([SERIAL, LIGHT], unprofiled_us=100)
    text = json.loads(json.dumps(fidelity_json(found), allow_nan=False))
    assert (text["schema"], text["best"], text["basis"]) == (
        1,
        "light",
        "nearest to the unprofiled time",
    )
    assert text["traces"][1]["end_to_end_per_step_us"] == 110
    assert text["traces"][0]["agreement"]["ratio"] == pytest.approx(0.9)
    assert text["kernels"][0]["kernel"] == "gemm"


FILLS = [("fill", 0, 1)]


@pytest.mark.parametrize(
    ("traces", "unprofiled_us", "message"),
    [
        ([], 1.0, "second trace"),
        ([LIGHT], None, "second trace"),
        ([LIGHT, LIGHT, SERIAL], None, "trace once"),
        ([LIGHT, SERIAL], 0.0, r"unprofiled_us.*0"),
        ([LIGHT, SERIAL], -3.0, r"unprofiled_us.*-3"),
        ([LIGHT], float("nan"), r"unprofiled_us.*nan"),
        ([LIGHT], float("inf"), r"unprofiled_us.*inf"),
        ([profiled("a", ("f", 0, 1)), profiled("b", ("g", 0, 1))], None, "kernel is common"),
        (
            [profiled("a", ("f", 9, 200), *FILLS), profiled("b", ("g", 9, 200), *FILLS)],
            None,
            "take under 1%",
        ),
        ([profiled("a", ("f", 0, 1), step_count=None)], 1.0, "trace records no steps"),
        (
            [profiled("a", ("f", 0, 1), device="MI300X"), profiled("b", ("f", 0, 1), device="MI355X"), LIGHT],
            None,
            r"GPU.*a.*MI300X.*MI355X.*GPU",
        ),
    ],
)  # fmt: skip
def test_what_cannot_be_compared_is_refused(
    traces: list[Profiled], unprofiled_us: float | None, message: str
) -> None:
    with pytest.raises(DataError, match=message):
        fidelity(traces, unprofiled_us)


@settings(max_examples=6)
@given(st.lists(st.integers(1, 500), min_size=1, max_size=20), st.integers(2, 9))
def test_a_trace_slowed_by_a_factor_shows_that_factor(durations: list[int], factor: int) -> None:
    starts = [600 * place for place in range(len(durations))]
    launches = [
        (f"k{place % 3}", start, duration)
        for place, (start, duration) in enumerate(zip(starts, durations, strict=True))
    ]
    plain = profiled("plain", *launches)
    slow = profiled(
        "slow", *((name, factor * start, factor * duration) for name, start, duration in launches)
    )
    alone = starts[-1] + durations[-1]
    for traces in ([plain, slow], [slow, plain]):
        found = fidelity(traces, alone)
        by_label = {trace.times.label: trace for trace in found.traces}
        assert found.best == "plain"
        assert by_label["slow"].overhead == pytest.approx((factor - 1) * 100)
        assert by_label["slow"].agreement is not None
        assert by_label["slow"].agreement.ratio == factor
        assert by_label["plain"].overhead == 0


def of_files(data: Path, *names: str, step_count: int | None = None) -> list[Profiled]:
    read = [trace for name in names for trace in read_traces([data / "profiles" / name])]
    assert not any(isinstance(trace, TraceFailure) for _, trace in read)
    return [
        Profiled.of(label, trace, step_count)
        for label, trace in read
        if not isinstance(trace, TraceFailure)
    ]


def agreements(found: Fidelity) -> list[tuple[int, float, float | None]]:
    return [
        (trace.agreement.matched, trace.agreement.matched_share, trace.agreement.ratio)
        for trace in found.traces
        if trace.agreement is not None
    ]


def test_two_runs_of_one_program_under_rocprof_with_and_without_template_arguments(
    shared_data: Path,
) -> None:
    """A thousand equal stencils take 1.4 % longer in the run whose names were cut."""
    folder = "rocprof_v1v2/finite-difference"
    traces = of_files(
        shared_data, f"{folder}/results.csv", f"{folder}/kernel1_results.db", step_count=1000
    )
    found = fidelity(traces, unprofiled_us=2640)
    assert found.best == "results.csv"
    assert [trace.overhead for trace in found.traces] == pytest.approx([0.342, 1.486], abs=0.001)
    assert agreements(found) == [(1004, 1.0, 1.0), (1004, 1.0, pytest.approx(1.01442, abs=1e-5))]
    assert found.kernels["kernel"].tolist()[:2] == ["laplacian_kernel"] * 2
    assert found.notes == (remark("names-cut"),)


def test_counting_other_counters_leaves_the_kernels_of_one_program_as_they_are(
    shared_data: Path,
) -> None:
    folder = "rocprofv3/csv_real_rdna35"
    names = (
        f"{folder}/decode_fetch_counter_collection.csv",
        f"{folder}/decode_stall_counter_collection.csv",
    )
    found = fidelity(of_files(shared_data, *names))
    assert found.basis is Basis.SHORTEST
    assert [(matched, share) for matched, share, _ in agreements(found)] == [(34, 1.0), (34, 1.0)]
    assert agreements(found)[0][2] == pytest.approx(1, abs=0.01)


def test_steps_of_a_real_trace(shared_data: Path) -> None:
    [trace] = fidelity(
        of_files(shared_data, "kineto/other/mi300_resnet_act_checkpoint.json.gz"), 16_000
    ).traces
    assert (trace.times.steps, trace.times.kernels) == (3, 2238)
    assert trace.times.end_to_end_us == pytest.approx(56517.603, abs=1e-3)
    assert (trace.overhead, trace.cpu_overhead) == pytest.approx((17.745, -0.307), abs=1e-3)


def table(*activities: tuple[int, int], **columns: Any) -> pd.DataFrame:
    """Return activities of (start, duration) in us."""
    starts, durations = zip(*activities, strict=True)
    times = {
        "start_ns": [start * US for start in starts],
        "duration_ns": [duration * US for duration in durations],
    }
    return dispatch_table({"kind": "kernel", "name": "k", **times, **columns})


def test_kernels_gaps_and_end_to_end() -> None:
    """Two kernels overlap by 2 us, a copy counts as busy but is no kernel."""
    rows = table((10, 5), (13, 5), (30, 4), kind=["kernel", "kernel", "memcpy"], stream=[1, 2, 1])
    times = trace_times(Profiled("t", rows))
    assert (times.kernels, times.kernel_us) == (2, 10)
    assert (times.busy_us, times.gaps_us, times.end_to_end_us) == (12, 12, 24)
    assert (times.gpus, times.steps, times.cpu_step_us, times.end_to_end_per_step_us) == (
        1,
        None,
        None,
        None,
    )


def test_steps_are_those_with_activities_and_what_is_outside_them_is_left_out() -> None:
    steps = pd.DataFrame(
        {"step": [3, 4, 5], "start_ns": [0, 1, 2], "duration_ns": [7 * US, 9 * US, 100 * US]}
    )
    rows = table((-50, 5), (0, 4), (10, 4), step=[None, 3, 4])
    times = trace_times(Profiled("t", rows, steps))
    assert (times.kernels, times.steps, times.end_to_end_us, times.end_to_end_per_step_us) == (
        2,
        2,
        14,
        7,
    )
    assert times.cpu_step_us == 8


def test_the_number_of_steps_given_is_for_the_whole_trace() -> None:
    times = trace_times(
        Profiled("t", table((0, 4), (10, 4), (20, 4), step=[None, 3, 3]), step_count=3)
    )
    assert (times.kernels, times.steps, times.end_to_end_per_step_us) == (3, 3, 8)


def test_of_several_gpus_the_longest_counts_and_idle_ones_do_not() -> None:
    rows = table(
        (0, 10), (0, 4), (16, 4), (0, 99), gpu=[0, 1, 1, 2], kind=["kernel"] * 3 + ["memcpy"]
    )
    times = trace_times(Profiled("t", rows))
    assert (times.gpus, times.kernels, times.kernel_us, times.gaps_us, times.end_to_end_us) == (
        2,
        2,
        8,
        12,
        20,
    )


def test_negative_durations_count_as_none() -> None:
    times = trace_times(Profiled("t", table((0, 10), (5, -4))))
    assert (times.kernel_us, times.busy_us) == (10, 10)


def test_a_trace_as_it_was_read() -> None:
    steps = pd.DataFrame({"step": [1], "start_ns": [0], "duration_ns": [5 * US]})
    annotated = annotate(Trace(table((0, 4), step=1), steps))
    assert trace_times(Profiled.of("t", annotated)).cpu_step_us == 5
    assert trace_times(Profiled.of("t", annotated, step_count=4)).end_to_end_per_step_us == 1


@pytest.mark.parametrize(
    ("trace", "message"),
    [
        (Profiled("t", table((0, 1), kind="memcpy")), "kernels in this trace"),
        (Profiled("t", table((0, 0), (1, -2))), "trace has a duration"),
        (Profiled("t", table((0, 1)), step_count=0), r"^steps.*0"),
    ],
)
def test_traces_without_kernels_times_or_steps_are_refused(trace: Profiled, message: str) -> None:
    with pytest.raises(DataError, match=message):
        trace_times(trace)

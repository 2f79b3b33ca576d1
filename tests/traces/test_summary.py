from __future__ import annotations

import json
from typing import Any

import pandas as pd
import pytest

from flopcast.features.matrix import build_dataset
from flopcast.hardware import find
from flopcast.table.measurements import DEFECT, clean, count_reasons
from flopcast.traces.dispatches import Trace, dispatch_table
from flopcast.traces.summary import annotate, measurements, overview

MM = json.dumps(
    {
        "dims": [[64, 32], [32, 16]],
        "types": ["float", "float"],
        "strides": [[32, 1], [16, 1]],
        "values": [],
    }
)


def trace(*rows: dict[str, Any]) -> Trace:
    """Return kernels a microsecond apart; what a row leaves out is missing."""
    common = {
        "kind": "kernel",
        "device": "MI300X",
        "process": 1,
        "gpu": 0,
        "stream": 0,
        "linked": True,
    }
    table = pd.DataFrame(
        [
            {**common, "start_ns": 10_000 * i, "source": f"t:{i}", **row}
            for i, row in enumerate(rows)
        ]
    )
    return Trace(dispatch_table({str(name): table[name] for name in table}))


def mm(call: int, duration: int, name: str = "Cijk_A", **more: Any) -> dict[str, Any]:
    return {
        "name": name,
        "duration_ns": duration,
        "op_name": "aten::mm",
        "op_id": call,
        "op_inputs": MM,
        **more,
    }


def rows(*activities: dict[str, Any]) -> pd.DataFrame:
    return measurements(annotate(trace(*activities)), "run")


def test_calls_of_one_shape_are_repeats_with_median_and_deviation() -> None:
    [row] = rows(mm(1, 1000), mm(2, 3000), mm(3, 1400)).to_dict("records")
    assert (row["op"], row["m"], row["n"], row["k"], row["dtype_a"]) == ("gemm", 64, 16, 32, "fp32")
    assert (row["duration_us"], row["repeats"], row["share"]) == (1.4, 3, 1.0)
    assert row["spread_us"] == pytest.approx(0.4)
    assert (row["kernel"], row["source"], row["campaign"]) == ("Cijk_A", "t:0", "run")


def test_the_kernels_of_a_call_add_up_and_give_their_names() -> None:
    [row] = rows(
        mm(7, 300, "memset"), mm(7, 2000), mm(7, 400, "reduce"), mm(7, 300, "reduce")
    ).to_dict("records")
    assert (row["duration_us"], row["kernel"]) == (3.0, "Cijk_A + memset + reduce")
    assert (row["kernels"], row["repeats"]) == (4, 1)
    assert row["flops"] == 2 * 64 * 16 * 32


def test_equal_numbers_of_calls_in_two_processes_are_two_calls() -> None:
    [row] = rows(mm(7, 1000), mm(7, 2000, process=2)).to_dict("records")
    assert (row["duration_us"], row["repeats"]) == (1.5, 2)


def test_calls_with_the_same_kernels_are_repeats_whichever_was_the_longest() -> None:
    times = ((90, 100), (90, 100), (90, 100), (1000, 600), (1000, 600), (1000, 600))
    activities = []
    for call, (first, second) in enumerate(times):
        activities += [mm(call, first, "f3x2"), mm(call, second, "f2x3")]
    [row] = rows(*activities).to_dict("records")
    assert (row["kernel"], row["repeats"], row["duration_us"]) == ("f2x3 + f3x2", 6, 0.895)
    each = measurements(annotate(trace(*activities)), "run", each=True)
    assert set(each["kernel"]) == {"f2x3 + f3x2"}


def test_an_overrun_ends_at_the_next_start_and_is_no_measurement() -> None:
    names = ["a", "a", "a", "a"]
    times = [5000, 5000, 1_600_000_000, 5000]
    activities = [
        mm(call, time, name) for call, (time, name) in enumerate(zip(times, names, strict=True))
    ]
    annotated = annotate(trace(*activities))
    assert annotated.dispatches["duration_ns"].tolist() == [5000, 5000, 10_000, 5000]
    assert annotated.dispatches["flags"].astype(str).tolist() == ["", "", "overrun", ""]
    [finding] = annotated.findings
    assert (finding.code, finding.severity, finding.count, finding.source) == (
        "overrun",
        "error",
        1,
        "t:2",
    )
    assert finding.share == 10 / 25  # of what can have run, not of the 1.6 s that it claims
    seen = overview(annotated, "t")
    assert (seen.kernel_us, seen.busy_us, seen.span_us) == (25.0, 25.0, 35.0)
    table = clean(measurements(annotated, "run"))
    assert count_reasons(table.rejected) == {"overrun": 1}
    assert table.frame[["duration_us", "repeats"]].to_numpy().tolist() == [[5.0, 3.0]]


def test_impossible_times_are_in_no_total() -> None:
    activities = [mm(1, 1000), mm(2, -5000), mm(3, 2 * 3600 * 10**9, stream=1), mm(4, 1000)]
    seen = overview(annotate(trace(*activities)), "t")
    assert (seen.kernel_us, seen.busy_us, seen.span_us) == (2.0, 2.0, 31.0)
    assert (seen.classes["time_us"].tolist(), seen.classes["count"].tolist()) == ([2.0], [4])


def test_another_kernel_for_the_same_shape_is_another_row() -> None:
    assert rows(mm(1, 1000), mm(2, 1000, "Cijk_B"))["kernel"].tolist() == ["Cijk_A", "Cijk_B"]


def test_kernels_without_an_operator_are_measured_by_name_and_launch() -> None:
    launch = {
        "name": "stencil",
        "grid_x": 8,
        "grid_y": 2,
        "grid_z": 1,
        "block_x": 64,
        "block_y": 1,
        "block_z": 1,
    }
    found = rows(
        {**launch, "duration_ns": 500},
        {**launch, "duration_ns": 700},
        {**launch, "grid_x": 9, "duration_ns": 10},
    )
    assert found[["op", "variant", "workgroups", "threads"]].to_numpy().tolist() == [
        ["kernel", "stencil", 16, 64],
        ["kernel", "stencil", 18, 64],
    ]
    assert found["duration_us"].tolist() == [0.6, 0.01]
    assert len(clean(found).frame) == 2


def test_what_a_launch_states_becomes_a_feature_of_kernels_that_are_known_by_it_alone() -> None:
    launch = {"name": "stencil", "grid_x": 8, "block_x": 64, "vgpr": 32, "scratch_bytes": 0}
    found = rows(
        {**launch, "duration_ns": 500},
        {**launch, "name": "copy", "vgpr": 8, "duration_ns": 700},
        mm(1, 900),
    )
    assert found["counter.launch.vgpr"].tolist()[:2] == [32.0, 8.0]
    assert found.loc[found["op"].eq("gemm"), "counter.launch.vgpr"].isna().all()
    assert "counter.launch.lds_bytes" not in found
    kernels = clean(found[found["op"].eq("kernel")]).frame
    dataset = build_dataset(kernels, host=None, target=find("MI300X"))
    assert sorted(dataset.X["counter.launch.vgpr"]) == [8.0, 32.0]
    assert "counter.launch.scratch_bytes" in dataset.recipe.constant
    products = build_dataset(clean(found).frame, host=None, target=find("MI300X"))
    assert not [name for name in products.recipe.skipped if name.startswith("counter.launch")]


def test_a_kernel_without_a_launch_and_impossible_times_are_refused_with_their_reason() -> None:
    times = [
        mm(call, time)
        for call, time in enumerate((1000, 0, 1000, 0, -5, 9, 4 * 3600 * 10**9, 0), start=1)
    ]
    found = rows({"name": "orphan", "duration_ns": 10, "linked": False}, *times)
    refused = {
        "launch-not-recorded": 1,
        "zero-duration": 3,
        "negative-duration": 1,
        "impossible-duration": 2,
    }
    assert count_reasons(clean(found).rejected) == refused
    assert found.loc[found[DEFECT].eq(""), "repeats"].tolist() == [2]


def test_counters_are_medians_over_the_repeats() -> None:
    counted = [
        mm(call, 1000, **{"counter.waves": value}) for call, value in ((1, 4.0), (2, 8.0), (3, 5.0))
    ]
    assert rows(*counted)["counter.waves"].tolist() == [5.0]


def test_an_empty_trace_gives_no_rows() -> None:
    empty = Trace(dispatch_table({"kind": [], "name": [], "start_ns": [], "duration_ns": []}))
    assert len(measurements(annotate(empty), "run")) == 0
    assert overview(annotate(empty), "t").activities == {}


def test_the_overview_counts_times_and_classes() -> None:
    found = overview(
        annotate(
            trace(mm(1, 1000), {"kind": "memcpy", "name": "HtoD", "duration_ns": 500, "bytes": 64})
        ),
        "t",
    )
    assert found.activities == {"kernel": 1, "memcpy": 1}
    assert (found.kernel_us, found.busy_us, found.span_us, found.linked) == (1.0, 1.5, 10.5, 2)
    assert found.classes["op_class"].tolist() == ["gemm", "memcpy"]
    assert found.classes["share"].tolist() == pytest.approx([2 / 3, 1 / 3])
    assert found.devices == ("MI300X",)

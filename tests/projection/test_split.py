from __future__ import annotations

import gzip
import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from flopcast.errors import DataError
from flopcast.projection.split import (
    CATEGORIES,
    DEVICE,
    MEASURES,
    STEP,
    STREAM,
    categories,
    time_split,
)
from flopcast.traces.dispatches import dispatch_table
from flopcast.traces.summary import Annotated

US = 1000
NAMES = {"compute": "gemm_kernel", "communication": "ncclDevKernel_Generic", "copy": "HtoD"}


def table(*activities: tuple[str, int, int], **columns: Any) -> pd.DataFrame:
    """Return activities of (category, start in us, duration in us)."""
    kinds, starts, durations = zip(*activities, strict=True)
    return dispatch_table(
        {
            "kind": ["memcpy" if kind == "copy" else "kernel" for kind in kinds],
            "name": [NAMES[kind] for kind in kinds],
            "start_ns": [start * US for start in starts],
            "duration_ns": [duration * US for duration in durations],
            **columns,
        }
    )


def whole(rows: pd.DataFrame, **options: Any) -> dict[str, float]:
    [part] = time_split(rows, **options).to_dict("records")
    return {str(name).removesuffix("_us"): value for name, value in part.items()}


def parts(
    computation: float, exposed: float, copy: float, idle: float, total: float
) -> dict[str, float]:
    return {
        "computation": computation, "exposed_communication": exposed, "exposed_copy": copy,
        "busy": computation + exposed + copy, "idle": idle, "total": total,
    }  # fmt: skip


def test_computation_hides_communication_and_both_hide_copies() -> None:
    """Compute 10-20, communication 15-30, copies 5-12 and 28-40: exposed are 20-30, 5-10 and 30-40."""
    found = whole(
        table(
            ("compute", 10, 10),
            ("communication", 15, 15),
            ("copy", 5, 7),
            ("copy", 28, 12),
            ("copy", 50, 1),
        )
    )
    expected = parts(10, 10, 5 + 10 + 1, 10, 46)
    assert found == {
        **expected,
        "communication": 15,
        "copy": 7 + 12 + 1,
        "overlapped_communication": 5,
    }


def test_nested_and_repeated_intervals_count_once() -> None:
    found = whole(
        table(
            ("compute", 0, 100),
            ("compute", 10, 5),
            ("communication", 20, 60),
            ("compute", 0, 100),
            ("copy", 5, 1),
        )
    )
    assert found == {
        **parts(100, 0, 0, 0, 100),
        "communication": 60,
        "copy": 1,
        "overlapped_communication": 60,
    }


def test_touching_intervals_leave_no_gap_and_hide_nothing() -> None:
    found = whole(
        table(("compute", 0, 10), ("communication", 10, 10), ("copy", 20, 10), ("compute", 30, 10))
    )
    assert found == {
        **parts(20, 10, 10, 0, 40),
        "communication": 10,
        "copy": 10,
        "overlapped_communication": 0,
    }


def test_zero_and_negative_durations_take_no_time_and_hide_nothing() -> None:
    rows = table(
        ("compute", 5, 0), ("communication", 0, 10), ("compute", 8, -4), ("compute", 20, -1)
    )
    assert whole(rows) == {
        **parts(0, 10, 0, 10, 20),
        "communication": 10,
        "copy": 0,
        "overlapped_communication": 0,
    }


def test_an_end_beyond_63_bits_takes_no_time() -> None:
    rows = table(("compute", 0, 10), ("compute", 30, 1)).assign(duration_ns=[10 * US, 2**63 - 1])
    assert whole(rows)["busy"] == 10


def test_a_nanosecond_is_told_at_absolute_times() -> None:
    rows = table(("compute", 0, 1), ("copy", 1, 1)).assign(
        start_ns=[1_763_000_000_000_000_001, 1_763_000_000_000_000_641], duration_ns=[639, 679]
    )
    assert (whole(rows)["idle"], whole(rows)["total"]) == (0.001, 1.319)


def test_each_stream_device_and_step_is_looked_at_alone() -> None:
    rows = table(
        ("compute", 0, 10), ("communication", 5, 10), ("compute", 20, 10), ("communication", 5, 10),
        gpu=[0, 0, 0, 1], stream=[1, 2, 1, 1], step=[1, 1, 2, 1], device="MI300X", rank=0, process=7,
    )  # fmt: skip
    exposed = ["computation_us", "exposed_communication_us", "idle_us"]
    by_device = time_split(rows, DEVICE)
    assert by_device["gpu"].tolist() == [0, 1]
    assert by_device[exposed].to_numpy().tolist() == [[20, 5, 5], [0, 10, 0]]
    by_step = time_split(rows, STEP)
    assert by_step[["gpu", "step"]].to_numpy().tolist() == [[0, 1], [0, 2], [1, 1]]
    assert by_step[exposed].to_numpy().tolist() == [[10, 5, 0], [10, 0, 0], [0, 10, 0]]
    by_stream = time_split(rows, STREAM)
    assert by_stream[["gpu", "stream"]].to_numpy().tolist() == [[0, 1], [0, 2], [1, 1]]
    assert by_stream[exposed].to_numpy().tolist() == [[20, 0, 10], [0, 10, 0], [0, 10, 0]]
    assert time_split(rows)[exposed].to_numpy().tolist() == [[20, 5, 5]]


def test_what_was_launched_outside_all_steps_is_a_part_of_its_own() -> None:
    found = time_split(
        table(("compute", 0, 1), ("compute", 5, 2), ("compute", 9, 3), step=[None, 3, None]),
        ["step"],
    )
    assert found["step"].isna().tolist() == [False, True]
    assert found["busy_us"].tolist() == [2, 4]


def test_an_empty_table_has_no_parts() -> None:
    empty = table(("compute", 0, 1)).iloc[:0]
    assert time_split(empty, DEVICE).columns.tolist() == [*DEVICE, *MEASURES]
    assert len(time_split(empty)) == len(time_split(empty, linked_only=True)) == 0


def test_linked_activities_alone_can_be_asked_for() -> None:
    rows = table(("compute", 0, 10), ("compute", 20, 10), linked=[False, True])
    assert (whole(rows)["total"], whole(rows, linked_only=True)["total"]) == (30, 10)
    with pytest.raises(DataError, match="activity"):
        time_split(rows.assign(linked=False), linked_only=True)


def test_categories_by_argument_class_and_name() -> None:
    rows = dispatch_table(
        {
            "kind": ["kernel", "kernel", "kernel", "memcpy", "memset", "kernel", "kernel", "kernel"],
            "name": [
                "gemm", "some_kernel", "ncclDevKernel_AllReduce_Sum_f32", "DtoD", "Memset", "__amd_rocclr_copyBuffer",
                "__amd_rocclr_streamOpsWait", "nobody_knows_it",
            ],
            "collective": ["", "allreduce", "", "", "", "", "", ""],
            "start_ns": np.arange(8), "duration_ns": 1,
        }
    )  # fmt: skip
    found = categories(rows)
    assert found.tolist() == [
        "compute", "communication", "communication", "copy", "copy", "copy", "compute", "compute",
    ]  # fmt: skip
    assert categories(rows, fills="compute").tolist() == [*found[:4], "compute", *found[5:]]


def test_known_classes_are_believed_and_the_index_kept() -> None:
    rows = table(("compute", 0, 1), ("compute", 1, 1)).assign(
        kernel_class=["communication", "other"]
    )
    found = categories(rows.set_axis([7, 3]))
    assert found.to_dict() == {7: "communication", 3: "compute"}


ACTIVITIES = st.lists(
    st.tuples(
        st.sampled_from(CATEGORIES), st.integers(0, 60), st.integers(-3, 25), st.integers(0, 2)
    ),
    min_size=1,
    max_size=25,
)


def streams(activities: list[tuple[str, int, int, int]]) -> pd.DataFrame:
    return table(
        *(activity[:3] for activity in activities), stream=[activity[3] for activity in activities]
    )


@given(ACTIVITIES)
def test_the_parts_add_up_and_agree_with_counting_every_microsecond(
    activities: list[tuple[str, int, int, int]],
) -> None:
    found = whole(streams(activities))
    assert (
        found["computation"] + found["exposed_communication"] + found["exposed_copy"]
        == found["busy"]
    )
    assert found["busy"] + found["idle"] == found["total"]
    running = {kind: np.zeros(100, dtype=bool) for kind in CATEGORIES}
    for kind, start, duration, _ in activities:
        running[kind][start : start + max(duration, 0)] = True
    compute, communication, copy = (running[kind] for kind in CATEGORIES)
    counted = (
        compute,
        communication & ~compute,
        copy & ~communication & ~compute,
        communication,
        copy,
    )
    assert [int(moments.sum()) for moments in counted] == [
        found[name]
        for name in (
            "computation",
            "exposed_communication",
            "exposed_copy",
            "communication",
            "copy",
        )
    ]
    assert found["overlapped_communication"] == (communication & compute).sum()


@settings(max_examples=8)
@given(ACTIVITIES, st.randoms(use_true_random=False), st.integers(-(10**18), 10**18))
def test_neither_the_order_of_the_rows_nor_the_origin_of_time_matters(
    activities: list[tuple[str, int, int, int]], random: Any, shift: int
) -> None:
    rows = streams(activities)
    shuffled = rows.iloc[random.sample(range(len(rows)), len(rows))]
    shifted = shuffled.assign(start_ns=shuffled["start_ns"] + shift)
    for by in ((), STREAM):
        pd.testing.assert_frame_equal(time_split(shifted, by), time_split(rows, by))


KINETO = "profiles/kineto"
TABLES = {
    **{
        f"pairs_{gpu}/{name}": f"{gpu}/{name}_perf_report_csvs"
        for gpu in ("mi300", "h100")
        for name in (
            "Falconsai_nsfw_image_detection__1016002",
            "Qwen_Qwen1.5-0.5B-Chat__1016005",
            "facebook_timesformer-base-finetuned-k400__1016002",
            "gaunernst_bert-small-uncased__1016001",
        )
    },
    "other/mi300_sglang_Qwen3-8B_prefilldecode": "inference/sglang_prefilldecode",
    "other/mi300_xdit_flux1_aiter_sage_profile_trace_rank_0": "inference/xdit_flux.1_aiter_sage",
    "other/vllm_decode_full_graph_execution": "inference/vllm_decode_full",
    "other/vllm_prefilldecode_piecewise_graph_execution": "inference/vllm_prefilldecode_piecewise",
}
RECOMPUTE = (
    "other/mi300_resnet_act_checkpoint",
    "mi300/resnet_act_checkpoint_recompute_perf_report_csvs",
)
THEIRS = {
    "computation_us": "computation_time",
    "exposed_communication_us": "exposed_comm_time",
    "exposed_copy_us": "exposed_memcpy_time",
    "busy_us": "busy_time",
    "idle_us": "idle_time",
    "total_us": "total_time",
    "communication_us": "total_comm_time",
    "copy_us": "total_memcpy_time",
}
WITHIN_US = 0.03
"""Their times are floating-point microseconds since boot, good to 0.5 ns each; sums of thousands differ by 0.025 us."""


def reference(data: Path, folder: str) -> pd.DataFrame:
    return pd.read_csv(data / KINETO / "tracelens_reference_csvs" / folder / "gpu_timeline.csv")


def test_every_reference_table_is_tested(shared_data: Path) -> None:
    root = shared_data / KINETO / "tracelens_reference_csvs"
    found = {file.parent.relative_to(root).as_posix() for file in root.glob("**/gpu_timeline.csv")}
    assert found == {*TABLES.values(), RECOMPUTE[1]}


@pytest.mark.parametrize("trace", TABLES)
def test_the_split_is_that_of_the_reference_tables(
    shared_data: Path, kineto: Callable[[str], Annotated], trace: str
) -> None:
    theirs = reference(shared_data, TABLES[trace]).set_index("type")["time ms"] * US
    ours = time_split(kineto(trace).dispatches, linked_only=True, fills="compute").loc[0]
    assert [ours[name] for name in THEIRS] == pytest.approx(
        [theirs[name] for name in THEIRS.values()], abs=WITHIN_US
    )


def test_recomputed_activations_apart_are_those_of_the_reference_table(
    shared_data: Path, kineto: Callable[[str], Annotated]
) -> None:
    """That table, written with another setting, leaves fills out and splits what was launched for a recomputation."""
    trace, folder = RECOMPUTE
    rows = kineto(trace).dispatches.query("kind != 'memset'")
    again = recomputed(shared_data / KINETO / f"{trace}.json.gz")
    ours = time_split(
        rows.assign(is_recompute=rows["correlation"].isin(again)),
        ["is_recompute"],
        linked_only=True,
    )
    theirs = (
        reference(shared_data, folder).pivot_table(
            index="is_recompute", columns="type", values="time ms"
        )
        * US
    )
    assert ours["is_recompute"].tolist() == theirs.index.tolist() == [False, True]
    assert ours["communication_us"].max() > ours["overlapped_communication_us"].max() > 8000
    assert ours[list(THEIRS)].to_numpy() == pytest.approx(
        theirs[list(THEIRS.values())].to_numpy(), abs=WITHIN_US
    )


def recomputed(path: Path) -> set[int]:
    """Return the correlations of what was launched while PyTorch recomputed a checkpointed forward pass."""
    events = [
        event
        for event in json.loads(gzip.decompress(path.read_bytes()))["traceEvents"]
        if "dur" in event
    ]
    spans = [
        (event["tid"], event["ts"], event["ts"] + event["dur"])
        for event in events
        if event["name"].endswith(": recompute_fn")
    ]
    return {
        event["args"]["correlation"]
        for event in events
        if event["cat"] == "cuda_runtime"
        and any(
            thread == event["tid"] and start <= event["ts"] <= end for thread, start, end in spans
        )
    }

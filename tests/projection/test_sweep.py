from __future__ import annotations

from typing import Any

import numpy as np
import pandas as pd
import pytest
from hypothesis import given
from hypothesis import strategies as st

from flopcast.errors import DataError
from flopcast.hardware import GPU, find
from flopcast.projection.collective_laws import link_bandwidth_gbs
from flopcast.projection.sweep import (
    SWEPT,
    BoundChange,
    Sweep,
    changes_of_bound,
    parse_sweep,
    parse_sweeps,
    published_value,
    stacked,
    sweep,
    swept,
)


def roofline(gpu: GPU) -> dict[str, Any]:
    """1.2 ms of copies on an MI300X, and a GEMM of 1 ms that half its memory bandwidth would feed."""
    reference = find("MI300X")
    memory = reference.require("memory_bw_gbs") / gpu.require("memory_bw_gbs")
    copies, gemm = (
        1200 * memory,
        max(500 * memory, 1000 * reference.peak_tflops("fp16") / gpu.peak_tflops("fp16")),
    )
    total = copies + gemm
    share = (
        {"memory": 1.0}
        if gemm == 500 * memory
        else {"memory": copies / total, "compute": gemm / total}
    )
    return {"end_to_end_us": total, "time_us": {"copy": copies, "gemm": gemm}, "share": share}


@pytest.mark.parametrize(
    ("text", "figure", "values"),
    [
        ("memory_bw_gbs=6000:10000:2000", "memory_bw_gbs", (6000, 8000, 10000)),
        ("memory_bw_gbs=6000:10000:3000", "memory_bw_gbs", (6000, 9000, 10000)),
        (" llc_mb = 8000, 256,256 ", "llc_mb", (256, 8000)),
        ("peak_tflops.fp8_matrix=2.5e3", "peak_tflops.fp8_matrix", (2500,)),
        ("link_uni_gbs=0.1:0.4:0.1", "link_uni_gbs", (0.1, 0.2, 0.3, 0.4)),
        ("cus=100,304", "cus", (100, 304)),
    ],
)
def test_ranges_and_lists(text: str, figure: str, values: tuple[float, ...]) -> None:
    assert parse_sweep(text) == Sweep(figure, values)


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("memory_bw_gbs", r"memory_bw_gbs=6000:10000:500.*memory_bw_gbs=6000,8000"),
        ("memory_bw=1", r"GPU.*memory_bw.*memory_gb.*memory_bw_gbs\?"),
        ("fp8_matrix=1", r"did you mean peak_tflops.fp8_matrix\?"),
        ("peak_tflops.int8_matrix=1", r"did you mean peak_tops.int8_matrix\?"),
        ("qqq=1", r"hardware/gpus.toml"),
        ("memory_bw_gbs=2:1", r"START:STOP:STEP.*'2:1'"),
        ("memory_bw_gbs=2:1:1", r"START.*STOP.*STEP.*2:1:1"),
        ("memory_bw_gbs=1:2:0", "by a STEP above 0"),
        ("memory_bw_gbs=1:1e9:0.1", "would take over 1000 values"),
        ("memory_bw_gbs=" + ",".join(map(str, range(1, 1002))), r"1001.*1000"),
        ("memory_bw_gbs=fast", r"memory_bw_gbs.*'fast'"),
        ("memory_bw_gbs=1,,2", "numbers, got ''"),
        ("memory_bw_gbs=1,nan", "finite numbers, got nan"),
        ("memory_bw_gbs=0,1", r"memory_bw_gbs.*GB/s"),
        ("cus=100.5", r"cus.*100.5"),
    ],
)
def test_what_cannot_be_read_is_said(text: str, message: str) -> None:
    with pytest.raises(DataError, match=rf"^sweep .*{message}"):
        parse_sweep(text)


@given(start=st.integers(1, 500), length=st.integers(1, 500), step=st.integers(1, 50))
def test_a_range_has_both_ends_and_even_steps(start: int, length: int, step: int) -> None:
    points = parse_sweep(f"tdp_w={start}:{start + length}:{step}").points
    assert (points[0], points[-1]) == (start, start + length)
    assert set(np.diff(points[:-1])) <= {step}
    assert 0 < points[-1] - points[-2] <= step


@given(
    gpu=st.sampled_from([find("MI300X"), find("H100 SXM")]), figure=st.sampled_from(sorted(SWEPT))
)
def test_one_figure_changes_and_no_other(gpu: GPU, figure: str) -> None:
    changed = swept(gpu, figure, 4242)
    assert published_value(changed, figure) == 4242
    others = set(SWEPT) - (
        {"link_bw_gbs", "p2p_uni_gbs"} if figure in ("link_bw_gbs", "p2p_uni_gbs") else {figure}
    )
    assert all(published_value(changed, other) == published_value(gpu, other) for other in others)
    assert changed.name == f"{gpu.name} with {figure} = 4242"
    assert (changed.arch, changed.aliases, changed.confidence) == (gpu.arch, (), "")


def test_more_of_the_links_reaches_a_mesh_and_pairs_too() -> None:
    wide = swept(find("MI300X"), "link_bw_gbs", 896)
    assert wide.p2p_uni_gbs == 128
    assert [link_bandwidth_gbs(wide, "all_reduce", ranks) for ranks in (2, 8)] == [128, 896]


def test_a_figure_is_swept_once() -> None:
    assert [plan.figure for plan in parse_sweeps(["cus=1,2", "tdp_w=3"])] == ["cus", "tdp_w"]
    with pytest.raises(DataError, match=r"^sweep"):
        parse_sweeps(["cus=1,2", "tdp_w=3", "cus=4"])


def test_sweeps_below_each_other_have_the_same_bounds() -> None:
    """What only the other sweep has took no time, and its column hides no change."""

    def evaluate(gpu: GPU) -> dict[str, Any]:
        found = roofline(gpu)
        return (
            found
            if gpu.tdp_w == find("MI300X").tdp_w
            else {**found, "share": {"link": 1.0}, "time_us": {"x": 1.0}}
        )

    plans = [parse_sweep("tdp_w=1,2"), parse_sweep("memory_bw_gbs=1000:9000:2000")]
    found = stacked([sweep(find("MI300X"), plan, evaluate) for plan in plans])
    assert not found.drop(columns="current").isna().any(axis=None)
    assert [
        (change.before, change.after)
        for change in changes_of_bound(found)
        if change.figure != "tdp_w"
    ] == [("memory", "compute")]


def test_its_own_value_is_the_gpu_itself() -> None:
    assert swept(find("MI300X"), "memory_bw_gbs", 5325) is find("MI300X")
    assert swept(find("MI300X"), "cus", 304) is find("MI300X")


def test_a_figure_that_does_not_exist_is_not_swept() -> None:
    with pytest.raises(DataError, match=r"did you mean links\?"):
        swept(find("MI300X"), "link", 1)


@pytest.fixture(scope="module")
def frame() -> pd.DataFrame:
    return sweep(find("MI300X"), parse_sweep("memory_bw_gbs=1000:9000:2000"), roofline)


def test_every_point_and_the_gpu_as_it_is(frame: pd.DataFrame) -> None:
    assert frame["value"].tolist() == [1000, 3000, 5000, 5325, 7000, 9000]
    assert frame["current"].tolist() == [False, False, False, True, False, False]
    assert frame["end_to_end_us"].tolist() == pytest.approx(
        [5325 * 1.7, 2130 + 1000, 1278 + 1000, 2200, 6390 / 7 + 1000, 710 + 1000]
    )
    assert frame["time_us.gemm"].tolist() == pytest.approx([5325 / 2, 1000, 1000, 1000, 1000, 1000])
    assert frame["share.compute"].iloc[0] == 0
    assert (frame["share.memory"] + frame["share.compute"]).tolist() == pytest.approx([1] * 6)


def test_an_unpublished_figure_has_no_current_point() -> None:
    gpu = GPU(name="mine", memory_bw_gbs=5325, peaks={"fp16_matrix": 1307.4})
    assert sweep(gpu, Sweep("llc_mb", (1.0, 2.0)), roofline)["current"].tolist() == [False, False]


def test_the_bound_changes_where_the_shares_meet(frame: pd.DataFrame) -> None:
    (change,) = changes_of_bound(frame)
    assert (change.figure, change.lower, change.upper) == ("memory_bw_gbs", 5325, 7000)
    assert (change.before, change.after) == ("memory", "compute")
    assert change.crossing == pytest.approx(6390, rel=0.01)  # where copies take 1 ms too


def test_each_sweep_has_changes_of_its_own() -> None:
    shares = {"share.memory": [0.7, 0.3, 0.7, 0.9], "share.launch": [0.3, 0.7, 0.3, 0.1]}
    frame = pd.DataFrame({"figure": ["a", "a", "b", "b"], "value": [1.0, 3.0, 1.0, 2.0], **shares})
    assert changes_of_bound(frame) == [BoundChange("a", 1.0, 3.0, "memory", "launch", 2.0)]


def test_without_bounds_none_changes() -> None:
    result = {"end_to_end_us": 1.0, "time_us": {"gemm": 1.0}, "share": {}}
    assert changes_of_bound(sweep(find("MI300X"), parse_sweep("tdp_w=1,2"), lambda _: result)) == []


def test_a_bound_that_no_law_names_is_unknown() -> None:
    result = {"end_to_end_us": 1.0, "time_us": {}, "share": {"": 1.0}}
    assert "share.unknown" in sweep(find("MI300X"), parse_sweep("tdp_w=1,2"), lambda _: result)

"""MIOpen's find databases: keys, directions, solvers, devices."""

from __future__ import annotations

import bz2
from pathlib import Path

import pytest

from flopcast.readers import Measurements, read
from flopcast.table.problems import best_kernel

F2 = "64-56-28-3x5-128-28-14-16-1x2-2x2-1x1-0-NCHW-FP16-F"
SOLVERS = (
    "One:0.5,1024,miopenConvolutionFwdAlgoGEMM;Two<3-2>:2e-1,0,miopenConvolutionFwdAlgoWinograd"
)


def read_lines(folder: Path, *lines: str, name: str = "gfx942130.HIP.fdb.txt") -> Measurements:
    file = folder / name
    file.write_text("\n".join([*lines, ""]), encoding="utf-8")
    return read([file])


def test_every_solver_is_a_row(tmp_path: Path) -> None:
    frame = read_lines(tmp_path, f"{F2}={SOLVERS}").frame
    assert frame["kernel"].tolist() == ["One", "Two<3-2>"]
    assert frame["duration_us"].tolist() == [500.0, 200.0]
    assert frame["workspace_bytes"].tolist() == [1024.0, 0.0]
    assert frame["algorithm"].tolist() == ["FwdAlgoGEMM", "FwdAlgoWinograd"]
    assert frame["source"].tolist() == ["gfx942130.HIP.fdb.txt:1"] * 2
    assert set(frame["device"]) == {"MI300X"}
    assert set(frame["campaign"]) == {"gfx942130.HIP.fdb"}
    best = best_kernel(frame).iloc[0]
    assert (best["kernel"], best["duration_us"], best["solvers"]) == ("Two<3-2>", 200.0, 2)


def test_a_forward_key(tmp_path: Path) -> None:
    row = read_lines(tmp_path, f"{F2}=One:0.5,0,x").frame.iloc[0]
    expected = {
        "op": "conv", "direction": "F", "layout": "NCHW", "dtype_a": "fp16", "dtype_b": "fp16", "dtype_out": "fp16",
        "batch": 16, "groups": 1, "in_channels": 64, "in_d": 1, "in_h": 56, "in_w": 28,
        "out_channels": 128, "out_d": 1, "out_h": 28, "out_w": 14, "fil_d": 1, "fil_h": 3, "fil_w": 5,
        "pad_d": 0, "pad_h": 1, "pad_w": 2, "stride_d": 1, "stride_h": 2, "stride_w": 2,
        "dil_d": 1, "dil_h": 1, "dil_w": 1,
    }  # fmt: skip
    assert {name: row[name] for name in expected} == expected


@pytest.mark.parametrize("direction", ["B", "W"])
def test_backward_keys_hold_dy_first_and_are_the_same_forward_problem(
    tmp_path: Path, direction: str
) -> None:
    key = f"128-28-14-3x5-64-56-28-16-1x2-2x2-1x1-0-NCHW-FP16-{direction}"
    backward, forward = read_lines(
        tmp_path, f"{key}=One:0.5,0,x", f"{F2}=One:0.5,0,x"
    ).frame.to_dict("records")
    different = {name for name in forward if str(forward[name]) != str(backward[name])}
    assert different == {"direction", "source"}


def test_a_key_in_three_dimensions_with_groups_and_dilation(tmp_path: Path) -> None:
    key = "32-9-56-28-2x3x3-64-4-52-24-8-0x0x0-2x1x1-1x2x2-0-NCDHW-BF16-F_g4"
    row = read_lines(tmp_path, f"{key}=One:0.5,0,x").frame.iloc[0]
    names = (
        "groups",
        "layout",
        "dtype_a",
        "in_d",
        "in_h",
        "out_d",
        "out_w",
        "fil_d",
        "stride_d",
        "stride_h",
        "dil_h",
    )
    assert [row[name] for name in names] == [4, "NCDHW", "bf16", 9, 56, 4, 24, 2, 2, 1, 2]


def test_a_key_with_three_layouts_is_still_two_dimensional(tmp_path: Path) -> None:
    keys = [F2.replace("NCHW", layout) for layout in ("NHWC-NHWC-NHWC", "NCHW-NHWC-NHWC")]
    frame = read_lines(tmp_path, *(f"{key}=One:0.5,0,x" for key in keys)).frame
    assert frame["layout"].tolist() == ["NHWC", "NCHW-NHWC-NHWC"]
    assert frame["in_d"].tolist() == [1, 1]


def test_a_filter_larger_than_the_input_is_kept_with_a_note(tmp_path: Path) -> None:
    measured = read_lines(tmp_path, "128-1-1-3x3-256-1-1-24-0x0-1x1-1x1-0-NCHW-FP32-F=One:0.5,0,x")
    assert measured.frame["out_h"].tolist() == [1]
    assert "filter-larger-than-input" in [note.code for note in measured.notes]


def test_what_cannot_be_used_is_refused_by_line(tmp_path: Path) -> None:
    wrong_size = F2.replace("128-28-14", "128-29-14")
    lines = [
        f"{F2}=One:0.0,0,x;Two:1.0,0,x;Three:fast,0,x;Four:1.0",
        "",
        "garbage=One:1,0,x",
        f"{wrong_size}=One:1.0,0,x",
    ]
    measured = read_lines(tmp_path, *lines)
    assert measured.frame["kernel"].tolist() == ["Two"]
    assert [(row["source"][-1], row["reason"]) for row in measured.rejected.to_dict("records")] == [
        ("1", "zero-duration"),
        ("1", "no-duration"),
        ("1", "not-a-solver"),
        ("4", "output-size-mismatch"),
        ("3", "not-a-convolution"),
    ]


@pytest.mark.parametrize(
    ("name", "device"),
    [
        ("gfx942130.HIP.fdb.txt", "MI300X"),
        ("gfx90a68.HIP.fdb.txt", "MI210"),
        ("gfx90a6e.HIP.fdb.txt.bz2", "MI250X (per GCD)"),
        ("gfx90878.HIP.fdb.txt", "MI100"),
        ("gfx906_60.HIP.fdb.txt", "MI50"),
        ("gfx1030_36.HIP.fdb.txt", "gfx1030 (36 CUs)"),
    ],
)
def test_the_device_is_in_the_files_name(tmp_path: Path, name: str, device: str) -> None:
    content = f"{F2}=One:0.5,0,x\n".encode()
    (tmp_path / name).write_bytes(bz2.compress(content) if name.endswith("bz2") else content)
    assert read([tmp_path]).frame["device"].tolist() == [device]


def test_a_name_that_says_nothing_takes_the_users_device(tmp_path: Path) -> None:
    file = tmp_path / "user.fdb"
    file.write_text(f"{F2}=One:0.5,0,x\n", encoding="utf-8")
    assert read([file], defaults={"device": "MI300X"}).frame["device"].tolist() == ["MI300X"]

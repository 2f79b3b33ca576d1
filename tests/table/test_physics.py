"""Rows that no device can have run: refused, kept on demand, and files in another unit."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pandas as pd
import pytest

from flopcast.api.training import train
from flopcast.errors import DataError, ParameterError
from flopcast.hardware import find
from flopcast.readers import Measurements, Options, read, read_rows
from flopcast.remarks import Remark
from flopcast.table.measurements import REFUSED
from flopcast.table.physics import SLIPPED, check_keep

PEAK = find("MI300X").peaks["bf16_matrix"]
LEAST_US = 2 * 8192.0**3 / (PEAK * 1e6)
HEADER = "device,op,dtype_a,m,n,k"


def table(
    tmp_path: Path,
    times: list[float],
    unit: str = "us",
    name: str = "x.csv",
    device: str = "MI300X",
) -> Path:
    """Write a product of 8192³ that takes each of the times."""
    lines = [
        f"{device},gemm,bf16,8192,8192,{8192 + 64 * row},{time!r}" for row, time in enumerate(times)
    ]
    path = tmp_path / name
    path.write_text("\n".join([f"{HEADER},time_{unit}", *lines, ""]), encoding="utf-8")
    return path


def remarks(found: Measurements, code: str) -> list[Remark]:
    return [note for note in found.notes if note.code == code]


def test_above_the_peak_is_a_finding_and_half_as_much_again_is_refused(tmp_path: Path) -> None:
    found = read([table(tmp_path, [LEAST_US * 2, LEAST_US / 1.2, LEAST_US / 2, LEAST_US * 4])])
    assert len(found.frame) == 3
    assert found.rejected[["source", "reason"]].to_numpy().tolist() == [["x.csv:4", "above-peak"]]
    assert found.above_peak["source"].tolist() == ["x.csv:4", "x.csv:3"]
    assert found.above_peak["kept"].tolist() == [False, True]
    assert found.above_peak["share"].to_numpy() == pytest.approx(
        [2.0 * (8192 + 128) / 8192, 1.2 * (8192 + 64) / 8192]
    )
    [note] = remarks(found, "above-peak")
    assert (note.values["device"], note.values["peak"], note.values["refused"]) == (
        "MI300X",
        "bf16_matrix",
        1,
    )
    assert [source for source, _ in note.values["worst"]] == ["x.csv:4", "x.csv:3"]
    assert "faster than MI300X allows (bf16 matrix peak): " in note.text


def test_keep_keeps_what_is_impossible(tmp_path: Path) -> None:
    path = table(tmp_path, [LEAST_US * 2, LEAST_US / 2, LEAST_US * 3, 0.005, 4e9])
    assert read([path]).rejected_by_reason == {"impossible-duration": 2, "above-peak": 1}
    kept = read([path], options=Options(keep=("impossible",)))
    assert (len(kept.frame), len(kept.rejected)) == (5, 0)
    assert kept.above_peak["kept"].all()
    for wrong in ("impossible", ["slow"]):
        with pytest.raises(ParameterError, match="keep must be"):
            check_keep(wrong)


def test_a_device_of_ones_own_has_no_peak_but_no_kernel_takes_an_hour(tmp_path: Path) -> None:
    found = read([table(tmp_path, [0.02, 3601e6, 0.009, 50.0], device="LabChip")])
    assert found.rejected_by_reason == {"impossible-duration": 2}
    assert found.above_peak.empty


@pytest.mark.parametrize(
    ("stated", "true", "factor"), [("us", "ms", 1e3), ("us", "s", 1e6), ("ns", "us", 1e3)]
)
def test_a_file_that_is_too_fast_as_a_whole_is_in_another_unit(
    tmp_path: Path, stated: str, true: str, factor: float
) -> None:
    micros = {"ns": 1e-3, "us": 1.0}[stated]
    path = table(
        tmp_path, [LEAST_US * slower / factor / micros for slower in (1.2, 2, 3, 8, 40)], stated
    )
    with pytest.raises(ParameterError, match=rf"time_{stated}={true} .*x\.csv"):
        read([path])
    assert len(read([path], units={f"time_{stated}": true}).frame) == 5
    good = table(tmp_path, [LEAST_US * 2] * 2, name="good.csv")
    both = read([path, good])
    assert both.rejected_by_reason == {"other-unit": 5}
    [note] = remarks(both, "other-unit")
    assert {**note.values, "rows": 0, "files": ()} == {
        "factor": factor, "column": f"time_{stated}", "unit": true, "file": "x.csv", "rows": 0, "files": (),
    }  # fmt: skip


def test_a_file_that_is_too_slow_as_a_whole_is_remarked_on(tmp_path: Path) -> None:
    found = read([table(tmp_path, [LEAST_US * slower * 1e3 for slower in (1.2, 2, 3, 8)])])
    [note] = remarks(found, "other-unit")
    assert (note.values["factor"], note.values["unit"]) == (1e-3, "ns")
    assert len(found.frame) == 4


def test_one_device_of_a_file_may_be_in_another_unit(tmp_path: Path) -> None:
    times = [LEAST_US * slower for slower in (1.2, 2, 3, 8)]
    own, other = (
        table(tmp_path, times),
        table(tmp_path, [1e3 * time for time in times], device="MI355X", name="y.csv"),
    )
    own.write_text(own.read_text() + other.read_text().partition("\n")[2])
    found = read([own])
    [note] = remarks(found, "other-unit")
    assert (note.values["device"], note.values["factor"], note.values["rows"]) == (
        "MI355X",
        1e-3,
        4,
    )
    assert found.rejected_by_reason == {SLIPPED: 4}


def test_rows_in_another_unit_among_others_are_named_and_kept_out(tmp_path: Path) -> None:
    times = [
        LEAST_US * slower * (1e3 if row % 2 else 1)
        for row, slower in enumerate((1.2, 1.3, 2, 2.2, 3, 4, 8, 9))
    ]
    found = read([table(tmp_path, times)])
    [note] = remarks(found, SLIPPED)
    assert (note.values["file"], note.values["rows"]) == ("x.csv", 4)
    assert sorted(found.rejected["source"]) == ["x.csv:3", "x.csv:5", "x.csv:7", "x.csv:9"]
    assert len(read([table(tmp_path, times)], options=Options(keep=("impossible",))).frame) == 8
    with pytest.raises(
        DataError,
        match=r"50 % of the rows are in another unit.* x\.csv: 4 rows \(lines 3, 5, 7, 9\)",
    ):
        train(table(tmp_path, times), target="MI300X")


@pytest.mark.parametrize("unit", ["ns", "ms"])
def test_a_file_beside_others_is_in_the_unit_that_is_stated_for_it(
    tmp_path: Path, unit: str
) -> None:
    times = [LEAST_US * slower for slower in (1.2, 1.3, 2, 8)]
    own, factor = table(tmp_path, times), {"ns": 1e3, "ms": 1e-3}[unit]
    other = table(tmp_path, [time * factor * 1.1 for time in times], name="y.csv", device="MI355X")
    assert set(read([own, other]).frame["device"]) == {"MI300X"}
    with pytest.raises(DataError, match=r"MI355X.*y\.csv"):
        train([own, other], target="MI355X")
    found = read([own, other], units={"y.csv": unit})
    assert found.frame.groupby("device").size().to_dict() == {"MI300X": 4, "MI355X": 4}
    with pytest.raises(ParameterError, match=r"z\.csv"):
        read([own, other], units={"z.csv": unit})


def test_honest_files_are_in_their_unit(tmp_path: Path) -> None:
    for slower in (1.05, 50, 600):
        found = read([table(tmp_path, [LEAST_US * slower, LEAST_US * slower * 1.5])])
        assert found.notes == ()
        assert found.rejected.empty


def test_one_wrong_row_is_not_a_wrong_unit(tmp_path: Path) -> None:
    found = read([table(tmp_path, [LEAST_US * 2, LEAST_US * 3, LEAST_US / 1000])])
    assert found.rejected_by_reason == {"above-peak": 1}
    assert not remarks(found, "other-unit")


def test_formats_without_a_stated_unit_are_told_what_they_look_like(tmp_path: Path) -> None:
    rows = "".join(
        f"gfx942,304,8192,8192,{8192 + 64 * row},k,{LEAST_US * 2 / 1e3}\n" for row in range(3)
    )
    (tmp_path / "a16w16_tuned_gemm.csv").write_text(
        "gfx,cu_num,M,N,K,kernelName,us\n" + rows, encoding="utf-8"
    )
    with pytest.raises(DataError, match=r"\(other-unit: 3\)"):
        read([tmp_path])


def test_powers_and_energies_that_cannot_be_are_left_out_and_told(tmp_path: Path) -> None:
    lines = [f"MI300X,gemm,bf16,64,64,{64 * row},9,{power},{energy}" for row, (power, energy) in enumerate(
        [("-5", "0.1"), ("inf", "0.1"), ("500", "-1"), ("", ""), ("450", "0.2")], start=1)]  # fmt: skip
    (tmp_path / "p.csv").write_text(
        f"{HEADER},time_us,power_w,energy_j\n" + "\n".join(lines), encoding="utf-8"
    )
    found = read([tmp_path / "p.csv"])
    assert found.frame["power_w"].tolist()[2::2] == [500, 450]
    assert found.frame["power_w"].isna().tolist() == [True, True, False, True, False]
    assert found.frame["energy_j"].isna().tolist() == [False, False, True, True, False]
    [power], [energy] = remarks(found, "impossible-power"), remarks(found, "impossible-energy")
    assert (power.values["value"], power.values["source"], power.values["rows"]) == (
        -5.0,
        "p.csv:2",
        2,
    )
    assert (energy.values["source"], energy.values["rows"]) == ("p.csv:4", 1)


def test_powers_far_above_the_board_power_are_left_out_unless_kept(tmp_path: Path) -> None:
    most = 1.5 * find("MI300X").tdp_w
    cases = [("MI300X", most + 1), ("MI300X", most - 1), ("LabChip", most + 1)]
    lines = [
        f"{device},gemm,bf16,64,64,{64 * row},9,{power}"
        for row, (device, power) in enumerate(cases, start=1)
    ]
    (tmp_path / "p.csv").write_text(
        f"{HEADER},time_us,power_w\n" + "\n".join(lines), encoding="utf-8"
    )
    found = read([tmp_path / "p.csv"])
    assert found.frame["power_w"].isna().tolist() == [True, False, False]
    [note] = remarks(found, "above-board-power")
    assert (note.values["value"], note.values["source"], note.values["rows"]) == (
        most + 1,
        "p.csv:2",
        1,
    )
    kept = read([tmp_path / "p.csv"], options=Options(keep=("impossible",)))
    assert kept.frame["power_w"].tolist() == [power for _, power in cases]


def test_energies_and_timestamps_that_contradict_the_time_of_their_rows_are_named(
    tmp_path: Path,
) -> None:
    head, shape = f"{HEADER},duration_us", "MI300X,gemm,bf16,64,64"
    energies = "".join(
        f"{shape},{64 * row},9,500,{500 * 9e-6 * (row - 1) * 10**wrong}\n"
        for row, wrong in ((2, 0), (3, 1))
    )
    stamps = "".join(
        f"{shape},{64 * row},9,1000,{1000 + end}\n" for row, end in ((4, 9000), (5, 90), (6, 90))
    )
    (tmp_path / "e.csv").write_text(f"{head},power_w,energy_j\n{energies}", encoding="utf-8")
    (tmp_path / "t.csv").write_text(
        f"{head},Start_Timestamp,End_Timestamp\n{stamps}", encoding="utf-8"
    )
    found = read([tmp_path / "e.csv", tmp_path / "t.csv"])
    for code, file, factor, rows in (
        ("energy-contradicts-power", "e.csv", 20, 1),
        ("duration-mismatch", "t.csv", 100, 2),
    ):
        [note] = remarks(found, code)
        assert (note.values["file"], note.values["rows"]) == (file, rows)
        assert note.values["factor"] == pytest.approx(factor)
        assert "lines 3" in str(note)


def test_a_bus_faster_than_the_links_is_above_a_peak(tmp_path: Path) -> None:
    gpu = find("MI300X")
    least = 2 * 7 / 8 * 2**30 / (gpu.link_bw_gbs * 1e3)
    rows = "".join(
        f"MI300X,collective,all_reduce,{2**30},8,bf16,{least * slower}\n"
        for slower in (0.5, 0.9, 1.1)
    )
    (tmp_path / "c.csv").write_text(
        "device,op,variant,message_bytes,ranks,dtype,us\n" + rows, encoding="utf-8"
    )
    found = read([tmp_path / "c.csv"])
    assert found.rejected[["source", "reason"]].to_numpy().tolist() == [["c.csv:2", "above-peak"]]
    assert found.above_peak["source"].tolist() == ["c.csv:2", "c.csv:3"]
    assert set(found.above_peak["peak"]) == {"link_bw_gbs"}


def test_rows_to_predict_from_a_host_are_held_too(tmp_path: Path) -> None:
    path = table(tmp_path, [LEAST_US * 2, LEAST_US / 2, LEAST_US * 3])
    assert read_rows([path])[0][REFUSED].tolist() == ["", "above-peak", ""]
    assert read_rows([path], keep=["impossible"])[0][REFUSED].tolist() == [""] * 3
    assert read_rows([path], timed=False)[0][REFUSED].tolist() == [""] * 3


def test_files_of_which_nothing_is_asked_for_are_one_remark(tmp_path: Path) -> None:
    for place in range(3):
        text = (
            f"{HEADER},time_us\nLab{place},gemm,bf16,64,64,64,9\nLab{place},gemm,bf16,0,64,64,9\n"
        )
        (tmp_path / f"{place}.csv").write_text(text.replace(",bf16,", ",,"), encoding="utf-8")
    table(tmp_path, [LEAST_US * 2], name="y.csv")
    found = read([tmp_path], where={"device": "MI300X"})
    assert (len(found.frame), len(found.rejected)) == (1, 0)
    [note] = found.notes
    assert (note.code, note.values["where"]) == ("files-excluded", "device=MI300X")
    assert note.values["files"] == ("0.csv", "1.csv", "2.csv")
    assert not remarks(read([tmp_path], where={"op": "gemm"}), "files-excluded")


def test_a_table_in_memory_is_held_as_a_file_is() -> None:
    rows = pd.DataFrame(
        {"device": "MI300X", "op": "gemm", "dtype_a": "bf16", "m": 8192, "n": 8192, "k": 8192},
        [0, 1],
    )
    found = read([rows.assign(time_us=[LEAST_US / 3, LEAST_US * 2])])
    assert found.rejected.to_numpy()[:, :2].tolist() == [["row 1", "above-peak"]]
    assert np.isclose(found.frame["duration_us"], LEAST_US * 2).all()


def test_times_that_no_kernel_takes_are_refused_in_every_format(tmp_path: Path) -> None:
    solvers = ";".join(
        f"S{place}:{time},0,algorithm" for place, time in enumerate((4e6, 5e-6, 0.5))
    )
    key = "64-56-56-1x1-64-56-56-16-0x0-1x1-1x1-0-NCHW-FP32-F"
    (tmp_path / "gfx942130.HIP.fdb.txt").write_text(f"{key}={solvers}\n", encoding="utf-8")
    ranks = "".join(
        f"#  Rank  {rank} Group  0 Pid  42 on  node device  {rank} [0000:05:00.0] AMD Instinct MI300X\n"
        for rank in (0, 1)
    )
    head = "#  size count type redop root time algbw busbw #wrong time algbw busbw #wrong\n"
    lines = "".join(
        f"{size} 2 float sum -1 {time} 0 0 0 {time} 0 0 0\n"
        for size, time in ((8, 0.001), (16, 9.0))
    )
    (tmp_path / "all_reduce.log").write_text(f"{ranks}{head}{lines}", encoding="utf-8")
    found = read([tmp_path])
    assert found.rejected_by_reason == {"impossible-duration": 4}
    assert sorted(found.frame["op"].unique()) == ["collective", "conv"]


def test_where_every_row_is_refused_nothing_is_left_to_hold(tmp_path: Path) -> None:
    path = table(tmp_path, [0.0, -1.0])
    with pytest.raises(DataError, match="no row can be used"):
        read_rows([path])

"""The device of a rocprofiler-compute run."""

from __future__ import annotations

from pathlib import Path

import pytest

from flopcast.readers.base import DataFile, Options
from flopcast.readers.rocprofiler_compute import device_in, read_system
from flopcast.remarks import remark


def row(model: str, arch: str, cus: str, partition: str = "SPX") -> dict[str, str]:
    return {"gpu_model": model, "gpu_arch": arch, "cu_per_gpu": cus, "compute_partition": partition}


@pytest.mark.parametrize(
    ("given", "device"),
    [
        (row("MI300X_A1", "gfx942", "304"), "MI300X"),
        (row("MI300A_A1", "gfx942", "228"), "MI300A"),
        (row("MI210", "gfx90a", "104", "NA"), "MI210"),
        ({"gpu_model": "MI300X_A1"}, "MI300X"),
    ],
)
def test_model_and_architecture_that_agree_need_no_remark(
    given: dict[str, str], device: str
) -> None:
    assert device_in(given) == (device, [])


def test_the_model_stands_before_a_count_of_units_that_it_cannot_have() -> None:
    device, [note] = device_in(row("MI300X_A1", "gfx942", "128"))
    assert device == "MI300X"
    assert note == remark(
        "gpu-model-contradicted", model="MI300X_A1", arch="gfx942", units=128, device="MI300X"
    )


def test_an_alias_is_a_note() -> None:
    device, [note] = device_in(row("MI350", "gfx950", "256"))
    assert (device, note) == ("MI350X", remark("gpu-model-read-as", model="MI350", device="MI350X"))


def test_a_series_is_told_by_architecture_and_units() -> None:
    device, [note] = device_in(row("MI200", "gfx90a", "104", "NA"))
    assert device == "MI210"
    assert (note.code, note.values["device"]) == ("gpu-model-series", "MI210")
    assert note.values["same"][0].startswith("MI250")


def test_a_device_that_nothing_tells_keeps_its_own_word() -> None:
    assert device_in(row("MI999", "gfx999", "7")) == ("MI999", [])
    assert device_in(row("", "gfx999", "7")) == ("gfx999 (7 CUs)", [])
    assert device_in({}) == ("", [])


def test_part_of_a_card_is_another_device() -> None:
    device, [note] = device_in(row("MI300X_A1", "gfx942", "38", "CPX"))
    assert device == "MI300X (CPX)"
    assert note == remark("card-split", partition="CPX", device="MI300X")


def test_a_model_never_names_a_file(tmp_path: Path) -> None:
    assert device_in({"gpu_model": str(tmp_path / "mine.toml")}) == (
        str(tmp_path / "mine.toml"),
        [],
    )


def test_the_line_is_read_with_quoted_commas_and_the_channels(tmp_path: Path) -> None:
    path = tmp_path / "sysinfo.csv"
    text = 'workload_name,command,gpu_model,gpu_arch,cu_per_gpu,total_l2_chan\nw,"./a -n 1,2",MI350,gfx950,128,16\n'
    path.write_text(text, encoding="utf-8")
    system = read_system(DataFile(path, "sysinfo.csv", True), Options())
    assert (system.device, system.channels) == ("MI350X", 16)
    assert [(note.code, note.values["file"]) for note in system.notes] == [
        ("gpu-model-contradicted", "sysinfo.csv")
    ]


def test_a_header_alone_says_nothing(tmp_path: Path) -> None:
    path = tmp_path / "sysinfo.csv"
    path.write_text("workload_name,command,gpu_model\n", encoding="utf-8")
    system = read_system(DataFile(path, "sysinfo.csv", True), Options())
    assert (system.device, system.channels, system.notes) == ("", None, ())

"""Devices by gfx id and compute units, and by name."""

from __future__ import annotations

from pathlib import Path

import pytest

from flopcast.hardware import all_gpus
from flopcast.readers.labels import canonical_device, device_of, known_gpu


@pytest.mark.parametrize(
    ("gfx", "cus", "device"),
    [
        ("gfx942", 304, "MI300X"),
        ("gfx942", 80, "MI308X"),
        ("gfx950", 256, "MI355X"),
        ("gfx950", None, "MI355X"),
        ("gfx90a", 104, "MI210"),
        ("gfx90a", 110, "MI250X (per GCD)"),
        ("gfx908", 120, "MI100"),
    ],
)
def test_known_devices(gfx: str, cus: int | None, device: str) -> None:
    assert device_of(gfx, cus)[0] == device


def test_a_guess_among_look_alikes_is_remarked() -> None:
    assert device_of("gfx942", 304)[1] == "gfx942 (304 CUs) is read as MI300X; MI325X would look the same"
    assert device_of("gfx908", 120)[1] == ""


@pytest.mark.parametrize(("stated", "device"), [("mi325x", "MI325X"), ("MI300X", "MI300X")])
def test_the_user_decides_between_look_alikes(stated: str, device: str) -> None:
    assert device_of("gfx942", 304, stated) == (device, "")
    assert device_of("gfx908", 120, stated) == ("MI100", "")
    assert device_of("gfx950", 256, stated)[1].startswith("gfx950 (256 CUs) is read as MI355X")


def test_a_device_that_nobody_knows_keeps_its_own_name() -> None:
    assert device_of("gfx1250", 96) == ("gfx1250 (96 CUs)", "")
    assert canonical_device("CPU-1T") == ("CPU-1T", "device 'CPU-1T' is not in the catalogue: kept under that name")


def test_a_device_named_like_a_file_is_not_opened(tmp_path: Path) -> None:
    own = tmp_path / "own.toml"
    own.write_text('name = "Mine"\nbased_on = "MI300X"\n')
    assert canonical_device(str(own))[0] == str(own)
    assert known_gpu(str(own)) is None
    gpu = known_gpu(str(own), stated=True)
    assert gpu is not None
    assert gpu.name == "Mine"


def test_a_word_that_is_no_gpu_is_none() -> None:
    assert known_gpu("") is known_gpu("CPU-1T") is known_gpu("CPU-1T", stated=True) is None


def test_words_become_the_name_of_the_catalogue() -> None:
    assert canonical_device("amd instinct mi300x vf") == ("MI300X", "")
    assert canonical_device("") == ("", "")
    names = [gpu.name for gpu in all_gpus()]
    assert [canonical_device(name) for name in names] == [(name, "") for name in names]

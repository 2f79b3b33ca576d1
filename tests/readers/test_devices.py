"""Devices by gfx id and compute units, and by name."""

from __future__ import annotations

from pathlib import Path

import pytest

from flopcast.hardware import all_gpus
from flopcast.readers.labels import UNKNOWN_DEVICE, canonical_device, device_of, gpu_of_word
from flopcast.remarks import remark


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
    assert device_of("gfx942", 304)[1] == remark(
        "device-by-gfx", gfx="gfx942", cus=304, device="MI300X", same=("MI325X",)
    )
    assert device_of("gfx908", 120)[1] is None


@pytest.mark.parametrize(("stated", "device"), [("mi325x", "MI325X"), ("MI300X", "MI300X")])
def test_the_user_decides_between_look_alikes(stated: str, device: str) -> None:
    assert device_of("gfx942", 304, stated) == (device, None)
    assert device_of("gfx908", 120, stated) == ("MI100", None)
    assumption = device_of("gfx950", 256, stated)[1]
    assert assumption is not None
    assert assumption.values["device"] == "MI355X"


def test_a_device_that_nobody_knows_keeps_its_own_name() -> None:
    assert device_of("gfx1250", 96) == ("gfx1250 (96 CUs)", None)
    assert canonical_device("CPU-1T") == ("CPU-1T", remark(UNKNOWN_DEVICE, device="CPU-1T"))


def test_a_device_named_like_a_file_is_not_opened(tmp_path: Path) -> None:
    own = tmp_path / "own.toml"
    own.write_text('name = "Mine"\nbased_on = "MI300X"\n')
    assert canonical_device(str(own))[0] == str(own)
    assert gpu_of_word(str(own)) is None
    gpu = gpu_of_word(str(own), stated=True)
    assert gpu is not None
    assert gpu.name == "Mine"


def test_a_word_that_is_no_gpu_is_none() -> None:
    assert gpu_of_word("") is gpu_of_word("CPU-1T") is gpu_of_word("CPU-1T", stated=True) is None


def test_words_become_the_name_of_the_catalogue() -> None:
    assert canonical_device("amd instinct mi300x vf") == ("MI300X", None)
    assert canonical_device("") == ("", None)
    names = [gpu.name for gpu in all_gpus()]
    assert [canonical_device(name) for name in names] == [(name, None) for name in names]

"""Which GPU is behind a number: names that are right, wrong, empty; numbers of CUDA and of ROCm."""

from __future__ import annotations

import pytest

from flopcast.readers.kineto.format import DeviceProperties
from flopcast.readers.kineto.kineto_reader import devices_of, is_rocm

GIB = 2**30


def amd(name: str, number: int = 0, minor: int = 4, units: int = 304, gib: float = 191.98) -> DeviceProperties:
    return DeviceProperties(number, name, int(gib * GIB), 9, minor, 64, units)


def nvidia(name: str, number: int = 0, major: int = 9, units: int = 132, gib: float = 79.2) -> DeviceProperties:
    return DeviceProperties(number, name, int(gib * GIB), major, 0, 32, units)


@pytest.mark.parametrize(
    ("device", "name", "remark"),
    [
        (amd("AMD Instinct MI300X VF"), "MI300X", ""),
        (amd(""), "MI300X", "device '', 304 compute units, 192 GiB is read as MI300X"),
        (amd("", gib=255.98), "MI325X", "device '', 304 compute units, 256 GiB is read as MI325X"),
        (
            amd("AMD Radeon Graphics", minor=0, units=104, gib=63.98), "MI210",
            "device 'AMD Radeon Graphics', 104 compute units, 64 GiB is read as MI210; MI250 (per GCD) would look the "
            "same",
        ),
        (
            amd("", minor=5, units=256, gib=287.98), "MI355X",
            "device '', 256 compute units, 288 GiB is read as MI355X; MI350X would look the same",
        ),
        (
            amd("AMD Instinct MI300X", units=38), "MI300X",
            "AMD Instinct MI300X has 38 compute units here, not 304: part of a GPU?",
        ),
        (amd("", units=77), "", ""),
        (nvidia("NVIDIA H100 80GB HBM3"), "H100 SXM5", ""),
        (nvidia(""), "H100 SXM5", "device '', 132 compute units, 79 GiB is read as H100 SXM5"),
        (nvidia("", gib=139.8), "H200 SXM", "device '', 132 compute units, 140 GiB is read as H200 SXM"),
        (nvidia("NVIDIA Imaginary"  , major=77), "NVIDIA Imaginary", ""),
        (nvidia("/etc/gpu.toml", major=77), "/etc/gpu.toml", ""),
    ],
)  # fmt: skip
def test_names(device: DeviceProperties, name: str, remark: str) -> None:
    found = devices_of([0], [device])[0]
    assert (found.name, found.remark) == (name, remark)


def test_cuda_numbers_are_those_of_the_properties() -> None:
    devices = [nvidia("NVIDIA H100 80GB HBM3", 0), nvidia("NVIDIA H200", 1, gib=139.8)]
    found = devices_of([1, 2], devices)
    assert {number: device.name for number, device in found.items()} == {1: "H200 SXM", 2: ""}


def test_rocm_numbers_count_the_cpus_too() -> None:
    same = [amd("AMD Instinct MI300X", number) for number in range(8)]
    assert devices_of([2], same)[2].name == "MI300X"
    assert devices_of([9], same[:1])[9].name == "MI300X"
    mixed = [amd("AMD Instinct MI300X", 0), amd("AMD Instinct MI210", 1, minor=0, units=104, gib=63.98)]
    assert [device.name for device in devices_of([3, 2], mixed).values()] == ["MI300X", "MI210"]
    assert devices_of([3], mixed)[3].name == ""  # nothing tells how many CPUs come first


def test_nothing_said_of_the_devices() -> None:
    assert devices_of([0], [])[0].name == ""
    assert not is_rocm([])

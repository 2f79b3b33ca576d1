"""Which GPU is behind a number: names that are right, wrong, empty; numbers of CUDA and of ROCm."""

from __future__ import annotations

import pytest

from flopcast.readers.kineto import devices_of, is_rocm
from flopcast.readers.kineto_events import DeviceProperties
from flopcast.remarks import Remark, remark

GIB = 2**30


def amd(
    name: str, number: int = 0, minor: int = 4, units: int = 304, gib: float = 191.98
) -> DeviceProperties:
    return DeviceProperties(number, name, int(gib * GIB), 9, minor, 64, units)


def nvidia(
    name: str, number: int = 0, major: int = 9, units: int = 132, gib: float = 79.2
) -> DeviceProperties:
    return DeviceProperties(number, name, int(gib * GIB), major, 0, 32, units)


def by_figures(word: str, units: int, memory_gib: float, device: str, *same: str) -> Remark:
    return remark(
        "device-by-figures", word=word, units=units, memory_gib=memory_gib, device=device, same=same
    )


@pytest.mark.parametrize(
    ("device", "name", "assumption"),
    [
        (amd("AMD Instinct MI300X VF"), "MI300X", None),
        (amd(""), "MI300X", by_figures("", 304, 192, "MI300X")),
        (amd("", gib=255.98), "MI325X", by_figures("", 304, 256, "MI325X")),
        (
            amd("AMD Radeon Graphics", minor=0, units=104, gib=63.98), "MI210",
            by_figures("AMD Radeon Graphics", 104, 64, "MI210", "MI250 (per GCD)"),
        ),
        (amd("", minor=5, units=256, gib=287.98), "MI355X", by_figures("", 256, 288, "MI355X", "MI350X")),
        (
            amd("AMD Instinct MI300X", units=38), "gfx942 (38 CUs)",
            remark(
                "other-compute-units", device="AMD Instinct MI300X", units=38, known=304, part="gfx942 (38 CUs)"
            ),
        ),
        (amd("", units=77), "", None),
        (nvidia("NVIDIA H100 80GB HBM3"), "H100 SXM5", None),
        (nvidia(""), "H100 SXM5", by_figures("", 132, 79.2, "H100 SXM5")),
        (nvidia("", gib=139.8), "H200 SXM", by_figures("", 132, 139.8, "H200 SXM")),
        (nvidia("NVIDIA Imaginary"  , major=77), "NVIDIA Imaginary", None),
        (nvidia("/etc/gpu.toml", major=77), "/etc/gpu.toml", None),
    ],
)  # fmt: skip
def test_names(device: DeviceProperties, name: str, assumption: Remark | None) -> None:
    found = devices_of([0], [device])[0]
    assert found.name == name
    assert (found.assumption is None) == (assumption is None)
    if found.assumption is not None and assumption is not None:
        told, expected = dict(found.assumption.items), dict(assumption.items)
        assert told.pop("memory_gib", 0) == pytest.approx(expected.pop("memory_gib", 0), abs=0.1)
        assert (found.assumption.code, told) == (assumption.code, expected)


def test_cuda_numbers_are_those_of_the_properties() -> None:
    devices = [nvidia("NVIDIA H100 80GB HBM3", 0), nvidia("NVIDIA H200", 1, gib=139.8)]
    found = devices_of([1, 2], devices)
    assert {number: device.name for number, device in found.items()} == {1: "H200 SXM", 2: ""}


def test_rocm_numbers_count_the_cpus_too() -> None:
    same = [amd("AMD Instinct MI300X", number) for number in range(8)]
    assert devices_of([2], same)[2].name == "MI300X"
    assert devices_of([9], same[:1])[9].name == "MI300X"
    mixed = [
        amd("AMD Instinct MI300X", 0),
        amd("AMD Instinct MI210", 1, minor=0, units=104, gib=63.98),
    ]
    assert [device.name for device in devices_of([3, 2], mixed).values()] == ["MI300X", "MI210"]
    assert devices_of([3], mixed)[3].name == ""  # nothing tells how many CPUs come first


def test_nothing_said_of_the_devices() -> None:
    assert devices_of([0], [])[0].name == ""
    assert not is_rocm([])

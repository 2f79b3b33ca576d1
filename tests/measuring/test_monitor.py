"""Readings of the vendors' tools, in the forms they are known to print."""

from __future__ import annotations

import json
import subprocess
from collections.abc import Sequence

import pytest

from flopcast.measuring import monitor as module
from flopcast.measuring.monitor import TOOLS, Monitor, gpu_reader, parse_amd, parse_nvidia, parse_rocm

FULL = {"clock_mhz": 2100.0, "power_w": 412.5, "temperature_c": 61.0}


@pytest.mark.parametrize(
    ("text", "found"),
    [
        ("2100, 412.5, 61\n", FULL),
        ("2100 MHz, 412.5 W, 61\n", FULL),
        ("2100, [N/A], [Not Supported]\n", {"clock_mhz": 2100.0}),
        ("", {}),
    ],
)
def test_nvidia_smi(text: str, found: dict[str, float]) -> None:
    assert parse_nvidia(text) == found


def amd(power: object, *, wrapped: bool = False) -> str:
    one = {
        "gpu": 0,
        "power": {"socket_power": power, "gfx_voltage": {"value": 800, "unit": "mV"}},
        "clock": {"gfx_0": {"clk": {"value": 2100, "unit": "MHz"}, "min_clk": {"value": 500, "unit": "MHz"}}},
        "temperature": {"edge": "N/A", "hotspot": {"value": 61, "unit": "C"}, "mem": {"value": 50, "unit": "C"}},
    }
    return json.dumps({"gpu_data": [one]} if wrapped else [one])


@pytest.mark.parametrize("wrapped", [False, True])
def test_amd_smi_of_several_releases(wrapped: bool) -> None:
    assert parse_amd(amd({"value": 412.5, "unit": "W"}, wrapped=wrapped)) == FULL
    assert parse_amd(amd("N/A", wrapped=wrapped)) == {"clock_mhz": 2100.0, "temperature_c": 61.0}


@pytest.mark.parametrize("key", ["Current Socket Graphics Package Power (W)", "Average Graphics Package Power (W)"])
def test_rocm_smi(key: str) -> None:
    card = {
        "Temperature (Sensor edge) (C)": "50.0",
        "Temperature (Sensor junction) (C)": "61.0",
        key: "412.5",
        "sclk clock speed:": "(2100Mhz)",
        "sclk clock level:": "1",
    }
    assert parse_rocm(json.dumps({"card0": card})) == FULL
    assert parse_rocm(json.dumps({"card0": {key: "N/A (Secondary die)"}})) == {}


def test_the_tool_is_asked_for_one_gpu() -> None:
    asked: list[Sequence[str]] = []

    def run(command: Sequence[str]) -> str:
        asked.append(command)
        return "2100, 412.5, 61\n"

    read = gpu_reader("nvidia", "GPU-1234", run)
    assert read is not None
    assert read() == FULL
    assert asked[0][0] == "nvidia-smi"
    assert asked[0][-2:] == ["-i", "GPU-1234"]


@pytest.mark.parametrize(
    "error", [OSError("gone"), subprocess.TimeoutExpired("amd-smi", 10), subprocess.CalledProcessError(1, "amd-smi")]
)
def test_a_tool_that_fails_tells_nothing(error: Exception) -> None:
    def run(command: Sequence[str]) -> str:
        raise error

    read = gpu_reader("amd", "0", run)
    assert read is not None
    assert read() == {}


def test_output_that_is_not_what_it_should_be_tells_nothing() -> None:
    read = gpu_reader("amd", "0", lambda command: "usage: amd-smi")
    assert read is not None
    assert read() == {}


def test_without_a_tool_there_is_no_reader(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module.shutil, "which", lambda name: None)
    assert {vendor: gpu_reader(vendor, "0") for vendor in TOOLS} == {"nvidia": None, "amd": None}


def test_readings_are_some_seconds_apart() -> None:
    now, count = [0.0], []

    def read() -> dict[str, float]:
        count.append(1)
        return {"power_w": 100.0}

    watched = Monitor(read, every_seconds=5, clock=lambda: now[0])
    found = []
    for now[0] in (0.0, 1.0, 4.9, 5.0, 9.0):
        found.append(bool(watched.reading()))
    assert found == [True, False, False, True, False]
    assert len(count) == 2
    assert Monitor(None).reading() == {}


def test_a_cpu_tells_its_clock_or_nothing(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "clock_mhz", lambda: 2600.0)
    assert module.cpu_reading() == {"clock_mhz": 2600.0}
    monkeypatch.setattr(module, "clock_mhz", lambda: None)
    assert module.cpu_reading() == {}

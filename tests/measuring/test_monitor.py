"""Readings of the vendors' tools, in the forms they are known to print."""

from __future__ import annotations

import json
import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path

import pytest

from flopcast.measuring import monitor as module
from flopcast.measuring.monitor import TOOLS, Busy, Monitor, gpu_reader, output_of, parse_reading


def nothing() -> None:
    """Keep nothing busy."""


NVIDIA = "clocks.current.sm [MHz], temperature.gpu, power.draw [W]\n2100 MHz, 61, 412.50 W\n"
FULL = {"clock_mhz": 2100.0, "power_w": 412.5, "temperature_c": 61.0}


@pytest.mark.parametrize(
    ("text", "found"),
    [
        ("2100 MHz, 61, 412.50 W, 390.00 W", FULL),
        ("2100 MHz, 61, [N/A], 412.50 W", FULL),
        ("2100 MHz, [N/A], [Not Supported], [N/A]", {"clock_mhz": 2100.0}),
    ],
)
def test_nvidia_smi(text: str, found: dict[str, float]) -> None:
    header = "clocks.current.sm [MHz], temperature.gpu, power.draw.instant [W], power.draw [W]"
    assert parse_reading(f"{header}\n{text}\n") == found


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
    assert parse_reading(amd({"value": 412.5, "unit": "W"}, wrapped=wrapped)) == FULL
    assert parse_reading(amd("N/A", wrapped=wrapped)) == {"clock_mhz": 2100.0, "temperature_c": 61.0}


@pytest.mark.parametrize("key", ["Current Socket Graphics Package Power (W)", "Average Graphics Package Power (W)"])
def test_rocm_smi(key: str) -> None:
    card = {
        "Temperature (Sensor edge) (C)": "50.0",
        "Temperature (Sensor junction) (C)": "61.0",
        key: "412.5",
        "sclk clock speed:": "(2100Mhz)",
        "sclk clock level:": "1",
    }
    assert parse_reading(json.dumps({"card0": card})) == FULL
    assert parse_reading(json.dumps({"card0": {key: "N/A (Secondary die)"}})) == {}


def test_the_tool_is_asked_for_one_gpu() -> None:
    asked: list[Sequence[str]] = []

    def run(command: Sequence[str], busy: Busy) -> str:
        asked.append(command)
        return NVIDIA

    read = gpu_reader("nvidia", "GPU-1234", run)
    assert read is not None
    assert read(nothing) == FULL
    assert asked[0][0] == "nvidia-smi"
    assert asked[0][-2:] == ["-i", "GPU-1234"]


def test_a_tool_that_does_not_know_a_field_is_asked_without_it_and_not_asked_again() -> None:
    asked: list[str] = []

    def run(command: Sequence[str], busy: Busy) -> str:
        asked.append(command[1])
        if "instant" in command[1]:
            raise subprocess.CalledProcessError(2, "nvidia-smi")
        return NVIDIA

    read = gpu_reader("nvidia", "GPU-1234", run)
    assert read is not None
    assert [read(nothing), read(nothing)] == [FULL, FULL]
    assert ["instant" in query for query in asked] == [True, False, False]


def test_the_device_is_busy_until_the_tool_has_answered(tmp_path: Path) -> None:
    go, count = tmp_path / "go", [0]

    def busy() -> None:
        count[0] += 1
        if count[0] == 3:
            go.touch()

    waits = f"import os, time\nwhile not os.path.exists({str(go)!r}): time.sleep(0.01)\nprint('x' * 10**5)"
    assert output_of([sys.executable, "-c", waits], busy).strip() == "x" * 10**5
    assert count[0] >= 3


def test_a_program_that_fails_or_never_ends_is_an_error() -> None:
    with pytest.raises(subprocess.CalledProcessError):
        output_of([sys.executable, "-c", "raise SystemExit(3)"], nothing)
    with pytest.raises(subprocess.TimeoutExpired):
        output_of([sys.executable, "-c", "import time; time.sleep(60)"], nothing, patience_seconds=0.0)


def test_an_error_of_the_device_is_not_the_tools() -> None:
    def busy() -> None:
        raise RuntimeError("CUDA error")

    with pytest.raises(RuntimeError, match="CUDA error"):
        output_of([sys.executable, "-c", "import time; time.sleep(60)"], busy)


@pytest.mark.parametrize(
    "error", [OSError("gone"), subprocess.TimeoutExpired("amd-smi", 10), subprocess.CalledProcessError(1, "amd-smi")]
)
def test_a_tool_that_fails_tells_nothing(error: Exception) -> None:
    def run(command: Sequence[str], busy: Busy) -> str:
        raise error

    read = gpu_reader("amd", "0", run)
    assert read is not None
    assert [read(nothing), read(nothing)] == [{}, {}]


def test_output_that_is_not_what_it_should_be_tells_nothing() -> None:
    read = gpu_reader("amd", "0", lambda command, busy: "usage: amd-smi")
    assert read is not None
    assert read(nothing) == {}


def test_without_a_tool_there_is_no_reader(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module.shutil, "which", lambda name: None)
    assert {vendor: gpu_reader(vendor, "0") for vendor in TOOLS} == {"nvidia": None, "amd": None}


def test_readings_are_some_seconds_apart() -> None:
    now, count = [0.0], []

    def read(busy: Busy) -> dict[str, float]:
        count.append(1)
        return {"power_w": 100.0}

    watched = Monitor(read, every_seconds=5, clock=lambda: now[0])
    found = []
    for now[0] in (0.0, 1.0, 4.9, 5.0, 9.0):
        found.append(bool(watched.reading(nothing)))
    assert found == [True, False, False, True, False]
    assert len(count) == 2
    assert Monitor(None).reading(nothing) == {}


def test_a_cpu_tells_its_clock_or_nothing(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "clock_mhz", lambda: 2600.0)
    assert module.cpu_reading(nothing) == {"clock_mhz": 2600.0}
    monkeypatch.setattr(module, "clock_mhz", lambda: None)
    assert module.cpu_reading(nothing) == {}

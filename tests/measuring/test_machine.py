"""Provenance of a measurement."""

from __future__ import annotations

import json
import subprocess
import sys
import time
from collections.abc import Sequence
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from flopcast import __version__
from flopcast.measuring import machine as module
from flopcast.measuring.backend import Backend, Device
from flopcast.measuring.machine import (
    TOOLS,
    Busy,
    Monitor,
    environment,
    gpu_reader,
    machine,
    monitor,
    output_of,
    parse_reading,
    smi_id,
    vendor,
)
from flopcast.workers import cpu_model

TIMER: Any = SimpleNamespace(cost_us=0.04)
VARIABLES = ("CUDA_VISIBLE_DEVICES", "HIP_VISIBLE_DEVICES", "ROCR_VISIBLE_DEVICES")


def nothing() -> None:
    """Keep nothing busy."""


def gpu(hip: str | None, uuid: str | None = None) -> Any:
    properties = SimpleNamespace(multi_processor_count=304, total_memory=192 * 2**30)
    # PyTorch gives CUDA's GPUs their name there
    properties.gcnArchName = "gfx942" if hip else "Some GPU"
    if uuid:
        properties.uuid = uuid
    cuda = SimpleNamespace(
        get_device_properties=lambda index: properties, get_device_capability=lambda index: (9, 0)
    )
    cpu = SimpleNamespace(get_cpu_capability=lambda: "AVX512")
    torch = SimpleNamespace(
        cuda=cuda,
        version=SimpleNamespace(hip=hip, cuda=None if hip else "12.8"),
        backends=SimpleNamespace(cpu=cpu),
        __version__="9.9",
    )
    return SimpleNamespace(torch=torch, is_gpu=True, index=1, gpu_name="Some GPU")


def test_a_cpu_in_json_types(torch: Any) -> None:
    devices = [Device("CPU-1T", 1), Device("CPU-2T", 2)]
    found = environment(
        Backend(torch, "cpu"),
        devices,
        TIMER,
        seed=3,
        date="2026-01-02",
        command=["flopcast", "a b"],
    )
    assert json.loads(json.dumps(found)) == found
    assert (found["date"], found["seed"], found["command"]) == ("2026-01-02", 3, "flopcast 'a b'")
    assert (found["devices"], found["threads"]) == (["CPU-1T", "CPU-2T"], [1, 2])
    assert (found["torch"], found["flopcast"]) == (torch.__version__, __version__)
    assert found["clock"] == {"kind": "perf_counter", "cost_us": 0.04}
    assert {"cpu", "logical_cpus", "caches_bytes", "python", "isa", "system"} <= set(found)
    assert "gpu" not in found


def test_what_must_stay_the_same_when_a_measurement_is_resumed(torch: Any) -> None:
    assert machine(Backend(torch, "cpu")) == {"cpu": cpu_model(), "torch": torch.__version__}
    assert machine(gpu(None)) == {"cpu": cpu_model(), "gpu": "Some GPU", "torch": "9.9"}


def test_the_date_is_today_unless_stated(torch: Any) -> None:
    days = time.strftime("%Y-%m-%d")
    found = environment(Backend(torch, "cpu"), [Device("CPU-1T", 1)], TIMER, seed=0)["date"]
    assert found in (days, time.strftime("%Y-%m-%d"))


@pytest.mark.parametrize(
    ("hip", "arch", "maker"), [("6.4", "gfx942", "amd"), (None, "sm_90", "nvidia")]
)
def test_a_gpu_with_its_driver_and_versions(
    hip: str | None, arch: str, maker: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(
        module, "gpu_reader", lambda whose, which: lambda busy: {"power_w": 90.0, "whose": whose}
    )
    backend = gpu(hip, "1234")
    found = environment(backend, [Device("Some GPU")], TIMER, seed=0)
    assert vendor(backend.torch) == maker
    assert (found["gpu"], found["arch"], found["compute_units"]) == ("Some GPU", arch, 304)
    assert (found["rocm"], found["cuda"]) == (hip, None if hip else "12.8")
    assert found["idle"] == {"power_w": 90.0, "whose": maker}
    assert found["clock"]["kind"] == "events"
    assert found["threads"] is None
    assert monitor(backend).reading(nothing)["power_w"] == 90.0


def test_how_the_tools_know_a_gpu(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in VARIABLES:
        monkeypatch.delenv(name, raising=False)
    assert smi_id(gpu(None, "12-34")) == "GPU-12-34"
    assert smi_id(gpu("6.4", "12-34")) == "1"
    monkeypatch.setenv("HIP_VISIBLE_DEVICES", "3,4")
    assert smi_id(gpu("6.4")) is None
    assert monitor(gpu("6.4")).reading(nothing) == {}
    assert environment(gpu("6.4"), [Device("Some GPU")], TIMER, seed=0)["idle"] is None


def test_a_cpu_is_watched_by_the_systems_clock(torch: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "cpu_reading", lambda busy: {"clock_mhz": 2600.0})
    assert monitor(Backend(torch, "cpu")).reading(nothing) == {"clock_mhz": 2600.0}


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
        "clock": {
            "gfx_0": {
                "clk": {"value": 2100, "unit": "MHz"},
                "min_clk": {"value": 500, "unit": "MHz"},
            }
        },
        "temperature": {
            "edge": "N/A",
            "hotspot": {"value": 61, "unit": "C"},
            "mem": {"value": 50, "unit": "C"},
        },
    }
    return json.dumps({"gpu_data": [one]} if wrapped else [one])


@pytest.mark.parametrize("wrapped", [False, True])
def test_amd_smi_of_several_releases(wrapped: bool) -> None:
    assert parse_reading(amd({"value": 412.5, "unit": "W"}, wrapped=wrapped)) == FULL
    assert parse_reading(amd("N/A", wrapped=wrapped)) == {
        "clock_mhz": 2100.0,
        "temperature_c": 61.0,
    }


@pytest.mark.parametrize(
    "key", ["Current Socket Graphics Package Power (W)", "Average Graphics Package Power (W)"]
)
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
        output_of(
            [sys.executable, "-c", "import time; time.sleep(60)"], nothing, patience_seconds=0.0
        )


def test_an_error_of_the_device_is_not_the_tools() -> None:
    def busy() -> None:
        raise RuntimeError("CUDA error")

    with pytest.raises(RuntimeError, match="CUDA error"):
        output_of([sys.executable, "-c", "import time; time.sleep(60)"], busy)


@pytest.mark.parametrize(
    "error",
    [
        OSError("gone"),
        subprocess.TimeoutExpired("amd-smi", 10),
        subprocess.CalledProcessError(1, "amd-smi"),
    ],
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

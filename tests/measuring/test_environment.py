"""Provenance of a measurement."""

from __future__ import annotations

import json
import time
from types import SimpleNamespace
from typing import Any

import pytest

from flopcast import __version__
from flopcast.measuring import environment as module
from flopcast.measuring.backend import Backend, Device, cpu_model
from flopcast.measuring.environment import environment, machine, monitor, smi_id, vendor

TIMER: Any = SimpleNamespace(cost_us=0.04)
VARIABLES = ("CUDA_VISIBLE_DEVICES", "HIP_VISIBLE_DEVICES", "ROCR_VISIBLE_DEVICES")


def nothing() -> None:
    """Keep nothing busy."""


def gpu(hip: str | None, uuid: str | None = None) -> Any:
    properties = SimpleNamespace(multi_processor_count=304, total_memory=192 * 2**30)
    properties.gcnArchName = "gfx942" if hip else "Some GPU"  # PyTorch gives CUDA's GPUs their name there
    if uuid:
        properties.uuid = uuid
    cuda = SimpleNamespace(get_device_properties=lambda index: properties, get_device_capability=lambda index: (9, 0))
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
    found = environment(Backend(torch, "cpu"), devices, TIMER, seed=3, date="2026-01-02", command=["flopcast", "a b"])
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


@pytest.mark.parametrize(("hip", "arch", "maker"), [("6.4", "gfx942", "amd"), (None, "sm_90", "nvidia")])
def test_a_gpu_with_its_driver_and_versions(
    hip: str | None, arch: str, maker: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(module, "gpu_reader", lambda whose, which: lambda busy: {"power_w": 90.0, "whose": whose})
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

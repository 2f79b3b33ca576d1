"""Provenance: the machine, the versions and the protocol, as JSON types beside the table."""

from __future__ import annotations

import os
import platform
import shlex
import sys
import time
from collections.abc import Sequence
from functools import partial
from typing import Any

from .. import __version__
from .backend import Backend, Device, cache_sizes, cpu_model, governor
from .monitor import Monitor, Read, cpu_reading, gpu_reader
from .timing import Timer

_IDLE_SECONDS = 0.01
"""Between two looks whether the tool that reads an idle GPU has ended."""
_VISIBLE = ("CUDA_VISIBLE_DEVICES", "HIP_VISIBLE_DEVICES", "ROCR_VISIBLE_DEVICES")


def environment(
    backend: Backend,
    devices: Sequence[Device],
    timer: Timer,
    *,
    seed: int,
    date: str | None = None,
    command: Sequence[str] | None = None,
) -> dict[str, Any]:
    """Return the machine, the versions and the clock, under the keys of ``measured.json``.

    Parameters
    ----------
    backend : Backend
    devices : sequence of Device
    timer : Timer
    seed : int
    date : str, optional
        Of the measurement, ISO 8601; today by default.
    command : sequence of str, optional
        The command line; that of this process by default.
    """
    torch = backend.torch
    found: dict[str, Any] = {
        "date": date or time.strftime("%Y-%m-%d"),
        "command": shlex.join(sys.argv if command is None else command),
        "flopcast": __version__,
        "seed": seed,
        "devices": [device.name for device in devices],
        "cpu": cpu_model(),
        "logical_cpus": os.cpu_count(),
        "caches_bytes": cache_sizes(),
        "governor": governor() or None,
        "system": f"{platform.system()} {platform.release()}",
        "python": platform.python_version(),
        "torch": str(torch.__version__),
        "isa": torch.backends.cpu.get_cpu_capability(),
        "threads": [device.threads for device in devices if device.threads] or None,
        "clock": {"kind": "events" if backend.is_gpu else "perf_counter", "cost_us": round(timer.cost_us, 4)},
    }
    return found | (_gpu(backend) if backend.is_gpu else {})


def machine(backend: Backend) -> dict[str, str]:
    """Return what must stay the same for two measurements to be parts of one: processor, GPU, version of PyTorch."""
    gpu = {"gpu": backend.gpu_name} if backend.is_gpu else {}
    return {"cpu": cpu_model(), **gpu, "torch": str(backend.torch.__version__)}


def monitor(backend: Backend) -> Monitor:
    """Return what reads clock, power and temperature of the device."""
    return Monitor(_gpu_reader(backend) if backend.is_gpu else cpu_reading)


def vendor(torch: Any) -> str:
    """Return whose GPUs this PyTorch drives."""
    return "amd" if getattr(torch.version, "hip", None) else "nvidia"


def _gpu(backend: Backend) -> dict[str, Any]:
    torch = backend.torch
    properties = torch.cuda.get_device_properties(backend.index)
    major, minor = torch.cuda.get_device_capability(backend.index)
    found = {
        "gpu": backend.gpu_name,
        "compute_units": int(properties.multi_processor_count),
        "memory_bytes": int(properties.total_memory),
        "arch": str(properties.gcnArchName) if vendor(torch) == "amd" else f"sm_{major}{minor}",
        "cuda": getattr(torch.version, "cuda", None),
        "rocm": getattr(torch.version, "hip", None),
        "driver": _driver(torch),
    }
    reader = _gpu_reader(backend)
    return found | {"idle": reader(partial(time.sleep, _IDLE_SECONDS)) if reader else None}


def _driver(torch: Any) -> str | None:
    """Return the version of the kernel driver; None where it does not tell."""
    path = "/sys/module/amdgpu/version" if vendor(torch) == "amd" else "/sys/module/nvidia/version"
    try:
        with open(path, encoding="utf-8") as file:
            return file.read().strip()
    except OSError:
        return None


def _gpu_reader(backend: Backend) -> Read | None:
    identifier = smi_id(backend)
    return None if identifier is None else gpu_reader(vendor(backend.torch), identifier)


def smi_id(backend: Backend, variables: Sequence[str] = _VISIBLE) -> str | None:
    """Return how the vendor's tools know the GPU; None where that cannot be told.

    NVIDIA: the UUID. AMD: the number, unless the environment hides GPUs, which renumbers those PyTorch sees.
    """
    properties = backend.torch.cuda.get_device_properties(backend.index)
    uuid = getattr(properties, "uuid", None)
    if vendor(backend.torch) == "nvidia" and uuid is not None:
        return f"GPU-{uuid}"
    return None if any(os.environ.get(name) for name in variables) else str(backend.index)

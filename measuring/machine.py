"""The machine: what it is, for the provenance, and its clock, power and temperature while kernels run.

These come from nvidia-smi, amd-smi or rocm-smi, from the system for a CPU. A reading costs a
process, so there is one every few seconds at most, after a visit. Until the tool has answered the
visit's call goes on, its times discarded: a GPU that is left alone is back at its idle power and
clock before the tool has started. What a tool does not tell is missing.
"""

from __future__ import annotations

import os
import platform
import shlex
import shutil
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any

import pandas as pd

from .. import __version__
from ..errors import DataError
from ..power.logs import power_log
from ..workers import cpu_model
from .backend import Backend, Device, cache_sizes, clock_mhz, governor
from .timing import Timer

# what a reading holds, as columns of the measurement table
STATE = (
    "clock_mhz",
    "power_w",
    "temperature_c",
)
EVERY_SECONDS = 5.0
_PATIENCE_SECONDS = 10.0
Reading = dict[str, float]
# keeps the device busy for a moment; called again and again while a reading is taken
Busy = Callable[[], object]
Read = Callable[[Busy], Reading]
Run = Callable[[Sequence[str], Busy], str]
_IDLE_SECONDS = 0.01  # between two looks whether the tool that reads an idle GPU has ended
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
    """Return the machine, the versions and the clock, under the keys of the JSON beside a measured table.

    The date is ISO 8601; today and the command line of this process by default.
    """
    torch = backend.torch
    kind = "perf_counter"
    if backend.is_gpu:
        kind = "events"
    facts: dict[str, Any] = {
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
        "clock": {"kind": kind, "cost_us": round(timer.cost_us, 4)},
    }
    if not backend.is_gpu:
        return facts
    properties = torch.cuda.get_device_properties(backend.index)
    major, minor = torch.cuda.get_device_capability(backend.index)
    amd = vendor(torch) == "amd"
    reader = _gpu_reader(backend)
    try:
        with open(f"/sys/module/{'amdgpu' if amd else 'nvidia'}/version", encoding="utf-8") as file:
            driver = file.read().strip()
    except OSError:
        driver = None
    if amd:
        arch = str(properties.gcnArchName)
    else:
        arch = f"sm_{major}{minor}"
    return facts | {
        "gpu": backend.gpu_name,
        "compute_units": int(properties.multi_processor_count),
        "memory_bytes": int(properties.total_memory),
        "arch": arch,
        "cuda": getattr(torch.version, "cuda", None),
        "rocm": getattr(torch.version, "hip", None),
        "driver": driver,
        "idle": reader and reader(partial(time.sleep, _IDLE_SECONDS)),
    }


def machine(backend: Backend) -> dict[str, str]:
    """Return what two parts of one measurement must share: processor, GPU, version of PyTorch."""
    if backend.is_gpu:
        gpu = {"gpu": backend.gpu_name}
    else:
        gpu = {}
    return {"cpu": cpu_model(), **gpu, "torch": str(backend.torch.__version__)}


def monitor(backend: Backend) -> Monitor:
    """Return a reader of the device's clock, power and temperature."""
    return Monitor(_gpu_reader(backend) if backend.is_gpu else cpu_reading)


def vendor(torch: Any) -> str:
    """Return the vendor of the GPUs that this PyTorch drives."""
    if getattr(torch.version, "hip", None):
        return "amd"
    return "nvidia"


def _gpu_reader(backend: Backend) -> Read | None:
    identifier = smi_id(backend)
    if identifier is None:
        return None
    return gpu_reader(vendor(backend.torch), identifier)


def smi_id(backend: Backend) -> str | None:
    """Return the GPU's identifier in the vendor's tools; None if unknown.

    NVIDIA: the UUID. AMD: the number, unless the environment hides GPUs, which renumbers those
    PyTorch sees.
    """
    properties = backend.torch.cuda.get_device_properties(backend.index)
    uuid = getattr(properties, "uuid", None)
    if vendor(backend.torch) == "nvidia" and uuid is not None:
        return f"GPU-{uuid}"
    if any(os.environ.get(name) for name in _VISIBLE):
        return None
    return str(backend.index)


@dataclass(frozen=True)
class Tool:
    """A vendor's tool: the program, and its arguments for one GPU, whose identifier replaces ``{gpu}``."""

    name: str
    arguments: tuple[str, ...]

    def command(self, gpu: str) -> list[str]:
        """Return program and arguments."""
        return [self.name, *(argument.replace("{gpu}", gpu) for argument in self.arguments)]


class Monitor:
    """Readings of one device, the last one kept while it is fresh: at least `every_seconds` lie between two.

    `read` takes a reading while it keeps the device busy; None: nothing tells.
    """

    def __init__(
        self,
        read: Read | None,
        every_seconds: float = EVERY_SECONDS,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self._read = read
        self._every = every_seconds
        self._clock = clock
        self._next = -float("inf")

    def reading(self, busy: Busy) -> Reading:
        """Return a new reading under the load of `busy`; {} if the last one is fresh or no tool reports."""
        if self._read is None or self._clock() < self._next:
            return {}
        reading = self._read(busy)
        self._next = self._clock() + self._every
        return reading


def cpu_reading(busy: Busy) -> Reading:
    """Return the CPU's clock, {} where the system hides it; a reading too quick to need `busy`."""
    clock = clock_mhz()
    if clock is None:
        return {}
    return {"clock_mhz": clock}


def gpu_reader(vendor: str, gpu: str, run: Run | None = None) -> Read | None:
    """Return a reader by the first of the vendor's tools that is installed and answers; None without one.

    The tools know the GPU by NVIDIA's UUID, by the PCI address or the number of AMD's. `run`, from
    a command to its output, takes the place of a process.
    """
    tools = [tool for tool in TOOLS[vendor] if run or shutil.which(tool.name)]
    start = run or output_of

    def read(busy: Busy) -> Reading:
        while tools:
            try:
                return parse_reading(start(tools[0].command(gpu), busy))
            except (OSError, subprocess.SubprocessError, DataError):
                del tools[0]
        return {}

    if tools:
        return read
    return None


def output_of(
    command: Sequence[str], busy: Busy, patience_seconds: float = _PATIENCE_SECONDS
) -> str:
    """Return what a program prints, keeping the device busy until it has ended.

    Raises OSError, SubprocessError: it cannot be started, fails, or takes too long.
    """
    # a pipe is full when nobody reads it
    with tempfile.TemporaryFile("w+", encoding="utf-8") as printed:
        process = subprocess.Popen(command, stdout=printed, stderr=subprocess.DEVNULL)
        started = time.monotonic()
        try:
            while process.poll() is None:
                if time.monotonic() - started > patience_seconds:
                    raise subprocess.TimeoutExpired(command, patience_seconds)
                busy()
        finally:
            process.kill()  # does nothing to one that has ended
            process.wait()
        if process.returncode:
            raise subprocess.CalledProcessError(process.returncode, command)
        printed.seek(0)
        return printed.read()


def parse_reading(printed: str) -> Reading:
    """Return a tool's readings of one GPU, without those it does not report.

    Raises DataError: the output is none of those that `power_log` knows.
    """
    reading = power_log(printed, "reading", powerless=True).iloc[0]
    return {
        name: float(reading[name]) for name in STATE if name in reading and pd.notna(reading[name])
    }


_QUERY = "--query-gpu=clocks.sm,temperature.gpu,"
_LINES = ("--format=csv", "-i", "{gpu}")
TOOLS = {
    "nvidia": (
        Tool("nvidia-smi", (f"{_QUERY}power.draw.instant,power.draw", *_LINES)),
        Tool("nvidia-smi", (f"{_QUERY}power.draw", *_LINES)),
    ),
    "amd": (
        Tool("amd-smi", ("metric", "-g", "{gpu}", "--power", "--clock", "--temperature", "--json")),
        Tool("rocm-smi", ("-d", "{gpu}", "--showclocks", "--showpower", "--showtemp", "--json")),
    ),
}
"""The tools of each vendor, the newer first (formats of CUDA 12, before and since release 525; ROCm 5 to 7)."""

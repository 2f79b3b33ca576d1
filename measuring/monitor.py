"""Clock, power and temperature while kernels run: from nvidia-smi, amd-smi or rocm-smi, from the system for a CPU.

A reading costs a process, so there is one every few seconds at most, after a visit. Until the tool has answered the
visit's call goes on, its times discarded: a GPU that is left alone is back at its idle power and clock before the tool
has started. What a tool does not tell is missing.
"""

from __future__ import annotations

import json
import re
import shutil
import subprocess
import tempfile
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from .processor import clock_mhz

STATE = ("clock_mhz", "power_w", "temperature_c")
"""What a reading holds, as columns of the measurement table."""
EVERY_SECONDS = 5.0
_PATIENCE_SECONDS = 10.0

Reading = dict[str, float]
Busy = Callable[[], object]
"""Keeps the device busy for a moment; called again and again while a reading is taken."""
Read = Callable[[Busy], Reading]
Run = Callable[[Sequence[str], Busy], str]


@dataclass(frozen=True)
class Tool:
    """A vendor's tool.

    Attributes
    ----------
    name : str
        The program.
    arguments : tuple of str
        For one GPU, whose identifier replaces ``{gpu}``.
    parse : callable
        From its output to a reading.
    """

    name: str
    arguments: tuple[str, ...]
    parse: Callable[[str], Reading]

    def command(self, gpu: str) -> list[str]:
        """Return program and arguments."""
        return [self.name, *(argument.replace("{gpu}", gpu) for argument in self.arguments)]


class Monitor:
    """Readings of one device, the last one kept while it is fresh.

    Parameters
    ----------
    read : callable or None
        Takes a reading while it keeps the device busy; None: nothing tells.
    every_seconds : float
        Least time between two.
    """

    def __init__(
        self,
        read: Read | None,
        every_seconds: float = EVERY_SECONDS,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self._read, self._every, self._clock = read, every_seconds, clock
        self._next = -float("inf")

    def reading(self, busy: Busy) -> Reading:
        """Return a new reading under the load of `busy`, {} before its time or where nothing tells."""
        if self._read is None or self._clock() < self._next:
            return {}
        found = self._read(busy)
        self._next = self._clock() + self._every
        return found


def cpu_reading(busy: Busy) -> Reading:
    """Return the CPU's clock, {} where the system does not tell; too quick a reading to need `busy`."""
    clock = clock_mhz()
    return {} if clock is None else {"clock_mhz": clock}


def gpu_reader(vendor: str, gpu: str, run: Run | None = None) -> Read | None:
    """Return what reads a GPU with the first of its vendor's tools that is installed and answers; None without one.

    Parameters
    ----------
    vendor : {"nvidia", "amd"}
    gpu : str
        How the tools know the GPU: NVIDIA's UUID, the PCI address or the number of AMD's.
    run : callable, optional
        From a command to its output, in place of a process.
    """
    tools = [tool for tool in TOOLS[vendor] if run or shutil.which(tool.name)]
    start = run or output_of

    def read(busy: Busy) -> Reading:
        while tools:
            try:
                return tools[0].parse(start(tools[0].command(gpu), busy))
            except (OSError, subprocess.SubprocessError, ValueError):
                del tools[0]
        return {}

    return read if tools else None


def output_of(command: Sequence[str], busy: Busy, patience_seconds: float = _PATIENCE_SECONDS) -> str:
    """Return what a program prints, keeping the device busy until it has ended.

    Raises
    ------
    OSError, SubprocessError
        It cannot be started, fails, or takes too long.
    """
    with tempfile.TemporaryFile("w+", encoding="utf-8") as printed:  # a pipe is full when nobody reads it
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


def parse_nvidia(text: str) -> Reading:
    """Read nvidia-smi's line of clock, temperature and power, of several powers the first that is told.

    ``power.draw.instant`` is that of the moment; ``power.draw`` is, on most GPUs since Ampere, the mean of a second.
    Cells may be ``[N/A]``.
    """
    cells = [cell.strip() for cell in text.strip().splitlines()[0].split(",")] if text.strip() else []
    powers = [cell for cell in cells[2:] if _number(cell) is not None]
    return _numbers(dict(zip(_NVIDIA, [*cells[:2], *powers], strict=False)))


def parse_amd(text: str) -> Reading:
    """Read the JSON of ``amd-smi metric``: a list, or under ``gpu_data`` (ROCm 7); values with units or ``N/A``."""
    found: dict[str, Any] = {}
    for path, value in _leaves(json.loads(text)):
        for name, pattern in _AMD.items():
            if name not in found and re.search(pattern, path) and _number(value) is not None:
                found[name] = value
    return _numbers(found)


def parse_rocm(text: str) -> Reading:
    """Read the JSON of ``rocm-smi --showclocks --showpower --showtemp``: strings, units in the keys or the values."""
    found: dict[str, Any] = {}
    for path, value in _leaves(json.loads(text)):
        for name, pattern in _ROCM.items():
            if name not in found and re.search(pattern, path) and _number(value) is not None:
                found[name] = value
    return _numbers(found)


_AMD = {
    "clock_mhz": r"clock/gfx(_0)?/(clk|cur_clk)(/value)?$",
    "power_w": r"power/(socket_power|current_socket_power|average_socket_power)(/value)?$",
    "temperature_c": r"temperature/(hotspot|junction)(/value)?$",
}
_ROCM = {
    "clock_mhz": r"sclk clock speed",
    "power_w": r"Socket Graphics Package Power|Average Graphics Package Power",
    "temperature_c": r"Temperature \(Sensor junction\)",
}
_NVIDIA = ("clock_mhz", "temperature_c", "power_w")
_QUERY, _LINES = "--query-gpu=clocks.sm,temperature.gpu,", ("--format=csv,noheader,nounits", "-i", "{gpu}")
TOOLS = {
    "nvidia": (
        Tool("nvidia-smi", (f"{_QUERY}power.draw.instant,power.draw", *_LINES), parse_nvidia),
        Tool("nvidia-smi", (f"{_QUERY}power.draw", *_LINES), parse_nvidia),
    ),
    "amd": (
        Tool("amd-smi", ("metric", "-g", "{gpu}", "--power", "--clock", "--temperature", "--json"), parse_amd),
        Tool("rocm-smi", ("-d", "{gpu}", "--showclocks", "--showpower", "--showtemp", "--json"), parse_rocm),
    ),
}
"""The tools of each vendor, the newer first (formats of CUDA 12, before and since release 525; ROCm 5 to 7)."""


def _leaves(value: Any, path: str = "") -> Iterator[tuple[str, Any]]:
    if isinstance(value, Mapping):
        for key, inner in value.items():
            yield from _leaves(inner, f"{path}/{key}" if path else str(key))
    elif isinstance(value, list):
        for inner in value:
            yield from _leaves(inner, path)
    else:
        yield path, value


def _number(value: Any) -> float | None:
    found = re.search(r"-?\d+(?:\.\d+)?", str(value)) if not isinstance(value, bool) else None
    return float(found[0]) if found else None


def _numbers(cells: Mapping[str, Any]) -> Reading:
    return {name: number for name, value in cells.items() if (number := _number(value)) is not None}

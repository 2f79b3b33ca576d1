"""Clock, power and temperature while kernels run: from nvidia-smi, amd-smi or rocm-smi, from the system for a CPU.

A reading costs a process, so there is one every few seconds at most, taken between two rows. What a tool does not
tell is missing.
"""

from __future__ import annotations

import json
import re
import shutil
import subprocess
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
Run = Callable[[Sequence[str]], str]


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
        Returns a reading; None: nothing tells.
    every_seconds : float
        Least time between two.
    """

    def __init__(
        self,
        read: Callable[[], Reading] | None,
        every_seconds: float = EVERY_SECONDS,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self._read, self._every, self._clock = read, every_seconds, clock
        self._next = -float("inf")

    def reading(self) -> Reading:
        """Return a new reading, {} before its time or where nothing tells."""
        if self._read is None or self._clock() < self._next:
            return {}
        found = self._read()
        self._next = self._clock() + self._every
        return found


def cpu_reading() -> Reading:
    """Return the CPU's clock, {} where the system does not tell."""
    clock = clock_mhz()
    return {} if clock is None else {"clock_mhz": clock}


def gpu_reader(vendor: str, gpu: str, run: Run | None = None) -> Callable[[], Reading] | None:
    """Return what reads a GPU with the first of its vendor's tools that is installed; None without one.

    Parameters
    ----------
    vendor : {"nvidia", "amd"}
    gpu : str
        How the tools know the GPU: NVIDIA's UUID, the PCI address or the number of AMD's.
    run : callable, optional
        From a command to its output, in place of a process.
    """
    tool = next((tool for tool in TOOLS[vendor] if run or shutil.which(tool.name)), None)
    if tool is None:
        return None
    start = run or _output

    def read() -> Reading:
        try:
            return tool.parse(start(tool.command(gpu)))
        except (OSError, subprocess.SubprocessError, ValueError):
            return {}

    return read


def _output(command: Sequence[str]) -> str:
    done = subprocess.run(command, capture_output=True, text=True, timeout=_PATIENCE_SECONDS, check=True)
    return done.stdout


def parse_nvidia(text: str) -> Reading:
    """Read the line of ``clocks.sm, power.draw, temperature.gpu`` of nvidia-smi; cells may be ``[N/A]``."""
    cells = [cell.strip() for cell in text.strip().splitlines()[0].split(",")] if text.strip() else []
    return _numbers(dict(zip(STATE, cells, strict=False)))


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
_QUERY = "--query-gpu=clocks.sm,power.draw,temperature.gpu"
TOOLS = {
    "nvidia": (Tool("nvidia-smi", (_QUERY, "--format=csv,noheader,nounits", "-i", "{gpu}"), parse_nvidia),),
    "amd": (
        Tool("amd-smi", ("metric", "-g", "{gpu}", "--power", "--clock", "--temperature", "--json"), parse_amd),
        Tool("rocm-smi", ("-d", "{gpu}", "--showclocks", "--showpower", "--showtemp", "--json"), parse_rocm),
    ),
}
"""The tools of each vendor, the newer first (formats of CUDA 12, ROCm 5 to 7)."""


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

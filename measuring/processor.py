"""What the operating system tells of the CPU: model, caches, clock."""

from __future__ import annotations

import platform
import re
from pathlib import Path

from ..errors import DataError

CPUINFO = Path("/proc/cpuinfo")
CPU_FOLDER = Path("/sys/devices/system/cpu/cpu0")
_UNITS = {"K": 2**10, "M": 2**20, "G": 2**30}


def cpu_model(cpuinfo: Path = CPUINFO) -> str:
    """Return the name of the CPU, that of the architecture where the system does not tell more."""
    text = cpuinfo.read_text(encoding="utf-8") if cpuinfo.is_file() else ""
    found = re.search(r"^model name\s*:\s*(.+?)\s*$", text, re.MULTILINE)
    return found[1] if found else platform.processor() or platform.machine()


def cache_sizes(folder: Path = CPU_FOLDER) -> dict[str, int]:
    """Return the bytes of the caches that the first core sees, by level (``L1d``, ``L2``, ``L3``); {} if untold."""
    found = {}
    for cache in sorted(folder.glob("cache/index*")):
        try:
            level, kind, size = ((cache / name).read_text().strip() for name in ("level", "type", "size"))
        except OSError:
            continue
        if match := re.fullmatch(r"(\d+)([KMG])", size):
            letter = {"Data": "d", "Instruction": "i"}.get(kind, "")
            found[f"L{level}{letter}"] = int(match[1]) * _UNITS[match[2]]
    return found


def last_level_cache_bytes(folder: Path = CPU_FOLDER) -> int:
    """Return the size of the largest cache.

    Raises
    ------
    DataError
        The system does not tell.
    """
    if not (sizes := cache_sizes(folder)):
        raise DataError("the system does not tell the size of the CPU's cache (Linux does): measure with --cache warm")
    return max(sizes.values())


def clock_mhz(folder: Path = CPU_FOLDER) -> float | None:
    """Return the first core's clock now; None where the system does not tell (virtual machines)."""
    try:
        return int((folder / "cpufreq" / "scaling_cur_freq").read_text()) / 1e3
    except (OSError, ValueError):
        return None


def governor(folder: Path = CPU_FOLDER) -> str:
    """Return the policy that chooses the clock ("performance"), "" where the system does not tell."""
    try:
        return (folder / "cpufreq" / "scaling_governor").read_text().strip()
    except OSError:
        return ""

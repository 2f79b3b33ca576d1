"""Rows of curves (`curves`) from the log of a simulator: GPGPU-Sim, and Accel-Sim, which prints the same statistics.

After every kernel the log has what `GPGPU-Sim` counts. Of each kernel, its launches added up:

- ``ipc``: ``gpu_sim_insn`` over ``gpu_sim_cycle``, instructions of threads.
- ``mpki``: ``L2_total_cache_misses``, which the log adds up over the kernels before, over a thousand
  of these instructions.
- ``f_mem``: ``W0_Scoreboard`` over all cycles of the line of warps that were issued, the share in
  which every warp of a scheduler waits for an operand: an upper bound of the share that waits for
  memory. Missing where the log has no such line.
- ``size``: SMs, ``-gpgpu_n_clusters`` times ``-gpgpu_n_cores_per_cluster`` of the options that the log
  begins with.

Source: gpgpu-sim_distribution, src/gpgpu-sim/gpu-sim.cc, ``gpu_print_stat``, and shader.cc.
"""

from __future__ import annotations

import re
from typing import Final

import numpy as np
import pandas as pd

from ..errors import DataError

MARK: Final = "gpu_tot_sim_cycle"
_VALUE: Final = re.compile(
    r"^\s*(kernel_name|gpu_sim_insn|gpu_sim_cycle|L2_total_cache_misses)\s*=\s*(\S+)"
)
_OPTION: Final = re.compile(r"^[ \t]*+-gpgpu_n_(clusters|cores_per_cluster)\s+(\d+)", re.MULTILINE)
_WARPS: Final = re.compile(r"^(?:Stall:\d+\s+)?W0_Idle:\d+\s+W0_Scoreboard:(\d+)(.*)$")
_COUNT: Final = re.compile(r":(\d+)")
_STALL: Final = re.compile(r"^Stall:\d+")  # pipeline stalls stand beside the states of the issue


def is_simulated(head: str) -> bool:
    """Return whether a text is the log of such a simulator."""
    return MARK in head


def simulated_rows(text: str, size: float | None = None) -> pd.DataFrame:
    """Return a row of curves for each kernel of a log: benchmark, size, ipc, mpki, f_mem, unit.

    ``size`` is in SMs, by default that of the options in the log. Raises DataError: no kernel has
    instructions, cycles and misses, or the size is unknown.
    """
    launches = _launches(text)
    if not launches:
        raise DataError("no kernel with instructions, cycles and misses of the L2 in this log")
    if size is None:
        options = {name: int(value) for name, value in _OPTION.findall(text)}
        if "clusters" not in options:
            raise DataError("the log does not say how many SMs there are: give sizes")
        size = float(options["clusters"] * options.get("cores_per_cluster", 1))
    by = pd.DataFrame(launches).groupby("benchmark", sort=True)
    sums = by[["insn", "cycles", "misses", "waited", "warps"]].sum(min_count=1)
    with np.errstate(divide="ignore", invalid="ignore"):
        rows = {
            "benchmark": sums.index.to_numpy(dtype=object),
            "size": float(size),
            "ipc": (sums["insn"] / sums["cycles"]).to_numpy(dtype=float),
            "mpki": (1000 * sums["misses"] / sums["insn"]).to_numpy(dtype=float),
            "f_mem": np.clip((sums["waited"] / sums["warps"]).to_numpy(dtype=float), 0, 1 - 1e-9),
            "unit": "SM",
        }
    return pd.DataFrame(rows)


def _launches(text: str) -> list[dict[str, str | float]]:
    """Return what each launch of a kernel took: what the log adds up is taken apart."""
    launches: list[dict[str, str | float]] = []
    values: dict[str, str] = {}
    misses_before = 0.0
    warps_before = np.zeros(2)
    warps = np.full(2, np.nan)
    for line in text.splitlines():
        match = _WARPS.match(line)
        if match:
            states = _STALL.sub("", line)
            counts = [float(count) for count in _COUNT.findall(states)]
            warps = np.array([float(match[1]), sum(counts)])
            continue
        value = _VALUE.match(line)
        if value is None:
            continue
        values[value[1]] = value[2]
        if value[1] != "L2_total_cache_misses" or not {"gpu_sim_insn", "gpu_sim_cycle"} <= set(
            values
        ):
            continue
        total = float(value[2])
        misses = total
        if total >= misses_before:  # a log that clears its statistics begins anew
            misses -= misses_before
        counted = warps - warps_before
        insn = float(values["gpu_sim_insn"])
        cycles = float(values["gpu_sim_cycle"])
        if insn > 0 and cycles > 0:
            name = values.get("kernel_name", "program")
            row: dict[str, str | float] = {
                "benchmark": name,
                "insn": insn,
                "cycles": cycles,
                "misses": misses,
            }
            launches.append(row | {"waited": counted[0], "warps": counted[1]})
        misses_before = total
        if np.isfinite(warps).all():
            warps_before = warps
        values = {}
        warps = np.full(2, np.nan)
    return launches

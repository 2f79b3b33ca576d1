"""Tables of curves (`curves`) from a real GPU: rows of hardware counters, and miss rates of a trace of addresses.

Of a kernel profiled with rocprofiler-compute at a size (a CU mask, a partition, another GPU):

- ``ipc``: ``SQ_INSTS``, instructions of waves, over the cycles of the kernel's duration at the
  published boost clock. ``GRBM_GUI_ACTIVE`` is no substitute: it counts around a kernel too
  (MI300X: 2.6 million in 14 us).
- ``mpki``: ``TCC_MISS_sum``, misses of the L2, over a thousand of these instructions.
- ``f_mem``: ``SQ_WAIT_ANY`` over ``SQ_WAVE_CYCLES``, the share of the waves' cycles that wait for
  anything: an upper bound of the share that waits for memory.

The miss rate of a fully associative cache that replaces the least recently used line follows for
all its sizes from one pass over the addresses: an access hits where fewer other lines than the
cache holds were touched since the last one to its own (Mattson, Gecsei, Slutz and Traiger,
"Evaluation techniques for storage hierarchies", IBM Systems Journal 9(2), 1970), counted with a
tree over time (Bennett and Kruskal, IBM J. Res. Dev. 19(4), 1975).
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

import numpy as np
import pandas as pd

from ..arrays import FloatArray, IntArray
from ..errors import DataError, ParameterError, few
from ..hardware import find
from ..table.measurements import COUNTER

NEEDED: Final = ("SQ_INSTS", "SQ_WAIT_ANY", "SQ_WAVE_CYCLES", "TCC_MISS_sum")
LINE_BYTES: Final = 128  # of the L2 of CDNA


def without_parameters(kernel: str) -> str:
    """Return a kernel's name up to its parameters; those within template arguments, and unnamed scopes, tell it apart.

    >>> without_parameters("void copy<float, (anonymous namespace)::add(int)>(float*) [clone .kd]")
    'void copy<float, (anonymous namespace)::add(int)>'
    """
    depth = 0
    for place, (sign, before) in enumerate(zip(kernel, " " + kernel, strict=False)):
        depth += {"<": 1, ">": -(before != "-")}.get(sign, 0)  # "->" closes no bracket
        if sign == "(" and not depth and not kernel.startswith("(anonymous namespace)", place):
            return kernel[:place]
    return kernel


def counted_rows(frame: pd.DataFrame, size: float | None = None) -> pd.DataFrame:
    """Return a row of curves for each kernel of a measurement table: benchmark, size, ipc, mpki, f_mem, unit.

    ``size`` is in compute units, by default those of the device. Raises DataError: counters are
    missing, or rows are of several devices or an unknown one.
    """
    lacking = [name for name in NEEDED if COUNTER + name not in frame]
    if lacking:
        raise DataError(
            f"lacks counters {few(lacking)}: profile with rocprofiler-compute, all of its blocks"
        )
    if len(names := frame["device"].unique()) > 1:
        raise DataError(f"holds profiles of {few(names)}: give a folder for each")
    gpu = find(str(names[0]))
    insts, waits, waves, misses = (frame[COUNTER + name].to_numpy(dtype=float) for name in NEEDED)
    with np.errstate(divide="ignore", invalid="ignore"):
        counted = pd.DataFrame(
            {
                "benchmark": frame["kernel"].astype(str).map(without_parameters),
                "size": float(gpu.require("cus") if size is None else size),
                "ipc": insts
                / (frame["duration_us"].to_numpy(dtype=float) * gpu.require("boost_mhz")),
                "mpki": 1000 * misses / insts,
                "f_mem": np.clip(waits / waves, 0, 1 - 1e-9),
                "unit": "CU",
            }
        )
    figures = counted[["ipc", "mpki", "f_mem"]].to_numpy(dtype=float)
    usable = np.isfinite(figures).all(axis=1) & (figures[:, 0] > 0)
    if not usable.any():
        raise DataError("no kernel has instructions, cycles and misses above zero")
    return counted[usable].groupby(["benchmark", "size", "unit"], as_index=False).median()


def stack_distances(lines: Sequence[int] | IntArray) -> FloatArray:
    """Return how many other lines were touched since each access's last one to its own, infinite for the first.

    >>> stack_distances([1, 2, 1, 1]).tolist()
    [inf, inf, 1.0, 0.0]
    """
    count = len(lines)
    # a Fenwick tree over time: 1 where the last access so far to a line stands
    tree = [0] * (count + 1)
    last: dict[int, int] = {}
    distances = np.full(count, np.inf)

    def add(place: int, value: int) -> None:
        while place <= count:
            tree[place] += value
            place += place & -place

    def until(place: int) -> int:
        total = 0
        while place:
            total += tree[place]
            place -= place & -place
        return total

    for now, line in enumerate(map(int, lines), start=1):
        before = last.get(line)
        if before:
            distances[now - 1] = until(now - 1) - until(before)
            add(before, -1)
        add(now, 1)
        last[line] = now
    return distances


def miss_rates(
    addresses: Sequence[int] | IntArray,
    sizes: Sequence[float],
    cache_mb: Sequence[float],
    *,
    l2_mb: Sequence[float] | None = None,
    instructions: float | None = None,
    benchmark: str = "trace",
) -> pd.DataFrame:
    """Return the miss-rate curve of a trace: benchmark, size, performance (missing), mpki, and l2_mpki of an L2.

    ``addresses`` (n,) are bytes in the order of access; ``cache_mb`` is the last-level cache of each
    of the ``sizes``, MiB, and ``l2_mb`` the L2 before it, which holds nothing that the last-level
    cache lacks. Without the ``instructions`` of the traced run misses are counted per thousand
    accesses. Raises ParameterError: sizes and caches differ in number, one is not above zero, or an
    L2 is larger than the cache behind it; DataError: there is no address.
    """
    _check_caches("cache_mb", sizes, cache_mb)
    if l2_mb is not None:
        _check_caches("l2_mb", sizes, l2_mb)
        if any(inner > last for inner, last in zip(l2_mb, cache_mb, strict=True)):
            raise ParameterError("l2_mb", "must be at most cache_mb, the cache behind it")
    if instructions is not None and not instructions > 0:
        raise ParameterError("instructions", f"must be above 0, got {instructions:g}")
    if not len(addresses):
        raise DataError("the trace holds no address")
    distances = stack_distances(np.asarray(addresses) // LINE_BYTES)
    thousands = (len(distances) if instructions is None else instructions) / 1000
    rows = pd.DataFrame({"benchmark": benchmark, "size": sizes, "performance": np.nan})
    for column, caches in (("mpki", cache_mb), ("l2_mpki", l2_mb)):
        if caches is not None:
            lines = np.asarray(caches, dtype=np.float64) * 2**20 / LINE_BYTES
            rows[column] = [float((distances >= count).sum()) / thousands for count in lines]
    return rows.assign(unit="CU")


def _check_caches(parameter: str, sizes: Sequence[float], caches: Sequence[float]) -> None:
    if len(sizes) != len(caches) or not len(sizes) or min(*sizes, *caches) <= 0:
        raise ParameterError(
            parameter,
            f"must be a cache above 0 for each of {len(sizes)} sizes, got {len(caches)}",
        )

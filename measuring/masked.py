"""One GPU as its own scale models: everything is measured with a part of its compute units, size after size.

A size is a process of its own: ROCm reads the mask of compute units when it starts (``HSA_CU_MASK=0:0-37``: the first
38 units of GPU 0), and on NVIDIA's GPUs the process computes in a green context of so many SMs (`backend.SMS`). Caches
and memory stay whole: such models shrink the units alone. A partition (CPX of MI300X: 38 units each) shrinks the rest
too; it is a device of its own and needs no mask: measure it with ``device_name``.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Final

import pandas as pd

from ..errors import DataError, FlopcastError, ParameterError
from ..hardware import find
from .backend import SMS

MASK: Final = "HSA_CU_MASK"
SM_STEP: Final = 8  # SMs that a green context is made of: least number, and step, from Hopper on (CUDA's driver API)
Once = Callable[[str, Path, Mapping[str, str]], int]
"""Measures a device of this name into this table in a process with this environment; returns its exit status."""


def measure_sizes(cus: Sequence[int], device: str, once: Once, index: int = 0) -> pd.DataFrame:
    """Measure with so many of the first compute units of a GPU, one size after the other.

    The ``device`` is named as ``flopcast gpus`` lists it; ``once`` measures one size; ``index`` is the GPU's number, as
    ROCm counts GPUs (NVIDIA's are named by the device of PyTorch). The measurement tables stand under each other, the
    device called ``MI300X, 38 CUs``, with ``benchmark``, ``size``, ``performance`` (calls per second) and ``unit`` for
    `scaling.curves`.

    Raises ParameterError: a size is none of the GPU's, or stated twice, or on a GPU of NVIDIA's is neither all nor a
    multiple of 8; FlopcastError: a size could not be measured.
    """
    gpu = find(device)
    whole, nvidia = int(gpu.require("cus")), gpu.vendor == "NVIDIA"
    unit = "SM" if nvidia else "CU"
    if len(set(cus)) < len(cus) or not cus or not all(0 < one <= whole for one in cus):
        raise ParameterError("cus", f"must be different numbers from 1 to {whole}, those of {device}, got {list(cus)}")
    if nvidia and any(one % SM_STEP for one in cus if one != whole):
        raise ParameterError("cus", f"must be multiples of {SM_STEP} or all {whole} of {device}, got {list(cus)}")
    parts = []
    with TemporaryDirectory() as folder:
        for size in sorted(cus):
            out = Path(folder) / f"{size}.parquet"
            mask = {SMS: str(size)} if nvidia else {MASK: f"{index}:0-{size - 1}"}
            status = once(f"{device}, {size} {unit}s", out, {**os.environ, **mask})
            if status or not out.exists():
                raise FlopcastError(f"{size} compute units could not be measured (exit status {status})")
            parts.append(pd.read_parquet(out).assign(size=float(size), unit=unit))
    table = pd.concat(parts, ignore_index=True)
    if not table["duration_us"].gt(0).any():
        raise DataError("nothing was measured")
    names = [name for name in ("op", "dtype_a", "batch", "m", "n", "k", "rows", "cols") if name in table]
    called = [
        " ".join(f"{cell:g}" if isinstance(cell, float) else str(cell) for cell in row if pd.notna(cell) and cell != "")
        for row in table[names].itertuples(index=False)
    ]
    return table.assign(benchmark=called, performance=1e6 / table["duration_us"])

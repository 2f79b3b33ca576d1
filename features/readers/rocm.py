"""What the readers of ROCm's profilers share: units of grids, directions of copies, devices and streams."""

from __future__ import annotations

import pandas as pd

from ...hardware import all_gpus
from .devices import canonical_device, device_of

IN_WORK_ITEMS = frozenset({"hipExtModuleLaunchKernel", "hipHccModuleLaunchKernel"})
"""Launches of the HIP runtime whose grid is in work-items, HSA's unit, in which hipBLASLt, rocBLAS and MIOpen launch
their assembly kernels; all others count workgroups."""
_DIRECTION = r"(?i)(H|D|P)(?:ost|evice|eer)[_ ]?to[_ ]?(H|D|P)(?:ost|evice|eer)"


def direction(words: pd.Series) -> pd.Series:
    """Return the direction of copies, "HtoD" for MEMORY_COPY_HOST_TO_DEVICE or CopyHostToDevice2D; else the word."""
    ends = words.astype("str").str.extract(_DIRECTION)
    return (ends[0].str.upper() + "to" + ends[1].str.upper()).fillna(words)


def workgroups(items: pd.Series, group: pd.Series) -> pd.Series:
    """Return how many workgroups cover a grid of work-items; missing where either size is."""
    size = group.where(group > 0)
    return (items.where(items > 0) - 1) // size + 1


def streams_recorded(stream: pd.Series, queue: pd.Series) -> bool:
    """Return whether streams mean something: not where all kernels have stream 0 but ran on several queues."""
    if stream.empty:
        return True
    return bool(stream.notna().any() and (stream.fillna(0).ne(0).any() or queue.nunique() < 2))


def device_named(product: str, gfx: str, cus: int | None) -> tuple[str, str]:
    """Return the device under the catalogue's name, and a remark.

    The product's name decides (one gfx id stands for several products), unless the device shows another number of
    compute units than the product has: then it is a partition of it.
    """
    name, unknown = canonical_device(product)
    whole = next((gpu.cus for gpu in all_gpus() if gpu.name == name), None)
    if product and not unknown and cus in (None, whole):
        return name, ""
    if gfx.startswith("gfx"):
        return device_of(gfx, cus)
    return name or gfx, unknown

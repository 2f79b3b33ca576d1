"""Scale models of a GPU: the same compute units, fewer or more of them, and what they share in proportion.

A scale model keeps every compute unit as it is and scales the resources that all of them share
(last-level cache, network on chip, memory bandwidth, links) by the same factor as their number, so
that each unit sees the pressure it sees in the whole GPU [1]_.

References
----------
.. [1] H. SeyyedAghaei, M. Naderan-Tahan and L. Eeckhout, "GPU Scale-Model Simulation", HPCA, 2024.
"""

from __future__ import annotations

from fractions import Fraction
from itertools import pairwise
from pathlib import Path
from typing import Any, Final, Literal

from .. import values
from ..errors import DataError, ParameterError, check_number
from ..values import Counts
from .lookup import find
from .spec import GPU

By = Literal["cus", "chiplets"]
SHARED: Final = (
    "l2_mb",
    "llc_mb",
    "llc_bw_gbs",
    "noc_bw_gbs",
    "memory_bw_gbs",
    "memory_bw_pin_gbs",
    "memory_gb",
    "link_bw_gbs",
    "link_bidir_gbs",
)
"""Figures of what all compute units share: in proportion to their number."""
PRIVATE: Final = ("wavefront", "boost_mhz", "matrix_mhz", "pcie_gen")
"""Figures of one compute unit, or of the host's side: the same in every scale model."""
WHOLE: Final = ("lanes", "chiplets", "llc_slices", "memory_controllers")
"""Counts in proportion; a scale model whose share of them is not a whole number has none."""
_MOST: Final = 100  # times a GPU: a larger one is none that somebody could ask about


def scaled(gpu: GPU, size: int, by: By = "cus") -> GPU:
    """Return the scale model of a GPU with `size` compute units or chiplets, more or fewer than the GPU's.

    Peaks and lanes go with the number of units, `SHARED` in proportion, `PRIVATE` as they are; what
    the GPU does not publish is not published for the model either. Single links, launch year and
    board power belong to the product and are left out. Raises DataError: ``size`` is below 1 or
    over 100 times the GPU's, or whole compute units do not result; NotPublishedError: the GPU does
    not publish how many units it has.
    """
    units = int(gpu.require(by))
    check_number("sizes", size, 1, _MOST * units)
    share = Fraction(int(size), units)
    cus = share * int(gpu.require("cus"))
    if cus.denominator != 1:
        named = "chiplets"
        if by == "cus":
            named = "compute units"
        raise DataError(
            f"{size} {named} of {gpu.name} have no whole number of compute units ({float(cus):g})"
        )
    if share == 1:
        return gpu
    factor = float(share)
    figures: dict[str, Any] = {
        key: None if (value := getattr(gpu, key)) is None else value * factor for key in SHARED
    }
    figures |= {key: _whole(getattr(gpu, key), share) for key in WHOLE}
    figures |= {key: getattr(gpu, key) for key in PRIVATE}
    return GPU(
        name=f"{gpu.name} at {int(cus)} CUs",
        vendor=gpu.vendor,
        arch=gpu.arch,
        memory_type=gpu.memory_type,
        cus=int(cus),
        peaks={key: peak * factor for key, peak in gpu.peaks.items()},
        sources=(f"{gpu.name}: shared resources times {share}",),
        **figures,
    )


def scale_models(gpu: GPU | str | Path, sizes: Counts | None = None, by: By = "cus") -> list[GPU]:
    """Return the scale models of the sizes; without sizes the GPU halved again and again as long as units stay whole.

    Raises DataError where the sizes do not increase, or one of them gives no scale model.

    Parameters
    ----------
    gpu : str, Path or GPU
        A name or a TOML file.
    sizes : sequence of int, optional
        Sizes of the scale models.
    by : {"cus", "chiplets"}
        What the sizes count: cus or chiplets.

    Examples
    --------
    >>> [gpu.name for gpu in scale_models("MI300X", [38, 76])]
    ['MI300X at 38 CUs', 'MI300X at 76 CUs']
    """
    gpu = find(gpu)
    if by not in ("cus", "chiplets"):
        raise ParameterError("by", f"must be cus or chiplets, got {by!r}")
    chosen = values.counts("sizes", sizes)
    if chosen is None:
        chosen = halvings(int(gpu.require(by)))
    if not chosen:
        raise ParameterError("sizes", f"must be one size at least, got {sizes!r:.40}")
    models = [scaled(gpu, size, by) for size in chosen]
    if any(second <= first for first, second in pairwise(chosen)):
        raise DataError(f"sizes must increase, got {', '.join(map(str, chosen))}")
    return models


def halvings(size: int) -> list[int]:
    """Return the size halved as long as it is even, smallest first.

    >>> halvings(304)
    [19, 38, 76, 152, 304]
    """
    numbers = [size]
    while numbers[-1] % 2 == 0:
        numbers.append(numbers[-1] // 2)
    return numbers[::-1]


def _whole(count: int | None, share: Fraction) -> int | None:
    """Return the share of a count where that is a whole number."""
    if count is None or (part := share * count).denominator != 1:
        return None
    return int(part)

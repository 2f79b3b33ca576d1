"""The table of scale models: what a GPU's scaled copies share, and what each of their compute units keeps."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Final, TypeAlias

from rich.table import Table
from rich.text import Text

from ..hardware import FIGURES, GPU, PEAKS
from ..hardware.scaled import PRIVATE, SHARED, WHOLE
from .console import plain_table
from .gpus import MISSING, gpus_json

NETWORK: Final = "network on chip"
"""A row of its own: no maker publishes its bandwidth, so it is named and not filled from another figure."""
BROKEN: Final = "not whole"
"""Of a count whose share is no whole number: half a chiplet."""

_PEAKS: Final = ("fp64_matrix", "fp32_vector", "fp16_matrix", "bf16_matrix", "fp8_matrix")
_CACHES: Final = ("l2_mb", "llc_mb", "llc_bw_gbs")
_OTHERS: Final = ("memory_bw_gbs", "memory_gb", "link_bw_gbs")
_OWN: Final = ("wavefront", "boost_mhz")
_CAPTION: Final = (
    "×: shared by all compute units, or theirs together, in proportion to their number; =: as in the whole GPU. The "
    "last-level cache's bandwidth bounds what the network on chip carries to it. Peaks are dense."
)


Row: TypeAlias = tuple[str, str, str, float | None, list[float | None]]
"""Label, unit, how it is scaled, the whole GPU's figure, and each model's."""


def configuration_table(models: Sequence[GPU], base: GPU) -> Table:
    """Return the scale models of a GPU side by side, the smallest first."""
    sizes = [f"{model.cus} CUs" for model in models]
    table = plain_table(f"Scale models of {base.name}", ["resource", "unit", ""], sizes, caption=_CAPTION)
    for label, unit, how, whole, values in rows(models, base):
        table.add_row(label, unit, how, *(_cell(value, whole) for value in values))
    return table


def rows(models: Sequence[GPU], base: GPU) -> list[Row]:
    """Return the table row by row."""

    def figures(keys: Sequence[str], how: str) -> list[Row]:
        return [
            (FIGURES[key].label, FIGURES[key].unit, how, getattr(base, key), [getattr(one, key) for one in models])
            for key in keys
        ]

    peaks = [
        (PEAKS[key].label, PEAKS[key].unit, "×", base.peaks.get(key), [one.peaks.get(key) for one in models])
        for key in _PEAKS
        if key in base.peaks
    ]
    network: Row = (NETWORK, "GB/s", "×", None, [None] * len(models))
    return [*figures(WHOLE, "×"), *peaks, *figures(_CACHES, "×"), network, *figures(_OTHERS, "×"), *figures(_OWN, "=")]


def configurations_json(models: Sequence[GPU], base: GPU) -> dict[str, Any]:
    """Return the scale models for machines: GPUs as `gpus --json` gives them."""
    return {**gpus_json(models), "schema": 1, "base": base.name, "shared": list(SHARED), "same": list(PRIVATE)}


def _cell(value: float | None, whole: float | None) -> Text:
    """Return a figure, or why there is none."""
    if value is not None:
        return Text(f"{value:,.5g}")
    return Text(MISSING if whole is None else BROKEN, style="dim")

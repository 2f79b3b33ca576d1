"""The figures a GPU is described by: key, label, unit; the one list that files, checks and tables read."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Literal, TypeAlias, get_args

Unit: TypeAlias = Literal["matrix", "vector"]
Kind: TypeAlias = Literal["count", "real"]

UNITS: tuple[Unit, ...] = get_args(Unit)
"""Where a kernel computes: matrix cores (MFMA, WMMA, tensor cores) or vector lanes."""

DTYPES = ("fp64", "fp32", "tf32", "fp16", "bf16", "fp8", "int8", "fp6", "fp4")
"""The number formats that have peaks of their own. int4 weights compute in the format of their activations."""


@dataclass(frozen=True)
class Figure:
    """A number that describes a GPU.

    Attributes
    ----------
    key : str
        Name of the attribute of `GPU` and key of the data file, e.g. ``memory_bw_gbs``.
    label : str
        What it is, in words.
    unit : str
        Its unit, empty for a count.
    kind : {"count", "real"}
        Whether only whole numbers make sense.
    """

    key: str
    label: str
    unit: str
    kind: Kind = "real"

    def __str__(self) -> str:
        return f"{self.label}, {self.unit}" if self.unit else self.label


_FIGURES = (
    Figure("year", "year of launch", "", "count"),
    Figure("cus", "compute units", "", "count"),
    Figure("reported_cus", "compute units by the driver", "", "count"),
    Figure("lanes", "vector lanes", "", "count"),
    Figure("wavefront", "wavefront", "lanes", "count"),
    Figure("chiplets", "chiplets", "", "count"),
    Figure("boost_mhz", "boost clock", "MHz"),
    Figure("matrix_mhz", "matrix clock", "MHz"),
    Figure("memory_gb", "memory", "GB"),
    Figure("memory_bw_gbs", "memory bandwidth", "GB/s"),
    Figure("memory_bw_pin_gbs", "memory bandwidth at the pins", "GB/s"),
    Figure("l2_mb", "L2 cache", "MiB"),
    Figure("llc_mb", "last-level cache", "MiB"),
    Figure("llc_bw_gbs", "last-level cache bandwidth", "GB/s"),
    Figure("links", "GPU-to-GPU links", "", "count"),
    Figure("link_uni_gbs", "one link, one way", "GB/s"),
    Figure("link_bw_gbs", "all links, one way", "GB/s"),
    Figure("link_bidir_gbs", "all links, both ways", "GB/s"),
    Figure("p2p_uni_gbs", "one pair of GPUs, one way", "GB/s"),
    Figure("pcie_gen", "PCIe generation", "", "count"),
    Figure("tdp_w", "board power", "W"),
)

FIGURES: dict[str, Figure] = {figure.key: figure for figure in _FIGURES}
"""Every figure except the peaks, by key, in the order in which tables show them."""

NONPACKED = "fp32_vector_nonpacked"
"""The fp32 vector peak without packed instructions: what code reaches that the compiler could not pack."""


def _peak(dtype: str, unit: str) -> Figure:
    return Figure(f"{dtype}_{unit}", f"{dtype} {unit} peak", "TOPS" if dtype.startswith("int") else "TFLOPS")


def _peaks() -> Iterator[Figure]:
    for dtype in DTYPES:
        for unit in UNITS:
            yield _peak(dtype, unit)
    yield Figure(NONPACKED, "fp32 vector peak, non-packed", "TFLOPS")


PEAKS: dict[str, Figure] = {peak.key: peak for peak in _peaks()}
"""Every dense peak a GPU can have, by key: ``fp8_matrix``, ``fp64_vector``, ...; integers count in TOPS."""


def peak_path(key: str) -> str:
    """Return where a data file holds the peak `key`: ``peak_tflops.fp8_matrix``, ``peak_tops.int8_matrix``."""
    return f"peak_{PEAKS[key].unit.lower()}.{key}"


PEAK_TABLES = tuple(sorted({peak_path(key).split(".")[0] for key in PEAKS}))
"""The tables of a data file that hold peaks: ``peak_tflops`` and ``peak_tops``."""

WORDS = (
    "name",
    "vendor",
    "arch",
    "gfx",
    "form_factor",
    "memory_type",
    "link_name",
    "confidence",
    "note",
    "same_id_as",
    "based_on",
)
"""Keys that hold one text."""

LISTS = ("aliases", "sources")
"""Keys that hold a list of texts."""

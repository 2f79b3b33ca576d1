"""The one door for descriptions of GPUs: a table of TOML or JSON in, checked attributes of `GPU` out."""

from __future__ import annotations

import difflib
import math
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from typing import Any, Literal, TypeAlias, get_args

from ..errors import DataError

# The figures a GPU is described by: key, label, unit; the one list that files, checks and tables read.

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


def read_table(table: Mapping[str, Any], where: str) -> dict[str, Any]:
    """Check the description of one GPU and return it as keyword arguments of `GPU`.

    Parameters
    ----------
    table : mapping
        The keys of hardware/gpus.toml; peaks in the tables ``peak_tflops`` and ``peak_tops``.
    where : str
        The file the table comes from, for messages.

    Returns
    -------
    dict
        Only the keys that were given; the peaks of both tables under ``peaks``, by ``{dtype}_{unit}``.

    Raises
    ------
    DataError
        For an unknown key, a wrong type, or a figure that is not above zero and finite; names the file and the key.
    """
    fields: dict[str, Any] = {}
    for key, value in table.items():
        if key in PEAK_TABLES:
            fields.setdefault("peaks", {}).update(_read_peaks(key, value, where))
        elif key in FIGURES:
            fields[key] = _read_figure(key, FIGURES[key], value, where)
        elif key in WORDS:
            fields[key] = _read_text(key, value, where)
        elif key in LISTS:
            fields[key] = _read_list(key, value, where)
        else:
            raise _unknown(key, (*WORDS, *LISTS, *PEAK_TABLES, *FIGURES), where)
    return fields


def write_table(fields: Mapping[str, Any]) -> dict[str, Any]:
    """Return attributes of `GPU` as `read_table` takes them, without what is empty or not published."""
    table: dict[str, Any] = {}
    for key, value in fields.items():
        if key == "peaks":
            for name, figure in value.items():
                outer, inner = peak_path(name).split(".")
                table.setdefault(outer, {})[inner] = figure
        elif value not in (None, "", ()):
            table[key] = list(value) if isinstance(value, tuple) else value
    return table


def _read_peaks(outer: str, value: object, where: str) -> dict[str, float]:
    """Return the peaks of one of the two tables."""
    if not isinstance(value, Mapping):
        raise DataError(f"{outer} must be a table such as `{outer}.{_keys_of(outer)[0]} = ...`", source=where)
    peaks: dict[str, float] = {}
    for key, number in value.items():
        if key not in PEAKS:
            raise _unknown(f"{outer}.{key}", [f"{outer}.{known}" for known in _keys_of(outer)], where)
        if peak_path(key) != f"{outer}.{key}":
            raise DataError(f"{outer}.{key} counts in {PEAKS[key].unit}: write {peak_path(key)}", source=where)
        peaks[key] = float(_read_figure(f"{outer}.{key}", PEAKS[key], number, where))
    return peaks


def _keys_of(outer: str) -> list[str]:
    return [key for key in PEAKS if peak_path(key).startswith(f"{outer}.")]


def _read_figure(key: str, figure: Figure, value: object, where: str) -> float | int:
    """Return a figure above zero; a whole number where it is a count."""
    if isinstance(value, bool) or not isinstance(value, int | float):
        raise DataError(f"{key} must be a number ({figure}), got {value!r}", source=where)
    if not (math.isfinite(value) and value > 0):
        hint = "leave the key out where it is not published"
        raise DataError(f"{key} must be above 0 and finite ({figure}), got {value!r}: {hint}", source=where)
    if figure.kind == "real":
        return float(value)
    if value != int(value):
        raise DataError(f"{key} must be a whole number ({figure}), got {value!r}", source=where)
    return int(value)


def _read_text(key: str, value: object, where: str) -> str:
    if not isinstance(value, str):
        raise DataError(f"{key} must be a text in quotes, got {value!r}", source=where)
    if key == "name" and not value.strip():
        raise DataError("name must not be empty", source=where)
    return value


def _read_list(key: str, value: object, where: str) -> tuple[str, ...]:
    if not isinstance(value, list | tuple) or not all(isinstance(item, str) for item in value):
        raise DataError(f"{key} must be a list of texts, got {value!r}", source=where)
    return tuple(value)


def _unknown(key: str, known: Iterable[str], where: str) -> DataError:
    """Return the error for a key nobody knows, with the nearest that exist."""
    close = difflib.get_close_matches(key, known, n=2, cutoff=0.6)
    hint = f"did you mean {' or '.join(close)}?" if close else "the keys are those of hardware/gpus.toml"
    return DataError(f"unknown key {key}: {hint}", source=where)

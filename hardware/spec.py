"""One GPU: the figures it is described by, and `GPU`, which holds them.

A description is a table of TOML or JSON; `read_table` is the one door through which it comes in,
checked.
"""

from __future__ import annotations

import difflib
import re
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field, fields
from html import escape
from typing import Any, Final, Literal, TypeAlias, get_args

from ..errors import DataError, NotPublishedError, ParameterError
from ..settings import configured

# The figures a GPU is described by: key, label, unit; the one list that files, checks and tables
# read.

Unit: TypeAlias = Literal["matrix", "vector"]
Kind: TypeAlias = Literal["count", "real"]
UNITS: tuple[Unit, ...] = get_args(Unit)
"""Where a kernel computes: matrix cores (MFMA, WMMA, tensor cores) or vector lanes."""
DTYPES = ("fp64", "fp32", "tf32", "fp16", "bf16", "fp8", "int8", "fp6", "fp4")
"""The number formats that have separate peaks. int4 weights compute in the format of their activations."""


@dataclass(frozen=True)
class Figure:
    """A number that describes a GPU: attribute of `GPU` and key of the data file, what it is in words, and its unit.

    The unit is empty for a count; `kind` says whether only whole numbers make sense.
    """

    key: str
    label: str
    unit: str
    kind: Kind = "real"

    def __str__(self) -> str:
        if self.unit:
            return f"{self.label}, {self.unit}"
        return self.label


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
    Figure("llc_slices", "last-level cache slices", "", "count"),
    Figure("memory_controllers", "memory controllers", "", "count"),
    Figure("noc_bw_gbs", "network on chip", "GB/s"),
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
NODE = Figure("node_gpus", "GPUs that share links in a node", "", "count")
"""Of the machine rather than the GPU: it stands in no table of figures."""
NONPACKED = "fp32_vector_nonpacked"
"""The fp32 vector peak without packed instructions: what code reaches that the compiler could not pack."""


def _peaks() -> Iterator[Figure]:
    for dtype in DTYPES:
        for unit in UNITS:
            yield Figure(
                f"{dtype}_{unit}",
                f"{dtype} {unit} peak",
                "TOPS" if dtype.startswith("int") else "TFLOPS",
            )
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
LISTS = ("aliases", "sources")  # keys that hold a list of texts


_MOST_LETTERS: Final = 100  # of a name, which stands in lines and tables


def read_table(table: Mapping[str, Any], where: str) -> dict[str, Any]:
    """Check the description of one GPU and return it as keyword arguments of `GPU`.

    The keys are those of hardware/gpus.toml, of which only those given leave; the peaks of the
    tables ``peak_tflops`` and ``peak_tops`` are under ``peaks``, by ``{dtype}_{unit}``. Raises
    DataError for an unknown key, a wrong type, or a figure that is not above zero and finite; it
    names the file (`where`) and the key.
    """
    fields: dict[str, Any] = {}
    for key, value in table.items():
        if key in PEAK_TABLES:
            fields.setdefault("peaks", {}).update(_read_peaks(key, value, where))
        elif key in FIGURES:
            fields[key] = _read_figure(key, FIGURES[key], value, where)
        elif key == NODE.key:
            fields[key] = _read_figure(key, NODE, value, where)
        elif key in WORDS:
            if not isinstance(value, str):
                raise DataError(f"{key} must be a text in quotes, got {value!r}", source=where)
            if key == "name" and not value.strip():
                raise DataError("name must not be empty", source=where)
            if key == "name" and len(value) > _MOST_LETTERS:
                what = f"name has {len(value):,} letters, more than {_MOST_LETTERS}"
                raise DataError(what, source=where)
            if key == "name" and not value.isprintable():
                raise DataError(
                    f"name must be of letters and signs that can be seen, got {value!a}",
                    source=where,
                )
            fields[key] = value
        elif key in LISTS:
            if not isinstance(value, list | tuple) or not all(
                isinstance(item, str) for item in value
            ):
                raise DataError(f"{key} must be a list of texts, got {value!r}", source=where)
            fields[key] = tuple(value)
        else:
            raise _unknown(key, (*WORDS, *LISTS, *PEAK_TABLES, *FIGURES, NODE.key), where)
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
            if isinstance(value, tuple):
                table[key] = list(value)
            else:
                table[key] = value
    return table


def _read_peaks(outer: str, value: object, where: str) -> dict[str, float]:
    if not isinstance(value, Mapping):
        raise DataError(
            f"{outer} must be a table such as `{outer}.{_keys_of(outer)[0]} = ...`", source=where
        )
    peaks: dict[str, float] = {}
    for key, number in value.items():
        if key not in PEAKS:
            raise _unknown(f"{outer}.{key}", [f"{outer}.{full}" for full in _keys_of(outer)], where)
        if peak_path(key) != f"{outer}.{key}":
            raise DataError(
                f"{outer}.{key} counts in {PEAKS[key].unit}: write {peak_path(key)}", source=where
            )
        peaks[key] = float(_read_figure(f"{outer}.{key}", PEAKS[key], number, where))
    return peaks


def _keys_of(outer: str) -> list[str]:
    return [key for key in PEAKS if peak_path(key).startswith(f"{outer}.")]


_BEYOND = 1e15  # no figure of a GPU is as large, in the units of these


def _read_figure(key: str, figure: Figure, value: object, where: str) -> float | int:
    """Return a figure above zero; a whole number where it is a count."""
    if isinstance(value, bool) or not isinstance(value, int | float):
        raise DataError(f"{key} must be a number ({figure}), got {value!r:.40}", source=where)
    if not 0 < value < _BEYOND:
        hint = "leave the key out where it is not published"
        raise DataError(
            f"{key} must be above 0 and below {_BEYOND:g} ({figure}), got {value!r:.40}: {hint}",
            source=where,
        )
    if figure.kind == "real":
        return float(value)
    if value != int(value):
        raise DataError(f"{key} must be a whole number ({figure}), got {value!r}", source=where)
    return int(value)


def _unknown(key: str, allowed: Iterable[str], where: str) -> DataError:
    """Return the error for a key nobody knows, with the nearest that exist."""
    close = difflib.get_close_matches(key, allowed, n=2, cutoff=0.6)
    if close:
        hint = f"did you mean {' or '.join(close)}?"
    else:
        hint = "the keys are those of hardware/gpus.toml"
    return DataError(f"unknown key {key}: {hint}", source=where)


# One GPU.


@dataclass(frozen=True, kw_only=True)
class GPU:
    """The published figures of one device; None where nothing is published, never zero.

    The figures are per device as its user buys it, decimal units except for caches. `FIGURES` lists
    them with their labels and units, hardware/gpus.toml says where each comes from.

    Attributes
    ----------
    name : str
        Canonical name, the ``device`` of measurement tables.
    vendor, arch, form_factor, memory_type, link_name : str
        Descriptions; empty where unknown.
    gfx : str
        gfx id of AMD devices (``gfx942``), compute capability of NVIDIA's (``9.0``), empty for a
        CPU.
    same_id_as : str
        Name of the GPU that a look-up by gfx id and CU count gives instead of this one; empty for
        most.
    based_on : str
        Of the user's: name of the GPU that stands for it where something was measured; empty
        for others.
    aliases : tuple of str
        Names under which traces and users know it too.
    year, cus, lanes, wavefront, chiplets, links, node_gpus, pcie_gen : int or None
        Counts: compute units or SMs (cores of a CPU), stream processors or CUDA cores, lanes of a
        wavefront or warp, compute dies, GPU-to-GPU links, GPUs that they join in a node (None: 8,
        or as many as the machine has).
    reported_cus : int or None
        Compute units that the driver reports where none are published; for look-up only.
    boost_mhz, matrix_mhz : float or None
        Boost clock, and the clock behind the matrix peaks where it differs. MHz.
    peaks : mapping of str to float
        Dense peaks by ``{dtype}_{unit}``, TFLOPS (TOPS for integers); `peak_tflops` reads them.
    memory_gb, memory_bw_gbs, memory_bw_pin_gbs : float or None
        Memory (GB), its bandwidth as published and as bus width times pin rate (GB/s).
    l2_mb, llc_mb, llc_bw_gbs : float or None
        L2 and last-level cache (MiB), bandwidth of the latter (GB/s).
    llc_slices, memory_controllers : int or None
        Parts of the last-level cache, and controllers (of AMD channels) of the memory.
    noc_bw_gbs : float or None
        Bandwidth of the network on chip, GB/s; of the user's GPUs.
    link_uni_gbs, link_bw_gbs, link_bidir_gbs, p2p_uni_gbs : float or None
        One link one way, all links one way, all links both ways, one pair of GPUs one way. GB/s.
    tdp_w : float or None
        Board power, W.
    confidence : str
        "A" most peaks printed alike in two sources, "B" in one, "C" thinner; empty for the user's
        own.
    sources : tuple of str
        ``KEY: what it gives``; `lookup.sources` resolves the keys.
    note : str
        Caveats.

    Examples
    --------
    >>> import flopcast as fc
    >>> gpu = fc.gpu("MI300X")
    >>> gpu.cus, gpu.memory_gb, gpu.peaks["bf16_matrix"]
    (304, 192.0, 1307.4)
    """

    name: str
    vendor: str = ""
    arch: str = ""
    gfx: str = ""
    form_factor: str = ""
    same_id_as: str = ""
    based_on: str = ""
    aliases: tuple[str, ...] = ()
    year: int | None = None
    cus: int | None = None
    reported_cus: int | None = None
    lanes: int | None = None
    wavefront: int | None = None
    chiplets: int | None = None
    boost_mhz: float | None = None
    matrix_mhz: float | None = None
    peaks: Mapping[str, float] = field(default_factory=dict, hash=False)
    memory_gb: float | None = None
    memory_type: str = ""
    memory_bw_gbs: float | None = None
    memory_bw_pin_gbs: float | None = None
    l2_mb: float | None = None
    llc_mb: float | None = None
    llc_bw_gbs: float | None = None
    llc_slices: int | None = None
    memory_controllers: int | None = None
    noc_bw_gbs: float | None = None
    link_name: str = ""
    links: int | None = None
    link_uni_gbs: float | None = None
    link_bw_gbs: float | None = None
    link_bidir_gbs: float | None = None
    p2p_uni_gbs: float | None = None
    node_gpus: int | None = None
    pcie_gen: int | None = None
    tdp_w: float | None = None
    confidence: str = ""
    sources: tuple[str, ...] = ()
    note: str = ""

    @property
    def measured_name(self) -> str:
        """Name of the GPU whose measurements stand for this one: its own, or that of the one it is based on."""
        return self.based_on or self.name

    def peak_key(self, dtype: str, unit: Unit | None = None) -> str:
        """Return which of `peaks` stands for `dtype` on `unit`: ``fp8_matrix``.

        Without a unit it is the matrix peak where there is one, else the vector peak (fp16 of an
        MI50, fp32 of most NVIDIA GPUs). ``fp32`` on ``vector`` is the spec peak, which on CDNA2 and
        later takes packed instructions; the rate without them is
        ``peaks["fp32_vector_nonpacked"]``.

        Raises
        ------
        NotPublishedError
            If the GPU has no such peak, or none is published.
        DataError
            If `dtype` or `unit` is not one of `DTYPES` and `UNITS`.
        """
        if not isinstance(dtype, str) or dtype not in DTYPES:
            raise DataError(
                f"no GPU has a peak for dtype {dtype!r}: choose from {', '.join(DTYPES)}"
            )
        if not (unit is None or isinstance(unit, str)) or unit not in (None, *UNITS):
            raise DataError(f"unit must be {' or '.join(UNITS)}, got {unit!r}")
        keys = [f"{dtype}_{which}" for which in ((unit,) if unit else UNITS)]
        for key in keys:
            if key in self.peaks:
                return key
        raise NotPublishedError(self.name, " or ".join(map(peak_path, keys)))

    def peak_tflops(self, dtype: str, unit: Unit | None = None) -> float:
        """Return the dense peak for `dtype` on `unit`, chosen as `peak_key` says.

        Parameters
        ----------
        dtype : str
            One of `DTYPES`.
        unit : {"matrix", "vector"}, optional
            Where the kernel computes; by default the matrix peak where there is one, else the
            vector peak.

        Returns
        -------
        float
            TFLOPS (10¹² operations per second), for int8 TOPS.

        Raises
        ------
        NotPublishedError
            If the GPU has no such peak, or none is published.
        """
        return self.peaks[self.peak_key(dtype, unit)]

    @property
    def family(self) -> str:
        """What its siblings share: the generation by its first word, and the kind of memory.

        Examples
        --------
        >>> import flopcast as fc
        >>> [fc.gpu(name).family for name in ("B200", "B300", "RTX PRO 6000", "MI300X")]
        ['Blackwell HBM', 'Blackwell HBM', 'Blackwell GDDR', 'CDNA3 HBM']
        """
        return (
            " ".join([*self.arch.split()[:1], *re.findall("^[A-Z]+", self.memory_type)])
            or self.name
        )

    @property
    def joins_two(self) -> bool:
        """Whether its links join two GPUs only."""
        return "(2 GPUs)" in self.link_name

    def require(self, figure: str) -> float:
        """Return the figure of that name, in the unit its name says.

        Raises
        ------
        NotPublishedError
            If it is not published.
        ParameterError
            If a GPU has no figure of that name.
        """
        if not isinstance(figure, str) or figure not in FIGURES:
            problem = f"must be one of {', '.join(FIGURES)}, got {figure!r:.40}"
            raise ParameterError("figure", problem)
        value: float | None = getattr(self, figure)
        if value is None:
            raise NotPublishedError(self.name, f"{figure} ({FIGURES[figure].label})")
        return value

    def to_dict(self) -> dict[str, Any]:
        """Return a dictionary for JSON, in the layout of hardware/gpus.toml; what is not published is left out."""
        return write_table({item.name: getattr(self, item.name) for item in fields(self)})

    @classmethod
    @configured
    def from_dict(cls, table: Mapping[str, Any], where: str = "description of a GPU") -> GPU:
        """Return the GPU that `to_dict` wrote; `where` names the file in errors.

        Raises
        ------
        DataError
            If a key is unknown, its type wrong, a figure not above zero, or the name missing.
        """
        described = read_table(table, where)
        if "name" not in described:
            raise DataError("name is missing", source=where)
        return cls(**described)

    def _repr_html_(self) -> str:
        figures = [
            (str(FIGURES[key]), value)
            for key in FIGURES
            if (value := getattr(self, key)) is not None
        ]
        peaks = [
            (f"{key.replace('_', ' ')} peak, T{'OP' if key.startswith('int') else 'FLOP'}S", value)
            for key, value in self.peaks.items()
        ]
        rows = "".join(
            f"<tr><td>{escape(label)}</td><td>{value:g}</td></tr>"
            for label, value in [*figures, *peaks]
        )
        return f"<p><b>{escape(self.name)}</b> {escape(self.arch)}</p><table>{rows}</table>"

"""What is known about one GPU."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, fields
from html import escape
from typing import Any

from ..errors import DataError, NotPublishedError
from .schema import DTYPES, FIGURES, UNITS, Unit, peak_path, read_table, write_table


@dataclass(frozen=True, kw_only=True)
class GPU:
    """The published figures of one device; None where nothing is published, never zero.

    The figures are per device as its user buys it, decimal units except for caches. `figures.FIGURES` lists them with
    their labels and units, hardware/gpus.toml says where each comes from.

    Attributes
    ----------
    name : str
        Canonical name, the ``device`` of measurement tables.
    vendor, arch, form_factor, memory_type, link_name : str
        Descriptions; empty where unknown.
    gfx : str
        gfx id of AMD devices (``gfx942``), compute capability of NVIDIA's (``9.0``), empty for a CPU.
    same_id_as : str
        Name of the GPU that a look-up by gfx id and CU count gives instead of this one; empty for most.
    based_on : str
        Of the user's own: name of the GPU that stands for it where something was measured; empty for others.
    aliases : tuple of str
        Names under which traces and users know it too.
    year, cus, lanes, wavefront, chiplets, links, pcie_gen : int or None
        Counts: compute units or SMs (cores of a CPU), stream processors or CUDA cores, lanes of a wavefront or warp,
        compute dies, GPU-to-GPU links.
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
    link_uni_gbs, link_bw_gbs, link_bidir_gbs, p2p_uni_gbs : float or None
        One link one way, all links one way, all links both ways, one pair of GPUs one way. GB/s.
    tdp_w : float or None
        Board power, W.
    confidence : str
        "A" most peaks printed alike in two sources, "B" in one, "C" thinner; empty for the user's own.
    sources : tuple of str
        ``KEY: what it gives``; `lookup.sources` resolves the keys.
    note : str
        Caveats.
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
    link_name: str = ""
    links: int | None = None
    link_uni_gbs: float | None = None
    link_bw_gbs: float | None = None
    link_bidir_gbs: float | None = None
    p2p_uni_gbs: float | None = None
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

        Without a unit it is the matrix peak where there is one, else the vector peak (fp16 of an MI50, fp32 of most
        NVIDIA GPUs). ``fp32`` on ``vector`` is the spec peak, which on CDNA2 and later takes packed instructions; the
        rate without them is ``peaks["fp32_vector_nonpacked"]``.

        Raises
        ------
        NotPublishedError
            If the GPU has no such peak, or none is published.
        DataError
            If `dtype` or `unit` is not one of `figures.DTYPES` and `figures.UNITS`.
        """
        if dtype not in DTYPES:
            raise DataError(f"no GPU has a peak for dtype {dtype!r}: choose from {', '.join(DTYPES)}")
        if unit is not None and unit not in UNITS:
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
            One of `figures.DTYPES`.
        unit : {"matrix", "vector"}, optional
            Where the kernel computes; by default the matrix peak where there is one, else the vector peak.

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

    def require(self, figure: str) -> float:
        """Return the figure of that name, in the unit its name says.

        Raises
        ------
        NotPublishedError
            If it is not published.
        """
        if figure not in FIGURES:
            raise AttributeError(f"a GPU has no figure {figure!r}")
        value: float | None = getattr(self, figure)
        if value is None:
            raise NotPublishedError(self.name, f"{figure} ({FIGURES[figure].label})")
        return value

    def to_dict(self) -> dict[str, Any]:
        """Return a dictionary for JSON, in the layout of hardware/gpus.toml; what is not published is left out."""
        return write_table({item.name: getattr(self, item.name) for item in fields(self)})

    @classmethod
    def from_dict(cls, table: Mapping[str, Any], where: str = "description of a GPU") -> GPU:
        """Return the GPU that `to_dict` wrote; `where` names the file in errors.

        Raises
        ------
        DataError
            If a key is unknown, its type wrong, a figure not above zero, or the name missing.
        """
        known = read_table(table, where)
        if "name" not in known:
            raise DataError("name is missing", source=where)
        return cls(**known)

    def _repr_html_(self) -> str:
        figures = [(str(FIGURES[key]), value) for key in FIGURES if (value := getattr(self, key)) is not None]
        peaks = [
            (f"{key.replace('_', ' ')} peak, T{'OP' if key.startswith('int') else 'FLOP'}S", value)
            for key, value in self.peaks.items()
        ]
        rows = "".join(f"<tr><td>{escape(label)}</td><td>{value:g}</td></tr>" for label, value in [*figures, *peaks])
        return f"<p><b>{escape(self.name)}</b> {escape(self.arch)}</p><table>{rows}</table>"

"""Scores of HPL, HPCG, HPL-MxP and of kernels of HPC before a machine runs them, as distributions.

HPL (Petitet et al., netlib.org/benchmark/hpl): the factorisation of an N by N matrix on P by Q devices, panel by panel.
Behind a look-ahead of one, a panel's factorisation and broadcast hide behind the update of the one before:

    t_j = max(update_j, factor_j + broadcast_j) + swap_j,    score = (2/3 N³ + 3/2 N²) / Σ t_j

HPCG (Dongarra, Heroux and Luszczek, 2016) streams a sparse matrix: devices · 0.201 flop/byte · bandwidth · the part of
it that a stream reaches · the part of that which HPCG reaches · the part that is left at that many devices.

The peak of HPL is the one that such machines are rated by (`rated`). The part that a stream reaches is the device's
where it was measured (hardware/measured.csv).

HPL-MxP (hpl-mxp.org) counts HPL's operations and multiplies in 16 bits: devices · 16-bit matrix peak · the part of it
that Frontier reached. Three kernels (`KERNELS`) take the longer of, or both, what their points move through the memory
and what their faces or transposes send:

======== ==================================== ============================= ===========================================
kernel   flop                                 bytes through the memory      sent by each of P devices
======== ==================================== ============================= ===========================================
fft      5 n³ log2(n³) (benchFFT's count)     three passes, 16 B in and out two transposes of 16 n³/P B
stencil  8 a point (7 points; Datta et al.,   8 B in, 8 B out (Williams et  six faces of 8 (n³/P)^(2/3) B, hidden
         SC 2008)                             al., CACM 52(4), 2009)        behind the points within
dslash   1320 a site of n⁴ (Wilson; Clark et  360 numbers a site (the same  eight faces of 12 (n⁴/P)^(3/4) numbers,
         al., QUDA, arXiv:0911.3191)          source)                       hidden likewise
======== ==================================== ============================= ===========================================

Every efficiency and bandwidth is log-normal, and each panel of HPL takes separate noise; so is what one machine and its
tuning reach over another, as published scores of one kind of device differ. The draws are a Latin hypercube's, seeded.
"""

from __future__ import annotations

import csv
import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cache
from importlib import resources
from pathlib import Path
from typing import Final, TypeAlias

import numpy as np

from .. import values
from ..arrays import FloatArray
from ..errors import (
    DataError,
    NotPublishedError,
    ParameterError,
    UnknownGPUError,
    check_level,
    check_number,
)
from ..hardware import GPU, find, measured
from ..hardware.networks import NODE_GPUS
from ..projection.collective_laws import ALL_TO_ALL, link_bandwidth_gbs
from ..remarks import Remark, remark
from .inference import GIB
from .releases import DRAWS, PRIORS, middle_and_sides, standard_normal

FLOP_PER_BYTE: Final = 0.201  # of HPCG: flop per byte that it moves
# of the sum; neighbours beyond are summed as one, whose noise is the less
MOST_PANELS: Final = 1024
MATRIX_SHARE: Final = 0.8  # part of the memory that the matrix of HPL takes, unless N is given
# columns for each row of a grid of HPL, beyond which another grid is looked for
FLATTEST: Final = 4


@dataclass(frozen=True)
class Spread:
    """A factor: its median, and the standard deviation of its logarithm."""

    median: float
    sigma: float

    def draws(self, normal: FloatArray) -> FloatArray:
        """Return the values at standard normal ones."""
        return self.median * np.exp(self.sigma * normal)

    @classmethod
    def read(
        cls, parameter: str, given: Spread | str | float | None, default: Spread | None = None
    ) -> Spread:
        """Return the spread of ``0.74±0.06``, of a median alone, or as it is; a ParameterError names the parameter."""
        if given is None and default is not None:
            return default
        if isinstance(given, Spread):
            return given
        return cls(*values.spread(parameter, str(given)))

    @classmethod
    def of(cls, name: str) -> Spread:
        """Return the spread of a constant of constants.toml."""
        return cls(PRIORS[name].value, PRIORS[name].spread)


# part of the bandwidth that a stream reaches where it was not measured
STREAM: Final = Spread.of("hpcg.stream")


@dataclass(frozen=True)
class Score:
    """A forecast score in FLOP/s: median, mean and interval, its inputs, its remarks, shares of the time.

    ``peak`` is what the devices' peak alone would say: of arithmetic for HPL, of memory for HPCG.
    """

    benchmark: str
    devices: int
    predicted: float
    mean: float
    lower: float
    upper: float
    peak: float
    inputs: dict[str, float]
    remarks: tuple[Remark, ...] = ()
    shares: dict[str, float] = field(default_factory=dict)
    level: float = 0.9  # of the interval
    gpu: str = ""  # name of the device


def hpcg(
    gpu: GPU | str | Path,
    gpus: DeviceCount,
    *,
    stream: Spread | str | float | None = None,
    reached: Spread | str | float = Spread.of("hpcg.reached"),  # noqa: B008
    scaling: Spread | str | float = Spread.of("hpcg.scaling"),  # noqa: B008
    interval: float = 0.9,
    seed: int = 0,
) -> Score:
    """Forecast the score of HPCG. A GPU is what a rank sees: 'MI250X (per GCD)'.

    The defaults multiply to what Frontier reached in November 2023 (14.05 PFLOP/s).

    Parameters
    ----------
    gpu : GPU, or its name or file
        As for `forecast`, but one.
    gpus : int
        As for `forecast`.
    stream : Spread, default as measured
        Part of the memory's bandwidth that STREAM reaches. By default as measured on the device, else `STREAM`.
    reached : Spread, default 0.708±0.05
        Part of STREAM that HPCG reaches on one GPU.
    scaling : Spread, default 0.945±0.08
        Part of that which many GPUs keep. It is measured the least: from 768 to some 4250 of Aurora's nodes a
        fifth of the score per device was lost.
    interval, seed
        As for `forecast`.

    Raises
    ------
    ParameterError
        ``gpus`` is below 1, ``interval`` not between 0 and 1, or a part not above 0 and at most 1.
    NotPublishedError
        The bandwidth is not published.

    Examples
    --------
    >>> from flopcast.hardware import find
    >>> result = hpcg(find("MI250X (per GCD)"), 75264)
    >>> 13e15 < result.predicted < 15e15
    True
    """
    gpu = find(gpu)
    stream = Spread.read("stream", stream, _stream(gpu))
    reached = Spread.read("reached", reached)
    scaling = Spread.read("scaling", scaling)
    drawn = _drawn(
        gpus,
        interval,
        seed,
        {"stream": (stream, 1.0), "reached": (reached, 1.0), "scaling": (scaling, 1.0)},
    )
    bandwidth = gpu.require("memory_bw_gbs") * 1e9
    peak = gpus * FLOP_PER_BYTE * bandwidth
    scores = peak * np.prod(drawn, axis=0)
    inputs = {"bandwidth_gbs": bandwidth / 1e9, "stream": stream.median, "reached": reached.median}
    return _score("hpcg", gpu, gpus, peak, scores, interval, {**inputs, "scaling": scaling.median})


def _stream(gpu: GPU) -> Spread:
    """Return the part of the bandwidth that a triad reaches on `gpu`, `STREAM` where nobody measured it."""
    try:
        ceilings = measured(gpu.measured_name, "hbm_triad")
    except UnknownGPUError:  # the user's, based on none
        return STREAM
    shares = [share for one in ceilings if (share := one.share(find(one.gpu)))]
    if shares:
        return Spread(max(shares), PRIORS["hpcg.measured_stream"].spread)
    return STREAM


DeviceCount: TypeAlias = int
"""Of one score; `api.supercomputers` takes several."""
KernelName: TypeAlias = str
"""One of `KERNELS`."""


def sending(gpu: GPU, gpus: int) -> tuple[Spread, tuple[Remark, ...]]:
    """Return the bandwidth of one of so many devices to the others, one way, GB/s, and the remarks.

    Devices of one node (`GPU.node_gpus`, else 8) send over the links of the node; more go over the
    network between nodes.

    >>> from flopcast.hardware import find
    >>> [sending(find("MI300X"), devices)[0].median for devices in (2, 8, 16)]
    [64.0, 448.0, 20.0]
    """
    check_number("gpus", gpus, 1)
    between = Spread.of("hpl.network_gbs")
    if not 1 < gpus <= (gpu.node_gpus or NODE_GPUS):
        return between, ()
    try:
        links = link_bandwidth_gbs(gpu, ALL_TO_ALL, gpus)
    except (DataError, NotPublishedError):
        text = (
            f"what the links of {gpu.name} carry is not published: messages are taken to leave "
            "the node"
        )
        return between, (remark("links-unknown", text, gpu=gpu.name),)
    return Spread(links, PRIORS["layer.collectives"].value), ()


def _sending(
    gpu: GPU, gpus: int, stated: Spread | str | float | None
) -> tuple[Spread, tuple[Remark, ...]]:
    """Return the network bandwidth of a GPU, as stated or else by `sending`."""
    if stated is None:
        return sending(gpu, gpus)
    return Spread.read("network_gbs", stated), ()


def hpl(
    gpu: GPU | str | Path,
    gpus: DeviceCount,
    *,
    n: int | None = None,
    nb: int = 512,
    p: int | None = None,
    product: Spread | str | float = Spread.of("hpl.product"),  # noqa: B008
    panel_share: Spread | str | float = Spread.of("hpl.panel_share"),  # noqa: B008
    network_gbs: Spread | str | float | None = None,
    noise: float = PRIORS["hpl.noise"].value,
    machine: Spread | str | float | None = None,
    interval: float = 0.9,
    seed: int = 0,
) -> Score:
    """Forecast the score of HPL. A GPU is what a rank sees: 'MI250X (per GCD)'.

    Parameters
    ----------
    gpu : GPU, or its name or file
        As for `forecast`, but one.
    gpus : int
        As for `forecast`: P · Q.
    n : int, default four fifths of the memory
        Size of the matrix.
    nb : int, default 512
        Width of a panel.
    p : int, default next to the root
        Rows of the grid. By default the divisor of ``gpus`` next to its root; where that grid is flatter than 1
        : 4, the fastest one, which may leave devices idle, and a remark says so.
    product : Spread, default 0.74±0.02
        Part of the peak that a product reaches. Of the `rated` 64-bit peak, the products being those of the
        update; the default is Frontier's.
    panel_share : Spread, default 0.02±0.3
        Part of the peak that a panel reaches. Of the same peak, the panel being factorised; the default is
        Frontier's.
    network_gbs : Spread, default its links in a node, else 20±0.15
        As for `forecast`. By default that of the device's
        links within a node, else Frontier's between nodes (`sending`).
    noise : float, default 0.02
        Relative noise of the time of one panel. The standard deviation of its logarithm.
    machine : Spread, default 1±0.07
        One machine over others like it. What one machine and its tuning reach over another of the same devices;
        by default `machine_spread` about 1.
    interval, seed
        As for `forecast`.

    Raises
    ------
    ParameterError
        ``gpus`` or ``nb`` is below 1, ``p`` does not divide the devices, the matrix has no room,
        ``noise`` is not from 0 to 1, ``interval`` not between them, or a part is more than the peak
        allows.
    NotPublishedError
        The 64-bit peak or the memory is not published.

    Examples
    --------
    >>> from flopcast.hardware import find
    >>> result = hpl(find("MI250X (per GCD)"), 73728)
    >>> 1.15e18 < result.predicted < 1.25e18
    True
    """
    check_number("nb", nb, 1)
    check_number("noise", noise, 0, 1, whole=False)
    gpu = find(gpu)
    product = Spread.read("product", product)
    panel_share = Spread.read("panel_share", panel_share)
    machine = Spread.read("machine", machine, Spread(1.0, machine_spread()))
    peak = rated(gpu)
    links, network_notes = _sending(gpu, gpus, network_gbs)
    fastest = gpu.peak_tflops("fp64") / peak
    spreads = {
        "product": (product, fastest),
        "panel_share": (panel_share, fastest),
        "network_gbs": (links, math.inf),
    }
    *drawn, tuned = _drawn(gpus, interval, seed, spreads | {"machine": (machine, math.inf)})
    medians = [np.array([one.median]) for one, _ in spreads.values()]
    room = gpu.require("memory_gb") * GIB / 8.0
    if n is not None:
        check_number("n", n, nb, int(math.sqrt(gpus * room)))  # the memory's size
    if p is not None:
        check_number("p", p, 1)
    if p is not None and gpus % p:
        raise ParameterError("p", f"must divide the {gpus} devices, got {p}")

    def work(rows: int, columns: int) -> tuple[int, float]:
        size = n or max(int(math.sqrt(MATRIX_SHARE * rows * columns * room)) // nb, 1) * nb
        return size, 2.0 / 3.0 * float(size) ** 3 + 1.5 * float(size) ** 2

    def usual(grid: tuple[int, int]) -> float:
        size, flop = work(*grid)
        seconds = sum(part[0] for part in _panels(peak, grid, size, nb, medians).values())
        if size**2 <= grid[0] * grid[1] * room:
            return flop / seconds
        return 0.0

    grids = [(rows, gpus // rows) for rows in range(1, math.isqrt(gpus) + 1)]
    whole = p or max(rows for rows, columns in grids if rows * columns == gpus)
    if p or gpus <= FLATTEST * whole**2:
        grids = [(whole, gpus // whole)]
    grid = max(grids, key=usual)
    size, flop = work(*grid)
    if size**2 > grid[0] * grid[1] * room:
        raise ParameterError(
            "nb", f"must be at most {math.sqrt(gpus * room):.0f}, the memory's size, got {nb}"
        )
    parts = _panels(peak, grid, size, nb, drawn, noise, seed)
    seconds = np.sum(list(parts.values()), axis=0)
    inputs = {"n": float(size), "nb": float(nb), "p": float(grid[0]), "q": float(grid[1])}
    inputs |= {
        "product": product.median,
        "panel": panel_share.median,
        "network_gbs": links.median,
    }
    tuned_percent = 100 * PRIORS["hpl.tuned"].value
    text = (
        f"one machine's own score changed by {tuned_percent:.0f} % in two years of tuning; "
        "published scores per device "
        f"of machines of one kind differ by ±{round(100 * machine.sigma, 1):g} % (1 σ), which the "
        "interval includes"
    )
    notes = [
        remark("score-moves", text, percent=tuned_percent, machines=round(100 * machine.sigma, 1)),
        *network_notes,
    ]
    if "MI250X" not in gpu.name:
        text = (
            f"the shares of the peak are those of Frontier's MI250X, not measured on {gpu.name}; "
            "with "
            "them eight H100 come out 7.3 % high, El Capitan's MI300A 4.8 % high"
        )
        notes.append(remark("score-by-frontier", text, gpu=gpu.name))
    idle = gpus - grid[0] * grid[1]
    if idle:
        text = f"the fastest grid, {grid[0]:,} by {grid[1]:,}, leaves {idle:,} of the devices idle"
        notes.append(remark("devices-idle", text, idle=idle, rows=grid[0], columns=grid[1]))
    shares = {name: float(np.median(part / seconds)) for name, part in parts.items()}
    return _score(
        "hpl",
        gpu,
        gpus,
        gpus * peak * 1e12,
        tuned * flop / seconds,
        interval,
        inputs,
        tuple(notes),
        shares,
    )


def hpl_mxp(
    gpu: GPU | str | Path,
    gpus: DeviceCount,
    *,
    peak_share: Spread | str | float = Spread.of("hpl_mxp.reached"),  # noqa: B008
    interval: float = 0.9,
    seed: int = 0,
) -> Score:
    """Forecast the score of HPL-MxP, HPL in mixed precision. A GPU is what a rank sees.

    Parameters
    ----------
    gpu : GPU, or its name or file
        As for `forecast`, but one.
    gpus : int
        As for `forecast`.
    peak_share : Spread, default 0.63±0.3
        Part of the 16-bit matrix peak that HPL-MxP reaches.
    interval, seed
        As for `forecast`.

    Raises
    ------
    ParameterError
        As `hpcg`.
    NotPublishedError
        The matrix peak is not published.

    Examples
    --------
    >>> from flopcast.hardware import find
    >>> result = hpl_mxp(find("MI250X (per GCD)"), 73984)  # Frontier, November 2022: 7.94 EFLOP/s
    >>> result.lower < 7.94e18 < result.upper
    True
    """
    peak_share = Spread.read("peak_share", peak_share)
    (drawn,) = _drawn(gpus, interval, seed, {"peak_share": (peak_share, 1.0)})
    gpu = find(gpu)
    peak = gpus * gpu.peak_tflops("fp16") * 1e12
    inputs = {"peak_share": peak_share.median}
    return _score("hpl-mxp", gpu, gpus, peak, peak * drawn, interval, inputs)


@dataclass(frozen=True)
class Law:
    """A kernel of HPC: its grid has ``n ** axes`` points, of so many numbers of 8 bytes or fewer.

    ``flop``, ``moved`` and ``sent`` are of a device: operations, numbers through the memory and
    numbers to others, of the size n, the points of one device, and how many of them there are.
    ``kept`` are numbers in memory a point.
    """

    axes: int
    flop: Callable[[float, float], float]
    moved: float
    sent: Callable[[float], float]
    kept: float
    hidden: bool


KERNELS: Final = {
    "fft": Law(
        3,
        lambda n, local: 5.0 * local * 3.0 * math.log2(n),
        12.0,
        lambda local: 4.0 * local,
        4.0,
        False,
    ),
    "stencil": Law(
        3, lambda _, local: 8.0 * local, 2.0, lambda local: 6.0 * local ** (2 / 3), 2.0, True
    ),
    "dslash": Law(
        4, lambda _, local: 1320.0 * local, 360.0, lambda local: 96.0 * local**0.75, 120.0, True
    ),
}
"""By name; the counts and their sources stand in the module's docstring."""
_WORDS: Final = {"fp64": 8, "fp32": 4, "fp16": 2}


def kernel(
    name: KernelName,
    gpu: GPU | str | Path,
    gpus: DeviceCount,
    *,
    points: int,
    number_format: str = "fp64",
    stream: Spread | str | float | None = None,
    kernel_share: Spread | str | float | None = None,
    network_gbs: Spread | str | float | None = None,
    interval: float = 0.9,
    seed: int = 0,
) -> Score:
    """Forecast a kernel of HPC cut over many GPUs: a transform, a stencil, or QCD's Wilson operator.

    It is one of `KERNELS`, on a grid that is cut into as many cubes as there are devices.

    Parameters
    ----------
    name : {"fft", "stencil", "dslash"}
        fft, stencil (7 points) or dslash (Wilson's, of QCD).
    gpu : GPU, or its name or file
        As for `forecast`, but one.
    gpus : int
        As for `forecast`.
    points : int
        Points of each axis: three axes, four of dslash. The transform's are complex.
    number_format : {"fp64", "fp32", "fp16"}
        Format of the numbers: fp64, fp32 or fp16.
    stream : Spread, default as measured
        As for `hpcg`.
    kernel_share : Spread, default by kernel
        Part of STREAM that the kernel reaches. A judgement (constants.toml).
    network_gbs : Spread, default its links in a node, else 20±0.15
        As for `hpl`. One device needs none.
    interval, seed
        As for `forecast`.

    Raises
    ------
    ParameterError
        A parameter is out of range, or the grid has no room in the memory.
    NotPublishedError
        The memory or its bandwidth is not published.

    Examples
    --------
    >>> from flopcast.hardware import find
    >>> result = kernel("stencil", find("MI300X"), 1, points=1024, stream=Spread(1, 0), kernel_share=Spread(1, 0))
    >>> result.predicted / result.peak  # without losses and neighbours it is the bandwidth's
    1.0
    """
    law = KERNELS.get(name)
    if law is None:
        raise ParameterError("name", f"must be one of {', '.join(KERNELS)}, got {name!r}")
    if number_format not in _WORDS:
        raise ParameterError(
            "number_format", f"must be one of {', '.join(_WORDS)}, got {number_format!r}"
        )
    word = _WORDS[number_format]
    gpu = find(gpu)
    stream = Spread.read("stream", stream, _stream(gpu))
    share_spread = Spread.read("kernel_share", kernel_share, Spread.of(f"{name}.reached"))
    links, notes = _sending(gpu, gpus, network_gbs)
    asked = {
        "stream": (stream, 1.0),
        "kernel_share": (share_spread, 1.0),
        "network_gbs": (links, math.inf),
    }
    part, share_drawn, network = _drawn(gpus, interval, seed, asked)
    room = gpus * gpu.require("memory_gb") * GIB / (law.kept * word)
    check_number("points", points, 2)
    if points > (largest := int(room ** (1 / law.axes))):
        raise ParameterError(
            "points", f"must be from 2 to {largest}, what the memory of {gpus} holds, got {points}"
        )
    local = float(points) ** law.axes / gpus
    bandwidth = gpu.require("memory_bw_gbs") * 1e9
    moved = law.moved * local * word
    memory = moved / (bandwidth * part * share_drawn)
    sent = law.sent(local) * word / (network * 1e9) * (1 - 1 / gpus)
    if law.hidden:
        seconds = np.maximum(memory, sent)
    else:
        seconds = memory + sent
    flop = gpus * law.flop(points, local)
    inputs = {"points": float(points), "bandwidth_gbs": bandwidth / 1e9, "stream": stream.median}
    inputs |= {"kernel_share": share_spread.median, "network_gbs": links.median}
    shares = {
        "memory": float(np.median(memory / (memory + sent))),
        "network": float(np.median(sent / (memory + sent))),
    }
    peak = flop / (moved / bandwidth)
    return _score(name, gpu, gpus, peak, flop / seconds, interval, inputs, notes, shares)


@dataclass(frozen=True)
class Turn:
    """Where more devices stop to pay: ``devices`` of a grid of scores, and ``why``, a part of the time or "half"."""

    devices: int
    why: str


def turning_point(scores: Sequence[Score]) -> Turn | None:
    """Return the first number of devices at which another part dominates the time than at the first.

    Or at which the score per device is less than half of that of the first; None where neither
    happens.

    >>> from flopcast.hardware import find
    >>> turning_point([hpl(find("MI250X (per GCD)"), devices, n=65536) for devices in (8, 64, 512)])
    Turn(devices=64, why='panel')
    """
    first = scores[0]
    first_part = max(first.shares, key=first.shares.__getitem__, default="")
    for one in scores[1:]:
        now = max(one.shares, key=one.shares.__getitem__, default="")
        if now != first_part:
            return Turn(one.devices, now)
        if one.predicted / one.devices < first.predicted / first.devices / 2:
            return Turn(one.devices, "half")
    return None


def rated(gpu: GPU) -> float:
    """Return the 64-bit peak that lists of machines rate `gpu` by, TFLOPS, of which HPL reaches about two thirds.

    That of NVIDIA is the matrix units' peak: eight H100 reached 365.4 TFLOP/s, 68 % of it
    (aigatech/vpbenchmarking, 2025). The matrix units of CDNA exceed the vector peak by far on
    paper, but the board's power does not hold them there: El Capitan's 1742 PFLOP/s are 65 % of the
    vector peak of its 43 808 MI300A (TOP500, November 2024). Raises NotPublishedError: no 64-bit
    peak is published.
    """
    matrix = gpu.vendor == "NVIDIA" or "fp64_vector" not in gpu.peaks
    return gpu.peak_tflops("fp64", None if matrix else "vector")


@cache
def machine_spread(without: str = "") -> float:
    """Return the standard deviation of the logarithm of published scores per device, without the machine's.

    That of MI250X machines in several lists (hpl_scores.csv): between machines, and of one machine
    over its tuning.
    """
    text = (
        resources.files("flopcast.workloads").joinpath("hpl_scores.csv").read_text(encoding="utf-8")
    )
    rows = csv.DictReader(line for line in text.splitlines() if not line.startswith("#"))
    scores = [
        float(row["pflops"]) / float(row["cores"]) for row in rows if row["system"] != without
    ]
    return float(np.std(np.log(scores), ddof=1))


def _panels(
    peak: float,
    grid: tuple[int, int],
    size: int,
    nb: int,
    drawn: Sequence[FloatArray],
    noise: float = 0.0,
    seed: int = 0,
) -> dict[str, FloatArray]:
    """Return the seconds of the whole factorisation, shape (draws,): its updates, panels not hidden, swaps."""
    rate, panel, network = (column[:, None] for column in drawn)
    p, q = grid
    panels = -(-size // nb)
    together = -(-panels // MOST_PANELS)
    left = size - nb * (together * np.arange(-(-panels // together)) + (together - 1) / 2.0)
    left = np.maximum(left, nb / 2.0)
    update = 2.0 * nb * left**2 / (p * q) / (rate * peak * 1e12)
    factor = nb**2 * left / p / (panel * peak * 1e12)
    broadcast = 8.0 * nb * left / p / (network * 1e9)
    swap = 8.0 * nb * left / q / (network * 1e9)
    hidden = np.maximum(factor + broadcast - update, 0.0)
    if noise:
        errors = np.random.default_rng(seed).normal(0.0, noise / math.sqrt(together), update.shape)
    else:
        errors = 0.0
    times = {"update": update, "panel": hidden, "swap": swap}
    return {
        name: np.sum(one * np.exp(errors), axis=1) * panels / len(left)
        for name, one in times.items()
    }


def _drawn(
    devices: int, level: float, seed: int, spreads: Mapping[str, tuple[Spread, float]]
) -> list[FloatArray]:
    """Return draws of every spread, shape (draws,) each; of each its name and the most that it may be."""
    check_level(level)
    check_number("gpus", devices, 1)
    for name, (one, limit) in spreads.items():
        if not isinstance(one, Spread):
            raise ParameterError(
                name, f"must be a {Spread.__module__}.Spread(median, sigma), got {one!r:.40}"
            )
        if not (0.0 < one.median <= limit and one.median < math.inf and 0.0 <= one.sigma <= 1.0):
            if limit == math.inf:
                bound = ""
            else:
                bound = f" and at most {limit:.3g}"
            raise ParameterError(
                name,
                f"must be above 0{bound}, its spread from 0 to 1, got {one.median:g}±{one.sigma:g}",
            )
    normal = standard_normal(len(spreads), DRAWS, seed)
    drawn = zip(spreads.values(), normal.T, strict=True)
    return [np.minimum(spread.draws(column), limit) for (spread, limit), column in drawn]


def _score(
    benchmark: str,
    gpu: GPU,
    devices: int,
    peak: float,
    scores: FloatArray,
    level: float,
    inputs: dict[str, float],
    remarks: tuple[Remark, ...] = (),
    shares: dict[str, float] | None = None,
) -> Score:
    middle, lower, upper = np.quantile(scores, middle_and_sides(level)).tolist()
    return Score(
        benchmark,
        devices,
        middle,
        float(scores.mean()),
        lower,
        upper,
        peak,
        inputs,
        remarks,
        shares or {},
        level,
        gpu.name,
    )

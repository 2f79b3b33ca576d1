"""Scores of HPL and HPCG before a machine runs them, as distributions.

HPL (Petitet et al., netlib.org/benchmark/hpl): the factorisation of an N by N matrix on P by Q devices, panel by panel.
Behind a look-ahead of one, a panel's factorisation and broadcast hide behind the update of the one before:

    t_j = max(update_j, factor_j + broadcast_j) + swap_j,    score = (2/3 N³ + 3/2 N²) / Σ t_j

HPCG (Dongarra, Heroux and Luszczek, 2016) streams a sparse matrix: devices · 0.201 flop/byte · bandwidth · the part of
it that a stream reaches · the part of that which HPCG reaches · the part that is left at that many devices.

The peak of HPL is the one that such machines are rated by (`rated`). The part that a stream reaches is the device's own
where it was measured (hardware/measured.csv).

Every efficiency and bandwidth is log-normal, and each panel of HPL takes its own noise; so is what one machine and its
tuning reach over another, as published scores of one kind of device differ. The draws are a Latin hypercube's, seeded.
"""

from __future__ import annotations

import csv
import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from functools import cache
from importlib import resources
from typing import Final

import numpy as np

from ..arrays import FloatArray
from ..errors import ParameterError, UnknownGPUError
from ..evaluation.metrics import check_level
from ..hardware import GPU, find, measured
from ..remarks import Remark, remark
from .inference import GIB
from .releases import DRAWS, PRIORS, middle_and_sides, standard_normal

FLOP_PER_BYTE: Final = 0.201
"""Of HPCG: flop per byte that it moves."""
MOST_PANELS: Final = 1024
"""Of the sum; neighbours beyond are summed as one, whose noise is the less."""
MATRIX_SHARE: Final = 0.8
"""Part of the memory that the matrix of HPL takes, unless N is given."""

FLATTEST: Final = 4
"""Columns for each row of a grid of HPL, beyond which another grid is looked for."""


@dataclass(frozen=True)
class Spread:
    """A factor: its median, and the standard deviation of its logarithm."""

    median: float
    sigma: float

    def draws(self, normal: FloatArray) -> FloatArray:
        """Return values at standard normal ones."""
        return self.median * np.exp(self.sigma * normal)

    @classmethod
    def of(cls, name: str) -> Spread:
        """Return that of constants.toml."""
        return cls(PRIORS[name].value, PRIORS[name].spread)


STREAM: Final = Spread.of("hpcg.stream")
"""Part of the bandwidth that a stream reaches where it was not measured."""


@dataclass(frozen=True)
class Score:
    """A forecast score in FLOP/s: median, mean and interval, its inputs, what is to be said, shares of the time.

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


def hpcg(
    gpu: GPU,
    gpus: int,
    *,
    stream: Spread | None = None,
    reached: Spread = Spread.of("hpcg.reached"),  # noqa: B008
    scaling: Spread = Spread.of("hpcg.scaling"),  # noqa: B008
    interval: float = 0.9,
    seed: int = 0,
) -> Score:
    """Return the score of HPCG.

    Parameters
    ----------
    gpu : GPU
        A device as HPCG's ranks see it: ``MI250X (per GCD)``.
    gpus : int
        Of them.
    stream, reached, scaling : Spread
        Part of the published bandwidth that a stream reaches (by default as measured on the device, else `STREAM`),
        part of that which HPCG reaches on one device, and part that is left on all. The defaults multiply to what
        Frontier reached in November 2023 (14.05 PFLOP/s). ``scaling`` is known the least: from 768 to some 4250 of
        Aurora's nodes a fifth of the score per device was lost.

    Raises
    ------
    ParameterError
        ``gpus`` is below 1, ``interval`` not between 0 and 1, or a part not above 0 and at most 1.
    NotPublishedError
        The bandwidth is not published.

    Examples
    --------
    >>> from flopcast.hardware import find
    >>> found = hpcg(find("MI250X (per GCD)"), 75264)
    >>> 13e15 < found.predicted < 15e15
    True
    """
    stream = stream or _stream(gpu)
    drawn = _drawn(
        gpus, interval, seed, {"stream": (stream, 1.0), "reached": (reached, 1.0), "scaling": (scaling, 1.0)}
    )
    bandwidth = gpu.require("memory_bw_gbs") * 1e9
    peak = gpus * FLOP_PER_BYTE * bandwidth
    scores = peak * np.prod(drawn, axis=0)
    inputs = {"bandwidth_gbs": bandwidth / 1e9, "stream": stream.median, "reached": reached.median}
    return _score("hpcg", gpus, peak, scores, interval, {**inputs, "scaling": scaling.median})


def _stream(gpu: GPU) -> Spread:
    """Return the part of the bandwidth that a triad reaches on `gpu`, `STREAM` where nobody measured it."""
    try:
        known = measured(gpu.measured_name, "hbm_triad")
    except UnknownGPUError:  # the user's own, based on none
        return STREAM
    shares = [share for one in known if (share := one.share(find(one.gpu)))]
    return Spread(max(shares), PRIORS["hpcg.measured_stream"].spread) if shares else STREAM


def hpl(
    gpu: GPU,
    gpus: int,
    *,
    n: int | None = None,
    nb: int = 512,
    p: int | None = None,
    product: Spread = Spread.of("hpl.product"),  # noqa: B008
    panel_share: Spread = Spread.of("hpl.panel_share"),  # noqa: B008
    network_gbs: Spread = Spread.of("hpl.network_gbs"),  # noqa: B008
    noise: float = PRIORS["hpl.noise"].value,
    machine: Spread | None = None,
    interval: float = 0.9,
    seed: int = 0,
) -> Score:
    """Return the score of HPL.

    Parameters
    ----------
    gpu : GPU
        A device as HPL's ranks see it: ``MI250X (per GCD)``.
    gpus : int
        Of them, P · Q.
    n, nb, p : int, optional
        Size of the matrix (by default four fifths of the memory), width of a panel, rows of the grid. By default the
        divisor of ``gpus`` next to its root; where that grid is flatter than 1 : 4, the fastest one, which may leave
        devices idle, and a remark says so.
    product, panel_share : Spread
        Part of the `rated` 64-bit peak that the update's products reach, and that a panel's factorisation does. The
        defaults are Frontier's.
    network_gbs : Spread
        Bandwidth per device between nodes, one way, GB/s.
    noise : float
        Standard deviation of the logarithm of the time of one panel.
    machine : Spread, optional
        What one machine and its tuning reach over another of the same devices; by default `machine_spread` about 1.

    Raises
    ------
    ParameterError
        ``gpus`` or ``nb`` is below 1, ``p`` does not divide the devices, the matrix has no room, ``noise`` is not
        from 0 to 1, ``interval`` not between them, or a part is more than the peak allows.
    NotPublishedError
        The 64-bit peak or the memory is not published.

    Examples
    --------
    >>> from flopcast.hardware import find
    >>> found = hpl(find("MI250X (per GCD)"), 73728)
    >>> 1.15e18 < found.predicted < 1.25e18
    True
    """
    if nb < 1:
        raise ParameterError("nb", f"must be at least 1, got {nb}")
    if not 0.0 <= noise <= 1.0:
        raise ParameterError("noise", f"must be from 0 to 1 (0.02 is 2 %), got {noise:g}")
    machine, peak = machine or Spread(1.0, machine_spread()), rated(gpu)
    most = gpu.peak_tflops("fp64") / peak
    spreads = {"product": (product, most), "panel_share": (panel_share, most), "network_gbs": (network_gbs, math.inf)}
    *drawn, tuned = _drawn(gpus, interval, seed, spreads | {"machine": (machine, math.inf)})
    medians = [np.array([one.median]) for one, _ in spreads.values()]
    room = gpu.require("memory_gb") * GIB / 8.0
    if n is not None and not nb <= n <= math.sqrt(gpus * room):
        raise ParameterError("n", f"must be from {nb} to {math.sqrt(gpus * room):.0f}, the memory's size, got {n}")
    if p is not None and (p < 1 or gpus % p):
        raise ParameterError("p", f"must divide the {gpus} devices, got {p}")

    def work(rows: int, columns: int) -> tuple[int, float]:
        size = n or max(int(math.sqrt(MATRIX_SHARE * rows * columns * room)) // nb, 1) * nb
        return size, 2.0 / 3.0 * float(size) ** 3 + 1.5 * float(size) ** 2

    def usual(grid: tuple[int, int]) -> float:
        size, flop = work(*grid)
        seconds = sum(part[0] for part in _panels(peak, grid, size, nb, medians).values())
        return flop / seconds if size**2 <= grid[0] * grid[1] * room else 0.0

    grids = [(rows, gpus // rows) for rows in range(1, math.isqrt(gpus) + 1)]
    whole = p or max(rows for rows, columns in grids if rows * columns == gpus)
    if p or gpus <= FLATTEST * whole**2:
        grids = [(whole, gpus // whole)]
    grid = max(grids, key=usual)
    size, flop = work(*grid)
    if size**2 > grid[0] * grid[1] * room:
        raise ParameterError("nb", f"must be at most {math.sqrt(gpus * room):.0f}, the memory's size, got {nb}")
    parts = _panels(peak, grid, size, nb, drawn, noise, seed)
    seconds = np.sum(list(parts.values()), axis=0)
    inputs = {"n": float(size), "nb": float(nb), "p": float(grid[0]), "q": float(grid[1])}
    inputs |= {"product": product.median, "panel": panel_share.median, "network_gbs": network_gbs.median}
    tuned_percent = 100 * PRIORS["hpl.tuned"].value
    notes = [
        remark(
            "score-moves",
            f"one machine's own score changed by {tuned_percent:.0f} % in two years of tuning; published scores per "
            f"device of machines of one kind differ by ±{round(100 * machine.sigma, 1):g} % (1 σ), "
            "which the interval includes",
            percent=tuned_percent,
            machines=round(100 * machine.sigma, 1),
        )
    ]
    if "MI250X" not in gpu.name:
        notes.append(
            remark(
                "score-by-frontier",
                f"the shares of the peak are those of Frontier's MI250X, not measured on {gpu.name}; with "
                "them eight H100 come out 4.5 % low, El Capitan's MI300A 4.8 % high",
                gpu=gpu.name,
            )
        )
    if idle := gpus - grid[0] * grid[1]:
        notes.append(
            remark(
                "devices-idle",
                f"the fastest grid, {grid[0]:,} by {grid[1]:,}, leaves {idle:,} of the devices idle",
                idle=idle,
                rows=grid[0],
                columns=grid[1],
            )
        )
    shares = {name: float(np.median(part / seconds)) for name, part in parts.items()}
    return _score("hpl", gpus, gpus * peak * 1e12, tuned * flop / seconds, interval, inputs, tuple(notes), shares)


def rated(gpu: GPU) -> float:
    """Return the 64-bit peak that lists of machines rate `gpu` by, TFLOPS, of which HPL reaches about two thirds.

    That of NVIDIA is the matrix units' peak: eight H100 reached 365.4 TFLOP/s, 68 % of it (aigatech/vpbenchmarking,
    2025). The matrix units of CDNA exceed the vector peak by far on paper, but the board's power does not hold them
    there: El Capitan's 1742 PFLOP/s are 65 % of the vector peak of its 43 808 MI300A (TOP500, November 2024).

    Raises
    ------
    NotPublishedError
        No 64-bit peak is published.
    """
    matrix = gpu.vendor == "NVIDIA" or "fp64_vector" not in gpu.peaks
    return gpu.peak_tflops("fp64", None if matrix else "vector")


@cache
def machine_spread(without: str = "") -> float:
    """Return the standard deviation of the logarithm of published scores per device, a machine's own left out.

    That of MI250X machines in several lists (hpl_scores.csv): between machines, and of one machine over its tuning.
    """
    text = resources.files("flopcast.workloads").joinpath("hpl_scores.csv").read_text(encoding="utf-8")
    rows = csv.DictReader(line for line in text.splitlines() if not line.startswith("#"))
    scores = [float(row["pflops"]) / float(row["cores"]) for row in rows if row["system"] != without]
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
    own = np.random.default_rng(seed).normal(0.0, noise / math.sqrt(together), update.shape) if noise else 0.0
    times = {"update": update, "panel": hidden, "swap": swap}
    return {name: np.sum(one * np.exp(own), axis=1) * panels / len(left) for name, one in times.items()}


def _drawn(devices: int, level: float, seed: int, spreads: Mapping[str, tuple[Spread, float]]) -> list[FloatArray]:
    """Return draws of every spread, shape (draws,) each; of each its name and the most that its median may be."""
    check_level(level)
    if devices < 1:
        raise ParameterError("gpus", f"must be at least 1, got {devices}")
    for name, (one, most) in spreads.items():
        if not (0.0 < one.median <= most and one.median < math.inf and 0.0 <= one.sigma <= 1.0):
            bound = "" if most == math.inf else f" and at most {most:.3g}"
            raise ParameterError(
                name, f"must be above 0{bound}, its spread from 0 to 1, got {one.median:g}±{one.sigma:g}"
            )
    normal = standard_normal(len(spreads), DRAWS, seed)
    return [spread.draws(column) for (spread, _), column in zip(spreads.values(), normal.T, strict=True)]


def _score(
    benchmark: str,
    devices: int,
    peak: float,
    scores: FloatArray,
    level: float,
    inputs: dict[str, float],
    remarks: tuple[Remark, ...] = (),
    shares: dict[str, float] | None = None,
) -> Score:
    middle, lower, upper = np.quantile(scores, middle_and_sides(level)).tolist()
    return Score(benchmark, devices, middle, float(scores.mean()), lower, upper, peak, inputs, remarks, shares or {})

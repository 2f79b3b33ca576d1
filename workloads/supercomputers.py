"""Scores of HPL and HPCG before a machine runs them, as distributions.

HPL (Petitet et al., netlib.org/benchmark/hpl): the factorisation of an N by N matrix on P by Q devices, panel by panel.
Behind a look-ahead of one, a panel's factorisation and broadcast hide behind the update of the one before:

    t_j = max(update_j, factor_j + broadcast_j) + swap_j,    score = (2/3 N³ + 3/2 N²) / Σ t_j

HPCG (Dongarra, Heroux and Luszczek, 2016) streams a sparse matrix: devices · 0.201 flop/byte · bandwidth · the part of
it that a stream reaches · the part of that which HPCG reaches · the part that is left at that many devices.

The part that a stream reaches is the device's own where it was measured (hardware/measured.csv).

Every efficiency and bandwidth is log-normal, and each panel of HPL takes its own noise; so is what one machine and its
tuning reach over another, as published scores of one kind of device differ. The draws are a Latin hypercube's, seeded.
"""

from __future__ import annotations

import csv
import math
from collections.abc import Sequence
from dataclasses import dataclass, field
from functools import cache
from importlib import resources
from typing import Final

import numpy as np
from numpy.typing import NDArray

from ..errors import ParameterError, UnknownGPUError
from ..hardware import GPU, find, measured
from ..remarks import Remark, remark
from .constants import DRAWS, standard_normal
from .memory import GIB

FloatArray = NDArray[np.float64]

FLOP_PER_BYTE: Final = 0.201
"""Of HPCG: flop per byte that it moves."""
MOST_PANELS: Final = 1024
"""Of the sum; neighbours beyond are summed as one, whose noise is the less."""
MATRIX_SHARE: Final = 0.8
"""Part of the memory that the matrix of HPL takes, unless N is given."""


@dataclass(frozen=True)
class Spread:
    """A factor: its median, and the standard deviation of its logarithm."""

    median: float
    sigma: float

    def draws(self, normal: FloatArray) -> FloatArray:
        """Return values at standard normal ones."""
        return self.median * np.exp(self.sigma * normal)


STREAM: Final = Spread(0.848, 0.05)
"""Part of the bandwidth that a stream reaches where it was not measured: that of a GCD of MI250 (measured.csv)."""


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
    devices: int,
    *,
    stream: Spread | None = None,
    reached: Spread = Spread(0.708, 0.05),
    scaling: Spread = Spread(0.945, 0.08),
    level: float = 0.9,
    seed: int = 0,
) -> Score:
    """Return the score of HPCG.

    Parameters
    ----------
    gpu : GPU
        A device as HPCG's ranks see it: ``MI250X (per GCD)``.
    devices : int
        Of them.
    stream, reached, scaling : Spread
        Part of the published bandwidth that a stream reaches (by default as measured on the device, else `STREAM`),
        part of that which HPCG reaches on one device, and part that is left on all. The defaults multiply to what
        Frontier reached in November 2023 (14.05 PFLOP/s). ``scaling`` is known the least: from 768 to some 4250 of
        Aurora's nodes a fifth of the score per device was lost.

    Raises
    ------
    ParameterError
        ``devices`` is below 1.
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
    drawn = _drawn(devices, seed, stream, reached, scaling)
    bandwidth = gpu.require("memory_bw_gbs") * 1e9
    peak = devices * FLOP_PER_BYTE * bandwidth
    scores = peak * np.prod(drawn, axis=0)
    inputs = {"bandwidth_gbs": bandwidth / 1e9, "stream": stream.median, "reached": reached.median}
    return _score("hpcg", devices, peak, scores, level, {**inputs, "scaling": scaling.median})


def _stream(gpu: GPU) -> Spread:
    """Return the part of the bandwidth that a triad reaches on `gpu`, `STREAM` where nobody measured it."""
    try:
        known = measured(gpu.measured_name, "hbm_triad")
    except UnknownGPUError:  # the user's own, based on none
        return STREAM
    shares = [share for one in known if (share := one.share(find(one.gpu)))]
    return Spread(max(shares), 0.03) if shares else STREAM


def hpl(
    gpu: GPU,
    devices: int,
    *,
    n: int | None = None,
    nb: int = 512,
    p: int | None = None,
    product: Spread = Spread(0.74, 0.02),
    panel_share: Spread = Spread(0.02, 0.3),
    network_gbs: Spread = Spread(20.0, 0.15),
    noise: float = 0.02,
    machine: Spread | None = None,
    level: float = 0.9,
    seed: int = 0,
) -> Score:
    """Return the score of HPL.

    Parameters
    ----------
    gpu : GPU
        A device as HPL's ranks see it: ``MI250X (per GCD)``.
    devices : int
        Of them, P · Q.
    n, nb, p : int, optional
        Size of the matrix (by default four fifths of the memory), width of a panel, rows of the grid (by default the
        divisor of ``devices`` next to its root).
    product, panel_share : Spread
        Part of the 64-bit vector peak that the update's products reach, and that a panel's factorisation does. The
        vector peak is what such machines are rated by; the matrix units of CDNA exceed it, the board's power does not.
    network_gbs : Spread
        Bandwidth per device between nodes, one way, GB/s.
    noise : float
        Standard deviation of the logarithm of the time of one panel.
    machine : Spread, optional
        What one machine and its tuning reach over another of the same devices; by default `machine_spread` about 1.

    Raises
    ------
    ParameterError
        ``devices`` is below 1, ``p`` does not divide it, or the matrix has no room.
    NotPublishedError
        The 64-bit peak or the memory is not published.
    """
    machine = machine or Spread(1.0, machine_spread())
    *drawn, tuned = _drawn(devices, seed, product, panel_share, network_gbs, machine)
    rows_ = p or _near_root(devices)
    if devices % rows_:
        raise ParameterError("p", f"must divide the {devices} devices, got {rows_}")
    room = devices * gpu.require("memory_gb") * GIB
    size = n or int(math.sqrt(MATRIX_SHARE * room / 8.0)) // nb * nb
    if not nb <= size or 8.0 * size**2 > room:
        raise ParameterError("n", f"must be from {nb} to {math.sqrt(room / 8):.0f}, the memory's size, got {size}")
    parts = _panels(gpu, devices, size, nb, rows_, drawn, noise, seed)
    seconds = np.sum(list(parts.values()), axis=0)
    scores = tuned * (2.0 / 3.0 * float(size) ** 3 + 1.5 * float(size) ** 2) / seconds
    inputs = {"n": float(size), "nb": float(nb), "p": float(rows_), "q": float(devices // rows_)}
    inputs |= {"product": product.median, "panel": panel_share.median, "network_gbs": network_gbs.median}
    notes = (remark("score-moves", percent=18.0, machines=round(100 * machine.sigma, 1)),)
    shares = {name: float(np.median(part / seconds)) for name, part in parts.items()}
    peak = devices * gpu.peak_tflops("fp64", "vector") * 1e12
    return _score("hpl", devices, peak, scores, level, inputs, notes, shares)


@cache
def machine_spread(without: str = "") -> float:
    """Return the standard deviation of the logarithm of published scores per device, a machine's own left out.

    That of MI250X machines in several lists (hpl_scores.csv): between machines, and of one machine over its tuning.
    """
    text = resources.files(__package__).joinpath("hpl_scores.csv").read_text(encoding="utf-8")
    rows = csv.DictReader(line for line in text.splitlines() if not line.startswith("#"))
    scores = [float(row["pflops"]) / float(row["cores"]) for row in rows if row["system"] != without]
    return float(np.std(np.log(scores), ddof=1))


def _panels(
    gpu: GPU, devices: int, size: int, nb: int, p: int, drawn: Sequence[FloatArray], noise: float, seed: int
) -> dict[str, FloatArray]:
    """Return the seconds of the whole factorisation, shape (draws,): its updates, panels not hidden, swaps."""
    peak = gpu.peak_tflops("fp64", "vector") * 1e12
    rate, panel, network = (column[:, None] for column in drawn)
    panels = -(-size // nb)
    together = -(-panels // MOST_PANELS)
    left = size - nb * (together * np.arange(-(-panels // together)) + (together - 1) / 2.0)
    left = np.maximum(left, nb / 2.0)
    q = devices // p
    update = 2.0 * nb * left**2 / devices / (rate * peak)
    factor = nb**2 * left / p / (panel * peak)
    broadcast = 8.0 * nb * left / p / (network * 1e9)
    swap = 8.0 * nb * left / q / (network * 1e9)
    hidden = np.maximum(factor + broadcast - update, 0.0)
    own = np.random.default_rng(seed).normal(0.0, noise / math.sqrt(together), update.shape) if noise else 0.0
    times = {"update": update, "panel": hidden, "swap": swap}
    return {name: np.sum(one * np.exp(own), axis=1) * panels / len(left) for name, one in times.items()}


def _drawn(devices: int, seed: int, *spreads: Spread) -> list[FloatArray]:
    """Return draws of every spread, shape (draws,) each; a ParameterError where there are no devices."""
    if devices < 1:
        raise ParameterError("devices", f"must be at least 1, got {devices}")
    normal = standard_normal(len(spreads), DRAWS, seed)
    return [spread.draws(column) for spread, column in zip(spreads, normal.T, strict=True)]


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
    middle, lower, upper = np.quantile(scores, [0.5, (1 - level) / 2, (1 + level) / 2]).tolist()
    return Score(benchmark, devices, middle, float(scores.mean()), lower, upper, peak, inputs, remarks, shares or {})


def _near_root(devices: int) -> int:
    return max(one for one in range(1, math.isqrt(devices) + 1) if devices % one == 0)

"""A GPU that is simulated, with its clock and its power logger: for tests, and to try recording without a GPU.

Times are those of an MI300X at a fixed share of its peaks; a collective takes a latency per step and the time of its
bytes on the links. Power follows the activity with a lag, HBM draws its own where a kernel's data exceed the last-level
cache, and a controller holds the board's power from the moment on that its slow average exceeds it. Of the rest the
compute dies (xcd) draw the more the longer a kernel computes, and the I/O dies the more the longer it moves data. The
constants were chosen so that the published errors of execution power come out
(`docs/guides/measuring.md`); they are no measurement of any GPU.
"""

from __future__ import annotations

import itertools
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Final

import numpy as np
import pandas as pd
from scipy.signal import lfilter

from ..errors import DataError
from ..hardware import find
from ..operators.operators import work_of
from ..operators.work import collective_sent_bytes
from ..power.logs import TOTAL
from .power_rigs import Train
from .rows import Row, described, word

EPOCH_NS: Final = 1_700_000_000_000_000_000
"""When the simulated day begins, on the CPU's clock."""
OFFSET_NS, DRIFT = 3_000_000, 50e-6
"""By how much the GPU's clock is ahead of the CPU's at that moment, and gains on it."""
MODEL: Final = "MI300X"
EFFICIENCY: Final = 0.45
"""Share of the peaks that kernels reach."""
LAUNCH_US: Final = 3.0
IDLE_W, COMPUTE_W, HBM_W = 80.0, 640.0, 190.0
IDLE_OF_W: Final = {"xcd": 40.0, "iod": 28.0, "hbm": 12.0}
IOD_SHARE: Final = (0.1, 0.6)
"""Of the power besides HBM's: of a kernel that only computes, and of one that only moves data."""
STEP_US: Final = 8.0
"""Latency of a step of a collective; an all-reduce has two."""
FILL_US: Final = 20.0
"""A kernel as long as this draws half of what a long one does."""
LAG_US, CONTROLLER_US = 400.0, 6000.0
"""Time constants of the power behind the activity, and of the controller's average."""
WARM: Final = (1.3, 1.1, 1.03)
"""How much slower the first executions are."""
JITTER, DISTURBED, SLOWDOWN, NOISE = 0.02, 0.1, (1.3, 2.0), 0.01
"""Scatter of the runs' times, share of slower runs and by how much, scatter of a reading."""
READ_US: Final = 6.0
"""Median delay of a read of the counter."""


@dataclass(frozen=True)
class Load:
    """What one execution of a kernel is."""

    us: float
    above_w: Mapping[str, float]  # power above idle of each component and in total, when it has run for long


class SimulatedGPU:
    """A rig whose time is simulated; the same seed and key of a train give the same times and noise.

    Parameters
    ----------
    interval_us : float
        Averaging window of the logger and time between its readings.
    seed : int
        Of times, delays and noise.
    """

    def __init__(self, interval_us: float, seed: int) -> None:
        self.interval_us, self._seed, self._now_us = interval_us, seed, 0.0
        self.gpu_name, self.loads = MODEL, list[Load]()
        self.limit_w = float(find(MODEL).tdp_w or np.inf)

    def use(self, *kernels: tuple[Row, int]) -> None:
        """Make kernels ready; see `Rig.use`."""
        self.loads = [load_of(row, repeats) for row, repeats in kernels]

    @property
    def steady_w(self) -> float:
        """The power of the kernels when they have run back to back for long: the truth, on average."""
        energy = sum(load.us * load.above_w[TOTAL] for load in self.loads)
        return min(IDLE_W + energy / sum(load.us for load in self.loads), self.limit_w)

    def train(self, executions: int, pause_us: float, key: tuple[int, ...]) -> Train:
        """Run a train; see `Rig.train`."""
        rng = np.random.default_rng([self._seed, *key])
        slow = rng.uniform(*SLOWDOWN) if rng.random() < DISTURBED else 1.0
        once_us = np.array([load.us for load in self.loads])
        length = np.outer(np.ones(executions), once_us) * slow * np.exp(rng.normal(0, JITTER))  # (executions, kernels)
        length[: len(WARM)] *= np.array(WARM[:executions])[:, None]
        begin_us = self._now_us + pause_us
        end = begin_us + np.cumsum(length)
        until_us = float(end[-1]) + self.interval_us
        issued_us = np.array([self._now_us + pause_us / 2, until_us])
        delay_us = READ_US * np.exp(rng.normal(0, 0.5, 2))
        sampled_us = issued_us + delay_us * rng.random(2)
        stamps = self._stamps(until_us)
        times, active = self._active(begin_us, end, until_us, slow)
        averaged = [self._averaged(times, one, stamps) for one in active]
        read = {}
        for name, idle_w in {TOTAL: IDLE_W, **IDLE_OF_W}.items():
            watts = idle_w + sum(load.above_w[name] * one for load, one in zip(self.loads, averaged, strict=True))
            read[name] = np.round(watts * (1 + rng.normal(0, NOISE, len(stamps))), 2).tolist()
        edges = _cpu_ns(np.r_[begin_us, end]).tolist()
        self.after(edges[-1])  # to the nanosecond, as an earlier process would have left it
        pairs = zip(_gpu_ns(sampled_us), _cpu_ns(issued_us), np.rint(1e3 * delay_us), strict=True)
        return Train(
            list(itertools.pairwise(edges)),
            list(zip(_gpu_ns(stamps).tolist(), read.pop(TOTAL), strict=True)),
            [(int(gpu), int(cpu), int(delay)) for gpu, cpu, delay in pairs],
            read,
        )

    def after(self, last_ns: int) -> None:
        """Go on after an earlier process; see `Rig.after`."""
        self._now_us = (last_ns - EPOCH_NS) / 1e3 + self.interval_us + 100

    def close(self) -> None:
        """Do nothing: no logger runs."""

    def _active(
        self, begin_us: float, end_us: np.ndarray, until_us: float, slow: float
    ) -> tuple[np.ndarray, list[np.ndarray]]:
        """Return times from the end of the train before on, and the share of its power that each kernel draws then."""
        step = min(self.interval_us / 500, *(load.us / 40 for load in self.loads), LAG_US / 20)
        times = self._now_us + step * np.arange(int((until_us - self._now_us) / step) + 2)
        active = np.clip((times - begin_us) / step, 0, 1) * (times < end_us[-1]) / slow
        turn = np.searchsorted(end_us, times, side="right") % len(self.loads)
        drawn = [_lagging(active * (turn == place), step / LAG_US) for place in range(len(self.loads))]
        above_w = np.sum([load.above_w[TOTAL] * one for load, one in zip(self.loads, drawn, strict=True)], axis=0)
        most_w = self.limit_w - IDLE_W
        held = np.logical_or.accumulate(_lagging(above_w, step / CONTROLLER_US) > most_w)
        kept = np.where(held & (above_w > most_w), most_w / np.maximum(above_w, most_w), 1)
        return times, [kept * one for one in drawn]

    def _stamps(self, until_us: float) -> np.ndarray:
        """Return when the logger reads, from the end of the train before on: its period varies by 1 %."""
        period = self.interval_us
        ticks = np.arange(int(self._now_us / period), int(until_us / period) + 1)
        varied = period * (ticks + 0.5 + 0.01 * np.sin(12.9898 * ticks))
        return varied[(varied > self._now_us) & (varied <= until_us)]

    def _averaged(self, times: np.ndarray, values: np.ndarray, stamps: np.ndarray) -> np.ndarray:
        """Return the means of values, 0 before the first time, over the logger's window before each stamp."""
        area = np.r_[0.0, np.cumsum((values[1:] + values[:-1]) / 2 * np.diff(times))]
        before = np.interp(stamps - self.interval_us, times, area)
        return (np.interp(stamps, times, area) - before) / self.interval_us


def load_of(row: Row, repeats: int) -> Load:
    """Return the load of so many launches of a kernel back to back.

    Raises
    ------
    DataError
        Its work is not known.
    """
    gpu = find(MODEL)
    work = work_of(pd.DataFrame([row]))
    flops, bytes_moved = float(work.flops[0]), float(work.bytes[0])
    if not np.isfinite(bytes_moved):
        raise DataError(f"the work of {described(row)} is not known: it cannot be simulated")
    compute_us = flops / (EFFICIENCY * 1e6 * gpu.peak_tflops(str(work.dtype[0]))) if flops else 0.0
    moving_us = bytes_moved / (EFFICIENCY * 1e3 * float(gpu.memory_bw_gbs or np.inf))
    waiting_us = 0.0
    if row["op"] == "collective":
        sent = float(collective_sent_bytes(pd.DataFrame([row]))[0])
        moving_us = max(moving_us, sent / (EFFICIENCY * 1e3 * float(gpu.link_bw_gbs or np.inf)))
        waiting_us = STEP_US * (2 if word(row, "variant") == "all_reduce" else 1)
    once_us = max(compute_us, moving_us) + waiting_us + LAUNCH_US
    hbm_w = HBM_W * (bytes_moved > 2**20 * float(gpu.llc_mb or 0))
    busy = max(compute_us, moving_us / 2, waiting_us / 4) / once_us
    dies_w = COMPUTE_W * once_us / (once_us + FILL_US) * busy
    computing = compute_us / (compute_us + moving_us + waiting_us)
    iod_w = dies_w * (IOD_SHARE[1] + (IOD_SHARE[0] - IOD_SHARE[1]) * computing)
    return Load(repeats * once_us, {TOTAL: dies_w + hbm_w, "xcd": dies_w - iod_w, "iod": iod_w, "hbm": hbm_w})


def _lagging(values: np.ndarray, share: float) -> np.ndarray:
    """Return what follows the values with a lag, `share` of which passes between two of them."""
    kept = np.exp(-share)
    return lfilter([1 - kept], [1, -kept], values)


def _cpu_ns(us: np.ndarray) -> np.ndarray:
    return EPOCH_NS + np.rint(1e3 * us).astype(np.int64)


def _gpu_ns(us: np.ndarray) -> np.ndarray:
    return EPOCH_NS + OFFSET_NS + np.rint(1e3 * us * (1 + DRIFT)).astype(np.int64)

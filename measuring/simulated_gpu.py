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
from typing import Final

import numpy as np
import pandas as pd
from scipy.signal import lfilter

from ..errors import DataError
from ..hardware import find
from ..operators.operators import work_of
from ..operators.work import collective_sent_bytes
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
        self.gpu_name, self.kernel_us, self.above_w = MODEL, np.nan, np.nan
        self.shares = dict.fromkeys(IDLE_OF_W, np.nan)  # of the components in the power above idle
        self.limit_w = float(find(MODEL).tdp_w or np.inf)

    def use(self, row: Row, repeats: int) -> None:
        """Make a kernel ready; see `Rig.use`."""
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
        self.kernel_us, self.above_w = repeats * once_us, dies_w + hbm_w
        computing = compute_us / (compute_us + moving_us + waiting_us)
        iod_w = dies_w * (IOD_SHARE[1] + (IOD_SHARE[0] - IOD_SHARE[1]) * computing)
        self.shares = {
            "xcd": (dies_w - iod_w) / self.above_w, "iod": iod_w / self.above_w, "hbm": hbm_w / self.above_w
        }  # fmt: skip

    @property
    def steady_w(self) -> float:
        """The power of the kernel when it has run back to back for long: the truth."""
        return min(IDLE_W + self.above_w, self.limit_w)

    def train(self, executions: int, pause_us: float, key: tuple[int, ...]) -> Train:
        """Run a train; see `Rig.train`."""
        rng = np.random.default_rng([self._seed, *key])
        slow = rng.uniform(*SLOWDOWN) if rng.random() < DISTURBED else 1.0
        length = np.full(executions, self.kernel_us * slow * np.exp(rng.normal(0, JITTER)))
        length[: len(WARM)] *= WARM[:executions]
        begin_us = self._now_us + pause_us
        end = begin_us + np.cumsum(length)
        until_us = float(end[-1]) + self.interval_us
        issued_us = np.array([self._now_us + pause_us / 2, until_us])
        delay_us = READ_US * np.exp(rng.normal(0, 0.5, 2))
        sampled_us = issued_us + delay_us * rng.random(2)
        times, power = self._power(begin_us, float(end[-1]), until_us, slow)
        stamps = self._stamps(until_us)
        averaged = self._averaged(times, power, stamps)
        watts = averaged * (1 + rng.normal(0, NOISE, len(stamps)))
        components = {
            name: np.round(
                (IDLE_OF_W[name] + share * (averaged - IDLE_W)) * (1 + rng.normal(0, NOISE, len(stamps))), 2
            ).tolist()
            for name, share in self.shares.items()
        }
        edges = _cpu_ns(np.r_[begin_us, end]).tolist()
        self.after(edges[-1])  # to the nanosecond, as an earlier process would have left it
        pairs = zip(_gpu_ns(sampled_us), _cpu_ns(issued_us), np.rint(1e3 * delay_us), strict=True)
        return Train(
            list(itertools.pairwise(edges)),
            list(zip(_gpu_ns(stamps).tolist(), np.round(watts, 2).tolist(), strict=True)),
            [(int(gpu), int(cpu), int(delay)) for gpu, cpu, delay in pairs],
            components,
        )

    def after(self, last_ns: int) -> None:
        """Go on after an earlier process; see `Rig.after`."""
        self._now_us = (last_ns - EPOCH_NS) / 1e3 + self.interval_us + 100

    def close(self) -> None:
        """Do nothing: no logger runs."""

    def _power(self, begin_us: float, end_us: float, until_us: float, slow: float) -> tuple[np.ndarray, np.ndarray]:
        """Return times from the end of the train before on, and the power at each; it was idle before."""
        step = min(self.interval_us / 500, self.kernel_us / 40, LAG_US / 20)
        times = self._now_us + step * np.arange(int((until_us - self._now_us) / step) + 2)
        active = np.clip((times - begin_us) / step, 0, 1) * (times < end_us) * self.above_w / slow
        power = IDLE_W + _lagging(active, step / LAG_US)
        held = np.logical_or.accumulate(_lagging(power - IDLE_W, step / CONTROLLER_US) + IDLE_W > self.limit_w)
        return times, np.where(held, np.minimum(power, self.limit_w), power)

    def _stamps(self, until_us: float) -> np.ndarray:
        """Return when the logger reads, from the end of the train before on: its period varies by 1 %."""
        period = self.interval_us
        ticks = np.arange(int(self._now_us / period), int(until_us / period) + 1)
        varied = period * (ticks + 0.5 + 0.01 * np.sin(12.9898 * ticks))
        return varied[(varied > self._now_us) & (varied <= until_us)]

    def _averaged(self, times: np.ndarray, power: np.ndarray, stamps: np.ndarray) -> np.ndarray:
        """Return what the logger shows at its stamps: the mean over the window before each."""
        energy = np.r_[0.0, np.cumsum((power[1:] + power[:-1]) / 2 * np.diff(times))]
        before = np.interp(stamps - self.interval_us, times, energy)
        before += IDLE_W * np.minimum(stamps - self.interval_us - times[0], 0)
        return (np.interp(stamps, times, energy) - before) / self.interval_us


def _lagging(values: np.ndarray, share: float) -> np.ndarray:
    """Return what follows the values with a lag, `share` of which passes between two of them."""
    kept = np.exp(-share)
    return lfilter([1 - kept], [1, -kept], values)


def _cpu_ns(us: np.ndarray) -> np.ndarray:
    return EPOCH_NS + np.rint(1e3 * us).astype(np.int64)


def _gpu_ns(us: np.ndarray) -> np.ndarray:
    return EPOCH_NS + OFFSET_NS + np.rint(1e3 * us * (1 + DRIFT)).astype(np.int64)

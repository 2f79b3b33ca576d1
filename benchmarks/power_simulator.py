"""A power logger that knows the truth: what it would have read, and the kernel's curve and energy that it read from."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Final

import numpy as np
import pandas as pd

from ..power.logs import TOTAL
from ..power.runs import plan

Shape = Callable[[np.ndarray], np.ndarray]
"""From positions in the kernel's time (0 to 1) to power above idle in watts."""


def _xcd(phase: np.ndarray) -> np.ndarray:
    return 330 * (1 - 0.6 * np.exp(-phase / 0.2)) * (1 - 0.25 * phase**2)


def _iod(phase: np.ndarray) -> np.ndarray:
    return 70 + 20 * phase


def _hbm(phase: np.ndarray) -> np.ndarray:
    return 60 + 80 * np.exp(-(((phase - 0.3) / 0.25) ** 2))


COMPONENTS: Final[Mapping[str, Shape]] = {"xcd": _xcd, "iod": _iod, "hbm": _hbm}
IDLE_W: Final[Mapping[str, float]] = {"xcd": 60.0, "iod": 55.0, "hbm": 25.0}

_FINE: Final = 2048
"""Steps of the kernel's time in which a shape is integrated."""
_EPOCH_NS: Final = 1_700_000_000_000_000_000
"""CPU times are those since 1970, which no float holds to the nanosecond."""


@dataclass(frozen=True)
class Scenario:
    """What to simulate; times in microseconds.

    Attributes
    ----------
    kernel_us : float
        Time of a golden execution.
    runs, executions : int, int or None
        Executions per run: by default one more than `plan` needs to fill the window.
    window_us, period_us : float
        Averaging window of the logger (0: instantaneous), and the time between its readings.
    offset_us, drift_ppm : float
        Of the GPU's clock against the CPU's.
    jitter : float
        Standard deviation of the logarithm of a run's execution time.
    outliers, slowdown : float, (float, float)
        Share of runs that are disturbed, and by how much they are slower; they do the same work at
        less power.
    noise : float
        Standard deviation of a reading, relative.
    gap_us : float
        Between the executions of a run.
    pause_us : (float, float)
        Random delay before each run, between these.
    warm : tuple of float
        How much slower the first executions of each run are.
    read_us, bad_pairs : float
        Median delay of a clock read, and the share of pairs that are wrong by far.
    throttle : float
        By this share the power above idle is lower in the first quarter of each run and from its
        middle on.
    shapes, idle_w : mapping
        Power of each component above idle over the kernel's time, and at idle.
    seed : int
    """

    kernel_us: float = 120.0
    runs: int = 200
    executions: int | None = None
    window_us: float = 1000.0
    period_us: float = 1000.0
    offset_us: float = 3000.0
    drift_ppm: float = 50.0
    jitter: float = 0.05
    outliers: float = 0.10
    slowdown: tuple[float, float] = (1.3, 2.0)
    noise: float = 0.02
    gap_us: float = 0.5
    pause_us: tuple[float, float] = (5000.0, 9000.0)
    warm: tuple[float, ...] = (1.3, 1.1, 1.03)
    read_us: float = 6.0
    bad_pairs: float = 0.02
    throttle: float = 0.0
    shapes: Mapping[str, Shape] = field(default_factory=lambda: COMPONENTS)
    idle_w: Mapping[str, float] = field(default_factory=lambda: IDLE_W)
    seed: int = 0

    @property
    def executions_per_run(self) -> int:
        """As given, or one more than fill the window."""
        return self.executions or plan(self.kernel_us, self.window_us).executions_filled + 1


@dataclass(frozen=True)
class Truth:
    """What the tables were made from: a golden execution, without noise."""

    scenario: Scenario

    def power_w(self, phase: np.ndarray, component: str = TOTAL) -> np.ndarray:
        """Return the kernel's power at positions in its time."""
        return sum(
            (
                self.scenario.idle_w[name] + self.scenario.shapes[name](phase)
                for name in self._parts(component)
            ),
            start=np.zeros(len(phase)),
        )

    def averaged_w(self, phase: np.ndarray, component: str = TOTAL) -> np.ndarray:
        """Return what the logger shows of it when the kernel has run back to back for longer than the window."""
        window = self.scenario.window_us / self.scenario.kernel_us
        if not window:
            return self.power_w(phase, component)
        edges = np.linspace(0, 1, _FINE + 1)
        power = self.power_w(edges, component)
        total = np.concatenate([[0.0], np.cumsum((power[1:] + power[:-1]) / 2) / _FINE])

        def until(at: np.ndarray) -> np.ndarray:
            whole = np.floor(at)
            return whole * total[-1] + np.interp(at - whole, edges, total)

        return (until(phase) - until(phase - window)) / window

    def energy_j(self, component: str = TOTAL) -> float:
        """Return the energy of one execution."""
        middles = (np.arange(_FINE) + 0.5) / _FINE
        return float(self.power_w(middles, component).mean()) * self.scenario.kernel_us * 1e-6

    def _parts(self, component: str) -> list[str]:
        return list(self.scenario.shapes) if component == TOTAL else [component]


@dataclass(frozen=True)
class Simulation:
    """The three tables, as `power.readings` describes them, and the truth."""

    log: pd.DataFrame
    executions: pd.DataFrame
    pairs: pd.DataFrame
    truth: Truth


def simulate(scenario: Scenario) -> Simulation:
    """Simulate a measurement; the same scenario gives the same tables."""
    rng = np.random.default_rng(scenario.seed)
    slow = _slowdowns(scenario, rng)
    start, end = _schedule(scenario, slow, rng)
    times = _stamps(scenario, float(end[-1, -1]), rng)
    log = _log(scenario, times, start, end, slow, rng)
    pairs = _pairs(scenario, start[:, 0], rng)
    count = scenario.executions_per_run
    executions = pd.DataFrame(
        {
            "start_ns": _cpu_ns(start.ravel()),
            "end_ns": _cpu_ns(end.ravel()),
            "kernel": "gemm",
            "run": np.repeat(np.arange(scenario.runs), count),
            "execution": np.tile(np.arange(1, count + 1), scenario.runs),
        }
    )
    return Simulation(log, executions, pairs, Truth(scenario))


def _slowdowns(scenario: Scenario, rng: np.random.Generator) -> np.ndarray:
    """Return by how much each run is disturbed: 1 for most; shape (runs,)."""
    disturbed = rng.random(scenario.runs) < scenario.outliers
    return np.where(disturbed, rng.uniform(*scenario.slowdown, scenario.runs), 1.0)


def _schedule(
    scenario: Scenario, slow: np.ndarray, rng: np.random.Generator
) -> tuple[np.ndarray, np.ndarray]:
    """Return start and end of every execution in us since the beginning, each of shape (runs, executions)."""
    count = scenario.executions_per_run
    jitter = np.exp(rng.normal(0, scenario.jitter, scenario.runs))
    warm = np.ones(count)
    warm[: len(scenario.warm)] = scenario.warm[:count]
    length = scenario.kernel_us * (slow * jitter)[:, None] * warm  # (runs, executions)
    within = np.cumsum(length + scenario.gap_us, axis=1)
    pause = rng.uniform(*scenario.pause_us, scenario.runs)
    begin = np.cumsum(pause) + np.concatenate([[0.0], np.cumsum(within[:-1, -1])])
    end = begin[:, None] + within - scenario.gap_us
    return end - length, end


def _stamps(scenario: Scenario, last_us: float, rng: np.random.Generator) -> np.ndarray:
    """Return the CPU times of the readings, with 1 % of jitter of the period."""
    count = int(last_us / scenario.period_us)
    grid = scenario.period_us * (np.arange(count) + 0.5 + rng.random())
    return grid + rng.uniform(-0.01, 0.01, count) * scenario.period_us


def _log(
    scenario: Scenario,
    times: np.ndarray,
    start: np.ndarray,
    end: np.ndarray,
    slow: np.ndarray,
    rng: np.random.Generator,
) -> pd.DataFrame:
    """Return the readings of every component and of their total."""
    scale = np.repeat(1 / slow[:, None], start.shape[1], axis=1)
    scale[:, : start.shape[1] // 4] *= 1 - scenario.throttle
    scale[:, start.shape[1] // 2 :] *= 1 - scenario.throttle
    read = {
        name: scenario.idle_w[name]
        + _dynamic(shape, times, start.ravel(), end.ravel(), scale.ravel(), scenario)
        for name, shape in scenario.shapes.items()
    }
    read = {TOTAL: np.sum(list(read.values()), axis=0), **read}
    gpu_ns = _gpu_ns(scenario, times)
    return pd.concat(
        [
            pd.DataFrame(
                {
                    "gpu_ns": gpu_ns,
                    "component": name,
                    "power_w": power * (1 + rng.normal(0, scenario.noise, len(times))),
                }
            )
            for name, power in read.items()
        ],
        ignore_index=True,
    )


def _dynamic(
    shape: Shape,
    times: np.ndarray,
    start: np.ndarray,
    end: np.ndarray,
    scale: np.ndarray,
    scenario: Scenario,
) -> np.ndarray:
    """Return the power above idle that the logger shows at each time, averaged over its window."""
    edges = np.linspace(0, 1, _FINE + 1)
    above = shape(edges)

    def place(at: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        index = np.clip(np.searchsorted(start, at, side="right") - 1, 0, None)
        return index, np.clip((at - start[index]) / (end - start)[index], 0, 1)

    if not scenario.window_us:
        index, phase = place(times)
        running = (times >= start[index]) & (times <= end[index])
        return np.where(running, scale[index] * np.interp(phase, edges, above), 0.0)
    total = np.concatenate([[0.0], np.cumsum((above[1:] + above[:-1]) / 2) / _FINE])
    of_each = scale * (end - start)
    before = np.concatenate([[0.0], np.cumsum(of_each * total[-1])])

    def until(at: np.ndarray) -> np.ndarray:
        index, phase = place(at)
        return before[index] + of_each[index] * np.interp(phase, edges, total)

    return (until(times) - until(times - scenario.window_us)) / scenario.window_us


def _pairs(scenario: Scenario, run_start: np.ndarray, rng: np.random.Generator) -> pd.DataFrame:
    """Return a clock pair shortly before each run, and one after the last."""
    issued = np.concatenate([run_start - 500, [run_start[-1] + 1e4 + 50 * scenario.kernel_us]])
    delay = scenario.read_us * np.exp(rng.normal(0, 0.5, len(issued)))
    sampled = issued + delay * rng.random(len(issued))
    bad = rng.random(len(issued)) < scenario.bad_pairs
    # preempted after the CPU's clock was read
    cpu = issued + np.where(bad, -rng.uniform(100, 1000, len(issued)), 0.0)
    return pd.DataFrame(
        {
            "gpu_ns": _gpu_ns(scenario, sampled),
            "cpu_ns": _cpu_ns(cpu),
            "delay_ns": np.rint(1e3 * delay).astype(np.int64),
        }
    )


def _cpu_ns(us: np.ndarray) -> np.ndarray:
    return _EPOCH_NS + np.rint(1e3 * us).astype(np.int64)


def _gpu_ns(scenario: Scenario, us: np.ndarray) -> np.ndarray:
    """Return a time on the GPU's clock, which runs ahead by the offset and gains by the drift."""
    return _cpu_ns(us * (1 + 1e-6 * scenario.drift_ppm) + scenario.offset_us)

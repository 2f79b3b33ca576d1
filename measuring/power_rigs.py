"""What the power of kernels is recorded with: a GPU under PyTorch beside a logger, or a GPU that is simulated.

A `Rig` runs a kernel in trains of executions and returns, of each, when the executions ran, what
the logger read meanwhile, and readings of the GPU's counter beside the CPU's clock. The loggers of
a GPU stamp their readings by the CPU's clock; the executions come from timing events, whose counter
is put on that clock in every train.
"""

from __future__ import annotations

import importlib
import itertools
import threading
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path
from typing import Any, Final, Protocol

import numpy as np
import pandas as pd
from scipy.signal import lfilter

from ..errors import DataError, FlopcastError, ParameterError, one_line
from ..hardware import find
from ..hardware.constants import constant
from ..operators.kinds.collective import sent_bytes
from ..operators.op import word
from ..operators.operators import work_of
from ..power.clocks import fit_clocks
from ..power.logs import TOTAL
from .backend import Backend, Operands, build
from .machine import TOOLS, Tool, output_of, parse_reading, smi_id, vendor
from .rows import Row, described
from .timing import Call

AMDSMI = "amdsmi"
HWMON = "hwmon"
AMD_SMI = "amd-smi"
ROCM_SMI = "rocm-smi"
NVML = "nvml"
SIMULATED = "simulated"
INTERVAL_US: Final[Mapping[str, float]] = {
    AMDSMI: 1e3,
    HWMON: 1e3,
    AMD_SMI: 1e6,
    ROCM_SMI: 1e6,
    NVML: 2e4,
    SIMULATED: 1e3,
}
"""Loggers, and the time that each is taken to average over: a process for each reading is no
faster; AMD's binding and the kernel's file are read within this process, and NVIDIA's driver
samples every 20 ms by itself."""
DRM: Final = Path("/sys/class/drm")  # where the Linux kernel lists graphics cards
_WATTS: Final = ("current_socket_power", "socket_power", "average_socket_power")
"""Keys of the binding's power, the best first: releases of ROCm differ, and give "N/A" for what they do not read."""
# reads of the GPU's counter before and after a train; the one with the shortest delay counts
COUNTER_READS: Final = 5
Clock = Callable[[], int]
Power = float | list[tuple[int, float]]
"""What a logger reads: watts now, or readings that it has stamped itself, CPU's nanoseconds and watts."""


@dataclass(frozen=True)
class Train:
    """The record of one train of executions; times in nanoseconds."""

    # start and end on the CPU's clock; of several kernels in turn
    executions: list[tuple[int, int]]
    readings: list[tuple[int, float]]  # stamp on the logger's clock, watts
    # of the logger's clock: gpu_ns, cpu_ns, delay_ns; none of a logger on the CPU's
    pairs: list[tuple[int, int, int]]
    # watts of parts of the GPU at the same stamps
    components: dict[str, list[float]] = field(default_factory=dict)


class Rig(Protocol):
    """Something that runs kernels while a logger reads the power."""

    interval_us: float  # that the logger averages over
    gpu_name: str

    @property
    def limit_w(self) -> float | None:
        """The hard limit of power, even for a moment; a real board has one."""
        ...

    def use(self, *kernels: tuple[Row, int]) -> None:
        """Make kernels ready, with fresh operands; so many launches of each count as one execution."""
        ...

    def train(self, executions: int, pause_us: float, key: tuple[int, ...]) -> Train:
        """Wait, then run the kernels in turn, so often, back to back; `key` names the train within the recording."""
        ...

    def after(self, last_ns: int) -> None:
        """Go on after an earlier process, whose last execution ended then."""
        ...

    def close(self) -> None:
        """Stop the logger."""
        ...


class Sampler:
    """A thread that reads the power again and again; readings without a stamp get the middle of the time they took.

    A reading that takes longer than ``period_us``, between the beginnings of two, is followed by
    the next at once.
    """

    def __init__(
        self, read: Callable[[], Power], period_us: float, clock: Clock = time.time_ns
    ) -> None:
        self._read = read
        self._period_s = period_us / 1e6
        self._clock = clock
        self._readings = list[tuple[int, float]]()
        self._error = ""
        self._stop = threading.Event()
        self._lock = threading.Lock()
        self._thread = threading.Thread(target=self._sample, daemon=True)
        self._thread.start()

    def take(self, until_ns: int, patience_s: float = 60.0) -> list[tuple[int, float]]:
        """Return the readings since the last call, once there is one from `until_ns` on.

        Raises DataError: the logger failed, or reads no more.
        """
        ends = time.monotonic() + patience_s + 3 * self._period_s
        while not self._readings or self._readings[-1][0] < until_ns:
            if self._error or time.monotonic() > ends:
                raise DataError(
                    f"the power logger gives no readings: {self._error or 'it does not answer'}"
                )
            self._stop.wait(min(self._period_s / 10, 0.01))
        with self._lock:
            taken = self._readings
            self._readings = []
        return taken

    def close(self) -> None:
        """End the thread."""
        self._stop.set()
        self._thread.join()

    def _sample(self) -> None:
        while not self._stop.is_set():
            begun = self._clock()
            started = time.monotonic()
            try:
                readings = self._read()
            except Exception as error:  # whatever it is, the thread that waits for readings says it
                self._error = one_line(error)
                return
            with self._lock:
                if not isinstance(readings, list):
                    readings = [((begun + self._clock()) // 2, readings)]
                self._readings += readings
            self._stop.wait(max(self._period_s - (time.monotonic() - started), 0.0))


def smi_power(tool: Tool, gpu: str) -> float:
    """Return the power that a vendor's tool reports now.

    Raises DataError, OSError, SubprocessError: it reports none, cannot be started or fails.
    """
    reading = parse_reading(output_of(tool.command(gpu), partial(time.sleep, 0.002)))
    if "power_w" not in reading:
        raise DataError(f"{tool.name} reports no power of GPU {gpu}")
    return reading["power_w"]


def nvml_power(identifier: str) -> Callable[[], Power]:
    """Return a reader of the power samples of NVIDIA's driver since the last call, with their stamps.

    On an H100 a sample comes every 20 ms (10 to 37), each the mean of about so long; the
    instantaneous power that NVML and nvidia-smi report is one of five of them. Raises
    FlopcastError: NVML is not installed, does not know the GPU, or its driver keeps no samples of
    the power.
    """
    try:
        nvml = importlib.import_module("pynvml")
    except ModuleNotFoundError as error:
        raise FlopcastError(
            "the logger nvml needs NVML's Python module: pip install nvidia-ml-py"
        ) from error
    latest = 0  # microseconds since 1970

    def read() -> Power:
        nonlocal latest
        try:
            _, samples = nvml.nvmlDeviceGetSamples(gpu, nvml.NVML_TOTAL_POWER_SAMPLES, latest)
        except nvml.NVMLError_NotFound:  # none since then
            return []
        fresh = [one for one in samples if one.timeStamp > latest]
        latest = max((int(one.timeStamp) for one in fresh), default=latest)
        return [(1000 * int(one.timeStamp), one.sampleValue.uiVal / 1e3) for one in fresh]

    try:
        nvml.nvmlInit()
        gpu = nvml.nvmlDeviceGetHandleByUUID(identifier)
        read()
    except nvml.NVMLError as error:
        raise DataError(f"NVML does not read GPU {identifier}: {one_line(error)}") from error
    return read


def amdsmi_power(index: int) -> Callable[[], float]:
    """Return a reader of a GPU's power through AMD's management library, in this process.

    Raises FlopcastError: the binding is not installed, does not know the GPU, or reads no power of
    it.
    """
    try:
        amdsmi = importlib.import_module("amdsmi")
    except (ImportError, OSError) as error:  # the library beside it may lack too
        raise FlopcastError(
            "the logger amdsmi needs AMD's binding: pip install /opt/rocm/share/amd_smi"
        ) from error
    try:
        amdsmi.amdsmi_init()
        gpu = amdsmi.amdsmi_get_processor_handles()[index]
        info = amdsmi.amdsmi_get_power_info(gpu)
    except (amdsmi.AmdSmiException, IndexError) as error:
        raise DataError(f"amdsmi does not read GPU {index}: {one_line(error)}") from error
    key = next((name for name in _WATTS if isinstance(info.get(name), int | float)), None)
    if key is None:
        raise DataError(f"amdsmi reports no power of GPU {index}: try the logger {HWMON}")
    return lambda: float(amdsmi.amdsmi_get_power_info(gpu)[key])


def hwmon_power(bus: str, folder: Path = DRM) -> Callable[[], float]:
    """Return a reader of the power of the GPU at a PCI address from the Linux kernel's file (microwatts).

    Raises DataError: the kernel has no such file of that GPU.
    """
    for device in sorted(folder.glob("card*/device")):
        if device.resolve().name.casefold() != bus.casefold():
            continue
        for name in ("power1_input", "power1_average"):
            for file in sorted(device.glob(f"hwmon/hwmon*/{name}")):
                return lambda file=file: int(file.read_bytes()) / 1e6
    raise DataError(
        f"the kernel has no power of the GPU at {bus}: no power1_input or power1_average under "
        f"{folder}"
    )


def _bus(backend: Backend) -> str:
    """Return the PCI address of a GPU as Linux writes it."""
    properties = backend.torch.cuda.get_device_properties(backend.index)
    numbers = [getattr(properties, f"pci_{name}_id", None) for name in ("domain", "bus", "device")]
    if None in numbers:
        raise DataError(
            "PyTorch does not say at which PCI address the GPU is: update it, or take the logger "
            "amdsmi"
        )
    return "{:04x}:{:02x}:{:02x}.0".format(*numbers)


def power_reader(logger: str, backend: Backend) -> Callable[[], Power]:
    """Return a reader of the GPU's power.

    Raises ParameterError, DataError: PyTorch runs on no GPU here, the logger is another vendor's,
    or it does not know the GPU.
    """
    if not backend.is_gpu:
        raise DataError(
            "there is no GPU whose power could be recorded: --logger simulated shows how it goes"
        )
    maker = vendor(backend.torch)
    if (logger == NVML) != (maker == "nvidia"):
        usual = f"{AMDSMI}, {HWMON}, {AMD_SMI} or {ROCM_SMI}"
        if maker == "nvidia":
            usual = NVML
        raise ParameterError("logger", f"must be {usual} on {backend.gpu_name}, got {logger}")
    if logger == HWMON:
        return hwmon_power(_bus(backend))
    identifier = smi_id(backend)
    if identifier is None:
        raise DataError(
            "the GPU cannot be named to the logger: unset HIP_VISIBLE_DEVICES and the like, "
            "update PyTorch"
        )
    if logger == NVML:
        return nvml_power(identifier)
    if logger == AMDSMI:
        return amdsmi_power(int(identifier))
    tool = next(one for one in TOOLS["amd"] if one.name == logger)
    return partial(smi_power, tool, identifier)


class TorchRig:
    """A GPU under PyTorch beside a logger on the CPU's clock."""

    def __init__(
        self, backend: Backend, read: Callable[[], Power], interval_us: float, seed: int
    ) -> None:
        self.backend = backend
        self.interval_us = interval_us
        self._seed = seed
        self.gpu_name = backend.gpu_name
        self.limit_w: float | None = None
        self._sampler = Sampler(read, interval_us)
        self._calls = list[Call]()

    def use(self, *kernels: tuple[Row, int]) -> None:
        """Make kernels ready; see `Rig.use`."""
        calls = dict[int, Call]()
        for row, repeats in kernels:
            # a kernel that comes several times in turn has its operands once
            if id(row) not in calls:
                calls[id(row)] = self._call(row, repeats, alone=len(kernels) == 1)
        self._calls = [calls[id(row)] for row, _ in kernels]

    def _call(self, row: Row, repeats: int, *, alone: bool) -> Call:
        """Return the launch of a kernel, with its precision set if it is not alone."""
        dtype = word(row, "dtype_a")
        self.backend.multiply_as(dtype)
        try:
            call = build(Operands(self.backend, self._seed), row)
            call()
        except (
            Exception
        ) as error:  # whatever a kernel raises: no memory, a format that the GPU does not know
            raise DataError(f"{described(row)} does not run: {one_line(error)}") from error
        if alone and repeats == 1:
            return call

        def launch() -> None:
            if not alone:
                self.backend.multiply_as(dtype)
            for _ in range(repeats):
                call()

        return launch

    def train(self, executions: int, pause_us: float, key: tuple[int, ...]) -> Train:
        """Run a train; see `Rig.train`."""
        cuda = self.backend.torch.cuda
        time.sleep(pause_us / 1e6)
        events = [cuda.Event(enable_timing=True) for _ in range(executions * len(self._calls) + 1)]
        first, before = self._anchor(None)
        events[0].record()
        for event, call in zip(events[1:], itertools.cycle(self._calls), strict=False):
            call()
            event.record()
        cuda.synchronize()
        _, after = self._anchor(first)
        counter_ns = [1e6 * first.elapsed_time(event) for event in events]
        edges = counter_to_cpu([before, after], counter_ns)
        readings = self._sampler.take(edges[-1])
        return Train(list(itertools.pairwise(edges)), readings, [])

    def after(self, last_ns: int) -> None:
        """Do nothing: the CPU's clock goes on by itself."""

    def close(self) -> None:
        """Stop the logger; give PyTorch its settings back."""
        self._sampler.close()
        self.backend.restore()

    def _anchor(self, first: Any) -> tuple[Any, tuple[int, int, int]]:
        """Read the GPU's counter, nanoseconds since the event `first` (or this one), as a pair; the fastest counts."""
        reads = []
        for _ in range(COUNTER_READS):
            event = self.backend.torch.cuda.Event(enable_timing=True)
            issued = time.time_ns()
            event.record()
            event.synchronize()
            reads.append((time.time_ns() - issued, issued, event))
        delay, issued, event = min(reads, key=lambda read: read[0])
        since = 0.0
        if first is not None:
            since = first.elapsed_time(event)
        return event, (round(1e6 * since), issued, delay)


def counter_to_cpu(pairs: list[tuple[int, int, int]], counter_ns: list[float]) -> list[int]:
    """Return readings of the GPU's counter on the CPU's clock, nanoseconds, by the clock pairs around them."""
    clocks = fit_clocks(pd.DataFrame(pairs, columns=["gpu_ns", "cpu_ns", "delay_ns"]))
    return [int(one) for one in clocks.to_cpu_ns(np.rint(counter_ns).astype(np.int64))]


EPOCH_NS: Final = 1_700_000_000_000_000_000  # when the simulated day begins, on the CPU's clock
# by how much the GPU's clock is ahead of the CPU's at that moment, and gains on it
OFFSET_NS = 3_000_000
DRIFT = 50e-6
MODEL: Final = "MI300X"
EFFICIENCY: Final = 0.45  # share of the peaks that kernels reach
LAUNCH_US: Final = constant("launch.tuned_product").value
IDLE_W = 80.0
COMPUTE_W = 640.0
HBM_W = 190.0
IDLE_OF_W: Final = {"xcd": 40.0, "iod": 28.0, "hbm": 12.0}
IOD_SHARE: Final = (0.1, 0.6)
"""Of the power besides HBM's: of a kernel that only computes, and of one that only moves data."""
STEP_US: Final = 8.0  # latency of a step of a collective; an all-reduce has two
FILL_US: Final = 20.0  # a kernel as long as this draws half of what a long one does
LAG_US = 400.0
CONTROLLER_US = 6000.0
"""Time constants of the power behind the activity, and of the controller's average."""
WARM: Final = (1.3, 1.1, 1.03)  # how much slower the first executions are
JITTER = 0.02
DISTURBED = 0.1
SLOWDOWN = (1.3, 2.0)
NOISE = 0.01
"""Scatter of the runs' times, share of slower runs and by how much, scatter of a reading."""
READ_US: Final = 6.0  # median delay of a read of the counter


@dataclass(frozen=True)
class Load:
    """The load of one execution of a kernel."""

    us: float
    # power above idle of each component and in total, when it has run for long
    above_w: Mapping[str, float]


class SimulatedGPU:
    """A rig whose time is simulated; the same seed and key of a train give the same times and noise.

    ``interval_us`` is the averaging window of the logger and the time between its readings.
    """

    def __init__(self, interval_us: float, seed: int) -> None:
        self.interval_us = interval_us
        self._seed = seed
        self._now_us = 0.0
        self.gpu_name = MODEL
        self.loads = list[Load]()
        self.limit_w = float(find(MODEL).tdp_w or np.inf)

    def use(self, *kernels: tuple[Row, int]) -> None:
        """Make kernels ready; see `Rig.use`."""
        self.loads = [load_of(row, repeats) for row, repeats in kernels]

    @property
    def steady_w(self) -> float:
        """The power of the kernels after they have run back to back for long: the truth, on average."""
        energy = sum(load.us * load.above_w[TOTAL] for load in self.loads)
        return min(IDLE_W + energy / sum(load.us for load in self.loads), self.limit_w)

    def train(self, executions: int, pause_us: float, key: tuple[int, ...]) -> Train:
        """Run a train; see `Rig.train`."""
        rng = np.random.default_rng([self._seed, *key])
        slow = 1.0
        if rng.random() < DISTURBED:
            slow = rng.uniform(*SLOWDOWN)
        once_us = np.array([load.us for load in self.loads])
        # (executions, kernels)
        length = np.outer(np.ones(executions), once_us) * slow * np.exp(rng.normal(0, JITTER))
        length[: len(WARM)] *= np.array(WARM[:executions])[:, None]
        begin_us = self._now_us + pause_us
        end = begin_us + np.cumsum(length)
        until_us = float(end[-1]) + self.interval_us
        issued_us = np.array([self._now_us + pause_us / 2, until_us])
        delay_us = READ_US * np.exp(rng.normal(0, 0.5, 2))
        sampled_us = issued_us + delay_us * rng.random(2)
        stamps = self._stamps(until_us)
        times, active = self._active(
            begin_us,
            end,
            until_us,
            slow,
        )
        averaged = [self._averaged(times, one, stamps) for one in active]
        read = {}
        for name, idle_w in {TOTAL: IDLE_W, **IDLE_OF_W}.items():
            above_w = [load.above_w[name] for load in self.loads]
            watts = idle_w + np.dot(above_w, averaged)
            noise = 1 + rng.normal(0, NOISE, len(stamps))
            read[name] = np.round(watts * noise, 2).tolist()
        edges = _cpu_ns(np.r_[begin_us, end]).tolist()
        self.after(edges[-1])  # to the nanosecond, as an earlier process would have left it
        pairs = zip(
            _gpu_ns(sampled_us),
            _cpu_ns(issued_us),
            np.rint(1e3 * delay_us),
            strict=True,
        )
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
        # times before each end
        ended = np.diff(np.searchsorted(times, end_us), prepend=0, append=len(times))
        turn = np.repeat(np.arange(len(ended)), ended) % len(self.loads)
        places = range(len(self.loads))
        drawn = [_lagging(active * (turn == place), step / LAG_US) for place in places]
        above_w = np.dot([load.above_w[TOTAL] for load in self.loads], drawn)
        most_w = self.limit_w - IDLE_W
        if above_w.max() <= most_w:  # nor is the controller's average above it
            return times, drawn
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
        means = (values[1:] + values[:-1]) / 2
        area = np.r_[0.0, np.cumsum(means * np.diff(times))]
        before = np.interp(stamps - self.interval_us, times, area)
        return (np.interp(stamps, times, area) - before) / self.interval_us


def load_of(row: Row, repeats: int) -> Load:
    """Return the load of so many launches of a kernel back to back. Raises DataError: its work is unknown."""
    gpu = find(MODEL)
    work = work_of(pd.DataFrame([row]))
    flops = float(work.flops[0])
    bytes_moved = float(work.bytes[0])
    if not np.isfinite(bytes_moved):
        raise DataError(f"the work of {described(row)} is unknown: it cannot be simulated")
    compute_us = 0.0
    if flops:
        compute_us = flops / (EFFICIENCY * 1e6 * gpu.peak_tflops(str(work.dtype[0])))
    moving_us = bytes_moved / (EFFICIENCY * 1e3 * float(gpu.memory_bw_gbs or np.inf))
    waiting_us = 0.0
    if row["op"] == "collective":
        sent = float(sent_bytes(pd.DataFrame([row]))[0])
        moving_us = max(moving_us, sent / (EFFICIENCY * 1e3 * float(gpu.link_bw_gbs or np.inf)))
        waiting_us = STEP_US * (2 if word(row, "variant") == "all_reduce" else 1)
    once_us = max(compute_us, moving_us) + waiting_us + LAUNCH_US
    hbm_w = HBM_W * (bytes_moved > 2**20 * float(gpu.llc_mb or 0))
    busy = max(compute_us, moving_us / 2, waiting_us / 4) / once_us
    dies_w = COMPUTE_W * once_us / (once_us + FILL_US) * busy
    computing = compute_us / (compute_us + moving_us + waiting_us)
    iod_w = dies_w * (IOD_SHARE[1] + (IOD_SHARE[0] - IOD_SHARE[1]) * computing)
    above_w = {
        TOTAL: dies_w + hbm_w,
        "xcd": dies_w - iod_w,
        "iod": iod_w,
        "hbm": hbm_w,
    }
    return Load(repeats * once_us, above_w)


def _lagging(values: np.ndarray, share: float) -> np.ndarray:
    """Return values that follow the given ones with a lag; `share` passes between two of them."""
    kept = np.exp(-share)
    return lfilter([1 - kept], [1, -kept], values)


def _cpu_ns(us: np.ndarray) -> np.ndarray:
    return EPOCH_NS + np.rint(1e3 * us).astype(np.int64)


def _gpu_ns(us: np.ndarray) -> np.ndarray:
    return EPOCH_NS + OFFSET_NS + np.rint(1e3 * us * (1 + DRIFT)).astype(np.int64)

"""What the power of kernels is recorded with: a GPU under PyTorch beside a logger, or a GPU that is simulated.

A `Rig` runs a kernel in trains of executions and returns, of each, when the executions ran, what the logger read
meanwhile, and readings of the GPU's counter beside the CPU's clock. The loggers of a GPU stamp their readings by the
CPU's clock; the executions come from timing events, whose counter is put on that clock in every train.
"""

from __future__ import annotations

import importlib
import itertools
import threading
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from functools import partial
from typing import Any, Final, Protocol

import numpy as np
import pandas as pd

from ..errors import DataError, FlopcastError, ParameterError, one_line
from ..power.clocks import fit_clocks
from .backend import Backend, Operands
from .kernels import build
from .machine import TOOLS, Tool, output_of, parse_reading, smi_id, vendor
from .rows import Row, described, word
from .timing import Call

AMD_SMI, ROCM_SMI, NVML, SIMULATED = "amd-smi", "rocm-smi", "nvml", "simulated"
INTERVAL_US: Final[Mapping[str, float]] = {AMD_SMI: 1e6, ROCM_SMI: 1e6, NVML: 1e5, SIMULATED: 1e3}
"""Loggers, and the time that each is taken to average over: a process for each reading is no faster."""
COUNTER_READS: Final = 5
"""Reads of the GPU's counter before and after a train; the one with the shortest delay counts."""
_INSTANT_FIELD: Final = 186
"""NVML's number of the instantaneous power (``NVML_FI_DEV_POWER_INSTANT``), where the driver knows it."""

Clock = Callable[[], int]


@dataclass(frozen=True)
class Train:
    """What one train of executions gave; times in nanoseconds."""

    executions: list[tuple[int, int]]  # start and end on the CPU's clock; of several kernels in turn
    readings: list[tuple[int, float]]  # stamp on the logger's clock, watts
    pairs: list[tuple[int, int, int]]  # of the logger's clock: gpu_ns, cpu_ns, delay_ns; none of a logger on the CPU's
    components: dict[str, list[float]] = field(default_factory=dict)  # watts of parts of the GPU at the same stamps


class Rig(Protocol):
    """Something that runs kernels while a logger reads the power."""

    interval_us: float  # that the logger averages over
    gpu_name: str

    def use(self, *kernels: tuple[Row, int]) -> None:
        """Make kernels ready, with fresh operands; so many launches of each count as one execution."""
        ...

    def train(self, executions: int, pause_us: float, key: tuple[int, ...]) -> Train:
        """Wait, then run the kernels in turn, so often, back to back; `key` names the train within the recording."""
        ...

    def after(self, last_ns: int) -> None:
        """Go on after what an earlier process recorded, whose last execution ended then."""
        ...

    def close(self) -> None:
        """Stop the logger."""
        ...


class Sampler:
    """A thread that reads the power again and again, each reading stamped by the middle of the time it took.

    Parameters
    ----------
    read : callable
        Returns watts.
    period_us : float
        Between the beginnings of two readings; a reading that takes longer is followed by the next at once.
    """

    def __init__(self, read: Callable[[], float], period_us: float, clock: Clock = time.time_ns) -> None:
        self._read, self._period_s, self._clock = read, period_us / 1e6, clock
        self._readings, self._error = list[tuple[int, float]](), ""
        self._stop, self._lock = threading.Event(), threading.Lock()
        self._thread = threading.Thread(target=self._sample, daemon=True)
        self._thread.start()

    def take(self, until_ns: int, patience_s: float = 60.0) -> list[tuple[int, float]]:
        """Return the readings since the last call, once there is one from `until_ns` on.

        Raises
        ------
        DataError
            The logger failed, or reads no more.
        """
        ends = time.monotonic() + patience_s + 3 * self._period_s
        while not self._readings or self._readings[-1][0] < until_ns:
            if self._error or time.monotonic() > ends:
                raise DataError(f"the power logger gives no readings: {self._error or 'it does not answer'}")
            self._stop.wait(min(self._period_s / 10, 0.01))
        with self._lock:
            taken, self._readings = self._readings, []
        return taken

    def close(self) -> None:
        """End the thread."""
        self._stop.set()
        self._thread.join()

    def _sample(self) -> None:
        while not self._stop.is_set():
            begun, started = self._clock(), time.monotonic()
            try:
                watts = self._read()
            except Exception as error:  # whatever it is, the thread that waits for readings says it
                self._error = one_line(error)
                return
            with self._lock:
                self._readings.append(((begun + self._clock()) // 2, watts))
            self._stop.wait(max(self._period_s - (time.monotonic() - started), 0.0))


def smi_power(tool: Tool, gpu: str) -> float:
    """Return the power that a vendor's tool tells now.

    Raises
    ------
    DataError, OSError, SubprocessError
        It tells none, cannot be started or fails.
    """
    told = parse_reading(output_of(tool.command(gpu), partial(time.sleep, 0.002)))
    if "power_w" not in told:
        raise DataError(f"{tool.name} tells no power of GPU {gpu}")
    return told["power_w"]


def nvml_power(identifier: str) -> Callable[[], float]:
    """Return what reads the power of a GPU with NVML, instantaneous where the driver tells it.

    Raises
    ------
    FlopcastError
        NVML is not installed, or does not know the GPU.
    """
    try:
        nvml = importlib.import_module("pynvml")
    except ModuleNotFoundError as error:
        raise FlopcastError("the logger nvml needs NVML's Python module: pip install nvidia-ml-py") from error
    try:
        nvml.nvmlInit()
        gpu = nvml.nvmlDeviceGetHandleByUUID(identifier)
        field = nvml.nvmlDeviceGetFieldValues(gpu, [_INSTANT_FIELD])[0]
    except nvml.NVMLError as error:
        raise DataError(f"NVML does not read GPU {identifier}: {one_line(error)}") from error
    if field.nvmlReturn == 0:
        return lambda: nvml.nvmlDeviceGetFieldValues(gpu, [_INSTANT_FIELD])[0].value.uiVal / 1e3
    return lambda: nvml.nvmlDeviceGetPowerUsage(gpu) / 1e3


def power_reader(logger: str, backend: Backend) -> Callable[[], float]:
    """Return what reads the power of the GPU.

    Raises
    ------
    ParameterError, DataError
        PyTorch runs on no GPU here, the logger is another vendor's, or it does not know the GPU.
    """
    if not backend.is_gpu:
        raise DataError("there is no GPU whose power could be recorded: --logger simulated shows how it goes")
    maker = vendor(backend.torch)
    if (logger == NVML) != (maker == "nvidia"):
        usual = NVML if maker == "nvidia" else f"{AMD_SMI} or {ROCM_SMI}"
        raise ParameterError("logger", f"must be {usual} on {backend.gpu_name}, got {logger}")
    if (identifier := smi_id(backend)) is None:
        raise DataError("the GPU cannot be named to the logger: unset HIP_VISIBLE_DEVICES and the like, update PyTorch")
    if logger == NVML:
        return nvml_power(identifier)
    tool = next(one for one in TOOLS["amd"] if one.name == logger)
    return partial(smi_power, tool, identifier)


class TorchRig:
    """A GPU under PyTorch beside a logger on the CPU's clock."""

    def __init__(self, backend: Backend, read: Callable[[], float], interval_us: float, seed: int) -> None:
        self.backend, self.interval_us, self._seed = backend, interval_us, seed
        self.gpu_name = backend.gpu_name
        self._sampler = Sampler(read, interval_us)
        self._calls = list[Call]()

    def use(self, *kernels: tuple[Row, int]) -> None:
        """Make kernels ready; see `Rig.use`."""
        self._calls = [self._call(row, repeats, alone=len(kernels) == 1) for row, repeats in kernels]

    def _call(self, row: Row, repeats: int, *, alone: bool) -> Call:
        """Return what launches a kernel, in its own precision where it is not alone."""
        dtype = word(row, "dtype_a")
        self.backend.multiply_as(dtype)
        try:
            call = build(Operands(self.backend, self._seed), row)
            call()
        except Exception as error:  # whatever a kernel raises: no memory, a format that the GPU does not know
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
        edges = counter_to_cpu([before, after], [1e6 * first.elapsed_time(event) for event in events])
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
        return event, (0 if first is None else round(1e6 * first.elapsed_time(event)), issued, delay)


def counter_to_cpu(pairs: list[tuple[int, int, int]], counter_ns: list[float]) -> list[int]:
    """Return readings of the GPU's counter on the CPU's clock, nanoseconds, by the clock pairs around them."""
    clocks = fit_clocks(pd.DataFrame(pairs, columns=["gpu_ns", "cpu_ns", "delay_ns"]))
    return [int(one) for one in clocks.to_cpu_ns(np.rint(counter_ns).astype(np.int64))]

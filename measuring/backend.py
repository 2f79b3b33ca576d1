"""PyTorch and the device it runs on: what differs between a CPU, CUDA and ROCm is here, and nowhere else."""

from __future__ import annotations

import importlib
import os
import re
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from ..errors import DataError, FlopcastError, ParameterError
from ..hardware import all_gpus
from ..readers.labels import canonical_device
from .timing import Call, EventTimer, HostTimer, Timer

CPU_FOLDER = Path("/sys/devices/system/cpu/cpu0")
"""Where the operating system tells of the CPU: caches, clock."""
_UNITS = {"K": 2**10, "M": 2**20, "G": 2**30}


def cache_sizes(folder: Path = CPU_FOLDER) -> dict[str, int]:
    """Return the bytes of the caches that the first core sees, by level (``L1d``, ``L2``, ``L3``); {} if untold."""
    sizes = {}
    for cache in sorted(folder.glob("cache/index*")):
        try:
            level, kind, size = ((cache / name).read_text().strip() for name in ("level", "type", "size"))
        except OSError:
            continue
        if match := re.fullmatch(r"(\d+)([KMG])", size):
            letter = {"Data": "d", "Instruction": "i"}.get(kind, "")
            sizes[f"L{level}{letter}"] = int(match[1]) * _UNITS[match[2]]
    return sizes


def last_level_cache_bytes(folder: Path = CPU_FOLDER) -> int:
    """Return the size of the largest cache.

    Raises
    ------
    DataError
        The system does not tell.
    """
    if not (sizes := cache_sizes(folder)):
        raise DataError("the system does not tell the size of the CPU's cache (Linux does): measure with a warm cache")
    return max(sizes.values())


def clock_mhz(folder: Path = CPU_FOLDER) -> float | None:
    """Return the first core's clock now; None where the system does not tell (virtual machines)."""
    try:
        return int((folder / "cpufreq" / "scaling_cur_freq").read_text()) / 1e3
    except (OSError, ValueError):
        return None


def governor(folder: Path = CPU_FOLDER) -> str:
    """Return the policy that chooses the clock ("performance"), "" where the system does not tell."""
    try:
        return (folder / "cpufreq" / "scaling_governor").read_text().strip()
    except OSError:
        return ""


TORCH_DTYPES = {
    "fp64": "float64", "fp32": "float32", "tf32": "float32", "fp16": "float16", "bf16": "bfloat16",
    "int64": "int64", "int32": "int32", "int16": "int16", "int8": "int8", "uint8": "uint8", "bool": "bool",
}  # fmt: skip
"""PyTorch's name of each number format; FP8 depends on the device (`Operands.dtype`)."""
_TF32_ON_AMD = "HIPBLASLT_ALLOW_TF32"
_UNSPECIFIED_GPU_CACHE = 256 * 2**20
"""Bytes of the cache of a GPU where they are unknown: as many as the largest last-level cache so far has (MI300X)."""
_FLUSHED = 2
"""Times the last-level cache that is read to empty it of operands: replacement is not strictly by age."""


@dataclass(frozen=True)
class Device:
    """What rows are measured on."""

    name: str  # as in column ``device``
    threads: int = 0  # of PyTorch on a CPU; 0 on a GPU


def import_torch() -> Any:
    """Return PyTorch, which only measuring needs.

    Raises
    ------
    FlopcastError
        If it is not installed.
    """
    try:
        return importlib.import_module("torch")
    except ModuleNotFoundError as error:
        raise FlopcastError('measuring needs PyTorch: pip install "flopcast[measure]"') from error


class Backend:
    """One device of PyTorch: ``cpu``, or ``cuda:0`` and the like (ROCm's name for its GPUs, too).

    By default the first GPU, or the CPU where there is none.

    Raises
    ------
    DataError
        There is no such device.
    """

    def __init__(self, torch: Any, word: str | None = None) -> None:
        word = word or ("cuda:0" if torch.cuda.is_available() else "cpu")
        self.torch, self.word = torch, word
        self.is_gpu = word != "cpu"
        self.index = _gpu_index(torch, word) if self.is_gpu else 0
        self._precision: tuple[str, bool] | None = None
        if self.is_gpu:
            torch.cuda.set_device(self.index)

    @property
    def gpu_name(self) -> str:
        """The name the driver gives the GPU."""
        return str(self.torch.cuda.get_device_name(self.index))

    def devices(self, threads: Sequence[int], name: str | None = None) -> list[Device]:
        """Return what each row is measured on: the GPU, or the CPU with each number of threads.

        Raises
        ------
        DataError
            Threads are stated for a GPU, not positive, or more than there are CPUs.
        """
        if self.is_gpu:
            if threads:
                raise ParameterError("threads", f"is for the CPU: leave it out on {self.word}")
            return [Device(name or canonical_device(self.gpu_name)[0])]
        counts = list(threads) or [int(self.torch.get_num_threads())]
        if min(counts) < 1 or len(set(counts)) < len(counts):
            raise ParameterError("threads", f"must be different numbers from 1 on, got {', '.join(map(str, counts))}")
        cpus = os.cpu_count() or max(counts)
        if threads and max(counts) > cpus:
            raise ParameterError("threads", f"must be {cpus} at most, this machine's logical CPUs, got {max(counts)}")
        return [Device(f"{name or 'CPU'}-{count}T", count) for count in counts]

    def use(self, device: Device) -> None:
        """Compute with the device's threads."""
        if device.threads:
            self.torch.set_num_threads(device.threads)

    def multiply_as(self, dtype: str) -> None:
        """Multiply fp32 as TF32 where ``dtype`` is tf32, and as fp32 elsewhere; `restore` undoes it.

        Raises
        ------
        DataError
            The device has no TF32: what was measured would be fp32.
        """
        narrow = dtype == "tf32"
        if narrow and not self.has_tf32():
            name = self.gpu_name if self.is_gpu else "a CPU"
            raise DataError(f"{name} does not compute in tf32 (AMD: only with {_TF32_ON_AMD}=1): measure fp32")
        if not self.is_gpu:
            return
        cudnn = self.torch.backends.cudnn
        if self._precision is None:
            self._precision = self.torch.get_float32_matmul_precision(), cudnn.allow_tf32
        self.torch.set_float32_matmul_precision("high" if narrow else "highest")
        cudnn.allow_tf32 = narrow

    def restore(self) -> None:
        """Set PyTorch's precision of fp32 back to what it was before `multiply_as`."""
        if self._precision is not None:
            precision, allowed = self._precision
            self.torch.set_float32_matmul_precision(precision)
            self.torch.backends.cudnn.allow_tf32 = allowed
            self._precision = None

    def has_tf32(self) -> bool:
        """Whether PyTorch multiplies in TF32 here.

        NVIDIA: from compute capability 8.0 on. AMD: where PyTorch's own ``is_tf32_supported`` says so and the
        environment sets ``HIPBLASLT_ALLOW_TF32=1``. Some releases multiply in fp32 without that word; it is asked for
        with all, so that fp32 never passes for TF32.
        """
        cuda = self.torch.cuda
        if not self.is_gpu:
            return False
        if str(getattr(cuda.get_device_properties(self.index), "gcnArchName", "")).startswith("gfx"):
            supported = getattr(cuda, "is_tf32_supported", lambda: False)
            return bool(supported()) and os.environ.get(_TF32_ON_AMD) == "1"
        return bool(cuda.get_device_capability(self.index) >= (8, 0))

    def recover(self) -> None:
        """Wait for what a failed call left, and give its memory back.

        Raises whatever the device raises where it has failed for good: after an illegal access every further call of
        the process ends in the same error.
        """
        if self.is_gpu:
            self.torch.cuda.synchronize()
            self.torch.cuda.empty_cache()

    def timer(self, cold: bool) -> Timer:
        """Return the timer, with a cold cache if asked for."""
        flush = self._flush() if cold else None
        if not self.is_gpu:
            return HostTimer(flush)
        cuda = self.torch.cuda
        hold = _pause(cuda) if hasattr(cuda, "_sleep") else None
        return EventTimer(lambda: cuda.Event(enable_timing=True), cuda.synchronize, hold=hold, flush=flush)

    def cache_bytes(self) -> int:
        """Return the size of the last-level cache, in bytes."""
        if not self.is_gpu:
            return last_level_cache_bytes()
        word = canonical_device(self.gpu_name)[0]
        known = next((gpu for gpu in all_gpus() if gpu.name == word), None)
        sizes = [getattr(known, key, None) for key in ("llc_mb", "l2_mb")]
        reported = int(getattr(self.torch.cuda.get_device_properties(self.index), "L2_cache_size", 0))
        return max([reported, *(int(size * 2**20) for size in sizes if size)]) or _UNSPECIFIED_GPU_CACHE

    def _flush(self) -> Call:
        """Return what fills the last-level cache with other data by reading, so that nothing is left to write back."""
        torch, count = self.torch, _FLUSHED * self.cache_bytes() // 4
        buffer = torch.ones(count, dtype=torch.float32, device=self.word)  # written: unwritten pages share one of zeros
        total = torch.zeros((), dtype=torch.float32, device=self.word)
        return lambda: torch.sum(buffer, 0, out=total)


class Operands:
    """Random tensors for one row, their values drawn with the seed."""

    def __init__(self, backend: Backend, seed: int) -> None:
        self.torch, self.backend = backend.torch, backend
        self._generator = self.torch.Generator(device=backend.word).manual_seed(seed)

    def dtype(self, name: str) -> Any:
        """Return PyTorch's type for a number format.

        Raises
        ------
        DataError
            PyTorch has no tensors of that format.
        """
        if name == "fp8":
            gfx = str(getattr(self._properties(), "gcnArchName", ""))
            name_of = "float8_e4m3fnuz" if gfx.startswith("gfx94") else "float8_e4m3fn"
            return getattr(self.torch, name_of)
        if name not in TORCH_DTYPES:
            raise DataError(f"PyTorch has no tensors of {name or 'no format'}: use {', '.join(TORCH_DTYPES)} or fp8")
        return getattr(self.torch, TORCH_DTYPES[name])

    def tensor(self, dtype: str, *size: int) -> Any:
        """Return a tensor: standard normal numbers, or integers from 0 to 99."""
        made = self.dtype(dtype)
        if not made.is_floating_point:
            return self.integers(2 if dtype == "bool" else 100, *size).to(made)
        wide = made if made.itemsize > 2 else self.torch.float32
        values = self.torch.randn(*size, generator=self._generator, device=self.backend.word, dtype=wide)
        return values.to(made)

    def integers(self, limit: int, *size: int) -> Any:
        """Return int64 numbers from 0 to ``limit - 1``."""
        return self.torch.randint(limit, size, generator=self._generator, device=self.backend.word)

    def _properties(self) -> Any:
        backend = self.backend
        return self.torch.cuda.get_device_properties(backend.index) if backend.is_gpu else None


def _gpu_index(torch: Any, word: str) -> int:
    kind, _, number = word.partition(":")
    if kind != "cuda" or not (number or "0").isdecimal():
        raise ParameterError("device", f"must be cpu or cuda:0, cuda:1, ... (ROCm GPUs as well), got {word!r}")
    if not torch.cuda.is_available():
        raise DataError(f"PyTorch {torch.__version__} sees no GPU here: measure on cpu, or install its GPU build")
    index, count = int(number or 0), int(torch.cuda.device_count())
    if index >= count:
        raise ParameterError("device", f"must be one of {count} GPUs, cuda:0 to cuda:{count - 1}, got {word}")
    return index


def _pause(cuda: Any) -> Callable[[float], None]:
    """Return what enqueues a pause of so many microseconds; the clock it counts is timed first."""
    cycles, begin, end = 1_000_000, cuda.Event(enable_timing=True), cuda.Event(enable_timing=True)
    for _ in range(2):  # the first loads the kernel
        begin.record()
        cuda._sleep(cycles)
        end.record()
        cuda.synchronize()
    rate = cycles / (1e3 * begin.elapsed_time(end))
    return lambda microseconds: cuda._sleep(int(microseconds * rate))

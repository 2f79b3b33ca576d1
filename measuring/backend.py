"""PyTorch and the device it runs on: what differs between a CPU, CUDA and ROCm is here, and nowhere else.

A row of the measurement table becomes a call of PyTorch, as its operator says (`build`).
Collectives among the GPUs of one machine take a process for each, led by the one that measures
(`Group`). Every process must make the same calls, but only the leader knows when it has sampled
enough. So the others wait at a pipe: each call of the leader first sends a word to all of them. On
a GPU calls are only enqueued, and the leader's queue is held back meanwhile (`timing.EventTimer`),
so the messages are not in the times.
"""

from __future__ import annotations

import datetime
import importlib
import json
import multiprocessing
import os
import re
import signal
import socket
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from functools import partial
from multiprocessing.connection import Connection
from pathlib import Path
from typing import Any

from ..errors import DataError, FlopcastError, ParameterError, one_line
from ..hardware import all_gpus
from ..operators.op import Row, sizes, unknown, word
from ..operators.operators import OPS
from ..readers.labels import canonical_device
from .timing import Call, EventTimer, HostTimer, Timer

SMS = "FLOPCAST_SMS"  # in the environment: this process computes with so many SMs of NVIDIA's GPU, in a green context
# where the operating system describes the CPU: caches, clock
CPU_FOLDER = Path("/sys/devices/system/cpu/cpu0")
_UNITS = {"K": 2**10, "M": 2**20, "G": 2**30}


def cache_sizes(folder: Path = CPU_FOLDER) -> dict[str, int]:
    """Return the bytes of the caches of the first core by level (``L1d``, ``L2``, ``L3``); {} if unreadable."""
    sizes = {}
    for cache in sorted(folder.glob("cache/index*")):
        try:
            level, kind, size = (
                (cache / name).read_text().strip() for name in ("level", "type", "size")
            )
        except OSError:
            continue
        match = re.fullmatch(r"(\d+)([KMG])", size)
        if match:
            letter = {"Data": "d", "Instruction": "i"}.get(kind, "")
            sizes[f"L{level}{letter}"] = int(match[1]) * _UNITS[match[2]]
    return sizes


def last_level_cache_bytes(folder: Path = CPU_FOLDER) -> int:
    """Return the size of the largest cache. Raises DataError: the system does not tell."""
    sizes = cache_sizes(folder)
    if not sizes:
        raise DataError(
            "the system does not tell the size of the CPU's cache (Linux does): measure with a "
            "warm cache"
        )
    return max(sizes.values())


def clock_mhz(folder: Path = CPU_FOLDER) -> float | None:
    """Return the first core's clock now; None where the system hides it (virtual machines)."""
    try:
        return int((folder / "cpufreq" / "scaling_cur_freq").read_text()) / 1e3
    except (OSError, ValueError):
        return None


def governor(folder: Path = CPU_FOLDER) -> str:
    """Return the policy that chooses the clock ("performance"), "" where the system hides it."""
    try:
        return (folder / "cpufreq" / "scaling_governor").read_text().strip()
    except OSError:
        return ""


TORCH_DTYPES = {
    "fp64": "float64",
    "fp32": "float32",
    "tf32": "float32",
    "fp16": "float16",
    "bf16": "bfloat16",
    "int64": "int64",
    "int32": "int32",
    "int16": "int16",
    "int8": "int8",
    "uint8": "uint8",
    "bool": "bool",
}
"""PyTorch's name of each number format; FP8 depends on the device (`Operands.dtype`)."""
_TF32_ON_AMD = "HIPBLASLT_ALLOW_TF32"
_UNSPECIFIED_GPU_CACHE = 256 * 2**20
"""Bytes of the cache of a GPU where they are unknown: as many as the largest last-level cache so far has (MI300X)."""
_FLUSHED = 2  # times the last-level cache that is read to empty it of operands: replacement is not strictly by age


@dataclass(frozen=True)
class Device:
    """The device that rows are measured on."""

    name: str  # as in column ``device``
    threads: int = 0  # of PyTorch on a CPU; 0 on a GPU


def import_torch() -> Any:
    """Return PyTorch, which only measuring needs. Raises FlopcastError if it is not installed."""
    try:
        return importlib.import_module("torch")
    except ModuleNotFoundError as error:
        raise FlopcastError('measuring needs PyTorch: pip install "flopcast[measure]"') from error


class Backend:
    """One device of PyTorch: ``cpu``, or ``cuda:0`` and the like (ROCm's name for its GPUs, too).

    By default the first GPU, or the CPU where there is none. Raises DataError: there is no such
    device.
    """

    def __init__(self, torch: Any, word: str | None = None) -> None:
        word = word or ("cuda:0" if torch.cuda.is_available() else "cpu")
        self.torch = torch
        self.word = word
        self.is_gpu = word != "cpu"
        self.index = 0
        self._precision: tuple[str, bool] | None = None
        self._part: Any = None
        if not self.is_gpu:
            return
        kind, _, number = word.partition(":")
        if kind != "cuda" or not (number or "0").isdecimal():
            raise ParameterError(
                "device", f"must be cpu or cuda:0, cuda:1, ... (ROCm GPUs as well), got {word!r}"
            )
        if not torch.cuda.is_available():
            raise DataError(
                f"PyTorch {torch.__version__} sees no GPU here: measure on cpu, or install its "
                "GPU build"
            )
        self.index = int(number or 0)
        count = int(torch.cuda.device_count())
        if self.index >= count:
            raise ParameterError(
                "device", f"must be one of {count} GPUs, cuda:0 to cuda:{count - 1}, got {word}"
            )
        torch.cuda.set_device(self.index)
        sms = int(os.environ.get(SMS, 0))
        if 0 < sms < torch.cuda.get_device_properties(self.index).multi_processor_count:
            try:
                self._part = torch.cuda.green_contexts.GreenContext.create(
                    num_sms=sms, device_id=self.index
                )
                self._part.set_context()  # which ends with the object
            except (AttributeError, RuntimeError) as error:
                raise DataError(
                    f"PyTorch {torch.__version__} makes no part of {sms} SMs: {one_line(error)}"
                ) from error

    @property
    def gpu_name(self) -> str:
        """The name the driver gives the GPU."""
        return str(self.torch.cuda.get_device_name(self.index))

    @property
    def gfx(self) -> str:
        """The architecture of an AMD GPU ("gfx942:sramecc+:xnack-"); "" of other devices."""
        if not self.is_gpu:
            return ""
        properties = self.torch.cuda.get_device_properties(self.index)
        return str(getattr(properties, "gcnArchName", ""))

    def devices(self, threads: Sequence[int], name: str | None = None) -> list[Device]:
        """Return the device of each row: the GPU, or the CPU with each number of threads.

        Raises DataError: threads are stated for a GPU, not positive, or more than there are CPUs.
        """
        if self.is_gpu:
            if threads:
                raise ParameterError("threads", f"is for the CPU: leave it out on {self.word}")
            return [Device(name or canonical_device(self.gpu_name)[0])]
        counts = list(threads) or [int(self.torch.get_num_threads())]
        if min(counts) < 1 or len(set(counts)) < len(counts):
            raise ParameterError(
                "threads", f"must be different numbers from 1 on, got {', '.join(map(str, counts))}"
            )
        cpus = os.cpu_count() or max(counts)
        if threads and max(counts) > cpus:
            raise ParameterError(
                "threads", f"must be {cpus} at most, this machine's logical CPUs, got {max(counts)}"
            )
        return [Device(f"{name or 'CPU'}-{count}T", count) for count in counts]

    def use(self, device: Device) -> None:
        """Compute with the device's threads."""
        if device.threads:
            self.torch.set_num_threads(device.threads)

    def multiply_as(self, dtype: str) -> None:
        """Multiply fp32 as TF32 where ``dtype`` is tf32, and as fp32 elsewhere; `restore` undoes it.

        Raises DataError: the device has no TF32: what was measured would be fp32.
        """
        narrow = dtype == "tf32"
        if narrow and not self.has_tf32():
            name = "a CPU"
            if self.is_gpu:
                name = self.gpu_name
            raise DataError(
                f"{name} does not compute in tf32 (AMD: only with {_TF32_ON_AMD}=1): measure fp32"
            )
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

        NVIDIA: from compute capability 8.0 on. AMD: where PyTorch's ``is_tf32_supported`` says
        so and the environment sets ``HIPBLASLT_ALLOW_TF32=1``. Some releases multiply in fp32
        without that word; it is asked for with all, so that fp32 never passes for TF32.
        """
        cuda = self.torch.cuda
        if not self.is_gpu:
            return False
        if self.gfx.startswith("gfx"):
            supported = getattr(cuda, "is_tf32_supported", lambda: False)
            return bool(supported()) and os.environ.get(_TF32_ON_AMD) == "1"
        return bool(cuda.get_device_capability(self.index) >= (8, 0))

    def recover(self) -> None:
        """Wait for the rest of a failed call, and free its memory.

        Raises whatever the device raises where it has failed for good: after an illegal access
        every further call of the process ends in the same error.
        """
        if self.is_gpu:
            self.torch.cuda.synchronize()
            self.torch.cuda.empty_cache()

    def timer(self, cold: bool) -> Timer:
        """Return the timer, with a cold cache if asked for."""
        flush = None
        if cold:
            # reading fills the last-level cache with other data, and nothing is left to write back;
            # unwritten pages share one of zeros
            torch = self.torch
            count = _FLUSHED * self.cache_bytes() // 4
            buffer = torch.ones(count, dtype=torch.float32, device=self.word)
            total = torch.zeros((), dtype=torch.float32, device=self.word)
            flush = partial(
                torch.sum,
                buffer,
                0,
                out=total,
            )
        if not self.is_gpu:
            return HostTimer(flush)
        cuda = self.torch.cuda
        hold = None
        if hasattr(cuda, "_sleep"):
            hold = _pause(cuda)
        return EventTimer(
            lambda: cuda.Event(enable_timing=True), cuda.synchronize, hold=hold, flush=flush
        )

    def cache_bytes(self) -> int:
        """Return the size of the last-level cache, in bytes."""
        if not self.is_gpu:
            return last_level_cache_bytes()
        word = canonical_device(self.gpu_name)[0]
        gpu = next((gpu for gpu in all_gpus() if gpu.name == word), None)
        sizes = [getattr(gpu, key, None) for key in ("llc_mb", "l2_mb")]
        properties = self.torch.cuda.get_device_properties(self.index)
        published = [int(size * 2**20) for size in sizes if size]
        reported = int(getattr(properties, "L2_cache_size", 0))
        if published:
            return max(reported, *published)
        return reported or _UNSPECIFIED_GPU_CACHE


class Operands:
    """Random tensors for one row, their values drawn with the seed."""

    def __init__(self, backend: Backend, seed: int) -> None:
        self.torch = backend.torch
        self.backend = backend
        self._generator = self.torch.Generator(device=backend.word).manual_seed(seed)

    def dtype(self, name: str) -> Any:
        """Return PyTorch's type for a number format. Raises DataError: PyTorch has no tensors of that format."""
        if name == "fp8":
            if self.backend.gfx.startswith("gfx94"):
                return self.torch.float8_e4m3fnuz
            return self.torch.float8_e4m3fn
        if name not in TORCH_DTYPES:
            raise DataError(
                f"PyTorch has no tensors of {name or 'no format'}: use {', '.join(TORCH_DTYPES)} "
                "or fp8"
            )
        return getattr(self.torch, TORCH_DTYPES[name])

    def tensor(self, dtype: str, *size: int) -> Any:
        """Return a tensor of standard normal numbers, or of integers from 0 to 99."""
        made = self.dtype(dtype)
        if not made.is_floating_point:
            return self.integers(2 if dtype == "bool" else 100, *size).to(made)
        if made.itemsize > 2:
            wide = made
        else:
            wide = self.torch.float32
        values = self.torch.randn(
            *size, generator=self._generator, device=self.backend.word, dtype=wide
        )
        return values.to(made)

    def integers(self, limit: int, *size: int) -> Any:
        """Return int64 numbers from 0 to ``limit - 1``."""
        return self.torch.randint(
            limit,
            size,
            generator=self._generator,
            device=self.backend.word,
        )


def _pause(cuda: Any) -> Callable[[float], None]:
    """Return what enqueues a pause of so many microseconds; the clock it counts is timed first."""
    cycles = 1_000_000
    begin = cuda.Event(enable_timing=True)
    end = cuda.Event(enable_timing=True)
    for _ in range(2):  # the first loads the kernel
        begin.record()
        cuda._sleep(cycles)
        end.record()
        cuda.synchronize()
    rate = cycles / (1e3 * begin.elapsed_time(end))
    return lambda microseconds: cuda._sleep(int(microseconds * rate))


def build(operands: Operands, row: Row) -> Call:
    """Return the call of a row; that of collectives takes several processes (`collectives`).

    Raises DataError: the operator, the variant or the number format cannot be measured, or
    dimensions contradict each other.
    """
    op = OPS.get(word(row, "op"))
    if op is None or op.measured is None:
        raise DataError(
            f"{word(row, 'op')} cannot be measured: give your function, or leave the rows out"
        )
    return op.measured.build(operands, row)


_GO = b"go"
_QUIT = b"quit"
_PATIENCE_SECONDS = 120.0
COLLECTIVES = ("all_reduce", "all_gather", "reduce_scatter", "alltoall", "broadcast")
"""Variants that can be measured, under the names of rccl-tests."""


class Group:
    """Processes that make the collective calls of the leader, this one.

    Rank r has GPU r; on CPUs (for tests) all share the host. Raises DataError: there are fewer than
    two ranks, or the leader's device is not the first GPU.
    """

    def __init__(self, backend: Backend, ranks: int) -> None:
        if ranks < 2:
            raise DataError("collectives need two GPUs or more: leave them out")
        if backend.is_gpu and backend.index:
            raise DataError("collectives are led by the first GPU: measure them on cuda:0")
        self.backend = backend
        self.ranks = ranks
        context = multiprocessing.get_context("spawn")
        with socket.socket() as probe:
            probe.bind(("127.0.0.1", 0))  # any free port
            address = f"tcp://127.0.0.1:{probe.getsockname()[1]}"
        pipes = [context.Pipe() for _ in range(1, ranks)]
        self._pipes = [pipe for pipe, _ in pipes]
        self._processes = [
            context.Process(
                target=_follow, args=(rank, ranks, address, backend.is_gpu, theirs), daemon=True
            )
            for rank, (_, theirs) in enumerate(pipes, start=1)
        ]
        for process in self._processes:
            process.start()
        _join(
            backend.torch,
            0,
            ranks,
            address,
            gpu=backend.is_gpu,
        )

    def build(self, row: Mapping[str, Any], seed: int) -> Call:
        """Return the call of a row; the other processes prepare theirs.

        Raises DataError: the row has another number of ranks, an unknown collective, or a message
        that cannot be shared out.
        """
        call = collective(Operands(self.backend, seed), row, self.ranks)
        self._send(json.dumps({"row": dict(row), "seed": seed}).encode())

        def together() -> None:
            self._send(_GO)
            call()

        return together

    def close(self) -> None:
        """End the other processes, as far as they still run."""
        for pipe in self._pipes:
            with suppress(OSError):
                pipe.send_bytes(_QUIT)
        self.backend.torch.distributed.destroy_process_group()
        for process in self._processes:
            process.join(_PATIENCE_SECONDS)

    def _send(self, message: bytes) -> None:
        for pipe in self._pipes:
            pipe.send_bytes(message)


def collective(make: Operands, row: Mapping[str, Any], ranks: int) -> Callable[[], Any]:
    """Return one rank's call. The message is the larger of input and output, in bytes.

    Raises DataError: as for `Group.build`.
    """
    (asked,) = sizes(row, "ranks")
    (message,) = sizes(row, "message_bytes")
    if asked != ranks:
        raise DataError(f"rows of {asked} ranks cannot be measured here: there are {ranks} GPUs")
    name = word(row, "variant")
    if name not in COLLECTIVES:
        raise unknown(row, "variant", ", ".join(COLLECTIVES))
    dtype = word(row, "dtype_a") or "fp32"
    part = make.dtype(dtype).itemsize * ranks
    if message % part:
        raise DataError(
            f"message_bytes must be a multiple of {part} ({ranks} ranks, {dtype}), got {message}"
        )
    whole = message // part * ranks
    share = message // part
    distributed = make.torch.distributed
    if name in ("all_reduce", "broadcast"):
        x = make.tensor(dtype, whole)
        if name == "all_reduce":
            return lambda: distributed.all_reduce(x)
        return lambda: distributed.broadcast(x, 0)
    call, out_size, in_size = {
        "all_gather": (distributed.all_gather_into_tensor, whole, share),
        "reduce_scatter": (distributed.reduce_scatter_tensor, share, whole),
        "alltoall": (distributed.all_to_all_single, whole, whole),
    }[name]
    out = make.tensor(dtype, out_size)
    x = make.tensor(dtype, in_size)
    return lambda: call(out, x)


def _follow(rank: int, ranks: int, address: str, gpu: bool, pipe: Connection) -> None:
    """Execute the leader's orders until it quits or is gone.

    Ctrl-C goes to all processes of a terminal; it is for the leader, who then says to quit.
    """
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    torch = import_torch()
    backend = Backend(torch, f"cuda:{rank}" if gpu else "cpu")
    _join(torch, rank, ranks, address, gpu=gpu)
    calls: list[Call] = []
    with torch.inference_mode():
        while True:
            try:
                message = pipe.recv_bytes()
            except EOFError:
                return
            if message == _QUIT:
                break
            if message == _GO:
                calls[-1]()
            else:
                request = json.loads(message)
                calls = [
                    collective(Operands(backend, request["seed"] + rank), request["row"], ranks)
                ]
    torch.distributed.destroy_process_group()


def _join(torch: Any, rank: int, ranks: int, address: str, *, gpu: bool) -> None:
    torch.distributed.init_process_group(
        "nccl" if gpu else "gloo",
        init_method=address,
        rank=rank,
        world_size=ranks,
        timeout=datetime.timedelta(seconds=_PATIENCE_SECONDS),
    )

"""A process that reads inputs one after the other, which the kernel ends when one takes too long."""

from __future__ import annotations

import ctypes
import gc
import itertools
import os
import resource
import shutil
import signal
import tempfile
import time
import traceback
import warnings
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from flopcast.tests.fuzz import targets
from flopcast.tests.fuzz.corpus import Files

MEMORY, CPU_SECONDS, WALL_SECONDS = 2**30, 10, 120
TOGETHER, ALONE = 256, 4
"""Inputs of a table's format that are read as one folder (where that fails, each again by itself), and others taken."""
KINDS = ("read", "refused", "exception", "impossible", "hang", "memory", "crash")
KEPT = 3
"""Inputs that are kept of those that fail in the same way."""


class Shared:
    """What the processes and their parent both see."""

    def __init__(
        self, context: Any, names: Sequence[str], begun: Sequence[int], workers: int
    ) -> None:
        self.names, self.lock = list(names), context.Lock()
        self.next = context.RawArray(ctypes.c_int64, list(begun))
        self.counts = context.RawArray(ctypes.c_int64, len(names) * len(KINDS))
        self.cpu = context.RawArray(ctypes.c_double, len(names))
        self.peak = context.RawArray(ctypes.c_int64, len(names))  # MiB that a process held at most
        self.at = context.RawArray(ctypes.c_int64, 3 * workers)  # target, first number, how many

    def count(self, target: int, kind: str, number: int = 1) -> None:
        """Count inputs of a target."""
        with self.lock:
            self.counts[target * len(KINDS) + KINDS.index(kind)] += number


def batch(target: str, seed: int, numbers: Sequence[int], folder: Path) -> str:
    """Write and read inputs together; return "read" or "refused", or raise what came of it."""
    _emptied(folder)
    for place, number in enumerate(numbers):
        targets.write(folder / str(place), targets.input_of(target, seed, number))
    return targets.run(target, folder, numbers[0])


def _emptied(folder: Path) -> None:
    """Remove what an earlier input has left; its own folder stays, which is made once."""
    if folder.is_dir():
        for name in os.listdir(folder):
            inside = [] if name == "0" and os.path.isdir(f"{folder}/0") else [f"{folder}/{name}"]
            for path in inside or [entry.path for entry in os.scandir(f"{folder}/0")]:
                shutil.rmtree(path) if os.path.isdir(path) else os.unlink(path)


def failure(target: str, files: Files, number: int, folder: Path) -> tuple[str, str, str] | None:
    """Return how one input fails: its kind, what tells it from others, and the words; None where it does not."""
    shutil.rmtree(folder, ignore_errors=True)
    targets.write(folder / "0", files)
    try:
        targets.run(target, folder, number)
    except targets.ImpossibleError as error:
        return "impossible", f"impossible {str(error).rpartition(':')[2][:20]}", str(error)
    except MemoryError:
        return "memory", "memory", traceback.format_exc()
    except Exception as error:
        places = [
            frame
            for frame in traceback.extract_tb(error.__traceback__)
            if "/tests/" not in frame.filename
        ]
        own = [
            frame
            for frame in places
            if "site-packages" not in frame.filename and "/lib/python" not in frame.filename
        ]
        place = [*traceback.extract_tb(error.__traceback__)[-1:], *places[-1:], *own[-1:]][-1]
        words = "".join(traceback.format_exception(error))
        return (
            "exception",
            f"{type(error).__name__} {Path(place.filename).stem}.{place.name}:{place.lineno}",
            words,
        )
    return None


def keep(
    out: Path, target: str, number: int, files: Files, kind: str, what: str, words: str
) -> None:
    """Keep an input that failed, unless enough are kept of those that fail alike."""
    plain = "".join(
        letter if letter.isalnum() or letter in ".-" else "_" for letter in f"{target} {what}"
    )[:120]
    place = next(
        (place for of in range(KEPT) if not (place := out / plain / str(of)).exists()), None
    )
    if place is not None:
        targets.write(place / "input", files)
        (place / "what.txt").write_text(
            f"{kind}: {target}, number {number}\n{words}\n", encoding="utf-8"
        )


def work(
    shared: Shared,
    me: int,
    seed: int,
    until: float,
    chosen: Sequence[int],
    out: Path,
    single: list[int],
) -> None:
    """Read inputs until the time is over, target after target; `single` is one batch to be read one by one."""
    warnings.simplefilter("ignore")
    parent = os.getppid()
    folder = Path(
        tempfile.mkdtemp(
            prefix="flopcast-fuzz-", dir="/dev/shm" if Path("/dev/shm").is_dir() else None
        )
    )
    for target in chosen:  # imports and caches are made before memory is counted
        batch_folder = folder / "warm"
        files = targets.seeds_of(shared.names[target])[0]
        targets.write(batch_folder / "0", files)
        targets.run(shared.names[target], batch_folder, 0)
        shutil.rmtree(batch_folder)
    gc.collect()
    gc.freeze()
    # what is mapped and not held is not counted
    most = MEMORY + 1024 * (_kib("VmSize") - _kib("VmRSS"))
    resource.setrlimit(resource.RLIMIT_AS, (most, most))
    resource.setrlimit(resource.RLIMIT_CORE, (0, 0))
    try:
        if single:
            target, first, many = single
            for number in range(first, first + many):
                _one(shared, me, target, seed, number, folder, out)
        for target in itertools.cycle(chosen):
            if time.time() > until or os.getppid() != parent:
                return
            began = time.process_time()
            Path("/proc/self/clear_refs").write_text("5")  # the peak is counted anew
            while time.process_time() - began < 1 and time.time() < until:
                _some(shared, me, target, seed, folder, out)
            with shared.lock:
                shared.cpu[target] += time.process_time() - began
                shared.peak[target] = max(shared.peak[target], _kib("VmHWM") >> 10)
    finally:
        signal.setitimer(signal.ITIMER_PROF, 0)
        shutil.rmtree(folder, ignore_errors=True)


def _kib(name: str) -> int:
    """Return a figure of the memory of this process, in KiB."""
    lines = Path("/proc/self/status").read_text().splitlines()
    return next(int(line.split()[1]) for line in lines if line.startswith(f"{name}:"))


def _some(shared: Shared, me: int, target: int, seed: int, folder: Path, out: Path) -> None:
    """Read the next inputs of a target."""
    name = shared.names[target]
    many = TOGETHER if name in targets.TABLES else ALONE
    with shared.lock:
        first = shared.next[target]
        shared.next[target] += many
    if many == ALONE:
        for number in range(first, first + ALONE):
            _one(shared, me, target, seed, number, folder, out)
        return
    _clock(shared, me, target, first, TOGETHER)
    try:
        kind = batch(name, seed, range(first, first + TOGETHER), folder)
    except Exception:
        failed = [
            _one(shared, me, target, seed, number, folder, out)
            for number in range(first, first + TOGETHER)
        ]
        if all(kind in ("read", "refused") for kind in failed):
            together = {
                f"{n}/{name}": data
                for n in range(first, first + TOGETHER)
                for name, data in targets.input_of(shared.names[target], seed, n).items()
            }
            shared.count(target, "exception")
            keep(out, name, first, together, "exception", "only together", traceback.format_exc())
        return
    shared.count(target, kind, TOGETHER)


def _one(
    shared: Shared, me: int, target: int, seed: int, number: int, folder: Path, out: Path
) -> str:
    name = shared.names[target]
    _clock(shared, me, target, number, 1)
    try:
        kind = batch(name, seed, [number], folder)
    except Exception:
        files = targets.input_of(name, seed, number)
        kind, what, words = failure(name, files, number, folder) or (
            "exception",
            "not again",
            traceback.format_exc(),
        )
        keep(out, name, number, files, kind, what, words)
    shared.count(target, kind)
    return kind


def _clock(shared: Shared, me: int, target: int, first: int, many: int) -> None:
    """Say what is read next, and have the kernel end this process when that takes too long."""
    shared.at[3 * me : 3 * me + 3] = [target, first, many]
    signal.setitimer(signal.ITIMER_PROF, CPU_SECONDS)
    signal.setitimer(signal.ITIMER_REAL, WALL_SECONDS)

"""How soon the command answers: CPU seconds of its shortest calls, next to the import of two packages it works with."""

from __future__ import annotations

import resource
import subprocess
import sys
from collections.abc import Sequence

from .harness import Row

TASK = "start: processor time until the answer"
CALLS = {
    "flopcast --version": ("-m", "flopcast", "--version"),
    "flopcast --help": ("-m", "flopcast", "--help"),
    "flopcast, a usage error": ("-m", "flopcast", "train", "--budget", "soon"),
    "import flopcast": ("-c", "import flopcast"),
    "python alone": ("-c", "pass"),
    "import pandas, sklearn": ("-c", "import pandas, sklearn"),
}
"""Name -> arguments of Python; the first is what the ratios refer to."""


def start_up(runs: int) -> list[Row]:
    """Return the least user and system time of each call in a separate process, over some runs in turns.

    Parameters
    ----------
    runs : int
        How often each is called; after one call more, which fills the caches of files.
    """
    times: dict[str, list[float]] = {name: [] for name in CALLS}
    for turn in range(runs + 1):
        for name, arguments in CALLS.items():
            seconds = cpu_seconds(arguments)
            if turn:
                times[name].append(seconds)
    least = {name: min(times_of) for name, times_of in times.items()}
    ours = least[next(iter(CALLS))]
    return [Row(TASK, name, seconds, seconds / ours) for name, seconds in least.items()]


def cpu_seconds(arguments: Sequence[str]) -> float:
    """Return the user and system time of Python with these arguments."""
    before = resource.getrusage(resource.RUSAGE_CHILDREN)
    subprocess.run([sys.executable, *arguments], capture_output=True, check=False)
    after = resource.getrusage(resource.RUSAGE_CHILDREN)
    return after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime

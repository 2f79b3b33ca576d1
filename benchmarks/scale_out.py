"""The fits of a cross-validation on the processes of this machine and on the workers of a cluster that runs on it.

On one machine this shows what a cluster costs (starting it aside) and that the result is the same;
what a network and other machines do to it, it does not. ``python -m flopcast.benchmarks.scale_out
--rows 1000 --workers 1,2``
"""

from __future__ import annotations

import argparse
import subprocess
import sys
import time
from collections.abc import Generator, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import pandas as pd

from ..evaluation.competition import compete
from ..features.matrix import Dataset
from ..workers import workers
from .harness import Row
from .peers import made_up, show

MODELS = ("Additive", "BoostedTrees/Residual", "ExtraTrees/Residual")


def scale_out(rows: int, counts: Sequence[int]) -> Iterator[Row]:
    """Yield wall seconds on as many processes, then on as many workers, with the CPU seconds of the workers."""
    data = made_up(rows)
    task = f"{len(data)} pairs, {len(MODELS)} models"
    first: dict[str, pd.DataFrame] = {}
    for count in counts:
        with workers(count):
            yield _row(f"{count} processes", task, data, first)
    for count in counts:
        with cluster(count) as (client, spent), workers(1, client):
            before = spent()
            row = _row(f"{count} workers", task, data, first)
            yield Row(
                task,
                row.name,
                row.seconds,
                note=f"{row.note}, CPU of workers {spent() - before:.1f} s",
            )


def _row(name: str, task: str, data: Dataset, first: dict[str, pd.DataFrame]) -> Row:
    start = time.perf_counter()
    predictions = {
        scheme: one.predictions
        for scheme, one in compete(data, models=MODELS).evaluation.schemes.items()
    }
    seconds = time.perf_counter() - start
    same = all(predictions[scheme].equals(one) for scheme, one in first.items())
    first.update(predictions)
    return Row(
        task,
        name,
        seconds,
        note="wall time, " + ("same predictions" if same else "differs: predictions"),
    )


@contextmanager
def cluster(count: int) -> Generator[tuple[Any, Any]]:
    """Give a client of as many workers, each a process of one thread, and what tells their CPU seconds."""
    import psutil
    from distributed import Client

    with TemporaryDirectory() as folder:
        place = ["--scheduler-file", str(Path(folder) / "scheduler.json")]
        options = {
            "dask_scheduler": ["--port", "0"],
            "dask_worker": ["--nthreads", "1", "--no-nanny"],
        }
        started = []
        for what in ["dask_scheduler", *["dask_worker"] * count]:
            command = [
                sys.executable,
                "-m",
                f"distributed.cli.{what}",
                *place,
                "--no-dashboard",
                "--host",
                "127.0.0.1",
            ]
            started.append(subprocess.Popen([*command, *options[what]], stderr=subprocess.DEVNULL))
        try:
            with Client(scheduler_file=place[1], set_as_default=False) as client:
                client.wait_for_workers(count, timeout=60)
                yield (
                    client,
                    lambda: sum(
                        sum(psutil.Process(one.pid).cpu_times()[:2]) for one in started[1:]
                    ),
                )
        finally:
            for process in started:
                process.kill()
                process.wait()


def main(arguments: Sequence[str] | None = None) -> None:
    """Measure and print a line each."""
    parser = argparse.ArgumentParser(
        prog="python -m flopcast.benchmarks.scale_out", description=__doc__
    )
    parser.add_argument("--rows", type=int, default=1000, help="made-up pairs")
    parser.add_argument("--workers", default="1,2", help="numbers of workers")
    options = parser.parse_args(arguments)
    for row in scale_out(options.rows, [int(count) for count in options.workers.split(",")]):
        show(row)


if __name__ == "__main__":
    main()

"""Reading AMD's tuned-kernel files against the least a script would do: pandas alone, and a plain parser of lines."""

from __future__ import annotations

import bz2
import os
from collections.abc import Iterator
from pathlib import Path
from tempfile import TemporaryDirectory

import numpy as np
import pandas as pd

from ..readers import Measurements, read
from ..readers.files import find_files
from .harness import Comparison, Contender


def readers(data: Path) -> Iterator[Comparison]:
    """Yield the reading of ``data/aiter`` and of the smallest file of ``data/miopen``, where they are."""
    if tables := sorted((data / "aiter").rglob("*.csv")):
        yield Comparison(
            task=f"read {len(tables)} AITER tables",
            ours=Contender("flopcast read", lambda: read([data / "aiter"])),
            peers=(
                Contender("pandas.read_csv alone", lambda: [pd.read_csv(path) for path in tables]),
            ),
            nothing=Contender("do nothing (bytes)", lambda: [path.read_bytes() for path in tables]),
            differs=different_tables,
            items=sum(len(pd.read_csv(path)) for path in tables),
        )
    if files := sorted((data / "miopen").glob("*.fdb.txt*"), key=lambda path: path.stat().st_size):
        yield Comparison(
            task="read a MIOpen find-db",
            ours=Contender("flopcast read", lambda: read([files[0]])),
            peers=(Contender("plain Python lines", lambda: plain_lines(files[0])),),
            nothing=Contender("do nothing (bytes)", lambda: content(files[0])),
            differs=different_solvers,
            items=len(plain_lines(files[0])),
        )


def files(count: int) -> Iterator[Comparison]:
    """Yield the finding of so many files in each of two folders, under the same names."""
    with TemporaryDirectory() as name:
        folders = [Path(name) / one for one in ("a", "b")]
        for folder in folders:
            folder.mkdir()
            for number in range(count):
                (folder / f"{number}.txt").touch()
        yield Comparison(
            task=f"find {2 * count} files",
            ours=Contender(
                "flopcast find_files", lambda: sorted(file.path for file in find_files(folders))
            ),
            peers=(Contender("pathlib.rglob", lambda: sorted(Path(name).rglob("*.txt"))),),
            nothing=Contender(
                "do nothing (names)", lambda: [os.listdir(folder) for folder in folders]
            ),
            differs=lambda files, others: (
                "" if files == others else f"{len(files)} files, not {len(others)}"
            ),
            items=2 * count,
        )


def content(path: Path) -> bytes:
    """Return the bytes of a file, decompressed."""
    return bz2.decompress(path.read_bytes()) if path.suffix == ".bz2" else path.read_bytes()


def plain_lines(path: Path) -> dict[tuple[int, str], float]:
    """Return the time of every solver in microseconds, by line and solver; keys are not taken apart."""
    times: dict[tuple[int, str], float] = {}
    for number, line in enumerate(content(path).decode("utf-8").splitlines(), start=1):
        for entry in line.partition("=")[2].split(";"):
            if ":" in entry:
                solver, _, values = entry.rpartition(":")
                times[number, solver] = 1000 * float(values.split(",")[0])
    return times


def different_tables(measured: Measurements, tables: list[pd.DataFrame]) -> str:
    """Return in what our rows differ from the rows of AITER's tables that hold kernels we know."""
    of_kernels = [table for table in tables if {"kernelName", "kernelName1"} & set(table.columns)]
    rows = int(measured.frame["repeats"].sum()) + len(measured.rejected)
    if rows != (expected := sum(map(len, of_kernels))):
        return f"{rows} rows, not {expected}"
    single = measured.frame.loc[measured.frame["repeats"] == 1, "duration_us"]
    times = pd.concat([pd.to_numeric(table["us"], errors="coerce") for table in of_kernels])
    return "" if np.isin(single, times).all() else "times that are in no table"


def different_solvers(measured: Measurements, times: dict[tuple[int, str], float]) -> str:
    """Return in what our rows differ from the solvers' times by line."""
    rows = int(measured.frame["repeats"].sum()) + len(measured.rejected)
    if rows != len(times):
        return f"{rows} rows, not {len(times)}"
    single = measured.frame[measured.frame["repeats"] == 1]
    lines = single["source"].str.rpartition(":")[2].astype(int)
    expected = [times.get(key, np.nan) for key in zip(lines, single["kernel"], strict=True)]
    return (
        "" if np.allclose(single["duration_us"], expected, rtol=1e-12) else "times of some solvers"
    )

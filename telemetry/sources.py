"""The tables as files: CSV or Parquet of this package's own form, and power logs in any form that is known."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

import pandas as pd
import pyarrow as pa
import pyarrow.parquet as pq

from ..errors import DataError
from ..features.readers.base import LINE
from ..features.readers.files import head, parse_csv, text
from .logs import EITHER, read_power_log
from .tables import check_power_log

GPU_CLOCK, CPU_CLOCK, NO_CLOCK = "gpu", "epoch", "none"
"""What the times of a log are: of the GPU's counter, of the CPU since 1970, or absent."""


@dataclass(frozen=True)
class PowerLog:
    """A power log of one GPU.

    Attributes
    ----------
    readings : DataFrame
        As `telemetry.tables.check_power_log` returns them; ``gpu_ns`` is the log's own clock.
    clock : str
        What that clock is: "gpu", "epoch" (the CPU's) or "local time".
    power : str
        "instantaneous", "average" or "not stated".
    """

    readings: pd.DataFrame
    clock: str
    power: str


def read_log(path: Path, gpu: int | None = None) -> PowerLog:
    """Read a power log: a table with gpu_ns and power_w, or a log of nvidia-smi, amd-smi or rocm-smi.

    Parameters
    ----------
    path : Path
        The file.
    gpu : int, optional
        Which GPU's readings count; may be left out where the log has one only.

    Raises
    ------
    DataError
        The file cannot be read, has no times, or is of several GPUs of which none was chosen.
    """
    if not path.is_file():
        raise DataError("no such file", source=str(path))
    beginning = head(path)
    header = beginning.split(b"\n", 1)[0].lower()
    if beginning.startswith(b"PAR1") or (b"power_w" in header and b"time_ns" not in header):
        return PowerLog(check_power_log(read_table(path), str(path)), GPU_CLOCK, EITHER)
    found = read_power_log(path)
    clock, power = str(found.attrs["clock"]), str(found.attrs["power"])
    if clock == NO_CLOCK:
        raise DataError("the log states no times: record them (amd-smi metric: with -w)", source=str(path))
    gpus = found["gpu"].unique().tolist()
    if gpu is None and len(gpus) > 1:
        raise DataError(f"the log is of GPUs {', '.join(map(str, gpus))}: choose one with --gpu", source=str(path))
    if gpu is not None and gpu not in gpus:
        raise DataError(f"no reading of GPU {gpu}: the log is of {', '.join(map(str, gpus))}", source=str(path))
    chosen = found if gpu is None else found[found["gpu"] == gpu]
    return PowerLog(check_power_log(chosen.rename(columns={"time_ns": "gpu_ns"}), str(path)), clock, power)


def read_table(path: Path) -> pd.DataFrame:
    """Read a CSV (which may be compressed) or Parquet file; the values of CSV stay text for the check that follows.

    Raises
    ------
    DataError
        The file does not exist or cannot be read.
    """
    if not path.is_file():
        raise DataError("no such file", source=str(path))
    if head(path).startswith(b"PAR1"):
        try:
            return pq.read_table(path).to_pandas()
        except pa.ArrowException as error:
            raise DataError(f"is not readable Parquet ({error})", source=str(path)) from error
    csv = parse_csv(text(path))
    if csv.overlong:
        raise DataError("has more fields than the header names", source=f"{path}:{csv.overlong[0][0]}")
    return pd.DataFrame({**{name: values for name, values in csv.columns.items() if name}, LINE: csv.lines})

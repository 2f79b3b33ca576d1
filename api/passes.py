"""Profiling in passes, a few kernels at a time: what the passes measured."""

from __future__ import annotations

from pathlib import Path

import pandas as pd

from ..errors import DataError
from ..output import unguarded
from ..projection.passes import NEEDED
from ..readers import Options, TraceFailure, read_traces
from ..traces.cleaning.joining import merge_coverage


def read_durations(path: Path, options: Options | None = None) -> pd.DataFrame:
    """Return durations by place: those of a table (.parquet, .csv), or of the traces of passes, put together.

    Raises
    ------
    DataError
        The file is damaged, a trace cannot be read or there is none, or passes contradict each other.
    """
    if path.suffix.lower() == ".parquet" and path.is_file():
        try:
            return pd.read_parquet(path)
        except (OSError, ValueError) as error:
            raise DataError("is no Parquet file that can be read", source=str(path)) from error
    if path.suffix.lower() == ".csv" and path.is_file():
        try:
            table = pd.read_csv(path)
        except (OSError, ValueError) as error:
            raise DataError("is no CSV file that can be read", source=str(path)) from error
        if set(NEEDED) <= set(table):
            return table.assign(name=table["name"].astype(str).map(unguarded))
    return merge_coverage(passes_of(path, options)).places


def passes_of(path: Path, options: Options | None = None) -> dict[str, pd.DataFrame]:
    """Return the dispatch table of each trace of a folder; a DataError says that there is none, or one is damaged."""
    found = {}
    for label, trace in read_traces([path], options=options):
        if isinstance(trace, TraceFailure):
            raise trace.error
        found[label] = trace.dispatches
    if not found:
        raise DataError("no trace of a pass, and no table of durations: give one of them", source=str(path))
    return found

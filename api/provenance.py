"""What a run says of itself: how it was asked for, from which files and rows, when, and on which machine."""

from __future__ import annotations

import os
import platform
from collections.abc import Mapping
from datetime import UTC, datetime
from inspect import signature
from pathlib import Path
from typing import Any, Final

import pandas as pd

from ..hardware import GPU
from ..measuring.backend import cpu_model
from ..output import visible
from ..readers import Measurements
from ..table.conditions import Where, conditions

_WITHOUT: Final = ("jobs", "cluster", "progress", "command")
"""Parameters that do not change a result."""


def provenance(asked: str, measured: Measurements, where: Where, seed: int) -> dict[str, Any]:
    """Return what ``metrics.json`` holds under ``provenance``.

    Parameters
    ----------
    asked : str
        The command line, or the call.
    measured : Measurements
        What was read.
    where, seed
        As for `train`.

    Returns
    -------
    dict
        ``command``; ``files``, a list of name, bytes and sha256 of each; ``where``, the conditions as texts; ``seed``;
        ``date``, UTC; ``machine``: cpu, cores, os and python. All but the date and the machine are the same for the
        same call and data.
    """
    return {
        "command": visible(asked),
        "files": [{"name": visible(file.name), "bytes": file.size, "sha256": file.sha256} for file in measured.files],
        "where": [visible(str(condition)) for condition in conditions(where)],
        "seed": seed,
        "date": datetime.now(UTC).isoformat(timespec="seconds"),
        "machine": {
            "cpu": cpu_model(),
            "cores": os.cpu_count(),
            "os": platform.platform(),
            "python": platform.python_version(),
        },
    }


def call_text(function: Any, given: Mapping[str, Any]) -> str:
    """Return a call of the front door as it would be written, without what is as by default or changes no result.

    Examples
    --------
    >>> import flopcast as fc
    >>> call_text(fc.gpu, {"name": Path("mine.toml")})
    "fc.gpu(name='mine.toml')"
    """
    words = [
        f"{name}={_written(given[name])}"
        for name, parameter in signature(function).parameters.items()
        if name not in _WITHOUT and repr(given[name]) != repr(parameter.default)
    ]
    return f"fc.{function.__name__}({', '.join(words)})"


def _written(value: Any) -> str:
    """Write an argument in a few words: a table by its size, a path and a GPU by its name."""
    if isinstance(value, pd.DataFrame | Measurements):
        return f"<table of {len(value.frame if isinstance(value, Measurements) else value)} rows>"
    if isinstance(value, list | tuple):
        inner = ", ".join(map(_written, value))
        return f"[{inner}]" if isinstance(value, list) else f"({inner}{',' * (len(value) == 1)})"
    return repr(value.name if isinstance(value, GPU) else os.fspath(value) if isinstance(value, Path) else value)

"""The embedded measurements: kernels timed by this project, and the two devices they were timed on.

`fetch_aiter` and `fetch_miopen` bring public tables of GPUs to a cache and return their folder.
"""

from __future__ import annotations

from importlib import resources
from pathlib import Path

from .fetching import fetch

_FOLDER = Path(str(resources.files(__package__)))

DEFAULT_HOST = str(_FOLDER / "cpu-1t.toml")
"""One core of the measured machine, as `hardware.find` takes it."""

DEFAULT_TARGET = str(_FOLDER / "cpu-2t.toml")
"""Both cores of the measured machine, as `hardware.find` takes it."""


def default_paths() -> list[Path]:
    """Return the files of the embedded measurements (README.md beside them says how they were made)."""
    return [_FOLDER / "cpu_kernels.parquet"]


def fetch_aiter(cache: str | Path | None = None) -> Path:
    """Return the folder of AITER's tuned kernels, fetched once (`fetching.fetch`).

    Examples
    --------
    With a network::

        fc.train(fc.datasets.fetch_aiter(), where={"op": "gemm"}, host="MI300X", target="MI355X")
    """
    return fetch("aiter", cache)


def fetch_miopen(cache: str | Path | None = None) -> Path:
    """Return the folder of MIOpen's find databases, fetched once (`fetching.fetch`)."""
    return fetch("miopen", cache)

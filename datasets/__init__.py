"""The embedded measurements: kernels timed by this project, and the two devices they were timed on."""

from __future__ import annotations

from importlib import resources
from pathlib import Path

_FOLDER = Path(str(resources.files(__package__)))

DEFAULT_HOST = str(_FOLDER / "cpu-1t.toml")
"""One core of the measured machine, as `hardware.find` takes it."""

DEFAULT_TARGET = str(_FOLDER / "cpu-2t.toml")
"""Both cores of the measured machine, as `hardware.find` takes it."""


def default_paths() -> list[Path]:
    """Return the files of the embedded measurements (README.md beside them says how they were made)."""
    return [_FOLDER / "cpu_kernels.parquet"]

"""Where the embedded measurements stand, and public tables fetched under their names."""

from __future__ import annotations

from importlib import resources
from pathlib import Path

from .fetching import fetch

_FOLDER = Path(str(resources.files("flopcast.datasets")))
# the devices of the embedded measurements
DEFAULT_HOST = "MI300X"
DEFAULT_TARGET = "MI355X"
SERVING_MODEL = _FOLDER / "serving_model.parquet"
"""What published runs of serving taught (`workloads.serving_model`); README.md beside it says where they are from."""
SERVING_CONDITIONS = _FOLDER / "serving_conditions.parquet"
"""Runs with speculation, and with prompts on other GPUs than answers (`workloads.measured_ratios`)."""
INSTINCT_KERNELS = _FOLDER / "instinct_kernels.parquet"
"""Kernels of MI300X and MI355X, and what was learnt of them (`models.instinct_kernels`); README.md has the sources."""
SHIPPED = "shipped"  # the run that is asked where none was trained
H100_H200 = _FOLDER / "h100_h200.csv"
H100_PARTS = _FOLDER / "h100_parts.csv"
"""What flopcast itself measured: kernels of PyTorch on an H100 and an H200, and on parts of the H100's SMs."""


def default_paths() -> list[Path]:
    """Return the files of the embedded measurements (README.md beside them says where they are from)."""
    return [_FOLDER / "aiter_fp8.parquet"]


def is_shipped(run: object) -> bool:
    """Whether a run means what ships of kernels: the word, where no folder is called so."""
    return isinstance(run, str | Path) and str(run) == SHIPPED and not Path(run).exists()


def fetch_aiter(*, cache: str | Path | None = None, wheel: str | Path | None = None) -> Path:
    """Return the folder of AITER's tuned kernels, fetched once (`fetching.fetch`).

    They come from the repository or, where it cannot be had, from a wheel of an earlier version,
    which has fewer.

    Parameters
    ----------
    cache : path, optional
        Folder of the cache.
    wheel : path, optional
        The wheel, brought by hand: no network is asked.

    Examples
    --------
    With a network::

        fc.train(fc.datasets.fetch_aiter(), where={"op": "gemm"}, host="MI300X", target="MI355X")
    """
    return fetch("aiter", cache=cache, wheel=wheel).folder


def fetch_miopen(*, cache: str | Path | None = None) -> Path:
    """Return the folder of MIOpen's find databases, fetched once (`fetching.fetch`)."""
    return fetch("miopen", cache=cache).folder


def fetch_aiconfigurator(
    *, cache: str | Path | None = None, wheel: str | Path | None = None
) -> Path:
    """Return the folder of AIConfigurator's tables, fetched once (`fetching.fetch`).

    In it are ``systems/data/DEVICE/OPERATORS/ENGINE/VERSION/*.parquet`` (times of kernels and
    collectives), ``systems/*.yaml`` (devices), ``systems/silicon_sample.csv`` (whole runs) and
    ``model_configs/*.json``.

    Parameters
    ----------
    cache : path, optional
        Folder of the cache.
    wheel : path, optional
        The wheel, brought by hand: no network is asked.
    """
    return fetch("aiconfigurator", cache=cache, wheel=wheel).folder

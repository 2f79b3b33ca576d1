"""GPUs by name: one with its published figures, or all that are known as a table."""

from __future__ import annotations

from collections.abc import Callable, Collection, Sequence
from pathlib import Path
from typing import Any, TypeAlias

import pandas as pd

from .. import values
from ..errors import ParameterError, UnknownGPUError
from ..hardware import FIGURES, GPU, Comparison, all_gpus, find

Device: TypeAlias = str | Path | GPU
"""How a call names a GPU: its name or alias, a TOML file with one of the user's own, or the GPU itself."""
Devices: TypeAlias = str | Sequence[Device]
"""``MI308X,MI300X``, or a sequence of devices."""
DeviceName: TypeAlias = str
"""A device as the data call it, whether a GPU is known by that name or not."""


def gpu(name: Device) -> GPU:
    """Return a GPU and its published figures.

    Parameters
    ----------
    name : str, Path or GPU
        A name or alias, whatever its case, or a TOML file with a GPU of your own (``based_on =
        "MI355X"`` takes the rest from a known one).

    Returns
    -------
    GPU
        Figures carry their unit in their name; None where nothing is published.

    Raises
    ------
    UnknownGPUError
        No GPU answers to the name; says which come close.
    DataError
        The file cannot be read or describes no GPU.

    Examples
    --------
    >>> import flopcast as fc
    >>> fc.gpu("mi300x").memory_bw_gbs
    5325.0
    """
    return device(name, "name")


def gpus(*names: Device) -> pd.DataFrame:
    """Return GPUs with their published figures.

    Parameters
    ----------
    *names : str, path or GPU
        As for `gpu`; none: all that are known.

    Returns
    -------
    DataFrame
        One row per GPU, its name the index; a column per figure, the unit in its name, then the
        dense peaks in TFLOPS (TOPS for integers). Missing where nothing is published.

    Examples
    --------
    >>> import flopcast as fc
    >>> fc.gpus("MI300X", "MI355X")["memory_gb"].tolist()
    [192.0, 288.0]
    """
    catalogue = [gpu(name) for name in names] or all_gpus()
    peaks = dict.fromkeys(key for gpu in catalogue for key in gpu.peaks)
    rows = [
        {"vendor": gpu.vendor, "arch": gpu.arch, "gfx": gpu.gfx}
        | {key: getattr(gpu, key) for key in FIGURES}
        | {f"{key}_tflops": gpu.peaks.get(key) for key in peaks}
        for gpu in catalogue
    ]
    return pd.DataFrame(rows, index=pd.Index([gpu.name for gpu in catalogue], name="name"))


def several_devices(given: Any, parameter: str) -> Any:
    """Return the names of ``MI300X,H200`` as a list; everything else, and a path that exists, as it is."""
    if isinstance(given, str) and "," in given and not Path(given).exists():
        return values.names(parameter, given)
    return given


def known_or_measured(
    given: Device, parameter: str, measured: Callable[[], Collection[str]]
) -> GPU:
    """Return the GPU that a parameter names, or a device without figures that the data name so.

    ``measured`` gives the devices of the data; it is asked where no GPU answers to the name. Raises
    as `device`.
    """
    try:
        return device(given, parameter, every=True)
    except UnknownGPUError:
        if not isinstance(given, str) or given not in measured():
            raise
    return GPU(name=given)


def device(given: Device, parameter: str, *, every: bool = False) -> GPU:
    """Return the GPU that a parameter names; with ``every``, ``all`` stands for those that the rows name.

    Raises ParameterError: it is neither a name, a file nor a GPU; else as `gpu`.
    """
    if Comparison.means_all(given):
        return Comparison.MANY if every else find("all")  # which is none
    if not isinstance(given, str | Path | GPU):
        raise ParameterError(
            parameter, f"must be a name, a TOML file or a GPU, got {type(given).__name__}"
        )
    return find(given)

"""GPUs by name: one with its published figures, or all of the catalogue as a table."""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping, Sequence
from itertools import chain
from os.path import exists  # False of a name too long to be one, where that of Path raises
from pathlib import Path
from typing import Any, TypeAlias

import pandas as pd

from .. import values
from ..datasets import DEFAULT_HOST, DEFAULT_TARGET
from ..errors import ParameterError, UnknownGPUError
from ..hardware import FIGURES, GPU, Comparison, all_gpus, find, word_of
from ..settings import configured
from ..values import Assigned

Device: TypeAlias = str | Path | GPU
"""How a call names a GPU: its name or alias, a TOML file with the user's, or the GPU itself."""
Devices: TypeAlias = str | Sequence[Device]
"""``MI308X,MI300X``, or a sequence of devices."""
DeviceName: TypeAlias = str | GPU
"""A device as the data call it, whether the catalogue has a GPU of that name or not."""


@configured
def gpu(name: Device) -> GPU:
    """Return a GPU and its published figures.

    Parameters
    ----------
    name : str, Path or GPU
        A name or alias, whatever its case, or a TOML file with your GPU (``based_on =
        "MI355X"`` takes the rest from one of the catalogue).

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


@configured
def gpus(*names: Device) -> pd.DataFrame:
    """Return GPUs with their published figures.

    Parameters
    ----------
    *names : str, path or GPU
        As for `gpu`; none: all of the catalogue.

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
    peaks = dict.fromkeys(chain.from_iterable(one.peaks for one in catalogue))
    rows = []
    for entry in catalogue:
        rows.append(
            {"vendor": entry.vendor, "arch": entry.arch, "gfx": entry.gfx}
            | {key: getattr(entry, key) for key in FIGURES}
            | {f"{key}_tflops": entry.peaks.get(key) for key in peaks}
        )
    return pd.DataFrame(rows, index=pd.Index([gpu.name for gpu in catalogue], name="name"))


def stated_defaults(default: Assigned | None) -> dict[str, str]:
    """Return the values that columns lacking in the data have, as texts: a GPU is its name.

    One that has the name of a GPU of the catalogue, and other figures, is called ``(your own)``.
    """
    if isinstance(default, Mapping):
        default = {name: word_of(value) for name, value in default.items()}
    return values.assigned("default", default)


def several_devices(given: Any, parameter: str) -> Any:
    """Return the names of ``MI300X,H200`` as a list; everything else, and a path that exists, as it is."""
    if isinstance(given, str) and "," in given and not exists(given):
        return values.names(parameter, given)
    return given


def published_or_measured(
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


def compared(
    host: Device | None,
    target: Device | Sequence[Device] | None,
    measured: Callable[[], Collection[str]],
    *,
    embedded: bool = False,
) -> tuple[Comparison, list[GPU]]:
    """Return which devices a model learns from and predicts, and the GPUs of a list of targets, which share one.

    ``measured`` is as for `published_or_measured`. The ``embedded`` measurements have a host and a target
    of their own, where none is given. Raises ParameterError: there is no target, both are
    the same, or one host stands beside many targets; else as `device`.
    """
    if embedded:
        target = target or DEFAULT_TARGET
    if target is None:
        raise ParameterError(
            "target", "is missing: which device? and the host, to predict from its measurements"
        )
    target = several_devices(target, "target")
    listed = []
    predicted = Comparison.MANY
    if isinstance(target, list | tuple):
        if not target:
            raise ParameterError("target", "must name a GPU, got an empty list")
        listed = [device(name, "target") for name in target]
    else:
        predicted = published_or_measured(target, "target", measured)
    if embedded and host is None and predicted.name == DEFAULT_TARGET:
        host = DEFAULT_HOST
    from_host = None
    if host is not None:
        from_host = published_or_measured(host, "host", measured)
    comparison = Comparison(from_host, predicted)
    if comparison.is_pair and from_host == predicted:
        both = (
            f"and the target are both {predicted.name}: leave out the host to predict new workloads"
        )
        raise ParameterError("host", both)
    if comparison.has_many_hosts and not comparison.is_many:
        raise ParameterError(
            "host",
            f"may be all only where the target is all, or several GPUs, not {predicted.name}",
        )
    if listed and comparison.one_host is not None:
        for_each = (
            "`train_each` has a run for each of them, and all GPUs as target one for them together"
        )
        raise ParameterError(
            "host", f"must be all or left out where targets are listed: {for_each}"
        )
    return comparison, listed


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

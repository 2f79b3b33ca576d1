"""What `forecast` may be asked of a workload, as keywords, and the settings that they stand for."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import fields as dataclass_fields
from itertools import product
from typing import Any, Final, TypeAlias, TypedDict

import numpy as np
import pandas as pd

from .. import values
from ..errors import DataError, ParameterError
from ..readers.words import vocabulary
from ..table.conditions import Reading
from ..values import Counts, Names, Numbers, Size, Time
from ..workloads.setting import Setting
from .devices import Device, several_devices

OneOrMoreDevices: TypeAlias = Device | Sequence[Device]
"""``MI300X,H200``, one device, or a sequence of devices."""
SizesByName: TypeAlias = str | Mapping[str, int]
"""``batch=8,sequence=128``, or a mapping."""
ALSO_CALLED: Final = {"isl": "input_len", "osl": "output_len", "device": "gpu"}
"""Other names of keywords."""
_OF_CASES: Final = {**vocabulary("columns_of_serving"), "batch_size": "batch", **ALSO_CALLED}
"""Other names of columns of a table of cases."""
DEFAULT_GPU: Final = "MI300X"
MOST: Final = 100_000  # points of a grid
_NAMED: Final = (
    "dtype",
    "kv_dtype",
    "engine",
    "release",
    "recompute",
    "schedule",
    "optimizer",
)
"""Fields that are words, of which a text may list several."""
_TYPES: Final = {field.name: str(field.type) for field in dataclass_fields(Setting)}


class OfAny(TypedDict, total=False):
    """On what a workload runs, and how it is cut."""

    kind: str | None
    gpu: OneOrMoreDevices | None
    device: OneOrMoreDevices | None
    gpus: Counts | None
    tp: Counts | None
    pp: Counts | None
    dp: Counts | None
    ep: Counts | None
    network_gbs: Numbers | None
    network_us: Numbers | None
    node_gpus: Counts | None
    dtype: Names | None
    memory_utilisation: Numbers | None
    release: Names | None


class OfInference(TypedDict, total=False):
    """A batch, or requests that are served as they fit."""

    batch: Counts | None
    input_len: Counts | None
    isl: Counts | None
    output_len: Counts | None
    osl: Counts | None
    num_prompts: Counts | None
    kv_dtype: Names | None
    max_num_seqs: Counts | None
    max_batched_tokens: Counts | None
    eager: bool | None
    prefix_cache: bool | None


class OfTraining(TypedDict, total=False):
    """A step of an optimizer."""

    micro_batch: Counts | None
    global_batch: Counts | None
    seq_len: Counts | None
    cp: Counts | None
    zero: Counts | None
    schedule: Names | None
    interleave: Counts | None
    sequence_parallel: bool | None
    recompute: Names | None
    recompute_layers: Counts | None
    optimizer: Names | None
    lora: bool | None
    flash: bool | None


class OfGraph(TypedDict, total=False):
    """Operators of the user: `workloads.layer_graph.GraphSetting`."""

    dims: SizesByName | None
    time_unit: str | None
    measured_on: Device | None
    congestion: str | None
    rendezvous_bytes: Size | None
    bins: Time | None


class Fields(OfAny, OfInference, OfTraining, OfGraph, total=False):
    """What a row of a table of cases may state."""


class AskedOfTraining(OfAny, OfTraining, Reading, total=False):
    """All that a step of an optimizer may be asked with."""


class Asked(Fields, Reading, total=False):
    """All of these, and how measured kernels are read."""


def fields_of(asked: Mapping[str, Any]) -> dict[str, Any]:
    """Return the fields of a setting that keywords state, under our names, with texts as the values that they list.

    Raises ParameterError: one is given under both of its names, or a text cannot be read.
    """
    fields: dict[str, Any] = {}
    for name, value in asked.items():
        ours = ALSO_CALLED.get(name, name)
        if value is None or name in Reading.__annotations__:
            continue
        if ours in fields:
            raise ParameterError(name, f"is {ours}, which is given too: give one of them")
        fields[ours] = listed(ours, value)
    return fields


def other_names(columns: Iterable[str]) -> dict[str, str]:
    """Return the columns of a table of cases that the field calls otherwise, each with our name for it.

    >>> other_names(["ISL", "tp_size", "dtype"])
    {'ISL': 'input_len', 'tp_size': 'tp'}
    """
    given = list(columns)
    names: dict[str, str] = {}
    for name in given:
        word = name.strip().lower().replace("-", "_").replace(" ", "_")
        ours = _OF_CASES.get(word, word)
        ours = ALSO_CALLED.get(ours, ours)
        taken = ours in given or ours in names.values()
        if ours in Fields.__annotations__ and not taken:
            names[name] = ours
    return names


def reading_of(asked: Mapping[str, Any]) -> dict[str, Any]:
    """Return how measured kernels are to be read, without what says nothing."""
    reading = {}
    for name in Reading.__annotations__:
        if asked.get(name):
            reading[name] = asked[name]
    return reading


def listed(name: str, value: Any) -> Any:
    """Return the values of a text such as ``fp8,bf16`` or ``1:8``, one as it is; what is no text passes."""
    if isinstance(value, str):
        value = _values(name, value)
    if isinstance(value, list) and len(value) == 1:
        return value[0]
    return value


def _values(name: str, text: str) -> Any:
    if name == "gpu":
        return several_devices(text, name)
    if name in _NAMED:
        return values.names(name, text)
    if _TYPES.get(name) == "float":
        return values.numbers(name, text)
    if name == "concurrency" or str(_TYPES.get(name)).startswith("int"):
        return values.counts(name, text)
    return text


def grid(fields: Mapping[str, Any]) -> Iterator[dict[str, Any]]:
    """Return every combination of the fields that are lists, the first varying slowest.

    Raises DataError: there are more than `MOST`.
    """
    axes = []
    points = 1
    for value in fields.values():
        axis = value
        if isinstance(value, np.ndarray | pd.Series):
            axis = value.tolist()
        if not isinstance(axis, list | tuple | range):
            axis = [axis]
        axes.append(axis)
        points *= len(axis)
    if points > MOST:
        raise DataError(f"the grid has {points} points, more than {MOST}: ask for fewer")
    for point in product(*axes):
        yield dict(zip(fields, point, strict=True))

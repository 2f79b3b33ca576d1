"""What ships of the kernels of AMD Instinct: measured shapes of MI300X and MI355X, and processes learnt from them.

`datasets/instinct_kernels.parquet` holds the shapes with their times, and in its metadata the
settings of a `kernel_process.KernelProcess` for each kind of kernel and GPU, with its errors by
folds. A kind that was measured on MI300X alone is moved to MI355X by the ratio of their peaks, with
the spread about it of the products that both have.
"""

from __future__ import annotations

import json
from collections.abc import Iterator
from dataclasses import dataclass, replace
from functools import cache
from statistics import NormalDist
from typing import Any, Final

import numpy as np
import pandas as pd
import pyarrow.parquet as pq

from ..arrays import FloatArray, IntArray
from ..datasets.embedded import INSTINCT_KERNELS
from ..errors import UnknownGPUError
from ..hardware import find
from .kernel_process import LEVELS, KernelProcess, fit_process

METADATA: Final = b"flopcast.instinct_kernels"
SIZES: Final = {
    "gemm": ("m", "n", "k"),
    "grouped_gemm": ("batch", "m", "n", "k"),
    "attention": ("batch", "heads", "kv_heads", "seq_q", "head_dim", "head_dim_v", "causal"),
}
"""Sizes of each operator of which its time is learnt; the backward pass has those of the forward pass."""
KEYS: Final = ("device", "op", "direction", "format")
_TILE: Final = 256.0
_DIRECTIONS: Final = {"": "forward", "backward": "backward"}
_SCALED: Final = {"": "tensor", "tensor": "tensor", "1x128": "block"}
_MOVED_FROM = "MI300X"
_MOVED_TO = "MI355X"
_ROUNDING: Final = 1e-6  # of a size's logarithm: the rounding of a limit
BEYOND: Final = "beyond the measured sizes"
_WAVES: Final = "waves begun over those filled"  # logarithm: 0 where the last wave is full
_INPUTS: Final = {
    "gemm": ("m", "n", "k", _WAVES),
    "grouped_gemm": ("batch", "m of a group", "n", "k", _WAVES),
    "attention": ("batch", "heads", "heads of a key", "seq_q", "head_dim", "head_dim_v", "causal"),
}
"""What the inputs of each operator are, in the order of `inputs_of`: logarithms, but for ``causal``."""


@dataclass(frozen=True)
class Kind:
    """A kind of kernel on a GPU: what was learnt of it.

    ``errors`` are of shapes left out: ``mean_percent``, ``inside_percent`` of the 90 % intervals,
    ``shapes``; with ``new_group_`` before them of shapes whose whole group was left out, of which
    there are ``groups``. ``quantiles`` are those of the error over the deviation at `LEVELS`,
    ``new_group_quantiles`` where the group was left out; ``moved`` is the factor and the spread with
    which times of another GPU are taken.
    """

    process: KernelProcess
    errors: dict[str, float]
    quantiles: FloatArray
    new_group_quantiles: FloatArray
    lower: FloatArray
    upper: FloatArray
    groups: frozenset[tuple[float, ...]]
    moved: tuple[float, float] | None = None


@dataclass(frozen=True)
class KernelTimes:
    """Times in µs with their intervals, shape (rows,) each; NaN with a reason where there is none.

    ``basis`` says what they rest on, in the words of `api.answers.Prediction`.
    """

    us: FloatArray
    lower: FloatArray
    upper: FloatArray
    basis: list[str]
    reasons: list[str]


def family(op: str) -> str:
    """Return the operator whose sizes an operator has."""
    return op.removesuffix("_backward")


def described(rows: pd.DataFrame) -> pd.DataFrame:
    """Return the `KEYS` of rows of the measurement table; ``format`` is empty where none was measured."""
    table = pd.DataFrame(index=rows.index)
    table["device"] = [_measured_name(name) for name in rows["device"]]
    table["op"] = rows["op"].map(family)
    if "variant" in rows:
        variant = rows["variant"]
    else:
        variant = pd.Series("", rows.index)
    backward = rows["op"].str.endswith("_backward") | variant.eq("backward")
    table["direction"] = np.where(backward, "backward", "forward")
    wide = rows["dtype_a"].isin(["bf16", "fp16"])
    if "scale_block" in rows:
        scales = rows["scale_block"]
    else:
        scales = pd.Series("", rows.index)
    kept = scales.map(_SCALED)
    narrow = rows["dtype_a"].eq("fp8") & kept.notna()
    attends = table["op"].eq("attention")
    words = np.where(attends, "fp8", "fp8 " + kept.fillna(""))
    if "dtype_b" in rows:
        alike = rows["dtype_b"].eq(rows["dtype_a"])
    else:
        alike = True
    alone = True
    if "batch" in rows:
        alone = table["op"].ne("gemm") | rows["batch"].fillna(1.0).eq(1.0)
    formats = np.where(wide, "bf16", np.where(narrow, words, ""))
    table["format"] = np.where(alike & alone, formats, "")
    return table


def each_kind(rows: pd.DataFrame) -> Iterator[tuple[tuple[str, ...], IntArray]]:
    """Yield the `KEYS` that rows have, and the places of those with each."""
    places: dict[tuple[str, ...], list[int]] = {}
    keys = rows[[*KEYS]].astype(str)
    for place, key in enumerate(keys.itertuples(index=False, name=None)):
        places.setdefault(key, []).append(place)
    for key, members in places.items():
        yield key, np.array(members, dtype=np.int64)


def inputs_of(op: str, rows: pd.DataFrame, cus: float) -> tuple[FloatArray, FloatArray]:
    """Return the inputs of a process, shape (rows, p), and the work that the time is taken over."""
    sizes = {name: rows[name].to_numpy(dtype=float) for name in SIZES[op]}
    if op == "attention":
        causal = sizes.pop("causal")
        kept = np.where(causal > 0, 0.5, 1.0)
        widths = sizes["head_dim"] + sizes["head_dim_v"]
        work = sizes["batch"] * sizes["heads"] * sizes["seq_q"] ** 2 * widths * kept
        sizes["kv_heads"] = sizes["heads"] / sizes["kv_heads"]
        columns = [*map(np.log2, sizes.values()), causal]
        return np.column_stack(columns), work
    groups = sizes.get("batch", np.ones(len(rows)))
    if op == "grouped_gemm":
        sizes["m"] = np.maximum(sizes["m"] / groups, 1.0)  # rows of a group
    tiles = groups * np.ceil(sizes["m"] / _TILE) * np.ceil(sizes["n"] / _TILE) / cus
    columns = [*map(np.log2, sizes.values()), np.log2(np.ceil(tiles) / tiles)]
    return np.column_stack(columns), groups * sizes["m"] * sizes["n"] * sizes["k"]


def group_of(op: str, inputs: FloatArray) -> list[tuple[float, ...]]:
    """Return which weights, or heads, shapes are of: what stays where a model has more tokens."""
    first = {"gemm": slice(1, 3), "grouped_gemm": slice(2, 4), "attention": slice(2, 6)}[op]
    return [tuple(row) for row in np.round(inputs[:, first], 6).tolist()]


def kernel_times(rows: pd.DataFrame, level: float = 0.9) -> KernelTimes:
    """Return what ships says of rows of the measurement table.

    Parameters
    ----------
    rows : DataFrame
        Products, grouped products (``m`` counts the rows of all groups) and attention, forward, or
        backward: ``variant`` is ``backward`` (both gradients), or the operator
        ``attention_backward``; ``dtype_a`` bf16, fp16 (taken as bf16) or fp8, of products with the
        ``scale_block`` ``tensor`` (also where it is left out) or ``1x128``.
    level : float
        Of the intervals.
    """
    us, lower, upper = (np.full(len(rows), np.nan) for _ in range(3))
    basis = [""] * len(rows)
    reasons = [""] * len(rows)
    keys = described(rows)
    for key, places in each_kind(keys):
        of_kind = rows.iloc[places].reset_index(drop=True)
        kind = kinds().get(key)
        if kind is None:
            for place in places:
                reasons[place] = f"no such kernel ships: {' '.join(filter(None, key))}"
            continue
        usable = _usable(key[1], of_kind)
        for place in places[~usable]:
            reasons[place] = "a window, or queries unlike the keys in number, was not measured"
        of_kind = of_kind[usable].reset_index(drop=True)
        places = places[usable]
        if not len(places):
            continue
        measured_on = _MOVED_FROM
        if not kind.moved:
            measured_on = key[0]
        cus = float(find(measured_on).require("cus"))
        inputs, work = inputs_of(key[1], of_kind, cus)
        mean, deviation = kind.process.predict(inputs)
        groups = group_of(key[1], inputs)
        z_seen = np.interp(level, LEVELS, kind.quantiles)
        z_new = np.interp(level, LEVELS, kind.new_group_quantiles)
        z = np.where([group in kind.groups for group in groups], z_seen, z_new)
        factor, spread = kind.moved or (1.0, 0.0)
        width = np.hypot(z * deviation, NormalDist().inv_cdf((1.0 + level) / 2.0) * spread)
        us[places] = factor * np.exp(mean) * work
        lower[places] = us[places] * np.exp(-width)
        upper[places] = us[places] * np.exp(width)
        beyonds = _beyond(key[1], kind, inputs)
        for place, group, beyond in zip(places.tolist(), groups, beyonds, strict=True):
            if group in kind.groups:
                basis[place] = "known group"
            else:
                basis[place] = "new group"
            if kind.moved:
                basis[place] = "law"
            if beyond:
                basis[place] = "beyond"
                reasons[place] = beyond
    return KernelTimes(us, lower, upper, basis, reasons)


def _beyond(op: str, kind: Kind, inputs: FloatArray) -> list[str]:
    """Return the furthest input of each row that lies beyond the measured ones, in words; "" within.

    Waves that are fuller than all measured ones are within: no more than what they then waste, a
    part in thousands, is new of them.
    """
    lower = np.where(np.array(_INPUTS[op]) == _WAVES, 0.0, kind.lower)
    distances = np.maximum(lower - inputs, inputs - kind.upper)
    said = []
    for row, distance in zip(inputs, distances, strict=True):
        place = int(np.argmax(distance))
        if distance[place] <= _ROUNDING:
            said.append("")
            continue
        name = _INPUTS[op][place]
        if name == "causal":
            said.append(f"{BEYOND}: causal was measured with one value alone")
            continue
        value, least, most = (f"{2.0 ** one[place]:.6g}" for one in (row, lower, kind.upper))
        said.append(f"{BEYOND}: {name} is {value}, measured from {least} to {most}")
    return said


def answered_by(rows: pd.DataFrame) -> dict[tuple[str, ...], Kind]:
    """Return the kinds of kernel that rows are of, those that ship."""
    keys = described(rows).drop_duplicates().itertuples(index=False, name=None)
    return {key: kinds()[key] for key in keys if key in kinds()}


def _usable(op: str, rows: pd.DataFrame) -> np.ndarray:
    if op != "attention":
        return np.full(len(rows), True)
    if "window" in rows:
        window = rows["window"]
    else:
        window = pd.Series(0.0, rows.index)
    no_window = pd.to_numeric(window, errors="coerce").fillna(0.0).eq(0.0)
    return (rows["seq_q"].eq(rows["seq_kv"]) & no_window).to_numpy()


def _measured_name(device: str) -> str:
    try:
        return find(device).measured_name
    except UnknownGPUError:
        return device


@cache
def kinds() -> dict[tuple[str, ...], Kind]:
    """Return every kind of kernel that ships, by its `KEYS`."""
    table = pq.read_table(INSTINCT_KERNELS)
    about = json.loads(table.schema.metadata[METADATA])
    rows = table.to_pandas()
    by_key = {}
    for key, places in each_kind(rows):
        of_kind = rows.iloc[places].reset_index(drop=True)
        by_key[key] = _kind(key, of_kind, about["kinds"]["|".join(key)])
    moved = {}
    for (device, *rest), kind in by_key.items():
        other = (_MOVED_TO, *rest)
        if device == _MOVED_FROM and other not in by_key:
            spread = about["moved"]["spread"]
            moved[other] = replace(kind, moved=(_peak_ratio(rest[2]), spread))
    return by_key | moved


def _peak_ratio(form: str) -> float:
    """Return the peak of the GPU that was measured over that of the other."""
    dtype = form.split()[0]
    return find(_MOVED_FROM).peak_tflops(dtype) / find(_MOVED_TO).peak_tflops(dtype)


def _kind(key: tuple[str, ...], rows: pd.DataFrame, about: dict[str, Any]) -> Kind:
    inputs, work = inputs_of(key[1], rows, float(find(key[0]).require("cus")))
    outputs = np.log(rows["duration_us"].to_numpy(dtype=float) / work)
    return Kind(
        process=fit_process(inputs, outputs, np.array(about["settings"])),
        errors=about["errors"],
        quantiles=np.array(about["quantiles"]),
        new_group_quantiles=np.array(about["new_group_quantiles"]),
        lower=inputs.min(axis=0),
        upper=inputs.max(axis=0),
        groups=frozenset(group_of(key[1], inputs)),
    )

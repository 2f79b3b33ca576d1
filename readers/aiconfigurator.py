"""AIConfigurator's measured tables (github.com/ai-dynamo/aiconfigurator, wheel aiconfigurator-core 0.12.0, Apache-2.0).

A Parquet file per kind of table, GPU, engine and version
(``data/h100_sxm/gemm/vllm/0.24.0/gemm_perf.parquet``). Every row names its ``framework``,
``version``, ``device``, ``op_name`` and ``kernel_source``; ``latency`` and ``avg_ms`` are in
milliseconds, ``*_us`` in microseconds. Sizes are those of one GPU (heads after tensor parallelism),
messages of collectives are counted in elements.

`KINDS` has what a table of each name is to us: columns of its rows as columns of ours. A name that
is not there is a table of unknown kind, and is named as that.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from functools import partial
from itertools import product
from pathlib import Path
from typing import Any, Final, TypeAlias

import numpy as np
import pandas as pd
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq

from ..errors import DataError, few
from ..operators.operators import canonical_op
from ..remarks import remark
from ..table.conditions import Condition
from ..table.irregular import off_neighbours
from .base import LINE, PARQUET, DataFile, Excluded, Note, Options, RawTable, Reader, register
from .files import check_size, open_parquet
from .labels import canonical_device
from .words import vocabulary

NAME: Final = "AIConfigurator"
SUFFIX: Final = "_perf"
_MARKS: Final = frozenset({"op_name", "kernel_source"})
_TIMES: Final = ("latency", "avg_ms")
ENGINES: Final = {"vllm": "vllm", "sglang": "sglang", "trtllm": "trtllm"}
"""`framework`, lower case -> engine; tables of collectives name the library instead (`kernel_source`)."""
SYSTEMS: Final = vocabulary("aiconfigurator_systems")
"""Folders of the producer -> devices, for the few tables that name none in their rows."""
Formats: TypeAlias = tuple[str, str, str]
FORMATS: Final[dict[str, Formats]] = vocabulary("aiconfigurator_formats")
"""The producer's word of a format -> those of activations and of weights, and the layout of their scales.

``wo`` quantises weights alone, ``sq`` is SmoothQuant (a scale for each token and channel).
"""
_BITS: Final = {
    "fp16": 16,
    "bf16": 16,
    "int8": 8,
    "fp8": 8,
    "fp4": 4,
}


class Columns:
    """The columns of a table as arrays; a missing column raises an error that names the file.

    Words are given once per distinct word, with the position of each row's.
    """

    def __init__(self, table: pa.Table, path: Path) -> None:
        self.table = table
        self.path = path

    def __len__(self) -> int:
        return len(self.table)

    def has(self, name: str) -> bool:
        """Whether there is such a column."""
        return name in self.table.column_names

    def __getitem__(self, name: str) -> pa.ChunkedArray:
        if not self.has(name):
            columns = few(self.table.column_names, 30)
            raise DataError(f"has no column {name!r} (columns: {columns})", source=str(self.path))
        return self.table[name]

    def number(self, *names: str, default: Any = None) -> np.ndarray:
        """Return the first of the columns of numbers that is there, else the default."""
        present = [name for name in names if self.has(name)]
        if default is not None and not present:
            return np.zeros(len(self)) + default
        return self[(*present, *names)[0]].to_numpy().astype(float)

    def numbers(self, **names: str) -> Rows:
        """Return columns of numbers under our names."""
        return {ours: self.number(name) for ours, name in names.items()}

    def words(self, name: str) -> tuple[np.ndarray, list[str]]:
        """Return the codes and distinct words of a column."""
        coded = self[name].cast(pa.string()).combine_chunks().fill_null("").dictionary_encode()
        return coded.indices.to_numpy(zero_copy_only=False), coded.dictionary.to_pylist()

    def mapped(self, name: str, make: Callable[[str], Any]) -> np.ndarray:
        """Return the values that a function gives for each distinct word of a column."""
        codes, words = self.words(name)
        return np.array([make(word) for word in words], dtype=object)[codes]

    def formats(self, name: str) -> Rows:
        """Return formats of activations and weights, and the layout of scales, of a column that names formats.

        Raises DataError for a word that is not understood.
        """
        codes, words = self.words(name)
        unknown = [word for word in words if word not in FORMATS]
        if unknown:
            raise DataError(
                f"column {name!r} names a number format that is not known: {few(unknown)}",
                source=str(self.path),
            )
        sides = np.array([FORMATS[word] for word in words], dtype=object).reshape(-1, 3)[codes].T
        return dict(zip(("dtype_a", "dtype_b", "scale_block"), sides, strict=True))

    def format(self, name: str) -> np.ndarray:
        """Return the format of activations of a column that names formats."""
        return self.formats(name)["dtype_a"]

    def bytes(self, name: str) -> np.ndarray:
        """Return the bytes of an element in the format that a column names."""
        return np.array([_BITS[word] / 8 for word in self.format(name)])


Rows: TypeAlias = dict[str, Any]


@dataclass(frozen=True)
class Kind:
    """What the tables of one name hold."""

    op: str  # our operator; "" where a row is a whole part of a model whose work does not follow from the columns
    # from the columns of a table to those of ours that the rows differ in; a single value is that of every row
    rows: Callable[[Columns], Rows] = lambda table: {}
    # what is measured in a row -> microseconds in one of the unit, and the columns that make it up
    # together. Where there are several, each is a row of ours and its name a part of the variant.
    times: Mapping[str, tuple[float, tuple[str, ...]]] = field(default_factory=dict)


def _gemm(table: Columns) -> Rows:
    return table.numbers(m="m", n="n", k="k") | table.formats("gemm_dtype")


_WITHOUT_GATE: Final = {tuple(layer) for layer in vocabulary("aiconfigurator")["without_gate"]}
"""Width, inner width and number of Nemotron's experts, which have no gate. TensorRT-LLM's tables
call them "nongated", the others do not say it: where all experts are read, the fastest rows take
2.1 to 2.6 times as long as the memory needs for one matrix of each, those of layers with a gate 3.2
times or more. Some kernels were measured with a gate all the same: by them these layers, too, take
3.3 times or more."""


def _moe(table: Columns) -> Rows:
    sizes = table.numbers(model_dim="hidden_size", inter_dim="inter_size", experts="num_experts")
    named, fused, triton = (
        table.mapped("kernel_source", lambda word, part=part: part in word).astype(bool)
        for part in ("nongated", "vllm_fused_moe", "sglang_fused_moe_triton")
    )
    codes, releases = origin_of(table)["release"]
    early = np.array([release == "0.5.10" for release in releases])[codes]
    all_the_same = fused | (triton & (early | (sizes["model_dim"] == 1024)))
    layers = zip(*sizes.values(), strict=True)
    without = np.array([layer in _WITHOUT_GATE for layer in layers], dtype=bool)
    return {
        **sizes,
        **table.numbers(
            tokens="num_tokens",
            topk="topk",
            ep="moe_ep_size",
            tp="moe_tp_size",
        ),
        **table.formats("moe_dtype"),
        "gated": np.where(named | (without & ~all_the_same), 0.0, 1.0),
        "variant": _joined(table, "op_name", "distribution", "phase", "simulation_mode"),
    }


def _mlp(table: Columns) -> Rows:
    """Return a dense gated layer: one expert that every token visits."""
    return {
        **table.numbers(tokens="num_token", model_dim="hidden_size", inter_dim="intermediate_size"),
        **table.formats("quant_type"),
        "experts": 1.0,
        "topk": 1.0,
        "gated": 1.0,
        "variant": _joined(table, "op_name"),
    }


def _attention(table: Columns, causal: bool, decoding: bool = False) -> Rows:
    """Return attention with separate keys; ``step`` tokens are in the cache before the ``isl`` new ones."""
    dtype = dtype_kv = table.format("attn_dtype")
    if table.has("kv_cache_dtype"):
        dtype_kv = table.format("kv_cache_dtype")
    heads = table.number("num_heads")
    new = table.number("isl")
    asked = new
    if decoding:
        asked = 1.0
    shared = table.number("num_key_value_heads", default=heads)
    return {
        **table.numbers(batch="batch_size", head_dim="head_dim"),
        "heads": heads,
        "kv_heads": np.where(shared > 0, shared, heads),
        "seq_q": asked,
        "seq_kv": new + table.number("step", default=0.0),
        "causal": float(causal),
        "window": table.number("window_size", default=0.0),
        "dtype_a": dtype,
        "dtype_b": dtype_kv,
        "dtype_out": "bf16",
    }


_LATENT = 512.0
_ROPE = 64.0
_NOPE = 128.0
_VALUE = 128.0
"""Sizes of DeepSeek-V3's latent attention (arXiv:2412.19437, section 4.2), which all these tables have."""


def _latent(table: Columns, decoding: bool) -> Rows:
    """Return latent attention: keys of every head in the prompt, one latent key for all heads after it."""
    heads = table.number("num_heads")
    rows = table.numbers(batch="batch_size") | {
        "heads": heads,
        "seq_kv": table.number("isl") + table.number("step"),
        "causal": 1.0,
        "dtype_a": table.format("mla_dtype"),
        "dtype_b": table.format("kv_cache_dtype"),
        "dtype_out": "bf16",
    }
    if decoding:
        sizes = {
            "kv_heads": 1.0,
            "seq_q": 1.0,
            "head_dim": _LATENT + _ROPE,
            "head_dim_v": _LATENT,
        }
        return rows | sizes | {"variant": "latent"}
    sizes = {
        "kv_heads": heads,
        "head_dim": _NOPE + _ROPE,
        "head_dim_v": _VALUE,
        "variant": "",
    }
    return rows | sizes | table.numbers(seq_q="isl")


def _absorbed(table: Columns) -> Rows:
    """Return the products with the latent projections of each head, before attention (``pre``) and after it."""
    before = table.mapped("op_name", lambda word: word.endswith("pre")).astype(bool)
    return {
        **table.numbers(batch="num_heads", m="num_tokens"),
        **table.formats("bmm_dtype"),
        "n": np.where(before, _LATENT, _VALUE),
        "k": np.where(before, _NOPE, _LATENT),
    }


def _collective(table: Columns, dtype: str) -> Rows:
    return {
        "variant": _joined(table, "op_name", "backend", "implementation"),
        "dtype_a": table.format(dtype),
        "ranks": table.number("num_gpus"),
        "message_bytes": table.number("message_size") * table.bytes(dtype),
    }


_OF_A_NODE: Final = 8.0
_OF_GRACE: Final = 4.0  # GPUs of a node, and of one with superchips (GB200, GB300)


def _exchange(table: Columns) -> Rows:
    """Return tokens sent to the GPUs of their experts, or back: each to ``topk`` of them at most."""
    size: Any = 2.0
    for name in ("comm_dtype", "moe_dtype"):
        if table.has(name):
            size = table.bytes(name)
    if table.has("ep_size") or table.has("moe_ep_size"):
        ranks = table.number("ep_size", "moe_ep_size")
    else:  # of DeepEP, which takes whole nodes
        grace = table.mapped("device", lambda word: _OF_GRACE if " GB" in word else _OF_A_NODE)
        ranks = table.number("node_num") * grace.astype(float)
    words = ("op_name", "phase", "comm_backend", "comm_dtype", "moe_dtype", "distribution")
    # As many bytes in shorter tokens are another problem: half of such times lie more than 1.1 to
    # 1.2 times apart.
    numbers = (
        "hidden_size",
        "num_experts",
        "dispatch_sms",
        "combine_sms",
        "sms",
        "topk",
        "num_topk",
    )
    tokens = table.number("num_token", "num_tokens")
    topk = table.number("num_topk", "topk")
    return {
        "variant": _joined(
            table,
            *words,
            numbers=numbers,
            first="all_to_all_v",
        ),
        "ranks": ranks,
        "message_bytes": tokens * topk * table.number("hidden_size") * size,
    }


def _quantised(table: Columns) -> Rows:
    fixed = {
        "dtype_a": "bf16",
        "dtype_out": table.format("quant_dtype"),
        "variant": "quantise",
    }
    return table.numbers(rows="m", cols="k") | fixed


def _scales(table: Columns) -> Rows:
    return _quantised(table) | {"dtype_out": "fp32", "variant": "amax"}


def _recurrent(table: Columns) -> Rows:
    """Return convolutions and recurrences of linear attention: ``kernel_source`` says which of them a row is."""
    if table.has("nheads"):
        names = ("nheads", "n_groups", "d_state", "head_dim")
    else:
        names = ("num_v_heads", "num_k_heads", "head_k_dim", "head_v_dim")
    heads, shared, dim, dim_v = map(table.number, names)
    conv = table.mapped("kernel_source", lambda word: "conv1d" in word).astype(bool)
    return {
        **table.numbers(batch="batch_size", seq="seq_len"),
        "op": np.where(conv, "causal_conv", "linear_attention").astype(object),
        "heads": np.where(conv, np.nan, heads),
        "key_heads": np.where(conv, np.nan, shared),
        "head_dim": np.where(conv, np.nan, dim),
        "head_dim_v": np.where(conv, np.nan, dim_v),
        "channels": np.where(conv, 2 * shared * dim + heads * dim_v, np.nan),
        "width": np.where(conv, table.number("d_conv"), np.nan),
        "dtype_a": "bf16",
        "variant": _joined(table, "phase"),
    }


def _joined(
    table: Columns, *words: str, numbers: Sequence[str] = (), first: str = ""
) -> np.ndarray:
    """Return the words and numbers of columns that are there: "moe balanced", "all_to_all_v ll experts=128"."""
    if first:
        parts = [np.full(len(table), first, dtype=object)]
    else:
        parts = []
    parts += [table.mapped(name, str) for name in words if table.has(name)]
    for name in filter(table.has, numbers):
        sizes = [f"{name}={size:g}" for size in table.number(name)]
        parts.append(np.array(sizes, dtype=object))
    joined, *others = parts
    for part in others:
        joined = np.where(joined == "", part, joined + " " + part)
    return joined


_MS: Final = 1e3
_PARTS: Final = {
    "dispatch": (1.0, ("dispatch_transmit_us", "dispatch_notify_us")),
    "combine": (1.0, ("combine_transmit_us", "combine_notify_us")),
}
_LOW: Final = {"dispatch": (1.0, ("dispatch_avg_t_us",)), "combine": (1.0, ("combine_avg_t_us",))}
_MODULE: Final = Kind("")
_LAYER: Final = Kind("moe", _mlp)
_EXPERTS: Final = Kind("moe", _moe)
_SCANS: Final = Kind("linear_attention", _recurrent)
_NCCL: Final = Kind("collective", partial(_collective, dtype="nccl_dtype"))
KINDS: Final[dict[str, Kind]] = {
    "gemm": Kind("gemm", _gemm),
    "moe": _EXPERTS,
    "wideep_moe": _EXPERTS,
    "wideep_context_moe": _EXPERTS,
    "wideep_generation_moe": _EXPERTS,
    "wideep_context_mlp": _LAYER,
    "wideep_generation_mlp": _LAYER,
    "context_attention": Kind("attention", partial(_attention, causal=True)),
    "generation_attention": Kind("attention", partial(_attention, causal=True, decoding=True)),
    "encoder_attention": Kind("attention", partial(_attention, causal=False)),
    "context_mla": Kind("attention", partial(_latent, decoding=False)),
    "generation_mla": Kind("attention", partial(_latent, decoding=True)),
    "mla_bmm": Kind("batched_gemm", _absorbed),
    "nccl": _NCCL,
    "oneccl": _NCCL,
    "custom_allreduce": Kind("collective", partial(_collective, dtype="allreduce_dtype")),
    "trtllm_alltoall": Kind("collective", _exchange),
    "moe_a2a": Kind("collective", _exchange, {"": (1.0, ("transmit_us", "notify_us"))}),
    "wideep_deepep_normal": Kind("collective", _exchange, _PARTS),
    "wideep_deepep_ll": Kind("collective", _exchange, _LOW),
    "scale_matrix": Kind("copy", _quantised),
    "computescale": Kind("reduction", _scales),
    "gdn": _SCANS,
    "kda": _SCANS,
    "mamba2": _SCANS,
    **dict.fromkeys(vocabulary("aiconfigurator")["modules"], _MODULE),
}
"""What the tables are by name, without ``_perf.parquet``."""


def kind_of(path: Path) -> str:
    """Return the name of a table's kind: ``gemm`` of ``gemm_perf.parquet``."""
    return path.name.removesuffix(".parquet").removesuffix(SUFFIX)


def is_table(columns: Sequence[str]) -> bool:
    """Whether a Parquet file has the columns that all these tables have."""
    names = set(columns)
    timed = any(name in names for name in _TIMES) or any(name.endswith("_us") for name in names)
    return names >= _MARKS and timed and "op" not in names


def engine_of(framework: str, kernel_source: str) -> str:
    """Return the engine of a row, or the library of collectives.

    >>> engine_of("TRTLLM", "torch_flow"), engine_of("TRTLLM", "NCCL")
    ('trtllm', 'nccl')
    """
    library = kernel_source.lower()
    if library in ("nccl", "oneccl"):
        return library
    return ENGINES.get(framework.lower(), framework.lower() or library)


def _time(table: Columns, kind: Kind | None) -> dict[str, np.ndarray]:
    """Return the microseconds of each timed step of the rows."""
    if kind is not None and kind.times:
        return {
            name: factor * np.sum([*map(table.number, columns)], axis=0)
            for name, (factor, columns) in kind.times.items()
        }
    return {"": table.number(*_TIMES) * _MS}


def origin_of(table: Columns) -> dict[str, tuple[np.ndarray, list[str]]]:
    """Return our names of device, engine, release and kernels of a table, and the index of each row among them.

    What no column says, the producer's folders do.
    """
    parts = table.path.resolve().parts
    nothing = np.zeros(len(table), dtype=np.int64)
    place = {"device": -5, "framework": -3, "version": -2}

    def column(name: str) -> tuple[np.ndarray, list[str]]:
        if table.has(name):
            return table.words(name)
        return nothing, [parts[place[name]] if len(parts) >= -place[name] else ""]

    codes, words = column("device")
    folder = SYSTEMS.get(parts[-5] if len(parts) > 4 else "")
    devices = []
    for word in words:
        name, unknown = canonical_device(word)
        if unknown and folder:  # "NVIDIA H100" is several GPUs: the folder says which
            name = folder
        devices.append(SYSTEMS.get(word) or name)
    frameworks, engines = column("framework")
    kernels, sources = table.words("kernel_source")
    return {
        "device": (codes, devices),
        "engine": (
            frameworks * len(sources) + kernels,
            [engine_of(*pair) for pair in product(engines, sources)],
        ),
        "release": column("version"),
        "kernel_source": (kernels, sources),
    }


def read_rows(table: Columns, kind: Kind) -> Rows:
    """Return the rows of a table as columns of the measurement table; a row with several times becomes several rows."""
    origin = origin_of(table)
    times = _time(table, kind)
    rows = {"op": kind.op} | kind.rows(table)
    for name, value in rows.items():
        if not isinstance(value, np.ndarray):
            kept = float
            if isinstance(value, str):
                kept = object
            rows[name] = np.full(len(table), value, dtype=kept)
    for name, (codes, words) in origin.items():
        rows[name] = np.array(words, dtype=object)[codes]
    rows["family"] = rows["engine"]
    rows["kernel"] = rows["kernel_source"] + " " + rows["release"]
    if table.has("power"):
        power = table.number("power")
        rows["power_w"] = np.where(power > 0, power, np.nan)
    rows[LINE] = np.arange(1, len(table) + 1)
    parts = []
    for name, micros in times.items():
        part = {**rows, "duration_us": micros}
        if name:
            part["variant"] = np.array([f"{word} {name}" for word in rows["variant"]], dtype=object)
        parts.append(part)
    for name in parts[0]:
        rows[name] = np.concatenate([part[name] for part in parts])
    return rows


_WORDS: Final = ("op", "device", "engine", "family", "release", "kernel_source")
"""Columns whose conditions the rows of a table are asked before they are all made ready."""


def _asked(condition: Condition, column: str) -> list[str]:
    """Return the words that a condition on a column of words allows, as the measurement table spells them."""
    words = [word.strip() for word in ",".join(condition.texts).split(",")]
    if column == "op":
        return [canonical_op(word) for word in words]
    if column in ("engine", "family"):
        return [engine_of(word, "") for word in words]
    if column == "device":
        return [canonical_device(word)[0] for word in words]
    return words


def excluded(path: Path, where: Sequence[Condition]) -> Excluded | None:
    """Return the condition that excludes a whole table, judged by its name and first rows; or None."""
    kind = KINDS.get(kind_of(path))
    if kind is None:
        return None
    if kind is _SCANS:
        ops = {kind.op, "causal_conv"}
    else:
        ops = {kind.op}
    of_op = [one for one in where if one.column == "op"]
    words = [one for one in where if one.column in ("device", "engine", "family", "release")]
    out = unmet(of_op, {"op": ops})
    if out or not words:
        return out
    # A file is of one device, engine and version: the statistics of its columns say of which.
    with open_parquet(path, 2**40) as file:
        first = _constants(file, ("framework", "version", "device", "kernel_source"))
    if first is None:
        return None
    origin = origin_of(Columns(first, path))
    held = {}
    for name, (codes, values) in origin.items():
        held[name] = {values[code] for code in codes.tolist()}
    return unmet(words, {**held, "family": held["engine"]}, len(of_op))


def unmet(
    where: Sequence[Condition], held: Mapping[str, Collection[str]], passed: int = 0
) -> Excluded | None:
    """Return the first text condition that no value of a file meets; ``passed`` conditions were met before it."""
    for one in where:
        if one.column in held:
            if not set(held[one.column]) & set(_asked(one, one.column)):
                values = sorted(filter(None, held[one.column]))
                return Excluded(
                    str(one),
                    one.column,
                    tuple(values),
                    passed,
                )
            passed += 1
    return None


def _constants(file: pq.ParquetFile, names: Sequence[str]) -> pa.Table | None:
    """Return one row of the columns that have one value in the whole file; None where one of them has several.

    Of kernels any will do but libraries of collectives.
    """
    values: dict[str, str] = {}
    columns = file.schema_arrow.names
    for name in filter(columns.__contains__, names):
        place = columns.index(name)
        for group in range(file.metadata.num_row_groups):
            chunk = file.metadata.row_group(group).column(place)
            # damaged statistics of numbers end the process
            if chunk.path_in_schema != name or chunk.physical_type != "BYTE_ARRAY":
                return None
            statistics = chunk.statistics
            if statistics is None or not statistics.has_min_max:
                return None
            if name != "kernel_source" and not statistics.min == statistics.max == values.get(
                name, statistics.min
            ):
                return None
            values[name] = statistics.min
    if values:
        return pa.table({name: [value] for name, value in values.items()})
    return None


@register
class AIConfiguratorReader(Reader):
    """AIConfigurator's tables of measured kernels."""

    name = NAME
    containers = (PARQUET,)

    def sniff(self, path: Path, head: bytes) -> bool:
        """Recognise Parquet with the columns that name the operation, the kernel and a time."""
        if not head.startswith(PARQUET):
            return False
        with open_parquet(path, 2**40) as file:
            return is_table(file.schema_arrow.names)

    def excluded(self, path: Path, options: Options) -> Excluded | None:
        """Return the condition that no row of a table meets, by its name and the statistics of its columns."""
        return excluded(path, options.conditions)

    def read(self, path: Path, options: Options) -> RawTable:
        """Return the rows that the conditions select; a table of unknown kind gives no rows, but a note."""
        name = kind_of(path)
        kind = KINDS.get(name)
        with open_parquet(path, options.table_bytes) as file:
            count = file.metadata.num_rows
            if kind is None or not kind.op:
                code = "unknown-table"
                what = "tables of unknown kind are left out"
                if kind is not None:
                    code = "module-table"
                    what = "whole modules are left out, of which no column tells the work"
                said = remark(code, f"{what}: {name}", table=name)
                return RawTable(notes=[Note(said, count)])
            check_size(count * len(file.schema_arrow.names) * 8, options.table_bytes, path)
            rows = read_rows(Columns(file.read(), path), kind)
            kept = np.ones(len(rows[LINE]), dtype=bool)
            for one in options.where:
                if one.column in _WORDS:
                    kept &= np.isin(rows[one.column].astype(str), _asked(one, one.column))
            if options.devices:
                kept &= np.isin(rows["device"].astype(str), list(options.devices))
            cells = {
                column: pa.array(values[kept], from_pandas=True) for column, values in rows.items()
            }
            cells["campaign"] = pa.array([name] * int(kept.sum()), pa.string())
            return RawTable(cells=pa.table(cells))


# A survey of all tables, which makes no row of ours: what there is, and what is wrong with it.


@dataclass(frozen=True)
class Surveyed:
    """The contents of one table."""

    # kind of table; our operator, "" where it has none
    table: str
    op: str
    rows: Mapping[tuple[str, str, str], int]  # by device, engine and release
    # rows off both their neighbours in the one size that changes (`table.irregular`); rows of a
    # problem that the table has more than once, kernel and all; times that are zero or below
    spikes: int
    doubles: int
    zeros: int
    apart: float  # median over the doubles of the greatest time by the least


_ALONG: Final = ("m", "num_tokens", "num_token", "step", "isl", "seq_len", "message_size")
_NOT_KEY: Final = frozenset({"power", "power_limit", "latency", "avg_ms"})


def surveyed(files: Sequence[DataFile]) -> Iterator[Surveyed | DataError]:
    """Yield the contents of each table, one in memory at a time, or why it cannot be read."""
    for file in files:
        try:
            yield survey(file.path)
        except DataError as error:
            yield error


def survey(path: Path) -> Surveyed:
    """Return the contents of a table, from its columns alone."""
    with open_parquet(path, 2**40) as file:
        content = file.read()
        content.validate(full=True)  # text of foreign bytes
        table = Columns(content, path)
    name = kind_of(table.path)
    kind = KINDS.get(name)
    origin = origin_of(table)
    times = _time(table, kind)
    micros = next(iter(times.values()))
    sides = {name: origin[name] for name in ("device", "engine", "release")}
    places = pd.DataFrame({name: codes for name, (codes, _) in sides.items()})
    counts = Counter[tuple[str, str, str]]()
    sizes = places.groupby([*sides], as_index=False).size()
    for device, engine, release, count in sizes.itertuples(index=False):
        key = (
            sides["device"][1][device],
            sides["engine"][1][engine],
            sides["release"][1][release],
        )
        counts[key] += int(count) * len(times)
    spikes, doubles, apart = _irregular(table, micros)
    zeros = int(sum((values <= 0).sum() for values in times.values()))
    return Surveyed(
        name,
        kind.op if kind else "",
        counts,
        spikes,
        doubles,
        zeros,
        apart,
    )


def _irregular(table: Columns, micros: np.ndarray) -> tuple[int, int, float]:
    """Return spikes, doubles, and the median ratio of the times of doubles."""
    names = [
        one
        for one in table.table.column_names
        if one not in _NOT_KEY and not one.endswith(("_us", "_gbps"))
    ]
    changing = [
        name
        for name in _ALONG
        if name in names and pc.count_distinct(table.table[name]).as_py() > 1
    ]
    if changing:
        along = changing[0]
    else:
        along = names[-1]
    problems = pd.DataFrame(index=range(len(table)))
    for name in names:
        column = table.table[name].combine_chunks()
        if pa.types.is_string(column.type) or pa.types.is_large_string(column.type):
            column = column.dictionary_encode().indices
        if name != along:
            problems[name] = np.nan_to_num(column.to_numpy(zero_copy_only=False).astype(float))
    key = pd.util.hash_pandas_object(problems, index=False).to_numpy()
    if changing:
        size = table.number(along)
    else:
        size = np.zeros(len(table))
    order = np.lexsort((size, key))
    key = key[order]
    size = size[order]
    time = micros[order]
    same = (key[1:] == key[:-1]) & (size[1:] == size[:-1])
    doubles = np.r_[same, False] | np.r_[False, same]
    first = np.flatnonzero(np.r_[True, ~same])
    least = longest = time
    if len(time):
        least = np.minimum.reduceat(time, first)
        longest = np.maximum.reduceat(time, first)
    several = np.diff(np.r_[first, len(time)]) > 1
    ratio = longest[several] / np.maximum(least[several], 1e-12)
    key = key[first]
    size = size[first]
    time = time[first]
    odd = int((off_neighbours(key, size, time)[0] != 1).sum())
    return odd, int(doubles.sum()), float(np.median(ratio)) if len(ratio) else 1.0

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

from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path
from typing import Any, Final, TypeAlias

import numpy as np
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

NAME: Final = "AIConfigurator"
SUFFIX: Final = "_perf"
_MARKS: Final = frozenset({"op_name", "kernel_source"})
_TIMES: Final = ("latency", "avg_ms")
ENGINES: Final = {"vllm": "vllm", "sglang": "sglang", "trtllm": "trtllm"}
"""`framework`, lower case -> engine; tables of collectives name the library instead (`kernel_source`)."""
SYSTEMS: Final = {
    "a100_sxm": "A100 80GB SXM4",
    "h100_sxm": "H100 SXM5",
    "h200_sxm": "H200 SXM",
    "b200_sxm": "B200 (HGX)",
    "b300_sxm": "B300",
    "gb200": "GB200 (per GPU)",
    "gb300": "GB300 (per GPU)",
    "l40s": "L40S",
    "rtx_pro_6000_server": "RTX PRO 6000 (Server)",
    "b60": "Arc Pro B60",
}
"""Folders of the producer -> devices, for the few tables that name none in their rows."""
Formats: TypeAlias = tuple[str, str, str]
FORMATS: Final[dict[str, Formats]] = {
    "bfloat16": ("bf16", "bf16", ""),
    "float16": ("fp16", "fp16", ""),
    "half": ("fp16", "fp16", ""),
    "int8": ("int8", "int8", ""),
    "fp8": ("fp8", "fp8", "tensor"),
    "fp8_e4m3": ("fp8", "fp8", "tensor"),
    "fp8_block": ("fp8", "fp8", "1x128"),
    "nvfp4": ("fp4", "fp4", "1x16"),
    "fp4": ("fp4", "fp4", "1x16"),
    "int8_wo": ("bf16", "int8", "token"),
    "int4_wo": ("bf16", "int4", "1x32"),
    "sq": ("int8", "int8", "token"),
    "w4afp8": ("fp8", "int4", "1x32"),
    "w4a16_mxfp4": ("bf16", "fp4", "1x32"),
    "w4a8_mxfp4_mxfp8": ("fp8", "fp4", "1x32"),
    "default": ("bf16", "bf16", ""),
}
"""The producer's word of a format -> those of activations and of weights, and the layout of their scales.

``wo`` quantises weights alone, ``sq`` is SmoothQuant (a scale for each token and channel).
"""
_BITS: Final = {"fp16": 16, "bf16": 16, "int8": 8, "fp8": 8, "fp4": 4}


class Columns:
    """The columns of a table as arrays; a missing column raises an error that names the file.

    Words are given once per distinct word, with the position of each row's.
    """

    def __init__(self, table: pa.Table, path: Path) -> None:
        self.table, self.path = table, path

    def __len__(self) -> int:
        return len(self.table)

    def has(self, name: str) -> bool:
        """Whether there is such a column."""
        return name in self.table.column_names

    def number(self, name: str) -> np.ndarray:
        """Return a column of numbers."""
        if not self.has(name):
            raise DataError(
                f"has no column {name!r} (columns: {few(self.table.column_names, 30)})",
                source=str(self.path),
            )
        return self.table[name].to_numpy().astype(float)

    def words(self, name: str) -> tuple[np.ndarray, list[str]]:
        """Return the codes and distinct words of a column; a missing column is one empty word."""
        if not self.has(name):
            columns = few(self.table.column_names, 30)
            raise DataError(f"has no column {name!r} (columns: {columns})", source=str(self.path))
        coded = (
            self.table[name].cast(pa.string()).combine_chunks().fill_null("").dictionary_encode()
        )
        return coded.indices.to_numpy(zero_copy_only=False), coded.dictionary.to_pylist()

    def mapped(self, name: str, make: Callable[[str], Any]) -> np.ndarray:
        """Return the values that a function gives for each distinct word of a column."""
        codes, words = self.words(name)
        return np.array([make(word) for word in words], dtype=object)[codes]

    def formats(self, name: str) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
        """Return formats of activations and weights, and the layout of scales, of a column that names formats.

        Raises DataError for a word that is not understood.
        """
        codes, words = self.words(name)
        if unknown := [word for word in words if word not in FORMATS]:
            raise DataError(
                f"column {name!r} names a number format that is not known: {few(unknown)}",
                source=str(self.path),
            )
        a, b, scale = (
            np.array(side, dtype=object)
            for side in zip(*(FORMATS[word] for word in words), strict=True)
        )
        return a[codes], b[codes], scale[codes]


Rows: TypeAlias = dict[str, Any]


@dataclass(frozen=True)
class Kind:
    """What the tables of one name hold."""

    op: str  # our operator; "" where a row is a whole part of a model whose work does not follow from the columns
    # from the columns of a table to those of ours that the rows differ in
    rows: Callable[[Columns], Rows] = lambda table: {}
    # what is measured in a row -> microseconds in one of the unit, and the columns that make it up
    # together. Where there are several, each is a row of ours and its name a part of the variant.
    times: Mapping[str, tuple[float, tuple[str, ...]]] = field(default_factory=dict)


def _gemm(table: Columns) -> Rows:
    a, b, scale = table.formats("gemm_dtype")
    return {
        **{name: table.number(name) for name in "mnk"},
        "dtype_a": a,
        "dtype_b": b,
        "scale_block": scale,
    }


_WITHOUT_GATE: Final = frozenset(
    {(2688, 1856, 128), (1024, 2688, 512), (4096, 2688, 512), (2048, 5120, 512), (8192, 5120, 512)}
)
"""Width, inner width and number of Nemotron's experts, which have no gate. TensorRT-LLM's tables
call them "nongated", the others do not say it: where all experts are read, the fastest rows take
2.1 to 2.6 times as long as the memory needs for one matrix of each, those of layers with a gate 3.2
times or more. Some kernels were measured with a gate all the same: by them these layers, too, take
3.3 times or more."""


def _moe(table: Columns) -> Rows:
    a, b, scale = table.formats("moe_dtype")
    width, inner, experts = (
        table.number(name) for name in ("hidden_size", "inter_size", "num_experts")
    )
    named, fused, triton = (
        table.mapped("kernel_source", lambda word, part=part: part in word).astype(bool)
        for part in ("nongated", "vllm_fused_moe", "sglang_fused_moe_triton")
    )
    codes, releases = origin_of(table)["release"]
    early = np.array([release == "0.5.10" for release in releases])[codes]
    all_the_same = fused | (triton & (early | (width == 1024)))
    without = np.array(
        [layer in _WITHOUT_GATE for layer in zip(width, inner, experts, strict=True)], dtype=bool
    )
    words = [
        name for name in ("op_name", "distribution", "phase", "simulation_mode") if table.has(name)
    ]
    return {
        "tokens": table.number("num_tokens"),
        "model_dim": width,
        "inter_dim": inner,
        "experts": experts,
        "topk": table.number("topk"),
        "ep": table.number("moe_ep_size"),
        "tp": table.number("moe_tp_size"),
        "gated": np.where(named | (without & ~all_the_same), 0.0, 1.0),
        "dtype_a": a,
        "dtype_b": b,
        "scale_block": scale,
        "variant": _joined(table, words),
    }


def _mlp(table: Columns) -> Rows:
    """Return a dense gated layer: one expert that every token visits."""
    a, b, scale = table.formats("quant_type")
    one = np.ones(len(table))
    return {
        "tokens": table.number("num_token"),
        "model_dim": table.number("hidden_size"),
        "inter_dim": table.number("intermediate_size"),
        "experts": one,
        "topk": one,
        "gated": one,
        "dtype_a": a,
        "dtype_b": b,
        "scale_block": scale,
        "variant": _joined(table, ["op_name"]),
    }


def _attention(table: Columns, causal: bool, decoding: bool = False) -> Rows:
    """Return attention with separate keys; ``step`` tokens are in the cache before the ``isl`` new ones."""
    a, _, _ = table.formats("attn_dtype")
    if table.has("kv_cache_dtype"):
        cache = table.formats("kv_cache_dtype")[0]
    else:
        cache = a
    heads, new = table.number("num_heads"), table.number("isl")
    if table.has("num_key_value_heads"):
        shared = table.number("num_key_value_heads")
    else:
        shared = heads
    if table.has("step"):
        past = table.number("step")
    else:
        past = np.zeros(len(table))
    if table.has("window_size"):
        window = table.number("window_size")
    else:
        window = np.zeros(len(table))
    if decoding:
        seq_q = np.ones(len(table))
    else:
        seq_q = new
    return {
        "batch": table.number("batch_size"),
        "heads": heads,
        "kv_heads": np.where(shared > 0, shared, heads),
        "seq_q": seq_q,
        "seq_kv": new + past,
        "head_dim": table.number("head_dim"),
        "causal": np.full(len(table), float(causal)),
        "window": window,
        "dtype_a": a,
        "dtype_b": cache,
        "dtype_out": np.full(len(table), "bf16", dtype=object),
    }


_LATENT, _ROPE, _NOPE, _VALUE = 512.0, 64.0, 128.0, 128.0
"""Sizes of DeepSeek-V3's latent attention (arXiv:2412.19437, section 4.2), which all these tables have."""


def _latent(table: Columns, decoding: bool) -> Rows:
    """Return latent attention: keys of every head in the prompt, one latent key for all heads after it."""
    a, _, _ = table.formats("mla_dtype")
    heads, full = table.number("num_heads"), np.ones(len(table))
    if decoding:
        kv_heads = full
        seq_q = full
    else:
        kv_heads = heads
        seq_q = table.number("isl")
    rows = {
        "kv_heads": kv_heads,
        "seq_q": seq_q,
    }
    return {
        "batch": table.number("batch_size"),
        "heads": heads,
        **rows,
        "seq_kv": table.number("isl") + table.number("step"),
        "head_dim": full * (_LATENT + _ROPE if decoding else _NOPE + _ROPE),
        "head_dim_v": full * (_LATENT if decoding else _VALUE),
        "causal": full,
        "dtype_a": a,
        "dtype_b": table.formats("kv_cache_dtype")[0],
        "dtype_out": np.full(len(table), "bf16", dtype=object),
        "variant": np.full(len(table), "latent" if decoding else "", dtype=object),
    }


def _absorbed(table: Columns) -> Rows:
    """Return the products with the latent projections of each head, before attention (``pre``) and after it."""
    a, b, scale = table.formats("bmm_dtype")
    before = table.mapped("op_name", lambda word: word.endswith("pre")).astype(bool)
    return {
        "batch": table.number("num_heads"),
        "m": table.number("num_tokens"),
        "n": np.where(before, _LATENT, _VALUE),
        "k": np.where(before, _NOPE, _LATENT),
        "dtype_a": a,
        "dtype_b": b,
        "scale_block": scale,
    }


def _collective(table: Columns, dtype: str) -> Rows:
    a = table.formats(dtype)[0]
    size = np.array([_BITS[word] / 8 for word in a])
    words = [name for name in ("op_name", "backend", "implementation") if table.has(name)]
    return {
        "variant": _joined(table, words),
        "dtype_a": a,
        "ranks": table.number("num_gpus"),
        "message_bytes": table.number("message_size") * size,
    }


_OF_A_NODE: Final = 8.0
_OF_GRACE: Final = 4.0  # GPUs of a node, and of one with superchips (GB200, GB300)


def _exchange(table: Columns) -> Rows:
    """Return tokens sent to the GPUs of their experts, or back: each to ``topk`` of them at most."""
    short = table.has("num_token")
    if short:
        tokens, topk = ("num_token", "num_topk")
    else:
        tokens, topk = ("num_tokens", "topk")
    size = np.full(len(table), 2.0)
    for name in ("comm_dtype", "moe_dtype"):
        if table.has(name):
            size = np.array([_BITS[word] / 8 for word in table.formats(name)[0]])
    ranks = next(
        (table.number(name) for name in ("ep_size", "moe_ep_size") if table.has(name)), None
    )
    if ranks is None:  # of DeepEP, which takes whole nodes
        grace = table.mapped(
            "device", lambda word: _OF_GRACE if " GB" in word else _OF_A_NODE
        ).astype(float)
        ranks = table.number("node_num") * grace
    words = [
        one
        for one in ("op_name", "phase", "comm_backend", "comm_dtype", "moe_dtype", "distribution")
        if table.has(one)
    ]
    # As many bytes in shorter tokens are another problem: half of such times lie more than 1.1 to
    # 1.2 times apart.
    numbers = [
        one
        for one in (
            "hidden_size",
            "num_experts",
            "dispatch_sms",
            "combine_sms",
            "sms",
            "topk",
            "num_topk",
        )
        if table.has(one)
    ]
    return {
        "variant": _joined(table, words, numbers, "all_to_all_v"),
        "ranks": ranks,
        "message_bytes": table.number(tokens)
        * table.number(topk)
        * table.number("hidden_size")
        * size,
    }


def _quantised(table: Columns) -> Rows:
    a = np.full(len(table), "bf16", dtype=object)
    return {
        "rows": table.number("m"),
        "cols": table.number("k"),
        "dtype_a": a,
        "dtype_out": table.formats("quant_dtype")[0],
        "variant": np.full(len(table), "quantise", dtype=object),
    }


def _scales(table: Columns) -> Rows:
    a = np.full(len(table), "bf16", dtype=object)
    table.formats("quant_dtype")
    return {
        "rows": table.number("m"),
        "cols": table.number("k"),
        "dtype_a": a,
        "dtype_out": np.full(len(table), "fp32", dtype=object),
        "variant": np.full(len(table), "amax", dtype=object),
    }


def _recurrent(table: Columns) -> Rows:
    """Return convolutions and recurrences of linear attention: ``kernel_source`` says which of them a row is."""
    if table.has("nheads"):
        heads, shared, dim, dim_v = "nheads", "n_groups", "d_state", "head_dim"
    else:
        heads, shared, dim, dim_v = "num_v_heads", "num_k_heads", "head_k_dim", "head_v_dim"
    heads_, shared_, dim_, dim_v_ = (table.number(name) for name in (heads, shared, dim, dim_v))
    conv = table.mapped("kernel_source", lambda word: "conv1d" in word).astype(bool)
    channels = 2 * shared_ * dim_ + heads_ * dim_v_
    return {
        "op": np.where(conv, "causal_conv", "linear_attention").astype(object),
        "batch": table.number("batch_size"),
        "seq": table.number("seq_len"),
        "heads": np.where(conv, np.nan, heads_),
        "key_heads": np.where(conv, np.nan, shared_),
        "head_dim": np.where(conv, np.nan, dim_),
        "head_dim_v": np.where(conv, np.nan, dim_v_),
        "channels": np.where(conv, channels, np.nan),
        "width": np.where(conv, table.number("d_conv"), np.nan),
        "dtype_a": np.full(len(table), "bf16", dtype=object),
        "variant": _joined(table, ["phase"]),
    }


def _joined(
    table: Columns, words: Sequence[str], numbers: Sequence[str] = (), first: str = ""
) -> np.ndarray:
    """Return the words and numbers of some columns together: "moe balanced", "all_to_all_v ll experts=128"."""
    parts = [table.mapped(name, str) for name in words]
    for number in numbers:
        parts.append(
            np.array([f"{number}={measured:g}" for measured in table.number(number)], dtype=object)
        )
    joined = np.full(len(table), first, dtype=object)
    for part in parts:
        if first or part is not parts[0]:
            joined = np.where(joined == "", part, joined + " " + part)
        else:
            joined = part
    return joined


_MS: Final = 1e3
_PARTS: Final = {
    "dispatch": (1.0, ("dispatch_transmit_us", "dispatch_notify_us")),
    "combine": (1.0, ("combine_transmit_us", "combine_notify_us")),
}
_LOW: Final = {"dispatch": (1.0, ("dispatch_avg_t_us",)), "combine": (1.0, ("combine_avg_t_us",))}
_MODULE: Final = Kind("")
KINDS: Final[dict[str, Kind]] = {
    "gemm": Kind("gemm", _gemm),
    "moe": Kind("moe", _moe),
    "wideep_moe": Kind("moe", _moe),
    "wideep_context_moe": Kind("moe", _moe),
    "wideep_generation_moe": Kind("moe", _moe),
    "wideep_context_mlp": Kind("moe", _mlp),
    "wideep_generation_mlp": Kind("moe", _mlp),
    "context_attention": Kind("attention", partial(_attention, causal=True)),
    "generation_attention": Kind("attention", partial(_attention, causal=True, decoding=True)),
    "encoder_attention": Kind("attention", partial(_attention, causal=False)),
    "context_mla": Kind("attention", partial(_latent, decoding=False)),
    "generation_mla": Kind("attention", partial(_latent, decoding=True)),
    "mla_bmm": Kind("batched_gemm", _absorbed),
    "nccl": Kind("collective", partial(_collective, dtype="nccl_dtype")),
    "oneccl": Kind("collective", partial(_collective, dtype="nccl_dtype")),
    "custom_allreduce": Kind("collective", partial(_collective, dtype="allreduce_dtype")),
    "trtllm_alltoall": Kind("collective", _exchange),
    "moe_a2a": Kind("collective", _exchange, {"": (1.0, ("transmit_us", "notify_us"))}),
    "wideep_deepep_normal": Kind("collective", _exchange, _PARTS),
    "wideep_deepep_ll": Kind("collective", _exchange, _LOW),
    "scale_matrix": Kind("copy", _quantised),
    "computescale": Kind("reduction", _scales),
    "gdn": Kind("linear_attention", _recurrent),
    "kda": Kind("linear_attention", _recurrent),
    "mamba2": Kind("linear_attention", _recurrent),
    **dict.fromkeys(
        (
            "dsa_context_module",
            "dsa_generation_module",
            "dsv4_csa_context_module",
            "dsv4_csa_generation_module",
            "dsv4_hca_context_module",
            "dsv4_hca_generation_module",
            "dsv4_csa_topk_calib",
            "dsv4_paged_mqa_logits_module",
            "dsv4_hca_attn_module",
            "dsv4_megamoe_module",
            "glm5_topk_module",
            "glm5_dsa_attn_module",
            "glm5_mqa_logits_module",
            "msa_context_module",
            "msa_generation_module",
            "mla_context_module",
            "mla_generation_module",
            "wideep_context_mla",
            "wideep_generation_mla",
            "mhc_module",
        ),
        _MODULE,
    ),
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
        result = {}
        for name, (factor, columns) in kind.times.items():
            result[name] = factor * np.sum([table.number(column) for column in columns], axis=0)
        return result
    column = next((name for name in _TIMES if table.has(name)), "latency")
    return {"": table.number(column) * _MS}


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
    origins = [
        canonical_device(word) for word in words
    ]  # "NVIDIA H100" is several GPUs: the folder says which
    device = (
        codes,
        [
            SYSTEMS.get(word) or (folder if unknown and folder else name)
            for word, (name, unknown) in zip(words, origins, strict=True)
        ],
    )
    frameworks, engines = column("framework")
    kernels, sources = table.words("kernel_source")
    both = frameworks * len(sources) + kernels
    names = []
    for one in engines:
        for other in sources:
            names.append(engine_of(one, other))
    return {
        "device": device,
        "engine": (both, names),
        "release": column("version"),
        "kernel_source": (kernels, sources),
    }


def read_rows(table: Columns, kind: Kind) -> Rows:
    """Return the rows of a table as columns of the measurement table; a row with several times becomes several rows."""
    origin, times = origin_of(table), _time(table, kind)
    rows = kind.rows(table)
    rows.setdefault("op", np.full(len(table), kind.op, dtype=object))
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
    if len(parts) == 1:
        return parts[0]
    joined = {}
    for key in parts[0]:
        joined[key] = np.concatenate([piece[key] for piece in parts])
    return joined


_WORDS: Final = ("op", "device", "engine", "family", "release", "kernel_source")
"""Columns whose conditions the rows of a table are asked before they are all made ready."""


def _asked(condition: Condition, column: str) -> list[str]:
    """Return the words that a condition on a column of words allows, as the measurement table spells them."""
    words = []
    for text in condition.texts:
        for part in text.split(","):
            words.append(part.strip())
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
    if kind.rows is _recurrent:
        ops = {"linear_attention", "causal_conv"}
    else:
        ops = {kind.op}
    passed = 0
    for one in where:
        if one.column == "op":
            if not ops & set(_asked(one, "op")):
                return Excluded(str(one), "op", tuple(sorted(ops - {""})), passed)
            passed += 1
    words = [one for one in where if one.column in ("device", "engine", "family", "release")]
    if not words:
        return None
    # A file is of one device, engine and version: the statistics of its columns say of which.
    with open_parquet(path, 2**40) as file:
        names = [
            name
            for name in ("framework", "version", "device", "kernel_source")
            if name in file.schema_arrow.names
        ]
        first = _constants(file, names)
    if first is None:
        return None
    origin = origin_of(Columns(first, path))
    held = {}
    for name, (codes, values) in origin.items():
        held[name] = {values[code] for code in codes.tolist()}
    return unmet(words, {**held, "family": held["engine"]}, passed)


def unmet(
    where: Sequence[Condition], held: Mapping[str, Collection[str]], passed: int = 0
) -> Excluded | None:
    """Return the first text condition that no value of a file meets; ``passed`` conditions were met before it."""
    for one in where:
        if one.column in held:
            if not set(held[one.column]) & set(_asked(one, one.column)):
                return Excluded(str(one), one.column, tuple(sorted(held[one.column])), passed)
            passed += 1
    return None


def _constants(file: pq.ParquetFile, names: Sequence[str]) -> pa.Table | None:
    """Return one row of the columns that have one value in the whole file; None where one of them has several.

    Of kernels any will do but libraries of collectives.
    """
    values: dict[str, str] = {}
    for name in names:
        place = file.schema_arrow.names.index(name)
        for group in range(file.metadata.num_row_groups):
            statistics = file.metadata.row_group(group).column(place).statistics
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
                if kind is None:
                    code, text = ("unknown-table", f"tables of unknown kind are left out: {name}")
                else:
                    code, text = (
                        "module-table",
                        f"whole modules are left out, of which no column tells the work: {name}",
                    )
                return RawTable(notes=[Note(remark(code, text, table=name), count)])
            check_size(count * len(file.schema_arrow.names) * 8, options.table_bytes, path)
            rows = read_rows(Columns(file.read(), path), kind)
            kept = np.ones(len(rows[LINE]), dtype=bool)
            for one in options.where:
                if one.column in _WORDS:
                    kept &= np.isin(rows[one.column].astype(str), _asked(one, one.column))
            if options.devices:
                kept &= np.isin(rows["device"].astype(str), list(options.devices))
            asked = {
                column: values if kept.all() else values[kept] for column, values in rows.items()
            }
            cells = {column: pa.array(values, from_pandas=True) for column, values in asked.items()}
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
        table = Columns(file.read(), path)
    name = kind_of(table.path)
    kind = KINDS.get(name)
    origin, times = origin_of(table), _time(table, kind)
    micros = next(iter(times.values()))
    sides = [origin[name] for name in ("device", "engine", "release")]
    code = np.zeros(len(table), dtype=np.int64)
    for codes, words in sides:
        code = code * len(words) + codes
    counts: dict[tuple[str, str, str], int] = {}
    for value, count in zip(*np.unique(code, return_counts=True), strict=True):
        rest, names = int(value), []
        for _, words in reversed(sides):
            rest, place = divmod(rest, len(words))
            names.append(words[place])
        key = (names[2], names[1], names[0])
        counts[key] = counts.get(key, 0) + int(count) * len(times)
    spikes, doubles, apart = _irregular(table, micros)
    zeros = int(sum((values <= 0).sum() for values in times.values()))
    return Surveyed(name, kind.op if kind else "", counts, spikes, doubles, zeros, apart)


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
    along = changing[0] if changing else names[-1]
    key = np.zeros(len(table), dtype=np.uint64)
    for place, name in enumerate(one for one in names if one != along):
        column = table.table[name].combine_chunks()
        if pa.types.is_string(column.type) or pa.types.is_large_string(column.type):
            column = column.dictionary_encode().indices
        values = np.nan_to_num(column.to_numpy(zero_copy_only=False).astype(float)).view(np.uint64)
        if len(values) and (values == values[0]).all():
            continue
        mixed = (key ^ values) + np.uint64(0x9E3779B97F4A7C15 + 2 * place)
        mixed = (mixed ^ (mixed >> np.uint64(30))) * np.uint64(0xBF58476D1CE4E5B9)
        key = (mixed ^ (mixed >> np.uint64(27))) * np.uint64(0x94D049BB133111EB)
    if changing:
        size = table.number(along)
    else:
        size = np.zeros(len(table))
    order = np.lexsort((size, key))
    key, size, time = key[order], size[order], micros[order]
    same = (key[1:] == key[:-1]) & (size[1:] == size[:-1])
    doubles = np.r_[same, False] | np.r_[False, same]
    first = np.flatnonzero(np.r_[True, ~same])
    least, longest = (
        function.reduceat(time, first) if len(time) else time
        for function in (np.minimum, np.maximum)
    )
    several = np.diff(np.r_[first, len(time)]) > 1
    ratio = longest[several] / np.maximum(least[several], 1e-12)
    key, size, time = key[first], size[first], time[first]
    odd = int((off_neighbours(key, size, time)[0] != 1).sum())
    return odd, int(doubles.sum()), float(np.median(ratio)) if len(ratio) else 1.0

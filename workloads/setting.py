"""What is to be forecast: one row of a table of cases, checked and completed.

Empty fields take their defaults, and the answer states them; `complete` raises one line for what
cannot be.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, fields, replace
from os import PathLike, fspath
from typing import Any, Final, Literal, get_args

import numpy as np
import pandas as pd

from ..errors import DataError, ParameterError, nearest
from ..hardware import GPU, Network, find
from ..hardware.networks import NODE_GPUS
from ..operators.work import BITS, canonical_dtype
from ..projection.collective_laws import ONE_NODE
from . import model_catalogue
from .architecture import PARTS, Architecture, check_split, layer

Kind = Literal["inference", "throughput", "training"]
Recompute = Literal["none", "selective", "full"]
Optimizer = Literal["adam", "adam-8bit", "sgd"]
Tuning = Literal["either", "tuned", "stock"]
Schedule = Literal["1f1b", "zbv", "v-half", "v-min"]
MOST: Final = 10_000_000
_COUNTS: Final = (
    "gpus",
    "tp",
    "pp",
    "dp",
    "cp",
    "ep",
    "batch",
    "input_len",
    "output_len",
    "num_prompts",
    "max_num_seqs",
    "micro_batch",
    "global_batch",
    "seq_len",
    "max_batched_tokens",
    "interleave",
    "zero",
    "recompute_layers",
    "node_gpus",
)
_NEEDED: Final = {
    "inference": ("batch", "input_len", "output_len"),
    "throughput": ("num_prompts", "input_len", "output_len"),
    "training": ("global_batch", "seq_len"),
}


@dataclass(frozen=True, kw_only=True)
class Setting:
    """A workload on so many GPUs.

    Attributes
    ----------
    kind : {"inference", "throughput", "training"}
        One batch that starts and ends together (seconds), requests served as they fit (output
        tokens per second), or one optimizer step (seconds).
    model, gpu : Architecture, GPU
        Resolved.
    gpus : int
        All of them: tp · pp · dp · cp.
    tp, pp, dp, cp, ep : int
        Ways in which layers, depth, data, sequences and experts are cut. What is left out follows
        from ``gpus``.
    dtype, kv_dtype : str
        Of the weights and products, and of the cache. Where left out, those that the model is
        published in: by its name or its configuration, part by part (`precision`; ``dtype`` is then
        that of most weights), else bf16.
    batch, input_len, output_len : int
        Sequences of a batch, tokens of each prompt and of each answer.
    num_prompts, max_num_seqs : int
        Requests, and how many may run at once.
    micro_batch, global_batch, seq_len : int
        Sequences of a micro-batch per replica and of a step over all, tokens of each.
    recompute, recompute_layers : str, int or None
        What the backward pass computes again: nothing, the attention, or whole layers (all, or so
        many).
    optimizer, zero, sequence_parallel
        ``adam``, ``adam-8bit`` or ``sgd``; the ZeRO stage (0 to 3), where left out 1 as frameworks
        do, or 3 (FSDP) where only that has room; whether norms are cut along the sequence.
    schedule, interleave : str, int
        Of a pipeline: ``1f1b``, with so many model chunks per stage, or those in the shape of a V,
        with two, that split the backward pass: ``zbv``, ``v-half``, ``v-min`` (Qi et al.,
        arXiv:2401.10241, arXiv:2405.15362).
    lora : bool
        Whether only low-rank adapters are trained: no weight gradients of the matrices.
    flash : bool
        Whether attention is one fused kernel that keeps no scores.
    network_gbs, network_us : float
        Between nodes: bandwidth per GPU, one way, GB/s, and latency of a message, µs.
    node_gpus : int
        GPUs that share links within a node; where left out those of the GPU's nodes, else 8.
    release : str
        Software release whose constants are used; empty: any.
    tuning : {"either", "tuned", "stock"}
        Of a training step whose release is not given: a framework as the vendor tunes it, as it
        comes, or either: the tuned time, and an interval that reaches to frameworks as they come.
    eager, prefix_cache : bool
        Kernels launched one by one; prompts in the cache.
    max_batched_tokens : int
        Tokens of the largest step; where left out 65 536, or all prompts of a replica if they are
        fewer.
    memory_utilisation : float
        Part of the memory that may be used: where left out 0.9 of serving, all of a training step.
    assumed : tuple of str
        Fields that were left out and took a default.
    """

    kind: Kind
    model: Architecture
    gpu: GPU
    gpus: int = 1
    tp: int = 1
    pp: int = 1
    dp: int = 1
    cp: int = 1
    ep: int = 1
    dtype: str = "bf16"
    kv_dtype: str = "bf16"
    batch: int = 1
    input_len: int = 0
    output_len: int = 0
    num_prompts: int = 0
    max_num_seqs: int = 1024
    micro_batch: int = 1
    global_batch: int = 0
    seq_len: int = 0
    recompute: Recompute = "none"
    recompute_layers: int | None = None
    optimizer: Optimizer = "adam"
    zero: int = 0
    interleave: int = 1
    schedule: Schedule = "1f1b"
    sequence_parallel: bool = False
    lora: bool = False
    flash: bool = True
    network_gbs: float = ONE_NODE.gbs
    network_us: float = ONE_NODE.step_us
    node_gpus: int = NODE_GPUS
    release: str = ""
    tuning: Tuning = "either"
    eager: bool = False
    prefix_cache: bool = False
    max_batched_tokens: int = 65536
    memory_utilisation: float = 0.9
    assumed: tuple[str, ...] = ()

    @property
    def network(self) -> Network:
        """The network between nodes."""
        return Network(self.network_gbs, self.network_us, self.node_gpus)

    def precision(self, part: str) -> tuple[str, str]:
        """Return the number formats of the weights of a part (`architecture.PARTS`), and of products with them.

        Weights in a format that the GPU has no units for are read as they are and widened to
        compute; what has no part, such as routers and the output matrix, is in 16 bits.
        """
        if self.model.formats:
            published = self.model.formats.get(part, WIDE)
        else:
            published = self.dtype
        weights, _, products = (published if part else WIDE).partition("/")
        return weights, computed_in(self.gpu, products or weights)

    @property
    def widened(self) -> tuple[str, ...]:
        """Formats of weights that the GPU has no units for."""
        formats = dict.fromkeys(self.precision(part) for part in PARTS)
        return tuple(
            dict.fromkeys(
                weights for weights, products in formats if BITS[weights] < BITS[products]
            )
        )


WIDE: Final = "bf16"  # of what is not quantised
# formats of weights and caches
_STORED: Final = (
    "fp32",
    "fp16",
    WIDE,
    "fp8",
    "int8",
    "fp6",
    "fp4",
    "int4",
)


def stored_format(parameter: str, spelling: object) -> str:
    """Return the number format of a spelling; a ParameterError lists those of weights and caches."""
    try:
        return canonical_dtype(str(spelling))
    except DataError:
        raise ParameterError(
            parameter, f"must be one of {', '.join(_STORED)}, got {spelling!r}"
        ) from None


def computed_in(gpu: GPU, dtype: str) -> str:
    """Return the format in which a GPU computes a stored format: the same, or the next wider one with units.

    Narrow weights are widened to 16 bits, as kernels of weight-only quantisation do. Raises
    NotPublishedError: the GPU has no published matrix rate that would do.
    """
    if BITS[dtype] <= BITS[WIDE]:
        wider = (dtype, WIDE, "fp16", "fp32")
    else:
        wider = (dtype,)
    wider_format = next((one for one in wider if f"{one}_matrix" in gpu.peaks), None)
    if wider_format is None:
        gpu.peak_tflops(dtype, "matrix")  # says which figure is missing
    return wider_format or dtype


# columns of a table of cases
FIELDS: Final = tuple(field.name for field in fields(Setting) if field.name != "assumed")


def complete(given: Mapping[str, Any]) -> Setting:
    """Return the setting of named values; None, NaN and empty text count as left out.

    Raises FlopcastError: a field, model, GPU or number format is unknown (the message has the
    nearest), a needed one is missing, a number is out of range, or the ways of cutting do not
    multiply to the GPUs or do not divide what they cut.
    """
    stated = stated_of(given, FIELDS)
    kind = stated.setdefault("kind", "inference")
    if kind not in get_args(Kind):
        raise ParameterError("kind", f"must be one of {', '.join(get_args(Kind))}, got {kind!r}")
    if "model" in stated:
        model = model_catalogue.find(stated["model"])
    else:
        model = None
    missing = [name for name in ("model", "gpu", *_NEEDED[kind]) if name not in stated]
    if missing:
        raise ParameterError(missing[0], f"is needed to forecast {kind}", *missing[1:])
    assert model is not None
    if "tuning" in stated and kind != "training":
        raise ParameterError("tuning", f"goes with no {kind}: leave it out, it changes no answer")
    values: dict[str, Any] = understood(stated)
    if isinstance(stated["model"], str):
        named = model_catalogue.format_in(stated["model"])
    else:
        named = None
    published = {form.partition("/")[0] for form in model.formats.values()}
    if "dtype" in values and published != {values["dtype"]}:
        model = replace(model, formats={})
    elif "dtype" not in values and named:  # as of Llama-3.1-70B-FP8-KV
        values["dtype"] = named
        if named not in published:
            model = replace(model, formats={})
    if kind == "training":
        # a step has one format; what is published is for serving
        model = replace(model, formats={})
        values.setdefault("zero", 1)
        values.setdefault("memory_utilisation", 1.0)
    if model.formats:
        values["dtype"] = most_weights(model)
        values.setdefault("kv_dtype", model.kv_format or WIDE)
    values["model"] = model
    values.setdefault("node_gpus", values["gpu"].node_gpus or NODE_GPUS)
    values.setdefault(
        "kv_dtype", "fp8" if values.get("dtype") in ("fp8", "fp4", "fp6", "int8") else WIDE
    )
    check_split(values["model"], values.get("tp", 1), values.get("ep", 1))
    setting = _cut(Setting(**values, assumed=tuple(sorted(set(FIELDS) - set(stated)))), stated)
    _check(setting)
    return setting


def most_weights(model: Architecture) -> str:
    """Return the format of most weights of a model that is published in several."""
    weights: dict[str, float] = {}
    for part, count in layer(model).weights_by_part().items():
        form = model.formats.get(part, WIDE).partition("/")[0]
        weights[form] = weights.get(form, 0.0) + count
    return max(weights, key=weights.__getitem__)


def stated_of(given: Mapping[str, Any], names: Sequence[str]) -> dict[str, Any]:
    """Return the stated fields; a DataError for an unknown one, with the nearest."""
    stated = {name: value for name, value in given.items() if not _is_blank(value)}
    for name in stated:
        if name not in names:
            raise DataError(f"unknown field {name!r}: {nearest(name, names)}")
    return stated


def _is_blank(value: object) -> bool:
    if isinstance(value, str):
        return value == ""
    if isinstance(value, float):
        return value != value
    return value is None or value is pd.NA


def understood(stated: Mapping[str, Any]) -> dict[str, Any]:
    """Return the values of fields, the model's aside, as numbers, switches, number formats and a GPU."""
    values = dict(stated)
    values["gpu"] = find(stated["gpu"])
    name: str
    for name in (name for name in _COUNTS if name in values):
        if name in ("zero", "recompute_layers", "input_len"):
            least = 0
        else:
            least = 1
        try:
            if isinstance(values[name], bool | np.bool_):  # Python counts with them
                raise TypeError
            number = float(values[name])
        except (TypeError, ValueError, OverflowError):
            raise ParameterError(name, f"must be a whole number, got {values[name]!r}") from None
        if not (number.is_integer() and least <= number <= MOST):
            raise ParameterError(
                name, f"must be a whole number from {least} to {MOST}, got {values[name]}"
            )
        values[name] = int(number)
    for name in (
        name for name in ("memory_utilisation", "network_gbs", "network_us") if name in values
    ):
        try:
            number = float(values[name])
        except (TypeError, ValueError, OverflowError):
            raise ParameterError(name, f"must be a number, got {values[name]!r}") from None
        if not 0 < number < float("inf"):
            raise ParameterError(name, f"must be above 0 and finite, got {values[name]}")
        values[name] = number
    if "release" in values:
        if not isinstance(values["release"], str | PathLike):
            raise ParameterError("release", f"must be a name or a file, got {values['release']!r}")
        values["release"] = fspath(values["release"])
    for name in (name for name in ("dtype", "kv_dtype") if name in values):
        values[name] = stored_format(name, values[name])
    words = {
        "true": True,
        "1": True,
        "yes": True,
        "1.0": True,
        "false": False,
        "0": False,
        "no": False,
        "0.0": False,
    }
    for name in ("eager", "prefix_cache", "sequence_parallel", "lora", "flash"):
        if name in values and str(values[name]).lower() not in words:
            raise ParameterError(name, f"must be true or false, got {values[name]!r}")
        if name in values:
            values[name] = words[str(values[name]).lower()]
    return values


def _cut(setting: Setting, stated: Mapping[str, Any]) -> Setting:
    """Fill in the omitted ways of splitting: tp takes a node's GPUs, at most 8, dp the rest.

    The largest step has no more tokens than there are.
    """
    ways = {name: getattr(setting, name) for name in ("tp", "pp", "dp", "cp") if name in stated}
    product = ways.get("tp", 1) * ways.get("pp", 1) * ways.get("dp", 1) * setting.cp
    gpus = product
    if "gpus" in stated:
        gpus = setting.gpus
    if gpus % product:
        raise ParameterError(
            "gpus", f"must be tp · pp · dp · cp times a whole number, got {gpus} for {product}"
        )
    rest = gpus // product
    if "tp" not in ways and setting.kind != "training":
        ways["tp"] = min(rest, setting.node_gpus, NODE_GPUS)
        rest //= ways["tp"]
    if "dp" not in ways:
        ways["dp"] = rest
        rest = 1
    if rest != 1 or gpus != ways.get("tp", 1) * ways.get("pp", 1) * ways["dp"] * setting.cp:
        raise ParameterError(
            "gpus",
            f"must be tp · pp · dp · cp, got {gpus} for {' · '.join(map(str, ways.values()))}",
        )
    if "max_batched_tokens" not in stated and setting.kind != "training":
        sequences = -(-max(setting.batch, setting.num_prompts) // ways["dp"])
        ways["max_batched_tokens"] = min(
            setting.max_batched_tokens, sequences * max(setting.input_len, 1)
        )
    return replace(setting, gpus=gpus, **ways)


def _check(setting: Setting) -> None:
    check_split(setting.model, setting.tp, setting.ep)
    layers = setting.model.layers
    stage = setting.tp * setting.dp * setting.cp
    if stage % setting.ep:
        raise ParameterError(
            "ep", f"must divide the tp · dp · cp = {stage} GPUs of a stage, got {setting.ep}"
        )
    if setting.pp > layers:
        raise ParameterError("pp", f"must be at most the {layers} layers, got {setting.pp}")
    if setting.pp * setting.interleave > layers:
        raise ParameterError(
            "interleave", f"times pp must be at most the {layers} layers, got {setting.interleave}"
        )
    if setting.kind != "training" and not setting.model.causal and setting.output_len > 1:
        raise ParameterError(
            "output_len", f"must be 1: {setting.model.name} is an encoder, it generates no tokens"
        )
    if setting.kind != "training":
        setting.model.check_length(setting.input_len + setting.output_len)
    gpu = setting.gpu
    if setting.kind == "training" and f"{setting.dtype}_matrix" not in gpu.peaks:
        has = [
            name
            for name in ("fp4", "fp6", "fp8", "bf16", "fp16", "fp32")
            if f"{name}_matrix" in gpu.peaks
        ]
        if not has:
            gpu.peak_tflops(setting.dtype, "matrix")  # says which figure is missing
        raise ParameterError(
            "dtype",
            f"must be one that {gpu.name} trains in ({', '.join(has)}), got {setting.dtype}",
        )
    for part in PARTS:
        setting.precision(part)  # says which figure of the GPU is missing
    if setting.zero > 3:
        raise ParameterError("zero", f"must be a stage from 0 to 3, got {setting.zero}")
    if setting.kind != "training" and setting.cp > 1:
        raise ParameterError(
            "cp", f"must be 1 for {setting.kind}, got {setting.cp}: only training cuts sequences"
        )
    if not 0 < setting.memory_utilisation <= 1:
        raise ParameterError(
            "memory_utilisation",
            f"must lie above 0 and up to 1, got {setting.memory_utilisation:g}",
        )
    if setting.kind == "inference" and setting.batch % setting.dp:
        raise ParameterError(
            "batch", f"must be a multiple of the {setting.dp} replicas, got {setting.batch}"
        )
    if setting.kind == "training":
        for name, words in (
            ("recompute", Recompute),
            ("schedule", Schedule),
            ("optimizer", Optimizer),
            ("tuning", Tuning),
        ):
            if getattr(setting, name) not in get_args(words):
                raise ParameterError(name, f"must be one of {', '.join(get_args(words))}")
        if setting.schedule != "1f1b" and setting.interleave != 1:
            raise ParameterError(
                "interleave", f"must be 1 for {setting.schedule}, got {setting.interleave}"
            )
        together = setting.dp * setting.micro_batch
        if setting.global_batch % together:
            raise ParameterError(
                "global_batch",
                f"must be a multiple of dp · micro_batch = {together}, got {setting.global_batch}",
            )

"""A model as the numbers that decide its matrices, and the kernels of one of its layers on one GPU.

A name of models.csv, a Hugging Face ``config.json`` or its contents enter `find`; an `Architecture` leaves. `layer`
says which matrices one GPU has of it, `attention_flop` and `cached_per_token` how much attention and cache.

Tensor parallelism cuts the heads and the inner width of the feed-forward part (Shoeybi et al., Megatron-LM,
arXiv:1909.08053): the projections into the heads and into the inner width by columns, those out of them by rows, with
a sum over the GPUs after each pair. Expert parallelism gives every GPU some of the experts, and sends tokens to them
and back. `check_split` says which numbers of GPUs a model can be cut into.
"""

from __future__ import annotations

import csv
import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cache
from importlib import resources
from pathlib import Path
from typing import Any, Final

import numpy as np
from numpy.typing import ArrayLike

from ..arrays import FloatArray
from ..errors import DataError, ParameterError, nearest

_LARGEST: Final = 10**7
"""No dimension of a model is larger: what is, was mistyped."""
_MOST_LAYERS: Final = 10_000


@dataclass(frozen=True, kw_only=True)
class Latent:
    """Widths of multi-head latent attention (DeepSeek-V2, arXiv:2405.04434, section 2.1).

    ``query_rank`` and ``cache_rank`` are those of the compressed query (0: it is not compressed) and of the compressed
    keys and values; each head has ``plain`` and ``rotary`` dimensions for its keys, and ``value`` for its values.
    """

    query_rank: int
    cache_rank: int
    plain: int
    rotary: int
    value: int


@dataclass(frozen=True, kw_only=True)
class Architecture:
    """A transformer as its configuration describes it.

    Attributes
    ----------
    name : str
        Name, for people.
    hidden, layers, vocab : int
        Width of the residual stream, number of layers, number of tokens known.
    heads, kv_heads, head_dim : int
        Query heads, key and value heads (fewer: grouped queries), width of a head.
    ffn : int
        Inner width of the dense feed-forward part.
    gated : bool
        Whether that has three matrices (gate, up, down) or two.
    experts, experts_per_token, shared_experts, expert_ffn, dense_layers : int
        Of a mixture: experts per layer, how many a token visits, how many every token visits besides, their inner
        width, and the layers that have none. 0 for a dense model.
    causal : bool
        False of an encoder: every token attends to every other.
    latent : Latent or None
        Widths of latent attention.
    tied : bool
        Whether the embedding is the output matrix too.
    """

    name: str
    hidden: int
    layers: int
    vocab: int
    heads: int
    kv_heads: int
    head_dim: int
    ffn: int
    gated: bool = True
    experts: int = 0
    experts_per_token: int = 0
    shared_experts: int = 0
    expert_ffn: int = 0
    dense_layers: int = 0
    causal: bool = True
    latent: Latent | None = None
    tied: bool = False

    def __post_init__(self) -> None:
        for field in ("hidden", "layers", "vocab", "heads", "kv_heads", "head_dim", "ffn"):
            _check(self.name, field, getattr(self, field), least=1)
        for field in ("experts", "experts_per_token", "shared_experts", "expert_ffn", "dense_layers"):
            _check(self.name, field, getattr(self, field), least=0)
        if self.heads % self.kv_heads:
            raise DataError(f"{self.name}: {self.kv_heads} key heads do not divide {self.heads} query heads")
        if self.experts and not 0 < self.experts_per_token <= self.experts:
            raise DataError(f"{self.name}: a token visits {self.experts_per_token} of {self.experts} experts")
        if self.experts and not self.expert_ffn:
            raise DataError(f"{self.name}: the inner width of its {self.experts} experts is missing")

    @property
    def mixture_layers(self) -> int:
        """Layers whose feed-forward part is a mixture of experts."""
        return self.layers - self.dense_layers if self.experts else 0

    @property
    def plain_layers(self) -> int:
        """Layers whose feed-forward part is dense."""
        return self.layers - self.mixture_layers

    @property
    def ffn_matrices(self) -> int:
        """Matrices of a feed-forward part: three where it is gated, else two."""
        return 3 if self.gated else 2

    @property
    def attention_parameters(self) -> int:
        """Weights of the attention of one layer."""
        if self.latent is None:
            return self.hidden * self.head_dim * (2 * self.heads + 2 * self.kv_heads)
        one = self.latent
        wide = self.heads * (one.plain + one.rotary)
        query = one.query_rank * (self.hidden + wide) if one.query_rank else self.hidden * wide
        cached = self.hidden * (one.cache_rank + one.rotary) + one.cache_rank * self.heads * (one.plain + one.value)
        return query + cached + self.hidden * self.heads * one.value

    @property
    def expert_parameters(self) -> int:
        """Weights of one expert."""
        return self.ffn_matrices * self.hidden * self.expert_ffn

    @property
    def embedding_parameters(self) -> int:
        """Weights of the embedding and of the output matrix."""
        return self.hidden * self.vocab * (1 if self.tied or not self.causal else 2)

    @property
    def parameters(self) -> int:
        """All weights; norms and biases, well under 0.1 %, are not counted."""
        return self._weights(self.experts + self.shared_experts)

    @property
    def active_parameters(self) -> int:
        """Weights that one token meets."""
        return self._weights(self.experts_per_token + self.shared_experts)

    @property
    def cached_per_token(self) -> int:
        """Elements that one token leaves in the cache of one layer, before it is split over GPUs."""
        if self.latent is not None:
            return self.latent.cache_rank + self.latent.rotary
        return 2 * self.kv_heads * self.head_dim

    def _weights(self, experts: int) -> int:
        plain = self.plain_layers * self.ffn_matrices * self.hidden * self.ffn
        router = self.mixture_layers * self.hidden * self.experts
        mixture = self.mixture_layers * experts * self.expert_parameters + router
        return self.embedding_parameters + self.layers * self.attention_parameters + plain + mixture


def find(model: str | Path | Mapping[str, Any] | Architecture) -> Architecture:
    """Return the architecture of a model.

    Parameters
    ----------
    model : str, Path or mapping
        A name of `names`, in any spelling of case and separators and with what follows a known name (``-Instruct``,
        ``-FP8-KV``); the path of a Hugging Face ``config.json``, or of the folder that holds it; or its contents.

    Raises
    ------
    DataError
        The name is unknown (the message has the nearest), the file cannot be read, or a figure is missing or cannot be.

    Examples
    --------
    >>> model = find("llama-3.1-70b")
    >>> model.layers, model.kv_heads, round(model.parameters / 1e9, 1)
    (80, 8, 70.6)
    """
    if isinstance(model, Architecture):
        return model
    if isinstance(model, Mapping):
        return from_config(model)
    path = Path(model)
    if path.suffix == ".json" or path.is_dir():
        file = path / "config.json" if path.is_dir() else path
        try:
            config = json.loads(file.read_text(encoding="utf-8"))
        except (OSError, ValueError, RecursionError) as error:
            raise DataError(f"cannot be read as a model's configuration: {error}", source=str(file)) from None
        if not isinstance(config, dict):
            wanted = 'a model\'s configuration or a graph of layers, {"layers": [...]}'
            raise DataError(f"must hold a JSON object ({wanted}), holds a {type(config).__name__}", source=str(file))
        title = file.resolve().parent.name if file.stem == "config" else file.stem
        return from_config(config, name=str(config.get("_name_or_path") or title))
    if path.is_file():
        raise DataError(
            "is no config.json, list of operators (CSV), graph of layers (JSON), execution trace or ONNX model",
            source=str(path),
        )
    if path.suffix in (".onnx", ".et", ".gz", ".csv") or path.is_absolute():
        raise DataError("no such file or folder", source=str(path))
    known = {_plain(key): one for key, one in _known().items()}
    plain = _plain(str(model).rsplit("/", 1)[-1])
    fits = [key for key in known if plain.startswith(key)]
    if not fits:
        raise DataError(f"unknown model {str(model)!r}: {nearest(str(model), _known())} (or the path of a config.json)")
    return known[max(fits, key=len)]


def names() -> list[str]:
    """Return the names of the models that are known."""
    return list(_known())


_UNGATED: Final = {
    "bert", "bloom", "camembert", "codegen", "electra", "esm", "falcon", "gpt2", "gpt_bigcode", "gpt_neo", "gpt_neox",
    "gptj", "mpnet", "mpt", "nemotron", "opt", "persimmon", "phi", "refinedweb", "refinedwebmodel", "roberta",
    "starcoder2", "xglm", "xlm-roberta",
}  # fmt: skip
"""Types whose feed-forward part has two matrices, whatever the activation; ``model_type`` in small letters."""
_GATED: Final = {"gemma", "gemma2", "gemma3", "gemma3_text", "modernbert", "recurrent_gemma"}
"""Types that have three with an activation that elsewhere means two."""
_ENCODERS: Final = {
    "bert", "camembert", "deberta", "deberta-v2", "electra", "ernie", "esm", "luke", "modernbert", "mpnet",
    "nomic_bert", "roberta", "xlm-roberta",
}  # fmt: skip
_UNTIED: Final = {
    "codegen", "deepseek", "deepseek_v2", "deepseek_v3", "gpt_neox", "gpt_oss", "gptj", "granite", "llama", "llama4",
    "llama4_text", "mistral", "mixtral", "nemotron", "olmo", "olmo2", "persimmon", "phi", "phi3", "phimoe", "qwen",
    "qwen2", "qwen2_moe", "qwen3", "qwen3_moe", "stablelm",
}  # fmt: skip
"""Types whose output matrix is not the embedding where the configuration does not say; of all others it is."""
_ACTIVATIONS: Final = ("hidden_act", "hidden_activation", "activation_function", "activation")
_NO_ATTENTION: Final = ("mamba_d_state", "state_size", "ssm_cfg", "ssm_state_size", "linear_num_value_heads")
"""Keys of layers that are no attention: state spaces, linear attention."""


def from_config(config: Mapping[str, Any], name: str = "") -> Architecture:
    """Return the architecture that a Hugging Face configuration describes.

    What a configuration leaves out follows from its ``model_type``, as in the classes of transformers: whether the
    feed-forward part is gated, whether the embedding is the output matrix too, how many heads have keys, which layers
    have experts. Of a model of several parts (``text_config``) it is the language model.

    Raises
    ------
    DataError
        A figure is missing or cannot be, or the model has what is not forecast: state spaces, linear attention, an
        encoder beside its decoder.
    """
    given = _Config.of(config, name)
    number, kind = given.number, given.kind
    hidden = number("hidden_size", "n_embd", "n_embed", "d_model")
    heads = number("num_attention_heads", "n_head", "n_heads")
    layers = number("num_hidden_layers", "n_layer", "n_layers", "num_layers")
    ffn = number("intermediate_size", "n_inner", "ffn_dim", "ffn_hidden_size", default=4 * hidden)
    activation = str(next((given.fields[key] for key in _ACTIVATIONS if given.fields.get(key)), "silu")).lower()
    gated = kind in _GATED or "glu" in activation or activation in ("silu", "swish")
    latent = None
    if given.fields.get("kv_lora_rank"):
        latent = Latent(
            query_rank=number("q_lora_rank", default=0),
            cache_rank=number("kv_lora_rank"),
            plain=number("qk_nope_head_dim"),
            rotary=number("qk_rope_head_dim"),
            value=number("v_head_dim"),
        )
    return Architecture(
        name=given.title,
        hidden=hidden,
        layers=layers,
        vocab=number("vocab_size", "padded_vocab_size"),
        heads=heads,
        kv_heads=_key_heads(given, heads),
        head_dim=number("head_dim", "kv_channels", default=hidden // max(heads, 1)),
        gated=gated and kind not in _UNGATED,
        causal=kind not in _ENCODERS and not any(str(one).endswith("ForMaskedLM") for one in given.architectures),
        latent=latent,
        tied=bool(given.fields.get("tie_word_embeddings", bool(kind) and kind not in _UNTIED)),
        **_feed_forward_of(given, ffn, layers),
    )


@dataclass(frozen=True)
class _Config:
    """A configuration, with those of its parts that describe the language model."""

    fields: Mapping[str, Any]
    title: str

    @classmethod
    def of(cls, config: Mapping[str, Any], name: str) -> _Config:
        fields = dict(config)
        for part in ("text_config", "llm_config", "attn_config", "ffn_config"):
            if isinstance(inner := fields.get(part), Mapping):
                fields |= inner
        title = name or str(fields.get("_name_or_path") or fields.get("model_type") or "the model")
        if other := [key for key in _NO_ATTENTION if fields.get(key) is not None]:
            raise DataError(f"{title}: has layers that are no attention ({other[0]}), which are not forecast")
        if fields.get("is_encoder_decoder"):
            raise DataError(f"{title}: is an encoder with a decoder, which is not forecast; either of them alone is")
        return cls(fields, title)

    @property
    def architectures(self) -> Sequence[Any]:
        found = self.fields.get("architectures")
        return found if isinstance(found, list) else []

    @property
    def kind(self) -> str:
        return str(self.fields.get("model_type") or "").lower()

    def number(self, *keys: str, default: int | None = None) -> int:
        for key in keys:
            if self.fields.get(key) is not None:
                return _check(self.title, key, self.fields[key], least=0)
        if default is None:
            raise DataError(f"{self.title}: the configuration has no {keys[0]}")
        return default


def _key_heads(config: _Config, heads: int) -> int:
    stated, several = config.fields, ("num_kv_heads", "n_head_kv", "kv_n_heads", "multi_query_group_num")
    if config.kind == "falcon" and not stated.get("new_decoder_architecture"):
        return 1 if stated.get("multi_query", True) else heads  # num_kv_heads is written, and not looked at
    if stated.get("multi_query") and not any(stated.get(name) for name in several):
        return 1
    known = () if stated.get("multi_query_attention") is False else several
    return config.number("num_key_value_heads", *known, default=heads)


def _feed_forward_of(config: _Config, ffn: int, layers: int) -> dict[str, int]:
    """Return the inner width of the dense feed-forward parts, and what there is of experts."""
    number, stated = config.number, config.fields
    experts = number("num_local_experts", "num_experts", "n_routed_experts", "moe_num_experts", default=0)
    if not experts:
        return {"ffn": ffn}
    width, shared = number("moe_intermediate_size", default=ffn), number("n_shared_experts", default=0)
    if stated.get("shared_expert_intermediate_size"):
        whole = number("shared_expert_intermediate_size")
        if not width or whole % width:
            raise DataError(f"{config.title}: a shared expert {whole} wide is no multiple of the {width} of the others")
        shared = whole // width
    if config.kind.startswith("llama4"):
        shared, ffn = 1, number("intermediate_size_mlp", default=ffn)
    every = number("interleave_moe_layer_step", "decoder_sparse_step", "moe_layer_freq", default=1) or 1
    first, plain = number("first_k_dense_replace", default=0), stated.get("mlp_only_layers")
    plain = plain if isinstance(plain, list) else []
    mixtures = [place for place in range(first, layers) if (place + 1) % every == 0 and place not in plain]
    return {
        "ffn": ffn,
        "experts": experts,
        "experts_per_token": number("num_experts_per_tok", "experts_per_token", "moe_topk", "moe_top_k", default=0),
        "shared_experts": shared,
        "expert_ffn": width,
        "dense_layers": layers - len(mixtures),
    }


def _check(name: str, field: str, value: object, *, least: int) -> int:
    most = _MOST_LAYERS if "layer" in field else _LARGEST
    known = isinstance(value, int | float) and not isinstance(value, bool) and least <= value <= most
    if not known or value != int(value):
        raise DataError(f"{name}: {field} must be a whole number from {least} to {most:,}, got {repr(value)[:40]}")
    return int(value)


def _plain(name: str) -> str:
    return "".join(letter for letter in name.lower() if letter.isalnum())


@cache
def _known() -> dict[str, Architecture]:
    text = resources.files("flopcast.workloads").joinpath("models.csv").read_text(encoding="utf-8")
    lines = [line for line in text.splitlines() if not line.startswith("#")]
    found = {}
    for row in csv.DictReader(lines):
        name, latent = row.pop("name"), row.pop("latent")
        figures: dict[str, Any] = {key: int(value) for key, value in row.items() if value}
        figures |= {key: bool(figures[key]) for key in ("gated", "causal")}
        if latent:
            widths = ("query_rank", "cache_rank", "plain", "rotary", "value")
            figures["latent"] = Latent(**dict(zip(widths, map(int, latent.split()), strict=True)))
        found[name] = Architecture(name=name, **figures)
    return found


@dataclass(frozen=True)
class Matrix:
    """Weights of one product on one GPU: ``outputs`` by ``inputs``, and the part of the layers that have it."""

    name: str
    outputs: int
    inputs: int
    share: float = 1.0


@dataclass(frozen=True)
class Experts:
    """The experts of one layer on one GPU.

    ``held`` of ``all`` experts, of which a token visits ``visited``; ``matrices`` are those of one expert, and the
    ``share`` of the layers that have them. Tokens come from ``senders`` groups of GPUs that cut heads among them; below
    1 it is a part of the tokens of one.
    """

    matrices: tuple[Matrix, ...]
    held: int
    all: int
    visited: int
    share: float
    senders: float

    def visits(self, tokens: ArrayLike) -> FloatArray:
        """Return the visits to the experts held here, if the tokens of each sender spread evenly."""
        return np.asarray(tokens, dtype=np.float64) * self.senders * self.visited * self.held / self.all

    def touched(self, tokens: ArrayLike) -> FloatArray:
        """Return how many of the experts held here are expected to be visited at all, tokens choosing at random."""
        missed = (1.0 - self.visited / self.all) ** (np.asarray(tokens, dtype=np.float64) * self.senders)
        return np.maximum(self.held * (1.0 - missed), 1.0)


@dataclass(frozen=True)
class Layer:
    """What one GPU does for an average layer: every token meets the ``matrices``, some the ``experts``."""

    matrices: tuple[Matrix, ...]
    experts: Experts | None

    @property
    def weights(self) -> float:
        """Weights of an average layer on this GPU."""
        found = sum(one.outputs * one.inputs * one.share for one in self.matrices)
        if self.experts:
            each = sum(one.outputs * one.inputs for one in self.experts.matrices)
            found += self.experts.share * self.experts.held * each
        return found


def check_split(model: Architecture, tp: int, ep: int = 1) -> None:
    """Raise unless a model can be cut over ``tp`` GPUs by its heads and over ``ep`` by its experts.

    Raises
    ------
    ParameterError
        ``tp`` does not divide the query heads, neither divides the heads with keys nor is a multiple of them, or ``ep``
        does not divide the experts; the message says what would.
    """
    if not _cuts_heads(model, tp):
        fits = [n for n in range(1, min(model.heads, 64) + 1) if _cuts_heads(model, n)]
        heads = f"{model.heads} heads" + (f", {model.kv_heads} with keys," if model.kv_heads != model.heads else "")
        raise ParameterError("tp", f"must divide the {heads} of {model.name}, got {tp}: {', '.join(map(str, fits))} do")
    if ep > 1 and not model.experts:
        raise ParameterError("ep", f"must be 1, got {ep}: {model.name} has no experts")
    if ep > 1 and model.experts % ep:
        raise ParameterError("ep", f"must divide the {model.experts} experts of {model.name}, got {ep}")


def _cuts_heads(model: Architecture, tp: int) -> bool:
    return model.heads % tp == 0 and (model.kv_heads % tp == 0 or tp % model.kv_heads == 0)


def layer(model: Architecture, tp: int = 1, ep: int = 1) -> Layer:
    """Return what one of ``tp`` GPUs does for an average layer; experts are cut over ``ep`` groups of them.

    Examples
    --------
    >>> for one in layer(find("llama-3.1-70b"), tp=8).matrices:
    ...     print(one.name, one.outputs, one.inputs)
    qkv 1280 8192
    out 8192 1024
    up 7168 8192
    down 8192 3584
    """
    plain = model.plain_layers / model.layers
    shared = model.shared_experts * model.expert_ffn
    one, heads = model.latent, model.heads // tp
    if one is None:
        projected = round((model.heads / tp + 2 * max(model.kv_heads / tp, 1.0)) * model.head_dim)
        inner = model.heads * model.head_dim // tp
        matrices = [Matrix("qkv", projected, model.hidden), Matrix("out", model.hidden, inner)]
    else:
        matrices = [
            Matrix("compress", one.query_rank + one.cache_rank + one.rotary, model.hidden),
            Matrix("query", heads * (one.plain + one.rotary), one.query_rank or model.hidden),
            Matrix("keys and values", heads * (one.plain + one.value), one.cache_rank),
            Matrix("out", model.hidden, heads * one.value),
        ]
    if model.plain_layers:
        matrices += _feed_forward(model, model.ffn, tp, plain)
    if shared:
        matrices += _feed_forward(model, shared, tp, 1.0 - plain, "shared ")
    if not model.experts:
        return Layer(tuple(matrices), None)
    matrices.append(Matrix("router", model.experts, model.hidden, 1.0 - plain))
    cut = 1 if ep > 1 else tp
    each = tuple(_feed_forward(model, model.expert_ffn, cut, 1.0, "expert "))
    senders = ep / tp if ep > 1 else 1.0
    held = model.experts // ep
    return Layer(tuple(matrices), Experts(each, held, model.experts, model.experts_per_token, 1.0 - plain, senders))


def cached_per_token(model: Architecture, tp: int) -> float:
    """Return the elements that one token leaves in the cache of one layer on one of ``tp`` GPUs.

    Heads are cut as long as there are any; a GPU beyond them, and every GPU with latent attention, holds a copy.
    """
    if model.latent is not None:
        return float(model.cached_per_token)
    return model.cached_per_token * max(1.0 / tp, 1.0 / model.kv_heads)


def attention_flop(model: Architecture, query: ArrayLike, context: ArrayLike, tp: int) -> FloatArray:
    """Return the operations of scores and weighted sums of one sequence in one layer, on one of ``tp`` GPUs.

    ``query`` new tokens attend to a ``context`` that ends with them; a causal kernel skips what lies ahead.
    """
    q, context = np.asarray(query, dtype=np.float64), np.asarray(context, dtype=np.float64)
    pairs = q * (context - q / 2) if model.causal else q * context
    widths = 2 * model.head_dim if model.latent is None else model.head_dim + model.latent.value
    return 2.0 * pairs * widths * model.heads / tp


def _feed_forward(model: Architecture, inner: int, tp: int, share: float, kind: str = "") -> list[Matrix]:
    width = -(-inner // tp)
    into = (model.ffn_matrices - 1) * width
    return [Matrix(f"{kind}up", into, model.hidden, share), Matrix(f"{kind}down", model.hidden, width, share)]

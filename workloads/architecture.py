"""Architectures: a model as the numbers that decide its matrices, by name or from its configuration file.

A name of models.csv, a Hugging Face ``config.json`` or its contents enter `find`; an `Architecture` leaves.
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

from ..errors import DataError, nearest

_LARGEST: Final = 1e7
"""No dimension of a model is larger: what is, was mistyped."""


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
        return _read(path / "config.json" if path.is_dir() else path)
    if path.is_file():
        raise DataError(
            "is no config.json, list of operators (CSV), graph of layers (JSON), execution trace or ONNX model",
            source=str(path),
        )
    if path.suffix in (".onnx", ".et", ".gz", ".csv") or path.is_absolute():
        raise DataError("no such file or folder", source=str(path))
    return _named(str(model))


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
    return Architecture(
        name=given.title,
        hidden=hidden,
        layers=layers,
        vocab=number("vocab_size", "padded_vocab_size"),
        heads=heads,
        kv_heads=_key_heads(given, heads),
        head_dim=number("head_dim", "kv_channels", default=hidden // max(heads, 1)),
        gated=_gated(given),
        causal=kind not in _ENCODERS and not any(str(one).endswith("ForMaskedLM") for one in given.architectures),
        latent=_latent(given),
        tied=bool(given.fields.get("tie_word_embeddings", bool(kind) and kind not in _UNTIED)),
        **_feed_forward(given, ffn, layers),
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


def _gated(config: _Config) -> bool:
    activation = str(next((config.fields[key] for key in _ACTIVATIONS if config.fields.get(key)), "silu")).lower()
    if config.kind in _UNGATED:
        return False
    return config.kind in _GATED or "glu" in activation or activation in ("silu", "swish")


def _latent(config: _Config) -> Latent | None:
    if not config.fields.get("kv_lora_rank"):
        return None
    return Latent(
        query_rank=config.number("q_lora_rank", default=0),
        cache_rank=config.number("kv_lora_rank"),
        plain=config.number("qk_nope_head_dim"),
        rotary=config.number("qk_rope_head_dim"),
        value=config.number("v_head_dim"),
    )


def _feed_forward(config: _Config, ffn: int, layers: int) -> dict[str, int]:
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
    whole = isinstance(value, int | float) and not isinstance(value, bool) and float(value).is_integer()
    if not whole or not least <= float(value) <= _LARGEST:  # type: ignore[arg-type]
        raise DataError(f"{name}: {field} must be a whole number from {least} to {_LARGEST:.0e}, got {value!r}")
    return int(value)  # type: ignore[call-overload]


def _read(path: Path) -> Architecture:
    try:
        config = json.loads(path.read_text(encoding="utf-8"))
    except (OSError, ValueError, RecursionError) as error:
        raise DataError(f"cannot be read as a model's configuration: {error}", source=str(path)) from None
    if not isinstance(config, dict):
        wanted = 'a model\'s configuration or a graph of layers, {"layers": [...]}'
        raise DataError(f"must hold a JSON object ({wanted}), holds a {type(config).__name__}", source=str(path))
    title = path.resolve().parent.name if path.stem == "config" else path.stem
    return from_config(config, name=str(config.get("_name_or_path") or title))


def _plain(name: str) -> str:
    return "".join(letter for letter in name.lower() if letter.isalnum())


def _named(name: str) -> Architecture:
    known = {_plain(key): one for key, one in _known().items()}
    plain = _plain(name.rsplit("/", 1)[-1])
    fits = [key for key in known if plain.startswith(key)]
    if not fits:
        raise DataError(f"unknown model {name!r}: {nearest(name, _known())} (or the path of a config.json)")
    return known[max(fits, key=len)]


@cache
def _known() -> dict[str, Architecture]:
    text = resources.files(__package__).joinpath("models.csv").read_text(encoding="utf-8")
    lines = [line for line in text.splitlines() if not line.startswith("#")]
    return {row["name"]: _listed(row) for row in csv.DictReader(lines)}


def _listed(row: dict[str, str]) -> Architecture:
    latent = row.pop("latent")
    widths = ("query_rank", "cache_rank", "plain", "rotary", "value")
    figures: dict[str, Any] = {key: int(value) for key, value in row.items() if key != "name" and value}
    figures |= {key: bool(figures[key]) for key in ("gated", "causal")}
    if latent:
        figures["latent"] = Latent(**dict(zip(widths, map(int, latent.split()), strict=True)))
    return Architecture(name=row["name"], **figures)

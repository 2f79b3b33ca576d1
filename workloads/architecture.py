"""Architectures: a model as the numbers that decide its matrices, by name or from its configuration file.

A name of models.csv, a Hugging Face ``config.json`` or its contents enter `find`; an `Architecture` leaves.
"""

from __future__ import annotations

import csv
import json
from collections.abc import Mapping
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

    ``query_rank`` and ``cache_rank`` are those of the compressed query and of the compressed keys and values; each head
    has ``plain`` and ``rotary`` dimensions for its keys, and ``value`` for its values.
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
        width, and the leading layers that have none. 0 for a dense model.
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
        query = one.query_rank * (self.hidden + self.heads * (one.plain + one.rotary))
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


def from_config(config: Mapping[str, Any], name: str = "") -> Architecture:
    """Return the architecture that a Hugging Face configuration describes.

    Raises
    ------
    DataError
        A figure is missing or cannot be.
    """
    inner = config.get("text_config")
    fields = {**config, **inner} if isinstance(inner, Mapping) else dict(config)
    title = name or str(fields.get("_name_or_path") or fields.get("model_type") or "the model")

    def number(*keys: str, default: int | None = None) -> int:
        for key in keys:
            if fields.get(key) is not None:
                return _check(title, key, fields[key], least=0)
        if default is None:
            raise DataError(f"{title}: the configuration has no {keys[0]}")
        return default

    hidden, heads = number("hidden_size", "n_embd", "d_model"), number("num_attention_heads", "n_head")
    experts = number("num_local_experts", "num_experts", "n_routed_experts", default=0)
    ffn = number("intermediate_size", "n_inner", "ffn_dim", default=4 * hidden)
    activation = str(fields.get("hidden_act") or fields.get("activation_function") or "silu")
    latent = None
    if fields.get("kv_lora_rank"):
        latent = Latent(
            query_rank=number("q_lora_rank", default=hidden),
            cache_rank=number("kv_lora_rank"),
            plain=number("qk_nope_head_dim"),
            rotary=number("qk_rope_head_dim"),
            value=number("v_head_dim"),
        )
    return Architecture(
        name=title,
        hidden=hidden,
        layers=number("num_hidden_layers", "n_layer"),
        vocab=number("vocab_size"),
        heads=heads,
        kv_heads=number("num_key_value_heads", default=heads),
        head_dim=number("head_dim", default=hidden // max(heads, 1)),
        ffn=ffn,
        gated=not activation.startswith("gelu") or "glu" in activation,
        experts=experts,
        experts_per_token=number("num_experts_per_tok", "moe_topk", default=0) if experts else 0,
        shared_experts=number("n_shared_experts", default=0) if experts else 0,
        expert_ffn=number("moe_intermediate_size", default=ffn) if experts else 0,
        dense_layers=number("first_k_dense_replace", default=0) if experts else 0,
        causal=str(fields.get("model_type", "")) not in ("bert", "roberta", "xlm-roberta", "electra"),
        latent=latent,
        tied=bool(fields.get("tie_word_embeddings", False)),
    )


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
        raise DataError("holds no configuration of a model: an object was expected", source=str(path))
    return from_config(config, name=str(config.get("_name_or_path") or path.parent.name or path.stem))


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

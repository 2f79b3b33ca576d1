"""What a Hugging Face ``config.json`` says of a model: its layers, and the number formats of its weights.

What a configuration leaves out follows from its ``model_type``, as in the classes of transformers: whether the
feed-forward part is gated, whether the embedding is the output matrix too, how many heads have keys, which layers
have experts or see a window. Of a model of several parts (``text_config``) it is the language model. Layers are read
from ``layer_types``, ``block_configs``, ``hybrid_override_pattern`` and the like; the formats of weights from
``quantization_config`` or the contents of ``hf_quant_config.json`` (FP8, MXFP4, compressed-tensors, ModelOpt, Quark,
AWQ, GPTQ, bitsandbytes). A value that is not understood, and what is known not to be forecast, is refused by its key.
Of a type that is not known (`_KNOWN`) a remark says so, and which keys were not looked at.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, Final

from ..errors import DataError, few
from ..remarks import Remark, remark
from .architecture import PARTS, Architecture, Attention, Dense, Latent, Mixture, Recurrent, check

_UNGATED: Final = {
    "bert", "bloom", "camembert", "codegen", "electra", "esm", "falcon", "gpt2", "gpt_bigcode", "gpt_neo", "gpt_neox",
    "gptj", "mpnet", "mpt", "nemotron", "nemotron_h", "opt", "persimmon", "phi", "refinedweb", "refinedwebmodel",
    "roberta", "starcoder2", "xglm", "xlm-roberta",
}  # fmt: skip
"""Types whose feed-forward part has two matrices, whatever the activation; ``model_type`` in small letters."""
_GATED: Final = (
    "gemma", "gemma2", "gemma3", "gemma3_text", "gemma4", "gemma4_text", "modernbert", "recurrent_gemma",
)  # fmt: skip
"""Types that have three with an activation that elsewhere means two."""
_ENCODERS: Final = {
    "bert", "camembert", "deberta", "deberta-v2", "electra", "ernie", "esm", "luke", "modernbert", "mpnet",
    "nomic_bert", "roberta", "xlm-roberta",
}  # fmt: skip
_TIED: Final = (
    "bert", "bloom", "bart", "cohere", "falcon", "gemma", "gpt2", "gpt_bigcode", "gpt_neo", "mpt", "opt", "roberta",
    "starcoder2", "xglm", "xlm", "camembert", "deberta", "electra", "modernbert", "mpnet", "nomic", "recurrent_gemma",
    "refinedweb", "chatglm", "dbrx", "ernie", "esm", "luke", "smollm", "lfm2", "t5", "ctrl", "xmod", "exaone",
)  # fmt: skip
"""How types begin whose output matrix is the embedding where the configuration does not say."""
_KNOWN: Final = {
    *_UNGATED, *_GATED, *_ENCODERS, "apertus", "arcee", "baichuan", "chatglm", "cohere", "cohere2", "dbrx", "deepseek",
    "deepseek_v2", "deepseek_v3", "deepseek_v32", "dots1", "ernie4_5", "ernie4_5_moe", "exaone", "exaone4", "glm",
    "glm4", "glm4_moe", "glm_moe_dsa", "gpt_oss", "granite", "granitemoe", "granitemoeshared", "helium",
    "hunyuan_v1_dense", "hunyuan_v1_moe", "internlm", "internlm2", "internlm3", "kimi_k2", "kimi_k25", "llama",
    "llama4", "mimo", "mimo_v2_flash", "minicpm", "minicpm3", "minimax_m2", "minimax_m3", "minimax_m3_vl", "ministral",
    "ministral3", "mistral", "mistral3", "mixtral", "nemotron-nas", "olmo", "olmo2", "olmo3", "olmoe", "phi3", "phimoe",
    "qwen", "qwen2", "qwen2_5_vl", "qwen2_moe", "qwen2_vl", "qwen3", "qwen3_5", "qwen3_5_moe", "qwen3_moe",
    "qwen3_next", "qwen3_vl", "qwen3_vl_moe", "seed_oss", "smollm3", "stablelm", "step3p7", "xmod",
}  # fmt: skip
"""Types whose layers are what their keys say; that of a language model alone, ``_text``, is as its whole."""
_HARMLESS: Final = re.compile(
    r"token|dropout|pdrop|drop_rate|init|rope|rotary|norm|epsilon|_eps$|bias|dtype|version|cache|^_|auto_map"
    r"|position|partial_|scal|softcap|logit|loss|aux|router|problem_type|label|vision|audio|image|video|mtp|nextn"
    r"|penalty|num_beam|^architectures$|^(text|llm|language|speech|quantization|compression|generation|attn|ffn)_config$"
    r"|^(pretraining_tp|use_sliding_window|sliding_window|max_window_layers|max_sequence_length|hidden_act|mlp_type)$"
    r"|^(n_group|topk_group|topk_method|scoring_func|ep_size|ignore_index|temperature|top_k|top_p|typical_p|do_sample)$"
    r"|^((min|max)_length|num_return_sequences|early_stopping|output_(attentions|hidden_states)|return_dict)$"
    r"|^(chunk_size_feed_forward|is_decoder|pruned_heads)$"
)
"""Keys that change neither how many weights a layer has, nor what it reads."""
_ACTIVATIONS: Final = ("hidden_act", "hidden_activation", "activation_function", "activation", "mlp_hidden_act")
_REFUSED: Final = {
    "mamba_d_state": "a state space of another kind than Mamba-2",
    "ssm_cfg": "a state space of another kind than Mamba-2",
    "compress_ratios": "attention to compressed keys",
    "attn_res_block_size": "attention over earlier layers",
    "altup_num_inputs": "several residual streams",
    "hc_mult": "several residual streams",
    "hidden_size_per_layer_input": "an embedding for every layer",
    "num_kv_shared_layers": "layers that share keys and values",
    "use_double_wide_mlp": "feed-forward parts of two widths",
    "cross_attention_layers": "layers of cross attention",
    "lru_width": "recurrent layers of another kind",
}
"""Keys of what is not counted, where they hold anything but 0 or false."""


def from_config(config: Mapping[str, Any], name: str = "") -> Architecture:
    """Return the architecture that a Hugging Face configuration describes.

    Raises DataError: a figure is missing or cannot be, or the model has what is not forecast or not understood: the key
    is named.

    >>> small = {"model_type": "llama", "hidden_size": 2048, "num_hidden_layers": 16, "num_attention_heads": 32,
    ...          "num_key_value_heads": 8, "intermediate_size": 8192, "vocab_size": 128256, "tie_word_embeddings": True}
    >>> round(from_config(small, "llama-3.2-1b").parameters / 1e9, 2)
    1.24
    """
    given = _Config.of(config, name)
    kind, stated = given.kind, given.fields
    activation = str(next((stated[key] for key in _ACTIVATIONS if stated.get(key)), "silu")).lower()
    gated = kind.startswith(_GATED) or "glu" in activation or activation in ("silu", "swish")
    causal = kind not in _ENCODERS and not any(str(one).endswith("ForMaskedLM") for one in given.architectures)
    blocks = _Blocks.of(given)
    formats, cache = formats_of(given.quantization, given.title, blocks.layers)
    if stated.get("expert_dtype"):
        formats["experts"] = str(stated["expert_dtype"]).lower()
    found = Architecture(
        name=given.title,
        hidden=given.number(*_HIDDEN),
        layers=blocks.layers,
        vocab=given.number("vocab_size", "padded_vocab_size"),
        context=_context(stated),
        attention=blocks.attention,
        recurrent=blocks.recurrent,
        dense=blocks.dense,
        mixture=blocks.mixture,
        gated=gated and kind not in _UNGATED,
        causal=causal,
        tied=bool(stated.get("tie_word_embeddings", kind.startswith(_TIED))),
        formats=formats,
        kv_format=cache,
    )
    return replace(found, remarks=tuple(_remarks(given)))


def _remarks(config: _Config) -> Iterator[Remark]:
    """Yield that the type is not known, with the keys that say something and that nobody looked at."""
    kind = config.kind
    if kind.removesuffix("_text") in _KNOWN:
        return
    told = f"its model_type {kind[:40]!r} is not known" if kind else "it states no model_type"
    stated = [str(key)[:40] for key, value in config.fields.items() if value and key not in config.fields.asked]
    keys = tuple(key for key in stated if not _HARMLESS.search(key))
    unread = f", without looking at {few(keys)}" if keys else ""
    text = f"{told}: read as a transformer like Llama{unread}"
    yield remark("unknown-model-type", text, model_type=kind, keys=keys)


def _context(stated: Mapping[str, Any]) -> int:
    """Return the tokens that a sequence may have, with what YaRN and the like make of them; 0 where none is stated."""
    scaling = stated.get("rope_scaling")
    scaling = scaling if isinstance(scaling, Mapping) else {}
    factor, before = scaling.get("factor"), scaling.get("original_max_position_embeddings")
    longer = factor * before if isinstance(factor, int | float) and isinstance(before, int | float) else 0
    found = [one for one in (stated.get("max_position_embeddings"), longer) if isinstance(one, int | float)]
    return int(max(found)) if all(0 <= one < 1e12 for one in found) else 0


class _Fields(dict[str, Any]):
    """Keys and values, and which keys somebody asked for."""

    def __init__(self, fields: Mapping[str, Any]) -> None:
        super().__init__(fields)
        self.asked = set[str]()

    def get(self, key: str, default: Any = None) -> Any:
        self.asked.add(key)
        return super().get(key, default)


@dataclass(frozen=True)
class _Config:
    """A configuration, with those of its parts that describe the language model."""

    fields: _Fields
    title: str
    quantization: Mapping[str, Any]

    @classmethod
    def of(cls, config: Mapping[str, Any], name: str) -> _Config:
        fields = dict(config)
        for part in ("text_config", "llm_config", "language_config", "attn_config", "ffn_config"):
            if isinstance(inner := fields.get(part), Mapping):
                fields |= inner
        title = name or str(fields.get("_name_or_path") or fields.get("model_type") or "the model")
        for key, what in _REFUSED.items():
            if fields.get(key) not in (None, False, 0):
                raise DataError(f"{title}: {key} = {str(fields[key])[:40]}: {what}, which is not forecast")
        if fields.get("is_encoder_decoder"):
            raise DataError(f"{title}: is an encoder with a decoder, which is not forecast; either of them alone is")
        quantization: Mapping[str, Any] = {}
        for key in ("quantization_config", "compression_config", "quantization"):
            if isinstance(found := fields.get(key), Mapping):
                quantization = found
                break
        return cls(_Fields(fields), title, quantization)

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
                self.fields.asked.update(keys)  # others say the same in other words
                return check(self.title, key, self.fields[key], least=0)
        if default is None:
            raise DataError(f"{self.title}: the configuration has no {keys[0]}")
        return default

    def listed(self, key: str, layers: int) -> list[Any] | None:
        """Return a list with a value per layer, or None; longer ones end with layers of speculative decoding."""
        found = self.fields.get(key)
        if isinstance(found, str) and found:
            found = list(found)
        if not isinstance(found, list) or not found:
            return None
        if len(found) < layers:
            raise DataError(f"{self.title}: {key} holds {len(found)} values for {layers} layers")
        return found[:layers]

    def refuse(self, key: str, value: object) -> DataError:
        return DataError(f"{self.title}: {key} = {str(value)[:60]!r} is not understood")


@dataclass(frozen=True)
class _Blocks:
    """What the layers are made of."""

    layers: int
    attention: tuple[Attention, ...]
    recurrent: tuple[Recurrent, ...]
    dense: tuple[Dense, ...]
    mixture: Mixture | None

    @classmethod
    def of(cls, config: _Config) -> _Blocks:
        stated = config.fields
        pattern = stated.get("hybrid_override_pattern") or stated.get("layers_block_type")
        if config.kind == "nemotron_h" or pattern:
            return _one_block_a_layer(config, pattern)
        if isinstance(stated.get("block_configs"), list):
            return _searched_blocks(config, stated["block_configs"])
        layers = config.number("num_hidden_layers", "n_layer", "n_layers", "num_layers")
        dense, mixture = _feed_forward_of(config, layers)
        attention, recurrent = _mixers_of(config, layers)
        return cls(layers, attention, recurrent, dense, mixture)


def _one_block_a_layer(config: _Config, pattern: object) -> _Blocks:
    """Nemotron-H: each layer is a mixer or a feed-forward part alone, by letter or by word."""
    words = {"M": "mamba", "*": "attention", "-": "mlp", "E": "moe"}
    if not isinstance(pattern, str | list) or not pattern:
        raise config.refuse("hybrid_override_pattern", pattern)
    kinds = Counter(words.get(str(one), str(one)) for one in pattern)
    if unknown := set(kinds) - set(words.values()):
        raise config.refuse("hybrid_override_pattern", min(unknown))
    number, recurrent = config.number, list[Recurrent]()
    if count := kinds["mamba"]:
        heads, wide, state = number("mamba_num_heads"), number("mamba_head_dim"), number("ssm_state_size")
        inner = heads * wide
        into = 2 * inner + 2 * number("n_groups") * state + heads
        recurrent.append(Recurrent(layers=count, into=into, inner=inner, state=inner * state))
    attention = (_attention(config, kinds["attention"]),) if kinds["attention"] else ()
    dense = (Dense(layers=kinds["mlp"], width=number("intermediate_size")),) if kinds["mlp"] else ()
    mixture = _mixture(config, kinds["moe"], number("intermediate_size")) if kinds["moe"] else None
    return _Blocks(len(pattern), attention, tuple(recurrent), dense, mixture)


def _searched_blocks(config: _Config, blocks: Sequence[Any]) -> _Blocks:
    """Puzzle (arXiv:2411.19146): each layer has its own groups of heads and feed-forward width, or has none of them."""
    hidden, heads = config.number("hidden_size"), config.number("num_attention_heads")
    grouped: Counter[tuple[int, int]] = Counter()
    widths: Counter[int] = Counter()
    for block in blocks:
        attention, ffn = (block.get(key) if isinstance(block, Mapping) else None for key in ("attention", "ffn"))
        if not isinstance(attention, Mapping) or not isinstance(ffn, Mapping):
            raise config.refuse("block_configs", block)
        for part in (attention, ffn):
            if odd := [key for key in ("replace_with_linear", "sparsify", "num_sink_tokens") if part.get(key)]:
                raise config.refuse(f"block_configs: {odd[0]}", part[odd[0]])
        if not attention.get("no_op"):
            group = check(config.title, "n_heads_in_group", attention.get("n_heads_in_group") or 1, least=1)
            window = check(config.title, "window_length", attention.get("window_length") or 0, least=0)
            grouped[max(heads // group, 1), window] += 1
        if not ffn.get("no_op"):
            times, width = ffn.get("ffn_mult"), ffn.get("intermediate_size")
            if not width:  # as its class does: two thirds of four times the width, times the factor, in steps of 256
                if not isinstance(times, int | float) or not 0 < times < 1000:
                    raise config.refuse("block_configs: ffn_mult", times)
                width = -(-int(2 * times * hidden / 3) // 256) * 256
            widths[check(config.title, "intermediate_size", width, least=1)] += 1
    attention = tuple(
        Attention(layers=count, heads=heads, kv_heads=kv, head_dim=hidden // heads, window=window)
        for (kv, window), count in grouped.items()
    )
    dense = tuple(Dense(layers=count, width=width) for width, count in widths.items())
    return _Blocks(len(blocks), attention, (), dense, None)


def _mixers_of(config: _Config, layers: int) -> tuple[tuple[Attention, ...], tuple[Recurrent, ...]]:
    number = config.number
    kinds = Counter(_mixer_kinds(config, layers))
    full = kinds.pop("full_attention", 0) + kinds.pop("deepseek_sparse_attention", 0)
    linear = kinds.pop("linear_attention", 0)
    near = kinds.pop("sliding_attention", 0) + kinds.pop("chunked_attention", 0)
    if kinds:
        raise config.refuse("layer_types", next(iter(kinds)))
    attention, recurrent = list[Attention](), list[Recurrent]()
    window = number("sliding_window", "attention_chunk_size", "sliding_window_size", default=0) if near else 0
    if near and not window:
        raise DataError(f"{config.title}: the configuration has no sliding_window for its {near} layers of it")
    if full:
        one = _attention(config, full)
        types = config.listed("indexer_types", layers) if one.index_heads else None
        if types and (own := types.count("full")) < full:  # the others look where the last of these did
            attention.append(replace(one, layers=own))
            one = replace(one, layers=full - own, index_heads=0, index_dim=0)
        attention.append(one)
    if near:
        attention.append(_attention(config, near, window))
    if linear:
        keys = number("linear_num_key_heads") * number("linear_key_head_dim")
        heads, wide = number("linear_num_value_heads"), number("linear_value_head_dim")
        inner = heads * wide  # queries, keys, values, the gate of the result, and two figures per head
        state = heads * wide * number("linear_key_head_dim")
        recurrent.append(Recurrent(layers=linear, into=2 * keys + 2 * inner + 2 * heads, inner=inner, state=state))
    return tuple(attention), tuple(recurrent)


def _mixer_kinds(config: _Config, layers: int) -> Iterator[str]:
    """Yield how each layer mixes tokens, in the words of ``layer_types``."""
    stated, kind = config.fields, config.kind
    if listed := config.listed("layer_types", layers):
        yield from map(str, listed)
        return
    if "linear_num_value_heads" in stated:
        every = config.number("full_attention_interval", default=4)
        yield from ("linear_attention" if (place + 1) % every else "full_attention" for place in range(layers))
        return
    if (listed := config.listed("attn_type_list", layers)) and set(listed) != {1}:
        raise config.refuse("attn_type_list", sorted(set(listed)))
    if listed := config.listed("hybrid_layer_pattern", layers):
        yield from ("sliding_attention" if one else "full_attention" for one in listed)
        return
    windows = stated.get("sliding_window") and stated.get("use_sliding_window", True)
    every = 0
    if windows:
        default = {"gemma2": 2, "gemma3": 6, "gemma3_text": 6, "cohere2": 4, "gpt_oss": 2}.get(kind, 0)
        every = config.number("sliding_window_pattern", "_sliding_window_pattern", default=default)
    elif stated.get("attention_chunk_size"):
        every = 4
    if every:
        yield from ("full_attention" if (place + 1) % every == 0 else "sliding_attention" for place in range(layers))
    elif windows:
        above = config.number("max_window_layers", default=0) if kind.startswith("qwen") else 0
        yield from ("sliding_attention" if place >= above else "full_attention" for place in range(layers))
    else:
        yield from ["full_attention"] * layers


def _attention(config: _Config, layers: int, window: int = 0) -> Attention:
    """Return the attention of so many layers; those of a window may have heads of their own."""
    stated, number = config.fields, config.number
    heads = number("num_attention_heads", "n_head", "n_heads")
    if stated.get("kv_lora_rank"):
        latent = Latent(
            query_rank=number("q_lora_rank", default=0),
            cache_rank=number("kv_lora_rank"),
            plain=number("qk_nope_head_dim"),
            rotary=number("qk_rope_head_dim"),
            value=number("v_head_dim"),
        )
        picked = number("index_topk", default=0)
        return Attention(
            layers=layers,
            heads=heads,
            kv_heads=heads,
            head_dim=latent.plain + latent.rotary,
            picked=picked,
            index_heads=number("index_n_heads") if picked else 0,
            index_dim=number("index_head_dim") if picked else 0,
            latent=latent,
        )
    sparse = stated.get("sparse_attention_config")
    picked = index_heads = index_dim = 0
    if isinstance(sparse, Mapping) and sparse.get("use_sparse_attention"):
        keys = ("sparse_topk_blocks", "sparse_block_size", "sparse_num_index_heads", "sparse_index_dim")
        blocks, size, index_heads, index_dim = (check(config.title, key, sparse.get(key), least=1) for key in keys)
        picked = blocks * size
    own = "swa_" if window else ""
    heads = number(f"{own}num_attention_heads", default=heads)
    head_dim = number("head_dim", "attention_head_dim", "kv_channels", default=number(*_HIDDEN) // max(heads, 1))
    kv_heads = _key_heads(config, heads)
    if window:
        kv_heads = number("swa_num_key_value_heads", default=kv_heads)
        head_dim = number("swa_head_dim", default=head_dim)
    else:
        head_dim = number("global_head_dim", default=head_dim)
        kv_heads = number("num_global_key_value_heads", default=kv_heads)
    return Attention(
        layers=layers,
        heads=heads,
        kv_heads=kv_heads,
        head_dim=head_dim,
        value_dim=number(f"{own}v_head_dim", "v_head_dim", default=0),
        window=window,
        picked=picked,
        gated=bool(stated.get("attn_output_gate", config.kind == "qwen3_next")),
        one_projection=bool(stated.get("attention_k_eq_v")) and not window,
        index_heads=index_heads,
        index_dim=index_dim,
    )


def _key_heads(config: _Config, heads: int) -> int:
    stated, several = config.fields, ("num_kv_heads", "n_head_kv", "kv_n_heads", "multi_query_group_num")
    if config.kind == "falcon" and not stated.get("new_decoder_architecture"):
        return 1 if stated.get("multi_query", True) else heads  # num_kv_heads is written, and not looked at
    if stated.get("multi_query") and not any(stated.get(name) for name in several):
        return 1
    known = () if stated.get("multi_query_attention") is False else several
    return config.number("num_key_value_heads", *known, "num_attention_groups", default=heads)


def _feed_forward_of(config: _Config, layers: int) -> tuple[tuple[Dense, ...], Mixture | None]:
    """Return the dense feed-forward parts, and what there is of experts."""
    number, stated = config.number, config.fields
    hidden = number(*_HIDDEN)
    experts = number(*_EXPERTS, default=0)
    width = number("intermediate_size", "n_inner", "ffn_dim", "ffn_hidden_size", default=4 * hidden)
    if not experts:
        return (Dense(layers=layers, width=width),), None
    with_experts = [bool(one) for one in _experts_by_layer(config, layers)]
    count = sum(with_experts)
    mixture = _mixture(config, count, width)
    if stated.get("enable_moe_block"):  # Gemma 4: a dense part beside the mixture, in every layer
        return (Dense(layers=layers, width=width),), mixture
    width = number("intermediate_size_mlp", "dense_intermediate_size", default=width)
    return (Dense(layers=layers - count, width=width),) if layers > count else (), mixture


_HIDDEN: Final = ("hidden_size", "n_embd", "n_embed", "d_model")
_EXPERTS: Final = ("num_local_experts", "num_experts", "n_routed_experts", "moe_num_experts")


def _experts_by_layer(config: _Config, layers: int) -> Iterator[object]:
    """Yield for each layer whether it has experts."""
    number, stated = config.number, config.fields
    if listed := config.listed("mlp_layer_types", layers):
        if unknown := set(map(str, listed)) - {"dense", "sparse"}:
            raise config.refuse("mlp_layer_types", min(unknown))
        yield from (one == "sparse" for one in listed)
        return
    if listed := config.listed("moe_layer_freq", layers):
        yield from listed
        return
    named = stated.get("moe_layers") or stated.get("moe_layers_enum")
    if isinstance(named, str):
        named = [int(one) for one in named.split(",") if one.strip().isdecimal()]
    if isinstance(named, list) and named:
        yield from (place in named for place in range(layers))
        return
    keys = ("interleave_moe_layer_step", "decoder_sparse_step", "moe_layer_freq", "moe_layer_interval")
    every = number(*keys, default=1) or 1
    first = number("first_k_dense_replace", "moe_layer_start_index", default=0)
    last = number("moe_layer_end_index", default=layers - 1)
    plain = stated.get("mlp_only_layers")
    plain = plain if isinstance(plain, list) else []
    yield from (first <= place <= last and (place + 1) % every == 0 and place not in plain for place in range(layers))


def _mixture(config: _Config, layers: int, width: int) -> Mixture:
    number, stated = config.number, config.fields
    keys = ("moe_intermediate_size", "expert_ffn_hidden_size")
    width = number(*keys, default=width)
    several = stated.get("moe_intermediate_size")
    if isinstance(several, list):
        raise config.refuse("moe_intermediate_size", several)
    whole = ("shared_expert_intermediate_size", "moe_shared_expert_intermediate_size", "share_expert_dim")
    shared = number(*whole, "shared_intermediate_size", default=0)
    if not shared:
        count = number("n_shared_experts", "num_shared_experts", "moe_num_shared_experts", default=0)
        shared = (1 if config.kind.startswith("llama4") else count) * width
    visited = (
        "num_experts_per_tok", "num_experts_per_token", "experts_per_token", "moe_topk", "moe_top_k", "moe_k",
        "top_k_experts",
    )  # fmt: skip
    return Mixture(
        layers=layers,
        experts=number(*_EXPERTS),
        visited=number(*visited, default=0),
        width=width,
        shared=shared,
        inputs=number("moe_latent_size", "routed_expert_hidden_size", default=0),
    )


# -- Number formats of the weights ------------------------------------------------------------------------------------

_METHODS: Final = {
    "fp8": "fp8", "fbgemm_fp8": "fp8", "mxfp4": "fp4", "mxfp8": "fp8", "awq": "int4/bf16", "gptq": "int4/bf16",
    "auto-round": "int4/bf16", "auto_round": "int4/bf16",
}  # fmt: skip
_ALGORITHMS: Final = {
    "FP8": "fp8", "FP8_PB_WO": "fp8", "FP8_PER_CHANNEL_PER_TOKEN": "fp8", "MXFP8": "fp8", "NVFP4": "fp4",
    "MXFP4": "fp4", "W4A16_NVFP4": "fp4/bf16", "W4A8_MXFP4_FP8": "fp4/fp8", "W4A16_AWQ": "int4/bf16",
    "W4A8_AWQ": "int4/fp8", "INT8_SQ": "int8", "W8A8_SQ": "int8",
}  # fmt: skip
"""Of ModelOpt: ``quant_algo``."""
LEFT_OUT: Final = 0.3
"""Share of the layers that must leave a part as it is for the part to count so: hybrids have it in few of them."""


def formats_of(stated: Mapping[str, Any], title: str, layers: int = 0) -> tuple[dict[str, str], str]:
    """Return the formats of a checkpoint's weights by `architecture.PARTS`, and that of its cache.

    ``stated`` is the ``quantization_config`` of a configuration, or the ``quantization`` of ``hf_quant_config.json``;
    empty where nothing is quantised. What is left out in few of the ``layers`` counts as if it were not. Raises
    DataError: the method is not understood; it names the model by ``title``.

    >>> formats_of({"quant_method": "mxfp4", "modules_to_not_convert": ["model.layers.*.self_attn"]}, "gpt-oss")
    ({'dense': 'fp4', 'shared': 'fp4', 'experts': 'fp4'}, '')
    """
    if not stated:
        return {}, ""
    keys = ("modules_to_not_convert", "ignore", "exclude_modules", "exclude")
    named = next((stated[key] for key in keys if isinstance(stated.get(key), list)), [])
    left_out = _by_part({str(one): "" for one in named}, LEFT_OUT * layers)
    found: dict[str, str] = {}
    if isinstance(each := stated.get("quantized_layers"), Mapping) and each:
        # what a mixture of formats does not name stays as the method says
        method = _METHODS.get(str(stated.get("quant_method")))
        found = dict.fromkeys(PARTS, method) if method else {}
        algorithms = {str(key): one.get("quant_algo") for key, one in each.items() if isinstance(one, Mapping)}
        found |= _by_part({key: _algorithm(one, title) for key, one in algorithms.items()})
    elif isinstance(groups := stated.get("config_groups"), Mapping):
        for group in groups.values():
            form, targets = _group(group, title), [str(one) for one in group.get("targets") or ["Linear"]]
            every = "Linear" in targets
            found |= dict.fromkeys(PARTS if every else _by_part(dict.fromkeys(targets, form)), form)
    else:
        found = dict.fromkeys(PARTS, _method(stated, title))
    return {part: form for part, form in found.items() if part not in left_out}, _cache_format(stated)


def _method(stated: Mapping[str, Any], title: str) -> str:
    """Return the format of a method that has one for all that it converts."""
    if stated.get("quant_algo"):
        return _algorithm(stated["quant_algo"], title)
    method = str(stated.get("quant_method") or "").lower()
    bits = stated.get("bits")
    if method in ("awq", "gptq", "auto-round", "auto_round"):
        if bits not in (4, 8, None):
            raise DataError(f"{title}: bits = {bits!r:.20} of {method} is not understood: give a dtype in its place")
        return f"int{bits or 4}/bf16"
    if method in _METHODS:
        return _METHODS[method]
    if method == "bitsandbytes":
        return "int4/bf16" if stated.get("load_in_4bit") else "int8/bf16"
    if method == "quark":
        each = stated.get("global_quant_config")
        words = [_quark(each.get(key)) for key in ("weight", "input_tensors")] if isinstance(each, Mapping) else [""]
        if words[0]:
            return words[0] if words[0] == words[1] else f"{words[0]}/{words[1] or 'bf16'}"
    key = "quant_method" if method else "quantization_config"
    raise DataError(f"{title}: {key} = {method or dict(stated)!r:.60} is not understood: give a dtype in its place")


def _quark(given: object) -> str:
    told = given[0] if isinstance(given, list) and given else given
    word = str(told.get("dtype") or "").lower() if isinstance(told, Mapping) else ""
    return next((one for one in ("fp8", "fp4", "fp6", "int8", "int4") if word.startswith(one)), "")


def _algorithm(name: object, title: str) -> str:
    if str(name) not in _ALGORITHMS:
        raise DataError(f"{title}: quant_algo = {name!r} is not understood: give a dtype in its place")
    return _ALGORITHMS[str(name)]


def _group(group: Mapping[str, Any], title: str) -> str:
    """Return the format of a group of compressed-tensors: of weights, and of activations where it is another."""
    words = []
    for key in ("weights", "input_activations"):
        told = group.get(key)
        if not isinstance(told, Mapping):
            words.append("bf16")
            continue
        word = f"{'fp' if told.get('type') == 'float' else 'int'}{told.get('num_bits')}"
        if word not in ("fp8", "fp4", "int8", "int4"):
            raise DataError(f"{title}: {key} in {word} are not understood: give a dtype in its place")
        words.append(word)
    return words[0] if words[0] == words[1] else "/".join(words)


def _cache_format(stated: Mapping[str, Any]) -> str:
    scheme = stated.get("kv_cache_scheme") or stated.get("kv_cache_quant_algo") or stated.get("kv_cache_quant_config")
    if not scheme:
        return ""
    bits = scheme.get("num_bits") if isinstance(scheme, Mapping) else None
    word = str(scheme).lower()
    return "fp8" if bits == 8 or "fp8" in word else "fp4" if bits == 4 or "fp4" in word else ""


_OF_LAYER: Final = re.compile(r"layers\.(\d+)\b\.?")


def _by_part(named: Mapping[str, str], least: float = 0.0) -> dict[str, str]:
    """Return the commonest value that patterns of modules give to each part, where they name it in enough layers."""
    found: dict[str, Counter[str]] = {}
    places: dict[str, set[str]] = {}
    for pattern, value in named.items():
        layer = _OF_LAYER.search(pattern)
        for part in _parts_of(_OF_LAYER.sub("", pattern)):
            found.setdefault(part, Counter())[value] += 1
            places.setdefault(part, set()).add(layer[1] if layer else "")
    enough = (part for part, own in places.items() if "" in own or len(own) >= least)
    return {part: found[part].most_common(1)[0][0] for part in enough}


def _parts_of(pattern: str) -> Sequence[str]:
    """Return the parts whose weights a pattern of modules names: by a name, wildcards or a regular expression."""
    word = pattern.lower().replace("\\", "")
    if "shared_expert" in word:
        return () if "expert_gate" in word else ("shared",)
    if "experts" in word:
        return ("experts",)
    if any(one in word for one in ("indexer", "norm", "conv1d", "kv_a", "kv_b", "k_proj", "v_proj", "in_proj_a")):
        return ()
    if any(one in word for one in ("attn", "attention", "mixer")):
        if any(one in word for one in ("o_proj", "out_proj", "wo_")):
            return ("output",)
        return ("attention",) if "proj" in word or "wq" in word else ("attention", "output")
    if "mlp" in word or "ffn" in word or "feed_forward" in word:
        rest = re.split("mlp|ffn|feed_forward", word)[-1].strip(".*$")
        return ("dense",) if not rest or "proj" in rest or rest[0] == "w" else ()
    return ()

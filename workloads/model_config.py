"""What a Hugging Face ``config.json`` says of a model: its layers, and the number formats of its weights.

What a configuration leaves out follows from its ``model_type``, as in transformers (`model_types`):
the class's defaults, whether the feed-forward part is gated, which layers have experts or see a
window. Of a model of several parts (``text_config``) it is the language model. Layers are read from
``layer_types``, ``per_layer_config``, ``linear_attn_config``, ``block_configs``,
``hybrid_override_pattern`` and the like; the formats of weights from ``quantization_config`` or the
contents of ``hf_quant_config.json`` (FP8, MXFP4, compressed-tensors, ModelOpt, Quark, AWQ, GPTQ,
bitsandbytes). A value that is not understood, a key that says something of the layers and that
nobody looked at, and what cannot be forecast, is refused by its key. Other keys that
nobody looked at, and a type that is unknown, are named in a remark.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, Final

from ..errors import DataError, few
from ..remarks import Remark, remark
from . import model_types
from .architecture import PARTS, Architecture, Attention, Dense, Latent, Mixture, Recurrent, check
from .model_types import ModelType

_UNGATED: Final = {"refinedweb", "refinedwebmodel"}
"""Types that transformers has no class for, and whose feed-forward part has two matrices."""
_ENCODERS: Final = {
    "bert",
    "camembert",
    "deberta",
    "deberta-v2",
    "electra",
    "ernie",
    "esm",
    "luke",
    "modernbert",
    "mpnet",
    "nomic_bert",
    "roberta",
    "xlm-roberta",
}
_TIED: Final = ("refinedweb", "chatglm", "nomic")
"""Types that transformers has no class for, and whose output matrix is the embedding where nothing says otherwise."""
_TIED_WITHIN: Final = {
    "aria",
    "idefics2",
    "idefics3",
    "llava",
    "llava_next",
    "llava_next_video",
    "llava_onevision",
    "perception_lm",
    "qwen2_audio",
    "smolvlm",
    "video_llava",
    "vipllava",
}
"""Types of several parts whose classes tie the matrices where either the whole or its language model says so."""
_KNOWN: Final = {
    "baichuan",
    "chatglm",
    "deepseek",
    "exaone",
    "internlm",
    "internlm2",
    "kimi_k2",
    "mimo",
    "minicpm",
    "minimax_m3",
    "minimax_text_01",
    "nemotron-nas",
    "nomic_bert",
    "qwen",
    "refinedweb",
    "refinedwebmodel",
    "step3p5",
    "step3p7",
}
"""Types whose layers are what their keys say, and that transformers has no class for under this name."""
_MISREAD: Final = {
    "albert": "layers that share their weights",
    "big_bird": "embeddings of positions as large as layers",
    "blip_text_model": "layers of cross attention",
    "blt": "a model of bytes in several stages",
    "cpmant": "embeddings of prompts",
    "doge": "a mixture of many small experts",
    "evolla": "layers of cross attention",
    "falcon_mamba": "a state space of another kind than Mamba-2",
    "fnet": "layers of Fourier transforms",
    "git": "an encoder of images within",
    "hrm_text": "layers that a token passes several times",
    "idefics": "layers of cross attention",
    "jetmoe": "attention of experts",
    "kosmos_2_5_text_model": "layers of cross attention",
    "kyutai_speech_to_text": "codebooks",
    "layoutlm": "embeddings of places",
    "longformer": "projections for global attention besides",
    "longcat_flash_ngram": "embeddings of n-grams besides those of tokens",
    "luke": "embeddings of entities",
    "mamba": "a state space of another kind than Mamba-2",
    "mamba2": "layers of a state space alone",
    "mobilebert": "bottlenecks in every layer",
    "moshi": "codebooks",
    "reformer": "layers that share their weights",
    "roc_bert": "embeddings of shapes",
    "rwkv": "recurrent layers of another kind",
    "squeezebert": "convolutions of groups",
    "tapas": "embeddings of tables",
    "trocr": "layers of cross attention",
    "ultrabert": "embeddings of positions as large as layers",
    "xlnet": "attention to relative positions",
    "xlstm": "recurrent layers of another kind",
    "yoso": "embeddings of positions as large as layers",
    "zamba2": "layers that share their weights",
}
"""Types whose layers are made of what no key tells."""
_HARMLESS: Final = re.compile(
    r"token|dropout|pdrop|drop_rate|init|rope|rotary|norm|epsilon|_eps$|bias|dtype|version|cache|^_|auto_map"
    r"|position|partial_|scal|softcap|logit|loss|aux|router|problem_type|label|vision|audio|image|video|mtp|nextn"
    r"|penalty|num_beam|multiplier|activation|^architectures$"
    r"|^(text|llm|language|speech|quantization|compression|generation|attn|ffn)_config$"
    r"|^(pretraining_tp|use_sliding_window|sliding_window|max_window_layers|max_sequence_length|hidden_act|mlp_type)$"
    r"|^(n_group|topk_group|topk_method|scoring_func|ep_size|ignore_index|temperature|top_k|top_p|typical_p|do_sample)$"
    r"|^((min|max)_length|num_return_sequences|early_stopping|output_(attentions|hidden_states)|return_dict)$"
    r"|^(chunk_size_feed_forward|is_decoder|pruned_heads|model_type|transformers_version|attention_method)$"
    r"|^(time_step_\w+|mamba_chunk_size|mamba_d_conv|mamba_expand|moe_renormalize|num_expert_group|use_grouped_topk|mla_use_nope)$"
    r"|^(attn_type|attn_impl|ffn_act_fn|number_of_conv_states|pooler_hidden_size|shared_expert_sink)$"
    r"|^(swiglu_(alpha|limits?|limits_shared)|output_gate_type|frame_size|embedding_fraction|alibi|languages)$"
    r"|^((eos|pad|bos|unk|mask)_index)$"
    r"|^(full_attn|linear_attn|mlp)_(alpha|beta)_factor$|^(block_size|projector_hidden_size|out_hidden_size)$"
    r"|^(attn_implementation|use_flash_attn|conv_kernel|linear_conv_kernel_dim|qk_head_dim|\w*hidden_act(ivation)?)$"
)
"""Keys that change neither how many weights a layer has, nor what it reads."""
_STRUCTURAL: Final = re.compile(
    r"attn|attention|mixer|mamba|ssm|expert|moe|linear_|conv|recurr|lora_|_lora|latent|head|_layers$|layer_types"
    r"|block_types|pattern|window|sparse|state_size|loops|cycles|intermediate|ffn|mlp|hidden|index_|layer(?!drop)"
    r"|engram|ngram|hyper_?conn|stream|width|depth"
)
"""Words of keys that say what layers are made of: a model with such a key that nobody looked at is refused."""
_ACTIVATIONS: Final = (
    "hidden_act",
    "hidden_activation",
    "activation_function",
    "activation",
    "mlp_hidden_act",
)
_REFUSED: Final = {
    "ssm_cfg": "a state space of another kind than Mamba-2",
    "compress_ratios": "attention to compressed keys",
    "attn_res_block_size": "attention over earlier layers",
    "altup_num_inputs": "several residual streams",
    "hc_mult": "several residual streams",
    "hidden_size_per_layer_input": "an embedding for every layer",
    "num_kv_shared_layers": "layers that share keys and values",
    "use_double_wide_mlp": "feed-forward parts of two widths",
    "cross_attention_layers": "layers of cross attention",
    "add_cross_attention": "layers of cross attention",
    "lru_width": "recurrent layers of another kind",
}
"""Keys of what is not counted, where they hold anything but 0 or false."""
_SIZES: Final = {
    "hidden_size",
    "num_hidden_layers",
    "num_attention_heads",
    "intermediate_size",
    "vocab_size",
    "n_embd",
    "n_layer",
    "n_head",
    "d_model",
    "n_layers",
    "n_heads",
    "num_layers",
    "ffn_dim",
}
"""Keys that only a part of a model may omit: of a whole model transformers writes them in any case."""


def from_config(config: Mapping[str, Any], name: str = "") -> Architecture:
    """Return the architecture that a Hugging Face configuration describes.

    Raises DataError: a figure is missing or cannot be, or the model has what is not forecast or not
    understood: the key is named.

    >>> small = {"model_type": "llama", "hidden_size": 2048, "num_hidden_layers": 16, "num_attention_heads": 32,
    ...          "num_key_value_heads": 8, "intermediate_size": 8192, "vocab_size": 128256, "tie_word_embeddings": True}
    >>> round(from_config(small, "llama-3.2-1b").parameters / 1e9, 2)
    1.24
    """
    given = _Config.of(config, name)
    kind = given.kind
    stated = given.fields
    causal = kind not in _ENCODERS and not any(
        str(one).endswith("ForMaskedLM") for one in given.architectures
    )
    if (given.type and given.type.masked) or stated.get("use_bidirectional_attention") is True:
        causal = False
    blocks = _Blocks.of(given)
    formats, cache = formats_of(given.quantization, given.title, blocks.layers)
    if stated.get("expert_dtype"):
        formats["experts"] = str(stated["expert_dtype"]).lower()
    architecture = Architecture(
        name=given.title,
        hidden=given.number(*_HIDDEN),
        layers=blocks.layers,
        vocab=given.number("vocab_size", "padded_vocab_size"),
        context=_context(stated),
        attention=blocks.attention,
        recurrent=blocks.recurrent,
        dense=blocks.dense,
        mixture=blocks.mixture,
        gated=_gated(given),
        causal=causal,
        tied=given.tied,
        formats=formats,
        kv_format=cache,
    )
    return replace(architecture, remarks=tuple(_remarks(given, causal)))


def _gated(config: _Config) -> bool:
    """Return whether feed-forward parts have three matrices: as the class has them, else by the activation."""
    if config.type and config.type.gated is not None:
        return config.type.gated
    activation = str(next(filter(None, map(config.fields.get, _ACTIVATIONS)), "silu")).lower()
    return config.kind not in _UNGATED and ("glu" in activation or activation in ("silu", "swish"))


def _remarks(config: _Config, causal: bool) -> Iterator[Remark]:
    """Yield the remarks on how a configuration was read.

    Raises DataError: a key that says something of the layers was not looked at.
    """
    unread = tuple(_unread(config))
    for key in unread:
        if _STRUCTURAL.search(key):
            raise config.refuse(key, config.fields[key])
    keys = tuple(key[:40] for key in unread)
    without = ""
    if keys:
        without = f", without looking at {few(keys)}"
    kind = config.kind
    if config.type is None and kind.removesuffix("_text") not in _KNOWN:
        if kind:
            reason = f"its model_type {kind[:40]!r} is unknown"
        else:
            reason = "it states no model_type"
        text = f"{reason}: read as a transformer like Llama{without}"
        yield remark("unknown-model-type", text, model_type=kind, keys=keys)
    elif keys:
        yield remark(
            "unread-keys", f"its configuration was read{without}", model_type=kind, keys=keys
        )
    if config.fields.defaults_taken:
        taken = ", ".join(
            f"{key} = {value}" for key, value in sorted(config.fields.defaults_taken.items())
        )
        text = f"its configuration omits {taken}, the default of {kind}"
        yield remark("class-default", text, keys=tuple(sorted(config.fields.defaults_taken)))
    if config.fields.get("zero_expert_num"):
        text = (
            "some of the experts that a token visits give it back as it is: the mean number of "
            "others is counted"
        )
        yield remark("identity-experts", text)
    if kind == "xmod":
        yield remark(
            "left-out",
            "it is counted without the adapters of languages in its layers",
            model_type=kind,
        )
    if not causal and not config.tied:
        text = (
            "it is counted as an encoder, without the output matrix that its tie_word_embeddings "
            "= false means"
        )
        yield remark("encoder-alone", text)
    if config.others:
        text = f"it is counted as a language model alone, without {few(config.others)}"
        yield remark("language-model-alone", text, keys=config.others)


def _unread(config: _Config) -> Iterator[str]:
    """Yield the unread keys whose value differs from the default of their class."""
    if config.type:
        usual = config.type.keys
    else:
        usual = {}
    if config.type:
        names = config.type.names
    else:
        names = {}
    asked = set(config.fields.asked)
    asked |= {theirs for name, theirs in names.items() if name in asked}
    asked |= {name for name, theirs in names.items() if theirs in asked}
    for key, value in config.fields.items():
        if not value or key in asked or _HARMLESS.search(str(key)):
            continue
        if key not in usual or usual[key] != value:
            yield str(key)


def _context(stated: Mapping[str, Any]) -> int:
    """Return the longest sequence in tokens, extended by YaRN and the like; 0 if not stated."""
    scaling = stated.get("rope_scaling")
    if not isinstance(scaling, Mapping):
        scaling = {}
    factor = scaling.get("factor")
    before = scaling.get("original_max_position_embeddings")
    if isinstance(factor, int | float) and isinstance(before, int | float):
        longer = factor * before
    else:
        longer = 0
    contexts = [
        one
        for one in (stated.get("max_position_embeddings"), longer)
        if isinstance(one, int | float)
    ]
    if all(0 <= one < 1e12 for one in contexts):
        return int(max(contexts))
    return 0


class _Fields(dict[str, Any]):
    """Keys and values, the defaults of their class, the keys read so far, and the sizes taken from defaults."""

    def __init__(self, fields: Mapping[str, Any], usual: Mapping[str, Any]) -> None:
        super().__init__(fields)
        self.usual = usual
        self.asked = set[str]()
        self.defaults_taken = dict[str, Any]()

    def get(self, key: str, default: Any = None) -> Any:
        """Return the stated value, else the default of the class, else another."""
        self.asked.add(key)
        if key in self:
            return self[key]
        usual = self.usual.get(key)
        if usual is None:
            return default
        return usual

    def changed(self, change: Mapping[str, Any]) -> _Fields:
        """Return the fields with some values changed; reads of the copy count here too."""
        other = _Fields({**self, **change}, self.usual)
        other.asked = self.asked
        other.defaults_taken = self.defaults_taken
        return other


_LANGUAGE: Final = ("text_config", "llm_config", "language_config")
_OF_THE_WHOLE: Final = {
    "architectures",
    "quantization_config",
    "compression_config",
    "quantization",
    "expert_dtype",
    "_name_or_path",
    "is_encoder_decoder",
    "torch_dtype",
    "dtype",
}


@dataclass(frozen=True)
class _Config:
    """A configuration, with those of its parts that describe the language model."""

    fields: _Fields
    title: str
    quantization: Mapping[str, Any]
    type: ModelType | None
    tied: bool
    nested: bool  # whether the language model is a part of the configuration
    others: tuple[str, ...]  # parts that are not the language model

    @classmethod
    def of(cls, config: Mapping[str, Any], name: str) -> _Config:
        whole = config.get("thinker_config")
        if not isinstance(whole, Mapping):
            whole = config
        part = next((whole[key] for key in _LANGUAGE if isinstance(whole.get(key), Mapping)), None)
        title = name or str(config.get("_name_or_path") or config.get("model_type") or "the model")
        fields = dict(whole)
        if part is not None:
            if any(part.get(key) is not None for key in _HIDDEN) or not any(
                whole.get(key) for key in _HIDDEN
            ):
                fields = {key: value for key, value in whole.items() if key in _OF_THE_WHOLE}
                fields.setdefault("model_type", whole.get("model_type"))
            fields |= part
        for key in ("attn_config", "ffn_config"):
            if isinstance(inner := fields.get(key), Mapping):
                fields |= {
                    name: value
                    for name, value in inner.items()
                    if name not in ("model_type", "hidden_size")
                }
        kind = str(fields.get("model_type") or "").lower()
        facts = model_types.find(kind) or model_types.find(f"{kind}_text")
        if facts and facts.language:
            facts = model_types.find(facts.language)
        fields = _Fields(_usual_names(fields, facts), facts.keys if facts else {})
        _refuse_what_is_not_counted(fields, title, kind)
        quantization: Mapping[str, Any] = {}
        for key in ("quantization_config", "compression_config", "quantization"):
            if isinstance(method := fields.get(key) or config.get(key), Mapping):
                quantization = method
                break
        others = sorted(key for key, value in whole.items() if _is_another_part(key, value))
        fields.asked.add("tie_word_embeddings")
        tied = _tied(whole, part, facts)
        return cls(fields, title, quantization, facts, tied, part is not None, tuple(others))

    def changed(self, change: Mapping[str, Any]) -> _Config:
        """Return the configuration of a layer with some values changed."""
        return replace(self, fields=self.fields.changed(change))

    @property
    def architectures(self) -> Sequence[Any]:
        names = self.fields.get("architectures")
        if isinstance(names, list):
            return names
        return []

    @property
    def kind(self) -> str:
        return str(self.fields.get("model_type") or "").lower()

    def number(self, *keys: str, default: int | None = None) -> int:
        """Return the first stated of several keys, else the default of the class, else another.

        Raises DataError: there is none, or the value is no whole number.
        """
        fields = self.fields
        fields.asked.update(keys)  # several keys say the same in other words
        for key in keys:
            if key in fields and fields[key] is not None:
                value = fields[key]
                if (
                    isinstance(value, list)
                    and len(value) > 1
                    and value.count(value[0]) == len(value)
                ):
                    value = value[0]  # a value per layer, the same in all of them
                return check(self.title, key, value, least=0)
        # null means something else than the default of the class
        if not any(key in fields for key in keys):
            for key in keys:
                usual = fields.usual.get(key)
                if usual is None or (key in _SIZES and not self.nested):
                    continue
                if key in _SIZES:
                    fields.defaults_taken[key] = usual
                return check(self.title, key, usual, least=0)
        if default is None:
            raise DataError(f"{self.title}: the configuration has no {keys[0]}")
        return default

    def listed(self, key: str, layers: int) -> list[Any] | None:
        """Return a list with a value per layer, or None; longer ones end with layers of speculative decoding."""
        values = self.fields.get(key)
        if isinstance(values, str) and values:
            values = list(values)
        if not isinstance(values, list) or not values:
            return None
        if len(values) < layers:
            raise DataError(f"{self.title}: {key} holds {len(values)} values for {layers} layers")
        return values[:layers]

    def refuse(self, key: str, value: object) -> DataError:
        return DataError(f"{self.title}: {key} = {str(value)[:60]!r} is not understood")


def _usual_names(fields: Mapping[str, Any], facts: ModelType | None) -> dict[str, Any]:
    """Return the keys of a configuration under their usual names, where its type renames them."""
    named = dict(fields)
    for usual, theirs in (facts.names if facts else {}).items():
        if theirs in fields:
            named.setdefault(usual, fields[theirs])
    return named


def _refuse_what_is_not_counted(fields: _Fields, title: str, kind: str) -> None:
    if kind in _MISREAD:
        raise DataError(f"{title}: model_type = {kind!r}: {_MISREAD[kind]}, which is not forecast")
    for key, what in _REFUSED.items():
        if fields.get(key) not in (None, False, 0):
            raise DataError(
                f"{title}: {key} = {str(fields.get(key))[:40]}: {what}, which is not forecast"
            )
    states = fields.get("mamba_d_state")
    if states and not fields.get("mamba_n_heads"):
        what = "a state space of another kind than Mamba-2"
        raise DataError(
            f"{title}: mamba_d_state = {str(states)[:40]}: {what}, which is not forecast"
        )
    embedding = next(
        (
            key
            for key in ("embedding_size", "input_embedding_size", "word_embed_proj_dim")
            if fields.get(key)
        ),
        "",
    )
    if embedding and fields.get(embedding) != fields.get("hidden_size"):
        what = "an embedding of another width than the layers"
        raise DataError(
            f"{title}: {embedding} = {str(fields.get(embedding))[:40]}: {what}, which is not "
            "forecast"
        )
    if fields.get("zero_expert_num") and kind != "longcat_flash":
        number = str(fields.get("zero_expert_num"))[:40]
        raise DataError(
            f"{title}: zero_expert_num = {number}: experts without weights, which is not forecast"
        )
    if fields.get("is_encoder_decoder"):
        raise DataError(
            f"{title}: is an encoder with a decoder, which is not forecast; either of them alone is"
        )


def _is_another_part(key: str, value: object) -> bool:
    """Whether a key holds another part of a model than its language model."""
    described = isinstance(value, Mapping) and any(
        name in value for name in (*_HIDDEN, "depth", "num_hidden_layers")
    )
    return described and key.endswith("_config") and key not in _LANGUAGE


def _tied(
    whole: Mapping[str, Any], part: Mapping[str, Any] | None, facts: ModelType | None
) -> bool:
    """Return whether the output matrix is the embedding.

    What the whole model states goes before what its language model does, for it has the output
    matrix. Where neither states it, the default of the language model holds, as files were written
    before transformers 5, then of the whole.
    """
    kind = str(whole.get("model_type") or "").lower()
    outer = whole.get("tie_word_embeddings")
    inner = None
    if part:
        inner = part.get("tie_word_embeddings")
    if kind in _TIED_WITHIN and part and inner is not None:
        return bool(outer or inner)
    for stated in (outer, inner):
        if stated is not None:
            return bool(stated)
    for type_facts in (facts, model_types.find(kind)):
        if type_facts and type_facts.keys.get("tie_word_embeddings") is not None:
            return bool(type_facts.keys["tie_word_embeddings"])
    return kind.startswith(_TIED)


@dataclass(frozen=True)
class _Blocks:
    """The kinds of layers of a model."""

    layers: int
    attention: tuple[Attention, ...]
    recurrent: tuple[Recurrent, ...]
    dense: tuple[Dense, ...]
    mixture: Mixture | None

    @classmethod
    def of(cls, config: _Config) -> _Blocks:
        stated = config.fields
        pattern = stated.get("hybrid_override_pattern") or stated.get("layers_block_type")
        if not pattern and config.kind == "nemotron_h":
            pattern = stated.get("layer_types")
        alone = isinstance(pattern, str) or (
            isinstance(pattern, list) and {"mlp", "moe"} & set(map(str, pattern))
        )
        if config.kind == "nemotron_h" or alone:
            return _one_block_a_layer(config, pattern)
        if isinstance(stated.get("block_configs"), list):
            return _searched_blocks(config, stated["block_configs"])
        if config.kind == "longcat_flash":
            return _two_blocks_a_layer(config)
        layers = config.number("num_hidden_layers", "n_layer", "n_layers", "num_layers")
        dense, mixture = _feed_forward_of(config, layers)
        attention, recurrent = _mixers_of(config, layers)
        return cls(layers, attention, recurrent, dense, mixture)


def _one_block_a_layer(config: _Config, pattern: object) -> _Blocks:
    """Nemotron-H: each layer is a mixer or a feed-forward part alone, by letter or by word."""
    words = {
        "M": "mamba",
        "*": "attention",
        "-": "mlp",
        "E": "moe",
        "linear_attention": "mamba",
        "full_attention": "attention",
    }
    if not isinstance(pattern, str | list) or not pattern:
        raise config.refuse("hybrid_override_pattern", pattern)
    kinds = Counter(words.get(str(one), str(one)) for one in pattern)
    unknown = set(kinds) - set(words.values())
    if unknown:
        if config.fields.get("hybrid_override_pattern"):
            key = "hybrid_override_pattern"
        else:
            key = "layers_block_type"
        raise config.refuse(key, min(unknown))
    number = config.number
    if kinds["mamba"]:
        recurrent = (_mamba2(config, kinds["mamba"]),)
    else:
        recurrent = ()
    if kinds["attention"]:
        attention = (_attention(config, kinds["attention"]),)
    else:
        attention = ()
    if kinds["mlp"]:
        dense = (Dense(layers=kinds["mlp"], width=number("intermediate_size")),)
    else:
        dense = ()
    if kinds["moe"]:
        mixture = _mixture(config, kinds["moe"], number("intermediate_size", default=0))
    else:
        mixture = None
    for key in (
        "num_hidden_layers",
        "intermediate_size",
        *_EXPERTS,
        *_SHARED,
        *_VISITED,
        "moe_intermediate_size",
    ):
        # a pattern without such a layer leaves its sizes without a use
        config.fields.asked.add(key)
    return _Blocks(len(pattern), attention, recurrent, dense, mixture)


def _two_blocks_a_layer(config: _Config) -> _Blocks:
    """LongCat-Flash (arXiv:2509.01322): two attentions and two dense parts a layer, and a mixture beside them.

    Of the experts that a token visits, some give it back as it is: in the mean as many as their
    share of all.
    """
    number = config.number
    layers = number("num_layers", "num_hidden_layers")
    config.fields.asked.add("zero_expert_type")
    mixture = _mixture(config, layers, number("expert_ffn_hidden_size"))
    without = number("zero_expert_num", default=0)
    visited = round(mixture.visited * mixture.experts / (mixture.experts + without))
    attention = _attention(config, 2 * layers)
    dense = Dense(layers=2 * layers, width=number("ffn_hidden_size", "intermediate_size"))
    return _Blocks(layers, (attention,), (), (dense,), replace(mixture, visited=max(visited, 1)))


def _searched_blocks(config: _Config, blocks: Sequence[Any]) -> _Blocks:
    """Puzzle (arXiv:2411.19146): each layer has other groups of heads and another feed-forward width, or lacks them."""
    hidden = config.number("hidden_size")
    heads = config.number("num_attention_heads")
    config.fields.asked |= {
        "num_hidden_layers",
        "num_key_value_heads",
        "intermediate_size",
        "head_dim",
    }
    grouped: Counter[tuple[int, int]] = Counter()
    widths: Counter[int] = Counter()
    for block in blocks:
        attention, ffn = (
            block.get(key) if isinstance(block, Mapping) else None for key in ("attention", "ffn")
        )
        if not isinstance(attention, Mapping) or not isinstance(ffn, Mapping):
            raise config.refuse("block_configs", block)
        for part in (attention, ffn):
            if odd := [
                key
                for key in ("replace_with_linear", "sparsify", "num_sink_tokens")
                if part.get(key)
            ]:
                raise config.refuse(f"block_configs: {odd[0]}", part[odd[0]])
        if not attention.get("no_op"):
            group = check(
                config.title, "n_heads_in_group", attention.get("n_heads_in_group") or 1, least=1
            )
            window = check(
                config.title, "window_length", attention.get("window_length") or 0, least=0
            )
            grouped[max(heads // group, 1), window] += 1
        if not ffn.get("no_op"):
            times = ffn.get("ffn_mult")
            width = ffn.get("intermediate_size")
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


_FULL: Final = {
    "full_attention",
    "attention",
    "global",
    "deepseek_sparse_attention",
    "indexed_attention",
}
_NEAR: Final = {"sliding_attention", "chunked_attention", "local"}
_STATES: Final = {"linear_attention", "mamba", "mamba2"}
_OF_STATES: Final = ("mamba_", "linear_key_", "linear_value_", "linear_num_", "linear_conv_")
"""How keys begin that only layers of `_STATES` have."""
_OF_ONE_LAYER: Final = {
    "head_dim",
    "num_attention_heads",
    "num_key_value_heads",
    "kv_lora_rank",
    "q_lora_rank",
    "qk_nope_head_dim",
    "qk_rope_head_dim",
    "v_head_dim",
}
"""Keys that ``per_layer_config`` may change."""


def _mixers_of(config: _Config, layers: int) -> tuple[tuple[Attention, ...], tuple[Recurrent, ...]]:
    """Return the attentions and the recurrent mixers of all layers."""
    number = config.number
    alike: Counter[tuple[str, tuple[tuple[str, Any], ...]]] = Counter()
    changes = _changes_by_layer(config, layers)
    for place, kind in enumerate(_mixer_kinds(config, layers)):
        alike[kind, changes.get(place, ())] += 1
    full = list[Attention]()
    near = list[Attention]()
    recurrent = list[Recurrent]()
    # no layer may have attention
    config.fields.asked |= {
        "num_attention_heads",
        "num_key_value_heads",
        "head_dim",
    }
    beside = config.kind == "falcon_h1"  # every layer has an attention and a state space
    for (kind, change), count in alike.items():
        one = config.changed(dict(change))
        if kind in _FULL or (kind == "hybrid" and beside):
            full += _attentions_to_all(one, count, layers)
        elif kind in _NEAR:
            keys = (
                "sliding_window",
                "attention_chunk_size",
                "sliding_window_size",
                "window_size",
                "local_attention",
            )
            window = number(*keys, default=0)
            if not window:
                raise DataError(
                    f"{config.title}: the configuration has no sliding_window for its {count} "
                    "layers of it"
                )
            near.append(_attention(one, count, window))
        elif kind in _STATES:
            recurrent.append(_recurrent(one, count))
        elif kind == "conv" and config.fields.get("conv_L_cache"):
            hidden = number(*_HIDDEN)
            taps = number("conv_L_cache")
            recurrent.append(
                Recurrent(layers=count, into=3 * hidden, inner=hidden, state=taps * hidden)
            )
        else:
            raise config.refuse("layer_types", kind)
    if beside:
        recurrent.append(_mamba2(config, layers))
    # sizes of mixers that no layer has
    if not recurrent and any(config.fields.get(key) for key in _KINDS):
        config.fields.asked |= {key for key in config.fields if str(key).startswith(_OF_STATES)}
    return (*full, *near), tuple(recurrent)


def _attentions_to_all(config: _Config, count: int, layers: int) -> list[Attention]:
    """Return the attention of layers without a window; if several share an index, one has it."""
    attention = _attention(config, count)
    if attention.index_heads:
        types = config.listed("indexer_types", layers)
    else:
        types = None
    if types:
        config.fields.asked |= {"index_skip_topk_offset", "index_topk_freq", "index_topk_pattern"}
    # the others look where the last of these did
    if types and (full_count := types.count("full")) < count:
        others = replace(attention, layers=count - full_count, index_heads=0, index_dim=0)
        return [replace(attention, layers=full_count), others]
    return [attention]


def _changes_by_layer(config: _Config, layers: int) -> dict[int, tuple[tuple[str, Any], ...]]:
    """Return the changes that ``per_layer_config`` makes to each layer, by its number."""
    given = config.fields.get("per_layer_config")
    changes: dict[int, tuple[tuple[str, Any], ...]] = {}
    for name, change in given.items() if isinstance(given, Mapping) else ():
        if not str(name).isdecimal() or int(name) >= layers or not isinstance(change, Mapping):
            raise config.refuse("per_layer_config", {name: change})
        for key in change:
            if key not in _OF_ONE_LAYER or not isinstance(change[key], int | float | None):
                raise config.refuse(f"per_layer_config: {key}", change[key])
        changes[int(name)] = tuple(sorted(change.items()))
    return changes


def _recurrent(config: _Config, layers: int) -> Recurrent:
    """Return the mixers that keep a state: Gated DeltaNet, Kimi Delta Attention, lightning attention or Mamba-2."""
    number = config.number
    stated = config.fields
    if stated.get("mamba_n_heads") or stated.get("mamba_num_heads"):
        return _mamba2(config, layers)
    if stated.get("linear_num_value_heads") or stated.get("linear_num_key_heads"):
        key_heads = number("linear_num_key_heads")
        key_dim = number("linear_key_head_dim")
        heads = number("linear_num_value_heads")
        value_dim = number("linear_value_head_dim")
        # queries, keys, values, the gate of the result, and two figures per head
        inner = heads * value_dim
        into = 2 * key_heads * key_dim + 2 * inner + 2 * heads
        return Recurrent(layers=layers, into=into, inner=inner, state=inner * key_dim)
    delta = stated.get("linear_attn_config")
    if not isinstance(delta, Mapping):
        delta = {}
    if delta or stated.get("linear_num_heads"):
        return _delta_attention(config, layers, delta)
    if config.kind.startswith("minimax"):
        heads = number("num_attention_heads")
        wide = number("head_dim", default=number(*_HIDDEN) // max(heads, 1))
        inner = heads * wide  # queries, keys, values, the gate of the result (arXiv:2501.08313)
        return Recurrent(layers=layers, into=4 * inner, inner=inner, state=inner * wide)
    raise config.refuse("layer_types", "linear_attention")


def _delta_attention(config: _Config, layers: int, stated: Mapping[str, Any]) -> Recurrent:
    """Kimi Delta Attention (arXiv:2510.26692): queries, keys, values, a figure per head, and two gates.

    The gates go through the width of one head but in Ling 2.5 and its like; the matrices behind
    that are left out.
    """
    keys = {"head_dim", "num_heads", "short_conv_kernel_size", "full_attn_layers", "kda_layers"}
    for key in stated:
        if key not in keys:
            raise config.refuse(f"linear_attn_config: {key}", stated[key])
    wide = stated.get("head_dim") or config.number("linear_head_dim")
    heads = stated.get("num_heads") or config.number("linear_num_heads")
    wide = check(config.title, "linear_attn_config: head_dim", wide, least=1)
    heads = check(config.title, "linear_attn_config: num_heads", heads, least=1)
    inner = heads * wide
    if config.kind.startswith("bailing"):
        gates = 2 * inner
    else:
        gates = 2 * wide
    return Recurrent(layers=layers, into=3 * inner + gates + heads, inner=inner, state=inner * wide)


def _mamba2(config: _Config, layers: int) -> Recurrent:
    """Mamba-2 (arXiv:2405.21060): the input, its gate, the two matrices of each group, and a step per head."""
    number = config.number
    heads = number("mamba_n_heads", "mamba_num_heads")
    config.fields.asked |= {"mamba_d_head", "mamba_d_ssm"}
    wide = config.fields.get("mamba_d_head")
    if wide in (None, "auto"):
        wide = config.fields.get("mamba_head_dim")
    if wide is not None:
        inner = heads * check(config.title, "mamba_d_head", wide, least=1)
    else:
        inner = number("mamba_d_ssm", default=0) or number("mamba_expand", "expand") * number(
            *_HIDDEN
        )
    state = number("mamba_d_state", "ssm_state_size")
    into = 2 * inner + 2 * number("mamba_n_groups", "n_groups") * state + heads
    return Recurrent(layers=layers, into=into, inner=inner, state=inner * state)


_KINDS: Final = ("layer_types", "layers_block_type", "attention_layers")
_LAYOUTS: Final = {
    "attention_types",
    "attn_layer_indices",
    "full_attention_interval",
    "full_attn_idxs",
    "global_attn_every_n_layers",
    "hybrid_layer_pattern",
    "layer_group_size",
    "local_layer_ids",
    "no_rope_layers",
    "sliding_window_pattern",
    "no_rope_layer_interval",
}
"""Keys that say nothing besides a list with the kind of each layer."""


def _lettered(config: _Config, letters: str, layers: int) -> Iterator[str]:
    """Yield the layers of a cycle of letters, "LLLG" of EXAONE 4: L looks at a window, G at all tokens.

    The last layer is a G in all published ones: a cycle that ends elsewhere is refused.
    """
    words = {"L": "sliding_attention", "G": "full_attention"}
    last = letters[(layers - 1) % len(letters)]
    if set(letters) - set(words) or last != "G":
        raise config.refuse("sliding_window_pattern", letters)
    for place in range(layers):
        yield words[letters[place % len(letters)]]


def _mixer_kinds(config: _Config, layers: int) -> Iterator[str]:
    """Yield the mixer of each layer, in the words of ``layer_types``."""
    stated = config.fields
    kind = config.kind
    listed = next(filter(None, (config.listed(key, layers) for key in _KINDS)), None)
    if listed:
        stated.asked |= _LAYOUTS
        yield from map(str, listed)
        return
    delta = stated.get("linear_attn_config")
    if isinstance(delta, Mapping):
        yield from _delta_kinds(config, delta, layers)
        return
    if "linear_num_value_heads" in stated:
        every = config.number("full_attention_interval", default=4)
        yield from (
            "linear_attention" if (place + 1) % every else "full_attention"
            for place in range(layers)
        )
        return
    if kind == "bamba":
        places = stated.get("attn_layer_indices") or []
        if not isinstance(places, list):
            raise config.refuse("attn_layer_indices", places)
        yield from ("full_attention" if place in places else "mamba" for place in range(layers))
        return
    listed = config.listed("attn_type_list", layers)
    if listed:
        if any(one not in (0, 1) for one in listed) or (
            0 in listed and not kind.startswith("minimax")
        ):
            raise config.refuse("attn_type_list", sorted(set(map(str, listed))))
        yield from ("full_attention" if one else "linear_attention" for one in listed)
        return
    listed = config.listed("hybrid_layer_pattern", layers)
    if listed:
        yield from ("sliding_attention" if one else "full_attention" for one in listed)
        return
    if isinstance(places := stated.get("full_attn_idxs"), list) and places:
        yield from ("full_attention" if place in places else "conv" for place in range(layers))
        return
    windows = stated.get("sliding_window") and stated.get("use_sliding_window", True)
    letters = stated.get("sliding_window_pattern")
    if windows and isinstance(letters, str) and letters:
        yield from _lettered(config, letters, layers)
        return
    every = 0
    if windows:
        every = config.number("sliding_window_pattern", "_sliding_window_pattern", default=0)
    cycle = None
    if config.type:
        cycle = config.type.cycle
    if every:
        yield from (
            "full_attention" if (place + 1) % every == 0 else "sliding_attention"
            for place in range(layers)
        )
    elif cycle is not None and not (cycle and set(cycle) <= (_FULL if windows else _FULL | _NEAR)):
        if not cycle:
            raise DataError(f"{config.title}: the configuration has no layer_types")
        yield from (cycle[place % len(cycle)] for place in range(layers))
    elif stated.get("attention_chunk_size"):
        yield from (
            "chunked_attention" if (place + 1) % 4 else "full_attention" for place in range(layers)
        )
    elif windows:
        if kind.startswith("qwen"):
            above = config.number("max_window_layers", default=0)
        else:
            above = 0
        yield from (
            "sliding_attention" if place >= above else "full_attention" for place in range(layers)
        )
    else:
        yield from ["full_attention"] * layers


def _delta_kinds(config: _Config, stated: Mapping[str, Any], layers: int) -> Iterator[str]:
    """Yield the mixers of ``linear_attn_config``, which numbers layers from 1."""
    full, linear = (stated.get(key) for key in ("full_attn_layers", "kda_layers"))
    if not isinstance(full, list) or not isinstance(linear, list):
        raise config.refuse("linear_attn_config", dict(stated))
    for place in range(1, layers + 1):
        if (place in full) == (place in linear):
            raise config.refuse("linear_attn_config: kda_layers", linear)
        yield "full_attention" if place in full else "linear_attention"


def _attention(config: _Config, layers: int, window: int = 0) -> Attention:
    """Return the attention of so many layers; layers with a window may have other heads."""
    stated = config.fields
    number = config.number
    heads = number("num_attention_heads", "n_head", "n_heads")
    if stated.get("kv_lora_rank"):
        config.fields.asked |= {"head_dim", "qk_head_dim", "num_key_value_heads", "v_head_dim"}
        if config.kind == "minicpm3":
            usual = number(*_HIDDEN) // max(heads, 1)
        else:
            usual = None
        latent = Latent(
            query_rank=number("q_lora_rank", default=0),
            cache_rank=number("kv_lora_rank"),
            plain=number("qk_nope_head_dim"),
            rotary=number("qk_rope_head_dim"),
            value=number("v_head_dim", default=usual),
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
        keys = (
            "sparse_topk_blocks",
            "sparse_block_size",
            "sparse_num_index_heads",
            "sparse_index_dim",
        )
        blocks, size, index_heads, index_dim = (
            check(config.title, key, sparse.get(key), least=1) for key in keys
        )
        picked = blocks * size
    prefix = ""
    if window:
        prefix = "swa_"
    if window:
        heads = number("swa_num_attention_heads", "num_sliding_attention_heads", default=heads)
    config.fields.asked.add("num_sliding_attention_heads")
    head_dim = number(
        "head_dim", "attention_head_dim", "kv_channels", default=number(*_HIDDEN) // max(heads, 1)
    )
    kv_heads = _key_heads(config, heads)
    if window:
        # whose class gives a window twice the heads with keys
        twice = config.kind == "mimo_v2_flash"
        if twice:
            default = 2 * kv_heads
        else:
            default = kv_heads
        kv_heads = number("swa_num_key_value_heads", default=default)
        head_dim = number("swa_head_dim", default=head_dim)
    else:
        wider = config.kind.startswith("gemma4") and not stated.get("per_layer_config")
        # as the classes of Gemma 4 have it
        head_dim = number("global_head_dim", default=512 if wider else head_dim)
        kv_heads = number("num_global_key_value_heads", default=kv_heads)
    return Attention(
        layers=layers,
        heads=heads,
        kv_heads=kv_heads,
        head_dim=head_dim,
        value_dim=number(f"{prefix}v_head_dim", "v_head_dim", default=0),
        window=window,
        picked=picked,
        gated=bool(
            stated.get("attn_output_gate", config.type is not None and config.type.attention_gate)
        ),
        one_projection=bool(stated.get("attention_k_eq_v")) and not window,
        index_heads=index_heads,
        index_dim=index_dim,
    )


def _key_heads(config: _Config, heads: int) -> int:
    stated = config.fields
    several = ("num_kv_heads", "n_head_kv", "kv_n_heads", "multi_query_group_num")
    config.fields.asked |= {"num_key_value_heads", "num_kv_heads"}
    if config.kind == "falcon" and not stated.get("new_decoder_architecture"):
        # num_kv_heads is written, and not looked at
        return 1 if stated.get("multi_query", True) else heads
    if config.kind == "falcon":
        return config.number("num_kv_heads", default=heads)
    if stated.get("multi_query") and not any(stated.get(name) for name in several):
        return 1
    if stated.get("multi_query_attention") is False:
        other_keys = ()
    else:
        other_keys = several
    return config.number("num_key_value_heads", *other_keys, "num_attention_groups", default=heads)


def _feed_forward_of(config: _Config, layers: int) -> tuple[tuple[Dense, ...], Mixture | None]:
    """Return the dense feed-forward parts, and the experts."""
    number = config.number
    stated = config.fields
    hidden = number(*_HIDDEN)
    experts = number(*_EXPERTS, default=0)
    width = _width(config, hidden)
    if not experts:
        if any(key in stated for key in _EXPERTS):  # there are 0 of them
            stated.asked |= {*_VISITED, "moe_intermediate_size"}
        # without experts its layers have the shared part alone
        if config.kind == "granitemoehybrid":
            width = number("shared_intermediate_size", default=width)
        return (Dense(layers=layers, width=width),), None
    with_experts = [bool(one) for one in _experts_by_layer(config, layers)]
    count = sum(with_experts)
    mixture = _mixture(config, count, width)
    if stated.get("enable_moe_block"):  # Gemma 4: a dense part beside the mixture, in every layer
        return (Dense(layers=layers, width=width),), mixture
    width = number("intermediate_size_mlp", "dense_intermediate_size", default=width)
    return (Dense(layers=layers - count, width=width),) if layers > count else (), mixture


def _width(config: _Config, hidden: int) -> int:
    """Return the inner width of dense feed-forward parts."""
    number = config.number
    stated = config.fields
    times = stated.get("expansion_ratio")
    if isinstance(times, int):
        usual = times * hidden
    else:
        usual = 4 * hidden
    keys = (
        "intermediate_size",
        "n_inner",
        "ffn_dim",
        "ffn_hidden_size",
        "block_ff_dim",
        "dff",
        "hidden_dim",
    )
    width = number(*keys, default=usual)
    if config.kind == "lfm2" and stated.get("block_auto_adjust_ff_dim"):
        step = number("block_multiple_of")
        factor = stated.get("block_ffn_dim_multiplier", 1.0)
        if not isinstance(factor, int | float) or not 0 < factor < 1000 or not step:
            raise config.refuse("block_ffn_dim_multiplier", factor)
        width = -(-int(factor * (2 * width // 3)) // step) * step
    return width


_HIDDEN: Final = ("hidden_size", "n_embd", "n_embed", "d_model")
_EXPERTS: Final = ("num_local_experts", "num_experts", "n_routed_experts", "moe_num_experts")
_VISITED: Final = (
    "num_experts_per_tok",
    "num_experts_per_token",
    "experts_per_token",
    "moe_topk",
    "moe_top_k",
    "moe_k",
    "top_k_experts",
)
_SHARED_COUNTS: Final = (
    "n_shared_experts",
    "num_shared_experts",
    "moe_num_shared_experts",
    "num_shared_expert",
)
_SHARED: Final = (
    "shared_expert_intermediate_size",
    "moe_shared_expert_intermediate_size",
    "share_expert_dim",
    "shared_experts_intermediate_size",
    "shared_intermediate_size",
)


_EVERY: Final = (
    "interleave_moe_layer_step",
    "decoder_sparse_step",
    "moe_layer_freq",
    "moe_layer_interval",
)
_FIRST: Final = ("first_k_dense_replace", "num_dense_layers", "moe_layer_start_index")


def _experts_by_layer(config: _Config, layers: int) -> Iterator[object]:
    """Yield for each layer whether it has experts."""
    number = config.number
    stated = config.fields
    listed = config.listed("mlp_layer_types", layers)
    if listed:
        unknown = set(map(str, listed)) - {"dense", "sparse"}
        if unknown:
            raise config.refuse("mlp_layer_types", min(unknown))
        yield from (one == "sparse" for one in listed)
        stated.asked |= {
            *_EVERY,
            *_FIRST,
            "mlp_only_layers",
            "moe_layers",
            "moe_layers_enum",
            "moe_layer_end_index",
        }
        return
    listed = config.listed("moe_layer_freq", layers)
    if listed:
        yield from listed
        stated.asked |= {*_EVERY, *_FIRST}
        return
    named = stated.get("moe_layers") or stated.get("moe_layers_enum")
    if isinstance(named, str):
        named = [int(one) for one in named.split(",") if one.strip().isdecimal()]
    if isinstance(named, list) and named:
        yield from (place in named for place in range(layers))
        return
    every = number(*_EVERY, default=1) or 1
    if config.type:
        default = config.type.first_dense
    else:
        default = 0
    first = number(*_FIRST, default=default)
    last = layers - 1  # which -1 means too
    if stated.get("moe_layer_end_index") not in (None, -1):
        last = number("moe_layer_end_index")
    plain = stated.get("mlp_only_layers")
    if not isinstance(plain, list):
        plain = []
    yield from (
        first <= place <= last and (place + 1) % every == 0 and place not in plain
        for place in range(layers)
    )


def _mixture(config: _Config, layers: int, width: int) -> Mixture:
    number = config.number
    stated = config.fields
    keys = ("moe_intermediate_size", "expert_ffn_hidden_size")
    width = number(*keys, default=width)
    several = stated.get("moe_intermediate_size")
    if isinstance(several, list):
        raise config.refuse("moe_intermediate_size", several)
    shared = number(*_SHARED, default=0)
    stated.asked.update(_SHARED_COUNTS)
    if not shared:
        count = number(*_SHARED_COUNTS, default=int(config.kind == "hunyuan_v1_moe"))
        shared = (1 if config.kind.startswith("llama4") else count) * width
    return Mixture(
        layers=layers,
        experts=number(*_EXPERTS),
        visited=number(*_VISITED),
        width=width,
        shared=shared,
        inputs=number("moe_latent_size", "moe_hidden_size", "routed_expert_hidden_size", default=0),
    )


# -- Number formats of the weights
# ------------------------------------------------------------------------------------

_METHODS: Final = {
    "fp8": "fp8",
    "fbgemm_fp8": "fp8",
    "mxfp4": "fp4",
    "mxfp8": "fp8",
    "awq": "int4/bf16",
    "gptq": "int4/bf16",
    "auto-round": "int4/bf16",
    "auto_round": "int4/bf16",
}
_ALGORITHMS: Final = {
    "FP8": "fp8",
    "FP8_PB_WO": "fp8",
    "FP8_PER_CHANNEL_PER_TOKEN": "fp8",
    "MXFP8": "fp8",
    "NVFP4": "fp4",
    "MXFP4": "fp4",
    "W4A16_NVFP4": "fp4/bf16",
    "W4A8_MXFP4_FP8": "fp4/fp8",
    "W4A16_AWQ": "int4/bf16",
    "W4A8_AWQ": "int4/fp8",
    "INT8_SQ": "int8",
    "W8A8_SQ": "int8",
}
"""Of ModelOpt: ``quant_algo``."""
LEFT_OUT: Final = 0.3
"""Share of the layers that must leave a part as it is for the part to count so: hybrids have it in few of them."""


def formats_of(
    stated: Mapping[str, Any], title: str, layers: int = 0
) -> tuple[dict[str, str], str]:
    """Return the formats of a checkpoint's weights by `architecture.PARTS`, and that of its cache.

    ``stated`` is the ``quantization_config`` of a configuration, or the ``quantization`` of
    ``hf_quant_config.json``; empty where nothing is quantised. What is left out in few of the
    ``layers`` counts as if it were not. Raises DataError: the method is not understood; it names
    the model by ``title``.

    >>> formats_of({"quant_method": "mxfp4", "modules_to_not_convert": ["model.layers.*.self_attn"]}, "gpt-oss")
    ({'dense': 'fp4', 'shared': 'fp4', 'experts': 'fp4'}, '')
    """
    if not stated:
        return {}, ""
    keys = ("modules_to_not_convert", "ignore", "exclude_modules", "exclude")
    named = next((stated[key] for key in keys if isinstance(stated.get(key), list)), [])
    left_out = _by_part({str(one): "" for one in named}, LEFT_OUT * layers)
    formats: dict[str, str] = {}
    if isinstance(each := stated.get("quantized_layers"), Mapping) and each:
        # what a mixture of formats does not name stays as the method says
        method = _METHODS.get(str(stated.get("quant_method")))
        if method:
            formats = dict.fromkeys(PARTS, method)
        else:
            formats = {}
        algorithms = {
            str(key): one.get("quant_algo") for key, one in each.items() if isinstance(one, Mapping)
        }
        formats |= _by_part({key: _algorithm(one, title) for key, one in algorithms.items()})
    elif isinstance(groups := stated.get("config_groups"), Mapping):
        for group in groups.values():
            form = _group(group, title)
            targets = [str(one) for one in group.get("targets") or ["Linear"]]
            every = "Linear" in targets
            formats |= dict.fromkeys(
                PARTS if every else _by_part(dict.fromkeys(targets, form)), form
            )
    else:
        formats = dict.fromkeys(PARTS, _method(stated, title))
    return {part: form for part, form in formats.items() if part not in left_out}, _cache_format(
        stated
    )


def _method(stated: Mapping[str, Any], title: str) -> str:
    """Return the format of a quantisation method that has one format."""
    if stated.get("quant_algo"):
        return _algorithm(stated["quant_algo"], title)
    method = str(stated.get("quant_method") or "").lower()
    bits = stated.get("bits")
    if method in ("awq", "gptq", "auto-round", "auto_round"):
        if bits not in (4, 8, None):
            raise DataError(
                f"{title}: bits = {bits!r:.20} of {method} is not understood: give a dtype in its "
                "place"
            )
        return f"int{bits or 4}/bf16"
    if method in _METHODS:
        return _METHODS[method]
    if method == "bitsandbytes":
        if stated.get("load_in_4bit"):
            return "int4/bf16"
        return "int8/bf16"
    if method == "quark":
        each = stated.get("global_quant_config")
        if isinstance(each, Mapping):
            words = [_quark(each.get(key)) for key in ("weight", "input_tensors")]
        else:
            words = [""]
        if words[0]:
            if words[0] == words[1]:
                return words[0]
            return f"{words[0]}/{words[1] or 'bf16'}"
    key = "quantization_config"
    if method:
        key = "quant_method"
    raise DataError(
        f"{title}: {key} = {method or dict(stated)!r:.60} is not understood: give a dtype in its "
        "place"
    )


def _quark(given: object) -> str:
    if isinstance(given, list) and given:
        settings = given[0]
    else:
        settings = given
    if isinstance(settings, Mapping):
        word = str(settings.get("dtype") or "").lower()
    else:
        word = ""
    return next((one for one in ("fp8", "fp4", "fp6", "int8", "int4") if word.startswith(one)), "")


def _algorithm(name: object, title: str) -> str:
    if str(name) not in _ALGORITHMS:
        raise DataError(
            f"{title}: quant_algo = {name!r} is not understood: give a dtype in its place"
        )
    return _ALGORITHMS[str(name)]


def _group(group: Mapping[str, Any], title: str) -> str:
    """Return the format of a group of compressed-tensors: of weights, and of activations if it differs."""
    words = []
    for key in ("weights", "input_activations"):
        settings = group.get(key)
        if not isinstance(settings, Mapping):
            words.append("bf16")
            continue
        word = f"{'fp' if settings.get('type') == 'float' else 'int'}{settings.get('num_bits')}"
        if word not in ("fp8", "fp4", "int8", "int4"):
            raise DataError(
                f"{title}: {key} in {word} are not understood: give a dtype in its place"
            )
        words.append(word)
    if words[0] == words[1]:
        return words[0]
    return "/".join(words)


def _cache_format(stated: Mapping[str, Any]) -> str:
    scheme = (
        stated.get("kv_cache_scheme")
        or stated.get("kv_cache_quant_algo")
        or stated.get("kv_cache_quant_config")
    )
    if not scheme:
        return ""
    if isinstance(scheme, Mapping):
        bits = scheme.get("num_bits")
    else:
        bits = None
    word = str(scheme).lower()
    if bits == 8 or "fp8" in word:
        return "fp8"
    if bits == 4 or "fp4" in word:
        return "fp4"
    return ""


_OF_LAYER: Final = re.compile(r"layers\.(\d+)\b\.?")


def _by_part(named: Mapping[str, str], least: float = 0.0) -> dict[str, str]:
    """Return the commonest value that patterns of modules give to each part, if they name it in enough layers."""
    counts: dict[str, Counter[str]] = {}
    places: dict[str, set[str]] = {}
    for pattern, value in named.items():
        layer = _OF_LAYER.search(pattern)
        for part in _parts_of(_OF_LAYER.sub("", pattern)):
            counts.setdefault(part, Counter())[value] += 1
            places.setdefault(part, set()).add(layer[1] if layer else "")
    enough = (
        part
        for part, formats_here in places.items()
        if "" in formats_here or len(formats_here) >= least
    )
    return {part: counts[part].most_common(1)[0][0] for part in enough}


def _parts_of(pattern: str) -> Sequence[str]:
    """Return the parts whose weights a pattern of modules names: by a name, wildcards or a regular expression."""
    word = pattern.lower().replace("\\", "")
    if "shared_expert" in word:
        if "expert_gate" in word:
            return ()
        return ("shared",)
    if "experts" in word:
        return ("experts",)
    if any(
        one in word
        for one in ("indexer", "norm", "conv1d", "kv_a", "kv_b", "k_proj", "v_proj", "in_proj_a")
    ):
        return ()
    if any(one in word for one in ("attn", "attention", "mixer")):
        if any(one in word for one in ("o_proj", "out_proj", "wo_")):
            return ("output",)
        if "proj" in word or "wq" in word:
            return ("attention",)
        return ("attention", "output")
    if "mlp" in word or "ffn" in word or "feed_forward" in word:
        rest = re.split("mlp|ffn|feed_forward", word)[-1].strip(".*$")
        if not rest or "proj" in rest or rest[0] == "w":
            return ("dense",)
        return ()
    return ()

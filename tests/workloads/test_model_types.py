"""Configurations as transformers and others write them: the weights are those of the class, or a key is named."""

from __future__ import annotations

import json
import re
from collections import Counter
from functools import cache
from pathlib import Path
from typing import Any

import pytest

from flopcast.errors import DataError
from flopcast.workloads import model_types
from flopcast.workloads.architecture import Architecture
from flopcast.workloads.forecasting import forecast
from flopcast.workloads.model_config import from_config

SMALL = {
    "hidden_size": 1024, "num_hidden_layers": 8, "num_attention_heads": 16, "num_key_value_heads": 4,
    "intermediate_size": 4096, "vocab_size": 32000,
}  # fmt: skip
LLAMA = {"model_type": "llama", "tie_word_embeddings": False, **SMALL}
LATENT = {"kv_lora_rank": 512, "qk_nope_head_dim": 128, "qk_rope_head_dim": 64, "v_head_dim": 128}
KIMI = {
    "model_type": "kimi_linear", "hidden_size": 2304, "num_hidden_layers": 27, "intermediate_size": 9216,
    "num_attention_heads": 32, "num_key_value_heads": 32, "head_dim": 72, **LATENT, "q_lora_rank": None,
    "num_experts": 256, "num_experts_per_token": 8, "num_shared_experts": 1, "moe_intermediate_size": 1024,
    "first_k_dense_replace": 1, "moe_layer_freq": 1, "vocab_size": 163840, "tie_word_embeddings": False,
    "linear_attn_config": {
        "full_attn_layers": [4, 8, 12, 16, 20, 24, 27],
        "kda_layers": [place for place in range(1, 27) if place % 4],
        "head_dim": 128, "num_heads": 32, "short_conv_kernel_size": 4,
    },
}  # fmt: skip
GRANITE = {
    "model_type": "granitemoehybrid", "hidden_size": 4096, "num_hidden_layers": 40, "num_attention_heads": 32,
    "num_key_value_heads": 8, "intermediate_size": 768, "shared_intermediate_size": 1536, "num_local_experts": 72,
    "num_experts_per_tok": 10, "mamba_n_heads": 128, "mamba_d_head": 64, "mamba_d_state": 128, "mamba_n_groups": 1,
    "mamba_d_conv": 4, "mamba_expand": 2, "vocab_size": 100352, "tie_word_embeddings": True,
    "layer_types": ["attention" if place in (5, 15, 25, 35) else "mamba" for place in range(40)],
}  # fmt: skip
GEMMA = {
    "model_type": "gemma3",
    "text_config": {
        "model_type": "gemma3_text", "hidden_size": 5376, "intermediate_size": 21504, "num_attention_heads": 32,
        "num_key_value_heads": 16, "head_dim": 128, "num_hidden_layers": 62, "sliding_window": 1024,
    },
    "vision_config": {"hidden_size": 1152, "num_hidden_layers": 27},
}  # fmt: skip
LONGCAT = {
    "model_type": "longcat_flash", "hidden_size": 6144, "num_layers": 28, "num_hidden_layers": 28,
    "num_attention_heads": 64, "ffn_hidden_size": 12288, "expert_ffn_hidden_size": 2048, "n_routed_experts": 512,
    "zero_expert_num": 256, "zero_expert_type": "identity", "moe_topk": 12, "q_lora_rank": 1536, **LATENT,
    "vocab_size": 131072, "tie_word_embeddings": False, "attention_method": "MLA",
}  # fmt: skip


@pytest.mark.parametrize(
    ("config", "billions", "active", "cached", "recurrent"),
    [
        (KIMI, 49.1, 3.46, 7 * 576, 20),
        (GRANITE, 32.2, 8.8, 4 * 2048, 36),
        (GEMMA, 27.0, 27.0, 62 * 2 * 16 * 128, 0),
        (LONGCAT, 560.6, 27.9, 56 * 576, 0),
    ],
    ids=["kimi_linear", "granitemoehybrid", "gemma3", "longcat_flash"],
)
def test_hybrids_and_what_files_omit_have_their_published_weights_and_cache(
    config: dict[str, Any], billions: float, active: float, cached: int, recurrent: int
) -> None:
    model = from_config(config)
    assert model.parameters / 1e9 == pytest.approx(billions, rel=0.005)
    assert model.active_parameters / 1e9 == pytest.approx(active, rel=0.02)
    assert model.cached_per_token * model.layers == pytest.approx(cached)
    assert sum(one.layers for one in model.recurrent) == recurrent
    work = {"batch": 1, "input_len": 64, "output_len": 8}
    assert forecast(
        {"model": model, "gpu": "MI300X", "gpus": 8, "tp": 8, "dtype": "fp8", **work}
    ).fits


GLM_5 = {
    "model_type": "glm_moe_dsa", "hidden_size": 6144, "num_hidden_layers": 78, "num_attention_heads": 64,
    "num_key_value_heads": 64, "kv_lora_rank": 512, "q_lora_rank": 2048, "qk_nope_head_dim": 192, "qk_rope_head_dim": 64,
    "v_head_dim": 256, "n_routed_experts": 256, "num_experts_per_tok": 8, "n_shared_experts": 1,
    "moe_intermediate_size": 2048, "intermediate_size": 12288, "index_topk": 2048, "index_n_heads": 32,
    "index_head_dim": 128, "vocab_size": 154880, "tie_word_embeddings": False,
    "mlp_layer_types": ["dense"] * 3 + ["sparse"] * 75, "layer_types": ["indexed_attention"] * 78,
}  # fmt: skip
DEEPSEEK = {
    "model_type": "deepseek_v32", "hidden_size": 7168, "num_hidden_layers": 61, "num_attention_heads": 128,
    "num_key_value_heads": 128, **LATENT, "q_lora_rank": 1536, "n_routed_experts": 256, "num_experts_per_tok": 8,
    "n_shared_experts": 1, "moe_intermediate_size": 2048, "intermediate_size": 18432, "index_topk": 2048,
    "index_n_heads": 64, "index_head_dim": 128, "vocab_size": 129280, "tie_word_embeddings": False,
    "layer_types": ["indexed_attention"] * 61, "mlp_layer_types": ["dense"] * 3 + ["sparse"] * 58,
}  # fmt: skip
WORDS = {"M": "mamba", "-": "mlp", "*": "attention"}
NEMOTRON = {
    "model_type": "nemotron_h", "hidden_size": 4096, "num_hidden_layers": 52, "num_attention_heads": 32,
    "num_key_value_heads": 8, "head_dim": 128, "intermediate_size": 21504, "vocab_size": 131072, "mamba_num_heads": 128,
    "mamba_head_dim": 64, "ssm_state_size": 128, "n_groups": 8, "tie_word_embeddings": False, "mlp_hidden_act": "relu2",
    "layer_types": [WORDS[one] for one in "M-M-M-M*-M-M-M-M-M*-M-M-M-M-M*-M-M-M-M-M*-M-M-M-M-M-"],
}  # fmt: skip
QWEN_OMNI = {
    "model_type": "qwen3_omni_moe",
    "thinker_config": {
        "model_type": "qwen3_omni_moe_thinker", "audio_config": {"d_model": 1280},
        "text_config": {
            "model_type": "qwen3_omni_moe_text", "hidden_size": 2048, "num_hidden_layers": 48, "num_attention_heads": 32,
            "num_key_value_heads": 4, "head_dim": 128, "intermediate_size": 768, "moe_intermediate_size": 768,
            "num_experts": 128, "num_experts_per_tok": 8, "vocab_size": 152064, "tie_word_embeddings": False,
        },
    },
    "talker_config": {"text_config": {"hidden_size": 1024, "num_hidden_layers": 20}},
}  # fmt: skip
KIMI_5 = {
    **{key: value for key, value in KIMI.items() if key != "linear_attn_config"},
    "layer_types": [
        "full_attention" if place % 4 == 0 or place == 27 else "linear_attention" for place in range(1, 28)
    ],
    "mlp_layer_types": ["dense"] + ["sparse"] * 26,
    "linear_attn_config": {"head_dim": 128, "num_heads": 32, "short_conv_kernel_size": 4},
}  # fmt: skip


@pytest.mark.parametrize(
    ("config", "billions", "active", "cached"),
    [
        (GLM_5, 744, 41.8, 78 * (576 + 128)),
        (DEEPSEEK, 671.9, 38.4, 61 * (576 + 128)),
        (NEMOTRON, 8.1, 8.1, 4 * 2048),
        (QWEN_OMNI, 30.5, 3.35, 48 * 1024),
        (KIMI_5, 49.1, 3.46, 7 * 576),
    ],
    ids=["glm_moe_dsa", "deepseek_v32", "nemotron_h", "qwen3_omni_moe", "kimi_linear"],
)
def test_configurations_with_the_kind_of_each_layer_as_transformers_5_writes_it(
    config: dict[str, Any], billions: float, active: float, cached: int
) -> None:
    model = from_config(config)
    assert model.parameters / 1e9 == pytest.approx(billions, rel=0.005)
    assert model.active_parameters / 1e9 == pytest.approx(active, rel=0.01)
    assert model.cached_per_token * model.layers == pytest.approx(cached)


@pytest.mark.parametrize(
    ("change", "problem"),
    [
        ({"model_type": "deepseek_v4", "compress_ratios": [4, 128], "hc_mult": 4}, "attention to compressed keys"),
        ({"model_type": "kimi_k3", "attn_res_block_size": 12}, "attention over earlier layers"),
        ({"model_type": "gemma4_text", "hidden_size_per_layer_input": 256}, "an embedding for every layer"),
        ({"model_type": "longcat_flash_ngram", "zero_expert_num": 128}, "embeddings of n-grams"),
    ],
)  # fmt: skip
def test_what_cannot_be_counted_is_refused_by_name(change: dict[str, Any], problem: str) -> None:
    with pytest.raises(DataError, match=f"{problem}.*not forecast"):
        from_config({**LLAMA, **change})


def _codes(model: Architecture) -> list[str]:
    return [one.code for one in model.remarks]


def test_a_part_may_omit_sizes_and_a_remark_says_so() -> None:
    assert _codes(from_config(GEMMA)) == ["class-default", "language-model-alone"]
    assert "vocab_size = 262208" in str(from_config(GEMMA).remarks[0])
    with pytest.raises(DataError, match="has no vocab_size"):
        from_config({**GEMMA["text_config"]})


@pytest.mark.parametrize(
    ("kind", "outer", "inner", "tied"),
    [
        ("mistral3", None, None, False),
        ("mistral3", True, False, True),
        ("qwen3_vl_moe", False, True, False),
        ("qwen2_audio", None, True, True),
        ("llava", False, True, True),
        ("gemma3", None, None, True),
        ("gemma3", False, True, False),
    ],
)
def test_the_whole_model_says_whether_its_matrices_are_tied_before_its_language_model(
    kind: str, outer: bool | None, inner: bool | None, tied: bool
) -> None:
    text = {"model_type": "gemma3_text" if kind == "gemma3" else "mistral", **SMALL}
    whole: dict[str, Any] = {"model_type": kind, "text_config": text}
    if inner is not None:
        text["tie_word_embeddings"] = inner
    if outer is not None:
        whole["tie_word_embeddings"] = outer
    assert from_config(whole).tied is tied


def test_keys_of_the_whole_do_not_reach_its_language_model() -> None:
    whole = {
        "model_type": "musicflamingo",
        "head_dim": 1280,
        "text_config": {"model_type": "qwen2", **SMALL},
    }
    assert from_config(whole).head_dim == 64


def test_what_is_omitted_is_the_default_of_the_class_and_null_is_not() -> None:
    assert (
        from_config({"model_type": "gemma2", **SMALL, "hidden_activation": "gelu"}).head_dim == 256
    )
    mistral = {"model_type": "mistral", **SMALL}
    del mistral["num_key_value_heads"]
    assert (
        from_config(mistral).kv_heads,
        from_config({**mistral, "num_key_value_heads": None}).kv_heads,
    ) == (8, 16)
    assert from_config(mistral).attention[0].window == 4096
    assert from_config({**mistral, "sliding_window": None}).attention[0].window == 0


@pytest.mark.parametrize("kind", ["llama", "qwen3_moe", "kept_elsewhere"])
@pytest.mark.parametrize(
    ("key", "value"),
    [
        ("linear_memory_config", {"layers": [1, 2]}),
        ("num_recurrent_layers", 4),
        ("moe_every_other", True),
        ("attention_pattern", "LLLG"),
        ("num_attention_heads_per_layer", [16] * 8),
        ("latent_width", 64),
    ],
)
def test_a_key_that_says_something_of_the_layers_and_is_not_understood_is_refused(
    kind: str, key: str, value: object
) -> None:
    stated = {**LLAMA, "model_type": kind, "num_experts": 0, key: value}
    with pytest.raises(DataError, match=f"{key} = .* is not understood"):
        from_config(stated)


def test_other_keys_that_nobody_looked_at_are_named() -> None:
    model = from_config({**LLAMA, "use_the_new_way": True, "rope_theta": 1e4})
    assert [str(one) for one in model.remarks] == [
        "its configuration was read, without looking at use_the_new_way"
    ]
    assert not from_config({**LLAMA, "use_the_new_way": False}).remarks


@pytest.mark.parametrize(
    ("change", "named"),
    [
        (
            {"linear_attn_config": {**KIMI["linear_attn_config"], "full_attn_layers": [4]}},
            "kda_layers",
        ),
        (
            {"linear_attn_config": {**KIMI["linear_attn_config"], "gate_rank": 64}},
            "linear_attn_config: gate_rank",
        ),
        ({"linear_attn_config": {"kda_layers": [1]}}, "linear_attn_config"),
        ({"linear_attn_config": None, "layer_types": ["hybrid"] * 27}, "layer_types = 'hybrid'"),
        ({"num_experts_per_token": None}, "num_experts_per_tok"),
    ],
)
def test_what_is_not_understood_of_linear_attention_is_refused(
    change: dict[str, Any], named: str
) -> None:
    with pytest.raises(DataError, match=re.escape(named)):
        from_config({**KIMI, **change})


@pytest.mark.parametrize(
    ("config", "named"),
    [
        ({"model_type": "jamba", **SMALL, "mamba_d_state": 16}, "mamba_d_state"),
        ({"model_type": "albert", **SMALL}, "model_type = 'albert'"),
        ({"model_type": "opt", **SMALL, "word_embed_proj_dim": 512}, "word_embed_proj_dim"),
        ({**LLAMA, "zero_expert_num": 8}, "zero_expert_num"),
        (
            {**LLAMA, "per_layer_config": {"3": {"intermediate_size": 64}}},
            "per_layer_config: intermediate_size",
        ),
        ({**LLAMA, "per_layer_config": {"3": {"head_dim": [64]}}}, "per_layer_config: head_dim"),
        ({"model_type": "bamba", **SMALL, "attn_layer_indices": 5}, "attn_layer_indices"),
    ],
)
def test_what_is_known_not_to_be_counted_is_refused_by_its_key(
    config: dict[str, Any], named: str
) -> None:
    with pytest.raises(DataError, match=re.escape(named)):
        from_config(config)


def test_layers_may_differ_by_their_number() -> None:
    model = from_config(
        {**LLAMA, "per_layer_config": {"07": {"head_dim": 128}, "03": {"head_dim": 128}}}
    )
    assert sorted((one.layers, one.head_dim) for one in model.attention) == [(2, 128), (6, 64)]


def test_attention_both_ways_is_no_causal_one() -> None:
    text = {**SMALL, "model_type": "gemma3_text"}
    assert from_config(text).causal
    assert not from_config({**text, "use_bidirectional_attention": True}).causal


@cache
def _counts() -> list[dict[str, Any]]:
    """Return the weights of classes, as benchmarks/model_counts.py writes them."""
    text = (Path(__file__).parent / "model_counts.jsonl").read_text(encoding="utf-8")
    return [json.loads(line) for line in text.splitlines()]


PARTLY = {
    "eurobert": "encoder-alone",
    "modernvbert": "encoder-alone",
    "xmod": "left-out",
    "longcat_flash": "identity-experts",  # its class holds matrices for experts that need none: 741 B of 560 B
}
"""Of types whose class has more weights than are counted: what a remark says of them."""


def test_every_type_of_transformers_has_the_weights_of_its_class_or_a_remark_or_is_refused() -> (
    None
):
    outcomes: Counter[str] = Counter()
    refusals: list[str] = []
    for row in _counts():
        if row["changed"]:
            continue
        try:
            model = from_config(row["config"], row["type"])
        except DataError as error:
            refusals.append(str(error))
            continue
        outcomes["read"] += 1
        if row["type"] in PARTLY:
            assert PARTLY[row["type"]] in _codes(model), row["type"]
        else:
            outcomes["right"] += 1
            assert model.parameters == pytest.approx(row["language"], rel=0.02), row["type"]
    assert outcomes["right"] >= 0.95 * outcomes["read"]
    assert outcomes["read"] >= 210
    named = re.compile(r" = | has no |is an encoder with a decoder|must be a whole number")
    assert [one for one in refusals if not named.search(one)] == []


def test_every_key_of_a_class_changes_the_weights_as_it_does_there_or_is_remarked_on_or_refused() -> (
    None
):
    outcomes: Counter[str] = Counter()
    for row in _counts():
        if not row["changed"]:
            continue
        kind = model_types.find(row["type"])
        # whose class multiplies only heads that make up its width
        if kind is None or row["type"] == "helium":
            continue
        stated = {key: value for key, value in kind.keys.items() if value is not None}
        for usual, own in kind.names.items():
            if usual in row["config"]:
                stated[own] = row["config"][usual]
        try:
            model = from_config({**stated, **row["config"]}, row["type"])
        except DataError:
            outcomes["refused"] += 1
            continue
        if model.parameters == pytest.approx(row["language"], rel=0.025):
            outcomes["right"] += 1
        else:
            assert model.remarks, row
            outcomes["remarked"] += 1
    assert outcomes["right"] >= 1000
    assert outcomes["remarked"] < 0.05 * outcomes["right"]


def test_letters_say_which_layers_see_a_window() -> None:
    exaone = {
        "model_type": "exaone4",
        "vocab_size": 102400,
        "hidden_size": 5120,
        "intermediate_size": 27392,
        "num_hidden_layers": 64,
        "num_attention_heads": 40,
        "num_key_value_heads": 8,
        "sliding_window": 4096,
    }
    letters = from_config({**exaone, "sliding_window_pattern": "LLLG"})
    assert letters.attention == from_config({**exaone, "sliding_window_pattern": 4}).attention
    with pytest.raises(DataError, match="sliding_window_pattern"):
        from_config({**exaone, "sliding_window_pattern": "LLLG", "num_hidden_layers": 63})
    with pytest.raises(DataError, match="sliding_window_pattern"):
        from_config({**exaone, "sliding_window_pattern": "LLXG"})

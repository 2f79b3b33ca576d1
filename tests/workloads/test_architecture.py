"""Architectures: weights as published, names and configuration files that mean the same, figures that cannot be."""

from __future__ import annotations

import json
import os
import re
import tomllib
from importlib import resources
from pathlib import Path

import pytest

from flopcast.errors import DataError, ParameterError
from flopcast.workloads.architecture import Architecture
from flopcast.workloads.forecasting import forecast
from flopcast.workloads.model_catalogue import configured_as, find, names, quantised
from flopcast.workloads.model_config import from_config

CONFIG = {
    "model_type": "llama",
    "hidden_size": 8192,
    "num_hidden_layers": 80,
    "num_attention_heads": 64,
    "num_key_value_heads": 8,
    "intermediate_size": 28672,
    "vocab_size": 128256,
    "max_position_embeddings": 131072,
    "hidden_act": "silu",
}
MIXTURE = {
    "model_type": "deepseek_v3",
    "hidden_size": 7168,
    "num_hidden_layers": 61,
    "num_attention_heads": 128,
    "num_key_value_heads": 128,
    "head_dim": 192,
    "intermediate_size": 18432,
    "vocab_size": 129280,
    "max_position_embeddings": 163840,
    "n_routed_experts": 256,
    "num_experts_per_tok": 8,
    "n_shared_experts": 1,
    "moe_intermediate_size": 2048,
    "first_k_dense_replace": 3,
    "q_lora_rank": 1536,
    "kv_lora_rank": 512,
    "qk_nope_head_dim": 128,
    "qk_rope_head_dim": 64,
    "v_head_dim": 128,
}


LLAMA4 = {
    "model_type": "llama4_text", "hidden_size": 5120, "num_hidden_layers": 48, "num_attention_heads": 40,
    "num_key_value_heads": 8, "head_dim": 128, "intermediate_size": 8192, "intermediate_size_mlp": 16384,
    "num_experts_per_tok": 1, "vocab_size": 202048, "hidden_act": "silu",
}  # fmt: skip
FALCON = {"model_type": "falcon", "multi_query": True, "vocab_size": 65024, "activation": "gelu"}
GEMMA = {"num_attention_heads": 16, "head_dim": 256, "vocab_size": 256000}
PUBLISHED = [
    ("Llama 4 Maverick", 400.7, 8, {
        "model_type": "llama4",
        "text_config": {**LLAMA4, "interleave_moe_layer_step": 2, "num_local_experts": 128},
    }),
    ("Llama 4 Scout", 107.8, 8, {
        "model_type": "llama4",
        "text_config": {**LLAMA4, "interleave_moe_layer_step": 1, "num_local_experts": 16},
    }),
    ("Falcon 7B", 6.92, 1, {
        **FALCON, "hidden_size": 4544, "num_hidden_layers": 32, "num_attention_heads": 71, "num_kv_heads": 71,
        "new_decoder_architecture": False,
    }),
    ("Falcon 40B", 41.3, 8, {
        **FALCON, "hidden_size": 8192, "num_hidden_layers": 60, "num_attention_heads": 128, "num_kv_heads": 8,
        "new_decoder_architecture": True,
    }),
    ("OPT 6.7B", 6.65, 32, {
        "model_type": "opt", "hidden_size": 4096, "num_hidden_layers": 32, "num_attention_heads": 32,
        "ffn_dim": 16384, "vocab_size": 50272, "activation_function": "relu",
    }),
    ("Gemma 7B", 8.54, 16, {
        **GEMMA, "model_type": "gemma", "hidden_size": 3072, "num_hidden_layers": 28, "num_key_value_heads": 16,
        "intermediate_size": 24576, "hidden_act": "gelu",
    }),
    ("Gemma 2 9B", 9.24, 8, {
        **GEMMA, "model_type": "gemma2", "hidden_size": 3584, "num_hidden_layers": 42, "num_key_value_heads": 8,
        "intermediate_size": 14336, "hidden_activation": "gelu_pytorch_tanh",
    }),
    ("BLOOM", 176.2, 112, {
        "model_type": "bloom", "n_embed": 14336, "n_layer": 70, "num_attention_heads": 112, "vocab_size": 250880,
    }),
    ("Qwen2 57B-A14B", 57.4, 4, {
        "model_type": "qwen2_moe", "hidden_size": 3584, "num_hidden_layers": 28, "num_attention_heads": 28,
        "num_key_value_heads": 4, "intermediate_size": 18944, "moe_intermediate_size": 2560,
        "shared_expert_intermediate_size": 20480, "num_experts": 64, "num_experts_per_tok": 8,
        "decoder_sparse_step": 1, "vocab_size": 151936, "hidden_act": "silu",
    }),
    ("GPT-2", 0.124, 12, {
        "model_type": "gpt2", "n_embd": 768, "n_layer": 12, "n_head": 12, "vocab_size": 50257, "n_inner": None,
        "activation_function": "gelu_new",
    }),
    ("DeepSeek V2 Lite", 15.7, 16, {
        "model_type": "deepseek_v2", "hidden_size": 2048, "num_hidden_layers": 27, "num_attention_heads": 16,
        "num_key_value_heads": 16, "intermediate_size": 10944, "moe_intermediate_size": 1408, "n_routed_experts": 64,
        "n_shared_experts": 2, "num_experts_per_tok": 6, "first_k_dense_replace": 1, "moe_layer_freq": 1,
        "q_lora_rank": None, "kv_lora_rank": 512, "qk_nope_head_dim": 128, "qk_rope_head_dim": 64, "v_head_dim": 128,
        "vocab_size": 102400,
    }),
    ("DBRX", 131.6, 8, {
        "model_type": "dbrx", "d_model": 6144, "n_heads": 48, "n_layers": 40, "vocab_size": 100352,
        "attn_config": {"kv_n_heads": 8}, "tie_word_embeddings": False,
        "ffn_config": {"ffn_hidden_size": 10752, "moe_num_experts": 16, "moe_top_k": 4},
    }),
    ("ChatGLM3 6B", 6.24, 2, {
        "model_type": "chatglm", "hidden_size": 4096, "num_layers": 28, "num_attention_heads": 32, "kv_channels": 128,
        "multi_query_attention": True, "multi_query_group_num": 2, "ffn_hidden_size": 13696,
        "padded_vocab_size": 65024, "tie_word_embeddings": False,
    }),
    ("StarCoder", 15.5, 1, {
        "model_type": "gpt_bigcode", "n_embd": 6144, "n_layer": 40, "n_head": 48, "n_inner": 24576,
        "multi_query": True, "vocab_size": 49152, "activation_function": "gelu",
    }),
    ("gpt-oss 120B", 116.8, 8, {
        "model_type": "gpt_oss", "hidden_size": 2880, "num_hidden_layers": 36, "num_attention_heads": 64,
        "num_key_value_heads": 8, "head_dim": 64, "intermediate_size": 2880, "num_local_experts": 128,
        "num_experts_per_tok": 4, "vocab_size": 201088, "hidden_act": "silu",
    }),
]  # fmt: skip
"""Published weights in billions, heads with keys, and the figures of the published configuration that decide them."""


@pytest.mark.parametrize(
    ("name", "billions", "kv_heads", "config"), PUBLISHED, ids=[one[0] for one in PUBLISHED]
)
def test_configurations_of_many_families_have_their_published_weights(
    name: str, billions: float, kv_heads: int, config: dict[str, object]
) -> None:
    model = from_config(config, name)
    assert model.parameters / 1e9 == pytest.approx(billions, rel=0.005)
    assert model.kv_heads == kv_heads
    assert not model.remarks


@pytest.mark.parametrize(
    ("change", "said"),
    [
        (
            {"model_type": "foo", "rope_theta": 1e4},
            "its model_type 'foo' is unknown: read as a transformer like Llama",
        ),
        (
            {"model_type": "foo", "my_new_block": "mamba7", "use_other_block": False},
            "its model_type 'foo' is unknown: read as a transformer like Llama, without looking at my_new_block",
        ),
        ({"model_type": None}, "it states no model_type: read as a transformer like Llama"),
        ({"model_type": "mixtral", "num_local_experts": 8, "num_experts_per_tok": 2}, ""),
        ({"model_type": "wrapped", "text_config": {"model_type": "qwen3_vl_text"}}, ""),
    ],
)
def test_a_type_that_is_not_known_is_remarked_on_with_the_keys_that_nobody_looked_at(
    change: dict[str, object], said: str
) -> None:
    stated = {**CONFIG, "num_hidden_layers": 8, **change}
    model = from_config(stated, "the one")
    assert [str(one) for one in model.remarks] == ([said] if said else [])
    assert model.parameters == from_config({**stated, "model_type": "llama"}).parameters
    for work in (
        {"batch": 1, "input_len": 64, "output_len": 8},
        {"kind": "training", "global_batch": 8, "seq_len": 64},
    ):
        found = forecast({"model": model, "gpu": "MI300X", "gpus": 8, "tp": 8, **work})
        assert found.fits, found.reason
        assert set(model.remarks) <= set(found.remarks)


@pytest.mark.parametrize(
    ("change", "named"),
    [
        ({"ssm_cfg": {}}, "ssm_cfg"),
        ({"is_encoder_decoder": True}, "decoder"),
        ({"linear_num_value_heads": 32}, "linear_num_key_heads"),
        ({"layer_types": ["full_attention"] * 79 + ["conv"]}, "layer_types = 'conv'"),
        ({"layer_types": ["full_attention"] * 8}, "layer_types holds 8 values for 80 layers"),
        ({"hybrid_override_pattern": "M*X"}, "hybrid_override_pattern = 'X'"),
        (
            {"block_configs": [{"attention": {"replace_with_linear": True}, "ffn": {}}]},
            "replace_with_linear",
        ),
        ({"compress_ratios": [4, 128]}, "compress_ratios"),
        ({"num_kv_shared_layers": 20}, "num_kv_shared_layers"),
        ({"quantization_config": {"quant_method": "vptq"}}, "quant_method = 'vptq'"),
        ({"quantization_config": {"quant_algo": "W3A3"}}, "quant_algo = 'W3A3'"),
    ],
)
def test_what_is_not_understood_is_refused_by_its_key(
    change: dict[str, object], named: str
) -> None:
    with pytest.raises(DataError, match="the one.*" + re.escape(named)):
        from_config({**CONFIG, **change}, "the one")


GRANITE: dict[str, object] = {
    "model_type": "granitemoehybrid", "num_hidden_layers": 40, "num_local_experts": 0, "num_experts_per_tok": 0,
    "num_key_value_heads": 8, "intermediate_size": 8192, "shared_intermediate_size": 8192, "vocab_size": 100352,
    "mamba_n_heads": 64, "mamba_d_head": 64, "mamba_d_state": 128, "mamba_n_groups": 1, "tie_word_embeddings": True,
}  # fmt: skip
OF_FORTY = [
    "mamba",
    "mamba",
    "mamba",
    "mamba",
    "mamba",
    "attention",
    "mamba",
    "mamba",
    "mamba",
    "mamba",
] * 4


@pytest.mark.parametrize(
    ("change", "billions"),  # of granite-4.0-h-micro and granite-4.0-micro, as published
    [
        ({"hidden_size": 2048, "num_attention_heads": 32, "layer_types": OF_FORTY}, 3.19),
        ({"hidden_size": 2560, "num_attention_heads": 40, "layer_types": ["attention"] * 40}, 3.40),
    ],
)
def test_hybrids_without_experts_or_without_states_are_read(
    change: dict[str, object], billions: float
) -> None:
    assert from_config(GRANITE | change).parameters / 1e9 == pytest.approx(billions, rel=0.01)


def test_a_state_space_is_refused_where_its_size_is_the_default_of_the_class() -> None:
    jamba = {"model_type": "jamba", "hidden_size": 4096, "num_hidden_layers": 32, "vocab_size": 65536,
             "intermediate_size": 14336, "num_attention_heads": 32, "num_experts": 16}  # fmt: skip
    with pytest.raises(DataError, match="mamba_d_state"):
        from_config(jamba)


@pytest.mark.parametrize(
    "key", ["layer_group_size", "engram_layer_ids", "hyper_connections", "ngram_vocab_size"]
)
def test_a_key_of_layers_is_no_remark(key: str) -> None:
    with pytest.raises(DataError, match=key):
        from_config({**CONFIG, "model_type": "newmodel", key: 5})


def _blocks(*sizes: tuple[int | None, float]) -> list[dict[str, object]]:
    return [
        {
            "attention": {"no_op": group is None, "n_heads_in_group": group},
            "ffn": {"no_op": False, "ffn_mult": width},
        }
        for group, width in sizes
    ]


def test_layers_need_not_be_alike() -> None:
    searched = from_config(
        {**CONFIG, "num_key_value_heads": None, "block_configs": _blocks((8, 5.25), (None, 0.5))}
    )
    assert (searched.layers, searched.attention[0].layers, searched.attention[0].kv_heads) == (
        2,
        1,
        8,
    )
    assert [one.width for one in searched.dense] == [28672, 2816]
    mixed = from_config(
        {
            **CONFIG,
            "layer_types": ["full_attention", "sliding_attention"] * 40,
            "sliding_window": 512,
        }
    )
    assert [(one.layers, one.window) for one in mixed.attention] == [(40, 0), (40, 512)]
    assert mixed.parameters == from_config(CONFIG).parameters
    linear = {"linear_num_key_heads": 16, "linear_key_head_dim": 128, "linear_value_head_dim": 128}
    hybrid = from_config(
        {**CONFIG, **linear, "linear_num_value_heads": 32, "full_attention_interval": 4}
    )
    assert (hybrid.attention[0].layers, hybrid.recurrent[0].layers, hybrid.recurrent[0].state) == (
        20,
        60,
        32 * 128**2,
    )
    one_a_layer = from_config({
        **CONFIG, "hybrid_override_pattern": "M-*-", "mamba_num_heads": 256, "mamba_head_dim": 64,
        "ssm_state_size": 256, "n_groups": 8,
    })  # fmt: skip
    assert (one_a_layer.layers, one_a_layer.recurrent[0].inner, one_a_layer.dense[0].layers) == (
        4,
        16384,
        2,
    )


FP8 = dict.fromkeys(("attention", "output", "dense", "shared", "experts"), "fp8")
GROUP = {
    "weights": {"num_bits": 4, "type": "float"},
    "input_activations": {"num_bits": 4, "type": "float"},
}
EVERY_LAYER = [f"model.layers.{place}.self_attn*" for place in range(80)]


@pytest.mark.parametrize(
    ("quantization", "formats", "cache"),
    [
        ({"quant_method": "fp8", "modules_to_not_convert": ["gate", "lm_head"]}, FP8, ""),
        (
            {"quant_method": "mxfp4", "modules_to_not_convert": ["model.layers.*.self_attn", "model.layers.*.router"]},
            {"dense": "fp4", "shared": "fp4", "experts": "fp4"}, "",
        ),
        (
            {"config_groups": {"a": GROUP}, "ignore": EVERY_LAYER, "kv_cache_scheme": {"num_bits": 8}},
            {"dense": "fp4", "shared": "fp4", "experts": "fp4"}, "fp8",
        ),
        ({"config_groups": {"a": GROUP}, "ignore": EVERY_LAYER[:3]}, dict.fromkeys(FP8, "fp4"), ""),
        (
            {
                "config_groups": {"a": {"weights": {"num_bits": 4, "type": "int"}, "input_activations": None}},
                "ignore": ["re:.*self_attn.*", "re:.*shared_experts.*", "re:.*mlp\\.(gate|up|down)_proj.*"],
            },
            {"experts": "int4/bf16"}, "",
        ),
        (
            {"quant_algo": "MIXED_PRECISION", "quantized_layers": {
                "model.layers.0.self_attn.o_proj": {"quant_algo": "FP8"},
                "model.layers.0.mlp.gate_proj": {"quant_algo": "W4A16_NVFP4"},
            }},
            {"output": "fp8", "dense": "fp4/bf16"}, "",
        ),
        ({"quant_method": "awq", "bits": 4}, dict.fromkeys(FP8, "int4/bf16"), ""),
        (
            {"quant_method": "quark", "exclude": ["lm_head"],
             "global_quant_config": {"weight": {"dtype": "fp4"}, "input_tensors": {"dtype": "fp4"}}},
            dict.fromkeys(FP8, "fp4"), "",
        ),
    ],
)  # fmt: skip
def test_the_formats_of_a_checkpoint_are_read_part_by_part(
    quantization: dict[str, object], formats: dict[str, str], cache: str
) -> None:
    model = from_config({**CONFIG, "quantization_config": quantization})
    assert (model.formats, model.kv_format) == (formats, cache)


@pytest.mark.parametrize("bits", [3, 10**400, "many"])
def test_integers_of_other_widths_are_not_taken_for_four_bits(bits: object) -> None:
    with pytest.raises(DataError, match="bits"):
        from_config({**CONFIG, "quantization_config": {"quant_method": "gptq", "bits": bits}})


def test_formats_may_stand_in_a_file_beside_the_configuration(tmp_path: Path) -> None:
    (tmp_path / "config.json").write_text(json.dumps(CONFIG))
    stated = {"quant_algo": "FP8", "kv_cache_quant_algo": "FP8", "exclude_modules": ["lm_head"]}
    (tmp_path / "hf_quant_config.json").write_text(json.dumps({"quantization": stated}))
    model = find(tmp_path)
    assert (model.formats, model.kv_format) == (FP8, "fp8")
    with pytest.raises(
        DataError, match=r"json: is the quantisation .* give the config\.json beside it"
    ):
        find(tmp_path / "hf_quant_config.json")


def test_a_model_of_the_local_cache_is_found_by_its_name(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    folder = tmp_path / "hub" / "models--some--model-9b"
    for revision, layers in (("aaa", 10), ("bbb", 20)):
        (folder / "snapshots" / revision).mkdir(parents=True)
        (folder / "snapshots" / revision / "config.json").write_text(
            json.dumps({**CONFIG, "num_hidden_layers": layers})
        )
    (folder / "refs").mkdir()
    (folder / "refs" / "main").write_text("aaa")
    monkeypatch.setenv("HF_HOME", str(tmp_path))
    monkeypatch.delenv("HF_HUB_CACHE", raising=False)
    assert (find("some/model-9b").layers, find("some/model-9b").name) == (10, "model-9b")


@pytest.mark.parametrize(
    "name", ["qwen3-8b-vision-lite", "phi-4-multimodal", "llama-3.1-8b-draft-head", "qwen3"]
)
def test_a_name_that_goes_on_otherwise_is_another_model(name: str) -> None:
    with pytest.raises(DataError, match="unknown model"):
        find(name)


@pytest.mark.parametrize(
    ("name", "known"),
    [
        ("nvidia/Llama-3.1-405B-Instruct-FP8", "llama-3.1-405b"),
        ("RedHatAI/Meta-Llama-3.1-8B-Instruct-quantized.w8a8", "llama-3.1-8b"),
        ("deepseek-ai/DeepSeek-R1-0528", "deepseek-r1"),
        ("nvidia/DeepSeek-R1-NVFP4", "deepseek-r1-nvfp4"),
        ("Qwen/Qwen3-235B-A22B-Instruct-2507-FP8", "qwen3-235b-a22b"),
        ("Qwen3-235B-FP8", "qwen3-235b-a22b"),
        ("Qwen2-57B", "qwen2-57b-a14b"),
        ("qwen25-7b", "qwen2.5-7b"),
        ("amd/gpt-oss-120b-w-mxfp4", ""),
    ],
)
def test_names_in_use_mean_the_model_catalogue(name: str, known: str) -> None:
    if known:
        assert configured_as(find(name).name) == known
    else:
        with pytest.raises(DataError, match="unknown model"):
            find(name)


@pytest.mark.parametrize(
    ("name", "title"),
    [
        ("zai-org/GLM-4.6-FP8", "glm-4.6"), ("glm-4.5", "glm-4.5"), ("MiniMaxAI/MiniMax-M2.5", "minimax-m2.5"),
        ("Llama-3.3-70B-Instruct", "llama-3.3-70b"), ("Qwen3-235B", "qwen3-235b-a22b"),
    ],
)  # fmt: skip
def test_models_of_equal_configuration_keep_the_name_that_was_asked(name: str, title: str) -> None:
    assert find(name).name == title
    assert quantised("deepseek-r1-0528") == quantised("deepseek-r1") == ["deepseek-r1-nvfp4"]


@pytest.mark.parametrize(
    ("kind", "classes", "causal"),
    [
        ("deberta-v2", [], False),
        ("xmod", ["XmodForMaskedLM"], False),
        ("llama", ["LlamaForCausalLM"], True),
    ],
)
def test_an_encoder_is_told_by_its_type_or_its_classes(
    kind: str, classes: list[str], causal: bool
) -> None:
    config = {
        "model_type": kind,
        "architectures": classes,
        "hidden_size": 768,
        "num_attention_heads": 12,
    }
    assert from_config({**config, "num_hidden_layers": 12, "vocab_size": 30522}).causal is causal


def test_a_configuration_is_called_as_its_file_or_its_folder(tmp_path: Path) -> None:
    for name in ("config.json", "other.json"):
        (tmp_path / name).write_text(json.dumps(CONFIG))
    assert [find(tmp_path / name).name for name in ("config.json", "other.json")] == [
        tmp_path.name,
        "other",
    ]


def test_weights_are_the_published_ones() -> None:
    published = {
        "llama-3.1-8b": (8.03, 8.03), "mixtral-8x7b": (46.7, 12.9), "mixtral-8x22b": (140.6, 39.1),
        "qwen3-235b-a22b": (235, 22), "qwen3-30b-a3b": (30.5, 3.3), "deepseek-v3": (671, 37.5),
        "kimi-k2": (1026, 32.9), "bert-large": (0.334, 0.334), "llama-4-maverick": (400.7, 17.2),
        "nemotron-3-ultra-550b-a55b": (550, 55), "gemma-4-26b-a4b": (25.2, 3.8), "qwen3.5-397b-a17b": (397, 17),
    }  # fmt: skip
    for name, (billions, active) in published.items():
        model = find(name)
        assert model.parameters / 1e9 == pytest.approx(billions, rel=0.01), name
        assert model.active_parameters / 1e9 == pytest.approx(active, rel=0.03), name
    text = (resources.files("flopcast.workloads") / "models.toml").read_text(encoding="utf-8")
    tables = {one["name"]: one for one in tomllib.loads(text)["model"]}
    # one in narrower formats has the weights of the one that it is `like`
    for name, table in tables.items():
        billions = tables[table.get("like", name)]["billions"]
        assert find(name).parameters / 1e9 == pytest.approx(billions, rel=0.02), name


def test_every_published_configuration_at_hand_is_read_or_refused_by_its_key() -> None:
    """Of AIConfigurator's wheel, where it was fetched; sizes are those that the names of the models state."""
    cache = Path(os.environ.get("FLOPCAST_CACHE") or Path.home() / ".cache" / "flopcast")
    folder = cache / "aiconfigurator-0.12.0" / "aiconfigurator_core" / "model_configs"
    files = [file for file in sorted(folder.glob("*_config.json")) if "hf_quant" not in file.name]
    if not files:
        pytest.skip("flopcast fetch aiconfigurator brings them")
    refused = set()
    for file in files:
        try:
            model = find(file)
        except DataError as error:
            refused.add(str(error).partition(": ")[2].partition(" = ")[0])
            continue
        if (
            stated := re.search(r"-(\d+(?:\.\d+)?)B\b(?!-16E|-128E)", file.name)
        ) and "8x" not in file.name:
            assert model.parameters / 1e9 == pytest.approx(float(stated[1]), rel=0.1, abs=0.3), (
                file.name
            )
        assert {one.code for one in model.remarks} <= {"language-model-alone"}, file.name
    assert refused <= {"compress_ratios", "attn_res_block_size"}


def test_a_configuration_file_and_a_name_are_the_same_model(tmp_path: Path) -> None:
    (tmp_path / "config.json").write_text(json.dumps(CONFIG))
    for given in (tmp_path, tmp_path / "config.json", CONFIG):
        assert _without_name(find(given)) == _without_name(find("Llama-3.1-70B-Instruct-FP8-KV"))
    assert _without_name(from_config(MIXTURE)) | {"formats": FP8} == _without_name(
        find("deepseek-ai/DeepSeek-V3")
    )


@pytest.mark.parametrize(
    ("stated", "tokens"),
    [
        ({"max_position_embeddings": 8192}, 8192),
        ({"rope_scaling": {"factor": 4.0, "original_max_position_embeddings": 32768}}, 131_072),
        ({"max_position_embeddings": "many", "rope_scaling": None}, 0),
    ],
)
def test_the_length_of_sequences_is_that_of_the_configuration(
    stated: dict[str, object], tokens: int
) -> None:
    small = {
        "model_type": "llama",
        "hidden_size": 64,
        "num_hidden_layers": 2,
        "num_attention_heads": 4,
    }
    model = from_config({**small, "intermediate_size": 128, "vocab_size": 100, **stated}, "small")
    assert model.context == tokens
    assert find("llama-3.1-70b").context == find("gpt-oss-120b").context == 131_072
    model.check_length(tokens)
    if tokens:
        with pytest.raises(ParameterError, match=f"{tokens:,} tokens"):
            model.check_length(tokens + 1)


def test_what_a_token_leaves_in_the_cache() -> None:
    assert find("llama-3.1-70b").cached_per_token == 2 * 8 * 128
    assert find("deepseek-v3").cached_per_token == 512 + 64


@pytest.mark.parametrize(
    "change", [{"num_attention_heads": -1}, {"num_hidden_layers": 1e15}, {"vocab_size": "many"}]
)
def test_figures_that_cannot_be_are_refused(change: dict[str, object]) -> None:
    with pytest.raises(DataError, match=next(iter(change))):
        from_config({**CONFIG, **change})


def test_a_missing_figure_is_named() -> None:
    with pytest.raises(DataError, match="vocab_size"):
        from_config({key: value for key, value in CONFIG.items() if key != "vocab_size"})


def test_an_unknown_name_gets_the_nearest() -> None:
    with pytest.raises(DataError, match=r"llama-3\.1-70b"):
        find("lama-3.1-70b")


@pytest.mark.parametrize("text", ["", "[]", "{", "null"])
def test_a_broken_configuration_is_one_line(tmp_path: Path, text: str) -> None:
    path = tmp_path / "config.json"
    path.write_text(text)
    with pytest.raises(DataError, match=r"config\.json") as caught:
        find(path)
    assert "\n" not in str(caught.value)


def test_every_known_model_is_found_by_its_name() -> None:
    assert [find(name).name for name in names()] == names()


def _without_name(model: Architecture) -> dict[str, object]:
    return {key: value for key, value in vars(model).items() if key != "name"}


@pytest.mark.parametrize(
    ("asked", "message"), [("", "holds no config.json"), ("none.json", r"none\.json: no such file")]
)
def test_a_folder_or_file_that_is_no_model_is_said_to_be_none(
    asked: str, message: str, tmp_path: Path
) -> None:
    with pytest.raises(DataError, match=message):
        find(tmp_path / asked)

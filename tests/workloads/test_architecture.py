"""Architectures: weights as published, names and configuration files that mean the same, figures that cannot be."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from flopcast.errors import DataError
from flopcast.workloads.architecture import Architecture, find, from_config, names

CONFIG = {
    "model_type": "llama",
    "hidden_size": 8192,
    "num_hidden_layers": 80,
    "num_attention_heads": 64,
    "num_key_value_heads": 8,
    "intermediate_size": 28672,
    "vocab_size": 128256,
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


@pytest.mark.parametrize(
    ("name", "billions", "active"),
    [
        ("llama-2-7b", 6.74, 6.74),
        ("llama-3.1-8b", 8.03, 8.03),
        ("llama-3.1-70b", 70.6, 70.6),
        ("llama-3.1-405b", 405.9, 405.9),
        ("mixtral-8x7b", 46.7, 12.9),
        ("mixtral-8x22b", 140.6, 39.1),
        ("qwen3-235b-a22b", 235, 22),
        ("deepseek-v3", 671, 37.5),
        ("bert-large", 0.334, 0.334),
    ],
)
def test_weights_are_the_published_ones(name: str, billions: float, active: float) -> None:
    model = find(name)
    assert model.parameters / 1e9 == pytest.approx(billions, rel=0.01)
    assert model.active_parameters / 1e9 == pytest.approx(active, rel=0.01)


def test_a_configuration_file_and_a_name_are_the_same_model(tmp_path: Path) -> None:
    (tmp_path / "config.json").write_text(json.dumps(CONFIG))
    for given in (tmp_path, tmp_path / "config.json", CONFIG):
        assert _without_name(find(given)) == _without_name(find("Llama-3.1-70B-Instruct-FP8-KV"))
    assert _without_name(from_config(MIXTURE)) == _without_name(find("deepseek-ai/DeepSeek-V3"))


def test_what_a_token_leaves_in_the_cache() -> None:
    assert find("llama-3.1-70b").cached_per_token == 2 * 8 * 128
    assert find("deepseek-v3").cached_per_token == 512 + 64


@pytest.mark.parametrize("change", [{"num_attention_heads": -1}, {"num_hidden_layers": 1e15}, {"vocab_size": "many"}])
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

"""What one GPU does for a layer: all weights once over the GPUs, attention counted by hand, cuts that cannot be."""

from __future__ import annotations

import pytest

from flopcast.errors import ParameterError
from flopcast.workloads.architecture import attention_flop, cached_per_token, check_split, find, layer, names


@pytest.mark.parametrize("name", names())
@pytest.mark.parametrize("tp", [1, 2, 8])
def test_the_gpus_together_hold_every_weight(name: str, tp: int) -> None:
    model = find(name)
    held = layer(model, tp).weights * tp * model.layers
    stored = model.parameters - model.embedding_parameters
    # Each GPU holds all of the router, of the compressions of latent attention, and of key heads that are fewer.
    copied = 0.0
    if model.latent:
        one = model.latent
        copied += model.layers * model.hidden * (one.query_rank + one.cache_rank + one.rotary)
    elif tp > model.kv_heads:
        copied += (
            model.layers * 2 * model.kv_heads * model.head_dim * model.hidden * (tp / model.kv_heads - 1) / (tp - 1)
        )
    copied += model.mixture_layers * model.hidden * model.experts
    assert held == pytest.approx(stored + (tp - 1) * copied, rel=1e-6)


def test_experts_are_cut_over_groups() -> None:
    whole, cut = layer(find("deepseek-v3"), tp=1), layer(find("deepseek-v3"), tp=1, ep=8)
    assert whole.experts is not None
    assert cut.experts is not None
    assert cut.experts.held * 8 == whole.experts.held == 256
    assert cut.experts.visits(100) == 8 * 100 * 8 / 8  # of 8 senders
    assert 1 <= cut.experts.touched(1) <= cut.experts.touched(10_000) <= 32


@pytest.mark.parametrize(("tp", "ep"), [(1, 8), (2, 8), (8, 8), (8, 2), (8, 1)])
def test_the_experts_do_the_same_work_however_they_are_cut(tp: int, ep: int) -> None:
    model = find("deepseek-v3")
    cut = layer(model, tp, ep).experts
    assert cut is not None
    each = sum(one.outputs * one.inputs for one in cut.matrices)
    assert cut.visits(64) * each * tp == pytest.approx(64 * model.experts_per_token * model.expert_parameters)


def test_heads_with_keys_are_cut_whole_or_copied() -> None:
    config = {"hidden_size": 3072, "num_hidden_layers": 2, "num_attention_heads": 24, "num_key_value_heads": 8}
    model = find({**config, "vocab_size": 1000})
    for tp in (2, 8, 24):
        check_split(model, tp)
    with pytest.raises(ParameterError, match="1, 2, 4, 8, 24"):
        check_split(model, 3)


def test_attention_of_a_causal_prompt_is_half_of_the_square() -> None:
    model = find("llama-3.1-70b")
    assert attention_flop(model, 1000, 1000, 1) == pytest.approx(4 * 1000**2 / 2 * 64 * 128)
    assert attention_flop(model, 1, 1000, 8) == pytest.approx(4 * 999.5 * 64 * 128 / 8)
    assert attention_flop(find("bert-large"), 512, 512, 1) == pytest.approx(4 * 512**2 * 16 * 64)


def test_the_cache_is_cut_as_long_as_there_are_heads() -> None:
    model = find("llama-3.1-70b")
    assert [cached_per_token(model, tp) for tp in (1, 8, 16)] == [2048, 256, 256]
    assert cached_per_token(find("deepseek-v3"), 8) == 576


@pytest.mark.parametrize(("tp", "ep", "named"), [(3, 1, "tp"), (1, 2, "ep")])
def test_cuts_that_cannot_be_name_their_parameter(tp: int, ep: int, named: str) -> None:
    with pytest.raises(ParameterError) as caught:
        check_split(find("llama-3.1-70b"), tp, ep)
    assert caught.value.parameter == named

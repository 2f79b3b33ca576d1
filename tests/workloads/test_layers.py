"""What one GPU does for a layer: all weights once over the GPUs, attention counted by hand, cuts that cannot be."""

from __future__ import annotations

import pytest

from flopcast.errors import ParameterError
from flopcast.workloads.architecture import (
    attention_flop,
    cached_bytes,
    cached_per_token,
    check_split,
    cuts_heads,
    layer,
    read_bytes,
)
from flopcast.workloads.model_catalogue import find, names


@pytest.mark.parametrize("name", names())
def test_the_gpus_together_hold_every_weight(name: str) -> None:
    model = find(name)
    stored = model.parameters - model.embedding_parameters
    for tp in (tp for tp in (1, 2, 8) if cuts_heads(model, tp)):
        cut = layer(model, tp)
        # Each GPU holds all of routers and compressions, and of heads with keys that are fewer than the GPUs.
        copied = sum(one.weights for one in cut.matrices if not one.cut)
        for one in (one for one in model.attention if one.latent is None and tp > one.kv_heads):
            keys = one.head_dim + (0 if one.one_projection else one.value)
            copied += (
                one.layers / model.layers * keys * model.hidden * (tp - one.kv_heads) / (tp - 1)
            )
        held = cut.weights * tp - (tp - 1) * copied
        # widths that tp does not divide are rounded up
        assert held * model.layers == pytest.approx(stored, rel=1e-3)


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
    assert cut.visits(64) * each * tp == pytest.approx(
        64 * model.experts_per_token * model.expert_parameters
    )


def test_heads_with_keys_are_cut_whole_or_copied() -> None:
    config = {
        "hidden_size": 3072,
        "num_hidden_layers": 2,
        "num_attention_heads": 24,
        "num_key_value_heads": 8,
    }
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


def test_a_window_bounds_what_is_kept_read_and_computed() -> None:
    model, bits = find("gpt-oss-120b"), 16.0
    every = 2 * 8 * 64 * bits / 8  # of one token in one layer
    assert cached_bytes(model, 1, 100, bits) == pytest.approx(36 * 100 * every)
    assert cached_bytes(model, 1, 10_000, bits) == pytest.approx(18 * (10_000 + 128) * every)
    assert read_bytes(model, 1, 10_000, bits) == cached_bytes(model, 1, 10_000, bits)
    # of 1000 new tokens in a window of 128 the first 128 see all before them
    near, far = 128 * 128 / 2 + 872 * 128, 1000**2 / 2
    assert attention_flop(model, 1000, 1000, 1) == pytest.approx(4 * 64 * 64 * (near + far) / 2)
    assert attention_flop(model, 1, 5000, 1) == pytest.approx(
        4 * 64 * 64 * (128 + 4999.5) / 2, rel=1e-4
    )


def test_sparse_attention_keeps_all_and_reads_what_it_picks() -> None:
    model = find("deepseek-v3.2")
    assert cached_bytes(model, 8, 50_000, 8.0) == pytest.approx(61 * 50_000 * (576 + 128))
    assert read_bytes(model, 8, 50_000, 8.0) == pytest.approx(61 * (2048 * 576 + 50_000 * 128))


def test_a_recurrent_layer_keeps_as_much_however_long_the_sequence() -> None:
    model = find("qwen3.5-27b")
    kept = [float(cached_bytes(model, 2, tokens, 16.0)) for tokens in (0, 1000, 2000)]
    assert kept[0] == pytest.approx(48 * 48 * 128 * 128 * 4 / 2)
    assert kept[2] - kept[1] == pytest.approx(1000 * 16 * 2 * 2 * 256 * 2)
    assert model.sums == 2.0
    assert find("nemotron-h-56b").sums == 1.0  # each layer is a mixer or a feed-forward part

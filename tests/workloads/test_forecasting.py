"""Forecasts: what must rise rises, what cannot run has its reason, intervals widen with the distance."""

from __future__ import annotations

import math
from itertools import pairwise
from typing import Any

import numpy as np
import pandas as pd
import pytest

from flopcast.benchmarks.forecast_releases import RUNS, fitted, in_order, published_runs, rows_of
from flopcast.errors import FlopcastError, ParameterError
from flopcast.tests.commands.running import call
from flopcast.workloads import model_catalogue
from flopcast.workloads.forecasting import (
    BEYOND,
    OTHER_MODEL,
    OTHER_RELEASE,
    forecast,
    forecast_all,
    roofline_s,
)
from flopcast.workloads.releases import RESIDUAL, as_rows
from flopcast.workloads.setting import complete

ASKED = {
    "model": "llama-3.1-70b",
    "gpu": "MI300X",
    "gpus": 8,
    "dtype": "fp8",
    "input_len": 512,
    "output_len": 256,
}
SERVED = {**ASKED, "kind": "throughput", "num_prompts": 200, "max_num_seqs": 200}


def _answer(**changes: Any) -> Any:
    return forecast({**ASKED, "batch": 8, **changes})


def width(**asked: Any) -> float:
    answer = forecast(asked)
    return math.log(answer.upper / answer.lower)


@pytest.mark.parametrize("model", ["llama-3.1-70b", "qwen3-235b-a22b", "qwen3-32b"])
@pytest.mark.parametrize("gpu", ["MI300X", "H200"])
@pytest.mark.parametrize(
    "work", [{"batch": 1}, {"num_prompts": 500, "kind": "throughput"}], ids=["batch", "requests"]
)
def test_less_knowledge_never_narrows_a_forecast(
    model: str, gpu: str, work: dict[str, Any]
) -> None:
    setting = {"model": model, "gpu": gpu, "gpus": 8, "tp": 8, "dtype": "fp8", **work}
    setting |= {"input_len": 1024, "output_len": 512}
    named, unnamed = width(**setting, release="vllm-0.10.0"), width(**setting)
    assert named <= unnamed * (1 + 1e-9)
    # what nodes are joined by
    assert named <= width(**setting, release="vllm-0.10.0", node_gpus=4) * (1 + 1e-9)
    assert unnamed <= width(**setting, node_gpus=4) * (1 + 1e-9)


@pytest.mark.parametrize("field", ["batch", "input_len", "output_len"])
def test_more_work_takes_longer(field: str) -> None:
    times = [_answer(**{field: count}).predicted for count in (16, 64, 256)]
    assert times == sorted(times)


@pytest.mark.parametrize(("gpu", "node"), [("MI300A", 4), ("MI300X", 8), ("GB200", 72)])
def test_a_node_has_as_many_gpus_as_its_figures_say(gpu: str, node: int) -> None:
    setting = {
        "model": "llama-3.1-8b",
        "gpu": gpu,
        "gpus": 8,
        "batch": 8,
        "input_len": 128,
        "output_len": 128,
    }
    assert complete(setting).node_gpus == node
    assert complete(setting | {"node_gpus": 2}).node_gpus == 2
    assert complete(setting).tp == min(node, 8)


def test_parts_add_up_and_lie_in_their_intervals() -> None:
    found = _answer(release="vllm-0.8.5")
    assert sum(middle for middle, _, _ in found.parts.values()) == pytest.approx(
        found.predicted, rel=0.02
    )
    assert all(low <= middle <= high for middle, low, high in found.parts.values())
    assert found.lower < found.predicted < found.upper
    assert found.details["energy_j"] == pytest.approx(found.details["power_w"] * found.predicted)
    assert found.details["power_w"] < 8 * 750


def test_a_cached_prompt_and_graphs_save_time() -> None:
    eager, plain, cached = _answer(eager=True), _answer(), _answer(prefix_cache=True)
    assert cached.predicted < plain.predicted < eager.predicted


def test_the_interval_widens_with_the_distance() -> None:
    near, far = _answer(release="vllm-0.8.5"), _answer(release="vllm-0.8.5", model="llama-3.1-8b")
    farther, any_release = _answer(release="vllm-0.8.5", gpu="MI355X"), _answer()
    assert near.half_width < far.half_width
    assert near.half_width < any_release.half_width < farther.half_width
    assert (near.sure(0.1), far.sure(0.01), farther.sure(0.9)) == (
        "reached",
        "not reached",
        "unknown",
    )


def test_the_same_seed_gives_the_same_answer() -> None:
    assert _answer() == _answer()
    assert forecast({**ASKED, "batch": 8}, seed=1).predicted == pytest.approx(
        _answer().predicted, rel=0.01
    )


def test_what_does_not_fit_has_no_time_but_a_way_out() -> None:
    found = _answer(model="llama-3.1-405b", dtype="bf16", gpus=4)
    assert np.isnan(found.predicted)
    assert found.fits is False
    assert found.reason.code == "does-not-fit"
    assert found.reason.values["needed_tp"] == 8
    assert found.sure(0.5) == "unknown"
    assert forecast(
        {**ASKED, "batch": 8, "model": "llama-3.1-405b", "dtype": "bf16", "gpus": 8}
    ).fits


def test_sequences_that_have_no_room_wait() -> None:
    work = {"input_len": 32768, "output_len": 512}
    queued = _answer(**work, batch=512)
    at_once = int(queued.details["sequences_at_once"])
    assert at_once < 512
    assert [note.values["at_once"] for note in queued.remarks if note.code == "queued"] == [at_once]
    whole = _answer(**work, batch=at_once)
    assert "queued" not in [note.code for note in whole.remarks]
    assert queued.predicted > 512 / at_once * whole.predicted * 0.9
    assert "first_token_s" in whole.details
    assert "first_token_s" not in queued.details


def test_the_time_per_token_is_that_of_decoding() -> None:
    found = _answer(batch=8, input_len=8192, output_len=100)
    first, each = found.details["first_token_s"], found.details["seconds_per_token"]
    assert first + 99 * each == pytest.approx(found.predicted, rel=0.02)
    assert each < 0.7 * found.predicted / 100
    assert found.details["first_token_s_lower"] < first < found.details["first_token_s_upper"]


def test_eager_launches_hide_behind_long_kernels_and_have_a_spread() -> None:
    few, many = ({"batch": size, "input_len": 128, "output_len": 64} for size in (1, 1024))
    slower = {size: _answer(**work, eager=True).predicted / _answer(**work).predicted
              for size, work in ((1, few), (1024, many))}  # fmt: skip
    assert slower[1] > 1.15
    assert slower[1024] < 1.02
    assert _answer(**few, eager=True).spreads["eager"] > 0.03


def test_all_that_is_missing_is_named_at_once() -> None:
    with pytest.raises(ParameterError) as caught:
        forecast({"model": "llama-3.1-70b", "gpu": "MI300X"})
    assert (caught.value.parameter, caught.value.others) == ("batch", ("input_len", "output_len"))
    told = call("forecast", "llama-3.1-70b", "--gpu", "MI300X", "--batch", "1", "--gpus", "8")
    assert "--output-len" in told.stderr
    assert "output_len" not in told.stderr


def test_requests_that_wait_for_memory_take_longer_than_their_share() -> None:
    roomy, tight = (
        forecast(
            {
                **SERVED,
                "model": "llama-3.1-405b",
                "input_len": 8192,
                "num_prompts": 400,
                "gpus": gpus,
            }
        )
        for gpus in (8, 4)
    )
    assert tight.details["sequences_at_once"] < roomy.details["sequences_at_once"]
    assert tight.predicted < roomy.predicted / 1.8


def test_replicas_share_the_batch() -> None:
    one, two = _answer(), _answer(gpus=16, tp=8, batch=16)
    assert two.setting.dp == 2
    assert two.predicted == pytest.approx(one.predicted)
    assert two.details["tokens_per_second"] == pytest.approx(2 * one.details["tokens_per_second"])


def test_the_memory_is_that_of_the_last_step() -> None:
    found = _answer(output_len=4096)
    cache = 8 * (512 + 4096) * 80 * 2048 / 8 / 2**30  # of 80 layers, in 8 bits, cut over 8 GPUs
    assert found.memory["cache"] == pytest.approx(cache)
    served = forecast({**SERVED, "output_len": 4096, "num_prompts": 8, "max_num_seqs": 8})
    assert served.memory["cache"] == pytest.approx(cache)
    assert served.details["sequences_at_once"] == 8


def test_the_largest_step_has_no_more_tokens_than_there_are() -> None:
    assert complete({**ASKED, "batch": 8}).max_batched_tokens == 8 * 512
    assert complete({**ASKED, "batch": 8, "input_len": 32768}).max_batched_tokens == 65536
    assert complete({**ASKED, "batch": 8, "max_batched_tokens": 8192}).max_batched_tokens == 8192
    small = {
        **ASKED,
        "model": "llama-3.1-8b",
        "gpu": "RTX 4090",
        "gpus": 1,
        "dtype": "bf16",
        "batch": 1,
    }
    assert forecast(small).fits
    stated = forecast({**small, "max_batched_tokens": 65536})
    assert stated.fits is False
    assert stated.reason is not None
    assert forecast({**small, "max_batched_tokens": stated.reason.values["largest_step"]}).fits


def test_the_number_format_in_a_name_is_taken() -> None:
    asked = {name: value for name, value in ASKED.items() if name != "dtype"} | {"batch": 8}
    formats = [
        complete({**asked, "model": f"Llama-3.1-70B{end}"}).dtype
        for end in ("", "-Instruct", "-FP8-KV")
    ]
    assert formats == ["bf16", "bf16", "fp8"]


def test_stages_share_the_layers_and_the_memory() -> None:
    whole, cut = (_answer(model="llama-3.1-8b", gpus=pp, tp=1, pp=pp, batch=64) for pp in (1, 2))
    assert whole.predicted / 2 < cut.predicted < whole.predicted
    assert cut.memory_gb < whole.memory_gb
    assert cut.memory["cache"] == pytest.approx(whole.memory["cache"] / 2)
    assert cut.half_width > whole.half_width
    assert "stages" in cut.spreads
    served = [forecast({**SERVED, "tp": 4, "gpus": gpus, "pp": gpus // 4}) for gpus in (4, 8)]
    assert served[0].predicted < served[1].predicted < 2.2 * served[0].predicted


def test_a_replica_beyond_a_node_takes_the_network() -> None:
    near, slow, fast = (_answer(gpus=16, tp=16, **network) for network in NETWORKS)
    assert near.predicted < fast.predicted < slow.predicted
    assert "network" in fast.spreads
    assert "network" not in near.spreads


NETWORKS = ({"node_gpus": 16}, {"network_gbs": 10}, {"network_gbs": 100})


@pytest.mark.parametrize(
    ("change", "parameter"),
    [
        ({"tp": 3}, "tp"),
        ({"batch": 0}, "batch"),
        ({"batch": 2.5}, "batch"),
        ({"gpus": 6}, "tp"),
        ({"kind": "training", "global_batch": 8, "seq_len": 128, "dtype": "fp4"}, "dtype"),
        ({"memory_utilisation": 1.5}, "memory_utilisation"),
        ({"kind": "dreaming"}, "kind"),
        ({"batch": None}, "batch"),
        ({"eager": "perhaps"}, "eager"),
        ({"memory_utilisation": "most"}, "memory_utilisation"),
        ({"network_gbs": 0}, "network_gbs"),
        ({"zero": 4}, "zero"),
        ({"gpus": 16, "cp": 2}, "cp"),
        ({"network_us": -1}, "network_us"),
        ({"pp": 90, "gpus": 90, "tp": 1}, "pp"),
        ({"kind": "training", "global_batch": 9, "seq_len": 128}, "global_batch"),
        ({"model": "mixtral-8x7b", "gpus": 1, "ep": 8, "dtype": "bf16"}, "ep"),
        ({"model": "bert-large", "gpus": 1, "dtype": "bf16"}, "output_len"),
        (
            {"kind": "training", "global_batch": 8, "seq_len": 128, "pp": 8, "interleave": 11},
            "interleave",
        ),
    ],
)
def test_what_cannot_be_names_its_parameter(change: dict[str, Any], parameter: str) -> None:
    with pytest.raises(ParameterError) as caught:
        _answer(**change)
    assert caught.value.parameter == parameter


def test_the_other_rows_are_answered() -> None:
    bad = [
        {"model": "nonesuch"},
        {"model": "7" * 999},
        {"nonsense": 1},
        {"gpu": "MI999"},
        {"release": "vllm-9"},
        {"dtype": "fp3"},
    ]
    found = forecast_all([{**ASKED, "batch": 8, **change} for change in ({}, *bad, {"batch": 1})])
    assert [one.reason is None for one in found] == [True, *[False] * len(bad), True]
    assert all("\n" not in str(one.reason.values) for one in found if one.reason)


# AMD's published runs on 8x MI300X.


@pytest.fixture(scope="module")
def runs(shared_data: Any) -> tuple[pd.DataFrame, np.ndarray]:
    table = published_runs(shared_data / "workloads" / RUNS)
    return table, rows_of(table)


def _errors(
    runs: tuple[pd.DataFrame, np.ndarray], train: np.ndarray, test: np.ndarray
) -> np.ndarray:
    """Return forecast over measured, less one, of some runs by the constants of others."""
    table, rows = runs
    release = fitted(table[train], rows[train], "trial")
    return rows[test] @ np.exp(release.mean) / table["seconds"].to_numpy()[test] - 1


def test_one_model_forecasts_the_other(runs: tuple[pd.DataFrame, np.ndarray]) -> None:
    table, _ = runs
    latency = (table["kind"] == "inference").to_numpy()
    for learnt, asked, most in (
        ("llama-3.1-70b", "llama-3.1-405b", 0.05),
        ("llama-3.1-405b", "llama-3.1-70b", 0.08),
    ):
        errors = []
        for name in in_order(table["release"]):
            here = latency & (table["release"] == name).to_numpy()
            of = table["model"].to_numpy()
            errors.append(np.abs(_errors(runs, here & (of == learnt), here & (of == asked))))
        assert np.mean([one.mean() for one in errors]) <= most
        assert max(one.max() for one in errors) <= 0.20


def test_one_release_forecasts_the_next(runs: tuple[pd.DataFrame, np.ndarray]) -> None:
    table, rows = runs
    latency = (table["kind"] == "inference").to_numpy()
    order = in_order(table["release"])
    errors, inside = [], []
    for before, after in pairwise(order):
        train, test = (latency & (table["release"] == name).to_numpy() for name in (before, after))
        errors.append(_errors(runs, train, test))
        release = fitted(table[train], rows[train], "trial")
        shares = rows[test] * np.exp(release.mean)
        own = np.sqrt(
            np.sum((shares / shares.sum(axis=1, keepdims=True) @ release.root) ** 2, axis=1)
        )
        half = 1.645 * np.sqrt(own**2 + RESIDUAL**2 + OTHER_RELEASE**2)
        inside.append(np.abs(np.log1p(errors[-1])) <= half)
        assert np.exp(half).max() - 1 <= 0.16
    assert np.mean([np.abs(one).mean() for one in errors]) <= 0.05
    assert 0.85 <= np.mean(np.concatenate(inside)) <= 0.97


def test_throughput_from_latencies_and_from_the_other_model(
    runs: tuple[pd.DataFrame, np.ndarray],
) -> None:
    table, _ = runs
    latency, of = (table["kind"] == "inference").to_numpy(), table["model"].to_numpy()
    same, other = [], []
    for name in in_order(table["release"]):
        here = (table["release"] == name).to_numpy()
        same.append(np.abs(1 / (1 + _errors(runs, here & latency, here & ~latency)) - 1).mean())
        for learnt in np.unique(of):
            found = _errors(runs, here & (of == learnt), here & ~latency & (of != learnt))
            other.append(np.abs(1 / (1 + found) - 1).mean())
    assert np.mean(same) <= 0.12
    assert np.mean(other) <= 0.07


def test_the_shipped_releases_are_those_of_the_runs(runs: tuple[pd.DataFrame, np.ndarray]) -> None:
    from flopcast.workloads.releases import shipped_releases

    table, rows = runs
    assert list(shipped_releases()) == in_order(table["release"])
    for name, shipped in shipped_releases().items():
        here = (table["release"] == name).to_numpy()
        assert shipped.mean == pytest.approx(fitted(table[here], rows[here], name).mean, abs=1e-3)


def test_numbers_of_a_table_are_texts() -> None:
    assert _answer(memory_utilisation="0.5", batch="8", gpus="8.0").memory_gb == _answer().memory_gb


def test_unknown_fields_are_refused() -> None:
    with pytest.raises(FlopcastError, match="batch"):
        _answer(bach=8)


def test_spreads_are_told() -> None:
    assert set(_answer().spreads) >= {"residual", "model", "release"}
    many = forecast({**SERVED, "num_prompts": 5000, "max_num_seqs": 5000, "release": "vllm-0.8.5"})
    assert many.spreads["beyond"] == BEYOND
    assert OTHER_MODEL > 0
    assert as_rows([]).shape == (0, 7)


def test_peak_rates_alone_counted_by_hand() -> None:
    one = complete({**ASKED, "batch": 2})
    model, gpu = one.model, one.gpu
    prompts = 2 * model.parameters * 2 * 512 / (8 * gpu.peak_tflops("fp8") * 1e12)
    weights, cache = model.parameters, 2 * (512 + 128) * model.cached_per_token * model.layers
    steps = 256 * (weights + cache) / (8 * gpu.require("memory_bw_gbs") * 1e9)
    assert roofline_s(one) == pytest.approx(prompts + steps)
    assert _answer().details["roofline_s"] < _answer().lower


def test_peak_rates_alone_read_the_weights_of_every_replica_and_the_experts_that_are_visited() -> (
    None
):
    one, eight = (complete({**ASKED, "gpus": n, "tp": 1, "batch": n}) for n in (1, 8))
    assert roofline_s(eight) == pytest.approx(roofline_s(one))
    short = {**ASKED, "model": "mixtral-8x7b", "gpus": 1, "input_len": 1}
    few, all_of_them = (complete({**short, "batch": n}) for n in (1, 64))
    ratio = few.model.active_parameters / few.model.parameters
    assert roofline_s(few) / roofline_s(all_of_them) == pytest.approx(ratio, rel=0.1)


def test_a_checkpoint_is_forecast_in_the_formats_it_is_published_in() -> None:
    work = {"gpu": "MI300X", "gpus": 1, "batch": 4, "input_len": 1000, "output_len": 100}
    own = forecast({**work, "model": "gpt-oss-120b"})
    assert own.setting is not None
    assert (own.setting.dtype, own.setting.kv_dtype) == ("fp4", "bf16")
    # 114.7e9 weights of experts in 4.25 bits, 2.1e9 others in 16: what its files hold
    assert own.memory["weights"] == pytest.approx(
        (114.7 * 4.25 / 8 + 2.1 * 2) * 1e9 / 2**30, rel=0.01
    )
    wide = forecast({**work, "model": "gpt-oss-120b", "dtype": "bf16", "gpus": 2})
    assert wide.memory["weights"] * 2 == pytest.approx(116.8 * 2e9 / 2**30, rel=0.01)
    assert forecast({**work, "model": "deepseek-r1", "gpus": 8}).memory["weights"] < 90


def test_weights_without_units_are_read_narrow_and_computed_wide() -> None:
    work = {"model": "llama-3.1-8b", "gpu": "MI300X", "input_len": 2000, "output_len": 1}
    narrow, wide = (
        forecast({**work, "batch": 64, "dtype": name, "kv_dtype": "bf16"})
        for name in ("fp4", "bf16")
    )
    assert [note.code for note in narrow.remarks if note.code == "widened"] == ["widened"]
    # computing takes as long
    assert narrow.parts["products"][0] == pytest.approx(wide.parts["products"][0], rel=0.05)
    few = {**work, "batch": 1, "input_len": 1, "output_len": 100, "kv_dtype": "bf16"}
    narrow, wide = (forecast({**few, "dtype": name}) for name in ("fp4", "bf16"))
    # of which the output matrix stays wide
    assert narrow.parts["products"][0] < 0.55 * wide.parts["products"][0]
    old = forecast({**work, "gpu": "A100 80GB SXM4", "batch": 1, "dtype": "fp8"})
    assert old.reason is None


def test_a_model_of_every_kind_of_layer_is_forecast() -> None:
    work = {"gpu": "MI300X", "gpus": 1, "batch": 8, "output_len": 200}
    found = {}
    for name in model_catalogue.names():
        if name == "bert-large":
            continue
        longest = (model_catalogue.find(name).context or 30_200) - 200
        found[name] = forecast({**work, "model": name, "input_len": min(longest, 30_000)})
    assert not [
        name for name, one in found.items() if one.reason and one.reason.code != "does-not-fit"
    ]
    assert found["qwen3.5-27b"].parts["cache"][0] < 0.5 * found["qwen3-32b"].parts["cache"][0]

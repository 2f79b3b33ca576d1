"""Runs of serving: models by name become figures, and a model is trained over the GPUs of its rows."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest

import flopcast as fc
from flopcast.projection.collective_laws import ONE_NODE
from flopcast.workloads.kernel_times import Sources
from flopcast.workloads.model_catalogue import find
from flopcast.workloads.serving import described, figures


def run(**other: Any) -> dict[str, Any]:
    return {
        "op": "serving", "device": "MI300X", "model": "llama-3.1-70b", "engine": "vllm", "dtype_a": "fp8",
        "input_len": 1024, "output_len": 512, "concurrency": 8, "tp": 8, "ttft_ms": 100.0, "tpot_ms": 12.0,
    } | other  # fmt: skip


def test_figures_follow_from_the_name_and_what_a_row_states_is_kept() -> None:
    rows = pd.DataFrame(
        [run(), run(model="deepseek-ai/DeepSeek-R1", parameters=7e11), run(model="no such model")]
    )
    found, why = described(rows)
    assert found["parameters"].iloc[0] == pytest.approx(70.6e9, rel=0.01)
    assert found["parameters"].iloc[1] == 7e11
    assert found["cache_heads"].tolist()[:2] == [8.0, 1.0]
    assert [bool(one) for one in why] == [False, False, True]


def test_routed_experts_are_told_from_what_every_token_meets() -> None:
    found = figures(find("deepseek-r1"))
    assert found["routed_parameters"] == pytest.approx(58 * 256 * 3 * 7168 * 2048)
    assert found["active_parameters"] < 0.06 * found["parameters"]


def test_runs_of_unknown_models_and_impossible_ones_are_refused() -> None:
    rows = [run(), run(model="no such model"), run(concurrency=4096, ttft_ms=1.0, tpot_ms=0.1)]
    found = fc.read(pd.DataFrame(rows))
    assert len(found.frame) == 1
    assert found.rejected["reason"].tolist() == ["unknown-model", "above-peak"]


@pytest.mark.parametrize(
    ("column", "other"),
    [
        ("tpot_ms", {"tpot_ms": 0.012}),
        ("ttft_ms", {"ttft_ms": 0.1}),
        ("tpot_ms", {"tpot_ms": 0.012, "ttft_ms": 0.1}),
    ],
)
def test_a_token_or_prompt_faster_than_its_weights_and_flops_is_refused(
    column: str, other: dict[str, float]
) -> None:
    """A token of 70 GB of weights takes at least 1.7 ms of 8 GPUs of 5.3 TB/s."""
    found = fc.read(pd.DataFrame([run(), run(concurrency=16, **other)]))
    assert found.frame["tpot_ms"].tolist() == [12.0]
    assert found.rejected["reason"].tolist() == ["above-peak"]
    assert found.rejected["detail"].str.startswith(f"{column} is").all()
    assert (
        len(fc.read(pd.DataFrame([run(), run(concurrency=16, **other)]), keep=["impossible"]).frame)
        == 2
    )


def test_drafted_tokens_may_be_faster_than_the_weights_are_read() -> None:
    """At 2.6 tokens a step each token takes less than its share of a step."""
    found = fc.read(pd.DataFrame([run(tpot_ms=1.0, variant="eagle", tp=8), run(tpot_ms=1.0)]))
    assert found.frame["variant"].tolist() == ["eagle"]


def sample() -> pd.DataFrame:
    """Return runs of four models on three GPUs whose times are half as long again as the law says."""
    rng = np.random.default_rng(0)
    rows = [
        run(model=model, device=device, concurrency=users, input_len=prompt, tp=tp)
        for model in ("llama-3.1-8b", "llama-3.1-70b", "qwen3-32b", "mixtral-8x7b")
        for device in ("MI300X", "H200 SXM", "B200 (HGX)")
        for users in (1, 8, 64)
        for prompt in (512, 4096)
        for tp in (2, 4)
    ]
    from flopcast.laws.serving_steps import steps
    from flopcast.operators.operators import complete

    frame = described(pd.DataFrame(rows))[0]
    law = steps(complete(frame)).law("tpot_ms", frame["output_len"].to_numpy(dtype=float))
    assert law is not None
    return pd.DataFrame(rows).assign(
        tpot_ms=1.5 * law * np.exp(0.02 * rng.standard_normal(len(rows)))
    )


def test_a_run_is_trained_over_all_gpus_and_predicts_one_it_has_not_seen() -> None:
    table = sample()
    trained = fc.train(
        table, target="all", metric="tpot_ms", group="device", models=["Additive"], jobs=1
    )
    errors = trained.table.query("scheme == 'grouped'").set_index("name")["e_out"]
    assert errors["sum of parts"] == pytest.approx(100 / 3, rel=0.1)
    assert errors["Additive"] < 5
    asked = pd.DataFrame([run(device="MI355X"), run(model="no such model")])
    found = trained.predict(asked)
    assert found["predicted_ms"].iloc[0] > 0
    assert np.isnan(found["predicted_ms"].iloc[1])


@pytest.mark.parametrize("target", ["all", "H200 SXM"])
def test_a_rule_that_reads_no_feature_is_saved_where_it_is_selected(
    target: str, tmp_path: Path
) -> None:
    trained = fc.train(
        sample(), target=target, metric="tpot_ms", group="model", models=["Lasso"], jobs=1
    )
    name = trained.selected["name"]
    assert name in ("constant ratio", "affine")
    assert trained.model.name == name
    trained.save(tmp_path / "run")
    asked = pd.DataFrame([run(device="H200 SXM", concurrency=users) for users in (2, 8, 100)])
    for one in (trained, fc.load(tmp_path / "run")):
        found = one.predict(asked)
        np.testing.assert_allclose(found["predicted_ms"], found[name], rtol=1e-3)
        assert (found["predicted_ms"] / found["sum of parts"]).to_numpy() == pytest.approx(
            1.5, rel=0.05
        )
        # of its own errors, which are of 2 %
        assert (found["upper_ms"] < 1.5 * found["lower_ms"]).all()
    # no model was told
    assert not [column for column in trained.dataset.X if column.startswith("rule.")]


def test_an_engine_reduces_short_messages_on_new_gpus_faster_than_their_library() -> None:
    gpu, sources = fc.gpu("MI355X"), Sources()
    sizes = np.array([16e3, 256e3])
    library = sources.collective_us(gpu, "all_reduce", sizes, 8, ONE_NODE)
    engine = sources.collective_us(gpu, "all_reduce", sizes, 8, ONE_NODE, engine=True)
    assert (engine < 0.7 * library).all()
    known = fc.gpu("MI300X")
    same = [
        sources.collective_us(known, "all_reduce", sizes, 8, ONE_NODE, engine=which)
        for which in (True, False)
    ]
    np.testing.assert_array_equal(*same)

"""Memory of training steps: recipes that run have room, it grows with the work, and refusals say what would fit."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pandas as pd
import pytest

from flopcast.workloads.forecasting import forecast
from flopcast.workloads.inference import GIB
from flopcast.workloads.model_catalogue import find
from flopcast.workloads.setting import complete
from flopcast.workloads.training_memory import TrainingMemory, training_memory

NODE_GPUS = 8
STATES_BYTES = 16.0  # of a weight: itself, its gradient, master copy and two moments
STEP = {
    "kind": "training",
    "model": "llama-3.1-8b",
    "gpu": "MI300X",
    "gpus": 8,
    "micro_batch": 2,
    "global_batch": 128,
    "seq_len": 8192,
}


def recipes() -> pd.DataFrame:
    """Return the published recipes of models that are known."""
    file = Path(__file__).with_name("training_recipes.csv")
    return pd.read_csv(file, comment="#", dtype=str, keep_default_na=False)


def step_of(recipe: Any, *, sharding: bool) -> dict[str, Any]:
    """Return the step of a recipe, with its own sharding or with what is taken where none is given."""
    step: dict[str, Any] = {"kind": "training", "gpus": NODE_GPUS, "gpu": recipe.gpu}
    step["model"] = recipe.model_config.removesuffix(".yaml").replace("_", "-")
    step["dtype"] = "fp8" if recipe.fp8 else "bf16"
    for name in ("seq_len", "micro_batch", "global_batch", "tp", "pp", "ep"):
        step[name] = int(getattr(recipe, name) or 1)
    if recipe.vpp:
        step["interleave"] = int(recipe.vpp)
    if recipe.recompute:
        step["recompute"] = recipe.recompute
        step["recompute_layers"] = int(recipe.recompute_layers or 0) or None
    if sharding:
        step["zero"] = 3 if recipe.fsdp == "True" else 1
    return step


def means_more_nodes(step: dict[str, Any]) -> bool:
    """Whether the cuts need more GPUs than a node has, or the weights and their states more memory."""
    if step["tp"] * step["pp"] * step["ep"] > NODE_GPUS:
        return True
    room = {"MI300X": 192, "MI355X": 288}[step["gpu"]] * NODE_GPUS
    return find(step["model"]).parameters * STATES_BYTES / GIB > room


@pytest.mark.parametrize("sharding", [True, False])
def test_published_recipes_of_one_node_fit(sharding: bool) -> None:
    asked, refused = 0, []
    for recipe in recipes().itertuples():
        step = step_of(recipe, sharding=sharding)
        if means_more_nodes(step):
            continue
        asked += 1
        if not forecast(step).fits:
            refused.append((recipe.gpu, recipe.recipe))
    assert asked >= 100
    assert not refused


def test_recipes_that_mean_more_nodes_do_not_fit_on_one() -> None:
    refused = 0
    for recipe in recipes().itertuples():
        step = step_of(recipe, sharding=True)
        alone = step["tp"] * step["pp"] * step["ep"] <= NODE_GPUS
        if not alone or not means_more_nodes(step):
            continue
        answer = forecast(step)
        assert answer.fits is False
        assert answer.reason is not None
        assert answer.reason.values["ways"]
        refused += 1
    assert refused >= 8


def memory(**changes: Any) -> TrainingMemory:
    return training_memory(complete({**STEP, **changes}))


def test_the_optimizer_is_sharded_unless_it_is_said_otherwise() -> None:
    left_out, whole = memory(), memory(zero=0)
    assert left_out == memory(zero=1)
    assert left_out.optimizer == pytest.approx(whole.optimizer / 8)


@pytest.mark.parametrize(
    "more",
    [
        {"micro_batch": 4},
        {"seq_len": 16384},
        {"model": "llama-2-13b"},
        {"zero": 0},
        {"optimizer": "adam", "lora": False, "dtype": "bf16", "gpus": 4},
    ],
)
@pytest.mark.parametrize("recompute", ["none", "full"])
def test_memory_grows_with_batch_length_and_model(more: dict[str, Any], recompute: str) -> None:
    few, many = memory(recompute=recompute), memory(recompute=recompute, **more)
    assert few.lean < few.needed < few.full
    for name in ("lean", "needed", "full"):
        assert getattr(many, name) > getattr(few, name)


def test_experts_are_sharded_over_their_own_replicas_alone() -> None:
    step = {"model": "mixtral-8x7b", "seq_len": 4096, "global_batch": 32}
    spread = memory(**step, ep=8)
    experts = find("mixtral-8x7b").expert_parameters / 8
    assert spread.optimizer * GIB > 12 * experts
    assert memory(**step, ep=4).optimizer == pytest.approx(spread.optimizer, rel=0.01)


@pytest.mark.parametrize(
    "step",
    [
        {"model": "llama-3.1-405b", "gpus": 1, "micro_batch": 1, "recompute": "full"},
        {"model": "llama-3.1-70b", "gpus": 1, "micro_batch": 1, "recompute": "full"},
        {"model": "llama-3.1-8b", "micro_batch": 16},
        {"model": "llama-2-70b", "dtype": "fp8", "lora": True, "micro_batch": 1, "zero": 1},
        {"model": "llama-3.1-8b", "gpu": "A100 80GB SXM4", "gpus": 1, "micro_batch": 1},
    ],
)
def test_what_runs_out_of_memory_is_refused(step: dict[str, Any]) -> None:
    assert forecast({**STEP, **step}).memory_verdict == "does not fit"


def test_the_verdict_says_what_only_a_lean_framework_has_room_for() -> None:
    tight = {"model": "llama-3.1-70b", "micro_batch": 3, "global_batch": 24, "recompute": "full"}
    answer = forecast({**STEP, **tight, "zero": 3})
    assert answer.memory_verdict == "may fit"
    assert answer.memory_limits is not None
    lower, upper = answer.memory_limits
    assert lower <= 192 < upper
    assert forecast(STEP).memory_verdict == "fits"


def test_weights_are_sharded_where_only_that_has_room_and_nothing_else_was_asked() -> None:
    large = {**STEP, "model": "llama-3.1-70b", "micro_batch": 1, "recompute": "full"}
    answer = forecast(large)
    assert answer.fits
    assert "sharded-weights" in {note.code for note in answer.remarks}
    assert forecast({**large, "zero": 1}).fits is False


def test_a_refusal_names_sharding_recomputation_and_the_micro_batch_before_cuts() -> None:
    sharded = forecast({**STEP, "model": "llama-3.1-70b", "recompute": "full", "zero": 1})
    again = forecast({**STEP, "micro_batch": 8})
    alone = forecast({**STEP, "model": "llama-3.1-405b", "gpus": 1, "micro_batch": 1})
    for answer, way in ((sharded, "FSDP"), (again, "recomputation"), (alone, "GPUs or more")):
        assert answer.reason is not None
        assert way in answer.reason.values["ways"][0]
    assert any("micro-batch of at most" in way for way in again.reason.values["ways"])  # type: ignore[union-attr]


def test_adapters_keep_no_gradients_of_frozen_weights() -> None:
    assert memory(lora=True).gradients == 0.0
    assert memory(lora=True).needed < memory().needed


def test_peaks_are_split_into_what_frameworks_hold() -> None:
    held = memory().held
    assert set(held) >= {"weights", "gradients", "optimizer", "activations", "logits"}
    assert sum(held.values()) == pytest.approx(memory().needed)

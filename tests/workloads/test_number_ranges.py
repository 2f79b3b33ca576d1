"""Every number of a configuration has a range: one that no float holds is refused in a line, as any other."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from flopcast.errors import DataError
from flopcast.hardware.networks import read_networks
from flopcast.models import artifact
from flopcast.tests.fuzz import corpus
from flopcast.workloads.layer_graph import read_layers
from flopcast.workloads.model_catalogue import find
from flopcast.workloads.releases import CONSTANTS, as_toml, find_release, unknown_release

HUGE = 10**400
CONFIG = {
    "model_type": "deepseek_v3", "hidden_size": 512, "num_hidden_layers": 4, "num_attention_heads": 8,
    "intermediate_size": 1024, "vocab_size": 1000, "kv_lora_rank": 64, "qk_nope_head_dim": 32, "qk_rope_head_dim": 32,
    "v_head_dim": 32, "n_routed_experts": 8, "num_experts_per_tok": 2, "first_k_dense_replace": 1,
}  # fmt: skip
NETWORK = "node_gpus = 8\nnetwork_gbs = 50\nnetwork_us = 10\n"
RELEASE = 'name = "a"\ngpu = "MI300X"\nmodels = []\nruns = 2\nsource = ""\nmean = []\nroot = []\nlargest = 5\n'


def _write(path: Path, text: str) -> Path:
    path.write_text(text, encoding="utf-8")
    return path


def _refused(read: Callable[[Path], object], path: Path) -> None:
    with pytest.raises(DataError) as told:
        read(path)
    assert len(str(told.value)) < 400


@pytest.mark.parametrize("key", [key for key, value in CONFIG.items() if isinstance(value, int)])
def test_configurations_of_models(tmp_path: Path, key: str) -> None:
    find(_write(tmp_path / "config.json", json.dumps(CONFIG)))
    for value in (HUGE, -HUGE, 10**9):
        _refused(find, _write(tmp_path / "config.json", json.dumps(CONFIG | {key: value})))


def test_more_layers_than_any_model_has_are_not_counted_one_by_one(tmp_path: Path) -> None:
    _refused(
        find,
        _write(tmp_path / "config.json", json.dumps(CONFIG | {"num_hidden_layers": 9_000_000})),
    )


@pytest.mark.parametrize(
    ("text", "number"),
    [(corpus.LAYERS, "64"), (corpus.LAYERS, "7.5"), (corpus.LAYERS, "1e6"), (corpus.LAYERS, '"count": 3'),
     (corpus.PLACEMENT, '"fpgaLatency": 2.0'), (corpus.PLACEMENT, '"destId": 2'), (corpus.PIPER, "0.5")],
)  # fmt: skip
def test_graphs_of_layers(tmp_path: Path, text: str, number: str) -> None:
    key = number.rpartition(" ")[0]
    changed = text.replace(number, f"{key} {HUGE}" if key else str(HUGE)).replace("0.75", str(HUGE))
    _refused(lambda path: read_layers(path, unit="ms"), _write(tmp_path / "graph.json", changed))


def test_networks_and_releases(tmp_path: Path) -> None:
    for number in ("8", "50", "10"):
        for other in (str(HUGE), "4.9e-324"):
            _refused(read_networks, _write(tmp_path / "net.toml", NETWORK.replace(number, other)))
    for number in ("2", "5"):
        text = f"[[release]]\n{RELEASE.replace(number, str(HUGE))}"
        _refused(lambda path: find_release(str(path)), _write(tmp_path / "release.toml", text))


@pytest.mark.parametrize(
    "text",
    [
        "release = {a = 1}", "release = [7]", "release = 7", "a = " + "[" * 5000,
        f"[[release]]\n{RELEASE}".replace("mean = []", f"mean = {[1e9] * len(CONSTANTS)}"),
        as_toml(unknown_release()).replace("models = []", "models = [1]"),
    ],
)  # fmt: skip
def test_a_file_that_holds_no_release(tmp_path: Path, text: str) -> None:
    _refused(lambda path: find_release(str(path)), _write(tmp_path / "release.toml", text))


@pytest.mark.parametrize("part", ["rows", "predictions"])
def test_probes_of_a_model(tmp_path: Path, part: str) -> None:
    for name, content in corpus.seeds()["model"][0].items():
        (tmp_path / name).write_bytes(content)
    manifest: dict[str, Any] = json.loads((tmp_path / "manifest.json").read_text())
    manifest["probes"][part][0] = [HUGE, 1] if part == "rows" else HUGE
    _write(tmp_path / "manifest.json", json.dumps(manifest))
    with pytest.raises(artifact.ArtifactError, match=r"manifest\.json is damaged"):
        artifact.load(tmp_path)

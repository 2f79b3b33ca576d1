"""Runs to predict from."""

from __future__ import annotations

from pathlib import Path

import pytest

from flopcast.api.training import train
from flopcast.tests.commands.predicted_runs import HOST, TARGET, measured, save_run
from flopcast.tests.commands.running import hurry


@pytest.fixture(autouse=True)
def in_a_hurry(monkeypatch: pytest.MonkeyPatch) -> None:
    """Train and judge in a hurry."""
    hurry(monkeypatch)


@pytest.fixture(scope="session")
def run(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A run from one GPU that no catalogue has to another, bf16 GEMMs."""
    folder = tmp_path_factory.mktemp("pairs")
    return save_run(folder / "run", measured(folder, HOST, TARGET), HOST, TARGET)


@pytest.fixture(scope="session")
def alone(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A run of one device: times from shapes."""
    folder = tmp_path_factory.mktemp("alone")
    return save_run(folder / "run", measured(folder, HOST, TARGET), None, TARGET)


@pytest.fixture(scope="session")
def trained(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A run as `train` saves it, of two models on the embedded products of few rows."""
    folder = tmp_path_factory.mktemp("trained") / "run"
    train(where={"m": (None, 64)}, models=["OLS", "Additive"], jobs=1).save(folder)
    return folder

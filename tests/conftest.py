"""Fixtures shared by the tests."""

from __future__ import annotations

import gc
from pathlib import Path

import pytest
from hypothesis import settings

ROOT = Path(__file__).parents[1]

settings.register_profile("repeatable", derandomize=True, deadline=None)
settings.load_profile("repeatable")


@pytest.fixture(scope="session")
def shared_data() -> Path:
    """Return the folder of measured data beside the checkout; skip where it is missing."""
    folder = ROOT.parent / "shared" / "data"
    if not folder.is_dir():
        pytest.skip("the measured data (../shared/data) are not on this machine")
    return folder


def pytest_collection_finish() -> None:
    """Leave what the imports and the collection made out of every later search for garbage."""
    gc.collect()
    gc.freeze()

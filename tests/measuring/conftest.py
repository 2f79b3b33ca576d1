"""What the tests of measuring share: PyTorch, where it is installed."""

from __future__ import annotations

from typing import Any

import pytest


@pytest.fixture
def torch() -> Any:
    """Return PyTorch; skip where it is missing."""
    return pytest.importorskip(
        "torch", reason="PyTorch is not installed (pip install flopcast[measure])"
    )

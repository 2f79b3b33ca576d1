from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from types import SimpleNamespace

import pytest

from flopcast.benchmarks import harness
from flopcast.benchmarks.link_fitting import Timings
from flopcast.benchmarks.projection_communication import file_of, timings_of
from flopcast.projection.collective_laws import Link


@pytest.fixture(autouse=True)
def nothing_collected(monkeypatch: pytest.MonkeyPatch) -> None:
    """Time without a collection before each call: here the garbage is that of all tests before."""
    monkeypatch.setattr(harness, "gc", SimpleNamespace(collect=lambda: 0))


@pytest.fixture(scope="session", name="timings_of")
def read_timings(shared_data: Path) -> Callable[[Link], Timings]:
    """Return a function that reads the measurements a model of links.toml was fitted to."""

    def read(link: Link) -> Timings:
        path = file_of(link, shared_data)
        if not path.is_file():
            pytest.skip(f"the measurements {path.name} are not on this machine")
        return timings_of(link, shared_data)

    return read

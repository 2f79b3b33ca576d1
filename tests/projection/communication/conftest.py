from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pandas as pd
import pytest

from flopcast.benchmarks.projection_communication import file_of, timings_of
from flopcast.projection.communication import Link, Timings


@pytest.fixture(scope="session", name="timings_of")
def read_timings(shared_data: Path) -> Callable[[Link], Timings]:
    """Return a function that reads the measurements a model of links.toml was fitted to."""

    def read(link: Link) -> Timings:
        path = file_of(link, shared_data)
        if not path.is_file():
            pytest.skip(f"the measurements {path.name} are not on this machine")
        return timings_of(link, shared_data)

    return read


@pytest.fixture
def activities() -> Callable[..., pd.DataFrame]:
    """Return a function that makes communication rows of the dispatch table: message, ranks and time may be None."""

    def make(*rows: tuple[str, int | None, int | None, int], name: str = "ncclDevKernel_Generic_1") -> pd.DataFrame:
        table = pd.DataFrame(rows, columns=["collective", "collective_bytes", "group_size", "duration_ns"])
        integers = dict.fromkeys(["collective_bytes", "group_size", "duration_ns"], "Int64")
        return table.assign(name=name).astype(integers).set_axis(range(10, 10 + len(rows)))

    return make

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import numpy as np
import pandas as pd
import pytest

from flopcast.projection.communication import Link, Timings

US_PER_MS = 1e3


@pytest.fixture(scope="session")
def timings_of(shared_data: Path) -> Callable[[Link], Timings]:
    """Return a function that reads the measurements a model of links.toml was fitted to."""

    def read(link: Link) -> Timings:
        key, name = link.source.split(": ")
        return _rccl(shared_data.parent / "facts" / name) if key == "RCCL-TESTS" else _vidur(shared_data, name, link)

    return read


def _rccl(path: Path) -> Timings:
    if not path.is_file():
        pytest.skip(f"the collected facts (../shared/facts/{path.name}) are not on this machine")
    table = pd.read_csv(path)
    return _timings(table["size_bytes"], table["gpus"], table["time_us"])


def _vidur(shared_data: Path, name: str, link: Link) -> Timings:
    """Return the rows within one node whose ranks have the links of the model."""
    table = pd.read_csv(shared_data / "network" / name, index_col=0)
    table = table[(table["num_workers"] == table["devices_per_node"]) & table["num_workers"].isin(link.ranks)]
    return _timings(table["size"], table["num_workers"], table[f"time_stats.{link.collective}.min"] * US_PER_MS)


def _timings(*columns: pd.Series) -> Timings:
    return Timings(*(column.to_numpy(dtype=np.float64) for column in columns))


@pytest.fixture
def activities() -> Callable[..., pd.DataFrame]:
    """Return a function that makes communication rows of the dispatch table: message, ranks and time may be None."""

    def make(*rows: tuple[str, int | None, int | None, int], name: str = "ncclDevKernel_Generic_1") -> pd.DataFrame:
        table = pd.DataFrame(rows, columns=["collective", "collective_bytes", "group_size", "duration_ns"])
        integers = dict.fromkeys(["collective_bytes", "group_size", "duration_ns"], "Int64")
        return table.assign(name=name).astype(integers).set_axis(range(10, 10 + len(rows)))

    return make

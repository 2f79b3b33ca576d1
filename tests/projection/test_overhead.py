from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from flopcast.projection.kernel_work import OVERHEADS, Overhead, is_queued, overheads_of
from flopcast.readers import TraceFailure, read_traces
from flopcast.tests.projection.oracles.activities import HOST, TARGET, activities, kernel

AMD, NVIDIA = OVERHEADS["AMD"], OVERHEADS["NVIDIA"]


def test_durations_hold_the_dispatch_only_where_it_is_inside() -> None:
    queued = np.array([True, False])
    assert Overhead(2.0, 3.0, inside=True).fixed_us(queued).tolist() == [5.0, 2.0]
    assert Overhead(2.0, 3.0, inside=False).fixed_us(queued).tolist() == [2.0, 2.0]


def test_an_unknown_vendor_has_the_overhead_of_the_other_device() -> None:
    mine = replace(TARGET, vendor="")
    assert overheads_of(HOST, TARGET) == (AMD, NVIDIA)
    assert overheads_of(HOST, mine) == (AMD, AMD)
    assert overheads_of(mine, TARGET) == (NVIDIA, NVIDIA)
    assert overheads_of(mine, mine)[0].fixed_us(np.array([True])).tolist() == [0.0]
    assert overheads_of(HOST, TARGET, {"AMD": NVIDIA})[0] == NVIDIA


@pytest.mark.parametrize(
    ("overhead", "gaps_ns", "queued"),
    [(AMD, [0, 1, 160, 161, 2000], [True, True, True, False, False]), (NVIDIA, [0, 2600, 2601], [True, True, False])],
)
def test_an_activity_was_waiting_if_no_more_than_a_dispatch_went_by(
    overhead: Overhead, gaps_ns: list[int], queued: list[bool]
) -> None:
    starts = np.cumsum([1000, *(gap + 5000 for gap in gaps_ns)]).tolist()
    table = activities(*(kernel(us=5, start_ns=start) for start in starts))
    assert is_queued(table, overhead).tolist() == [False, *queued]


def test_queues_wait_for_themselves_only() -> None:
    table = activities(kernel(us=5, start_ns=1000), kernel(us=5, start_ns=6000, stream=8), kernel(us=1, start_ns=6000))
    assert is_queued(table, AMD).tolist() == [False, False, True]


def _tenth(path: Path, queued: bool) -> tuple[float, float]:
    """Return the 10th percentile of the durations of small kernels, and the median of short gaps, us."""
    _, trace = next(iter(read_traces([path])))
    assert not isinstance(trace, TraceFailure)
    table = trace.dispatches[trace.dispatches["kind"] == "kernel"].sort_values("start_ns")
    group = table.groupby(["gpu", "stream"])
    gap_ns = (
        table["start_ns"] - (table["start_ns"] + table["duration_ns"]).groupby([table["gpu"], table["stream"]]).shift()
    )
    small = (table[["grid_x", "grid_y", "grid_z"]].astype(float).prod(axis=1) <= 16) & (group.cumcount() > 0)
    own = gap_ns.le(160) if queued else gap_ns.gt(3000)
    times_us = table["duration_ns"][small & own] / 1e3
    return float(times_us.quantile(0.1)), float(gap_ns[gap_ns.between(161, 5000)].median()) / 1e3


def test_the_figures_are_those_of_public_traces(shared_data: Path) -> None:
    folder = shared_data / "profiles" / "kineto" / "other"
    flux = folder / "mi300_xdit_flux1_aiter_sage_profile_trace_rank_0.json.gz"
    norms, nccl = folder / "normalization_layer_test.json.gz", folder / "hta_nccl_data.json.gz"
    idle = [_tenth(path, queued=False)[0] for path in (flux, norms)]
    busy = [_tenth(path, queued=True)[0] for path in (flux, norms)]
    assert np.mean(idle) == pytest.approx(AMD.kernel_us, abs=0.15)
    assert np.mean(busy) == pytest.approx(AMD.kernel_us + AMD.dispatch_us, abs=0.35)
    kernel_us, dispatch_us = _tenth(nccl, queued=False)
    assert kernel_us == pytest.approx(NVIDIA.kernel_us, abs=0.05)
    assert dispatch_us == pytest.approx(NVIDIA.dispatch_us, abs=0.05)

"""Knowing less of a trace never narrows the interval of its projection: a property, over made-up and real traces."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from itertools import pairwise
from pathlib import Path

import numpy as np
import pytest

import flopcast as fc
from flopcast.hardware import GPU, find
from flopcast.projection.collective_laws import World
from flopcast.projection.uncertainty import BANDS, uncertainty_of
from flopcast.projection.whole_trace import Laws, project_trace
from flopcast.readers import Options, traces_of
from flopcast.tests.projection.oracles.traces import add, all_reduce, busy, gemm, idle, trace
from flopcast.traces.dispatches import empty_calls
from flopcast.traces.summary import Annotated

DEVICES = [
    ("MI300X", "MI355X"),
    ("MI355X", "MI300X"),
    ("H100", "MI300X"),
    ("MI300X", "H100"),
    ("B200", "MI300X"),
]
SAMPLED = (
    0.97  # of a width is left by chance where other factors take other dimensions of the sample
)


def reach(traced: Annotated, host: GPU, target: GPU) -> tuple[float, int]:
    """Return half the interval over the nominal time, and the place of its accuracy band."""
    found = uncertainty_of(project_trace(traced, host, target), samples=1024)
    return found.half_width, int(
        np.searchsorted(BANDS, 100 * found.half_width / SAMPLED, side="right")
    )


def forgotten(traced: Annotated) -> Iterator[tuple[str, Annotated]]:
    """Yield a trace without more and more of what it says."""
    yield "whole", traced
    yield "calls", (bare := replace(traced, calls=empty_calls()))
    table = bare.dispatches.assign(linked=False)
    if bare.dispatches["linked"].all():  # else other activities would count
        yield "launches", (bare := replace(bare, dispatches=table))
    table = bare.dispatches.assign(flops=np.nan, bytes_moved=np.nan, op="")
    yield "shapes", replace(bare, dispatches=table)


MADE = {
    "busy": busy(),
    "idle": idle(),
    **{
        f"{duration:g} µs and {gap:g} µs of nothing": trace(
            [add((duration + gap) * number, duration, size=4_000_000) for number in range(20)]
        )
        for duration, gap in [(5, 95), (5, 3), (60, 0), (60, 20), (500, 20)]
    },
}


@pytest.mark.parametrize("devices", DEVICES)
@pytest.mark.parametrize("name", MADE)
def test_calls_launches_and_shapes(name: str, devices: tuple[str, str]) -> None:
    host, target = map(find, devices)
    found = {what: reach(one, host, target) for what, one in forgotten(MADE[name])}
    widths, bands = zip(*found.values(), strict=True)
    assert all(after >= SAMPLED * before for before, after in pairwise(widths)), found
    assert list(bands) == sorted(bands), found


@pytest.mark.parametrize("devices", [*DEVICES, ("MI300X", "MI325X")])
@pytest.mark.parametrize("column", ["collective", "collective_bytes", "group_size"])
def test_what_a_collective_is(column: str, devices: tuple[str, str]) -> None:
    rows = [
        gemm(0, 300),
        all_reduce(310, 700, message=2**28),
        gemm(1020, 300),
        all_reduce(1330, 60, message=2**20),
    ]
    whole = trace(rows)
    table = whole.dispatches
    nothing = "" if column == "collective" else None
    told = table[column].astype(object).where(table["collective"] == "", nothing)
    less = replace(whole, dispatches=table.assign(**{column: told.astype(table[column].dtype)}))
    host, target = map(find, devices)
    before, after = reach(whole, host, target), reach(less, host, target)
    assert after[0] >= SAMPLED * before[0]
    assert after[1] >= before[1]


@pytest.mark.parametrize("ranks", [16, 64, 72])
@pytest.mark.parametrize("message", [2**9, 2**24, 2**30])
@pytest.mark.parametrize("target", ["MI300X", "MI355X"])
def test_the_message_of_a_collective_among_more_ranks(
    target: str, message: int, ranks: int
) -> None:
    rows = [
        gemm(0, 300),
        all_reduce(310, 700, message=message),
        gemm(1020, 300),
        all_reduce(1330, 60, message=message),
    ]
    whole = trace(rows)
    nothing = whole.dispatches["collective_bytes"].mask(whole.dispatches["collective"] != "")
    less = replace(whole, dispatches=whole.dispatches.assign(collective_bytes=nothing))
    laws = Laws(world=World(ranks=ranks))
    before, after = (
        uncertainty_of(project_trace(traced, find("MI300X"), find(target), laws), samples=1024)
        for traced in (whole, less)
    )
    assert after.upper_us / after.lower_us >= SAMPLED * before.upper_us / before.lower_us


@pytest.mark.parametrize(("took", "message"), [(700, 2**28), (20, 2**9), (700, 2**9)])
def test_links_that_are_not_published(took: float, message: int) -> None:
    host, target = find("MI300X"), find("MI355X")
    whole = trace([gemm(0, 300), all_reduce(310, took, message=message)])
    bare = replace(target, link_bw_gbs=None)
    assert reach(whole, host, bare)[0] >= SAMPLED * reach(whole, host, target)[0]


def test_real_traces(shared_data: Path) -> None:
    """The BERT trace with its calls and as a profiler of kernels writes it: the measured time is in both intervals."""
    folder = shared_data / "profiles" / "kineto" / "pairs_mi300"
    host, target = find("MI300X"), find("H100")
    for path in sorted(folder.glob("*bert*")) + sorted(folder.glob("Falconsai*")):
        ((_, traced),) = traces_of([path], Options(calls=True))
        found = {what: reach(one, host, target) for what, one in forgotten(traced)}
        widths = [width for width, _ in found.values()]
        assert all(after >= SAMPLED * before for before, after in pairwise(widths)), found


def test_the_kernels_of_a_launch_bound_trace_alone_hold_the_measured_time(
    shared_data: Path,
) -> None:
    (path,) = (shared_data / "profiles" / "kineto" / "pairs_mi300").glob("*bert*")
    ((_, traced),) = traces_of([path], Options(calls=True))
    alone = replace(traced, calls=empty_calls(), dispatches=traced.dispatches.assign(linked=False))
    found = uncertainty_of(project_trace(alone, find("MI300X"), find("H100")))
    assert found.lower_us < 3908 < found.upper_us
    assert found.band == "20-50 %"


def test_dropped_dispatches_widen_or_refuse(tmp_path: Path) -> None:
    """Ten of a hundred dispatches are missing, then ninety-nine of a hundred."""
    head = "Kind,Agent_Id,Queue_Id,Kernel_Id,Kernel_Name,Correlation_Id,Start_Timestamp,End_Timestamp,Dispatch_Id\n"

    def written(numbers: list[int]) -> Path:
        lines = [
            f'KERNEL_DISPATCH,4,1,1,"gemm",{number},{1000 + 60_000 * number},{51_000 + 60_000 * number},{number}\n'
            for number in numbers
        ]
        path = tmp_path / f"{len(numbers)}_kernel_trace.csv"
        path.write_text(head + "".join(lines), encoding="utf-8")
        return path

    def width(path: Path) -> float:
        lower, upper = fc.project(path, target="MI355X", host="MI300X").interval_us
        return upper / lower

    whole = width(written(list(range(1, 101))))
    fewer = width(written([number for number in range(1, 101) if number % 10 != 5]))
    assert fewer > whole * 1.05
    with pytest.raises(fc.errors.DataError, match="of what ran is not in the trace"):
        width(written([1, 100]))

"""What reading finds of a trace stands above every answer that is made of it."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest

import flopcast as fc
from flopcast.errors import DataError
from flopcast.report.document import Document, Lines
from flopcast.report.profilers import fidelity_document

HEAD = "Kind,Agent_Id,Queue_Id,Kernel_Id,Kernel_Name,Correlation_Id,Start_Timestamp,End_Timestamp,Dispatch_Id\n"
DEVICE = {"device": "MI300X"}


def written(folder: Path, numbers: list[int], name: str = "a") -> Path:
    """Write a trace of rocprofv3 with the dispatches of these numbers, 50 µs each."""
    lines = [
        f'"KERNEL_DISPATCH",4,1,1,"gemm",{number},{1000 + 60_000 * number},{51_000 + 60_000 * number},{number}\n'
        for number in numbers
    ]
    (folder / name).mkdir()
    path = folder / name / "1_kernel_trace.csv"
    path.write_text(HEAD + "".join(lines), encoding="utf-8")
    return path


DOORS: dict[str, Callable[[Path, Path], Document]] = {
    "project": lambda trace, other: fc.project(trace, target="MI355X", default=DEVICE).document(),
    "compare": lambda trace, other: fc.compare(trace, other, default=DEVICE).document(),
    "clean": lambda trace, other: fc.clean(trace, default=DEVICE).document(),
    "fidelity": lambda trace, other: fidelity_document(fc.fidelity([trace, other], default=DEVICE)),
}


@pytest.mark.parametrize("door", DOORS)
def test_dropped_dispatches_stand_above_every_answer(tmp_path: Path, door: str) -> None:
    whole = written(tmp_path, list(range(1, 41)), "whole")
    some = written(tmp_path, [number for number in range(1, 41) if number % 10 != 5], "some")
    first = DOORS[door](some, whole).opening[0]
    assert isinstance(first, Lines)
    assert any("dropped-dispatches" in line.text for line in first.lines)
    nothing = DOORS[door](
        whole, whole if door != "fidelity" else written(tmp_path, list(range(1, 41)), "b")
    )
    assert not any("dropped-dispatches" in repr(part) for part in nothing.opening)


def test_a_trace_of_which_most_is_missing_is_not_projected(tmp_path: Path) -> None:
    with pytest.raises(DataError, match="of what ran is not in the trace"):
        fc.project(written(tmp_path, [1, 1000]), target="MI355X", default=DEVICE)


def test_a_list_of_all_kernels_cannot_be_made_of_a_trace_that_lacks_some(tmp_path: Path) -> None:
    trace = written(tmp_path, [1, 2, 4])
    with pytest.raises(DataError, match="lacks kernels of the program"):
        fc.plan("rocprofv3", trace, default=DEVICE)

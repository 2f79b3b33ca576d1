"""What `flopcast project` prints of a projection."""

from __future__ import annotations

import io
from dataclasses import replace
from functools import cache
from typing import Any

import pandas as pd
import pytest
from rich.console import Console

from flopcast.hardware import find
from flopcast.projection.result import Result, result_of
from flopcast.projection.sweep import parse_sweeps
from flopcast.projection.whole_trace import Laws
from flopcast.report.html import page
from flopcast.report.projection import kernel_table, projection_document, tables
from flopcast.report.terminal import print_document
from flopcast.tests.projection.oracles.traces import add, all_reduce, gemm, trace
from flopcast.traces.dispatches import empty_calls

HOST, TARGET = find("MI300X"), find("A100 40GB SXM4")
ROWS = [
    gemm(0, 300, step=1, called=-20),
    all_reduce(100, 300, stream=1, step=1, called=-10),
    add(500, 20, step=2),
    {"start": 600, "duration": 50, "name": "mystery_kernel", "step": 2},
]
STEPS = pd.DataFrame({"step": [1, 2], "start_ns": [0, 450_000], "duration_ns": [450_000, 250_000]})


def projected(**more: Any) -> Result:
    return made(**more) if more else usual()


@cache
def usual() -> Result:
    return made()


def made(**more: Any) -> Result:
    return result_of("t.json", trace(ROWS, steps=STEPS), HOST, TARGET, **more)


def rows_of(result: Result, name: str) -> list[list[str]]:
    table = tables(result, kernel_table(result.projection, result.rates)).get(name)
    return (
        []
        if table is None
        else [[str(getattr(cell, "text", cell)) for cell in row.cells] for row in table.rows]
    )


def test_classes_say_what_their_interval_rests_on() -> None:
    cells = {row[0]: row for row in rows_of(projected(stated="gemm=0.1"), "classes")}
    assert cells["gemm"][8] == "10 % (stated)"
    assert cells["unknown"][8] == "25 % (assumed)"
    assert cells["elementwise"][8].endswith(" %")


@pytest.mark.no_cover
def test_remarks_on_the_law_asked_for_are_no_other_laws() -> None:
    affine, flops = projected(), projected(laws=Laws(compute="flops"))
    assert [row[1:3] for row in rows_of(affine, "laws")][-1] == ["affine", "1"]
    assert rows_of(affine, "other laws than asked for") == []
    assert {row[1] for row in rows_of(flops, "other laws")} == {"bandwidth"}


def test_the_time_split_is_shown_by_stream_and_step() -> None:
    rows = {row[0]: row[1:] for row in rows_of(projected(), "split")}
    assert list(rows) == ["whole trace", "stream 0", "stream 1", "step 1", "step 2"]
    assert rows["step 1"] == ["300 µs", "100 µs", "0 µs", "0 µs", "400 µs", "200 µs"]
    assert rows["stream 1"] == ["0 µs", "300 µs", "0 µs", "0 µs", "300 µs", "0 µs"]


def test_the_longest_kernels_of_the_path_have_names() -> None:
    result = projected(laws=Laws(compute="kept", communication="kept"))
    (row,) = rows_of(result, "path")
    assert row == ["mystery_kernel", "unknown", "1", "50 µs", "7.7 %"]


@pytest.mark.no_cover
def test_nothing_is_said_of_a_cpu_that_the_trace_does_not_show() -> None:
    blind = result_of("t.json", replace(trace(ROWS), calls=empty_calls()), HOST, TARGET)
    sources = [[row[0] for row in rows_of(one, "interval")] for one in (blind, projected())]
    assert ["CPU speed" in names for names in sources] == [False, True]
    assert "cpu-taken-as-fast" not in [note.code for note in blind.notes]
    assert "cpu-taken-as-fast" in [note.code for note in projected().notes]


@pytest.mark.parametrize(("width", "whole"), [(200, True), (100, False)])
def test_a_table_too_wide_has_heads_of_several_lines(width: int, whole: bool) -> None:
    console = Console(file=io.StringIO(), width=width)
    print_document(console, projection_document(projected()))
    text = console.file.getvalue()  # type: ignore[attr-defined]
    classes = text[text.index("kernels by class") : text.index("what sets the pace")]
    assert ("FLOPS scaling" in classes) == whole
    assert "collective" in classes
    assert "elementwise" in classes


def test_the_page_has_every_table_and_a_plot_for_each_sweep() -> None:
    document = projection_document(
        projected(sweeps=parse_sweeps(["memory_bw_gbs=1000,3000", "link_bw_gbs=100"]))
    )
    text = page(document)
    assert len(document.sections) > 2
    assert all(section.heading in text for section in document.sections)
    for figure in ("memory bandwidth, GB/s", "all links, one way, GB/s"):
        assert f"{figure} of A100 40GB SXM4" in text


def test_classes_that_overlap_are_said_to_add_up_to_more_than_the_whole() -> None:
    beside = [gemm(0, 400), all_reduce(0, 400, stream=1)]
    behind = [gemm(0, 400), all_reduce(500, 400)]
    found = [result_of("t.json", trace(rows), HOST, TARGET) for rows in (beside, behind)]
    shown = [
        tables(one, kernel_table(one.projection, one.rates))["classes"].caption for one in found
    ]
    assert [bool(caption) for caption in shown] == [True, False]

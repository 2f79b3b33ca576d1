"""Every kernel of a projected trace, unknown work, and the CPU on the critical path: sums that must agree."""

from __future__ import annotations

import pytest

from flopcast.hardware import find
from flopcast.projection.replay import WORK
from flopcast.projection.result import result_of
from flopcast.projection.roofs import rates_of
from flopcast.projection.whole_trace import Projection, project_trace
from flopcast.report.html import page
from flopcast.report.projection import (
    cpu_operations,
    kernel_table,
    projection_document,
    unknown_work,
)
from flopcast.tests.projection.oracles.traces import add, gemm, trace

HOST, TARGET = find("MI300X"), find("MI355X")
ROWS = [
    gemm(0, 300, called=-20),
    gemm(320, 300, called=310),
    add(700, 20, called=690),
    {"start": 800, "duration": 50, "name": "mystery_kernel<&>", "called": 790},
]


def projected() -> Projection:
    return project_trace(trace(ROWS), HOST, TARGET)


def test_every_kernel_is_in_the_table_once_with_equal_ones_together() -> None:
    projection = projected()
    table = kernel_table(projection, rates_of(projection))
    assert table["count"].tolist().count(2) == 1
    assert table["count"].sum() == len(projection.activities)
    for name in ("measured_us", "projected_us"):
        assert table[name].sum() == pytest.approx(projection.activities[name].sum())
    assert table["projected_us"].is_monotonic_decreasing


def test_what_nobody_knows_the_work_of_is_told() -> None:
    projection = projected()
    assert unknown_work(projection).tolist() == [False, False, False, True]
    result = result_of("t", trace(ROWS), HOST, TARGET)
    document = projection_document(result)
    found = document.data["unknown_work"]
    assert [row["name"] for row in found["kernels"]] == ["mystery_kernel<&>"]
    share = (
        projection.activities["projected_us"].iloc[3] / projection.activities["projected_us"].sum()
    )
    assert found["share"] == pytest.approx(share)
    text = page(document)
    assert "mystery_kernel&lt;&amp;&gt;" in text
    assert "mystery_kernel<&>" not in text


def test_the_cpus_work_on_the_path_is_told_operator_by_operator_without_rest() -> None:
    projection = projected()
    found, path = cpu_operations(projection), projection.path
    work = path[path["kind"] == WORK]
    assert found["path_us"].sum() == pytest.approx((work["end_ns"] - work["begin_ns"]).sum() / 1e3)
    assert found["path_us"].sum() > 0
    assert found["share"].sum() <= 1

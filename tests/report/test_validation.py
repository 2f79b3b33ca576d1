from __future__ import annotations

import json
import re
from collections.abc import Callable
from dataclasses import replace

import numpy as np
import pandas as pd
import pytest

import flopcast as fc
from flopcast.evaluation.linear_scaling import ValidationResult, assess_scaling
from flopcast.evaluation.verdicts import Outcome
from flopcast.features.matrix import build_dataset
from flopcast.hardware import find
from flopcast.output import dumps
from flopcast.remarks import remark
from flopcast.report.document import Row, Table
from flopcast.report.validation import (
    COLUMNS,
    asked,
    class_rows,
    conclusion,
    deviations,
    efficiency_figure,
    evidence,
    legend,
    roofline_figure,
    summary,
    validation_document,
)
from flopcast.table.measurements import clean
from flopcast.table.refusals import coded

from .pages import printed


@pytest.fixture(scope="module")
def result() -> ValidationResult:
    """Softmax is 1.3 times what bandwidth scaling says; GELU follows another law on too few rows."""
    host, target = find("MI300X"), find("MI355X")
    ratio = host.require("memory_bw_gbs") / target.require("memory_bw_gbs")
    cells = [
        ("softmax", rows, cols)
        for cols in (2048, 4096, 8192, 16384)
        for rows in np.geomspace(4096, 65536, 8)
    ]
    shapes = pd.DataFrame([*cells, ("gelu", 8192, 4096)], columns=["op", "rows", "cols"]).assign(
        dtype_a="bf16"
    )
    shapes["rows"] = shapes["rows"].round()
    host_us = (shapes["rows"] * shapes["cols"]).to_numpy() * 4 / (3000 * 1e3)
    noise = np.exp(np.random.default_rng(0).normal(0, 0.02, len(shapes)))
    sides = ((host.name, host_us), (target.name, 1.3 * ratio * host_us * noise))
    raw = pd.concat(
        [shapes.assign(device=name, duration_us=times) for name, times in sides], ignore_index=True
    )
    frame = clean(raw.assign(source=[f"softmax.csv:{row + 2}" for row in range(len(raw))])).frame
    dataset = build_dataset(frame, host=host, target=target)
    classes = assess_scaling(dataset, replicates=200)
    return ValidationResult(
        dataset, classes, 0.10, 10, 200, 0, {"zero-duration": 2}, (remark("a", "remark"),)
    )


def cells(row: Row) -> list[str]:
    return [cell if isinstance(cell, str) else cell.text for cell in row.cells]


def test_the_table_holds_every_class_and_law(result: ValidationResult) -> None:
    rows = evidence(result).rows
    assert [cells(row)[0] for row in rows if row.title] == [
        "all rows", "softmax bf16 memory-bound", "gelu bf16 memory-bound"
    ]  # fmt: skip
    laws = [row for row in rows if cells(row)[0] == "  bandwidth scaling"]
    assert len(laws) == 2  # all rows, softmax
    assert all(row.cells[-1].tone == "accent" for row in laws)  # type: ignore[union-attr]
    assert cells(rows[-1]) == ["gelu bf16 memory-bound", "1 row", "1 group", "", "", "too few data"]


def test_a_row_carries_its_figures(result: ValidationResult) -> None:
    softmax = {cells(row)[0].strip(): cells(row)[1:] for row in class_rows(result.classes[1])}
    assert softmax["softmax bf16 memory-bound"][:2] == ["32 rows", "4 groups"]
    assert re.fullmatch(r"HE \S+→\S+, BW 56→43 %", softmax["softmax bf16 memory-bound"][-1])
    median, slope, scatter, error, verdict = softmax["bandwidth scaling"]
    assert re.fullmatch(r"holds with a correction of 1\.(29|30|31) \[1\.\d\d, 1\.\d\d\]", verdict)
    assert re.fullmatch(r"1\.(29|30|31) \[1\.\d\d, 1\.\d\d\]", median)
    assert re.fullmatch(r"(0\.99|1\.00|1\.01) \[0\.9\d, 1\.0\d\]", slope)
    assert re.fullmatch(r"[1-3]\.\d %", scatter)
    assert re.fullmatch(r"2\d\.\d % ", error)  # 1 - 1/1.3, and not among the best
    assert softmax["constant ratio"][3].endswith("%*")
    assert softmax["constant ratio"][4].endswith("·t_host")
    assert all(len(figures) == len(COLUMNS) - 1 for figures in softmax.values())


def test_the_conclusion_says_what_holds_instead(result: ValidationResult) -> None:
    softmax, gelu = result.classes[1:]
    least, flops = (
        softmax.explanations[0],
        {one.law: one for one in softmax.explanations}["FLOPS scaling"],
    )
    told = conclusion(softmax)
    assert told.startswith(f"{softmax.name}: ")
    for one in (least, flops):
        assert f"by {one.mape.value:.1f} % [{one.mape.lower:.1f}, {one.mape.upper:.1f}]" in told
    assert told.index(f"{least.mape.value:.1f} %") < told.index(f"{flops.mape.value:.1f} %")
    assert conclusion(gelu).startswith(f"{gelu.name}: ")
    assert "1 of the 10" in conclusion(gelu)


def test_the_summary_names_the_classes_of_each_outcome(result: ValidationResult) -> None:
    first, *laws, last = summary(result)
    assert first == conclusion(result.classes[0])
    assert ["softmax bf16" in law for law in laws if law.startswith("bandwidth scaling")] == [True]
    assert "1 of 2" in last


def test_figures_of_energy_are_in_its_unit(result: ValidationResult) -> None:
    fitted = (
        replace(result.classes[1].explanations[0], law="affine", parameters={"a_j": 0.5, "b": 2.0}),
    )
    softmax = replace(result.classes[1], metric="energy_j", explanations=fitted)
    assert "(0.5 J + 2·E_host)" in conclusion(softmax)
    assert ("affine", "0.5 J + 2·E_host") in [
        (cells(row)[0].strip(), cells(row)[-1]) for row in class_rows(softmax)
    ]


def test_title_and_legend_state_the_settings(result: ValidationResult) -> None:
    assert asked(result).endswith("33 pairs, 5 groups, margin ±10 %")
    assert "5%" in legend(result)
    assert "67%" in legend(result)


def test_json_is_complete_and_plain(result: ValidationResult) -> None:
    found = json.loads(dumps(validation_document(result).data, missing=True))
    assert list(found) == [
        "schema", "host", "target", "metric", "margin", "alpha", "folds", "bootstrap", "data", "classes", "summary",
        "notes",
    ]  # fmt: skip
    assert list(found["data"]) == ["pairs", "groups", "campaigns", "rejected", "pairing"]
    assert (found["schema"], found["host"], found["target"]) == (1, "MI300X", "MI355X")
    assert found["data"]["rejected"] == {"zero-duration": 2}
    pooled, softmax, gelu = found["classes"]
    assert (pooled["op"], pooled["rows"]) == ("all", 33)
    law = next(one for one in softmax["laws"] if one["law"] == "bandwidth scaling")
    assert law["verdict"] == Outcome.CORRECTED.value
    assert set(law["evidence"]) == {
        "deviation", "drift", "excess", "freedom", "groups", "attenuated_slope", "rows", "scatter", "group_scatter",
        "scatter_p", "size_p", "slope", "slope_p", "campaigns",
    }  # fmt: skip
    deviation = law["evidence"]["deviation"]
    assert deviation["lower"] < 1.3 < deviation["upper"]
    assert deviation["level"] == pytest.approx(0.9)
    assert law["median_ratio"] == pytest.approx(5325 / 8000, rel=1e-3)
    assert [one["law"] for one in softmax["out_of_sample"]][-1] in {
        one["law"] for one in softmax["laws"]
    }
    assert set(softmax["efficiency"]) == {
        "host_flops",
        "target_flops",
        "host_bandwidth",
        "target_bandwidth",
    }
    assert gelu["laws"][0]["evidence"] is None
    assert gelu["out_of_sample"] == []


def test_the_document_answers_first(result: ValidationResult) -> None:
    document = validation_document(result)
    head, rest, printed = document.opening
    first, *others = summary(result)
    assert head.medium == "both"  # type: ignore[attr-defined]
    assert head.beneath.endswith(first.partition(": ")[2])  # type: ignore[attr-defined]
    best, *_ = result.classes[0].explanations
    assert head.answer.startswith(f"{best.law}: ")  # type: ignore[attr-defined]
    assert (rest.medium, [line.text for line in rest.lines]) == ("page", others)  # type: ignore[attr-defined]
    assert (printed.medium, [line.text for line in printed.lines][: len(others)]) == (
        "terminal",
        others,
    )  # type: ignore[attr-defined]
    *_, lost = document.sections
    assert [(line.text, line.tone) for line in lost.parts[0].lines] == [  # type: ignore[attr-defined]
        (f"2 rows rejected: {coded('zero-duration')}", "warning"), ("note: [a] remark", "soft"),
    ]  # fmt: skip


def test_many_classes_are_counted_by_verdict(result: ValidationResult) -> None:
    pooled, softmax, gelu = result.classes
    many = replace(result, classes=[pooled, *[softmax] * 5, gelu])
    _, table, _ = validation_document(many).opening
    assert isinstance(table, Table)
    counts = dict(zip([column.head for column in table.columns], cells(table.rows[0]), strict=True))
    first = softmax.laws[0].verdict.outcome
    assert (counts[str(first)], counts[str(gelu.laws[0].verdict.outcome)]) == ("5", "1")
    assert sum(int(count) for head, count in counts.items() if head != "law") == 6


@pytest.fixture(scope="module")
def copies() -> ValidationResult:
    """Copies that take 0.8 of the host's time, in one class; and one lone softmax."""
    host, target = find("MI300X"), find("MI355X")
    cells = [
        ("copy", rows, cols) for cols in (2048, 4096, 8192, 16384) for rows in (4096, 16384, 65536)
    ]
    shapes = pd.DataFrame([*cells, ("softmax", 8192, 4096)], columns=["op", "rows", "cols"]).assign(
        dtype_a="bf16"
    )
    host_us = (
        (shapes["rows"] * shapes["cols"]).to_numpy()
        / 1e6
        * np.exp(np.random.default_rng(0).normal(0, 0.02, 13))
    )
    sides = ((host.name, host_us), (target.name, 0.8 * host_us))
    raw = pd.concat(
        [shapes.assign(device=name, duration_us=times) for name, times in sides], ignore_index=True
    )
    frame = clean(raw.assign(source=[f"a<b>.csv:{row + 2}" for row in range(len(raw))])).frame
    dataset = build_dataset(frame, host=host, target=target)
    return ValidationResult(
        dataset, assess_scaling(dataset, replicates=100), 0.10, 10, 100, 0, {}, ()
    )


def test_the_figure_shows_every_pair_and_the_medians(copies: ValidationResult) -> None:
    figure = deviations(copies)
    visible = [trace for trace in figure.data if trace.visible]
    points = [trace for trace in visible if trace.type == "scattergl"]
    assert sum(len(trace.x) for trace in points) == 13
    copied = next(trace for trace in points if trace.name.startswith("copy"))
    np.testing.assert_allclose(copied.y, 0.8 / (163.4 / 157.3), rtol=0.01)  # fp32 vector peaks
    median = next(trace for trace in visible if trace.type == "scatter")
    assert median.name == copied.name  # the lone softmax has no interval
    found = copies.classes[1].law("FLOPS scaling").evidence
    assert found is not None
    assert median.y[0] + median.error_y.array[0] == pytest.approx(found.deviation.upper)
    band = next(shape for shape in figure.layout.shapes if shape.type == "rect")
    assert (band.y0, band.y1) == pytest.approx((1 / 1.1, 1.1))


def test_each_button_shows_one_law(copies: ValidationResult) -> None:
    figure = deviations(copies)
    shares = [button.args[0]["visible"] for button in figure.layout.updatemenus[0].buttons]
    assert [button.label for button in figure.layout.updatemenus[0].buttons] == list(
        copies.dataset.laws
    )
    assert np.array(shares).sum(axis=0).tolist() == [1] * len(figure.data)


def test_the_terminal_shows_the_answer_then_evidence(
    result: ValidationResult, golden: Callable[[str, str], None]
) -> None:
    golden("validate.txt", printed(validation_document(result)))


def test_each_workload_has_its_rate_below_the_roof_and_a_group_its_share() -> None:
    found = fc.validate(where={"m": (None, 64), "n": 4096}, replicates=20)
    rows, figure = found.dataset.rows, found.plot_roofline()
    points = [trace for trace in figure.data if trace.mode == "markers"]
    for trace, gpu, times in zip(
        points, ("MI300X", "MI355X"), (rows["host_duration_us"], found.dataset.y), strict=True
    ):
        assert trace.name == gpu
        rates = 2e-6 * (rows["m"] * rows["n"] * rows["k"]) / times
        assert sorted(trace.y) == pytest.approx(sorted(rates))
        roof = next(one for one in figure.data if one.name == f"roof of {gpu}")
        assert (trace.y < np.interp(trace.x, roof.x, roof.y)).all()
        assert max(roof.y) < find(gpu).peaks["fp8_matrix"] * 1.001
    shares = [np.asarray(trace.z, dtype=float) for trace in found.plot_efficiency().data]
    assert all(0 < np.nanmin(one) <= np.nanmax(one) < 100 for one in shares)
    assert {*found.plot_efficiency().data[0].y} == {*found.dataset.groups}


def test_without_times_there_is_no_roof(result: ValidationResult) -> None:
    assert (
        roofline_figure(replace(result, dataset=replace(result.dataset, metric="energy_j"))) is None
    )
    assert (
        efficiency_figure(replace(result, dataset=replace(result.dataset, metric="energy_j")))
        is None
    )

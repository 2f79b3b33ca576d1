from __future__ import annotations

import json
import re
from dataclasses import replace

import numpy as np
import pandas as pd
import pytest
from rich.console import Console

from flopcast.evaluation.linear_scaling import ValidationResult, assess_scaling
from flopcast.evaluation.verdicts import Outcome
from flopcast.features.matrix import build_dataset
from flopcast.hardware import find
from flopcast.output import dumps
from flopcast.report.console import WIDTH
from flopcast.report.validation import (
    FIGURES,
    asked,
    class_lines,
    conclusion,
    legend,
    summary,
    validation_json,
    validation_table,
)
from flopcast.table.measurements import clean


@pytest.fixture(scope="module")
def result() -> ValidationResult:
    """Softmax is 1.3 times what bandwidth scaling says; GELU follows another law on too few rows."""
    host, target = find("MI300X"), find("MI355X")
    ratio = host.require("memory_bw_gbs") / target.require("memory_bw_gbs")
    cells = [("softmax", rows, cols) for cols in (2048, 4096, 8192, 16384) for rows in np.geomspace(4096, 65536, 8)]
    shapes = pd.DataFrame([*cells, ("gelu", 8192, 4096)], columns=["op", "rows", "cols"]).assign(dtype_a="bf16")
    shapes["rows"] = shapes["rows"].round()
    host_us = (shapes["rows"] * shapes["cols"]).to_numpy() * 4 / (3000 * 1e3)
    noise = np.exp(np.random.default_rng(0).normal(0, 0.02, len(shapes)))
    sides = ((host.name, host_us), (target.name, 1.3 * ratio * host_us * noise))
    raw = pd.concat([shapes.assign(device=name, duration_us=times) for name, times in sides], ignore_index=True)
    frame = clean(raw.assign(source=[f"softmax.csv:{row + 2}" for row in range(len(raw))])).frame
    dataset = build_dataset(frame, host=host, target=target)
    classes = assess_scaling(dataset, replicates=200)
    return ValidationResult(dataset, classes, 0.10, 10, 200, 0, {"duration is zero": 2}, ("a remark",))


def shown(result: ValidationResult, width: int = WIDTH) -> str:
    console = Console(width=width, record=True, file=None, quiet=False)
    with console.capture() as capture:
        console.print(validation_table(result))
    return capture.get()


def test_the_table_holds_every_class_and_law(result: ValidationResult) -> None:
    text = shown(result)
    assert "MI300X → MI355X, duration_us: 33 pairs" in text
    rows = [line.strip() for line in text.splitlines()]
    laws = [row for row in rows if row.startswith("bandwidth scaling")]
    assert len(laws) == 2  # all rows, softmax
    assert all("holds with a correction of 1." in row for row in laws)
    assert next(row for row in rows if row.startswith("gelu")).endswith("too few data")
    assert all(len(line) <= WIDTH for line in text.splitlines())


def test_a_line_carries_its_figures(result: ValidationResult) -> None:
    softmax = result.classes[1]
    lines = {label: (figures, words) for label, figures, words, _ in class_lines(softmax)}
    assert lines["softmax bf16 memory-bound"][0][:2] == ("32 rows", "4 groups")
    assert re.fullmatch(r"HE \S+→\S+, BW 56→43 %", lines["softmax bf16 memory-bound"][1])
    figures, verdict = lines["bandwidth scaling"]
    median, slope, scatter, error = figures
    assert re.fullmatch(r"holds with a correction of 1\.(29|30|31) \[1\.\d\d, 1\.\d\d\]", verdict)
    assert re.fullmatch(r"1\.(29|30|31) \[1\.\d\d, 1\.\d\d\]", median)
    assert re.fullmatch(r"(0\.99|1\.00|1\.01) \[0\.9\d, 1\.0\d\]", slope)
    assert re.fullmatch(r"[1-3]\.\d %", scatter)
    assert re.fullmatch(r"2\d\.\d % ", error)  # 1 - 1/1.3, and not among the best
    assert lines["constant ratio"][0][3].endswith("%*")
    assert lines["constant ratio"][1].endswith("·t_host")
    assert len(figures) == len(FIGURES)


def test_the_conclusion_says_what_holds_instead(result: ValidationResult) -> None:
    assert re.fullmatch(
        r"softmax bf16 memory-bound: FLOPS scaling (fails|holds with).*"
        r"\. Out of sample (constant ratio|affine).* errs least, by \d\.\d % \[\d\.\d, \d\.\d\]"
        r", not told apart from .*; FLOPS scaling by \d+\.\d % \[.*\]\.",
        conclusion(result.classes[1]),
    )
    assert conclusion(result.classes[2]).startswith("gelu bf16 memory-bound: FLOPS scaling too few data (1 of the 10")


def test_the_summary_names_the_classes_of_each_outcome(result: ValidationResult) -> None:
    first, *laws, last = summary(result)
    assert first == conclusion(result.classes[0])
    assert "bandwidth scaling: holds with a correction in softmax bf16 memory-bound" in laws
    assert last == "too few data: 1 of 2 classes, 1 row"


def test_figures_of_energy_are_in_its_unit(result: ValidationResult) -> None:
    fitted = (replace(result.classes[1].explanations[0], law="affine", parameters={"a_j": 0.5, "b": 2.0}),)
    softmax = replace(result.classes[1], metric="energy_j", explanations=fitted)
    assert "Out of sample affine (0.5 J + 2·E_host) errs least" in conclusion(softmax)
    assert ("affine", "0.5 J + 2·E_host") in [(line[0], line[2]) for line in class_lines(softmax)]


def test_title_and_legend_state_the_settings(result: ValidationResult) -> None:
    assert asked(result).endswith("33 pairs, 5 groups, margin ±10 %")
    assert "5%" in legend(result)
    assert "67%" in legend(result)


def test_json_is_complete_and_plain(result: ValidationResult) -> None:
    found = json.loads(dumps(validation_json(result), missing=True))
    assert list(found) == [
        "schema", "host", "target", "metric", "margin", "alpha", "folds", "bootstrap", "data", "classes", "summary",
        "notes",
    ]  # fmt: skip
    assert list(found["data"]) == ["pairs", "groups", "rejected", "pairing"]
    assert (found["schema"], found["host"], found["target"]) == (1, "MI300X", "MI355X")
    assert found["data"]["rejected"] == {"duration is zero": 2}
    pooled, softmax, gelu = found["classes"]
    assert (pooled["op"], pooled["rows"]) == ("all", 33)
    law = next(one for one in softmax["laws"] if one["law"] == "bandwidth scaling")
    assert law["verdict"] == Outcome.CORRECTED.value
    assert set(law["evidence"]) == {
        "deviation", "drift", "groups", "attenuated_slope", "rows", "scatter", "size_p", "slope", "slope_p",
    }  # fmt: skip
    deviation = law["evidence"]["deviation"]
    assert deviation["lower"] < 1.3 < deviation["upper"]
    assert deviation["level"] == pytest.approx(0.9)
    assert law["median_ratio"] == pytest.approx(5325 / 8000, rel=1e-3)
    assert [one["law"] for one in softmax["out_of_sample"]][-1] in {one["law"] for one in softmax["laws"]}
    assert set(softmax["efficiency"]) == {"host_flops", "target_flops", "host_bandwidth", "target_bandwidth"}
    assert gelu["laws"][0]["evidence"] is None
    assert gelu["out_of_sample"] == []

"""What cleaning found, as tables and as JSON."""

from __future__ import annotations

import io
import json
from dataclasses import replace

import numpy as np
import pandas as pd
import pytest
from rich.console import Console

from flopcast.output import dumps
from flopcast.report.cleaning import (
    SHOWN,
    cleaning_document,
    cleaning_json,
    coverage_json,
    verdicts,
)
from flopcast.report.terminal import print_document
from flopcast.traces.cleaning.joining import Coverage, merge_coverage
from flopcast.traces.cleaning.pipeline import Cleaned, CleanedTraces, clean
from flopcast.traces.dispatches import dispatch_table, empty_steps


def kernels(names: list[str], duration_us: np.ndarray) -> pd.DataFrame:
    duration = np.rint(duration_us * 1e3).astype(np.int64)
    start = np.cumsum(duration) - duration
    return dispatch_table(
        {"kind": "kernel", "name": names, "start_ns": start, "duration_ns": duration, "gpu": 0}
    )


def cleaned() -> Cleaned:
    """Return a kernel with an outlier, one that drifts, and more kernels than a table shows."""
    rng = np.random.default_rng(0)
    times = [
        *rng.normal(10, 0.1, 49),
        90.0,
        *(np.repeat([50.0, 55.0], [30, 20]) + rng.normal(0, 1.0, 50)),
    ]
    names = ["steady"] * 50 + ["a name that is longer than the column for it [" + "x" * 80] * 50
    others = [f"k{number}" for number in range(SHOWN)]
    return clean(kernels([*names, *others], np.r_[times, np.full(SHOWN, 0.5)]), empty_steps())


def together(found: Cleaned, coverage: Coverage | None = None) -> CleanedTraces:
    rows, rejected = (
        pd.DataFrame(index=range(22)),
        pd.DataFrame({"reason": ["no-device", "no-device"]}),
    )
    return CleanedTraces(("t.json",), found, 0.95, rows, rejected, coverage, None, ())


def shown(found: CleanedTraces, width: int = 120) -> str:
    console = Console(file=io.StringIO(), width=width)
    print_document(console, cleaning_document(found))
    assert isinstance(console.file, io.StringIO)
    return console.file.getvalue()


def test_the_spread_and_the_losses_are_shown_and_long_lists_are_cut() -> None:
    text = shown(together(cleaned()))
    assert "95 % interval" in text
    assert "not settled, drifts" in text
    assert "2 more" in text
    assert "outlier" in text
    assert "0.83 %" in text  # one activity of 120
    assert "a name that is l…xxx" in text
    assert max(map(len, text.splitlines())) <= 120


@pytest.mark.parametrize(
    ("width", "name"),
    [(80, "a name that…xxx"), (100, "a name that is lo…x"), (130, "a name that is lo…x")],
)
def test_the_class_of_a_kernel_is_one_word_and_its_name_gives_way(width: int, name: str) -> None:
    found = cleaned()
    report = found.report.assign(op_class="elementwise", op="batch_norm_inference")
    text = shown(together(replace(found, report=report)), width)
    assert text.count(" elementwise ") == SHOWN
    assert "batch_norm" not in text
    assert "9.954 … 10.070" in text
    assert name in text


def test_verdicts_count_what_is_known() -> None:
    one = clean(kernels(["k"] * 5, np.ones(5)), empty_steps())
    known, drifting = verdicts(cleaned().report)
    assert all(figure in known for figure in ("22 kernels, 2 ", "±6.8 %", "±13.1 %"))
    assert drifting.startswith("1 of 2 kernels")
    assert [line.startswith("1 kernel, 0 ") for line in verdicts(one.report)] == [True]


def test_json_holds_all_kernels() -> None:
    found = json.loads(dumps(cleaning_json(together(cleaned())), missing=True))
    assert (found["measured"], found["kept"], found["removed"]) == (120, 119, {"outlier": 1})
    assert len(found["kernels"]) == 22
    assert {kernel["drifts"] for kernel in found["kernels"]} == {None, 0.0, 1.0}


def test_what_is_not_covered_is_shown() -> None:
    run, full = (
        kernels(["a"], np.ones(1)),
        pd.DataFrame({"name": ["a", *(f"k{i}" for i in range(SHOWN + 1))]}),
    )
    coverage = merge_coverage({"one": run}, full)
    text = shown(together(cleaned(), coverage))
    assert "21 of 22" in text
    assert "1 more" in text
    assert json.loads(dumps(coverage_json(coverage), missing=True))["missing"][0]["name"] == "k0"

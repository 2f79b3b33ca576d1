"""What a prediction shows first: the workload, then the answer."""

from __future__ import annotations

from io import StringIO

import pandas as pd
import pytest
from rich.console import Console

import flopcast as fc
from flopcast.report import terminal
from flopcast.report.document import Table
from flopcast.report.predictions import predictions_document


@pytest.fixture(scope="module")
def run() -> fc.Run:
    return fc.train(where={"m": (None, 64)}, models=["OLS"], jobs=1)


def test_the_answer_stands_beside_what_identifies_the_row(run: fc.Run) -> None:
    frame = run.predict(fc.read(where={"device": "MI300X", "m": (None, 64)}))
    first = [
        "op",
        "dtype_a",
        "m",
        "n",
        "k",
        "batch",
        "scale_block",
        "predicted_us",
        "lower_us",
        "upper_us",
        "basis",
    ]
    assert list(frame)[: len(first)] == first


@pytest.mark.parametrize("width", [40, 60, 80, 160])
def test_predictions_show_rows_on_any_terminal(run: fc.Run, width: int) -> None:
    found = fc.predict(run, fc.read(where={"device": "MI300X", "m": (None, 128)}))
    report = dict(found.summary) | {
        "notes": ["a remark that is longer than a line of most terminals " * 3] * 6
    }
    document = predictions_document(found.frame, report)
    screen = terminal.first_screen(document, Console(width=width, file=StringIO()))
    (table,) = [part for part in screen.opening if isinstance(part, Table)]
    assert len(table.rows) >= 3


def test_what_to_measure_is_told_whole(run: fc.Run) -> None:
    rows = [{"op": "add", "dtype_a": "bf16", "elements": 2**power} for power in range(10, 20)]
    softmax = [
        {"op": "softmax", "dtype_a": "bf16", "rows": 2**power, "cols": 768}
        for power in range(5, 12)
    ]
    measured = pd.DataFrame([*rows, *softmax]).assign(device="MI300X", duration_us=range(10, 27))
    alone = fc.train(measured, target="MI300X", models=["Additive"], jobs=1)
    asked = measured.drop(columns="duration_us")
    asked = asked.assign(elements=asked["elements"] + 64, rows=asked["rows"] + 8)
    (table,) = [
        part
        for section in fc.advise(alone, asked, rows=6).document().sections
        for part in section.parts
        if isinstance(part, Table)
    ]
    told = [str(row.cells[0]) for row in table.rows]
    assert len(set(told)) == 6
    assert all("elements=" in text or ("rows=" in text and "cols=768" in text) for text in told)
    assert not any("None" in text or "nan" in text for text in told)

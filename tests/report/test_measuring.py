"""A measurement as a document."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd

from flopcast.measuring.measure import Measured
from flopcast.remarks import remark
from flopcast.report.document import Document, Lines
from flopcast.report.measuring import (
    difference_line,
    measurements_json,
    measuring_document,
    operator_table,
)

TABLE = pd.DataFrame(
    {
        "device": ["CPU-1T", "CPU-1T", "CPU-2T"],
        "op": ["gemm", "gemm", "softmax"],
        "m": [4.0, 8.0, np.nan],
        "causal": [None, False, None],
        "duration_us": [100.0, 200.0, 1234.5],
        "interval_low_us": [99.0, 190.0, 1234.5],
        "interval_high_us": [102.0, 204.0, 1234.5],
        "repeats": [50, 45, 60],
        "outliers": [0, 5, 0],
        "clock_share": [0.0, 0.005, np.nan],
        "late_share": [0.0, 0.1, 0.0],
        "stopped_by": ["interval", "time", "rounds differ"],
    }
)


def measured(**changes: Any) -> Measured:
    provenance = {"refused": [], "unmeasured": 0, "workloads": 3}
    parts = {
        "table": TABLE,
        "provenance": provenance,
        "differences": pd.Series(dtype=float),
        "failures": [],
    }
    return Measured(**{**parts, "ended": "done", "out": Path("runs.csv"), **changes})


def document(**changes: Any) -> Document:
    return measuring_document(measured(**changes))


def told(document: Document) -> list[str]:
    parts = (*document.opening, *document.closing)
    return [line.text for part in parts if isinstance(part, Lines) for line in part.lines]


def test_operators_are_counted_and_how_their_rows_ended() -> None:
    table = operator_table(TABLE)
    assert [column.head for column in table.columns][-3:] == [
        "ended: interval",
        "ended: rounds differ",
        "ended: time",
    ]
    assert table.rows[0].cells == (
        "CPU-1T",
        "gemm",
        "2",
        "100.00",
        "200.00",
        "3.50",
        "5.0",
        "1",
        "0",
        "1",
    )


def test_failures_and_passes_are_told() -> None:
    failures = [{"row": f"conv fp32 batch={i}", "reason": "out of memory"} for i in range(12)]
    lines = told(document(failures=failures, differences=pd.Series([1.0, 2.0, 9.0])))
    assert "conv fp32 batch=9: out of memory" in lines[9]
    assert "2 more" in lines[10]
    assert [figure in lines[11] for figure in ("2.0 %", "7.6 %")] == [True, True]


def test_doubts_notes_and_what_is_left_are_told() -> None:
    provenance = {"refused": [], "unmeasured": 1, "workloads": 3}
    once = remark("measured-once", "s.csv: 2 rows repeat", file="s.csv", rows=2)
    late = TABLE.assign(late_share=1.0)
    doubt, note, left = told(
        document(table=late, ended="budget", provenance=provenance, notes=(once,))
    )
    assert doubt.startswith("3 of 3 rows")
    assert "s.csv: 2 rows" in note
    assert all(words in left for words in ("runs.csv", "1 of 3 workloads"))


def test_the_difference_in_words() -> None:
    assert "3.0 %" in difference_line(pd.Series([3.0]))


def test_json_leaves_out_the_cells_that_a_row_does_not_have() -> None:
    found = measurements_json(measured(notes=(remark("collectives-need-two-gpus"),)))
    assert found["notes"] == ["[collectives-need-two-gpus]"]
    assert json.loads(json.dumps(found))["rows"][2] == {
        "device": "CPU-2T",
        "op": "softmax",
        "duration_us": 1234.5,
        "interval_low_us": 1234.5,
        "interval_high_us": 1234.5,
        "repeats": 60,
        "outliers": 0,
        "late_share": 0.0,
        "stopped_by": "rounds differ",
    }
    assert found["rows"][1]["causal"] is False

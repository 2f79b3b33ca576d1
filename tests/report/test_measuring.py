"""A measurement on the terminal."""

from __future__ import annotations

import io
import json
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
from rich.console import Console

from flopcast.measuring.measure import Measured
from flopcast.remarks import remark
from flopcast.report.measuring import difference_line, measurements_json, show_measurements

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


def shown(**changes: Any) -> str:
    provenance = {"refused": [], "unmeasured": 0, "workloads": 3}
    parts = {"table": TABLE, "provenance": provenance, "differences": pd.Series(dtype=float), "failures": []}
    console = Console(width=140, record=True, file=io.StringIO())
    show_measurements(console, Measured(**{**parts, "ended": "done", **changes}), Path("runs.csv"))
    return console.export_text()


def test_operators_failures_and_passes_are_shown() -> None:
    failures = [{"row": f"conv fp32 batch={i}", "reason": "out of memory"} for i in range(12)]
    text = shown(failures=failures, differences=pd.Series([1.0, 2.0, 9.0]))
    (gemm,) = [line for line in text.splitlines() if " gemm " in line]
    assert gemm.split() == ["CPU-1T", "gemm", "2", "100.00", "200.00", "3.50", "5.0", "1", "0", "1"]
    (head,) = [line for line in text.splitlines() if "operator" in line]
    assert head.split()[-4:] == ["interval", "rounds", "differ", "time"]
    assert "not measured: conv fp32 batch=9: out of memory" in text
    assert "and 2 more" in text
    assert "batch=10" not in text
    assert "From the first pass to the last a time changes by 2.0 % (median), 90th percentile 7.6 %" in text


def test_doubts_notes_and_what_is_left_are_told() -> None:
    left = {"refused": [], "unmeasured": 1, "workloads": 3}
    text = shown(
        table=TABLE.assign(late_share=1.0),
        ended="budget",
        provenance=left,
        notes=(remark("measured-once", file="s.csv", rows=2),),
    )
    assert "3 of 3 rows: the host launched too slowly" in text
    assert "note: s.csv: 2 rows that repeat others are measured once" in text
    assert "the budget is spent: what is measured is in runs.csv (1 of 3 workloads have no time yet)" in text


def test_the_difference_in_words() -> None:
    assert difference_line(pd.Series([3.0])).startswith("From the first pass to the last a time changes by 3.0 %")


def test_json_leaves_out_the_cells_that_a_row_does_not_have() -> None:
    found = measurements_json(TABLE, {"schema": 1})
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

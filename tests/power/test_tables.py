from __future__ import annotations

import re

import numpy as np
import pandas as pd
import pytest

from flopcast.errors import DataError
from flopcast.power.readings import check_clock_pairs, check_executions, check_power_log
from flopcast.readers.base import LINE

MS = 1_000_000


def log(**columns: object) -> pd.DataFrame:
    """Five readings, 1 ms apart, of two components."""
    stamps = np.arange(5) * MS + 1_700_000_000_000_000_001
    parts = [pd.DataFrame({"gpu_ns": stamps, "component": name, "power_w": 300.0}) for name in ("total", "hbm")]
    return pd.concat(parts, ignore_index=True).assign(**columns)


def executions(**columns: object) -> pd.DataFrame:
    start = np.arange(4) * 150_000
    return pd.DataFrame({"start_ns": start, "end_ns": start + 120_000, "kernel": "gemm"}).assign(**columns)


def pairs(**columns: object) -> pd.DataFrame:
    return pd.DataFrame({"gpu_ns": [10, 20, 30], "cpu_ns": [110, 120, 130], "delay_ns": [5, 5, 5]}).assign(**columns)


def test_nanoseconds_since_1970_stay_exact() -> None:
    as_text = log().astype(str)
    assert check_power_log(as_text)["gpu_ns"].tolist() == log()["gpu_ns"].tolist()
    assert check_power_log(log().drop(columns="component").head(5))["component"].unique().tolist() == ["total"]


@pytest.mark.parametrize(
    ("table", "message"),
    [
        (log().rename(columns={"gpu_ns": "gpu_us"}), "power log: no column gpu_ns: gpu_us is of another unit"),
        (log().drop(columns="power_w"), "power log: no column power_w: the table has gpu_ns, component"),
        (log().head(0), "power log: the table has no rows"),
        (log(gpu_ns=np.tile(np.arange(5) * 1000, 2)), "power log: readings are 1000 ns apart (median): gpu_ns must be"),
        (log(power_w=300_000.0), "power log: power_w is 300000 (median): it must be watts, 5 to 20000"),
        (log(power_w=1.0), "power log: power_w is 1 (median)"),
        (log(power_w=[300.0] * 9 + [-1]), "power log, row 10: power_w is negative"),
        (log(power_w=["300"] * 9 + ["N/A"]), "power log, row 10: power_w must be a number, got 'N/A'"),
        (log(gpu_ns=["x"] * 10), "power log, row 1: gpu_ns must be a whole number, got 'x'"),
        (log(gpu_ns=1e19), "power log, row 1: gpu_ns must be a whole number, got '1e+19'"),
        (log().iloc[[0, 2, 1, 3, 4]], "power log, row 3: gpu_ns is earlier than the reading before: sort"),
        (log().iloc[[0, 1, 1, 2]], "power log, row 3: a second reading of the component at the same gpu_ns: logs over"),
        (log().head(9), "power log: component hbm has no reading at 1 of 5 time stamps, first at gpu_ns 170000000"),
        (log(component=""), "power log, row 6: gpu_ns is earlier"),
        (log(component=["total"] * 5 + [" "] * 5), "power log, row 6: component has no name"),
    ],
)  # fmt: skip
def test_a_power_log_that_cannot_be_used(table: pd.DataFrame, message: str) -> None:
    with pytest.raises(DataError, match=re.escape(message)):
        check_power_log(table)


@pytest.mark.parametrize(
    ("table", "message"),
    [
        (executions(end_ns=0), "executions, row 1: the execution ends before it starts"),
        (executions().iloc[::-1], "executions, row 2: start_ns is earlier than the row before: sort them by time"),
        (executions(end_ns=executions()["end_ns"] + 31_000), "executions, row 2: the execution starts before the one"),
        (executions(kernel=["gemm", "gemm", None, "gemm"]), "executions, row 3: kernel has no name"),
        (executions(execution=0), "executions, row 1: execution is counted from 1"),
        (executions(**{"class": "CPU-bound"}), "executions, row 1: class must be one of compute-bound, memory-bound"),
        (executions(start_ns=[0, 150, 300, 450], end_ns=[120, 270, 420, 570]), "executions last 120 ns (median)"),
    ],
)  # fmt: skip
def test_executions_that_cannot_be_used(table: pd.DataFrame, message: str) -> None:
    with pytest.raises(DataError, match=re.escape(message)):
        check_executions(table)


def test_optional_columns_stay() -> None:
    found = check_executions(executions(run="a", **{"class": "Memory-Bound", "note": "x"}))
    assert found.columns.tolist() == ["start_ns", "end_ns", "kernel", "run", "class"]
    assert found["class"].unique().tolist() == ["memory-bound"]


@pytest.mark.parametrize(
    ("table", "message"),
    [
        (pairs().head(0), "clock pairs: the table has no rows"),
        (pairs(delay_ns=[5, -1, 5]), "clock pairs, row 2: delay_ns is negative"),
        (pairs(gpu_ns=[10, 10, 30]), "clock pairs, row 2: gpu_ns does not advance from the pair before"),
        (pairs(cpu_ns=[110, 120, 115]), "clock pairs, row 3: cpu_ns does not advance from the pair before"),
        (pairs().rename(columns={"delay_ns": "delay_us"}), "clock pairs: no column delay_ns: delay_us is of"),
    ],
)  # fmt: skip
def test_clock_pairs_that_cannot_be_used(table: pd.DataFrame, message: str) -> None:
    with pytest.raises(DataError, match=re.escape(message)):
        check_clock_pairs(table)


def test_the_line_of_the_file_is_named() -> None:
    table = pairs(delay_ns=[5, 5, -1], **{LINE: [2, 3, 7]})
    with pytest.raises(DataError, match=r"clocks\.csv:7: delay_ns is negative"):
        check_clock_pairs(table, "clocks.csv")

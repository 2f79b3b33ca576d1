from __future__ import annotations

import numpy as np
import pandas as pd
import pytest

from flopcast.traces.dispatches import (
    COLUMNS,
    FIRST,
    LAST,
    Trace,
    columns_of,
    counters_of,
    dispatch_table,
    durations,
    findings_at,
    in_order,
)


def test_every_column_is_there_typed_and_missing_where_the_producer_has_none() -> None:
    table = dispatch_table(
        {
            "kind": "kernel",
            "name": ["a", None],
            "start_ns": [5, 3],
            "duration_ns": [1, 2],
            "grid_x": [4, None],
        }
    )
    assert tuple(table.columns) == COLUMNS
    assert table["name"].tolist() == ["a", ""]
    assert (table["start_ns"].dtype, table["linked"].dtype) == (np.int64, bool)
    assert table["grid_x"].tolist() == [4, pd.NA]
    assert table["op_id"].isna().all()
    assert (table["op_name"] == "").all()


def test_rows_go_by_position_whatever_index_a_series_brings() -> None:
    shifted = {"index": [7, 3]}
    table = dispatch_table(
        {
            "kind": pd.Series(["kernel", "memset"], **shifted),
            "name": "x",
            "start_ns": pd.Series([10, 20], **shifted),
            "duration_ns": pd.Series([1, 2], **shifted),
            "linked": pd.Series([True, False], **shifted),
            "gpu": pd.Series([0, 1], **shifted),
            "counter.A": pd.Series([1.5, np.nan], **shifted),
        }
    )
    assert table[["kind", "start_ns", "linked", "gpu"]].to_numpy().tolist() == [
        ["kernel", 10, True, 0],
        ["memset", 20, False, 1],
    ]
    assert counters_of(table) == ["counter.A"]
    assert table["counter.A"].tolist()[0] == 1.5


def test_categories_stay_categories_and_missing_ones_are_blank() -> None:
    names = pd.Categorical.from_codes([0, -1, 0], categories=["gemm"])
    table = dispatch_table(
        {"kind": "kernel", "name": names, "start_ns": [1, 2, 3], "duration_ns": 1}
    )
    assert table["name"].tolist() == ["gemm", "", "gemm"]
    assert isinstance(table["name"].dtype, pd.CategoricalDtype)


def test_large_integers_keep_every_digit() -> None:
    now = 1_763_000_000_000_000_001
    table = dispatch_table(
        {"kind": "kernel", "name": "k", "start_ns": [now], "duration_ns": [1], "correlation": [now]}
    )
    assert (table["start_ns"][0], table["correlation"][0]) == (now, now)


def test_a_column_of_no_known_name_is_a_mistake_of_the_reader() -> None:
    with pytest.raises(ValueError, match="has no column 'grid'"):
        dispatch_table(
            {"kind": "kernel", "name": "k", "start_ns": [1], "duration_ns": [1], "grid": [1]}
        )


def test_rows_in_order_of_their_start_ties_as_given() -> None:
    table = dispatch_table(
        {"kind": "kernel", "name": ["a", "b", "c"], "start_ns": [5, 3, 3], "duration_ns": [1, 1, 1]}
    )
    assert in_order(table)["name"].tolist() == ["b", "c", "a"]
    assert Trace(table).steps.empty


def test_durations_never_wrap() -> None:
    start, end = np.array([10, FIRST, LAST, 7]), np.array([15, LAST, FIRST, 3])
    assert durations(start, end).tolist() == [5, LAST, FIRST, -4]


def test_columns_that_the_table_does_not_have_are_left_behind() -> None:
    rows = pd.DataFrame({"name": ["a"], "guid": [1], "counter.SQ_WAVES": [2.0]})
    assert [*columns_of(rows)] == ["name", "counter.SQ_WAVES"]


def test_a_finding_on_rows_names_the_place_of_the_first() -> None:
    rows, lines = np.array([False, True, True]), np.array([2, 5, 9])
    [finding] = findings_at(rows, "a.csv", lines, "no-time", "have no start", "error", by="x")
    assert (finding.source, finding.count, finding.severity) == ("a.csv:5", 2, "error")
    assert finding.remark.values["by"] == "x"
    assert findings_at(~(rows | True), "a.csv", lines, "no-time", "have no start") == []

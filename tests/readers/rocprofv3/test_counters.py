"""Counters of several passes brought to the dispatches that were timed."""

from __future__ import annotations

import numpy as np
import pandas as pd
import pytest

from flopcast.readers.rocprofv3_csv import Pass, counters, dispatch_key

Launch = tuple[str, int, int]


def key(*launches: Launch, run: int = 0) -> pd.DataFrame:
    """Return the key of dispatches given as kernel, number, work-items."""
    names, numbers, items = zip(*launches, strict=True)
    return dispatch_key(
        np.full(len(launches), run),
        pd.Categorical(names),
        pd.Series(numbers, dtype="Int64"),
        pd.Series(items, dtype="Int64"),
    )


def counted(*rows: tuple[str, int, int, str, float], run: int = 0, source: str = "c.csv") -> Pass:
    """Return a pass from rows of kernel, number, work-items, counter, value."""
    launches = key(*((name, number, items) for name, number, items, _, _ in rows), run=run)
    return Pass(
        launches.assign(counter=[row[3] for row in rows], value=[row[4] for row in rows]), source
    )


TIMED = key(("f", 1, 64), ("g", 2, 64), ("f", 5, 64))


def test_counters_become_columns() -> None:
    found, findings = counters(
        TIMED, [counted(("f", 1, 64, "B", 1.0), ("f", 1, 64, "A", 2.0), ("f", 5, 64, "A", 3.0))]
    )
    assert list(found.columns) == ["counter.A", "counter.B"]
    assert found["counter.A"].tolist()[::2] == [2.0, 3.0]
    assert found.isna().to_numpy().tolist() == [[False, False], [True, True], [False, True]]
    assert findings == []


def test_passes_are_joined_by_kernel_and_order_whatever_their_numbers() -> None:
    other = counted(("f", 40, 64, "A", 10.0), ("f", 30, 64, "A", 20.0), ("g", 35, 64, "A", 5.0))
    found, findings = counters(TIMED, [other])
    assert found["counter.A"].tolist() == [20.0, 5.0, 10.0]
    assert findings == []


def test_a_filtered_pass_is_joined_by_number() -> None:
    found, findings = counters(TIMED, [counted(("f", 5, 64, "A", 7.0))])
    assert found["counter.A"].fillna(-1).tolist() == [-1, -1, 7.0]
    assert findings == []


def test_a_pass_with_other_launches_is_not_joined() -> None:
    found, findings = counters(
        TIMED, [counted(("f", 9, 64, "A", 7.0), ("g", 2, 64, "A", 1.0), ("h", 3, 64, "A", 1.0))]
    )
    assert found["counter.A"].fillna(-1).tolist() == [-1, 1.0, -1]
    assert [(finding.code, finding.count, finding.source) for finding in findings] == [
        ("unmatched-pass", 2, "c.csv")
    ]


def test_a_launch_of_another_size_is_not_the_same() -> None:
    found, findings = counters(TIMED, [counted(("g", 2, 128, "A", 1.0))])
    assert found.empty
    assert findings[0].code == "unmatched-pass"


def test_processes_are_kept_apart() -> None:
    timed = pd.concat([key(("f", 1, 64)), key(("f", 1, 64), run=1)], ignore_index=True)
    passes = [counted(("f", 1, 64, "A", 1.0)), counted(("f", 1, 64, "A", 2.0), run=1)]
    assert counters(timed, passes)[0]["counter.A"].tolist() == [1.0, 2.0]


def test_the_median_of_repeated_passes_and_a_finding() -> None:
    passes = [
        counted(("g", 2, 64, "A", value), ("g", 2, 64, "B", 4.0)) for value in (1.0, 100.0, 3.0)
    ]
    found, findings = counters(TIMED, passes)
    assert found.loc[1, "counter.A"] == 3.0
    assert found.loc[1, "counter.B"] == 4.0
    assert [(finding.code, finding.count) for finding in findings] == [("replay-spread", 1)]
    assert findings[0].remark.values == {"counters": ("A",)}


def test_equal_repeats_are_not_worth_a_word() -> None:
    assert counters(TIMED, [counted(("g", 2, 64, "A", 4.0))] * 2)[1] == []


@pytest.mark.parametrize(
    "passes", [[], [Pass(counted(("f", 1, 64, "A", 1.0)).rows.iloc[:0], "c.csv")]]
)
def test_no_counters_no_columns(passes: list[Pass]) -> None:
    found, findings = counters(TIMED, passes)
    assert found.shape == (3, 0)
    assert findings == []

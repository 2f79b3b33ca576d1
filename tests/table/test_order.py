"""The order of rows by their content."""

from __future__ import annotations

import numpy as np
import pandas as pd

import flopcast as fc
from flopcast.table.problems import by_content


def test_shuffled_rows_come_back_in_one_order_wherever_they_stood() -> None:
    rows = fc.read(where={"m": (None, 64)}).frame
    shuffled = rows.sample(frac=1, random_state=0).reset_index(drop=True)
    moved = shuffled.assign(source=[f"other.csv:{line}" for line in range(len(rows))])
    ordered = [by_content(table).drop(columns="source") for table in (rows, shuffled, moved)]
    pd.testing.assert_frame_equal(ordered[0], ordered[1])
    pd.testing.assert_frame_equal(ordered[0], ordered[2])


def test_rows_alike_in_sizes_are_ordered_by_all_else_that_they_say() -> None:
    rows = pd.DataFrame(
        {
            "op": "gemm",
            "m": [8, 8, 8, 4],
            "kernel": ["b", None, "a", "z"],
            "tuned": [True, False, True, False],
            "duration_us": [1.0, np.nan, 2.0, 9.0],
        }
    )
    orders = []
    for seed in range(5):
        shuffled = rows.sample(frac=1, random_state=seed).reset_index(drop=True)
        orders.append(by_content(shuffled))
    for other in orders[1:]:
        pd.testing.assert_frame_equal(orders[0], other)
    assert orders[0]["m"].tolist() == [4, 8, 8, 8]


def test_the_embedded_table_is_in_this_order() -> None:
    rows = fc.read().frame
    assert by_content(rows) is rows

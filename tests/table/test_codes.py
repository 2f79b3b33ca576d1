from __future__ import annotations

import numpy as np
import pandas as pd

from flopcast.table.problems import codes_of


def test_rows_that_agree_in_every_column_share_a_number_missing_values_too() -> None:
    words, numbers = pd.Series(["a", None, "a", None]), np.array([1.0, np.nan, 2.0, np.nan])
    assert codes_of([words, numbers]).tolist() == [0, 1, 2, 1]


def test_many_columns_of_many_levels_do_not_overflow() -> None:
    keys = [np.arange(50_000) for _ in range(8)]
    assert codes_of(keys).tolist() == list(range(50_000))

from __future__ import annotations

from collections.abc import Callable

import pandas as pd
import pytest

from flopcast.errors import DataError
from flopcast.traces.cleaning.coverage import every_place, places_of

Table = Callable[..., pd.DataFrame]


def test_a_place_is_the_name_and_the_order_of_its_occurrence_on_a_gpu(kernels: Table) -> None:
    table = kernels([1.0] * 6, name=list("abacab"), gpu=[4, 4, 4, 4, 7, 7], dispatch_id=[9, 8, 7, 6, 5, 4])
    table.loc[3, "kind"] = "memcpy"
    found = places_of(table.iloc[::-1])
    assert found.index.tolist() == [0, 1, 2, 4, 5]
    assert found[["device_number", "name", "occurrence"]].to_numpy().tolist() == [
        [0, "a", 1], [0, "b", 1], [0, "a", 2], [1, "a", 1], [1, "b", 1],
    ]  # fmt: skip
    assert found["duration_us"].tolist() == [1.0] * 5


def test_totals_of_grids_are_compared_as_counters_record_no_more(kernels: Table) -> None:
    whole = kernels([1.0], grid_x=8, grid_y=4, grid_z=1, block_x=64, block_y=2, block_z=1)
    total = kernels([1.0], grid_x=32, block_x=128)
    unknown = kernels([1.0])
    every = every_place({"whole": whole, "unknown": unknown, "total": total})
    assert every["workgroups"].tolist()[::2] == [32.0, 32.0]
    assert every["run"].tolist() == ["whole", "unknown", "total"]
    with pytest.raises(
        DataError, match=r"kernel 'k', occurrence 1: threads 128 in whole \(t\.json:1\), 64 in other \(t\.json:1\)"
    ):
        every_place({"unknown": unknown, "whole": whole, "other": kernels([1.0], grid_x=32, block_x=64)})

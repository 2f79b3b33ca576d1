from __future__ import annotations

from collections.abc import Callable

import numpy as np
import pandas as pd
import pytest

from flopcast.errors import DataError
from flopcast.traces.cleaning.passes import join_passes

Table = Callable[..., pd.DataFrame]


def test_counters_of_passes_are_joined_by_place_not_by_time_or_number(kernels: Table) -> None:
    timed = kernels([1.0, 2.0, 3.0], name=["a", "b", "a"], dispatch_id=[1, 2, 3])
    first = kernels([9.0, 9.0, 9.0], name=["a", "a", "b"], dispatch_id=[7, 8, 9], **{"counter.X": [10.0, 30.0, 20.0]})
    second = kernels([8.0, 8.0], name=["b", "a"], **{"counter.X": [22.0, 10.0], "counter.Y": [5.0, 6.0]})
    found = join_passes({"first": first, "timed": timed, "second": second})
    [table] = found.dispatches.values()
    assert table["duration_ns"].tolist() == [1000, 2000, 3000]
    assert table["counter.X"].tolist() == [10.0, 20.0, 30.0]
    assert table["counter.Y"].tolist()[:2] == [6.0, 5.0]
    assert np.isnan(table["counter.Y"][2])
    [x, y] = found.counters.to_dict("records")
    assert (x["counter"], x["passes"], x["dispatches"], x["compared"]) == ("X", 2, 3, 2)
    cv = np.sqrt(2.0) / 21.0
    assert (x["median_cv"], x["max_cv"]) == (pytest.approx(cv / 2), pytest.approx(cv))
    assert (y["passes"], y["compared"]) == (1, 0)
    assert np.isnan(y["max_cv"])
    assert found.notes[0].endswith("they were never true together")
    assert found.notes[1] == "times are those of 1 runs without counters"


def test_where_all_runs_have_counters_all_keep_their_times(kernels: Table) -> None:
    runs = {name: kernels([time], **{f"counter.{name}": [time]}) for name, time in (("A", 1.0), ("B", 2.0))}
    found = join_passes(runs).dispatches
    assert {name: table["duration_ns"].tolist() for name, table in found.items()} == {"A": [1000], "B": [2000]}
    assert all(table[["counter.A", "counter.B"]].to_numpy().tolist() == [[1.0, 2.0]] for table in found.values())


def test_runs_of_another_program_and_runs_without_counters_are_refused(kernels: Table) -> None:
    with pytest.raises(DataError, match="no counters to join"):
        join_passes({"one": kernels([1.0])})
    with pytest.raises(DataError, match="give runs of one program"):
        join_passes({"one": kernels([1.0], grid_x=1), "two": kernels([1.0], grid_x=2, **{"counter.X": [1.0]})})

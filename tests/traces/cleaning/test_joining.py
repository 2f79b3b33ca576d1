from __future__ import annotations

from collections.abc import Callable

import numpy as np
import pandas as pd
import pytest

from flopcast.errors import DataError
from flopcast.remarks import remark
from flopcast.traces.cleaning.joining import every_place, join_passes, merge_coverage, places_of

Table = Callable[..., pd.DataFrame]


def test_a_place_is_the_name_and_the_order_of_its_occurrence_on_a_gpu(kernels: Table) -> None:
    table = kernels(
        [1.0] * 6, name=list("abacab"), gpu=[4, 4, 4, 4, 7, 7], dispatch_id=[9, 8, 7, 6, 5, 4]
    )
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
    with pytest.raises(DataError, match=r"'k'.*128.*t\.json:1.*64.*t\.json:1"):
        every_place(
            {"unknown": unknown, "whole": whole, "other": kernels([1.0], grid_x=32, block_x=64)}
        )


def test_runs_that_each_have_a_few_kernels_are_put_together_and_proved_complete(
    kernels: Table,
) -> None:
    full = kernels([9.0] * 5, name=list("abacb"))
    runs = {
        "one": kernels([1.0, 2.0], name=["a", "a"]),
        "two": kernels([5.0, 1.2, 6.0, 2.6], name=["b", "a", "b", "a"]),
        "three": kernels([7.0], name=["c"]),
    }
    found = merge_coverage(runs, full)
    assert found.complete
    assert found.verdict == remark("coverage-complete", kernels=5)
    columns = ["name", "occurrence", "runs", "duration_us"]
    assert found.places[columns].to_numpy().tolist() == [
        ["a", 1, 2, 1.1], ["a", 2, 2, 2.3], ["b", 1, 1, 5.0], ["b", 2, 1, 6.0], ["c", 1, 1, 7.0],
    ]  # fmt: skip
    assert found.places["spread_us"].tolist()[:2] == pytest.approx([0.1, 0.3])
    assert found.places["spread_us"].isna().sum() == 3


def test_what_is_missing_is_listed(kernels: Table) -> None:
    full = kernels([9.0] * 5, name=list("abacb"))
    found = merge_coverage({"one": kernels([1.0, 5.0], name=["a", "b"])}, full)
    assert not found.complete
    assert found.missing[["name", "covered", "wanted"]].to_numpy().tolist() == [
        ["a", 1, 2],
        ["b", 1, 2],
        ["c", 0, 1],
    ]
    assert found.verdict == remark(
        "coverage-incomplete", missing=3, kernels=5, first=("a", "b", "c")
    )


def test_a_list_of_names_is_a_full_list_too(kernels: Table) -> None:
    names = pd.DataFrame({"name": ["a", "b", "a"]})
    run = kernels([1.0, 5.0, 1.0], name=["a", "b", "a"])
    assert merge_coverage({"one": run}, names).complete
    assert merge_coverage({"one": run.iloc[:2]}, names).missing["name"].tolist() == ["a"]
    with pytest.raises(DataError, match="GPUs"):
        merge_coverage({"one": run.assign(gpu=[0, 1, 1])}, names)


def test_without_a_full_list_nothing_is_proved(kernels: Table) -> None:
    one, two = kernels([1.0, 1.0], name=["a", "a"]), kernels([1.0, 5.0], name=["a", "b"])
    found = merge_coverage({"one": one, "two": two})
    assert not found.complete
    assert found.missing[["name", "covered", "wanted", "run"]].to_numpy().tolist() == [
        ["a", 1, 2, "two"]
    ]
    assert found.verdict == remark("coverage-uneven", first=("a",))
    alike = merge_coverage({"one": one, "two": one})
    assert (alike.complete, alike.missing.empty) == (False, True)
    assert alike.verdict == remark("coverage-unproved", kernels=2)


def test_contradictions_are_errors(kernels: Table) -> None:
    full = kernels([9.0] * 2, name=["a", "b"])
    with pytest.raises(DataError, match="kernel 'a' runs"):
        merge_coverage({"one": kernels([1.0, 1.0], name="a")}, full)
    with pytest.raises(DataError, match="kernel 'x' runs"):
        merge_coverage({"one": kernels([1.0], name="x")}, pd.DataFrame({"name": ["a"]}))
    with pytest.raises(DataError, match="workgroups 8 in one"):
        merge_coverage({"one": kernels([1.0], grid_x=8), "two": kernels([1.0], grid_x=9)})
    with pytest.raises(DataError, match=r"'k'.*64.*t.json:2.*128"):
        merge_coverage(
            {"one": kernels([1.0, 1.0], block_x=[64, 128])}, kernels([1.0, 1.0], block_x=64)
        )
    # the full run tells no launches
    assert merge_coverage({"one": kernels([1.0], grid_x=8)}, kernels([1.0])).complete
    with pytest.raises(DataError, match="no kernels"):
        merge_coverage({})


def test_counters_of_passes_are_joined_by_place_not_by_time_or_number(kernels: Table) -> None:
    timed = kernels([1.0, 2.0, 3.0], name=["a", "b", "a"], dispatch_id=[1, 2, 3])
    first = kernels(
        [9.0, 9.0, 9.0],
        name=["a", "a", "b"],
        dispatch_id=[7, 8, 9],
        **{"counter.X": [10.0, 30.0, 20.0]},
    )
    second = kernels(
        [8.0, 8.0], name=["b", "a"], **{"counter.X": [22.0, 10.0], "counter.Y": [5.0, 6.0]}
    )
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
    assert found.notes == (
        remark("passes-joined", passes=2),
        remark("times-of-runs-without-counters", runs=1),
    )


def test_where_all_runs_have_counters_all_keep_their_times(kernels: Table) -> None:
    runs = {
        name: kernels([time], **{f"counter.{name}": [time]})
        for name, time in (("A", 1.0), ("B", 2.0))
    }
    found = join_passes(runs).dispatches
    assert {name: table["duration_ns"].tolist() for name, table in found.items()} == {
        "A": [1000],
        "B": [2000],
    }
    assert all(
        table[["counter.A", "counter.B"]].to_numpy().tolist() == [[1.0, 2.0]]
        for table in found.values()
    )


def test_runs_of_another_program_and_runs_without_counters_are_refused(kernels: Table) -> None:
    with pytest.raises(DataError, match="no counters"):
        join_passes({"one": kernels([1.0])})
    with pytest.raises(DataError, match="one program"):
        join_passes(
            {
                "one": kernels([1.0], grid_x=1),
                "two": kernels([1.0], grid_x=2, **{"counter.X": [1.0]}),
            }
        )

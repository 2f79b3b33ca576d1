from __future__ import annotations

from collections.abc import Callable

import pandas as pd
import pytest

from flopcast.errors import DataError
from flopcast.traces.cleaning.coverage import merge_coverage

Table = Callable[..., pd.DataFrame]


def test_runs_that_each_have_a_few_kernels_are_put_together_and_proved_complete(kernels: Table) -> None:
    full = kernels([9.0] * 5, name=list("abacb"))
    runs = {
        "one": kernels([1.0, 2.0], name=["a", "a"]),
        "two": kernels([5.0, 1.2, 6.0, 2.6], name=["b", "a", "b", "a"]),
        "three": kernels([7.0], name=["c"]),
    }
    found = merge_coverage(runs, full)
    assert found.complete
    assert found.words == "coverage complete: all 5 kernels of the full list are measured"
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
    assert found.missing[["name", "covered", "wanted"]].to_numpy().tolist() == [["a", 1, 2], ["b", 1, 2], ["c", 0, 1]]
    assert found.words == "coverage incomplete: 3 of 5 kernels of the full list are not measured (a, b, c)"


def test_a_list_of_names_is_a_full_list_too(kernels: Table) -> None:
    names = pd.DataFrame({"name": ["a", "b", "a"]})
    run = kernels([1.0, 5.0, 1.0], name=["a", "b", "a"])
    assert merge_coverage({"one": run}, names).complete
    assert merge_coverage({"one": run.iloc[:2]}, names).missing["name"].tolist() == ["a"]
    with pytest.raises(DataError, match="says nothing of several GPUs"):
        merge_coverage({"one": run.assign(gpu=[0, 1, 1])}, names)


def test_without_a_full_list_nothing_is_proved(kernels: Table) -> None:
    one, two = kernels([1.0, 1.0], name=["a", "a"]), kernels([1.0, 5.0], name=["a", "b"])
    found = merge_coverage({"one": one, "two": two})
    assert not found.complete
    assert found.missing[["name", "covered", "wanted", "run"]].to_numpy().tolist() == [["a", 1, 2, "two"]]
    assert found.words == "coverage not proved: no full list, and runs differ in how often they have a"
    alike = merge_coverage({"one": one, "two": one})
    assert (alike.complete, alike.missing.empty) == (False, True)
    assert "agree on them" in alike.words


def test_contradictions_are_errors(kernels: Table) -> None:
    full = kernels([9.0] * 2, name=["a", "b"])
    with pytest.raises(DataError, match="kernel 'a' runs 2 times, but 1 times in the full list"):
        merge_coverage({"one": kernels([1.0, 1.0], name="a")}, full)
    with pytest.raises(DataError, match="kernel 'x' runs 1 times, but 0 times in the full list"):
        merge_coverage({"one": kernels([1.0], name="x")}, pd.DataFrame({"name": ["a"]}))
    with pytest.raises(DataError, match="workgroups 8 in one"):
        merge_coverage({"one": kernels([1.0], grid_x=8), "two": kernels([1.0], grid_x=9)})
    with pytest.raises(DataError, match=r"'k', occurrence 2: threads 64 in the full list \(t.json:2\), 128 in one"):
        merge_coverage({"one": kernels([1.0, 1.0], block_x=[64, 128])}, kernels([1.0, 1.0], block_x=64))
    assert merge_coverage({"one": kernels([1.0], grid_x=8)}, kernels([1.0])).complete  # the full run tells no launches
    with pytest.raises(DataError, match="no kernels to put together"):
        merge_coverage({})

from __future__ import annotations

from typing import Any

import numpy as np
import pandas as pd

from flopcast.projection.comparison import function_name, match_kernels
from flopcast.traces.dispatches import dispatch_table


def kernels(*launches: tuple[str, int, int], **columns: Any) -> pd.DataFrame:
    """Return kernels of (name, start, duration)."""
    names, starts, durations = zip(*launches, strict=True)
    return dispatch_table(
        {
            "kind": "kernel",
            "name": list(names),
            "start_ns": list(starts),
            "duration_ns": list(durations),
            **columns,
        }
    )


def found(*traces: pd.DataFrame) -> list[tuple[str, list[int]]]:
    matching = match_kernels(traces)
    return list(zip(matching.names, matching.durations_ns.tolist(), strict=True))


def test_the_nth_of_a_name_is_the_nth_of_it_in_the_other_trace() -> None:
    one = kernels(("gemm", 0, 10), ("norm", 20, 3), ("gemm", 40, 11))
    two = kernels(("gemm", 900, 13), ("gemm", 100, 12), ("norm", 500, 4))
    assert found(one, two) == [("gemm", [10, 12]), ("norm", [3, 4]), ("gemm", [11, 13])]


def test_what_one_of_three_lacks_is_not_matched() -> None:
    one = kernels(("a", 0, 1), ("a", 1, 2), ("b", 2, 3))
    matching = match_kernels([one, one, kernels(("a", 5, 7), ("c", 8, 1))])
    assert matching.names.tolist() == ["a"]
    assert matching.durations_ns.tolist() == [[1, 1, 7]]
    assert matching.uneven_share == 1.0
    assert match_kernels([one, one]).uneven_share == 0.0
    assert len(match_kernels([one, kernels(("z", 0, 1))]).names) == 0


def test_uneven_kernels_are_told_by_their_share_of_the_time() -> None:
    matching = match_kernels(
        [kernels(("a", 0, 30), ("b", 50, 5)), kernels(("a", 0, 30), ("b", 50, 5), ("b", 60, 10))]
    )
    assert matching.uneven_share == 20 / 80


def test_queues_correspond_by_how_many_kernels_they_run_whatever_their_numbers() -> None:
    """The lesser queue of the second trace starts first and has the lower number."""
    one = kernels(("k", 0, 1), ("k", 2, 2), ("k", 1, 90), stream=[7, 7, 20])
    two = kernels(("k", 0, 91), ("k", 5, 3), ("k", 9, 4), stream=[1, 2, 2])
    assert found(one, two) == [("k", [1, 3]), ("k", [90, 91]), ("k", [2, 4])]


def test_gpus_correspond_by_number_however_they_are_numbered() -> None:
    one = kernels(("k", 0, 1), ("k", 1, 2), gpu=[0, 1])
    two = kernels(("k", 0, 4), ("k", 1, 3), gpu=[5, 4])
    assert found(one, two) == [("k", [1, 3]), ("k", [2, 4])]


def test_with_other_numbers_of_queues_the_order_on_the_gpu_counts() -> None:
    one = kernels(("k", 0, 1), ("k", 2, 2), ("k", 4, 3), stream=[1, 2, 1])
    two = kernels(("k", 0, 4), ("k", 2, 5), ("k", 4, 6), stream=1)
    assert found(one, two) == [("k", [1, 4]), ("k", [2, 5]), ("k", [3, 6])]
    assert not match_kernels([one, two]).by_queue
    assert match_kernels([one, one]).by_queue


def test_names_are_compared_without_what_profilers_put_around_them() -> None:
    one = kernels(("void ns::f<float>(int*)", 0, 1), ("void ns::f<double>(int*)", 1, 2))
    two = kernels(("ns::f<float>(int*) [clone .kd]", 0, 3), ("ns::f<double>(int*)", 1, 4))
    assert found(one, two) == [("ns::f<float>(int*)", [1, 3]), ("ns::f<double>(int*)", [2, 4])]
    assert not match_kernels([one, two]).cut


def test_names_are_cut_to_the_function_where_a_trace_has_no_more() -> None:
    one = kernels(
        ("void ns::f<float>(int*)", 0, 1),
        ("Cijk_MT64x64", 5, 9),
        ("void ns::f<double>(int*)", 1, 2),
    )
    two = kernels(("f", 0, 3), ("f", 1, 4), ("Cijk_MT64x64.kd", 5, 8))
    assert found(one, two) == [("f", [1, 3]), ("f", [2, 4]), ("Cijk_MT64x64", [9, 8])]
    assert match_kernels([one, two]).cut
    assert not match_kernels([kernels(("Cijk_MT64x64", 0, 1)), kernels(("Cijk_MT64x64", 0, 1))]).cut


def test_function_names() -> None:
    assert (
        function_name("void check_kernel<double>(int*, double const*)".removeprefix("void "))
        == "check_kernel"
    )
    assert function_name("(anonymous namespace)::f(int)") == "f"
    assert function_name("_ZN2ns1fEv") == "_ZN2ns1fEv"


def test_negative_durations_count_as_none_and_names_may_be_categories() -> None:
    one = kernels(("a", 0, -3)).astype({"name": "category"})
    assert found(one, kernels(("a", 0, 2))) == [("a", [0, 2])]
    assert match_kernels([one, one]).durations_ns.dtype == np.int64

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import pandas as pd

from flopcast.traces.cleaning.pipeline import pool, repeat_codes, resolutions_ns, rest_of_calls, series_codes

Table = Callable[..., pd.DataFrame]


def test_repeats_agree_in_name_launch_and_problem_but_not_in_queue_process_or_run(kernels: Table) -> None:
    first = kernels(
        [1.0] * 6, name=["a", "a", "b", "a", "a", "a"], grid_x=[1, 1, 1, 2, 1, 1], stream=[0, 1, 0, 0, 0, 0]
    ).assign(op="gemm", m=[1.0, 1.0, 1.0, 1.0, 2.0, np.nan])
    assert repeat_codes(first).tolist() == [0, 0, 1, 2, 3, 4]
    both = pool([first, first.assign(process=2)])
    assert both["run"].tolist() == [0] * 6 + [1] * 6
    assert repeat_codes(both).tolist() == [0, 0, 1, 2, 3, 4] * 2
    series = series_codes(both, repeat_codes(both))
    assert len(np.unique(series)) == 10


def test_the_clock_is_that_of_the_device_and_the_run(kernels: Table) -> None:
    one = kernels([0.4, 0.44, 0.52, 0.0])
    both = pool([one, kernels([1.0, 1.003, 1.01]), kernels([5.0, 5.0])])
    assert resolutions_ns(both).tolist() == [40] * 4 + [1] * 3 + [0] * 2


def test_a_call_that_loses_a_kernel_goes_whole(kernels: Table) -> None:
    table = kernels([1.0] * 7, op_id=[1, 1, 2, 2, pd.NA, 3, 3]).assign(op=["gemm"] * 5 + ["kernel"] * 2)
    removed = np.array([True, False, False, False, False, True, False])
    assert rest_of_calls(table, removed).tolist() == [False, True, False, False, False, False, False]
    assert not rest_of_calls(table, np.zeros(7, dtype=bool)).any()
    both = pool([table, table])
    assert rest_of_calls(both, np.r_[removed, np.zeros(7, dtype=bool)]).sum() == 1

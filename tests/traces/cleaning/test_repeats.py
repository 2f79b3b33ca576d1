from __future__ import annotations

from collections.abc import Callable

import numpy as np
import pandas as pd
import pytest

from flopcast.traces.cleaning.repeats import (
    pool,
    repeat_codes,
    resolutions_ns,
    rest_of_calls,
    series_codes,
    spread_report,
)

Table = Callable[..., pd.DataFrame]


def test_repeats_agree_in_name_launch_and_problem_but_not_in_queue_process_or_run(
    kernels: Table,
) -> None:
    first = kernels(
        [1.0] * 6,
        name=["a", "a", "b", "a", "a", "a"],
        grid_x=[1, 1, 1, 2, 1, 1],
        stream=[0, 1, 0, 0, 0, 0],
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
    table = kernels([1.0] * 7, op_id=[1, 1, 2, 2, pd.NA, 3, 3]).assign(
        op=["gemm"] * 5 + ["kernel"] * 2
    )
    removed = np.array([True, False, False, False, False, True, False])
    assert rest_of_calls(table, removed).tolist() == [
        False,
        True,
        False,
        False,
        False,
        False,
        False,
    ]
    assert not rest_of_calls(table, np.zeros(7, dtype=bool)).any()
    both = pool([table, table])
    assert rest_of_calls(both, np.r_[removed, np.zeros(7, dtype=bool)]).sum() == 1


def test_spread_interval_and_losses_of_each_kernel(kernels: Table) -> None:
    table = kernels(
        [1.0, 6.0, 2.0, 5.0, 3.0, 4.0, 100.0, 50.0],
        name=["a"] * 7 + ["b"],
        grid_x=8,
        grid_y=2,
        block_x=64,
    )
    reason = np.array(["", "", "", "", "", "", "outlier", ""], dtype=object)
    codes = np.array([0] * 7 + [1])
    found = spread_report(
        table, codes, reason, resolution_ns=np.full(8, 40), unsettled=np.array([1]), level=0.95
    )
    a, b = found.loc[0], found.loc[1]
    assert found.index.tolist() == [1, 0]  # 50 us against 21
    assert (a["name"], a["grid"], a["block"], a["measured"], a["n"]) == ("a", "8x2", "64", 7, 6)
    assert (a["median_us"], a["mad_us"], a["lower_us"], a["upper_us"]) == (3.5, 1.5, 1.0, 6.0)
    assert a["robust_cv"] == pytest.approx(1.4826 * 1.5 / 3.5)
    assert a["level"] == pytest.approx(1 - 2 / 64)
    assert (a["removed.outlier"], a["total_us"], a["settled"], b["settled"]) == (
        1,
        21.0,
        True,
        False,
    )
    assert b[["mad_us", "lower_us", "drift_us"]].isna().all()


def test_runs_that_differ_and_repeats_that_follow_each_other_widen_the_interval(
    kernels: Table,
) -> None:
    steady = 10.0 + 0.1 * np.resize([1, -1, 2, -2, 0], 60)
    nothing = np.zeros(0, dtype=np.int64)
    codes, kept, ticks = (
        np.zeros(60, dtype=np.int64),
        np.full(60, "", dtype=object),
        np.ones(60, dtype=np.int64),
    )
    width = []
    for times, runs in (
        (steady, 1),
        (np.sort(steady), 1),
        (steady + np.repeat([0.0, 0.5, 1.0], 20), 3),
    ):
        table = kernels(times, stream=0).assign(run=np.repeat(np.arange(runs), 60 // runs))
        shuffled = table.sample(frac=1.0, random_state=0)
        [row] = spread_report(
            shuffled, codes, kept, resolution_ns=ticks, unsettled=nothing
        ).to_dict("records")
        width.append(row["upper_us"] - row["lower_us"])
    assert width[0] < 0.3 < width[1]
    # t(0.975, 2) = 4.303 times 0.5 / sqrt(3) on either side of 10.5
    assert width[2] == pytest.approx(2 * 4.303 * 0.5 / np.sqrt(3), rel=0.02)


def test_no_interval_is_narrower_than_a_tick(kernels: Table) -> None:
    table = kernels([1.0] * 20)
    codes, kept = np.zeros(20, dtype=np.int64), np.full(20, "", dtype=object)
    nothing = np.zeros(0, dtype=np.int64)
    [row] = spread_report(
        table, codes, kept, resolution_ns=np.full(20, 40), unsettled=nothing
    ).to_dict("records")
    assert (row["lower_us"], row["upper_us"], row["resolution_us"]) == (0.98, 1.02, 0.04)
    assert (row["drift_us"], row["drifts"]) == (0.0, 0.0)


def test_drift_counts_in_the_order_of_time_and_from_a_tick_on(kernels: Table) -> None:
    table = kernels(np.r_[np.full(20, 1.0), np.full(20, 1.04)])
    shuffled = table.sample(frac=1.0, random_state=0)
    codes, kept = np.zeros(40, dtype=np.int64), np.full(40, "", dtype=object)
    nothing = np.zeros(0, dtype=np.int64)
    for tick, drifts in ((10, 1.0), (40, 0.0)):
        ticks = np.full(40, tick)
        [row] = spread_report(
            shuffled, codes, kept, resolution_ns=ticks, unsettled=nothing
        ).to_dict("records")
        assert (row["drift_us"], row["drifts"]) == (pytest.approx(0.04), drifts)

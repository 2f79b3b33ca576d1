"""Pairing of host and target."""

from __future__ import annotations

import numpy as np
import pandas as pd
import pytest

from flopcast.errors import DataError
from flopcast.operators.operators import complete
from flopcast.table.problems import one_per_problem, pair, problem_ids


def table(*rows: dict[str, object]) -> pd.DataFrame:
    base = {
        "op": "gemm",
        "family": "",
        "variant": "",
        "kernel": "",
        "tuned": False,
        "dtype_a": "bf16",
        "campaign": "c",
    }
    base |= {"scale_block": "", "n": 64.0, "k": 64.0, "spread_us": np.nan, "repeats": 1.0}
    frame = pd.DataFrame([base | row for row in rows])
    return frame.assign(source=[f"t.csv:{i + 2}" for i in range(len(frame))])


HOST, TARGET = {"device": "A"}, {"device": "B"}


def test_rows_of_the_same_problem_meet_in_the_targets_order():
    frame = table(
        HOST | {"m": 1.0, "duration_us": 10.0, "kernel": "slow_host"},
        HOST | {"m": 2.0, "duration_us": 20.0},
        TARGET | {"m": 3.0, "duration_us": 3.0},
        TARGET | {"m": 2.0, "duration_us": 2.0},
        TARGET | {"m": 1.0, "duration_us": 1.0},
    )
    pairs = pair(frame, "A", "B")
    assert pairs.paired["m"].tolist() == [2, 1]
    assert pairs.paired["duration_us"].tolist() == [2, 1]
    assert pairs.paired["host_duration_us"].tolist() == [20, 10]
    assert pairs.paired["host_kernel"].tolist() == ["", "slow_host"]
    assert pairs.paired["host_source"].tolist() == ["t.csv:3", "t.csv:2"]
    assert pairs.target_only["m"].tolist() == [3]
    assert pairs.host_only.empty
    assert pairs.report["pairs"] == 2
    assert (pairs.report["target_only"], pairs.report["host_only"]) == (1, 0)


def test_stated_defaults_equal_absent_columns():
    frame = table(
        HOST
        | {"m": 1.0, "duration_us": 10.0, "dtype_b": "bf16", "dtype_out": "bf16", "batch": 1.0},
        TARGET
        | {"m": 1.0, "duration_us": 1.0, "dtype_b": np.nan, "dtype_out": "", "batch": np.nan},
    )
    assert pair(frame, "A", "B").report["pairs"] == 1


@pytest.mark.parametrize(
    "difference",
    [{"dtype_a": "fp16"}, {"family": "other"}, {"variant": "bias"}, {"n": 65.0}, {"op": "batched_gemm", "batch": 1.0},
     {"scale_block": "token"}, {"dtype_out": "fp32"}, {"cache": "cold"}],
)  # fmt: skip
def test_problems_that_differ_do_not_meet(difference: dict[str, object]):
    frame = table(
        HOST | {"m": 1.0, "duration_us": 10.0},
        HOST | {"m": 2.0, "duration_us": 10.0},
        TARGET | {"m": 2.0, "duration_us": 1.0},
        TARGET | {"m": 1.0, "duration_us": 1.0} | difference,
    )
    pairs = pair(frame, "A", "B")
    assert pairs.paired["m"].tolist() == [2]
    assert len(pairs.target_only) == len(pairs.host_only) == 1


def test_the_fastest_kernel_counts_and_repeats_of_one_kernel_become_their_median():
    frame = table(
        HOST | {"m": 1.0, "kernel": "x", "duration_us": 30.0},
        HOST | {"m": 1.0, "kernel": "y", "duration_us": 20.0},
        *(TARGET | {"m": 1.0, "kernel": "z", "duration_us": t} for t in (4.0, 9.0, 5.0)),
    )
    pairs = pair(frame, "A", "B")
    assert pairs.paired[["duration_us", "host_duration_us", "host_kernel"]].to_numpy().tolist() == [
        [5.0, 20.0, "y"]
    ]
    assert pairs.report["slower_kernels"] == 1
    assert pairs.report["merged_repeats"] == 2


def test_the_metric_of_the_host_goes_along():
    frame = table(
        HOST | {"m": 1.0, "duration_us": 10.0, "energy_j": 3.0},
        HOST | {"m": 2.0, "duration_us": 10.0, "energy_j": np.nan},
        TARGET | {"m": 1.0, "duration_us": 1.0, "energy_j": 2.0},
        TARGET | {"m": 2.0, "duration_us": 1.0, "energy_j": 2.0},
    )
    pairs = pair(frame, "A", "B", metric="energy_j")
    assert pairs.paired["host_energy_j"].tolist() == [3.0]
    assert pairs.report["without_metric"] == 1
    with pytest.raises(DataError, match="power_w"):
        pair(frame, "A", "B", metric="power_w")


def test_missing_devices_and_equal_devices_are_refused():
    frame = table(HOST | {"m": 1.0, "duration_us": 10.0})
    with pytest.raises(DataError, match=r"on B.*A \(1 rows\)"):
        pair(frame, "A", "B")
    with pytest.raises(DataError, match="both A"):
        pair(frame, "A", "A")


def test_without_a_pair_the_message_says_what_differs():
    row = {"m": 1.0, "duration_us": 1.0}
    with pytest.raises(DataError, match=r"dtype_a.*bf16.*fp8"):
        pair(table(HOST | row, TARGET | row | {"dtype_a": "fp8", "dtype_b": "bf16"}), "A", "B")
    with pytest.raises(DataError, match=r"differ in cache \(warm"):
        pair(table(HOST | row, TARGET | row | {"cache": "Cold"}), "A", "B")
    with pytest.raises(DataError, match="batched_gemm"):
        pair(table(HOST | row, TARGET | row | {"op": "batched_gemm", "batch": 1.0}), "A", "B")
    with pytest.raises(DataError, match="rows agree"):
        pair(table(HOST | row, TARGET | row | {"m": 2.0}), "A", "B")


def test_problem_ids_see_only_the_operators_own_columns():
    frame = complete(
        pd.DataFrame(
            {
                "op": ["add", "add", "gemm", "gemm"],
                "dtype_a": "fp32",
                "rows": [4.0, 4.0, 1.0, 2.0],
                "cols": 8.0,
                "m": [1.0, 2.0, 7.0, 7.0],
                "n": 7.0,
                "k": 7.0,
            }
        )
    )
    ids = problem_ids(frame, device=False)
    assert ids[0] == ids[1] != ids[2]
    assert ids[2] == ids[3]


def test_one_per_problem_of_one_device():
    frame = table(
        *(HOST | {"m": 1.0, "kernel": k, "duration_us": t} for k, t in (("x", 3.0), ("y", 2.0)))
    )
    best, counts = one_per_problem(frame)
    assert best["kernel"].tolist() == ["y"]
    assert counts == {
        "without_metric": 0,
        "metric_not_positive": 0,
        "merged_repeats": 0,
        "slower_kernels": 1,
    }

"""Rows that are the same problem: repeats, the best kernel."""

from __future__ import annotations

from typing import Any

import numpy as np
import pandas as pd
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from flopcast.table.measurements import clean
from flopcast.table.problems import best_kernel, merge_duplicates, problem_keys, slower_kernels
from flopcast.tests.table.test_table import rows


def test_repeats_become_their_median_with_spread_and_count() -> None:
    times = [{"duration_us": t, "campaign": c} for t, c in ((10, "b"), (12, "a"), (20, "b"))]
    merged = merge_duplicates(
        clean(rows(*times, {"m": 17, "spread_us": 0.25, "repeats": 50})).frame
    )
    first, other = merged.to_dict("records")
    assert (first["duration_us"], first["spread_us"], first["repeats"]) == (12.0, 2.0, 3.0)
    assert (first["campaign"], first["source"]) == ("a + b", "a.csv:2 (+2 more)")
    assert (other["m"], other["duration_us"], other["spread_us"], other["repeats"]) == (
        17.0,
        2.5,
        0.25,
        50.0,
    )


def test_summarised_repeats_add_up() -> None:
    merged = merge_duplicates(clean(rows({"repeats": 50}, {"repeats": 30})).frame)
    assert merged["repeats"].tolist() == [80.0]


@pytest.mark.parametrize(
    "change",
    [
        {"device": "MI355X"}, {"dtype_a": "bf16"}, {"dtype_out": "fp32"}, {"family": "x"}, {"variant": "bias"},
        {"kernel": "other"}, {"k": 65}, {"scale_block": "1x128"}, {"batch": 2}, {"cache": "cold"},
    ],
)  # fmt: skip
def test_rows_that_differ_in_problem_device_or_kernel_are_not_repeats(
    change: dict[str, Any],
) -> None:
    assert len(merge_duplicates(clean(rows({}, change)).frame)) == 2


def test_a_cache_is_warm_unless_it_is_said_to_be_cold() -> None:
    states = [{"cache": "warm"}, {}, {"cache": "cold"}, {"cache": " Cold"}, {"cache": "warm"}]
    merged = merge_duplicates(clean(rows(*states)).frame)
    assert merged[["repeats", "cache"]].to_numpy().tolist() == [[3.0, "warm"], [2.0, "cold"]]


def test_winners_of_a_search_are_repeats_whatever_kernel_won() -> None:
    found = [{"kernel": "ck", "duration_us": 4}, {"kernel": "asm", "duration_us": 2}]
    searched = clean(rows(*[{**row, "tuned": True} for row in found])).frame
    assert merge_duplicates(searched)[
        ["kernel", "duration_us", "spread_us"]
    ].to_numpy().tolist() == [["asm", 3.0, 1.0]]
    assert merge_duplicates(clean(rows(*found)).frame)["duration_us"].tolist() == [4.0, 2.0]


@given(
    st.lists(st.tuples(st.integers(1, 3), st.floats(0.5, 1e6)), min_size=1, max_size=12),
    st.randoms(),
)
@settings(max_examples=12, deadline=None)
def test_merging_loses_no_repeat_and_does_not_depend_on_the_order(
    table: list[tuple[int, float]], random: Any
) -> None:
    frame = clean(rows(*[{"m": m, "duration_us": t} for m, t in table])).frame
    merged = merge_duplicates(frame)
    assert merged["repeats"].sum() == len(table)
    assert merged["m"].tolist() == list(dict.fromkeys(float(m) for m, _ in table))
    pd.testing.assert_frame_equal(merge_duplicates(merged), merged)
    shuffled = frame.iloc[random.sample(range(len(frame)), len(frame))]
    again = merge_duplicates(shuffled).sort_values("m")
    np.testing.assert_allclose(again["duration_us"], merged.sort_values("m")["duration_us"])
    np.testing.assert_allclose(again["spread_us"], merged.sort_values("m")["spread_us"])


def test_the_best_kernel_of_each_problem_and_device() -> None:
    table = [
        ("MI300X", 1, "a", 5),
        ("MI300X", 1, "b", 3),
        ("MI300X", 2, "a", 1),
        ("MI355X", 1, "a", 2),
    ]
    frame = clean(
        rows(*[{"device": d, "m": m, "kernel": k, "duration_us": t} for d, m, k, t in table])
    ).frame
    best = best_kernel(frame)
    columns = ["device", "m", "kernel", "duration_us", "solvers", "tuned"]
    assert best[columns].to_numpy().tolist() == [
        ["MI300X", 1.0, "b", 3.0, 2, True],
        ["MI300X", 2.0, "a", 1.0, 1, True],
        ["MI355X", 1.0, "a", 2.0, 1, True],
    ]
    alone = best_kernel(frame[1:].reset_index(drop=True))
    pd.testing.assert_frame_equal(alone, best.assign(solvers=1))


def test_slower_kernels_are_those_whose_median_is_not_the_least_of_their_problem() -> None:
    table = [
        ("MI300X", 1, "a", 5), ("MI300X", 1, "b", 3), ("MI300X", 1, "b", 6), ("MI300X", 1, "b", 4),
        ("MI300X", 2, "a", 9), ("MI355X", 1, "a", 50),
    ]  # fmt: skip
    frame = clean(
        rows(*[{"device": d, "m": m, "kernel": k, "duration_us": t} for d, m, k, t in table])
    ).frame

    def slower(*tables: pd.DataFrame) -> list[bool]:
        times = np.concatenate([table["duration_us"] for table in tables])
        return slower_kernels(
            times, np.concatenate([problem_keys(table) for table in tables], axis=1)
        ).tolist()

    assert slower(frame) == [True, False, False, False, False, False]
    assert slower(frame.set_axis(range(5, 11))) == [True, *[False] * 5]
    assert slower(frame[:1].assign(note=""), frame[1:]) == [True, *[False] * 5]
    assert slower(frame.assign(tuned=True)) == [False] * 6


def test_every_measured_quantity_of_repeats_is_their_median() -> None:
    base = {
        "op": "gemm",
        "device": "MI300X",
        "dtype_a": "fp16",
        "m": 1,
        "n": 2,
        "k": 3,
        "source": "t.csv:2",
    }
    repeats = {
        "duration_us": [10.0, 30.0, 20.0],
        "energy_j": [5.0, 1.0, 3.0],
        "counter.waves": [7.0, 8.0, 9.0],
    }
    merged = merge_duplicates(clean(pd.DataFrame({**base, **repeats, "split_k": [4, 5, 6]})).frame)
    assert merged[["duration_us", "energy_j", "counter.waves"]].to_numpy().tolist() == [
        [20.0, 3.0, 8.0]
    ]
    assert merged["split_k"].tolist() == [4]  # of the fastest row


def test_dimensions_that_end_like_a_unit_and_words_are_not_measured() -> None:
    base = {
        "op": "gemm",
        "device": "MI300X",
        "dtype_a": "fp16",
        "m": 1,
        "n": 2,
        "k": 3,
        "source": "t.csv:2",
    }
    raw = pd.DataFrame(
        {**base, "duration_us": [10.0, 30.0, 20.0], "tile_w": [1, 2, 9], "tool_us": ["a", "b", "c"]}
    )
    merged = merge_duplicates(clean(raw).frame)
    assert merged[["tile_w", "tool_us"]].to_numpy().tolist() == [[1, "a"]]  # of the fastest row

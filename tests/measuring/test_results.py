"""From visits to the measurement table, solved by hand; the files it is written to."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pyarrow.parquet as pq
import pytest

from flopcast.errors import DataError
from flopcast.measuring.backend import Device
from flopcast.measuring.session import (
    MEASURED,
    Plan,
    check_table_path,
    doubts,
    measurement_table,
    pass_differences,
    provenance_path,
    write_table,
)
from flopcast.measuring.timing import Rule
from flopcast.output import METADATA
from flopcast.readers import read
from flopcast.remarks import remark

ROWS: list[dict[str, Any]] = [
    {"op": "gemm", "dtype_a": "bf16", "m": 4, "n": 8, "k": 16},
    {"op": "softmax", "dtype_a": "fp32", "rows": 3, "cols": 5},
]
PLAN = Plan(ROWS, [Device("CPU-1T", 1), Device("CPU-2T", 2)], Rule(rounds=2), passes=2)


def visit(
    row: int,
    samples: list[float],
    *,
    turn: int = 1,
    campaign: int = 1,
    device: str = "CPU-1T",
    **more: Any,
) -> dict[str, Any]:
    found = {
        "pass": campaign,
        "round": turn,
        "row": row,
        "device": device,
        "samples_us": samples,
        "calls": 1,
    }
    return {
        **found,
        "warmup_samples": 5,
        "warm": True,
        "ended": "interval",
        "late": 0,
        "clock_us": 0.1,
        **more,
    }


def test_a_row_is_the_median_of_its_visits_without_their_outliers() -> None:
    visits = [
        visit(0, [10.0, 11.0, 12.0]),
        visit(0, [13.0, 14.0, 15.0, 14.0, 40.0], turn=2, calls=3, warm=False),
    ]
    (row,) = measurement_table(PLAN, visits).to_dict("records")
    # second visit: median 14, MAD 1; 40 is 26 MAD away, 13 one. Left are 10 11 12 and 13 14 14 15, median 13
    assert (row["duration_us"], row["spread_us"], row["repeats"], row["outliers"]) == (
        12.5,
        1.0,
        7,
        1,
    )
    (single,) = measurement_table(PLAN, [visit(0, [10.0])]).to_dict("records")
    assert (single["duration_us"], single["repeats"]) == (10.0, 1)
    assert np.isnan(single["spread_us"])
    # visits of 11 and 14: t(0.975, 1) = 12.706, ln 14/11 = 0.2412, half-width 12.706 x 0.1206 of the logarithm
    assert (row["interval_low_us"], row["interval_high_us"]) == pytest.approx(
        (2.682, 57.43), rel=1e-3
    )
    assert (row["rounds"], row["calls_per_sample"], row["warmed_up"]) == (2, 2.0, False)
    assert (row["device"], row["op"], row["m"], row["cache"], row["campaign"]) == (
        "CPU-1T",
        "gemm",
        4,
        "warm",
        "pass 1",
    )


STEADY = [100.0] * 20


@pytest.mark.parametrize(
    ("visits", "reason"),
    [
        ([visit(0, STEADY), visit(0, STEADY, turn=2, ended="time")], "interval"),
        ([visit(0, [100.0, 110.0] * 20)], "unfinished"),
        ([visit(0, STEADY)], "unfinished"),
        (
            [
                visit(0, [100.0, 110.0] * 20, ended="repeats"),
                visit(0, [100.0, 110.0] * 9, turn=2, ended="time"),
            ],
            "time",
        ),
        (
            [visit(0, [100.0, 110.0] * 20, ended="repeats"), visit(0, [100.0, 110.0] * 9, turn=2)],
            "repeats",
        ),
        ([visit(0, [100.0] * 20), visit(0, [105.0] * 20, turn=2)], "rounds differ"),
        (
            [visit(0, [90.0] * 20), visit(0, STEADY, turn=2), visit(0, [110.0] * 20, turn=3)],
            "rounds differ",
        ),
        ([visit(0, [100.0]), visit(0, [100.0], turn=2, ended="time")], "time"),
    ],
)
def test_a_row_says_what_stopped_it(visits: list[dict[str, Any]], reason: str) -> None:
    assert measurement_table(PLAN, visits)["stopped_by"].tolist() == [reason]


def test_rows_stand_in_the_order_of_the_grid_pass_by_pass() -> None:
    visits = [
        visit(row, [1.0 + row + campaign], campaign=campaign, device=device)
        for campaign in (2, 1)
        for row in (1, 0)
        for device in ("CPU-2T", "CPU-1T")
    ]
    table = measurement_table(PLAN, visits)
    assert table["campaign"].tolist() == ["pass 1"] * 4 + ["pass 2"] * 4
    assert table["op"].tolist() == ["gemm", "gemm", "softmax", "softmax"] * 2
    assert table["device"].tolist() == ["CPU-1T", "CPU-2T"] * 4
    assert pass_differences(table).tolist() == pytest.approx([50.0, 50.0, 100 / 3, 100 / 3])


def test_readings_are_medians_and_missing_where_nothing_told() -> None:
    visits = [
        visit(0, STEADY, power_w=70.0),
        visit(0, STEADY, turn=2, power_w=90.0),
        visit(1, STEADY),
    ]
    table = measurement_table(PLAN, visits)
    assert table["power_w"].tolist()[0] == 80.0
    assert np.isnan(table["power_w"].tolist()[1])
    assert "clock_mhz" not in table


def test_the_share_of_the_clock_and_of_late_samples() -> None:
    visits = [
        visit(0, STEADY, late=5, clock_us=0.4, calls=2),
        visit(0, STEADY, turn=2, clock_us=0.8, calls=4),
    ]
    (row,) = measurement_table(PLAN, visits).to_dict("records")
    assert row["late_share"] == 5 / 40
    assert row["clock_share"] == 0.6 / (3 * 100.0)  # medians of the visits
    (row,) = measurement_table(PLAN, [visit(0, [0.0] * 9)]).to_dict("records")
    assert np.isnan(row["clock_share"])


def test_a_cold_plan_and_a_function_are_named() -> None:
    plan = Plan(ROWS, PLAN.devices, PLAN.rule, cold=True, function="mine:gemm")
    (row,) = measurement_table(plan, [visit(0, STEADY)]).to_dict("records")
    assert (row["cache"], row["kernel"]) == ("cold", "mine:gemm")


def test_parameters_of_a_function_are_columns_and_make_kernels_that_are_not_merged(
    tmp_path: Path,
) -> None:
    rows = [{**ROWS[0], "block_size": size, "mode": "fast"} for size in (64, 128)]
    plan = Plan(rows, PLAN.devices, PLAN.rule, function="mine:gemm")
    table = measurement_table(plan, [visit(0, STEADY), visit(1, [200.0] * 9)])
    assert table["kernel"].tolist() == [
        "mine:gemm block_size=64 mode=fast",
        "mine:gemm block_size=128 mode=fast",
    ]
    write_table(table, {}, tmp_path / "runs.csv")
    again = read([tmp_path / "runs.csv"]).frame
    assert again[["block_size", "mode"]].to_numpy().tolist() == [[64, "fast"], [128, "fast"]]


def test_nothing_measured_is_an_error() -> None:
    with pytest.raises(DataError, match="nothing was measured"):
        measurement_table(PLAN, [])


def test_differences_of_what_was_measured_twice_by_hand() -> None:
    table = pd.DataFrame(
        {
            "device": ["a", "b", "a", "b", "a"],
            "op": ["gemm"] * 5,
            "m": [1.0, np.nan, 1.0, np.nan, 9.0],
            "causal": [None, False, None, False, None],
            "duration_us": [10.0, 4.0, 11.0, 3.0, 8.0],
            "repeats": [50, 51, 52, 53, 50],
            "campaign": ["pass 1", "pass 1", "pass 2", "pass 2", "pass 1"],
        }
    )
    assert pass_differences(table).tolist() == [10.0, 25.0]
    assert pass_differences(table[table["campaign"] == "pass 1"]).empty
    third = pd.concat([table, table.iloc[:1].assign(campaign="pass 3", duration_us=15.0)])
    assert pass_differences(third).tolist() == [50.0]


def test_equal_rows_of_one_pass_are_no_passes_to_compare() -> None:
    row = {"op": "gemm", "m": 4}
    plan = Plan([row, row], PLAN.devices, PLAN.rule)
    assert pass_differences(
        measurement_table(plan, [visit(0, STEADY), visit(1, [200.0] * 9)])
    ).empty


@pytest.mark.parametrize("suffix", [".parquet", ".csv"])
def test_the_table_is_read_as_measurements_with_its_provenance_beside(
    suffix: str, tmp_path: Path
) -> None:
    visits = [
        visit(row, [7.0 + row] * 9, campaign=campaign, device=device)
        for campaign in (1, 2)
        for row in (0, 1)
        for device in ("CPU-1T", "CPU-2T")
    ]
    out = tmp_path / f"runs{suffix}"
    table = measurement_table(PLAN, visits)
    write_table(table, {"torch": "2.13", "protocol": PLAN.rule.to_dict()}, out)
    assert json.loads(provenance_path(out).read_text(encoding="utf-8"))["torch"] == "2.13"
    if suffix == ".parquet":
        assert json.loads(pq.read_schema(out).metadata[METADATA])["torch"] == "2.13"
    measured = read([out])
    assert measured.rejected.empty
    assert len(measured.frame) == 4  # the passes are repeats of one problem
    assert measured.frame["duration_us"].tolist() == [7.0, 7.0, 8.0, 8.0]
    assert measured.frame["repeats"].tolist() == [18.0] * 4
    assert set(MEASURED) >= set(table) - {"device", "cache", *ROWS[0], *ROWS[1]}


def test_what_was_measured_cold_is_not_merged_with_what_was_measured_warm(tmp_path: Path) -> None:
    paths = tmp_path / "warm.parquet", tmp_path / "cold.parquet"
    for cold, path in zip((False, True), paths, strict=True):
        plan = replace(PLAN, cold=cold)
        write_table(measurement_table(plan, [visit(0, [7.0 + 3 * cold] * 9)]), {}, path)
    measured = read(paths).frame
    assert measured[["cache", "duration_us"]].to_numpy().tolist() == [["warm", 7.0], ["cold", 10.0]]


@pytest.mark.parametrize(
    ("name", "message"), [("runs.txt", r".parquet or .csv"), ("there.csv", "exists")]
)
def test_places_that_cannot_be_written_are_refused(name: str, message: str, tmp_path: Path) -> None:
    (tmp_path / "there.csv").touch()
    with pytest.raises(DataError, match=message):
        check_table_path(tmp_path / name)
    check_table_path(tmp_path / "there.csv", resume=True)


@pytest.mark.parametrize("resume", [False, True])
def test_a_json_that_is_not_the_tables_is_not_replaced(resume: bool, tmp_path: Path) -> None:
    (tmp_path / "keep.json").touch()
    with pytest.raises(DataError, match=r"keep\.json.*keep\.csv"):
        check_table_path(tmp_path / "keep.csv", resume=resume)
    (tmp_path / "keep.csv").touch()
    check_table_path(tmp_path / "keep.csv", resume=True)


def test_rows_whose_times_are_hardly_known_or_hold_more_than_the_kernel_are_counted() -> None:
    table = pd.DataFrame(
        {
            "duration_us": [100.0, 200.0, 1234.5],
            "interval_low_us": [99.0, 190.0, 1234.5],
            "interval_high_us": [102.0, 204.0, 1234.5],
            "clock_share": [0.0, 0.005, np.nan],
            "late_share": [0.0, 0.1, 0.0],
        }
    )
    assert doubts(table) == []
    wide = table.assign(interval_high_us=[102.0, 310.0, 9000.0])
    assert doubts(wide) == [remark("times-hardly-known", rows=2, of=3, limit=0.5)]
    slow = table.assign(clock_share=[0.03, 0.5, 0.0], late_share=[0.2, 0.0, 0.0])
    expected = [
        remark("launches-late", rows=1, of=3, limit=0.1),
        remark("clock-in-samples", rows=2, of=3, limit=0.02),
    ]
    assert doubts(slow) == expected

"""Passes of both layouts, joined by the order within kernel, grid and workgroup."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from flopcast.errors import DataError
from flopcast.readers import rocprofiler_compute
from flopcast.readers.base import DataFile, Options
from flopcast.readers.rocprofiler_compute import Pass, join, read_pass, rows_of
from flopcast.remarks import remark

WIDE = "Dispatch_ID,GPU_ID,Grid_Size,Workgroup_Size,LDS_Per_Workgroup,Kernel_Name,Start_Timestamp,End_Timestamp"
LONG = WIDE + ",Counter_Name,Counter_Value"


def made(folder: Path, name: str, header: str, *rows: str) -> Pass:
    path = folder / name
    path.write_text("\n".join([header, *rows, ""]), encoding="utf-8")
    return read_pass(DataFile(path, name, True), Options())


def row(
    number: int,
    kernel: str,
    *values: object,
    grid: int = 512,
    gpu: int = 2,
    at: int = 100,
    took: int = 10,
) -> str:
    place = f'{number},{gpu},{grid},256,0,"{kernel}",{at},{at + took}'
    return ",".join([place, *map(str, values)])


def test_dispatches_are_joined_by_order_within_the_kernel_wherever_numbers_start(
    tmp_path: Path,
) -> None:
    base = made(
        tmp_path, "a.csv", WIDE, row(0, "f"), row(1, "g"), row(2, "f"), row(3, "f", grid=1024)
    )
    other = made(
        tmp_path,
        "b.csv",
        WIDE,
        row(4, "f", grid=1024),
        row(3, "f (.kd)"),
        row(2, "g"),
        row(1, "f [clone .kd]"),
    )
    assert rows_of(base.table, other.table).tolist() == [3, 2, 1, 0]


def test_other_grids_are_other_dispatches(tmp_path: Path) -> None:
    base = made(tmp_path, "a.csv", WIDE, row(0, "f"))
    other = made(tmp_path, "b.csv", WIDE, row(0, "f", grid=1024))
    assert rows_of(base.table, other.table).tolist() == [-1]


def test_gpus_are_told_apart_only_where_both_files_know_them(tmp_path: Path) -> None:
    base = made(tmp_path, "a.csv", WIDE, row(0, "f", gpu=1), row(1, "f", gpu=2))
    swapped = made(tmp_path, "b.csv", WIDE, row(0, "f", gpu=2), row(1, "f", gpu=1))
    renamed = made(tmp_path, "c.csv", WIDE, row(0, "f", gpu=60633), row(1, "f", gpu=60633))
    assert rows_of(base.table, swapped.table).tolist() == [1, 0]
    assert rows_of(base.table, renamed.table).tolist() == [0, 1]


def test_a_long_table_becomes_one_row_per_dispatch(tmp_path: Path) -> None:
    long = made(
        tmp_path, "pmc_perf.csv", LONG,
        row(1, "f", "A", 1, took=10), row(1, "f", "B[0]", 2, took=8), row(2, "f", "B[0]", 4), row(2, "f", "A", 3),
        row(3, "f", "A", "x"),
    )  # fmt: skip
    assert long.table.lines.tolist() == [2, 4, 6]
    values = {name: np.nan_to_num(own, nan=-1).tolist() for name, own in long.counters}
    assert values == {"A": [1, 3, -1], "B[0]": [2, 4, -1]}
    assert long.times is not None
    assert long.times.duration_ns.tolist() == [10, 10, 10]
    assert long.spread == pytest.approx(0.2)


def test_a_counter_that_a_long_table_repeats_is_compared(tmp_path: Path) -> None:
    long = made(
        tmp_path, "p.csv", LONG, row(1, "f", "A", 4), row(1, "f", "A", 5), row(1, "f", "A", 4)
    )
    joined = join(long, [], None)
    assert joined.counters["A"].tolist() == [4]
    [finding] = joined.findings
    assert (finding.code, finding.count) == ("replay-spread", 1)
    assert dict(finding.remark.values["spreads"]) == {"A": pytest.approx(0.2)}


def test_a_long_table_that_would_be_almost_empty_is_refused(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(rocprofiler_compute, "_CELLS", 100)
    rows = [row(i, "f", f"C{i}", 1) for i in range(40)]
    with pytest.raises(DataError, match=r"p\.csv.*40.*40.*40"):
        made(tmp_path, "p.csv", LONG, *rows)


def test_counters_of_all_passes_come_together_the_first_value_first(tmp_path: Path) -> None:
    base = made(tmp_path, "a.csv", WIDE + ",A,B", row(0, "f", 1, 100), row(1, "f", 2, 100))
    other = made(tmp_path, "b.csv", WIDE + ",B,C", row(1, "f", 99, 5), row(2, "f", 100, 6))
    joined = join(base, [other], None)
    assert {name: own.tolist() for name, own in joined.counters.items()} == {
        "A": [1, 2],
        "B": [100, 100],
        "C": [5, 6],
    }
    [finding] = joined.findings
    assert (finding.code, finding.severity, finding.count, finding.source) == (
        "replay-spread",
        "info",
        1,
        "a.csv",
    )
    assert dict(finding.remark.values["spreads"]) == {"B": pytest.approx(0.01)}
    assert joined.notes == [remark("counters-of-several-runs", file="a.csv")]


def test_passes_that_agree_are_no_finding(tmp_path: Path) -> None:
    base = made(tmp_path, "a.csv", WIDE + ",A", row(0, "f", 1))
    assert join(base, [made(tmp_path, "b.csv", WIDE + ",A", row(1, "f", 1))], None).findings == []


def test_dispatches_that_a_pass_lacks_have_no_counters_there(tmp_path: Path) -> None:
    base = made(tmp_path, "a.csv", WIDE, row(0, "f"), row(1, "f"))
    joined = join(base, [made(tmp_path, "b.csv", WIDE + ",A", row(0, "f", 7))], None)
    assert np.nan_to_num(joined.counters["A"], nan=-1).tolist() == [7, -1]
    [finding] = joined.findings
    assert (finding.code, finding.count, finding.source) == ("unmatched-pass", 1, "b.csv")


def test_durations_that_differ_between_passes_are_found_unless_spoiled(tmp_path: Path) -> None:
    base = made(tmp_path, "a.csv", WIDE, row(0, "f", took=10))
    [finding] = join(base, [made(tmp_path, "b.csv", WIDE, row(0, "f", took=8))], None).findings
    assert dict(finding.remark.values["spreads"]) == {"duration": pytest.approx(0.2)}
    spoiled = made(tmp_path, "c.csv", WIDE, '0,2,512,256,0,"f",1.5E+14,1.6E+14')
    assert join(base, [spoiled], None).findings == []


@pytest.mark.parametrize(
    ("names", "known", "expected"),
    [
        ("TCC_A[0],TCC_A[1]", None, None),
        ("TCC_A[0],TCC_A[1]", 2, None),
        ("TCC_A[0],TCC_A[1]", 16, ("TCC_A", 2, 16)),
        ("TCC_A[0],TCC_A[3]", None, ("TCC_A", 2, 4)),
        ("OTHER[0],OTHER[1]", 16, None),
    ],
)
def test_sums_over_some_channels_are_found(
    tmp_path: Path, names: str, known: int | None, expected: tuple[str, int, int] | None
) -> None:
    findings = join(
        made(tmp_path, "a.csv", f"{WIDE},{names}", row(0, "f", 1, 2)), [], known
    ).findings
    assert [own.code for own in findings] == (["channels-missing"] if expected else [])
    assert expected is None or findings[0].remark.values == {"counters": (expected,)}


def test_channels_that_are_spread_over_passes_are_complete_together(tmp_path: Path) -> None:
    base = made(tmp_path, "a.csv", WIDE + ",TCC_A[0]", row(0, "f", 1))
    assert (
        join(base, [made(tmp_path, "b.csv", WIDE + ",TCC_A[1]", row(0, "f", 1))], 2).findings == []
    )

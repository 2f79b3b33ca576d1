from __future__ import annotations

import gzip
import re
from pathlib import Path

import numpy as np
import pandas as pd
import pytest

from flopcast.benchmarks.power_simulator import Simulation
from flopcast.errors import DataError, ParameterError
from flopcast.power.readings import (
    check_clock_pairs,
    check_executions,
    check_power_log,
    facts_of,
    read_log,
)
from flopcast.readers.base import LINE
from flopcast.remarks import remark

MS = 1_000_000


def log(**columns: object) -> pd.DataFrame:
    """Five readings, 1 ms apart, of two components."""
    stamps = np.arange(5) * MS + 1_700_000_000_000_000_001
    parts = [
        pd.DataFrame({"gpu_ns": stamps, "component": name, "power_w": 300.0})
        for name in ("total", "hbm")
    ]
    return pd.concat(parts, ignore_index=True).assign(**columns)


def executions(**columns: object) -> pd.DataFrame:
    start = np.arange(4) * 150_000
    return pd.DataFrame({"start_ns": start, "end_ns": start + 120_000, "kernel": "gemm"}).assign(
        **columns
    )


def pairs(**columns: object) -> pd.DataFrame:
    return pd.DataFrame(
        {"gpu_ns": [10, 20, 30], "cpu_ns": [110, 120, 130], "delay_ns": [5, 5, 5]}
    ).assign(**columns)


def test_nanoseconds_since_1970_stay_exact() -> None:
    as_text = log().astype(str)
    assert check_power_log(as_text)["gpu_ns"].tolist() == log()["gpu_ns"].tolist()
    assert check_power_log(log().drop(columns="component").head(5))[
        "component"
    ].unique().tolist() == ["total"]


@pytest.mark.parametrize(
    ("table", "message"),
    [
        (log().rename(columns={"gpu_ns": "gpu_us"}), "column gpu_ns: gpu_us"),
        (log().drop(columns="power_w"), "table has gpu_ns, component"),
        (log().head(0), "power log: the table"),
        (log(gpu_ns=np.tile(np.arange(5) * 1000, 2)), "apart (median): gpu_ns"),
        (log(power_w=300_000.0), "power_w is 300000 (median)"),
        (log(power_w=1.0), "power_w is 1 (median)"),
        (log(power_w=[300.0] * 9 + [-1]), "10: power_w is negative"),
        (log(power_w=["300"] * 9 + ["N/A"]), "10: power_w"),
        (log(gpu_ns=["x"] * 10), "1: gpu_ns"),
        (log(gpu_ns=1e19), "1: gpu_ns"),
        (log().iloc[[0, 2, 1, 3, 4]], "3: gpu_ns is earlier"),
        (log().iloc[[0, 1, 1, 2]], "same gpu_ns: logs over"),
        (log().head(9), "first at gpu_ns 170000000"),
        (log(component=""), "6: gpu_ns is earlier"),
        (log(component=["total"] * 5 + [" "] * 5), "6: component"),
    ],
)  # fmt: skip
def test_a_power_log_that_cannot_be_used(table: pd.DataFrame, message: str) -> None:
    with pytest.raises(DataError, match=re.escape(message)):
        check_power_log(table)


@pytest.mark.parametrize(
    ("table", "message"),
    [
        (executions(end_ns=0), "1: the execution ends"),
        (executions().iloc[::-1], "executions, row 2: start_ns"),
        (executions(end_ns=executions()["end_ns"] + 31_000), "2: the execution starts"),
        (executions(kernel=["gemm", "gemm", None, "gemm"]), "executions, row 3: kernel"),
        (executions(execution=0), "executions, row 1: execution"),
        (executions(**{"class": "CPU-bound"}), "executions, row 1: class"),
        (executions(flops="many"), "executions, row 1: flops"),
        (executions(launches=0), "executions, row 1: launches"),
        (executions(start_ns=[0, 150, 300, 450], end_ns=[120, 270, 420, 570]), "executions last 120 ns (median)"),
    ],
)  # fmt: skip
def test_executions_that_cannot_be_used(table: pd.DataFrame, message: str) -> None:
    with pytest.raises(DataError, match=re.escape(message)):
        check_executions(table)


@pytest.mark.parametrize(
    ("columns", "bound"),
    [
        ({"flops": 1e12, "bytes": 1e9, "balance": 250}, "compute-bound"),
        ({"flops": [None, 1e12, "", 1e12], "bytes": 1e10, "balance": 250}, "memory-bound"),
        ({"flops": 1e12, "bytes": 1e10}, ""),
        ({"bytes": 2**16, "collective": "all_reduce"}, "communication"),
        ({"flops": 1e12, "bytes": 1e9, "balance": 250, "class": "memory-bound"}, "memory-bound"),
    ],
)
def test_what_bounds_a_kernel(columns: dict[str, object], bound: str) -> None:
    assert facts_of(check_executions(executions(**columns))).bound == bound
    with pytest.raises(DataError, match="both 1 and 2"):
        facts_of(check_executions(executions(launches=["1", "2", "2", "2"])))


def test_optional_columns_stay() -> None:
    found = check_executions(executions(run="a", **{"class": "Memory-Bound", "note": "x"}))
    assert found.columns.tolist() == ["start_ns", "end_ns", "kernel", "run", "class"]
    assert found["class"].unique().tolist() == ["memory-bound"]


@pytest.mark.parametrize(
    ("table", "message"),
    [
        (pairs().head(0), "clock pairs: the table"),
        (pairs(delay_ns=[5, -1, 5]), "2: delay_ns is negative"),
        (pairs(gpu_ns=[10, 10, 30]), "pairs, row 2: gpu_ns"),
        (pairs(cpu_ns=[110, 120, 115]), "pairs, row 3: cpu_ns"),
        (pairs().rename(columns={"delay_ns": "delay_us"}), "column delay_ns: delay_us"),
    ],
)  # fmt: skip
def test_clock_pairs_that_cannot_be_used(table: pd.DataFrame, message: str) -> None:
    with pytest.raises(DataError, match=re.escape(message)):
        check_clock_pairs(table)


def test_the_line_of_the_file_is_named() -> None:
    table = pairs(delay_ns=[5, 5, -1], **{LINE: [2, 3, 7]})
    with pytest.raises(DataError, match=r"clocks\.csv:7: delay_ns is negative"):
        check_clock_pairs(table, "clocks.csv")


NVIDIA = "timestamp, index, power.draw.instant [W]\n"


@pytest.fixture
def smi(tmp_path: Path) -> Path:
    """Readings of two GPUs, 20 ms apart."""
    path = tmp_path / "smi.csv"
    rows = [
        f"2025/08/24 22:19:24.{20 * i:03d}, {gpu}, {300 + gpu} W\n"
        for i in range(5)
        for gpu in (0, 1)
    ]
    path.write_text(NVIDIA + "".join(rows))
    return path


def test_csv_and_parquet_are_read_alike(simulation: Simulation, tmp_path: Path) -> None:
    paths = [tmp_path / name for name in ("log.csv", "log.csv.gz", "log.parquet")]
    text = simulation.log.to_csv(index=False)
    paths[0].write_text(text)
    paths[1].write_bytes(gzip.compress(text.encode()))
    simulation.log.to_parquet(paths[2])
    limited = tmp_path / "limited.csv"
    simulation.log.assign(limit_w=750).to_csv(limited, index=False)
    assert [read_log(path).limit_w for path in (limited, paths[0])] == [750, None]
    for path in paths:
        found = read_log(path)
        assert (found.clock, found.notes) == ("gpu", ())
        assert found.readings["gpu_ns"].tolist() == simulation.log["gpu_ns"].tolist()
        assert found.readings["power_w"].to_numpy() == pytest.approx(
            simulation.log["power_w"].to_numpy()
        )


def test_a_log_of_a_tool_is_read(smi: Path) -> None:
    found = read_log(smi, 1)
    assert (found.clock, found.notes) == ("local time", ())
    assert found.readings["power_w"].tolist() == [301.0] * 5
    assert np.diff(found.readings["gpu_ns"]).tolist() == [20_000_000] * 4


def test_readings_within_a_stamp_of_whole_seconds_are_refused(tmp_path: Path) -> None:
    path = tmp_path / "amd.csv"
    path.write_text(
        "timestamp,gpu,socket_power\n"
        + "".join(f"{1700000000 + i // 2},0,{500 + i}\n" for i in range(6))
    )
    with pytest.raises(DataError, match=r"amd\.csv"):
        read_log(path)


def test_a_gpu_must_be_chosen(smi: Path) -> None:
    with pytest.raises(ParameterError, match=r"gpu.*GPUs.*smi\.csv"):
        read_log(smi)
    with pytest.raises(ParameterError, match=r"gpu.*GPUs.*7"):
        read_log(smi, 7)


def test_the_gpu_of_an_own_table_is_chosen_too(tmp_path: Path) -> None:
    path = tmp_path / "two.csv"
    path.write_text(
        "gpu_ns,GPU,power_w\n"
        + "".join(
            f"{i * 1_000_000 + gpu},{gpu},{100 + 400 * gpu}\n" for i in range(5) for gpu in (0, 1)
        )
    )
    assert read_log(path, 1).readings["power_w"].tolist() == [500.0] * 5
    with pytest.raises(ParameterError, match=r"gpu.*GPUs.*two\.csv"):
        read_log(path)
    with pytest.raises(ParameterError, match=r"gpu.*GPUs.*7"):
        read_log(path, 7)
    path.write_text(path.read_text().replace(",1,", ",here,"))
    with pytest.raises(DataError, match=r"gpu.*GPU.*'here'"):
        read_log(path, 1)
    path.write_text("gpu_ns,power_w\n0,500\n1000000,500\n")
    with pytest.raises(ParameterError, match=r"gpu.*GPU"):
        read_log(path, 0)


def test_what_is_left_out_is_told(smi: Path, tmp_path: Path) -> None:
    whole = smi.read_text().replace("301 W", "[N/A]", 2)
    smi.write_text(whole[: whole.rindex(",") + 3])
    found = read_log(smi, 1)
    assert len(found.readings) == 2
    assert found.notes == (
        remark("power-log-readings-without-power", readings=2),
        remark("power-log-cut-off"),
    )
    own = tmp_path / "own.csv"
    own.write_text("gpu_ns,power_w\n0,500\n1000000,500\n2000000,5")
    assert (len(read_log(own).readings), len(read_log(own).notes)) == (2, 1)


def test_files_that_cannot_be_read(tmp_path: Path) -> None:
    with pytest.raises(DataError, match=r"none\.csv: no such file"):
        read_log(tmp_path / "none.csv")
    broken = tmp_path / "broken.parquet"
    broken.write_bytes(b"PAR1 and nothing else")
    with pytest.raises(DataError, match="is not readable Parquet"):
        read_log(broken)
    broken.write_text("gpu_ns,power_w\n1,2,3\n")
    with pytest.raises(DataError, match=r"broken\.parquet:2"):
        read_log(broken)
    broken.write_text("gpu_us,power_w\n1,2\n")
    with pytest.raises(DataError, match=r"gpu_ns.*gpu_us"):
        read_log(broken)


def test_a_log_without_times_is_refused(tmp_path: Path) -> None:
    path = tmp_path / "rocm.csv"
    path.write_text("device,Current Socket Graphics Package Power (W)\ncard0,300.0\n")
    with pytest.raises(DataError, match="no times"):
        read_log(path)


def test_readings_that_failed_are_left_out(tmp_path: Path) -> None:
    """A logger that could not read writes 0, or 65535; one of them in fifty moves power by several per cent."""
    own = tmp_path / "own.csv"
    parts = [(0, 500, 300), (1, 0, 0), (2, 500, 65535), (3, 500, 300)]
    lines = [
        f"{at}000000,{name},{w}"
        for at, *both in parts
        for name, w in zip(("total", "xcd"), both, strict=True)
    ]
    own.write_text("\n".join(["gpu_ns,component,power_w", *lines, ""]))
    found = read_log(own)
    assert found.readings["gpu_ns"].tolist() == [0, 0, 3_000_000, 3_000_000]
    assert found.notes == (remark("power-log-failed-readings", readings=2, first_w=0.0),)

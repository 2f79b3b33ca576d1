from __future__ import annotations

import gzip
from pathlib import Path

import numpy as np
import pytest

from flopcast.benchmarks.power_simulator import Simulation
from flopcast.errors import DataError
from flopcast.power.sources import read_log

NVIDIA = "timestamp, index, power.draw.instant [W]\n"


@pytest.fixture
def smi(tmp_path: Path) -> Path:
    """Readings of two GPUs, 20 ms apart."""
    path = tmp_path / "smi.csv"
    rows = [f"2025/08/24 22:19:24.{20 * i:03d}, {gpu}, {300 + gpu} W\n" for i in range(5) for gpu in (0, 1)]
    path.write_text(NVIDIA + "".join(rows))
    return path


def test_csv_and_parquet_are_read_alike(simulation: Simulation, tmp_path: Path) -> None:
    paths = [tmp_path / name for name in ("log.csv", "log.csv.gz", "log.parquet")]
    text = simulation.log.to_csv(index=False)
    paths[0].write_text(text)
    paths[1].write_bytes(gzip.compress(text.encode()))
    simulation.log.to_parquet(paths[2])
    for path in paths:
        found = read_log(path)
        assert (found.clock, found.notes) == ("gpu", ())
        assert found.readings["gpu_ns"].tolist() == simulation.log["gpu_ns"].tolist()
        assert found.readings["power_w"].to_numpy() == pytest.approx(simulation.log["power_w"].to_numpy())


def test_a_log_of_a_tool_is_read(smi: Path) -> None:
    found = read_log(smi, 1)
    assert (found.clock, found.notes) == ("local time", ())
    assert found.readings["power_w"].tolist() == [301.0] * 5
    assert np.diff(found.readings["gpu_ns"]).tolist() == [20_000_000] * 4


def test_readings_within_a_stamp_of_whole_seconds_are_refused(tmp_path: Path) -> None:
    path = tmp_path / "amd.csv"
    path.write_text("timestamp,gpu,socket_power\n" + "".join(f"{1700000000 + i // 2},0,{500 + i}\n" for i in range(6)))
    with pytest.raises(
        DataError, match=r"amd\.csv: several readings have the same timestamp, whose step is a whole sec"
    ):
        read_log(path)


def test_a_gpu_must_be_chosen(smi: Path) -> None:
    with pytest.raises(DataError, match=r"smi\.csv: the log is of GPUs 0, 1: choose one with --gpu"):
        read_log(smi)
    with pytest.raises(DataError, match="no reading of GPU 7: the log is of 0, 1"):
        read_log(smi, 7)


def test_the_gpu_of_an_own_table_is_chosen_too(tmp_path: Path) -> None:
    path = tmp_path / "two.csv"
    path.write_text(
        "gpu_ns,GPU,power_w\n"
        + "".join(f"{i * 1_000_000 + gpu},{gpu},{100 + 400 * gpu}\n" for i in range(5) for gpu in (0, 1))
    )
    assert read_log(path, 1).readings["power_w"].tolist() == [500.0] * 5
    with pytest.raises(DataError, match=r"two\.csv: the log is of GPUs 0, 1: choose one with --gpu"):
        read_log(path)
    with pytest.raises(DataError, match="no reading of GPU 7: the log is of 0, 1"):
        read_log(path, 7)
    path.write_text(path.read_text().replace(",1,", ",here,"))
    with pytest.raises(DataError, match="gpu must be the number of a GPU, got 'here'"):
        read_log(path, 1)
    path.write_text("gpu_ns,power_w\n0,500\n1000000,500\n")
    with pytest.raises(DataError, match="the log does not say of which GPU it is: leave --gpu out"):
        read_log(path, 0)


def test_what_is_left_out_is_told(smi: Path, tmp_path: Path) -> None:
    whole = smi.read_text().replace("301 W", "[N/A]", 2)
    smi.write_text(whole[: whole.rindex(",") + 3])
    found = read_log(smi, 1)
    assert len(found.readings) == 2
    assert found.notes == (
        "readings of the log without power, left out: 2", "the log breaks off in its last line, which is left out",
    )  # fmt: skip
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
    with pytest.raises(DataError, match=r"broken\.parquet:2: has more fields than the header names"):
        read_log(broken)
    broken.write_text("gpu_us,power_w\n1,2\n")
    with pytest.raises(DataError, match="no column gpu_ns: gpu_us is of another unit"):
        read_log(broken)


def test_a_log_without_times_is_refused(tmp_path: Path) -> None:
    path = tmp_path / "rocm.csv"
    path.write_text("device,Current Socket Graphics Package Power (W)\ncard0,300.0\n")
    with pytest.raises(DataError, match="the log states no times"):
        read_log(path)

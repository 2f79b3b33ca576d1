"""Logs of GPGPU-Sim and Accel-Sim: statistics that are added up taken apart, and what is missing refused."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pandas as pd
import pytest

import flopcast as fc
from flopcast.errors import DataError, ParameterError
from flopcast.scaling.simulated import is_simulated, simulated_rows
from flopcast.tests.commands import running

LAUNCHES = (
    ("scale", 1000, 100_000, 500, 400),
    ("add", 3000, 60_000, 900, 1500),
    ("scale", 500, 60_000, 520, 500),
)
"""Kernel, cycles, instructions, misses of the L2 so far, and cycles that wait for operands so far."""


def log(sms: int, launches: tuple[tuple[str, int, int, int, int], ...] = LAUNCHES) -> str:
    """Return a log in the words of `gpgpu_sim::gpu_print_stat`."""
    lines = [
        "        *** GPGPU-Sim Simulator Version 4.2.0  [build gpgpu-sim_git-commit-0] ***",
        f"-gpgpu_n_clusters {sms:24} # number of processing clusters",
        "-gpgpu_n_cores_per_cluster                     1 # number of simd cores per cluster",
    ]
    whole = 0
    for number, (name, cycles, insn, misses, waited) in enumerate(launches, 1):
        whole += cycles
        lines += [
            f"kernel_name = {name} ",
            f"kernel_launch_uid = {number} ",
            f"gpu_sim_cycle = {cycles}",
            f"gpu_sim_insn = {insn}",
            f"gpu_ipc = {insn / cycles:12.4f}",
            f"gpu_tot_sim_cycle = {whole}",
            "Warp Occupancy Distribution:",
            f"Stall:77\tW0_Idle:100\tW0_Scoreboard:{waited}\tW1:0\tW32:{4 * waited - 100 - waited}",
            f"L2_total_cache_accesses = {10 * misses}",
            f"L2_total_cache_misses = {misses}",
            "L2_total_cache_miss_rate = 0.1000",
        ]
    return "\n".join(lines)


def test_launches_of_a_kernel_are_added_up_and_totals_taken_apart() -> None:
    rows = simulated_rows(log(8)).set_index("benchmark")
    assert rows.loc["add", "ipc"] == pytest.approx(20)
    assert rows.loc["add", "mpki"] == pytest.approx(1000 * 400 / 60_000)
    assert rows.loc["scale", "ipc"] == pytest.approx(160_000 / 1500)
    assert set(rows["size"]) == {8.0}
    assert set(rows["unit"]) == {"SM"}


def test_f_mem_is_the_share_of_cycles_that_wait_for_operands() -> None:
    (row,) = simulated_rows(log(8, LAUNCHES[:1])).to_dict("records")
    assert row["f_mem"] == pytest.approx(400 / 1600)
    without = "\n".join(line for line in log(8).splitlines() if "W0_" not in line)
    assert np.isnan(simulated_rows(without)["f_mem"]).all()


def test_a_log_that_clears_its_statistics_begins_anew() -> None:
    cleared = (("a", 100, 1000, 50, 10), ("b", 100, 1000, 20, 30))
    rows = simulated_rows(log(8, cleared)).set_index("benchmark")
    assert rows["mpki"].tolist() == [50.0, 20.0]


def test_what_is_no_log_is_none_and_what_lacks_the_size_is_refused() -> None:
    assert not is_simulated("op,m,n,k")
    bare = "\n".join(line for line in log(8).splitlines() if "n_clusters" not in line)
    with pytest.raises(DataError, match="how many SMs"):
        simulated_rows(bare)
    assert simulated_rows(bare, 4)["size"].unique().tolist() == [4.0]
    with pytest.raises(DataError, match="no kernel"):
        simulated_rows("gpu_tot_sim_cycle = 3")


def test_logs_of_several_sizes_are_what_predict_takes(tmp_path: Path) -> None:
    for sms in (8, 16):
        (tmp_path / f"sim{sms}.log").write_text(log(sms), encoding="utf-8")
    paths = [tmp_path / "sim8.log", tmp_path / "sim16.log"]
    out = tmp_path / "runs.csv"
    result = running.call("scale", "counters", *paths, "--out", out)
    assert result.exit_code == 0, result.output
    rows = pd.read_csv(out)
    assert sorted(rows["size"].unique()) == [8, 16]
    found = fc.scale(out, fit=[8, 16], sizes=[128])
    assert len(found.benchmarks) == 2
    with pytest.raises(ParameterError, match="both of 8"):
        fc.scale_counters(paths[0], paths[0])

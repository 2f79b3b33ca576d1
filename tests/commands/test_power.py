"""`flopcast power` from the command line: the protocol, profiles from tables and logs, and bad input."""

from __future__ import annotations

import json
from functools import partial
from pathlib import Path

import numpy as np
import pandas as pd
import pytest

from flopcast.benchmarks.power_simulator import Scenario, Simulation, simulate
from flopcast.output import FILES
from flopcast.power.profile import profile_files
from flopcast.tests.commands import running

run = partial(running.call, "power")
ROOT = Path(__file__).parents[2]


@pytest.fixture(scope="module")
def simulation() -> Simulation:
    return simulate(Scenario(runs=100, jitter=0.02))


@pytest.fixture(scope="module")
def tables(simulation: Simulation, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder with log.csv, executions.csv and clocks.csv."""
    folder = tmp_path_factory.mktemp("power")
    simulation.log.to_csv(folder / "log.csv", index=False)
    simulation.executions.to_csv(folder / "executions.csv", index=False)
    simulation.pairs.to_csv(folder / "clocks.csv", index=False)
    return folder


def profile(folder: Path, *arguments: object, **files: Path) -> tuple[int, str, str]:
    log, executions, clocks = (
        files.get(name, folder / f"{name}.csv") for name in ("log", "executions", "clocks")
    )
    return run("profile", log, "--executions", executions, "--clocks", clocks, *arguments)


def test_the_protocol() -> None:
    code, text, error = run("plan", "--kernel-us", "120", "--window-us", "1000")
    assert (code, error) == (0, "")
    assert all(figure in text for figure in ("120 µs", "200", "5 %"))
    found = json.loads(run("plan", "--kernel-us", "120", "--json")[1])
    assert (found["runs"], found["published"], found["executions"], found["logs"]) == (
        200,
        9,
        10,
        12,
    )
    assert [(one["code"], one["executions"]) for one in found["remarks"]] == [
        ("power-plan-lag-unknown", 10)
    ]
    lagging = json.loads(
        run("plan", "--kernel-us", "120", "--lag-us", "400", "--settling-us", "1200", "--json")[1]
    )
    assert (lagging["steady_from"], lagging["executions"], lagging["remarks"]) == (34, 37, [])


def test_the_protocol_of_a_logger_of_instantaneous_power() -> None:
    code, text, error = run("plan", "--kernel-us", "120", "--window-us", "0", "--json")
    assert (code, error, json.loads(text)["executions"]) == (0, "", 4)
    code, _, error = run("plan", "--kernel-us", "120", "--window-us", "soon")
    assert (code, error.count("\n")) == (2, 1)
    assert "--window-us" in error


def test_below_the_published_table() -> None:
    code, text, _ = run("plan", "--kernel-us", "10", "--json")
    assert code == 0
    found = json.loads(text)["remarks"][0]
    assert found.pop("text").startswith(
        "no row is published below 25 µs: launch the kernel 3 times"
    )
    assert found == {"code": "power-plan-below-table", "shortest_us": 25.0, "repeats": 3}


def test_a_profile_is_printed(tables: Path) -> None:
    code, text, error = profile(tables, "--window-us", "1000")
    assert (code, error) == (0, "")
    assert all(name in text for name in ("gemm", "total", "xcd", "iod", "hbm"))


def test_json_and_folder_hold_the_same(
    tables: Path, simulation: Simulation, tmp_path: Path
) -> None:
    out = tmp_path / "runs" / "gemm"
    code, text, _ = profile(
        tables, "--window-us", "1000", "--component", "total", "--ablate", "--json", "--out", out
    )
    assert code == 0
    assert sorted(path.name for path in out.iterdir()) == sorted(FILES["power"])
    assert (out / "power.json").read_text() == text
    (kernel,) = json.loads(text)["kernels"]
    energy = kernel["components"]["total"]["energy"]
    assert [*kernel["without"]] == ["without synchronisation", "without binning", "50 runs"]
    assert kernel["without"]["50 runs"]["runs"]["golden"] <= 50 < kernel["runs"]["golden"]
    assert len(kernel["components"]["total"]["run"]["power_w"]) > 100
    assert ("power-few-runs", 100, 200) in [
        (one["code"], one.get("runs"), one.get("wanted")) for one in kernel["remarks"]
    ]
    assert energy["energy_j"] == pytest.approx(simulation.truth.energy_j(), rel=0.03)
    code, text, _ = profile(tables, "--component", "total", "--out", out)
    assert f"Wrote {out / FILES['power'][0]}" in text.replace("\n", "")


def test_a_folder_with_other_files_is_refused_before_the_work(tables: Path) -> None:
    code, _, error = profile(tables, "--out", tables, log=Path("no-such-file.csv"))
    assert code == 2
    assert all(name in error for name in ("clocks.csv", "executions.csv", "log.csv"))


def test_every_kernel_or_one(tables: Path, simulation: Simulation, tmp_path: Path) -> None:
    mixed = tmp_path / "mixed.csv"
    rows = simulation.executions.drop(columns="execution")
    rows.assign(kernel=np.where(rows["run"] % 2, "copy", "gemm")).to_csv(mixed, index=False)
    found = profile_files(
        tables / "log.csv", mixed, tables / "clocks.csv", component=["total"], window_us=1000
    )
    assert [one.kernel for one in found.kernels] == ["gemm", "copy"]
    assert found.clocks.drift_ppm == pytest.approx(50, abs=1)
    code, text, _ = profile(
        tables, "--kernel", "copy", "--json", "--component", "total", executions=mixed
    )
    assert (code, [one["kernel"] for one in json.loads(text)["kernels"]]) == (0, ["copy"])


def test_a_log_of_a_tool_on_the_clock_of_the_cpu_needs_no_pairs(
    simulation: Simulation, tmp_path: Path
) -> None:
    total = simulation.log[simulation.log["component"].eq("total")]
    log, executions = tmp_path / "log.csv", tmp_path / "executions.csv"
    total.rename(columns={"gpu_ns": "time_ns"}).to_csv(log, index=False)
    ahead = simulation.executions.copy()
    ahead[["start_ns", "end_ns"]] += 3_000_000
    ahead.to_csv(executions, index=False)
    code, text, _ = run("profile", log, "--executions", executions, "--window-us", "1000", "--json")
    assert code == 0
    assert json.loads(text)["clocks"]["pairs"] == 0


def current_power(found: Simulation, folder: Path) -> tuple[Path, Path]:
    """Write the total as amd-smi calls it, and the executions."""
    total = found.log[found.log["component"].eq("total")]
    seconds = total["gpu_ns"].astype(str).str.replace(r"(\d{9})$", r".\1", regex=True)
    log, executions = folder / "amd-smi.csv", folder / "executions.csv"
    pd.DataFrame({"timestamp": seconds, "gpu": 0, "current_socket_power": total["power_w"]}).to_csv(
        log, index=False
    )
    found.executions.to_csv(executions, index=False)
    return log, executions


def test_only_the_user_can_say_that_a_log_is_instantaneous(tmp_path: Path) -> None:
    found = simulate(Scenario(kernel_us=600, window_us=0, runs=100, offset_us=0, drift_ppm=0))
    (kernel,) = profile_files(*current_power(found, tmp_path), None, window_us=0).kernels
    assert (kernel.window_us, kernel.isolation) == (0, "longer-than-window")
    expected = found.truth.power_w((np.arange(100) + 0.5) / 100).mean()
    assert kernel.components["total"].ssp.mean_w == pytest.approx(expected, rel=0.02)


def test_a_log_that_averages_what_it_calls_current_is_not_taken_for_instantaneous(
    tmp_path: Path,
) -> None:
    found = simulate(Scenario(offset_us=0, drift_ppm=0))
    (kernel,) = profile_files(*current_power(found, tmp_path), None).kernels
    assert (kernel.window_stated, kernel.window_us) == (False, pytest.approx(1000, rel=0.01))
    assert kernel.components["total"].energy.energy_j == pytest.approx(
        found.truth.energy_j(), rel=0.02
    )
    assert kernel.notes[0].code == "power-window-assumed"


def test_a_log_that_breaks_off_is_told(
    tables: Path, simulation: Simulation, tmp_path: Path
) -> None:
    cut = tmp_path / "log.csv"
    total = simulation.log[simulation.log["component"].eq("total")]
    cut.write_text(total.to_csv(index=False).rstrip()[:-20])
    code, text, error = profile(tables, "--window-us", "1000", log=cut)
    assert (code, error) == (0, "")
    assert "last line" in text


def test_a_log_on_another_clock_needs_pairs(tables: Path) -> None:
    code, _, error = run("profile", tables / "log.csv", "--executions", tables / "executions.csv")
    assert code == 2
    assert "--clocks must be given" in error


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["--window-us", "-1"], "--window-us -1"),
        (["--window-us", "1ms"], "--window-us"),
        (["--interval", "90"], "90 0.9 90"),
        (["--kernel", "conv"], "--kernel 'conv'"),
        (["--component", ","], "--component NAME[,NAME] ','"),
        (["--component", "soc"], "--component 'soc'"),
        (["--window-us", "100000"], "100000"),
    ],
)
def test_what_the_user_gets_wrong_is_one_line(
    tables: Path, arguments: list[str], message: str
) -> None:
    code, text, error = profile(tables, *arguments)
    assert (code, text) == (2, "")
    assert all(word in error for word in message.split())
    assert error.count("\n") == 1


@pytest.mark.parametrize(
    ("file", "change", "message"),
    [
        ("log", lambda table: table.assign(power_w=1000 * table["power_w"]), "log.csv: power_w is "),
        ("log", lambda table: table.iloc[::-1], "log.csv:3 gpu_ns"),
        ("log", lambda table: pd.concat([table, table.tail(1)]), "second reading"),
        ("log", lambda table: table.iloc[:-1], "component hbm"),
        ("executions", lambda table: table.rename(columns={"end_ns": "end_us"}), "end_ns end_us"),
        ("clocks", lambda table: table.head(0), "clocks.csv"),
        ("clocks", lambda table: table.assign(gpu_ns=table["gpu_ns"] // 10), "both must be nanoseconds"),
    ],
)  # fmt: skip
def test_tables_that_cannot_be_used_are_one_line(
    tables: Path, tmp_path: Path, file: str, change: object, message: str
) -> None:
    assert callable(change)
    path = tmp_path / f"{file}.csv"
    change(pd.read_csv(tables / f"{file}.csv")).to_csv(path, index=False)
    code, _, error = profile(tables, **{file: path})
    assert code == 2
    assert all(word in error for word in message.split())
    assert error.count("\n") == 1


def test_what_is_recorded_is_profiled_by_the_command_that_is_printed(tmp_path: Path) -> None:
    listed, out = tmp_path / "kernels.csv", tmp_path / "out"
    listed.write_text("op,dtype_a,m,n,k\ngemm,bf16,8192,8192,8192\n", encoding="utf-8")
    asked = ("record", listed, "--out", out, "--logger", "simulated", "--runs", 60)
    code, text, _ = run(*asked)
    assert code == 0
    assert "flopcast power profile" in text
    assert "power-few" not in text
    code, text, _ = run(*asked, "--json")  # an earlier recording is replaced
    found = json.loads(text)
    assert (code, found["logger"], found["kernels"][0]["runs"], found["resumed"]) == (
        0,
        "simulated",
        60,
        0,
    )
    code, text, _ = run(*found["profile"].split()[2:], "--json")
    (kernel,) = json.loads(text)["kernels"]
    assert (code, kernel["ssp_execution"]) == (0, found["kernels"][0]["steady_from"])
    assert kernel["components"]["total"]["throttling"]["found"]


def test_a_kernel_of_too_few_readings_is_left_out_alone(tables: Path, tmp_path: Path) -> None:
    mixed = tmp_path / "mixed.csv"
    rows = pd.read_csv(tables / "executions.csv")
    rows.assign(kernel=np.where(rows["run"] < 2, "copy", "gemm")).to_csv(mixed, index=False)
    code, text, _ = profile(tables, "--component", "total", "--json", executions=mixed)
    found = json.loads(text)
    assert (code, [one["kernel"] for one in found["kernels"]]) == (0, ["gemm"])
    assert [(one["code"], one["kernel"]) for one in found["left_out"]] == [
        ("power-kernel-left-out", "copy")
    ]
    code, _, error = profile(tables, "--kernel", "copy", executions=mixed)
    assert (code, error.count("\n")) == (2, 1)


def test_what_cannot_be_recorded(tmp_path: Path) -> None:
    listed = tmp_path / "kernels.csv"
    listed.write_text("op,dtype_a,m,n,k\ngemm,bf16,8192,8192,8192\n", encoding="utf-8")
    asked = ("record", listed, "--logger", "simulated")
    for wrong in ("0", "soon"):
        code, _, error = run(*asked, "--out", tmp_path / "out", "--window-us", wrong)
        assert (code, error.count("\n")) == (2, 1)
        assert "--window-us" in error
    code, _, error = run(*asked, "--out", listed)
    assert (code, "is a file" in error) == (2, True)

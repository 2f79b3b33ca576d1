"""The method as a whole, on simulated loggers with known truth."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import numpy as np
import pandas as pd
import pytest

from flopcast.benchmarks.power_ablation import rms_percent
from flopcast.benchmarks.power_simulator import Scenario, Simulation, Truth, simulate
from flopcast.errors import DataError, ParameterError
from flopcast.power import profile as module
from flopcast.power.clocks import Measured, synchronise
from flopcast.power.energy import PHASES, find_pauses
from flopcast.power.profile import (
    KernelPower,
    compare,
    compare_classes,
    profile_files,
    profile_kernel,
    without_steps,
)
from flopcast.power.readings import Facts
from flopcast.power.runs import FULLER_BIN
from flopcast.remarks import remark
from flopcast.traces.cleaning.binning import MIDDLE


def codes(one: KernelPower) -> list[str]:
    return [note.code for note in one.notes]


def profiled(scenario: Scenario, **options: object) -> tuple[KernelPower, Truth]:
    """Return the profile of the total power of a simulated measurement, and the truth."""
    found = simulate(scenario)
    measured = synchronise(found.log, found.executions, found.pairs)
    options = {
        "window_us": scenario.window_us,
        "components": ["total"],
        "replicates": 30,
        **options,
    }
    return profile_kernel(measured, **options), found.truth  # type: ignore[arg-type]


@pytest.mark.parametrize(("kernel_us", "runs"), [(40, 400), (120, 200), (600, 200), (2500, 200)])
def test_steady_power_and_energy_are_recovered(kernel_us: float, runs: int) -> None:
    result, truth = profiled(Scenario(kernel_us=kernel_us, runs=runs))
    total = result.components["total"]
    expected = truth.averaged_w(PHASES)
    assert rms_percent(total.ssp.polynomial_w, expected) < 3
    assert rms_percent(total.ssp.spline_w, expected) < 3
    assert total.energy.energy_j == pytest.approx(truth.energy_j(), rel=0.02)
    assert total.energy.lower_j < total.energy.energy_j < total.energy.upper_j


@pytest.mark.parametrize("kernel_us", [120, 600, 2500])
def test_the_polynomial_of_fifty_runs(kernel_us: float) -> None:
    result, truth = profiled(Scenario(kernel_us=kernel_us, runs=50), within=MIDDLE)
    assert rms_percent(result.components["total"].ssp.polynomial_w, truth.averaged_w(PHASES)) < 5
    assert remark("power-few-runs", runs=50, wanted=200) in result.notes


def test_the_window_is_removed_where_the_kernel_is_longer() -> None:
    result, truth = profiled(Scenario(kernel_us=2500))
    own = result.components["total"].deconvolved
    assert own is not None
    assert rms_percent(own.power_w, truth.power_w(own.phase)) < 3
    assert rms_percent(result.components["total"].ssp.polynomial_w, truth.power_w(PHASES)) > 4


def test_an_instantaneous_logger_shows_the_curve_itself() -> None:
    result, truth = profiled(Scenario(kernel_us=600, window_us=0))
    total = result.components["total"]
    assert (result.ssp_execution, total.deconvolved) == (4, None)
    assert rms_percent(total.ssp.spline_w, truth.power_w(PHASES)) < 3
    assert abs(total.sse_error_percent) < 2


@pytest.mark.parametrize("drift_ppm", [-50, 200])
def test_offset_and_drift_do_not_matter(drift_ppm: float) -> None:
    result, truth = profiled(Scenario(drift_ppm=drift_ppm, offset_us=-50_000))
    assert rms_percent(result.components["total"].ssp.polynomial_w, truth.averaged_w(PHASES)) < 3


def test_steady_execution_is_not_steady_power(profile: KernelPower) -> None:
    assert (profile.sse_execution, profile.ssp_execution, profile.filled) == (4, 9, 1)
    total = profile.components["total"]
    assert total.sse is not None
    assert total.sse.readings["execution"].unique().tolist() == [4]
    assert total.ssp.readings["execution"].min() == 9
    assert total.sse_error_percent == pytest.approx(-39, abs=3)
    slower, _ = profiled(Scenario(kernel_us=30, runs=400), within=MIDDLE)
    assert slower.components["total"].sse_error_percent < -60


def test_only_golden_runs_are_stitched(profile: KernelPower) -> None:
    table = profile.runs.table
    assert set(profile.components["total"].ssp.readings["run"]) <= set(profile.runs.kept)
    assert sum(profile.runs.removed.values()) == len(table) - len(profile.runs.kept) > 20
    assert (
        profile.runs.high_us / profile.runs.low_us
        == pytest.approx(profile.runs.ratio)
        == 1.05 / 0.95
    )


def test_run_times_without_a_usual_one_are_told(profile: KernelPower) -> None:
    result, _ = profiled(
        Scenario(kernel_us=600, outliers=1, slowdown=(1, 10), runs=120, executions=8), replicates=1
    )
    assert len(result.runs.kept) < 30
    assert remark("power-no-usual-time", golden=len(result.runs.kept), runs=120) in result.notes
    assert "power-no-usual-time" not in codes(profile)


def test_outlier_executions_have_a_profile_of_their_own() -> None:
    scenario = Scenario(outliers=0.3, slowdown=(1.5, 1.55), jitter=0.01)
    golden, _ = profiled(scenario)
    slower, _ = profiled(scenario, rank=2)
    assert slower.kernel_us == pytest.approx(1.525 * golden.kernel_us, rel=0.02)
    assert slower.runs.removed[FULLER_BIN] == len(golden.runs.kept)
    assert (
        slower.components["total"].energy.energy_j
        > 1.05 * golden.components["total"].energy.energy_j
    )
    assert not set(slower.runs.kept) & set(golden.runs.kept)


def test_components_are_told_apart(profile: KernelPower, simulation: Simulation) -> None:
    assert list(profile.components) == ["total", "xcd", "iod", "hbm"]
    for name, part in profile.components.items():
        assert rms_percent(part.ssp.polynomial_w, simulation.truth.averaged_w(PHASES, name)) < 3
        assert part.energy.energy_j == pytest.approx(simulation.truth.energy_j(name), rel=0.02)
        assert not part.throttling.found


def test_throttling_is_seen() -> None:
    result, _ = profiled(Scenario(kernel_us=600, executions=12, throttle=0.3))
    found = result.components["total"].throttling
    assert found.found
    assert found.fall_percent > 10


def test_a_fall_alone_is_no_rise_although_the_window_fills() -> None:
    found = simulate(Scenario(executions=40, runs=60, jitter=0.02))
    measured = synchronise(found.log, found.executions, found.pairs)
    begun = np.unique(measured.executions["run_start_ns"])
    since_us = (
        measured.times_ns - begun[np.searchsorted(begun, measured.times_ns).clip(1) - 1]
    ) / 1e3
    falling = measured.power_w.mul(1 - 0.2 * np.clip(since_us / 4800, 0, 1), axis=0)
    result = profile_kernel(
        replace(measured, power_w=falling), window_us=1000, components=["total"], replicates=1
    )
    throttling = result.components["total"].throttling
    assert (throttling.found, throttling.fall_percent > 8) == (False, True)


def test_the_window_may_be_left_out(measured: Measured) -> None:
    result = profile_kernel(measured, components=["total"], replicates=1)
    assert result.window_us == pytest.approx(1000, rel=0.01)
    assert result.components["total"].deconvolved is None
    assert result.notes[0] == remark("power-window-assumed", window_us=result.window_us)


@pytest.mark.parametrize(("lost", "told"), [(slice(0, 0), []), (slice(None, None, 3), [1 / 3])])
def test_a_log_that_lacks_readings_says_so(
    measured: Measured, lost: slice, told: list[float]
) -> None:
    kept = np.delete(np.arange(len(measured.times_ns)), lost)
    fewer = replace(
        measured,
        times_ns=measured.times_ns[kept],
        gpu_ns=measured.gpu_ns[kept],
        extrapolated=measured.extrapolated[kept],
        power_w=measured.power_w.iloc[kept].reset_index(drop=True),
    )
    result = profile_kernel(fewer, window_us=1000, components=["total"], replicates=1)
    found = [
        dict(note.values)["share"] for note in result.notes if note.code == "power-log-incomplete"
    ]
    assert found == pytest.approx(told, abs=0.05)


def test_readings_that_are_not_of_the_kernel_are_told(
    measured: Measured, profile: KernelPower
) -> None:
    """Spikes, and a clock that jumps half-way, gave another power without a word."""
    assert "power-readings-scatter" not in codes(profile)
    spikes = measured.power_w.copy()
    spikes.iloc[::50] = 6553.5
    jumped = measured.times_ns + np.where(
        np.arange(len(measured.times_ns)) > len(measured.times_ns) // 2, 50e6, 0
    )
    for wrong in (replace(measured, power_w=spikes), replace(measured, times_ns=jumped)):
        found = profile_kernel(wrong, window_us=1000, within=MIDDLE, replicates=200)
        assert "power-readings-scatter" in codes(found)


def test_power_over_the_cap_is_told(measured: Measured, profile: KernelPower) -> None:
    power_w = profile.components["total"].ssp.mean_w
    for cap_w, told in ((power_w / 2, True), (power_w, False)):
        found = profile_kernel(measured, window_us=1000, within=MIDDLE, replicates=200, cap_w=cap_w)
        assert ("power-over-the-cap" in codes(found)) == told


def test_the_published_number_of_executions_may_fall_short() -> None:
    result, truth = profiled(Scenario(kernel_us=250, executions=4, warm=()))
    assert (result.ssp_execution, result.filled) == (4, pytest.approx(0.75, abs=0.01))
    before_run = pytest.approx(0.25, abs=0.01)
    assert result.notes[0] == remark(
        "power-window-not-filled", execution=4, before_run=before_run, filled_from=6
    )
    total, mean_w = result.components["total"], truth.power_w(PHASES).mean()
    # freed of what lies before the run
    assert total.energy.energy_j == pytest.approx(truth.energy_j(), rel=0.02)
    assert total.deconvolved is not None
    assert (
        total.ssp.mean_w
        < 0.93 * mean_w
        < 0.96 * mean_w
        < total.deconvolved.power_w.mean()
        < 1.04 * mean_w
    )


def test_too_few_executions_are_an_error() -> None:
    with pytest.raises(DataError, match=r"9 executions.*runs have 6"):
        profiled(Scenario(executions=6))
    with pytest.raises(DataError, match=r"[0-5] readings.*gemm"):
        profiled(Scenario(kernel_us=30, runs=20))


def test_pauses_are_noticed() -> None:
    result, _ = profiled(Scenario(gap_us=20))
    assert result.isolation == "isolated-with-pauses"
    assert result.notes[-1] == remark(
        "power-pauses-corrected", pauses=1 - result.alone, window_stated=True
    )


@pytest.mark.parametrize(("gap_us", "window_us"), [(20, 1000), (80, 1000), (20, 300)])
def test_energy_is_freed_of_pauses(gap_us: float, window_us: float) -> None:
    result, truth = profiled(Scenario(gap_us=gap_us, window_us=window_us, jitter=0.02))
    part = result.components["total"]
    assert part.ssp.mean_w < 0.97 * truth.power_w(PHASES).mean()
    assert part.energy.energy_j == pytest.approx(truth.energy_j(), rel=0.02)


def test_of_an_unknown_window_the_interval_holds_both_answers() -> None:
    scenario = Scenario(kernel_us=600, gap_us=60, jitter=0.02, executions=8)
    for window_us in (0, 1000):
        result, truth = profiled(replace(scenario, window_us=window_us), window_us=None)
        energy = result.components["total"].energy
        assert energy.lower_j < truth.energy_j() < energy.upper_j
        assert (
            remark("power-pauses-corrected", pauses=1 - result.alone, window_stated=False)
            in result.notes
        )


def test_without_readings_between_runs_energy_is_left_with_a_wider_interval(
    simulation: Simulation,
) -> None:
    rows = simulation.executions.copy()
    rows["end_ns"] -= (
        12_000  # of each 120 us: pauses within the runs, none between them that the log shows
    )
    measured = synchronise(simulation.log, rows, simulation.pairs)
    busy = np.ones(len(measured.times_ns), dtype=bool)
    busy[find_pauses(measured.times_ns, np.array([0]), measured.executions, 1e6).idle] = False
    busy_only = replace(
        measured,
        times_ns=measured.times_ns[busy],
        gpu_ns=measured.gpu_ns[busy],
        extrapolated=measured.extrapolated[busy],
        power_w=measured.power_w[busy].reset_index(drop=True),
    )
    known, unknown = (
        profile_kernel(one, components=["total"], window_us=1000, replicates=100)
        for one in (measured, busy_only)
    )
    low, high = unknown.components["total"].energy, known.components["total"].energy
    assert low.energy_j < 0.95 * high.energy_j < high.upper_j < low.upper_j
    assert unknown.notes[-1].code == "power-idle-unknown"


@pytest.fixture
def no_more_than_energy(monkeypatch: pytest.MonkeyPatch) -> None:
    """Leave out the spline and the window's removal, which take half of the time and which energy does not need."""
    monkeypatch.setattr(
        module, "spline", lambda phase, power_w, at: np.full(len(at), power_w.mean())
    )
    monkeypatch.setattr(module, "deconvolve", lambda *given, **options: None)


@pytest.mark.long
@pytest.mark.usefixtures("no_more_than_energy")
def test_energy_and_its_interval_hold_with_pauses() -> None:
    covered = []
    for gap_us in (0, 5):
        relative = []
        for seed in range(100, 115):
            result, truth = profiled(
                Scenario(gap_us=gap_us, jitter=0.02, seed=seed), replicates=200
            )
            energy, true = result.components["total"].energy, truth.energy_j()
            relative.append(energy.energy_j / true - 1)
            covered.append(energy.lower_j <= true <= energy.upper_j)
        assert abs(np.mean(relative)) < 0.01
    assert np.mean(covered) >= 0.8


def interleaved(simulation: Simulation) -> Measured:
    """Every second execution is of another kernel."""
    rows = simulation.executions.drop(columns="execution")
    names = np.where(np.arange(len(rows)) % 2, "copy", "gemm")
    rows = rows.assign(
        kernel=names, **{"class": np.where(names == "copy", "memory-bound", "compute-bound")}
    )
    return synchronise(simulation.log, rows, simulation.pairs)


def test_time_stamps_too_coarse_for_the_kernel_are_refused() -> None:
    found = simulate(Scenario(kernel_us=2500, window_us=0, period_us=10_000, runs=50, executions=8))
    log = found.log.assign(gpu_ns=found.log["gpu_ns"] // 1_000_000 * 1_000_000)
    refused = r"multiples of 1000 µs, over 1/10 of the kernel's 2\d\d\d µs: .* or time 4 launches back to back"
    with pytest.raises(DataError, match=refused):
        profile_kernel(synchronise(log, found.executions, found.pairs), window_us=0)
    fine = found.log.assign(gpu_ns=found.log["gpu_ns"] // 100_000 * 100_000)
    assert profile_kernel(
        synchronise(fine, found.executions, found.pairs),
        window_us=0,
        replicates=1,
        components=["total"],
    ).kernel_us == pytest.approx(2500, rel=0.03)


def test_a_kernel_too_short_for_a_published_margin_is_told(simulation: Simulation) -> None:
    rows = simulation.executions.copy()
    rows["end_ns"] = rows["start_ns"] + (rows["end_ns"] - rows["start_ns"]) // 6
    result = profile_kernel(
        synchronise(simulation.log, rows, simulation.pairs),
        components=["total"],
        window_us=0,
        replicates=1,
    )
    assert 19 < result.kernel_us < 21
    assert remark("power-margin-assumed", margin=0.05, shortest_us=25) in result.notes


def test_interleaved_kernels_are_told(simulation: Simulation) -> None:
    mixed = interleaved(simulation)
    with pytest.raises(ParameterError, match="kernel"):
        profile_kernel(mixed)
    result = profile_kernel(mixed, "copy", components=["total"], window_us=1000, replicates=1)
    assert (result.kernel, result.facts.bound, result.isolation) == (
        "copy",
        "memory-bound",
        "interleaved",
    )
    assert result.others == pytest.approx(0.5, abs=0.05)
    assert result.notes[0] == remark("power-of-mixture", others=result.others)
    energy = result.components["total"].energy
    assert np.isnan([energy.energy_j, energy.lower_j, energy.upper_j]).all()
    assert result.components["total"].deconvolved is None


def test_paths_may_be_texts_and_profiles_are_shown_as_rows(
    simulation: Simulation, tmp_path: Path
) -> None:
    names = [str(tmp_path / f"{name}.csv") for name in ("log", "executions", "clocks")]
    for name, table in zip(
        names, (simulation.log, simulation.executions, simulation.pairs), strict=True
    ):
        table.to_csv(name, index=False)
    found = profile_files(*names, window_us=1000, component=["total"])
    assert len(repr(found).splitlines()) == 3
    assert repr(found).startswith("<PowerProfiles of 1 kernel>")


def test_columns_of_tables_made_by_hand_are_named_by_the_user(
    simulation: Simulation, tmp_path: Path
) -> None:
    names = [str(tmp_path / f"{name}.csv") for name in ("log", "executions", "clocks")]
    own = (
        simulation.log.rename(columns={"power_w": "Watts", "gpu_ns": "ticks"}),
        simulation.executions.rename(columns={"kernel": "what"}),
        simulation.pairs,
    )
    for name, table in zip(names, own, strict=True):
        table.to_csv(name, index=False)
    given = {"Watts": "power_w", "ticks": "gpu_ns", "what": "kernel"}
    found = profile_files(*names, window_us=1000, component=["total"], rename=given)
    assert [one.kernel for one in found.kernels] == [simulation.executions["kernel"].iloc[0]]
    with pytest.raises(ParameterError, match=r"no table has a column 'Wats'.*did you mean Watts"):
        profile_files(*names, rename={"Wats": "power_w"})
    with pytest.raises(ParameterError, match="no column here is called 'pwer'"):
        profile_files(*names, rename={"Watts": "pwer"})


def test_unknown_names(measured: Measured) -> None:
    with pytest.raises(ParameterError, match=r"kernel.*'conv'"):
        profile_kernel(measured, "conv")
    with pytest.raises(ParameterError, match="'soc'"):
        profile_kernel(measured, components=["soc"])


def test_a_kernel_is_of_one_class(simulation: Simulation) -> None:
    rows = simulation.executions
    half = np.where(rows["run"] < 100, "compute-bound", "communication")
    measured = synchronise(simulation.log, rows.assign(**{"class": half}), simulation.pairs)
    with pytest.raises(DataError, match="both compute-bound and communication"):
        profile_kernel(measured, components=["total"], replicates=1)


def test_extrapolation_is_told(simulation: Simulation) -> None:
    measured = synchronise(simulation.log, simulation.executions, simulation.pairs.head(150))
    result = profile_kernel(measured, components=["total"], window_us=1000, replicates=1)
    assert "power-times-extrapolated" in codes(result)
    few = synchronise(simulation.log, simulation.executions, simulation.pairs.head(3))
    told = profile_kernel(few, components=["total"], window_us=1000, replicates=1)
    assert "power-drift-unsure" in codes(told)
    single = synchronise(simulation.log, simulation.executions, simulation.pairs.head(1))
    alone = profile_kernel(single, components=["total"], window_us=1000, replicates=1)
    assert codes(alone)[-1] == "power-drift-unknown"


def test_the_same_tables_give_the_same_profile(measured: Measured, profile: KernelPower) -> None:
    again = profile_kernel(measured, window_us=1000, within=MIDDLE, replicates=200)
    for name, part in again.components.items():
        assert part.energy == profile.components[name].energy
        pd.testing.assert_frame_equal(part.ssp.readings, profile.components[name].ssp.readings)


@pytest.mark.long
@pytest.mark.usefixtures("no_more_than_energy")
def test_the_figures_hold_over_seeds() -> None:
    errors, energies = [], []
    for seed in range(12):
        result, truth = profiled(replace(Scenario(), seed=seed), replicates=1)
        total = result.components["total"]
        errors.append(rms_percent(total.ssp.polynomial_w, truth.averaged_w(PHASES)))
        energies.append(100 * abs(total.energy.energy_j / truth.energy_j() - 1))
    assert max(errors) < 3
    assert max(energies) < 2


def test_a_row_per_kernel_and_component(profile: KernelPower) -> None:
    other = replace(profile, kernel="copy", facts=Facts("memory-bound"))
    found = compare([profile, other])
    assert found["kernel"].tolist() == ["gemm"] * 4 + ["copy"] * 4
    assert found["component"].tolist() == ["total", "xcd", "iod", "hbm"] * 2
    shares = found.set_index(["kernel", "component"])["share"]["gemm"]
    assert shares["total"] == 1
    assert shares["xcd"] + shares["iod"] + shares["hbm"] == pytest.approx(1, abs=0.02)
    assert (found["ssp_w"] <= found["peak_w"]).all()
    assert (found["ssp_w"] < found["p99_w"]).all()  # the tail of the readings is above their mean
    assert (found["sse_error_percent"] < -30).all()


def test_no_total_no_shares(profile: KernelPower) -> None:
    parts = {name: part for name, part in profile.components.items() if name != "total"}
    assert compare([replace(profile, components=parts)])["share"].isna().all()


def test_classes_are_means_over_kernels(profile: KernelPower) -> None:
    kernels = [
        replace(profile, kernel=name, facts=Facts(label))
        for name, label in (("a", "x"), ("b", "x"), ("c", ""))
    ]
    found = compare_classes(compare(kernels))
    assert found["kernels"].tolist() == [2] * 4
    assert found["ssp_w"][0] == pytest.approx(profile.components["total"].ssp.mean_w)
    assert compare_classes(compare([profile])).empty


def test_executions_are_counted_from_one_which_is_said_before_a_file_is_read() -> None:
    with pytest.raises(ParameterError, match="got 0"):
        profile_files(Path("none.csv"), Path("none.csv"), execution=0)


def test_executions_may_state_from_where_power_is_steady(simulation: Simulation) -> None:
    found = [
        profile_kernel(
            synchronise(simulation.log, simulation.executions.assign(steady_from=first), simulation.pairs),
            window_us=0, within=MIDDLE, components=["total"], replicates=1,
        ).ssp_execution
        for first in (1, 9)
    ]  # fmt: skip
    assert found == [4, 9]
    with pytest.raises(DataError, match="steady_from"):
        synchronise(simulation.log, simulation.executions.assign(steady_from=0), simulation.pairs)


def test_power_over_the_whole_run_rises_while_the_window_fills(
    measured: Measured, profile: KernelPower
) -> None:
    told = profile.components["total"].by_execution
    assert (
        told["readings"].sum()
        == len(profile.components["total"].run)
        > len(profile.components["total"].ssp.readings)
    )
    assert told["execution"].tolist() == sorted(told["execution"])
    before = told["mean_w"][told["start_us"] < profile.window_us - profile.kernel_us].to_numpy()
    after = told["mean_w"][told["start_us"] > profile.window_us].to_numpy()
    assert (np.diff(before) > 0).all()  # the rest before a run leaves the window
    assert after == pytest.approx(profile.components["total"].ssp.mean_w, rel=0.03)


def test_each_step_left_out_changes_the_profile(measured: Measured, simulation: Simulation) -> None:
    found = without_steps(
        measured, "gemm", window_us=1000, within=MIDDLE, components=["total"], replicates=10
    )
    truth = simulation.truth.averaged_w(PHASES)
    whole = profile_kernel(
        measured, window_us=1000, within=MIDDLE, components=["total"], replicates=10
    )
    off = {"everything": rms_percent(whole.components["total"].ssp.polynomial_w, truth)}
    for case, one in found.items():
        assert isinstance(one, KernelPower)
        off[case] = rms_percent(one.components["total"].ssp.polynomial_w, truth)
    assert off["everything"] < min(off["without binning"], off["50 runs"])
    assert off["without synchronisation"] > 10 * off["everything"]
    few = found["50 runs"]
    assert isinstance(few, KernelPower)
    assert len(few.runs.table) == 50
    short = replace(measured, executions=measured.executions[measured.executions["run"] < 5])
    told = without_steps(short, "gemm", window_us=1000, replicates=10)
    assert isinstance(told["50 runs"], DataError)

"""Recording power on the simulated GPU: what is written, what it is worth, and how a stopped recording goes on."""

from __future__ import annotations

import json
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import numpy as np
import pandas as pd
import pytest

from flopcast.errors import DataError, ParameterError
from flopcast.measuring import power_recording as module
from flopcast.measuring.power_recording import (
    FILES,
    PROBES,
    Recorded,
    _Probes,
    measured_lag_us,
    record,
)
from flopcast.measuring.power_rigs import DRIFT, EPOCH_NS, LAG_US, OFFSET_NS, SimulatedGPU, Train
from flopcast.measuring.rows import read_shapes
from flopcast.measuring.session import journal_folder
from flopcast.power.lessons import learn
from flopcast.power.profile import KernelPower, profile_files
from flopcast.power.readings import check_executions
from flopcast.power.runs import AFTER, plan, read_share
from flopcast.report.power import record_document
from flopcast.traces.cleaning.binning import EACH_OTHER, MIDDLE

SIZES = (2048, 4096, 8192)


def gemms(folder: Path, *sizes: int) -> Path:
    """Write a list of square GEMMs."""
    path = folder / "kernels.csv"
    pd.DataFrame({"op": "gemm", "dtype_a": "bf16", "m": sizes, "n": sizes, "k": sizes}).to_csv(
        path, index=False
    )
    return path


@pytest.fixture(scope="module")
def recorded(tmp_path_factory: pytest.TempPathFactory) -> Recorded:
    folder = tmp_path_factory.mktemp("recorded")
    return record(gemms(folder, *SIZES), out=folder / "out", seed=2)


def profiled(found: Recorded, within: str) -> list[KernelPower]:
    log, executions, clocks, _ = found.files
    return profile_files(log, executions, clocks, component=["total"], within=within).kernels


@pytest.fixture(scope="module")
def kernels(recorded: Recorded) -> list[KernelPower]:
    return profiled(recorded, EACH_OTHER)


def truths(found: Recorded) -> list[float]:
    """Return the true steady power of each kernel."""
    gpu, watts = SimulatedGPU(found.interval_us, 0), []
    for row in read_shapes(found.out.parent / "kernels.csv").rows:
        gpu.use((row, 1))
        watts.append(gpu.steady_w)
    return watts


def test_errors_of_execution_power_fall_with_the_kernels_time_as_published(
    kernels: list[KernelPower],
) -> None:
    errors = [abs(one.components["total"].sse_error_percent) for one in kernels]
    assert errors == pytest.approx([80, 36, 20], abs=4)  # FinGraV: GEMMs of 2048, 4096 and 8192


def test_steady_power_is_that_of_the_simulated_gpu(
    recorded: Recorded, kernels: list[KernelPower]
) -> None:
    found = [one.components["total"].ssp.mean_w for one in kernels]
    errors = np.abs(np.array(found) / truths(recorded) - 1)
    assert np.median(errors) < 0.005
    assert errors.max() < 0.01


def test_each_kernel_is_recorded_as_its_time_asks(
    recorded: Recorded, kernels: list[KernelPower]
) -> None:
    assert [one.runs for one in recorded.protocols] == [400, 200, 200]
    assert [one.kernel_us for one in recorded.protocols] == pytest.approx(
        [one.kernel_us for one in kernels], rel=0.05
    )
    assert [one.steady_from for one in recorded.protocols] == [one.ssp_execution for one in kernels]
    for one in recorded.protocols:
        assert one.executions > one.steady_from > recorded.plans[one.row].executions_filled
    told = json.loads((recorded.out / "record.json").read_text())
    assert [one["executions"] for one in told["kernels"]] == [
        one.executions for one in recorded.protocols
    ]
    assert sorted(path.name for path in recorded.out.iterdir()) == sorted(FILES)


def test_a_kernel_is_recorded_as_often_as_its_plan_says(recorded: Recorded) -> None:
    for one, chosen in zip(recorded.protocols, recorded.plans, strict=True):
        assert one.lag_us == pytest.approx(LAG_US, rel=0.06)
        assert chosen == plan(one.kernel_us, 1000, lag_us=one.lag_us, settling_us=one.settling_us)
        assert (one.steady_from, one.executions) == (chosen.steady_from, chosen.executions)
        assert one.planned == one.executions
        by_true_lag = plan(one.kernel_us, 1000, lag_us=LAG_US, settling_us=one.settling_us)
        assert one.executions == pytest.approx(by_true_lag.executions, rel=0.05)
    assert [one.settling_us > 0 for one in recorded.protocols] == [False, False, True]


def test_the_longest_train_that_does_not_throttle_is_found(
    recorded: Recorded, kernels: list[KernelPower]
) -> None:
    assert [one.unthrottled is None for one in recorded.protocols] == [True, True, False]
    limit = recorded.protocols[2].unthrottled
    assert limit is not None
    assert 4 <= limit < recorded.protocols[2].steady_from
    assert [one.components["total"].throttling.found for one in kernels] == [False, False, True]


@pytest.fixture(scope="module")
def whole(tmp_path_factory: pytest.TempPathFactory) -> Recorded:
    folder = tmp_path_factory.mktemp("whole")
    return record(gemms(folder, 4096, 8192), out=folder / "out", runs=20, seed=1)


def killed_at(calls: int) -> Callable[..., Train]:
    """Return what runs trains until Ctrl-C is pressed in one."""
    left, train = [calls], SimulatedGPU.train

    def killed(gpu: SimulatedGPU, executions: int, pause_us: float, key: tuple[int, ...]) -> Train:
        left[0] -= 1
        if not left[0]:
            raise KeyboardInterrupt
        return train(gpu, executions, pause_us, key)

    return killed


@pytest.mark.parametrize("calls", [3, 200])
def test_a_recording_that_was_killed_goes_on(
    whole: Recorded, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, calls: int
) -> None:
    listed = gemms(tmp_path, 4096, 8192)
    monkeypatch.setattr(SimulatedGPU, "train", killed_at(calls))
    with pytest.raises(KeyboardInterrupt):
        record(listed, out=tmp_path / "out", runs=20, seed=1)
    monkeypatch.undo()
    journal = journal_folder(tmp_path / "out")
    with (journal / "visits.jsonl").open("a") as file:
        # what was being written when it was killed
        file.write('[{"row": 0, "executions": [[17000000')
    with pytest.raises(DataError, match="other seed"):
        record(listed, out=tmp_path / "out", runs=20, seed=2)
    found = record(listed, out=tmp_path / "out", runs=20, seed=1)
    assert replace(found, out=whole.out, resumed=0) == whole
    assert not journal.exists()
    for name in FILES:
        assert (tmp_path / "out" / name).read_bytes() == (whole.out / name).read_bytes()


class OnCpuClock(SimulatedGPU):
    """A logger that stamps its readings by the CPU's clock, as those of real GPUs are."""

    def train(self, executions: int, pause_us: float, key: tuple[int, ...]) -> Train:
        told = super().train(executions, pause_us, key)
        readings = [
            (EPOCH_NS + round((stamp - EPOCH_NS - OFFSET_NS) / (1 + DRIFT)), watts)
            for stamp, watts in told.readings
        ]
        return Train(told.executions, readings, [])


def test_a_log_on_the_clock_of_the_cpu_needs_no_clock_pairs(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    listed, out = gemms(tmp_path, 8192), tmp_path / "out"
    assert record(listed, out=out, runs=2).clocks  # whose clock pairs must not stay
    monkeypatch.setattr(module, "_rig", lambda *asked: (OnCpuClock(1000.0, 0), {}))
    found = record(listed, out=out, logger="amd-smi", window_us=1000.0, runs=50)
    assert (found.clocks, [path.name for path in found.files]) == (
        False,
        ["log.csv", "executions.csv", "record.json"],
    )
    assert not (out / "clocks.csv").exists()
    (kernel,) = profile_files(*found.files[:2], within=MIDDLE).kernels
    assert kernel.components["total"].ssp.mean_w == pytest.approx(750, rel=0.01)


def test_kernels_below_the_published_table_are_timed_several_at_once(tmp_path: Path) -> None:
    (found,) = record(gemms(tmp_path, 512), out=tmp_path / "out", runs=3).protocols
    assert found.repeats > 1
    assert found.kernel_us >= 20
    assert found.runs == 3


def no_search(patch: pytest.MonkeyPatch) -> None:
    """Let no trains be probed: none throttles, the lag is that of the simulated GPU, and runs are some longer."""
    patch.setattr(module._Probes, "unthrottled", lambda probes: None)
    patch.setattr(module._Probes, "settled", lambda probes, planned: planned + 5)
    patch.setattr(module._Course, "_lag_us", lambda course, place, until_us: LAG_US)


def test_without_a_list_the_published_kernels_are_recorded_with_their_class(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    no_search(monkeypatch)
    found = record(None, out=tmp_path / "out", runs=1)
    kernels = (
        check_executions(pd.read_csv(found.out / "executions.csv"))
        .groupby("kernel", sort=False)
        .first()
    )
    assert len(kernels) == 14
    assert (
        kernels["class"].tolist() == ["compute-bound", "memory-bound"] * 3 + ["communication"] * 8
    )
    assert kernels["flops"].iloc[:2].tolist() == [2 * 8192**3, 2 * 8192**2]
    assert kernels["balance"].iloc[0] == pytest.approx(1307.4e3 / 5300, rel=0.01)
    sides = kernels[["bytes", "collective", "launches"]].iloc[-4:]
    assert sides["bytes"].tolist() == [2**16, 2**17, 2**29, 2**30]
    assert (sides["collective"].nunique(), sides["launches"].tolist()) == (1, [2, 2, 1, 1])
    log = pd.read_csv(found.out / "log.csv").pivot_table(
        index="gpu_ns", columns="component", values="power_w"
    )
    assert log[["xcd", "iod", "hbm"]].sum(axis=1).to_numpy() == pytest.approx(
        log["total"].to_numpy(), rel=0.06
    )


def test_kernels_that_run_in_turn_are_compared_with_themselves_alone(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    no_search(monkeypatch)
    listed, asked = tmp_path / "kernels.csv", {"runs": 150, "interleaved": True}
    pd.DataFrame({"op": "gemm", "dtype_a": "bf16", "m": 8192, "n": [8192, 1], "k": 8192}).to_csv(
        listed, index=False
    )
    train = SimulatedGPU.train
    monkeypatch.setattr(SimulatedGPU, "train", killed_at(330))  # when all run in turn
    with pytest.raises(KeyboardInterrupt):
        record(listed, out=tmp_path / "out", **asked)
    monkeypatch.setattr(SimulatedGPU, "train", train)
    found = record(listed, out=tmp_path / "out", **asked)
    assert (len(found.protocols), found.resumed) == (3, 314)
    alone = [one.kernel_us for one in found.protocols[:2]]
    assert found.protocols[2].kernel_us == pytest.approx(sum(alone), rel=0.05)
    log, executions, clocks, _ = found.files
    learnt = learn(
        profile_files(log, executions, clocks, component=["total"], window_us=1000).kernels
    )
    assert len(learnt.kernels) == 4
    ratios = learnt.interleaved.set_index("kernel")
    assert ratios["time_ratio"].to_numpy() == pytest.approx(1, abs=0.03)
    assert ratios["power_ratio"].iloc[1] > 2  # the window sees the long kernel's power
    with pytest.raises(ParameterError, match="interleaved"):
        record(gemms(tmp_path, 4096), out=tmp_path / "one", interleaved=True)


def test_a_kernel_is_compared_by_the_kernel_before_it(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    no_search(monkeypatch)
    listed = tmp_path / "kernels.csv"
    sizes = {"m": [8192, 8192, 4096], "n": [8192, 1, 4096], "k": [8192, 8192, 4096]}
    pd.DataFrame({"op": "gemm", "dtype_a": "bf16", **sizes}).to_csv(listed, index=False)
    found = record(listed, out=tmp_path / "out", runs=150, sequence=[(1, 2), (3, 2)])
    log, executions, clocks, _ = found.files
    profiles = profile_files(log, executions, clocks, component=["total"], window_us=1000)
    ratios = learn(profiles.kernels).interleaved.set_index(["kernel", "how"])["power_ratio"]
    long, short, middle = (one.kernel for one in found.protocols[:3])
    after = ratios[short]
    assert set(after.index) == {f"after {long}", f"after {middle}"}
    assert pd.read_csv(log)["limit_w"].unique().tolist() == [750]
    lower = tmp_path / "lower.csv"  # no power of the long product lies above what its log states
    pd.read_csv(log).assign(limit_w=700).to_csv(lower, index=False)
    (bound,) = profile_files(
        lower, executions, clocks, kernel=long, component=["total"], window_us=1000
    ).kernels
    curve = bound.components["total"].deconvolved
    assert curve is not None
    assert curve.power_w.max() == pytest.approx(700, rel=1e-6)
    assert any(one.code == "power-at-the-cap" for one in bound.notes)
    of = {one.kernel: one.components["total"].ssp.mean_w for one in profiles.kernels}
    # longer than the window
    assert after[f"after {long}"] * of[short] == pytest.approx(of[long], rel=0.05)
    assert of[short] < after[f"after {middle}"] * of[short] < of[middle]  # it sees both
    assert ratios[middle].index.tolist() == ["interleaved"]


@pytest.mark.parametrize(
    ("wrong", "said"),
    [
        ({"sequence": [(1, 2)]}, "kernels 1 to 1"),
        ({"logger": "ipmi"}, "logger"),
        ({"window_us": 0.0}, "window_us"),
        ({"runs": 0}, "runs"),
        ({"device": "cuda:0"}, "device"),
    ],
)
def test_a_parameter_out_of_its_range(tmp_path: Path, wrong: dict[str, object], said: str) -> None:
    with pytest.raises(ParameterError, match=said):
        record(gemms(tmp_path, 4096), out=tmp_path / "out", **wrong)  # type: ignore[arg-type]


def readings(power_w: Callable[[int], float], noise: float = 0.01) -> Callable[[int], np.ndarray]:
    """Return readings at the end of trains whose power follows their length."""
    rng = np.random.default_rng(0)
    return lambda executions: power_w(executions) * (1 + rng.normal(0, noise, PROBES))


@pytest.mark.parametrize("fall", [5, 37, 99])
def test_a_fall_of_power_is_found_where_it_is(fall: int) -> None:
    probes = _Probes(readings(lambda count: 900.0 if count <= fall else 750.0), 5, 100)
    assert probes.unthrottled() == fall
    assert probes.settled(5) == fall + 1


def test_a_rise_is_waited_for_and_is_no_throttling() -> None:
    probes = _Probes(readings(lambda count: 700 * (1 - np.exp(-count / 10)), 0.002), 4, 200)
    assert probes.unthrottled() is None
    assert 35 < probes.settled(10) < 60
    assert probes.settled(80) == 80  # as planned: it is steady
    assert probes.settled(300) == 300  # longer than any that is searched
    assert _Probes(readings(lambda count: 600.0), 4, 200).settled(4) == 4


def test_power_that_rises_and_falls_back_to_where_it_was_throttles() -> None:
    ends = readings(lambda count: 700.0 if count < 10 else 900.0 if count <= 60 else 700.0, 0.002)
    assert _Probes(ends, 4, 100).unthrottled() == 60


def test_a_logger_too_slow_for_the_search() -> None:
    with pytest.raises(DataError, match="too seldom"):
        _Probes(lambda count: np.array([500.0]), 4, 100).unthrottled()


@pytest.mark.parametrize("lag_us", [50.0, 400.0, 5000.0])
def test_a_lag_is_measured_from_how_power_rises(lag_us: float) -> None:
    rng = np.random.default_rng(0)
    since_us = rng.uniform(0, 40_000, 2000)
    watts = 100 + 500 * read_share(since_us, 1000, lag_us)
    # some are slower
    watts = np.where(rng.random(2000) < 0.1, 0.7 * watts, watts) * (1 + rng.normal(0, 0.01, 2000))
    assert measured_lag_us(since_us, watts, 1000) == pytest.approx(lag_us, rel=0.2)


def test_power_that_does_not_rise_tells_no_lag() -> None:
    rng = np.random.default_rng(0)
    level = 500 * (1 + rng.normal(0, 0.01, 200))
    assert measured_lag_us(rng.uniform(0, 40_000, 200), level, 1000) is None
    assert measured_lag_us(np.arange(5.0), np.arange(5.0), 1000) is None


def test_power_that_settles_later_than_planned_is_searched_for_and_said(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(module, "measured_lag_us", lambda *readings: 1.0)
    found = record(gemms(tmp_path, 2048), out=tmp_path / "out", runs=1)
    (one,) = found.protocols
    assert one.planned == found.plans[0].executions
    later = one.executions - one.planned
    assert later > 0
    assert one.steady_from > found.plans[0].steady_from
    assert one.executions == one.steady_from + AFTER
    (said,) = [
        line.text
        for line in record_document(found).closing[0].lines
        if "more than planned" in line.text
    ]
    assert str(later) in said


@pytest.mark.parametrize(
    ("head", "cells", "said"),
    [
        ("op,dtype_a,m,n,k", "512,512,512", "repeats"),
        ("op,dtype_a,m,n,k", "512,,512", "csv:3"),
        ("op,dtyp,m,n,k", "512,512,64", "dtyp"),
        ("op,dtype_a,m,n,k,colour", "512,512,64,blue", "colour"),
    ],
)
def test_a_kernel_that_would_not_be_recorded_is_told_before(
    tmp_path: Path, head: str, cells: str, said: str
) -> None:
    text = f"{head}\ngemm,bf16,512,512,512{',red' if 'colour' in head else ''}\ngemm,bf16,{cells}\n"
    (tmp_path / "kernels.csv").write_text(text)
    with pytest.raises(DataError, match=said):
        record(tmp_path / "kernels.csv", out=tmp_path / "out")
    assert not (tmp_path / "out").exists()


def test_a_kernel_may_run_several_times_before_the_next(tmp_path: Path) -> None:
    listed = tmp_path / "kernels.csv"
    pd.DataFrame(
        {"op": "gemm", "dtype_a": "bf16", "m": [2048, 4096], "n": [2048, 4096], "k": [2048, 4096]}
    ).to_csv(listed, index=False)
    found = record(listed, out=tmp_path / "out", runs=2, sequence=[[1, 1, 1, 2]])
    assert found.protocols[2].kernel == "3*1, 2 in turn"
    rows = pd.read_csv(found.files[1])
    turns = rows[rows["run"] == rows["run"].max()]
    first, second = turns["kernel"].unique()
    assert turns["kernel"].tolist() == [first, first, first, second] * found.protocols[2].executions
    assert turns.loc[turns["kernel"] == first, "execution"].tolist() == [
        *range(1, 3 * len(turns) // 4 + 1)
    ]
    steady = turns.groupby("kernel")["steady_from"].first()
    assert steady[first] == 3 * (steady[second] - 1) + 1
    check_executions(rows)
    with pytest.raises(ParameterError, match=r"got 2\*1,2,1"):
        record(listed, out=tmp_path / "other", sequence=[[1, 1, 2, 1]])

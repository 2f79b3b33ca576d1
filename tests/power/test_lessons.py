"""What several kernels teach: cases whose answer is known."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

import numpy as np
import pandas as pd
import pytest

from flopcast.benchmarks.power_simulator import Simulation
from flopcast.power.lessons import Lessons, learn
from flopcast.power.profile import KernelPower
from flopcast.power.readings import Facts
from flopcast.power.runs import apart, group_runs

NOTHING = Facts()
Made = Callable[..., KernelPower]


@pytest.fixture
def made(profile: KernelPower) -> Made:
    """Return what makes a profile of a kernel that draws so many watts of each component."""

    def kernel(
        name: str, kernel_us: float = 100.0, facts: Facts = NOTHING, **watts: float
    ) -> KernelPower:
        parts = {}
        for component, level in watts.items():
            part = profile.components[component]
            curve = replace(part.ssp, polynomial_w=np.full(100, level))
            energy = replace(part.energy, energy_j=level * kernel_us * 1e-6)
            parts[component] = replace(part, component=component, ssp=curve, energy=energy)
        return replace(profile, kernel=name, kernel_us=kernel_us, facts=facts, components=parts)

    return kernel


def collectives(made: Made, times_us: dict[int, float], launches: int = 1) -> Lessons:
    sizes = [
        made(
            f"{size}",
            launches * time,
            Facts(bytes=size, launches=launches, collective="all_reduce"),
            total=200.0,
        )
        for size, time in times_us.items()
    ]
    return learn(sizes)


def test_a_collective_whose_time_does_not_grow_is_bound_by_latency(made: Made) -> None:
    found = collectives(
        made, {size: 20 + size / 2e5 for size in (2**16, 2**17, 2**29, 2**30)}, launches=2
    )
    assert found.kernels["bound"].tolist() == ["latency-bound"] * 2 + ["bandwidth-bound"] * 2
    (row,) = found.collectives.to_dict("records")
    assert (row["latency_us"], row["bandwidth_gbs"]) == (pytest.approx(20), pytest.approx(200))
    assert row["half_bytes"] == pytest.approx(4e6)
    assert found.kernels["growth"].iloc[0] == pytest.approx(2**16 / (2**16 + 4e6))


def test_two_sizes_tell_and_one_does_not(made: Made) -> None:
    flat, steep = (
        collectives(made, {2**16: 20.0, 2**17: 19.9}),
        collectives(made, {2**29: 2000.0, 2**30: 4000.0}),
    )
    assert flat.kernels["bound"].tolist() == ["latency-bound"] * 2
    assert steep.kernels["bound"].tolist() == ["bandwidth-bound"] * 2
    alone = collectives(made, {2**16: 20.0})
    assert (alone.kernels["bound"].tolist(), len(alone.collectives)) == (["communication"], 0)


def test_the_dominant_component_and_achieved_throughput(made: Made) -> None:
    facts = Facts(flops=1e12, bytes=1e9, balance=250, launches=3)
    (row,) = learn([made("gemm", 6000.0, facts, total=500.0, xcd=300.0, hbm=80.0)]).kernels.to_dict(
        "records"
    )
    assert (row["bound"], row["dominant"], row["dominant_share"]) == ("compute-bound", "xcd", 0.6)
    assert (row["flops_per_byte"], row["tflops"]) == (1000, pytest.approx(500))
    (row,) = learn([made("gemm", total=500.0)]).kernels.to_dict("records")
    assert (row["bound"], row["dominant"]) == ("", "")


def test_the_component_whose_power_follows_throughput(made: Made) -> None:
    kernels = [
        made(
            f"{tflops}",
            1.0,
            Facts(flops=1e6 * tflops),
            xcd=100 + 0.5 * tflops,
            hbm=200 - 20 * (at % 2),
        )
        for at, tflops in enumerate((10, 200, 390, 600))
    ]
    found = learn([*kernels, made("copy", xcd=10.0, hbm=10.0)]).throughput.set_index("component")
    assert found["follows"].to_dict() == {"xcd": True, "hbm": False}
    assert found.loc[
        "xcd", ["kernels", "slope_w", "rest_w", "correlation"]
    ].tolist() == pytest.approx([4, 0.5, 100, 1])
    assert learn(kernels[:2]).throughput.empty


def test_kernels_that_load_different_components_complement_each_other(made: Made) -> None:
    kernels = [
        made("gemm", total=600.0, xcd=500.0, hbm=50.0),
        made("copy", total=300.0, xcd=100.0, hbm=200.0),
        made("both", total=700.0, xcd=480.0, hbm=200.0),
        made("idle", total=80.0, xcd=20.0, hbm=10.0),  # leaves room, but loads nothing
    ]
    (pair,) = learn(kernels).complements.to_dict("records")
    assert (pair["kernel"], pair["peak"], pair["other"], pair["other_peak"]) == (
        "gemm",
        "xcd",
        "copy",
        "hbm",
    )
    assert (pair["busiest"], pair["together"]) == ("hbm", pytest.approx(1.25))
    assert learn([made("a", total=500.0), made("b", total=50.0)]).complements.empty
    silent = learn(
        [made("gemm", xcd=500.0, hbm=50.0, iod=0.0), made("copy", xcd=100.0, hbm=200.0, iod=0.0)]
    )
    assert len(silent.complements) == 1  # a component that never draws says nothing


def test_pairs_are_held_against_a_power_cap(made: Made) -> None:
    kernels = [
        made("gemm", total=600.0),
        made("copy", total=300.0),
        made("both", total=700.0),
        made("rest", total=90.0),
    ]
    found = learn(kernels, cap_w=850.0, idle_w=80.0).overlaps
    assert found[["kernel", "other", "power_w", "below"]].to_numpy().tolist() == [
        ["gemm", "copy", 820.0, True], ["both", "rest", 710.0, True], ["gemm", "rest", 610.0, True],
        ["copy", "rest", 310.0, True], ["copy", "both", 920.0, False], ["gemm", "both", 1220.0, False],
    ]  # fmt: skip
    assert found["headroom_w"].tolist() == [30, 140, 240, 540, -70, -370]
    assert learn(kernels).overlaps.empty


def test_a_kernel_among_others_is_compared_with_itself_alone(made: Made) -> None:
    among = made("gemm, interleaved", 110.0, Facts(isolated="gemm"), total=540.0)
    found = learn([made("gemm", 100.0, total=600.0), among])
    assert found.interleaved.to_numpy().tolist() == [
        ["gemm", "interleaved", 1.1, pytest.approx(0.9), pytest.approx(0.99)]
    ]
    assert learn([among]).interleaved.empty


def test_runs_alone_and_among_others_are_told_apart(simulation: Simulation) -> None:
    rows = simulation.executions.copy()
    rows.loc[rows["run"].lt(50) & rows["execution"].eq(2), "kernel"] = "copy"
    found = apart(group_runs(rows.drop(columns="execution")))
    assert found["kernel"].unique().tolist() == ["gemm, interleaved", "copy", "gemm"]
    assert found.loc[found["isolated"].eq("gemm"), "run"].max() == 49
    everywhere = rows.assign(kernel=np.where(rows["execution"].eq(2), "copy", "gemm"))
    assert set(apart(group_runs(everywhere))["kernel"]) == {"copy", "gemm"}
    pd.testing.assert_series_equal(
        apart(simulation.executions)["kernel"], simulation.executions["kernel"]
    )

from __future__ import annotations

import io
import json
from dataclasses import replace

import pandas as pd
import pytest
from rich.console import Console

from flopcast.benchmarks.power_simulator import Scenario, simulate
from flopcast.output import dumps
from flopcast.power.clocks import Clocks, fit_clocks, one_clock, synchronise
from flopcast.power.profile import KernelPower, profile_kernel
from flopcast.power.recording import plan
from flopcast.report.power import (
    clock_words,
    description,
    plan_json,
    plan_table,
    power_json,
    show_power,
)


@pytest.fixture(scope="module")
def kernel() -> tuple[KernelPower, Clocks]:
    found = simulate(Scenario(runs=120))
    rows = found.executions.assign(kernel="gemm[8k]", **{"class": "compute-bound"})
    measured = synchronise(found.log, rows, found.pairs)
    return profile_kernel(measured, components=["total", "hbm"], window_us=1000, replicates=50), measured.clocks


def shown(*parts: object) -> str:
    console = Console(file=io.StringIO(), width=120)
    for part in parts:
        console.print(part)
    return console.file.getvalue()  # type: ignore[attr-defined]


def test_the_protocol_is_printed_setting_by_setting() -> None:
    text = shown(plan_table(plan(120, 1000)))
    for words in (
        "kernel of 120 µs with a window of 1000 µs",
        "runs",
        "200",
        "±5 %",
        "12",
        "about 24 in one execution",
    ):
        assert words in text
    assert "no published row" in shown(plan_table(plan(10, 1000)))


def test_the_protocol_for_machines() -> None:
    found = plan_json(plan(120, 1000))
    assert (found["runs"], found["margin"], found["executions"], found["executions_filled"]) == (200, 0.05, 9, 10)
    below = json.loads(dumps(plan_json(plan(10, 1000)), missing=True))
    assert (below["runs"], below["margin"], below["logs"], below["repeats"]) == (None, None, None, 3)


def test_power_is_printed_with_how_it_was_measured(kernel: tuple[KernelPower, Clocks]) -> None:
    one, clocks = kernel
    console = Console(file=io.StringIO(), width=120)
    show_power(console, [one], clocks)
    text = console.file.getvalue()  # type: ignore[attr-defined]
    said = ("gemm[8k]", "compute-bound", "energy J [interval]", "By op-to-byte class", "golden runs of", "3,000.",
            "120 runs, 200", "SSE is execution 4, SSP from execution 9 on; isolated", "only its level")  # fmt: skip
    for words in said:
        assert words in text
    assert max(map(len, text.splitlines())) <= 120


def test_throttling_and_no_class_are_told(kernel: tuple[KernelPower, Clocks]) -> None:
    one, clocks = kernel
    part = one.components["total"]
    hot = replace(
        part, throttling=replace(part.throttling, found=True, peak_w=600.0, settled_w=540.0, peak_execution=3)
    )
    lines = list(description(replace(one, components={"total": hot})))
    assert "gemm[8k]: total throttles: it rises to 600 W at execution 3 and falls by 10.0 %" in lines
    console = Console(file=io.StringIO(), width=120)
    show_power(console, [replace(one, label="")], clocks)
    assert "op-to-byte" not in console.file.getvalue()  # type: ignore[attr-defined]


def test_clocks_in_words() -> None:
    pairs = pd.DataFrame({"gpu_ns": [5000, 10**9 + 5000], "cpu_ns": [0, 10**9], "delay_ns": [1000, 1000]})
    assert clock_words(fit_clocks(pairs)) == (
        "clocks: GPU − CPU 4.5 µs at the first of 2 pairs, drift +0.00 ± 0.41 ppm; reads took 1.00 µs or more"
    )
    assert "drift not known" in clock_words(fit_clocks(pairs.head(1)))
    assert clock_words(one_clock(0, 1)).endswith("no pairs were given")


def test_the_profile_for_machines(kernel: tuple[KernelPower, Clocks]) -> None:
    one, clocks = kernel
    found = json.loads(dumps(power_json([one], clocks, 0.9), missing=True))
    (profile,) = found["kernels"]
    assert found["clocks"]["drift_ppm"] == pytest.approx(50, abs=1)
    assert list(profile["components"]) == ["total", "hbm"]
    total = profile["components"]["total"]
    assert len(total["ssp"]["polynomial_w"]) == len(profile["phase"]) == 100
    assert len(total["ssp"]["readings"]["power_w"]) == found["compared"][0]["readings"]
    assert total["energy"]["lower_j"] < total["energy"]["energy_j"] < total["energy"]["upper_j"]
    assert len(profile["runs"]["list_removed"]) == sum(profile["runs"]["removed"].values())
    assert profile["runs"]["golden"] + len(profile["runs"]["list_removed"]) == 120
    assert [row["class"] for row in found["classes"]] == ["compute-bound"] * 2

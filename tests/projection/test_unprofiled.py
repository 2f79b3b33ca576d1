"""The profiler taken out of a trace: programs whose time without it is known."""

from __future__ import annotations

import json
from collections.abc import Sequence
from pathlib import Path

import pytest

import flopcast as fc
from flopcast.errors import DataError, ParameterError
from flopcast.hardware.constants import constant, constants_of
from flopcast.projection.unprofiled import usual
from flopcast.tests.commands import running
from flopcast.tests.readers.kineto.made_up import Event, event, kernel, launch, product, write

LATENCY_US = 6.0


def program(work_us: Sequence[float], kernel_us: float) -> list[Event]:
    """Return launches with so much work of the CPU before each, and the kernels: a queue without gaps."""
    events: list[Event] = []
    now, free = 0.0, 0.0
    for number, work in enumerate(work_us, 1):
        now += work
        begun = max(now + LATENCY_US, free)
        free = begun + kernel_us
        called = launch(now, number)
        events += [called, kernel(begun, number, kernel_us, "Cijk_Ailk_Bljk_BBS_BH_MT64x64x32")]
    return [event("user_annotation", "ProfilerStep#1", 0, free + 10), *events]


def span_us(events: Sequence[Event]) -> float:
    kernels = [one for one in events if one["cat"] == "kernel"]
    return max(one["ts"] + one["dur"] for one in kernels) - min(one["ts"] for one in kernels)


@pytest.fixture
def profiled(tmp_path: Path) -> Path:
    """Return a trace that the CPU paces: 40 µs before each of 50 kernels of 10 µs."""
    return write(tmp_path / "t.json", program([40.0] * 50, 10.0))


def taken_out(path: Path, unprofiled_us: float, **choices: object) -> fc.ProjectedTrace:
    found = fc.fidelity(path, unprofiled_us=unprofiled_us)
    return fc.project(path, target="MI355X", fidelity=found, **choices)


@pytest.mark.parametrize("kept", [0.9, 0.6, 0.4])
def test_the_host_takes_the_time_without_the_profiler(profiled: Path, kept: float) -> None:
    truth = span_us(program([40.0 * kept] * 50, 10.0))
    told = taken_out(profiled, truth).unprofiled
    assert told is not None
    assert told.host_us == pytest.approx(truth, rel=0.005)
    assert told.kept == pytest.approx(kept, rel=0.03)


def test_the_target_is_told_as_profiled_and_as_it_would_run(profiled: Path) -> None:
    as_profiled = fc.project(profiled, target="MI355X", cpu_speed=1.0)
    truth = span_us(program([20.0] * 50, 10.0))
    found = taken_out(profiled, truth, cpu_speed=1.0)
    assert found.unprofiled is not None
    assert found.unprofiled.profiled_us == pytest.approx(as_profiled.projected_us)
    assert found.projected_us == pytest.approx(truth, rel=0.02)
    assert found.measured_us == as_profiled.measured_us
    low, high = found.interval_us
    assert low < truth < high
    assert "profiler" in set(found.result.uncertainty.tornado["name"])


def test_what_the_statement_leaves_open_widens_the_interval(tmp_path: Path) -> None:
    """Where the GPU sets the pace nobody sees how much of the CPU's work is the profiler's."""
    slow = write(tmp_path / "t.json", program([20.0] * 50, 60.0))
    told = taken_out(slow, span_us(program([10.0] * 50, 60.0))).unprofiled
    assert told is not None
    assert told.sigma > 0.3
    sharp = write(tmp_path / "t.json", program([40.0] * 50, 2.0))
    clear = taken_out(sharp, span_us(program([20.0] * 50, 2.0))).unprofiled
    assert clear is not None
    assert clear.sigma < 0.05


def test_work_spread_unevenly_over_the_calls_is_less_sure(tmp_path: Path) -> None:
    """A tenth of the calls has most of the work: by call the profiler takes less of it than in proportion."""
    work = ([10.0] * 9 + [400.0]) * 6
    path = write(tmp_path / "t.json", program(work, 40.0))
    told = taken_out(path, 0.7 * span_us(program(work, 40.0))).unprofiled
    even = write(tmp_path / "even.json", program([49.0] * 60, 4.0))
    clear = taken_out(even, 0.7 * span_us(program([49.0] * 60, 4.0))).unprofiled
    assert told is not None
    assert clear is not None
    assert told.sigma > clear.sigma


def test_what_is_not_the_cpus_stays_and_is_said(tmp_path: Path) -> None:
    path = write(tmp_path / "t.json", program([5.0] * 50, 60.0))
    measured = span_us(program([5.0] * 50, 60.0))
    found = taken_out(path, 0.5 * measured)
    assert found.unprofiled is not None
    assert found.unprofiled.host_us == pytest.approx(measured, rel=0.03)
    assert any("profiler-lengthens-kernels" in note for note in found.notes)
    faster = taken_out(path, 1.2 * measured)
    assert any("profiler-adds-nothing" in note for note in faster.notes)


def test_a_usual_profiler_has_its_spread(profiled: Path) -> None:
    found = fc.project(profiled, target="MI355X", fidelity="torch-shapes")
    told, said = found.unprofiled, constant("profiler.torch-shapes")
    assert told is not None
    assert told.kept == pytest.approx(1 / said.value)
    assert told.sigma >= said.spread
    assert all(usual(name).slowdown > 1 for name in constants_of("profiler"))  # type: ignore[operator]


def test_a_trace_without_calls_is_refused(tmp_path: Path) -> None:
    kernels = [one for one in program([40.0] * 5, 10.0) if one["cat"] != "cuda_runtime"]
    path = write(tmp_path / "t.json", kernels)
    with pytest.raises(DataError, match="no calls of the CPU"):
        fc.project(path, target="MI355X", fidelity="torch")


def test_the_command_takes_the_json_of_fidelity(tmp_path: Path) -> None:
    events = product(1, 50, 100.0) + product(2, 50, 300.0)
    path = write(tmp_path / "t.json", events)
    told = tmp_path / "fidelity.json"
    given = ("--unprofiled-us", "200", "--steps-per-trace", "1", "--out", told)
    assert running.call("fidelity", path, *given).exit_code == 0
    result = running.call("project", path, "--target", "MI355X", "--fidelity", told, "--json")
    assert result.exit_code == 0, result.output
    (answer,) = json.loads(result.stdout)
    assert answer["unprofiled"]["host_us"] == pytest.approx(200, rel=0.01)
    assert answer["measured_us"] == 250
    shown = running.call("project", path, "--target", "MI355X", "--fidelity", told).output
    assert "as profiled" in shown
    assert "without the profiler" in shown


@pytest.mark.parametrize(
    ("text", "says"),
    [
        ('{"traces": []}', "no traces"),
        ("[]", "no traces"),
        ("{", "cannot be read"),
        ('{"traces": [], "unprofiled_us": null}', "no unprofiled time"),
        (
            '{"traces": [{"label": "x.json", "end_to_end_per_step_us": 9}], "unprofiled_us": 8}',
            "says nothing of t.json",
        ),
    ],
)
def test_what_is_no_outcome_of_fidelity_is_refused(
    profiled: Path, tmp_path: Path, text: str, says: str
) -> None:
    told = tmp_path / "fidelity.json"
    told.write_text(text)
    with pytest.raises(DataError, match=says):
        fc.project(profiled, target="MI355X", fidelity=told)
    with pytest.raises(ParameterError, match="torch"):
        fc.project(profiled, target="MI355X", fidelity="toch")

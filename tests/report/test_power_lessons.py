"""Kernels side by side: the section, its tables and the figure."""

from __future__ import annotations

from dataclasses import replace

import pytest

from flopcast.benchmarks.power_simulator import Scenario, simulate
from flopcast.power.clocks import synchronise
from flopcast.power.lessons import learn
from flopcast.power.profile import KernelPower, profile_kernel
from flopcast.power.readings import Facts
from flopcast.report.document import Figure, Table
from flopcast.report.power import lessons_section, side_by_side


@pytest.fixture(scope="module")
def kernels() -> list[KernelPower]:
    simulated = simulate(Scenario(runs=60))
    one = profile_kernel(
        synchronise(simulated.log, simulated.executions, simulated.pairs), replicates=2
    )
    facts = (
        Facts(flops=1e9, bytes=1e6, balance=250),
        Facts(flops=1e6, bytes=1e6, balance=250),
        Facts(bytes=1e3),
    )
    made = [
        replace(one, kernel=f"<i>{place}", kernel_us=30.0 + place, facts=each)
        for place, each in enumerate(facts)
    ]
    gone = replace(
        made[1], components={name: part for name, part in one.components.items() if name != "iod"}
    )
    return [made[0], gone, made[2], replace(made[0], kernel="a" * 60, facts=Facts(isolated="<i>0"))]


def test_each_kernel_has_a_bar_of_its_components_and_the_total_as_a_mark(
    kernels: list[KernelPower],
) -> None:
    figure = side_by_side(kernels)
    assert [trace.name for trace in figure.data] == ["xcd", "iod", "hbm", "total"]
    iod = next(trace for trace in figure.data if trace.name == "iod")
    assert [value is None for value in iod.x] == [False, True, False, False]
    assert figure.data[-1].x[0] == pytest.approx(
        kernels[0].components["total"].ssp.mean_w, rel=1e-4
    )
    names = [note.text for note in figure.layout.annotations]
    assert names[0] == "&lt;i&gt;0"
    assert len(names[-1]) == 50
    only = [replace(one, components={"total": one.components["total"]}) for one in kernels]
    assert [trace.type for trace in side_by_side(only).data] == ["bar"]


def test_the_tables_hold_a_row_for_each_lesson(kernels: list[KernelPower]) -> None:
    section = lessons_section(kernels, learn(kernels))
    assert [part.draw() for part in section.parts if isinstance(part, Figure)] == [
        side_by_side(kernels)
    ]
    bounds, throughput, complements, _, interleaved = (
        part for part in section.parts if isinstance(part, Table)
    )
    assert [row.cells[1] for row in bounds.rows] == ["compute", "memory", "–", "–"]
    assert all(
        len(row.cells) == len(table.columns)
        for table in (bounds, interleaved)
        for row in table.rows
    )
    assert (len(throughput.rows), len(complements.rows), len(interleaved.rows)) == (0, 0, 1)
    assert not lessons_section(kernels[:1], learn(kernels[:1])).parts
    bare = [
        replace(one, facts=Facts(), components={"total": one.components["total"]})
        for one in kernels
    ]
    assert not any(
        part.rows for part in lessons_section(bare, learn(bare)).parts if isinstance(part, Table)
    )

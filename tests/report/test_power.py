"""Measured power as documents: the protocol, the tables, the page with its figures, and the data for machines."""

from __future__ import annotations

import json
from dataclasses import replace

import pandas as pd
import pytest

from flopcast.benchmarks.power_simulator import Scenario, simulate
from flopcast.errors import DataError
from flopcast.output import dumps
from flopcast.power.clocks import fit_clocks, one_clock, synchronise
from flopcast.power.lessons import learn
from flopcast.power.profile import KernelPower, PowerProfiles, profile_kernel
from flopcast.power.readings import Facts
from flopcast.power.runs import plan
from flopcast.report.document import Document, Headline, Line, Lines, Row, Table
from flopcast.report.html import page
from flopcast.report.power import (
    clock_words,
    description,
    plan_document,
    power_document,
    power_figure,
    power_json,
    run_figure,
)

from .pages import own, parsed, plots


@pytest.fixture(scope="module")
def profiles() -> PowerProfiles:
    simulated = simulate(Scenario(runs=120))
    rows = simulated.executions.assign(kernel="<b>gemm</b>[8k]", **{"class": "compute-bound"})
    measured = synchronise(simulated.log, rows, simulated.pairs)
    one = profile_kernel(measured, components=["total", "hbm"], window_us=1000, replicates=50)
    return PowerProfiles([one], measured.clocks, 0.9)


@pytest.fixture(scope="module")
def kernel(profiles: PowerProfiles) -> KernelPower:
    return profiles.kernels[0]


def texts(row: Row) -> list[str]:
    return [cell if isinstance(cell, str) else cell.text for cell in row.cells]


def tables(document: Document) -> list[Table]:
    return [
        part for section in document.sections for part in section.parts if isinstance(part, Table)
    ]


def closing(document: Document) -> list[Line]:
    return [line for part in document.closing if isinstance(part, Lines) for line in part.lines]


def test_the_protocol_is_shown_setting_by_setting() -> None:
    document = plan_document(plan(120, 1000))
    (table,) = document.opening
    assert isinstance(table, Table)
    (below,) = plan_document(plan(10, 1000)).opening
    assert isinstance(below, Table)
    (advice,) = closing(document)
    assert "120 µs" in table.title
    assert [texts(row)[1] for row in table.rows] == ["200", "10", "10", "0 to 1000 µs", "5 %", "12"]
    assert "about 24" in texts(table.rows[-1])[2]
    assert "25 µs" in texts(below.rows[0])[2]
    assert advice.text == plan(120, 1000).advice[0].text


def test_the_protocol_for_machines() -> None:
    found = plan_document(plan(120, 1000, lag_us=400)).data
    assert (found["runs"], found["margin"], found["published"], found["executions_filled"]) == (
        200,
        0.05,
        9,
        10,
    )
    assert (found["lag_us"], found["settling_us"], found["steady_from"], found["executions"]) == (
        400,
        0,
        24,
        27,
    )
    assert found["remarks"] == []
    unknown = json.loads(dumps(plan_document(plan(120, 1000)).data, missing=True))
    assert (unknown["lag_us"], unknown["executions"]) == (None, 10)
    assert [one["code"] for one in unknown["remarks"]] == ["power-plan-lag-unknown"]
    below = json.loads(dumps(plan_document(plan(10, 1000)).data, missing=True))
    assert (below["runs"], below["margin"], below["logs"], below["repeats"]) == (
        None,
        None,
        None,
        3,
    )


def test_power_is_told_with_how_it_was_measured(
    profiles: PowerProfiles, kernel: KernelPower
) -> None:
    document = power_document(profiles)
    components, on_page, classes = tables(document)
    assert [texts(row)[:3] for row in components.rows] == [
        [kernel.kernel, "total", "compute-bound"], ["", "hbm", "compute-bound"]
    ]  # fmt: skip
    # each by itself, so that it can be sorted
    assert [texts(row)[0] for row in on_page.rows] == [kernel.kernel] * 2
    assert [row.ends for row in components.rows] == [False, True]
    assert all(len(row.cells) == len(components.columns) for row in components.rows)
    assert [texts(row)[:3] for row in classes.rows] == [
        ["compute-bound", "total", "1"], ["compute-bound", "hbm", "1"]
    ]  # fmt: skip
    (how,) = [part for part in document.sections[-1].parts if isinstance(part, Lines)]
    runs, isolation, *_, clocks = [line.text for line in how.lines]
    (note,) = [line.text for line in closing(document)]
    assert f"{len(kernel.runs.kept)} golden runs of " in runs
    assert "execution 4, SSP" in isolation
    assert clocks == clock_words(profiles.clocks)
    assert note == f"note: {kernel.kernel}: {kernel.notes[0]!r}"


def test_a_page_answers_first(profiles: PowerProfiles, kernel: KernelPower) -> None:
    total = kernel.components["total"]
    (first,) = power_document(profiles).opening
    assert isinstance(first, Headline)
    assert (first.about, first.answer) == (kernel.kernel, f"{total.ssp.mean_w:.4g} W")
    assert total.sse is not None
    assert f"{total.sse.mean_w:.4g} W" in first.rival
    assert f"{1e3 * total.energy.energy_j:.4g} mJ" in first.beneath
    alone = replace(total, sse=None, energy=replace(total.energy, energy_j=float("nan")))
    bare = replace(kernel, components={"hbm": replace(alone, component="hbm")})
    (first,) = power_document(replace(profiles, kernels=[bare])).opening
    assert isinstance(first, Headline)
    assert (first.answer, first.rival) == (f"{total.ssp.mean_w:.4g} W of hbm", "")
    assert "mJ" not in first.beneath


def test_throttling_and_no_class_are_told(profiles: PowerProfiles, kernel: KernelPower) -> None:
    part = kernel.components["total"]
    hot = replace(
        part,
        throttling=replace(
            part.throttling, found=True, peak_w=600.0, settled_w=540.0, peak_execution=3
        ),
    )
    told = list(description(replace(kernel, kernel="gemm", components={"total": hot})))
    assert any(all(word in line for word in ("600.0 W", "execution 3", "10.0 %")) for line in told)
    *_, classes = tables(
        power_document(replace(profiles, kernels=[replace(kernel, facts=Facts())]))
    )
    assert not classes.rows


def test_clocks_are_said_with_their_offset_drift_and_cost() -> None:
    pairs = pd.DataFrame(
        {"gpu_ns": [5000, 10**9 + 5000], "cpu_ns": [0, 10**9], "delay_ns": [1000, 1000]}
    )
    clocks = (fit_clocks(pairs), fit_clocks(pairs.head(1)), one_clock(0, 1))
    two, one, none = map(clock_words, clocks)
    assert all(figure in two for figure in ("4.5 µs", "2 pairs", "+0.00 ± 0.41 ppm", "1.00 µs"))
    assert "4.5 µs" in one
    assert "ppm" not in one
    assert "µs" not in none


def test_the_profile_for_machines(profiles: PowerProfiles) -> None:
    found = json.loads(dumps(power_json(profiles, learn(profiles.kernels)), missing=True))
    (profile,) = found["kernels"]
    assert found["clocks"]["drift_ppm"] == pytest.approx(50, abs=1)
    assert list(profile["components"]) == ["total", "hbm"]
    total = profile["components"]["total"]
    assert len(total["ssp"]["polynomial_w"]) == len(profile["phase"]) == 100
    assert len(total["ssp"]["readings"]["power_w"]) == found["compared"][0]["readings"]
    assert total["energy"]["lower_j"] < total["energy"]["energy_j"] < total["energy"]["upper_j"]
    assert len(profile["runs"]["list_removed"]) == sum(profile["runs"]["removed"].values())
    assert profile["runs"]["golden"] + len(profile["runs"]["list_removed"]) == 120
    assert profile["remarks"] == [
        {
            "code": "power-few-runs",
            "runs": 120,
            "wanted": 200,
            "text": "120 runs, 200 are recommended",
        }
    ]
    assert [row["class"] for row in found["classes"]] == ["compute-bound"] * 2


def test_each_component_has_a_panel(kernel: KernelPower) -> None:
    figure = power_figure(kernel)
    names = [trace.name for trace in figure.data]
    panel = [
        "SSE readings",
        "SSE polynomial",
        "SSP readings",
        "SSP polynomial",
        "SSP spline",
        "window removed",
    ]
    assert names == panel * 2
    assert [trace.name for trace in figure.data if trace.showlegend] == panel
    assert [note.text for note in figure.layout.annotations] == ["total", "hbm"]
    ssp = figure.data[2]
    assert len(ssp.x) == len(kernel.components["total"].ssp.readings)
    assert max(ssp.x) <= kernel.kernel_us


def test_what_there_is_not_is_not_drawn(kernel: KernelPower) -> None:
    bare = replace(kernel.components["total"], sse=None, deconvolved=None)
    names = [trace.name for trace in power_figure(replace(kernel, components={"total": bare})).data]
    assert names == ["SSP readings", "SSP polynomial", "SSP spline"]


def test_the_whole_run_and_what_each_step_is_worth(
    profiles: PowerProfiles, kernel: KernelPower
) -> None:
    drawn = run_figure(kernel, kernel.components)
    readings, means = drawn.data[:2]
    assert len(readings.y) == len(kernel.components["total"].run)
    assert (len(means.x), len(drawn.layout.shapes)) == (
        len(kernel.components["total"].by_execution),
        4,
    )
    few = replace(
        kernel, without={"without binning": kernel, "50 runs": DataError("too few readings")}
    )
    document = power_document(replace(profiles, kernels=[few]))
    rows = [texts(row) for row in tables(document)[3].rows]
    assert [row[0] for row in rows] == [kernel.kernel, "everything", "without binning", "50 runs"]
    assert (rows[1][1:], rows[1][4], rows[3][-1]) == (rows[2][1:], "0.00", "too few readings")
    assert len(plots(page(document))) == 3
    data = json.loads(
        dumps(power_json(replace(profiles, kernels=[few]), learn([few])), missing=True)
    )
    assert data["kernels"][0]["without"]["50 runs"] == {"reason": "too few readings"}


def test_the_page_has_a_figure_per_kernel_and_escapes_names(
    profiles: PowerProfiles, kernel: KernelPower
) -> None:
    made = page(power_document(profiles))
    body = parsed(own(made))
    assert "&lt;b&gt;gemm&lt;/b&gt;" in made
    assert "gemm" not in {tag for tag, _ in body.tags}
    assert len(plots(made)) == 2
    text = " ".join(body.text).replace("\xa0", " ")
    for words in (
        "FinGraV",
        "Energies with 90 % intervals",
        "golden runs of",
        "drift",
        "120 runs, 200",
    ):
        assert words in text

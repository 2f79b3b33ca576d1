"""What to make faster: traces whose best kernels are known."""

from __future__ import annotations

import gzip
import json
from pathlib import Path
from typing import Any

import pandas as pd
import pytest

import flopcast as fc
from flopcast.hardware import find
from flopcast.projection.advice import LONGEST, MEASURED, best_kernels
from flopcast.tests.commands import running
from flopcast.tests.readers.kineto.made_up import Event, event, launch, write

LONG, SHORT = (4096, 4096, 4096), (256, 1024, 1024)


def product(
    number: int, start: float, us: float, shape: tuple[int, int, int], begun: float
) -> list[Event]:
    m, n, k = shape
    told = {"External id": number}
    shapes = {"Input Dims": [[m, k], [k, n]], "Input type": ["c10::BFloat16", "c10::BFloat16"]}
    where = {"device": 0, "stream": 3, "correlation": number, **told}
    return [
        event("cpu_op", "aten::mm", start, 5, **told, **shapes),
        launch(start + 1, number, **told),
        event("kernel", f"Cijk_Ailk_Bljk_BBS_BH_MT{m}", begun, us, 0, 0, **where),
    ]


@pytest.fixture
def trace(tmp_path: Path) -> Path:
    """Return a trace that the GPU paces: 20 long products and 20 short ones."""
    events: list[Event] = []
    now = 0.0
    for number in range(1, 41, 2):
        at = 10.0 * number
        events += product(number, at, 500.0, LONG, 30 + now)
        events += product(number + 1, at + 10, 20.0, SHORT, 530 + now)
        now += 520
    return write(tmp_path / "t.json", events)


@pytest.fixture
def best(tmp_path: Path) -> Path:
    """Return measurements: the long product in half of its time, by the faster of two kernels, the short one in more."""
    rows = [
        (device, "gemm", "bf16", *shape, us, kernel)
        for device in ("MI300X", "MI355X")
        for shape, us, kernel in ((LONG, 250.0, "a"), (LONG, 300.0, "b"), (SHORT, 30.0, "c"))
    ]
    heads = ["device", "op", "dtype_a", "m", "n", "k", "duration_us", "kernel"]
    path = tmp_path / "best.csv"
    pd.DataFrame(rows, columns=heads).to_csv(path, index=False)
    return path


def advised(trace: Path, best: Path, **choices: Any) -> fc.ProjectedTrace:
    return fc.project(trace, best=best, **choices)


def test_the_gain_is_what_the_best_measured_kernel_takes_less(trace: Path, best: Path) -> None:
    found = advised(trace, best)
    table = found.advice
    assert table is not None
    long, short = table.to_dict("records")
    assert (long["m"], long["count"], long["measured_us"]) == (4096, 20, 10_000)
    for side in ("measured", "projected"):
        assert (long[f"{side}_best_us"], long[f"{side}_basis"]) == (250, MEASURED)
        assert long[f"{side}_times"] == pytest.approx(2)
        assert long[f"{side}_bound"] == "compute"
    assert long["gain_us"] == pytest.approx(5000)
    assert (short["gain_us"], short["projected_times"]) == (0, pytest.approx(20 / 30))


def test_the_end_to_end_gain_is_that_of_the_replay(trace: Path, best: Path) -> None:
    """The queue is busy, so that all of the gain shows; with a hundredth of the CPU none does."""
    found = advised(trace, best)
    assert found.advice is not None
    assert found.advice["end_gain_us"].iloc[0] == pytest.approx(5000, rel=0.05)
    slow = advised(trace, best, cpu_speed=0.01)
    assert slow.advice is not None
    assert slow.advice["gain_us"].iloc[0] == pytest.approx(5000)
    assert slow.advice["end_gain_us"].iloc[0] < 500


def test_what_reaches_its_roof_gains_nothing_more(trace: Path, best: Path) -> None:
    found = advised(trace, best)
    assert found.advice is not None
    row = found.advice.iloc[0]
    peak = find("MI300X").peak_tflops("bf16")
    reached = 2 * 4096**3 / 500e-6 / 1e12 / peak
    assert row["projected_roof"] == pytest.approx(reached)
    assert row["most_us"] == pytest.approx(10_000 * (1 - reached))
    assert row["intensity"] == pytest.approx(2 * 4096**3 / (3 * 2 * 4096**2))


def test_what_ships_answers_where_no_table_of_the_users_does(tmp_path: Path) -> None:
    """A product of vLLM's sizes on MI355X, which was tuned there; one of a size that nobody measured has no best."""
    odd = product(2, 300, 200.0, (3, 7, 5), 310)
    path = write(tmp_path / "t.json", [*product(1, 0, 200.0, (1024, 8192, 8192), 10), *odd])
    table = fc.project(path, target="MI355X", advice=True).advice
    assert table is not None
    known = table.set_index("m")
    assert known.loc[1024, "projected_basis"] != ""
    row = known.loc[1024]
    assert row["projected_lower_us"] <= row["projected_best_us"] <= row["projected_upper_us"]
    assert known.loc[3, "projected_basis"] == ""
    assert pd.isna(known.loc[3, "gain_us"])


def test_a_measured_kernel_is_found_by_its_problem_alone(best: Path) -> None:
    rows = fc.read(best).frame
    asked = rows[rows["device"].eq("MI300X")].drop_duplicates(["m", "n", "k"])
    found = best_kernels(asked.reset_index(drop=True), find("MI355X"), rows)
    assert found["best_us"].tolist() == [250.0, 30.0]
    nothing = best_kernels(asked.reset_index(drop=True), find("H100"), rows)
    assert nothing["best_us"].isna().all()


def test_the_command_shows_table_and_roofline_and_writes_the_track(
    trace: Path, best: Path, tmp_path: Path
) -> None:
    out = tmp_path / "out"
    given = ("--target", "MI355X", "--advice", "--best", best, "--out", out)
    result = running.call("project", trace, *given)
    assert result.exit_code == 0, result.output
    assert "what to make faster" in result.output
    data = json.loads((out / "project.json").read_text())
    assert 1 <= len(data["advice"]) <= LONGEST
    assert "Roofline" in (out / "project.html").read_text()
    drawn = json.loads(gzip.decompress((out / "trace.json.gz").read_bytes()))
    names = {one["name"] for one in drawn["traceEvents"] if one["ph"] == "C"}
    assert "saved by the best known kernels, %" in names

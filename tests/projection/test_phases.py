"""A few repeats of each phase of a trace projected for all of them."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pandas as pd
import pytest

from flopcast.hardware import find
from flopcast.projection.phases import KEPT, Folded, Phase, edges_ns, fold, repeated
from flopcast.projection.result import Result, result_of
from flopcast.projection.whole_trace import Laws
from flopcast.tests.projection.oracles.traces import add, all_reduce, gemm, idle, trace
from flopcast.traces.summary import Annotated

HOST, TARGET = find("MI300X"), find("MI355X")
LEFT = KEPT + 1  # the first stands for itself
Rows = list[dict[str, object]]


def steps(
    count: int, begin: float = 1000.0, called: float = 0.0, size: int = 4096, jitter: float = 0.02
) -> Rows:
    """Return steps of a busy queue, their collective beside it, launched 1000 µs apart; times differ from step to step.

    The CPU runs ahead: the steps take longer than that.
    """
    random, rows, now = np.random.default_rng(count), [], begin
    for number in range(count):
        at = called + 1000.0 * number
        for place, make in enumerate((gemm, add, gemm, gemm, add)):
            time = (600.0 if make is gemm else 60.0) * (1 + jitter * random.standard_normal())
            rows.append(
                make(
                    now, time, called=at + 10.0 * place, **({"size": size} if make is gemm else {})
                )
            )
            now += time
        rows.append(all_reduce(now - 200, 150 + 5 * random.random(), stream=1, called=at + 60))
    return rows


def folded(found: Annotated) -> Folded:
    short = fold(found)
    assert short is not None
    return short


def both(found: Annotated, laws: Laws | None = None) -> tuple[Result, Result]:
    return tuple(
        result_of("t", found, HOST, TARGET, laws, samples=32, phases=one) for one in (True, False)
    )  # type: ignore[return-value]


def off(found: Result, whole: Result) -> float:
    return found.projection.projected_us / whole.projection.projected_us - 1


def test_a_few_repeats_stand_for_all() -> None:
    quick, whole = both(trace(steps(60)))
    assert quick.phases is not None
    (phase,) = quick.phases.table.to_dict("records")
    assert (phase["repeats"], phase["projected_repeats"], phase["activities"]) == (60, LEFT, 6)
    assert (quick.phases.activities, quick.phases.projected_activities) == (360, 6 * LEFT)
    assert quick.phases.share == 6 * LEFT / 360
    assert quick.projection.measured_us == pytest.approx(whole.projection.measured_us)
    assert abs(off(quick, whole)) < 0.005
    assert abs(off(quick, whole)) < 3 * max(quick.phases.error, 0.001)


def test_tables_are_of_the_whole_trace() -> None:
    quick, whole = both(trace(steps(60)))
    for name in ("count", "fallbacks"):
        assert quick.classes[name].tolist() == whole.classes[name].tolist()
    for name, near in (("measured_us", 1e-9), ("published_us", 1e-9), ("projected_us", 0.01)):
        assert quick.classes[name].tolist() == pytest.approx(whole.classes[name].tolist(), rel=near)
    for name in ("measured_us", "published_us", "projected_us"):
        assert quick.totals[name].tolist() == pytest.approx(whole.totals[name].tolist(), rel=0.01)
    assert quick.sent[["collective", "count", "sent_bytes"]].equals(
        whole.sent[["collective", "count", "sent_bytes"]]
    )
    assert quick.split.equals(whole.split)
    assert quick.path == pytest.approx(whole.path, abs=0.05)
    assert quick.path_kernels["path_us"].sum() == pytest.approx(
        whole.path_kernels["path_us"].sum(), rel=0.02
    )
    assert quick.uncertainty.lower_us == pytest.approx(whole.uncertainty.lower_us, rel=0.01)


@pytest.mark.parametrize("gaps", ["kept", "scaled", "modelled"])
def test_projected_to_itself_a_folded_trace_takes_what_was_measured(gaps: str) -> None:
    found = trace(steps(30, jitter=0.03))
    quick = result_of("t", found, HOST, HOST, Laws(gaps=gaps), samples=16, phases=True)  # type: ignore[arg-type]
    assert quick.phases is not None
    assert quick.projection.projected_us == pytest.approx(quick.projection.measured_us)
    assert quick.phases.error == pytest.approx(0, abs=1e-9)


def test_what_does_not_repeat_is_kept() -> None:
    head, tail = (
        [gemm(0, 500, size=1024, called=-50), add(600, 30, called=-40)],
        [gemm(200_000, 900, size=512)],
    )
    short = folded(trace([*head, *steps(40), *tail]))
    left = short.trace.dispatches
    assert len(left) == len(head) + 6 * LEFT + len(tail)
    assert left["repeats"].sum() == len(head) + 240 + len(tail)
    assert left["repeats"].iloc[[0, 1, -1]].tolist() == [1, 1, 1]


def test_phases_that_differ_are_told_apart() -> None:
    first = steps(20)
    second = steps(25, 1000 + 1e5, 1e5, size=8192)
    between = [add(1000 + 99_000, 50, size=77, name="between", called=99_000)]
    short = folded(trace([*first, *between, *second]))
    assert [phase.repeats for phase in short.phases] == [20, 25]
    assert [phase.similarity for phase in short.phases] == [1, 1]


def test_an_odd_repeat_is_projected_as_it_is() -> None:
    rows = steps(40)
    for row in rows[6 * 17 + 1 :]:
        row.update(start=float(str(row["start"])) + 5000.0)  # the eighteenth waits for something
    short = folded(trace(rows))
    (phase,) = short.phases
    assert (phase.repeats, len(phase.alone), len(phase.chosen)) == (40, 2, KEPT)
    assert short.stretch[phase.alone].tolist() == [1, 1]


def test_a_step_of_other_shapes_is_odd_too() -> None:
    rows = steps(40)
    rows[6 * 17 : 6 * 18] = [
        {**row, "inputs": gemm(0, 0, size=64)["inputs"]} if row.get("op") == "aten::mm" else row
        for row in rows[6 * 17 : 6 * 18]
    ]
    short = folded(trace(rows))
    (phase,) = short.phases
    assert (phase.repeats, len(phase.alone), len(phase.chosen)) == (40, 2, KEPT)
    assert short.stretch[phase.alone].tolist() == [1, 1]


def test_a_kernel_replaced_for_good_begins_another_phase() -> None:
    rows = [
        add(30.0 * place, 20, size=1000 + place % 6, name=f"kernel {place % 6}")
        for place in range(6 * 40)
    ]
    for row in rows[6 * 20 + 2 :: 6]:
        row["name"] = "a faster one"
    short = folded(trace(rows))
    assert [phase.repeats for phase in short.phases] == [20, 20]
    sizes = short.trace.dispatches["piece"].value_counts()
    for phase in short.phases:
        assert sizes[np.r_[phase.alone, phase.chosen]].tolist() == [6] * (KEPT + 1)
    assert short.trace.dispatches["repeats"].sum() == pytest.approx(len(rows))
    counts = short.trace.dispatches.groupby("name")["repeats"].sum().round()
    assert counts["a faster one"] == 20


def test_a_name_that_differs_now_and_then_does_not_end_a_phase() -> None:
    rows = [
        add(30.0 * place, 20, size=1000 + place % 12, name=f"kernel {place % 12}")
        for place in range(12 * 40)
    ]
    for number in (7, 20, 33):
        rows[12 * number + 4]["name"] = "a variant"
    short = folded(trace(rows))
    assert [(phase.repeats, phase.activities) for phase in short.phases] == [(40, 12)]
    assert short.phases[0].similarity == pytest.approx(1 - 3 / (12 * 40))
    assert short.trace.dispatches["repeats"].sum() == pytest.approx(len(rows))


def test_numbers_of_dispatches_give_the_order_where_queues_overlap() -> None:
    random = np.random.default_rng(0)
    rows = steps(40)
    for row in rows[5::6]:
        row["start"] = float(str(row["start"])) - random.uniform(0, 1500)  # of the other queue
    found = trace(rows, launched=False)
    assert fold(found) is None
    numbered = found.dispatches.assign(dispatch_id=pd.array(range(len(rows)), dtype="Int64"))
    assert [phase.repeats for phase in folded(replace(found, dispatches=numbered)).phases] == [40]


def test_nothing_repeats_and_all_is_projected() -> None:
    rows = [
        gemm(1000.0 * number, 300, size=256 * (number + 1), name=f"kernel {number}")
        for number in range(40)
    ]
    assert fold(trace(rows)) is None
    quick, whole = both(trace(rows))
    assert quick.phases is None
    assert [note.code for note in quick.notes][:1] == ["no-phases"]
    assert "no-phases" not in [note.code for note in whole.notes]
    assert quick.projection.projected_us == whole.projection.projected_us


def test_parts_of_a_graph_are_not_cut() -> None:
    whole = trace(steps(40))
    alike = whole.dispatches.assign(correlation=0)
    calls = whole.calls.assign(
        correlation=pd.array([0, *range(100, 99 + len(whole.calls))], dtype="Int64")
    )
    assert fold(replace(whole, dispatches=alike, calls=calls)) is None


def test_a_trace_that_the_cpu_holds_up_stays_so() -> None:
    quick, whole = both(idle(400))
    assert quick.phases is not None
    assert quick.phases.projected_activities < 200
    assert off(quick, whole) == pytest.approx(0, abs=1e-3)
    assert quick.verdict.code == whole.verdict.code == "launch-bound"


def test_without_calls_of_the_cpu_starts_give_the_order() -> None:
    found = trace(steps(40), launched=False)
    quick, whole = both(found)
    assert quick.phases is not None
    assert abs(off(quick, whole)) < 0.01


@pytest.mark.parametrize(("repeats", "folds"), [(30, True), (29, False)])
def test_gpus_must_repeat_equally_often(repeats: int, folds: bool) -> None:
    one, other = trace(steps(30, jitter=0)).dispatches, trace(steps(repeats, jitter=0)).dispatches
    table = pd.concat(
        [one, other.assign(gpu=pd.array([1] * len(other), dtype="Int64"))], ignore_index=True
    )
    found = replace(trace(steps(30, jitter=0), launched=False), dispatches=table)
    short = fold(found)
    assert (short is not None) == folds
    if short is not None:
        assert short.phases[0].activities == 12
        assert short.trace.dispatches["gpu"].value_counts().tolist() == [6 * LEFT, 6 * LEFT]


def test_the_error_is_that_of_a_ratio_estimate() -> None:
    phase = Phase(13, 5, 1.0, np.array([1]), np.array([2, 3, 4]))
    stretch = np.array([1, 1, 4, 4, 4.0])
    short = Folded(trace([gemm(0, 300)]), (phase,), stretch, 65)
    measured, projected = np.array([7, 20, 10, 10, 10.0]), np.array([5, 16, 7, 8, 9.0])
    found = repeated(short, measured, projected)
    (row,) = found.table.to_dict("records")
    assert (row["repeats"], row["projected_repeats"]) == (13, 4)
    assert (row["measured_us"], row["projected_us"]) == (20 + 4 * 30, 16 + 4 * 24)
    # 12 others, spread 1 of 3; Student's t of 2 degrees of freedom at p = 0.8413 is (2 p - 1) / sqrt(2 p (1 - p))
    assert row["error"] * 112 == pytest.approx(1.32128 * 12 * 1 * 0.5, abs=1e-3)
    assert found.error == pytest.approx(row["error"] * 112 / 117)


def test_edges_are_the_latest_ends_so_far() -> None:
    start, end = np.array([[0.0, 5, 6, 9]]), np.array([[4.0, 12, 8, 10]])
    edges = edges_ns(np.array([0, 1, 3, 1]), start, end, 5)
    assert edges.tolist() == [[0, 4, 12, 12, 12, 12]]

"""The course of a measurement, on a bench whose kernels and clock are made up, and its journal on disk."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from flopcast.arrays import FloatArray
from flopcast.errors import DataError
from flopcast.measuring.backend import Device
from flopcast.measuring.machine import Busy, Monitor
from flopcast.measuring.session import (
    BUDGET,
    DONE,
    INTERRUPTED,
    LOST,
    PARTS,
    PLAN,
    VISITS,
    Journal,
    Plan,
    Session,
    failed_rows,
    journal_folder,
    unmeasured,
)
from flopcast.measuring.timing import Rule

ROWS = [{"op": "softmax", "dtype_a": "fp32", "rows": size, "cols": 8} for size in (1, 2, 3, 4)]
DEVICES = [Device("CPU-1T", 1), Device("CPU-2T", 2)]
MADE = {"rows": [{"op": "gemm", "m": 4}], "seed": 1, "passes": 2}
SAMPLE_S = 0.001
QUICK = Rule(least=6, least_seconds=0.0, rounds=2)


class FakeBench:
    """Kernels of 10 us per row of their matrix, half of it on two threads; every built row is noted.

    It is its own clock: a sample takes `SAMPLE_S`, whatever it says.
    """

    def __init__(
        self, fail: int = 0, stop: int = 0, error: str = "no such layout", *, lost: bool = False
    ) -> None:
        self.cost_us, self.cold, self.most_calls, self.late = 0.0, False, 1, 0
        self.built: list[tuple[int, int]] = []
        self.fail, self.stop, self.threads, self.rows, self.now = fail, stop, 1, 0, 0.0
        self.timer, self.error, self.lost, self.recovered = self, error, lost, 0

    def recover(self) -> None:
        self.recovered += 1
        if self.lost:
            raise RuntimeError("an illegal memory access was encountered")

    def use(self, device: Device, row: dict[str, Any]) -> None:
        self.threads = device.threads

    def build(self, row: dict[str, Any], seed: int) -> Callable[[], None]:
        self.built.append((row["rows"], seed))
        if row["rows"] == self.fail:
            raise RuntimeError(f"{self.error}\nwith pages\nof details")
        if self.stop and len(self.built) == self.stop:
            raise KeyboardInterrupt
        self.rows = row["rows"]
        return lambda: None

    def samples(self, call: Callable[[], Any], count: int, calls: int = 1) -> FloatArray:
        self.now += SAMPLE_S * count
        return np.full(count, 10.0 * self.rows / self.threads)


def session(
    bench: FakeBench, *, journal: Journal | None = None, passes: int = 2, **others: Any
) -> Session:
    return Session(
        Plan(ROWS, DEVICES, QUICK, passes=passes, seed=5),
        bench,
        journal,
        clock=lambda: bench.now,
        **others,
    )


def test_every_row_is_visited_on_every_device_in_every_round_of_every_pass() -> None:
    bench = FakeBench()
    run = session(bench)
    run.run()
    assert run.ended == DONE
    seen = {(v["pass"], v["round"], v["row"], v["device"]) for v in run.visits}
    assert len(seen) == len(run.visits) == 2 * 2 * len(ROWS) * len(DEVICES)
    for visit in run.visits:
        expected = 10.0 * (visit["row"] + 1) / int(visit["device"][4])
        assert set(visit["samples_us"]) == {expected}
        assert len(visit["samples_us"]) >= QUICK.least_of_visit


def test_the_order_is_random_differs_by_round_and_follows_from_the_seed() -> None:
    plan = Plan([{"op": "gemm", "m": m} for m in range(50)], DEVICES, QUICK, passes=2, seed=1)
    steps = list(plan.steps())
    assert steps == list(plan.steps())
    assert len(steps) == len(plan) == 200
    rounds = [
        tuple(row for p, r, row in steps if (p, r) == key)
        for key in ((1, 1), (1, 2), (2, 1), (2, 2))
    ]
    assert len(set(rounds)) == 4
    assert all(sorted(order) == list(range(50)) for order in rounds)
    assert tuple(range(50)) not in rounds
    assert [s[:2] for s in steps] == sorted(s[:2] for s in steps)


def test_operands_of_a_row_have_the_same_seed_in_each_round() -> None:
    bench = FakeBench()
    session(bench).run()
    assert set(bench.built) == {(row["rows"], 5 + index) for index, row in enumerate(ROWS)}


def test_a_row_that_fails_is_told_once_and_not_tried_again() -> None:
    bench = FakeBench(fail=3)
    run = session(bench)
    run.run()
    assert [rows for rows, _ in bench.built].count(3) == 1
    assert failed_rows(run) == [
        {"row": "softmax fp32 rows=3 cols=8", "reason": "RuntimeError: no such layout"}
    ]
    assert bench.recovered == 1
    assert {v["row"] for v in run.visits} == {0, 1, 3}
    assert unmeasured(run) == []


def test_a_function_that_ends_the_process_fails_its_row_alone() -> None:
    class Ending(FakeBench):
        def build(self, row: dict[str, Any], seed: int) -> Callable[[], None]:
            if row["rows"] == 3:
                raise SystemExit(3)
            return super().build(row, seed)

    run = session(Ending())
    run.run()
    assert run.ended == DONE
    assert run.failures == {2: "SystemExit: 3"}
    assert {v["row"] for v in run.visits} == {0, 1, 3}


def test_ctrl_c_keeps_what_is_measured_and_a_new_session_goes_on(tmp_path: Path) -> None:
    plan = Plan(ROWS, DEVICES, QUICK, passes=2, seed=5).to_dict()
    bench = FakeBench(fail=2, stop=6)
    first = session(bench, journal=Journal(tmp_path / "j", plan))
    first.run()
    assert first.ended == INTERRUPTED
    assert len(bench.built) == 6
    again = FakeBench(fail=2)
    second = session(again, journal=Journal(tmp_path / "j", plan, resume=True))
    assert len(second.visits) == len(first.visits) > 0
    second.run()
    assert second.ended == DONE
    assert len(again.built) == 2 * 2 * 3 - len(first.visits) // 2 + (0 if first.failures else 1)
    key = [(v["pass"], v["round"], v["row"], v["device"]) for v in second.visits]
    assert len(set(key)) == len(key) == 2 * 2 * 3 * 2
    assert second.failures.keys() == {1}


def journaled(tmp_path: Path, bench: FakeBench, *, resume: bool) -> Session:
    plan = Plan(ROWS, DEVICES, QUICK, passes=2, seed=5).to_dict()
    run = session(bench, journal=Journal(tmp_path / "j", plan, resume=resume))
    run.run()
    return run


def test_what_ran_out_of_memory_is_tried_again_when_resumed_and_nothing_else_that_failed(
    tmp_path: Path,
) -> None:
    first = journaled(
        tmp_path,
        FakeBench(fail=3, error="CUDA out of memory. Tried to allocate 2 GiB"),
        resume=False,
    )
    assert first.failures == {2: "RuntimeError: CUDA out of memory. Tried to allocate 2 GiB"}
    second = journaled(tmp_path, FakeBench(fail=3), resume=True)
    assert second.failures == {2: "RuntimeError: no such layout"}
    third = journaled(tmp_path, FakeBench(), resume=True)
    assert third.failures == second.failures


def test_a_row_that_takes_the_device_with_it_ends_the_run_and_is_not_the_journals(
    tmp_path: Path,
) -> None:
    bench = FakeBench(fail=3, lost=True)
    run = journaled(tmp_path, bench, resume=False)
    assert (run.ended, run.failures) == (LOST, {})
    assert run.lost == "softmax fp32 rows=3 cols=8: RuntimeError: no such layout"
    assert [rows for rows, _ in bench.built].count(3) == 1
    assert bench.built[-1][0] == 3
    again = journaled(tmp_path, FakeBench(), resume=True)
    assert (again.ended, again.lost) == (DONE, "")
    assert len(again.visits) == 2 * 2 * len(ROWS) * len(DEVICES)


def test_a_journal_of_another_machine_or_pytorch_is_not_continued(tmp_path: Path) -> None:
    plan = Plan(ROWS, DEVICES, QUICK, machine={"cpu": "EPYC", "torch": "2.9"})
    Journal(tmp_path / "j", plan.to_dict())
    Journal(tmp_path / "j", plan.to_dict(), resume=True)
    other = replace(plan, machine={"cpu": "Xeon", "torch": "2.10"})
    with pytest.raises(DataError, match="same settings, machine"):
        Journal(tmp_path / "j", other.to_dict(), resume=True)


def test_a_budget_is_shared_out_and_its_end_leaves_the_rest() -> None:
    bench = FakeBench()
    run = session(bench)
    run.run(budget_seconds=0.05)
    assert run.ended == BUDGET
    assert 0 < len(run.visits) < 2 * 2 * len(ROWS) * len(DEVICES)
    assert bench.now >= 0.05
    assert len({v["row"] for v in run.visits}) + len(unmeasured(run)) == len(ROWS)


class Unsteady(FakeBench):
    """The second and third row take 5 % more in every other visit."""

    def samples(self, call: Callable[[], Any], count: int, calls: int = 1) -> FloatArray:
        odd = sum(rows == self.rows for rows, _ in self.built) % 2
        return super().samples(call, count, calls) * (1.05 if odd and self.rows in (2, 3) else 1.0)


def test_a_budget_buys_more_visits_of_rows_that_are_not_known_well_enough(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr("flopcast.measuring.session.MOST_VISITS", 5)
    bench = Unsteady()
    run = session(bench, passes=1)
    run.run(budget_seconds=1e6)
    assert run.ended == DONE
    rounds = [{v["round"] for v in run.visits if v["row"] == row} for row in range(4)]
    assert [len(found) for found in rounds] == [2, 5, 5, 2]
    with_less = Unsteady()
    short = session(with_less, passes=1)
    short.run(budget_seconds=0.35 * bench.now)
    assert short.ended == DONE  # what was planned is done
    assert 2 * 4 * 2 < len(short.visits) < len(run.visits)


def test_a_device_lost_in_a_further_visit_ends_the_run() -> None:
    class Losing(Unsteady):
        def build(self, row: dict[str, Any], seed: int) -> Callable[[], None]:
            self.fail = 3 if len(self.built) >= 2 * len(ROWS) else 0
            return super().build(row, seed)

    bench = Losing(lost=True)
    run = session(bench, passes=1)
    run.run(budget_seconds=1e6)
    assert run.ended == LOST
    assert [rows for rows, _ in bench.built].count(3) == 3


def test_further_visits_are_the_same_when_the_measurement_is_resumed(tmp_path: Path) -> None:
    whole = session(Unsteady(), passes=1)
    whole.run(budget_seconds=1e9)
    plan = whole.plan.to_dict()
    first = session(Unsteady(stop=8 + 6), journal=Journal(tmp_path / "j", plan), passes=1)
    first.run(budget_seconds=1e9)
    assert first.ended == INTERRUPTED
    bench = Unsteady()
    bench.built = [(visit["row"] + 1, 0) for visit in first.visits[:: len(DEVICES)]]
    second = session(bench, journal=Journal(tmp_path / "j", plan, resume=True), passes=1)
    second.run(budget_seconds=1e9)
    steps = [
        [(v["pass"], v["round"], v["row"], v["device"]) for v in run.visits]
        for run in (whole, second)
    ]
    assert steps[0] == steps[1]


def test_time_that_one_visit_leaves_is_for_the_others() -> None:
    seconds: list[float] = []

    class Watched(Session):
        def _visit(self, step: tuple[int, int, int], rule: Rule) -> None:
            seconds.append(rule.seconds)
            clock[0] += 1.0

    clock = [0.0]
    run = Watched(Plan(ROWS, DEVICES, QUICK), FakeBench(), clock=lambda: clock[0])
    run.run(budget_seconds=80.0)
    assert seconds[0] == pytest.approx(80 / 8 / 2)
    assert seconds[-1] == pytest.approx((80 - 7) / 1 / 2)
    assert run.limits_s == pytest.approx((80 / 8 / 2, (80 - 7) / 1 / 2))
    run.run()
    assert run.limits_s is None


def test_progress_and_readings_are_passed_on() -> None:
    told: list[tuple[int, int, str]] = []
    bench, under_load = FakeBench(), list[float]()

    def read(busy: Busy) -> dict[str, float]:
        before = bench.now
        busy()
        under_load.append(bench.now - before)
        return {"power_w": 70.0}

    run = session(bench, monitor=Monitor(read, every_seconds=0.0), passes=1)
    run.run(progress=lambda done, total, label, eta: told.append((done, total, label)))
    assert [done for done, _, _ in told] == list(range(8))
    assert {total for _, total, _ in told} == {8}
    assert {(v["late"], v["clock_us"]) for v in run.visits} == {(0, 0.0)}
    assert told[0][2].startswith("softmax fp32 rows=")
    assert {v["power_w"] for v in run.visits} == {70.0}
    # one more sample, that no visit has
    assert under_load == pytest.approx([SAMPLE_S] * 8 * len(DEVICES))


def test_steps_are_on_disk_as_they_come_and_are_read_again(tmp_path: Path) -> None:
    folder = journal_folder(tmp_path / "runs.parquet")
    assert folder.name == "runs.parquet.journal"
    journal = Journal(folder, MADE)
    journal.add([{"row": 0, "samples_us": [1.5, 2.0]}])
    journal.add([{"row": 1, "error": "no"}])
    again = Journal(folder, MADE, resume=True)
    assert again.steps == [[{"row": 0, "samples_us": [1.5, 2.0]}], [{"row": 1, "error": "no"}]]
    again.add([{"row": 2}])
    assert len(Journal(folder, MADE, resume=True).steps) == 3
    again.remove()
    assert not folder.exists()


def test_what_runs_said_of_themselves_is_kept(tmp_path: Path) -> None:
    journal = Journal(tmp_path / "j", MADE)
    journal.end_part({"command": "flopcast measure", "seconds": 2.5})
    again = Journal(tmp_path / "j", MADE, resume=True)
    assert again.parts == journal.parts == [{"command": "flopcast measure", "seconds": 2.5}]


def test_a_line_cut_short_is_dropped_and_the_journal_goes_on(tmp_path: Path) -> None:
    journal = Journal(tmp_path / "j", MADE)
    journal.add([{"row": 0}])
    with (tmp_path / "j" / VISITS).open("a", encoding="utf-8") as file:
        file.write('[{"row": 1, "samp')
    again = Journal(tmp_path / "j", MADE, resume=True)
    assert again.steps == [[{"row": 0}]]
    again.add([{"row": 1}])
    assert Journal(tmp_path / "j", MADE, resume=True).steps == [[{"row": 0}], [{"row": 1}]]


def test_a_line_that_lacks_its_end_alone_is_kept_and_the_next_begins_a_line(tmp_path: Path) -> None:
    journal = Journal(tmp_path / "j", MADE)
    journal.add([{"row": 0}])
    path = tmp_path / "j" / VISITS
    path.write_text(path.read_text(encoding="utf-8").rstrip("\n"), encoding="utf-8")
    again = Journal(tmp_path / "j", MADE, resume=True)
    assert again.steps == [[{"row": 0}]]
    again.add([{"row": 1}])
    assert Journal(tmp_path / "j", MADE, resume=True).steps == [[{"row": 0}], [{"row": 1}]]


def test_a_journal_is_not_overwritten_and_another_plan_not_continued(tmp_path: Path) -> None:
    Journal(tmp_path / "j", MADE)
    with pytest.raises(DataError, match="unfinished measurement: resume"):
        Journal(tmp_path / "j", MADE)
    with pytest.raises(DataError, match="other seed and passes"):
        Journal(tmp_path / "j", {**MADE, "seed": 2, "passes": 1}, resume=True)


def test_nothing_to_resume(tmp_path: Path) -> None:
    with pytest.raises(DataError, match="nothing to resume"):
        Journal(tmp_path / "j", MADE, resume=True)


@pytest.mark.parametrize(
    ("file", "text"),
    [
        (PLAN, "{"),
        (VISITS, "not json\n[]\n"),
        (VISITS, '{"a": 1}\n'),
        (VISITS, '[{"a": 1}]'),
        (VISITS, "3\n[]\n"),
        (PARTS, '{"a": 1}\n'),
    ],
)
def test_foreign_files_are_refused(file: str, text: str, tmp_path: Path) -> None:
    Journal(tmp_path / "j", MADE)
    (tmp_path / "j" / file).write_text(text, encoding="utf-8")
    with pytest.raises(DataError, match="delete the folder"):
        Journal(tmp_path / "j", MADE, resume=True)

"""Ranks replayed together: synthetic jobs whose waiting is known."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np
import pandas as pd
import pytest

from flopcast.errors import DataError
from flopcast.hardware import find
from flopcast.projection.job import (
    Job,
    bus_factor,
    communication_table,
    overlap,
    project_job,
)
from flopcast.projection.whole_trace import Laws
from flopcast.traces.dispatches import Trace, dispatch_table
from flopcast.traces.summary import Annotated, annotate

MI300X = find("MI300X")
SIZE = 64 << 20
TRANSFER_NS = 400_000
CLOCKS = (1_700_000_000_000_000_000, 5_000_000, 0)


def job_of(
    work_ns: list[list[int]], clocks: tuple[int, ...] = CLOCKS, **columns: Any
) -> list[tuple[str, Annotated]]:
    """Return the traces of ranks that work and meet in an all-reduce, again and again, each on a clock of its own."""
    now, rows = [0] * len(work_ns), [[] for _ in work_ns]
    for step in zip(*work_ns, strict=True):
        start = [begin + work for begin, work in zip(now, step, strict=True)]
        end = max(start) + TRANSFER_NS
        for rank, work in enumerate(step):
            rows[rank] += [
                ("work", now[rank], work),
                ("ncclDevKernel_Generic_1", start[rank], end - start[rank]),
            ]
        now = [end] * len(now)
    return [
        (f"r{rank}.json", _trace(rank, own, clocks[rank], columns)) for rank, own in enumerate(rows)
    ]


def _trace(
    rank: int, rows: list[tuple[str, int, int]], clock: int, columns: dict[str, Any]
) -> Annotated:
    name, start, duration = zip(*rows, strict=True)
    meets = ["nccl" in one for one in name]
    table = dispatch_table(
        {
            "kind": "kernel", "device": "MI300X", "rank": rank, "process": 1, "gpu": 0, "stream": 0, "name": list(name),
            "start_ns": np.array(start) + clock, "duration_ns": list(duration),
            "collective": ["allreduce" if one else "" for one in meets],
            "collective_bytes": [SIZE if one else None for one in meets],
            "group_size": [3 if one else None for one in meets],
            "group_name": ["0" if one else "" for one in meets],
            "group_ranks": ["0,1,2" if one else "" for one in meets], "linked": False, "source": "x", **columns,
        }
    )  # fmt: skip
    return annotate(Trace(table))


def straggling(late_ns: int = 150_000, steps: int = 6) -> list[list[int]]:
    """Rank 2 needs longer for its work than the others."""
    return [[300_000] * steps, [300_000] * steps, [300_000 + late_ns] * steps]


def kept(**changes: Any) -> Laws:
    return Laws(compute="kept", communication="kept", **changes)


def wait_us(job: Job) -> list[list[float]]:
    return (
        job.waits.pivot_table(index="rank", columns="meeting", values="wait_us").to_numpy().tolist()
    )


def test_the_wait_found_is_the_delay_of_the_straggler() -> None:
    job = project_job(job_of(straggling(late_ns=150_000)), MI300X, MI300X, kept())
    assert wait_us(job) == [[150.0] * 6, [150.0] * 6, [0.0] * 6]
    assert (
        job.split["measured_waiting_us"].tolist()
        == job.split["waiting_us"].tolist()
        == [900.0, 900.0, 0.0]
    )
    assert job.split["last"].tolist() == [0, 0, 6]
    assert job.split["late_us"].tolist() == [0.0, 0.0, 900.0]
    assert job.measured_us == job.projected_us == job.published_us == 6 * (450 + 400)


def test_clocks_are_aligned_by_the_ends_of_collectives() -> None:
    job = project_job(job_of(straggling()), MI300X, MI300X, kept())
    assert job.matched.clock_error_ns == 0.0
    assert job.matched.offset_ns.tolist() == [0.0, 0.0, 0.0]  # all began at once
    late = job_of([[100_000] * 3, [300_000] + [100_000] * 2, [100_000] * 3])
    cut = replace(late[1][1], dispatches=late[1][1].dispatches.iloc[1:].reset_index(drop=True))
    shifted = project_job([late[0], (late[1][0], cut), late[2]], MI300X, MI300X, kept())
    assert shifted.matched.offset_ns.tolist() == [0.0, 300_000.0, 0.0]


def test_the_measured_durations_give_the_measured_times() -> None:
    """Ranks that are last by turns: each waits for others, whose waits had other reasons."""
    work = np.random.default_rng(3).integers(50_000, 500_000, size=(3, 40)).tolist()
    job = project_job(job_of(work), MI300X, MI300X, kept())
    for one, times in zip(job.projections, job.times, strict=True):
        np.testing.assert_allclose(times.start_ns[0], one.graph.start_ns)
        np.testing.assert_allclose(times.end_ns[0], one.graph.end_ns)


def test_a_faster_network_shortens_transfers_and_no_waiting() -> None:
    target = replace(
        MI300X, name="faster links", based_on="MI300X", link_bw_gbs=2 * 448.0, p2p_uni_gbs=128.0
    )
    job = project_job(job_of(straggling()), MI300X, target, Laws(compute="kept"))
    assert wait_us(job) == [[pytest.approx(150.0)] * 6, [pytest.approx(150.0)] * 6, [0.0] * 6]
    assert job.waits["transfer_us"].max() < 0.6 * 400


def test_faster_ranks_wait_less_and_meet_as_the_machine_would() -> None:
    """All work at half the time: the truth is the job simulated so."""
    work = np.random.default_rng(4).integers(50_000, 500_000, size=(3, 40)) * 2
    traces = job_of(work.tolist())
    job = project_job(traces, MI300X, MI300X, kept())
    for one in job.projections:
        one.activities["factor"] = np.where(one.activities["category"] == "communication", 1.0, 0.5)
    truth = project_job(job_of((work // 2).tolist()), MI300X, MI300X, kept())
    assert job.projected_us == pytest.approx(truth.measured_us)
    np.testing.assert_allclose(job.waits["wait_us"], truth.waits["measured_wait_us"], atol=1e-6)


def test_a_faster_straggler_lets_the_others_wait_less() -> None:
    job = project_job(job_of(straggling()), MI300X, MI300X, kept())
    activities = job.projections[2].activities
    activities["factor"] = np.where(activities["name"] == "work", 350 / 450, 1.0)
    assert wait_us(job) == [
        [pytest.approx(50.0)] * 6,
        [pytest.approx(50.0)] * 6,
        [pytest.approx(0.0)] * 6,
    ]
    assert job.projected_us == pytest.approx(6 * (350 + 400))


def test_overlapped_waiting_is_hidden_by_computation() -> None:
    """A kernel on another stream runs while a collective waits: the moment counts as computation."""
    traces = job_of(straggling(steps=1))
    table = traces[0][1].dispatches
    extra = table.iloc[[0]].assign(
        start_ns=table["start_ns"].iloc[1], duration_ns=100_000, stream=7
    )
    both = pd.concat([table, extra], ignore_index=True)
    job = project_job(
        [("a", replace(traces[0][1], dispatches=both)), *traces[1:]], MI300X, MI300X, kept()
    )
    assert job.split["waiting_us"].tolist() == [50.0, 150.0, 0.0]
    assert job.split["computation_us"].tolist() == [400.0, 300.0, 450.0]


def test_what_the_producer_counts_matches_traces_that_begin_at_different_steps() -> None:
    traces = job_of(straggling(steps=4))
    counted = [
        trace.dispatches.assign(
            group_number=pd.array([None, 1, None, 2, None, 3, None, 4], dtype="Int64")
        )
        for _, trace in traces
    ]
    counted[1] = counted[1].iloc[2:].reset_index(drop=True)
    given = [
        (label, replace(trace, dispatches=rows))
        for (label, trace), rows in zip(traces, counted, strict=True)
    ]
    job = project_job(given, MI300X, MI300X, kept())
    assert job.waits.groupby("meeting")["rank"].size().tolist() == [2, 3, 3, 3]


def _shorter(traces: list[tuple[str, Annotated]]) -> list[tuple[str, Annotated]]:
    return [
        traces[0],
        (traces[1][0], replace(traces[1][1], dispatches=traces[1][1].dispatches.iloc[:6])),
        traces[2],
    ]


def test_traces_that_end_early_match_as_far_as_they_go() -> None:
    job = project_job(_shorter(job_of(straggling())), MI300X, MI300X, kept())
    assert job.waits.groupby("meeting")["rank"].size().tolist() == [3, 3, 3, 2, 2, 2]


def test_what_does_not_match_is_one_line() -> None:
    other = job_of(straggling(), collective_bytes=[None, 5] * 6)
    with pytest.raises(DataError, match=r"0,1,2.*all_reduce.*r0.json.*r1"):
        project_job([job_of(straggling())[0], *other[1:]], MI300X, MI300X, kept())
    alone = job_of(straggling(), group_name="own")[1]
    with pytest.raises(DataError, match="in common"):
        project_job([job_of(straggling())[0], alone], MI300X, MI300X, kept())
    with pytest.raises(DataError, match="rank 0"):
        project_job([job_of(straggling())[0]] * 2, MI300X, MI300X, kept())
    with pytest.raises(DataError, match="at least two"):
        project_job(job_of(straggling())[:1], MI300X, MI300X, kept())


def test_groups_that_cannot_be_told_apart_are_one_line() -> None:
    unnamed = job_of(straggling(), group_name="", group_ranks="", group_size=[None, 2] * 6)
    with pytest.raises(DataError, match=r"3 traces.* 2 ranks"):
        project_job(unnamed, MI300X, MI300X, kept())
    assert project_job(unnamed[:2], MI300X, MI300X, kept()).split["waiting_us"].tolist() == [
        0.0,
        0.0,
    ]


def test_orders_that_contradict_each_other_are_one_line() -> None:
    """Two groups of the same ranks; each meets first in the group in which the other meets last."""
    traces = [
        job_of([[300_000] * 2] * 3, group_name=names)[rank]
        for rank, names in enumerate((["", "a", "", "b"], ["", "b", "", "a"]))
    ]
    with pytest.raises(DataError, match="another order"):
        wait_us(project_job(traces, MI300X, MI300X, kept()))


def test_what_is_sent_by_collective_and_pair() -> None:
    """Three ranks: a rank sends 4/3 of the message in an all-reduce, half of it to each peer."""
    job = project_job(job_of(straggling()), MI300X, MI300X, kept())
    each = 6 * SIZE * 4 / 3
    assert job.sent["sent_bytes"].tolist() == pytest.approx([3 * each])
    pairs = job.pairs.pivot_table(index="rank", columns="peer", values="sent_bytes").to_numpy()
    assert np.nansum(pairs, axis=1).tolist() == pytest.approx([each] * 3)
    assert np.nanmax(pairs) == pytest.approx(each / 2)
    assert communication_table(job.projections[0].activities.iloc[:0]).empty
    kinds = job.collectives
    assert kinds[["count", "members", "wait_us", "transfer_us"]].to_numpy().tolist() == [
        [6, 3, 100.0, 400.0]
    ]


def test_a_transfer_changes_alike_however_long_a_rank_waits_for_it() -> None:
    """The waiting is not in what the laws are asked of."""
    short, long = (
        project_job(job_of(straggling(late_ns)), MI300X, find("MI355X"), Laws(compute="kept"))
        for late_ns in (1_000, 5_000_000)
    )
    for job in (short, long):
        transfer = job.waits["transfer_us"]
        assert transfer.to_numpy() == pytest.approx(transfer.iloc[0], rel=1e-3)
        assert transfer.iloc[0] < TRANSFER_NS / 1e3
    assert long.waits["transfer_us"].iloc[0] == pytest.approx(
        short.waits["transfer_us"].iloc[0], rel=1e-3
    )


MI355X = find("MI355X")


def projected(work_ns: list[list[int]], **choices: Any) -> Job:
    return project_job(job_of(work_ns, **choices), MI300X, MI355X)


def test_the_interval_of_a_job_holds_its_time_and_its_sources() -> None:
    job = projected([[900_000] * 3, [1_000_000] * 3, [700_000] * 3])
    found = job.uncertainty(samples=64)
    assert found.nominal_us == pytest.approx(job.projected_us, abs=0.01)
    assert found.lower_us < job.projected_us < found.upper_us
    assert "gaps" in set(found.tornado["name"])
    again = job.uncertainty(samples=64)
    assert (again.lower_us, again.upper_us) == (found.lower_us, found.upper_us)


def test_a_job_that_nothing_changes_is_as_sure_as_its_measurement() -> None:
    job = project_job(job_of([[900_000] * 3, [1_000_000] * 3, [700_000] * 3]), MI300X, MI300X)
    found = job.uncertainty(samples=64)
    assert (found.lower_us, found.upper_us) == pytest.approx((job.measured_us, job.measured_us))


def test_bandwidths_are_those_of_nccl_tests() -> None:
    """64 MiB in 400 µs among three ranks: 168 GB/s of the message, 4/3 of it on the bus."""
    (row,) = projected([[900_000] * 3, [1_000_000] * 3, [700_000] * 3]).collectives.to_dict(
        "records"
    )
    algorithm = SIZE / TRANSFER_NS
    assert row["algorithm_gbs"] == pytest.approx(algorithm)
    assert row["bus_gbs"] == pytest.approx(algorithm * 4 / 3)
    assert row["start_skew_us"] == pytest.approx(300)
    assert row["end_skew_us"] == pytest.approx(0, abs=1e-3)


@pytest.mark.parametrize(
    ("collective", "ranks", "factor"),
    [
        ("all_reduce", 4, 1.5),
        ("all_gather", 4, 0.75),
        ("reduce_scatter", 8, 0.875),
        ("all_to_all", 2, 0.5),
        ("broadcast", 8, 1.0),
        ("reduce", 8, 1.0),
        ("send_recv", 2, 1.0),
    ],
)
def test_factors_of_the_bus(collective: str, ranks: int, factor: float) -> None:
    assert bus_factor(collective, np.array([float(ranks)]))[0] == pytest.approx(factor)


def test_what_the_last_rank_did_is_what_the_others_wait_for() -> None:
    """Rank 1 computes 100 and 300 µs longer than the others: they wait for that, and for nothing else."""
    job = projected([[900_000] * 3, [1_000_000] * 3, [700_000] * 3])
    (row,) = job.causes.to_dict("records")
    assert row["rank"] == 1
    assert row["waited_us"] == pytest.approx(3 * (100 + 300))
    assert row["computation_us"] == pytest.approx(row["waited_us"])
    assert row["idle_us"] == pytest.approx(0, abs=1e-6)


def test_a_rank_that_runs_nothing_is_waited_for_because_of_its_cpu() -> None:
    traces = job_of([[900_000] * 3, [1_000_000] * 3, [700_000] * 3])
    label, late = traces[1]
    table = late.dispatches.copy()
    works = table["name"].eq("work")
    table.loc[works, "duration_ns"] = 600_000
    traces[1] = (label, replace(late, dispatches=table))
    (row,) = project_job(traces, MI300X, MI355X).causes.to_dict("records")
    assert row["idle_us"] == pytest.approx(row["waited_us"])


def test_communication_that_computation_hides() -> None:
    kinds = np.array(["communication", "communication", "compute", "compute"])
    start, end = np.array([0.0, 5.0, 8.0, 9.0]), np.array([10.0, 20.0, 12.0, 14.0])
    assert overlap(kinds, start, end) == pytest.approx(6 / 20)
    assert np.isnan(overlap(kinds[2:], start[2:], end[2:]))

"""Chakra traces that are written: what waits for what, whole microseconds that add up, and our reader reads them."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest

from flopcast.errors import DataError
from flopcast.projection.chakra_export import IDLE, Task, tasks_of, write_chakra
from flopcast.readers.execution_trace import ExecutionTrace, read_execution_trace
from flopcast.traces.dispatches import dispatch_table


def read(folder: Path, *tasks: Task, rank: int = 0) -> ExecutionTrace:
    write_chakra(folder, {rank: tasks}, {"what": "a test"})
    return read_execution_trace(folder / f"chakra.{rank}.et")


def task(name: str, start: float, end: float, *after: int, **more: Any) -> Task:
    return Task(name=name, start_us=start, end_us=end, after=after, **more)


def projected(**columns: Any) -> tuple[pd.DataFrame, pd.Series]:
    """Return two kernels on stream 7 and one of a collective on stream 3, and when they start on the target."""
    table = dispatch_table(
        {
            "kind": "kernel",
            "process": 1,
            "gpu": 0,
            "stream": [7, 3, 7],
            "name": ["gemm", "ncclDevKernel_AllReduce", "relu"],
            "start_ns": np.array([0, 10_000, 50_000]),
            "duration_ns": 1_000,
            "collective": ["", "allreduce", ""],
            "collective_bytes": [pd.NA, 4096, pd.NA],
            "group_size": [pd.NA, 8, pd.NA],
            **columns,
        }
    ).assign(
        projected_us=[9.4, 30.0, 5.0], flops=[1e9, np.nan, 0.0], bytes_moved=[2e6, np.nan, 1e6]
    )
    return table, pd.Series([1_000_000, 1_010_400, 1_050_000])


def test_nodes_are_read_as_they_were_written(tmp_path: Path) -> None:
    sent = {"collective": "all_gather", "message_bytes": 8e6, "ranks": 8}
    long = "k" * 300
    nodes = read(
        tmp_path,
        task(long, 0, 2.6),
        task("all", 2.6, 9, 0, **sent),
        task("cpu", 9, 9.3, 0, 1, on_cpu=True),
    ).nodes
    assert nodes["name"].tolist() == [long, "all", "cpu"]
    assert nodes["waits"].tolist() == [(), (0,), (0, 1)]
    assert nodes["duration_us"].fillna(0).tolist() == [3, 6, 0]
    assert nodes["on_cpu"].tolist() == [False, False, True]
    row = nodes.iloc[1]
    assert (row["collective"], row["collective_bytes"], row["group_size"]) == (
        "allgather",
        8_000_000,
        8,
    )


def test_an_activity_waits_for_its_queue_and_for_what_ended_before_an_idle_time() -> None:
    (tasks,) = tasks_of(*projected()).values()
    found = [(one.name, one.after, round(one.start_us), round(one.end_us)) for one in tasks]
    assert found == [
        ("gemm", (), 0, 9),
        (IDLE, (0,), 9, 10),
        ("ncclDevKernel_AllReduce", (1,), 10, 40),
        (IDLE, (0, 2), 40, 50),
        ("relu", (3,), 50, 55),
    ]
    assert [one.on_cpu for one in tasks] == [False, True, False, True, False]
    assert (tasks[2].collective, tasks[2].message_bytes, tasks[2].ranks) == ("all_reduce", 4096, 8)
    assert (tasks[0].flops, tasks[0].moved_bytes) == (1e9, 2e6)


def test_rounding_does_not_add_up(tmp_path: Path) -> None:
    tasks = [
        task("k", 0.4 * place, 0.4 * (place + 1), *([place - 1] if place else []))
        for place in range(1000)
    ]
    assert read(tmp_path, *tasks).nodes["duration_us"].sum() == 400


def test_a_collective_of_one_rank_is_computation() -> None:
    (tasks,) = tasks_of(*projected(group_size=1)).values()
    assert [one.collective for one in tasks] == [""] * 5


def test_each_rank_has_its_file_and_one_without_a_message_size_is_computation(
    tmp_path: Path,
) -> None:
    table, start = projected(rank=[5, 3, 5], collective_bytes=pd.NA)
    ranks = tasks_of(table, start)
    assert {rank: len(tasks) for rank, tasks in ranks.items()} == {3: 2, 5: 3}
    write_chakra(tmp_path, ranks, {})
    assert read_execution_trace(tmp_path / "chakra.3.et").nodes["collective"].eq("").all()
    with pytest.raises(DataError, match=r"chakra\.5\.et"):
        write_chakra(tmp_path, {3: ranks[3]}, {})

"""Traces of MPI programs: SimGrid's time-independent form, OTF2 as it is printed and as an archive."""

from __future__ import annotations

import math
from pathlib import Path

import pytest

from flopcast.errors import DataError, ParameterError
from flopcast.readers.mpi_trace import is_mpi_trace, read_mpi_trace
from flopcast.tests.fuzz.corpus import OTF2
from flopcast.workloads.forecasting import forecast
from flopcast.workloads.layer_graph import is_graph, read_layers

PRINTED = OTF2.replace("\\\n", "")


def written(folder: Path, text: str, name: str = "lu.trace") -> Path:
    (folder / name).write_text(text, encoding="utf-8")
    return folder / name


@pytest.mark.parametrize(
    ("action", "message"),
    [
        ("send 1 1e9", ("send_recv", 1e9)),  # SimGrid 3.3: partner and size
        ("send 1 1e9 5", ("send_recv", 4e9)),  # and the type
        ("send 1 0 1000", ("send_recv", 1000.0)),  # since 3.20 the tag
        ("send 1 0 1000 1", ("send_recv", 4000.0)),
        ("bcast 5e4 0 3", ("bcast", 1e5)),
        ("reduce 5e4 5e8 0 4", ("reduce", 4e5)),
        ("allreduce 5e4 5e8", ("allreduce", 5e4)),
        ("allToAll 500 500", ("alltoall", 1000.0)),
        ("allGatherV 10 10 6 0 10 0 0", ("allgather", 20.0)),
        ("reduceScatter 10 6 1e6 0", ("reducescatter", 128.0)),
    ],
)
def test_messages_of_simgrid(tmp_path: Path, action: str, message: tuple[str, float]) -> None:
    trace = read_mpi_trace(written(tmp_path, f"0 init\n1 init\n0 {action}\n1 compute 1e6\n"))
    (found,) = trace.ranks[0]
    assert (found.collective, found.message_bytes) == message
    assert not trace.timed
    assert sorted(trace.ranks) == [0, 1]


def test_what_waits_for_what(tmp_path: Path) -> None:
    """The message in the background goes out while the rank computes, and is waited for; doubles, as init says."""
    text = "0 init 1\n1 init 1\n0 isend 1 0 1000\n0 compute 2e9\n0 wait\n0 compute 1e9\n0 finalize\n1 compute 5\n"
    layers = read_layers(written(tmp_path, text), unit="1Gf").layers
    assert [(one.collective, one.after, one.stated_us, one.rank) for one in layers] == [
        ("send_recv", (), None, 0),
        ("", (), 2e6, 0),
        ("", (0, 1), 1e6, 0),
        ("", (), 5e-3, 1),
    ]
    assert layers[0].message_bytes == 8000
    found = forecast(
        {"model": tmp_path / "lu.trace", "gpu": "MI300X", "gpus": 2, "time_unit": "1Gf"}
    )
    assert found.predicted == pytest.approx(3.0)


@pytest.mark.parametrize(
    ("text", "seconds"),
    [
        # each rank is the slower one once: neither alone takes 2 s
        (
            "0 compute 1e9\n0 allreduce 1 0\n0 compute 5e8\n1 compute 5e8\n1 allreduce 1 0\n1 compute 1e9\n",
            2.0,
        ),
        # a pipeline: the second rank has nothing to do before the first sends
        ("0 compute 1e9\n0 send 1 0 8\n1 recv 0 0 8\n1 compute 5e8\n", 1.5),
        (
            "0 compute 1e9\n0 isend 1 0 8\n0 wait\n1 irecv 0 0 8\n1 compute 2e8\n1 wait\n1 compute 5e8\n",
            1.5,
        ),
        ("0 compute 1e9\n1 compute 1.5e9\n", 1.5),
    ],
)
def test_all_ranks_are_played(tmp_path: Path, text: str, seconds: float) -> None:
    path = written(tmp_path, f"0 init\n1 init\n{text}")
    found = forecast({"model": path, "gpu": "MI300X", "gpus": 2, "time_unit": "1Gf"})
    assert found.predicted == pytest.approx(seconds, rel=1e-3)


def test_a_message_that_no_rank_sends_is_said(tmp_path: Path) -> None:
    graph = read_layers(written(tmp_path, "0 init\n0 recv 1 0 8\n0 compute 1e9\n"), unit="1Gf")
    assert [
        one.values["messages"] for one in graph.remarks if one.code == "messages-unmatched"
    ] == [1]


def test_messages_without_partners_widen_the_interval_up_to_one_rank_after_the_other(
    tmp_path: Path,
) -> None:
    """The second rank may wait for the first, or not, whichever end of their message the trace lacks."""
    ends = "0 send 1 0 8\n", "1 recv 0 0 8\n"
    text = "0 init\n1 init\n0 compute 1e9\n{}{}1 compute 5e8\n"
    known = read_layers(written(tmp_path, text.format(*ends)), unit="1Gf")
    assert known.spread == 0
    for lone in (ends[0], ""), ("", ends[1]):
        unknown = read_layers(written(tmp_path, text.format(*lone)), unit="1Gf")
        assert [
            one.values["messages"] for one in unknown.remarks if one.code == "messages-unmatched"
        ] == [1]
        assert math.exp(1.6449 * unknown.spread) == pytest.approx(1.5, rel=1e-3)


@pytest.mark.parametrize(
    ("text", "missing", "times"),
    [
        ("0 compute 1e9\n0 send 1 0 8\n", 1, 2),  # the rank that it sends to
        ("0 compute 1e9\n0 barrier\n2 compute 1e9\n2 barrier\n", 1, 3),  # the one between
        ("0 compute 1e9\n0 send 3 0 8\n", 3, 4),  # ranks below it have numbers too
    ],
)
def test_ranks_that_are_not_in_the_trace_widen_the_interval(
    tmp_path: Path, text: str, missing: int, times: float
) -> None:
    graph = read_layers(written(tmp_path, f"0 init\n{text}"), unit="1Gf")
    assert [one.values["ranks"] for one in graph.remarks if one.code == "ranks-missing"] == [
        missing
    ]
    assert math.exp(1.6449 * graph.spread) == pytest.approx(times, rel=1e-3)


def test_an_index_names_a_file_for_each_rank(tmp_path: Path) -> None:
    (tmp_path / "lu_files").mkdir()
    for rank in (0, 1):
        written(
            tmp_path / "lu_files",
            f"{rank} init\n{rank} compute {rank + 1}e9\n",
            f"{rank}_rank-{rank}.txt",
        )
    index = written(tmp_path, "lu_files/0_rank-0.txt\nlu_files/1_rank-1.txt\n", "lu.txt")
    assert is_graph(index)
    assert sorted(read_mpi_trace(index).ranks) == [0, 1]
    outside = written(tmp_path / "lu_files", "../lu.txt\n", "other.txt")
    assert not is_graph(outside)


def test_time_outside_of_mpi_is_computing(tmp_path: Path) -> None:
    trace = read_mpi_trace(written(tmp_path, PRINTED))
    assert [(one.kind, one.amount, one.message_bytes) for one in trace.ranks[0]] == [
        ("compute", pytest.approx(8e-6), 0),
        ("message", 0, 16),
        ("message that is waited for later", 0, 4),
        ("compute", pytest.approx(2e-6), 0),
    ]
    assert read_layers(tmp_path / "lu.trace").layers[0].stated_us == pytest.approx(8.0)


def test_the_size_of_an_all_reduce_counts_all_ranks(tmp_path: Path) -> None:
    second = PRINTED.replace("  0  ", "  1  ")
    trace = read_mpi_trace(written(tmp_path, PRINTED + second))
    assert {
        one.message_bytes
        for actions in trace.ranks.values()
        for one in actions
        if one.collective == "ALLREDUCE"
    } == {8}


def test_an_archive_of_otf2(tmp_path: Path) -> None:
    otf2 = pytest.importorskip("otf2", reason="otf2 is not installed (pip install otf2)")
    with otf2.writer.open(str(tmp_path / "archive"), timer_resolution=1_000_000) as trace:
        region = trace.definitions.region("MPI_Allreduce")
        node = trace.definitions.system_tree_node("node")
        for rank in range(2):
            group = trace.definitions.location_group(f"rank {rank}", system_tree_parent=node)
            writer = trace.event_writer("main", group=group)
            writer.enter(0, trace.definitions.region("main"))
            writer.enter(1000 + 500 * rank, region)
            writer.leave(1600, region)
    found = read_mpi_trace(tmp_path / "archive" / "traces.otf2")
    assert sorted(found.ranks) == [0, 1]
    assert [one.amount for one in found.ranks[1]] == pytest.approx([1.5e-3])


@pytest.mark.parametrize("unit", ["", "ms", "0f", "1e99Ef"])
def test_amounts_need_a_speed(tmp_path: Path, unit: str) -> None:
    with pytest.raises(ParameterError, match="time_unit"):
        read_layers(written(tmp_path, "0 init\n0 compute 1e9\n"), unit=unit)


@pytest.mark.parametrize(
    "text", ["0 init\n0 send 1\n", "0 init\n0 compute nan\n", "0 init\n0 finalize\n"]
)
def test_what_cannot_be_read_is_refused(tmp_path: Path, text: str) -> None:
    with pytest.raises(DataError):
        read_mpi_trace(written(tmp_path, text))


def test_lines_too_long_to_be_names_of_files_make_no_index(tmp_path: Path) -> None:
    assert not is_mpi_trace(written(tmp_path, "/".join(["folder" * 20] * 60)))


def test_a_speed_is_for_amounts(tmp_path: Path) -> None:
    with pytest.raises(ParameterError):
        read_layers(written(tmp_path, PRINTED), unit="1Gf")

"""JSON and CSV of rccl-tests and nccl-tests: each time is a row in microseconds, and wrong results are refused."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

import flopcast as fc
from flopcast.errors import DataError


def record(size: int, place: int, time: float, **other: Any) -> str:
    """Return a line of rccl-tests."""
    values = {
        "#wrong": "0", "algBw": 0.05, "busBw": 0.08, "gpus": 8, "inPlace": place, "name": "AllReduce",
        "redop": "sum", "size": size, "time": time, "type": "float",
    }  # fmt: skip
    return json.dumps(values | other) + "\n"


LINES = record(1024, 0, 19.18) + record(1024, 1, 20.18) + record(2048, 0, 21.18)
CSV = """numCycle,name,nodes,ranks,ranksPerNode,gpusPerRank,size,type,redop,inPlace,time,algBw,busBw,#wrong
0,AllGather,2,16,8,1,1048576,bfloat16,none,0,90.5,11.6,10.9,0
0,AllGather,2,16,8,1,1048576,bfloat16,none,1,92.5,11.3,10.6,N/A
"""
WRAPPED: dict[str, Any] = {
    "identifier": "nccl-tests structured output",
    "version": "2.26.6",
    "benchmark": [
        {"33554432": {
            "count": 1048576, "type": "float", "redop": "none", "root": "-1", "oop_time": 1494.25, "oop_algbw": 22.45,
            "oop_error": 0.0, "ip_time": 1459.5, "ip_algbw": 22.98, "ip_error": "N/A",
        }}
    ],
}  # fmt: skip
NESTED: dict[str, Any] = {
    "config": {"minimum_bytes": 8},
    "args": ["./build/reduce_scatter_perf", "-b", "8"],
    "devices": [
        {"rank": rank, "hostname": "node-a", "device_info": "NVIDIA H100 80GB HBM3"}
        for rank in range(4)
    ],
    "results": [
        {
            "size": 4096,
            "type": "half",
            "redop": "sum",
            "out_of_place": {"time": 10.5, "alg_bw": 0.39, "bus_bw": 0.29, "nwrong": 0},
            "in_place": {"time": 11.5, "alg_bw": 0.36, "bus_bw": 0.27, "nwrong": 3},
        }
    ],
}


def read(folder: Path, content: object, name: str = "out.json", **default: str) -> Any:
    """Return what is read of one file."""
    file = folder / name
    file.write_text(content if isinstance(content, str) else json.dumps(content))
    return fc.read(file, default={"device": "MI300X"} | default)


def test_both_ways_of_a_size_are_rows(tmp_path: Path) -> None:
    frame = read(tmp_path, LINES).frame
    assert sorted(frame["duration_us"]) == [19.18, 20.18, 21.18]
    assert sorted(frame["variant"]) == ["all_reduce", "all_reduce", "all_reduce in-place"]
    assert set(frame["ranks"]) == {8.0}
    assert set(frame["message_bytes"]) == {1024.0, 2048.0}
    listed = "[" + ",".join(LINES.splitlines()) + "]"
    assert sorted(read(tmp_path, listed).frame["duration_us"]) == [19.18, 20.18, 21.18]


def test_one_way_alone_is_a_row(tmp_path: Path) -> None:
    table = read(tmp_path, record(1024, 1, 20.18) + record(2048, 1, 22.18))
    assert sorted(table.frame["duration_us"]) == [20.18, 22.18]
    assert not len(table.rejected)


def test_csv_names_nodes(tmp_path: Path) -> None:
    frame = read(tmp_path, CSV, "out.csv").frame
    assert sorted(frame["duration_us"]) == [90.5, 92.5]
    assert set(frame["variant"]) == {"all_gather 2 nodes", "all_gather 2 nodes in-place"}
    assert set(frame["ranks"]) == {16.0}
    assert set(frame["dtype_a"]) == {"bf16"}


def test_a_collective_that_is_not_named_is_asked_for(tmp_path: Path) -> None:
    with pytest.raises(DataError, match="give default variant"):
        read(tmp_path, WRAPPED)
    frame = read(tmp_path, WRAPPED, variant="all_gather", ranks="8").frame
    assert sorted(frame["duration_us"]) == [1459.5, 1494.25]
    assert set(frame["message_bytes"]) == {33554432.0}
    assert len(read(tmp_path, WRAPPED, "alltoall.json", ranks="8").frame) == 2


def test_a_report_names_its_program_and_gpus_and_wrong_results_are_refused(tmp_path: Path) -> None:
    table = read(tmp_path, NESTED, device="")
    (row,) = table.frame.to_dict("records")
    assert (row["variant"], row["ranks"], row["device"]) == ("reduce_scatter", 4.0, "H100 SXM5")
    assert row["duration_us"] == 10.5
    assert table.rejected["reason"].tolist() == ["wrong-result"]
    wrong = record(1024, 0, 19.18, **{"#wrong": "7"}) + record(2048, 0, 21.18)
    assert read(tmp_path, wrong).frame["duration_us"].tolist() == [21.18]

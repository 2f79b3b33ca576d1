"""The files of one rocprofv3 run: whose times count, agents, launches, processes."""

from __future__ import annotations

from pathlib import Path

import pandas as pd
import pytest

from flopcast.readers.base import DataFile, Options
from flopcast.readers.rocprofv3_csv import Content, Run, agents, launches, linked, processes

TRACE = "Kind,Agent_Id,Dispatch_Id,Kernel_Name,Correlation_Id,Start_Timestamp,End_Timestamp"
COUNTERS = "Agent_Id,Dispatch_Id,Kernel_Name,Counter_Name,Counter_Value"
API = "Domain,Function,Process_Id,Thread_Id,Correlation_Id,Start_Timestamp,End_Timestamp"
AGENTS = "Node_Id,Logical_Node_Id,Agent_Type,Cu_Count,Gfx_Target_Version,Name,Product_Name"


def run(folder: Path, files: dict[str, str]) -> Run:
    found = []
    for name, text in files.items():
        file = folder / name
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_text(text, encoding="utf-8")
        found.append(DataFile(file, name, False))
    return Run(found, Options())


def label(found: Run) -> str:
    return found.timed.file.label if found.timed else ""


def test_times_are_those_of_the_first_pass_with_a_trace(tmp_path: Path) -> None:
    row = "\nKERNEL_DISPATCH,Agent 1,1,f,1,10,20\n"
    counted = f"{COUNTERS},Start_Timestamp,End_Timestamp\nAgent 1,1,f,X,1,10,20\n"
    found = run(
        tmp_path,
        {
            "pass_10/1_kernel_trace.csv": TRACE + row,
            "pass_2/2_kernel_trace.csv": TRACE + row,
            "pass_1/3_counter_collection.csv": counted,
            "pass_1/3_kernel_trace.csv": TRACE + "\n",
            "pass_2/2_hip_api_trace.csv": API + "\n",
            "pass_10/1_hip_api_trace.csv": API + "\n",
        },
    )
    assert label(found) == "pass_2/2_kernel_trace.csv"
    assert found.passes == ["pass_1", "pass_2", "pass_10"]
    assert [table.file.label for table in found.of_pass(Content.API)] == [
        "pass_2/2_hip_api_trace.csv"
    ]
    assert len(found.of(Content.KERNELS)) == 3


def test_counters_with_times_serve_where_there_is_no_trace(tmp_path: Path) -> None:
    old = f"{COUNTERS}\nAgent 1,1,f,X,1\n"
    new = f"{COUNTERS},Start_Timestamp,End_Timestamp\nAgent 1,1,f,X,1,10,20\n"
    assert label(
        run(
            tmp_path, {"pmc_1/1_counter_collection.csv": old, "pmc_2/2_counter_collection.csv": new}
        )
    ) == ("pmc_2/2_counter_collection.csv")
    assert run(tmp_path, {"pmc_1/1_counter_collection.csv": old}).timed is None


def test_agents_are_gpus_under_the_name_of_the_catalogue(tmp_path: Path) -> None:
    rows = "\n0,0,CPU,64,0,EPYC,EPYC\n4,1,GPU,304,90402,gfx942,AMD Instinct MI300X\n5,2,GPU,80,90402,gfx942,\n"
    gpus, remarks = agents(run(tmp_path, {"1_agent_info.csv": AGENTS + rows}))
    assert gpus.device("Agent 1") == "MI300X"
    assert gpus.device("Agent 2") == "MI308X"
    assert gpus.device("Agent 0") == ""
    assert remarks == []


def test_a_guessed_device_is_remarked_on_once(tmp_path: Path) -> None:
    rows = "\n4,1,GPU,304,90402,gfx942,\n5,2,GPU,304,90402,gfx942,\n6,3,GPU,,,,\n"
    gpus, remarks = agents(run(tmp_path, {"1_agent_info.csv": AGENTS + rows}))
    assert gpus.device("Agent 1") == "MI300X"
    assert gpus.device("Agent 3") == ""
    assert len(remarks) == 1


def test_only_calls_of_the_runtimes_launch(tmp_path: Path) -> None:
    rows = (
        "\nHIP_RUNTIME_API_EXT,hipLaunchKernel,7,7,1,10,20\nMARKER_CORE_API,step,7,7,2,10,20"
        "\nHSA_CORE_API,hsa_queue_create,7,7,3,10,20\nRCCL_API,ncclSend,7,7,4,10,20\n"
    )
    calls = launches(run(tmp_path, {"1_hip_api_trace.csv": API + rows}))
    assert calls["correlation"].tolist() == [1, 3]
    assert launches(run(tmp_path, {"1_kernel_trace.csv": TRACE + "\n"})).empty


def rows_of(*rows: tuple[str, int | None]) -> pd.DataFrame:
    guid, correlation = zip(*rows, strict=True)
    return pd.DataFrame(
        {
            "guid": pd.Categorical(guid),
            "correlation": pd.Series(correlation, dtype="Int64"),
            "process": pd.Series([None] * len(rows), dtype="Int64"),
        }
    )


def calls_of(*rows: tuple[str, int, int]) -> pd.DataFrame:
    guid, correlation, process = zip(*rows, strict=True)
    numbers = {"correlation": correlation, "process": process}
    return pd.DataFrame(
        {
            "guid": guid,
            **{name: pd.Series(values, dtype="Int64") for name, values in numbers.items()},
        }
    )


@pytest.mark.parametrize(
    ("calls", "expected"),
    [
        # ids of one process mean nothing in another
        ([("a", 1, 7), ("b", 2, 8)], [True, False, False]),
        ([("", 1, 7), ("", 2, 8)], [True, True, False]),
        ([("a", 5, 7)], [False, False, False]),
    ],
)
def test_a_row_is_linked_to_a_call_of_its_process(
    calls: list[tuple[str, int, int]], expected: list[bool]
) -> None:
    rows = rows_of(("a", 1), ("a", 2), ("b", None))
    assert linked(rows, calls_of(*calls)).tolist() == expected


def test_the_process_is_that_of_the_calls_else_that_of_the_name(tmp_path: Path) -> None:
    found = run(
        tmp_path, {"12_kernel_trace.csv": f"{TRACE}\nKERNEL_DISPATCH,Agent 1,1,f,1,10,20\n"}
    )
    rows = rows_of(("a", 1), ("b", 1), ("c", 1))
    assert processes(rows, calls_of(("a", 1, 7), ("b", 1, 8), ("b", 2, 9)), found).tolist() == [
        7,
        12,
        12,
    ]


def test_a_name_that_is_no_number_is_no_process(tmp_path: Path) -> None:
    found = run(
        tmp_path, {"run_kernel_trace.csv": f"{TRACE}\nKERNEL_DISPATCH,Agent 1,1,f,1,10,20\n"}
    )
    assert processes(rows_of(("", 1)), calls_of(("x", 1, 7)), found).isna().all()

"""Ingesting files: traces and tables to one Parquet file, with their quality; and training on what was read."""

from __future__ import annotations

import gzip
import json
from functools import partial
from pathlib import Path
from typing import Any

import pandas as pd
import pyarrow.parquet as pq
import pytest

import flopcast as fc
from flopcast.api.ingesting import ingest_dispatches, ingest_measurements
from flopcast.errors import DataError, ParameterError
from flopcast.output import METADATA
from flopcast.readers import Options, read
from flopcast.report.ingest import overview_json
from flopcast.table.problems import merge_duplicates
from flopcast.tests.commands import running
from flopcast.tests.readers.kineto.made_up import product, write
from flopcast.traces.dispatches import COLUMNS
from flopcast.workers import workers

run = partial(running.call, "ingest")
TIDY = "device,op,dtype,m,n,k,us\nMI300X,gemm,fp16,1,2,3,4\nMI300X,gemm,fp16,4,2,3,0\n"


def trace(path: Path, times: list[float]) -> Path:
    """Write a trace of products of growing height."""
    calls = [product(i, us, 1000.0 * i, height=16 * i) for i, us in enumerate(times, 1)]
    return write(path, [event for call in calls for event in call])


def test_a_trace_and_a_table_become_one_measurement_table(tmp_path: Path) -> None:
    trace(tmp_path / "t.json.gz", [10.0, 20.0])
    (tmp_path / "t.csv").write_text(TIDY)
    result = run(tmp_path, "-o", tmp_path / "runs.parquet")
    assert result.exit_code == 0, result.output
    frame = pd.read_parquet(tmp_path / "runs.parquet")
    assert frame[["device", "op", "m", "duration_us"]].to_numpy().tolist() == [
        ["MI300X", "gemm", 1, 4.0],
        ["MI300X", "gemm", 16, 10.0],
        ["MI300X", "gemm", 32, 20.0],
    ]
    assert "1 row rejected" in result.output
    assert f"Wrote {tmp_path / 'runs.parquet'} (3 rows)" in result.output


def test_the_table_written_reads_back_as_the_same_table(tmp_path: Path) -> None:
    ingest_measurements([trace(tmp_path / "t.json", [10.0, 20.0])], tmp_path / "a.parquet")
    ingest_measurements([tmp_path / "a.parquet"], tmp_path / "b.parquet")
    columns = ["device", "op", "m", "n", "k", "dtype_a", "duration_us", "repeats"]
    first, second = (pd.read_parquet(tmp_path / f"{name}.parquet")[columns] for name in "ab")
    pd.testing.assert_frame_equal(first, second)


def test_dispatches_are_one_row_for_each_activity_with_findings_beside_them(tmp_path: Path) -> None:
    trace(tmp_path / "a.json", [10.0, 20.0])
    trace(tmp_path / "b.json", [5.0, 0.0])
    result = run(tmp_path, "--dispatches", "-o", tmp_path / "d.parquet")
    assert result.exit_code == 0, result.output
    table = pd.read_parquet(tmp_path / "d.parquet")
    assert [name for name in table.columns if name in COLUMNS] == list(COLUMNS)
    assert table["duration_ns"].tolist() == [10_000, 20_000, 5_000, 0]
    assert table["flags"].tolist() == ["", "", "", "zero-duration"]
    assert table["flops"].tolist() == [2 * 16 * 64 * 32, 2 * 32 * 64 * 32] * 2
    beside = json.loads(pq.read_schema(tmp_path / "d.parquet").metadata[METADATA])
    assert [finding["code"] for finding in beside["traces"][1]["findings"]] == ["zero-duration"]
    assert "zero-duration" in result.output


def test_dispatches_go_to_csv_too(tmp_path: Path) -> None:
    ingest_dispatches([trace(tmp_path / "a.json", [10.0])], tmp_path / "d.csv")
    assert pd.read_csv(tmp_path / "d.csv")["duration_ns"].tolist() == [10_000]


def test_strict_refuses_impossible_times_and_writes_nothing(tmp_path: Path) -> None:
    trace(tmp_path / "a.json", [10.0, 0.0])
    for more in ([], ["--dispatches"]):
        result = run(tmp_path, "--strict", "-o", tmp_path / "out.parquet", *more)
        assert result.exit_code == 2
        assert result.stderr.startswith("error: --strict refuses: a.json:")
        assert "zero-duration" in result.stderr
        assert not (tmp_path / "out.parquet").exists()


def test_an_unreadable_file_is_told_and_the_others_are_read(tmp_path: Path) -> None:
    good = trace(tmp_path / "good.json", [10.0])
    bad = tmp_path / "bad.json"
    bad.write_bytes(good.read_bytes()[:-40])
    for more in ([], ["--dispatches"]):
        result = run(good, bad, *more)
        assert result.exit_code == 0, result.output
        assert "unreadable: " in result.output
        assert "bad.json" in result.output
        assert run(good, bad, "--strict", *more).exit_code == 2


def test_a_bomb_is_stopped_at_the_limit(tmp_path: Path) -> None:
    whole = trace(tmp_path / "t.json", [10.0]).read_bytes()
    bomb = tmp_path / "bomb.json.gz"
    bomb.write_bytes(gzip.compress(whole[:-1] + b" " * 3_000_000 + b"}"))
    assert ingest_measurements([bomb]).rows == 1
    with pytest.raises(DataError, match="raise the limit"):
        ingest_measurements([bomb], options=Options(max_bytes=1_000_000))


def test_nothing_readable_is_one_line(tmp_path: Path) -> None:
    (tmp_path / "t.json").write_text("{")
    for more in ([], ["--dispatches"]):
        result = run(tmp_path / "t.json", *more)
        assert result.exit_code == 2
        assert result.stderr.startswith("error: ")
        assert len(result.stderr.splitlines()) == 1


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        (["-o", "t.docx"], "--out"),
        (["--max-size", "many"], "--max-size"),
        (["--jobs", "0"], "--jobs -1 0"),
        (["--jobs", "0", "--dispatches"], "--jobs"),
        (["--dispatches", "--where", "op=gemm"], "--where"),
    ],
)
def test_bad_options_are_refused_in_one_line(
    tmp_path: Path, arguments: list[str], said: str
) -> None:
    result = run(trace(tmp_path / "t.json", [10.0]), *arguments)
    assert result.exit_code == 2
    assert all(word in result.stderr for word in said.split())


def test_json_holds_what_the_tables_show(tmp_path: Path) -> None:
    result = run(trace(tmp_path / "t.json", [10.0, 30.0]), "--json")
    found = json.loads(result.stdout)
    assert (found["rows"], found["traces"][0]["kernel_us"]) == (2, 40.0)
    assert found["traces"][0]["classes"][0]["op_class"] == "gemm"


def test_several_traces_in_processes_give_the_same_as_one_after_the_other(
    tmp_path: Path, monkeypatch: Any
) -> None:
    monkeypatch.setattr("flopcast.readers.reading._PARALLEL_BYTES", 0)
    for name in "abc":
        trace(tmp_path / f"{name}.json", [10.0, float(ord(name))])
    alone = ingest_measurements([tmp_path], tmp_path / "out" / "1.parquet")
    with workers(2):
        shared = ingest_measurements(
            [tmp_path / f"{name}.json" for name in "abc"], tmp_path / "out" / "2.parquet"
        )
    assert [overview_json(t) for t in alone.traces] == [overview_json(t) for t in shared.traces]
    first, second = (pd.read_parquet(tmp_path / "out" / f"{i}.parquet") for i in (1, 2))
    pd.testing.assert_frame_equal(first, second)


def test_each_repeat_may_be_a_row_of_its_own(tmp_path: Path) -> None:
    rows = "".join(f"MI300X,gemm,fp16,1,2,3,{time}\n" for time in (4, 6, 5))
    (tmp_path / "t.csv").write_text("device,op,dtype,m,n,k,us\n" + rows)
    ingest_measurements([tmp_path / "t.csv"], tmp_path / "out" / "one.parquet")
    assert pd.read_parquet(tmp_path / "out" / "one.parquet")["duration_us"].tolist() == [5.0]
    ingest_measurements(
        [tmp_path / "t.csv"], tmp_path / "out" / "each.parquet", options=Options(each=True)
    )
    frame = pd.read_parquet(tmp_path / "out" / "each.parquet")
    notes = read([tmp_path / "t.csv"], options=Options(each=True)).notes
    assert "repeats-stay-rows" in [note.code for note in notes]
    assert frame[["run", "duration_us"]].to_numpy().tolist() == [[1, 4.0], [2, 6.0], [3, 5.0]]
    pd.testing.assert_frame_equal(merge_duplicates(frame), frame)


def test_each_call_in_a_trace_may_be_a_row_of_its_own(tmp_path: Path) -> None:
    path = trace(tmp_path / "t.json", [10.0, 20.0])
    path.write_text(path.read_text().replace("[[32, 64]", "[[16, 64]"))
    assert ingest_measurements([path]).rows == 1
    assert ingest_measurements([path], options=Options(each=True)).rows == 2


def test_a_file_without_timings_is_refused_with_what_was_passed_over(tmp_path: Path) -> None:
    file = tmp_path / "bench.log"
    file.write_text("[0]:transA,transB,grouped_gemm,batch_count,m,n,k,us\n")
    result = run(file)
    assert result.exit_code == 2
    assert f"{file}: " in result.stderr
    assert "headers without a line of values" in result.stderr


def test_training_is_proposed_for_gpus_that_are_known_and_two_that_share_an_operator(
    tmp_path: Path,
) -> None:
    def proposed(*rows: str) -> str:
        (tmp_path / "t.csv").write_text(
            "\n".join(["device,op,dtype,m,n,k,rows,cols,us", *rows, ""])
        )
        return run(tmp_path / "t.csv").output

    one, other = "MI300X,gemm,fp16,1,2,3,,,4", "MI355X,gemm,fp16,1,2,3,,,4"
    assert "--host MI300X --target MI355X" in proposed(one, other)
    assert "--host" not in proposed(one, "MI355X,copy,fp16,,,,3,4,5")
    assert "train" not in proposed("Unheard,gemm,fp16,1,2,3,,,4")


def test_columns_of_other_names_are_read_under_ours(tmp_path: Path) -> None:
    table = pd.DataFrame({"what": ["gemm"], "card": ["MI300X"], "fmt": ["bf16"], "M_": [16], "N_": [32], "K_": [64],
                          "took": [12.5]})  # fmt: skip
    ours = {
        "what": "op",
        "card": "device",
        "fmt": "dtype",
        "M_": "m",
        "N_": "n",
        "K_": "k",
        "took": "duration_us",
    }
    table.to_csv(tmp_path / "x.csv", index=False)
    table.to_parquet(tmp_path / "x.parquet")
    for data in (tmp_path / "x.csv", tmp_path / "x.parquet", table):
        frame = fc.read(data, rename=ours).frame
        assert frame[["op", "device", "m", "duration_us"]].to_numpy().tolist() == [
            ["gemm", "MI300X", 16, 12.5]
        ]
    renames = [f"--rename={own}={name}" for own, name in ours.items()]
    for command in (["ingest", "x.csv"], ["compare", "x.csv", "x.parquet"]):
        assert (
            running.call(command[0], *(tmp_path / name for name in command[1:]), *renames).exit_code
            == 0
        )
    for wrong, nearest in (("wat=repeats", "what"), ("M_=mm", "m")):
        with pytest.raises(ParameterError, match=f"did you mean {nearest}\\?") as refused:
            fc.read(tmp_path / "x.csv", rename=dict([wrong.split("=")]))
        assert refused.value.parameter == "rename"
    with pytest.raises(DataError, match="M_"):  # a column that is missing: those found are named
        fc.read(table, rename={name: other for name, other in ours.items() if name != "M_"})
    with pytest.raises(DataError, match="'n'"):
        fc.read(table, rename=ours | {"M_": "n"})

"""Files that somebody else has damaged or made to harm: each costs itself alone, in one line, at once."""

from __future__ import annotations

import gzip
import io
import json
import os
import re
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path

import numpy as np
import pandas as pd
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from flopcast.errors import DataError
from flopcast.hardware import find
from flopcast.power.logs import read_power_log
from flopcast.readers import (
    Measurements,
    Options,
    Reader,
    TraceFailure,
    aiconfigurator,
    read,
    read_traces,
    readers,
)
from flopcast.readers.base import DataFile
from flopcast.readers.files import find_files, head, read_parquet
from flopcast.readers.reading import sort_files
from flopcast.readers.rocprof import read_table
from flopcast.table.conditions import conditions
from flopcast.tests.fuzz.corpus import Files, seeds
from flopcast.tests.fuzz.targets import TABLES, TRACES, write
from flopcast.traces.summary import Annotated

HEADER = "op,device,dtype,m,n,k,us,kernel\n"
ROW = "gemm,MI300X,bf16,16,512,7168,9.5,knl\n"


def read_beside_a_sound_file(folder: Path, name: str, content: bytes) -> Measurements:
    """Return what a folder holds: a file, and one with a sound row, which must be there."""
    (folder / name).write_bytes(content)
    (folder / "sound.csv").write_text(HEADER + ROW.replace(",16,", ",1234,"), encoding="utf-8")
    found = read([folder], lenient=True)
    assert found.frame["m"].eq(1234).sum() == 1
    return found


def test_a_lone_carriage_return_ends_a_line(tmp_path: Path) -> None:
    found = read_beside_a_sound_file(
        tmp_path, "a.csv", (HEADER + ROW + ROW.replace(",16,", ",16\r,") + ROW).encode()
    )
    assert found.unreadable == ()
    assert found.rejected["source"].tolist() == ["a.csv:3", "a.csv:4"]
    old_mac = (HEADER + ROW).replace("\n", "\r").encode()
    assert len(read_beside_a_sound_file(tmp_path, "a.csv", old_mac).frame) == 2


@pytest.mark.parametrize("name", ["a.csv", "power.csv"])
def test_an_open_quotation_mark_is_one_line(tmp_path: Path, name: str) -> None:
    content = (HEADER + ROW + '"' + ROW * 6000).encode()
    found = read_beside_a_sound_file(tmp_path, name, content)
    assert [why.startswith(f"{tmp_path / name}:3: ") for why in found.unreadable] == [True]
    with pytest.raises(DataError, match=rf"{name}:3: "):
        read([tmp_path / name])


def parquet(folder: Path, table: pa.Table) -> Path:
    path = folder / "a.parquet"
    pq.write_table(table, path)
    return path


def test_parquet_is_read_by_its_own_schema(tmp_path: Path) -> None:
    table = pa.Table.from_pandas(pd.read_csv(io.StringIO(HEADER + ROW)))
    binary = table.set_column(7, "kernel", pa.array([b"k\xff"]))
    for metadata in (b"{", b"[]", b'{"index_columns": [7], "columns": 5, "column_indexes": null}'):
        frame = read(
            [parquet(tmp_path, binary.replace_schema_metadata({b"pandas": metadata}))]
        ).frame
        assert frame[["m", "kernel"]].to_numpy().tolist() == [[16, r"k\xff"]]
    with pytest.raises(DataError, match="'us' more than once"):
        read([parquet(tmp_path, table.append_column("us", table["us"]))])
    nested = table.set_column(6, "us", pa.array([[9.5]]))
    with pytest.raises(DataError, match=r"\[9\.5\]"):
        read([parquet(tmp_path, nested)])


def test_columns_that_are_small_in_the_file_and_large_in_memory_are_refused(tmp_path: Path) -> None:
    rows = 4_000_000
    path = parquet(
        tmp_path, pa.table({name: np.full(rows, 16, np.int8) for name in ("m", "n", "k")})
    )
    assert path.stat().st_size < 100_000
    with pytest.raises(DataError, match="GiB"):
        read([path], options=Options(max_bytes=2**26))


def test_a_name_that_no_tool_writes_is_refused(tmp_path: Path) -> None:
    lines = "".join(f"-{i}" for i in (56, 28)) + "-3x5-128-28-14-16-1x2-2x2-1x1-0-NCHW-FP16-F="
    found = read_beside_a_sound_file(
        tmp_path,
        "gfx942130.HIP.fdb.txt",
        f"64{lines}{'x' * 200_000}:0.5,0,x;One:0.5,0,x\n".encode(),
    )
    assert found.rejected_by_reason == {"long-text": 1}
    assert found.rejected["detail"].str.len().max() < 300


def test_a_name_of_five_megabytes_costs_its_activity_alone(tmp_path: Path) -> None:
    event = {"ph": "X", "cat": "kernel", "ts": 1, "dur": 2, "args": {"device": 0}}
    long = {**event, "name": "x" * 5_000_000}
    sound = [
        {**event, "name": name, "ts": 10 * place}
        for place, name in enumerate(("k1", "k2"), start=1)
    ]
    path = tmp_path / "t.json"
    path.write_text(json.dumps({"traceEvents": [sound[0], long, sound[1]]}), encoding="utf-8")
    [(_, trace)] = read_traces([path])
    assert isinstance(trace, Annotated)
    assert trace.dispatches["name"].tolist() == ["k1", "k2"]
    [told] = [finding for finding in trace.findings if finding.code == "long-name"]
    assert (told.severity, told.count, told.source) == ("error", 1, "t.json:2")
    assert told.remark.values["letters"] == 5_000_000
    found = read_beside_a_sound_file(
        tmp_path, "t.json", json.dumps({"traceEvents": [long]}).encode()
    )
    assert [why.startswith("t.json:1: ") and "5000000" in why for why in found.unreadable] == [True]


def test_dimensions_beyond_every_memory_are_refused(tmp_path: Path) -> None:
    found = read_beside_a_sound_file(
        tmp_path, "a.csv", (HEADER + ROW.replace("7168", "1e15")).encode()
    )
    assert found.rejected_by_reason == {"huge-dimension": 1}


def test_a_cell_that_no_formula_knows_costs_its_row_alone(tmp_path: Path) -> None:
    content = HEADER.replace("kernel", "scale_block") + ROW.replace("knl", "3x7")
    found = read_beside_a_sound_file(tmp_path, "a.csv", content.encode())
    assert found.rejected_by_reason == {"unknown-scale-block": 1}


SAMPLES = [(target, files) for target in (*TABLES, *TRACES) for files in seeds()[target]]


@pytest.mark.parametrize(("target", "files"), SAMPLES)
def test_the_limit_of_sizes_holds_for_every_reader(
    tmp_path: Path, target: str, files: Files
) -> None:
    packed = {
        name: content if name.endswith(".xlsx") else gzip.compress(content)  # that is packed
        for name, content in files.items()
    }
    write(tmp_path, packed)
    options = Options(max_bytes=20)
    sources = sort_files(find_files([tmp_path])).sources
    holds_sums = any(isinstance(source.reader, Reader) for source in sources)
    if (target in TABLES or holds_sums) and "few.csv" not in files:  # it has no column `op`
        with pytest.raises(DataError, match="raise the limit"):
            read([tmp_path], options=options)
    elif target in TRACES and target != "rocprofiler-compute":  # some of its files are too small
        found = [trace for _, trace in read_traces([tmp_path], options=options)]
        failures = [trace for trace in found if isinstance(trace, TraceFailure)]
        assert any("raise the limit" in str(failure.error) for failure in failures)


@pytest.mark.parametrize(("target", "files"), SAMPLES)
def test_no_two_readers_recognise_one_file(tmp_path: Path, target: str, files: Files) -> None:
    write(tmp_path, files)
    special = [reader for reader in readers() if not getattr(reader, "fallback", False)]
    for file in find_files([tmp_path]):
        names = [reader.name for reader in special if reader.sniff(file.path, head(file.path))]
        assert len(names) == (not (target.startswith("tidy") or file.label == "et.json")), (
            file.label,
            names,
        )


def test_names_of_files_that_are_not_utf8_are_shown(tmp_path: Path) -> None:
    name = os.fsencode(tmp_path) + b"/caf\xe9.csv"
    with open(name, "wb") as file:
        file.write((HEADER + ROW + ROW.replace("16", "x")).encode())
    found = read([tmp_path])
    texts = [*found.frame["source"], *found.frame["campaign"], *found.rejected["source"]]
    assert [text.encode().decode() for text in texts] == [
        r"caf\udce9.csv:2",
        r"caf\udce9",
        r"caf\udce9.csv:3",
    ]
    with open(name, "wb") as file:
        file.write(b"nothing")
    with pytest.raises(DataError) as refused:
        read([os.fsdecode(name)])
    assert r"caf\udce9.csv" in str(refused.value)


def test_an_integer_no_fraction_can_hold_costs_no_other_file(tmp_path: Path) -> None:
    header = "gfx,cu_num,M,N,K,libtype,kernelId,splitK,us,kernelName,tflops,bw,errRatio\n"
    for name, split in (("a", -(2**63)), ("b", 3.0)):
        row = f"gfx942,304,16,512,7168,ck,8,{split},6.5,{name},1,1,0.0\n"
        (tmp_path / f"a8w8_tuned_gemm_{name}.csv").write_text(header + row, encoding="utf-8")
    assert read([tmp_path]).frame["repeats"].tolist() == [2]


def test_a_table_of_aiter_without_names_of_kernels_is_read(tmp_path: Path) -> None:
    content = b"gfx,cu_num,M,N,K,us,kernelName1\ngfx942,304,16,512,7168,6.5,knl\n"
    found = read_beside_a_sound_file(tmp_path, "a8w8_tuned.csv", content)
    assert set(found.frame["kernel"]) == {"knl"}


@pytest.mark.parametrize("value", ["9" * 4000, "9" * 5000, "1e400", "nan", "-1", "[" * 2000])
def test_figures_of_a_gpu_that_cannot_be_are_one_line(tmp_path: Path, value: str) -> None:
    (tmp_path / "gpu.toml").write_text(
        f'based_on = "MI300X"\nmemory_bw_gbs = {value}\n', encoding="utf-8"
    )
    with pytest.raises(DataError) as refused:
        find(tmp_path / "gpu.toml")
    assert len(str(refused.value)) < 500
    assert "\n" not in str(refused.value)


@pytest.mark.parametrize(
    "row", ["1,1e400", "1,500_", "1,5__0", "99999999999999999999,5", "9" * 5000 + ",5"]
)
def test_readings_of_power_that_cannot_be_are_one_line(tmp_path: Path, row: str) -> None:
    (tmp_path / "p.csv").write_text(f"time_ns,power_w\n{row}\n", encoding="utf-8")
    with pytest.raises(DataError) as refused:
        read_power_log(tmp_path / "p.csv")
    assert len(str(refused.value)) < 500


@pytest.mark.parametrize("value", ["9" * 5000, "[" * 100_000])
def test_json_that_python_does_not_decode_is_one_line(tmp_path: Path, value: str) -> None:
    (tmp_path / "p.json").write_text(f'[{{"gpu": 0, "socket_power": {value}}}]', encoding="utf-8")
    with pytest.raises(DataError, match="is no JSON"):
        read_power_log(tmp_path / "p.json")


def test_a_spread_that_cannot_be_costs_its_row(tmp_path: Path) -> None:
    content = (
        HEADER.replace("kernel", "spread_us")
        + ROW.replace("knl", "-1e400")
        + ROW.replace("knl", "-1")
    )
    found = read_beside_a_sound_file(tmp_path, "a.csv", content.encode())
    assert found.rejected_by_reason == {"impossible-spread": 2}


def test_parquet_whose_text_is_none_is_one_line(tmp_path: Path) -> None:
    foreign = pa.Array.from_buffers(
        pa.string(), 1, [None, pa.py_buffer(np.int32([0, 4])), pa.py_buffer(b"gem\xf5")]
    )
    path = parquet(tmp_path, pa.table({"op": foreign, "device": ["MI300X"], "m": [1], "us": [1.0]}))
    found = read_beside_a_sound_file(tmp_path, path.name, path.read_bytes())
    assert [why.startswith(f"{path}: ") for why in found.unreadable] == [True]


def test_a_header_that_is_one_field_of_megabytes_is_one_line(tmp_path: Path) -> None:
    (tmp_path / "results.csv").write_bytes(
        b'Index,KernelName,gpu-id,queue-id,"' + b"x" * 200_000 + b'"\n0,knl,0,0,1\n'
    )
    file = DataFile(tmp_path / "results.csv", "results.csv", named=True)
    with pytest.raises(DataError, match="first line"):
        read_table(file, Options({}, {}))


def test_a_number_behind_a_control_letter_costs_its_row(tmp_path: Path) -> None:
    sound = seeds()["nsys stats"][0]
    damaged = {name: re.sub(rb"(?m)^\d+", b"\x1c5", data, count=2) for name, data in sound.items()}
    assert damaged != sound
    write(tmp_path, damaged)
    [(_, found)] = read_traces([tmp_path])
    assert isinstance(found, Annotated)


def read_with_each_byte_of_the_footer_zero(
    folder: Path, table: pa.Table, look: Callable[[Path], object]
) -> None:
    """Read a Parquet file once for each byte that describes its columns; only DataError may come of it."""
    path = folder / "gemm_perf.parquet"
    pq.write_table(table, path, store_schema=False)
    sound = path.read_bytes()
    look(path)
    length = int.from_bytes(sound[-8:-4], "little")
    for place in range(len(sound) - 8 - length, len(sound) - 8):
        path.write_bytes(sound[:place] + bytes(1) + sound[place + 1 :])
        with suppress(DataError):
            look(path)


def damaged_columns(folder: Path) -> None:
    table = pa.table({"us": [1.5, 2.0, None], "op": ["gemm", "x", None]})
    read_with_each_byte_of_the_footer_zero(folder, table, read_parquet)


def damaged_statistics(folder: Path) -> None:
    """What tells of which engine a table is may be a column of numbers."""
    words = {"version": ["1.0"], "device": ["NVIDIA B200"], "kernel_source": ["x"]}
    table = pa.table({"framework": [7], **words})
    asked = conditions("engine=vllm")

    def look(path: Path) -> None:
        aiconfigurator.excluded(path, asked)

    read_with_each_byte_of_the_footer_zero(folder, table, look)


@pytest.mark.parametrize("damage", [damaged_columns, damaged_statistics])
def test_a_damaged_footer_of_parquet_does_not_end_the_process(
    tmp_path: Path, damage: Callable[[Path], None]
) -> None:
    child = os.fork()
    if not child:
        code = 1
        try:
            damage(tmp_path)
            code = 0
        finally:
            os._exit(code)
    _, status = os.waitpid(child, 0)
    assert status == 0

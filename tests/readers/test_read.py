"""Reading any mix of files: detection, notes, errors, a reader of one's own; and the shared measured data."""

from __future__ import annotations

import hashlib
from collections.abc import Iterator
from pathlib import Path

import pandas as pd
import pytest

from flopcast.errors import DataError
from flopcast.readers import (
    Measurements,
    Note,
    Options,
    RawTable,
    Reader,
    formats,
    read,
    read_rows,
    readers,
    register,
)
from flopcast.readers.base import _READERS
from flopcast.remarks import remark
from flopcast.table.conditions import select
from flopcast.table.measurements import REFUSED
from flopcast.table.problems import best_kernel, problem_columns

TIDY = "device,op,dtype,m,n,k,us\nMI300X,gemm,fp16,1,2,3,4\n"
AITER = "gfx,cu_num,M,N,K,us,kernelName\ngfx942,304,1,2,3,6,k\n"
MIOPEN = "4-8-8-1x1-4-8-8-2-0x0-1x1-1x1-0-NCHW-FP16-F=One:0.5,0,x\n"


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    files = {
        "mine.txt": TIDY,
        "a8w8_tuned_gemm.dat": AITER,
        "sub/gfx942130.log": MIOPEN,
        "README.md": "# Hello\n",
    }
    for name, content in files.items():
        (tmp_path / name).parent.mkdir(exist_ok=True)
        (tmp_path / name).write_text(content, encoding="utf-8")
    return tmp_path


def test_formats_are_told_by_content_and_mixed_in_one_table(folder: Path) -> None:
    measured = read([folder])
    assert sorted(measured.frame["source"]) == [
        "a8w8_tuned_gemm.dat:2",
        "mine.txt:2",
        "sub/gfx942130.log:1",
    ]
    assert sorted(measured.frame["duration_us"]) == [4.0, 6.0, 500.0]
    assert measured.notes[-1] == remark("files-skipped", files=("README.md",))
    assert measured.frame["layout"].isna().sum() == 0
    pd.testing.assert_frame_equal(read([folder]).frame, measured.frame)


def test_columns_of_files_that_are_left_out_go_with_them(folder: Path) -> None:
    assert {"layout", "m"} <= set(read([folder]).frame)
    found = read([folder], where=["op=gemm"]).frame
    assert "layout" not in found
    assert found["m"].tolist() == [1.0, 1.0]


def test_equal_notes_of_several_files_are_one(folder: Path) -> None:
    for i in range(5):
        (folder / f"a8w8_tuned_gemm_{i}.csv").write_text(
            AITER.replace(",1,", f",{i + 2},"), encoding="utf-8"
        )
    notes = [note for note in read([folder]).notes if note.code == "device-by-gfx"]
    assert len(notes) == 1
    files = ("a8w8_tuned_gemm.dat", *(f"a8w8_tuned_gemm_{i}.csv" for i in range(5)))
    assert notes[0].values["rows"] == 7
    assert set(files) < set(notes[0].values["files"])


@pytest.mark.parametrize(
    ("content", "says"),
    [
        (b"# Some words", r"README\.md.*# Some words.*AITER"),
        (b" ", "empty"),
        ("a,b".encode("utf-16"), "UTF-8"),
        (b"PK\x03\x04\x14", "CSV"),
    ],
)
def test_a_named_file_of_no_known_format_is_an_error(
    folder: Path, content: bytes, says: str
) -> None:
    (folder / "README.md").write_bytes(content)
    with pytest.raises(DataError, match=says):
        read([folder, folder / "README.md"])


def test_a_damaged_file_in_a_folder_is_a_note(folder: Path) -> None:
    (folder / "broken.gz").write_bytes(b"\x1f\x8b not gzip")
    [error] = read([folder]).unreadable
    assert "broken.gz" in error


@pytest.mark.parametrize(
    ("content", "message"),
    [
        ("no table", "nothing readable.*latency_ms.*AITER"),
        ("device,op,m,n,k,us\n", "files have no rows"),
        ("device,op,dtype,m,n,k,us\n,gemm,fp8,1,2,3,4\n", r"x\.csv:2.*no-device: 1"),
    ],
)
def test_nothing_to_read_is_an_error(tmp_path: Path, content: str, message: str) -> None:
    (tmp_path / "x.csv").write_text(content, encoding="utf-8")
    with pytest.raises(DataError, match=message):
        read([tmp_path])


@pytest.fixture
def _own_reader() -> Iterator[None]:
    before = list(_READERS)

    @register
    class Lines(Reader):
        name = "lines"

        def sniff(self, path: Path, head: bytes) -> bool:
            return head.startswith(b"op,MAGIC")

        def read(self, path: Path, options: Options) -> RawTable:
            times = path.read_text(encoding="utf-8").splitlines()[1:]
            rows = pd.DataFrame(
                {
                    "duration_us": [float(t) * 1e6 for t in times],
                    "file_line": range(2, len(times) + 2),
                }
            )
            rows = rows.assign(op="softmax", rows=3, cols=4, dtype_a="fp32", device="mi300x")
            return RawTable(rows, [Note(remark("made-of-lines"), len(rows))])

    yield
    _READERS[:] = before


@pytest.mark.usefixtures("_own_reader")
def test_a_reader_of_ones_own_is_asked_before_the_general_ones(tmp_path: Path) -> None:
    (tmp_path / "x").write_text("op,MAGIC\n0.5\n0\n", encoding="utf-8")
    measured = read([tmp_path])
    assert measured.frame[["device", "duration_us", "source"]].to_numpy().tolist() == [
        ["MI300X", 5e5, "x:2"]
    ]
    assert measured.rejected["source"].tolist() == ["x:3"]
    assert measured.notes == (remark("made-of-lines", rows=2, files=("x",)),)
    assert "lines" in formats().split(", ")
    names = [reader.name for reader in readers()]
    assert "lines" in names[:-2]
    assert names[-3:] == ["tidy CSV", "tidy Parquet", "tidy xlsx"]


def test_every_row_in_the_order_of_files_and_lines(folder: Path) -> None:
    repeated = (
        TIDY + "MI300X,gemm,fp16,1,2,3,0\nMI300X,gemm,fp16,1,2,3,4,9\nMI300X,gemm,fp16,1,2,3,4\n"
    )
    (folder / "mine.txt").write_text(repeated, encoding="utf-8")
    (folder / "sub" / "gfx942130.log").write_text(
        MIOPEN + "not=a key\n" + MIOPEN.replace("-2-0x0", "-4-0x0"), encoding="utf-8"
    )
    rows, notes = read_rows([folder / "sub" / "gfx942130.log", folder])
    assert list(zip(rows["source"], rows[REFUSED], strict=True)) == [
        ("gfx942130.log:1", ""),
        ("gfx942130.log:2", "not-a-convolution"),
        ("gfx942130.log:3", ""),
        ("a8w8_tuned_gemm.dat:2", ""),
        ("mine.txt:2", ""),
        ("mine.txt:3", "zero-duration"),
        ("mine.txt:4", "line-unlike-header"),
        ("mine.txt:5", ""),
    ]
    assert rows["duration_us"].tolist()[-1] == 4.0
    assert notes[-1] == remark("files-skipped", files=("README.md",))
    assert "_order" not in rows
    assert "_order" not in read([folder]).frame


def test_shapes_without_device_and_duration_are_rows_where_no_time_is_needed(
    tmp_path: Path,
) -> None:
    (tmp_path / "x.csv").write_text(
        "op,dtype_a,m,n,k,time\ngemm,fp8,1,2,3,\ngemm,fp8,0,2,3,7\n", encoding="utf-8"
    )
    with pytest.raises(
        DataError,
        match=r"column 'time' has no unit: .*; no column 'device': .*; the columns are op, ",
    ):
        read_rows([tmp_path])
    rows, _ = read_rows([tmp_path], timed=False)
    assert rows[REFUSED].tolist() == ["", "dimension-not-positive"]
    assert rows["duration_us"].isna().all()
    (tmp_path / "x.csv").write_text("op,dtype_a,m\ngem,fp8,1\ngem,fp8,2\n", encoding="utf-8")
    with pytest.raises(DataError, match=r"x\.csv:2.*unknown-operator: 2"):
        read_rows([tmp_path], timed=False)


def test_aiter_counts(aiter_data: Measurements) -> None:
    counts = aiter_data.frame.groupby(["op", "device"]).size()
    assert counts["gemm"].to_dict() == {
        "MI300X": 12952,
        "MI308X": 1842,
        "MI355X": 21686,
        "MI455X": 615,
        "gfx1250 (96 CUs)": 143,
    }
    assert counts["batched_gemm"].to_dict() == {"MI300X": 26, "MI355X": 77}
    assert counts["moe"].sum() == 2472
    assert aiter_data.rejected_by_reason == {
        "zero-duration": 217, "dimension-not-positive": 26, "above-peak": 6, "infinite-duration": 1,
    }  # fmt: skip
    assert set(aiter_data.rejected.query("reason == 'dimension-not-positive'")["detail"]) == {
        "topk = -1"
    }
    assert [note.code for note in aiter_data.notes].count("gfx-by-units") == 3


def test_aiter_block_scale_pairs(aiter_data: Measurements) -> None:
    chosen = select(aiter_data.frame, {"op": ["gemm"], "family": ["a8w8_blockscale"]})
    assert chosen["device"].value_counts().to_dict() == {"MI355X": 15364, "MI300X": 12936}
    assert not chosen["campaign"].str.contains("bpreshuffle").any()
    assert (
        chosen[["dtype_a", "dtype_b", "dtype_out", "scale_block"]]
        == ["fp8", "fp8", "bf16", "1x128"]
    ).all(axis=None)
    names = problem_columns(chosen, "gemm")
    pairs = chosen[chosen["device"] == "MI300X"].merge(
        chosen[chosen["device"] == "MI355X"], on=names
    )
    assert len(pairs) == 429
    assert len(pairs.drop_duplicates(["n", "k"])) == 16


@pytest.mark.long
def test_miopen_counts(miopen_data: Measurements) -> None:
    measured = miopen_data
    assert measured.frame["device"].value_counts().to_dict() == {
        "MI250X (per GCD)": 73585, "MI210": 73574, "MI100": 73356, "MI300X": 30414,
    }  # fmt: skip
    assert measured.rejected_by_reason == {"zero-duration": 251}
    best = best_kernel(measured.frame)
    assert best["device"].value_counts().to_dict() == {
        "MI100": 21037,
        "MI210": 21037,
        "MI250X (per GCD)": 21037,
        "MI300X": 7734,
    }
    names = problem_columns(best, "conv")
    shared = best.groupby(names)["device"].nunique()
    assert int((shared == 4).sum()) == 5172


def test_ops_counts(shared_data: Path) -> None:
    measured = read([shared_data / "ops"])
    assert measured.frame["device"].value_counts().to_dict() == {"MI210": 20610, "MI100": 20454}
    assert measured.rejected.empty
    assert set(measured.frame["dtype_a"]) == {"fp32"}
    assert measured.frame["repeats"].value_counts().to_dict() == {1.0: 41058, 2.0: 6}
    assert [note.values["rows"] for note in measured.notes if note.code == "fp32-assumed"] == [
        20736
    ]


def test_rows_are_chosen_before_repeats_are_merged(tmp_path: Path) -> None:
    """A repeat of another campaign must not change, or hide, the rows of the campaign asked for."""
    for campaign, time in (("first", 10.0), ("second", 20.0)):
        rows = {
            "device": ["MI300X"],
            "op": ["gemm"],
            "dtype_a": ["bf16"],
            "m": [16],
            "n": [16],
            "k": [16],
        }
        pd.DataFrame({**rows, "t_us": [time]}).to_csv(tmp_path / f"{campaign}.csv", index=False)
    both = read([tmp_path]).frame
    assert both["duration_us"].tolist() == [15.0]
    assert read([tmp_path], where={"campaign": ["first"]}).frame["duration_us"].tolist() == [10.0]


def test_a_value_that_changes_nothing_is_told(tmp_path: Path) -> None:
    file = tmp_path / "mine.csv"
    file.write_text(
        "device,op,dtype,m,n,k,latency_us\nMI300X,gemm,fp16,1,2,3,4\n", encoding="utf-8"
    )
    assert "default-unused" not in [
        note.code for note in read([file], defaults={"device": "mi300x"}).notes
    ]
    (note,) = (
        note
        for note in read([file], defaults={"device": "MI325X"}).notes
        if note.code == "default-unused"
    )
    assert (note.values["column"], note.values["value"]) == ("device", "MI325X")


def test_a_table_in_memory_is_read_like_a_file(tmp_path: Path) -> None:
    table = pd.DataFrame(
        {
            "device": "mi300x",
            "op": "gemm",
            "dtype_a": "bf16",
            "m": [1, 2, 2],
            "n": 3,
            "k": 4,
            "time_ms": [1.0, 2.0, 3.0],
        }
    )
    found = read([table]).frame
    assert found["device"].unique().tolist() == ["MI300X"]
    assert found[["duration_us", "source"]].to_numpy().tolist() == [
        [1000.0, "row 1"],
        [2500.0, "row 2 (+1 more)"],
    ]
    table.to_csv(tmp_path / "t.csv", index=False)
    pd.testing.assert_series_equal(
        read([tmp_path / "t.csv"]).frame["duration_us"], found["duration_us"]
    )
    both = read([table, tmp_path / "t.csv"]).frame
    assert both["repeats"].tolist() == [2.0, 4.0]
    again = read([found]).frame
    pd.testing.assert_frame_equal(again[found.columns], found)
    assert read_rows([table])[0]["source"].tolist() == ["row 1", "row 2", "row 3"]


def test_every_file_that_was_read_is_known_by_its_hash(tmp_path: Path) -> None:
    header = "device,op,dtype_a,m,n,k,duration_us\n"
    texts = {
        "a.csv": header + "A,gemm,bf16,1,2,3,4\n",
        "b/a.csv": header + "B,gemm,bf16,1,2,3,4\n",
        "note.txt": "no",
    }
    for name, text in texts.items():
        (tmp_path / name).parent.mkdir(exist_ok=True)
        (tmp_path / name).write_text(text, encoding="utf-8")
    found = read([tmp_path], where="device=A")
    expected = [
        (name, len(texts[name]), hashlib.sha256(texts[name].encode()).hexdigest())
        for name in ("a.csv", "b/a.csv")
    ]
    assert [(file.name, file.size, file.sha256) for file in found.files] == expected
    assert read([found.frame]).files == ()


SUMS = '"Name","Calls","TotalDurationNs","AverageNs","Percentage","MinNs","MaxNs","StdDev"\n"f",9,500,50.0,100,4,5,0.1\n'
COUNTED = "Agent_Id,Dispatch_Id,Kernel_Name,Counter_Name,Counter_Value\n1,1,f,SQ_WAVES,64\n"
NCU = (
    '"ID","Process ID","Process Name","Host Name","Kernel Name","Context","Stream","Device","CC","Section Name",'
    '"Metric Name","Metric Unit","Metric Value"\n'
    '"0","1","app","h","vecAdd","1","7","0","9.0","GPU Speed Of Light Throughput","Duration","us","50.18"\n'
)


@pytest.mark.parametrize(
    ("name", "content", "says"),
    [
        ("1_hip_api_stats.csv", SUMS, "sums-only.*--kernel-trace"),
        ("1_counter_collection.csv", COUNTED, "counters-without-times.*--kernel-trace"),
        (
            "counters.csv",
            "Index,KernelName,gpu-id,grd,wgr,SQ_WAVES\n0,f,0,64,64,1\n",
            "counters-without-times",
        ),
        ("run.nsys-rep", "\x01\x02", "nsys export --type sqlite"),
        ("run.ncu-rep", "NVR\x00", "ncu --import"),
        ("ncu.csv", NCU, "--section LaunchStats"),
        (
            "ort.json",
            '[{"cat" : "Session","pid" :1,"ph" : "X","name" :"model_loading"}]',
            "ONNX Runtime",
        ),
    ],
)
def test_a_file_that_cannot_be_used_is_told_for_what_it_is(
    tmp_path: Path, name: str, content: str, says: str
) -> None:
    file = tmp_path / name
    file.write_text(content, encoding="utf-8")
    with pytest.raises(DataError, match=says) as refused:
        read([file], defaults={"device": "MI300X"})
    assert "have no rows" not in str(refused.value)
    assert "no-activities" not in str(refused.value)

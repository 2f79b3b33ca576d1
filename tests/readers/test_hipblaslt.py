"""hipblaslt-bench: headers of several versions, blocks within a log, devices, and what is refused."""

from __future__ import annotations

from pathlib import Path

import pytest

from flopcast.errors import DataError
from flopcast.readers.base import Note, Options, RawTable
from flopcast.readers.hipblaslt import HipblasltReader
from flopcast.remarks import remark
from flopcast.table.measurements import clean

DEVICE = """\
hipBLASLt version: 1200
Query device success: there are {count} devices
-------------------------------------------------------------------------------
"""
MI300X = "Device ID {} : AMD Instinct MI300X gfx942:sramecc+:xnack-\nwith 205.6 GB memory, max. SCLK 2100 MHz\n"
HEADER = (
    "[0]:transA,transB,grouped_gemm,batch_count,m,n,k,alpha,lda,stride_a,beta,ldb,stride_b,ldc,stride_c,ldd,stride_d,"
    "a_type,b_type,c_type,d_type,compute_type,scaleA,scaleB,scaleC,scaleD,amaxD,activation_type,bias_vector,bias_type,"
    "aux_type,rotating_buffer,hipblaslt-Gflops,hipblaslt-GB/s,us"
)
VALUES = {
    "transA": "T", "transB": "N", "grouped_gemm": "0", "batch_count": "1", "m": "4096", "n": "16", "k": "7168",
    "alpha": "1", "lda": "7168", "stride_a": "29360128", "beta": "0", "ldb": "7168", "stride_b": "114688",
    "ldc": "4096", "stride_c": "65536", "ldd": "4096", "stride_d": "65536", "a_type": "bf16_r", "b_type": "bf16_r",
    "c_type": "bf16_r", "d_type": "bf16_r", "compute_type": "f32_r", "scaleA": "0", "scaleB": "0", "scaleC": "0",
    "scaleD": "0", "amaxD": "0", "activation_type": "none", "bias_vector": "0", "bias_type": "non-supported type",
    "aux_type": "non-supported type", "rotating_buffer": "0", "hipblaslt-Gflops": "93112.4", "hipblaslt-GB/s": "812.4",
    "us": "10.0911",
}  # fmt: skip
OLD = """\
transA,transB,grouped_gemm,batch_count,M,N,K,alpha,lda,stride_a,beta,ldb,stride_b,ldc,stride_c,ldd,stride_d,d_type,\
compute_type,activation_type,bias_vector,hipblaslt-Gflops,us
    N,T,0,1,1024,512,256,1,1024,262144,0,512,131072,1024,524288,1024,524288,f16_r,f32_r,none,0,12156.4,22.08
"""


def values(**changes: str) -> str:
    return "    " + ",".join({**VALUES, **changes}.values())


def block(**changes: str) -> str:
    return f"{HEADER}\n{values(**changes)}\n"


def read(folder: Path, log: str, **defaults: str) -> RawTable:
    file = folder / "bench.log"
    file.write_text(log, encoding="utf-8")
    assert HipblasltReader().sniff(file, file.read_bytes())
    return HipblasltReader().read(file, Options(defaults=defaults))


def rows(folder: Path, log: str, **defaults: str) -> list[dict[str, object]]:
    """Return the accepted rows."""
    return clean(read(folder, log, **defaults).rows.assign(source="x")).frame.to_dict("records")


def log_of(*blocks: str) -> str:
    return DEVICE.format(count=1) + MI300X.format(0) + "".join(blocks)


def test_a_block(tmp_path: Path) -> None:
    (row,) = rows(tmp_path, log_of(block()))
    expected = {
        "op": "gemm", "m": 16, "n": 4096, "k": 7168, "batch": 1, "dtype_a": "bf16", "dtype_b": "bf16",
        "dtype_out": "bf16", "duration_us": 10.0911, "device": "AMD Instinct MI300X", "layout": "tn", "variant": "",
        "scale_block": "", "library": "hipblaslt", "kernel": "", "tuned": False, "file_line": 7, "campaign": "bench",
    }  # fmt: skip
    assert {name: row[name] for name in expected} == expected


def test_several_blocks_with_other_lines_between(tmp_path: Path) -> None:
    first = (
        block()
        + "    --Solution index: 71243\n    --Solution name:  Cijk_Alik_Bljk_BBS_BH_MT64x16\n"
    )
    second = "[1]" + block(n="32", us="11.5").removeprefix("[0]") + "    --Solution index: 71300\n"
    found = rows(tmp_path, log_of(first, "Is supported 1 / Total solutions: 2\n\n", second))
    assert [(row["m"], row["duration_us"], row["kernel"]) for row in found] == [
        (16, 10.0911, "Cijk_Alik_Bljk_BBS_BH_MT64x16"), (32, 11.5, "71300"),
    ]  # fmt: skip


def test_columns_are_found_by_name_whatever_the_flags(tmp_path: Path) -> None:
    header = HEADER.replace("us", "lowest-freq,median-freq,us,CPU-Gflops,CPU-us,norm_error")
    line = values(us="1000,2100,10.5,3.1,123456,0")
    (row,) = rows(tmp_path, log_of(f"{header}\n{line}\n"))
    assert row["duration_us"] == 10.5


def test_the_older_columns(tmp_path: Path) -> None:
    table = read(tmp_path, OLD)
    row = table.rows.iloc[0]
    assert (row["m"], row["n"], row["k"], row["duration_us"], row["dtype_out"]) == (
        "512",
        "1024",
        "256",
        "22.08",
        "f16",
    )
    rejected = clean(table.rows.assign(source="x", device="MI210")).rejected
    assert rejected["reason"].tolist() == ["no-number-format"]  # the line states that of D alone


@pytest.mark.parametrize(
    ("changes", "expected"),
    [
        ({"batch_count": "8"}, {"op": "batched_gemm", "batch": 8}),
        ({"a_type": "f8_r", "b_type": "bf8_r", "d_type": "f16_r"}, {"dtype_a": "fp8", "dtype_out": "fp16"}),
        ({"a_type": "f16_r", "b_type": "f8_fnuz_r"}, {"dtype_a": "fp8", "dtype_b": "fp16"}),
        ({"a_type": "i8_r", "b_type": "i8_r", "d_type": "i32_r", "compute_type": "i32_r"}, {"dtype_a": "int8"}),
        ({"a_type": "f32_r", "b_type": "f32_r", "d_type": "f32_r"}, {"dtype_a": "fp32", "variant": ""}),
        (
            {"a_type": "f32_r", "b_type": "f32_r", "d_type": "f32_r", "compute_type": "xf32_r"},
            {"dtype_a": "tf32", "dtype_b": "tf32", "dtype_out": "fp32", "variant": ""},
        ),
        ({"compute_type": "f32_f16_r"}, {"variant": "compute f32_f16_r"}),
        ({"bias_vector": "1", "bias_type": "f32_r", "activation_type": "gelu"}, {"variant": "bias gelu"}),
        ({"beta": "0.5", "rotating_buffer": "512"}, {"variant": "beta rotating"}),
        ({"beta": "0.0"}, {"variant": ""}),
        ({"scaleA": "1", "scaleB": "1"}, {"scale_block": "tensor", "variant": ""}),
        ({"scaleA": "2", "scaleB": "2"}, {"scale_block": "token", "variant": ""}),
        ({"scaleA": "3", "scaleB": "3", "a_type": "f4_r", "b_type": "f4_r"}, {"scale_block": "1x32", "dtype_a": "fp4"}),
        ({"scaleA": "1", "scaleB": "0"}, {"scale_block": "", "variant": "scales 0 1"}),
        ({"scaleA": "9", "scaleB": "9"}, {"scale_block": "", "variant": "scales 9 9"}),
        ({"lda": "8192"}, {"variant": "ld 8192 7168 4096"}),
        ({"transA": "N", "transB": "T", "lda": "4096", "ldb": "16"}, {"layout": "nt", "variant": ""}),
    ],
)  # fmt: skip
def test_what_tells_problems_apart(
    tmp_path: Path, changes: dict[str, str], expected: dict[str, object]
) -> None:
    (row,) = rows(tmp_path, log_of(block(**changes)))
    assert {name: row[name] for name in expected} == expected


def test_the_winner_is_counted_once(tmp_path: Path) -> None:
    slow = values(us="12.5")
    log = log_of(
        f"{HEADER}\n{values()}\n[1]{HEADER[3:]}\n{slow}\nWinner:\n{HEADER[4:]}\n{values()}\n"
    )
    table = read(tmp_path, log)
    assert table.rows["duration_us"].tolist() == ["10.0911", "12.5"]
    assert table.notes == [Note(remark("winners-repeated"), 1)]


def test_a_winner_that_no_line_before_has_given_counts(tmp_path: Path) -> None:
    table = read(tmp_path, log_of(f"Winner:\n{HEADER}\n{values()}\n"))
    assert len(table.rows) == 1
    assert not table.notes


def test_two_equal_runs_are_two_measurements(tmp_path: Path) -> None:
    assert len(read(tmp_path, log_of(block(), block())).rows) == 2


def test_a_device_without_a_known_name_is_taken_by_its_gfx_id(tmp_path: Path) -> None:
    log = log_of(block()).replace("AMD Instinct MI300X", "AMD Radeon Graphics")
    assert rows(tmp_path, log)[0]["device"] == "gfx942"
    log = log.replace("gfx942", "gfx908")
    assert rows(tmp_path, log)[0]["device"] == "MI100"
    assert read(tmp_path, block()).rows["device"].tolist() == [""]


def test_several_devices(tmp_path: Path) -> None:
    listing = DEVICE.format(count=2) + MI300X.format(0) + MI300X.format(1)
    assert read(tmp_path, listing + block()).rows["device"].tolist() == ["AMD Instinct MI300X"]
    mixed = listing.replace("ID 1 : AMD Instinct MI300X gfx942", "ID 1 : AMD Instinct MI100 gfx908")
    table = read(tmp_path, mixed + block())
    assert table.rows["device"].tolist() == [""]
    assert [(note.remark.code, note.rows) for note in table.notes] == [("several-devices", 1)]


def test_the_device_of_the_run_that_a_line_belongs_to(tmp_path: Path) -> None:
    other = DEVICE.format(count=1) + MI300X.format(0).replace("MI300X gfx942", "MI210 gfx90a")
    table = read(tmp_path, log_of(block()) + other + block())
    assert table.rows["device"].tolist() == ["AMD Instinct MI300X", "AMD Instinct MI210"]
    assert not table.notes


@pytest.mark.parametrize(
    ("log", "reason"),
    [
        (block(grouped_gemm="2"), "group-sizes-not-given"),
        (block(us="inf"), "infinite-duration"),
        (block(us="nan"), "no-duration"),
        (block(m="-1"), "dimension-not-positive"),
        (block(a_type="f12_r"), "unknown-number-format"),
        (block(us="1,2"), "line-unlike-header"),
        (block().rsplit(",", 1)[0], "line-unlike-header"),
        (block()[:-60], "line-unlike-header"),
    ],
)
def test_refused(tmp_path: Path, log: str, reason: str) -> None:
    table = read(tmp_path, log_of(log))
    assert clean(table.rows.assign(source="x")).rejected["reason"].tolist() == [reason]


def test_a_header_without_values_is_a_note(tmp_path: Path) -> None:
    table = read(tmp_path, log_of(f"{HEADER}\nSolution Not Found!!\n"))
    assert table.rows.empty
    assert table.notes[0].remark == remark("no-timings", by="hipblaslt-bench")


def test_a_file_above_the_limit(tmp_path: Path) -> None:
    (tmp_path / "x").write_text(block(), encoding="utf-8")
    with pytest.raises(DataError, match="raise the limit"):
        HipblasltReader().read(tmp_path / "x", Options(max_bytes=100))


@pytest.mark.parametrize(
    "content",
    [
        b"",
        b"m,n,k,us\n1,2,3,4\n",
        b"transA,transB,m,n,k,rocblas-Gflops\n",
        b"transA and us\n",
        b"hipblaslt-Gflops\x00",
    ],
)
def test_others_are_declined(content: bytes) -> None:
    assert not HipblasltReader().sniff(Path("bench.log"), content)


ROCBLAS = """\
$ ./rocblas-bench -f gemm_ex --transposeA N --transposeB T -m 1024 -n 512 -k 256 --a_type f16_r --lda 1024 \
--b_type f16_r --ldb 512 --c_type f16_r --ldc 1024 --d_type f16_r --ldd 1024 --compute_type f32_r -i 10
transA,transB,M,N,K,alpha,lda,beta,ldb,ldc,ldd,rocblas-Gflops,us
N,T,1024,512,256,1,1024,0,512,1024,1024,12201.6,22
rocblas-bench -f gemm -r s --transposeA N --transposeB N -m 128 -n 64 -k 32
transA,transB,M,N,K,alpha,lda,beta,ldb,ldc,rocblas-Gflops,us
N,N,128,64,32,1,128,0,32,128,131.1,4
"""


def test_the_command_line_of_rocblas_states_the_formats(tmp_path: Path) -> None:
    first, second = rows(tmp_path, MI300X.format(0) + ROCBLAS)
    assert [first[name] for name in ("m", "n", "k", "duration_us")] == [512, 1024, 256, 22]
    assert (first["dtype_a"], first["dtype_out"], first["library"]) == ("fp16", "fp16", "rocblas")
    assert (second["dtype_a"], second["device"]) == ("fp32", "AMD Instinct MI300X")


def test_formats_that_no_command_line_states_are_refused(tmp_path: Path) -> None:
    table = ROCBLAS.splitlines(keepends=True)[1:3]
    raw = read(tmp_path, MI300X.format(0) + "".join(table))
    refused = clean(raw.rows.assign(source="x")).rejected
    assert refused["reason"].tolist() == ["no-number-format"]

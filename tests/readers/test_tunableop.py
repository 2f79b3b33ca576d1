"""PyTorch TunableOp: operators and their parameters, devices, and what is refused."""

from __future__ import annotations

from pathlib import Path

import pytest

from flopcast.errors import DataError
from flopcast.readers.base import Note, Options
from flopcast.readers.tunableop import TunableOpReader
from flopcast.remarks import remark
from flopcast.table.measurements import clean, judge

VALIDATORS = (
    "Validator,PT_VERSION,2.6.0",
    "Validator,ROCM_VERSION,6.3.0.0-39-5fabb4c",
    "Validator,HIPBLASLT_VERSION,0.10.0-1549b021",
    "Validator,GCN_ARCH_NAME,gfx942:sramecc+:xnack-",
    "Validator,ROCBLAS_VERSION,4.3.0.2ae0b7b8-dirty",
)
LINES = (
    "GemmTunableOp_BFloat16_TN,tn_4096_16_7168,Gemm_Hipblaslt_386955,0.0098",
    "GemmStridedBatchedTunableOp_Half_NT,nt_64_512_128_B_16_ld_64_512_64,Gemm_Rocblas_1216,0.0121",
    "GemmAndBiasTunableOp_BFloat16_TN,tn_4096_16_7168_ld_7168_7168_12288,Gemm_Hipblaslt_TN_220,0.0153",
    "ScaledGemmTunableOp_Float8_e4m3fnuz_Float8_e5m2fnuz_BFloat16_TN,"
    "tn_4096_16_7168_ld_7168_7168_4096_rw_1_bias_None,Gemm_Hipblaslt_71,0.0071",
)


def read(
    folder: Path, *lines: str, name: str = "tunableop_results0.csv", **defaults: str
) -> list[dict[str, object]]:
    """Return the accepted rows."""
    table = TunableOpReader().read(write(folder, *lines, name=name), Options(defaults=defaults))
    return clean(table.rows.assign(source="x")).frame.to_dict("records")


def refused(folder: Path, *lines: str) -> list[tuple[str, str]]:
    table = TunableOpReader().read(write(folder, *VALIDATORS, *lines), Options())
    rejected = clean(table.rows.assign(source="x")).rejected
    return list(zip(rejected["reason"], rejected["detail"], strict=True))


def write(folder: Path, *lines: str, name: str = "tunableop_results0.csv") -> Path:
    file = folder / name
    file.write_text("\n".join([*lines, ""]), encoding="utf-8")
    return file


def test_each_operator(tmp_path: Path) -> None:
    plain, batched, biased, scaled = read(tmp_path, *VALIDATORS, *LINES)
    expected = {
        "op": "gemm", "m": 16, "n": 4096, "k": 7168, "batch": 1, "dtype_a": "bf16", "dtype_b": "bf16",
        "dtype_out": "bf16", "library": "hipblaslt", "kernel": "Gemm_Hipblaslt_386955", "layout": "tn", "variant": "",
        "tuned": True, "duration_us": pytest.approx(9.8), "campaign": "tunableop_results0", "file_line": 6,
    }  # fmt: skip
    assert {name: plain[name] for name in expected} == expected
    expected = {
        "op": "batched_gemm", "m": 512, "n": 64, "k": 128, "batch": 16, "dtype_a": "fp16", "library": "rocblas",
        "layout": "nt", "variant": "", "duration_us": pytest.approx(12.1), "file_line": 7,
    }  # fmt: skip
    assert {name: batched[name] for name in expected} == expected
    assert (biased["op"], biased["variant"]) == ("gemm", "bias ld 7168 7168 12288")
    assert (biased["library"], biased["kernel"]) == ("hipblaslt", "Gemm_Hipblaslt_TN_220")
    expected = {
        "op": "gemm",
        "scale_block": "token",
        "dtype_a": "fp8",
        "dtype_b": "fp8",
        "dtype_out": "bf16",
    }
    assert {name: scaled[name] for name in expected} == expected


def test_blas_a_is_the_weights(tmp_path: Path) -> None:
    line = "ScaledGemmTunableOp_Float8_e4m3fn_Half_float_TN,tn_8_4_2_rw_0_bias_bf16_r,Gemm_Hipblaslt_71,0.0071"
    (row,) = read(tmp_path, *VALIDATORS, line)
    assert (row["dtype_a"], row["dtype_b"], row["dtype_out"]) == ("fp16", "fp8", "fp32")
    assert (row["scale_block"], row["variant"]) == ("tensor", "bias")


def test_devices(tmp_path: Path) -> None:
    reader = TunableOpReader()
    file = write(
        tmp_path, *VALIDATORS, LINES[0], "Validator,GCN_ARCH_NAME,gfx908:sramecc+:xnack-", LINES[0]
    )
    table = reader.read(file, Options())
    assert table.rows["device"].tolist() == ["gfx942", "MI100"]
    assert table.notes == [Note(remark("device-ambiguous", gfx="gfx942"), 1)]
    assert reader.read(write(tmp_path, LINES[0]), Options()).rows["device"].tolist() == [""]


def test_the_user_says_which_gfx942_it_was(tmp_path: Path) -> None:
    table = TunableOpReader().read(
        write(tmp_path, *VALIDATORS, LINES[0]), Options(defaults={"device": "MI308X"})
    )
    assert table.rows["device"].tolist() == [""]  # to be filled with what is stated
    assert [note.remark for note in table.notes] == [
        remark("device-as-stated", gfx="gfx942", device="MI308X")
    ]


@pytest.mark.parametrize(
    ("line", "reason"),
    [
        ("GemmTunableOp_float_NN,nn_8_8_8,Default,0.0123", "default-kept"),
        ("GemmTunableOp_float_NN,nn_8_8_8,Gemm_Rocblas_7,inf", "infinite-duration"),
        ("GemmTunableOp_float_NN,nn_8_8_8,Gemm_Rocblas_7,0", "zero-duration"),
        ("GemmTunableOp_float_NN,nn_8_8_8,Gemm_Rocblas_7,-1", "negative-duration"),
        ("GemmTunableOp_float_NN,nn_8_8_8,Gemm_Rocblas_7,fast", "no-duration"),
        ("GemmTunableOp_float_NN,nn_8_8_8,Gemm_Rocblas_7", "no-duration"),
        ("GemmTunableOp_float_NN,nn_8_8_8", "not-tuned"),
        ("GemmTunableOp_float_NN,nn_8_0_8,Gemm_Rocblas_7,1", "dimension-not-positive"),
        ("GemmTunableOp_c10::complex<float>_NN,nn_8_8_8,Gemm_Rocblas_7,1", "unknown-number-format"),
        ("GemmTunableOp_float_NN,nn_8_8,Gemm_Rocblas_7,1", "unknown-parameters"),
        ("GemmTunableOp_float_NN,nn_8_8_8_new_1,Gemm_Rocblas_7,1", "unknown-parameters"),
        ("GemmTunableOp_float_TN,nt_8_8_8,Gemm_Rocblas_7,1", "transpositions-disagree"),
        ("GemmStridedBatchedTunableOp_float_NN,nn_8_8_8,Gemm_Rocblas_7,1", "missing-dimension"),
        ("Conv2dTunableOp_float_NN,nn_8_8_8,Conv_7,1", "not-a-gemm"),
        ("what is this", "not-a-gemm"),
    ],
)  # fmt: skip
def test_refused(tmp_path: Path, line: str, reason: str) -> None:
    ((found, detail),) = refused(tmp_path, line)
    assert found.startswith(reason)
    assert detail


def test_the_repeated_problem_behind_the_time_is_left_alone(tmp_path: Path) -> None:
    problem = "- { function: matmul, M: 4096, N: 16, K: 7168, transA: T }"
    (row,) = read(tmp_path, *VALIDATORS, f"{LINES[0]},{problem}")
    assert row["duration_us"] == pytest.approx(9.8)


def test_untuned_problems_are_workloads_to_predict(tmp_path: Path) -> None:
    file = write(
        tmp_path,
        "GemmTunableOp_BFloat16_TN,tn_4096_16_7168_ld_7168_7168_4096",
        name="tunableop_untuned0.csv",
    )
    assert TunableOpReader().sniff(file, file.read_bytes())
    table = TunableOpReader().read(file, Options(timed=False))
    rows = judge(table.rows.assign(source="x"), required=())
    assert rows["_refused"].tolist() == [""]
    assert rows[["m", "n", "k"]].to_numpy().tolist() == [[16, 4096, 7168]]


def test_windows_line_ends_and_a_byte_order_mark(tmp_path: Path) -> None:
    file = tmp_path / "x.csv"
    file.write_bytes(b"\xef\xbb\xbf" + "\r\n".join([*VALIDATORS, "", LINES[0]]).encode())
    rows = TunableOpReader().read(file, Options()).rows
    assert rows["file_line"].tolist() == [7]
    assert rows["duration_us"].tolist() == [pytest.approx(9.8)]


def test_a_file_above_the_limit(tmp_path: Path) -> None:
    with pytest.raises(DataError, match="raise the limit"):
        TunableOpReader().read(write(tmp_path, *VALIDATORS, *LINES), Options(max_bytes=100))


@pytest.mark.parametrize(
    "content",
    [
        b"",
        b"op,m,n,k,us\ngemm,1,2,3,4\n",
        b"Validator,name,email\n1,2,3\n",
        b"\xff\xfe\x00Validator",
        b"a,b\n",
    ],
)
def test_others_are_declined(content: bytes) -> None:
    assert not TunableOpReader().sniff(Path("tunableop_results0.csv"), content)


def test_validation_alone_has_no_rows(tmp_path: Path) -> None:
    file = write(tmp_path, *VALIDATORS)
    assert TunableOpReader().sniff(file, file.read_bytes())
    assert TunableOpReader().read(file, Options()).rows.empty

"""Products as tuners print them: Inductor, ckProfiler, CUTLASS. Shapes, formats and times against sums by hand."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

import flopcast as fc
from flopcast.errors import DataError
from flopcast.operators.operators import op_of
from flopcast.readers import read_rows

INDUCTOR = """V0601 12:00:00 [0/0] compiling
AUTOTUNE mm(1024x512, 512x2048)
strides: [512, 1], [1, 512]
dtypes: torch.bfloat16, torch.bfloat16
  mm 0.0120 ms 100.0%
  triton_mm_12 0.0150 ms 80.0% ACC_TYPE='tl.float32', BLOCK_K=64
SingleProcess AUTOTUNE benchmarking takes 2.3 seconds and 0.1 seconds precompiling
[rank0]:AUTOTUNE addmm(64x256, 64x128, 128x256)
[rank0]:strides: [0, 1], [128, 1], [1, 128]
[rank0]:dtypes: torch.float16, torch.float16, torch.float16
[rank0]:  bias_addmm 9.0000 us 100.0%
SingleProcess AUTOTUNE benchmarking takes 1.3 seconds
AUTOTUNE bmm(8x64x32, 8x32x16)
  bmm 0.0050 ms 100.0%
SingleProcess AUTOTUNE benchmarking takes 1.3 seconds
AUTOTUNE convolution(1x3x8x8, 4x3x3x3)
  convolution 0.0070 ms 100.0%
"""
CK = """Perf: 0.35 ms, 368.1 TFlops, 285.1 GB/s, DeviceGemmXdl<256, 128>
Best Perf for datatype = f16 ALayout =  RowMajor BLayout =  ColumnMajor M = 3840 N = 4096 K = 4096 StrideA = 4096 \
StrideB = 4096 StrideC = 4096 KBatch = 1 : 0.35 ms, 368.14 TFlops, 285.1 GB/s, DeviceGemmXdl<256, 256, 128>
Best Perf for datatype = bf16 ALayout = RowMajor BLayout = RowMajor M = 16 N = 256 K = 512 : 4 us, 99.0 TFlops, 1 GB/s, X
"""
CUTLASS = """Problem,Provider,OperationKind,Operation,Disposition,Status,gemm_kind,m,n,k,A,B,C,split_k_slices,\
batch_count,Bytes,Flops,Flops/Byte,Runtime,GB/s,GFLOPs
1,CUTLASS,gemm,cutlass_tensorop_f16_128x128,passed,success,universal,1024,512,256,f16:row,f16:column,f32:row,1,1,1,1,1,\
0.01,100,26843.5
2,CUTLASS,gemm,cutlass_tensorop_f16_256x128,incorrect,success,universal,1024,512,256,f16:row,f16:column,f32:row,1,1,1,1,1,\
0.01,100,26843.5
3,cuBLAS,gemm,gemm,not_verified,success,universal,1024,512,256,e4m3:row,e4m3:column,bf16:row,1,4,1,1,1,0.02,100,53687.1
4,CUTLASS,gemm,odd,passed,success,universal,1024,512,256,f16:row,f16:column,f32:row,1,1,1,1,1,10,100,26843.5
"""


def read(folder: Path, content: str, **default: str) -> Any:
    """Return what is read of a log."""
    file = folder / "tuned.log"
    file.write_text(content)
    return fc.read(file, default={"device": "MI300X", "dtype_a": "bf16"} | default)


def test_each_choice_of_inductor_is_a_row(tmp_path: Path) -> None:
    table = read(tmp_path, INDUCTOR)
    rows = table.frame.set_index("kernel")
    assert rows["duration_us"].to_dict() == pytest.approx(
        {"mm": 12.0, "triton_mm_12": 15.0, "bias_addmm": 9.0, "bmm": 5.0}
    )
    assert rows.loc["mm", ["m", "n", "k"]].tolist() == [1024, 2048, 512]
    assert (rows.loc["mm", "layout"], rows.loc["mm", "dtype_a"]) == ("NT", "bf16")
    assert rows.loc["bias_addmm", ["m", "n", "k"]].tolist() == [64, 256, 128]
    assert (rows.loc["bias_addmm", "variant"], rows.loc["bias_addmm", "dtype_a"]) == (
        "bias",
        "fp16",
    )
    assert (rows.loc["bmm", "op"], rows.loc["bmm", "batch"]) == ("batched_gemm", 8)
    assert table.rejected["reason"].tolist() == ["not-a-gemm"]


def test_the_best_kernel_of_each_problem_is_a_row(tmp_path: Path) -> None:
    table = read(tmp_path, CK)
    (row,) = table.frame.to_dict("records")
    assert (row["m"], row["n"], row["k"]) == (3840, 4096, 4096)
    assert (row["duration_us"], row["dtype_a"], row["layout"]) == (350.0, "fp16", "NT")
    assert row["kernel"] == "DeviceGemmXdl<256, 256, 128>"
    assert table.rejected["reason"].tolist() == ["figures-contradict"]  # 2 m n k / 4 us is 1.05


def test_lines_of_cutlass_are_rows_unless_wrong(tmp_path: Path) -> None:
    table = read(tmp_path, CUTLASS)
    assert table.frame["duration_us"].tolist() == [10.0, 20.0]
    assert table.frame["dtype_a"].tolist() == ["fp16", "fp8"]
    assert table.frame["batch"].tolist()[1] == 4
    assert sorted(table.rejected["reason"]) == ["figures-contradict", "not-verified"]


def test_a_log_without_a_time_is_said(tmp_path: Path) -> None:
    with pytest.raises(DataError, match="no timed choice"):
        read(tmp_path, "AUTOTUNE mm(1024x512, 512x2048)\n")


TUNED = """- {'M': 16, 'N': 256, 'K': 512, 'rowMajorA': 'T', 'rowMajorB': 'N', 'BLOCK_SIZE_M': 16, 'SPLIT_K': 4} \
# TFLOPS: 0.84 time(us): 5.00
- {'M': 32, 'N': 256, 'K': 512, 'rowMajorA': 'T', 'rowMajorB': 'T', 'BLOCK_SIZE_M': 16} # TFLOPS: 9.00 time(us): 5.0
SIZE: 64 256 512 TN nConfigs: 12 TFLOPS: 3.36 time(us): 5.0 best_config: BM16_BN64
"""
DEEPBENCH = """                  Running training benchmark
                         Times
--------------------------------------------------------------
    m       n      k      a_t     b_t      precision        time (usec)
   1760     16    128      1      0         half            180
   1760     16    128      1      0         half            180      7
   w      h      c      n      k      f_w    f_h  pad_w  pad_h    stride_w  stride_h    precision  fwd_time (usec)  \
bwd_inputs_time (usec)  bwd_params_time (usec)  total_time (usec)   fwd_algo
--------------------------------------------------------------
  12     16      8      4     32      3      5      1      2         1         2    float     100    200    300    600  IMPLICIT
"""
CONFIGS = (
    '{"triton_version": "3.4.0", "1": {"BLOCK_SIZE_M": 16, "num_warps": 4},\n'
    ' "64": {"BLOCK_SIZE_M": 32}}'
)


def test_winners_of_tune_gemm_are_rows(tmp_path: Path) -> None:
    table = read(tmp_path, TUNED)
    first, printed = table.frame.to_dict("records")
    assert [first[name] for name in ("m", "n", "k", "split_k")] == [16, 256, 512, 4]
    assert (first["duration_us"], first["layout"], first["dtype_a"]) == (5.0, "NT", "bf16")
    assert (printed["m"], printed["kernel"]) == (64, "BM16_BN64")
    assert table.rejected["reason"].tolist() == ["figures-contradict"]


def test_tables_of_deepbench_are_rows(tmp_path: Path) -> None:
    table = read(tmp_path, DEEPBENCH)
    product, *directions = table.frame.to_dict("records")
    assert [product[name] for name in ("m", "n", "k")] == [16, 1760, 128]
    assert (product["duration_us"], product["dtype_a"], product["layout"]) == (180, "fp16", "tn")
    assert [(one["direction"], one["duration_us"]) for one in directions] == [
        ("F", 100),
        ("B", 200),
        ("W", 300),
    ]
    convolutions = table.frame[table.frame["op"].eq("conv")]
    # 4 images, 32 channels of 8, 3 x 5 taps, 12 wide and (16 + 4 - 5) // 2 + 1 = 8 high
    assert op_of("conv").flops(convolutions).tolist() == [2 * 4 * 32 * 8 * 15 * 12 * 8] * 3
    assert table.rejected["reason"].tolist() == ["line-unlike-header"]


def test_settings_of_triton_kernels_are_work_to_predict(tmp_path: Path) -> None:
    experts = tmp_path / "E=16,N=128,device_name=AMD_Instinct_MI300X,dtype=fp8_w8a8.json"
    product = (
        tmp_path / "N=256,K=512,device_name=NVIDIA_L40S,dtype=fp8_w8a8,block_shape=[128,128].json"
    )
    for file in (experts, product):
        file.write_text(CONFIGS)
    asked, _ = read_rows([experts, product], timed=False, defaults={"model_dim": "64", "topk": "2"})
    rows = asked.set_index(["op", "device"]).sort_index()
    layer = rows.loc[("moe", "MI300X")]
    assert layer[["tokens", "experts", "inter_dim", "model_dim", "topk"]].to_numpy().tolist() == [
        [1, 16, 128, 64, 2],
        [64, 16, 128, 64, 2],
    ]
    matrix = rows.loc[("gemm", "L40S")]
    assert matrix[["m", "n", "k"]].to_numpy().tolist() == [[1, 256, 512], [64, 256, 512]]
    assert set(matrix["scale_block"]) == {"1x128"}
    assert set(asked["dtype_a"]) == {"fp8"}
    with pytest.raises(DataError, match="no-duration: 2"):
        fc.read(product)


def test_settings_of_an_unnamed_layer_are_refused(tmp_path: Path) -> None:
    with pytest.raises(DataError, match="does not say of which layer"):
        read(tmp_path, CONFIGS)


def test_times_follow_from_rates_and_shapes(tmp_path: Path) -> None:
    content = "op,m,n,k,TFLOPS,peak_tflops\ngemm,1024,512,256,100,1300\ngemm,1024,512,,100,1300\n"
    table = read(tmp_path, content)
    assert table.frame["duration_us"].tolist() == pytest.approx([2 * 1024 * 512 * 256 / 100e6])
    assert table.rejected["reason"].tolist() == ["missing-dimension"]
    (note,) = (note for note in table.notes if note.code == "times-by-rates")
    assert note.values["column"] == "TFLOPS"


def test_a_time_stands_before_a_rate(tmp_path: Path) -> None:
    table = read(tmp_path, "m,n,k,us,gflops\n1024,512,256,7,100\n", op="gemm")
    assert table.frame["duration_us"].tolist() == [7.0]


def test_a_rate_without_a_unit_may_be_renamed(tmp_path: Path) -> None:
    file = tmp_path / "results.csv"
    file.write_text("M,N,K,cuBLAS,Triton\n1024,512,256,300,100\n")
    stated = {"op": "gemm", "device": "MI300X", "dtype_a": "bf16"}
    table = fc.read(file, default=stated, rename={"Triton": "tflops"})
    assert table.frame["duration_us"].tolist() == pytest.approx([2 * 1024 * 512 * 256 / 100e6])

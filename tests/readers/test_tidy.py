"""Tidy tables: units, aliases, operators, number formats, Parquet."""

from __future__ import annotations

import gzip
from pathlib import Path

import numpy as np
import pandas as pd
import pyarrow as pa
import pytest

import flopcast as fc
from flopcast.errors import DataError
from flopcast.features.matrix import build_dataset
from flopcast.output import write_csv
from flopcast.readers import Measurements, read, read_rows
from flopcast.remarks import remark
from flopcast.table.problems import pair


def read_csv(
    folder: Path, *lines: str, units: dict[str, str] | None = None, **defaults: str
) -> Measurements:
    file = folder / "mine.csv"
    file.write_text("\n".join([*lines, ""]), encoding="utf-8")
    return read([file], units=units, defaults=defaults)


@pytest.mark.parametrize(
    ("column", "micro"),
    [
        ("duration_us", 3.0), ("latency_ms", 3e3), ("time_ns", 3e-3), ("t_s", 3e6), ("us", 3.0), ("Latency (ms)", 3e3),
        ("mean_ms", 3e3), ("my_kernel_us", 3.0), ("elapsed_seconds", 3e6),
    ],
)  # fmt: skip
def test_the_unit_stands_in_the_columns_name(tmp_path: Path, column: str, micro: float) -> None:
    frame = read_csv(tmp_path, f"device,op,dtype,m,n,k,{column}", "MI300X,gemm,fp16,1,2,3,30").frame
    assert frame["duration_us"].tolist() == [pytest.approx(10 * micro)]
    assert column == "duration_us" or column not in frame


@pytest.mark.parametrize(
    ("header", "cells", "expected"),
    [  # rocprofv3 with shapes joined to it; pandas' groupby().agg(); vLLM's and a configuration's words; rocprof
        (
            "Agent Name,Kernel_Name,op,dtype,m,n,k,Start_Timestamp,End_Timestamp", "MI300X,g,gemm,fp16,1,2,3,1000,4000",
            {"kernel": "g", "duration_us": 3.0},
        ),
        (
            "GPU Name,op_type,torch_dtype,m,n,k,duration_us_mean,duration_us_std,num_iters",
            "MI300X,gemm,torch.float16,1,2,3,4.5,0.1,8",
            {"dtype_a": "fp16", "duration_us": 4.5, "repeats": 8.0},
        ),
        (
            "gpu,op,dtype,batch_size,num_attention_heads,num_key_value_heads,head_size,seq_q,seq_kv,latency_ms_median",
            "MI300X,attention,bf16,2,32,8,128,64,64,0.5",
            {"batch": 2.0, "heads": 32.0, "kv_heads": 8.0, "head_dim": 128.0, "duration_us": 500.0},
        ),
        (
            "gpu,KernelName,op,dtype,m,n,k,BeginNs,EndNs,DurationNs", "MI300X,g,gemm,fp16,1,2,3,5,7005,7000",
            {"kernel": "g", "duration_us": 7.0},
        ),
        (
            "gpu,op,dtype,model_id,backend,tensor_parallel_size,max_concurrency,random_input_len,random_output_len,"
            "mean_ttft_ms,mean_tpot_ms,output_throughput",
            "MI300X,serving,bf16,llama-3.1-8b,vllm,2,16,1024,129,120,9,1500",
            {"ttft_ms": 120.0, "tpot_ms": 9.0, "tp": 2.0, "concurrency": 16.0, "duration_us": 1.272e6},
        ),
    ],
)  # fmt: skip
def test_names_of_other_tools_are_taken_as_they_are(
    tmp_path: Path, header: str, cells: str, expected: dict[str, object]
) -> None:
    found = read_csv(tmp_path, header, cells)
    row = found.frame.iloc[0]
    assert row["device"] == "MI300X"
    assert {name: row[name] for name in expected} == expected
    assert not found.rejected_by_reason


@pytest.mark.parametrize(
    ("columns", "micro"),
    [
        ("duration_us,time_ms", 3.0),
        ("latency_ms,latency_std_ms,p90_ms,time_min_ms", 3e3),
        ("time_ms,mean_ms,copy_us", 3e3),
    ],
)
def test_the_duration_is_told_from_statistics(tmp_path: Path, columns: str, micro: float) -> None:
    values = ",".join("3456"[: columns.count(",") + 1])
    frame = read_csv(
        tmp_path, f"device,op,dtype,m,n,k,{columns}", f"MI300X,gemm,fp16,1,2,3,{values}"
    ).frame
    assert frame["duration_us"].tolist() == [micro]


def test_levels_of_an_index_are_columns_and_complex_times_are_refused() -> None:
    table = pd.DataFrame(
        {"device": "MI300X", "op": "gemm", "dtype": "bf16", "m": [1, 2], "n": 3, "k": 4, "us": 5.0}
    )
    found = read([table.set_index(["device", "op", "m"])]).frame
    assert (found["m"].tolist(), set(found["device"])) == ([1, 2], {"MI300X"})
    with pytest.raises(DataError, match="'us' holds complex"):
        read([table.assign(us=5 + 1j)])


def test_the_user_states_a_unit(tmp_path: Path) -> None:
    lines = ["device,op,dtype,m,n,k,time,other_ms", "MI300X,gemm,fp16,1,2,3,0.5,9"]
    frame = read_csv(tmp_path, *lines, units={"time": "ms"}).frame
    assert frame["duration_us"].tolist() == [500.0]
    assert frame["other_ms"].tolist() == [9]


@pytest.mark.parametrize(
    ("columns", "units", "message"),
    [
        ("time", {}, r"mine\.csv.*'time'.*time=us"),
        ("latency_ms,time_us", {}, r"latency_ms.*time_us.*latency_ms=ms"),
        (
            "cost,x",
            {},
            "COLUMN=ms",
        ),
        ("time,x", {"time": "hours"}, "'time'"),
        ("time_us,x", {"tme": "us"}, r"tme=us.*'tme'"),
    ],
)
def test_a_unit_is_never_guessed(
    tmp_path: Path, columns: str, units: dict[str, str], message: str
) -> None:
    with pytest.raises(DataError, match=message):
        read_csv(
            tmp_path, f"device,op,dtype,m,n,k,{columns}", "MI300X,gemm,fp16,1,2,3,4,5", units=units
        )


@pytest.mark.parametrize(
    ("columns", "micro"),
    [("cost,x", None), ("time,x", None), ("latency_ms,time_us", None), ("latency_ms,x", 4e3)],
)
def test_a_duration_that_nobody_needs_may_be_missing_or_unclear(
    tmp_path: Path, columns: str, micro: float | None
) -> None:
    file = tmp_path / "mine.csv"
    file.write_text(f"op,dtype,m,n,k,{columns}\ngemm,fp16,1,2,3,4,5\n", encoding="utf-8")
    rows, _ = read_rows([file], timed=False)
    assert rows["duration_us"].dropna().tolist() == ([] if micro is None else [micro])


def test_spread_energy_and_power_have_units_too(tmp_path: Path) -> None:
    lines = [
        "device,op,dtype,m,n,k,latency_ms,spread_ns,energy_mj,power_mW,repeats",
        "MI300X,gemm,fp16,1,2,3,4,500,20,5000,7",
    ]
    row = read_csv(tmp_path, *lines).frame.iloc[0]
    assert (row["duration_us"], row["spread_us"], row["energy_j"], row["power_w"]) == (
        4000.0,
        0.5,
        0.02,
        5.0,
    )
    assert row["repeats"] == 7.0


def test_decimal_commas_are_read_and_told(tmp_path: Path) -> None:
    lines = [
        "device;op;dtype;m;n;k;latency_ms;kernel",
        "MI300X;gemm;fp16;16;4096,0;7168;1,5;a,1",
        "MI300X;gemm;fp16;32;4096,0;7168;1,234;b,1",
        "MI300X;gemm;fp16;64;4096,0;7168;-;c,1",
    ]
    found = read_csv(tmp_path, *lines)
    assert found.frame["duration_us"].tolist() == [1500.0, 1234.0]
    assert found.frame["n"].tolist() == [4096.0, 4096.0]
    assert found.frame["kernel"].tolist() == ["a,1", "b,1"]
    assert found.rejected_by_reason == {"no-duration": 1}
    assert found.notes == (
        remark("decimal-commas", columns=("n", "latency_ms"), rows=3, files=("mine.csv",)),
    )


@pytest.mark.parametrize(
    ("times", "message"),
    [
        (["1,500", "12,250"], r"'latency_ms'.*1,500"),
        (["1,5", "1.234"], r"'latency_ms'.*1,5.*1.234"),
        (["1.234,5", "1,5"], "'latency_ms'"),
    ],
)
def test_commas_that_may_mean_two_things_are_named(
    tmp_path: Path, times: list[str], message: str
) -> None:
    lines = [
        "device;op;dtype;m;n;k;latency_ms",
        *(f"MI300X;gemm;fp16;1;2;3;{time}" for time in times),
    ]
    with pytest.raises(DataError, match=rf"mine\.csv: .*{message}"):
        read_csv(tmp_path, *lines)


def test_a_device_that_is_several_gpus_or_none_names_the_nearest(tmp_path: Path) -> None:
    lines = [
        "device,op,dtype,m,n,k,us",
        "gfx942,mm,fp16,1,2,3,4",
        "MI300XX,mm,fp16,1,2,3,4",
        "A CPU,mm,fp16,1,2,3,4",
    ]
    notes = {
        note.values["device"]: note.values.get("nearest")
        for note in read_csv(tmp_path, *lines).notes
    }
    assert notes == {
        "gfx942": ("MI300A", "MI300X", "MI308X", "MI325X"),
        "MI300XX": ("MI300X", "MI350X", "MI308X"),
        "A CPU": None,
    }


def test_the_unit_of_a_power_can_be_stated(tmp_path: Path) -> None:
    lines = ["device,op,dtype,m,n,k,latency_ms,power", "MI300X,gemm,fp16,1,2,3,4,0.5"]
    assert read_csv(tmp_path, *lines, units={"power": "kW"}).frame["power_w"].tolist() == [500.0]


def test_columns_and_devices_by_their_other_names(tmp_path: Path) -> None:
    lines = [
        "GPU;Operator;Precision;Batch_Size;M;N;K;us;Kernel_Name;grid",
        "amd instinct mi300x;BMM;BF16;4;1;2;3;5;k;9",
    ]
    row = read_csv(tmp_path, *lines).frame.iloc[0]
    expected = {
        "device": "MI300X",
        "op": "batched_gemm",
        "dtype_a": "bf16",
        "batch": 4,
        "kernel": "k",
        "grid": 9,
    }
    assert {name: row[name] for name in expected} == expected


def test_pytorch_operators(tmp_path: Path) -> None:
    lines = [
        "device,op,B,M,N,K,H,latency_ms,kernel",
        "MI210,linear,1,8,16,32,,1,Cijk_Ailk_Bljk_HB_MT",
        "MI210,aten::addmm,4,8,16,32,,1,Cijk_Ailk_Bljk_HB_MT",
        "MI210,bmm,4,8,16,32,,1,Cijk_Ailk_Bljk_HB_MT",
        "MI210,ln,68,,,,1000,1,layer_norm<float>",
        "MI210,addu,7,,,,9,1,vectorized",
    ]
    measured = read_csv(tmp_path, *lines)
    columns = ["op", "batch", "m", "rows", "cols", "dtype_a"]
    assert measured.frame[columns].fillna(-1).to_numpy().tolist() == [
        ["gemm", 1, 8, -1, -1, "fp16"],
        ["gemm", 1, 32, -1, -1, "fp16"],
        ["batched_gemm", 4, 8, -1, -1, "fp16"],
        ["layer_norm", -1, -1, 68, 1000, "fp32"],
        ["addu", -1, -1, 7, 9, "fp32"],
    ]
    assert "H" not in measured.frame
    assert measured.notes == (remark("fp32-assumed", rows=1, files=("mine.csv",)),)


def test_a_models_configuration_names_the_sizes_of_experts_and_of_norms(tmp_path: Path) -> None:
    head = "device,op,num_tokens,hidden_size,moe_intermediate_size,num_experts,num_experts_per_tok,gated,torch_dtype,us"
    lines = (head, "MI300X,moe,64,4096,1536,128,8,1,bf16,300", "MI300X,rms_norm,32,2048,,,,,bf16,5")
    found = read_csv(tmp_path, *lines).frame
    assert found[["tokens", "model_dim", "rows", "cols"]].fillna(-1).to_numpy().tolist() == [
        [64, 4096, -1, -1],
        [-1, -1, 32, 2048],
    ]


def test_the_users_number_format_stands_before_the_assumption(tmp_path: Path) -> None:
    measured = read_csv(
        tmp_path, "device,op,m,n,k,us", "MI300X,gemm,1,2,3,4", dtype_a="torch.bfloat16"
    )
    assert measured.frame["dtype_a"].tolist() == ["bf16"]
    assert measured.notes == ()


def test_what_a_file_gives_is_not_overridden(tmp_path: Path) -> None:
    lines = ["device,op,dtype,m,n,k,us", "MI300X,gemm,fp16,1,2,3,4", ",gemm,,1,2,3,4"]
    frame = read_csv(tmp_path, *lines, device="MI355X", dtype_a="fp8").frame
    assert frame[["device", "dtype_a"]].to_numpy().tolist() == [
        ["MI300X", "fp16"],
        ["MI355X", "fp8"],
    ]


def test_a_table_of_one_operator_may_be_named_by_the_user(tmp_path: Path) -> None:
    lines = ["device,dtype,m,n,k,us", "MI300X,fp16,1,2,3,4"]
    assert read_csv(tmp_path, *lines, op="gemm").frame["op"].tolist() == ["gemm"]
    with pytest.raises(DataError, match="op=gemm"):
        read_csv(tmp_path, *lines)


def test_a_misspelled_default_is_an_error(tmp_path: Path) -> None:
    with pytest.raises(DataError, match=r"dtpye_a=fp8.*'dtpye_a'.*dtype_a"):
        read_csv(tmp_path, "device,op,m,n,k,us", "MI300X,gemm,1,2,3,4", dtpye_a="fp8")


def test_bad_fields_refuse_their_row_alone(tmp_path: Path) -> None:
    lines = [
        "device,op,dtype,m,n,k,us",
        "MI300X,gemm,fp16,1,2,3,4",
        "MI300X,gemm,fp16,1,x,3,4",
        "MI300X,gemm,fp16,1,2,3,nan",
    ]
    measured = read_csv(tmp_path, *lines, "MI300X,gemm,fp16,1,2,3,4,5", "MI300X,gemm,fp16,2,2")
    assert measured.frame["duration_us"].tolist() == [4.0]
    assert measured.rejected.to_numpy().tolist() == [
        ["mine.csv:3", "dimension-not-a-number", "n = x"],
        ["mine.csv:4", "no-duration", "nan"],
        ["mine.csv:6", "no-duration", "blank"],
        ["mine.csv:5", "line-unlike-header", "MI300X,gemm,fp16,1,2,3,4,5"],
    ]


@pytest.mark.parametrize("compress", [False, True])
def test_parquet_reads_like_csv_and_our_own_tables_come_back(
    tmp_path: Path, compress: bool
) -> None:
    lines = [
        "device,op,dtype,m,n,k,us,tuned,outliers",
        "MI300X,gemm,fp16,1,2,3,4,True,2",
        "MI300X,gemm,fp16,2,2,3,5,False,0",
    ]
    frame = read_csv(tmp_path, *lines).frame
    file = tmp_path / "own.parquet"
    frame.to_parquet(file)
    if compress:
        file.write_bytes(gzip.compress(file.read_bytes()))
    again = read([file]).frame
    assert again["source"].tolist() == ["own.parquet:1", "own.parquet:2"]
    pd.testing.assert_frame_equal(
        again[frame.columns].drop(columns="source"), frame.drop(columns="source")
    )


def test_damaged_parquet_is_an_error_with_the_file(tmp_path: Path) -> None:
    (tmp_path / "own.parquet").write_bytes(b"PAR1 and then nothing of the kind")
    with pytest.raises(DataError, match=r"own\.parquet: is not readable Parquet"):
        read([tmp_path / "own.parquet"])


def test_texts_that_a_spreadsheet_would_run_come_back_as_they_were(tmp_path: Path) -> None:
    kernels, notes = ["=cmd|' /C calc'!A0", "-gemm", "'@x"], [-1.5, 2.0, 3.0]
    frame = pd.DataFrame(
        {"device": "MI300X", "op": "gemm", "dtype_a": "fp16", "m": 1, "n": 2, "k": [3, 4, 5]}
    )
    frame = frame.assign(kernel=kernels, duration_us=1.0, **{"+note": notes})
    write_csv(pa.Table.from_pandas(frame), tmp_path / "mine.csv")
    found = read([tmp_path / "mine.csv"]).frame
    assert found["kernel"].tolist() == kernels
    assert found["+note"].tolist() == notes


def test_whole_workloads_have_a_name_an_index_and_whatever_was_counted() -> None:
    epochs = pd.DataFrame(
        {"name": "training", "index": [0, 1, 2, 3], "batch": [8, 8, 16, 32], "loss": [4.0, 3, 2, 1]}
    )
    sides = [
        epochs.assign(
            op="epoch", device=device, epoch_ms=(epochs["batch"] + epochs["index"]) * factor
        )
        for device, factor in (("MI300X", 2.0), ("MI355X", 1.0))
    ]
    table = fc.read(pd.concat(sides)).frame
    assert table["variant"].eq("training").all()
    assert table["counter.batch"].tolist() == [8, 8, 16, 32] * 2
    assert not {"batch", "loss"} & set(table)
    pairs = pair(table, "MI300X", "MI355X").paired
    assert pairs["index"].tolist() == [0, 1, 2, 3]
    assert (pairs["host_duration_us"] / pairs["duration_us"]).tolist() == [2.0] * 4
    found = build_dataset(table, host=fc.gpu("MI300X"), target=fc.gpu("MI355X"), group=["index"])
    assert {"host_us", "counter.batch", "counter.loss"} <= set(found.X)
    assert len(set(found.groups)) == 4


@pytest.mark.parametrize(
    "columns",
    ["total_us,calls", "Total Time (us),count", "self_cuda_time_total_us,calls", "timeout_us,x", "cpu_time_us,x",
     "predicted_us,x", "duration_us_sum,calls", "duration_us,duration_ms", "duration_us,DURATION_US"],
)  # fmt: skip
def test_times_that_are_not_that_of_one_call_are_not_taken_for_it(
    tmp_path: Path, columns: str
) -> None:
    with pytest.raises(DataError, match=r"give unit"):
        read_csv(tmp_path, f"device,op,dtype,m,n,k,{columns}", "MI300X,gemm,fp16,1,2,3,200,10")


def test_a_mean_is_taken_where_a_total_stands_beside_it(tmp_path: Path) -> None:
    header = "device,op,dtype,m,n,k,total_duration_us,mean_us,calls"
    assert read_csv(tmp_path, header, "MI300X,gemm,fp16,1,2,3,200,20,10").frame[
        "duration_us"
    ].tolist() == [20]


@pytest.mark.parametrize("column", ["duration_us", "m"])
@pytest.mark.parametrize(
    "value",
    [10**400, True, np.True_, 1 + 2j, b"\xff", np.array([1, 2]), [1, 2], {"a": 1}],
    ids=["huge", "true", "numpy", "complex", "bytes", "array", "list", "dict"],
)
def test_a_cell_in_memory_that_is_no_number_rejects_its_row_alone(
    column: str, value: object
) -> None:
    rows = {"op": "gemm", "device": ["MI300X", "MI355X"], "dtype_a": "bf16"}
    sizes = {"m": [64, 64], "n": [64, 64], "k": [64, 64], "duration_us": [4.0, 5.0]}
    frame = pd.DataFrame({**rows, **sizes})
    frame[column] = pd.Series([value, frame[column][1]], dtype=object)
    read = fc.read(frame)
    assert len(read.frame) == 1
    assert read.frame["device"].tolist() == ["MI355X"]


@pytest.mark.parametrize("column", ["op", "device", "dtype_a", "kernel"])
def test_words_in_memory_may_be_bytes_or_anything(column: str) -> None:
    words = {"op": "gemm", "device": "MI300X", "dtype_a": "bf16", "kernel": "k"}
    frame = pd.DataFrame({**words, "m": [64, 128], "n": 64, "k": 64, "duration_us": 4.0})
    encoded = words[column].encode()
    assert len(fc.read(frame.assign(**{column: [encoded, encoded]})).frame) == 2
    for odd in (b"\xff", np.array(["x", "y"]), ["x"]):
        frame[column] = pd.Series([odd, words[column]], dtype=object)
        read = fc.read(frame)
        assert len(read.frame) + len(read.rejected) == 2


WORKBOOK = pd.DataFrame(
    {
        "op": "gemm",
        "gpu": "MI300X",
        "dtype": "bf16",
        "m": [16, 32],
        "n": 64,
        "k": 128,
        "Latency (ms)": [0.004, 0.005],
    }
)


def test_the_first_sheet_of_a_workbook_is_read_as_its_csv_is(tmp_path: Path) -> None:
    WORKBOOK.to_excel(tmp_path / "rows.xlsx", index=False)
    WORKBOOK.to_csv(tmp_path / "rows.csv", index=False)
    sheet, text = (read([tmp_path / f"rows.{suffix}"]).frame for suffix in ("xlsx", "csv"))
    for name in ("op", "device", "dtype_a", "m", "n", "k", "duration_us"):
        assert sheet[name].tolist() == text[name].tolist()
    assert sheet["source"].tolist() == ["rows.xlsx:2", "rows.xlsx:3"]
    renamed = WORKBOOK.rename(columns={"m": "M_size"})
    renamed.to_excel(tmp_path / "renamed.xlsx", index=False)
    again = fc.read(tmp_path / "renamed.xlsx", rename={"M_size": "m"}).frame
    assert again["m"].tolist() == [16, 32]


def test_a_workbook_needs_openpyxl_and_says_so_in_a_line(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    WORKBOOK.to_excel(tmp_path / "rows.xlsx", index=False)
    for module in ("tidy", "files"):
        monkeypatch.setattr(f"flopcast.readers.{module}.find_spec", lambda name: None)
    with pytest.raises(DataError, match=r"pip install 'flopcast\[excel\]', or save the sheet"):
        read([tmp_path / "rows.xlsx"])


def test_another_workbook_is_no_table_of_measurements(tmp_path: Path) -> None:
    pd.DataFrame({"name": ["a"], "age": [1]}).to_excel(tmp_path / "people.xlsx", index=False)
    with pytest.raises(DataError, match="workbook whose first sheet is no table"):
        read([tmp_path / "people.xlsx"])

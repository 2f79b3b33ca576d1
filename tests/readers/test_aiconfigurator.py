"""AIConfigurator's tables: what each kind is to us, conditions before rows are made, and the survey of all of them."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

import flopcast as fc
from flopcast.errors import DataError
from flopcast.operators.operators import OPS, work_of
from flopcast.readers.aiconfigurator import KINDS, engine_of, survey

from ..report.pages import printed
from .test_serving_benchmarks import SAMPLE

H100, B200 = "NVIDIA H100 80GB HBM3", "NVIDIA B200"
GEMM = {"op_name": "gemm", "gemm_dtype": "bfloat16", "m": 16, "n": 256, "k": 512, "latency": 0.025}
MOE = {
    "op_name": "moe", "moe_dtype": "fp8_block", "num_tokens": 64, "hidden_size": 4096, "inter_size": 2048, "topk": 4,
    "num_experts": 32, "moe_tp_size": 2, "moe_ep_size": 4, "distribution": "balanced", "latency": 0.5,
}  # fmt: skip
ATTENTION = {
    "op_name": "generation_attention", "batch_size": 8, "isl": 1, "num_heads": 32, "num_key_value_heads": 8,
    "head_dim": 128, "attn_dtype": "bfloat16", "kv_cache_dtype": "fp8", "step": 1023, "window_size": 0, "latency": 0.05,
}  # fmt: skip
LATENT = {
    "op_name": "mla_generation", "mla_dtype": "bfloat16", "kv_cache_dtype": "bfloat16", "num_heads": 64,
    "batch_size": 4, "isl": 1, "tp_size": 2, "step": 1023, "latency": 0.05,
}  # fmt: skip
NCCL = {
    "op_name": "all_reduce",
    "nccl_dtype": "half",
    "num_gpus": 8,
    "message_size": 2**20,
    "latency": 0.1,
}
DEEPEP = {
    "op_name": "normal", "node_num": 2, "hidden_size": 2048, "num_token": 16, "num_topk": 8, "num_experts": 128,
    "dispatch_sms": 4, "dispatch_transmit_us": 31.0, "dispatch_notify_us": 2.0, "combine_sms": 4,
    "combine_transmit_us": 36.0, "combine_notify_us": 1.0,
}  # fmt: skip
RECURRENT = {
    "op_name": "gdn", "phase": "context", "batch_size": 2, "seq_len": 8, "num_tokens": 16, "d_model": 1024, "d_conv": 4,
    "num_k_heads": 16, "head_k_dim": 128, "num_v_heads": 32, "head_v_dim": 64, "model_name": "x", "latency": 0.01,
}  # fmt: skip


def table(
    folder: Path,
    kind: str,
    *rows: dict[str, Any],
    device: str = H100,
    engine: str = "VLLM",
    kernel: str = "knl",
) -> Path:
    """Write a table as the producer has it, in the folder of its GPU, engine and version."""
    place = folder / device.replace(" ", "_") / kind / engine / "0.24.0"
    place.mkdir(parents=True, exist_ok=True)
    own = {"framework": engine, "version": "0.24.0", "device": device, "kernel_source": kernel}
    pd.DataFrame([own | row for row in rows]).to_parquet(
        place / f"{kind}_perf.parquet", index=False
    )
    return place / f"{kind}_perf.parquet"


def make_all(folder: Path) -> None:
    """Write tables of several kinds into one folder."""
    rows = {
        "gemm": GEMM,
        "moe": MOE,
        "generation_attention": ATTENTION,
        "wideep_deepep_normal": DEEPEP,
    }
    for kind, row in rows.items():
        table(folder, kind, row, row).rename(folder / f"{kind}_perf.parquet")


def test_a_product_has_its_formats_scales_and_microseconds(tmp_path: Path) -> None:
    words = {
        "bfloat16": ("bf16", "bf16", ""),
        "fp8_block": ("fp8", "fp8", "1x128"),
        "nvfp4": ("fp4", "fp4", "1x16"),
    }
    words["int8_wo"] = ("bf16", "int8", "token")
    frame = fc.read(table(tmp_path, "gemm", *(GEMM | {"gemm_dtype": word} for word in words))).frame
    assert list(zip(frame["dtype_a"], frame["dtype_b"], frame["scale_block"], strict=True)) == list(
        words.values()
    )
    assert frame["duration_us"].tolist() == pytest.approx([25.0] * 4)
    first = frame.iloc[0]
    named = {
        "op": "gemm",
        "device": "H100 SXM5",
        "engine": "vllm",
        "release": "0.24.0",
        "kernel_source": "knl",
    }
    assert {name: first[name] for name in named} == named
    assert first["source"].endswith("gemm_perf.parquet:1")


def test_kernels_of_one_problem_stay_apart(tmp_path: Path) -> None:
    table(tmp_path / "a", "gemm", GEMM, kernel="one")
    table(tmp_path / "b", "gemm", GEMM | {"latency": 0.05}, kernel="other")
    assert fc.read(tmp_path).frame["duration_us"].tolist() == pytest.approx([25.0, 50.0])


def test_experts_shared_out_and_cut_are_a_part_of_the_work(tmp_path: Path) -> None:
    frame = fc.read(table(tmp_path, "moe", MOE, MOE | {"moe_tp_size": 1, "moe_ep_size": 1})).frame
    part, whole = work_of(frame).flops
    assert whole == 2 * 64 * 4 * 4096 * 2048 * 3
    assert part == whole / 8
    touched = 32 * (1 - (1 - 4 / 32) ** 64)
    assert work_of(frame).batch == pytest.approx([touched / 4, touched])


def test_decoding_looks_back_on_the_cache(tmp_path: Path) -> None:
    frame = fc.read(
        table(tmp_path, "generation_attention", ATTENTION, ATTENTION | {"window_size": 128})
    ).frame
    assert frame[["seq_q", "seq_kv", "causal"]].iloc[0].tolist() == [1, 1024, 1]
    long, short = work_of(frame).flops
    assert long == pytest.approx(4 * 8 * 32 * 1024 * 128, rel=1e-3)
    assert short == pytest.approx(4 * 8 * 32 * 128 * 128)
    moved = 8 * 32 * 128 * (2 + 2) + 2 * 8 * 8 * 129 * 128
    assert work_of(frame).bytes[1] == moved


@pytest.mark.parametrize(
    ("new", "keys", "window"), [(64, 64, 16), (64, 200, 16), (64, 200, 170), (5, 5, 9), (7, 30, 0)]
)
def test_a_window_keeps_what_each_query_looks_back_on(new: int, keys: int, window: int) -> None:
    # the middle of a query: as the formulas without a window count
    seen = np.arange(keys - new, keys) + 0.5
    kept = np.minimum(seen, window) if window else seen
    row = {
        "op": "attention",
        "dtype_a": "bf16",
        "batch": 1,
        "heads": 1,
        "head_dim": 1,
        "causal": 1,
        "window": window,
    }
    flops = OPS["attention"].flops(pd.DataFrame([row | {"seq_q": new, "seq_kv": keys}]))[0]
    assert flops == pytest.approx(4 * kept.sum(), rel=0.01)


def test_values_of_latent_attention_are_read_with_the_keys(tmp_path: Path) -> None:
    frame = fc.read(table(tmp_path, "generation_mla", LATENT)).frame
    assert work_of(frame).flops[0] == pytest.approx(2 * 4 * 64 * 1024 * (576 + 512), rel=1e-3)
    assert work_of(frame).bytes[0] == 2 * (4 * 64 * (576 + 512) + 4 * 1024 * 576)


@pytest.mark.parametrize(
    ("kernel", "release", "gated"),
    [
        ("vllm_unquantizedfusedmoe_triton_tritonexperts", "0.24.0", ""),
        ("vllm_fused_moe", "0.22.0", "narrow latent wide"),
        ("sglang_flashinfer_trtllm_moe", "0.5.14", ""), ("sglang_fused_moe_triton", "0.5.14", "latent"),
        ("sglang_fused_moe_triton", "0.5.10", "narrow latent wide"),
    ],
)  # fmt: skip
def test_layers_known_to_have_no_gate_have_none_but_by_kernels_measured_with_one(
    tmp_path: Path, kernel: str, release: str, gated: str
) -> None:
    sizes = {
        "other": (8192, 5120, 16),
        "narrow": (2688, 1856, 128),
        "latent": (1024, 2688, 512),
        "wide": (8192, 5120, 512),
    }
    layers = [
        dict(zip(("hidden_size", "inter_size", "num_experts"), size, strict=True))
        for size in sizes.values()
    ]
    rows = [MOE | layer | {"moe_dtype": "bfloat16", "version": release} for layer in layers]
    frame = fc.read(table(tmp_path, "moe", *rows, kernel=kernel)).frame
    own = {name for name, flag in zip(sizes, frame["gated"], strict=True) if flag}
    assert own == {"other", *gated.split()}


def test_messages_are_counted_in_elements(tmp_path: Path) -> None:
    row = fc.read(table(tmp_path, "nccl", NCCL, engine="TRTLLM", kernel="NCCL")).frame.iloc[0]
    assert (row["message_bytes"], row["ranks"], row["variant"], row["engine"]) == (
        2**21,
        8,
        "all_reduce",
        "nccl",
    )
    assert row["duration_us"] == pytest.approx(100)


def test_a_line_with_two_times_is_two_rows(tmp_path: Path) -> None:
    frame = fc.read(table(tmp_path, "wideep_deepep_normal", DEEPEP, engine="sglang")).frame
    assert frame["duration_us"].tolist() == [33, 37]
    assert frame["ranks"].tolist() == [16, 16]
    assert frame["variant"].str.split().str[-1].tolist() == ["dispatch", "combine"]


def test_as_many_bytes_in_shorter_tokens_are_another_problem(tmp_path: Path) -> None:
    half = DEEPEP | {"num_token": 32, "hidden_size": 1024, "dispatch_transmit_us": 51.0}
    frame = fc.read(table(tmp_path, "wideep_deepep_normal", DEEPEP, half, engine="sglang")).frame
    assert set(frame["message_bytes"]) == {16 * 8 * 2048 * 2}
    assert sorted(frame["duration_us"]) == [33, 37, 37, 53]


def test_times_in_microseconds_are_those(tmp_path: Path) -> None:
    exchange = {
        "op_name": "moe_a2a", "phase": "combine", "comm_backend": "x", "comm_dtype": "bfloat16", "ep_size": 8,
        "node_num": 1, "hidden_size": 3072, "topk": 8, "num_experts": 256, "num_tokens": 16, "sms": 0,
        "transmit_us": 43.5, "notify_us": 0.5, "latency": 44.0,
    }  # fmt: skip
    assert fc.read(table(tmp_path, "moe_a2a", exchange)).frame["duration_us"].tolist() == [44]
    dense = {
        "op_name": "mlp",
        "quant_type": "fp8_block",
        "num_token": 2,
        "hidden_size": 256,
        "intermediate_size": 64,
    }
    frame = fc.read(table(tmp_path / "b", "wideep_context_mlp", dense | {"avg_ms": 0.04})).frame
    assert frame["duration_us"].tolist() == pytest.approx([40])
    assert work_of(frame).flops[0] == 2 * 2 * 256 * 64 * 3


def test_recurrences_and_convolutions_are_told_apart(tmp_path: Path) -> None:
    table(tmp_path / "a", "gdn", RECURRENT, kernel="chunk_gated_delta_rule")
    table(tmp_path / "b", "gdn", RECURRENT, kernel="causal_conv1d_fn")
    frame = fc.read(tmp_path).frame
    assert frame["op"].tolist() == ["linear_attention", "causal_conv"]
    channels = 2 * 16 * 128 + 32 * 64
    assert work_of(frame).flops.tolist() == [6 * 2 * 8 * 32 * 128 * 64, 2 * 2 * 8 * channels * 4]


def test_an_unknown_format_is_an_error(tmp_path: Path) -> None:
    with pytest.raises(DataError, match=r"gemm_dtype.*fp7"):
        fc.read(table(tmp_path, "gemm", GEMM, GEMM | {"gemm_dtype": "fp7"}))


@pytest.mark.parametrize(
    ("kind", "code"), [("mamba9", "unknown-table"), ("dsa_context_module", "module-table")]
)
def test_tables_without_an_operator_are_named(tmp_path: Path, kind: str, code: str) -> None:
    table(tmp_path, kind, GEMM, GEMM)
    table(tmp_path, "gemm", GEMM)
    found = fc.read(tmp_path)
    told = [note for note in found.notes if note.code == code]
    assert [(note.values["table"], note.values["rows"]) for note in told] == [(kind, 2)]
    assert len(found.frame) == 1


def test_tables_that_no_condition_asks_for_are_not_read(tmp_path: Path) -> None:
    """Those that are left out have formats that would be refused."""
    wrong = GEMM | {"gemm_dtype": "fp7"}
    table(tmp_path, "gemm", GEMM)
    table(tmp_path, "gemm", wrong, engine="SGLang")
    table(tmp_path, "gemm", wrong, device=B200)
    table(tmp_path, "moe", MOE | {"moe_dtype": "fp7"})
    found = fc.read(tmp_path, where=["op=mm", "engine=vllm", "device=H100 SXM"])
    assert (len(found.frame), len(found.files)) == (1, 1)
    assert sum(note.code == "files-excluded" for note in found.notes) == 3


def test_a_pair_of_devices_leaves_the_tables_of_others_unread(tmp_path: Path) -> None:
    rows = [
        GEMM | {"m": 2**power, "n": n, "latency": 0.01 * power}
        for power in range(3, 9)
        for n in (256, 512)
    ]
    for device in (H100, B200):
        table(tmp_path, "gemm", *rows, device=device)
    table(tmp_path, "gemm", GEMM | {"gemm_dtype": "fp7"}, device="NVIDIA B300")
    found = fc.train(
        tmp_path, host="H100", target="B200", models="Additive", scheme="kfold", jobs=1
    )
    assert (len(found.dataset), len(found.measured.files)) == (12, 2)
    with pytest.raises(DataError, match="MI300X"):
        fc.train(tmp_path, target="MI300X", models="Additive", jobs=1)


def test_conditions_that_no_table_meets_are_an_error(tmp_path: Path) -> None:
    table(tmp_path, "gemm", GEMM)
    with pytest.raises(DataError, match="engine=sglang"):
        fc.read(tmp_path, where="engine=sglang")


def test_a_table_of_several_engines_is_read_for_one_of_them(tmp_path: Path) -> None:
    table(tmp_path, "gemm", GEMM, GEMM | {"framework": "TRTLLM"})
    assert fc.read(tmp_path, where="engine=trtllm").frame["engine"].tolist() == ["trtllm"]


def test_the_folder_says_which_of_the_gpus_of_a_name_it_is(tmp_path: Path) -> None:
    place = tmp_path / "h100_sxm" / "comm" / "sglang" / "0.5.0"
    place.mkdir(parents=True)
    table(tmp_path, "nccl", NCCL, device="NVIDIA H100").rename(place / "nccl_perf.parquet")
    assert fc.read(tmp_path).frame["device"].tolist() == ["H100 SXM5"]


def test_every_kind_with_an_operator_names_a_known_one() -> None:
    assert {kind.op for kind in KINDS.values()} - {""} <= set(OPS)
    assert len(KINDS) == 45


def test_the_survey_finds_spikes_doubles_and_zeros(tmp_path: Path) -> None:
    times = [0.01, 0.02, 0.09, 0.04, 0.05, 0.0]
    rows = [GEMM | {"m": 2**i, "latency": time} for i, time in enumerate(times)]
    rows += [GEMM | {"m": 1, "latency": 0.015}]
    found = survey(table(tmp_path, "gemm", *rows))
    assert (found.spikes, found.doubles, found.zeros, found.op) == (1, 2, 1, "gemm")
    assert found.apart == pytest.approx(1.5)
    assert found.rows == {("H100 SXM5", "vllm", "0.24.0"): 7}


def test_text_of_foreign_bytes_is_refused_by_the_survey(tmp_path: Path) -> None:
    path = table(tmp_path, "gemm", GEMM)
    sound = pq.read_table(path)
    foreign = pa.array([b"\xff"], pa.binary()).view(pa.string())
    place = sound.column_names.index("device")
    pq.write_table(sound.set_column(place, "device", foreign), path)
    with pytest.raises(DataError, match="UTF8"):
        survey(path)


def test_a_folder_of_tables_is_counted_by_operator_device_and_engine(tmp_path: Path) -> None:
    make_all(tmp_path)
    table(tmp_path, "gemm", GEMM, GEMM, device=B200, engine="SGLang")
    (tmp_path / "README.md").write_text("words", encoding="utf-8")
    found = fc.ingest(tmp_path)
    counts = {
        (one["table"], row["device"]): row["rows"]
        for one in found.to_dict()["tables"]
        for row in one["rows"]
    }
    assert counts == {
        ("gemm", "H100 SXM5"): 2, ("gemm", "B200 (HGX)"): 2, ("moe", "H100 SXM5"): 2,
        ("generation_attention", "H100 SXM5"): 2, ("wideep_deepep_normal", "H100 SXM5"): 4,
    }  # fmt: skip
    assert found.rows == 12
    assert "files-skipped" in {note.code for note in found.notes}


@pytest.mark.parametrize(
    ("where", "says"),
    [
        (["op=gem"], "no row has op=gem: op is gemm, attention, moe, collective"),
        (["op=gemm", "release=0.1"], "no row has release=0.1 after the other conditions: there release is 0.24.0"),
        (["engine=vllm", "engine=x"], "no row has engine=x after the other conditions: there engine is vllm"),
        (["op=moe", "device=B200"], "no row has device=B200 after the other conditions: there device is H100 SXM5"),
    ],
)  # fmt: skip
def test_a_condition_that_no_file_meets_is_named_with_what_there_is(
    where: list[str], says: str, tmp_path: Path
) -> None:
    make_all(tmp_path)
    table(tmp_path, "gemm", GEMM, device=B200)
    with pytest.raises(DataError) as raised:
        fc.read(tmp_path, where=where)
    assert str(raised.value) == f"{tmp_path}: {says}"


@pytest.mark.parametrize(
    ("where", "says"),
    [
        (["op=gem"], "no row has op=gem: op is gemm, serving"),
        (
            ["op=gemm", "release=0.1"],
            "no row has release=0.1 after the other conditions: there release is 0.24.0",
        ),
        (["engine=x"], "no row has engine=x: engine is vllm, sglang"),
    ],
)
def test_served_runs_beside_the_tables_do_not_answer_for_them(
    where: list[str], says: str, tmp_path: Path
) -> None:
    table(tmp_path, "gemm", GEMM)
    table(tmp_path, "gemm", GEMM, device=B200)
    (tmp_path / "silicon_sample.csv").write_text(SAMPLE, encoding="utf-8")
    with pytest.raises(DataError) as raised:
        fc.read(tmp_path, where=where)
    assert str(raised.value).startswith(f"{tmp_path}: {says}")


def test_engines_are_asked_for_in_any_case(tmp_path: Path) -> None:
    table(tmp_path, "gemm", GEMM)
    assert len(fc.read(tmp_path, where=["op=GEMM", "engine=vLLM", "dtype_a=BF16"]).frame) == 1


def test_served_runs_beside_the_tables_do_not_make_all_of_them_rows(tmp_path: Path) -> None:
    table(tmp_path, "gemm", GEMM, GEMM, device=B200)
    table(tmp_path, "gemm", GEMM)
    (tmp_path / "silicon_sample.csv").write_text(SAMPLE, encoding="utf-8")
    runs = fc.ingest(tmp_path / "silicon_sample.csv").rows
    found = fc.ingest(tmp_path)
    assert (found.rows, sum(sum(one.rows.values()) for one in found.tables), runs > 0) == (
        3 + runs,
        3,
        True,
    )
    assert {one.op for one in found.profile} == {"serving"}
    shown = " ".join(printed(found.document()).split())
    assert f"3 measured times in 2 tables of 2 GPUs; {runs} measurement" in shown
    assert (
        "--where op=gemm --where engine=vllm --host 'H100 SXM5' --target 'B200 (HGX)' --quick"
        in shown
    )


def test_engines_are_called_as_people_do() -> None:
    assert [engine_of(word, "x") for word in ("VLLM", "vLLM", "SGLang", "sglang")] == [
        "vllm",
        "vllm",
        "sglang",
        "sglang",
    ]


def test_parquet_of_no_known_format_says_what_it_has_and_lacks(tmp_path: Path) -> None:
    place = tmp_path / "a.parquet"
    pd.DataFrame({"speed": [1], "gpu": ["MI300X"]}).to_parquet(place)
    with pytest.raises(
        DataError, match=r"Parquet with the columns speed.*gpu.*lacks a duration.*op"
    ):
        fc.read(place)


def test_a_column_called_as_number_formats_are_must_be_known(tmp_path: Path) -> None:
    row = {"op": "gemm", "device": "MI300X", "m": 16, "n": 16, "k": 16, "time_us": 5.0}
    for name in ("gemm_dtype", "weight_precision", "AccDType"):
        with pytest.raises(DataError, match=name):
            fc.read(pd.DataFrame([row | {name: "bf16"}]))
    assert fc.read(pd.DataFrame([row | {"precision": "bf16"}])).frame["dtype_a"].tolist() == [
        "bf16"
    ]

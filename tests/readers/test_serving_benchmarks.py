"""Benchmarks of serving: what clients write becomes runs with their setting, and what is unknown stays a label."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

import flopcast as fc
from flopcast.errors import DataError

VLLM: dict[str, Any] = {
    "date": "20260301-120000", "backend": "vllm", "model_id": "meta-llama/Llama-3.1-70B-Instruct",
    "tokenizer_id": "meta-llama/Llama-3.1-70B-Instruct", "num_prompts": 160, "tp": "8", "request_rate": "inf",
    "max_concurrency": 16, "duration": 80.0, "completed": 160, "total_input_tokens": 163840,
    "total_output_tokens": 81920, "request_throughput": 2.0, "output_throughput": 1024.0, "mean_ttft_ms": 120.0,
    "mean_tpot_ms": 15.0, "p99_ttft_ms": 400.0, "ttfts": [0.1, 0.2],
}  # fmt: skip
SGLANG: dict[str, Any] = {
    "backend": "sglang", "dataset_name": "random", "request_rate": 4.0, "max_concurrency": None,
    "sharegpt_output_len": None, "completed": 100, "total_input_tokens": 102400, "total_output_tokens": 25600,
    "request_throughput": 3.0, "output_throughput": 768.0, "mean_e2e_latency_ms": 5000.0, "mean_ttft_ms": 150.0,
    "mean_tpot_ms": 19.0, "server_info": {"model_path": "deepseek-ai/DeepSeek-V3", "tp_size": 8, "version": "0.5.9"},
}  # fmt: skip
AIPERF: dict[str, Any] = {
    "request_throughput": {"unit": "requests/sec", "avg": 2.0}, "request_latency": {"unit": "ms", "avg": 4000.0},
    "time_to_first_token": {"unit": "ms", "avg": 100.0}, "inter_token_latency": {"unit": "us", "avg": 12000.0},
    "output_token_throughput": {"unit": "tokens/sec", "avg": 512.0}, "output_sequence_length": {"avg": 256.2},
    "input_sequence_length": {"avg": 511.7},
    "input_config": {"endpoint": {"model_names": ["Qwen/Qwen3-32B"]}, "loadgen": {"concurrency": 8}},
}  # fmt: skip
INFERENCEX: dict[str, Any] = {
    "hw": "mi355x", "conc": 64, "model": "amd/Llama-3.1-70B-FP8", "framework": "vllm", "precision": "fp8", "isl": 1024,
    "osl": 8192, "tp": 8, "ep": 8, "dp_attention": "true", "disagg": False, "mean_ttft": 0.25, "mean_tpot": 0.02,
    "mean_e2el": 160.0, "output_tput_per_gpu": 400.0, "spec_decoding": "none",
}  # fmt: skip
SAMPLE = """silicon_data_source,backend,backend_version,model_path,system,precision,mode,isl,osl,gemm_quant_mode,\
batch_size,tp_size,attention_dp_size,moe_tp_size,moe_ep_size,silicon_ttft_ms,silicon_tpot_ms
db-dump; silicon_concurrency=32; measured=2026-03-24T00:00:00Z,sglang,0.5.9,Qwen/Qwen3-32B,b200_sxm,fp8,\
agg,1024,1024,fp8_block,32,64,1,8,8,100,20
data/Users/x.csv,vllm,0.12.0,Qwen/Qwen3-32B,h100_sxm,,agg,1024,256,,8,2,,1,1,90,11
"""


def read(folder: Path, record: object, **default: str) -> Any:
    """Return what is read of one record."""
    file = folder / "result.json"
    file.write_text(json.dumps(record))
    return fc.read(file, default={"device": "MI300X", "dtype_a": "fp8"} | default)


def test_each_client_gives_its_setting_and_its_times(tmp_path: Path) -> None:
    row = read(tmp_path, VLLM).frame.iloc[0]
    assert row[["engine", "client", "tp", "concurrency"]].tolist() == [
        "vllm",
        "vllm bench serve",
        8.0,
        16.0,
    ]
    assert row[["input_len", "output_len", "ttft_ms", "tpot_ms"]].tolist() == [
        1024.0,
        512.0,
        120.0,
        15.0,
    ]
    assert row["duration_us"] == pytest.approx((120 + 511 * 15) * 1e3)
    row = read(tmp_path, SGLANG).frame.iloc[0]
    assert row[["model", "tp", "engine_version"]].tolist() == [
        "deepseek-ai/DeepSeek-V3",
        8.0,
        "0.5.9",
    ]
    assert row["concurrency"] == 15.0  # Little: 3 requests a second, 5 s each
    row = read(tmp_path, AIPERF, engine="trtllm").frame.iloc[0]
    assert row[["model", "engine", "concurrency", "output_len"]].tolist() == [
        "Qwen/Qwen3-32B",
        "trtllm",
        8.0,
        256.0,
    ]
    assert row[["ttft_ms", "tpot_ms"]].tolist() == [100.0, 12.0]
    row = read(tmp_path, [INFERENCEX]).frame.iloc[0]
    assert row[["device", "tp", "dp", "ep"]].tolist() == ["MI355X", 1.0, 8.0, 8.0]
    assert row[["ttft_ms", "tpot_ms", "output_tokens_per_s"]].tolist() == [250.0, 20.0, 3200.0]
    assert row["duration_us"] == 160e6
    apart = {
        name: value
        for name, value in INFERENCEX.items()
        if name not in ("tp", "ep", "dp_attention")
    }
    decode = {
        "decode_tp": 4,
        "decode_ep": 2,
        "decode_dp_attention": "false",
        "spec_decoding": "mtp",
        "disagg": True,
    }
    row = read(tmp_path, apart | decode).frame.iloc[0]
    assert row[["tp", "dp", "ep", "apart", "variant"]].tolist() == [4.0, 1.0, 2.0, "yes", "mtp"]


SCHEDULER: dict[str, Any] = {
    "max_running_requests": 128,
    "mem_fraction_static": 0.82,
    "scheduler_recv_interval": 10,
}
DEEPSEEK: dict[str, Any] = INFERENCEX | {
    "hw": "b200", "model": "deepseek-ai/DeepSeek-R1-0528", "framework": "sglang", "precision": "fp4",
    "dp_attention": "false",
}  # fmt: skip
SERVER: dict[str, Any] = SGLANG["server_info"] | {
    "dp_size": 8,
    "enable_dp_attention": True,
    "kv_cache_dtype": "auto",
}


@pytest.mark.parametrize(
    ("record", "expected"),
    [
        # as many as the client allows, unless fewer come or there are no more
        (VLLM | {"max_concurrency": 256}, {"concurrency": 160}),
        (VLLM | {"max_concurrency": 256, "request_rate": 2.0}, {"concurrency": 16}),
        (SGLANG | {"max_concurrency": 256}, {"concurrency": 15}),
        (VLLM | {"max_concurrency": 64, "request_rate": "inf"}, {"concurrency": 64}),
        # a client asks other engines than its own
        (VLLM | {"backend": "sglang"}, {"engine": "sglang"}),
        (VLLM | {"backend": "tensorrt-llm"}, {"engine": "trtllm"}),
        (VLLM | {"backend": "openai-chat"}, {"engine": "vllm"}),
        (SGLANG | {"backend": "trt"}, {"engine": "trtllm"}),
        (SGLANG | {"backend": "sglang-oai-chat"}, {"engine": "sglang"}),
        # what the user states beside a run of vLLM
        (
            VLLM | {"version": "0.11.0", "dtype_kv": "fp8", "dp": "2"},
            {"engine_version": "0.11.0", "dtype_kv": "fp8", "dp": 2},
        ),
        (
            {name: one for name, one in VLLM.items() if name != "tp"}
            | {"tensor_parallel_size": "4"},
            {"tp": 4},
        ),
        # copies of the attention, replicas, and the server that writes answers
        (
            SGLANG | {"server_info": SERVER},
            {"tp": 1, "dp": 8, "concurrency": 15, "output_tokens_per_s": 768},
        ),
        (
            SGLANG | {"server_info": SERVER | {"enable_dp_attention": False, "dp_size": 3}},
            {"tp": 8, "dp": 1, "concurrency": 5, "output_tokens_per_s": 256},
        ),
        (
            SGLANG | {"server_info": {"decode": [SERVER], "prefill": [SERVER]}},
            {"apart": "yes", "dp": 8},
        ),
        (SGLANG | {"server_info": SERVER | {"long": "x" * 70_000}}, {"tp": 1}),
        (
            SGLANG | {"server_info": SERVER | SCHEDULER},
            {"running_limit": 128, "memory_percent": 82, "receive_interval": 10},
        ),
        # how InferenceX starts SGLang on these GPUs
        (DEEPSEEK, {"receive_interval": 30, "memory_percent": 85}),
        (DEEPSEEK | {"conc": 8}, {"receive_interval": 10}),
        (DEEPSEEK | {"precision": "fp8", "tp": 4}, {"receive_interval": 10, "memory_percent": 95}),
        (
            DEEPSEEK | {"hw": "h200", "precision": "fp8"},
            {"receive_interval": 1, "memory_percent": 82},
        ),
        (
            DEEPSEEK | {"model": "nvidia/GLM-5-NVFP4"},
            {"receive_interval": 10, "memory_percent": 90},
        ),
        (DEEPSEEK | {"framework": "vllm"}, {"receive_interval": 1}),
        (DEEPSEEK | {"dp_attention": "true"}, {"receive_interval": 1}),
        (DEEPSEEK | {"hw": "mi355x"}, {"receive_interval": 1}),
        (INFERENCEX | {"pp": 2, "tp": 4}, {"pp": 2, "dp": 4, "output_tokens_per_s": 3200}),
        (INFERENCEX | {"spec_decoding": "false"}, {"variant": ""}),
        (
            {name: one for name, one in INFERENCEX.items() if name != "hw"} | {"device": "mi325x"},
            {"device": "MI325X"},
        ),
        (VLLM | {"model_id": "/models/Llama-3.1-70B-Instruct"}, {"layers": 80}),
    ],
)
def test_clients_are_read_as_they_write(
    tmp_path: Path, record: dict[str, Any], expected: dict[str, Any]
) -> None:
    row = read(tmp_path, record).frame.iloc[0]
    assert {name: row[name] for name in expected} == expected


def test_failed_requests_are_told_of(tmp_path: Path) -> None:
    (note,) = [
        note
        for note in read(tmp_path, VLLM | {"failed": 40}).notes
        if note.code == "requests-failed"
    ]
    assert "40 requests failed" in note.text
    failed = AIPERF | {"error_request_count": {"unit": "requests", "avg": 3.0}}
    assert "requests-failed" in [note.code for note in read(tmp_path, failed, engine="vllm").notes]
    with pytest.raises(DataError, match=r"no request was completed \(160 failed\)"):
        read(tmp_path, VLLM | {"completed": 0, "failed": 160})
    with pytest.raises(DataError, match="no mean time above zero to the first token"):
        read(tmp_path, VLLM | {"mean_tpot_ms": None})


def test_a_mark_of_the_byte_order_is_no_part_of_a_result(tmp_path: Path) -> None:
    file = tmp_path / "result.json"
    file.write_text("\ufeff" + json.dumps(VLLM))
    assert len(fc.read(file, default={"device": "MI300X", "dtype_a": "fp8"}).frame) == 1


def test_unknown_columns_are_kept_as_labels_and_named(tmp_path: Path) -> None:
    found = read(tmp_path, VLLM)
    assert found.frame["p99_ttft_ms"].tolist() == ["400.0"]
    (note,) = [note for note in found.notes if note.code == "labels-kept"]
    assert {"request_rate", "p99_ttft_ms"} <= set(note.values["names"])
    assert not set(note.values["names"]) & {"ttfts", "mean_ttft_ms"}


def test_runs_that_do_not_say_their_gpus_are_named(tmp_path: Path) -> None:
    codes = [
        {note.code for note in read(tmp_path, AIPERF, engine="vllm", **tp).notes}
        for tp in ({}, {"tp": "4"})
    ]
    assert ["tp-assumed" in one for one in codes] == [True, False]
    with pytest.raises(DataError, match="give default engine=VALUE"):
        read(tmp_path, AIPERF)
    lacking = read(tmp_path, [SGLANG | {"total_input_tokens": None}, SGLANG])
    assert lacking.rejected_at == {"missing-dimension": "result.json:1, input_len"}


def test_what_is_no_run_is_refused_and_the_others_are_read(tmp_path: Path) -> None:
    file = tmp_path / "runs.jsonl"
    broken = {**SGLANG, "mean_ttft_ms": None}
    file.write_text("\n".join([json.dumps(SGLANG), '{"backend": ', json.dumps(broken)]))
    found = fc.read(file, default={"device": "H200", "dtype_a": "fp8"})
    assert len(found.frame) == 1
    assert dict(zip(found.rejected["source"], found.rejected["reason"], strict=True)) == {
        "runs.jsonl:2": "not-a-run",
        "runs.jsonl:3": "no-token-times",
    }


def test_the_sample_says_its_gpus_once(tmp_path: Path) -> None:
    file = tmp_path / "silicon_sample.csv"
    file.write_text(SAMPLE)
    rows = fc.read(file).frame
    assert rows[["tp", "dp", "ep"]].to_numpy().tolist() == [[8, 1, 8], [2, 1, 1]]
    assert rows["dtype_b"].tolist() == ["fp8", "bf16"]
    assert rows["measured"].tolist() == ["2026-03-24", ""]
    assert rows["client"].tolist() == ["inferencex", "aiconfigurator"]


def test_a_table_of_ones_own_needs_no_time_of_a_request(tmp_path: Path) -> None:
    file = tmp_path / "own.csv"
    from flopcast.api.tables import template

    template("serving").to_csv(file, index=False)
    row = fc.read(file).frame.iloc[0]
    assert row["duration_us"] == pytest.approx((250 + 1023 * 17.5) * 1e3)


def test_speculation_is_a_variant(tmp_path: Path) -> None:
    several = SGLANG | {"accept_length": 3.48}
    named = several | {"server_info": SGLANG["server_info"] | {"speculative_algorithm": "EAGLE"}}
    variants = [
        read(tmp_path, record).frame["variant"].iloc[0] for record in (SGLANG, several, named)
    ]
    assert variants == ["", "speculative", "eagle"]
    drafted = VLLM | {"spec_decode_acceptance_length": 2.4}
    assert read(tmp_path, drafted).frame["variant"].iloc[0] == "speculative"
    assert read(tmp_path, INFERENCEX | {"spec_decoding": "mtp"}).frame["variant"].iloc[0] == "mtp"


@pytest.mark.parametrize(
    "said",
    [
        {"spec_decode_acceptance_rate": 85.0},
        {"spec_decode_num_drafts": 300, "spec_decode_draft_tokens": 900},
        {"accept_length": 2.7},
        {"num_accepted_tokens": 2700},
        {"spec_decode": True},
        {"speculative_config": {"method": "eagle3", "num_speculative_tokens": 3}},
        {"speculative_config": '{"method": "eagle3"}'},
        {"speculative_model": "x/y", "num_speculative_tokens": 5},
    ],
)
@pytest.mark.parametrize("client", [VLLM, SGLANG, AIPERF, INFERENCEX])
def test_what_any_client_says_of_speculation_is_understood(
    tmp_path: Path, client: dict[str, Any], said: dict[str, Any]
) -> None:
    assert read(tmp_path, client | said, engine="vllm").frame["variant"].iloc[0] in (
        "speculative",
        "eagle3",
    )


@pytest.mark.parametrize(
    "said",
    [
        {"internal_states": [{"avg_spec_accept_length": 2.9}]},
        {"speculative_draft_model_path": "x/y-eagle"},
    ],
)
def test_what_the_server_says_of_speculation_is_understood(
    tmp_path: Path, said: dict[str, Any]
) -> None:
    record = SGLANG | {"server_info": SGLANG["server_info"] | said}
    assert read(tmp_path, record).frame["variant"].iloc[0] == "speculative"


@pytest.mark.parametrize(
    "said",
    [
        {"spec_decode_acceptance_length": 1.0, "spec_decode_num_drafts": 0},
        {"spec_decode": False, "num_accepted_tokens": 0},
        {"speculative_config": None},
        {"speculative_accept_threshold_single": 1.0, "speculative_attention_mode": "prefill"},
    ],
)
def test_a_step_that_gives_one_token_is_no_speculation(
    tmp_path: Path, said: dict[str, Any]
) -> None:
    for client in (VLLM, SGLANG | {"server_info": SGLANG["server_info"] | said}):
        frame = read(tmp_path, client | said).frame
        assert frame.get("variant", [""])[0] == ""


@pytest.mark.parametrize(
    "cached",
    [
        {"total_cached_tokens": 90_000},
        {"cached_tokens": 90_000},
        {"prefix_cache_hits": 9, "prefix_cache_queries": 10},
    ],
)
def test_cached_tokens_are_held_against_those_of_the_prompts(
    tmp_path: Path, cached: dict[str, Any]
) -> None:
    with pytest.raises(DataError, match="prompts-cached"):
        read(tmp_path, VLLM | cached)
    few = {name: value if name.endswith("queries") else 0 for name, value in cached.items()}
    assert len(read(tmp_path, VLLM | few).frame) == 1


@pytest.mark.parametrize(
    "hit",
    [
        {"theoretical_prefix_cache_hit": {"unit": "%", "avg": 95.2}},
        {"prefix_cache_hit_rate": {"unit": "ratio", "avg": 0.6}},
        {"cache_hit_rate": 0.6},
    ],
)
def test_prompts_that_the_cache_held_are_no_run_of_them(
    tmp_path: Path, hit: dict[str, Any]
) -> None:
    with pytest.raises(DataError, match="prompts-cached"):
        read(tmp_path, AIPERF | hit)


def test_a_few_cached_tokens_do_not_matter(tmp_path: Path) -> None:
    assert (
        len(
            read(
                tmp_path,
                AIPERF | {"theoretical_prefix_cache_hit": {"unit": "%", "avg": 2.0}},
                engine="vllm",
            ).frame
        )
        == 1
    )


def test_token_times_in_another_unit_than_the_head_says_are_refused(tmp_path: Path) -> None:
    """16 requests at 1,024 tokens a second take 16 s each for 1,024 tokens: 15 ms a token, not 0.015."""
    head = "op,model,device,dtype_a,engine,tp,concurrency,input_len,output_len,ttft_ms,tpot_ms,output_tokens_per_s"
    setting = "serving,llama-3.1-70b,H200,fp8,vllm,8,16,1024,1024"
    file = tmp_path / "runs.csv"
    file.write_text(
        f"{head}\n{setting},0.12,0.015,1024\n{setting},120,0.015,1024\n{setting},120,15,1024\n"
    )
    found = fc.read(file)
    assert found.frame["tpot_ms"].tolist() == [15.0]
    assert found.rejected["reason"].tolist() == ["other-unit", "other-unit"]
    assert ["ttft_ms" in detail for detail in found.rejected["detail"]] == [True, False]
    file.write_text(f"{head}\n{setting},0.12,0.015,1024\n")
    with pytest.raises(DataError, match="give unit tpot_ms=s and give unit ttft_ms=s"):
        fc.read(file)
    row = fc.read(file, unit={"tpot_ms": "s", "ttft_ms": "s"}).frame.iloc[0]
    assert row[["ttft_ms", "tpot_ms"]].tolist() == pytest.approx([120, 15])
    assert row["duration_us"] == pytest.approx((120 + 1023 * 15) * 1e3)


def test_a_client_whose_times_contradict_its_throughput_is_refused(tmp_path: Path) -> None:
    with pytest.raises(DataError, match="by throughput and concurrency the unit is s, not ms"):
        read(tmp_path, VLLM | {"mean_ttft_ms": 0.12, "mean_tpot_ms": 0.015})


@pytest.mark.parametrize("factor", [1 / 8, 0.5, 2.0, 8.0])
def test_throughput_of_one_gpu_or_of_all_tokens_is_no_other_unit(
    tmp_path: Path, factor: float
) -> None:
    assert len(read(tmp_path, VLLM | {"output_throughput": 1024.0 * factor}).frame) == 1


def test_turns_of_conversations_are_refused_by_name(tmp_path: Path) -> None:
    lengths = {"isl", "osl"}
    turns = {name: value for name, value in INFERENCEX.items() if name not in lengths}
    turns |= {"scenario_type": "agentic-coding", "mean_input_tokens": 64293.9}
    with pytest.raises(DataError, match=r"several-turns.*agentic-coding"):
        read(tmp_path, turns)
    assert len(read(tmp_path, INFERENCEX | {"scenario_type": "fixed-seq-len"}).frame) == 1

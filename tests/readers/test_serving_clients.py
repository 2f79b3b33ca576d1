"""Clients of serving, each in the form of its producer: lengths, requests under way and times, held against sums by hand."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pandas as pd
import pytest

import flopcast as fc
from flopcast.errors import DataError

VLLM_BLOCK = """INFO 06-01 12:00:00 [api_server.py:1] vLLM API server
Namespace(backend='vllm', base_url=None, model='Qwen/Qwen3-32B', num_prompts=100)
Traffic request rate: inf
Maximum request concurrency: 32
============ Serving Benchmark Result ============
Successful requests:                     100
Failed requests:                         2
Maximum request concurrency:             32
Benchmark duration (s):                  50.00
Total input tokens:                      102400
Total generated tokens:                  51200
Request throughput (req/s):              2.00
Output token throughput (tok/s):         1024.00
Peak output token throughput (tok/s):    1500.00
Total Token throughput (tok/s):          3072.00
---------------Time to First Token----------------
Mean TTFT (ms):                          1200.00
Median TTFT (ms):                        950.00
-----Time per Output Token (excl. 1st token)------
Mean TPOT (ms):                          12.00
P99 TPOT (ms):                           12.83
==================================================
"""
SGLANG_BLOCK = """python3 -m sglang.bench_serving --backend sglang --model amd/Llama-3.1-70B --num-prompts 64
============ Serving Benchmark Result ============
Backend:                                 sglang
Traffic request rate:                    inf
Max request concurrency:                 16
Successful requests:                     64
Benchmark duration (s):                  20.00
Total input tokens:                      65536
Total generated tokens:                  6464
Request throughput (req/s):              3.20
Output token throughput (tok/s):         323.20
Concurrency:                             15.80
----------------End-to-End Latency----------------
Mean E2E Latency (ms):                   4200.00
---------------Time to First Token----------------
Mean TTFT (ms):                          200.00
---------------Inter-Token Latency----------------
Mean ITL (ms):                           41.00
==================================================
"""
GENAI_CSV = """Metric,avg,min,max,p99,p95,p90,p75,p50,p25
Time To First Token (ms),"1,100.00",249.48,"3,485.23","3,457.97","3,349.56","3,215.06","1,330.93",640.07,286.52
Request Latency (ms),"6,000.00","5,371.47","9,608.72","9,436.13","9,046.58","9,028.16","6,549.60","5,690.23","5,493.63"
Inter Token Latency (ms),30.35,27.59,35.60,35.23,33.88,32.53,31.05,30.13,29.04
Output Sequence Length (tokens),162.00,164.00,187.00,186.22,183.10,180.10,177.00,174.00,171.75
Input Sequence Length (tokens),"3,000.05","2,999.00","3,001.00","3,001.00","3,001.00","3,000.00","3,000.00","3,000.00","3,000.00"

Metric,Value
Output Token Throughput (per sec),243.00
Request Throughput (per sec),1.50
Request Count (count),40.00
"""
AIPERF_CSV = """Metric,min,max,avg,p50
Inter Token Latency (us),2780,2910,30350,2830
Time to First Token (s),0.5,2.0,1.1,1.0
Request Latency (s),5,7,6,6
Output Sequence Length (tokens),410,501,162,500
Input Sequence Length (tokens),2999,3001,3000,3000

Metric,Value
Output Token Throughput (tokens/sec),243.00
Request Throughput (requests/sec),1.50
"""


def _statistics(mean: float) -> dict[str, Any]:
    return {"successful": {"mean": mean, "median": mean, "count": 9}, "errored": {"mean": 0.0}}


GUIDELLM: dict[str, Any] = {
    "metadata": {"version": 1, "guidellm_version": "0.5.0"},
    "args": {"target": "http://localhost:8000", "model": "Qwen/Qwen3-32B"},
    "benchmarks": [
        {
            "config": {"strategy": {"type_": "concurrent", "streams": streams}},
            "metrics": {
                "request_totals": {"successful": 9, "errored": 1, "incomplete": 0, "total": 10},
                "requests_per_second": _statistics(streams / 2.0),
                "request_concurrency": _statistics(streams - 0.2),
                "request_latency": _statistics(2.0),
                "prompt_token_count": _statistics(512.3),
                "output_token_count": _statistics(101.0),
                "time_to_first_token_ms": _statistics(100.0),
                "time_per_output_token_ms": _statistics(19.8),
                "inter_token_latency_ms": _statistics(19.0),
                "output_tokens_per_second": _statistics(50.5 * streams),
            },
        }
        for streams in (4, 16)
    ],
}
INFERENCE_PERF: dict[str, Any] = {
    "load_summary": {"count": 60, "requested_rate": 4.0, "achieved_rate": 3.9},
    "successes": {
        "count": 60,
        "latency": {
            "request_latency": {"mean": 2.5, "p50": 2.4},
            "normalized_time_per_output_token": {"mean": 0.025},
            "time_per_output_token": {"mean": 0.02},
            "time_to_first_token": {"mean": 0.5},
        },
        "throughput": {"output_tokens_per_sec": 400.0, "requests_per_sec": 4.0},
        "prompt_len": {"mean": 300.4},
        "output_len": {"mean": 101.0},
    },
    "failures": {"count": 0},
}
LLMPERF: dict[str, Any] = {
    "version": "2023-08-31", "name": "x_550_101_summary", "model": "meta-llama/Llama-3.1-8B",
    "mean_input_tokens": 550, "stddev_input_tokens": 5, "mean_output_tokens": 150,
    "num_concurrent_requests": 8, "results_inter_token_latency_s_mean": 0.0109,
    "results_ttft_s_mean": 0.1, "results_end_to_end_latency_s_mean": 1.1,
    "results_number_output_tokens_mean": "101", "results_number_errors": 0,
    "results_mean_output_throughput_token_per_s": 700.0,
}  # fmt: skip
TRTLLM: dict[str, Any] = {
    "engine": {
        "model": "meta-llama/Llama-3.1-70B", "model_path": None, "version": "1.0.0", "backend": "Pytorch",
        "dtype": "bfloat16", "kv_cache_dtype": "FP8", "quantization": "FP8",
    },
    "world_info": {"tp_size": 4, "pp_size": 1, "ep_size": 1, "world_size": 4, "max_batch_size": 256},
    "request_info": {
        "num_requests": 500, "avg_num_concurrent_requests": 61.8, "avg_input_length": 1024.0, "avg_output_length": 201.0,
    },
    "performance": {
        "total_latency_ms": 50000.0, "avg_request_latency_ms": 6200.0, "request_throughput_req_s": 10.0,
        "system_output_throughput_tok_s": 2010.0,
    },
    "streaming_metrics": {"avg_ttft_ms": 200.0, "avg_tpot_ms": 30.0},
}  # fmt: skip
ONE_BATCH: dict[str, Any] = {
    "run_name": "default", "model_path": "Qwen/Qwen3-32B", "batch_size": 8, "input_len": 1024, "output_len": 101,
    "prefill_latency": 0.5, "prefill_throughput": 16384.0, "median_decode_latency": 0.02,
    "median_decode_throughput": 400.0, "total_latency": 2.5, "overall_throughput": 3600.0,
}  # fmt: skip
LATENCY: dict[str, Any] = {
    "avg_latency": 2.0,
    "latencies": [1.9, 2.1],
    "percentiles": {"10": 1.9, "50": 2.0, "99": 2.1},
}
MLPERF = """================================================
MLPerf Results Summary
================================================
SUT name : PySUT
Scenario : Server
Mode     : PerformanceOnly
Completed samples per second    : 10.00
Result is : VALID
  Min duration satisfied : Yes

================================================
Additional Stats
================================================
Mean latency (ns)               : 4200000000
99.00 percentile latency (ns)   : 9000000000

Completed tokens per second                 : 2010.00
Mean First Token latency (ns)               : 200000000
Mean Time per Output Token (ns)               : 20000000
"""
STATED = {"device": "MI300X", "dtype_a": "fp8", "model": "Qwen/Qwen3-32B", "engine": "vllm"}


def read(folder: Path, content: object, **default: str) -> Any:
    """Return what is read of the content of one file."""
    file = folder / "result.txt"
    file.write_text(content if isinstance(content, str) else json.dumps(content))
    return fc.read(file, default=STATED | default)


@pytest.mark.parametrize(
    ("content", "lengths", "at_once", "times", "request_ms", "tokens_per_s"),
    [
        (VLLM_BLOCK, (1024, 512), 32, (1200.0, 12.0), 1200 + 511 * 12, 1024.0),
        (SGLANG_BLOCK, (1024, 101), 16, (200.0, 40.0), 4200, 323.2),
        (GENAI_CSV, (3000, 162), 9, (1100.0, 30.35), 1100 + 161 * 30.35, 243.0),
        (AIPERF_CSV, (3000, 162), 9, (1100.0, 30.35), 1100 + 161 * 30.35, 243.0),
        (INFERENCE_PERF, (300, 101), 10, (500.0, 20.0), 2500, 400.0),
        (LLMPERF, (550, 101), 8, (100.0, 10.0), 1100, 700.0),
        (TRTLLM, (1024, 201), 62, (200.0, 30.0), 6200, 2010.0),
        (ONE_BATCH, (1024, 101), 8, (500.0, 20.0), 2500, 323.2),
        (MLPERF, (512, 201), 42, (200.0, 20.0), 4200, 2010.0),
    ],
)  # fmt: skip
def test_each_client_gives_lengths_requests_under_way_and_times(
    tmp_path: Path,
    content: object,
    lengths: tuple[int, int],
    at_once: int,
    times: tuple[float, float],
    request_ms: float,
    tokens_per_s: float,
) -> None:
    stated = {"input_len": "512"} if content == MLPERF else {}
    table = read(tmp_path, content, **stated)
    (row,) = table.frame.to_dict("records")
    assert (row["input_len"], row["output_len"], row["concurrency"]) == (*lengths, at_once)
    assert (row["ttft_ms"], row["tpot_ms"]) == pytest.approx(times)
    assert row["duration_us"] == pytest.approx(request_ms * 1e3)
    assert row["output_tokens_per_s"] == pytest.approx(tokens_per_s)


def test_each_benchmark_of_a_report_is_a_run(tmp_path: Path) -> None:
    frame = read(tmp_path, GUIDELLM, model="").frame
    assert frame["model"].tolist() == ["Qwen/Qwen3-32B"] * 2
    assert frame["concurrency"].tolist() == [4.0, 16.0]
    assert frame["input_len"].tolist() == [512.0, 512.0]
    assert frame["tpot_ms"].tolist() == [19.0, 19.0]
    assert frame["duration_us"].tolist() == [2e6, 2e6]
    assert frame["output_tokens_per_s"].tolist() == [202.0, 808.0]


def test_what_a_client_says_of_its_server_is_read(tmp_path: Path) -> None:
    (row,) = read(tmp_path, TRTLLM, model="", engine="", dtype_a="").frame.to_dict("records")
    assert (row["model"], row["engine"], row["tp"]) == ("meta-llama/Llama-3.1-70B", "trtllm", 4)
    assert (row["dtype_a"], row["dtype_kv"], row["running_limit"]) == ("fp8", "fp8", 256)
    (row,) = read(tmp_path, SGLANG_BLOCK, model="", engine="").frame.to_dict("records")
    assert (row["model"], row["engine"]) == ("amd/Llama-3.1-70B", "sglang")


def test_blocks_of_one_log_are_runs_of_their_own(tmp_path: Path) -> None:
    prefixed = "\n".join(f"[rank0] {line}" for line in VLLM_BLOCK.splitlines())
    lost = VLLM_BLOCK.replace("=" * 50, "")
    log = prefixed + "\n" + SGLANG_BLOCK + "x" * 70000 + "\n" + lost
    frame = read(tmp_path, log, model="").frame
    assert sorted(frame["concurrency"]) == [16.0, 32.0]
    assert frame["repeats"].tolist() == [2.0, 1.0]
    behind = read(tmp_path, "vllm server\n" + "x\n" * 50000 + VLLM_BLOCK).frame
    assert behind["concurrency"].tolist() == [32.0]


def test_the_time_of_one_batch_needs_its_setting(tmp_path: Path) -> None:
    with pytest.raises(DataError, match="missing"):
        read(tmp_path, LATENCY)
    (row,) = read(
        tmp_path, LATENCY, input_len="32", output_len="128", concurrency="8"
    ).frame.to_dict("records")
    assert (row["duration_us"], row["repeats"], row["variant"]) == (2e6, 2.0, "one batch")


@pytest.mark.parametrize(
    ("content", "reason"),
    [
        (VLLM_BLOCK.replace("1024.00", "2048.00"), "contradict"),
        (ONE_BATCH | {"overall_throughput": 36.0}, "contradict"),
        (TRTLLM | {"performance": TRTLLM["performance"] | {"request_throughput_req_s": 99.0}}, "contradict"),
        (LATENCY | {"avg_latency": 2000.0}, "contradict"),
        (VLLM_BLOCK.replace("requests:                     100", "requests: 0"), "no request was completed"),
        (MLPERF.replace("PerformanceOnly", "AccuracyOnly"), "no record of a run"),
    ],
)  # fmt: skip
def test_figures_that_contradict_each_other_are_refused(
    tmp_path: Path, content: object, reason: str
) -> None:
    with pytest.raises(DataError, match=reason):
        read(tmp_path, content, input_len="32", output_len="128", concurrency="8")


def test_drafted_tokens_make_a_variant(tmp_path: Path) -> None:
    drafted = SGLANG_BLOCK.replace(
        "Concurrency: ", "Accept length:                           2.9\nConcurrency: "
    )
    (row,) = read(tmp_path, drafted).frame.to_dict("records")
    assert row["variant"] == "speculative"


OWN = {
    "model": ["llama-3.1-70b"] * 2,
    "engine": ["vllm"] * 2,
    "gpu": ["MI300X"] * 2,
    "dtype": ["fp8"] * 2,
}


@pytest.mark.parametrize(
    "columns",
    [
        {"isl": 1024, "osl": 512, "concurrency": [1, 64], "tp": 8, "ttft_ms": 60.0, "tpot_ms": 9.0},
        {"ISL": 1024, "OSL": 512, "Conc": [1, 64], "TP": 8, "TTFT (s)": 0.06, "TPOT (ms)": 9.0},
        {
            "random_input_len": 1024,
            "random_output_len": 512,
            "max_concurrency": [1, 64],
            "tensor_parallel_size": 8,
            "mean_ttft_ms": 60.0,
            "mean_tpot_ms": 9.0,
            "mean_itl_ms": 8.0,
        },
        {
            "random_input": 1024,
            "random_output": 512,
            "max_concurrency": [1, 64],
            "tp_size": 8,
            "mean_ttft_us": 60e3,
            "mean_itl_ms": 9.0,
        },
    ],
)
def test_a_table_of_runs_may_have_the_words_of_the_field(
    columns: dict[str, object], tmp_path: Path
) -> None:
    table = pd.DataFrame({**OWN, **columns})
    table.to_csv(tmp_path / "runs.csv", index=False)
    for given in (table, tmp_path / "runs.csv"):
        found = fc.read(given).frame
        assert found["concurrency"].tolist() == [1, 64]
        for name, value in {
            "input_len": 1024,
            "output_len": 512,
            "tp": 8,
            "ttft_ms": 60.0,
            "tpot_ms": 9.0,
        }.items():
            assert found[name].tolist() == pytest.approx([value] * 2)
        assert set(found["device"]) == {"MI300X"}


def test_defaults_of_runs_may_have_the_words_of_the_field() -> None:
    table = pd.DataFrame({**OWN, "conc": [1, 64], "ttft_ms": 60.0, "tpot_ms": 9.0})
    found = fc.read(table, default={"isl": "1024", "osl": "512", "tp_size": "8"}).frame
    assert found[["input_len", "output_len", "tp"]].values.tolist() == [[1024, 512, 8]] * 2


# 64 requests of 60 + 511 x 9 ms at once write 7,033 tokens a second
@pytest.mark.parametrize(
    ("stated", "factors"),
    [(3600.0, []), (7033.0, []), (8000.0, []), (14070.0, [2.0]), (1759.0, [0.25])],
)
def test_a_throughput_that_is_not_that_of_the_times_is_told(
    stated: float, factors: list[float]
) -> None:
    times = {"conc": [8, 64], "ttft_ms": 60.0, "tpot_ms": 9.0, "isl": 1024, "osl": 512, "tp": 8}
    table = pd.DataFrame({**OWN, **times, "output_throughput": [870.0, stated]})
    found = fc.read(table)
    assert len(found.frame) == 2
    told = [note for note in found.notes if note.code == "throughput-contradicts-times"]
    assert [note.values["factor"] for note in told] == pytest.approx(factors, rel=1e-3)
    for note in told:
        assert f"{stated:,.0f} output tokens/s" in note.text
        assert "7,033 follow" in note.text

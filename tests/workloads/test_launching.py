"""The command lines that start a way to serve a model."""

from __future__ import annotations

from typing import Any

import pandas as pd
import pytest

from flopcast.hardware import find
from flopcast.workloads import model_catalogue
from flopcast.workloads.deployments import Question
from flopcast.workloads.launching import serve_command


def command(model: str, memory: float = 0.9, gpu: str = "MI300X", **way: Any) -> str:
    question = Question(
        model=model_catalogue.find(model),
        gpus=(find(gpu),),
        counts=(8,),
        memory_utilisation=memory,
    )
    plain = {"engine": "vllm", "dtype": "bf16", "kv_dtype": "bf16", "tp": 1, "dp": 1, "ep": 1}
    return serve_command(pd.Series(plain | {"gpu": find(gpu).name} | way), question)


@pytest.mark.parametrize(
    ("model", "way", "line"),
    [
        ("llama-3.1-70b", {"tp": 2}, "vllm serve meta-llama/Llama-3.1-70B -tp 2"),
        ("deepseek-r1", {"dtype": "fp8", "tp": 8}, "vllm serve deepseek-ai/DeepSeek-R1 -tp 8"),
        (
            "deepseek-r1",
            {"dtype": "fp8", "dp": 8, "ep": 8},
            "vllm serve deepseek-ai/DeepSeek-R1 -dp 8 --enable-expert-parallel",
        ),
        (
            "llama-3.1-8b",
            {"engine": "sglang", "dtype": "fp8", "kv_dtype": "fp8", "memory": 0.8},
            "python -m sglang.launch_server --model-path meta-llama/Llama-3.1-8B "
            "--quantization fp8 --kv-cache-dtype fp8_e4m3 --mem-fraction-static 0.8",
        ),
        (
            "deepseek-r1",
            {"engine": "sglang", "dtype": "fp8", "dp": 8, "ep": 8},
            "python -m sglang.launch_server --model-path deepseek-ai/DeepSeek-R1 "
            "--tp 8 --dp 8 --enable-dp-attention --ep 8",
        ),
        (
            "llama-3.1-8b",
            {"engine": "trtllm", "tp": 2},
            "trtllm-serve meta-llama/Llama-3.1-8B --tp_size 2",
        ),
        ("llama-3.1-8b", {"engine": "trtllm", "dtype": "fp8"}, ""),
        (
            "deepseek-r1",
            {"gpu": "B200 (HGX)", "dtype": "fp4", "tp": 8},
            "vllm serve nvidia/DeepSeek-R1-NVFP4 -tp 8",
        ),
        (
            "deepseek-r1",
            {"gpu": "B200 (HGX)", "engine": "sglang", "dtype": "fp4", "tp": 8},
            "python -m sglang.launch_server --model-path nvidia/DeepSeek-R1-NVFP4 --tp 8 "
            "--quantization modelopt_fp4",
        ),
        ("deepseek-r1", {"gpu": "MI355X", "dtype": "fp4", "tp": 8}, ""),
        ("llama-3.1-70b", {"gpu": "B200 (HGX)", "dtype": "fp4", "tp": 8}, ""),
        (
            "deepseek-r1",
            {"engine": "atom", "dtype": "fp8", "kv_dtype": "fp8", "tp": 4, "dp": 2, "ep": 8},
            "python -m atom.entrypoints.openai_server --model deepseek-ai/DeepSeek-R1 "
            "-tp 4 -dp 2 --enable-expert-parallel --kv_cache_dtype fp8",
        ),
        ("llama-3.1-8b", {"engine": "atom", "dtype": "fp8"}, ""),
    ],
)
def test_options_are_those_of_the_engine(model: str, way: dict[str, Any], line: str) -> None:
    assert command(model, **way) == line

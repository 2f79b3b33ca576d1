"""The command that starts a way to serve a model, in the words of its engine."""

from __future__ import annotations

import shlex
from typing import Final

import pandas as pd

from . import model_catalogue
from .architecture import Architecture
from .deployments import Question
from .setting import WIDE, Setting, most_weights

_MODEL: Final = {
    "vllm": ("vllm", "serve"),
    "sglang": ("python", "-m", "sglang.launch_server", "--model-path"),
    "trtllm": ("trtllm-serve",),
    "atom": ("python", "-m", "atom.entrypoints.openai_server", "--model"),
}
_SHARE: Final = {
    "vllm": "--gpu-memory-utilization",
    "sglang": "--mem-fraction-static",
    "trtllm": "--kv_cache_free_gpu_memory_fraction",
    "atom": "--gpu-memory-utilization",
}


def serve_command(way: pd.Series, question: Question) -> str:
    """Return the command line that starts one replica of a way; "" if options alone cannot express it.

    ``way`` is a row of `deployments.Choice.ways`. Options are those of vLLM 0.10 and later, SGLang
    0.4 and later, TensorRT-LLM 1.0 and later and ATOM of 2026. TensorRT-LLM and ATOM read formats of
    weights from the checkpoint, and TensorRT-LLM shares out attention by a file: such ways have no line.
    """
    checkpoint = _checkpoint(way, question)
    if checkpoint is None or why_no_command(way, question):
        return ""
    engine = str(way["engine"])
    tp, dp, ep = (int(way[name]) for name in ("tp", "dp", "ep"))
    words = [*_MODEL[engine], model_catalogue.hub_name(checkpoint)]
    words += _cut(engine, tp, dp, ep)
    if str(way["dtype"]) == "fp8" and most_weights(checkpoint) != "fp8":
        words += ["--quantization", "fp8"]
    if checkpoint != question.model and engine == "sglang":
        words += ["--quantization", "modelopt_fp4"]
    if str(way["kv_dtype"]) == "fp8":
        words += _cache(engine)
    if question.memory_utilisation != Setting.memory_utilisation:
        words += [_SHARE[engine], f"{question.memory_utilisation:g}"]
    return shlex.join(words)


def why_no_command(way: pd.Series, question: Question) -> str:
    """Return why options alone do not start a way, "" where they do."""
    engine = str(way["engine"])
    dtype = str(way["dtype"])
    if _checkpoint(way, question) is None:
        stored = most_weights(question.model)
        return (
            f"a checkpoint quantised to {dtype} is needed, {engine} makes none of "
            f"{question.model.name} ({stored}) on loading"
        )
    if question.conditioned:
        return "drafts and routers have options that no measured run states"
    if engine == "trtllm" and int(way["dp"]) > 1:
        return "TensorRT-LLM shares out attention by a file, not by options"
    return ""


def _checkpoint(way: pd.Series, question: Question) -> Architecture | None:
    """Return the model whose checkpoint a way loads, None where flopcast knows none.

    The checkpoints in FP4 that it knows (``nvidia/DeepSeek-R1-NVFP4``) are in a format of NVIDIA's
    GPUs.
    """
    model = question.model
    dtype = str(way["dtype"])
    if dtype in (most_weights(model), WIDE):
        return model
    if dtype == "fp8" and way["engine"] in ("vllm", "sglang"):  # which make it on loading
        return model
    makers = {gpu.name: gpu.vendor for gpu in question.gpus}
    if makers[str(way["gpu"])] == "NVIDIA":
        for name in model_catalogue.quantised(model.name):
            quantised = model_catalogue.find(name)
            if most_weights(quantised) == dtype == "fp4":
                return quantised
    return None


def _cut(engine: str, tp: int, dp: int, ep: int) -> list[str]:
    words = []
    if engine in ("vllm", "atom"):
        if tp > 1:
            words += ["-tp", str(tp)]
        if dp > 1:
            words += ["-dp", str(dp)]
        if ep > 1:
            words += ["--enable-expert-parallel"]
        return words
    size = tp * dp
    if engine == "trtllm":
        if size > 1:
            words += ["--tp_size", str(size)]
        if ep > 1:
            words += ["--ep_size", str(ep)]
        return words
    if size > 1:
        words += ["--tp", str(size)]
    if dp > 1:
        words += ["--dp", str(dp), "--enable-dp-attention"]
    if ep > 1:
        words += ["--ep", str(ep)]
    return words


def _cache(engine: str) -> list[str]:
    if engine == "vllm":
        return ["--kv-cache-dtype", "fp8"]
    if engine == "sglang":
        return ["--kv-cache-dtype", "fp8_e4m3"]
    if engine == "atom":
        return ["--kv_cache_dtype", "fp8"]
    return []

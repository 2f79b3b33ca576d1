"""How many times longer kernels take, against their peak, on one GPU with one engine than on others.

From the measured kernels of AIConfigurator and the tuned products of AITER;
`benchmarks.serving_model` ships it.
"""

from __future__ import annotations

from collections.abc import Iterator
from itertools import product
from pathlib import Path
from typing import Final

import numpy as np
import pandas as pd

from ..hardware import GPU, find
from ..readers import read
from ..readers.aiconfigurator import SYSTEMS

NARROW: Final = {
    "bfloat16": ("bf16", 2.0),
    "fp8": ("fp8", 1.0),
    "fp8_block": ("fp8", 1.0),
    "nvfp4": ("fp4", 0.5625),
    "int4_wo": ("int4", 0.5625),
    "w4a16_mxfp4": ("fp4", 0.53),
    "w4a8_mxfp4_mxfp8": ("fp4", 0.53),
}
"""Formats of AIConfigurator's tables: of the weights, and bytes of a weight with its scales."""
TUNED: Final = {"bf16": "bfloat16", "fp8": "fp8", "fp4": "nvfp4"}
"""The same formats in AITER's products of AMD's GPUs."""
AMD: Final = ("MI300X", "MI355X")
"""Whose products AITER has."""
STRENGTH: Final = {"few": 0.5, "many": 1.0, "prompt attention": 1.0, "cache": 0.5, "experts": 0.5}
"""By `SLOWED`, the power of the ratio to the others: chosen of five ways with the scoreboard in sight."""


def slower(tables: Path, products: Path) -> dict[str, float]:
    """Return how many times longer kernels take against other GPUs and engines (`ServingModel.slower`).

    Parameters
    ----------
    tables, products : Path
        ``systems/data`` of AIConfigurator's wheel, and AITER's tuned products of AMD's GPUs. Of
        each GPU and engine the last version is taken, of a shape its fastest kernel, of a kind the
        median share of the peak of shapes large enough to be bound by one thing. An engine, or a
        format, without such kernels has the mean of the others.
    """
    shares = {
        "gemm/{}/*/gemm": _products,
        "attention/{}/*/context_attention": _prompts,
        "attention/{}/*/generation_attention": _caches,
        "moe/{}/*/moe": _experts,
    }
    rows = []
    for folder in sorted(one for one in tables.iterdir() if one.name in SYSTEMS):
        device = SYSTEMS[folder.name]
        for engine, (table, share) in product(("sglang", "trtllm", "vllm"), shares.items()):
            for file in sorted(folder.glob(f"{table.format(engine)}_perf.parquet"))[-1:]:
                rows += [
                    (device, engine, *one) for one in share(pd.read_parquet(file), find(device))
                ]
    tuned = read([products]).frame
    tuned = tuned[(tuned["op"] == "gemm") & tuned["dtype_b"].isin(list(TUNED))]
    named = {"gemm_dtype": tuned["dtype_b"].map(TUNED), "latency": tuned["duration_us"] / 1e3}
    for device in AMD:
        tuned_shapes = tuned[["device", "m", "n", "k"]].assign(**named)
        rows += [
            (device, "", *one)
            for one in _products(tuned_shapes[tuned_shapes["device"] == device], find(device))
        ]
    share_table = pd.DataFrame(rows, columns=["device", "engine", "kind", "weights", "share"])
    share_table["log"] = -np.log(share_table["share"]) * share_table["kind"].map(STRENGTH)
    share_table["log"] -= share_table.groupby(["kind", "weights"])["log"].transform("mean")
    means = [
        share_table.groupby(names, as_index=False)["log"].mean()
        for names in (["device", "kind"], ["device", "kind", "weights"])
    ]
    every = pd.concat([*means, share_table]).fillna({"engine": "", "weights": ""})
    keys = every["kind"] + "|" + every["device"] + "|" + every["engine"] + "|" + every["weights"]
    return dict(zip(keys, every["log"].round(4), strict=True))


Shares = Iterator[tuple[str, str, float]]


def _rate(gpu: GPU, dtype: str) -> float:
    return 1e12 * (gpu.peaks.get(f"{dtype}_matrix") or gpu.peaks["bf16_matrix"])


def _fastest(rows: pd.DataFrame, *names: str) -> pd.DataFrame:
    """Return each shape once, with seconds; formats that are not `NARROW` are left out."""
    narrow = next((name for name in rows if name in {"gemm_dtype", "moe_dtype"}), None)
    if narrow:
        rows = rows[rows[narrow].isin(NARROW)]
        rows = rows.assign(
            weights=[NARROW[one][0] for one in rows[narrow]],
            size=[NARROW[one][1] for one in rows[narrow]],
        )
        names = ("weights", *names)
    rows = rows.assign(seconds=rows["latency"] / 1e3)
    return rows.groupby(list(names), as_index=False)[
        ["seconds", *(["size"] if narrow else [])]
    ].min()


def _products(rows: pd.DataFrame, gpu: GPU) -> Shares:
    for weights, one in _fastest(rows, "m", "n", "k").groupby("weights"):
        few = one[(one["m"] <= 16) & (one["n"] * one["k"] >= 2**24)]
        many = one[one[["m", "n", "k"]].min(axis=1) >= 2048]
        bandwidth = 1e9 * (gpu.memory_bw_gbs or np.nan)
        yield (
            "few",
            str(weights),
            float((few["n"] * few["k"] * few["size"] / few["seconds"]).median() / bandwidth),
        )
        work = 2.0 * many["m"] * many["n"] * many["k"]
        yield (
            "many",
            str(weights),
            float((work / many["seconds"]).median() / _rate(gpu, str(weights))),
        )


def _prompts(rows: pd.DataFrame, gpu: GPU) -> Shares:
    rows = rows[(rows["isl"] >= 2048) & (rows.get("window_size", 0) == 0) & (rows["step"] == 0)]
    rows = rows[rows["batch_size"] * rows["isl"] * rows["num_heads"] >= 2**18]
    one = _fastest(rows, "batch_size", "isl", "num_heads", "num_key_value_heads", "head_dim")
    work = 2.0 * one["batch_size"] * one["isl"] ** 2 * one["num_heads"] * one["head_dim"]
    yield "prompt attention", "", float((work / one["seconds"]).median() / _rate(gpu, "bf16"))


def _caches(rows: pd.DataFrame, gpu: GPU) -> Shares:
    rows = rows[(rows.get("window_size", 0) == 0) & (rows["kv_cache_dtype"] == "bfloat16")]
    one = _fastest(rows, "batch_size", "step", "num_heads", "num_key_value_heads", "head_dim")
    read_bytes = (
        4.0 * one["batch_size"] * one["step"] * one["num_key_value_heads"] * one["head_dim"]
    )
    large = read_bytes >= 2**27
    yield (
        "cache",
        "",
        float(
            (read_bytes / one["seconds"])[large].median() / (1e9 * (gpu.memory_bw_gbs or np.nan))
        ),
    )


def _experts(rows: pd.DataFrame, gpu: GPU) -> Shares:
    sizes = (
        "num_tokens",
        "hidden_size",
        "inter_size",
        "topk",
        "num_experts",
        "moe_tp_size",
        "moe_ep_size",
    )
    for weights, one in _fastest(rows, *sizes).groupby("weights"):
        unvisited = (1.0 - one["topk"] / one["num_experts"]) ** one["num_tokens"]
        each = 3.0 * one["hidden_size"] * one["inter_size"] / one["moe_tp_size"] * one["size"]
        read_bytes = one["num_experts"] / one["moe_ep_size"] * (1.0 - unvisited) * each
        large = (read_bytes >= 2**26) & (one["num_tokens"] <= 128)
        reached = float((read_bytes / one["seconds"])[large].median())
        yield "experts", str(weights), reached / (1e9 * (gpu.memory_bw_gbs or np.nan))

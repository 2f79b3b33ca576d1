"""Constants of the vLLM releases on 8x MI300X, fitted to the runs that AMD has published.

``python -m flopcast.benchmarks.forecast_releases`` reads ``mi300x_vllm_rocm_readme.csv``
(ROCm/vllm, docs/dev-docker/README.md) and prints workloads/releases.toml: fitted parameters, no
measurements. Repeated runs of a configuration count once, as their mean.
"""

from __future__ import annotations

import argparse
import sys
from pathlib import Path
from typing import Any, Final

import numpy as np
import pandas as pd

from ..workloads.forecasting import parts_of
from ..workloads.releases import Release, as_rows, as_toml, calibrate
from ..workloads.setting import complete
from .shared_data import run_on_data

RUNS: Final = "mi300x_vllm_rocm_readme.csv"
SOURCE: Final = "ROCm/vllm docs/dev-docker/README.md"
CACHED_PREFIX: Final = ("0.9.1", "0.10.0")
"""Releases whose latency runs find their prompts in the prefix cache."""
_KEYS: Final = [
    "vllm",
    "model",
    "metric",
    "batch",
    "input_len",
    "output_len",
    "num_prompts",
    "max_num_seqs",
]


def published_runs(path: Path) -> pd.DataFrame:
    """Return the published runs as cases: the columns of a setting, ``release`` and ``seconds``."""
    printed = pd.read_csv(path)
    printed = printed[(printed["metric"] == "latency_s") | printed["num_prompts"].notna()]
    table = printed.groupby(_KEYS, dropna=False)["value"].mean().reset_index()
    latency = table["metric"] == "latency_s"
    served = table["num_prompts"] * table["output_len"] / table["value"]
    return pd.DataFrame(
        {
            "kind": np.where(latency, "inference", "throughput"),
            "model": np.where(
                table["model"].str.contains("405B"), "llama-3.1-405b", "llama-3.1-70b"
            ),
            "gpu": "MI300X",
            "gpus": 8,
            "tp": 8,
            "dtype": "fp8",
            "kv_dtype": "fp8",
            "batch": table["batch"],
            "input_len": table["input_len"],
            "output_len": table["output_len"],
            "num_prompts": table["num_prompts"],
            "max_num_seqs": table["max_num_seqs"],
            "prefix_cache": latency & table["vllm"].isin(CACHED_PREFIX),
            "release": "vllm-" + table["vllm"],
            "seconds": np.where(latency, table["value"], served),
        }
    )


def rows_of(runs: pd.DataFrame) -> np.ndarray:
    """Return the parts of every run, shape (runs, n)."""
    parts_by_case: dict[tuple[Any, ...], dict[str, float]] = {}
    parts = []
    for row in runs.drop(columns=["release", "seconds"]).to_dict("records"):
        case = {str(name): value for name, value in row.items()}
        key = tuple(str(value) for value in case.values())
        if key not in parts_by_case:
            parts_by_case[key] = parts_of(complete(case))
        parts.append(parts_by_case[key])
    return as_rows(parts)


def fitted(runs: pd.DataFrame, rows: np.ndarray, name: str) -> Release:
    """Return the constants of some runs."""
    together = runs["batch"].fillna(runs["num_prompts"]).max()
    return calibrate(
        rows,
        runs["seconds"].to_numpy(),
        name=name,
        gpu="MI300X",
        models=list(runs["model"]),
        source=SOURCE,
        largest=float(together),
    )


def in_order(releases: pd.Series) -> list[str]:
    """Return release names, the oldest first."""
    return sorted(
        releases.unique(),
        key=lambda name: [int(part) for part in name.removeprefix("vllm-").split(".")],
    )


def show(options: argparse.Namespace) -> None:
    """Fit and print."""
    runs = published_runs(options.data / "workloads" / RUNS)
    rows = rows_of(runs)
    print(
        "# Constants by release, fitted by benchmarks/forecast_releases.py to the runs that "
        "source names: mean and"
    )
    print(
        "# root of the covariance of their logarithms, relative to the medians of constants.toml "
        "and in its order."
    )
    for name in in_order(runs["release"]):
        chosen = (runs["release"] == name).to_numpy()
        print()
        print(as_toml(fitted(runs[chosen], rows[chosen], name)), end="")


if __name__ == "__main__":
    sys.exit(run_on_data("forecast_releases", __doc__, show))

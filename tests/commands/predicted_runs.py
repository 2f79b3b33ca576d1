"""Runs between GPUs that no catalogue has, by a known law, for the tests of `predict`."""

from __future__ import annotations

import json
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd

from flopcast.evaluation.domain import TrainedRange
from flopcast.evaluation.extrapolation import learn_law
from flopcast.evaluation.intervals import ConformalIntervals
from flopcast.evaluation.trained_model import TrainedModel
from flopcast.features.matrix import Dataset, build_dataset
from flopcast.hardware import GPU
from flopcast.models import artifact
from flopcast.models.baselines import AdditiveTime
from flopcast.output import dumps
from flopcast.readers import read
from flopcast.sealing import seal
from flopcast.tests.commands import running

invoke = partial(running.call, "predict")
ROOT = Path(__file__).parents[2]
HEADER = "device,op,dtype_a,m,n,k,duration_us"
HOST = GPU(
    name="LabChip",
    cus=304,
    peaks={"bf16_matrix": 1000.0, "fp16_matrix": 1000.0},
    memory_bw_gbs=5000.0,
)
TARGET = GPU(
    name="MI375X",
    cus=256,
    peaks={"bf16_matrix": 2000.0, "fp16_matrix": 4000.0},
    memory_bw_gbs=8000.0,
)
BASELINES = {
    "reference": "host",
    "constant ratio": {"ratio": 0.5},
    "affine": {"intercept": 3.0, "ratio": 0.4},
}


def law(m: Any, n: Any, k: Any, gpu: GPU) -> Any:
    """Overhead + work / rate, µs: half of the peak is reached."""
    return 2.0 + 2.0 * m * n * k / (0.5 * gpu.peaks["bf16_matrix"] * 1e6)


def shapes(largest_m: int = 4096) -> pd.DataFrame:
    sizes = [2**i for i in range(4, 13) if 2**i <= largest_m]
    cells = [(m, n, k) for m in sizes for n in (1024, 4096) for k in (1024, 2048, 8192)]
    return pd.DataFrame(cells, columns=["m", "n", "k"]).assign(op="gemm", dtype_a="bf16")


def measured(folder: Path, host: GPU, target: GPU, **columns: Any) -> Path:
    """Write what both devices measured, and return the file."""
    table = shapes().assign(**columns)
    size = [table[name] for name in ("m", "n", "k")]
    both = [table.assign(device=gpu.name, duration_us=law(*size, gpu)) for gpu in (host, target)]
    pd.concat(both).to_csv(folder / "measured.csv", index=False)
    return folder / "measured.csv"


def law_of(dataset: Dataset) -> dict[str, Any] | None:
    found = learn_law(dataset)
    return found and found.to_dict()


def save_run(
    folder: Path, data: Path, host: GPU | None, target: GPU, model: Any = None, **options: Any
) -> Path:
    """Train a small model on all rows and save it as `train` does."""
    dataset = build_dataset(read([data]).frame, host=host, target=target, **options)
    terms = (
        ["host_us", "compute.target_us", "memory.target_us"]
        if host
        else ["compute.target_us", "memory.target_us"]
    )
    terms = [name for name in terms if name in dataset.X]
    fitted = (model or AdditiveTime(terms or None)).fit(dataset.X, dataset.y)
    error = np.exp(np.random.default_rng(0).normal(0, 0.05, len(dataset)))
    intervals = ConformalIntervals("grouped").fit(dataset.y, dataset.y * error, dataset.groups)
    manifest = {
        "features": artifact.describe_features(dataset.X, dataset.recipe.units),
        "data_sha256": "0" * 64,
        "recipe": dataset.recipe.to_dict(),
        "domain": TrainedRange.of(dataset.X).to_dict(),
        "intervals": intervals.to_dict(),
        "scheme": "grouped",
        "selected": "Additive",
        "space": "relative error",
        "host": host.name if host else None,
        "target": target.name,
        "metric": dataset.metric,
        "baselines": BASELINES | {"reference": "host" if host else "roofline"},
        "law": law_of(dataset),
    }
    known = TrainedModel.of(artifact.Artifact(fitted, json.loads(dumps(manifest))))
    artifact.save(
        folder / "model", fitted, manifest | {"answers": known.answers(dataset.rows)}, dataset.X
    )
    seal(folder)
    return folder


def csv(folder: Path, *lines: str, header: str = HEADER) -> Path:
    path = folder / "queries.csv"
    path.write_text("\n".join([header, *lines, ""]), encoding="utf-8")
    return path

"""The published curves: IPC and miss rates of 21 benchmarks on simulated GPUs (see README.md of the data sets)."""

from __future__ import annotations

import csv
from functools import cache
from importlib import resources

import numpy as np

from ... import datasets
from .curve import Curve

SOURCE = "SeyyedAghaei, Naderan-Tahan, Eeckhout: GPU Scale-Model Simulation, HPCA 2024 (artifact)"


@cache
def published_curves() -> tuple[Curve, ...]:
    """Return the curves of the paper's artifact: 21 with strong, 6 with weak scaling, 5 of multi-chiplet GPUs."""
    text = (resources.files(datasets) / "scale_model.csv").read_text(encoding="utf-8")
    rows: dict[tuple[str, str], list[dict[str, str]]] = {}
    for row in csv.DictReader(text.splitlines()):
        rows.setdefault((row["scenario"], row["benchmark"]), []).append(row)
    return tuple(_curve(group) for group in rows.values())


def _curve(rows: list[dict[str, str]]) -> Curve:
    f_mem = [float(row["f_mem"]) for row in rows if row["f_mem"]]
    return Curve(
        benchmark=rows[0]["benchmark"],
        scenario=rows[0]["scenario"],
        unit=rows[0]["unit"],
        sizes=np.array([float(row["size"]) for row in rows]),
        performance=np.array([float(row["ipc"]) for row in rows]),
        mpki=np.array([float(row["llc_mpki"]) for row in rows]),
        f_mem=f_mem[0] if f_mem else None,
    ).check()

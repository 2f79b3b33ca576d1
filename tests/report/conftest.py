"""A made-up training run: two schemes, 30 models of which one failed, names that hold markup."""

from __future__ import annotations

from typing import Any

import numpy as np
import pandas as pd
import pytest

THRESHOLDS = (1, 5, 10, 15, 20, 30, 40, 50)
FAMILIES = ("OLS", "NNLS", "Lasso", "ElasticNet", "RandomForest", "MLP", "Residual")
BASELINES = {"FLOPS scaling": 0.31, "bandwidth scaling": 0.16, "roofline scaling": 0.24}


def row_of(name: str, observed: np.ndarray, predicted: np.ndarray, space: str) -> dict[str, Any]:
    ape = 100 * np.abs(predicted - observed) / observed
    return {
        "name": name,
        "e_out": float(ape.mean()),
        "e_out_groups": float(1.1 * ape.mean()),
        "e_in": float(0.8 * ape.mean()),
        "median_ape": float(np.median(ape)),
        "max_ape": float(ape.max()),
        "ir": {str(t): float(100 * np.mean(ape <= t)) for t in THRESHOLDS},
        "features_selected": 12,
        "features_available": 48,
        "fit_seconds": 1.234,
        "space": space,
        "error": None,
    }


def make_run(
    rows: int = 429, models: int = 30, groups: int = 16
) -> tuple[dict, pd.DataFrame, pd.DataFrame]:
    rng = np.random.default_rng(0)
    group = np.array(
        [f"gemm<{g % 4},{128 * (g + 1)}>x{7168 if g % 2 else 2048}" for g in range(groups)]
    )
    of_row = group[np.arange(rows) % groups]
    observed = 2 + rng.lognormal(3, 1.6, rows)
    laws = {
        name: observed * (1 + rng.choice([-1, 1], rows) * rng.gamma(2, sd / 2, rows).clip(max=0.9))
        for name, sd in BASELINES.items()
    }
    cv, frames = [], []
    for scheme, worse in (("kfold", 1.0), ("grouped", 1.9)):
        lines = []
        for index in range(models):
            name = f"{FAMILIES[index % 7]}/{('Forward', 'Backward', '<b>Boosted</b>')[index % 3]}/{index}"
            predicted = observed * np.exp(rng.normal(0, worse * (0.06 + 0.012 * index), rows))
            lines.append(
                row_of(
                    name,
                    observed,
                    predicted,
                    ("relative error", "log time", "measured time")[index % 3],
                )
            )
            table = {"row": np.arange(rows), "scheme": scheme, "model": name, "observed": observed}
            table |= {"predicted": predicted, "ape": 100 * np.abs(predicted / observed - 1)}
            frames.append(
                pd.DataFrame(table | {"fold": np.arange(rows) % 10, "group": of_row, **laws})
            )
        lines.append(
            {"name": "GaussianProcess", "e_out": None, "error": "singular matrix in fold 3"}
        )
        lines[-2]["max_ape"] = 1.3e9
        best = min(lines[:-1], key=lambda line: line["e_out"])
        near = [
            line["name"]
            for line in lines[:-1]
            if line is not best and line["e_out"] < best["e_out"] * 1.4
        ]
        cv.append(
            {
                "scheme": scheme,
                "folds": 10,
                "baselines": [
                    row_of(name, observed, law, "no fitting") for name, law in laws.items()
                ],
                "models": lines,
                "selected": {
                    "name": best["name"],
                    "e_out": best["e_out"] * 1.04,
                    "interval": [best["e_out"] * 0.85, best["e_out"] * 1.2],
                    "level": 0.95,
                    "method": "BBC-CV, Tsamardinos 2018",
                    "tied": near,
                    "e_out_table": best["e_out"],
                    "ir": best["ir"],
                },
            }
        )
    data = {
        "n": rows,
        "groups": groups,
        "host": "MI300X",
        "target": "MI355X",
        "metric": "duration_us",
    }
    data |= {
        "features_available": 48,
        "sha256": "ab" * 32,
        "unpaired_host": 12000,
        "unpaired_target": 31,
    }
    data |= {
        "rejected": {"zero-duration": 12, "no-duration": 3},
        "notes": ["fp8 <e4m3> read as fp8"],
    }
    ranking = [
        {"feature": f"feature_{i}.target_us", "measure": "permutation importance", "value": 0.5**i}
        for i in range(15)
    ]
    ranking += [
        {"feature": "log_m", "measure": "p-value", "value": 1e-12},
        {"feature": "k", "measure": "p-value", "value": 0.2},
    ]
    metrics = {
        "schema": 1,
        "data": data,
        "cv": cv,
        "intervals": {
            "level": 0.9,
            "schemes": {
                "kfold": {"coverage": 0.912, "median_relative_width": 0.214},
                "grouped": {"coverage": 0.897, "median_relative_width": 0.41},
            },
        },
        "ranking": ranking,
        "groups": [
            {
                "group": str(name),
                "n": rows // groups,
                "e_out": float(4 + i),
                "baseline_e_out": float(20 + i),
                "rule": "affine",
                "rule_e_out": float(9 + i),
            }
            for i, name in enumerate(group)
        ],
    }
    kept_out = [("zero-duration", f"tuned<1>.csv:{line}", "us = 0") for line in (17, 18, 19, 20)]
    kept_out.append(("no-duration", "b.csv:4", "us = 'nan'"))
    rejected = pd.DataFrame(kept_out, columns=["reason", "source", "detail"])
    return metrics, pd.concat(frames, ignore_index=True), rejected


@pytest.fixture(scope="session")
def run() -> tuple[dict, pd.DataFrame, pd.DataFrame]:
    """Return (metrics, predictions, rejected rows); treat as read-only."""
    return make_run()

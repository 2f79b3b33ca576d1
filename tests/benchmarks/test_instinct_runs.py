"""Published runs of AMD Instinct: settings once each, engines by their kernels, drift between nights."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest

from flopcast.benchmarks.instinct_runs import NIGHTS, TABLE, drift, settings

RUN: dict[str, Any] = {
    "source": "ROCm/ATOM@gh-pages", "date": "2026-05-24", "engine_version": np.nan, "kv_precision": np.nan, "gpu": "MI355X", "gpus": 8, "model": "dsr1", "precision": "fp4", "engine": "atom-vllm",
    "tp": 8, "ep": 1, "dp": 1, "dp_attention": "0", "disaggregated": "0", "speculative": "none", "input_len": 1024,
    "output_len": 1024, "concurrency": 16, "ttft_ms_mean": 100.0, "ttft_ms_median": np.nan, "tpot_ms_mean": 10.0,
    "tpot_ms_median": np.nan,
}  # fmt: skip
NIGHT: dict[str, Any] = {
    "date": "2026-03-14 22:33", "gpu": "MI355X", "backend": "ATOM", "model": "DeepSeek-R1-0528", "precision": "fp8",
    "speculative": "none", "dp_attention": "False", "tbo": "False", "tp": 8, "ep": 1, "dp": 1, "input_len": 1024,
    "output_len": 1024, "concurrency": 16, "ttft_ms": 100.0, "tpot_ms": 10.0,
}  # fmt: skip


def written(folder: Path, name: str, rows: list[dict[str, Any]]) -> None:
    (folder / name).parent.mkdir(exist_ok=True)
    pd.DataFrame(rows).to_csv(folder / name, index=False)


def test_a_setting_measured_twice_is_one_row_with_its_spread(tmp_path: Path) -> None:
    again = RUN | {"tpot_ms_mean": 12.0, "tpot_ms_median": 12.0}
    apart = RUN | {"disaggregated": "True"}
    drafted = RUN | {"speculative": "mtp"}
    written(tmp_path, TABLE, [RUN, again, apart, drafted])
    (row,) = settings(tmp_path).to_dict("records")
    assert row["tpot_ms"] == pytest.approx(11.0)
    assert row["repeats"] == 2
    assert row["spread"] == pytest.approx(np.std(np.log([10.0, 12.0]), ddof=1))
    assert (row["device"], row["model"], row["engine"]) == ("MI355X", "deepseek-r1", "atom")
    assert row["tuned"]


def test_copies_of_the_attention_and_stock_engines_are_told_apart(tmp_path: Path) -> None:
    copies = RUN | {"dp_attention": "1", "ep": 8, "engine": "sglang"}
    stock = RUN | {"source": "sgl-project/sgl-cookbook", "precision": np.nan, "model": "org/X-FP8"}
    written(tmp_path, TABLE, [copies, stock])
    found = settings(tmp_path).set_index("tuned")
    assert found.loc[True, ["tp", "dp", "ep"]].tolist() == [1.0, 8.0, 8.0]
    assert found.loc[False, ["tp", "dp", "dtype_b"]].tolist() == [8.0, 1.0, "fp8"]


def test_drift_is_that_of_nights_far_apart(tmp_path: Path) -> None:
    near = NIGHT | {"date": "2026-03-16 22:33", "tpot_ms": 20.0, "concurrency": 32}
    first = near | {"date": "2026-03-14 22:33", "tpot_ms": 10.0}
    later = NIGHT | {"date": "2026-06-14 22:33", "tpot_ms": 8.0}
    written(tmp_path, NIGHTS, [NIGHT, later, first, near])
    assert drift(tmp_path)["tpot_ms"] == pytest.approx(np.log(10 / 8) / 1.645)
    assert drift(tmp_path)["ttft_ms"] == 0.0

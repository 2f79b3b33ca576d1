"""Published runs of AMD Instinct: settings once each, engines by their kernels, drift between nights."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest

from flopcast.benchmarks.instinct_runs import (
    NIGHTS,
    TABLE,
    apart_first_tokens,
    drift,
    settings,
    under_conditions,
)
from flopcast.benchmarks.serving_model import stock_runs

RUN: dict[str, Any] = {
    "source": "ROCm/ATOM@gh-pages", "date": "2026-05-24", "engine_version": np.nan, "kv_precision": np.nan, "gpu": "MI355X", "gpus": 8, "model": "dsr1", "precision": "fp4", "engine": "atom-vllm",
    "tp": 8, "ep": 1, "dp": 1, "dp_attention": "0", "disaggregated": "0", "speculative": "none", "input_len": 1024,
    "output_len": 1024, "concurrency": 16, "ttft_ms_mean": 100.0, "ttft_ms_median": np.nan, "tpot_ms_mean": 10.0,
    "tpot_ms_median": np.nan, "output_tok_s": np.nan,
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


def test_answers_that_are_as_long_as_stated_have_equal_lengths(tmp_path: Path) -> None:
    whole = []
    for users in (4, 16, 64):
        tokens_per_s = users * 1024 / (0.1 + 1023 * 0.01)
        whole.append(RUN | {"concurrency": users, "output_tok_s": tokens_per_s})
    drawn = []
    for run in whole:
        slower = run | {"engine": "atom", "output_tok_s": 0.98 * run["output_tok_s"]}
        drawn += [slower, slower | {"source": "sgl-project/sgl-cookbook"}]
    unsaid = RUN | {"engine": "sglang"}
    written(tmp_path, TABLE, [*whole, *drawn, unsaid])
    found = settings(tmp_path)
    words = found.groupby(["source", "engine", "lengths"]).size()
    assert sorted(words.index[words.index.get_level_values("lengths") == "equal"]) == [
        (RUN["source"], "atom", "equal")
    ]
    assert words[RUN["source"], "atom", "equal"] == len(whole)
    assert words[RUN["source"], "atom", ""] == len(whole)


def test_copies_of_the_attention_and_stock_engines_are_told_apart(tmp_path: Path) -> None:
    copies = RUN | {"dp_attention": "1", "ep": 8, "engine": "sglang"}
    stock = RUN | {"source": "sgl-project/sgl-cookbook", "precision": np.nan, "model": "org/X-FP8"}
    written(tmp_path, TABLE, [copies, stock])
    found = settings(tmp_path).set_index("tuned")
    assert found.loc[True, ["tp", "dp", "ep"]].tolist() == [1.0, 8.0, 8.0]
    assert found.loc[False, ["tp", "dp", "dtype_b"]].tolist() == [8.0, 1.0, "fp8"]


def test_a_stock_run_under_two_names_of_one_model_is_taken_once(tmp_path: Path) -> None:
    stock = RUN | {"source": "sgl-project/sgl-cookbook", "engine": "sglang", "precision": "int4"}
    copies = [stock | {"model": "Kimi-K2.5"}, stock | {"model": "Kimi-K2.6"}]
    other = stock | {"model": "Kimi-K2.6", "concurrency": 32, "tpot_ms_mean": 11.0}
    written(tmp_path, TABLE, [*copies, other])
    assert stock_runs(tmp_path)["tpot_ms"].tolist() == [10.0, 11.0]


def test_drift_is_that_of_nights_far_apart(tmp_path: Path) -> None:
    near = NIGHT | {"date": "2026-03-16 22:33", "tpot_ms": 20.0, "concurrency": 32}
    first = near | {"date": "2026-03-14 22:33", "tpot_ms": 10.0}
    later = NIGHT | {"date": "2026-06-14 22:33", "tpot_ms": 8.0}
    written(tmp_path, NIGHTS, [NIGHT, later, first, near])
    assert drift(tmp_path)["tpot_ms"] == pytest.approx(np.log(10 / 8) / 1.645)
    assert drift(tmp_path)["ttft_ms"] == 0.0


APART: dict[str, Any] = RUN | {
    "disaggregated": "True", "tp": 1, "ep": 8, "dp_attention": "1", "concurrency": 64,
    "note": "group 1; multinode=1; prefill tp8 ep1 x2, decode x4", "total_tok_s_per_gpu": 10.0,
}  # fmt: skip


def test_prompts_apart_are_one_worker_that_writes_and_all_gpus_that_read(tmp_path: Path) -> None:
    unsaid = APART | {"note": np.nan, "concurrency": 32}
    written(tmp_path, TABLE, [APART, unsaid])
    (row,) = under_conditions(tmp_path).to_dict("records")
    sizes = ("tp", "dp", "ep", "concurrency", "workers", "prefill_gpus", "prefill_workers")
    assert [row[name] for name in sizes] == [1.0, 8.0, 8.0, 16.0, 4.0, 16.0, 2.0]
    assert row["tokens_per_s"] == pytest.approx(10.0 * (16 + 4 * 8))
    assert apart_first_tokens(tmp_path)["concurrency"].tolist() == [64, 32]


def test_drafts_that_came_to_nothing_are_left_out_and_their_twins_kept(tmp_path: Path) -> None:
    few, many = RUN, RUN | {"concurrency": 64, "tpot_ms_mean": 20.0}
    idle = [run | {"speculative": "mtp"} for run in (few, many)]
    other = {"tp": 4, "speculative": "mtp"}
    gained = [few | {"tp": 4}, few | other | {"tpot_ms_mean": 6.0}]
    rows = [few, many, *idle, *gained]
    written(tmp_path, TABLE, [row | {"note": np.nan, "total_tok_s_per_gpu": 1.0} for row in rows])
    found = under_conditions(tmp_path)
    assert found["speculation"].tolist() == ["none", "none", "none", "mtp"]
    assert found["tp"].tolist() == [8.0, 8.0, 4.0, 4.0]

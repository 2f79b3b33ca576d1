"""Speculation: how many times longer a token takes with it, and own runs under it."""

from __future__ import annotations

import numpy as np
import pandas as pd
import pytest

from flopcast.errors import ParameterError
from flopcast.operators.kinds.serving_run import SERVING
from flopcast.workloads.serving import described
from flopcast.workloads.speculation import check_speculation, drafted, gain, without

RUN = {
    "op": SERVING, "device": "MI355X", "model": "deepseek-r1", "engine": "sglang", "dtype_a": "fp8",
    "dtype_b": "fp8", "tp": 8.0, "pp": 1.0, "dp": 1.0, "ep": 1.0, "input_len": 1024.0,
    "output_len": 1024.0, "concurrency": 4.0, "tpot_ms": 10.0, "ttft_ms": 100.0,
}  # fmt: skip


def rows(*runs: dict[str, object]) -> pd.DataFrame:
    return described(pd.DataFrame([RUN | run for run in runs]))[0]


def test_the_gain_shrinks_with_the_requests_under_way() -> None:
    found = gain(rows(*({"concurrency": users} for users in (4, 16, 64))), "tpot_ms")
    assert (np.exp(found.log) < 1).all()
    assert (np.diff(found.log) > 0).all()
    assert found.measured.all()


def test_it_is_the_wider_the_less_was_measured() -> None:
    asked = rows({}, {"tp": 4.0}, {"model": "llama-3.1-70b"})
    found = gain(asked, "tpot_ms")
    assert found.measured.tolist() == [True, False, False]
    assert (np.diff(found.spread) > 0).all()


def test_runs_without_it_times_the_gain_are_what_was_measured() -> None:
    runs = rows({}, {"concurrency": 64.0})
    plain = without(runs)
    for time in ("tpot_ms", "ttft_ms"):
        again = plain[time] * np.exp(gain(runs, time).log)
        assert again.to_numpy() == pytest.approx(runs[time].to_numpy())


def test_words_of_clients_and_users() -> None:
    words = ["mtp", "deepseek_mtp", "eagle", "nextn", "speculative", "ngram", "", "one batch"]
    runs = pd.DataFrame({"variant": words})
    assert drafted(runs).tolist() == [True] * 5 + [False] * 3
    assert check_speculation("MTP") == "mtp"
    with pytest.raises(ParameterError, match="none, mtp"):
        check_speculation("medusa")

"""A run of serving: the work of one GPU while a request is under way."""

from __future__ import annotations

import pandas as pd
import pytest

from flopcast.operators.operators import OPS, work_of

RUN = {
    "op": "serving", "device": "MI300X", "model": "m", "engine": "vllm", "dtype_a": "fp8", "input_len": 100,
    "output_len": 50, "concurrency": 4, "tp": 2, "active_parameters": 1e9,
}  # fmt: skip


def test_work_is_that_of_one_gpu_while_a_request_is_under_way() -> None:
    work = work_of(pd.DataFrame([RUN]))
    assert work.flops[0] == pytest.approx(2 * 1e9 * 150 * 4 / 2)
    assert work.bytes[0] == pytest.approx(1e9 * 50 / 2)


def test_the_same_setting_of_another_engine_is_another_problem() -> None:
    assert {"engine", "engine_version", "client", "concurrency", "apart"} <= set(
        OPS["serving"].identity
    )

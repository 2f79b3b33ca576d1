"""Conditions asked for beside a setting: whose width an answer has."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pandas as pd
import pytest

from flopcast.hardware import GPU, find
from flopcast.operators.kinds.serving_run import SERVING
from flopcast.workloads.serving import described
from flopcast.workloads.serving_conditions import Conditions
from flopcast.workloads.serving_model import Served
from flopcast.workloads.speculation import gain

MI355X = find("MI355X")
RUN = {
    "op": SERVING, "device": "MI355X", "model": "deepseek-r1", "engine": "sglang", "dtype_a": "fp8",
    "dtype_b": "fp8", "tp": 8.0, "pp": 1.0, "dp": 1.0, "ep": 1.0, "input_len": 1024.0,
    "output_len": 1024.0, "concurrency": 4.0, "engine_version": "", "apart": "", "dtype_kv": "fp8",
}  # fmt: skip


def rows(*runs: dict[str, object]) -> pd.DataFrame:
    return described(pd.DataFrame([RUN | run for run in runs]))[0]


def plain(rows: pd.DataFrame, gpu: GPU) -> Served:
    one = np.ones(len(rows))
    return Served(100.0 * one, 10.0 * one, 0.2 * one, 0.1 * one)


def own(rows: pd.DataFrame, gpu: GPU) -> Served:
    one = np.ones(len(rows))
    return Served(100.0 * one, 10.0 * one, 0.2 * one, 0.1 * one, from_runs=(True,) * len(rows))


def test_without_conditions_the_source_is_the_same() -> None:
    assert Conditions().times(plain) is plain


def test_a_setting_measured_with_speculation_is_as_sure_as_its_runs() -> None:
    asked = rows({}, {"tp": 4.0})
    change = gain(asked, "tpot_ms")
    found = Conditions("mtp").times(plain)(asked, MI355X)
    assert found.tpot_ms == pytest.approx(10.0 * np.exp(change.log))
    assert found.tpot_spread[0] == pytest.approx(max(0.1, change.spread[0]))
    assert found.tpot_spread[1] == pytest.approx(np.hypot(0.1, change.spread[1]))
    (note,) = found.remarks
    assert (note.code, note.values["basis"]) == ("speculation", "setting")


def test_own_runs_with_speculation_are_sure_with_it_and_less_sure_without() -> None:
    asked = rows({}, {"tp": 4.0})
    change = gain(asked, "tpot_ms")
    drafted = Conditions("mtp", runs_speculation="mtp").times(own)(asked, MI355X)
    assert drafted.tpot_spread == pytest.approx([0.1, 0.1])
    without = Conditions(runs_speculation="mtp").times(own)(asked, MI355X)
    assert without.tpot_ms == pytest.approx([10.0, 10.0])
    assert without.tpot_spread == pytest.approx(np.hypot(0.1, change.spread))
    of_plain_runs = Conditions("mtp").times(own)(asked, MI355X)
    assert of_plain_runs.tpot_spread == pytest.approx(np.hypot(0.1, change.spread))


def test_more_gpus_for_prompts_have_sooner_first_tokens_and_the_same_further_ones() -> None:
    asked = rows({"concurrency": 512.0, "input_len": 8192.0})
    few, many = (Conditions(prefill_gpus=n).times(plain)(asked, MI355X) for n in (4, 16))
    assert many.ttft_ms[0] < few.ttft_ms[0] / 3
    assert many.tpot_ms == pytest.approx(few.tpot_ms)
    assert few.ttft_spread[0] > 0.2


def test_a_setting_that_is_less_sure_without_a_condition_is_no_surer_with_it() -> None:
    def unsure(rows: pd.DataFrame, gpu: GPU) -> Served:
        return replace(plain(rows, gpu), ttft_spread=np.full(len(rows), 2.0))

    asked = rows({})
    sure, wide = (Conditions(prefill_gpus=8).times(one)(asked, MI355X) for one in (plain, unsure))
    assert wide.ttft_ms == pytest.approx(sure.ttft_ms)
    assert sure.ttft_spread[0] < 2.0 <= wide.ttft_spread[0]


def test_both_conditions_are_asked_at_once() -> None:
    asked = rows({"concurrency": 8.0, "tp": 4.0})
    alone = Conditions(prefill_gpus=8).times(plain)(asked, MI355X)
    both = Conditions("mtp", 8).times(plain)(asked, MI355X)
    assert both.tpot_ms[0] < alone.tpot_ms[0]
    assert both.tpot_spread[0] > alone.tpot_spread[0]
    assert [note.code for note in both.remarks] == ["speculation", "prefill-gpus"]


def test_a_model_that_was_not_measured_so_needs_layers_that_draft() -> None:
    new, measured = (
        Conditions("mtp").times(plain)(rows({"model": model}), MI355X).remarks[0]
        for model in ("llama-3.1-8b", "deepseek-r1")
    )
    assert new.values["basis"] == "new"
    assert "needs layers that draft" in new.text
    assert "needs layers that draft" not in measured.text

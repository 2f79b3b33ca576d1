"""Percentiles of serving: how limits are read, what is refused, and how far percentiles lie from forecasts."""

from __future__ import annotations

import numpy as np
import pandas as pd
import pytest

import flopcast as fc
from flopcast.errors import ParameterError
from flopcast.workloads.serving_percentiles import LEARNT, MEASURED, limit, traits

ROWS = pd.DataFrame(
    {
        "device": ["H200 SXM", "MI355X"],
        "concurrency": [16.0, 16.0],
        "input_len": [1024.0, 1024.0],
        "output_len": [1024.0, 1024.0],
    }
)


@pytest.mark.parametrize("text", ["p99<2s", "P99 <= 2000ms", " p99 < 2000 "])
def test_a_limit_may_be_of_a_percentile(text: str) -> None:
    assert limit("ttft", text) == (2000.0, "p99")


@pytest.mark.parametrize("given", ["2s", 2000, 2000.0])
def test_a_limit_without_one_is_of_the_time_that_is_forecast(given: object) -> None:
    assert limit("ttft", given) == (2000.0, "")


@pytest.mark.parametrize("text", ["p90<2s", "p95<2s", "p99.9<2s", "p99<", "p99<-2s", "p99>2s"])
def test_what_no_public_run_states_and_what_is_no_time_is_refused(text: str) -> None:
    with pytest.raises(ParameterError):
        limit("ttft", text)


@pytest.mark.parametrize("time", ["ttft_ms", "tpot_ms"])
def test_the_later_percentile_lies_later(time: str) -> None:
    middle, _ = LEARNT[time, "p50"].of(ROWS)
    late, _ = LEARNT[time, "p99"].of(ROWS)
    assert (late > middle).all()


def test_amd_gpus_have_their_median_as_it_is_forecast() -> None:
    logs, spread = LEARNT["ttft_ms", "p50"].of(ROWS)
    assert logs[1] == spread[1] == 0.0
    assert logs[0] < 0.0 < spread[0]


def test_beyond_what_was_measured_the_width_holds_that_the_ratio_grows_no_further() -> None:
    learnt = LEARNT["ttft_ms", "p99"]
    most = MEASURED["concurrency"][1]
    edge, beyond = (ROWS.assign(concurrency=users) for users in (most, 4.0 * most))
    logs = [learnt.of(rows)[0] for rows in (edge, beyond)]
    wide = [learnt.of(rows)[1] for rows in (edge, beyond)]
    np.testing.assert_allclose(wide[0], learnt.spread)
    np.testing.assert_allclose(np.square(wide[1]) - np.square(wide[0]), (logs[1] - logs[0]) ** 2)


def test_a_limit_on_a_late_percentile_is_kept_less_surely() -> None:
    asked = {"gpu": "MI300X", "gpus": 8, "concurrency": [4, 16]}
    plain, late = (
        fc.forecast("llama-3.1-70b", **asked, ttft=ttft) for ttft in ("500ms", "p99<500ms")
    )
    assert (late.ways["holds"] < plain.ways["holds"]).all()
    assert (late.ways["ttft_p99_ms"] > late.ways["ttft_ms"]).all()
    width = np.log(late.ways["ttft_p99_ms_upper"] / late.ways["ttft_p99_ms"])
    assert (width > np.log(late.ways["ttft_ms_upper"] / late.ways["ttft_ms"])).all()


def test_of_requests_that_come_at_a_rate_no_percentile_is_said() -> None:
    with pytest.raises(ParameterError, match="rate"):
        fc.forecast("llama-3.1-8b", gpu="MI300X", tpot="p99<50ms", rate="4/s")


def test_traits_count_octaves() -> None:
    rows = ROWS.assign(concurrency=8.0, input_len=4096.0, output_len=512.0)
    assert traits(rows).tolist() == [[1.0, 3.0, 2.0, -1.0, 0.0], [1.0, 3.0, 2.0, -1.0, 1.0]]


def test_a_percentile_is_wider_with_speculation() -> None:
    asked = {
        "gpu": "MI355X", "engine": "sglang", "gpus": 8, "tp": 8, "ep": 1, "dtype": "fp8",
        "input_len": 1024, "output_len": 1024, "concurrency": 4, "ttft": "p99<2s",
    }  # fmt: skip
    plain, drafted = (
        fc.forecast("deepseek-r1", **asked, speculation=word) for word in ("none", "mtp")
    )
    widths = []
    for answer in (plain, drafted):
        way = answer.ways.iloc[0]
        beside = np.log(way["ttft_p99_ms_upper"] / way["ttft_p99_ms"]) ** 2
        beside -= np.log(way["ttft_ms_upper"] / way["ttft_ms"]) ** 2
        widths.append(beside)
    assert widths[1] == pytest.approx(2.0 * widths[0], rel=0.05)
    (said,) = (note for note in drafted.choice.remarks if note.code == "percentile")
    assert "without speculation" in said.text

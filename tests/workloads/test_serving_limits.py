"""What bounds first tokens beyond what was measured: peaks, other requests, a step."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pandas as pd
import pytest

import flopcast as fc
from flopcast.evaluation.metrics import NINETY_PERCENT
from flopcast.hardware import find
from flopcast.operators.operators import complete
from flopcast.workloads.serving import described, least
from flopcast.workloads.serving_law import ENDS
from flopcast.workloads.serving_limits import CONTENDED, contention, request_at_peak
from flopcast.workloads.serving_model import TIMES, shipped

PROMPTS = [1, 2, 8, 32, 128, 512, 1024, 4096, 16384, 131072]
ANSWERS = [1, 2, 8, 64, 512, 4096]
WAYS = [
    {"device": "MI300X", "model": "llama-3.1-70b", "engine": "vllm", "tp": 8},
    {"device": "MI355X", "model": "deepseek-r1", "engine": "sglang", "tp": 8},
    {"device": "H200 SXM", "model": "qwen3-32b", "engine": "trtllm", "tp": 2},
]


def settings() -> pd.DataFrame:
    rows = []
    for way in WAYS:
        for users in (1.0, 64.0):
            for answer in ANSWERS:
                for prompt in PROMPTS:
                    rows.append(
                        way
                        | {"input_len": prompt, "output_len": answer, "concurrency": users}
                        | {"op": "serving", "dtype_a": "fp8", "dtype_b": "fp8"}
                    )
    return complete(described(pd.DataFrame(rows))[0])


@pytest.fixture(scope="module")
def rows() -> pd.DataFrame:
    return settings()


def test_first_tokens_rise_with_prompts_and_their_intervals_are_bounded(rows: pd.DataFrame) -> None:
    served = shipped().served(rows)
    for time in TIMES:
        lower, middle, upper = served.law(time).quantiles([ENDS[0], 0.0, ENDS[1]]).T
        assert (lower >= least(rows, time) * (1 - 1e-9)).all()
        assert (upper / middle < 50).all()
        near = ((rows["input_len"] <= 16384) & (rows["output_len"] <= 512)).to_numpy()
        assert (upper / middle < 10)[near].all()
    first = served.ttft_ms.reshape(-1, len(PROMPTS))
    assert (np.diff(first, axis=1) >= -1e-9 * first[:, 1:]).all()


def test_all_requests_under_way_stay_within_the_peaks(rows: pd.DataFrame) -> None:
    served = shipped().served(rows)
    tokens = rows["input_len"] + rows["output_len"]
    flops = 2.0 * rows["active_parameters"] * tokens * rows["concurrency"]
    peaks = [find(str(name)).peaks["fp8_matrix"] for name in rows["device"]]
    work_ms = (flops / rows["tp"] / np.array(peaks) / 1e9).to_numpy()
    further = rows["output_len"].to_numpy() - 1.0
    early, late = ENDS
    for tuning in (False, True):
        stock = replace(served, ttft_longer=0.5, tpot_longer=0.3, either=tuning).within_peaks(
            further + 1.0
        )
        first, token = (stock.law(time).quantiles([early, 0.0, late]).T for time in TIMES[::-1])
        assert (first[0] + further * token[2] >= work_ms * (1 - 1e-9)).all()
        assert (first[2] + further * token[0] >= work_ms * (1 - 1e-9))[further > 0].all()
        assert (first[1] + further * token[1] >= work_ms * (1 - 1e-9)).all()


def test_caches_of_all_requests_are_read_for_every_token() -> None:
    long = settings().query("input_len == 131072 and output_len == 4096").reset_index(drop=True)
    one, many = (request_at_peak(long.assign(concurrency=float(n))) for n in (1, 2048))
    assert (many > 100 * one).all()


def test_times_fall_with_no_longer_prompt_context_or_more_requests(rows: pd.DataFrame) -> None:
    served = shipped().served(rows)
    shape = (len(WAYS), 2, len(ANSWERS), len(PROMPTS))
    token, first = (getattr(served, time).reshape(shape) for time in TIMES)
    # within the lengths that were measured, runs say how times change
    beyond = [PROMPTS.index(128), PROMPTS.index(16384)]
    for prompts in (slice(0, beyond[0] + 1), slice(beyond[1], None)):
        rise = np.diff(token[..., prompts], axis=-1)
        assert (rise >= -1e-9).all()
    short = token[:, 0, : ANSWERS.index(8) + 1]
    assert (np.diff(short, axis=1) >= -1e-9).all()
    for times in (token, first):
        assert (np.diff(times, axis=1) >= -1e-9 * times[:, 1:]).all()


def test_a_wider_interval_is_told_by_its_factor_and_none_where_it_is_not() -> None:
    every = settings().query("input_len == 1024 and output_len == 8")
    for users, wider in ((1.0, False), (64.0, True)):
        row = every[(every["concurrency"] == users) & (every["device"] == "MI300X")]
        served = shipped().served(row.reset_index(drop=True))
        notes = [note for note in served.remarks if note.code == "beyond-measured"]
        assert bool(notes) == wider
        for note in notes:
            alone = shipped().served(row.assign(output_len=1024.0).reset_index(drop=True))
            grown = np.exp(NINETY_PERCENT * (served.ttft_spread - alone.ttft_spread))
            assert note.values["ttft"] <= grown[0] * (1 + 1e-9)
            assert note.values["ttft"] > 1.5


def test_alone_a_first_token_is_as_sure_however_short_the_answer(rows: pd.DataFrame) -> None:
    alone = rows[(rows["concurrency"] == 1) & (rows["input_len"] == 512)]
    short = alone[alone["output_len"] <= 64].reset_index(drop=True)
    spreads = shipped().served(short).ttft_spread.reshape(len(WAYS), -1)
    assert np.ptp(spreads, axis=1) == pytest.approx(0.0, abs=1e-3)


def test_a_prompt_of_one_token_takes_a_step_or_some(rows: pd.DataFrame) -> None:
    token = rows[(rows["input_len"] == 1) & (rows["output_len"] == 512)].reset_index(drop=True)
    served = shipped().served(token)
    lower, upper = served.law("ttft_ms").quantiles(ENDS).T
    assert (served.ttft_ms > served.tpot_ms).all()
    assert (served.ttft_ms < 10 * served.tpot_ms).all()
    assert (lower < 2 * served.tpot_ms).all()
    assert (upper > 2 * served.tpot_ms).all()


def test_others_hold_a_request_up_by_what_they_take_alone() -> None:
    users, one = np.array([1.0, 2.0, 1e6]), np.ones(3)
    held_up = contention(users, 10.0 * one, 10.0 * one, 0.0 * one)
    assert held_up[0] == 0.0
    assert held_up[1] == pytest.approx(np.log(2.0) / (ENDS[1] - ENDS[0]))
    assert held_up[2] == CONTENDED


def test_a_forecast_of_one_token_has_a_finite_interval() -> None:
    answer = fc.forecast(model="llama-3.1-70b", gpu="MI300X", tp=8, input_len=1024, output_len=1)
    table = answer.table
    assert (table["ttft_ms_upper"] / table["ttft_ms_lower"]).max() < 100

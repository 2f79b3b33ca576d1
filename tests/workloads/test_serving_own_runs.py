"""Own runs: given back as measured, in order with tuned and stock engines elsewhere, refused as forecasts are."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest

from flopcast.api.forecasting import calibrate
from flopcast.errors import DataError, FlopcastError
from flopcast.operators.operators import complete
from flopcast.workloads.serving import described
from flopcast.workloads.serving_law import ENDS
from flopcast.workloads.serving_model import TIMES, ServingModel, load, shipped

RUN: dict[str, Any] = {
    "op": "serving", "device": "MI300X", "model": "llama-3.1-70b", "engine": "vllm", "dtype_a": "fp8",
    "dtype_b": "fp8", "input_len": 1024, "output_len": 1024, "concurrency": 16, "tp": 8,
}  # fmt: skip


def asked(*runs: dict[str, Any]) -> pd.DataFrame:
    return complete(described(pd.DataFrame([RUN | run for run in runs or ({},)]))[0])


OTHERS = (
    {"model": "qwen3-32b", "tp": 2},
    {"model": "gpt-oss-120b", "device": "MI355X", "tp": 1},
    {"tp": 4},
    {"input_len": 8192},
    {"concurrency": 256},
)
LOADS = [{"concurrency": many} for many in (1, 64)]


def of_stock(model: ServingModel, runs: pd.DataFrame, normal: float = 0.0) -> dict[str, np.ndarray]:
    served = model.served(runs.assign(tuning="stock"))
    return {time: served.law(time).quantiles([normal])[:, 0] for time in TIMES}


@pytest.mark.parametrize("times", [1.05, 2.0, 6.0])
def test_runs_slower_than_stock_tell_of_nothing_that_is_faster_than_stock(
    small: ServingModel, tmp_path: Path, times: float
) -> None:
    runs, others = asked(*LOADS), asked(*OTHERS)
    slow = {time: times * median for time, median in of_stock(small, runs).items()}
    small.calibrated(runs.assign(**slow)).save(tmp_path / "own.parquet")
    own = load(tmp_path / "own.parquet")
    stock, lowest = of_stock(small, others), of_stock(small, others, ENDS[0])
    for time in TIMES:
        law = own.served(others).law(time)
        lower, median, _ = law.quantiles([ENDS[0], 0.0, ENDS[1]]).T
        assert (median >= stock[time] * (1 - 1e-6)).all()
        assert (lower >= lowest[time] * (1 - 1e-6)).all()
        for limit in stock[time]:
            assert (law.chance(limit)[stock[time] >= limit] <= 0.5 + 1e-6).all()


@pytest.mark.parametrize("times", [0.3, 0.7, 1.0])
def test_runs_faster_than_tuned_tell_of_nothing_that_is_slower_than_tuned(
    small: ServingModel, times: float
) -> None:
    runs, others = asked(*LOADS), asked(*OTHERS)
    tuned = small.served(runs)
    own = small.calibrated(runs.assign(**{time: times * getattr(tuned, time) for time in TIMES}))
    elsewhere = small.served(others)
    for time in TIMES:
        carried = own.served(others).law(time).quantiles([0.0, ENDS[1]])[:4]
        assert (carried <= elsewhere.law(time).quantiles([0.0, ENDS[1]])[:4] * (1 + 1e-6)).all()


def test_a_model_that_was_run_says_itself_how_it_is_set_up(small: ServingModel) -> None:
    runs = asked({"model": "qwen3-32b", "tp": 2}, {})
    factors = np.array([4.0, 1.0])
    tuned = small.served(runs)
    own = small.calibrated(runs.assign(**{time: factors * getattr(tuned, time) for time in TIMES}))
    cut = asked({"tp": 4})
    assert own.served(cut).tpot_ms < 1.2 * small.served(cut).tpot_ms


@pytest.mark.parametrize("tuning", ["either", "stock"])
@pytest.mark.parametrize(("measured", "other"), [TIMES, TIMES[::-1]])
def test_runs_of_one_time_leave_the_other_as_wide_as_it_was(
    small: ServingModel, measured: str, other: str, tuning: str
) -> None:
    runs, settings = asked(*LOADS), asked(*LOADS, *OTHERS).assign(tuning=tuning)
    times = {measured: 1.3 * getattr(small.served(runs), measured), other: np.nan}
    own = small.calibrated(runs.assign(**times)).served(settings)
    without = small.served(settings)
    ends = [*ENDS, 0.0]
    assert own.law(other).quantiles(ends) == pytest.approx(without.law(other).quantiles(ends))
    widths = [served.law(measured).quantiles(ENDS)[:2] for served in (own, without)]
    own_width, width = (upper / lower for lower, upper in (ends.T for ends in widths))
    assert (own_width < width).all()


ODD: dict[str, list[tuple[dict[str, Any], float, float]]] = {
    "falls": [({"concurrency": 1}, 80.0, 300.0), ({"concurrency": 64}, 30.0, 90.0)],
    "one": [({}, 31.0, 250.0)],
    "repeats": [({}, 20.0, 200.0), ({}, 40.0, 900.0)],
    "three": [({}, 20.0, 200.0), ({}, 21.0, 210.0), ({}, 60.0, 200.0)],
    "one far off": [({"concurrency": many}, ms, 300.0) for many, ms in ((4, 9.0), (16, 200.0), (64, 24.0))],
    "lengths": [({"input_len": 1024}, 20.0, 200.0), ({"input_len": 1600}, 33.0, 900.0)],
    "releases": [({"engine_version": "0.9"}, 40.0, 900.0), ({"engine_version": "0.10"}, 20.0, 200.0)],
    "caches": [({"dtype_kv": "fp8"}, 20.0, 200.0), ({"dtype_kv": "bf16"}, 30.0, 250.0)],
    "limits": [({"running_limit": 8}, 20.0, 5000.0), ({"running_limit": 64}, 30.0, 250.0)],
    "engines": [({}, 20.0, 200.0), ({"engine": "sglang"}, 60.0, 200.0)],
    "GPUs": [({}, 20.0, 200.0), ({"device": "MI355X"}, 60.0, 900.0)],
    "late first token": [({"concurrency": 64}, 20.0, 30_000.0), ({"concurrency": 16}, 18.0, 90.0)],
    "no first token": [({}, 20.0, np.nan), ({"concurrency": 64}, 18.0, np.nan)],
    "only a first token": [({}, np.nan, 200.0), ({"concurrency": 64}, np.nan, 150.0)],
}  # fmt: skip


@pytest.mark.parametrize("name", ODD)
def test_a_setting_that_was_run_is_given_back_as_measured(small: ServingModel, name: str) -> None:
    runs = asked(*[given for given, _, _ in ODD[name]])
    times = {
        "tpot_ms": np.array([ms for _, ms, _ in ODD[name]]),
        "ttft_ms": np.array([ms for _, _, ms in ODD[name]]),
    }
    own = small.calibrated(runs.assign(**times))
    served = own.served(runs)
    settings = runs.groupby([*runs], dropna=False, sort=False).ngroup()
    for time, measured in times.items():
        lower, median, upper = served.law(time).quantiles([ENDS[0], 0.0, ENDS[1]]).T
        given = np.isfinite(measured)
        assert (lower[given] <= measured[given] * (1 + 1e-9)).all()
        assert (measured[given] <= upper[given] * (1 + 1e-9)).all()
        middle = np.exp(pd.Series(np.log(measured)).groupby(settings).transform("mean"))
        assert median[given] == pytest.approx(middle[given], rel=1e-6)


def test_what_a_run_does_not_state_is_as_asked(small: ServingModel) -> None:
    run = asked({"concurrency": 64, "dtype_kv": ""})
    own = small.calibrated(run.assign(tpot_ms=45.0, ttft_ms=2000.0))
    for cache in ("", "bf16", "fp8"):
        found = own.served(run.assign(dtype_kv=cache))
        assert found.tpot_ms == pytest.approx([45.0])
        assert found.ttft_ms == pytest.approx([2000.0])


def test_runs_of_first_tokens_alone_make_no_setting_as_sure_as_two_runs(
    small: ServingModel,
) -> None:
    runs = asked({"concurrency": 4}, {"concurrency": 64})
    both = runs.assign(tpot_ms=[9.0, 15.0], ttft_ms=[100.0, 900.0])
    assert small.calibrated(both).calibrated_settings == 1
    assert small.calibrated(both.assign(tpot_ms=np.nan)).calibrated_settings == 0


def test_between_runs_whose_time_falls_no_answer_lies_outside_of_both(small: ServingModel) -> None:
    runs = asked(*LOADS).assign(tpot_ms=[80.0, 30.0], ttft_ms=[300.0, 90.0])
    between = small.calibrated(runs).served(asked(*[{"concurrency": 2**n} for n in range(1, 6)]))
    assert ((between.tpot_ms >= 30.0) & (between.tpot_ms <= 80.0)).all()
    assert ((between.ttft_ms >= 90.0) & (between.ttft_ms <= 300.0)).all()


@pytest.mark.parametrize(
    ("given", "contradict"),
    [({}, True), ({"engine_version": "0.9"}, False), ({"input_len": 1700}, False)],
)
def test_runs_that_differ_in_what_they_state_do_not_contradict_each_other(
    small: ServingModel, given: dict[str, Any], contradict: bool
) -> None:
    runs = asked({"engine_version": "0.10"}, {"engine_version": "0.10"} | given)
    own = small.calibrated(runs.assign(tpot_ms=[20.0, 40.0], ttft_ms=200.0))
    factors = [one.values["factor"] for one in own.contradictions]
    assert factors == pytest.approx([2.0] * contradict)


@pytest.mark.parametrize(("second", "contradict"), [(40.0, True), (20.4, False)])
def test_repeats_that_contradict_each_other_widen_the_answer(
    prior: str, second: float, contradict: bool
) -> None:
    table = pd.DataFrame([RUN | {"tpot_ms": ms, "ttft_ms": 200.0} for ms in (20.0, second)])
    own = calibrate(table, prior=prior)
    assert isinstance(own, ServingModel)
    notes = [note for note in own.about["notes"] if "runs-contradict" in note]
    assert bool(notes) is contradict
    assert not [note for note in own.about["notes"] if "kernel" in note]
    assert own.served(asked()).tpot_ms == pytest.approx(np.sqrt(20.0 * second))
    lower, upper = own.served(asked()).law("tpot_ms").quantiles(ENDS).T
    assert lower[0] < 20.0 * 1.01
    assert upper[0] > second
    assert bool(upper[0] / lower[0] > 3.0) is contradict
    said = own.document().opening[0]
    assert ("by a factor of 2.00" in str(said)) is contradict


def test_repeats_without_a_first_token_are_taken_beside_repeats_that_contradict(prior: str) -> None:
    runs = [(64, np.nan, 16.0), (64, np.nan, 17.0), (128, 400.0, 20.0), (128, 900.0, 60.0)]
    table = pd.DataFrame(
        [RUN | {"concurrency": many, "ttft_ms": first, "tpot_ms": ms} for many, first, ms in runs]
    )
    own = calibrate(table, prior=prior)
    assert isinstance(own, ServingModel)
    assert own.runs["tpot_ms"].tail(4).tolist() == [16.0, 17.0, 20.0, 60.0]
    assert len([note for note in own.about["notes"] if "runs-contradict" in note]) == 2


@pytest.mark.parametrize("given", [{"engine": "tgi"}, {"device": "MI999"}])
def test_what_no_forecast_takes_is_refused_by_its_name(given: dict[str, str]) -> None:
    table = pd.DataFrame([RUN | given | {"tpot_ms": 20.0, "ttft_ms": 200.0}])
    (name,) = given.values()
    with pytest.raises(FlopcastError, match=name):
        calibrate(table)


@pytest.mark.parametrize("factors", [(2.5, 1.5), (1.5, 1.5)])
def test_between_own_runs_more_requests_are_served_no_sooner(factors: tuple[float, float]) -> None:
    ends = asked({"concurrency": 1}, {"concurrency": 64})
    tuned = shipped().served(ends)
    slow = {time: getattr(tuned, time) * np.array(factors) for time in TIMES}
    own = shipped().calibrated(ends.assign(**slow))
    loads = [1, 2, 4, 8, 16, 32, 64, 96]
    answers = own.served(asked(*[{"concurrency": many} for many in loads]))
    for time in TIMES:
        times = getattr(answers, time)
        assert (np.diff(times) > -1e-6 * times[1:]).all()
        assert times[[0, 6]] == pytest.approx(slow[time], rel=0.05)


HEAD = "model,gpu,engine,tp,isl,osl,conc,dtype"
CELLS = "llama-3.1-70b,MI300X,vllm,8,1024,1024,16,fp8"
READ: dict[str, tuple[str, str, dict[str, float]]] = {
    "one row": ("tpot_ms,ttft_ms", "14,300", {"tpot_ms": 14.0, "ttft_ms": 300.0}),
    "a unit each": ("tpot_ms,ttft_s", "14,0.3", {"tpot_ms": 14.0, "ttft_ms": 300.0}),
    "one of two units": ("tpot_ms,ttft_ms,ttft_s", "14,,0.3", {"tpot_ms": 14.0, "ttft_ms": 300.0}),
    "both units": ("tpot_ms,ttft_ms,ttft_s", "14,301,0.3", {"tpot_ms": 14.0, "ttft_ms": 301.0}),
    "first token alone": ("ttft_ms", "300", {"ttft_ms": 300.0}),
    "mean and median": ("mean_tpot_ms,p50_tpot_ms", "14,13", {"tpot_ms": 14.0}),
    # 16 requests x 1,024 tokens a second and 1,100: 14.895 s, less 300 ms, over 1,023 tokens
    "throughput and first token": (
        "output_throughput,ttft_ms", "1100,300", {"tpot_ms": 14.2664, "ttft_ms": 300.0},
    ),
    "not measured": ("tpot_ms,ttft_ms", "N/A,300", {"ttft_ms": 300.0}),
    "the format of the cache": ("tpot_ms,kv_precision", "14,fp8", {"tpot_ms": 14.0}),
}  # fmt: skip


@pytest.fixture
def prior(small: ServingModel, tmp_path: Path) -> str:
    small.save(tmp_path / "prior.parquet")
    return str(tmp_path / "prior.parquet")


def own_times(own: ServingModel) -> dict[str, float]:
    last = own.runs.iloc[-1]
    return {time: float(last[time]) for time in TIMES if np.isfinite(last[time])}


@pytest.mark.parametrize("name", READ)
def test_a_table_of_runs_is_read_for_what_it_states(prior: str, tmp_path: Path, name: str) -> None:
    heads, cells, times = READ[name]
    (tmp_path / "runs.csv").write_text(f"{HEAD},{heads}\n{CELLS},{cells}\n")
    own = calibrate(tmp_path / "runs.csv", prior=prior)
    assert isinstance(own, ServingModel)
    assert own_times(own) == pytest.approx(times, rel=1e-4)


@pytest.mark.parametrize(
    ("word", "engine"),
    [("vLLM", "vllm"), ("SGLang", "sglang"), ("ATOM", "atom"), ("TensorRT-LLM", "trtllm"), ("TRT", "trtllm")],
)  # fmt: skip
def test_an_engine_is_read_as_its_vendor_spells_it(prior: str, word: str, engine: str) -> None:
    run = {**RUN, "tpot_ms": 20.0, "ttft_ms": 200.0}
    stated = pd.DataFrame([run | {"engine": word}])
    defaulted = stated.drop(columns="engine")
    for own in (
        calibrate(stated, prior=prior),
        calibrate(defaulted, prior=prior, default={"engine": word}),
    ):
        assert isinstance(own, ServingModel)
        assert own.runs["engine"].iloc[-1] == engine


def test_throughput_alone_says_the_time_per_token_after_a_forecast_first_one(
    small: ServingModel, prior: str, tmp_path: Path
) -> None:
    (tmp_path / "runs.csv").write_text(f"{HEAD},output_throughput\n{CELLS},1100\n")
    own = calibrate(tmp_path / "runs.csv", prior=prior)
    assert isinstance(own, ServingModel)
    request = 16 * 1024 / 1100 * 1e3
    tpot = (request - small.served(asked()).ttft_ms[0]) / 1023
    assert own_times(own) == pytest.approx({"tpot_ms": tpot}, rel=1e-3)
    assert [note for note in own.about["notes"] if "tpot-from-requests" in note]


@pytest.mark.parametrize(
    ("heads", "cells", "problem"),
    [
        ("tpot_ms,ttft_ms,ttft_s", "14,300,0.9", "ttft_ms and ttft_s contradict"),
        ("tpot_ms,ttft_ms", "fast,300", "tpot_ms = fast"),
        ("tpot_ms,ttft_ms", "0,300", "no mean time above zero"),
        ("p99_tpot_ms", "33", "no supported format"),
        ("tpot_ms_median,tpot_ms_mean", "14,", "give rename tpot_ms_median=tpot_ms"),
        ("median_itl_ms", "14", "give rename median_itl_ms=tpot_ms"),
        ("tpot_ms_mean,p50_ttft_s", ",0.3", "give rename p50_ttft_s=ttft_s"),
        ("tpot_ms,cache_dtype", "14,fp8", "give rename cache_dtype=dtype_kv"),
        ("tpot_ms,ttft_ms,speculation", "8,300,ngram", "ngram"),
        ("tpot_ms,ttft_ms,lengths", "14,300,waves", "lengths must be drawn or equal"),
    ],
)
def test_a_table_that_says_something_else_is_refused_in_one_line(
    tmp_path: Path, heads: str, cells: str, problem: str
) -> None:
    (tmp_path / "runs.csv").write_text(f"{HEAD},{heads}\n{CELLS},{cells}\n")
    with pytest.raises(FlopcastError, match=problem) as error:
        calibrate(tmp_path / "runs.csv")
    assert "\n" not in str(error.value)


def test_runs_with_prompts_on_other_gpus_are_such_runs(prior: str, tmp_path: Path) -> None:
    table = f"{HEAD},tpot_ms,ttft_ms,prefill_gpus\n{CELLS},14,300,8\n{CELLS},15,300,0\n"
    (tmp_path / "runs.csv").write_text(table)
    own = calibrate(tmp_path / "runs.csv", prior=prior)
    assert own.runs["apart"].tolist()[-2:] == ["yes", ""]


@pytest.mark.parametrize("name", ["tpot_ms", "stock_ttft_ms", "published_tpot_ms"])
def test_a_model_that_does_not_hold_what_was_measured_is_to_be_calibrated_anew(
    small: ServingModel, tmp_path: Path, name: str
) -> None:
    own = small.calibrated(asked().assign(tpot_ms=20.0, ttft_ms=200.0))
    if name in own.runs:
        without = replace(own, runs=own.runs.drop(columns=name))
    else:
        fits = {time: replace(fit, published=None) for time, fit in own.fits.items()}
        without = replace(own, fits=fits)
    without.save(tmp_path / "own.parquet")
    with pytest.raises(DataError, match=f"{name} of the runs: calibrate it anew"):
        load(tmp_path / "own.parquet")

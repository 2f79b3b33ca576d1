"""Own runs: never sooner than tuned where they took longer, as wide as their repeats, refused as forecasts are."""

from __future__ import annotations

from typing import Any

import numpy as np
import pandas as pd
import pytest

from flopcast.api.forecasting import calibrate
from flopcast.errors import FlopcastError
from flopcast.operators.operators import complete
from flopcast.workloads.serving import described
from flopcast.workloads.serving_law import ENDS
from flopcast.workloads.serving_model import TIMES, ServingModel, shipped

RUN: dict[str, Any] = {
    "op": "serving", "device": "MI300X", "model": "llama-3.1-70b", "engine": "vllm", "dtype_a": "fp8",
    "dtype_b": "fp8", "input_len": 1024, "output_len": 1024, "concurrency": 16, "tp": 8,
}  # fmt: skip
NORMALS = np.linspace(-3.0, 3.0, 25)


def asked(*runs: dict[str, Any]) -> pd.DataFrame:
    return complete(described(pd.DataFrame([RUN | run for run in runs or ({},)]))[0])


def test_a_stack_that_takes_longer_is_never_sooner_than_a_tuned_one() -> None:
    runs = asked({"concurrency": 1}, {"concurrency": 64})
    tuned = shipped().served(runs)
    slow = runs.assign(tpot_ms=1.5 * tuned.tpot_ms, ttft_ms=1.5 * tuned.ttft_ms)
    own = shipped().calibrated(slow)
    others = asked(
        {"model": "qwen3-32b", "tp": 2}, {"model": "gpt-oss-120b", "device": "MI355X", "tp": 1}
    )
    for time in TIMES:
        carried, plain = own.served(others).law(time), shipped().served(others).law(time)
        assert (carried.quantiles(NORMALS) >= plain.quantiles(NORMALS) * (1 - 1e-3)).all()
        for limit in np.geomspace(1.0, 1e4, 20):
            assert (carried.chance(limit) <= plain.chance(limit) + 1e-3).all()


@pytest.mark.parametrize(("second", "contradict"), [(40.0, True), (20.4, False)])
def test_repeats_that_contradict_each_other_widen_the_answer(
    second: float, contradict: bool
) -> None:
    table = pd.DataFrame([RUN | {"tpot_ms": ms, "ttft_ms": 200.0} for ms in (20.0, second)])
    own = calibrate(table)
    assert isinstance(own, ServingModel)
    notes = [note for note in own.about["notes"] if "runs-contradict" in note]
    assert bool(notes) is contradict
    assert not [note for note in own.about["notes"] if "kernel" in note]
    lower, upper = own.served(asked()).law("tpot_ms").quantiles(ENDS).T
    assert lower[0] < 20.0 * 1.01
    assert upper[0] > second
    assert bool(upper[0] / lower[0] > 3.0) is contradict


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

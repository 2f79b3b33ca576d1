"""Ratios of serving learnt anew: simulated runs, whose variances are known."""

from __future__ import annotations

import numpy as np
import pandas as pd
import pytest

from flopcast.benchmarks.serving_conditions import (
    LEFT_OUT,
    first_tokens,
    fit_queues,
    learnt,
    left_out,
    lines_of,
)
from flopcast.evaluation.metrics import NINETY_PERCENT
from flopcast.workloads.measured_ratios import LEVELS

USERS = (4.0, 16.0, 64.0, 256.0)


@pytest.fixture(scope="module")
def runs() -> pd.DataFrame:
    """Return runs of which each model has a deviation of 0.3, each setting one of 0.1, a run one of 0.03."""
    random = np.random.default_rng(3)
    rows = []
    for model in range(12):
        of_model = random.normal(0.0, 0.3)
        for tp in (2.0, 4.0, 8.0):
            of_setting = of_model + random.normal(0.0, 0.1)
            for users in USERS:
                log = -0.4 + of_setting + random.normal(0.0, 0.03)
                rows.append({"model": f"model {model}", "tp": tp, "concurrency": users, "log": log})
    place = {"gpu": "MI355X", "engine": "vllm", "dtype": "fp8", "dp": 1.0, "ep": 1.0}
    lengths = {"input_len": 1024.0, "output_len": 1024.0, "speculation": "mtp"}
    return pd.DataFrame(rows).assign(**place, **lengths)


def test_variances_are_found_where_runs_share_them(runs: pd.DataFrame) -> None:
    found = learnt(runs)
    assert set(found.variances) == set(LEVELS)
    of_model = ("model", "family", "combination")
    between = sum(sum(found.variances[level]) for level in of_model)
    assert np.sqrt(between) == pytest.approx(0.3, rel=0.5)
    assert np.sqrt(found.variances["setting"][0]) == pytest.approx(0.1, rel=0.5)
    assert np.sqrt(found.noise) == pytest.approx(0.03, rel=0.5)


def test_what_is_left_out_lies_in_its_interval(runs: pd.DataFrame) -> None:
    missed = left_out(learnt(runs))
    inside = missed["missed"].abs() <= NINETY_PERCENT * missed["spread"]
    shares = inside.groupby(missed["question"]).mean()
    assert set(shares.index) == {"known setting", "new setting", "new model", "new combination"}
    assert shares["known setting"] > 0.8
    assert shares["new setting"] > 0.8
    assert shares["new model"] > 0.7  # of twelve
    errors = missed["missed"].abs().groupby(missed["question"]).mean()
    assert errors["known setting"] < errors["new setting"] < errors["new model"]
    assert len(lines_of("made up", missed)) == len(shares)
    assert set(shares.index) < set(LEFT_OUT)


def test_the_share_of_the_peak_is_found_from_requests_as_a_whole() -> None:
    users = np.geomspace(1, 4096, 60)
    found = pd.DataFrame({"users": users, "vendor": "AMD", "prefill_workers": 1.0})
    found = found.assign(work_ms=40.0, answer_ms=20_000.0)
    truth = np.log([0.2, 0.2, 5.0, 5.0, 1.0])
    found["whole_ms"] = found["answer_ms"] + first_tokens(found, truth, 100.0)
    logs = fit_queues(found, 100.0)
    assert np.exp(logs[0]) == pytest.approx(0.2, rel=0.1)

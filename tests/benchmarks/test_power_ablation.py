from __future__ import annotations

import numpy as np
import pandas as pd
import pytest

from flopcast.benchmarks.power_ablation import CASES, EVERYTHING, LEVEL, ablation, main, rms_percent
from flopcast.benchmarks.power_simulator import Scenario
from flopcast.errors import DataError


@pytest.fixture(scope="module")
def short() -> pd.DataFrame:
    return ablation(repetitions=3).set_index("case")


@pytest.fixture(scope="module")
def long() -> pd.DataFrame:
    with pytest.MonkeyPatch.context() as patch:
        cases = (EVERYTHING, "without synchronisation", "50 runs", LEVEL)
        patch.setattr("flopcast.benchmarks.power_ablation.CASES", cases)
        return ablation(Scenario(kernel_us=2500), repetitions=1).set_index("case")


def test_with_everything_the_errors_are_small(short: pd.DataFrame) -> None:
    assert short.index.tolist() == list(CASES)
    everything = short.loc[EVERYTHING]
    assert everything["polynomial_percent"] < 3
    assert everything["spline_percent"] < 3
    assert everything["energy_percent"] < 2
    assert short.loc["50 runs", "polynomial_percent"] < 5
    assert short.loc["50 runs", "readings"] < everything["readings"] / 2
    assert 1.5 < short.loc["bin twice as wide", "golden_runs"] / everything["golden_runs"] < 2


@pytest.mark.parametrize(
    ("case", "least"),
    [("without synchronisation", 50), ("without drift", 3), ("without binning", 3),
     ("steady execution taken for steady power", 8)],
)  # fmt: skip
def test_each_step_is_worth_something(short: pd.DataFrame, case: str, least: float) -> None:
    for error in ("polynomial_percent", "spline_percent", "energy_percent"):
        assert short.loc[case, error] > max(least, 2 * short.loc[EVERYTHING, error])


def test_the_window_can_be_removed_from_a_long_kernel(long: pd.DataFrame) -> None:
    found = long["own_percent"]
    assert found[EVERYTHING] < 3 < found["without synchronisation"]
    assert np.isnan(found["50 runs"])


def test_the_curve_of_a_long_kernel_beats_a_level_line(long: pd.DataFrame) -> None:
    for curve in ("polynomial_percent", "spline_percent", "own_percent"):
        assert long.loc[EVERYTHING, curve] < 0.6 * long.loc[LEVEL, curve]
    assert long.loc[EVERYTHING, "energy_percent"] == long.loc[LEVEL, "energy_percent"]


@pytest.fixture
def two_cases(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("flopcast.benchmarks.power_ablation.CASES", (EVERYTHING, "50 runs"))


@pytest.mark.usefixtures("two_cases")
def test_a_repetition_with_too_few_readings_is_counted_not_the_end() -> None:
    found = ablation(Scenario(seed=21), repetitions=2).set_index("case")
    assert found["repetitions"].to_dict() == {EVERYTHING: 2, "50 runs": 1}


@pytest.mark.usefixtures("two_cases")
def test_a_protocol_that_never_gives_a_profile_is_an_error() -> None:
    with pytest.raises(DataError, match=r"readings.*gemm"):
        ablation(Scenario(runs=3), repetitions=2)


def test_root_mean_square() -> None:
    assert rms_percent(np.array([1.0, 3.0]), np.array([2.0, 2.0])) == 50


@pytest.mark.usefixtures("two_cases")
def test_the_table_is_printed(capsys: pytest.CaptureFixture[str]) -> None:
    main(["--kernel-us", "300", "--repetitions", "1"])
    printed = capsys.readouterr().out
    assert EVERYTHING in printed
    assert "–" in printed  # no curve of its own from fifty runs

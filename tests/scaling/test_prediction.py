"""Predictions over size with two toy laws, so that every figure can be checked by hand."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Self

import numpy as np
import pandas as pd
import pytest

from flopcast.errors import DataError
from flopcast.remarks import Remark, remark
from flopcast.scaling import prediction as size_prediction
from flopcast.scaling.curves import Curve, CurveTable, curves_of
from flopcast.scaling.prediction import SimulationCost, error_percent, predict_sizes, summarise
from flopcast.scaling.scaling_laws import ScalingLaw


class Straight(ScalingLaw):
    """Performance in proportion to size, ± 20 %."""

    name = "straight"

    def _fit(self, curve: Curve) -> None:
        """Learn nothing: the last size says it all."""

    def _predict(self, sizes: np.ndarray) -> np.ndarray:
        return sizes * self.curve_.performance[-1] / self.curve_.sizes[-1]

    def interval(self, sizes: Any, level: float = 0.9) -> tuple[np.ndarray, np.ndarray]:
        return 0.8 * self.predict(sizes), 1.2 * self.predict(sizes)

    def _interval_notes(self) -> list[Remark]:
        return [remark("no-serial-share")]


class Failing(Straight):
    """A law that asks for more than there is."""

    name = "failing"

    def fit(self, curve: Curve) -> Self:
        raise DataError("needs three sizes")


@pytest.fixture
def asked(monkeypatch: pytest.MonkeyPatch) -> list[list[str]]:
    """Put the toy laws in place of the real ones; return the benchmarks that these were given to learn from."""
    seen: list[list[str]] = []

    def every_law(training: Sequence[Curve] | None = None) -> list[ScalingLaw]:
        seen.append([curve.benchmark for curve in training or ()])
        return [Straight(), Failing()]

    monkeypatch.setattr(size_prediction, "every_law", every_law)
    monkeypatch.setattr(size_prediction, "LAWS", ("straight", "failing"))
    return seen


def table(**curves: list[float]) -> CurveTable:
    """Return benchmarks measured at 8, 16, 32, 64."""
    rows = [
        (name, 8 * 2**i, value) for name, values in curves.items() for i, value in enumerate(values)
    ]
    return curves_of(pd.DataFrame(rows, columns=["benchmark", "size", "performance"]))


TWO = {"a": [1.0, 2.0, 4.0, 8.0], "b": [1.0, 2.0, 4.0, 4.0]}


def test_every_law_predicts_every_benchmark(asked: list[list[str]]) -> None:
    result = predict_sizes(table(**TWO), [8, 16], [32, 64])
    assert (result.names, len(result.benchmarks)) == (["straight", "failing"], 2)
    for one in result.benchmarks:
        good, bad = one.laws
        assert good.sizes.tolist() == [16, 32, 64]
        assert good.at(64) == pytest.approx((8, 6.4, 9.6))
        assert bad.failed == "needs three sizes"
        assert np.isnan(bad.predicted).all()


def test_the_summary_counts_errors_coverage_and_failures(asked: list[list[str]]) -> None:
    found = {
        (one.law, one.target): one
        for one in summarise(predict_sizes(table(**TWO), [8, 16], [32, 64]))
    }
    near, far, failed = found["straight", 32], found["straight", 64], found["failing", 64]
    assert (near.average, near.maximum, near.coverage, near.benchmarks) == (0, 0, 1, 2)
    assert (far.average, far.maximum, far.coverage) == (50, 100, 0.5)
    assert (failed.benchmarks, failed.failed, np.isnan(failed.average)) == (0, 2, True)


def test_targets_that_nobody_measured_have_predictions_and_no_errors(
    asked: list[list[str]],
) -> None:
    result = predict_sizes(table(**TWO), [8, 16], [100])
    assert result.benchmarks[0].laws[0].sizes.tolist() == [16, 32, 64, 100]
    assert result.benchmarks[0].laws[0].at(100)[0] == pytest.approx(12.5)
    assert summarise(result) == []


def test_the_laws_never_see_a_size_beyond_those_to_fit(asked: list[list[str]]) -> None:
    short = table(a=[1.0, 2.0], b=[1.0, 2.0])
    whole, cut = (predict_sizes(one, [8, 16], [64]) for one in (table(**TWO), short))
    for one, other in zip(whole.benchmarks, cut.benchmarks, strict=True):
        assert one.laws[0].at(64) == other.laws[0].at(64)


def test_laws_learn_from_benchmarks_that_reach_beyond_the_sizes_to_fit(
    asked: list[list[str]],
) -> None:
    predict_sizes(table(**TWO, c=[1.0, 2.0]), [8, 16], [64])
    predict_sizes(table(a=[1.0, 2.0, 4.0], c=[1.0, 2.0]), [8, 16], [64])
    assert asked == [["a", "b"], []]


def test_simulation_costs_are_compared_where_times_are_known(asked: list[list[str]]) -> None:
    frame = pd.DataFrame({"benchmark": "a", "size": [8, 16, 64], "ipc": [1.0, 2.0, 8.0]})
    timed = curves_of(frame.assign(simulation_time_s=[10, 20, 120]))
    (cost,) = predict_sizes(timed, [8, 16], [64, 128]).benchmarks[0].costs
    assert cost == SimulationCost(64, 120, 30, 20)
    assert (cost.speedup, cost.parallel_speedup) == (4, 6)
    partly = curves_of(frame.assign(simulation_time_s=[None, 20, 120]))
    assert predict_sizes(partly, [8, 16], [64]).benchmarks[0].costs == ()


def test_cliffs_are_sought_where_miss_rates_are_known(asked: list[list[str]]) -> None:
    frame = pd.DataFrame({"benchmark": "a", "size": [8, 16, 32, 64], "ipc": [1.0, 2.0, 4.0, 16.0]})
    (one,) = predict_sizes(curves_of(frame.assign(mpki=[6, 6, 6, 0.1])), [8, 16], [64]).benchmarks
    assert one.cliffs is not None
    assert len(one.cliffs) == 1
    assert predict_sizes(curves_of(frame), [8, 16], [64]).benchmarks[0].cliffs is None


@pytest.mark.parametrize(
    ("fit", "targets", "options", "message"),
    [
        ([8], [64], {}, r"^fit.*8"),
        ([16, 8], [64], {}, r"^fit.*16"),
        ([-8, 8], [64], {}, r"^fit.*-8"),
        ([8, 16], [64, 32], {}, r"^sizes.*64.*32"),
        ([8, 16], [16], {}, r"^sizes.*16.*16"),
        ([8, 16], [64], {"level": 90}, "got 90"),
        ([8, 16], [64], {"laws": ["straigt"]}, r"^law.*'straigt'"),
        ([8, 24], [64], {}, r"24.*16.*32.*64"),
    ],
)
def test_what_cannot_be_predicted_is_refused(
    asked: list[list[str]],
    fit: list[float],
    targets: list[float],
    options: dict[str, Any],
    message: str,
) -> None:
    with pytest.raises(DataError, match=message):
        predict_sizes(table(**TWO), fit, targets, **options)


def test_a_line_that_falls_below_zero_predicts_nothing_there() -> None:
    curve = Curve("falls", "strong", "SM", np.array([8.0, 16.0]), np.array([100.0, 90.0]))
    (line,) = (
        predict_sizes(CurveTable((curve,)), [8, 16], [64, 128], laws=["linear"]).benchmarks[0].laws
    )
    assert line.at(64)[0] == pytest.approx(30)
    assert np.isnan(line.at(128)[0])
    assert "no-performance-left" in {note.code for note in line.notes}


def test_laws_can_be_chosen_by_a_part_of_their_names(asked: list[list[str]]) -> None:
    assert predict_sizes(table(**TWO), [8, 16], [64], laws=["failing"]).names == ["failing"]
    assert predict_sizes(table(**TWO), [8, 16], [64], laws=["FAIL", "straight"]).names == [
        "straight",
        "failing",
    ]


def test_errors_are_relative_to_what_was_measured() -> None:
    assert error_percent(150, 100) == 50
    assert error_percent(50, 100) == 50

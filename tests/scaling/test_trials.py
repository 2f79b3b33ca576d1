from __future__ import annotations

from dataclasses import replace

import numpy as np
import pandas as pd
import pytest

from flopcast.errors import DataError
from flopcast.scaling.curves import Curve, published_curves
from flopcast.scaling.prediction import LAWS
from flopcast.scaling.trials import TOLERANCE, reproduction, summary, trial

LEARNED = "scale model (learned)"
CELLS = [("strong", 32), ("strong", 128), ("weak", 128), ("chiplets", 16)]


@pytest.fixture(scope="module")
def reproduced() -> pd.DataFrame:
    return reproduction()


@pytest.fixture(scope="module")
def from_the_smallest(reproduced: pd.DataFrame) -> pd.DataFrame:
    smallest = reproduced["fit"].isin([(8.0, 16.0), (4.0, 8.0)])
    return reproduced[smallest].set_index(["scenario", "target", "predictor"])


@pytest.mark.parametrize(
    ("cell", "average", "largest"),
    [
        (("strong", 128, "scale model (program)"), 4.06, 17.0),
        (("strong", 64, "scale model (program)"), 3.50, 13.9),
        (("chiplets", 16, "scale model (program)"), 2.46, 4.29),
        (("weak", 128, "scale model (program)"), 1.32, 3.42),
        (("strong", 128, "scale model (equations)"), 11.9, 67.8),
        (("strong", 128, "linear"), 16.9, 68.0),
        (("strong", 128, "power law"), 11.9, 55.1),
        (("weak", 128, "linear"), 4.9, 12.4),
        (("weak", 128, "power law"), 2.87, 6.9),
        (("chiplets", 16, "proportional"), 16.1, 36.7),
    ],
)
def test_the_published_errors_follow_from_the_published_data(
    from_the_smallest: pd.DataFrame, cell: tuple, average: float, largest: float
) -> None:
    digits = {"average": average, "max": largest}
    for column, value in digits.items():
        assert from_the_smallest.loc[cell, column] == pytest.approx(
            value, abs=0.05 if value > 4.3 else 0.005
        )


def test_every_difference_is_explained_and_nothing_else(reproduced: pd.DataFrame) -> None:
    apart = np.fmax(
        (reproduced["average"] - reproduced["published_average"]).abs(),
        (reproduced["max"] - reproduced["published_max"]).abs(),
    )
    assert ((apart > TOLERANCE) == (reproduced["explanation"] != "")).all()
    assert (reproduced["explanation"] != "").sum() == 10


def test_from_16_and_32_sms_the_published_averages_follow(reproduced: pd.DataFrame) -> None:
    found = reproduced[reproduced["fit"].isin([(16.0, 32.0)])].set_index(["target", "predictor"])[
        "average"
    ]
    published = {64: (5, 5, 5, 10, 24), 128: (10, 15, 16, 19, 50)}
    for target, averages in published.items():
        ours = sorted(found[target].drop(index="scale model (equations)"))
        assert np.abs(np.array(ours) - averages).max() < 2.6
    assert found[64, "scale model (program)"] == pytest.approx(4.63, abs=0.005)
    assert found[128, "scale model (program)"] == pytest.approx(10.98, abs=0.005)


def test_the_chiplet_cell_that_does_not_follow_divides_by_the_prediction() -> None:
    errors = {
        curve.benchmark: 100 * abs(curve.performance[2] / (4 * curve.performance[0]) - 1)
        for curve in published_curves()
        if curve.scenario == "chiplets"
    }
    assert (max(errors, key=errors.__getitem__), round(max(errors.values()))) == ("bs", 58)
    assert np.mean(list(errors.values())) == pytest.approx(19.2, abs=0.05)


def test_every_published_cell_has_its_row(reproduced: pd.DataFrame) -> None:
    assert len(reproduced) == 30 + 6
    own = {
        "scale model (program)",
        "scale model (equations)",
        "proportional",
        "linear",
        "power law",
        "logarithmic",
    }
    assert set(reproduced["predictor"]) == own


@pytest.fixture(scope="module")
def learned() -> dict[str, pd.Series]:
    return {
        s: summary(trial(published_curves(), s, 128, [LEARNED])).iloc[0] for s in ("strong", "weak")
    }


@pytest.mark.parametrize(
    ("scenario", "average", "largest"), [("strong", 3.5, 9.0), ("weak", 1.3, 4.0)]
)
def test_the_learned_scale_model_on_benchmarks_it_has_not_seen(
    learned: dict[str, pd.Series], scenario: str, average: float, largest: float
) -> None:
    row = learned[scenario]
    assert row["average"] <= average
    assert row["max"] <= largest
    published_only = summary(
        trial(published_curves(), scenario, 128, [LEARNED], leave_one_out=False)
    )
    assert published_only["average"].tolist() == pytest.approx([row["average"]])


def test_no_law_learns_from_the_benchmark_that_it_predicts() -> None:
    own = next(curve for curve in published_curves() if curve.scenario == "weak")
    curves = [own, *(curve for curve in published_curves() if curve.scenario == "strong")]
    twice = [
        replace(curve, performance=curve.performance * np.where(curve.sizes > 16, 2.0, 1.0))
        if curve.benchmark == own.benchmark
        else curve
        for curve in curves
    ]
    before, after = (trial(known, "weak", 128, [LEARNED]) for known in (curves, twice))
    assert after["observed"].tolist() == pytest.approx(2 * before["observed"])
    assert after["predicted"].tolist() == pytest.approx(before["predicted"], rel=1e-12)


def test_its_errors_are_those_of_its_docstring(learned: dict[str, pd.Series]) -> None:
    assert [(round(f["average"], 1), round(f["max"], 1)) for f in learned.values()] == [
        (3.1, 8.1),
        (1.0, 3.2),
    ]


def test_it_learns_enough_from_benchmarks_of_the_same_scenario() -> None:
    weak = [curve for curve in published_curves() if curve.scenario == "weak"]
    (row,) = summary(trial(weak, "weak", 128, [LEARNED])).to_dict("records")
    assert (row["average"] <= 1.3, row["max"] <= 4) == (True, True)


@pytest.mark.long
def test_intervals_cover_what_they_have_not_seen() -> None:
    results = pd.concat([trial(published_curves(), scenario, target) for scenario, target in CELLS])
    found = results[results["predicted"].notna()]
    inside = (found["lower"] <= found["observed"]) & (found["observed"] <= found["upper"])
    coverage = inside.groupby(found["law"]).mean()
    assert coverage[LEARNED] >= 0.85
    assert set(coverage.index) == set(LAWS) - {"USL"}
    assert (coverage >= 0.85).all(), coverage


@pytest.mark.long
def test_intervals_from_more_sizes_cover_as_well() -> None:
    found = summary(trial(published_curves(), "strong", 128, sizes=(8, 16, 32, 64)))
    assert found["benchmarks"].tolist() == [21] * len(LAWS)
    assert (found["coverage"] >= 0.85).all(), found


def test_a_law_without_a_prediction_stays_visible() -> None:
    results = trial(published_curves(), "weak", 128, ["USL", "linear"])
    usl = results[results["law"] == "USL"]
    assert usl["predicted"].isna().all()
    assert usl["failed"].str.contains("USL needs 3 sizes, got 8, 16").all()
    row = summary(results).iloc[0]
    assert (row["law"], row["benchmarks"], row["failed"], row["worst"]) == ("USL", 0, 6, "")
    assert np.isnan(row["coverage"])


def test_hand_solved_trial() -> None:
    curves = [
        Curve(f"b{i}", "strong", "SM", [1, 2, 4], [1.0, 2.0, 4.0 / (1 + 0.01 * i)])
        for i in range(1, 11)
    ]
    results = trial(curves, "strong", 4, ["proportional"])
    assert results["ape"].tolist() == pytest.approx(list(range(1, 11)))
    # of the other nine the largest is the 90 % radius: only the tenth lies outside
    assert summary(results)["coverage"].tolist() == [0.9]
    assert summary(results)[["average", "max", "worst"]].to_numpy().tolist() == [
        [pytest.approx(5.5), pytest.approx(10), "b10"]
    ]


def test_what_cannot_be_tried_is_refused() -> None:
    with pytest.raises(DataError, match="measured at size 100"):
        trial(published_curves(), "weak", 100)
    with pytest.raises(DataError, match=r"16.*16"):
        trial(published_curves(), "weak", 16)

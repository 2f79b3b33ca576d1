from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

from flopcast.evaluation.intervals import conformal_quantile
from flopcast.scaling.curves import Curve, published_curves
from flopcast.scaling.scale_models import Program
from flopcast.scaling.scaling_laws import Calibration, Teachers, all_cases, cases_for


def curve(name: str, sizes: list[float], scenario: str = "strong") -> Curve:
    return Curve(name, scenario, "SM", sizes, sizes)


SMALL = curve("target", [8, 16])
FIVE = [curve(f"b{i}", [8, 16, 32, 64]) for i in range(5)]


def test_a_case_is_cut_like_the_curve() -> None:
    (case,) = all_cases(SMALL, [curve("b", [4, 8, 16, 32])])
    assert (case.fitted.sizes.tolist(), case.sizes.tolist(), case.observed.tolist()) == (
        [8, 16],
        [32],
        [32],
    )


def test_curves_of_other_sizes_are_cut_to_as_many_or_fewer() -> None:
    three = curve("target", [10, 20, 40])
    found = all_cases(
        three,
        [curve("a", [1, 2, 4, 8]), curve("b", [1, 2, 4]), curve("c", [1, 2]), curve("d", [10, 20])],
    )
    assert [(case.fitted.sizes.tolist(), case.sizes.tolist()) for case in found] == [
        ([1, 2, 4], [8]),
        ([1, 2], [4]),
    ]


def test_the_benchmark_itself_is_left_out() -> None:
    assert all_cases(SMALL, [curve("target", [8, 16, 32], "weak")]) == []


def test_cases_are_of_the_same_scenario_where_there_are_enough() -> None:
    mixed = [*FIVE, *(curve(f"w{i}", [8, 16, 32], "weak") for i in range(5))]
    cases, teachers = cases_for(SMALL, mixed)
    assert (len(cases), teachers) == (5, Teachers(5, "strong", "given"))
    cases, teachers = cases_for(curve("target", [8, 16], "chiplets"), mixed)
    assert (len(cases), teachers) == (10, Teachers(10, "any", "given"))


def test_published_benchmarks_join_those_that_are_too_few() -> None:
    assert (
        cases_for(SMALL, None)[1] == cases_for(SMALL, [])[1] == Teachers(21, "strong", "published")
    )
    assert cases_for(SMALL, published_curves()[:3])[1] == Teachers(21, "strong", "joined")
    assert cases_for(SMALL, FIVE[:4])[1] == Teachers(25, "strong", "joined")


@pytest.mark.parametrize(("count", "rank"), [(9, 9), (10, 10), (19, 18), (20, 19)])
def test_conformal_rank(count: int, rank: int) -> None:
    assert conformal_quantile(np.arange(1.0, count + 1), 0.9) == rank


def test_too_few_scores_take_student_t() -> None:
    # t of 5 degrees of freedom at 95 %: 2.0150
    assert conformal_quantile(np.ones(5), 0.9) == pytest.approx(2.0150 * np.sqrt(1.2), rel=1e-4)
    assert conformal_quantile(np.array([0.0, 0, 0, 0, 0, 0, 0, 10.0]), 0.9) == 10


def test_radius_grows_from_nothing_and_on_beyond_the_last_knot() -> None:
    reach = np.repeat([1.0, 2.0, 3.0], 9)
    scores = np.concatenate([np.full(9, 0.2), np.full(9, 0.1), np.full(9, 0.6)])
    found = Calibration(reach, scores).radius(np.array([0.0, 0.5, 1.0, 2.0, 2.5, 3.0, 6.0]), 0.9)
    assert found == pytest.approx([0, 0.1, 0.2, 0.2, 0.4, 0.6, 1.2])


def test_knots_with_few_scores_are_left_out() -> None:
    knots = Calibration(np.array([1.0] * 5 + [2.0]), np.arange(6.0)).knots_
    assert [(at, len(scores)) for at, scores in knots] == [(1.0, 5)]
    assert len(Calibration(np.array([1.0, 2.0]), np.ones(2)).knots_) == 2


def test_a_law_that_failed_on_others_has_no_bound_there() -> None:
    reach, scores = np.repeat([1.0, 2.0], 9), np.concatenate([np.full(9, 0.2), np.full(9, np.inf)])
    assert (
        Calibration(reach, scores).radius(np.array([0.5, 1.0, 1.5, 2.0, 3.0]), 0.9).tolist()
        == [0.1, 0.2] + [np.inf] * 3
    )
    assert Calibration(np.array([]), np.array([])).radius(np.array([0.0, 1.0]), 0.9).tolist() == [
        0,
        np.inf,
    ]


def test_intervals_have_seen_the_cliffs_that_the_user_does_not_tell_of() -> None:
    """Without miss rates beyond the sizes measured, a law's errors are those of benchmarks cut in the same way."""
    (whole,) = (
        one for one in published_curves() if (one.benchmark, one.scenario) == ("unet", "strong")
    )
    told = whole.cut([8.0, 16.0])
    assert told.mpki is not None
    untold = replace(told, mpki=told.mpki[:2], mpki_sizes=np.array([8.0, 16.0]))
    radii = {}
    for name, curve in (
        ("told", told),
        ("untold", untold),
        ("no rates", replace(told, mpki=None, mpki_sizes=None)),
    ):
        cases, _ = cases_for(curve, None)
        errors = Program(training=())._case_errors(cases)
        radii[name] = Calibration.of(cases, errors).radius(np.array([3.0]), 0.9)[0]
    assert radii["told"] < 0.2
    assert radii["untold"] > 0.5
    assert radii["no rates"] > 0.5

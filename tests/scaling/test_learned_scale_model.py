from __future__ import annotations

import numpy as np
import pytest

import flopcast as fc
from flopcast.remarks import remark
from flopcast.scaling.curves import Curve, published_curves
from flopcast.scaling.scale_models import FirstDoubling, LearnedScaleModel
from flopcast.scaling.scaling_laws import Power

SIZES = 8.0 * 2.0 ** np.arange(5)


def made(
    loss: float,
    growth: float,
    name: str = "b",
    noise: float = 0.0,
    seed: int = 0,
    scenario: str = "strong",
) -> Curve:
    """Return a curve that follows the law to the letter, but for noise beyond the scale models."""
    m = np.arange(-1.0, 4.0)
    error = noise * np.random.default_rng(seed).normal(size=5) * (m > 0)
    return Curve(
        name,
        scenario,
        "SM",
        SIZES,
        SIZES * np.exp(loss * (m + growth * m * (m - 1) / 2 * (m > 0)) + error),
    )


def test_without_growth_it_is_the_power_law() -> None:
    curve = made(-0.1, 0.7).cut([8, 16])
    at = [20.0, 32.0, 100.0]
    assert LearnedScaleModel(growth=0.0).fit(curve).predict(at) == pytest.approx(
        Power().fit(curve).predict(at)
    )


def test_each_doubling_loses_more_by_the_same() -> None:
    fitted = LearnedScaleModel(growth=0.5).fit(made(np.log(0.9), 0.0).cut([8, 16]))
    steps = fitted.predict(SIZES)[1:] / fitted.predict(SIZES)[:-1]
    assert steps == pytest.approx([1.8, 1.8, 2 * 0.9**1.5, 2 * 0.9**2])


@pytest.mark.parametrize("known", [2, 3, 4])
def test_the_growth_is_learned_from_the_others(known: int) -> None:
    others = [
        made(loss, 0.6, f"b{i}") for i, loss in enumerate((-0.1, -0.05, 0.03, -0.02, 0.04, -0.08))
    ]
    target = made(-0.07, 0.6, "target")
    fitted = LearnedScaleModel(others).fit(target.cut(SIZES[:known]))
    assert fitted.growth_ == pytest.approx(0.6)
    assert fitted.predict(SIZES) == pytest.approx(target.performance)
    assert fitted.learned_from_ == (6, "given")
    lower, upper = fitted.interval(SIZES)
    assert lower == pytest.approx(upper)


def test_one_odd_benchmark_does_not_move_it_far() -> None:
    others = [
        made(loss, 0.6, f"b{i}") for i, loss in enumerate((-0.1, -0.05, 0.03, -0.02, 0.04, -0.08))
    ]
    fitted = LearnedScaleModel([*others, made(-0.1, 9.0, "odd")]).fit(
        made(-0.07, 0.6, "target").cut([8, 16])
    )
    assert fitted.growth_ == pytest.approx(0.6)


def test_the_interval_is_of_errors_that_each_benchmark_has_without_its_own_lesson() -> None:
    others = [made(loss, 0.6, f"b{i}") for i, loss in enumerate((-1e-3, -2e-3, 1e-3, -1e-3, 2e-3))]
    # it weighs more than all others, whose growth then misses it by far
    heavy = made(-0.2, 2.0, "heavy")
    fitted = LearnedScaleModel([*others, heavy]).fit(made(-1e-3, 0.6, "target").cut([8, 16]))
    assert fitted.growth_ == pytest.approx(2.0)
    lower, upper = fitted.interval(SIZES[-1:])
    assert np.log(upper / lower) == pytest.approx(2 * 0.2 * (2.0 - 0.6) * 3)


def test_neither_the_benchmark_itself_nor_its_other_scenarios_teach() -> None:
    others = [made(loss, 0.6, f"b{i}") for i, loss in enumerate((-0.1, -0.05, 0.03, -0.02, 0.04))]
    own = [made(-0.5, 5.0, "target"), made(-0.5, 5.0, "target", scenario="weak")]
    target = made(-0.07, 0.6, "target").cut([8, 16])
    assert (
        LearnedScaleModel([*own, *others]).fit(target).growth_
        == LearnedScaleModel(others).fit(target).growth_
    )


def test_no_value_beyond_the_known_sizes_is_used() -> None:
    # the published bfs is among the training; a curve of its name with the same small sizes predicts alike
    curves = published_curves()
    bfs = next(curve for curve in curves if curve.benchmark == "bfs" and curve.scenario == "strong")
    small = bfs.cut([8, 16])
    with_bfs = LearnedScaleModel(curves).fit(small)
    without = LearnedScaleModel([curve for curve in curves if curve.benchmark != "bfs"]).fit(small)
    assert with_bfs.predict(SIZES).tolist() == without.predict(SIZES).tolist()
    assert np.array_equal(with_bfs.interval(SIZES), without.interval(SIZES))


def test_published_benchmarks_stand_in_for_those_that_are_missing() -> None:
    target = made(-0.07, 0.6, "target").cut([8, 16])
    fitted = LearnedScaleModel().fit(target)
    assert fitted.growth_ == pytest.approx(0.76, abs=0.005)
    assert fitted.learned_from_ == (21, "published")
    assert fitted.notes[-2] == remark(
        "loss-grows", growth=fitted.growth_, benchmarks=21, source="published"
    )
    few = LearnedScaleModel([made(-0.1, 0.6, "one")]).fit(target)
    assert few.learned_from_ == (22, "joined")


def test_the_number_learned_is_the_same_without_any_one_benchmark() -> None:
    names = {curve.benchmark for curve in published_curves()}
    found = [LearnedScaleModel().fit(made(-0.07, 0.6, name).cut([8, 16])).growth_ for name in names]
    assert 0.74 < min(found) <= max(found) < 0.78


def test_the_first_growth_within_reach_is_read() -> None:
    sizes = 2.0 ** np.arange(7)
    curve = Curve("b", "strong", "SM", sizes, sizes**0.9)
    assert FirstDoubling.of(curve).start == 16
    assert FirstDoubling.of(curve).loss == pytest.approx(-0.1 * np.log(2))


def test_sizes_close_together_do_not_magnify_noise() -> None:
    curve = Curve("b", "strong", "CU", [76, 80, 152, 304], [7.6, 8.1, 15.2, 30.4])
    assert FirstDoubling.of(curve) == FirstDoubling(pytest.approx(0.0), 152)
    assert FirstDoubling.of(Curve("b", "strong", "CU", [76, 80], [7.6, 8.0])).start == 80
    assert FirstDoubling.of(
        Curve("b", "strong", "CU", [1, 2, 64], [1.0, 2.0, 64.0])
    ) == FirstDoubling(pytest.approx(0.0), 64)


@pytest.mark.long
def test_intervals_cover_new_benchmarks_of_the_same_kind() -> None:
    rng = np.random.default_rng(1)
    inside = []
    for trial in range(100):
        curves = [made(0.05 * rng.normal(), 0.7, f"b{i}", 0.03, 100 * trial + i) for i in range(20)]
        lower, upper = LearnedScaleModel(curves[1:]).fit(curves[0].cut([8, 16])).interval(SIZES[2:])
        inside.append((lower <= curves[0].performance[2:]) & (curves[0].performance[2:] <= upper))
    assert 0.86 <= np.mean(inside) <= 0.97


@pytest.mark.parametrize(
    ("performance", "expected"),
    [([100, 100], [100, 100]), ([100, 50], [25, 6.25]), ([100, 500], [2500, 62500])],
)
def test_a_curve_unlike_all_learned_from_follows_the_power_law(
    performance: list[float], expected: list[float]
) -> None:
    """A flat curve was said to fall to a fifth, one that grows five-fold to reach 300 times the proportional."""
    found = fc.scale(
        fit=[8, 16], sizes=[32, 128], performance=performance, law="scale model (learned)"
    )
    assert found.table["predicted"].tolist() == pytest.approx(expected)


def test_performance_that_grew_does_not_fall() -> None:
    sizes = [20, 32, 64, 128, 256, 512]
    for second in (110, 130, 160, 177, 199):
        found = fc.scale(
            fit=[8, 16], sizes=sizes, performance=[100, second], law="scale model (learned)"
        )
        assert found.table["predicted"].diff().min() >= -1e-9

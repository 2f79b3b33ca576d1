"""What holds for every law."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

from flopcast.errors import DataError
from flopcast.scaling.curves import Curve, published_curves
from flopcast.scaling.prediction import LAWS, every_law

GR = next(curve for curve in published_curves() if curve.benchmark == "gr").cut([8, 16, 32])
AT = np.array([16.0, 24.0, 32.0, 50.0, 64.0, 128.0, 512.0])
every = pytest.mark.parametrize("name", LAWS)


def test_the_names_are_stable() -> None:
    assert list(LAWS) == [
        "proportional",
        "linear",
        "power law",
        "logarithmic",
        "Amdahl",
        "Gustafson",
        "USL",
        "scale model (equations)",
        "scale model (program)",
        "scale model (learned)",
    ]
    assert [law.name for law in every_law()] == list(LAWS)
    assert all(law.training == [GR] for law in every_law([GR]))


@every
def test_fit_returns_the_law_and_predicts_a_positive_performance(name: str) -> None:
    law = LAWS[name]()
    assert law.fit(GR) is law
    predicted = law.predict(AT)
    assert predicted.shape == AT.shape
    assert np.all(predicted > 0)


@every
def test_the_interval_holds_the_prediction_and_grows_with_the_level(name: str) -> None:
    law = LAWS[name]().fit(GR)
    (low50, high50), (low90, high90) = law.interval(AT, 0.5), law.interval(AT, 0.9)
    # a radius of 0 at the sizes fitted, but for rounding
    predicted = law.predict(AT)
    assert np.all((low90 <= low50) & (low50 <= predicted * (1 + 1e-12)))
    assert np.all((predicted * (1 - 1e-12) <= high50) & (high50 <= high90))
    assert dict(law.notes[-1].items)["benchmarks"] == 20
    assert dict(law.notes[-1].items)["source"] == "published"


@every
def test_units_of_size_and_performance_do_not_matter(name: str) -> None:
    law = LAWS[name]().fit(GR)
    other = replace(
        GR, sizes=GR.sizes * 2.5, performance=GR.performance * 1e-3, mpki_sizes=GR.miss_sizes * 2.5
    )
    scaled = LAWS[name]().fit(other)
    assert scaled.predict(2.5 * AT) == pytest.approx(1e-3 * law.predict(AT))
    assert scaled.interval(2.5 * AT)[1] == pytest.approx(1e-3 * law.interval(AT)[1])


@every
def test_proportional_growth_is_continued_where_the_law_can(name: str) -> None:
    curve = Curve("b", "strong", "SM", [8, 16, 32], [1.0, 2.0, 4.0])
    expected = 128 / 8 if name != "logarithmic" else LAWS[name]().fit(curve).predict([128])[0]
    assert LAWS[name]().fit(curve).predict([128])[0] == pytest.approx(expected)


@every
def test_a_second_fit_forgets_the_first(name: str) -> None:
    law = LAWS[name]().fit(Curve("other", "weak", "SM", [8, 16, 32], [1.0, 1.7, 2.0]))
    law.interval(AT)
    again, fresh = law.fit(GR), LAWS[name]().fit(GR)
    assert again.predict(AT).tolist() == fresh.predict(AT).tolist()
    assert np.array_equal(again.interval(AT), fresh.interval(AT))
    assert again.notes == fresh.notes


@every
def test_curves_are_checked(name: str) -> None:
    with pytest.raises(DataError, match="performance"):
        LAWS[name]().fit(replace(GR, performance=-GR.performance))
    with pytest.raises(DataError, match="two sizes"):
        LAWS[name]().fit(GR.cut([8]))


@every
def test_levels_and_sizes_asked_for_are_checked(name: str) -> None:
    law = LAWS[name]().fit(GR)
    with pytest.raises(ValueError, match="got 90"):
        law.interval(AT, 90)
    with pytest.raises(DataError, match="sizes to predict"):
        law.predict([0])

"""The law of a time of serving: held against SciPy's, in order between tuned, either and stock."""

from __future__ import annotations

import numpy as np
import pytest
from scipy import stats

from flopcast.workloads.serving_law import ENDS, Law

NORMALS = np.array([-3.0, -1.645, -1.0, 0.0, 0.5, 1.645, 2.0, 3.0])


@pytest.mark.parametrize("spread", [0.05, 0.2, 0.4, 0.8])
@pytest.mark.parametrize("longer", [0.05, 0.3, 0.6, 1.5])
def test_a_stock_time_is_a_normal_and_an_exponential_part(spread: float, longer: float) -> None:
    law = Law.of(10.0, spread, longer)
    expected = stats.exponnorm(longer / spread, scale=spread)
    logs = expected.ppf(stats.norm.cdf(NORMALS))
    assert law.logs(NORMALS) - np.log(10.0) == pytest.approx(logs, abs=0.005)
    for log in logs:
        assert law.chance(10.0 * np.exp(log)) == pytest.approx(expected.cdf(log), abs=0.005)


def test_a_tuned_time_is_normal() -> None:
    law = Law.of(10.0, 0.3)
    assert law.logs(NORMALS) == pytest.approx(np.log(10.0) + 0.3 * NORMALS)
    assert law.chance(12.0) == pytest.approx(stats.norm.cdf(np.log(1.2) / 0.3))
    assert law.half_width == pytest.approx(0.3)


def test_a_stock_engine_is_above_one_that_is_either_and_that_above_a_tuned_one() -> None:
    spread, longer = np.meshgrid([1e-9, 0.05, 0.3, 2.0], [0.0, 1e-6, 0.1, 0.7, 4.0])
    tuned = Law.of(10.0, spread)
    either = Law.of(10.0, spread, longer, True)
    stock = Law.of(10.0, spread, longer)
    normals = np.linspace(-6.0, 6.0, 97)
    quantiles = np.array([law.logs(normals) for law in (tuned, either, stock)])
    assert (np.diff(quantiles, axis=0) >= -1e-12).all()
    assert (np.diff(quantiles, axis=-1) > 0.0).all()
    for limit in np.geomspace(1e-2, 1e5, 60):
        chances = np.array([law.chance(limit) for law in (tuned, either, stock)])
        assert (np.diff(chances, axis=0) <= 1e-12).all()


def test_either_reaches_from_the_lower_end_of_tuned_to_the_upper_end_of_stock() -> None:
    tuned, stock = (
        Law.of(10.0, 0.3, longer).logs([ENDS[0], 0.0, ENDS[1]]) for longer in (0.0, 0.6)
    )
    either = Law.of(10.0, 0.3, 0.6, True).logs([ENDS[0], 0.0, ENDS[1]])
    assert either == pytest.approx([tuned[0], (tuned[1] + stock[1]) / 2.0, stock[2]])


def test_a_factor_widens_the_tuned_part_alone() -> None:
    law = Law.of(np.array([10.0, 20.0]), 0.3, 0.6).times(np.log([2.0, 3.0]), np.array([0.4, 0.0]))
    assert law.middle == pytest.approx([20.0, 60.0])
    assert law.spread == pytest.approx([0.5, 0.3])
    assert law.longer == pytest.approx([0.6, 0.6])

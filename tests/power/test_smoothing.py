from __future__ import annotations

import numpy as np
import pytest

from flopcast.power.energy import PHASES, design, polynomial, spline


def test_the_first_coefficient_is_the_mean() -> None:
    fine = (np.arange(100_000) + 0.5) / 100_000
    assert design(fine).mean(axis=0) == pytest.approx([1, 0, 0, 0, 0], abs=1e-9)
    assert (design(fine)[:, 1] * design(fine)[:, 3]).mean() == pytest.approx(0, abs=1e-8)


def test_a_quartic_is_recovered() -> None:
    phase = np.random.default_rng(0).random(2000)
    expected = np.polyval([-300, 500, -250, 80, 400], PHASES)
    found = polynomial(phase, np.polyval([-300, 500, -250, 80, 400], phase))
    assert found == pytest.approx(expected, abs=0.05)


def test_many_readings_make_it_the_least_squares_polynomial() -> None:
    rng = np.random.default_rng(1)
    phase = rng.random(400)
    power = 500 + 100 * np.sin(5 * phase) + rng.normal(0, 10, 400)
    plain = np.polynomial.Polynomial.fit(phase, power, 4)(PHASES)
    assert np.abs(polynomial(phase, power) - plain).max() < 0.1


def test_readings_on_one_side_do_not_send_the_other_away() -> None:
    rng = np.random.default_rng(2)
    phase = 0.4 * rng.random(12)
    power = 500 + rng.normal(0, 10, 12)
    assert np.abs(np.polynomial.Polynomial.fit(phase, power, 4)(PHASES) - 500).max() > 500
    assert np.abs(polynomial(phase, power) - 500).max() < 100


def test_the_spline_follows_what_a_quartic_cannot() -> None:
    rng = np.random.default_rng(3)
    phase = rng.random(1000)
    power = 500 + 100 * np.sin(20 * phase) + rng.normal(0, 10, 1000)
    true = 500 + 100 * np.sin(20 * PHASES)
    errors = [np.sqrt(np.mean((curve(phase, power) - true) ** 2)) for curve in (spline, polynomial)]
    assert errors[0] < 5 < 50 < errors[1]


def test_the_spline_of_few_readings_is_their_mean() -> None:
    assert spline(np.array([0.1, 0.1, 0.5]), np.array([100.0, 200, 300])).tolist() == [200.0] * 100


def test_the_spline_keeps_its_value_beyond_the_readings() -> None:
    phase = np.linspace(0.3, 0.6, 30)
    found = spline(phase, 1000 * phase)
    assert found[0] == pytest.approx(300, abs=1)
    assert found[-1] == pytest.approx(600, abs=1)

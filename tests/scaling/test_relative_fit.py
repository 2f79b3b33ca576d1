from __future__ import annotations

import numpy as np
import pytest

from flopcast.scaling.curve import relative_fit

DESIGN = np.array([[1.0, 0.0], [1.0, 1.0], [1.0, 2.0], [1.0, 3.0]])


def test_free_fit_is_least_squares() -> None:
    found = relative_fit(DESIGN, np.array([1.0, 0.0, 2.0, 1.0]))
    # slope 1/5, intercept 7/10; residuals 0.3, -0.9, 0.9, -0.3
    assert found.coefficients == pytest.approx([0.7, 0.2])
    assert found.noise == pytest.approx(np.sqrt(1.8 / 2))
    assert found.freedom == 2
    assert found.spread(np.array([[1.0, 1.5]]), np.ones(1)) == pytest.approx(found.noise * np.sqrt(1.25))


def test_a_parameter_held_at_zero_is_certain_and_gives_back_its_degree_of_freedom() -> None:
    found = relative_fit(DESIGN, np.array([3.0, 2.0, 1.0, 0.5]), bounded=True)
    assert found.coefficients == pytest.approx([6.5 / 4, 0])
    assert found.freedom == 3
    assert found.covariance == pytest.approx(np.diag([0.25, 0.0]))


def test_a_fit_without_rows_to_spare_has_no_noise() -> None:
    found = relative_fit(DESIGN[:2], np.array([1.0, 2.0]))
    assert (found.freedom, np.isnan(found.noise)) == (0, True)

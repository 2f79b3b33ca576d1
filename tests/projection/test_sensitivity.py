from __future__ import annotations

import numpy as np
import pytest
from scipy.special import ndtri
from scipy.stats import qmc

from flopcast.errors import DataError
from flopcast.projection.uncertainty import first_order_shares


@pytest.fixture(scope="module")
def scores() -> np.ndarray:
    points = qmc.Sobol(3, bits=30, seed=np.random.default_rng(0)).random(4096)
    return ndtri(points + 2.0**-31)


def test_a_polynomial_has_the_shares_of_its_terms(scores: np.ndarray) -> None:
    x, y, _ = scores.T
    found = first_order_shares(scores, 100 + 3 * x + (y**3 - 3 * y) / np.sqrt(6))
    assert found == pytest.approx([0.9, 0.1, 0], abs=0.01)


def test_what_only_acts_together_is_nobodys(scores: np.ndarray) -> None:
    x, y, _ = scores.T
    assert first_order_shares(scores, 100 + x * y) == pytest.approx([0, 0, 0], abs=0.01)


def test_a_maximum_is_explained_by_what_it_depends_on(scores: np.ndarray) -> None:
    """E[max(x, y) | x] = x cdf(x) + pdf(x); its variance, integrated with scipy's quad, over 1 - 1/pi is 0.426."""
    x, y, _ = scores.T
    assert first_order_shares(scores, 10 + np.maximum(x, y)) == pytest.approx([0.426, 0.426, 0], abs=0.01)


def test_few_rows_lower_the_degree(scores: np.ndarray) -> None:
    x = scores[:16, 0]
    assert first_order_shares(scores[:16], 5 + x)[0] == pytest.approx(1, abs=1e-9)
    with pytest.raises(DataError, match="15 samples are too few for 3 factors: take at least 16"):
        first_order_shares(scores[:15], x[:15])


def test_a_constant_has_no_shares(scores: np.ndarray) -> None:
    assert not first_order_shares(scores, np.full(4096, 123.456)).any()
    assert first_order_shares(scores[:, :0], scores[:, 0]).shape == (0,)

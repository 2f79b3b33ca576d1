"""The criteria of a selection: their formulas, and where they have no value."""

from __future__ import annotations

from math import inf, log

import numpy as np
import pytest

from flopcast.models.linear.stepwise import CRITERIA, Criterion, distinct_rows


def test_aic_and_bic_by_hand() -> None:
    assert Criterion.named("aic", 50)(100.0, 4) == pytest.approx(50 * log(2.0) + 8)
    assert Criterion.named("bic", 50)(100.0, 4) == pytest.approx(50 * log(2.0) + 4 * log(50))


def test_aicc_is_that_of_hurvich_and_tsai_less_what_all_models_share() -> None:
    n, edf, rss = 30, 5, 12.0
    published = n * log(rss / n) + n * (1 + edf / n) / (1 - (edf + 2) / n)  # equation 4, m = edf
    assert Criterion.named("aicc", n)(rss, edf) == pytest.approx(published - n - 2)


def test_aicc_tends_to_aic_and_is_above_it() -> None:
    many, few = (Criterion.named("aicc", n)(1.0, 6) - Criterion.named("aic", n)(1.0, 6) for n in (10**6, 20))
    assert 0 < many < 1e-3
    assert few > 5


@pytest.mark.parametrize(("name", "largest"), [("aic", 14), ("bic", 14), ("aicc", 12)])
def test_no_value_without_residual_degrees_of_freedom(name: str, largest: int) -> None:
    criterion = Criterion.named(name, 15)
    assert criterion.largest == largest
    assert np.isfinite(criterion(1.0, largest))
    assert criterion(1.0, largest + 1) == inf
    assert criterion(0.0, 1) == -inf


@pytest.mark.parametrize("name", CRITERIA)
def test_many_models_at_once(name: str) -> None:
    criterion = Criterion.named(name, 12)
    rss, edf = np.linspace(0.0, 3.0, 14), np.arange(1, 15)
    assert criterion.each(rss, edf).tolist() == pytest.approx([criterion(r, e) for r, e in zip(rss, edf, strict=True)])


def test_rows_that_are_copies_count_once() -> None:
    X = np.array([[1.0, 2.0], [1.0, 2.0], [1.0, 3.0], [0.0, 3.0], [-0.0, 3.0]])
    assert distinct_rows(X, np.array([5.0, 5.0, 5.0, 5.0, 5.0])) == 3
    assert distinct_rows(X, np.array([5.0, 6.0, 5.0, 5.0, 7.0])) == 5

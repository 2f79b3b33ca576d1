"""Gaussian processes of kernels: they repeat a law, widen away from the shapes, and their errors are of left-out ones."""

from __future__ import annotations

import numpy as np
import pytest

from flopcast.models.kernel_process import fit_process, out_of_fold

RNG = np.random.default_rng(0)
SIZES = RNG.uniform(0.0, 6.0, (60, 3))
LAW = 1.0 + SIZES @ np.array([0.5, -0.2, 0.1])


def test_a_linear_law_is_repeated_and_continued() -> None:
    process = fit_process(SIZES, LAW + 0.01 * RNG.standard_normal(60))
    new = RNG.uniform(0.0, 9.0, (20, 3))
    mean, _ = process.predict(new)
    assert mean == pytest.approx(1.0 + new @ np.array([0.5, -0.2, 0.1]), abs=0.1)


def test_the_deviation_grows_away_from_the_measured_shapes() -> None:
    process = fit_process(SIZES, LAW + 0.2 * np.sin(2 * SIZES[:, 0]))
    _, near = process.predict(SIZES[:5])
    _, far = process.predict(SIZES[:5] + 8.0)
    assert (far > 2 * near).all()


def test_errors_are_of_shapes_that_were_left_out() -> None:
    noise = 0.05 * RNG.standard_normal(60)
    groups = np.repeat(np.arange(20), 3)
    errors, over = out_of_fold(SIZES, LAW + noise, groups)
    assert 0.03 < errors.std() < 0.1
    assert 0.5 < over.std() < 2.0
    left_out = np.isin(groups, np.random.default_rng(1).permutation(20)[0::10])
    assert left_out.sum() == 6
    other = LAW + noise + 5.0 * left_out
    moved, _ = out_of_fold(SIZES, other, groups)
    # they taught nothing of themselves
    assert moved[left_out] == pytest.approx(errors[left_out] - 5.0)

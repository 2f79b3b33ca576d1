"""Constants from runs: known ones are found again, and their spread says how well."""

from __future__ import annotations

import numpy as np
import pytest

from flopcast.errors import DataError
from flopcast.workloads.releases import (
    CONSTANTS,
    RESIDUAL,
    calibrate,
    factors,
    find_release,
    shipped_releases,
    unknown_release,
)

ABOUT = {"name": "made up", "gpu": "MI300X", "models": ("a", "a", "b"), "source": "synthetic"}


def _runs(
    count: int, truth: np.ndarray, seed: int, noise: float = RESIDUAL
) -> tuple[np.ndarray, np.ndarray]:
    rng = np.random.default_rng(seed)
    parts = rng.lognormal(0, 1.5, (count, len(CONSTANTS)))
    return parts, parts @ np.exp(truth) * np.exp(rng.normal(0, noise, count))


def test_known_constants_are_found_again() -> None:
    truth = np.array([spread.spread for spread in CONSTANTS.values()])
    found = calibrate(*_runs(2000, truth, 0, noise=0.005), **ABOUT)
    assert found.mean == pytest.approx(truth, abs=0.01)
    assert found.models == ("a", "b")


def test_the_spread_covers_the_truth() -> None:
    rng, prior = np.random.default_rng(1), unknown_release()
    inside = []
    for seed in range(40):
        truth = prior.root @ rng.standard_normal(len(CONSTANTS))
        found = calibrate(*_runs(20, truth, seed), **ABOUT)
        inside.append(np.linalg.norm(np.linalg.solve(found.root, found.mean - truth)) ** 2)
    # chi-squared with as many degrees of freedom
    assert np.mean(inside) == pytest.approx(len(CONSTANTS), rel=0.3)


def test_two_runs_sharpen_another_release() -> None:
    start = find_release("vllm-0.10.0")
    truth = start.mean + 0.2 * np.eye(len(CONSTANTS))[0]
    parts, seconds = _runs(2, truth, 3, noise=0.001)
    sharper = calibrate(parts, seconds, **ABOUT, prior=start)
    before, after = (
        np.abs(np.log(parts @ np.exp(mean) / seconds)).mean() for mean in (start.mean, sharper.mean)
    )
    assert after < before
    assert np.trace(sharper.root @ sharper.root.T) < np.trace(start.root @ start.root.T)


@pytest.mark.parametrize("seconds", [[], [0.0], [float("nan")]])
def test_runs_without_times_are_refused(seconds: list[float]) -> None:
    with pytest.raises(DataError):
        calibrate(np.ones((len(seconds), len(CONSTANTS))), np.array(seconds), **ABOUT)


def test_draws_have_the_moments_of_their_release() -> None:
    for release in shipped_releases().values():
        logs = np.log(factors(release, 512, 0))
        assert logs.mean(axis=0) == pytest.approx(release.mean, abs=0.01)
        assert np.cov(logs.T) == pytest.approx(release.root @ release.root.T, abs=0.01)

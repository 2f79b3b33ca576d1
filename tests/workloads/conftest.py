"""Fixtures of the tests of workloads."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

from flopcast.workloads.serving_model import ServingModel, shipped


@pytest.fixture(scope="module")
def small() -> ServingModel:
    """The law of the model that ships, with 150 of its runs, which move it little and are trusted everywhere."""
    whole = shipped()
    keep = np.arange(0, len(whole.runs), len(whole.runs) // 150)
    fits = {
        name: replace(fit, weights=fit.weights[keep] / 100, trust={})
        for name, fit in whole.fits.items()
    }
    return ServingModel(whole.runs.iloc[keep].reset_index(drop=True), fits, whole.about)

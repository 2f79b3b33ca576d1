"""Runs that several tests look at."""

from __future__ import annotations

import pytest

import flopcast as fc

GEMMS = {"m": (None, 64)}


@pytest.fixture(scope="session")
def ols() -> fc.Run:
    return fc.train(where=GEMMS, models="OLS", jobs=1)


@pytest.fixture(scope="session")
def additive() -> fc.Run:
    return fc.train(where=GEMMS, models=["Additive"], jobs=1)

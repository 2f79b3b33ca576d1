"""Runs that several tests look at."""

from __future__ import annotations

import pytest

import flopcast as fc
from flopcast.report import html
from flopcast.tests.commands.running import PLACED, without_figures

GEMMS = {"m": (None, 64)}


@pytest.fixture(autouse=True)
def plain(monkeypatch: pytest.MonkeyPatch) -> None:
    """Leave figures out of pages."""
    without_figures(monkeypatch)


@pytest.fixture
def drawn(plain: None, monkeypatch: pytest.MonkeyPatch) -> None:
    """Draw the figures of pages."""
    monkeypatch.setattr(html, "_placed", PLACED)


@pytest.fixture(scope="session")
def ols() -> fc.Run:
    return fc.train(where=GEMMS, models="OLS", jobs=1)


@pytest.fixture(scope="session")
def additive() -> fc.Run:
    return fc.train(where=GEMMS, models=["Additive"], jobs=1)

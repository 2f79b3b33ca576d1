from __future__ import annotations

import pytest

from flopcast.report.console import WIDTH, output, shortened


def test_what_is_not_a_terminal_is_wide_enough_for_every_table(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("COLUMNS", "40")
    assert output().width == WIDTH
    monkeypatch.setenv("COLUMNS", "200")
    assert output().width == 200


def test_a_terminal_keeps_its_width(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("COLUMNS", "90")
    monkeypatch.setenv("FORCE_COLOR", "1")
    assert output().width == 90


def test_a_name_that_is_too_long_says_so() -> None:
    assert shortened("x" * 70, 60) == "x" * 59 + "…"
    assert shortened("x" * 60, 60) == "x" * 60

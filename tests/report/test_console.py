from __future__ import annotations

import io

import pytest
from rich.console import Console

from flopcast.report.console import WIDTH, output, plain_table, shortened


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


def test_a_table_has_its_words_on_the_left_and_prints_brackets_as_they_are() -> None:
    text = io.StringIO()
    table = plain_table("[b]a", ["x [/]"], ["n"], caption="[i] of two")
    table.add_row("word", "1")
    table.add_row("w", "100")
    Console(file=text, width=40).print(table)
    lines = [line.rstrip() for line in text.getvalue().splitlines() if line.strip()]
    assert [line.strip() for line in (lines[0], lines[-1])] == ["[b]a", "[i] of two"]
    assert lines[1] == " x [/]    n"
    assert lines[3:5] == [" word     1", " w      100"]

from __future__ import annotations

import io
from pathlib import Path

import pytest
from rich.console import Console

from flopcast.report.console import WIDTH, counted, output, plain_table, say_written, shortened, show_losses


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


def test_what_was_written_is_one_line_whatever_the_width() -> None:
    text, parts = io.StringIO(), [Path("folder-of-a-run") / name for name in ("a[b].json", "b.html", "c.parquet")]
    console = Console(file=text, width=20)
    say_written(console, *parts)
    say_written(console, parts[0], rows=2000)
    say_written(console, *parts[:2], rows=1)
    assert text.getvalue().splitlines() == [
        "Wrote folder-of-a-run/a[b].json, folder-of-a-run/b.html and folder-of-a-run/c.parquet",
        "Wrote folder-of-a-run/a[b].json (2,000 rows)",
        "Wrote folder-of-a-run/a[b].json and folder-of-a-run/b.html (1 row)",
    ]


def test_one_is_counted_in_the_singular() -> None:
    assert [counted(number, "row") for number in (0, 1, 2000)] == ["0 rows", "1 row", "2,000 rows"]
    assert [counted(number, "activity", "activities") for number in (1, 2)] == ["1 activity", "2 activities"]


def test_what_was_lost_is_told_the_most_frequent_first() -> None:
    text = io.StringIO()
    rejected = {"zero": 1, "no device": 1200, "[b]": 1}
    show_losses(Console(file=text, width=80), rejected, ["fp8 is [e4m3]"], ["a.json: no JSON"])
    assert text.getvalue().splitlines() == [
        "1,200 rows rejected: no device",
        "1 row rejected: [b]",
        "1 row rejected: zero",
        "note: fp8 is [e4m3]",
        "unreadable: a.json: no JSON",
    ]

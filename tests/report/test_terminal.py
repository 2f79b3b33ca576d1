from __future__ import annotations

import io
from pathlib import Path
from typing import cast

import pytest
from rich.console import Console

from flopcast.report.document import (
    Cell,
    Column,
    Document,
    Fact,
    Facts,
    Figure,
    Headline,
    Line,
    Lines,
    Part,
    Row,
    Section,
    Table,
    columns,
    lines,
    losses,
    rows,
)
from flopcast.report.terminal import (
    SCREEN,
    WIDTH,
    first_screen,
    output,
    print_document,
    say_written,
    show,
)


def test_what_is_not_a_terminal_is_wide_enough_for_every_table(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setenv("COLUMNS", "40")
    assert output().width == WIDTH
    monkeypatch.setenv("COLUMNS", "200")
    assert output().width == 200


def test_a_terminal_keeps_its_width(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("COLUMNS", "90")
    monkeypatch.setenv("FORCE_COLOR", "1")
    assert output().width == 90


def printed(*parts: Part, width: int = 80, title: str = "", lead: str = "") -> list[str]:
    """Return the lines of a document of parts."""
    text = io.StringIO()
    document = Document(title, lead, parts[:1], [Section("unseen", parts[1:])])
    print_document(Console(file=text, width=width), document)
    return [line.rstrip() for line in text.getvalue().splitlines()]


def test_a_table_has_its_words_on_the_left_and_prints_brackets_as_they_are() -> None:
    table = Table(
        columns("x [/]", numbers=["n"]),
        rows([("word", "1"), ("w", "100")]),
        "[b]a",
        caption="[i] of two",
    )
    found = [line for line in printed(table, width=40) if line]
    assert [line.strip() for line in (found[0], found[-1])] == ["[b]a", "[i] of two"]
    assert found[1] == " x [/]    n"
    assert found[3:5] == [" word     1", " w      100"]


def test_a_table_says_how_many_of_its_rows_are_shown() -> None:
    every = rows([("a", "1"), ("b", "2"), ("c", "3")])
    assert "worst (2 of 3)" in printed(Table(columns("x", numbers=["n"]), every, "worst", shown=2))
    found = printed(
        Table(columns("x", numbers=["n"]), every, "worst", shown=2, rest=Row(("1 more", "3")))
    )
    assert "worst" in found
    assert found[-2] == " 1 more  3"
    assert printed(Table(columns("x"), ())) == []


def test_a_table_comes_closer_where_it_is_too_wide_and_folds_its_heads_last() -> None:
    table = Table(
        [Column("name", "name"), Column("a long head", "number")], rows([("x" * 10, "1")])
    )
    assert " name        a long head" in printed(table, width=26)
    assert " name       a long head" in printed(table, width=25)
    assert [line.split() for line in printed(table, width=22)[1:3]] == [
        ["a", "long"],
        ["name", "head"],
    ]


def test_columns_without_room_are_named_once_each() -> None:
    heads = ["run", "first", "error of known groups", "error of known groups"]
    table = Table(columns(numbers=heads), rows([("1" * 12,) * 4]))
    (said,) = [line for line in printed(table, width=30) if line.startswith("too narrow")]
    assert said == "too narrow a terminal for: error of known groups"[: len(said)]


def test_a_table_is_whole_rather_than_cut_by_its_last_rows() -> None:
    console = Console(file=io.StringIO(), width=60)
    for count, whole in ((15, True), (18, True), (19, False)):
        table = Table(columns("x"), rows([(f"row {n}",) for n in range(count)]), "long")
        (shown,) = first_screen(Document("title", "", [table]), console).opening
        assert isinstance(shown, Table)
        assert (shown.shown in (None, count)) is whole


def test_a_row_with_fewer_cells_is_a_sentence_beneath_the_table() -> None:
    failed = Row(("GaussianProcess", Cell("failed: singular", "error")))
    found = printed(
        Table(columns("model", numbers=["E_out", "E_in"]), (*rows([("OLS", "1", "2")]), failed))
    )
    assert found[-1] == "   GaussianProcess failed: singular"


def test_titles_facts_headlines_and_lines_are_printed_in_order_without_headings() -> None:
    parts = (
        Facts([Fact("12,000", "rows [b]"), Fact("3", "groups")]),
        Headline("unseen groups", "flopcast: 9.4 %", "FLOPS scaling: 31.7 %", "OLS"),
        lines(["the answer"], "answer"),
        lines(["a sentence"]),
    )
    assert printed(*parts, title="A → B", lead="time") == [
        "A → B",
        "time",
        " 12,000  rows [b]",
        "      3  groups",
        "unseen groups — FLOPS scaling: 31.7 % → flopcast: 9.4 %",
        "  OLS",
        "• the answer",
        "a sentence",
    ]


def test_what_is_for_pages_is_left_out() -> None:
    assert printed(Lines((Line("x"),), medium="page"), Figure(lambda: None, "f")) == []


def test_a_first_screen_has_the_answer_whole_then_what_fits_and_counts_the_rest() -> None:
    answer, long = (
        Lines([Line(f"answer {number}") for number in range(4)]),
        rows([(f"row {n}",) for n in range(40)]),
    )
    said = Lines([Line("lost " * 40, "warning"), *(Line(f"note {n}", "soft") for n in range(5))])
    table, second = Table(columns("x"), long, "long"), Table(columns("y"), long, "second")
    document = Document("title", "", [said, answer], [Section("", [table, second])])
    console = Console(file=io.StringIO(), width=60)
    print_document(console, first_screen(document, console))
    found = cast("io.StringIO", console.file).getvalue().splitlines()
    assert len(found) <= SCREEN
    assert found[:5] == ["title", *(line.text for line in answer.lines)]
    assert "long (5 of 40)" in found
    assert " ".join(found[-7:-3]).split() == ["lost"] * 40
    assert found[-3:] == ["note 0", "note 1", "More with --all: 1 table, 35 rows, 3 remarks"]
    whole = Document("title", "", [answer])
    assert first_screen(whole, console).opening == [answer]


def test_remarks_of_a_first_screen_are_whole_and_as_many_as_have_room() -> None:
    long = [f"note {n}: " + "a word " * 15 + f"a factor of {n}.25" for n in range(4)]
    document = Document("title", "", [Lines([Line(text, "soft") for text in long])])
    console = Console(file=io.StringIO(), width=80)
    print_document(console, first_screen(document, console))
    found = " ".join(cast("io.StringIO", console.file).getvalue().split())
    assert [n for n in range(4) if f"factor of {n}.25" in found] == [0, 1, 2]
    narrow = Console(file=io.StringIO(), width=40)
    print_document(narrow, first_screen(document, narrow))
    found = " ".join(cast("io.StringIO", narrow.file).getvalue().split())
    assert [n for n in range(4) if f"factor of {n}.25" in found] == [0, 1]
    assert found.endswith("More with --all: 2 remarks")


def test_what_was_written_is_one_line_whatever_the_width() -> None:
    text, parts = (
        io.StringIO(),
        [Path("folder-of-a-run") / name for name in ("a[b].json", "b.html", "c.parquet")],
    )
    console = Console(file=text, width=20)
    say_written(console, *parts)
    say_written(console, parts[0], rows=2000)
    say_written(console, *parts[:2], rows=1)
    assert text.getvalue().splitlines() == [
        "Wrote folder-of-a-run: a[b].json, b.html and c.parquet",
        "Wrote folder-of-a-run/a[b].json (2,000 rows)",
        "Wrote folder-of-a-run/a[b].json and folder-of-a-run/b.html (1 row)",
    ]


@pytest.mark.parametrize("every", [False, True])
def test_what_writes_files_is_offered_where_none_was_written(
    capsys: pytest.CaptureFixture[str], every: bool
) -> None:
    document = Document(
        "title", closing=[lines(["Next: measure more."])], offer="--out FOLDER writes the page"
    )
    show(document, every=every)
    assert capsys.readouterr().out.splitlines()[1:] == [
        "Next: measure more.",
        "Nothing was written: --out FOLDER writes the page.",
    ]
    show(document, Path("a.html"), every=every)
    assert capsys.readouterr().out.splitlines()[1:] == ["Next: measure more.", "Wrote a.html"]


def test_what_was_lost_is_told_the_most_frequent_first() -> None:
    rejected = {"zero": 1, "no-device": 1200, "[b]": 1}
    first = {"no-device": "a[1].csv:7"}
    assert printed(losses(rejected, ["fp8 is [e4m3]"], ["a.json: no JSON"], first=first)) == [
        "1,200 rows rejected: [no-device] no device (first: a[1].csv:7)",
        "1 row rejected: [b]",
        "1 row rejected: zero",
        "note: fp8 is [e4m3]",
        "unreadable: a.json: no JSON",
    ]


@pytest.mark.parametrize("width", range(20, 60, 3))
def test_no_line_ends_between_a_figure_and_its_unit(width: int) -> None:
    said = "It errs by 30.2 % and takes 9.224 µs, or 12.9 ms beside 1,517 kernels of 99 % load. "
    shown_on = io.StringIO()
    console = Console(width=width, file=shown_on)
    print_document(console, Document(opening=[lines([said * 3])]))
    shown = shown_on.getvalue().splitlines()
    assert [line for line in shown if line.split()[0] in ("%", "µs,", "ms")] == []
    assert " ".join(shown).split() == (said * 3).split()

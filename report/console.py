"""What the commands share on the terminal: its width, the plain table, remarks, rows lost, files written."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path

from rich.box import SIMPLE_HEAD
from rich.console import Console
from rich.table import Table
from rich.text import Text

WIDTH = 120
"""Columns that the widest table needs; what is not a terminal (a file, a pipe) gets at least so many."""


def output() -> Console:
    """Return the console for results: the terminal as wide as it is, anything else wide enough for every table."""
    console = Console()
    return console if console.is_terminal or console.width >= WIDTH else Console(width=WIDTH)


def plain_table(
    title: str, words: Sequence[str] = (), numbers: Sequence[str] = (), *, caption: str | None = None
) -> Table:
    """Return an empty table: columns of words, which fold, then columns of numbers, which never do."""
    table = Table(title=Text(title), title_justify="left", title_style="bold", box=SIMPLE_HEAD, pad_edge=False)
    table.padding = (0, 1, 0, 0)
    if caption is not None:
        table.caption, table.caption_justify = Text(caption), "left"
    for header in words:
        table.add_column(Text(header), overflow="fold")
    for header in numbers:
        table.add_column(Text(header), justify="right", no_wrap=True)
    return table


def shortened(name: str, width: int) -> str:
    """Return a name cut to a number of characters, the last of which says so."""
    return name if len(name) <= width else name[: width - 1] + "…"


def counted(number: int, noun: str, plural: str | None = None) -> str:
    """Return a number and its noun: ``1 row``, ``2,000 rows``."""
    return f"{number:,} {noun if number == 1 else plural or noun + 's'}"


def note(words: str) -> Text:
    """Return a remark as every command prints it."""
    return Text(f"note: {words}", "dim")


def rejections(rejected: Mapping[str, int]) -> list[Text]:
    """Return how many rows were kept out for each reason, the most frequent first."""
    ordered = sorted(rejected.items(), key=lambda item: (-item[1], item[0]))
    return [Text(f"{counted(count, 'row')} rejected: {reason}", "yellow") for reason, count in ordered]


def show_losses(
    console: Console, rejected: Mapping[str, int], notes: Iterable[str], unreadable: Iterable[str] = ()
) -> None:
    """Print what reading kept out, remarks, and the files that could not be read."""
    for line in (*rejections(rejected), *map(note, notes)):
        console.print(line)
    for error in unreadable:
        console.print(Text(f"unreadable: {error}", "red"))


def say_written(console: Console, *paths: Path, rows: int | None = None) -> None:
    """Print ``Wrote A and B (N rows)``, in one line however long: a path that is cut cannot be copied."""
    *first, last = map(str, paths)
    names = " and ".join(filter(None, (", ".join(first), last)))
    held = "" if rows is None else f" ({counted(rows, 'row')})"
    console.print(f"Wrote {names}{held}", markup=False, highlight=False, soft_wrap=True)

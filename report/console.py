"""Where tables are printed."""

from __future__ import annotations

from rich.console import Console

WIDTH = 120
"""Columns that the widest table needs; what is not a terminal (a file, a pipe) gets at least so many."""


def output() -> Console:
    """Return the console for results: the terminal as wide as it is, anything else wide enough for every table."""
    console = Console()
    return console if console.is_terminal or console.width >= WIDTH else Console(width=WIDTH)

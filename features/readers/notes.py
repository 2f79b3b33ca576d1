"""Remarks on what was read, equal ones of several files told once."""

from __future__ import annotations

from collections.abc import Sequence

from ...errors import few
from ..dispatches.overview import Overview
from .base import Note

_NAMED = 3  # files named in a remark


class Notes:
    """Remarks, equal ones of several files counted together.

    Attributes
    ----------
    skipped : list of str
        Labels of files of no known format.
    unreadable : list of str
        Why files could not be read, file first.
    traces : list of Overview
        What each trace holds.
    """

    def __init__(self) -> None:
        self.skipped: list[str] = []
        self.unreadable: list[str] = []
        self.traces: list[Overview] = []
        self._rows: dict[str, int] = {}
        self._files: dict[str, list[str]] = {}

    def add(self, text: str, rows: int, file: str = "") -> None:
        """Remark on some rows (of a file); the rows and files of equal remarks are counted together."""
        self._rows[text] = self._rows.get(text, 0) + rows
        files = self._files.setdefault(text, [])
        if file and file not in files:
            files.append(file)

    def add_all(self, notes: Sequence[Note], file: str) -> None:
        """Take over the remarks of one file's reader."""
        for note in notes:
            self.add(note.text, note.rows, file)

    def lines(self) -> tuple[str, ...]:
        """Return every remark in words, with its rows and files."""
        remarks = [
            f"{text} ({_count(rows, 'row')}{_named(self._files[text], ' in ')})" for text, rows in self._rows.items()
        ]
        if self.skipped:
            remarks.append(
                f"{_count(len(self.skipped), 'file')} of no supported format skipped{_named(self.skipped, ': ')}"
            )
        return tuple(remarks)


def _count(number: int, noun: str) -> str:
    return f"{number} {noun}" + ("" if number == 1 else "s")


def _named(files: Sequence[str], lead: str) -> str:
    """Return the first few names after `lead`, and how many more; nothing for no files."""
    return lead + few(files, _NAMED) if files else ""

"""Parts of pages: lists and tables of plain words."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from html import escape


def listed(lines: Iterable[str]) -> str:
    """Return a list with one entry per line."""
    return f"<ul>{''.join(f'<li>{escape(line)}</li>' for line in lines)}</ul>"


def table(heads: Sequence[str], rows: Sequence[Sequence[str]]) -> str:
    """Return a table that scrolls sideways by itself; columns of words are set to the left."""
    words = [all(not row[i] or row[i][0].isidentifier() for row in rows) for i in range(len(heads))]
    head = "".join(f'<th scope="col"{_left(left)}>{escape(one)}</th>' for one, left in zip(heads, words, strict=True))
    lines = "".join(
        f"<tr>{''.join(f'<td{_left(left)}>{escape(one)}</td>' for one, left in zip(row, words, strict=True))}</tr>"
        for row in rows
    )
    return f'<div class="scroll"><table><thead><tr>{head}</tr></thead><tbody>{lines}</tbody></table></div>'


def _left(left: bool) -> str:
    return ' class="text"' if left else ""

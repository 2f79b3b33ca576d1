"""Parts of pages: lists and tables of plain words."""

from __future__ import annotations

from collections.abc import Container, Iterable, Sequence
from html import escape


def listed(lines: Iterable[str]) -> str:
    """Return a list with one entry per line."""
    return f"<ul>{''.join(f'<li>{escape(line)}</li>' for line in lines)}</ul>"


def table(
    heads: Sequence[str],
    rows: Sequence[Sequence[str]],
    *,
    titles: Container[int] = (),
    prose: Container[str] = (),
) -> str:
    """Return a table that scrolls sideways by itself; columns of words are set to the left.

    Parameters
    ----------
    heads : sequence of str
    rows : sequence of sequence of str
    titles : container of int
        Places of the rows that head those below them.
    prose : container of str
        Heads of columns that are words, whatever their cells begin with.
    """
    words = [
        head in prose or all(not row[i] or row[i][0].isidentifier() for row in rows) for i, head in enumerate(heads)
    ]
    sides = [' class="text"' if left else "" for left in words]
    head = "".join(f'<th scope="col"{side}>{escape(one)}</th>' for one, side in zip(heads, sides, strict=True))
    lines = []
    for place, row in enumerate(rows):
        cells = "".join(f"<td{side}>{escape(one)}</td>" for one, side in zip(row, sides, strict=True))
        lines.append(f'<tr class="title">{cells}</tr>' if place in titles else f"<tr>{cells}</tr>")
    return f'<div class="scroll"><table><thead><tr>{head}</tr></thead><tbody>{"".join(lines)}</tbody></table></div>'

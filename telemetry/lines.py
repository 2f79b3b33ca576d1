"""Lines of a log as text: their cells, and a last one that a logger stopped by Ctrl-C has not finished."""

from __future__ import annotations

import re
from collections.abc import Callable
from typing import Final

_MONITOR = re.compile(r"N/A|\d+(?:\.\d+)?(?:/\d+(?:\.\d+)?)?(?:\s?(?:W|°C|%|MHz|GHz|MB|GB|KB|Mb/s|MB/s)(?!\S))?|\S+")
_LOOKED_AT: Final = 100
"""Lines before the last that say how long its last cell should be."""


def csv_cells(line: str) -> list[str]:
    """Return the cells of a line; commas within brackets, braces and quotes do not part them."""
    cells, depth, quoted, start = [], 0, False, 0
    for place, letter in enumerate(line):
        if letter == '"':
            quoted = not quoted
        elif not quoted and letter in "[{":
            depth += 1
        elif not quoted and letter in "]}":
            depth -= 1
        elif letter == "," and not quoted and depth <= 0:
            cells.append(line[start:place])
            start = place + 1
    return [cell.strip().strip('"') for cell in (*cells, line[start:])]


def monitor_cells(line: str) -> list[str]:
    """Return the values of `amd-smi monitor`, whose columns are parted by blanks, as are numbers and units."""
    return _MONITOR.findall(line)


def whole_lines(content: str, cells: Callable[[str], list[str]] = csv_cells) -> tuple[list[str], int]:
    """Return the lines of a log, the header first, without a last one that is cut off; and how many that is, 0 or 1.

    The last line is cut off if no line break ends it and it has fewer cells than the one above, or its last cell is
    shorter than those above: ``31`` under ``310.5`` may be any number.
    """
    lines = content.splitlines()
    if content.endswith(("\n", "\r")) or len(lines) < 3:
        return lines, 0
    above = [row for row in map(cells, lines[1:-1][-_LOOKED_AT:]) if row]
    last = cells(lines[-1])
    shortest = min((len(row[-1]) for row in above), default=0)
    cut = bool(above) and (len(last) < len(above[-1]) or len(last[-1]) < shortest)
    return (lines[:-1], 1) if cut else (lines, 0)

"""Small pictures of the first rows of a table, as SVG, for the gallery's cards and the guides."""

from __future__ import annotations

from typing import Any
from xml.sax.saxutils import escape

import pandas as pd

from flopcast.report.formats import shortened
from flopcast.report.static_figures import GRID, WIDTH, opening

ROWS, COLUMNS, CELL = 6, 4, 12
"""Rows and columns of a table that are drawn, and characters of a cell."""


def table_picture(table: pd.DataFrame, title: str) -> str:
    """Return the first rows and columns of a table as SVG."""
    filled = table.reset_index(drop=True).dropna(axis=1, how="all")
    shown = filled.loc[:, filled.ne("").any()].iloc[:ROWS, :COLUMNS]
    parts = list(opening(title))
    wide = (WIDTH - 32) / max(len(shown.columns), 1)
    for column, name in enumerate(shown.columns):
        x = 16 + wide * column
        parts.append(
            f'<text x="{x:.0f}" y="40" font-size="19" font-weight="600">{_cell(name)}</text>'
        )
        for row, value in enumerate(shown[name], 1):
            parts.append(
                f'<text x="{x:.0f}" y="{40 + 44 * row}" font-size="19">{_cell(value)}</text>'
            )
    for row in range(len(shown) + 1):
        parts.append(
            f'<path d="M16 {55 + 44 * row}H{WIDTH - 16}" stroke="{GRID}" stroke-opacity="0.35"/>'
        )
    return "\n".join([*parts, "</svg>", ""])


def _cell(value: Any) -> str:
    """Return the text of a cell."""
    if isinstance(value, float):
        text = f"{value:,.4g}"
    else:
        text = str(value)
    return escape(shortened(text, CELL))

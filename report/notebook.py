"""Tables as notebooks show them: each in a frame of its own, to scroll, search and sort, 20 kB beside its rows."""

from __future__ import annotations

from collections.abc import Sequence
from html import escape
from typing import Final

import numpy as np
import pandas as pd
from pandas.api.types import is_bool_dtype, is_numeric_dtype

from .document import Column, Document, Line, Lines, Listing, Section
from .formats import NONE, shortened, significant
from .html import page

MOST: Final = 1000
"""Rows that a frame holds."""
_WIDTH: Final = 40
"""Characters of a text."""
_HEIGHT: Final = (110, 31, 460)
"""Pixels of a frame: beside its rows, of a row, at most."""


def framed(title: str, table: pd.DataFrame, said: Sequence[str] = ()) -> str:
    """Return a table under a title, and sentences below it, as HTML for the output of a notebook's cell.

    Columns without a value are left out, and those with one value for all rows stand in the title.

    Examples
    --------
    >>> text = framed("Times", pd.DataFrame({"device": ["MI300X"] * 2, "m": [1, 2], "empty": [None, None]}))
    >>> "device = MI300X" in text, "empty" in text
    (True, False)
    """
    told = table.reset_index(drop=True).replace("", None).dropna(axis=1, how="all")
    alike = [name for name in told if len(told) > 1 and bool((told[name] == told[name].iloc[0]).all())]
    same = "; ".join(f"{name} = {_texts(told[name].head(1))[0]}" for name in alike)
    places = np.unique(np.linspace(0, max(len(told) - 1, 0), MOST).round().astype(int)) if len(told) > MOST else None
    shown = told.drop(columns=alike) if places is None else told.drop(columns=alike).iloc[places]
    heads = [Column(str(name), "number" if is_numeric_dtype(shown[name]) else "words") for name in shown]
    more = [f"{len(shown):,} of {len(table):,} rows, evenly chosen by their place."] if len(table) > MOST else []
    lines = [Line(text, "soft") for text in [*([f"In every row {same}."] if same else []), *more, *said]]
    rows = Listing(heads, lambda: [_texts(shown[name]) for name in shown], "rows")
    document = Document(title=title, sections=[Section("", [rows, Lines(lines, "list")])], data={}, framed=True)
    least, each, most = _HEIGHT
    height = min(least + each * len(shown) + 26 * len(lines), most)
    look = f"width:100%;height:{height}px;border:0"
    return f'<iframe srcdoc="{escape(page(document))}" title="{escape(title)}" style="{look}"></iframe>'


def _texts(values: pd.Series) -> list[str]:
    if is_numeric_dtype(values) and not is_bool_dtype(values):
        whole = bool((values.dropna() % 1 == 0).all())
        return [NONE if pd.isna(value) else f"{value:,.0f}" if whole else significant(value) for value in values]
    return [NONE if pd.isna(value) else shortened(str(value), _WIDTH) for value in values]

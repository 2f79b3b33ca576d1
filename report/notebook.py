"""Tables as notebooks show them: each in a separate frame, to scroll, search and sort, 20 kB beside its rows."""

from __future__ import annotations

import math
import sys
from collections.abc import Sequence
from html import escape
from typing import TYPE_CHECKING, Any, Final

import numpy as np
import pandas as pd
from pandas.api.types import is_bool_dtype, is_numeric_dtype

from ..remarks import visible
from .document import Bars, Column, Document, Headline, Line, Lines, Listing, Section
from .formats import NONE, clock, counted, distinct, shortened, significant
from .html import frame

if TYPE_CHECKING:
    from ..settings import Report

MOST: Final = 1000  # rows that a frame holds
_WIDTH: Final = 40  # characters of a text
_FEW: Final = 8  # values of a dictionary that are written out
_LINE: Final = 100  # characters of a line of progress
_CARD: Final = 150  # pixels of an answer
_HEIGHT: Final = (110, 31, 460)  # pixels of a frame: beside its rows, of a row, at most


def framed(
    title: str,
    table: pd.DataFrame,
    said: Sequence[str] = (),
    bars: Bars | None = None,
    answer: Document | None = None,
) -> str:
    """Return a table under a title, bars before and sentences below it, as HTML for the output of a notebook's cell.

    The headlines of an ``answer`` stand before all of it.

    Columns without a value are left out, and those with one value for all rows stand in the title.

    >>> text = framed("Times", pd.DataFrame({"device": ["MI300X"] * 2, "m": [1, 2], "empty": [None, None]}))
    >>> "device = MI300X" in text, "empty" in text
    (True, False)
    """
    columns_shown = table.reset_index(drop=True).replace("", None).dropna(axis=1, how="all")
    alike = [
        name
        for name in columns_shown
        if len(columns_shown) > 1 and _is_constant(columns_shown[name])
    ]
    same = "; ".join(f"{name} = {_texts(columns_shown[name].head(1))[0]}" for name in alike)
    places = None
    if len(columns_shown) > MOST:
        last = max(len(columns_shown) - 1, 0)
        places = np.unique(np.linspace(0, last, MOST).round().astype(int))
    if places is None:
        shown = columns_shown.drop(columns=alike)
    else:
        shown = columns_shown.drop(columns=alike).iloc[places]
    heads = [
        Column(str(name), "number" if is_numeric_dtype(shown[name]) else "words") for name in shown
    ]
    more = []
    if len(table) > MOST:
        more = [f"{len(shown):,} of {len(table):,} rows, evenly chosen by their place."]
    lines = [
        Line(text, "soft") for text in [*([f"In every row {same}."] if same else []), *more, *said]
    ]
    rows = Listing(heads, lambda: [_texts(shown[name]) for name in shown], "rows")
    if bars is None:
        drawn = []
    else:
        drawn = [bars]
    cards = []
    if answer is not None:
        for part in answer.opening:
            if isinstance(part, Headline) and part.medium != "terminal":
                cards.append(part)
    document = Document(
        title=title,
        opening=cards,
        sections=[Section("", [*drawn, rows, Lines(lines, "list")])],
        data={},
        framed=True,
    )
    least, each, highest = _HEIGHT
    beside = _CARD * len(cards)
    if bars:
        beside += 40 + 26 * len(bars.bars)
    return frame(document, min(least + each * len(shown) + 26 * len(lines), highest) + beside)


def _is_constant(column: pd.Series) -> bool:
    """Whether all rows have a value, and the same: comparisons with <NA> are neither true nor false."""
    return bool(column.notna().all() and (column == column.iloc[0]).all())


class Figures(dict[str, Any]):
    """A dictionary that shells and notebooks show as a line per figure; nested values are shown as counts.

    >>> Figures(name="OLS", e_out=5.5512, ir={"1": 9.0, "5": 40.0})
    name   OLS
    e_out  5.551
    ir     1: 9.000, 5: 40.00
    """

    def __repr__(self) -> str:
        width = max(map(len, map(str, self)), default=0)
        return visible(
            "\n".join(f"{name!s:{width}}  {_text(value)}" for name, value in self.items())
        )


def _text(value: object) -> str:
    """Return a value of `Figures` in a few words."""
    if isinstance(value, float):
        return significant(value)
    if isinstance(value, dict):
        parts = [*value.values()]
    elif isinstance(value, list | tuple):
        parts = [*value]
    else:
        parts = None
    if parts and (len(parts) > _FEW or any(isinstance(one, dict | list) for one in parts)):
        return counted(len(parts), "entry", "entries")
    if isinstance(value, dict):
        return ", ".join(f"{name}: {_text(one)}" for name, one in value.items()) or NONE
    if parts is not None:
        return ", ".join(map(_text, parts)) or NONE
    if value is None:
        return NONE
    return str(value)


def notebook_progress(title: str) -> Report | None:
    """Return what shows progress under the cell of a notebook that runs; None outside of one.

    It is one output of the cell, which every kind of notebook shows, whatever widgets it has: a bar
    while it runs, a line once it is done. An export has that line alone.
    """
    shell = getattr(sys.modules.get("IPython"), "get_ipython", lambda: None)()
    if shell is None or not hasattr(shell, "kernel"):
        return None
    from IPython.display import display  # here: only notebooks have it

    shown: list[Any] = []

    def draw(done: int, total: int, label: str, eta_seconds: float) -> None:
        left = ""
        if done < total and math.isfinite(eta_seconds):
            left = f", about {clock(eta_seconds)} left"
        if done == total:
            label = ""
        line = visible(f"{title}: {done} of {total}{left} {label}").strip()[:_LINE]
        state = _Progress(line, done, total)
        if shown:
            shown[0].update(state)
        else:
            shown.append(display(state, display_id=True))

    return draw


class _Progress:
    """What progress looks like in the output of a cell."""

    def __init__(self, line: str, done: int, total: int) -> None:
        self._line = line
        self._done = done
        self._total = total

    def __repr__(self) -> str:
        return self._line

    def _repr_html_(self) -> str:
        line = escape(self._line)
        if self._done == self._total:
            return f"<small>{line}</small>"
        bar = f'<progress value="{self._done}" max="{self._total}"></progress>'
        return f"{bar} <small>{line}</small>"


def _texts(values: pd.Series) -> list[str]:
    if is_numeric_dtype(values) and not is_bool_dtype(values):
        whole = bool((values.dropna() % 1 == 0).all())
        return [
            NONE if pd.isna(value) else f"{value:,.0f}" if whole else significant(value)
            for value in values
        ]
    words = [None if pd.isna(value) else str(value) for value in values]
    alike: dict[str, set[str]] = {}
    for word in words:
        if word is not None:
            alike.setdefault(shortened(word, _WIDTH), set()).add(word)
    texts = []
    for word in words:
        if word is None:
            texts.append(NONE)
        else:
            texts.append(distinct(word, alike[shortened(word, _WIDTH)], _WIDTH))
    return texts

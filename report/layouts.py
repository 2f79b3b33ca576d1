"""Tables as ``layouts.toml`` declares them: what enters is a name and rows, what leaves a `document.Table`.

A column is a list: its head, the field of a row that it shows, the form (a name of `FORMS`, or a
format such as ``{:.2f}``; text without one) and the kind (`document.Kind`; without one ``number``
where there is a form, else ``words``). ``auto`` is a first column of words, which folds only where it is long.
"""

from __future__ import annotations

import math
import tomllib
from collections.abc import Callable, Iterable, Mapping, Sequence
from functools import cache, partial
from pathlib import Path
from typing import Any, Final

import pandas as pd

from .document import Column, Kind, Row, Table, Tone
from .formats import (
    NONE,
    between,
    data_size,
    duration,
    figure,
    formatted,
    has_value,
    milliseconds,
    number,
    percent,
    share,
    significant,
)

_SHORT: Final = 24  # signs of a first cell that never folds


def _text(value: Any) -> str:
    if has_value(value):
        return str(value) or NONE
    return NONE


def _finite(form: Callable[[float], str], value: float) -> str:
    if math.isfinite(value):
        return form(value)
    return ""


def _with_interval(energy_j: float, lower_j: float, upper_j: float) -> str:
    energy, lower, upper = (significant(1e3 * joule) for joule in (energy_j, lower_j, upper_j))
    return f"{energy} [{lower}, {upper}]"


FORMS: Final[dict[str, Callable[..., str]]] = {
    "": str,
    "text": _text,
    "between": between,
    "between tenths": partial(between, form="{:.1f}"),
    "data size": data_size,
    "duration": duration,
    "finite duration": partial(_finite, duration),
    "figure": figure,
    "in full": "{:,}".format,
    "day": lambda date: _text(date).partition("T")[0],
    "millijoules": _with_interval,
    "millijoule": lambda joule: significant(1e3 * joule),
    "milliseconds": milliseconds,
    "number": number,
    "percent": percent,
    "rate": partial(_finite, "{:,.3g}".format),
    "hundred in hundredths": lambda part: formatted(100 * part, "{:.2f}"),
    "hundred": lambda part: number(100 * part),
    "share": share,
    "share in hundredths": partial(share, digits=2),
    "whole share": partial(share, digits=0),
    "significant": significant,
}
"""How a value is written, by the word that stands for it in ``layouts.toml``."""

_UNSTATED: Final[tuple[Any, ...]] = ("", "", {})
"""Form, kind and widths of a column that says nothing of them."""


@cache
def _declared() -> dict[str, dict[str, Any]]:
    return tomllib.loads((Path(__file__).parent / "layouts.toml").read_text("utf-8"))


def laid_out(
    name: str,
    source: pd.DataFrame | Iterable[object] | None,
    words: Mapping[str, object] | None = None,
    /,
    *,
    tone: Callable[[Any], Tone] | None = None,
    **forms: Callable[[Any], str],
) -> Table:
    """Return the rows of a source (a table, mappings or objects) in the layout of that name.

    ``words`` are put into title, caption and heads where these name them in braces; ``forms`` say
    how fields are written that the layout leaves to its caller.
    """
    layout: dict[str, Any] = {
        key: value.format_map(words or {}) if isinstance(value, str) else value
        for key, value in _declared()[name].items()
    }
    if isinstance(source, pd.DataFrame):
        source = source.to_dict("records")
    records = list(source or ())
    columns = []
    texts = []
    for head, field, *how in layout.pop("columns"):
        form, kind, widths = (*how, *_UNSTATED[len(how) :])
        write = forms.get(str(field)) or FORMS.get(form) or partial(formatted, form=form)
        names = field
        if isinstance(field, str):
            names = [field]
        cells = [write(*_values(row, names)) for row in records]
        if kind == "auto":
            kind = kind_of_names(cells)
        elif not kind:
            kind = "words"
            if form:
                kind = "number"
        columns.append(Column(head.format_map(words or {}), kind, **widths))
        texts.append(cells)
    rows = []
    for row, cells in zip(records, zip(*texts, strict=True), strict=True):
        rows.append(Row(cells, tone(row) if tone else ""))
    return Table(columns, rows, **layout)


def _values(row: object, names: Sequence[str]) -> tuple[Any, ...]:
    """Return fields of a row, which is a mapping or has them as attributes."""
    if isinstance(row, Mapping):
        return tuple(row[name] for name in names)
    return tuple(getattr(row, name) for name in names)


def kind_of_names(cells: Sequence[str]) -> Kind:
    """Return the kind of a first column, which folds where one of its cells is long."""
    if max(map(len, cells), default=0) > _SHORT:
        return "words"
    return "name"


def texts_of(table: Table) -> list[list[Any]]:
    """Return the cells of a table column by column, as a `document.Listing` has them."""
    cells = [row.cells for row in table.rows]
    return [list(column) for column in zip(*cells, strict=True)] or [[]]

"""The columns of the measurement table as a document: every operator in a row, or one with a row for each column."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final

import pandas as pd

from ..operators.operators import ALIASES, OPS
from .document import Column, Document, Lines, Row, Section, Table, columns, lines, rows

SCHEMA: Final = 1


def schema_document(table: pd.DataFrame, op: str | None) -> Document:
    """Return the columns of an operator (``op``), or of all of them, as `flopcast.schema` has them."""
    data = {"schema": SCHEMA, "operators": [_json(name, part) for name, part in _by_operator(table, op).items()]}
    if op is None:
        return Document(sections=[Section("operators", [_operators(table), _common()])], data=data)
    parts = [_columns(table, op), lines([_called(op)] if _called(op) else [], tone="soft")]
    return Document(sections=[Section(op, parts)], data=data)


def _by_operator(table: pd.DataFrame, op: str | None) -> Mapping[str, pd.DataFrame]:
    return {op: table} if op else {str(name): part.droplevel("op") for name, part in table.groupby("op", sort=False)}


def _operators(table: pd.DataFrame) -> Table:
    """Return a row for each operator: the dimensions it needs with an example, those it may have, its other names."""
    found = []
    for name, part in _by_operator(table, None).items():
        own = part.loc[list(OPS[name].dims)]
        needed = [f"{column}={value}" for column, value in own["example"][own["required"]].items()]
        may = [_with_default(column, value) for column, value in own["default"][~own["required"]].items()]
        public = [word for word in _names(name) if not word.startswith("_")]
        found.append((name, " ".join(needed), " ".join(may), " ".join(public)))
    heads = (Column("op", "name"), *columns("needs, for example", "may have", "also called"))
    return Table(heads, rows(found), "operators and their dimensions")


def _common() -> Lines:
    return lines(
        [
            "Every row also needs device, op, dtype_a (not a collective or kernel) and duration_us, or a duration in "
            "another unit: latency_ms, time with --unit time=ms.",
            "flopcast schema OP lists every column of one with its unit; --template FILE.csv writes them to fill in.",
        ],
        tone="soft",
    )


def _columns(table: pd.DataFrame, op: str) -> Table:
    """Return a row for each column: needed or not, unit, default, example, the other names by which it is read."""
    found = []
    for name, row in table.iterrows():
        needed = "needed" if row["required"] else ""
        cells = (str(name), needed, row["unit"], _shown(row["default"]), _shown(row["example"]), row["also"])
        found.append(Row(cells, "" if row["required"] else "soft"))
    heads = (Column("column", "name"), *columns("", "unit", "default", "example", "also read as"))
    return Table(heads, found, f"columns of {op}")


def _called(op: str) -> str:
    names = ", ".join(_names(op))
    return f"Also called {names}; aten::, torch. and the like before a name are passed over." if names else ""


def _names(op: str) -> list[str]:
    return [word for word, name in ALIASES.items() if name == op]


def _with_default(column: object, value: Any) -> str:
    return f"{column}={_shown(value)}" if _shown(value) else str(column)


def _shown(value: Any) -> str:
    return "" if value is None or value != value else f"{value:g}" if isinstance(value, float) else str(value)


def _json(op: str, table: pd.DataFrame) -> dict[str, Any]:
    told = table.astype(object).where(table.notna(), None).reset_index().to_dict("records")
    return {"op": op, "also": _names(op), "columns": told}

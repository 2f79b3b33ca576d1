"""Which rows to measure next, as a document: the batch, what it costs, and the error expected."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final

import pandas as pd

from ..remarks import remark
from ..table.measurements import quantity
from .document import Document, Fact, Facts, Section, Table, columns, lines, rows
from .formats import clock, percent, significant
from .training import title
from .words import say

SHOWN: Final = 15
"""Rows on a terminal."""


def advice_document(batch: pd.DataFrame, report: Mapping[str, Any]) -> Document:
    """Return the advice for terminal and machines; `batch` and `report` are those of `api.advising.Advice`."""
    errors = report["expected"]
    facts = [
        Fact(f"{report['rows']:,}", f"rows to measure on {report['target']}, of {report['candidates']:,} candidates"),
        Fact(str(report["groups"]), f"groups, {errors['new_groups']} of them never trained"),
        Fact(clock(report["cost_s"]), "of measuring"),
    ]
    said = say(remark("advice-expected", now=percent(errors["now"]), after=percent(errors["after"])))
    names = [name for name in ("op", "dtype_a", "m", "n", "k", "batch") if name in batch and batch[name].notna().any()]
    cells = [
        (*(str(row[name]) for name in names), str(row["group"]), significant(row["predicted"]))
        for row in batch.to_dict("records")
    ]
    heads = columns(*names, "group", numbers=[quantity(report["metric"]).label])
    table = Table(heads, rows(cells), "what to measure, the most useful first", shown=SHOWN)
    return Document(
        title=f"{title(report)}: what to measure next",
        opening=[Facts(facts), lines([f"{said}."])],
        sections=[Section("What to measure", [table])],
        data={**report, "batch": [{str(k): _plain(v) for k, v in row.items()} for row in batch.to_dict("records")]},
    )


def _plain(value: Any) -> Any:
    return None if value is None or value is pd.NA else value.item() if hasattr(value, "item") else value

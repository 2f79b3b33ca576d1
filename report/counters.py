"""Which counters to record, as a document: passes against error, families left out, and what to record in each pass."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, Final

import numpy as np
import pandas as pd

from .document import Cell, Column, Document, Fact, Facts, Lines, Row, Section, Table, columns, lines, rows
from .formats import number, percent
from .training import left_out, title

CAPTION: Final = (
    "E_out in % of the best model of each kind, which was looked for in the same folds and so flatters a little. "
    "Counters were chosen anew in every fold, from its training rows alone."
)


def counters_document(table: pd.DataFrame, passes: Sequence[Sequence[str]], report: Mapping[str, Any]) -> Document:
    """Return the choice for terminal and machines; the parts are those of `api.counters.CounterChoice`."""
    advised, every = report["advised"], table[table["columns"] == "all"]
    unseen = f"error on {left_out(report['scheme'])}, {percent(every['e_out'].min())} with all"
    facts = [
        Fact(f"{sum(map(len, passes))}", f"counters to record, of {report['counters']:,}"),
        Fact(str(len(passes)), f"profiling passes, of {every['passes'].iloc[0]} for all"),
        Fact(percent(advised["e_out"]), unseen),
    ]
    less = table["columns"].str.startswith("without ")
    record = [(str(place), str(len(names)), " ".join(names)) for place, names in enumerate(passes, 1)]
    none = "No counter lowers the error by more than its uncertainty: record none."
    return Document(
        title=f"{title(report)}: which counters to record",
        opening=[Facts(facts)],
        sections=[
            Section("Passes against error", [_trials(table[~less], "passes of the profiler against error")]),
            Section(
                "Families of features",
                [_trials(table[less | (table["columns"] == "all")], "left out", bool(less.any()))],
            ),
            Section(
                "What to record",
                [
                    Table((*columns("pass", "counters"), Column("record", "prose")), rows(record), "what to record"),
                    Lines([] if passes else lines([none]).lines),
                ],
            ),
        ],
        data={**report, "passes": [list(names) for names in passes], "trials": table.to_dict("records")},
    )


def _trials(table: pd.DataFrame, name: str, shown: bool = True) -> Table:
    """Return a row for each choice of columns, and the error of every category; the least of a row stands out."""
    kinds = list(dict.fromkeys(table["category"]))
    found: list[Row] = []
    for label, part in table.groupby("columns", sort=False) if shown else ():
        errors = dict(zip(part["category"], part["e_out"], strict=True))
        least = np.nanmin(part["e_out"]) if part["e_out"].notna().any() else np.nan
        cells = [Cell(number(errors[kind]), "strong" if errors[kind] == least else "") for kind in kinds]
        best = "".join(part["model"][part["e_out"] == least][:1])
        first = part.iloc[0]
        found.append(Row((str(label), str(first["passes"]), str(first["counters"]), *cells, str(best))))
    heads = (Column("features"), *columns(numbers=["passes", "counters", *kinds]), Column("best model"))
    return Table(heads, found, name, CAPTION)

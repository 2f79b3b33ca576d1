"""A measurement on the terminal: its rows by operator, what failed, how far two passes agree."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
import pandas as pd
from rich.console import Console
from rich.table import Table
from rich.text import Text

from ..measuring.protocol import ENDINGS, half_widths
from .console import plain_table

_NAMED = 10  # failed rows that are listed
_VAGUE = 0.5
"""Half width of the interval, relative to the time, from which a row is worth a word."""
_LATE, _CLOCK = 0.1, 0.02
"""Shares of late samples, and of the clock in a sample, from which a row is worth a word."""


def show_measurements(
    console: Console, table: pd.DataFrame, failures: Sequence[Mapping[str, str]], differences: pd.Series
) -> None:
    """Print the rows by operator and device, doubtful rows, those that failed, and how far the passes agree."""
    console.print(operator_table(table))
    for remark in doubts(table):
        console.print(Text(remark, style="yellow"), soft_wrap=True)
    for failed in failures[:_NAMED]:
        console.print(Text(f"not measured: {failed['row']}: {failed['reason']}", style="yellow"))
    if len(failures) > _NAMED:
        console.print(Text(f"and {len(failures) - _NAMED} more, listed beside the table", style="yellow"))
    if len(differences):
        console.print(difference_line(differences), markup=False, highlight=False)


def operator_table(table: pd.DataFrame) -> Table:
    """Return one line for each device and operator: rows, times, interval, outliers, how many rows ended by what."""
    words = [word for word in ENDINGS if word in set(table["stopped_by"])]
    numbers = ["rows", "fastest µs", "slowest µs", "interval ±%", "outliers %", *words]
    shown = plain_table("measured", ["device", "operator"], numbers)
    for key, rows in table.groupby(["device", "op"], sort=False):
        device, op = (str(part) for part in key)
        stopped = rows["stopped_by"].value_counts()
        shown.add_row(
            Text(device),
            Text(op),
            f"{len(rows)}",
            f"{rows['duration_us'].min():,.2f}",
            f"{rows['duration_us'].max():,.2f}",
            f"{100 * half_widths(rows).median():.2f}",
            f"{100 * rows['outliers'].sum() / (rows['outliers'] + rows['repeats']).sum():.1f}",
            *(f"{stopped.get(word, 0)}" for word in words),
        )
    return shown


def doubts(table: pd.DataFrame) -> list[str]:
    """Return which times are hardly known, and what some may hold besides the kernel, in words."""
    late, clock = (int(table[name].gt(limit).sum()) for name, limit in (("late_share", _LATE), ("clock_share", _CLOCK)))
    said = []
    if vague := int(half_widths(table).gt(_VAGUE).sum()):
        said.append(
            f"{vague} of {len(table)} rows are known to no better than ±{100 * _VAGUE:.0f} %: measure them again with "
            "nothing beside, or with a larger --budget, before anything learns from them"
        )
    if late:
        said.append(
            f"{late} of {len(table)} rows: the host launched too slowly for over {100 * _LATE:.0f} % of the samples, "
            "which may hold part of it (late_share)"
        )
    if clock:
        limit = f"{100 * _CLOCK:.0f} %"
        said.append(f"{clock} of {len(table)} rows: the clock itself takes over {limit} of a sample (clock_share)")
    return said


def difference_line(differences: pd.Series) -> str:
    """Return how far two passes agree, in words."""
    found = differences.quantile([0.5, 0.9])
    return (
        f"From the first pass to the last a time changes by {found[0.5]:.1f} % (median), "
        f"90th percentile {found[0.9]:.1f} %"
    )


def measurements_json(table: pd.DataFrame, provenance: Mapping[str, Any]) -> dict[str, Any]:
    """Return the provenance and the rows as JSON types, cells that a row does not have left out."""
    rows = [
        {str(name): cell for name, cell in row.items() if not (isinstance(cell, float) and np.isnan(cell))}
        for row in table.astype(object).where(table.notna(), np.nan).to_dict("records")
    ]
    return {**provenance, "rows": rows}

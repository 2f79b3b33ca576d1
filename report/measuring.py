"""A measurement on the terminal: its rows by operator, what failed, how far two passes agree."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
from rich.console import Console
from rich.table import Table
from rich.text import Text

from ..measuring.measure import Measured
from ..measuring.protocol import ENDINGS, half_widths
from ..measuring.results import doubts
from ..measuring.session import BUDGET, DONE, INTERRUPTED, LOST
from .console import note, plain_table
from .words import say

_NAMED = 10  # failed rows that are listed


def show_measurements(console: Console, measured: Measured, out: Path) -> None:
    """Print the rows by operator and device, doubtful, failed and refused ones, and how far the passes agree."""
    table, failures = measured.table, measured.failures
    console.print(operator_table(table))
    for doubt in doubts(table):
        console.print(Text(say(doubt), style="yellow"), soft_wrap=True)
    for failed in failures[:_NAMED]:
        console.print(Text(f"not measured: {failed['row']}: {failed['reason']}", style="yellow"))
    if len(failures) > _NAMED:
        console.print(Text(f"and {len(failures) - _NAMED} more, listed beside the table", style="yellow"))
    if len(measured.differences):
        console.print(difference_line(measured.differences), markup=False, highlight=False)
    for refused in measured.provenance["refused"]:
        console.print(f"left out: {refused['source']}: {refused['reason']} ({refused['detail']})", markup=False)
    for one in measured.notes:
        console.print(note(one if isinstance(one, str) else say(one)))
    if measured.ended not in (DONE, INTERRUPTED, LOST):
        console.print(resuming(measured, out), markup=False, highlight=False, soft_wrap=True)


def resuming(measured: Measured, out: Path) -> str:
    """Say why a measurement has ended early, and how to go on with it."""
    why = {INTERRUPTED: "stopped: ", BUDGET: "the budget is spent: "}.get(measured.ended, "")
    left = measured.provenance["unmeasured"]
    missing = f" ({left} of {measured.provenance['workloads']} workloads have no time yet)" if left else ""
    return f"{why}what is measured is in {out}{missing}; the same command with --resume continues"


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

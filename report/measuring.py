"""The document of `measure`: what was measured, and what failed or is doubtful."""

from __future__ import annotations

from typing import Final

import numpy as np
import pandas as pd

from ..measuring.inline_times import InlineTimes
from ..measuring.measure import Measured
from ..measuring.session import BUDGET, DONE, INTERRUPTED, LOST, doubts
from ..measuring.timing import ENDINGS, half_widths
from ..table.refusals import coded
from .document import JSON, Document, Lines, Row, Table, columns, lines, records, remarked
from .layouts import laid_out

_NAMED: Final = 10  # failed rows that are listed


def measuring_document(measured: Measured) -> Document:
    """Return the rows by operator and device, doubtful, failed and refused ones, and how far the passes agree."""
    failures = measured.failures
    differences = measured.differences
    warnings = [*map(str, doubts(measured.table))]
    for failed in failures[:_NAMED]:
        warnings.append(f"not measured: {failed['row']}: {failed['reason']}")
    if len(failures) > _NAMED:
        warnings.append(f"and {len(failures) - _NAMED} more, listed beside the table")
    plain = []
    if len(differences):
        plain.append(difference_line(differences))
    for row in measured.provenance["refused"]:
        plain.append(f"left out: {row['source']}: {coded(row['reason'])} ({row['detail']})")
    ending = []
    if measured.ended not in (DONE, INTERRUPTED, LOST):  # the command itself says how these end
        ending.append(resuming(measured))
    return Document(
        opening=[operator_table(measured.table), lines(warnings, tone="warning")],
        closing=[lines(plain), Lines(remarked(measured.notes)), lines(ending)],
        data=measurements_json(measured),
    )


def resuming(measured: Measured) -> str:
    """Say why a measurement stopped early, and how to resume it."""
    why = {INTERRUPTED: "stopped: ", BUDGET: "the budget is spent: "}.get(measured.ended, "")
    missing = ""
    left = measured.provenance["unmeasured"]
    if left:
        missing = f" ({left} of {measured.provenance['workloads']} workloads have no time yet)"
    if measured.out is None:
        return f"{why}what was measured is returned{missing}"
    return (
        f"{why}what is measured is in {measured.out}{missing}; the same command with --resume "
        "continues"
    )


def operator_table(table: pd.DataFrame) -> Table:
    """Return one line for each device and operator: rows, times, interval, outliers, and what ended the rows."""
    endings = [ending for ending in ENDINGS if ending in set(table["stopped_by"])]
    numbers = [
        "rows",
        "fastest, µs",
        "slowest, µs",
        "interval ±%",
        "outliers, %",
        *(f"ended: {one}" for one in endings),
    ]
    cells = []
    for key, group in table.groupby(["device", "op"], sort=False):
        device, op = (str(part) for part in key)
        stopped = group["stopped_by"].value_counts()
        figures = (
            f"{len(group)}",
            f"{group['duration_us'].min():,.2f}",
            f"{group['duration_us'].max():,.2f}",
            f"{100 * half_widths(group).median():.2f}",
            f"{100 * group['outliers'].sum() / (group['outliers'] + group['repeats']).sum():.1f}",
        )
        cells.append(
            Row((device, op, *figures, *(f"{stopped.get(ending, 0)}" for ending in endings)))
        )
    return Table(columns("device", "operator", numbers=numbers), cells, title="measured")


def difference_line(differences: pd.Series) -> str:
    """Return how far two passes agree, in words."""
    quantiles = differences.quantile([0.5, 0.9])
    return (
        f"From the first pass to the last a time changes by {quantiles[0.5]:.1f} % (median), "
        f"90th percentile {quantiles[0.9]:.1f} %"
    )


def measurements_json(measured: Measured) -> JSON:
    """Return the provenance, its remarks in words and the rows, without empty cells."""
    table = measured.table
    rows = []
    for row in table.astype(object).where(table.notna(), np.nan).to_dict("records"):
        rows.append(
            {
                str(name): cell
                for name, cell in row.items()
                if not (isinstance(cell, float) and np.isnan(cell))
            }
        )
    return {
        **measured.provenance,
        "notes": [*map(repr, measured.notes)],
        "rows": rows,
    }


def inline_document(inline: InlineTimes) -> Document:
    """Return the times of a program's modules and regions, the longest first, and the overhead of timing."""
    table = inline.table
    cost = (
        f"timing took {100 * inline.overhead_share:.2g} % of the time, "
        f"{inline.overhead_us:.3g} µs a call"
    )
    return Document(
        title=f"{inline.calls:,} timed calls on {inline.device}",
        opening=[laid_out("inline-times", table.sort_values("duration_us", ascending=False))],
        closing=[lines([cost])],
        data={**inline.about, "rows": records(table)},
    )

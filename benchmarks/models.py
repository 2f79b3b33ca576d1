"""The benchmarks of the models: searches against peers, the suite over the folds, growth with columns and rows."""

from __future__ import annotations

import sys
from dataclasses import dataclass, field

from rich.table import Table

from .growth import COLUMNS, REPEATS, ROWS, growth_table, growths
from .harness import TURN_SECONDS, Row, compare
from .made_up_counters import counters
from .searches import searches, skipped
from .suite_time import FOLDS, SuiteTime, suite_table, suite_time


@dataclass
class Report:
    """What was measured: comparisons with peers, other rows, their tables, and lines on what was left out."""

    compared: list[Row] = field(default_factory=list)
    measured: list[Row] = field(default_factory=list)
    tables: list[Table] = field(default_factory=list)
    lines: list[str] = field(default_factory=list)


def models(quick: bool = False, full: bool = False) -> Report:
    """Measure all of it, one task after the other, saying which on the standard error output.

    Parameters
    ----------
    quick : bool, default=False
        The smallest sizes, a fold of ten.
    full : bool, default=False
        Every fold, both suites on every size, every peer: hours.
    """
    report = Report(lines=skipped())
    for comparison in searches(quick, full):
        _say(comparison.task)
        report.compared += compare(comparison, 1 if quick else 2, 0.0 if quick else TURN_SECONDS)
    times = _suites(quick, full)
    report.measured += [row for result in times for row in result.rows()]
    report.tables += [suite_table([result]) for result in times]
    _say("growth with the columns and the rows")
    columns, rows = ((6, 12), (40, 80)) if quick else (COLUMNS, ROWS)
    for growth in growths(columns, rows, trees=full, repeats=1 if quick else REPEATS):
        report.measured += growth.rows()
        report.tables.append(growth_table(growth))
    if not full:
        report.lines.append(
            "Left to --full: all folds, the default suite on other sizes, 3941 x 75, growth of "
            "the forest, slow peers"
        )
    return report


def _suites(quick: bool, full: bool) -> list[SuiteTime]:
    wide = (40, 6) if quick else (300, 577)
    others = [] if quick else [(369, 174)] + ([(3941, 75)] if full else [])
    results = []
    for form, sizes in (
        ("literature", [wide, *others]),
        ("default", [wide, *(others if full else ())]),
    ):
        for n, p in sizes:
            _say(f"{form} suite, {n} x {p}")
            results.append(suite_time(form, counters(n, p), FOLDS if full else 1))
    return results


def _say(task: str) -> None:
    print(f"{task} ...", file=sys.stderr, flush=True)

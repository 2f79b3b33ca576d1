"""The dispatch table with everything that follows from it: kernel classes, operators, work, quality."""

from __future__ import annotations

from dataclasses import dataclass, field

import pandas as pd

from . import quality
from .calls import empty_calls
from .classes import classify
from .ranges import empty_ranges
from .table import Finding, Trace
from .work import work_of_dispatches

FLAGS = "flags"
"""Column of the quality codes that concern a row, joined by ";"."""


@dataclass(frozen=True)
class Annotated:
    """A trace that has been looked at.

    Attributes
    ----------
    dispatches : DataFrame
        The dispatch table, then `kernel_class` and `op_class` (`classes`), `op`, `variant`, dimensions, precisions,
        `flops`, `bytes_moved` (`work`), and `flags` (`quality`).
    steps : DataFrame
        The profiler's steps.
    findings : tuple of Finding
        The reader's and those of the quality gate, the gravest first.
    notes : tuple of str
        Assumptions made by the reader.
    calls : DataFrame
        The CPU's calls of the runtime, where they were asked for.
    ranges : DataFrame
        The user's annotations, where they were asked for.
    """

    dispatches: pd.DataFrame
    steps: pd.DataFrame
    findings: tuple[Finding, ...]
    notes: tuple[str, ...]
    calls: pd.DataFrame = field(default_factory=empty_calls)
    ranges: pd.DataFrame = field(default_factory=empty_ranges)


def annotate(trace: Trace) -> Annotated:
    """Return the trace with kernel classes, operators, work and quality findings.

    A reader that has found something itself is believed: the gate does not report the same code again.

    Parameters
    ----------
    trace : Trace
        What a reader returned.
    """
    table = trace.dispatches
    flagged = quality.flags(table, trace.steps)
    told = {finding.code for finding in trace.findings}
    own = [finding for finding in quality.check(table, trace.steps, flagged) if finding.code not in told]
    parts = [table, classify(table), work_of_dispatches(table), quality.words(flagged).rename(FLAGS)]
    findings = quality.by_severity([*trace.findings, *own])
    dispatches, notes = pd.concat(parts, axis=1), tuple(trace.notes)
    return Annotated(dispatches, trace.steps, tuple(findings), notes, trace.calls, trace.ranges)

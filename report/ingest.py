"""What was read, as a document for terminals: traces in numbers, operator classes, what has no class, findings."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Any, Final

import pandas as pd

from ..remarks import Remark
from ..traces.dispatches import KERNEL, Finding
from ..traces.quality import by_severity
from ..traces.summary import UNCLASSIFIED, Overview
from .document import Cell, Column, Document, Row, Section, Table, Tone, columns, lines, losses, rows
from .formats import NONE, milliseconds, share, shortened
from .words import in_words, say

_TONES: Final[dict[str, Tone]] = {"error": "error", "warning": "warning", "info": "soft"}
_NAMED: Final = 10  # kernels without a class that are listed
_WORDS: Final = 60  # columns for a kernel's name
_NUMBERS: Final = ("activities", "time ms", "share")


def ingest_document(
    traces: Sequence[Overview],
    rejected: Mapping[Any, int],
    notes: Iterable[Remark | str],
    unreadable: Iterable[str],
    *,
    held: str = "",
    data: Mapping[str, Any] | None = None,
) -> Document:
    """Return what was read: what the traces hold, and of tables only what was lost (as for `losses`).

    `held` says in words how many rows the table has, where no file says so.
    """
    tables = (trace_table, class_table, unclassified_table, finding_table)
    return Document(
        sections=[Section("Traces", [table(traces) for table in tables if traces])],
        closing=[losses(rejected, notes, unreadable), lines([held] if held else [])],
        data=data or {},
    )


def overview_json(trace: Overview) -> dict[str, Any]:
    """Return what a trace holds as JSON types."""
    findings = [
        {
            "code": finding.code,
            "severity": finding.severity,
            "message": say(finding.remark),
            "count": finding.count,
            "share": finding.share,
            "source": finding.source,
        }
        for finding in trace.findings
    ]
    return {
        "source": trace.label,
        "devices": list(trace.devices),
        "activities": trace.activities,
        "linked": trace.linked,
        "kernel_us": trace.kernel_us,
        "busy_us": trace.busy_us,
        "span_us": trace.span_us,
        "classes": trace.classes.to_dict("records"),
        "unclassified": trace.unclassified.to_dict("records"),
        "findings": findings,
        "notes": in_words(trace.notes),
    }


def trace_table(traces: Sequence[Overview]) -> Table:
    """Return one row per trace."""
    numbers = ("kernels", "copies", "linked", "kernel ms", "busy ms", "span ms")
    found = []
    for trace in traces:
        kernels, every = trace.activities.get(KERNEL, 0), sum(trace.activities.values())
        times = (milliseconds(time) for time in (trace.kernel_us, trace.busy_us, trace.span_us))
        device = ", ".join(device or "not stated" for device in trace.devices) or NONE
        linked = share(trace.linked / every if every else None, 0)
        found.append((trace.label, device, f"{kernels:,}", f"{every - kernels:,}", linked, *times))
    return Table((Column("source", least=40), *columns("device", numbers=numbers)), rows(found), "traces")


def class_table(traces: Sequence[Overview]) -> Table:
    """Return the time by operator class, all traces together."""
    every = pd.concat([trace.classes for trace in traces], ignore_index=True)
    found = every.groupby(["kernel_class", "op_class"], sort=False)[["count", "time_us"]].sum().reset_index()
    found = found.sort_values("time_us", ascending=False, kind="stable")
    total = max(float(found["time_us"].sum()), 1e-9)
    shown = [
        Row((str(kernels), str(op), *_numbers(count, time, total)), "warning" if op == UNCLASSIFIED else "")
        for kernels, op, count, time in found.itertuples(index=False)
    ]
    return Table(columns("class", "operators", numbers=_NUMBERS), shown, "operator classes")


def unclassified_table(traces: Sequence[Overview]) -> Table:
    """Return the kernels without an operator class, those that cost most first."""
    parts = [trace.unclassified for trace in traces if len(trace.unclassified)]
    every = pd.concat(parts, ignore_index=True) if parts else pd.DataFrame()
    total = max(sum(trace.kernel_us for trace in traces), 1e-9)
    shown, rest = [], None
    if len(every):
        found = every.groupby(["name", "op_name"], sort=False)[["count", "duration_us"]].sum().reset_index()
        found = found.sort_values("duration_us", ascending=False, kind="stable")
        for name, op, count, time in found.itertuples(index=False):
            words = (shortened(str(word), _WORDS) for word in (name, op))
            shown.append((*words, *_numbers(count, time, total)))
        others = found.iloc[_NAMED:]
        figures = _numbers(int(others["count"].sum()), float(others["duration_us"].sum()), total)
        rest = Row((f"{len(others)} more", "", *figures))
    heads = columns("kernel", "operator", numbers=_NUMBERS)
    return Table(heads, rows(shown), "kernels without an operator class", shown=_NAMED, rest=rest)


def finding_table(traces: Sequence[Overview]) -> Table:
    """Return the findings of all traces, equal codes together, the gravest first."""
    cases: dict[str, list[tuple[Overview, Finding]]] = {}
    for trace in traces:
        for finding in trace.findings:
            cases.setdefault(finding.code, []).append((trace, finding))
    first = {code: found[0][1] for code, found in cases.items()}
    total = sum(trace.kernel_us for trace in traces)
    shown = []
    for finding in by_severity(list(first.values())):
        found = cases[finding.code]
        count = sum(own.count for _, own in found)
        where = f"{finding.source or found[0][0].label}" + (f"; {len(found)} traces" if len(found) > 1 else "")
        severity = Cell(finding.severity, _TONES[finding.severity])
        shown.append((severity, finding.code, f"{count:,}", _share(found, total), f"{say(finding.remark)} ({where})"))
    heads = columns("severity", "code", numbers=("count", "of GPU time"), prose=["what, and where first"])
    return Table(heads, rows(shown), "findings")


def _share(found: Sequence[tuple[Overview, Finding]], total: float) -> str:
    """Return the share of the kernel time of all traces that a finding concerns."""
    known = [trace.kernel_us * finding.share for trace, finding in found if finding.share is not None]
    return share(sum(known) / total if known and total else None)


def _numbers(count: int, time_us: float, total_us: float) -> tuple[str, str, str]:
    """Return a number of activities, their time in ms, and its share."""
    return f"{count:,}", milliseconds(time_us), share(time_us / total_us, 2)

"""What was read, on the terminal: traces in numbers, operator classes, what has no class, findings."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import pandas as pd
from rich.console import Console
from rich.table import Table
from rich.text import Text

from ..traces.dispatches import KERNEL, Finding
from ..traces.quality import by_severity
from ..traces.summary import UNCLASSIFIED, Overview
from .console import plain_table, shortened
from .words import in_words, say

_STYLES = {"error": "red", "warning": "yellow", "info": "dim"}
_NAMED = 10  # kernels without a class that are listed
_WORDS = 60  # columns for a kernel's name


def show_traces(console: Console, traces: Sequence[Overview]) -> None:
    """Print what the traces hold; nothing where there are none."""
    if not traces:
        return
    console.print(trace_table(traces))
    console.print(class_table(traces))
    unknown = unclassified_table(traces)
    if unknown.row_count:
        console.print(unknown)
    findings = finding_table(traces)
    if findings.row_count:
        console.print(findings)


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
    table = plain_table(
        "traces", ["source", "device"], ["kernels", "copies", "linked", "kernel ms", "busy ms", "span ms"]
    )
    table.columns[0].min_width = 40
    for trace in traces:
        kernels = trace.activities.get(KERNEL, 0)
        every = sum(trace.activities.values())
        linked = f"{100 * trace.linked / every:.0f} %" if every else "–"
        times = [f"{time / 1e3:,.3f}" for time in (trace.kernel_us, trace.busy_us, trace.span_us)]
        device = ", ".join(device or "not stated" for device in trace.devices) or "–"
        table.add_row(Text(trace.label), Text(device), f"{kernels:,}", f"{every - kernels:,}", linked, *times)
    return table


def class_table(traces: Sequence[Overview]) -> Table:
    """Return the time by operator class, all traces together."""
    every = pd.concat([trace.classes for trace in traces], ignore_index=True)
    found = every.groupby(["kernel_class", "op_class"], sort=False)[["count", "time_us"]].sum().reset_index()
    found = found.sort_values("time_us", ascending=False, kind="stable")
    total = max(float(found["time_us"].sum()), 1e-9)
    table = plain_table("operator classes", ["class", "operators"], ["activities", "time ms", "share"])
    for row in found.to_dict("records"):
        style = "yellow" if row["op_class"] == UNCLASSIFIED else ""
        words = str(row["kernel_class"]), str(row["op_class"])
        table.add_row(*words, *_numbers(row["count"], row["time_us"], total), style=style)
    return table


def unclassified_table(traces: Sequence[Overview]) -> Table:
    """Return the kernels without an operator class, those that cost most first."""
    every = pd.concat([trace.unclassified for trace in traces], ignore_index=True)
    table = plain_table("kernels without an operator class", ["kernel", "operator"], ["activities", "time ms", "share"])
    if every.empty:
        return table
    total = max(sum(trace.kernel_us for trace in traces), 1e-9)
    found = every.groupby(["name", "op_name"], sort=False)[["count", "duration_us"]].sum().reset_index()
    found = found.sort_values("duration_us", ascending=False, kind="stable")
    for row in found.head(_NAMED).to_dict("records"):
        words = Text(shortened(str(row["name"]), _WORDS)), Text(shortened(str(row["op_name"]), _WORDS))
        table.add_row(*words, *_numbers(row["count"], row["duration_us"], total))
    if len(found) > _NAMED:
        rest = found.iloc[_NAMED:]
        table.add_row(
            f"{len(rest)} more", "", *_numbers(int(rest["count"].sum()), float(rest["duration_us"].sum()), total)
        )
    return table


def finding_table(traces: Sequence[Overview]) -> Table:
    """Return the findings of all traces, equal codes together, the gravest first."""
    table = plain_table("findings", ["severity", "code"], ["count", "of GPU time"])
    table.add_column("what, and where first", overflow="fold")
    cases: dict[str, list[tuple[Overview, Finding]]] = {}
    for trace in traces:
        for finding in trace.findings:
            cases.setdefault(finding.code, []).append((trace, finding))
    first = {code: found[0][1] for code, found in cases.items()}
    total = sum(trace.kernel_us for trace in traces)
    for finding in by_severity(list(first.values())):
        found = cases[finding.code]
        count = sum(own.count for _, own in found)
        where = f"{finding.source or found[0][0].label}" + (f"; {len(found)} traces" if len(found) > 1 else "")
        text = Text(f"{say(finding.remark)} ({where})")
        style = _STYLES[finding.severity]
        table.add_row(
            Text(finding.severity, style=style),
            finding.code,
            f"{count:,}",
            _share(found, total),
            text,
        )
    return table


def _share(found: Sequence[tuple[Overview, Finding]], total: float) -> str:
    """Return the share of the kernel time of all traces that a finding concerns."""
    known = [trace.kernel_us * finding.share for trace, finding in found if finding.share is not None]
    return f"{100 * sum(known) / total:.1f} %" if known and total else "–"


def _numbers(count: int, time_us: float, total_us: float) -> tuple[str, str, str]:
    """Return a number of activities, their time in ms, and its share."""
    return f"{count:,}", f"{time_us / 1e3:,.3f}", f"{100 * time_us / total_us:.2f} %"

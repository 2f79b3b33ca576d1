"""What `flopcast fidelity` says of several profilers' traces of one workload."""

from __future__ import annotations

from rich.console import Console
from rich.table import Table
from rich.text import Text

from ..projection.fidelity import Fidelity, TraceFidelity
from .console import note, plain_table, shortened
from .projection import each

HEADS = (
    "kernels", "kernels ms", "busy ms", "gaps ms", "end to end ms", "steps", "overhead", "CPU step", "matched", "ratio",
)  # fmt: skip
SHOWN = 10
"""Kernels that are printed."""
_NAME = 48  # columns for a kernel's name


def show_fidelity(console: Console, found: Fidelity) -> None:
    """Print the outcome, the traces, and the longest kernels that all have."""
    console.print(Text(found.statement, "bold"), highlight=False)
    console.print(trace_table(found))
    if len(found.kernels):
        console.print(kernel_table(found))
    for words in found.notes:
        console.print(note(words))


def trace_table(found: Fidelity) -> Table:
    """Return one row per trace; the one to believe in bold.

    End to end is first start to last end; overheads are those of a step on the GPU and as the CPU saw it; ratio is the
    median of the matched kernels against those of the trace to believe.
    """
    table = plain_table("traces", ["trace"], HEADS)
    for place, trace in enumerate(found.traces):
        cells = [Text(cell) for cell in _cells(trace)]
        table.add_row(Text(trace.times.label), *cells, style="bold" if place == found.believed else "")
    return table


def kernel_table(found: Fidelity) -> Table:
    """Return the kernels that take longest in the trace to believe, in the other traces against it."""
    table = plain_table("kernels", ["kernel", "trace"], ["count", "ms", "ratio", "± MAD"])
    others = found.kernels[found.kernels["label"] != found.best]
    for row in each(others.head(SHOWN)):
        cells = (f"{row.count:,}", f"{row.time_us / 1e3:,.3f}", f"{row.ratio:.3f}", f"{row.spread:.3f}")
        table.add_row(Text(shortened(str(row.kernel), _NAME)), Text(str(row.label)), *cells)
    return table


def _cells(trace: TraceFidelity) -> tuple[str, ...]:
    times, agreement = trace.times, trace.agreement
    return (
        f"{times.kernels:,}",
        *(f"{value / 1e3:,.3f}" for value in (times.kernel_us, times.busy_us, times.gaps_us, times.end_to_end_us)),
        "–" if times.steps is None else f"{times.steps}",
        *("–" if value is None else f"{value:+.1f} %" for value in (trace.overhead, trace.cpu_overhead)),
        "–" if agreement is None else f"{100 * agreement.matched_share:.1f} %",
        "–" if agreement is None or agreement.ratio is None else f"{agreement.ratio:.3f}",
    )

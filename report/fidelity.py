"""What several profilers' traces of one workload say of each other, as a document."""

from __future__ import annotations

from dataclasses import asdict
from typing import Any

from ..projection.fidelity import Basis, Fidelity, TraceFidelity
from .document import Document, Lines, Row, Table, columns, remarked
from .formats import shortened
from .projection import each
from .words import say

HEADS = (
    "kernels", "kernels ms", "busy ms", "gaps ms", "end to end ms", "steps", "kernels / unprofiled", "overhead",
    "CPU step", "matched", "ratio",
)  # fmt: skip
SCHEMA = 1
"""Of `data`."""
BASES = {Basis.UNPROFILED: "nearest to the unprofiled time", Basis.SHORTEST: "shortest kernels"}
SHOWN = 10
"""Kernels that are printed."""
_NAME = 48  # columns for a kernel's name


def fidelity_document(found: Fidelity) -> Document:
    """Return the outcome, the traces, and the longest kernels that all have, for the terminal and machines."""
    return Document(
        title=say(found.verdict),
        opening=[trace_table(found), kernel_table(found)],
        closing=[Lines(remarked(found.notes))],
        data=data(found),
    )


def data(found: Fidelity) -> dict[str, Any]:
    """Return everything as JSON types."""
    return {
        "schema": SCHEMA,
        "unprofiled_us": found.unprofiled_us,
        "traces": [_trace_data(trace) for trace in found.traces],
        "best": found.best,
        "basis": BASES[found.basis],
        "statement": say(found.verdict),
        "kernels": found.kernels.astype(object).where(found.kernels.notna(), None).to_dict("records"),
        "notes": [say(remark) for remark in found.notes],
    }


def _trace_data(trace: TraceFidelity) -> dict[str, Any]:
    """Return what is said of one trace, the times side by side with the rest."""
    return {
        **asdict(trace.times),
        "end_to_end_per_step_us": trace.times.end_to_end_per_step_us,
        "overhead": trace.overhead,
        "kernel_ratio": trace.kernel_ratio,
        "cpu_overhead": trace.cpu_overhead,
        "agreement": None if trace.agreement is None else asdict(trace.agreement),
    }


def trace_table(found: Fidelity) -> Table:
    """Return one row per trace; the one to believe in bold.

    End to end is first start to last end; kernels / unprofiled the sum of kernel times over the unprofiled time, both
    of a step; overheads are those of a step on the GPU and as the CPU saw it; ratio is the
    median of the matched kernels against those of the trace to believe.
    """
    rows = [
        Row((trace.times.label, *_cells(trace)), "strong" if place == found.believed else "")
        for place, trace in enumerate(found.traces)
    ]
    return Table(columns("trace", numbers=HEADS), rows, "traces")


def kernel_table(found: Fidelity) -> Table:
    """Return the kernels that take longest in the trace to believe, in the other traces against it."""
    others = found.kernels[found.kernels["label"] != found.best]
    rows = [
        (
            shortened(str(row.kernel), _NAME), str(row.label), f"{row.count:,}", f"{row.time_us / 1e3:,.3f}",
            f"{row.ratio:.3f}", f"{row.spread:.3f}",
        )
        for row in each(others.head(SHOWN))
    ]  # fmt: skip
    heads = columns("kernel", "trace", numbers=["count", "ms", "ratio", "± MAD"])
    return Table(heads, [Row(cells) for cells in rows], "kernels")


def _cells(trace: TraceFidelity) -> tuple[str, ...]:
    times, agreement = trace.times, trace.agreement
    return (
        f"{times.kernels:,}",
        *(f"{value / 1e3:,.3f}" for value in (times.kernel_us, times.busy_us, times.gaps_us, times.end_to_end_us)),
        "–" if times.steps is None else f"{times.steps}",
        "–" if trace.kernel_ratio is None else f"{trace.kernel_ratio:.3f}",
        *("–" if value is None else f"{value:+.1f} %" for value in (trace.overhead, trace.cpu_overhead)),
        "–" if agreement is None else f"{100 * agreement.matched_share:.1f} %",
        "–" if agreement is None or agreement.ratio is None else f"{agreement.ratio:.3f}",
    )

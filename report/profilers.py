"""What to record with profilers, and which of them to believe, as documents: counters, passes, traces side by side."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import asdict
from typing import Any, Final

import numpy as np
import pandas as pd

from ..output import SCHEMA
from ..projection.comparison import Basis, Fidelity
from ..projection.passes import PassPlan
from ..traces.cleaning.joining import Coverage
from .cleaning import coverage_json, coverage_parts
from .document import (
    JSON,
    Cell,
    Column,
    Document,
    Fact,
    Facts,
    Lines,
    Part,
    Row,
    Section,
    Table,
    columns,
    lines,
    picked,
    remarked,
    rows,
    upcoming,
    warned,
)
from .formats import NONE, formatted, number, percent
from .layouts import laid_out
from .training import left_out, title

CAPTION: Final = (
    "E_out in % of the best model of each kind, which was looked for in the same folds and so "
    "flatters a little. "
    "Counters were chosen anew in every fold, from its training rows alone."
)
HEADS: Final = (
    "kernels",
    "kernels, ms",
    "busy, ms",
    "gaps, ms",
    "end to end, ms",
    "steps",
    "kernels / unprofiled",
    "overhead",
    "CPU step",
    "matched",
    "ratio",
)
BASES: Final = {
    Basis.UNPROFILED: "nearest to the unprofiled time",
    Basis.SHORTEST: "shortest kernels",
}
SHOWN: Final = 10  # kernels that are printed


def counters_document(
    table: pd.DataFrame, passes: Sequence[Sequence[str]], report: Mapping[str, Any]
) -> Document:
    """Return the choice for terminal and machines; the parts are those of `api.profilers.CounterChoice`."""
    advised = report["advised"]
    every = table[table["columns"] == "all"]
    unseen = f"error on {left_out(report['scheme'])}, {percent(every['e_out'].min())} with all"
    facts = [
        Fact(f"{sum(map(len, passes))}", f"counters to record, of {report['counters']:,}"),
        Fact(str(len(passes)), f"profiling passes, of {every['passes'].iloc[0]} for all"),
        Fact(percent(advised["e_out"]), unseen),
    ]
    less = table["columns"].str.startswith("without ")
    record = [
        (str(place), str(len(names)), " ".join(names)) for place, names in enumerate(passes, 1)
    ]
    none = "No counter lowers the error by more than its uncertainty: record none."
    return Document(
        title=f"{title(report)}: which counters to record",
        opening=[Facts(facts)],
        sections=[
            Section(
                "Passes against error",
                [_trials(table[~less], "passes of the profiler against error")],
            ),
            Section(
                "Families of features",
                [_trials(table[less | (table["columns"] == "all")], "left out", bool(less.any()))],
            ),
            Section(
                "What to record",
                [
                    Table(
                        (*columns("pass", "counters"), Column("record", "prose")),
                        rows(record),
                        "what to record",
                    ),
                    Lines([] if passes else lines([none]).lines),
                ],
            ),
        ],
        data={
            **report,
            "passes": [list(names) for names in passes],
            "trials": table.to_dict("records"),
        },
    )


def _trials(table: pd.DataFrame, name: str, shown: bool = True) -> Table:
    """Return a row for each choice of columns, and the error of every category; the least of a row stands out."""
    kinds = list(dict.fromkeys(table["category"]))
    body: list[Row] = []
    for label, part in table.groupby("columns", sort=False) if shown else ():
        errors = dict(zip(part["category"], part["e_out"], strict=True))
        least = np.nan
        if part["e_out"].notna().any():
            least = np.nanmin(part["e_out"])
        cells = [
            Cell(number(errors[kind]), "strong" if errors[kind] == least else "") for kind in kinds
        ]
        best = "".join(part["model"][part["e_out"] == least][:1])
        first = part.iloc[0]
        body.append(
            Row((str(label), str(first["passes"]), str(first["counters"]), *cells, str(best)))
        )
    heads = (
        Column("features"),
        *columns(numbers=["passes", "counters", *kinds]),
        Column("best model"),
    )
    return Table(heads, body, name, CAPTION)


def plan_document(
    plan: PassPlan, commands: Sequence[str], coverage: Coverage | None = None
) -> Document:
    """Return which kernels each pass records and what starts it, or what the passes recorded."""
    outcome, *limits = plan.notes
    table = laid_out("profiler-passes", plan.kernels)
    if coverage is None:
        last = upcoming(
            "--script FILE writes what starts the passes (--all prints it)",
            "once recorded, --check FOLDER says whether every launch was",
        )
        parts: list[Part] = [Lines(remarked(limits)), table]
        starting = [lines(commands)]
    else:
        last = upcoming("-o durations.parquet keeps the times for flopcast project --durations")
        parts = [*coverage_parts(coverage), table]
        starting = []
    data = plan_json(plan, commands, coverage)
    sections = [Section("Passes", parts), Section("What starts them", starting, folded=True)]
    return Document(title=str(outcome), sections=sections, closing=[last], data=data)


def plan_json(plan: PassPlan, commands: Sequence[str], coverage: Coverage | None) -> JSON:
    """Return everything as JSON types."""
    return {
        "schema": SCHEMA,
        "profiler": plan.profiler.value,
        "steps": plan.steps,
        "passes": plan.passes,
        "kernels": plan.kernels.to_dict("records"),
        "commands": list(commands),
        "notes": [*map(repr, plan.notes)],
        "coverage": None if coverage is None else coverage_json(coverage),
    }


def fidelity_document(fidelity: Fidelity) -> Document:
    """Return the verdict, the traces, and the longest kernels that all share, for terminal and machines."""
    return Document(
        title=str(fidelity.verdict),
        opening=[*warned(fidelity.doubts), trace_table(fidelity), kernel_table(fidelity)],
        closing=[Lines(remarked(fidelity.notes))],
        data=fidelity_json(fidelity),
    )


def fidelity_json(fidelity: Fidelity) -> JSON:
    """Return everything as JSON types."""
    return {
        "schema": SCHEMA,
        "unprofiled_us": fidelity.unprofiled_us,
        "traces": [
            {
                **asdict(trace.times),
                "end_to_end_per_step_us": trace.times.end_to_end_per_step_us,
                **picked(trace, "overhead", "kernel_ratio", "cpu_overhead"),
                "agreement": None if trace.agreement is None else asdict(trace.agreement),
            }
            for trace in fidelity.traces
        ],
        "best": fidelity.best,
        "basis": BASES[fidelity.basis],
        "statement": str(fidelity.verdict),
        "kernels": fidelity.kernels.astype(object)
        .where(fidelity.kernels.notna(), None)
        .to_dict("records"),
        "notes": [*map(repr, (*fidelity.doubts, *fidelity.notes))],
    }


def trace_table(fidelity: Fidelity) -> Table:
    """Return one row per trace; the one to believe in bold.

    End to end is first start to last end; kernels / unprofiled the sum of kernel times over the
    unprofiled time, both of a step; overheads are those of a step on the GPU and as the CPU saw it;
    ratio is the median of the matched kernels against those of the trace to believe.
    """
    cells = []
    for place, trace in enumerate(fidelity.traces):
        times = trace.times
        agreement = trace.agreement
        spans = (times.kernel_us, times.busy_us, times.gaps_us, times.end_to_end_us)
        texts = (
            times.label,
            f"{times.kernels:,}",
            *(f"{value / 1e3:,.3f}" for value in spans),
            formatted(times.steps, "{}"),
            formatted(trace.kernel_ratio, "{:.3f}"),
            *(formatted(value, "{:+.1f} %") for value in (trace.overhead, trace.cpu_overhead)),
            NONE if agreement is None else f"{100 * agreement.matched_share:.1f} %",
            NONE if agreement is None or agreement.ratio is None else f"{agreement.ratio:.3f}",
        )
        cells.append(Row(texts, "strong" if place == fidelity.believed else ""))
    return Table(columns("trace", numbers=HEADS), cells, "traces")


def kernel_table(fidelity: Fidelity) -> Table:
    """Return the kernels that take longest in the trace to believe, in the other traces against it."""
    others = fidelity.kernels[fidelity.kernels["label"] != fidelity.best]
    return laid_out("profiler-kernels", others.head(SHOWN))

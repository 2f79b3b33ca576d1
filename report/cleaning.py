"""The document of `clean`: the spread of each kernel, what was left out, steps, coverage, counters."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from functools import partial
from typing import Final

import numpy as np
import pandas as pd

from ..output import SCHEMA
from ..table.refusals import reason_of
from ..traces.cleaning.joining import Coverage
from ..traces.cleaning.pipeline import Cleaned, CleanedTraces
from ..traces.cleaning.repeats import REMOVED
from .document import (
    JSON,
    Cell,
    Column,
    Document,
    Line,
    Lines,
    Part,
    Row,
    Table,
    columns,
    lines,
    losses,
    remarked,
    rows,
    upcoming,
    warned,
)
from .formats import NONE, between, counted, formatted, milliseconds, share, shortened
from .layouts import laid_out

# kernels in the table on the terminal, those that take most time; the data have all
SHOWN: Final = 20
_NAME: Final = 34  # characters of a kernel's name, which gives way on a narrow terminal


def cleaning_document(result: CleanedTraces, *, saved: bool = False) -> Document:
    """Return the document of cleaned traces; if the table is not ``saved``, it ends with the table's size."""
    cleaned = result.cleaned
    parts: list[Part] = [*warned(result.doubts), lines(verdicts(cleaned.report))]
    parts += [spread_table(cleaned.report, result.level), removed_table(cleaned)]
    if cleaned.steps["reason"].ne("").any():
        parts.append(step_table(cleaned.steps))
    parts.append(Lines(remarked(cleaned.notes)))
    if result.coverage is not None:
        parts += coverage_parts(result.coverage)
    if result.joined is not None:
        parts.append(laid_out("clean-counters", result.joined.counters))
    parts.append(losses(result.rejected_by_reason, result.remarks, result.unreadable))
    closing = []
    if not saved:
        closing.append(lines([counted(len(result.frame), "measurement")]))
    if result.frame.empty:
        none = "No measurement is left for flopcast train: see the rows rejected"
        closing.append(lines([none]))
    elif saved:
        closing.append(upcoming("flopcast train FILE on what is left"))
    else:
        closing.append(upcoming("-o FILE.parquet keeps them for flopcast train"))
    return Document(opening=parts, closing=closing, data=cleaning_json(result))


def spread_table(report: pd.DataFrame, level: float) -> Table:
    """Return the kernels that take most time, with their median and its interval."""
    lost = report.filter(like=REMOVED).sum(axis=1).astype(np.int64)
    kept = report.assign(lost=lost)[report["n"] > 0]
    heads = ("n", "median, µs", f"{100 * level:g} % interval", "MAD, µs", "CV, %", "removed")
    every = (
        Column("kernel", "kernel"),
        Column("class", "name"),
        *columns(numbers=heads),
        Column("remark"),
    )
    body = []
    for row in kept.to_dict("records"):
        words = ([] if row["settled"] else ["not settled"]) + (
            ["drifts"] if row["drifts"] == 1.0 else []
        )
        texts = (
            shortened(str(row["name"]), _NAME),
            str(row.get("op_class", "")),
            f"{row['n']:,}",
            f"{row['median_us']:,.3f}",
            between(row["lower_us"], row["upper_us"]),
            formatted(row["mad_us"], "{:,.3f}"),
            formatted(100 * row["robust_cv"], "{:.1f}"),
            f"{int(row['lost']):,}" if row["lost"] else NONE,
            Cell(", ".join(words), "warning"),
        )
        body.append(Row(texts))
    over = kept.iloc[SHOWN:]
    more = Cell(f"{len(over)} more", "soft")
    n = f"{over['n'].sum():,}"
    kept_out = f"{over['lost'].sum():,}"
    return Table(
        every,
        body,
        "spread of the repeats",
        shown=SHOWN,
        rest=Row((more, "", n, "", "", "", "", kept_out, "")),
    )


def removed_table(cleaned: Cleaned) -> Table:
    """Return what was left out by reason, with its share of all activities and of their time."""
    removed = cleaned.removed
    kept = len(cleaned.dispatches)
    time = removed["duration_us"].clip(lower=0)
    kept_us = float(cleaned.dispatches["duration_ns"].sum()) / 1e3
    total = len(removed) + kept
    total_us = max(kept_us + float(time.sum()), 1e-9)

    def cells(count: int, time_us: float) -> tuple[str, ...]:
        return (
            f"{count:,}",
            share(count / total, 2),
            milliseconds(time_us),
            share(time_us / total_us, 2),
        )

    lost = [
        Row((reason_of(str(reason)), *cells(count, float(time[removed["reason"] == reason].sum()))))
        for reason, count in cleaned.removed_by_reason.items()
    ]
    heads = columns("reason", numbers=["activities", "share", "time, ms", "of the time"])
    return Table(heads, [*lost, Row((Cell("kept", "strong"), *cells(kept, kept_us)))], "left out")


def step_table(steps: pd.DataFrame) -> Table:
    """Return the steps by outcome: kept, or why they were dropped."""
    body = []
    for reason, group in steps.groupby("reason", sort=False):
        named = ", ".join(str(step) for step in group["step"].head(8)) + (
            ", …" if len(group) > 8 else ""
        )
        span = milliseconds(group["span_us"].median())
        body.append((reason_of(str(reason)) or "kept", named, f"{len(group):,}", span))
    return Table(columns("", "steps", numbers=["number", "median span, ms"]), rows(body), "steps")


def coverage_parts(coverage: Coverage) -> Iterator[Part]:
    """Yield whether every kernel is covered, and those that are not."""
    yield Lines([Line(str(coverage.verdict), "good" if coverage.complete else "warning")])
    missing = coverage.missing.assign(run=coverage.missing["run"].replace("", "all"))
    table = laid_out("clean-missing", missing, name=partial(shortened, width=_NAME))
    rest = Row((Cell(f"{len(missing) - SHOWN} more", "soft"), "", "", ""))
    yield replace(table, rest=rest)


def verdicts(report: pd.DataFrame) -> list[str]:
    """Summarise in sentences how precise the medians are."""
    kept = report[report["n"] > 0]
    bounded = kept[kept["lower_us"].notna()]
    sentences = [
        f"{counted(len(kept), 'kernel')}, {len(bounded):,} with repeats enough for an interval"
    ]
    if len(bounded):
        width = (bounded["upper_us"] - bounded["lower_us"]) / (2 * bounded["median_us"])
        sentences[0] += (
            f": ±{100 * float(width.median()):.1f} % in the median, "
            f"±{100 * float(width.max()):.1f} % at most"
        )
    tested = kept[kept["drifts"].notna()]
    if len(tested):
        apart = int(tested["drifts"].sum())
        sentences.append(
            f"{apart:,} of {len(tested):,} kernels differ between the first and the second half "
            "of their repeats"
        )
    return sentences


def cleaning_json(result: CleanedTraces) -> JSON:
    """Return everything the tables show, and all kernels, for machines."""
    cleaned = result.cleaned
    notes = (*result.doubts, *cleaned.notes, *result.remarks)
    return {
        "schema": SCHEMA,
        "sources": list(result.sources),
        "measured": len(cleaned.dispatches) + len(cleaned.removed),
        "kept": len(cleaned.dispatches),
        "removed": cleaned.removed_by_reason,
        "kernels": cleaned.report.to_dict("records"),
        "steps": cleaned.steps.to_dict("records"),
        "notes": [*map(repr, notes)],
        "rows": len(result.frame),
        "rejected": result.rejected_by_reason,
        "coverage": result.coverage and coverage_json(result.coverage),
        "counters": result.joined and result.joined.counters.to_dict("records"),
        "unreadable": list(result.unreadable),
    }


def coverage_json(coverage: Coverage) -> JSON:
    """Return the verdict, the places and what is missing for machines."""
    return {
        "complete": coverage.complete,
        "proved": coverage.proved,
        "words": str(coverage.verdict),
        "kernels": len(coverage.places),
        "missing": coverage.missing.to_dict("records"),
    }

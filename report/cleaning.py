"""What `flopcast clean` says: the spread of each kernel, what was left out and why, steps, coverage, counters."""

from __future__ import annotations

from typing import Any

import numpy as np
import pandas as pd
from rich.console import Console
from rich.table import Table
from rich.text import Text

from ..traces.cleaning.joining import Coverage, Joined
from ..traces.cleaning.pipeline import Cleaned
from ..traces.cleaning.repeats import REMOVED
from .console import note, plain_table, shortened
from .words import say
from .words.cleaning import REASONS

SHOWN = 20
"""Kernels in the table on the terminal, those that take most time; ``--json`` has all."""
_WORDS = 34  # columns for a kernel's name, which gives way on a narrow terminal


def show_cleaned(console: Console, cleaned: Cleaned, level: float) -> None:
    """Print the spread of the kernels, what was removed, and remarks."""
    console.print(spread_table(cleaned.report, level))
    console.print(removed_table(cleaned))
    if cleaned.steps["reason"].ne("").any():
        console.print(step_table(cleaned.steps))
    for line in verdicts(cleaned.report):
        console.print(Text(line, "dim"))
    for one in cleaned.notes:
        console.print(note(say(one)))


def spread_table(report: pd.DataFrame, level: float) -> Table:
    """Return the kernels that take most time, with their median and how well it is known."""
    numbers = ["n", "median µs", f"{100 * level:g} % interval", "MAD µs", "CV %", "removed"]
    table = plain_table("spread of the repeats", ["kernel", "class"], numbers)
    table.add_column("remark")
    table.columns[1].no_wrap = True
    lost = report.filter(like=REMOVED).sum(axis=1).astype(np.int64)
    rows = report.assign(lost=lost)[report["n"] > 0]
    for row in rows.head(SHOWN).to_dict("records"):
        table.add_row(
            Text(shortened(str(row["name"]), _WORDS), no_wrap=True, overflow="ellipsis"),
            Text(str(row.get("op_class", ""))),
            f"{row['n']:,}",
            f"{row['median_us']:,.3f}",
            _interval(row["lower_us"], row["upper_us"]),
            _number(row["mad_us"], "{:,.3f}"),
            _number(100 * row["robust_cv"], "{:.1f}"),
            f"{int(row['lost']):,}" if row["lost"] else "–",
            Text(_remark(row), "yellow"),
        )
    if len(rows) > SHOWN:
        rest = rows.iloc[SHOWN:]
        table.add_row(
            Text(f"{len(rest)} more", "dim"), "", f"{rest['n'].sum():,}", *[""] * 3, "", f"{rest['lost'].sum():,}"
        )
    return table


def removed_table(cleaned: Cleaned) -> Table:
    """Return what was left out by reason, with its share of all activities and of their time."""
    table = plain_table("left out", ["reason"], ["activities", "share", "time ms", "of the time"])
    removed = cleaned.removed
    kept_us = float(cleaned.dispatches["duration_ns"].sum()) / 1e3
    time = removed["duration_us"].clip(lower=0)
    total, total_us = len(removed) + len(cleaned.dispatches), max(kept_us + float(time.sum()), 1e-9)
    for reason, count in cleaned.removed_by_reason.items():
        own_us = float(time[removed["reason"] == reason].sum())
        share, of_time = f"{100 * count / total:.2f} %", f"{100 * own_us / total_us:.2f} %"
        table.add_row(REASONS[reason], f"{count:,}", share, f"{own_us / 1e3:,.3f}", of_time)
    kept = len(cleaned.dispatches)
    kept_shares = f"{100 * kept / total:.2f} %", f"{kept_us / 1e3:,.3f}", f"{100 * kept_us / total_us:.2f} %"
    table.add_row(Text("kept", "bold"), f"{kept:,}", *kept_shares)
    return table


def step_table(steps: pd.DataFrame) -> Table:
    """Return the steps by what became of them."""
    table = plain_table("steps", ["", "steps"], ["number", "median span ms"])
    for reason, own in steps.groupby("reason", sort=False):
        named = ", ".join(str(step) for step in own["step"].head(8)) + (", …" if len(own) > 8 else "")
        table.add_row(REASONS.get(str(reason), "kept"), named, f"{len(own):,}", f"{own['span_us'].median() / 1e3:,.3f}")
    return table


def counter_table(joined: Joined) -> Table:
    """Return how far passes that recorded the same counter differ."""
    table = plain_table(
        "counters joined", ["counter"], ["passes", "dispatches", "compared", "median CV %", "largest CV %"]
    )
    for row in joined.counters.to_dict("records"):
        cvs = (_number(100 * row[name], "{:.2f}") for name in ("median_cv", "max_cv"))
        table.add_row(row["counter"], *(f"{row[name]:,}" for name in ("passes", "dispatches", "compared")), *cvs)
    return table


def show_coverage(console: Console, coverage: Coverage) -> None:
    """Print whether every kernel is covered, and those that are not."""
    console.print(Text(say(coverage.verdict), "green" if coverage.complete else "yellow"), highlight=False)
    if coverage.missing.empty:
        return
    table = plain_table("not covered", ["kernel", "run"], ["measured", "wanted"])
    for row in coverage.missing.head(SHOWN).to_dict("records"):
        table.add_row(
            Text(shortened(row["name"], _WORDS)), row["run"] or "all", f"{row['covered']:,}", f"{row['wanted']:,}"
        )
    if len(coverage.missing) > SHOWN:
        table.add_row(Text(f"{len(coverage.missing) - SHOWN} more", "dim"), "", "", "")
    console.print(table)


def verdicts(report: pd.DataFrame) -> list[str]:
    """Return in sentences how well the medians are known."""
    kept = report[report["n"] > 0]
    known = kept[kept["lower_us"].notna()]
    lines = [f"{len(kept):,} kernel{'' if len(kept) == 1 else 's'}, {len(known):,} with repeats enough for an interval"]
    if len(known):
        width = (known["upper_us"] - known["lower_us"]) / (2 * known["median_us"])
        lines[0] += f": ±{100 * float(width.median()):.1f} % in the median, ±{100 * float(width.max()):.1f} % at most"
    tested = kept[kept["drifts"].notna()]
    if len(tested):
        apart = int(tested["drifts"].sum())
        lines.append(
            f"{apart:,} of {len(tested):,} kernels differ between the first and the second half of their repeats"
        )
    return lines


def cleaned_json(cleaned: Cleaned) -> dict[str, Any]:
    """Return everything the tables show, and all kernels, as JSON types."""
    return {
        "measured": len(cleaned.dispatches) + len(cleaned.removed),
        "kept": len(cleaned.dispatches),
        "removed": cleaned.removed_by_reason,
        "kernels": _records(cleaned.report),
        "steps": _records(cleaned.steps),
        "notes": [say(one) for one in cleaned.notes],
    }


def coverage_json(coverage: Coverage) -> dict[str, Any]:
    """Return the verdict, the places and what is missing as JSON types."""
    return {
        "complete": coverage.complete,
        "proved": coverage.proved,
        "words": say(coverage.verdict),
        "kernels": len(coverage.places),
        "missing": _records(coverage.missing),
    }


def counters_json(joined: Joined) -> list[dict[str, Any]]:
    """Return the counters and how far their passes differ."""
    return _records(joined.counters)


def _records(table: pd.DataFrame) -> list[dict[str, Any]]:
    return [{str(name): _plain(value) for name, value in row.items()} for row in table.to_dict("records")]


def _plain(value: Any) -> Any:
    return value.item() if isinstance(value, np.generic) else value


def _remark(row: dict[Any, Any]) -> str:
    words = [] if row["settled"] else ["not settled"]
    return ", ".join([*words, *(["drifts"] if row["drifts"] == 1.0 else [])])


def _interval(lower: float, upper: float) -> str:
    return "–" if np.isnan(lower) else f"{lower:,.3f} … {upper:,.3f}"


def _number(value: float, form: str) -> str:
    return "–" if np.isnan(value) else form.format(value)

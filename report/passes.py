"""Passes that profile a program's kernels a few at a time, and what they recorded, as a document."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Final

from ..projection.pass_plan import PassPlan
from ..traces.cleaning.joining import Coverage
from .cleaning import coverage_json, coverage_parts
from .document import Document, Lines, Part, Table, columns, lines, remarked, rows
from .formats import shortened
from .words import say

SCHEMA: Final = 1
_NAME: Final = 48  # columns for a kernel's name


def plan_document(plan: PassPlan, commands: Sequence[str], coverage: Coverage | None = None) -> Document:
    """Return which kernels each pass records and what starts it, or what the passes recorded."""
    outcome, *limits = plan.notes
    parts: list[Part] = [pass_table(plan)]
    if coverage is None:
        parts += [lines(commands), Lines(remarked(limits))]
    else:
        parts += coverage_parts(coverage)
    return Document(title=say(outcome), opening=parts, data=plan_json(plan, commands, coverage))


def pass_table(plan: PassPlan) -> Table:
    """Return one row per kernel, pass by pass."""
    cells = [
        (shortened(row["name"], _NAME), f"{row['pass']}", f"{row['per_step']:,}", f"{row['launches']:,}")
        for row in plan.kernels.to_dict("records")
    ]
    return Table(columns("kernel", numbers=["pass", "launches per step", "launches"]), rows(cells), "passes")


def plan_json(plan: PassPlan, commands: Sequence[str], coverage: Coverage | None) -> dict[str, Any]:
    """Return everything as JSON types."""
    return {
        "schema": SCHEMA,
        "profiler": plan.profiler.value,
        "steps": plan.steps,
        "passes": plan.passes,
        "kernels": plan.kernels.to_dict("records"),
        "commands": list(commands),
        "notes": [say(note) for note in plan.notes],
        "coverage": None if coverage is None else coverage_json(coverage),
    }

"""Why one workload is predicted as it is, as a document: parts of the model, laws, neighbours, unusual features."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final

import pandas as pd

from ..models.explanation import Part
from ..table.measurements import quantity
from .document import Column, Document, Headline, Line, Lines, Row, Section, Table, columns, rows
from .formats import NONE, alike, figure, formatted, known, percent, significant

SCHEMA: Final = 1
_SHOWN: Final = 10  # rows of tables on a terminal
_DEEPER: Final = "\u00a0" * 4  # blanks that pages keep too
_KINDS: Final = {
    "shape": "model of the shape alone",
    "member": "member",
    "base": "base",
    "residual": "residual: a factor on the base",
    "term": "term",
    "model": "model",
}
_BASES: Final = {
    "model": "the model",
    "blend": "a blend of model and simple rule",
    "rule": "a simple rule",
    "": "nothing",
}


@dataclass(frozen=True)
class Explained:
    """What is known of one prediction.

    Attributes
    ----------
    workload, metric, model : str
        What was predicted, of which metric, by which model.
    answer : Mapping
        ``predicted``, ``lower``, ``upper``, ``level``, ``basis``, ``reasons`` (words), ``host`` (what was measured
        there, or None).
    alone : float
        What the model alone says, before a rule outside its range or a correction.
    rule : str or None
        The simple rule that erred least in training, one of ``laws``.
    parts : sequence of Part
        Of that (`models.explanation`).
    laws : mapping of str to float
        What the laws and simple rules say.
    neighbours : DataFrame
        Trained rows, the nearest first: ``group``, ``source``, ``observed``, ``predicted``, ``ape``, ``apart``, the
        factor by which what laws say of them differs at most.
    features : DataFrame
        Where its features lie in the trained range (`evaluation.domain.TrainedRange.places`).
    """

    workload: str
    metric: str
    model: str
    answer: Mapping[str, Any]
    alone: float
    rule: str | None
    parts: Sequence[Part]
    laws: Mapping[str, float]
    neighbours: pd.DataFrame
    features: pd.DataFrame


def explanation_document(found: Explained) -> Document:
    """Return why a workload is predicted as it is, for terminal, page and machines."""
    unit = quantity(found.metric).unit
    rule = found.rule if found.rule in found.laws else None
    predicted, *law = alike(found.answer["predicted"], *([found.laws[rule]] if rule else []))
    rival = f"{rule}: {law[0]} {unit}" if rule else ""
    return Document(
        title=found.workload,
        lead=f"predicted by {found.model}: {quantity(found.metric).label}",
        opening=[
            Headline("", f"{predicted} {unit} on the target", rival, sentence(found)),
            Lines(_reasons(found), "list"),
        ],
        sections=[
            Section("What each part of the model adds", [_parts(found, unit)], "parts", "Parts"),
            Section("Against the laws", [_laws(found, unit)], "laws", "Laws"),
            Section("Nearest trained rows", [_neighbours(found, unit)], "neighbours", "Neighbours"),
            Section("Features, the most unusual first", [_features(found)], "features", "Features"),
        ],
        data=_json(found),
    )


def sentence(found: Explained) -> str:
    """Return between what the prediction lies, what answers, what the host took, and what the nearest trained row."""
    answer, unit = found.answer, quantity(found.metric).unit
    _, lower, upper = alike(answer["predicted"], answer["lower"], answer["upper"])
    told = f"Between {lower} and {upper} {unit} ({100 * answer['level']:g} % interval); "
    told += f"answered by {_BASES[str(answer['basis'])]}"
    if answer["basis"] not in ("model", "") or abs(found.alone / answer["predicted"] - 1) > 1e-9:
        told += f" (the model alone says {figure(found.alone)} {unit})"
    if known(answer.get("host")):
        told += f". The host took {figure(answer['host'])} {unit}"
    if found.rule in found.laws:
        told += f"; {found.rule} is the simple rule that erred least in training"
    if len(found.neighbours):
        nearest = found.neighbours.iloc[0]
        told += f". The nearest trained row took {figure(nearest['observed'])} {unit}, predicted out of fold with an "
        told += f"error of {percent(nearest['ape'])}"
    return f"{told}."


def _reasons(found: Explained) -> list[Line]:
    return [Line(reason, "warning") for reason in found.answer["reasons"]]


def _parts(found: Explained, unit: str) -> Table:
    *values, alone = alike(*(part.value for part in found.parts), found.alone)
    cells = [
        (
            _DEEPER * part.depth + _KINDS[part.kind],
            part.name or ("at least" if part.kind == "term" else NONE),
            value,
            formatted(part.weight, "{:.2f}"),
            formatted(part.factor, "× {:.3f}"),
        )
        for part, value in zip(found.parts, values, strict=True)
    ]
    shown = [*rows(cells), Row(("together", found.model, alone, "", ""), "strong")]
    heads = (Column("part", "name"), Column("name", "cut"), *columns(numbers=(f"says, {unit}", "weight", "factor")))
    caption = "Members are mixed as weighted geometric means; terms add up; a residual multiplies its base."
    return Table(heads, shown, "what each part of the model adds", caption, name="parts")


def _laws(found: Explained, unit: str) -> Table:
    cells = [
        (name, told, formatted(found.answer["predicted"] / value if value else None, "{:.3f}"))
        for (name, value), told in zip(found.laws.items(), alike(*found.laws.values()), strict=True)
    ]
    heads = columns("law or simple rule", numbers=(f"says, {unit}", "prediction / law"))
    return Table(heads, rows(cells), "against the laws", name="laws")


def _neighbours(found: Explained, unit: str) -> Table:
    cells = [
        (row["group"], significant(row["observed"]), significant(row["predicted"]), percent(row["ape"]),
         formatted(row["apart"], "{:.2f} x"), row["source"])
        for row in found.neighbours.to_dict("records")
    ]  # fmt: skip
    numbers = (f"measured, {unit}", f"predicted, {unit}", "error", "apart")
    heads = (*columns("group", numbers=numbers), Column("file and line", "place"))
    caption = (
        "Nearest by what the laws say of them, those of the same group first; predicted by fits that had not seen them."
    )
    return Table(heads, rows(cells), "nearest trained rows", caption, shown=_SHOWN, name="neighbours")


def _features(found: Explained) -> Table:
    cells = [
        Row(
            (
                str(row["feature"]), figure(row["value"]), figure(row["low"]), figure(row["high"]),
                formatted(None if not known(row["place"]) else 100 * row["place"], "{:.0f} %"),
            ),
            "warning" if row["distance"] > 0 else "",
        )
        for row in found.features.to_dict("records")
    ]  # fmt: skip
    heads = columns("feature", numbers=("value", "least trained", "most trained", "place in the range"))
    return Table(heads, cells, "features, the most unusual first", shown=_SHOWN, name="features")


def _json(found: Explained) -> dict[str, Any]:
    return {
        "schema": SCHEMA,
        "workload": found.workload,
        "metric": found.metric,
        "model": found.model,
        **found.answer,
        "model_alone": found.alone,
        "statement": sentence(found),
        "parts": [vars(part) for part in found.parts],
        "laws": dict(found.laws),
        "neighbours": found.neighbours.to_dict("records"),
        "features": found.features.to_dict("records"),
    }

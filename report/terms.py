"""What `scale terms` says: the formula of each region, and what it predicts, as a document."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

import numpy as np
import pandas as pd

from ..arrays import FloatArray
from ..output import SCHEMA
from ..remarks import Remark, remark
from ..scaling.terms import TermModel
from .document import (
    JSON,
    Column,
    Document,
    Lines,
    Section,
    Table,
    columns,
    lines,
    picked,
    records,
    remarked,
    rows,
)
from .formats import counted, figure, formatted

_READING = (
    "adjusted R² and SMAPE (mean of 2·|predicted - measured| / sum) are of the points that the "
    "formula was fitted to; the interval says how far it may be off elsewhere."
)


def terms_document(
    models: Sequence[TermModel],
    table: pd.DataFrame,
    at: FloatArray,
    level: float,
    notes: Sequence[Remark],
) -> Document:
    """Return formulas and predictions (`api.term_models.TermModels`) for readers."""
    parameters = models[0].parameters
    count = counted(len(models), "formula")
    lead = f"{count} of {', '.join(parameters)}"
    remarks = Lines(remarked([*notes, *_remarks(models, at)]), "list")
    return Document(
        title="Performance over parameters",
        lead=lead,
        opening=[_answer(table, parameters, level)],
        sections=[
            Section("Formulas", [_formulas(models)], "formulas", "Formulas"),
            Section("Predicted", [_predictions(table, parameters, level, at)], "predicted"),
            Section("Remarks", [remarks]),
        ],
        data=_json(models, table, level, notes),
    )


def _answer(table: pd.DataFrame, parameters: Sequence[str], level: float) -> Lines:
    """Say what is predicted of the first region at the farthest point that was asked for."""
    if table.empty:
        return lines([])
    last = table[table["region"].eq(table["region"].iloc[0])].iloc[-1]
    where = ", ".join(f"{name} = {last[name]:g}" for name in parameters)
    said = f"{last['region']}, {last['metric']} at {where}: {figure(last['predicted'])}"
    if np.isfinite(last["lower"]):
        reach = f"{figure(last['lower'])} – {figure(last['upper'])}"
        said += f" ({100 * level:g} % interval {reach}), in the unit of the data"
    return lines([f"{said}."], "answer")


def _formulas(models: Sequence[TermModel]) -> Table:
    cells = []
    for model in models:
        fits = formatted(model.adjusted_r2, "{:.4f}"), f"{model.smape_percent:.2f}"
        cells.append((f"{model.region}, {model.metric}", model.formula, *fits))
    heads = (
        Column("region", "name"),
        Column("formula", "prose"),
        Column("adj. R²", "number"),
        Column("SMAPE, %", "number"),
    )
    return Table(heads, rows(cells), caption=_READING)


def _predictions(
    table: pd.DataFrame, parameters: Sequence[str], level: float, at: FloatArray
) -> Table:
    """Return what the formulas say of each point, with what was measured there; no rows without points."""
    if not len(at):
        return Table((), ())
    compared = bool(table["measured"].notna().any())
    heads = [*parameters, "predicted", f"{100 * level:g} % interval"]
    if compared:
        heads += ["measured", "error, %"]
    cells = []
    for row in table.to_dict("records"):
        words = [f"{row['region']}, {row['metric']}"]
        words += [f"{row[name]:g}" for name in parameters]
        interval = "–"
        if np.isfinite(row["lower"]):
            interval = f"[{figure(row['lower'])}, {figure(row['upper'])}]"
        words += [figure(row["predicted"]), interval]
        if compared:
            words += [figure(row["measured"]), formatted(row["error_percent"], "{:.1f}")]
        cells.append(words)
    return Table((Column("region", "name"), *columns(numbers=heads)), rows(cells))


def _remarks(models: Sequence[TermModel], at: FloatArray) -> Iterator[Remark]:
    """Yield what is said of the fits, each once, and how far the points lie beyond what was measured."""
    yield from dict.fromkeys(note for model in models for note in model.notes)
    if not len(at):
        return
    farthest = max(float(model.beyond(at).max()) for model in models)
    if farthest > 1:
        text = f"the farthest point lies {farthest:.3g} times beyond the measured values"
        yield remark("beyond-measured-values", text, times=farthest)


def _json(
    models: Sequence[TermModel], table: pd.DataFrame, level: float, notes: Sequence[Remark]
) -> JSON:
    """Return the same for machines; a figure that does not exist is NaN."""
    formulas = []
    for model in models:
        terms = []
        for product, coefficient in zip(
            model.fit.structure, model.fit.coefficients[1:], strict=True
        ):
            factors = {}
            for place in product:
                term = model.fit.terms[place]
                factors[model.parameters[place]] = {
                    "exponent": str(term.exponent),
                    "log2_exponent": term.logarithms,
                }
            terms.append({"coefficient": float(coefficient), "factors": factors})
        formulas.append(
            {
                **picked(model, "region", "metric", "formula"),
                "constant": float(model.fit.coefficients[0]),
                "terms": terms,
                "adjusted_r2": model.adjusted_r2,
                "smape_percent": model.smape_percent,
                "notes": [*map(repr, model.notes)],
            }
        )
    return {
        "schema": SCHEMA,
        "parameters": list(models[0].parameters),
        "level": level,
        "formulas": formulas,
        "rows": records(table),
        "notes": [*map(repr, notes)],
    }

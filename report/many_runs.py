"""The runs of a folder side by side: what each predicts, how well, from how many rows, and when it was made."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

import numpy as np
import pandas as pd

from ..output import SCHEMA
from .document import JSON, Bar, Bars, Document, Lines, Section, Table, lines, records
from .formats import counted, has_value, percent
from .layouts import laid_out
from .run_folder import Metrics, as_trained, simplest
from .training import left_out, metric, title

DRAWN: Final = 20
"""Runs that a panel of bars shows."""
SCHEMES: Final = ("grouped", "kfold")
"""Schemes whose errors are shown, that of the harder question first."""


def runs_frame(runs: Mapping[str, Metrics]) -> pd.DataFrame:
    """Return a row for each run, from its ``metrics.json`` by its name.

    Of a run that was corrected afterwards (``corrected_by``) errors are those since. Errors, their
    ends and shares are in percent; ``held`` is the share of workloads that lay in
    their interval. A figure that a run does not know is missing. Runs that predict the same stand
    together, the least error of the harder question first.
    """
    table = pd.DataFrame([_row(name, metrics) for name, metrics in runs.items()])
    order = ["predicts", "metric", "grouped_e_out", "kfold_e_out", "run"]
    return table.sort_values(order, kind="stable", ignore_index=True)


def _row(name: str, metrics: Metrics) -> JSON:
    """Return the figures of one run."""
    data = metrics.get("data") or {}
    row: JSON = {
        "run": name,
        "predicts": title(data),
        "metric": metric(data),
        "model": (metrics.get("model") or {}).get("name"),
        "rows": data.get("n"),
        "groups": data.get("groups"),
        "corrected_by": (metrics.get("correction") or {}).get("factor"),
    }
    schemes = {cv["scheme"]: cv for cv in metrics.get("cv") or []}
    held = (metrics.get("intervals") or {}).get("schemes") or {}
    for scheme in SCHEMES:
        cv = schemes.get(scheme) or {}
        selected = cv.get("selected") or {}
        rule = simplest(cv) or {}
        if as_trained(cv):
            rule = {}  # its error is of the rows that were trained, that of the model of later ones
        lower, upper = selected.get("interval") or (None, None)
        row |= {
            f"{scheme}_e_out": selected.get("e_out"),
            f"{scheme}_lower": lower,
            f"{scheme}_upper": upper,
            f"{scheme}_ir_10": (selected.get("ir") or {}).get("10"),
            f"{scheme}_rule": rule.get("name"),
            f"{scheme}_rule_e_out": rule.get("e_out"),
            f"{scheme}_held": (held.get(scheme) or {}).get("coverage"),
        }
    made = metrics.get("provenance") or {}
    return row | {
        "seed": made.get("seed"),
        "date": made.get("date"),
        "command": made.get("command"),
    }


def many_runs_document(folder: str, table: pd.DataFrame) -> Document:
    """Return the runs of a folder side by side, as `runs_frame` has them, for terminal, page and machines."""
    return Document(
        title=f"Runs in {folder}",
        lead=counted(len(table), "run"),
        opening=[_least(table), _corrected(table), *_panels(table)],
        sections=[Section("Side by side", [_side_by_side(table)])],
        offer="--out FOLDER writes the page, to sort and search",
        data={"schema": SCHEMA, "kind": "many runs", "folder": folder, "runs": records(table)},
    )


def _least(table: pd.DataFrame) -> Lines:
    """Say for each question the least error, and of which run; nothing of questions that one run alone answers."""
    said = []
    for (predicts, what), runs in table.groupby(["predicts", "metric"], sort=False):
        errors = runs["grouped_e_out"].astype(float)
        if errors.notna().sum() < 2:
            continue
        best = runs.iloc[int(np.nanargmin(errors))]
        said.append(
            f"{predicts} ({what}): of {counted(len(runs), 'run')} the least error on "
            f"{left_out('grouped')} is {percent(best['grouped_e_out'])}, of {best['run']}."
        )
    return lines(said, "answer")


def _corrected(table: pd.DataFrame) -> Lines:
    """Say which runs were corrected, and what their errors are of."""
    said = []
    for run in table[table["corrected_by"].notna()].to_dict("records"):
        factor = f"{run['corrected_by']:.3f}"
        about = "its errors are those since, on the rows that were measured then"
        unknown = [left_out(name) for name in SCHEMES if not has_value(run[f"{name}_e_out"])]
        if unknown:
            about += f"; not measured since: {' and '.join(unknown)}"
        said.append(f"{run['run']} was corrected by {factor} after training: {about}.")
    return lines(said, "answer")


def _panels(table: pd.DataFrame) -> list[Bars]:
    """Return small multiples: a panel for each figure, a bar for each run, the runs in one order."""
    panels = (
        ("grouped_e_out", f"error, {left_out('grouped')}"),
        ("kfold_e_out", f"error, {left_out('kfold')}"),
        ("grouped_ir_10", f"within 10 %, {left_out('grouped')}"),
    )
    made = []
    for column, heading in panels:
        values = table.set_index("run")[column].astype(float).dropna().head(DRAWN)
        if values.empty:
            continue
        widest = max(float(values.max()), 1e-9)
        bars = []
        for run, value in values.items():
            bars.append(Bar(str(run), float(value) / widest, percent(value)))
        made.append(Bars(heading, bars))
    return made


def _side_by_side(table: pd.DataFrame) -> Table:
    return laid_out("runs", table, {name: left_out(name) for name in SCHEMES})

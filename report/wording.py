"""What a training run says in words and numbers; the terminal and the HTML page print the same."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from typing import Any

import pandas as pd

from ..table.metric import quantity

Row = Mapping[str, Any]
"""One line of a model table: a row of ``metrics.json``."""

HEADERS = ("E_out", "E_in", "median", "worst", "IR 5", "IR 10", "IR 20", "feat.", "fitted to", "fit s")
"""Columns of a model table after the name; errors in %, IR T is the share of rows with an error of at most T %."""

ANALYTIC = "FLOPS scaling"
"""The baseline that headlines compare with, where it exists."""


def number(value: float | None) -> str:
    """Return a figure with one decimal, or in powers of ten where it has become absurd; ``–`` for none."""
    if value is None or not math.isfinite(value):
        return "–"
    return f"{value:.1f}" if abs(value) < 1e5 else f"{value:.1e}"


def percent(value: float | None) -> str:
    """Return a percentage with one decimal and its sign."""
    return f"{number(value)} %"


def cells(row: Row) -> list[str]:
    """Return the text of a model's line under :data:`HEADERS`; empty where the model failed."""
    if row.get("error"):
        return []
    ir = row.get("ir") or {}
    chosen, available = row.get("features_selected"), row.get("features_available")
    return [
        *(number(row.get(key)) for key in ("e_out", "e_in", "median_ape", "max_ape")),
        *(number(ir.get(threshold)) for threshold in ("5", "10", "20")),
        f"{'–' if chosen is None else chosen}/{'–' if available is None else available}",
        row.get("space") or "–",
        number(row.get("fit_seconds")),
    ]


def ordered(cv: Row) -> list[tuple[Row, str]]:
    """Return the rows of one scheme with their mark: baselines as given, then models from best to failed.

    The mark is ``*`` for the selected model, ``≈`` for those as good within the uncertainty, and empty otherwise.
    """
    chosen = cv.get("selected") or {}
    marks = {**dict.fromkeys(chosen.get("tied") or [], "≈"), chosen.get("name"): "*"}
    models = sorted(cv.get("models") or [], key=lambda row: (bool(row.get("error")), _error(row), row["name"]))
    return [(row, marks.get(row["name"], "")) for row in [*(cv.get("baselines") or []), *models]]


def _error(row: Row) -> float:
    error = row.get("e_out")
    return math.inf if error is None else float(error)


def reference(cv: Row) -> Row | None:
    """Return the baseline to compare with: FLOPS scaling, else the first without fitting, else the first."""
    rows = [row for row in cv.get("baselines") or [] if row.get("e_out") is not None]
    named = [row for row in rows if row["name"] == ANALYTIC]
    analytic = [row for row in rows if row.get("space") == "no fitting"]
    return next(iter([*named, *analytic, *rows]), None)


def left_out(name: str) -> str:
    """Say in two words what is predicted under a scheme."""
    return {"kfold": "shuffled workloads", "grouped": "unseen groups"}.get(name, name)


def scheme(cv: Row) -> str:
    """Say what a cross-validation scheme predicts and how."""
    folds = f"{cv.get('folds', '?')} folds"
    return f"{left_out(cv['scheme'])} ({'whole groups left out, ' if cv['scheme'] == 'grouped' else ''}{folds})"


def title(data: Row) -> str:
    """Name the prediction: ``MI300X → MI355X``, or ``MI300X, new workloads`` where host and target are one."""
    host, target = data.get("host"), data.get("target") or "?"
    return f"{host} → {target}" if host and host != target else f"{target}, new workloads"


def metric(data: Row) -> str:
    """Return the axis label of the trained metric, e.g. ``time, µs`` for ``duration_us``."""
    return quantity(str(data.get("metric") or "duration_us")).label


def verdict(cv: Row) -> list[str]:
    """Return the sentences about the selected model of one scheme: its honest error, its baseline, its ties."""
    chosen = cv.get("selected")
    if not chosen:
        return []
    said = [_honest(chosen) + _against(chosen, reference(cv))]
    if (naive := chosen.get("e_out_table")) is not None:
        flatters = ", so it flatters" if naive < (chosen.get("e_out") or 0.0) else ""
        method = f" ({chosen['method']})" if chosen.get("method") else ""
        said.append(
            f"The table's {percent(naive)} was also used to choose it{flatters}; the honest figure includes the choice"
            f"{method}."
        )
    if own := chosen.get("best_model"):
        said.append(f"Of the models alone: {_honest(own)}.")
    if ties := [name for name in chosen.get("tied") or [] if name != chosen["name"]]:
        named = ", ".join(ties[:5]) + (f" and {len(ties) - 5} more" if len(ties) > 5 else "")
        said.append(f"Within the uncertainty of this estimate: {named} — choosing between them is a coin toss.")
    return said


def _honest(chosen: Row) -> str:
    return f"{chosen['name']}: honest error {percent(chosen.get('e_out'))}{interval(chosen)} out of sample"


def interval(chosen: Row) -> str:
    """Say between what the honest error lies."""
    if not (bounds := chosen.get("interval")):
        return ""
    level = f"{100 * chosen['level']:.0f} % interval " if chosen.get("level") else ""
    return f" ({level}{number(bounds[0])} – {percent(bounds[1])})"


def _against(chosen: Row, baseline: Row | None) -> str:
    if baseline is None or not chosen.get("e_out"):
        return "."
    ratio = baseline["e_out"] / chosen["e_out"]
    compared = f"{ratio:.1f} times smaller" if ratio >= 1 else f"{1 / ratio:.1f} times LARGER"
    return f", against {percent(baseline['e_out'])} of {baseline['name']}: {compared}."


def headline(cv: Row) -> str | None:
    """Return ``FLOPS scaling: 31.7 % → flopcast: 9.4 %`` for one scheme, or None where nothing was selected."""
    chosen, baseline = cv.get("selected"), reference(cv)
    if not chosen:
        return None
    before = f"{baseline['name']}: {percent(baseline['e_out'])} → " if baseline else ""
    return f"{before}flopcast: {percent(chosen.get('e_out'))}"


def counts(data: Row) -> list[tuple[str, str]]:
    """Return what the model was trained on, as (label, value)."""
    paired = bool(data.get("host")) and data.get("host") != data.get("target")
    lines = [
        ("pairs of host and target" if paired else "workloads", data.get("n")),
        ("groups", data.get("groups")),
        ("features available", data.get("features_available")),
        ("host rows without a target", data.get("unpaired_host") if paired else None),
        ("target rows without a host", data.get("unpaired_target") if paired else None),
        ("rows of slower kernels left out", data.get("slower_kernels")),
        (f"rows without {data.get('metric')}", data.get("without_metric")),
        (f"rows whose {data.get('metric')} is not a positive number", data.get("metric_not_positive")),
        ("rows of kernels without an operator left out", data.get("without_operator")),
    ]
    return [(label, f"{value:,}") for label, value in lines if value is not None]


def covered(intervals: Row) -> list[tuple[str, str, str]]:
    """Return (scheme, coverage, median width) of the prediction intervals, as text."""
    schemes = intervals.get("schemes") or {"": intervals}
    return [
        (left_out(name), _share(row.get("coverage")), _share(row.get("median_relative_width")))
        for name, row in schemes.items()
        if row.get("coverage") is not None
    ]


def _share(fraction: float | None) -> str:
    return percent(None if fraction is None else 100 * fraction)


def rankings(ranking: Sequence[Row], top: int) -> dict[str, list[tuple[str, float]]]:
    """Return the first ``top`` (feature, value) of each measure, in the order given."""
    found: dict[str, list[tuple[str, float]]] = {}
    for entry in ranking:
        rows = found.setdefault(str(entry["measure"]), [])
        if len(rows) < top and entry.get("value") is not None:
            rows.append((str(entry["feature"]), float(entry["value"])))
    return {measure: rows for measure, rows in found.items() if rows}


def losses(rejected: pd.DataFrame, examples: int = 3) -> dict[str, dict[str, Any]]:
    """Return the rows that cleaning rejected as the ``rejected`` of a data report.

    Parameters
    ----------
    rejected : DataFrame
        Columns ``source`` (file:line), ``reason`` and ``detail``, one row per rejected row.
    examples : int
        How many rows to quote for each reason.

    Returns
    -------
    dict
        ``{reason: {"count": rows, "examples": ["file:line: detail", ...]}}``, the most frequent reason first.
    """
    found = {}
    for reason, count in (
        rejected["reason"].value_counts().sort_index().sort_values(ascending=False, kind="stable").items()
    ):
        first = rejected[rejected["reason"] == reason].head(examples)
        pairs = zip(first["source"].astype(str), first["detail"].astype(str), strict=True)
        quoted = [f"{source}: {detail}" if detail else source for source, detail in pairs]
        found[str(reason)] = {"count": int(count), "examples": quoted}
    return found

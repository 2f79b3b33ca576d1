"""What `validate` says: a table and conclusions for the terminal, and the same for machines."""

from __future__ import annotations

from collections.abc import Iterator
from math import isnan
from typing import Any

import numpy as np
from rich.table import Table
from rich.text import Text

from ..evaluation.law_comparison import Explanation
from ..evaluation.linear_scaling import ClassFinding, Efficiency, LawFinding, ValidationResult
from ..evaluation.verdicts import ALPHA, MIN_GROUPS, MIN_ROWS, MOST_ROWS, Evidence, Interval, Outcome
from ..table.metric import Quantity, quantity
from .console import plain_table

SCHEMA = 1
QUESTION = "Does linear scaling hold?"
FIGURES = ("median [90 %]", "slope [95 %]", "scatter", "E_out")

_STYLES = {
    Outcome.HOLDS: "green",
    Outcome.CORRECTED: "cyan",
    Outcome.SIZE: "red",
    Outcome.SCATTER: "red",
    Outcome.UNDECIDED: "yellow",
    Outcome.TOO_FEW: "dim",
    Outcome.UNKNOWN: "dim",
}
_NAMED = 4
"""Classes named in one line of the summary."""

_RANK = dict.fromkeys(Outcome, 0) | {Outcome.CORRECTED: 1, Outcome.HOLDS: 2}
"""How much of a law is left, to say what holds instead of another."""


def validation_table(result: ValidationResult) -> Table:
    """Return the evidence and the verdict on every law, class by class."""
    table = plain_table(f"{QUESTION} {asked(result)}", ["class / law"], FIGURES, caption=legend(result))
    table.columns[0].no_wrap = True
    table.add_column("verdict")
    for finding in sorted(result.classes, key=lambda finding: not finding.judged):
        for label, figures, words, outcome in class_lines(finding):
            style = _STYLES[outcome] if outcome else "dim"
            name = Text(label, "bold") if label == finding.name else Text(f"  {label}")
            table.add_row(name, *(Text(cell, "" if outcome else "dim") for cell in figures), Text(words, style))
        if finding.judged:
            table.add_section()
    return table


def class_lines(finding: ClassFinding) -> Iterator[tuple[str, tuple[str, ...], str, Outcome | None]]:
    """Yield a class as lines of text: its name and size, each analytic law, each fitted law.

    Yields
    ------
    label : str
    figures : tuple of str
        Under the headings `FIGURES`.
    words : str
        The verdict, the parameters of a fitted law, or the efficiencies of the class.
    outcome : Outcome or None
        Of an analytic law.
    """
    size = (_count(finding.rows, "row"), _count(finding.groups, "group"), "", "")
    if not finding.judged:
        outcome = finding.laws[0].verdict.outcome
        yield finding.name, size, str(outcome), outcome
        return
    yield finding.name, size, _efficiencies(finding.efficiency), None
    errors = {one.law: one for one in finding.explanations}
    for law in finding.laws:
        error = _error(errors[law.law]) if law.law in errors else ""
        yield law.law, (*_figures(law.evidence), error), law.verdict.text, law.verdict.outcome
    for one in finding.explanations:
        if one.parameters:
            yield one.law, ("", "", "", _error(one)), _parameters(one.parameters, quantity(finding.metric)), None


def asked(result: ValidationResult) -> str:
    """Return one line that says of which data the question was asked."""
    data = result.dataset
    host = data.host.name if data.host else "host"
    return (
        f"{host} → {data.target.name}, {data.metric}: "
        f"{len(data.y)} pairs, {len(np.unique(data.groups))} groups, margin ±{100 * result.margin:g} %"
    )


def legend(result: ValidationResult) -> str:
    """Return how to read the table."""
    measured = quantity(result.dataset.metric)
    target, law = f"{measured.symbol}_target", f"{measured.symbol}_law"
    slope = (
        f"slope: of log {target} on log {law}, cluster-robust; 1 = no dependence on size; tested at {ALPHA:.0%}, Holm "
        "over classes. "
    )
    none = f"slope: not asked, {measured.noun} does not grow with the work and would say nothing about size. "
    return (
        f"median: of {target} / {law}, 1 = the law is right, with its cluster-bootstrap interval; 'holds' = that "
        f"interval lies within the margin. {slope if measured.grows else none}"
        f"scatter: {MOST_ROWS:.0%} of the rows lie within this. E_out: "
        "mean absolute percentage error out of sample, groups held out; * = not told apart from the best. "
        f"Too few data: fewer than {MIN_ROWS} rows or {MIN_GROUPS} groups. "
        "HE, BW: median share of the peak FLOPS and of the peak memory bandwidth, host→target."
    )


def summary(result: ValidationResult) -> list[str]:
    """Return what the evidence comes to: a sentence on all rows, then where each law holds and where it fails."""
    pooled, *classes = result.classes
    judged = [finding for finding in classes if finding.judged]
    lines = [conclusion(pooled)]
    for position, law in enumerate(pooled.laws):
        names: dict[Outcome, list[str]] = {outcome: [] for outcome in Outcome}
        for finding in judged:
            names[finding.laws[position].verdict.outcome].append(finding.name)
        parts = [f"{outcome} in {_listed(found)}" for outcome, found in names.items() if found]
        lines += [f"{law.law}: {'; '.join(parts)}"] if parts else []
    if few := [finding.rows for finding in classes if not finding.judged]:
        lines.append(f"too few data: {len(few)} of {len(classes)} classes, {_count(sum(few), 'row')}")
    return lines


def conclusion(finding: ClassFinding) -> str:
    """Return one sentence on a class: the verdict on the first law, what holds instead, and what predicts best."""
    first, *others = finding.laws
    sentence = f"{finding.name}: {first.law} {first.verdict}"
    if better := [law for law in others if _RANK[law.verdict.outcome] > _RANK[first.verdict.outcome]]:
        sentence += "; instead, " + " and ".join(f"{law.law} {law.verdict}" for law in better)
    if not finding.explanations:
        return f"{sentence}."
    best, *rest = finding.explanations
    fit = f" ({_parameters(best.parameters, quantity(finding.metric))})" if best.parameters else ""
    sentence += f". Out of sample {best.law}{fit} errs least, by {_percent(best.mape)}"
    if equals := [one.law for one in rest if one.as_good_as_best]:
        sentence += f", not told apart from {', '.join(equals)}"
    return sentence + "".join(f"; {one.law} by {_percent(one.mape)}" for one in rest if one.law == first.law) + "."


def validation_json(result: ValidationResult) -> dict[str, Any]:
    """Return the result for machines; keys are stable within a schema, a figure that does not exist is NaN."""
    data = result.dataset
    return {
        "schema": SCHEMA,
        "host": data.host.name if data.host else None,
        "target": data.target.name,
        "metric": data.metric,
        "margin": result.margin,
        "alpha": ALPHA,
        "folds": result.folds,
        "bootstrap": {"replicates": result.replicates, "seed": result.seed},
        "data": {
            "pairs": len(data.y),
            "groups": len(np.unique(data.groups)),
            "rejected": result.rejected,
            "pairing": {key: value for key, value in data.report.items() if key != "features"},
        },
        "classes": [_class_json(finding) for finding in result.classes],
        "summary": summary(result),
        "notes": list(result.notes),
    }


def _class_json(finding: ClassFinding) -> dict[str, Any]:
    return {
        "op": finding.op,
        "dtype": finding.dtype,
        "bound": finding.bound,
        "rows": finding.rows,
        "groups": finding.groups,
        "conclusion": conclusion(finding),
        "host_us": {"p5": finding.host_us[0], "p95": finding.host_us[1]},
        "efficiency": vars(finding.efficiency),
        "laws": [_law_json(law) for law in finding.laws],
        "out_of_sample": [
            {
                "law": one.law,
                "e_out": vars(one.mape),
                "as_good_as_best": one.as_good_as_best,
                "parameters": one.parameters,
            }
            for one in finding.explanations
        ],
    }


def _law_json(law: LawFinding) -> dict[str, Any]:
    return {
        "law": law.law,
        "median_ratio": law.ratio,
        "verdict": str(law.verdict.outcome),
        "text": law.verdict.text,
        "evidence": None if law.evidence is None else _evidence_json(law.evidence),
    }


def _evidence_json(evidence: Evidence) -> dict[str, Any]:
    return {
        "rows": evidence.rows,
        "groups": evidence.groups,
        "deviation": vars(evidence.deviation),
        "slope": None if evidence.slope is None else vars(evidence.slope),
        "slope_p": evidence.slope_p,
        "attenuated_slope": evidence.attenuated_slope,
        "size_p": evidence.size_p,
        "drift": evidence.drift,
        "scatter": evidence.scatter,
    }


def _figures(evidence: Evidence | None) -> tuple[str, str, str]:
    if evidence is None:
        return "", "", ""
    return str(evidence.deviation), str(evidence.slope or "–"), f"{100 * evidence.scatter:.1f} %"


def _error(one: Explanation) -> str:
    return f"{one.mape.value:.1f} %" + ("*" if one.as_good_as_best else " ")


def _efficiencies(shares: Efficiency) -> str:
    flops = f"HE {_share(shares.host_flops)}→{_share(shares.target_flops)}"
    return f"{flops}, BW {_share(shares.host_bandwidth)}→{_share(shares.target_bandwidth)} %"


def _share(value: float) -> str:
    digits = 0 if value >= 0.1 else 1 if value >= 0.01 else 2
    return "–" if isnan(value) else f"{100 * value:.{digits}f}"


def _count(number: int, noun: str) -> str:
    return f"{number} {noun}" + ("" if number == 1 else "s")


def _listed(names: list[str]) -> str:
    """Name a few classes, and count the others."""
    more = len(names) - _NAMED
    return ", ".join(names[:_NAMED]) + (f" and {more} more" if more > 0 else "")


def _percent(interval: Interval) -> str:
    return f"{interval.value:.1f} % [{interval.lower:.1f}, {interval.upper:.1f}]"


def _parameters(parameters: dict[str, float], measured: Quantity) -> str:
    host = f"{measured.symbol}_host"
    if "ratio" in parameters:
        return f"{parameters['ratio']:.3g}·{host}"
    return f"{parameters[f'a_{measured.suffix}']:.3g} {measured.unit} + {parameters['b']:.3g}·{host}"

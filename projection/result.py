"""Everything that is said of a trace on another GPU, gathered."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

import pandas as pd

from ..hardware import GPU
from ..traces.summary import Annotated
from .account import (
    class_table,
    gap_summary,
    outcome,
    path_kernels,
    path_shares,
    remark_table,
    step_table,
    total_table,
    verdict,
)
from .forecast import CPU_SIGMA, forecast, names_of
from .split import STEP, STREAM, time_split
from .sweep import Sweep, changes_of_bound
from .sweep import sweeps as all_sweeps
from .uncertainty import Uncertainty, parse_sigmas
from .whole_trace import PUBLISHED, Laws, Projection, project_trace

SCHEMA = 1


@dataclass(frozen=True)
class Result:
    """A projection with its baseline, its uncertainty, and the tables that explain both.

    Attributes
    ----------
    label : str
        What to call the trace.
    projection, published : Projection
        With the laws asked for, and by the published methodology.
    uncertainty : Uncertainty
        Of the projected end-to-end time.
    totals, classes, gaps, steps, remarks : DataFrame
        As `account` gives them.
    split, streams, step_split : DataFrame
        The measured time split (`split.time_split`) of what counts: one row; by stream; by step, none where there are
        none.
    path, measured_path : dict of str to float
        Shares of the critical path, projected and as measured.
    path_kernels : DataFrame
        The kernels of the projected one (`pace.path_kernels`).
    verdict : str
        What sets the pace on the target.
    sweeps : DataFrame or None
        Of every sweep asked for, one below the other.
    notes : tuple of str
        What a reader should know.
    """

    label: str
    projection: Projection
    published: Projection
    uncertainty: Uncertainty
    totals: pd.DataFrame
    classes: pd.DataFrame
    gaps: pd.DataFrame
    steps: pd.DataFrame
    remarks: pd.DataFrame
    split: pd.DataFrame
    streams: pd.DataFrame
    step_split: pd.DataFrame
    path: dict[str, float]
    measured_path: dict[str, float]
    path_kernels: pd.DataFrame
    verdict: str
    sweeps: pd.DataFrame | None
    notes: tuple[str, ...]

    def to_dict(self) -> dict[str, Any]:
        """Return it as JSON types; the activities themselves are not in it."""
        unsure = self.uncertainty
        return {
            "schema": SCHEMA,
            "trace": self.label,
            "host": self.projection.host.name,
            "target": self.projection.target.name,
            "laws": _laws(self.projection.laws),
            "measured_us": self.projection.measured_us,
            "projected_us": unsure.nominal_us,
            "published_us": self.published.totals["sum"],
            "interval": {
                "level": unsure.level,
                "lower_us": unsure.lower_us,
                "upper_us": unsure.upper_us,
                "median_us": unsure.median_us,
                "half_width": unsure.half_width,
                "band": unsure.band,
                "samples": unsure.samples,
                "seed": unsure.seed,
                "convergence": unsure.convergence,
                "tornado": _records(unsure.tornado),
            },
            "verdict": self.verdict,
            "critical_path": {
                "measured": self.measured_path,
                "projected": self.path,
                "kernels": _records(self.path_kernels),
            },
            "totals": _records(self.totals),
            "classes": _records(self.classes),
            "split": _records(self.split)[0],
            "split_by_stream": _records(self.streams),
            "split_by_step": _records(self.step_split),
            "gaps": _records(self.gaps),
            "steps": _records(self.steps),
            "law_remarks": _records(self.remarks),
            "sweep": None if self.sweeps is None else _records(self.sweeps),
            "notes": list(self.notes),
        }


def result_of(
    label: str,
    trace: Annotated,
    host: GPU,
    target: GPU,
    laws: Laws | None = None,
    *,
    stated: str = "",
    sweeps: Sequence[Sweep] = (),
    level: float = 0.9,
    samples: int = 256,
    seed: int = 0,
) -> Result:
    """Project a trace, and gather what is to be said of it.

    Parameters
    ----------
    label : str
        What to call the trace.
    trace : Annotated
        With the CPU's calls, if the file has them.
    host, target : GPU
        Where it was measured, and where it is to run.
    laws : Laws, optional
        `Laws()` by default.
    stated : str
        Uncertainties as the user states them: ``"gemm=0.1,memory_bw_gbs=0.05"`` (`factors.parse_sigmas`).
    sweeps : sequence of Sweep
        Figures of the target to change, one after the other.
    level, samples, seed
        Of the interval (`uncertainty.propagate`).

    Raises
    ------
    DataError
        As `project_trace`, `parse_sigmas` and `propagate`.
    """
    projection = project_trace(trace, host, target, laws)
    published = project_trace(trace, host, target, replace(PUBLISHED, network=projection.laws.network),
                              graph=projection.graph)  # fmt: skip
    sigmas = parse_sigmas(stated, names_of(projection)) if stated else {}
    table, linked = trace.dispatches, bool(trace.dispatches["linked"].any())
    in_steps = table[table["step"].notna() & (table["linked"] | (not linked))]
    return Result(
        label=label,
        projection=projection,
        published=published,
        uncertainty=forecast(projection, sigmas, level=level, samples=samples, seed=seed),
        totals=total_table(projection, published),
        classes=class_table(projection, published, sigmas, level=level),
        gaps=gap_summary(projection),
        steps=step_table(projection),
        remarks=remark_table(projection),
        split=time_split(table, linked_only=linked),
        streams=time_split(table, STREAM, linked_only=linked),
        step_split=time_split(in_steps, STEP),
        path=path_shares(projection.path),
        measured_path=path_shares(projection.measured_path),
        path_kernels=path_kernels(projection),
        verdict=verdict(projection),
        sweeps=_swept(trace, projection, sweeps),
        notes=tuple(_notes(trace, projection)),
    )


def _swept(trace: Annotated, projection: Projection, plans: Sequence[Sweep]) -> pd.DataFrame | None:
    def evaluate(gpu: GPU) -> Mapping[str, Any]:
        there = project_trace(
            trace, projection.host, gpu, projection.laws, graph=projection.graph, trained_for=projection.target
        )
        return outcome(there)

    return all_sweeps(projection.target, plans, evaluate) if plans else None


def _notes(trace: Annotated, projection: Projection) -> list[str]:
    notes = []
    table = trace.dispatches
    orphans = int((~table["linked"]).sum()) if table["linked"].any() else 0
    if orphans:
        notes.append(f"{orphans} activities were launched before the trace: they hold others up, and do not count")
    if not len(projection.graph.calls):
        notes.append("the trace has no calls of the CPU: gaps are kept, whatever their cause")
    elif projection.laws.cpu_speed is None and projection.host != projection.target:
        within = f"within {100 * CPU_SIGMA:.0f} %"
        notes.append(f"the target's CPU is taken to be as fast as the one measured, {within}: state --cpu-speed")
    names = set(table["device"].astype(str)) - {projection.host.name, ""}
    if names:
        notes.append(f"the trace says {', '.join(sorted(names))}; it is taken for {projection.host.name}")
    errors = [finding for finding in trace.findings if finding.severity == "error"]
    notes += [f"{finding.code}: {finding.message} ({finding.count})" for finding in errors]
    return notes


def changes(result: Result) -> list[str]:
    """Return where the dominant bound changes along the sweeps, in words."""
    if result.sweeps is None:
        return []
    return [
        f"{change.before} → {change.after} at {change.figure} = {change.crossing:,.4g}"
        for change in changes_of_bound(result.sweeps)
    ]


def _laws(laws: Laws) -> dict[str, Any]:
    return {
        "compute": laws.compute if laws.run is None else f"model, else {laws.compute}",
        "communication": laws.communication,
        "gaps": laws.gaps,
        "cpu_speed": laws.cpu_speed,
        "keep_waiting": laws.keep_waiting,
    }


def _records(table: pd.DataFrame) -> list[dict[str, Any]]:
    return [{str(name): value for name, value in row.items()} for row in table.to_dict("records")]

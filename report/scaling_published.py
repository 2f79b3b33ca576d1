"""The published results of scale models, reproduced, as a document: every table, and every figure drawn anew."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from functools import partial
from html import escape
from typing import Final

import pandas as pd
import plotly.graph_objects as go
from plotly.subplots import make_subplots

from ..scaling.calibration import published_curves
from ..scaling.curves import Curve, CurveTable
from ..scaling.prediction import LawSummary, predict_sizes
from ..scaling.scale_models import LearnedScaleModel
from ..scaling.scaling_class import classify
from ..scaling.trials import EQUATIONS, EXPLANATIONS, PREDICTORS, benchmark_errors, simulation_speedups
from .document import Cell, Document, Figure, Headline, Part, Row, Section, Table, Tone, columns, rows
from .figures import BASELINE, NEUTRAL, OTHERS, SELECTED, panels
from .formats import formatted
from .scaling import SCHEMA, headline, prediction_figure, simplest, summary_table

_COLOURS: Final = (SELECTED, BASELINE, *OTHERS)
_PREDICTED: Final = {"strong": ((8.0, 16.0), 128.0), "weak": ((8.0, 16.0), 128.0), "chiplets": ((4.0, 8.0), 16.0)}
"""Scenario -> sizes fitted to and size predicted of the panels by benchmark."""


def published_document(found: pd.DataFrame, trials: pd.DataFrame) -> Document:
    """Return the published results reproduced (`scaling.trials.reproduction`), and `published_trials` of every law."""
    explained = found.assign(explanation=found["explanation"].map(EXPLANATIONS))
    speedups = simulation_speedups()
    tables = {"published": explained, "trials": trials, "simulation_speedups": speedups}
    return Document(
        title="GPU scale-model simulation, reproduced",
        lead="SeyyedAghaei, Naderan-Tahan and Eeckhout, HPCA 2024: every figure from the published data",
        opening=list(_headlines(trials)),
        sections=[
            Section("Errors beside the published ones", [published_table(found)], "published", "Published"),
            Section("Every law", [trial_table(trials), _speedup_table(speedups)], "laws", "Laws"),
            Section("Errors benchmark by benchmark", _errors(found), "errors", "Errors"),
            Section("Performance and misses over size", _over_size(), "curves", "Curves"),
            Section("Measured and predicted", _predicted(), "predicted", "Predicted"),
            Section("How much faster scale models are simulated",
                    [Figure(partial(speedup_figure, speedups), "Bars: from the published seconds; marks: as printed")],
                    "speedups", "Speed-ups"),
        ],
        data={"schema": SCHEMA, **{name: table.to_dict("records") for name, table in tables.items()}},
    )  # fmt: skip


def _headlines(trials: pd.DataFrame) -> Iterator[Headline]:
    """Yield, for the largest size of each scenario, the learned scale model's error beside the best simple law's."""
    for scenario, (fit, target) in _PREDICTED.items():
        laws = summaries(trials[(trials["scenario"] == scenario) & (trials["target"] == target)])
        for own in (law for law in laws if law.law == LearnedScaleModel.name):
            yield headline(own, simplest(laws), f" Fitted to sizes {_sizes(fit)}.")


def _errors(found: pd.DataFrame) -> list[Part]:
    """Return a figure for each table of errors that was printed."""
    cells = found[["scenario", "target", "fit"]].drop_duplicates().itertuples(index=False) if len(found) else []
    return [
        Figure(partial(error_figure, scenario, target, fit), f"{scenario}, size {target} from {_sizes(fit)}")
        for scenario, target, fit in cells
    ]


def error_figure(scenario: str, target: float, fit: Sequence[float]) -> go.Figure:
    """Draw the error of every benchmark by each of the paper's predictors, side by side."""
    errors, figure = benchmark_errors(scenario, target, fit), go.Figure()
    for name, colour in zip((*PREDICTORS.values(), EQUATIONS), (*_COLOURS, NEUTRAL), strict=False):
        own = [*errors[name], errors[name].mean()]
        bars = {"x": [*map(escape, errors.index), "average"], "y": own, "marker": {"color": colour}}
        figure.add_trace(go.Bar(name=name, hovertemplate=f"%{{x}}: %{{y:.1f}} %<extra>{name}</extra>", **bars))
    figure.update_yaxes(title_text="error, %")
    return panels(figure, 380)


def _over_size() -> list[Part]:
    curves = {name: [one for one in published_curves() if one.scenario == name] for name in _PREDICTED}
    per_unit = "Performance per unit of size, against that of the smallest: 1 is linear scaling"
    heads = columns("scenario", "benchmark", "how it scales")
    classes = [(one.scenario, one.benchmark, str(classify(one))) for own in curves.values() for one in own]
    return [
        Figure(partial(size_figure, curves, misses=False), per_unit),
        Figure(partial(size_figure, curves, misses=True), "Misses of the last-level cache per thousand instructions"),
        Table(heads, rows(classes), folded="How every benchmark scales", medium="page"),
    ]


def size_figure(curves: dict[str, list[Curve]], *, misses: bool) -> go.Figure:
    """Draw performance per unit of size, or miss rates, over the size: a panel per scenario, a line per benchmark."""
    figure = make_subplots(rows=1, cols=len(curves), subplot_titles=list(curves), horizontal_spacing=0.06)
    for place, own in enumerate(curves.values(), 1):
        for index, one in enumerate(own):
            per_unit = one.performance / one.sizes * one.sizes[0] / one.performance[0]
            y, line = one.mpki if misses else per_unit, {"color": _COLOURS[index % len(_COLOURS)], "width": 1.5}
            hover = f"%{{y:.3~g}} at %{{x}}<extra>{escape(one.benchmark)}</extra>"
            trace = go.Scatter(name=escape(one.benchmark), x=one.sizes, y=y, line=line, hovertemplate=hover)
            figure.add_trace(trace.update(mode="lines+markers", showlegend=False), row=1, col=place)
        figure.update_xaxes(type="log", tickvals=own[0].sizes, title_text=f"{own[0].unit}s", row=1, col=place)
    figure.update_yaxes(type="log" if misses else "linear")
    return panels(figure, 400)


def _predicted() -> list[Part]:
    """Return the panels of each scenario, with the laws of the paper and the scale model's program ahead."""
    shown = "from {} by the {}; other predictors are a click on the legend away"
    return [
        Figure(partial(_panels, name), f"{name}: {shown.format(_sizes(fit), PREDICTORS['scale model'])}")
        for name, (fit, _) in _PREDICTED.items()
    ]


def _panels(scenario: str) -> go.Figure:
    fit, target = _PREDICTED[scenario]
    table = CurveTable(tuple(one for one in published_curves() if one.scenario == scenario))
    result = predict_sizes(table, fit, [target], laws=[*PREDICTORS.values()])
    return prediction_figure(result, PREDICTORS["scale model"])


def speedup_figure(found: pd.DataFrame) -> go.Figure:
    """Draw how many times faster the two scale models are simulated than each target, with the printed figures."""
    names = [f"{row['scenario']} {row['target']:g}" for row in found.to_dict("records")]
    reach = {"type": "data", "array": found["most"] - found["mean"], "arrayminus": found["mean"] - found["least"]}
    bars = {"x": names, "y": found["mean"], "error_y": reach, "marker_color": SELECTED}
    figure = go.Figure(go.Bar(name="mean, least to most", **bars))
    marks = {"color": BASELINE, "symbol": "line-ew-open", "size": 26, "line": {"width": 3}}
    figure.add_trace(
        go.Scatter(name="published mean", x=names, y=found["published_mean"], mode="markers", marker=marks)
    )
    figure.update_yaxes(title_text="times faster")
    return panels(figure, 360)


def _sizes(sizes: Sequence[float]) -> str:
    return " and ".join(f"{size:g}" for size in sizes)


def _speedup_table(found: pd.DataFrame) -> Table:
    """Return how much less simulation the scale models take, the published figures beside."""
    names = ["mean", "published_mean", "least", "most", "published_most"]
    cells = [
        (row["scenario"], f"{row['target']:g}", *(formatted(row[name], "{:.2f}") for name in names))
        for row in found.to_dict("records")
    ]
    heads = columns("scenario", numbers=["at", "average", "published", "least", "most", "published"])
    return Table(heads, rows(cells), "How many times faster the two scale models are simulated than the target")


def published_table(found: pd.DataFrame) -> Table:
    """Return the errors reproduced from the published data, each beside the published one, differences explained."""
    codes = list(dict.fromkeys(code for code in found["explanation"] if code))
    cells = found["scenario"].astype(str) + found["target"].astype(str) + found["fit"].astype(str)
    compared = []
    for row, ends in zip(found.to_dict("records"), cells != cells.shift(-1), strict=True):
        why, scenario, predictor = row["explanation"], str(row["scenario"]), str(row["predictor"])
        tone: Tone = "warning" if why else ""
        both = [(row[name], row[f"published_{name}"]) for name in ("average", "max")]
        pairs = [(formatted(ours, "{:.2f}"), formatted(theirs, "{:.2f}")) for ours, theirs in both]
        figures = [cell for ours, theirs in pairs for cell in (Cell(ours, tone), Cell(theirs, "soft"))]
        mark = f"[{codes.index(why) + 1}]" if why else ""
        fit = " ".join(f"{size:g}" for size in row["fit"])
        compared.append(Row((scenario, predictor, fit, f"{row['target']:g}", *figures, mark), ends=bool(ends)))
    return Table(
        columns("scenario", "predictor", numbers=["from", "at", "average", "published", "max", "published", ""]),
        compared,
        "Errors on the published benchmarks, %, each with the published figure beside it",
        "\n".join(f"[{i}] {EXPLANATIONS[code]}" for i, code in enumerate(codes, 1)),
    )


def trial_table(found: pd.DataFrame) -> Table:
    """Return the errors of every law where it has learned from the other benchmarks only, and how many it covers."""
    title = "Every law on the same benchmarks, %; what is learned is learned from the other benchmarks"
    return summary_table(summaries(found), 0.9, title)


def summaries(trials: pd.DataFrame) -> list[LawSummary]:
    """Return the rows of `published_trials` as they are told."""
    return [
        LawSummary(row["law"], row["scenario"], row["target"], row["benchmarks"], row["failed"], row["average"],
                   row["max"], row["coverage"])
        for row in trials.to_dict("records")
    ]  # fmt: skip

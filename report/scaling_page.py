"""The pages `flopcast scale` writes, which need no network: measured and predicted curves, and the tables."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from html import escape
from typing import Any, Final

import numpy as np
import plotly.graph_objects as go
from plotly.subplots import make_subplots

from ..scaling.devices import FAMILY, DeviceScaling, DeviceSizes
from ..scaling.prediction import BenchmarkPrediction, LawPrediction, SizePredictions, error_percent, summarise
from ..scaling.scale_models import LearnedScaleModel
from .device_sizes import COLUMNS, device_notes, family_cells, legend, title, verdict_lines
from .figures import BASELINE, NEUTRAL, OTHERS, SELECTED, panels
from .html import Page
from .page import listed, table
from .scaling import description, remarks, summary_figures

COLUMNS_OF_PANELS: Final = 3
PANEL: Final = 250
"""Height of a row of panels, pixels."""

_BAND: Final = "rgba(28,131,198,0.18)"
_DASHES: Final = ("solid", "dash", "dot", "dashdot")


def predictions_html(result: SizePredictions) -> str:
    """Return the page on predicted sizes; the same result gives the same text."""
    page = Page()
    fitted, targets = (", ".join(f"{size:g}" for size in sizes) for sizes in (result.fit, result.targets))
    page.heading("Performance over size", f"Fitted to sizes {fitted}; predicted at {targets}")
    lead = leading(result)
    page.section(
        "curves",
        "Curves",
        "Measured and predicted",
        f"<p>Grey: measured (filled: fitted to). Blue: {escape(lead)}, "
        f"with its {100 * result.level:g} % interval. Other laws are a click on the legend away.</p>",
        page.figure(prediction_figure(result, lead), "Performance, both axes logarithmic"),
        page.figure(
            prediction_figure(result, lead, per_unit=True),
            "Performance per unit of size, against that of the smallest size fitted; flat at 1 is linear scaling",
        ),
    )
    page.section("laws", "Laws", "Errors of the laws", _summary(result))
    page.section("benchmarks", "Benchmarks", "Benchmark by benchmark", *_benchmarks(result))
    if found := remarks(result):
        page.section("remarks", "Remarks", "Remarks", listed(found))
    return page.document("Performance over size · flopcast")


def devices_html(result: DeviceScaling) -> str:
    """Return the page on measured devices; the same result gives the same text."""
    page = Page()
    page.heading("Performance over size, measured", title(result.measured))
    rows = [family_cells(one) for one in result.families]
    page.section(
        "families",
        "Families",
        "How each kernel family scales",
        table(COLUMNS, rows),
        f'<p class="small">{escape(legend())}</p>',
        page.figure(family_figure(result), "Exponent of every problem, and the median of its family with its interval"),
    )
    page.section(
        "problems",
        "Problems",
        "Problem by problem",
        page.figure(problem_figure(result.measured), "Performance against that on the smallest device"),
    )
    lines = [line for verdict in result.verdicts for line in verdict_lines(verdict)]
    page.section("linear", "Linear scaling", "Is time inversely proportional to size?", listed(lines))
    page.section("remarks", "Remarks", "What these data cannot show, and remarks", listed(device_notes(result)))
    return page.document("Performance over size, measured · flopcast")


def leading(result: SizePredictions) -> str:
    """Return the law to show first: the learned scale model, where it was fitted, else the first with an interval.

    It is not chosen by its errors here, which nobody would know beforehand.
    """
    fitted = [law for one in result.benchmarks for law in one.laws if not law.failed]
    if any(law.law == LearnedScaleModel.name for law in fitted):
        return LearnedScaleModel.name
    return next((law.law for law in fitted if np.isfinite(law.lower).any()), result.names[0])


def prediction_figure(result: SizePredictions, lead: str, *, per_unit: bool = False) -> go.Figure:
    """Return a panel per benchmark: what was measured, the leading law with its interval, and the others to choose."""
    names = [one.curve.name for one in result.benchmarks]
    columns = min(COLUMNS_OF_PANELS, len(names))
    rows = -(-len(names) // columns)
    shown: set[str | None] = set()
    figure = make_subplots(
        rows=rows, cols=columns, subplot_titles=[escape(name) for name in names],
        vertical_spacing=min(0.08, 0.35 / rows), horizontal_spacing=0.06,
    )  # fmt: skip
    for place, one in enumerate(result.benchmarks):
        at = {"row": place // columns + 1, "col": place % columns + 1}
        for trace in _panel(one, result, lead, per_unit):
            named = trace.name is not None and trace.name not in shown
            figure.add_trace(trace.update(showlegend=named), **at)
            shown.add(trace.name)
        ticks = sorted({*one.curve.sizes.tolist(), *result.targets})
        figure.update_xaxes(tickvals=ticks, ticktext=[f"{size:g}" for size in ticks], **at)
    figure.update_xaxes(type="log")
    figure.update_yaxes(**({"type": "linear"} if per_unit else {"type": "log", "dtick": "D2"}))
    return panels(figure, max(rows, 2 if len(names) == 1 else 1) * PANEL + 90)


def _panel(one: BenchmarkPrediction, result: SizePredictions, lead: str, per_unit: bool) -> Iterator[go.Scatter]:
    """Yield the curves of one benchmark."""
    start = float(result.fit[0])
    base = one.curve.measured_at(start)
    assert base is not None

    def drawn(sizes: np.ndarray, values: np.ndarray) -> list[float]:
        return (values / sizes * start / base if per_unit else values).tolist()

    for index, law in enumerate(law for law in one.laws if law.law != lead and not law.failed):
        colour = (BASELINE, *OTHERS)[index % (1 + len(OTHERS))]
        line = {"color": colour, "width": 1.5, "dash": _DASHES[index // (1 + len(OTHERS)) % len(_DASHES)]}
        yield _curve(law, drawn(law.sizes, law.predicted), line, hidden=True)
    for law in one.laws:
        if law.law == lead and not law.failed:
            if np.isfinite(law.lower).all():
                yield _band(law, drawn)
            yield _curve(law, drawn(law.sizes, law.predicted), {"color": SELECTED, "width": 3})
    yield _measured(one, result.fit, drawn)


def _curve(law: LawPrediction, y: list[float], line: dict[str, Any], hidden: bool = False) -> go.Scatter:
    return go.Scatter(
        name=escape(law.law),
        legendgroup=law.law,
        x=law.sizes.tolist(),
        y=y,
        mode="lines",
        line=line,
        visible="legendonly" if hidden else True,
        hovertemplate=f"%{{y:.4~g}} at %{{x}}<extra>{escape(law.law)}</extra>",
    )


def _band(law: LawPrediction, drawn: Callable[[np.ndarray, np.ndarray], list[float]]) -> go.Scatter:
    """Return the interval as one outline: along the upper bound and back along the lower."""
    return go.Scatter(
        x=[*law.sizes.tolist(), *law.sizes[::-1].tolist()],
        y=[*drawn(law.sizes, law.upper), *drawn(law.sizes, law.lower)[::-1]],
        fill="toself",
        fillcolor=_BAND,
        line={"width": 0},
        mode="lines",
        legendgroup=law.law,
        hoverinfo="skip",
    )


def _measured(
    one: BenchmarkPrediction, fit: Sequence[float], drawn: Callable[[np.ndarray, np.ndarray], list[float]]
) -> go.Scatter:
    """Return the measured points, filled where the laws were fitted to them."""
    curve = one.curve
    symbols = ["circle" if size in fit else "circle-open" for size in curve.sizes]
    return go.Scatter(
        name="measured",
        legendgroup="measured",
        x=curve.sizes.tolist(),
        y=drawn(curve.sizes, curve.performance),
        mode="markers",
        marker={"color": NEUTRAL, "size": 9, "symbol": symbols, "line": {"width": 2}},
        hovertemplate="%{y:.4~g} at %{x}<extra>measured</extra>",
    )


def family_figure(result: DeviceScaling) -> go.Figure:
    """Return the exponent of each problem, family by family, with the median and its interval."""
    keys = result.measured.rows.reindex(columns=FAMILY).fillna("").astype(str)
    exponents, figure = result.measured.exponents, go.Figure()
    for place, one in enumerate(result.families):
        of = keys.eq([one.op, one.family, one.dtype]).all(axis=1).to_numpy()
        spread = place + 0.5 * (np.linspace(0, 1, int(of.sum())) - 0.5)
        problem = {"color": NEUTRAL, "size": 5, "opacity": 0.5}
        figure.add_trace(
            go.Scatter(x=exponents[of].tolist(), y=spread.tolist(), mode="markers", marker=problem, name=one.name)
        )
        value, lower, upper = one.exponent.value, one.exponent.lower, one.exponent.upper
        bars = {"type": "data", "array": [upper - value], "arrayminus": [value - lower], "thickness": 3}
        median = {"color": SELECTED, "size": 11, "symbol": "diamond"}
        error = bars if np.isfinite(lower) else None
        figure.add_trace(go.Scatter(x=[value], y=[place], error_x=error, mode="markers", marker=median, name=one.name))
    figure.add_vline(x=1, line={"color": BASELINE, "width": 1})
    names = [escape(one.name) for one in result.families]
    figure.update_yaxes(tickvals=list(range(len(names))), ticktext=names, autorange="reversed", automargin=True)
    low, high = np.quantile(exponents, [0.01, 0.99])  # a few wild problems would hide all others
    shown = [min(0.0, float(low)) - 0.1, max(1.2, float(high)) + 0.1]
    figure.update_xaxes(title_text="exponent of performance over size; 1: linear", range=shown)
    return panels(figure, 110 + 34 * len(names)).update_layout(showlegend=False)


def problem_figure(measured: DeviceSizes) -> go.Figure:
    """Return a curve per problem, operator by operator, and the line of linear scaling."""
    figure = go.Figure()
    relative = measured.times_us[:, :1] / measured.times_us  # (n, d), performance against the smallest device
    for index, (op, rows) in enumerate(measured.rows.groupby("op", sort=True).indices.items()):
        x = np.tile([*measured.sizes, np.nan], len(rows))
        y = np.hstack([relative[rows], np.full((len(rows), 1), np.nan)]).ravel()
        colour = (SELECTED, *OTHERS)[index % (1 + len(OTHERS))]
        line = {"color": colour, "width": 1, "dash": _DASHES[index // (1 + len(OTHERS)) % len(_DASHES)]}
        figure.add_trace(
            go.Scatter(name=escape(str(op)), x=x.tolist(), y=y.tolist(), mode="lines", line=line, opacity=0.6)
        )
    ends = measured.sizes.tolist()
    linear = {"color": BASELINE, "width": 2, "dash": "dash"}
    figure.add_trace(go.Scatter(name="linear", x=ends, y=[size / ends[0] for size in ends], mode="lines", line=linear))
    figure.update_xaxes(type="log", tickvals=ends, ticktext=[f"{size:g}" for size in ends], title_text="compute units")
    figure.update_yaxes(type="log", title_text="performance against the smallest")
    return panels(figure, 480)


def _summary(result: SizePredictions) -> str:
    """Return the errors of the laws as a table."""
    found = summarise(result)
    if not found:
        return "<p>No target was measured, so there are no errors to show.</p>"
    heads = ("scenario", "law", "at", "benchmarks", "average %", "max %", "in interval")
    rows = [(one.scenario, one.law, f"{one.target:g}", *summary_figures(one)) for one in found]
    return table(heads, rows)


def _benchmarks(result: SizePredictions) -> Iterator[str]:
    """Yield what is said of each benchmark: sentences, and the predictions folded away."""
    heads = ("law", "at", "predicted", "lower", "upper", "measured", "error %")
    for one in result.benchmarks:
        rows = [_row(one, law, target) for law in one.laws for target in result.targets]
        yield f"<h3>{escape(one.curve.name)}</h3>{listed(description(one))}"
        yield f"<details><summary>Predictions</summary>{table(heads, rows)}</details>"


def _row(one: BenchmarkPrediction, law: LawPrediction, target: float) -> tuple[str, ...]:
    if law.failed:
        return law.law, f"{target:g}", "no fit", "", "", "", ""
    measured = one.curve.measured_at(target)
    figures = [f"{value:.5g}" if np.isfinite(value) else "–" for value in law.at(target)]
    error = "" if measured is None else f"{error_percent(law.at(target)[0], measured):.2f}"
    return law.law, f"{target:g}", *figures, "" if measured is None else f"{measured:.5g}", error

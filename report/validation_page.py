"""The page `validate` writes, which needs no network: the summary, target / law against t_host, and the table."""

from __future__ import annotations

from collections.abc import Iterator
from html import escape
from typing import Any

import numpy as np
import plotly.graph_objects as go
from plotly.colors import qualitative

from ..evaluation.linear_scaling import HOST_DURATION, ClassFinding, ValidationResult
from ..features.quantity import quantity
from .validation import FIGURES, class_lines, conclusion, legend, summary, title

_PAGE = """<!DOCTYPE html>
<html lang="en"><head><meta charset="utf-8"><title>{title}</title>
<style>
body {{ font: 15px/1.5 sans-serif; margin: 2em auto; max-width: 76em; padding: 0 1em }}
h1 {{ font-size: 1.3em }} h2 {{ font-size: 1.1em }} .legend {{ color: #555; font-size: 13px }}
table {{ border-collapse: collapse; font-size: 13px }}
td, th {{ border-bottom: 1px solid #ddd; padding: .2em 1.2em .2em 0; text-align: left; white-space: nowrap }}
.class td {{ font-weight: bold; padding-top: 1em }}
</style></head>
<body><h1>{title}</h1>
<ul>{summary}</ul>
{plot}
<table><tr>{heads}</tr>
{rows}
</table>
<p class="legend">{legend}</p>
<h2>Class by class</h2>
<ul>{classes}</ul></body></html>
"""


def validation_html(result: ValidationResult) -> str:
    """Return the whole page as text; the same result gives the same bytes."""
    plot = validation_figure(result).to_html(full_html=False, include_plotlyjs=True, div_id="deviations")
    return _PAGE.format(
        title=escape(title(result)),
        summary="".join(f"<li>{escape(line)}</li>" for line in summary(result)),
        classes="".join(f"<li>{escape(conclusion(one))}</li>" for one in result.classes[1:] if one.judged),
        plot=plot,
        heads="".join(f"<th>{escape(head)}</th>" for head in ("class / law", *FIGURES, "verdict")),
        rows="\n".join(row for finding in result.classes for row in _rows(finding)),
        legend=escape(legend(result)),
    )


def validation_figure(result: ValidationResult) -> go.Figure:
    """Return target / law against t_host by class, with the margin and each class's median; one law at a time."""
    laws, symbol = [str(name) for name in result.dataset.laws], quantity(result.dataset.metric).symbol
    traces = [(law, trace) for law in laws for trace in _traces(result, law)]
    figure = go.Figure([trace.update(visible=law == laws[0]) for law, trace in traces])
    low, high = 1 / (1 + result.margin), 1 + result.margin
    figure.add_hrect(y0=low, y1=high, fillcolor="green", opacity=0.12, line_width=0, layer="below")
    figure.add_hline(y=1, line_width=1, line_color="green")
    figure.update_xaxes(type="log", title="t_host (µs)")
    figure.update_yaxes(type="log", title=_axis(symbol, laws[0]))
    buttons = [_button(law, symbol, [law == owner for owner, _ in traces]) for law in laws]
    menu = {"type": "buttons", "direction": "right", "x": 0, "xanchor": "left", "y": 1.1, "buttons": buttons}
    figure.update_layout(
        template="plotly_white", height=720, legend_title="class (diamond: median)", updatemenus=[menu]
    )
    return figure


def _traces(result: ValidationResult, law: str) -> Iterator[go.Scatter | go.Scattergl]:
    """Yield, for each class, its points and then its median with the interval."""
    data, palette = result.dataset, qualitative.Dark24
    host, deviation = data.rows[HOST_DURATION].to_numpy(dtype=float), data.y / data.laws[law].to_numpy()
    sources = data.rows["source"].astype(str).to_numpy() if "source" in data.rows else np.full(len(host), "")
    for index, finding in enumerate(result.classes[1:]):
        rows, colour = finding.members, palette[index % len(palette)]
        shared = {"name": finding.name, "legendgroup": finding.name, "mode": "markers"}
        yield go.Scattergl(
            x=host[rows],
            y=deviation[rows],
            text=sources[rows],
            hovertemplate="%{x:.4g} µs, %{y:.3f}<br>%{text}",
            marker={"size": 5, "opacity": 0.5, "color": colour},
            **shared,
        )
        if (evidence := finding.law(law).evidence) is not None:
            c = evidence.deviation
            yield go.Scatter(
                x=[float(np.median(host[rows]))],
                y=[c.value],
                error_y={"type": "data", "array": [c.upper - c.value], "arrayminus": [c.value - c.lower]},
                hovertemplate=f"median {c}",
                showlegend=False,
                marker={"size": 12, "symbol": "diamond", "color": colour, "line": {"color": "black", "width": 1}},
                **shared,
            )


def _button(law: str, symbol: str, visible: list[bool]) -> dict[str, Any]:
    return {"label": law, "method": "update", "args": [{"visible": visible}, {"yaxis.title.text": _axis(symbol, law)}]}


def _axis(symbol: str, law: str) -> str:
    return f"{symbol}_target / {symbol} by {law}"


def _rows(finding: ClassFinding) -> Iterator[str]:
    """Yield the lines of one class as HTML rows."""
    for label, figures, words, _ in class_lines(finding):
        cells = "".join(f"<td>{escape(cell)}</td>" for cell in (label, *figures, words))
        yield f'<tr class="class">{cells}</tr>' if label == finding.name else f"<tr>{cells}</tr>"

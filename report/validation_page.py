"""The page `validate` writes, which needs no network: the summary, target / law against t_host, and the table."""

from __future__ import annotations

from collections.abc import Iterator
from html import escape
from typing import Any, Final

import numpy as np
import plotly.graph_objects as go

from ..evaluation.linear_scaling import HOST_DURATION, ValidationResult
from ..table.metric import quantity
from .console import rejections
from .figures import BASELINE, GRID, OTHERS, SELECTED, styled
from .html import Page
from .page import listed, table
from .validation import FIGURES, QUESTION, asked, class_lines, conclusion, legend, summary

_COLOURS: Final = (SELECTED, BASELINE, *OTHERS)
_SYMBOLS: Final = ("circle", "square", "triangle-up", "cross", "x", "star")
"""Of the points of a class, one after the other where there are more classes than colours."""


def validation_html(result: ValidationResult) -> str:
    """Return the page on linear scaling; the same result gives the same text."""
    page = Page()
    verdict = "".join(f"<p>{escape(line)}</p>" for line in summary(result))
    page.heading(QUESTION, asked(result), f'<div class="verdict">{verdict}</div>')
    symbol = quantity(result.dataset.metric).symbol
    page.section(
        "deviations",
        "Deviations",
        "Target against law",
        page.figure(
            validation_figure(result),
            f"{symbol}_target / {symbol} by the law chosen above the figure, pair by pair; green: within the margin",
        ),
    )
    heads = ("class / law", *FIGURES, "verdict")
    rows: list[tuple[str, ...]] = []
    titles: list[int] = []
    for finding in sorted(result.classes, key=lambda finding: not finding.judged):
        titles.append(len(rows))
        rows += [(label, *figures, words) for label, figures, words, _ in class_lines(finding)]
    evidence = table(heads, rows, titles=titles, prose={"verdict"})
    reading = f'<p class="small">{escape(legend(result))}</p>'
    page.section("evidence", "Evidence", "Evidence and verdicts", evidence, reading)
    if judged := [conclusion(one) for one in result.classes[1:] if one.judged]:
        page.section("classes", "Classes", "Class by class", listed(judged))
    if said := [*(str(line) for line in rejections(result.rejected)), *dict.fromkeys(result.notes)]:
        page.section("data", "Data", "Rows rejected, and what was taken for what", listed(said))
    return page.document(f"{QUESTION} {asked(result)} · flopcast")


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
    menu = {"type": "buttons", "direction": "right", "x": 0, "xanchor": "left", "y": 1.02, "yanchor": "bottom"}
    # The chosen button is nearly white, on dark pages too: its words need a colour that both can bear.
    look = {"bgcolor": "rgba(0,0,0,0)", "bordercolor": GRID, "font": {"color": SELECTED}}
    styled(figure, 720, legend={"title": {"text": "class (diamond: median)"}, "itemsizing": "constant"})
    return figure.update_layout(updatemenus=[{**menu, **look, "buttons": buttons}], margin_t=70)


def _traces(result: ValidationResult, law: str) -> Iterator[go.Scatter | go.Scattergl]:
    """Yield, for each class, its points and then its median with the interval."""
    data = result.dataset
    host, deviation = data.rows[HOST_DURATION].to_numpy(dtype=float), data.y / data.laws[law].to_numpy()
    sources = (
        data.rows["source"].astype(str).map(escape).to_numpy() if "source" in data.rows else np.full(len(host), "")
    )
    for index, finding in enumerate(result.classes[1:]):
        rows, colour = finding.members, _COLOURS[index % len(_COLOURS)]
        symbol = _SYMBOLS[index // len(_COLOURS) % len(_SYMBOLS)]
        shared = {"name": finding.name, "legendgroup": finding.name, "mode": "markers"}
        yield go.Scattergl(
            x=host[rows],
            y=deviation[rows],
            text=sources[rows],
            hovertemplate="%{x:.4g} µs, %{y:.3f}<br>%{text}",
            marker={"size": 5, "opacity": 0.5, "color": colour, "symbol": symbol},
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

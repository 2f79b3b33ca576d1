"""The page `flopcast project` writes, which needs no network: the outcome, its parts, its interval, its sweeps."""

from __future__ import annotations

from html import escape
from typing import Final

import plotly.graph_objects as go

from ..projection.result import Result, changes
from ..projection.sweep import SWEPT, own_value
from .figures import BASELINE, NEUTRAL, SELECTED, styled
from .html import Page
from .parts import listed, table
from .projection import headline, remarks, sections
from .projection_plot import Mark, sweep_figure

LARGEST: Final = 12
"""Classes and sources of error that are drawn."""


def projection_html(result: Result) -> str:
    """Return the page of a projection; the same result gives the same text."""
    page = Page()
    host, target = result.projection.host.name, result.projection.target.name
    verdict = f'<div class="verdict"><p>{escape(result.verdict)}</p></div>'
    page.heading(f"{host} → {target}", headline(result), verdict)
    tables = {title: table(heads, rows) for title, heads, rows in sections(result)}
    page.section("total", "End to end", "End to end", tables.pop("end to end"))
    page.section(
        "classes",
        "Kernels",
        "Kernels by class",
        page.figure(class_figure(result), "Time by class: measured, by FLOPS scaling, projected"),
        tables.pop("kernels by class"),
    )
    page.section("pace", "Pace", "What sets the pace", tables.pop("what sets the pace"))
    spread = tables.pop("what the interval is made of", "")
    page.section(
        "interval",
        "Interval",
        "What the interval is made of",
        page.figure(
            tornado_figure(result), "End-to-end time with one source at its own quantiles, the others as they are"
        ),
        spread,
    )
    tables.pop("sweep", None)
    if result.sweeps is not None:
        page.section("sweep", "Sweep", "Another target", *_sweeps(page, result), listed(changes(result)))
    for title, text in tables.items():
        anchor = title.replace(" ", "-")
        page.section(anchor, title.capitalize(), title.capitalize(), text)
    page.section("notes", "Notes", "Notes", listed(remarks(result)))
    return page.document(f"{host} → {target} · flopcast")


def class_figure(result: Result) -> go.Figure:
    """Draw the time of each class, measured, by FLOPS scaling, and projected; the largest first."""
    shown = result.classes.head(LARGEST).iloc[::-1]
    figure = go.Figure()
    columns = (
        ("projected_us", f"{result.projection.target.name}, projected", SELECTED),
        ("published_us", f"{result.projection.target.name}, FLOPS scaling", BASELINE),
        ("measured_us", f"{result.projection.host.name}, measured", NEUTRAL),
    )
    for name, label, colour in columns:
        figure.add_bar(
            y=shown["op_class"].tolist(),
            x=(shown[name] / 1000).tolist(),
            name=label,
            orientation="h",
            marker_color=colour,
            hovertemplate="%{x:.4~g} ms<extra>%{y}</extra>",
        )
    figure.update_xaxes(title_text="ms").update_yaxes(automargin=True)
    return styled(figure, 140 + 46 * len(shown), legend={"traceorder": "reversed"}).update_layout(barmode="group")


def tornado_figure(result: Result) -> go.Figure | None:
    """Draw how far each source of error alone moves the end-to-end time; None where there is none."""
    unsure = result.uncertainty
    shown = unsure.tornado.head(LARGEST).iloc[::-1]
    if not len(shown):
        return None
    figure = go.Figure()
    for name, label, colour in (
        ("low_us", "at its low quantile", SELECTED),
        ("high_us", "at its high quantile", BASELINE),
    ):
        figure.add_bar(
            y=shown["name"].tolist(),
            x=((shown[name] - unsure.nominal_us) / 1000).tolist(),
            base=unsure.nominal_us / 1000,
            name=label,
            orientation="h",
            marker_color=colour,
            customdata=(shown[name] / 1000).tolist(),
            hovertemplate="%{customdata:.4~g} ms<extra>%{y}</extra>",
        )
    figure.add_vline(x=unsure.nominal_us / 1000, line={"color": NEUTRAL, "width": 1})
    figure.update_xaxes(title_text="end to end, ms").update_yaxes(automargin=True)
    return styled(figure, 140 + 34 * len(shown), legend={"traceorder": "normal"}).update_layout(barmode="overlay")


def _sweeps(page: Page, result: Result) -> list[str]:
    assert result.sweeps is not None
    target = result.projection.target
    parts = []
    for name, frame in result.sweeps.groupby("figure", sort=False):
        own = result.projection.host
        value = own_value(own, str(name))
        marks = [Mark(f"{own.name}, measured", value, result.projection.measured_us)] if value else []
        caption = f"End-to-end time over {SWEPT[str(name)]} of {target.name}"
        parts.append(page.figure(sweep_figure(frame, target=target.name, marks=marks), caption))
    return parts

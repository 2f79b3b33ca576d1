"""The look of ``report.html`` and the few lines of script that draw its figures."""

from __future__ import annotations

from collections.abc import Container, Iterable, Sequence
from html import escape

import plotly.graph_objects as go
from plotly.offline import get_plotlyjs

STYLE = """
:root { color-scheme: light dark; --ink: #1b1f24; --soft: #5b6570; --paper: #ffffff; --panel: #f4f6f8;
  --line: #d9dee3; --blue: #0072b2; --red: #b84a00; --tint: #e3f0f8; --tie: #f3f8fc; }
@media (prefers-color-scheme: dark) { :root { --ink: #e6e9ec; --soft: #9aa5b1; --paper: #14171a; --panel: #1d2126;
  --line: #323940; --blue: #58b4e8; --red: #f0894a; --tint: #143347; --tie: #182731; } }
* { box-sizing: border-box; }
html { scroll-behavior: smooth; scroll-padding-top: 3.5rem; }
body { margin: 0; background: var(--paper); color: var(--ink);
  font: 16px/1.5 system-ui, -apple-system, "Segoe UI", Roboto, sans-serif; }
nav { position: sticky; top: 0; z-index: 9; display: flex; gap: 1.2rem; overflow-x: auto; white-space: nowrap;
  padding: .6rem max(1rem, calc(50vw - 36rem)); background: var(--paper); border-bottom: 1px solid var(--line); }
nav a { color: var(--soft); text-decoration: none; font-size: .9rem; }
nav a:hover { color: var(--blue); }
main { max-width: 74rem; margin: 0 auto; padding: 0 1rem 4rem; }
h1 { font-size: 2.1rem; line-height: 1.2; margin: 2rem 0 .2rem; overflow-wrap: anywhere; }
h2 { font-size: 1.4rem; margin: 3rem 0 .8rem; padding-top: 1rem; border-top: 1px solid var(--line); }
h3 { font-size: .9rem; font-weight: 600; color: var(--soft); margin: 0; }
p { margin: .4rem 0; overflow-wrap: anywhere; }
.lead { color: var(--soft); font-size: 1.1rem; }
.small { color: var(--soft); font-size: .85rem; }
.tiles { display: grid; grid-template-columns: repeat(auto-fit, minmax(20rem, 1fr)); gap: 1rem; margin: 1.4rem 0; }
.tile { background: var(--panel); border-radius: .6rem; padding: 1rem 1.2rem; }
.big { font-size: 1.45rem; line-height: 1.35; margin: .4rem 0; }
.before { color: var(--red); } .after { color: var(--blue); font-weight: 700; white-space: nowrap; }
.verdict { border-left: 4px solid var(--blue); padding-left: 1rem; margin: 1rem 0 1.4rem; }
.verdict p:first-child { font-weight: 600; }
.scroll { overflow-x: auto; }
table { border-collapse: collapse; min-width: 60%; font-size: .9rem; font-variant-numeric: tabular-nums; }
th, td { padding: .3rem .7rem; text-align: right; border-bottom: 1px solid var(--line); white-space: nowrap; }
thead th { color: var(--soft); font-weight: 600; }
th.text, td.text, tbody th { text-align: left; }
tbody th { font-weight: 400; }
td.wide { text-align: left; white-space: normal; overflow-wrap: anywhere; }
td.failed { text-align: left; color: var(--red); white-space: normal; }
tr.baseline { color: var(--soft); }
tr.selected { background: var(--tint); } tr.selected th, tr.selected td { font-weight: 700; }
tr.tie { background: var(--tie); }
tr.title td { font-weight: 600; padding-top: 1.1rem; }
figure { margin: 1.8rem 0 0; } figcaption { font-weight: 600; margin-bottom: .2rem; }
.plot { width: 100%; }
details { margin-top: 1rem; } summary { cursor: pointer; color: var(--blue); }
@media print { nav { display: none; } figure, tr { break-inside: avoid; } }
"""
"""Style sheet; colours follow the reader's light or dark setting."""

SCRIPT = """
const ink = () => getComputedStyle(document.body).color;
const config = {responsive: true, displaylogo: false, displayModeBar: "hover",
  modeBarButtonsToRemove: ["select2d", "lasso2d"]};
plots.forEach((plot, i) => {
  plot.layout.font.color = ink();
  Plotly.newPlot("plot-" + i, plot.data, plot.layout, config);
});
matchMedia("(prefers-color-scheme: dark)").addEventListener("change", () =>
  plots.forEach((_, i) => Plotly.relayout("plot-" + i, {"font.color": ink()})));
"""
"""Draws ``plots[i]`` into ``#plot-i`` with text in the page's colour, and again when the reader's setting changes."""


# Parts of pages: lists and tables of plain words.


def listed(lines: Iterable[str]) -> str:
    """Return a list with one entry per line."""
    return f"<ul>{''.join(f'<li>{escape(line)}</li>' for line in lines)}</ul>"


def table(
    heads: Sequence[str],
    rows: Sequence[Sequence[str]],
    *,
    titles: Container[int] = (),
    prose: Container[str] = (),
) -> str:
    """Return a table that scrolls sideways by itself; columns of words are set to the left.

    Parameters
    ----------
    heads : sequence of str
    rows : sequence of sequence of str
    titles : container of int
        Places of the rows that head those below them.
    prose : container of str
        Heads of columns that are words, whatever their cells begin with.
    """
    words = [
        head in prose or all(not row[i] or row[i][0].isidentifier() for row in rows) for i, head in enumerate(heads)
    ]
    sides = [' class="text"' if left else "" for left in words]
    head = "".join(f'<th scope="col"{side}>{escape(one)}</th>' for one, side in zip(heads, sides, strict=True))
    lines = []
    for place, row in enumerate(rows):
        cells = "".join(f"<td{side}>{escape(one)}</td>" for one, side in zip(row, sides, strict=True))
        lines.append(f'<tr class="title">{cells}</tr>' if place in titles else f"<tr>{cells}</tr>")
    return f'<div class="scroll"><table><thead><tr>{head}</tr></thead><tbody>{"".join(lines)}</tbody></table></div>'


class Page:
    """HTML in the making: sections, their entries in the navigation, and the figures' JSON."""

    def __init__(self) -> None:
        self.body: list[str] = []
        self.links: list[str] = []
        self.plots: list[str] = []

    def heading(self, title: str, lead: str, *parts: str) -> None:
        """Add the head of the page: its title, a sentence under it, HTML parts, and its entry in the navigation."""
        self.links.append('<a href="#top">Overview</a>')
        self.body.append(
            f'<header id="top"><h1>{escape(title)}</h1><p class="lead">{escape(lead)}</p>{"".join(parts)}</header>'
        )

    def section(self, anchor: str, link: str, heading: str, *parts: str) -> None:
        """Add a section of HTML parts, and its entry in the navigation."""
        self.links.append(f'<a href="#{anchor}">{escape(link)}</a>')
        self.body.append(f'<section id="{anchor}"><h2>{escape(heading)}</h2>{"".join(parts)}</section>')

    def figure(self, figure: go.Figure | None, caption: str) -> str:
        """Return the place of a figure and keep its JSON, in which ``<`` cannot end the script."""
        if figure is None:
            return ""
        text = figure.to_json(validate=False, engine="json")
        self.plots.append(text.replace("<", "\\u003c").replace("\u2028", "\\u2028").replace("\u2029", "\\u2029"))
        number = len(self.plots) - 1
        height = figure.layout.height
        return (
            f'<figure><figcaption>{escape(caption)}</figcaption><div class="plot" id="plot-{number}" '
            f'style="min-height:{height}px"></div></figure>'
        )

    def document(self, title: str) -> str:
        """Return the whole page as text."""
        plots = ",\n".join(self.plots)
        return (
            f'<!DOCTYPE html>\n<html lang="en"><head><meta charset="utf-8"><title>{escape(title)}</title>'
            '<meta name="viewport" content="width=device-width, initial-scale=1">'
            '<meta name="color-scheme" content="light dark">'
            f"<style>{STYLE}</style></head>\n<body><nav>{''.join(self.links)}</nav><main>\n"
            + "\n".join(self.body)
            + "\n<noscript><p>The figures need JavaScript; the tables do not.</p></noscript></main>\n"
            f"<script>{get_plotlyjs()}</script>\n<script>const plots = [{plots}];\n{SCRIPT}</script></body></html>\n"
        )

"""The tables of a training run on a terminal of 100 columns."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from rich.box import SIMPLE_HEAD
from rich.console import Console, Group, RenderableType
from rich.padding import Padding
from rich.table import Table
from rich.text import Text

from . import wording
from .console import note, rejections

Row = Mapping[str, Any]


def show(console: Console, metrics: Row, *, rank: int = 10) -> None:
    """Print everything ``metrics.json`` says: data, a table per scheme, ranking, groups, intervals and the headline.

    Parameters
    ----------
    console : rich.console.Console
        Where to print.
    metrics : mapping
        As ``metrics.json`` holds them; sections that are missing are left out.
    rank : int
        How many features of the ranking to list; 0 lists none.
    """
    console.print(data_summary(metrics.get("data") or {}))
    for cv in metrics.get("cv") or []:
        console.print(model_table(cv))
        console.print(selection(cv))
    if rank and metrics.get("ranking"):
        console.print(ranking_table(metrics["ranking"], rank))
    if metrics.get("groups"):
        console.print(group_table(metrics["groups"]))
    if metrics.get("intervals"):
        console.print(interval_table(metrics["intervals"]))
    for cv in metrics.get("cv") or []:
        if said := wording.headline(cv):
            console.print(Text(f"{wording.left_out(cv['scheme'])} — {said}", style="bold"))


def model_table(cv: Row) -> RenderableType:
    """Return the table of one scheme: baselines first, then models by E_out, then those that failed and why.

    Parameters
    ----------
    cv : mapping
        One entry of ``metrics["cv"]``.
    """
    table = _table(f"{wording.scheme(cv)}: errors and inlier ratios (IR) in %")
    table.add_column("")
    table.add_column("model", overflow="fold", min_width=12)
    for header in wording.HEADERS:
        table.add_column(header, justify="left" if header == "fitted to" else "right", no_wrap=header != "fitted to")
    failed = Table.grid(padding=(0, 1))
    baselines = len(cv.get("baselines") or [])
    for index, (row, mark) in enumerate(wording.ordered(cv)):
        name = Text(str(row["name"]), style="dim" if index < baselines else "")
        if row.get("error"):
            failed.add_row(Text("  "), name, Text(f"failed: {row['error']}", style="red"))
            continue
        style = "bold" if mark == "*" else ""
        texts = [Text(mark), name, *map(Text, wording.cells(row))]
        table.add_row(*texts, style=style, end_section=index == baselines - 1)
    return Group(table, Padding(failed, (0, 0, 1, 0))) if failed.row_count else table


def selection(cv: Row) -> RenderableType:
    """Return the sentences about the selected model: honest error and interval, and what ties with it."""
    chosen = cv.get("selected") or {}
    lines = [Text(line) for line in wording.verdict(cv)]
    if lines:
        lines[0].stylize("bold", 0, len(str(chosen["name"])))
        lines[0] = Text("* ") + lines[0]
    return Padding(Group(*lines), (0, 0, 1, 2))


def data_summary(data: Row) -> RenderableType:
    """Return what was trained on and what the data lost on the way."""
    grid = Table.grid(padding=(0, 2))
    grid.add_column(justify="right", no_wrap=True)
    grid.add_column(overflow="fold")
    for label, value in wording.counts(data):
        grid.add_row(Text(value), Text(label))
    title = Text(f"{wording.title(data)}: {wording.metric(data)}", style="bold")
    losses = (*rejections(data.get("rejected") or {}), *map(note, data.get("notes") or []))
    return Padding(Group(title, grid, *losses), (1, 0, 0, 1))


def ranking_table(ranking: Sequence[Row], top: int) -> RenderableType:
    """Return the first ``top`` features of each measure."""
    table = _table("features by what they contribute", gap=2)
    for header, side in (("#", "right"), ("feature", "left"), ("value", "right"), ("measure", "left")):
        table.add_column(header, justify=side, overflow="fold")  # type: ignore[arg-type]
    for measure, rows in wording.rankings(ranking, top).items():
        for place, (feature, value) in enumerate(rows, 1):
            last = place == len(rows)
            table.add_row(str(place), Text(feature), f"{value:.3g}", Text(measure), end_section=last)
    return table


def group_table(groups: Sequence[Row], top: int = 5) -> RenderableType:
    """Return the groups with the largest error, worst first."""
    worst = sorted(groups, key=lambda row: -(row.get("e_out") or 0.0))[:top]
    table = _table(f"groups with the largest error ({len(worst)} of {len(groups)})", gap=2)
    table.add_column("group", overflow="fold")
    for header in ("rows", "E_out %", "baseline %"):
        table.add_column(header, justify="right", no_wrap=True)
    for row in worst:
        errors = (wording.number(row.get(key)) for key in ("e_out", "baseline_e_out"))
        table.add_row(Text(str(row["group"])), f"{row.get('n', 0):,}", *errors)
    return table


def interval_table(intervals: Row) -> RenderableType:
    """Return how often the prediction intervals held, and how wide they are."""
    level = intervals.get("level")
    table = _table("prediction intervals" + (f" at {100 * level:.0f} %" if level else ""), gap=2)
    table.add_column("predicting")
    for header in ("covered", "median width"):
        table.add_column(header, justify="right", no_wrap=True)
    for row in wording.covered(intervals):
        table.add_row(*row)
    return table


def _table(title: str, gap: int = 1) -> Table:
    """Return an empty table whose columns stand ``gap`` blanks apart, the divider being one of them."""
    padding = (0, gap - 1, 0, 0)
    return Table(title=f"\n{title}", title_justify="left", title_style="bold", box=SIMPLE_HEAD, padding=padding)

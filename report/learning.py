"""A learning curve as a document: how many rows of the target must be measured, and what they are worth."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final

import numpy as np
import pandas as pd

from . import figures
from .document import Chart, Column, Document, Figure, Headline, Section, Table, lines, records, rows, upcoming
from .formats import counted, number, percent, share
from .training import left_out, metric, title

SCHEMA: Final = 1
ENOUGH: Final = 1.1  # times the least error of a way that is as good as that


def curve_document(table: pd.DataFrame, about: Mapping[str, Any]) -> Document:
    """Return a learning curve for terminal, page and machines, as `Curve` of the API has it."""
    ways = list(dict.fromkeys(table["way"]))
    what = left_out(about["scheme"])
    heads = [
        Column("rows measured", "number"),
        *(
            Column(head, "number")
            for way in ways
            for head in (f"{way}: error, %", "from … to", f"{about['interval']:.0%} covered", "width")
        ),
        Column("affine, %", "number"),
        Column("selected", "words"),
    ]
    body = []
    for count, part in table.groupby("rows", sort=True):
        by_way = part.set_index("way")
        cells = [f"{count:,}"]
        for way in ways:
            one = by_way.loc[way]
            cells += [number(one["e_out"]), f"{number(one['least'])} – {number(one['greatest'])}"]
            cells += [share(one["coverage"]), share(one["width"], 0)]
        cells += [number(by_way["affine"].iloc[-1]), by_way["model"].iloc[-1]]
        body.append(cells)
    caption = (
        f"Mean error on {what}, and its range over {counted(about['draws'], 'draw')}; affine: the line through "
        f"{'the times of the host' if about['host'] else 'the roofline'}, fitted to the same rows; selected: "
        f"by the folds of those rows, {ways[-1]}; width: that of the intervals, of the prediction (median)."
    )
    notes = [
        f"{counted(about['pool'], 'row')} to draw from, {counted(about['held_out'], 'row')} held out",
        *([f"left out, as there are not so many rows: {', '.join(map(str, about['left_out']))}"]
          if about["left_out"] else []),
        *(["some rows held out have no answer, as what they compute was not drawn"]
          if (table["answered"] < 1).any() else []),
    ]  # fmt: skip
    each = [_enough(table[table["way"] == way], way) for way in ways]
    means = table.groupby("way")["e_out"].mean().fillna(np.inf)
    answer = anew(about, table["rows"].max()) or each[min(range(len(ways)), key=lambda place: means[ways[place]])]
    said = [one for one in each if one != answer]
    answered = table[table["e_out"].notna()]
    chart = Chart(
        "error against rows measured",
        [
            (way, np.log10(part["rows"].to_numpy(dtype=float)), np.log10(part["e_out"].to_numpy(dtype=float)))
            for way, part in ((way, answered[answered["way"] == way]) for way in ways)
            if len(part)
        ],
        ("rows measured", "error, %"),
        logarithmic=True,
        asked=False,
    )
    return Document(
        title=f"{title(about)}: how many rows must be measured",
        lead=f"{metric(about)}, {what}",
        opening=[Headline("rows of the target", answer)],
        sections=[
            Section(
                "Error against rows measured",
                [
                    lines(said, "list"),
                    Figure(lambda: figures.learning(table, about["interval"]), caption),
                    chart,
                    Table(heads, rows(body), f"{title(about)}: error by rows measured", caption, name="curve"),
                    lines([f"note: {note}" for note in notes], tone="soft"),
                ],
            )
        ],
        closing=[upcoming("flopcast advise RUN CANDIDATES --rows N chooses which rows to measure")],
        data={"schema": SCHEMA, **about, "curve": records(table)},
    )


def anew(about: Mapping[str, Any], most: int) -> str:
    """Say from how many rows on training anew errs less than a run for another target, shifted; "" without one."""
    if "anew_from" not in about:
        return ""
    shifted = f"the run for {about['shifted_target']}, shifted by one factor"
    if about["anew_from"] is None:
        return f"with up to {most:,} rows of {about['target']} training anew errs no less than {shifted}"
    return f"from {counted(about['anew_from'], 'row')} of {about['target']} on training anew errs less than {shifted}"


def _enough(part: pd.DataFrame, way: str) -> str:
    """Say from how many rows on more of them give little."""
    best = part["e_out"].min()
    if np.isnan(best):
        return f"{way}: no answer for the rows held out"
    first = part[part["e_out"] <= ENOUGH * best].iloc[0]
    most = part.iloc[-1]
    if len(part) == 1:
        return f"{way}: {percent(most['e_out'])} with {counted(int(most['rows']), 'row')}"
    if first["rows"] == most["rows"]:
        return f"{way}: {percent(most['e_out'])} with {most['rows']:,} rows, and still falling"
    return (
        f"{way}: {percent(first['e_out'])} with {counted(int(first['rows']), 'row')}; {most['rows']:,} give "
        f"{percent(most['e_out'])}"
    )

"""Pictures of the pages, drawn from what the README states, so that both say the same."""

from __future__ import annotations

import re
from html import escape
from pathlib import Path
from typing import NamedTuple

WIDTH, ROW, LEFT = 760, 74, 16
COLOURS = {"FLOPS scaling": "#D55E00", "known groups": "#56B4E9", "new groups": "#1C83C6"}
TEXT = "#808080"  # legible on light and dark pages


class Accuracy(NamedTuple):
    """A row of the README's table: the data, and the errors of the rule and of what a run saves, in %."""

    data: str
    rule: float
    known: float
    new: float


def accuracies(readme: str) -> list[Accuracy]:
    """Return the rows of the table under "Measured accuracy"."""
    section = readme.partition("## Measured accuracy")[2].partition("\n## ")[0]
    rows = []
    for line in section.splitlines():
        cells = [cell.strip() for cell in line.strip("|").split("|")]
        numbers = [re.match(r"([\d.]+) %", cell) for cell in cells[1:4]]
        if all(numbers) and numbers:
            rows.append(Accuracy(cells[0], *(float(found[1]) for found in numbers if found)))
    return rows


def accuracy_picture(readme: str) -> str:
    """Return bars of the errors on each kind of data as SVG: the rule, known groups, new groups."""
    rows = accuracies(readme)
    most = max(row.rule for row in rows)
    scale = (WIDTH - 2 * LEFT - 60) / most
    height = 40 + ROW * len(rows)
    parts = [
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {WIDTH} {height}" role="img" '
        f'font-family="system-ui, sans-serif" font-size="13" fill="{TEXT}">',
        "<title>Errors out of sample: FLOPS scaling or roofline, and flopcast</title>",
    ]
    across = LEFT
    for name, colour in COLOURS.items():
        parts.append(f'<rect x="{across}" y="8" width="12" height="12" fill="{colour}"/>')
        label = name if name == "FLOPS scaling" else f"flopcast, {name}"
        parts.append(f'<text x="{across + 18}" y="19">{label}</text>')
        across += 170
    for place, row in enumerate(rows):
        top = 40 + ROW * place
        parts.append(f'<text x="{LEFT}" y="{top + 12}">{escape(row.data)}</text>')
        errors = (row.rule, row.known, row.new)
        for line, (error, colour) in enumerate(zip(errors, COLOURS.values(), strict=True)):
            up = top + 20 + 15 * line
            wide = error * scale
            parts.append(
                f'<rect x="{LEFT}" y="{up}" width="{wide:.1f}" height="11" fill="{colour}"/>'
            )
            parts.append(f'<text x="{LEFT + wide + 6:.1f}" y="{up + 10}">{error:g} %</text>')
    return "\n".join([*parts, "</svg>", ""])


def draw(folder: Path, readme: Path) -> None:
    """Write the pictures; one that is as it was is left alone."""
    text = accuracy_picture(readme.read_text(encoding="utf-8"))
    path = folder / "accuracy.svg"
    if not path.exists() or path.read_text(encoding="utf-8") != text:
        path.write_text(text, encoding="utf-8")

"""Pictures of the pages, drawn from what README and pages state, so that both say the same."""

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
    trained: float
    new: float


def accuracies(readme: str) -> list[Accuracy]:
    """Return the rows of the table under "Measured accuracy"."""
    section = readme.partition("## Measured accuracy")[2].partition("\n## ")[0]
    rows = []
    for line in section.splitlines():
        cells = [cell.strip() for cell in line.strip("|").split("|")]
        numbers = [re.match(r"([\d.]+) %", cell) for cell in cells[1:4]]
        if all(numbers) and numbers:
            rows.append(Accuracy(cells[0], *(float(match[1]) for match in numbers if match)))
    return rows


def accuracy_picture(readme: str) -> str:
    """Return bars of the errors on each kind of data as SVG: the rule, known groups, new groups."""
    rows = [(row.data, (row.rule, row.trained, row.new)) for row in accuracies(readme)]
    names = {}
    for name, colour in COLOURS.items():
        names[name if name == "FLOPS scaling" else f"flopcast, {name}"] = colour
    return bars("Errors out of sample: FLOPS scaling or roofline, and flopcast", names, rows)


def bars(
    title: str, names: dict[str, str], rows: list[tuple[str, tuple[float, ...]]], unit: str = "%"
) -> str:
    """Return groups of bars as SVG: a bar of each name, in its colour, under the label of each row."""
    largest = max(value for _, values in rows for value in values)
    scale = (WIDTH - 2 * LEFT - 60) / largest
    high = ROW - 15 * (3 - len(names))
    height = 40 + high * len(rows)
    parts = [
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {WIDTH} {height}" role="img" '
        f'font-family="system-ui, sans-serif" font-size="13" fill="{TEXT}">',
        f"<title>{escape(title)}</title>",
    ]
    across = LEFT
    for name, colour in names.items():
        parts.append(f'<rect x="{across}" y="8" width="12" height="12" fill="{colour}"/>')
        parts.append(f'<text x="{across + 18}" y="19">{escape(name)}</text>')
        across += max(170, 40 + 7 * len(name))
    for place, (label, values) in enumerate(rows):
        top = 40 + high * place
        parts.append(f'<text x="{LEFT}" y="{top + 12}">{escape(label)}</text>')
        for line, (value, colour) in enumerate(zip(values, names.values(), strict=True)):
            up = top + 20 + 15 * line
            wide = value * scale
            parts.append(
                f'<rect x="{LEFT}" y="{up}" width="{wide:.1f}" height="11" fill="{colour}"/>'
            )
            parts.append(f'<text x="{LEFT + wide + 6:.1f}" y="{up + 10}">{value:g} {unit}</text>')
    return "\n".join([*parts, "</svg>", ""])


def stated(page: str, head: str) -> list[list[str]]:
    """Return the cells of the table of a page of Markdown whose first column has this head."""
    lines = page.partition(f"\n| {head} |")[2].splitlines()[2:]
    cells = []
    for line in lines:
        if not line.startswith("|"):
            break
        cells.append([cell.strip() for cell in line.strip("|").split("|")])
    return cells


def serving_picture(scoreboard: str) -> str:
    """Return bars of the mean errors of serving by what is new, from the scoreboard's first table."""
    rows = []
    for gpus, new, _, token, _, _, first, _ in stated(scoreboard, "GPUs | what is new"):
        errors = (float(token.split()[0]), float(first.split()[0]))
        rows.append((f"{gpus}, new: {new}", errors))
    names = {"time per token": "#1C83C6", "time to the first token": "#E69F00"}
    return bars("Mean errors of forecasts of serving by what is new", names, rows)


def public_picture(record: str) -> str:
    """Return bars of the errors of unseen groups for each pair of GPUs, from the page of the public record."""
    rows = []
    for pair, _, vllm, _, tensorrt, *_ in stated(record, "pair"):
        rows.append((pair, (float(vllm.split()[-1]), float(tensorrt.split()[-1]))))
    names = {"vLLM": "#1C83C6", "TensorRT-LLM": "#009E73"}
    return bars("Mean errors of unseen groups for each pair of GPUs", names, rows)


def coverage_picture(calibration: str) -> str:
    """Return bars of how often 90 % intervals held, from the page of what was held against the truth."""
    rows = []
    for kind, mean, least, _ in stated(calibration, "new groups, 200 sets a kind"):
        rows.append((kind, (float(mean.split()[0]), float(least.split()[0]))))
    names = {"held, mean": "#1C83C6", "held, worst of nine kinds of rows": "#E69F00"}
    return bars("How often 90 % intervals of new groups held", names, rows)


def draw(folder: Path, readme: Path) -> None:
    """Write the pictures; one that is as it was is left alone."""
    docs = readme.parent / "docs"
    sources = {
        "accuracy.svg": (accuracy_picture, readme),
        "serving.svg": (serving_picture, docs / "scoreboard.md"),
        "public.svg": (public_picture, docs / "methods" / "public_record.md"),
        "coverage.svg": (coverage_picture, docs / "methods" / "calibration.md"),
    }
    for name, (picture, source) in sources.items():
        text = picture(source.read_text(encoding="utf-8"))
        path = folder / name
        if not path.exists() or path.read_text(encoding="utf-8") != text:
            path.write_text(text, encoding="utf-8")

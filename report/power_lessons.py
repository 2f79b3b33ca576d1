"""What the power of several kernels teaches, as a section of the document: the kernels side by side, and tables."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from functools import partial
from html import escape
from typing import Any, Final

import numpy as np
import plotly.graph_objects as go

from ..power.lessons import LEAST_CORRELATION, MOST_TOGETHER, Lessons
from ..power.logs import TOTAL
from ..power.profile import KernelPower
from .document import Column, Figure, Row, Section, Table, columns
from .figures import BASELINE, NEUTRAL, OTHERS, SELECTED, styled
from .formats import formatted, number, significant

BAR: Final = 46
"""Height of a kernel's bar with its name above it, pixels."""
COLOURS: Final = {"xcd": SELECTED, "iod": OTHERS[2], "hbm": OTHERS[0]}
"""Of the components that are known; others take the colours that are left."""
_NAME: Final = Column("kernel", "prose", least=12)
_LONGEST: Final = 50  # signs of a name above a bar that a telephone has room for


def lessons_section(kernels: Sequence[KernelPower], found: Lessons) -> Section:
    """Return the section of several kernels; of one alone it is left out, as there is nothing to compare."""
    if len(kernels) < 2:
        return Section("Kernels side by side", [])
    caption = "Steady power, mean over the kernel's time, by component; the mark is the total"
    tables = [_bounds(found), _throughput(found), _complements(found), _interleaved(found)]
    return Section(
        "Kernels side by side",
        [Figure(partial(side_by_side, kernels), caption), *tables],
        "side-by-side",
        "Side by side",
    )


def _bounds(found: Lessons) -> Table:
    heads = [_NAME, Column("bound by", "name"), *_numbers("FLOP/B", "balance", "growth", "TFLOP/s")]
    rows = [
        Row(
            (
                row["kernel"],
                row["bound"].removesuffix("-bound") or "–",
                *(significant(row[name]) for name in ("flops_per_byte", "balance")),
                formatted(row["growth"], "{:.2f}"),
                significant(row["tflops"]),
                row["dominant"] or "–",
                number(100 * row["dominant_share"]),
            )
        )
        for row in _records(found.kernels)
        if row["bound"] or row["dominant"]
    ]
    caption = (
        "bound by: compute from the GPU's balance of FLOP per byte on, else memory; collectives by latency where their "
        "time grows with less than the root of their size (growth: the power of it); dominant: the component that "
        "draws most"
    )
    return Table([*heads, Column("dominant", "name"), *_numbers("share, %")], rows, "What bounds kernels", caption)


def _throughput(found: Lessons) -> Table:
    heads = columns("component", numbers=["kernels", "W per TFLOP/s", "W at none", "correlation"])
    rows = [
        Row(
            (
                row["component"],
                f"{row['kernels']}",
                *(significant(row[name]) for name in ("slope_w", "rest_w")),
                formatted(row["correlation"], "{:.2f}"),
                "follows"
                if row["follows"]
                else "too few tell"
                if row["correlation"] >= LEAST_CORRELATION
                else "does not",
            )
        )
        for row in _records(found.throughput)
    ]
    caption = "The line of steady power over achieved throughput of the kernels that compute"
    return Table([*heads, Column("throughput", "name")], rows, "Which power follows throughput", caption)


def _complements(found: Lessons) -> Table:
    heads = [_NAME, Column("loads", "name"), Column("other", "prose", least=12), Column("loads", "name")]
    rows = [
        Row((row["kernel"], row["peak"], row["other"], row["other_peak"], _percent(row["together"]), row["busiest"]))
        for row in _records(found.complements)
    ]
    caption = (
        f"Pairs that load different components, and together none by over {100 * MOST_TOGETHER:g} % of the most that a "
        "kernel here draws; together: of the fullest component"
    )
    title = "Which kernels complement each other"
    return Table([*heads, *_numbers("together, %"), Column("of", "name")], rows, title, caption, shown=8)


def _interleaved(found: Lessons) -> Table:
    heads = [_NAME, *_numbers("time", "power", "energy")]
    rows = [
        Row((row["kernel"], *(formatted(row[f"{name}_ratio"], "{:.3f}") for name in ("time", "power", "energy"))))
        for row in _records(found.interleaved)
    ]
    caption = "Times what it is in runs with no other kernel; no energy where the power is that of a mixture"
    return Table(heads, rows, "Interleaved with other kernels, against alone", caption)


def side_by_side(kernels: Sequence[KernelPower]) -> go.Figure:
    """Return a bar per kernel, its components stacked; the total, a mark, where the log has components beside it."""
    names = list(dict.fromkeys(name for one in kernels for name in one.components))
    parts = [name for name in names if name != TOTAL] or names
    place, figure = np.arange(len(kernels)), go.Figure()
    hover = [escape(one.kernel) for one in kernels]
    for name, colour in zip(parts, _colours(parts), strict=True):
        figure.add_bar(
            name=escape(name), x=_watts(kernels, name), y=place, orientation="h", width=0.46, text=hover,
            textposition="none", marker={"color": colour},
            hovertemplate=f"%{{text}}: {escape(name)} %{{x:.4g}} W<extra></extra>",
        )  # fmt: skip
    if TOTAL in names and TOTAL not in parts:
        figure.add_scatter(
            name=TOTAL, x=_watts(kernels, TOTAL), y=place, mode="markers", text=hover,
            marker={"color": NEUTRAL, "symbol": "line-ns-open", "size": 22, "line": {"width": 3}},
            hovertemplate="%{text}: %{x:.4g} W<extra></extra>",
        )  # fmt: skip
    for at, one in enumerate(kernels):
        figure.add_annotation(
            x=0,
            y=at - 0.26,
            text=escape(_cut(one.kernel)),
            showarrow=False,
            xanchor="left",
            yanchor="bottom",
            font={"size": 12},
            xshift=-2,
        )
    figure.update_layout(barmode="stack")
    figure.update_xaxes(title_text="W", rangemode="tozero")
    figure.update_yaxes(range=[len(kernels) - 0.6, -0.85], showticklabels=False, showgrid=False)
    legend = {"orientation": "h", "y": 1, "yanchor": "bottom", "x": 0, "traceorder": "normal"}
    return styled(figure, BAR * len(kernels) + 110, legend).update_layout(margin={"l": 12})


def _cut(name: str) -> str:
    """Return a long name without its middle: kernels differ in what they are, and in the size that comes last."""
    return name if len(name) <= _LONGEST else f"{name[: _LONGEST // 2 - 1]}…{name[-_LONGEST // 2 :]}"


def _colours(parts: Sequence[str]) -> Iterator[str]:
    others = iter((OTHERS[1], OTHERS[3], BASELINE) * len(parts))
    return (COLOURS[name] if name in COLOURS else next(others) for name in parts)


def _watts(kernels: Sequence[KernelPower], name: str) -> list[float | None]:
    found = (one.components.get(name) for one in kernels)
    return [None if part is None else float(f"{part.ssp.mean_w:.6g}") for part in found]


def _records(table: Any) -> list[dict[str, Any]]:
    return [{str(name): value for name, value in row.items()} for row in table.to_dict("records")]


def _numbers(*heads: str) -> list[Column]:
    return [Column(head, "number") for head in heads]


def _percent(share: float) -> str:
    return number(100 * share)

"""What `scale` says of measured devices, as a document: how each kernel family scales with the units."""

from __future__ import annotations

from functools import partial
from html import escape
from typing import Any, Final

import numpy as np
import plotly.graph_objects as go

from ..evaluation.linear_scaling import ValidationResult
from ..evaluation.verdicts import Interval, Outcome, too_few
from ..scaling.devices import CU_LAW, FAMILY, LEVEL, DeviceScaling, DeviceSizes, FamilyScaling
from ..scaling.scaling_class import MARGIN, Growth
from .document import Cell, Column, Document, Figure, Lines, Row, Section, Table, Tone, columns, lines, remarked
from .figures import BASELINE, NEUTRAL, OTHERS, SELECTED, panels
from .scaling import DASHES
from .validation import conclusion, summary, validation_json

COLUMNS: Final = (
    *columns("family", numbers=("problems", "groups", f"exponent [{100 * LEVEL:g} %]", "5 to 95 % of problems")),
    Column("scaling", "prose"),
)
_TONES: Final[dict[Growth, Tone]] = {
    Growth.LINEAR: "good",
    Growth.SUB: "error",
    Growth.SUPER: "accent",
    Growth.UNDECIDED: "warning",
    Growth.TOO_FEW: "soft",
}


def devices_document(result: DeviceScaling) -> Document:
    """Return the families, the verdict on linear scaling from the smallest device to others, and the data's limits."""
    families = Table(COLUMNS, [family_row(one) for one in result.families], caption=legend())
    exponents = "Exponent of every problem, and the median of its family with its interval"
    curves = Figure(partial(problem_figure, result.measured), "Performance against that on the smallest device")
    verdicts = lines((line for verdict in result.verdicts for line in verdict_lines(verdict)), "answer")
    told = Lines(remarked((*result.limits, *result.notes)), "list")
    return Document(
        title="Performance over size, measured",
        lead=title(result.measured),
        sections=[
            Section("How each kernel family scales", [families, Figure(partial(family_figure, result), exponents)],
                    "families", "Families"),
            Section("Problem by problem", [curves], "problems", "Problems"),
            Section("Is time inversely proportional to size?", [verdicts], "linear", "Linear scaling"),
            Section("What these data cannot show, and remarks", [told], "remarks", "Remarks"),
        ],
        data=devices_json(result),
    )  # fmt: skip


def family_row(one: FamilyScaling) -> Row:
    """Return a family under `COLUMNS`: exponent, interval, spread over problems and the class."""
    spread = f"{one.spread[0]:.2f} to {one.spread[1]:.2f}"
    words = family_words(one) if one.growth is Growth.TOO_FEW else str(one.growth)
    counts = str(one.problems), str(one.groups)
    return Row((one.name, *counts, exponent_words(one.exponent), spread, Cell(words, _TONES[one.growth])))


def family_words(one: FamilyScaling) -> str:
    """Return how a family scales, or why nothing can be said."""
    few = too_few(one.problems, one.groups)
    return str(few.why) if few else f"{one.growth}: performance grows with size to the power {one.exponent}"


def title(measured: DeviceSizes) -> str:
    """Return which devices, how large, and how many problems."""
    names = ", ".join(f"{one.name} ({size:g})" for one, size in zip(measured.devices, measured.sizes, strict=True))
    return f"{names}; {len(measured.rows)} problems measured on all"


def legend() -> str:
    """Return how to read the table."""
    return (
        "exponent: performance (1 / time) grows with size to this power, 1 = linear; the median over problems with its "
        f"cluster-bootstrap interval. linear: the interval of {200 * LEVEL - 100:g} % within 1 ± {MARGIN:g}; "
        f"sub-linear, super-linear: that of {100 * LEVEL:g} % all below or above 1."
    )


def exponent_words(exponent: Interval) -> str:
    """Return an exponent with its interval, alone where it has none."""
    return f"{exponent.value:.2f}" if np.isnan(exponent.lower) else str(exponent)


def verdict_lines(verdict: ValidationResult) -> list[str]:
    """Return what `validate` says of linear scaling over size: of all rows, then where it holds and where it fails."""
    pooled, *lines = summary(verdict)
    host = verdict.dataset.host
    names = f"{host.name if host else 'host'} → {verdict.dataset.target.name}"
    return [f"{names}, {pooled}", *(line for line in lines if line.startswith((CU_LAW, Outcome.TOO_FEW.value)))]


def devices_json(result: DeviceScaling) -> dict[str, Any]:
    """Return the same for machines, problem by problem; a figure that does not exist is NaN."""
    return {
        "schema": 1,
        "devices": [one.name for one in result.measured.devices],
        "sizes": result.measured.sizes,
        "families": [_family_json(one) for one in result.families],
        "problems": problems(result.measured),
        "linear": [validation_json(verdict) for verdict in result.verdicts],
        "conclusions": [conclusion(verdict.classes[0]) for verdict in result.verdicts],
        "notes": [*map(str, (*result.limits, *result.notes))],
    }


def problems(measured: DeviceSizes) -> list[dict[str, Any]]:
    """Return each problem with its times and its exponent."""
    rows = measured.rows
    sources = rows["source"].astype(str) if "source" in rows else [""] * len(rows)
    return [
        {"op": str(op), "group": str(group), "source": source, "times_us": times, "exponent": float(exponent)}
        for op, group, source, times, exponent in zip(
            rows["op"], measured.groups, sources, measured.times_us, measured.exponents, strict=True
        )
    ]


def _family_json(one: FamilyScaling) -> dict[str, Any]:
    return {
        "op": one.op,
        "family": one.family,
        "dtype": one.dtype,
        "problems": one.problems,
        "groups": one.groups,
        "exponent": vars(one.exponent),
        "spread": list(one.spread),
        "class": str(one.growth),
        "words": family_words(one),
    }


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
        line = {"color": colour, "width": 1, "dash": DASHES[index // (1 + len(OTHERS)) % len(DASHES)]}
        figure.add_trace(
            go.Scatter(name=escape(str(op)), x=x.tolist(), y=y.tolist(), mode="lines", line=line, opacity=0.6)
        )
    ends = measured.sizes.tolist()
    linear = {"color": BASELINE, "width": 2, "dash": "dash"}
    figure.add_trace(go.Scatter(name="linear", x=ends, y=[size / ends[0] for size in ends], mode="lines", line=linear))
    figure.update_xaxes(type="log", tickvals=ends, ticktext=[f"{size:g}" for size in ends], title_text="compute units")
    figure.update_yaxes(type="log", title_text="performance against the smallest")
    return panels(figure, 480)

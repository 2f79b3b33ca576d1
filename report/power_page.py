"""The page `flopcast power profile` writes, which needs no network: stitched readings and curves per component."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from html import escape

import numpy as np
import plotly.graph_objects as go
from plotly.subplots import make_subplots

from ..power.clocks import Clocks
from ..power.energy import PHASES
from ..power.profile import ComponentPower, Curve, KernelPower, compare
from .figures import BASELINE, NEUTRAL, OTHERS, SELECTED, panels
from .html import Page
from .page import listed, table
from .power import COLUMNS, METHOD, clock_words, component_cells, description
from .words import say

PANEL = 260
"""Height of a component's panel, pixels."""


def power_html(kernels: Sequence[KernelPower], clocks: Clocks, level: float) -> str:
    """Return the page on measured power; the same result gives the same text.

    Parameters
    ----------
    kernels : sequence of KernelPower
        The kernels, one section each.
    clocks : Clocks
        How the clocks were synchronised.
    level : float
        Of the energies' intervals.
    """
    page = Page()
    page.heading("Power of kernels", f"Method: {METHOD}. Energies with {100 * level:g} % intervals.")
    rows = [(str(row["kernel"]), *component_cells(row)) for row in compare(kernels).to_dict("records")]
    page.section("table", "Table", "Power and energy", table(COLUMNS, rows), listed([clock_words(clocks)]))
    for place, one in enumerate(kernels):
        page.section(
            f"kernel-{place}",
            one.kernel[:40],
            one.kernel,
            page.figure(
                power_figure(one), "Readings of golden runs over the kernel's time, and the curves through them"
            ),
            listed([*description(one), *(f"{one.kernel}: {say(note)}" for note in one.notes)]),
        )
    return page.document("Power of kernels · flopcast")


def power_figure(one: KernelPower) -> go.Figure:
    """Return a panel per component: steady-power readings with polynomial and spline, and the steady execution's."""
    names = list(one.components)
    figure = make_subplots(
        rows=len(names), cols=1, shared_xaxes=True, subplot_titles=[escape(name) for name in names],
        vertical_spacing=min(0.08, 0.35 / len(names)),
    )  # fmt: skip
    for row, part in enumerate(one.components.values(), 1):
        for trace in _traces(part, one.kernel_us):
            figure.add_trace(trace.update(showlegend=row == 1, legendgroup=trace.name), row=row, col=1)
    figure.update_yaxes(title_text="W")
    figure.update_xaxes(title_text="time since the start of the execution, µs", row=len(names), col=1)
    return panels(figure, len(names) * PANEL + 120)


def _traces(part: ComponentPower, kernel_us: float) -> Iterator[go.Scatter]:
    """Yield the readings and curves of one component, the execution's position times the typical kernel time."""
    if part.sse is not None:
        yield _readings("SSE readings", part.sse, kernel_us, BASELINE)
        yield _line("SSE polynomial", PHASES, part.sse.polynomial_w, kernel_us, {"color": BASELINE, "dash": "dash"})
    yield _readings("SSP readings", part.ssp, kernel_us, NEUTRAL)
    yield _line("SSP polynomial", PHASES, part.ssp.polynomial_w, kernel_us, {"color": SELECTED, "width": 3})
    yield _line("SSP spline", PHASES, part.ssp.spline_w, kernel_us, {"color": OTHERS[0], "width": 2})
    if part.deconvolved is not None:
        own = part.deconvolved
        yield _line(
            "window removed", own.phase, own.power_w, kernel_us, {"color": OTHERS[1], "width": 2, "dash": "dot"}
        )


def _readings(name: str, curve: Curve, kernel_us: float, colour: str) -> go.Scatter:
    marker = {"color": colour, "size": 5, "opacity": 0.5}
    x = kernel_us * curve.readings["phase"].to_numpy()
    return go.Scatter(
        name=name, x=_short(x), y=_short(curve.readings["power_w"].to_numpy()), mode="markers", marker=marker,
        text=[f"run {escape(str(run))}" for run in curve.readings["run"]],
    )  # fmt: skip


def _line(name: str, phase: np.ndarray, power_w: np.ndarray, kernel_us: float, line: dict[str, object]) -> go.Scatter:
    return go.Scatter(name=name, x=_short(kernel_us * phase), y=_short(power_w), mode="lines", line=line)


def _short(values: np.ndarray) -> list[float]:
    """Return numbers to six digits, which the page needs no more than."""
    return [float(f"{value:.6g}") for value in values]

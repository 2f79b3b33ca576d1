"""Charts in characters, for terminals: the inlier curve, and observed against predicted values (``--plot``).

A topic builds a `report.document.Chart` with `inlier_chart` or `agreement_chart`; `drawn` makes text of it, in colour
where the terminal has any. Curves bear signs too, so that they can be told apart without colour.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

import numpy as np
import plotille
from numpy.typing import ArrayLike

from .document import Chart

_HEIGHT, _WIDTHS, _AXIS = 20, (100, 50), 20  # lines of a chart; its columns, so that ticks are round; those of its axis
_LARGEST: Final = 50.0  # error at the right end of the inlier curve, %
_COLOURS: Final = ("cyan", "red", "yellow", "green", "magenta", "blue")
_SIGNS: Final = ("o", "x", "+", "*", "#", "%")
_POINTS: Final = 20_000  # points above which a chart shows evenly chosen ones


def inlier_chart(errors: Mapping[str, ArrayLike], title: str = "share of workloads predicted within an error") -> Chart:
    """Return the curve of each name: the share of its errors (%, one per workload) that stay within a threshold.

    Examples
    --------
    >>> inlier_chart({"OLS": [1.0, 3.0, 90.0]}).curves[0][2][:3].round().tolist()
    [0.0, 33.0, 67.0]
    """
    limits = np.linspace(0.0, _LARGEST, 26)
    curves = []
    for name, found in errors.items():
        known = np.sort(np.asarray(found, dtype=float))
        known = known[np.isfinite(known)]
        if known.size:
            curves.append((name, limits, 100.0 * np.searchsorted(known, limits, side="right") / known.size))
    return Chart(title, curves, ("error at most, %", "workloads, %"), ((0.0, _LARGEST), (0.0, 100.0)))


def agreement_chart(observed: ArrayLike, predicted: ArrayLike, name: str, unit: str) -> Chart:
    """Return predicted over observed values on logarithmic axes, and the line where both are equal.

    Values that are not positive are left out; `unit` is the label of what was predicted, such as ``"time, µs"``.
    """
    pairs = np.column_stack([np.asarray(observed, dtype=float), np.asarray(predicted, dtype=float)])
    pairs = pairs[(np.isfinite(pairs) & (pairs > 0)).all(axis=1)]
    if not len(pairs):
        return Chart("", (), ("", ""))
    pairs = np.log10(pairs[:: 1 + len(pairs) // _POINTS])
    ends = np.array([pairs.min(), pairs.max() + 1e-9])
    curves = [("predicted = observed", ends, ends), (name, pairs[:, 0], pairs[:, 1])]
    axes = (f"observed {unit}", f"predicted {unit}")
    title = f"observed, and predicted by {name}"
    return Chart(title, curves, axes, ((ends[0], ends[1]),) * 2, logarithmic=True, points=frozenset({name}))


def drawn(chart: Chart, width: int, *, coloured: bool = False) -> str:
    """Return a chart as text for a terminal of so many columns, with its legend."""
    figure = plotille.Figure()
    figure.width = next((wide for wide in _WIDTHS if wide + _AXIS <= width), 25)
    figure.height = _HEIGHT
    figure.with_colors, figure.origin = coloured, False
    figure.x_label, figure.y_label = "x", "y"
    figure.x_ticks_fkt = figure.y_ticks_fkt = lambda value, _: f"{10.0**value if chart.logarithmic else value:.3g}"
    if chart.limits:
        (left, right), (low, high) = chart.limits
        figure.set_x_limits(left, right)
        figure.set_y_limits(low, high)
    for place, (name, x, y) in enumerate(chart.curves):
        colour = _COLOURS[place % len(_COLOURS)] if coloured else None
        if name in chart.points:
            figure.scatter(x, y, lc=colour, label=name)
        else:
            sign = None if chart.points else _SIGNS[place % len(_SIGNS)]
            figure.plot(x, y, lc=colour, label=name, marker=sign)
    body, _, legend = figure.show(legend=True).partition("\n\nLegend:\n-------\n")
    named = "   ".join([f"x: {chart.axes[0]}", f"y: {chart.axes[1]}", *legend.splitlines()])
    return f"{body.rstrip()}\n\n{named}\n"

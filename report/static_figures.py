"""Figures without a script: plotly's lines, points, bars and heat maps as SVG, for notebooks that are exported.

Drawn without a browser or a library of images. Text and grid are grey, legible on light and dark pages.
"""

from __future__ import annotations

import math
import re
from collections.abc import Iterator, Sequence
from html import unescape
from typing import Any, NamedTuple
from xml.sax.saxutils import escape

import numpy as np
import plotly.graph_objects as go

WIDTH = 640
HEIGHT = 360
LEFT = 84
RIGHT = 22
TOP = 46
BOTTOM = 56
TEXT = "#808080"
GRID = "#808080"
PALETTE = ("#1C83C6", "#D55E00", "#009E73", "#CC79A7", "#E69F00", "#56B4E9")
DRAWN = ("scatter", "scattergl", "bar", "heatmap")
"""Kinds of traces that are drawn."""
PANELS = 4
"""Panels that are drawn together; of more, the first alone."""
POINTS = 400
"""Points of a trace that are drawn, evenly chosen."""
DASHES = {
    "dash": "6 4",
    "dot": "2 4",
    "dashdot": "8 4 2 4",
    "longdash": "14 5",
    "longdashdot": "14 4 2 4",
}
LINE = 24  # pixels of a line of the legend
LINES = 4
"""Lines of a legend."""
LABELS = 12
"""Labels of an axis of words."""


class Drawing(go.Figure):
    """A plotly figure that an exported notebook shows too, as a picture: plotly leaves it blank offline.

    >>> bundle = Drawing(go.Scatter(x=[1, 2], y=[3, 4]))._repr_mimebundle_()
    >>> bundle["image/svg+xml"][:4]
    '<svg'
    """

    def _repr_mimebundle_(
        self, include: Any = None, exclude: Any = None, validate: bool = True, **more: Any
    ) -> dict[str, Any]:
        bundle = dict(super()._repr_mimebundle_(include, exclude, validate, **more))
        bundle["image/svg+xml"] = picture(self, str(self.layout.title.text or "figure"))
        return bundle

    def _ipython_display_(self) -> None:
        bundle = self._repr_mimebundle_()
        if len(bundle) == 1:  # plotly is set to show figures outside the notebook
            super()._ipython_display_()
            return
        from IPython.display import display  # here: it is there where this is called

        display(bundle, raw=True)


class Entry(NamedTuple):
    """An entry of the legend: its line, where it begins, and the look of its trace."""

    line: int
    across: float
    name: str
    colour: str
    dash: str


class Axis(NamedTuple):
    """An axis on the picture: the values at its two ends, where these lie, and how values are read."""

    low: float
    high: float
    start: float
    end: float
    is_log: bool
    words: tuple[str, ...]

    def at(self, value: Any) -> float:
        """Return where a value lies; NaN for what a logarithmic axis does not have."""
        number = float(value)
        if self.is_log:
            if number > 0:
                number = math.log10(number)
            else:
                number = math.nan
        return self.start + (number - self.low) / (self.high - self.low) * (self.end - self.start)

    def ticks(self) -> Iterator[tuple[float, str]]:
        """Yield a few values in order, each with its words."""
        if self.words:
            step = math.ceil(len(self.words) / LABELS)
            for place in range(0, len(self.words), step):
                yield float(place), self.words[place]
            return
        low, high = sorted((self.low, self.high))
        if self.is_log:
            powers = range(math.ceil(low), math.floor(high) + 1)
            if len(powers) > 2:
                factors = (1,)
            else:
                factors = (1, 2, 5)
            for power in range(math.floor(low), math.ceil(high) + 1):
                for factor in factors:
                    if low <= power + math.log10(factor) <= high:
                        yield factor * 10.0**power, f"{factor * 10.0**power:,.10g}"
            return
        rough = (high - low) / 5
        unit = 10.0 ** math.floor(math.log10(rough))
        step = next(unit * factor for factor in (1, 2, 5, 10) if unit * factor >= rough)
        for place in range(math.ceil(low / step), math.floor(high / step) + 1):
            yield place * step, f"{round(place * step, 9):,.6g}"


def picture(figure: go.Figure, title: str) -> str:
    """Return a figure of lines, points, bars and heat maps as SVG; ``title`` is what it is read out as."""
    panels: dict[tuple[str, str], list[Any]] = {}
    for trace in figure.data:
        if trace.type in DRAWN and trace.visible is not False:
            panels.setdefault((trace.xaxis or "x", trace.yaxis or "y"), []).append(trace)
    entries = _named_traces(figure)
    lines = max((entry.line for entry in entries), default=0)
    parts = list(opening(title, LINE * lines))
    parts += _legend(entries, lines)
    if len(panels) > PANELS:
        first = next(iter(panels))
        panels = {first: panels[first]}
        figure = go.Figure(figure)
        for name in first:
            figure.layout[f"{name[0]}axis{name[1:]}"].update(domain=(0, 1), showticklabels=True)
    for (x_name, y_name), traces in panels.items():
        stacked = figure.layout.barmode in ("stack", "relative")
        drawn = [_values(trace) for trace in traces]
        across = _axis(figure, x_name, [x for x, _ in drawn], traces, stacked=stacked)
        up = _axis(
            figure,
            y_name,
            [y for _, y in drawn],
            traces,
            stacked=stacked,
        )
        parts += _grid(figure, (x_name, y_name), across, up)
        parts += _traces(traces, drawn, across, up, stacked=stacked)
        parts += _names_of_bars(across, up)
    return "\n".join([*parts, "</svg>", ""])


def opening(title: str, above: int = 0) -> Iterator[str]:
    """Yield the first lines of a picture, of `WIDTH` by `HEIGHT` and what stands ``above`` that."""
    box = f"0 {-above} {WIDTH} {HEIGHT + above}"
    yield (
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="{box}" role="img" '
        f'font-family="system-ui, sans-serif" font-size="16" fill="{TEXT}">'
    )
    yield f"<title>{escape(title)}</title>"


def _plain(text: Any) -> str:
    """Return the words of a label without its markup."""
    return unescape(re.sub(r"<[^<>]+>", " ", str(text or ""))).strip()


def _colour(trace: Any, place: int) -> str:
    """Return the colour of a trace."""
    for colour in (trace.marker.color, getattr(trace, "line", None) and trace.line.color):
        if isinstance(colour, str):
            return colour
    return PALETTE[place % len(PALETTE)]


def _named_traces(figure: go.Figure) -> list[Entry]:
    """Return the entries of the legend, of very many the first `LINES` lines of them."""
    if figure.layout.showlegend is False:
        return []
    entries = list[Entry]()
    line = 0
    across = float(LEFT)
    shown = set[str]()
    traces = list(enumerate(figure.data))
    if "reversed" in (figure.layout.legend.traceorder or ""):
        traces.reverse()
    for place, trace in traces:
        name = _plain(trace.name)
        if trace.type == "heatmap" or trace.showlegend is False or not name or name in shown:
            continue
        width = 40 + 8.6 * len(name)
        if across + width > WIDTH and across > LEFT:
            line += 1
            across = float(LEFT)
        if line == LINES:
            break
        shown.add(name)
        entries.append(Entry(line, across, name, _colour(trace, place), _dashed(trace)))
        across += width
    return entries


def _legend(entries: Sequence[Entry], lines: int) -> Iterator[str]:
    """Yield the names of the traces, the last line just above the panels."""
    for line, across, name, colour, dash in entries:
        y = 20 + LINE * (line - lines)
        if dash:
            stroke = f'stroke="{colour}" stroke-width="3"{dash}'
            yield f'<path d="M{across - 6:.0f},{y - 5} h22" fill="none" {stroke}/>'
        else:
            yield f'<rect x="{across:.0f}" y="{y - 12}" width="13" height="13" fill="{colour}"/>'
        yield f'<text x="{across + 19:.0f}" y="{y}">{escape(name)}</text>'


def _dashed(trace: Any) -> str:
    """Return how the line of a trace is dashed, as an attribute; "" where it is solid or there is none."""
    line = getattr(trace, "line", None)
    pattern = DASHES.get((line and line.dash) or "")
    if pattern is None or trace.mode == "markers":
        return ""
    return f' stroke-dasharray="{pattern}"'


def _values(trace: Any) -> tuple[list[Any], list[Any]]:
    """Return the values of a trace along both axes; pairs of words as one."""
    sides = []
    for letter in ("x", "y"):
        values = trace[letter]
        if values is None:
            first = trace[f"{letter}0"] or 0
            step = trace[f"d{letter}"] or 1
            other = trace["y" if letter == "x" else "x"]
            values = [first + step * place for place in range(len(other))]
        values = list(values)
        if len(values) == 2 and all(isinstance(one, list | tuple) for one in values):
            values = [f"{first} {second}" for first, second in zip(*values, strict=True)]
        sides.append(values)
    return sides[0], sides[1]


def _is_words(values: Sequence[Any]) -> bool:
    return any(isinstance(value, str) for value in values)


def _axis(
    figure: go.Figure,
    name: str,
    values: list[list[Any]],
    traces: list[Any],
    *,
    stacked: bool,
) -> Axis:
    """Return an axis as the figure sets it, else around all values of its traces."""
    letter = name[0]
    layout_axis = figure.layout[f"{letter}axis{name[1:]}"]
    domain = layout_axis.domain or (0.0, 1.0)
    if letter == "x":
        span = WIDTH - LEFT - RIGHT
        start = LEFT + span * domain[0]
        end = LEFT + span * domain[1]
    else:
        span = HEIGHT - TOP - BOTTOM
        start = HEIGHT - BOTTOM - span * domain[0]
        end = HEIGHT - BOTTOM - span * domain[1]
    every = [value for part in values for value in part]
    if _is_words(every) or layout_axis.type == "category":
        words = tuple(dict.fromkeys(_plain(value) for value in every))
        low = -0.6
        high = len(words) - 0.4
        return _turned(Axis(low, high, start, end, False, words), layout_axis)
    numbers = np.asarray(every, dtype=float)
    along = "y"
    if letter == "x":
        along = "x"
    bars = [trace for trace in traces if trace.type == "bar"]
    lengthwise = [one for one in bars if (one.orientation == "h") == (along == "x")]
    if lengthwise and stacked:
        sizes = [np.asarray(part, dtype=float) for part in values]
        longest = max(map(len, sizes))
        total = np.zeros(longest)
        for size in sizes:
            total[: len(size)] += np.nan_to_num(size)
        numbers = np.append(numbers, total)
    is_log = layout_axis.type == "log"
    numbers = numbers[np.isfinite(numbers)]
    if is_log:
        numbers = np.log10(numbers[numbers > 0])
    low, high = (float(numbers.min()), float(numbers.max())) if numbers.size else (0.0, 1.0)
    margin = 0.04 * (high - low) or 0.5
    low = low - margin
    high = high + margin
    if (lengthwise or layout_axis.rangemode == "tozero") and not is_log:
        low = min(low + margin, 0.0)
        high = max(high, 0.0)
    if bars and not lengthwise:
        low = low - 0.5
        high = high + 0.5
    if layout_axis.range is not None:
        low, high = (float(end_of) for end_of in layout_axis.range)
    words = ()
    if layout_axis.ticktext is not None and layout_axis.tickvals is not None and not is_log:
        places = list(layout_axis.tickvals)
        if places == list(range(len(places))):
            words = tuple(_plain(text) for text in layout_axis.ticktext)
    return _turned(Axis(low, high, start, end, is_log, words), layout_axis)


def _turned(axis: Axis, layout_axis: Any) -> Axis:
    if layout_axis.autorange == "reversed":
        return axis._replace(low=axis.high, high=axis.low)
    return axis


def _grid(
    figure: go.Figure,
    names: tuple[str, str],
    across: Axis,
    up: Axis,
) -> Iterator[str]:
    """Yield the lines of the grid, the words at them, and the titles of both axes."""
    thin = f'stroke="{GRID}" stroke-opacity="0.25"'
    for value, words in across.ticks():
        x = across.at(value)
        yield f'<path d="M{x:.1f} {up.start:.1f}V{up.end:.1f}" {thin}/>'
        if figure.layout[f"xaxis{names[0][1:]}"].showticklabels is False:
            continue
        if len(words) <= 14:
            short = words
        else:
            short = f"{words[:13]}…"
        yield f'<text x="{x:.1f}" y="{up.start + 20:.1f}" text-anchor="middle">{escape(short)}</text>'
    for value, words in up.ticks():
        y = up.at(value)
        yield f'<path d="M{across.start:.1f} {y:.1f}H{across.end:.1f}" {thin}/>'
        if not up.words:
            x = across.start - 6
            yield f'<text x="{x:.1f}" y="{y + 5:.1f}" text-anchor="end">{escape(words)}</text>'
    x_title = _plain(figure.layout[f"xaxis{names[0][1:]}"].title.text)
    y_title = _plain(figure.layout[f"yaxis{names[1][1:]}"].title.text)
    middle = (across.start + across.end) / 2
    if x_title:
        place = f'x="{middle:.0f}" y="{up.start + 44:.0f}" text-anchor="middle"'
        yield f"<text {place}>{escape(x_title)}</text>"
    if y_title:
        height = (up.start + up.end) / 2
        x = across.start - LEFT + 18
        turned = f'transform="translate({x:.0f} {height:.0f}) rotate(-90)" text-anchor="middle"'
        yield f"<text {turned}>{escape(y_title)}</text>"


def _names_of_bars(across: Axis, up: Axis) -> Iterator[str]:
    """Yield the words of an axis of words that goes up; they stand on the bars, where they have room."""
    if not up.words:
        return
    look = 'font-weight="600" fill="#404040" stroke="#ffffff" stroke-width="3" paint-order="stroke"'
    for value, words in up.ticks():
        if len(words) <= 32:
            short = words
        else:
            short = f"{words[:16]}…{words[-15:]}"
        place = f'x="{across.start + 5:.1f}" y="{up.at(value) + 5:.1f}"'
        yield f"<text {place} {look}>{escape(short)}</text>"


def _traces(
    traces: list[Any],
    drawn: list[tuple[list[Any], list[Any]]],
    across: Axis,
    up: Axis,
    *,
    stacked: bool,
) -> Iterator[str]:
    """Yield lines, points and bars of one panel."""
    bars = [place for place, trace in enumerate(traces) if trace.type == "bar"]
    reached: dict[Any, float] = {}
    for place, (trace, (x, y)) in enumerate(zip(traces, drawn, strict=True)):
        if trace.type == "heatmap":
            yield from _heat(trace, x, y, across, up)
            continue
        colour = _colour(trace, place)
        if trace.type == "bar":
            if stacked:
                beside = (0, 1)
            else:
                beside = (bars.index(place), len(bars))
            yield from _bars(
                trace,
                x,
                y,
                across,
                up,
                colour,
                beside,
                reached,
                stacked=stacked,
            )
            continue
        places = np.linspace(0, max(len(x) - 1, 0), POINTS).round()
        chosen = np.unique(places.astype(int))
        points = []
        for row in chosen if len(x) else ():
            spot = (across.at(_place(across, x[row])), up.at(_place(up, y[row])))
            if all(map(math.isfinite, spot)):
                points.append(spot)
        mode = trace.mode or "lines"
        if trace.fill in ("toself", "tozeroy", "tonexty"):
            outline = " ".join(f"{a:.1f},{b:.1f}" for a, b in points)
            yield f'<polygon points="{outline}" fill="{colour}" fill-opacity="0.15"/>'
        elif "lines" in mode:
            dash = _dashed(trace)
            line = "L".join(f"{a:.1f} {b:.1f}" for a, b in points)
            width = min(float(trace.line.width or 2), 3)
            if line:
                yield f'<path d="M{line}" fill="none" stroke="{colour}" stroke-width="{width:g}"{dash}/>'
        if "markers" in mode:
            radius = 3.5
            if len(points) > 100:
                radius = 2
            for a, b in points:
                yield f'<circle cx="{a:.1f}" cy="{b:.1f}" r="{radius}" fill="{colour}" fill-opacity="0.7"/>'


def _heat(
    trace: Any,
    x: list[Any],
    y: list[Any],
    across: Axis,
    up: Axis,
) -> Iterator[str]:
    """Yield the cells of a heat map, the darker the larger; a missing value has none."""
    values = np.asarray(trace.z, dtype=float)
    largest = float(np.nanmax(values)) or 1.0
    columns = [across.at(_place(across, value)) for value in x]
    rows = [up.at(_place(up, value)) for value in y]
    wide = abs(columns[-1] - columns[0]) / max(len(columns) - 1, 1)
    high = abs(rows[-1] - rows[0]) / max(len(rows) - 1, 1)
    for row, of_row in enumerate(values):
        for column, value in enumerate(of_row):
            if not math.isfinite(value):
                continue
            left = columns[column] - wide / 2
            top = rows[row] - high / 2
            spot = f'x="{left:.1f}" y="{top:.1f}" width="{wide:.1f}" height="{high:.1f}"'
            depth = max(value / largest, 0.03)
            yield f'<rect {spot} fill="{PALETTE[0]}" fill-opacity="{depth:.2f}"/>'


def _place(axis: Axis, value: Any) -> Any:
    """Return a value as the axis counts it: words by their place."""
    if isinstance(value, str):
        return axis.words.index(_plain(value))
    if value is None:
        return math.nan
    return value


def _bars(
    trace: Any,
    x: list[Any],
    y: list[Any],
    across: Axis,
    up: Axis,
    colour: str,
    beside: tuple[int, int],
    reached: dict[Any, float],
    *,
    stacked: bool,
) -> Iterator[str]:
    """Yield the bars of a trace, beside those of the others, or on top of them."""
    flat = trace.orientation == "h"
    along, places = (across, y) if flat else (up, x)
    ordinal = across
    if flat:
        ordinal = up
    each = None
    if not isinstance(trace.marker.color, str):
        each = trace.marker.color
    for row, (name, size) in enumerate(zip(places, x if flat else y, strict=True)):
        if size is None or not math.isfinite(float(size)):
            continue
        begin = 0.0
        if stacked:
            begin = reached.get(name, 0.0)
        reached[name] = begin + float(size)
        ends = sorted((along.at(begin), along.at(begin + float(size))))
        middle = _place(ordinal, name)
        step = ordinal.at(middle + 1) - ordinal.at(middle)
        broad = abs(step) * 0.75 / beside[1]
        # as plotly has them: the first trace is the first along the axis, whichever way that goes
        shift = (beside[0] - (beside[1] - 1) / 2) * math.copysign(broad, step)
        side = ordinal.at(middle) + shift - broad / 2
        fill = colour
        if each is not None:
            fill = each[row]
        box = (ends[0], side, ends[1] - ends[0], broad)
        if not flat:
            box = (side, ends[0], broad, ends[1] - ends[0])
        spot = 'x="{:.1f}" y="{:.1f}" width="{:.1f}" height="{:.1f}"'.format(*box)
        yield f'<rect {spot} fill="{fill}" fill-opacity="0.75"/>'

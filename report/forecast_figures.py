"""Figures of forecasts: what the time is made of, curves over batch and length, the front, when each layer runs."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from functools import partial
from html import escape
from typing import Final

import numpy as np
import plotly.graph_objects as go
from plotly.subplots import make_subplots

from ..operators.operators import OPS
from ..workloads.answer import Forecast
from ..workloads.layer_graph import GraphSetting
from ..workloads.setting import Setting
from .figures import NEUTRAL, OTHERS, SELECTED, styled
from .formats import counted
from .words.workloads import ASKED, PARTS

SHOWN: Final = 40
"""Rows of a grid on a terminal, and of bars."""
MOST_LINES: Final = 16
"""Of a figure."""
LEGEND: Final = {"orientation": "h", "y": -0.14, "yanchor": "top", "x": 0}
_BAND: Final = 0.15
"""Opacity of a band."""
COLOURS: Final = (SELECTED, *OTHERS)


SERIES: Final = ("gpu", "gpus", "tp", "pp", "dp", "ep", "dtype", "kv_dtype", "release", "network_gbs", "max_num_seqs")
_LENGTHS: Final = ("batch", "input_len", "output_len", "num_prompts")
_TICKS: Final = 12  # values of a field that an axis names
_DASHES: Final = ("solid", "dash", "dot", "dashdot")


def curve_figure(answers: Sequence[Forecast], over: str = "batch") -> go.Figure | None:
    """Draw the answer, and tokens per second and GPU, over a field; a line with its band per way of all the others.

    ``over`` is ``batch``, ``input_len``, ``output_len`` or ``num_prompts``. None where it does not vary, or there would
    be more than `MOST_LINES` lines, with the lengths beside it at their middle value.
    """
    served = [one for one in answers if one.reason is None and isinstance(one.setting, Setting)]
    served = [one for one in served if one.setting and one.setting.kind != "training"]
    fields, found = _series(served, over)
    fixed = []
    for name in _LENGTHS:
        if len(found) > MOST_LINES and name in fields:
            values = sorted({_at(name, one) for one in served})
            middle = values[len(values) // 2]
            served = [one for one in served if _at(name, one) == middle]
            fields, found = _series(served, over)
            fixed.append(f"{ASKED.get(name, name)} {middle:,}")
    if not 0 < len(found) <= MOST_LINES:
        return None
    drawn = make_subplots(rows=2, cols=1, shared_xaxes=True, vertical_spacing=0.06)
    for place, (key, points) in enumerate(found.items()):
        look = {"color": COLOURS[place % len(COLOURS)], "dash": _DASHES[place // len(COLOURS) % len(_DASHES)]}
        told = (
            value if name in ("model", "gpu", "dtype") else f"{ASKED.get(name, name)}: {value}"
            for name, value in zip(fields, key, strict=True)
        )
        _add_curve(drawn, ", ".join(told) or "answer", [_at(over, one) for one in points], points, look)
    unit = served[0].unit
    label = "seconds" if unit == "s" else unit
    drawn.update_xaxes(type="log")
    if len(ticks := sorted({_at(over, one) for one in served})) <= _TICKS:
        drawn.update_xaxes(tickvals=ticks, ticktext=[f"{tick:,}" for tick in ticks])
    at = f" (at {', '.join(fixed)})" if fixed else ""
    drawn.update_xaxes(title_text=ASKED.get(over, over) + at, row=2, col=1)
    drawn.update_yaxes(type="log", title_text=label, row=1, col=1)
    drawn.update_yaxes(type="log", title_text="tokens/s per GPU", row=2, col=1)
    return styled(drawn, 520 + 22 * len(found), LEGEND)


def _series(served: Sequence[Forecast], over: str) -> tuple[list[str], dict[tuple[str, ...], list[Forecast]]]:
    """Return which other fields vary, and the answers by their values, in the order of ``over``, but single ones."""
    fields = [name for name in ("model", *SERIES, *_LENGTHS) if name != over]
    fields = [name for name in fields if len({_field(one, name) for one in served}) > 1]
    found: dict[tuple[str, ...], list[Forecast]] = {}
    for one in served:
        found.setdefault(tuple(_field(one, name) for name in fields), []).append(one)
    found = {key: sorted(points, key=partial(_at, over)) for key, points in found.items()}
    return fields, {key: points for key, points in found.items() if len({_at(over, one) for one in points}) > 1}


def _add_curve(drawn: go.Figure, name: str, x: list[int], points: Sequence[Forecast], look: dict[str, str]) -> None:
    """Add an answer with its band to the upper panel, its throughput to the lower."""
    edge = [one.upper for one in points] + [one.lower for one in reversed(points)]
    band = {
        "fill": "toself",
        "opacity": _BAND,
        "mode": "lines",
        "line": {"width": 0},
        "hoverinfo": "skip",
        "showlegend": False,
    }
    drawn.add_trace(go.Scatter(x=x + x[::-1], y=edge, fillcolor=look["color"], legendgroup=name, **band), row=1, col=1)
    rates = [one.details["tokens_per_second_per_gpu"] for one in points]
    line = {"mode": "lines+markers", "line": {**look, "width": 2}, "marker": {"size": 5}, "legendgroup": name}
    for panel, values in ((1, [one.predicted for one in points]), (2, rates)):
        shown = {"name": name, "showlegend": panel == 1}
        drawn.add_trace(go.Scatter(x=x, y=values, **line, **shown), row=panel, col=1)


def _field(one: Forecast, name: str) -> str:
    value = getattr(one.setting, name)
    return str(getattr(value, "name", value))


def _at(over: str, one: Forecast) -> int:
    return int(getattr(one.setting, over))


def pareto_figure(answers: Sequence[Forecast]) -> go.Figure | None:
    """Draw throughput per GPU against the time per token, with the front; None for fewer than two answers."""
    points = [one for one in answers if one.reason is None and "seconds_per_token" in one.details]
    if len(points) < 2:
        return None
    x = np.array([1e3 * one.details["seconds_per_token"] for one in points])
    y = np.array([one.details["tokens_per_second_per_gpu"] for one in points])
    names = [about(one.setting) for one in points if one.setting is not None]
    order = np.argsort(x)
    best = np.maximum.accumulate(y[order])
    front = order[y[order] >= best]
    drawn = go.Figure(go.Scatter(x=x, y=y, mode="markers", text=names, name="settings", marker={"color": OTHERS[0]}))
    line = {"color": SELECTED, "width": 2}
    drawn.add_trace(go.Scatter(x=x[front], y=y[front], mode="lines+markers", name="front", line=line))
    drawn.update_xaxes(title_text="ms per token", type="log")
    drawn.update_yaxes(title_text="tokens per second and GPU", type="log")
    return styled(drawn, 420, LEGEND)


def parts_figure(answers: Sequence[Forecast]) -> go.Figure:
    """Draw what each answer's time is made of, as stacked bars."""
    drawn = go.Figure()
    points = [one for one in answers if one.reason is None and one.setting is not None][:SHOWN]
    labels = [f"{place + 1}" for place in range(len(points))]
    names = [about(one.setting) for one in points if one.setting is not None]
    for place, part in enumerate(dict.fromkeys(name for one in points for name in one.parts)):
        values = [one.parts.get(part, (0.0,))[0] for one in points]
        if not any(values):
            continue
        look = {"color": COLOURS[place % len(COLOURS)], "pattern": {"shape": "/" if place >= len(COLOURS) else ""}}
        named = {"name": PARTS[part], "hovertext": names, "marker": look}
        drawn.add_trace(go.Bar(y=labels, x=values, orientation="h", **named))
    drawn.update_layout(barmode="stack")
    drawn.update_xaxes(title_text="seconds")
    drawn.update_yaxes(autorange="reversed", title_text="setting" if len(points) > 1 else "")
    bars = 28 * max(len(points), 2)  # the legend, two rows of it, stands beneath the axis and its title
    return styled(drawn, 200 + bars, {**LEGEND, "y": -60 / (40 + bars)})


def about(setting: Setting | GraphSetting) -> str:
    """Say in a line what was asked: model, GPUs and how they are cut, precision (of products), work, release."""
    if isinstance(setting, GraphSetting):
        count = counted(len(setting.model.layers), "layer")
        where = f"{setting.model.name}, {count} on {setting.gpus} × {setting.gpu.name}"
        products = [one.sizes for one in setting.model.layers if one.op in OPS and OPS[one.op].unit == "matrix"]
        formats = Counter(str(sizes.get("dtype_a", setting.dtype)) for sizes in products)
        return ", ".join([where, *(name for name, _ in formats.most_common())])
    cut = [f"{name} {value}" for name in ("tp", "pp", "dp", "cp", "ep") if (value := getattr(setting, name)) > 1]
    where = f"{setting.gpus} × {setting.gpu.name}" + (f" ({', '.join(cut)})" if cut else "")
    if setting.kind == "training":
        what = f"a step of {setting.global_batch:,} sequences of {setting.seq_len:,} tokens"
    elif setting.kind == "throughput":
        what = f"{setting.num_prompts:,} requests of {setting.input_len:,} tokens, answers of {setting.output_len:,}"
    else:
        what = f"batch {setting.batch:,}, prompts of {setting.input_len:,} tokens, answers of {setting.output_len:,}"
    release = f", {setting.release}" if setting.release else ""
    return f"{setting.model.name} on {where}, {setting.dtype}, {what}{release}"


def timeline_figure(one: Forecast) -> go.Figure:
    """Draw when each layer of a graph computes and sends, those that the end waits for in blue."""
    drawn = go.Figure()
    for critical, colour, name in ((True, SELECTED, "the end waits for it"), (False, NEUTRAL, "others")):
        bars = [
            (stream, start, seconds, layer.name)
            for layer in one.layers
            if layer.critical == critical
            for stream, start, seconds in (
                ("computes", layer.start_s, layer.compute_s),
                ("sends", layer.end_s - layer.message_s, layer.message_s),
            )
            if seconds > 0
        ]
        if bars:
            streams, starts, lengths, names = (list(column) for column in zip(*bars, strict=True))
            edge = {"color": "rgba(255,255,255,0.6)", "width": 1}
            look = {"marker": {"color": colour, "line": edge}, "orientation": "h", "width": 0.5, "name": name}
            hover = "%{hovertext}: %{x:.4~s}s<extra></extra>"
            drawn.add_trace(
                go.Bar(
                    y=streams, x=lengths, base=starts, hovertext=[escape(n) for n in names], hovertemplate=hover, **look
                )
            )
    drawn.update_layout(barmode="overlay")
    drawn.update_xaxes(title_text="seconds")
    return styled(drawn, 240, {**LEGEND, "y": 1.02, "yanchor": "bottom"})

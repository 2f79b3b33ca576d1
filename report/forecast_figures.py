"""Figures of forecasts: what the time is made of, curves over batch and length, the front, when each layer runs."""

from __future__ import annotations

from collections.abc import Sequence
from html import escape
from typing import Final

import numpy as np
import plotly.graph_objects as go

from ..workloads.answer import Forecast
from ..workloads.layer_graph import GraphSetting
from ..workloads.setting import Setting
from .figures import NEUTRAL, OTHERS, SELECTED, styled
from .formats import counted
from .words.workloads import PARTS

SHOWN: Final = 40
"""Rows of a grid on a terminal, and of bars."""
LEGEND: Final = {"orientation": "h", "y": 1.02, "yanchor": "bottom", "x": 0}
_BAND: Final = 0.15
"""Opacity of a band."""
COLOURS: Final = (SELECTED, *OTHERS)


def batch_figure(answers: Sequence[Forecast]) -> go.Figure | None:
    """Draw the answer over the batch, a line with its band per GPU and cutting; None where batches do not vary."""
    found: dict[str, list[Forecast]] = {}
    for one in answers:
        if one.reason is None and isinstance(one.setting, Setting) and one.setting.kind == "inference":
            found.setdefault(_line(one.setting), []).append(one)
    found = {name: sorted(points, key=_batch) for name, points in found.items() if len({_batch(p) for p in points}) > 1}
    if not found:
        return None
    drawn = go.Figure()
    for place, (name, points) in enumerate(found.items()):
        colour, x = COLOURS[place % len(COLOURS)], [_batch(one) for one in points]
        edge = [one.upper for one in points] + [one.lower for one in reversed(points)]
        band = {"fill": "toself", "opacity": _BAND, "line": {"width": 0}, "hoverinfo": "skip", "showlegend": False}
        drawn.add_trace(go.Scatter(x=x + x[::-1], y=edge, fillcolor=colour, legendgroup=name, **band))
        line = {"color": colour, "width": 2}
        values = [one.predicted for one in points]
        drawn.add_trace(go.Scatter(name=name, x=x, y=values, mode="lines+markers", line=line, legendgroup=name))
    drawn.update_xaxes(type="log", title_text="batch")
    drawn.update_yaxes(type="log", title_text="seconds of the batch")
    return styled(drawn, 420, LEGEND)


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
    return styled(drawn, 180 + 28 * max(len(points), 2), LEGEND)


def _line(setting: Setting) -> str:
    lengths = f"{setting.input_len:,} + {setting.output_len:,}"
    return f"{setting.model.name}, {setting.gpus} × {setting.gpu.name}, tp {setting.tp}, {lengths}"


def _batch(one: Forecast) -> int:
    return one.setting.batch if isinstance(one.setting, Setting) else 0


def about(setting: Setting | GraphSetting) -> str:
    """Say in a line what was asked: model, GPUs and how they are cut, precision, work, release."""
    if isinstance(setting, GraphSetting):
        count = counted(len(setting.model.layers), "layer")
        return f"{setting.model.name}, {count} on {setting.gpus} × {setting.gpu.name}, {setting.dtype}"
    cut = [f"{name} {value}" for name in ("tp", "pp", "dp", "cp", "ep") if (value := getattr(setting, name)) > 1]
    where = f"{setting.gpus} × {setting.gpu.name}" + (f" ({', '.join(cut)})" if cut else "")
    if setting.kind == "training":
        what = f"a step of {setting.global_batch:,} sequences of {setting.seq_len:,} tokens"
    elif setting.kind == "throughput":
        what = f"{setting.num_prompts:,} requests of {setting.input_len:,} + {setting.output_len:,} tokens"
    else:
        what = f"batch {setting.batch:,}, {setting.input_len:,} + {setting.output_len:,} tokens"
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
    return styled(drawn, 240, LEGEND)

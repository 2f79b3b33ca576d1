"""Figures of a projection (time by class, what the interval is made of, the time over swept figures) and of ranks."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final

import numpy as np
import pandas as pd
import plotly.graph_objects as go
from plotly.subplots import make_subplots

from ..projection.job import PARTS, Job
from ..projection.result import Result
from ..projection.roofs import CPU_ROOF, SIDES
from ..projection.sweep import (
    END_TO_END,
    SHARE,
    SWEEPABLE,
    SWEPT,
    UNKNOWN,
    changes_of_bound,
    published_value,
)
from ..projection.uncertainty import source_name
from .figures import (
    ABOVE,
    BASELINE,
    NEUTRAL,
    OTHERS,
    SELECTED,
    changes,
    dots,
    log_axes,
    stroke,
    styled,
    titled,
)
from .formats import data_size, escape, shortened
from .static_figures import Drawing

LARGEST: Final = 12  # classes and sources of error that are drawn


def class_figure(result: Result) -> go.Figure:
    """Draw the time of each class, measured, by FLOPS scaling, and projected; the largest first."""
    shown = result.classes.head(LARGEST).iloc[::-1]
    figure = Drawing()
    columns = (
        ("projected_us", f"{result.projection.target.name}, projected", SELECTED),
        ("published_us", f"{result.projection.target.name}, FLOPS scaling", BASELINE),
        ("measured_us", f"{result.projection.host.name}, measured", NEUTRAL),
    )
    for name, label, colour in columns:
        figure.add_bar(
            y=shown["op_class"].tolist(),
            x=(shown[name] / 1000).tolist(),
            name=label,
            orientation="h",
            marker_color=colour,
            hovertemplate="%{x:.4~g} ms<extra>%{y}</extra>",
        )
    figure.update_xaxes(title_text="time, ms").update_yaxes(automargin=True)
    legend = {"traceorder": "reversed"}
    return styled(figure, 140 + 46 * len(shown), legend, barmode="group")


def differences_figure(projected: Sequence[Mapping[str, Any]]) -> go.Figure:
    """Draw by how much each of several projections differs from the measured time, with its interval.

    They are the entries of ``projections`` in their JSON.
    """
    several = len({one["trace"] for one in projected}) > 1
    names = []
    values = []
    limits = []
    for one in projected:
        name = str(one["target"])
        if several:
            name = f"{one['trace']} on {name}"
        names.append(name)
        ends = [one["projected_us"], one["lower_us"], one["upper_us"]]
        change, lower, upper = (100 * (end / one["measured_us"] - 1) for end in ends)
        values.append(change)
        limits.append((lower, upper))
    return changes(names, values, limits, "difference from the measured time, %")


def tornado_figure(result: Result) -> go.Figure | None:
    """Draw how far each source of error alone moves the end-to-end time; None where there is none."""
    unsure = result.uncertainty
    shown = unsure.tornado.head(LARGEST).iloc[::-1]
    if not len(shown):
        return None
    figure = Drawing()
    for name, label, colour in (
        ("low_us", "at its low quantile", SELECTED),
        ("high_us", "at its high quantile", BASELINE),
    ):
        figure.add_bar(
            y=[source_name(source) for source in shown["name"]],
            x=((shown[name] - unsure.nominal_us) / 1000).tolist(),
            base=unsure.nominal_us / 1000,
            name=label,
            orientation="h",
            marker_color=colour,
            customdata=(shown[name] / 1000).tolist(),
            hovertemplate="%{customdata:.4~g} ms<extra>%{y}</extra>",
        )
    figure.add_vline(x=unsure.nominal_us / 1000, line={"color": NEUTRAL, "width": 1})
    figure.update_xaxes(title_text="end to end, ms").update_yaxes(automargin=True)
    legend = {"traceorder": "normal"}
    return styled(figure, 140 + 34 * len(shown), legend, barmode="overlay")


def sweep_figures(result: Result) -> list[go.Figure]:
    """Draw every sweep of a projection, marked with what was measured on the host."""
    figures = []
    host = result.projection.host
    target = result.projection.target
    for name, frame in () if result.sweeps is None else result.sweeps.groupby("figure", sort=False):
        value = None
        if name in SWEPT:
            value = published_value(host, str(name))
        marks = []
        if value:
            marks = [Mark(f"{host.name}, measured", value, result.projection.measured_us)]
        figures.append(sweep_figure(frame, target=target.name, marks=marks))
    return figures


def grid_figure(result: Result) -> go.Figure:
    """Draw the ratio of projected to measured time as a heat map over the two swept figures."""
    assert result.grid is not None
    first, second = map(str, result.grid.columns[:2])
    table = result.grid.pivot_table(index=second, columns=first, values="ratio")
    hover = f"{first} %{{x}}, {second} %{{y}}: %{{z:.3f}} of the measured time<extra></extra>"
    figure = Drawing(
        go.Heatmap(
            x=list(map("{:,.6g}".format, table.columns)),
            y=list(map("{:,.6g}".format, table.index)),
            z=table.round(4).to_numpy().tolist(),
            texttemplate="%{z:.2f}",
            colorscale="Cividis",
            hovertemplate=hover,
            colorbar=titled("of measured"),
        )
    )
    figure.update_xaxes(type="category", title_text=escape(str(SWEEPABLE[first])))
    figure.update_yaxes(type="category", title_text=escape(str(SWEEPABLE[second])))
    return styled(figure, 120 + 36 * len(table), legend={})


BOUND_COLOURS: Final = {
    **dict(zip(("memory", "compute", "latency", "link"), OTHERS, strict=True)),
    "launch": "#F0E442",
    UNKNOWN: NEUTRAL,
}


def advice_figure(result: Result) -> go.Figure:
    """Draw the calls that cost most below the roofs of both GPUs: TFLOP/s over FLOPs per byte, both logarithmic."""
    assert result.advice is not None
    table = result.advice.table
    figure = Drawing()
    gpus = (result.projection.host, result.projection.target)
    for side, gpu, colour in zip(SIDES, gpus, (NEUTRAL, SELECTED), strict=True):
        computed = table[np.isfinite(table["intensity"]) & table[f"{side}_tflops"].gt(0)]
        figure.add_scatter(
            x=computed["intensity"].tolist(),
            y=computed[f"{side}_tflops"].tolist(),
            name=f"{gpu.name}, {side}",
            text=[escape(shortened(str(name), 60)) for name in computed["kernel"]],
            hovertemplate="%{text}<br>%{x:.3~g} FLOP/B, %{y:.3~g} TFLOP/s<extra></extra>",
            **dots(colour, 9),
        )
        if gpu.memory_bw_gbs is None or computed.empty:
            continue
        span = np.geomspace(
            computed["intensity"].min() / 4,
            computed["intensity"].max() * 4,
            60,
        )
        for dtype in computed["dtype_a"].astype(str).unique():
            peak = gpu.peaks.get(dtype)
            if peak is None:
                continue
            roof = np.minimum(span * gpu.memory_bw_gbs / 1e3, gpu.peak_tflops(dtype))
            figure.add_scatter(
                x=span.tolist(),
                y=roof.tolist(),
                name=f"{gpu.name}, {dtype}",
                hoverinfo="skip",
                **stroke(colour, 1),
            )
    log_axes(figure, "FLOPs per byte", "TFLOP/s")
    return styled(figure, 420, legend={})


def roofs_figure(result: Result) -> go.Figure:
    """Draw which share of each roof is used over the time, as measured above the target."""
    titles = [f"{one.gpu}, {side}" for one, side in zip(result.strips, SIDES, strict=True)]
    figure = make_subplots(
        rows=2, cols=1, subplot_titles=list(map(escape, titles)), vertical_spacing=0.17
    )
    colours = {name: BOUND_COLOURS[name] for name in ("compute", "memory", "link")} | {
        CPU_ROOF: NEUTRAL
    }
    for place, one in enumerate(result.strips, 1):
        edges = (one.edges_us - one.edges_us[0]) / 1e3
        for name, shares in one.shares.items():
            figure.add_scatter(
                name=name,
                x=edges.round(6).tolist(),
                y=np.r_[100 * shares, 100 * shares[-1]].round(2).tolist(),
                legendgroup=name,
                showlegend=place == 2 or name not in result.strips[1].shares,
                hovertemplate=f"{name}: %{{y:.1f}} % at %{{x:.4~g}} ms<extra></extra>",
                row=place,
                col=1,
                **stroke(colours[name], 1.5, shape="hv"),
            )
    figure.update_yaxes(title_text="of the roof, %", rangemode="tozero")
    figure.update_xaxes(title_text="time, ms", row=2, col=1)
    legend = {**ABOVE, "y": 1.1, "traceorder": "normal"}
    return styled(figure, 460, legend=legend)


@dataclass(frozen=True)
class Mark:
    """A point to show beside the sweep, such as what was measured on the host."""

    label: str  # what the legend calls it
    value: float  # of the swept figure, in its unit
    time_us: float  # end to end


def sweep_figure(frame: pd.DataFrame, *, target: str, marks: Sequence[Mark] = ()) -> go.Figure:
    """Draw the end-to-end time over the swept figure, and below it the share of time by bound.

    Dotted lines stand where the dominant bound changes; the target's value is a filled point,
    ``marks`` are open diamonds. Raises ValueError: the frame of `projection.sweep.sweep` holds
    several sweeps.
    """
    figures = frame["figure"].unique().tolist()
    if figures != figures[:1]:
        raise ValueError(f"a figure shows one sweep, got {', '.join(figures)}")
    words = SWEEPABLE[figures[0]]
    figure = make_subplots(
        rows=2, cols=1, shared_xaxes=True, row_heights=[0.64, 0.36], vertical_spacing=0.05
    )
    hover = f"%{{y:.4~g}} ms at %{{x}} {escape(words.unit)}"
    for trace in _times(frame, target, marks):
        figure.add_trace(
            trace.update(hovertemplate=f"{hover}<extra>{trace.name}</extra>"), row=1, col=1
        )
    for trace in _shares(frame):
        figure.add_trace(trace, row=2, col=1)
    middle = (frame["value"].min() + frame["value"].max()) / 2
    for change in changes_of_bound(frame):
        label = f"{escape(change.before)} → {escape(change.after)}"
        line = {"color": NEUTRAL, "width": 1, "dash": "dot"}
        figure.add_vline(x=change.crossing, line=line, row="all", col=1)
        xanchor = "right"
        if change.crossing < middle:
            xanchor = "left"
        figure.add_annotation(
            text=label,
            showarrow=False,
            font={"color": NEUTRAL, "size": 12},
            x=change.crossing,
            y=1,
            yref="y domain",
            yanchor="top",
            xanchor=xanchor,
        )
    figure.update_yaxes(title_text="end to end, ms", rangemode="tozero", row=1, col=1)
    figure.update_yaxes(
        title_text="time by bound, %",
        range=[0, 100],
        row=2,
        col=1,
    )
    figure.update_xaxes(tickformat=",~f").update_xaxes(
        title_text=escape(str(words)),
        row=2,
        col=1,
    )
    legend = {**ABOVE, "traceorder": "normal"}
    return styled(figure, 520, legend=legend)


def _times(frame: pd.DataFrame, target: str, marks: Sequence[Mark]) -> list[go.Scatter]:
    """Return the curve, the target as it is, and the marks."""
    drawn = [
        go.Scatter(
            name="projected",
            x=frame["value"].tolist(),
            y=(frame[END_TO_END] / 1e3).tolist(),
            mode="lines+markers",
            line={"color": SELECTED, "width": 3},
            marker={"size": 5},
        )
    ]
    now = frame[frame["current"]]
    points = []
    if len(now):
        name = f"{escape(target)} as it is"
        times_us = now[END_TO_END].tolist()
        points.append((name, now["value"].tolist(), times_us, dots(SELECTED, 13)))
    open_diamond = dots(BASELINE, 12, symbol="diamond-open", line={"width": 2})
    for mark in marks:
        points.append((escape(mark.label), [mark.value], [mark.time_us], open_diamond))
    for name, x, times_us, look in points:
        drawn.append(
            go.Scatter(
                name=name,
                x=x,
                y=[time / 1e3 for time in times_us],
                **look,
            )
        )
    return drawn


def _shares(frame: pd.DataFrame) -> list[go.Scatter]:
    """Return the shares of the bounds that have any, stacked in the order of the colours."""
    bounds = [
        bound
        for bound in BOUND_COLOURS
        if frame.get(SHARE + bound, pd.Series(dtype=float)).gt(0).any()
    ]
    return [
        go.Scatter(
            name=bound,
            x=frame["value"].tolist(),
            y=(100 * frame[SHARE + bound]).tolist(),
            stackgroup="bounds",
            hovertemplate=f"{bound}: %{{y:.1f}} %",
            **stroke(BOUND_COLOURS[bound], 1),
        )
        for bound in bounds
    ]


COLOURS = dict(zip(PARTS, (SELECTED, OTHERS[0], BASELINE, OTHERS[1], NEUTRAL), strict=True))


def ranks_figure(job: Job) -> go.Figure:
    """Draw the time of each rank as a bar of its parts, on the target above what was measured."""
    figure = Drawing()
    split = job.split.iloc[::-1]
    sides = ((job.projections[0].host.name, "measured_"), (job.projections[0].target.name, ""))
    for name, label in PARTS.items():
        axis: list[list[str]] = [[], []]
        times: list[float] = []
        for row in split.to_dict("records"):
            for side, prefix in sides:
                axis[0].append(f"rank {row['rank']}")
                axis[1].append("as measured" if prefix else f"{side}, projected")
                times.append(row[prefix + name] / 1000)
        figure.add_bar(
            y=axis,
            x=times,
            name=label,
            orientation="h",
            marker_color=COLOURS[name],
            hovertemplate=f"{label}: %{{x:.4~g}} ms<extra></extra>",
        )
    figure.update_xaxes(title_text="time, ms").update_yaxes(automargin=True)
    legend = {"traceorder": "normal", "orientation": "h", "y": 1.02, "yanchor": "bottom"}
    height = 150 + 52 * len(split)
    return styled(figure, height, legend, barmode="stack", margin={"t": 60})


def pairs_figure(pairs: pd.DataFrame) -> go.Figure:
    """Draw what each traced rank sends each other as a heat map."""
    table = pairs.pivot_table(index="rank", columns="peer", values="sent_bytes", aggfunc="sum")
    brightest = float(np.nanmax(table.to_numpy())) / 1e6
    texttemplate = ""
    if table.size <= 256:
        texttemplate = "%{text}"
    figure = Drawing(
        go.Heatmap(
            x=list(map(str, table.columns)),
            y=list(map(str, table.index)),
            z=(table / 1e6).round(3).to_numpy().tolist(),
            text=table.astype(float).map(data_size).to_numpy().tolist(),
            texttemplate=texttemplate,
            colorscale="Cividis",
            zmin=0,
            zmax=brightest,
            hovertemplate="rank %{y} to %{x}: %{text}<extra></extra>",
            colorbar=titled("MB"),
        )
    )
    figure.update_xaxes(type="category", title_text="to rank")
    figure.update_yaxes(type="category", title_text="from rank", autorange="reversed")
    return styled(figure, 140 + 34 * len(table), legend={})

"""Figures of kernels: a projected trace above its measured one, kernels on their roofs, efficiency over m, n and k."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

import numpy as np
import pandas as pd
import plotly.graph_objects as go

from ..errors import DataError
from ..hardware import GPU
from ..laws.computation import ROOFLINE
from ..laws.rates import on_each, published
from ..operators.operators import complete, work_of
from ..projection.result import Result
from ..projection.whole_trace import projected_times
from ..table.problems import rows_of
from .figures import ABOVE, BASELINE, NEUTRAL, OTHERS, SELECTED, dots, stroke, styled, titled
from .formats import escape, shortened
from .static_figures import Drawing

DRAWN: Final = 2000  # activities of a timeline
NAMED: Final = 6  # classes with a separate colour
SHAPES: Final = 40  # weight shapes of a heat map, those with the most rows
_COLOURS: Final = (SELECTED, *OTHERS, BASELINE)
_OTHERS: Final = "other classes"


def timeline_figure(result: Result) -> go.Figure:
    """Draw the activities of a trace over time, on the host above, on the target below, coloured by class.

    Of a long trace the step of median time is drawn, and at most `DRAWN` activities of it.
    """
    rows = _one_step(_activities(result))
    projection = result.projection
    host = f"{projection.host.name}, measured"
    target = f"{projection.target.name}, projected"
    classes = rows.groupby("op_class", observed=True)["projected_us"].sum()
    ranked = [str(name) for name in classes.sort_values(ascending=False).index]
    figure = Drawing()
    sides = (
        (host, rows["start_ns"], rows["measured_us"]),
        (target, rows["projected_start_ns"], rows["projected_us"]),
    )
    shown = rows["op_class"].astype(str)
    if len(ranked) > NAMED + 1:
        shown = shown.where(shown.isin(ranked[:NAMED]), _OTHERS)
        ranked = [*ranked[:NAMED], _OTHERS]
    for place, name in enumerate(ranked):
        colour = NEUTRAL
        if place < NAMED:
            colour = _COLOURS[place]
        of_class = shown.eq(name).to_numpy()
        words = [escape(shortened(str(kernel), 60)) for kernel in rows.loc[of_class, "name"]]
        for row, begin_ns, lasts_us in sides:
            figure.add_bar(
                orientation="h",
                y=[row] * len(words),
                base=((begin_ns - begin_ns.min()) / 1e6)[of_class].tolist(),
                x=(lasts_us[of_class] / 1e3).tolist(),
                name=escape(name),
                legendgroup=name,
                showlegend=row == host,
                marker={"color": colour, "line": {"width": 0}},
                text=words,
                textposition="none",
                hovertemplate="%{text}<br>%{x:.4~g} ms from %{base:.4~g} ms<extra></extra>",
            )
    return styled(
        figure,
        260,
        legend={**ABOVE, "y": 1.05},
        barmode="overlay",
        bargap=0.3,
        xaxis=titled("time, ms"),
        yaxis={"autorange": "reversed", "automargin": True},
    )


def _activities(result: Result) -> pd.DataFrame:
    """Return the activities with their rates, and when they begin on the target."""
    projection = result.projection
    begins, _ = projected_times(projection)
    rows = projection.activities.assign(projected_start_ns=begins)
    return pd.concat([rows, result.rates], axis=1)


def _one_step(kernels: pd.DataFrame) -> pd.DataFrame:
    """Return the activities of the step of median time; without steps, the first activities of the trace."""
    rows = kernels
    if "step" in rows and rows["step"].notna().any():
        begins = rows.groupby("step")["start_ns"].min()
        ends = (rows["start_ns"] + rows["duration_ns"]).groupby(rows["step"]).max()
        lasts = (ends - begins).sort_values(kind="stable")
        rows = rows[rows["step"] == lasts.index[len(lasts) // 2]]
    return rows.sort_values("start_ns", kind="stable").head(DRAWN).reset_index(drop=True)


def roofline_figure(result: Result) -> go.Figure | None:
    """Draw every kernel of a trace on the rooflines of host and target: TFLOP/s over FLOP per byte.

    Roofs are those of the number format that takes most of the time. A point is a kind of kernel,
    as large as its share of the time. None if no kernel has FLOPs.
    """
    rows = _activities(result)
    rows = rows[(rows["flops"] > 0) & (rows["bytes_moved"] > 0)]
    if rows.empty:
        return None
    figure = Drawing()
    intensity = rows["flops"] / rows["bytes_moved"]
    across = np.geomspace(
        min(intensity.min() / 2, 1.0),
        max(intensity.max() * 2, 1000.0),
        60,
    )
    projection = result.projection
    sides = (
        ("measured", projection.host, NEUTRAL),
        ("projected", projection.target, SELECTED),
    )
    for side, gpu, colour in sides:
        for dtype, roof in _roofs(gpu, rows, across).items():
            figure.add_scatter(
                x=across, y=roof, name=f"{escape(gpu.name)}, {dtype}", **stroke(colour, 2)
            )
        by = rows.assign(intensity=intensity).groupby(["name", "intensity"], observed=True)
        points = by.agg(rate=(f"{side}_tflops", "mean"), us=(f"{side}_us", "sum")).reset_index()
        points = points[points["rate"] > 0]
        part = points["us"] / max(float(points["us"].sum()), 1e-12)
        figure.add_scatter(
            x=points["intensity"],
            y=points["rate"],
            text=[escape(shortened(str(name), 60)) for name in points["name"]],
            hovertemplate="%{text}<br>%{y:.4~g} TFLOP/s at %{x:.4~g} FLOP/byte<extra></extra>",
            name=f"{escape(gpu.name)}, {side}",
            **dots(colour, 6 + 30 * np.sqrt(part), opacity=0.6),
        )
    return styled(
        figure,
        480,
        legend=ABOVE,
        xaxis=titled("FLOP per byte", type="log"),
        yaxis=titled("TFLOP/s", type="log"),
    )


def _roofs(gpu: GPU, rows: pd.DataFrame, across: np.ndarray) -> Mapping[str, np.ndarray]:
    """Return the roof of the number format that takes most of the time; none where a figure is not published."""
    times = rows.groupby(rows["dtype_a"].astype(str))["measured_us"].sum()
    dtype = str(times.idxmax())
    peaks = [value for key, value in gpu.peaks.items() if key.startswith(f"{dtype}_")]
    if not peaks or gpu.memory_bw_gbs is None:
        return {}
    return {dtype: np.minimum(max(peaks), across * gpu.memory_bw_gbs / 1e3)}


def efficiency_map(frame: pd.DataFrame, gpu: GPU) -> go.Figure:
    """Draw which share of its roofline each matrix product reaches, over m and the weight shape n × k.

    ``frame`` is a measurement table. Each m counts for the nearest power of two, where the median is
    drawn; of many weight shapes those with the most rows. Raises DataError: no product was measured on the GPU, or its
    figures are not published.
    """
    gemms = rows_of(frame, gpu.name)
    gemms = gemms[gemms["op"].astype(str).eq("gemm")].reset_index(drop=True)
    if gemms.empty:
        raise DataError(f"no matrix product was measured on {gpu.name}: there is nothing to draw")
    work = work_of(complete(gemms))
    bound = on_each(work, gemms, gpu, published(ROOFLINE))
    table = pd.DataFrame(
        {
            "m": 2.0 ** np.round(np.log2(np.maximum(work.m, 1.0))),
            "n": work.n,
            "k": work.k,
            "share": 100 * bound / gemms["duration_us"].to_numpy(dtype=float),
        }
    )
    table = table[np.isfinite(table["share"])]
    if table.empty:
        raise DataError(f"no roofline of {gpu.name} is published for these rows")
    shapes = table.groupby(["n", "k"]).size().sort_values(ascending=False, kind="stable")
    kept = shapes.head(SHAPES).sort_index().index
    grid = table.pivot_table(
        index=["n", "k"],
        columns="m",
        values="share",
        aggfunc="median",
    )
    grid = grid.loc[kept]
    heat = go.Heatmap(
        z=grid.to_numpy(),
        x=[f"{m:g}" for m in grid.columns],
        y=[f"{n:g} × {k:g}" for n, k in grid.index],
        colorscale="Viridis",
        zmin=0,
        colorbar=titled("%"),
        hovertemplate="m %{x}, n × k %{y}: %{z:.1f} %<extra></extra>",
    )
    return styled(
        Drawing(heat),
        160 + 18 * len(grid),
        legend={},
        xaxis=titled("m", type="category"),
        yaxis=titled("n × k", type="category", automargin=True),
    )

"""Figures of several ranks of a job: where each one's time goes, and what each sends each other."""

from __future__ import annotations

import numpy as np
import pandas as pd
import plotly.graph_objects as go

from ..projection.job import Job
from .figures import BASELINE, NEUTRAL, OTHERS, SELECTED, styled
from .formats import data_size
from .words.projection import PARTS_OF_RANKS

COLOURS = dict(zip(PARTS_OF_RANKS, (SELECTED, OTHERS[0], BASELINE, OTHERS[1], NEUTRAL), strict=True))


def ranks_figure(job: Job) -> go.Figure:
    """Draw the time of each rank as a bar of its parts, on the target above what was measured."""
    figure = go.Figure()
    split = job.split.iloc[::-1]
    sides = ((job.projections[0].host.name, "measured_"), (job.projections[0].target.name, ""))
    for name, label in PARTS_OF_RANKS.items():
        axis: list[list[str]] = [[], []]
        times: list[float] = []
        for row in split.to_dict("records"):
            for side, prefix in sides:
                axis[0].append(f"rank {row['rank']}")
                axis[1].append("as measured" if prefix else f"{side}, projected")
                times.append(row[prefix + name] / 1000)
        figure.add_bar(
            y=axis, x=times, name=label, orientation="h", marker_color=COLOURS[name],
            hovertemplate=f"{label}: %{{x:.4~g}} ms<extra></extra>",
        )  # fmt: skip
    figure.update_xaxes(title_text="ms").update_yaxes(automargin=True)
    figure = styled(
        figure,
        150 + 52 * len(split),
        legend={"traceorder": "normal", "orientation": "h", "y": 1.02, "yanchor": "bottom"},
    )
    return figure.update_layout(barmode="stack", margin={"t": 60})


def pairs_figure(pairs: pd.DataFrame) -> go.Figure:
    """Draw what each traced rank sends each other as a heat map."""
    table = pairs.pivot_table(index="rank", columns="peer", values="sent_bytes", aggfunc="sum")
    labels = [[str(rank) for rank in axis] for axis in (table.columns, table.index)]
    most = float(np.nanmax(table.to_numpy())) / 1e6
    texts = [[data_size(value) for value in row] for row in table.to_numpy().tolist()]
    figure = go.Figure(
        go.Heatmap(
            x=labels[0], y=labels[1], z=(table / 1e6).round(3).to_numpy().tolist(), text=texts,
            texttemplate="%{text}" if table.size <= 256 else "", colorscale="Cividis", zmin=0, zmax=most,
            hovertemplate="rank %{y} to %{x}: %{text}<extra></extra>", colorbar={"title": {"text": "MB"}},
        )
    )  # fmt: skip
    figure.update_xaxes(type="category", title_text="to rank")
    figure.update_yaxes(type="category", title_text="from rank", autorange="reversed")
    return styled(figure, 140 + 34 * len(table), legend={})

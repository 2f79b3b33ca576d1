"""Figures of a training run: Plotly's for pages, readable on light and dark ones alike, and charts for terminals.

Colours are of Okabe and Ito's palette (Color Universal Design, 2008), which colour-blind readers
can distinguish, the blue a little lighter so that it stands out on dark pages too: the selected
model is always blue, FLOPS scaling always vermilion.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from fnmatch import fnmatchcase
from typing import Any, Final

import numpy as np
import pandas as pd
import plotly.graph_objects as go
from numpy.typing import ArrayLike

from ..table.measurements import prediction_columns, quantity
from .document import Chart
from .formats import distinct, escape, percent, shortened
from .run_folder import ANALYTIC, Metrics, beside, ordered, reference, simplest
from .static_figures import Drawing

Look = dict[str, Any]
"""Properties of a figure, as plotly has them."""
SELECTED = "#1C83C6"
BASELINE = "#D55E00"
NEUTRAL = "#8c8c8c"
ABOVE: Final = {"orientation": "h", "y": 1.02, "yanchor": "bottom", "x": 0}
"""A legend in a line above its figure."""
OTHERS = ("#009E73", "#CC79A7", "#E69F00", "#56B4E9")
DASHES = ("solid", "dash", "dot", "dashdot")  # of lines that share a colour
_DASHES = ("dash", "dot", "dashdot", "longdash", "longdashdot")
GRID = "rgba(128,128,128,0.22)"
THRESHOLDS = np.arange(0.0, 50.5, 0.5)  # thresholds of the inlier ratio curves, %
WEBGL_FROM = 1500  # number of workloads from which points are drawn by WebGL, which stays fluid up to 10^5 of them
SHOWN = 5000
"""Workloads that a page lists and draws; of more, so many evenly chosen ones from the smallest to the largest."""
# a ranking whose first value is so many times the median is drawn on a logarithmic axis
DWARFED: Final = 30.0
FLATTENED: Final = 5.0  # the same of the errors of groups
LEAST_APE = 0.01  # smaller errors are drawn here, since the axis is logarithmic, %
_LARGEST: Final = 50.0  # error at the right end of a terminal's inlier curve, %
_POINTS: Final = 20_000  # points above which a terminal's chart shows evenly chosen ones


def workloads(predictions: pd.DataFrame, cv: Metrics, unit: str) -> go.Figure | None:
    """Draw observed and predicted values of all workloads in order of size, and the error of each below.

    `predictions` are the out-of-fold ones of all schemes and models, as in ``predictions.parquet``,
    `cv` is the scheme's entry of ``metrics["cv"]``, `unit` the label of the upper axis, e.g.
    ``"time, µs"``. None where nothing was selected or the selected model has no predictions.
    """
    name = str((cv.get("selected") or {}).get("name"))
    rows = selected(predictions, cv)
    if rows.empty:
        return None
    rows = thinned(rows)
    place = np.arange(1, len(rows) + 1)
    observed = rows["observed"].to_numpy(dtype=float)
    where = [escape(str(group)) for group in rows["group"]]
    traces = list[Any]()
    baseline = reference(cv)
    if baseline is not None and baseline["name"] in (
        rows := beside(rows, predictions, [baseline["name"]])
    ):
        law = rows[baseline["name"]].to_numpy(dtype=float)
        traces += _points_of(baseline["name"], observed, law, BASELINE, where)
    look = stroke(NEUTRAL, 2)
    traces.append(
        go.Scatter(
            name="observed",
            x=place,
            y=_short(observed),
            **look,
            **_PANELS[0],
        )
    )
    predicted = rows["predicted"].to_numpy(dtype=float)
    traces += _points_of(name, observed, predicted, SELECTED, where)
    ape = np.maximum(100 * np.abs(predicted - observed) / observed, LEAST_APE)
    dotted = {
        "type": "line",
        "x0": 0,
        "x1": 1,
        "xref": "x2 domain",
        "yref": "y2",
        "line": {"color": NEUTRAL, "width": 1, "dash": "dot"},
    }
    decades = [10.0**power for power in range(-9, 13)]
    up = {
        "type": "log",
        "tickmode": "array",
        "tickvals": decades,
        "ticktext": [f"{decade:,.9g}" for decade in decades],
    }
    across = {"range": [0.5 - 0.01 * len(rows), 0.5 + 1.01 * len(rows)], "domain": [0.0, 1.0]}
    return styled(
        Drawing(traces),
        620,
        legend={**ABOVE, "itemsizing": "constant"},
        annotations=[
            {
                "xref": "x2",
                "yref": "y2",
                **look,
            }
            for look in farthest(place, ape, where)
        ],
        shapes=[
            {
                **dotted,
                "y0": error,
                "y1": error,
            }
            for error in (1, 10)
        ],
        xaxis={**across, "anchor": "y", "matches": "x2", "showticklabels": False},
        yaxis=titled(
            escape(unit),
            **up,
            anchor="x",
            domain=[0.4048, 1.0],
        ),
        xaxis2=titled("workloads from smallest to largest", **across, anchor="y2"),
        yaxis2=titled("error, %", **up, anchor="x2", domain=[0.0, 0.3648]),
    )


def parity(predictions: pd.DataFrame, cv: Metrics, unit: str) -> go.Figure | None:
    """Draw predicted over observed values of the selected model, and the band that holds 90 % of the workloads.

    Parameters as those of `workloads`. The band is made of the 5 % and 95 % quantiles of predicted
    over observed, out of fold. None where nothing was selected.
    """
    name = str((cv.get("selected") or {}).get("name"))
    rows = selected(predictions, cv)
    rows = rows[rows["predicted"] > 0]
    if rows.empty:
        return None
    ratio = (rows["predicted"] / rows["observed"]).to_numpy(dtype=float)
    low, high = np.quantile(ratio, [0.05, 0.95])
    rows = thinned(rows)
    observed = rows["observed"].to_numpy(dtype=float)
    ends = np.array([observed.min(), observed.max()])
    figure = Drawing()
    figure.add_scatter(
        x=[*ends, *ends[::-1]],
        y=[*(ends * low), *(ends * high)[::-1]],
        fill="toself",
        fillcolor="rgba(28,131,198,0.15)",
        line={"width": 0},
        mode="lines",
        hoverinfo="skip",
        name=f"90 %: {low:.2f} to {high:.2f} × observed",
    )
    figure.add_scatter(
        x=ends,
        y=ends,
        name="equal",
        **stroke(NEUTRAL, 1),
    )
    many = len(rows) >= WEBGL_FROM
    figure.add_trace(
        _kind_of_points(len(rows))(
            x=_short(observed),
            y=_short(rows["predicted"].to_numpy(dtype=float)),
            text=[escape(str(group)) for group in rows["group"]],
            hovertemplate="%{x:.4~g} → %{y:.4~g}<br>%{text}<extra></extra>",
            name=escape(name),
            **dots(SELECTED, 4 if many else 6, opacity=0.6),
        )
    )
    return styled(
        figure,
        520,
        legend=ABOVE,
        xaxis=titled(f"observed {escape(unit)}", type="log"),
        yaxis=titled(f"predicted {escape(unit)}", type="log"),
    )


def thinned(rows: pd.DataFrame) -> pd.DataFrame:
    """Return at most `SHOWN` of the rows, evenly chosen in their order, the first and the last among them."""
    if len(rows) <= SHOWN:
        return rows
    return rows.iloc[np.linspace(0, len(rows) - 1, SHOWN).round().astype(int)]


def selected(predictions: pd.DataFrame, cv: Metrics) -> pd.DataFrame:
    """Return the out-of-fold predictions of the model that a scheme selected, the smallest observed value first."""
    name = str((cv.get("selected") or {}).get("name"))
    rows = predictions[(predictions["scheme"] == cv["scheme"]) & (predictions["model"] == name)]
    return rows.sort_values(["observed", "row"], kind="stable")


def inliers(predictions: pd.DataFrame, cv: Metrics) -> go.Figure:
    """Draw, for every model and baseline, the share of workloads whose error stays within a threshold.

    The selected model is a thick blue line, the four next best are coloured, baselines are dashed,
    and all others are thin grey lines that show one entry in the legend and their names under the
    pointer.
    """
    ranked = [
        row
        for row, _ in ordered({**cv, "baselines": []})
        if not row.get("error") and not row.get("left")
    ]
    name = (cv.get("selected") or {}).get("name")
    best = [row for row in ranked if row["name"] != name][: len(OTHERS)]
    colours = {row["name"]: colour for row, colour in zip(best, OTHERS, strict=False)}
    rest = [row for row in ranked if row["name"] != name and row["name"] not in colours]
    figure = Drawing()
    errors = errors_of(predictions, cv)
    for index, row in enumerate(rest):
        style = {"color": "rgba(128,128,128,0.45)", "width": 1}
        label = f"{len(rest)} other models"
        figure.add_trace(_curve(row, errors, style, label, "others", shown=index == 0))
    drawn = [
        (
            row,
            {
                "color": BASELINE,
                "width": 2,
                "dash": _DASHES[index % len(_DASHES)],
            },
        )
        for index, row in enumerate(cv.get("baselines") or [])
    ]
    drawn += [(row, {"color": colours[row["name"]], "width": 2}) for row in reversed(best)]
    drawn += [(row, {"color": SELECTED, "width": 4}) for row in ranked if row["name"] == name]
    for row, style in drawn:
        figure.add_trace(_curve(row, errors, style))
    rules = [row["name"] for row in (simplest(cv), reference(cv), *best[:1]) if row is not None]
    wanted = {escape(str(one)) for one in (name, *rules)}
    named = [trace for trace in figure.data if trace.name in wanted]
    named.sort(key=lambda trace: np.mean(trace.y))
    names = []
    # the lower a curve, the further right
    for level, trace in zip(np.linspace(20, 85, len(named)), named, strict=True):
        at = int(np.argmax(np.asarray(trace.y) >= level))
        names.append(
            _named(
                trace.name, trace.x[at], trace.y[at], trace.line.color, ax=24, ay=14, xanchor="left"
            )
        )
    return styled(figure, 460, {"traceorder": "reversed"}, annotations=names, **_SHARES)


def inlier_chart(
    errors: Mapping[str, ArrayLike], title: str = "share of workloads predicted within an error"
) -> Chart:
    """Return the curve of each name: the share of its errors (%, one per workload) that stay within a threshold.

    >>> inlier_chart({"OLS": [1.0, 3.0, 90.0]}).curves[0][2][:3].round().tolist()
    [0.0, 33.0, 67.0]
    """
    limits = np.linspace(0.0, _LARGEST, 26)
    curves = []
    for name, values in errors.items():
        finite = np.sort(np.asarray(values, dtype=float))
        finite = finite[np.isfinite(finite)]
        if finite.size:
            curves.append(
                (name, limits, 100.0 * np.searchsorted(finite, limits, side="right") / finite.size)
            )
    return Chart(
        title, curves, ("error at most, %", "workloads, %"), ((0.0, _LARGEST), (0.0, 100.0))
    )


def agreement_chart(observed: ArrayLike, predicted: ArrayLike, name: str, unit: str) -> Chart:
    """Return predicted over observed values on logarithmic axes, and the line where both are equal.

    Values that are not positive are left out; `unit` is the label of what was predicted, such as
    ``"time, µs"``.
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
    return Chart(
        title, curves, axes, ((ends[0], ends[1]),) * 2, logarithmic=True, points=frozenset({name})
    )


FAMILIES: Final = {
    "RandomForest": SELECTED,
    "Lasso/NNLS": OTHERS[0],
    "Lasso": OTHERS[1],
    "NNLS*": OTHERS[2],
    "OLS*": BASELINE,
}
"""Kinds of models of the literature, by name or by how names begin, and their colours; the best of a kind is drawn."""


def families(predictions: pd.DataFrame, cv: Metrics) -> go.Figure | None:
    """Draw the inlier ratios of the best OLS, the best NNLS, Lasso, Lasso/NNLS and the forest; none without any."""
    ranked = [row for row, _ in ordered({**cv, "baselines": []}) if row.get("e_out") is not None]
    errors = errors_of(predictions, cv)
    figure = Drawing()
    for pattern, colour in FAMILIES.items():
        row = next((row for row in ranked if fnmatchcase(row["name"], pattern)), None)
        if row is not None:
            label = f"{row['name']}, E_out {percent(row['e_out'])}"
            figure.add_trace(_curve(row, errors, {"color": colour, "width": 2.5}, label))
    if not figure.data:
        return None
    return styled(figure, 420, ABOVE, **_SHARES)


def order(predictions: pd.DataFrame, cv: Metrics) -> go.Figure:
    """Draw the place of each workload among all by its predicted value over that by its observed value."""
    rows = selected(predictions, cv)
    place = rows["predicted"].astype(float).rank().to_numpy(dtype=np.float32)
    kind = _kind_of_points(len(rows))
    last = len(rows)
    at = thinned(pd.DataFrame({"at": np.arange(last)}))["at"].to_numpy()
    if len(at) == last:
        x = {"x0": 1, "dx": 1}
    else:
        x = {"x": at + 1}
    hover = "observed %{x}, predicted %{y}<extra></extra>"
    look = dots(SELECTED, 4, opacity=0.6)
    figure = Drawing(
        kind(
            **x,
            y=place[at],
            hovertemplate=hover,
            name="workloads",
            **look,
        )
    )
    ends = [1, last]
    figure.add_scatter(
        x=ends,
        y=ends,
        name="same order",
        hoverinfo="skip",
        **stroke(NEUTRAL, 1),
    )
    return styled(
        figure,
        420,
        {},
        showlegend=False,
        xaxis=titled("place by observed value, from the smallest"),
        yaxis=titled("place by predicted value"),
    )


def learning(table: pd.DataFrame, interval: float) -> go.Figure:
    """Draw error against rows measured, with its range over the draws, and below it how many rows intervals covered.

    `table` has a row per number of rows and way, as `Curve` of the API has it; `interval` is the
    level.
    """
    figure = Drawing().set_subplots(
        rows=2, cols=1, shared_xaxes=True, row_heights=[0.7, 0.3], vertical_spacing=0.06
    )
    for (way, part), colour in zip(
        table.groupby("way", sort=False), (*OTHERS[2:3], SELECTED, *OTHERS), strict=False
    ):
        x = part["rows"]
        line = {"color": colour, "width": 3}
        error = part["e_out"]
        reach = {
            "array": part["greatest"] - error,
            "arrayminus": error - part["least"],
            "color": colour,
        }
        figure.add_scatter(
            name=str(way),
            x=x,
            y=error,
            error_y={"symmetric": False, **reach},
            line=line,
            row=1,
            col=1,
        )
        covered = 100 * part["coverage"]
        figure.add_scatter(
            name=str(way),
            x=x,
            y=covered,
            line=line,
            showlegend=False,
            row=2,
            col=1,
        )
    rule = table.drop_duplicates("rows", keep="last")
    style = {"color": BASELINE, "width": 2, "dash": "dash"}
    figure.add_scatter(
        name="affine",
        x=rule["rows"],
        y=rule["affine"],
        line=style,
        row=1,
        col=1,
    )
    figure.add_hline(
        y=100 * interval,
        line={
            "color": NEUTRAL,
            "width": 1,
            "dash": "dot",
        },
        row=2,
        col=1,
    )
    counts = sorted(set(table["rows"]))
    figure.update_xaxes(
        type="log", tickmode="array", tickvals=counts, ticktext=[f"{count:,}" for count in counts]
    )
    figure.update_xaxes(title_text="rows measured on the target", row=2, col=1)
    figure.update_yaxes(title_text="error, %", rangemode="tozero", row=1, col=1)
    figure.update_yaxes(
        title_text="covered, %",
        range=[40, 101],
        row=2,
        col=1,
    )
    return styled(figure, 560, legend=ABOVE)


def trees(rows: Sequence[Metrics]) -> go.Figure:
    """Draw the error of forests of 2, 4, 8, ... trees, and below it their inlier ratios; `rows` as in metrics."""
    figure = Drawing().set_subplots(
        rows=2,
        cols=1,
        shared_xaxes=True,
        vertical_spacing=0.06,
    )
    sizes = [row["trees"] for row in rows]
    mode = {"mode": "lines+markers"}
    for key, label, colour in (("e_out", "E_out", SELECTED), ("e_in", "E_in", NEUTRAL)):
        line = {"color": colour, "width": 2}
        figure.add_scatter(
            name=label, x=sizes, y=[row[key] for row in rows], line=line, **mode, row=1, col=1
        )
    for threshold, colour in zip(("5", "10", "20"), OTHERS, strict=False):
        share = [row["ir"][threshold] for row in rows]
        line = {"color": colour, "width": 2}
        figure.add_scatter(
            name=f"within {threshold} %", x=sizes, y=share, line=line, **mode, row=2, col=1
        )
    figure.update_xaxes(
        type="log",
        tickvals=sizes,
        ticktext=[str(size) for size in sizes],
    )
    figure.update_xaxes(title_text="trees", row=2, col=1)
    figure.update_yaxes(title_text="error, %", rangemode="tozero", row=1, col=1)
    figure.update_yaxes(title_text="workloads, %", row=2, col=1)
    return styled(figure, 520, legend=ABOVE)


def intervals(frame: pd.DataFrame, metric: str) -> go.Figure:
    """Draw predictions with their intervals from the smallest to the largest, those unlike training apart.

    They are as `flopcast.predict` returns them; rows without a prediction are left out.
    """
    predicted = prediction_columns(metric)["predicted"]
    rows = frame[frame[predicted].notna()].sort_values(predicted, kind="stable")
    place = np.arange(1, len(rows) + 1)
    figure = Drawing([*_with_intervals(rows, place, metric, np.ones(len(rows)))])
    figure.update_yaxes(type="log", title_text=f"predicted {escape(quantity(metric).label)}")
    figure.update_xaxes(title_text="workloads from smallest to largest")
    return styled(figure, 460, legend=ABOVE)


def over_measured(frame: pd.DataFrame, metric: str, device: str) -> go.Figure | None:
    """Draw predictions with their intervals, relative to what a device measured of the same rows.

    ``frame`` is as for `intervals`, with the measured values under the metric's name; FLOPS scaling
    stands beside them where it has that. None where no row has both.
    """
    predicted = prediction_columns(metric)["predicted"]
    rows = frame[(frame[metric] > 0) & frame[predicted].notna()]
    if rows.empty:
        return None
    measured = rows[metric].to_numpy(dtype=float)
    figure = Drawing([*_with_intervals(rows, measured, metric, measured)])
    if ANALYTIC in rows:
        law = rows[ANALYTIC].to_numpy(dtype=float) / measured
        figure.add_scatter(
            name=ANALYTIC,
            x=_short(measured),
            y=_short(law),
            hovertemplate=f"%{{y:.4~g}}<extra>{ANALYTIC}</extra>",
            **dots(OTHERS[2], 5, symbol="cross"),
        )
    figure.add_hline(y=1, line={"color": NEUTRAL, "width": 1})
    where = f"measured on {escape(device)}"
    figure.update_xaxes(type="log", title_text=f"{where}: {escape(quantity(metric).label)}")
    figure.update_yaxes(rangemode="tozero", title_text=f"predicted / {where}")
    return styled(figure, 460, legend=ABOVE)


def _with_intervals(
    rows: pd.DataFrame, across: np.ndarray, metric: str, base: np.ndarray
) -> Iterator[go.Scatter]:
    """Yield predictions with their intervals over ``base``, those like training and those unlike it apart."""
    columns = prediction_columns(metric).values()
    outside = rows["extrapolated"].to_numpy(dtype=bool)
    kinds = (("like training", SELECTED, ~outside), ("unlike training", BASELINE, outside))
    for name, colour, of in kinds:
        if not of.any():
            continue
        relative = rows.loc[of, [*columns]].to_numpy(dtype=float) / base[of, np.newaxis]
        predicted, lower, upper = relative.T
        bars = {
            "type": "data",
            "symmetric": False,
            "array": upper - predicted,
            "arrayminus": predicted - lower,
        }
        yield go.Scatter(
            name=name,
            x=across[of],
            y=predicted,
            error_y={**bars, "thickness": 1, "width": 0},
            hovertemplate=f"%{{y:.4~g}}<extra>{name}</extra>",
            **dots(colour, 5),
        )


def ranking(rows: Sequence[tuple[str, float]], measure: str) -> go.Figure:
    """Draw what the features contribute, in the order given, from the top; p-values as the size of their exponent.

    Where a bar would leave no more than a line of most others, all are points on a logarithmic
    axis.
    """
    exponent = "p-value" in measure.lower()
    values = np.array([value for _, value in rows])
    title = escape(measure)
    if exponent:
        values = -np.log10(np.maximum(values, 1e-300))
        title = "−log10 of the p-value (1.3 is p = 0.05)"
    figure = _bars(
        [name for name, _ in rows],
        values,
        [f"{value:.3g}" for _, value in rows],
        title,
    )
    if exponent:
        figure.add_vline(
            x=-np.log10(0.05),
            line={
                "color": NEUTRAL,
                "width": 1,
                "dash": "dot",
            },
        )
    elif len(values) and values.min() > 0 and values.max() > DWARFED * np.median(values):
        _as_points(figure, values)
    return figure


def _as_points(figure: go.Figure, values: np.ndarray) -> None:
    """Turn the bars of a figure into points on a logarithmic axis that spans all the ``values``."""
    given = {
        name: figure.data[0][name] for name in ("x", "y", "text", "customdata", "hovertemplate")
    }
    points = {
        "mode": "markers+text",
        "textposition": "middle right",
        "marker": {"color": SELECTED, "size": 11},
    }
    figure.data = []
    figure.add_scatter(**given, **points)
    figure.update_xaxes(
        type="log", range=[np.log10(values.min()) - 0.1, np.log10(values.max()) + 0.4]
    )


def changes(
    names: Sequence[str],
    values: Sequence[float],
    limits: Sequence[tuple[float, float]],
    unit: str,
) -> go.Figure:
    """Draw changes as bars from zero: decreases to the left, increases to the right, with intervals where given.

    ``limits`` are lower and upper end of each, NaN where there is none; the first stands on top.
    """
    figure = Drawing()
    numbers = np.asarray(values, dtype=float)
    ends = np.asarray(limits, dtype=float).reshape(len(names), 2)
    colours = [SELECTED if value < 0 else BASELINE for value in numbers]
    error = {
        "array": ends[:, 1] - numbers,
        "arrayminus": numbers - ends[:, 0],
        "color": NEUTRAL,
        "thickness": 1,
    }
    bar: Look = {"orientation": "h", "marker": {"color": colours}, "error_x": error}
    hover = "%{customdata}: %{x:+.4~g} " + escape(unit) + "<extra></extra>"
    figure.add_bar(
        x=numbers,
        y=[*range(len(names))],
        customdata=[escape(name) for name in names],
        hovertemplate=hover,
        **bar,
    )
    figure.add_vline(x=0, line={"color": NEUTRAL, "width": 1})
    return styled(
        figure,
        90 + 24 * len(names),
        {},
        showlegend=False,
        xaxis=titled(escape(unit)),
        yaxis=_named_rows(names),
    )


def groups(rows: Sequence[Metrics], others: Sequence[float | None], rule: str) -> go.Figure:
    """Draw the error of each group as a bar, that of the rule as a mark; rows in the order to show.

    Where one error would flatten most others, all are points on a logarithmic axis.
    """
    errors = np.array([row.get("e_out") or 0.0 for row in rows])
    marked = any(error is not None for error in others)
    look = Look()
    if marked:
        look = {
            "showlegend": True,
            "legend": {**ABOVE, "y": 1.0},
            "margin": {"t": 44},
        }
    labels = [str(row["group"]) for row in rows]
    texts = [percent(error) for error in errors]
    figure = _bars(labels, errors, texts, "mean error, %", **look)
    finite = [float(error) for error in others if error is not None]
    values = np.array([*errors, *finite])
    if len(values) and values.min() > 0 and values.max() > FLATTENED * np.median(errors):
        _as_points(figure, values)
    else:
        figure.data[0].update(insidetextanchor="start")
    figure.data[0].update(name="flopcast")
    if marked:
        marks = dots(BASELINE, 12, symbol="line-ns-open", line={"width": 3, "color": BASELINE})
        places = list(range(len(rows)))
        figure.add_scatter(
            name=escape(rule),
            x=list(others),
            y=places,
            **marks,
        )
    return figure


_PANELS: Final = ({"xaxis": "x", "yaxis": "y"}, {"xaxis": "x2", "yaxis": "y2"})
"""Axes of the upper panel of two, and of the lower."""


def _points_of(
    name: str,
    observed: np.ndarray,
    predicted: np.ndarray,
    colour: str,
    where: list[str],
) -> Iterator[go.Scatter | go.Scattergl]:
    """Yield a model's predictions in the upper panel and their errors in the lower; what is not positive is left out.

    Placed by their axes: plotly's panels, and each property set later, take as long again as
    all the rest.
    """
    many = len(observed) >= WEBGL_FROM
    place = np.arange(1, len(observed) + 1)
    ape = 100 * np.abs(predicted - observed) / observed
    label = escape(name)
    kind = _kind_of_points(len(observed))
    look = dots(colour, 5, opacity=0.8)
    if many:
        look = dots(colour, 3, opacity=0.5)
    for panel, y, sign in (
        (0, np.where(predicted > 0, predicted, np.nan), ""),
        (1, np.maximum(ape, LEAST_APE), " %"),
    ):
        hover = f"%{{y:.4~g}}{sign}{'<br>%{text}' if where else ''}<extra>{label}</extra>"
        yield kind(
            name=label,
            x=place,
            y=_short(y),
            text=where or None,
            hovertemplate=hover,
            showlegend=panel == 0,
            legendgroup=label,
            **look,
            **_PANELS[panel],
        )


def _kind_of_points(count: int) -> type[go.Scatter] | type[go.Scattergl]:
    """Return the kind of trace that draws so many points fluidly."""
    if count >= WEBGL_FROM:
        return go.Scattergl
    return go.Scatter


def _short(values: np.ndarray) -> np.ndarray:
    """Return single precision: seven digits, half the page."""
    return values.astype(np.float32)


def errors_of(predictions: pd.DataFrame, cv: Metrics) -> dict[str, np.ndarray]:
    """Return the sorted errors of each model and baseline of a scheme, %, from its predictions."""
    of_scheme = predictions.loc[predictions["scheme"] == cv["scheme"], ["model", "ape"]]
    return {
        str(name): np.sort(ape.dropna().to_numpy())
        for name, ape in of_scheme.groupby("model", observed=True)["ape"]
    }


def _curve(
    row: Metrics,
    errors_by_model: dict[str, np.ndarray],
    line: Look,
    label: str = "",
    group: str = "",
    shown: bool = True,
) -> go.Scatter:
    """Return one inlier ratio curve: from the errors where there are predictions, else through the table's figures."""
    name = str(row["name"])
    errors = errors_by_model.get(row["name"])
    if errors is not None and errors.size:
        x = THRESHOLDS
        y = 100 * np.searchsorted(errors, THRESHOLDS, side="right") / errors.size
    else:
        ir = sorted((float(threshold), share) for threshold, share in (row.get("ir") or {}).items())
        x, y = np.array(ir, dtype=float).reshape(-1, 2).T
    hover = f"%{{y:.1f}} % within %{{x}} %<extra>{escape(name)}</extra>"
    return go.Scatter(
        name=escape(label or name),
        legendgroup=escape(group or name),
        showlegend=shown,
        x=x,
        y=_short(y),
        mode="lines",
        line=line,
        hovertemplate=hover,
    )


def _bars(
    labels: list[str], values: np.ndarray, texts: list[str], title: str, **look: Any
) -> go.Figure:
    """Return horizontal bars, the first on top, each with its value; long labels are cut but kept under the pointer.

    `title` is that of the axis of values, `look` more of the layout.
    """
    hover = "%{customdata}: %{text}<extra></extra>"
    bars = {
        "marker": {"color": SELECTED},
        "orientation": "h",
        "textposition": "auto",
        "insidetextanchor": "end",
        "textangle": 0,
        "constraintext": "none",
        "insidetextfont": {"color": "white", "size": 12},
        "outsidetextfont": {"size": 12},
    }
    figure = Drawing(
        go.Bar(
            x=_short(values),
            y=[*range(len(labels))],
            text=texts,
            customdata=[escape(label) for label in labels],
            hovertemplate=hover,
            **bars,
        )
    )
    look = {"showlegend": False, "bargap": 0.25, **look}
    return styled(
        figure,
        90 + 24 * len(labels),
        look.pop("legend", {}),
        xaxis=titled(title, rangemode="tozero"),
        yaxis=_named_rows(labels),
        **look,
    )


def _named_rows(names: Sequence[str]) -> Look:
    """Return the look of an axis of rows, the first on top, whose long names are cut so that they still differ."""
    return {
        "automargin": True,
        "autorange": "reversed",
        "showgrid": False,
        "tickmode": "array",
        "tickvals": [*range(len(names))],
        "ticktext": [escape(distinct(name, names, _LABEL)) for name in names],
    }


_LABEL: Final = 34  # characters of a label
_TEXT = "#787878"
"""Can be read on the white and on the black of a notebook; pages have a separate colour for text."""
_FONT = "system-ui, -apple-system, 'Segoe UI', Roboto, sans-serif"
_CLEAR = "rgba(0,0,0,0)"
# decades of a logarithmic axis under which ticks are even, from which they are powers of ten
_CLOSE = 0.7
_WIDE = 3.5
_LOOK: Look = {
    "template": "none",
    "paper_bgcolor": _CLEAR,
    "plot_bgcolor": _CLEAR,
    "modebar": {"bgcolor": _CLEAR, "color": NEUTRAL, "activecolor": SELECTED},
}
"""Of every figure: transparent, so that text and ground are those of the page."""
_AXIS: Look = {"gridcolor": GRID, "zeroline": False, "linecolor": GRID}


def titled(text: str, **more: Any) -> Look:
    """Return the look of an axis with this title."""
    return {"title": {"text": text}, **more}


_SHARES: Final = {
    "xaxis": titled("error at most, %", range=[0, 50]),
    "yaxis": titled("workloads, %", range=[0, 101]),
}
"""Axes of inlier ratios."""


def styled(figure: go.Figure, height: int, legend: Look, **more: Any) -> go.Figure:
    """Apply the style of the pages to a figure: transparent, hairline grid, text in the page's colour.

    `more` are properties of the layout, of its axes too (``xaxis={...}``): here they cost a tenth
    of what plotly's ``update_layout`` takes.
    """
    look = {
        "height": height,
        "font": {"family": _FONT, "size": 14, "color": _TEXT},
        "hoverlabel": {"align": "left"},
        "legend": {"font": {"size": 13}, "bgcolor": _CLEAR, **legend},
        "margin": {"l": 70, "r": 16, "t": 36, "b": 52},
    }
    axis = {"title": {"font": {"size": 14}, "standoff": 10}, "tickfont": {"size": 13}}
    return _dressed(figure, _merged(look, more), axis)


def dots(colour: str | None, size: Any, **more: Any) -> Look:
    """Return the look of points."""
    return {"mode": "markers", "marker": {"color": colour, "size": size, **more}}


def stroke(colour: str, width: float | None, **more: Any) -> Look:
    """Return the look of a line."""
    return {"mode": "lines", "line": {"color": colour, "width": width, **more}}


def cycled(place: int, colours: Sequence[str]) -> dict[str, str]:
    """Return colour and dash of one of many lines: all colours with one dash, then with the next."""
    turn, at = divmod(place, len(colours))
    return {"color": colours[at], "dash": DASHES[turn % len(DASHES)]}


def log_axes(figure: go.Figure, x: str, y: str) -> None:
    """Name the axes of a figure, both logarithmic."""
    figure.update_xaxes(type="log", title_text=x)
    figure.update_yaxes(type="log", title_text=y)


def name_line(
    figure: go.Figure,
    name: str,
    line: tuple[int, int],
    x: ArrayLike,
    y: ArrayLike,
    colour: str,
) -> None:
    """Write the name of a line beside it, both axes being logarithmic; ``line`` is which of how many it is.

    Names stand at other heights, for the lines may lie close.
    """
    place, count = line
    across = np.log10(np.asarray(x, dtype=float))
    up = np.log10(np.asarray(y, dtype=float))
    at = (place + 1) * len(across) // (count + 1)
    figure.add_annotation(
        _named(
            escape(name),
            across[at],
            up[at],
            colour,
            ax=28,
            ay=-24,
        )
    )


def farthest(at: ArrayLike, off: ArrayLike, names: Sequence[str]) -> list[Look]:
    """Return, as annotations, the name of the farthest off of each third of the points, so that names do not meet.

    ``at`` is where the points stand on the axis across, as it is drawn, ``off`` how far they are
    off, on a logarithmic axis; what is unknown is passed over.
    """
    across = np.asarray(at, dtype=float)
    up = np.asarray(off, dtype=float)
    finite = np.flatnonzero(np.isfinite(across) & np.isfinite(up))
    if not len(finite):
        return []
    low = across[finite].min()
    high = across[finite].max()
    points = list[Look]()
    share = across[finite] - low
    third = np.minimum(3 * share / max(high - low, 1e-9), 2).astype(int)
    for place in np.unique(third):
        part = finite[third == place]
        worst = part[np.argmax(up[part])]
        shift = {
            "ax": (30, 0, -30)[place],
            "ay": -28,
            "xanchor": ("left", "center", "right")[place],
        }
        text = shortened(names[worst], 28)
        point = _named(text, across[worst], np.log10(up[worst]), NEUTRAL, **shift)
        point["name"] = "farthest"  # by which page.js leaves them out where they would meet
        points.append(point)
    return points


def _named(name: str, x: float, y: float, colour: str, **place: Any) -> Look:
    """Return the name of a line as an annotation with an arrow to a point of it."""
    look = {
        "font": {"color": colour, "size": 13},
        "showarrow": True,
        "arrowcolor": colour,
        "arrowwidth": 1,
    }
    return {"text": name, "x": x, "y": y, **look, **place}


def panels(figure: go.Figure, height: int) -> go.Figure:
    """Apply the style of the pages to a figure of several panels, its legend above."""
    legend = {**ABOVE, "y": 1 + 40 / height, "bgcolor": _CLEAR}
    entries = len(
        {trace.name for trace in figure.data if trace.name and trace.showlegend is not False}
    )
    # a second row of it, beneath the buttons of the figure
    rows = 0
    if entries > 6:
        rows = 28
    margin = {"l": 60, "r": 16, "t": 90 + rows, "b": 50}
    height = height + rows
    look = {
        "height": height,
        "font": {"family": _FONT, "size": 13, "color": _TEXT},
        "legend": legend,
        "margin": margin,
    }
    return _dressed(figure, look, {})


def _dressed(figure: go.Figure, look: Look, axis: Look) -> go.Figure:
    """Style a layout and its axes in one update: property by property plotly takes ten times as long.

    Ticks of logarithmic axes are written in full, 1, 2, 5 of each of a few decades; plotly writes
    lone digits.
    """
    layout = _merged(figure.layout.to_plotly_json(), _LOOK | look)
    for name in dict.fromkeys(
        ("xaxis", "yaxis", *(name for name in layout if name[1:5] == "axis"))
    ):
        drawn = layout[name] = _merged(layout.get(name, {}), _AXIS | axis)
        if drawn.get("type") != "log" or "tickvals" in drawn:
            continue
        letter = name[0]
        of = name.replace("axis", "")
        traces = [trace for trace in figure.data if (trace[f"{letter}axis"] or letter) == of]
        values = np.concatenate([[], *(np.asarray(trace[letter], dtype=float) for trace in traces)])
        values = values[(values > 0) & np.isfinite(values)]
        span = 0.0
        if values.size:
            span = np.log10(values.max() / values.min())
        drawn |= {
            "tickformat": ",~g",
            "dtick": None if span < _CLOSE else "D2" if span < _WIDE else 1,
        }
    figure.layout = layout
    return figure


def _merged(one: Look, other: Look) -> Look:
    """Merge properties recursively; the second wins."""
    both = {
        name: _merged(one[name], value)
        for name, value in other.items()
        if isinstance(one.get(name), dict) and isinstance(value, dict)
    }
    return {**one, **other, **both}

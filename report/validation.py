"""The document of `validate`: the verdict, target against law in a figure, the evidence class by class."""

from __future__ import annotations

from collections.abc import Iterator
from functools import partial
from itertools import product
from math import isnan
from typing import Final

import numpy as np
import pandas as pd
import plotly.graph_objects as go
from plotly.subplots import make_subplots

from ..errors import few
from ..evaluation.law_comparison import Explanation
from ..evaluation.linear_scaling import (
    HOST_DURATION,
    ClassFinding,
    LawFinding,
    ValidationResult,
)
from ..evaluation.metrics import ape
from ..evaluation.verdicts import ALPHA, MIN_GROUPS, MIN_ROWS, MOST_ROWS, Interval, Outcome
from ..hardware import GPU
from ..output import SCHEMA
from ..table.measurements import Quantity, quantity
from .document import (
    JSON,
    Cell,
    Chart,
    Column,
    Document,
    Figure,
    Headline,
    Line,
    Lines,
    Listing,
    Row,
    Section,
    Table,
    Tone,
    columns,
    lines,
    losses,
    picked,
)
from .figures import (
    ABOVE,
    BASELINE,
    GRID,
    OTHERS,
    SELECTED,
    agreement_chart,
    dots,
    inlier_chart,
    log_axes,
    stroke,
    styled,
    thinned,
    titled,
)
from .formats import counted, escape, figure, formatted
from .predictions import workload
from .static_figures import Drawing

QUESTION: Final = "Does linear scaling hold?"
COLUMNS: Final = (
    Column("class / law", "name"),
    *columns(numbers=("median [90 %]", "slope [95 %]", "scatter", "E_out"), prose=["verdict"]),
)
_TONES: Final[dict[Outcome, Tone]] = {
    Outcome.HOLDS: "good",
    Outcome.CORRECTED: "accent",
    Outcome.SIZE: "error",
    Outcome.SCATTER: "error",
    Outcome.UNDECIDED: "warning",
    Outcome.TOO_FEW: "soft",
    Outcome.UNKNOWN: "soft",
}
_ANSWERS: Final = dict.fromkeys(Outcome, "No") | {
    Outcome.HOLDS: "Yes",
    Outcome.CORRECTED: "Yes, with a correction",
    Outcome.UNDECIDED: "These data cannot tell",
    Outcome.TOO_FEW: "These data cannot tell",
    Outcome.UNKNOWN: "These data cannot tell",
}
"""The first word of the answer, by the verdict on the first law over all rows."""
_PAIRS: Final = "pairs"  # the name of their table, to which the figure's points lead
_NAMED: Final = 4  # classes named in one line of the summary
_RANK: Final = dict.fromkeys(Outcome, 0) | {Outcome.CORRECTED: 1, Outcome.HOLDS: 2}
"""How much of a law is left, to say what holds instead of another."""
_GROUPS: Final = 40  # groups that a heat map has room for: those with the most rows
_COLOURS: Final = (SELECTED, BASELINE, *OTHERS)
_SYMBOLS: Final = ("circle", "square", "triangle-up", "cross", "x", "star")
"""Of the points of a class, one after the other where there are more classes than colours."""


def validation_document(result: ValidationResult, *, plot: bool = False) -> Document:
    """Return what the data say of linear scaling, for terminal, page and machines; ``plot`` draws on a terminal too."""
    symbol = quantity(result.dataset.metric).symbol
    verdict = lines(summary(result)).lines
    caption = (
        f"{symbol}_target / {symbol} by the law chosen above the figure, pair by pair; green: "
        "within the margin"
    )
    drawn = Figure(partial(deviations, result), caption, of=_PAIRS)
    said = (conclusion(one) for one in result.classes[1:] if one.judged)
    classes = lines(said, "list", medium="page")
    lost = losses(result.rejected, [*map(repr, result.notes)], first=result.rejected_at)
    pooled = result.classes[0]
    answer = f"{_ANSWERS[pooled.laws[0].verdict.outcome]}. Over all rows {conclusion(pooled, named=False)}"
    head = Headline("all rows", answer)
    if pooled.explanations:  # what errs least, beside the first law; beneath, the verdict
        errors = {one.law: f"{one.law}: {_percent(one.mape)}" for one in pooled.explanations}
        best = errors.pop(pooled.explanations[0].law)
        rival = errors.get(pooled.laws[0].law, "")
        head = Headline("error out of sample, all rows", best, rival, answer)
    return Document(
        title=QUESTION,
        lead=asked(result),
        opening=[
            head,
            _digest(result) or Lines(verdict[1:], "answer", medium="page"),
            Lines([*verdict[1:], *_next(pooled)], "answer", medium="terminal"),
        ],
        sections=[
            Section(
                "Target against law",
                [drawn, *_pairs(result), *(_charts(result) if plot else ())],
                "deviations",
                "Deviations",
            ),
            Section("Evidence and verdicts", [evidence(result)], "evidence", "Evidence"),
            Section("Class by class", [classes], "classes", "Classes"),
            Section("Rows rejected, and what was taken for what", [lost], "data", "Data"),
        ],
        short=[lines([QUESTION], tone="strong"), lines([asked(result), _in_short(pooled)])],
        data=validation_json(result),
        offer="--out FOLDER writes the page",
    )


def _in_short(pooled: ClassFinding) -> str:
    """Return the verdict on the first law, its error out of sample, and the law or line that errs least."""
    first = pooled.laws[0]
    why = str(first.verdict.why).removeprefix("fails: ")
    sentence = f"{_ANSWERS[first.verdict.outcome]}: {first.law} {why}"
    error = next((one.mape for one in pooled.explanations if one.law == first.law), None)
    if error:
        sentence += f", errs by {_percent(error)}"
    if not pooled.explanations or pooled.explanations[0].law == first.law:
        return f"{sentence}."
    best = pooled.explanations[0]
    return f"{sentence}. Least error: {_percent(best.mape)} by {best.law}."


def _next(pooled: ClassFinding) -> list[Line]:
    """Say what to do next if the first law fails."""
    if pooled.laws[0].verdict.outcome is Outcome.HOLDS:
        return []
    return [Line("Next: flopcast train on the same data learns what no law says.")]


def _digest(result: ValidationResult) -> Table | None:
    """Count, law by law, the classes of each verdict, where they are too many to be named; for pages."""
    pooled, *classes = result.classes
    if sum(finding.judged for finding in classes) <= _NAMED:
        return None
    body = []
    for position, law in enumerate(pooled.laws):
        verdicts = [finding.laws[position].verdict.outcome for finding in classes]
        counts = [(verdicts.count(outcome), tone) for outcome, tone in _TONES.items()]
        body.append(
            Row((law.law, *(Cell(f"{count}", tone if count else "soft") for count, tone in counts)))
        )
    heads = columns("law", numbers=[*map(str, _TONES)])
    caption = "Classes of operator, format and bound, by verdict"
    return Table(heads, body, caption=caption, medium="page")


def _charts(result: ValidationResult) -> tuple[Chart, ...]:
    """Return what a terminal draws: the inlier curve of every law, observed values against those by the best law."""
    data = result.dataset
    errors = {str(law): ape(data.y, data.laws[law]) for law in data.laws}
    if not errors:
        return ()
    best = min(errors, key=lambda law: float(np.nanmean(errors[law])))
    return inlier_chart(errors), agreement_chart(
        data.y, data.laws[best], best, quantity(data.metric).label
    )


def _pairs(result: ValidationResult) -> list[Listing]:
    """List every pair as the figure draws it: measured on both, over what each law says, and where it was read."""
    data = result.dataset
    measured = quantity(data.metric).symbol
    unit = quantity(data.metric).unit
    heads = (
        *columns("workload", "class"),
        Column(f"{measured}_host", "number", unit=unit),
        Column(f"{measured}_target", "number", unit=unit),
        *columns(numbers=[f"/\N{NO-BREAK SPACE}{law}" for law in data.laws]),
        Column("file and line", "place"),
    )
    classes = np.full(len(data.y), "", dtype=object)
    for finding in result.classes[1:]:
        classes[finding.members] = finding.name

    def texts() -> list[list[str]]:
        host = data.rows.get(f"host_{data.metric}", data.rows[HOST_DURATION])
        over = data.laws.rdiv(data.y, axis=0).map(partial(formatted, form="{:.3f}"))
        sources = [""] * len(data.y)
        if "source" in data.rows:
            sources = data.rows["source"].astype(str).tolist()
        return [
            [workload(row) for row in data.rows.to_dict("records")],
            classes.tolist(),
            list(map(figure, host)),
            list(map(figure, data.y)),
            *(over[law].tolist() for law in over),
            sources,
        ]

    folded = f"All {counted(len(data.y), 'pair')} as a table: search, sort, download"
    caption = f"/ law: {measured}_target over what the law says; 1 = the law is right."
    return [Listing(heads, texts, _PAIRS, caption, folded)]


def evidence(result: ValidationResult) -> Table:
    """Return the evidence and the verdict on every law, class by class; classes with too few data come last."""
    body: list[Row] = []
    for finding in sorted(result.classes, key=lambda finding: not finding.judged):
        body += class_rows(finding)
    return Table(COLUMNS, body, caption=legend(result))


def class_rows(finding: ClassFinding) -> list[Row]:
    """Return a class as rows under `COLUMNS`: its name and size, each analytic law, each fitted law."""
    size = (counted(finding.rows, "row"), _grouped(finding), "", "")
    if not finding.judged:
        outcome = finding.laws[0].verdict.outcome
        return [Row((finding.name, *size, Cell(str(outcome), _TONES[outcome])), title=True)]
    part = finding.efficiency
    flops = f"HE {_share(part.host_flops)}→{_share(part.target_flops)}"
    of_peaks = f"{flops}, BW {_share(part.host_bandwidth)}→{_share(part.target_bandwidth)} %"
    soft = [Cell(text, "soft") for text in (*size, of_peaks)]
    body = [Row((finding.name, *soft), title=True)]
    errors = {one.law: one for one in finding.explanations}
    for law in finding.laws:
        error = ""
        if law.law in errors:
            error = _error(errors[law.law])
        verdict = Cell(str(law.verdict.why), _TONES[law.verdict.outcome])
        cells = ("", "", "")
        fitted = law.evidence
        if fitted is not None:
            cells = str(fitted.deviation), str(fitted.slope or "–"), f"{100 * fitted.scatter:.1f} %"
        body.append(Row((f"  {law.law}", *cells, error, verdict)))
    for one in finding.explanations:
        if one.parameters:
            fit = _parameters(one.parameters, quantity(finding.metric))
            body.append(
                Row((f"  {one.law}", "", "", "", Cell(_error(one), "soft"), Cell(fit, "soft")))
            )
    return [*body[:-1], Row(body[-1].cells, title=body[-1].title, ends=True)]


def _grouped(finding: ClassFinding) -> str:
    """Return how many groups a class has, and of how many campaigns where they come in some."""
    groups = counted(finding.groups, "group")
    if finding.campaigns is None:
        return groups
    return f"{groups} of {counted(finding.campaigns, 'campaign')}"


def asked(result: ValidationResult) -> str:
    """Return one line that says of which data the question was asked."""
    data = result.dataset
    host = "host"
    if data.host:
        host = data.host.name
    return (
        f"{host} → {data.target.name}, {quantity(data.metric).label}: "
        f"{counted(len(data.y), 'pair')}, {_grouped(result.classes[0])}, "
        f"margin ±{100 * result.margin:g} %"
    )


def legend(result: ValidationResult) -> str:
    """Return how to read the table."""
    measured = quantity(result.dataset.metric)
    target = f"{measured.symbol}_target"
    law = f"{measured.symbol}_law"
    slope = (
        f"slope: of log {target} on log {law}, cluster-robust; 1 = no dependence on size; tested "
        f"at {ALPHA:.0%}, Holm "
        "over classes. "
    )
    none = (
        f"slope: not asked, {measured.noun} does not grow with the work and would say nothing "
        "about size. "
    )
    return (
        f"median: of {target} / {law}, 1 = the law is right, with its cluster-bootstrap interval; "
        "'holds' = that "
        f"interval lies within the margin. {slope if measured.grows else none}"
        f"scatter: {MOST_ROWS:.0%} of the rows lie within this. E_out: "
        "mean absolute percentage error out of sample, groups held out; * = not distinguishable "
        "from the best. "
        f"Too few data: fewer than {MIN_ROWS} rows, {MIN_GROUPS} groups or campaigns. "
        "HE, BW: median share of the peak FLOPS and of the peak memory bandwidth, host→target."
    )


def summary(result: ValidationResult) -> list[str]:
    """Summarise the evidence: a sentence on all rows, then where each law holds and where it fails."""
    pooled, *classes = result.classes
    judged = [finding for finding in classes if finding.judged]
    lines = [conclusion(pooled)]
    for position, law in enumerate(pooled.laws):
        names: dict[Outcome, list[str]] = {outcome: [] for outcome in Outcome}
        for finding in judged:
            names[finding.laws[position].verdict.outcome].append(finding.name)
        parts = [
            f"{outcome} in {few(classes_of, _NAMED)}"
            for outcome, classes_of in names.items()
            if classes_of
        ]
        lines += [f"{law.law}: {'; '.join(parts)}"] if parts else []
    rows = [finding.rows for finding in classes if not finding.judged]
    if rows:
        lines.append(
            f"too few data: {len(rows)} of {len(classes)} classes, {counted(sum(rows), 'row')}"
        )
    return lines


def conclusion(finding: ClassFinding, *, named: bool = True) -> str:
    """Return one sentence on a class: the verdict on the first law, what holds instead, and what predicts best."""
    first, *others = finding.laws
    sentence = f"{first.law} {first.verdict.why!s}"
    if named:
        sentence = f"{finding.name}: {sentence}"
    if better := [
        law for law in others if _RANK[law.verdict.outcome] > _RANK[first.verdict.outcome]
    ]:
        sentence += "; instead, " + " and ".join(f"{law.law} {law.verdict.why!s}" for law in better)
    if not finding.explanations:
        return f"{sentence}."
    best, *rest = finding.explanations
    fit = ""
    if best.parameters:
        fit = f" ({_parameters(best.parameters, quantity(finding.metric))})"
    sentence += f". Out of sample {best.law}{fit} errs least, by {_percent(best.mape)}"
    equals = [one.law for one in rest if one.as_good_as_best]
    if equals:
        sentence += f", not distinguishable from {', '.join(equals)}"
    return (
        sentence
        + "".join(f"; {one.law} by {_percent(one.mape)}" for one in rest if one.law == first.law)
        + "."
    )


def validation_json(result: ValidationResult) -> JSON:
    """Return the result for machines; keys are stable within a schema, a figure that does not exist is NaN."""
    dataset = result.dataset
    return {
        "schema": SCHEMA,
        "host": dataset.host and dataset.host.name,
        "target": dataset.target.name,
        "metric": dataset.metric,
        "margin": result.margin,
        "alpha": ALPHA,
        "folds": result.folds,
        "bootstrap": {"replicates": result.replicates, "seed": result.seed},
        "data": {
            "pairs": len(dataset.y),
            "groups": len(np.unique(dataset.groups)),
            "campaigns": result.classes[0].campaigns,
            "rejected": result.rejected,
            "pairing": {key: value for key, value in dataset.report.items() if key != "features"},
        },
        "classes": [_class_json(finding) for finding in result.classes],
        "summary": summary(result),
        "notes": [*map(repr, result.notes)],
    }


def _class_json(finding: ClassFinding) -> JSON:
    """Return the finding on a class of rows as JSON types."""
    return {
        **picked(finding, "op", "dtype", "bound", "rows", "groups", "campaigns"),
        "conclusion": conclusion(finding),
        "host_us": {"p5": finding.host_us[0], "p95": finding.host_us[1]},
        "efficiency": vars(finding.efficiency),
        "laws": [_law_json(law) for law in finding.laws],
        "out_of_sample": [
            {
                "law": one.law,
                "e_out": vars(one.mape),
                "as_good_as_best": one.as_good_as_best,
                "parameters": one.parameters,
            }
            for one in finding.explanations
        ],
    }


def _law_json(law: LawFinding) -> JSON:
    """Return the finding on a law in a class of rows as JSON types."""
    return {
        "law": law.law,
        "median_ratio": law.ratio,
        "verdict": str(law.verdict.outcome),
        "text": str(law.verdict.why),
        "evidence": law.evidence
        and {
            **vars(law.evidence),
            "deviation": vars(law.evidence.deviation),
            "slope": law.evidence.slope and vars(law.evidence.slope),
        },
    }


def _error(one: Explanation) -> str:
    return f"{one.mape.value:.1f} %" + ("*" if one.as_good_as_best else " ")


def _share(value: float) -> str:
    if value >= 0.1:
        digits = 0
    elif value >= 0.01:
        digits = 1
    else:
        digits = 2
    if isnan(value):
        return "–"
    return f"{100 * value:.{digits}f}"


def _percent(interval: Interval) -> str:
    return f"{interval.value:.1f} % [{interval.lower:.1f}, {interval.upper:.1f}]"


def _parameters(parameters: dict[str, float], measured: Quantity) -> str:
    host = f"{measured.symbol}_host"
    if "ratio" in parameters:
        return f"{parameters['ratio']:.3g}·{host}"
    return (
        f"{parameters[f'a_{measured.suffix}']:.3g} {measured.unit} + {parameters['b']:.3g}·{host}"
    )


def deviations(result: ValidationResult) -> go.Figure:
    """Return target / law against t_host by class, with the margin and each class's median; one law at a time."""
    laws = [str(name) for name in result.dataset.laws]
    symbol = quantity(result.dataset.metric).symbol
    traces = []
    for law in laws:
        traces += [(law, trace) for trace in _traces(result, law)]
    figure = Drawing([trace.update(visible=law == laws[0]) for law, trace in traces])
    low = 1 / (1 + result.margin)
    high = 1 + result.margin
    figure.add_hrect(
        y0=low,
        y1=high,
        fillcolor="green",
        opacity=0.12,
        line_width=0,
        layer="below",
    )
    figure.add_hline(y=1, line_width=1, line_color="green")
    log_axes(figure, "t_host (µs)", _axis(symbol, laws[0]))
    buttons = []
    for law in laws:
        shown = {"visible": [law == owner for owner, _ in traces]}
        changed = [shown, {"yaxis.title.text": _axis(symbol, law)}]
        buttons.append({"label": law, "method": "update", "args": changed})
    menu = {
        "type": "buttons",
        "direction": "right",
        "x": 0,
        "xanchor": "left",
        "y": 1.02,
        "yanchor": "bottom",
    }
    # The chosen button is nearly white, on dark pages too: its words need a colour that both can
    # bear.
    look = {"bgcolor": "rgba(0,0,0,0)", "bordercolor": GRID, "font": {"color": SELECTED}}
    legend = titled("class (diamond: median)", itemsizing="constant")
    menus = [{**menu, **look, "buttons": buttons}]
    return styled(figure, 720, legend, updatemenus=menus, margin={"t": 70})


def _traces(result: ValidationResult, law: str) -> Iterator[go.Scatter | go.Scattergl]:
    """Yield, for each class, its points and then its median with the interval."""
    data = result.dataset
    host = data.rows[HOST_DURATION].to_numpy(dtype=float)
    deviation = data.y / data.laws[law].to_numpy()
    if "source" in data.rows:
        sources = data.rows["source"].astype(str).map(escape).to_numpy()
    else:
        sources = np.full(len(host), "")
    for index, finding in enumerate(result.classes[1:]):
        rows = finding.members
        colour = _COLOURS[index % len(_COLOURS)]
        symbol = _SYMBOLS[index // len(_COLOURS) % len(_SYMBOLS)]
        shared = {"name": finding.name, "legendgroup": finding.name}
        yield go.Scattergl(
            x=host[rows],
            y=deviation[rows],
            text=sources[rows],
            ids=rows.tolist(),
            hovertemplate="%{x:.4g} µs, %{y:.3f}<br>%{text}",
            **dots(colour, 5, opacity=0.5, symbol=symbol),
            **shared,
        )
        evidence = finding.law(law).evidence
        if evidence is not None:
            c = evidence.deviation
            yield go.Scatter(
                x=[float(np.median(host[rows]))],
                y=[c.value],
                error_y={
                    "type": "data",
                    "array": [c.upper - c.value],
                    "arrayminus": [c.value - c.lower],
                },
                hovertemplate=f"median {c}",
                showlegend=False,
                **dots(colour, 12, symbol="diamond", line={"color": "black", "width": 1}),
                **shared,
            )


def _axis(symbol: str, law: str) -> str:
    return f"{symbol}_target / {symbol} by {law}"


def roofline_figure(result: ValidationResult) -> go.Figure | None:
    """Draw the rate of each workload over its intensity under the roofs of both GPUs; None without work and peaks.

    Roofline: S. Williams, A. Waterman, D. Patterson, Comm. ACM 52 (2009) 65.
    """
    rows = _rates(result)
    if rows is None:
        return None
    figure = Drawing()
    ridges = {side: np.unique(rows[f"ridge.{side}"]) for side, *_ in _sides(result)}
    rows = thinned(rows)
    names = [escape(workload(row)) for row in rows.to_dict("records")]
    for side, gpu, colour in _sides(result):
        figure.add_scattergl(
            x=rows["intensity"],
            y=rows[f"tflops.{side}"],
            name=escape(gpu.name),
            text=names,
            hovertemplate="%{text}<br>%{x:.4~g} FLOP/byte, %{y:.4~g} TFLOP/s",
            **dots(colour, 5, opacity=0.5),
        )
        bandwidth = float(gpu.memory_bw_gbs or 0) / 1e3
        for ridge in ridges[side]:
            ends = np.unique([rows["intensity"].min(), ridge, rows["intensity"].max()])
            figure.add_scatter(
                x=ends,
                y=np.minimum(ends, ridge) * bandwidth,
                name=f"roof of {escape(gpu.name)}",
                hovertemplate="%{y:.4~g} TFLOP/s",
                showlegend=False,
                **stroke(colour, 1.5),
            )
    log_axes(figure, "FLOP per byte", "TFLOP/s")
    return styled(figure, 520, legend=ABOVE)


def efficiency_figure(result: ValidationResult) -> go.Figure | None:
    """Draw how much of its roofline each GPU reaches, by group and work: medians; None without work and peaks.

    Linear scaling takes for granted that both halves look the same.
    """
    rows = _rates(result)
    if rows is None:
        return None
    rows = rows.assign(
        group=np.asarray(result.dataset.groups)[rows["place"]].astype(str),
        octave=np.floor(rows["log2.flops"]).astype(int),
    )
    groups = sorted(rows["group"].value_counts().head(_GROUPS).index, reverse=True)
    octaves = range(rows["octave"].min(), rows["octave"].max() + 1)
    titles = [escape(gpu.name) for _, gpu, _ in _sides(result)]
    figure = make_subplots(
        rows=1, cols=2, shared_yaxes=True, subplot_titles=titles, horizontal_spacing=0.03
    )
    for column, (side, _, _) in enumerate(_sides(result), 1):
        share = rows.pivot_table(f"share.{side}", "group", "octave", "median").reindex(
            groups, columns=octaves
        )
        figure.add_heatmap(
            z=100 * share,
            x=share.columns,
            y=list(map(escape, groups)),
            coloraxis="coloraxis",
            hoverongaps=False,
            hovertemplate="%{y}<br>2<sup>%{x}</sup> FLOP: %{z:.3~g} %<extra></extra>",
            row=1,
            col=column,
        )
    figure.update_xaxes(title="log2 FLOP")
    scale = {"colorscale": "Viridis", "cmin": 0, "colorbar": {"title": "% of the roof"}}
    height = max(320, 22 * len(groups) + 120)
    return styled(
        figure, height, legend={}, coloraxis=scale, yaxis={"automargin": True}, margin={"l": 16}
    )


def _sides(result: ValidationResult) -> Iterator[tuple[str, GPU, str]]:
    for side, colour in (("host", BASELINE), ("target", SELECTED)):
        gpu = getattr(result.dataset, side)
        if gpu is not None:
            yield side, gpu, colour


def _rates(result: ValidationResult) -> pd.DataFrame | None:
    """Return workloads with intensity, rates and the share of the roofline on both GPUs, without rows that lack one."""
    data = result.dataset
    sides = product(("ridge", "roofline"), ("host", "target"))
    both = [f"log2.{name}.{side}" for name, side in sides]
    needed = ["log2.flops", "log2.intensity", *both]
    times = {"host": data.rows[HOST_DURATION].to_numpy(dtype=float), "target": data.y}
    if data.metric != "duration_us" or not {*needed} <= {*data.X}:
        return None
    rates = data.rows.reset_index(drop=True)
    rates[needed] = data.X[needed].to_numpy()
    rates["place"], rates["intensity"] = np.arange(len(rates)), np.exp2(rates["log2.intensity"])
    for side, time in times.items():
        # the feature is how far the intensity lies above that from which on arithmetic bounds
        rates[f"ridge.{side}"] = np.exp2(
            rates["log2.intensity"] - rates[f"log2.ridge.{side}"]
        ).round(6)
        rates[f"tflops.{side}"] = np.exp2(rates["log2.flops"]) / time / 1e6
        rates[f"share.{side}"] = np.exp2(rates[f"log2.roofline.{side}"]) / time
    rates = rates.dropna(subset=["intensity", "share.host", "share.target"])
    if rates.empty:
        return None
    return rates.sort_values(by="log2.flops", kind="stable")

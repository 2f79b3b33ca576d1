"""What `scale` says of performance at other sizes, as documents: predicted, configured, measured, published."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import replace
from functools import cache, partial
from html import escape
from itertools import chain, product
from typing import Any, Final

import numpy as np
import pandas as pd
import plotly.graph_objects as go
from plotly.subplots import make_subplots

from ..evaluation.linear_scaling import ValidationResult
from ..evaluation.metrics import mean_least_most
from ..evaluation.verdicts import Outcome, too_few
from ..hardware import FIGURES, GPU, PEAKS
from ..hardware.scaled import PRIVATE, SHARED, WHOLE
from ..output import SCHEMA
from ..scaling.curves import Curve, CurveTable, published_curves
from ..scaling.devices import CU_LAW, FAMILY, LEVEL, DeviceScaling, DeviceSizes, FamilyScaling
from ..scaling.prediction import (
    BenchmarkPrediction,
    LawPrediction,
    LawSummary,
    SizePredictions,
    error_percent,
    predict_sizes,
    summarise,
)
from ..scaling.scale_models import LearnedScaleModel
from ..scaling.scaling_class import MARGIN, Growth, classify
from ..scaling.trials import (
    EQUATIONS,
    EXPLANATIONS,
    PREDICTORS,
    benchmark_errors,
    simulation_speedups,
)
from .document import (
    JSON,
    Cell,
    Column,
    Document,
    Figure,
    Headline,
    Lines,
    Row,
    Section,
    Table,
    Tone,
    columns,
    lines,
    losses,
    picked,
    records,
    remarked,
    rows,
)
from .figures import BASELINE, NEUTRAL, OTHERS, SELECTED, cycled, dots, panels, stroke
from .formats import counted, figure, formatted, percent, share
from .layouts import laid_out
from .reference import MISSING, gpus_json
from .static_figures import Drawing
from .validation import conclusion, summary, validation_json

# how many a remark names; more are counted
NAMED_BENCHMARKS = 4
NAMED_LAWS = 3
# errors in % below the first are shown as good, above the second as poor
GOOD = 5.0
POOR = 20.0
COLUMNS_OF_PANELS: Final = 3
_HEADLINES: Final = 4  # answers in the first screen
PANEL: Final = 250  # height of a row of panels, pixels
_BAND: Final = "rgba(28,131,198,0.18)"


def predictions_document(result: SizePredictions) -> Document:
    """Return the predictions of the laws for each benchmark, their errors, and the remarks."""
    lead = leading(result)
    reading = (
        f"Grey: measured (filled: fitted to). Blue: {lead}, with its {100 * result.level:g} % "
        "interval. Other laws are "
        "a click on the legend away."
    )
    curves = Figure(partial(prediction_figure, result, lead), "Performance, both axes logarithmic")
    per_unit = Figure(
        partial(prediction_figure, result, lead, per_unit=True),
        "Performance per unit of size, against that of the smallest size fitted; flat at 1 is "
        "linear scaling",
    )
    described = chain.from_iterable(map(description, result.benchmarks))
    parts = [
        prediction_table(result),
        lines(described, "answer", medium="terminal"),
        *_benchmarks(result),
    ]
    return Document(
        title="Performance over size",
        lead=f"fitted to sizes {_listed(result.fit)}; predicted at {_listed(result.targets)}",
        opening=list(_headlines(result, lead))[:_HEADLINES],
        sections=[
            Section(
                "Measured and predicted",
                [lines([reading], medium="page"), curves, per_unit],
                "curves",
                "Curves",
            ),
            Section("Errors of the laws", [_errors(result)], "laws", "Laws"),
            Section("Benchmark by benchmark", parts, "benchmarks", "Benchmarks"),
            Section("Remarks", [Lines(remarked(remarks(result)), "list")]),
        ],
        closing=[summary_table(summarise(result), result.level)],
        data=predictions_json(result),
    )


def _headlines(result: SizePredictions, lead: str) -> Iterator[Headline]:
    """Yield the error of the leading law beside the best simple law's; without measured targets, its predictions."""
    summaries = summarise(result)
    for mine in summaries:
        if mine.law == lead and mine.benchmarks:
            rival = simplest(
                one
                for one in summaries
                if (one.scenario, one.target) == (mine.scenario, mine.target)
            )
            yield headline(mine, None if rival is mine else rival)
    for one in result.benchmarks if not summaries else ():
        for law in (law for law in one.laws if law.law == lead and not law.failed):
            predicted, lower, upper = law.at(result.targets[-1])
            about = f"{one.curve.name}, size {result.targets[-1]:g}"
            beneath = f"by the {lead}, {100 * result.level:g} % interval {_interval(lower, upper)}"
            yield Headline(about, _figure(predicted), beneath=f"{beneath}; {one.scaling}")


def simplest(summaries: Iterable[LawSummary]) -> LawSummary | None:
    """Return the law with the least average error among those that are no scale models."""
    simple = [one for one in summaries if one.benchmarks and not one.law.startswith("scale model")]
    return min(simple, key=lambda one: one.average, default=None)


def headline(summary: LawSummary, rival: LawSummary | None, beneath: str = "") -> Headline:
    """Return a law's error at one size as the answer of a page, beside the best simple law's."""
    about = (
        f"{summary.scenario}, size {summary.target:g}: mean error over "
        f"{counted(summary.benchmarks, 'benchmark')}"
    )
    second = ""
    if rival is not None:
        second = f"{rival.law}: {percent(rival.average)}"
    largest = f"At most {percent(summary.maximum)}" + (
        "" if rival is None else f" ({rival.law}: {percent(rival.maximum)})"
    )
    held = ""
    if np.isfinite(summary.coverage):
        held = f"; {share(summary.coverage, 0)} lie in their intervals"
    return Headline(
        about, f"{summary.law}: {percent(summary.average)}", second, f"{largest}{held}.{beneath}"
    )


def prediction_table(result: SizePredictions) -> Table:
    """Return what each law predicts for each benchmark, with its interval and, where measured, its error."""
    level = f"{100 * result.level:g} %"
    title = (
        f"Predicted from {_sizes(result.fit)}; intervals of {level}; error of what was measured, %"
    )
    pairs = product(result.benchmarks, result.targets)
    compared = any(one.curve.measured_at(target) for one, target in pairs)
    heads = []
    for size in result.targets:
        heads.extend((f"at {size:g}", level, *(["error"] if compared else [])))
    body: list[Row] = []
    lead = leading(result)
    for one in result.benchmarks:
        # that of the headline is never cut
        laws = sorted(one.laws, key=lambda law: law.law != lead)
        measured = [one.curve.measured_at(target) for target in result.targets]
        facts = []
        for time in measured:
            facts.extend((_figure(time), "measured" if time else "", "")[: 2 + compared])
        body.append(Row((one.curve.name, *(Cell(text, "strong") for text in facts)), title=True))
        for law in laws:
            cells: list[str | Cell] = []
            for target, value in zip(result.targets, measured, strict=True):
                fitted: tuple[str | Cell, ...] = Cell("no fit", "error"), "", ""
                if not law.failed:
                    predicted, lower, upper = law.at(target)
                    error = np.nan
                    if value is not None:
                        error = error_percent(predicted, value)
                    tone: Tone = "good" if error < GOOD else "error" if error > POOR else ""
                    missed = Cell(formatted(error, "{:.1f}"), tone)
                    fitted = (
                        _figure(predicted),
                        _interval(lower, upper),
                        "" if value is None else missed,
                    )
                cells += fitted[: 2 + compared]
            body.append(Row((f"  {law.law}", *cells), ends=law is laws[-1]))
    every = (Column("benchmark / law", "name"), *(Column(head, "number") for head in heads))
    return Table(every, body, title, medium="terminal")


def summary_table(
    summaries: Sequence[LawSummary], level: float, title: str = "Errors over the benchmarks, %"
) -> Table:
    """Return how the laws did over the benchmarks, one row per law and target; the best average stands out."""
    numbers = ["at", "benchmarks", "average", "max", f"in {100 * level:g} % interval"]
    ranked: list[Row] = []
    for scenario, target in dict.fromkeys((one.scenario, one.target) for one in summaries):
        group = [one for one in summaries if (one.scenario, one.target) == (scenario, target)]
        best = min((one.average for one in group if one.benchmarks), default=np.nan)
        for one in group:
            cells = (scenario, one.law, f"{target:g}", *summary_figures(one))
            ranked.append(
                Row(cells, "strong" if one.average == best else "", ends=one is group[-1])
            )
    return Table(columns("scenario", "law", numbers=numbers), ranked, title)


def summary_figures(one: LawSummary) -> tuple[str, str, str, str]:
    """Return how many benchmarks, the average and the largest error, and the share within the intervals."""
    count = f"{one.benchmarks}" + (f" (+{one.failed} not fitted)" if one.failed else "")
    return count, _percent(one.average), _percent(one.maximum), share(one.coverage, 0)


def _errors(result: SizePredictions) -> Table | Lines:
    """Return the errors of the laws for a page, or why there are none."""
    summaries = summarise(result)
    if summaries:
        return replace(summary_table(summaries, result.level), medium="page")
    return lines(["No target was measured, so there are no errors to show."], medium="page")


def _benchmarks(result: SizePredictions) -> Iterator[Lines | Table]:
    """Yield for a page what is said of each benchmark, and its predictions folded away."""
    heads = columns("law", numbers=("at", "predicted", "lower", "upper", "measured", "error, %"))
    for one in result.benchmarks:
        cells: list[tuple[str, ...]] = []
        for law, target in product(one.laws, result.targets):
            if law.failed:
                cells.append((law.law, f"{target:g}", "no fit", "", "", "", ""))
                continue
            measured = one.curve.measured_at(target)
            figures = [formatted(value, "{:.5g}") for value in law.at(target)]
            facts = ["", ""]
            if measured is not None:
                error = error_percent(law.at(target)[0], measured)
                facts = [f"{measured:.5g}", _percent(error)]
            cells.append((law.law, f"{target:g}", *figures, *facts))
        yield lines(description(one), "list", medium="page")
        yield Table(heads, rows(cells), folded=f"Predictions for {one.curve.name}", medium="page")


def description(one: BenchmarkPrediction) -> Iterator[str]:
    """Yield the class, cliffs and simulation cost of a benchmark."""
    name = one.curve.name
    yield f"{name}: {one.scaling}"
    if one.cliffs is None:
        yield f"{name}: no miss rates given, so cliffs cannot be seen"
    for words in (str(cliff) for cliff in one.cliffs or () if cliff not in one.scaling.cliffs):
        yield f"{name}: {words}"
    if one.costs:
        times = "; ".join(
            f"{cost.speedup:.1f} times faster than size {cost.target:g} ({cost.target_s:,.0f} s), "
            "side by side "
            f"{cost.parallel_speedup:.1f} times"
            for cost in one.costs
        )
        yield f"{name}: simulating the scale models takes {one.costs[0].together_s:,.0f} s: {times}"


def remarks(result: SizePredictions) -> list[str]:
    """Return the remarks and the laws that failed, each once, with the benchmarks where it is not about all."""
    about: dict[str, list[str]] = {}
    for one in result.benchmarks:
        failures = [f"{law.law} cannot be fitted: {law.failed}" for law in one.laws if law.failed]
        noted = []
        for note, laws in one.notes.items():  # who says it goes without saying where all laws do
            if len(laws) <= NAMED_LAWS:
                few_laws = ", ".join(laws)
            else:
                few_laws = f"{len(laws)} of {one.fitted} laws"
            noted.append(repr(note) if len(laws) == one.fitted else f"{few_laws}: {note!r}")
        for words in dict.fromkeys([*noted, *failures, *_missing(one, result)]):
            about.setdefault(words, []).append(one.curve.name)
    said = []
    every = len(result.benchmarks)
    for words, names in about.items():
        if len(names) <= NAMED_BENCHMARKS:
            few_names = ", ".join(names)
        else:
            few_names = f"{len(names)} of {every} benchmarks"
        said.append(words if len(names) == every else f"{few_names}: {words}")
    costs = (
        f"simulating the scale models of all {one['benchmarks']} timed benchmarks "
        f"({one['scenario']}) takes "
        f"{one['together_s']:,.0f} s, size {one['target']:g} {one['target_s']:,.0f} s: "
        f"{one['mean']:.2f} times "
        f"faster on average of the benchmarks ({one['least']:.2f} to {one['most']:.2f})"
        for one in _speedups(result)
    )
    return [*map(repr, result.notes), *said, *costs]


def _missing(one: BenchmarkPrediction, result: SizePredictions) -> Iterator[str]:
    """Yield why laws that were fitted give no prediction at a size, or no interval: a dash stands there."""
    for target in result.targets:
        unpredicted = list[str]()
        unbounded = list[str]()
        for law in one.laws:
            if law.failed:
                continue
            predicted, *bounds = law.at(target)
            if not np.isfinite(predicted):
                unpredicted.append(law.law)
            elif not np.isfinite(bounds).all():
                unbounded.append(law.law)
        if unpredicted:
            names = ", ".join(unpredicted)
            yield (
                f"{names}: no prediction at {target:g}, where the law gives no positive, finite "
                "number"
            )
        if unbounded:
            yield (
                f"{', '.join(unbounded)}: no interval at {target:g}, too far from the sizes "
                "fitted: errors of other "
                "benchmarks bound nothing there, fit larger sizes"
            )


def _speedups(result: SizePredictions) -> list[JSON]:
    """Return, per scenario and target, how many times faster the scale models are simulated: mean, least and most."""
    speedups = []
    for scenario in dict.fromkeys(one.curve.scenario for one in result.benchmarks):
        costs_of = [one.costs for one in result.benchmarks if one.curve.scenario == scenario]
        for target in result.targets:
            costs = [cost for cost in chain(*costs_of) if cost.target == target]
            if len(costs) > 1:
                speedups.append(
                    {
                        "scenario": scenario,
                        "target": target,
                        "benchmarks": len(costs),
                        "together_s": sum(cost.together_s for cost in costs),
                        "target_s": sum(cost.target_s for cost in costs),
                        **mean_least_most([cost.speedup for cost in costs]),
                    }
                )
    return speedups


def predictions_json(result: SizePredictions) -> JSON:
    """Return the predictions for machines; a figure that does not exist is NaN."""
    return {
        "schema": SCHEMA,
        "fit": list(result.fit),
        "targets": list(result.targets),
        "level": result.level,
        "benchmarks": [_benchmark_json(one, result.targets) for one in result.benchmarks],
        "laws": [vars(one) for one in summarise(result)],
        "simulation_speedups": _speedups(result),
        "notes": remarks(result),
    }


def _benchmark_json(one: BenchmarkPrediction, targets: Sequence[float]) -> JSON:
    curve = one.curve
    scaling = one.scaling
    cliffs = None
    if one.cliffs is not None:
        cliffs = [*map(str, one.cliffs)]
    return {
        **picked(
            curve,
            "benchmark",
            "scenario",
            "unit",
            "sizes",
            "performance",
            "mpki",
            "mpki_sizes",
            "f_mem",
            "l2_mpki",
            "f_l2",
        ),
        "class": {
            "kind": str(scaling.growth),
            "exponent": scaling.exponent,
            "interval": list(scaling.interval),
            "p_value": scaling.p_value,
            "words": str(scaling),
        },
        "cliffs": cliffs,
        "simulation": [
            {**vars(cost), "speedup": cost.speedup, "parallel_speedup": cost.parallel_speedup}
            for cost in one.costs
        ],
        "predictions": [
            _law_json(law, curve.measured_at(size), size)
            for law, size in product(one.laws, targets)
        ],
    }


def _law_json(law: LawPrediction, measured: float | None, target: float) -> JSON:
    predicted, lower, upper = law.at(target)
    error = np.nan
    if measured is not None:
        error = error_percent(predicted, measured)
    return {
        "law": law.law,
        "size": target,
        "predicted": predicted,
        "lower": lower,
        "upper": upper,
        "measured": measured,
        "error_percent": error,
        "failed": law.failed or None,
        "notes": [*map(repr, law.notes)],
    }


# Scale models of a GPU: what its scaled copies share, and what each of their compute units keeps.

BROKEN: Final = "not whole"  # of a count whose share is no whole number: half a chiplet
_PEAKS: Final = ("fp64_matrix", "fp32_vector", "fp16_matrix", "bf16_matrix", "fp8_matrix")
_CACHES: Final = ("l2_mb", "llc_mb", "llc_bw_gbs", "noc_bw_gbs")
_OTHERS: Final = ("memory_bw_gbs", "memory_gb", "link_bw_gbs")
_OWN: Final = ("wavefront", "boost_mhz")
_CAPTION: Final = (
    "×: shared by all compute units, or theirs together, in proportion to their number; =: as in "
    "the whole GPU. The "
    "last-level cache's bandwidth bounds what the network on chip carries to it. Peaks are dense."
)


def configurations_document(models: Sequence[GPU], base: GPU) -> Document:
    """Return the scale models of a GPU side by side, the smallest first; its data are GPUs as ``gpus`` gives them."""
    heads = columns("resource", "unit", "", numbers=[f"{model.cus} CUs" for model in models])
    peaks = [key for key in _PEAKS if key in base.peaks]
    every = [
        *_figures(models, base, WHOLE, "×"),
        *_figures(
            models,
            base,
            peaks,
            "×",
            PEAKS,
            lambda gpu, key: gpu.peaks.get(key),
        ),
        *_figures(models, base, _CACHES, "×"),
        *_figures(models, base, _OTHERS, "×"),
        *_figures(models, base, _OWN, "="),
    ]
    data = {
        **gpus_json(models),
        "schema": 1,
        "base": base.name,
        "shared": list(SHARED),
        "same": list(PRIVATE),
    }
    return Document(
        opening=[Table(heads, every, f"Scale models of {base.name}", _CAPTION)], data=data
    )


def _figures(
    models: Sequence[GPU],
    base: GPU,
    keys: Sequence[str],
    how: str,
    declared: Mapping[str, Any] = FIGURES,
    of: Callable[[GPU, str], float | None] = getattr,
) -> Iterator[Row]:
    """Yield a row for each figure, with how it is scaled."""
    for key in keys:
        values = [_or_why(of(model, key), of(base, key)) for model in models]
        yield Row((declared[key].label, declared[key].unit, how, *values))


def _or_why(value: float | None, whole: float | None) -> str | Cell:
    """Return a figure, or the reason why there is none."""
    if value is None:
        return Cell(MISSING if whole is None else BROKEN, "soft")
    return f"{value:,.5g}"


# Figures of predictions.


def leading(result: SizePredictions) -> str:
    """Return the law to show first: the learned scale model, where it was fitted, else the first with an interval.

    It is not chosen by its errors here, which nobody would know beforehand.
    """
    laws = chain.from_iterable(one.laws for one in result.benchmarks)
    fitted = [law for law in laws if not law.failed]
    if any(law.law == LearnedScaleModel.name for law in fitted):
        return LearnedScaleModel.name
    return next((law.law for law in fitted if np.isfinite(law.lower).any()), result.names[0])


def prediction_figure(result: SizePredictions, lead: str, *, per_unit: bool = False) -> go.Figure:
    """Return a panel per benchmark: what was measured, the leading law with its interval, and the others to choose."""
    names = [one.curve.name for one in result.benchmarks]
    columns = min(COLUMNS_OF_PANELS, len(names))
    rows = -(-len(names) // columns)
    shown: set[str | None] = set()
    figure = make_subplots(
        rows=rows,
        cols=columns,
        subplot_titles=[escape(name) for name in names],
        vertical_spacing=min(0.16, 0.35 / rows),
        horizontal_spacing=0.06,
    )
    for place, one in enumerate(result.benchmarks):
        at = {"row": place // columns + 1, "col": place % columns + 1}
        for trace in _panel(one, result, lead, per_unit):
            named = trace.name is not None and trace.name not in shown
            figure.add_trace(trace.update(showlegend=named), **at)
            shown.add(trace.name)
        ticks = sorted({*one.curve.sizes.tolist(), *result.targets})
        figure.update_xaxes(tickvals=ticks, ticktext=[f"{size:g}" for size in ticks], **at)
        if place + columns >= len(names):
            figure.update_xaxes(title_text=f"{escape(one.curve.unit)}s", **at)
    performance = "performance"
    if per_unit:
        performance = "performance per unit"
    figure.update_yaxes(title={"text": performance, "standoff": 6}, automargin=True, col=1)
    figure.update_xaxes(type="log")
    figure.update_yaxes(type="linear" if per_unit else "log")
    return panels(figure, max(rows, 2 if len(names) == 1 else 1) * PANEL + 90)


def _panel(
    one: BenchmarkPrediction, result: SizePredictions, lead: str, per_unit: bool
) -> Iterator[go.Scatter]:
    """Yield the curves of one benchmark."""
    start = float(result.fit[0])
    base = one.curve.measured_at(start)
    assert base is not None

    def drawn(sizes: np.ndarray, values: np.ndarray) -> list[float]:
        return (values / sizes * start / base if per_unit else values).tolist()

    for index, law in enumerate(law for law in one.laws if law.law != lead and not law.failed):
        line = {**cycled(index, (BASELINE, *OTHERS)), "width": 1.5}
        yield _curve(law, drawn(law.sizes, law.predicted), line, hidden=True)
    for law in one.laws:
        if law.law == lead and not law.failed:
            if np.isfinite(law.lower).all():
                yield go.Scatter(  # the interval as one outline: along the upper bound and back along the lower
                    x=[*law.sizes.tolist(), *law.sizes[::-1].tolist()],
                    y=[*drawn(law.sizes, law.upper), *drawn(law.sizes, law.lower)[::-1]],
                    fill="toself",
                    fillcolor=_BAND,
                    line={"width": 0},
                    mode="lines",
                    legendgroup=law.law,
                    hoverinfo="skip",
                )
            yield _curve(law, drawn(law.sizes, law.predicted), {"color": SELECTED, "width": 3})
    # filled: fitted to
    symbols = ["circle" if size in result.fit else "circle-open" for size in one.curve.sizes]
    yield go.Scatter(
        name="measured",
        legendgroup="measured",
        x=one.curve.sizes.tolist(),
        y=drawn(one.curve.sizes, one.curve.performance),
        hovertemplate="%{y:.4~g} at %{x}<extra>measured</extra>",
        **dots(NEUTRAL, 9, symbol=symbols, line={"width": 2}),
    )


def _curve(
    law: LawPrediction,
    y: list[float],
    line: dict[str, Any],
    hidden: bool = False,
) -> go.Scatter:
    visible = True
    if hidden:
        visible = "legendonly"
    return go.Scatter(
        name=escape(law.law),
        legendgroup=law.law,
        x=law.sizes.tolist(),
        y=y,
        mode="lines",
        line=line,
        visible=visible,
        hovertemplate=f"%{{y:.4~g}} at %{{x}}<extra>{escape(law.law)}</extra>",
    )


def _figure(value: float | None) -> str:
    if value is None or not np.isfinite(value):
        return ""
    return figure(value)


def _interval(lower: float, upper: float) -> str:
    if np.isfinite(lower) and np.isfinite(upper):
        return f"[{_figure(lower)}, {_figure(upper)}]"
    return "–"


def _percent(value: float | None) -> str:
    return formatted(value, "{:.2f}")


def _listed(sizes: Sequence[float]) -> str:
    return ", ".join(f"{size:g}" for size in sizes)


def _sizes(sizes: Sequence[float]) -> str:
    return " and ".join(filter(None, (_listed(sizes[:-1]), f"{sizes[-1]:g}")))


COLUMNS: Final = (
    *columns(
        "family",
        numbers=("problems", "groups", f"exponent [{100 * LEVEL:g} %]", "5 to 95 % of problems"),
    ),
    Column("scaling", "prose"),
)
_LEGEND: Final = (
    "exponent: performance (1 / time) grows with size to this power, 1 = linear; the median over "
    "problems with its "
    f"cluster-bootstrap interval. linear: the interval of {200 * LEVEL - 100:g} % within 1 ± "
    f"{MARGIN:g}; "
    f"sub-linear, super-linear: that of {100 * LEVEL:g} % all below or above 1."
)
_TONES: Final[dict[Growth, Tone]] = {
    Growth.LINEAR: "good",
    Growth.SUB: "error",
    Growth.SUPER: "accent",
    Growth.UNDECIDED: "warning",
    Growth.TOO_FEW: "soft",
}


def rows_document(frame: pd.DataFrame) -> Document:
    """Return rows of curves that were taken out of counters or a trace, for terminal and machines."""
    names = [
        name
        for name in ("performance", "ipc", "mpki", "l2_mpki", "f_mem")
        if name in frame and frame[name].notna().any()
    ]
    cells = []
    for row in frame.to_dict("records"):
        cells.append(
            (str(row["benchmark"]), figure(row["size"]), *(figure(row[name]) for name in names))
        )
    table = Table(
        columns("benchmark", numbers=("size", *names)), rows(cells), "rows for scale predict"
    )
    return Document(
        sections=[Section("Rows", [table])],
        closing=[losses(frame.attrs.get("rejected", {}))],
        data={"schema": SCHEMA, "rows": records(frame[["benchmark", "size", *names]])},
    )


def devices_document(result: DeviceScaling) -> Document:
    """Return the families, the verdict on linear scaling from the smallest device to others, and the data's limits."""
    measured = result.measured
    names = ", ".join(
        f"{one.name} ({size:g})" for one, size in zip(measured.devices, measured.sizes, strict=True)
    )
    families = Table(
        COLUMNS,
        [family_row(one) for one in result.families],
        caption=_LEGEND,
    )
    exponents = "Exponent of every problem, and the median of its family with its interval"
    curves = Figure(
        partial(problem_figure, measured), "Performance against that on the smallest device"
    )
    verdicts = lines(chain.from_iterable(map(verdict_lines, result.verdicts)), "answer")
    remarks = Lines(remarked((*result.limits, *result.notes)), "list")
    return Document(
        title="Performance over size, measured",
        lead=f"{names}; {len(measured.rows)} problems measured on all",
        sections=[
            Section(
                "How each kernel family scales",
                [families, Figure(partial(family_figure, result), exponents)],
                "families",
                "Families",
            ),
            Section("Problem by problem", [curves], "problems", "Problems"),
            Section(
                "Is time inversely proportional to size?", [verdicts], "linear", "Linear scaling"
            ),
            Section("What these data cannot show, and remarks", [remarks], "remarks", "Remarks"),
        ],
        data=devices_json(result),
    )


def family_row(one: FamilyScaling) -> Row:
    """Return a family under `COLUMNS`: exponent, interval, spread over problems and the class."""
    spread = f"{one.spread[0]:.2f} to {one.spread[1]:.2f}"
    if one.growth is Growth.TOO_FEW:
        words = family_words(one)
    else:
        words = str(one.growth)
    counts = str(one.problems), str(one.groups)
    if np.isnan(one.exponent.lower):
        exponent = f"{one.exponent.value:.2f}"
    else:
        exponent = str(one.exponent)
    return Row((one.name, *counts, exponent, spread, Cell(words, _TONES[one.growth])))


def family_words(one: FamilyScaling) -> str:
    """Return how a family scales, or why nothing can be said."""
    few = too_few(one.problems, one.groups)
    if few:
        return str(few.why)
    return f"{one.growth}: performance grows with size to the power {one.exponent}"


def verdict_lines(verdict: ValidationResult) -> list[str]:
    """Return what `validate` says of linear scaling over size: of all rows, then where it holds and where it fails."""
    pooled, *lines = summary(verdict)
    host = verdict.dataset.host
    names = f"{host.name if host else 'host'} → {verdict.dataset.target.name}"
    return [
        f"{names}, {pooled}",
        *(line for line in lines if line.startswith((CU_LAW, Outcome.TOO_FEW.value))),
    ]


def devices_json(result: DeviceScaling) -> JSON:
    """Return the same for machines, problem by problem; a figure that does not exist is NaN."""
    return {
        "schema": 1,
        "devices": [one.name for one in result.measured.devices],
        "sizes": result.measured.sizes,
        "families": [
            {
                **picked(one, "op", "family", "dtype", "problems", "groups"),
                "exponent": vars(one.exponent),
                "spread": list(one.spread),
                "class": str(one.growth),
                "words": family_words(one),
            }
            for one in result.families
        ],
        "problems": problems(result.measured),
        "linear": [validation_json(verdict) for verdict in result.verdicts],
        "conclusions": [conclusion(verdict.classes[0]) for verdict in result.verdicts],
        "notes": [*map(repr, (*result.limits, *result.notes))],
    }


def problems(measured: DeviceSizes) -> list[JSON]:
    """Return each problem with its times and its exponent."""
    rows = measured.rows
    if "source" in rows:
        sources = rows["source"].astype(str)
    else:
        sources = [""] * len(rows)
    return [
        {
            "op": str(op),
            "group": str(group),
            "source": source,
            "times_us": times,
            "exponent": float(exponent),
        }
        for op, group, source, times, exponent in zip(
            rows["op"], measured.groups, sources, measured.times_us, measured.exponents, strict=True
        )
    ]


def family_figure(result: DeviceScaling) -> go.Figure:
    """Return the exponent of each problem, family by family, with the median and its interval."""
    keys = result.measured.rows.reindex(columns=FAMILY).fillna("").astype(str)
    exponents = result.measured.exponents
    figure = Drawing()
    for place, one in enumerate(result.families):
        of = keys.eq([one.op, one.family, one.dtype]).all(axis=1).to_numpy()
        spread = place + 0.5 * (np.linspace(0, 1, int(of.sum())) - 0.5)
        figure.add_scatter(
            x=exponents[of].tolist(),
            y=spread.tolist(),
            name=one.name,
            **dots(NEUTRAL, 5, opacity=0.5),
        )
        value = one.exponent.value
        lower = one.exponent.lower
        upper = one.exponent.upper
        bars = {
            "type": "data",
            "array": [upper - value],
            "arrayminus": [value - lower],
            "thickness": 3,
        }
        median = dots(SELECTED, 11, symbol="diamond")
        error = None
        if np.isfinite(lower):
            error = bars
        figure.add_scatter(
            x=[value],
            y=[place],
            error_x=error,
            name=one.name,
            **median,
        )
    figure.add_vline(x=1, line={"color": BASELINE, "width": 1})
    names = [escape(one.name) for one in result.families]
    figure.update_yaxes(
        tickvals=list(range(len(names))), ticktext=names, autorange="reversed", automargin=True
    )
    low, high = np.quantile(exponents, [0.01, 0.99])  # a few wild problems would hide all others
    shown = [min(0.0, float(low)) - 0.1, max(1.2, float(high)) + 0.1]
    figure.update_xaxes(title_text="exponent of performance over size; 1: linear", range=shown)
    return panels(figure, 110 + 34 * len(names)).update_layout(showlegend=False)


def problem_figure(measured: DeviceSizes) -> go.Figure:
    """Return a curve per problem, operator by operator, and the line of linear scaling."""
    figure = Drawing()
    # (n, d), performance against the smallest device
    relative = measured.times_us[:, :1] / measured.times_us
    for index, (op, of_op) in enumerate(measured.rows.groupby("op", sort=True).indices.items()):
        x = np.tile([*measured.sizes, np.nan], len(of_op))
        y = np.hstack([relative[of_op], np.full((len(of_op), 1), np.nan)]).ravel()
        line = {**cycled(index, (SELECTED, *OTHERS)), "width": 1}
        figure.add_scatter(
            name=escape(str(op)), x=x.tolist(), y=y.tolist(), mode="lines", line=line, opacity=0.6
        )
    ends = measured.sizes.tolist()
    linear = stroke(BASELINE, 2, dash="dash")
    figure.add_scatter(
        name="linear",
        x=ends,
        y=[size / ends[0] for size in ends],
        **linear,
    )
    figure.update_xaxes(
        type="log",
        tickvals=ends,
        ticktext=[f"{size:g}" for size in ends],
        title_text="compute units",
    )
    figure.update_yaxes(type="log", title_text="performance against the smallest")
    return panels(figure, 480)


_COLOURS: Final = (SELECTED, BASELINE, *OTHERS)
_PREDICTED: Final = {
    "strong": ((8.0, 16.0), 128.0),
    "weak": ((8.0, 16.0), 128.0),
    "chiplets": ((4.0, 8.0), 16.0),
}
"""Scenario -> sizes fitted to and size predicted of the panels by benchmark."""


def published_document(published: pd.DataFrame, trials: pd.DataFrame) -> Document:
    """Return the published results reproduced (`scaling.trials.reproduction`), and `published_trials` of every law."""
    explained = published.assign(explanation=published["explanation"].map(EXPLANATIONS))
    speedups = simulation_speedups()
    tables = {"published": explained, "trials": trials, "simulation_speedups": speedups}
    printed = []
    if len(published):
        printed = published[["scenario", "target", "fit"]].drop_duplicates().itertuples(index=False)
    errors = [
        Figure(
            partial(error_figure, scenario, target, fit),
            f"{scenario}, size {target} from {_sizes(fit)}",
        )
        for scenario, target, fit in printed
    ]
    heads = []  # for the largest size of each scenario, the learned scale model's error beside the best simple law's
    for scenario, (fit, target) in _PREDICTED.items():
        laws = summaries(trials[(trials["scenario"] == scenario) & (trials["target"] == target)])
        paper = [law for law in laws if law.law == PREDICTORS["scale model"]]
        beneath = f" Fitted to sizes {_sizes(fit)}."
        for line in paper:
            errors_of = f"{percent(line.average)}, at most {percent(line.maximum)}"
            beneath += f" The paper's scale model: {errors_of}."
        for line in laws:
            if line.law == LearnedScaleModel.name:
                heads.append(headline(line, simplest(laws), beneath))
    curves = {name: _curves_of(name) for name in _PREDICTED}
    classes = [
        (one.scenario, one.benchmark, str(classify(one)))
        for one in chain.from_iterable(curves.values())
    ]
    over_size = [
        Figure(
            partial(size_figure, curves, misses=False),
            "Performance per unit of size, against that of the smallest: 1 is linear scaling",
        ),
        Figure(
            partial(size_figure, curves, misses=True),
            "Misses of the last-level cache per thousand instructions",
        ),
        Table(
            columns("scenario", "benchmark", "how it scales"),
            rows(classes),
            folded="How every benchmark scales",
            medium="page",
        ),
    ]
    shown = "from {} by the {}; other predictors are a click on the legend away"
    predicted = [
        Figure(
            partial(_panels, name),
            f"{name}: {shown.format(_sizes(fit), PREDICTORS['scale model'])}",
        )
        for name, (fit, _) in _PREDICTED.items()
    ]
    return Document(
        title="GPU scale-model simulation, reproduced",
        lead="SeyyedAghaei, Naderan-Tahan and Eeckhout, HPCA 2024: every figure from the published data",
        opening=heads,
        sections=[
            Section(
                "Errors beside the published ones",
                [published_table(published)],
                "published",
                "Published",
            ),
            Section(
                "Every law",
                [trial_table(trials), laid_out("scaling-speedups", speedups)],
                "laws",
                "Laws",
            ),
            Section("Errors benchmark by benchmark", errors, "errors", "Errors"),
            Section("Performance and misses over size", over_size, "curves", "Curves"),
            Section("Measured and predicted", predicted, "predicted", "Predicted"),
            Section(
                "How much faster scale models are simulated",
                [
                    Figure(
                        partial(speedup_figure, speedups),
                        "Bars: from the published seconds; marks: as printed",
                    )
                ],
                "speedups",
                "Speed-ups",
            ),
        ],
        data={
            "schema": SCHEMA,
            **{name: table.to_dict("records") for name, table in tables.items()},
        },
    )


def _curves_of(scenario: str) -> list[Curve]:
    return [one for one in published_curves() if one.scenario == scenario]


def error_figure(scenario: str, target: float, fit: Sequence[float]) -> go.Figure:
    """Draw the error of every benchmark by each of the paper's predictors, side by side."""
    errors = benchmark_errors(scenario, target, fit)
    figure = Drawing()
    for name, colour in zip((*PREDICTORS.values(), EQUATIONS), (*_COLOURS, NEUTRAL), strict=False):
        bars_of = [*errors[name], errors[name].mean()]
        bars = {
            "x": [*map(escape, errors.index), "average"],
            "y": bars_of,
            "marker": {"color": colour},
        }
        figure.add_bar(
            name=name, hovertemplate=f"%{{x}}: %{{y:.1f}} %<extra>{name}</extra>", **bars
        )
    figure.update_yaxes(title_text="error, %")
    return panels(figure, 380)


def size_figure(curves: dict[str, list[Curve]], *, misses: bool) -> go.Figure:
    """Draw performance per unit of size, or miss rates, over the size: a panel per scenario, a line per benchmark."""
    figure = make_subplots(
        rows=1, cols=len(curves), subplot_titles=list(curves), horizontal_spacing=0.06
    )
    for place, curves_of in enumerate(curves.values(), 1):
        for index, one in enumerate(curves_of):
            per_unit = one.performance / one.sizes * one.sizes[0] / one.performance[0]
            name = escape(one.benchmark)
            figure.add_scatter(
                name=name,
                x=one.sizes,
                y=one.mpki if misses else per_unit,
                mode="lines+markers",
                line={"color": _COLOURS[index % len(_COLOURS)], "width": 1.5},
                hovertemplate=f"%{{y:.3~g}} at %{{x}}<extra>{name}</extra>",
                showlegend=False,
                row=1,
                col=place,
            )
        figure.update_xaxes(
            type="log",
            tickvals=curves_of[0].sizes,
            title_text=f"{curves_of[0].unit}s",
            row=1,
            col=place,
        )
    figure.update_yaxes(type="log" if misses else "linear")
    return panels(figure, 400)


def _panels(scenario: str) -> go.Figure:
    return prediction_figure(_predicted(scenario), PREDICTORS["scale model"])


@cache
def _predicted(scenario: str) -> SizePredictions:
    fit, target = _PREDICTED[scenario]
    table = CurveTable(tuple(_curves_of(scenario)))
    return predict_sizes(table, fit, [target], laws=[*PREDICTORS.values()])


def speedup_figure(speedups: pd.DataFrame) -> go.Figure:
    """Draw how many times faster the two scale models are simulated than each target, with the printed figures."""
    names = [f"{row['scenario']} {row['target']:g}" for row in speedups.to_dict("records")]
    reach = {
        "type": "data",
        "array": speedups["most"] - speedups["mean"],
        "arrayminus": speedups["mean"] - speedups["least"],
    }
    bars = {"x": names, "y": speedups["mean"], "error_y": reach, "marker_color": SELECTED}
    figure = Drawing(go.Bar(name="mean, least to most", **bars))
    marks = dots(BASELINE, 26, symbol="line-ew-open", line={"width": 3})
    figure.add_scatter(name="published mean", x=names, y=speedups["published_mean"], **marks)
    figure.update_yaxes(title_text="times faster")
    return panels(figure, 360)


def published_table(published: pd.DataFrame) -> Table:
    """Return the errors reproduced from the published data, each beside the published one, differences explained."""
    codes = list(dict.fromkeys(code for code in published["explanation"] if code))
    cells = (
        published["scenario"].astype(str)
        + published["target"].astype(str)
        + published["fit"].astype(str)
    )
    compared = []
    for row, ends in zip(published.to_dict("records"), cells != cells.shift(-1), strict=True):
        why = row["explanation"]
        scenario = str(row["scenario"])
        predictor = str(row["predictor"])
        tone: Tone = "warning" if why else ""
        figures = []
        for name in ("average", "max"):
            figures.append(Cell(_percent(row[name]), tone))
            figures.append(Cell(_percent(row[f"published_{name}"]), "soft"))
        mark = ""
        if why:
            mark = f"[{codes.index(why) + 1}]"
        fit = " ".join(f"{size:g}" for size in row["fit"])
        compared.append(
            Row((scenario, predictor, fit, f"{row['target']:g}", *figures, mark), ends=bool(ends))
        )
    return Table(
        columns(
            "scenario",
            "predictor",
            numbers=["from", "at", "average", "published", "max", "published", ""],
        ),
        compared,
        "Errors on the published benchmarks, %, each with the published figure beside it",
        "\n".join(f"[{i}] {EXPLANATIONS[code]}" for i, code in enumerate(codes, 1)),
    )


def trial_table(trials: pd.DataFrame) -> Table:
    """Return the errors of every law where it has learned from the other benchmarks only, and how many it covers.

    Scale models, the paper's method, come first.
    """
    title = (
        "Every law on the same benchmarks, %; what is learned is learned from the other benchmarks"
    )
    ordered = sorted(summaries(trials), key=lambda one: not one.law.startswith("scale model"))
    return summary_table(ordered, 0.9, title)


def summaries(trials: pd.DataFrame) -> list[LawSummary]:
    """Return the rows of `published_trials` as summaries."""
    return [
        LawSummary(**row)
        for row in records(trials.rename(columns={"max": "maximum"}).drop(columns="worst"))
    ]

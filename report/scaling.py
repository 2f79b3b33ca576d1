"""What `scale` says of performance at other sizes, as documents: predictions, the published results, configurations."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from functools import partial
from html import escape
from typing import Any, Final

import numpy as np
import plotly.graph_objects as go
from plotly.subplots import make_subplots

from ..evaluation.metrics import mean_least_most
from ..hardware import FIGURES, GPU, PEAKS
from ..hardware.scaled import PRIVATE, SHARED, WHOLE
from ..scaling.prediction import (
    BenchmarkPrediction,
    LawPrediction,
    LawSummary,
    SizePredictions,
    error_percent,
    summarise,
)
from ..scaling.scale_models import LearnedScaleModel
from .document import (
    Cell,
    Column,
    Document,
    Figure,
    Headline,
    Lines,
    Row,
    Section,
    Table,
    columns,
    lines,
    remarked,
    rows,
)
from .figures import BASELINE, NEUTRAL, OTHERS, SELECTED, panels
from .formats import counted, figure, formatted, share
from .gpus import MISSING, gpus_json

SCHEMA: Final = 1
NAMED_BENCHMARKS, NAMED_LAWS = 4, 3
"""How many a remark names; more are counted."""
GOOD, POOR = 5.0, 20.0
"""Errors in % below the first are shown as good, above the second as poor."""
COLUMNS_OF_PANELS: Final = 3
_HEADLINES: Final = 4  # answers in the first screen
PANEL: Final = 250
"""Height of a row of panels, pixels."""
DASHES: Final = ("solid", "dash", "dot", "dashdot")
_BAND: Final = "rgba(28,131,198,0.18)"


def predictions_document(result: SizePredictions) -> Document:
    """Return what the laws predict for each benchmark, how they did, and what there is to remark."""
    fitted, targets = (", ".join(f"{size:g}" for size in sizes) for sizes in (result.fit, result.targets))
    lead = leading(result)
    reading = (
        f"Grey: measured (filled: fitted to). Blue: {lead}, with its {100 * result.level:g} % interval. Other laws are "
        "a click on the legend away."
    )
    curves = Figure(partial(prediction_figure, result, lead), "Performance, both axes logarithmic")
    per_unit = Figure(
        partial(prediction_figure, result, lead, per_unit=True),
        "Performance per unit of size, against that of the smallest size fitted; flat at 1 is linear scaling",
    )
    known = lines((text for one in result.benchmarks for text in description(one)), "answer").lines
    told = [prediction_table(result), Lines(known, "answer", medium="terminal"), *_benchmarks(result)]
    return Document(
        title="Performance over size",
        lead=f"fitted to sizes {fitted}; predicted at {targets}",
        opening=list(_headlines(result, lead))[:_HEADLINES],
        sections=[
            Section("Measured and predicted", [Lines(lines([reading]).lines, medium="page"), curves, per_unit],
                    "curves", "Curves"),
            Section("Errors of the laws", [_errors(result)], "laws", "Laws"),
            Section("Benchmark by benchmark", told, "benchmarks", "Benchmarks"),
            Section("Remarks", [Lines(remarked(remarks(result)), "list")]),
        ],
        closing=[summary_table(summarise(result), result.level)],
        data=predictions_json(result),
    )  # fmt: skip


def _headlines(result: SizePredictions, lead: str) -> Iterator[Headline]:
    """Yield the leading law's errors beside the best simple one's; what it predicts, where no target was measured."""
    found = summarise(result)
    for own in found:
        if own.law == lead and own.benchmarks:
            rival = simplest(one for one in found if (one.scenario, one.target) == (own.scenario, own.target))
            yield headline(own, rival)
    for one in result.benchmarks if not found else ():
        for law in (law for law in one.laws if law.law == lead and not law.failed):
            predicted, lower, upper = law.at(result.targets[-1])
            about = f"{one.curve.name}, size {result.targets[-1]:g}"
            beneath = f"by the {lead}, {100 * result.level:g} % interval {_interval(lower, upper)}"
            yield Headline(about, _figure(predicted), beneath=f"{beneath}; {one.scaling}", medium="page")


def simplest(found: Iterable[LawSummary]) -> LawSummary | None:
    """Return the law with the least average error among those that are no scale models."""
    simple = [one for one in found if one.benchmarks and not one.law.startswith("scale model")]
    return min(simple, key=lambda one: one.average, default=None)


def headline(own: LawSummary, rival: LawSummary | None, beneath: str = "") -> Headline:
    """Return a law's error at one size as the answer of a page, beside the best simple law's."""
    about = f"{own.scenario}, size {own.target:g}: mean error over {counted(own.benchmarks, 'benchmark')}"
    told = "" if rival is None else f"{rival.law}: {rival.average:.1f} %"
    most = f"At most {own.maximum:.1f} %" + ("" if rival is None else f" ({rival.law}: {rival.maximum:.1f} %)")
    held = f"; {share(own.coverage, 0)} lie in their intervals" if np.isfinite(own.coverage) else ""
    return Headline(about, f"{own.law}: {own.average:.1f} %", told, f"{most}{held}.{beneath}", medium="page")


def prediction_table(result: SizePredictions) -> Table:
    """Return what each law predicts for each benchmark, with its interval and, where measured, its error."""
    level = f"{100 * result.level:g} %"
    title = f"Predicted from {_sizes(result.fit)}; intervals of {level}; error of what was measured, %"
    compared = any(one.curve.measured_at(target) for one in result.benchmarks for target in result.targets)
    heads = [head for target in result.targets for head in (f"at {target:g}", level, *(["error"] if compared else []))]
    found: list[Row] = []
    for one in result.benchmarks:
        measured = [one.curve.measured_at(target) for target in result.targets]
        known = [
            cell for value in measured for cell in (_figure(value), "measured" if value else "", "")[: 2 + compared]
        ]
        found.append(Row((one.curve.name, *(Cell(text, "strong") for text in known)), title=True))
        for law in one.laws:
            cells = [_cells(law, *at)[: 2 + compared] for at in zip(result.targets, measured, strict=True)]
            ends = law is one.laws[-1]
            found.append(Row((f"  {law.law}", *(cell for part in cells for cell in part)), ends=ends))
    every = (Column("benchmark / law", "name"), *(Column(head, "number") for head in heads))
    return Table(every, found, title, medium="terminal")


def _cells(law: LawPrediction, target: float, measured: float | None) -> list[str | Cell]:
    """Return the prediction at a target, its interval and its error."""
    if law.failed:
        return [Cell("no fit", "error"), "", ""]
    predicted, lower, upper = law.at(target)
    return [_figure(predicted), _interval(lower, upper), _error(predicted, measured)]


def summary_table(found: Sequence[LawSummary], level: float, title: str = "Errors over the benchmarks, %") -> Table:
    """Return how the laws did over the benchmarks, one row per law and target; the best average stands out."""
    numbers = ["at", "benchmarks", "average", "max", f"in {100 * level:g} % interval"]
    ranked: list[Row] = []
    for scenario, target in dict.fromkeys((one.scenario, one.target) for one in found):
        group = [one for one in found if (one.scenario, one.target) == (scenario, target)]
        best = min((one.average for one in group if one.benchmarks), default=np.nan)
        for one in group:
            cells = (scenario, one.law, f"{target:g}", *summary_figures(one))
            ranked.append(Row(cells, "strong" if one.average == best else "", ends=one is group[-1]))
    return Table(columns("scenario", "law", numbers=numbers), ranked, title)


def summary_figures(one: LawSummary) -> tuple[str, str, str, str]:
    """Return how many benchmarks, the average and the largest error, and the share within the intervals."""
    count = f"{one.benchmarks}" + (f" (+{one.failed} not fitted)" if one.failed else "")
    return count, _percent(one.average), _percent(one.maximum), share(one.coverage, 0)


def _errors(result: SizePredictions) -> Table | Lines:
    """Return the errors of the laws for a page, or why there are none."""
    if not (found := summarise(result)):
        nothing = "No target was measured, so there are no errors to show."
        return Lines(lines([nothing]).lines, medium="page")
    heads = ("at", "benchmarks", "average, %", "max, %", "in interval")
    cells = [(one.scenario, one.law, f"{one.target:g}", *summary_figures(one)) for one in found]
    return Table(columns("scenario", "law", numbers=heads), rows(cells), medium="page")


def _benchmarks(result: SizePredictions) -> Iterator[Lines | Table]:
    """Yield for a page what is said of each benchmark, and its predictions folded away."""
    heads = columns("law", numbers=("at", "predicted", "lower", "upper", "measured", "error, %"))
    for one in result.benchmarks:
        cells = [_row(one, law, target) for law in one.laws for target in result.targets]
        yield Lines(lines(description(one)).lines, "list", medium="page")
        yield Table(heads, rows(cells), folded=f"Predictions for {one.curve.name}", medium="page")


def _row(one: BenchmarkPrediction, law: LawPrediction, target: float) -> tuple[str, ...]:
    if law.failed:
        return law.law, f"{target:g}", "no fit", "", "", "", ""
    measured = one.curve.measured_at(target)
    figures = [formatted(value, "{:.5g}") for value in law.at(target)]
    error = "" if measured is None else f"{error_percent(law.at(target)[0], measured):.2f}"
    return law.law, f"{target:g}", *figures, "" if measured is None else f"{measured:.5g}", error


def description(one: BenchmarkPrediction) -> Iterator[str]:
    """Yield what is known of a benchmark beside the predictions: class, cliffs and cost."""
    name = one.curve.name
    yield f"{name}: {one.scaling}"
    if one.cliffs is None:
        yield f"{name}: no miss rates given, so cliffs cannot be seen"
    for words in (str(cliff) for cliff in one.cliffs or () if cliff not in one.scaling.cliffs):
        yield f"{name}: {words}"
    if one.costs:
        times = "; ".join(
            f"{cost.speedup:.1f} times faster than size {cost.target:g} ({cost.target_s:,.0f} s), side by side "
            f"{cost.parallel_speedup:.1f} times"
            for cost in one.costs
        )
        yield f"{name}: simulating the scale models takes {one.costs[0].together_s:,.0f} s: {times}"


def remarks(result: SizePredictions) -> list[str]:
    """Return the remarks and the laws that failed, each once, with the benchmarks where it is not about all."""
    about: dict[str, list[str]] = {}
    for one in result.benchmarks:
        failures = [f"{law.law} cannot be fitted: {law.failed}" for law in one.laws if law.failed]
        noted = [_of(laws, one.fitted) + str(note) for note, laws in one.notes.items()]
        for words in dict.fromkeys([*noted, *failures]):
            about.setdefault(words, []).append(one.curve.name)
    said = [_about(names, len(result.benchmarks)) + words for words, names in about.items()]
    return [*map(str, result.notes), *said, *_total_costs(result)]


def _about(names: Sequence[str], every: int) -> str:
    """Return the benchmarks a remark is about, a few by name, as the beginning of a sentence; all go without saying."""
    if len(names) == every:
        return ""
    return f"{', '.join(names)}: " if len(names) <= NAMED_BENCHMARKS else f"{len(names)} of {every} benchmarks: "


def _of(laws: Sequence[str], every: int) -> str:
    """Return the laws that a remark is from as the beginning of a sentence; all go without saying."""
    if len(laws) == every:
        return ""
    return f"{', '.join(laws)}: " if len(laws) <= NAMED_LAWS else f"{len(laws)} of {every} laws: "


def _total_costs(result: SizePredictions) -> Iterator[str]:
    """Yield what the simulations of all benchmarks of a scenario cost together, and how much faster they are."""
    for one in _speedups(result):
        yield (
            f"simulating the scale models of all {one['benchmarks']} timed benchmarks ({one['scenario']}) takes "
            f"{one['together_s']:,.0f} s, size {one['target']:g} {one['target_s']:,.0f} s: {one['mean']:.2f} times "
            f"faster on average of the benchmarks ({one['least']:.2f} to {one['most']:.2f})"
        )


def _speedups(result: SizePredictions) -> list[dict[str, Any]]:
    """Return, per scenario and target, how many times faster the scale models are simulated: mean, least and most."""
    found = []
    for scenario in dict.fromkeys(one.curve.scenario for one in result.benchmarks):
        for target in result.targets:
            own = [one.costs for one in result.benchmarks if one.curve.scenario == scenario]
            costs = [cost for of_one in own for cost in of_one if cost.target == target]
            if len(costs) > 1:
                times = [cost.speedup for cost in costs]
                together, whole = (sum(getattr(cost, name) for cost in costs) for name in ("together_s", "target_s"))
                known = {"scenario": scenario, "target": target, "benchmarks": len(costs)}
                found.append({**known, "together_s": together, "target_s": whole, **mean_least_most(times)})
    return found


def predictions_json(result: SizePredictions) -> dict[str, Any]:
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


def _benchmark_json(one: BenchmarkPrediction, targets: Sequence[float]) -> dict[str, Any]:
    curve, scaling = one.curve, one.scaling
    return {
        "benchmark": curve.benchmark,
        "scenario": curve.scenario,
        "unit": curve.unit,
        "sizes": curve.sizes,
        "performance": curve.performance,
        "mpki": curve.mpki,
        "mpki_sizes": curve.mpki_sizes,
        "f_mem": curve.f_mem,
        "class": {
            "kind": str(scaling.growth),
            "exponent": scaling.exponent,
            "interval": list(scaling.interval),
            "p_value": scaling.p_value,
            "words": str(scaling),
        },
        "cliffs": None if one.cliffs is None else [*map(str, one.cliffs)],
        "simulation": [
            {**vars(cost), "speedup": cost.speedup, "parallel_speedup": cost.parallel_speedup} for cost in one.costs
        ],
        "predictions": [_law_json(law, curve.measured_at(size), size) for law in one.laws for size in targets],
    }


def _law_json(law: LawPrediction, measured: float | None, target: float) -> dict[str, Any]:
    predicted, lower, upper = law.at(target)
    error = np.nan if measured is None else error_percent(predicted, measured)
    return {
        "law": law.law,
        "size": target,
        "predicted": predicted,
        "lower": lower,
        "upper": upper,
        "measured": measured,
        "error_percent": error,
        "failed": law.failed or None,
        "notes": [str(note) for note in law.notes],
    }


# Scale models of a GPU: what its scaled copies share, and what each of their compute units keeps.

BROKEN: Final = "not whole"
"""Of a count whose share is no whole number: half a chiplet."""
_PEAKS: Final = ("fp64_matrix", "fp32_vector", "fp16_matrix", "bf16_matrix", "fp8_matrix")
_CACHES: Final = ("l2_mb", "llc_mb", "llc_bw_gbs", "noc_bw_gbs")
_OTHERS: Final = ("memory_bw_gbs", "memory_gb", "link_bw_gbs")
_OWN: Final = ("wavefront", "boost_mhz")
_CAPTION: Final = (
    "×: shared by all compute units, or theirs together, in proportion to their number; =: as in the whole GPU. The "
    "last-level cache's bandwidth bounds what the network on chip carries to it. Peaks are dense."
)


def configurations_document(models: Sequence[GPU], base: GPU) -> Document:
    """Return the scale models of a GPU side by side, the smallest first; its data are GPUs as ``gpus`` gives them."""
    heads = columns("resource", "unit", "", numbers=[f"{model.cus} CUs" for model in models])
    every = [*_figures(models, base, WHOLE, "×"), *_peaks(models, base), *_figures(models, base, _CACHES, "×"),
             *_figures(models, base, _OTHERS, "×"), *_figures(models, base, _OWN, "=")]  # fmt: skip
    data = {**gpus_json(models), "schema": 1, "base": base.name, "shared": list(SHARED), "same": list(PRIVATE)}
    return Document(opening=[Table(heads, every, f"Scale models of {base.name}", _CAPTION)], data=data)


def _figures(models: Sequence[GPU], base: GPU, keys: Sequence[str], how: str) -> Iterator[Row]:
    """Yield a row for each figure, with how it is scaled."""
    for key in keys:
        values = [_or_why(getattr(model, key), getattr(base, key)) for model in models]
        yield Row((FIGURES[key].label, FIGURES[key].unit, how, *values))


def _peaks(models: Sequence[GPU], base: GPU) -> Iterator[Row]:
    for key in _PEAKS:
        if key in base.peaks:
            values = [_or_why(model.peaks.get(key), base.peaks[key]) for model in models]
            yield Row((PEAKS[key].label, PEAKS[key].unit, "×", *values))


def _or_why(value: float | None, whole: float | None) -> str | Cell:
    """Return a figure, or why there is none."""
    return Cell(MISSING if whole is None else BROKEN, "soft") if value is None else f"{value:,.5g}"


# Figures of predictions.


def leading(result: SizePredictions) -> str:
    """Return the law to show first: the learned scale model, where it was fitted, else the first with an interval.

    It is not chosen by its errors here, which nobody would know beforehand.
    """
    fitted = [law for one in result.benchmarks for law in one.laws if not law.failed]
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
        rows=rows, cols=columns, subplot_titles=[escape(name) for name in names],
        vertical_spacing=min(0.16, 0.35 / rows), horizontal_spacing=0.06,
    )  # fmt: skip
    for place, one in enumerate(result.benchmarks):
        at = {"row": place // columns + 1, "col": place % columns + 1}
        for trace in _panel(one, result, lead, per_unit):
            named = trace.name is not None and trace.name not in shown
            figure.add_trace(trace.update(showlegend=named), **at)
            shown.add(trace.name)
        ticks = sorted({*one.curve.sizes.tolist(), *result.targets})
        figure.update_xaxes(tickvals=ticks, ticktext=[f"{size:g}" for size in ticks], **at)
    figure.update_xaxes(type="log")
    figure.update_yaxes(type="linear" if per_unit else "log")
    return panels(figure, max(rows, 2 if len(names) == 1 else 1) * PANEL + 90)


def _panel(one: BenchmarkPrediction, result: SizePredictions, lead: str, per_unit: bool) -> Iterator[go.Scatter]:
    """Yield the curves of one benchmark."""
    start = float(result.fit[0])
    base = one.curve.measured_at(start)
    assert base is not None

    def drawn(sizes: np.ndarray, values: np.ndarray) -> list[float]:
        return (values / sizes * start / base if per_unit else values).tolist()

    for index, law in enumerate(law for law in one.laws if law.law != lead and not law.failed):
        colour = (BASELINE, *OTHERS)[index % (1 + len(OTHERS))]
        line = {"color": colour, "width": 1.5, "dash": DASHES[index // (1 + len(OTHERS)) % len(DASHES)]}
        yield _curve(law, drawn(law.sizes, law.predicted), line, hidden=True)
    for law in one.laws:
        if law.law == lead and not law.failed:
            if np.isfinite(law.lower).all():
                yield _band(law, drawn)
            yield _curve(law, drawn(law.sizes, law.predicted), {"color": SELECTED, "width": 3})
    yield _measured(one, result.fit, drawn)


def _curve(law: LawPrediction, y: list[float], line: dict[str, Any], hidden: bool = False) -> go.Scatter:
    return go.Scatter(
        name=escape(law.law),
        legendgroup=law.law,
        x=law.sizes.tolist(),
        y=y,
        mode="lines",
        line=line,
        visible="legendonly" if hidden else True,
        hovertemplate=f"%{{y:.4~g}} at %{{x}}<extra>{escape(law.law)}</extra>",
    )


def _band(law: LawPrediction, drawn: Callable[[np.ndarray, np.ndarray], list[float]]) -> go.Scatter:
    """Return the interval as one outline: along the upper bound and back along the lower."""
    return go.Scatter(
        x=[*law.sizes.tolist(), *law.sizes[::-1].tolist()],
        y=[*drawn(law.sizes, law.upper), *drawn(law.sizes, law.lower)[::-1]],
        fill="toself",
        fillcolor=_BAND,
        line={"width": 0},
        mode="lines",
        legendgroup=law.law,
        hoverinfo="skip",
    )


def _measured(
    one: BenchmarkPrediction, fit: Sequence[float], drawn: Callable[[np.ndarray, np.ndarray], list[float]]
) -> go.Scatter:
    """Return the measured points, filled where the laws were fitted to them."""
    curve = one.curve
    symbols = ["circle" if size in fit else "circle-open" for size in curve.sizes]
    return go.Scatter(
        name="measured",
        legendgroup="measured",
        x=curve.sizes.tolist(),
        y=drawn(curve.sizes, curve.performance),
        mode="markers",
        marker={"color": NEUTRAL, "size": 9, "symbol": symbols, "line": {"width": 2}},
        hovertemplate="%{y:.4~g} at %{x}<extra>measured</extra>",
    )


def _figure(value: float | None) -> str:
    return "" if value is None or not np.isfinite(value) else figure(value)


def _interval(lower: float, upper: float) -> str:
    return f"[{_figure(lower)}, {_figure(upper)}]" if np.isfinite(lower) and np.isfinite(upper) else "–"


def _error(predicted: float, measured: float | None) -> str | Cell:
    if measured is None:
        return ""
    error = error_percent(predicted, measured)
    return Cell(f"{error:.1f}", "good" if error < GOOD else "error" if error > POOR else "")


def _percent(value: float | None) -> str:
    return formatted(value, "{:.2f}")


def _sizes(sizes: Sequence[float]) -> str:
    return " and ".join(filter(None, (", ".join(f"{size:g}" for size in sizes[:-1]), f"{sizes[-1]:g}")))

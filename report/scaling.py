"""What `flopcast scale` says of performance at other sizes: tables for the terminal, and the same for machines."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any

import numpy as np
import pandas as pd
from rich.console import Console
from rich.table import Table
from rich.text import Text

from ..scaling.prediction import (
    BenchmarkPrediction,
    LawPrediction,
    LawSummary,
    SizePredictions,
    error_percent,
    summarise,
)
from ..scaling.scaling_class import ScalingClass
from .console import note, plain_table
from .words import say
from .words.scaling import EXPLANATIONS, class_words, cliff_words, unseen_cliffs

SCHEMA = 1
NAMED_BENCHMARKS, NAMED_LAWS = 4, 3
"""How many a remark names; more are counted."""
GOOD, POOR = 5.0, 20.0
"""Errors in % below the first are shown in green, above the second in red."""


def show_predictions(console: Console, result: SizePredictions) -> None:
    """Print the table, what is known of each benchmark, the summary of the laws and remarks."""
    console.print(prediction_table(result))
    for one in result.benchmarks:
        for line in description(one):
            console.print(Text(f"• {line}"), highlight=False)
    for words in remarks(result):
        console.print(note(words))
    if found := summarise(result):
        console.print(summary_table(found, result.level))


def prediction_table(result: SizePredictions) -> Table:
    """Return what each law predicts for each benchmark, with its interval and, where measured, its error."""
    level = f"{100 * result.level:g} %"
    title = f"Predicted from {_sizes(result.fit)}; intervals of {level}; error of what was measured, %"
    compared = any(one.curve.measured_at(target) for one in result.benchmarks for target in result.targets)
    columns = [
        column for target in result.targets for column in (f"at {target:g}", level, *(["error"] if compared else []))
    ]
    table = plain_table(title, ["benchmark / law"], columns)
    table.columns[0].no_wrap = True
    for one in result.benchmarks:
        measured = [one.curve.measured_at(target) for target in result.targets]
        heading = [
            cell for value in measured for cell in (_figure(value), "measured" if value else "", "")[: 2 + compared]
        ]
        table.add_row(Text(one.curve.name, "bold"), *(Text(cell, "bold") for cell in heading))
        for law in one.laws:
            cells = [_cells(law, *at)[: 2 + compared] for at in zip(result.targets, measured, strict=True)]
            table.add_row(Text(f"  {law.law}"), *(cell for part in cells for cell in part))
        table.add_section()
    return table


def _cells(law: LawPrediction, target: float, measured: float | None) -> list[Text]:
    """Return the prediction at a target, its interval and its error."""
    if law.failed:
        return [Text("no fit", "red"), Text(""), Text("")]
    predicted, lower, upper = law.at(target)
    return [Text(_figure(predicted)), Text(_interval(lower, upper)), _error(predicted, measured)]


def summary_table(found: Sequence[LawSummary], level: float, heading: str = "Errors over the benchmarks, %") -> Table:
    """Return how the laws did over the benchmarks, one row per law and target; the best average in bold."""
    numbers = ["at", "benchmarks", "average", "max", f"in {100 * level:g} % interval"]
    table = plain_table(heading, ["scenario", "law"], numbers)
    cells = list(dict.fromkeys((one.scenario, one.target) for one in found))
    for scenario, target in cells:
        rows = [one for one in found if (one.scenario, one.target) == (scenario, target)]
        best = min((one.average for one in rows if one.benchmarks), default=np.nan)
        for one in rows:
            texts = (scenario, one.law, f"{target:g}", *summary_figures(one))
            table.add_row(*(Text(text, "bold" if one.average == best else "") for text in texts))
        table.add_section()
    return table


def summary_figures(one: LawSummary) -> tuple[str, str, str, str]:
    """Return how many benchmarks, the average and the largest error, and the share within the intervals."""
    count = f"{one.benchmarks}" + (f" (+{one.failed} not fitted)" if one.failed else "")
    return count, _percent(one.average), _percent(one.maximum), _share(one.coverage)


def description(one: BenchmarkPrediction) -> Iterator[str]:
    """Yield what is known of a benchmark beside the predictions: class, cliffs and cost."""
    name = one.curve.name
    yield f"{name}: {class_words(one.scaling)}"
    if one.cliffs is None:
        yield f"{name}: no miss rates given, so cliffs cannot be seen"
    for words in unseen_cliffs(one.cliffs, one.scaling):
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
        noted = [_of(laws, one.fitted) + say(note) for note, laws in one.notes.items()]
        for words in dict.fromkeys([*noted, *failures]):
            about.setdefault(words, []).append(one.curve.name)
    said = [_about(names, len(result.benchmarks)) + words for words, names in about.items()]
    return [*map(say, result.notes), *said, *_total_costs(result)]


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
    """Yield what the simulations of all benchmarks cost together."""
    for target in result.targets:
        costs = [cost for one in result.benchmarks for cost in one.costs if cost.target == target]
        if len(costs) > 1:
            models, whole = sum(cost.together_s for cost in costs), sum(cost.target_s for cost in costs)
            yield (
                f"simulating the scale models of all {len(costs)} timed benchmarks takes {models:,.0f} s: "
                f"{whole / models:.1f} times faster than size {target:g} ({whole:,.0f} s)"
            )


def predictions_json(result: SizePredictions) -> dict[str, Any]:
    """Return the predictions for machines; a figure that does not exist is NaN."""
    return {
        "schema": SCHEMA,
        "fit": list(result.fit),
        "targets": list(result.targets),
        "level": result.level,
        "benchmarks": [_benchmark_json(one, result.targets) for one in result.benchmarks],
        "laws": [vars(one) for one in summarise(result)],
        "notes": remarks(result),
    }


def _benchmark_json(one: BenchmarkPrediction, targets: Sequence[float]) -> dict[str, Any]:
    curve = one.curve
    return {
        "benchmark": curve.benchmark,
        "scenario": curve.scenario,
        "unit": curve.unit,
        "sizes": curve.sizes,
        "performance": curve.performance,
        "mpki": curve.mpki,
        "mpki_sizes": curve.mpki_sizes,
        "f_mem": curve.f_mem,
        "class": _class_json(one.scaling),
        "cliffs": None if one.cliffs is None else [cliff_words(**vars(cliff)) for cliff in one.cliffs],
        "simulation": [
            {**vars(cost), "speedup": cost.speedup, "parallel_speedup": cost.parallel_speedup} for cost in one.costs
        ],
        "predictions": [_law_json(law, curve.measured_at(t), t) for law in one.laws for t in targets],
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
        "notes": [say(note) for note in law.notes],
    }


def _class_json(scaling: ScalingClass) -> dict[str, Any]:
    return {
        "kind": str(scaling.growth),
        "exponent": scaling.exponent,
        "interval": list(scaling.interval),
        "p_value": scaling.p_value,
        "words": class_words(scaling),
    }


def published_table(found: pd.DataFrame) -> Table:
    """Return the errors reproduced from the published data, each beside the published one; differences are explained.

    Parameters
    ----------
    found : DataFrame
        As `scaling.trials.reproduction` gives it.
    """
    reasons = list(dict.fromkeys(code for code in found["explanation"] if code))
    title = "Errors on the published benchmarks, %, each with the published figure beside it"
    numbers = ["at", "average", "published", "max", "published", ""]
    caption = "\n".join(f"[{i}] {EXPLANATIONS[reason]}" for i, reason in enumerate(reasons, 1))
    table = plain_table(title, ["scenario", "predictor"], numbers, caption=caption)
    before = ""
    for row in found.to_dict("records"):
        cell = f"{row['scenario']} {row['target']:g}"
        if before not in {"", cell}:
            table.add_section()
        before, why = cell, row["explanation"]
        style = "yellow" if why else ""
        ours, theirs = (_percent(row["average"]), _percent(row["max"])), ("published_average", "published_max")
        table.add_row(
            Text(str(row["scenario"])),
            Text(str(row["predictor"])),
            f"{row['target']:g}",
            Text(ours[0], style),
            Text(_percent(row[theirs[0]]), "dim"),
            Text(ours[1], style),
            Text(_percent(row[theirs[1]]), "dim"),
            Text(f"[{reasons.index(why) + 1}]" if why else ""),
        )
    return table


def trial_table(found: pd.DataFrame, level: float = 0.9) -> Table:
    """Return the errors of every law where it has learned from the other benchmarks only, and how many it covers.

    Parameters
    ----------
    found : DataFrame
        As `scaling.trials.summary` gives it.
    level : float
        Of the intervals.
    """
    heading = "Every law on the same benchmarks, %; what is learned is learned from the other benchmarks"
    rows = [
        LawSummary(row["law"], row["scenario"], row["target"], row["benchmarks"], row["failed"], row["average"],
                   row["max"], row["coverage"])
        for row in found.to_dict("records")
    ]  # fmt: skip
    return summary_table(rows, level, heading)


def published_json(found: pd.DataFrame, trials: pd.DataFrame) -> dict[str, Any]:
    """Return both for machines."""
    explained = found.assign(explanation=found["explanation"].map(EXPLANATIONS))
    return {"schema": SCHEMA, "published": explained.to_dict("records"), "trials": trials.to_dict("records")}


def _figure(value: float | None) -> str:
    if value is None or not np.isfinite(value):
        return ""
    return f"{value:,.0f}" if abs(value) >= 1000 else f"{value:.4g}"


def _interval(lower: float, upper: float) -> str:
    return f"[{_figure(lower)}, {_figure(upper)}]" if np.isfinite(lower) and np.isfinite(upper) else "–"


def _error(predicted: float, measured: float | None) -> Text:
    if measured is None:
        return Text("")
    error = error_percent(predicted, measured)
    return Text(f"{error:.1f}", "green" if error < GOOD else "red" if error > POOR else "")


def _percent(value: float | None) -> str:
    return "–" if value is None or not np.isfinite(value) else f"{value:.2f}"


def _share(value: float) -> str:
    return "–" if not np.isfinite(value) else f"{100 * value:.0f} %"


def _sizes(sizes: Sequence[float]) -> str:
    return " and ".join(filter(None, (", ".join(f"{size:g}" for size in sizes[:-1]), f"{sizes[-1]:g}")))

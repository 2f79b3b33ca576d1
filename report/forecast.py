"""What `forecast` says of whole workloads, as documents: the answers, what they are made of, what they rest on."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import asdict, replace
from functools import partial
from itertools import chain, product
from typing import Any, Final

import numpy as np
import plotly.graph_objects as go

from ..evaluation.metrics import NINETY_PERCENT
from ..operators.operators import OPS
from ..output import SCHEMA
from ..remarks import Remark
from ..workloads.forecasting import Forecast
from ..workloads.layer_graph import GraphSetting
from ..workloads.quantities import Prices
from ..workloads.releases import Release
from ..workloads.serving_model import (
    KNOWN,
    NEW_COMBINATION,
    NEW_ENGINE,
    NEW_GPU,
    NEW_MODEL,
    NEW_RELEASE,
    NEW_SETTING,
    NEW_VENDOR,
    TIMES,
    TWO_RUNS,
    ServingModel,
)
from ..workloads.setting import Setting
from ..workloads.supercomputers import Score, turning_point
from .document import (
    JSON,
    Bar,
    Bars,
    Column,
    Document,
    Figure,
    Headline,
    Lines,
    Part,
    Row,
    Section,
    Sliders,
    Table,
    columns,
    lines,
    losses,
    picked,
    remarked,
    rows,
)
from .figures import NEUTRAL, OTHERS, SELECTED, cycled, log_axes, name_line, styled
from .formats import alike, counted, escape, figure, formatted, share
from .static_figures import Drawing
from .wording import wording

SPREAD_OF: Final = (
    "spread."  # how columns of a table of forecasts begin that say where the intervals come from
)
SOURCES: Final = wording("forecast-sources")
"""Where the time of a layer comes from."""
INPUTS: Final = wording("forecast-inputs")
"""What a score is made of."""
MEMORY: Final = wording("forecast-memory")
"""What fills the memory of a GPU."""
CLASSES: Final = (0.05, 0.10, 0.20, 0.50, 1.00)  # upper ends of the classes of half-widths
MOST_CHOICES: Final = 2000  # settings that sliders go over; a page of more would be slow
REASONS: Final = 3  # reasons for no answer that are said before the table
MEASURED: Final = "measured"  # the column of a table of settings that the answers are held against
# fields over which latency and throughput are drawn
CURVES: Final = (
    "batch",
    "input_len",
    "num_prompts",
)


def forecast_document(
    answers: Sequence[Forecast],
    asked: Sequence[Mapping[str, Any]],
    *,
    level: float,
    need: float | None = None,
    price: Prices,
) -> Document:
    """Return forecasts for readers: one in full, many as a table with figures over batch and throughput."""
    data = {
        "schema": SCHEMA,
        "level": level,
        "forecasts": [_json(*pair, need, level) for pair in zip(asked, answers, strict=True)],
    }
    if len(answers) == 1 and answers[0].setting is not None:
        return _one_document(
            answers[0],
            answers[0].setting,
            level,
            need,
            price,
            data,
        )
    answered = [one for one in answers if one.reason is None]
    names = [name for name in varied(asked) if name != MEASURED]
    curves = [
        Figure(partial(curve_figure, answers, name), f"Over {ASKED.get(name, name)}")
        for name in CURVES
    ]
    front = (
        "Throughput per GPU against the time per token; a line is the front of the GPU that it "
        "names"
    )
    notes = list(dict.fromkeys(chain.from_iterable(one.remarks for one in answered)))
    beside = _elsewhere(notes)
    others = [note for note in notes if note not in beside]
    best = []
    if answered:
        best.append(_best(answered, level))
        if need is not None:
            widest = max(answered, key=lambda one: one.half_width)
            beside.insert(0, widest.needed(need, level).told)
    table = _grid_table(answers, asked, names, need, price)
    sliders = _sliders(answers, asked, names, level, need, price)
    drawn = [*curves, Figure(partial(pareto_figure, answers), front)]
    counts = f"{counted(len(answers), 'setting')}, {len(answered)} answered"
    return Document(
        title="Forecast",
        lead=f"{counts}; intervals of {100 * level:g} %",
        opening=[
            *best,
            lines([*_against(answers, asked, level), *_refused(answers)], "answer"),
            Lines(remarked(beside)),
        ],
        sections=[
            Section("Any of them", sliders, "choose", "Choose"),
            Section("Figures", drawn, "figures", "Figures"),
            Section("Settings", [table], "settings", "Settings"),
            Section("Remarks", [Lines(remarked(others), "list")]),
        ],
        data=data,
    )


def _one_document(
    one: Forecast,
    setting: Setting | GraphSetting,
    level: float,
    need: float | None,
    price: Prices,
    data: Mapping[str, Any],
) -> Document:
    """Return a forecast in full."""
    title = f"Forecast of {setting.model.name}"
    lead = about(setting)
    if one.reason is not None:
        return Document(
            title=title, lead=lead, opening=[Headline(lead, str(one.reason))], data=data
        )
    spreads = [
        (PARTS[name], f"±{100 * value:.1f} %")
        for name, value in one.spreads.items()
        if value >= 0.001
    ]
    heading = "What the interval is made of"
    spread = Table(columns("from", numbers=["1 σ"]), rows(spreads), heading)
    beside = _elsewhere(one.remarks)
    assumed = []
    others = [note for note in one.remarks if note not in beside]
    if isinstance(setting, Setting) and setting.kind != "training":
        taken = [name for name in _MAY_BE_ASSUMED if name in setting.assumed]
        assumed = [f"{name} {getattr(setting, name)}" for name in taken]
    said = lines([f"assumed: {', '.join(assumed)}" if assumed else ""])
    sections = [
        Section("Figures", [replace(_figures_table(one, need, price), title="Figures")]),
        Section("Where the time goes", [_parts_table(one), *_bars(one)], "parts", "Parts"),
        Section(heading, [spread], "interval", "Interval"),
        Section("Remarks", [Lines(remarked(others), "list"), said]),
    ]
    if one.layers:
        parts: list[Part] = [*_layer_tables(one)]
        if not one.ranks:
            drawn = partial(timeline_figure, one)
            parts.append(Figure(drawn, "When each layer computes and sends"))
        sections.insert(2, Section("Layers", parts))
    if one.ranks:
        drawn = partial(rank_figure, one)
        parts = [Figure(drawn, "What each rank does until the job ends"), _rank_table(one)]
        if one.bins:
            parts.append(_bin_table(one))
        sections.insert(2, Section("Ranks", parts, "ranks", "Ranks"))
    if need is not None:
        beside.insert(0, one.needed(need, level).told)
    opening = [replace(_answer(one, level), about=""), Lines(remarked(beside))]
    return Document(
        title=title,
        lead=lead,
        opening=opening,
        sections=sections,
        data=data,
    )


def _figures_table(one: Forecast, need: float | None, price: Prices) -> Table:
    """Return the figures of a forecast."""
    return Table(columns("", numbers=["figure"]), rows(_facts(one, need, price)))


def _against(
    answers: Sequence[Forecast], asked: Sequence[Mapping[str, Any]], level: float
) -> Iterator[str]:
    """Say how far the answers lie from what was measured, where a table of settings has that."""
    off = []
    inside = 0
    for row, one in zip(asked, answers, strict=True):
        measured = row.get(MEASURED, math.nan)
        if one.reason is None and not math.isnan(measured):
            off.append(abs(one.predicted / measured - 1))
            inside += one.lower <= measured <= one.upper
    if off:
        mean = f"off by {share(float(np.mean(off)))} on average (worst {share(max(off))})"
        held = f"{inside} lie inside their {100 * level:g} % interval"
        yield f"Measured: {counted(len(off), 'setting')}, {mean}; {held}."


def _refused(answers: Iterable[Forecast]) -> Iterator[str]:
    """Say why settings have no answer, what most of them lack first."""
    reasons = Counter(str(one.reason) for one in answers if one.reason is not None)
    for reason, count in reasons.most_common(REASONS):
        yield f"No answer for {counted(count, 'setting')}: {reason}."
    if len(reasons) > REASONS:
        yield f"{counted(len(reasons) - REASONS, 'more reason')}: see the table."


def _elsewhere(notes: Iterable[Remark]) -> list[Remark]:
    """Return the remarks that a figure was fitted on another GPU: they stand beside the answer."""
    return [note for note in notes if note.code == "other-gpu"]


def cost_of(one: Forecast, price: Prices) -> float:
    """Return what the GPUs of a forecast cost for its time; NaN where there is no price or no time."""
    if one.setting is None:
        return math.nan
    return (
        one.details.get("seconds", math.nan)
        / 3600
        * one.setting.gpus
        * price.of(one.setting.gpu.name)
    )


def _sliders(
    answers: Sequence[Forecast],
    asked: Sequence[Mapping[str, Any]],
    names: Sequence[str],
    level: float,
    need: float | None,
    price: Prices,
) -> list[Part]:
    """Return sliders over the varied fields, if the settings are few; a combination that was not asked says so."""
    keys = [tuple(_word(row.get(name)) for name in names) for row in asked]
    values = [tuple(dict.fromkeys(column)) for column in zip(*keys, strict=True)]
    if not names or math.prod(map(len, values)) > MOST_CHOICES:
        return []
    by_values = dict(zip(keys, answers, strict=True))
    choices: list[list[Part]] = []
    rates = []  # tokens per second and GPU, of graphs the inverse of the time; 0 where there is no answer
    for key in product(*values):
        one = by_values.get(key)
        rates.append(0.0)
        if one is None:
            choices.append([lines(["not among the settings that were asked for"])])
        elif one.reason is not None or one.setting is None:
            choices.append([lines([str(one.reason)] if one.reason else [])])
        else:
            choices.append([_answer(one, level), _figures_table(one, need, price), *_bars(one)])
            rates[-1] = one.details.get("tokens_per_second_per_gpu", 1.0 / one.predicted)
    best = max(range(len(rates)), key=rates.__getitem__)
    heads = [ASKED.get(name, name) for name in names]
    return [Sliders(list(zip(heads, values, strict=True)), choices, best)]


def _bars(one: Forecast) -> list[Part]:
    """Return what the time is made of, and what fills the memory of a GPU, as bars."""
    times, unit = _seconds(one)
    parts = {name: value[0] for name, value in _longest(one)}
    whole = sum(value[0] for value in one.parts.values())
    texts = alike(*(times * value for value in parts.values()))
    time = [
        Bar(PARTS[name], parts[name] / whole, f"{text} {unit}")
        for name, text in zip(parts, texts, strict=True)
    ]
    room = None
    if one.setting:
        room = one.setting.gpu.memory_gb
    memory = []
    if room and one.memory:
        *texts, every = alike(*one.memory.values(), one.memory_gb)
        for (name, value), text in zip(one.memory.items(), texts, strict=True):
            memory.append(Bar(MEMORY[name], value / room, f"{text} GiB"))
        filled = min(one.memory_gb / room, 1.0)
        memory.append(Bar("all of it", filled, f"{every} of {figure(room)} GiB"))
    return [
        Bars("What the time is made of", time),
        Bars("What fills the memory of a GPU", memory),
    ]


def _seconds(one: Forecast) -> tuple[float, str]:
    """Return the unit of the parts of a time, and how many of it a second has."""
    times, unit = _scale(one)
    return times, unit if unit == "ms" else "s"


def _longest(one: Forecast) -> list[tuple[str, Any]]:
    """Return the parts of a time with their bounds, the longest first."""
    parts = [(name, value) for name, value in one.parts.items() if value[0] > 0]
    return sorted(parts, key=lambda part: -part[1][0])


def score_document(score: Score) -> Document:
    """Return a forecast score on so many of a GPU for readers."""
    name = score.benchmark.upper()
    beneath = (
        f"{100 * score.level:g} % interval {_flops(score.lower)} … {_flops(score.upper)}; mean "
        f"{_flops(score.mean)}. "
        f"The peak alone, {_PEAKS.get(score.benchmark, 'of the memory')}, is the simplest rule."
    )
    inputs = [(INPUTS[key], figure(value)) for key, value in score.inputs.items()]
    table = Table(columns("input", numbers=["median"]), rows(inputs))
    bars = [Bar(PARTS[part], length, share(length)) for part, length in score.shares.items()]
    peak = f"peak alone: {_flops(score.peak)}"
    return Document(
        title=f"{name} on {score.devices:,} × {score.gpu}",
        lead="A forecast: the median of what the inputs below and their spreads give",
        opening=[Headline("", _flops(score.predicted), peak, beneath)],
        sections=[
            Section("What the score is made of", [table], "inputs", "Inputs"),
            Section("Where the time goes", [Bars("Part of the time", bars)], "time", "Time"),
            Section("Remarks", [Lines(remarked(score.remarks), "list")]),
        ],
        data={"schema": SCHEMA, "level": score.level, **_figures(score)},
    )


def _figures(score: Score) -> JSON:
    return {key: value for key, value in vars(score).items() if key not in ("remarks", "level")}


def scores_document(scores: Sequence[Score]) -> Document:
    """Return the document of scores on rising numbers of a GPU, with the number beyond which more GPUs pay less."""
    first = scores[0]
    turn = turning_point(scores)
    name = first.benchmark.upper()
    last = scores[-1]
    if turn is None:
        kept = last.predicted / last.devices / (first.predicted / first.devices)
        said = (
            f"no turning point up to {last.devices:,} devices, where each keeps {share(kept)} of "
            "its score"
        )
    elif turn.why == "half":
        said = (
            f"turning point: from {turn.devices:,} devices on each gives less than half of its "
            "score"
        )
    else:
        said = (
            f"turning point: from {turn.devices:,} devices on most of the time is "
            f"{PARTS[turn.why].casefold()}"
        )
    parts = list(first.shares)
    cells = [
        (
            f"{one.devices:,}",
            _flops(one.predicted),
            f"{_flops(one.lower)} … {_flops(one.upper)}",
            share(one.predicted / one.devices / (first.predicted / first.devices)),
            *map(share, one.shares.values()),
        )
        for one in scores
    ]
    heads = (
        "devices",
        "score",
        f"{100 * first.level:g} % interval",
        "per device",
        *(PARTS[part] for part in parts),
    )
    caption = (
        f"per device: of the score that each of {first.devices:,} has; the others: parts of the "
        "time"
    )
    remarks = []
    for one in scores:
        remarks.extend(one.remarks)
    return Document(
        title=f"{name} on {first.devices:,} to {last.devices:,} × {first.gpu}",
        lead="A forecast: the median of what the inputs and their spreads give",
        opening=[lines([f"{said}."], "answer")],
        sections=[
            Section(
                "Score by devices",
                [Table(columns(numbers=heads), rows(cells), "score by devices", caption)],
            ),
            Section("Remarks", [Lines(remarked(remarks), "list")]),
        ],
        data={
            "schema": SCHEMA,
            "level": first.level,
            "scores": [_figures(score) for score in scores],
            "turning_point": turn and vars(turn),
        },
    )


_PEAKS: Final = {"hpl": "of 64-bit arithmetic", "hpl-mxp": "of 16-bit products"}
"""What the peak is of; of the memory in all else."""


def release_document(
    release: Release, before: Sequence[Forecast], now: Sequence[Forecast], measured: Sequence[float]
) -> Document:
    """Return the document of a calibrated release: the precision of its forecasts before and after, its constants."""
    spread = np.sqrt((release.root**2).sum(axis=1))
    body = []
    for (name, constant), mean, sigma in zip(
        release.constants.items(), release.mean, spread, strict=True
    ):
        value = figure(constant.value * float(np.exp(mean)))
        fitted = f"{value} {constant.unit}".strip()
        body.append((constant.what, fitted, share(float(sigma)), PARTS[name]))
    runs = f"{counted(len(now), 'run')} of {', '.join(release.models)} on {release.gpu}"
    if release.runs > len(now):
        runs += f", and {counted(release.runs - len(now), 'run')} before"
    widths = {}
    off = {}
    for when, answers in (("before", before), ("now", now)):
        predicted = np.array([one.predicted for one in answers])
        widths[when] = float(np.median([one.half_width for one in answers]))
        off[when] = float(np.mean(np.abs(predicted / np.array(measured) - 1)))
    answer = (
        f"Forecasts of these runs err by {share(off['now'])} on average once fitted to them "
        f"({share(off['before'])} before), and are known within ±{share(widths['now'])} "
        f"(±{share(widths['before'])} before; the median of 90 % intervals)."
    )
    heads = columns("constant", numbers=["fitted", "1 σ"], prose=["part"])
    caption = "1 σ: how far the constant may be off; part: the row of a forecast's times that it belongs to."
    bars = []
    for label, errors in (("before", off["before"]), ("fitted", off["now"])):
        bars.append(Bar(label, errors / max(*off.values(), 1e-9), share(errors)))
    return Document(
        title=f"{release.name}: {runs}",
        opening=[lines([answer], "answer"), Bars("Mean error of forecasts of these runs", bars)],
        sections=[Section("Constants", [Table(heads, rows(body), "Constants", caption)])],
        data={
            "schema": SCHEMA,
            **picked(release, "name", "kind", "gpu", "runs", "largest", "source"),
            "models": list(release.models),
            "mean": release.mean.tolist(),
            "root": release.root.tolist(),
            "half_width": widths,
            "error": off,
        },
    )


_LEFT_OUT: Final[Mapping[str, tuple[str, str]]] = {
    "known setting": (KNOWN, "one run"),
    "new setting": (NEW_SETTING, "a model × GPU × engine × format, cut so over the GPUs"),
    "newer release": (NEW_RELEASE, "all later releases"),
    "newer release on AMD's GPUs": (
        f"AMD: {NEW_RELEASE}",
        "nights of one engine more than 30 days apart",
    ),
    "new model, two runs of the setting": (TWO_RUNS, "a model, but for two runs"),
    "new model": (NEW_MODEL, "a model"),
    "new GPU": (NEW_GPU, "a GPU"),
    "new engine": (NEW_ENGINE, "an engine"),
    "new combination": (NEW_COMBINATION, "all that share two of model, GPU, engine and format"),
    "new vendor": (NEW_VENDOR, "a vendor"),
}
"""By row of the table of widths, the least new first: the name of `Fit.spreads`, and what was left out."""


def learnt_document(model: ServingModel) -> Document:
    """Return the document of a serving model: how wide its answers are, by the data they rest on."""
    body = []
    spreads_of = {time: model.fits[time].spreads for time in TIMES}
    for name, (basis, left_out) in _LEFT_OUT.items():
        if any(basis not in spreads for spreads in spreads_of.values()):
            continue
        factors = []
        for spreads in spreads_of.values():
            factors.append(f"{math.exp(NINETY_PERCENT * spreads[basis][0]):.2f}")
        body.append((name, *factors, left_out))
    table = Table(
        columns("rests on", numbers=["per token", "first token"], prose=["left out"]),
        rows(body),
        "Nine in ten runs lie within a factor",
        "Measured on published runs of all vendors, the least new first. For a new combination all "
        "runs that share two things are left out, which can be more than those of one. Widths of "
        "things that are new at once add up; a new release is at least as wide as its row.",
    )
    settings = model.calibrated_settings
    published = model.about.get("own_from", len(model.runs))
    count = len(model.runs) - published
    title = f"{counted(count, 'own run')} beside {published:,} published"
    answers = [f"Settings with two runs or more of your own that measured both times: {settings}."]
    contradictions = list(model.contradictions)
    if settings:
        two = f"new model, {TWO_RUNS} of the setting"
        answers.append(f'Their forecasts are as wide as "{two}" below, or less.')
    for one in contradictions:
        answers.append(
            f"Repeats of a run contradict each other: {one.values['time']} by a factor of "
            f"{one.values['factor']:.2f}. Forecasts of that setting are as much wider."
        )
    answer = " ".join(answers)
    spreads = {}
    for time, fit in model.fits.items():
        spreads[time] = {name: list(both) for name, both in fit.spreads.items()}
    refused = dict(model.about.get("refused", {}))
    notes = list(model.about.get("notes", ()))
    own = {
        "runs": len(model.runs),
        "own": count,
        "settings_with_two_runs": settings,
        "published": published,
        "spreads": spreads,
    }
    return Document(
        title=title,
        opening=[lines([answer], "answer"), losses(refused, notes)],
        sections=[Section("How wide answers are", [table], "widths", "Widths")],
        data={"schema": SCHEMA, **own, "refused": refused, "notes": notes},
    )


def _answer(one: Forecast, level: float) -> Headline:
    """Return the answer with its interval, beside what peak rates alone would say."""
    setting = one.setting
    (times, unit) = _scale(one)
    assert setting is not None
    beneath = f"{100 * level:g} % interval {_interval(one)} ({_class(one.half_width)})."
    takes = _TAKES[one.unit]
    if isinstance(setting, Setting):
        naive = one.details.get("roofline_s", math.nan)
        if one.unit != "s":
            naive = setting.num_prompts * setting.output_len / naive
        if math.isfinite(naive):
            alone = "Peak rates alone, without launches, messages and waiting, would give"
            beneath += f" {alone} {figure(times * naive)} {unit}."
        if setting.kind != "training":
            takes += ", all prompts at once"
            if not setting.release:
                takes += ", an engine as the vendor tunes it"
        elif setting.release:
            takes = "a step"
        elif setting.tuning == "stock":
            takes = "a step, of a framework as it comes"
        elif setting.tuning == "tuned":
            takes = "a step, as tuned by the vendor"
        else:
            takes = "a step tuned by the vendor; the interval holds frameworks as they come"
    return Headline(about(setting), f"{_predicted(one)}, {takes}", "", beneath)


# what an answer measures, by its unit
_TAKES: Final = {
    "s": "from start to end",
    "tok/s": "of all GPUs together",
}


def _facts(one: Forecast, need: float | None, price: Prices) -> Iterator[tuple[str, str]]:
    details = one.details
    setting = one.setting
    assert setting is not None
    times, unit = _scale(one)
    for name, label in (
        ("first_token_s", "time to the first token, ms"),
        ("seconds_per_token", "time per token, ms"),
    ):
        if name in details:
            sides = (figure(1e3 * details[f"{name}_{side}"]) for side in ("lower", "upper"))
            yield label, f"{figure(1e3 * details[name])} ({' … '.join(sides)})"
    if "tokens_per_second" in details:
        yield "tokens per second", figure(details["tokens_per_second"])
        yield "tokens per second and GPU", figure(details["tokens_per_second_per_gpu"])
    if "counted_tflops_per_gpu" in details:
        rate = details["counted_tflops_per_gpu"]
        of_peak = share(rate / setting.gpu.peak_tflops(setting.dtype), 0)
        yield "counted TFLOP/s per GPU", f"{figure(rate)}, {of_peak} of the peak"
    together = ""
    if one.ranks:  # whose times add up to several times the job
        together = " of all ranks"
    for name, label in (
        ("compute_s", f"computing{together}"),
        ("communication_s", f"messages{together}"),
        ("overlapped_s", "of both at once"),
    ):
        if name in details and not (name == "overlapped_s" and one.ranks):
            yield f"{label}, {unit}", figure(times * details[name])
    if "sequences_at_once" in details:
        yield "sequences at once", figure(details["sequences_at_once"])
    if isinstance(setting, Setting):
        model = setting.model
        weights = figure(model.parameters / 1e9)
        if model.experts:
            weights += f", a token meets {figure(model.active_parameters / 1e9)}"
        yield "weights, billions", weights
    if one.fits is not None:
        text = f"{figure(one.memory_gb)} of {figure(setting.gpu.memory_gb)}"
        if one.memory_verdict and one.memory_limits:
            lower, upper = map(figure, one.memory_limits)
            text += f" ({lower} to {upper}): {one.memory_verdict}"
        yield "memory per GPU, GiB", text
    yield "mean power of all GPUs, W", figure(details["power_w"])
    if details["energy_j"] >= 1e3:
        yield "energy, kJ", figure(details["energy_j"] / 1e3)
    else:
        yield "energy, J", figure(details["energy_j"])
    if price:
        cost = cost_of(one, price)
        yield price.titled("cost"), figure(cost)
        if "tokens_per_second" in details:
            tokens = details["tokens_per_second"] * details["seconds"]
            yield price.titled("cost per million tokens"), figure(cost / tokens * 1e6)
    if need is not None:
        yield f"within ±{100 * need:g} %", one.sure(need)


def _scale(one: Forecast) -> tuple[float, str]:
    """Return the factor and the unit in which an answer is shown: short times in ms."""
    if one.unit == "s" and one.predicted < 0.1:
        return (1e3, "ms")
    return (1.0, one.unit)


def _predicted(one: Forecast) -> str:
    times, unit = _scale(one)
    return f"{figure(times * one.predicted)} {unit}"


def _interval(one: Forecast) -> str:
    times, unit = _scale(one)
    return f"{figure(times * one.lower)} … {figure(times * one.upper)} {unit}"


def _layer_tables(one: Forecast) -> Iterator[Table]:
    """Yield the time of each phase, where there are several, and every layer in the order in which they run."""
    times, unit = _scale(one)
    spent = [f"computes, {unit}", f"sends, {unit}"]
    sums: dict[str, list[float]] = {}
    body = []
    for layer in one.layers:
        seconds = [times * getattr(layer, name) for name in _SECONDS]
        of_phase = sums.setdefault(layer.phase or "–", [0.0, 0.0])
        sums[layer.phase or "–"] = [sum(pair) for pair in zip(of_phase, seconds, strict=True)]
        when = times * layer.start_s, times * layer.end_s
        cells = (layer.name, SOURCES[layer.source], *map(figure, (*seconds, *when)))
        body.append(Row(cells, "" if layer.critical else "soft"))
    if len(sums) > 1:
        phases = [(phase, *map(figure, of_phase)) for phase, of_phase in sums.items()]
        yield Table(columns("phase", numbers=spent), rows(phases), "Phases")
    heads = columns("layer", "time", numbers=[*spent, f"starts, {unit}", f"ends, {unit}"])
    caption = "Pale layers are not what the end waits for."
    yield _long(Table(heads, body, "Every layer", caption), "layers")


def _long(table: Table, what: str) -> Table:
    """Return a table of which a terminal shows the first rows, and a page a line to unfold it."""
    folded = ""
    if len(table.rows) > SHOWN:
        folded = f"All {len(table.rows):,} {what}"
    return replace(table, shown=SHOWN, folded=folded)


def _rank_table(one: Forecast) -> Table:
    """Return what every rank does until the job ends."""
    times, unit = _scale(one)
    cells = []
    for rank in one.ranks:
        seconds = (getattr(rank, name) for name in (*_OF_RANK, "behind_s"))
        texts = ("–" if each is None else figure(times * each) for each in seconds)
        cells.append((str(rank.rank), *texts))
    heads = [f"{head}, {unit}" for head in (*_OF_RANK.values(), "behind")]
    caption = (
        "The times of a row but the last add up to the job. Three columns are waits: for a "
        "partner that has not begun to send, or does not want to receive yet, and in a collective "
        "for the last rank. Behind: how much later than "
        "the first it comes to collectives, in the mean."
    )
    return _long(Table(columns("rank", numbers=heads), rows(cells), "Ranks", caption), "ranks")


def _bin_table(one: Forecast) -> Table:
    """Return what all ranks do in each bin of time."""
    times, unit = _scale(one)
    cells = []
    for each in one.bins:
        shares = [f"{100 * getattr(each, name):.1f} %" for name in _OF_BIN]
        cells.append([figure(times * each.start_s), *shares, figure(each.message_bytes / 1e6)])
    caption = (
        "Shares of the time of all ranks. The bytes of a message are spread evenly over its time; "
        "one of a collective counts for every rank in it."
    )
    heads = [f"from, {unit}", *_OF_BIN.values(), "messages, MB"]
    return _long(Table(columns(numbers=heads), rows(cells), "Bins", caption), "bins")


_OF_BIN: Final = wording("forecast-of-bin")
_OF_RANK: Final = wording("forecast-of-rank")
_SECONDS: Final = ("compute_s", "message_s")
_MAY_BE_ASSUMED: Final = (
    "dtype",
    "kv_dtype",
    "max_batched_tokens",
    "memory_utilisation",
    "eager",
    "prefix_cache",
    "max_num_seqs",
)


def _parts_table(one: Forecast) -> Table:
    times, unit = _seconds(one)
    whole = sum(value[0] for value in one.parts.values())
    parts = _longest(one)
    bounds = chain.from_iterable(bounds for _, bounds in parts)
    texts = iter(alike(*(times * bound for bound in bounds)))
    cells = [
        (PARTS[name], next(texts), f"{next(texts)} … {next(texts)}", share(bounds[0] / whole))
        for name, bounds in parts
    ]
    heads = columns("part", numbers=[f"time, {unit}", "interval", "share"])
    return Table(heads, rows(cells), "Where the time goes")


def _grid_table(
    answers: Sequence[Forecast],
    asked: Sequence[Mapping[str, Any]],
    names: Sequence[str],
    need: float | None,
    price: Prices,
) -> Table:
    stated = set().union(*(one.details for one in answers))
    shown = {"first_token_s": "TTFT, ms", "seconds_per_token": "TPOT, ms"}
    times = {name: head for name, head in shown.items() if name in stated}
    rate = "tokens_per_second_per_gpu"
    held = any(MEASURED in fields for fields in asked)
    heads = ["predicted", "interval"]
    if held:
        heads += ["measured", "off by"]
    heads += times.values()
    if rate in stated:
        heads += ["tokens/s/GPU", "GiB per GPU"]
    if need is not None:
        heads.append(f"within ±{100 * need:g} %")
    if price:
        heads.append(price.titled("cost"))
    body = []
    for fields, one in zip(asked, answers, strict=True):
        cells = [_word(fields.get(name)) for name in names]
        if one.reason is not None:
            body.append(Row((*cells, str(one.reason)), "soft"))
            continue
        cells += [_predicted(one), _interval(one)]
        if held:
            measured = fields.get(MEASURED, math.nan)
            off = formatted(100 * (one.predicted / measured - 1), "{:+.1f} %")
            cells += [figure(_scale(one)[0] * measured), off]
        cells += [figure(1e3 * one.details.get(name, math.nan)) for name in times]
        if rate in stated:
            cells += [figure(one.details.get(rate)), figure(one.memory_gb)]
        if need is not None:
            cells.append(one.sure(need))
        if price:
            cells.append(figure(cost_of(one, price)))
        body.append(Row(tuple(cells)))
    fields = (Column(ASKED.get(name, name), "name") for name in names)
    return _long(Table((*fields, *columns(numbers=heads)), body, "Settings"), "settings")


def _best(answered: Sequence[Forecast], level: float) -> Headline:
    """Return the setting with the most tokens per second and GPU; of graphs the one that takes the least time."""
    served = [one for one in answered if "tokens_per_second_per_gpu" in one.details]
    beneath = f"Of all {counted(len(answered), 'setting')}; {100 * level:g} % interval "
    if not served:
        one = min(answered, key=lambda answer: answer.predicted)
        headline = _answer(one, level)
        least = f"least time: {headline.about}"
        return replace(headline, about=least, beneath=f"{beneath}{_interval(one)}.")
    one = max(served, key=_rate)
    headline = _answer(one, level)
    beneath = f"{headline.answer}. {beneath}{_interval(one)}."
    answer = f"{figure(_rate(one))} tokens/s per GPU"
    if "seconds_per_token" in one.details:
        paced = [other for other in served if "seconds_per_token" in other.details]
        fast = min(paced, key=lambda other: (other.details["seconds_per_token"], -_rate(other)))
        answer = _pace(one)
        if fast is not one:
            beneath += f" Fastest: {_pace(fast)}, {about(fast.setting) if fast.setting else ''}."
    return Headline(f"most tokens per GPU: {headline.about}", answer, "", beneath)


def _rate(one: Forecast) -> float:
    return one.details["tokens_per_second_per_gpu"]


def _pace(one: Forecast) -> str:
    """Say how many tokens a GPU makes, and how fast a user gets them."""
    return (
        f"{figure(_rate(one))} tokens/s per GPU at "
        f"{figure(1e3 * one.details['seconds_per_token'])} ms a token"
    )


def _json(asked: Mapping[str, Any], one: Forecast, need: float | None, level: float) -> JSON:
    result: JSON = {"asked": {name: _word(value) for name, value in asked.items()}}
    result |= picked(one, "predicted", "lower", "upper", "unit", "memory_gb", "fits")
    if one.memory_limits:
        lower, upper = one.memory_limits
        result |= {"memory_gb_lower": lower, "memory_gb_upper": upper}
        result["memory_verdict"] = one.memory_verdict
    result["reason"] = one.reason and one.reason.to_dict()
    result["parts"] = {name: list(value) for name, value in one.parts.items()}
    result["spreads"] = dict(one.spreads)
    result["details"] = dict(one.details)
    result["remarks"] = [note.to_dict() for note in one.remarks]
    for name in ("layers", "ranks", "bins"):
        parts = getattr(one, name)
        if parts:
            result[name] = [asdict(part) for part in parts]
    if need is not None:
        result["sure"] = one.sure(need)
        result["need"] = None
        if one.reason is None:
            result["need"] = one.needed(need, level).told.to_dict()
    return result


def _class(half_width: float) -> str:
    """Return the class of a half-width in words: ``within 10 to 20 %``."""
    edges = (0.0, *CLASSES)
    for lower, upper in zip(edges, CLASSES, strict=False):
        if half_width < upper:
            if lower:
                return f"known within {100 * lower:g} to {100 * upper:g} %"
            return f"known within {100 * upper:g} %"
    return "known to no better than a factor of two"


def _flops(value: float) -> str:
    for unit, size in (("EFLOP/s", 1e18), ("PFLOP/s", 1e15), ("TFLOP/s", 1e12)):
        if value >= size:
            return formatted(value / size, "{:,.4g}") + f" {unit}"
    return formatted(value / 1e9, "{:,.4g}") + " GFLOP/s"


def varied(asked: Sequence[Mapping[str, Any]]) -> list[str]:
    """Return the fields that differ between the settings."""
    return [name for name in asked[0] if len({_word(row.get(name)) for row in asked}) > 1]


def _word(value: Any) -> str:
    if isinstance(value, Mapping):
        return str(value.get("name") or value.get("_name_or_path") or "stated")
    return str(getattr(value, "name", value))


PARTS: Final = wording("forecast-parts")
"""Parts of a time, and where its spread comes from."""
ASKED: Final = wording("forecast-asked")
"""Fields of a setting, as heads; others are called as they are."""
SHOWN: Final = 40  # rows of a grid on a terminal, and of bars
MOST_LINES: Final = 16  # of a figure
LEGEND: Final = {"orientation": "h", "y": -0.14, "yanchor": "top", "x": 0}
_BAND: Final = 0.15  # opacity of a band
COLOURS: Final = (SELECTED, *OTHERS)
SERIES: Final = (
    "gpu",
    "gpus",
    "tp",
    "pp",
    "dp",
    "ep",
    "dtype",
    "kv_dtype",
    "release",
    "network_gbs",
    "max_num_seqs",
)
_LENGTHS: Final = ("batch", "input_len", "output_len", "num_prompts")
_TICKS: Final = 12  # values of a field that an axis names
_NAMED: Final = 4  # points of a line from which its name has room beside it


def curve_figure(answers: Sequence[Forecast], over: str = "batch") -> go.Figure | None:
    """Draw the answer, and tokens per second and GPU, over a field; a line with its band per way of all the others.

    ``over`` is ``batch``, ``input_len``, ``output_len`` or ``num_prompts``. None where it does not
    vary, or there would be more than `MOST_LINES` lines, with the lengths beside it at their middle
    value.
    """
    served = [one for one in answers if one.reason is None and isinstance(one.setting, Setting)]
    served = [one for one in served if one.setting and one.setting.kind != "training"]
    fields, curves = _series(served, over)
    fixed = []
    for name in _LENGTHS:
        if len(curves) > MOST_LINES and name in fields:
            values = sorted({_at(name, one) for one in served})
            middle = values[len(values) // 2]
            served = [one for one in served if _at(name, one) == middle]
            fields, curves = _series(served, over)
            fixed.append(f"{ASKED.get(name, name)} {middle:,}")
    if not 0 < len(curves) <= MOST_LINES:
        return None
    drawn = Drawing().set_subplots(
        rows=2,
        cols=1,
        shared_xaxes=True,
        vertical_spacing=0.06,
    )
    for place, (key, points) in enumerate(curves.items()):
        look = cycled(place, COLOURS)
        name_parts = (
            value if name in ("model", "gpu", "dtype") else f"{ASKED.get(name, name)}: {value}"
            for name, value in zip(fields, key, strict=True)
        )
        name = ", ".join(name_parts) or "answer"
        x = [_at(over, one) for one in points]
        _add_curve(drawn, name, x, points, look)
        if len(curves) > 1 and len(x) >= _NAMED:
            name_line(
                drawn,
                name,
                (place, len(curves)),
                x,
                [one.predicted for one in points],
                look["color"],
            )
    unit = served[0].unit
    label = unit
    if unit == "s":
        label = "seconds"
    drawn.update_xaxes(type="log")
    if len(ticks := sorted({_at(over, one) for one in served})) <= _TICKS:
        drawn.update_xaxes(tickvals=ticks, ticktext=[f"{tick:,}" for tick in ticks])
    at = ""
    if fixed:
        at = f" (at {', '.join(fixed)})"
    drawn.update_xaxes(
        title_text=ASKED.get(over, over) + at,
        row=2,
        col=1,
    )
    drawn.update_yaxes(type="log", title_text=label, row=1, col=1)
    drawn.update_yaxes(type="log", title_text="tokens/s per GPU", row=2, col=1)
    return styled(drawn, 520 + 22 * len(curves), LEGEND)


def _series(
    served: Sequence[Forecast], over: str
) -> tuple[list[str], dict[tuple[str, ...], list[Forecast]]]:
    """Return which other fields vary, and the answers by their values, in the order of ``over``, but single ones."""
    fields = []
    for name in ("model", *SERIES, *_LENGTHS):
        if name != over and len({_field(one, name) for one in served}) > 1:
            fields.append(name)
    curves: dict[tuple[str, ...], list[Forecast]] = {}
    for one in served:
        curves.setdefault(tuple(_field(one, name) for name in fields), []).append(one)
    at = partial(_at, over)
    curves = {key: sorted(points, key=at) for key, points in curves.items()}
    return fields, {key: points for key, points in curves.items() if len(set(map(at, points))) > 1}


def _add_curve(
    drawn: go.Figure, name: str, x: list[int], points: Sequence[Forecast], look: dict[str, str]
) -> None:
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
    drawn.add_scatter(
        x=x + x[::-1], y=edge, fillcolor=look["color"], legendgroup=name, **band, row=1, col=1
    )
    rates = [one.details["tokens_per_second_per_gpu"] for one in points]
    line = {
        "mode": "lines+markers",
        "line": {**look, "width": 2},
        "marker": {"size": 5},
        "legendgroup": name,
    }
    for panel, values in ((1, [one.predicted for one in points]), (2, rates)):
        shown = {"name": name, "showlegend": panel == 1}
        drawn.add_scatter(
            x=x,
            y=values,
            **line,
            **shown,
            row=panel,
            col=1,
        )


def _field(one: Forecast, name: str) -> str:
    value = getattr(one.setting, name)
    return str(getattr(value, "name", value))


def _at(over: str, one: Forecast) -> int:
    return int(getattr(one.setting, over))


def pareto_figure(answers: Sequence[Forecast]) -> go.Figure | None:
    """Draw throughput per GPU against the time per token, with the front of each GPU; None for fewer than two."""
    points = [
        one
        for one in answers
        if one.reason is None and one.setting and "seconds_per_token" in one.details
    ]
    if len(points) < 2:
        return None
    kinds: dict[str, list[Forecast]] = {}
    for one in points:
        kinds.setdefault(one.setting.gpu.name if one.setting else "", []).append(one)
    drawn = Drawing()
    for place, (gpu, answers_of_gpu) in enumerate(kinds.items()):
        x = np.array([1e3 * one.details["seconds_per_token"] for one in answers_of_gpu])
        y = np.array([_rate(one) for one in answers_of_gpu])
        order = np.lexsort((-y, x))
        front = order[y[order] > np.concatenate([[0.0], np.maximum.accumulate(y[order])[:-1]])]
        look = cycled(place, COLOURS)
        names = np.array([about(one.setting) for one in answers_of_gpu if one.setting])
        every = {"mode": "markers", "marker": {"color": look["color"], "opacity": 0.45, "size": 5}}
        drawn.add_scatter(
            x=x,
            y=y,
            text=names,
            name=gpu,
            **every,
        )
        line = {"mode": "lines+markers", "line": {**look, "width": 2}}
        drawn.add_scatter(
            x=x[front],
            y=y[front],
            text=names[front],
            name=f"front of {gpu}",
            **line,
        )
        name_line(
            drawn,
            gpu,
            (place, len(kinds)),
            x[front],
            y[front],
            look["color"],
        )
    drawn.update_layout(showlegend=False)
    log_axes(drawn, "ms per token", "tokens per second and GPU")
    return styled(drawn, 420, {})


def parts_figure(answers: Sequence[Forecast]) -> go.Figure:
    """Draw what each answer's time is made of, as stacked bars."""
    drawn = Drawing()
    points = [one for one in answers if one.reason is None and one.setting is not None][:SHOWN]
    labels = [f"{place + 1}" for place in range(len(points))]
    names = [about(one.setting) for one in points if one.setting is not None]
    every_name = []
    for point in points:
        every_name.extend(point.parts)
    for place, part in enumerate(dict.fromkeys(every_name)):
        values = [one.parts.get(part, (0.0,))[0] for one in points]
        if not any(values):
            continue
        shape = ""
        if place >= len(COLOURS):
            shape = "/"
        look = {
            "color": COLOURS[place % len(COLOURS)],
            "pattern": {"shape": shape},
        }
        named = {"name": PARTS[part], "hovertext": names, "marker": look}
        drawn.add_bar(y=labels, x=values, orientation="h", **named)
    drawn.update_layout(barmode="stack")
    drawn.update_xaxes(title_text="seconds")
    title_text = ""
    if len(points) > 1:
        title_text = "setting"
    drawn.update_yaxes(autorange="reversed", title_text=title_text)
    # the legend, two rows of it, stands beneath the axis and its title
    bars = 28 * max(len(points), 2)
    return styled(
        drawn,
        200 + bars,
        {**LEGEND, "y": -60 / (40 + bars)},
    )


def about(setting: Setting | GraphSetting) -> str:
    """Summarise the question in a line: model, GPUs and parallelism, number format, work, release."""
    if isinstance(setting, GraphSetting):
        count = counted(len(setting.model.layers), "layer")
        where = f"{count} of {setting.model.name} on {setting.gpus} × {setting.gpu.name}"
        products = [
            one.sizes
            for one in setting.model.layers
            if one.op in OPS and OPS[one.op].unit == "matrix"
        ]
        formats = Counter(str(sizes.get("dtype_a", setting.dtype)) for sizes in products)
        return ", ".join([where, *(name for name, _ in formats.most_common())])
    cut = [
        f"{name} {value}"
        for name in ("tp", "pp", "dp", "cp", "ep")
        if (value := getattr(setting, name)) > 1
    ]
    where = f"{setting.gpus} × {setting.gpu.name}" + (f" ({', '.join(cut)})" if cut else "")
    if setting.kind == "training":
        what = f"a step of {setting.global_batch:,} sequences of {setting.seq_len:,} tokens"
    elif setting.kind == "throughput":
        what = (
            f"{setting.num_prompts:,} requests of {setting.input_len:,} tokens, answers of "
            f"{setting.output_len:,}"
        )
    else:
        what = (
            f"batch {setting.batch:,}, prompts of {setting.input_len:,} tokens, answers of "
            f"{setting.output_len:,}"
        )
    release = ""
    if setting.release:
        release = f", {setting.release}"
    return f"{setting.model.name} on {where}, {setting.dtype}, {what}{release}"


def rank_figure(one: Forecast) -> go.Figure:
    """Draw what each rank does until the job ends, kind by kind, not in the order of time."""
    times, unit = _scale(one)
    names = [f"rank {rank.rank}" for rank in one.ranks]
    drawn = Drawing()
    colours = (SELECTED, *OTHERS, NEUTRAL)
    for (name, words), colour in zip(_OF_RANK.items(), colours, strict=True):
        lengths = [times * getattr(rank, name) for rank in one.ranks]
        drawn.add_bar(
            name=words, y=names, x=lengths, orientation="h", marker={"color": colour},
            hovertemplate=f"%{{y}}, {words}: %{{x:.4~g}} {unit}<extra></extra>",
        )  # fmt: skip
    drawn.update_layout(barmode="stack")
    drawn.update_xaxes(title_text=unit)
    drawn.update_yaxes(autorange="reversed", automargin=True, type="category")
    height = 150 + 24 * min(len(names), 40)
    legend = {**LEGEND, "y": 1.02, "yanchor": "bottom", "traceorder": "normal"}
    return styled(drawn, height, legend)


def timeline_figure(one: Forecast) -> go.Figure:
    """Draw when each layer of a graph computes and sends; the critical path is blue."""
    drawn = Drawing()
    for critical, colour, name in (
        (True, SELECTED, "the end waits for it"),
        (False, NEUTRAL, "others"),
    ):
        bars = []
        for layer in one.layers:
            if layer.critical == critical:
                for stream, start, seconds in (
                    ("computes", layer.start_s, layer.compute_s),
                    ("sends", layer.end_s - layer.message_s, layer.message_s),
                ):
                    if seconds > 0:
                        bars.append((stream, start, seconds, layer.name))
        if bars:
            streams, starts, lengths, names = (list(column) for column in zip(*bars, strict=True))
            edge = {"color": "rgba(255,255,255,0.6)", "width": 1}
            look = {
                "marker": {"color": colour, "line": edge},
                "orientation": "h",
                "width": 0.5,
                "name": name,
            }
            hover = "%{hovertext}: %{x:.4~s}s<extra></extra>"
            drawn.add_bar(
                y=streams,
                x=lengths,
                base=starts,
                hovertext=[escape(n) for n in names],
                hovertemplate=hover,
                **look,
            )
    drawn.update_layout(barmode="overlay")
    drawn.update_xaxes(title_text="seconds")
    return styled(drawn, 240, {**LEGEND, "y": 1.02, "yanchor": "bottom"})

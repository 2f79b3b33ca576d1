"""What `forecast` says of whole workloads, as documents: the answers, what they are made of, what they rest on."""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import asdict, replace
from functools import partial
from itertools import product
from typing import Any, Final

import numpy as np

from ..workloads.answer import Forecast
from ..workloads.layer_graph import GraphSetting
from ..workloads.releases import Release
from ..workloads.setting import Setting
from ..workloads.supercomputers import Score
from .document import (
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
    remarked,
    rows,
)
from .forecast_figures import SHOWN, about, curve_figure, pareto_figure, timeline_figure
from .formats import alike, counted, figure, formatted, share
from .words import say
from .words.workloads import ASKED, INPUTS, MEMORY, PARTS, SOURCES

SCHEMA: Final = 1
CLASSES: Final = (0.05, 0.10, 0.20, 0.50, 1.00)
"""Upper ends of the classes of half-widths."""
MOST_CHOICES: Final = 2000
"""Settings that sliders go over; a page of more would be slow."""
CURVES: Final = ("batch", "input_len", "num_prompts")
"""Fields over which latency and throughput are drawn."""


def forecast_document(
    answers: Sequence[Forecast],
    asked: Sequence[Mapping[str, Any]],
    *,
    level: float,
    need: float | None = None,
    price: float | None = None,
) -> Document:
    """Return forecasts for readers: one in full, many as a table with figures over batch and throughput."""
    data = {
        "schema": SCHEMA,
        "level": level,
        "forecasts": [_json(*pair, need) for pair in zip(asked, answers, strict=True)],
    }
    title = "Forecast"
    if len(answers) == 1:
        return _single(answers[0], level, need, price, data)
    answered = [one for one in answers if one.reason is None]
    lead = f"{counted(len(answers), 'setting')}, {len(answered)} answered; intervals of {100 * level:g} %"
    names = varied(asked)
    curves = [Figure(partial(curve_figure, answers, name), f"Over {ASKED.get(name, name)}") for name in CURVES]
    front = "Throughput per GPU against the time per token; the line is the front"
    table = _grid_table(answers, asked, names, need, price)
    notes = [note for one in answered for note in one.remarks]
    return Document(
        title=title,
        lead=lead,
        opening=[_best(answered, level)] if answered else [],
        sections=[
            Section("Any of them", _sliders(answers, asked, names, level, need, price), "choose", "Choose"),
            Section("Figures", [*curves, Figure(partial(pareto_figure, answers), front)], "figures", "Figures"),
            Section("Settings", [table], "settings", "Settings"),
            Section("Remarks", [Lines(remarked(notes), "list")]),
        ],
        data=data,
    )


def _sliders(
    answers: Sequence[Forecast],
    asked: Sequence[Mapping[str, Any]],
    names: Sequence[str],
    level: float,
    need: float | None,
    price: float | None,
) -> list[Part]:
    """Return sliders over what is varied, where the settings are few enough; a combination not asked for says so."""
    axes = [(name, tuple(dict.fromkeys(_word(row.get(name)) for row in asked))) for name in names]
    if not names or math.prod(len(values) for _, values in axes) > MOST_CHOICES:
        return []
    known = {tuple(_word(row.get(name)) for name in names): one for row, one in zip(asked, answers, strict=True)}
    combined = list(product(*(values for _, values in axes)))
    best = max(range(len(combined)), key=lambda place: _rate(known.get(combined[place])))
    choices = [_choice(known.get(values), level, need, price) for values in combined]
    return [Sliders([(ASKED.get(name, name), values) for name, values in axes], choices, best)]


def _rate(one: Forecast | None) -> float:
    """Return tokens per second and GPU, of graphs the inverse of the time; 0 where there is no answer."""
    if one is None or one.reason is not None:
        return 0.0
    return one.details.get("tokens_per_second_per_gpu", 1.0 / one.predicted)


def _choice(one: Forecast | None, level: float, need: float | None, price: float | None) -> list[Part]:
    if one is None:
        return [lines(["not among the settings that were asked for"])]
    if one.reason is not None or one.setting is None:
        return [lines([say(one.reason)] if one.reason else [])]
    known = Table(columns("", numbers=["figure"]), rows(_facts(one, need, price)))
    return [_answer(one, level), known, *_bars(one)]


def _bars(one: Forecast) -> list[Part]:
    """Return what the time is made of, and what fills the memory of a GPU, as bars."""
    times, unit = _scale(one)
    unit = unit if unit == "ms" else "s"
    whole = sum(value[0] for value in one.parts.values())
    parts = sorted(((name, value[0]) for name, value in one.parts.items() if value[0] > 0), key=lambda part: -part[1])
    told = alike(*(times * value for _, value in parts))
    time = [Bar(PARTS[name], value / whole, f"{text} {unit}") for (name, value), text in zip(parts, told, strict=True)]
    room = one.setting.gpu.memory_gb if one.setting else None
    memory = []
    if room:
        *told, all_of_it = alike(*one.memory.values(), one.memory_gb)
        filled = zip(one.memory.items(), told, strict=True)
        memory = [Bar(MEMORY[name], value / room, f"{text} GiB") for (name, value), text in filled]
        memory.append(Bar("all of it", min(one.memory_gb / room, 1.0), f"{all_of_it} of {figure(room)} GiB"))
    return [
        Bars("What the time is made of", time),
        Bars("What fills the memory of a GPU", memory if one.memory else []),
    ]


def score_document(score: Score, level: float, gpu: str = "device") -> Document:
    """Return a forecast score of HPL or HPCG on so many of a GPU for readers."""
    name = score.benchmark.upper()
    beneath = (
        f"{100 * level:g} % interval {_flops(score.lower)} … {_flops(score.upper)}; mean {_flops(score.mean)}. "
        f"The peak alone, {_PEAKS[score.benchmark]}, is the simplest rule."
    )
    told = [Row((INPUTS[key], figure(value))) for key, value in score.inputs.items()]
    data = {"schema": SCHEMA, "level": level, **{key: value for key, value in vars(score).items() if key != "remarks"}}
    bars = [Bar(PARTS[name], part, share(part)) for name, part in score.shares.items()]
    return Document(
        title=f"{name} on {score.devices:,} × {gpu}",
        lead="A forecast: the median of what the inputs below and their spreads give",
        opening=[Headline("", _flops(score.predicted), f"peak alone: {_flops(score.peak)}", beneath)],
        sections=[
            Section(
                "What the score is made of", [Table(columns("input", numbers=["median"]), told)], "inputs", "Inputs"
            ),
            Section("Where the time goes", [Bars("Part of the time", bars)], "time", "Time"),
            Section("Remarks", [Lines(remarked(score.remarks), "list")]),
        ],
        data=data,
    )


_PEAKS: Final = {"hpl": "of 64-bit arithmetic", "hpcg": "of the memory"}


def release_document(release: Release) -> Document:
    """Return the constants of a release for readers."""
    spread = np.sqrt((release.root**2).sum(axis=1))
    told = []
    for (name, constant), mean, own in zip(release.constants.items(), release.mean, spread, strict=True):
        value = constant.value * float(np.exp(mean))
        told.append((constant.what, f"{figure(value)} {constant.unit}".strip(), share(float(own)), PARTS[name]))
    told_of = f"{release.name}: {counted(release.runs, 'run')} of {', '.join(release.models)} on {release.gpu}"
    names = Table(columns("constant", numbers=["fitted", "1 σ"], prose=["part"]), rows(told), "Constants")
    data = {
        "schema": SCHEMA,
        **{key: getattr(release, key) for key in ("name", "kind", "gpu", "runs", "largest", "source")},
    }
    data |= {"models": list(release.models), "mean": release.mean.tolist(), "root": release.root.tolist()}
    return Document(title=told_of, sections=[Section("Constants", [names])], data=data)


def _single(one: Forecast, level: float, need: float | None, price: float | None, data: Mapping[str, Any]) -> Document:
    assert one.setting is not None
    asked, title = about(one.setting), f"Forecast of {one.setting.model.name}"
    if one.reason is not None:
        opening = [Headline(asked, say(one.reason))]
        return Document(title=title, lead=asked, opening=opening, sections=[], data=data)
    told = list(_facts(one, need, price))
    known = Table(columns("", numbers=["figure"]), rows(told), "Figures")
    sections = [
        Section("Figures", [known]),
        Section("Where the time goes", [_parts_table(one), *_bars(one)], "parts", "Parts"),
        Section("What the interval is made of", [_spread_table(one)], "interval", "Interval"),
        Section("Remarks", [Lines(remarked(one.remarks), "list"), lines([_assumed(one.setting)])]),
    ]
    if one.layers:
        drawn = Figure(partial(timeline_figure, one), "When each layer computes and sends")
        sections.insert(2, Section("Layers", [*_layer_tables(one), drawn]))
    return Document(
        title=title,
        lead=asked,
        opening=[replace(_answer(one, level), about="")],
        sections=sections,
        data=data,
    )


def _answer(one: Forecast, level: float) -> Headline:
    """Return the answer with its interval, beside what peak rates alone would say."""
    setting, (times, unit) = one.setting, _scale(one)
    assert setting is not None
    beneath = f"{100 * level:g} % interval {_interval(one)} ({_class(one.half_width)})."
    rival, naive = "", one.details.get("roofline_s", math.nan)
    if math.isfinite(naive) and isinstance(setting, Setting):
        if one.unit != "s":
            naive = setting.num_prompts * setting.output_len / naive
        rival = f"peak rates alone: {figure(times * naive)} {unit}"
        beneath += _SIMPLEST
    takes = "a step" if getattr(setting, "kind", "") == "training" else _TAKES[one.unit]
    return Headline(about(setting), f"{_predicted(one)}, {takes}", rival, beneath)


_SIMPLEST: Final = " Peak rates alone are the simplest rule: no launches, no messages, no waiting."


_TAKES: Final = {"s": "from start to end", "tok/s": "of all GPUs together"}
"""What an answer measures, by its unit."""


def _facts(one: Forecast, need: float | None, price: float | None) -> Iterator[tuple[str, str]]:
    found, setting = one.details, one.setting
    assert setting is not None
    if "seconds_per_token" in found:
        yield "time per token, ms", figure(1e3 * found["seconds_per_token"])
    if "tokens_per_second" in found:
        yield "tokens per second", figure(found["tokens_per_second"])
        yield "tokens per second and GPU", figure(found["tokens_per_second_per_gpu"])
    if "counted_tflops_per_gpu" in found:
        rate = found["counted_tflops_per_gpu"]
        of_peak = share(rate / setting.gpu.peak_tflops(setting.dtype), 0)
        yield "counted TFLOP/s per GPU", f"{figure(rate)}, {of_peak} of the peak"
    for name, words in (
        ("compute_s", "computing"),
        ("communication_s", "messages"),
        ("overlapped_s", "of both at once"),
    ):
        if name in found:
            yield f"{words}, {_scale(one)[1]}", figure(_scale(one)[0] * found[name])
    if "sequences_at_once" in found:
        yield "sequences at once", figure(found["sequences_at_once"])
    if isinstance(setting, Setting):
        model = setting.model
        active = f", a token meets {figure(model.active_parameters / 1e9)}" if model.experts else ""
        yield "weights, billions", f"{figure(model.parameters / 1e9)}{active}"
    if one.fits is not None:
        yield "memory per GPU, GiB", f"{figure(one.memory_gb)} of {figure(setting.gpu.memory_gb)}"
    yield "mean power of all GPUs, W", figure(found["power_w"])
    if found["energy_j"] >= 1e3:
        yield "energy, kJ", figure(found["energy_j"] / 1e3)
    else:
        yield "energy, J", figure(found["energy_j"])
    if price is not None:
        cost = found["seconds"] / 3600 * setting.gpus * price
        yield "cost", figure(cost)
        if "tokens_per_second" in found:
            yield "cost per million tokens", figure(cost / (found["tokens_per_second"] * found["seconds"]) * 1e6)
    if need is not None:
        yield f"within ±{100 * need:g} %", one.sure(need)


def _scale(one: Forecast) -> tuple[float, str]:
    """Return the unit in which an answer is told, and how many there are of its own in one: ms of short times."""
    return (1e3, "ms") if one.unit == "s" and one.predicted < 0.1 else (1.0, one.unit)


def _predicted(one: Forecast) -> str:
    times, unit = _scale(one)
    return f"{figure(times * one.predicted)} {unit}"


def _interval(one: Forecast) -> str:
    times, unit = _scale(one)
    return f"{figure(times * one.lower)} … {figure(times * one.upper)} {unit}"


def _layer_tables(one: Forecast) -> Iterator[Table]:
    """Yield the time of each phase, where there are several, and every layer in the order in which they run."""
    times, unit = _scale(one)
    phases = list(dict.fromkeys(layer.phase for layer in one.layers))
    if len(phases) > 1:
        sums = [(of, [layer for layer in one.layers if layer.phase == of]) for of in phases]
        told = [
            (of or "–", *(figure(times * sum(getattr(layer, name) for layer in own)) for name in _SECONDS))
            for of, own in sums
        ]
        yield Table(columns("phase", numbers=[f"computes, {unit}", f"sends, {unit}"]), rows(told), "Phases")
    numbers = [f"computes, {unit}", f"sends, {unit}", f"starts, {unit}", f"ends, {unit}"]
    found = [
        Row(
            (
                layer.name,
                SOURCES[layer.source],
                *(figure(times * getattr(layer, name)) for name in (*_SECONDS, *_WHEN)),
            ),
            "" if layer.critical else "soft",
        )
        for layer in one.layers
    ]
    caption = "Pale layers are not what the end waits for."
    folded = f"All {len(found):,} layers" if len(found) > SHOWN else ""
    yield Table(columns("layer", "time", numbers=numbers), found, "Every layer", caption, shown=SHOWN, folded=folded)


_SECONDS: Final = ("compute_s", "message_s")
_WHEN: Final = ("start_s", "end_s")


_MAY_BE_ASSUMED: Final = (
    "dtype", "kv_dtype", "max_batched_tokens", "memory_utilisation", "eager", "prefix_cache", "max_num_seqs",
)  # fmt: skip


def _assumed(setting: Setting | GraphSetting) -> str:
    if isinstance(setting, GraphSetting) or setting.kind == "training":
        return ""
    taken = [f"{name} {getattr(setting, name)}" for name in _MAY_BE_ASSUMED if name in setting.assumed]
    return f"assumed: {', '.join(taken)}" if taken else ""


def _parts_table(one: Forecast) -> Table:
    whole = sum(value[0] for value in one.parts.values())
    times, unit = _scale(one)
    unit = unit if unit == "ms" else "s"
    parts = sorted(((name, value) for name, value in one.parts.items() if value[0] > 0), key=lambda part: -part[1][0])
    texts = iter(alike(*(times * bound for _, bounds in parts for bound in bounds)))
    told = [
        (PARTS[name], middle, f"{low} … {high}", share(bounds[0] / whole))
        for (name, bounds), (middle, low, high) in zip(parts, zip(texts, texts, texts, strict=True), strict=True)
    ]
    return Table(columns("part", numbers=[f"time, {unit}", "interval", "share"]), rows(told), "Where the time goes")


def _spread_table(one: Forecast) -> Table:
    told = [(PARTS[name], f"±{100 * value:.1f} %") for name, value in one.spreads.items() if value >= 0.001]
    return Table(columns("from", numbers=["1 σ"]), rows(told), "What the interval is made of")


def _grid_table(
    answers: Sequence[Forecast],
    asked: Sequence[Mapping[str, Any]],
    names: Sequence[str],
    need: float | None,
    price: float | None,
) -> Table:
    found = []
    served = any("tokens_per_second_per_gpu" in one.details for one in answers)
    for fields, one in zip(asked, answers, strict=True):
        cells = [_word(fields.get(name)) for name in names]
        if one.reason is not None:
            found.append(Row((*cells, say(one.reason)), "soft"))
            continue
        told = [_predicted(one), _interval(one)]
        if served:
            told += [figure(one.details.get("tokens_per_second_per_gpu")), figure(one.memory_gb)]
        if need is not None:
            told.append(one.sure(need))
        if price is not None:
            assert one.setting is not None
            told.append(figure(one.details["seconds"] / 3600 * one.setting.gpus * price))
        found.append(Row((*cells, *told)))
    heads = ["predicted", "interval", *(["tokens/s/GPU", "GiB per GPU"] if served else [])]
    heads += [f"within ±{100 * need:g} %"] if need is not None else []
    heads += ["cost"] if price is not None else []
    every = (*(Column(ASKED.get(name, name), "name") for name in names), *(Column(head, "number") for head in heads))
    folded = f"All {len(found):,} settings" if len(found) > SHOWN else ""
    return Table(every, found, "Settings", shown=SHOWN, folded=folded)


def _best(answered: Sequence[Forecast], level: float) -> Headline:
    """Return the setting with the most tokens per second and GPU; of graphs the one that takes the least time."""
    served = [one for one in answered if "tokens_per_second_per_gpu" in one.details]
    beneath = f"Of all {counted(len(answered), 'setting')}; {100 * level:g} % interval "
    if not served:
        one = min(answered, key=lambda answer: answer.predicted)
        told = _answer(one, level)
        return replace(told, about=f"least time: {told.about}", beneath=f"{beneath}{_interval(one)}.")
    one = max(served, key=lambda answer: answer.details["tokens_per_second_per_gpu"])
    told, found = _answer(one, level), one.details
    rate, naive = found["tokens_per_second_per_gpu"], found["seconds"] / found["roofline_s"]
    rival = f"peak rates alone: {figure(rate * naive)} tokens/s per GPU" if math.isfinite(naive) else ""
    beneath = f"{told.answer}. {beneath}{_interval(one)}.{_SIMPLEST if rival else ''}"
    return Headline(f"most tokens per GPU: {told.about}", f"{figure(rate)} tokens/s per GPU", rival, beneath)


def _json(asked: Mapping[str, Any], one: Forecast, need: float | None) -> dict[str, Any]:
    found: dict[str, Any] = {"asked": {name: _word(value) for name, value in asked.items()}}
    found |= {name: getattr(one, name) for name in ("predicted", "lower", "upper", "unit", "memory_gb", "fits")}
    found["reason"] = None if one.reason is None else one.reason.to_dict()
    found["parts"] = {name: list(value) for name, value in one.parts.items()}
    found["spreads"], found["details"] = dict(one.spreads), dict(one.details)
    found["remarks"] = [note.to_dict() for note in one.remarks]
    if one.layers:
        found["layers"] = [asdict(layer) for layer in one.layers]
    if need is not None:
        found["sure"] = one.sure(need)
    return found


def _class(half_width: float) -> str:
    """Return the class of a half-width in words: ``within 10 to 20 %``."""
    edges = (0.0, *CLASSES)
    for lower, upper in zip(edges, CLASSES, strict=False):
        if half_width < upper:
            return f"known within {100 * lower:g} to {100 * upper:g} %" if lower else f"known within {100 * upper:g} %"
    return "known to no better than a factor of two"


def _flops(value: float) -> str:
    for unit, size in (("EFLOP/s", 1e18), ("PFLOP/s", 1e15), ("TFLOP/s", 1e12)):
        if value >= size:
            return formatted(value / size, "{:,.4g}") + f" {unit}"
    return formatted(value / 1e9, "{:,.4g}") + " GFLOP/s"


def varied(asked: Sequence[Mapping[str, Any]]) -> list[str]:
    """Return the fields that are not the same in all settings."""
    return [name for name in asked[0] if len({_word(row.get(name)) for row in asked}) > 1]


def _word(value: Any) -> str:
    if isinstance(value, Mapping):
        return str(value.get("name") or value.get("_name_or_path") or "stated")
    return str(getattr(value, "name", value))

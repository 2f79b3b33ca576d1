"""What `forecast` says of whole workloads, as documents: the answers, what they are made of, what they rest on."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from functools import partial
from typing import Any, Final

import numpy as np
import plotly.graph_objects as go

from ..workloads.constants import CONSTANTS, Release
from ..workloads.forecasting import Forecast
from ..workloads.setting import Setting
from ..workloads.supercomputers import Score
from .document import Column, Document, Figure, Headline, Lines, Row, Section, Table, columns, lines, remarked, rows
from .figures import OTHERS, SELECTED, styled
from .formats import counted, figure, formatted, share
from .words import say
from .words.workloads import PARTS

SCHEMA: Final = 1
SHOWN: Final = 40
"""Rows of a grid on a terminal."""
CLASSES: Final = (0.05, 0.10, 0.20, 0.50, 1.00)
"""Upper ends of the classes of half-widths."""
LEGEND: Final = {"orientation": "h", "y": 1.02, "yanchor": "bottom", "x": 0}
_BAND: Final = 0.15
"""Opacity of a band."""
COLOURS: Final = (SELECTED, *OTHERS)


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
    figures = [
        Figure(partial(batch_figure, answers), "Latency and throughput over the batch, with their intervals"),
        Figure(partial(pareto_figure, answers), "Throughput per GPU against the time per token; the line is the front"),
        Figure(partial(parts_figure, answers), "What the time of each setting is made of"),
    ]
    notes = [note for one in answered for note in one.remarks]
    return Document(
        title=title,
        lead=lead,
        opening=[_best(answered, level)] if answered else [],
        sections=[
            Section("Settings", [_grid_table(answers, asked, need, price)], "settings", "Settings"),
            Section("Figures", figures, "figures", "Figures"),
            Section("Remarks", [Lines(remarked(notes), "list")]),
        ],
        data=data,
    )


def score_document(score: Score, level: float) -> Document:
    """Return a forecast score of HPL or HPCG for readers."""
    name = score.benchmark.upper()
    answer = f"{_flops(score.predicted)} [{_flops(score.lower)}, {_flops(score.upper)}]"
    told = [Row((key, figure(value))) for key, value in score.inputs.items()]
    data = {"schema": SCHEMA, "level": level, **{key: value for key, value in vars(score).items() if key != "remarks"}}
    return Document(
        title=f"{name} on {score.devices:,} devices",
        lead=f"median and {100 * level:g} % interval; mean {_flops(score.mean)}",
        opening=[Headline(f"{name}, {score.devices:,} devices", answer)],
        sections=[
            Section("Made of", [Table(columns("input", numbers=["median"]), told, "What the score is made of")]),
            Section("Remarks", [Lines(remarked(score.remarks), "list")]),
        ],
        data=data,
    )


def release_document(release: Release) -> Document:
    """Return the constants of a release for readers."""
    spread = np.sqrt((release.root**2).sum(axis=1))
    told = []
    for (name, constant), mean, own in zip(CONSTANTS.items(), release.mean, spread, strict=True):
        value = constant.median * float(np.exp(mean))
        told.append((constant.meaning, f"{figure(value)} {constant.unit}".strip(), share(float(own)), PARTS[name]))
    about = f"{release.name}: {counted(release.runs, 'run')} of {', '.join(release.models)} on {release.gpu}"
    names = Table(columns("constant", numbers=["fitted", "1 σ"], prose=["part"]), rows(told), "Constants")
    data = {"schema": SCHEMA, **{key: getattr(release, key) for key in ("name", "gpu", "runs", "largest", "source")}}
    data |= {"models": list(release.models), "mean": release.mean.tolist(), "root": release.root.tolist()}
    return Document(title=about, sections=[Section("Constants", [names])], data=data)


def _single(one: Forecast, level: float, need: float | None, price: float | None, data: Mapping[str, Any]) -> Document:
    assert one.setting is not None
    about = _about(one.setting)
    if one.reason is not None:
        opening = [Headline(about, say(one.reason))]
        return Document(title="Forecast", lead=about, opening=opening, sections=[], data=data)
    interval = f"{figure(one.lower)} … {figure(one.upper)} {one.unit}"
    beneath = f"{100 * level:g} % interval {interval} ({_class(one.half_width)})"
    told = list(_facts(one, need, price))
    known = Table(columns("", numbers=["figure"]), rows(told), "Figures")
    return Document(
        title="Forecast",
        lead=about,
        opening=[
            Headline(about, f"{figure(one.predicted)} {one.unit}", beneath=beneath),
            Lines(lines([beneath]).lines, medium="terminal"),
        ],
        sections=[
            Section("Figures", [known]),
            Section("Where the time goes", [_parts_table(one), Figure(partial(parts_figure, [one]), "Parts")]),
            Section("What the interval is made of", [_spread_table(one)]),
            Section("Remarks", [Lines(remarked(one.remarks), "list"), lines([_assumed(one.setting)])]),
        ],
        data=data,
    )


def _facts(one: Forecast, need: float | None, price: float | None) -> Iterator[tuple[str, str]]:
    found, setting = one.details, one.setting
    assert setting is not None
    if "seconds_per_token" in found:
        yield "time per token, ms", figure(1e3 * found["seconds_per_token"])
    yield "tokens per second", figure(found["tokens_per_second"])
    yield "tokens per second and GPU", figure(found["tokens_per_second_per_gpu"])
    if "sequences_at_once" in found:
        yield "sequences at once", figure(found["sequences_at_once"])
    yield "memory per GPU, GiB", f"{figure(one.memory_gb)} of {figure(setting.gpu.memory_gb)}"
    yield "mean power of all GPUs, W", figure(found["power_w"])
    yield "energy, kJ", figure(found["energy_j"] / 1e3)
    if price is not None:
        cost = found["seconds"] / 3600 * setting.gpus * price
        million = cost / (found["tokens_per_second"] * found["seconds"]) * 1e6
        yield "cost", figure(cost)
        yield "cost per million tokens", figure(million)
    if need is not None:
        yield f"within ±{100 * need:g} %", one.sure(need)


def _about(setting: Setting) -> str:
    cut = [f"{name} {value}" for name in ("tp", "pp", "dp", "cp", "ep") if (value := getattr(setting, name)) > 1]
    where = f"{setting.gpus} × {setting.gpu.name}" + (f" ({', '.join(cut)})" if cut else "")
    if setting.kind == "training":
        what = f"a step of {setting.global_batch:,} sequences of {setting.seq_len:,} tokens"
    elif setting.kind == "throughput":
        what = f"{setting.num_prompts:,} requests of {setting.input_len:,} + {setting.output_len:,} tokens"
    else:
        what = f"batch {setting.batch:,}, {setting.input_len:,} + {setting.output_len:,} tokens"
    release = f", {setting.release}" if setting.release else ""
    return f"{setting.model.name} on {where}, {setting.dtype}, {what}{release}"


def _assumed(setting: Setting) -> str:
    relevant = ("kv_dtype", "max_batched_tokens", "memory_utilisation", "eager", "prefix_cache", "max_num_seqs")
    taken = [f"{name} {getattr(setting, name)}" for name in relevant if name in setting.assumed]
    return f"assumed: {', '.join(taken)}" if taken and setting.kind != "training" else ""


def _parts_table(one: Forecast) -> Table:
    whole = sum(value[0] for value in one.parts.values())
    told = [
        (PARTS[name], figure(middle), f"{figure(low)} … {figure(high)}", share(middle / whole))
        for name, (middle, low, high) in sorted(one.parts.items(), key=lambda part: -part[1][0])
        if middle > 0
    ]
    return Table(columns("part", numbers=["s", "interval", "share"]), rows(told), "Where the time goes")


def _spread_table(one: Forecast) -> Table:
    told = [(PARTS[name], f"±{100 * value:.1f} %") for name, value in one.spreads.items() if value >= 0.001]
    return Table(columns("from", numbers=["1 σ"]), rows(told), "What the interval is made of")


def _grid_table(
    answers: Sequence[Forecast], asked: Sequence[Mapping[str, Any]], need: float | None, price: float | None
) -> Table:
    varied = [name for name in asked[0] if len({str(row.get(name)) for row in asked}) > 1]
    found = []
    for fields, one in zip(asked, answers, strict=True):
        cells = [_word(fields.get(name)) for name in varied]
        if one.reason is not None:
            found.append(Row((*cells, say(one.reason)), "soft"))
            continue
        told = [f"{figure(one.predicted)} {one.unit}", f"{figure(one.lower)} … {figure(one.upper)}"]
        told += [figure(one.details["tokens_per_second_per_gpu"]), figure(one.memory_gb)]
        if need is not None:
            told.append(one.sure(need))
        if price is not None:
            assert one.setting is not None
            told.append(figure(one.details["seconds"] / 3600 * one.setting.gpus * price))
        found.append(Row((*cells, *told)))
    heads = ["predicted", "interval", "tokens/s/GPU", "GiB per GPU"]
    heads += [f"within ±{100 * need:g} %"] if need is not None else []
    heads += ["cost"] if price is not None else []
    every = (*(Column(name, "name") for name in varied), *(Column(head, "number") for head in heads))
    return Table(every, found, "Settings", shown=SHOWN)


def _best(answered: Sequence[Forecast], level: float) -> Headline:
    """Return the setting with the most tokens per second and GPU."""
    one = max(answered, key=lambda answer: answer.details["tokens_per_second_per_gpu"])
    assert one.setting is not None
    most = f"{figure(one.details['tokens_per_second_per_gpu'])} tokens/s per GPU"
    interval = f"{figure(one.lower)} … {figure(one.upper)} {one.unit}"
    about = f"most tokens per GPU: {_about(one.setting)}"
    return Headline(about, f"{most}, {figure(one.predicted)} {one.unit}", beneath=f"{100 * level:g} %: {interval}")


def batch_figure(answers: Sequence[Forecast]) -> go.Figure | None:
    """Draw the answer over the batch, a line with its band per GPU and cutting; None where batches do not vary."""
    found: dict[str, list[Forecast]] = {}
    for one in answers:
        if one.reason is None and one.setting is not None and one.setting.kind == "inference":
            found.setdefault(_line(one.setting), []).append(one)
    found = {name: sorted(points, key=_batch) for name, points in found.items() if len({_batch(p) for p in points}) > 1}
    if not found:
        return None
    drawn = go.Figure()
    for place, (name, points) in enumerate(found.items()):
        colour, x = COLOURS[place % len(COLOURS)], [_batch(one) for one in points]
        edge = [one.upper for one in points] + [one.lower for one in reversed(points)]
        band = {"fill": "toself", "opacity": _BAND, "line": {"width": 0}, "hoverinfo": "skip", "showlegend": False}
        drawn.add_trace(go.Scatter(x=x + x[::-1], y=edge, fillcolor=colour, legendgroup=name, **band))
        line = {"color": colour, "width": 2}
        values = [one.predicted for one in points]
        drawn.add_trace(go.Scatter(name=name, x=x, y=values, mode="lines+markers", line=line, legendgroup=name))
    drawn.update_xaxes(type="log", title_text="batch")
    drawn.update_yaxes(type="log", title_text="seconds of the batch")
    return styled(drawn, 420, LEGEND)


def pareto_figure(answers: Sequence[Forecast]) -> go.Figure | None:
    """Draw throughput per GPU against the time per token, with the front; None for fewer than two answers."""
    points = [one for one in answers if one.reason is None and "seconds_per_token" in one.details]
    if len(points) < 2:
        return None
    x = np.array([1e3 * one.details["seconds_per_token"] for one in points])
    y = np.array([one.details["tokens_per_second_per_gpu"] for one in points])
    names = [_about(one.setting) for one in points if one.setting is not None]
    order = np.argsort(x)
    best = np.maximum.accumulate(y[order])
    front = order[y[order] >= best]
    drawn = go.Figure(go.Scatter(x=x, y=y, mode="markers", text=names, name="settings", marker={"color": OTHERS[0]}))
    line = {"color": SELECTED, "width": 2}
    drawn.add_trace(go.Scatter(x=x[front], y=y[front], mode="lines+markers", name="front", line=line))
    drawn.update_xaxes(title_text="ms per token", type="log")
    drawn.update_yaxes(title_text="tokens per second and GPU", type="log")
    return styled(drawn, 420, LEGEND)


def parts_figure(answers: Sequence[Forecast]) -> go.Figure:
    """Draw what each answer's time is made of, as stacked bars."""
    drawn = go.Figure()
    points = [one for one in answers if one.reason is None and one.setting is not None][:SHOWN]
    labels = [f"{place + 1}" for place in range(len(points))]
    names = [_about(one.setting) for one in points if one.setting is not None]
    for place, part in enumerate(dict.fromkeys(name for one in points for name in one.parts)):
        values = [one.parts.get(part, (0.0,))[0] for one in points]
        if not any(values):
            continue
        look = {"color": COLOURS[place % len(COLOURS)], "pattern": {"shape": "/" if place >= len(COLOURS) else ""}}
        named = {"name": PARTS[part], "hovertext": names, "marker": look}
        drawn.add_trace(go.Bar(y=labels, x=values, orientation="h", **named))
    drawn.update_layout(barmode="stack")
    drawn.update_xaxes(title_text="seconds")
    drawn.update_yaxes(autorange="reversed", title_text="setting" if len(points) > 1 else "")
    return styled(drawn, 180 + 28 * max(len(points), 2), LEGEND)


def _json(asked: Mapping[str, Any], one: Forecast, need: float | None) -> dict[str, Any]:
    found: dict[str, Any] = {"asked": {name: _word(value) for name, value in asked.items()}}
    found |= {name: getattr(one, name) for name in ("predicted", "lower", "upper", "unit", "memory_gb", "fits")}
    found["reason"] = None if one.reason is None else one.reason.to_dict()
    found["parts"] = {name: list(value) for name, value in one.parts.items()}
    found["spreads"], found["details"] = dict(one.spreads), dict(one.details)
    found["remarks"] = [note.to_dict() for note in one.remarks]
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


def _line(setting: Setting) -> str:
    lengths = f"{setting.input_len:,} + {setting.output_len:,}"
    return f"{setting.model.name}, {setting.gpus} × {setting.gpu.name}, tp {setting.tp}, {lengths}"


def _batch(one: Forecast) -> int:
    return 0 if one.setting is None else one.setting.batch


def _flops(value: float) -> str:
    for unit, size in (("EFLOP/s", 1e18), ("PFLOP/s", 1e15), ("TFLOP/s", 1e12)):
        if value >= size:
            return formatted(value / size, "{:,.4g}") + f" {unit}"
    return formatted(value / 1e9, "{:,.4g}") + " GFLOP/s"


def _word(value: Any) -> str:
    return str(getattr(value, "name", value))

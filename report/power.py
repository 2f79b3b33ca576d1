"""Measured power as documents: the recommended protocol, power and energy of the kernels of a log, their lessons."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import replace
from functools import partial
from itertools import chain
from typing import Any, Final

import numpy as np
import pandas as pd
import plotly.graph_objects as go
from plotly.subplots import make_subplots

from ..errors import DataError, counted
from ..measuring.power_recording import Protocol, Recorded
from ..output import SCHEMA
from ..power.clocks import Clocks
from ..power.energy import PHASES
from ..power.lessons import LEAST_CORRELATION, MOST_TOGETHER, Lessons, learn
from ..power.logs import TOTAL
from ..power.profile import (
    ComponentPower,
    Curve,
    KernelPower,
    PowerProfiles,
    compare,
    compare_classes,
)
from ..power.runs import NOT_GOLDEN, TABLE, Plan
from .document import (
    JSON,
    Cell,
    Column,
    Document,
    Figure,
    Headline,
    Later,
    Lines,
    Row,
    Section,
    Table,
    columns,
    lines,
    picked,
    remarked,
    rows,
)
from .figures import (
    ABOVE,
    BASELINE,
    NEUTRAL,
    OTHERS,
    SELECTED,
    dots,
    panels,
    stroke,
    styled,
    titled,
)
from .formats import escape, formatted, significant
from .layouts import laid_out
from .static_figures import Drawing
from .wording import wording

METHOD: Final = "FinGraV (Singhania, Aga, Ibrahim, ISPASS 2025)"
_HEADLINES: Final = 4  # kernels in the first screen
PANEL: Final = 260  # height of a component's panel, pixels


def plan_document(chosen: Plan) -> Document:
    """Return the recommended protocol, one line per setting, with the reasons of its figures."""
    logger = "a logger of instantaneous power"
    if chosen.interval_us:
        logger = f"a window of {chosen.interval_us:g} µs"
    title = f"How to measure a kernel of {chosen.kernel_us:g} µs with {logger}"
    cells = [(setting, value, Cell(why, "soft")) for setting, value, why in plan_rows(chosen)]
    return Document(
        opening=[Table(columns("setting", "value", ""), rows(cells), title=title)],
        closing=[lines([*map(str, chosen.advice)], "answer")],
        data=plan_json(chosen),
    )


def plan_rows(chosen: Plan) -> list[tuple[str, str, str]]:
    """Return (setting, value, remark) of each setting of the protocol."""
    lag = "lag not known"
    if chosen.lag_us is not None:
        lag = f"lag {chosen.lag_us:g} µs"
    published = f"{chosen.published} as published, max(⌈window / kernel time⌉, 4)"
    filled = f"{chosen.executions_filled} starts with the whole window inside the run"
    settings = [
        ("executions per run", f"{chosen.executions}", f"{published}; {filled}"),
        (
            "steady power from execution",
            f"{chosen.steady_from}",
            f"{lag}, settling time {chosen.settling_us:g} µs",
        ),
        (
            "random delay before each run",
            f"0 to {chosen.random_delay_us:g} µs",
            "so that readings fall everywhere",
        ),
    ]
    if chosen.row is None or chosen.logs is None:
        return [
            ("runs", "no published row", f"the table begins at {TABLE[0].from_us:g} µs"),
            *settings,
        ]
    row = chosen.row
    return [
        ("runs", f"{row.runs}", ""),
        *settings,
        (
            "margin of the execution-time bin",
            f"{100 * row.margin:g} %",
            "golden runs: the most that differ by no more",
        ),
        (
            "readings of interest",
            f"{chosen.logs}",
            f"one per {row.log_every_us:g} µs; these runs give about {chosen.expected_logs:.0f} "
            "in one execution",
        ),
    ]


def plan_json(chosen: Plan) -> JSON:
    """Return the protocol for machines; without a published row its figures are null."""
    none = dict.fromkeys(("runs", "margin", "log_every_us"))
    return {
        "schema": SCHEMA,
        **picked(chosen, "kernel_us", "interval_us"),
        **(picked(chosen.row, *none) if chosen.row else none),
        **picked(
            chosen,
            "logs",
            "expected_logs",
            "lag_us",
            "settling_us",
            "executions",
            "published",
            "steady_from",
            "executions_filled",
            "repeats",
            "random_delay_us",
        ),
        "advice": [*map(str, chosen.advice)],
        "remarks": [one.to_dict() for one in chosen.advice],
    }


def record_document(recorded: Recorded) -> Document:
    """Return how each kernel was recorded, how its power changed with longer trains, and the next command."""
    cells = []
    advice = []
    for one, chosen in zip(recorded.protocols, recorded.plans, strict=True):
        unthrottled = one.unthrottled
        if unthrottled is None:
            unthrottled = f"all of {one.searched}"
        cells.append({**vars(one), "unthrottled": unthrottled})
        for note in chosen.advice:
            if note.code != "power-plan-lag-unknown":
                advice.append(f"{one.kernel}: {note!r}")
    for one in recorded.protocols:
        advice += [f"{one.kernel}: {line}" for line in _apart_from_plan(one)]
    clocks = ""
    if recorded.clocks:
        clocks = f" --clocks {recorded.out / 'clocks.csv'}"
    command = (
        f"flopcast power profile {recorded.out / 'log.csv'} --executions "
        f"{recorded.out / 'executions.csv'}{clocks} --window-us {recorded.interval_us:g}"
    )
    resumed = []
    if recorded.resumed:
        resumed.append(f"{recorded.resumed} runs were recorded before")
    title = (
        f"Power recorded with {recorded.logger}, a window of {recorded.interval_us:g} µs: "
        f"{recorded.readings} readings"
    )
    return Document(
        opening=[laid_out("power-recorded", cells, {"title": title})],
        closing=[lines([*resumed, *advice]), lines([command], "answer")],
        data={
            "schema": SCHEMA,
            **picked(recorded, "logger", "interval_us", "readings", "resumed"),
            "kernels": [vars(one) for one in recorded.protocols],
            "plans": [plan_json(one) for one in recorded.plans],
            "profile": command,
        },
    )


def _apart_from_plan(one: Protocol) -> Iterator[str]:
    """Yield the reasons why a kernel was recorded differently from its plan."""
    if one.lag_us is None:
        yield "its power rises too little above the scatter of the readings to tell the logger's lag"
    if one.executions > one.planned:
        yield (
            f"{counted(one.executions - one.planned, 'execution')} more than planned: power was "
            "not steady yet when "
            "window, lag and settling time had passed, and was searched for from there"
        )


def power_document(profiles: PowerProfiles) -> Document:
    """Return the power and energy of kernels: a table, classes side by side, then each kernel's curves and remarks.

    Pairs of kernels are held against a power cap where one is given (`power.lessons.learn`).
    """
    kernels = profiles.kernels
    clocks = clock_words(profiles.clocks)
    compared = compare(kernels)
    learnt = learn(kernels, profiles.cap_w, profiles.idle_w)
    tables = [
        replace(component_table(compared), medium="terminal"),
        replace(component_table(compared, named=True), medium="page"),
        laid_out("power-classes", compare_classes(compared)),
        *_steps(kernels),
        lines([clocks], "list", medium="page"),
    ]
    descriptions = []
    notes = [*map(repr, profiles.left_out)]
    sections = []
    caption = "Readings of golden runs over the kernel's time, and the curves through them"
    for place, one in enumerate(kernels):
        described = [*description(one)]
        remarks = [*map(repr, one.notes)]
        descriptions += [f"{one.kernel}: {sentence}" for sentence in described]
        notes += [f"{one.kernel}: {note}" for note in remarks]
        parts = [
            Figure(partial(power_figure, one), caption),
            Figure(partial(run_figure, one, one.components), WHOLE_RUN),
            *_step_figure(one),
            lines([*described, *remarks], "list", medium="page"),
        ]
        sections.append(Section(one.kernel, parts, f"kernel-{place}", one.kernel[:40]))
    measured = lines([*descriptions, clocks], "answer", medium="terminal")
    return Document(
        title="Power of kernels",
        lead=f"Method: {METHOD}. Energies with {100 * profiles.level:g} % intervals.",
        opening=[_headline(one, profiles.level) for one in kernels[:_HEADLINES]],
        sections=[
            Section("Power and energy", tables, "table", "Table"),
            lessons_section(kernels, learnt),
            *sections,
            Section("How it was measured", [measured]),
        ],
        closing=[Lines(remarked(notes))],
        data=Later(partial(power_json, profiles, learnt)),
    )


WHOLE_RUN: Final = (
    "Power over the whole run: readings of golden runs since its start, their mean by execution; "
    "dotted: the first "
    "execution whose time is steady, and the first whose power is"
)


def _main(one: KernelPower) -> str:
    """Return the main component: the total, where the log has one."""
    if TOTAL in one.components:
        return TOTAL
    return next(iter(one.components))


def _step_figure(one: KernelPower) -> list[Figure]:
    """Return the figure of the whole run and of the run without each step of the method; nothing without such runs."""
    name = _main(one)
    others = {
        case: rerun.components[name]
        for case, rerun in one.without.items()
        if isinstance(rerun, KernelPower)
    }
    parts = {"everything": one.components[name], **others}
    if one.without:
        return [Figure(partial(run_figure, one, parts), f"{name}: what each step is worth")]
    return []


def _steps(kernels: Sequence[KernelPower]) -> list[Table]:
    """Return how the profiles change if a step of the method is left out (`power.profile.without_steps`)."""
    body: list[Row] = []
    for one in kernels:
        if not one.without:
            continue
        name = _main(one)
        whole = one.components[name].ssp
        body.append(Row((one.kernel, *[""] * 6), title=True))
        for case, rerun in {"everything": one, **one.without}.items():
            if isinstance(rerun, DataError):
                body.append(Row((case, *[""] * 5, str(rerun))))
                continue
            part = rerun.components[name]
            apart = np.mean((part.ssp.polynomial_w - whole.polynomial_w) ** 2)
            off = 100 * float(np.sqrt(apart)) / whole.mean_w
            counts = str(len(rerun.runs.kept)), str(len(part.ssp.readings))
            energy = significant(1e3 * part.energy.energy_j)
            power = significant(part.ssp.mean_w), formatted(off, "{:.2f}")
            body.append(Row((case, *counts, *power, energy, "")))
    if not body:
        return []
    numbers = columns(numbers=("golden runs", "readings", "SSP, W", "off, %", "energy, mJ"))
    heads = [Column("", "name"), *numbers, Column("no profile", "cut")]
    caption = (
        "of the total; off: the steady profile against that with everything, RMS over the "
        "kernel's time. Without synchronisation the log is taken to begin with the first execution"
    )
    return [Table(heads, body, "What each step is worth", caption)]


def _headline(one: KernelPower, level: float) -> Headline:
    """Return the power and energy of a kernel beside the reading of one steady execution."""
    part = one.components[_main(one)]
    name = ""
    rival = ""
    if part.component != TOTAL:
        name = f" of {part.component}"
    said = f"while it runs, {significant(one.kernel_us)} µs"
    energy = part.energy
    if np.isfinite(energy.energy_j):
        bounds = f"{significant(1e3 * energy.lower_j)} – {significant(1e3 * energy.upper_j)} mJ"
        said += (
            f"; an execution takes {significant(1e3 * energy.energy_j)} mJ ({100 * level:g} % "
            f"interval {bounds})"
        )
    if part.sse is not None:
        rival = f"one execution reads {significant(part.sse.mean_w)} W"
        said += f". One execution's reading, taken for it, errs by {part.sse_error_percent:+.1f} %"
    return Headline(one.kernel, f"{significant(part.ssp.mean_w)} W{name}", rival, f"{said}.")


def component_table(compared: pd.DataFrame, *, named: bool = False) -> Table:
    """Return one row per kernel and component (`power.profile.compare`), each ``named`` or the first of a kernel."""
    table = laid_out("power-components", compared)
    kernels = compared["kernel"].tolist()
    body = []
    for row, before, after in zip(
        table.rows,
        [None, *kernels],
        [*kernels[1:], None],
        strict=False,
    ):
        kernel, *cells = row.cells
        shown = ""
        if named or kernel != before:
            shown = kernel
        body.append(Row((shown, *cells), ends=kernel != after))
    return replace(table, rows=body)


_ISOLATION: Final = wording("power-isolation")


def description(one: KernelPower) -> Iterator[str]:
    """Yield how the kernel was measured: runs kept and removed, executions, isolation, throttling, the window."""
    runs = one.runs
    reasons = [f"{count} removed: {NOT_GOLDEN[reason]}" for reason, count in runs.removed.items()]
    removed = "; ".join(reasons) or "none removed"
    bounds = ""
    if np.isfinite(runs.high_us):
        bounds = f" of {significant(runs.low_us)} to {significant(runs.high_us)} µs"
    yield f"{len(runs.kept)} golden runs{bounds} out of {len(runs.table)}; {removed}"
    window = "none, power is instantaneous"
    if one.window_us:
        window = f"{one.window_us:g} µs"
    yield (
        f"averaging window {window}; SSE is execution {one.sse_execution}, SSP from execution "
        f"{one.ssp_execution} on; {_ISOLATION[one.isolation]}"
    )
    for name, part in one.components.items():
        if part.throttling.found:
            yield (
                f"{name} throttles: it rises to {significant(part.throttling.peak_w)} W at "
                "execution "
                f"{part.throttling.peak_execution} and falls by "
                f"{part.throttling.fall_percent:.1f} %"
            )
        if part.deconvolved is not None:
            yield deconvolved_words(name, part)


def deconvolved_words(name: str, part: ComponentPower) -> str:
    """Say what the deconvolved curve of a component resolves."""
    deconvolved = part.deconvolved
    assert deconvolved is not None
    resolved = "only its level is resolved"
    if deconvolved.parameters >= 2:
        resolved = f"about {deconvolved.parameters:.0f} parameters resolved"
    power_w = deconvolved.power_w
    return (
        f"{name}, window removed: {significant(power_w.mean())} W on average, "
        f"{significant(power_w.max())} W at most; "
        f"{resolved} from {deconvolved.readings} readings of {deconvolved.runs} runs"
    )


def clock_words(clocks: Clocks) -> str:
    """Say how the clocks were synchronised."""
    if not clocks.pairs:
        return "clocks: the log's times are taken for those of the CPU's clock; no pairs were given"
    offset_us = clocks.offset_ns / 1e3
    said = [f"clocks: GPU − CPU {offset_us:,.1f} µs at the first of {clocks.pairs} pairs"]
    if clocks.drift_fitted:
        said.append(f"drift {clocks.drift_ppm:+.2f} ± {clocks.drift_error_ppm:.2g} ppm")
    else:
        said.append("drift not known")
    if not np.isnan(clocks.residual_ns):
        said.append(f"residual {clocks.residual_ns / 1e3:.2f} µs RMS")
    if clocks.outliers:
        said.append(f"{len(clocks.outliers)} pairs left out as outliers")
    return f"{', '.join(said)}; reads took {2 * clocks.bound_ns / 1e3:.2f} µs or more"


def power_json(profiles: PowerProfiles, learnt: Lessons) -> JSON:
    """Return the profiles for machines; a figure that does not exist is NaN."""
    compared = compare(profiles.kernels)
    clocks = profiles.clocks
    return {
        "schema": SCHEMA,
        "method": METHOD,
        "level": profiles.level,
        "clocks": vars(clocks) | picked(clocks, "offset_ns", "drift_ppm", "drift_error_ppm"),
        "kernels": [_kernel_json(one) for one in profiles.kernels],
        "left_out": [note.to_dict() for note in profiles.left_out],
        "compared": compared.to_dict("records"),
        "classes": compare_classes(compared).to_dict("records"),
        "lessons": {name: table.to_dict("records") for name, table in vars(learnt).items()},
    }


def _kernel_json(one: KernelPower) -> JSON:
    runs = one.runs
    components = {}
    for name, part in one.components.items():
        fall = part.throttling.fall_percent
        components[name] = {
            "sse": part.sse and _curve_json(part.sse),
            "ssp": _curve_json(part.ssp),
            "sse_error_percent": part.sse_error_percent,
            "energy": vars(part.energy),
            "throttling": {**vars(part.throttling), "fall_percent": fall},
            "deconvolved": part.deconvolved and vars(part.deconvolved),
            "run": {column: part.run[column].to_numpy() for column in part.run},
        }
    without = {}
    for case, rerun in one.without.items():
        if isinstance(rerun, DataError):
            without[case] = {"reason": str(rerun)}
        else:
            without[case] = _kernel_json(rerun)
    removed = runs.table.loc[~runs.table["golden"], ["run", "time_us", "reason"]]
    return {
        "kernel": one.kernel,
        "class": one.facts.bound or None,
        **picked(one, "kernel_us", "window_us", "window_stated", "sse_execution", "ssp_execution"),
        **picked(one, "filled", "isolation", "alone", "others"),
        "runs": {
            "golden": len(runs.kept),
            "bin_us": [runs.low_us, runs.high_us],
            "margin": runs.margin,
            "removed": runs.removed,
            "list_removed": removed.to_dict("records"),
        },
        "plan": plan_json(one.plan),
        "phase": PHASES,
        "components": components,
        "without": without,
        "notes": [*map(repr, one.notes)],
        "remarks": [note.to_dict() for note in one.notes],
    }


def _curve_json(curve: Curve) -> JSON:
    return {
        **picked(curve, "mean_w", "polynomial_w", "spline_w"),
        "readings": {
            name: curve.readings[name].to_numpy()
            for name in ("run", "execution", "time_us", "power_w")
        },
    }


def power_figure(one: KernelPower) -> go.Figure:
    """Return a panel per component: steady-power readings with polynomial and spline, and the steady execution's."""
    traces = {name: _traces(part, one.kernel_us) for name, part in one.components.items()}
    return _stacked(traces, "time in the execution, µs")


def _stacked(traces: Mapping[str, Iterable[go.Scatter]], axis: str) -> go.Figure:
    """Draw a panel of each component, one under the other."""
    figure = make_subplots(
        rows=len(traces),
        cols=1,
        shared_xaxes=True,
        subplot_titles=[escape(name) for name in traces],
        vertical_spacing=min(0.08, 0.35 / len(traces)),
    )
    for row, of_part in enumerate(traces.values(), 1):
        for trace in of_part:
            trace.update(showlegend=row == 1, legendgroup=trace.name)
            figure.add_trace(trace, row=row, col=1)
    figure.update_yaxes(title_text="W")
    figure.update_xaxes(title_text=axis, row=len(traces), col=1)
    return panels(figure, len(traces) * PANEL + 120)


def run_figure(one: KernelPower, parts: Mapping[str, ComponentPower]) -> go.Figure:
    """Return a panel per part of the power over the whole run: its readings, and their mean by execution."""
    traces = {}
    for name, part in parts.items():
        points = part.run
        means = part.by_execution
        looks = (
            ("readings", points["since_run_us"], points["power_w"], dots(NEUTRAL, 4, opacity=0.5)),
            ("mean by execution", means["start_us"], means["mean_w"], stroke(SELECTED, 2)),
        )
        traces[name] = [
            go.Scatter(
                name=label,
                x=_short(x.to_numpy()),
                y=_short(y.to_numpy()),
                **look,
            )
            for label, x, y, look in looks
        ]
    figure = _stacked(traces, "time since the run began, µs")
    for row, part in enumerate(parts.values(), 1):
        means = part.by_execution
        steady = means["execution"].isin([one.sse_execution, one.ssp_execution])
        for start in means.loc[steady, "start_us"]:
            line = {"color": BASELINE, "dash": "dot"}
            figure.add_vline(x=float(start), line=line, row=row, col=1)
    return figure


def _traces(part: ComponentPower, kernel_us: float) -> Iterator[go.Scatter]:
    def curve(
        name: str,
        look: dict[str, Any],
        phase: np.ndarray,
        power: np.ndarray,
    ) -> go.Scatter:
        return go.Scatter(
            name=name,
            x=_short(kernel_us * phase),
            y=_short(power),
            **look,
        )

    if part.sse is not None:
        yield _readings("SSE readings", part.sse, kernel_us, BASELINE)
        dashed = stroke(BASELINE, None, dash="dash")
        yield curve("SSE polynomial", dashed, PHASES, part.sse.polynomial_w)
    yield _readings("SSP readings", part.ssp, kernel_us, NEUTRAL)
    yield curve("SSP polynomial", stroke(SELECTED, 3), PHASES, part.ssp.polynomial_w)
    yield curve("SSP spline", stroke(OTHERS[0], 2), PHASES, part.ssp.spline_w)
    resolved = part.deconvolved
    if resolved is not None:
        dotted = stroke(OTHERS[1], 2, dash="dot")
        yield curve("window removed", dotted, resolved.phase, resolved.power_w)


def _readings(name: str, curve: Curve, kernel_us: float, colour: str) -> go.Scatter:
    readings = curve.readings
    return go.Scatter(
        name=name,
        x=_short(kernel_us * readings["phase"].to_numpy()),
        y=_short(readings["power_w"].to_numpy()),
        text=[f"run {escape(str(run))}" for run in readings["run"]],
        **dots(colour, 5, opacity=0.5),
    )


def _short(values: np.ndarray) -> list[float]:
    """Return numbers rounded to six digits: pages need no more."""
    return [float(f"{value:.6g}") for value in values]


BAR: Final = 46  # height of a kernel's bar with its name above it, pixels
COLOURS: Final = {"xcd": SELECTED, "iod": OTHERS[2], "hbm": OTHERS[0]}
"""Colours of the usual components; others take the rest."""
_LONGEST: Final = 50  # signs of a name above a bar that a telephone has room for


def lessons_section(kernels: Sequence[KernelPower], lessons: Lessons) -> Section:
    """Return the section that compares several kernels."""
    if len(kernels) < 2:
        return Section("Kernels side by side", [])
    caption = "Steady power, mean over the kernel's time, by component; the mark is the total"
    bounds = lessons.kernels["bound"].ne("") | lessons.kernels["dominant"].ne("")
    bounded = lessons.kernels[bounds]
    most = {"most": f"{100 * MOST_TOGETHER:g}"}
    return Section(
        "Kernels side by side",
        [
            Figure(partial(side_by_side, kernels), caption),
            laid_out(
                "power-bounds", bounded.assign(bound=bounded["bound"].str.removesuffix("-bound"))
            ),
            _throughput(lessons),
            laid_out("power-complements", lessons.complements, most),
            laid_out("power-overlaps", lessons.overlaps),
            laid_out("power-interleaved", lessons.interleaved),
        ],
        "side-by-side",
        "Side by side",
    )


def _throughput(lessons: Lessons) -> Table:
    table = lessons.throughput
    otherwise = np.where(table["correlation"] >= LEAST_CORRELATION, "too few tell", "does not")
    follows = np.where(table["follows"], "follows", otherwise)
    return laid_out("power-throughput", table.assign(follows=follows))


def side_by_side(kernels: Sequence[KernelPower]) -> go.Figure:
    """Return a bar per kernel, its components stacked; the total, a mark, where the log has components beside it."""
    names = list(dict.fromkeys(chain.from_iterable(one.components for one in kernels)))
    parts = [name for name in names if name != TOTAL] or names
    place = np.arange(len(kernels))
    figure = Drawing()
    hover = [escape(one.kernel) for one in kernels]
    others = iter((OTHERS[1], OTHERS[3], BASELINE) * len(parts))
    colours = [COLOURS[name] if name in COLOURS else next(others) for name in parts]
    for name, colour in zip(parts, colours, strict=True):
        figure.add_bar(
            name=escape(name),
            x=_watts(kernels, name),
            y=place,
            orientation="h",
            width=0.46,
            text=hover,
            textposition="none",
            marker={"color": colour},
            hovertemplate=f"%{{text}}: {escape(name)} %{{x:.4g}} W<extra></extra>",
        )
    if TOTAL in names and TOTAL not in parts:
        figure.add_scatter(
            name=TOTAL,
            x=_watts(kernels, TOTAL),
            y=place,
            text=hover,
            hovertemplate="%{text}: %{x:.4g} W<extra></extra>",
            **dots(NEUTRAL, 22, symbol="line-ns-open", line={"width": 3}),
        )
    for at, one in enumerate(kernels):
        name = one.kernel
        # the middle goes: kernels differ in what they are, and in the size, which is last
        if len(name) > _LONGEST:
            name = f"{name[: _LONGEST // 2 - 1]}…{name[-_LONGEST // 2 :]}"
        figure.add_annotation(
            x=0,
            y=at - 0.26,
            xshift=-2,
            xanchor="left",
            yanchor="bottom",
            text=escape(name),
            font={"size": 12},
            showarrow=False,
        )
    figure.update_yaxes(range=[len(kernels) - 0.6, -0.85], showticklabels=False, showgrid=False)
    return styled(
        figure,
        BAR * len(kernels) + 110,
        {**ABOVE, "y": 1, "traceorder": "normal"},
        barmode="stack",
        margin={"l": 12},
        xaxis=titled("W", rangemode="tozero"),
    )


def _watts(kernels: Sequence[KernelPower], name: str) -> list[float | None]:
    parts = (one.components.get(name) for one in kernels)
    return [None if part is None else float(f"{part.ssp.mean_w:.6g}") for part in parts]

"""Measured power as documents: the recommended protocol, power and energy of the kernels of a log, their lessons."""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from functools import partial
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
    cells_of,
    columns,
    lines,
    picked,
    remarked,
    rows,
)
from .figures import BASELINE, NEUTRAL, OTHERS, SELECTED, panels, styled
from .formats import escape, formatted, number, significant
from .static_figures import Drawing

METHOD: Final = "FinGraV (Singhania, Aga, Ibrahim, ISPASS 2025)"
COLUMNS: Final = (
    Column("kernel", "words", least=12),
    Column("component", "name"),
    Column("class", "name"),
    *(
        Column(head, "number")
        for head in ("time, µs", "SSE, W", "SSP, W", "error, %", "peak, W", "p99, W", "share, %")
    ),
    Column("energy, mJ [interval]", "number"),
)
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


def plan_json(chosen: Plan) -> dict[str, Any]:
    """Return the protocol for machines; without a published row its figures are null."""
    row = chosen.row
    return {
        "schema": SCHEMA,
        "kernel_us": chosen.kernel_us,
        "interval_us": chosen.interval_us,
        "runs": row and row.runs,
        "margin": row and row.margin,
        "log_every_us": row and row.log_every_us,
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
    heads = columns(
        "kernel",
        numbers=["time, µs", "lag, µs", "runs", "executions", "steady from", "unthrottled"],
    )
    cells = [
        (
            one.kernel,
            significant(one.kernel_us),
            significant(math.nan if one.lag_us is None else one.lag_us),
            f"{one.runs}",
            f"{one.executions}",
            f"{one.steady_from}",
            f"all of {one.searched}" if one.unthrottled is None else f"{one.unthrottled}",
        )
        for one in recorded.protocols
    ]
    caption = (
        "lag: with which the read power follows the kernel's, measured; executions: of each run; "
        "steady from: the "
        "execution from which power is steady; unthrottled: the most executions back to back "
        "before power falls, of "
        "those searched"
    )
    clocks = ""
    if recorded.clocks:
        clocks = f" --clocks {recorded.out / 'clocks.csv'}"
    command = (
        f"flopcast power profile {recorded.out / 'log.csv'} --executions "
        f"{recorded.out / 'executions.csv'}{clocks} "
        f"--window-us {recorded.interval_us:g}"
    )
    resumed = []
    if recorded.resumed:
        resumed = [f"{recorded.resumed} runs were recorded before"]
    advice = []
    for one, chosen in zip(recorded.protocols, recorded.plans, strict=True):
        for note in chosen.advice:
            if note.code != "power-plan-lag-unknown":
                advice.append(f"{one.kernel}: {note!r}")
    for protocol in recorded.protocols:
        for line in _apart_from_plan(protocol):
            advice.append(f"{protocol.kernel}: {line}")
    title = (
        f"Power recorded with {recorded.logger}, a window of {recorded.interval_us:g} µs: "
        f"{recorded.readings} readings"
    )
    return Document(
        opening=[Table(heads, rows(cells), title=title, caption=caption)],
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
    kernels, clocks = profiles.kernels, clock_words(profiles.clocks)
    compared, learnt = compare(kernels), learn(kernels, profiles.cap_w, profiles.idle_w)
    shown = component_table(compared), replace(component_table(compared, named=True), medium="page")
    tables = replace(shown[0], medium="terminal"), shown[1], class_table(compare_classes(compared))
    descriptions = []
    for kernel in kernels:
        for sentence in description(kernel):
            descriptions.append(f"{kernel.kernel}: {sentence}")
    described = lines(
        [*descriptions, clocks],
        "answer",
    )
    measured = replace(described, medium="terminal")
    clocks_of_page = lines([clocks], "list", medium="page")
    notes_of_kernels = []
    for one in kernels:
        for note in one.notes:
            notes_of_kernels.append(f"{one.kernel}: {note!r}")
    notes = [
        *map(repr, profiles.left_out),
        *notes_of_kernels,
    ]
    caption = "Readings of golden runs over the kernel's time, and the curves through them"
    measured_rows = [
        Section(
            one.kernel,
            [
                Figure(partial(power_figure, one), caption),
                Figure(partial(run_figure, one, one.components), WHOLE_RUN),
                *_step_figure(one),
                lines([*description(one), *map(repr, one.notes)], "list", medium="page"),
            ],
            f"kernel-{place}",
            one.kernel[:40],
        )
        for place, one in enumerate(kernels)
    ]
    return Document(
        title="Power of kernels",
        lead=f"Method: {METHOD}. Energies with {100 * profiles.level:g} % intervals.",
        opening=[_headline(one, profiles.level) for one in kernels[:_HEADLINES]],
        sections=[
            Section(
                "Power and energy", [*tables, *_steps(kernels), clocks_of_page], "table", "Table"
            ),
            lessons_section(kernels, learnt),
            *measured_rows,
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
    for one in (one for one in kernels if one.without):
        name = _main(one)
        whole = one.components[name].ssp
        body.append(Row((one.kernel, *[""] * 6), title=True))
        for case, rerun in {"everything": one, **one.without}.items():
            if isinstance(rerun, DataError):
                body.append(Row((case, *[""] * 5, str(rerun))))
                continue
            part = rerun.components[name]
            off = (
                100
                * float(np.sqrt(np.mean((part.ssp.polynomial_w - whole.polynomial_w) ** 2)))
                / whole.mean_w
            )
            body.append(
                Row(
                    (
                        case,
                        f"{len(rerun.runs.kept)}",
                        f"{len(part.ssp.readings)}",
                        significant(part.ssp.mean_w),
                        _hundredths(off),
                        _millijoule(part.energy.energy_j),
                        "",
                    )
                )
            )
    heads = [
        Column("", "name"),
        *_numbers("golden runs", "readings", "SSP, W", "off, %", "energy, mJ"),
    ]
    caption = (
        "of the total; off: the steady profile against that with everything, RMS over the "
        "kernel's time. Without "
        "synchronisation the log is taken to begin with the first execution"
    )
    if body:
        return [
            Table([*heads, Column("no profile", "cut")], body, "What each step is worth", caption)
        ]
    return []


def _headline(one: KernelPower, level: float) -> Headline:
    """Return the power and energy of a kernel beside the reading of one steady execution."""
    part = one.components.get(TOTAL) or next(iter(one.components.values()))
    name = ""
    if part.component != TOTAL:
        name = f" of {part.component}"
    rival = ""
    if part.sse is not None:
        rival = f"one execution reads {significant(part.sse.mean_w)} W"
    said, energy = f"while it runs, {significant(one.kernel_us)} µs", part.energy
    if np.isfinite(energy.energy_j):
        bounds = f"{significant(1e3 * energy.lower_j)} – {significant(1e3 * energy.upper_j)} mJ"
        said += (
            f"; an execution takes {significant(1e3 * energy.energy_j)} mJ ({100 * level:g} % "
            f"interval {bounds})"
        )
    if part.sse is not None:
        said += f". One execution's reading, taken for it, errs by {part.sse_error_percent:+.1f} %"
    return Headline(one.kernel, f"{significant(part.ssp.mean_w)} W{name}", rival, f"{said}.")


def component_table(compared: pd.DataFrame, *, named: bool = False) -> Table:
    """Return one row per kernel and component (`power.profile.compare`), each ``named`` or the first of a kernel."""
    said: list[Row] = []
    for name, group in compared.groupby("kernel", sort=False):
        cells = cells_of(
            group,
            component=str,
            **{"class": str},
            kernel_us=significant,
            sse_w=significant,
            ssp_w=significant,
            sse_error_percent=lambda error: formatted(error, "{:+.1f}"),
            peak_w=significant,
            p99_w=significant,
            share=_percent,
            energy_j=_millijoule,
            lower_j=_millijoule,
            upper_j=_millijoule,
        )
        for place, (*words, energy, lower, upper) in enumerate(cells, 1):
            first = str(name) if named or place == 1 else ""
            said.append(
                Row((first, *words, f"{energy} [{lower}, {upper}]"), ends=place == len(group))
            )
    caption = (
        "SSE: steady execution, SSP: steady power; p99: a hundredth of its readings is above; error: made by "
        "taking the first for the second"
    )
    return Table(COLUMNS, said, title="Power of kernels, means over their time", caption=caption)


def _percent(part: float) -> str:
    return number(100 * part)


def _millijoule(energy_j: float) -> str:
    return significant(1e3 * energy_j)


_hundredths = partial(formatted, form="{:.2f}")


def class_table(classes: pd.DataFrame) -> Table:
    """Return the mean power of each component over the kernels of a class; no rows where no kernel has a class."""
    cells = cells_of(
        classes, **{"class": str}, component=str, kernels=str, ssp_w=significant, share=_percent
    )
    heads = columns("class", "component", numbers=["kernels", "SSP, W", "share, %"])
    return Table(heads, rows(cells), title="By op-to-byte class: means over kernels")


_ISOLATION: Final = {
    "longer-than-window": "longer than the window",
    "isolated": "isolated",
    "isolated-with-pauses": "isolated, with pauses",
    "interleaved": "interleaved",
}


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
    if deconvolved.parameters < 2:
        resolved = "only its level is resolved"
    else:
        resolved = f"about {deconvolved.parameters:.0f} parameters resolved"
    mean, peak = (
        significant(power) for power in (deconvolved.power_w.mean(), deconvolved.power_w.max())
    )
    return (
        f"{name}, window removed: {mean} W on average, {peak} W at most; "
        f"{resolved} from {deconvolved.readings} readings of {deconvolved.runs} runs"
    )


def clock_words(clocks: Clocks) -> str:
    """Say how the clocks were synchronised."""
    if not clocks.pairs:
        return "clocks: the log's times are taken for those of the CPU's clock; no pairs were given"
    offset = (
        f"clocks: GPU − CPU {clocks.offset_ns / 1e3:,.1f} µs at the first of {clocks.pairs} pairs"
    )
    drift = ", drift not known"
    if clocks.drift_fitted:
        drift = f", drift {clocks.drift_ppm:+.2f} ± {clocks.drift_error_ppm:.2g} ppm"
    if np.isnan(clocks.residual_ns):
        residual = ""
    else:
        residual = f", residual {clocks.residual_ns / 1e3:.2f} µs RMS"
    outliers = ""
    if clocks.outliers:
        outliers = f", {len(clocks.outliers)} pairs left out as outliers"
    return (
        f"{offset}{drift}{residual}{outliers}; reads took {2 * clocks.bound_ns / 1e3:.2f} µs or "
        "more"
    )


def power_json(profiles: PowerProfiles, learnt: Lessons) -> dict[str, Any]:
    """Return the profiles for machines; a figure that does not exist is NaN."""
    compared, clocks = compare(profiles.kernels), profiles.clocks
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


def _kernel_json(one: KernelPower) -> dict[str, Any]:
    runs = one.runs
    components = {}
    for name, part in one.components.items():
        sse = None
        if part.sse is not None:
            sse = _curve_json(part.sse)
        deconvolved = None
        if part.deconvolved is not None:
            deconvolved = vars(part.deconvolved)
        components[name] = {
            "sse": sse,
            "ssp": _curve_json(part.ssp),
            "sse_error_percent": part.sse_error_percent,
            "energy": vars(part.energy),
            "throttling": {
                **vars(part.throttling),
                "fall_percent": part.throttling.fall_percent,
            },
            "deconvolved": deconvolved,
            "run": {column: part.run[column].to_numpy() for column in part.run},
        }
    return {
        "kernel": one.kernel,
        "class": one.facts.bound or None,
        **picked(
            one,
            "kernel_us",
            "window_us",
            "window_stated",
            "sse_execution",
            "ssp_execution",
            "filled",
            "isolation",
            "alone",
            "others",
        ),
        "runs": {
            "golden": len(runs.kept),
            "bin_us": [runs.low_us, runs.high_us],
            "margin": runs.margin,
            "removed": runs.removed,
            "list_removed": runs.table.loc[
                ~runs.table["golden"], ["run", "time_us", "reason"]
            ].to_dict("records"),
        },
        "plan": plan_json(one.plan),
        "phase": PHASES,
        "components": components,
        "without": {
            case: {"reason": str(rerun)} if isinstance(rerun, DataError) else _kernel_json(rerun)
            for case, rerun in one.without.items()
        },
        "notes": [*map(repr, one.notes)],
        "remarks": [note.to_dict() for note in one.notes],
    }


def _curve_json(curve: Curve) -> dict[str, Any]:
    return {
        **picked(curve, "mean_w", "polynomial_w", "spline_w"),
        "readings": {
            name: curve.readings[name].to_numpy()
            for name in ("run", "execution", "time_us", "power_w")
        },
    }


def power_figure(one: KernelPower) -> go.Figure:
    """Return a panel per component: steady-power readings with polynomial and spline, and the steady execution's."""
    names = list(one.components)
    figure = make_subplots(
        rows=len(names),
        cols=1,
        shared_xaxes=True,
        subplot_titles=[escape(name) for name in names],
        vertical_spacing=min(0.08, 0.35 / len(names)),
    )
    for row, part in enumerate(one.components.values(), 1):
        for trace in _traces(part, one.kernel_us):
            figure.add_trace(
                trace.update(showlegend=row == 1, legendgroup=trace.name), row=row, col=1
            )
    figure.update_yaxes(title_text="W")
    figure.update_xaxes(title_text="time in the execution, µs", row=len(names), col=1)
    return panels(figure, len(names) * PANEL + 120)


def run_figure(one: KernelPower, parts: Mapping[str, ComponentPower]) -> go.Figure:
    """Return a panel per part of the power over the whole run: its readings, and their mean by execution."""
    figure = make_subplots(
        rows=len(parts),
        cols=1,
        shared_xaxes=True,
        subplot_titles=[escape(name) for name in parts],
        vertical_spacing=min(0.08, 0.35 / len(parts)),
    )
    for row, part in enumerate(parts.values(), 1):
        points, means = part.run, part.by_execution
        for trace in (
            go.Scatter(
                name="readings",
                x=_short(points["since_run_us"].to_numpy()),
                y=_short(points["power_w"].to_numpy()),
                mode="markers",
                marker={"color": NEUTRAL, "size": 4, "opacity": 0.5},
            ),
            go.Scatter(
                name="mean by execution",
                x=_short(means["start_us"].to_numpy()),
                y=_short(means["mean_w"].to_numpy()),
                mode="lines",
                line={"color": SELECTED, "width": 2},
            ),
        ):
            figure.add_trace(
                trace.update(showlegend=row == 1, legendgroup=trace.name), row=row, col=1
            )
        for number_of in (one.sse_execution, one.ssp_execution):
            for start in means.loc[means["execution"].eq(number_of), "start_us"]:
                figure.add_vline(
                    x=float(start), line={"color": BASELINE, "dash": "dot"}, row=row, col=1
                )
    figure.update_yaxes(title_text="W")
    figure.update_xaxes(title_text="time since the run began, µs", row=len(parts), col=1)
    return panels(figure, len(parts) * PANEL + 120)


def _traces(part: ComponentPower, kernel_us: float) -> Iterator[go.Scatter]:
    """Yield the readings and curves of one component, the execution's position times the typical kernel time."""
    if part.sse is not None:
        yield _readings("SSE readings", part.sse, kernel_us, BASELINE)
        yield _line(
            "SSE polynomial",
            PHASES,
            part.sse.polynomial_w,
            kernel_us,
            {"color": BASELINE, "dash": "dash"},
        )
    yield _readings("SSP readings", part.ssp, kernel_us, NEUTRAL)
    yield _line(
        "SSP polynomial", PHASES, part.ssp.polynomial_w, kernel_us, {"color": SELECTED, "width": 3}
    )
    yield _line(
        "SSP spline", PHASES, part.ssp.spline_w, kernel_us, {"color": OTHERS[0], "width": 2}
    )
    if part.deconvolved is not None:
        deconvolved = part.deconvolved
        yield _line(
            "window removed",
            deconvolved.phase,
            deconvolved.power_w,
            kernel_us,
            {"color": OTHERS[1], "width": 2, "dash": "dot"},
        )


def _readings(name: str, curve: Curve, kernel_us: float, colour: str) -> go.Scatter:
    marker = {"color": colour, "size": 5, "opacity": 0.5}
    x = kernel_us * curve.readings["phase"].to_numpy()
    return go.Scatter(
        name=name,
        x=_short(x),
        y=_short(curve.readings["power_w"].to_numpy()),
        mode="markers",
        marker=marker,
        text=[f"run {escape(str(run))}" for run in curve.readings["run"]],
    )


def _line(
    name: str, phase: np.ndarray, power_w: np.ndarray, kernel_us: float, line: dict[str, object]
) -> go.Scatter:
    return go.Scatter(
        name=name, x=_short(kernel_us * phase), y=_short(power_w), mode="lines", line=line
    )


def _short(values: np.ndarray) -> list[float]:
    """Return numbers rounded to six digits: pages need no more."""
    return [float(f"{value:.6g}") for value in values]


BAR: Final = 46  # height of a kernel's bar with its name above it, pixels
COLOURS: Final = {"xcd": SELECTED, "iod": OTHERS[2], "hbm": OTHERS[0]}
"""Colours of the usual components; others take the rest."""
_NAME: Final = Column("kernel", "prose", least=12)
_LONGEST: Final = 50  # signs of a name above a bar that a telephone has room for


def lessons_section(kernels: Sequence[KernelPower], lessons: Lessons) -> Section:
    """Return the section that compares several kernels."""
    if len(kernels) < 2:
        return Section("Kernels side by side", [])
    caption = "Steady power, mean over the kernel's time, by component; the mark is the total"
    tables = [
        _bounds(lessons),
        _throughput(lessons),
        _complements(lessons),
        _overlaps(lessons),
        _interleaved(lessons),
    ]
    return Section(
        "Kernels side by side",
        [Figure(partial(side_by_side, kernels), caption), *tables],
        "side-by-side",
        "Side by side",
    )


def _bounds(lessons: Lessons) -> Table:
    heads = [_NAME, Column("bound by", "name"), *_numbers("FLOP/B", "balance", "growth", "TFLOP/s")]
    bounded = lessons.kernels[lessons.kernels["bound"].ne("") | lessons.kernels["dominant"].ne("")]
    cells = cells_of(
        bounded,
        kernel=str,
        bound=lambda bound: bound.removesuffix("-bound") or "–",
        flops_per_byte=significant,
        balance=significant,
        growth=_hundredths,
        tflops=significant,
        dominant=lambda name: name or "–",
        dominant_share=_percent,
    )
    caption = (
        "bound by: compute from the GPU's balance of FLOP per byte on, else memory; collectives "
        "by latency where their "
        "time grows with less than the root of their size (growth: the power of it); dominant: "
        "the component that "
        "draws most"
    )
    return Table(
        [*heads, Column("dominant", "name"), *_numbers("share, %")],
        rows(cells),
        "What bounds kernels",
        caption,
    )


def _throughput(lessons: Lessons) -> Table:
    heads = columns("component", numbers=["kernels", "W per TFLOP/s", "W at none", "correlation"])
    otherwise = np.where(
        lessons.throughput["correlation"] >= LEAST_CORRELATION, "too few tell", "does not"
    )
    cells = cells_of(
        lessons.throughput.assign(
            follows=np.where(lessons.throughput["follows"], "follows", otherwise)
        ),
        component=str,
        kernels=str,
        slope_w=significant,
        rest_w=significant,
        correlation=_hundredths,
        follows=str,
    )
    caption = "The line of steady power over achieved throughput of the kernels that compute"
    return Table(
        [*heads, Column("throughput", "name")],
        rows(cells),
        "Which power follows throughput",
        caption,
    )


def _complements(lessons: Lessons) -> Table:
    heads = [
        _NAME,
        Column("loads", "name"),
        Column("other", "prose", least=12),
        Column("loads", "name"),
    ]
    cells = cells_of(
        lessons.complements,
        kernel=str,
        peak=str,
        other=str,
        other_peak=str,
        together=_percent,
        busiest=str,
    )
    caption = (
        f"Pairs that load different components, and together none by over {100 * MOST_TOGETHER:g} "
        "% of the most that a "
        "kernel here draws; together: of the fullest component"
    )
    title = "Which kernels complement each other"
    return Table(
        [*heads, *_numbers("together, %"), Column("of", "name")],
        rows(cells),
        title,
        caption,
        shown=8,
    )


def _overlaps(lessons: Lessons) -> Table:
    heads = [
        _NAME,
        Column("other", "prose", least=12),
        *_numbers("together, W", "below the cap by, W"),
    ]
    cells = cells_of(
        lessons.overlaps, kernel=str, other=str, power_w=significant, headroom_w=significant
    )
    caption = (
        "Steady power of both less the idle power; pairs that stay below the cap first, the "
        "fullest of them first"
    )
    return Table(heads, rows(cells), "Which two stay below the cap together", caption, shown=8)


def _interleaved(lessons: Lessons) -> Table:
    heads = [_NAME, Column("how", "prose", least=12), *_numbers("time", "power", "energy")]
    ratio = partial(formatted, form="{:.3f}")
    cells = cells_of(
        lessons.interleaved,
        kernel=str,
        how=str,
        time_ratio=ratio,
        power_ratio=ratio,
        energy_ratio=ratio,
    )
    caption = (
        "Times what it is in runs with no other kernel; no energy where the power is that of a "
        "mixture"
    )
    return Table(heads, rows(cells), "Interleaved with other kernels, against alone", caption)


def side_by_side(kernels: Sequence[KernelPower]) -> go.Figure:
    """Return a bar per kernel, its components stacked; the total, a mark, where the log has components beside it."""
    every_name = []
    for kernel in kernels:
        every_name.extend(kernel.components)
    names = list(dict.fromkeys(every_name))
    parts = [name for name in names if name != TOTAL] or names
    place, figure = np.arange(len(kernels)), Drawing()
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
            mode="markers",
            text=hover,
            marker={"color": NEUTRAL, "symbol": "line-ns-open", "size": 22, "line": {"width": 3}},
            hovertemplate="%{text}: %{x:.4g} W<extra></extra>",
        )
    for at, one in enumerate(kernels):
        name = one.kernel
        if (
            len(name) > _LONGEST
        ):  # the middle goes: kernels differ in what they are, and in the size, which is last
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
    figure.update_layout(barmode="stack")
    figure.update_xaxes(title_text="W", rangemode="tozero")
    figure.update_yaxes(range=[len(kernels) - 0.6, -0.85], showticklabels=False, showgrid=False)
    legend = {"orientation": "h", "y": 1, "yanchor": "bottom", "x": 0, "traceorder": "normal"}
    return styled(figure, BAR * len(kernels) + 110, legend).update_layout(margin={"l": 12})


def _watts(kernels: Sequence[KernelPower], name: str) -> list[float | None]:
    parts = (one.components.get(name) for one in kernels)
    return [None if part is None else float(f"{part.ssp.mean_w:.6g}") for part in parts]


def _numbers(*heads: str) -> list[Column]:
    return [Column(head, "number") for head in heads]

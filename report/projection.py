"""The document of `project`: the outcome and what sets its pace, its parts, its interval, its sweeps.

Of several ranks of a job projected together: who waits for whom, and what they send.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import asdict, replace
from functools import partial
from itertools import product
from typing import Any, Final

import numpy as np
import pandas as pd

from ..operators.operators import OPS
from ..output import SCHEMA
from ..projection.job import CAUSES as JOB_CAUSES
from ..projection.job import PARTS, Job
from ..projection.phases import repeats_of
from ..projection.replay import WORK
from ..projection.result import Result, changes, critical_us, device_taken
from ..projection.roofs import HOST, SIDES
from ..projection.sweep import END_TO_END, SWEEPABLE
from ..projection.uncertainty import MEASURED, Uncertainty, class_of, need_of, source_name
from ..projection.whole_trace import BOUND, CATEGORY, LAW, WHY, Projection
from ..remarks import Remark, joined, remark
from ..traces.activity_work import UNKNOWN as UNKNOWN_OP
from ..traces.activity_work import WORDS
from ..traces.classes import COLLECTIVE, COMPUTE
from .document import (
    Bar,
    Bars,
    Column,
    Document,
    Figure,
    Headline,
    Kind,
    Lines,
    Listing,
    Part,
    Row,
    Section,
    Sliders,
    Table,
    cells_of,
    columns,
    lines,
    picked,
    records,
    remarked,
    rows,
    warned,
)
from .formats import NONE, counted, data_size, duration, formatted, share, shortened, significant
from .kernel_figures import roofline_figure, timeline_figure
from .predictions import workload
from .projection_figures import (
    advice_figure,
    class_figure,
    grid_figure,
    pairs_figure,
    ranks_figure,
    roofs_figure,
    sweep_figures,
    tornado_figure,
)

WAYS = {
    "sum": "sum of activities and gaps",
    "overlap": "sum, overlap counted once",
    "replay": "replay of its dependencies",
}
SHOWN = 8  # rows of the tornado, kernels, streams, steps and remarks that are printed
_LONG = ("kernels", "path", "cpu", "interval", "other laws", "laws", "unmeasured")
"""Tables (keys of `tables`) of which a terminal prints the first rows."""
_LINKS = {
    "classes": "Classes",
    "advice": "Advice",
    "pace": "Pace",
    "roofs": "Roofs",
    "efficiency": "Efficiency",
    "energy": "Energy",
    "path": "Critical path",
    "cpu": "CPU",
    "split": "Time",
    "gaps": "Gaps",
    "interval": "Interval",
    "other laws": "Other laws",
    "laws": "Laws",
}
"""Table -> its entry in the navigation, where that is shorter than its title."""
PACES = {
    "activity": "activities of the GPU",
    "cpu": "the CPU's work",
    "launch": "launches under way",
    "return": "waits of the CPU coming back",
    "gap": "gaps of a busy queue",
    "dependency": "one queue waiting for another",
    "unexplained": "gaps the trace does not explain",
}
"""What sets the pace: kinds of pieces of the critical path, in words."""
_SHORT = 24  # columns of a first cell that never folds


def projection_document(result: Result) -> Document:
    """Return a trace on another GPU, for terminal, page and machines."""
    projection, unsure = result.projection, result.uncertainty
    kernels = kernel_table(projection, result.rates)
    phases = []
    if result.phases is not None:
        phases = [str(result.phases.note)]
    need = [] if result.need is None else [str(result.need.told)]
    said = [
        *profiled(projection),
        *need,
        str(result.verdict),
        *phases,
        *unknown(kernels),
        *([] if need else narrower(result)),
        *([] if result.advice is None else [str(result.advice.remark)]),
    ]
    remarks = [*map(repr, (*changes(result), *result.notes, unsure.note))]
    head = Headline(
        "end to end",
        f"{duration(unsure.nominal_us)} on {target_of(projection)}",
        f"{duration(projection.host_us)} on {projection.host.name}",
        answer(result),
    )
    title = f"{result.label} on {projection.target.name}"
    lead = (
        f"measured on {projection.host.name}: "
        f"{counted(int(kernels['count'].sum()), 'activity', 'activities')}"
    )
    efficiency = ["name", "op_class", "op", "count", *SUMS, *result.rates.columns]
    machine = data(result) | {
        "unknown_work": unknown_json(kernels),
        "efficiency": records(kernels[efficiency]),
    }
    return answered(
        title, lead, head, said, _sections(result, kernels), remarks, machine, result.first
    )


def answer(result: Result) -> str:
    """Summarise in a sentence: the interval of the time, and what FLOPS scaling predicts."""
    unsure, totals = result.uncertainty, result.published.totals
    published = (
        f"{duration(totals['sum'])} added up, {duration(totals['replay'])} replayed in the same way"
    )
    reach = f"{duration(unsure.lower_us)} and {duration(unsure.upper_us)}"
    projection = result.projection
    ratio = unsure.nominal_us / projection.host_us
    if projection.laws.unprofiled is None:
        host = "the measured time"
    else:
        host = "the time without the profiler"
        published += ", both as profiled"
    return (
        f"{ratio:.3f} of {host}; between {reach} ({100 * unsure.level:g} % interval, "
        "accuracy band "
        f"{unsure.band}). FLOPS scaling, the published rule, says {published}."
    )


def profiled(projection: Projection) -> list[str]:
    """Report the overhead of the profiler: the times as profiled, and what was subtracted."""
    unprofiled = projection.laws.unprofiled
    if unprofiled is None:
        return []
    reach = ""
    if unprofiled.sigma:
        reach = f" (± {share(unprofiled.sigma)}, 1 σ)"
    return [
        f"as it would run without the profiler: {share(1 - unprofiled.kept)} of the CPU's work is taken "
        f"for that of {unprofiled.profiler}{reach}",
        f"as profiled: {duration(projection.measured_us)} on {projection.host.name}, "
        f"{duration(unprofiled.profiled_us)} on {target_of(projection)}",
    ]


def narrower(result: Result) -> list[str]:
    """Say what to measure or state next to narrow the interval; nothing where nothing narrows it."""
    unsure = result.uncertainty
    ways = need_of(result.projection, unsure, 0.0).ways
    if ways:
        return [
            f"To be surer: {ways[0][0]}, from ±{share(unsure.half_width)} to ±{share(ways[0][1])}"
        ]
    return []


def _sections(result: Result, kernels: pd.DataFrame) -> Iterator[Section]:
    """Yield a section for every table that has rows, with the figures that belong to it, and one of every kernel."""
    total = float(kernels["projected_us"].sum())
    figures = {
        "classes": Figure(
            partial(class_figure, result), "Time by class: measured, by FLOPS scaling, projected"
        ),
        "kernels": Figure(
            partial(timeline_figure, result),
            "Activities of the GPU over time (of steps the one of median time): as measured above, "
            "as projected below",
        ),
        "efficiency": Figure(
            partial(roofline_figure, result),
            "Kernels on the rooflines of both GPUs, as large as their share of the time",
        ),
        "interval": Figure(
            partial(tornado_figure, result),
            "End-to-end time with one source at its own quantiles, the others as they are",
        ),
        "advice": Figure(
            partial(advice_figure, result),
            "Roofline of the calls that cost most, as measured and projected",
        ),
        "grid": Figure(partial(grid_figure, result), "End-to-end time over the measured one"),
        "roofs": Figure(
            partial(roofs_figure, result),
            "Share of each roof over the time, as measured and projected",
        ),
    }
    for name, table in tables(result, kernels).items():
        heading = table.title[:1].upper() + table.title[1:]
        parts: list[Part] = [figures[name], table] if name in figures else [table]
        if name == "efficiency":
            every = [list(column) for column in zip(*_efficiency(kernels), strict=True)]
            caption = (
                "peak: hardware efficiency, FLOPS over the dense peak of the format used; "
                "bandwidth: share of that of "
                "the memory, of collectives that of the links"
            )
            listing = Listing(table.columns, partial(list, every), "efficiency", caption)
            parts = [figures[name], listing, replace(table, medium="terminal")]
        if name == "sweep":
            yield Section("Another target", _sweeps(result, table), "sweep", "Sweep")
        elif name == "grid":
            assert result.grid is not None
            slid = _sliders(result, result.grid, list(map(str, result.grid.columns[:2])))
            yield Section(heading, [slid, *parts], "grid", "Two figures")
        else:
            yield Section(heading, parts, link=_LINKS.get(name, ""))
        if name == "classes" and len(unknown_kernels := kernels[kernels["unknown"]]):
            listing = kernel_listing(unknown_kernels, "unknown-kernels", total)
            yield Section("Kernels whose work is unknown", [listing], "unknown", "Unknown work")
    if len(result.sent):
        yield sent_section(result.sent, result.pairs)
    count = counted(int(kernels["count"].sum()), "activity", "activities")
    every = f"Every kernel: {counted(len(kernels), 'kind')} of {count}"
    yield Section(every, [kernel_listing(kernels, "kernels", total)], "kernels", "Every kernel")


def _sweeps(result: Result, table: Table) -> list[Part]:
    """Return the table of a terminal; for pages the figures, and where the bound changes."""
    assert result.sweeps is not None
    target = result.projection.target.name
    drawn: list[Part] = []
    for place, (name, sweep) in enumerate(result.sweeps.groupby("figure", sort=False)):
        drawn.append(_sliders(result, sweep.rename(columns={"value": name}), [str(name)]))
        caption = f"End-to-end time over {SWEEPABLE[str(name)]} of {target}"
        drawn.append(Figure(partial(lambda at: sweep_figures(result)[at], place), caption))
    changed = lines(str(change) for change in changes(result)).lines
    return [*drawn, Lines(changed, "list", medium="page"), replace(table, medium="terminal")]


def _sliders(result: Result, points: pd.DataFrame, names: Sequence[str]) -> Sliders:
    """Return a slider for each figure that was swept, and the time of the point that they stand at."""
    target, measured = result.projection.target.name, result.projection.measured_us
    axes = []
    for name in names:
        axes.append((str(SWEEPABLE[name]), [f"{value:,.6g}" for value in points[name].unique()]))
    choices = [
        [
            Headline(
                "",
                f"{duration(time)} on {target}",
                f"{duration(measured)} as measured",
                f"{time / measured:.3f} of the measured time",
            )
        ]
        for time in points[END_TO_END]
    ]
    return Sliders(axes, choices, int(np.argmax(points["current"])) if "current" in points else 0)


def data(result: Result) -> dict[str, Any]:
    """Return a projection as JSON types; the activities themselves are not in it."""
    unsure, laws, phases = result.uncertainty, result.projection.laws, result.phases
    roofs = []
    for one in result.strips:
        roofs.append(
            {
                "gpu": one.gpu,
                "step": one.step,
                "edges_us": one.edges_us.tolist(),
                "shares": {name: share.tolist() for name, share in one.shares.items()},
            }
        )
    need = None
    if result.need is not None:
        need = result.need.told.to_dict()
    durations = None
    if result.durations is not None:
        durations = records(result.durations)
    sweep = None
    if result.sweeps is not None:
        sweep = records(result.sweeps)
    grid = None
    if result.grid is not None:
        grid = records(result.grid)
    advice = None
    if result.advice is not None:
        advice = records(result.advice.table)
    if laws.run is None:
        compute = laws.compute
    else:
        compute = f"model, else {laws.compute}"
    world = None
    if laws.world is not None:
        world = asdict(laws.world)
    return {
        "schema": SCHEMA,
        "trace": result.label,
        "host": result.projection.host.name,
        "target": result.projection.target.name,
        "laws": {
            "compute": compute,
            **picked(laws, "communication", "gaps", "cpu_speed", "keep_waiting"),
            "world": world,
        },
        "measured_us": result.projection.measured_us,
        "unprofiled": _unprofiled_json(result.projection),
        "projected_us": unsure.nominal_us,
        "published_us": result.published.totals["sum"],
        "interval": interval_json(unsure),
        "need": need,
        "verdict": str(result.verdict),
        "roofs": roofs,
        "energy": records(result.energy),
        "critical_path": {
            "measured": result.measured_path,
            "projected": result.path,
            "kernels": records(result.path_kernels),
            "cpu_operations": records(cpu_operations(result.projection)),
        },
        "totals": records(result.totals),
        "classes": records(result.classes),
        "split": records(result.split)[0],
        "split_by_stream": records(result.streams),
        "split_by_step": records(result.step_split),
        "gaps": records(result.gaps),
        "steps": records(result.steps),
        "law_remarks": records(in_words(result.remarks)),
        "phases": phases
        and {
            "found": records(phases.table),
            "activities": phases.activities,
            "projected_activities": phases.projected_activities,
            "projected_share": phases.share,
            "error": phases.error,
        },
        "durations": durations,
        "sweep": sweep,
        "sent": records(result.sent),
        "pairs": records(result.pairs),
        "grid": grid,
        "advice": advice,
        "notes": [*map(repr, (*result.first, *result.notes))],
    }


def interval_json(unsure: Uncertainty) -> dict[str, Any]:
    """Return an end-to-end time with its interval as JSON types."""
    return {
        **picked(
            unsure,
            "level",
            "lower_us",
            "upper_us",
            "median_us",
            "half_width",
            "band",
            "samples",
            "seed",
            "convergence",
        ),
        "tornado": records(unsure.tornado),
    }


def _unprofiled_json(projection: Projection) -> dict[str, Any] | None:
    unprofiled = projection.laws.unprofiled
    if unprofiled is None:
        return None
    note = None
    if unprofiled.note is not None:
        note = str(unprofiled.note)
    return asdict(unprofiled) | {"note": note}


def _advice(result: Result) -> Iterator[Sequence[str]]:
    """Yield the row of each call that costs most."""
    if result.advice is None:
        return
    for row in result.advice.table.to_dict("records"):
        bounds = []
        for side in SIDES:
            bound, roof = (
                BOUNDS.get(row[f"{side}_bound"], row[f"{side}_bound"]),
                row[f"{side}_roof"],
            )
            if bound and np.isfinite(roof):
                bound = f"{bound} {share(roof, 0)}"
            bounds.append(bound or NONE)
        finite = np.isfinite(row["projected_best_us"])
        yield (
            str(row["kernel"]),
            workload(row) if str(row["op"]) not in ("", UNKNOWN_OP) else "unknown",
            f"{row['count']:,.0f}",
            duration(row["measured_us"]),
            bounds[0],
            duration(row["projected_us"]),
            bounds[1],
            duration(row["projected_best_us"]) if finite else NONE,
            row["projected_basis"] or NONE,
            f"{row['projected_times']:.2f}" if finite else NONE,
            duration(row["gain_us"]) if finite else NONE,
            duration(row["end_gain_us"]) if finite else NONE,
            duration(row["most_us"]) if np.isfinite(row["most_us"]) else NONE,
        )


def in_words(table: pd.DataFrame) -> pd.DataFrame:
    """Return a table with its column `why` in words."""
    said = {why: joined(why) for why in table["why"]}
    return table.assign(
        why=pd.Series([said[why] for why in table["why"]], table.index, dtype=object)
    )


def tables(result: Result, kernels: pd.DataFrame) -> dict[str, Table]:
    """Return every table under its name; tables without rows are left out. ``kernels`` are of `kernel_table`."""
    host, target = result.projection.host.name, target_of(result.projection)
    durations, steps = result.durations, result.steps
    missed = None
    if durations is not None:
        missed = durations[durations["measured"] < durations["launches"]]
    named = Column("kernel", "kernel", most=60), Column("operator or call", "kernel", most=60)
    parts: list[tuple[str, str, Sequence[str | Column], Sequence[Sequence[str]]]] = [
        (
            "advice",
            "what to make faster: the calls that cost most, against the best known kernels",
            (
                named[0],
                Column("work", "cut", most=40),
                "count",
                host,
                f"bound on {host}",
                target,
                f"bound on {target}",
                "best known",
                "rests on",
                "times it",
                "gain",
                "end to end",
                "at most",
            ),
            list(_advice(result)),
        ),
        ("grid", "time over the measured one", *_grid(result.grid)),
        ("sweep", "sweep", *_sweep(result.sweeps)),
        (
            "kernels",
            "longest kernels",
            (named[0], *columns(numbers=("count", host, target, "ratio", "share")), "bound"),
            _by_name(kernels),
        ),
        (
            "totals",
            "end to end",
            ("added up as", host, "FLOPS scaling", target, "ratio"),
            cells_of(
                result.totals,
                aggregation=WAYS.__getitem__,
                measured_us=duration,
                published_us=duration,
                projected_us=duration,
                factor="{:.3f}".format,
            ),
        ),
        (
            "classes",
            "kernels by class",
            (
                "class",
                "count",
                host,
                "FLOPS scaling",
                target,
                "low",
                "high",
                "ratio",
                "± 1 σ",
                "law",
                "bound",
            ),
            list(_classes(result.classes)),
        ),
        (
            "pace",
            "what sets the pace",
            ("share of the critical path", host, target),
            [
                (name, share(result.measured_path[kind]), share(result.path[kind]))
                for kind, name in PACES.items()
                if result.measured_path[kind] or result.path[kind]
            ],
        ),
        (
            "roofs",
            _strip_title(result),
            (Column("share of the roof", "name"), Column("over time", "name"), "mean", "most"),
            list(_strips(result)),
        ),
        (
            "efficiency",
            "hardware efficiency",
            _rate_columns(result),
            _efficiency(kernels)[:SHOWN],
        ),
        (
            "energy",
            "energy",
            ("GPU", "time", "mean power, W", "energy, J", "low", "high", "power measured"),
            cells_of(
                result.energy,
                gpu=str,
                time_us=duration,
                power_w="{:,.0f}".format,
                energy_j=significant,
                lower_j=significant,
                upper_j=significant,
                measured_share=partial(share, digits=0),
            ),
        ),
        (
            "path",
            "longest kernels of the critical path",
            (named[0], "class", "count", "time on it", "share"),
            cells_of(
                result.path_kernels,
                name=str,
                op_class=str,
                count=_COUNT,
                path_us=duration,
                share=share,
            ),
        ),
        (
            "cpu",
            "what the CPU works for on the critical path",
            (named[1], "calls", "time on it", "share"),
            cells_of(
                cpu_operations(result.projection),
                name=str,
                count=_COUNT,
                path_us=duration,
                share=share,
            ),
        ),
        (
            "split",
            "where the measured time goes",
            (
                "part",
                "computation",
                "communication",
                "copies",
                "idle",
                "total",
                "hidden communication",
            ),
            list(_split(result)),
        ),
        (
            "gaps",
            "measured gaps between activities",
            ("cause", "count", "time"),
            cells_of(
                result.gaps[result.gaps["count"] > 0], cause=str, count=_COUNT, gap_us=duration
            ),
        ),
        (
            "interval",
            "what the interval is made of",
            ("source", "± 1 σ", "low", "high", "variance"),
            cells_of(
                result.uncertainty.tornado,
                name=source_name,
                sigma=spread,
                low_us=duration,
                high_us=duration,
                share=share,
            ),
        ),
        (
            "steps",
            "steps",
            ("step", host, target),
            cells_of(
                steps if len(steps) > 1 else None,
                step="{:.0f}".format,
                measured_us=duration,
                projected_us=duration,
            ),
        ),
        (
            "other laws",
            "other laws than asked for",
            (Column("because", "words"), "law", "count", "time"),
            _remarks(result.remarks, True),
        ),
        (
            "laws",
            "how laws were applied",
            (Column("remark", "words"), "law", "count", "time"),
            _remarks(result.remarks, False),
        ),
        (
            "phases",
            "phases",
            ("activities of one", "repeats", "projected", "similarity", host, target, "± 1 σ"),
            cells_of(
                None if result.phases is None else result.phases.table,
                activities=_COUNT,
                repeats=_COUNT,
                projected_repeats=_COUNT,
                similarity=share,
                measured_us=duration,
                projected_us=duration,
                error=partial(share, digits=2),
            ),
        ),
        (
            "unmeasured",
            "kernels that no pass measured",
            (named[0], "launches", "measured", "time of the others"),
            cells_of(missed, name=str, launches=_COUNT, measured=_COUNT, unmeasured_us=duration),
        ),
    ]
    made = {
        name: _table(title, heads, rows, SHOWN if name in _LONG else None)
        for name, title, heads, rows in parts
        if rows
    }
    added, whole = float(result.classes["projected_us"].sum()), result.uncertainty.nominal_us
    if "energy" in made:
        caption = (
            "power measured: share of the busy time whose class of kernels has a measured power; "
            "else it is "
            "a judged share of the board power"
        )
        made["energy"] = replace(made["energy"], caption=caption)
    if "roofs" in made:
        made["roofs"] = replace(made["roofs"], medium="terminal")
    if "classes" in made and added > whole:
        made["classes"] = replace(made["classes"], caption=_why_more(result, added, whole))
    return made


def _why_more(result: Result, added: float, whole: float) -> str:
    """Say why the classes exceed the end-to-end time: overlap, or activities that do not count in it."""
    projection = result.projection
    counts = projection.counted
    rows = projection.activities["projected_us"].to_numpy()[projection.graph.rows]
    apart, overlap = float(rows[~counts].sum()), projection.overlap_us
    reasons: list[str] = []
    if apart > 0:
        left_out = counted(int((~counts).sum()), "activity that is", "activities that are")
        reasons.append(f"{duration(apart)} of {left_out} left out of the end-to-end time")
    if overlap > _SLIGHT * whole:
        reasons.append(f"{duration(overlap)} that run beside others")
    because = f": {', and '.join(reasons)}" if reasons else ""
    return f"Classes add up to {duration(added)}, end to end it is {duration(whole)}{because}"


_SLIGHT: Final = 1e-3  # share of the time from which overlap is worth a word
_COUNT: Final = "{:,}".format


def _classes(table: pd.DataFrame) -> Iterator[tuple[str, ...]]:
    every: Any = table.itertuples()  # of types that its columns know
    for row in every:
        times = (duration(value) for value in (row.measured_us, row.published_us, row.projected_us))
        reach = (duration(value) for value in (row.lower_us, row.upper_us))
        bound = BOUNDS.get(str(row.bound), str(row.bound))
        sigma = spread(row.sigma) + ("" if row.basis == MEASURED else f" ({row.basis})")
        ratio = formatted(row.factor, "{:.3f}")
        yield str(row.op_class), f"{row.count:,}", *times, *reach, ratio, sigma, str(row.law), bound


_WIDTH: Final = 40  # characters of a strip on a terminal
_LEVELS: Final = " ▁▂▃▄▅▆▇█"


def _strip_title(result: Result) -> str:
    """Return the title of the strips."""
    step = result.strips[-1].step
    if step is None:
        return "what is used over time"
    return f"what is used over step {step}"


def _strips(result: Result) -> Iterator[tuple[str, ...]]:
    """Yield a line for each roof of host and target: its share over time as blocks, a full one for the whole roof."""
    for one in result.strips:
        for name, shares in one.shares.items():
            bins = shares[: len(shares) // _WIDTH * _WIDTH].reshape(_WIDTH, -1).mean(axis=1)
            blocks = "".join(_LEVELS[int(np.ceil(min(each, 1.0) * 8 - 1e-9))] for each in bins)
            yield f"{name}, {one.gpu}", f"|{blocks}|", share(shares.mean(), 0), share(bins.max(), 0)


def _rate_columns(result: Result) -> list[Column]:
    """Return the columns of `_efficiency`."""
    gpus = result.projection.host.name, target_of(result.projection)
    heads = ("TFLOP/s", "GB/s", "peak", "bandwidth")
    numbers = []
    for head in heads:
        for gpu in gpus:
            numbers.append(f"{head}, {gpu}")
    return [Column("kernel", "kernel", most=40), *columns(numbers=numbers)]


def _efficiency(kernels: pd.DataFrame) -> list[Sequence[str]]:
    """Return the rates of kernels whose work is stated, on host and target in turn; of collectives the link rates."""
    cells: list[Sequence[str]] = []
    for row in kernels[kernels[["measured_tflops", "measured_gbs"]].gt(0).any(axis=1)].to_dict(
        "records"
    ):
        moved = "memory_share"
        if row["op_class"] == COLLECTIVE:
            moved = "link_share"
        texts = [str(row["name"])]
        texts += [
            significant(row[f"{side}_{name}"]) for name, side in product(("tflops", "gbs"), SIDES)
        ]
        shown = product(("efficiency", moved), SIDES)
        texts += [share(row[f"{side}_{name}"]) for name, side in shown]
        cells.append(texts)
    return cells


def _split(result: Result) -> Iterator[tuple[str, ...]]:
    """Yield the whole trace, then its busiest streams and steps, where there are several."""
    yield "whole trace", *_measures(result.split.iloc[0])
    for column, table in (("stream", result.streams), ("step", result.step_split)):
        names = [
            name
            for name in ("rank", "process", "gpu")
            if name in table and len(table[name].unique()) > 1
        ]
        shown = (
            table.sort_values("busy_us", ascending=False, kind="stable").head(SHOWN).sort_index()
        )
        for _, row in shown.iterrows() if len(table) > 1 else ():
            yield ", ".join(f"{name} {row[name]}" for name in (column, *names)), *_measures(row)


def _measures(row: pd.Series) -> Iterator[str]:
    names = ("computation_us", "exposed_communication_us", "exposed_copy_us", "idle_us", "total_us")
    return (duration(row[name]) for name in (*names, "overlapped_communication_us"))


def _remarks(table: pd.DataFrame, other: bool) -> list[tuple[str, ...]]:
    return cells_of(
        table[table["other"] == other], why=joined, law=str, count=_COUNT, projected_us=duration
    )


def _sweep(frame: pd.DataFrame | None) -> tuple[tuple[str, ...], list[tuple[str, ...]]]:
    if frame is None:
        return (), []
    shares = [str(name) for name in frame.columns if str(name).startswith("share.")]
    heads: tuple[str, ...] = (
        "figure",
        "value",
        "end to end",
        *(BOUNDS.get(name[6:], name[6:]) for name in shares),
    )
    rows: list[tuple[str, ...]] = []
    for _, row in frame.iterrows():
        rows.append(
            (
                str(row["figure"]) + (" (as it is)" if row["current"] else ""),
                f"{row['value']:,.6g}",
                duration(row["end_to_end_us"]),
                *(share(row[name]) for name in shares),
            )
        )
    return heads, rows


def _grid(frame: pd.DataFrame | None) -> tuple[tuple[str, ...], list[tuple[str, ...]]]:
    """Return the times of two figures swept together as a table of the first down, the second across."""
    if frame is None:
        return (), []
    down, across = map(str, frame.columns[:2])
    table = frame.pivot_table(index=down, columns=across, values="ratio")
    heads = (f"{down}, by {across}", *(f"{value:,.6g}" for value in table.columns))
    cells: list[tuple[str, ...]] = []
    for value, *row in table.itertuples():
        cells.append((f"{value:,.6g}", *(f"{ratio:.3f}" for ratio in row)))
    return heads, cells


def _table(
    title: str, heads: Sequence[str | Column], rows: Sequence[Sequence[str]], shown: int | None
) -> Table:
    """Return a table; columns of which every cell begins with a letter hold words: the first may fold if it is long."""
    columns_of = []
    for place, head in enumerate(heads):
        if isinstance(head, Column):
            columns_of.append(head)
            continue
        cells = [row[place] for row in rows]
        whole = place > 0 or max(map(len, cells)) <= _SHORT
        in_letters = all(cell[:1].isalpha() for cell in cells)
        kind: Kind = "number" if not in_letters else "name" if whole else "words"
        columns_of.append(Column(head, kind))
    return Table(columns_of, [Row(tuple(row)) for row in rows], title, shown=shown)


SUMS: Final = ("measured_us", "projected_us", "critical_us")


def kernel_table(projection: Projection, rates: pd.DataFrame) -> pd.DataFrame:
    """Return one row per kind of activity (name, shape, law), the largest projected time first.

    The columns are `name`, `op_class`, `op` with its formats and dimensions, `law`, `bound`, `why`
    (of the first), `sigma` (the greatest), `source` (of the first); `count`, `measured_us`,
    `projected_us`, `critical_us`, summed; `unknown`, whether its work is unknown; and the columns
    of ``rates`` (`roofs.rates_of`), means over the time.
    """
    rows = projection.activities
    rows = rows.assign(
        critical_us=critical_us(projection),
        op_class=class_of(rows),
        unknown=unknown_work(projection),
    )
    rows = rows.assign(repeats=repeats_of(rows))
    every_dim = []
    for operator in OPS.values():
        if operator.name != UNKNOWN_OP:
            every_dim.extend(operator.dims)
    dims = dict.fromkeys(every_dim)
    keys = [name for name in ("name", "kind", LAW, BOUND, *WORDS, *dims) if name in rows]
    code = rows.groupby(keys, dropna=False, observed=True, sort=False).ngroup()
    by = rows.groupby(code)
    first = rows.assign(code=code).drop_duplicates("code").set_index("code")
    table = first[[*dict.fromkeys([*keys, "op_class", WHY, "source", "unknown"])]].assign(
        count=by["repeats"].sum().round().astype("int64"), sigma=by["sigma"].max()
    )
    table[list(SUMS)] = by[list(SUMS)].sum()
    for name, rate in rates.items():
        weight = rows["measured_us" if str(name).startswith(HOST) else "projected_us"].where(
            rate.notna(), 0.0
        )
        total = weight.groupby(code).sum()
        table[str(name)] = (rate.fillna(0.0) * weight).groupby(code).sum() / total.where(total > 0)
    return table.sort_values("projected_us", ascending=False, kind="stable", ignore_index=True)


def _by_name(kernels: pd.DataFrame) -> list[tuple[str, ...]]:
    """Return a row per name of `kernel_table`, the longest on the target first."""
    by = kernels.groupby("name", observed=True, sort=False)
    sums = by[["count", "measured_us", "projected_us"]].sum()
    sums = sums.assign(bound=by["bound"].first())
    total = float(sums["projected_us"].sum())
    cells: list[tuple[str, ...]] = []
    for name, row in sums.sort_values("projected_us", ascending=False, kind="stable").iterrows():
        ratio = None
        if row["measured_us"]:
            ratio = row["projected_us"] / row["measured_us"]
        part = None
        if total:
            part = row["projected_us"] / total
        cells.append(
            (
                str(name),
                f"{int(row['count']):,}",
                duration(row["measured_us"]),
                duration(row["projected_us"]),
                formatted(ratio, "{:.3f}"),
                share(part, 1),
                BOUNDS.get(str(row["bound"]), str(row["bound"])),
            )
        )
    return cells


def projections_document(results: Sequence[Result]) -> Document:
    """Return several traces or targets side by side: a row each, the largest gain first."""
    records, cells = list[dict[str, Any]](), []
    for result in sorted(results, key=_ratio):
        unsure, projection = result.uncertainty, result.projection
        low, high = unsure.lower_us, unsure.upper_us
        target = target_of(projection)
        records.append(
            {
                "trace": result.label,
                "host": projection.host.name,
                "target": target,
                "measured_us": projection.measured_us,
                "projected_us": unsure.nominal_us,
                "lower_us": low,
                "upper_us": high,
                "ratio": _ratio(result),
            }
        )
        pace = max(result.path, key=lambda kind: result.path[kind])
        cells.append(
            (
                result.label,
                target,
                duration(unsure.nominal_us),
                f"{duration(low)} … {duration(high)}",
                formatted(_ratio(result), "{:.3f}"),
                duration(projection.measured_us),
                projection.host.name,
                PACES[pace],
            )
        )
    first = records[0]
    heads = (
        Column("trace", "kernel", most=48),
        Column("on", "name"),
        *columns(numbers=("time", "interval", "ratio", "measured")),
        Column("measured on", "name"),
        Column("most of the critical path"),
    )
    head = Headline(
        "least of its measured time",
        f"{first['trace']} on {first['target']}",
        f"{formatted(first['ratio'], '{:.3f}')} of {duration(first['measured_us'])}",
        "",
    )
    level = f"{100 * results[0].uncertainty.level:g} %"
    table = Table(
        heads,
        [Row(row) for row in cells],
        "traces on their targets",
        f"interval: {level}; ratio: of the measured time",
        name="projections",
    )
    count = counted(len(results), "projection")
    return Document(
        title=count,
        opening=[head, table, *_first_advice(results)],
        data={"schema": SCHEMA, "projections": records},
    )


def _first_advice(results: Sequence[Result]) -> list[Table]:
    """Show for each projection the call that is worth most to make faster; nothing where that was not asked."""
    cells = []
    for result in sorted(results, key=_ratio):
        if result.advice is None:
            continue
        gains = result.advice.table["end_gain_us"].astype(float)
        target = target_of(result.projection)
        if not gains.gt(0).any():
            cells.append((result.label, target, "no faster kernel is known", *[NONE] * 3))
            continue
        row = result.advice.table.iloc[int(np.nanargmax(gains))]
        times = (row["projected_us"], row["projected_best_us"], row["end_gain_us"])
        cells.append((result.label, target, str(row["kernel"]), *map(duration, times)))
    if not cells:
        return []
    heads = (
        Column("trace", "kernel", most=30),
        Column("on", "name"),
        Column("kernel", "kernel", most=40),
        *columns(numbers=("takes", "best known", "end to end gains")),
    )
    caption = "the call that gains most on each target; the others: --all"
    return [Table(heads, rows(cells), "what to make faster first", caption, name="advice")]


def _ratio(result: Result) -> float:
    return float(result.uncertainty.nominal_us / result.projection.measured_us)


def unknown_work(projection: Projection) -> np.ndarray:
    """Return which activities have unknown work, shape (n_activities,)."""
    rows = projection.activities
    computes = rows[CATEGORY].astype(str).eq(COMPUTE) & rows["kind"].astype(str).eq("kernel")
    return (computes & rows[BOUND].astype(str).eq("")).to_numpy(dtype=bool)


def cpu_operations(projection: Projection) -> pd.DataFrame:
    """Return the CPU operations on the critical path of the target, the longest time first.

    The CPU's work up to the end of a call counts for the operator whose activity that call
    launches; of a call that launches none, for the call. The columns are `name`, `count` of calls
    replayed, `path_us`, and `share` of the path.
    """
    graph, path = projection.target_graph, projection.path
    work = path[path["kind"] == WORK]
    if not len(graph.calls) or work.empty:
        return pd.DataFrame({"name": [], "count": [], "path_us": [], "share": []})
    names = np.array(graph.calls.names, dtype=object)
    launched = np.flatnonzero(graph.call >= 0)
    operators = (
        projection.activities["op_name"]
        .astype(object)
        .fillna("")
        .astype(str)
        .to_numpy()[graph.rows]
    )
    named = operators[launched] != ""
    names[graph.call[launched[named]]] = operators[launched[named]]
    ends = projection.times.call_ns(graph)[0] + graph.calls.duration_ns * projection.cpu
    order = np.argsort(ends, kind="stable")
    edges = ends[order]
    pieces = []
    for begin, end, length in work[["begin_ns", "end_ns", "length_ns"]].to_numpy():
        inside = slice(
            np.searchsorted(edges, begin, side="right"),
            np.searchsorted(edges, end, side="left") + 1,
        )
        calls = order[inside]
        if not len(calls):
            pieces.append(
                pd.DataFrame({"name": ["after the last call"], "path_us": [length / 1e3]})
            )
            continue
        until = np.minimum(edges[inside], end)
        until[-1] = end
        lasted_ns = np.diff(until, prepend=begin) * length / (end - begin)
        pieces.append(pd.DataFrame({"name": names[calls], "path_us": lasted_ns / 1e3}))
    on_path = (
        pd.concat(pieces).groupby("name")["path_us"].agg(count="size", path_us="sum").reset_index()
    )
    length_us = float(path["length_ns"].sum()) / 1e3
    return on_path.assign(share=on_path["path_us"] / length_us).sort_values(
        "path_us", ascending=False, kind="stable", ignore_index=True
    )


BOUNDS = {"": "unknown"}


def unknown(kernels: pd.DataFrame) -> list[str]:
    """Report the share of the projected time spent in kernels of unknown work; nothing where there is none."""
    guessed, total = kernels[kernels["unknown"]], float(kernels["projected_us"].sum())
    if guessed.empty or not total:
        return []
    part = share(float(guessed["projected_us"].sum()) / total)
    count = counted(int(guessed["count"].sum()), "kernel")
    return [
        f"{part} of the projected time of activities is of {count} whose work is not known: a law "
        "has only their time"
    ]


def unknown_json(kernels: pd.DataFrame) -> dict[str, Any]:
    """Return the same as JSON types, with the kernels by name."""
    guessed, total = kernels[kernels["unknown"]], float(kernels["projected_us"].sum())
    by = (
        guessed.groupby("name", sort=False, observed=True)[["count", "measured_us", "projected_us"]]
        .sum()
        .reset_index()
    )
    part = 0.0
    if total:
        part = float(guessed["projected_us"].sum()) / total
    return {"share": part, "kernels": records(by)}


def kernel_listing(kernels: pd.DataFrame, name: str, total: float) -> Listing:
    """List kinds of activities with all their figures, and their share of a total."""
    heads = (
        Column("kernel", "kernel"),
        Column("class"),
        *columns(numbers=("count", "measured, µs", "projected, µs")),
        Column("share", "number"),
        Column("ratio", "number"),
        Column("± 1 σ", "number"),
        Column("on critical path, µs", "number"),
        Column("bound"),
        Column("law"),
        Column("work"),
        Column("because"),
        Column("file and line", "place"),
    )

    def texts() -> list[list[str]]:
        rows = [
            (
                str(row["name"]),
                str(row["op_class"]),
                f"{row['count']:,}",
                significant(row["measured_us"]),
                significant(row["projected_us"]),
                share(row["projected_us"] / total if total else None, 2),
                formatted(
                    row["projected_us"] / row["measured_us"] if row["measured_us"] else None,
                    "{:.3f}",
                ),
                spread(row["sigma"]),
                significant(row["critical_us"]),
                BOUNDS.get(str(row["bound"]), str(row["bound"])),
                str(row["law"]),
                "unknown" if row["unknown"] or str(row["op"]) in ("", "kernel") else workload(row),
                joined(row["why"]),
                str(row["source"]),
            )
            for row in kernels.to_dict("records")
        ]
        if rows:
            return [list(column) for column in zip(*rows, strict=True)]
        return [[]]

    caption = (
        "ratio: projected / measured; share: of the projected time of all activities; ± 1 σ: how "
        "far the law errs, "
        "relative, – where it is not known; file and line: of the first of its kind."
    )
    return Listing(heads, texts, name, caption)


def spread(sigma: float) -> str:
    """Return the relative standard deviation of a factor, as users state it (`uncertainty.parse_sigmas`)."""
    return formatted(100 * np.sqrt(np.expm1(sigma**2)), "{:.0f} %")


def job_document(job: Job, unsure: Uncertainty) -> Document:
    """Return several ranks of a job on another GPU with their uncertainty, for terminal, page and machines."""
    host, target = job.projections[0].host.name, target_of(job.projections[0])
    said, notes = _findings(job), _notes(job)
    ratio = job.projected_us / job.measured_us
    head = Headline(
        "end to end",
        f"{duration(job.projected_us)} on {target}",
        f"{duration(job.measured_us)} on {host}",
        f"{ratio:.3f} of the measured time, from the first start to the last end of all ranks; "
        f"between {duration(unsure.lower_us)} and {duration(unsure.upper_us)} "
        f"({100 * unsure.level:g} % interval, accuracy band {unsure.band}). "
        "FLOPS scaling, the "
        f"published rule, says {duration(job.published_us)}, replayed in the same way.",
    )
    title = f"{counted(len(job.ranks), 'rank')} on {job.projections[0].target.name}"
    lead = f"measured on {host}: {counted(len(job.meetings), 'collective')} that they share"
    return answered(
        title,
        lead,
        head,
        said,
        _job_sections(job, unsure),
        notes,
        job_json(job, unsure),
        _doubts(job),
    )


def answered(
    title: str,
    lead: str,
    head: Headline,
    said: Sequence[str],
    sections: Iterable[Section],
    notes: Sequence[str],
    data: dict[str, Any],
    first: Sequence[Remark] = (),
) -> Document:
    """Return a document with the answer and its remarks first, and notes last.

    ``first`` stands above the answer.
    """
    return Document(
        title=title,
        lead=lead,
        opening=[
            *warned(first),
            head,
            lines(said, medium="terminal"),
            lines(said, "answer", medium="page"),
        ],
        sections=[*sections, Section("Notes", [lines(notes, "list", medium="page")])],
        closing=[Lines(remarked(notes))],
        data=data,
    )


def target_of(projection: Projection) -> str:
    """Return the target's name beside the host, with what else changes if it is the same GPU."""
    name, world = projection.target.name, projection.laws.world
    if world is not None and world.ranks is not None:
        return f"{name}, {counted(world.ranks, 'rank')}"
    if name != projection.host.name:
        return name
    return f"{name}, projected"


def _doubts(job: Job) -> list[Remark]:
    """Return the findings of reading each rank's trace."""
    said = list[Remark]()
    for rank, one in zip(job.ranks, job.projections, strict=True):
        trace = f"rank {rank}"
        for doubt in (*device_taken(one), *one.doubts.remarks):
            said.append(remark(doubt.code, f"{trace}: {doubt}", **{**doubt.values, "trace": trace}))
    return said


def _findings(job: Job) -> list[str]:
    """Return the share of waiting time, and the slowest rank."""
    split = job.split
    total, waiting = float(split["total_us"].sum()), float(split["waiting_us"].sum())
    before = float(split["measured_waiting_us"].sum()) / float(split["measured_total_us"].sum())
    latest = split.sort_values("late_us", ascending=False, kind="stable").iloc[0]
    target = job.projections[0].target.name
    sentences = [
        f"the ranks wait for peers in {share(waiting / total, 0)} of their time on {target} "
        f"({share(before, 0)} as "
        "measured): no faster network shortens that"
    ]
    if latest["late_us"] > 0:
        sentences.append(
            f"rank {int(latest['rank'])} comes last to {int(latest['last'])} of "
            f"{len(job.meetings)} collectives, "
            f"{duration(latest['late_us'])} after the one before it in total"
        )
    work = split["measured_computation_us"]
    if work.mean() > 0:
        over = float(work.max() / work.mean()) - 1.0
        longest = split["rank"].iloc[int(work.argmax())]
        sentences.append(
            f"rank {longest} computes longest, {100 * over:.1f} % above the mean of the ranks, as "
            "measured"
        )
    return sentences


def _notes(job: Job) -> list[str]:
    error_us = job.matched.clock_error_ns / 1e3
    sentences = [
        f"the traces' clocks are aligned by the ends of common collectives, within {error_us:.3g} "
        "µs"
    ]
    if job.matched.unmatched:
        sentences.append(
            f"{job.matched.unmatched} collectives are in some of the traces only, or between two "
            "ranks: no waiting is "
            "computed for them"
        )
    group = max(
        (len(str(one).split(" ")[-1].split(",")) for one in job.matched.members["group"]), default=0
    )
    if group > len(job.ranks):
        sentences.append(
            f"{len(job.ranks)} of {group} ranks were given: a collective is assumed to start with "
            "the last of those"
        )
    return sentences


def _job_sections(job: Job, unsure: Uncertainty) -> Iterator[Section]:
    host, target = job.projections[0].host.name, target_of(job.projections[0])
    drawn = Figure(
        partial(ranks_figure, job), f"Time of each rank on {target}, by what it is spent on"
    )
    heads = columns("rank", numbers=("", *PARTS.values(), "total", "came last", "by"))
    cells = []
    for row in job.split.to_dict(
        "records"
    ):  # two lines for every rank: as measured, and on the target
        last = (f"{row['last']:,}", duration(row["late_us"]))
        measured = (duration(row[f"measured_{name}"]) for name in (*PARTS, "total_us"))
        cells.append((str(row["rank"]), host, *measured, *last))
        cells.append(("", target, *(duration(row[name]) for name in (*PARTS, "total_us")), "", ""))
    parts: list[Part] = [drawn, Table(heads, rows(cells), "where each rank's time goes")]
    yield Section("Where each rank's time goes", parts, "ranks", "Ranks")
    heads = columns(
        "collective",
        "group",
        numbers=(
            "message",
            "count",
            "kernel",
            "waiting",
            "transfer",
            "model",
            "waiting there",
            "transfer there",
            "start skew",
            "bus, GB/s",
            "bus there, GB/s",
        ),
    )
    caption = (
        "means of a rank and a collective, as measured, by the model of the links, and on the "
        "target; start skew: from the first rank's start to the last's; bus: bandwidth of the bus "
        "over the transfer, as nccl-tests define it"
    )
    times = (
        "kernel_us",
        "wait_us",
        "transfer_us",
        "model_us",
        "projected_wait_us",
        "projected_transfer_us",
    )
    cells = cells_of(
        job.collectives,
        collective=str,
        group=partial(shortened, width=24),
        message_bytes=data_size,
        count=_COUNT,
        **dict.fromkeys(
            (*times, "start_skew_us"), lambda time: duration(time) if np.isfinite(time) else ""
        ),
        **dict.fromkeys(
            ("bus_gbs", "projected_bus_gbs"),
            lambda rate: f"{rate:,.3g}" if np.isfinite(rate) else "",
        ),
    )
    table = Table(heads, rows(cells), "collectives: waiting and transfer", caption=caption)
    yield Section("Collectives: waiting and transfer", [table], "collectives", "Collectives")
    waited = cells_of(
        job.causes, rank=str, waited_us=duration, **dict.fromkeys(JOB_CAUSES, duration)
    )
    heads = columns("rank", numbers=("waited for it", *JOB_CAUSES.values()))
    caption = "what the last rank did while the others waited for it, summed over them, as measured"
    table = Table(heads, rows(waited), "what ranks are waited for", caption=caption)
    yield Section("What ranks are waited for", [table], "causes", "Causes")
    unsure_cells = cells_of(
        unsure.tornado,
        name=source_name,
        sigma=spread,
        low_us=duration,
        high_us=duration,
        share=share,
    )
    heads = columns("source", numbers=("± 1 σ", "low", "high", "variance"))
    table = Table(heads, rows(unsure_cells), "what the interval is made of", shown=SHOWN)
    yield Section("What the interval is made of", [table], "interval", "Interval")
    yield sent_section(job.sent, job.pairs)


def sent_section(sent: pd.DataFrame, pairs: pd.DataFrame) -> Section:
    """Return the data that traced ranks send, by collective and between pairs (`projection.job`)."""
    total = float(sent["sent_bytes"].sum())
    counts = (
        sent[sent["sent_bytes"] > 0]
        .groupby(["collective", "group"], sort=False)["sent_bytes"]
        .sum()
    )
    ranked = counts.sort_values(ascending=False, kind="stable").reset_index().to_dict("records")
    bars = [
        Bar(
            f"{row['collective']} {row['group']}".strip(),
            row["sent_bytes"] / total,
            data_size(row["sent_bytes"]),
        )
        for row in ranked
    ]
    heads = columns(
        "collective", "group", numbers=("ranks", "message", "count", "sent", "measured")
    )
    cells = cells_of(
        sent,
        collective=lambda name: name or "unknown",
        group=str,
        ranks=lambda ranks: formatted(ranks, "{:.0f}"),
        message_bytes=data_size,
        count=_COUNT,
        sent_bytes=data_size,
        measured_us=duration,
    )
    parts: list[Part] = [
        Bars("Sent, by collective and group", bars),
        Table(heads, rows(cells), "what ranks send"),
    ]
    if len(pairs):
        matrix = Figure(
            partial(pairs_figure, pairs), "Bytes that each traced rank sends each other"
        )
        heads = columns("rank", numbers=("sent", "to peers", "least to one", "most to one"))
        caption = "whatever algorithm moves it"
        between = [
            (
                str(rank),
                data_size(float(peers.sum())),
                str(len(peers)),
                data_size(float(peers.min())),
                data_size(float(peers.max())),
            )
            for rank, peers in pairs.groupby(["rank", "peer"])["sent_bytes"].sum().groupby("rank")
        ]
        parts += [matrix, Table(heads, rows(between), "sent between pairs of ranks", caption)]
    return Section("What the ranks send", parts, "sent", "Volumes")


def job_json(job: Job, unsure: Uncertainty) -> dict[str, Any]:
    """Return the job as JSON types; the activities themselves are not in it."""
    return {
        "schema": SCHEMA,
        "ranks": list(job.ranks),
        "host": job.projections[0].host.name,
        "target": job.projections[0].target.name,
        "measured_us": job.measured_us,
        "projected_us": job.projected_us,
        "interval": interval_json(unsure),
        "published_us": job.published_us,
        "clock_error_us": job.matched.clock_error_ns / 1e3,
        "unmatched": job.matched.unmatched,
        "split": job.split.to_dict("records"),
        "collectives": records(job.collectives),
        "causes": records(job.causes),
        "sent": job.sent.to_dict("records"),
        "pairs": job.pairs.to_dict("records"),
        "findings": _findings(job),
        "notes": [*map(repr, _doubts(job)), *_notes(job)],
    }

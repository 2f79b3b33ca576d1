"""What `project` found, as a document: the outcome and what sets its pace, its parts, its interval, its sweeps."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import asdict
from functools import partial
from typing import TYPE_CHECKING, Any

import numpy as np
import pandas as pd

from ..projection.phases import Repeated
from ..projection.result import Result, changes
from ..projection.sweep import END_TO_END, SWEEPABLE
from ..projection.uncertainty import MEASURED
from ..projection.whole_trace import Laws
from .document import (
    Column,
    Document,
    Figure,
    Headline,
    Kind,
    Lines,
    Medium,
    Part,
    Row,
    Section,
    Sliders,
    Table,
    lines,
)
from .formats import counted, duration, formatted, share
from .job import answered, sent_section, target_of
from .projection_kernels import (
    BOUNDS,
    cpu_operations,
    kernel_listing,
    kernel_table,
    records,
    spread,
    unknown,
    unknown_json,
)
from .words import say
from .words.projection import SOURCES, say_all

if TYPE_CHECKING:
    import plotly.graph_objects as go

SCHEMA = 1
"""Of `data`."""
WAYS = {
    "sum": "sum of activities and gaps",
    "overlap": "sum, overlap counted once",
    "replay": "replay of its dependencies",
}
SHOWN = 8
"""Rows of the tornado, kernels, streams, steps and remarks that are printed."""
_LONG = (
    "longest kernels of the critical path", "what the CPU works for on the critical path",
    "what the interval is made of", "other laws than asked for", "how laws were applied",
    "kernels that no pass measured",
)  # fmt: skip
"""Tables of which a terminal prints the first rows."""
_LINKS = {
    "kernels by class": "Classes",
    "what sets the pace": "Pace",
    "longest kernels of the critical path": "Critical path",
    "what the CPU works for on the critical path": "CPU",
    "where the measured time goes": "Time",
    "measured gaps between activities": "Gaps",
    "what the interval is made of": "Interval",
    "other laws than asked for": "Other laws",
    "how laws were applied": "Laws",
}
"""Title of a table -> its entry in the navigation, where that is shorter."""
_NAME = 60  # columns for a kernel's name
_SHORT = 24  # columns of a first cell that never folds
_WORDS = ("remark", "because")  # heads of words that may begin with a figure


def projection_document(result: Result) -> Document:
    """Return a trace on another GPU, for terminal, page and machines."""
    projection, unsure = result.projection, result.uncertainty
    kernels = kernel_table(projection)
    phases = [] if result.phases is None else [say(result.phases.note)]
    said = [say(result.verdict), *phases, *unknown(kernels)]
    remarks = [say(one) for one in (*changes(result), *result.notes, unsure.note)]
    head = Headline(
        "end to end", f"{duration(unsure.nominal_us)} on {target_of(projection)}",
        f"{duration(projection.measured_us)} on {projection.host.name}", answer(result),
    )  # fmt: skip
    title = f"{result.label} on {projection.target.name}"
    lead = f"measured on {projection.host.name}: {counted(int(kernels['count'].sum()), 'activity', 'activities')}"
    found = data(result) | {"unknown_work": unknown_json(kernels)}
    return answered(title, lead, head, said, _sections(result, kernels), remarks, found)


def answer(result: Result) -> str:
    """Return the answer in a sentence: between what the time lies, and what FLOPS scaling says."""
    unsure, totals = result.uncertainty, result.published.totals
    published = f"{duration(totals['sum'])} added up, {duration(totals['replay'])} replayed in the same way"
    reach = f"{duration(unsure.lower_us)} and {duration(unsure.upper_us)}"
    ratio = unsure.nominal_us / result.projection.measured_us
    return (
        f"{ratio:.3f} of the measured time; between {reach} ({100 * unsure.level:g} % interval, accuracy band "
        f"{unsure.band}). FLOPS scaling, the published rule, says {published}."
    )


def _sections(result: Result, kernels: pd.DataFrame) -> Iterator[Section]:
    """Yield a section for every table that has rows, with the figures that belong to it, and one of every kernel."""
    total = float(kernels["projected_us"].sum())
    figures: dict[str, list[Part]] = {
        "kernels by class": [
            Figure(partial(_figure, "class_figure", result), "Time by class: measured, by FLOPS scaling, projected")
        ],
        "what the interval is made of": [
            Figure(
                partial(_figure, "tornado_figure", result),
                "End-to-end time with one source at its own quantiles, the others as they are",
            )
        ],
    }
    for title, heads, rows in tables(result):
        if title == "sweep":
            yield Section("Another target", _sweeps(result, heads, rows), "sweep", "Sweep")
        elif title == "time over the measured one":
            assert result.grid is not None
            drawn = Figure(partial(_figure, "grid_figure", result), "End-to-end time over the measured one")
            slid = _sliders(result, result.grid, list(map(str, result.grid.columns[:2])))
            yield Section(
                "Time over the measured one", [slid, drawn, _table(title, heads, rows)], "grid", "Two figures"
            )
        else:
            parts = [*figures.get(title, ()), _table(title, heads, rows)]
            yield Section(title[:1].upper() + title[1:], parts, link=_LINKS.get(title, ""))
        if title == "kernels by class" and len(own := kernels[kernels["unknown"]]):
            listing = kernel_listing(own, "unknown-kernels", total)
            yield Section("Kernels whose work is unknown", [listing], "unknown", "Unknown work")
    if len(result.sent):
        yield sent_section(result.sent, result.pairs)
    count = counted(int(kernels["count"].sum()), "activity", "activities")
    every = f"Every kernel: {counted(len(kernels), 'kind')} of {count}"
    yield Section(every, [kernel_listing(kernels, "kernels", total)], "kernels", "Every kernel")


def _figure(name: str, result: Result) -> go.Figure | None:
    """Draw a figure of `report.projection_figures`; loading what draws takes a while, which terminals need not wait."""
    from . import projection_figures

    return getattr(projection_figures, name)(result)


def _sweeps(result: Result, heads: Sequence[str], rows: Sequence[tuple[str, ...]]) -> list[Part]:
    """Return the table of a terminal; for pages the figures, and where the bound changes."""
    assert result.sweeps is not None
    target = result.projection.target.name
    drawn: list[Part] = []
    for place, (name, own) in enumerate(result.sweeps.groupby("figure", sort=False)):
        drawn.append(_sliders(result, own.rename(columns={"value": name}), [str(name)]))
        caption = f"End-to-end time over {SWEEPABLE[str(name)]} of {target}"
        drawn.append(Figure(partial(_sweep_figure, result, place), caption))
    changed = lines(say(change) for change in changes(result)).lines
    return [*drawn, Lines(changed, "list", medium="page"), _table("sweep", heads, rows, "terminal")]


def _sliders(result: Result, points: pd.DataFrame, names: Sequence[str]) -> Sliders:
    """Return a slider for each figure that was swept, and the time of the point that they stand at."""
    target, measured = result.projection.target.name, result.projection.measured_us
    axes = [(str(SWEEPABLE[name]), [f"{value:,.6g}" for value in points[name].unique()]) for name in names]
    choices = [
        [Headline("", f"{duration(time)} on {target}", f"{duration(measured)} as measured",
                  f"{time / measured:.3f} of the measured time")]
        for time in points[END_TO_END]
    ]  # fmt: skip
    return Sliders(axes, choices, int(np.argmax(points["current"])) if "current" in points else 0)


def _sweep_figure(result: Result, place: int) -> go.Figure:
    from .projection_figures import sweep_figures

    return sweep_figures(result)[place]


def data(result: Result) -> dict[str, Any]:
    """Return a projection as JSON types; the activities themselves are not in it."""
    unsure = result.uncertainty
    return {
        "schema": SCHEMA,
        "trace": result.label,
        "host": result.projection.host.name,
        "target": result.projection.target.name,
        "laws": _laws(result.projection.laws),
        "measured_us": result.projection.measured_us,
        "projected_us": unsure.nominal_us,
        "published_us": result.published.totals["sum"],
        "interval": {
            "level": unsure.level,
            "lower_us": unsure.lower_us,
            "upper_us": unsure.upper_us,
            "median_us": unsure.median_us,
            "half_width": unsure.half_width,
            "band": unsure.band,
            "samples": unsure.samples,
            "seed": unsure.seed,
            "convergence": unsure.convergence,
            "tornado": records(unsure.tornado),
        },
        "verdict": say(result.verdict),
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
        "phases": None if result.phases is None else _phases_json(result.phases),
        "durations": None if result.durations is None else records(result.durations),
        "sweep": None if result.sweeps is None else records(result.sweeps),
        "sent": records(result.sent),
        "pairs": records(result.pairs),
        "grid": None if result.grid is None else records(result.grid),
        "notes": [say(note) for note in result.notes],
    }


def _phases_json(phases: Repeated) -> dict[str, Any]:
    return {
        "found": records(phases.table),
        "activities": phases.activities,
        "projected_activities": phases.projected_activities,
        "projected_share": phases.share,
        "error": phases.error,
    }


def in_words(table: pd.DataFrame) -> pd.DataFrame:
    """Return a table with its column `why` in words."""
    said = {why: say_all(why) for why in table["why"]}
    return table.assign(why=pd.Series([said[why] for why in table["why"]], table.index, dtype=object))


def _laws(laws: Laws) -> dict[str, Any]:
    return {
        "compute": laws.compute if laws.run is None else f"model, else {laws.compute}",
        "communication": laws.communication,
        "gaps": laws.gaps,
        "cpu_speed": laws.cpu_speed,
        "keep_waiting": laws.keep_waiting,
        "world": None if laws.world is None else asdict(laws.world),
    }


def tables(result: Result) -> Iterator[tuple[str, tuple[str, ...], list[tuple[str, ...]]]]:
    """Yield every table: its title, its heads and its rows in words; tables without rows are left out."""
    host, target = result.projection.host.name, target_of(result.projection)
    found = [
        ("end to end", ("added up as", host, "FLOPS scaling", target, "ratio"), list(_totals(result))),
        (
            "kernels by class",
            ("class", "count", host, "FLOPS scaling", target, "low", "high", "ratio", "± 1 σ", "law", "bound"),
            list(_classes(result.classes)),
        ),
        ("what sets the pace", ("share of the critical path", host, target), list(_path(result))),
        (
            "longest kernels of the critical path",
            ("kernel", "class", "count", "time on it", "share"),
            list(_path_kernels(result.path_kernels)),
        ),
        (
            "what the CPU works for on the critical path",
            ("operator or call", "calls", "time on it", "share"),
            list(_cpu(cpu_operations(result.projection))),
        ),
        (
            "where the measured time goes",
            ("part", "computation", "communication", "copies", "idle", "total", "hidden communication"),
            list(_split(result)),
        ),
        ("measured gaps between activities", ("cause", "count", "time"), list(_gaps(result.gaps))),
        ("what the interval is made of", ("source", "± 1 σ", "low", "high", "variance"), list(_tornado(result))),
        ("steps", ("step", host, target), list(_steps(result.steps))),
        ("other laws than asked for", ("because", "law", "count", "time"), list(_remarks(result.remarks, True))),
        ("how laws were applied", ("remark", "law", "count", "time"), list(_remarks(result.remarks, False))),
        (
            "phases",
            ("activities of one", "repeats", "projected", "similarity", host, target, "± 1 σ"),
            list(_phases(result.phases)),
        ),
        (
            "kernels that no pass measured",
            ("kernel", "launches", "measured", "time of the others"),
            list(_unmeasured(result.durations)),
        ),
        ("sweep", *_sweep(result.sweeps)),
        ("time over the measured one", *_grid(result.grid)),
    ]
    for title, heads, rows in found:
        if rows:
            yield title, heads, rows


def each(table: pd.DataFrame) -> Iterator[Any]:
    """Yield the rows of a table as named tuples, whose types its columns know."""
    yield from table.itertuples()


def _totals(result: Result) -> Iterator[tuple[str, ...]]:
    for row in each(result.totals):
        times = (duration(value) for value in (row.measured_us, row.published_us, row.projected_us))
        yield WAYS[str(row.aggregation)], *times, f"{row.factor:.3f}"


def _classes(table: pd.DataFrame) -> Iterator[tuple[str, ...]]:
    for row in each(table):
        times = (duration(value) for value in (row.measured_us, row.published_us, row.projected_us))
        reach = (duration(value) for value in (row.lower_us, row.upper_us))
        bound = BOUNDS.get(str(row.bound), str(row.bound))
        sigma = spread(row.sigma) + ("" if row.basis == MEASURED else f" ({row.basis})")
        yield (
            str(row.op_class),
            f"{row.count:,}",
            *times,
            *reach,
            formatted(row.factor, "{:.3f}"),
            sigma,
            str(row.law),
            bound,
        )


def _path(result: Result) -> Iterator[tuple[str, ...]]:
    words = {
        "activity": "activities of the GPU",
        "cpu": "the CPU's work",
        "launch": "launches under way",
        "return": "waits of the CPU coming back",
        "gap": "gaps of a busy queue",
        "dependency": "one queue waiting for another",
        "unexplained": "gaps the trace does not explain",
    }
    for kind, name in words.items():
        if result.measured_path[kind] or result.path[kind]:
            yield name, share(result.measured_path[kind]), share(result.path[kind])


def _path_kernels(table: pd.DataFrame) -> Iterator[tuple[str, ...]]:
    for row in each(table):
        yield str(row.name), str(row.op_class), f"{row.count:,}", duration(row.path_us), share(row.share)


def _cpu(table: pd.DataFrame) -> Iterator[tuple[str, ...]]:
    for row in each(table):
        yield str(row.name), f"{row.count:,}", duration(row.path_us), share(row.share)


def _split(result: Result) -> Iterator[tuple[str, ...]]:
    """Yield the whole trace, then its busiest streams and steps, where there are several."""
    yield "whole trace", *_measures(result.split.iloc[0])
    for column, table in (("stream", result.streams), ("step", result.step_split)):
        names = [name for name in ("rank", "process", "gpu") if name in table and len(table[name].unique()) > 1]
        shown = table.sort_values("busy_us", ascending=False, kind="stable").head(SHOWN).sort_index()
        for _, row in shown.iterrows() if len(table) > 1 else ():
            yield ", ".join(f"{name} {row[name]}" for name in (column, *names)), *_measures(row)


def _measures(row: pd.Series) -> Iterator[str]:
    names = ("computation_us", "exposed_communication_us", "exposed_copy_us", "idle_us", "total_us")
    return (duration(row[name]) for name in (*names, "overlapped_communication_us"))


def _gaps(table: pd.DataFrame) -> Iterator[tuple[str, ...]]:
    for row in each(table[table["count"] > 0]):
        yield str(row.cause), f"{row.count:,}", duration(row.gap_us)


def _tornado(result: Result) -> Iterator[tuple[str, ...]]:
    for row in each(result.uncertainty.tornado):
        times = (duration(value) for value in (row.low_us, row.high_us))
        yield SOURCES.get(row.name, str(row.name)), spread(row.sigma), *times, share(row.share)


def _steps(table: pd.DataFrame) -> Iterator[tuple[str, ...]]:
    for row in each(table) if len(table) > 1 else ():
        yield f"{row.step:.0f}", duration(row.measured_us), duration(row.projected_us)


def _remarks(table: pd.DataFrame, other: bool) -> Iterator[tuple[str, ...]]:
    for row in each(table[table["other"] == other]):
        yield say_all(row.why), str(row.law), f"{row.count:,}", duration(row.projected_us)


def _phases(phases: Repeated | None) -> Iterator[tuple[str, ...]]:
    for row in () if phases is None else each(phases.table):
        counts = (f"{value:,}" for value in (row.activities, row.repeats, row.projected_repeats))
        yield *counts, share(row.similarity), duration(row.measured_us), duration(row.projected_us), share(row.error, 2)


def _unmeasured(table: pd.DataFrame | None) -> Iterator[tuple[str, ...]]:
    for row in () if table is None else each(table[table["measured"] < table["launches"]]):
        yield str(row.name), f"{row.launches:,}", f"{row.measured:,}", duration(row.unmeasured_us)


def _sweep(frame: pd.DataFrame | None) -> tuple[tuple[str, ...], list[tuple[str, ...]]]:
    if frame is None:
        return (), []
    shares = [str(name) for name in frame.columns if str(name).startswith("share.")]
    heads = ("figure", "value", "end to end", *(BOUNDS.get(name[6:], name[6:]) for name in shares))
    rows = [
        (
            str(row["figure"]) + (" (as it is)" if row["current"] else ""),
            f"{row['value']:,.6g}",
            duration(row["end_to_end_us"]),
            *(share(row[name]) for name in shares),
        )
        for _, row in frame.iterrows()
    ]
    return heads, rows


def _grid(frame: pd.DataFrame | None) -> tuple[tuple[str, ...], list[tuple[str, ...]]]:
    """Return the times of two figures swept together as a table of the first down, the second across."""
    if frame is None:
        return (), []
    down, across = map(str, frame.columns[:2])
    table = frame.pivot_table(index=down, columns=across, values="ratio")
    heads = (f"{down}, by {across}", *(f"{value:,.6g}" for value in table.columns))
    return heads, [(f"{value:,.6g}", *(f"{ratio:.3f}" for ratio in row)) for value, *row in table.itertuples()]


def _table(title: str, heads: Sequence[str], rows: Sequence[Sequence[str]], medium: Medium = "both") -> Table:
    """Return a table; columns of which every cell begins with a letter hold words: the first may fold if it is long."""
    found = []
    for place, head in enumerate(heads):
        cells = [row[place] for row in rows]
        whole = place > 0 or max(map(len, cells)) <= _SHORT
        in_letters = head in _WORDS or all(cell[:1].isalpha() for cell in cells)
        named = head in ("kernel", "operator or call")
        kind: Kind = "cut" if named else "number" if not in_letters else "name" if whole else "words"
        found.append(Column(head, kind, most=_NAME if named else None))
    return Table(
        found, [Row(tuple(row)) for row in rows], title, medium=medium, shown=SHOWN if title in _LONG else None
    )

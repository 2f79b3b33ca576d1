"""The document of `project`: the outcome and what sets its pace, its parts, its interval, its sweeps.

Of several ranks of a job projected together: who waits for whom, and what they send.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import asdict, replace
from functools import partial
from itertools import chain
from typing import Any, Final

import numpy as np
import pandas as pd

from ..errors import few
from ..operators.operators import OPS
from ..output import SCHEMA
from ..projection.job import PARTS, Job
from ..projection.phases import repeats_of
from ..projection.replay import WORK
from ..projection.result import Result, changes, critical_us, device_taken
from ..projection.roofs import HOST, SIDES
from ..projection.split import longest_first
from ..projection.sweep import END_TO_END, SWEEPABLE
from ..projection.uncertainty import MEASURED, Uncertainty, class_of, need_of, source_name
from ..projection.whole_trace import BOUND, CATEGORY, LAW, WHY, Projection
from ..remarks import Remark, joined, remark
from ..traces.activity_work import UNKNOWN as UNKNOWN_OP
from ..traces.activity_work import WORDS
from ..traces.classes import COLLECTIVE, COMPUTE
from .document import (
    JSON,
    Bar,
    Bars,
    Column,
    Document,
    Figure,
    Headline,
    Lines,
    Listing,
    Part,
    Section,
    Sliders,
    Table,
    columns,
    lines,
    picked,
    records,
    remarked,
    rows,
    warned,
)
from .formats import NONE, counted, data_size, duration, formatted, share, shortened
from .kernel_figures import roofline_figure, timeline_figure
from .layouts import kind_of_names, laid_out, texts_of
from .predictions import workload
from .projection_figures import (
    advice_figure,
    class_figure,
    differences_figure,
    grid_figure,
    pairs_figure,
    ranks_figure,
    roofs_figure,
    sweep_figures,
    tornado_figure,
)
from .wording import wording

WAYS: Final = wording("projection-ways")
SHOWN = 8  # rows of the tornado, kernels, streams, steps and remarks that are printed
_LINKS: Final = wording("projection-links")
"""Table -> its entry in the navigation, where that is shorter than its title."""
PACES: Final = wording("projection-paces")
"""What sets the pace: kinds of pieces of the critical path, in words."""


def projection_document(result: Result) -> Document:
    """Return a trace on another GPU, for terminal, page and machines."""
    projection = result.projection
    unsure = result.uncertainty
    kernels = kernel_table(projection, result.rates)
    said = profiled(projection)
    if result.need is not None:
        said.append(str(result.need.told))
    said.append(str(result.verdict))
    if result.phases is not None:
        said.append(str(result.phases.note))
    said += unknown(kernels)
    if result.need is None:
        said += narrower(result)
    if result.advice is not None:
        said.append(str(result.advice.remark))
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
    unsure = result.uncertainty
    totals = result.published.totals
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
            "Activities of the GPU over time, in the step of median time where there are steps: "
            "measured above, projected below",
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
            "Share of each roof over the time, as measured and projected; kernels of unknown work "
            "use none of compute and memory here",
        ),
    }
    for name, table in tables(result, kernels).items():
        heading = table.title[:1].upper() + table.title[1:]
        parts: list[Part] = [figures[name], table] if name in figures else [table]
        if name == "efficiency":
            every = texts_of(_efficiency(result, kernels))
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
            slid = _sliders(
                result,
                result.grid,
                list(map(str, result.grid.columns[:2])),
            )
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
    target = result.projection.target.name
    measured = result.projection.measured_us
    axes = []
    for name in names:
        axes.append((str(SWEEPABLE[name]), [*map("{:,.6g}".format, points[name].unique())]))
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
    return Sliders(
        axes,
        choices,
        int(np.argmax(points["current"])) if "current" in points else 0,
    )


def data(result: Result) -> JSON:
    """Return a projection as JSON types; the activities themselves are not in it."""
    unsure = result.uncertainty
    laws = result.projection.laws
    phases = result.phases
    roofs = []
    for one in result.strips:
        shares = {name: share.tolist() for name, share in one.shares.items()}
        edges = {"edges_us": one.edges_us.tolist(), "shares": shares}
        roofs.append({**picked(one, "gpu", "step"), **edges})
    tables_asked = {
        "durations": result.durations,
        "sweep": result.sweeps,
        "grid": result.grid,
        "advice": getattr(result.advice, "table", None),
    }
    asked = {
        name: None if table is None else records(table) for name, table in tables_asked.items()
    }
    compute = laws.compute
    if laws.run is not None:
        compute = f"model, else {laws.compute}"
    return {
        "schema": SCHEMA,
        "trace": result.label,
        "host": result.projection.host.name,
        "target": result.projection.target.name,
        "laws": {
            "compute": compute,
            **picked(laws, "communication", "gaps", "cpu_speed", "keep_waiting"),
            "world": laws.world and asdict(laws.world),
        },
        "measured_us": result.projection.measured_us,
        "unprofiled": _unprofiled_json(result.projection),
        "projected_us": unsure.nominal_us,
        "published_us": result.published.totals["sum"],
        "interval": interval_json(unsure),
        "need": result.need and result.need.told.to_dict(),
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
            **picked(phases, "activities", "projected_activities"),
            "projected_share": phases.share,
            "error": phases.error,
        },
        **asked,
        "sent": records(result.sent),
        "pairs": records(result.pairs),
        "notes": [*map(repr, (*result.first, *result.notes))],
    }


def interval_json(unsure: Uncertainty) -> JSON:
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


def _unprofiled_json(projection: Projection) -> JSON | None:
    unprofiled = projection.laws.unprofiled
    if unprofiled is None:
        return None
    return asdict(unprofiled) | {"note": unprofiled.note and str(unprofiled.note)}


def _advice(result: Result) -> pd.DataFrame | None:
    """Return the calls that cost most with the work of each and its bounds in words."""
    if result.advice is None:
        return None
    table = result.advice.table
    rows = table.to_dict("records")
    shown = {
        "work": [
            workload(row) if str(row["op"]) not in ("", UNKNOWN_OP) else "unknown" for row in rows
        ]
    }
    for side in SIDES:
        bounds = table[f"{side}_bound"].replace(BOUNDS)
        roofs = table[f"{side}_roof"].map(
            lambda roof: f" {share(roof, 0)}" if np.isfinite(roof) else ""
        )
        shown[f"{side}_bound"] = (bounds + roofs).where(bounds.ne(""), NONE).tolist()
    return table.assign(**shown)


def in_words(table: pd.DataFrame) -> pd.DataFrame:
    """Return a table with its column `why` in words."""
    said = {why: joined(why) for why in table["why"]}
    words = [said[why] for why in table["why"]]
    return table.assign(why=pd.Series(words, table.index, dtype=object))


def tables(result: Result, kernels: pd.DataFrame) -> dict[str, Table]:
    """Return every table under its name; tables without rows are left out. ``kernels`` are of `kernel_table`."""
    words = _gpus(result)
    whole = result.uncertainty.nominal_us
    steps = result.steps
    other = result.remarks["other"]
    phases = result.phases
    missed = result.durations
    if missed is not None:
        missed = missed[missed["measured"] < missed["launches"]]
    totals = result.totals
    pace = [
        {"kind": name, "measured": result.measured_path[kind], "projected": result.path[kind]}
        for kind, name in PACES.items()
        if result.measured_path[kind] or result.path[kind]
    ]
    efficiency = _efficiency(result, kernels)
    made = {
        "advice": laid_out("projection-advice", _advice(result), words),
        "grid": _grid(result.grid),
        "sweep": _sweep(result.sweeps),
        "kernels": laid_out("projection-kernels", _by_name(kernels), words),
        "totals": laid_out("projection-totals", totals, words, aggregation=WAYS.__getitem__),
        "classes": laid_out("projection-classes", _classes(result.classes), words),
        "pace": laid_out("projection-pace", pace, words),
        "roofs": _strips(result),
        "efficiency": replace(efficiency, rows=efficiency.rows[:SHOWN]),
        "energy": laid_out("projection-energy", result.energy),
        "path": laid_out("projection-path", result.path_kernels),
        "cpu": laid_out("projection-cpu", cpu_operations(result.projection)),
        "split": laid_out("projection-split", _split(result)),
        "gaps": laid_out("projection-gaps", result.gaps[result.gaps["count"] > 0]),
        "interval": sources_table("projection-interval", result.uncertainty),
        "steps": laid_out("projection-steps", steps if len(steps) > 1 else None, words),
        "other laws": _remarks(result.remarks[other], "other laws than asked for", "because"),
        "laws": _remarks(result.remarks[~other], "how laws were applied", "remark"),
        "phases": laid_out("projection-phases", getattr(phases, "table", None), words),
        "unmeasured": laid_out("projection-unmeasured", missed),
    }
    added = float(result.classes["projected_us"].sum())
    if added > whole:
        made["classes"] = replace(made["classes"], caption=_why_more(result, added, whole))
    return {name: table for name, table in made.items() if table.rows}


def _gpus(result: Result) -> dict[str, str]:
    """Return what heads of columns call both sides."""
    return {"host": result.projection.host.name, "target": target_of(result.projection)}


def _why_more(result: Result, added: float, whole: float) -> str:
    """Say why the classes exceed the end-to-end time: overlap, or activities that do not count in it."""
    projection = result.projection
    counts = projection.counted
    rows = projection.activities["projected_us"].to_numpy()[projection.graph.rows]
    apart = float(rows[~counts].sum())
    overlap = projection.overlap_us
    reasons: list[str] = []
    if apart > 0:
        left_out = counted(int((~counts).sum()), "activity that is", "activities that are")
        reasons.append(f"{duration(apart)} of {left_out} left out of the end-to-end time")
    if overlap > _SLIGHT * whole:
        reasons.append(f"{duration(overlap)} that run beside others")
    because = ""
    if reasons:
        because = f": {', and '.join(reasons)}"
    return f"Classes add up to {duration(added)}, end to end it is {duration(whole)}{because}"


_SLIGHT: Final = 1e-3  # share of the time from which overlap is worth a word


def _classes(table: pd.DataFrame) -> pd.DataFrame:
    """Return classes with their errors, and what these rest on, in words."""
    basis = table["basis"].map(lambda basis: "" if basis == MEASURED else f" ({basis})")
    return table.assign(
        sigma=table["sigma"].map(spread) + basis, bound=table["bound"].astype(str).replace(BOUNDS)
    )


_WIDTH: Final = 40  # characters of a strip on a terminal
_LEVELS: Final = " ▁▂▃▄▅▆▇█"


def _strips(result: Result) -> Table:
    """Return the share of each roof over time, in characters of a terminal."""
    cells = []
    for one in result.strips:
        for name, shares in one.shares.items():
            bins = shares[: len(shares) // _WIDTH * _WIDTH].reshape(_WIDTH, -1).mean(axis=1)
            blocks = "".join(_LEVELS[int(np.ceil(min(each, 1.0) * 8 - 1e-9))] for each in bins)
            most = share(bins.max(), 0)
            cells.append((f"{name}, {one.gpu}", f"|{blocks}|", share(shares.mean(), 0), most))
    heads = Column("share of the roof", "name"), Column("over time", "name")
    step = result.strips[-1].step
    when = "over time"
    if step is not None:
        when = f"over step {step}"
    numbers = columns(numbers=("mean", "most"))
    return Table((*heads, *numbers), rows(cells), f"what is used {when}", medium="terminal")


def _efficiency(result: Result, kernels: pd.DataFrame) -> Table:
    """Return the rates of the kernels that have some, and their shares of peak and bandwidth."""
    rated = kernels[kernels[["measured_tflops", "measured_gbs"]].gt(0).any(axis=1)]
    sends = rated["op_class"] == COLLECTIVE
    shown = {}
    for side in SIDES:
        moved = rated[f"{side}_memory_share"]
        shown[f"{side}_bandwidth"] = moved.where(~sends, rated[f"{side}_link_share"])
    return laid_out("projection-efficiency", rated.assign(**shown), _gpus(result))


def _split(result: Result) -> Iterator[dict[Any, Any]]:
    """Yield what the time of the trace, of its longest streams and of its steps is made of."""
    yield {"part": "whole trace", **result.split.iloc[0]}
    for column, table in (("stream", result.streams), ("step", result.step_split)):
        if len(table) < 2:
            continue
        places = [name for name in ("rank", "process", "gpu") if name in table]
        names = [column, *(name for name in places if len(table[name].unique()) > 1)]
        longest = table.sort_values("busy_us", ascending=False, kind="stable").head(SHOWN)
        for _, row in longest.sort_index().iterrows():
            yield {"part": ", ".join(f"{name} {row[name]}" for name in names), **row}


def _remarks(table: pd.DataFrame, title: str, head: str) -> Table:
    """Return how laws were applied, with the reasons."""
    return replace(laid_out("projection-remarks", table, {"head": head}, why=joined), title=title)


def sources_table(name: str, unsure: Uncertainty) -> Table:
    """Return what an interval is made of, in a layout."""
    return laid_out(name, unsure.tornado, name=source_name, sigma=spread)


def _sweep(frame: pd.DataFrame | None) -> Table:
    """Return the points of sweeps: the value, the end-to-end time, and the shares of the bounds."""
    if frame is None:
        return Table((), ())
    shares = [str(name) for name in frame.columns if str(name).startswith("share.")]
    bounds = [BOUNDS.get(name[6:], name[6:]) for name in shares]
    cells = []
    for _, row in frame.iterrows():
        name = str(row["figure"]) + (" (as it is)" if row["current"] else "")
        parts = (share(row[name]) for name in shares)
        cells.append((name, f"{row['value']:,.6g}", duration(row["end_to_end_us"]), *parts))
    first = Column("figure", kind_of_names([name for name, *_ in cells]))
    numbers = columns(numbers=("value", "end to end", *bounds))
    return Table((first, *numbers), rows(cells), "sweep")


def _grid(frame: pd.DataFrame | None) -> Table:
    """Return the ratios of two figures that are swept together."""
    if frame is None:
        return Table((), ())
    down, across = map(str, frame.columns[:2])
    table = frame.pivot_table(index=down, columns=across, values="ratio")
    cells = []
    for value, *row in table.itertuples():
        cells.append((f"{value:,.6g}", *(f"{ratio:.3f}" for ratio in row)))
    heads = (f"{down}, by {across}", *(f"{value:,.6g}" for value in table.columns))
    return Table(columns(numbers=heads), rows(cells), "time over the measured one")


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
    of_each = (operator.dims for operator in OPS.values() if operator.name != UNKNOWN_OP)
    dims = dict.fromkeys(chain.from_iterable(of_each))
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
        sums = (rate.fillna(0.0) * weight).groupby(code).sum()
        table[str(name)] = sums / total.where(total > 0)
    return longest_first(table, "projected_us")


def _by_name(kernels: pd.DataFrame) -> pd.DataFrame:
    """Return the kernels of each name together, the longest first."""
    by = kernels.groupby("name", observed=True, sort=False)
    sums = by[["count", "measured_us", "projected_us"]].sum()
    sums = sums.assign(
        ratio=sums["projected_us"] / sums["measured_us"],
        share=sums["projected_us"] / sums["projected_us"].sum(),
        bound=by["bound"].first().astype(str).replace(BOUNDS),
    )
    return sums.sort_values("projected_us", ascending=False, kind="stable").reset_index()


def projections_document(results: Sequence[Result]) -> Document:
    """Return several traces or targets side by side: a row each, the largest gain first."""
    ranked = sorted(results, key=_ratio)
    records = list[JSON]()
    places = list[JSON]()
    for result in ranked:
        unsure = result.uncertainty
        projection = result.projection
        reach = f"{duration(unsure.lower_us)} … {duration(unsure.upper_us)}"
        records.append(
            {
                "trace": result.label,
                "host": projection.host.name,
                "target": target_of(projection),
                "measured_us": projection.measured_us,
                "projected_us": unsure.nominal_us,
                "lower_us": unsure.lower_us,
                "upper_us": unsure.upper_us,
                "ratio": _ratio(result),
            }
        )
        pace = PACES[max(result.path, key=lambda kind: result.path[kind])]
        places.append({**records[-1], "interval": reach, "pace": pace})
    first = records[0]
    traces = {str(one["trace"]) for one in records}
    targets = {str(one["target"]) for one in records}
    called = counted(len(traces), "trace")
    about = f"shortest against its measured time: {first['trace']}"
    if len(traces) == 1:
        called = str(first["trace"])
        about = "shortest"
    level = f"{100 * results[0].uncertainty.level:g} %"
    head = Headline(
        about,
        f"{duration(first['projected_us'])} on {first['target']}",
        f"{duration(first['measured_us'])} on {first['host']}",
        f"{formatted(first['ratio'], '{:.3f}')} of the measured time, {level} interval "
        f"{places[0]['interval']}",
    )
    drawn = Figure(
        partial(differences_figure, records),
        f"Change of the time against the measured one, with {level} intervals",
    )
    return Document(
        title=f"{called} on {few(sorted(targets))}",
        opening=[head, laid_out("projections", places, {"level": level}), _first_advice(ranked)],
        sections=[Section("By how much each differs", [drawn], "changes", "Changes")],
        data={"schema": SCHEMA, "projections": records},
    )


def _first_advice(results: Sequence[Result]) -> Table:
    """Return for each trace and target the call whose best known kernel gains most."""
    firsts = []
    for result in results:
        if result.advice is None:
            continue
        first = {"trace": result.label, "target": target_of(result.projection)}
        gains = result.advice.table["end_gain_us"].astype(float)
        if gains.gt(0).any():
            firsts.append({**result.advice.table.iloc[int(np.nanargmax(gains))], **first})
        else:
            none = dict.fromkeys(("projected_us", "projected_best_us", "end_gain_us"), np.nan)
            firsts.append({**first, "kernel": "no faster kernel is known", **none})
    return laid_out("projections-advice", firsts)


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
    graph = projection.target_graph
    path = projection.path
    work = path[path["kind"] == WORK]
    if not len(graph.calls) or work.empty:
        return pd.DataFrame(
            {
                "name": [],
                "count": [],
                "path_us": [],
                "share": [],
            }
        )
    names = np.array(graph.calls.names, dtype=object)
    launched = np.flatnonzero(graph.call >= 0)
    operators = projection.activities["op_name"].astype(object).fillna("").astype(str)
    operators = operators.to_numpy()[graph.rows]
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
    return longest_first(on_path.assign(share=on_path["path_us"] / length_us), "path_us")


BOUNDS = {"": "unknown"}


def unknown(kernels: pd.DataFrame) -> list[str]:
    """Report the share of the projected time spent in kernels of unknown work; nothing where there is none."""
    guessed = kernels[kernels["unknown"]]
    total = float(kernels["projected_us"].sum())
    if guessed.empty or not total:
        return []
    part = share(_part_of(guessed, kernels))
    count = counted(int(guessed["count"].sum()), "kernel")
    return [
        f"{part} of the projected time of activities is of {count} whose work is unknown: a law "
        "has only their time"
    ]


def _part_of(some: pd.DataFrame, kernels: pd.DataFrame) -> float:
    """Return the share of the projected time that some kernels take of all."""
    total = float(kernels["projected_us"].sum())
    return float(some["projected_us"].sum()) / (total or 1.0)


def unknown_json(kernels: pd.DataFrame) -> JSON:
    """Return the same as JSON types, with the kernels by name."""
    guessed = kernels[kernels["unknown"]]
    by = guessed.groupby("name", sort=False, observed=True)
    sums = by[["count", "measured_us", "projected_us"]].sum().reset_index()
    return {"share": _part_of(guessed, kernels), "kernels": records(sums)}


def kernel_listing(kernels: pd.DataFrame, name: str, total: float) -> Listing:
    """List kinds of activities with all their figures, and their share of a total."""

    def works() -> Iterator[str]:
        for row in kernels.to_dict("records"):
            unknown = row["unknown"] or str(row["op"]) in ("", "kernel")
            yield "unknown" if unknown else workload(row)

    def texts() -> list[list[str]]:
        shown = kernels.assign(
            share=kernels["projected_us"] / (total or np.nan),
            ratio=kernels["projected_us"] / kernels["measured_us"],
            bound=kernels["bound"].astype(str).replace(BOUNDS),
            work=list(works()),
        )
        return texts_of(laid_out("kernel-list", shown, sigma=spread, why=joined))

    layout = laid_out("kernel-list", None)
    return Listing(layout.columns, texts, name, layout.caption)


def spread(sigma: float) -> str:
    """Return the relative standard deviation of a factor, as users state it (`uncertainty.parse_sigmas`)."""
    return formatted(100 * np.sqrt(np.expm1(sigma**2)), "{:.0f} %")


def job_document(job: Job, unsure: Uncertainty) -> Document:
    """Return several ranks of a job on another GPU with their uncertainty, for terminal, page and machines."""
    host = job.projections[0].host.name
    target = target_of(job.projections[0])
    said = _findings(job)
    notes = _notes(job)
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
    data: JSON,
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
    name = projection.target.name
    world = projection.laws.world
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
    total = float(split["total_us"].sum())
    waiting = float(split["waiting_us"].sum())
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
    host = job.projections[0].host.name
    target = target_of(job.projections[0])
    drawn = Figure(
        partial(ranks_figure, job), f"Time of each rank on {target}, by what it is spent on"
    )
    heads = columns("rank", numbers=("", *PARTS.values(), "total", "came last", "by"))
    cells = []
    for row in job.split.to_dict("records"):
        last = (f"{row['last']:,}", duration(row["late_us"]))
        measured = (duration(row[f"measured_{name}"]) for name in (*PARTS, "total_us"))
        cells.append((str(row["rank"]), host, *measured, *last))
        cells.append(("", target, *(duration(row[name]) for name in (*PARTS, "total_us")), "", ""))
    parts: list[Part] = [drawn, Table(heads, rows(cells), "where each rank's time goes")]
    yield Section("Where each rank's time goes", parts, "ranks", "Ranks")
    table = laid_out("job-collectives", job.collectives, group=partial(shortened, width=24))
    yield Section("Collectives: waiting and transfer", [table], "collectives", "Collectives")
    causes = laid_out("job-causes", job.causes)
    yield Section("What ranks are waited for", [causes], "causes", "Causes")
    sources = sources_table("job-interval", unsure)
    yield Section("What the interval is made of", [sources], "interval", "Interval")
    yield sent_section(job.sent, job.pairs)


def sent_section(sent: pd.DataFrame, pairs: pd.DataFrame) -> Section:
    """Return the data that traced ranks send, by collective and between pairs (`projection.job`)."""
    total = float(sent["sent_bytes"].sum())
    with_bytes = sent[sent["sent_bytes"] > 0]
    sums = with_bytes.groupby(["collective", "group"], sort=False)["sent_bytes"].sum()
    bars = []
    ranked = sums.sort_values(ascending=False, kind="stable").reset_index()
    for name, group, volume in ranked.itertuples(index=False):
        bars.append(Bar(f"{name} {group}".strip(), volume / total, data_size(volume)))
    named = sent.assign(collective=sent["collective"].replace("", "unknown"))
    parts: list[Part] = [
        Bars("Sent, by collective and group", bars),
        laid_out("job-sent", named),
    ]
    if len(pairs):
        matrix = Figure(
            partial(pairs_figure, pairs), "Bytes that each traced rank sends each other"
        )
        of_pair = pairs.groupby(["rank", "peer"])["sent_bytes"].sum().groupby("rank")
        between = of_pair.agg(["sum", "size", "min", "max"]).reset_index()
        parts += [matrix, laid_out("job-pairs", between)]
    return Section("What the ranks send", parts, "sent", "Volumes")


def job_json(job: Job, unsure: Uncertainty) -> JSON:
    """Return the job as JSON types; the activities themselves are not in it."""
    return {
        "schema": SCHEMA,
        "ranks": list(job.ranks),
        "host": job.projections[0].host.name,
        "target": job.projections[0].target.name,
        **picked(job, "measured_us", "projected_us"),
        "interval": interval_json(unsure),
        "published_us": job.published_us,
        "clock_error_us": job.matched.clock_error_ns / 1e3,
        "unmatched": job.matched.unmatched,
        **{
            name: records(getattr(job, name))
            for name in ("split", "collectives", "causes", "sent", "pairs")
        },
        "findings": _findings(job),
        "notes": [*map(repr, _doubts(job)), *_notes(job)],
    }

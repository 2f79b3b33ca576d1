"""Everything that is said of a trace on another GPU: what sets its pace, its tables, and all of it gathered.

`result_of` projects a trace and gives a `Result`. The tables are functions of a `Projection` each:
classes, totals, gaps, steps, remarks of the laws, and the kernels of the critical path.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property, partial
from typing import Any, Final

import numpy as np
import pandas as pd
from scipy.special import ndtri

from ..arrays import FloatArray
from ..errors import ParameterError
from ..evaluation.advising import Need
from ..evaluation.intervals import LEVEL
from ..hardware import GPU, NETWORK_FIGURES
from ..remarks import Remark, remark
from ..traces.dispatches import KERNEL
from ..traces.doubts import doubts_of
from ..traces.quality import span_ns
from ..traces.summary import Annotated
from .advice import Advice, advice_of
from .collective_laws import ALPHA_BETA, World, model_us, placed_messages
from .graph import CAUSES, gap_table
from .idle import long_gaps, with_ends_cut
from .job import communication_table, pair_volumes
from .kernel_laws import MODEL, PAIRED
from .phases import Repeated, counted_of, fold, repeated, repeats_of, weights_of
from .replay import (
    ACTIVITY,
    AGGREGATIONS,
    DELAY,
    GAP,
    LATENCY,
    OVERLAP,
    REPLAY,
    RETURN,
    SUM,
    UNEXPLAINED,
    WORK,
)
from .roofs import Power, Strip, energy_of, rates_of, strips
from .split import COMMUNICATION, STEP, STREAM, longest_first, time_split
from .sweep import (
    END_TO_END,
    MOST_POINTS,
    OF_LINKS,
    Sweep,
    changes_of_bound,
    grid,
    published_value,
    stacked,
    sweep,
    swept,
)
from .uncertainty import (
    CPU_SIGMA,
    GAP_SIGMA,
    Uncertainty,
    class_of,
    class_sigmas,
    names_of,
    need_of,
    parse_sigmas,
    uncertainty_of,
)
from .unprofiled import Profiling, without_profiler
from .whole_trace import (
    BOUND,
    CATEGORY,
    LAW,
    PUBLISHED,
    WHY,
    Laws,
    Projection,
    project_trace,
    with_collectives,
)

CPU_KINDS: Final = (WORK, LATENCY, RETURN)
"""Pieces of a critical path that no faster GPU shortens: the CPU works, its launch is under way, or its wait ends."""
KINDS: Final = (ACTIVITY, *CPU_KINDS, GAP, DELAY, UNEXPLAINED)
BOUND_BY_CPU: Final = 0.5  # share of the critical path from which on a trace is called launch-bound
WAITING: Final = 2.0  # collectives that take longer than the model by this factor wait for peers, for the most part


def path_shares(path: pd.DataFrame) -> dict[str, float]:
    """Return the share of each kind of piece (`KINDS`) in a critical path, adding up to 1."""
    by_kind = path.groupby("kind")["length_ns"].sum()
    whole = path["length_ns"].sum()
    return {kind: float(by_kind.get(kind, 0.0) / whole) for kind in KINDS}


def cpu_share(path: pd.DataFrame) -> float:
    """Return the share of a critical path that no faster GPU shortens."""
    shares = path_shares(path)
    return sum(shares[kind] for kind in CPU_KINDS)


def critical_us(projection: Projection) -> FloatArray:
    """Return how long each activity runs on the critical path of the target, shape (n_activities,)."""
    graph = projection.graph
    path = projection.path
    path = path[path["kind"] == ACTIVITY]
    length = path["length_ns"].to_numpy() / 1000.0
    path_ns = np.zeros(len(graph))
    path_ns[graph.rows] = np.bincount(
        path["row"].to_numpy(dtype=np.int64), weights=length, minlength=len(graph)
    )
    return path_ns


def path_kernels(projection: Projection) -> pd.DataFrame:
    """Return the kernels of the critical path on the target by name, the longest time on it first.

    The columns are `name`, `op_class`, `count` of its activities on the path, `path_us`, and
    `share` of the path.
    """
    rows = projection.activities
    table = pd.DataFrame(
        {
            "name": rows["name"].astype(str),
            "op_class": class_of(rows),
            "path_us": critical_us(projection),
        }
    )
    table["count"] = repeats_of(rows)
    length_us = float(projection.path["length_ns"].sum()) / 1000.0
    by = table[table["path_us"] > 0].groupby(["name", "op_class"], sort=True)
    kernels = _whole_counts(by[["count", "path_us"]].sum()).reset_index()
    kernels["share"] = kernels["path_us"] / length_us
    return longest_first(kernels, "path_us")


def verdict(projection: Projection) -> Remark:
    """Return a remark on the bound of the trace on the target, against its bound on the host.

    ``gpu-sets-pace`` or ``launch-bound`` with the CPU's share of the critical path `before` and
    `after`; ``pace-unknown`` with the share of the GPU's activities where the trace has no calls of
    the CPU.
    """
    target = projection.target.name
    if not len(projection.graph.calls):
        before, after = (
            path_shares(path)[ACTIVITY] for path in (projection.measured_path, projection.path)
        )
        text = (
            f"what sets the pace on {target} is unknown, the trace has no calls of the CPU: "
            "activities of the GPU are "
            f"{100 * after:.0f} % of the critical path ({100 * before:.0f} % as measured)"
        )
        return remark("pace-unknown", text, target=target, before=before, after=after)
    before = cpu_share(projection.measured_path)
    after = cpu_share(projection.path)
    of_cpu = (
        f"the CPU's work and launches are {100 * after:.0f} % of the critical path "
        f"({100 * before:.0f} % as measured)"
    )
    if after < BOUND_BY_CPU:
        text = f"on {target} the GPU sets the pace: {of_cpu}"
        return remark("gpu-sets-pace", text, target=target, before=before, after=after)
    already = before >= BOUND_BY_CPU
    verb = "becomes"
    if already:
        verb = "stays"
    text = (
        f"on {target} the trace {verb} launch-bound: {of_cpu}; a faster GPU does not shorten that "
        "part"
    )
    return remark("launch-bound", text, target=target, before=before, after=after, already=already)


def _whole_counts(table: pd.DataFrame) -> pd.DataFrame:
    """Return a table with its column `count`, of parts of repeats, rounded."""
    return table.assign(count=table["count"].round().astype(np.int64))


LAUNCH: Final = "launch"  # what bounds the part of a critical path that is the CPU's
LATENCY_BOUND: Final = "latency"


def class_table(
    projection: Projection,
    published: Projection,
    stated: Mapping[str, float] | None = None,
    *,
    level: float = LEVEL,
) -> pd.DataFrame:
    """Return one row per class of kernels, the largest projected time first.

    ``published`` is the projection by the published methodology, ``stated`` uncertainties of the
    user (`uncertainty.sources_of`), ``level`` that of the intervals. The columns are `op_class`;
    `count`; `measured_us`, `published_us`, `projected_us` (sums over all activities, orphans
    included); `lower_us`, `upper_us`, the quantiles of the class's factor around the last;
    `factor`, projected over measured; `law` and `bound`, those of the most projected time; `sigma`
    and `basis` (`uncertainty.class_sigmas`); `fallbacks`, activities whose law is not the one asked
    for.
    """
    rows = projection.activities[["measured_us", "projected_us", LAW, BOUND]]
    rows = rows.assign(op_class=class_of(projection.activities))
    rows["published_us"] = published.activities["projected_us"]
    rows["count"] = repeats_of(projection.activities)
    rows["fallbacks"] = other_law(projection) * rows["count"]
    sums = ["measured_us", "published_us", "projected_us", "fallbacks", "count"]
    table = _whole_counts(rows.groupby("op_class", sort=True)[sums].sum())
    table["fallbacks"] = table["fallbacks"].round().astype(np.int64)
    table["factor"] = np.divide(
        table["projected_us"],
        table["measured_us"],
        out=np.full(len(table), np.nan),
        where=table["measured_us"] > 0,
    )
    for name in (LAW, BOUND):  # that of the most projected time
        time = (
            rows.groupby(["op_class", rows[name].astype(str)], sort=True)["projected_us"]
            .sum()
            .reset_index()
        )
        longest = time.sort_values("projected_us", ascending=False, kind="stable").drop_duplicates(
            "op_class"
        )
        table[name] = longest.set_index("op_class")[name]
    table = table.join(class_sigmas(projection, stated).set_index("op_class")).reset_index()
    reach = np.exp(float(ndtri((1 + level) / 2)) * table["sigma"])
    table["lower_us"] = table["projected_us"] / reach
    table["upper_us"] = table["projected_us"] * reach
    order = [
        "op_class",
        "count",
        "measured_us",
        "published_us",
        "projected_us",
        "lower_us",
        "upper_us",
        "factor",
        "law",
        "bound",
        "sigma",
        "basis",
        "fallbacks",
    ]
    return longest_first(table[order], "projected_us")


def other_law(projection: Projection) -> np.ndarray:
    """Return which activities go by another law than the one asked for, shape (n_activities,)."""
    rows = projection.activities
    laws = projection.laws
    asked = np.where(
        rows[CATEGORY] == COMMUNICATION, laws.communication, MODEL if laws.run else laws.compute
    )
    return rows[LAW].astype(str).str.partition("+")[0].to_numpy() != asked


def remark_table(projection: Projection) -> pd.DataFrame:
    """Return the laws' remarks on how they were applied, and why others were used, the longest time first.

    The columns are `why`, a tuple of `Remark`; `law`, the one used; `other`, whether another one
    was asked for; `count`; `projected_us`.
    """
    rows = projection.activities[[WHY, LAW, "projected_us"]]
    rows = rows.assign(other=other_law(projection), count=repeats_of(projection.activities))
    explained = rows[rows[WHY].map(bool).astype(bool) | rows["other"]]
    codes: dict[tuple[Remark, ...], int] = {}
    by = [
        pd.Series(
            [codes.setdefault(why, len(codes)) for why in explained[WHY]],
            explained.index,
            dtype=int,
            name=WHY,
        )
    ]
    by += [explained[LAW].astype(str), explained["other"]]
    table = _whole_counts(
        explained.groupby(by, sort=True)[["count", "projected_us"]].sum()
    ).reset_index()
    reasons = list(codes)
    table[WHY] = pd.Series([reasons[code] for code in table[WHY]], table.index, dtype=object)
    return longest_first(table, "projected_us")


def total_table(projection: Projection, published: Projection) -> pd.DataFrame:
    """Return the end-to-end time by every way of adding up.

    The columns are `aggregation`, `measured_us`, `published_us`, `projected_us`, and `factor`, the
    last over the first. Measured sums differ from the measured end-to-end time where activities
    overlap: they count overlap twice.
    """
    graph = projection.graph
    counted = projection.counted
    busy = projection.busy_us
    measured = {
        SUM: float((graph.duration_ns[counted] * projection.weights).sum()) / 1000.0
        + projection.measured_us
        - busy,
        OVERLAP: projection.measured_us,
        REPLAY: projection.measured_us,
    }
    table = pd.DataFrame({"aggregation": list(AGGREGATIONS)})
    table["measured_us"] = table["aggregation"].map(measured)
    table["published_us"] = table["aggregation"].map(published.totals)
    table["projected_us"] = table["aggregation"].map(projection.totals)
    return table.assign(factor=table["projected_us"] / table["measured_us"])


def gap_summary(projection: Projection) -> pd.DataFrame:
    """Return the measured gaps between activities of a queue by cause: `cause`, `count`, `gap_us`."""
    gaps = gap_table(projection.graph)
    gaps["count"] = repeats_of(projection.activities)[projection.graph.rows][gaps["row"]]
    gaps["gap_us"] = gaps["gap_ns"] * gaps["count"] / 1e3
    by_gap = (
        gaps.groupby("cause")[["count", "gap_us"]]
        .sum()
        .reindex(pd.Index(CAUSES, name="cause"))
        .fillna(0.0)
    )
    return _whole_counts(by_gap).reset_index()


def step_table(projection: Projection) -> pd.DataFrame:
    """Return the steps of the trace, of a folded one those that are left; no row where it has none.

    The columns are `step`, and `measured_us` and `projected_us` from the first start to the last
    end of what was launched in it.
    """
    graph = projection.graph
    times = projection.times
    step = projection.activities["step"].iloc[graph.rows]
    chosen = step.notna().to_numpy(dtype=bool) & projection.counted
    if not chosen.any():
        return pd.DataFrame({"step": [], "measured_us": [], "projected_us": []})
    frame = pd.DataFrame(
        {
            "step": step[chosen].to_numpy(dtype=np.int64),
            "start": graph.start_ns[chosen],
            "end": graph.end_ns[chosen],
            "new_start": times.start_ns[0][chosen],
            "new_end": times.end_ns[0][chosen],
        }
    )
    by_step = frame.groupby("step")
    measured = by_step["end"].max() - by_step["start"].min()
    projected = by_step["new_end"].max() - by_step["new_start"].min()
    return pd.DataFrame(
        {"measured_us": measured / 1e3, "projected_us": projected / 1e3}
    ).reset_index()


def outcome(projection: Projection) -> Mapping[str, Any]:
    """Return the results of a projection as `sweep` wants them.

    The shares are those of the critical path: activities by their bound, `LAUNCH` for the CPU's
    part, "latency" for gaps and what one queue waits for another.
    """
    path = projection.path
    length = path["length_ns"].to_numpy()
    bound = projection.activities[BOUND].astype(str).to_numpy()[projection.graph.rows]
    rows = path["row"].to_numpy()
    kind = path["kind"].to_numpy(dtype=object)
    what = np.where(
        kind == ACTIVITY, bound[rows], np.where(np.isin(kind, CPU_KINDS), LAUNCH, LATENCY_BOUND)
    )
    share = pd.Series(length).groupby(what).sum() / length.sum()
    classes = projection.activities.groupby(class_of(projection.activities))["projected_us"].sum()
    return {
        END_TO_END: projection.projected_us,
        "time_us": {str(name): float(value) for name, value in classes.items()},
        "share": {str(name): float(value) for name, value in share.items()},
    }


@dataclass(frozen=True)
class Result:
    """A projection with its baseline, its uncertainty, and the tables that explain both.

    What must be read before the answer (`first`) are ``device-taken-for``, ``trace-finding``,
    ``launched-before``, ``idle-head``, ``idle-tail`` and ``long-gap``. Notes are ``run-applies``
    and ``pairs-apply`` (to how much), ``no-phases`` (asked for, and all was projected),
    ``no-calls``, ``cpu-taken-as-fast`` and ``durations-of-passes``.
    """

    label: str  # what to call the trace
    projection: Projection  # with the laws asked for
    published: Projection  # by the published methodology
    uncertainty: Uncertainty  # of the projected end-to-end time
    totals: pd.DataFrame  # of `total_table`
    classes: pd.DataFrame  # of `class_table`
    gaps: pd.DataFrame  # of `gap_summary`
    steps: pd.DataFrame  # of `step_table`
    remarks: pd.DataFrame  # of `remark_table`
    split: pd.DataFrame  # the measured time of what counts (`split.time_split`): one row
    streams: pd.DataFrame  # the same by stream
    step_split: pd.DataFrame  # and by step, no row where there are none
    path: dict[str, float]  # shares of the critical path, projected
    measured_path: dict[str, float]  # and as measured
    path_kernels: pd.DataFrame  # of `path_kernels`
    verdict: Remark  # what sets the pace on the target (`verdict`)
    sweeps: pd.DataFrame | None  # of every sweep asked for, one below the other
    notes: tuple[Remark, ...]  # what a reader should know
    # of two figures of links or network that are swept together (`sweep.grid`)
    grid: pd.DataFrame | None = None
    phases: Repeated | None = None  # where a few repeats of each phase stand for all
    # kernels by name, where passes measured some (`passes.Retimed.kernels`)
    durations: pd.DataFrame | None = None
    # measured, by GPU and class (`roofs.measured_power`)
    power: Mapping[tuple[str, str], Power] | None = None
    need: Need | None = None  # how sure the time is to be, where that was asked
    first: tuple[Remark, ...] = ()  # what must be read before the answer
    advice: Advice | None = None  # what to make faster, where that was asked

    @cached_property
    def rates(self) -> pd.DataFrame:
        """TFLOP/s, GB/s and shares of the roofs of each activity on host and target (`roofs.rates_of`)."""
        return rates_of(self.projection)

    @cached_property
    def strips(self) -> list[Strip]:
        """The shares of the roofs over time, as measured and on the target (`roofs.strips`)."""
        return strips(self.projection, self.rates)

    @cached_property
    def energy(self) -> pd.DataFrame:
        """The energy on host and target, no row where no power is stated (`roofs.energy_of`)."""
        unsure = self.uncertainty
        return energy_of(
            self.projection, (unsure.lower_us, unsure.upper_us), unsure.level, self.power
        )

    @cached_property
    def sent(self) -> pd.DataFrame:
        """What is sent, by kind of collective (`job.communication_table`)."""
        return communication_table(self.projection.communication)

    @cached_property
    def pairs(self) -> pd.DataFrame:
        """What the rank sends every other (`job.pair_volumes`); no row where the trace does not say which it is."""
        rows = self.projection.communication
        rank = rows["rank"].dropna().unique()
        return pair_volumes([(int(rank[0]), rows)] if len(rank) == 1 else [])


def result_of(
    label: str,
    trace: Annotated,
    host: GPU,
    target: GPU,
    laws: Laws | None = None,
    *,
    stated: str = "",
    sweeps: Sequence[Sweep] = (),
    level: float = LEVEL,
    samples: int = 256,
    seed: int = 0,
    phases: bool = False,
    power: Mapping[tuple[str, str], Power] | None = None,
    need: float | None = None,
    profiling: Profiling | None = None,
    kernels: pd.DataFrame | None = None,
) -> Result:
    """Project a trace, with its tables and remarks.

    The trace has the CPU's calls, if the file has them. ``stated`` are uncertainties as the user
    states them (`uncertainty.parse_sigmas`), ``sweeps`` figures of the target to change, one after
    the other; level, samples and seed are those of the interval (`uncertainty.propagate`); with
    ``phases`` a few repeats of each phase of the trace are projected for all (`phases.fold`), where
    any repeats; ``power`` is as for `roofs.energy_of`, ``need`` as for `uncertainty.need_of`;
    ``profiling`` says what the profiler added, which is taken out (`unprofiled`); ``kernels`` are
    measured ones, against which those of the trace are held (`advice.advice_of`). A DataError as
    for `project_trace`, `parse_sigmas` and `propagate`.
    """
    trace, ends = with_ends_cut(trace)
    folded = None
    if phases:
        folded = fold(trace)
    short = trace
    if folded:
        short = folded.trace
    projection = replace(
        project_trace(short, host, target, laws, folded=folded), doubts=doubts_of(trace)
    )
    if profiling is not None:
        projection = without_profiler(projection, profiling)
    published = project_trace(
        short,
        host,
        target,
        replace(PUBLISHED, network=projection.laws.network),
        graph=projection.graph,
        folded=folded,
    )
    sigmas = {}
    if stated:
        sigmas = parse_sigmas(stated, names_of(projection))
    table = trace.dispatches[counted_of(trace.dispatches)]
    in_steps = table[table["step"].notna()]
    graph = projection.graph
    times = projection.times
    repeats = None
    if folded:
        edges = (
            projection.edges_ns(graph.start_ns[None], graph.end_ns[None]),
            projection.edges_ns(times.start_ns, times.end_ns),
        )
        repeats = repeated(folded, *(np.diff(each[0]) / 1e3 for each in edges))
    unsure = uncertainty_of(projection, sigmas, level=level, samples=samples, seed=seed)
    advice = None
    if kernels is not None:
        advice = advice_of(projection, rates_of(projection), kernels)
    return Result(
        label=label,
        projection=projection,
        published=published,
        uncertainty=unsure,
        totals=total_table(projection, published),
        classes=class_table(projection, published, sigmas, level=level),
        gaps=gap_summary(projection),
        steps=step_table(projection),
        remarks=remark_table(projection),
        split=time_split(table),
        streams=time_split(table, STREAM),
        step_split=time_split(in_steps, STEP),
        path=path_shares(projection.path),
        measured_path=path_shares(projection.measured_path),
        path_kernels=path_kernels(projection),
        verdict=verdict(projection),
        sweeps=stacked([_swept(short, projection, plan) for plan in sweeps]) if sweeps else None,
        grid=_grid(projection, sweeps),
        notes=tuple(_notes(trace, projection, asked=phases)),
        first=(*_first(trace, projection), *ends, *long_gaps(projection)),
        phases=repeats,
        power=power,
        need=None if need is None else need_of(projection, unsure, need),
        advice=advice,
    )


_Place = tuple[GPU, World | None]


def _changed(place: _Place, figure: str, value: float) -> _Place:
    """Return a target, a GPU in a world, with one figure changed."""
    gpu, world = place
    if figure not in NETWORK_FIGURES:
        return swept(gpu, figure, value), world
    world = world or World()
    return gpu, replace(world, target=world.target.changed(figure, value))


def _own(place: _Place, figure: str) -> float | None:
    gpu, world = place
    if figure not in NETWORK_FIGURES:
        return published_value(gpu, figure)
    if world is None:
        return None
    return world.target.own(figure)


def _linked(projection: Projection, place: _Place) -> Mapping[str, Any]:
    """Return the outcome on another target that differs in links and network alone."""
    gpu, world = place
    return outcome(with_collectives(projection, gpu, replace(projection.laws, world=world)))


def _swept(trace: Annotated, projection: Projection, plan: Sweep) -> pd.DataFrame:
    def evaluate(place: _Place) -> Mapping[str, Any]:
        if plan.figure in OF_LINKS:
            return _linked(projection, place)
        projected = project_trace(
            trace,
            projection.host,
            place[0],
            projection.laws,
            graph=projection.graph,
            trained_for=projection.target,
            folded=projection.folded,
        )
        return outcome(projected)

    return sweep((projection.target, projection.laws.world), plan, evaluate, _changed, _own)


def _grid(projection: Projection, plans: Sequence[Sweep]) -> pd.DataFrame | None:
    """Return two sweeps together where both are of links or network, with the time over the measured one (`ratio`)."""
    if len(plans) != 2 or any(plan.figure not in OF_LINKS for plan in plans):
        return None
    if len(plans[0].points) * len(plans[1].points) > MOST_POINTS:
        raise ParameterError(
            "sweep", f"of two figures together must have {MOST_POINTS} pairs at most"
        )
    place = projection.target, projection.laws.world
    table = grid(place, (plans[0], plans[1]), partial(_linked, projection), _changed)
    return table.assign(ratio=table[END_TO_END] / projection.measured_us)


def _notes(trace: Annotated, projection: Projection, *, asked: bool) -> list[Remark]:
    """Return the remarks for readers; ``asked`` says whether phases were to stand for their repeats."""
    notes = []
    rows = projection.activities
    laws = projection.laws
    count = repeats_of(rows)
    time = rows["projected_us"].to_numpy() * weights_of(rows)
    law = rows[LAW].astype(str)
    for asked_for, used, code, text in (
        (laws.run, law == MODEL, "run-applies", "the run predicts {}; laws the others"),
        (
            laws.corrections,
            law.str.endswith(PAIRED),
            "pairs-apply",
            "{} go by their problem, which both GPUs ran",
        ),
    ):
        if asked_for:
            done = int(count[used].sum())
            every = int(count.sum())
            part = 0.0
            if len(time):
                part = float(time[used].sum() / time.sum())
            words = f"{done:,} of {every:,} activities, {100 * part:.0f} % of their time"
            notes.append(remark(code, text.format(words), count=done, of=every, share=part))
    if asked and not projection.folded:
        text = (
            "no phase of the trace repeats often enough to stand for its repeats: the whole trace "
            "was projected"
        )
        notes.append(remark("no-phases", text))
    notes += [one for one in trace.notes if one.code == "groups-of-world"]
    if not len(projection.graph.calls):
        text = "the trace has no calls of the CPU: gaps are kept, whatever their cause"
        if projection.host != projection.target:
            text += f", and uncertain by {100 * GAP_SIGMA:.0f} %"
        notes.append(remark("no-calls", text))
    elif projection.laws.cpu_speed is None and projection.host != projection.target:
        within = f"within {100 * CPU_SIGMA:.0f} %"
        text = (
            f"the target's CPU is assumed to be as fast as the one measured, {within}: state "
            "cpu_speed"
        )
        notes.append(remark("cpu-taken-as-fast", text, sigma=CPU_SIGMA))
    unprofiled = projection.laws.unprofiled
    if unprofiled is not None and unprofiled.note is not None:
        notes.insert(0, unprofiled.note)
    world = projection.laws.world
    if world is not None:
        rows = projection.activities
        resized = (rows[LAW] == ALPHA_BETA).any()
        if world.ranks is not None and resized:
            text = (
                "every rank keeps its batch: kernels do not change, not even those on shards (of "
                "an optimizer), whose "
                "work depends on the number of ranks"
            )
            notes.append(remark("kernels-keep-their-work", text))
        elif world.ranks is not None:
            text = "no collective is re-sized: none in the trace states its name, message and group"
            notes.append(remark("nothing-re-sized", text))
        messages = placed_messages(projection.communication)
        model = model_us(messages, projection.host, world.host)
        modelled = ~np.isnan(model) & (model > 0)
        if (
            modelled.any()
            and (ratio := messages["time"][modelled].sum() / 1e3 / model[modelled].sum()) > WAITING
        ):
            text = (
                f"the collectives took {ratio:.3g} times what the model of the links predicts: "
                "they wait for peers, "
                "which stays"
            )
            notes.insert(0, remark("collectives-above-model", text, ratio=float(ratio)))
    return notes


def device_taken(projection: Projection) -> list[Remark]:
    """Return that the trace names another GPU than the host, or a part of one (``device-taken-for``)."""
    host = projection.host.name
    devices = tuple(sorted(set(projection.activities["device"].astype(str).unique()) - {host, ""}))
    if not devices:
        return []
    text = f"the trace names {', '.join(devices)}; it is read as {host}"
    return [remark("device-taken-for", text, devices=devices, host=host)]


def _first(trace: Annotated, projection: Projection) -> list[Remark]:
    """Return the findings of reading the trace, and the parts left out of the end-to-end time."""
    findings = [one for one in projection.doubts.remarks if one.values["finding"].code != "orphan"]
    findings = [*device_taken(projection), *findings]
    table = trace.dispatches
    before = ~table["linked"].to_numpy(dtype=bool)
    if not before.any() or before.all():
        return findings
    kernels = (table["kind"] == KERNEL).to_numpy(dtype=bool)
    if kernels[before].all():
        word = "kernels"
        those = kernels
    else:
        word = "activities"
        those = np.ones(len(table), dtype=bool)
    count = int(before.sum())
    every = int(those.sum())
    with_all = f"{span_ns(table) / 1e6:,.4g} ms measured"
    values = {"count": count, "of": every, "span_us": span_ns(table) / 1e3}
    if not projection.folded:
        projected_us = float(projection.times.span_us()[0])
        with_all += f", {projected_us / 1e3:,.4g} ms projected"
        values["projected_span_us"] = projected_us
    text = (
        f"{count:,} of {every:,} {word} were launched before recording began and are left out of "
        "the end-to-end time "
        f"(with them {with_all})"
    )
    return [*findings, remark("launched-before", text, **values)]


def changes(result: Result) -> list[Remark]:
    """Return where the dominant bound changes along the sweeps (``bound-changes``)."""
    remarks = []
    if result.sweeps is not None:
        remarks = changes_of_bound(result.sweeps)
    return [
        remark(
            "bound-changes",
            f"{one.before} → {one.after} at {one.figure} = {one.crossing:,.4g}",
            before=one.before,
            after=one.after,
            figure=one.figure,
            value=one.crossing,
        )
        for one in remarks
    ]

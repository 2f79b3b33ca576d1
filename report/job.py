"""What `project --together` found of several ranks of a job, as a document: who waits for whom, and what they send."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from functools import partial
from typing import TYPE_CHECKING, Any

import numpy as np
import pandas as pd

from ..projection.job import PARTS, Job
from ..projection.whole_trace import Projection
from .document import Bar, Bars, Document, Figure, Headline, Lines, Part, Section, Table, columns, lines, remarked, rows
from .formats import counted, data_size, duration, formatted, share, shortened

if TYPE_CHECKING:
    import plotly.graph_objects as go

SCHEMA = 1
"""Of `data`."""


def job_document(job: Job) -> Document:
    """Return several ranks of a job on another GPU, for terminal, page and machines."""
    host, target = job.projections[0].host.name, target_of(job.projections[0])
    said, notes = _findings(job), _notes(job)
    ratio = job.projected_us / job.measured_us
    head = Headline(
        "end to end", f"{duration(job.projected_us)} on {target}", f"{duration(job.measured_us)} on {host}",
        f"{ratio:.3f} of the measured time, from the first start to the last end of all ranks. FLOPS scaling, the "
        f"published rule, says {duration(job.published_us)}, replayed in the same way.",
    )  # fmt: skip
    title = f"{counted(len(job.ranks), 'rank')} on {job.projections[0].target.name}"
    lead = f"measured on {host}: {counted(len(job.meetings), 'collective')} that they share"
    return answered(title, lead, head, said, _sections(job), notes, data(job))


def answered(
    title: str, lead: str, head: Headline, said: Sequence[str], sections: Iterable[Section], notes: Sequence[str],
    data: dict[str, Any],
) -> Document:  # fmt: skip
    """Return a document that begins with an answer and what is said of it, and ends with notes."""
    return Document(
        title=title,
        lead=lead,
        opening=[head, Lines(lines(said).lines, medium="terminal"), Lines(lines(said).lines, "answer", medium="page")],
        sections=[*sections, Section("Notes", [Lines(lines(notes).lines, "list", medium="page")])],
        closing=[Lines(remarked(notes))],
        data=data,
    )


def target_of(projection: Projection) -> str:
    """Return what the target is called beside the host: its name, and what else changes where that is not another."""
    name, world = projection.target.name, projection.laws.world
    if world is not None and world.ranks is not None:
        return f"{name}, {counted(world.ranks, 'rank')}"
    return name if name != projection.host.name else f"{name}, projected"


def _findings(job: Job) -> list[str]:
    """Return what share of the time is waiting, and who comes last."""
    split = job.split
    total, waiting = float(split["total_us"].sum()), float(split["waiting_us"].sum())
    before = float(split["measured_waiting_us"].sum()) / float(split["measured_total_us"].sum())
    latest = split.sort_values("late_us", ascending=False, kind="stable").iloc[0]
    target = job.projections[0].target.name
    found = [
        f"the ranks wait for peers in {share(waiting / total, 0)} of their time on {target} ({share(before, 0)} as "
        "measured): no faster network shortens that"
    ]
    if latest["late_us"] > 0:
        found.append(
            f"rank {latest['rank']} comes last to {latest['last']} of {len(job.meetings)} collectives, "
            f"{duration(latest['late_us'])} after the one before it in total"
        )
    work = split["measured_computation_us"]
    if work.mean() > 0:
        over = float(work.max() / work.mean()) - 1.0
        longest = split["rank"].iloc[int(work.argmax())]
        found.append(f"rank {longest} computes longest, {100 * over:.1f} % above the mean of the ranks, as measured")
    return found


def _notes(job: Job) -> list[str]:
    error_us = job.matched.clock_error_ns / 1e3
    found = [f"the traces' clocks are aligned by the ends of common collectives, within {error_us:.3g} µs"]
    if job.matched.unmatched:
        found.append(
            f"{job.matched.unmatched} collectives are in some of the traces only, or between two ranks: no waiting is "
            "computed for them"
        )
    group = max((len(str(one).split(" ")[-1].split(",")) for one in job.matched.members["group"]), default=0)
    if group > len(job.ranks):
        found.append(
            f"{len(job.ranks)} of {group} ranks were given: a collective is assumed to start with the last of those"
        )
    return [*found, "no interval of the job: each trace alone has one"]


def _sections(job: Job) -> Iterator[Section]:
    host, target = job.projections[0].host.name, target_of(job.projections[0])
    drawn = Figure(partial(_ranks_drawn, job), f"Time of each rank on {target}, by what it is spent on")
    heads = columns("rank", numbers=("", *PARTS.values(), "total", "came last", "by"))
    parts: list[Part] = [drawn, Table(heads, rows(_ranks(job, host, target)), "where each rank's time goes")]
    yield Section("Where each rank's time goes", parts, "ranks", "Ranks")
    heads = columns(
        "collective", "group",
        numbers=("message", "count", "kernel", "waiting", "transfer", "model", "waiting there", "transfer there"),
    )  # fmt: skip
    caption = "means of a rank and a collective, as measured, by the model of the links, and on the target"
    table = Table(heads, rows(_collectives(job)), "collectives: waiting and transfer", caption=caption)
    yield Section("Collectives: waiting and transfer", [table], "collectives", "Collectives")
    yield sent_section(job.sent, job.pairs)


def sent_section(sent: pd.DataFrame, pairs: pd.DataFrame) -> Section:
    """Return what traced ranks send, by collective and between pairs (`projection.ranks`)."""
    total = float(sent["sent_bytes"].sum())
    known = sent[sent["sent_bytes"] > 0].groupby(["collective", "group"], sort=False)["sent_bytes"].sum()
    most = known.sort_values(ascending=False, kind="stable").reset_index().to_dict("records")
    bars = [
        Bar(f"{row['collective']} {row['group']}".strip(), row["sent_bytes"] / total, data_size(row["sent_bytes"]))
        for row in most
    ]
    heads = columns("collective", "group", numbers=("ranks", "message", "count", "sent", "measured"))
    parts: list[Part] = [
        Bars("Sent, by collective and group", bars),
        Table(heads, rows(_sent(sent)), "what ranks send"),
    ]
    if len(pairs):
        matrix = Figure(partial(_pairs_drawn, pairs), "Bytes that each traced rank sends each other")
        heads = columns("rank", numbers=("sent", "to peers", "least to one", "most to one"))
        caption = "whatever algorithm moves it"
        parts += [matrix, Table(heads, rows(_pairs(pairs)), "sent between pairs of ranks", caption)]
    return Section("What the ranks send", parts, "sent", "Volumes")


def _ranks_drawn(job: Job) -> go.Figure:
    from .projection_figures import ranks_figure

    return ranks_figure(job)


def _pairs_drawn(pairs: pd.DataFrame) -> go.Figure:
    from .projection_figures import pairs_figure

    return pairs_figure(pairs)


def _ranks(job: Job, host: str, target: str) -> Iterator[tuple[str, ...]]:
    """Yield two lines for every rank: as measured, and on the target."""
    for row in job.split.to_dict("records"):
        last = (f"{row['last']:,}", duration(row["late_us"]))
        yield str(row["rank"]), host, *(duration(row[f"measured_{name}"]) for name in (*PARTS, "total_us")), *last
        yield "", target, *(duration(row[name]) for name in (*PARTS, "total_us")), "", ""


def _collectives(job: Job) -> Iterator[tuple[str, ...]]:
    for row in job.collectives.to_dict("records"):
        times = ("kernel_us", "wait_us", "transfer_us", "model_us", "projected_wait_us", "projected_transfer_us")
        shown = (duration(row[name]) if np.isfinite(row[name]) else "" for name in times)
        yield (
            str(row["collective"]),
            shortened(str(row["group"]), 24),
            data_size(row["message_bytes"]),
            f"{row['count']:,}",
            *shown,
        )


def _sent(table: pd.DataFrame) -> Iterator[tuple[str, ...]]:
    for row in table.to_dict("records"):
        words = (str(row["collective"]) or "unknown", str(row["group"]))
        sizes = data_size(row["message_bytes"]), f"{row['count']:,}", data_size(row["sent_bytes"])
        yield *words, formatted(row["ranks"], "{:.0f}"), *sizes, duration(row["measured_us"])


def _pairs(pairs: pd.DataFrame) -> Iterator[tuple[str, ...]]:
    for rank, own in pairs.groupby(["rank", "peer"])["sent_bytes"].sum().groupby("rank"):
        whole, least, most = (data_size(float(value)) for value in (own.sum(), own.min(), own.max()))
        yield str(rank), whole, str(len(own)), least, most


def data(job: Job) -> dict[str, Any]:
    """Return the job as JSON types; the activities themselves are not in it."""
    return {
        "schema": SCHEMA,
        "ranks": list(job.ranks),
        "host": job.projections[0].host.name,
        "target": job.projections[0].target.name,
        "measured_us": job.measured_us,
        "projected_us": job.projected_us,
        "published_us": job.published_us,
        "clock_error_us": job.matched.clock_error_ns / 1e3,
        "unmatched": job.matched.unmatched,
        "split": job.split.to_dict("records"),
        "collectives": job.collectives.to_dict("records"),
        "sent": job.sent.to_dict("records"),
        "pairs": job.pairs.to_dict("records"),
        "findings": _findings(job),
        "notes": _notes(job),
    }

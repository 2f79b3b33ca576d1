"""How near a trace comes to what its GPUs can do: rates and hardware efficiency of kernels, roofs over time, energy.

Hardware efficiency is the achieved FLOPS over the dense peak of the format that was used. Beside it
stand the share of the memory bandwidth (compulsory bytes over time and bandwidth) and, of
collectives, that of the links (what the direct algorithm sends, over time and the bandwidth to the
peers of the group). All follow from the work of a kernel and its time, measured on the host and
projected on the target; where work or figure is unknown they are NaN.

`strip` cuts a stretch of the replay into bins, and says which share of each roof a bin used: the
shares of the kernels that ran, weighted by how long they did; where nothing ran it is 0, and
kernels that overlap add up. The CPU's share is the time in which any of its threads worked: waits
for the GPU are none of it.

The energy is power over time: measured power by class of kernels where it is given, else a share of
the board power, which is a judgement (`laws.board_power`).
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Final

import numpy as np
import pandas as pd

from ..arrays import FloatArray
from ..errors import DataError
from ..hardware.networks import NODE_GPUS
from ..laws.base import MATRIX, overheads_of
from ..laws.board_power import IDLE, LINKS, MOVING, PRODUCTS, SPREAD, energy_interval
from ..laws.rates import by_kind, peaks, runnable
from ..table.problems import codes_of
from .collective_laws import link_bandwidth_gbs, messages_of
from .graph import Graph
from .job import sent_bytes
from .kernel_laws import class_of, of_activities
from .phases import weights_of
from .replay import Times, attributed_time, replay
from .split import CATEGORIES, COMMUNICATION, DEVICE
from .whole_trace import CATEGORY, FACTOR, Projection

# what the columns of the host, and of the target, begin with
HOST, TARGET = SIDES = (
    "measured",
    "projected",
)
COMPUTE_ROOF = "compute"
MEMORY_ROOF = "memory"
LINK_ROOF = "link"
CPU_ROOF = "CPU"
RATES: Final = ("tflops", "gbs", "efficiency", "memory_share", "link_share")
"""Columns of `rates_of` without their side: TFLOP/s, GB/s, and the shares of the peak, the bandwidth and the links."""
BINS: Final = 120  # bins of a strip


def rates_of(projection: Projection) -> pd.DataFrame:
    """Return the rates of each activity on host and target, indexed as the activities.

    The columns are `RATES`, each after ``measured_`` and ``projected_``: TFLOP/s; GB/s of memory,
    of a collective what a rank sends; and shares of the roofs, 0 to 1 where the work is not
    overstated. NaN where the work, the time or the figure of the GPU is missing.

    >>> from flopcast.hardware import find
    >>> find("MI300X").peak_tflops("bf16")  # a product at 653.7 TFLOP/s there has an efficiency of 0.5
    1307.4
    """
    rows = projection.activities
    host = projection.host
    target = projection.target
    work = of_activities(
        rows, overheads_of(host, target)[0], rows["queued"].to_numpy(dtype=bool)
    ).work
    communicates = (rows[CATEGORY] == COMMUNICATION).to_numpy()
    messages = messages_of(rows).rename(columns={"bytes": "message_bytes"})
    world = projection.laws.world
    per_node = NODE_GPUS
    if projection.laws.network is not None:
        per_node = projection.laws.network.ranks_per_node
    rates = {}
    for side, gpu in ((HOST, host), (TARGET, target)):
        us = rows["duration_ns"].clip(lower=0).to_numpy() / 1e3
        if side == TARGET:
            us = us * rows[FACTOR].to_numpy()
            if world is not None:
                ranks = pd.Series(world.ranks_of(rows)).astype("Float64")
                messages = messages.assign(ranks=ranks.to_numpy(dtype=float, na_value=np.nan))
        us = np.where(us > 0, us, np.nan)
        peak, _ = by_kind(runnable(work, gpu), lambda part, gpu=gpu: peaks(part, gpu))
        sent = np.where(communicates, sent_bytes(messages), np.nan)
        moved = np.where(communicates, sent, work.bytes)
        tflops = np.where(communicates, np.nan, work.flops) / us / 1e6
        gbs = moved / us / 1e3
        links = np.full(len(rows), np.nan)
        for _, part in messages[communicates].groupby(["collective", "ranks"], sort=False):
            name = str(part["collective"].iloc[0])
            ranks = float(part["ranks"].iloc[0])
            try:
                if ranks <= per_node:
                    links[part.index] = link_bandwidth_gbs(gpu, name, ranks)
                else:
                    links[part.index] = np.nan
            except DataError:  # not published, or more ranks than the links join
                continue
        memory = np.nan
        if gpu.memory_bw_gbs is not None:
            memory = gpu.memory_bw_gbs
        shares = tflops / peak, np.where(communicates, np.nan, gbs) / memory, gbs / links
        rates |= {
            f"{side}_{name}": each for name, each in zip(RATES, (tflops, gbs, *shares), strict=True)
        }
    return pd.DataFrame(rates, index=rows.index)


@dataclass(frozen=True)
class Strip:
    """Shares of the roofs over a stretch of time on one GPU (of several their mean)."""

    gpu: str  # its name
    edges_us: FloatArray  # from the beginning of the trace as replayed; shape (n_bins + 1,)
    # roof -> share in each bin, 0 to 1; a roof without any rate is left out; shape
    # (n_bins,)
    shares: Mapping[str, FloatArray]
    step: int | None  # number of the profiler's step that this is, None for the whole trace


def strips(
    projection: Projection, rates: pd.DataFrame, bins: int = BINS, *, whole: bool = False
) -> list[Strip]:
    """Return the strip of the host, as measured, and that of the target.

    Of a trace with several steps it is the step of median time on the target, unless the ``whole``
    is asked for. ``rates`` are of `rates_of`.
    """
    graph = projection.graph
    counted = projection.counted
    steps = projection.activities["step"].iloc[graph.rows]
    step = None
    chosen = counted
    played = (projection.target_graph, projection.times)
    spans = pd.DataFrame(
        {"start": played[1].start_ns[0][counted], "end": played[1].end_ns[0][counted]}
    )
    by_step = spans.groupby(steps[counted].to_numpy())
    length = (by_step["end"].max() - by_step["start"].min()).sort_values(kind="stable")
    if not whole and len(length) > 1:
        step = int(length.index[(len(length) - 1) // 2])
        chosen = counted & steps.eq(step).fillna(False).to_numpy(dtype=bool)
    measured = (graph, replay(graph, graph.duration_ns))
    names = (projection.host.name, projection.target.name)
    strips_of = []
    for side, name, (side_graph, times) in zip(SIDES, names, (measured, played), strict=True):
        start = times.start_ns[0]
        end = times.end_ns[0]
        edges = np.linspace(
            start[chosen].min(), max(end[chosen].max(), start[chosen].min() + 1.0), bins + 1
        )
        strips_of.append(
            Strip(
                name, edges / 1e3, _shares(projection, rates, side, side_graph, times, edges), step
            )
        )
    return strips_of


def _shares(
    projection: Projection,
    rates: pd.DataFrame,
    side: str,
    graph: Graph,
    times: Times,
    edges: FloatArray,
) -> dict[str, FloatArray]:
    """Return the share of each roof that has rates in each bin."""
    shares = {}
    gpus = len(projection.activities[list(DEVICE)].drop_duplicates())
    for roof, column in (
        (COMPUTE_ROOF, "efficiency"),
        (MEMORY_ROOF, "memory_share"),
        (LINK_ROOF, "link_share"),
    ):
        share = rates[f"{side}_{column}"].to_numpy()[graph.rows]
        finite = np.isfinite(share) & (share > 0)
        if finite.any():
            at = times.start_ns[0][finite], times.end_ns[0][finite]
            shares[roof] = mean_in(edges, *at, share[finite]) / gpus
    if len(calls := graph.calls):
        at = times.call_ns(graph)[0]
        ends = calls.duration_ns * times.cpu[0]
        waits = graph.runs.wait >= 0
        ends[graph.runs.wait[waits]] = graph.runs.base_ns[waits] * times.cpu[0]
        stop = np.full(len(graph.runs), -np.inf)
        np.maximum.at(stop, calls.run, at + ends)
        begin = times.run_ns[0]
        order = np.argsort(begin, kind="stable")
        begin, stop = begin[order], np.maximum.accumulate(np.maximum(stop, begin)[order])
        # what another thread has covered counts once
        begin = np.maximum(begin, np.r_[-np.inf, stop[:-1]])
        shares[CPU_ROOF] = mean_in(edges, begin, np.maximum(stop, begin), np.ones(len(begin)))
    return shares


def mean_in(edges: FloatArray, start: FloatArray, end: FloatArray, value: FloatArray) -> FloatArray:
    """Return the mean over each bin of a signal that is ``value`` from start to end, all (n,), and 0 elsewhere."""

    def ramp(begin: FloatArray) -> FloatArray:
        order = np.argsort(begin, kind="stable")
        place = np.searchsorted(begin[order], edges, side="right")
        height, moment = (
            np.r_[0.0, np.cumsum(each[order])] for each in (value, value * (begin - edges[0]))
        )
        return (edges - edges[0]) * height[place] - moment[place]

    return np.maximum(np.diff(ramp(start) - ramp(end)) / np.diff(edges), 0.0)


@dataclass(frozen=True)
class Power:
    """Measured power of a class of kernels on a GPU: its median, W, and the standard deviation of its logarithm."""

    watts: float
    sigma: float


def measured_power(table: pd.DataFrame) -> dict[tuple[str, str], Power]:
    """Return the power by (GPU, class of kernels) of measured rows: ``power_w``, else ``energy_j`` over the time.

    Raises DataError: no row has a power.
    """
    if "power_w" in table:
        power = table["power_w"]
    else:
        power = pd.Series(np.nan, table.index)
    if "energy_j" in table:
        power = power.fillna(table["energy_j"] / (table["duration_us"] / 1e6))
    measured = (power > 0).to_numpy()
    if not measured.any():
        raise DataError(
            "no row has a power: give measurements with power_w, or with energy_j and a time"
        )
    rows = pd.DataFrame(
        {
            "gpu": table["device"].astype(str),
            "op_class": class_of(table),
            "log": np.log(power[measured]),
        }
    )
    powers = {}
    for (gpu, op_class), logs in rows[measured].groupby(["gpu", "op_class"])["log"]:
        middle = float(np.exp(logs.median()))
        spread = float(logs.std(ddof=0))
        powers[str(gpu), str(op_class)] = Power(middle, spread)
    return powers


def energy_of(
    projection: Projection,
    interval_us: tuple[float, float],
    level: float,
    power: Mapping[tuple[str, str], Power] | None = None,
) -> pd.DataFrame:
    """Return the energy of the trace on host and target, all its GPUs together; no row where no power is stated.

    The interval of the projected time, at ``level``, widens that of the energy. A class whose
    ``power`` was measured on one of the GPUs alone (`measured_power`) draws the same share of the
    board power on the other. The columns are `gpu`, `projected` (whether it is the target),
    `time_us`, `power_w` (mean), `energy_j`, `lower_j`, `upper_j`, `measured_share` (of the busy
    time: of classes whose power was measured).
    """
    rows = projection.activities
    graph = projection.graph
    counted = projection.counted
    classes = rows["op_class"].astype(str).to_numpy(dtype=object)
    work = of_activities(rows, overheads_of(projection.host, projection.target)[0]).work
    judged = np.where(
        (rows[CATEGORY] == COMMUNICATION).to_numpy(),
        LINKS,
        np.where(work.unit == MATRIX, PRODUCTS, MOVING),
    )
    device = codes_of(rows[name] for name in DEVICE)[graph.rows][counted]
    rank = pd.Categorical(rows[CATEGORY], categories=list(CATEGORIES)).codes.astype(np.int64)[
        graph.rows
    ][counted]
    weights = weights_of(rows)[graph.rows][counted]
    measured = replay(graph, graph.duration_ns)
    boards = [gpu for gpu in (projection.host, projection.target) if gpu.tdp_w is not None]
    lines = []
    for gpu, times, whole_us in (
        (projection.host, measured, projection.measured_us),
        (projection.target, projection.times, projection.projected_us),
    ):
        if gpu.tdp_w is None:
            continue
        share = judged.copy()
        sigma = np.full(len(rows), SPREAD)
        stated_rows = np.zeros(len(rows), dtype=bool)
        # the GPU's figures last: they hold
        for board in (*(one for one in boards if one != gpu), gpu):
            for name in np.unique(classes):
                watts_of = (power or {}).get((board.name, str(name)))
                if watts_of:
                    of_class = classes == name
                    share[of_class] = watts_of.watts / board.require("tdp_w")
                    sigma[of_class] = watts_of.sigma
                    stated_rows[of_class] = True
        start, end = (each[0][counted] for each in (times.start_ns, times.end_ns))
        alone_us = np.zeros(len(start))
        for number in np.unique(device):
            here = device == number
            alone_us[here] = attributed_time(start[here], (end - start)[here], rank[here]) / 1e3
        alone_us = alone_us * weights
        at = graph.rows[counted]
        busy = float(alone_us.sum())
        gpus = len(np.unique(device))
        idle_us = max(whole_us * gpus - busy, 0.0)
        watts = gpu.tdp_w * (float(alone_us @ share[at]) + IDLE * idle_us) / whole_us
        spread = (
            float(alone_us @ (share * sigma)[at] + IDLE * SPREAD * idle_us)
            * gpu.tdp_w
            / whole_us
            / watts
        )
        projected = times is not measured
        bounds = interval_us
        if not projected:
            bounds = (whole_us, whole_us)
        reach = energy_interval(
            watts, (whole_us / 1e6, *(each / 1e6 for each in bounds)), spread, level
        )
        lines.append(
            (
                gpu.name,
                projected,
                whole_us,
                watts,
                watts * whole_us / 1e6,
                *reach,
                float(alone_us @ stated_rows[at]) / busy if busy else 0.0,
            )
        )
    names = [
        "gpu",
        "projected",
        "time_us",
        "power_w",
        "energy_j",
        "lower_j",
        "upper_j",
        "measured_share",
    ]
    return pd.DataFrame(lines, columns=names)


def counters(
    projection: Projection, rates: pd.DataFrame
) -> Iterator[tuple[str, FloatArray, FloatArray]]:
    """Yield the tracks of the target for a viewer of traces: name, times in ns from its first start on, and percent.

    A value holds until the next; each track ends at 0.
    """
    steps = max(projection.activities["step"].nunique(), 1)
    _, target = strips(projection, rates, min(BINS * steps, 4000), whole=True)
    for name, shares in target.shares.items():
        yield f"{name}, % of its roof", target.edges_us * 1e3, np.r_[100.0 * shares, 0.0]

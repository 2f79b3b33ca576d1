"""When the layers of a graph run: the time of each by its best source, then the order, and what the end waits for.

A GPU computes one layer at a time and sends one message at a time; the two overlap, and GPUs (the
ranks of a trace of several) run beside each other. Of what is ready the first written goes first.
The order of the medians holds for all draws of the times, so the interval is that of the same plan.
"""

from __future__ import annotations

import heapq
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final

import numpy as np
import pandas as pd

from ..arrays import FloatArray, IntArray
from ..errors import DataError
from ..evaluation.metrics import NINETY_PERCENT
from ..hardware import GPU
from ..hardware.constants import constant
from ..laws.kernels import PRODUCT, ROW_WISE, STREAMING, Attention, fitted
from ..laws.rates import run_as
from ..operators.operators import OPS, work_of
from ..projection.chakra_export import Task
from ..projection.collective_laws import collective_us
from .kernel_times import LAUNCH_US, Times, by_runs
from .layer_graph import GraphSetting, LayerGraph, LayerOfGraph
from .releases import PRIORS

COMPUTE, LINKS = 0, 1
PARTS: Final = ("products", "attention", "elementwise", "collectives", "stated")
STATED, RUN, MEASURED, LAW = SOURCES = ("stated", "run", "measured", "law")


@dataclass(frozen=True, kw_only=True)
class LayerTime:
    """One layer of a graph: its seconds of computing and of its message, their start, and their source.

    ``source`` is ``stated``, ``run``, ``measured`` or ``law`` of what it computes, "" where it only
    sends; ``critical`` says whether the end of the whole waits for it.
    """

    name: str
    phase: str
    source: str
    compute_s: float
    message_s: float
    start_s: float
    end_s: float
    critical: bool


@dataclass
class LayerTimes:
    """Of each layer, shape (n,): µs of computing and their spread, part of `PARTS` and source; the same of messages."""

    compute: FloatArray
    sigma: FloatArray
    part: IntArray
    source: list[str]
    message: FloatArray
    message_sigma: FloatArray


@dataclass
class Plan:
    """Tasks in running order: layer and kind of each, start and end, and the task it waited for.

    Kinds are `COMPUTE` and `LINKS`.
    """

    tasks: list[tuple[int, int]]
    start: list[float]
    end: list[float]
    cause: list[int]

    def critical(self) -> list[int]:
        """Return the chain of tasks that ends last, as their positions, first to last."""
        place = int(np.argmax(self.end))
        path = []
        while place >= 0:
            path.append(place)
            place = self.cause[place]
        return path[::-1]


def layer_times(setting: GraphSetting, runs: Sequence[Times]) -> LayerTimes:
    """Return the times of all layers: stated, or of their shapes by the first run that knows them, else by the laws.

    Raises DataError: a layer lacks a dimension, or a figure of the GPU is not published.
    """
    layers = setting.model.layers
    count, (moved, spread) = (
        len(layers),
        moved_from(setting.measured_on, setting.gpu, setting.dtype),
    )
    times = LayerTimes(
        np.zeros(count),
        np.zeros(count),
        np.zeros(count, dtype=np.int64),
        [""] * count,
        np.zeros(count),
        np.zeros(count),
    )
    for place, one in enumerate(layers):
        if one.stated_us is not None:
            times.compute[place], times.source[place] = one.stated_us * one.count * moved, STATED
            times.sigma[place] = float(np.hypot(spread, setting.model.spread))
            times.part[place] = PARTS.index("stated")
        if one.collective:
            ranks = one.ranks or setting.gpus
            each = float(
                collective_us(
                    setting.gpu, one.collective, one.message_bytes, ranks, setting.network
                )
            )
            times.message[place] = each * one.count
            if setting.network.nodes(ranks) == 1:
                spread_of = "layer.collectives"
            else:
                spread_of = "distance.nodes"
            times.message_sigma[place] = PRIORS[spread_of].value
    places = [place for place, one in enumerate(layers) if one.op]
    if not places:
        return times
    stated = [
        {"dtype_a": setting.dtype, **layers[place].sizes, "op": layers[place].op}
        for place in places
    ]
    frame = pd.DataFrame(stated).assign(source=[layers[place].name for place in places])
    us, sigma, part = _by_law(frame, setting.gpu)
    learnt = by_runs(runs, frame.assign(device=setting.gpu.name))
    us = np.where(np.isfinite(learnt.us), learnt.us, us + (LAUNCH_US if setting.eager else 0.0))
    sigma = np.where(np.isfinite(learnt.spread), learnt.spread, sigma)
    times.compute[places] = us * [layers[place].count for place in places]
    times.sigma[places], times.part[places] = sigma, part
    for place, source in zip(places, learnt.source, strict=True):
        times.source[place] = str(source) or LAW
    return times


def moved_from(host: GPU | None, target: GPU, dtype: str) -> tuple[float, float]:
    """Return the factor on times measured on another GPU, and its spread.

    What a layer does is unknown: its time goes with the arithmetic, with the memory, or with
    something between. The factor is the geometric mean of both ratios, which lie at the ends of its
    90 % interval; a separate spread is added. Without a host, or on the same GPU, times are as
    stated.

    >>> from flopcast.hardware import find
    >>> factor, spread = moved_from(find("MI300X"), find("MI355X"), "bf16")
    >>> 1307.4 / 2516.6 < factor < 5300 / 8000
    True
    """
    if host is None or host == target:
        return 1.0, 0.0
    arithmetic = host.peak_tflops(run_as(dtype, host)) / target.peak_tflops(run_as(dtype, target))
    memory = host.require("memory_bw_gbs") / target.require("memory_bw_gbs")
    ends = abs(float(np.log(arithmetic / memory))) / 2 / NINETY_PERCENT
    return float(np.sqrt(arithmetic * memory)), float(
        np.hypot(ends, PRIORS["layer.stated_elsewhere"].value)
    )


def _by_law(frame: pd.DataFrame, gpu: GPU) -> tuple[FloatArray, FloatArray, IntArray]:
    """Return µs, spread and part of operators by their work, shape (n_rows,) each."""
    work = work_of(frame)
    us, sigma = np.empty(len(frame)), np.array([OPS[op].spread for op in frame["op"]])
    part = np.zeros(len(frame), dtype=np.int64)
    for place, op in enumerate(frame["op"]):
        one = work.take(np.array([place]))
        moved = float(STREAMING(one, gpu)[0])
        if op.startswith("attention"):
            row, part[place] = frame.iloc[place], PARTS.index("attention")
            causal, backward = bool(row.get("causal", 0) == 1), op == "attention_backward"
            law = Attention(
                keys=row["seq_kv"], head_dim=int(row["head_dim"]), causal=causal, backward=backward
            )
            us[place] = max(float(law(one, gpu)[0]), moved)
        elif work.unit[place] == "matrix":
            us[place] = PRODUCT(one, gpu)[0]
            if OPS[op].op_class == "gemm" and fitted(gpu, str(work.dtype[place])):
                sigma[place] = PRIORS["layer.fitted"].value
        else:
            part[place] = PARTS.index("elementwise")
            us[place] = ROW_WISE(one, gpu)[0] if OPS[op].row_wise else moved
    if len(unknown := frame["source"][~np.isfinite(us)]):
        op = frame["op"][unknown.index[0]]
        raise DataError(
            f"layer {unknown.iloc[0]!r}: what a {OPS[op].name} takes follows from no shape: state "
            "time_us"
        )
    return us + constant("launch.tuned_product").value, sigma, part


def planned(layers: Sequence[LayerOfGraph], times: LayerTimes) -> Plan:
    """Return the order of all tasks at the medians; of several ready tasks the first written runs first."""
    followers: list[list[int]] = [[] for _ in layers]
    missing = [len(one.after) for one in layers]
    for place, one in enumerate(layers):
        for before in one.after:
            followers[before].append(place)
    plan = Plan([], [], [], [])
    first = streams_of(layers)
    count = max(first, default=0) + 2
    free, last = [0.0] * count, [-1] * count
    waiting: list[list[tuple[float, int, int]]] = [
        [] for _ in range(count)
    ]  # by when they are ready
    ready: list[list[tuple[int, float, int]]] = [[] for _ in range(count)]  # by place
    finished = [(0.0, -1)] * len(layers)

    def offer(place: int, stream: int, when: float, cause: int) -> None:
        heapq.heappush(waiting[stream], (when, place, cause))

    def begin(place: int, when: float, cause: int) -> None:
        offer(place, first[place] + (COMPUTE if times.source[place] else LINKS), when, cause)

    for place, others in enumerate(missing):
        if not others:
            begin(place, 0.0, -1)
    while any((*waiting, *ready)):
        # the stream whose next task starts first
        starts = []
        for stream in range(count):
            if ready[stream]:
                starts.append((free[stream], stream))
            elif waiting[stream]:
                starts.append((max(free[stream], waiting[stream][0][0]), stream))
        stream = min(starts)[1]
        while waiting[stream] and waiting[stream][0][0] <= free[stream]:
            when, place, cause = heapq.heappop(waiting[stream])
            heapq.heappush(ready[stream], (place, when, cause))
        if ready[stream]:
            place, when, cause = heapq.heappop(ready[stream])
        else:
            when, place, cause = heapq.heappop(waiting[stream])
        start = max(when, free[stream])
        kind = stream - first[place]
        end = start + float((times.compute if kind == COMPUTE else times.message)[place]) * 1e-6
        plan.tasks.append((place, kind))
        plan.start.append(start)
        plan.end.append(end)
        plan.cause.append(cause if when >= free[stream] else last[stream])
        free[stream], last[stream] = end, len(plan.tasks) - 1
        if kind == COMPUTE and layers[place].collective:
            offer(place, first[place] + LINKS, end, last[stream])
            continue
        finished[place] = (end, last[stream])
        for after in followers[place]:
            missing[after] -= 1
            if not missing[after]:
                begin(after, *max(finished[before] for before in layers[after].after))
    return plan


def streams_of(layers: Sequence[LayerOfGraph]) -> list[int]:
    """Return the first stream, that of computing, of the rank of each layer; its messages' is the next."""
    places = {}
    for place, rank in enumerate(sorted({one.rank for one in layers})):
        places[rank] = 2 * place
    return [places[one.rank] for one in layers]


def _task_seconds(task: tuple[int, int], times: LayerTimes, normal: FloatArray) -> FloatArray:
    """Return the draws of one task, shape (draws,)."""
    place, stream = task
    if stream == LINKS:
        return (
            1e-6
            * times.message[place]
            * np.exp(times.message_sigma[place] * normal[:, PARTS.index("collectives")])
        )
    return 1e-6 * times.compute[place] * np.exp(times.sigma[place] * normal[:, times.part[place]])


def drawn_ends(
    layers: Sequence[LayerOfGraph], times: LayerTimes, plan: Plan, normal: FloatArray
) -> FloatArray:
    """Return the draws of the end, shape (draws,), with the tasks of each stream in the order of the plan.

    ``normal`` are standard normal draws for each of `PARTS`, shape (draws, parts).
    """
    first = streams_of(layers)
    free = [np.zeros(len(normal)) for _ in range(max(first, default=0) + 2)]
    done: list[FloatArray] = [free[0]] * len(layers)
    for task in plan.tasks:
        place, kind = task
        stream = first[place] + kind
        start = free[stream]
        for before in layers[place].after:
            start = np.maximum(start, done[before])
        if kind == LINKS and times.source[place]:
            start = np.maximum(start, done[place])
        free[stream] = done[place] = start + _task_seconds(task, times, normal)
    return np.maximum.reduce(free)


def drawn_parts(times: LayerTimes, plan: Plan, normal: FloatArray) -> dict[str, FloatArray]:
    """Return the draws of the seconds of each part on the critical path of the medians."""
    seconds = {name: np.zeros(len(normal)) for name in PARTS}
    for place in plan.critical():
        layer, stream = plan.tasks[place]
        if stream == LINKS:
            name = "collectives"
        else:
            name = PARTS[times.part[layer]]
        seconds[name] += _task_seconds(plan.tasks[place], times, normal)
    return {name: draws for name, draws in seconds.items() if draws.any()}


def course(layers: Sequence[LayerOfGraph], times: LayerTimes, plan: Plan) -> list[LayerTime]:
    """Return the layers in the order in which they run."""
    when: dict[int, list[float]] = {}
    for (place, _), start, end in zip(plan.tasks, plan.start, plan.end, strict=True):
        when[place] = [when[place][0] if place in when else start, end]
    critical = {plan.tasks[place][0] for place in plan.critical()}
    return [
        LayerTime(
            name=layers[place].name,
            phase=layers[place].phase,
            source=times.source[place],
            compute_s=float(times.compute[place]) * 1e-6,
            message_s=float(times.message[place]) * 1e-6,
            start_s=start,
            end_s=end,
            critical=place in critical,
        )
        for place, (start, end) in when.items()
    ]


def chakra_tasks(times: Sequence[LayerTime], graph: LayerGraph, gpus: int) -> list[Task]:
    """Return the tasks of a graph whose layers run as forecast, the same on each of the GPUs."""
    layers = {one.name: one for one in graph.layers}
    tasks: list[Task] = []
    last: dict[str, int] = {}  # the task with which a layer ends
    for one in times:
        layer = layers[one.name]
        after = tuple(sorted(last[graph.layers[place].name] for place in layer.after))
        if one.source:
            end_us = 1e6 * (one.start_s + one.compute_s)
            tasks.append(
                Task(name=one.name, start_us=1e6 * one.start_s, end_us=end_us, after=after)
            )
            after = (len(tasks) - 1,)
        if layer.collective:
            tasks.append(
                Task(
                    name=one.name,
                    start_us=1e6 * (one.end_s - one.message_s),
                    end_us=1e6 * one.end_s,
                    after=after,
                    collective=layer.collective,
                    message_bytes=layer.message_bytes * layer.count,
                    ranks=layer.ranks or gpus,
                )
            )
        last[one.name] = len(tasks) - 1
    return tasks

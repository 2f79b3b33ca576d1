"""When the layers of a graph run: the time of each by its best source, then the order, and what the end waits for.

A GPU computes one layer at a time and sends one message at a time, or several that share its links
(`congestion`); the two overlap, and GPUs (the ranks of a trace of several) run beside each other.
Of what is ready the first written goes first. The order of the medians holds for all draws of the
times, so the interval is that of the same plan.
"""

from __future__ import annotations

import heapq
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
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
from ..projection.collective_laws import collective_parts_us
from .congestion import FAIR, Port, SharedLinks, ports_of
from .kernel_times import LAUNCH_US, Times, by_runs
from .layer_graph import GraphSetting, LayerGraph, LayerOfGraph
from .releases import PRIORS

COMPUTE = 0
LINKS = 1
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
    """Of each layer, shape (n,): µs of computing and their spread, part of `PARTS` and source; the same of messages.

    ``transfer`` are the µs of a message that its bytes take.
    """

    compute: FloatArray
    sigma: FloatArray
    part: IntArray
    source: list[str]
    message: FloatArray
    message_sigma: FloatArray
    transfer: FloatArray


@dataclass
class Plan:
    """Tasks in running order: layer and kind of each, start and end, and the task it waited for.

    Kinds are `COMPUTE` and `LINKS`; ``shared`` are the tasks that wait for no stream, but share
    links.
    """

    tasks: list[tuple[int, int]]
    start: list[float]
    end: list[float]
    cause: list[int]
    shared: set[int]

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
    count = len(layers)
    (moved, spread) = moved_from(setting.measured_on, setting.gpu, setting.dtype)
    times = LayerTimes(
        np.zeros(count),
        np.zeros(count),
        np.zeros(count, dtype=np.int64),
        [""] * count,
        np.zeros(count),
        np.zeros(count),
        np.zeros(count),
    )
    for place, one in enumerate(layers):
        if one.stated_us is not None:
            times.compute[place] = one.stated_us * one.count * moved
            times.source[place] = STATED
            times.sigma[place] = float(np.hypot(spread, setting.model.spread))
            times.part[place] = PARTS.index("stated")
        if one.collective:
            latency, transfer = collective_parts_us(
                setting.gpu,
                one.collective,
                one.message_bytes,
                one.ranks or setting.gpus,
                setting.network_of(one),
            )
            times.message[place] = float(latency + transfer) * one.count
            times.transfer[place] = float(transfer) * one.count
            if not setting.between_nodes(one):
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
    times.sigma[places] = sigma
    times.part[places] = part
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
    us = np.empty(len(frame))
    sigma = np.array([OPS[op].spread for op in frame["op"]])
    part = np.zeros(len(frame), dtype=np.int64)
    for place, op in enumerate(frame["op"]):
        one = work.take(np.array([place]))
        moved = float(STREAMING(one, gpu)[0])
        if op.startswith("attention"):
            row = frame.iloc[place]
            part[place] = PARTS.index("attention")
            causal = bool(row.get("causal", 0) == 1)
            backward = op == "attention_backward"
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
            if OPS[op].row_wise:
                us[place] = ROW_WISE(one, gpu)[0]
            else:
                us[place] = moved
    if len(unknown := frame["source"][~np.isfinite(us)]):
        op = frame["op"][unknown.index[0]]
        raise DataError(
            f"layer {unknown.iloc[0]!r}: what a {OPS[op].name} takes follows from no shape: state "
            "time_us"
        )
    return us + constant("launch.tuned_product").value, sigma, part


def planned(layers: Sequence[LayerOfGraph], times: LayerTimes, setting: GraphSetting) -> Plan:
    """Return the order of all tasks at the medians; of several ready tasks the first written runs first.

    With fair congestion messages between named ranks begin when they are ready, and those that
    cross the same port share it (`congestion`).
    """
    ports: dict[int, dict[Port, float]] = {}
    if setting.congestion == FAIR:
        for place, layer in enumerate(layers):
            if layer.peer < 0 or layer.peer == layer.rank:
                continue
            ports[place] = ports_of(
                setting.gpu, layer.rank, layer.peer, between_nodes=setting.between_nodes(layer)
            )
    return _Planner(layers, times, ports).plan


class _Planner:
    """The course of time: what runs ends, what waited for it is ready, and what is ready and has its stream begins."""

    def __init__(
        self,
        layers: Sequence[LayerOfGraph],
        times: LayerTimes,
        ports: Mapping[int, Mapping[Port, float]],
    ) -> None:
        self.plan = Plan([], [], [], [], set())
        self._layers = layers
        self._times = times
        self._ports = ports
        capacity: dict[Port, float] = {}
        for crossed in ports.values():
            capacity.update(crossed)
        self._links = SharedLinks(capacity)
        self._followers: list[list[int]] = [[] for _ in layers]
        self._missing = [len(one.after) for one in layers]
        for place, one in enumerate(layers):
            for before in one.after:
                self._followers[before].append(place)
        self._first = streams_of(layers)
        count = max(self._first, default=0) + 2
        self._ready: list[list[tuple[int, float, int]]] = [[] for _ in range(count)]  # by place
        self._free = [0.0] * count
        self._last = [-1] * count
        self._runs = [False] * count
        self._touched: set[int] = set()  # streams on which a task may begin
        self._ends: list[tuple[float, int]] = []  # with the tasks that end then
        self._finished = [(0.0, -1)] * len(layers)
        self._run()

    def _run(self) -> None:
        for place, others in enumerate(self._missing):
            if not others:
                self._offer(place, 0.0, -1)
        self._begin_ready(0.0)
        while True:
            now = min(self._ends[0][0] if self._ends else np.inf, self._links.next_end())
            if now == np.inf:
                return
            if self._links.next_end() <= now:
                for task in self._links.ended(now):
                    self._end(task, now)
            while self._ends and self._ends[0][0] <= now:
                task = heapq.heappop(self._ends)[1]
                if task in self.plan.shared:  # its latency is over
                    place = self.plan.tasks[task][0]
                    left_s = float(self._times.transfer[place]) * 1e-6
                    self._links.begin(task, list(self._ports[place]), left_s, now)
                else:
                    self._end(task, now)
            self._begin_ready(now)

    def _offer(self, place: int, when: float, cause: int, computed: bool = False) -> None:
        """Let a layer's next task be ready."""
        kind = LINKS
        if self._times.source[place] and not computed:
            kind = COMPUTE
        if kind == LINKS and place in self._ports:
            task = self._append(place, kind, when, cause)
            self.plan.shared.add(task)
            latency = float(self._times.message[place] - self._times.transfer[place]) * 1e-6
            heapq.heappush(self._ends, (when + latency, task))
            return
        stream = self._first[place] + kind
        heapq.heappush(self._ready[stream], (place, when, cause))
        self._touched.add(stream)

    def _append(self, place: int, kind: int, start: float, cause: int) -> int:
        self.plan.tasks.append((place, kind))
        self.plan.start.append(start)
        self.plan.end.append(start)
        self.plan.cause.append(cause)
        return len(self.plan.tasks) - 1

    def _begin_ready(self, now: float) -> None:
        for stream in sorted(self._touched):
            if self._runs[stream] or not self._ready[stream]:
                continue
            place, when, cause = heapq.heappop(self._ready[stream])
            kind = stream - self._first[place]
            if when < self._free[stream]:
                cause = self._last[stream]
            task = self._append(place, kind, now, cause)
            us = (self._times.compute if kind == COMPUTE else self._times.message)[place]
            heapq.heappush(self._ends, (now + float(us) * 1e-6, task))
            self._runs[stream] = True
        self._touched.clear()

    def _end(self, task: int, now: float) -> None:
        place, kind = self.plan.tasks[task]
        self.plan.end[task] = now
        if task not in self.plan.shared:
            stream = self._first[place] + kind
            self._runs[stream] = False
            self._free[stream] = now
            self._last[stream] = task
            self._touched.add(stream)
        if kind == COMPUTE and self._layers[place].collective:
            self._offer(place, now, task, computed=True)
            return
        self._finished[place] = (now, task)
        for after in self._followers[place]:
            self._missing[after] -= 1
            if not self._missing[after]:
                latest = max(self._finished[before] for before in self._layers[after].after)
                self._offer(after, *latest)


def slowed(times: LayerTimes, plan: Plan) -> LayerTimes:
    """Return the times with those that messages take beside each other in the plan."""
    message = times.message.copy()
    for task in plan.shared:
        message[plan.tasks[task][0]] = (plan.end[task] - plan.start[task]) * 1e6
    return replace(times, message=message)


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
    factor = np.exp(times.sigma[place] * normal[:, times.part[place]])
    return 1e-6 * times.compute[place] * factor


def drawn_ends(
    layers: Sequence[LayerOfGraph], times: LayerTimes, plan: Plan, normal: FloatArray
) -> FloatArray:
    """Return the draws of the end, shape (draws,), with the tasks of each stream in the order of the plan.

    ``normal`` are standard normal draws for each of `PARTS`, shape (draws, parts).
    """
    first = streams_of(layers)
    free = [np.zeros(len(normal)) for _ in range(max(first, default=0) + 2)]
    shared = np.zeros(len(normal))  # the end of what shares links
    done: list[FloatArray] = [free[0]] * len(layers)
    for number, task in enumerate(plan.tasks):
        place, kind = task
        stream = first[place] + kind
        shares = number in plan.shared
        if shares:
            start = np.zeros(len(normal))
        else:
            start = free[stream]
        for before in layers[place].after:
            start = np.maximum(start, done[before])
        if kind == LINKS and times.source[place]:
            start = np.maximum(start, done[place])
        done[place] = start + _task_seconds(task, times, normal)
        if shares:
            shared = np.maximum(shared, done[place])
        else:
            free[stream] = done[place]
    return np.maximum.reduce([*free, shared])


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

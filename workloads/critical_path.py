"""The time of a graph of layers: each layer's by its best source, then what the end has to wait for.

A GPU computes one layer at a time and sends one message at a time; the two overlap. Of what is ready the first written
goes first. The order of the medians holds for all draws of the times, so the interval is that of the same plan.
"""

from __future__ import annotations

import heapq
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Final

import numpy as np
import pandas as pd

from ..arrays import FloatArray, IntArray
from ..errors import DataError
from ..evaluation.intervals import NINETY_PERCENT
from ..hardware import GPU
from ..hardware.constants import constant
from ..laws.fused_attention import Attention
from ..laws.product import PRODUCT, fitted
from ..laws.rates import run_as
from ..laws.streaming import ROW_WISE, STREAMING
from ..operators.operators import OPS, work_of
from ..projection.chakra_export import Task
from ..projection.worlds import collective_us
from ..remarks import Remark, remark
from .answer import Forecast, LayerTime, energy
from .kernel_times import LAUNCH_US, Times, by_runs
from .layer_graph import GraphSetting, LayerGraph, LayerOfGraph
from .releases import DRAWS, PRIORS, standard_normal

COMPUTE, LINKS = 0, 1
PARTS: Final = ("products", "attention", "elementwise", "collectives", "stated")
STATED, RUN, MEASURED, LAW = SOURCES = ("stated", "run", "measured", "law")


@dataclass
class _Times:
    """Of each layer, shape (n,): µs of computing and their spread, part of `PARTS` and source; the same of messages."""

    compute: FloatArray
    sigma: FloatArray
    part: IntArray
    source: list[str]
    message: FloatArray
    message_sigma: FloatArray


@dataclass
class _Plan:
    """Tasks in the order in which they run: layer and stream of each, start and end, and the task it waited for."""

    tasks: list[tuple[int, int]]
    start: list[float]
    end: list[float]
    cause: list[int]

    def critical(self) -> list[int]:
        """Return the chain of tasks that ends last, from the first to the last."""
        place = int(np.argmax(self.end))
        found = []
        while place >= 0:
            found.append(place)
            place = self.cause[place]
        return found[::-1]


def forecast_graph(setting: GraphSetting, *, level: float, seed: int, runs: Sequence[Times] = ()) -> Forecast:
    """Return the forecast of a graph; ``runs`` predict the layers that lie in their range, in place of the laws.

    Raises
    ------
    FlopcastError
        A layer lacks a dimension, or a figure of the GPU is not published.
    """
    layers = setting.model.layers
    times = _times(setting, runs)
    if not (times.compute.any() or times.message.any()):
        raise DataError(f"{setting.model.name}: no layer takes any time")
    plan = _planned(layers, times)
    normal = standard_normal(len(PARTS), DRAWS, seed)
    ends = _ends(layers, times, plan, normal)
    low, high = (1 - level) / 2, (1 + level) / 2
    middle, lower, upper = np.quantile(ends, [0.5, low, high]).tolist()
    path = plan.critical()
    made = {name: draws for name, draws in _parts(plan, path, times, normal) if draws.any()}
    parts = {name: tuple(np.quantile(draws, [0.5, low, high]).tolist()) for name, draws in made.items()}
    whole = sum(float(draws.mean()) for draws in made.values())
    spreads = {name: float(draws.std()) / whole for name, draws in made.items()}
    computed, sent = (float(one.sum()) * 1e-6 for one in (times.compute, times.message))
    overlapped = max(computed + sent - max(plan.end), 0.0) if sent else 0.0  # something is always under way
    details = {"compute_s": computed, "communication_s": sent, "overlapped_s": overlapped}
    return Forecast(
        setting=setting,
        predicted=middle,
        lower=lower,
        upper=upper,
        unit="s",
        parts=parts,
        spreads=dict(sorted(spreads.items(), key=lambda one: -one[1])),
        details=details | energy(setting.gpu, setting.gpus, parts, (middle, lower, upper), level),
        remarks=tuple(_remarks(setting, times)),
        layers=tuple(_told(layers, times, plan, set(path))),
    )


def _times(setting: GraphSetting, runs: Sequence[Times]) -> _Times:
    layers = setting.model.layers
    count, (moved, spread) = len(layers), moved_from(setting.measured_on, setting.gpu, setting.dtype)
    found = _Times(np.zeros(count), np.zeros(count), np.zeros(count, dtype=np.int64), [""] * count,
                   np.zeros(count), np.zeros(count))  # fmt: skip
    for place, one in enumerate(layers):
        if one.stated_us is not None:
            found.compute[place], found.source[place] = one.stated_us * one.count * moved, STATED
            found.sigma[place] = spread
            found.part[place] = PARTS.index("stated")
        if one.collective:
            ranks = one.ranks or setting.gpus
            each = float(collective_us(setting.gpu, one.collective, one.message_bytes, ranks, setting.network))
            found.message[place] = each * one.count
            spread_of = "layer.collectives" if setting.network.nodes(ranks) == 1 else "distance.nodes"
            found.message_sigma[place] = PRIORS[spread_of].value
    _add_shapes(found, setting, runs)
    return found


def moved_from(host: GPU | None, target: GPU, dtype: str) -> tuple[float, float]:
    """Return what times measured on another GPU are multiplied with, and the spread of that.

    What a layer does is not known: its time goes with the arithmetic, with the memory, or with something between. The
    factor is the geometric mean of both ratios, which lie at the ends of its 90 % interval; a spread of its own is
    added. Without a host, or on the same GPU, times are as stated.

    Examples
    --------
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
    return float(np.sqrt(arithmetic * memory)), float(np.hypot(ends, PRIORS["layer.stated_elsewhere"].value))


def _add_shapes(found: _Times, setting: GraphSetting, runs: Sequence[Times]) -> None:
    """Add the layers whose shape is stated: by the first run that knows them, else by the laws."""
    layers = setting.model.layers
    places = [place for place, one in enumerate(layers) if one.op]
    if not places:
        return
    stated = [{"dtype_a": setting.dtype, **layers[place].sizes, "op": layers[place].op} for place in places]
    frame = pd.DataFrame(stated).assign(source=[layers[place].name for place in places])
    us, sigma, part = _by_law(frame, setting.gpu)
    learnt = by_runs(runs, frame.assign(device=setting.gpu.name))
    us = np.where(np.isfinite(learnt.us), learnt.us, us + (LAUNCH_US if setting.eager else 0.0))
    sigma = np.where(np.isfinite(learnt.spread), learnt.spread, sigma)
    found.compute[places] = us * [layers[place].count for place in places]
    found.sigma[places], found.part[places] = sigma, part
    for place, source in zip(places, learnt.source, strict=True):
        found.source[place] = str(source) or LAW


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
            law = Attention(keys=row["seq_kv"], head_dim=int(row["head_dim"]), causal=causal, backward=backward)
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
        raise DataError(f"layer {unknown.iloc[0]!r}: what a {OPS[op].name} takes follows from no shape: state time_us")
    return us + constant("launch.tuned_product").value, sigma, part


def _planned(layers: Sequence[LayerOfGraph], times: _Times) -> _Plan:
    """Return the order of all tasks at the medians, of what is ready the first written first."""
    followers: list[list[int]] = [[] for _ in layers]
    missing = [len(one.after) for one in layers]
    for place, one in enumerate(layers):
        for before in one.after:
            followers[before].append(place)
    plan = _Plan([], [], [], [])
    free, last = [0.0, 0.0], [-1, -1]
    waiting: tuple[list[tuple[float, int, int]], ...] = ([], [])  # by when they are ready
    ready: tuple[list[tuple[int, float, int]], ...] = ([], [])  # by place
    finished = [(0.0, -1)] * len(layers)

    def offer(place: int, stream: int, when: float, cause: int) -> None:
        heapq.heappush(waiting[stream], (when, place, cause))

    def begin(place: int, when: float, cause: int) -> None:
        offer(place, COMPUTE if times.source[place] else LINKS, when, cause)

    for place, count in enumerate(missing):
        if not count:
            begin(place, 0.0, -1)
    while (stream := _next_stream(waiting, ready, free)) is not None:
        while waiting[stream] and waiting[stream][0][0] <= free[stream]:
            when, place, cause = heapq.heappop(waiting[stream])
            heapq.heappush(ready[stream], (place, when, cause))
        if ready[stream]:
            place, when, cause = heapq.heappop(ready[stream])
        else:
            when, place, cause = heapq.heappop(waiting[stream])
        start = max(when, free[stream])
        end = start + float((times.compute if stream == COMPUTE else times.message)[place]) * 1e-6
        plan.tasks.append((place, stream))
        plan.start.append(start)
        plan.end.append(end)
        plan.cause.append(cause if when >= free[stream] else last[stream])
        free[stream], last[stream] = end, len(plan.tasks) - 1
        if stream == COMPUTE and layers[place].collective:
            offer(place, LINKS, end, last[stream])
            continue
        finished[place] = (end, last[stream])
        for after in followers[place]:
            missing[after] -= 1
            if not missing[after]:
                begin(after, *max(finished[before] for before in layers[after].after))
    return plan


def _next_stream(waiting: Sequence[list], ready: Sequence[list], free: Sequence[float]) -> int | None:
    """Return the stream whose next task starts first, None where nothing is left."""
    starts = []
    for stream in (COMPUTE, LINKS):
        if ready[stream]:
            starts.append((free[stream], stream))
        elif waiting[stream]:
            starts.append((max(free[stream], waiting[stream][0][0]), stream))
    return min(starts)[1] if starts else None


def _task_seconds(task: tuple[int, int], times: _Times, normal: FloatArray) -> FloatArray:
    """Return the draws of one task, shape (draws,)."""
    place, stream = task
    if stream == LINKS:
        return 1e-6 * times.message[place] * np.exp(times.message_sigma[place] * normal[:, PARTS.index("collectives")])
    return 1e-6 * times.compute[place] * np.exp(times.sigma[place] * normal[:, times.part[place]])


def _ends(layers: Sequence[LayerOfGraph], times: _Times, plan: _Plan, normal: FloatArray) -> FloatArray:
    """Return when the whole ends, shape (draws,), the tasks of each stream in the order of the plan."""
    free = [np.zeros(len(normal)), np.zeros(len(normal))]
    done: list[FloatArray] = [free[0]] * len(layers)
    for task in plan.tasks:
        place, stream = task
        start = free[stream]
        for before in layers[place].after:
            start = np.maximum(start, done[before])
        if stream == LINKS and times.source[place]:
            start = np.maximum(start, done[place])
        free[stream] = done[place] = start + _task_seconds(task, times, normal)
    return np.maximum(*free)


def _parts(plan: _Plan, path: Sequence[int], times: _Times, normal: FloatArray) -> Iterator[tuple[str, FloatArray]]:
    """Yield the draws of the seconds of each part on the critical path of the medians."""
    found = {name: np.zeros(len(normal)) for name in PARTS}
    for place in path:
        layer, stream = plan.tasks[place]
        name = "collectives" if stream == LINKS else PARTS[times.part[layer]]
        found[name] += _task_seconds(plan.tasks[place], times, normal)
    yield from found.items()


def _told(layers: Sequence[LayerOfGraph], times: _Times, plan: _Plan, path: set[int]) -> Iterator[LayerTime]:
    when: dict[int, list[float]] = {}
    for (place, _), start, end in zip(plan.tasks, plan.start, plan.end, strict=True):
        when[place] = [when[place][0] if place in when else start, end]
    critical = {plan.tasks[place][0] for place in path}
    for place, (start, end) in when.items():
        yield LayerTime(
            name=layers[place].name,
            phase=layers[place].phase,
            source=times.source[place],
            compute_s=float(times.compute[place]) * 1e-6,
            message_s=float(times.message[place]) * 1e-6,
            start_s=start,
            end_s=end,
            critical=place in critical,
        )


def chakra_tasks(found: Forecast, graph: LayerGraph, gpus: int) -> list[Task]:
    """Return the tasks of the forecast of a graph, as every one of the GPUs has them."""
    layers = {one.name: one for one in graph.layers}
    tasks: list[Task] = []
    last: dict[str, int] = {}  # the task with which a layer ends
    for one in found.layers:
        layer = layers[one.name]
        after = tuple(sorted(last[graph.layers[place].name] for place in layer.after))
        if one.source:
            end_us = 1e6 * (one.start_s + one.compute_s)
            tasks.append(Task(name=one.name, start_us=1e6 * one.start_s, end_us=end_us, after=after))
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


NETWORK_STATED: Final = remark(
    "network-stated",
    "messages between nodes are computed in two levels, from the bandwidth and latency between nodes; no machine at "
    "hand was measured so: the interval is wider",
)


def _remarks(setting: GraphSetting, times: _Times) -> Iterator[Remark]:
    yield from setting.model.remarks
    counts = {name: times.source.count(name) for name in SOURCES}
    hows = ("stated", "predicted by the runs given", "measured", "computed by laws of achieved rates")
    told = ", ".join(f"{count:,} {how}" for count, how in zip(counts.values(), hows, strict=True) if count)
    yield remark("layers-by-source", f"times of layers: {told or 'messages alone'}", **counts)
    if setting.measured_on is not None and STATED in times.source:
        factor, _ = moved_from(setting.measured_on, setting.gpu, setting.dtype)
        yield remark(
            "times-moved",
            f"times stated for {setting.measured_on.name} are multiplied by {factor:.3g} for "
            f"{setting.gpu.name}: what the layers compute is unknown, so the interval reaches from the "
            "ratio of the peaks to that of the memory bandwidths",
            host=setting.measured_on.name,
            target=setting.gpu.name,
            factor=factor,
        )
    if setting.model.chained and len(setting.model.layers) > 1:
        yield remark(
            "layers-in-a-row",
            "no layer states its predecessors: each waits for the one before it, and nothing overlaps",
        )
    if any(one.collective and setting.network.nodes(one.ranks or setting.gpus) > 1 for one in setting.model.layers):
        yield NETWORK_STATED

"""Ways to serve a model: which GPUs, how many, cut and in which formats, with how many requests under way.

Every way within a node is an instance; instances side by side are replicas, which share the
requests evenly. A source of times (`serving_model.served`) says the time to the first token and per
further one of each instance with so many requests under way (`CONCURRENCY`). Of ``c`` requests
under way, each ``ttft + (output - 1) tpot`` long, ``c`` over that end a second (Little, Operations
Research 9(3), 1961): a rate that is asked for gives the requests under way, unless it is more than
an instance ends with the most of them. The times are drawn from their distribution, one draw for
all numbers of requests of an instance; the share of the draws that keep every limit is how surely a
way holds.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from itertools import groupby, product
from typing import Any, Final

import numpy as np
import pandas as pd

from ..arrays import FloatArray
from ..errors import DataError, FlopcastError, ParameterError, counted
from ..hardware import GPU
from ..hardware.networks import NODE_GPUS
from ..operators.kinds.serving_run import SERVING
from ..remarks import Remark, remark
from . import model_catalogue
from .architecture import PARTS, Architecture
from .inference import InferenceMemory, inference_memory
from .measured_ratios import NONE
from .quantities import Electricity, Prices
from .releases import NORMAL, middle_and_sides, standard_normal
from .serving import figures
from .serving_conditions import Times
from .serving_energy import MILLION_KWH, Work, power_spread, power_w, work
from .serving_law import Law
from .serving_limits import first_token_left
from .serving_model import EITHER, LOADS, NEW_RELEASE, TIMES, TUNINGS, Served
from .serving_percentiles import LEARNT, column, rests_on
from .setting import WIDE, Setting, complete, most_weights

CONCURRENCY: Final = tuple(sorted({int(load) for load in LOADS}))
"""Requests under way at an instance, 1 to 1,024."""
ENGINES: Final = {
    "vllm": ("AMD", "NVIDIA"),
    "sglang": ("AMD", "NVIDIA"),
    "trtllm": ("NVIDIA",),
    "atom": ("AMD",),
}
"""Engines, and the makers of the GPUs that each runs on."""
STEP_TOKENS: Final = 8192  # of the largest step of an engine, as is their default
DRAWS: Final = 256
# times per token that are told of where no limit is asked for
PACES_MS: Final = (
    100.0,
    50.0,
    25.0,
    10.0,
)
SURE: Final = 0.9  # probability from which on a way is said to hold, unless another is asked for
LIKELY: Final = 0.5  # probability from which on a way that is less sure is worth telling of


@dataclass(frozen=True, kw_only=True)
class Question:
    """The question of how to serve a model."""

    model: Architecture
    gpus: tuple[GPU, ...]  # to choose from
    counts: tuple[int, ...]  # how many of them
    # to choose from; empty: vllm, the published formats, and every way of cutting
    engines: tuple[str, ...] = ("vllm",)
    dtypes: tuple[str, ...] = ()
    tp: tuple[int, ...] = ()
    ep: tuple[int, ...] = ()
    kv_dtype: str = ""  # of the cache; empty: what goes with the weights
    lengths: str = ""  # one of `serving_run.LENGTHS`; empty: as the nearest runs have them
    tuning: str = EITHER  # of the engine: one of `serving_model.TUNINGS`, or whichever it is
    speculation: str = NONE  # how tokens are drafted (`speculation.SPECULATIONS`)
    prefill_gpus: int = 0  # of each replica, GPUs that only read prompts; 0: all do both
    # tokens of a prompt and of an answer, on average
    input_len: int = 1024
    output_len: int = 1024
    # limits of the time to the first token and per further one
    ttft_ms: float | None = None
    tpot_ms: float | None = None
    # by these, the percentile that the limit is of (`serving_percentiles`), where it is of one
    percentiles: Mapping[str, str] = field(default_factory=dict)
    rate: float | None = None  # requests a second, of all GPUs
    concurrency: tuple[int, ...] = CONCURRENCY  # requests under way at an instance that are tried
    price: Prices = field(default_factory=Prices)  # of a GPU for an hour
    electricity: Electricity = field(default_factory=Electricity)
    # GPUs of a node, in which an instance lies; None: those of the GPU, 8 at most
    node_gpus: int | None = None
    memory_utilisation: float = Setting.memory_utilisation  # part of the memory that may be used
    sure: float = SURE  # probability with which a way must keep the limits, to be said to hold

    @property
    def conditioned(self) -> bool:
        """Whether tokens are drafted, or prompts read by separate GPUs."""
        return self.speculation != NONE or self.prefill_gpus > 0

    @property
    def limited(self) -> bool:
        """Whether the question has any limit."""
        return any(one is not None for one in (self.ttft_ms, self.tpot_ms, self.rate))

    @property
    def limits(self) -> dict[str, float]:
        """Limits of times by the columns of `Choice.ways` that they are of."""
        by_column = {}
        for time, limit in (("ttft_ms", self.ttft_ms), ("tpot_ms", self.tpot_ms)):
            if limit is not None:
                by_column[column(time, self.percentiles.get(time, ""))] = limit
        return by_column


@dataclass(frozen=True)
class Choice:
    """Ways to serve a model, and the recommended one.

    Attributes
    ----------
    question : Question
    ways : DataFrame
        One row per way and requests under way: ``gpu``, ``gpus``, ``engine``, ``dtype``,
        ``kv_dtype``, ``replicas``, ``tp``, ``dp``, ``ep``, ``concurrency`` (of all replicas),
        ``ttft_ms``, ``tpot_ms``, ``tokens_per_s_per_gpu``, ``tokens_per_s_per_user`` and
        ``cost_per_million`` (output tokens; NaN without a price), ``power_w`` (mean of one GPU),
        ``joules_per_token`` (of all GPUs, for an output token; both NaN where the board power of the
        GPU is not published) and ``electricity_per_million`` (of these joules; NaN without its
        price), each with ``_lower`` and ``_upper``, ``memory_gb`` (of one GPU), ``queued`` (whether
        the cache has no room for all requests, so that some wait), ``holds`` (share of the draws
        that keep the limits; 1 without). Of a limit on a percentile ``ttft_p99_ms`` or the like too.
    fronts : DataFrame
        The same of single instances where nothing waits, those that no other way of their GPU beats
        in both speeds.
    best : DataFrame
        Of ``ways``, the cheapest that holds (with the probability asked for) of each GPU, engine
        and number of GPUs, else the surest; the cheapest first. Without limits the cheapest of each
        GPU and engine that keeps each pace (``pace_ms``, `PACES_MS`) with that probability, which
        ``holds`` is there; ``pace_ms`` is infinite where none is so quick.
    remarks : tuple of Remark
        What the times rest on, and what was left out.
    bases : mapping of str to str
        By GPU what the first of its ways in ``best`` rests on: ``"known setting"``, ``"new model and new GPU"``
        (`serving_model.BASES`; that no release is named is left out).
    as_tuned : float
        How surely the first of ``best`` keeps the limits if its engine is tuned, where that was not
        said and it is not sure enough; else NaN.
    """

    question: Question
    ways: pd.DataFrame
    fronts: pd.DataFrame
    best: pd.DataFrame
    remarks: tuple[Remark, ...]
    bases: Mapping[str, str] = field(default_factory=dict)
    as_tuned: float = math.nan

    def __repr__(self) -> str:
        return f"<Choice of {self.question.model.name}: {len(self.best)} of {len(self.ways)} ways>"


@dataclass(frozen=True)
class _Instance:
    """One way to serve the model within a node, with its memory."""

    setting: Setting  # of the GPUs that write answers
    engine: str
    memory: InferenceMemory
    prefill_gpus: int = 0

    @property
    def gpus(self) -> int:
        """Those that write answers, and those that only read prompts."""
        return self.setting.gpus + self.prefill_gpus

    @property
    def row(self) -> dict[str, Any]:
        """Dimensions of the operator ``serving``, but the requests under way."""
        one = self.setting
        computed = dict(map(one.precision, PARTS))
        numbers = {
            name: float(getattr(one, name))
            for name in ("tp", "pp", "dp", "ep", "input_len", "output_len")
        }
        named = {
            "op": SERVING,
            "device": one.gpu.name,
            "model": one.model.name,
            "engine": self.engine,
        }
        named |= {"engine_version": "", "apart": "", "lengths": "", "dtype_kv": one.kv_dtype}
        named |= {"dtype_a": computed.get(one.dtype, one.dtype), "dtype_b": one.dtype}
        return {**named, **numbers, **figures(one.model)}

    @property
    def room(self) -> float:
        """Requests whose whole sequences have room in the cache at once."""
        return (
            self.setting.dp
            * self.memory.tokens
            / (self.setting.input_len + self.setting.output_len)
        )

    def memory_gb(self, users: FloatArray) -> FloatArray:
        """Return the GiB of one GPU with so many requests under way, as many of them running as have room."""
        tokens = users / self.setting.dp * (self.setting.input_len + self.setting.output_len)
        held = self.memory.held(0.0)
        return (
            sum(held.values())
            + np.minimum(tokens, self.memory.tokens) * self.memory.cache_per_token
        )


def choose(question: Question, times: Times, *, level: float = 0.9, seed: int = 0) -> Choice:
    """Return the ways to serve a model on the requested GPUs, and the cheapest that holds.

    Raises FlopcastError: the model fits none of the GPUs, or is no model that generates tokens.
    """
    if not question.model.causal:
        raise DataError(
            f"{question.model.name} is an encoder and generates no tokens: give a batch to forecast"
        )
    question.model.check_length(question.input_len + question.output_len)
    users = np.array(question.concurrency, dtype=np.float64)

    def times_of(rows: pd.DataFrame, gpu: GPU) -> Served:
        return times(rows.assign(tuning=question.tuning, lengths=question.lengths), gpu)

    instances = list[_Instance]()
    served = list[Served]()
    notes = list[Remark]()
    for gpu in question.gpus:
        of_gpu = list(_instances(question, gpu, notes))
        if of_gpu:
            answers = times_of(_rows(of_gpu, users), gpu)
            measured = _measured_cuts(question, of_gpu, answers)
            if len(measured) < len(of_gpu):
                text = (
                    "ways with the experts shared out otherwise than in own runs are left out: "
                    "ep=N asks for them"
                )
                notes.append(remark("own-ep", text, gpu=gpu.name))
                of_gpu = measured
                answers = times_of(_rows(measured, users), gpu)
            served.append(answers)
            instances += of_gpu
    if not instances:
        raise DataError(f"{question.model.name} cannot be served so: {'; '.join(map(str, notes))}")
    first = list(question.model.remarks)
    after = list[Remark]()
    if question.output_len == 1:
        text = "answers of one token have no further ones: there is no time per token"
        first.append(remark("no-further-token", text))
    if (
        not question.dtypes
        and not question.model.formats
        and any(one.setting.dtype != WIDE for one in instances)
    ):
        text = (
            f"{question.model.name} is published in {WIDE}: in fp8 its answers may differ "
            f"(dtype={WIDE} leaves fp8 out)"
        )
        after.append(remark("quantised", text, model=question.model.name))
    for percentile in sorted({*question.percentiles.values()}):
        after.append(rests_on(percentile, conditioned=question.conditioned))
    drawn = _Drawn(question, instances, users, served, level, seed)
    single = drawn.closed([(place, 1) for place in range(len(instances))])
    single = single[~single["queued"]].reset_index(drop=True)
    fronts = single.iloc[_front(single)].reset_index(drop=True)
    dividing: dict[tuple[str, int], set[int]] = {}  # sizes of instances by GPU and number of GPUs
    for one, count in product(instances, question.counts):
        if count % one.gpus == 0:
            dividing.setdefault((one.setting.gpu.name, count), set()).add(one.gpus)
    # without a rate to share, replicas are as good as one of them: an instance is listed once,
    # on the fewest GPUs, and each number of them has the largest that divides it
    ways = []
    for place, one in enumerate(instances):
        counts = [count for count in question.counts if count % one.gpus == 0]
        for count in counts:
            largest = max(dividing[one.setting.gpu.name, count])
            if question.rate is not None or count == min(counts) or one.gpus == largest:
                ways.append((place, count // one.gpus))
    if question.rate is not None:
        every = drawn.at_rate(ways)
    else:
        every = drawn.closed(ways)
    if question.limited:
        best = _best(question, every)
    else:
        fitting = every[~every["queued"]]
        if fitting.empty:
            users = min(question.concurrency)
            requests = counted(users, "request")
            text = (
                f"no way has room in its cache for {requests} under way: some wait until others "
                "have ended"
            )
            first.insert(0, remark("all-wait", text, concurrency=users))
            fitting = every
        paced = []
        for pace in PACES_MS:
            chances = drawn.chances_of_pace(ways, pace)[fitting.index]
            at_pace = fitting.assign(pace_ms=pace, holds=chances)
            paced.append(at_pace[at_pace["holds"] >= question.sure])
        if paced[0].empty:  # nobody asked for a pace
            paced = [fitting.assign(pace_ms=np.inf)]
        of_engines = []
        for at_pace in paced:
            of_engines.append(_best(question, at_pace).drop_duplicates(["gpu", "engine"]))
        best = pd.concat(of_engines, ignore_index=True)
        users_paced = set(paced[0]["concurrency"] / paced[0]["replicas"])
        if slow := [
            n
            for n in question.concurrency
            if n not in users_paced and question.concurrency != CONCURRENCY
        ]:
            text = (
                f"with {', '.join(f'{n:,}' for n in slow)} under way requests have no room "
                f"anywhere, or no token within {PACES_MS[0]:g} ms with {100 * question.sure:g} %: "
                "limits (ttft, tpot) tell of them too"
            )
            first.insert(0, remark("beyond-paces", text, concurrency=tuple(slow)))
    shown = list(_answers(question, instances, best))
    times_of_shown = [times_of(row, gpu) for row, gpu in shown]
    answers = _whose(times_of_shown, [gpu.name for _, gpu in shown])
    bases = {}
    for (_, gpu), one in zip(shown, times_of_shown, strict=True):
        for basis in one.basis[:1]:
            news = [new for new in basis.split(" and ") if new != NEW_RELEASE]
            bases[gpu.name] = " and ".join(news)
    remarks = tuple(dict.fromkeys([*first, *notes, *answers, *after]))
    as_tuned = math.nan
    if question.limited and question.tuning == EITHER and best["holds"].iloc[0] < question.sure:
        as_tuned = _as_tuned(question, instances, best.iloc[0], times, level, seed)
    return Choice(question, every, fronts, best, remarks, bases, as_tuned)


def _as_tuned(
    question: Question,
    instances: Sequence[_Instance],
    way: pd.Series,
    times: Times,
    level: float,
    seed: int,
) -> float:
    """Return how surely a way keeps the limits if its engine is tuned."""
    instance = _instances_by_cut(instances)[_cut(way)]
    users = np.array(question.concurrency, dtype=np.float64)
    rows = _rows([instance], users).assign(tuning=TUNINGS[0], lengths=question.lengths)
    drawn = _Drawn(question, [instance], users, [times(rows, instance.setting.gpu)], level, seed)
    ways = [(0, int(way["replicas"]))]
    if question.rate is not None:
        return float(drawn.at_rate(ways)["holds"].iloc[0])
    tuned = drawn.closed(ways)
    same = tuned["concurrency"] == way["concurrency"]
    return float(tuned.loc[same, "holds"].iloc[0])


def _cut(way: Mapping[str, Any] | pd.Series) -> tuple[Any, ...]:
    """Return what tells instances apart."""
    return tuple(way[name] for name in ("gpu", "engine", "dtype", "kv_dtype", "tp", "dp", "ep"))


def _instances_by_cut(instances: Sequence[_Instance]) -> dict[tuple[Any, ...], _Instance]:
    by_cut = {}
    for instance in instances:
        setting = instance.setting
        named = {"gpu": setting.gpu.name, "engine": instance.engine}
        for name in ("dtype", "kv_dtype", "tp", "dp", "ep"):
            named[name] = getattr(setting, name)
        by_cut[_cut(named)] = instance
    return by_cut


def _rows(instances: Sequence[_Instance], users: FloatArray) -> pd.DataFrame:
    """Return the rows whose times are needed: every instance with every number of requests under way."""
    cases = []
    for row in (one.row for one in instances):
        for n in users:
            cases.append({**row, "concurrency": n})
    return pd.DataFrame(cases)


def _measured_cuts(
    question: Question, instances: Sequence[_Instance], served: Served
) -> list[_Instance]:
    """Return the instances without those that differ from measured runs only in an `ep` that nobody asked for.

    A client does not ask which experts lie where: the user's runs with tp 8 are what tp 8 means to their
    user.
    """
    if question.ep or not any(served.from_runs):
        return list(instances)
    users = len(served.from_runs) // len(instances)
    is_measured = [
        any(served.from_runs[place * users : (place + 1) * users])
        for place in range(len(instances))
    ]

    def but_ep(one: _Instance) -> tuple[Any, ...]:
        return (
            one.engine,
            *(getattr(one.setting, name) for name in ("dtype", "kv_dtype", "tp", "dp")),
        )

    measured = {but_ep(one) for one, mine in zip(instances, is_measured, strict=True) if mine}
    return [
        one
        for one, mine in zip(instances, is_measured, strict=True)
        if mine or but_ep(one) not in measured
    ]


def _answers(
    question: Question, instances: Sequence[_Instance], best: pd.DataFrame
) -> Iterator[tuple[pd.DataFrame, GPU]]:
    """Yield the first way of each GPU as a row for the times, with its GPU."""
    by_cut = _instances_by_cut(instances)
    if not question.limited:  # the answer is about that pace where there is one
        best = best.sort_values("pace_ms", key=lambda pace: pace != PACES_MS[1], kind="stable")
    for _, first in best.drop_duplicates("gpu").iterrows():
        one = by_cut[_cut(first)]
        # of a slow rate fewer than one request is under way on average: it runs alone
        users = max(first["concurrency"] / first["replicas"], 1.0)
        users = min(users, max(question.concurrency))
        yield pd.DataFrame([{**one.row, "concurrency": users}]), one.setting.gpu


def cheapest(choice: Choice, share: float) -> pd.Series | None:
    """Return the cheapest of all ways that hold with at least this probability; None without one."""
    likely = choice.ways[choice.ways["holds"] >= share]
    ranked = _ranked(replace(choice.question, sure=share), likely)
    if ranked.empty:
        return None
    return ranked.iloc[0]


def _whose(served: Sequence[Served], names: Sequence[str]) -> Iterator[Remark]:
    """Yield the remarks on times, each once, naming its GPUs unless it concerns all."""
    names_of: dict[Remark, list[str]] = {}
    for name, one in zip(names, served, strict=True):
        for note in one.remarks:
            names_of.setdefault(note, []).append(name)
    for note, named in names_of.items():
        yield (
            note
            if len(named) == len(names)
            else replace(note, text=f"{' and '.join(named)}: {note.text}")
        )


def _instances(question: Question, gpu: GPU, notes: list[Remark]) -> Iterator[_Instance]:
    """Yield the ways to serve on up to a node of a GPU; if there is none, note why."""
    engines = [one for one in question.engines if gpu.vendor in ENGINES[one]]
    left = [one for one in question.engines if one not in engines]
    if left:
        text = f"{' and '.join(left)} runs on no GPU of {gpu.vendor}: left out for {gpu.name}"
        notes.append(remark("engine-not-there", text, engines=tuple(left), gpu=gpu.name))
    node = question.node_gpus or min(gpu.node_gpus or NODE_GPUS, NODE_GPUS)
    beside = question.prefill_gpus
    divisors = set()
    for count in question.counts:
        for n in range(1, min(count - beside, node) + 1):
            if not count % (n + beside):
                divisors.add(n)
    sizes = sorted(divisors)
    why: FlopcastError | None = None
    # by whether answers lack memory, or prompts alone, and by the GiB that a cut lacks
    refused = list[tuple[bool, float, FlopcastError]]()
    yielded = False
    for model, dtype in _formats(question, gpu):
        for size in sizes:
            for tp, dp, ep in _cuts(question, model, size):
                asked = {
                    "model": model,
                    "gpu": gpu,
                    "gpus": size,
                    "tp": tp,
                    "dp": dp,
                    "ep": ep,
                    "dtype": dtype,
                    "kv_dtype": question.kv_dtype,
                    "batch": dp,
                    "max_batched_tokens": STEP_TOKENS,
                    "input_len": question.input_len,
                    "output_len": question.output_len,
                    "node_gpus": question.node_gpus,
                    "memory_utilisation": question.memory_utilisation,
                }
                try:
                    if size > 1:
                        gpu.require("link_bw_gbs")  # messages between GPUs pass over these links
                    setting = complete(asked)
                    memory = inference_memory(setting)
                except FlopcastError as error:
                    why = error
                    continue
                if memory.tokens < question.input_len + question.output_len:
                    lacks = (
                        memory.needed(question.input_len + question.output_len) - memory.available
                    )
                    text = f"{math.ceil(lacks):,} GiB are missing on {_cut_in_words(setting)}"
                    refused.append((True, lacks, DataError(text)))
                    continue
                if beside and (lacks := _lacking_of_prompts(asked, beside, node)):
                    text = f"{math.ceil(lacks):,} GiB are missing on {_each(beside)} for prompts"
                    refusal = ParameterError("prefill_gpus", f"must hold the weights: {text}")
                    refused.append((False, lacks, refusal))
                    continue
                yielded = True
                for engine in engines:
                    yield _Instance(setting, engine, memory, beside)
    if yielded or not engines:
        return
    reasons = []
    if refused:
        *_, nearest_cut = min(refused, key=lambda cut: cut[:2])
        reasons.append(str(nearest_cut))
    if why is not None:
        reasons.append(str(why))
    reason = "; ".join(reasons) or "none of the ways to cut it that were asked for"
    text = f"{gpu.name} has no way to serve it: {reason}"
    notes.append(remark("no-way", text, gpu=gpu.name))


def _cut_in_words(setting: Setting) -> str:
    """Say on which GPUs something is and how the model is cut: ``each of 8 GPUs (fp8, tp 8)``."""
    cut = [f"{name} {getattr(setting, name)}" for name in ("tp", "dp", "ep")]
    cut = [one for one in cut if not one.endswith(" 1")]
    return f"{_each(setting.gpus)} ({', '.join([setting.dtype, *cut])})"


def _each(gpus: int) -> str:
    """Say on which of so many GPUs something is: on all of them, or on the only one."""
    if gpus == 1:
        return "1 GPU"
    return f"each of {gpus} GPUs"


def _lacking_of_prompts(asked: Mapping[str, Any], gpus: int, node: int) -> float:
    """Return the GiB that each of the GPUs that only read prompts lacks to hold the model, 0 where it has room."""
    size = max(n for n in range(1, min(gpus, node) + 1) if gpus % n == 0)
    whole = {"gpus": size, "tp": size, "dp": 1, "ep": 1, "batch": 1}
    memory = inference_memory(complete({**asked, **whole}))
    return max(memory.needed(asked["input_len"]) - memory.available, 0.0)


def _formats(question: Question, gpu: GPU) -> Iterator[tuple[Architecture, str | None]]:
    """Yield the model in the formats to try: those asked for, else as published and narrower ones with units for them.

    A model of 16 bits is tried in FP8 too, as engines make it on loading; one of FP4 is what was
    published as such.
    """
    model = question.model
    narrower = [model_catalogue.find(name) for name in model_catalogue.quantised(model.name)]
    if question.dtypes:
        for dtype in question.dtypes:
            yield next((one for one in narrower if most_weights(one) == dtype), model), dtype
        return
    yield model, None
    if not model.formats and "fp8_matrix" in gpu.peaks:
        yield model, "fp8"
    yield from ((one, None) for one in narrower if f"{most_weights(one)}_matrix" in gpu.peaks)


def _cuts(question: Question, model: Architecture, size: int) -> Iterator[tuple[int, int, int]]:
    """Yield tp, dp and ep of this many GPUs: all share each layer; of mixtures the experts too, or only these."""
    if model.experts and size > 1:
        ways = [(size, 1, 1), (size, 1, size), (1, size, size)]
    else:
        ways = [(size, 1, 1)]
    for tp, dp, ep in ways:
        if (not question.tp or tp in question.tp) and (not question.ep or ep in question.ep):
            yield tp, dp, ep


class _Drawn:
    """Times of instances by requests under way, shape (instances, users), and figures derived from them."""

    def __init__(
        self,
        question: Question,
        instances: Sequence[_Instance],
        users: FloatArray,
        served: Sequence[Served],
        level: float,
        seed: int,
    ) -> None:
        self.question = question
        self.instances = instances
        self.users = users
        shape = (len(instances), len(users))
        self.times = {}
        for time in TIMES:
            self.times[time] = Law.joined([one.law(time) for one in served], shape)
        for time, percentile in question.percentiles.items():
            self.times[column(time, percentile)] = self._percentile(time, percentile)
        self.request_least = np.concatenate(
            [np.broadcast_to(one.request_least, np.shape(one.ttft_ms)) for one in served]
        ).reshape(shape)
        # the first of the draws are the medians
        self.normal = np.vstack([np.zeros((1, 2)), standard_normal(2, DRAWS, seed)])
        # the spread of power is drawn apart: it does not move the draws of times
        self.normal_power = np.vstack([np.zeros((1, 1)), standard_normal(1, DRAWS, seed + 1)])
        self.sides = middle_and_sides(level)
        self.work = self._work()

    def _percentile(self, time: str, percentile: str) -> Law:
        """Return the law of a percentile, shape (instances, users)."""
        law = self.times[time]
        ratios = []
        beside = []
        for gpu, instances in groupby(self.instances, key=lambda one: one.setting.gpu):
            logs, wide = LEARNT[time, percentile].of(_rows(list(instances), self.users), gpu)
            ratios.append(logs)
            beside.append(wide)
        ratio = np.concatenate(ratios).reshape(law.middle.shape)
        width = np.concatenate(beside).reshape(law.middle.shape)
        if self.question.conditioned:
            width = np.sqrt(2.0) * width  # no run under the condition says how the ratio changes
        return law.times(ratio, width)

    def _work(self) -> list[Work]:
        """Return the work of a step of each instance, by the requests under way."""
        works = list[Work]()
        for gpu, of_gpu in groupby(self.instances, key=lambda one: one.setting.gpu):
            instances = list(of_gpu)
            every = work(_rows(instances, self.users), gpu)
            for start in range(0, len(instances) * len(self.users), len(self.users)):
                works.append(every.part(slice(start, start + len(self.users))))
        return works

    def _power(self, place: int, step: Work, tokens: FloatArray) -> FloatArray:
        """Return drawn powers (W) of a GPU of an instance by its tokens a second, shape (draws, ...)."""
        gpu = self.instances[place].setting.gpu
        spread = np.exp(power_spread(gpu) * self.normal_power[:, 0])
        power = power_w(step, tokens, gpu)
        if self.question.conditioned:  # what its steps ask of memory and products is unknown
            power = np.full_like(power, np.nan)
        drawn = power * spread.reshape(-1, *[1] * (power.ndim - 1))
        return np.minimum(drawn, gpu.tdp_w or np.inf)

    def closed(self, ways: Sequence[tuple[int, int]]) -> pd.DataFrame:
        """Return ways, each an instance and its replicas, at every number of requests under way per replica."""
        places = np.array([place for place, _ in ways])
        z = np.array([NORMAL.inv_cdf(side) for side in self.sides])
        times = {}
        for name, law in self.times.items():
            times[name] = law.quantiles(z)[places].reshape(-1, 3)
        rate, power, joules = np.empty((3, len(self.instances), len(self.users), 3))
        asked = self.question
        for place, one in enumerate(self.instances):
            rates = self._rates(place)
            rate[place] = self._middle_and_ends(rates)
            tokens = rates * asked.output_len
            drawn = self._power(place, self.work[place], tokens)
            power[place] = self._middle_and_ends(drawn)
            spent = drawn * one.gpus / tokens
            joules[place] = self._middle_and_ends(spent)
        holds = np.ones(len(places) * len(self.users))
        for name, limit in asked.limits.items():
            holds *= self.times[name].chance(limit)[places].ravel()
        tokens = rate[places].reshape(-1, 3) * asked.output_len  # a second, of one replica
        repeated = []
        for way in ways:
            for _ in self.users:
                repeated.append(way)
        energy = (power[places].reshape(-1, 3), joules[places].reshape(-1, 3))
        users = np.tile(self.users, len(ways))
        return self._table(repeated, users, times, tokens, energy, holds)

    def chances_of_pace(self, ways: Sequence[tuple[int, int]], pace_ms: float) -> FloatArray:
        """Return of each row of `closed` the probability of a token within so many ms; answers of one have none."""
        if self.question.output_len == 1:
            return np.zeros(len(ways) * len(self.users))
        places = [place for place, _ in ways]
        return self.times["tpot_ms"].chance(pace_ms)[places].ravel()

    def at_rate(self, ways: Sequence[tuple[int, int]]) -> pd.DataFrame:
        """Return ways at the requested rate, each with the resulting requests under way."""
        asked = self.question
        assert asked.rate is not None
        middles = np.empty((len(ways), 3, 3))  # of requests under way, first token, further tokens
        # requests that a replica ends in a second
        holds = np.empty(len(ways))
        ended = np.empty((len(ways), 3))
        power, joules = np.empty((2, len(ways), 3))
        for row, (place, replicas) in enumerate(ways):
            asked_rate = asked.rate / replicas
            rates = np.maximum.accumulate(self._rates(place), axis=1)
            carried = rates[:, -1] >= asked_rate
            right = np.clip((rates < asked_rate).sum(axis=1), 1, len(self.users) - 1)
            each = np.arange(len(rates))
            low = np.log(rates[each, right - 1])
            high = np.log(rates[each, right])
            part = np.clip((np.log(asked_rate) - low) / np.maximum(high - low, 1e-12), 0.0, 1.0)
            logs = [np.log(self.users), *self._logs(place)]
            at = [
                (1 - part) * values[..., right - 1] + part * values[..., right]
                if values.ndim == 1
                else (1 - part) * values[each, right - 1] + part * values[each, right]
                for values in logs
            ]
            at_rate = np.exp(at)
            whole = (at_rate[1] + (asked.output_len - 1) * at_rate[2]) / 1e3
            # fewer than one on average where one alone is quick enough
            at_rate[0] = np.minimum(asked_rate * whole, at_rate[0])
            at_rate[:, ~carried] = np.inf
            held = carried.copy()
            for limit, values in ((asked.ttft_ms, at_rate[1]), (asked.tpot_ms, at_rate[2])):
                held &= values <= limit if limit is not None else True
            holds[row] = held[1:].mean()
            for figure, drawn in enumerate(at_rate):
                middles[row, figure] = self._middle_and_ends(drawn, "lower")
            served = np.minimum(asked_rate, rates[:, -1])
            ended[row] = self._middle_and_ends(served, "higher")
            under_way = np.where(carried, at_rate[0], self.users[-1])
            step = self.work[place].at(self.users, under_way)
            drawn = self._power(place, step, served * asked.output_len)
            spent = drawn * self.instances[place].gpus / (served * asked.output_len)
            power[row] = self._middle_and_ends(drawn)
            joules[row] = self._middle_and_ends(spent)
        times = {"ttft_ms": middles[:, 1], "tpot_ms": middles[:, 2]}
        tokens = ended * asked.output_len
        return self._table(ways, middles[:, 0, 0], times, tokens, (power, joules), holds)

    def _middle_and_ends(self, drawn: FloatArray, method: Any = "linear") -> FloatArray:
        """Return the value at the medians of both times, and the interval of the draws, shape (..., 3).

        So time to the first token, time per token and what follows from both agree: the median of
        a sum is more than the sum of medians.
        """
        middle = drawn[0]
        lower, upper = np.quantile(drawn[1:], self.sides[1:], axis=0, method=method)
        return np.stack([middle, np.fmin(lower, middle), np.fmax(upper, middle)], axis=-1)

    def _logs(self, place: int) -> list[FloatArray]:
        """Return the logarithms of drawn times to the first and per further token of an instance, (draws, users)."""
        logs = []
        for time, normal in zip(TIMES[::-1], self.normal.T, strict=True):
            logs.append(self.times[time].part(place).logs(normal).T)
        first, further = logs
        least = self.request_least[place]
        left = first_token_left(least, self.question.output_len, np.exp(further))
        with np.errstate(divide="ignore"):
            return [np.fmax(first, np.log(np.maximum(left, 0.0))), further]

    def _rates(self, place: int) -> FloatArray:
        """Return the drawn requests that end in a second at an instance, shape (draws, users)."""
        ttft, tpot = np.exp(self._logs(place))
        return self.users / (ttft + (self.question.output_len - 1) * tpot) * 1e3

    def _table(
        self,
        ways: Sequence[tuple[int, int]],
        users: FloatArray,
        times: Mapping[str, FloatArray],
        tokens: FloatArray,
        energy: tuple[FloatArray, FloatArray],
        holds: FloatArray,
    ) -> pd.DataFrame:
        """Return the rows of `Choice.ways`: ``users`` and ``tokens`` (a second) are those of one replica.

        ``energy`` is the power of a GPU and the joules of a token.
        """
        instances = [self.instances[place] for place, _ in ways]
        replicas = np.array([count for _, count in ways])
        settings = [one.setting for one in instances]
        count = np.array([one.gpus for one in instances])
        columns: dict[str, Any] = {
            "gpu": [one.gpu.name for one in settings],
            "gpus": count * replicas,
            "engine": [one.engine for one in instances],
            "dtype": [one.dtype for one in settings],
            "kv_dtype": [one.kv_dtype for one in settings],
            "replicas": replicas,
            "tp": [one.tp for one in settings],
            "dp": [one.dp for one in settings],
            "ep": [one.ep for one in settings],
            "concurrency": users * replicas,
        }
        per_gpu = tokens / count[:, None]
        price = np.array([self.question.price.of(one.gpu.name) for one in settings])
        with np.errstate(divide="ignore"):
            cost = price[:, None] / 3600 / per_gpu * 1e6
            if self.question.output_len == 1:
                times = {**times, "tpot_ms": np.full_like(times["tpot_ms"], np.nan)}
            values = {**times, "tokens_per_s_per_gpu": per_gpu}
            values |= {
                "tokens_per_s_per_user": 1e3 / times["tpot_ms"][:, [0, 2, 1]],
                "cost_per_million": cost[:, [0, 2, 1]],
            }
            power, joules = energy
            per_joule = self.question.electricity.per_kwh * MILLION_KWH
            values |= {"power_w": power, "joules_per_token": joules}
            values |= {"electricity_per_million": per_joule * joules}
        for name, limits in values.items():
            columns |= {
                name: limits[:, 0],
                f"{name}_lower": limits[:, 1],
                f"{name}_upper": limits[:, 2],
            }
        served_users = np.where(np.isfinite(users), users, 0.0)
        columns["memory_gb"] = np.array(
            [float(one.memory_gb(n)) for one, n in zip(instances, served_users, strict=True)]
        )
        columns["queued"] = [n > one.room for one, n in zip(instances, users, strict=True)]
        columns["holds"] = holds
        return pd.DataFrame(columns)


def _front(ways: pd.DataFrame) -> list[int]:
    """Return the Pareto front of each GPU over both speeds, by GPU and rising speed of a user."""
    front = list[int]()
    for _, ways_of_gpu in ways.groupby("gpu", sort=False):
        ways_of_gpu = ways_of_gpu.sort_values(
            ["tokens_per_s_per_user", "tokens_per_s_per_gpu"], ascending=False, kind="stable"
        )
        rate = ways_of_gpu["tokens_per_s_per_gpu"].to_numpy()
        best = rate > np.concatenate([[-np.inf], np.maximum.accumulate(rate)[:-1]])
        front += ways_of_gpu.index[best][::-1].tolist()
    return front


def _best(question: Question, ways: pd.DataFrame) -> pd.DataFrame:
    """Return the best way of each GPU, engine and number of GPUs: the cheapest that holds, else the nearest."""
    return _ranked(question, ways).drop_duplicates(["gpu", "engine", "gpus"]).reset_index(drop=True)


def _ranked(question: Question, ways: pd.DataFrame) -> pd.DataFrame:
    """Return ways in order: those that hold by cost, the others by probability, then by distance from the limits."""
    held = ways["holds"] >= question.sure
    if question.rate is not None:
        if question.price:
            price = ways["gpu"].map(question.price.of)
        else:
            price = 1.0
        cost = ways["gpus"] * price
        off = question.rate * question.output_len / (ways["tokens_per_s_per_gpu"] * ways["gpus"])
    else:
        if question.price:
            cost = ways["cost_per_million"]
        else:
            cost = 1.0 / ways["tokens_per_s_per_gpu"]
        off = pd.Series(1.0, index=ways.index)
    for name, limit in question.limits.items():
        off = off.combine((ways[name] / limit).where(np.isfinite(ways[name]), 0.0), max)
    surest = -ways["holds"]
    first = cost.where(held, surest.round(2))
    second = surest.where(held, off)
    order = ways[["tpot_ms", "ttft_ms"]].assign(held=~held, first=first, second=second)
    # of what costs the same and is as sure, the quicker
    keys = [
        "held",
        "first",
        "second",
        "tpot_ms",
        "ttft_ms",
    ]
    return ways.loc[order.sort_values(keys, kind="stable").index]

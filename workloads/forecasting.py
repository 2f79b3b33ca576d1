"""The forecast of a setting: a time with its interval, what it is made of, the memory, and why it cannot be.

The parts of the time (`inference`, `training`) are multiplied by draws of their constants
(`releases`), and all of them by a common factor whose spread grows with the distance from what was
calibrated: another model, another release, another GPU, more sequences than were measured. One
distribution, from kernel to answer. A graph of layers has draws of its layers' times in the order
of the medians (`critical_path`).

The energy is board power times the share of it that each part of the time draws. The shares are
judgements of the utilisation class: matrix units busy, memory busy, links busy, the host awaited.
MI300X boards draw near their limit in large products and half of it while they wait for memory or
links (FinGraV, arXiv:2412.12426, figures of isolated kernels). The spread of the whole is `SPREAD`.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import lru_cache
from typing import Any, Final

import numpy as np

from ..arrays import FloatArray
from ..errors import DataError, FlopcastError, ParameterError, counted
from ..evaluation.advising import Need
from ..hardware import GPU
from ..laws.board_power import IDLE, LAUNCHES, LINKS, MOVING, PRODUCTS, SPREAD, energy_interval
from ..operators.work import BITS
from ..remarks import Remark, remark
from .architecture import check_split
from .congestion import FAIR
from .critical_path import (
    PARTS,
    SOURCES,
    STATED,
    LayerTime,
    LayerTimes,
    course,
    drawn_ends,
    drawn_parts,
    layer_times,
    moved_from,
    planned,
    slowed,
)
from .inference import (
    RESERVED_GIB,
    InferenceMemory,
    Schedule,
    batch,
    inference_memory,
    inference_parts,
    prompt_parts,
    serve,
    step_parts,
)
from .kernel_times import Sources, Times
from .layer_graph import GraphSetting, LayerGraph, complete_graph, is_graph
from .model_catalogue import configured_as
from .rank_times import Bin, Course, LayerSpan, RankTimes
from .releases import (
    BY_KIND,
    DRAWS,
    FRAMEWORK,
    NORMAL,
    PRIORS,
    RESIDUAL,
    RESIDUALS,
    STOCK,
    Release,
    as_rows,
    factors,
    find_release,
    middle_and_sides,
    shipped_releases,
    standard_normal,
    unknown_release,
)
from .setting import Setting, complete, computed_in
from .training import counted_flop, training_parts
from .training_memory import SHARDED, TrainingMemory, training_memory, what_would_fit

# Spreads of the logarithm by the distance from what was calibrated (constants.toml says what each
# rests on).
OTHER_MODEL: Final = PRIORS["distance.model"].value
OTHER_MIXTURE: Final = PRIORS["distance.mixture"].value
OTHER_RELEASE: Final = PRIORS["distance.release"].value
OTHER_GPU: Final = PRIORS["distance.gpu"].value
IN_STAGES: Final = PRIORS["distance.stages"].value
OTHER_NODES: Final = PRIORS["distance.nodes"].value
BEYOND: Final = PRIORS["distance.beyond"].value
STEP: Final = PRIORS["distance.step"].value
EAGER: Final = PRIORS["distance.eager"].value
STEPS_SEEN: Final = ("A100 80GB SXM4", "MI300X", "MI325X")  # GPUs whose steps were looked at
MAY_NOT_FIT: Final = (
    "may-not-fit"  # code of what is said of a step that only a lean framework has room for
)
SHARES: Final = {
    **dict.fromkeys(("products", "attention", "head"), PRODUCTS),
    **dict.fromkeys(("stated", "cache", "elementwise", "optimizer"), MOVING),
    **dict.fromkeys(("collectives", "gradients"), LINKS),
    **dict.fromkeys(("layers", "sequences"), LAUNCHES),
    **dict.fromkeys(("steps", "pipeline"), IDLE),
}
"""Part of the board power (TDP) that is drawn, by part of the time."""


def energy(
    gpu: GPU,
    gpus: int,
    parts: Mapping[str, Sequence[float]],
    seconds: Sequence[float],
    level: float,
) -> dict[str, float]:
    """Return seconds, mean power of all GPUs and energy, with the interval of the energy at a level.

    ``parts`` and ``seconds`` hold median and limits, of each part of the time and of the whole.
    Power and energy are NaN where the board power is not published.
    """
    whole = sum(values[0] for values in parts.values())
    power = math.nan
    if gpu.tdp_w is not None and whole:
        power = (
            gpu.tdp_w
            * sum(SHARES[name] * values[0] for name, values in parts.items())
            / whole
            * gpus
        )
    middle = float(seconds[0])
    lower, upper = energy_interval(power, seconds, SPREAD, level)
    return {
        "seconds": middle,
        "power_w": power,
        "energy_j": power * middle,
        "energy_j_lower": lower,
        "energy_j_upper": upper,
    }


@dataclass(frozen=True, kw_only=True)
class Forecast:
    """The answer to one setting.

    Attributes
    ----------
    setting : Setting, GraphSetting or None
        What was asked; None where it could not be understood.
    predicted, lower, upper : float
        Median and interval, in ``unit``; NaN where there is no answer.
    unit : str
        ``s`` (of a batch, or a step) or ``tok/s`` (output tokens of all GPUs).
    memory_gb : float
        GiB that one GPU needs.
    memory : dict of str to float
        GiB of it by what they hold.
    memory_limits : (float, float) or None
        Of a training step, how little and how much of it a framework may need, GiB.
    fits : bool or None
        Whether it has them, or may have (`memory_verdict`); None where that is unknown.
    reason : Remark or None
        Why there is no answer.
    parts : dict of str to (median, lower, upper)
        Seconds of each part of the time.
    spreads : dict of str to float
        Standard deviation of the logarithm of the answer, by where it comes from.
    details : dict of str to float
        Further figures: seconds to the first token and per token, tokens per second, sequences at
        once, ...
    remarks : tuple of Remark
        What the answer rests on and assumes.
    layers : tuple of LayerTime
        Of a graph, in the order in which they run; empty otherwise.
    ranks : tuple of RankTimes
        Of an MPI program's trace: what every rank does until the job ends, and what it waits for.
    bins : tuple of Bin
        Of the same, where bins are asked for: what all ranks do in each.
    """

    setting: Setting | GraphSetting | None
    predicted: float = math.nan
    lower: float = math.nan
    upper: float = math.nan
    unit: str = ""
    memory_gb: float = math.nan
    memory: Mapping[str, float] = field(default_factory=dict)
    memory_limits: tuple[float, float] | None = None
    fits: bool | None = None
    reason: Remark | None = None
    parts: Mapping[str, tuple[float, float, float]] = field(default_factory=dict)
    spreads: Mapping[str, float] = field(default_factory=dict)
    details: Mapping[str, float] = field(default_factory=dict)
    remarks: tuple[Remark, ...] = ()
    layers: tuple[LayerTime, ...] = ()
    ranks: tuple[RankTimes, ...] = ()
    bins: tuple[Bin, ...] = ()

    @property
    def memory_verdict(self) -> str:
        """``fits``, ``may fit`` or ``does not fit``; empty where that is unknown."""
        if self.fits is None:
            return ""
        if not self.fits:
            return "does not fit"
        if any(note.code == MAY_NOT_FIT for note in self.remarks):
            return "may fit"
        return "fits"

    @property
    def half_width(self) -> float:
        """Of the interval, as a share of the answer; NaN where there is none."""
        return (self.upper - self.lower) / 2 / self.predicted

    def computing_spread(self, level: float) -> float:
        """Return the spread of the logarithm of what is computed, messages aside, from the intervals of its parts."""
        z = 2.0 * NORMAL.inv_cdf((1.0 + level) / 2.0)
        computing = [
            part for name, part in self.parts.items() if name != "collectives" and part[1] > 0
        ]
        whole = sum(middle for middle, _, _ in computing)
        return math.hypot(
            *(middle / whole * math.log(upper / lower) / z for middle, lower, upper in computing)
        )

    def needed(self, need: float, level: float) -> Need:
        """Return whether the interval is narrow enough, and how many measured runs of the setting would make it so.

        `releases.calibrate` on n runs leaves of the variance s² of all that they share s² r² / (n
        s² + r²), with r the residual (`RESIDUALS`), which the answer keeps beside it.
        """
        z = NORMAL.inv_cdf((1.0 + level) / 2.0)
        whole = math.log(self.upper / self.lower) / (2.0 * z)
        training = isinstance(self.setting, Setting) and self.setting.kind == "training"
        residual = RESIDUALS["training" if training else "serving"]
        common = max(whole**2 - self.spreads.get("residual", 0.0) ** 2, 0.0)
        ways = []
        for runs in (1, 2, 4, 8):
            left = residual**2 + common * residual**2 / (runs * common + residual**2)
            if left < whole**2:
                after = self.half_width * math.sinh(z * math.sqrt(left)) / math.sinh(z * whole)
                ways.append((f"{counted(runs, 'measured run')} of this setting (calibrate)", after))
        enough = [way for way in ways if way[1] <= need] or ways[-1:]
        return Need(need, self.half_width, enough[:1])

    def sure(self, need: float) -> str:
        """Return whether the interval is narrow enough: ``reached``, ``not reached``, ``unknown``.

        Unknown is what has no answer, and what would be reached but rests on a GPU that was never
        calibrated.
        """
        if self.reason is not None:
            return "unknown"
        if self.half_width > need:
            return "not reached"
        if "gpu" in self.spreads:
            return "unknown"
        return "reached"


def forecast(
    given: Mapping[str, Any] | Setting | GraphSetting,
    *,
    level: float = 0.9,
    seed: int = 0,
    runs: Sequence[Times] = (),
) -> Forecast:
    """Return the forecast of a setting, or of its named fields (`setting.complete`); ``runs`` predict its products.

    Raises
    ------
    FlopcastError
        The setting cannot be understood. What is understood and cannot run has a ``reason`` and no
        time.

    Examples
    --------
    >>> result = forecast({"model": "llama-3.1-70b", "gpu": "MI300X", "gpus": 8, "dtype": "fp8",
    ...                   "batch": 1, "input_len": 128, "output_len": 2048})
    >>> result.unit, result.fits, result.lower < result.predicted < result.upper
    ('s', True, True)
    """
    setting: Setting | GraphSetting
    if isinstance(given, Mapping):
        if is_graph(given.get("model")):
            setting = complete_graph(given)
        else:
            setting = complete(given)
    else:
        setting = given
    if isinstance(setting, GraphSetting):
        return _graph(setting, runs, level, seed)
    return (_train if setting.kind == "training" else _serve)(setting, Sources(runs), level, seed)


_KERNELS: Final = {
    "products": "products",
    "attention": "attention of prompts",
    "cache": "attention to the cache",
    "collectives": "messages",
    "head": "output matrix",
}
"""Parts of the time that are kernels, as they are named."""


@dataclass(frozen=True)
class Known:
    """The parts learnt from runs and measurements, in the order of the constants, shape (n,) each.

    ``share`` of the time of each part, and the standard deviation of the logarithm of that time, as
    if all its kernels erred together.
    """

    share: FloatArray
    spread: FloatArray

    def remark(self, rows: FloatArray, release: Release) -> Remark:
        """Say which kernels rest on which source."""
        names = [
            name
            for name, seconds in zip(release.constants, rows, strict=True)
            if name in _KERNELS and seconds
        ]
        shares = dict(zip(release.constants, self.share.tolist(), strict=True))
        listed = ", ".join(f"{_KERNELS[name]} {100 * shares[name]:.0f} %" for name in names)
        text = (
            f"of the kernels' time this stands on the runs and measurements given: {listed}; the "
            "rest on laws"
        )
        return remark("kernels-by-source", text, **{name: round(shares[name], 3) for name in names})


def _measured_times(
    parts: Callable[[Sources], Mapping[str, float]], sources: Sources, rows: FloatArray, kind: str
) -> Known | None:
    """Return the measured part of the seconds of some parts (``rows``); None without sources."""
    if not sources.runs:
        return None
    names = np.array([name in _KERNELS for name in BY_KIND[kind]])
    views = (replace(sources, view=view) for view in ("known", "spread"))
    seconds, spread = (np.where(names, as_rows([dict(parts(one))], kind)[0], 0.0) for one in views)
    nothing = np.zeros_like(rows)
    return Known(
        np.divide(seconds, rows, out=nothing.copy(), where=rows > 0),
        np.divide(spread, seconds, out=nothing, where=seconds > 0),
    )


def forecast_all(
    cases: Sequence[Mapping[str, Any]],
    *,
    level: float = 0.9,
    seed: int = 0,
    runs: Sequence[Times] = (),
) -> list[Forecast]:
    """Return the forecast of every case; an invalid case has its reason."""
    forecasts = []
    for case in cases:
        try:
            forecasts.append(forecast(case, level=level, seed=seed, runs=runs))
        except FlopcastError as error:
            forecasts.append(
                Forecast(setting=None, reason=remark("not-understood", str(error), why=str(error)))
            )
    return forecasts


def parts_of(setting: Setting) -> dict[str, float]:
    """Return the seconds of each part of a setting at the medians of the constants.

    Raises DataError: not one request fits.
    """
    if setting.kind == "training":
        return training_parts(setting)
    return inference_parts(setting, _schedule(setting, inference_memory(setting)), Sources())


def roofline_s(setting: Setting) -> float:
    """Return the seconds at peak rates alone, the simplest rule: no launches, no messages, no waiting.

    Every step of serving reads the weights of each replica, of experts those that its tokens are
    expected to visit, and the cache, or computes, whichever takes longer; prompts and steps of
    training compute. NaN where a peak is unknown.
    """
    model = setting.model
    gpu = setting.gpu
    try:
        rate = gpu.peak_tflops(computed_in(gpu, setting.dtype)) * 1e12 * setting.gpus
        bandwidth = gpu.require("memory_bw_gbs") * 1e9 * setting.gpus
    except FlopcastError:
        return math.nan
    if setting.kind == "training":
        tokens = float(setting.global_batch * setting.seq_len)
        return counted_flop(model, tokens, setting.seq_len, frozen=setting.lora) / rate
    serving = setting.kind == "inference"
    if serving:
        together = setting.batch
    else:
        together = min(setting.num_prompts, setting.max_num_seqs)
    size = BITS[setting.dtype] / 8
    cached = (
        together
        * (setting.input_len + setting.output_len / 2)
        * model.cached_per_token
        * model.layers
        * size
    )
    touched = model.active_parameters
    if model.experts:  # of each replica, by the tokens of a step
        missed = (1.0 - model.experts_per_token / model.experts) ** (together / setting.dp)
        others = model.experts * (1.0 - missed) - model.experts_per_token
        touched += model.mixture_layers * max(others, 0.0) * model.expert_parameters
    reading = (setting.dp * touched * size + cached) / bandwidth
    computing = 2.0 * model.active_parameters * together / rate
    if setting.prefix_cache:
        prompts = 0.0
    else:
        prompts = 2.0 * model.active_parameters * together * setting.input_len / rate
    rounds = 1.0
    if not serving:
        rounds = setting.num_prompts / together
    return rounds * (setting.output_len * max(reading, computing) + prompts)


def _serve(setting: Setting, sources: Sources, level: float, seed: int) -> Forecast:
    memory = inference_memory(setting)
    unit = "s"
    if setting.kind == "throughput":
        unit = "tok/s"
    tokens = setting.input_len + setting.output_len  # of one sequence, which must have room
    needed = memory.needed(tokens)
    if needed > memory.available:
        why = _missing(setting, memory, tokens)
        held = memory.held(tokens)
        return Forecast(
            setting=setting, memory_gb=needed, memory=held, fits=False, reason=why, unit=unit
        )
    schedule = _schedule(setting, memory)
    if setting.release:
        release = find_release(setting.release)
    else:
        release = unknown_release()
    steps = step_parts(setting, schedule, sources)
    prompts = prompt_parts(setting, schedule, sources)
    step_rows, prompt_rows = as_rows([steps, prompts])
    rows = step_rows + prompt_rows
    common, notes = _distance(setting, schedule, release)
    if setting.eager:
        graphed = sum(step_parts(replace(setting, eager=False), schedule, sources).values())
        common["eager"] = EAGER * (1.0 - graphed / sum(steps.values()))
    notes += setting.model.remarks
    widened = setting.widened
    if widened:
        formats = " and ".join(widened)
        text = (
            f"{setting.gpu.name} has no units for {formats}: weights are read in it and widened "
            "to compute"
        )
        notes.append(remark("widened", text, formats=widened))
    notes += _add_network(common, setting, setting.tp * setting.pp, rows, release)
    draws = _draws(release, common, seed)
    measured_times = _measured_times(
        lambda view: inference_parts(setting, schedule, view), sources, rows, "serving"
    )
    if measured_times:
        draws = _with_measured_times(draws, measured_times, common, seed)
        notes.append(measured_times.remark(rows, release))
    together = schedule.most >= setting.batch / setting.dp  # of a batch: nobody waits
    # the prompts of others come between the tokens of those that run, but in a batch that starts
    # together
    per_step = (step_rows if together and setting.kind == "inference" else rows) / float(
        schedule.steps.sum()
    )
    limits, made, *ends = _quantiles(draws, rows, release, level, per_step, prompt_rows + per_step)
    seconds = float(limits[0])
    if setting.kind == "inference":
        requests = setting.batch
    else:
        requests = setting.num_prompts
    details = {
        "sequences_at_once": min(schedule.most * setting.dp, requests),
        "tokens_per_second": requests * setting.output_len / seconds,
        "tokens_per_second_per_gpu": requests * setting.output_len / seconds / setting.gpus,
        "roofline_s": roofline_s(setting),
    }
    if setting.kind == "inference" and not together:
        at_once = int(schedule.most) * setting.dp
        text = (
            f"the cache has room for {at_once:,} of the {setting.batch:,} sequences at once: the "
            "others wait"
        )
        notes.append(remark("queued", text, at_once=at_once, batch=setting.batch))
    for name, end in zip(("seconds_per_token", "first_token_s"), ends, strict=True):
        if name == "seconds_per_token" or (setting.kind == "inference" and together):
            details |= dict(
                zip((name, f"{name}_lower", f"{name}_upper"), end.tolist(), strict=True)
            )
    details |= energy(setting.gpu, setting.gpus, made, limits.tolist(), level)
    if setting.kind == "throughput":
        limits = (setting.num_prompts * setting.output_len / limits)[[0, 2, 1]]
    return Forecast(
        setting=setting,
        predicted=float(limits[0]),
        lower=float(limits[1]),
        upper=float(limits[2]),
        unit=unit,
        memory_gb=memory.needed(schedule.fullest),
        memory=memory.held(schedule.fullest),
        fits=True,
        parts=made,
        spreads=_spreads(rows, release, common, measured_times),
        details=details,
        remarks=tuple(notes),
    )


def _train(setting: Setting, sources: Sources, level: float, seed: int) -> Forecast:
    memory = training_memory(setting)
    notes = []
    if not memory.may_fit and "zero" in setting.assumed:
        sharded = replace(setting, zero=SHARDED)
        if training_memory(sharded).may_fit:
            setting = sharded
            memory = training_memory(sharded)
            notes.append(_SHARDED)
    limits = (memory.lean, memory.full)
    if not memory.may_fit:
        return Forecast(
            setting=setting,
            memory_gb=memory.needed,
            memory=memory.held,
            fits=False,
            reason=_no_room_to_train(setting, memory),
            unit="s",
            memory_limits=limits,
        )
    if not memory.fits:
        text = (
            f"it may not fit: {memory.needed:,.0f} GiB on each GPU, {memory.lean:,.0f} to "
            f"{memory.full:,.0f} by how the framework holds gradients and logits, of "
            f"{memory.available:,.0f}"
        )
        notes.append(remark(MAY_NOT_FIT, text, lower_gb=memory.lean, upper_gb=memory.full))
    if setting.release:
        release = find_release(setting.release, "training")
    else:
        release = unknown_release("training")
    rows = as_rows([training_parts(setting, sources)], "training")[0]
    if release.name:
        common = {"residual": RESIDUALS["training"]}
    else:
        common = {"step": STEP}
    if release.name and _is_other(setting, release):
        common["model"] = OTHER_MODEL
    if (
        setting.gpu.name != release.gpu
        if release.name
        else setting.gpu.measured_name not in STEPS_SEEN
    ):
        common["gpu"] = OTHER_GPU
    notes += _add_network(common, setting, setting.tp * setting.cp, rows, release)
    if not release.name and setting.tuning == "stock":
        common["framework"] = STOCK.spread
    draws = _draws(release, common, seed)
    measured_times = _measured_times(
        lambda view: training_parts(setting, view), sources, rows, "training"
    )
    if measured_times:
        draws = _with_measured_times(draws, measured_times, common, seed)
        notes.append(measured_times.remark(rows, release))
    if not release.name and setting.tuning == "stock":
        draws = STOCK.value * draws
    middle_and_limits, made = _quantiles(draws, rows, release, level)
    spreads = _spreads(rows, release, common, measured_times)
    if not release.name and setting.tuning == "either":  # the interval reaches to stock ones
        slower = np.exp(FRAMEWORK * np.abs(standard_normal(1, DRAWS, seed + 3)[:, 0]))
        middle_and_limits[2] = _limits(draws @ rows * slower, level)[2]
        spreads = dict(sorted({**spreads, "framework": FRAMEWORK}.items(), key=lambda one: -one[1]))
    tokens = float(setting.global_batch * setting.seq_len)
    rate = tokens / float(middle_and_limits[0])
    flop = counted_flop(setting.model, tokens, setting.seq_len, frozen=setting.lora)
    rates = {
        "tokens_per_second": rate,
        "tokens_per_second_per_gpu": rate / setting.gpus,
        "counted_tflops_per_gpu": flop / float(middle_and_limits[0]) / setting.gpus / 1e12,
        "roofline_s": roofline_s(setting),
    }
    return Forecast(
        setting=setting,
        predicted=float(middle_and_limits[0]),
        lower=float(middle_and_limits[1]),
        upper=float(middle_and_limits[2]),
        unit="s",
        memory_gb=memory.needed,
        memory=memory.held,
        memory_limits=limits,
        fits=True,
        parts=made,
        spreads=spreads,
        details=rates | energy(setting.gpu, setting.gpus, made, middle_and_limits.tolist(), level),
        remarks=(
            *([] if release.name else [_BY_TUNING[setting.tuning]]),
            _MEMORY,
            *setting.model.remarks,
            *notes,
        ),
    )


_NO_RELEASE = remark(
    "training-constants",
    "the step is counted kernel by kernel, as tuned by the vendor: frameworks as they come take "
    "up to "
    f"{math.exp(FRAMEWORK * NORMAL.inv_cdf(0.975)):.1f} times as long (19 in 20 runs), which the "
    "interval includes; "
    "a measured run of your own narrows it (calibrate)",
)
_TUNED = remark(
    "training-tuned",
    "the step is counted kernel by kernel, as tuned by the vendor; a framework as it comes is "
    "slower (--tuning stock)",
)
_STOCK = remark(
    "training-stock",
    "the step is that of a framework as it comes: "
    f"{STOCK.value:.2g} times as long as counted kernel by kernel, as published steps say; a "
    "measured run of your own narrows it (calibrate)",
)
_BY_TUNING: Final = {"either": _NO_RELEASE, "tuned": _TUNED, "stock": _STOCK}
_MEMORY = remark(
    "memory-a-priori",
    "memory is counted as Megatron-LM and FSDP2 hold it, with the width of what frameworks do "
    "differently; five published peaks of Llama-2-7B in pipelines were 0.42 to 0.52 of the count "
    "with 32-bit gradients and an optimizer",
)
_SHARDED = remark(
    "sharded-weights",
    "weights are sharded over the replicas (FSDP, zero 3), as the step has no room with its "
    "optimizer sharded alone",
)


def _no_room_to_train(setting: Setting, memory: TrainingMemory) -> Remark:
    """Say by how much a step exceeds memory even in a lean framework, and which changes would fit."""
    missing = memory.lean - memory.available
    ways = what_would_fit(setting)
    advice = ", however it is split and with any batch"
    if ways:
        advice = f": needs {' or '.join(ways)}"
    text = f"does not fit, by at least {missing:,.0f} GiB on each GPU{advice}"
    return remark("does-not-fit", text, missing_gb=missing, ways=tuple(ways))


def _quantiles(
    draws: FloatArray, rows: FloatArray, release: Release, level: float, *others: FloatArray
) -> tuple[Any, ...]:
    """Return median and limits of the seconds of the whole, shape (3,), of each part by name, and of ``others``."""
    every = np.column_stack([draws * rows, draws @ rows, *(draws @ one for one in others)])
    limits = np.quantile(every, middle_and_sides(level), axis=0).T
    named = dict(zip(release.constants, map(tuple, limits.tolist()), strict=False))
    return limits[len(rows)], named, *limits[len(rows) + 1 :]


def _limits(draws: FloatArray, level: float) -> tuple[float, float, float]:
    """Return the median and the limits of draws."""
    middle, lower, upper = np.quantile(draws, middle_and_sides(level)).tolist()
    return middle, lower, upper


def _add_network(
    common: dict[str, float], setting: Setting, ranks: int, rows: FloatArray, release: Release
) -> list[Remark]:
    """Add the spread of messages if the GPUs lie on several nodes, and return the remarks."""
    if setting.network.nodes(ranks) == 1:
        return []
    common["network"] = OTHER_NODES * float(
        rows[list(release.constants).index("collectives")] / rows.sum()
    )
    return [NETWORK_STATED]


def _missing(setting: Setting, memory: InferenceMemory, tokens: int) -> Remark:
    """Say by how much so many tokens exceed memory, and which splits would fit."""
    fits = None
    for tp in range(setting.tp + 1, 65):
        try:
            check_split(setting.model, tp, setting.ep)
            other = inference_memory(replace(setting, tp=tp))
        except ParameterError:
            continue
        if other.needed(tokens) <= other.available:
            fits = tp
            break
    missing = memory.needed(tokens) - memory.available
    activations = memory.activations - RESERVED_GIB
    step = int(setting.max_batched_tokens * (1 - missing / activations)) // 256 * 256
    return _does_not_fit(missing, fits, 0, largest_step=max(step, 0))


def _does_not_fit(
    missing_gb: float, needed_tp: int | None, largest_batch: int, **steps: int
) -> Remark:
    """Return by how much it exceeds memory, and what would fit; ``largest_step`` if it runs in steps of tokens."""
    if needed_tp:
        ways = [f"tp ≥ {needed_tp}"]
    else:
        ways = []
    if largest_batch:
        ways += [f"a batch of at most {largest_batch:,}"]
    else:
        ways += []
    ways += [f"steps of at most {tokens:,} tokens" for tokens in steps.values() if tokens]
    if ways:
        advice = f": needs {' or '.join(ways)}"
    else:
        advice = ", however it is split and with any batch"
    text = f"does not fit, by {missing_gb:,.0f} GiB on each GPU{advice}"
    values = {
        "missing_gb": missing_gb,
        "needed_tp": needed_tp,
        "largest_batch": largest_batch,
        **steps,
    }
    return remark("does-not-fit", text, **values)


def _schedule(setting: Setting, memory: InferenceMemory) -> Schedule:
    length = setting.input_len + setting.output_len
    if setting.kind == "inference" and setting.batch // setting.dp * length <= memory.tokens:
        return batch(setting.batch // setting.dp, setting.input_len, setting.output_len)
    requests = -(
        -(setting.batch if setting.kind == "inference" else setting.num_prompts) // setting.dp
    )
    if setting.kind == "inference":
        most_at_once = requests
    else:
        most_at_once = setting.max_num_seqs
    return serve(
        requests,
        setting.input_len,
        setting.output_len,
        most_at_once=most_at_once,
        cache_tokens=memory.tokens,
    )


def _distance(
    setting: Setting, schedule: Schedule, release: Release
) -> tuple[dict[str, float], list[Remark]]:
    """Return the spreads of the common factor by source, and the remarks."""
    distances = {"residual": RESIDUAL}
    notes = []
    if not release.name:
        count = len(shipped_releases())
        text = f"no release was named: the interval spans all {count} that are calibrated"
        notes.append(remark("any-release", text, releases=count))
    elif _is_other(setting, release):
        models = " and ".join(release.models)
        text = (
            f"{release.name} was calibrated on {models}, not on this model: the interval is wider"
        )
        notes.append(remark("other-model", text, release=release.name, models=release.models))
    if _is_other(setting, release):
        if setting.model.experts:
            distances["model"] = OTHER_MIXTURE
        else:
            distances["model"] = OTHER_MODEL
    if not release.name:
        distances["release"] = OTHER_RELEASE
    if setting.gpu.measured_name != (release.gpu or "MI300X"):
        distances["gpu"] = OTHER_GPU
        calibrated = release.gpu or "MI300X"
        text = (
            f"launch, scheduling and communication costs were fitted on {calibrated}, not on "
            f"{setting.gpu.name}: the "
            "interval is wider"
        )
        notes.append(remark("other-gpu", text, gpu=setting.gpu.name, calibrated=calibrated))
    if setting.pp > 1:
        distances["stages"] = IN_STAGES
        text = (
            "serving in a pipeline is computed, but was calibrated on no run: the interval is wider"
        )
        notes.append(remark("stages-not-calibrated", text))
    if release.name and schedule.most > release.largest:
        distances["beyond"] = BEYOND
        text = (
            f"{schedule.most:,.0f} sequences run at once, the calibrated runs had "
            f"{release.largest:,.0f}: "
            "the interval is wider"
        )
        notes.append(
            remark("more-sequences", text, sequences=schedule.most, calibrated=release.largest)
        )
    return distances, notes


def _is_other(setting: Setting, release: Release) -> bool:
    """Whether a release was calibrated on no model of this configuration."""
    return configured_as(setting.model.name) not in map(configured_as, release.models)


def _draws(release: Release, common: Mapping[str, float], seed: int) -> FloatArray:
    """Return factors on the parts, shape (draws, n): of the release, or of one drawn from all, times the common one."""
    spread = math.sqrt(sum(value**2 for value in common.values()))
    together = np.exp(spread * standard_normal(1, DRAWS, seed + 1))
    if release.name or release.kind == "training":
        return factors(release, DRAWS, seed) * together
    return (_of_any(seed) if shipped_releases() else factors(release, DRAWS, seed)) * together


@lru_cache(maxsize=8)
def _of_any(seed: int) -> FloatArray:
    """Return factors drawn from the shipped releases in turn."""
    each = np.stack([factors(one, DRAWS, seed) for one in shipped_releases().values()])
    return each[np.arange(DRAWS) % len(each), np.arange(DRAWS)]


def _with_measured_times(
    draws: FloatArray, measured_times: Known, common: Mapping[str, float], seed: int
) -> FloatArray:
    """Return factors on the parts with measured shares: these have no release's constant, but their spread."""
    together = np.exp(math.hypot(*common.values()) * standard_normal(1, DRAWS, seed + 1))
    learnt = together * np.exp(
        measured_times.spread * standard_normal(len(measured_times.spread), DRAWS, seed + 2)
    )
    return measured_times.share * learnt + (1.0 - measured_times.share) * draws


def _spreads(
    rows: FloatArray, release: Release, common: Mapping[str, float], measured_times: Known | None
) -> dict[str, float]:
    """Return the standard deviations of the logarithm of the answer by source, the largest first."""
    weights = rows * np.exp(release.mean)
    weights = weights / weights.sum()
    every = list(shipped_releases().values())
    if not release.name and every and release.kind == "serving":
        means = np.stack([one.mean for one in every])
        roots = np.stack([one.root for one in every])
        spreads = np.sqrt(
            means.var(axis=0) + np.mean([(root**2).sum(axis=1) for root in roots], axis=0)
        )
    else:
        spreads = np.sqrt((release.root**2).sum(axis=1))
    if measured_times:
        spreads = (
            measured_times.share * measured_times.spread + (1.0 - measured_times.share) * spreads
        )
    shares = {**common, **dict(zip(release.constants, (weights * spreads).tolist(), strict=True))}
    return dict(sorted(shares.items(), key=lambda one: -one[1]))


def _graph(setting: GraphSetting, runs: Sequence[Times], level: float, seed: int) -> Forecast:
    """Return the forecast of a graph; ``runs`` replace the laws for layers within their range."""
    layers = setting.model.layers
    times = layer_times(setting, runs)
    if not (times.compute.any() or times.message.any()):
        raise DataError(f"{setting.model.name}: no layer takes any time")
    plan = planned(layers, times, setting)
    alone = times
    times = slowed(times, plan)
    normal = standard_normal(len(PARTS), DRAWS, seed)
    ends = drawn_ends(layers, times, plan, normal)
    middle, lower, upper = _limits(ends, level)
    made = drawn_parts(times, plan, normal)
    parts = {name: _limits(draws, level) for name, draws in made.items()}
    whole = sum(float(draws.mean()) for draws in made.values())
    spreads = {name: float(draws.std()) / whole for name, draws in made.items()}
    computed, sent = (float(one.sum()) * 1e-6 for one in (times.compute, times.message))
    # something is always under way
    overlapped = 0.0
    if sent:
        overlapped = max(computed + sent - max(plan.end), 0.0)
    details = {"compute_s": computed, "communication_s": sent, "overlapped_s": overlapped}
    in_order = course(layers, times, plan)
    spans = _rank_course(setting.model, in_order)
    bins: tuple[Bin, ...] = ()
    if setting.bins_s is not None:
        bins = spans.bins(max(plan.end), setting.bins_s)
    return Forecast(
        setting=setting,
        predicted=middle,
        lower=lower,
        upper=upper,
        unit="s",
        parts=parts,
        spreads=dict(sorted(spreads.items(), key=lambda one: -one[1])),
        details=details | energy(setting.gpu, setting.gpus, parts, (middle, lower, upper), level),
        remarks=tuple(_graph_remarks(setting, alone, times)),
        layers=tuple(in_order),
        ranks=spans.sums(max(plan.end)),
        bins=bins,
    )


def _rank_course(graph: LayerGraph, times: Sequence[LayerTime]) -> Course:
    """Return what the ranks of a graph do, which is nothing where it has no steps of ranks."""
    stated = {one.name: one for one in graph.layers}
    layers = {}
    for time in times:
        layer = stated[time.name]
        layers[time.name] = LayerSpan(
            layer.rank,
            time.start_s,
            time.end_s,
            layer.message_bytes,
            time.name in graph.rendezvous,
        )
    return Course(graph.steps, layers)


NETWORK_STATED: Final = remark(
    "network-stated",
    "messages between nodes are computed in two levels, from the bandwidth and latency between "
    "nodes; no machine at "
    "hand was measured so: the interval is wider",
)


def _graph_remarks(setting: GraphSetting, alone: LayerTimes, times: LayerTimes) -> Iterator[Remark]:
    yield from setting.model.remarks
    counts = {name: times.source.count(name) for name in SOURCES}
    hows = (
        "stated",
        "predicted by the runs given",
        "measured",
        "computed by laws of achieved rates",
    )
    listed = ", ".join(
        f"{count:,} {how}" for count, how in zip(counts.values(), hows, strict=True) if count
    )
    yield remark("layers-by-source", f"times of layers: {listed or 'messages alone'}", **counts)
    if setting.measured_on is not None and STATED in times.source:
        factor, _ = moved_from(setting.measured_on, setting.gpu, setting.dtype)
        text = (
            f"times stated for {setting.measured_on.name} are multiplied by {factor:.3g} for "
            f"{setting.gpu.name}: what the layers compute is unknown, so the interval reaches "
            "from the "
            "ratio of the peaks to that of the memory bandwidths"
        )
        yield remark(
            "times-moved",
            text,
            host=setting.measured_on.name,
            target=setting.gpu.name,
            factor=factor,
        )
    if setting.model.chained and len(setting.model.layers) > 1:
        text = (
            "no layer states its predecessors: each waits for the one before it, and nothing "
            "overlaps"
        )
        yield remark("layers-in-a-row", text)
    if any(one.collective and setting.between_nodes(one) for one in setting.model.layers):
        yield NETWORK_STATED
    if setting.congestion == FAIR:
        yield _congested(setting, alone, times)


def _congested(setting: GraphSetting, alone: LayerTimes, times: LayerTimes) -> Remark:
    """Say how many messages shared a link, and what they took longer."""
    ends = np.array([one.peer >= 0 for one in setting.model.layers])
    longer = np.where(ends, times.message - alone.message, 0.0)
    slower = int((longer > 1e-6 * alone.message).sum())
    added_s = float(longer.sum()) * 1e-6
    text = (
        f"messages between two ranks that cross the same link share it: {slower:,} of "
        f"{int(ends.sum()):,} took longer, {added_s:.3g} s in all; collectives have the links to "
        "themselves"
    )
    return remark("links-shared", text, messages=int(ends.sum()), slower=slower, seconds=added_s)

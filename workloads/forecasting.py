"""The forecast of a setting: a time with its interval, what it is made of, the memory, and why it cannot be.

The parts of the time (`inference`, `training`) are multiplied by draws of their constants (`releases`), and all of
them by a common factor whose spread grows with the distance from what was calibrated: another model, another release,
another GPU, more sequences than were measured. One distribution, from kernel to answer.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any, Final

import numpy as np

from ..arrays import FloatArray
from ..errors import FlopcastError, ParameterError
from ..operators.work import BITS
from ..remarks import Remark, remark
from .answer import Forecast, energy
from .critical_path import NETWORK_STATED, forecast_graph
from .inference import Schedule, batch, inference_parts, serve
from .kernel_times import Sources, Times
from .layer_graph import GraphSetting, complete_graph, is_graph
from .layers import check_split
from .memory import RESERVED_GIB, InferenceMemory, inference_memory, training_memory
from .releases import (
    DRAWS,
    PRIORS,
    RESIDUAL,
    Release,
    as_rows,
    factors,
    find_release,
    known_releases,
    standard_normal,
    unknown_release,
)
from .setting import Setting, complete
from .training import counted_flop, training_parts

# Spreads of the logarithm by the distance from what was calibrated (constants.toml says what each rests on).
OTHER_MODEL: Final = PRIORS["distance.model"].value
OTHER_RELEASE: Final = PRIORS["distance.release"].value
OTHER_GPU: Final = PRIORS["distance.gpu"].value
IN_STAGES: Final = PRIORS["distance.stages"].value
OTHER_NODES: Final = PRIORS["distance.nodes"].value
BEYOND: Final = PRIORS["distance.beyond"].value
STEP: Final = PRIORS["distance.step"].value
STEPS_SEEN: Final = ("A100 80GB SXM4", "MI300X", "MI325X")
"""GPUs whose steps were looked at."""


def forecast(
    given: Mapping[str, Any] | Setting | GraphSetting, *, level: float = 0.9, seed: int = 0, runs: Sequence[Times] = ()
) -> Forecast:
    """Return the forecast of a setting, or of its named fields (`setting.complete`); ``runs`` predict its products.

    Raises
    ------
    FlopcastError
        The setting cannot be understood. What is understood and cannot run has a ``reason`` and no time.

    Examples
    --------
    >>> found = forecast({"model": "llama-3.1-70b", "gpu": "MI300X", "gpus": 8, "dtype": "fp8",
    ...                   "batch": 1, "input_len": 128, "output_len": 2048})
    >>> found.unit, found.fits, found.lower < found.predicted < found.upper
    ('s', True, True)
    """
    setting = _completed(given) if isinstance(given, Mapping) else given
    if isinstance(setting, GraphSetting):
        return forecast_graph(setting, level=level, seed=seed, runs=runs)
    sources = Sources(runs)
    found = (_train if setting.kind == "training" else _serve)(setting, sources, level, seed)
    if not runs or found.reason is not None:
        return found
    part = round(sources.share, 3)
    text = f"{100 * part:.0f} % of the matrix products are from the runs and measurements given, the others by the law"
    by_runs = remark("products-by-runs", text, share=part)
    return replace(found, remarks=(*found.remarks, by_runs))


def _completed(given: Mapping[str, Any]) -> Setting | GraphSetting:
    return complete_graph(given) if is_graph(given.get("model")) else complete(given)


def forecast_all(
    cases: Sequence[Mapping[str, Any]], *, level: float = 0.9, seed: int = 0, runs: Sequence[Times] = ()
) -> list[Forecast]:
    """Return the forecast of every case; one that cannot be understood has its reason, the others their answer."""
    found = []
    for case in cases:
        try:
            found.append(forecast(case, level=level, seed=seed, runs=runs))
        except FlopcastError as error:
            found.append(Forecast(setting=None, reason=remark("not-understood", str(error), why=str(error))))
    return found


def parts_of(setting: Setting) -> dict[str, float]:
    """Return the seconds of each part of a setting at the medians of the constants.

    Raises
    ------
    DataError
        Not one request fits.
    """
    if setting.kind == "training":
        return training_parts(setting)
    return _parts(setting, _schedule(setting, _memory(setting)), Sources())


def roofline_s(setting: Setting) -> float:
    """Return the seconds that peak rates alone would take, the simplest rule: no launches, no messages, no waiting.

    Every step of serving reads the weights of each replica, of experts those that its tokens are expected to visit,
    and the cache, or computes, whichever takes longer; prompts and steps of training compute. NaN where a peak is not
    known.
    """
    model, gpu = setting.model, setting.gpu
    try:
        rate = gpu.peak_tflops(setting.dtype) * 1e12 * setting.gpus
        bandwidth = gpu.require("memory_bw_gbs") * 1e9 * setting.gpus
    except FlopcastError:
        return math.nan
    if setting.kind == "training":
        tokens = float(setting.global_batch * setting.seq_len)
        return counted_flop(model, tokens, setting.seq_len, frozen=setting.lora) / rate
    serving = setting.kind == "inference"
    together = setting.batch if serving else min(setting.num_prompts, setting.max_num_seqs)
    size = BITS[setting.dtype] / 8
    cached = together * (setting.input_len + setting.output_len / 2) * model.cached_per_token * model.layers * size
    touched = model.active_parameters
    if model.experts:  # of each replica, by the tokens of a step
        missed = (1.0 - model.experts_per_token / model.experts) ** (together / setting.dp)
        others = model.experts * (1.0 - missed) - model.experts_per_token
        touched += model.mixture_layers * max(others, 0.0) * model.expert_parameters
    reading = (setting.dp * touched * size + cached) / bandwidth
    computing = 2.0 * model.active_parameters * together / rate
    prompts = 0.0 if setting.prefix_cache else 2.0 * model.active_parameters * together * setting.input_len / rate
    rounds = 1.0 if serving else setting.num_prompts / together
    return rounds * (setting.output_len * max(reading, computing) + prompts)


def _serve(setting: Setting, sources: Sources, level: float, seed: int) -> Forecast:
    memory = _memory(setting)
    whole = setting.input_len + setting.output_len
    at_once = setting.batch // setting.dp if setting.kind == "inference" else 1
    needed = memory.needed(at_once * whole)
    if needed > memory.available:
        why = _missing(setting, memory, needed)
        return Forecast(
            setting=setting,
            memory_gb=needed,
            memory=memory.held(at_once * whole),
            fits=False,
            reason=why,
            unit=_unit(setting),
        )
    schedule = _schedule(setting, memory)
    release = _release(setting)
    rows = as_rows([_parts(setting, schedule, sources)])[0]
    common, notes = _distance(setting, schedule, release)
    notes += _add_network(common, setting, setting.tp * setting.pp, rows, release)
    found, made = _quantiles(_draws(release, common, seed), rows, release, level)
    details = _details(setting, schedule, found[0]) | {"roofline_s": roofline_s(setting)}
    details |= energy(setting.gpu, setting.gpus, made, found.tolist(), level)
    if setting.kind == "throughput":
        found = (setting.num_prompts * setting.output_len / found)[[0, 2, 1]]
    return Forecast(
        setting=setting,
        predicted=float(found[0]),
        lower=float(found[1]),
        upper=float(found[2]),
        unit=_unit(setting),
        memory_gb=memory.needed(schedule.fullest),
        memory=memory.held(schedule.fullest),
        fits=True,
        parts=made,
        spreads=_spreads(rows, release, common),
        details=details,
        remarks=tuple(notes),
    )


def _train(setting: Setting, sources: Sources, level: float, seed: int) -> Forecast:
    memory = training_memory(setting)
    if memory.needed > memory.available:
        why = _does_not_fit(memory.needed - memory.available, **_would_fit(setting))
        return Forecast(setting=setting, memory_gb=memory.needed, memory=memory.held, fits=False, reason=why, unit="s")
    release = find_release(setting.release, "training") if setting.release else unknown_release("training")
    rows = as_rows([training_parts(setting, sources)], "training")[0]
    common = _distance_of_step(setting, release)
    notes = _add_network(common, setting, setting.tp * setting.cp, rows, release)
    found, made = _quantiles(_draws(release, common, seed), rows, release, level)
    tokens = float(setting.global_batch * setting.seq_len)
    rate = tokens / float(found[0])
    flop = counted_flop(setting.model, tokens, setting.seq_len, frozen=setting.lora)
    rates = {
        "tokens_per_second": rate,
        "tokens_per_second_per_gpu": rate / setting.gpus,
        "counted_tflops_per_gpu": flop / float(found[0]) / setting.gpus / 1e12,
        "roofline_s": roofline_s(setting),
    }
    return Forecast(
        setting=setting,
        predicted=float(found[0]),
        lower=float(found[1]),
        upper=float(found[2]),
        unit="s",
        memory_gb=memory.needed,
        memory=memory.held,
        fits=True,
        parts=made,
        spreads=_spreads(rows, release, common),
        details=rates | energy(setting.gpu, setting.gpus, made, found.tolist(), level),
        remarks=(*([] if release.name else [_NO_RELEASE]), _MEMORY, *notes),
    )


_NO_RELEASE = remark(
    "training-constants", "the step is counted kernel by kernel: no calibrated release of a framework was named"
)
_MEMORY = remark(
    "memory-a-priori",
    "memory is counted for 32-bit gradients and optimizer states; five published peaks of Llama-2-7B in pipelines were "
    "0.42 to 0.52 of such a count: what is kept in 16 bits, and what the framework frees, is unknown",
)


def _quantiles(
    draws: FloatArray, rows: FloatArray, release: Release, level: float
) -> tuple[FloatArray, dict[str, tuple[float, float, float]]]:
    """Return median and limits of the seconds of the whole, shape (3,), and of each part."""
    sides = [0.5, (1 - level) / 2, (1 + level) / 2]
    parts = np.quantile(draws * rows, sides, axis=0).T.tolist()
    named = {name: (part[0], part[1], part[2]) for name, part in zip(release.constants, parts, strict=True)}
    return np.quantile(draws @ rows, sides), named


def _add_network(
    common: dict[str, float], setting: Setting, ranks: int, rows: FloatArray, release: Release
) -> list[Remark]:
    """Add the spread of messages among so many GPUs if they lie on several nodes, and return what is to be said."""
    if setting.network.nodes(ranks) == 1:
        return []
    common["network"] = OTHER_NODES * float(rows[list(release.constants).index("collectives")] / rows.sum())
    return [NETWORK_STATED]


def _distance_of_step(setting: Setting, release: Release) -> dict[str, float]:
    """Return the spreads of the common factor of a training step by where they come from."""
    if not release.name:
        found = {"step": STEP}
        if setting.gpu.measured_name not in STEPS_SEEN:
            found["gpu"] = OTHER_GPU
        return found
    found = {"residual": RESIDUAL}
    if setting.model.name not in release.models:
        found["model"] = OTHER_MODEL
    if setting.gpu.name != release.gpu:
        found["gpu"] = OTHER_GPU
    return found


def _would_fit(setting: Setting) -> dict[str, Any]:
    """Return the least tp that fits, or None, and the largest micro-batch that does."""
    needed = None
    for tp in range(setting.tp + 1, 65):
        try:
            check_split(setting.model, tp, setting.ep)
        except ParameterError:
            continue
        other = training_memory(replace(setting, tp=tp))
        if other.needed <= other.available:
            needed = tp
            break
    smaller = (n for n in range(setting.micro_batch - 1, 0, -1))
    fits = (n for n in smaller if (one := training_memory(replace(setting, micro_batch=n))).needed <= one.available)
    return {"needed_tp": needed, "largest_batch": next(fits, 0)}


def _unit(setting: Setting) -> str:
    return "tok/s" if setting.kind == "throughput" else "s"


def _memory(setting: Setting) -> InferenceMemory:
    return inference_memory(
        setting.model,
        setting.gpu,
        dtype=setting.dtype,
        kv_dtype=setting.kv_dtype,
        tp=setting.tp,
        pp=setting.pp,
        ep=setting.ep,
        batched_tokens=setting.max_batched_tokens,
        utilisation=setting.memory_utilisation,
    )


def _missing(setting: Setting, memory: InferenceMemory, needed: float) -> Remark:
    """Say by how much it does not fit, in how many ways of cutting it would, and which batch still does."""
    whole = setting.input_len + setting.output_len
    largest = max(0, int(memory.tokens // max(whole, 1))) * setting.dp
    fits = None
    for tp in range(setting.tp + 1, 65):
        try:
            check_split(setting.model, tp, setting.ep)
            other = _memory(replace(setting, tp=tp))
        except ParameterError:
            continue
        if other.needed(needed_tokens(setting)) <= other.available:
            fits = tp
            break
    missing, step = needed - memory.available, memory.activations - RESERVED_GIB
    tokens = int(setting.max_batched_tokens * (1 - missing / step)) // 256 * 256
    return _does_not_fit(missing, fits, largest, largest_step=max(tokens, 0))


def _does_not_fit(missing_gb: float, needed_tp: int | None, largest_batch: int, **steps: int) -> Remark:
    """Return by how much it does not fit, and what would; ``largest_step`` where it runs in steps of tokens."""
    ways = [f"tp ≥ {needed_tp}"] if needed_tp else []
    ways += [f"a batch of at most {largest_batch:,}"] if largest_batch else []
    ways += [f"steps of at most {tokens:,} tokens" for tokens in steps.values() if tokens]
    advice = f": needs {' or '.join(ways)}" if ways else ", however it is split and with any batch"
    text = f"does not fit, by {missing_gb:,.0f} GiB on each GPU{advice}"
    values = {"missing_gb": missing_gb, "needed_tp": needed_tp, "largest_batch": largest_batch, **steps}
    return remark("does-not-fit", text, **values)


def needed_tokens(setting: Setting) -> int:
    """Return the tokens that must have room in the cache of a replica at once."""
    at_once = setting.batch // setting.dp if setting.kind == "inference" else 1
    return at_once * (setting.input_len + setting.output_len)


def _schedule(setting: Setting, memory: InferenceMemory) -> Schedule:
    if setting.kind == "inference":
        return batch(setting.batch // setting.dp, setting.input_len, setting.output_len)
    requests = -(-setting.num_prompts // setting.dp)
    most = setting.max_num_seqs
    return serve(requests, setting.input_len, setting.output_len, most=most, cache_tokens=memory.tokens)


def _parts(setting: Setting, schedule: Schedule, sources: Sources) -> dict[str, float]:
    return inference_parts(
        setting.model,
        setting.gpu,
        schedule,
        dtype=setting.dtype,
        kv_dtype=setting.kv_dtype,
        tp=setting.tp,
        pp=setting.pp,
        ep=setting.ep,
        network=setting.network,
        batched_tokens=setting.max_batched_tokens,
        prefill=not setting.prefix_cache,
        eager=setting.eager,
        sources=sources,
    )


def _release(setting: Setting) -> Release:
    return find_release(setting.release) if setting.release else unknown_release()


def _distance(setting: Setting, schedule: Schedule, release: Release) -> tuple[dict[str, float], list[Remark]]:
    """Return the spreads of the common factor by where they come from, and what is to be said of them."""
    found, notes = {"residual": RESIDUAL}, []
    if not release.name:
        count = len(known_releases())
        text = f"no release was named: the interval spans all {count} that are calibrated"
        notes.append(remark("any-release", text, releases=count))
    elif setting.model.name not in release.models:
        models = " and ".join(release.models)
        text = f"{release.name} was calibrated on {models}, not on this model: the interval is wider"
        notes.append(remark("other-model", text, release=release.name, models=release.models))
    if setting.model.name not in release.models:
        found["model"] = OTHER_MODEL
    if not release.name:
        found["release"] = OTHER_RELEASE
    if setting.gpu.measured_name != (release.gpu or "MI300X"):
        found["gpu"] = OTHER_GPU
        calibrated = release.gpu or "MI300X"
        text = (
            f"launch, scheduling and communication costs were fitted on {calibrated}, not on {setting.gpu.name}: the "
            "interval is wider"
        )
        notes.append(remark("other-gpu", text, gpu=setting.gpu.name, calibrated=calibrated))
    if setting.pp > 1:
        found["stages"] = IN_STAGES
        notes.append(
            remark(
                "stages-not-calibrated",
                "serving in a pipeline is computed, but was calibrated on no run: the interval is wider",
            )
        )
    if release.name and schedule.most > release.largest:
        found["beyond"] = BEYOND
        notes.append(
            remark(
                "more-sequences",
                f"{schedule.most:,.0f} sequences run at once, the calibrated runs had {release.largest:,.0f}: "
                "the interval is wider",
                sequences=schedule.most,
                calibrated=release.largest,
            )
        )
    return found, notes


def _draws(release: Release, common: Mapping[str, float], seed: int) -> FloatArray:
    """Return factors on the parts, shape (draws, n): of the release, or of one drawn from all, times the common one."""
    spread = math.sqrt(sum(value**2 for value in common.values()))
    together = np.exp(spread * standard_normal(1, DRAWS, seed + 1))
    if release.name or release.kind == "training":
        return factors(release, DRAWS, seed) * together
    known = list(known_releases().values()) or [release]
    each = [factors(one, DRAWS, seed) for one in known]
    return np.stack([each[place % len(each)][place] for place in range(DRAWS)]) * together


def _spreads(rows: FloatArray, release: Release, common: Mapping[str, float]) -> dict[str, float]:
    """Return the standard deviations of the logarithm of the answer by where they come from, the largest first."""
    weights = rows * np.exp(release.mean)
    weights = weights / weights.sum()
    known = list(known_releases().values())
    if not release.name and known and release.kind == "serving":
        means, roots = np.stack([one.mean for one in known]), np.stack([one.root for one in known])
        own = np.sqrt(means.var(axis=0) + np.mean([(root**2).sum(axis=1) for root in roots], axis=0))
    else:
        own = np.sqrt((release.root**2).sum(axis=1))
    found = {**common, **dict(zip(release.constants, (weights * own).tolist(), strict=True))}
    return dict(sorted(found.items(), key=lambda one: -one[1]))


def _details(setting: Setting, schedule: Schedule, seconds: float) -> dict[str, float]:
    requests = setting.batch if setting.kind == "inference" else setting.num_prompts
    return {
        "sequences_at_once": min(schedule.most * setting.dp, requests),
        "tokens_per_second": requests * setting.output_len / float(seconds),
        "tokens_per_second_per_gpu": requests * setting.output_len / float(seconds) / setting.gpus,
        "seconds_per_token": float(seconds) / float(schedule.steps.sum()),
    }

"""The model of serving that ships: what published runs taught of the times to the first token and per further one.

The parts of `laws.serving_steps` are summed with constants that were fitted to the runs of each
engine and client; what the logarithm of a measured time then lacks is a Gaussian process over the
settings (Rasmussen and Williams, "Gaussian Processes for Machine Learning", MIT Press 2006, chapter
2). Its covariance is a sum of terms: of all runs, and of those that share the engine, the release,
the client, the model, the GPU or the configuration. Where a model, a GPU or an engine is new, a
first token is the mean of what it and trees say (`workloads.serving_trees`). An answer is as wide
as the errors were of runs whose own configuration, combination, model, GPU, engine or vendor was
left out (`BASES`).

The file holds settings and numbers, no code: `datasets/serving_model.parquet`, made by
`benchmarks.serving_model`. Times to the first token are those of a client that keeps
``concurrency`` requests under way from the start.
"""

from __future__ import annotations

import json
import zlib
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass, field, replace
from functools import cache, cached_property, partial
from pathlib import Path
from typing import Any, Final

import msgspec
import numpy as np
import pandas as pd
import pyarrow as pa

from ..arrays import BoolArray, FloatArray
from ..datasets import SERVING_MODEL
from ..errors import DataError, FlopcastError, few
from ..evaluation.metrics import NINETY_PERCENT
from ..hardware import GPU, all_gpus
from ..hardware import find as find_gpu
from ..laws.serving_steps import SLOWED, Steps, steps
from ..operators.kinds.serving_run import DRAWN, EQUAL, FIGURES, together
from ..operators.operators import complete
from ..operators.work import as_numbers, distinct, texts
from ..remarks import Remark, remark
from ..settings import configured
from . import serving_artifact
from .serving import least
from .serving_law import ENDS, Law
from .serving_limits import (
    SATURATED,
    contention,
    first_token_left,
    further_token_left,
    request_at_peak,
    towards_a_step,
)
from .serving_trees import Trees, columns

TIMES: Final = ("tpot_ms", "ttft_ms")
BASES = KNOWN, NEW_SETTING, NEW_COMBINATION, NEW_MODEL, NEW_GPU, NEW_ENGINE, NEW_VENDOR = (
    "known setting",
    "new setting",
    "new combination",
    "new model",
    "new GPU",
    "new engine",
    "new vendor",
)
"""What an answer rests on, the surest first: the configuration was measured, with prompts and
answers so long; its model, format of weights, GPU and engine were, cut otherwise or with others;
each of these four was, but not together; the model, ... was not."""
TUNINGS: Final = ("tuned", "stock")
"""How the engine is set up: by the vendor for the setting, as the runs learnt from are; or as it comes."""
EITHER: Final = "either"
UNTUNED: Final = 0.5
"""Deviation, before any own run, of the part of what stock engines take longer that a stack takes: a judgement.

Two own runs of tuned stacks would be off by 23 % in place of 16 % if it were half of it on average."""
NEW_RELEASE: Final = "new release"
"""Beside these: no release is named, or not one that the configuration was measured with. The width
is at least that of runs after those learnt from."""
TWO_RUNS: Final = "two runs"
"""The same where two runs of the setting are measured, with the fewest and the most requests under way."""
TERMS: Final = (
    "all",
    "shares",
    "shares of engine",
    "shares of architecture",
    "setting",
    "setting of engine",
    "model",
    "configuration",
    "requests of configuration",
    "release",
    "client",
    "model of engine",
    "GPU of engine",
    "run",
    "requests of model",
)
"""Of the covariance; each has an amplitude."""
OWN_RELEASE: Final = "own"
"""Release of own runs that name none."""
REACH: Final = 1.0
"""Octaves of the lengths of prompts and answers over which own runs tell of others. A judgement:
the means that clients draw lie 0.4 apart at most, and of lengths eight times as long an own run
says no more than one cut otherwise."""
MATCHED: Final = 0.5
"""`nearness` from which on runs are said to be of one setting: lengths within a factor of two."""
REPEATED: Final = 0.95
"""The same from which on runs repeat each other: lengths within a seventh, as clients draw them. A judgement."""
CONDITIONS: Final = (
    "engine_version",
    "lengths",
    "dtype_a",
    "dtype_kv",
    "running_limit",
    "memory_percent",
    "receive_interval",
)
"""What runs of one setting may differ in: then they are no repeats of each other."""
# each has a length, in octaves
LENGTHS: Final = ("requests", "cut", "model", "work", "GPU", "own requests")
SETTING: Final = (
    "device",
    "model",
    "engine",
    "engine_version",
    "client",
    "dtype_a",
    "dtype_b",
    "dtype_kv",
    "apart",
    "lengths",
    "group",
    "tp",
    "pp",
    "dp",
    "ep",
    "input_len",
    "output_len",
    "concurrency",
    "running_limit",
    "memory_percent",
    "receive_interval",
)
"""Columns of the file beside the figures of the models and the weights."""
OWN: Final = tuple(
    f"{kind}{time}" for kind in ("", *(f"{how}_" for how in TUNINGS)) for time in TIMES
)
"""Columns of the file of the user's runs, ms: as measured, and the medians that published runs alone
say of a tuned and of a stock engine."""
FILE: Final = ".parquet"  # how the name of the file of a model ends
_STEADY: Final = "aiconfigurator"
"""The client of the sample that lets requests come one by one; all others send all at once."""
LOADS: Final = tuple(sorted({float(round(2 ** (step / 2))) for step in range(21)}))
"""Requests under way, 1 to 1,024, between which a time is held to rise."""
FAR: Final = 1.0
"""Logarithms further off than this are of something else: speculation, or a queue at a limit that no run tells."""
MOST_DRAWN: Final[Mapping[str, float]] = {"tpot_ms": 4.0, "ttft_ms": 6.0}
"""Logarithms that the process may add to the law; of the runs learnt from it adds a quarter at most."""
# the names are hashes of 64 bits, whose range overflows the tables of NumPy 2.0
_among = partial(np.isin, kind="sort")
BEYOND: Final[Mapping[str, Mapping[str, float]]] = {
    "concurrency": {"tpot_ms": 0.2, "ttft_ms": 0.5},
    "input_len": {"tpot_ms": 0.1, "ttft_ms": 0.2},
    "output_len": {"tpot_ms": 0.1, "ttft_ms": 0.2},
    "shortness": {"tpot_ms": 0.05, "ttft_ms": 0.6},
    "prompt_ratio": {"tpot_ms": 0.05, "ttft_ms": 0.3},
    "prompt_shortness": {"tpot_ms": 0.02, "ttft_ms": 0.0},
}
"""What the deviation of the logarithm grows by (in squares) for each doubling beyond the most of
`extents` that a run of the model had: with it nine in ten of both times are covered of runs that go
up to eight times as far (`benchmarks.serving_beyond`). What `_CONTENDED` ones add is bounded, and
first tokens of shorter prompts go `serving_limits.towards_a_step`."""
_CONTENDED: Final = ("shortness", "prompt_ratio")
"""Of these, directions in which the prompts and answers of other requests hold one up longer."""
_WIDER: Final = 1.005
"""Factor from which on an interval is said to be wider."""
_COUNTED: Final = {
    "concurrency": "more than {:,.0f} requests under way",
    "input_len": "more than {:,.0f} tokens in a prompt",
    "output_len": "more than {:,.0f} tokens in an answer",
    "shortness": "less than {:,.0f} tokens in an answer",
    "prompt_ratio": "more than {:,.3g} tokens of prompts for one of answers",
    "prompt_shortness": "less than {:,.0f} tokens in a prompt",
}


@dataclass(frozen=True)
class Stock:
    """How much longer engines take as they come than as the vendor tunes them.

    Attributes
    ----------
    start, octave : float
        Mean of the logarithm of the ratio with one request under way, and what each octave of them
        adds.
    between : float
        Standard deviation of that between the models of one stack.
    """

    start: float
    octave: float
    between: float

    def longer(self, users: FloatArray) -> FloatArray:
        """Return the mean of the logarithm of the ratio with so many requests under way."""
        return self.start + self.octave * np.log2(np.maximum(users, 1.0))

    def rounded(self) -> dict[str, float]:
        """Return its figures as they are saved."""
        return {name: round(value, 5) for name, value in asdict(self).items()}


@dataclass(frozen=True)
class Fit:
    """What was learnt of one time."""

    # logarithms of factors on the parts: "" of all runs, others of a group on top of it; shape
    # (n_parts,)
    constants: Mapping[str, FloatArray]
    # variances of `TERMS`, and lengths of `LENGTHS`; shape (n_terms,), (n_lengths,)
    terms: FloatArray
    lengths: FloatArray
    # variance of a run, and the median of the logarithms
    noise: float
    centre: float
    weights: FloatArray  # of the covariances with each run; 0 where a run did not measure this time; shape (n_runs,)
    # standard deviation of the logarithm by `BASES`, `NEW_RELEASE` and `TWO_RUNS`, without and with
    # a queue; of a vendor's GPUs alone after its name ("AMD: new GPU")
    spreads: Mapping[str, tuple[float, float]]
    # by `BASES`, how much is added of what the process and the trees say that the law misses: 0 and
    # 0 leave it to the law, where that erred less
    trust: Mapping[str, tuple[float, float]] = field(default_factory=dict)
    trees: Trees | None = None  # None where they helped no answer
    # None where no run of a stock engine was measured
    stock: Stock | None = None
    # by `Points.stacks`: how much longer the runs of a stack took, in parts of what stock engines
    # take longer (0: as tuned), and its standard deviation
    stacks: Mapping[str, tuple[float, float]] = field(default_factory=dict)
    # by the place of a run, the deviation of the logarithms of repeats of its setting
    repeats: Mapping[str, float] = field(default_factory=dict)
    across: float = 1.0  # what covariances between GPUs of unlike vendors are multiplied by
    # the weights before the user's runs; shape (n_runs,). None where no run is the user's
    published: FloatArray | None = None


@dataclass(frozen=True)
class Served:
    """Times of settings of serving, a value of each: of tuned engines logarithmic normal, else as `law` says."""

    # medians of tuned engines, or of those of own runs; NaN where a figure is missing; shape
    # (n_settings,)
    ttft_ms: FloatArray
    tpot_ms: FloatArray
    # standard deviations of their logarithm; shape (n_settings,)
    ttft_spread: FloatArray
    tpot_spread: FloatArray
    remarks: tuple[Remark, ...] = ()  # what they rest on, and which two runs would narrow them
    # of the time per token of each setting: one of `BASES`, with others of them and `NEW_RELEASE`
    # joined by " and ", or `TWO_RUNS`. A first token is as wide as what itself rests on, which may
    # be less.
    basis: tuple[str, ...] = ()
    # whether a run of the user was cut so over the GPUs, with whatever lengths
    from_runs: tuple[bool, ...] = ()
    # mean of what the logarithm of a stock engine is on top, 0 of tuned ones and those of own runs,
    # and whether either was asked; shape (n_settings,)
    ttft_longer: FloatArray | float = 0.0
    tpot_longer: FloatArray | float = 0.0
    either: BoolArray | bool = False
    # what physics allows at least, ms; 0 where a peak is unknown; shape (n_settings,)
    ttft_least: FloatArray | float = 0.0
    tpot_least: FloatArray | float = 0.0
    # the same of a request with all its tokens, beside the others under way
    request_least: FloatArray | float = 0.0
    # of runs that are carried over: `Law.beneath` and `Law.beneath_share`; shape (n_settings,)
    ttft_beneath: FloatArray | float = -np.inf
    tpot_beneath: FloatArray | float = -np.inf
    ttft_beneath_share: FloatArray | float = 1.0
    tpot_beneath_share: FloatArray | float = 1.0

    def law(self, time: str) -> Law:
        """Return the law of one of `TIMES`, of the engine that was asked for."""
        name = time.removesuffix("_ms")
        parts = ("spread", "longer", "least", "beneath", "beneath_share")
        spread, longer, *bounds = (getattr(self, f"{name}_{part}") for part in parts)
        return Law.of(getattr(self, time), spread, longer, self.either, *bounds)

    def within_peaks(self, answer: FloatArray) -> Served:
        """Return the same times, none sooner than all requests under way allow with answers of so many tokens.

        Each quantile of a time keeps what the other one leaves at the upper end of nine in ten of a
        tuned engine; the medians keep the bound together.
        """
        request = np.asarray(self.request_least)
        tuned = replace(self, ttft_longer=0.0, tpot_longer=0.0)
        late = {time: tuned.law(time).quantiles(ENDS[1:])[..., 0] for time in TIMES}
        further = further_token_left(request, answer, late["ttft_ms"])
        first = first_token_left(request, answer, late["tpot_ms"])
        tpot_least = np.fmax(self.tpot_least, further)
        ttft_least = np.fmax(self.ttft_least, first)
        tpot = np.maximum(self.tpot_ms, tpot_least)
        ttft = np.maximum(self.ttft_ms, ttft_least)
        ttft = np.maximum(ttft, first_token_left(request, answer, tpot))
        return replace(
            self, ttft_ms=ttft, tpot_ms=tpot, ttft_least=ttft_least, tpot_least=tpot_least
        )


@dataclass(frozen=True)
class ServingModel:
    """Runs with weights, and the other learnt figures.

    Attributes
    ----------
    runs : DataFrame
        Settings (`SETTING`) and figures of the models; of the user's runs the measured times and what
        was forecast of them before (`OWN`).
    fits : mapping of str to Fit
        By `TIMES`.
    about : mapping
        Date, sources, licence; of the user's runs that were added by `calibrated` their settings and the
        place of the first.
    slower : mapping of str to float
        Logarithms of how many times longer kernels take than their peak says, against other GPUs
        and engines, by `SLOWED`, GPU, engine ("" for any) and format of the weights, joined by "|".
    """

    runs: pd.DataFrame
    fits: Mapping[str, Fit]
    about: Mapping[str, Any] = field(default_factory=dict)
    slower: Mapping[str, float] = field(default_factory=dict)

    def _logs(
        self,
        rows: pd.DataFrame,
        here: Points,
        time: str,
        trust: FloatArray,
        user_gpu: GPU | None,
    ) -> FloatArray:
        """Return the logarithm of a time of every setting, NaN where a figure is missing.

        The law is that of the setting. What runs add to it is that of the nearest lengths of prompts
        and answers which runs of the model had: beyond them the law alone says how a time changes.
        """
        fit = self.fits[time]
        base, _ = summed(here, fit, time)
        factors = self._factors(fit, rows, here.stacks)[0]
        lengths = self._lengths_measured(rows, here, time)
        if any((as_numbers(rows, name) != nearest).any() for name, nearest in lengths.items()):
            rows = rows.assign(**lengths)
            here = points_of(rows, user_gpu, self.slower)
        shares = summed(here, fit, time)[1]
        sure = np.isfinite(base) & np.isfinite(
            np.column_stack([here.traits[name] for name in LENGTHS[:5]])
        ).all(axis=1)
        logs = np.full(len(base), np.nan)
        runs, run_shares, weights = self._weighted[time]
        for places in np.array_split(np.flatnonzero(sure), max(1, sure.sum() // 1024)):
            added = covariance(here.part(places), runs, shares[places], run_shares, fit) @ weights
            _check_drawn(time, added)
            logs[places] = base[places] + fit.centre + trust[places, 0] * added
        places = np.flatnonzero(sure & (trust[:, 1] > 0))
        if fit.trees is not None and len(places):
            asked = columns(rows, here.steps, shares, fit.trees.words)[places]
            logs[places] += trust[places, 1] * fit.trees.predicted(asked)
        return logs + factors

    def _lengths_measured(
        self, rows: pd.DataFrame, here: Points, time: str
    ) -> dict[str, FloatArray]:
        """Return the lengths of prompts and answers nearest to each setting's that runs of its model had."""
        nearest = {}
        for name in ("input_len", "output_len"):
            lower, upper = self._lengths[time, name].at(here.names["model"])
            nearest[name] = np.clip(as_numbers(rows, name), lower, upper)
        return nearest

    def _learnt(self, time: str) -> BoolArray:
        """Return which runs say what a time is where the same GPUs read prompts and write answers."""
        apart = self.runs["group"].str.endswith("|apart").to_numpy()
        return ~apart & (self.fits[time].weights != 0)

    @cached_property
    def _points(self) -> Points:
        return points_of(self.runs, slower=self.slower)

    @cached_property
    def _weighted(self) -> dict[str, tuple[Points, FloatArray, FloatArray]]:
        """By time the points of the runs that measured it, their shares and weights."""
        weighted = {}
        for time, fit in self.fits.items():
            used = fit.weights != 0
            shares = summed(self._points, fit, time)[1]
            weighted[time] = (self._points.part(used), shares[used], fit.weights[used])
        return weighted

    @cached_property
    def _own_runs(self) -> pd.DataFrame:
        return self.runs[self._owned]

    @cached_property
    def _own_points(self) -> Points:
        return self._points.part(self._owned)

    @cached_property
    def _lengths(self) -> dict[tuple[str, str], _OfModels]:
        """By time and length the least and the most that learnt runs of each model have."""
        lengths = {}
        for time in self.fits:
            learnt = self._learnt(time)
            model = self._points.names["model"][learnt]
            for name in ("input_len", "output_len"):
                values = pd.Series(as_numbers(self.runs, name)[learnt])
                of_all = pd.Series({"min": values.min(), "max": values.max()})
                of_model = values.groupby(model).agg(["min", "max"])
                lengths[time, name] = _OfModels.of(of_model, of_all)
        return lengths

    @cached_property
    def _extents(self) -> dict[tuple[str, bool], _OfModels]:
        """By time, published runs alone or all, the most that learnt runs of each model have (`BEYOND`)."""
        every = pd.DataFrame(extents(self.runs), columns=[*BEYOND])
        most = {}
        for time in self.fits:
            for is_published in (True, False):
                part = self._learnt(time)
                if is_published:
                    part &= ~self._owned
                model = self._points.names["model"][part]
                of_model = every[part].groupby(model).max()
                most[time, is_published] = _OfModels.of(of_model, every[part].max())
        return most

    @configured
    def served(self, rows: pd.DataFrame, user_gpu: GPU | None = None) -> Served:
        """Return the times of settings, with their spread and basis.

        ``rows`` are of the operator ``serving``, with the figures of their models
        (`workloads.serving.described`); ``user_gpu`` is a GPU that the catalogue does not have, or has
        otherwise.
        """
        asked = texts(rows, "tuning") if "tuning" in rows else np.full(len(rows), TUNINGS[0])
        rows = self._released(complete(rows))
        stated = texts(rows, "lengths")
        rows = self._grouped(rows, user_gpu)
        here = points_of(rows, user_gpu, self.slower)
        queued = queues(here.steps).astype(int)
        makers = vendors(rows, user_gpu)
        near = nearness(here, self._own_points)
        values, rests, longers = {}, {}, {}
        floors, shares = {}, {}
        given_back, differ = {}, {}
        before: dict[str, tuple[FloatArray, FloatArray, FloatArray]] = {}
        points_beside: dict[bytes, tuple[pd.DataFrame, Points]] = {}
        names = self._points.names
        owned, told = {}, {}
        prompts = _prompts(rows, here.steps)
        held_up = self._held_up(rows, here, user_gpu, prompts)
        for time in TIMES:
            measured_it = self._owned & (self.fits[time].weights != 0)
            owned[time] = _among(here.names["deployment"], names["deployment"][measured_it])
            of_model = _among(here.names["combination"], names["combination"][measured_it])
            # the runs of the stack that measured the time say how it is set up
            stacked = np.isin(here.stacks, list(self.fits[time].stacks))
            told[time] = stacked | owned[time]
            rests[time] = self._rests(time, rows, here, near, queued, makers, held_up)
            logs = self._logs(rows, here, time, rests[time].trust, user_gpu)
            logs = self._rising(
                time,
                rows,
                here,
                logs,
                rests[time].trust,
                ~owned[time],
                user_gpu,
                points_beside,
            )
            if time == "ttft_ms":
                trust = rests["tpot_ms"].trust
                logs, wider = self._of_short_prompts(rows, here, logs, near, trust, user_gpu)
                wide = np.hypot(rests[time].spread, wider)
                rests[time] = replace(rests[time], spread=wide)
            repeats = self._repeats_of(time, rows, near)
            given_back[time] = repeats.any(axis=1)
            logs, differ[time] = self._given_back(
                time, rows, logs, rests[time].trust, near, repeats, user_gpu
            )
            values[time] = np.exp(logs)
            # as wide as the repeats that are the furthest apart
            spread = np.maximum(rests[time].spread, differ[time] / NINETY_PERCENT)
            carried = self._carried(self.fits[time], rows, here, spread)
            # a model that was run on the GPU with the engine says itself how it is set up there
            over = stacked & ~owned[time] & ~of_model
            wide = np.where(over, carried, spread)
            tuned = told[time] | (asked == TUNINGS[0])
            longers[time] = np.where(tuned, 0.0, self._longer(self.fits[time], rows))
            floors[time] = np.zeros(len(rows))
            if self._owned.any():
                values[time] = self._between(time, rows, values[time], near, user_gpu)
                elsewhere = stacked & ~self._bracketed(time, rows, near)
                if elsewhere.any():
                    # of both times, and asked once
                    before = before or self._before(rows, user_gpu)
                    values[time], floors[time], most = self._in_order(
                        time, here, values[time], elsewhere, before[time]
                    )
                    wide = np.minimum(wide, spread + most / NINETY_PERCENT)
                # else none is sooner than the part of it that they took longer
                longer, _ = self._factors(self.fits[time], rows, here.stacks)
                without = values[time] * np.exp(-np.maximum(longer, 0.0))
                floors[time] = np.where(over & (floors[time] == 0.0), without, floors[time])
            rests[time] = replace(rests[time], spread=wide)
            shares[time] = spread / wide
        # the runs say themselves how long prompts take
        busy = np.where(owned["ttft_ms"], 1.0, SATURATED) * prompts
        answer = as_numbers(rows, "output_len")
        left = first_token_left(busy, answer, values["tpot_ms"])
        later = np.fmax(values["ttft_ms"], np.where(together(rows), left, -np.inf))
        values["ttft_ms"] = np.where(given_back["ttft_ms"], values["ttft_ms"], later)
        leasts, measured = {}, {}
        for time in TIMES:
            floor = np.nan_to_num(least(rows, time, user_gpu))
            # a run of the user within what `serving.impossible` lets pass stays as measured
            measured[time] = values[time] * np.exp(-differ[time])
            leasts[time] = np.where(owned[time], np.fmin(floor, measured[time]), floor)
            values[time] = np.maximum(values[time], leasts[time])
        whole = measured["ttft_ms"] + (answer - 1.0) * measured["tpot_ms"]
        request = request_at_peak(rows, user_gpu)
        from_runs = owned["tpot_ms"] | owned["ttft_ms"]
        request = np.where(from_runs, np.fmin(request, whole), request)
        beneath = {}
        for time in TIMES:
            with np.errstate(divide="ignore"):
                beneath[time] = np.log(floors[time]) - np.log(values[time])
        basis = rests["tpot_ms"].basis
        two = basis == TWO_RUNS
        of_model = self._most(here, "tpot_ms", is_published=True)
        of_setting = self._most_near(here, near, "tpot_ms")
        beyond = (
            *_remarks_beyond("run of the model", of_model, rows, ~two, rests, held_up),
            *_remarks_beyond("own run of the setting", of_setting, rows, two, rests, held_up),
        )
        as_run = told["tpot_ms"] & told["ttft_ms"]
        for time, other in zip(TIMES, reversed(TIMES), strict=True):
            alone = told[time] & ~told[other]
            if alone.any():
                text = (
                    f"own runs measured {time} alone: they do not say how the engine is set up for "
                    f"{other}, which is as wide as without them"
                )
                engines = tuple(dict.fromkeys(texts(rows, "engine")[alone].tolist()))
                beyond = (remark("own-time-alone", text, time=time, engines=engines), *beyond)
        if as_run.any():
            text = "own runs say how the engine is set up, on this vendor's GPUs: "
            named = [word for word in TUNINGS if "tuning" in rows and (asked[as_run] == word).any()]
            if named:
                text += f"tuning={named[0]} changes nothing there"
            else:
                text += "tuning is not asked"
            engines = tuple(dict.fromkeys(texts(rows, "engine")[as_run].tolist()))
            beyond = (remark("own-stack", text, engines=engines), *beyond)
        served = Served(
            ttft_ms=values["ttft_ms"],
            tpot_ms=values["tpot_ms"],
            ttft_spread=rests["ttft_ms"].spread,
            tpot_spread=rests["tpot_ms"].spread,
            basis=tuple(basis.tolist()),
            from_runs=tuple(from_runs.tolist()),
            ttft_longer=longers["ttft_ms"],
            tpot_longer=longers["tpot_ms"],
            either=asked == EITHER,
            ttft_least=leasts["ttft_ms"],
            tpot_least=leasts["tpot_ms"],
            request_least=request,
            ttft_beneath=beneath["ttft_ms"],
            tpot_beneath=beneath["tpot_ms"],
            ttft_beneath_share=shares["ttft_ms"],
            tpot_beneath_share=shares["tpot_ms"],
        ).within_peaks(answer)
        of_lengths = self._on_lengths(rows, stated, rests["ttft_ms"].trust, user_gpu)
        remarks = (*self._remarks(rests, queued, served, as_run), *of_lengths, *beyond)
        return replace(served, remarks=remarks)

    def _grouped(self, rows: pd.DataFrame, user_gpu: GPU | None) -> pd.DataFrame:
        """Return settings with whose constants they have, and the lengths of the nearest runs where they state none.

        These are runs of the stack that repeat the prompts and answers; without any they are drawn.
        """
        if "group" in rows:
            return rows
        stacks = stacks_of(rows, user_gpu)
        lengths = texts(rows, "lengths")
        at = np.flatnonzero((lengths == "") & together(rows) & np.isin(stacks, [*self._waves]))
        if len(at):
            prompt, answer = (as_numbers(rows, name)[at] for name in ("input_len", "output_len"))
            codes, levels = distinct(stacks[at], prompt, answer)
            nearest = [_nearest_lengths(self._waves[stack], *both) for stack, *both in levels]
            lengths[at] = np.array(nearest, dtype=object)[codes]
        # one request waits for no wave
        alone = (as_numbers(rows, "concurrency") <= 1.0) & ~np.isin(stacks, self._own_waves)
        lengths = np.where(alone & (lengths == EQUAL), DRAWN, lengths)
        return self._with_group(rows.assign(lengths=lengths), stacks, user_gpu)

    def _with_group(
        self, rows: pd.DataFrame, stacks: np.ndarray, user_gpu: GPU | None
    ) -> pd.DataFrame:
        """Return runs with whose constants they have: of equal lengths where such runs of the stack were published."""
        known = np.isin(stacks, [*self._waves])
        lengths = np.where(known, texts(rows, "lengths"), "")
        return rows.assign(group=groups(rows.assign(lengths=lengths), user_gpu))

    @cached_property
    def _waves(self) -> dict[str, pd.DataFrame]:
        """By stack of which runs with equal lengths were published, the lengths of its runs, the user's first."""
        runs = self.runs[["input_len", "output_len"]].assign(
            stack=self._points.stacks,
            equal=self.runs["group"].str.endswith(f"|{EQUAL}"),
            published=~self._owned,
        )
        known = runs.loc[runs["equal"] & runs["published"], "stack"].unique()
        runs = runs[runs["stack"].isin(known) & together(self.runs)]
        runs = runs.sort_values("published", kind="stable")
        distinct_runs = runs.drop_duplicates(["stack", "input_len", "output_len", "equal"])
        return {str(stack): of_stack for stack, of_stack in distinct_runs.groupby("stack")}

    @cached_property
    def _own_waves(self) -> np.ndarray:
        """The stacks of the user's runs that state equal lengths, shape (n,)."""
        return self._own_points.stacks[texts(self._own_runs, "lengths") == EQUAL]

    def _on_lengths(
        self, rows: pd.DataFrame, stated: np.ndarray, trust: FloatArray, user_gpu: GPU | None
    ) -> Iterator[Remark]:
        """Say where equal lengths are answered that nobody asked for, and where they are asked and no run has them.

        ``trust`` is of the first token.
        """
        equal = rows["group"].str.endswith(f"|{EQUAL}").to_numpy()
        engines = texts(rows, "engine")
        assumed = np.flatnonzero(equal & (stated == ""))
        if len(assumed):
            pair = rows.iloc[assumed[[0, 0]]].reset_index(drop=True).assign(lengths=[EQUAL, DRAWN])
            pair = self._with_group(pair, stacks_of(pair, user_gpu), user_gpu)
            points = points_of(pair, user_gpu, self.slower)
            logs = self._logs(pair, points, "ttft_ms", trust[assumed[[0, 0]]], user_gpu)
            ratio = float(np.exp(logs[1] - logs[0]))
            text = (
                f"runs of {engines[assumed[0]]} with such prompts and answers have equal lengths, so "
                f"requests come in waves: lengths={DRAWN} asks for mixed ones, which take {ratio:.2g} "
                "times as long to the first token with as many requests under way"
            )
            if np.isfinite(ratio):
                yield remark("lengths-as-published", text, ratio=ratio)
        lacking = (stated == EQUAL) & ~equal & together(rows)
        lacking &= as_numbers(rows, "concurrency") > 1.0
        lacking &= ~np.isin(stacks_of(rows, user_gpu), self._own_waves)
        for engine in dict.fromkeys(engines[lacking].tolist()):
            text = (
                f"no run of {engine} with equal lengths was published on this vendor's GPUs, so the "
                "answer is that of mixed ones: equal ones made first tokens of atom on MI355X take "
                "about twice as long"
            )
            yield remark("lengths-unknown", text, engine=engine)

    def _held_up(
        self, rows: pd.DataFrame, here: Points, user_gpu: GPU | None, prompts: FloatArray
    ) -> FloatArray:
        """Return what other requests can add to the deviation of a time (`serving_limits.contention`).

        How long a request takes alone is what the law says.
        """
        alone = points_of(rows.assign(concurrency=1.0), user_gpu, self.slower, here)
        times = {}
        for time in TIMES:
            fit = self.fits[time]
            times[time] = np.exp(summed(alone, fit, time)[0] + fit.centre)
        answer = as_numbers(rows, "output_len")
        whole = times["ttft_ms"] + (answer - 1.0) * times["tpot_ms"]
        users = as_numbers(rows, "concurrency")
        return contention(users, times["ttft_ms"], whole, prompts)

    def _of_short_prompts(
        self,
        rows: pd.DataFrame,
        here: Points,
        logs: FloatArray,
        near: FloatArray,
        trust: FloatArray,
        user_gpu: GPU | None,
    ) -> tuple[FloatArray, FloatArray]:
        """Return logarithms of first tokens, and what prompts shorter than any measured add to their deviations.

        `serving_limits.towards_a_step` says both; ``trust`` is of the time per token.
        """
        most = self._most_near(here, near, "ttft_ms")["prompt_shortness"]
        tokens, measured = as_numbers(rows, "input_len"), 1.0 / most
        at = np.flatnonzero((tokens < measured) & np.isfinite(logs))
        wider = np.zeros(len(rows))
        if not len(at):
            return logs, wider
        asked = rows.iloc[at].assign(input_len=1.0).reset_index(drop=True)
        points = points_of(asked, user_gpu, self.slower)
        step = self._logs(asked, points, "tpot_ms", trust[at], user_gpu)
        every = np.ones(len(at), dtype=bool)
        step = self._rising("tpot_ms", asked, points, step, trust[at], every, user_gpu, {})
        shorter = logs.copy()
        shorter[at], wider[at] = towards_a_step(logs[at], step, tokens[at], measured[at])
        return shorter, wider

    def _rising(
        self,
        time: str,
        rows: pd.DataFrame,
        here: Points,
        logs: FloatArray,
        trust: FloatArray,
        where: BoolArray,
        user_gpu: GPU | None,
        points_beside: dict[bytes, tuple[pd.DataFrame, Points]],
    ) -> FloatArray:
        """Return logarithms of a time that fall nowhere with more requests under way.

        In some places (``where``) each is the mean of the most that fewer requests take and of the
        least that more take, of `LOADS` and itself: what rises already is left as it is. The points
        of these loads are kept in ``points_beside`` for the other time of the same rows.
        """
        rising = logs.copy()
        at = np.flatnonzero(where & np.isfinite(logs))
        if not len(at):
            return rising
        same = rows.iloc[at].drop(columns="concurrency").to_numpy(dtype=object)
        same[pd.isna(same)] = None
        setting, _ = distinct(*same.T)
        users = as_numbers(rows, "concurrency")[at]
        answers = pd.DataFrame({"setting": setting, "users": users, "log": logs[at]})
        first = at[np.unique(setting, return_index=True)[1]]
        loads = pd.DataFrame(
            {
                "setting": np.repeat(np.arange(len(first)), len(LOADS)),
                "users": np.tile(LOADS, len(first)),
                "place": np.repeat(first, len(LOADS)),
            }
        )
        asked = {*zip(setting.tolist(), users.tolist(), strict=True)}
        pairs = zip(loads["setting"], loads["users"], strict=True)
        loads = loads[[pair not in asked for pair in pairs]]
        if len(loads):
            place = loads["place"].to_numpy()
            loaded = loads["users"].to_numpy()
            key = place.tobytes() + loaded.tobytes()
            if key not in points_beside:
                beside = rows.iloc[place].assign(concurrency=loaded).reset_index(drop=True)
                alike = here.part(place)
                points_beside[key] = (beside, points_of(beside, user_gpu, self.slower, alike))
            beside, points = points_beside[key]
            loads["log"] = self._logs(beside, points, time, trust[place], user_gpu)
            answers = pd.concat([answers, loads], ignore_index=True)
        every = answers.sort_values("users", kind="stable")
        rise = every.groupby("setting")["log"].cummax()
        fall = every[::-1].groupby("setting")["log"].cummin()
        rising[at] = ((rise + fall) / 2.0).sort_index().to_numpy()[: len(at)]
        return rising

    def _longer(self, fit: Fit, rows: pd.DataFrame) -> FloatArray:
        """Return the mean of what the logarithm of each setting is on top where the engine is stock."""
        if fit.stock is None:
            return np.zeros(len(rows))
        return fit.stock.longer(as_numbers(rows, "concurrency"))

    def _factors(
        self, fit: Fit, rows: pd.DataFrame, stacks: np.ndarray
    ) -> tuple[FloatArray, FloatArray]:
        """Return the logarithms of the factors of own stacks on each setting, and their deviations."""
        parts = np.reshape([fit.stacks.get(stack, (0.0, 0.0)) for stack in stacks], (-1, 2))
        longer = self._longer(fit, rows)
        return parts[:, 0] * longer, parts[:, 1] * longer

    def _carried(
        self, fit: Fit, rows: pd.DataFrame, here: Points, spread: FloatArray
    ) -> FloatArray:
        """Return deviations of settings of which the user ran other settings of the stack alone.

        They are no wider than those of an engine that may be either.
        """
        _, doubt = self._factors(fit, rows, here.stacks)
        between = fit.stock.between if fit.stock is not None else 0.0
        carried = np.sqrt(np.square(spread) + np.square(doubt) + between**2)
        return np.minimum(carried, Law.of(1.0, spread, self._longer(fit, rows), True).half_width)

    def _stacks(
        self, runs: pd.DataFrame, points: Points, user_gpu: GPU | None
    ) -> dict[str, dict[str, tuple[float, float]]]:
        """Return `Fit.stacks` of each time, with those of the user's runs added that have none.

        What the runs of a deployment missed (its median) is a measurement of the stack's part,
        with the deviation of what the answer rests on and of that between models. Before them it is
        that of a tuned engine, none, with the deviation `UNTUNED`.
        """
        before = self.served(runs.assign(tuning=TUNINGS[0]), user_gpu)
        stacks = {}
        for time in TIMES:
            fit = self.fits[time]
            stacks[time] = dict(fit.stacks)
            if fit.stock is None:
                continue
            spread = getattr(before, time.replace("_ms", "_spread"))
            longer = self._longer(fit, runs)
            with np.errstate(invalid="ignore", divide="ignore"):
                missed = np.log(as_numbers(runs, time) / getattr(before, time)) / longer
                variance = (np.square(spread) + fit.stock.between**2) / np.square(longer)
            table = pd.DataFrame(
                {
                    "stack": points.stacks,
                    "deployment": points.names["deployment"],
                    "missed": missed,
                    "variance": variance,
                }
            )
            table = table[np.isfinite(table["missed"])]
            for stack, rows in table.groupby("stack"):
                if stack in stacks[time]:
                    continue
                each = rows.groupby("deployment")[["missed", "variance"]].median()
                weights = 1.0 / each["variance"]
                sure = 1.0 / UNTUNED**2 + float(weights.sum())
                mean = float((weights * each["missed"]).sum())
                stacks[time][str(stack)] = (mean / sure, float(np.sqrt(1.0 / sure)))
        return stacks

    @cached_property
    def _owned(self) -> BoolArray:
        """Which runs are the user's."""
        return np.arange(len(self.runs)) >= self.about.get("own_from", len(self.runs))

    @property
    def calibrated_settings(self) -> int:
        """Number of settings of which the user measured both times with two or more numbers of requests under way."""
        users = as_numbers(self._own_runs, "concurrency")
        loads = pd.DataFrame({"setting": settings_of(self._own_points)})
        for time in TIMES:
            measured = self.fits[time].weights[self._owned] != 0
            loads[time] = np.where(measured, users, np.nan)
        counts = loads.groupby("setting")[[*TIMES]].nunique()
        return int(counts.gt(1).all(axis=1).sum())

    @property
    def contradictions(self) -> Iterator[Remark]:
        """A remark on each time of which repeats among the user's runs contradict each other."""
        return contradicting(self._own_runs, self)

    def _released(self, rows: pd.DataFrame) -> pd.DataFrame:
        """Return settings, those without a release with that of the user's last run on their GPU and engine."""
        if self._own_runs.empty:
            return rows
        places = zip(*(texts(self._own_runs, name) for name in ("device", "engine")), strict=True)
        last = dict(zip(places, texts(self._own_runs, "engine_version"), strict=True))
        asked = zip(
            *(texts(rows, name) for name in ("engine_version", "device", "engine")), strict=True
        )
        return rows.assign(
            engine_version=[named or last.get(tuple(place), "") for named, *place in asked]
        )

    def _rests(
        self,
        time: str,
        rows: pd.DataFrame,
        here: Points,
        near: FloatArray,
        queued: np.ndarray,
        makers: Sequence[str],
        held_up: FloatArray,
    ) -> _Rests:
        """Return the rests of a time of settings: published runs, or the user's too where that is surer.

        Two of the user's runs near a setting make it as sure as `TWO_RUNS`, those less near as sure as the
        square of `nearness` says between that and the other runs. One alone is another setting
        of what was measured.
        """
        fit = self.fits[time]
        learnt = fit.weights != 0
        plain = bases(here.names, self._names(learnt & ~self._owned))
        of_model = _doublings(rows, self._most(here, time, is_published=True))
        rests = _rested(plain, fit, queued, makers).beyond(time, of_model, held_up)
        if not (learnt & self._owned).any():
            return rests
        every = zip(bases(here.names, self._names(learnt)), plain, strict=True)
        once = [basis if before == (KNOWN,) else _as_new_setting(basis) for basis, before in every]
        with_runs = _rested(once, fit, queued, makers).drawn_to_two(
            self._two_near(near, time), fit, queued
        )
        of_setting = _doublings(rows, self._most_near(here, near, time))
        repeated = self._repeated(near, time)
        rests, with_runs = rests.repeated(repeated), with_runs.repeated(repeated)
        with_runs = with_runs.beyond(time, of_setting, held_up)
        # far beyond the user's runs it is as sure as without
        return with_runs.unless(rests, rests.spread < with_runs.spread)

    def _repeated(self, near: FloatArray, time: str) -> FloatArray:
        """Return the deviation that repeats of the user's settings near each setting had, shape (n,)."""
        deviations = np.zeros(near.shape[1])
        for number, place in enumerate(np.flatnonzero(self._owned)):
            deviations[number] = self.fits[time].repeats.get(str(place), 0.0)
        return (near * deviations).max(axis=1, initial=0.0)

    def _names(self, runs: BoolArray) -> dict[str, np.ndarray]:
        return {name: codes[runs] for name, codes in self._points.names.items()}

    def _two_near(self, near: FloatArray, time: str) -> FloatArray:
        """Return how near the second of the user's runs is, with unlike requests under way, shape (n,)."""
        measured = self.fits[time].weights[self._owned] != 0
        users = as_numbers(self._own_runs, "concurrency")
        nearest = [
            near[:, measured & (users == many)].max(axis=1) for many in np.unique(users[measured])
        ]
        if len(nearest) > 1:
            return np.sort(nearest, axis=0)[-2]
        return np.zeros(len(near))

    def _between(
        self,
        time: str,
        rows: pd.DataFrame,
        values: FloatArray,
        near: FloatArray,
        user_gpu: GPU | None,
    ) -> FloatArray:
        """Return a time, kept in the bounds of the user's runs of the setting with fewer and more requests.

        Between two runs that are slower than others the process draws back to its mean, and may say
        that more requests are served faster. No answer lies outside of what both runs took. Beyond
        the run with the most requests no answer takes less than it.
        """
        fewer, more = self._loads_beside(time, rows, near)
        times = values.copy()
        at = np.flatnonzero(np.isfinite(fewer) & np.isfinite(more) & (fewer < more))
        if len(at):
            ends = [
                self._of_runs(time, rows.iloc[at], many[at], user_gpu) for many in (fewer, more)
            ]
            times[at] = np.clip(values[at], np.minimum(*ends), np.maximum(*ends))
        at = np.flatnonzero(np.isfinite(fewer) & np.isinf(more))
        if len(at):
            low = self._of_runs(time, rows.iloc[at], fewer[at], user_gpu)
            times[at] = np.maximum(values[at], low)
        return times

    def _loads_beside(
        self, time: str, rows: pd.DataFrame, near: FloatArray
    ) -> tuple[FloatArray, FloatArray]:
        """Return how many requests the nearest of the user's runs of each setting have, no more and no fewer than it.

        Minus infinity and infinity where there is none.
        """
        measured = (near >= MATCHED) & (self.fits[time].weights[self._owned] != 0)
        users = as_numbers(rows, "concurrency")
        # shape (n_asked, n_own)
        apart = as_numbers(self._own_runs, "concurrency") - users[:, None]
        fewer = np.where(measured & (apart <= 0), apart, -np.inf).max(axis=1)
        more = np.where(measured & (apart >= 0), apart, np.inf).min(axis=1)
        return users + fewer, users + more

    def _bracketed(self, time: str, rows: pd.DataFrame, near: FloatArray) -> BoolArray:
        """Return which settings the user ran with no more and with no fewer requests under way."""
        fewer, more = self._loads_beside(time, rows, near)
        return np.isfinite(fewer) & np.isfinite(more)

    def _of_runs(
        self, time: str, rows: pd.DataFrame, users: FloatArray, user_gpu: GPU | None
    ) -> FloatArray:
        """Return a time with ``users`` requests under way, ms."""
        asked = rows.assign(concurrency=users).reset_index(drop=True)
        points = points_of(asked, user_gpu, self.slower)
        whole = np.tile([1.0, 0.0], (len(asked), 1))
        near = nearness(points, self._own_points)
        logs = self._logs(asked, points, time, whole, user_gpu)
        repeats = self._repeats_of(time, asked, near)
        return np.exp(self._given_back(time, asked, logs, whole, near, repeats, user_gpu)[0])

    def _repeats_of(self, time: str, rows: pd.DataFrame, near: FloatArray) -> BoolArray:
        """Return which of the user's runs are of each setting itself, shape (n_asked, n_own).

        They have as many requests under way and match its lengths. The nearest of them count, and of
        these the ones that share the most of `CONDITIONS`.
        """
        measured = self._own_runs
        if measured.empty:
            return np.zeros(near.shape, dtype=bool)
        same = (near >= MATCHED) & (self.fits[time].weights[self._owned] != 0)
        users = as_numbers(rows, "concurrency")
        same &= users[:, None] == as_numbers(measured, "concurrency")
        nearest = np.where(same, near, 0.0).max(axis=1, initial=0.0)
        same &= near > nearest[:, None] - (1.0 - REPEATED)
        shared = np.zeros(near.shape)
        for name in CONDITIONS:
            shared += _words_of(rows, name)[:, None] == _words_of(measured, name)
        best = np.where(same, shared, -1.0).max(axis=1, initial=-1.0)
        return same & (shared == best[:, None])

    def _given_back(
        self,
        time: str,
        rows: pd.DataFrame,
        logs: FloatArray,
        trust: FloatArray,
        near: FloatArray,
        repeats: BoolArray,
        user_gpu: GPU | None,
    ) -> tuple[FloatArray, FloatArray]:
        """Return logarithms with what was measured of settings, and how far from it a repeat lies at most.

        Where the user ran a setting itself, the answer is the geometric mean of what was measured. With
        other lengths what the forecast of the runs lacks is added as far as the lengths are near.
        Of `CONDITIONS` those that a run does not state are as asked.
        """
        given, apart = logs.copy(), np.zeros(len(logs))
        asked, place = np.nonzero(repeats)
        if not len(asked):
            return given, apart
        runs = self._own_runs.iloc[place].reset_index(drop=True)
        beside = rows.iloc[asked].reset_index(drop=True)
        for name in CONDITIONS:
            is_stated = _words_of(runs, name) != ""
            runs[name] = runs[name].where(is_stated, beside[name])
        places = points_of(runs, user_gpu, self.slower)
        said = self._logs(runs, places, time, trust[asked], user_gpu)
        lacking = pd.Series(np.log(as_numbers(runs, time)) - said).groupby(asked)
        middle = lacking.mean()
        at = middle.index.to_numpy()
        given[at] += near[at].max(axis=1) * middle.to_numpy()
        above = lacking.max() - middle
        below = middle - lacking.min()
        apart[at] = np.maximum(above.to_numpy(), below.to_numpy())
        return given, apart

    @cached_property
    def _published(self) -> ServingModel:
        """The model before the user's runs."""
        count = int((~self._owned).sum())
        if count == len(self.runs):
            return self
        fits = {}
        for time, fit in self.fits.items():
            assert fit.published is not None
            fits[time] = replace(
                fit, weights=fit.published[:count], stacks={}, repeats={}, published=None
            )
        about = {name: value for name, value in self.about.items() if name != "own_from"}
        return replace(self, runs=self.runs.iloc[:count], fits=fits, about=about)

    def _before(
        self, rows: pd.DataFrame, user_gpu: GPU | None
    ) -> dict[str, tuple[FloatArray, FloatArray, FloatArray]]:
        """Return by time the medians of a tuned and of a stock engine that published runs alone say.

        The third is the median of the law of tuned engines that has the lower end of the stock one.
        """
        served = self._published.served(rows.assign(tuning=TUNINGS[1]), user_gpu)
        medians = {}
        for time in TIMES:
            tuned = getattr(served, time)
            lower, stock = served.law(time).quantiles([ENDS[0], 0.0]).T
            spread = getattr(served, time.replace("_ms", "_spread"))
            lowest = lower * np.exp(NINETY_PERCENT * spread)
            medians[time] = (tuned, np.maximum(stock, tuned), np.clip(lowest, tuned, stock))
        return medians

    def _reach(self, time: str, here: Points) -> tuple[FloatArray, FloatArray]:
        """Return the least and the most `reach_of` the user's runs, as far as they tell of each setting, shape (n,).

        Those of the deployment tell, else those of the model on the GPU, else those of the stack; NaN
        without any.
        """
        users = self._own_points
        runs = pd.DataFrame(
            {
                "reach": reach_of(self._own_runs, time),
                "stack": users.stacks,
                "combination": users.names["combination"],
                "deployment": users.names["deployment"],
            }
        )
        least, most = np.full((2, len(here.group)), np.nan)
        for level in ("stack", "combination", "deployment"):
            asked = here.stacks if level == "stack" else here.names[level]
            ends = runs.groupby(level)["reach"].agg(["min", "max"]).reindex(asked)
            least = np.where(ends["min"].notna(), ends["min"], least)
            most = np.where(ends["max"].notna(), ends["max"], most)
        return least, most

    def _in_order(
        self,
        time: str,
        here: Points,
        values: FloatArray,
        where: BoolArray,
        before: tuple[FloatArray, FloatArray, FloatArray],
    ) -> tuple[FloatArray, FloatArray, FloatArray]:
        """Return a time of settings of the user's stacks, in the order of the user's runs, tuned and stock engines.

        Where all runs took longer than a tuned engine, no answer is nearer to it, and to a stock one,
        than the nearest of them; where all took longer than a stock one, none is sooner than that. Where
        all took less than a tuned engine, none is later than that. Beside the times come the medians
        of the laws that bound them from below, ms, and how much later a tuned engine is where it bounds
        them from above, in logarithms; 0 and infinity where nothing does. ``before`` is that of `_before`.
        """
        tuned, stock, lowest = before
        least, most = self._reach(time, here)
        slower = where & (least > 0.0)
        faster = where & (most <= 0.0)
        part = np.clip(np.nan_to_num(least), 0.0, 1.0)
        between = tuned ** (1.0 - part) * stock**part
        bounded = np.where(slower, np.fmax(values, between), values)
        bounded = np.where(faster, np.fmin(values, tuned), bounded)
        later = np.where(faster, np.log(tuned / bounded), np.inf)
        beneath = tuned ** (1.0 - part) * lowest**part
        return bounded, np.where(slower, beneath, 0.0), later

    def _most(self, here: Points, time: str, *, is_published: bool) -> dict[str, FloatArray]:
        """Return by column of `BEYOND` the most that the learnt runs of each setting's model have, else that of all.

        These are the published runs alone (``is_published``), or those of the user too.
        """
        largest = self._extents[time, is_published].at(here.names["model"])
        return dict(zip(BEYOND, largest, strict=True))

    def _most_near(self, here: Points, near: FloatArray, time: str) -> dict[str, FloatArray]:
        """Return the same of the user's runs that match each setting, where any does."""
        largest = self._most(here, time, is_published=False)
        matched = (near >= MATCHED) & (self.fits[time].weights[self._owned] != 0)
        own = extents(self._own_runs)
        for name, values in largest.items():
            extent = own[name]
            of_matched = np.where(matched, extent, 0.0).max(axis=1, initial=0.0)
            largest[name] = np.where(matched.any(axis=1), of_matched, values)
        return largest

    def _remarks(
        self,
        rests: Mapping[str, _Rests],
        queued: np.ndarray,
        served: Served,
        as_run: BoolArray,
    ) -> list[Remark]:
        said, first = (rests[time].basis for time in TIMES)
        if not len(said):
            return []
        widest = str(
            max(
                dict.fromkeys(said),
                key=lambda one: float(rests["tpot_ms"].within[said == one].mean()),
            )
        )
        at = said == widest
        now = [_factor(float(np.median(rests[time].within[at]))) for time in TIMES]
        then = [
            _factor(self.fits[time].spreads[TWO_RUNS][int(np.median(queued[at]))]) for time in TIMES
        ]
        other = str(first[at][0])
        kinds = [f"setting with {TWO_RUNS}" if one == TWO_RUNS else one for one in (widest, other)]
        whole = self.about.get("runs", len(self.runs))
        published = self.about.get("own_from", whole)
        runs = f"{published:,} published runs"
        if published < whole:
            runs += f" and {whole - published:,} of your own"
        if as_run[at].all():
            tuned = ""
        else:
            tuned = "as tuned, "
        as_it_comes = ""
        law = served.law("tpot_ms")
        if ((law.longer > 0.0) & ~law.either)[at].all():
            times = []
            for time in TIMES:
                ends = served.law(time).quantiles(ENDS) / getattr(served, time)[:, None]
                times.append("{:.2f} to {:.2f}".format(*np.median(ends[at], axis=0)))
            as_it_comes = (
                f"; as the engine comes, which is asked, 9 in 10 take {times[0]} times as long per "
                f"token and {times[1]} times to the first one"
            )
        text = (
            f"learnt from {runs} ({self.about.get('made', 'own')}); this is a {kinds[0]}"
            + (f", to the first token a {kinds[1]}" if other != widest else "")
            + f": {tuned}9 in 10 such runs lay within a factor of {now[0]:.2f} per token and "
            f"{now[1]:.2f} to the first one{as_it_comes}"
        )
        remarks = [
            remark(
                "serving-basis",
                text,
                basis=widest,
                first=other,
                runs=len(self.runs),
                tpot=now[0],
                ttft=now[1],
            )
        ]
        if widest != KNOWN and TWO_RUNS not in widest:
            text = (
                "two measured runs of this setting, with the fewest and the most requests under "
                "way, narrow it to a "
                f"factor of {then[0]:.2f} per token and {then[1]:.2f} to the first one: flopcast "
                "calibrate takes them"
            )
            remarks.append(remark("two-runs", text, tpot=then[0], ttft=then[1]))
        return remarks

    @configured
    def calibrated(self, runs: pd.DataFrame, user_gpu: GPU | None = None) -> ServingModel:
        """Return the model with the user's measured runs added to those that it was learnt from.

        Raises DataError: no run has a time, a model with figures and a GPU of the catalogue.
        """
        runs = complete(runs).reset_index(drop=True)
        version = pd.Series(texts(runs, "engine_version"))
        runs = self._with_group(runs, stacks_of(runs, user_gpu), user_gpu)
        runs = runs.assign(engine_version=version.where(version.ne(""), OWN_RELEASE))
        points = points_of(runs, user_gpu, self.slower)
        for time, medians in self._before(runs, user_gpu).items():
            names = [f"{how}_{time}" for how in TUNINGS]
            runs = runs.assign(**dict(zip(names, medians[:2], strict=True)))
        fits = {}
        setting = settings_of(points)
        stacks = self._stacks(runs, points, user_gpu)
        for time in TIMES:
            fit = replace(self.fits[time], stacks=stacks[time])
            factors, _ = self._factors(fit, runs, points.stacks)
            base, shares = summed(points, fit, time)
            with np.errstate(invalid="ignore", divide="ignore"):
                missing = np.log(as_numbers(runs, time)) - base - fit.centre - factors
            new = np.isfinite(missing)
            weights = np.concatenate([fit.weights, np.zeros(len(runs))])
            if new.any():
                old = np.append(fit.weights != 0, np.zeros(len(runs), dtype=bool))
                weights[old], weights[len(self.runs) :][new] = self._with_runs(
                    fit,
                    time,
                    points.part(new),
                    shares[new],
                    missing[new],
                    factors[new],
                    setting[new],
                )
            repeats = dict(fit.repeats)
            deviations = deviation_of_repeats(runs, points, time)
            for place in np.flatnonzero(deviations > 0.0):
                repeats[str(len(self.runs) + place)] = float(deviations[place])
            published = self._published.fits[time].weights
            published = np.append(published, np.zeros(len(weights) - len(published)))
            fits[time] = replace(fit, weights=weights, repeats=repeats, published=published)
        if all((fits[time].weights[len(self.runs) :] == 0).all() for time in TIMES):
            raise DataError(
                "no run has a time to learn from: tpot_ms or ttft_ms, of a known model on a known "
                "GPU"
            )
        added = kept(runs).assign(**{name: as_numbers(runs, name) for name in OWN})
        joined = pd.concat([self.runs, added], ignore_index=True)
        about = {
            **self.about,
            "own_from": self.about.get("own_from", len(self.runs)),
            "runs": len(joined),
        }
        return replace(self, runs=joined, fits=fits, about=about)

    def _with_runs(
        self,
        fit: Fit,
        time: str,
        points: Points,
        shares: FloatArray,
        missing: FloatArray,
        factors: FloatArray,
        setting: np.ndarray,
    ) -> tuple[FloatArray, FloatArray]:
        """Return the weights of the learnt runs and of added ones, which the law misses by ``missing``.

        With A the covariances of the learnt runs, B those with added ones and C those of added ones, w
        the weights before, the added ones are S⁻¹ (missing - Bᵀ w), S = C - Bᵀ A⁻¹ B, and the learnt
        ones w - A⁻¹ B times these: what the learnt runs missed (A w) stays.
        """
        from scipy.linalg import cho_factor, cho_solve  # a forecast need not wait for it

        old = fit.weights != 0
        before = fit.weights[old]
        learnt = self._points.part(old)
        theirs = summed(self._points, fit, time)[1][old]
        beside = covariance(learnt, points, theirs, shares, fit)
        inner = covariance(points, points, shares, shares, fit)
        missed = missing - beside.T @ before
        doubt = doubted(missed + factors, setting)
        inner[np.diag_indices(len(inner))] += fit.noise + doubt
        factor = factor_of(learnt, theirs, fit)
        solved = cho_solve(factor, beside, check_finite=False)
        weights = cho_solve(cho_factor(inner - beside.T @ solved, lower=True), missed)
        return before - solved @ weights, weights

    def save(self, path: Path) -> None:
        """Write the model as Parquet: settings and weights as columns, the rest as JSON of its metadata."""
        import pyarrow.parquet as pq

        table = self.runs.copy()
        state = {}
        for time, fit in self.fits.items():
            table[f"weight_{time}"] = fit.weights.astype(np.float32)
            if fit.published is not None:
                table[f"published_{time}"] = fit.published.astype(np.float32)
            state[time] = {
                "constants": {
                    name: np.round(values, 4).tolist() for name, values in fit.constants.items()
                },
                "terms": np.asarray(fit.terms).tolist(),
                "lengths": np.asarray(fit.lengths).tolist(),
                "noise": fit.noise,
                "centre": round(fit.centre, 6),
                "spreads": {name: np.round(both, 5).tolist() for name, both in fit.spreads.items()},
                "trust": dict(fit.trust),
                "trees": fit.trees and fit.trees.to_json(),
                "stock": fit.stock and fit.stock.rounded(),
                "stacks": {name: np.round(both, 5).tolist() for name, both in fit.stacks.items()},
                "repeats": {place: round(wide, 5) for place, wide in fit.repeats.items()},
                "across": fit.across,
            }
        said = {
            "flopcast": "serving model 2",
            "fits": json.dumps(state),
            "about": json.dumps(dict(self.about)),
        }
        said["slower"] = json.dumps({name: round(value, 4) for name, value in self.slower.items()})
        columns = pa.Table.from_pandas(table, preserve_index=False).replace_schema_metadata()
        said[serving_artifact.SEAL] = serving_artifact.seal_of(columns, said)
        # beside the schema, which is written twice
        with pq.ParquetWriter(
            path, columns.schema, compression="zstd", compression_level=19, version="2.6"
        ) as writer:
            writer.write_table(columns)
            writer.add_key_value_metadata(said)


def load(file: Path, *, ours: bool = False) -> ServingModel:
    """Return a saved model; `serving_artifact.read` checks it.

    ``ours`` is the file of the package.

    Raises
    ------
    DataError
        It is no such file, was changed, or its numbers do not fit together.
    """
    parts = serving_artifact.read(file, ours=ours)
    runs, fits = parts.runs, {}
    try:
        for time in TIMES:
            state = parts.fits[time]
            stock = trees = published = None
            if f"published_{time}" in runs:
                published = runs.pop(f"published_{time}").to_numpy(dtype=np.float64)
            if state.stock is not None:
                stock = Stock(**msgspec.structs.asdict(state.stock))
            if state.trees is not None:
                trees = Trees.from_json(msgspec.to_builtins(state.trees))
            fits[time] = Fit(
                constants={name: np.array(values) for name, values in state.constants.items()},
                terms=np.array(state.terms, dtype=np.float64).reshape(len(TERMS)),
                lengths=np.array(state.lengths, dtype=np.float64).reshape(len(LENGTHS)),
                noise=state.noise,
                centre=state.centre,
                weights=runs.pop(f"weight_{time}").to_numpy(dtype=np.float64),
                published=published,
                spreads=state.spreads,
                trust=state.trust,
                trees=trees,
                stock=stock,
                stacks=state.stacks,
                repeats=state.repeats,
                across=state.across,
            )
        missing = []
        for name in (*SETTING, *(dim.name for dim in FIGURES)):
            if name not in runs:
                missing.append(name)
        if parts.about.get("own_from", len(runs)) < len(runs):
            missing += [
                f"{name} of the runs: calibrate it anew" for name in OWN if name not in runs
            ]
            for time in TIMES:
                if fits[time].published is None:
                    missing.append(f"published_{time} of the runs: calibrate it anew")
        missing += sorted({*BASES, NEW_RELEASE, TWO_RUNS}.difference(*[fits["tpot_ms"].spreads]))
        missing += sorted({*BASES, NEW_RELEASE, TWO_RUNS}.difference(*[fits["ttft_ms"].spreads]))
        if missing:
            raise ValueError(f"it lacks {few(missing)}")
    except (ValueError, zlib.error) as error:
        raise DataError(
            f"is no model of serving that flopcast saved: {error}", source=str(file)
        ) from None
    return ServingModel(runs, fits, parts.about, parts.slower)


def _check_drawn(time: str, added: FloatArray) -> None:
    """Refuse what the process adds to the law where no run can have missed it by so much."""
    if len(added) and not np.abs(added).max() <= MOST_DRAWN[time]:
        raise DataError(
            f"the model of serving draws {time} more than {np.exp(MOST_DRAWN[time]):,.0f} times "
            "away from what its law says, which no measured run does: calibrate it anew"
        )


@dataclass(frozen=True)
class _OfModels:
    """Figures of models by the hashes of their names, those of all for other models."""

    models: pd.Index
    figures: FloatArray  # the last row is that of all; shape (n_models + 1, n_figures)

    @classmethod
    def of(cls, each: pd.DataFrame, of_all: pd.Series) -> _OfModels:
        return cls(each.index, np.vstack([each.fillna(of_all), of_all]).astype(np.float64))

    def at(self, models: np.ndarray) -> FloatArray:
        """Return the figures of some models, shape (n_figures, n)."""
        return self.figures[self.models.get_indexer(pd.Index(models))].T


def extents(rows: pd.DataFrame) -> dict[str, FloatArray]:
    """Return by the names of `BEYOND` how far settings go in that direction."""
    prompt, answer = (as_numbers(rows, name) for name in ("input_len", "output_len"))
    return {
        "concurrency": as_numbers(rows, "concurrency"),
        "input_len": prompt,
        "output_len": answer,
        "shortness": 1.0 / answer,
        "prompt_ratio": prompt / answer,
        "prompt_shortness": 1.0 / prompt,
    }


def _doublings(rows: pd.DataFrame, largest: Mapping[str, FloatArray]) -> dict[str, FloatArray]:
    asked = extents(rows)
    return {
        name: np.maximum(np.log2(asked[name] / values), 0.0) for name, values in largest.items()
    }


@dataclass(frozen=True)
class _Rests:
    """What a time of settings rests on."""

    basis: np.ndarray  # `Served.basis`; shape (n_settings,), text
    trust: FloatArray  # parts of the process and the trees in the answer (`trusted`); shape (n_settings, 2)
    within: FloatArray  # deviations of the logarithm, within what runs have measured; shape (n_settings,)
    spread: FloatArray  # the same, wider beyond that

    def drawn_to_two(self, near: FloatArray, fit: Fit, queued: np.ndarray) -> _Rests:
        """Return the same with two of the user's runs this near (0 to 1) to each setting."""
        of_two = np.minimum([fit.spreads[TWO_RUNS][crowd] for crowd in queued], self.within)
        within = np.sqrt(near**2 * of_two**2 + (1.0 - near**2) * self.within**2)
        trust = near[:, None] * (1.0, 0.0) + (1.0 - near)[:, None] * self.trust
        return _Rests(np.where(near >= MATCHED, TWO_RUNS, self.basis), trust, within, within)

    def beyond(self, time: str, doublings: Mapping[str, FloatArray], held_up: FloatArray) -> _Rests:
        """Return the same, wider by the doublings beyond what was measured.

        What other requests add is no more than they can (``held_up``).
        """
        grown, contended = np.zeros((2, len(self.within)))
        for name, each in BEYOND.items():
            squared = np.square(each[time] * doublings[name])
            if name in _CONTENDED:
                contended += squared
            else:
                grown += squared
        contended = np.minimum(contended, np.square(held_up))
        return replace(self, spread=np.sqrt(np.square(self.within) + grown + contended))

    def repeated(self, deviation: FloatArray) -> _Rests:
        """Return the same, wider by the deviation that repeats of the setting had."""
        within, spread = (np.hypot(wide, deviation) for wide in (self.within, self.spread))
        return replace(self, within=within, spread=spread)

    def unless(self, other: _Rests, where: BoolArray) -> _Rests:
        """Return the same, with the widths of another and what it says in some places."""
        return _Rests(
            basis=np.where(where, other.basis, self.basis),
            trust=self.trust,
            within=np.where(where, other.within, self.within),
            spread=np.where(where, other.spread, self.spread),
        )


def _rested(
    basis: Sequence[tuple[str, ...]], fit: Fit, queued: np.ndarray, makers: Sequence[str]
) -> _Rests:
    """Return trust and spread of a time, given its basis."""
    spreads = {maker: of_vendor(fit.spreads, maker) for maker in set(makers)}
    parts = {maker: of_vendor(fit.trust, maker) for maker in set(makers)}
    asked = list(zip(basis, queued, makers, strict=True))
    within = np.array([spread_of(one, spreads[maker], crowd) for one, crowd, maker in asked])
    trust = np.array([trusted(one, parts[maker]) for one, _, maker in asked]).reshape(-1, 2)
    return _Rests(np.array([" and ".join(one) for one in basis]), trust, within, within)


def _as_new_setting(basis: tuple[str, ...]) -> tuple[str, ...]:
    return tuple(NEW_SETTING if one == KNOWN else one for one in basis)


def _prompts(rows: pd.DataFrame, steps_of: Steps) -> FloatArray:
    """Return what the prompts of all requests under way take at the peak, ms."""
    prompt = steps_of.ttft["products"] + steps_of.ttft["experts"] + steps_of.ttft["scores"]
    return as_numbers(rows, "concurrency") * prompt


def _remarks_beyond(
    whose: str,
    largest: Mapping[str, FloatArray],
    rows: pd.DataFrame,
    where: np.ndarray,
    rests: Mapping[str, _Rests],
    held_up: FloatArray,
) -> list[Remark]:
    """Say in which directions some of the settings go further than any such run, where that widens their intervals."""
    factors = {}
    for time in TIMES:
        factors[time] = np.exp(NINETY_PERCENT * (rests[time].spread - rests[time].within))
    widened = np.maximum(*factors.values()) >= _WIDER
    limits_of = {}
    told = np.zeros(len(rows), dtype=bool)
    for name, doublings in _doublings(rows, largest).items():
        far = (doublings > 0) & where & widened
        if name in _CONTENDED:
            far &= held_up > 0
        if far.any():
            limits_of[name] = float(largest[name][far].min())
            told |= far
    if not limits_of:
        return []
    for name in limits_of.keys() & {"shortness", "prompt_shortness"}:
        limits_of[name] = 1.0 / limits_of[name]
    what = " or ".join(_COUNTED[name].format(many) for name, many in limits_of.items())
    reach = {}
    for time, to in (("tpot_ms", "per token"), ("ttft_ms", "to the first one")):
        factor = float(factors[time][told].max())
        if factor >= _WIDER:
            reach[to] = f"{factor:.2f} times as far {to}"
    text = f"no {whose} has {what}: the interval reaches {' and '.join(reach.values())}"
    widths = {time.removesuffix("_ms"): float(factors[time][told].max()) for time in TIMES}
    return [remark("beyond-measured", text, **limits_of, **widths)]


@cache
def shipped() -> ServingModel:
    """Return the model that ships with the package."""
    return load(SERVING_MODEL, ours=True)


def served(
    rows: pd.DataFrame, user_gpu: GPU | None = None, model: ServingModel | None = None
) -> Served:
    """Return TTFT and TPOT of settings as `ServingModel.served`, by the shipped model or one that `calibrated` made."""
    return (model or shipped()).served(rows, user_gpu)


def kept(runs: pd.DataFrame) -> pd.DataFrame:
    """Return what the file has of runs: `SETTING` and the figures of the models."""
    words, numbers = list(SETTING[:11]), [*SETTING[11:], *(dim.name for dim in FIGURES)]
    return pd.concat([runs[words].fillna("").astype(str), runs[numbers].astype(np.float64)], axis=1)


def nearness(asked: Points, trained: Points) -> FloatArray:
    """Return how near two sets of settings are, shape (n, m): 1 with equal prompts and answers, 0 cut otherwise.

    Clients draw lengths at random, and write their mean: it is near to others as the correlation of
    their octaves says.
    """
    same = asked.names["deployment"][:, None] == trained.names["deployment"]
    apart = asked.traits["requests"][:, None, 1:] - trained.traits["requests"][:, 1:]
    return np.where(same, _near(np.nan_to_num(apart**2, nan=np.inf).sum(axis=2) / REACH**2), 0.0)


def settings_of(points: Points, least: float = MATCHED) -> np.ndarray:
    """Return the number of the setting of each run, shape (n,): that of the first run before it that it matches.

    ``least`` is the `nearness` of a match.
    """
    matched = nearness(points, points) >= least
    settings = np.arange(len(matched))
    for place in range(len(matched)):
        first = np.flatnonzero(matched[place, :place] & (settings[:place] == np.arange(place)))
        settings[place] = first[0] if len(first) else place
    return settings


def deviation_of_repeats(runs: pd.DataFrame, points: Points, time: str) -> FloatArray:
    """Return the deviation of the logarithm of repeats of each run's setting, shape (n,); 0 without repeats.

    Repeats are of one load (`loads_of`); those of a setting's other loads count together.
    """
    table = pd.DataFrame({"setting": settings_of(points), "log": np.log(as_numbers(runs, time))})
    table["load"] = loads_of(runs, points)
    load = table.groupby(["setting", "load"])["log"]
    table["squared"] = np.square(table["log"] - load.transform("mean"))
    table["degrees"] = 1.0 - 1.0 / load.transform("count")
    table.loc[table["log"].isna(), ["squared", "degrees"]] = 0.0
    sums = table.groupby("setting")[["squared", "degrees"]].transform("sum")
    variance = sums["squared"] / sums["degrees"].where(sums["degrees"] > 1e-9)
    return np.sqrt(variance.fillna(0.0).to_numpy(dtype=np.float64))


def loads_of(runs: pd.DataFrame, points: Points) -> np.ndarray:
    """Return the number of the load of each run, shape (n,): of one setting, requests and `CONDITIONS`."""
    table = {name: _words_of(runs, name) for name in CONDITIONS}
    table["setting"] = settings_of(points, REPEATED)
    table["users"] = as_numbers(runs, "concurrency")
    keys = pd.DataFrame(table)
    return keys.groupby([*keys], sort=False).ngroup().to_numpy()


def reach_of(runs: pd.DataFrame, time: str) -> FloatArray:
    """Return how far runs (`OWN`) lie from a tuned engine (0) to the median of a stock one (1), shape (n,)."""
    measured, tuned, stock = (
        np.log(as_numbers(runs, name)) for name in (time, *(f"{how}_{time}" for how in TUNINGS))
    )
    with np.errstate(invalid="ignore", divide="ignore"):
        return (measured - tuned) / (stock - tuned)


def _words_of(runs: pd.DataFrame, name: str) -> np.ndarray:
    """Return a column as words, "" where a number or a word is missing."""
    if pd.api.types.is_numeric_dtype(runs[name]):
        numbers = as_numbers(runs, name)
        return np.where(np.isnan(numbers), "", numbers.astype(str))
    return texts(runs, name)


def contradicting(runs: pd.DataFrame, model: ServingModel) -> Iterator[Remark]:
    """Yield a remark on each time whose repeats of a setting differ by more than nine in ten pairs do.

    ``runs`` are complete.

    Two runs of a setting say of others of it as surely as `TWO_RUNS`.
    """
    every = runs.reset_index(drop=True)
    points = points_of(every, slower=model.slower)
    loads = every.groupby(loads_of(every, points))
    for time in TIMES:
        times = pd.Series(as_numbers(every, time))
        spread = model.fits[time].spreads[TWO_RUNS][0]
        most = np.exp(NINETY_PERCENT * np.sqrt(2.0) * spread)
        ratios = loads.apply(lambda rows, times=times: _ratio(times[rows.index]))
        if not len(ratios) or not ratios.max() > most:
            continue
        rows = loads.get_group(ratios.idxmax())
        first, low, high = rows.iloc[0], times[rows.index].min(), times[rows.index].max()
        text = (
            f"runs of one setting contradict each other: {time} is {low:.4g} and {high:.4g} for "
            f"{first['model']} on {first['device']} ({first['engine']}, tp {first['tp']:.0f}), "
            f"{first['concurrency']:.0f} requests under way, prompts of {first['input_len']:,.0f} and "
            f"answers of {first['output_len']:,.0f} tokens; intervals are as much wider: state what "
            "differed (release, options), or leave one out"
        )
        yield remark("runs-contradict", text, time=time, factor=float(ratios.max()))


def _ratio(times: pd.Series) -> float:
    return float(times.max() / times.min())


# -- Settings as points of the process.


@dataclass(frozen=True)
class Points:
    """Settings: the names they share, and numbers in which they are near or far."""

    # what runs have in common, by the hash of its name; 0 has nothing in common with anything;
    # shape (n,), uint64
    names: dict[str, np.ndarray]
    traits: dict[str, FloatArray]  # by `LENGTHS`, octaves; shape (n, k)
    steps: Steps  # parts of the times
    group: np.ndarray  # whose constants the parts have; shape (n,), text
    stacks: np.ndarray  # vendor of the GPU and engine, joined by "|"; shape (n,), text

    def part(self, rows: np.ndarray) -> Points:
        """Return some of them, by mask or places; the parts of the times stay with the whole."""
        names = {name: codes[rows] for name, codes in self.names.items()}
        traits = {name: values[rows] for name, values in self.traits.items()}
        return Points(names, traits, self.steps, self.group[rows], self.stacks[rows])


def points_of(
    rows: pd.DataFrame,
    user_gpu: GPU | None = None,
    slower: Mapping[str, float] | None = None,
    alike: Points | None = None,
) -> Points:
    """Return complete rows of the operator ``serving`` as points (``slower``: `ServingModel`).

    ``alike``, where given, are points that differ in the requests under way alone.
    """
    devices = texts(rows, "device")
    if user_gpu is not None:  # whose kernels were measured
        devices = np.where(devices == user_gpu.name, user_gpu.measured_name, devices)
    codes, levels = distinct(devices, texts(rows, "engine"), texts(rows, "dtype_b"))
    each = []
    for kind in SLOWED:
        each.append([_slower(slower or {}, kind, *map(str, level)) for level in levels])
    steps_of = steps(
        rows, user_gpu, {kind: np.exp(one)[codes] for kind, one in zip(SLOWED, each, strict=True)}
    )
    one = steps_of.traits

    def beside(*columns: FloatArray) -> FloatArray:
        return np.column_stack(columns)

    requests = beside(*(one[f"log2.{name}"] for name in ("concurrency", "input_len", "output_len")))
    traits = {
        "requests": requests,
        "cut": beside(*(one[f"log2.{name}"] for name in ("gpus", "dp", "ep", "weight_bits"))),
        "model": beside(
            *(one[f"log2.{name}"] for name in ("active", "layers", "width")),
            4.0 * one["visited_share"],
            2.0 * one["latent"],
        ),
        "work": beside(
            *(one["log2.step"], 4.0 * one["prompt_share"], one["log2.crowd_per_step"]),
            *(np.clip(one["log2.pressure"], -4.0, 4.0), one["log2.tokens_per_expert"]),
        ),
        "GPU": beside(one["log2.ridge"], one["log2.bandwidth"]),
        "own requests": requests,
    }
    if alike is not None:
        return replace(alike, traits=traits, steps=steps_of)
    if "group" in rows:
        group = texts(rows, "group")
    else:
        group = groups(rows, user_gpu)
    stacks = stacks_of(rows, user_gpu)
    return Points(_named(rows, user_gpu), traits, steps_of, np.asarray(group), stacks)


def stacks_of(rows: pd.DataFrame, user_gpu: GPU | None = None) -> np.ndarray:
    """Return the stack of each setting: vendor of the GPU and engine, joined by "|"."""
    makers = zip(vendors(rows, user_gpu), texts(rows, "engine"), strict=True)
    return np.array(["|".join(stack) for stack in makers], dtype=str)


def _nearest_lengths(runs: pd.DataFrame, prompt: float, answer: float) -> str:
    """Return the lengths that the runs nearest to a prompt and an answer had, "" where none repeats them."""
    octaves = np.log2(runs[["input_len", "output_len"]].to_numpy(dtype=float) / (prompt, answer))
    near = _near(np.square(octaves).sum(axis=1) / REACH**2)
    nearest = int(np.argmax(near))
    if near[nearest] >= REPEATED and runs["equal"].iloc[nearest]:
        return EQUAL
    return ""


def _slower(table: Mapping[str, float], kind: str, device: str, engine: str, weights: str) -> float:
    """Return the logarithm of an engine's kernels on a GPU, of all engines there, or 0 where none was measured."""
    keys = (f"{kind}|{device}|{name}|{what}" for name in (engine, "") for what in (weights, ""))
    return next((table[key] for key in keys if key in table), 0.0)


def groups(rows: pd.DataFrame, user_gpu: GPU | None = None) -> np.ndarray:
    """Return whose constants a run has: those of its engine and client, on AMD's GPUs apart.

    Runs with equal lengths have constants of their own.
    """
    way = np.where(texts(rows, "client") == _STEADY, "steady", "closed")
    way = np.where(texts(rows, "lengths") == EQUAL, EQUAL, way)
    way = np.where(texts(rows, "apart") == "yes", "apart", way)
    makers = vendors(rows, user_gpu)
    makers_of = (
        np.where(np.array(makers) == "AMD", "AMD ", "") if makers else np.array([], dtype=str)
    )
    parts = zip(makers_of, texts(rows, "engine"), way, strict=True)
    return np.array([f"{maker}{engine}|{one}" for maker, engine, one in parts], dtype=str)


def _named(rows: pd.DataFrame, user_gpu: GPU | None = None) -> dict[str, np.ndarray]:
    """Return the names that runs share with others (`Points.names`)."""

    def joined(
        *columns: np.ndarray,
    ) -> np.ndarray:  # the hash of hashes of Fowler, Noll and Vo (FNV-1a)
        hashes = np.zeros(len(rows), dtype=np.uint64)
        for column in columns:
            hashes = (hashes ^ column) * np.uint64(0x100000001B3)
        return hashes

    words = {
        name: texts(rows, name).astype(object)
        for name in ("device", "engine", "engine_version", "dtype_b")
    }
    kinds = {name: _kind(str(name), user_gpu) for name in dict.fromkeys(words["device"])}
    for at, name in enumerate(("vendor", "architecture", "GPU")):
        words[name] = np.array([kinds[device][at] for device in words["device"]], dtype=object)
    words["group"] = np.asarray(
        texts(rows, "group") if "group" in rows else groups(rows, user_gpu), dtype=object
    )
    words["parameters"] = np.array(
        [f"{total:.3g}" for total in as_numbers(rows, "parameters")], dtype=object
    )
    sizes = ("layers", "width", "routed_experts", "tp", "pp", "dp", "ep", "input_len", "output_len")
    one = {name: _hashes(column) for name, column in words.items()}
    numbers = np.concatenate([as_numbers(rows, name) for name in sizes])
    one |= zip(sizes, pd.util.hash_array(numbers).reshape(len(sizes), -1), strict=True)

    def of(*names: str) -> np.ndarray:
        return joined(*(one[name] for name in names))

    engine, device, group, release = (
        one[name] for name in ("engine", "device", "group", "engine_version")
    )
    model = of("parameters", "layers", "width", "routed_experts")
    release = np.where(release == 0, np.uint64(0), joined(engine, release))
    configuration = joined(model, of("device", "engine", "dtype_b", "tp", "pp", "dp"))
    lengths = of("ep", "input_len", "output_len")
    equal = np.char.endswith(words["group"].astype(str), f"|{EQUAL}")
    of_lengths = joined(configuration, one["input_len"], one["output_len"])
    return {
        **{name: one[name] for name in ("engine", "architecture", "vendor", "GPU")},
        "model": model,
        "combination": of(
            "parameters", "layers", "width", "routed_experts", "GPU", "engine", "dtype_b"
        ),
        "configuration": configuration,
        "lengths": np.where(equal, joined(of_lengths, group), of_lengths),
        "release": release,
        "client": group,
        "model of engine": joined(model, engine),
        "GPU of engine": joined(device, engine),
        "model of client": joined(model, group),
        "deployment": joined(configuration, group, one["ep"]),
        "run": joined(configuration, release, group, lengths),
    }


@cache
def _hash_of(word: str) -> np.uint64:
    return pd.util.hash_array(np.array([word], dtype=object))[0]


def _hashes(words: np.ndarray) -> np.ndarray:
    """Return the hash of each word, 0 of an empty one."""
    hashes = {word: _hash_of(word) for word in set(words)}
    hashes[""] = np.uint64(0)
    return np.array([hashes[word] for word in words], dtype=np.uint64)


def _kind(device: str, user_gpu: GPU | None) -> tuple[str, str, str]:
    """Return vendor, architecture and name of a GPU; of a superchip those of its GPU (GB200 is B200)."""
    if (
        user_gpu is not None
        and user_gpu.name == device
        and device not in {gpu.name for gpu in all_gpus()}
    ):
        return user_gpu.vendor or device, user_gpu.arch or device, device
    try:
        gpu = find_gpu(device)
    except FlopcastError:
        return device, device, device
    if gpu.name.startswith("GB"):
        name = gpu.name.split()[0].removeprefix("G")
    else:
        name = gpu.name.split()[0]
    return gpu.vendor or device, gpu.arch or device, name


def summed(points: Points, fit: Fit, time: str) -> tuple[FloatArray, FloatArray]:
    """Return the logarithm of the sum of the parts with their constants, and the share of each part."""
    parts = np.column_stack([*getattr(points.steps, time.removesuffix("_ms")).values()])
    common = fit.constants[""]
    logs = {}
    for name in dict.fromkeys(points.group):
        maker, apart, _ = name.rpartition(" ")
        of_vendor = fit.constants.get(maker, 0.0) if apart else 0.0
        logs[name] = common + fit.constants.get(name, of_vendor)
    weighed = parts * np.exp(np.stack([logs[name] for name in points.group]))
    whole = weighed.sum(axis=1)
    with np.errstate(invalid="ignore", divide="ignore"):
        return np.log(whole), weighed / whole[:, None]


def queues(steps_of: Steps) -> BoolArray:
    """Return where requests wait for room: more than a twentieth of the time to the first token is a queue."""
    parts = steps_of.ttft
    waiting = np.sum([values for name, values in parts.items() if name.startswith("queue")], axis=0)
    return waiting > np.sum([*parts.values()], axis=0) / 20


def _near(squared: FloatArray) -> FloatArray:
    """Return the correlation at a squared distance: Matérn of order 3/2 (Rasmussen and Williams, equation 4.17)."""
    distance = np.sqrt(3.0 * squared)
    return (1.0 + distance) * np.exp(-distance)


_WORK: Final = ("requests", "cut", "work")
_KIND: Final = ("model", "GPU")
_FEW: Final = (
    ("model", "model", ("requests", "cut", "work", "GPU")),
    ("configuration", "requests of configuration", ("own requests",)),
    ("model of engine", "model of engine", ("cut", "GPU")),
    ("GPU of engine", "GPU of engine", ("model",)),
    ("model of client", "requests of model", ("own requests", "cut", "GPU")),
    ("configuration", "configuration", ()),
    ("run", "run", ()),
)
"""Names that few pairs share, so that only these are computed; the term, and traits in which it falls off."""
_ROWS, _COLUMNS = 64, 512  # of a tile of covariances, whose few arrays fit the cache of a core


@dataclass(frozen=True)
class _Side:
    """One of two sets of settings, in the units of a fit's lengths."""

    names: Mapping[str, np.ndarray]
    traits: Mapping[str, FloatArray]
    shares: FloatArray

    @classmethod
    def of(cls, points: Points, shares: FloatArray, fit: Fit) -> _Side:
        traits = {}
        for name, length in zip(LENGTHS, fit.lengths, strict=True):
            traits[name] = points.traits[name] / length
        return cls(points.names, traits, shares)

    def placed(
        self, names: Sequence[str], at: np.ndarray | slice = slice(None)
    ) -> tuple[FloatArray, FloatArray]:
        """Return settings as points in some of the traits, shape (n, k), and their squared norms."""
        points = np.concatenate([self.traits[name][at] for name in names], axis=1)
        return points, np.square(points).sum(axis=1)


def _distances(
    one: tuple[FloatArray, FloatArray], two: tuple[FloatArray, FloatArray]
) -> FloatArray:
    squares = one[0] @ two[0].T
    squares *= -2.0
    squares += one[1][:, None]
    squares += two[1]
    return np.maximum(squares, 0.0, out=squares)


def covariance(
    one: Points, two: Points, shares: FloatArray, others: FloatArray, fit: Fit
) -> FloatArray:
    """Return the covariance of the logarithms of two sets of settings, shape (n, m)."""
    terms = dict(zip(TERMS, fit.terms, strict=True))
    rows = _Side.of(one, shares, fit)
    columns = rows if one is two else _Side.of(two, others, fit)
    covariances = np.empty((len(one.group), len(two.group)))
    _fill(covariances, rows, columns, terms, fit.across)
    for name, term, traits in _FEW:
        for i, j in _shared(rows, columns, name):
            covariances[np.ix_(i, j)] += terms[term] * _alike(
                rows, columns, i, j, traits, fit.across
            )
    return covariances


def factor_of(runs: Points, shares: FloatArray, fit: Fit) -> tuple[FloatArray, bool]:
    """Return the Cholesky factor (n, n) of the covariance of runs with their noise, as SciPy has it."""
    from scipy.linalg import cho_factor

    whole = covariance(runs, runs, shares, shares, fit)
    whole[np.diag_indices(len(whole))] += fit.noise
    # the mirror is stored column by column, which is what is overwritten in place
    return cho_factor(whole.T, lower=True, overwrite_a=True, check_finite=False)


def _fill(
    covariances: FloatArray, rows: _Side, columns: _Side, terms: Mapping[str, float], across: float
) -> None:
    """Write the covariances that all pairs have, tile by tile; of a set with itself one half and its mirror."""
    mirrored = rows is columns
    works = rows.placed(_WORK), columns.placed(_WORK)
    kinds = rows.placed(_KIND), columns.placed(_KIND)
    names = ("engine", "architecture", "vendor", "release", "client")
    for start in range(0, len(covariances), _ROWS):
        i = slice(start, start + _ROWS)
        end = start + _ROWS if mirrored else covariances.shape[1]
        for first in range(0, min(end, covariances.shape[1]), _COLUMNS):
            j = slice(first, first + _COLUMNS)
            same = {}
            for name in names:
                codes = rows.names[name][i, None]
                same[name] = (codes == columns.names[name][j]) & (codes != 0)
            work = _distances(_at(works[0], i), _at(works[1], j))
            kind = _distances(_at(kinds[0], i), _at(kinds[1], j))
            kind += work
            part = _near(kind)
            part *= terms["setting"] + terms["setting of engine"] * same["engine"]
            near = _near(work)
            near *= terms["release"] * same["release"] + terms["client"] * same["client"]
            part += near
            shared = terms["shares"] + terms["shares of engine"] * same["engine"]
            shared += terms["shares of architecture"] * same["architecture"]
            shared *= rows.shares[i] @ columns.shares[j].T
            part += shared
            part += terms["all"]
            part[~same["vendor"]] *= across
            covariances[i, j] = part
        if mirrored:
            covariances[:start, i] = covariances[i, :start].T


def _alike(
    rows: _Side,
    columns: _Side,
    i: np.ndarray,
    j: np.ndarray,
    traits: Sequence[str],
    across: float,
) -> FloatArray:
    """Return the correlations of some pairs in some traits."""
    vendors = rows.names["vendor"][i, None] == columns.names["vendor"][j]
    alike = np.where(vendors, 1.0, across)
    if traits:
        alike *= _near(_distances(rows.placed(traits, i), columns.placed(traits, j)))
    return alike


def _at(placed: tuple[FloatArray, FloatArray], rows: slice) -> tuple[FloatArray, FloatArray]:
    return placed[0][rows], placed[1][rows]


def _shared(rows: _Side, columns: _Side, name: str) -> Iterator[tuple[np.ndarray, np.ndarray]]:
    """Yield the places of the settings of both sides that share a name."""
    theirs = columns.names[name]
    for code in np.unique(rows.names[name]):
        j = np.flatnonzero(theirs == code)
        if not code or not len(j):
            continue
        i = np.flatnonzero(rows.names[name] == code)
        for start in range(0, len(i), _ROWS):
            yield i[start : start + _ROWS], j


def bases(
    asked: Mapping[str, np.ndarray], trained: Mapping[str, np.ndarray]
) -> list[tuple[str, ...]]:
    """Return the bases of answers, given the names of the runs learnt from (`Points.names`)."""
    news = {"vendor": NEW_VENDOR, "engine": NEW_ENGINE, "GPU": NEW_GPU, "model": NEW_MODEL}
    news |= {"combination": NEW_COMBINATION, "lengths": NEW_SETTING}
    lacking = {basis: ~_among(asked[name], trained[name]) for name, basis in news.items()}
    lacking[NEW_GPU] &= ~lacking[NEW_VENDOR]  # a new vendor's GPU is new
    lacking[NEW_COMBINATION] &= ~np.any(
        [lacking[one] for one in (NEW_VENDOR, NEW_ENGINE, NEW_GPU, NEW_MODEL)], axis=0
    )
    unnamed = (asked["release"] == 0) | ~_among(asked["release"], trained["release"])
    # hashes add up to one of both
    pairs, measured = (one["configuration"] + one["release"] for one in (asked, trained))
    unnamed |= ~_among(pairs, measured)
    bases_of = []
    for place in range(len(asked["vendor"])):
        new = tuple(basis for basis, mask in lacking.items() if mask[place])
        # the lengths are new with any of them
        new = (new[:-1] if len(new) > 1 else new) or (KNOWN,)
        bases_of.append((*new, NEW_RELEASE) if unnamed[place] else new)
    return bases_of


def of_vendor(
    table: Mapping[str, tuple[float, float]], vendor: str
) -> dict[str, tuple[float, float]]:
    """Return a table by `BASES` with what was learnt of the GPUs of one vendor alone (``AMD: new GPU``)."""
    mark = f"{vendor}: "
    alone = {name.removeprefix(mark): both for name, both in table.items() if mark in name}
    return {**table, **alone}


def vendors(rows: pd.DataFrame, user_gpu: GPU | None = None) -> list[str]:
    """Return the vendor of the GPU of each setting."""
    devices = texts(rows, "device")
    kinds = {name: _kind(str(name), user_gpu)[0] for name in dict.fromkeys(devices)}
    return [kinds[name] for name in devices]


def trusted(
    basis: tuple[str, ...], table: Mapping[str, tuple[float, float]]
) -> tuple[float, float]:
    """Return the parts of the process and the trees that an answer has (`Fit.trust`): the least of what is new in it.

    If only the release is new, the interval for a new release applies.
    """
    new = [one for one in basis if one in table and one != NEW_RELEASE] or basis
    return min(
        (table.get(one, (1.0, 0.0)) for one in new), key=lambda parts: (sum(parts), parts[0])
    )


def spread_of(
    basis: tuple[str, ...], table: Mapping[str, tuple[float, float]], queued: int
) -> float:
    """Return the standard deviation of a time that rests on all of these (`Fit.spreads`)."""
    spread = float(np.sqrt(sum(table[one][queued] ** 2 for one in basis if one != NEW_RELEASE)))
    if NEW_RELEASE in basis:
        return max(spread, table[NEW_RELEASE][queued])
    return spread


def doubted(missed: FloatArray, setting: np.ndarray) -> FloatArray:
    """Return the variance that runs have on top, which miss more by `FAR` than the nearest run of their setting."""
    far = pd.Series(np.abs(missed))
    return np.square(np.maximum(far - far.groupby(setting).transform("min") - FAR, 0.0)).to_numpy()


def _factor(spread: float) -> float:
    return float(np.exp(NINETY_PERCENT * spread))

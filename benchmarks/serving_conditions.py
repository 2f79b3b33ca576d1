"""Speculation, and prompts apart from answers, learnt anew: ``python -m flopcast.benchmarks.serving_conditions OUT``.

``amd/serving_runs.csv.gz`` of the measured data has runs under both conditions. OUT is the Parquet
file to write (datasets/serving_conditions.parquet): the logarithms of measured times over what the
shipped model of serving forecasts of the setting without the condition, or over the twin that was
measured without it where the model is none that flopcast knows. Prints the constants of first tokens
for workloads/constants.toml (``apart.*``), and how answers err on runs, settings, models, GPUs and
engines that are left out. With ``--sample FILE`` (``systems/silicon_sample.csv`` of AIConfigurator's
wheel) the forecast without the condition is learnt anew without each model too, in minutes: then
all of the answer is that of a new model.
"""

from __future__ import annotations

import argparse
import sys
from collections.abc import Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Final

import numpy as np
import pandas as pd
from scipy.optimize import least_squares, minimize

from ..arrays import BoolArray, FloatArray
from ..evaluation.metrics import NINETY_PERCENT
from ..hardware import find
from ..laws.serving_steps import steps
from ..operators.operators import complete
from ..workloads.disaggregation import APART, prompt_gpu_ms, waits_ms
from ..workloads.measured_ratios import COLUMNS, LEVELS, NONE, Ratios, likenesses, places_of, save
from ..workloads.serving import described
from ..workloads.serving_model import FAR, TIMES, ServingModel, points_of, shipped, vendors
from ..workloads.speculation import MTP
from .instinct_runs import SAME_PLACE, apart_first_tokens, under_conditions
from .serving_beyond import of_fewer
from .serving_model import published
from .shared_data import run_on_data

VENDORS: Final = ("AMD", "NVIDIA")
START: Final = 0.1
"""Deviation of each term, from which the likelihood looks for its own."""
DOUBT: Final = 1.5
"""Standard deviation of the logarithm of a deviation, around `START`. A judgement."""
FOLDS: Final = 10
LEFT_OUT: Final = {
    "known setting": None,
    "new setting": "setting",
    "new combination": "family",
    "new model": "model",
    "new GPU": "GPU",
    "new engine": "engine",
}
"""By question, the level whose groups are left out one by one; None: a tenth of the runs."""
SLACK: Final = 0.06
"""Part of a run in which fewer requests are under way than stated, at its start and its end: where first
tokens are soon, the throughput says that requests take so much longer than their times do."""
CONSTANTS: Final = ("share AMD", "share NVIDIA", "prompt AMD", "prompt NVIDIA", "alone")
PRIOR: Final = (0.1, 0.2, 10.0, 10.0, 1.0)
LIGHT: Final = (1024.0, 64.0)
"""Tokens of prompts and requests under way, up to which no first token waits for others."""


def measured(data: Path) -> pd.DataFrame:
    """Return settings under the conditions with ``log tpot_ms`` and ``log ttft_ms``, and those of their twins.

    Models that flopcast does not know have no figures (NaN).
    """
    rows = under_conditions(data)
    rows = rows[rows["speculation"].ne(NONE) | rows["apart"].eq(APART)].reset_index(drop=True)
    every = under_conditions(data)
    plain = every[every["speculation"].eq(NONE) & every["apart"].eq("")]
    twins = plain.groupby([*SAME_PLACE, "concurrency"])[list(TIMES)].median()
    same = pd.MultiIndex.from_frame(rows[[*SAME_PLACE, "concurrency"]])
    of_twins = twins.reindex(same).reset_index(drop=True)
    rows, why = described(rows)
    rows = complete(rows)
    with_figures = np.flatnonzero(why == "")
    forecasts = without_condition(rows.iloc[with_figures], shipped())
    for time in TIMES:
        # a twin has its prompts on the same GPUs
        beside = of_twins[time].where(rows["apart"].eq("")).to_numpy(dtype=np.float64, copy=True)
        beside[with_figures] = forecasts[time].to_numpy()
        rows[f"log {time}"] = np.log(rows[time] / beside)
    return rows


def without_condition(rows: pd.DataFrame, model: ServingModel) -> pd.DataFrame:
    """Return ``tpot_ms`` and ``ttft_ms`` that a model forecasts of tuned settings, no release named."""
    served = model.served(rows.assign(engine_version=""))
    return pd.DataFrame({time: getattr(served, time) for time in TIMES})


def runs_of(rows: pd.DataFrame, log: pd.Series) -> pd.DataFrame:
    """Return places with the median of their logarithms; those without one are left out."""
    places = places_of(rows).assign(
        speculation=rows["speculation"].to_numpy(dtype=object), log=log.to_numpy()
    )
    places = places[np.isfinite(places["log"])]
    return places.groupby(list(COLUMNS), sort=False)["log"].median().reset_index()


def learnt(runs: pd.DataFrame) -> Ratios:
    """Return runs with the variances that make them likeliest, each drawn to `START` by `DOUBT`."""
    centre = float(runs["log"].median())
    missed = runs["log"].to_numpy() - centre
    terms = []
    for _, alike in likenesses(runs, runs):
        terms.append(alike.shared.astype(np.float64))
        terms.append(alike.shared * alike.near)
    terms.append(np.eye(len(runs)))

    def cost(logs: FloatArray) -> tuple[float, FloatArray]:
        variances = np.exp(2.0 * logs)
        inner = np.zeros((len(runs), len(runs)))
        for variance, term in zip(variances, terms, strict=True):
            inner += variance * term
        inverse = np.linalg.inv(inner)
        weights = inverse @ missed
        off = (logs - np.log(START)) / DOUBT
        likely = missed @ weights + np.linalg.slogdet(inner)[1] + off @ off
        left = inverse - np.outer(weights, weights)
        slopes = [
            variance * np.sum(left * term) for variance, term in zip(variances, terms, strict=True)
        ]
        return likely / 2.0, np.array(slopes) + off / DOUBT

    start = np.full(len(terms), np.log(START))
    best = minimize(cost, start, jac=True, method="L-BFGS-B", options={"maxiter": 40}).x
    variances = np.round(np.exp(2.0 * best), 6)
    by_level = {}
    for place, level in enumerate(LEVELS):
        by_level[level] = (float(variances[2 * place]), float(variances[2 * place + 1]))
    return Ratios(runs, by_level, float(variances[-1]), centre)


def processes(rows: pd.DataFrame) -> dict[str, Ratios]:
    """Return the ratios of speculation, then of prompts apart, with the ratios of speculation taken out."""
    alone = rows["speculation"].eq(MTP) & rows["apart"].eq("")
    ratios = {}
    for time in TIMES:
        logs = rows.loc[alone, f"log {time}"]
        if time == "ttft_ms":
            logs = logs.where(logs.abs() <= FAR)  # else a queue that no run tells of
        ratios[f"speculation|{time}"] = learnt(runs_of(rows[alone], logs))
    apart = rows[rows["apart"].eq(APART)].copy()
    mean, _ = ratios["speculation|tpot_ms"].of(places_of(apart, MTP))
    apart["log tpot_ms"] -= np.where(apart["speculation"].eq(MTP), mean, 0.0)
    makers = np.array(vendors(apart))
    for vendor in VENDORS:
        of_vendor = apart[makers == vendor]
        ratios[f"apart {vendor}|tpot_ms"] = learnt(runs_of(of_vendor, of_vendor["log tpot_ms"]))
    return ratios


def left_out(ratios: Ratios) -> pd.DataFrame:
    """Return a row for each run and question of `LEFT_OUT`: its error and the deviation that was stated."""
    runs, tables = ratios.runs, []
    tenths = np.random.default_rng(0).integers(0, FOLDS, len(runs))
    for question, level in LEFT_OUT.items():
        if level is None:
            groups = tenths
        else:
            groups = pd.factorize(pd.MultiIndex.from_frame(runs[list(LEVELS[level])]))[0]
            if groups.max() > 50:
                groups = groups % FOLDS
        if groups.max() == 0:
            continue
        for group in range(groups.max() + 1):
            hidden = groups == group
            fewer = replace(ratios, runs=runs[~hidden].reset_index(drop=True))
            mean, spread = fewer.of(runs[hidden])
            missed = mean - runs["log"][hidden].to_numpy()
            table = pd.DataFrame({"missed": missed, "spread": spread}, index=runs.index[hidden])
            tables.append(table.assign(question=question, gpu=runs["gpu"][hidden]))
    return pd.concat(tables)


def line(name: str, missed: pd.Series, covered: pd.Series) -> str:
    """Return mean and median error, bias and coverage, in percent."""
    error = 100.0 * np.abs(np.expm1(missed))
    bias = 100.0 * np.expm1(np.median(missed))
    summary = f"{name}: {len(missed)} runs, {error.mean():.1f} / {np.median(error):.1f} %"
    return f"{summary}, bias {bias:+.1f}, inside {100 * covered.mean():.0f} %"


def lines_of(name: str, missed: pd.DataFrame) -> list[str]:
    """Return a line for each vendor and question."""
    lines = []
    makers = np.where(missed["gpu"].str.startswith("MI"), *VENDORS)
    covered = missed["missed"].abs() <= NINETY_PERCENT * missed["spread"]
    for vendor in VENDORS:
        for question in missed["question"].unique():
            rows = (makers == vendor) & missed["question"].eq(question)
            if rows.any():
                whose = f"{name}, {vendor}, {question}"
                lines.append(line(whose, missed.loc[rows, "missed"], covered[rows]))
    return lines


def new_models(rows: pd.DataFrame, learnt: Mapping[str, Ratios], sample: Path, data: Path) -> str:
    """Return how times per token err where no run of a model was learnt from, with the condition or without it."""
    runs = published(sample, data)
    every, asked = (points_of(table).names["model"] for table in (runs, rows))
    lines = []
    kept = []
    for model in np.unique(asked):
        of_model = rows[asked == model].reset_index(drop=True)
        fewer = of_fewer(runs, every == model)
        served = fewer.served(of_model.assign(engine_version=""))
        kept.append(total(of_model, np.log(served.tpot_ms), served.tpot_spread, learnt))
    table = pd.concat(kept, ignore_index=True)
    covered = table["missed"].abs() <= NINETY_PERCENT * table["spread"]
    for whose, part in table.groupby(["condition", "vendor"]):
        lines.append(line(", ".join(map(str, whose)), part["missed"], covered.loc[part.index]))
    return "\n".join(lines)


def total(
    asked: pd.DataFrame, plain: FloatArray, spread: FloatArray, learnt: Mapping[str, Ratios]
) -> pd.DataFrame:
    """Return the errors of forecasts of one model's settings, whose runs the processes have not seen."""
    makers = np.array(vendors(asked))
    drafted = asked["speculation"].eq(MTP).to_numpy()
    apart = asked["apart"].eq(APART).to_numpy()
    places = places_of(asked).assign(speculation=asked["speculation"].to_numpy(dtype=object))
    mean, wide = plain.copy(), np.square(spread)
    for name, ratios in learnt.items():
        kind, _, time = name.partition("|")
        if time != "tpot_ms":
            continue
        rows = drafted if kind == "speculation" else apart & (makers == kind.split()[-1])
        if not rows.any():
            continue
        hidden = ratios.runs["model"].isin(places["model"].unique())
        fewer = replace(ratios, runs=ratios.runs[~hidden].reset_index(drop=True))
        log, deviation = fewer.of(places[rows])
        mean[rows] += log
        wide[rows] += np.square(deviation)
    condition = np.select([drafted & apart, apart], ["both", "apart"], "speculation")
    table = pd.DataFrame({"missed": mean - np.log(asked["tpot_ms"]), "spread": np.sqrt(wide)})
    return table.assign(condition=condition, vendor=makers)


def queues(rows: pd.DataFrame) -> pd.DataFrame:
    """Return runs with prompts apart, with the work of a prompt and what its first token waited for, ms.

    ``whole_ms`` is the time of a request that the throughput of all GPUs says (Little's law), and
    ``answer_ms`` that of its further tokens; the rest is its first one.
    """
    every = rows[rows["apart"].eq(APART) & rows["tokens_per_s"].gt(0)].reset_index(drop=True)
    finite = every[np.isfinite(every["log tpot_ms"])].reset_index(drop=True)
    for device, of_device in finite.groupby("device"):
        work = prompt_gpu_ms(of_device, steps(of_device, find(str(device))))
        finite.loc[of_device.index, "work_ms"] = work / of_device["prefill_gpus"]
    finite["users"] = finite["concurrency"] * finite["workers"]
    tokens = finite["input_len"] + finite["output_len"]
    whole = 1e3 * finite["users"] * tokens * DRAWN / finite["tokens_per_s"]
    finite["whole_ms"] = (1.0 - SLACK) * whole
    finite["answer_ms"] = DRAWN * finite["output_len"] * finite["tpot_ms"]
    finite["first_ms"] = finite["whole_ms"] - finite["answer_ms"]
    finite["vendor"] = vendors(finite)
    return finite


DRAWN: Final = 0.9
"""Mean length over the nominal one: clients draw evenly from 0.8 to 1 times it."""


def light_first_ms(data: Path) -> float:
    """Return the median of stated first tokens with prompts apart, of short prompts and few requests."""
    table = apart_first_tokens(data)
    light = (table["input_len"] <= LIGHT[0]) & (table["concurrency"] <= LIGHT[1])
    return float(table.loc[light, "ttft_ms"].median())


def first_tokens(rows: pd.DataFrame, logs: FloatArray, first_ms: float) -> FloatArray:
    """Return the times to the first token by the logarithms of `CONSTANTS`."""
    amd = rows["vendor"].eq("AMD").to_numpy()
    share, other_share, prompt, other_prompt, alone = np.exp(logs)
    return waits_ms(
        rows["work_ms"].to_numpy() / np.where(amd, share, other_share),
        rows["answer_ms"].to_numpy(),
        rows["users"].to_numpy(),
        rows["prefill_workers"].to_numpy(),
        each_ms=np.where(amd, prompt, other_prompt),
        alone=float(alone),
        first_ms=first_ms,
    )


def fit_queues(rows: pd.DataFrame, first_ms: float) -> FloatArray:
    """Return the logarithms of `CONSTANTS`: least squares of logarithms of whole requests, soft L1."""
    whole = np.log(rows["whole_ms"].to_numpy())
    prior = np.log(PRIOR)

    def missed(logs: FloatArray) -> FloatArray:
        first = first_tokens(rows, logs, first_ms)
        off = np.log(rows["answer_ms"].to_numpy() + first) - whole
        return np.append(off / SLACK, 0.3 * (logs - prior))

    return np.asarray(least_squares(missed, prior, loss="soft_l1").x)


def spread_of_first(table: pd.DataFrame, said: FloatArray, rows: BoolArray) -> tuple[float, float]:
    """Return the deviation with which nine in ten first tokens are covered, and the error of whole requests.

    A first token is measured to `SLACK` of its request: within that it is met.
    """
    slack = SLACK * table["whole_ms"].to_numpy()
    low, high = (np.maximum(table["first_ms"] + side * slack, 1e-3) for side in (-1.0, 1.0))
    off = np.maximum(np.maximum(np.log(low / said), np.log(said / high)), 0.0)
    whole = np.abs((table["answer_ms"] + said) / table["whole_ms"] - 1.0)
    return float(np.quantile(off[rows], 0.9)) / NINETY_PERCENT, float(np.mean(whole[rows]))


def main(arguments: Sequence[str] | None = None) -> int:
    """Write the file, print constants and errors; return the exit code."""
    return run_on_data(
        "serving_conditions",
        __doc__,
        _show,
        arguments,
        paths={"out": "the Parquet file to write", "--sample": "silicon_sample.csv"},
    )


def _show(options: argparse.Namespace) -> None:
    rows = measured(options.data)
    learnt = processes(rows)
    save(options.out, learnt, "InferenceX to 2026-07-20 (SemiAnalysisAI), ROCm/ATOM")
    queued = queues(rows)
    first_ms = light_first_ms(options.data)
    logs = fit_queues(queued, first_ms)
    said = first_tokens(queued, logs, first_ms)
    constants = dict(zip(CONSTANTS, np.exp(logs).round(4).tolist(), strict=True))
    print(f"{constants}, first {first_ms:.1f} ms")
    for vendor in VENDORS:
        whose = queued["vendor"].eq(vendor).to_numpy()
        spread, error = spread_of_first(queued, said, whose)
        print(f"first tokens, {vendor}: {whose.sum()} runs, spread {spread:.2f}, ", end="")
        print(f"whole requests {100 * error:.1f} %")
    for name, ratios in learnt.items():
        print(*lines_of(name, left_out(ratios)), sep="\n")
    if options.sample is not None:
        with_figures = np.isfinite(rows["parameters"].astype(float))
        finite = rows[with_figures & np.isfinite(rows["log tpot_ms"])].reset_index(drop=True)
        print(new_models(finite, learnt, options.sample, options.data))


if __name__ == "__main__":
    sys.exit(main())

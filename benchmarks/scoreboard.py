"""Every published workload, forecast without having seen its model, release or system: ``make scoreboard``.

Prints, table by table, the mean and the largest error, how many measurements the 90 % intervals
hold and how wide they are, next to the naive roofline (peak rates, no launches, no messages).
``--out FILE.html`` writes the same as a page. Constants are fitted without what is forecast, and
the steps of training counted without any fit; but priors, forms and spreads were chosen with these
tables in sight, which flatters.
"""

from __future__ import annotations

import argparse
import sys
from collections.abc import Iterator
from dataclasses import dataclass
from itertools import pairwise
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd

from ..arrays import BoolArray, FloatArray
from ..evaluation.metrics import NINETY_PERCENT
from ..hardware import find
from ..report.document import Document, Lines, Section, Table, columns, lines, rows
from ..report.formats import formatted, share
from ..report.html import page
from ..report.terminal import show as show_document
from ..workloads.forecasting import BEYOND, OTHER_MODEL, OTHER_RELEASE, forecast, roofline_s
from ..workloads.releases import PRIORS, RESIDUAL, TRAINING, Release
from ..workloads.serving_model import shipped
from ..workloads.setting import Setting, complete
from ..workloads.supercomputers import STREAM, Spread, hpcg, hpl, machine_spread
from ..workloads.training import counted_flop
from .forecast_releases import RUNS, fitted, in_order, published_runs, rows_of
from .serving_model import BOARD, board_cells
from .shared_data import run_on_data

LUMI_2022 = 2220288 // 944 * 8
"""Devices of LUMI in November 2022: a node is 944 cores in TOP500, 64 of the CPU, 8 times 110 compute units."""
H100_NODE = "Voltage Park 1 node"

AURORA_768 = 1259.94e12
"""HPCG of 768 nodes of six devices, FLOP/s. Which machine is not said with it; a node's score is that of Aurora's."""
AURORA_2024 = (round(0.4 * 10624) * 6, 5.6e15)
"""Devices and FLOP/s of Aurora in HPCG's list of June 2024, which took about 40 % of its nodes (top500.org)."""


@dataclass(frozen=True)
class Scored:
    """Forecasts of one table over measured, half-widths of their intervals in logarithms, and the naive roofline."""

    name: str
    ratio: FloatArray
    half: FloatArray
    naive: FloatArray

    def row(self) -> tuple[str, ...]:
        """Return the table's line."""
        error, inside = np.abs(self.ratio - 1), np.abs(np.log(self.ratio)) <= self.half
        has_interval = bool(np.isfinite(self.half).all())
        return (
            self.name,
            f"{len(self.ratio)}",
            share(float(error.mean())),
            share(float(error.max())),
            share(float(inside.mean()), 0) if has_interval else "–",
            f"±{share(float(np.expm1(self.half).mean()), 0)}" if has_interval else "–",
            share(float(np.abs(self.naive - 1).mean()), 0) if len(self.naive) else "–",
        )


def served(data: Path) -> Iterator[Scored]:
    """Score AMD's published runs of vLLM on 8x MI300X."""
    runs = published_runs(data / RUNS)
    parts, naive = rows_of(runs), _naive(runs)
    seconds, of = runs["seconds"].to_numpy(), runs["model"].to_numpy()
    latency = (runs["kind"] == "inference").to_numpy()
    releases = in_order(runs["release"])

    def scored(name: str, pairs: list[tuple[BoolArray, BoolArray]], *spreads: float) -> Scored:
        ratios, halves, rooflines = [], [], []
        for train, test in pairs:
            release = fitted(runs[train], parts[train], "trial")
            ratios.append(parts[test] @ np.exp(release.mean) / seconds[test])
            common = sum(spread**2 for spread in spreads)
            halves.append(
                NINETY_PERCENT * np.sqrt(_release_spread(release, parts[test]) ** 2 + common)
            )
            rooflines.append(naive[test] / seconds[test])
        return Scored(name, *(np.concatenate(one) for one in (ratios, halves, rooflines)))

    here = {name: (runs["release"] == name).to_numpy() for name in releases}
    models = sorted(set(of))
    for learnt, asked in (models[::-1], models):
        pairs = [
            (here[name] & latency & (of == learnt), here[name] & latency & (of == asked))
            for name in releases
        ]
        yield scored(f"latency: {asked} from {learnt}", pairs, RESIDUAL, OTHER_MODEL)
    later = [(here[one] & latency, here[two] & latency) for one, two in pairwise(releases)]
    yield scored("latency: a release from the one before", later, RESIDUAL, OTHER_RELEASE)
    beyond = [(here[name] & latency, here[name] & ~latency) for name in releases]
    yield scored("throughput: from latencies", beyond, RESIDUAL, BEYOND)
    other = [
        (here[n] & (of == a), here[n] & ~latency & (of == b))
        for n in releases
        for a, b in (models, models[::-1])
    ]
    yield scored("throughput: from the other model", other, RESIDUAL, OTHER_MODEL)


def steps(data: Path) -> Iterator[Scored]:
    """Score published training steps, counted without any fit."""
    table = pd.read_csv(data / "megatron_a100_seqsel_table5.csv")
    forecasts = [forecast(_megatron(row)) for _, row in table.iterrows()]
    measured = table["iteration_s_measured"].to_numpy(dtype=float)
    flop = [
        counted_flop(
            one.setting.model, one.setting.global_batch * one.setting.seq_len, one.setting.seq_len
        )
        for one in forecasts
        if isinstance(one.setting, Setting)
    ]
    peak = find("A100 80GB SXM4").peak_tflops("fp16") * 1e12
    naive = np.array(flop) / (peak * table["num_procs"].to_numpy(dtype=float)) / measured
    ratio = np.array([one.predicted for one in forecasts]) / measured
    yield Scored(
        "step: Megatron 22B, 175B on A100",
        ratio,
        np.array([np.log(f.upper / f.predicted) for f in forecasts]),
        naive,
    )
    ratios = list(_adapters(data))
    yield Scored(
        "step ratios: 70B adapters, MI325X and 2, 4 nodes over 8 MI300X",
        np.array(ratios),
        _unknown(3),
        _unknown(0),
    )


def attention(data: Path) -> Iterator[Scored]:
    """Score fused attention: each length by the law of rates through the others, rate and keys fitted without it."""
    table = measured_attention(data)
    ratio, naive = [], []
    for (device, _, _, _, _), series in table.groupby(
        ["device", "backward", "head_dim", "causal", "file"]
    ):
        keys, rate = series["keys"].to_numpy(dtype=float), series["tflops"].to_numpy(dtype=float)
        for place in range(len(series)):
            others = np.arange(len(series)) != place
            slope, start = np.polyfit(1.0 / keys[others], 1.0 / rate[others], 1)
            ratio.append(rate[place] * (start + slope / keys[place]))
            naive.append(rate[place] / find(str(device)).peak_tflops("bf16"))
    half = np.full(len(ratio), NINETY_PERCENT * TRAINING["attention"].spread)
    yield Scored("attention: a length from the others", np.array(ratio), half, np.array(naive))


def measured_attention(data: Path) -> pd.DataFrame:
    """Return the fastest measured attention kernels: AITER on MI300X, the better of two libraries on MI355X."""
    first = pd.read_csv(data / "attn_dsl_bench_mi300x_sweep_v1.csv").query(
        "implementation == 'aiter'"
    )
    columns = {
        "head_dim": "head_dim",
        "causal": "causal",
        "seq_len": "keys",
        "achieved_tflops": "tflops",
    }
    host = (
        first[list(columns)]
        .rename(columns=columns)
        .assign(device="MI300X", backward=False, file="")
    )
    table = pd.read_csv(data / "hipkittens_mi355x_mi325x.csv")
    table = table[table["file"].str.contains("/attn/") & ~table["file"].str.contains("warps")]
    best = (
        table.groupby(["file", "size"])["tflops"]
        .max()
        .reset_index()
        .rename(columns={"size": "keys"})
    )
    target = best.assign(
        device="MI355X",
        backward=best["file"].str.contains("bkwd"),
        head_dim=np.where(best["file"].str.contains("d64"), 64, 128),
        causal=~best["file"].str.contains("non_causal"),
    )
    return pd.concat([host, target], ignore_index=True)


def scores(data: Path) -> Iterator[Scored]:
    """Score LUMI, Aurora's nodes by what a stream reaches there, and eight H100, all by Frontier's efficiency."""
    table = pd.read_csv(data / "hpl_hpcg_points.csv")
    value = {
        (row["system"], row["benchmark"], row["list_date"][:4]): row["value"]
        for _, row in table.iterrows()
    }
    device, free = find("MI250X (per GCD)"), Spread(1.0, 0.0)
    reached = (
        value["Frontier", "HPCG", "2023"]
        * 1e15
        / hpcg(device, 75264, stream=free, reached=free, scaling=free).mean
    )
    # Frontier's rate has its scaling in it, and another machine may scale better: no share, whose
    # draws end at 1.
    spread = np.hypot(PRIORS["hpcg.reached"].spread, PRIORS["hpcg.scaling"].spread)
    rate = Spread(reached / STREAM.median, float(spread))
    for name, gpu, devices, scored in (
        ("HPCG: LUMI from Frontier", device, 23824, value["LUMI", "HPCG", "2023"] * 1e15),
        ("HPCG: Aurora, 768 nodes, from Frontier", find("Max 1550"), 768 * 6, AURORA_768),
        (
            "HPCG: Aurora, June 2024, from Frontier",
            find("Max 1550"),
            AURORA_2024[0],
            AURORA_2024[1],
        ),
    ):
        forecast_score = hpcg(gpu, devices, reached=rate, scaling=free)
        naive = np.array([0.201 * devices * gpu.require("memory_bw_gbs") * 1e9 / scored])
        half = np.array([np.log(forecast_score.upper / forecast_score.predicted)])
        yield Scored(name, np.array([forecast_score.predicted / scored]), half, naive)
    for name, gpu, devices, scored in (
        ("HPL: LUMI from Frontier", device, LUMI_2022, value["LUMI", "HPL", "2022"] * 1e18),
        (
            "HPL: a node of H100 from Frontier",
            find("H100 SXM5"),
            8,
            value[H100_NODE, "HPL", "2025"] * 1e12,
        ),
    ):
        large = hpl(gpu, devices, machine=Spread(1.0, machine_spread(without="LUMI")))
        half = np.array([np.log(large.upper / large.predicted)])
        yield Scored(
            name, np.array([large.predicted / scored]), half, np.array([large.peak / scored])
        )


def _release_spread(release: Release, parts: FloatArray) -> FloatArray:
    """Return the spread that a release's constants give the logarithm of each run."""
    shares = parts * np.exp(release.mean)
    shares /= shares.sum(axis=1, keepdims=True)
    return np.sqrt(np.sum((shares @ release.root) ** 2, axis=1))


def _naive(runs: pd.DataFrame) -> FloatArray:
    """Return the seconds of each run at peak rates: every step reads the weights and the cache, or computes."""
    cases = runs.drop(columns=["release", "seconds"]).to_dict("records")
    return np.array(
        [roofline_s(complete({str(name): value for name, value in case.items()})) for case in cases]
    )


def _megatron(row: Any) -> dict[str, Any]:
    return {
        "kind": "training",
        "tuning": "tuned",  # as vendors' published steps are
        "model": row["model"].lower(),
        "gpu": "A100 80GB SXM4",
        "gpus": row["num_procs"],
        "tp": row["tp"],
        "pp": row["pp"],
        "dtype": "fp16",
        "global_batch": row["batch"],
        "micro_batch": row["microbatch"],
        "seq_len": row["seq"],
        "recompute": "full" if row["recompute"] == "full" else "selective",
        "sequence_parallel": row["seq_par"] == "rs_ag",
        "interleave": row["interleaving"],
        "flash": False,
    }


def _adapters(data: Path) -> Iterator[float]:
    """Return forecast over measured of throughput ratios: MI325X over MI300X, two and four nodes over one."""
    table = pd.read_csv(data / "mlperf_training_steps.csv")
    rate = table[table["benchmark"] == "llama2_70b_lora"].set_index("system")[
        "throughput_tracked_median_samples_s"
    ]
    base: dict[str, Any] = {
        "kind": "training",
        "tuning": "tuned",  # as vendors' published steps are
        "model": "llama-2-70b",
        "gpu": "MI300X",
        "dtype": "fp8",
    }
    base |= {"global_batch": 8, "seq_len": 8192, "lora": True}
    host = forecast({**base, "gpus": 8, "recompute": "full", "recompute_layers": 21}).predicted
    names = [f"MI300X-LLMBoost-GPUBoost-{count}node" for count in (1, 2, 4)]
    cases: list[tuple[dict[str, Any], str, str]] = [
        ({"gpus": 8, "gpu": "MI325X"}, "MI325X_EPYC_9575F_pytorch", "MI300X_EPYC_9575F_pytorch"),
        ({"gpus": 16, "cp": 2}, names[1], names[0]),
        ({"gpus": 32, "cp": 4}, names[2], names[0]),
    ]
    for change, over, under in cases:
        yield host / forecast({**base, **change}).predicted / (rate[over] / rate[under])


def _unknown(count: int) -> FloatArray:
    return np.full(count, np.nan)


def document(data: Path) -> Document:
    """Return the scoreboard for readers."""
    scored = [*served(data), *steps(data), *attention(data), *scores(data)]
    heads = ["points", "mean error", "worst", "within 90 %", "half-width", "naive roofline"]
    body = rows(one.row() for one in scored)
    note = (
        "A trial before the first release had 4.3 and 7.2 % from model to model and 4.6 % from "
        "release to release. "
        "Priors, forms and spreads were chosen with these tables in sight, the fits were not: "
        "expect more elsewhere."
    )
    parts = [
        Table(columns("forecast", numbers=heads), body, "Scoreboard"),
        Lines(lines([note]).lines),
    ]
    learnt = Table(
        columns("left out", numbers=BOARD),
        rows(map(tuple, board_cells(shipped().about["scoreboard"]))),
        "Serving",
    )
    about = formatted(
        sum(len(one.ratio) for one in scored), "{:,} forecasts of published measurements"
    )
    return Document(
        title="Scoreboard",
        lead=about,
        sections=[Section("Scoreboard", parts), Section("Serving", [learnt])],
    )


def show(options: argparse.Namespace) -> None:
    """Print the scoreboard; write its page where asked to."""
    board = document(options.data / "workloads")
    show_document(board)
    if options.page:
        Path("scoreboard.html").write_text(page(board), encoding="utf-8")


if __name__ == "__main__":
    sys.exit(
        run_on_data("scoreboard", __doc__, show, flags={"--page": "write scoreboard.html too"})
    )

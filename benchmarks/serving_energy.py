"""Power while serving, learnt anew: ``python -m flopcast.benchmarks.serving_energy --data FOLDER``.

FOLDER holds the measured joules per token of InferenceX (``amd/serving_runs.csv.gz``). Prints the
constants of `workloads.serving_energy` for workloads/constants.toml, and how power and joules per
token err on models and GPUs that are left out whole: with the throughput that was measured, and
with the one that the shipped model of serving forecasts. That model learnt these times, so the
latter is the error of power of new models and of times of known ones. With ``--sample FILE``
(``systems/silicon_sample.csv`` of AIConfigurator's wheel) the times are learnt anew without each
model, in ten minutes: then all of the answer is that of a new model.
"""

from __future__ import annotations

import argparse
import sys
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Final

import numpy as np
import pandas as pd
from scipy.optimize import least_squares

from ..arrays import BoolArray, FloatArray
from ..evaluation.metrics import NINETY_PERCENT
from ..hardware import find
from ..operators.kinds.serving_run import gpus as gpus_of
from ..operators.operators import complete
from ..workloads.releases import middle_and_sides, standard_normal
from ..workloads.serving import described
from ..workloads.serving_energy import board_share, work
from ..workloads.serving_model import NEW_MODEL, TIMES, of_vendor, points_of, shipped, vendors
from .instinct_runs import energies
from .serving_beyond import of_fewer
from .serving_model import published
from .shared_data import run_on_data

CAMPAIGN: Final = ["device", "model", "engine"]
ABOVE: Final = 0.5
"""Part of a campaign above the board power from which on its meter is taken to count more than the GPUs."""
NEAR: Final = 0.15
"""Logarithms from which on what the law misses weighs as its distance."""
START: Final = (-1.5, 0.5, 3.0)
DRAWS: Final = 256
VENDORS: Final = ("AMD", "NVIDIA")


@dataclass(frozen=True)
class Learnt:
    """Constants of the law of power."""

    idle: float
    memory: float
    products: float
    reach: dict[str, float]  # by architecture

    def share(self, rows: pd.DataFrame, times: str) -> FloatArray:
        """Return the shares of the board power, by the parts of the time of ``times``."""
        reach = np.array([self.reach.get(name, 1.0) for name in rows["arch"]])
        memory, products = (rows[f"{part}_{times}"].to_numpy() for part in ("memory", "products"))
        rise = (self.memory, self.products)
        return board_share(memory, products, reach, idle=self.idle, rise=rise)


def measured(data: Path) -> pd.DataFrame:
    """Return the settings whose energy was measured and whose model has figures, with what a step of each asks.

    ``share`` is of the board power, ``above`` whether that is more than all of it, ``trusted`` that
    it is not, nor is that of most settings of its `CAMPAIGN`.
    """
    rows, why = described(energies(data))
    rows = complete(rows[why == ""].reset_index(drop=True))
    boards = {name: find(str(name)) for name in rows["device"].unique()}
    rows["arch"] = [boards[name].arch for name in rows["device"]]
    rows["board_w"] = [boards[name].require("tdp_w") for name in rows["device"]]
    rows["share"] = rows["power_w"] / rows["board_w"]
    rows["above"] = rows["share"] > 1.0
    campaign = rows.groupby(CAMPAIGN)["above"].transform("mean")
    rows["trusted"] = ~rows["above"] & (campaign <= ABOVE)
    return rows


def with_times(rows: pd.DataFrame, times: pd.DataFrame | None = None) -> pd.DataFrame:
    """Return the settings with the parts of the time that their GPUs work, measured and forecast."""
    if times is None:
        # no release is named, as in a search
        served = shipped().served(rows.assign(engine_version=""))
        times = pd.DataFrame({"tpot_ms": served.tpot_ms, "ttft_ms": served.ttft_ms})
    rows = rows.assign(tpot_forecast=times["tpot_ms"], ttft_forecast=times["ttft_ms"])
    rows["served_forecast"] = tokens_per_s(rows, times["ttft_ms"], times["tpot_ms"])
    rows["served_measured"] = rows["tokens_per_s_per_gpu"] * gpus_of(rows)
    for device, of_device in rows.groupby("device"):
        step = work(of_device, find(str(device)))
        for name in ("measured", "forecast"):
            memory, products = step.shares(of_device[f"served_{name}"].to_numpy(dtype=float))
            rows.loc[of_device.index, f"memory_{name}"] = memory
            rows.loc[of_device.index, f"products_{name}"] = products
    return rows


def new_times(rows: pd.DataFrame, sample: Path, data: Path) -> pd.DataFrame:
    """Return ``tpot_ms`` and ``ttft_ms`` of settings, each forecast without the runs of its model."""
    runs = published(sample, data)
    every, asked = (points_of(table).names["model"] for table in (runs, rows))
    times = pd.DataFrame(index=rows.index, columns=list(TIMES), dtype=float)
    for model in np.unique(asked):
        of_model = rows[asked == model]
        served = of_fewer(runs, every == model).served(of_model.assign(engine_version=""))
        for time in TIMES:
            times.loc[of_model.index, time] = getattr(served, time)
    return times


def tokens_per_s(rows: pd.DataFrame, ttft_ms: pd.Series, tpot_ms: pd.Series) -> pd.Series:
    """Return the tokens of answers that all GPUs of a setting end in a second (Little's law)."""
    whole = ttft_ms + (rows["output_len"] - 1.0) * tpot_ms
    return 1e3 * rows["concurrency"] * rows["output_len"] / whole


def learn(rows: pd.DataFrame) -> Learnt:
    """Return the constants: least squares of logarithms, soft L1 beyond `NEAR`.

    The logarithms of the reaches are drawn to 0, each as one setting would draw it.
    """
    archs = sorted(rows["arch"].unique())

    def read(values: FloatArray) -> Learnt:
        idle = 1.0 / (1.0 + np.exp(-values[0]))
        memory, products, *reaches = np.exp(values[1:]).tolist()
        return Learnt(float(idle), memory, products, dict(zip(archs, reaches, strict=True)))

    logs = np.log(rows["share"].to_numpy())

    def missed(values: FloatArray) -> FloatArray:
        off = np.log(read(values).share(rows, "measured")) - logs
        return np.append(off, values[len(START) :])

    start = np.append(START, np.zeros(len(archs)))
    return read(least_squares(missed, start, loss="soft_l1", f_scale=NEAR).x)


def left_out(rows: pd.DataFrame, by: str) -> pd.DataFrame:
    """Return logarithms of forecast over measured, each with its model or GPU left out whole.

    ``power`` with the measured throughput, which is that of joules per token too; ``joules`` with
    the forecast throughput.
    """
    errors_of = pd.DataFrame(index=rows.index, columns=["power", "joules"], dtype=float)
    for name in rows[by].unique():
        asked = rows[by] == name
        learnt = learn(rows[~asked & rows["trusted"]])
        of_rows = rows[asked]
        errors_of.loc[asked, "power"] = np.log(learnt.share(of_rows, "measured") / of_rows["share"])
        drawn = learnt.share(of_rows, "forecast") / of_rows["share"]
        slower = of_rows["served_measured"] / of_rows["served_forecast"]
        errors_of.loc[asked, "joules"] = np.log(drawn * slower)
    return errors_of


def spread(missed: pd.Series) -> float:
    """Return the deviation that has nine in ten of the errors within its interval."""
    return float(np.quantile(np.abs(missed), 0.9)) / NINETY_PERCENT


def inside(rows: pd.DataFrame, missed: pd.DataFrame, spreads: FloatArray) -> BoolArray:
    """Return which joules per token lie in their 90 % interval, with the widths of times of a new model."""
    normal = standard_normal(3, DRAWS, 0)
    makers = vendors(rows)
    wide = []
    for time in ("ttft_ms", "tpot_ms"):
        table = shipped().fits[time].spreads
        wide.append(np.array([of_vendor(table, maker)[NEW_MODEL][0] for maker in makers]))
    learnt = learn(rows[rows["trusted"]])
    sides = middle_and_sides(0.9)[1:]
    drawn = []
    for at in range(DRAWS):
        ttft = rows["ttft_forecast"] * np.exp(normal[at, 0] * wide[0])
        tpot = rows["tpot_forecast"] * np.exp(normal[at, 1] * wide[1])
        faster = tokens_per_s(rows, ttft, tpot) / rows["served_forecast"]
        parts = {}
        for part in ("memory", "products"):
            parts[f"{part}_drawn"] = rows[f"{part}_forecast"] * faster
        ratio = learnt.share(rows.assign(**parts), "drawn") / learnt.share(rows, "forecast")
        drawn.append(np.log(ratio) - np.log(faster) + normal[at, 2] * spreads)
    lower, upper = np.quantile(drawn, sides, axis=0)
    off = -missed["joules"].to_numpy()  # measured over forecast
    return (lower <= off) & (off <= upper)


def line(name: str, missed: pd.Series) -> str:
    """Return mean and median error in percent, and the median bias."""
    error = 100.0 * np.abs(np.expm1(missed))
    bias = 100.0 * np.expm1(np.median(missed))
    return f"{name} {error.mean():.1f} / {np.median(error):.1f} % (bias {bias:+.1f})"


def main(arguments: Sequence[str] | None = None) -> int:
    """Print constants and errors; return the exit code."""
    return run_on_data(
        "serving_energy", __doc__, _show, arguments, paths={"--sample": "silicon_sample.csv"}
    )


def _show(options: argparse.Namespace) -> None:
    rows = measured(options.data)
    times = None
    if options.sample is not None:
        times = new_times(rows, options.sample, options.data)
    rows = with_times(rows, times)
    print(f"{len(rows)} settings, {rows['above'].sum()} above the board power:")
    print(rows.groupby(CAMPAIGN)["above"].agg(["sum", "size"]).query("sum > 0").to_string())
    print(f"{rows['trusted'].sum()} learnt from: {learn(rows[rows['trusted']])}")
    makers = np.array(vendors(rows))
    by_model, by_gpu = left_out(rows, "model"), left_out(rows, "device")
    for new, missed in (("model", by_model), ("GPU", by_gpu)):
        for which, mask in (
            ("all", np.ones(len(rows), dtype=bool)),
            ("possible", ~rows["above"].to_numpy()),
            ("learnt from", rows["trusted"].to_numpy()),
            ("AMD, learnt from", rows["trusted"].to_numpy() & (makers == "AMD")),
            ("NVIDIA, learnt from", rows["trusted"].to_numpy() & (makers == "NVIDIA")),
        ):
            said = [line(name, missed.loc[mask, name]) for name in ("power", "joules")]
            print(f"new {new}, {which} ({mask.sum()}): {', '.join(said)}")
    trusted = rows["trusted"]
    spreads = np.zeros(len(rows))
    for maker in VENDORS:
        theirs = trusted & (makers == maker)
        new_model, new_gpu = (spread(missed.loc[theirs, "power"]) for missed in (by_model, by_gpu))
        print(f"spread of {maker}'s: {new_model:.3f} of a new model, {new_gpu:.3f} of a new GPU")
        spreads[makers == maker] = new_model
    print(f"spread of a new GPU of any: {spread(by_gpu.loc[trusted, 'power']):.3f}")
    within = inside(rows, by_model, spreads)
    for which, mask in (("all", np.ones(len(rows), dtype=bool)), ("learnt from", trusted)):
        shares = [f"{100 * within[mask & (makers == one)].mean():.0f} % {one}" for one in VENDORS]
        print(f"joules inside, {which}: {100 * within[mask].mean():.0f} % ({', '.join(shares)})")


if __name__ == "__main__":
    sys.exit(main())

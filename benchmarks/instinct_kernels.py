"""What ships of AMD Instinct's kernels, made anew: ``python -m flopcast.benchmarks.instinct_kernels TABLE OUT``.

TABLE is a CSV of kernels with the columns source, licence, gpu, op, dtype, m, n, k, batch, shape,
us, tflops, implementation: AMD-AGI/Primus-Turbo's benchmark (MIT) of MI300X and MI355X, and bf16
products that AMD tuned for MI355X (SemiAnalysisAI/InferenceX, Apache-2.0). Of each kind
of kernel the campaign with the most shapes is kept, of as many the fastest; others fill in. Printed are the errors
by ten folds of shapes, and by ten folds of groups (weights, or heads), which the file says too. Each
fold searches for its settings anew.
"""

from __future__ import annotations

import argparse
import json
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pyarrow as pa
import pyarrow.parquet as pq

from ..arrays import FloatArray, IntArray
from ..hardware import find
from ..models.instinct_kernels import KEYS, METADATA, SIZES, each_kind, group_of, inputs_of
from ..models.kernel_process import LEVELS, fit_process, out_of_fold

SOURCES = ("AMD-AGI/Primus-Turbo", "SemiAnalysisAI/InferenceX (branch)")
LICENCES = {
    "AMD-AGI/Primus-Turbo": "MIT, Copyright (c) Advanced Micro Devices, Inc.",
    "SemiAnalysisAI/InferenceX": "Apache-2.0",
}
FORMATS = {
    "bf16": "bf16",
    "fp8": "fp8",
    "fp8_blockwise": "fp8 block",
    "fp8_tensorwise": "fp8 tensor",
}
_SHAPE = (
    r"s=(?P<seq_q>\d+) hq=(?P<heads>\d+) hkv=(?P<kv_heads>\d+) dqk=(?P<head_dim>\d+) "
    r"dv=(?P<head_dim_v>\d+) causal=(?P<causal>\w+)"
)
_BACKWARD_WORK = 2.5


def embedded_rows(table: pd.DataFrame) -> pd.DataFrame:
    """Return the shapes with their times, in the columns of the embedded file."""
    rows = table[table["source"].isin(SOURCES)].reset_index(drop=True)
    embedded = pd.DataFrame({"device": rows["gpu"], "op": rows["op"].str.removesuffix("_backward")})
    backward = rows["op"].str.endswith("_backward")
    embedded["direction"] = np.where(backward, "backward", "forward")
    embedded["format"] = rows["dtype"].map(FORMATS)
    for name in ("batch", "m", "n", "k"):
        embedded[name] = rows[name]
    grouped = embedded["op"].eq("grouped_gemm")
    embedded.loc[grouped, "m"] = embedded["m"] * embedded["batch"]  # rows of all groups
    shape = rows["shape"].fillna("").str.extract(_SHAPE)
    embedded["causal"] = shape.pop("causal").eq("True").astype(float)
    for name in shape:
        embedded[name] = pd.to_numeric(shape[name])
    attends = embedded["op"].eq("attention")
    kept = np.where(embedded["causal"] > 0, 0.5, 1.0)
    widths = embedded["head_dim"] + embedded["head_dim_v"]
    flop = 2.0 * embedded["batch"] * embedded["heads"] * embedded["seq_q"] ** 2 * widths * kept
    flop = flop * np.where(backward, _BACKWARD_WORK, 1.0)
    exact = flop / rows["tflops"] * 1e-6  # the times of attention are rounded, the rates are not
    embedded["duration_us"] = rows["us"].where(~attends, exact)
    embedded.loc[~attends, "causal"] = np.nan
    sizes = dict.fromkeys([*SIZES["attention"], *SIZES["gemm"]])
    keys = [*KEYS, *sizes]
    embedded["campaign"] = rows["path"].where(rows["source"].eq(SOURCES[0]), "")
    embedded["rank"] = _ranks(embedded, keys)
    best = embedded.sort_values(["rank", "duration_us"]).drop_duplicates(keys)
    return best.sort_values(keys, ignore_index=True)[[*keys, "duration_us"]]


def _ranks(rows: pd.DataFrame, keys: list[str]) -> pd.Series:
    """Return the place of each row's campaign: that with the most shapes first, of as many the fastest."""
    least = rows.groupby(keys, dropna=False)["duration_us"].transform("min")
    slower = pd.Series(np.log(rows["duration_us"] / least), rows.index)
    campaigns = slower.groupby([*(rows[name] for name in KEYS), rows["campaign"]])
    order = pd.DataFrame({"shapes": -campaigns.size(), "slower": campaigns.mean()})
    order = order.sort_values(["shapes", "slower"])
    places = pd.Series(range(len(order)), order.index, name="rank")
    return rows[[*KEYS, "campaign"]].join(places, on=[*KEYS, "campaign"])["rank"]


def learnt(rows: pd.DataFrame) -> dict[str, Any]:
    """Return settings, errors and quantiles of every kind, and how times move to the other GPU."""
    kinds = {}
    for key, places in each_kind(rows):
        of_kind = rows.iloc[places].reset_index(drop=True)
        inputs, work = inputs_of(key[1], of_kind, float(find(key[0]).require("cus")))
        outputs = np.log(of_kind["duration_us"].to_numpy() / work)
        settings = fit_process(inputs, outputs).settings
        errors, over = out_of_fold(inputs, outputs, np.arange(len(of_kind)))
        quantiles = [_held(over, level) for level in LEVELS]
        groups, names = pd.factorize(pd.Series(group_of(key[1], inputs)))
        of_groups, over_of_groups = out_of_fold(inputs, outputs, groups)
        of_new = [_held(over_of_groups, level) for level in LEVELS]
        inside = _inside(over_of_groups, groups)
        figures = {
            "shapes": len(of_kind),
            "mean_percent": round(100 * float(np.abs(np.expm1(errors)).mean()), 2),
            "bias_percent": round(100 * float(np.expm1(np.median(errors))), 2),
            "inside_percent": round(100 * _inside(over, np.arange(len(of_kind))), 1),
            "groups": len(names),
            "new_group_mean_percent": round(100 * float(np.abs(np.expm1(of_groups)).mean()), 2),
            "new_group_inside_percent": round(100 * inside, 1),
        }
        kinds["|".join(key)] = {
            "settings": np.round(settings, 4).tolist(),
            "quantiles": np.round(quantiles, 3).tolist(),
            "new_group_quantiles": np.round(np.maximum(quantiles, of_new), 3).tolist(),
            "errors": figures,
        }
        print(*key, figures)
    return {"kinds": kinds, "moved": moved(rows)}


def _inside(over: FloatArray, groups: IntArray) -> float:
    """Return how often 90 % intervals hold whose quantile was taken of the other half of the groups."""
    order = np.random.default_rng(2).permutation(np.unique(groups))
    first = np.isin(groups, order[::2])
    held = []
    for half in (first, ~first):
        held.append(np.abs(over[half]) <= _held(over[~half], 0.9))
    return float(np.concatenate(held).mean())


def _held(over: FloatArray, level: float) -> float:
    """Return what a share of further errors does not exceed (split conformal: Lei et al., JASA 113(523), 2018)."""
    rank = min(level * (len(over) + 1) / len(over), 1.0)
    return float(np.quantile(np.abs(over), rank, method="higher"))


def moved(rows: pd.DataFrame) -> dict[str, float]:
    """Return how far times moved by the ratio of peaks lie off, of the products that both GPUs have."""
    logs = _ratios(rows)
    figures = {"spread": round(float(np.sqrt((logs**2).mean())), 3), "pairs": len(logs)}
    print("moved", figures)
    return figures


def _ratios(rows: pd.DataFrame) -> FloatArray:
    """Return logarithms of the ratio of times over that of peaks, of products that both GPUs have."""
    sizes = ["op", "direction", "format", *SIZES["gemm"]]
    products = rows[rows["op"].eq("gemm")]
    host = products[products["device"] == "MI300X"]
    target = products[products["device"] == "MI355X"]
    pairs = host.merge(target, on=sizes, suffixes=("_host", "_target"))
    times = pairs["duration_us_target"] / pairs["duration_us_host"]
    peaks = [
        find("MI355X").peak_tflops(form.split()[0]) / find("MI300X").peak_tflops(form.split()[0])
        for form in pairs["format"]
    ]
    return np.log(times.to_numpy() * np.array(peaks))


def main(arguments: Sequence[str] | None = None) -> int:
    """Make the file; return the exit code."""
    parser = argparse.ArgumentParser(description=__doc__.split("\n\n")[0])
    parser.add_argument("table", type=Path)
    parser.add_argument("out", type=Path)
    asked = parser.parse_args(arguments)
    rows = embedded_rows(pd.read_csv(asked.table, low_memory=False))
    about = learnt(rows) | {"licences": LICENCES}
    whole = dict.fromkeys(SIZES["attention"] + SIZES["gemm"], "float32")
    columns = pa.Table.from_pandas(rows.astype(whole), preserve_index=False)
    columns = columns.replace_schema_metadata({METADATA: json.dumps(about).encode()})
    pq.write_table(columns, asked.out, compression="zstd", version="2.6")
    return 0


if __name__ == "__main__":
    sys.exit(main())

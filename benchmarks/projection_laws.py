"""How far the laws of computation are from what was measured: ``python -m flopcast.benchmarks.projection_laws``.

Kernels measured on two GPUs by tuners and benchmarks (AITER, MIOpen, NeuSight's operators), and
models profiled on MI300X and H100 by PyTorch. A trained model, and a correction, never see what
they are judged by: groups of the cross-validation, or the pair of traces, are left out.
``--errors`` prints the rows of projection/law_errors.toml, ``--pairs`` what its ``pair`` is from
(both with the tables of AIConfigurator, which are fetched).
"""

from __future__ import annotations

import argparse
import sys
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import combinations
from pathlib import Path
from tempfile import TemporaryDirectory

import numpy as np
import pandas as pd
from rich.table import Table
from scipy.special import ndtri

from ..api.training import train
from ..datasets import fetch_aiconfigurator
from ..evaluation.folds import make_folds
from ..evaluation.trained_model import TrainedModel
from ..hardware import find
from ..laws.applied import by_law
from ..laws.base import Pair
from ..operators.operators import group_labels
from ..projection.kernel_laws import (
    MODEL,
    Correction,
    compute_factors,
    corrections_of,
    learn_corrections,
    of_pairs,
)
from ..readers import TraceFailure, read, read_traces
from ..report.terminal import output
from ..table.problems import pair as pair_rows
from .shared_data import run_on_data

LAWS = ("flops-uniform", "flops", "bandwidth", "roofline", "roofline-achieved", "affine")
CHOICE = "affine"
"""The law fixed in advance."""
MODELS = ("Additive", "ExtraTrees/Residual")
Cells = dict[str, str | float]
"""A row of a table."""
MI300X, H100, H200, B200 = "MI300X", "H100 SXM5", "H200 SXM", "B200 (HGX)"
TRACES = {MI300X: "profiles/kineto/pairs_mi300", H100: "profiles/kineto/pairs_h100"}


PAIRS = (
    (H100, H200),
    (H100, B200),
    (H200, B200),
    (B200, "B300"),
    (H100, "L40S"),
)


@dataclass(frozen=True)
class Campaign:
    """Kernels that somebody measured on two GPUs: a name, files under the folder of data, and the devices."""

    name: str
    files: tuple[str, ...]
    host: str
    target: str


CAMPAIGNS = (
    Campaign("AITER", ("aiter",), MI300X, "MI355X"),
    Campaign("NeuSight", ("ops",), "MI100", "MI210"),
    Campaign(
        "MIOpen",
        ("miopen/gfx90878.HIP.fdb.txt.bz2", "miopen/gfx90a68.HIP.fdb.txt.bz2"),
        "MI100",
        "MI210",
    ),
    Campaign(
        "MIOpen",
        ("miopen/gfx90a68.HIP.fdb.txt.bz2", "miopen/gfx942130.HIP.fdb.txt.bz2"),
        "MI210",
        MI300X,
    ),
)


def paired(campaign: Campaign, data: Path) -> pd.DataFrame:
    """Return the problems that both devices of a campaign have measured."""
    measurements = read([data / name for name in campaign.files])
    return pair_rows(measurements.frame, campaign.host, campaign.target).paired


FETCHED = ((H100, H200), (H100, B200), (H100, "L40S"))


def fetched_pairs() -> Iterator[tuple[Campaign, str, pd.DataFrame]]:
    """Yield BF16 products and attention of vLLM that two GPUs ran, of the tables of AIConfigurator."""
    root = fetch_aiconfigurator()
    for host, target in FETCHED:
        for op in ("gemm", "attention"):
            where = {"op": [op], "dtype_a": ["bf16"], "engine": ["vllm"], "device": [host, target]}
            frame = read([root], where=where).frame
            yield Campaign("vLLM", (), host, target), op, pair_rows(frame, host, target).paired


def law_rows(campaign: Campaign, table: pd.DataFrame, *, by_dtype: bool) -> Iterator[Cells]:
    """Yield one row per law and class: bias and spread of ln(measured / projected), totals and mean error, %."""
    devices = Pair.of(find(campaign.host), find(campaign.target))
    rows, measured = of_pairs(table), table["duration_us"].to_numpy(dtype=float)
    classes = (
        rows.op_class + " " + table["dtype_a"].to_numpy(dtype=object) if by_dtype else rows.op_class
    )
    head: Cells = {"campaign": campaign.name, "host": campaign.host, "target": campaign.target}
    for law in LAWS:
        factors = by_law(rows, devices, law)
        projected, used = (
            rows.host_us * factors["factor"].to_numpy(),
            factors["law"].eq(law).to_numpy(),
        )
        for name, correction in corrections_of(
            measured[used], projected[used], classes[used]
        ).items():
            of_class = used & (classes == name)
            row: Cells = {
                "law": law,
                "n": correction.n,
                "bias": float(np.log(correction.factor)),
                "spread": correction.sigma,
            }
            yield {**head, "class": name, **row, **_errors(measured[of_class], projected[of_class])}
    projected = rows.host_us * by_law(rows, devices, CHOICE)["factor"].to_numpy()
    for name in sorted(set(classes)):
        of_class = classes == name
        groups = group_labels(table[of_class])
        if len(set(groups)) < 2:  # nothing to learn a correction from
            continue
        corrected = _corrected(measured[of_class], projected[of_class], groups)
        row = {"law": f"{CHOICE}+correction", "n": int(of_class.sum())}
        yield {**head, "class": name, **row, **_errors(measured[of_class], corrected)}


def _corrected(measured: np.ndarray, projected: np.ndarray, groups: np.ndarray) -> np.ndarray:
    """Return projected times, each corrected by what the other folds' groups say."""
    folds = make_folds("grouped", groups, len(groups))
    corrected = projected.copy()
    for fold in np.unique(folds):
        out = folds == fold
        corrected[out] *= np.median(measured[~out] / projected[~out])
    return corrected


def _errors(measured: np.ndarray, projected: np.ndarray) -> Cells:
    """Return the error of the total and the mean absolute error of the rows, both in %."""
    each = np.abs(projected / measured - 1)
    return {"total": 100 * (projected.sum() / measured.sum() - 1), "each": 100 * float(each.mean())}


LEAST_SHARE = 0.02
"""Of the time of a trace, on either GPU, from which on a class of it tells how a law errs."""


def class_rows(data: Path) -> Iterator[Cells]:
    """Yield one row per law and class of the models that both GPUs ran: bias and spread of ln(measured / projected).

    What is compared are the times of all kernels of a class in a trace: which kernels there are
    differs between the GPUs. A projection the other way errs the other way: it counts with its sign
    turned.
    """
    names = sorted(path.name for path in (data / TRACES[H100]).glob("*.json.gz"))
    errors_by_law = []
    for host, target, sign in ((MI300X, H100, 1.0), (H100, MI300X, -1.0)):
        for name in names:
            on_host, on_target = (
                kernels(data / TRACES[device] / name) for device in (host, target)
            )
            after = class_us(on_target, np.ones(len(on_target)))
            for law in LAWS:
                factors = compute_factors(on_host, find(host), find(target), law)
                by_law_asked = (
                    factors["law"].eq(law).groupby(on_host["op_class"].astype(str)).mean()
                )
                projected = class_us(on_host, factors["factor"].to_numpy())
                table = pd.DataFrame({"measured": after, "projected": projected}).dropna()
                is_large = (table / table.sum()).max(axis=1) >= LEAST_SHARE
                asked = by_law_asked.reindex(table.index) > 0.5
                table = table[is_large & asked]
                errors = sign * np.log(table["measured"] / table["projected"])
                for op_class, error in zip(table.index, errors, strict=True):
                    errors_by_law.append(
                        {"law": law, "class": str(op_class), "error": float(error)}
                    )
    head: Cells = {"campaign": "traces", "host": MI300X, "target": H100}
    for (law, op_class), part in pd.DataFrame(errors_by_law).groupby(["law", "class"], sort=True):
        errors = part["error"]
        row: Cells = {
            "law": str(law),
            "class": str(op_class),
            "n": len(errors),
            "bias": float(errors.mean()),
            "spread": float(errors.std(ddof=0)),
        }
        yield head | row


def class_us(table: pd.DataFrame, factor: np.ndarray) -> pd.Series:
    """Return the time of the activities of each class, each times a factor, µs."""
    time_us = table["duration_ns"].to_numpy(dtype=float) / 1e3 * factor
    return pd.Series(time_us).groupby(table["op_class"].astype(str).to_numpy()).sum()


def trained_row(data: Path) -> Cells:
    """Return how a trained model does on AITER's matrix products, folds of whole weight shapes held out."""
    run = train(
        [data / "aiter"],
        host=MI300X,
        target="MI355X",
        where={"op": ["gemm"]},
        models=MODELS,
        jobs=1,
    )
    rows = run.predictions.query("scheme == 'grouped' and model == @run.model.name")
    observed, predicted = (rows[name].to_numpy(dtype=float) for name in ("observed", "predicted"))
    row: Cells = {
        "campaign": "AITER",
        "host": MI300X,
        "target": "MI355X",
        "class": "gemm fp8",
        "n": len(rows),
    }
    return {**row, "law": f"trained: {run.model.name}", **_errors(observed, predicted)}


def kernels(path: Path) -> pd.DataFrame:
    """Return the linked kernels of a trace, without communication."""
    _, trace = next(iter(read_traces([path])))
    if isinstance(trace, TraceFailure):
        raise trace.error
    table = trace.dispatches
    return table[
        table["linked"] & table["kind"].eq("kernel") & table["kernel_class"].ne("communication")
    ]


def trace_rows(data: Path) -> Iterator[Cells]:
    """Yield one row per model and direction: the sums of kernel time, us, and the error of each law, %."""
    names = sorted(path.name for path in (data / TRACES[H100]).glob("*.json.gz"))
    for host, target in ((MI300X, H100), (H100, MI300X)):
        for name in names:
            others = [
                data / TRACES[device] / other
                for other in names
                if other != name
                for device in TRACES
            ]
            on_host, on_target = (
                kernels(data / TRACES[device] / name) for device in (host, target)
            )
            before, after = (
                float(table["duration_ns"].sum()) / 1e3 for table in (on_host, on_target)
            )
            errors: Cells = {
                "model": name.split("_")[0],
                "host": host,
                "host_us": before,
                "target_us": after,
            }
            devices = find(host), find(target)
            factors = {law: compute_factors(on_host, *devices, law) for law in LAWS}
            learned = _learned(others, host, target)
            factors[f"{CHOICE}+correction"] = compute_factors(
                on_host, *devices, CHOICE, corrections=learned
            )
            factors["trained"] = compute_factors(
                on_host, *devices, CHOICE, run=trained_on(others, host, target)
            )
            for law, table in factors.items():
                errors[law] = 100 * (
                    float((table["factor"] * on_host["duration_ns"]).sum()) / 1e3 / after - 1
                )
            is_trained = (factors["trained"]["law"] == MODEL).to_numpy()
            yield {
                **errors,
                "share trained": 100
                * float(on_host["duration_ns"][is_trained].sum())
                / 1e3
                / before,
            }


def _learned(files: Sequence[Path], host: str, target: str) -> Mapping[str, Correction]:
    return learn_corrections(read(files).frame, find(host), find(target), CHOICE)


def trained_on(files: Sequence[Path], host: str, target: str) -> TrainedModel:
    """Return the model that a light suite selects on some traces."""
    run = train(files, host=host, target=target, models=MODELS, jobs=1)
    with TemporaryDirectory() as folder:
        run.save(Path(folder) / "run")
        return TrainedModel.load(Path(folder) / "run")


def shown(title: str, rows: pd.DataFrame) -> Table:
    """Return a table for the terminal."""
    table = Table(title=title)
    for name in rows.columns:
        table.add_column(
            str(name), justify="right" if pd.api.types.is_numeric_dtype(rows[name]) else "left"
        )
    for row in rows.itertuples(index=False):
        table.add_row(*(_cell(value) for value in row))
    return table


def across(pairs: pd.DataFrame) -> pd.DataFrame:
    """Return the rows of `trace_rows` as columns, and how far each law is off at most and on average."""
    names = pairs["model"] + "\n" + pairs["host"] + ":"
    table = pairs.drop(columns=["model", "host"]).T.set_axis(names, axis=1).astype(float)
    size = table.abs()
    table["most"], table["mean"] = size.max(axis=1), size.mean(axis=1)
    table.loc[["host_us", "target_us", "share trained"], ["most", "mean"]] = np.nan
    return table.rename_axis("", axis=0).reset_index()


def _cell(value: object) -> str:
    if isinstance(value, float):
        return "" if np.isnan(value) else f"{value:.2f}" if abs(value) < 1 else f"{value:.1f}"
    return str(value)


def pair_errors() -> Iterator[Cells]:
    """Yield how far the ratio of two GPUs that one engine's collection has of a BF16 product lies from another's.

    The sigma is that of a normal distribution of which as many lie within the 90th percentile.
    """
    where = {
        "op": ["gemm"],
        "dtype_a": ["bf16"],
        "device": sorted({name for pair in PAIRS for name in pair}),
    }
    rows = read([fetch_aiconfigurator()], where=where).frame
    times = rows.pivot_table(
        "duration_us", ["m", "n", "k"], ["engine", "device"], "min", observed=True
    ).map(np.log)
    engines = sorted(set(rows["engine"].astype(str)))
    for host, target in PAIRS:
        ratio = {engine: times[engine, target] - times[engine, host] for engine in engines}
        for one, other in combinations(engines, 2):
            apart = (ratio[one] - ratio[other]).dropna()
            sigma = float(apart.abs().quantile(0.9) / ndtri(0.95))
            yield {
                "host": host,
                "target": target,
                "engines": f"{one}, {other}",
                "n": len(apart),
                "sigma": sigma,
            }


def entries(rows: pd.DataFrame) -> Iterator[str]:
    """Yield the rows of projection/law_errors.toml."""
    fitted = rows[rows["bias"].notna() & rows["law"].ne("flops-uniform")]
    for row in fitted.sort_values(["law", "class", "host"]).to_dict("records"):
        host, target = find(str(row["host"])).arch, find(str(row["target"])).arch
        what = f'"{row["law"]}", "{row["class"]}", "{host}", "{target}"'
        yield f"    [{what}, {row['bias']:.2f}, {row['spread']:.2f}, {row['n']}],"


def main(arguments: Sequence[str] | None = None) -> int:
    """Print the tables; return 0, also where there is nothing to measure against."""
    flags = {
        "--errors": "print the rows of projection/law_errors.toml",
        "--pairs": "print how far what two collections say of a pair lies apart",
    }
    return run_on_data("projection_laws", __doc__, _show, arguments, flags)


def _show(options: argparse.Namespace) -> None:
    if options.pairs:
        output().print(
            shown(
                "BF16 products: sigma of ln(ratio) between collections", pd.DataFrame(pair_errors())
            )
        )
        return
    measured = [(one, paired(one, options.data)) for one in CAMPAIGNS]
    rows = pd.DataFrame(
        [row for case in measured for row in law_rows(*case, by_dtype=not options.errors)]
    )
    if options.errors:
        of_vllm = [
            row
            for campaign, _, table in fetched_pairs()
            for row in law_rows(campaign, table, by_dtype=False)
        ]
        parts = [rows, pd.DataFrame(class_rows(options.data)), pd.DataFrame(of_vllm)]
        rows = pd.concat(parts, ignore_index=True)
        print("\n".join(entries(rows)))
        return
    rows = pd.concat([rows, pd.DataFrame([trained_row(options.data)])], ignore_index=True)
    output().print(shown("Kernels: error of the total and mean error of each, %", rows))
    pairs = pd.DataFrame(trace_rows(options.data))
    output().print(shown("Sum of kernel times: error by host, %", across(pairs)))


if __name__ == "__main__":
    sys.exit(main())

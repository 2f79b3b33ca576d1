"""Predictions outside the trained range against the line of the host's time, and how many rows the intervals hold.

Each data set is split by size, so that no row to predict lies inside what was trained: on a
dimension of the products, and on the work of each operator, whose largest or smallest quarter is
left out. ``--one`` adds models of one device, with whole LLMs left out; ``--others`` other pairs,
and shares of 15 and 40 %. The suite is two cheap models; ``--full`` trains all.

    python -m flopcast.benchmarks.extrapolation [--data FOLDER] [--full] [--one] [--others]
"""

from __future__ import annotations

import argparse
import sys
import warnings
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any

import numpy as np
import pandas as pd
from rich.console import Console
from rich.table import Table

from ..api.devices import device
from ..api.runs import Trained
from ..api.tables import load_measurements
from ..evaluation.competition import compete
from ..evaluation.final_model import fit_final
from ..evaluation.intervals import LEVEL
from ..evaluation.metrics import ape
from ..evaluation.trained_model import TrainedModel
from ..features.matrix import build_dataset
from ..operators.operators import work_of
from ..readers import Measurements
from ..table.problems import HOST
from .shared_data import run_on_data

CHEAP = ("Additive", "ExtraTrees/Residual")
SHARES = (0.15, 0.4)
_OF_HOST = ("duration_us", "kernel", "library", "campaign")


@dataclass(frozen=True)
class Split:
    """Rows trained on, and rows asked for: between limits of a column or of the work, or whole files left out."""

    name: str
    masks: Callable[[pd.DataFrame, pd.DataFrame], tuple[np.ndarray, np.ndarray]]
    """From the table, and the rows that can be asked for, to what is trained on and what is asked for of the table."""


@dataclass(frozen=True)
class Source:
    """A data set: folder, conditions, host (None for one device), target and its splits."""

    folder: str
    where: dict[str, str]
    host: str | None
    target: str
    splits: tuple[Split, ...]


def _beyond(column: str, trained: tuple[float, float], asked: tuple[float, float]) -> Split:
    def masks(table: pd.DataFrame, _: pd.DataFrame) -> tuple[np.ndarray, np.ndarray]:
        return table[column].between(*trained).to_numpy(), table[column].between(*asked).to_numpy()

    return Split(f"{column} {trained[0]:g}..{trained[1]:g} -> {asked[0]:g}..{asked[1]:g}", masks)


def _end(column: str, largest: bool, share: float = 0.25) -> Split:
    """Return the split that leaves out the largest, or smallest, share of each operator by a column or by work."""

    def size(table: pd.DataFrame) -> pd.Series:
        return pd.Series(
            work_of(table).flops if column == "work" else table[column].to_numpy(), table.index
        )

    def masks(table: pd.DataFrame, whole: pd.DataFrame) -> tuple[np.ndarray, np.ndarray]:
        limits = size(whole).groupby(whole["op"]).quantile(1 - share if largest else share)
        limit, sizes = table["op"].map(limits), size(table)
        asked = ((sizes > limit) if largest else (sizes < limit)).to_numpy()
        return ~asked, asked

    named = "quarter" if share == 0.25 else f"{100 * share:g} %"
    return Split(f"{column}: {'largest' if largest else 'smallest'} {named}", masks)


def _without(name: str) -> Split:
    def masks(table: pd.DataFrame, _: pd.DataFrame) -> tuple[np.ndarray, np.ndarray]:
        asked = table["source"].astype(str).str.contains(name, regex=False).to_numpy()
        return ~asked, asked

    return Split(f"without {name}", masks)


_WORK = (_end("work", largest=True), _end("work", largest=False))
_FP8 = {"op": "gemm", "family": "a8w8_blockscale"}
SOURCES = (
    Source(
        "aiter",
        _FP8,
        "MI300X",
        "MI355X",
        (_beyond("m", (1, 256), (1024, 1e9)), _beyond("m", (512, 1e9), (1, 128)), *_WORK),
    ),
    Source(
        "miopen",
        {},
        "MI210",
        "MI300X",
        (*_WORK, _end("in_channels", True), _end("in_channels", False)),
    ),
    Source("ops", {}, "MI100", "MI210", _WORK),
)
ONE = Source(
    "aiter",
    _FP8,
    None,
    "MI300X",
    (*map(_without, ("ds_v3", "glm5_1", "qwen3_vl_235b", "qwen3_vl_32b")), *_WORK),
)
_SHARES = tuple(_end("work", largest, share) for share in SHARES for largest in (True, False))
OTHERS = (
    Source("aiter", _FP8, "MI355X", "MI300X", _SHARES),
    Source("miopen", {}, "MI250X (per GCD)", "MI300X", _SHARES),
    Source("ops", {}, "MI210", "MI100", _SHARES),
)


def rows(options: argparse.Namespace) -> Iterator[tuple[str, ...]]:
    """Yield one row of the table per split."""
    for source in (*SOURCES, *((ONE,) if options.one else ()), *(OTHERS if options.others else ())):
        names = [name for name in (source.host, source.target) if name]
        measured = load_measurements([options.data / source.folder], source.where, devices=names)
        for split in source.splits:
            truth, answers, model = _tried(source, split, measured, None if options.full else CHEAP)
            yield (f"{source.folder} {split.name}", *_figures(truth, answers, model))


def _tried(
    source: Source, split: Split, measured: Measurements, models: tuple[str, ...] | None
) -> tuple[np.ndarray, pd.DataFrame, TrainedModel]:
    """Return the measured times of the rows left out, what a model trained on the others says, and the model."""
    table = measured.frame
    gpus: dict[str, Any] = {
        "host": device(source.host, "host") if source.host else None,
        "target": device(source.target, "target"),
    }
    trained, held_out = split.masks(table, build_dataset(table, **gpus).rows)
    dataset = build_dataset(table[trained].reset_index(drop=True), **gpus)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        competition = compete(dataset, models=models)
        final, _ = fit_final(dataset, competition)
    model = Trained(dataset, final, measured).loaded
    asked = build_dataset(table[held_out].reset_index(drop=True), **gpus)
    queries = asked.rows
    if source.host is not None:
        host_times = {name: queries[HOST + name] for name in _OF_HOST if HOST + name in queries}
        kept = [name for name in queries if not str(name).startswith(HOST)]
        queries = queries[kept].assign(device=source.host, **host_times)
    return asked.y, model.predict(queries, LEVEL), model


def _figures(truth: np.ndarray, answers: pd.DataFrame, model: TrainedModel) -> tuple[str, ...]:
    done = answers["predicted"].notna().to_numpy()
    truth, answers = truth[done], answers[done]
    inside = (answers["lower"] <= truth) & (truth <= answers["upper"])
    width = ((answers["upper"] - answers["lower"]) / answers["predicted"]).median()
    beyond = model.beyond
    return (
        str(model.saved.manifest["selected"]),
        "-" if beyond is None else f"{beyond.rule.name}, {beyond.fade:g}",
        f"{len(truth)}",
        f"{ape(truth, answers['predicted'].to_numpy()).mean():.1f}",
        f"{ape(truth, answers['affine'].to_numpy()).mean():.1f}",
        f"{100 * inside.mean():.1f}",
        f"{width:.2f}",
    )


def show(options: argparse.Namespace) -> None:
    """Print the table, each row as soon as it is measured."""
    table = Table(title=f"Rows outside the trained range; {100 * LEVEL:g} % intervals")
    for head in (
        "split",
        "model",
        "rule, fade",
        "rows",
        "error %",
        "affine %",
        "covered %",
        "median width",
    ):
        table.add_column(
            head, justify="left" if head in ("split", "model", "rule, fade") else "right"
        )
    for row in rows(options):
        print("  ".join(row), file=sys.stderr, flush=True)
        table.add_row(*row)
    Console(width=140).print(table)


if __name__ == "__main__":
    flags = {
        "--full": "the whole suite, not two cheap models",
        "--one": "models of one device too",
        "--others": "12 more splits",
    }
    sys.exit(run_on_data("extrapolation", __doc__, show, flags=flags))

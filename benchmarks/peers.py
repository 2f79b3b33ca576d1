"""Error against CPU time: the suite and ``quick`` beside LightGBM, XGBoost, CatBoost and learners of scikit-learn.

All see the same features, fold by fold the same rows, on one thread; peers are fitted to the
logarithm of the time, and to what is left of it over the additive model of the suite. The suite's
error is that of its choice, selection included. ``python -m flopcast.benchmarks.peers --case
AITER``, ``--case GEMM --sample 10000`` for as many rows of the public record, drawn at random, and
``--rows 1000,4000,13000,50000`` for made-up pairs.
"""

from __future__ import annotations

import argparse
import importlib
import time
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
from sklearn.ensemble import HistGradientBoostingRegressor, RandomForestRegressor
from sklearn.neighbors import KNeighborsRegressor
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler

from ..api.tables import read
from ..datasets import fetch_aiconfigurator
from ..evaluation.competition import columnar, compete
from ..evaluation.crossval import cross_validate
from ..features.matrix import Dataset, build_dataset
from ..hardware import find
from ..models.base import Candidate
from ..models.ensembles import LogResidual
from ..models.suite import additive_base
from ..models.target_space import LogTarget
from .features import HOST, TARGET
from .harness import Row
from .shared_data import SHARED_DATA

TREES = 300
_WEIGHTS = 100  # shapes of the made-up pairs
FAST = ("quick", "LightGBM", "XGBoost", "forest")
"""Who is run on many rows, where nobody is asked for."""


@dataclass(frozen=True)
class Case:
    """Pairs measured on two GPUs: files of the measured data or, where none is named, the public record's tables."""

    files: tuple[str, ...]
    where: Mapping[str, str]
    host: str
    target: str


_TRTLLM = {"engine": "trtllm", "release": "1.3.0rc20"}
CASES = {
    "AITER": Case(("aiter",), {"op": "gemm", "family": "a8w8_blockscale"}, "MI300X", "MI355X"),
    "MIOpen": Case(
        ("miopen/gfx90a68.HIP.fdb.txt.bz2", "miopen/gfx942130.HIP.fdb.txt.bz2"),
        {"op": "conv"},
        "MI210",
        "MI300X",
    ),
    "GEMM": Case((), {**_TRTLLM, "op": "gemm", "scale_block": ",tensor"}, "H100", "B200"),
    "attention": Case((), {**_TRTLLM, "op": "attention", "seq_q": "2..10000000"}, "H100", "B200"),
}


def measured(case: Case, data: Path, sample: int | None = None, seed: int = 0) -> Dataset:
    """Return the pairs of a case and their features; with ``sample`` at most so many, drawn at random."""
    frame = read(
        [data / name for name in case.files] or fetch_aiconfigurator(), where=case.where
    ).frame
    dataset = build_dataset(frame, host=find(case.host), target=find(case.target))
    if sample is None or sample >= len(dataset):
        return dataset
    rows = np.random.default_rng(seed).choice(len(dataset), sample, replace=False)
    return replace(dataset.taken(np.isin(np.arange(len(dataset)), rows)), unpaired=None)


def made_up(n: int, seed: int = 0) -> Dataset:
    """Return about n pairs of fp8 GEMMs of 100 weights: an overhead and a rate on each GPU, and 5 % noise."""
    rng = np.random.default_rng(seed)
    weights = 256 * rng.integers(1, 65, (_WEIGHTS, 2))
    m = 16 * rng.permutation(max(n // _WEIGHTS, 1)) + 16
    shapes = pd.DataFrame({"m": np.tile(m, _WEIGHTS), "n": np.repeat(weights[:, 0], len(m))})
    shapes["k"] = np.repeat(weights[:, 1], len(m))
    work = shapes.astype(float).prod(axis=1)
    rows = [
        shapes.assign(
            device=device, duration_us=fixed + work / rate * rng.lognormal(0, 0.05, len(shapes))
        )
        for device, fixed, rate in ((HOST, 6, 2e8), (TARGET, 4, 4e8))
    ]
    frame = read(pd.concat(rows, ignore_index=True).assign(op="gemm", dtype_a="fp8")).frame
    return build_dataset(frame, host=find(HOST), target=find(TARGET))


def peers(
    data: Dataset, names: Sequence[str] | None = None
) -> Iterator[tuple[str, Candidate | str]]:
    """Yield each peer in each space, or why it cannot run."""
    for name, make in _LEARNERS.items():
        if names is not None and name not in names:
            continue
        try:
            learner = make()
        except ImportError as error:
            yield name, f"skipped: {error.name} is not installed"
            continue
        base = additive_base(columnar(data))
        yield name, Candidate(f"{name}, log time", LogTarget(learner), "log time")
        yield name, Candidate(f"{name}, log residual", LogResidual(base, learner), "log residual")


_LEARNERS = {
    "LightGBM": lambda: _of("lightgbm").LGBMRegressor(
        n_estimators=TREES, n_jobs=1, verbose=-1, random_state=0
    ),
    "XGBoost": lambda: _of("xgboost").XGBRegressor(n_estimators=TREES, n_jobs=1, random_state=0),
    "CatBoost": lambda: _of("catboost").CatBoostRegressor(
        n_estimators=TREES, thread_count=1, verbose=False, random_seed=0, allow_writing_files=False
    ),
    "forest": lambda: RandomForestRegressor(TREES, n_jobs=1, random_state=0),
    "HistGradientBoosting": lambda: HistGradientBoostingRegressor(max_iter=TREES, random_state=0),
    "kNN": lambda: make_pipeline(
        StandardScaler(), KNeighborsRegressor(5, weights="distance", n_jobs=1)
    ),
}


def _of(module: str) -> Any:
    return importlib.import_module(module)


def against_time(task: str, data: Dataset, names: Sequence[str] | None = None) -> Iterator[Row]:
    """Yield CPU seconds of the cross-validation under both schemes, and the errors, of ours and of the peers."""
    task = f"{task}, {len(data)} pairs, {data.X.shape[1]} features"
    for name, quick in (("suite", False), ("quick", True)):
        if names is None or name in names:
            start = time.process_time()
            selected = compete(data, quick=quick).selected
            seconds = time.process_time() - start
            yield _row(
                task,
                f"flopcast, {name}",
                seconds,
                {scheme: one["e_out"] for scheme, one in selected.items()},
            )
    for name, peer in peers(data, names):
        if isinstance(peer, str):
            yield Row(task, name, note=peer)
            continue
        start = time.process_time()
        competition = cross_validate(data, [peer], tell_groups=("grouped",))
        seconds = time.process_time() - start
        rows = {scheme: result.rows[0] for scheme, result in competition.schemes.items()}
        if wrong := next((row["error"] for row in rows.values() if row["error"]), None):
            yield Row(task, peer.name, note=f"failed: {wrong}")
        else:
            yield _row(
                task, peer.name, seconds, {scheme: row["e_out"] for scheme, row in rows.items()}
            )


def _row(task: str, name: str, seconds: float, errors: Mapping[str, float]) -> Row:
    said = {"kfold": "shuffled", "grouped": "unseen groups"}
    note = ", ".join(f"{error:.2f} % {said[scheme]}" for scheme, error in errors.items())
    return Row(task, name, seconds, note=f"CPU seconds; {note}")


def main(arguments: Sequence[str] | None = None) -> None:
    """Measure and print a line each."""
    parser = argparse.ArgumentParser(
        prog="python -m flopcast.benchmarks.peers", description=__doc__
    )
    parser.add_argument("--case", choices=CASES, help="measured pairs")
    parser.add_argument("--sample", type=int, help="at most so many of them, drawn at random")
    parser.add_argument("--rows", help="numbers of made-up pairs")
    parser.add_argument(
        "--names",
        help=f"of suite, quick, {', '.join(_LEARNERS)}; default: all, of many rows the fast",
    )
    parser.add_argument("--data", type=Path, default=SHARED_DATA, help="folder of measured data")
    options = parser.parse_args(arguments)
    names = options.names.split(",") if options.names else None
    cases = [options.case] if options.case else [] if options.rows else [*CASES]
    for case in cases:
        for row in against_time(case, measured(CASES[case], options.data, options.sample), names):
            show(row)
    for n in map(int, options.rows.split(",") if options.rows else ()):
        for row in against_time("made up", made_up(n), names or FAST):
            show(row)


def show(row: Row) -> None:
    """Print a row."""
    seconds = "        " if row.seconds is None else f"{row.seconds:7.1f} s"
    print(f"{row.task:44} {row.name:26} {seconds}  {row.note}", flush=True)


if __name__ == "__main__":
    main()

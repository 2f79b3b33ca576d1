"""Whether what a trace says of each launch lowers the error: ``python -m flopcast.benchmarks.launch_features CASE``.

Registers, local memory, scratch and the occupancy that these leave become features of each kernel
beside those of the catalogue (`features.catalogue`), as counters do, and models are scored with and
without them on the same grouped folds. The cases are traces of the shared data: kernels of which
only the launch is recorded, one device (`MI350X`, `A100`), and the operators of four models on two
GPUs, from the GPU whose traces state registers to the other (`H100`).
"""

from __future__ import annotations

import argparse
from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Final

import numpy as np
import pandas as pd
from sklearn.base import clone

from ..evaluation.competition import columnar
from ..evaluation.folds import make_folds
from ..features.matrix import Dataset, build_dataset
from ..hardware import find
from ..models.suite import suite
from ..operators.kinds.launched import LAUNCHED
from ..readers import TraceFailure, read, read_traces
from ..report.document import Document, Section, Table, columns, rows
from ..report.terminal import show
from ..table.measurements import COUNTER
from ..traces.activity_work import launch_product
from ..traces.summary import LAUNCH, STATED, call_codes, measurements
from .shared_data import SHARED_DATA

OWN: Final = f"{COUNTER}stated."
"""Prefix of the features that are tried, of kernels of operators too."""
MODELS: Final = ("Additive", "Lasso", "RandomForest", "ExtraTrees/Residual")
FOLDS: Final = 10


@dataclass(frozen=True)
class Unit:
    """What one compute unit of four SIMDs holds, as its maker's programming guide says."""

    waves: int  # at most
    lds_bytes: int


UNITS: Final = {
    "MI350X": Unit(32, 160 * 1024),
    "A100 80GB SXM4": Unit(64, 164 * 1024),
    "H100 SXM5": Unit(64, 228 * 1024),
}
REGISTERS: Final = 512
"""Vector registers of a lane of a SIMD: of CDNA 3 and 4 with the accumulation registers, of NVIDIA 65536 by 32 by 4."""
GRANULE: Final = 8
"""Registers are given out by so many."""
MOST_GROUPS: Final = 32
"""Workgroups of a compute unit."""
CASES: Final = {
    "MI350X": (("rocprofv3/json/908_results.json.gz",), None, "MI350X"),
    "A100": (("nsys/perlmutter-cloverleaf-cuda.sqlite",), None, "A100 80GB SXM4"),
    "H100": (("kineto/pairs_h100", "kineto/pairs_mi300"), "H100 SXM5", "MI300X"),
}


def occupancy(launch: pd.DataFrame, unit: Unit, wavefront: int) -> np.ndarray:
    """Return the share of a compute unit's wave slots that a kernel can fill, shape (n,), from its launch.

    Examples
    --------
    >>> one = pd.DataFrame({"threads": [256.0, 256.0], "vgpr": [32.0, 512.0], "accum_vgpr": 0.0, "lds_bytes": 0.0})
    >>> occupancy(one, UNITS["MI350X"], 64).tolist()
    [1.0, 0.125]
    """
    waves = np.ceil(launch["threads"].to_numpy() / wavefront)
    used = np.maximum(launch["vgpr"].to_numpy() + launch["accum_vgpr"].fillna(0).to_numpy(), 1)
    fit = np.minimum(unit.waves, 4 * (REGISTERS // (np.ceil(used / GRANULE) * GRANULE)))
    lds = launch["lds_bytes"].to_numpy()
    by_lds = np.where(lds > 0, unit.lds_bytes // np.maximum(lds, 1), MOST_GROUPS)
    groups = np.minimum(np.minimum(fit // waves, MOST_GROUPS), by_lds)
    return np.minimum(np.maximum(groups, 1) * waves / unit.waves, 1.0)


def launched(paths: Sequence[Path]) -> pd.DataFrame:
    """Return the rows of traces with what the launch of the longest kernel of each states, by model or kernel."""
    tables = []
    for label, trace in read_traces(paths):
        if isinstance(trace, TraceFailure):
            raise trace.error
        table = trace.dispatches
        launch = table[list(STATED)].astype("Float64").astype(float)
        device = str(table["device"].iloc[0])
        launch["threads"] = launch_product(table, "block")
        if device in UNITS:
            launch["occupancy"] = occupancy(launch, UNITS[device], find(device).wavefront or 64)
        code = pd.Series(call_codes(table), table.index)
        order = table.assign(call=code).sort_values("duration_ns", ascending=False, kind="stable")
        # of a call the longest kernel's
        launch[~table.index.isin(order.drop_duplicates("call").index)] = np.nan
        table = pd.concat([table, launch.drop(columns="threads").add_prefix(OWN)], axis=1)
        measured = measurements(replace(trace, dispatches=table), label)
        measured = measured.drop(
            columns=[column for column in measured if str(column).startswith(LAUNCH)]
        )
        model = Path(label).name.partition("__")[0]
        tables.append(
            measured.assign(group=np.where(measured["op"].eq(LAUNCHED), measured["variant"], model))
        )
    every = pd.concat(tables, ignore_index=True)
    classified = every[~every["op"].isin([LAUNCHED, "collective", "copy", "fill"])]
    return classified if len(classified) else every[every["op"].eq(LAUNCHED)]


def errors(dataset: Dataset, models: Sequence[str] = MODELS) -> pd.DataFrame:
    """Return the error of each row out of sample, %, a column per model."""
    fold = make_folds("grouped", dataset.groups, len(dataset), FOLDS)
    by_model = {}
    for candidate in suite("default", columnar(dataset), names=models):
        predicted = np.empty(len(dataset))
        for one in np.unique(fold):
            rest, test = fold != one, fold == one
            model = clone(candidate.estimator).fit(dataset.X[rest], dataset.y[rest])
            predicted[test] = model.predict(dataset.X[test])
        by_model[candidate.name] = 100 * np.abs(predicted / dataset.y - 1)
    return pd.DataFrame(by_model)


def compared(name: str, data: Path = SHARED_DATA) -> pd.DataFrame:
    """Return the mean errors of a case without what launches state, with it, and with the occupancy too, by model.

    The last row is the best of them; ``lower`` and ``upper`` are the ends of a 95 % interval, by a
    bootstrap of whole groups, of by how much a model errs more with what launches state, as
    training takes it up, than without.
    """
    places, host, target = CASES[name]
    raw = launched([data / "profiles" / place for place in places])
    of_model = [
        column
        for column in raw
        if not str(column).startswith("_") and column not in ("flops", "bytes")
    ]
    frame = read([raw[of_model]]).frame
    launch = [column for column in frame if str(column).startswith(OWN)]
    rows_of = dict[str, pd.DataFrame]()
    for label, left_out in (
        ("without", launch),
        ("with", [f"{OWN}occupancy"]),
        ("and occupancy", []),
    ):
        part = frame.drop(columns=left_out)
        dataset = build_dataset(
            part, host=None if host is None else find(host), target=find(target)
        )
        by_model = errors(dataset)
        rows_of[label] = by_model.assign(best=by_model[by_model.mean().idxmin()])
    gained = (rows_of["with"] - rows_of["without"]).groupby(dataset.groups)
    sums, sizes = gained.sum().to_numpy(), gained.size().to_numpy()
    drawn = np.random.default_rng(0).integers(len(sizes), size=(2000, len(sizes)))
    means = sums[drawn].sum(axis=1) / sizes[drawn].sum(axis=1)[:, None]
    lower, upper = np.quantile(means, [0.025, 0.975], axis=0)
    mean_errors = pd.DataFrame({label: table.mean() for label, table in rows_of.items()})
    return mean_errors.assign(lower=lower, upper=upper)


def main(arguments: Sequence[str] | None = None) -> None:
    """Print the errors of one case."""
    parser = argparse.ArgumentParser(
        prog="python -m flopcast.benchmarks.launch_features", description=__doc__
    )
    parser.add_argument("case", choices=[*CASES])
    parser.add_argument("--data", type=Path, default=SHARED_DATA, help="folder of measured data")
    given = parser.parse_args(arguments)
    comparison = compared(given.case, given.data)
    cells = [
        (str(model), *(f"{error:.1f}" for error in row))
        for model, row in zip(comparison.index, comparison.to_numpy(), strict=True)
    ]
    title = f"{given.case}: mean error out of sample, %, groups left out"
    heads = columns("model", numbers=[*map(str, comparison)])
    show(Document(sections=[Section("Launch", [Table(heads, rows(cells), title)])]))


if __name__ == "__main__":
    main()

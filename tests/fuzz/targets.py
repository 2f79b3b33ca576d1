"""What is done with an input of each kind, and what must never come of it, whatever the input is."""

from __future__ import annotations

import os
from collections.abc import Callable, Sequence
from pathlib import Path
from zlib import crc32

import numpy as np
import pandas as pd

from flopcast.errors import DataError, FlopcastError
from flopcast.hardware import FIGURES, find
from flopcast.models import artifact
from flopcast.operators.operators import OPS, work_of
from flopcast.power.logs import read_power_log
from flopcast.readers import Measurements, Options, Reader, TraceReader, read
from flopcast.readers.base import DataFile
from flopcast.readers.execution_trace import read_execution_trace
from flopcast.readers.files import find_files
from flopcast.readers.reading import sort_files
from flopcast.scaling.curves import read_curves
from flopcast.scaling.extrap import read_experiment
from flopcast.scaling.terms import fit_terms
from flopcast.table.measurements import LARGEST, MAY_BE_ZERO, TEXT_DIMENSIONS
from flopcast.tests.fuzz.behind import BEHIND, ImpossibleError
from flopcast.tests.fuzz.corpus import Files, seeds_of
from flopcast.tests.fuzz.mutation import mutated
from flopcast.workloads.layer_graph import read_layers

TABLES = (
    "tidy CSV", "tidy Parquet", "tidy xlsx", "AITER", "AIConfigurator", "MIOpen", "hipblaslt-bench", "rccl-tests", "TunableOp",
    "key_averages", "serving", "logs of products",
)  # fmt: skip
TRACES = (
    "Kineto", "JAX trace", "rocprofv3 CSV", "rocprofv3 JSON", "rocpd", "rpd", "rocprof", "rocprofiler-compute",
    "nsys", "nsys stats", "ncu",
)  # fmt: skip
OPTIONS = Options(defaults={"device": "MI300X"}, max_bytes=2**28)
GOOD = "op,device,dtype,m,n,k,us,family\ngemm,MI300X,bf16,1234,5678,910,50,sound\n"
"""A file that is sound, in the same folder as the damaged ones; its row must come out."""
_WHOLE = 16
"""Of so many traces one is also summarised."""


def input_of(target: str, seed: int, number: int) -> Files:
    """Return an input; the same arguments give the same bytes."""
    rng = np.random.default_rng([seed, crc32(target.encode()), number])
    own = seeds_of(target)
    return mutated(own[int(rng.integers(len(own)))], own, rng)


def write(folder: Path, files: Files) -> None:
    """Write an input into a folder."""
    os.makedirs(folder, exist_ok=True)
    for name, content in files.items():
        if "/" in name:
            (folder / name).parent.mkdir(parents=True, exist_ok=True)
        with open(f"{folder}/{name}", "wb", buffering=0) as file:
            file.write(content)


def run(target: str, folder: Path, number: int) -> str:
    """Read what lies in a folder, and return "read" or "refused"; anything else that comes of it is raised.

    Each folder below holds one input of a table (their rows are judged together) or of a trace.
    """
    try:
        if target in TABLES:
            (folder / "sound.csv").write_text(GOOD)
            _check(read([folder], options=OPTIONS, lenient=True))
        elif target in TRACES:
            _trace(folder, number)
        else:
            path = Path(
                min(f"{place}/{name}" for place, _, names in os.walk(folder) for name in names)
            )
            _OTHERS[target](path) if target in _OTHERS else BEHIND[target](path, number)
    except FlopcastError as error:
        if len(str(error).splitlines()) > 1:
            raise ImpossibleError(f"a refusal of several lines: {str(error)[:200]!r}") from error
        if target in TABLES:
            raise ImpossibleError(f"a sound file was lost: {error}") from error
        return "refused"
    return "read"


def _trace(folder: Path, number: int) -> None:
    """Read every trace and table of a folder by its reader; one of many also as `ingest` does."""
    if number % _WHOLE == 0:
        (folder / "sound.csv").write_text(GOOD)
        _check(read([folder], options=OPTIONS, lenient=True))
        return
    found = sort_files(find_files([folder]))
    for source in found.sources:
        if isinstance(source.reader, Reader):
            source.reader.read(source.files[0].path, OPTIONS)
        else:
            _dispatches(source.reader, source.files)
    if not found.sources:
        raise DataError("of no format that is known")


def _dispatches(reader: TraceReader, files: Sequence[DataFile]) -> None:
    """Read a trace: its activities are in order of time, and a refusal names a file."""
    try:
        table = reader.trace(files, OPTIONS).dispatches
    except DataError as error:
        if not error.source:
            raise ImpossibleError(f"a refusal without a file: {error}") from error
        raise
    if not table["start_ns"].is_monotonic_increasing or table["duration_ns"].dtype != np.int64:
        raise ImpossibleError(
            f"activities out of order, or durations that are {table['duration_ns'].dtype}"
        )


def _check(found: Measurements) -> None:
    """Hold what was read against what can be."""
    frame = found.frame
    if not frame["family"].eq("sound").sum() == 1:
        raise ImpossibleError("the row of a sound file is not there")
    duration = frame["duration_us"].to_numpy(dtype=float)
    _all(np.isfinite(duration) & (duration > 0), frame, "duration_us")
    spread = frame["spread_us"].to_numpy(dtype=float)
    _all(np.isnan(spread) | (np.isfinite(spread) & (spread >= 0)), frame, "spread_us")
    repeats = frame["repeats"].to_numpy(dtype=float)
    _all(np.isfinite(repeats) & (repeats >= 1), frame, "repeats")
    for op in OPS.values():
        rows = frame[frame["op"].eq(op.name)]
        for name in (name for name in op.dims if name in rows and name not in TEXT_DIMENSIONS):
            values = rows[name].to_numpy(dtype=float)
            least = 0 if name in MAY_BE_ZERO or name in ("causal", "gated") else 1
            _all(np.isnan(values) | ((values >= least) & (values <= LARGEST)), rows, name)
    work = work_of(frame)
    _all(~np.isinf(work.flops) & ~(work.flops < 0), frame, "op")
    _all(~np.isinf(work.bytes) & ~(work.bytes < 0), frame, "op")
    if found.rejected["reason"].eq("").any():
        raise ImpossibleError("a row is kept out without a reason")


def _all(possible: np.ndarray, rows: pd.DataFrame, column: str) -> None:
    if not possible.all():
        row = rows[~possible].iloc[0]
        raise ImpossibleError(f"{row['source']}: {column} = {row[column]!r}")


def _power_log(path: Path) -> None:
    power = read_power_log(path)["power_w"].to_numpy(dtype=float)
    if not np.isfinite(power).all():
        raise ImpossibleError(f"power {power}")


def _gpu(path: Path) -> None:
    gpu = find(path)
    for name, value in (gpu.peaks | {name: getattr(gpu, name) for name in FIGURES}).items():
        if value is not None and not 0 < value < np.inf:
            raise ImpossibleError(f"{name} = {value}")


def _sizes(path: Path) -> None:
    for curve in read_curves(path).curves:
        if not (np.isfinite(curve.performance) & (curve.performance > 0)).all():
            raise ImpossibleError(f"performance {curve.performance}")


def _terms(path: Path) -> None:
    models, _ = fit_terms(read_experiment(path))
    for model in models:
        lower, upper = model.interval(model.points)
        held = model.predict(model.points)
        if not ((lower <= held) & (held <= upper) | ~np.isfinite(lower + held + upper)).all():
            raise ImpossibleError(f"an interval {lower} to {upper} without {held}")


def _model(path: Path) -> None:
    model = artifact.load(path.parent)
    X = pd.DataFrame(
        np.array(model.manifest["probes"]["rows"], dtype=float), columns=model.feature_names
    )
    if not np.isfinite(model.predict(X)).all():
        raise ImpossibleError("a prediction that is not finite")


def _execution_trace(path: Path) -> None:
    read_execution_trace(path, max_bytes=OPTIONS.max_bytes)


def _mpi_trace(path: Path) -> None:
    for layer in read_layers(path, unit="" if path.name == "events.txt" else "1Gf").layers:
        if not 0 <= max(layer.stated_us or 0.0, layer.message_bytes) < np.inf:
            raise ImpossibleError(
                f"{layer.name} takes {layer.stated_us}, {layer.message_bytes} bytes"
            )


_OTHERS: dict[str, Callable[[Path], None]] = {
    "execution trace": _execution_trace, "power log": _power_log, "GPU file": _gpu, "sizes": _sizes, "terms": _terms,
    "model": _model,
    "MPI trace": _mpi_trace,
}  # fmt: skip
TARGETS: Sequence[str] = (*TABLES, *TRACES, *_OTHERS, *BEHIND)

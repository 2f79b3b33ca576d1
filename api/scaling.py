"""Performance at other sizes: predicted from small scale models, or read off devices that were measured.

`scale` predicts, `scale_devices` judges; both return results with plain tables, figures, a page and
a folder. `scale_facts` reproduces what was published.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass
from numbers import Real
from pathlib import Path
from typing import TYPE_CHECKING, Unpack

import pandas as pd

from .. import values
from ..errors import DataError, ParameterError, check_margin, check_number
from ..hardware import GPU, find, scaled
from ..output import FILES
from ..readers.files import text
from ..report.formats import counted
from ..report.result import Result, saving
from ..report.scaling import devices_document, predictions_document, published_document
from ..scaling.counted import counted_rows, miss_rates
from ..scaling.curves import SCENARIOS, CurveTable, curves_of, read_curves, sizes_beyond, stated
from ..scaling.devices import DeviceScaling, assess_devices, by_size
from ..scaling.prediction import (
    SizePredictions,
    check_request,
    error_percent,
    predict_sizes,
    summarise,
)
from ..scaling.simulated import is_simulated, simulated_rows
from ..scaling.trials import published_trials, reproduction
from ..settings import configured, spelt_out
from ..table.conditions import Reading, TableReading
from ..values import Assigned, Columns, Margin, Names, Numbers
from .devices import Devices, device
from .tables import Data, items, load_measurements

if TYPE_CHECKING:
    import plotly.graph_objects as go

    from ..report.document import Document


class Scaling(Result, SizePredictions):
    """Performance predicted at other sizes, benchmark by benchmark and law by law."""

    saved_as = FILES["scale"]

    @property
    def table(self) -> pd.DataFrame:
        """One row per benchmark, law and target.

        Columns: benchmark, scenario, law, size, predicted, lower, upper, measured, error_percent
        (NaN where nothing was measured or the law has no prediction), failed (why it has none, else
        empty).
        """
        rows = []
        for one in self.benchmarks:
            for law in one.laws:
                for size in self.targets:
                    measured = one.curve.measured_at(size)
                    if measured is None:
                        error = float("nan")
                    else:
                        error = error_percent(law.at(size)[0], measured)
                    labels = (one.curve.benchmark, one.curve.scenario, law.law, size)
                    rows.append((*labels, *law.at(size), measured, error, law.failed))
        names = [
            "benchmark",
            "scenario",
            "law",
            "size",
            "predicted",
            "lower",
            "upper",
            "measured",
            "error_percent",
        ]
        return pd.DataFrame(rows, columns=[*names, "failed"]).astype({"measured": float})

    @property
    def errors(self) -> pd.DataFrame:
        """How each law did at each target that was measured: a row per scenario, target and law (`LawSummary`)."""
        return pd.DataFrame([vars(one) for one in summarise(self)])

    def document(self) -> Document:
        """Return the result for readers; its ``data`` are those of ``scale.json``."""
        return predictions_document(self)

    def plot_benchmarks(self, *, per_unit: bool = False) -> go.Figure:
        """Draw what was measured and predicted, a panel per benchmark; ``per_unit`` of size: flat at 1 is linear."""
        from ..report.scaling import leading, prediction_figure

        return prediction_figure(self, leading(self), per_unit=per_unit)

    def __repr__(self) -> str:
        sizes = ", ".join(f"{size:g}" for size in self.targets)
        return (
            f"<Scaling of {counted(len(self.benchmarks), 'benchmark')} to {sizes} by "
            f"{counted(len(self.names), 'law')}>"
        )


class MeasuredScaling(Result, DeviceScaling):
    """How measured kernels scale with the compute units of their devices."""

    saved_as = FILES["scale"]

    @property
    def table(self) -> pd.DataFrame:
        """One row per kernel family, the largest first.

        Columns: op, family, dtype, problems, groups, exponent (performance ∝ units^exponent) with
        lower and upper, its 5th and 95th percentile over problems (p5, p95), growth.
        """
        rows = []
        for one in self.families:
            rows.append(
                {
                    **{
                        name: getattr(one, name)
                        for name in ("op", "family", "dtype", "problems", "groups")
                    },
                    "exponent": one.exponent.value,
                    "lower": one.exponent.lower,
                    "upper": one.exponent.upper,
                    "p5": one.spread[0],
                    "p95": one.spread[1],
                    "growth": str(one.growth),
                }
            )
        return pd.DataFrame(rows)

    def document(self) -> Document:
        """Return the result for readers; its ``data`` are those of ``scale.json``."""
        return devices_document(self)

    def plot_families(self) -> go.Figure:
        """Draw the exponent of each problem, family by family, with the median and its interval."""
        from ..report.scaling import family_figure

        return family_figure(self)

    def plot_problems(self) -> go.Figure:
        """Draw a curve per problem against the performance on the smallest device."""
        from ..report.scaling import problem_figure

        return problem_figure(self.measured)

    def __repr__(self) -> str:
        names = " → ".join(device.name for device in self.measured.devices)
        return f"<MeasuredScaling {names}: {counted(len(self.measured.rows), 'problem')}>"


scale_configs = configured(scaled.scale_models)


@saving
@spelt_out
@configured
def scale(
    data: str | Path | pd.DataFrame | CurveTable | None = None,
    fit: Numbers = (),
    sizes: Numbers | None = None,
    *,
    performance: Numbers | None = None,
    mpki: Numbers | None = None,
    f_mem: float | None = None,
    law: Names | None = None,
    scenario: str = "strong",
    interval: float = 0.9,
    **reading: Unpack[TableReading],
) -> Scaling:
    """Predict larger sizes from small ones, benchmark by benchmark: the scaling laws are fitted to the small ones.

    Parameters
    ----------
    data : path or DataFrame, optional
        CSV or Parquet with benchmark, size and performance; Extra-P's input; a folder of Caliper's JSON. See
        `scaling.curves`; without it ``performance`` states the values.
    fit : sequence of float
        Sizes to fit, two or more. They increase.
    sizes : sequence of float, optional
        Sizes that are asked for. By default every measured size beyond those to fit.
    performance : sequence of float, optional
        Performance at each of the sizes to fit, for no file.
    mpki : sequence of float, optional
        Miss rates at each of the sizes to fit, or at those asked for too. With ``performance``:
        misses per thousand instructions.
    f_mem : float, optional
        Share of the time that waits for memory, 0 to 1. With ``performance``.
    law : str or sequence of str, optional
        Laws to fit. Each by a part of its name (`scaling.prediction.LAWS`); all by default.
    where, rename
        As for `read`: of the table.
    scenario : {"strong", "weak", "chiplets"}
        Of rows that state none: strong, weak, chiplets.
    interval : float, default=0.9
        As for `predict`.

    Returns
    -------
    Scaling

    Raises
    ------
    ParameterError
        A size, a name or a value cannot be used, or there is nothing to predict.
    DataError
        The table cannot be read.

    Examples
    --------
    >>> found = scale(fit=[8, 16], sizes=[64], performance=[100, 200], law=["proportional"])
    >>> float(found.table["predicted"][0])
    800.0
    """
    if scenario not in SCENARIOS:
        raise ParameterError("scenario", f"must be one of {', '.join(SCENARIOS)}, got {scenario!r}")
    fit = values.numbers("fit", fit) or []
    sizes = values.numbers("sizes", sizes)
    performance = values.numbers("performance", performance)
    mpki = values.numbers("mpki", mpki)
    if not fit:
        raise ParameterError("fit", "is missing: which sizes are the scale models? e.g. 8,16")
    names = values.names("law", law)
    check_request(fit, sizes, names, interval)
    where = reading.get("where")
    renames = values.assigned("rename", reading.get("rename"))
    beside = {"performance": performance, "mpki": mpki, "f_mem": f_mem}
    if data is None:
        if where or renames:
            parameter = "rename"
            if where:
                parameter = "where"
            raise ParameterError(parameter, "is of a table: give one, or leave it out")
        if performance is None:
            raise ParameterError(
                "performance", "is missing: give a table, or a value for each size to fit"
            )
        table = stated(fit, performance, sizes or (), mpki=mpki, f_mem=f_mem, scenario=scenario)
    elif given := [name for name, value in beside.items() if value is not None]:
        raise ParameterError(
            given[0], "states a value: leave it out where a table gives the values"
        )
    elif isinstance(data, CurveTable):
        table = data
    elif isinstance(data, pd.DataFrame):
        table = curves_of(data, where, scenario, renames)
    else:
        table = read_curves(Path(data), where, scenario, renames)
    if sizes is None:
        sizes = list(sizes_beyond(table.curves, fit))
        if not sizes:
            problem = f"must be stated: nothing was measured beyond {max(fit):g}"
            raise ParameterError("sizes", problem)
    predictions = predict_sizes(table, fit, sizes, laws=names, level=interval)
    return Scaling(
        predictions.benchmarks,
        predictions.fit,
        predictions.targets,
        predictions.level,
        predictions.notes,
    )


scale_predict = scale
"""The function of the command ``scale predict``."""


@saving
@configured
def scale_counters(
    *data: Data,
    sizes: Numbers | None = None,
    default: Assigned | None = None,
) -> pd.DataFrame:
    """Return rows for `scale` of kernels that were profiled, or simulated, at several sizes of a GPU.

    Parameters
    ----------
    *data : path, DataFrame, Measurements, or a sequence of them
        A folder of rocprofiler-compute, or what was read of one, for each size; or the log of
        GPGPU-Sim or Accel-Sim (`scaling.simulated`).
    sizes : sequence of float, optional
        In compute units, one for each folder; by default those of the folders' devices.
    default : mapping of str to str, optional
        As for `read`: ``device`` of counters of rocprofv3.

    Returns
    -------
    DataFrame
        ``benchmark`` (the kernel), ``size``, ``ipc``, ``mpki``, ``f_mem``, ``unit``
        (`scaling.counted`); its ``attrs["rejected"]`` is how many rows were kept out, by reason.

    Raises
    ------
    FlopcastError
        A folder, which the message names, cannot be read, lacks counters or holds several devices;
        sizes are not as many as folders, not above zero, or those of two folders are the same.

    Examples
    --------
    >>> import flopcast as fc
    >>> rows = fc.scale_counters("profile38/", "profile76/", sizes=[38, 76])  # doctest: +SKIP
    """
    folders = items(data)
    sizes = values.numbers("sizes", sizes)
    if not folders:
        raise ParameterError("data", "is missing: give a folder for each size")
    if sizes is not None and len(sizes) != len(folders):
        raise ParameterError(
            "sizes", f"must be one for each of {len(folders)} folders, got {len(sizes)}"
        )
    for size in () if sizes is None else sizes:
        if not (isinstance(size, Real) and 0 < size < float("inf")):
            raise ParameterError("sizes", f"must be numbers above 0, got {size!r:.40}")
    parts = []
    before = dict[float, object]()
    rejected = Counter[str]()
    for folder, size in zip(
        folders, [None] * len(folders) if sizes is None else sizes, strict=True
    ):
        name = "a table"
        if isinstance(folder, Path):
            name = folder
        try:
            log = simulator_log(folder)
            if log is not None:
                part = simulated_rows(log, size)
                reasons = dict[str, int]()
            else:
                measured = load_measurements(folder, default=default)
                part = counted_rows(measured.frame, size)
                reasons = measured.rejected_by_reason
        except DataError as error:
            if isinstance(error, ParameterError) or str(name) in str(error):
                raise
            raise DataError(str(error), source=str(name)) from None
        at = float(part["size"].iloc[0])
        if at in before:
            raise ParameterError(
                "sizes",
                f"must tell the profiles apart: {before[at]} and {name} are both of {at:g}",
            )
        before[at] = name
        parts.append(part)
        rejected.update(reasons)
    counters = pd.concat(parts, ignore_index=True).sort_values(
        ["benchmark", "size"], ignore_index=True
    )
    counters.attrs["rejected"] = dict(rejected)
    return counters


def simulator_log(data: object) -> str | None:
    """Return the text of a simulator's log, None where the data are something else."""
    if not isinstance(data, Path) or not data.is_file():
        return None
    try:
        log = text(data)
    except DataError:  # packed measurements are no text
        return None
    if is_simulated(log):
        return log
    return None


@saving
@configured
def scale_misses(
    trace: str | Path,
    sizes: Numbers,
    cache_mb: Numbers | None = None,
    *,
    l2_mb: Numbers | None = None,
    caches_of: GPU | str | Path | None = None,
    instructions: float | None = None,
) -> pd.DataFrame:
    """Return the miss-rate curve of a trace of addresses, as rows for `scale` (`scaling.counted.miss_rates`).

    Parameters
    ----------
    trace : path
        Addresses in the order of access, one a line, decimal or 0x... They are in bytes; ``#`` begins a comment.
    sizes : sequence of float
        Sizes of the GPU.
    cache_mb : sequence of float, optional
        Last-level cache of the GPU at each of the sizes, MiB.
    l2_mb : sequence of float, optional
        L2 before it at each of the sizes, MiB. Where there are two caches.
    caches_of : str, Path or GPU, optional
        In place of both: the GPU whose caches are divided, a name or TOML file. They are in proportion to its
        compute units.
    instructions : float, optional
        Instructions of the traced run; without them misses are per thousand accesses.

    Returns
    -------
    DataFrame
        ``benchmark``, ``size``, ``mpki`` and their ``unit``.

    Raises
    ------
    FlopcastError
        The file cannot be read, holds what is no address, sizes and caches do not fit each other,
        or the GPU publishes no cache.

    Examples
    --------
    Two lines of 128 bytes, each used twice, miss once each in a cache that holds both:

    >>> import tempfile
    >>> import flopcast as fc
    >>> with tempfile.NamedTemporaryFile("w", suffix=".txt") as trace:
    ...     print(*[0, 128, 0, 128], sep=chr(10), file=trace, flush=True)
    ...     fc.scale_misses(trace.name, sizes=[8, 16], cache_mb=[1, 2], instructions=1000)["mpki"].tolist()
    [2.0, 2.0]
    """
    sizes = values.numbers("sizes", sizes) or []
    if caches_of is not None:
        for name, given in (("cache_mb", cache_mb), ("l2_mb", l2_mb)):
            if given is not None:
                raise ParameterError(name, "states a cache: leave it out beside `caches_of`")
        cache_mb, l2_mb = _caches(find(caches_of), sizes)
    cache_mb = values.numbers("cache_mb", cache_mb) or []
    l2_mb = values.numbers("l2_mb", l2_mb)
    addresses = list[int]()
    for number, line in enumerate(text(Path(trace)).splitlines(), start=1):
        word = line.partition("#")[0].strip()
        if word:
            try:
                addresses.append(int(word, 0) if len(word) < 24 else int("-"))
            except ValueError:
                why = "is no address, as in 0x7f00"
                # has leading zeros: %010d and %010x print alike
                if len(word) < 24 and word.isdecimal():
                    bare = word.lstrip("0")
                    why = (
                        f"is decimal or hexadecimal, and does not say which: write {bare} or "
                        f"0x{bare}"
                    )
                raise DataError(f"{word[:24]!r} {why}", source=f"{trace}:{number}") from None
    return miss_rates(
        addresses,
        sizes,
        cache_mb,
        l2_mb=l2_mb,
        instructions=instructions,
        benchmark=Path(trace).stem,
    )


def _caches(gpu: GPU, sizes: Sequence[float]) -> tuple[list[float], list[float] | None]:
    """Return the last-level cache of a GPU at each size, MiB, and its L2 where that is another."""
    models = scaled.scale_models(gpu, [int(size) for size in sizes])
    inner = [float(model.require("l2_mb")) for model in models]
    if gpu.llc_mb is None:
        return inner, None
    return [float(model.require("llc_mb")) for model in models], inner


@saving
@spelt_out
@configured
def scale_devices(
    *data: Data,
    devices: Devices,
    group: Columns | None = None,
    margin: Margin = 0.10,
    replicates: int = 2000,
    seed: int = 0,
    **reading: Unpack[Reading],
) -> MeasuredScaling:
    """Say how measured kernels scale with the compute units, from device to device.

    The devices are of one architecture; the smallest is what the others are held against.

    Parameters
    ----------
    *data : path, DataFrame, Measurements, or a sequence of them
        Measured files and folders.
    devices : sequence of str or GPU
        Devices of one architecture: names or TOML files. Two or more; their compute units are the
        sizes.
    where, unit, default, rename
        As for `read`.
    group, seed
        As for `train`.
    margin, replicates
        As for `validate`.

    Returns
    -------
    MeasuredScaling

    Raises
    ------
    FlopcastError
        If the data or the devices cannot be used.

    Examples
    --------
    Products that take half the time on 3.8 times the compute units:

    >>> import pandas as pd
    >>> import flopcast as fc
    >>> rows = pd.DataFrame({"m": [2**power for power in range(6, 14)]})
    >>> rows = rows.assign(op="gemm", dtype="bf16", n=[512, 1024, 1536, 2048] * 2, k=4096)
    >>> tables = [rows.assign(device=name, us=time * rows["m"]) for name, time in (("MI308X", 2.0), ("MI300X", 1.0))]
    >>> found = fc.scale_devices(*tables, devices=["MI308X", "MI300X"])
    >>> found.table["exponent"].round(2).tolist()
    [0.52]
    """
    check_margin(margin)
    check_number("seed", seed, 0)
    if isinstance(devices, str):
        devices = values.names("devices", devices) or []
    if isinstance(devices, Path) or len(devices) < 2:
        raise ParameterError(
            "devices", f"must be two or more, as in ['MI210', 'MI300X'], got {devices}"
        )
    gpus = [device(name, "devices") for name in devices]
    by_size(gpus)  # refused before anything is read
    read = load_measurements(data, devices=[gpu.name for gpu in gpus], **reading)
    assessed = assess_devices(
        read.frame,
        gpus,
        group=values.columns("group", group),
        margin=margin,
        replicates=replicates,
        seed=seed,
        notes=read.notes,
    )
    return MeasuredScaling(
        assessed.measured, assessed.families, assessed.verdicts, assessed.limits, assessed.notes
    )


@dataclass(frozen=True)
class PublishedScaling(Result):
    """What was published of scale models, reproduced from the published simulations.

    Attributes
    ----------
    reproduced : DataFrame
        What was published beside what the laws give (`scaling.trials.reproduction`).
    trials : DataFrame
        How the laws did on the published simulations (`scaling.trials.published_trials`).
    """

    saved_as = FILES["scale"]
    reproduced: pd.DataFrame
    trials: pd.DataFrame

    @property
    def table(self) -> pd.DataFrame:
        """The published figures beside those of the laws."""
        return self.reproduced

    def document(self) -> Document:
        """Return the results for readers; its ``data`` are those of ``scale.json``."""
        return published_document(self.reproduced, self.trials)


@saving
def scale_facts() -> PublishedScaling:
    """Reproduce the published results from the published data.

    Examples
    --------
    >>> import flopcast as fc
    >>> "trials" in fc.scale_facts().document().data
    True
    """
    return PublishedScaling(reproduction(), published_trials())

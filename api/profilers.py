"""Profilers: which one to believe, profiling in passes, a few kernels at a time, and which counters to record.

`fidelity` sets traces of one workload against each other, and against its time without a profiler.
`plan` says what each pass records, `read_durations` what the passes measured. `counters` says which
few of many counters keep the accuracy.
"""

from __future__ import annotations

import json
import math
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, field, fields
from pathlib import Path
from typing import Any, Final, Unpack

import pandas as pd

from .. import values
from ..errors import DataError, ParameterError, check_jobs, check_number, check_plain_file
from ..evaluation.counter_choice import (
    Trial,
    ablation,
    by_passes,
    choose,
    fewest,
    in_passes,
    recorded,
    scheme_of,
)
from ..features.matrix import build_dataset
from ..output import MARK, SCHEMA, unguarded, write_text
from ..projection import comparison
from ..projection.comparison import Profiled
from ..projection.passes import (
    COUNTER,
    KERNELS_PER_PASS,
    NEEDED,
    STEPS,
    PassPlan,
    Profiler,
    plan_passes,
    proof,
)
from ..projection.passes import command as command_of
from ..projection.unprofiled import Profiling, usual
from ..readers import Options, TraceFailure, read_traces, traces_of
from ..readers.files import read_parquet
from ..report.document import Document
from ..report.notebook import Figures
from ..report.profilers import counters_document, fidelity_document, plan_document
from ..report.result import Result, also_saving, saving
from ..settings import Report, configured, spelt_out
from ..table.conditions import Reading
from ..table.counters import per_pass
from ..traces.cleaning.joining import Coverage, merge_coverage
from ..traces.summary import with_possible_times
from ..values import Assigned, AssignedCounts, Columns, Folder
from ..workers import workers
from .cleaning import full_list
from .devices import Device, compared, stated_defaults
from .tables import Data, load_measurements, paths_of


class Fidelity(Result, comparison.Fidelity):
    """What several profilers say of one workload: `projection.comparison.Fidelity`."""

    @property
    def table(self) -> pd.DataFrame:
        """One row per trace: its times, and how far they are from the unprofiled time."""
        rows = []
        for trace in self.traces:
            times = {field.name: getattr(trace.times, field.name) for field in fields(trace.times)}
            rows.append(
                {
                    **times,
                    "end_to_end_per_step_us": trace.times.end_to_end_per_step_us,
                    "overhead": trace.overhead,
                    "kernel_ratio": trace.kernel_ratio,
                    "cpu_overhead": trace.cpu_overhead,
                }
            )
        return pd.DataFrame(rows)

    def document(self) -> Document:
        """Return the outcome, the traces and their longest kernels for readers."""
        return fidelity_document(self)


@saving
@configured
def fidelity(
    *traces: Path | str | Sequence[Path | str],
    unprofiled_us: float | None = None,
    steps_per_trace: int | None = None,
    default: Assigned | None = None,
) -> Fidelity:
    """Say what each profiler adds to a workload, and which of them to believe.

    Parameters
    ----------
    *traces : path, or sequence of path
        One file or folder for each trace. Tables of `fc.inline` too.
    unprofiled_us : float, optional
        Time of one step from end to end without a profiler, µs.
    steps_per_trace : int, optional
        Steps each trace holds, where it does not record them.
    default : mapping of str to str, optional
        As for `read`.

    Returns
    -------
    Fidelity
        The times of each trace, the one to believe, and the kernels that all have.

    Raises
    ------
    DataError
        A path holds no trace or several, or `projection.comparison.fidelity` refuses them.

    Examples
    --------
    A matrix product of 50 µs, by two profilers; without one it takes 51:

    >>> import json, tempfile
    >>> from pathlib import Path
    >>> import flopcast as fc
    >>> product = {"ph": "X", "cat": "kernel", "name": "Cijk_Ailk_Bljk_BBS_BH_MT128x128x64", "ts": 0}
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     paths = [Path(folder, name) for name in ("light.json", "heavy.json")]
    ...     for path, took in zip(paths, (52, 58)):
    ...         event = product | {"dur": took, "args": {"device": 0}}
    ...         _ = path.write_text(json.dumps({"traceEvents": [event]}))
    ...     found = fc.fidelity(paths, unprofiled_us=51, steps_per_trace=1, default={"device": "MI300X"})
    >>> found.traces[found.believed].times.label
    'light.json'
    """
    if steps_per_trace is not None and steps_per_trace < 1:
        raise ParameterError("steps_per_trace", f"must be at least 1, got {steps_per_trace}")
    paths = paths_of(traces, "traces")
    names = [path.name for path in paths]
    if len(set(names)) == len(names):
        labels = names
    else:
        labels = [str(path) for path in paths]
    options = Options(defaults=stated_defaults(default))
    profiled = []
    for path, label in zip(paths, labels, strict=True):
        table = inline_table(path)
        if table is not None:
            profiled.append(Profiled.of_inline(label, table, steps_per_trace))
            continue
        read_in = [trace for _, trace in read_traces([path], options=options)]
        if len(read_in) != 1:
            count = "no trace"
            if read_in:
                count = f"{len(read_in)} traces"
            raise DataError(f"holds {count}: give one path for each trace", source=str(path))
        if isinstance(read_in[0], TraceFailure):
            raise read_in[0].error
        trace = with_possible_times(read_in[0], str(path))
        profiled.append(Profiled.of(label, trace, steps_per_trace))
    return Fidelity.from_fields(comparison.fidelity(profiled, unprofiled_us))


_OF_FIDELITY: Final = "give the outcome of `flopcast fidelity`, or a profiler's name"


@dataclass(frozen=True)
class StatedProfiler:
    """What a user says of the profiler of traces: the outcome of `fidelity`, or a name of `unprofiled.usual`.

    Attributes
    ----------
    usual : Profiling or None
        What a profiler usually adds.
    steps_us : dict of str to float
        Label of each trace of `fidelity` -> end-to-end time of a step as profiled.
    unprofiled_us : float
        The same without a profiler.
    source : str
        Where the outcome of `fidelity` was read.
    """

    usual: Profiling | None = None
    steps_us: Mapping[str, float] = field(default_factory=dict)
    unprofiled_us: float = math.nan
    source: str = "fidelity"

    @classmethod
    def of(cls, given: Fidelity | Path | str) -> StatedProfiler:
        """Return the statement that is given; a DataError says that it is not the JSON of `flopcast fidelity`."""
        if isinstance(given, Fidelity):
            return cls._of(given.to_dict(), "fidelity")
        path = Path(given)
        if isinstance(given, str) and not path.suffix and not path.exists():
            return cls(usual(given))
        check_plain_file(path)
        try:
            data = json.loads(path.read_bytes())
        except (OSError, ValueError, RecursionError) as error:
            raise DataError(f"cannot be read: {_OF_FIDELITY}", source=str(path)) from error
        return cls._of(data, str(path))

    @classmethod
    def _of(cls, data: Any, source: str) -> StatedProfiler:
        try:
            steps_us = {}
            for trace in data["traces"]:
                steps_us[str(trace["label"])] = trace["end_to_end_per_step_us"]
            unprofiled_us = data["unprofiled_us"]
        except (KeyError, TypeError) as error:
            raise DataError(f"has no traces: {_OF_FIDELITY}", source=source) from error
        if unprofiled_us is None:
            raise DataError(
                "has no unprofiled time: give `fidelity` the time of a step (unprofiled_us)",
                source=source,
            )
        return cls(None, steps_us, unprofiled_us, source)

    def profiling(self, label: str) -> Profiling:
        """Return the statement on a trace; a DataError says that `fidelity` did not see it."""
        if self.usual is not None:
            return self.usual
        for profiled, step_us in self.steps_us.items():
            if profiled == label or Path(profiled).name == Path(label).name:
                return Profiling(profiled, self.source, share=self.unprofiled_us / step_us)
        labels = ", ".join(self.steps_us)
        raise DataError(
            f"says nothing of {label}, only of {labels}: give `fidelity` this trace too",
            source=self.source,
        )


@dataclass(frozen=True)
class PlannedPasses(Result):
    """Passes that profile a program's kernels a few at a time.

    Attributes
    ----------
    plan : PassPlan
        Which kernels each pass records, and how often they run in it.
    commands : tuple of str
        What starts each pass, ``PROGRAM`` in the place of the program; of torch.profiler, lines of
        Python.
    coverage : Coverage or None
        What was recorded, where passes are checked; `durations` is the table that `project` takes.
    """

    plan: PassPlan
    commands: tuple[str, ...]
    coverage: Coverage | None = None

    @property
    def durations(self) -> pd.DataFrame:
        """What the passes measured, one row per occurrence of a kernel; a ParameterError says that none are checked."""
        if self.coverage is None:
            raise ParameterError(
                "check", "must name the folder of the passes: there is nothing measured without"
            )
        return self.coverage.places

    @property
    def table(self) -> pd.DataFrame:
        """What checked passes measured (`durations`); else the kernels of each pass."""
        if self.coverage is None:
            return self.plan.kernels
        return self.durations

    def document(self) -> Document:
        """Return the plan for readers; its ``data`` are its JSON form."""
        return plan_document(self.plan, self.commands, self.coverage)

    def save_script(self, out: Path | str, *, overwrite: bool = False) -> None:
        """Write what starts the passes: a shell script whose arguments are the program, or lines of Python.

        Raises DataError as `save`.
        """
        lines = f"# {MARK}\n" + "\n".join(self.commands) + "\n"
        if self.plan.profiler == Profiler.ROCPROFV3:
            started = "".join(one.removesuffix("PROGRAM") + '"$@"\n' for one in self.commands)
            lines = f"#!/bin/sh -e\n# sh FILE PROGRAM ...; {MARK}\n{started}"
        write_text(Path(out), lines, overwrite=overwrite)


@also_saving("script")
@saving
@configured
def plan(
    profiler: str,
    trace: Path | str,
    *,
    kernels_per_pass: int = KERNELS_PER_PASS,
    steps_per_pass: int = STEPS,
    counters: str = COUNTER,
    check: Folder | None = None,
    default: Assigned | None = None,
) -> PlannedPasses:
    """Plan passes that profile a program's kernels a few at a time, and prove that recorded passes have them all.

    Parameters
    ----------
    profiler : {"rocprofv3", "torch"}
    trace : path
        A trace that has every kernel of the program, or a text file (.txt) with a kernel name per
        line, as often as it runs in a step.
    kernels_per_pass : int
        Different kernels that a pass of rocprofv3 records.
    steps_per_pass : int
        Steps of the program in a pass.
    counters : str
        What rocprofv3 counts: it filters kernels only where it counts.
    check : path, optional
        Traces of the passes: say which launches were recorded. In a folder.
    default : mapping of str to str, optional
        As for `read`.

    Returns
    -------
    PlannedPasses

    Raises
    ------
    ParameterError
        An unknown profiler, no counter, or a number below 1.
    DataError
        A trace cannot be read, there are no kernels, or passes contradict each other.

    Examples
    --------
    Three kernels, two of them a pass:

    >>> import tempfile
    >>> import flopcast as fc
    >>> with tempfile.NamedTemporaryFile("w", suffix=".txt") as names:
    ...     print(*["gemm", "softmax", "norm"], sep=chr(10), file=names, flush=True)
    ...     found = fc.plan("rocprofv3", names.name, kernels_per_pass=2)
    >>> found.plan.kernels["pass"].tolist()
    [1, 1, 2]
    """
    if not counters.split():
        raise ParameterError("counters", f"must name one at least, got {counters!r}")
    options = Options(defaults=stated_defaults(default))
    kernels = full_list(paths_of(trace, "trace")[0], options)
    passes = plan_passes(kernels, profiler, kernels_per_pass=kernels_per_pass, steps=steps_per_pass)
    lines = tuple(
        command_of(passes, number, counters=counters) for number in range(1, passes.passes + 1)
    )
    return PlannedPasses(
        passes, lines, None if check is None else proof(passes, passes_of(Path(check), options))
    )


def inline_table(path: Path) -> pd.DataFrame | None:
    """Return the table that `fc.inline` saved under a path (.csv, .parquet), None where it is something else."""
    suffix = path.suffix.lower()
    if suffix not in (".csv", ".parquet") or not path.is_file():
        return None
    try:
        if suffix == ".csv":
            table = pd.read_csv(path)
        else:
            table = read_parquet(path)
    except (OSError, ValueError, DataError):
        return None
    is_inline = "source" in table and table["source"].astype(str).str.startswith("inline:").all()
    if is_inline and len(table):
        return table
    return None


def read_durations(path: Path, options: Options | None = None) -> pd.DataFrame:
    """Return durations by place: those of a table (.parquet, .csv), or of the traces of passes, put together.

    The table of `fc.inline` is returned as it is: by call. Raises DataError: the file is damaged, a
    trace cannot be read or there is none, or passes contradict each other.
    """
    inline = inline_table(path)
    if inline is not None:
        return inline
    if path.suffix.lower() == ".parquet" and path.is_file():
        return read_parquet(path)
    if path.suffix.lower() == ".csv" and path.is_file():
        try:
            table = pd.read_csv(path)
        except (OSError, ValueError) as error:
            raise DataError("is no CSV file that can be read", source=str(path)) from error
        if set(NEEDED) <= set(table):
            return table.assign(name=table["name"].astype(str).map(unguarded))
    return merge_coverage(passes_of(path, options)).places


def passes_of(path: Path, options: Options | None = None) -> dict[str, pd.DataFrame]:
    """Return the dispatch table of each trace of a folder; a DataError says that there is none, or one is damaged."""
    dispatches = {label: trace.dispatches for label, trace in traces_of([path], options)}
    if not dispatches:
        raise DataError(
            "no trace of a pass, and no table of durations: give one of them", source=str(path)
        )
    return dispatches


@dataclass(frozen=True)
class CounterChoice(Result):
    """Which counters to record, and what that costs in accuracy.

    Attributes
    ----------
    trials : tuple of Trial
        The best model of each category with the counters of 0, 1, ... passes, with all, and without
        each family.
    passes : list of list of str
        The counters to record, pass by pass; chosen from all rows.
    summary : dict
        Fit for JSON: devices, rows, groups, scheme, counters there are, and the passes advised.
    """

    trials: tuple[Trial, ...]
    passes: list[list[str]]
    summary: dict[str, Any]

    def __post_init__(self) -> None:
        object.__setattr__(self, "summary", Figures(self.summary))

    @property
    def table(self) -> pd.DataFrame:
        """A row per trial: columns, passes, counters, category, model, e_out (%)."""
        names = ["columns", "passes", "counters", "category", "model", "e_out"]
        trials = []
        for one in self.trials:
            trials.append({name: getattr(one, name) for name in names})
        return pd.DataFrame(trials)

    def document(self) -> Document:
        """Return the choice as `report` shows it."""
        return counters_document(self.table, self.passes, self.summary)

    def save(
        self, path: str | Path, *, made: Mapping[str, Any] | None = None, overwrite: bool = False
    ) -> None:
        """Write the counters to .txt as an input of rocprofv3 (``rocprofv3 -i FILE``), a line ``pmc:`` for each pass.

        Other places have what those of every result have. Raises DataError: the file cannot be
        written, or flopcast did not write it and ``overwrite`` is not set.
        """
        if Path(path).suffix.lower() != ".txt":
            super().save(path, made=made, overwrite=overwrite)
            return
        lines = "".join(f"pmc: {' '.join(names)}\n" for names in self.passes)
        write_text(Path(path), f"# {MARK}\n{lines}", overwrite=overwrite)

    def __repr__(self) -> str:
        return (
            f"<CounterChoice: {sum(map(len, self.passes))} of {self.summary['counters']} counters>"
        )


@saving
@spelt_out
@configured
def counters(
    *data: Data,
    host: Device | None = None,
    target: Device,
    max_passes: int = 2,
    without_features: Collection[str] = (),
    per_pass: AssignedCounts | None = None,
    group: Columns | None = None,
    metric: str = "duration_us",
    seed: int = 0,
    jobs: int = -1,
    progress: Report | None = None,
    **reading: Unpack[Reading],
) -> CounterChoice:
    """Say which few hardware counters keep the accuracy, with how many passes of the profiler.

    Each of ``without_features`` also says what a family of features is worth.

    Parameters
    ----------
    *data : path, DataFrame, Measurements, or a sequence of them
        Measured files and folders, with counters. Rows have them as ``counter.NAME``.
    host, target
        As for `train`.
    max_passes : int, default=2
        Most passes of the profiler to try. The table goes from none to these, and has all counters
        beside.
    without_features : sequence of str
        As for `train`: families of features to leave out in turn (several with commas).
    per_pass : mapping of str to int, optional
        Counters of a hardware block in a pass, such as SQ=8. Where yours differ from an AMD
        Instinct's; ``other``: all other blocks.
    where, unit, default, rename
        As for `read`.
    group, metric, seed, jobs, progress
        As for `train`.

    Returns
    -------
    CounterChoice

    Raises
    ------
    FlopcastError
        The data cannot be used or have no counters, or a parameter is wrong.

    Examples
    --------
    >>> import flopcast as fc
    >>> found = fc.counters("host_and_target.parquet", host="MI300X", target="MI355X", max_passes=2)  # doctest: +SKIP
    >>> found.save("pmc.txt")  # doctest: +SKIP
    """
    check_jobs(jobs)
    check_number("seed", seed, 0)
    if not data:
        raise ParameterError(
            "data", "is missing: give the files or folders that hold measured rows with counters"
        )
    if max_passes < 0:
        raise ParameterError("max_passes", f"must be 0 or more, got {max_passes}")
    limits = _limits(values.assigned_counts("per_pass", per_pass))
    comparison, _ = compared(host, target, tuple)
    if comparison.is_many:
        raise ParameterError("target", "must be one device: counters are chosen for one")
    with workers(jobs):
        names = [gpu.name for gpu in comparison.devices]
        frame = load_measurements(data, devices=names, only=names, **reading).frame
        columns = values.columns("group", group)
        dataset = build_dataset(
            frame, host=comparison.host, target=comparison.target, metric=metric, group=columns
        )
        options: dict[str, Any] = {"seed": seed, "progress": progress}
        tried = by_passes(dataset, max_passes, limits, **options)
        less = ablation(
            dataset, values.names("without_features", without_features) or (), limits, **options
        )
    advised = fewest(tried, dataset, max_passes)
    every = recorded(list(map(str, dataset.X.columns)))
    if advised.columns == "all":
        chosen = every
    else:
        chosen = recorded(choose(dataset.X, dataset.y, advised.passes, limits))
    report = {
        "schema": SCHEMA,
        "host": dataset.host.name if dataset.host else None,
        "target": dataset.target.name,
        "metric": dataset.metric,
        "n": len(dataset),
        "groups": len(set(dataset.groups.astype(str))),
        "scheme": scheme_of(dataset),
        "counters": len(every),
        "per_pass": limits,
        "advised": {
            name: getattr(advised, name) for name in ("columns", "passes", "model", "e_out")
        },
    }
    return CounterChoice((*tried, *less), in_passes(chosen, limits), report)


def _limits(given: Mapping[str, int]) -> dict[str, int]:
    limits = dict(per_pass())
    for block, most_counters in given.items():
        if block not in limits or most_counters < 1:
            problem = (
                f"must be BLOCK=N with N of 1 or more and a block of {', '.join(limits)}, got "
                f"{block}={most_counters}"
            )
            raise ParameterError("per_pass", problem)
    return limits | dict(given)

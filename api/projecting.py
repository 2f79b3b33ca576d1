"""Projecting: a profiled trace, or those of several ranks of one job together, to the time on another GPU."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from itertools import islice
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeAlias, cast

import numpy as np
import pandas as pd
from scipy.special import ndtri

from .. import values
from ..datasets.embedded import H100_H200, default_paths
from ..errors import DataError, ParameterError, check_number
from ..evaluation.advising import check_need
from ..evaluation.trained_model import TrainedModel
from ..hardware import GPU, NETWORK_FIGURES, Network
from ..hardware.networks import NODE_GPUS, parse_network
from ..output import FILES, check_output, dumps, replacing, whole_folder
from ..projection.advice import tracks as saved_track
from ..projection.chakra_export import SPREAD, tasks_of, write_chakra
from ..projection.chrome import write_chrome
from ..projection.collective_laws import CommunicationLaw, NodeBandwidths, World, world_of
from ..projection.job import SAMPLES, Job
from ..projection.job import project_job as job_of
from ..projection.kernel_laws import DEFAULT_LAW, learn_corrections
from ..projection.passes import Retimed, with_durations
from ..projection.phases import CUT, PIECE, WEIGHT
from ..projection.result import Result as Projected
from ..projection.result import critical_us, result_of
from ..projection.roofs import counters, measured_power
from ..projection.sweep import Sweep, parse_sweeps
from ..projection.uncertainty import Uncertainty, check_sample
from ..projection.unprofiled import Profiling
from ..projection.whole_trace import Gaps, Laws, Projection, Unprofiled, host_of, projected_times
from ..readers import Measurements, Options, traces_of
from ..readers.labels import gpu_of_word
from ..report.document import Document, footer
from ..report.formats import duration
from ..report.html import page
from ..report.kernel_figures import roofline_figure, timeline_figure
from ..report.notebook import framed
from ..report.projection import (
    in_words,
    job_document,
    projection_document,
    projections_document,
)
from ..report.projection_figures import class_figure, roofs_figure, sweep_figures, tornado_figure
from ..report.result import Result, also_saving, saving
from ..settings import configured
from ..traces.doubts import check_whole
from ..traces.summary import Annotated, with_possible_times
from ..values import Assigned
from .devices import Device, device, several_devices, stated_defaults
from .predicting import RunLike
from .profilers import Fidelity, StatedProfiler, read_durations
from .tables import Data, items, load_measurements, paths_of

if TYPE_CHECKING:
    import plotly.graph_objects as go

Groups: TypeAlias = Sequence[str]
"""Groups of ranks: names, or numbers of ranks."""
Sweeps: TypeAlias = str | Sequence[str]
"""``FIGURE=A:B[:STEP]``, or several."""


@dataclass(frozen=True)
class ProjectedTrace(Result):
    """A trace on another GPU; `project` makes one.

    Attributes
    ----------
    result : Result
        Everything that was computed, table by table (`projection.result.Result`).
    """

    saved_as = FILES["project"]
    result: Projected

    @property
    def table(self) -> pd.DataFrame:
        """One row per class of kernels: `classes`."""
        return self.classes

    @property
    def label(self) -> str:
        """What the trace is called."""
        return self.result.label

    @property
    def measured_us(self) -> float:
        """End-to-end time on the host."""
        return self.result.projection.measured_us

    @property
    def projected_us(self) -> float:
        """End-to-end time on the target."""
        return self.result.uncertainty.nominal_us

    @property
    def unprofiled(self) -> Unprofiled | None:
        """What of the CPU's work is not the profiler's, where that was stated (``fidelity``); else None."""
        return self.result.projection.laws.unprofiled

    @property
    def interval_us(self) -> tuple[float, float]:
        """Where the time on the target lies, at the level asked for."""
        return self.result.uncertainty.lower_us, self.result.uncertainty.upper_us

    @property
    def answers(self) -> Mapping[str, Any]:
        """Everything but the activities, as JSON types: the content of project.json."""
        return self.document().data

    @cached_property
    def _document(self) -> Document:
        return projection_document(self.result)

    def document(self) -> Document:
        """Return the projection as `report` shows it on terminals and pages."""
        return self._document

    @cached_property
    def kernels(self) -> pd.DataFrame:
        """One row per activity of the GPU, in the order of the trace; with phases, of what was projected.

        The columns of the dispatch table; `factor`, `law`, `why`, `bound` and `sigma` of its
        projection; `measured_us` and `projected_us`, which lies between `lower_us` and `upper_us`
        (NaN where nobody measured how its law errs); `projected_start_ns` on the clock of the
        trace; `critical_us`, the time on the critical path; TFLOP/s, GB/s and shares of the roofs
        on both GPUs (`projection.roofs.rates_of`). With phases also `repeats`, how many activities
        of the trace the row stands for; the times are of all.
        """
        projection = self.result.projection
        start_ns, _ = projected_times(projection)
        rows = in_words(projection.activities).drop(columns=[PIECE, WEIGHT, CUT], errors="ignore")
        reach = np.exp(float(ndtri((1 + self.result.uncertainty.level) / 2)) * rows["sigma"])
        limits = {
            "lower_us": rows["projected_us"] / reach,
            "upper_us": rows["projected_us"] * reach,
        }
        rows = rows.assign(
            **limits, projected_start_ns=start_ns, critical_us=critical_us(projection)
        )
        return pd.concat([rows, self.result.rates], axis=1)

    @property
    def energy(self) -> pd.DataFrame:
        """One row for host and target each: mean power, W, and energy, J, with its interval (`roofs.energy_of`)."""
        return self.result.energy

    @property
    def advice(self) -> pd.DataFrame | None:
        """What to make faster, where that was asked (`projection.advice.Advice.table`); else None."""
        if self.result.advice is None:
            return None
        return self.result.advice.table

    @property
    def classes(self) -> pd.DataFrame:
        """One row per class of kernels (`projection.result.class_table`)."""
        return self.result.classes

    @property
    def phases(self) -> pd.DataFrame | None:
        """One row per phase of which a few repeats were projected for all (`projection.phases.repeated`).

        None where phases were not asked for or nothing repeats.
        """
        if self.result.phases:
            return self.result.phases.table
        return None

    @property
    def notes(self) -> list[str]:
        """What a reader should know."""
        return [*map(repr, (*self.result.first, *self.result.notes))]

    def plot_classes(self) -> go.Figure:
        """Draw the time of each class: measured, by FLOPS scaling, projected."""
        return class_figure(self.result)

    def plot_timeline(self) -> go.Figure:
        """Draw the activities of the step of median time, as measured above and as projected below."""
        return timeline_figure(self.result)

    def plot_roofline(self) -> go.Figure | None:
        """Draw the kernels on the rooflines of both GPUs: TFLOP/s over FLOP per byte; None without FLOPs."""
        return roofline_figure(self.result)

    def plot_roofs(self) -> go.Figure:
        """Draw which share of compute, memory, links and CPU is used over the step of median time, on both GPUs."""
        return roofs_figure(self.result)

    def plot_interval(self) -> go.Figure | None:
        """Draw how far each source of error alone moves the time; None where there is none."""
        return tornado_figure(self.result)

    def plot_sweeps(self) -> list[go.Figure]:
        """Draw the time over each swept figure of the target."""
        return sweep_figures(self.result)

    def _write(self, folder: Path, made: Mapping[str, Any] | None) -> None:
        projection = self.result.projection
        start_ns, calls = projected_times(projection)
        self_ns = (
            projection.activities["duration_ns"].clip(lower=0) * projection.activities["factor"]
        )
        drawn = (
            in_words(projection.activities),
            start_ns.to_numpy(),
            self_ns.round().to_numpy(dtype=np.int64),
            calls,
        )
        origin = projection.graph.origin_ns
        rates = self.result.rates
        tracks = [
            (name, times + origin, values) for name, times, values in counters(projection, rates)
        ]
        if self.result.advice is not None and tracks:
            edges_us = (tracks[0][1] - origin) / 1e3
            name, times, shares = saved_track(projection, self.result.advice, edges_us)
            tracks.append((name, times + origin, shares))
        save_projection(folder, self.document(), projection, self.kernels, drawn, made, tracks)

    def save_chakra(self, folder: Path | str, *, overwrite: bool = False) -> None:
        """Write ``chakra.RANK.et`` for every rank, for simulators of networks (`projection.chakra_export`).

        Raises
        ------
        DataError
            The folder holds other files, or files that flopcast did not write and ``overwrite`` is
            not set, or cannot be written; or the projection is of phases.
        """
        projection = self.result.projection
        if projection.folded:
            raise ParameterError(
                "phases", "must be off for Chakra traces, which have every activity"
            )
        activities = projection.activities
        world = projection.laws.world
        if world is not None:
            activities = activities.assign(group_size=world.ranks_of(activities))
        start_ns, _ = projected_times(projection)
        unsure = self.result.uncertainty
        reach = float(
            np.log(unsure.upper_us / unsure.lower_us) / (2 * ndtri((1 + unsure.level) / 2))
        )
        about = {
            "what": f"projection from {projection.host.name} to {projection.target.name}, not a measurement",
            SPREAD: f"{reach:.4f}",
            **{
                name: f"{getattr(unsure, name):.10g}"
                for name in ("nominal_us", "lower_us", "upper_us", "level")
            },
        }
        # what makes the end-to-end time
        counted = np.sort(projection.graph.rows[projection.counted])
        with replacing(overwrite=overwrite):
            write_chakra(
                Path(folder), tasks_of(activities.iloc[counted], start_ns.iloc[counted]), about
            )

    def __repr__(self) -> str:
        low, high = (duration(value) for value in self.interval_us)
        return (
            f"<ProjectedTrace {self.document().title}: {duration(self.projected_us)} [{low}, "
            f"{high}]>"
        )

    def _repr_html_(self) -> str:
        projection = self.result.projection
        by = self.kernels.groupby("name", observed=True, sort=False)
        times = by[["measured_us", "projected_us"]].sum()
        table = pd.DataFrame(
            {
                "kernel": times.index.astype(str),
                "count": by.size().to_numpy(),
                f"{projection.host.name}, µs": times["measured_us"].to_numpy(),
                f"{projection.target.name}, µs": times["projected_us"].to_numpy(),
            }
        )
        table = table.assign(ratio=table.iloc[:, 3] / table.iloc[:, 2])
        table = table.sort_values(table.columns[3], ascending=False, kind="stable")
        return framed(repr(self)[1:-1], table, answer=self.document())


@also_saving("chakra")
@saving
@configured
def project(
    trace: Path | str, target: str | Sequence[Device] | Device | None = None, **choices: Any
) -> ProjectedTrace:
    """Project a profiled trace to another GPU.

    Parameters
    ----------
    trace : path
        File or folder with one trace of any supported profiler; one with the CPU's calls (PyTorch)
        is replayed with them.
    target : str, Path or GPU, optional
        The target: a name, a TOML file, or the GPU itself; by default the one measured, of which
        something else changes (ranks, network, a swept figure, durations).
    **choices
        What `flopcast.api.projecting.project_traces` takes: ``host``, ``run``, ``correct``,
        ``cpu_speed``, ``ranks``, ``network``, ``sweep``, ``phases``, ``durations``, ``default``,
        ``interval``, ``seed`` ...

    Returns
    -------
    ProjectedTrace

    Raises
    ------
    DataError
        The trace cannot be read or projected, there is none, or several.

    Examples
    --------
    A trace of one matrix product of 50 µs:

    >>> import json, tempfile
    >>> import flopcast as fc
    >>> product = {"ph": "X", "cat": "kernel", "name": "Cijk_Ailk_Bljk_BBS_BH_MT128x128x64", "ts": 0, "dur": 50}
    >>> with tempfile.NamedTemporaryFile("w", suffix=".json") as trace:
    ...     print(json.dumps({"traceEvents": [product | {"args": {"device": 0}}]}), file=trace, flush=True)
    ...     found = fc.project(trace.name, target="MI355X", default={"device": "MI300X"})
    >>> lower, upper = found.interval_us
    >>> found.measured_us, lower < found.projected_us < upper
    (50.0, True)
    """
    chosen = several_devices(target, "target")
    if isinstance(chosen, list | tuple):
        raise ParameterError("target", "must be one GPU here: `project_each` takes several")
    first = list(islice(project_traces([trace], chosen, **choices), 2))
    if len(first) > 1:
        raise DataError("holds several traces: project them with `project_each`", source=str(trace))
    return first[0]


class Projections(Result, tuple[ProjectedTrace, ...]):
    """Several traces, or one on several targets; `project_each` makes them."""

    saved_as = FILES["projections"]

    @property
    def table(self) -> pd.DataFrame:
        """One row per trace and target, what takes least of its measured time first."""
        return pd.DataFrame(self.document().data["projections"])

    def document(self) -> Document:
        """Return all of them beside each other."""
        return projections_document([one.result for one in self])

    def __repr__(self) -> str:
        return f"<Projections: {len(self)}>"


@saving
@configured
def project_each(
    *traces: Path | str | Sequence[Path | str],
    target: str | Sequence[Device] | Device | None = None,
    **choices: Any,
) -> Projections:
    """Project several traces, or one to several GPUs.

    Parameters
    ----------
    *traces : path, or a sequence of them
        Files and folders of any supported profiler.
    target : str, Path, GPU, or several of them, optional
        The targets; each trace is projected to each of them.
    **choices
        As for `project`.

    Returns
    -------
    Projections
        A tuple of `ProjectedTrace` with ``.table``, one row each.

    Raises
    ------
    DataError
        As `project`.

    Examples
    --------
    >>> import json, tempfile
    >>> import flopcast as fc
    >>> product = {"ph": "X", "cat": "kernel", "name": "Cijk_Ailk_Bljk_BBS_BH_MT128x128x64", "ts": 0, "dur": 50}
    >>> with tempfile.NamedTemporaryFile("w", suffix=".json") as trace:
    ...     print(json.dumps({"traceEvents": [product | {"args": {"device": 0}}]}), file=trace, flush=True)
    ...     found = fc.project_each(trace.name, target=["MI355X", "H200"], default={"device": "MI300X"})
    >>> sorted(found.table["target"])
    ['H200 SXM', 'MI355X']
    """
    paths = paths_of(list(traces), "traces")
    return Projections(project_traces(paths, target, **choices))


@configured
def project_traces(
    traces: Sequence[Path | str],
    target: str | Sequence[Device] | Device | None = None,
    *,
    host: Device | None = None,
    compute_law: str = DEFAULT_LAW,
    comm_law: str = "alpha-beta",
    gaps: str = "modelled",
    cpu_speed: float | None = None,
    run: Path | str | RunLike | None = None,
    correct: Data | Sequence[Data] = (),
    power: Data | Sequence[Data] = (),
    network: tuple[float, float] | Path | str | None = None,
    ranks_per_node: int = NODE_GPUS,
    ranks: int | str | None = None,
    grows: Groups = (),
    comm_wait: bool = False,
    durations: Path | str | pd.DataFrame | None = None,
    phases: bool = False,
    uncertainty: str | Mapping[str, float] = "",
    sweep: Sweeps = (),
    default: Assigned | None = None,
    rename: Assigned | None = None,
    need: float | None = None,
    fidelity: Fidelity | Path | str | None = None,
    advice: bool = False,
    best: Data | Sequence[Data] = (),
    interval: float = 0.9,
    samples: int = 256,
    seed: int = 0,
) -> Iterator[ProjectedTrace]:
    """Project traces to another GPU, one after the other; parameters are checked before a trace is read.

    Parameters
    ----------
    traces : sequence of path
        Files and folders of any supported profilers.
    target : str, Path or GPU, optional
        The target: a name, a TOML file, or the GPU itself; by default the one measured, of which
        something else changes (ranks, network, a swept figure, durations).
    host : str, Path or GPU, optional
        Where they were measured; by default what the traces say.
    compute_law : str, default="affine"
        Law of computation: flops, flops-uniform, bandwidth, roofline, roofline-achieved, affine,
        kept. It is that of copies, too (`laws.OF_COMPUTATION`).
    comm_law : {"alpha-beta", "bandwidth", "kept"}
        Law of collectives: alpha-beta, bandwidth, kept. See `projection.collective_laws`.
    gaps : {"kept", "scaled", "modelled"}
        Time between activities: kept, scaled, modelled. See `projection.whole_trace.GAPS`.
    cpu_speed : float, optional
        Speed of the target's CPU relative to the one measured, e.g. 1.1. Unknown by default.
    run : path or Run, optional
        Run folder of train (forecasts: or shipped): its model goes before any law. In Python also
        the run itself.
    correct : path, DataFrame or a list of these
        Measurements of both GPUs that correct the law, by problem or class. A call whose problem
        both have measured is corrected by its ratio, the others by the median of their class.
    power : path, DataFrame or a list of these
        Measurements with power_w or energy_j: the energy goes by them. Without them the power of
        each class of kernels is a judged share of the board power.
    network : (float, float), str or path, optional
        Bandwidth out of a node, GB/s, e.g. 50:400; or a TOML file. It is one way, of the host's node
        and the target's; the file has the networks (`hardware.read_networks`), by which collectives
        are reckoned on one level or two.
    ranks_per_node : int, default=8
        GPUs of a node. Where no file says it.
    ranks : int or str, optional
        Ranks of the job on the target: collectives re-sized. Either those, ``64``, or as measured
        too, ``"16:64"``, where the largest group of the trace has not all of them. The collectives of groups of all
        ranks are re-sized (`projection.collective_laws`).
    grows : sequence of str
        A group of ranks that grows with them: name or size.
    comm_wait : bool
        Keep what collectives wait for peers: time above the least of equals. Equal are messages of
        one size.
    durations : path or DataFrame, optional
        Durations measured in passes (`flopcast plan`), for those of the trace. A few kernels are
        measured at a time: a table (`projection.passes.with_durations`), or a folder of the passes'
        traces; or times of `fc.inline`.
    phases : bool
        Project a few repeats of each phase of a long trace for all of them. That is quicker where
        phases repeat (`projection.phases.fold`), with an error that is stated.
    uncertainty : str or mapping of str to float
        Relative errors, one sigma, e.g. gemm=0.1,memory_bw_gbs=0.05. In Python also ``{"gemm": 0.1}``.
    sweep : str or sequence of str
        Change a figure of the target: ``memory_bw_gbs=6000:10000:500``.
    default : mapping of str to str, optional
        Values of columns that the traces lack.
    rename : mapping of str to str, optional
        Names of columns in the tables of ``correct`` and ``power``, as for `read`.
    need : float, optional
        Half-width that is asked for: 0.1 says whether the time is known within ±10 %, and else
        which measurements would reach that (`projection.uncertainty.need_of`).
    fidelity : Fidelity, path or str, optional
        Take the profiler out: JSON of `flopcast fidelity`, or torch, rpd, ... What it adds is taken
        out of the CPU's work: by the outcome of `fc.fidelity` with the unprofiled time, or its JSON;
        or by the name of a profiler, for what it usually adds (`projection.unprofiled`). The answer
        is then of the trace as it would run; as profiled stands beside it.
    advice : bool
        What to make faster: the longest calls against the best measured kernels. Those are of the same
        work (`projection.advice`).
    best : path, DataFrame or a list of these
        Measured kernels for ``advice``, beside those that ship.
    interval
        As for `predict`.
    samples : int, default=256
        Draws for the interval, a power of two; 64 with ``together``.
    seed
        As for `train`.

    Returns
    -------
    iterator of ProjectedTrace

    Raises
    ------
    DataError
        A parameter cannot be used; a trace cannot be read or projected, or there is none.
    """
    check_sample(interval, samples)
    check_number("seed", seed, 0)
    check_need(need)
    wanted = _targets(target)
    host_gpu = None
    if host is not None:
        host_gpu = device(host, "host")
    sweeps = parse_sweeps([sweep] if isinstance(sweep, str) else sweep or ())
    laws = laws_of(
        compute_law=compute_law,
        comm_law=comm_law,
        gaps=gaps,
        cpu_speed=cpu_speed,
        run=run,
        network=network,
        ranks_per_node=ranks_per_node,
        ranks=ranks,
        grows=grows,
        comm_wait=comm_wait,
    )
    if laws.world is None and any(plan.figure in NETWORK_FIGURES for plan in sweeps):
        laws = replace(laws, world=World(*(Network(node_gpus=ranks_per_node),) * 2))
    compared = items(best, "best")
    asked = advice or compared
    changed = laws.world, durations, fidelity, asked or None
    if wanted == [None] and not sweeps and all(one is None for one in changed):
        raise ParameterError(
            "target",
            "must name a GPU where neither ranks, network, a figure, durations nor the profiler "
            "change, and no advice is asked",
        )
    reading = Options(
        defaults=stated_defaults(default),
        calls=True,
        renames=values.assigned("rename", rename),
    )
    measured = items(correct, "correct")
    profiler = None
    if fidelity is not None:
        profiler = StatedProfiler.of(fidelity)
    inputs = [Inputs(laws, one, host_gpu, reading, measured, durations, profiler) for one in wanted]
    watts = items(power, "power")
    if watts:
        watts = measured_power(load_measurements(watts, rename=rename).frame)
    else:
        watts = None
    if not isinstance(uncertainty, str):
        uncertainty = ",".join(
            f"{name}={sigma}" for name, sigma in values.assigned("uncertainty", uncertainty).items()
        )
    drawn: dict[str, Any] = {
        "stated": uncertainty,
        "level": interval,
        "samples": samples,
        "seed": seed,
        "power": watts,
        "need": need,
    }
    if asked:
        drawn["kernels"] = best_kernels(compared, rename)
    return _projected(traces, inputs, sweeps, {**drawn, "phases": phases})


def best_kernels(
    data: Sequence[Path | pd.DataFrame | Measurements], rename: Assigned | None = None
) -> pd.DataFrame:
    """Return the measured kernels that ship, and those of data of the user's."""
    shipped = load_measurements([*default_paths(), H100_H200]).frame
    if not data:
        return shipped
    return pd.concat([shipped, load_measurements(data, rename=rename).frame], ignore_index=True)


def save_projection(
    folder: Path,
    document: Document,
    projection: Projection,
    kernels: pd.DataFrame,
    drawn: tuple[Any, ...],
    made: Mapping[str, Any] | None,
    tracks: Sequence[tuple[str, Any, Any]] = (),
) -> None:
    """Write `output.FILES` into a folder, whole or not at all; `write_chrome` takes ``drawn`` and ``tracks``."""
    data, report, table, drawing = FILES["project"]
    check_output(folder, FILES["project"])
    with whole_folder(folder) as unfinished:
        (unfinished / data).write_text(dumps(document.data, missing=True), encoding="utf-8")
        (unfinished / report).write_text(
            page(replace(document, footer=footer(made or {}))), encoding="utf-8"
        )
        kernels.to_parquet(unfinished / table, index=False, compression="zstd")
        about = {
            "host": projection.host.name,
            "target": projection.target.name,
            "notes": document.data["notes"],
        }
        write_chrome(unfinished / drawing, *drawn, **about, counters=tracks)


def laws_of(
    *,
    compute_law: str = DEFAULT_LAW,
    comm_law: str = "alpha-beta",
    gaps: str = "modelled",
    cpu_speed: float | None = None,
    run: Path | str | RunLike | None = None,
    network: tuple[float, float] | Path | str | None = None,
    ranks_per_node: int = NODE_GPUS,
    ranks: int | str | None = None,
    grows: Sequence[str] = (),
    comm_wait: bool = False,
) -> Laws:
    """Return how traces are projected, from what a user says of it (`project_traces`)."""
    if isinstance(network, str):
        given = parse_network(network)
    else:
        given = network
    file = None
    if isinstance(given, Path):
        file = given
    if given is None or file is not None:
        between = (None, None)
    else:
        between = given
    if not (isinstance(between, Sequence) and len(between) == 2):
        raise ParameterError(
            "network", f"must be the bandwidths of host and target, or a TOML file, got {network!r}"
        )
    host_gbs, target_gbs = between
    if host_gbs is not None and (ranks is not None or grows):
        raise ParameterError(
            "network", "must be a TOML file where the ranks change, got two bandwidths"
        )
    laws = Laws(
        compute_law,
        cast(CommunicationLaw, comm_law),
        cast(Gaps, gaps),
        cpu_speed,
        None,
        NodeBandwidths(host_gbs, target_gbs, ranks_per_node),
        comm_wait,
        world=world_of(file, ranks_per_node, ranks, grows),
    )
    return replace(laws, run=_model_of(run) if run else None)


def _model_of(run: Path | str | RunLike) -> TrainedModel:
    if isinstance(run, str | Path):
        return TrainedModel.load(Path(run))
    return run.trained


@dataclass(frozen=True)
class Inputs:
    """What is the same for all traces: laws, target, the host where it is stated, how to read, what corrects them."""

    laws: Laws
    target: GPU | None
    stated_host: GPU | None
    options: Options
    correct: Sequence[Path | pd.DataFrame | Measurements]
    durations: Path | str | pd.DataFrame | None = None
    profiler: StatedProfiler | None = None

    def read(
        self, traces: Sequence[Path | str | Sequence[Path | str]]
    ) -> Iterator[tuple[str, Annotated]]:
        """Yield the traces with their names; one that cannot be read is an error, and so is none at all."""
        label = None
        for label, trace in traces_of(paths_of(traces, "traces"), self.options):
            possible = with_possible_times(trace, label)
            check_whole(possible, label)
            yield label, possible
        if label is None:
            raise DataError(
                f"no trace among {', '.join(map(str, traces))}: `flopcast ingest` says what the "
                "files are"
            )

    @cached_property
    def passes(self) -> pd.DataFrame | None:
        """The durations measured in passes, read once."""
        if self.durations is None or isinstance(self.durations, pd.DataFrame):
            return self.durations
        return read_durations(Path(self.durations), replace(self.options, calls=False))

    def retimed(self, label: str, trace: Annotated) -> Retimed | None:
        """Return the trace with the durations measured in passes, where there are any."""
        if self.passes is None:
            return None
        if isinstance(self.durations, pd.DataFrame):
            source = label
        else:
            source = f"{self.durations} for {label}"
        try:
            return with_durations(trace, self.passes)
        except DataError as error:
            raise error.within(source) from error

    def profiling(self, label: str) -> Profiling | None:
        """Return the statement on the profiler of a trace, if there is one."""
        if self.profiler is None:
            return None
        return self.profiler.profiling(label)

    @cached_property
    def measured(self) -> pd.DataFrame | None:
        """The measurements that correct the law, read once."""
        if self.correct:
            return load_measurements(self.correct, rename=self.options.renames).frame
        return None

    def host(self, label: str, trace: Annotated) -> GPU:
        """Return the GPU that a trace was made on."""
        if self.stated_host:
            return self.stated_host
        try:
            word = host_of(trace)
            host = gpu_of_word(word, stated="device" in self.options.defaults)
        except DataError as error:
            raise error.within(label) from error
        if host is None:
            raise ParameterError(
                "host", f"must say which GPU {label} was made on: {word!r} is unknown"
            )
        return host

    def corrected(self, host: GPU) -> Laws:
        """Return the laws with corrections learnt from measurements of both GPUs, if there are any."""
        if self.measured is None:
            return self.laws
        try:
            corrections = learn_corrections(
                self.measured, host, self.target or host, self.laws.compute
            )
        except DataError as error:
            source = ", ".join(
                str(one) if isinstance(one, Path) else "the table" for one in self.correct
            )
            raise error.within(source) from error
        return replace(self.laws, corrections=corrections)


def _targets(target: str | Sequence[Device] | Device | None) -> list[GPU | None]:
    """Return the targets, each once; None stands for the GPU that was measured."""
    if target is None:
        return [None]
    given = several_devices(target, "target")
    if not isinstance(given, list | tuple):
        given = [given]
    gpus: list[GPU | None] = []
    for one in given:
        gpu = device(one, "target")
        if gpu not in gpus:
            gpus.append(gpu)
    if not gpus:
        raise ParameterError("target", "must name a GPU, got an empty list")
    return gpus


def _projected(
    traces: Sequence[Path | str],
    inputs: Sequence[Inputs],
    sweeps: Sequence[Sweep],
    choices: Mapping[str, Any],
) -> Iterator[ProjectedTrace]:
    """Yield each trace on each target; with a host that is given the laws are corrected before any is read."""
    corrected = []
    for one in inputs:
        laws = {}
        if one.stated_host:
            laws[one.stated_host.name] = one.corrected(one.stated_host)
        corrected.append(laws)
    for label, trace in inputs[0].read(traces):
        for one, laws in zip(inputs, corrected, strict=True):
            yield _projected_to(label, trace, one, laws, sweeps, choices)


def _projected_to(
    label: str,
    trace: Annotated,
    inputs: Inputs,
    laws: dict[str, Laws],
    sweeps: Sequence[Sweep],
    choices: Mapping[str, Any],
) -> ProjectedTrace:
    """Return a trace on one target; ``laws`` are those of each host so far."""
    host = inputs.host(label, trace)
    if host.name not in laws:
        laws[host.name] = inputs.corrected(host)
    retimed = inputs.retimed(label, trace)
    if retimed is not None:
        trace = retimed.trace
    try:
        result = result_of(
            label,
            trace,
            host,
            inputs.target or host,
            laws[host.name],
            sweeps=sweeps,
            profiling=inputs.profiling(label),
            **choices,
        )
    except DataError as error:
        if isinstance(error, ParameterError):
            raise
        raise error.within(label) from error
    if retimed is not None:
        result = replace(result, notes=(*result.notes, retimed.note), durations=retimed.kernels)
    return ProjectedTrace(result)


@dataclass(frozen=True)
class ProjectedJob(Result):
    """Several ranks of a job on another GPU.

    Attributes
    ----------
    job : Job
        Everything that was computed (`projection.job.Job`).
    uncertainty : Uncertainty
        How sure the projected time is.
    """

    saved_as = FILES["project"]
    job: Job
    uncertainty: Uncertainty

    @property
    def table(self) -> pd.DataFrame:
        """Where each rank's time goes: `ranks`."""
        return self.ranks

    @property
    def measured_us(self) -> float:
        """From the first start to the last end of all ranks, as measured."""
        return self.job.measured_us

    @property
    def projected_us(self) -> float:
        """The same on the target."""
        return self.job.projected_us

    @property
    def interval_us(self) -> tuple[float, float]:
        """Where the time on the target lies, at the level asked for."""
        return self.uncertainty.lower_us, self.uncertainty.upper_us

    @property
    def collectives(self) -> pd.DataFrame:
        """Skew, waiting, transfer and bandwidths of each kind of collective (`projection.job.Job.collectives`)."""
        return self.job.collectives

    @property
    def causes(self) -> pd.DataFrame:
        """What ranks did while others waited for them (`projection.job.Job.causes`)."""
        return self.job.causes

    @property
    def ranks(self) -> pd.DataFrame:
        """Where each rank's time goes, waiting for peers apart (`projection.job.Job.split`)."""
        return self.job.split

    @property
    def waits(self) -> pd.DataFrame:
        """What each rank waits in each collective (`projection.job.Job.waits`)."""
        return self.job.waits

    @property
    def kernels(self) -> pd.DataFrame:
        """One row per activity of every rank, on one clock, as replayed together (`projection.job.Job.activities`)."""
        return in_words(self.job.activities)

    def document(self) -> Document:
        """Return the job as `report` shows it on terminals and pages."""
        return job_document(self.job, self.uncertainty)

    def _write(self, folder: Path, made: Mapping[str, Any] | None) -> None:
        kernels = self.kernels
        times = (
            kernels["projected_start_ns"].to_numpy(),
            (1000 * kernels["projected_us"]).round().to_numpy(dtype=np.int64),
        )
        drawn = (kernels, *times)
        save_projection(folder, self.document(), self.job.projections[0], kernels, drawn, made)

    def __repr__(self) -> str:
        return f"<ProjectedJob of {len(self.job.ranks)} ranks: {duration(self.projected_us)}>"


@saving
@configured
def project_job(
    *traces: Path | str | Sequence[Path | str],
    target: Device | None = None,
    host: Device | None = None,
    correct: Data | Sequence[Data] = (),
    default: Assigned | None = None,
    rename: Assigned | None = None,
    interval: float = 0.9,
    samples: int = SAMPLES,
    seed: int = 0,
    **laws: Any,
) -> ProjectedJob:
    """Project the traces of several ranks of one job to another GPU, replayed together.

    A collective starts when the last of its ranks arrives, which tells what the others wait for it
    from the transfer.

    Parameters
    ----------
    *traces : path or sequence of path
        Files and folders: one trace for each rank, of the same steps.
    target : str, Path or GPU, optional
        The target; by default the GPU measured.
    host, correct, default, rename
        As for `projecting.project_traces`.
    interval, samples, seed
        Of the interval, each of whose samples is a replay of all ranks together.
    **laws
        As there too: ``compute_law``, ``comm_law``, ``gaps``, ``cpu_speed``, ``run``, ``network``,
        ``ranks_per_node``, ``ranks`` and ``grows``.

    Returns
    -------
    ProjectedJob

    Raises
    ------
    DataError
        A parameter cannot be used, a trace cannot be read or projected, or the ranks' collectives
        do not match.

    Examples
    --------
    With traces of your own::

        found = project_job("rank0.json.gz", "rank1.json.gz", target="MI355X")
        found.ranks[["rank", "waiting_us", "last"]]
    """
    check_sample(interval, samples)
    check_number("seed", seed, 0)
    wanted = None
    if target is not None:
        wanted = device(target, "target")
    host_gpu = None
    if host is not None:
        host_gpu = device(host, "host")
    reading = Options(
        defaults=stated_defaults(default),
        calls=True,
        renames=values.assigned("rename", rename),
    )
    inputs = Inputs(laws_of(**laws), wanted, host_gpu, reading, items(correct, "correct"))
    read = list(inputs.read(traces))
    hosts = {inputs.host(label, trace).name: inputs.host(label, trace) for label, trace in read}
    if len(hosts) > 1:
        raise DataError(
            f"the ranks are of {' and '.join(sorted(hosts))}: one job of one GPU is replayed "
            "together"
        )
    (made_on,) = hosts.values()
    job = job_of(read, made_on, wanted or made_on, inputs.corrected(made_on))
    return ProjectedJob(job, job.uncertainty(level=interval, samples=samples, seed=seed))

"""A whole trace on another GPU: ``python project.py TRACE --to MI355X`` says how long it takes, and how surely."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import replace
from itertools import islice
from pathlib import Path
from typing import Annotated, cast

import numpy as np
import pandas as pd
import typer

from ..api.tables import load_measurements
from ..errors import DataError, ParameterError
from ..evaluation.trained_model import TrainedModel
from ..hardware import GPU, find
from ..output import check_output, dumps, whole_folder
from ..projection.chrome import write_chrome
from ..projection.collective_laws import LAWS as COMMUNICATION_LAWS
from ..projection.collective_laws import NODE_RANKS, CommunicationLaw, Network
from ..projection.kernel_laws import DEFAULT_LAW
from ..projection.measured_factors import learn_corrections
from ..projection.result import Result, critical_us, result_of
from ..projection.scalings import LAWS
from ..projection.sweep import parse_sweeps
from ..projection.uncertainty import check_sample
from ..projection.whole_trace import GAPS, Gaps, Laws, Projection, host_of
from ..readers import Options, TraceFailure, read_traces
from ..readers.labels import known_gpu
from ..report.console import output, say_written
from ..report.projection import data, in_words, show_result
from ..report.projection_page import projection_html
from ..report.words import say
from ..traces.dispatches import call_table, empty_calls
from ..traces.summary import Annotated as Trace
from .options import JsonOption, LevelOption, SeedOption, SetOption, parse_defaults

FILES = ("project.json", "project.html", "kernels.parquet", "trace.json.gz")


def project(
    paths: Sequence[Path],
    to: str,
    *,
    host: str | None = None,
    laws: Laws | None = None,
    stated: str = "",
    sweeps: Sequence[str] = (),
    correct: Sequence[Path] = (),
    options: Options | None = None,
    level: float = 0.9,
    samples: int = 256,
    seed: int = 0,
) -> Iterator[Result]:
    """Project traces to another GPU, one after the other.

    Parameters
    ----------
    paths : sequence of path
        Traces of any supported profiler; those with the CPU's calls (PyTorch) are replayed with them.
    to : str
        Name or TOML file of the target.
    host : str, optional
        Name or TOML file of the GPU they were measured on; by default what the traces say.
    laws : Laws, optional
        By default `Laws()`: an affine roofline for computation, alpha-beta for collectives, the target's gaps.
    stated : str
        Relative standard deviations, ``"gemm=0.1,memory_bw_gbs=0.05"``.
    sweeps : sequence of str
        Figures of the target to change, ``"memory_bw_gbs=6000:10000:500"``.
    correct : sequence of path
        Measurements of both GPUs, from which the law of computation is corrected class by class.
    options : Options, optional
        What the user states about the files.
    level, samples, seed
        Of the interval.

    Yields
    ------
    Result

    Raises
    ------
    DataError
        A trace cannot be read or projected, or there is none.
    """
    check_sample(level, samples)
    target, plans, laws = find(to), parse_sweeps(sweeps), laws or Laws()
    known = find(host) if host else None
    measured = load_measurements(correct).frame if correct else None
    found = 0
    chosen: dict[str, Laws] = {}
    if known:
        chosen[known.name] = corrected(laws, measured, known, target, correct)
    reading = options or Options(calls=True)
    for label, trace in read_traces(paths, options=reading):
        if isinstance(trace, TraceFailure):
            raise trace.error
        found += 1
        own = known or _host(label, trace, reading)
        if own.name not in chosen:
            chosen[own.name] = corrected(laws, measured, own, target, correct)
        try:
            yield result_of(
                label, trace, own, target, chosen[own.name], stated=stated, sweeps=plans, level=level, samples=samples,
                seed=seed,
            )  # fmt: skip
        except ParameterError:
            raise
        except DataError as error:
            raise error if error.source else DataError(str(error), source=label) from error
    if not found:
        raise DataError(f"no trace among {', '.join(map(str, paths))}: `flopcast ingest` says what the files are")


def _host(label: str, trace: Trace, options: Options) -> GPU:
    """Return the GPU that a trace was made on."""
    try:
        word = host_of(trace)
        found = known_gpu(word, stated="device" in options.defaults)
    except DataError as error:
        raise DataError(str(error), source=label) from error
    if found is None:
        raise DataError(f"unknown GPU {word!r}: say with --from which one it is", source=label)
    return found


def corrected(laws: Laws, measured: pd.DataFrame | None, host: GPU, target: GPU, paths: Sequence[Path]) -> Laws:
    """Return the laws with corrections learnt from measurements of both GPUs; as they are without measurements.

    Raises
    ------
    DataError
        The measurements hold no pair of the two GPUs; names the files they come from.
    """
    if measured is None:
        return laws
    try:
        return replace(laws, corrections=learn_corrections(measured, host, target, laws.compute))
    except DataError as error:
        raise error if error.source else DataError(str(error), source=", ".join(map(str, paths))) from error


def write_result(result: Result, out: Path) -> None:
    """Write project.json, project.html, kernels.parquet and trace.json.gz into a folder, whole or not at all.

    Raises
    ------
    DataError
        The folder holds other files or cannot be written.
    """
    check_output(out, FILES)
    projection = result.projection
    start_ns, calls = projected_times(projection)
    with whole_folder(out) as folder:
        (folder / FILES[0]).write_text(dumps(data(result), missing=True), encoding="utf-8")
        (folder / FILES[1]).write_text(projection_html(result), encoding="utf-8")
        table = in_words(projection.activities).assign(projected_start_ns=start_ns, critical_us=critical_us(projection))
        table.to_parquet(folder / FILES[2], index=False, compression="zstd")
        write_chrome(
            folder / FILES[3],
            in_words(projection.activities),
            start_ns.to_numpy(),
            (1000 * projection.activities["projected_us"]).round().to_numpy(dtype=np.int64),
            calls,
            host=projection.host.name,
            target=projection.target.name,
            notes=[say(note) for note in result.notes],
        )


def projected_times(projection: Projection) -> tuple[pd.Series, pd.DataFrame]:
    """Return when each activity starts on the target, in ns on the trace's clock, and the calls as replayed.

    A call that waits for the GPU lasts until its wait is over on the target, all others as the CPU's work does.
    """
    graph, times = projection.graph, projection.times
    starts = pd.Series(0, index=projection.activities.index, dtype="int64")
    starts.iloc[graph.rows] = times.start_ns[0].round().astype("int64") + graph.origin_ns
    calls = graph.calls
    if not len(calls):
        return starts, empty_calls()
    begin, duration = times.call_ns(graph)[0], calls.duration_ns * projection.cpu
    returns = np.flatnonzero(graph.runs.wait >= 0)
    waits = graph.runs.wait[returns]
    duration[waits] = np.maximum(times.run_ns[0, returns] - begin[waits], 0.0)
    start = begin.round().astype("int64")
    columns = {
        "name": calls.names,
        "start_ns": start + graph.origin_ns,
        "duration_ns": (begin + duration).round().astype("int64") - start,
        "process": pd.array(calls.process, dtype="Int64"),
        "thread": pd.array(calls.thread, dtype="Int64"),
        "correlation": pd.array(calls.correlation, dtype="Int64"),
    }
    return starts, call_table(columns)


def command(
    paths: Annotated[list[Path], typer.Argument(metavar="TRACE...", help="Traces of any supported profiler.")],
    to: Annotated[str, typer.Option("--to", metavar="GPU", help="Target: a name, or a TOML file with a GPU of yours.")],
    host: Annotated[
        str | None, typer.Option("--from", metavar="GPU", help="Where it was measured. Default: what the trace says.")
    ] = None,
    compute_law: Annotated[str, typer.Option(help=f"Law of computation: {', '.join(LAWS)}.")] = DEFAULT_LAW,
    comm_law: Annotated[str, typer.Option(help=f"Law of collectives: {', '.join(COMMUNICATION_LAWS)}.")] = "alpha-beta",
    gaps: Annotated[str, typer.Option(help=f"Time between activities: {', '.join(GAPS)}.")] = "modelled",
    model: Annotated[
        Path | None,
        typer.Option(metavar="RUN", help="Run folder of train for these GPUs; goes before the law."),
    ] = None,
    correct: Annotated[
        list[Path] | None, typer.Option(metavar="DATA", help="Measurements of both GPUs that correct the law by class.")
    ] = None,
    cpu_speed: Annotated[
        float | None, typer.Option(help="Speed of the target's CPU relative to the one measured, e.g. 1.1.")
    ] = None,
    network: Annotated[
        str | None,
        typer.Option(metavar="HOST:TARGET", help="Bandwidth out of a node, one way, GB/s, e.g. 50:400."),
    ] = None,
    ranks_per_node: Annotated[int, typer.Option(help="GPUs of a node.")] = NODE_RANKS,
    keep_waiting: Annotated[
        bool, typer.Option("--comm-wait", help="Keep what collectives wait for peers: time above the least of equals.")
    ] = False,
    uncertainty: Annotated[
        str,
        typer.Option(metavar="NAME=SIGMA,...", help="Relative errors, one sigma, e.g. gemm=0.1,memory_bw_gbs=0.05."),
    ] = "",
    sweep: Annotated[
        list[str] | None, typer.Option(metavar="FIGURE=A:B:STEP", help="Change a figure of the target (repeatable).")
    ] = None,
    level: LevelOption = 0.9,
    samples: Annotated[int, typer.Option(help="Draws for the interval, a power of two.")] = 256,
    seed: SeedOption = 0,
    set_: SetOption = None,
    out: Annotated[
        Path | None,
        typer.Option("--out", "-o", help="Folder for the tables, the page and the projected trace."),
    ] = None,
    as_json: JsonOption = False,
) -> None:
    """Say how long a profiled trace takes on another GPU: kernel by kernel, gaps, overlap, and how sure that is."""
    laws = Laws(
        compute=compute_law,
        communication=cast(CommunicationLaw, comm_law),
        gaps=cast(Gaps, gaps),
        cpu_speed=cpu_speed,
        run=TrainedModel.load(model) if model else None,
        network=parse_network(network, ranks_per_node),
        keep_waiting=keep_waiting,
    )
    results = project(
        paths,
        to,
        host=host,
        laws=laws,
        stated=uncertainty,
        sweeps=sweep or (),
        correct=correct or (),
        options=Options(defaults=parse_defaults(set_), calls=True),
        level=level,
        samples=samples,
        seed=seed,
    )
    if out is not None:
        check_output(out, FILES)
        first = list(islice(results, 2))
        if len(first) > 1:
            raise DataError("--out takes one trace at a time", source=first[1].label)
        write_result(first[0], out)
        results = iter(first)
    if as_json:
        print(dumps([data(result) for result in results], missing=True), end="")
        return
    console = output()
    for result in results:
        show_result(console, result)
    if out is not None:
        say_written(console, *(out / name for name in FILES))


def parse_network(text: str | None, ranks: int) -> Network:
    """Return what ``HOST:TARGET`` says of the network between nodes, in GB/s.

    Raises
    ------
    DataError
        It is not two numbers above 0.

    Examples
    --------
    >>> parse_network("50:400", 8).target_gbs
    400.0
    """
    if text is None:
        return Network(ranks_per_node=ranks)
    parts = text.split(":")
    try:
        own, others = (float(part) for part in parts)
    except ValueError:
        raise ParameterError("network", f"must be HOST:TARGET in GB/s, such as 50:400, got {text!r}") from None
    return Network(own, others, ranks)

"""A whole trace on another GPU: ``flopcast project TRACE --target MI355X`` says how long it takes, and how surely."""

from __future__ import annotations

from itertools import islice
from pathlib import Path
from typing import Annotated, Any

import typer

from ..errors import ParameterError
from ..hardware import GPU
from ..laws import OF_COMPUTATION
from ..output import check_output, dumps
from .options import (
    AllOption,
    ChakraOption,
    DefaultOption,
    HostOption,
    IntervalOption,
    JsonOption,
    NeedOption,
    SeedOption,
    TargetOption,
    announce,
    check_chakra,
    made_by,
    parse_defaults,
    parse_gpu,
)

PLACE = 42
EXAMPLES = (
    "flopcast project trace.json.gz --target MI355X --out projected/",
    "flopcast project trace.json.gz --target MI355X --run runs/fp8 --cpu-speed 1.1",
)

FILES = ("project.json", "project.html", "kernels.parquet", "trace.json.gz")
COMMUNICATION_LAWS = "alpha-beta, bandwidth, kept"
GAPS = "kept, scaled, modelled"
"""As the library has them, which takes seconds to import; a test holds both equal."""


def command(
    context: typer.Context,
    traces: Annotated[list[Path], typer.Argument(metavar="TRACES...", help="Traces of any supported profiler.")],
    target: TargetOption = None,
    host: HostOption = None,
    compute_law: Annotated[str, typer.Option(help=f"Law of computation: {', '.join(OF_COMPUTATION)}.")] = "affine",
    comm_law: Annotated[str, typer.Option(help=f"Law of collectives: {COMMUNICATION_LAWS}.")] = "alpha-beta",
    gaps: Annotated[str, typer.Option(help=f"Time between activities: {GAPS}.")] = "modelled",
    run: Annotated[
        Path | None, typer.Option(metavar="RUN", help="Run folder of train: its model goes before any law.")
    ] = None,
    correct: Annotated[
        list[Path] | None, typer.Option(metavar="DATA", help="Measurements of both GPUs that correct the law by class.")
    ] = None,
    power: Annotated[
        list[Path] | None,
        typer.Option(metavar="DATA", help="Measurements with power_w or energy_j: the energy goes by them."),
    ] = None,
    cpu_speed: Annotated[
        float | None, typer.Option(help="Speed of the target's CPU relative to the one measured, e.g. 1.1.")
    ] = None,
    network: Annotated[
        str | None,
        typer.Option(metavar="HOST:TARGET|FILE", help="Bandwidth out of a node, GB/s, e.g. 50:400; or a TOML file."),
    ] = None,
    ranks_per_node: Annotated[int, typer.Option(help="GPUs of a node.")] = 8,
    ranks: Annotated[
        str | None, typer.Option(metavar="[MEASURED:]NEW", help="Ranks of the job on the target: collectives re-sized.")
    ] = None,
    grows: Annotated[
        list[str] | None,
        typer.Option(metavar="GROUP", help="A group of ranks that grows with them: name or size."),
    ] = None,
    together: Annotated[
        bool,
        typer.Option("--together", help="The traces are ranks of one job: who waits for whom."),
    ] = False,
    comm_wait: Annotated[
        bool, typer.Option("--comm-wait", help="Keep what collectives wait for peers: time above the least of equals.")
    ] = False,
    durations: Annotated[
        Path | None,
        typer.Option(metavar="DATA", help="Durations measured in passes (`flopcast plan`), for those of the trace."),
    ] = None,
    phases: Annotated[
        bool, typer.Option("--phases", help="Project a few repeats of each phase of a long trace for all of them.")
    ] = False,
    uncertainty: Annotated[
        str,
        typer.Option(metavar="NAME=SIGMA,...", help="Relative errors, one sigma, e.g. gemm=0.1,memory_bw_gbs=0.05."),
    ] = "",
    sweep: Annotated[
        list[str] | None, typer.Option(metavar="FIGURE=A:B[:STEP]", help="Change a figure of the target (repeatable).")
    ] = None,
    need: NeedOption = None,
    interval: IntervalOption = 0.9,
    samples: Annotated[int, typer.Option(help="Draws for the interval, a power of two.")] = 256,
    seed: SeedOption = 0,
    default: DefaultOption = None,
    out: Annotated[
        Path | None,
        typer.Option("--out", "-o", help="Folder for the tables, the page and the projected trace."),
    ] = None,
    chakra: ChakraOption = None,
    every: AllOption = False,
    as_json: JsonOption = False,
) -> None:
    """Say how long a profiled trace takes on another GPU: kernel by kernel, gaps, overlap, and how sure that is.

    Without --host the trace says where it was measured; without --target that GPU stays, and something else changes.
    """
    if out is not None:
        check_output(out, FILES, [*traces, *([durations] if durations else [])])
    check_chakra(chakra)
    wanted, measured_on = parse_gpu(target), parse_gpu(host)
    columns, bandwidths = parse_defaults(default), parse_network(network)
    announce("reading the trace", quiet=as_json)
    laws: dict[str, Any] = {
        "host": measured_on, "compute_law": compute_law, "comm_law": comm_law, "gaps": gaps, "cpu_speed": cpu_speed,
        "run": run, "correct": correct or (), "network": bandwidths, "ranks_per_node": ranks_per_node,
        "ranks": ranks, "grows": grows or (), "default": columns,
    }  # fmt: skip
    of_one: dict[str, Any] = {
        "comm_wait": comm_wait, "durations": durations, "phases": phases, "uncertainty": uncertainty,
        "sweep": sweep or (), "power": power or (), "need": need,
    }  # fmt: skip
    if together:
        if given := [name for name, value in (of_one | {"chakra": chakra}).items() if value]:
            raise ParameterError(given[0], "is of one trace alone, not of ranks replayed together")
        _together(context, traces, wanted, laws, out, as_json, every)
        return
    from ..api.projecting import project_traces  # here: what it imports takes seconds, and options are checked before
    from ..report.terminal import print_json, show

    found = project_traces(traces, wanted, **laws, **of_one, interval=interval, samples=samples, seed=seed)
    if out is not None or chakra is not None:
        first = list(islice(found, 2))
        if len(first) > 1:
            name = "chakra" if out is None else "out"
            raise ParameterError(name, f"takes one trace at a time, got {first[1].label} too")
        if out is not None:
            first[0].save(out, made_by(context))
        if chakra is not None:
            first[0].save_chakra(chakra)
        found = iter(first)
    if as_json:
        print_json(dumps([one.answers for one in found], missing=True))
        return
    for one in found:
        show(one.document(), *(out / name for name in FILES if out is not None), every=every)


def _together(
    context: typer.Context,
    traces: list[Path],
    target: GPU | None,
    laws: dict[str, Any],
    out: Path | None,
    as_json: bool,
    every: bool,
) -> None:
    from ..api.projecting import project_job  # here: what it imports takes seconds
    from ..report.terminal import print_json, show

    job = project_job(traces, target, **laws)
    if out is not None:
        job.save(out, made_by(context))
    if as_json:
        print_json(dumps(job.document().data, missing=True))
    else:
        show(job.document(), *(out / name for name in FILES if out is not None), every=every)


def parse_network(text: str | None) -> tuple[float, float] | Path | None:
    """Return the bandwidths of ``HOST:TARGET``, in GB/s, or the path of a TOML file.

    Raises
    ------
    ParameterError
        It is not two numbers.

    Examples
    --------
    >>> parse_network("50:400")
    (50.0, 400.0)
    """
    if text is None:
        return None
    if text.casefold().endswith(".toml"):
        return Path(text)
    try:
        host, target = (float(part) for part in text.split(":"))
    except ValueError:
        raise ParameterError("network", f"must be HOST:TARGET in GB/s, such as 50:400, got {text!r}") from None
    return host, target

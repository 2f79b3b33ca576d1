"""A whole trace on another GPU: ``flopcast project TRACE --target MI355X`` says how long it takes, and how surely."""

from __future__ import annotations

from itertools import islice
from pathlib import Path
from typing import Annotated, Any

import typer

from .. import values
from ..errors import ParameterError
from ..hardware import GPU
from ..laws import OF_COMPUTATION
from ..output import FILES, check_output, dumps
from . import options as opt

PLACE = 42
EXAMPLES = (
    "flopcast project trace.json.gz --target MI355X --out projected/",
    "flopcast project trace.json.gz --target MI355X --run runs/fp8 --cpu-speed 1.1",
)
COMMUNICATION_LAWS = "alpha-beta, bandwidth, kept"
SAMPLES = 256  # of one trace; of ranks together a draw takes longer, and the API has fewer
GAPS = "kept, scaled, modelled"  # as the library has them, which takes seconds to import; a test holds both equal


def command(
    context: typer.Context,
    traces: Annotated[
        list[Path], typer.Argument(metavar="TRACES", help="Traces of any supported profiler.")
    ],
    target: Annotated[
        str | None,
        opt.option(
            opt.TARGET,
            "GPU",
            shown=False,
            spelt="--target --gpu",
            autocompletion=opt.gpu_names,
        ),
    ] = None,
    host: opt.HostOption = None,
    compute_law: Annotated[
        str, opt.option(f"Law of computation: {', '.join(OF_COMPUTATION)}.")
    ] = "affine",
    comm_law: Annotated[
        str, opt.option(f"Law of collectives: {COMMUNICATION_LAWS}.")
    ] = "alpha-beta",
    gaps: Annotated[str, opt.option(f"Time between activities: {GAPS}.")] = "modelled",
    run: Annotated[
        Path | None,
        opt.option(
            "Run folder of train (forecasts: or shipped): its model goes before any law.", "RUN"
        ),
    ] = None,
    correct: Annotated[
        list[Path] | None,
        opt.option("Measurements of both GPUs that correct the law, by problem or class.", "DATA"),
    ] = None,
    power: Annotated[
        list[Path] | None,
        opt.option("Measurements with power_w or energy_j: the energy goes by them.", "DATA"),
    ] = None,
    cpu_speed: Annotated[
        float | None,
        opt.option("Speed of the target's CPU relative to the one measured, e.g. 1.1."),
    ] = None,
    network: Annotated[
        str | None,
        opt.option(
            "Bandwidth out of a node, GB/s, e.g. 50:400; or a TOML file.", "HOST:TARGET|FILE"
        ),
    ] = None,
    ranks_per_node: Annotated[int, opt.option("GPUs of a node.")] = 8,
    ranks: Annotated[
        str | None,
        opt.option("Ranks of the job on the target: collectives re-sized.", "[MEASURED:]NEW"),
    ] = None,
    grows: Annotated[
        list[str] | None,
        opt.option("A group of ranks that grows with them: name or size.", "GROUP"),
    ] = None,
    together: Annotated[
        bool, opt.option("The traces are ranks of one job: who waits for whom.", spelt="--together")
    ] = False,
    comm_wait: Annotated[
        bool,
        opt.option(
            "Keep what collectives wait for peers: time above the least of equals.",
            spelt="--comm-wait",
        ),
    ] = False,
    durations: Annotated[
        Path | None,
        opt.option(
            "Durations measured in passes (`flopcast plan`), for those of the trace.", "DATA"
        ),
    ] = None,
    fidelity: Annotated[
        str | None,
        opt.option(
            "Take the profiler out: JSON of `flopcast fidelity`, or torch, rpd, ...", "RUN|NAME"
        ),
    ] = None,
    advice: Annotated[
        bool,
        opt.option(
            "What to make faster: the longest calls against the best known kernels.",
            spelt="--advice",
        ),
    ] = False,
    best: Annotated[
        list[Path] | None,
        opt.option("Measured kernels for --advice, beside those that ship.", "DATA"),
    ] = None,
    phases: Annotated[
        bool,
        opt.option(
            "Project a few repeats of each phase of a long trace for all of them.", spelt="--phases"
        ),
    ] = False,
    uncertainty: Annotated[
        str,
        opt.option(
            "Relative errors, one sigma, e.g. gemm=0.1,memory_bw_gbs=0.05.", "NAME=SIGMA,..."
        ),
    ] = "",
    sweep: Annotated[
        list[str] | None,
        opt.option("Change a figure of the target (repeatable).", "FIGURE=A:B[:STEP]"),
    ] = None,
    need: opt.NeedOption = None,
    interval: opt.IntervalOption = 0.9,
    samples: Annotated[
        int, opt.option("Draws for the interval, a power of two; 64 with --together.")
    ] = SAMPLES,
    seed: opt.SeedOption = 0,
    default: opt.DefaultOption = None,
    rename: opt.RenameOption = None,
    out: Annotated[
        Path | None,
        opt.option("Folder for the tables, the page and the projected trace.", spelt="--out -o"),
    ] = None,
    chakra: opt.ChakraOption = None,
    every: opt.AllOption = False,
    as_json: opt.JsonOption = False,
) -> None:
    """Say how long a profiled trace takes on another GPU: kernel by kernel, gaps, overlap, and how sure that is.

    Without --host the trace says where it was measured; without --target that GPU stays, and
    something else changes.
    """
    check_output(out, FILES["project"], [*traces, *([durations] if durations else [])])
    opt.check_chakra(chakra)
    wanted, measured_on = _targets(target), opt.parse_gpu(host)
    columns = values.assigned("default", default)
    opt.announce("reading the trace", quiet=as_json)
    laws: dict[str, Any] = {
        "host": measured_on,
        "compute_law": compute_law,
        "comm_law": comm_law,
        "gaps": gaps,
        "cpu_speed": cpu_speed,
        "run": run,
        "correct": correct or (),
        "network": network,
        "ranks_per_node": ranks_per_node,
        "ranks": ranks,
        "grows": grows or (),
        "default": columns,
        "rename": values.assigned("rename", rename),
    }
    of_one: dict[str, Any] = {
        "comm_wait": comm_wait,
        "durations": durations,
        "phases": phases,
        "uncertainty": uncertainty,
        "sweep": sweep or (),
        "power": power or (),
        "need": need,
        "fidelity": fidelity,
        "advice": advice,
        "best": best or (),
    }
    if together:
        if given := [name for name, value in (of_one | {"chakra": chakra}).items() if value]:
            raise ParameterError(given[0], "is of one trace alone, not of ranks replayed together")
        if isinstance(wanted, list):
            raise ParameterError("target", "must be one GPU for ranks replayed together")
        laws |= {"interval": interval, "seed": seed}
        if samples != SAMPLES:
            laws["samples"] = samples
        _together(context, traces, wanted, laws, out, as_json, every)
        return
    # here: what it imports takes seconds, and options are checked before
    from ..api.projecting import Projections, project_traces
    from ..report.terminal import print_json, show

    found = project_traces(
        traces, wanted, **laws, **of_one, interval=interval, samples=samples, seed=seed
    )
    if out is not None or chakra is not None:
        first = list(islice(found, 2))
        if len(first) > 1:
            name = "chakra" if out is None else "out"
            raise ParameterError(name, "takes one trace and target at a time, got more")
        if out is not None:
            first[0].save(out, made=opt.made_by(context))
        if chakra is not None:
            first[0].save_chakra(chakra)
        found = iter(first)
    if as_json:
        print_json(dumps([one.answers for one in found], missing=True))
        return
    projections = Projections(found)
    if len(projections) > 1:
        show(projections.document(), every=every)
        if not every:
            print("A screen of each: --all")
            return
    for one in projections:
        show(
            one.document(),
            *(out / name for name in FILES["project"] if out is not None),
            every=every,
        )


def _targets(names: str | None) -> Any:
    """Return the GPUs of ``GPU,GPU``: one by itself, several as a list, None for the one that was measured."""
    if names is None or "," not in names:
        return opt.parse_gpu(names)
    return [opt.parse_gpu(name.strip()) for name in names.split(",")]


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

    job = project_job(*traces, target=target, **laws)
    if out is not None:
        job.save(out, made=opt.made_by(context))
    if as_json:
        print_json(dumps(job.document().data, missing=True))
    else:
        show(
            job.document(),
            *(out / name for name in FILES["project"] if out is not None),
            every=every,
        )

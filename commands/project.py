"""A whole trace on another GPU: ``flopcast project TRACE --target MI355X`` says how long it takes, and how surely."""

from __future__ import annotations

from itertools import islice
from pathlib import Path
from typing import Annotated, Any

import typer

from ..errors import ParameterError
from ..hardware import GPU
from ..output import FILES, check_output, dumps
from . import options as opt
from .derived import as_taken, with_options_of

PLACE = 42
EXAMPLES = (
    "flopcast project trace.json.gz --target MI355X --out projected/",
    "flopcast project trace.json.gz --target MI355X --run runs/fp8 --cpu-speed 1.1",
)
SAMPLES = 256  # of one trace; of ranks together a draw takes longer, and the API has fewer
_ALONE = "is of one trace alone, not of ranks replayed together"
_ONE = "takes one trace and target at a time, got more"
ONE_TRACE = (
    "comm_wait",
    "durations",
    "phases",
    "uncertainty",
    "sweep",
    "power",
    "need",
    "fidelity",
    "advice",
    "best",
)
"""Options of one trace alone, not of ranks that are replayed together."""


@with_options_of("project_traces", {}, ("traces", "target"), "api.projecting")
def command(
    context: typer.Context,
    traces: Annotated[
        list[Path], typer.Argument(metavar="TRACES", help="Traces of any supported profiler.")
    ],
    target: Annotated[
        str | None,
        opt.option(
            opt.TARGET, "GPU", shown=False, spelt="--target --gpu", autocompletion=opt.gpu_names
        ),
    ] = None,
    *,
    together: Annotated[
        bool, opt.option("The traces are ranks of one job: who waits for whom.", spelt="--together")
    ] = False,
    out: Annotated[
        Path | None,
        opt.option(
            "Folder for the tables, the page and the projected trace; of several the page of all.",
            spelt="--out -o",
        ),
    ] = None,
    chakra: opt.ChakraOption = None,
    every: opt.AllOption = False,
    as_json: opt.JsonOption = False,
    **given: Any,
) -> None:
    """Say how long a profiled trace takes on another GPU: kernel by kernel, gaps, overlap, and how sure that is.

    Without --host the trace says where it was measured; without --target that GPU stays, and
    something else changes.
    """
    wanted = _targets(target)
    several = isinstance(wanted, list) or (len(traces) > 1 and not together)
    files = FILES["project"]
    if several:
        files = FILES["projections"]
    elif traces[0].is_dir() and not together:
        # how many traces it holds shows once they are read
        files = (*files, *FILES["projections"])
    durations = given["durations"]
    check_output(out, files, [*traces, *([durations] if durations else [])])
    if chakra is not None and several:
        raise ParameterError("chakra", _ONE)
    opt.check_chakra(chakra)
    choices = as_taken("project_traces", given, "api.projecting")
    opt.announce("reading the trace", quiet=as_json)
    if together:
        for name in ONE_TRACE:
            if given[name]:
                raise ParameterError(name, _ALONE)
        if chakra:
            raise ParameterError("chakra", _ALONE)
        if isinstance(wanted, list):
            raise ParameterError("target", "must be one GPU for ranks replayed together")
        of_all = {name: value for name, value in choices.items() if name not in ONE_TRACE}
        if given["samples"] == SAMPLES:
            del of_all["samples"]
        _together(context, traces, wanted, of_all, out, as_json, every)
        return
    # here: what it imports takes seconds, and options are checked before
    from ..api.projecting import Projections, project_traces
    from ..report.terminal import print_json, show

    results = project_traces(traces, wanted, **choices)
    if chakra is not None:
        results = islice(results, 2)
    projections = Projections(results)
    several = len(projections) > 1
    written = []
    if several and chakra is not None:
        raise ParameterError("chakra", _ONE)
    if out is not None and several:
        projections.save(out, made=opt.made_by(context))
        written = [out / name for name in projections.saved_as]
    elif out is not None:
        projections[0].save(out, made=opt.made_by(context))
        written = [out / name for name in FILES["project"]]
    if chakra is not None:
        projections[0].save_chakra(chakra)
    if as_json:
        print_json(dumps([one.answers for one in projections], missing=True))
        return
    if several:
        show(projections.document(), *written, every=every)
        written = []
        if not every:
            print("A screen of each: --all")
            return
    for one in projections:
        show(one.document(), *written, every=every)


def _targets(names: str | None) -> Any:
    """Return the GPUs of ``GPU,GPU``: one by itself, several as a list, None for the one that was measured."""
    if names is None or "," not in names:
        return opt.parse_gpu(names)
    gpus = []
    for name in names.split(","):
        gpu = opt.parse_gpu(name.strip())
        if gpu not in gpus:
            gpus.append(gpu)
    if len(gpus) == 1:
        return gpus[0]
    return gpus


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

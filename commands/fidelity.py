"""Which profiler to believe: ``python fidelity.py A.json B.csv --unprofiled 41.2ms`` compares traces of a workload."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Annotated

import typer

from ..errors import DataError
from ..output import dumps
from ..projection.fidelity import Fidelity, Profiled
from ..projection.fidelity import fidelity as compare
from ..readers import Options, TraceFailure, read_traces
from ..report.console import output
from ..report.fidelity import data, show_fidelity
from .options import JsonOption, SetOption, parse_defaults, parse_time


def fidelity(
    paths: Sequence[Path],
    unprofiled_us: float | None = None,
    *,
    steps: int | None = None,
    options: Options | None = None,
) -> Fidelity:
    """Compare traces of one workload with each other, and with the time it takes unprofiled.

    Parameters
    ----------
    paths : sequence of path
        One file or folder for each trace.
    unprofiled_us : float, optional
        End-to-end time of one step without a profiler.
    steps : int, optional
        Steps that each trace holds, where they do not record them.
    options : Options, optional
        What the user states about the files.

    Raises
    ------
    DataError
        A path holds no trace or several, or `projection.fidelity.fidelity` refuses them.
    """
    names = [path.name for path in paths]
    labels = names if len(set(names)) == len(names) else [str(path) for path in paths]
    traces = [_profiled(*pair, steps, options or Options()) for pair in zip(paths, labels, strict=True)]
    return compare(traces, unprofiled_us)


def _profiled(path: Path, label: str, steps: int | None, options: Options) -> Profiled:
    found = list(read_traces([path], options=options))
    for _, trace in found:
        if isinstance(trace, TraceFailure):
            raise trace.error
    if len(found) != 1:
        count = "no trace" if not found else f"{len(found)} traces"
        raise DataError(f"holds {count}: give one path for each trace", source=str(path))
    trace = found[0][1]
    assert not isinstance(trace, TraceFailure)
    return Profiled.of(label, trace, steps)


def command(
    paths: Annotated[list[Path], typer.Argument(metavar="TRACE...", help="One file or folder for each trace.")],
    unprofiled: Annotated[
        str | None, typer.Option(metavar="TIME", help="End-to-end time of one step without a profiler, e.g. 41.2ms.")
    ] = None,
    steps: Annotated[int | None, typer.Option(help="Steps each trace holds, where it does not record them.")] = None,
    set_: SetOption = None,
    as_json: JsonOption = False,
) -> None:
    """Say what each profiler adds to a workload, and which of them to believe."""
    time_us = None if unprofiled is None else parse_time(unprofiled, "--unprofiled")
    found = fidelity(paths, time_us, steps=steps, options=Options(defaults=parse_defaults(set_)))
    if as_json:
        print(dumps(data(found), missing=True), end="")
    else:
        show_fidelity(output(), found)

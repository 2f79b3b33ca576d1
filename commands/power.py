"""Power of kernels from a logger's readings: ``flopcast power profile LOG --executions FILE --clocks FILE``.

Three commands: ``plan`` (how to measure a kernel), ``record`` (measure it), ``profile`` (power and energy from a log).
"""

from __future__ import annotations

import sys
from dataclasses import replace
from pathlib import Path
from typing import Annotated, Literal

import typer

from ..output import check_output
from ..power.runs import plan
from .options import (
    JsonOption,
    LevelOption,
    SeedOption,
    announce,
    check_data,
    made_by,
    parse_names,
    parse_time,
    run_command,
)

PLACE = 180

FILES = ("power.json", "power.html")


def parse_window(text: str, option: str = "--window") -> float:
    """Return the time that a logger averages over in microseconds; ``0``: its readings are instantaneous.

    What a logger calls its power (``current``, ``instant``) does not say that: many average what they call so.

    Raises
    ------
    DataError
        If it is no time.

    Examples
    --------
    >>> parse_window("0"), parse_window("1.5ms")
    (0.0, 1500.0)
    """
    return 0.0 if text.strip() == "0" else parse_time(text, option)


app = typer.Typer(
    no_args_is_help=True,
    add_completion=False,
    pretty_exceptions_enable=False,
)


def command() -> None:
    """Measure power and energy of single kernels with a logger, by the method of FinGraV (ISPASS 2025)."""


def plan_command(
    kernel_time: Annotated[str, typer.Option(metavar="TIME", help="Of one execution, e.g. 120us.")],
    interval: Annotated[
        str, typer.Option(metavar="TIME", help="Over which the logger averages, e.g. 1ms; 0: instantaneous.")
    ] = "1ms",
    as_json: JsonOption = False,
) -> None:
    """Say how to measure a kernel: runs, executions per run, readings and margins as published."""
    kernel_us, interval_us = parse_time(kernel_time, "--kernel-time"), parse_window(interval, "--interval")
    from ..report.power import plan_document
    from ..report.terminal import show

    show(plan_document(plan(kernel_us, interval_us)), as_json=as_json)


def profile_command(
    context: typer.Context,
    log: Annotated[
        Path, typer.Argument(metavar="LOG", help="CSV or Parquet: gpu_ns, component, power_w; or a log of a *-smi.")
    ],
    executions: Annotated[
        Path, typer.Option(metavar="FILE", help="start_ns, end_ns, kernel; also run, execution, class.")
    ],
    clocks: Annotated[
        Path | None,
        typer.Option(metavar="FILE", help="gpu_ns, cpu_ns, delay_ns: readings of both. Of times since 1970: none."),
    ] = None,
    gpu: Annotated[int | None, typer.Option(help="Which GPU of a log of several.")] = None,
    kernel: Annotated[str | None, typer.Option(metavar="NAME", help="Default: every kernel.")] = None,
    component: Annotated[str | None, typer.Option(metavar="NAME[,NAME]", help="Default: all of the log.")] = None,
    window: Annotated[
        str | None,
        typer.Option(metavar="TIME", help="The logger's averaging window, 0 if instantaneous; stated, it is removed."),
    ] = None,
    execution: Annotated[int, typer.Option(min=1, help="First execution of a run whose time is steady.")] = 4,
    steady_from: Annotated[
        int | None,
        typer.Option(min=1, metavar="N", help="First execution of steady power. Default: when the window has filled."),
    ] = None,
    rank: Annotated[
        int, typer.Option("--bin", min=1, help="Which bin of execution times: 1 the fullest, 2 the next, ...")
    ] = 1,
    within: Annotated[
        Literal["each-other", "middle"],
        typer.Option(help="A bin's times lie within the margin of each other (published), or of its middle: wider."),
    ] = "each-other",
    level: LevelOption = 0.9,
    out: Annotated[Path | None, typer.Option("--out", "-o", help="Folder for power.json and power.html.")] = None,
    seed: SeedOption = 0,
    as_json: JsonOption = False,
) -> None:
    """Stitch the power of kernels over their time from the readings of a log, with the energy of one execution."""
    components = parse_names(component, "--component", "total,xcd")
    window_us = None if window is None else parse_window(window)
    if out is not None:
        check_output(out, FILES)
    check_data([path for path in (log, executions, clocks) if path is not None])
    announce(f"reading {log}", quiet=as_json)
    from ..power.profile import profile_files  # here: what it imports takes seconds, and the options are checked before
    from ..report.document import footer
    from ..report.html import save_page
    from ..report.power import power_document
    from ..report.terminal import show

    profiles = profile_files(
        log,
        executions,
        clocks,
        gpu=gpu,
        kernel=kernel,
        components=components,
        window_us=window_us,
        execution=execution,
        steady_from=steady_from,
        within=within,
        rank=rank,
        level=level,
        seed=seed,
    )
    document = power_document(profiles)
    if out is not None:
        save_page(out, replace(document, footer=footer(made_by(context))), FILES)
    show(document, *(out / name for name in FILES if out is not None), as_json=as_json)


def record_command(
    out: Annotated[Path, typer.Option("--out", "-o", help="Folder for log, executions, clocks and record.json.")],
    logger: Annotated[
        Literal["amd-smi", "rocm-smi", "nvml", "simulated"],
        typer.Option(help="What reads the power; simulated: the GPU too, to try it."),
    ],
    kernels: Annotated[
        Path | None,
        typer.Argument(
            metavar="[KERNELS]",
            help="CSV or Parquet with op, dtype_a, dimensions. Default: the published products of 8192, 4096 and 2048, "
            "by a matrix and by a vector; simulated also the collectives.",
        ),
    ] = None,
    interval: Annotated[
        str | None, typer.Option(metavar="TIME", help="Over which the logger averages. Default: by logger.")
    ] = None,
    runs: Annotated[int | None, typer.Option(min=1, help="Runs of each kernel. Default: as published.")] = None,
    device: Annotated[
        str | None, typer.Option(help="cuda:0 and the like (ROCm's, too). Default: the first GPU.")
    ] = None,
    interleaved: Annotated[
        bool, typer.Option("--interleaved", help="Run all kernels in turn, too: each is compared with itself alone.")
    ] = False,
    seed: Annotated[int, typer.Option(min=0, help="Seed of operands and random delays.")] = 0,
    as_json: JsonOption = False,
) -> None:
    """Record the power of kernels as published: protocol looked up, steady power found by bisection, random delays.

    Ctrl-C keeps what is recorded; the same command again goes on.
    """
    interval_us = None if interval is None else parse_time(interval, "--interval")
    check_data([] if kernels is None else [kernels])
    from ..measuring.power_recording import record  # here: what it imports takes seconds
    from ..report.power import record_document
    from ..report.terminal import show, shown_progress

    try:
        with shown_progress("recording", quiet=as_json) as progress:
            recorded = record(
                kernels,
                out,
                logger=logger,
                interval_us=interval_us,
                runs=runs,
                device=device,
                interleaved=interleaved,
                seed=seed,
                progress=progress,
            )
    except KeyboardInterrupt:
        print("what is recorded is kept: the same command goes on", file=sys.stderr)
        raise
    show(record_document(recorded), *recorded.files, as_json=as_json)


app.command("plan")(run_command(plan_command, kernel_us="--kernel-time", interval_us="--interval"))
app.command("record")(run_command(record_command, interval_us="--interval"))
app.command("profile")(run_command(profile_command, window_us="--window", components="--component", rank="--bin"))

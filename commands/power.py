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
    DeviceOption,
    IntervalOption,
    JsonOption,
    SeedOption,
    announce,
    check_data,
    made_by,
    parse_counts,
    parse_names,
    run_command,
)

PLACE = 180
EXAMPLES = ("flopcast power plan --kernel-us 120 --window-us 1000",)

FILES = ("power.json", "power.html")


WINDOW = typer.Option(metavar="US", help="Time over which the logger averages, µs; 0: its readings are instantaneous.")
"""What a logger calls its power (``current``, ``instant``) does not say that: many average what they call so."""

app = typer.Typer(
    no_args_is_help=True,
    add_completion=False,
    pretty_exceptions_enable=False,
)


def command() -> None:
    """Measure power and energy of single kernels with a logger, by the method of FinGraV (ISPASS 2025)."""


def plan_command(
    kernel_us: Annotated[float, typer.Option(metavar="US", help="Time of one execution, µs.")],
    window_us: Annotated[float, WINDOW] = 1000.0,
    as_json: JsonOption = False,
) -> None:
    """Say how to measure a kernel: runs, executions per run, readings and margins as published."""
    from ..report.power import plan_document
    from ..report.terminal import show

    show(plan_document(plan(kernel_us, window_us)), as_json=as_json)


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
    gpu_index: Annotated[int | None, typer.Option(help="Which GPU of a log of several.")] = None,
    kernel: Annotated[str | None, typer.Option(metavar="NAME", help="Only this kernel.", show_default="all")] = None,
    component: Annotated[
        str | None, typer.Option(metavar="NAME[,NAME]", help="Only these components.", show_default="all")
    ] = None,
    window_us: Annotated[float | None, WINDOW] = None,
    execution: Annotated[int, typer.Option(min=1, help="First execution of a run whose time is steady.")] = 4,
    steady_from: Annotated[
        int | None,
        typer.Option(
            min=1, metavar="N", help="First execution of steady power.", show_default="when the window has filled"
        ),
    ] = None,
    bin_rank: Annotated[
        int, typer.Option(min=1, help="Which bin of execution times: 1 the fullest, 2 the next, ...")
    ] = 1,
    within: Annotated[
        Literal["each-other", "middle"],
        typer.Option(help="A bin's times lie within the margin of each other (published), or of its middle: wider."),
    ] = "each-other",
    ablate: Annotated[
        bool, typer.Option("--ablate", help="Also without synchronised clocks, without bins, with 50 runs.")
    ] = False,
    cap_w: Annotated[
        float | None, typer.Option(min=0, metavar="W", help="Power cap of the board: which two stay below it together.")
    ] = None,
    idle_w: Annotated[
        float, typer.Option(min=0, metavar="W", help="Idle power of the board, drawn once by two kernels together.")
    ] = 0.0,
    interval: IntervalOption = 0.9,
    out: Annotated[Path | None, typer.Option("--out", "-o", help="Folder for power.json and power.html.")] = None,
    seed: SeedOption = 0,
    as_json: JsonOption = False,
) -> None:
    """Stitch the power of kernels over their time from the readings of a log, with the energy of one execution."""
    components = parse_names(component, "--component", "total,xcd")
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
        gpu_index=gpu_index,
        kernel=kernel,
        component=components,
        window_us=window_us,
        execution=execution,
        steady_from=steady_from,
        within=within,
        bin_rank=bin_rank,
        ablate=ablate,
        interval=interval,
        seed=seed,
    )
    document = power_document(profiles, cap_w, idle_w)
    if out is not None:
        save_page(out, replace(document, footer=footer(made_by(context))), FILES)
    show(document, *(out / name for name in FILES if out is not None), as_json=as_json)


def record_command(
    out: Annotated[Path, typer.Option("--out", "-o", help="Folder for log, executions, clocks and record.json.")],
    logger: Annotated[
        Literal["amdsmi", "hwmon", "amd-smi", "rocm-smi", "nvml", "simulated"],
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
    window_us: Annotated[float | None, WINDOW] = None,
    runs: Annotated[int | None, typer.Option(min=1, help="Runs of each kernel.", show_default="as published")] = None,
    device: DeviceOption = None,
    interleaved: Annotated[
        bool, typer.Option("--interleaved", help="Run all kernels in turn, too: each is compared with itself alone.")
    ] = False,
    sequence: Annotated[
        list[str] | None,
        typer.Option(metavar="N,N", help="Run these of the list (1,2) in turn, too: each after the one before it."),
    ] = None,
    seed: SeedOption = 0,
    as_json: JsonOption = False,
) -> None:
    """Record the power of kernels as published: protocol looked up, steady power found by bisection, random delays.

    Ctrl-C keeps what is recorded; the same command again goes on.
    """
    check_data([] if kernels is None else [kernels])
    sequences = [parse_counts(one, "--sequence", "1,2") or [] for one in sequence or ()]
    from ..measuring.power_recording import record  # here: what it imports takes seconds
    from ..report.power import record_document
    from ..report.terminal import show, shown_progress

    try:
        with shown_progress("recording", quiet=as_json) as progress:
            recorded = record(
                kernels,
                out,
                logger=logger,
                window_us=window_us,
                runs=runs,
                device=device,
                interleaved=interleaved,
                sequence=sequences,
                seed=seed,
                progress=progress,
            )
    except KeyboardInterrupt:
        print("what is recorded is kept: the same command goes on", file=sys.stderr)
        raise
    show(record_document(recorded), *recorded.files, as_json=as_json)


app.command("plan")(run_command(plan_command))
app.command("record")(run_command(record_command))
app.command("profile")(run_command(profile_command))

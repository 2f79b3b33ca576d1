"""Power of kernels from a logger's readings: ``flopcast power profile LOG --executions FILE --clocks FILE``.

Three commands: ``plan`` (how to measure a kernel), ``record`` (measure it), ``profile`` (power and
energy from a log).
"""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Annotated, Literal

import typer

from .. import values
from ..output import FILES, check_output
from . import options as opt

PLACE = 180
EXAMPLES = (
    "flopcast power plan --kernel-us 120 --window-us 1000 --lag-us 400",
    "flopcast power record gemms.csv --out power/ --logger amdsmi",
    "flopcast power profile amd-smi.csv --executions executions.csv --clocks clocks.csv --window-us 1000 --out profile/",  # noqa: E501
)
WINDOW = opt.option(
    "Time over which the logger averages, µs; 0: its readings are instantaneous.", "US"
)
"""What a logger calls its power (``current``, ``instant``) does not say that: many average what they call so."""
app = typer.Typer(no_args_is_help=True, add_completion=False, pretty_exceptions_enable=False)


def command() -> None:
    """Measure power and energy of single kernels with a logger, by the method of FinGraV (ISPASS 2025)."""


def plan_command(
    kernel_us: Annotated[float, opt.option("Time of one execution, µs.", "US")],
    window_us: Annotated[float, WINDOW] = 1000.0,
    lag_us: Annotated[
        float | None,
        opt.option(
            "Time constant of the read power behind the kernel's, µs: record measures it.",
            "US",
            shown="unknown",
        ),
    ] = None,
    settling_us: Annotated[
        float,
        opt.option(
            "Time of a run until the board holds its power, µs; 0: it does not throttle.", "US"
        ),
    ] = 0.0,
    as_json: opt.JsonOption = False,
) -> None:
    """Say how to measure a kernel: runs, readings and margins as published, executions per run as record makes them."""
    from ..api.power import power_plan
    from ..report.terminal import show

    planned = power_plan(kernel_us, window_us, lag_us=lag_us, settling_us=settling_us)
    show(planned.document(), as_json=as_json)


def profile_command(
    context: typer.Context,
    log: Annotated[
        Path,
        typer.Argument(
            metavar="LOG", help="CSV or Parquet: gpu_ns, component, power_w; or a log of a *-smi."
        ),
    ],
    executions: Annotated[
        Path, opt.option("start_ns, end_ns, kernel; also run, execution, class.", "FILE")
    ],
    clocks: Annotated[
        Path | None,
        opt.option(
            "gpu_ns, cpu_ns, delay_ns: readings of both clocks. A log of times since 1970 needs "
            "none.",
            "FILE",
        ),
    ] = None,
    gpu_index: Annotated[int | None, opt.option("Which GPU of a log of several.")] = None,
    kernel: Annotated[str | None, opt.option("Only this kernel.", "NAME", shown="all")] = None,
    component: Annotated[
        str | None, opt.option("Only these components.", "NAME[,NAME]", shown="all")
    ] = None,
    window_us: Annotated[float | None, WINDOW] = None,
    execution: Annotated[
        int, opt.option("First execution of a run whose time is steady.", min=1)
    ] = 4,
    steady_from: Annotated[
        int | None,
        opt.option(
            "First execution of steady power.", "N", shown="when the window has filled", min=1
        ),
    ] = None,
    bin_rank: Annotated[
        int, opt.option("Which bin of execution times: 1 the fullest, 2 the next, ...", min=1)
    ] = 1,
    within: Annotated[
        Literal["each-other", "middle"],
        opt.option(
            "A bin's times lie within the margin of each other (published), or of its middle: "
            "wider."
        ),
    ] = "each-other",
    ablate: Annotated[
        bool,
        opt.option(
            "Also without synchronised clocks, without bins, with 50 runs.", spelt="--ablate"
        ),
    ] = False,
    cap_w: Annotated[
        float | None,
        opt.option(
            "Power cap of the board: no deconvolved power is above it; which two stay below it "
            "together.",
            "W",
            min=0,
        ),
    ] = None,
    idle_w: Annotated[
        float,
        opt.option("Idle power of the board, drawn once by two kernels together.", "W", min=0),
    ] = 0.0,
    rename: opt.RenameOption = None,
    interval: opt.IntervalOption = 0.9,
    out: Annotated[
        Path | None, opt.option("Folder for power.json and power.html.", spelt="--out -o")
    ] = None,
    seed: opt.SeedOption = 0,
    every: opt.AllOption = False,
    as_json: opt.JsonOption = False,
) -> None:
    """Stitch the power of kernels over their time from the readings of a log, with the energy of one execution."""
    components = values.names("component", component)
    check_output(out, FILES["power"])
    opt.check_data([path for path in (log, executions, clocks) if path is not None])
    opt.announce(f"reading {log}", quiet=as_json)
    from ..api.power import (
        power_profile,
    )  # here: what it imports takes seconds, and the options are checked before

    profiles = power_profile(
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
        cap_w=cap_w,
        rename=values.assigned("rename", rename),
        idle_w=idle_w,
        interval=interval,
        seed=seed,
    )
    opt.finish(context, profiles, out, as_json=as_json, every=every)


def record_command(
    out: Annotated[
        Path, opt.option("Folder for log, executions, clocks and record.json.", spelt="--out -o")
    ],
    logger: Annotated[
        Literal["amdsmi", "hwmon", "amd-smi", "rocm-smi", "nvml", "simulated"],
        opt.option("What reads the power; simulated: the GPU too, to try it."),
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
    runs: Annotated[
        int | None, opt.option("Runs of each kernel.", shown="as published", min=1)
    ] = None,
    device: opt.DeviceOption = None,
    interleaved: Annotated[
        bool,
        opt.option(
            "Run all kernels in turn, too: each is compared with itself alone.",
            spelt="--interleaved",
        ),
    ] = False,
    sequence: Annotated[
        list[str] | None,
        opt.option(
            "Run these of the list in turn, too, each after the one before it: 1,2 or 40*gemv,gemm.",
            "[TIMES*]N|NAME,...",
        ),
    ] = None,
    rename: opt.RenameOption = None,
    seed: opt.SeedOption = 0,
    as_json: opt.JsonOption = False,
) -> None:
    """Record the power of kernels as published: lag measured, executions as plan says with it, random delays.

    Ctrl-C keeps what is recorded; the same command again goes on.
    """
    opt.check_data([] if kernels is None else [kernels])
    from ..api.power import power_record  # here: what it imports takes seconds
    from ..report.terminal import show, shown_progress

    try:
        with shown_progress("recording", quiet=as_json) as progress:
            recorded = power_record(
                kernels,
                out=out,
                logger=logger,
                window_us=window_us,
                runs=runs,
                device=device,
                interleaved=interleaved,
                sequence=sequence or (),
                rename=values.assigned("rename", rename),
                seed=seed,
                progress=progress,
            )
    except KeyboardInterrupt:
        print("what is recorded is kept: the same command goes on", file=sys.stderr)
        raise
    show(recorded.document(), *recorded.files, as_json=as_json)


app.command("plan")(opt.run_command(plan_command))
app.command("record")(opt.run_command(record_command))
app.command("profile")(opt.run_command(profile_command))

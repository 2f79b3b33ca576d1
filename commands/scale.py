"""Performance over the size of a GPU: ``flopcast scale predict runs.csv --fit 8,16 --sizes 128``.

Six commands: ``predict`` (a table, or performances stated one by one), ``devices`` (measured runs at
several sizes), ``facts`` (the published results reproduced), ``configs`` (scale models of a GPU),
``counters`` and ``misses`` (tables for ``predict``).
"""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, Any, Literal

import typer

from .. import values
from ..errors import check_margin
from ..hardware import find
from ..hardware.scaled import scale_models
from ..output import FILES, READABLE, check_file, check_output
from . import options as opt

PLACE = 46
EXAMPLES = (
    "flopcast scale predict runs.csv --fit 8,16 --sizes 128 --out scaling/",
    "flopcast scale devices DATA --devices MI308X,MI300X",
    "flopcast scale facts",
    "flopcast scale configs MI300X",
    "flopcast scale counters profile38/ profile76/ --sizes 38,76 -o counted.csv",
    "flopcast scale misses addresses.txt --sizes 38,76,152 --cache-mb 1,2,4 --instructions 100000 "
    "-o misses.csv",
)
TableOption = Annotated[
    Path, opt.option("Table to write for predict: .csv or .parquet.", spelt="--out -o")
]
OutOption = Annotated[
    Path | None, opt.option("Folder for scale.json and scale.html.", spelt="--out -o")
]
app = typer.Typer(no_args_is_help=True, add_completion=False, pretty_exceptions_enable=False)


def command() -> None:
    """Predict performance at other sizes (SMs, CUs, chiplets) from small scale models."""


def predict_command(
    context: typer.Context,
    data: Annotated[
        Path | None,
        typer.Argument(
            metavar="[DATA]",
            help="CSV or Parquet with benchmark, size and performance; Extra-P's input; a folder of Caliper's JSON.",
        ),
    ] = None,
    fit: Annotated[str | None, opt.option("Sizes to fit, two or more.", "SIZE,SIZE[,...]")] = None,
    sizes: opt.SizesOption = None,
    law: Annotated[
        str | None, opt.option("Laws to fit.", "NAME[,NAME]", opt.MORE, shown="all")
    ] = None,
    performance: Annotated[
        str | None,
        opt.option("Performance at each size of --fit, for no file.", "VALUE,VALUE[,...]"),
    ] = None,
    mpki: Annotated[
        str | None, opt.option("Miss rates at each size of --fit, or of --sizes too.", "VALUE,...")
    ] = None,
    f_mem: Annotated[
        float | None, opt.option("Share of the time that waits for memory, 0 to 1.")
    ] = None,
    scenario: Annotated[
        str, opt.option("Of rows that state none: strong, weak, chiplets.")
    ] = "strong",
    where: opt.WhereOption = None,
    rename: opt.RenameOption = None,
    interval: opt.IntervalOption = 0.9,
    out: OutOption = None,
    every: opt.AllOption = False,
    as_json: opt.JsonOption = False,
) -> None:
    """Predict larger sizes from small ones, benchmark by benchmark; without --sizes the measured ones beyond --fit."""
    check_output(out, FILES["scale"])
    fitted, wanted = (
        values.numbers("fit", fit) or [],
        values.numbers("sizes", sizes),
    )
    performances = values.numbers("performance", performance)
    misses, laws = (
        values.numbers("mpki", mpki),
        values.names("law", law),
    )
    chosen = opt.parse_where(where)
    opt.announce("fitting the laws", quiet=as_json)
    from ..api.scaling import (
        scale,
    )  # here: what it imports takes seconds, and the options are checked before

    result = scale(
        data,
        fitted,
        wanted,
        performance=performances,
        mpki=misses,
        f_mem=f_mem,
        law=laws,
        where=chosen,
        rename=values.assigned("rename", rename),
        scenario=scenario,
        interval=interval,
    )
    opt.finish(context, result, out, as_json=as_json, every=every)


def devices_command(
    context: typer.Context,
    data: Annotated[list[Path], typer.Argument(metavar="DATA", help="Measured files and folders.")],
    devices: Annotated[
        str | None,
        opt.option("Devices of one architecture: names or TOML files.", "NAME,NAME[,...]"),
    ] = None,
    where: opt.WhereOption = None,
    group: opt.GroupOption = None,
    margin: opt.MarginOption = 0.10,
    out: OutOption = None,
    seed: opt.SeedOption = 0,
    every: opt.AllOption = False,
    as_json: opt.JsonOption = False,
    unit: opt.UnitOption = None,
    default: opt.DefaultOption = None,
    rename: opt.RenameOption = None,
) -> None:
    """Say how measured kernels scale with the compute units, from device to device."""
    check_output(out, FILES["scale"])
    names = values.names("devices", devices) or []
    asked = opt.parse_rows(where, unit, default, rename) | {"group": values.columns("group", group)}
    check_margin(margin)
    opt.check_data(data)
    opt.announce("reading the measurements", quiet=as_json)
    from ..api.scaling import scale_devices  # here: what it imports takes seconds

    result = scale_devices(*data, devices=names, margin=margin, seed=seed, **asked)
    opt.finish(context, result, out, as_json=as_json, every=every)


def facts_command(
    out: OutOption = None, every: opt.AllOption = False, as_json: opt.JsonOption = False
) -> None:
    """Reproduce the published results from the published data."""
    check_output(out, FILES["scale"])
    opt.announce("fitting the published simulations", quiet=as_json)
    from ..api.scaling import scale_facts
    from ..report.html import save_page
    from ..report.terminal import show

    document = scale_facts().document()
    if out is not None:
        save_page(out, document, FILES["scale"])
    show(
        document,
        *(out / name for name in FILES["scale"] if out is not None),
        as_json=as_json,
        every=every,
    )


def configs_command(
    gpu: Annotated[str, typer.Argument(help="A name or a TOML file.")],
    sizes: opt.SizesOption = None,
    by: Annotated[Literal["cus", "chiplets"], opt.option("What the sizes count.")] = "cus",
    every: opt.AllOption = False,
    as_json: opt.JsonOption = False,
) -> None:
    """Derive scale models of a GPU: shared resources in proportion to the number of its compute units.

    Without --sizes the whole GPU is halved as often as it goes.
    """
    from ..report.scaling import configurations_document
    from ..report.terminal import show

    base = find(gpu)
    models = scale_models(base, values.counts("sizes", sizes), by)
    show(configurations_document(models, base), as_json=as_json, every=every)


def counters_command(
    data: Annotated[
        list[Path],
        typer.Argument(
            metavar="PROFILE", help="Folders of rocprofiler-compute, one for each size."
        ),
    ],
    sizes: opt.SizesOption = None,
    default: opt.DefaultOption = None,
    out: TableOption = Path("runs.csv"),
    as_json: opt.JsonOption = False,
) -> None:
    """Take IPC, misses per thousand instructions and f_mem of every kernel out of counters, for scale predict.

    --sizes are the compute units of each profile, in their order; without it, those of its device.
    """
    opt.check_data(data)
    wanted, defaults = values.numbers("sizes", sizes), values.assigned("default", default)
    check_file(out, READABLE, data)
    from ..api.scaling import scale_counters

    _write(scale_counters(*data, sizes=wanted, default=defaults), out, as_json)


def misses_command(
    trace: Annotated[
        Path,
        typer.Argument(
            metavar="TRACE", help="Addresses in the order of access, one a line, decimal or 0x..."
        ),
    ],
    sizes: opt.SizesOption = None,
    cache_mb: Annotated[
        str | None, opt.option("Cache of the GPU at each of the sizes, MiB.", "MIB,MIB[,...]")
    ] = None,
    instructions: Annotated[
        float | None,
        opt.option("Of the traced run; without them misses are per thousand accesses."),
    ] = None,
    out: TableOption = Path("runs.csv"),
    as_json: opt.JsonOption = False,
) -> None:
    """Say the miss rate of an LRU cache at every size, by the stack distances of a trace, for scale predict."""
    opt.check_data([trace])
    wanted = values.numbers("sizes", sizes) or []
    caches = values.numbers("cache_mb", cache_mb) or []
    check_file(out, READABLE, [trace])
    from ..api.scaling import scale_misses

    _write(scale_misses(trace, wanted, caches, instructions=instructions), out, as_json)


def _write(rows: Any, out: Path, as_json: bool) -> None:
    import pyarrow as pa

    from ..output import write_table
    from ..report.scaling import rows_document
    from ..report.terminal import show

    write_table(pa.Table.from_pandas(rows, preserve_index=False), out, "{}")
    show(rows_document(rows), out, as_json=as_json)


app.command("predict")(opt.run_command(predict_command))
app.command("devices")(opt.run_command(devices_command))
app.command("facts")(opt.run_command(facts_command))
app.command("configs")(opt.run_command(configs_command))
app.command("counters")(opt.run_command(counters_command))
app.command("misses")(opt.run_command(misses_command))

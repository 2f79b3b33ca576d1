"""Performance over the size of a GPU: ``flopcast scale predict runs.csv --fit 8,16 --sizes 128``.

Seven commands: ``predict`` (a table, or performances stated one by one), ``terms`` (formulas of several
parameters), ``devices`` (measured runs at several sizes), ``facts`` (the published results reproduced),
``configs`` (scale models of a GPU), ``counters`` and ``misses`` (tables for ``predict``).
"""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, Any

import typer

from ..hardware import find
from ..hardware.scaled import scale_models
from ..output import READABLE, check_file
from . import options as opt
from .declared import said
from .derived import as_taken, derive, with_options_of

PLACE = 46
EXAMPLES = (
    "flopcast scale predict runs.csv --fit 8,16 --sizes 128 --out scaling/",
    "flopcast scale terms grid.txt --at p=512,1024 --at n=4096",
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
app = typer.Typer(no_args_is_help=True, add_completion=False, pretty_exceptions_enable=False)


def command() -> None:
    """Predict performance at other sizes (SMs, CUs, chiplets) from small scale models."""


@with_options_of("scale_configs", {}, ("gpu",))
def configs_command(
    gpu: Annotated[str, typer.Argument(help=said("scale_configs", "gpu"))],
    *,
    every: opt.AllOption = False,
    as_json: opt.JsonOption = False,
    **given: Any,
) -> None:
    """Derive scale models of a GPU: shared resources in proportion to the number of its compute units.

    Without --sizes the whole GPU is halved as often as it goes.
    """
    from ..report.scaling import configurations_document
    from ..report.terminal import show

    base = find(gpu)
    models = scale_models(base, **as_taken("scale_configs", given))
    show(configurations_document(models, base), as_json=as_json, every=every)


@with_options_of("scale_counters", {}, ("data",))
def counters_command(
    data: Annotated[
        list[Path],
        typer.Argument(
            metavar="PROFILE",
            help="Folders of rocprofiler-compute, or logs of GPGPU-Sim and Accel-Sim, one a size.",
        ),
    ],
    *,
    out: TableOption = Path("runs.csv"),
    as_json: opt.JsonOption = False,
    **given: Any,
) -> None:
    """Take IPC, misses per thousand instructions and f_mem of every kernel out of counters, for scale predict.

    --sizes are the compute units of each profile, in their order; without it, those of its device.
    """
    opt.check_data(data)
    asked = as_taken("scale_counters", given)
    check_file(out, READABLE, data)
    from ..api.scaling import scale_counters

    _write(scale_counters(*data, **asked), out, as_json)


@with_options_of("scale_misses", {}, ("trace",))
def misses_command(
    trace: Annotated[Path, typer.Argument(metavar="TRACE", help=said("scale_misses", "trace"))],
    *,
    out: TableOption = Path("runs.csv"),
    as_json: opt.JsonOption = False,
    **given: Any,
) -> None:
    """Say the miss rate of LRU caches at every size, by the stack distances of a trace, for scale predict."""
    opt.check_data([trace])
    asked = as_taken("scale_misses", given)
    check_file(out, READABLE, [trace])
    from ..api.scaling import scale_misses

    _write(scale_misses(trace, **asked), out, as_json)


def _write(rows: Any, out: Path, as_json: bool) -> None:
    import pyarrow as pa

    from ..output import write_table
    from ..report.scaling import rows_document
    from ..report.terminal import show

    write_table(pa.Table.from_pandas(rows, preserve_index=False), out, "{}")
    show(rows_document(rows), out, as_json=as_json)


for word in ("predict", "terms", "devices", "facts"):
    app.command(word)(opt.run_command(derive(f"scale {word}")))
app.command("configs")(opt.run_command(configs_command))
app.command("counters")(opt.run_command(counters_command))
app.command("misses")(opt.run_command(misses_command))

"""Performance over the size of a GPU: ``python scale.py runs.csv --fit 8,16 --target 128`` predicts it.

Four commands in one: ``predict`` (a table, or values stated one by one), ``devices`` (measured runs at several sizes),
``facts`` (the published results reproduced) and ``configs`` (scale models of a GPU). The first three need no name:
``--devices`` tells measured runs, a file or ``--fit`` a prediction, and nothing at all the published results.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Annotated, Any, Literal

import typer
from typer.core import TyperGroup

from ..api.tables import load_measurements
from ..datasets import DEFAULT_HOST, DEFAULT_TARGET
from ..errors import DataError
from ..hardware import find
from ..hardware.scaled import scale_models
from ..output import check_output, dumps, write_texts
from ..report.console import output, say_written
from ..report.device_sizes import devices_json, show_devices
from ..report.scale_models import configuration_table, configurations_json
from ..report.scaling import predictions_json, published_json, published_table, show_predictions, trial_table
from ..report.scaling_page import devices_html, predictions_html
from ..scaling.curves import SCENARIOS, CurveTable, read_curves, sizes_beyond, stated
from ..scaling.devices import DeviceScaling, assess_devices
from ..scaling.prediction import SizePredictions, predict_sizes
from ..scaling.trials import published_trials, reproduction
from .options import (
    GroupOption,
    JsonOption,
    LevelOption,
    SeedOption,
    SetOption,
    UnitOption,
    WhereOption,
    parse_counts,
    parse_defaults,
    parse_group,
    parse_names,
    parse_numbers,
    parse_units,
    parse_where,
    run_command,
)

FILES = ("scale.json", "scale.html")

OutOption = Annotated[Path | None, typer.Option("--out", "-o", help="Folder for scale.json and scale.html.")]


def scale(
    data: Path | CurveTable,
    fit: Sequence[float],
    targets: Sequence[float] | None = None,
    *,
    laws: Sequence[str] | None = None,
    where: Mapping[str, Sequence[str]] | None = None,
    scenario: str = "strong",
    level: float = 0.9,
) -> SizePredictions:
    """Fit the scaling laws to the small sizes of each benchmark and predict the larger ones.

    Parameters
    ----------
    data : path or CurveTable
        Table of benchmark, size and performance (`scaling.curves`), or one that is already read.
    fit : sequence of float
        Sizes to fit, two or more, increasing.
    targets : sequence of float, optional
        Sizes to predict; by default every measured size beyond those to fit.
    laws : sequence of str, optional
        Names; all by default.
    where : mapping of str to sequence of str, optional
        Column -> accepted values; only these rows count.
    scenario : str
        ``strong``, ``weak`` or ``chiplets``, of rows that state none.
    level : float
        Of the intervals.

    Raises
    ------
    DataError
        If the table, the sizes or a name cannot be used.
    """
    table = data if isinstance(data, CurveTable) else read_curves(data, where, scenario)
    if targets is None:
        targets = list(sizes_beyond(table.curves, fit))
        if not targets:
            raise DataError(f"nothing was measured beyond {max(fit):g}: say with --target what to predict")
    return predict_sizes(table, fit, targets, laws=laws, level=level)


def scale_devices(
    data: Sequence[Path | str] | None,
    devices: Sequence[str],
    *,
    where: Mapping[str, Sequence[str]] | None = None,
    group: Sequence[str] | None = None,
    units: Mapping[str, str] | None = None,
    defaults: Mapping[str, str] | None = None,
    margin: float = 0.10,
    replicates: int = 2000,
    seed: int = 0,
) -> DeviceScaling:
    """Say how measured kernels scale from the smallest device to larger ones of the same architecture.

    Parameters
    ----------
    data : sequence of path or None
        Measured files and folders of any supported format; None: the embedded measurements.
    devices : sequence of str
        Names or TOML files of two devices or more; their compute units are the sizes.
    where, group, units, defaults, margin, replicates, seed
        As for ``validate``.

    Raises
    ------
    FlopcastError
        If the data or the devices cannot be used.
    """
    if not 0 < margin < 1:
        raise DataError(f"--margin must lie between 0 and 1, got {margin:g}: 0.1 means ±10 %")
    gpus = [find(name) for name in devices]
    read = load_measurements(data, where, units, defaults, [gpu.name for gpu in gpus])
    return assess_devices(
        read.frame, gpus, group=group, margin=margin, replicates=replicates, seed=seed, notes=read.notes
    )


class _Group(TyperGroup):
    """Commands of which the first word may be left out."""

    def parse_args(self, ctx: Any, args: list[str]) -> list[str]:
        """Put the command in front that the arguments speak of, unless they name one."""
        named = args and (args[0] in self.commands or args[0] in ctx.help_option_names)
        return super().parse_args(ctx, args if named else [_meant(args), *args])


def _meant(args: Sequence[str]) -> str:
    options = {arg.split("=")[0] for arg in args if arg.startswith("--")}
    if "--devices" in options:
        return "devices"
    return "facts" if options <= {"--json"} and set(args) <= options else "predict"


app = typer.Typer(
    cls=_Group,
    help="Predict performance at other sizes (SMs, CUs, chiplets) from small scale models; `flopcast scale` alone "
    "reproduces the published results.",
    add_completion=False,
    pretty_exceptions_enable=False,
)


def predict_command(
    file: Annotated[
        Path | None, typer.Argument(metavar="[FILE]", help="CSV or Parquet with benchmark, size and performance.")
    ] = None,
    fit: Annotated[str | None, typer.Option(metavar="SIZE,SIZE[,...]", help="Sizes to fit, two or more.")] = None,
    target: Annotated[
        str | None, typer.Option(metavar="SIZE[,...]", help="Sizes to predict. Default: the measured ones beyond.")
    ] = None,
    law: Annotated[str | None, typer.Option(metavar="NAME[,NAME]", help="Laws to fit. Default: all.")] = None,
    performance: Annotated[
        str | None, typer.Option(metavar="VALUE,VALUE[,...]", help="Performance at each size of --fit, for no file.")
    ] = None,
    mpki: Annotated[
        str | None, typer.Option(metavar="VALUE,...", help="Miss rates at each size of --fit, or of --target too.")
    ] = None,
    f_mem: Annotated[float | None, typer.Option(help="Share of the time that waits for memory, 0 to 1.")] = None,
    scenario: Annotated[str, typer.Option(help=f"Of rows that state none: {', '.join(SCENARIOS)}.")] = "strong",
    where: WhereOption = None,
    level: LevelOption = 0.9,
    out: OutOption = None,
    as_json: JsonOption = False,
) -> None:
    """Predict larger sizes from small ones, benchmark by benchmark; needs no name in front of FILE."""
    if out is not None:
        check_output(out, FILES)
    sizes = parse_numbers(fit, "--fit", "8,16")
    if sizes is None:
        raise DataError("which sizes are the scale models? give --fit, e.g. --fit 8,16")
    targets = parse_numbers(target, "--target", "128")
    values = parse_numbers(performance, "--performance", "120.5,238"), parse_numbers(mpki, "--mpki", "1.7,1.6")
    data = _input(file, sizes, targets, scenario, *values, f_mem)
    result = scale(
        data,
        sizes,
        targets,
        laws=parse_names(law, "--law", "proportional"),
        where=parse_where(where),
        scenario=scenario,
        level=level,
    )
    text = dumps(predictions_json(result), missing=True)
    if out is not None:
        write_texts(out, {FILES[0]: text, FILES[1]: predictions_html(result)})
    if as_json:
        print(text, end="")
        return
    console = output()
    show_predictions(console, result)
    _say_written(out)


def devices_command(
    data: Annotated[
        list[Path] | None,
        typer.Argument(metavar="[DATA]...", help="Measured files and folders. None: the embedded measurements."),
    ] = None,
    devices: Annotated[
        str | None, typer.Option(metavar="NAME,NAME[,...]", help="Devices of one architecture: names or TOML files.")
    ] = None,
    where: WhereOption = None,
    group: GroupOption = None,
    margin: Annotated[float, typer.Option(help="What counts as the same: 0.1 = within ±10 %.")] = 0.10,
    out: OutOption = None,
    seed: SeedOption = 0,
    as_json: JsonOption = False,
    unit: UnitOption = None,
    set_: SetOption = None,
) -> None:
    """Say how measured kernels scale with the compute units, from device to device; --devices tells it from predict."""
    if out is not None:
        check_output(out, FILES)
    names = parse_names(devices, "--devices", f"{DEFAULT_HOST},{DEFAULT_TARGET}")
    if names is None:
        names = [] if data else [DEFAULT_HOST, DEFAULT_TARGET]
    result = scale_devices(
        data,
        names,
        where=parse_where(where),
        group=parse_group(group),
        units=parse_units(unit),
        defaults=parse_defaults(set_),
        margin=margin,
        seed=seed,
    )
    text = dumps(devices_json(result), missing=True)
    if out is not None:
        write_texts(out, {FILES[0]: text, FILES[1]: devices_html(result)})
    if as_json:
        print(text, end="")
        return
    show_devices(output(), result)
    _say_written(out)


def facts_command(as_json: JsonOption = False) -> None:
    """Reproduce the published results from the published data; this is what `flopcast scale` alone does."""
    found, trials = reproduction(), published_trials()
    if as_json:
        print(dumps(published_json(found, trials), missing=True), end="")
        return
    console = output()
    console.print(published_table(found))
    console.print(trial_table(trials))


def configs_command(
    gpu: Annotated[str, typer.Argument(help="A name or a TOML file.")],
    sizes: Annotated[
        str | None,
        typer.Option(metavar="SIZE[,...]", help="Sizes. Default: the whole GPU, halved as often as it goes."),
    ] = None,
    by: Annotated[Literal["cus", "chiplets"], typer.Option(help="What the sizes count.")] = "cus",
    as_json: JsonOption = False,
) -> None:
    """Derive scale models of a GPU: shared resources in proportion to the number of its compute units."""
    base = find(gpu)
    models = scale_models(base, parse_counts(sizes, "--sizes", "38,76"), by)
    if as_json:
        print(dumps(configurations_json(models, base), missing=True), end="")
    else:
        output().print(configuration_table(models, base))


app.command("predict")(run_command(predict_command))
app.command("devices")(run_command(devices_command))
app.command("facts")(run_command(facts_command))
app.command("configs")(run_command(configs_command))


def _input(
    file: Path | None,
    sizes: list[float],
    targets: list[float] | None,
    scenario: str,
    performance: list[float] | None,
    mpki: list[float] | None,
    f_mem: float | None,
) -> Path | CurveTable:
    """Return the file, or the table of the values stated."""
    if scenario not in SCENARIOS:
        raise DataError(f"--scenario must be one of {', '.join(SCENARIOS)}, got {scenario!r}")
    if file is not None:
        if performance or mpki or f_mem is not None:
            raise DataError("--performance, --mpki and --f-mem state values: leave them out where a file gives them")
        return file
    if performance is None:
        raise DataError("what was measured? give a file, or --performance with a value for each size of --fit")
    return stated(sizes, performance, targets or (), mpki=mpki, f_mem=f_mem, scenario=scenario)


def _say_written(out: Path | None) -> None:
    if out is not None:
        say_written(output(), *(out / name for name in FILES))

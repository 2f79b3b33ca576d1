"""The command ``flopcast``: train, predict and validate as subcommands, and the tools beside them."""

from __future__ import annotations

import sys
from typing import Annotated

import typer

from .. import __version__
from ..hardware import all_gpus, find
from ..output import dumps
from ..report.console import output
from ..report.gpus import compare_table, gpu_table, gpus_json, show_sources
from . import clean, fidelity, ingest, measure, power, predict, project, scale, train, validate
from .options import JsonOption, run_command

app = typer.Typer(
    name="flopcast",
    help="Predict GPU kernel times on other GPUs, at other sizes and for new workloads, from measured profiles.",
    no_args_is_help=True,
    add_completion=False,
    pretty_exceptions_enable=False,
)
app.command("train")(run_command(train.command))
app.command("predict")(run_command(predict.command))
app.command("validate")(run_command(validate.command))
app.command("ingest")(run_command(ingest.command))
app.command("measure")(run_command(measure.command))
app.command("clean")(run_command(clean.command))
app.add_typer(scale.app, name="scale")
app.add_typer(power.app, name="power")
app.command("project")(run_command(project.command))
app.command("fidelity")(run_command(fidelity.command))


def gpus(
    names: Annotated[list[str] | None, typer.Argument(metavar="[NAME]...", help="GPUs to compare.")] = None,
    with_sources: Annotated[
        bool, typer.Option("--sources", help="Say where the figures come from, and what others have measured.")
    ] = False,
    as_json: JsonOption = False,
) -> None:
    """List the known GPUs, or compare some figure by figure.

    A name is a GPU's name or alias, or a TOML file with a GPU of your own, such as:

        name = "MI375X"

        based_on = "MI355X"

        memory_bw_gbs = 10000

    Keys are those of hardware/gpus.toml, the unit in the key; with based_on the rest is taken from a known GPU. The
    same file is accepted wherever a GPU is named (--host, --target). --json always names sources.
    """
    chosen = [find(name) for name in names] if names else all_gpus()
    if as_json:
        print(dumps(gpus_json(chosen), missing=True), end="")
    elif with_sources:
        show_sources(output(), chosen)
    elif names:
        output().print(compare_table(*chosen))
    else:
        output().print(gpu_table(chosen))


app.command("gpus")(run_command(gpus))


def _version(wanted: bool) -> None:
    if wanted:
        print(f"flopcast {__version__}")
        raise typer.Exit


@app.callback()
def _common(
    version: Annotated[bool, typer.Option("--version", callback=_version, is_eager=True, help="Print the version.")] = (
        False
    ),
) -> None:
    """Options of the command itself."""


def main() -> None:
    """Run the command line."""
    app()


def script(name: str) -> None:
    """Run one command, as a script of its name does."""
    app([name, *sys.argv[1:]], prog_name=f"{name}.py")

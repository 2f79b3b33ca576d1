"""The command ``flopcast``: train, predict and validate as subcommands, and the tools beside them."""

from __future__ import annotations

import sys
from typing import Annotated

import typer

from .. import __version__
from . import clean, fidelity, gpus, ingest, measure, power, predict, project, scale, train, validate
from .options import run_command

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


app.command("gpus")(run_command(gpus.command))


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

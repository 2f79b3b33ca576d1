"""The GPUs of the catalogue: ``flopcast gpus`` lists them, ``flopcast gpus MI300X MI355X`` compares two."""

from __future__ import annotations

from typing import Annotated

import typer

from ..hardware import all_gpus, find
from . import options as opt

PLACE = 210
EXAMPLES = ("flopcast gpus MI300X MI355X",)


def command(
    names: Annotated[
        list[str] | None,
        typer.Argument(metavar="NAME", help="GPUs to compare.", autocompletion=opt.gpu_names),
    ] = None,
    sources: Annotated[
        bool,
        opt.option(
            "Say where the figures come from, and what others have measured.", spelt="--sources"
        ),
    ] = False,
    as_json: opt.JsonOption = False,
) -> None:
    """List the known GPUs, or compare some figure by figure.

    A name is a GPU's name or alias, or a TOML file with your GPU, such as:

        name = "MI375X"

        based_on = "MI355X"

        memory_bw_gbs = 10000

    Keys are those of hardware/gpus.toml, the unit in the key; with based_on the rest is taken from
    a known GPU. The same file is accepted wherever you name a GPU (--host, --target, predict
    --default device=FILE); data open none. --json always names sources.
    """
    if names:
        chosen = [find(name) for name in names]
    else:
        chosen = all_gpus()
    from ..report.reference import gpus_document
    from ..report.terminal import show

    document = gpus_document(chosen, compared=bool(names), with_sources=sources)
    show(document, as_json=as_json)

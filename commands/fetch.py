"""Public tables to try: ``flopcast fetch aiter`` prints the folder that holds them, fetched the first time."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from ..datasets.fetching import SOURCES, fetch
from ..output import dumps
from .options import JsonOption, QuietOption, announce

OPTIONS = {"name": "NAME"}


def command(
    name: Annotated[str, typer.Argument(metavar="NAME", help="aiter (MI300X, MI355X) or miopen (MI100 to MI300X).")],
    cache: Annotated[
        Path | None, typer.Option(metavar="FOLDER", help="Where they are kept. Default: $FLOPCAST_CACHE, or ~/.cache.")
    ] = None,
    as_json: JsonOption = False,
    quiet: QuietOption = False,
) -> None:
    """Bring public tables to try (AITER's kernels, MIOpen's convolutions) to a cache, and print their folder."""
    announce(f"fetching {name}", quiet=quiet)
    folder = fetch(name, cache)
    if as_json:
        print(dumps({"folder": folder, "url": SOURCES[name].url, "commit": SOURCES[name].commit}), end="")
    else:
        print(folder)

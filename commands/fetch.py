"""Public tables to try: ``flopcast fetch aiter`` prints the folder that holds them, fetched the first time."""

from __future__ import annotations

import sys
from collections import Counter
from collections.abc import Mapping
from pathlib import Path
from typing import Annotated, Any

import typer

from ..output import dumps
from ..remarks import visible
from . import options as opt

PLACE = 190
EXAMPLES = ("flopcast fetch aiter",)


def command(
    name: Annotated[
        str,
        typer.Argument(
            metavar="NAME",
            help="aiter (MI300X, MI355X), miopen (MI100 to MI300X) or aiconfigurator (A100 to GB300, Intel's B60).",
        ),
    ],
    cache: Annotated[
        Path | None,
        opt.option("Where they are kept.", "FOLDER", shown="$FLOPCAST_CACHE, or ~/.cache"),
    ] = None,
    wheel: Annotated[
        Path | None,
        opt.option("The wheel with the tables, brought by hand: needs no network.", "FILE.whl"),
    ] = None,
    as_json: opt.JsonOption = False,
    quiet: opt.QuietOption = False,
) -> None:
    """Bring public tables to try (of AITER, MIOpen, AIConfigurator) to a cache, and print their folder.

    aiter and miopen come from their repositories by git. Where AITER's cannot
    be had, a wheel brings an earlier and smaller state of its tables;
    aiconfigurator (82 MB) is always out of a wheel. pip downloads it with its
    own settings of index and proxy; it must have the pinned SHA-256, and
    nothing in it is installed or run. What came, and from where, is said on
    standard error: `$(flopcast fetch aiter)` is the folder alone.
    """
    opt.announce(f"fetching {name}", quiet=quiet)
    from ..datasets.fetching import fetch  # here: the options are known before

    fetched = fetch(name, cache=cache, wheel=wheel)
    if as_json or not quiet:
        from ..api.fetching import counted

        told = counted(name, fetched)
        if as_json:
            print(dumps(told), end="")
            return
        print(visible(f"{name}: {_origin(told)}\n{_contents(told)}"), file=sys.stderr)
    print(fetched.folder)


def _origin(told: Mapping[str, Any]) -> str:
    if "url" in told:
        return f"the repository {told['url']} at {told['commit'][:12]}"
    wheel = f"the wheel {told['project']} {told['version']} ({told['licence']})"
    if told["missed"]:
        return f"{wheel}, as the full repository cannot be had ({told['missed']})"
    if told["instead"]:
        return f"{wheel} in place of the full repository"
    return wheel


def _contents(told: Mapping[str, Any]) -> str:
    if "files" in told:
        return f"{told['files']} files"
    if "tables" not in told:
        total = sum((Counter(one) for one in told["rows"].values()), Counter())
        lines = [f"  {kind}: {_by_device(one)}" for kind, one in told["rows"].items()]
        return "\n".join([f"{total.total():,} rows: {_by_device(total)}", *lines])
    return (
        f"{told['tables']:,} tables with {told['rows']:,} rows, of {len(told['devices'])} devices "
        f"({', '.join(told['devices'])}) and {len(told['engines'])} engines and libraries of "
        "collectives "
        f"({', '.join(told['engines'])}); {told['runs']:,} runs; configurations of "
        f"{told['models']} models"
    )


def _by_device(rows: Mapping[str, int]) -> str:
    return ", ".join(f"{device} {count:,}" for device, count in sorted(rows.items()))

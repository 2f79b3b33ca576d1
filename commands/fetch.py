"""Public tables to try: ``flopcast fetch aiter`` prints the folder that holds them, fetched the first time."""

from __future__ import annotations

import sys
from collections import Counter
from collections.abc import Mapping
from typing import Annotated, Any

import typer

from ..output import dumps
from ..remarks import visible
from . import options as opt
from .derived import as_taken, with_options_of

PLACE = 190
EXAMPLES = ("flopcast fetch aiter",)


@with_options_of("fetch", {}, ("name",))
def command(
    name: Annotated[
        str,
        typer.Argument(
            metavar="NAME",
            help="aiter (MI300X, MI355X), miopen (MI100 to MI300X) or aiconfigurator (A100 to GB300, Intel's B60).",
        ),
    ],
    *,
    as_json: opt.JsonOption = False,
    quiet: opt.QuietOption = False,
    **given: Any,
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
    from ..datasets.fetching import fetch  # here: the options are read before

    fetched = fetch(name, **as_taken("fetch", given))
    if as_json or not quiet:
        from ..api.fetching import counted

        counts = counted(name, fetched)
        if as_json:
            print(dumps(counts), end="")
            return
        print(visible(f"{name}: {_origin(counts)}\n{_contents(counts)}"), file=sys.stderr)
    print(fetched.folder)


def _origin(counts: Mapping[str, Any]) -> str:
    if "url" in counts:
        return f"the repository {counts['url']} at {counts['commit'][:12]}"
    wheel = f"the wheel {counts['project']} {counts['version']} ({counts['licence']})"
    if counts["missed"]:
        return f"{wheel}, as the full repository cannot be had ({counts['missed']})"
    if counts["instead"]:
        return f"{wheel} in place of the full repository"
    return wheel


def _contents(counts: Mapping[str, Any]) -> str:
    if "files" in counts:
        return f"{counts['files']} files"
    if "tables" not in counts:
        total = sum((Counter(one) for one in counts["rows"].values()), Counter())
        lines = [f"  {kind}: {_by_device(one)}" for kind, one in counts["rows"].items()]
        return "\n".join([f"{total.total():,} rows: {_by_device(total)}", *lines])
    return (
        f"{counts['tables']:,} tables with {counts['rows']:,} rows, of {len(counts['devices'])} devices "
        f"({', '.join(counts['devices'])}) and {len(counts['engines'])} engines and libraries of "
        "collectives "
        f"({', '.join(counts['engines'])}); {counts['runs']:,} runs; configurations of "
        f"{counts['models']} models"
    )


def _by_device(rows: Mapping[str, int]) -> str:
    return ", ".join(f"{device} {count:,}" for device, count in sorted(rows.items()))

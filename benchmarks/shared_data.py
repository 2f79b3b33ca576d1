"""Benchmarks on measured data that are not part of the repository: where they lie, and what is said without them."""

from __future__ import annotations

import argparse
import sys
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path

from ..errors import FlopcastError

SHARED_DATA = Path(__file__).resolve().parents[1].parent / "shared" / "data"


def run_on_data(
    name: str,
    description: str | None,
    show: Callable[[argparse.Namespace], None],
    arguments: Sequence[str] | None = None,
    flags: Mapping[str, str] | None = None,
    paths: Mapping[str, str] | None = None,
) -> int:
    """Run a benchmark as ``python -m flopcast.benchmarks.NAME`` does; return its exit code.

    Parameters
    ----------
    name : str
        The module's.
    description : str or None
        Of the help text.
    show : callable
        Prints the results; called with the options, among them ``data``, a folder that exists.
    arguments : sequence of str, optional
        By default those of the process.
    flags : mapping of str to str, optional
        Flag, with its dashes -> help.
    paths : mapping of str to str, optional
        File, or option that names one (with its dashes; None where it is not given) -> help.

    Returns
    -------
    int
        0, also where there is nothing to measure against; 2 where the data cannot be used.
    """
    parser = argparse.ArgumentParser(
        prog=f"python -m flopcast.benchmarks.{name}", description=description
    )
    parser.add_argument("--data", type=Path, default=SHARED_DATA, help="folder of measured data")
    for flag, words in (flags or {}).items():
        parser.add_argument(flag, action="store_true", help=words)
    for path, words in (paths or {}).items():
        parser.add_argument(path, type=Path, help=words)
    options = parser.parse_args(arguments)
    if not options.data.is_dir():
        print(f"skipped: the measured data ({options.data}) are not on this machine")
        return 0
    try:
        show(options)
    except (FlopcastError, OSError) as error:
        print(error, file=sys.stderr)
        return 2
    return 0

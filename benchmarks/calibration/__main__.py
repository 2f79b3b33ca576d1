"""Print every cell of the laboratory: ``python -m flopcast.benchmarks.calibration [--sets N] [--quick] [CELL ...]``."""

from __future__ import annotations

import argparse
import time
from collections.abc import Callable, Sequence
from typing import Final

from ..shared_data import SHARED_DATA
from .families import unstated
from .measured import alone
from .more_rows import more_rows
from .other_pairs import other_pairs
from .rows import Rows
from .selection import (
    campaigns_of_four,
    compared_runs,
    equal_models,
    honest_interval,
    one_large_group,
    repeated_rows,
    seeds_of_the_demo,
    stopped_models,
)
from .spread import another_campaign, beyond_the_range, new_groups, trained
from .verdicts import (
    check_campaigns,
    check_unequal,
    check_verdicts,
    scaling_campaigns,
    scaling_verdicts,
    significant_features,
)
from .whole_runs import corrected_runs, made_up_runs, real_runs

CELLS: Final[dict[Callable[[int, int], Rows], int]] = {
    honest_interval: 200,
    equal_models: 200,
    compared_runs: 200,
    campaigns_of_four: 100,
    new_groups: 200,
    another_campaign: 200,
    scaling_verdicts: 200,
    scaling_campaigns: 200,
    check_verdicts: 200,
    check_campaigns: 200,
    check_unequal: 60,
    significant_features: 200,
    repeated_rows: 30,
    one_large_group: 30,
    made_up_runs: 4,
    real_runs: 3,
    corrected_runs: 4,
    other_pairs: 3,
    more_rows: 2,
    unstated: 60,
    trained: 12,
    beyond_the_range: 20,
    seeds_of_the_demo: 6,
    stopped_models: 1,
}
"""What is measured -> the most sets of it: those that train take seconds a set."""
QUICK: Final = 4


def main(arguments: Sequence[str] | None = None) -> None:
    """Print the rows of the cells asked for, with the CPU time of each cell."""
    names = {cell.__name__: cell for cell in CELLS}
    parser = argparse.ArgumentParser(
        prog="python -m flopcast.benchmarks.calibration", description=__doc__
    )
    parser.add_argument(
        "cells",
        nargs="*",
        metavar="CELL",
        help=f"one of {', '.join([*names, 'alone'])}; all by default",
    )
    parser.add_argument("--sets", type=int, default=200, help="sets of data a cell, at most")
    parser.add_argument("--quick", action="store_true", help=f"{QUICK} sets a cell")
    parser.add_argument("--seed", type=int, default=0)
    options = parser.parse_args(arguments)
    sets = QUICK if options.quick else options.sets
    if unknown := set(options.cells) - {*names, "alone"}:
        parser.error(f"there is no cell {sorted(unknown)[0]}")
    for name, cell in names.items():
        if name in (options.cells or names):
            _show(cell(min(sets, CELLS[cell]), options.seed), name)
    if "alone" in (options.cells or ["alone"]):
        if SHARED_DATA.is_dir():
            _show(alone(SHARED_DATA, options.seed), "alone")
        else:
            print(f"alone: skipped, the measured data ({SHARED_DATA}) are not on this machine")


def _show(rows: Rows, name: str) -> None:
    start = time.process_time()
    for row in rows:
        print(row, flush=True)
    print(f"{name}: {time.process_time() - start:.0f} CPU seconds", flush=True)


if __name__ == "__main__":
    main()

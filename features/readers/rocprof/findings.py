"""What is wrong with the tables of rocprof and rocprofiler-compute, in words."""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np

from ....errors import few
from ...dispatches.table import Finding, Severity
from .csv_files import DispatchTable
from .times import Times

NAMED = 3
"""Names in a message."""
_WIDE = 0.1  # spread between passes from which counters of one row hardly describe one execution


def spoiled_timestamps(times: Times, table: DispatchTable, remedy: str = "export the data again") -> list[Finding]:
    """Return a finding if stamps have lost their digits to a spreadsheet."""
    if not times.spoiled.any():
        return []
    message = f"timestamps written with an exponent, as a spreadsheet saves them: their last digits are lost; {remedy}"
    where = f"{table.label}:{table.lines[int(times.spoiled.argmax())]}"
    return [Finding("spoiled-timestamps", "error", message, int(times.spoiled.sum()), source=where)]


def left_out(times: Times, table: DispatchTable) -> list[Finding]:
    """Return a finding if rows have no time."""
    if times.known.all():
        return []
    where = f"{table.label}:{table.lines[int(times.known.argmin())]}"
    message = "dispatches whose start or end is no number: left out"
    return [Finding("unreadable-times", "error", message, int((~times.known).sum()), source=where)]


def without_times(count: int, label: str) -> Finding:
    """Return the finding that a file has counters and no times."""
    message = "dispatches with counters but no times: give the timing run of the same program with them"
    return Finding("counters-without-times", "warning", message, count, source=label)


def unmatched(rows: np.ndarray, others: int, label: str) -> list[Finding]:
    """Return a finding if dispatches of one pass are not those of the other.

    Parameters
    ----------
    rows : ndarray of int
        For each dispatch the row of the other file, -1 for none.
    others : int
        Number of rows of the other file.
    label : str
        The other file.
    """
    here, there = int((rows < 0).sum()), others - int((rows >= 0).sum())
    if not here and not there:
        return []
    message = f"dispatches that the passes do not share ({here} not in this file, {there} only here): no counters there"
    return [Finding("unmatched-pass", "warning", message, here + there, source=label)]


def replay_spread(spread: Mapping[str, float], label: str) -> list[Finding]:
    """Return a finding if passes that recorded the same thing disagree."""
    differ = {name: value for name, value in spread.items() if value > 0}
    if not differ:
        return []
    worst = sorted(differ, key=lambda name: -differ[name])
    listed = few((f"{name} {differ[name]:.1%}" for name in worst), NAMED)
    message = f"quantities that differ between replay passes of a dispatch, by at most: {listed}; the first is used"
    severity: Severity = "warning" if differ[worst[0]] > _WIDE else "info"
    return [Finding("replay-spread", severity, message, len(differ), source=label)]


def channels_missing(found: Mapping[str, tuple[int, int]], label: str) -> list[Finding]:
    """Return a finding if sums over channels are not over all of them.

    Parameters
    ----------
    found : mapping of str to (int, int)
        Counter -> channels recorded, channels there are.
    label : str
        The file.
    """
    short = {name: numbers for name, numbers in found.items() if numbers[0] < numbers[1]}
    if not short:
        return []
    listed = few((f"{name} {have} of {all_}" for name, (have, all_) in short.items()), NAMED)
    message = f"counters recorded on some channels only ({listed}): their sums are of these channels"
    return [Finding("channels-missing", "warning", message, len(short), source=label)]

"""What the findings on a trace mean for an answer that is made of it.

A finding of severity *warning* or *error* belongs in the first lines of every answer (`doubts_of`).
Two kinds change how sure the answer can be: activities that ran and have no time in the trace
(`MISSING`), and times that must not be trusted (`UNTRUSTED`, and every other error). `Doubts.reach`
is what they add to an interval, and `check_whole` refuses a trace of which most is missing.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Final

from ..errors import DataError
from ..remarks import Remark
from .dispatches import KERNEL, Finding
from .quality import IMPOSSIBLE, impossible
from .summary import Annotated, trace_finding

UNRECORDED: Final = frozenset(
    {
        "broken-lines",
        "counters-without-times",
        "dropped-dispatches",
        "graph-as-a-whole",
        "long-name",
        "no-duration",
        "no-time",
        "truncated",
        "unreadable-lines",
        "unreadable-times",
    }
)
"""Codes of findings that count activities which ran and are not in the trace."""
MISSING: Final = UNRECORDED | frozenset(IMPOSSIBLE)
"""These, and those of activities whose time cannot be: they are left out."""
UNTRUSTED: Final = frozenset({"repeated-dispatch"})
"""Codes of warnings that count activities whose times do not add up to those of the run."""
OTHER_THAN_TIMES: Final = frozenset({"unreadable-execution-trace"})
"""Codes of errors that say nothing of times."""
MOST: Final = 0.5
"""Share of the work of a trace from which on what is missing is more than what is there."""


@dataclass(frozen=True)
class Doubts:
    """The missing and untrusted shares of a trace, and its findings, the gravest first."""

    missing: float = 0.0  # share of the activities that ran, 0 to 1
    untrusted: float = 0.0  # share of those in the trace
    remarks: tuple[Remark, ...] = ()  # ``trace-finding``

    @property
    def reach(self) -> float:
        """Logarithm of the largest ratio of the trace's time to that of the whole, on either side.

        Where a share s is missing, the whole is up to 1 / (1 - s) times what was recorded.
        """
        return -sum(math.log1p(-min(share, 1 - 1e-9)) for share in (self.missing, self.untrusted))


NO_DOUBTS: Final = Doubts()


def doubts_of(trace: Annotated, label: str = "") -> Doubts:
    """Return the meaning of a trace's warnings and errors for answers; ``label`` is its name in remarks."""
    table = trace.dispatches
    possible = impossible(table) == ""
    kernels = int(((table["kind"] == KERNEL).to_numpy() & possible).sum())
    recorded = kernels or int(possible.sum())
    present = 1.0
    trusted = 1.0
    remarks = []
    for finding in trace.findings:
        if finding.severity == "info":
            continue
        remarks.append(trace_finding(label, finding))
        if finding.code in MISSING:
            present *= 1 - _missing_share(finding, recorded)
        elif finding.code in UNTRUSTED or _is_error_of_times(finding):
            share = finding.share
            if share is None:
                share = min(finding.count / max(recorded, 1), 1.0)
            trusted *= 1 - share
    return Doubts(1 - present, 1 - trusted, tuple(remarks))


def check_whole(trace: Annotated, label: str) -> None:
    """Raise a DataError where most of the activities of a trace are missing (`MOST`)."""
    doubts = doubts_of(trace)
    if doubts.missing > MOST:
        why = [finding for finding in trace.findings if finding.code in MISSING]
        reasons = "; ".join(f"{finding.count:,} {finding.remark}" for finding in why)
        share = math.floor(1000 * doubts.missing) / 10
        text = (
            f"{share:g} % of what ran is not in the trace ({reasons}): record all of it, its time is "
            "not known else"
        )
        raise DataError(text, source=label)


def _missing_share(finding: Finding, recorded: int) -> float:
    """Return the share of a finding in all activities: by time where possible, else by number."""
    if finding.share is None or finding.code in IMPOSSIBLE:  # damaged times have no share
        return finding.count / max(finding.count + recorded, 1)
    return finding.share


def _is_error_of_times(finding: Finding) -> bool:
    return finding.severity == "error" and finding.code not in OTHER_THAN_TIMES

"""Several traces cleaned together and summarised as measurements: repeated runs, or runs of one program to be joined.

Annotated traces enter `clean_traces`; rows of the measurement table leave it, one per kernel and problem or one per
epoch, with what was left out (`pipeline`), what the runs cover and how far their counters differ (`joining`).
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

import pandas as pd

from ...remarks import Remark, remark
from ...table.measurements import clean as usable
from ...table.measurements import count_reasons, fill_text
from ...table.problems import merge_duplicates
from ..dispatches import counters_of
from ..epochs import EpochRule, epochs, matching
from ..summary import Annotated, measurements
from .joining import Coverage, Joined, join_passes, merge_coverage
from .pipeline import Cleaned, CleanOptions, clean
from .repeats import OF_RUN, pool


@dataclass(frozen=True)
class CleanedTraces:
    """What cleaning made of several traces.

    `coverage` is there where a full list was given to prove it against, or runs were joined; `joined`, the counters of
    several passes, where these were joined.
    """

    sources: tuple[str, ...]
    cleaned: Cleaned  # all of them together; column `run` numbers them
    level: float  # of the intervals
    frame: pd.DataFrame  # the measurement table of what is left, or of its epochs
    rejected: pd.DataFrame  # its rows that are no measurements
    coverage: Coverage | None
    joined: Joined | None
    remarks: tuple[Remark, ...]  # ``cut-by-ranges``, what the readers remark, and what `joined` does
    unreadable: tuple[str, ...] = ()  # what was no trace, and why

    @property
    def rejected_by_reason(self) -> dict[str, int]:
        """Number of rows that are no measurements, for each reason."""
        return count_reasons(self.rejected)


def clean_traces(
    traces: Mapping[str, Annotated],
    options: CleanOptions,
    *,
    join: bool = False,
    full: pd.DataFrame | None = None,
    rule: EpochRule | None = None,
    campaigns: Mapping[str, str] | None = None,
    unreadable: tuple[str, ...] = (),
) -> CleanedTraces:
    """Clean traces together, and summarise what is left as measurements.

    Parameters
    ----------
    traces : mapping of str to Annotated
        Label -> trace; several are repeated runs.
    options : CleanOptions
        With a rule of epochs only the steps count: an epoch without some of its kernels is none, so outliers and
        warm-up stay in.
    join : bool
        The traces are runs of one program that profile different kernels or counters: they are matched kernel by
        kernel, must not contradict each other, and counters go to every run with times.
    full : DataFrame, optional
        Every kernel of the program (`joining.merge_coverage`).
    rule : EpochRule, optional
        A row for each epoch instead of each operator and shape.
    campaigns : mapping of str to str, optional
        Label -> name of the campaign in the table.
    unreadable : tuple of str
        Goes along.
    """
    if rule is not None:
        options = CleanOptions(None, options.steps, False, False, options.level)
    tables = {label: trace.dispatches for label, trace in traces.items()}
    coverage = merge_coverage(tables, full) if join or full is not None else None
    joined = join_passes(tables) if join and any(counters_of(table) for table in tables.values()) else None
    tables = tables if joined is None else joined.dispatches
    steps = pool([traces[label].steps for label in tables])
    cleaned = clean(pool(list(tables.values())), steps, options)
    kept = {label: _of_run(cleaned.dispatches, number) for number, label in enumerate(tables)}
    parts, remarks = [], list[Remark]()
    for label, own in kept.items():
        if own.empty:
            continue
        campaign, ranges = (campaigns or {}).get(label, ""), traces[label].ranges
        if rule is None:
            parts.append(measurements(Annotated(own, traces[label].steps, (), ()), campaign))
            continue
        parts.append(epochs(own, rule, campaign, ranges=ranges))
        if count := len(matching(ranges, rule)):
            remarks.append(remark("cut-by-ranges", label=label, rule=str(rule), matched=count, ranges=len(ranges)))
    rows = usable(pd.concat(parts, ignore_index=True))
    frame = fill_text(rows.frame) if rule is not None else _merged(rows.frame)
    remarks += [note for label in tables for note in traces[label].notes]
    remarks += [] if joined is None else joined.notes
    told = tuple(dict.fromkeys(remarks))
    return CleanedTraces(
        tuple(traces), cleaned, options.level, frame, rows.rejected, coverage, joined, told, unreadable
    )


def _of_run(dispatches: pd.DataFrame, number: int) -> pd.DataFrame:
    return dispatches[dispatches[OF_RUN] == number].drop(columns=OF_RUN).reset_index(drop=True)


def _merged(frame: pd.DataFrame) -> pd.DataFrame:
    """Return one row for each kernel on each problem, as `ingest` writes them."""
    return fill_text(merge_duplicates(fill_text(frame))) if len(frame) else frame

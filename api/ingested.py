"""What reading gave, for readers: rows by operator, traces, rows kept out, and what is doubtful."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

import pandas as pd

from ..errors import ParameterError, counted
from ..output import SCHEMA, dumps
from ..readers import Measurements
from ..readers.aiconfigurator import Surveyed
from ..remarks import Remark
from ..report.document import Document, footer
from ..report.html import page
from ..report.ingest import ingest_document, overview_json, profile_json, survey_json
from ..report.notebook import framed
from ..report.result import Result
from ..table.contents import Profile, profiles
from ..traces.summary import Overview

LISTED = 1000  # irregular rows that are listed; how many there are stands in a note


@dataclass(frozen=True)
class Ingested(Result):
    """What was read.

    Attributes
    ----------
    rows : int
        Rows of the table.
    traces : list of Overview
        One per trace.
    rejected : dict of str to int
        Rows kept out, by reason.
    notes : sequence of Remark
        Assumptions made, files skipped, repeats merged.
    unreadable : sequence of str
        Files that could not be read and why.
    profile : sequence of Profile
        What the table holds, by operator and number format.
    above_peak, examples : DataFrame
        Rows above a peak of their device; the first rejected rows of each reason (as of `read`).
    irregular : DataFrame
        Spikes, and problems whose repeats disagree (as of `read`), the farthest off first.
    tables : sequence of Surveyed
        Of AIConfigurator's tables, which are counted and not made into rows: what each holds.
    """

    rows: int
    traces: Sequence[Overview]
    rejected: Mapping[str, int]
    notes: Sequence[Remark]
    unreadable: Sequence[str]
    profile: Sequence[Profile] = ()
    above_peak: pd.DataFrame = field(default_factory=pd.DataFrame)
    examples: pd.DataFrame = field(default_factory=pd.DataFrame)
    irregular: pd.DataFrame = field(default_factory=pd.DataFrame)
    tables: Sequence[Surveyed] = ()

    def __repr__(self) -> str:
        held = [
            counted(self.rows, "row"),
            *([counted(len(self.traces), "trace")] if self.traces else []),
        ]
        lost = sum(self.rejected.values())
        return f"<Ingested: {', '.join([*held, *([f'{lost:,} rejected'] if lost else [])])}>"

    @property
    def table(self) -> pd.DataFrame:
        """What the measurement table holds: a row per operator and number format."""
        held = []
        for one in map(profile_json, self.profile):
            held.append(
                {
                    **{name: one[name] for name in ("op", "dtype", "rows")},
                    "devices": ", ".join(
                        f"{name} {count:,}" for name, count in one["devices"].items()
                    ),
                    "median_us": one["duration_us"]["median"],
                    **{
                        name: f"{size['min']:g} to {size['max']:g}"
                        for name, size in one["sizes"].items()
                    },
                }
            )
        return pd.DataFrame(held)

    def _repr_html_(self) -> str:
        traces = [f"trace {one.label}" for one in self.traces]
        return framed(repr(self)[1:-1], self.table, [*traces, *map(repr, self.notes)])

    def to_dict(self) -> dict[str, Any]:
        """Return it as JSON types."""
        return {
            "schema": SCHEMA,
            "rows": self.rows,
            "traces": [overview_json(trace) for trace in self.traces],
            "rejected": dict(self.rejected),
            "notes": [*map(repr, self.notes)],
            "unreadable": list(self.unreadable),
            "profile": [profile_json(one) for one in self.profile],
            "above_peak": self.above_peak.to_dict("records"),
            "rejected_rows": self.examples.to_dict("records"),
            "irregular": self.irregular.head(LISTED).to_dict("records"),
            **({"tables": survey_json(self.tables)} if self.tables else {}),
        }

    def document(self, held: str = "") -> Document:
        """Return it as terminals and pages show it; `held` says in words how much the table holds."""
        return ingest_document(
            self.traces,
            self.rejected,
            self.notes,
            self.unreadable,
            profile=self.profile,
            above_peak=self.above_peak,
            examples=self.examples,
            irregular=self.irregular.head(LISTED),
            tables=self.tables,
            held=held,
            data=self.to_dict(),
        )

    def report(self, made: Mapping[str, Any] | None = None) -> str:
        """Return the page, which names what it was ``made`` of, if given."""
        held = counted(self.rows, "measurement")
        ending = footer(made or {})
        return page(replace(self.document(held), title="What was read", lead=held, footer=ending))

    def to_json(self) -> str:
        """Return it as JSON."""
        return dumps(self.to_dict(), missing=True)

    def refuse_errors(self) -> None:
        """Raise for the first file that is unreadable or has a finding of severity error.

        Raises
        ------
        DataError
            It names the file, the finding, and how many more there are.
        """
        reasons = list(self.unreadable)
        for one in self.traces:
            for finding in one.errors:
                reasons.append(
                    f"{finding.source or one.label}: {finding.remark!r} ({finding.count})"
                )
        if reasons:
            if len(reasons) > 1:
                more = f" (and {len(reasons) - 1} more)"
            else:
                more = ""
            raise ParameterError("strict", f"refuses: {reasons[0]}{more}")


def ingested(measurements: Measurements) -> Ingested:
    """Return what measurements hold, for readers."""
    return Ingested(
        len(measurements.frame),
        measurements.traces,
        measurements.rejected_by_reason,
        measurements.notes,
        measurements.unreadable,
        profiles(measurements.frame, measurements.rows_before),
        measurements.above_peak,
        measurements.examples,
        measurements.irregular,
    )
